/* tags: asan tsan */
/* test_segment_paths.c - segments of rows that take a path or make a trip of a loop: each op against the oracle, in
 * paths, in paths of paths, in loops of every kind, and across domains. */
#include "segments_rig.h"

#ifdef BS_TEST_ON_DEVICE
enum { WAY_STEP = 3 }; /* threads mean nothing there */
#else
enum { WAY_STEP = 1 };
#endif
enum { TRIPS = 4 };

typedef struct inputs {
    bs_value lengths, others, past, table, route, counts, limit, x, y; /* x: rows in segments; y: of another domain */
} inputs;

static inputs make_inputs(bs_graph *g)
{
    const bs_dim n = bs_symbol(g, "N", MOST), m = bs_symbol(g, "H", MOST);
    inputs in = {.lengths = bs_input(g, "rows", BS_I32, BS_SHAPE1(SEQS)),
                 .others = bs_input(g, "others", BS_I32, BS_SHAPE1(SEQS)),
                 .past = bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS)),
                 .table = bs_input(g, "table", BS_F32, BS_SHAPE2(SEQS, D))};
    const bs_value route = bs_input(g, "route", BS_I32, BS_SHAPE2(n, 1)),
                   limit = bs_input(g, "limit", BS_I32, BS_SHAPE2(n, 1)),
                   counts = bs_input(g, "counts", BS_I32, BS_SHAPE2(n, 1)),
                   x = bs_input(g, "x", BS_F32, BS_SHAPE2(n, D)), y = bs_input(g, "y", BS_F32, BS_SHAPE2(m, D));
    in.route = bs_segments(g, route, in.lengths);
    in.counts = bs_segments(g, counts, in.lengths);
    in.limit = bs_segments(g, limit, in.lengths);
    in.x = bs_segments(g, x, in.lengths);
    in.y = bs_segments(g, y, in.others);
    return in;
}

static bs_value attend(bs_graph *g, bs_value q, bs_value k, bool causal)
{
    const bs_value none = {0};
    return bs_attention(g, q, k, k, none, none, none,
                        &(bs_attention_desc){.heads = 3, .alibi = 1, .bidirectional = !causal});
}

/* Behind a cache that is read in any case, so that its positions come from the rows of a path. */
static bs_value attend_cached(bs_graph *g, bs_value q, bs_value past)
{
    const bs_value ring = bs_input(g, "ring", BS_F32, BS_SHAPE3(SEQS, WINDOW, D));
    return bs_attention(g, q, q, q, ring, ring, past, &(bs_attention_desc){.heads = 2});
}

static bs_value reduced(bs_graph *g, bs_value x, int32_t mode)
{
    return bs_segment_reduce(g, x, &(bs_segment_reduce_desc){.mode = mode, .to_rows = 1});
}

/* Every op on rows of a path, of a loop's body or of all: what each gives, added up. */
static bs_value all_ops(bs_graph *g, const inputs *in, bs_value x)
{
    const bs_value index = bs_convert(g, bs_segment_index(g, x, in->past), BS_F32),
                   spread = bs_segment_spread(g, in->table, x);
    bs_value sum = bs_add(g, attend(g, x, x, true), attend(g, x, x, false));
    sum = bs_add(g, sum, attend(g, x, in->y, false));
    sum = bs_add(g, bs_add(g, sum, spread), bs_affine(g, x, 0.5f, 0));
    for (int32_t mode = BS_SEGMENT_LAST; mode <= BS_SEGMENT_MAX; mode++)
        sum = bs_add(g, sum, reduced(g, x, mode));
    const bs_value turned = bs_rope(g, x, bs_segment_index(g, x, (bs_value){0}), NULL);
    sum = bs_add(g, sum, bs_mul(g, turned, bs_affine(g, bs_reshape(g, index, BS_SHAPE1(1)), 0.125f, 0)));
    return bs_affine(g, sum, 0.125f, 0);
}

static bs_router two_ways(bs_graph *g, bs_value by, const char *name)
{
    return bs_route(g, by, (bs_value){0}, &(bs_route_desc){.name = name, .protocol = BS_ROUTE_LABEL, .paths = 2});
}

static void routed(bs_graph *g, const inputs *in)
{
    const bs_router r1 = two_ways(g, in->route, "router");
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++)
        out[p] = all_ops(g, in, bs_scatter(g, r1, p, in->x));
    bs_output(g, "out", bs_collect(g, bs_gather(g, r1, out, (bs_value){0}, NULL)));
}

/* Queries of all rows, keys of those that took a path; and the rows of a path reduced to a row for each segment. */
static void across(bs_graph *g, const inputs *in)
{
    const bs_router r1 = two_ways(g, in->route, "router");
    const bs_value a = bs_scatter(g, r1, 0, in->x), b = bs_affine(g, bs_scatter(g, r1, 1, in->x), 2, 1);
    bs_output(g, "out", bs_collect(g, bs_add(g, attend(g, in->x, a, false), attend(g, in->x, b, false))));
    bs_output(g, "theirs", bs_collect(g, attend(g, in->y, b, false)));
    for (int32_t mode = BS_SEGMENT_LAST; mode <= BS_SEGMENT_MAX; mode++) {
        static const char *const names[4] = {"last", "sum", "mean", "max"};
        bs_output(g, names[mode], bs_segment_reduce(g, b, &(bs_segment_reduce_desc){.mode = mode}));
    }
    bs_value back[2] = {attend(g, a, in->x, false), attend(g, b, a, false)};
    bs_output(g, "back", bs_collect(g, bs_gather(g, r1, back, (bs_value){0}, NULL)));
}

static void cached(bs_graph *g, const inputs *in)
{
    const bs_router r1 = two_ways(g, in->route, "router");
    const bs_value out[2] = {attend_cached(g, bs_scatter(g, r1, 0, in->x), in->past), bs_scatter(g, r1, 1, in->x)};
    bs_output(g, "out", bs_collect(g, bs_gather(g, r1, out, (bs_value){0}, NULL)));
}

static void nested(bs_graph *g, const inputs *in)
{
    const bs_router r1 = two_ways(g, in->route, "outer");
    const bs_value x = bs_scatter(g, r1, 1, in->x),
                   few = bs_compare(g, bs_scatter(g, r1, 1, in->counts), bs_scatter(g, r1, 1, in->limit),
                                    BS_COMPARE_LESS);
    const bs_router r2 = two_ways(g, few, "inner");
    const bs_value inner[2] = {all_ops(g, in, bs_scatter(g, r2, 0, x)), bs_scatter(g, r2, 1, x)};
    const bs_value out[2] = {bs_scatter(g, r1, 0, in->x), bs_add(g, bs_gather(g, r2, inner, (bs_value){0}, NULL), x)};
    bs_output(g, "out", bs_collect(g, bs_gather(g, r1, out, (bs_value){0}, NULL)));
}

/* Rows that leave are seen no more by those that go on. */
/* All rows, and the root, read the rows of a path that is decided in another one. */
static void out_of_nested(bs_graph *g, const inputs *in)
{
    const bs_router outer = two_ways(g, in->route, "outer");
    const bs_router inner = two_ways(g, bs_scatter(g, outer, 1, in->limit), "inner");
    const bs_value x = bs_scatter(g, inner, 0, bs_scatter(g, outer, 1, in->x));
    bs_output(g, "sum", bs_segment_reduce(g, x, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_SUM}));
    bs_output(g, "seen", bs_collect(g, attend(g, in->x, x, false)));
}

static void looped_by_count(bs_graph *g, const inputs *in)
{
    bs_value none = {0};
    const bs_router loop = bs_loop_begin(g, in->x, in->counts, &(bs_loop_desc){.name = "loop", .bound = TRIPS});
    const bs_value x = bs_loop_carry(g, loop, in->x), trip = bs_convert(g, bs_loop_trip(g, loop), BS_F32);
    const bs_value next = bs_add(g, all_ops(g, in, x), trip);
    const bs_value last = bs_loop_next(g, loop, x, next);
    bs_loop_end(g, loop, none);
    bs_output(g, "out", bs_collect(g, last));
}

/* Rows leave by what they are: of some segments all do before others'. */
static void looped_by_predicate(bs_graph *g, const inputs *in)
{
    const bs_router loop = bs_loop_begin(g, in->x, (bs_value){0}, &(bs_loop_desc){.name = "loop", .bound = 40});
    const bs_value left = bs_loop_carry(g, loop, bs_convert(g, in->counts, BS_F32)),
                   x = bs_loop_carry(g, loop, in->x);
    const bs_value less = bs_affine(g, left, 1, -1), last = bs_loop_next(g, loop, x, all_ops(g, in, x));
    bs_loop_next(g, loop, left, less);
    bs_loop_end(g, loop, less);
    bs_output(g, "out", bs_collect(g, last));
}

/* A loop in a path, with a router in its body. */
static void looped_in_path(bs_graph *g, const inputs *in)
{
    bs_value none = {0};
    const bs_router outer = two_ways(g, in->route, "outer");
    const bs_value start = bs_scatter(g, outer, 0, in->x), counts = bs_scatter(g, outer, 0, in->counts);
    const bs_router loop = bs_loop_begin(g, start, counts, &(bs_loop_desc){.name = "loop", .bound = TRIPS});
    const bs_value x = bs_loop_carry(g, loop, start), y = all_ops(g, in, x);
    const bs_value bar = bs_scatter(g, loop, 0, bs_scatter(g, outer, 0, in->route)),
                   late = bs_compare(g, bs_loop_trip(g, loop), bar, BS_COMPARE_GREATER);
    const bs_router inner = two_ways(g, late, "inner");
    const bs_value paths[2] = {attend(g, bs_scatter(g, inner, 0, y), bs_scatter(g, inner, 0, x), true),
                               reduced(g, bs_scatter(g, inner, 1, y), BS_SEGMENT_MEAN)};
    const bs_value last = bs_loop_next(g, loop, x, bs_gather(g, inner, paths, none, NULL));
    bs_loop_end(g, loop, none);
    const bs_value out[2] = {last, none};
    bs_output(g, "out", bs_collect(g, bs_gather(g, outer, out, in->x, NULL)));
}

/* Rows go in turn: those of a turn see each other. */
static void looped_in_turn(bs_graph *g, const inputs *in)
{
    bs_value none = {0};
    const bs_router loop =
        bs_loop_begin(g, in->x, in->counts, &(bs_loop_desc){.name = "loop", .bound = TRIPS, .in_turn = 1});
    const bs_value x = bs_loop_carry(g, loop, in->x);
    const bs_value last = bs_loop_next(g, loop, x, all_ops(g, in, x));
    bs_loop_end(g, loop, none);
    bs_output(g, "out", bs_collect(g, last));
}

/* ------------------------------------------------------------------------------------------- against the oracle */

static const struct {
    const char *name;
    void (*build)(bs_graph *g, const inputs *in);
} nets[] = {{"in the paths of a router", routed},
            {"across paths, and between a path and all rows", across},
            {"in a path, behind a cache", cached},
            {"in a path of a path", nested},
            {"out of a path of a path", out_of_nested},
            {"in a loop with counts", looped_by_count},
            {"in a loop with a predicate", looped_by_predicate},
            {"in a loop of a path, with a router in its body", looped_in_path},
            {"in a loop whose rows go in turn", looped_in_turn}};
enum { NETS = sizeof nets / sizeof *nets, CASES = 4 };

static const int32_t lengths[CASES][2][SEQS] = {{{3, 0, 7, 2}, {5, 1, 0, 9}},
                                                {{0, 0, 0, 1}, {0, 0, 0, 2}},
                                                {{12, 13, 1, 12}, {1, 30, 16, 1}},
                                                {{0, 17, 0, 0}, {3, 0, 0, 8}}};

static double *input_of(against *a, const char *name)
{
    for (int32_t i = 0; i < a->n_inputs; i++)
        if (strcmp(a->sources[i].name, name) == 0)
            return ag_data[i];
    static double none[1 << 14]; /* the net does not read it */
    return none;
}

static void give_data(against *a, int32_t k)
{
    for (int32_t s = 0; s < SEQS; s++) {
        input_of(a, "rows")[s] = lengths[k][0][s];
        input_of(a, "others")[s] = lengths[k][1][s];
        input_of(a, "past")[s] = check_below(20);
    }
    for (int32_t i = 0; i < MOST; i++) { /* of the last case all rows take one path */
        input_of(a, "route")[i] = k == CASES - 1 ? 0 : check_below(2);
        input_of(a, "counts")[i] = check_below(TRIPS + 1);
        input_of(a, "limit")[i] = check_below(2);
    }
    for (int32_t i = 0; i < 1 << 14; i++) {
        input_of(a, "x")[i] *= 0.125;
        input_of(a, "y")[i] *= 0.125;
        input_of(a, "table")[i] *= 0.125;
        input_of(a, "ring")[i] *= 0.125;
    }
}

/* The largest difference of outputs whose extents the oracle knows. */
static double net_error(against *a, const bs_graph *g, const bs_plan_desc *way, int32_t k)
{
    int64_t extent[3] = {0, 0, SEQS};
    for (int32_t s = 0; s < SEQS; s++) {
        extent[0] += lengths[k][0][s];
        extent[1] += lengths[k][1][s];
    }
    memset(a, 0, sizeof *a);
    against_inputs(a, g, NULL, way, extent);
    give_data(a, k);
    a->strided = k % 2;
    return error_of_run(a, g);
}

static void test_net(int32_t which)
{
    static against a;
    double worst = 0;
    int32_t intact = 0;
    for (int32_t w = 0; w < WAYS; w += WAY_STEP) {
        bs_graph *g = new_graph();
        const inputs in = make_inputs(g);
        nets[which].build(g, &in);
        if (!start(g, &ways[w], NULL)) {
            worst = INFINITY;
            break;
        }
        for (int32_t k = 0; k < CASES; k++) {
            const double error = net_error(&a, g, &ways[w], k);
            worst = !(error <= worst) ? error : worst;
        }
        intact += rig_intact(&r);
        bs_session_close(r.session);
    }
    check(worst < 2e-5 && intact == WAYS / WAY_STEP, "%s: as the oracle has it (%.1e)", nets[which].name, worst);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (int32_t i = 0; i < NETS; i++)
        test_net(i);
    return check_end();
}
