/* fuzz_graph.c - sequences of builder calls. Two kinds of input, told by the first byte:
 *
 *   differential  random_graph.h grows a graph with the input's bytes for its dice; planned in any way, run tile by
 *                 tile or streamed, it must give exactly what its definition gives (naive.h).
 *   wild          any call with any operands and any numbers. What is refused is refused for good, by a message, and
 *                 what is not refused can be planned and run.
 *
 * Relies on: random_graph.h, against.h, wild_calls.h, fuzz_run.h. Must never: keep dice from one input to the next. */
#define _POSIX_C_SOURCE 200809L
#include "../random_graph.h"

#include "../against.h"
#include "fuzz_weights.h"
#include "wild_calls.h"

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

static _Alignas(64) uint8_t graph_before[1 << 20];

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
