/* plan/share.c - one copy of a weight, whatever uses it.
 *
 * Nodes of one op and one name have the same weights: *twins*. Each twin knows the one before it. Twins that want the
 * same layout read one prepared copy, that of the *owner*, the first of them. Weights that two streamed units would
 * load are resident instead (plan/units.c). A name stands for one tensor: two shapes or types of it are refused here,
 * before any weight is read.
 * Relies on plan/plan.h. Must never read weights, only what ops declare. */
#include "plan/plan.h"
#include "ops/weights.h"

#if !defined(BS_NO_PLANNER)

/* A weight of a node: node * BS_MAX_WEIGHTS + index. */
static int32_t node_of(int32_t tensor) { return tensor / BS_MAX_WEIGHTS; }

static const char *suffix_of(const bs_graph *g, int32_t node, int32_t index, bs_weight_spec *specs)
{
    bs_node_weights(g, &g->nodes[node], specs);
    return specs[index].suffix;
}

/* The name of a weight has up to three parts that follow each other: node, dot, suffix. */
typedef struct name_reader {
    const char *part[3];
    int32_t at;
} name_reader;

static name_reader name_of(const bs_graph *g, int32_t tensor)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const char *suffix = suffix_of(g, node_of(tensor), tensor % BS_MAX_WEIGHTS, specs);
    const name_reader name = {{bs_node_name(&g->nodes[node_of(tensor)]), *suffix ? "." : "", suffix}, 0};
    return name;
}

static int32_t name_next(name_reader *name)
{
    while (name->at < 2 && !*name->part[name->at])
        name->at++;
    return *name->part[name->at] ? (uint8_t)*name->part[name->at]++ : 0;
}

static int32_t compare_names(const bs_graph *g, int32_t a, int32_t b)
{
    name_reader x = name_of(g, a), y = name_of(g, b);
    for (;;) {
        const int32_t c = name_next(&x), d = name_next(&y);
        if (c != d || c == 0)
            return c - d;
    }
}

/* Orders nodes whose first weights have one name by their other properties. 0: the same weights. */
static int32_t compare_kinds(const bs_graph *g, int32_t a, int32_t b)
{
    bs_weight_spec x[BS_MAX_WEIGHTS], y[BS_MAX_WEIGHTS];
    const bs_node *m = &g->nodes[a], *n = &g->nodes[b];
    const int32_t count = bs_node_weights(g, m, x);
    int32_t order = m->op != n->op ? m->op - n->op : count - bs_node_weights(g, n, y);
    for (int32_t i = 0; i < count && order == 0; i++)
        order = strcmp(x[i].suffix, y[i].suffix);
    return order;
}

static bool tensor_before(const void *context, int32_t a, int32_t b)
{
    const bs_graph *g = context;
    const int32_t names = compare_names(g, a, b);
    return names != 0 ? names < 0 : compare_kinds(g, node_of(a), node_of(b)) < 0;
}

/* Two weights of one name must be one tensor. */
static bool tensors_agree(const bs_graph *g, int32_t a, int32_t b, bs_error *error)
{
    bs_weight_spec x[BS_MAX_WEIGHTS], y[BS_MAX_WEIGHTS];
    const bs_node *m = &g->nodes[node_of(a)], *n = &g->nodes[node_of(b)];
    char first[64], second[64], name[2 * BS_MAX_NAME];
    bs_node_weights(g, m, x);
    bs_node_weights(g, n, y);
    const bs_weight_spec *s = &x[a % BS_MAX_WEIGHTS], *t = &y[b % BS_MAX_WEIGHTS];
    bool agree = s->dtype == t->dtype && s->rank == t->rank;
    for (int32_t i = 0; agree && i < s->rank; i++)
        agree = s->dim[i] == t->dim[i];
    if (agree)
        return true;
    bs_weight_name(name, sizeof name, m, s->suffix);
    return bs_refuse(error, BS_ERROR_SHAPE, "weight \"%s\" is %s %s to %s \"%s\", but %s %s to %s \"%s\"", name,
                     bs_dtype_name(s->dtype), bs_weight_shape_text(s->rank, s->dim, first, sizeof first),
                     bs_op_get(m->op)->name, bs_node_name(m), bs_dtype_name(t->dtype),
                     bs_weight_shape_text(t->rank, t->dim, second, sizeof second), bs_op_get(n->op)->name,
                     bs_node_name(n));
}

/* Of each node as many as any has: other passes take more. */
bs_bytes bs_plan_share_workspace(const bs_plan_room *room)
{
    return bs_bytes_align(bs_bytes_array(2 * BS_MAX_WEIGHTS * room->nodes, sizeof(int32_t)));
}

bool bs_plan_share(bs_plan *p, void *workspace, bs_error *error)
{
    const bs_graph *g = p->graph;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    int32_t *tensors = workspace, *buffer = tensors + BS_MAX_WEIGHTS * g->n_nodes, count = 0;
    for (int32_t n = 1; n < g->n_nodes; n++)
        for (int32_t i = 0; bs_plan_needs_weights(p, n) && i < bs_node_weights(g, &g->nodes[n], specs); i++)
            tensors[count++] = n * BS_MAX_WEIGHTS + i;
    bs_sort(tensors, buffer, count, tensor_before, g);
    for (int32_t i = 1; i < count; i++) {
        const int32_t a = tensors[i - 1], b = tensors[i];
        if (compare_names(g, a, b) != 0)
            continue;
        if (!tensors_agree(g, a, b, error))
            return false;
        if (a % BS_MAX_WEIGHTS == 0 && b % BS_MAX_WEIGHTS == 0 && compare_kinds(g, node_of(a), node_of(b)) == 0)
            p->twin[node_of(b)] = node_of(a); /* the sort is stable: a comes before b */
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------- copies */

enum { MAX_LAYOUTS = 64 }; /* owners that are compared */

/* Owners among twins have different layouts. These are few, however many twins there are; beyond MAX_LAYOUTS the node
 * gets a copy of its own. */
void bs_plan_find_owner(bs_plan *p, int32_t n)
{
    const int32_t newest = p->newest_owner[p->twin[n]];
    int32_t owner = newest;
    for (int32_t i = 0; owner != 0 && !bs_plan_laid_out_alike(p, n, owner); i++)
        owner = i < MAX_LAYOUTS ? p->newest_owner[p->twin[owner]] : 0;
    p->nodes[n].owner = owner ? owner : n;
    p->newest_owner[n] = owner ? newest : n;
}

#endif
