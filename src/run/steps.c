/* run/steps.c - what of an instruction hangs on no decision, extent or buffer is worked out once, when the session is
 * made: which kernel it is, how it may be cut into tasks, who may run beside it.
 * Relies on run/exec.h. Must never run anything; how many rows and threads there are decides how products of many
 * weights are cut, and no bit. */
#include "run/exec.h"

#include "ops/common.h"
#include "ops/structure.h"
#include "plan/tails.h"

#define BATCH_ROWS 16 /* cells of a non-image op, per task; of an op that cuts itself, BS_CROSS_ROWS */
#define HEAVY_ROWS 64 /* cells that share one reading of many weights, as kernels of products take them */
#define HEAVY      (128 << 10) /* bytes of weights that do not stay in the second cache beside a task's rows */
#define SMALL_ROW  1024 /* bytes: a task gets many such rows, though each is found by itself */

static bool is_small(const bs_plan *p, int32_t value)
{
    return value && !p->graph->values[value].image && bs_bytes_figure(p->values[value].row_bytes) <= SMALL_ROW;
}

/* As many images as each thread gets. Of heavy rows tasks are about equally long, and enough for all threads. */
int32_t bs_exec_batch(const bs_session *s, const bs_instr *i)
{
    const int32_t batch = bs_step_of(s, i)->batch;
    if (batch > 0)
        return batch;
    const int32_t rows = s->root.domains[i->domain].count, threads = s->plan->threads;
    if (batch < 0)
        return bs_min_i32(-batch, (rows + threads - 1) / threads);
    const int32_t turns = (int32_t)bs_ceil_div(rows, (int64_t)HEAVY_ROWS * threads);
    return bs_max_i32((int32_t)bs_ceil_div(rows, bs_max_i32(turns, 1) * threads), BATCH_ROWS);
}

/* Images in a call: as many as its op wants, where they have the same extents and a kernel's bytes go straight to its
 * result. */
static int32_t images_of(const bs_plan *p, const bs_node *node, int32_t wanted)
{
    const bool one = wanted == 1 || p->graph->domains[node->domain].patches >= 0 || bs_tails_move(p->graph, node);
    return one ? 1 : -wanted;
}

/* Few images; and one row of those that are found one by one, unless they are small. Each task reads all weights: of
 * many, from memory. */
static int32_t batch_of(const bs_plan *p, const bs_step *step, bool image)
{
    const bs_node *node = &p->graph->nodes[step->node];
    const bs_node_plan *np = &p->nodes[step->node];
    if (np->work_items > 0)
        return BS_CROSS_ROWS;
    if (step->scattered && (bs_node_op(node)->rows.of == BS_ROWS_SEGMENT || !is_small(p, node->first_out)))
        return 1;
    if (image)
        return images_of(p, node, np->images);
    return bs_bytes_figure(np->prepared_bytes) > HEAVY ? 0 : BATCH_ROWS;
}

/* Work items of an op that cuts itself, or bands of an image. */
static int32_t bands_of(const bs_plan *p, const bs_node *node, int32_t work_items)
{
    const bs_value_info *result = &p->graph->values[node->first_out];
    int64_t h, w;
    if (work_items > 0 || node->n_out != 1 || !result->image || !bs_node_op(node)->layout.images)
        return work_items;
    bs_plan_core(p, result, &h, &w);
    return (int32_t)bs_ceil_div(h + 2 * p->values[node->first_out].margin, BS_BAND_ROWS);
}

/* A call. Nothing runs beside it that may refuse its data: of several faults a run reports the first in the plan's
 * order. */
static void step_of_call(const bs_plan *p, bs_step *step)
{
    const bs_node *node = &p->graph->nodes[step->node];
    const bs_op *op = bs_node_op(node);
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, step->node, &n_in);
    bool image = node->n_out > 0 && p->graph->values[node->first_out].image;
    for (int32_t k = 0; k < n_in; k++) {
        const bs_value_info *v = &p->graph->values[in[k]];
        image = image || v->image;
        step->scattered = step->scattered || (p->values[bs_plan_rows_of(p, in[k])].storage == BS_STORAGE_VIEW &&
                                              p->graph->domains[v->domain].kind == BS_DOMAIN_PATH);
    }
    step->run = op->run;
    step->tail = node->n_tail != 0;
    step->fusion = p->nodes[step->node].fusion != 0;
    step->decided = op->rows.of == BS_ROWS_DECIDED;
    step->bands = bands_of(p, node, p->nodes[step->node].work_items);
    step->batch = batch_of(p, step, image);
    step->way = node->n_out == 0 ? BS_WAY_AHEAD : step->way;
    step->alone = step->alone || node->n_out == 0 || node->makes || bs_op_may_refuse(op);
}

static void step_of_route(const bs_plan *p, int32_t at, bs_step *step)
{
    const int32_t router = p->graph->nodes[step->node].router;
    step->way = BS_WAY_ROUTE;
    step->router = router;
    step->domain = p->graph->routers[router].path_domains;
    step->back = p->routers[router].again == at ? p->routers[router].instr : -1;
    step->routes = !bs_router_loops(p->graph, router); /* the trips of a loop are not routed */
}

/* Time of routing, too: a region outside all paths that a later route waits for (it computes features). */
static void step_of_region(const bs_plan *p, int32_t at, bs_step *step)
{
    const bs_region *region = &p->regions[p->instrs[at].region]; /* its parts are all of one router, or none is */
    step->way = BS_WAY_REGION;
    step->routes = p->parts[p->region_parts[region->first]].router == 0 && at < p->last_route;
}

void bs_steps_make(bs_session *s)
{
    const bs_plan *p = s->plan;
    for (int32_t k = 0; k < p->n_instrs; k++) {
        const bs_instr *i = &p->instrs[k];
        bs_step *step = &s->steps[k];
        step->node = i->node;
        step->domain = i->domain;
        step->way = bs_instr_streams(i) ? BS_WAY_STREAMED : BS_WAY_PLAIN;
        step->alone = !BS_DENSE_PAYS || p->threads == 1 || i->kind > BS_INSTR_MOVE || step->way == BS_WAY_STREAMED;
        switch ((bs_instr_kind)i->kind) {
        case BS_INSTR_CALL: step_of_call(p, step); break;
        case BS_INSTR_MOVE:
            step->moves = true;
            step->batch = is_small(p, i->value ? i->value : i->target) ? BATCH_ROWS : 1;
            break;
        case BS_INSTR_ROUTE: step_of_route(p, k, step); break;
        case BS_INSTR_RUN: step_of_region(p, k, step); break;
        }
    }
    bs_margins_find(s);
}
