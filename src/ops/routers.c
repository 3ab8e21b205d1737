/* ops/routers.c - routers, scatter, gather: builder functions and shape rules.
 * Relies on ops/structure.h. Must never decide anything itself: that is ops/decide.h, when a session runs. */
#include "ops/common.h"
#include "ops/structure.h"

typedef struct bs_protocol_rule {
    const char *name;
    int32_t score_width; /* 0: one score a path */
    bool score_f32, score_i32;
    bool all_rows; /* what a row takes depends on other rows or on the caller: never decided in a tile */
    bool gives;    /* each row takes a path, whatever the scores are */
} bs_protocol_rule;

static const bs_protocol_rule protocol_rules[BS_PROTOCOL_COUNT + 1] = {
    [BS_ROUTE_TOP1] = {"top1", 0, true, true, false, true},
    [BS_ROUTE_TOPK] = {"topk", 0, true, true, false, true},
    [BS_ROUTE_THRESHOLD] = {"threshold", 0, true, false, false, false},
    [BS_ROUTE_RESIDUAL_THRESHOLD] = {"residual_threshold", 0, true, false, false, true},
    [BS_ROUTE_BINARY] = {"binary", 1, true, false, false, true},
    [BS_ROUTE_LABEL] = {"label", 1, false, true, false, true},
    [BS_ROUTE_TABLE] = {"table", 1, false, true, false, true},
    [BS_ROUTE_CAPACITY] = {"capacity", 0, true, true, true, false},
    [BS_ROUTE_BUDGET] = {"budget", 0, false, true, true, true},
    [BS_ROUTE_CALLBACK] = {"callback", -1, true, true, true, false},
    [BS_ROUTE_LOOP] = {"loop", 1, true, true, false, false},
};

const char *bs_protocol_name(bs_protocol protocol)
{
    return (uint32_t)protocol <= BS_ROUTE_LOOP ? protocol_rules[protocol].name : "unknown";
}

bool bs_protocol_sees_all_rows(int32_t protocol) { return protocol_rules[protocol].all_rows; }

bool bs_route_leaves_none(const bs_route_desc *d)
{
    return protocol_rules[d->protocol].gives || (d->protocol == BS_ROUTE_THRESHOLD && d->fallback > 0) ||
           (d->protocol == BS_ROUTE_CAPACITY && d->spill > 0);
}

bool bs_infer_router_name(bs_infer *infer)
{
    if (!infer->name[0])
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "a name is needed");
    return !bs_graph_named(infer->graph, infer->name, true) ||
           bs_infer_fail(infer, BS_ERROR_GRAPH, "its name is taken by an earlier router");
}

static bool route_params_sound(bs_infer *infer, const bs_route_desc *d)
{
    if (!bs_infer_router_name(infer) || !bs_infer_field(infer, "protocol", d->protocol, 0, BS_PROTOCOL_COUNT - 1))
        return false;
    const bool two = d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_RESIDUAL_THRESHOLD;
    const bool table = d->protocol == BS_ROUTE_TABLE, budget = d->protocol == BS_ROUTE_BUDGET;
    return bs_infer_field(infer, "paths", d->paths, two ? 2 : 1, two ? 2 : BS_MAX_PATHS) &&
           bs_infer_field(infer, "k", d->k, 0, d->paths) &&
           bs_infer_field(infer, budget ? "baseline" : "fallback", d->fallback, 0,
                          budget && d->variants > 0 ? d->variants : d->paths) &&
           bs_infer_field(infer, budget ? "variants" : table ? "keys" : "capacity", d->capacity,
                          d->protocol == BS_ROUTE_CAPACITY, budget ? BS_MAX_PATHS : INT32_MAX) &&
           bs_infer_field(infer, "floor", d->floor, 0, budget ? 1 << 24 : 0) &&
           bs_infer_field(infer, "spill", d->spill, 0, d->protocol == BS_ROUTE_CAPACITY ? d->paths : 0);
}

/* "8", or "n" for any width. */
static const char *width_text(int64_t width, char *text, size_t bytes)
{
    snprintf(text, bytes, width < 0 ? "n" : "%lld", (long long)width);
    return text;
}

static bool route_scores_sound(bs_infer *infer, const bs_route_desc *d)
{
    const bs_protocol_rule *rule = &protocol_rules[d->protocol];
    const bs_value_info *score = infer->in[0];
    const int64_t width = score->rank == 1 ? bs_dim_max(infer->graph, score->dims[0]) : -1;
    const bool variants = d->protocol == BS_ROUTE_BUDGET && d->variants > 0;
    const int64_t expected = variants ? d->variants : rule->score_width == 0 ? d->paths : rule->score_width;
    const bool fits = score->rank == 1 && bs_dim_is_const(infer->graph, score->dims[0]) &&
                      (expected < 0 || width == expected);
    if (fits && ((score->dtype == BS_F32 && rule->score_f32) || (score->dtype == BS_I32 && rule->score_i32)))
        return true;
    char wanted[16];
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "scores are %s, %s takes %s%s [%s]", bs_say_typed(infer, score),
                         rule->name, rule->score_f32 ? "f32" : "i32",
                         rule->score_f32 && rule->score_i32 ? " or i32" : "",
                         width_text(expected, wanted, sizeof wanted));
}

static bool route_knob_sound(bs_infer *infer)
{
    if (infer->n_in < 2)
        return true;
    const bs_value_info *knob = infer->in[1];
    if (knob->domain == 0 && knob->dtype == BS_F32 && knob->rank == 1 && bs_dim_max(infer->graph, knob->dims[0]) == 1)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "the knob is %s of %s, expected a root value f32 [1]",
                         bs_say_typed(infer, knob), bs_say_domain(infer, knob->domain));
}

static int32_t route_max_paths_per_cell(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_TOPK || d->protocol == BS_ROUTE_CAPACITY)
        return bs_or_default(d->k, 1);
    return d->protocol == BS_ROUTE_THRESHOLD ? d->paths : 1;
}

bs_router_info *bs_infer_router(bs_infer *infer, const bs_route_desc *desc, int32_t domain)
{
    bs_graph *g = infer->graph;
    bs_router_info *router = &g->routers[g->n_routers];
    if (g->n_routers > g->max_routers)
        bs_infer_fail(infer, BS_ERROR_LIMIT, "the graph is full: %" PRId32 " routers (bs_graph_desc.max_routers)",
                      g->max_routers);
    if (desc && desc->paths > BS_MAX_ALL_PATHS - g->n_paths)
        bs_infer_fail(infer, BS_ERROR_LIMIT, "all routers together have more than %d paths", BS_MAX_ALL_PATHS);
    if (g->status != BS_OK || !desc) /* no room for the descriptor, too */
        return NULL;
    memset(router, 0, sizeof *router);
    router->node = g->n_nodes;
    router->first_path = g->n_paths;
    router->domain = domain;
    router->desc = desc;
    router->loop.trips = -1;
    g->n_paths += desc->paths;
    g->max_paths = bs_max_i32(g->max_paths, desc->paths);
    infer->router = g->n_routers++;
    return router;
}

static bool route_infer(bs_infer *infer)
{
    const bs_route_desc *d = infer->params;
    infer->n_out = 0;
    if (!route_params_sound(infer, d) || !route_scores_sound(infer, d) || !route_knob_sound(infer))
        return false;
    if (infer->in[0]->domain == 0)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "scores are a root value: make cells first (bs_rows, bs_patches)");
    bs_router_info *router = bs_infer_router(infer, d, infer->in[0]->domain);
    if (!router)
        return false;
    router->score = infer->ids[0];
    router->knob = infer->n_in > 1 ? infer->ids[1] : 0;
    router->max_paths_per_cell = route_max_paths_per_cell(d);
    return true;
}

static int32_t route_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    (void)graph;
    const bs_route_desc *d = node->params;
    if (d->protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = bs_or_default(d->variants, d->paths);
        specs[0] = (bs_weight_spec){"cost", BS_I32, 1, {variants, 0, 0, 0}};
        specs[1] = (bs_weight_spec){"path", BS_I32, 1, {variants, 0, 0, 0}};
        return 2;
    }
    if (d->protocol == BS_ROUTE_TABLE) { /* -1: as many keys as the file has */
        specs[0] = (bs_weight_spec){"table", BS_I32, 1, {bs_or_default(d->keys, 256), 0, 0, 0}};
        return 1;
    }
    return 0;
}

static const bs_field route_fields[] = {
    BS_NAMED("protocol", PROTOCOL), BS_INT("paths"),     BS_INT("k"),     BS_FLOAT("threshold"), BS_INT("fallback"),
    BS_INT("capacity"),             BS_INT("normalise"), BS_INT("floor"), BS_INT("spill")};
static const bs_op_rules route_rules = {.weights = {.specs = route_weights}};

const bs_op bs_op_route = {.name = "route",
                           .min_in = 1,
                           .max_in = 2,
                           .rows = {.of = BS_ROWS_ANY}, .named = true,
                           .work = BS_WORK_ROUTE,
                           .roles = {BS_ROLE_DECIDING, BS_ROLE_DECIDING},
                           BS_PARAMS(bs_route_desc, route_fields),
                           .infer = route_infer,
                           .rules = &route_rules};

bs_router bs_route(bs_graph *graph, bs_value score, bs_value knob, const bs_route_desc *desc)
{
    const int32_t in[2] = {score.id, knob.id};
    /* NULL: refused */
    const bs_node *node = bs_op_build_node(graph, &bs_op_route, in, knob.id ? 2 : 1, desc);
    const bs_router router = {node ? node->router : 0};
    return router;
}

/* ------------------------------------------------------------------------------------ what follows a router */

/* For builders that read a router before they add a node. */
static bool router_exists(bs_graph *graph, const char *op, bs_router router)
{
    if (!graph || graph->status != BS_OK)
        return false;
    return (router.id >= 1 && router.id < graph->n_routers) ||
           bs_graph_fail(graph, BS_ERROR_GRAPH, "%s: router %" PRId32 " does not exist", op, router.id);
}

/* The router that a node is about. */
static const bs_router_info *router_known(bs_infer *infer, int32_t id)
{
    infer->router = id;
    if (id >= 1 && id < infer->graph->n_routers)
        return &infer->graph->routers[id];
    bs_infer_fail(infer, BS_ERROR_GRAPH, "router %" PRId32 " does not exist", id);
    return NULL;
}

int32_t bs_infer_path(const bs_infer *infer, int32_t path)
{
    bs_graph *g = infer->graph;
    const int32_t parent = g->routers[infer->router].domain;
    const bs_domain domain = {.kind = BS_DOMAIN_PATH,
                              .parent = parent,
                              .router = infer->router,
                              .path = path,
                              .rows = -1,
                              .height = -1,
                              .width = -1,
                              .max_rows = g->domains[parent].max_rows};
    return bs_graph_domain(g, &domain);
}

static bool scatter_infer(bs_infer *infer)
{
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (p->path < 0 || p->path >= router->desc->paths)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "path %" PRId32 " of router \"%s\", which has %" PRId32, p->path,
                             router->desc->name, router->desc->paths);
    if (infer->in[0]->domain != router->domain)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand 0 is of %s, router \"%s\" decides for %s",
                             bs_say_domain(infer, infer->in[0]->domain), router->desc->name,
                             bs_say_domain(infer, router->domain));
    infer->path = p->path;
    infer->out[0].domain = bs_infer_path(infer, p->path);
    return infer->out[0].domain >= 0;
}

static const bs_field router_fields[] = {BS_INT("router"), BS_INT("path")};
const bs_op bs_op_scatter = {.name = "scatter",
                             .min_in = 1,
                             .rows = {.of = BS_ROWS_ANY},
                             .work = BS_WORK_VIEW,
                             BS_PARAMS(bs_router_params, router_fields),
                             .infer = scatter_infer};

bs_value bs_scatter(bs_graph *graph, bs_router router, int32_t path, bs_value x)
{
    const bs_router_params p = {"", router.id, path};
    return bs_op_build_one(graph, x, &p, &bs_op_scatter);
}

bs_value bs_branch(bs_graph *graph, bs_router router, int32_t path, const char *name, bs_value x,
                   bs_block_function function, void *user)
{
    bs_block_begin(graph, name);
    bs_value value = bs_scatter(graph, router, path, x);
    if (function)
        value = function(graph, value, user);
    bs_block_end(graph);
    return value;
}

static bool price_infer(bs_infer *infer)
{
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (router->desc->protocol != BS_ROUTE_BUDGET)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "router \"%s\" is of protocol %s, expected budget",
                             router->desc->name, protocol_rules[router->desc->protocol].name);
    if (infer->graph->domains[router->domain].loop)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "router \"%s\" is in the body of a loop: its price is another in every trip",
                             router->desc->name);
    infer->out[0].dtype = BS_F32;
    bs_value_set_rank(&infer->out[0], 1);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

static bool score_infer(bs_infer *infer)
{
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (infer->ids[0] != router->score)
        return bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "operand 0 is value %" PRId32 ", expected the scores of router \"%s\", value %" PRId32,
                             infer->ids[0], router->desc->name, router->score);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

static bs_status price_run(const bs_call *call)
{
    *(float *)call->out[0].data = call->decision->price;
    return BS_OK;
}

/* The score of the first chosen path, copied like any other element; for a budget the loss of the chosen variant,
 * which is its gate. */
static bs_status score_run(const bs_call *call)
{
    const bs_decision_data *d = call->decision;
    const bs_operand *score = &call->in[0], *out = &call->out[0];
    const bool budget = call->graph->routers[call->node->router].desc->protocol == BS_ROUTE_BUDGET && !call->ahead;
    const int32_t first = call->decided * d->per_row, path = d->chosen[first];
    const int32_t loss = budget && path >= 0 ? (int32_t)d->gates[first] : 0; /* <= 2^24 */
    const int32_t at = bs_score_of(path, score->dim[0]);
    if (path >= 0 && budget)
        memcpy(out->data, &loss, 4);
    else if (at >= 0)
        memcpy(out->data, (const uint8_t *)score->data + at * score->stride[0] * 4, 4);
    else
        memset(out->data, 0, 4);
    return BS_OK;
}

const bs_op bs_op_route_price = {.name = "route_price",
                                 .rows = {.of = BS_ROWS_DECIDED},
                                 BS_PARAMS(bs_router_params, router_fields),
                                 .infer = price_infer,
                                 .run = price_run};
const bs_op bs_op_route_score = {.name = "route_score",
                                 .min_in = 1,
                                 .rows = {.of = BS_ROWS_DECIDED},
                                 BS_PARAMS(bs_router_params, router_fields),
                                 .infer = score_infer,
                                 .run = score_run};

bs_value bs_route_price(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    return bs_op_build(graph, &bs_op_route_price, NULL, 0, &p);
}

bs_value bs_route_score(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    const bs_value failed = {0};
    if (!router_exists(graph, "route_score", router))
        return failed;
    const int32_t score = graph->routers[router.id].score;
    return bs_op_build(graph, &bs_op_route_score, &score, 1, &p);
}

/* ------------------------------------------------------------------------------------------------- gather */

static bool gather_value_sound(bs_infer *infer, const bs_router_info *router, int32_t path, const bs_value_info *first)
{
    bs_graph *g = infer->graph;
    const bs_gather_params *p = infer->params;
    const bs_value_info *v = &g->values[infer->ids[path]];
    const bs_domain *d = &g->domains[v->domain];
    if (d->kind != BS_DOMAIN_PATH || d->router != p->router || d->path != path)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand %" PRId32 " is of %s, expected path %" PRId32 " of \"%s\"", path,
                             bs_say_domain(infer, v->domain), path, router->desc->name);
    if (!bs_same_shape(v, first))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "path %" PRId32 " of \"%s\" gives %s, another path %s", path,
                             router->desc->name, bs_say_typed(infer, v), bs_say_typed(infer, first));
    return bs_infer_same_scale(infer, first, v);
}

static bool gather_mode_sound(bs_infer *infer, const bs_router_info *router, const bs_value_info *first)
{
    const bs_gather_params *p = infer->params;
    if (!bs_infer_field(infer, "mode", p->mode, BS_GATHER_PLACE, BS_GATHER_SELECT))
        return false;
    if (p->mode == BS_GATHER_PLACE && router->max_paths_per_cell > 1)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "place takes at most one path a cell, router \"%s\" gives up to %" PRId32,
                             router->desc->name, router->max_paths_per_cell);
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    if (sums && first->dtype != BS_F32)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "sums are of f32, the paths of \"%s\" give %s", router->desc->name,
                             bs_dtype_name(first->dtype));
    return true;
}

static bool gather_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_gather_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (infer->n_in != router->desc->paths + 1)
        return bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "%" PRId32 " operands, expected one for each of %" PRId32
                             " paths of \"%s\" and a residual",
                             infer->n_in, router->desc->paths, router->desc->name);
    const bs_value_info *first = NULL;
    for (int32_t i = 0; i < infer->n_in && !first; i++)
        first = infer->ids[i] ? &g->values[infer->ids[i]] : NULL;
    if (!first)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "no path of \"%s\" gives anything, and there is no residual",
                             router->desc->name);
    if (!gather_mode_sound(infer, router, first))
        return false;
    for (int32_t i = 0; i < router->desc->paths; i++)
        if (infer->ids[i] && !gather_value_sound(infer, router, i, first))
            return false;
    const bs_value_info *residual = &g->values[infer->ids[router->desc->paths]];
    if (infer->ids[router->desc->paths] && residual->domain != router->domain)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "the residual is of %s, router \"%s\" decides for %s",
                             bs_say_domain(infer, residual->domain), router->desc->name,
                             bs_say_domain(infer, router->domain));
    if (infer->ids[router->desc->paths] && !bs_same_shape(residual, first))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "the residual is %s, paths of \"%s\" give %s",
                             bs_say_typed(infer, residual), router->desc->name, bs_say_typed(infer, first));
    if (bs_router_loops(g, p->router))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "router \"%s\" is a loop, whose rows come back by bs_loop_next",
                             router->desc->name);
    infer->out[0] = *first;
    infer->out[0].domain = router->domain;
    return true;
}

static const bs_field gather_fields[] = {BS_INT("router"), BS_NAMED("mode", GATHER)};
const bs_op bs_op_gather = {.name = "gather",
                            .min_in = 2,
                            .max_in = BS_MAX_PATHS + 1,
                            .rows = {.of = BS_ROWS_ANY}, .variadic = true,
                            .work = BS_WORK_MOVE,
                            BS_PARAMS(bs_gather_params, gather_fields),
                            .infer = gather_infer};

bs_value bs_gather(bs_graph *graph, bs_router router, const bs_value *values, bs_value residual,
                   const bs_gather_desc *desc)
{
    const bs_value failed = {0};
    if (!router_exists(graph, "gather", router))
        return failed;
    const int32_t paths = graph->routers[router.id].desc->paths;
    int32_t *in = bs_graph_operands(graph, paths + 1);
    for (int32_t i = 0; in && i < paths; i++)
        in[i] = values ? values[i].id : 0; /* id 0: the path gives nothing */
    if (in)
        in[paths] = residual.id;
    const bs_gather_params p = {desc && desc->name ? desc->name : "", router.id, desc ? desc->mode : BS_GATHER_PLACE};
    return bs_op_build(graph, &bs_op_gather, in, paths + 1, &p);
}
