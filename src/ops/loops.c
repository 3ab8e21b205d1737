/* ops/loops.c - loops: a router whose one path is the body, decided again after each trip. Builder functions and shape
 * rules; what a body reads by itself. Relies on structure.h, decide.h, span.h. Must never decide anything itself: that
 * is run/loops.c, when a session runs.
 *
 * A carried value is two nodes: loop_carry gives the body its rows as they were before the trip, loop_next what they
 * are after it. Both are of one storage, the rows of loop_next in the domain of the loop. */
#include "ops/common.h"
#include "ops/decide.h"
#include "ops/span.h"
#include "ops/structure.h"

static const bs_field loop_fields[] = {BS_INT_OF("bound", 0, BS_MAX_TRIPS), BS_INT_OF("in_turn", 0, 1),
                                       BS_INT_OF("grows", 0, 1), BS_INT_OF("no_lift", 0, 1)};
static const bs_field of_loop_fields[] = {BS_INT("router"), BS_INT("mode")};

/* ------------------------------------------------------------------------------------------------------- begin */

static int32_t loop_depth(const bs_graph *g, int32_t domain)
{
    int32_t depth = 0;
    for (int32_t l = g->domains[domain].loop; l; l = g->domains[g->routers[l].domain].loop)
        depth++;
    return depth;
}

/* Whether a row of a domain has the same number in every trip of any loop. */
static bool has_fixed_rows(bs_infer *infer, int32_t domain)
{
    const bs_domain *d = &infer->graph->domains[domain];
    return (d->kind == BS_DOMAIN_ROWS && !bs_domain_is_patches(d)) ||
           bs_infer_fail(infer, BS_ERROR_DOMAIN, "a loop of %s, expected rows of a tensor",
                         bs_say_domain(infer, domain));
}

/* Operands: what tells the domain, the count or none, what has the number of trips as dimension 0 or none. */
static bool loop_operands_sound(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_loop_params *p = infer->params;
    const bs_value_info *count = infer->in[1], *over = infer->in[2];
    if (infer->ids[0] == 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "`like` is no value");
    if (infer->ids[1] && (count->domain != infer->in[0]->domain || count->dtype != BS_I32 || count->rank > 1 ||
                          (count->rank == 1 && bs_dim_max(g, count->dims[0]) != 1)))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "the count is %s of %s, expected i32 [1] of %s",
                             bs_say_typed(infer, count), bs_say_domain(infer, count->domain),
                             bs_say_domain(infer, infer->in[0]->domain));
    if (infer->ids[2] && over->rank < 1)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "what it goes over has no dimension");
    if ((p->in_turn || p->grows) && (infer->ids[1] == 0 || infer->ids[2] != 0 || p->in_turn == p->grows))
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "rows go in turn, or grow, by their count and over no value, expected one of both");
    if (p->grows && !has_fixed_rows(infer, infer->in[0]->domain))
        return false;
    if (loop_depth(g, infer->in[0]->domain) == BS_MAX_LOOP_DEPTH)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "%d loops in loops, expected %d at most", BS_MAX_LOOP_DEPTH + 1,
                             BS_MAX_LOOP_DEPTH);
    return true;
}

static bool loop_bound(bs_infer *infer, int32_t *bound)
{
    const bs_loop_params *p = infer->params;
    const int64_t most = infer->ids[2] ? bs_dim_max(infer->graph, infer->in[2]->dims[0]) : BS_MAX_TRIPS;
    const int64_t n = infer->ids[2] && p->bound == 0 ? most : p->bound;
    if (!bs_infer_field(infer, "bound", n, infer->ids[2] ? most : 1, BS_MAX_TRIPS))
        return false;
    *bound = (int32_t)n;
    return true;
}

static bool loop_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_loop_params *p = infer->params;
    bs_route_desc desc = {.name = infer->name, .protocol = BS_ROUTE_LOOP, .paths = 1};
    infer->n_out = 0;
    if (!bs_infer_router_name(infer) || !loop_operands_sound(infer) || !loop_bound(infer, &desc.capacity))
        return false;
    bs_router_info *router = bs_infer_router(infer, bs_graph_keep(g, &desc, sizeof desc), infer->in[0]->domain);
    if (!router)
        return false;
    router->loop.bound = desc.capacity;
    router->loop.count = infer->ids[1];
    router->loop.in_turn = p->in_turn;
    router->loop.grows = p->grows;
    router->loop.trips = infer->ids[2] ? infer->in[2]->dims[0] : -1;
    const bool asks_all = !router->loop.count && (router->loop.trips < 0 || !g->dims[router->loop.trips].node);
    router->loop.lifts = p->no_lift | p->grows ? BS_LIFTS_NOTHING : asks_all ? BS_LIFTS_ALL : BS_LIFTS_SOUND;
    router->max_paths_per_cell = 1;
    router->loop.begun_before = g->open_loop;
    g->open_loop = infer->router;
    return bs_infer_path(infer, 0) >= 0;
}

const bs_op bs_op_loop = {.name = "loop",
                          .min_in = 3, .rows = {.of = BS_ROWS_ANY}, .named = true, .variadic = true,
                          .work = BS_WORK_ROUTE,
                          .roles = {BS_ROLE_LIKE, BS_ROLE_DECIDING, BS_ROLE_LIKE},
                          BS_PARAMS(bs_loop_params, loop_fields),
                          .infer = loop_infer};

bs_router bs_loop_begin(bs_graph *graph, bs_value like, bs_value count, const bs_loop_desc *desc)
{
    const bs_loop_desc any = desc ? *desc : (bs_loop_desc){.bound = 0};
    const bs_loop_params p = {any.name ? any.name : "", any.bound, any.in_turn, any.grows, any.no_lift};
    const int32_t in[3] = {like.id, count.id, any.over.id};
    const bs_node *node = bs_op_build_node(graph, &bs_op_loop, in, 3, &p);
    const bs_router loop = {node ? node->router : 0};
    return loop;
}

/* --------------------------------------------------------------------------------------------- what a body reads */

/* The loop of a node that is about one, which must be the one that was begun last: its body is being built. */
static bs_router_info *loop_of(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const int32_t id = ((const bs_gather_params *)infer->params)->router;
    if (id < 1 || id >= g->n_routers || !bs_router_loops(g, id)) {
        bs_infer_fail(infer, BS_ERROR_GRAPH, "router %" PRId32 " is no loop", id);
        return NULL;
    }
    if (id != g->open_loop) {
        bs_infer_fail(infer, BS_ERROR_GRAPH, "loop \"%s\" %s", g->routers[id].desc->name,
                      g->routers[id].loop.again ? "has ended" : "is not the one that was begun last");
        return NULL;
    }
    infer->router = id;
    infer->path = 0;
    return &g->routers[id];
}

/* Whether operand `index` is of the domain: that of the loop, or of its body. */
static bool is_of(bs_infer *infer, int32_t index, int32_t domain)
{
    const int32_t has = infer->in[index]->domain;
    return has == domain || bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %" PRId32 " is of %s, expected %s", index,
                                          bs_say_domain(infer, has), bs_say_domain(infer, domain));
}

static bool carry_infer(bs_infer *infer)
{
    bs_router_info *router = loop_of(infer);
    const bool shared = router && infer->in[0]->domain == 0 && infer->graph->domains[router->domain].patches < 0;
    if (!router || (!shared && !is_of(infer, 0, router->domain)))
        return false;
    router->loop.n_carried++;
    infer->out[0].domain = router->path_domains;
    return true;
}

const bs_op bs_op_loop_carry = {.name = "loop_carry",
                                .min_in = 1, .rows = {.of = BS_ROWS_ANY},
                                .work = BS_WORK_VIEW,
                                BS_PARAMS(bs_gather_params, of_loop_fields),
                                .infer = carry_infer};

static bs_gather_params params_of(bs_router loop)
{
    const bs_gather_params p = {"", loop.id, BS_GATHER_PLACE};
    return p;
}

bs_value bs_loop_carry(bs_graph *graph, bs_router loop, bs_value initial)
{
    const bs_gather_params p = params_of(loop);
    return bs_op_build_one(graph, initial, &p, &bs_op_loop_carry);
}

/* A number that the loop knows of each row of its body, with a mode up to `last`. */
static bool number_infer(bs_infer *infer, int32_t last, int32_t alone)
{
    const bs_router_info *router = loop_of(infer);
    const int32_t mode = ((const bs_gather_params *)infer->params)->mode;
    if (!router || !bs_infer_field(infer, "mode", mode, 0, last))
        return false;
    bs_value_info *out = &infer->out[0];
    out->domain = router->path_domains;
    out->dtype = BS_I32;
    bs_value_set_rank(out, mode != alone);
    out->dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

static bool trip_infer(bs_infer *infer) { return number_infer(infer, BS_TRIP_INDEX, BS_TRIP_INDEX); }

static bool parent_infer(bs_infer *infer)
{
    const int32_t loop = ((const bs_gather_params *)infer->params)->router;
    return number_infer(infer, BS_PARENT_CHILD, -1) &&
           (infer->graph->routers[loop].loop.grows ||
            bs_infer_fail(infer, BS_ERROR_GRAPH, "loop \"%s\" does not grow", infer->graph->routers[loop].desc->name));
}

static bs_status trip_run(const bs_call *call)
{
    const bool from_1 = ((const bs_gather_params *)call->params)->mode == BS_TRIP_FROM_1;
    *(int32_t *)call->out[0].data = call->decision->trip + from_1;
    return BS_OK;
}

const bs_op bs_op_loop_trip = {.name = "loop_trip",
                               .rows = {.of = BS_ROWS_DECIDED},
                               BS_PARAMS(bs_gather_params, of_loop_fields),
                               .infer = trip_infer,
                               .run = trip_run};

static bs_status parent_run(const bs_call *call)
{
    const bs_decision_data *d = call->decision;
    const int32_t row = d->ids[call->decided], mode = ((const bs_gather_params *)call->params)->mode;
    *(int32_t *)call->out[0].data = mode == BS_PARENT_ROW ? d->inverse[row] : bs_loop_child_of(d->inverse, row);
    return BS_OK;
}

const bs_op bs_op_loop_parent = {.name = "loop_parent",
                                 .rows = {.of = BS_ROWS_DECIDED},
                                 BS_PARAMS(bs_gather_params, of_loop_fields),
                                 .infer = parent_infer,
                                 .run = parent_run};

static bs_value number_of(bs_graph *graph, bs_router loop, const bs_op *op, int32_t mode)
{
    const bs_gather_params p = {"", loop.id, mode};
    return bs_op_build(graph, op, NULL, 0, &p);
}

static bs_value trip_of(bs_graph *graph, bs_router loop, int32_t mode)
{
    return number_of(graph, loop, &bs_op_loop_trip, mode);
}

bs_value bs_loop_parent(bs_graph *graph, bs_router loop)
{
    return number_of(graph, loop, &bs_op_loop_parent, BS_PARENT_ROW);
}

bs_value bs_loop_child(bs_graph *graph, bs_router loop)
{
    return number_of(graph, loop, &bs_op_loop_parent, BS_PARENT_CHILD);
}

bs_value bs_loop_trip(bs_graph *graph, bs_router loop) { return trip_of(graph, loop, BS_TRIP_FROM_0); }

/* Whether a dimension has a place for every trip, in every run. */
static bool is_as_long(const bs_graph *g, const bs_router_info *router, bs_dim_id dim)
{
    return dim == router->loop.trips || (bs_dim_is_const(g, dim) && bs_dim_max(g, dim) >= router->loop.bound);
}

static bool loop_slice_infer(bs_infer *infer)
{
    const bs_router_info *router = loop_of(infer);
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    if (!router || !is_of(infer, 0, router->domain) || !bs_infer_rank(infer, 0, 1, BS_MAX_RANK) ||
        !bs_infer_whole(infer, 0))
        return false;
    if (!is_as_long(infer->graph, router, x->dims[0]))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension 0 is %lld, loop \"%s\" makes up to %" PRId32 " trips",
                             (long long)bs_dim_max(infer->graph, x->dims[0]), router->desc->name, router->loop.bound);
    bs_value_set_rank(out, x->rank - 1);
    for (int32_t i = 0; i < out->rank; i++)
        out->dims[i] = x->dims[i + 1];
    out->domain = router->path_domains;
    return bs_infer_no_new_image(infer);
}

const bs_op bs_op_loop_slice = {.name = "loop_slice",
                                .min_in = 1, .rows = {.of = BS_ROWS_ANY},
                                .work = BS_WORK_VIEW,
                                BS_PARAMS(bs_gather_params, of_loop_fields),
                                .infer = loop_slice_infer};

/* Where there may be fewer places than trips each index is checked. */
bs_value bs_loop_slice(bs_graph *graph, bs_router loop, bs_value x)
{
    const bs_gather_params p = params_of(loop);
    const bool known = graph && graph->status == BS_OK && loop.id > 0 && loop.id < graph->n_routers && x.id > 0 &&
                       x.id < graph->n_values && graph->values[x.id].rank > 0;
    if (!known || is_as_long(graph, &graph->routers[loop.id], graph->values[x.id].dims[0]))
        return bs_op_build_one(graph, x, &p, &bs_op_loop_slice);
    return bs_select(graph, bs_scatter(graph, loop, 0, x), trip_of(graph, loop, BS_TRIP_INDEX), 0);
}

/* Whether a node is what the body of this loop reads a carried value by. */
static bool carries(const bs_infer *infer, const bs_node *node)
{
    return bs_node_is(node, &bs_op_loop_carry) && node->router == infer->router;
}

/* Whether operand `index` is a value that the loop carries. */
static bool is_carried(bs_infer *infer, int32_t index)
{
    const bs_node *carry = &infer->graph->nodes[infer->in[index]->node];
    return carries(infer, carry) ||
           bs_infer_fail(infer, BS_ERROR_GRAPH, "operand %d is made by %s, expected a value that loop \"%s\" carries",
                         (int)index, bs_op_get(carry->op)->name, infer->graph->routers[infer->router].desc->name);
}

static bool loop_rows_infer(bs_infer *infer)
{
    const bs_router_info *router = loop_of(infer);
    const bs_value_info *x = infer->in[0], *index = infer->in[1];
    bs_value_info *out = &infer->out[0];
    if (!router || !is_carried(infer, 0) || !is_of(infer, 1, router->path_domains) ||
        !bs_infer_dtype(infer, 1, BS_I32) ||
        !bs_infer_rank(infer, 1, 0, 1) || !bs_infer_rank_out(infer, x->rank + index->rank) ||
        !has_fixed_rows(infer, router->domain))
        return false;
    out->dims[0] = index->dims[0]; /* of a number alone the next line's */
    for (int32_t i = 0; i < x->rank; i++)
        out->dims[i + index->rank] = x->dims[i];
    return true;
}

/* One row, or zeros. */
static void copy_around(const bs_call *call, const bs_operand *to, const void *from)
{
    static const float zero = 0;
    bs_operand row = call->in[0];
    bs_span span;
    row.data = from ? (void *)(uintptr_t)from : (void *)(uintptr_t)&zero;
    for (int32_t d = 0; d < row.rank && !from; d++)
        row.stride[d] = 0;
    bs_span_box(&span, to, 1);
    bs_span_copy(&span, call, to, &row, NULL);
}

static bs_status loop_rows_run(const bs_call *call)
{
    const bs_operand *x = &call->in[0], *index = &call->in[1], *out = &call->out[0];
    const int32_t count = index->rank ? index->dim[0] : 1;
    bs_operand to = *x;
    for (int32_t d = 0; d < x->rank; d++)
        to.stride[d] = out->stride[d + index->rank];
    const int64_t line = BS_DENSE_PAYS && bs_operand_line(x) == bs_operand_line(&to) ? bs_operand_line(x) : -1;
    const size_t bytes = line < 0 ? 0 : (size_t)line * bs_dtype_bytes(x->dtype);
    for (int32_t i = 0; i < call->rows * count; i++) {
        const int32_t row = i / count, k = i % count;
        const int32_t named = bs_read_once(bs_operand_at(index, row * index->row_stride + k * index->stride[0]));
        if (named < -1 || named >= call->around)
            return bs_call_fail(call, "index %d is %d, expected -1 .. %d", (int)k, (int)named, (int)call->around - 1);
        to.data = bs_operand_at(out, row * out->row_stride + (index->rank ? k * out->stride[0] : 0));
        const void *from = named < 0 ? NULL : bs_operand_at(x, named * x->row_stride);
        if (line < 0)
            copy_around(call, &to, from);
        else if (from)
            bs_copy(to.data, from, bytes);
        else
            memset(to.data, 0, bytes);
    }
    return BS_OK;
}

const bs_op bs_op_loop_rows = {.name = "loop_rows",
                               .min_in = 2, .rows = {.of = BS_ROWS_AROUND},
                               BS_PARAMS(bs_gather_params, of_loop_fields),
                               .infer = loop_rows_infer,
                               .run = loop_rows_run};

bs_value bs_loop_rows(bs_graph *graph, bs_router loop, bs_value carried, bs_value index)
{
    const bs_gather_params p = params_of(loop);
    return bs_op_build_two(graph, carried, index, &p, &bs_op_loop_rows);
}

/* -------------------------------------------------------------------------------------------- what a body gives */

/* Operands: the value of the body, what was there before the first trip (none: zeros), the carried value or none. */
static bool next_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    bs_router_info *router = loop_of(infer);
    const bs_value_info *value = infer->in[0];
    bs_node *carry = &g->nodes[infer->in[2]->node];
    if (!router || !is_of(infer, 0, router->path_domains))
        return false;
    infer->out[0].domain = router->domain;
    if (infer->ids[2] == 0)
        return infer->ids[1] == 0 || bs_infer_fail(infer, BS_ERROR_GRAPH, "what it begins with is of no carried value");
    if (!carries(infer, carry) || bs_node_in(g, carry)[0] != infer->ids[1])
        return bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "operand 2 is made by %s, expected a value that loop \"%s\" carries from operand 1",
                             bs_op_get(carry->op)->name, router->desc->name);
    if (carry->writer)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "the carried value is given twice");
    const bs_value_info *carried = infer->in[2];
    if (!bs_same_shape(value, carried))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "the carried value is %s, after a trip it would be %s",
                             bs_say_typed(infer, carried), bs_say_typed(infer, value));
    carry->writer = g->n_nodes; /* the node to be added; if refused, the graph has failed */
    router->loop.n_carried--;
    return bs_infer_same_scale(infer, carried, value);
}

const bs_op bs_op_loop_next = {.name = "loop_next",
                               .min_in = 3, .rows = {.of = BS_ROWS_ANY}, .variadic = true,
                               .work = BS_WORK_MOVE,
                               .roles = {BS_ROLE_DATA, BS_ROLE_DATA, BS_ROLE_LIKE},
                               BS_PARAMS(bs_gather_params, of_loop_fields),
                               .infer = next_infer};

bs_value bs_loop_next(bs_graph *graph, bs_router loop, bs_value carried, bs_value value)
{
    const bs_gather_params p = params_of(loop);
    const bool known = graph && graph->status == BS_OK && carried.id > 0 && carried.id < graph->n_values;
    const bs_node *carry = known ? &graph->nodes[graph->values[carried.id].node] : NULL;
    const int32_t in[3] = {value.id, carry && carry->n_in > 0 ? bs_node_in(graph, carry)[0] : 0, carried.id};
    return bs_op_build(graph, &bs_op_loop_next, in, 3, &p);
}

bs_value bs_loop_trips(bs_graph *graph, bs_router loop)
{
    return bs_loop_next(graph, loop, (bs_value){0}, trip_of(graph, loop, BS_TRIP_FROM_1));
}

/* A place for the value of each trip in front of the value's own dimensions. */
static bool loop_collect_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_router_info *router = loop_of(infer);
    const bs_value_info *value = infer->in[0];
    bs_value_info *out = &infer->out[0];
    if (!router || !is_of(infer, 0, router->path_domains))
        return false;
    if (infer->ids[1])
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "what is collected begins with zeros");
    if (!bs_infer_rank_out(infer, value->rank + 1) || !bs_infer_whole(infer, 0))
        return false;
    for (int32_t i = 0; i < value->rank; i++)
        out->dims[i + 1] = value->dims[i];
    out->dims[0] = router->loop.trips >= 0 ? router->loop.trips : bs_dim_const(g, router->loop.bound);
    out->domain = router->domain;
    return bs_infer_no_new_image(infer);
}

const bs_op bs_op_loop_collect = {.name = "loop_collect",
                                  .min_in = 2, .rows = {.of = BS_ROWS_ANY}, .variadic = true,
                                  .work = BS_WORK_MOVE,
                                  BS_PARAMS(bs_gather_params, of_loop_fields),
                                  .infer = loop_collect_infer};

bs_value bs_loop_collect(bs_graph *graph, bs_router loop, bs_value value)
{
    const bs_gather_params p = params_of(loop);
    const int32_t in[2] = {value.id, 0};
    return bs_op_build(graph, &bs_op_loop_collect, in, 2, &p);
}

/* --------------------------------------------------------------------------------------------------------- end */

/* Operands: the predicate or none, the loop's count or none. */
static bool again_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    bs_router_info *router = loop_of(infer);
    const bs_value_info *go_on = infer->in[0];
    infer->n_out = 0;
    if (!router)
        return false;
    infer->domain = router->path_domains;
    if (router->loop.grows && (infer->ids[0] == 0 || go_on->dtype != BS_I32))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "how many rows a row makes is missing, expected i32 [1]");
    if (infer->ids[0] && router->loop.in_turn)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "a predicate, where rows go in turn: a row makes one trip");
    if (infer->ids[0] && !is_of(infer, 0, router->path_domains))
        return false;
    if (infer->ids[0] && ((go_on->dtype != BS_F32 && go_on->dtype != BS_I32) || go_on->rank > 1 ||
                          (go_on->rank == 1 && bs_dim_max(g, go_on->dims[0]) != 1)))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "the predicate is %s, expected f32 or i32 [1]",
                             bs_say_typed(infer, go_on));
    if (infer->ids[1] != router->loop.count)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "operand 1 is value %d, expected the loop's count, value %d",
                             (int)infer->ids[1], (int)router->loop.count);
    if (router->loop.n_carried > 0)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "%" PRId32 " carried values have no bs_loop_next",
                             router->loop.n_carried);
    router->loop.again = g->n_nodes; /* the node to be added */
    g->open_loop = router->loop.begun_before;
    return true;
}

const bs_op bs_op_loop_again = {.name = "loop_again",
                                .min_in = 2, .rows = {.of = BS_ROWS_ANY}, .variadic = true,
                                .work = BS_WORK_ROUTE,
                                .roles = {BS_ROLE_DECIDING, BS_ROLE_DECIDING},
                                BS_PARAMS(bs_gather_params, of_loop_fields),
                                .infer = again_infer};

void bs_loop_end(bs_graph *graph, bs_router loop, bs_value go_on)
{
    const bool known = graph && graph->status == BS_OK && loop.id > 0 && loop.id < graph->n_routers;
    const bs_gather_params p = {known ? graph->routers[loop.id].desc->name : "", loop.id, BS_GATHER_PLACE};
    const int32_t in[2] = {go_on.id, known ? graph->routers[loop.id].loop.count : 0};
    bs_op_build_node(graph, &bs_op_loop_again, in, 2, &p);
}
