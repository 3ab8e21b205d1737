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

static bool is_scattered(const bs_plan *p, const bs_instr *i)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    bool scattered = false;
    for (int32_t k = 0; k < n_in; k++)
        scattered = scattered || (p->values[in[k]].storage == BS_STORAGE_VIEW &&
                                  p->graph->domains[p->graph->values[in[k]].domain].kind == BS_DOMAIN_PATH);
    return scattered;
}

static bool is_small(const bs_plan *p, int32_t value)
{
    return value && !p->graph->values[value].image && bs_bytes_figure(p->values[value].row_bytes) <= SMALL_ROW;
}

static bool has_images(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    bool image = node->n_out > 0 && p->graph->values[node->first_out].image;
    for (int32_t k = 0; k < n_in; k++)
        image = image || p->graph->values[in[k]].image;
    return image;
}

/* Each task reads all weights: of many, from memory. */
static bool is_heavy(const bs_plan *p, const bs_instr *i)
{
    return bs_bytes_figure(p->nodes[i->node].prepared_bytes) > HEAVY;
}

/* Images in a call: as many as its op wants, where they have the same extents and a kernel's bytes go straight to its
 * result. */
static int32_t images_of(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    return p->graph->domains[node->domain].patches >= 0 || bs_tails_move(p->graph, node) ? 1 : p->nodes[i->node].images;
}

/* Few images; and one row of those that are found one by one, or moved, unless they are small. */
static int32_t batch_of(const bs_plan *p, const bs_instr *i, bool scattered)
{
    const bs_node *node = &p->graph->nodes[i->node];
    if (i->kind != BS_INSTR_CALL)
        return is_small(p, i->value ? i->value : i->target) ? BATCH_ROWS : 1;
    if (p->nodes[i->node].work_items > 0)
        return BS_CROSS_ROWS;
    if (scattered && (bs_node_op(node)->rows.of == BS_ROWS_SEGMENT || !is_small(p, node->first_out)))
        return 1;
    if (has_images(p, i))
        return images_of(p, i) == 1 ? 1 : -images_of(p, i);
    return is_heavy(p, i) ? 0 : BATCH_ROWS;
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

/* Of a call: work items of an op that cuts itself, or bands of an image. */
static int32_t bands_of(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    int64_t h, w;
    if (p->nodes[i->node].work_items > 0)
        return p->nodes[i->node].work_items;
    if (node->n_out != 1 || !bs_node_op(node)->layout.images || !p->graph->values[node->first_out].image)
        return 0;
    bs_plan_core(p, &p->graph->values[node->first_out], &h, &w);
    return (int32_t)bs_ceil_div(h + 2 * p->values[node->first_out].margin, BS_BAND_ROWS);
}

static bs_way way_of(const bs_plan *p, const bs_instr *i)
{
    if (i->kind == BS_INSTR_ROUTE || i->kind == BS_INSTR_RUN)
        return i->kind == BS_INSTR_ROUTE ? BS_WAY_ROUTE : BS_WAY_REGION;
    if (i->kind == BS_INSTR_CALL && p->graph->nodes[i->node].n_out == 0)
        return BS_WAY_AHEAD;
    return bs_instr_streams(i) ? BS_WAY_STREAMED : BS_WAY_PLAIN;
}

/* Not beside others: an instruction that may refuse its data, since of several faults a run reports the first in the
 * plan's order. */
static bool stands_alone(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    return p->threads == 1 || way_of(p, i) != BS_WAY_PLAIN ||
           (i->kind == BS_INSTR_CALL && (node->makes || bs_op_may_refuse(bs_node_op(node))));
}

/* Routes, and regions outside all paths that a later route waits for (they compute features). Trips of a loop are not
 * routed. */
static bool counts_as_routing(const bs_plan *p, const bs_instr *i)
{
    if (i->kind != BS_INSTR_RUN)
        return i->kind == BS_INSTR_ROUTE && !bs_router_loops(p->graph, p->graph->nodes[i->node].router);
    const bs_region *region = &p->regions[i->region]; /* its parts are all of one router, or none is */
    return p->parts[p->region_parts[region->first]].router == 0 && i - p->instrs < p->last_route;
}

static void fill_call(const bs_plan *p, const bs_instr *i, bs_step *step)
{
    const bs_node *node = &p->graph->nodes[i->node];
    step->run = p->nodes[i->node].fusion ? bs_fusion_run : node->n_tail ? bs_exec_tail : bs_node_op(node)->run;
    step->decided = bs_node_op(node)->rows.of == BS_ROWS_DECIDED;
    step->scattered = is_scattered(p, i);
    step->bands = bands_of(p, i);
}

void bs_steps_make(bs_session *s)
{
    const bs_plan *p = s->plan;
    for (int32_t k = 0; k < p->n_instrs; k++) {
        const bs_instr *i = &p->instrs[k];
        bs_step *step = &s->steps[k];
        step->way = (uint8_t)way_of(p, i);
        step->alone = stands_alone(p, i);
        step->routes = k < p->n_top && counts_as_routing(p, i);
        step->moves = i->kind == BS_INSTR_MOVE;
        step->node = i->node;
        step->router = i->kind == BS_INSTR_ROUTE ? p->graph->nodes[i->node].router : 0;
        step->back = step->router && p->routers[step->router].again == k ? p->routers[step->router].instr : -1;
        if (i->kind == BS_INSTR_CALL)
            fill_call(p, i, step);
        if (i->kind == BS_INSTR_CALL || i->kind == BS_INSTR_MOVE)
            step->batch = batch_of(p, i, step->scattered);
    }
    bs_margins_find(s);
}
