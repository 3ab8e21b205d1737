/* plan/layouts.c - which root values of rank 3 are images, stored channels last, and which are matrices, stored with
 * their last dimension innermost. Relies on plan/live.c and plan/fuse.c having run. Must never decide anything but
 * speed: kernels take either, but for those that ask for images (bs_plan_is_of_images). */
#include "plan/plan.h"

#if !defined(BS_NO_PLANNER)

static bool is_stored_image(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    return value != 0 && v->image && !p->values[value].planar &&
           bs_node_work(&p->graph->nodes[v->node]) != BS_WORK_GIVEN; /* the caller's layout is known when it is bound */
}

/* What a kernel goes through side by side has one layout: that of images, if one of them is an image. */
static void spread_image(bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, n, &n_in);
    bool image = bs_plan_is_of_images(p, n);
    const bool side_by_side = bs_op_get(node->op)->layout.images || bs_plan_whole_view_of(p, n);
    if (!p->node_live[n] || !(image || side_by_side))
        return;
    for (int32_t i = 0; i < n_in; i++)
        image = image || is_stored_image(p, in[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        image = image || is_stored_image(p, node->first_out + i);
    for (int32_t i = 0; i < n_in && image; i++)
        p->values[in[i]].planar = false;
    for (int32_t i = 0; i < node->n_out && image; i++)
        p->values[node->first_out + i].planar = false;
}

/* Whether a view shows what is stored as matrices, so far. */
static bool shows_matrices(const bs_plan *p, int32_t value)
{
    const int32_t of = bs_plan_whole_view_of(p, p->graph->values[value].node);
    return of != 0 && p->values[of].planar;
}

/* Down the graph and up again, twice: what zigzags further stays as it is, and is slower. A kernel of images that reads
 * a value is seen going either way. */
void bs_plan_lay_out(bs_plan *p)
{
    for (int32_t v = 1; v < p->graph->n_values; v++)
        p->values[v].planar = bs_plan_may_be_planar(p, v) || shows_matrices(p, v);
    for (int32_t sweep = 0; sweep < 2; sweep++) {
        for (int32_t n = 1; n < p->graph->n_nodes; n++)
            spread_image(p, n);
        for (int32_t n = p->graph->n_nodes - 1; n >= 1; n--)
            spread_image(p, n);
    }
    for (int32_t v = 1; v < p->graph->n_values; v++) /* what a view shows tells its layout */
        p->values[v].planar = p->values[v].planar && bs_plan_may_be_planar(p, v);
}

#endif
