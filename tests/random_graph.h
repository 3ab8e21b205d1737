/* random_graph.h - grows graphs at random: chains of ops in rows and patches, routers in routers, several frames,
 * nodes of all of them in any order. All numbers are small whole numbers, so f32 is exact (tests/naive.h).
 * What the builder would refuse is not tried; nothing else is left out on purpose. */
#ifndef BS_TEST_RANDOM_GRAPH_H
#define BS_TEST_RANDOM_GRAPH_H

#include "naive.h"

#define NET_TENSORS 256
#include "net.h"

#define RG_NAMES   400
#define RG_OUTPUTS 6
#define RG_MOST    1000.0 /* larger values are clipped: sums and products stay below 2^24 */

static bool rg_segments; /* rows come in segments: set before rg_begin */
static bool rg_shares;   /* layers may have the weights of others: likewise */
#define RG_SEGMENTS 5

/* A weight that other layers of its shape may have, too. */
typedef struct rg_weight {
    const char *stem;
    int32_t number;
    int64_t dim[4];
} rg_weight;

typedef struct random_graph {
    bs_graph *g;
    net_table *weights;
    double bound[NAIVE_VALUES]; /* |value| at most */
    char names[RG_NAMES][16];
    int32_t ints[64][16];
    int32_t n_names, n_ints, n_outputs, n_made;
    rg_weight made[64];
    bool rows, frames; /* what it works on */
    bool whole;        /* blocks are grown as a user writes them; else a node here, a node there */
    bs_value state[3], cells, knob, captured, lengths; /* states: rows, frame, the frame before that */
    bs_value reused;                          /* a frame that has become the state already */
} random_graph;

static inline bool rg_flip(int32_t percent) { return check_below(100) < percent; }

/* "c12", "c12.weight": weight 12's node, and one of its tensors. */
static inline const char *rg_name(random_graph *rg, const char *stem, int32_t number, const char *suffix)
{
    char *name = rg->names[rg->n_names++ % RG_NAMES];
    snprintf(name, sizeof rg->names[0], "%s%d%s%s", stem, number, *suffix ? "." : "", suffix);
    return name;
}

/* ---------------------------------------------------------------------------------------------------- choosing */

typedef bool (*rg_want)(const random_graph *rg, const bs_value_info *v);

static inline const bs_value_info *rg_info(const random_graph *rg, bs_value v) { return &rg->g->values[v.id]; }
static inline int64_t rg_extent(const random_graph *rg, const bs_value_info *v, int32_t axis)
{
    return bs_dim_max(rg->g, v->dims[axis]);
}

static inline bool rg_is_line(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 1 && v->dtype == BS_F32 && rg_extent(rg, v, 0) <= 8 &&
           v != &rg->g->values[rg->knob.id]; /* not whole */
}

static inline bool rg_is_image(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 3 && v->dtype == BS_F32 && rg_extent(rg, v, 0) <= 4;
}

static inline bool rg_is_any_image(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 3 && rg_extent(rg, v, 0) <= 4;
}

static inline bool rg_is_top_cells(const random_graph *rg, const bs_value_info *v)
{
    const bs_domain *d = &rg->g->domains[v->domain];
    const bool stacks = v->rank < 3 || bs_domain_is_patches(d);
    return d->kind == BS_DOMAIN_ROWS && stacks && v->rank > 0;
}

static inline bool rg_is_frame(const random_graph *rg, const bs_value_info *v)
{
    return v->domain == 0 && v->rank == 3 && rg_extent(rg, v, 0) <= 4;
}

static inline bool rg_is_table(const random_graph *rg, const bs_value_info *v)
{
    return v->domain == 0 && v->rank == 2 && v->dtype == BS_F32 && rg_extent(rg, v, 1) <= 8;
}

static inline bool rg_is_cell(const random_graph *rg, const bs_value_info *v)
{
    (void)rg;
    return v->domain > 0;
}

static inline bool rg_is_const(const random_graph *rg, bs_value v)
{
    return bs_dim_is_const(rg->g, rg_info(rg, v)->dims[0]);
}

static inline bool rg_is_routable(const random_graph *rg, const bs_value_info *v)
{
    int32_t depth = 0;
    for (int32_t d = v->domain; d > 0 && rg->g->domains[d].kind == BS_DOMAIN_PATH; d = rg->g->domains[d].parent)
        depth++;
    return v->domain > 0 && depth < 3 && rg_is_line(rg, v);
}

/* A value that is wanted, often a young one; id 0 when there is none. domain -1: any. */
static inline bs_value rg_pick(const random_graph *rg, int32_t domain, rg_want want)
{
    const int32_t n = rg->g->n_values - 1;
    for (int32_t tries = 0; tries < 60; tries++) {
        const int32_t young = n < 12 ? n : 12;
        const int32_t id = rg_flip(50) ? 1 + check_below(n) : n - check_below(young);
        const bs_value_info *v = &rg->g->values[id];
        if ((domain < 0 || v->domain == domain) && want(rg, v))
            return (bs_value){id};
    }
    return (bs_value){0};
}

/* Another value of the domain with the same shape; itself when there is none. */
static inline bs_value rg_twin(const random_graph *rg, bs_value x, int32_t domain)
{
    const bs_value_info *a = rg_info(rg, x);
    const int32_t n = rg->g->n_values - 1, start = rg_flip(60) ? n - 1 : check_below(n); /* the youngest, or any */
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = 1 + (start - i + n) % n;
        const bs_value_info *b = &rg->g->values[id];
        if (b->domain == domain && bs_same_shape(a, b) && a->scale_num == b->scale_num &&
            a->scale_den == b->scale_den && id != x.id)
            return (bs_value){id};
    }
    return (bs_value){0};
}

/* Records the bound of a new value, and clips it when it could grow too large. */
static inline bs_value rg_made(random_graph *rg, bs_value v, double bound)
{
    if (v.id == 0)
        return v;
    rg->bound[v.id] = bound;
    if (bound <= RG_MOST || rg_info(rg, v)->dtype != BS_F32)
        return v;
    const bs_value clipped = bs_clip(rg->g, v, -8, 8);
    rg->bound[clipped.id] = 8;
    return clipped;
}

/* --------------------------------------------------------------------------------------------------------- ops */

/* Now and then a layer is a block of its own: weights that can be streamed. */
static inline bool rg_own_block(random_graph *rg, int32_t number)
{
    const bool own = rg_flip(30);
    if (own)
        bs_block_begin(rg->g, rg_name(rg, "b", number, ""));
    return own;
}

/* Weight and bias of a layer, new ones or another layer's: the number in their name. */
static inline int32_t rg_weights(random_graph *rg, const char *stem, int32_t number, int32_t rank, const int64_t *dim)
{
    for (int32_t i = 0; rg_shares && i < rg->n_made; i++)
        if (strcmp(rg->made[i].stem, stem) == 0 && memcmp(rg->made[i].dim, dim, (size_t)rank * sizeof *dim) == 0 &&
            rg_flip(60))
            return rg->made[i].number;
    net_add_whole(rg->weights, rg_name(rg, stem, number, "weight"), rank, dim);
    net_add_whole(rg->weights, rg_name(rg, stem, number, "bias"), 1, dim);
    if (rg_shares && rg->n_made < 64) {
        rg_weight *made = &rg->made[rg->n_made++];
        made->stem = stem;
        made->number = number;
        memcpy(made->dim, dim, (size_t)rank * sizeof *dim);
    }
    return number;
}

static inline bs_value rg_linear(random_graph *rg, bs_value x, int32_t out)
{
    int32_t number = rg->n_names;
    const bool own = rg_own_block(rg, number);
    const int64_t inputs = rg_extent(rg, rg_info(rg, x), 0), dim[2] = {out, inputs};
    const bool act = rg_flip(30);
    number = rg_weights(rg, "l", number, 2, dim);
    const bs_value y = bs_linear(
        rg->g, x,
        &(bs_linear_desc){.name = rg_name(rg, "l", number, ""), .out = out, .act = act ? BS_CLIP : 0, .act_param = 8});
    if (own)
        bs_block_end(rg->g);
    return rg_made(rg, y, act ? 8 : (double)inputs * rg->bound[x.id] + 1);
}

static inline bs_value rg_conv(random_graph *rg, bs_value x)
{
    int32_t number = rg->n_names;
    const bool own = rg_own_block(rg, number);
    const bs_value_info *v = rg_info(rg, x);
    const int64_t c = rg_extent(rg, v, 0);
    const int32_t out = rg_flip(70) ? 2 : 4, k = rg_flip(70) ? 3 : 1,
                  stride = k == 3 && v->scale_den == 1 && rg_flip(10) ? 2 : 1;
    const int64_t dim[4] = {out, c, k, k};
    const bool act = rg_flip(50);
    number = rg_weights(rg, "c", number, 4, dim);
    const bs_value y = bs_conv2d(rg->g, x,
                                 &(bs_conv2d_desc){.name = rg_name(rg, "c", number, ""),
                                                   .out = out,
                                                   .kernel = k,
                                                   .stride = stride,
                                                   .dilation = k == 3 && stride == 1 && rg_flip(20) ? 2 : 1,
                                                   .act = act ? BS_CLIP : 0,
                                                   .act_param = 8});
    if (own)
        bs_block_end(rg->g);
    return rg_made(rg, y, act ? 8 : (double)(c * k * k) * rg->bound[x.id] + 1);
}

static inline bs_value rg_binary(random_graph *rg, bs_value x)
{
    const int32_t domain = rg_info(rg, x)->domain, op = check_below(3);
    bs_value y = rg_flip(80) ? rg_twin(rg, x, domain) : (bs_value){0};
    const bool channels = rg_extent(rg, rg_info(rg, x), 0) == 4;
    if (y.id == 0 && channels && rg_flip(60))
        y = rg->captured; /* [4] of the root: one a channel, or the same line */
    if (y.id == 0)
        y = x;
    const double a = rg->bound[x.id], b = rg->bound[y.id];
    const bs_value z = op == 0 ? bs_add(rg->g, x, y) : op == 1 ? bs_sub(rg->g, x, y) : bs_mul(rg->g, x, y);
    return rg_made(rg, z, op == 2 ? a * b : a + b);
}

static inline bs_value rg_unary(random_graph *rg, bs_value x)
{
    const double a = rg->bound[x.id];
    switch (check_below(3)) {
    case 0:
        return rg_made(rg, bs_affine(rg->g, x, (float)(check_below(4) - 2), (float)check_below(3)), 2 * a + 2);
    case 1:
        return rg_made(rg, bs_clip(rg->g, x, -5, 6), 6);
    default:
        return rg_made(rg, bs_activation(rg->g, x, BS_RELU, 0), a);
    }
}

/* Channels joined and taken apart, types to and fro. */
static inline bs_value rg_shuffle_data(random_graph *rg, bs_value x)
{
    const int64_t c = rg_extent(rg, rg_info(rg, x), 0);
    const double a = rg->bound[x.id];
    if (c <= 2 && rg_flip(50)) {
        bs_value pair[2] = {x, rg_twin(rg, x, rg_info(rg, x)->domain)};
        pair[1] = pair[1].id ? pair[1] : x;
        return rg_made(rg, bs_concat(rg->g, pair, 2, 0), a > rg->bound[pair[1].id] ? a : rg->bound[pair[1].id]);
    }
    if (c == 4 && rg_flip(50))
        return rg_made(rg, bs_slice(rg->g, x, &(bs_slice_desc){.start = check_below(3), .length = 2}), a);
    const bs_value codes =
        rg_made(rg, bs_convert(rg->g, x, &(bs_convert_desc){.dtype = rg_flip(50) ? BS_U8 : BS_I32}), a);
    return rg_made(rg, bs_convert(rg->g, codes, &(bs_convert_desc){.dtype = BS_F32}), a);
}

static inline bs_value rg_rescale(random_graph *rg, bs_value x)
{
    const bs_value_info *v = rg_info(rg, x);
    const double a = rg->bound[x.id];
    const bool may_grow = v->scale_num == 1 && rg_extent(rg, v, 1) <= 60, may_shrink = v->scale_den == 1;
    if (may_grow && rg_extent(rg, v, 0) == 4 && rg_flip(70))
        return rg_made(rg, bs_pixel_shuffle(rg->g, x, 2), a);
    if (may_grow && rg_flip(40))
        return rg_made(rg, bs_resize(rg->g, x, &(bs_resize_desc){.factor = 2}), a);
    if (may_shrink && rg_extent(rg, v, 0) == 1 && v->scale_num == 2)
        return rg_made(rg, bs_pixel_unshuffle(rg->g, x, 2), a);
    if (may_shrink && rg_flip(30))
        return rg_made(rg, bs_pool2d(rg->g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX}), a);
    return rg_made(rg,
                   bs_pool2d(rg->g, x,
                             &(bs_pool2d_desc){
                                 .kind = BS_POOL_MAX, .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1}),
                   a);
}

static inline void rg_line_op(random_graph *rg, bs_value x)
{
    switch (check_below(5)) {
    case 0:
        rg_linear(rg, x, 4);
        break;
    case 1:
        rg_binary(rg, x);
        break;
    case 2:
        rg_shuffle_data(rg, x);
        break;
    default:
        rg_unary(rg, x);
        break;
    }
}

static inline void rg_image_op(random_graph *rg, bs_value x)
{
    switch (check_below(9)) {
    case 0:
        rg_unary(rg, x);
        break;
    case 1:
    case 2:
        rg_binary(rg, x);
        break;
    case 3:
        rg_shuffle_data(rg, x);
        break;
    case 4:
        rg_rescale(rg, x);
        break;
    case 5:
        rg_made(rg, bs_pool2d(rg->g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}), rg->bound[x.id]);
        break;
    default:
        rg_conv(rg, x);
        break;
    }
}

/* ----------------------------------------------------------------------------------------------------- routers */

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
        desc->n_forces = 1;
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
    const int32_t width = d->protocol == BS_ROUTE_BUDGET ? bs_or_default(d->capacity, d->paths)
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
        d.capacity = 1 + check_below(6);
    if (d.protocol == BS_ROUTE_THRESHOLD)
        d.fallback = check_below(d.paths + 1);
    if (d.protocol == BS_ROUTE_TABLE) {
        d.capacity = d.paths;
        net_add_ints(rg->weights, rg_name(rg, "r", number, "table"), d.paths, rg_ints(rg, d.paths));
    }
    if (d.protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = 1 + check_below(5);
        d.capacity = variants == d.paths ? 0 : variants;
        d.fallback = check_below((variants < d.paths ? variants : d.paths) + 1);
        d.floor = rg_flip(50) ? 0 : check_below(20);
        net_add_ints(rg->weights, rg_name(rg, "r", number, "cost"), variants, rg_ints(rg, 40));
        net_add_ints(rg->weights, rg_name(rg, "r", number, "path"), variants, rg_ints(rg, d.paths));
    }
    const bs_value score = rg_score(rg, x, &d);
    const bs_router r = bs_route(rg->g, score, rg_flip(50) ? rg->knob : (bs_value){0}, &d);
    if (rg_flip(20) && score.id)
        rg_made(rg, bs_route_score(rg->g, r), rg->bound[score.id]);
    if (d.protocol == BS_ROUTE_BUDGET)
        rg_made(rg, bs_route_price(rg->g, r), 20);
}

static inline void rg_scatter(random_graph *rg)
{
    if (rg->g->n_routers == 1)
        return;
    const int32_t r = 1 + check_below(rg->g->n_routers - 1), domain = rg->g->routers[r].domain;
    const bs_value x = rg_pick(rg, domain, rg_flip(50) ? rg_is_any_image : rg_is_line);
    if (x.id)
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
    const bs_value model = from < 0 ? (bs_value){0} : rg_pick(rg, from, rg_flip(50) ? rg_is_any_image : rg_is_line);
    bs_value values[TEST_PATHS] = {{0}};
    double bound = 0;
    if (model.id == 0)
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

/* ------------------------------------------------------------------------------------------------ whole blocks */

static inline bool rg_is_read(const random_graph *rg, int32_t value)
{
    for (int32_t n = rg->g->values[value].node + 1; n < rg->g->n_nodes; n++)
        for (int32_t i = 0; i < rg->g->nodes[n].n_in; i++)
            if (bs_node_in(rg->g, &rg->g->nodes[n])[i] == value)
                return true;
    return false;
}

/* Adds up what nobody reads in a domain, so that little of the graph is dead. */
static inline void rg_fold(random_graph *rg, int32_t domain)
{
    bs_value left[NAIVE_VALUES];
    int32_t n = 0;
    for (int32_t v = 1; v < rg->g->n_values; v++)
        if (rg->g->values[v].domain == domain && rg->g->values[v].dtype == BS_F32 && rg->g->values[v].rank > 0 &&
            !rg_is_read(rg, v))
            left[n++] = (bs_value){v};
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n; k++) {
            const bs_value_info *a = rg_info(rg, left[i]), *b = rg_info(rg, left[k]);
            if (!bs_same_shape(a, b) || a->scale_num != b->scale_num || a->scale_den != b->scale_den ||
                rg->g->n_nodes > 400)
                continue;
            left[i] = rg_made(rg, bs_add(rg->g, left[i], left[k]), rg->bound[left[i].id] + rg->bound[left[k].id]);
            left[k] = left[--n];
            k--;
        }
}

static inline void rg_ops(random_graph *rg, int32_t domain, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const bs_value line = rg_pick(rg, domain, rg_is_line), image = rg_pick(rg, domain, rg_is_image);
        if (image.id && rg_flip(60))
            rg_image_op(rg, image);
        else if (line.id)
            rg_line_op(rg, line);
    }
}

/* A router with all its paths and what becomes of them; paths may hold routers of their own. */
static inline void rg_block(random_graph *rg, int32_t domain, int32_t depth)
{
    const bs_value x = rg_pick(rg, domain, rg_is_line);
    const int32_t r = rg->g->n_routers;
    if (x.id == 0 || r > 8 || rg->g->n_nodes > 300)
        return;
    rg_add_router(rg, x);
    for (int32_t p = 0; rg->g->status == BS_OK && p < rg->g->routers[r].desc->paths; p++) {
        const bs_value image = rg_pick(rg, domain, rg_is_any_image), line = rg_pick(rg, domain, rg_is_line);
        const bs_value in[2] = {image.id ? image : line, line};
        bs_block_begin(rg->g, rg_name(rg, "p", rg->n_names, ""));
        for (int32_t i = 0; i < 2; i++)
            if (in[i].id)
                rg_made(rg, bs_scatter(rg->g, (bs_router){r}, p, in[i]), rg->bound[in[i].id]);
        const int32_t inside = rg_path_domain(rg, r, p);
        if (inside >= 0) {
            rg_ops(rg, inside, check_below(4));
            if (depth < 3 && rg_flip(50))
                rg_block(rg, inside, depth + 1);
            rg_ops(rg, inside, check_below(3));
            rg_fold(rg, inside);
        }
        bs_block_end(rg->g);
    }
    for (int32_t i = 0; i < 3 && rg->g->status == BS_OK; i++)
        rg_gather(rg, r);
}

/* --------------------------------------------------------------------------------------------------- structure */

static inline void rg_to_root(random_graph *rg)
{
    const bs_value x = rg_pick(rg, -1, rg_is_top_cells);
    if (x.id == 0)
        return;
    rg_made(rg, rg_info(rg, x)->rank == 3 ? bs_assemble(rg->g, x) : bs_collect(rg->g, x), rg->bound[x.id]);
}

static inline bool rg_is_segment_line(const random_graph *rg, const bs_value_info *v)
{
    return bs_domain_is_segments(&rg->g->domains[v->domain]) && rg_is_line(rg, v);
}

static inline bool rg_is_segment_table(const random_graph *rg, const bs_value_info *v)
{
    return rg_is_table(rg, v) && v->dims[0] == rg_info(rg, rg->lengths)->dims[0];
}

/* From rows to segments, or back: what is in tiles must be whole for it. */
static inline void rg_segment_op(random_graph *rg)
{
    static const int32_t modes[3] = {BS_SEGMENT_LAST, BS_SEGMENT_SUM, BS_SEGMENT_MAX}; /* means are not whole */
    const bs_value line = rg_pick(rg, -1, rg_is_segment_line), table = rg_pick(rg, 0, rg_is_segment_table);
    const int32_t mode = modes[check_below(3)];
    if (line.id && rg_flip(50))
        rg_made(rg, bs_segment_reduce(rg->g, line, &(bs_segment_reduce_desc){.mode = mode}),
                rg->bound[line.id] * (mode == BS_SEGMENT_SUM ? 40 : 1));
    else if (line.id && table.id)
        rg_made(rg, bs_segment_spread(rg->g, table, line), rg->bound[table.id]);
}

/* Cells out of a root value: of a domain there is, or a new one. */
static inline void rg_to_cells(random_graph *rg)
{
    const bs_value frame = rg_pick(rg, 0, rg_is_frame), table = rg_pick(rg, 0, rg_is_table),
                   like = rg_pick(rg, -1, rg_is_cell);
    if (table.id && rg_flip(60)) {
        const bool enough =
            like.id && rg_extent(rg, rg_info(rg, table), 0) >= rg->g->domains[rg_info(rg, like)->domain].max_rows;
        const bool joins = enough && (rg_info(rg, table)->dims[0] == rg->g->domains[rg_info(rg, like)->domain].rows ||
                                      rg_is_const(rg, table));
        rg_made(rg, bs_rows(rg->g, table, joins ? like : (bs_value){0}), rg->bound[table.id]);
        return;
    }
    if (frame.id == 0)
        return;
    const bs_domain *d = &rg->g->domains[rg_info(rg, rg->cells)->domain];
    const bs_value_info *v = rg_info(rg, frame);
    const bool same = v->dims[1] == d->height && v->dims[2] == d->width;
    const bool twice = rg->g->dims[v->dims[1]].parent == d->height && rg->g->dims[v->dims[1]].mul == 2 &&
                       rg->g->dims[v->dims[1]].div == 1 && rg->g->dims[v->dims[1]].add == 0;
    if (same || twice)
        rg_made(rg, bs_patches(rg->g, frame, &(bs_patches_desc){.like = rg->cells.id}), rg->bound[frame.id]);
    else if (rg->g->n_domains < 24 && rg_flip(40))
        rg_made(rg, bs_patches(rg->g, frame, &(bs_patches_desc){.size = 8}), rg->bound[frame.id]);
}

static inline bs_value rg_input(random_graph *rg, const char *name, bs_dtype dtype, bs_shape shape, double bound)
{
    return rg_made(rg, bs_input(rg->g, name, dtype, shape), bound);
}

static inline void rg_begin(random_graph *rg, bs_graph *g, net_table *weights)
{
    memset(rg, 0, sizeof *rg);
    rg->g = g;
    rg->weights = weights;
    weights->table.count = 0;
    weights->next = NULL;
    rg->frames = rg_flip(70);
    rg->rows = !rg->frames || rg_flip(30) || rg_segments;
    rg->whole = rg_flip(60);
    rg->knob = rg_input(rg, "knob", BS_F32, BS_SHAPE1(1), 1);
    rg->captured = rg_input(rg, "captured", BS_F32, BS_SHAPE1(4), 8);
    if (rg->rows) {
        const bs_dim n = bs_symbol(g, "N", 40);
        const bs_value tokens = rg_input(rg, "tokens", BS_F32, BS_SHAPE2(n, 4), 8);
        if (rg_flip(30))
            rg->state[0] = rg_made(rg, bs_state(g, "rows_before", BS_F32, BS_SHAPE2(n, 4)), RG_MOST);
        const bs_value table = rg->state[0].id && rg_flip(50) ? rg->state[0] : tokens;
        if (rg_segments) {
            rg->lengths = rg_input(rg, "lengths", BS_I32, BS_SHAPE1(RG_SEGMENTS), 40);
            rg_input(rg, "per_segment", BS_F32, BS_SHAPE2(RG_SEGMENTS, 4), 8);
            rg_made(rg, bs_segments(g, table, rg->lengths), rg->bound[table.id]);
        } else {
            rg_made(rg, bs_rows(g, table, (bs_value){0}), rg->bound[table.id]);
        }
    }
    if (rg->frames) {
        if (rg_flip(30))
            rg_input(rg, "per_patch", BS_F32, BS_SHAPE2(48, 4), 8); /* a row for every patch, of 4 x 4 even */
        const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
        const bs_value frame = rg_input(rg, "frame", BS_F32, BS_SHAPE3(2, h, w), 8);
        if (rg_flip(30))
            rg_input(rg, "grey", BS_U8, BS_SHAPE3(1, h, w), 255);
        if (rg_flip(30))
            rg_input(rg, "twice", BS_F32, BS_SHAPE3(1, bs_times(g, h, 2), bs_times(g, w, 2)), 8);
        if (rg_flip(50))
            rg->state[1] = rg_made(rg, bs_state(g, "frame_before", BS_F32, BS_SHAPE3(2, h, w)), RG_MOST);
        if (rg_flip(20))
            rg->state[2] = rg_made(rg, bs_state(g, "earlier", BS_F32, BS_SHAPE3(2, h, w)), RG_MOST);
        rg->cells = rg_made(rg, bs_patches(g, frame, &(bs_patches_desc){.size = 8}), 8);
    }
}

/* Reuse of the last frame: cells that a router leaves alone keep their pixels. What else reads the last frame may come
 * before the new one, beside it, or after. */
static inline void rg_reuse(random_graph *rg)
{
    const bs_value old =
        rg_made(rg, bs_patches(rg->g, rg->state[1], &(bs_patches_desc){.like = rg->cells.id}), RG_MOST);
    const bs_value seen = rg_flip(50) ? rg_conv(rg, old) : old;
    const bs_value line =
        rg_made(rg, bs_pool2d(rg->g, seen, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}), RG_MOST);
    const int32_t r = rg->g->n_routers;
    rg_add_router(rg, line);
    if (rg->g->status != BS_OK || rg->g->routers[r].max_paths_per_cell > 1)
        return;
    bs_value out[TEST_PATHS] = {{0}};
    for (int32_t p = 0; p < rg->g->routers[r].desc->paths; p++) {
        const bs_value from = rg_flip(80) ? rg->cells : old;
        if (rg_flip(80)) {
            const bs_value x = rg_made(rg, bs_scatter(rg->g, (bs_router){r}, p, from), rg->bound[from.id]);
            out[p] = rg_flip(80) ? rg_twin(rg, rg_unary(rg, x), rg_info(rg, x)->domain) : x;
        }
    }
    for (int32_t p = 0; p < rg->g->routers[r].desc->paths; p++)
        if (out[p].id) {
            const bs_value all = bs_gather(rg->g, (bs_router){r}, out, rg_flip(70) ? old : (bs_value){0}, NULL);
            const bs_value frame = rg_made(rg, bs_assemble(rg->g, all), RG_MOST);
            bs_state_write(rg->g, rg->state[1], frame);
            rg->reused = frame;
            rg->bound[all.id] = RG_MOST;
            if (rg_flip(30)) /* others that want the last frame, whenever they run */
                rg_made(rg, bs_assemble(rg->g, rg_conv(rg, old)), RG_MOST);
            if (rg_flip(30))
                rg_made(rg, bs_assemble(rg->g, rg_made(rg, bs_gather(rg->g, (bs_router){r}, out, old, NULL), RG_MOST)),
                        RG_MOST);
            return;
        }
}

static inline void rg_step(random_graph *rg)
{
    const bs_value cell = rg_pick(rg, -1, rg_is_routable);
    if (rg->whole && cell.id && rg_flip(8)) {
        rg_block(rg, rg_info(rg, cell)->domain,
                 rg->g->domains[rg_info(rg, cell)->domain].kind == BS_DOMAIN_PATH ? 2 : 1);
        return;
    }

    if (rg_segments && rg_flip(12)) {
        rg_segment_op(rg);
        return;
    }
    const bs_value line = rg_pick(rg, -1, rg_is_line), image = rg_pick(rg, -1, rg_is_image),
                   routable = rg_pick(rg, -1, rg_is_routable);
    const int32_t what = check_below(100);
    if (what < 25 && line.id)
        rg_line_op(rg, line);
    else if (what < 55 && image.id)
        rg_image_op(rg, image);
    else if (what < 63 && routable.id && rg->g->n_routers < 7)
        rg_add_router(rg, routable);
    else if (what < 78)
        rg_scatter(rg);
    else if (what < 88 && rg->g->n_routers > 1)
        rg_gather(rg, 1 + check_below(rg->g->n_routers - 1));
    else if (what < 93)
        rg_to_root(rg);
    else if (what < 96 && rg->frames)
        rg_to_cells(rg);
    else if (what < 98 && rg->state[1].id && rg->reused.id == 0)
        rg_reuse(rg);
}

static inline bool rg_is_root(const random_graph *rg, const bs_value_info *v)
{
    (void)rg;
    return v->domain == 0;
}

/* Gathers what routers have sent out, writes the states, binds outputs. */
static inline void rg_end(random_graph *rg)
{
    static const char *const outputs[RG_OUTPUTS] = {"o0", "o1", "o2", "o3", "o4", "o5"};
    for (int32_t r = rg->g->n_routers - 1; r >= 1; r--) {
        for (int32_t p = 0; p < rg->g->routers[r].desc->paths && rg_flip(70); p++)
            rg_fold(rg, rg_path_domain(rg, r, p));
        for (int32_t i = 0; i < 2; i++)
            rg_gather(rg, r);
    }
    for (int32_t d = 0; d < rg->g->n_domains; d++)
        if (d > 0 && rg->g->domains[d].kind != BS_DOMAIN_PATH && rg_flip(70))
            rg_fold(rg, d);
    for (int32_t i = 0; i < 5; i++)
        rg_to_root(rg);
    if (rg_flip(70))
        rg_fold(rg, 0);
    const int32_t first = check_below(3);
    for (int32_t i = first; i < first + 3; i++) { /* in any order: one may take what another held */
        const bs_value state = rg->state[i % 3], v = state.id ? rg_twin(rg, state, 0) : (bs_value){0};
        if (v.id && !(i % 3 == 1 && rg->reused.id))
            bs_state_write(rg->g, state, v);
    }
    if (rg->reused.id && rg_flip(50))
        bs_output(rg->g, outputs[rg->n_outputs++], rg->reused);
    for (int32_t v = rg->g->n_values - 1, wanted = 1 + check_below(RG_OUTPUTS - 2); v >= 1 && rg->n_outputs < wanted;
         v--)
        if (rg->g->values[v].domain == 0 && !rg_is_read(rg, v) && rg_flip(80))
            bs_output(rg->g, outputs[rg->n_outputs++], (bs_value){v});
    const bs_value any = rg_pick(rg, 0, rg_is_root);
    bs_output(rg->g, outputs[rg->n_outputs++], any.id ? any : rg->captured);
}

/* False when the builder refused something after all. */
static inline bool rg_grow(random_graph *rg, bs_graph *g, net_table *weights, int32_t steps)
{
    rg_begin(rg, g, weights);
    for (int32_t i = 0; i < steps && g->status == BS_OK && g->n_values < 300 && weights->table.count < 200; i++)
        rg_step(rg);
    if (g->status == BS_OK)
        rg_end(rg);
    return g->status == BS_OK;
}

#endif
