/* tags: asan tsan */
/* Promises: what changes a kernel's result element by element and is all that reads it is done by that kernel
 * (plan/tails.c): sums, activations, chains of them; behind convolutions and linears and by itself; in every algorithm
 * and order, in tiles, on paths, for several rows, with operands of other shapes. The bytes are those of one kernel
 * after the other. What something else reads as well stays apart; at most two of the operands come from elsewhere. */
#include "net.h"
#include "tail_nets.h"

static BS_ALIGNED uint8_t persistent[16 << 20], transient[16 << 20], staging[1 << 20];
static bs_memory memory;
static bs_error error;
static net_table weights;

enum { MOST = TAIL_CHANNELS * TAIL_HEIGHT * TAIL_WIDTH * 2, LINES = 37, FEATURES = 24 };
static float x[MOST], y[2][MOST];

static void weigh(const tail_net *of)
{
    static char names[2][3][16];
    const int64_t side = of->conv.kernel, groups = bs_or_default(of->conv.groups, 1);
    const int64_t w[4] = {TAIL_CHANNELS, TAIL_CHANNELS / groups, side, side}, b[1] = {TAIL_CHANNELS};
    memset(&weights, 0, sizeof weights);
    for (int32_t i = 0; i < 2; i++) {
        snprintf(names[i][0], 16, "%c.weight", "ab"[i]);
        snprintf(names[i][1], 16, "%c.bias", "ab"[i]);
        snprintf(names[i][2], 16, "%c.prelu", "ab"[i]);
        net_add(&weights, names[i][0], 4, w, 0.3f);
        net_add(&weights, names[i][1], 1, b, 0.1f);
        net_add(&weights, names[i][2], 1, b, 0.5f);
    }
    net_add(&weights, "c", 1, (const int64_t[]){TAIL_CHANNELS}, 1);
}

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static bool run(const bs_plan *plan, int32_t rank, const int64_t in[4], const int64_t out[4], float *to)
{
    static int32_t keys[64];
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    bs_sizes sizes = {0};
    if (plan)
        bs_plan_sizes(plan, &sizes);
    memset(transient, 0xFF, (size_t)sizes.transient + BS_ALIGNMENT); /* NaN */
    memset(to, 0x55, sizeof y[0]);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    bs_buffer from = {x, BS_F32, rank, {in[0], in[1], in[2], in[3]}, {0}},
              result = {to, BS_F32, rank, {out[0], out[1], out[2], out[3]}, {0}};
    for (int32_t i = 0; i < 64; i++)
        keys[i] = i * 5 % 3 != 0;
    const bool bound = s && bs_bind(s, "x", &from, &error) == BS_OK && bs_bind(s, "y", &result, &error) == BS_OK;
    if (s)
        bs_bind(s, "key", &(bs_buffer){keys, BS_I32, 2, {64, 1}, {0}}, NULL); /* of one network; others refuse it */
    const bool ran = bound && bs_run(s, &error) == BS_OK;
    bs_session_close(s);
    return ran;
}

static bool run_net(const tail_net *of, tail_cells cells, const bs_plan_desc *desc, int32_t *steps, float *to)
{
    bs_graph *g = new_graph();
    tail_graph(g, of, cells);
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    const int64_t image[4] = {TAIL_CHANNELS, TAIL_HEIGHT, TAIL_WIDTH}, rows[4] = {2, image[0], image[1], image[2]};
    int64_t out[4] = {0};
    const int32_t rank = cells == TAIL_ROWS ? 4 : 3;
    if (!plan)
        return false;
    const bs_value_info *v = &g->values[bs_node_in(g, &g->nodes[bs_graph_named(g, "y", false)])[0]];
    for (int32_t d = 0; d < rank; d++)
        out[d] = bs_dim_max(g, v->dims[d]);
    *steps = tail_steps(plan);
    return run(plan, rank, cells == TAIL_ROWS ? rows : image, out, to);
}

static void test_net(const tail_net *of, tail_cells cells, bs_plan_desc desc)
{
    int32_t steps = 0, without = 0;
    weigh(of);
    const bool ran = run_net(of, cells, &desc, &steps, y[0]);
    const int32_t expected = of->steps == TAIL_MORE_AT_THE_ROOT ? (cells == TAIL_ROOT ? 3 : 2)
                             : of->steps == TAIL_NOT_ON_ROWS    ? cells != TAIL_ROWS
                                                                : of->steps;
    check(ran && steps == expected, "%s, %s: %d steps, not %d: %s", of->what, tail_cells_name[cells], steps, expected,
          error.message);
    desc.no_fusion = 1;
    check(run_net(of, cells, &desc, &without, y[1]) && without == 0 && memcmp(y[0], y[1], sizeof y[0]) == 0,
          "%s, %s: the same bytes, order %d, algorithm %d, tier %d, %d threads: %s", of->what, tail_cells_name[cells],
          desc.order, desc.conv, desc.tier, desc.threads, error.message);
}

/* Lines, with an operand of their shape and one that all lines share. */
static bool run_lines(bool rows, const bs_plan_desc *desc, int32_t *steps, float *to)
{
    static const int64_t shape[4] = {LINES, FEATURES};
    bs_graph *g = new_graph();
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(LINES, FEATURES));
    const bs_value line = rows ? bs_rows(g, in, (bs_value){0}) : in;
    const bs_value all = bs_constant(g, "shared", BS_F32, bs_shape_of(1, FEATURES, 0, 0, 0));
    const bs_value made = bs_linear(g, line, &(bs_linear_desc){.name = "w", .out = FEATURES, .act = BS_SILU});
    const bs_value sum = bs_mul(g, bs_add(g, line, made), all);
    bs_output(g, "y", rows ? bs_collect(g, sum) : sum);
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    *steps = plan ? tail_steps(plan) : -1;
    return run(plan, 2, shape, shape, to);
}

static void test_lines(bool rows, bs_plan_desc desc)
{
    static const int64_t w[2] = {FEATURES, FEATURES};
    int32_t steps, without;
    memset(&weights, 0, sizeof weights);
    net_add(&weights, "w.weight", 2, w, 0.3f);
    net_add(&weights, "w.bias", 1, w, 0.3f);
    net_add(&weights, "shared", 1, w, 1);
    const bool ran = run_lines(rows, &desc, &steps, y[0]);
    desc.no_fusion = 1;
    check(ran && run_lines(rows, &desc, &without, y[1]) && steps == 2 && without == 0 &&
              memcmp(y[0], y[1], sizeof y[0]) == 0,
          "lines, %s, %d threads: %d steps, the same bytes: %s", rows ? "rows" : "a matrix", desc.threads, steps,
          error.message);
}

/* What a caller names, what leaves the run, what another path reads: all read it. */
static void test_apart(void)
{
    static const int64_t w[2] = {FEATURES, FEATURES};
    memset(&weights, 0, sizeof weights);
    net_add(&weights, "w.weight", 2, w, 0.3f);
    net_add(&weights, "w.bias", 1, w, 0.3f);
    bs_graph *g = new_graph();
    const bs_value made = bs_linear(g, bs_input(g, "x", BS_F32, BS_SHAPE2(LINES, FEATURES)),
                                    &(bs_linear_desc){.name = "w", .out = FEATURES});
    bs_output(g, "made", made);
    bs_output(g, "y", bs_activation(g, made, BS_TANH, 0));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    check(plan && plan->graph == g, "an output is not part of anything: %s", error.message);
}

int main(void)
{
    check_seed(5);
    for (int32_t i = 0; i < MOST; i++)
        x[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t i = 0; i < TAIL_NETS; i++)
        for (int32_t cells = TAIL_ROOT; cells < TAIL_CELLS; cells++) {
            for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
                test_net(&tail_nets[i], (tail_cells)cells,
                         (bs_plan_desc){.order = order, .threads = 1 + 2 * (i % 2)});
            for (int32_t choice = BS_CONV_FORCE_DIRECT; choice <= BS_CONV_FORCE_REFERENCE; choice++)
                test_net(&tail_nets[i], (tail_cells)cells, (bs_plan_desc){.conv = choice});
            test_net(&tail_nets[i], (tail_cells)cells, (bs_plan_desc){.tier = BS_TIER_SCALAR});
        }
    for (int32_t rows = 0; rows <= 1; rows++)
        for (int32_t threads = 1; threads <= 3; threads++)
            test_lines(rows, (bs_plan_desc){.threads = threads});
    test_apart();
    return check_end();
}
