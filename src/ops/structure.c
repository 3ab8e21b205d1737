/* ops/structure.c - structural ops: inputs, states, outputs, cells, routers, branches.
 * Owns their builder functions and shape rules. Relies on graph/graph.h. Must never run anything. */
#include "ops/common.h"
#include "ops/structure.h"

/* ------------------------------------------------------------------------------------ inputs and outputs */

static bs_dim_id symbol_by_number(const bs_graph *g, int32_t number)
{
    bs_dim_id low = 0, high = g->n_dims; /* the first entry up to which there are `number` symbols */
    while (low < high) {
        const bs_dim_id middle = low + (high - low) / 2;
        if (g->dims[middle].symbols >= number)
            high = middle;
        else
            low = middle + 1;
    }
    return number >= 1 && low < g->n_dims ? low : -1;
}

#define SYMBOL_MOST 65535 /* highest symbol number in a code */

/* Encodes a dimension as bs_source_params.dim; 0 when it cannot be stored. */
static int32_t source_dim_encode(const bs_graph *g, bs_dim_id id)
{
    const bs_dim_info *d = &g->dims[id];
    if (d->kind == BS_DIM_CONST)
        return (int32_t)d->maximum;
    if (d->kind == BS_DIM_SYMBOL && d->symbols <= SYMBOL_MOST)
        return -d->symbols;
    if (d->kind != BS_DIM_DERIVED || g->dims[d->parent].symbols > SYMBOL_MOST)
        return 0;
    if (d->add == 0 && d->div == 1 && d->mul <= 1024 && g->dims[d->parent].kind == BS_DIM_SYMBOL)
        return -(g->dims[d->parent].symbols + 65536 * (d->mul - 1));
    return 0;
}

static bs_dim_id source_dim_decode(bs_graph *g, int32_t code)
{
    if (code >= 0)
        return bs_dim_const(g, code);
    if (code < -(65536 * 1024))
        return -1;
    const bs_dim_id symbol = symbol_by_number(g, -code & 0xffff);
    return symbol < 0 || g->dims[symbol].node ? -1 : bs_dim_derive(g, symbol, (-code >> 16) + 1, 0, 1);
}

static bool name_is_new(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (!infer->name[0])
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "a name is needed");
    const int32_t taken = bs_graph_named(g, infer->name, false);
    return !taken || bs_infer_fail(infer, BS_ERROR_GRAPH, "its name is taken by an earlier %s",
                                   bs_op_get(g->nodes[taken].op)->name);
}

static bool source_infer(bs_infer *infer)
{
    const bs_source_params *p = infer->params;
    if (!name_is_new(infer))
        return false;
    if (!bs_infer_field(infer, "dtype", p->dtype, 0, BS_DTYPE_COUNT - 1) ||
        !bs_infer_field(infer, "rank", p->rank, 1, BS_MAX_RANK))
        return false;
    infer->out[0].dtype = (bs_dtype)p->dtype;
    bs_value_set_rank(&infer->out[0], p->rank);
    for (int32_t i = 0; i < p->rank; i++) {
        infer->out[0].dims[i] = p->dim[i] == 0 ? -1 : source_dim_decode(infer->graph, p->dim[i]);
        if (infer->out[0].dims[i] < 0)
            return bs_infer_fail(
                infer, BS_ERROR_SHAPE,
                "dimension %" PRId32 " is not a constant or up to 1024 times one of the first 65535 symbols", i);
    }
    return true;
}

static const bs_field source_fields[] = {BS_NAMED("dtype", DTYPE), BS_INT("rank"), BS_INT("dim0"),
                                         BS_INT("dim1"),  BS_INT("dim2"), BS_INT("dim3")};

const bs_op bs_op_input = {.name = "input",
                           .rows = {.of = BS_ROWS_ANY}, .named = true,
                           .work = BS_WORK_GIVEN,
                           .bound = BS_BOUND_READ,
                           BS_PARAMS(bs_source_params, source_fields),
                           .infer = source_infer};
const bs_op bs_op_state = {.name = "state",
                           .rows = {.of = BS_ROWS_ANY}, .named = true,
                           .work = BS_WORK_GIVEN,
                           .bound = BS_BOUND_READ | BS_BOUND_WRITTEN,
                           BS_PARAMS(bs_source_params, source_fields),
                           .infer = source_infer};

static bs_value source_add(bs_graph *g, const bs_op *op, const char *name, bs_dtype dtype, bs_shape shape)
{
    const bs_value failed = {0};
    bs_source_params p = {name ? name : "", (int32_t)dtype, shape.rank, {0, 0, 0, 0}};
    if (!g || g->status != BS_OK)
        return failed;
    g->adding = op->name;
    g->adding_name = p.name;
    for (int32_t i = 0; i < shape.rank && i < BS_MAX_RANK; i++) {
        if (!bs_dim_is_known(g, shape.dim[i])) {
            bs_graph_fail(g, BS_ERROR_SHAPE,
                          "dimension %" PRId32 " is %lld, expected 1 .. 2^30, BS_UPTO of that, or a symbol", i,
                          (long long)shape.dim[i]);
            return failed;
        }
        const bs_dim_id id = bs_dim_resolve(g, shape.dim[i]);
        p.dim[i] = id < 0 ? 0 : source_dim_encode(g, id);
    }
    return bs_op_build(g, op, NULL, 0, &p);
}

bs_value bs_input(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_input, name, dtype, shape);
}

bs_value bs_state(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_state, name, dtype, shape);
}

static bool output_infer(bs_infer *infer)
{
    infer->n_out = 0;
    return name_is_new(infer) && bs_infer_root(infer, 0);
}

const bs_op bs_op_output = {.name = "output",
                            .min_in = 1,
                            .rows = {.of = BS_ROWS_ANY}, .named = true,
                            .work = BS_WORK_MOVE,
                            .bound = BS_BOUND_WRITTEN,
                            .params_bytes = sizeof(bs_name_params),
                            .infer = output_infer};

void bs_output(bs_graph *graph, const char *name, bs_value value)
{
    const bs_name_params p = {name ? name : ""};
    bs_op_build_node(graph, &bs_op_output, &value.id, 1, &p);
}

bool bs_same_shape(const bs_value_info *a, const bs_value_info *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* A state may hold more rows than are written: one for each of the most cells there can be. */
static bool fits_state(const bs_graph *g, const bs_value_info *state, const bs_value_info *value)
{
    bs_value_info rows = *value;
    if (value->rank < 1 || !bs_dim_is_const(g, state->dims[0]) || !bs_dim_is_const(g, value->dims[0]))
        return bs_same_shape(state, value);
    rows.dims[0] = state->dims[0];
    return bs_same_shape(state, &rows) && bs_dim_max(g, value->dims[0]) <= bs_dim_max(g, state->dims[0]);
}

bool bs_infer_state(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    bs_node *source = &g->nodes[infer->in[0]->node];
    if (!bs_node_is_state(source))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "operand 0 is made by %s \"%s\", expected a state",
                             bs_op_get(source->op)->name, bs_node_name(source));
    if (source->writer)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "state \"%s\" is written twice", bs_node_name(source));
    source->writer = g->n_nodes; /* the node to be added; if refused, the graph has failed */
    return true;
}

static bool state_write_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!bs_infer_state(infer) || !bs_infer_root(infer, 1))
        return false;
    if (!fits_state(infer->graph, infer->in[0], infer->in[1]))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "%s is written to state \"%s\" of %s",
                             bs_say_typed(infer, infer->in[1]), bs_node_name(&infer->graph->nodes[infer->in[0]->node]),
                             bs_say_typed(infer, infer->in[0]));
    return true;
}

const bs_op bs_op_state_write = {.name = "state_write",
                                 .min_in = 2,
                                 .rows = {.of = BS_ROWS_ANY},
                                 .work = BS_WORK_MOVE,
                                 .roles = {BS_ROLE_STATE},
                                 .params_bytes = sizeof(bs_name_params),
                                 .infer = state_write_infer};

void bs_state_write(bs_graph *graph, bs_value state, bs_value value)
{
    const int32_t in[2] = {state.id, value.id};
    bs_op_build_node(graph, &bs_op_state_write, in, 2, NULL);
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
    const bs_domain *d = &g->domains[domain];
    if (!bs_domain_is_patches(d))
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "`like` is of %s, expected cells of a frame",
                             bs_say_domain(infer, domain));
    const int32_t ky = dim_ratio(g, d->height, infer->in[0]->dims[1]),
                  kx = dim_ratio(g, d->width, infer->in[0]->dims[2]);
    if (ky < 1 || ky != kx)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimensions 1 and 2 of %s are not the same multiple of those of `like`, %s",
                             bs_say_value(infer, infer->in[0]), bs_say_domain(infer, domain));
    infer->out[0].domain = domain;
    infer->out[0].scale_num = ky;
    return true;
}

static bool patches_infer(bs_infer *infer)
{
    const bs_patches_desc *p = infer->params;
    const bs_value_info *frame = infer->in[0];
    const int32_t size = bs_or_default(p->size, 64);
    if (!bs_infer_root(infer, 0) || !bs_infer_rank(infer, 0, 3, 3) || !bs_infer_field(infer, "size", size, 1, 8192) ||
        !bs_infer_bound_dim(infer, 0, 1) || !bs_infer_bound_dim(infer, 0, 2))
        return false;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    if (infer->n_in == 2)
        return patches_join(infer, infer->in[1]->domain);
    const int64_t rows = bs_ceil_div(bs_dim_max(infer->graph, frame->dims[1]), size) *
                         bs_ceil_div(bs_dim_max(infer->graph, frame->dims[2]), size);
    const bs_domain domain = {.kind = BS_DOMAIN_ROWS, .path = -1, .rows = -1, .height = frame->dims[1],
                              .width = frame->dims[2], .size = size, .max_rows = rows};
    infer->out[0].domain = bs_graph_domain(infer->graph, &domain);
    return infer->out[0].domain >= 0;
}

_Static_assert(sizeof(bs_value) == sizeof(int32_t), "a value in a descriptor is a field as any other");
static const bs_field patches_fields[] = {BS_INT("size"), BS_INT("like")};
const bs_op bs_op_patches = {.name = "patches",
                             .min_in = 1,
                             .max_in = 2,
                             .rows = {.of = BS_ROWS_ANY},
                             .work = BS_WORK_VIEW,
                             .roles = {BS_ROLE_DATA, BS_ROLE_LIKE},
                             BS_PARAMS(bs_patches_desc, patches_fields),
                             .infer = patches_infer};

bs_value bs_patches(bs_graph *graph, bs_value frame, const bs_patches_desc *desc)
{
    bs_patches_desc p = desc ? *desc : (bs_patches_desc){NULL, 0, {0}};
    const bs_value like = p.like;
    p.like.id = 0; /* it is an operand now */
    return bs_op_build_two(graph, frame, like, &p, &bs_op_patches);
}

static bool assemble_infer(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (!bs_domain_is_patches(&g->domains[infer->in[0]->domain]) || !infer->in[0]->image)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand 0 is %s of %s, expected images of patches: gather what a router scattered first",
                             bs_say_value(infer, infer->in[0]), bs_say_domain(infer, infer->in[0]->domain));
    infer->out[0].domain = 0;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

const bs_op bs_op_assemble = {.name = "assemble", .min_in = 1, .rows = {.of = BS_ROWS_ANY},
                               .layout = {.channels_last = true},
                              .work = BS_WORK_MOVE, .params_bytes = sizeof(bs_name_params), .infer = assemble_infer};

bs_value bs_assemble(bs_graph *graph, bs_value cells)
{
    return bs_op_build_one(graph, cells, NULL, &bs_op_assemble);
}

bool bs_infer_row_shape(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    if (!bs_infer_root(infer, 0) || !bs_infer_rank(infer, 0, 1, BS_MAX_RANK))
        return false;
    bs_value_set_rank(out, x->rank - 1);
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        out->dims[i] = i + 1 < BS_MAX_RANK && i < out->rank ? x->dims[i + 1] : -1;
    return true;
}

bool bs_infer_row_domain(bs_infer *infer, int32_t lengths)
{
    const bs_dim_id rows = infer->in[0]->dims[0];
    const bs_domain domain = {.kind = BS_DOMAIN_ROWS,
                              .path = -1,
                              .rows = rows,
                              .height = -1,
                              .width = -1,
                              .lengths = lengths,
                              .max_rows = bs_dim_max(infer->graph, rows)};
    infer->out[0].domain = bs_graph_domain(infer->graph, &domain);
    return infer->out[0].domain >= 0;
}

static bool rows_infer(bs_infer *infer)
{
    if (!bs_infer_row_shape(infer))
        return false;
    if (infer->n_in < 2)
        return bs_infer_row_domain(infer, 0);
    /* as many rows as the domain may have; a run uses the first ones */
    const int32_t domain = infer->out[0].domain = infer->in[1]->domain;
    const int64_t held = bs_dim_max(infer->graph, infer->in[0]->dims[0]), most = infer->graph->domains[domain].max_rows;
    if (domain == 0)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "`like` is a root value, expected cells");
    if (held < most)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension 0 holds %lld rows, the domain of `like` up to %lld",
                             (long long)held, (long long)most);
    return true;
}

const bs_op bs_op_rows = {.name = "rows",
                          .min_in = 1,
                          .max_in = 2,
                          .rows = {.of = BS_ROWS_ANY},
                          .work = BS_WORK_VIEW,
                          .roles = {BS_ROLE_DATA, BS_ROLE_LIKE},
                          .params_bytes = sizeof(bs_name_params),
                          .infer = rows_infer};

bs_value bs_rows(bs_graph *graph, bs_value x, bs_value like)
{
    return bs_op_build_two(graph, x, like, NULL, &bs_op_rows);
}

static bool collect_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_value_info *x = infer->in[0];
    const bs_domain *d = &g->domains[x->domain];
    const bool patches = bs_domain_is_patches(d);
    if (d->kind != BS_DOMAIN_ROWS)
        return bs_infer_fail(
            infer, BS_ERROR_DOMAIN,
            "operand 0 is of %s, expected rows, segments or patches: gather what a router scattered first",
            bs_say_domain(infer, x->domain));
    if (x->rank == BS_MAX_RANK || (patches && x->image))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "cells %s cannot be stacked (images of patches: use assemble)",
                             bs_say_value(infer, x));
    return bs_infer_stacked(infer, patches ? bs_dim_const(g, d->max_rows) : d->rows);
}

const bs_op bs_op_collect = {.name = "collect", .min_in = 1, .rows = {.of = BS_ROWS_ANY},
                             .work = BS_WORK_MOVE, .params_bytes = sizeof(bs_name_params), .infer = collect_infer};

bs_value bs_collect(bs_graph *graph, bs_value cells)
{
    return bs_op_build_one(graph, cells, NULL, &bs_op_collect);
}
