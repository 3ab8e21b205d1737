/* fuzz_model.c - a model file, hostile: opened, asked, checked, built, planned, and run with whatever weights it has.
 *
 * The input: a GGUF file, then FUZZ_OPTIONS bytes that say how it is used (from memory or through a reader that fails,
 * or changes what it gives; which plan; which arenas; which extents).
 * Weights are the file's own, or made for what the graph asks, because a graph that was changed has no weights that
 * fit.
 *
 * Relies on: fuzz_run.h, fuzz_weights.h, gguf_mutate.h. Must never: know what a field of the file means. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_run.h"
#include "fuzz_weights.h"

#include "gguf_mutate.h"
#include "model/model.h"
#include "storage.h"

enum { FUZZ_OPTIONS = 48 };

static BS_ALIGNED uint8_t model_memory[1 << 20], graph_memory[2][3 << 20];

/* --- where bytes come from -------------------------------------------------------------------------------- */

static bs_model *open_model(bs_arena *arena, storage *s, fuzz_bytes *o, bs_error *error)
{
    const uint8_t how = fuzz_u8(o), at = fuzz_u8(o);
    const bs_reader reader = {s, storage_read, s->n, how & 1};
    s->where = fuzz_u32(o);
    s->kind = how < 160 ? STORAGE_SOUND : (storage_kind)((how >> 1) % 5);
    s->at = s->kind && how & 1 ? at : at / 16;
    return how < 100 ? bs_model_open_memory(arena, s->data, s->n, error) : bs_model_open_reader(arena, &reader, error);
}

/* --- asking ------------------------------------------------------------------------------------------------ */

static void ask_model(const bs_model *model)
{
    bs_model_facts facts;
    bs_model_block_facts block;
    bs_weight_info info;
    bs_error error = {0};
    char *name = malloc(BS_MAX_WEIGHT_NAME);
    int32_t of_block;
    bs_model_facts_get(model, &facts);
    for (int32_t i = 0; i < facts.blocks; i++)
        if (bs_model_block_get(model, i, &block) == BS_OK)
            FUZZ_PROMISE(block.offset + block.bytes <= facts.file_bytes && block.bytes <= facts.file_bytes &&
                             block.end_node <= facts.nodes,
                         "block %d", i);
    for (int32_t i = 0; i < facts.weights; i++)
        if (bs_model_weight_get(model, i, name, &of_block, &info) == BS_OK)
            FUZZ_PROMISE(strlen(name) < BS_MAX_WEIGHT_NAME && of_block >= 0 && of_block < facts.blocks &&
                             info.bytes <= facts.file_bytes,
                         "weight %d", i);
    fuzz_done(bs_model_check(model, &error), &error, "bs_model_check");
    fuzz_done(bs_model_can_stream(model, &error), &error, "bs_model_can_stream");
    free(name);
}

static void ask_graph(const bs_graph *g)
{
    char *line = malloc(90);
    for (int32_t n = 1; n < g->n_nodes; n++)
        FUZZ_PROMISE(bs_graph_describe(g, n, line, n % 2 ? 90 : 20) > 0 && strlen(line) < 90, "node %d", n);
    free(line);
}

/* --- building ---------------------------------------------------------------------------------------------- */

static bs_graph *build(const bs_model *model, int32_t which, const bs_model_build_desc *desc)
{
    bs_arena arena;
    bs_error error = {0};
    const bs_graph_desc room = bs_model_graph_desc(model);
    if (bs_graph_bytes(&room) > sizeof graph_memory[which])
        return NULL;
    bs_arena_init(&arena, "graph", graph_memory[which], sizeof graph_memory[which]);
    bs_graph *g = bs_graph_create(&arena, &room);
    FUZZ_PROMISE(g && arena.used <= bs_graph_bytes(&room), "a graph of the bytes it said");
    return fuzz_done(bs_model_build(model, g, desc, &error), &error, "bs_model_build") == BS_OK ? g : NULL;
}

/* The same graph for inputs of small extents. NULL when it cannot be as small. */
static bs_graph *build_small(const bs_model *model, const bs_graph *large, fuzz_bytes *o)
{
    static int64_t extent[FUZZ_DIMS];
    bs_model_input inputs[16];
    bs_model_build_desc desc = {.inputs = inputs, .code_bits = fuzz_flip(o, 40) ? 8 + fuzz_below(o, 9) : 0};
    const int32_t most = 1 + fuzz_below(o, 40);
    fuzz_extents(large, o, most, extent);
    for (int32_t n = 1; n < large->n_nodes && desc.n_inputs < 16; n++) {
        const bs_node *node = &large->nodes[n];
        if (!bs_node_is(node, &bs_op_input))
            continue;
        const bs_value_info *v = &large->values[node->first_out];
        bs_model_input *input = &inputs[desc.n_inputs++];
        memset(input, 0, sizeof *input);
        input->name = bs_node_name(node);
        input->rank = v->rank;
        for (int32_t i = 0; i < v->rank; i++)
            input->dim[i] = bs_dim_is_const(large, v->dims[i]) ? 0 : extent[v->dims[i]];
    }
    return build(model, 1, &desc);
}

/* --- weights ------------------------------------------------------------------------------------------------ */

static void run_model(const bs_model *model, const bs_graph *g, fuzz_bytes *o)
{
    static flat_source source;
    bs_weights weights = bs_model_weights(model);
    if (fuzz_flip(o, 150)) {
        if (!fuzz_make_weights(&source, g, o))
            return;
        weights = flat_weights(&source, 1);
    }
    fuzz_graph_run(g, &weights, o);
}

static void use_model(const bs_model *model, fuzz_bytes *o)
{
    ask_model(model);
    const bs_graph *large = build(model, 0, NULL);
    if (!large)
        return;
    ask_graph(large);
    if (fuzz_flip(o, 50)) {
        fuzz_bytes as_stored = *o;
        run_model(model, large, &as_stored);
    }
    const bs_graph *small = build_small(model, large, o);
    if (small)
        run_model(model, small, o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bs_arena arena;
    bs_error error = {0};
    const size_t n = size > FUZZ_OPTIONS ? size - FUZZ_OPTIONS : size;
    fuzz_bytes options = {data + n, size - n, 0};
    const size_t shift = fuzz_u8(&options) % 4; /* a file in memory may lie anywhere */
    uint8_t *copy = malloc(n + shift ? n + shift : 1);
    memcpy(copy + shift, data, n);
    storage file = {.data = copy + shift, .n = n, .every = 512};
    bs_arena_init(&arena, "persistent", model_memory, sizeof model_memory);
    bs_model *model = open_model(&arena, &file, &options, &error);
    if (!model) {
        fuzz_failure(error.status, &error, "opening");
        FUZZ_PROMISE(arena.used == 0, "a refused file keeps memory");
    } else {
        use_model(model, &options);
        bs_model_close(model);
    }
    free(copy);
    return 0;
}

#ifdef FUZZ_ENGINE
/* Whether the library makes a graph of it: most random edits it refuses at the first node that does not fit. */
static bool is_accepted(const uint8_t *data, size_t n)
{
    bs_arena arena;
    bs_error error = {0};
    bs_arena_init(&arena, "persistent", model_memory, sizeof model_memory);
    bs_model *model = bs_model_open_memory(&arena, data, n, &error);
    const bool accepted = model && build(model, 0, NULL);
    bs_model_close(model);
    return accepted;
}

/* Another file in `out`: one that builds, if a few attempts find one, or whatever comes first. 0: none. */
static size_t mutate_file(const uint8_t *data, size_t size, uint8_t *out, size_t most, fuzz_dice *dice)
{
    static gm_file file;
    const int32_t attempts = fuzz_chance(dice, 80) ? 12 : 1;
    size_t n = 0;
    for (int32_t i = 0; i < attempts; i++) {
        if (!gm_mutate(&file, data, size, fuzz_roll(dice)))
            return 0;
        n = gm_write(&file, out, most);
        if (n > 0 && is_accepted(out, n))
            break;
    }
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    static uint8_t out[1 << 20];
    fuzz_dice dice = fuzz_dice_of(seed);
    const uint32_t kind = fuzz_pick(&dice, 100);
    if (size <= FUZZ_OPTIONS || kind < 8 || most > sizeof out)
        return LLVMFuzzerMutate(data, size, most);
    if (kind < 35) { /* the way it is used */
        uint8_t *options = data + size - FUZZ_OPTIONS;
        for (uint32_t i = 0; i <= fuzz_pick(&dice, 4); i++)
            options[fuzz_pick(&dice, FUZZ_OPTIONS)] = (uint8_t)fuzz_roll(&dice);
        return size;
    }
    const size_t n = mutate_file(data, size - FUZZ_OPTIONS, out, most - FUZZ_OPTIONS, &dice);
    if (n == 0)
        return LLVMFuzzerMutate(data, size, most);
    memmove(data + n, data + size - FUZZ_OPTIONS, FUZZ_OPTIONS);
    memcpy(data, out, n);
    return n + FUZZ_OPTIONS;
}
#endif
