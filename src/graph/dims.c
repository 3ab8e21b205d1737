/* graph/dims.c - dimensions: constants, symbols with a maximum, and what is derived from them; equal ones are one
 * entry. Relies on graph/graph.h and graph/tree.h. Must never let a dimension pass 2^30. */
#include "graph/graph.h"
#include "graph/tree.h"

/* The link in the tree where an equal entry is, or where a new one is added. Entry 0 is the root of the tree. */
static int32_t *dim_find(bs_graph *g, const bs_dim_info *dim, bs_dim_id *found)
{
    uint64_t hash = bs_tree_mix(
        bs_tree_mix(bs_tree_mix(bs_tree_mix(bs_tree_mix((uint64_t)dim->kind, dim->parent), dim->mul), dim->add),
                    dim->div),
        dim->maximum);
    int32_t *link = NULL;
    *found = -1;
    for (bs_dim_id i = 0; i < g->n_dims && (!link || i); i = *link) {
        bs_dim_info *d = &g->dims[i];
        if (d->kind == dim->kind && d->parent == dim->parent && d->mul == dim->mul && d->add == dim->add &&
            d->div == dim->div && d->maximum == dim->maximum) {
            *found = i;
            return NULL;
        }
        link = bs_tree_step(d->child, &hash);
    }
    return link;
}

static bs_dim_id dim_intern(bs_graph *g, const bs_dim_info *dim)
{
    bs_dim_id id = -1;
    int32_t *link = NULL;
    if (dim->kind != BS_DIM_SYMBOL || g->n_dims == 0) /* symbols are all different, so they are not in the tree */
        link = dim_find(g, dim, &id);
    if (id >= 0)
        return id;
    if (g->n_dims == g->max_dims) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %" PRId32 " different dimensions (bs_graph_desc.max_dims)",
                      g->max_dims);
        return -1;
    }
    id = g->n_dims++;
    g->dims[id] = *dim;
    g->dims[id].symbols = (id ? g->dims[id - 1].symbols : 0) + (dim->kind == BS_DIM_SYMBOL);
    if (link)
        *link = id;
    return id;
}

/* Extents and their products must stay far from 2^63; one dimension of 2^30 is beyond any board. */
#define BS_DIM_LIMIT ((int64_t)1 << 30)

static bool dim_in_range(int64_t n) { return n >= 1 && n <= BS_DIM_LIMIT; }

bs_dim_id bs_dim_const(bs_graph *graph, int64_t n)
{
    const bs_dim_info dim = {.kind = BS_DIM_CONST, .parent = -1, .maximum = (int32_t)n};
    if (dim_in_range(n))
        return dim_intern(graph, &dim);
    bs_graph_fail(graph, BS_ERROR_SHAPE, "a dimension would be %lld, expected 1 .. 2^30", (long long)n);
    return -1;
}

static bs_dim_id dim_fail(bs_graph *g, bs_dim_id parent, int64_t mul, int64_t add, int64_t div)
{
    char text[96];
    bs_graph_fail(
        g, BS_ERROR_SHAPE,
        "a dimension would be (%s * %lld %+lld) / %lld, expected numbers of 2^30 at most, and 1 at least as the result",
        bs_dim_text(g, parent, text, sizeof text), (long long)mul, (long long)add, (long long)div);
    return -1;
}

int64_t bs_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* Expressions are brought to one form, so that expressions that are always equal have one id: (d*2)*3 is d*6, (d+2)-2
 * is d, and floor((d*32 + 1) / 2) is d*16, since of whole numbers floor((c*m + a) / (c*k)) is floor((m + floor(a/c)) /
 * k). */
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div)
{
    const bs_dim_info *p;
    for (;; parent = p->parent) { /* after a step the parent is of this form, so the loop runs at most twice */
        if (!dim_in_range(mul) || add > BS_DIM_LIMIT || add < -BS_DIM_LIMIT)
            return dim_fail(graph, parent, mul, add, div);
        p = &graph->dims[parent];
        if (p->kind != BS_DIM_DERIVED || p->div != 1)
            break;
        add += p->add * mul;
        mul *= p->mul;
    }
    const int64_t common = bs_common_divisor(mul, div);
    mul /= common;
    add = bs_floor_div(add, common);
    div /= common;
    if (mul == 1 && add == 0 && div == 1)
        return parent;
    const int64_t maximum = bs_floor_div(p->maximum * mul + add, div);
    if (!dim_in_range(maximum))
        return dim_fail(graph, parent, mul, add, div);
    if (p->kind == BS_DIM_CONST)
        return bs_dim_const(graph, maximum);
    const bs_dim_info dim = {.kind = BS_DIM_DERIVED,
                             .parent = parent,
                             .mul = (int32_t)mul,
                             .add = (int32_t)add,
                             .div = (int32_t)div,
                             .maximum = (int32_t)maximum,
                             .node = p->node};
    return dim_intern(graph, &dim);
}

/* Public handles: constants are themselves, BS_UPTO sets bit 40, a dimension of the table sets bit 41. */
#define BS_DIM_UPTO ((bs_dim)1 << 40)
#define BS_DIM_TABLE ((bs_dim)1 << 41)

static bs_dim_id symbol_add(bs_graph *g, const char *text, int64_t maximum, int32_t node)
{
    const bs_dim_info dim = {.kind = BS_DIM_SYMBOL,
                             .parent = -1,
                             .maximum = (int32_t)maximum,
                             .name = (int32_t)(text - g->text),
                             .node = node};
    return dim_intern(g, &dim);
}

bs_dim bs_symbol(bs_graph *graph, const char *name, int64_t maximum)
{
    if (!graph || graph->status != BS_OK)
        return 0;
    if (!dim_in_range(maximum)) {
        bs_graph_fail(graph, BS_ERROR_SHAPE, "symbol \"%.63s\": its maximum is %lld, expected 1 .. 2^30",
                      name ? name : "", (long long)maximum);
        return 0;
    }
    const bs_dim_id id = symbol_add(graph, bs_graph_text(graph, name), maximum, 0);
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

bs_dim_id bs_dim_from_data(bs_graph *graph, const char *name, int64_t maximum)
{
    return symbol_add(graph, name, maximum, graph->n_nodes);
}

bool bs_dim_is_known(const bs_graph *graph, bs_dim dim)
{
    return dim >= BS_DIM_TABLE ? dim - BS_DIM_TABLE < graph->n_dims
                               : dim_in_range(dim >= BS_DIM_UPTO ? dim - BS_DIM_UPTO : dim);
}

bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim)
{
    if (dim >= BS_DIM_TABLE)
        return (bs_dim_id)(dim - BS_DIM_TABLE);
    if (dim >= BS_DIM_UPTO) {
        const bs_dim symbol = bs_symbol(graph, "", dim - BS_DIM_UPTO);
        return symbol ? (bs_dim_id)(symbol - BS_DIM_TABLE) : -1;
    }
    return bs_dim_const(graph, dim);
}

bs_dim bs_times(bs_graph *graph, bs_dim symbol, int32_t factor)
{
    if (!graph || graph->status != BS_OK)
        return 0;
    graph->adding = "bs_times";
    graph->adding_name = "";
    if (factor < 1)
        bs_graph_fail(graph, BS_ERROR_SHAPE, "the factor is %" PRId32 ", expected 1 .. 2^30", factor);
    if (!bs_dim_is_known(graph, symbol))
        bs_graph_fail(graph, BS_ERROR_SHAPE, "%lld is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
                      (long long)symbol);
    const bs_dim_id parent = graph->status == BS_OK ? bs_dim_resolve(graph, symbol) : -1;
    const bs_dim_id id = parent < 0 ? -1 : bs_dim_derive(graph, parent, factor, 0, 1);
    graph->adding = NULL;
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

bs_shape bs_shape_of(int32_t rank, bs_dim d0, bs_dim d1, bs_dim d2, bs_dim d3)
{
    bs_shape shape = {rank, {d0, d1, d2, d3}};
    return shape;
}
