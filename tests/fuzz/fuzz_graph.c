/* fuzz_graph.c - sequences of builder calls. Two kinds of input, told by the first byte:
 *
 *   differential  random_graph.h grows a graph with the input's bytes for its dice; planned in any way, run tile by
 *                 tile or streamed, it must give exactly what its definition gives (naive.h).
 *   wild          any call with any operands and any numbers. What is refused is refused for good, by a message, and
 *                 what is not refused can be planned and run.
 *
 * Relies on: random_graph.h, against.h, fuzz_run.h. Must never: keep dice from one input to the next. */
#define _POSIX_C_SOURCE 200809L
#include "../random_graph.h"

#include "../against.h"
#include "fuzz_weights.h"

static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *new_graph(const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, desc);
}

/* --- differential --------------------------------------------------------------------------------------------- */

static net_table weights;
static random_graph rg;
static against a;

static bs_plan_desc any_desc(const bs_graph *g)
{
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = check_below(3), .threads = rg_flip(15) ? 2 : 1};
    rg_choose(&d, g);
    return d;
}

/* What the oracle would hold and work: every cell of a frame is a frame to it. */
static bool is_small(const bs_graph *g, const int64_t *extent)
{
    double elements = 0, work = 0;
    memcpy(a.extent, extent, sizeof a.extent);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bs_conv2d_desc *conv = node->params;
        const bool is_conv = strcmp(bs_op_get(node->op)->name, "conv2d") == 0;
        for (int32_t i = 0; i < node->n_out; i++) {
            const bs_value_info *v = &g->values[node->first_out + i];
            double count = (double)g->domains[v->domain].max_rows;
            for (int32_t k = 0; k < v->rank; k++)
                count *= (double)ag_dim(&a, g, v->dims[k]);
            elements += count;
            work += count * (is_conv ? 4 * bs_or_default(conv->kernel, 3) * bs_or_default(conv->kernel, 3) : 4);
        }
    }
    return elements < NAIVE_POOL / 2 && work < 1e6;
}

static void runs_agree(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    int64_t extent[3];
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    rg_set_callbacks(r->session, g);
    for (int32_t run = 0; run < 2; run++) {
        for (int32_t i = 0; i < 3; i++) {
            static const int32_t most[3] = {40, 26, 21};
            extent[i] = 1 + check_below(rg_flip(75) ? 13 : most[i]);
        }
        if (!is_small(g, extent))
            return;
        a.strided = run == 1;
        against_inputs(&a, g, &weights.table, d, extent);
        memset(r->transient, run == 0 ? 0xFF : 0x3A, (size_t)r->sizes.transient);
        const bool same = against_run(&a, r->session);
        FUZZ_PROMISE(same, "run %d, order %d, %d threads, patches of %d, %d forced, %d slots: %s", run, d->order,
                     d->threads, d->patch_size, d->n_forces, (int)d->slot_bytes, a.why);
        FUZZ_PROMISE(rig_intact(r), "bytes outside the arenas were written");
    }
}

/* A cell tensor that collects a row a patch may be too short for smaller patches: then the graph's own size will do. */
static void plan_somehow(rig *r, const bs_graph *g, bs_plan_desc *d)
{
    if (rig_plan(r, g, d))
        return;
    FUZZ_PROMISE(d->patch_size && r->error.status == BS_ERROR_LIMIT, "no plan: %s", r->error.message);
    d->patch_size = 0;
    FUZZ_PROMISE(rig_plan(r, g, d), "no plan: %s", r->error.message);
}

static void run_resident(const bs_graph *g)
{
    bs_plan_desc d = any_desc(g);
    rig r;
    plan_somehow(&r, g, &d);
    if (rg_flip(20))
        rig_unshare(&r);
    FUZZ_PROMISE(rig_session(&r, &weights.table, NULL, 0xFF), "no session: %s", r.error.message);
    runs_agree(&r, g, &d);
    bs_session_close(r.session);
}

static void run_streamed(const bs_graph *g)
{
    bs_platform platform = *bs_platform_default();
    bs_plan_desc d = any_desc(g);
    bs_stream_plan facts;
    bs_session_desc desc = {.platform = &platform,
                            .stream = {.policy = check_below(BS_POLICY_BELADY), .speculation = check_below(2)}};
    rig r;
    d.slot_bytes = 1u << 30;
    plan_somehow(&r, g, &d);
    bs_plan_stream_get(r.plan, &facts);
    if (facts.units == 0)
        return;
    d.slot_bytes = facts.least_bytes + (facts.all_bytes - facts.least_bytes) * (uint64_t)check_below(5) / 4;
    d.lanes = 1 + check_below(3);
    d.chunk_bytes = rg_flip(50) ? 64 : 0;
    flat_init(&source, g, &weights.table, rg_flip(70) ? BS_F32 : BS_F16);
    desc.weights = flat_weights(&source, rg_flip(50) ? 1 : 512);
    if (rg_flip(85))
        platform.thread_start = NULL;
    FUZZ_PROMISE(rig_plan(&r, g, &d) && rig_start(&r, &desc, 0xFF), "streamed: %s", r.error.message);
    runs_agree(&r, g, &d);
    bs_session_close(r.session);
}

static void differential(const uint8_t *data, size_t size)
{
    check_state = 88172645463325252u;
    for (size_t i = 0; i < size && i < 4; i++)
        check_state = check_mixed(check_state ^ data[i]);
    check_input = data;
    check_input_left = size;
    rg_segments = rg_flip(30);
    bs_graph *g = new_graph(NULL);
    const bool grown = rg_grow(&rg, g, &weights, 3 + check_below(28));
    const bool streams = rg_flip(30);
    FUZZ_PROMISE(grown || g->error.message[0], "refused without a message");
    if (grown && streams)
        run_streamed(g);
    else if (grown)
        run_resident(g);
    check_input_left = 0;
}

/* --- wild ------------------------------------------------------------------------------------------------------- */

enum { WILD_CALLS = 70, WILD_SYMBOLS = 8 };

typedef struct wild {
    bs_graph *g;
    fuzz_bytes in;
    bs_dim symbols[WILD_SYMBOLS];
    int32_t n_symbols, n_names, n_blocks;
    char names[WILD_CALLS * 4][16];
} wild;

static wild w;
static _Alignas(64) uint8_t graph_before[1 << 20];

static int32_t number(void)
{
    static const int32_t odd[32] = {-1,      -2,      INT32_MAX, INT32_MIN, 8,    9,      16,         17,
                                    31,      32,      33,        63,        64,   65,     127,        128,
                                    255,     256,     1000,      4096,      8192, 16384,  65535,      65536,
                                    1 << 20, 1 << 24, 1 << 30,   -3,        -64,  -65536, 0x7fc00000, 0x3f800000};
    const uint8_t n = fuzz_u8(&w.in);
    return n < 160 ? n % 5 : n < 224 ? n - 160 : odd[n - 224];
}

static int32_t positive(void)
{
    const int32_t n = number();
    return n == INT32_MAX ? n : n + 1;
}

static float real(void)
{
    static const float odd[8] = {NAN, INFINITY, -INFINITY, 1e38f, -1e-38f, 0.5f, 1e9f, -1e9f};
    const uint8_t n = fuzz_u8(&w.in);
    return n < 8 ? odd[n] : (float)((int)n - 100) / 16.0f;
}

/* A value: a young one, any, or none that there is. */
static bs_value value(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    const int32_t last = w.g->n_values - 1;
    if (n >= 250 || last < 1)
        return (bs_value){n == 255 ? INT32_MIN : n == 254 ? last + 1 : n == 253 ? INT32_MAX : n == 252 ? -1 : 0};
    return (bs_value){n < 180 ? last - n % (last < 6 ? last : 6) : 1 + n % last};
}

static bs_router router(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    return (bs_router){n >= 248 ? (n - 250) * 17 : w.g->n_routers > 1 ? 1 + n % (w.g->n_routers - 1) : 1};
}

static const char *name(void)
{
    static const char *const odd[] = {NULL,    "",
                                      "a",     "a.weight",
                                      "frame", "0123456789012345678901234567890123456789012345678901234567890123456789",
                                      "%s%n",  "\xff"};
    const uint8_t n = fuzz_u8(&w.in);
    if (n >= 248)
        return odd[n - 248];
    if (n >= 220 && w.n_names)
        return w.names[n % w.n_names];
    if (w.n_names == WILD_CALLS * 4)
        return "last";
    char *text = w.names[w.n_names++];
    snprintf(text, sizeof w.names[0], "n%d", w.n_names);
    return text;
}

static bs_dim dim(void)
{
    static const bs_dim odd[8] = {-1,        0,         (bs_dim)1 << 30, ((bs_dim)1 << 30) + 1,
                                  INT64_MAX, INT64_MIN, BS_UPTO(0),      BS_UPTO((int64_t)1 << 40)};
    const uint8_t n = fuzz_u8(&w.in);
    if (n >= 248)
        return odd[n - 248];
    if (n >= 200)
        return BS_UPTO(n - 199);
    if (n >= 120 && w.n_symbols)
        return n >= 180 ? bs_times(w.g, w.symbols[n % w.n_symbols], number()) : w.symbols[n % w.n_symbols];
    return 1 + n % 24;
}

static bs_shape shape(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    bs_shape s = {n >= 250 ? n - 251 : 1 + n % 4, {0, 0, 0, 0}};
    for (int32_t i = 0; i < 4 && i < s.rank; i++)
        s.dim[i] = dim();
    return s;
}

static bs_value in_branch(bs_graph *g, bs_value x, void *user)
{
    const uint8_t n = *(const uint8_t *)user;
    return n & 1 ? bs_activation(g, x, (bs_act)(n >> 1 & 15), 0.5f) : n & 2 ? bs_affine(g, x, 2, 1) : x;
}

static bs_dtype dtype(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    return n < 100 ? BS_F32 : (bs_dtype)(n >= 250 ? n - 252 : n % BS_DTYPE_COUNT);
}

static void source_call(void)
{
    const uint8_t kind = fuzz_u8(&w.in);
    const char *called = name();
    if (kind < 128) {
        const bs_dtype type = dtype();
        bs_input(w.g, called, type, shape());
    } else if (kind < 160) {
        const bs_dtype type = dtype();
        bs_state(w.g, called, type, shape());
    } else if (kind < 190) {
        const bs_dtype type = dtype();
        bs_constant(w.g, called, type, shape());
    } else if (w.n_symbols < WILD_SYMBOLS) {
        w.symbols[w.n_symbols++] = bs_symbol(w.g, called, kind >= 250 ? (int64_t)fuzz_u32(&w.in) << 20 : 1 + kind % 40);
    }
}

/* What an input's bytes said before there was a field for it; now and then a pad that is not read, or a padding that is
 * none. */
static int32_t padding(int32_t *pad)
{
    if (*pad % 16 == 15)
        return *pad / 16;
    if (*pad != -1)
        return *pad == 0 ? BS_PAD_DEFAULT : BS_PAD_EXPLICIT;
    *pad = 0;
    return BS_PAD_VALID;
}

static bs_value image_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: {
        bs_conv2d_desc d = {name(),   number(), number(), number(), number(), number(), number(),
                            number(), number(), number(), number(), number(), real(),   0};
        d.padding = padding(&d.pad);
        return bs_conv2d(w.g, x, &d);
    }
    case 1: return bs_conv2d(w.g, x, &(bs_conv2d_desc){.name = name(), .out = positive(), .act = number()});
    case 2: {
        bs_deconv2d_desc d = {name(), number(), number(), number(), number(), number(), number(), number(), real(), 0};
        d.padding = padding(&d.pad);
        return bs_deconv2d(w.g, x, &d);
    }
    case 3: return bs_pixel_shuffle(w.g, x, number());
    case 4: return bs_pixel_unshuffle(w.g, x, number());
    case 5: {
        bs_pool2d_desc d = {name(), number(), number(), number(), number(), number(), number(), 0};
        d.padding = padding(&d.pad);
        return bs_pool2d(w.g, x, &d);
    }
    case 6: return bs_resize(w.g, x, &(bs_resize_desc){name(), number(), number(), real(), number()});
    case 7: return bs_pad(w.g, x, &(bs_pad_desc){name(), number(), number(), number(), number(), real(), number()});
    case 8: return bs_batch_norm(w.g, x, &(bs_norm_desc){name(), real()});
    default: return bs_patch_features(w.g, x, value(), &(bs_patch_features_desc){name(), number(), number()});
    }
}

static bs_value line_call(uint8_t which)
{
    const bs_value x = value();
    bs_value list[BS_MAX_OPERANDS + 2] = {x}, top;
    const int32_t count = 1 + fuzz_below(&w.in, 10);
    switch (which) {
    case 0: return bs_linear(w.g, x, &(bs_linear_desc){name(), number(), number(), number(), real()});
    case 1: return bs_matmul(w.g, x, value(), &(bs_matmul_desc){name(), number(), real()});
    case 2: return bs_add(w.g, x, value());
    case 3: return bs_sub(w.g, x, value());
    case 4: return bs_mul(w.g, x, value());
    case 5: return bs_activation(w.g, x, (bs_act)number(), real());
    case 6: return bs_prelu(w.g, x, name());
    case 7: return bs_clip(w.g, x, real(), real());
    case 8: return bs_affine(w.g, x, real(), real());
    case 9: return bs_convert(w.g, x, &(bs_convert_desc){name(), number(), real(), number()});
    case 10:
        for (int32_t i = 1; i < count; i++)
            list[i] = value();
        return bs_concat(w.g, list, count, number());
    case 11: return bs_slice(w.g, x, &(bs_slice_desc){name(), number(), number(), number()});
    case 12: return bs_reshape(w.g, x, shape());
    case 13: return bs_transpose(w.g, x, &(bs_transpose_desc){name(), {number(), number(), number(), number()}});
    case 14: return bs_softmax(w.g, x);
    case 15: return bs_layer_norm(w.g, x, &(bs_norm_desc){name(), real()});
    case 16: return bs_reduce(w.g, x, &(bs_reduce_desc){name(), number(), number(), number()});
    case 17: return bs_argmax(w.g, x);
    case 18: return bs_topk(w.g, x, number(), &top);
    default: return bs_gather_rows(w.g, x, value());
    }
}

static bs_value cell_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: return bs_rows(w.g, x, value());
    case 1: return bs_rows(w.g, x, (bs_value){0});
    case 2: return bs_collect(w.g, x);
    case 3: return bs_segments(w.g, x, value());
    case 4: return bs_segment_spread(w.g, x, value());
    case 5: return bs_segment_reduce(w.g, x, &(bs_segment_reduce_desc){name(), number()});
    case 6:
        return bs_attention(w.g, x, value(), value(), value(), value(), value(),
                            &(bs_attention_desc){name(), number(), number()});
    case 7:
        return bs_attention(w.g, x, x, value(), (bs_value){0}, (bs_value){0}, (bs_value){0},
                            &(bs_attention_desc){name(), number(), number()});
    case 8: return bs_patches(w.g, x, &(bs_patches_desc){name(), number(), 0});
    case 9: return bs_patches(w.g, x, &(bs_patches_desc){name(), number(), value().id});
    default: return bs_assemble(w.g, x);
    }
}

static void route_call(uint8_t which)
{
    const bs_value x = value();
    static bs_value list[BS_MAX_PATHS]; /* none beyond the first ones */
    uint8_t user;
    switch (which) {
    case 0:
        bs_route(
            w.g, x, value(),
            &(bs_route_desc){name(), number(), number(), number(), real(), number(), number(), number(), number()});
        break;
    case 1:
        bs_route(w.g, x, (bs_value){0},
                 &(bs_route_desc){.name = name(), .protocol = number(), .paths = positive(), .k = 1});
        break;
    case 2:
    case 3: bs_scatter(w.g, router(), number(), x); break;
    case 4: bs_route_price(w.g, router()); break;
    case 5: bs_route_score(w.g, router()); break;
    case 6: bs_look_ahead(w.g, x, name()); break;
    case 7:
        user = fuzz_u8(&w.in);
        bs_branch(w.g, router(), number(), name(), x, in_branch, &user);
        break;
    default: {
        const bs_router r = router();
        for (int32_t p = 0; p < 4; p++)
            list[p] = value();
        bs_gather(w.g, r, list, fuzz_flip(&w.in, 100) ? value() : (bs_value){0}, &(bs_gather_desc){name(), number()});
    }
    }
}

static void end_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: bs_state_write(w.g, x, value()); break;
    case 1: bs_state_append(w.g, x, value(), value()); break;
    case 2: bs_block_begin(w.g, name()); break;
    case 3: bs_block_end(w.g); break;
    default: bs_output(w.g, name(), x);
    }
}

static void wild_call(void)
{
    const uint8_t kind = fuzz_u8(&w.in) % 16;
    if (kind < 3 || w.g->n_values == 1)
        source_call();
    else if (kind < 6)
        image_call(fuzz_u8(&w.in) % 10);
    else if (kind < 9)
        line_call(fuzz_u8(&w.in) % 20);
    else if (kind < 12)
        cell_call(fuzz_u8(&w.in) % 11);
    else if (kind < 14)
        route_call(fuzz_u8(&w.in) % 10);
    else
        end_call(fuzz_u8(&w.in) % 6);
}

/* A failure stays: later calls do nothing. */
static void check_sticky(void)
{
    bs_error error = {0};
    fuzz_failure(bs_graph_check(w.g, &error), &error, "a builder call");
    const bs_error first = w.g->error;
    const int32_t nodes = w.g->n_nodes, values = w.g->n_values;
    FUZZ_PROMISE(bs_input(w.g, "later", BS_F32, BS_SHAPE1(4)).id == 0 &&
                     bs_add(w.g, (bs_value){1}, (bs_value){1}).id == 0,
                 "a call after a failure");
    FUZZ_PROMISE(w.g->n_nodes == nodes && w.g->n_values == values && memcmp(&first, &w.g->error, sizeof first) == 0,
                 "a call after a failure");
}

/* Calls until the bytes end; one that is refused is taken back, so that others come to their turn. */
static void build_wild(const bs_graph_desc *room)
{
    const size_t bytes = bs_graph_bytes(room);
    w.g = new_graph(room);
    for (int32_t i = 0; i < WILD_CALLS && w.in.at < w.in.n; i++) {
        const int32_t symbols = w.n_symbols;
        memcpy(graph_before, graph_memory, bytes);
        wild_call();
        if (w.g->status == BS_OK)
            continue;
        check_sticky();
        memcpy(graph_memory, graph_before, bytes);
        w.n_symbols = symbols;
    }
}

/* Blocks are ended and what is at the root is made an output, as far as that goes. */
static void finish_wild(size_t bytes)
{
    static const char *const names[4] = {"out0", "out1", "out2", "out3"};
    while (w.g->current_block && w.g->status == BS_OK)
        bs_block_end(w.g);
    for (int32_t v = w.g->n_values - 1, n = 0; v > 0 && n < 4; v--)
        if (w.g->values[v].domain == 0 && w.g->status == BS_OK) {
            memcpy(graph_before, graph_memory, bytes);
            bs_output(w.g, names[n++], (bs_value){v});
            if (w.g->status != BS_OK)
                memcpy(graph_memory, graph_before, bytes);
        }
}

static void wild_input(const uint8_t *data, size_t size)
{
    const bs_graph_desc room = {
        .max_nodes = size % 7 == 0 ? 12 : 120, .max_values = 120, .max_text_bytes = size % 5 == 0 ? 600 : 12000};
    const size_t options = size < 40 ? size / 2 : 20;
    fuzz_bytes how = {data + size - options, options, 0};
    memset(&w, 0, sizeof w);
    w.in = (fuzz_bytes){data, size - options, 0};
    build_wild(&room);
    finish_wild(bs_graph_bytes(&room));
    char line[60];
    for (int32_t n = 1; n < w.g->n_nodes; n++)
        FUZZ_PROMISE(bs_graph_describe(w.g, n, line, sizeof line) > 0, "node %d", n);
    if (w.g->status != BS_OK || !fuzz_make_weights(&source, w.g, &how))
        return;
    const bs_weights from = flat_weights(&source, 1);
    fuzz_graph_run(w.g, &from, &how);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[0] & 1)
        wild_input(data + 1, size - 1);
    else
        differential(data + 1, size - 1);
    return 0;
}
