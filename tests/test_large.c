/* tags: asan tsan */
/* test_large.c - sizes that people run: 48 layers of 128 experts are built, planned and run in both orders, resident
 * and with slots for a tenth of the weights, and give what the oracle says; so does a router with 512 paths, whatever
 * its protocol.
 *
 *     test_large [FILE]   FILE: what tests/test_large_python.py wrote is opened and run instead */
#define NAIVE_VALUES  20000
#define NAIVE_DOMAINS 8192
#define NAIVE_PATHS   512
#include "naive.h"

#include "large_net.h"
#include "run/session.h"

static naive oracle;
static bs_error error;
static float input[64 * 64], output[64 * 64];
static double input_exact[64 * 64];

static double now_ms(void)
{
    const bs_platform *p = bs_platform_default();
    return (double)p->clock_ns(p->user) * 1e-6;
}

/* ------------------------------------------------------------------------------------------------- one way of
 * running */

typedef struct way {
    const char *name;
    int32_t order, threads;
    double slots; /* share of all streamed weights; 0: resident */
} way;

static bool same_as_oracle(const char *name, const bs_session *session, int32_t value)
{
    const bs_graph *g = oracle.g;
    const int64_t count = naive_elements(&oracle, value);
    for (int64_t i = 0; i < count; i++)
        if ((double)output[i] != oracle.cell[value][0][i]) {
            printf("  %s: element %lld is %g, the oracle says %g\n", name, (long long)i, (double)output[i],
                   oracle.cell[value][0][i]);
            return false;
        }
    for (int32_t r = 1; r < g->n_routers; r++) {
        bs_decision d;
        if (bs_decision_get(session, g->routers[r].desc->name, &d) != BS_OK ||
            memcmp(d.counts, oracle.counts[r], (size_t)d.paths * sizeof *d.counts) != 0) {
            printf("  %s: router %d counts otherwise\n", name, r);
            return false;
        }
        for (int32_t c = 0; c < d.cells; c++) {
            const naive_choice *choice = &oracle.choice[r][c];
            if (d.chosen[c] != (choice->n ? choice->path[0] : -1) || d.dropped != oracle.dropped[r]) {
                printf("  %s: router %d cell %d took path %d\n", name, r, c, d.chosen[c]);
                return false;
            }
        }
    }
    return true;
}

static bs_plan *plan_of(room *r, const bs_graph *g, const bs_plan_desc *desc, double *ms)
{
    *r = large_room_of("plan", bs_plan_bytes(g, desc));
    const double start = now_ms();
    bs_plan *plan = bs_plan_create(&r->arena, NULL, g, desc, &error);
    *ms = now_ms() - start;
    return plan;
}

static bool run_once(const bs_plan *plan, const bs_weights *weights, int32_t rows, int32_t d, const char *name,
                     int32_t value)
{
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    room rooms[4] = {large_room_of("persistent", sizes.persistent), large_room_of("transient", sizes.transient),
                     large_room_of("staging", sizes.staging), large_room_of("slots", sizes.slots)};
    bs_memory memory = {rooms[0].arena, rooms[1].arena, rooms[2].arena, rooms[3].arena};
    const bs_session_desc desc = {.weights = *weights};
    bs_session *session = bs_session_create(&memory, plan, &desc, &error);
    const bs_buffer in = {input, BS_F32, 2, {rows, d}, {0}};
    const bs_value_info *v = &oracle.g->values[value];
    bs_buffer out = {output, BS_F32, v->rank, {0}, {0}};
    for (int32_t i = 0; i < v->rank; i++)
        out.dim[i] = oracle.dims[v->dims[i]];
    bool ok = session && bs_bind(session, "x", &in, &error) == BS_OK && bs_bind(session, "y", &out, &error) == BS_OK;
    for (int32_t run = 0; ok && run < 2; run++) {
        memset(output, 0x7f, sizeof output);
        ok = bs_run(session, &error) == BS_OK && same_as_oracle(name, session, value);
    }
    if (error.status != BS_OK)
        printf("  %s: %s\n", name, error.message);
    bs_session_close(session);
    for (int32_t i = 0; i < 4; i++)
        free(rooms[i].memory);
    return ok;
}

/* The graph gives what the oracle says, in every way. */
static void runs_in(const char *name, const bs_graph *g, const bs_tensor_table *table, const bs_weights *weights,
                    int32_t rows, int32_t d, const way *ways, int32_t n_ways)
{
    const bs_plan_desc plain = {0};
    const naive_source source = {"x", input_exact, {rows, d, 0, 0}};
    int32_t value = 0;
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (bs_node_is(&g->nodes[n], &bs_op_output))
            value = bs_node_in(g, &g->nodes[n])[0];
    for (int32_t r = 0; r < rows; r++)
        for (int32_t i = 0; i < d; i++)
            input_exact[r * d + i] = (double)(input[r * d + i] = large_input(r, i));
    oracle = (naive){.g = g, .weights = table, .desc = &plain, .sources = &source, .n_sources = 1};
    if (!check(g->status == BS_OK && naive_run(&oracle) == BS_OK, "%s: %d nodes, %d domains: %s", name, g->n_nodes,
               g->n_domains, g->error.message))
        return;
    for (int32_t k = 0; k < n_ways; k++) {
        bs_plan_desc desc = {.order = ways[k].order, .threads = ways[k].threads};
        room first = {0}, second = {0};
        double ms, slots_ms = 0;
        char what[96];
        memset(&error, 0, sizeof error);
        if (ways[k].slots > 0)
            desc.slot_bytes = (uint64_t)1 << 40;
        bs_plan *plan = plan_of(&first, g, &desc, &ms);
        if (plan && ways[k].slots > 0) {
            bs_stream_plan stream;
            bs_plan_stream_get(plan, &stream);
            const uint64_t share = (uint64_t)(ways[k].slots * (double)stream.all_bytes);
            desc.slot_bytes = share > stream.least_bytes ? share : stream.least_bytes;
            plan = plan_of(&second, g, &desc, &slots_ms);
        }
        snprintf(what, sizeof what, "%s, %s", name, ways[k].name);
        check(plan && run_once(plan, weights, rows, d, what, value),
              "%s: as the oracle says; planned in %.0f ms, with %zu KB", what, slots_ms > 0 ? slots_ms : ms,
              bs_plan_bytes(g, &desc) / 1024);
        free(first.memory);
        free(second.memory);
    }
}

static const way all_ways[] = {
    {"breadth first", BS_ORDER_BREADTH, 1, 0},
    {"depth first", BS_ORDER_DEPTH, 2, 0},
    {"slots for a tenth", BS_ORDER_AUTO, 1, 0.1},
};

/* ------------------------------------------------------------------------------------------------- 48 x 128 */

static void test_mixture(const char *name, const large_net *net)
{
    large_source source = {*net, large_table(net)};
    const bs_graph_desc desc = large_room(net);
    room r = large_room_of("graph", bs_graph_bytes(&desc));
    bs_graph *g = bs_graph_create(&r.arena, &desc);
    const double start = now_ms();
    large_build(g, net);
    printf("  %s: built in %.0f ms, %zu KB\n", name, now_ms() - start, bs_graph_bytes(&desc) / 1024);
    const bs_weights weights = large_weights(&source);
    runs_in(name, g, &source.table, &weights, net->rows, net->d, all_ways, 3);
    large_table_free(&source.table);
    free(r.memory);
}

/* ----------------------------------------------------------------------------------------------- 512 paths */

enum { WIDE = 512, WIDE_ROWS = 40 };

/* Scores come from the input; every path but each 7th gives the row times its own small number. */
static void wide_graph(bs_graph *g, const bs_route_desc *route, int32_t mode)
{
    static bs_value out[WIDE];
    const bs_value none = {0}, x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(BS_UPTO(WIDE_ROWS), 16)), none);
    const bool label = route->protocol == BS_ROUTE_LABEL;
    const bs_value score = label ? bs_convert(
                                       g,
                                       bs_clip(g,
                                               bs_affine(g, bs_slice(g, x, &(bs_slice_desc){.start = 3, .length = 1}),
                                                         31, 255),
                                               0, 511),
                                       &(bs_convert_desc){.dtype = BS_I32})
                                 : bs_linear(g, x, &(bs_linear_desc){.name = "score", .out = WIDE, .no_bias = 1});
    const bs_router r = bs_route(g, score, none, route);
    for (int32_t p = 0; p < WIDE; p++)
        out[p] = p % 7 == 3 ? none : bs_affine(g, bs_scatter(g, r, p, x), (float)(p % 5 - 2), (float)(p % 3));
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, x, &(bs_gather_desc){.mode = mode})));
}

static void test_wide(void)
{
    static const struct { const char *name; bs_route_desc route; int32_t mode; } cases[] = {
        {"512 paths, the best", {.protocol = BS_ROUTE_TOP1}, BS_GATHER_PLACE},
        {"512 paths, the best 8 by gates", {.protocol = BS_ROUTE_TOPK, .k = 8}, BS_GATHER_WEIGHTED},
        {"512 paths, the best 100 added", {.protocol = BS_ROUTE_TOPK, .k = 100}, BS_GATHER_ADD},
        {"512 paths, the best 5, one selected", {.protocol = BS_ROUTE_TOPK, .k = 5}, BS_GATHER_SELECT},
        {"512 paths, all above a threshold", {.protocol = BS_ROUTE_THRESHOLD, .threshold = -0.5f}, BS_GATHER_ADD},
        {"512 paths, two cells each", {.protocol = BS_ROUTE_CAPACITY, .k = 3, .capacity = 2}, BS_GATHER_WEIGHTED},
        {"512 paths, labels", {.protocol = BS_ROUTE_LABEL}, BS_GATHER_PLACE},
    };
    const bs_tensor score = {
        .name = "score.weight", .dtype = BS_F32, .rank = 2, .dim = {WIDE, 16}, .data = large_pattern(5)};
    const bs_tensor_table table = {&score, 1};
    const bs_weights weights = bs_weights_from_table(&table);
    const bs_graph_desc desc = {.max_nodes = 2048, .max_values = 2048, .max_text_bytes = 1 << 18, .max_domains = 600};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        room r = large_room_of("graph", bs_graph_bytes(&desc));
        bs_graph *g = bs_graph_create(&r.arena, &desc);
        bs_route_desc route = cases[i].route;
        route.name = "wide";
        route.paths = WIDE;
        wide_graph(g, &route, cases[i].mode);
        runs_in(cases[i].name, g, &table, &weights, WIDE_ROWS, 16, all_ways, 2);
        free(r.memory);
    }
}

/* ------------------------------------------------------------------------------------------------ from a file */

static void test_file(const char *path, const large_net *net)
{
    large_source source = {*net, large_table(net)};
    room r = large_room_of("model", (uint64_t)64 << 20), graph = {0};
    const double start = now_ms();
    bs_model *model = bs_model_open_file(&r.arena, NULL, path, &error);
    const double opened = now_ms();
    if (!check(model != NULL, "%s opens: %s", path, error.message))
        return;
    const bs_graph_desc desc = bs_model_graph_desc(model);
    graph = large_room_of("graph", bs_graph_bytes(&desc));
    bs_graph *g = bs_graph_create(&graph.arena, &desc);
    bs_model_build(model, g, NULL, &error);
    printf("  opened in %.1f ms with %zu KB, built in %.1f ms with %zu KB\n", opened - start, r.arena.used / 1024,
           now_ms() - opened, bs_graph_bytes(&desc) / 1024);
    const bs_weights weights = bs_model_weights(model);
    runs_in(path, g, &source.table, &weights, net->rows, net->d, all_ways, 3);
    large_table_free(&source.table);
    bs_model_close(model);
    free(r.memory);
    free(graph.memory);
}

int main(int count, char **words)
{
    static const large_net people = {48, 128, 8, 64, 32, 3};
    large_fill();
    if (count > 1) {
        test_file(words[1], &people);
        return check_end();
    }
    test_mixture("48 layers of 128 experts", &people);
    test_wide();
    return check_end();
}
