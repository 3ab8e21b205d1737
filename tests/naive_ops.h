/* naive_ops.h - ops as their definition reads, in double precision: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_OPS_H
#define BS_TEST_NAIVE_OPS_H

#include "naive_graph.h"

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

static inline double naive_gate(const naive *n, const char *name, const char *of, int64_t line, const double *x,
                                int64_t count, bool no_bias)
{
    double sum = no_bias ? 0 : naive_weight(n, name, *of == 'i' ? "bias_ih" : "bias_hh", line);
    for (int64_t k = 0; k < count; k++)
        sum += x[k] * naive_weight(n, name, *of == 'i' ? "weight_ih" : "weight_hh", line * count + k);
    return sum;
}

/* lstm (three operands) and gru: gates in PyTorch's order. */
static inline void naive_recurrent(const naive *n, const bs_node *node, const double *const *in, double *const *out)
{
    const bs_recurrent_desc *p = node->params;
    const int32_t *ids = bs_node_in(n->g, node), last = n->g->values[ids[0]].rank - 1;
    const int64_t inputs = naive_dim(n, ids[0], last), units = naive_dim(n, ids[1], last);
    const bool lstm = node->n_in == 3;
    for (int64_t i = 0; i < naive_elements(n, ids[1]); i++) {
        const double *x = in[0] + i / units * inputs, *h = in[1] + i / units * units;
        double of_x[4], of_h[4], gate[4];
        for (int64_t k = 0; k < 3 + lstm; k++) {
            of_x[k] = naive_gate(n, p->name, "ih", k * units + i % units, x, inputs, p->no_bias);
            of_h[k] = naive_gate(n, p->name, "hh", k * units + i % units, h, units, p->no_bias);
            gate[k] = naive_act(lstm && k == 2 ? BS_TANH : BS_SIGMOID, 0, of_x[k] + of_h[k]);
        }
        if (lstm) {
            out[1][i] = gate[1] * in[2][i] + gate[0] * gate[2];
            out[0][i] = gate[3] * naive_act(BS_TANH, 0, out[1][i]);
        } else {
            const double next = naive_act(BS_TANH, 0, of_x[2] + gate[0] * of_h[2]);
            out[0][i] = (1 - gate[1]) * next + gate[1] * in[1][i];
        }
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

/* So does roll: the first dimension turns round. */
static inline void naive_roll(const naive *n, const bs_node *node, const double *x, double *y)
{
    const int64_t count = naive_dim(n, node->first_out, 0), each = naive_elements(n, node->first_out) / count;
    const int32_t shift = ((const bs_roll_desc *)node->params)->shift;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = i - shift;
        while (from < 0)
            from += count;
        memcpy(y + i * each, x + from % count * each, (size_t)each * sizeof *y);
    }
}

/* Elements of lines by index: y[i] = x[index[i]], or y[index[i]] = or += u[i]. */
static inline void naive_indexed(const naive *n, const bs_node *node, const char *op, const double *const *in,
                                 double *y)
{
    const int32_t *operands = bs_node_in(n->g, node);
    const int64_t count = naive_elements(n, operands[1]);
    const bool reads = op[0] == 'g' || op[1] == 'e'; /* gather_elements, select */
    for (int64_t i = 0; !reads && i < naive_elements(n, operands[0]); i++)
        y[i] = in[0][i];
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = (int64_t)in[1][i];
        if (reads)
            y[i] = in[0][index];
        else
            y[index] = in[2][i] + (((const bs_update_desc *)node->params)->update == BS_UPDATE_ADD ? y[index] : 0);
    }
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

/* The value of element i of x when reduced so far to r: sums, maxima, minima, products, sums of squares and of |x|. */
static inline double naive_reduce_step(int32_t kind, double r, double v, bool first)
{
    const double term = kind == BS_REDUCE_SUM_SQUARE ? v * v : kind == BS_REDUCE_L1 ? fabs(v) : v;
    if (first)
        return term;
    return kind == BS_REDUCE_MAX   ? fmax(r, term)
           : kind == BS_REDUCE_MIN ? fmin(r, term)
           : kind == BS_REDUCE_PROD ? r * term
                                    : r + term;
}

/* Dimensions axis .. axis + axes - 1, each once: element i of x belongs to result out[i / after / n * after + i % after].
 */
static inline void naive_reduce(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_reduce_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0], rank = n->g->values[in].rank, axes = bs_or_default(p->axes, 1),
                  axis = p->axis < 0 ? p->axis + rank : p->axis;
    int64_t length = 1, after = 1;
    for (int32_t d = axis; d < axis + axes; d++)
        length *= naive_dim(n, in, d);
    for (int32_t d = axis + axes; d < rank; d++)
        after *= naive_dim(n, in, d);
    for (int64_t i = 0; i < naive_elements(n, in); i++) {
        double *to = &y[i / after / length * after + i % after];
        *to = naive_reduce_step(p->kind, *to, x[i], i / after % length == 0);
    }
}

/* Along the only dimension. */
static inline void naive_cumsum(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_cumsum_desc *p = node->params;
    const int64_t width = naive_elements(n, node->first_out);
    for (int64_t i = 0; i < width; i++)
        for (int64_t k = 0; k < width; k++)
            y[i] += (k == i && !p->exclusive) || (p->reverse ? k > i : k < i) ? x[k] : 0;
}

/* Of the last dimension. */
static inline void naive_arg(const naive *n, const bs_node *node, bool least, const double *x, double *y)
{
    const int32_t in = bs_node_in(n->g, node)[0];
    const int64_t width = naive_dim(n, in, n->g->values[in].rank - 1);
    for (int64_t l = 0; l < naive_elements(n, in) / width; l++) {
        y[l] = 0;
        for (int64_t i = 1; i < width; i++) {
            const double v = x[l * width + i], best = x[l * width + (int64_t)y[l]];
            y[l] = (least ? v < best : v > best) ? (double)i : y[l];
        }
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

static inline double naive_index(const naive *n, const bs_node *node, int32_t row)
{
    int32_t first;
    const int32_t segment = naive_segment(n, node->domain, row, &first);
    return row - first + (node->n_in == 2 ? n->cell[bs_node_in(n->g, node)[1]][0][segment] : 0);
}

/* Of cells [heads features]. */
static inline void naive_rope(const naive *n, const bs_node *node, const double *x, double position, double *y)
{
    const bs_rope_desc *p = node->params;
    const int64_t width = naive_elements(n, node->first_out), each = width / bs_or_default(p->heads, 1),
                  m = (p->dims ? p->dims : each) / 2;
    for (int64_t i = 0; i < width; i++) {
        const int64_t e = i % each, pair = p->interleaved ? e / 2 : e % m;
        const bool first = p->interleaved ? e % 2 == 0 : e < m;
        const double angle = position * pow(p->base == 0 ? 10000.0 : (double)p->base, -(double)pair / (double)m),
                     other = e < 2 * m ? x[p->interleaved ? i ^ 1 : first ? i + m : i - m] : 0;
        y[i] = e < 2 * m ? x[i] * cos(angle) + (first ? -other : other) * sin(angle) : x[i];
    }
}

/* Key or value (operand `kind`) of position j of a segment, element i: of this run or from the ring. */
static inline double naive_attended(const naive *n, const int32_t *in, int32_t kind, int32_t segment, int32_t first,
                                    int32_t past, int32_t j, int64_t i)
{
    const int64_t window = past ? naive_dim(n, in[3], 1) : 1, d = naive_dim(n, in[1], 0);
    return j >= past ? n->cell[in[kind]][first + j - past][i]
                     : n->cell[in[kind + 2]][0][(segment * window + j % window) * d + i];
}

/* One row: which positions it attends to. */
typedef struct naive_attend {
    const bs_attention_desc *desc;
    const int32_t *in;
    int32_t n_in, segment, first_key, past, position, low, end;
} naive_attend;

static inline naive_attend naive_attend_of(const naive *n, const bs_node *node, int32_t row)
{
    naive_attend a = {.desc = node->params, .in = bs_node_in(n->g, node), .n_in = node->n_in};
    const int32_t keys = n->g->values[a.in[1]].domain;
    const double *lengths = n->cell[n->g->domains[keys].lengths][0];
    int32_t first;
    a.segment = naive_segment(n, node->domain, row, &first);
    for (int32_t s = 0; s < a.segment; s++)
        a.first_key += (int32_t)lengths[s];
    const bool cached = a.n_in > 5;
    a.past = cached ? (int32_t)n->cell[a.in[5]][0][a.segment] : 0;
    a.position = row - first + (keys == node->domain ? a.past : 0);
    a.end = a.desc->bidirectional ? a.past + (int32_t)lengths[a.segment] : a.position + 1;
    if (cached) {
        const int32_t window = (int32_t)naive_dim(n, a.in[3], 1);
        a.low = (a.desc->bidirectional ? a.past : a.end) - window;
        a.low = a.low > 0 ? a.low : 0;
    }
    return a;
}

/* What is added to the score of head h and position j. */
static inline double naive_attend_added(const naive *n, const naive_attend *a, int32_t h, int32_t heads, int32_t j)
{
    const double slope = a->desc->alibi ? pow(2.0, -8.0 * (h + 1) / heads) : 0;
    const int32_t m = a->in[a->n_in - 1];
    const double added = -slope * abs(a->position - j);
    if (a->n_in % 3 != 1)
        return added;
    if (n->g->values[m].rank < 3) {
        const double v = n->cell[m][a->first_key + j][0];
        return n->g->values[m].dtype != BS_I32 ? added + v : v != 0 ? added : -INFINITY;
    }
    const int64_t p = naive_dim(n, m, 1), keys = naive_dim(n, m, 2);
    return added + n->cell[m][0][((naive_dim(n, m, 0) > 1 ? h : 0) * p + a->position) * keys + j];
}

static inline void naive_attention(const naive *n, const bs_node *node, int32_t row, double *y)
{
    const naive_attend a = naive_attend_of(n, node, row);
    const int32_t heads = bs_or_default(a.desc->heads, 1), shared = heads / bs_or_default(a.desc->kv_heads, heads);
    const int64_t each = naive_dim(n, a.in[0], 0) / heads;
    const double scale = a.desc->scale != 0.0f ? (double)a.desc->scale : 1 / sqrt((double)each);
    for (int32_t h = 0; h < heads; h++) {
        double top = -INFINITY, sum = 0;
        for (int32_t pass = 0; pass < 2; pass++)
            for (int32_t j = a.low; j < a.end; j++) {
                double score = 0;
                for (int64_t i = 0; i < each; i++)
                    score += n->cell[a.in[0]][row][h * each + i] *
                             naive_attended(n, a.in, 1, a.segment, a.first_key, a.past, j, h / shared * each + i);
                score = score * scale + naive_attend_added(n, &a, h, heads, j);
                if (pass == 0)
                    top = score > top ? score : top;
                if (pass == 0 || score == -INFINITY)
                    continue;
                sum += exp(score - top);
                for (int64_t i = 0; i < each; i++)
                    y[h * each + i] += exp(score - top) * naive_attended(n, a.in, 2, a.segment, a.first_key, a.past, j,
                                                                         h / shared * each + i);
            }
        for (int64_t i = h * each; i < (h + 1) * each; i++)
            y[i] = sum > 0 ? y[i] / sum : 0;
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
    else if (strcmp(op, "lstm") == 0 || strcmp(op, "gru") == 0)
        naive_recurrent(n, node, in, out);
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
    else if (strcmp(op, "roll") == 0)
        naive_roll(n, node, in[0], out[0]);
    else if (strcmp(op, "select") == 0 || strcmp(op, "gather_elements") == 0 || strncmp(op, "scatter_", 8) == 0)
        naive_indexed(n, node, op, in, out[0]);
    else if (strcmp(op, "convert") == 0)
        naive_convert(n, node, in[0], out[0]);
    else if (strcmp(op, "reduce") == 0)
        naive_reduce(n, node, in[0], out[0]);
    else if (strcmp(op, "cumsum") == 0)
        naive_cumsum(n, node, in[0], out[0]);
    else if (strcmp(op, "argmax") == 0 || strcmp(op, "argmin") == 0)
        naive_arg(n, node, op[3] == 'm' && op[4] == 'i', in[0], out[0]);
    else if (strcmp(op, "topk") == 0)
        naive_topk(n, node, in[0], out[0], out[1]);
    else if (strcmp(op, "segment_spread") == 0) {
        int32_t first;
        const int64_t each = naive_elements(n, node->first_out);
        memcpy(out[0], in[0] + naive_segment(n, node->domain, row, &first) * each, (size_t)each * sizeof(double));
    } else if (strcmp(op, "segment_reduce") == 0)
        naive_segment_reduce(n, node, out[0]);
    else if (strcmp(op, "segment_index") == 0)
        out[0][0] = naive_index(n, node, row);
    else if (strcmp(op, "rope") == 0)
        naive_rope(n, node, in[0], in[1][0], out[0]);
    else if (strcmp(op, "constant") == 0)
        for (int64_t i = 0; i < naive_elements(n, node->first_out); i++)
            out[0][i] = naive_weight(n, bs_node_name(node), "", i);
    else if (strcmp(op, "attention") == 0)
        naive_attention(n, node, row, out[0]);
    else {
        printf("FAIL the oracle does not know op %s\n", op);
        exit(1);
    }
}

#endif
