/* tags: asan tsan */
/* test_data_extents.c - promises: what comes from data reaches exactly as far as the data say, from nothing to the
 * maximum, in any order, with any threads, weights that come and go and plans that were saved; nothing beyond is
 * written; a run whose extents cannot be ends with words that say which. */
#define _POSIX_C_SOURCE 200809L
#include "flat_source.h"
#include "plan_image.h"
#include "extents_rig.h"

#define MOST 24 /* rows of the table */
#define KEPT 20 /* of which as many may be chosen */

static plan_image saved;
static flat_source source;

/* The rows of x whose mask is not 0, their way through a router, and what is made of them at the root. */
static bs_graph *chosen_net(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(MOST, 4)),
                   mask = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST));
    const bs_value at = bs_nonzero(g, mask, &(bs_extent_desc){"N", KEPT});
    const bs_value i = bs_reshape(g, at, BS_SHAPE1(-1)), y = routed(g, bs_gather_rows(g, x, i));
    bs_output(g, "at", at);
    bs_output(g, "y", y);
    bs_output(g, "sum", bs_reduce(g, y, &(bs_reduce_desc){.axis = 0}));
    bs_output(g, "both", bs_concat(g, (bs_value[]){y, bs_input(g, "c", BS_F32, BS_SHAPE2(2, 4))}, 2, 0));
    bs_output(g, "put", bs_scatter_rows(g, x, i, y, &(bs_update_desc){.update = BS_UPDATE_ADD}));
    bs_output(g, "again", bs_nonzero(g, y, &(bs_extent_desc){.name = "M"}));
    return g;
}

static int32_t maker_of(const bs_graph *g, const char *name)
{
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (g->nodes[n].makes && strcmp(bs_node_name(&g->nodes[n]), name) == 0)
            return n;
    return 0;
}

/* A run in which `count` rows are chosen, anywhere. */
static bool run_chosen(const bs_graph *g, const bs_plan_desc *d, int32_t count)
{
    static const int64_t extent[3] = {1, 1, 1};
    int32_t left = count;
    against_inputs(&a, g, &weights.table, d, extent);
    double *mask = data_of("mask");
    for (int32_t i = 0; i < MOST; i++) {
        mask[i] = check_below(MOST - i) < left ? 1 + check_below(8) : 0;
        left -= mask[i] != 0;
    }
    a.refusals = count > KEPT;
    a.strided = check_below(2);
    return against_run(&a, r.session);
}

/* Extents after each other, in one session. */
static bool runs_agree(const bs_graph *g, const bs_plan_desc *d)
{
    static const int32_t counts[] = {7, 0, KEPT, 1, KEPT + 1, 0, 12, MOST, KEPT, 0};
    memset(&a, 0, sizeof a);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        if (!run_chosen(g, d, counts[k]) || !rig_intact(&r)) {
            printf("  %d rows, order %d, %d threads: %s\n", counts[k], d->order, d->threads, a.why);
            return false;
        }
    return true;
}

static void test_ways(void)
{
    bs_graph *g = chosen_net();
    int32_t wrong = 0;
    for (int32_t way = 0; way < 8; way++) {
        const bs_plan_desc d = {.order = way % 2 ? BS_ORDER_DEPTH : BS_ORDER_BREADTH, .threads = 1 + way / 2};
        if (!rig_plan(&r, g, &d) || !rig_session(&r, &weights.table, NULL, 0xFF) || !runs_agree(g, &d))
            wrong++;
        bs_session_close(r.session);
    }
    check(wrong == 0, "from no row to all, in both orders and with 1 to 4 threads, are as their definition: %s %s",
          g->error.message, r.error.message);
}

static void test_saved(void)
{
    bs_graph *g = chosen_net();
    int32_t wrong = 0;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.order = order, .threads = 2};
        wrong += !rig_plan(&r, g, &d) || !plan_image_save(&saved, r.plan);
        r.plan = (bs_plan *)(uintptr_t)plan_image_open(&saved, g);
        wrong += !r.plan || !rig_session(&r, &weights.table, NULL, 0x11) || !runs_agree(g, &d);
        bs_session_close(r.plan ? r.session : NULL);
    }
    check(wrong == 0, "a plan that was saved gives the same: %s", saved.error.message);
}

static void test_streamed(void)
{
    bs_graph *g = chosen_net();
    int32_t wrong = 0;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        bs_plan_desc d = {.order = order, .threads = 2, .slot_bytes = 1 << 20};
        const bs_stream_desc stream = {.speculation = order - BS_ORDER_BREADTH};
        bs_stream_plan facts;
        wrong += !rig_plan(&r, g, &d);
        bs_plan_stream_get(r.plan, &facts);
        d.slot_bytes = facts.least_bytes;
        flat_init(&source, g, &weights.table, BS_F32);
        const bs_weights from = flat_weights(&source, 64);
        wrong +=
            facts.units != 2 || !rig_plan(&r, g, &d) || !rig_streamed(&r, &from, &stream, 0x11) || !runs_agree(g, &d);
        bs_session_close(r.session);
    }
    check(wrong == 0, "weights that come and go give the same: %s", r.error.message);
}

/* A forced path gives nothing, so no data lead from what counts to the zeros that are as long as it says. */
static void test_forced(void)
{
    static const int64_t extent[3] = {1, 1, 1};
    int32_t wrong = 0;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.order = order, .threads = 1, .forces = {{"r", 1}}, .n_forces = 1};
        bs_graph *g = new_graph();
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(3, 1)), none);
        bs_value mask = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST));
        for (int32_t k = 0; k < 9; k++) /* it counts late */
            mask = bs_affine(g, mask, 1, 0);
        const bs_router route = bs_route(g, linear(g, x, "score", 2), none, &(bs_route_desc){.name = "r", .paths = 2});
        const bs_value i = bs_reshape(g, bs_nonzero(g, mask, &(bs_extent_desc){.name = "N"}), BS_SHAPE1(-1));
        const bs_value wide = bs_convert(g, i, &(bs_convert_desc){.dtype = BS_F32});
        const bs_value out[2] = {bs_add(g, bs_scatter(g, route, 0, x), wide)};
        bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, none, NULL)));
        memset(&a, 0, sizeof a);
        against_inputs(&a, g, &weights.table, &d, extent);
        wrong += !rig_plan(&r, g, &d) || !rig_session(&r, &weights.table, NULL, 0xFF) || !against_run(&a, r.session);
        bs_session_close(r.session);
    }
    check(wrong == 0, "zeros of a forced path are as long as data say: %s %s", r.error.message, a.why);
}

/* -------------------------------------------------------------------------------------------- what is refused */

static float mask[MOST], x[MOST][4], shown[MOST * 4 * 2];

static void choose(int32_t count)
{
    for (int32_t i = 0; i < MOST; i++)
        mask[i] = i < count ? NAN : -0.0f;
}

/* One op on [N, 4], of which an output is bound with `d0` x `d1`. */
static void start_one(bs_value (*op)(bs_graph *g, bs_value rows), int32_t rank, int64_t d0, int64_t d1)
{
    bs_graph *g = new_graph();
    const bs_value table = bs_input(g, "x", BS_F32, BS_SHAPE2(MOST, 4)),
                   m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST));
    const bs_value at = bs_reshape(g, bs_nonzero(g, m, &(bs_extent_desc){"N", KEPT}), BS_SHAPE1(-1));
    bs_output(g, "y", op(g, bs_gather_rows(g, table, at)));
    start(g);
    bind("x", x, BS_F32, 2, MOST, 4);
    bind("mask", mask, BS_F32, 1, MOST, 0);
    bind("y", shown, g->values[g->n_values - 1].dtype, rank, d0, d1);
}

static bs_value largest(bs_graph *g, bs_value rows)
{
    return bs_reduce(g, rows, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 0});
}
static bs_value product(bs_graph *g, bs_value rows)
{
    return bs_reduce(g, rows, &(bs_reduce_desc){.kind = BS_REDUCE_PROD, .axis = 0});
}
static bs_value best(bs_graph *g, bs_value rows) { return bs_argmax(g, bs_transpose(g, rows, NULL)); }
static bs_value third(bs_graph *g, bs_value rows)
{
    return bs_slice(g, rows, &(bs_slice_desc){.start = 2, .length = 1});
}
static bs_value behind(bs_graph *g, bs_value rows) { return bs_slice(g, rows, &(bs_slice_desc){.start = 3}); }
static bs_value squares(bs_graph *g, bs_value rows)
{
    return bs_matmul(g, bs_transpose(g, rows, NULL), rows, &(bs_matmul_desc){.scale = 2});
}

/* No input can give what data say. */
static void test_inputs(void)
{
    bs_graph *g = new_graph();
    const bs_value at = bs_nonzero(g, bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)), NULL);
    const bs_dim handle = ((bs_dim)1 << 41) + g->values[at.id].dims[0];
    check(g->status == BS_OK && bs_input(g, "x", BS_F32, BS_SHAPE1(handle)).id == 0 && g->status == BS_ERROR_SHAPE,
          "an input has no extent from data: %s", g->error.message);
}

static void test_empty(void)
{
    for (int32_t i = 0; i < MOST; i++)
        x[i][0] = x[i][1] = x[i][2] = x[i][3] = 1;
    start_one(largest, 1, 4, 0);
    choose(1);
    ends(BS_OK, NULL);
    choose(0);
    ends(BS_ERROR_DATA, "reduce \"\" (node 6): operand 0 is empty");
    start_one(best, 1, 4, 0);
    ends(BS_ERROR_DATA, "argmax \"\" (node 7): operand 0 is empty: dimension 1 (N<=20) is 0");
    start_one(product, 1, 4, 0);
    ends(BS_OK, NULL);
    check(shown[0] == 1 && shown[3] == 1, "a product of nothing is 1");
    start_one(squares, 2, 4, 4);
    ends(BS_OK, NULL);
    for (int32_t i = 0; i < 16; i++)
        check(shown[i] == 0, "a sum of no products is 0");
    choose(3);
    ends(BS_OK, NULL);
    check(shown[15] == 6, "of three it is not");
}

static void test_derived(void)
{
    int64_t dims[BS_MAX_RANK];
    start_one(third, 2, 1, 4);
    choose(3);
    ends(BS_OK, NULL);
    choose(2);
    ends(BS_ERROR_DATA, "nonzero \"N\" (node 3): dimension 2N-5<=35 would be -1");
    start_one(behind, 2, KEPT - 3, 4);
    choose(3);
    ends(BS_OK, NULL);
    check(bs_output_extents(r.session, "y", dims) == BS_OK && dims[0] == 0 && dims[1] == 4 && dims[2] == 0,
          "what follows may be empty");
    choose(2);
    ends(BS_ERROR_DATA, "nonzero \"N\" (node 3): dimension N-3<=17 would be -1");
    choose(KEPT + 1);
    ends(BS_ERROR_DATA, "nonzero \"N\" (node 3): dimension N<=20 would be 21");
    choose(KEPT);
    ends(BS_OK, NULL);
}

/* What there is beyond the maximum is counted, and not written. */
static void test_beyond(void)
{
    static int32_t at[MOST], numbers[MOST];
    static float limit = MOST;
    bs_graph *g = new_graph();
    bs_output(g, "at", bs_nonzero(g, bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)), &(bs_extent_desc){"N", KEPT}));
    bs_output(g, "numbers",
              bs_arange(g, bs_input(g, "limit", BS_F32, BS_SHAPE1(1)), none, none, &(bs_extent_desc){"M", KEPT}));
    start(g);
    bind("mask", mask, BS_F32, 1, MOST, 0);
    bind("limit", &limit, BS_F32, 1, 1, 0);
    bind("at", at, BS_I32, 2, KEPT, 1);
    bind("numbers", numbers, BS_F32, 1, KEPT, 0);
    choose(MOST);
    ends(BS_ERROR_DATA, "nonzero \"N\" (node 2): dimension N<=20 would be 24");
    choose(KEPT);
    ends(BS_ERROR_DATA, "arange \"M\" (node 5): dimension M<=20 would be 24");
    check(at[KEPT - 1] == KEPT - 1 && at[KEPT] == 0 && numbers[KEPT - 1] != 0 && numbers[KEPT] == 0,
          "nothing is written beyond the maximum");
}

/* Whether a plan that was saved is one that could have been made. */
static int32_t opens(const bs_graph *g)
{
    plan_image_save(&saved, r.plan);
    return plan_image_open(&saved, g) != NULL;
}

/* Rows that join cells of which there are as many as data say: a row for each, whichever number is known first. */
static void test_joined(void)
{
    static float few[5], two[2];
    for (int32_t way = 0; way < 3; way++) {
        bs_graph *g = new_graph();
        const bs_value m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)),
                       first = bs_input(g, "first", BS_F32, BS_SHAPE1(5)),
                       given = bs_input(g, "given", BS_F32, BS_SHAPE1(bs_symbol(g, "S", MOST)));
        const bs_extent_desc n = {"N", 5}, k = {"K", MOST};
        bs_value at[2];
        for (int32_t i = 0; i < 2; i++) /* in this order, and in the other one */
            at[i ^ (way == 1)] = i ^ (way == 1) ? bs_nonzero(g, m, &k) : bs_nonzero(g, first, &n);
        const bs_value cells = bs_rows(g, at[0], none), beside = way == 2 ? given : bs_reshape(g, at[1], BS_SHAPE1(-1));
        const bs_value joined = bs_rows(g, beside, cells);
        bs_output(g, "y", bs_collect(g, way == 2 ? bs_affine(g, joined, 1, 0) : joined));
        if (way == 2)
            bs_output(g, "at", at[1]);
        start(g);
        check(opens(g), "rows are counted before they are used: %s", saved.error.message);
        bind("mask", mask, BS_F32, 1, MOST, 0);
        bind("first", few, BS_F32, 1, 5, 0);
        if (way == 2)
            bind("given", two, BS_F32, 1, 2, 0);
        bind("y", shown, way == 2 ? BS_F32 : BS_I32, 1, 5, 0);
        if (way == 2)
            bind("at", x, BS_I32, 2, MOST, 1);
        few[0] = few[2] = few[4] = 1;
        choose(3);
        if (way < 2)
            ends(BS_OK, NULL);
        choose(2);
        if (way == 2)
            ends(BS_ERROR_DATA,
                 "nonzero \"N\" (node 4): rows (node 7): dimension 0 (S<=24) of \"given\" is 2, this run "
                 "has 3 cells of rows [N<=5]");
        else
            ends(BS_ERROR_DATA,
                 way ? "nonzero \"N\" (node 5): rows (node 8): dimension 0 (K<=24) of \"\" is 2, this run "
                       "has 3 cells of rows [N<=5]"
                     : "nonzero \"K\" (node 5): rows (node 8): dimension 0 (K<=24) of \"\" is 2, this run "
                       "has 3 cells of rows [N<=5]");
        few[4] = 0;
        ends(BS_OK, NULL);
    }
}

/* -------------------------------------------------------------------------------------------------------- ranges */

typedef struct range {
    double limit, start, step;
    int32_t count; /* -1: refused */
} range;

static void test_ranges(void)
{
    static const range ranges[] = {{5, 0, 1, 5},
                                   {0, 0, 1, 0},
                                   {-3, 0, 1, 0},
                                   {5, 5, 2, 0},
                                   {7, 1, 2, 3},
                                   {8, 1, 2, 4},
                                   {-5, 4, -3, 3},
                                   {1, 2, -1, 1},
                                   {2, 1, -1, 0},
                                   {40, 0, 1, 40},
                                   {1, 0, 0, -1},
                                   {0, 0, 0, -1},
                                   {NAN, 0, 1, -1},
                                   {3, NAN, 1, -1},
                                   {3, 0, NAN, -1},
                                   {INFINITY, 0, 1, -1},
                                   {3, -INFINITY, 1, -1},
                                   {1, 0, INFINITY, -1},
                                   {0, 1, INFINITY, -1},
                                   {0, 1, -INFINITY, -1},
                                   {0, 1, 0, -1},
                                   {0, 1, 1e-30f, 0},
                                   {1, 0, -1e-30f, 0},
                                   {-3e38f, 3e38f, 1e-38f, 0},
                                   {1, 0, 1e-30f, -1},
                                   {0.25, 0, 0.1, 3},
                                   {1, 0, 0.1f, 10},
                                   {41, 0, 1, -1},
                                   {2147483647, -2147483648.0, 2147483647, 3},
                                   {-2147483648.0, 2147483647, -2147483647, 3}};
    float f[3], y[40];
    int32_t i[3], z[40], wrong = 0;
    bs_graph *g = new_graph();
    static const char *const names[2][3] = {{"fl", "fs", "fd"}, {"il", "is", "id"}};
    for (int32_t t = 0; t < 2; t++) {
        bs_value of[3];
        for (int32_t k = 0; k < 3; k++)
            of[k] = bs_input(g, names[t][k], t ? BS_I32 : BS_F32, BS_SHAPE1(1));
        bs_output(g, t ? "z" : "y", bs_arange(g, of[0], of[1], of[2], &(bs_extent_desc){t ? "I" : "F", 40}));
    }
    start(g);
    for (int32_t k = 0; k < 3; k++) {
        bind(names[0][k], &f[k], BS_F32, 1, 1, 0);
        bind(names[1][k], &i[k], BS_I32, 1, 1, 0);
    }
    bind("y", y, BS_F32, 1, 40, 0);
    bind("z", z, BS_I32, 1, 40, 0);
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        const range *q = &ranges[k];
        const double of[3] = {q->limit, q->start, q->step};
        int64_t fn[BS_MAX_RANK], in[BS_MAX_RANK];
        const bool whole = q->limit == rint(q->limit) && q->start == rint(q->start) && q->step == rint(q->step) &&
                           fabs(q->limit + q->start) < 1e10 && fabs(q->step) < 1e10,
                   large = fabs(q->limit) > 1e9; /* not whole in f32 */
        for (int32_t c = 0; c < 3; c++) {
            f[c] = (float)of[c];
            i[c] = whole ? (int32_t)of[c] : 1;
        }
        const bs_status status = bs_run(r.session, &r.error);
        bs_output_extents(r.session, "y", fn);
        bs_output_extents(r.session, "z", in);
        bool right = (status == BS_ERROR_DATA) == (q->count < 0);
        for (int32_t c = 0; c < q->count && right; c++)
            right = (large || y[c] == (float)((double)f[1] + c * (double)f[2])) &&
                    (!whole || z[c] == (int64_t)i[1] + c * (int64_t)i[2]);
        if (right && (q->count < 0 || ((large || fn[0] == q->count) && (!whole || in[0] == q->count))))
            continue;
        printf("  from %g to %g by %g: %s, %lld and %lld elements\n", q->start, q->limit, q->step,
               bs_status_name(status), (long long)fn[0], (long long)in[0]);
        wrong++;
    }
    check(wrong == 0, "a range has the elements of its definition, forwards and backwards, or is refused");
    f[0] = 3, f[1] = 1, f[2] = 0;
    ends(BS_ERROR_DATA, "arange \"F\" (node 4): from 1 to 3 by 0: inf elements");
}

/* ------------------------------------------------------------------------------------------------------- images */

/* An image in which rows are used before anything has counted them would let a run read beyond a caller's buffer. */
static void test_images(void)
{
    bs_graph *g = chosen_net();
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        check(rig_plan(&r, g, &(bs_plan_desc){.order = order}) && opens(g), "the planner's own image opens");
        bs_node_plan *maker = &r.plan->nodes[maker_of(g, "N")];
        const int32_t instr = maker->instr;
        bs_instr *first = &r.plan->instrs[instr], *last = &r.plan->instrs[r.plan->n_top - 1];
        int32_t opened = 0;
        for (int32_t k = -1; k < r.plan->n_top; k++) {
            maker->instr = k;
            opened += opens(g);
        }
        check(opened == 1, "no other instruction counts rows: %s", saved.error.message);
        maker->instr = r.plan->n_top - 1;
        const bs_instr kept = *first;
        *first = *last, *last = kept;
        check(!opens(g), "rows are counted last: %s", saved.error.message);
    }
}

int main(void)
{
    check_seed(1);
    test_ways();
    test_saved();
    test_streamed();
    test_forced();
    test_inputs();
    test_empty();
    test_derived();
    test_beyond();
    test_joined();
    test_ranges();
    test_images();
    plan_image_free(&saved);
    return check_end();
}
