/* run/report.c - a plan in words: bytes of every arena, what maxima cost, and what its instructions do; what of that
 * the last run of a session used.
 * Relies on run/session.h. Must never change a plan. */
#include "run/session.h"

#include "ops/common.h"

#if !defined(BS_NO_REPORT)

static const char instr_names[] = "call\0move\0route\0run";
#define MAP_NAME(name, text) text "\0"
static const char map_names[] = "\0" BS_ROW_MAP_LIST(MAP_NAME);
static const char extent_names[] = "\0  (near)\0  (the ring around)"; /* bs_instr.extent, from BS_EXTENT_ALL on */
static const char combine_names[] = "copy\0residual\0zero\0sum\0weighted sum\0select";

static void say_instr(bs_text *r, const bs_plan *p, const bs_instr *i, const char *indent)
{
    const bs_node *node = &p->graph->nodes[i->node];
    const bs_node_plan *plan = &p->nodes[i->node];
    const char *name = bs_node_name(node);
    char time[16] = "end";
    if (i->time < BS_TIME_END)
        snprintf(time, sizeof time, "t%" PRId32, i->time);
    bs_text_add(r, "%s[%s] %-5s ", indent, time, bs_name_of(instr_names, i->kind, BS_INSTR_RUN + 1));
    if (i->kind == BS_INSTR_RUN) {
        bs_text_add(r, "region %" PRId32 ": tiles of domain %" PRId32 "\n", i->region, i->domain);
        return;
    }
    bs_text_add(r, "%s%s%s", bs_op_get(node->op)->name, *name ? " " : "", name);
    if (i->kind == BS_INSTR_MOVE)
        bs_text_add(r, "  (%s, %s)", bs_name_of(map_names, i->map, BS_ROW_MAPS),
                    bs_name_of(combine_names, i->combine, BS_COMBINE_SELECT + 1));
    if (i->kind == BS_INSTR_CALL)
        bs_text_add(r, "%s%s%s%s", plan->algorithm == 1 ? "  (winograd)" : "",
                    bs_name_of(extent_names, i->extent, BS_EXTENT_RING + 1), plan->fusion ? "  fused: " : "",
                    bs_fusion_name(plan->fusion));
    for (int32_t k = 0; i->kind == BS_INSTR_CALL && k < node->n_tail; k++)
        bs_text_add(r, "%s%s", k ? ", " : "  then ", bs_op_get(p->graph->tails[node->tail + k].node.op)->name);
    bs_text_add(r, "\n");
}

static void say_region(bs_text *r, const bs_plan *p, int32_t region)
{
    const bs_region *all = &p->regions[region];
    for (int32_t k = all->first; k < all->first + all->count; k++) {
        const bs_part *part = &p->parts[p->region_parts[k]];
        if (part->router)
            bs_text_add(r, "    path %" PRId32 " of \"%s\": scratch %llu bytes, %.3g flop a cell\n", part->path,
                        p->graph->routers[part->router].desc->name, bs_bytes_figure(part->scratch_bytes), part->flops);
        else
            bs_text_add(r, "    every cell: scratch %llu bytes, %.3g flop a cell\n",
                        bs_bytes_figure(part->scratch_bytes), part->flops);
        for (int32_t i = part->first; i < part->first + part->count; i++)
            say_instr(r, p, &p->instrs[i], "      ");
    }
}

/* Where the bytes of a plan are used. */
static void say_memory(bs_text *r, const bs_plan *p, const bs_sizes *sizes)
{
    if (bs_plan_on_device(p)) {
        bs_text_add(r, "launched by %s%s\n", p->desc.launch_mode ? "" : "stream, then graph",
                    p->desc.launch_mode ? bs_launch_mode_name((bs_launch_mode)p->desc.launch_mode) : "");
        bs_text_add(r, "device       %llu\npinned       %llu\n", (unsigned long long)sizes->device,
                    (unsigned long long)sizes->pinned);
        bs_text_add(r,
                    "of device %llu activations, prepared weights %llu bytes\n"
                    "tier %s, %s, %llu bytes of shared memory for a tile\n",
                    bs_bytes_figure(p->transient_bytes), bs_bytes_figure(p->weight_bytes), bs_tier_name(p->tier),
                    p->desc.half ? "f16" : "f32", bs_bytes_figure(p->shared_bytes));
    } else {
        bs_text_add(r,
                    "of transient %llu shared, %llu a thread x %" PRId32 "\ntier %s, %" PRId32
                    " threads, prepared weights %llu bytes\n",
                    bs_bytes_figure(p->transient_bytes), bs_bytes_figure(p->scratch_bytes), p->threads,
                    bs_tier_name(p->tier), p->threads, bs_bytes_figure(p->weight_bytes));
    }
}

/* --------------------------------------------------------------------------------------------------- extents */

enum { REPORT_LISTED = 64 }; /* symbols and domains, at most: each takes a walk over all values */

/* Whether a value has rows of a domain (symbol -1), or extents or a number of rows that follow from a symbol. */
static bool depends(const bs_graph *g, const bs_value_info *v, bs_dim_id symbol, int32_t domain)
{
    const int32_t n = g->domains[v->domain].top;
    bs_dim_id dims[BS_MAX_AXES + 3] = {g->domains[n].rows, g->domains[n].height, g->domains[n].width};
    memcpy(dims + 3, v->dims, (size_t)v->rank * sizeof *dims);
    bool found = symbol < 0 && n == domain;
    for (int32_t i = n ? 0 : 3; i < v->rank + 3 && symbol >= 0; i++) {
        bs_dim_id d = dims[i];
        while (d > symbol && g->dims[d].kind == BS_DIM_DERIVED)
            d = g->dims[d].parent;
        found = found || d == symbol;
    }
    return found;
}

/* The bytes of the activations that depend on it, by the maxima or (s) in the last run. */
static double activations(const bs_plan *p, const bs_session *s, bs_dim_id symbol, int32_t domain)
{
    const bs_graph *g = p->graph;
    double sum = 0;
    for (int32_t k = 1; k < g->n_values; k++) {
        const bs_value_info *v = &g->values[k];
        const bs_domain *d = &g->domains[v->domain];
        int64_t rows = p->values[k].rows;
        if (p->values[k].storage != BS_STORAGE_TRANSIENT || !depends(g, v, symbol, domain))
            continue;
        if (s && v->domain)
            rows = d->kind == BS_DOMAIN_PATH ? s->counts[g->routers[d->router].first_path + d->path]
                                             : s->root.domains[v->domain].count;
        double bytes = (double)bs_bytes_figure(p->values[k].row_bytes) * (double)rows;
        for (int32_t i = 0; s && i < v->rank && !bs_value_in_patches(g, v); i++)
            bytes *= (double)s->dims[v->dims[i]] / (double)bs_dim_max(g, v->dims[i]);
        sum += bytes;
    }
    return sum;
}

/* Symbols, then domains of rows: maxima and what they cost, and with a session what the last run had. */
static void say_maxima(bs_text *r, const bs_plan *p, const bs_session *s)
{
    const bs_graph *g = p->graph;
    int32_t listed = 0;
    for (int32_t i = 0; i < g->n_dims + g->n_domains && listed < REPORT_LISTED; i++) {
        const bool symbol = i < g->n_dims;
        const int32_t d = symbol ? 0 : i - g->n_dims, of = symbol ? i : -1;
        char text[128];
        if (symbol ? g->dims[i].kind != BS_DIM_SYMBOL : g->domains[d].kind != BS_DOMAIN_ROWS || !p->domains[d].live)
            continue;
        bs_text_add(r, "%s%s: at most %lld",
                    listed++ ? "  " : "activations that depend on extents, before sharing:\n  ",
                    symbol ? bs_dim_text(g, i, text, sizeof text) : bs_domain_text(g, d, text, sizeof text),
                    (long long)(symbol ? bs_dim_max(g, i) : p->domains[d].max_rows));
        bs_text_add(r, ", %.0f bytes", activations(p, NULL, of, d));
        if (s)
            bs_text_add(r, "; last run %lld, %.0f bytes", (long long)(symbol ? s->dims[i] : s->root.domains[d].count),
                        activations(p, s, of, d));
        bs_text_add(r, "\n");
    }
}

/* ------------------------------------------------------------------------------------------------- dataflow */

/* Nodes that are part of others; their kernels would write, and read again, what is between them. */
static void say_tails(bs_text *r, const bs_plan *p)
{
    double spared = 0;
    int32_t steps = 0, seen = 0;
    for (int32_t v = 1; v < p->graph->n_values; v++)
        seen += bs_plan_rows_of(p, v) != v;
    if (seen)
        bs_text_add(r, "seen where they lie, in other dimensions: %" PRId32 " results of reshapes\n", seen);
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const bs_node *node = &p->graph->nodes[n];
        if (!p->node_live[n] || node->n_tail == 0)
            continue;
        steps += node->n_tail;
        spared +=
            2.0 * node->n_tail * (double)bs_bytes_figure(bs_value_bytes(p->graph, &p->graph->values[node->first_out]));
    }
    if (steps)
        bs_text_add(r,
                    "fused, with the same result: %" PRId32 " ops run behind the kernel whose result they change,\n"
                    "  which spares %.3g bytes of reading and writing, of each node a row\n",
                    steps, spared);
}

/* Nodes that run elsewhere than they were built, or for others too: why, and what that saves. */
static void say_dataflow(bs_text *r, const bs_plan *p)
{
    const bs_graph *g = p->graph;
    bs_node_facts facts;
    char text[128];
    double saved = 0;
    int32_t n_moved = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bool sunk = g->domains[node->built_in].depth < g->domains[node->domain].depth;
        const bool lifted = g->domains[node->built_in].depth > g->domains[node->domain].depth;
        if (!p->node_live[n] || bs_node_work(node) != BS_WORK_CALL || !(sunk || lifted || node->merged))
            continue;
        bs_graph_node_get(g, n, &facts);
        bs_text_add(r, "%s  %s%s%s: ", n_moved++ ? "" : "moved, with the same result:\n", facts.op,
                    *facts.name ? " " : "", facts.name);
        if (sunk)
            bs_text_add(r, "built for %s, needed by ", bs_domain_text(g, node->built_in, text, sizeof text));
        if (lifted)
            bs_text_add(r, "the same in every trip of %s, computed before for ",
                        bs_domain_text(g, node->built_in, text, sizeof text));
        if (sunk || lifted)
            bs_text_add(r, "%s alone, %.3g flop a row", bs_domain_text(g, node->domain, text, sizeof text),
                        facts.flops);
        if (node->merged)
            bs_text_add(r, "%scomputed once instead of %" PRId32 " times", sunk || lifted ? "; " : "",
                        node->merged + 1);
        bs_text_add(r, "\n");
        saved += sunk ? facts.flops : 0;
    }
    if (saved > 0)
        bs_text_add(r, "  together %.3g flop a row that other rows are spared\n", saved);
}

/* ---------------------------------------------------------------------------------------------- side by side */

/* Steps of a run: instructions side by side are one; on a GPU those of one op, one launch if they choose one kernel. */
static void say_steps(bs_text *r, const bs_plan *p)
{
    const bool device = bs_plan_on_device(p);
    int32_t steps = 0;
    for (int32_t first = 0, end; first < p->n_top && !bs_plan_streams(p); first = end) {
        end = bs_plan_side_by_side(p, first);
        for (const bs_instr *i = p->instrs + first; i < p->instrs + end; i++) {
            const bs_instr *j = p->instrs + first;
            while (j < i && device &&
                   (i->kind == BS_INSTR_ROUTE || j->kind != i->kind || j->map != i->map ||
                    p->graph->nodes[j->node].op != p->graph->nodes[i->node].op))
                j++;
            steps += j == i;
        }
    }
    if (steps > 0)
        bs_text_add(r, "%" PRId32 " instructions at top level in %" PRId32 " %s, a loop one trip\n", p->n_top, steps,
                    device ? "launches" : "steps");
}

static size_t report_of(const bs_plan *plan, const bs_session *session, char *text, size_t bytes)
{
    bs_text r = {text, text ? bytes : 0, 0};
    bs_sizes sizes;
    if (r.bytes > 0)
        text[0] = 0;
    if (!plan)
        return 0;
    bs_plan_sizes(plan, &sizes);
    bs_text_add(&r,
                "arena        bytes\npersistent   %llu (graph and plan come on top: %llu)\ntransient    %llu\n"
                "staging      %llu\nslots        %llu\n",
                (unsigned long long)sizes.persistent, bs_bytes_figure(plan->own_bytes),
                (unsigned long long)sizes.transient, (unsigned long long)sizes.staging,
                (unsigned long long)sizes.slots);
    say_memory(&r, plan, &sizes);
    if (bs_plan_streams(plan))
        bs_text_add(&r,
                    "streamed: %" PRId32 " units of %llu bytes in all, the largest %llu; %" PRId32 " phases, %" PRId32
                    " lanes of %llu bytes\n",
                    plan->n_units - 1, bs_bytes_figure(plan->all_unit_bytes), bs_bytes_figure(plan->largest_unit_bytes),
                    plan->n_phases, plan->lanes, bs_bytes_figure(plan->lane_bytes));
    say_maxima(&r, plan, session);
    say_dataflow(&r, plan);
    say_tails(&r, plan);
    say_steps(&r, plan);
    for (int32_t i = 0; i < plan->n_top; i++) {
        say_instr(&r, plan, &plan->instrs[i], "  ");
        if (plan->instrs[i].kind == BS_INSTR_RUN)
            say_region(&r, plan, plan->instrs[i].region);
    }
    return r.used;
}

size_t bs_plan_report(const bs_plan *plan, char *text, size_t bytes) { return report_of(plan, NULL, text, bytes); }

size_t bs_session_report(const bs_session *session, char *text, size_t bytes)
{
    const bool ran = session && session->stats.runs > 0;
    return report_of(session ? session->plan : NULL, ran ? session : NULL, text, bytes);
}
#endif
