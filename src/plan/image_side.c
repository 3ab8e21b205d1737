/* plan/image_side.c - what an image says of times: instructions of one time may run side by side, on threads or in one
 * launch of a GPU (bs_plan_side_by_side), so none may touch what another one writes. A kernel that checked an index
 * must not find another one there. Two may write, or read and write, the same bytes only where decisions keep rows
 * apart: values of two paths of a router that share a slab, whose rows lie packed in it; and what two paths of a router
 * store in one value, where each row has its place.
 *
 * Relies on plan/image.h and plan/image_instrs.c having looked. Must never write, nor look at more than
 * BS_SIDE_BY_SIDE instructions for each. */
#include "plan/image.h"

#include "ops/structure.h"

/* A value that instruction i touches, number k: what it writes comes first. 0: none; -1: there are no more. */
static int32_t touched(const bs_plan *p, const bs_instr *i, int32_t k, bool *is_written)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[i->node];
    const bool call = i->kind == BS_INSTR_CALL, view = !call && i->map == BS_MAP_VIEW && bs_node_is_view(node);
    const int32_t written = call ? node->n_out : 1;
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    *is_written = k < written;
    if (k < written)
        return call ? node->first_out + k : i->target;
    k -= written + 2;
    if (k == -2)
        return i->value;
    if (k == -1 && call && bs_op_get(node->op)->flags & BS_OP_AROUND)
        return bs_view_of(g, &g->nodes[g->values[in[0]].node]);
    if (k == -1)
        return view ? bs_view_of(g, node) : 0;
    if (k >= n_in || !(call || i->map == BS_MAP_PATHS))
        return -1;
    return bs_plan_reads(p, node, k) ? in[k] : 0;
}

static bool are_paths(const bs_graph *g, int32_t a, int32_t b)
{
    const bs_domain *x = &g->domains[a], *y = &g->domains[b];
    return x->kind == BS_DOMAIN_PATH && y->kind == BS_DOMAIN_PATH && x->router == y->router && x->path != y->path;
}

/* Whether a value, which is written, has bytes in common with another one. */
static bool overlap(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_value_plan *x = &p->values[a], *y = &p->values[b];
    if (x->storage != y->storage)
        return false;
    if (x->storage != BS_STORAGE_TRANSIENT)
        return x->source == y->source;
    return bs_bytes_less(x->offset, bs_plan_end(y)) && bs_bytes_less(y->offset, bs_plan_end(x)) &&
           !(bs_bytes_same(x->offset, y->offset) && bs_bytes_same(x->row_bytes, y->row_bytes) &&
             are_paths(p->graph, p->graph->values[a].domain, p->graph->values[b].domain));
}

/* Whether instruction b touches what a writes. */
static bool meets(const bs_plan *p, const bs_instr *a, const bs_instr *b)
{
    const bs_value_plan *values = p->values;
    bool is_written, other;
    for (int32_t k = 0, to; (to = touched(p, a, k, &is_written)) >= 0 && is_written; k++) {
        while (values[to].storage == BS_STORAGE_VIEW)
            to = values[to].source;
        if (to == 0)
            return true; /* what ends a run, before its end */
        for (int32_t n = 0, value; (value = touched(p, b, n, &other)) >= 0; n++)
            for (bool more = true; more; value = values[value].source) { /* what is seen has its rows in both */
                if (overlap(p, to, value) && !(other && to == value && are_paths(p->graph, a->domain, b->domain)))
                    return true;
                more = values[value].storage == BS_STORAGE_VIEW || bs_plan_is_seen(p, value);
            }
    }
    return false;
}

static bool computes(const bs_instr *i) { return i->kind == BS_INSTR_CALL || i->kind == BS_INSTR_MOVE; }

const char *bs_image_side_wrong(const bs_plan *p, int32_t row)
{
    const bs_instr *a = &p->instrs[row], *end = p->instrs + (row < p->n_top ? bs_plan_side_by_side(p, row) : row);
    for (const bs_instr *b = a + 1; b < end; b++)
        if (computes(a) && computes(b) && (meets(p, a, b) || meets(p, b, a)))
            return bs_image_refused("another one of its time touches what it writes, or it what that writes");
    return NULL;
}
