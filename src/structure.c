/* structure.c - structural ops: inputs, states, outputs, cells, routers, branches.
 * Owns their builder functions and shape rules. Relies on graph.h. Must never run anything. */
#include "structure.h"

/* ------------------------------------------------------------------------------------ inputs and outputs */

static bs_dim_id symbol_by_number(const bs_graph *g, int32_t number)
{
    for (bs_dim_id d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_SYMBOL && --number == 0)
            return d;
    return -1;
}

static int32_t symbol_number(const bs_graph *g, bs_dim_id id)
{
    int32_t number = 0;
    for (bs_dim_id d = 0; d <= id; d++)
        number += g->dims[d].kind == BS_DIM_SYMBOL;
    return number;
}

/* Encodes a dimension as bs_source_params.dim; 0 when it is none of the storable forms. */
static int32_t source_dim_encode(const bs_graph *g, bs_dim_id id)
{
    const bs_dim_info *d = &g->dims[id];
    if (d->kind == BS_DIM_CONST)
        return (int32_t)d->maximum;
    if (d->kind == BS_DIM_SYMBOL)
        return -symbol_number(g, id);
    if (d->add == 0 && d->div == 1 && d->mul <= 1024 && g->dims[d->parent].kind == BS_DIM_SYMBOL)
        return -(symbol_number(g, d->parent) + 65536 * (int32_t)(d->mul - 1));
    return 0;
}

static bs_dim_id source_dim_decode(bs_graph *g, int32_t code)
{
    if (code >= 0)
        return bs_dim_const(g, code);
    if (code < -(65536 * 1024))
        return -1;
    const bs_dim_id symbol = symbol_by_number(g, -code & 0xffff);
    return symbol < 0 ? -1 : bs_dim_derive(g, symbol, (-code >> 16) + 1, 0, 1);
}

static bool name_is_new(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (!infer->name[0])
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s needs a name", infer->op->name);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_op *op = bs_op_get(g->nodes[n].op);
        const bool named = op == &bs_op_input || op == &bs_op_state || op == &bs_op_output;
        if (named && strcmp(bs_node_name(&g->nodes[n]), infer->name) == 0)
            return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "two inputs, states or outputs are called \"%s\"", infer->name);
    }
    return true;
}

static bool source_infer(bs_infer *infer)
{
    const bs_source_params *p = infer->params;
    if (!name_is_new(infer))
        return false;
    if (p->dtype < 0 || p->dtype >= BS_DTYPE_COUNT || p->rank < 1 || p->rank > BS_MAX_RANK)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s \"%s\": dtype %d or rank %d is out of range", infer->op->name,
                             infer->name, p->dtype, p->rank);
    infer->out[0].dtype = (bs_dtype)p->dtype;
    infer->out[0].rank = p->rank;
    for (int32_t i = 0; i < p->rank; i++) {
        infer->out[0].dims[i] = p->dim[i] == 0 ? -1 : source_dim_decode(infer->graph, p->dim[i]);
        if (infer->out[0].dims[i] < 0)
            return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "%s \"%s\": dimension %d is not a constant or up to 1024 times a symbol",
                                 infer->op->name, infer->name, i);
    }
    return true;
}

static const bs_field source_fields[] = {{"dtype", 'i'}, {"rank", 'i'}, {"dim0", 'i'}, {"dim1", 'i'}, {"dim2", 'i'}, {"dim3", 'i'}};

const bs_op bs_op_input = {.name = "input", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_source_params),
                           .fields = source_fields, .n_fields = 6, .infer = source_infer};
const bs_op bs_op_state = {.name = "state", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_source_params),
                           .fields = source_fields, .n_fields = 6, .infer = source_infer};

static bs_value source_add(bs_graph *g, const bs_op *op, const char *name, bs_dtype dtype, bs_shape shape)
{
    const bs_value failed = {0};
    bs_source_params p = {name ? name : "", (int32_t)dtype, shape.rank, {0, 0, 0, 0}};
    if (!g || g->status != BS_OK)
        return failed;
    for (int32_t i = 0; i < shape.rank && i < BS_MAX_RANK; i++) {
        if (shape.dim[i] < 1 || (shape.dim[i] > (bs_dim)1 << 30 && shape.dim[i] < BS_UPTO(0)))
            bs_graph_fail(g, BS_ERROR_SHAPE, "%s \"%s\": dimension %d is %lld, expected 1 .. 2^30", op->name, p.name, i, (long long)shape.dim[i]);
        const bs_dim_id id = bs_dim_resolve(g, shape.dim[i]);
        p.dim[i] = id < 0 ? 0 : source_dim_encode(g, id);
    }
    return bs_graph_value(g, bs_op_index(op->name), NULL, 0, &p);
}

bs_value bs_input(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_input, name, dtype, shape);
}

bs_value bs_state(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_state, name, dtype, shape);
}

static bool is_root(bs_infer *infer, int32_t index)
{
    if (infer->in[index]->domain == 0)
        return true;
    return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "%s \"%s\" takes a root value, operand %d is of domain %d",
                         infer->op->name, infer->name, index, infer->in[index]->domain);
}

static bool output_infer(bs_infer *infer)
{
    infer->n_out = 0;
    return name_is_new(infer) && is_root(infer, 0);
}

const bs_op bs_op_output = {.name = "output", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                            .params_bytes = sizeof(bs_name_params), .infer = output_infer};

void bs_output(bs_graph *graph, const char *name, bs_value value)
{
    const bs_name_params p = {name ? name : ""};
    bs_graph_add(graph, bs_op_index("output"), &value.id, 1, &p);
}

bool bs_same_shape(const bs_value_info *a, const bs_value_info *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* A state may hold more rows than are written: a row a cell, for the most cells there can be. */
static bool fits_state(const bs_graph *g, const bs_value_info *state, const bs_value_info *value)
{
    bs_value_info rows = *value;
    if (state->rank < 1 || value->rank < 1 || !bs_dim_is_const(g, state->dims[0]) || !bs_dim_is_const(g, value->dims[0]))
        return bs_same_shape(state, value);
    rows.dims[0] = state->dims[0];
    return bs_same_shape(state, &rows) && bs_dim_max(g, value->dims[0]) <= bs_dim_max(g, state->dims[0]);
}

bool bs_state_is_written(const bs_graph *graph, int32_t state)
{
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        const bool writes = bs_node_is(node, &bs_op_state_write) || bs_node_is(node, &bs_op_state_append);
        if (writes && bs_node_in(graph, node)[0] == state)
            return true;
    }
    return false;
}

static bool state_write_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!is_root(infer, 0) || !is_root(infer, 1))
        return false;
    const bs_node *source = &infer->graph->nodes[infer->in[0]->node];
    if (!bs_node_is(source, &bs_op_state))
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "state_write: operand 0 is not a state");
    if (bs_state_is_written(infer->graph, infer->ids[0]))
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "state_write: state \"%s\" is written twice", bs_node_name(source));
    char a[128], b[128];
    if (!fits_state(infer->graph, infer->in[0], infer->in[1]))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "state_write \"%s\": %s %s is written to a state of %s %s", bs_node_name(source),
                             bs_dtype_name(infer->in[1]->dtype), bs_value_text(infer->graph, infer->in[1], b, sizeof b),
                             bs_dtype_name(infer->in[0]->dtype), bs_value_text(infer->graph, infer->in[0], a, sizeof a));
    return true;
}

const bs_op bs_op_state_write = {.name = "state_write", .min_in = 2, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                                 .params_bytes = sizeof(bs_name_params), .infer = state_write_infer};

void bs_state_write(bs_graph *graph, bs_value state, bs_value value)
{
    const int32_t in[2] = {state.id, value.id};
    bs_graph_add(graph, bs_op_index("state_write"), in, 2, NULL);
}

/* -------------------------------------------------------------------------------------------------- cells */

/* The integer k with dim = base x k in every run; 0 when there is none. */
static int32_t dim_ratio(const bs_graph *g, bs_dim_id base, bs_dim_id dim)
{
    const bs_dim_info *b = &g->dims[base], *d = &g->dims[dim];
    if (base == dim)
        return 1;
    if (b->kind == BS_DIM_CONST && d->kind == BS_DIM_CONST)
        return d->maximum % b->maximum == 0 ? (int32_t)(d->maximum / b->maximum) : 0;
    if (d->kind == BS_DIM_DERIVED && d->parent == base && d->add == 0 && d->div == 1)
        return (int32_t)d->mul;
    return 0;
}

static bool patches_join(bs_infer *infer, int32_t domain)
{
    const bs_graph *g = infer->graph;
    const bs_domain *d = &g->domains[g->domains[domain].patches < 0 ? 0 : g->domains[domain].patches];
    if (d->kind != BS_DOMAIN_PATCHES || d != &g->domains[domain])
        return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "patches \"%s\": `like` is not a value of a patch domain", infer->name);
    const int32_t ky = dim_ratio(g, d->height, infer->in[0]->dims[1]), kx = dim_ratio(g, d->width, infer->in[0]->dims[2]);
    if (ky < 1 || ky != kx)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "patches \"%s\": dimensions 1 and 2 are not the same multiple of those of `like`",
                             infer->name);
    infer->out[0].domain = domain;
    infer->out[0].scale_num = ky;
    return true;
}

static bool patches_infer(bs_infer *infer)
{
    const bs_patches_desc *p = infer->params;
    const bs_value_info *frame = infer->in[0];
    const int32_t size = bs_or_default(p->size, 64);
    if (!is_root(infer, 0))
        return false;
    if (frame->rank != 3 || size < 1 || size > 8192)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "patches \"%s\" takes a frame [C,H,W] and a size of 1..8192, not rank %d, size %d",
                             infer->name, frame->rank, size);
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    if (infer->n_in == 2)
        return patches_join(infer, infer->in[1]->domain);
    const int64_t rows = bs_ceil_div(bs_dim_max(infer->graph, frame->dims[1]), size) * bs_ceil_div(bs_dim_max(infer->graph, frame->dims[2]), size);
    const bs_domain domain = {.kind = BS_DOMAIN_PATCHES, .path = -1, .rows = -1, .height = frame->dims[1],
                              .width = frame->dims[2], .size = size, .max_rows = rows};
    infer->out[0].domain = bs_graph_domain(infer->graph, &domain);
    return infer->out[0].domain >= 0;
}

static const bs_field patches_fields[] = {{"size", 'i'}, {"like", 'i'}};
const bs_op bs_op_patches = {.name = "patches", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_patches_desc), .fields = patches_fields, .n_fields = 2, .infer = patches_infer};

bs_value bs_patches(bs_graph *graph, bs_value frame, const bs_patches_desc *desc)
{
    bs_patches_desc p = desc ? *desc : (bs_patches_desc){NULL, 0, 0};
    const int32_t in[2] = {frame.id, p.like};
    const int32_t n_in = p.like ? 2 : 1;
    p.like = 0; /* an operand now */
    return bs_graph_value(graph, bs_op_index("patches"), in, n_in, &p);
}

static bool assemble_infer(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (g->domains[infer->in[0]->domain].kind != BS_DOMAIN_PATCHES || infer->in[0]->rank != 3)
        return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "assemble takes cells [C,h,w] of a patch domain; gather what a router scattered first");
    infer->out[0].domain = 0;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

const bs_op bs_op_assemble = {.name = "assemble", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                              .params_bytes = sizeof(bs_name_params), .infer = assemble_infer};

bs_value bs_assemble(bs_graph *graph, bs_value cells)
{
    return bs_graph_value(graph, bs_op_index("assemble"), &cells.id, 1, NULL);
}

static bool rows_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_value_info *x = infer->in[0];
    if (!is_root(infer, 0))
        return false;
    if (x->rank < 1)
        return bs_graph_fail(g, BS_ERROR_SHAPE, "rows needs a leading dimension");
    bs_value_info *out = &infer->out[0];
    out->rank = x->rank - 1;
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        out->dims[i] = i + 1 < BS_MAX_RANK && i < out->rank ? x->dims[i + 1] : -1;
    if (infer->n_in == 2) { /* as many rows as the domain may have; a run uses the first ones */
        const bs_domain *d = &g->domains[infer->in[1]->domain];
        if (infer->in[1]->domain == 0)
            return bs_graph_fail(g, BS_ERROR_DOMAIN, "rows: `like` is a root value, not one of cells");
        if (bs_dim_max(g, x->dims[0]) < d->max_rows)
            return bs_graph_fail(g, BS_ERROR_SHAPE, "rows: dimension 0 holds %lld rows, the domain of `like` up to %lld",
                                 (long long)bs_dim_max(g, x->dims[0]), (long long)d->max_rows);
        out->domain = infer->in[1]->domain;
        return true;
    }
    const bs_domain domain = {.kind = BS_DOMAIN_ROWS, .path = -1, .rows = x->dims[0], .height = -1, .width = -1,
                              .max_rows = bs_dim_max(g, x->dims[0])};
    out->domain = bs_graph_domain(g, &domain);
    return out->domain >= 0;
}

const bs_op bs_op_rows = {.name = "rows", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                          .params_bytes = sizeof(bs_name_params), .infer = rows_infer};

bs_value bs_rows(bs_graph *graph, bs_value x, bs_value like)
{
    const int32_t in[2] = {x.id, like.id};
    return bs_graph_value(graph, bs_op_index("rows"), in, like.id ? 2 : 1, NULL);
}

static bool collect_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_value_info *x = infer->in[0];
    const bs_domain *d = &g->domains[x->domain];
    const bool rows = d->kind == BS_DOMAIN_ROWS || d->kind == BS_DOMAIN_SEGMENTS;
    if (!rows && d->kind != BS_DOMAIN_PATCHES)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "collect takes rows, segments or patches; gather what a router scattered first");
    if (x->rank == BS_MAX_RANK || (d->kind == BS_DOMAIN_PATCHES && x->rank == 3))
        return bs_graph_fail(g, BS_ERROR_SHAPE, "collect: rank %d cells cannot be stacked (images of patches: use assemble)", x->rank);
    bs_value_info *out = &infer->out[0];
    out->rank = x->rank + 1;
    out->dims[0] = rows ? d->rows : bs_dim_const(g, d->max_rows);
    for (int32_t i = 0; i < x->rank; i++)
        out->dims[i + 1] = x->dims[i];
    out->domain = 0;
    return out->dims[0] >= 0;
}

const bs_op bs_op_collect = {.name = "collect", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_name_params), .infer = collect_infer};

bs_value bs_collect(bs_graph *graph, bs_value cells)
{
    return bs_graph_value(graph, bs_op_index("collect"), &cells.id, 1, NULL);
}
