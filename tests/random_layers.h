/* random_layers.h - networks of real layers that grow at random: what they are made of, how values are chosen, and
 * layers. Convolutions have 3 x 3 weights for 16 to 64 channels, linear layers 64 to 512 outputs, images few pixels:
 * weights are heavier than rows. Numbers are fractions of about 1. What is made of layers: random_networks.h.
 * Owns: choice and cost. Relies on naive.h, which knows each op that is made here, and net.h. Must never: ask the
 * planner for anything. */
#ifndef BS_TEST_RANDOM_LAYERS_H
#define BS_TEST_RANDOM_LAYERS_H

#include "naive.h"
#define NET_TENSORS 256
#include "net.h"

#define RL_NAMES   1200
#define RL_OUTPUTS 8
#define RL_PATHS   4 /* of a router, at most */
#define RL_ROWS    5 /* of rows, at most */
#define RL_HEIGHT  8 /* of a frame, at most */
#define RL_WIDTH   6
#define RL_LINE    512 /* numbers of a line, at most */
#define RL_ELEMENTS (1 << 14) /* of an output, at most */
#define RL_FLOATS  (200 << 10) /* of all weights */
#define RL_PRODUCTS 1.6e6 /* of a run: the definition takes a nanosecond or two for each */

typedef struct random_layers {
    bs_graph *g;
    net_table *weights;
    char names[RL_NAMES][16];
    int32_t n_names, n_outputs, n_loops, n_seen;
    int32_t trips[TEST_ROUTERS]; /* of loops, at most */
    bool read[NAIVE_VALUES];     /* by one of the first n_seen nodes */
    double products;             /* of a run so far */
    bool frames, rows;
} random_layers;

static inline bool rl_flip(int32_t percent) { return check_below(100) < percent; }

static inline void rl_exceeded(const char *what)
{
    printf("FAIL a random network has too many %s\n", what);
    exit(1);
}

/* "c12", or "c12.weight". */
static inline const char *rl_name(random_layers *rl, const char *stem, int32_t number, const char *suffix)
{
    if (rl->n_names == RL_NAMES)
        rl_exceeded("names");
    char *name = rl->names[rl->n_names++];
    snprintf(name, sizeof rl->names[0], "%s%d%s%s", stem, number, *suffix ? "." : "", suffix);
    return name;
}

/* ---------------------------------------------------------------------------------------------------- choosing */

typedef bool (*rl_want)(const random_layers *rl, const bs_value_info *v);

static inline const bs_value_info *rl_info(const random_layers *rl, bs_value v) { return &rl->g->values[v.id]; }
static inline int64_t rl_extent(const random_layers *rl, const bs_value_info *v, int32_t axis)
{
    return bs_dim_max(rl->g, v->dims[axis]);
}
static inline int64_t rl_width(const random_layers *rl, bs_value v)
{
    return rl_extent(rl, rl_info(rl, v), rl_info(rl, v)->rank - 1);
}
static inline bool rl_in_patches(const random_layers *rl, const bs_value_info *v)
{
    return rl->g->domains[v->domain].patches >= 0;
}

/* Whether all extents from an axis on are constant. */
static inline bool rl_is_const(const random_layers *rl, const bs_value_info *v, int32_t axis)
{
    for (; axis < v->rank; axis++)
        if (!bs_dim_is_const(rl->g, v->dims[axis]))
            return false;
    return true;
}

static inline bool rl_is_line(const random_layers *rl, const bs_value_info *v)
{
    return v->dtype == BS_F32 && v->rank == 1 && rl_is_const(rl, v, 0) && rl_extent(rl, v, 0) <= RL_LINE;
}
static inline bool rl_is_image(const random_layers *rl, const bs_value_info *v)
{
    return v->dtype == BS_F32 && v->rank == 3 && bs_dim_is_const(rl->g, v->dims[0]) && rl_extent(rl, v, 0) <= 128;
}
/* Of constant height and width, which is no frame: it can be a line. */
static inline bool rl_is_whole(const random_layers *rl, const bs_value_info *v)
{
    return rl_is_image(rl, v) && rl_is_const(rl, v, 1) && !rl_in_patches(rl, v);
}
static inline bool rl_is_layer(const random_layers *rl, const bs_value_info *v)
{
    return rl_is_line(rl, v) || rl_is_image(rl, v);
}
/* What a loop goes over: some rows of anything else. */
static inline bool rl_is_series(const random_layers *rl, const bs_value_info *v)
{
    return v->dtype == BS_F32 && v->rank >= 2 && rl_extent(rl, v, 0) <= RL_ROWS && rl_is_const(rl, v, 1) &&
           !rl_in_patches(rl, v);
}
static inline bool rl_is_any(const random_layers *rl, const bs_value_info *v)
{
    (void)rl;
    return v->dtype == BS_F32;
}

static inline void rl_see_readers(random_layers *rl)
{
    for (; rl->n_seen < rl->g->n_nodes; rl->n_seen++)
        for (int32_t i = 0; i < rl->g->nodes[rl->n_seen].n_in; i++)
            rl->read[bs_node_in(rl->g, &rl->g->nodes[rl->n_seen])[i]] = true;
}

static inline bool rl_may_be_read(const random_layers *rl, int32_t id)
{
    const bs_value_info *v = &rl->g->values[id];
    return v->number > v[-1].number && naive_is_there(rl->g, id); /* and was not made by lifting */
}

/* A value of a domain that is wanted, which nothing reads if there is one; id 0: there is none. */
static inline bs_value rl_pick(random_layers *rl, int32_t domain, rl_want want)
{
    int32_t found[2] = {0, 0}, n[2] = {0, 0};
    rl_see_readers(rl);
    for (int32_t id = 1; id < rl->g->n_values; id++) {
        const bs_value_info *v = &rl->g->values[id];
        const int32_t read = rl->read[id];
        if (v->domain == domain && want(rl, v) && rl_may_be_read(rl, id) && check_below(++n[read]) == 0)
            found[read] = id;
    }
    return (bs_value){found[0] == 0 || (found[1] && rl_flip(25)) ? found[1] : found[0]};
}

/* Another value of a domain of the same shape; id 0: there is none. */
static inline bs_value rl_twin(random_layers *rl, bs_value x, int32_t domain)
{
    const bs_value_info *a = rl_info(rl, x);
    int32_t found = 0, n = 0;
    for (int32_t id = 1; id < rl->g->n_values; id++) {
        const bs_value_info *b = &rl->g->values[id];
        if (b->domain == domain && id != x.id && bs_same_shape(a, b) && a->scale_num == b->scale_num &&
            a->scale_den == b->scale_den && rl_may_be_read(rl, id) && check_below(++n) == 0)
            found = id;
    }
    return (bs_value){found};
}

/* -------------------------------------------------------------------------------------------------------- cost */

/* How often something is done for a domain: the rows there are, in all trips. */
static inline double rl_times(const random_layers *rl, int32_t domain)
{
    const bs_domain *d = &rl->g->domains[domain];
    if (domain == 0)
        return 1;
    if (d->kind != BS_DOMAIN_PATH)
        return (double)d->max_rows;
    return rl_times(rl, d->parent) * (bs_router_loops(rl->g, d->router) ? rl->trips[d->router] : 1);
}

/* Whether a layer of so many weights, each used so often for a row of x, may be added: then it is counted. */
static inline bool rl_affords(random_layers *rl, bs_value x, int64_t floats, int64_t uses)
{
    const double products = (double)floats * (double)uses * rl_times(rl, rl_info(rl, x)->domain);
    const int64_t before = rl->weights->next ? rl->weights->next - rl->weights->pool : 0;
    if (rl->products + products > RL_PRODUCTS || before + floats > RL_FLOATS ||
        rl->weights->table.count > NET_TENSORS - 80 || rl->g->n_nodes > 300)
        return false;
    rl->products += products;
    return true;
}

/* Weights which keep numbers about as large as they are. */
static inline void rl_weight(random_layers *rl, const char *stem, int32_t number, const char *suffix, int32_t rank,
                             const int64_t *dim)
{
    const float *const end = rl->weights->pool + sizeof rl->weights->pool / sizeof(float);
    int64_t each = 1;
    for (int32_t i = 1; i < rank; i++)
        each *= dim[i];
    if (rl->weights->table.count == NET_TENSORS || (rl->weights->next && end - rl->weights->next < dim[0] * each))
        rl_exceeded("weights");
    net_add(rl->weights, rl_name(rl, stem, number, suffix), rank, dim, rank == 1 ? 0.25f : sqrtf(3.0f / (float)each));
}

/* ------------------------------------------------------------------------------------------------------- layers */

/* Most layers are blocks of their own: weights that can be streamed. */
static inline bool rl_own_block(random_layers *rl, int32_t number)
{
    const bool own = rl_flip(70);
    if (own)
        bs_block_begin(rl->g, rl_name(rl, "b", number, ""));
    return own;
}

static inline bs_act rl_act(void)
{
    static const bs_act acts[8] = {BS_ACT_NONE, BS_ACT_NONE, BS_RELU, BS_RELU, BS_LEAKY_RELU, BS_SILU, BS_TANH,
                                   BS_SIGMOID};
    return acts[check_below(8)];
}

/* Of so many outputs; id 0 where that costs too much: what decides, of a few outputs, never does. */
static inline bs_value rl_linear(random_layers *rl, bs_value x, int32_t out, bs_act act)
{
    const int32_t number = rl->n_names;
    const int64_t width = rl_width(rl, x), dim[2] = {out, width};
    const int64_t lines = rl_info(rl, x)->rank == 1 ? 1 : rl_extent(rl, rl_info(rl, x), 0);
    if (!rl_affords(rl, x, out * width, lines) && out > RL_ROWS + 1)
        return (bs_value){0};
    const bool own = rl_own_block(rl, number);
    const bs_linear_desc desc = {.name = rl_name(rl, "l", number, ""), .out = out, .act = act};
    rl_weight(rl, "l", number, "weight", 2, dim);
    rl_weight(rl, "l", number, "bias", 1, dim);
    const bs_value y = bs_linear(rl->g, x, &desc);
    if (own)
        bs_block_end(rl->g);
    return y;
}

static inline bs_value rl_conv(random_layers *rl, bs_value x, int32_t out, int32_t kernel, int32_t stride)
{
    const int32_t number = rl->n_names;
    const bs_value_info *v = rl_info(rl, x);
    const int64_t c = rl_extent(rl, v, 0), pixels = rl_extent(rl, v, 1) * rl_extent(rl, v, 2);
    const int64_t dim[4] = {out, c, kernel, kernel};
    if (!rl_affords(rl, x, out * c * kernel * kernel, (pixels + stride - 1) / stride) && out * c > 64)
        return (bs_value){0};
    const bool own = rl_own_block(rl, number);
    const bs_conv2d_desc desc = {.name = rl_name(rl, "c", number, ""), .out = out, .kernel = kernel, .stride = stride,
                                 .act = rl_act(), .dilation = kernel == 3 && stride == 1 && rl_flip(10) ? 2 : 1};
    rl_weight(rl, "c", number, "weight", 4, dim);
    rl_weight(rl, "c", number, "bias", 1, dim);
    const bs_value y = bs_conv2d(rl->g, x, &desc);
    if (own)
        bs_block_end(rl->g);
    return y;
}

/* The widest that there is means for, of widths as networks have them. */
static inline bs_value rl_wide_conv(random_layers *rl, bs_value x)
{
    static const int32_t widths[6] = {16, 24, 32, 48, 64, 64};
    for (int32_t i = check_below(6); i >= 0; i -= 2) {
        const bs_value y = rl_conv(rl, x, widths[i], 3, 1);
        if (y.id)
            return y;
    }
    return rl_conv(rl, x, 4, 1, 1);
}

static inline bs_value rl_wide_linear(random_layers *rl, bs_value x)
{
    static const int32_t widths[6] = {64, 64, 128, 200, 256, 512};
    for (int32_t i = check_below(6); i >= 0; i--) {
        const bs_value y = rl_linear(rl, x, widths[i], rl_act());
        if (y.id)
            return y;
    }
    return rl_linear(rl, x, 16, rl_act());
}

/* What stands beside x: of its own domain, or of the root. */
static inline bs_value rl_beside(random_layers *rl, bs_value x)
{
    const int32_t domain = rl_info(rl, x)->domain;
    bs_value y = rl_info(rl, x)->rank == 1 && rl_flip(40) ? rl_twin(rl, x, 0) : (bs_value){0};
    if (y.id == 0)
        y = rl_twin(rl, x, domain);
    return y.id ? y : x;
}

static inline bs_value rl_pair(random_layers *rl, bs_value x)
{
    const bs_value y = rl_beside(rl, x);
    switch (check_below(4)) {
    case 0:
        return bs_sub(rl->g, x, y);
    case 1:
        return bs_clip(rl->g, bs_mul(rl->g, x, y), -4, 4);
    case 2:
        return bs_binary(rl->g, x, y, rl_flip(50) ? BS_BINARY_MIN : BS_BINARY_MAX);
    default:
        return bs_add(rl->g, x, y);
    }
}

static inline bs_value rl_alone(random_layers *rl, bs_value x)
{
    switch (check_below(3)) {
    case 0:
        return bs_affine(rl->g, x, 0.75f, -0.1f);
    case 1:
        return bs_clip(rl->g, x, -2, 2);
    default:
        return bs_activation(rl->g, x, rl_flip(50) ? BS_RELU : BS_TANH, 0);
    }
}

/* ------------------------------------------------------------------------------------------------------- images */

static inline bool rl_halves(const random_layers *rl, bs_value x)
{
    const bs_value_info *v = rl_info(rl, x);
    const int64_t least = rl_is_const(rl, v, 1) ? 2 : 6; /* frames of a run may be half as large */
    return rl_extent(rl, v, 1) >= least && rl_extent(rl, v, 2) >= least && v->scale_den == 1;
}

/* Half as high and wide, by one of three ways; id 0 where that costs too much. */
static inline bs_value rl_halved(random_layers *rl, bs_value x, int32_t out)
{
    const bs_pool2d_desc pool = {.kind = rl_flip(50) ? BS_POOL_MAX : BS_POOL_AVERAGE};
    /* of an odd extent a stride keeps one more than a pool */
    if (rl_flip(30) && rl_extent(rl, rl_info(rl, x), 1) % 2 == 0 && rl_extent(rl, rl_info(rl, x), 2) % 2 == 0 &&
        rl_is_const(rl, rl_info(rl, x), 1))
        return rl_conv(rl, x, out, 3, 2);
    const bs_value y = bs_pool2d(rl->g, x, &pool);
    return out == rl_extent(rl, rl_info(rl, x), 0) && rl_flip(50) ? y : rl_conv(rl, y, out, rl_flip(50) ? 3 : 1, 1);
}

static inline bs_value rl_larger(random_layers *rl, bs_value x)
{
    const bs_value_info *v = rl_info(rl, x);
    if (v->scale_num > 1 || rl_extent(rl, v, 1) > 4 || rl_extent(rl, v, 2) > 4)
        return rl_alone(rl, x);
    return rl_extent(rl, v, 0) % 4 == 0 && rl_flip(60) ? bs_pixel_shuffle(rl->g, x, 2)
                                                       : bs_resize(rl->g, x, &(bs_resize_desc){.factor = 2});
}

static inline bs_value rl_channels(random_layers *rl, bs_value x)
{
    const bs_value y = rl_beside(rl, x);
    const int64_t c = rl_extent(rl, rl_info(rl, x), 0);
    if (c > 4)
        return bs_slice(rl->g, x, &(bs_slice_desc){.start = 1, .length = (int32_t)c / 2});
    return rl_info(rl, y)->domain == rl_info(rl, x)->domain ? bs_concat(rl->g, (bs_value[]){x, y}, 2, 0) : x;
}

/* An image as a line: its pixels, or what is left of each channel. */
static inline bs_value rl_flat(random_layers *rl, bs_value x)
{
    const bs_value_info *v = rl_info(rl, x);
    if (rl_is_whole(rl, v) && rl_extent(rl, v, 0) * rl_extent(rl, v, 1) * rl_extent(rl, v, 2) <= RL_LINE && rl_flip(50))
        return bs_reshape(rl->g, x, BS_SHAPE1(-1));
    return bs_pool2d(rl->g, x, &(bs_pool2d_desc){.kind = rl_flip(50) ? BS_POOL_MAX : BS_POOL_AVERAGE, .global = 1});
}

/* A line as an image. */
static inline bs_value rl_folded(random_layers *rl, bs_value x)
{
    static const int32_t sides[4][2] = {{2, 2}, {1, 4}, {4, 2}, {4, 4}};
    const int32_t *side = sides[check_below(4)], width = (int32_t)rl_width(rl, x);
    if (rl_in_patches(rl, rl_info(rl, x)) || width % (side[0] * side[1]) != 0)
        return rl_alone(rl, x);
    return bs_reshape(rl->g, x, BS_SHAPE3(width / (side[0] * side[1]), side[0], side[1]));
}

static inline bs_value rl_image_op(random_layers *rl, bs_value x)
{
    bs_value y = {0};
    switch (check_below(9)) {
    case 0:
        y = rl_halves(rl, x) ? rl_halved(rl, x, 8) : (bs_value){0};
        break;
    case 1:
        y = rl_larger(rl, x);
        break;
    case 2:
        y = rl_channels(rl, x);
        break;
    case 3:
        y = rl_pair(rl, x);
        break;
    case 4:
        y = rl_flat(rl, x);
        break;
    case 5:
        y = rl_conv(rl, x, 4 + 4 * check_below(2), rl_flip(50) ? 1 : 3, 1);
        break;
    default:
        y = rl_wide_conv(rl, x);
        break;
    }
    return y.id ? y : rl_alone(rl, x);
}

static inline bs_value rl_line_op(random_layers *rl, bs_value x)
{
    switch (check_below(6)) {
    case 0:
        return rl_alone(rl, x);
    case 1:
        return rl_pair(rl, x);
    case 2:
        return rl_folded(rl, x);
    case 3:
        return rl_linear(rl, x, 16, rl_act());
    default:
        return rl_wide_linear(rl, x);
    }
}

/* Some layers on values of a domain. */
static inline void rl_ops(random_layers *rl, int32_t domain, int32_t count)
{
    for (int32_t i = 0; i < count && rl->g->status == BS_OK; i++) {
        const bs_value x = rl_pick(rl, domain, rl_is_layer);
        if (x.id)
            rl_info(rl, x)->rank == 3 ? rl_image_op(rl, x) : rl_line_op(rl, x);
    }
}

/* A line of a domain; id 0: nothing there can be one. */
static inline bs_value rl_line_of(random_layers *rl, int32_t domain)
{
    const bs_value line = rl_pick(rl, domain, rl_is_line), image = rl_pick(rl, domain, rl_is_image);
    return image.id && (line.id == 0 || rl_flip(50)) ? rl_flat(rl, image) : line;
}

/* A value of a domain that has the shape of another: one there is, or one that is made. */
static inline bs_value rl_shaped(random_layers *rl, bs_value like, int32_t domain)
{
    const bs_value_info v = *rl_info(rl, like);
    const bs_value twin = rl_flip(50) ? rl_twin(rl, like, domain) : (bs_value){0};
    if (twin.id)
        return twin;
    const bs_value image = rl_pick(rl, domain, rl_is_image), line = rl_line_of(rl, domain);
    const bs_value_info *i = rl_info(rl, image);
    bs_value made = {0};
    if (v.rank == 3 && image.id && i->dims[1] == v.dims[1] && i->dims[2] == v.dims[2] && i->scale_num == v.scale_num &&
        i->scale_den == v.scale_den)
        made = rl_conv(rl, image, (int32_t)rl_extent(rl, &v, 0), rl_flip(70) ? 3 : 1, 1);
    else if (v.rank == 3 && line.id && rl_is_whole(rl, &v)) {
        const int64_t c = rl_extent(rl, &v, 0), h = rl_extent(rl, &v, 1), w = rl_extent(rl, &v, 2);
        const bs_value all = rl_linear(rl, line, (int32_t)(c * h * w), BS_TANH);
        made = all.id ? bs_reshape(rl->g, all, BS_SHAPE3(c, h, w)) : all;
    } else if (v.rank == 1 && line.id) {
        made = rl_linear(rl, line, (int32_t)rl_extent(rl, &v, 0), rl_act());
    }
    return made.id ? made : rl_twin(rl, like, domain);
}

#endif
