/* state_rig.h - a net with a state, beside its oracle: cells that a callback leaves alone keep the last result. Relies
 * on session_rig.h. */
#ifndef BS_TEST_STATE_RIG_H
#define BS_TEST_STATE_RIG_H

#include "session_rig.h"

/* Cells that a callback leaves alone keep the last result. */
static bs_graph *reuse_net(void)
{
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    net_add_whole(&weights, "conv.weight", 4, conv);
    net_add_whole(&weights, "conv.bias", 1, one);
    const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)),
                   before = bs_state(g, "before", BS_F32, BS_SHAPE3(1, h, w));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8}),
                   old = bs_patches(g, before, &(bs_patches_desc){.like = cells});
    const bs_value change = bs_pool2d(g, bs_sub(g, cells, old), &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1});
    const bs_router r = bs_route(g, change, (bs_value){0},
                                 &(bs_route_desc){.name = "reuse", .protocol = BS_ROUTE_CALLBACK, .paths = 2});
    bs_value out[2] = {{0}, {0}};
    out[1] = bs_conv2d(g, bs_scatter(g, r, 1, cells),
                       &(bs_conv2d_desc){.name = "conv", .out = 1, .act = BS_CLIP, .act_param = 8});
    const bs_value result = bs_assemble(g, bs_gather(g, r, out, old, NULL));
    bs_state_write(g, before, result);
    bs_output(g, "result", result);
    return g;
}

static int32_t two_paths = 2;

static int32_t by_sum(const double *scores, int32_t width, int32_t paths)
{
    (void)width, (void)paths;
    return (int32_t)(scores[0] + 100) % 2;
}

static bs_status by_sum_run(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    for (int32_t r = 0; r < rows; r++) {
        const double score = (double)((const float *)scores->data)[r * scores->row_stride];
        path[r] = by_sum(&score, 1, *(const int32_t *)user);
    }
    return BS_OK;
}

static bool reuse_open(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    memset(&a, 0, sizeof a);
    a.oracle.callback = by_sum;
    return rig_plan(r, g, d) && rig_session(r, &weights.table, NULL, 0xFF) &&
           bs_set_route(r->session, "reuse", by_sum_run, &two_paths, &r->error) == BS_OK;
}

static bool runs(rig *r, const bs_plan_desc *d, int64_t h, int64_t w)
{
    const int64_t extent[3] = {1, h, w};
    against_inputs(&a, r->plan->graph, &weights.table, d, extent);
    memset(r->transient, 0x7F, (size_t)r->sizes.transient); /* nothing is kept there */
    if (against_run(&a, r->session))
        return true;
    printf("  %s\n", a.why);
    return false;
}

#endif
