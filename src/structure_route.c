/* structure_route.c - routers, scatter, gather: builder functions and shape rules.
 * Relies on structure.h. Must never decide anything itself: that is route.c, when a session runs. */
#include "structure.h"

typedef struct bs_protocol_rule {
    const char *name;
    int32_t score_width; /* 0: one score a path */
    bool score_f32, score_i32;
    bool many_paths; /* k or more paths a cell */
} bs_protocol_rule;

static const bs_protocol_rule protocol_rules[BS_PROTOCOL_COUNT] = {
    [BS_ROUTE_TOP1] = {"top1", 0, true, true, false},
    [BS_ROUTE_TOPK] = {"topk", 0, true, true, true},
    [BS_ROUTE_THRESHOLD] = {"threshold", 0, true, false, true},
    [BS_ROUTE_RESIDUAL_THRESHOLD] = {"residual_threshold", 0, true, false, false},
    [BS_ROUTE_BINARY] = {"binary", 1, true, false, false},
    [BS_ROUTE_LABEL] = {"label", 1, false, true, false},
    [BS_ROUTE_TABLE] = {"table", 1, false, true, false},
    [BS_ROUTE_CAPACITY] = {"capacity", 0, true, true, true},
    [BS_ROUTE_BUDGET] = {"budget", 0, false, true, false},
    [BS_ROUTE_CALLBACK] = {"callback", -1, true, true, false},
};

const char *bs_protocol_name(bs_protocol protocol)
{
    return (int32_t)protocol >= 0 && protocol < BS_PROTOCOL_COUNT ? protocol_rules[protocol].name : "unknown";
}

static bool route_params_sound(bs_infer *infer, const bs_route_desc *d)
{
    bs_graph *g = infer->graph;
    if (d->protocol < 0 || d->protocol >= BS_PROTOCOL_COUNT)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": protocol %d does not exist", infer->name, d->protocol);
    if (!infer->name[0])
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "a router needs a name");
    for (int32_t i = 1; i < g->n_routers; i++)
        if (strcmp(g->routers[i].desc->name, infer->name) == 0)
            return bs_graph_fail(g, BS_ERROR_GRAPH, "two routers are called \"%s\"", infer->name);
    const bool two = d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_RESIDUAL_THRESHOLD;
    if (d->paths < 1 || d->paths > BS_MAX_PATHS || (two && d->paths != 2))
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": %d paths; %s takes %s", infer->name, d->paths,
                             protocol_rules[d->protocol].name, two ? "2" : "1..64");
    if (d->k < 0 || d->k > d->paths || d->fallback < 0 || d->fallback > d->paths)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": k %d or fallback %d is beyond its %d paths", infer->name, d->k,
                             d->fallback, d->paths);
    if (d->capacity < 0 || (d->protocol == BS_ROUTE_BUDGET && d->capacity > BS_MAX_PATHS))
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": capacity %d is out of range", infer->name, d->capacity);
    if (d->protocol == BS_ROUTE_CAPACITY && d->capacity < 1)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": capacity %d, expected at least 1", infer->name, d->capacity);
    return true;
}

static bool route_scores_sound(bs_infer *infer, const bs_route_desc *d)
{
    const bs_protocol_rule *rule = &protocol_rules[d->protocol];
    const bs_value_info *score = infer->in[0];
    const int64_t width = score->rank == 1 ? bs_dim_max(infer->graph, score->dims[0]) : -1;
    const bool variants = d->protocol == BS_ROUTE_BUDGET && d->capacity > 0;
    const int64_t expected = variants ? d->capacity : rule->score_width == 0 ? d->paths : rule->score_width;
    if (score->rank != 1 || !bs_dim_is_const(infer->graph, score->dims[0]) || (expected > 0 && width != expected))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": %s takes scores [%lld] a cell, dimension 0 is %lld (rank %d)",
                             infer->name, rule->name, (long long)expected, (long long)width, score->rank);
    if (!(score->dtype == BS_F32 && rule->score_f32) && !(score->dtype == BS_I32 && rule->score_i32))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": %s does not take %s scores", infer->name, rule->name,
                             bs_dtype_name(score->dtype));
    return true;
}

static bool route_knob_sound(bs_infer *infer)
{
    if (infer->n_in < 2)
        return true;
    const bs_value_info *knob = infer->in[1];
    if (knob->domain == 0 && knob->dtype == BS_F32 && knob->rank == 1 && bs_dim_max(infer->graph, knob->dims[0]) == 1)
        return true;
    return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": the knob must be a root value f32 [1]", infer->name);
}

static int32_t route_max_paths_per_cell(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_TOPK || d->protocol == BS_ROUTE_CAPACITY)
        return bs_or_default(d->k, 1);
    return d->protocol == BS_ROUTE_THRESHOLD ? d->paths : 1;
}

static bool route_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_route_desc *d = infer->params;
    infer->n_out = 0;
    if (!route_params_sound(infer, d) || !route_scores_sound(infer, d) || !route_knob_sound(infer))
        return false;
    if (infer->in[0]->domain == 0)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "route \"%s\": scores are a root value; make cells first (bs_rows, bs_patches)", infer->name);
    if (g->n_routers == BS_MAX_ROUTERS)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "more than %d routers", BS_MAX_ROUTERS - 1);
    bs_router_info *router = &g->routers[g->n_routers];
    router->node = g->n_nodes;
    router->domain = infer->in[0]->domain;
    router->score = infer->ids[0];
    router->knob = infer->n_in > 1 ? infer->ids[1] : 0;
    router->max_paths_per_cell = route_max_paths_per_cell(d);
    router->desc = d;
    infer->router = g->n_routers++;
    return true;
}

static int32_t route_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    (void)graph;
    const bs_route_desc *d = node->params;
    if (d->protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = bs_or_default(d->capacity, d->paths);
        specs[0] = (bs_weight_spec){"cost", BS_I32, 1, {variants, 0, 0, 0}};
        specs[1] = (bs_weight_spec){"path", BS_I32, 1, {variants, 0, 0, 0}};
        return 2;
    }
    if (d->protocol == BS_ROUTE_TABLE) { /* as many keys as the file has: -1 */
        specs[0] = (bs_weight_spec){"table", BS_I32, 1, {bs_or_default(d->capacity, 256), 0, 0, 0}};
        return 1;
    }
    return 0;
}

static const bs_field route_fields[] = {{"protocol", 'i'}, {"paths", 'i'}, {"k", 'i'}, {"threshold", 'f'},
                                        {"fallback", 'i'}, {"capacity", 'i'}, {"normalise", 'i'}};
const bs_op bs_op_route = {.name = "route", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                           .params_bytes = sizeof(bs_route_desc), .fields = route_fields, .n_fields = 7,
                           .infer = route_infer, .weights = route_weights};

bs_router bs_route(bs_graph *graph, bs_value score, bs_value knob, const bs_route_desc *desc)
{
    const int32_t in[2] = {score.id, knob.id};
    const bs_node *node = bs_graph_add(graph, bs_op_index("route"), in, knob.id ? 2 : 1, desc); /* NULL: refused, it has no name */
    const bs_router router = {node ? node->router : 0};
    return router;
}

/* ------------------------------------------------------------------------------------ what follows a router */

static const bs_router_info *router_known(bs_infer *infer, int32_t id)
{
    if (id >= 1 && id < infer->graph->n_routers)
        return &infer->graph->routers[id];
    bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "%s: router %d does not exist", infer->op->name, id);
    return NULL;
}

static bool scatter_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (p->path < 0 || p->path >= router->desc->paths)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "scatter: router \"%s\" has no path %d", router->desc->name, p->path);
    if (infer->in[0]->domain != router->domain)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "scatter: the value is of domain %d, router \"%s\" decides for domain %d",
                             infer->in[0]->domain, router->desc->name, router->domain);
    const bs_domain domain = {.kind = BS_DOMAIN_PATH, .parent = router->domain, .router = p->router, .path = p->path, .rows = -1,
                              .height = -1, .width = -1, .max_rows = g->domains[router->domain].max_rows};
    infer->router = p->router;
    infer->path = p->path;
    infer->out[0].domain = bs_graph_domain(g, &domain);
    return infer->out[0].domain >= 0;
}

static const bs_field router_fields[] = {{"router", 'i'}, {"path", 'i'}};
const bs_op bs_op_scatter = {.name = "scatter", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_router_params), .fields = router_fields, .n_fields = 2, .infer = scatter_infer};

bs_value bs_scatter(bs_graph *graph, bs_router router, int32_t path, bs_value x)
{
    const bs_router_params p = {"", router.id, path};
    return bs_graph_value(graph, bs_op_index("scatter"), &x.id, 1, &p);
}

bs_value bs_branch(bs_graph *graph, bs_router router, int32_t path, const char *name, bs_value x, bs_block_function function, void *user)
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
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "route_price: router \"%s\" has no budget", router->desc->name);
    infer->router = p->router;
    infer->out[0].dtype = BS_F32;
    infer->out[0].rank = 1;
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
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "route_score: the operand is not the score of router \"%s\"", router->desc->name);
    infer->router = p->router;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

const bs_op bs_op_route_price = {.name = "route_price", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_router_params),
                                 .fields = router_fields, .n_fields = 2, .infer = price_infer};
const bs_op bs_op_route_score = {.name = "route_score", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_router_params),
                                 .fields = router_fields, .n_fields = 2, .infer = score_infer};

bs_value bs_route_price(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    return bs_graph_value(graph, bs_op_index("route_price"), NULL, 0, &p);
}

bs_value bs_route_score(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    const bool known = graph && router.id >= 1 && router.id < graph->n_routers;
    const int32_t score = known ? graph->routers[router.id].score : 0; /* 0: refused */
    return bs_graph_value(graph, bs_op_index("route_score"), &score, 1, &p);
}

/* The router is looked up when a plan is made: it is yet to be built. */
static bool look_ahead_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!infer->name[0])
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "look_ahead needs the name of a router");
    const bs_value_info *score = infer->in[0];
    if (score->rank != 1 || (score->dtype != BS_F32 && score->dtype != BS_I32) || !bs_dim_is_const(infer->graph, score->dims[0]))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "look_ahead \"%s\": a score a path is expected, f32 or i32 [paths]", infer->name);
    return true;
}

const bs_op bs_op_look_ahead = {.name = "look_ahead", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_name_params),
                                .infer = look_ahead_infer};

void bs_look_ahead(bs_graph *graph, bs_value score, const char *router)
{
    const bs_name_params p = {router ? router : ""};
    bs_graph_add(graph, bs_op_index("look_ahead"), &score.id, 1, &p);
}

/* ------------------------------------------------------------------------------------------------- gather */

static bool gather_value_sound(bs_infer *infer, const bs_router_info *router, int32_t path, const bs_value_info *first)
{
    bs_graph *g = infer->graph;
    const bs_gather_params *p = infer->params;
    const bs_value_info *v = &g->values[infer->ids[path]];
    const bs_domain *d = &g->domains[v->domain];
    if (d->kind != BS_DOMAIN_PATH || d->router != p->router || d->path != path)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "gather: operand %d is not of path %d of router \"%s\"", path, path, router->desc->name);
    bool same = v->rank == first->rank && v->dtype == first->dtype && v->scale_num == first->scale_num && v->scale_den == first->scale_den;
    for (int32_t i = 0; same && i < v->rank; i++)
        same = v->dims[i] == first->dims[i];
    char a[128], b[128];
    if (!same)
        return bs_graph_fail(g, BS_ERROR_SHAPE, "gather of router \"%s\": path %d gives %s %s, another path %s %s", router->desc->name, path,
                             bs_dtype_name(v->dtype), bs_value_text(g, v, a, sizeof a), bs_dtype_name(first->dtype),
                             bs_value_text(g, first, b, sizeof b));
    return true;
}

static bool gather_mode_sound(bs_infer *infer, const bs_router_info *router, const bs_value_info *first)
{
    const bs_gather_params *p = infer->params;
    if (p->mode < BS_GATHER_PLACE || p->mode > BS_GATHER_SELECT)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "gather: mode %d does not exist", p->mode);
    if (p->mode == BS_GATHER_PLACE && router->max_paths_per_cell > 1)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "gather: place takes at most one path a cell, router \"%s\" gives up to %d",
                             router->desc->name, router->max_paths_per_cell);
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    if (sums && first->dtype != BS_F32)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "gather: sums are f32, not %s", bs_dtype_name(first->dtype));
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
        return bs_graph_fail(g, BS_ERROR_GRAPH, "gather: router \"%s\" has %d paths", router->desc->name, router->desc->paths);
    const bs_value_info *first = NULL;
    for (int32_t i = 0; i < infer->n_in && !first; i++)
        first = infer->ids[i] ? &g->values[infer->ids[i]] : NULL;
    if (!first)
        return bs_graph_fail(g, BS_ERROR_GRAPH, "gather of router \"%s\" has nothing to gather", router->desc->name);
    if (!gather_mode_sound(infer, router, first))
        return false;
    for (int32_t i = 0; i < router->desc->paths; i++)
        if (infer->ids[i] && !gather_value_sound(infer, router, i, first))
            return false;
    const int32_t residual = infer->ids[router->desc->paths];
    if (residual && (g->values[residual].domain != router->domain || !bs_same_shape(&g->values[residual], first)))
        return bs_graph_fail(g, BS_ERROR_SHAPE, "gather of router \"%s\": the residual is of another domain or shape", router->desc->name);
    infer->router = p->router;
    infer->out[0] = *first;
    infer->out[0].domain = router->domain;
    return true;
}

static const bs_field gather_fields[] = {{"router", 'i'}, {"mode", 'i'}};
const bs_op bs_op_gather = {.name = "gather", .min_in = 2, .max_in = BS_MAX_PATHS + 1, .flags = BS_OP_STRUCTURAL | BS_OP_VARIADIC,
                            .params_bytes = sizeof(bs_gather_params), .fields = gather_fields, .n_fields = 2, .infer = gather_infer};

bs_value bs_gather(bs_graph *graph, bs_router router, const bs_value *values, bs_value residual, const bs_gather_desc *desc)
{
    int32_t in[BS_MAX_PATHS + 1];
    const bs_value failed = {0};
    if (!graph || graph->status != BS_OK)
        return failed;
    if (router.id < 1 || router.id >= graph->n_routers || !values) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "gather: router %d does not exist", router.id);
        return failed;
    }
    const int32_t paths = graph->routers[router.id].desc->paths;
    for (int32_t i = 0; i < paths; i++)
        in[i] = values[i].id;
    in[paths] = residual.id;
    const bs_gather_params p = {desc && desc->name ? desc->name : "", router.id, desc ? desc->mode : BS_GATHER_PLACE};
    return bs_graph_value(graph, bs_op_index("gather"), in, paths + 1, &p);
}
