/* interpreter.c - networks whose kernels do next to nothing, to count what is done around kernels:
 *
 *     interpreter linears RUNS     20 linears of 16 features, one after the other, at batch 1
 *     interpreter trips TRIPS      one loop at top level whose body adds two rows; one run
 *
 * bench/interpreter.sh takes the difference of two calls under callgrind.
 * Owns: nothing. Relies on: tests/net.h. Must never do anything between runs or trips. */
#include "../tests/net.h"

enum { NODES = 20, FEATURES = 16, MOST_TRIPS = 1 << 20 };

static void build_linears(bs_graph *g, net_table *weights)
{
    static char tensor[NODES][24];
    static const int64_t dim[2] = {FEATURES, FEATURES};
    bs_value v = bs_input(g, "x", BS_F32, BS_SHAPE2(1, FEATURES));
    for (int i = 0; i < NODES; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        snprintf(tensor[i], sizeof tensor[i], "l%d.weight", i);
        net_add(weights, tensor[i], 2, dim, 0.25f);
        v = bs_linear(g, v, &(bs_linear_desc){.name = name, .out = FEATURES, .no_bias = 1});
    }
    bs_output(g, "y", v);
}

static void build_trips(bs_graph *g)
{
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(1, FEATURES)),
                   count = bs_input(g, "count", BS_I32, BS_SHAPE1(1));
    const bs_router loop = bs_loop_begin(g, x, count, &(bs_loop_desc){.name = "loop", .bound = MOST_TRIPS});
    const bs_value h = bs_loop_carry(g, loop, x),
                   last = bs_loop_next(g, loop, h, bs_add(g, h, bs_scatter(g, loop, 0, x)));
    bs_loop_end(g, loop, BS_NONE);
    bs_output(g, "y", last);
}

int main(int count, char **words)
{
    static net n;
    static net_table weights;
    static float x[FEATURES], y[FEATURES];
    const bool trips = count == 3 && strcmp(words[1], "trips") == 0;
    if (count != 3 || (!trips && strcmp(words[1], "linears") != 0))
        return fprintf(stderr, "usage: interpreter linears RUNS, or trips TRIPS\n") > 0;
    int32_t times = atoi(words[2]);
    const bs_plan_desc desc = {.threads = 1};
    const bs_buffer in = {x, BS_F32, 2, {1, FEATURES}, {0}}, out = {y, BS_F32, 2, {1, FEATURES}, {0}},
                    turns = {&times, BS_I32, 1, {1}, {0}};
    bs_graph *g = net_begin(&n);
    if (trips)
        build_trips(g);
    else
        build_linears(g, &weights);
    const bs_weights source = bs_weights_from_table(&weights.table);
    bool ok = net_start(&n, &desc, &source) && bs_bind(n.session, "x", &in, &n.error) == BS_OK &&
              bs_bind(n.session, "y", &out, &n.error) == BS_OK &&
              (!trips || bs_bind(n.session, "count", &turns, &n.error) == BS_OK);
    for (int32_t run = 0; ok && run < (trips ? 1 : times); run++)
        ok = bs_run(n.session, &n.error) == BS_OK;
    if (!ok)
        fprintf(stderr, "%s\n", n.error.message);
    bs_session_close(n.session);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
