/* plan/fuse.c - finds the chains that one kernel can run (plan/fusions.c): the last node of a chain stays and gets the
 * chain's outer operands; the others are not needed any more.
 * Relies on plan/live.c having run. Must never change a result. */
#include "plan/fusions.h"

#if !defined(BS_NO_PLANNER)

typedef struct fuse_pass {
    bs_plan *plan;
    int32_t *readers; /* [values] how many needed nodes read it */
} fuse_pass;

static void count_reads(fuse_pass *f, int32_t node, int32_t step)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(f->plan, node, &n_in);
    for (int32_t i = 0; f->plan->node_live[node] && i < n_in; i++)
        f->readers[in[i]] += step;
}

static void fuse(fuse_pass *f, int32_t n, int32_t fusion, const bs_fusion_match *m)
{
    bs_node_plan *node = &f->plan->nodes[n];
    count_reads(f, n, -1);
    for (int32_t i = 0; i < m->n_inner; i++) {
        count_reads(f, m->inner[i], -1);
        f->plan->node_live[m->inner[i]] = false;
    }
    node->fusion = (uint8_t)fusion;
    memcpy(node->fused_in, m->in, sizeof m->in);
    count_reads(f, n, 1);
}

bs_bytes bs_plan_fuse_workspace(const bs_plan_room *room)
{
    return bs_bytes_align(bs_bytes_array(room->values, sizeof(int32_t)));
}

void bs_plan_fuse(bs_plan *plan, void *workspace)
{
    fuse_pass f = {plan, workspace};
    const bs_fusion_search search = {plan, f.readers, NULL};
    bs_fusion_match m;
    memset(f.readers, 0, (size_t)plan->graph->n_values * sizeof *f.readers);
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        count_reads(&f, n, 1);
    for (int32_t n = 1; n < plan->graph->n_nodes && !plan->desc.no_fusion; n++)
        for (int32_t i = 0; plan->node_live[n] && plan->nodes[n].fusion == 0 && i < bs_fusion_count(); i++)
            if (bs_fusion_find(&search, n, i + 1, &m))
                fuse(&f, n, i + 1, &m);
}

#endif
