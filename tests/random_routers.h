/* random_routers.h - routers of graphs that grow at random (random_graph.h), and what becomes of their paths. */
#ifndef BS_TEST_RANDOM_ROUTERS_H
#define BS_TEST_RANDOM_ROUTERS_H

#include "random_ops.h"

/* What a callback decides; -1 now and then. */
static inline int32_t rg_callback(const double *scores, int32_t width, int32_t paths)
{
    int64_t sum = 1000000;
    for (int32_t i = 0; i < width; i++)
        sum += (int64_t)scores[i];
    return (int32_t)(sum % (paths + 1)) - 1;
}

static inline bs_status rg_callback_run(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    for (int32_t r = 0; r < rows; r++) {
        double line[TEST_PATHS];
        for (int32_t i = 0; i < scores->width; i++)
            line[i] = (double)bs_load_f32(scores->data, scores->dtype, r * scores->row_stride + i * scores->stride);
        path[r] = rg_callback(line, scores->width, *(const int32_t *)user);
    }
    return BS_OK;
}

/* All routers of the graph decide by rg_callback. */
static inline void rg_set_callbacks(bs_session *session, const bs_graph *g)
{
    static int32_t paths[TEST_ROUTERS];
    for (int32_t r = 1; r < g->n_routers; r++) {
        paths[r] = g->routers[r].desc->paths;
        bs_set_route(session, g->routers[r].desc->name, rg_callback_run, &paths[r], NULL);
    }
}

/* Now and then, another size of cells, and a router that is forced. */
static inline void rg_choose(bs_plan_desc *desc, const bs_graph *g)
{
    static const int32_t sizes[4] = {4, 6, 10, 12};
    if (rg_flip(30))
        desc->patch_size = sizes[check_below(4)];
    if (rg_flip(25) && g->n_routers > 1) {
        const bs_route_desc *route = g->routers[1 + check_below(g->n_routers - 1)].desc;
        desc->n_forces = route->protocol != BS_ROUTE_LOOP;
        desc->forces[0] = (bs_force){route->name, check_below(route->paths)};
    }
}

static inline const int32_t *rg_ints(random_graph *rg, int32_t below)
{
    int32_t *ints = rg->ints[rg->n_ints++ % 64];
    for (int32_t i = 0; i < 16; i++)
        ints[i] = check_below(below);
    return ints;
}

/* The score that the protocol wants, out of a line of 4. */
static inline bs_value rg_score(random_graph *rg, bs_value x, const bs_route_desc *d)
{
    bs_value index = {0};
    const bool whole = d->protocol == BS_ROUTE_BUDGET || (d->protocol <= BS_ROUTE_TOPK && rg_flip(30));
    switch ((bs_protocol)d->protocol) {
    case BS_ROUTE_BINARY:
        return rg_linear(rg, x, 1);
    case BS_ROUTE_LABEL:
    case BS_ROUTE_TABLE:
        x = bs_topk(rg->g, rg_linear(rg, x, d->paths), 1, &index);
        rg->bound[x.id] = RG_MOST, rg->bound[index.id] = d->paths;
        return index;
    default:
        break;
    }
    const int32_t width = d->protocol == BS_ROUTE_BUDGET ? bs_or_default(d->variants, d->paths)
                          : d->protocol == BS_ROUTE_CALLBACK
                              ? (rg_flip(50) ? (int32_t)rg_extent(rg, rg_info(rg, x), 0) : 1 + check_below(5))
                              : d->paths;
    if (rg_extent(rg, rg_info(rg, x), 0) != width || rg_flip(50))
        x = rg_linear(rg, x, width);
    if (!whole)
        return x;
    const double bound = rg->bound[x.id];
    return rg_made(
        rg,
        bs_convert(rg->g, rg_made(rg, bs_activation(rg->g, x, BS_RELU, 0), bound), &(bs_convert_desc){.dtype = BS_I32}),
        bound);
}

static inline void rg_add_router(random_graph *rg, bs_value x)
{
    const bool nested = rg->g->domains[rg_info(rg, x)->domain].kind == BS_DOMAIN_PATH;
    const int32_t number = rg->n_names;
    bs_route_desc d = {
        .name = rg_name(rg, "r", number, ""), .paths = 1 + check_below(4), .threshold = (float)(check_below(7) - 3)};
    d.protocol = check_below(nested && rg_flip(60) ? BS_ROUTE_CAPACITY : BS_PROTOCOL_COUNT);
    if (d.protocol == BS_ROUTE_BINARY || d.protocol == BS_ROUTE_RESIDUAL_THRESHOLD)
        d.paths = 2;
    if (d.protocol == BS_ROUTE_TOPK || d.protocol == BS_ROUTE_CAPACITY)
        d.k = 1 + check_below(d.paths), d.normalise = rg_flip(30);
    if (d.protocol == BS_ROUTE_CAPACITY)
        d.capacity = 1 + check_below(6), d.spill = rg_flip(50) ? 0 : check_below(d.paths + 1);
    if (d.protocol == BS_ROUTE_THRESHOLD)
        d.fallback = check_below(d.paths + 1);
    if (d.protocol == BS_ROUTE_TABLE) {
        d.keys = d.paths;
        net_add_ints(rg->weights, rg_name(rg, "r", number, "table"), d.paths, rg_ints(rg, d.paths));
    }
    if (d.protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = 1 + check_below(5);
        d.variants = variants == d.paths ? 0 : variants;
        d.baseline = check_below((variants < d.paths ? variants : d.paths) + 1);
        d.floor = rg_flip(50) ? 0 : check_below(20);
        net_add_ints(rg->weights, rg_name(rg, "r", number, "cost"), variants, rg_ints(rg, 40));
        net_add_ints(rg->weights, rg_name(rg, "r", number, "path"), variants, rg_ints(rg, d.paths));
    }
    const bs_value score = rg_score(rg, x, &d);
    const bs_router r = bs_route(rg->g, score, rg_flip(50) ? rg->knob : (bs_value){0}, &d);
    if (rg_flip(20) && score.id)
        rg_made(rg, bs_route_score(rg->g, r), rg->bound[score.id]);
    if (d.protocol == BS_ROUTE_BUDGET && !rg->g->domains[rg_info(rg, x)->domain].loop)
        rg_made(rg, bs_route_price(rg->g, r), 20);
}

/* Whether rows can still be sent along its paths: it is no loop that has ended. */
static inline bool rg_router_is_open(const random_graph *rg, int32_t r)
{
    return !bs_router_loops(rg->g, r) || rg->g->routers[r].loop.again == 0;
}

static inline void rg_scatter(random_graph *rg)
{
    if (rg->g->n_routers == 1)
        return;
    const int32_t r = 1 + check_below(rg->g->n_routers - 1), domain = rg->g->routers[r].domain;
    const bs_value x = rg_pick(rg, domain, rg_flip(50) ? rg_is_any_image : rg_is_any_line);
    if (x.id && rg_router_is_open(rg, r))
        rg_made(rg, bs_scatter(rg->g, (bs_router){r}, check_below(rg->g->routers[r].desc->paths), x), rg->bound[x.id]);
}

static inline int32_t rg_path_domain(const random_graph *rg, int32_t router, int32_t path)
{
    for (int32_t d = 1; d < rg->g->n_domains; d++)
        if (rg->g->domains[d].kind == BS_DOMAIN_PATH && rg->g->domains[d].router == router &&
            rg->g->domains[d].path == path)
            return d;
    return -1;
}

static inline void rg_gather(random_graph *rg, int32_t r)
{
    const bs_router_info *router = &rg->g->routers[r];
    const int32_t first = check_below(router->desc->paths), from = rg_path_domain(rg, r, first);
    const bs_value model = from < 0 ? (bs_value){0} : rg_pick(rg, from, rg_flip(50) ? rg_is_any_image : rg_is_any_line);
    bs_value values[TEST_PATHS] = {{0}};
    double bound = 0;
    if (model.id == 0 || bs_router_loops(rg->g, r))
        return;
    for (int32_t p = 0; p < router->desc->paths; p++) {
        const int32_t domain = rg_path_domain(rg, r, p);
        if (p == first || (domain >= 0 && rg_flip(85)))
            values[p] = p == first ? model : rg_twin(rg, model, domain);
        bound += values[p].id ? rg->bound[values[p].id] : 0;
    }
    const bool f32 = rg_info(rg, model)->dtype == BS_F32;
    int32_t mode = check_below(4);
    if (!f32 || (mode == BS_GATHER_WEIGHTED && router->desc->normalise)) /* shares are not whole */
        mode = BS_GATHER_SELECT;
    if (mode == BS_GATHER_PLACE && router->max_paths_per_cell > 1)
        mode = BS_GATHER_SELECT;
    const bs_value residual = rg_flip(50) ? rg_twin(rg, model, router->domain) : (bs_value){0};
    const double gate = mode == BS_GATHER_WEIGHTED ? rg->bound[router->score] + 1 : 1;
    rg_made(rg, bs_gather(rg->g, (bs_router){r}, values, residual, &(bs_gather_desc){.mode = mode}),
            bound * gate + (residual.id ? rg->bound[residual.id] : 0));
}

#endif
