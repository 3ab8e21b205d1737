/* tags: asan */
/* test_cuda_extents.c - extents from data on a device: one session, from no row to the maximum and beyond it, gives the
 * CPU's results, decisions, extents and failures, in every launch mode; its launches are captured once; what lies
 * beyond an extent is left alone. Counting needs the emulation; the rest runs on a GPU as well. */
#define _POSIX_C_SOURCE 200809L
#include "cuda_sides.h"

#define MOST 300 /* rows of the table: more than a block has threads */
#define KEPT 280 /* of which as many may be chosen */

static const bs_value none = {0};
static float mask[MOST], limit, first[5];

/* Chooses `count` rows, anywhere. */
static void choose(int32_t count)
{
    int32_t left = count;
    for (int32_t i = 0; i < MOST; i++) {
        mask[i] = check_below(MOST - i) < left ? 1.0f + (float)check_below(8) : -0.0f;
        left -= mask[i] != 0;
    }
    limit = (float)count;
}

/* ------------------------------------------------------------------------------------------------------- nets */

static bs_value linear(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = BS_CLIP, .act_param = 8});
}

static bs_value routed(bs_graph *g, bs_value table, bs_protocol protocol)
{
    static const char *const names[2] = {"first", "second"};
    const bs_value cells = bs_rows(g, table, none);
    const bs_router route = bs_route(g, linear(g, cells, "score", 2), none,
                                     &(bs_route_desc){.name = "r", .protocol = protocol, .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, names[p]);
        out[p] = linear(g, bs_scatter(g, route, p, cells), names[p], 4);
        bs_block_end(g);
    }
    return bs_collect(g, bs_gather(g, route, out, none, NULL));
}

/* The rows of x whose mask is not 0, their way through a router, and what is made of them at the root; numbers. */
static void chosen_net(bs_protocol protocol)
{
    bs_graph *g = rig_begin(&r, "chosen");
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(MOST, 4)), m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST));
    const bs_value at = bs_nonzero(g, m, &(bs_extent_desc){"N", KEPT});
    const bs_value i = bs_reshape(g, at, BS_SHAPE1(-1)), y = routed(g, bs_gather_rows(g, x, i), protocol);
    const bs_value numbers = bs_arange(g, bs_input(g, "limit", BS_F32, BS_SHAPE1(1)), none, none,
                                       &(bs_extent_desc){"M", MOST});
    bs_output(g, "at", at);
    bs_output(g, "y", y);
    bs_output(g, "numbers", bs_affine(g, numbers, 2, 1));
    bs_output(g, "sum", bs_reduce(g, y, &(bs_reduce_desc){.axis = 0}));
    bs_output(g, "both", bs_concat(g, (bs_value[]){y, bs_input(g, "c", BS_F32, BS_SHAPE2(2, 4))}, 2, 0));
    bs_output(g, "put", bs_scatter_rows(g, x, i, y, &(bs_update_desc){.update = BS_UPDATE_ADD}));
    bs_output(g, "products", bs_matmul(g, bs_transpose(g, y, NULL), y, NULL));
    bs_output(g, "again", bs_nonzero(g, y, &(bs_extent_desc){.name = "K"}));
    rig_give(&r, "mask", mask);
    rig_give(&r, "limit", &limit);
}

/* --------------------------------------------------------------------------------------------------------- tests */

static const int32_t counts[] = {7, 0, KEPT, 1, KEPT + 1, 0, 33, MOST, 257, 0, KEPT};
#define TURNS (int32_t)(sizeof counts / sizeof *counts)

static void test_mode(bs_launch_mode mode, bs_order order)
{
    int64_t graphs = 0, copied = 0, launches = 0;
    bool same = true;
    chosen_net(BS_ROUTE_TOP1);
    begin(mode, order, 0, NULL);
    const int64_t results = (int64_t)gpu.session->root.domains[1].count * 2; /* of a decision, a path a cell */
    for (int32_t turn = 0; turn < TURNS && gpu.session; turn++) {
        choose(counts[turn]);
#ifdef BS_CUDA_CPU
        struct cuda_cpu_counts c;
        cuda_cpu_counts_reset();
#endif
        same = agree() && same;
        check((gpu.status == BS_OK) == (counts[turn] <= KEPT), "what is beyond the maximum is refused");
#ifdef BS_CUDA_CPU
        cuda_cpu_counts_get(&c);
        graphs += c.instantiations;
        launches += turn < 2 ? 0 : c.launches;
        if (turn > 0 && c.copied_bytes - bound_bytes() - results > copied)
            copied = c.copied_bytes - bound_bytes() - results;
#endif
    }
    check(same, "%s, order %d: as on the CPU from no row to all", bs_launch_mode_name(mode), order);
#ifdef BS_CUDA_CPU
    const bool graph = mode != BS_LAUNCH_STREAM;
    check(graphs == graph && (!graph || launches == 0), "captured once: %lld; launched beside: %lld", (long long)graphs,
          (long long)launches);
    check(copied <= MOST_BYTES, "at most %lld bytes a run beside the buffers", (long long)copied);
#else
    (void)graphs, (void)copied, (void)launches, (void)results;
#endif
    end();
}

static bs_status by_turns(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    (void)user, (void)scores;
    for (int32_t i = 0; i < rows; i++)
        path_of_row[i] = i % 2;
    return BS_OK;
}

/* Where the host goes from step to step, it goes by the extents that the device found. */
static void test_host(bool streams)
{
    bool same = true;
    chosen_net(streams ? BS_ROUTE_TOP1 : BS_ROUTE_CALLBACK);
    begin(BS_LAUNCH_AUTO, BS_ORDER_AUTO, streams ? 1 << 20 : 0, streams ? NULL : by_turns);
    for (int32_t turn = 0; turn < TURNS && gpu.session; turn++) {
        choose(counts[turn]);
        same = agree() && same;
    }
    check(same, "%s", streams ? "with weights that come and go" : "with a callback that chooses");
    end();
}

/* What is derived may be empty, and not less; a maximum wants elements; rows that join cells are enough. */
static void test_refused(void)
{
    bool same = true;
    for (int32_t way = 0; way < 4; way++) {
        bs_graph *g = rig_begin(&r, "refused");
        const bs_value m = bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)), f = bs_input(g, "first", BS_F32, BS_SHAPE1(5));
        const bs_value at = bs_nonzero(g, m, &(bs_extent_desc){"N", KEPT}), few = bs_nonzero(g, f, NULL);
        const bs_value real = bs_convert(g, at, &(bs_convert_desc){.dtype = BS_F32});
        if (way == 0)
            bs_output(g, "y", bs_slice(g, real, &(bs_slice_desc){.start = 3}));
        else if (way == 1)
            bs_output(g, "y", bs_reduce(g, real, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 0}));
        else
            bs_output(g, "y", bs_collect(g, bs_affine(g, bs_rows(g, bs_reshape(g, real, BS_SHAPE1(-1)),
                                                                 bs_rows(g, few, none)), 2, 0)));
        if (way < 2)
            bs_output(g, "few", few);
        rig_give(&r, "mask", mask);
        rig_give(&r, "first", first);
        for (int32_t i = 0; i < 5; i++)
            first[i] = (float)(i % 2 == 0);
        begin(way == 3 ? BS_LAUNCH_GRAPH : BS_LAUNCH_STREAM, BS_ORDER_AUTO, 0, NULL);
        int32_t refused = 0;
        for (int32_t count = 0; count < 6 && gpu.session; count++) {
            choose(count);
            same = agree() && same;
            refused += gpu.status == BS_ERROR_DATA;
        }
        check(refused == (way == 1 ? 1 : 3), "way %d: %d runs are refused", way, refused);
        end();
    }
    check(same, "what is refused is what the CPU refuses");
}

/* More than the maximum is refused where nothing else would notice: no step reads it. */
static void test_too_many(bs_launch_mode mode)
{
    static const int32_t made[] = {2, 4, 3, 5, 0, 3};
    bool same = true;
    for (int32_t way = 0; way < 2; way++) {
        bs_graph *g = rig_begin(&r, "too many");
        if (way == 0)
            bs_output(g, "y", bs_nonzero(g, bs_input(g, "mask", BS_F32, BS_SHAPE1(MOST)), &(bs_extent_desc){"N", 3}));
        else
            bs_output(g, "y", bs_arange(g, bs_input(g, "limit", BS_F32, BS_SHAPE1(1)), none, none,
                                        &(bs_extent_desc){"N", 3}));
        rig_give(&r, way == 0 ? "mask" : "limit", way == 0 ? mask : &limit);
        begin(mode, BS_ORDER_AUTO, 0, NULL);
        for (size_t turn = 0; turn < sizeof made / sizeof *made && gpu.session; turn++) {
            choose(made[turn]);
            same = agree() && same;
            same = (gpu.status == BS_OK) == (made[turn] <= 3) && same;
        }
        end();
    }
    check(same, "%s: more than the maximum is refused, what is read by no step too", bs_launch_mode_name(mode));
}

/* What says how many there are is not rounded to f16. */
static void test_half(void)
{
    bs_graph *g = rig_begin(&r, "half");
    bs_value x = bs_input(g, "limit", BS_F32, BS_SHAPE1(1));
    for (int32_t k = 0; k < 2; k++)
        x = bs_affine(g, x, 1, 0.001f);
    bs_output(g, "y", bs_convert(g, bs_arange(g, x, none, none, &(bs_extent_desc){"M", MOST}),
                                 &(bs_convert_desc){.dtype = BS_I32}));
    rig_give(&r, "limit", &limit);
    half = true;
    begin(BS_LAUNCH_AUTO, BS_ORDER_AUTO, 0, NULL);
    half = false;
    choose(200);
    check(gpu.session && agree(), "a plan for half counts as the CPU");
    end();
}

int main(void)
{
    check_seed(1);
    for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT; mode++) {
        test_mode((bs_launch_mode)mode, mode % 2 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH);
        test_too_many((bs_launch_mode)mode);
    }
    test_host(false);
    test_host(true);
    test_refused();
    test_half();
    return check_end();
}
