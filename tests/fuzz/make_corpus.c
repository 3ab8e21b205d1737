/* make_corpus.c - first inputs for the fuzzers, from the generators that tests use.   make_corpus FOLDER
 *
 * Writes FOLDER/NAME/seed-* for each fuzzer. `make fuzz-corpus` leaves of them what reaches something new.
 *
 * Relies on: gguf_tiny.h, random_graph.h, profile_synth.h. Must never: give other files from one run to the next. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include "../gguf_tiny.h"
#include "../profile_synth.h"
#include "../random_graph.h"
#include "y4m.h"

#include <sys/stat.h>

static const char *folder;

static void save(const char *fuzzer, const char *name, int32_t number, const void *data, size_t n, const void *more,
                 size_t n_more)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, fuzzer);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed-%s-%02d", folder, fuzzer, name, number);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n, file) != n || (n_more && fwrite(more, 1, n_more, file) != n_more) ||
        fclose(file) != 0) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
}

/* --- model files ------------------------------------------------------------------------------------------ */

enum { OPTION_BYTES = 48 };

/* A few ways to use a file: from memory, its own weights or made ones, streamed, through a reader. */
static const uint8_t *options_of(int32_t number)
{
    static uint8_t options[OPTION_BYTES];
    for (int32_t i = 0; i < OPTION_BYTES; i++)
        options[i] = (uint8_t)(check_random() >> 8);
    options[1] = (uint8_t)(number % 4 == 3 ? 130 : 0);
    return options;
}

/* An array of a node's, all nodes in a row. */
static void export_ints(forge *f, const char *key, const bs_graph *g, int32_t what)
{
    static int32_t list[1 << 14];
    size_t n = 0;
    for (int32_t k = 1; k < g->n_nodes; k++) {
        const bs_node *node = &g->nodes[k];
        const bs_op *op = bs_op_get(node->op);
        const int32_t *in = bs_node_in(g, node);
        if (what < 3)
            list[n++] = what == 0 ? node->n_in : what == 1 ? op->n_fields : node->block;
        for (int32_t i = 0; what == 3 && i < node->n_in; i++)
            list[n++] = in[i];
        for (int32_t i = 0; what == 4 && i < op->n_fields; i++)
            memcpy(&list[n++], (const char *)node->params + sizeof(char *) + 4 * (size_t)i, 4);
    }
    if (n)
        forge_i32s(f, key, list, n);
}

static void export_texts(forge *f, const char *key, const bs_graph *g, bool names)
{
    static const char *text[1024];
    for (int32_t n = 1; n < g->n_nodes; n++)
        text[n - 1] = names ? bs_node_name(&g->nodes[n]) : bs_op_get(g->nodes[n].op)->name;
    forge_strings(f, key, text, (size_t)g->n_nodes - 1);
}

static void export_symbols(forge *f, const bs_graph *g)
{
    const char *names[TEST_DIMS];
    int64_t maxima[TEST_DIMS];
    size_t n = 0;
    for (int32_t d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_SYMBOL) {
            names[n] = g->text + g->dims[d].name;
            maxima[n++] = g->dims[d].maximum;
        }
    if (n == 0)
        return;
    forge_strings(f, "brainstorm.symbol.name", names, n);
    forge_i64s(f, "brainstorm.symbol.maximum", T_I64, maxima, n);
}

static void export_blocks(forge *f, const bs_graph *g)
{
    static const int64_t none[TEST_DIMS];
    const char *names[TEST_DIMS];
    int32_t first[TEST_DIMS], end[TEST_DIMS], tensor[TEST_DIMS];
    const size_t n = (size_t)g->n_blocks;
    for (int32_t b = 0; b < g->n_blocks; b++) {
        names[b] = b ? g->text + g->blocks[b].name : "main";
        first[b] = b ? g->blocks[b].first_node - 1 : 0;
        end[b] = b ? g->blocks[b].end_node - 1 : g->n_nodes - 1;
        tensor[b] = -1;
    }
    forge_strings(f, "brainstorm.block.name", names, n);
    forge_i32s(f, "brainstorm.block.first_node", first, n);
    forge_i32s(f, "brainstorm.block.end_node", end, n);
    forge_i32s(f, "brainstorm.block.tensor", tensor, n);
    forge_i64s(f, "brainstorm.block.bytes", T_U64, none, n);
    forge_array(f, "brainstorm.block.crc32", T_U32, n);
    forge_put(f, none, 4 * n);
}

/* A graph as a model file without weights: fuzz_model makes them. */
static void export_graph(forge *f, const bs_graph *g)
{
    forge_begin(f);
    forge_key_string(f, "general.architecture", "brainstorm");
    forge_key_u32(f, "general.alignment", 8);
    forge_key_u32(f, "brainstorm.version", 2);
    forge_key_u32(f, "brainstorm.opset", 2);
    forge_key(f, "brainstorm.file.id", T_U64);
    forge_u64(f, 1);
    forge_key_u32(f, "brainstorm.value.count", (uint32_t)g->n_values - 1);
    export_symbols(f, g);
    export_texts(f, "brainstorm.node.op", g, false);
    export_texts(f, "brainstorm.node.name", g, true);
    export_ints(f, "brainstorm.node.inputs.count", g, 0);
    export_ints(f, "brainstorm.node.inputs", g, 3);
    export_ints(f, "brainstorm.node.params.count", g, 1);
    export_ints(f, "brainstorm.node.params", g, 4);
    export_ints(f, "brainstorm.node.block", g, 2);
    export_blocks(f, g);
    forge_pad(f, 8);
    forge_end(f);
}

static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

/* Every op once, which random graphs leave out: images of codes, attention, tables. */
static bs_graph *picture_net(void)
{
    bs_graph *g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 20), w = bs_symbol(g, "W", 20);
    const bs_value frame = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, h, w)),
                   before = bs_state(g, "before", BS_U8, BS_SHAPE3(1, h, w));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8});
    const bs_value old = bs_patches(g, before, &(bs_patches_desc){.like = cells});
    const bs_value features = bs_patch_features(g, cells, old, NULL);
    const bs_value energy = bs_slice(g, features, &(bs_slice_desc){.length = 1});
    const bs_router r = bs_route(
        g, energy, (bs_value){0},
        &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TABLE, .paths = 3, .keys = 64});
    bs_value out[3];
    for (int32_t p = 0; p < 3; p++) {
        static const char *const names[3] = {"a", "b", "c"};
        bs_block_begin(g, names[p]);
        bs_value x = bs_scatter(g, r, p, cells);
        if (p == 0) {
            out[0] = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
        } else {
            x = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_F32, .scale = 1 / 255.0f});
            x = p == 1
                    ? bs_conv2d(g, x, &(bs_conv2d_desc){.name = "one", .out = 4, .act = BS_PRELU, .batch_norm = 1})
                    : bs_deconv2d(
                          g, x,
                          &(bs_deconv2d_desc){
                              .name = "two", .out = 1, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1, .kernel = 4});
            x = p == 1 ? bs_pixel_shuffle(g, x, 2) : bs_activation(g, x, BS_GELU, 0);
            out[p] = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_U8, .scale = 255});
        }
        bs_block_end(g);
    }
    bs_state_write(g, before, frame);
    bs_output(g, "twice", bs_assemble(g, bs_gather(g, r, out, (bs_value){0}, NULL)));
    return g;
}

static bs_graph *text_net(void)
{
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", 24);
    const bs_value tokens = bs_input(g, "tokens", BS_I32, BS_SHAPE1(n)),
                   lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(3));
    const bs_value past = bs_input(g, "past", BS_I32, BS_SHAPE1(3));
    const bs_value k_cache = bs_state(g, "k", BS_F32, BS_SHAPE3(3, 8, 8)),
                   v_cache = bs_state(g, "v", BS_F32, BS_SHAPE3(3, 8, 8));
    const bs_value rows = bs_gather_rows(g, bs_constant(g, "table", BS_F32, BS_SHAPE2(5, 8)), tokens);
    bs_value x = bs_segments(g, rows, lengths), top;
    x = bs_layer_norm(g, x, &(bs_norm_desc){.name = "norm"});
    const bs_value q = bs_linear(g, x, &(bs_linear_desc){.name = "q", .out = 8}),
                   k = bs_linear(g, x, &(bs_linear_desc){.name = "k", .out = 8}),
                   v = bs_linear(g, x, &(bs_linear_desc){.name = "v", .out = 8});
    x = bs_add(g, x, bs_attention(g, q, k, v, k_cache, v_cache, past, &(bs_attention_desc){.heads = 2, .alibi = 1}));
    bs_state_append(g, k_cache, k, past);
    bs_state_append(g, v_cache, v, past);
    const bs_value score = bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = 3});
    bs_look_ahead(g, score, "experts");
    const bs_router r = bs_route(
        g, bs_softmax(g, score), (bs_value){0},
        &(bs_route_desc){.name = "experts", .protocol = BS_ROUTE_TOPK, .paths = 3, .k = 2, .normalise = 1});
    bs_value out[3];
    for (int32_t p = 0; p < 3; p++) {
        static const char *const names[3] = {"e0", "e1", "e2"};
        bs_block_begin(g, names[p]);
        out[p] = bs_linear(g, bs_scatter(g, r, p, x), &(bs_linear_desc){.name = names[p], .out = 8, .act = BS_SILU});
        bs_block_end(g);
    }
    x = bs_gather(g, r, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
    bs_output(g, "last", bs_segment_reduce(g, x, NULL));
    const bs_value best = bs_topk(g, x, 2, &top);
    bs_output(g, "best", bs_collect(g, best));
    bs_output(g, "top", bs_collect(g, top));
    bs_output(g, "arg", bs_collect(g, bs_argmax(g, x)));
    return g;
}

static bs_graph *matrix_net(void)
{
    bs_graph *g = new_graph();
    const bs_value a = bs_input(g, "a", BS_F32, BS_SHAPE3(2, 6, 4)), b = bs_input(g, "b", BS_F32, BS_SHAPE3(2, 4, 6));
    bs_value x = bs_matmul(g, a, b, &(bs_matmul_desc){.scale = 0.5f});
    x = bs_transpose(g, x, &(bs_transpose_desc){.order = {0, 2, 1}});
    x = bs_pad(g, x, &(bs_pad_desc){.top = 1, .left = 2, .edge = 1});
    const bs_value pair[2] = {x, bs_clip(g, bs_affine(g, x, 2, 1), -1, 1)};
    x = bs_concat(g, pair, 2, 0);
    x = bs_pool2d(
        g, x,
        &(bs_pool2d_desc){
            .kind = BS_POOL_AVERAGE, .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1, .count_pad = 1});
    x = bs_batch_norm(g, bs_prelu(g, x, "slopes"), &(bs_norm_desc){.name = "bn"});
    x = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BILINEAR, .factor = 2});
    x = bs_pixel_unshuffle(g, x, 2);
    bs_output(g, "sum", bs_reduce(g, x, &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = -1, .keep = 1}));
    bs_output(g, "flat", bs_reshape(g, bs_mul(g, x, x), BS_SHAPE1(-1)));
    return g;
}

static void model_corpus(void)
{
    static const extra kinds[] = {NOTHING, OLD_VERSION, PAGES, FOREIGN_KEYS, NO_ALIGNMENT};
    static forge f;
    static random_graph rg;
    static net_table weights;
    bs_graph *(*const nets[])(void) = {picture_net, text_net, matrix_net};
    for (int32_t i = 0; i < 10; i++) {
        tiny_write(&f, kinds[i % 5]);
        save("model", "tiny", i, f.bytes, f.n, options_of(i), OPTION_BYTES);
    }
    for (int32_t i = 0; i < 12; i++) {
        bs_graph *g = nets[i / 4]();
        if (bs_graph_check(g, NULL) != BS_OK) {
            fprintf(stderr, "net %d: %s\n", i / 4, g->error.message);
            exit(1);
        }
        export_graph(&f, g);
        save("model", "net", i, f.bytes, f.n, options_of(i), OPTION_BYTES);
    }
    for (int32_t i = 0; i < 40; i++) {
        rg_segments = i % 4 == 3;
        if (!rg_grow(&rg, new_graph(), &weights, 4 + i) || rg.g->n_nodes > 120)
            continue;
        export_graph(&f, rg.g);
        save("model", "random", i, f.bytes, f.n, options_of(i), OPTION_BYTES);
    }
}

/* --- profiles, traces ------------------------------------------------------------------------------------------ */

static void profile_corpus(void)
{
    static const int32_t runs[] = {0, 1, 2, 3, 5, 9, 20, 40};
    for (int32_t i = 0; i < 8; i++) {
        synth_bytes b = synth_profile(runs[i], NULL);
        save("profile", "synth", i, b.data, b.n - (i == 4 ? 3 : 0), options_of(0), 24);
        synth_free(&b);
    }
}

/* Any bytes are a trace. */
static void replay_corpus(void)
{
    static uint8_t bytes[600];
    for (int32_t i = 0; i < 24; i++) {
        const size_t n = 60 + (size_t)i * 20;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(check_random() >> 8);
        bytes[0] = (uint8_t)(i * 3);
        bytes[12] = (uint8_t)(i % 6 * 4); /* units */
        save("replay", "any", i, bytes, n, NULL, 0);
    }
}

/* --- video ------------------------------------------------------------------------------------------------------- */

/* A few small frames in every layout, from a file and from a pipe. */
static void y4m_corpus(void)
{
    static uint8_t bytes[8192];
    for (int32_t layout = 0; layout < Y4M_LAYOUT_COUNT; layout++) {
        y4m_info info = {.width = 3 + layout,
                         .height = 4 + layout % 3,
                         .layout = (y4m_layout)layout,
                         .range = (y4m_range)(layout % 3),
                         .rate = {true, 30000, 1001},
                         .aspect = {layout % 2, 1, 1},
                         .interlacing = layout % 3 ? 'p' : 0};
        char line[Y4M_HEADER_WRITE_MAX + 1];
        size_t n = 1;
        bytes[0] = (uint8_t)layout;
        const size_t length = y4m_format_header(&info, line), frame = y4m_frame_bytes(&info);
        memcpy(bytes + n, line, length);
        n += length;
        for (int32_t f = 0; f < layout % 4; f++) {
            memcpy(bytes + n, "FRAME\n", 6);
            for (size_t i = 0; i < frame; i++)
                bytes[n + 6 + i] = (uint8_t)(i * 7 + (size_t)f);
            n += 6 + frame;
        }
        save("y4m", y4m_facts(info.layout)->name, layout, bytes, n - (layout == 7 ? 5 : 0), NULL, 0);
    }
}

/* --- builder calls ----------------------------------------------------------------------------------------------- */

/* Any bytes are calls; few bytes go on as a random graph. */
static void graph_corpus(void)
{
    static uint8_t bytes[500];
    for (int32_t i = 0; i < 80; i++) {
        const size_t n = i % 2 ? 60 + (size_t)i * 5 : i % 4 ? 6 : 40 + (size_t)i * 4;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(check_random() >> 8);
        bytes[0] = (uint8_t)i;
        save("graph", i % 2 ? "wild" : "grown", i, bytes, n, NULL, 0);
    }
}

/* --- graphs at the limits
 * ------------------------------------------------------------------------------------------------- */

/* One that was planned to 116,864 bytes: patches of 2^30 channels, a hundred alive at once, halos of 4,000, and
 * Winograd. */
static size_t saturated_graph(uint8_t *to)
{
    static const uint8_t frame[] = {0, 0, 0, 6, 255, 6, 255, 4}, join[] = {0, 1, 6};
    static const uint8_t rest[] = {0, 4, 0, 99, 0, 5, 0, 0, 10, 0, 1, 2, 0, 3, 10, 1, 0, 0, 0, 0, 0};
    size_t n = sizeof frame;
    memcpy(to, frame, sizeof frame);
    for (int32_t i = 0; i < 10; i++, n += sizeof join)
        memcpy(to + n, join, sizeof join);
    memcpy(to + n, rest, sizeof rest);
    memset(to + n + sizeof rest, 0, 20);
    return n + sizeof rest + 20;
}

static void limits_corpus(void)
{
    uint8_t bytes[300];
    check_state = 88172645463325252u;
    save("limits", "saturated", 0, bytes, saturated_graph(bytes), NULL, 0);
    for (int32_t i = 0; i < 40; i++) {
        const size_t n = (size_t)(60 + 6 * i);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(check_random() >> 8);
        save("limits", "random", i, bytes, n, NULL, 0);
    }
}

/* --- images of plans --------------------------------------------------------------------------------------- */

/* A graph, a description, whether it streams, and lies: any bytes will do. */
static void plan_corpus(void)
{
    uint8_t bytes[120];
    for (int32_t i = 0; i < 24; i++) {
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)(check_random() >> 8);
        bytes[0] = (uint8_t)i;
        save("plan", "lies", i, bytes, sizeof bytes, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_corpus FOLDER\n");
        return 2;
    }
    folder = argv[1];
    mkdir(folder, 0777);
    model_corpus();
    profile_corpus();
    replay_corpus();
    y4m_corpus();
    graph_corpus();
    limits_corpus();
    plan_corpus();
    return 0;
}
