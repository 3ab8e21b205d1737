/* plan/tails.c - finds chains of nodes behind a kernel: each changes a result that nothing else reads, element by
 * element or line by line, on the same rows, without changing its extents. The chain becomes one node, which stands
 * where the last one stood: all that its steps read is there by then. One result may be read by several of its nodes,
 * as x is in x * sigmoid(x): that is kept while they change it.
 * What may be a step, and what may have one, its contract says (bs_memory_contract). Relies on plan/tails.h. Must never
 * put together what anything could see apart. */
#include "plan/tails.h"

#include "ops/common.h"
#include "ops/structure.h"

/* Chains of a device have the functions of some ops alone. */
static bool is_step(const bs_node *node, bool chains)
{
    const bs_op *op = bs_node_op(node);
    const bool step = op->memory.elements || (op->memory.lines && !bs_op_weights_of(op)) || bs_node_enlarges(node) > 1;
    return step && (!chains || op->memory.chained) && !node->makes;
}

/* A kernel that makes its one result in whole rows of its domain, none of them in two calls. (One that changes a value
 * in its place leaves elements as they were.) */
static bool makes_rows(const bs_node *node)
{
    const bs_op *op = bs_node_op(node);
    return bs_node_work(node) == BS_WORK_CALL && node->n_out == 1 && node->n_read == node->n_in &&
           bs_op_is_by_row(op) && !op->memory.updates;
}

static bool may_have_tail(const bs_node *node, bool chains)
{
    const bs_memory_contract memory = bs_node_op(node)->memory;
    return !node->makes && (chains ? memory.chained || memory.lines : makes_rows(node));
}

static int32_t made_by(const bs_tails *t, int32_t n, int32_t index)
{
    const bs_graph *g = t->graph;
    return g->values[t->source[bs_node_in(g, &g->nodes[n])[index]]].node;
}

bool bs_tails_has_made(const bs_tails *t, int32_t n, int32_t index)
{
    const int32_t by = made_by(t, n, index);
    int32_t m = t->before[n];
    while (m && m != by)
        m = t->before[m];
    return m != 0;
}

/* How many operands of a step come from elsewhere. */
static int32_t others_of(const bs_tails *t, int32_t n)
{
    int32_t others = 0;
    for (int32_t i = 0; i < t->graph->nodes[n].n_in; i++)
        others += !bs_tails_has_made(t, n, i);
    return others;
}

/* How often what node m made is read. */
static int32_t read_of(const bs_tails *t, int32_t m) { return t->reads[t->graph->nodes[m].first_out]; }

/* Whether a step can make of a, elsewhere, what it makes: a tail has one such step, and only where little is kept in
 * scratch: of an image some lines. */
static bool may_go_elsewhere(const bs_tails *t, const bs_value_info *a)
{
    const bs_graph *g = t->graph;
    size_t few;
    bool may = a->image || bs_bytes_fit(bs_value_bytes(g, a), BS_TAIL_BYTES, &few);
    int32_t m = a->node;
    for (; t->before[m] && may; m = t->before[m])
        may = bs_node_enlarges(&g->nodes[m]) == 1 && read_of(t, t->before[m]) == 1;
    return may && bs_dtype_bytes(a->dtype) == bs_dtype_bytes(g->values[g->nodes[m].first_out].dtype);
}

/* Whether the element types fit: their bytes change where a step may move what it changes. */
static bool fits_type(const bs_tails *t, const bs_value_info *a, const bs_value_info *b)
{
    if (t->chains)
        return a->dtype == BS_F32 && b->dtype == BS_F32;
    return bs_dtype_bytes(a->dtype) == bs_dtype_bytes(b->dtype) || may_go_elsewhere(t, a);
}

/* Whether b, r times as large, can be made by the kernel of a, which is no step; not in patches, which are cut where
 * that is no multiple. Of few channels the step's own kernel is as fast, or that of a chain behind it
 * (plan/fusions.c). */
static bool may_enlarge(const bs_tails *t, const bs_value_info *a, const bs_value_info *b, int32_t r)
{
    enum { LARGEST = 8, CHANNELS = 8 }; /* bands of an image begin at multiples of 4 x 8 */
    return LARGEST % r == 0 && bs_dim_max(t->graph, b->dims[0]) % CHANNELS == 0 &&
           bs_node_op(&t->graph->nodes[a->node])->layout.channels_last && !bs_value_in_patches(t->graph, a);
}

/* Whether b can be made of a by the threads that made a, by node n: images are cut where both ops are of images. */
static bool is_alike(const bs_tails *t, const bs_value_info *a, const bs_value_info *b, int32_t n)
{
    const int32_t r = bs_node_enlarges(&t->graph->nodes[n]);
    bs_value_info shape = *b;
    shape.dtype = a->dtype;
    const bool scaled = a->scale_num != b->scale_num || a->scale_den != b->scale_den;
    const bool fits = r > 1 ? may_enlarge(t, a, b, r)
                            : bs_same_shape(a, &shape) && !(scaled && bs_value_in_patches(t->graph, a));
    return fits && fits_type(t, a, b) &&
           (!a->image || bs_node_op(&t->graph->nodes[a->node])->layout.images);
}

bool bs_tails_move(const bs_graph *g, const bs_node *node)
{
    bool move = false;
    for (int32_t i = 0; i < node->n_tail; i++)
        move = move || bs_tail_moves(&g->tails[node->tail + i]);
    return move;
}

bs_bytes bs_tails_scratch(const bs_graph *g, const bs_node *node, const bs_node_plan *plan, int64_t height,
                          int64_t width)
{
    const bs_value_info *out = &g->values[node->first_out];
    const bs_tail *first = &g->tails[node->tail];
    const size_t element = bs_dtype_bytes(first->from);
    const int32_t grain = plan->grain * bs_node_phases(g, node);
    if (!bs_tails_move(g, node)) /* a small library (BS_SMALL) needs it where others do not (bs_node_plan.phases) */
        return bs_bytes_of(0);
    if (!out->image) { /* a row is no more */
        const bs_bytes row = bs_bytes_product(bs_value_elements(g, out), bs_bytes_of(element));
        return bs_bytes_align(node->domain == 0 ? row : bs_bytes_of(BS_TAIL_BYTES));
    }
    const bs_bytes line = bs_bytes_times(bs_bytes_array(bs_dim_max(g, out->dims[0]), element), width);
    return bs_bytes_align(bs_bytes_max(bs_bytes_times(line, bs_min_i64(grain, height)),
                                       bs_bytes_min(bs_bytes_of(BS_TAIL_BYTES), bs_bytes_times(line, height))));
}

int32_t bs_tails_most(const bs_graph *g)
{
    int32_t most = 0;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        bool follows = false;
        for (int32_t i = 0; i < g->nodes[n].n_in && is_step(&g->nodes[n], false); i++)
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
    int32_t at = 0;
    while (made_by(t, n, at) != t->before[n])
        at++;
    return at;
}

/* Whether as many steps as end with node n fit, and what they read. */
static bool has_room(const bs_tails *t, int32_t n)
{
    int32_t count = 0, others = 0;
    for (; t->before[n]; n = t->before[n], count++)
        others += others_of(t, n);
    return count <= (t->chains ? BS_MAX_CHAIN : BS_MAX_TAIL) && others <= BS_MAX_TAIL_OTHERS &&
           t->graph->nodes[n].n_in + others <= BS_MAX_OPERANDS;
}

static void part(bs_tails *t, int32_t n)
{
    t->after[t->before[n]] = 0;
    t->before[n] = 0;
}

/* Makes node n a step that changes what node m made, if it can be one. */
static bool follow(bs_tails *t, int32_t n, int32_t m)
{
    const bs_graph *g = t->graph;
    const bs_node *node = &g->nodes[n];
    if (m == 0 || t->before[n] || t->place[m] != t->place[n] || g->nodes[m].block != node->block ||
        g->nodes[m].n_out != 1 || !is_step(node, t->chains) || !may_have_tail(&g->nodes[m], t->chains) ||
        !is_alike(t, &g->values[g->nodes[m].first_out], &g->values[node->first_out], n))
        return false;
    t->before[n] = m;
    t->after[m] = n;
    if (has_room(t, n))
        return true;
    part(t, n);
    return false;
}

/* How often node n reads what node m made. */
static int32_t reads_of(const bs_tails *t, int32_t n, int32_t m)
{
    int32_t reads = 0;
    for (int32_t i = 0; i < t->graph->nodes[n].n_in; i++)
        reads += made_by(t, n, i) == m;
    return reads;
}

/* The node that alone reads what node m made, if it stands not far behind it; else 0. */
static int32_t only_reader(const bs_tails *t, int32_t m)
{
    enum { FAR = 16 };
    const int32_t end = bs_min_i32(t->graph->n_nodes, m + FAR);
    for (int32_t n = m + 1; n < end && read_of(t, m) == 1; n++)
        if (t->place[n] >= 0 && reads_of(t, n, m))
            return n;
    return 0;
}

/* Makes node n, and those behind it, steps that change what node m made, if they alone read that: the first one keeps
 * it for the others. Not of many small images, of which a kernel takes some at a time. Returns how many they are. */
static int32_t follow_and_keep(bs_tails *t, int32_t n, int32_t m)
{
    const bs_value_info *x = &t->graph->values[t->graph->nodes[m].first_out];
    int32_t left = read_of(t, m), count = 0, last = m;
    if (m == 0 || t->chains || (x->image && x->domain != 0 && !bs_value_in_patches(t->graph, x)) ||
        !may_go_elsewhere(t, x))
        return 0;
    while (n && left > 0 && follow(t, n, last)) {
        left -= reads_of(t, n, m);
        last = n;
        n = only_reader(t, n);
        count++;
    }
    for (; left > 0 && last != m; count--) {
        const int32_t before = t->before[last];
        part(t, last);
        last = before;
    }
    return count;
}

/* Makes node n a step, and perhaps nodes behind it: of that operand which is computed last. Returns how many. */
static int32_t find_steps(bs_tails *t, int32_t n)
{
    const int32_t n_in = t->graph->nodes[n].n_in;
    int32_t last = 0, found = 0;
    for (int32_t i = 0; i < n_in; i++) {
        const int32_t m = made_by(t, n, i);
        if (m > last && read_of(t, m) == 1 && follow(t, n, m)) {
            part(t, n);
            last = m;
        }
    }
    found = last ? follow(t, n, last) : 0;
    for (int32_t i = 0; i < n_in && !found; i++)
        found = follow_and_keep(t, n, made_by(t, n, i));
    return found;
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
    for (int32_t n = 1; n < g->n_nodes; n++)
        found += t->place[n] >= 0 && t->before[n] == 0 ? find_steps(t, n) : 0;
    return found;
}
