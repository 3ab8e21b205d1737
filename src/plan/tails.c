/* plan/tails.c - finds chains of element-wise nodes behind a kernel: each changes a result that nothing else reads, on
 * the same rows, without changing its extents. The chain becomes one node, which stands where the last one stood: all
 * that its steps read is there by then.
 * What may be a step, and what may have one, are traits (bs_op_rules). Relies on plan/tails.h. Must never put together
 * what anything could see apart. */
#include "plan/tails.h"

#include "ops/structure.h"

static bool is_step(const bs_node *node)
{
    const bs_op_rules *rules = bs_node_op(node)->rules;
    return rules && rules->element_wise && !node->makes;
}

static bool may_have_tail(const bs_node *node, bool chains)
{
    const bs_op_rules *rules = bs_node_op(node)->rules;
    return rules && ((rules->has_tail && !chains) || rules->element_wise) && !node->makes;
}

static bool is_alike(const bs_value_info *a, const bs_value_info *b)
{
    return a->dtype == BS_F32 && bs_same_shape(a, b) && a->scale_num == b->scale_num && a->scale_den == b->scale_den;
}

int32_t bs_tails_most(const bs_graph *g)
{
    int32_t most = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        bool follows = false;
        for (int32_t i = 0; i < g->nodes[n].n_in && is_step(&g->nodes[n]); i++)
            follows = follows || may_have_tail(&g->nodes[g->values[bs_node_in(g, &g->nodes[n])[i]].node], false);
        most += follows;
    }
    return most;
}

int32_t bs_tails_chain(const bs_tails *t, int32_t n, int32_t steps[BS_MAX_TAIL], int32_t *head)
{
    int32_t count = 0, at;
    for (*head = n; t->before[*head]; *head = t->before[*head])
        count++;
    at = count;
    for (; t->before[n]; n = t->before[n])
        steps[--at] = n;
    return count;
}

int32_t bs_tails_operand(const bs_tails *t, int32_t n)
{
    const bs_graph *g = t->graph;
    const int32_t *in = bs_node_in(g, &g->nodes[n]);
    return g->values[t->source[in[0]]].node == t->before[n] ? 0 : 1;
}

/* Whether another step fits behind node m, which may have some. */
static bool has_room(const bs_tails *t, int32_t m, int32_t more)
{
    const bs_graph *g = t->graph;
    int32_t steps[BS_MAX_TAIL], head, others = more;
    const int32_t count = bs_tails_chain(t, m, steps, &head);
    for (int32_t i = 0; i < count; i++)
        others += g->nodes[steps[i]].n_in - 1;
    return count < BS_MAX_TAIL && others <= BS_MAX_TAIL_OTHERS && g->nodes[head].n_in + others <= BS_MAX_OPERANDS;
}

/* Whether node n can be a step that changes its operand `index`. */
static bool can_follow(const bs_tails *t, int32_t n, int32_t index)
{
    const bs_graph *g = t->graph;
    const bs_node *node = &g->nodes[n];
    const int32_t value = t->source[bs_node_in(g, node)[index]], m = g->values[value].node;
    return m != 0 && t->place[m] == t->place[n] && g->nodes[m].block == node->block && g->nodes[m].n_out == 1 &&
           t->reads[value] == 1 && may_have_tail(&g->nodes[m], t->chains) &&
           is_alike(&g->values[value], &g->values[node->first_out]) && has_room(t, m, node->n_in - 1);
}

static void count_all_reads(bs_tails *t)
{
    const bs_graph *g = t->graph;
    memset(t->reads, 0, (size_t)g->n_values * sizeof *t->reads);
    for (int32_t n = 1; n < g->n_nodes; n++)
        for (int32_t i = 0; i < g->nodes[n].n_in && t->place[n] >= 0; i++)
            t->reads[t->source[bs_node_in(g, &g->nodes[n])[i]]]++;
}

int32_t bs_tails_find(bs_tails *t)
{
    const bs_graph *g = t->graph;
    int32_t found = 0;
    count_all_reads(t);
    memset(t->before, 0, (size_t)g->n_nodes * sizeof *t->before);
    memset(t->after, 0, (size_t)g->n_nodes * sizeof *t->after);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        int32_t m = 0; /* of two, the one that is computed later */
        for (int32_t i = 0; i < node->n_in && t->place[n] >= 0 && is_step(node); i++)
            if (can_follow(t, n, i))
                m = bs_max_i32(m, g->values[t->source[bs_node_in(g, node)[i]]].node);
        if (m == 0)
            continue;
        t->before[n] = m;
        t->after[m] = n;
        found++;
    }
    return found;
}
