/* naive_ops.h - ops as their definition reads, in double precision: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_OPS_H
#define BS_TEST_NAIVE_OPS_H

#include "naive_images.h"

/* Of f32 and i32 alike. */
static inline double naive_unary_kind(bs_unary_kind kind, double x)
{
    return kind == BS_UNARY_NOT ? x == 0 : (double)bs_unary_apply(kind, (float)x);
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
        y[i] = naive_named(op, "unary") ? naive_unary_kind((bs_unary_kind)p->a.i, x[i])
               : naive_named(op, "affine") ? x[i] * (double)p->a.f + (double)p->b
               : naive_named(op, "clip") ? (x[i] < (double)p->a.f ? (double)p->a.f
                                            : x[i] > (double)p->b ? (double)p->b
                                                                  : x[i])
                                         : naive_act(p->a.i, p->b, x[i]);
}

/* By which steps an operand is read along the dimensions of the result. */
typedef struct naive_beside {
    int32_t rank;
    int64_t extent[BS_MAX_RANK], step[BS_MAX_RANK];
    bool each; /* element by element */
} naive_beside;

/* Operand k, by NumPy's rules; but [C] beside an image is its channels. */
static inline naive_beside naive_beside_of(const naive *n, const bs_node *node, int32_t k)
{
    const int32_t in = bs_node_in(n->g, node)[k], rank = n->g->values[node->first_out].rank;
    const bs_value_info *v = &n->g->values[in];
    const int32_t shift = rank == 3 && v->rank == 1 ? 0 : rank - v->rank;
    naive_beside b = {.rank = rank, .each = v->rank == rank};
    int64_t step = 1;
    for (int32_t d = rank - 1; d >= 0; d--) {
        b.extent[d] = naive_dim(n, node->first_out, d);
        if (d < shift || d - shift >= v->rank)
            continue;
        const bool one = bs_dim_is_const(n->g, v->dims[d - shift]) && naive_dim(n, in, d - shift) == 1;
        b.step[d] = one ? 0 : step;
        b.each = b.each && naive_dim(n, in, d - shift) == b.extent[d];
        step *= naive_dim(n, in, d - shift);
    }
    return b;
}

/* The element of the operand that belongs to element i of the result. */
static inline int64_t naive_at(const naive_beside *b, int64_t i)
{
    int64_t at = 0;
    for (int32_t d = b->rank - 1; !b->each && d >= 0; d--) {
        at += i % b->extent[d] * b->step[d];
        i /= b->extent[d];
    }
    return b->each ? i : at;
}

/* One of two operands; of f32 and i32 alike. */
static inline double naive_pair(const bs_node *node, double a, double b)
{
    const char *op = bs_op_get(node->op)->name;
    const struct kinds {
        const char *name;
        int32_t kind;
    } *p = node->params;
    const bool logic = naive_named(op, "compare") && p->kind >= BS_COMPARE_AND;
    if (logic)
        return bs_compare_apply_i32((bs_compare_kind)p->kind, a != 0, b != 0);
    if (naive_named(op, "compare"))
        return bs_compare_apply((bs_compare_kind)p->kind, (float)a, (float)b);
    if (naive_named(op, "binary"))
        return (double)bs_binary_apply((bs_binary_kind)p->kind, (float)a, (float)b);
    return op[0] == 'a' ? a + b : op[0] == 's' ? a - b : a * b;
}

static inline void naive_where(const naive *n, const bs_node *node, const double *const *in, double *y)
{
    const naive_beside beside[3] = {naive_beside_of(n, node, 0), naive_beside_of(n, node, 1),
                                    naive_beside_of(n, node, 2)};
    const int64_t count = naive_elements(n, node->first_out);
    for (int64_t i = 0; i < count; i++) {
        const int32_t k = in[0][naive_at(&beside[0], i)] != 0 ? 1 : 2;
        y[i] = in[k][naive_at(&beside[k], i)];
    }
}

/* add, sub, mul, binary, compare. */
static inline void naive_binary(const naive *n, const bs_node *node, const double *const *in, double *y)
{
    const naive_beside a = naive_beside_of(n, node, 0), b = naive_beside_of(n, node, 1);
    const int64_t count = naive_elements(n, node->first_out);
    for (int64_t i = 0; i < count; i++)
        y[i] = naive_pair(node, in[0][naive_at(&a, i)], in[1][naive_at(&b, i)]);
}

static inline void naive_linear(naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_linear_desc *p = node->params;
    const int32_t in = bs_node_in(n->g, node)[0];
    const int64_t inputs = naive_dim(n, in, n->g->values[in].rank - 1), lines = naive_elements(n, in) / inputs;
    const size_t mark = n->used;
    double *weight = naive_take(n, (size_t)(inputs * p->out) * sizeof *weight);
    naive_weights(n, p->name, "weight", weight, inputs * p->out);
    for (int32_t o = 0; o < p->out; o++) {
        const double bias = p->no_bias ? 0 : naive_weight(n, p->name, "bias", o);
        for (int64_t l = 0; l < lines; l++) {
            double sum = bias;
            for (int64_t k = 0; k < inputs; k++)
                sum += x[l * inputs + k] * weight[o * inputs + k];
            y[l * p->out + o] = naive_act(p->act, p->act_param, sum);
        }
    }
    n->used = mark;
}

static inline double naive_gate(const naive *n, const char *name, const char *of, int64_t line, const double *x,
                                int64_t count, bool no_bias)
{
    if (count == 0)
        return x[line]; /* projected */
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
            of_x[k] = naive_gate(n, p->name, "ih", k * units + i % units, x, p->projected ? 0 : inputs, p->no_bias);
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
    const int32_t in = bs_node_in(n->g, node)[0], rank = n->g->values[in].rank,
                  axis = p->axis < 0 ? p->axis + rank : p->axis;
    const int64_t count = naive_dim(n, node->first_out, axis), from = naive_dim(n, in, axis);
    int64_t each = 1;
    for (int32_t d = axis + 1; d < rank; d++)
        each *= naive_dim(n, in, d);
    for (int64_t i = 0; i < naive_elements(n, node->first_out); i++)
        y[i] = x[i / (count * each) * from * each + p->start * each + i % (count * each)];
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

/* Elements of lines by index: y[i] = x[index[i]], or y[index[i]] = or += u[i]; scatter_rows of whole rows. */
static inline void naive_indexed(const naive *n, const bs_node *node, const char *op, const double *const *in,
                                 double *y)
{
    const int32_t *operands = bs_node_in(n->g, node);
    const bool reads = op[0] == 'g' || op[1] == 'e'; /* gather_elements, select */
    const int64_t each = naive_named(op, "scatter_rows")
                             ? naive_elements(n, operands[0]) / naive_dim(n, operands[0], 0) : 1;
    const int64_t count = naive_elements(n, operands[1]) * each;
    for (int64_t i = 0; !reads && i < naive_elements(n, operands[0]); i++)
        y[i] = in[0][i];
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = (int64_t)in[1][i / each] * each + i % each;
        if (reads)
            y[i] = in[0][index];
        else
            y[index] = in[2][i] + (((const bs_update_desc *)node->params)->update == BS_UPDATE_ADD ? y[index] : 0);
    }
}

static inline void naive_gather_rows(const naive *n, const bs_node *node, const double *const *in, double *y)
{
    const int64_t count = naive_elements(n, node->first_out), each = count / naive_dim(n, node->first_out, 0);
    for (int64_t i = 0; i < count; i++)
        y[i] = in[1][(int64_t)in[0][i / each] * each + i % each];
}

/* start, start + step, ... below limit: as many as there are, whatever the maximum. */
static inline int64_t naive_arange(const bs_node *node, const double *const *in, double *y, int64_t room)
{
    const double start = node->n_in > 1 ? in[1][0] : 0, step = node->n_in > 2 ? in[2][0] : 1;
    int64_t count = 0;
    for (; step > 0 ? start + (double)count * step < in[0][0] : start + (double)count * step > in[0][0]; count++)
        if (count < room)
            y[count] = start + (double)count * step;
    return count;
}

static inline int64_t naive_nonzero(const naive *n, const bs_node *node, const double *x, double *y)
{
    const int32_t in = bs_node_in(n->g, node)[0], rank = n->g->values[in].rank;
    int64_t count = 0;
    for (int64_t i = 0; i < naive_elements(n, in); i++) {
        int64_t rest = i;
        if (x[i] == 0)
            continue;
        for (int32_t d = rank - 1; d >= 0 && count < naive_dim(n, node->first_out, 0); d--) {
            y[count * rank + d] = (double)(rest % naive_dim(n, in, d));
            rest /= naive_dim(n, in, d);
        }
        count++;
    }
    return count;
}

static inline void naive_convert(const naive *n, const bs_node *node, const double *x, double *y)
{
    const bs_convert_desc *p = node->params;
    const double low = p->dtype == BS_U8 ? 0 : -1e9, high = p->dtype == BS_U8 ? 255 : 1e9;
    for (int64_t i = 0; i < naive_elements(n, node->first_out); i++)
        y[i] = rint(x[i] < low ? low : x[i] > high ? high : x[i]);
}

/* The index of the largest, k times: values and indices are two outputs. */
static inline void naive_topk(naive *n, const bs_node *node, const double *x, double *values, double *indices)
{
    const int64_t width = naive_elements(n, bs_node_in(n->g, node)[0]);
    bool taken[64] = {false};
    naive_all_decide(n, x, width);
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

/* Dimensions axis .. axis + axes - 1, each once: element i of x belongs to result out[i / after / n * after + i %
 * after].
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
static inline void naive_arg(naive *n, const bs_node *node, bool least, const double *x, double *y)
{
    const int32_t in = bs_node_in(n->g, node)[0];
    const int64_t width = naive_dim(n, in, n->g->values[in].rank - 1);
    for (int64_t l = 0; l < naive_elements(n, in) / width; l++) {
        y[l] = 0;
        naive_all_decide(n, x + l * width, width);
        for (int64_t i = 1; i < width; i++) {
            const double v = x[l * width + i], best = x[l * width + (int64_t)y[l]];
            y[l] = (least ? v < best : v > best) ? (double)i : y[l];
        }
    }
}

/* Ops of this file; false: it is none of them. */
static inline bool naive_op_here(naive *n, const bs_node *node, int32_t row, const double *const *in,
                                 double *const *out)
{
    const char *op = bs_op_get(node->op)->name;
    const bool binary = naive_named(op, "add") || naive_named(op, "sub") || naive_named(op, "mul") ||
                        naive_named(op, "binary") || naive_named(op, "compare");
    if (naive_named(op, "affine") || naive_named(op, "clip") || naive_named(op, "activation") ||
        naive_named(op, "unary"))
        naive_unary(op, node, in[0], out[0], naive_elements(n, node->first_out));
    else if (binary)
        naive_binary(n, node, in, out[0]);
    else if (naive_named(op, "where"))
        naive_where(n, node, in, out[0]);
    else if (naive_named(op, "linear"))
        naive_linear(n, node, in[0], out[0]);
    else if (naive_named(op, "lstm") || naive_named(op, "gru"))
        naive_recurrent(n, node, in, out);
    else if (naive_named(op, "conv2d"))
        naive_conv(n, node, in[0], out[0]);
    else if (naive_named(op, "pool2d"))
        naive_pool2d(n, node, row, in[0], out[0]);
    else if (naive_named(op, "pixel_shuffle") || naive_named(op, "pixel_unshuffle") || naive_named(op, "resize"))
        naive_enlarge(n, node, op, in[0], out[0]);
    else if (naive_named(op, "concat"))
        naive_concat(n, node, in, out[0]);
    else if (naive_named(op, "slice"))
        naive_slice(n, node, in[0], out[0]);
    else if (naive_named(op, "roll"))
        naive_roll(n, node, in[0], out[0]);
    else if (naive_named(op, "select") || naive_named(op, "gather_elements") || strncmp(op, "scatter_", 8) == 0)
        naive_indexed(n, node, op, in, out[0]);
    else if (naive_named(op, "convert"))
        naive_convert(n, node, in[0], out[0]);
    else if (naive_named(op, "reduce"))
        naive_reduce(n, node, in[0], out[0]);
    else if (naive_named(op, "cumsum"))
        naive_cumsum(n, node, in[0], out[0]);
    else if (naive_named(op, "argmax") || naive_named(op, "argmin"))
        naive_arg(n, node, op[3] == 'm' && op[4] == 'i', in[0], out[0]);
    else if (naive_named(op, "topk"))
        naive_topk(n, node, in[0], out[0], out[1]);
    else if (naive_named(op, "constant"))
        for (int64_t i = 0; i < naive_elements(n, node->first_out); i++)
            out[0][i] = naive_weight(n, bs_node_name(node), "", i);
    else if (naive_named(op, "gather_rows"))
        naive_gather_rows(n, node, in, out[0]);
    else if (naive_named(op, "reshape"))
        memcpy(out[0], in[0], (size_t)naive_elements(n, node->first_out) * sizeof(double));
    else if (naive_named(op, "arange"))
        n->made = naive_arange(node, in, out[0], naive_elements(n, node->first_out));
    else if (naive_named(op, "nonzero"))
        n->made = naive_nonzero(n, node, in[0], out[0]);
    else
        return false;
    return true;
}

#endif
