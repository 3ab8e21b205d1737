/* naive.h - the oracle: evaluates a graph node by node as its definition reads, in double precision.
 * A cell of a frame is evaluated as if the whole frame had taken its decisions; its core is cut out at the end. No
 * plan, no tiles, no packed rows. With small integers everywhere (tests/random_graph.h) its numbers are those of f32,
 * exactly. Knows the ops that random graphs use, and no others. */
#ifndef BS_TEST_NAIVE_H
#define BS_TEST_NAIVE_H

#include "check.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "ops/structure.h"

#if !defined(NAIVE_VALUES) /* a test of large graphs says more, before */
#define NAIVE_VALUES  1024
#define NAIVE_DOMAINS 512
#define NAIVE_PATHS   64
#endif
#define NAIVE_ROUTERS 64
#define NAIVE_DIMS    512
#define NAIVE_POOL   ((size_t)24 << 20) /* doubles */
static double naive_pool[NAIVE_POOL];

typedef struct naive_choice {
    int32_t n, path[NAIVE_PATHS];
    float gate[NAIVE_PATHS];
} naive_choice;

/* What the caller gives for an input, and what is kept for a state. */
typedef struct naive_source {
    const char *name;
    const double *data; /* dense */
    int64_t dim[BS_MAX_RANK];
} naive_source;

typedef struct naive {
    const bs_graph *g;
    const bs_tensor_table *weights;
    const bs_plan_desc *desc; /* forces, patch_size */
    const naive_source *sources;
    int32_t n_sources;
    /* decides for BS_ROUTE_CALLBACK: the path of a cell from its scores */
    int32_t (*callback)(const double *scores, int32_t width, int32_t paths);
    size_t used;
    int64_t dims[NAIVE_DIMS];
    int32_t rows[NAIVE_DOMAINS];      /* of the top-level domain above */
    bool *present[NAIVE_DOMAINS];     /* [rows] */
    const double **cell[NAIVE_VALUES]; /* [rows] the tensor of each cell; NULL where it is not present */
    naive_choice *choice[NAIVE_ROUTERS];
    int64_t dropped[NAIVE_ROUTERS];
    int32_t counts[NAIVE_ROUTERS][NAIVE_PATHS];
    double price[NAIVE_ROUTERS];
    bs_status status;
} naive;

static inline void *naive_take(naive *n, size_t bytes)
{
    const size_t at = n->used;
    n->used += (bytes + sizeof(double) - 1) / sizeof(double);
    if (n->used > NAIVE_POOL) {
        printf("FAIL the oracle's pool is full\n");
        exit(1);
    }
    memset(naive_pool + at, 0, bytes);
    return naive_pool + at;
}

/* --------------------------------------------------------------------------------------------------- geometry */

static inline int64_t naive_dim(const naive *n, int32_t value, int32_t axis)
{
    return n->dims[n->g->values[value].dims[axis]];
}

static inline int64_t naive_elements(const naive *n, int32_t value)
{
    int64_t count = 1;
    for (int32_t i = 0; i < n->g->values[value].rank; i++)
        count *= naive_dim(n, value, i);
    return count;
}

static inline const bs_domain *naive_patches(const naive *n, int32_t domain)
{
    const int32_t patches = n->g->domains[domain].patches;
    return patches < 0 ? NULL : &n->g->domains[patches];
}

static inline int64_t naive_patch_size(const naive *n, const bs_domain *patches)
{
    return n->desc->patch_size ? n->desc->patch_size : patches->size;
}

typedef struct naive_box {
    int64_t y, x, h, w;
} naive_box;

/* The core of a cell of this value within its frame. */
static inline naive_box naive_core(const naive *n, int32_t value, int32_t row)
{
    const bs_value_info *v = &n->g->values[value];
    const bs_domain *patches = naive_patches(n, v->domain);
    naive_box box = {0, 0, naive_dim(n, value, 1), naive_dim(n, value, 2)};
    if (!patches)
        return box;
    const int64_t size = naive_patch_size(n, patches), cell = size * v->scale_num / v->scale_den;
    const int64_t across = (n->dims[patches->width] + size - 1) / size;
    box.y = row / across * cell;
    box.x = row % across * cell;
    box.h = box.y + cell < box.h ? cell : box.h - box.y;
    box.w = box.x + cell < box.w ? cell : box.w - box.x;
    return box;
}

static inline void naive_set_dims(naive *n)
{
    const bs_graph *g = n->g;
    for (int32_t d = 0; d < g->n_dims; d++)
        n->dims[d] = g->dims[d].maximum;
    for (int32_t k = 1; k < g->n_nodes; k++)
        for (int32_t s = 0; bs_node_is(&g->nodes[k], &bs_op_input) && s < n->n_sources; s++)
            for (int32_t i = 0; strcmp(n->sources[s].name, bs_node_name(&g->nodes[k])) == 0 &&
                                i < g->values[g->nodes[k].first_out].rank;
                 i++)
                n->dims[g->values[g->nodes[k].first_out].dims[i]] = n->sources[s].dim[i];
    for (int32_t d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_DERIVED)
            n->dims[d] = bs_floor_div(n->dims[g->dims[d].parent] * g->dims[d].mul + g->dims[d].add, g->dims[d].div);
}

static inline void naive_set_rows(naive *n)
{
    for (int32_t d = 0; d < n->g->n_domains; d++) {
        const bs_domain *domain = &n->g->domains[d];
        const int64_t size = bs_domain_is_patches(domain) ? naive_patch_size(n, domain) : 1;
        n->rows[d] = 1;
        if (domain->kind == BS_DOMAIN_ROWS && !bs_domain_is_patches(domain))
            n->rows[d] = (int32_t)n->dims[domain->rows];
        if (bs_domain_is_patches(domain))
            n->rows[d] =
                (int32_t)(((n->dims[domain->height] + size - 1) / size) * ((n->dims[domain->width] + size - 1) / size));
        if (domain->kind == BS_DOMAIN_PATH)
            n->rows[d] = n->rows[domain->parent];
        n->present[d] = naive_take(n, (size_t)n->rows[d]);
        memset(n->present[d], domain->kind != BS_DOMAIN_PATH, (size_t)n->rows[d]);
    }
}

/* --------------------------------------------------------------------------------------------------------- ops */

/* The one that was asked for last; another is looked for from there on: nodes and tensors have one order, as a rule. */
static const char *naive_last_name, *naive_last_suffix;
static int32_t naive_last;

static inline void naive_find_weight(const naive *n, const char *name, const char *suffix)
{
    char full[2 * BS_MAX_NAME];
    if (name == naive_last_name && suffix == naive_last_suffix)
        return;
    snprintf(full, sizeof full, "%s%s%s", name, *suffix ? "." : "", suffix);
    for (int32_t i = 0; i < n->weights->count; i++) {
        const int32_t at = (int32_t)(((int64_t)naive_last + i) % n->weights->count);
        if (strcmp(n->weights->tensors[at].name, full) != 0)
            continue;
        naive_last = at;
        naive_last_name = name;
        naive_last_suffix = suffix;
        return;
    }
    printf("FAIL the oracle has no weight \"%s\"\n", full);
    exit(1);
}

static inline double naive_weight(const naive *n, const char *name, const char *suffix, int64_t index)
{
    naive_find_weight(n, name, suffix);
    const bs_tensor *tensor = &n->weights->tensors[naive_last];
    return tensor->dtype == BS_I32 ? ((const int32_t *)tensor->data)[index]
                                   : (double)((const float *)tensor->data)[index];
}

static inline double naive_act(int32_t act, float param, double x)
{
    return (double)bs_act_apply((bs_act)act, param, 0.0f, (float)x);
}

static inline void naive_unary(const char *op, const bs_node *node, const double *x, double *y, int64_t count)
{
    const struct two {
        const char *name;
        union {
            float f;
            int32_t i;
        } a;
        float b;
    } *p = node->params;
    for (int64_t i = 0; i < count; i++)
        y[i] = strcmp(op, "affine") == 0 ? x[i] * (double)p->a.f + (double)p->b
               : strcmp(op, "clip") == 0 ? (x[i] < (double)p->a.f ? (double)p->a.f
                                            : x[i] > (double)p->b ? (double)p->b
                                                                  : x[i])
                                         : naive_act(p->a.i, p->b, x[i]);
}

/* add, sub, mul: b's dimensions may be 1, or b one value a channel of an image. */
static inline void naive_binary(const naive *n, const bs_node *node, const double *a, const double *b, double *y)
{
    const int32_t *in = bs_node_in(n->g, node);
    const bs_value_info *va = &n->g->values[in[0]], *vb = &n->g->values[in[1]];
    const char op = bs_op_get(node->op)->name[0];
    for (int64_t i = 0; i < naive_elements(n, in[0]); i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int32_t d = va->rank - 1; d >= 0; d--) {
            const int64_t extent = naive_dim(n, in[0], d), index = rest % extent;
            const bool used = d < vb->rank && va->dims[d] == vb->dims[d];
            at += used ? index * step : 0;
            step *= used ? extent : 1;
            rest /= extent;
        }
        y[i] = op == 'a' ? a[i] + b[at] : op == 's' ? a[i] - b[at] : a[i] * b[at];
    }
}

static inline void naive_linear(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_linear_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0];
    const int64_t inputs = naive_dim(n, in, n->g->values[in].rank - 1), lines = naive_elements(n, in) / inputs;
    for (int64_t l = 0; l < lines; l++)
        for (int32_t o = 0; o < p->out; o++) {
            double sum = p->no_bias ? 0 : naive_weight(n, p->name, "bias", o);
            for (int64_t k = 0; k < inputs; k++)
                sum += x[l * inputs + k] * naive_weight(n, p->name, "weight", o * inputs + k);
            y[l * p->out + o] = naive_act(p->act, p->act_param, sum);
        }
}

static inline void naive_conv(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_conv2d_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const int64_t c = naive_dim(n, in, 0), h = naive_dim(n, in, 1), w = naive_dim(n, in, 2);
    const int64_t oh = naive_dim(n, out, 1), ow = naive_dim(n, out, 2);
    const int32_t k = bs_or_default(p->kernel, 3), dilation = bs_or_default(p->dilation, 1),
                  stride = bs_or_default(p->stride, 1);
    const int32_t pad = p->padding == BS_PAD_DEFAULT ? dilation * (k - 1) / 2 : p->pad;
    double weight[16 * 16 * 25];
    for (int64_t i = 0; i < p->out * c * k * k; i++)
        weight[i] = naive_weight(n, p->name, "weight", i);
    for (int64_t o = 0; o < p->out; o++) {
        const double bias = p->no_bias ? 0 : naive_weight(n, p->name, "bias", o);
        for (int64_t oy = 0; oy < oh; oy++)
            for (int64_t ox = 0; ox < ow; ox++) {
                double sum = bias;
                for (int64_t i = 0; i < c * k * k; i++) {
                    const int64_t iy = oy * stride - pad + i / k % k * dilation,
                                  ix = ox * stride - pad + i % k * dilation;
                    if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                        sum += x[(i / k / k * h + iy) * w + ix] * weight[o * c * k * k + i];
                }
                y[(o * oh + oy) * ow + ox] = naive_act(p->act, p->act_param, sum);
            }
    }
}

/* Maxima of windows clipped to the frame, or of the core. */
static inline void naive_pool_max(const naive *n, const bs_node *node, int32_t row, const double *x, double *y)
{
    const bs_pool2d_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const int64_t h = naive_dim(n, in, 1), w = naive_dim(n, in, 2);
    const int32_t k = bs_or_default(p->kernel, 2), stride = bs_or_default(p->stride, k);
    const naive_box core = naive_core(n, in, row);
    const int64_t oh = p->global ? 1 : naive_dim(n, out, 1), ow = p->global ? 1 : naive_dim(n, out, 2);
    for (int64_t i = 0; i < naive_dim(n, in, 0) * oh * ow; i++) {
        const int64_t oy = i / ow % oh, ox = i % ow, c = i / ow / oh;
        const int64_t y0 = p->global ? core.y : oy * stride - p->pad, x0 = p->global ? core.x : ox * stride - p->pad;
        const int64_t kh = p->global ? core.h : k, kw = p->global ? core.w : k;
        double best = -INFINITY;
        for (int64_t ky = y0 < 0 ? 0 : y0; ky < y0 + kh && ky < h; ky++)
            for (int64_t kx = x0 < 0 ? 0 : x0; kx < x0 + kw && kx < w; kx++)
                best = x[(c * h + ky) * w + kx] > best ? x[(c * h + ky) * w + kx] : best;
        y[i] = best == -INFINITY ? 0 : best; /* a cell without pixels */
    }
}

/* Sample [c, y, x] of the smaller image of a shuffle or resize belongs to r x r of the larger. */
static inline void naive_enlarge(const naive *n, const bs_node *node, const char *op, const double *x, double *y)
{
    const int32_t in = bs_node_in(n->g, node)[0], out = node->first_out;
    const bs_resize_desc *resize = node->params;
    const int32_t r = strcmp(op, "resize") == 0 ? bs_or_default(resize->factor, 2)
                                                : ((const struct {
                                                       const char *name;
                                                       int32_t r;
                                                   } *)node->params)
                                                      ->r;
    const int64_t h = naive_dim(n, in, 1), w = naive_dim(n, in, 2), oh = naive_dim(n, out, 1),
                  ow = naive_dim(n, out, 2);
    for (int64_t i = 0; i < naive_elements(n, out); i++) {
        const int64_t c = i / ow / oh, oy = i / ow % oh, ox = i % ow;
        if (strcmp(op, "resize") == 0)
            y[i] = x[(c * h + oy / r) * w + ox / r];
        else if (strcmp(op, "pixel_shuffle") == 0)
            y[i] = x[((c * r * r + oy % r * r + ox % r) * h + oy / r) * w + ox / r];
        else
            y[i] = x[(c / (r * r) * h + oy * r + c / r % r) * w + ox * r + c % r];
    }
}

/* Along the first dimension of equal others: what concat and slice of random graphs do. */
static inline void naive_concat(const naive *n, const bs_node *node, const double *const *in, double *y)
{
    for (int32_t k = 0; k < node->n_in; k++)
        for (int64_t i = 0; i < naive_elements(n, bs_node_in(n->g, node)[k]); i++)
            *y++ = in[k][i];
}

static inline void naive_slice(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_slice_desc *p = node->params;
    const int64_t each = naive_elements(n, node->first_out) / p->length;
    memcpy(y, x + p->start * each, (size_t)(p->length * each) * sizeof *y);
}

static inline void naive_convert(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_convert_desc *p = node->params;
    const double low = p->dtype == BS_U8 ? 0 : -1e9, high = p->dtype == BS_U8 ? 255 : 1e9;
    for (int64_t i = 0; i < naive_elements(n, node->first_out); i++)
        y[i] = rint(x[i] < low ? low : x[i] > high ? high : x[i]);
}

/* The index of the largest, k times: values and indices are two outputs. */
static inline void naive_topk(const naive *n, const bs_node *node, const double *x, double *values, double *indices)
{
    const int64_t width = naive_elements(n, bs_node_in(n->g, node)[0]);
    bool taken[64] = {false};
    for (int64_t k = 0; k < naive_elements(n, node->first_out); k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < width; i++)
            if (!taken[i] && (best < 0 || x[i] > x[best]))
                best = i;
        taken[best] = true;
        values[k] = x[best];
        indices[k] = (double)best;
    }
}

/* ---------------------------------------------------------------------------------------------------- segments */

/* The segment of a row, and its first row. */
static inline int32_t naive_segment(const naive *n, int32_t domain, int32_t row, int32_t *first)
{
    const double *lengths = n->cell[n->g->domains[domain].lengths][0];
    int32_t segment = 0;
    *first = 0;
    while (row >= *first + (int32_t)lengths[segment])
        *first += (int32_t)lengths[segment++];
    return segment;
}

static inline void naive_segment_reduce(const naive *n, const bs_node *node, double *y)
{
    const int32_t x = bs_node_in(n->g, node)[0], mode = ((const bs_segment_reduce_desc *)node->params)->mode;
    const int32_t domain = n->g->values[x].domain;
    const int64_t each = naive_elements(n, x);
    for (int32_t row = 0; row < n->rows[domain]; row++) {
        int32_t first;
        const int32_t segment = naive_segment(n, domain, row, &first);
        const double count = n->cell[n->g->domains[domain].lengths][0][segment];
        for (int64_t i = 0; i < each; i++) {
            double *to = &y[segment * each + i];
            const double v = n->cell[x][row][i];
            *to = mode == BS_SEGMENT_LAST  ? v
                  : mode == BS_SEGMENT_MAX ? (row == first || v > *to ? v : *to)
                                           : *to + (mode == BS_SEGMENT_MEAN ? v / count : v);
        }
    }
}

/* Key or value (operand `kind`) of position j of a segment, element i: of this run or from the ring. */
static inline double naive_attended(const naive *n, const int32_t *in, int32_t kind, int32_t segment, int32_t first,
                                    int32_t past, int32_t j, int64_t i)
{
    const int64_t window = past ? naive_dim(n, in[3], 1) : 1, d = naive_dim(n, in[0], 0);
    return j >= past ? n->cell[in[kind]][first + j - past][i]
                     : n->cell[in[kind + 2]][0][(segment * window + j % window) * d + i];
}

static inline void naive_attention(const naive *n, const bs_node *node, int32_t row, double *y)
{
    const int32_t *in = bs_node_in(n->g, node);
    const bs_attention_desc *p = node->params;
    const int32_t heads = bs_or_default(p->heads, 1);
    int32_t first;
    const int32_t segment = naive_segment(n, node->domain, row, &first);
    const int32_t past = node->n_in == 6 ? (int32_t)n->cell[in[5]][0][segment] : 0, position = past + row - first;
    const int64_t d = naive_dim(n, in[0], 0), each = d / heads;
    const int32_t window = node->n_in == 6 ? (int32_t)naive_dim(n, in[3], 1) : position + 1;
    const int32_t low = position - window + 1 > 0 ? position - window + 1 : 0;
    for (int32_t h = 0; h < heads; h++) {
        const double slope = p->alibi ? pow(2.0, -8.0 * (h + 1) / heads) : 0;
        double top = -INFINITY, sum = 0;
        for (int32_t pass = 0; pass < 2; pass++)
            for (int32_t j = low; j <= position; j++) {
                double score = 0;
                for (int64_t i = h * each; i < (h + 1) * each; i++)
                    score += n->cell[in[0]][row][i] * naive_attended(n, in, 1, segment, first, past, j, i);
                score = score / sqrt((double)each) - slope * (position - j);
                if (pass == 0)
                    top = score > top ? score : top;
                sum += pass ? exp(score - top) : 0;
                for (int64_t i = h * each; pass && i < (h + 1) * each; i++)
                    y[i] += exp(score - top) * naive_attended(n, in, 2, segment, first, past, j, i);
            }
        for (int64_t i = h * each; i < (h + 1) * each; i++)
            y[i] /= sum;
    }
}

static inline void naive_op(naive *n, const bs_node *node, int32_t row, const double *const *in, double *const *out)
{
    const char *op = bs_op_get(node->op)->name;
    const bool binary = strcmp(op, "add") == 0 || strcmp(op, "sub") == 0 || strcmp(op, "mul") == 0;
    if (strcmp(op, "affine") == 0 || strcmp(op, "clip") == 0 || strcmp(op, "activation") == 0)
        naive_unary(op, node, in[0], out[0], naive_elements(n, node->first_out));
    else if (binary)
        naive_binary(n, node, in[0], in[1], out[0]);
    else if (strcmp(op, "linear") == 0)
        naive_linear(n, node, in[0], out[0]);
    else if (strcmp(op, "conv2d") == 0)
        naive_conv(n, node, in[0], out[0]);
    else if (strcmp(op, "pool2d") == 0)
        naive_pool_max(n, node, row, in[0], out[0]);
    else if (strcmp(op, "pixel_shuffle") == 0 || strcmp(op, "pixel_unshuffle") == 0 || strcmp(op, "resize") == 0)
        naive_enlarge(n, node, op, in[0], out[0]);
    else if (strcmp(op, "concat") == 0)
        naive_concat(n, node, in, out[0]);
    else if (strcmp(op, "slice") == 0)
        naive_slice(n, node, in[0], out[0]);
    else if (strcmp(op, "convert") == 0)
        naive_convert(n, node, in[0], out[0]);
    else if (strcmp(op, "topk") == 0)
        naive_topk(n, node, in[0], out[0], out[1]);
    else if (strcmp(op, "segment_spread") == 0) {
        int32_t first;
        const int64_t each = naive_elements(n, node->first_out);
        memcpy(out[0], in[0] + naive_segment(n, node->domain, row, &first) * each, (size_t)each * sizeof(double));
    } else if (strcmp(op, "segment_reduce") == 0)
        naive_segment_reduce(n, node, out[0]);
    else if (strcmp(op, "attention") == 0)
        naive_attention(n, node, row, out[0]);
    else {
        printf("FAIL the oracle does not know op %s\n", op);
        exit(1);
    }
}

/* --------------------------------------------------------------------------------------------------- decisions */

static inline int32_t naive_forced(const naive *n, int32_t router)
{
    for (int32_t f = n->desc->n_forces - 1; f >= 0; f--)
        if (strcmp(n->desc->forces[f].router, n->g->routers[router].desc->name) == 0)
            return n->desc->forces[f].path;
    return -1;
}

static inline void naive_choose(naive_choice *c, int32_t path, double gate)
{
    c->path[c->n] = path;
    c->gate[c->n++] = (float)gate;
}

static inline void naive_best(const bs_route_desc *d, int32_t k, const double *score, naive_choice *c)
{
    double order[NAIVE_PATHS], index[NAIVE_PATHS];
    bool taken[NAIVE_PATHS] = {false};
    float sum = 0;
    for (int32_t i = 0; i < k; i++) {
        int32_t best = -1;
        for (int32_t p = 0; p < d->paths; p++)
            if (!taken[p] && (best < 0 || score[p] > score[best]))
                best = p;
        taken[best] = true;
        order[i] = score[best], index[i] = best;
        sum += (float)score[best];
    }
    for (int32_t i = 0; i < k; i++)
        naive_choose(c, (int32_t)index[i],
                     d->normalise && sum > 0 && sum < INFINITY ? (double)((float)order[i] / sum) : order[i]);
}

/* One cell; `knob` is added to the threshold. */
static inline bs_status naive_route_cell(const naive *n, const bs_route_desc *d, const double *score, int32_t width,
                                         float knob, naive_choice *c)
{
    const double threshold = (double)(d->threshold + knob);
    int32_t path = -1;
    for (int32_t i = 0; i < width; i++)
        if (isnan(score[i]))
            return BS_ERROR_DATA;
    switch ((bs_protocol)d->protocol) {
    case BS_ROUTE_TOP1:
        naive_best(d, 1, score, c);
        return BS_OK;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY:
        naive_best(d, bs_or_default(d->k, 1), score, c);
        return BS_OK;
    case BS_ROUTE_THRESHOLD:
        for (int32_t p = 0; p < d->paths; p++)
            if (score[p] > threshold)
                naive_choose(c, p, score[p]);
        if (c->n == 0 && d->fallback)
            naive_choose(c, d->fallback - 1, score[d->fallback - 1]);
        return BS_OK;
    case BS_ROUTE_RESIDUAL_THRESHOLD:
        path = (double)((float)score[0] + (float)score[1]) < threshold ? 0 : 1;
        naive_choose(c, path, score[path]);
        return BS_OK;
    case BS_ROUTE_BINARY:
        naive_choose(c, score[0] >= threshold ? 0 : 1, score[0]);
        return BS_OK;
    case BS_ROUTE_LABEL:
        path = (int32_t)score[0];
        break;
    case BS_ROUTE_TABLE:
        if (score[0] < 0 || score[0] >= bs_or_default(d->capacity, 256))
            return BS_ERROR_DATA;
        path = (int32_t)naive_weight(n, d->name, "table", (int64_t)score[0]);
        break;
    case BS_ROUTE_CALLBACK:
        path = n->callback(score, width, d->paths);
        if (path == -1)
            return BS_OK;
        break;
    default:
        return BS_ERROR_UNSUPPORTED;
    }
    if (path < 0 || path >= d->paths)
        return BS_ERROR_DATA;
    naive_choose(c, path, 1);
    return BS_OK;
}

/* First choices before second ones; within a path the highest gate, then the lower row; the rest is dropped. */
static inline void naive_capacity(naive *n, int32_t router, const bool *present, int32_t rows)
{
    const bs_route_desc *d = n->g->routers[router].desc;
    naive_choice *all = n->choice[router];
    int32_t used[NAIVE_PATHS] = {0};
    bool *served = naive_take(n, (size_t)rows * NAIVE_PATHS);
    for (int32_t k = 0; k < bs_or_default(d->k, 1); k++)
        for (int32_t p = 0; p < d->paths; p++)
            for (; used[p] < d->capacity; used[p]++) {
                int32_t best = -1;
                for (int32_t r = 0; r < rows; r++)
                    if (present[r] && all[r].path[k] == p && !served[r * NAIVE_PATHS + k] &&
                        (best < 0 || all[r].gate[k] > all[best].gate[k]))
                        best = r;
                if (best < 0)
                    break;
                served[best * NAIVE_PATHS + k] = true;
            }
    for (int32_t r = 0; r < rows; r++) {
        naive_choice kept = {0, {0}, {0}};
        for (int32_t k = 0; present[r] && k < all[r].n; k++) {
            if (served[r * NAIVE_PATHS + k])
                naive_choose(&kept, all[r].path[k], (double)all[r].gate[k]);
            else
                n->dropped[router]++;
        }
        all[r] = kept;
    }
}

static inline double naive_area(const naive *n, int32_t domain, int32_t row)
{
    const bs_domain *patches = naive_patches(n, domain);
    if (!patches)
        return 1;
    const int64_t size = naive_patch_size(n, patches), across = (n->dims[patches->width] + size - 1) / size;
    const int64_t h = n->dims[patches->height] - row / across * size, w = n->dims[patches->width] - row % across * size;
    return (double)((h < size ? h : size) * (w < size ? w : size));
}

static inline int32_t naive_variants(const bs_route_desc *d) { return d->capacity ? d->capacity : d->paths; }

/* 2^(step / 8 - 12), in the library's fixed point: 256 stands for 2^-12 ... and the last step for "whatever it
 * costs". */
static inline int32_t naive_budget_choice(const naive *n, const bs_route_desc *d, const double *loss, int32_t step,
                                          double most)
{
    static const double mantissa[8] = {256, 279, 304, 332, 362, 395, 431, 470};
    int32_t best = -1;
    for (int32_t p = 0; p < naive_variants(d); p++) {
        if (loss[p] > most)
            continue;
        const double cost_p = naive_weight(n, d->name, "cost", p),
                     cost_best = best < 0 ? 0 : naive_weight(n, d->name, "cost", best);
        const double price = ldexp(mantissa[step & 7], (step >> 3) - 20);
        const bool cheaper = best < 0 || cost_p + price * loss[p] < cost_best + price * loss[best];
        const bool better = best < 0 || loss[p] < loss[best] || (loss[p] == loss[best] && cost_p < cost_best);
        best = (step == 200 ? better : cheaper) ? p : best;
    }
    return best;
}

/* alone: the step at which the budget is kept without a floor, -1 where that is what is sought. With a floor a cell
 * loses at most eight times as much, or as much as then. */
static inline int32_t naive_floor_choice(const naive *n, const bs_route_desc *d, const double *loss, int32_t step,
                                         int32_t alone)
{
    if (alone < 0)
        return naive_budget_choice(n, d, loss, step, INFINITY);
    double least = INFINITY;
    for (int32_t p = 0; p < naive_variants(d); p++)
        least = fmin(least, loss[p]);
    return naive_budget_choice(n, d, loss, step,
                               fmax(least + 8.0 * d->floor, loss[naive_budget_choice(n, d, loss, alone, INFINITY)]));
}

/* The first step, from the lowest price upwards, whose losses are allowed. */
static inline int32_t naive_budget_step(const naive *n, const bs_router_info *info, double allowed, int32_t alone)
{
    double loss = INFINITY;
    int32_t step = -1;
    while (loss > allowed && step < 200) {
        loss = 0;
        step++;
        for (int32_t r = 0; r < n->rows[info->domain]; r++)
            if (n->present[info->domain][r])
                loss += naive_area(n, info->domain, r) * n->cell[info->score][r][naive_floor_choice(
                                                             n, info->desc, n->cell[info->score][r], step, alone)];
    }
    return step;
}

static inline void naive_budget(naive *n, int32_t router, double share)
{
    const bs_router_info *info = &n->g->routers[router];
    const bs_route_desc *d = info->desc;
    double given = 0, unseen = 0, unavoidable = 0;
    for (int32_t r = 0; r < n->rows[info->domain]; r++) {
        const double *score = n->cell[info->score][r];
        double low = INFINITY, high = 0;
        if (!n->present[info->domain][r])
            continue;
        for (int32_t p = 0; p < naive_variants(d); p++) {
            low = score[p] < low ? score[p] : low;
            if (d->fallback == 0 || d->fallback == p + 1)
                high = score[p] > high ? score[p] : high;
        }
        given += naive_area(n, info->domain, r) * (high - low);
        unseen += naive_area(n, info->domain, r) * d->floor;
        unavoidable += naive_area(n, info->domain, r) * low;
    }
    given = floor(given * (share < 0 ? 0 : share > 1 ? 1 : share));
    const int32_t without = naive_budget_step(n, info, given + unavoidable, -1), alone = unseen > given ? without : -1;
    const int32_t step = alone < 0 ? without : naive_budget_step(n, info, unseen + unavoidable, alone);
    for (int32_t r = 0; r < n->rows[info->domain]; r++) {
        const double *score = n->cell[info->score][r];
        const int32_t variant = n->present[info->domain][r] ? naive_floor_choice(n, d, score, step, alone) : 0;
        if (n->present[info->domain][r])
            naive_choose(&n->choice[router][r], (int32_t)naive_weight(n, d->name, "path", variant), score[variant]);
    }
    n->price[router] = 12.0 - step / 8.0;
}

static inline void naive_route(naive *n, int32_t router)
{
    const bs_router_info *info = &n->g->routers[router];
    const int32_t rows = n->rows[info->domain], forced = naive_forced(n, router),
                  width = (int32_t)naive_elements(n, info->score);
    const bool *present = n->present[info->domain];
    const float knob = info->knob ? (float)n->cell[info->knob][0][0] : 0.0f;
    n->choice[router] = naive_take(n, (size_t)rows * sizeof(naive_choice));
    if (isnan(knob) && forced < 0)
        n->status = BS_ERROR_DATA;
    if (forced < 0 && info->desc->protocol == BS_ROUTE_BUDGET)
        naive_budget(n, router, (double)knob);
    for (int32_t r = 0; r < rows && info->desc->protocol != BS_ROUTE_BUDGET; r++) /* that one looks at all cells */
        if (present[r] && forced < 0 && n->status == BS_OK)
            n->status = naive_route_cell(n, info->desc, n->cell[info->score][r], width, knob, &n->choice[router][r]);
    for (int32_t r = 0; r < rows; r++)
        if (present[r] && forced >= 0)
            naive_choose(&n->choice[router][r], forced, 1);
    if (forced < 0 && info->desc->protocol == BS_ROUTE_CAPACITY && n->status == BS_OK)
        naive_capacity(n, router, present, rows);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t k = 0; k < n->choice[router][r].n; k++)
            n->counts[router][n->choice[router][r].path[k]]++;
    for (int32_t d = 1; d < n->g->n_domains; d++)
        for (int32_t r = 0; n->g->domains[d].kind == BS_DOMAIN_PATH && n->g->domains[d].router == router && r < rows;
             r++)
            for (int32_t k = 0; k < n->choice[router][r].n; k++)
                n->present[d][r] = n->present[d][r] || n->choice[router][r].path[k] == n->g->domains[d].path;
}

/* -------------------------------------------------------------------------------------------------- structure */

static inline void naive_gather(naive *n, const bs_node *node, int32_t row, double *y)
{
    const bs_gather_params *p = node->params;
    const int32_t *in = bs_node_in(n->g, node), paths = n->g->routers[node->router].desc->paths;
    const naive_choice *c = &n->choice[node->router][row];
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    const double *residual = in[paths] ? n->cell[in[paths]][row] : NULL;
    const int64_t count = naive_elements(n, node->first_out);
    int32_t best = -1;
    for (int32_t path = 0; path < paths; path++)
        for (int32_t k = 0; k < c->n; k++) {
            if (c->path[k] != path)
                continue;
            if (best < 0 || c->gate[k] > c->gate[best])
                best = k;
            for (int64_t i = 0; sums && in[path] != 0 && i < count; i++)
                y[i] += (p->mode == BS_GATHER_WEIGHTED ? (double)c->gate[k] : 1.0) * n->cell[in[path]][row][i];
        }
    if (best >= 0 && in[c->path[best]] == 0)
        best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (sums)
            y[i] += residual ? residual[i] : 0;
        else
            y[i] = best >= 0 ? n->cell[in[c->path[best]]][row][i] : residual ? residual[i] : 0;
    }
}

static inline void naive_assemble(naive *n, int32_t from, double *y)
{
    const int64_t c = naive_dim(n, from, 0), h = naive_dim(n, from, 1), w = naive_dim(n, from, 2);
    for (int32_t r = 0; r < n->rows[n->g->values[from].domain]; r++) {
        const naive_box core = naive_core(n, from, r);
        for (int64_t i = 0; i < c * core.h * core.w; i++) {
            const int64_t at = (i / core.w / core.h * h + core.y + i / core.w % core.h) * w + core.x + i % core.w;
            y[at] = n->cell[from][r][at];
        }
    }
}

static inline const double *naive_source_data(naive *n, const bs_node *node)
{
    for (int32_t s = 0; s < n->n_sources; s++)
        if (strcmp(n->sources[s].name, bs_node_name(node)) == 0)
            return n->sources[s].data;
    return naive_take(n, (size_t)naive_elements(n, node->first_out) * sizeof(double)); /* a state that was never set */
}

/* The tensor of one cell, where it is another value's; NULL where the node computes. */
static inline const double *naive_view(naive *n, const bs_node *node, int32_t row)
{
    const int32_t in = node->n_in ? bs_node_in(n->g, node)[0] : 0;
    if (bs_node_is(node, &bs_op_input) || bs_node_is(node, &bs_op_state))
        return naive_source_data(n, node);
    if (bs_node_is(node, &bs_op_patches))
        return n->cell[in][0];
    if (bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_segments))
        return n->cell[in][0] + row * naive_elements(n, node->first_out);
    return bs_node_is(node, &bs_op_scatter) ? n->cell[in][row] : NULL;
}

/* Cells whose operands are the same tensors have the same result: no need to work it out again. */
static inline bool naive_same_operands(const naive *n, const bs_node *node, int32_t a, int32_t b)
{
    if (bs_op_get(node->op)->flags & BS_OP_ACROSS)
        return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t in = bs_node_in(n->g, node)[i];
        if (n->g->values[in].domain != 0 && n->cell[in][a] != n->cell[in][b])
            return false;
    }
    return true;
}

static inline void naive_cell(naive *n, const bs_node *node, int32_t row, int32_t before)
{
    double *out[BS_MAX_OUTPUTS] = {NULL, NULL};
    const double *in[BS_MAX_OPERANDS];
    const bool global =
        strcmp(bs_op_get(node->op)->name, "pool2d") == 0 && ((const bs_pool2d_desc *)node->params)->global;
    const double *view = naive_view(n, node, row);
    const bool kernel = !(bs_op_get(node->op)->flags & BS_OP_STRUCTURAL);
    for (int32_t i = 0; i < node->n_out; i++) {
        if (kernel && !global && before >= 0 && naive_same_operands(n, node, row, before))
            n->cell[node->first_out + i][row] = n->cell[node->first_out + i][before];
        else if (view)
            n->cell[node->first_out + i][row] = view;
        else
            n->cell[node->first_out + i][row] = out[i] =
                naive_take(n, (size_t)naive_elements(n, node->first_out + i) * sizeof(double));
    }
    for (int32_t i = 0; kernel && i < node->n_in; i++) {
        const int32_t id = bs_node_in(n->g, node)[i];
        in[i] = n->cell[id][n->g->values[id].domain == 0 ? 0 : row];
    }
    if (!out[0])
        return;
    if (kernel)
        naive_op(n, node, row, in, out);
    else if (bs_node_is(node, &bs_op_gather))
        naive_gather(n, node, row, out[0]);
    else if (bs_node_is(node, &bs_op_assemble))
        naive_assemble(n, bs_node_in(n->g, node)[0], out[0]);
    else if (bs_node_is(node, &bs_op_route_price))
        out[0][0] = n->price[node->router];
    else if (bs_node_is(node, &bs_op_route_score)) {
        const bs_router_info *router = &n->g->routers[node->router];
        const naive_choice *c = &n->choice[node->router][row];
        const bool budget = router->desc->protocol == BS_ROUTE_BUDGET && naive_forced(n, node->router) < 0;
        const int64_t width = naive_elements(n, router->score), at = width == 1 || c->n == 0 ? 0 : c->path[0];
        out[0][0] = c->n == 0 ? 0 : budget ? (double)c->gate[0] : at < width ? n->cell[router->score][row][at] : 0;
    } else if (bs_node_is(node, &bs_op_collect)) {
        const int32_t from = bs_node_in(n->g, node)[0];
        const int64_t each = naive_elements(n, from);
        for (int32_t r = 0; r < n->rows[n->g->values[from].domain]; r++)
            memcpy(out[0] + r * each, n->cell[from][r], (size_t)each * sizeof(double));
    }
}

static inline void naive_node(naive *n, int32_t k)
{
    const bs_node *node = &n->g->nodes[k];
    int32_t before = -1;
    if (bs_node_is(node, &bs_op_route))
        naive_route(n, node->router);
    for (int32_t i = 0; i < node->n_out; i++)
        n->cell[node->first_out + i] = naive_take(n, (size_t)n->rows[node->domain] * sizeof(double *));
    for (int32_t r = 0; node->n_out > 0 && r < n->rows[node->domain]; r++) {
        if (!n->present[node->domain][r])
            continue;
        naive_cell(n, node, r, before);
        before = r;
    }
}

/* Every value of the graph. BS_ERROR_DATA when a router meets what it must refuse. */
static inline bs_status naive_run(naive *n)
{
    n->used = 0;
    n->status = BS_OK;
    naive_last_name = NULL;
    naive_last = 0;
    memset(n->dropped, 0, sizeof n->dropped);
    memset(n->counts, 0, sizeof n->counts);
    naive_set_dims(n);
    naive_set_rows(n);
    for (int32_t k = 1; k < n->g->n_nodes && n->status == BS_OK; k++)
        naive_node(n, k);
    return n->status;
}

#endif
