/* op_recurrent.cuh - one step of an LSTM or a GRU.
 * A warp has one unit of up to four lines: all sums of the unit, so that only h' and c' are written. Its lanes take
 * every 32nd group of four products, those of x and then those of h, and are joined in a fixed tree, however many lines
 * there are.
 * Relies on linear_job.cuh for lines, and on ops/recurrent.c for weights and what follows the sums. Must never let rows
 * influence each other. */
#ifndef BS_CUDA_OP_RECURRENT
#define BS_CUDA_OP_RECURRENT

#include "cuda/op_linear.cuh"

enum {
    BS_CU_RECURRENT_LINES = 4,
    BS_CU_RECURRENT_PROJECTED = 1, /* p */
    BS_CU_RECURRENT_HALF = 8       /* p: whether weights are f16, behind the descriptor's words */
};

static void bs_cu_lstm_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool path = n->graph->domains[s->domain].kind == BS_DOMAIN_PATH;
    const int64_t lines = bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1),
                  all = bs_cu_linear_most_lines(n, s->domain);
    const int64_t batch = bs_min_i64(path ? (int64_t)BS_CU_GEMM_SIDE : (int64_t)BS_CU_LINEAR_BATCH, all) / lines;
    s->batch = batch < 1 ? 1 : (int32_t)batch;
    s->p[BS_CU_RECURRENT_HALF].i = n->np->half;
    s->parts = bs_cu_work_items(bs_ceil_div(s->batch * lines, BS_CU_RECURRENT_LINES) *
                                    n->out[0].dim[n->out[0].rank - 1],
                                BS_CU_THREADS / 32);
}

static constexpr bs_cu_describe bs_cu_gru_describe = bs_cu_lstm_describe;

/* Lines of an operand: where they are, of which type, with which step. */
template <int LINES> struct bs_cu_recurrent_side {
    const uint8_t *line[LINES];
    int32_t dtype, step, n;
    bool fours; /* adjacent and aligned */
};

__device__ __forceinline__ int32_t bs_cu_recurrent_step(const bs_device_operand *o)
{
    return o->dim[o->rank - 1] == 1 ? 1 : o->stride[o->rank - 1];
}

/* Line number `line` of the work. */
__device__ inline uint8_t *bs_cu_recurrent_at(const bs_cu_tile &t, const bs_cu_work &w, const bs_device_operand *o,
                                              int32_t line)
{
    const int32_t lines = bs_cu_linear_lines(o);
    if (lines == 1)
        return bs_cu_row(t, o, w.row + line);
    return bs_cu_row(t, o, w.row + line / lines) + bs_cu_linear_offset(o, line % lines) * bs_cu_bytes(o->dtype);
}

template <int LINES>
__device__ inline bs_cu_recurrent_side<LINES> bs_cu_recurrent_side_of(const bs_cu_tile &t, const bs_cu_work &w,
                                                                      const bs_device_operand *o, int32_t line,
                                                                      int32_t count)
{
    bs_cu_recurrent_side<LINES> side;
    side.dtype = o->dtype;
    side.step = bs_cu_recurrent_step(o);
    side.n = o->dim[o->rank - 1];
    side.fours = side.step == 1;
#pragma unroll
    for (int32_t i = 0; i < LINES; i++) {
        side.line[i] = bs_cu_recurrent_at(t, w, o, line + min(i, count - 1));
        side.fours = side.fours && bs_cu_aligned(side.line[i], bs_cu_bytes(side.dtype), 0);
    }
    return side;
}

/* Elements k .. k + 3 of a line; zeros beyond its end. */
template <int LINES>
__device__ __forceinline__ float4 bs_cu_recurrent_four(const bs_cu_recurrent_side<LINES> &x, int32_t i, int32_t k)
{
    if (x.fours && k + 4 <= x.n)
        return bs_cu_get_quad(x.line[i], x.dtype, k);
    float v[4];
#pragma unroll
    for (int32_t e = 0; e < 4; e++)
        v[e] = k + e < x.n ? bs_cu_get(x.line[i], x.dtype, (int64_t)(k + e) * x.step) : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* Adds to columns FIRST .. of a unit this lane's products of x (or h). Lines of weights end in zeros, at 16 bytes. */
template <bool GRU, bool OF_H, int BYTES, int LINES>
__device__ __forceinline__ void bs_cu_recurrent_add(const bs_cu_recurrent_side<LINES> &x, const uint8_t *weights,
                                                    int32_t hidden, int32_t unit,
                                                    float (&sum)[BS_RECURRENT_COLUMNS][LINES])
{
    enum { GATES = GRU ? 3 : 4, FIRST = OF_H ? BS_RECURRENT_COLUMNS - GATES : 0 };
    const int64_t line_bytes = bs_linear_line_bytes(x.n, BYTES);
#pragma unroll 2
    for (int32_t k = 4 * bs_cu_lane(); k < x.n; k += 128) {
        float4 v[LINES], b[GATES];
#pragma unroll
        for (int32_t gate = 0; gate < GATES; gate++) {
            const int64_t line = (int64_t)bs_recurrent_gate(GRU, OF_H, gate) * hidden + unit;
            b[gate] = bs_cu_get_quad(weights + line * line_bytes, BYTES == 4 ? BS_F32 : BS_F16, k);
        }
#pragma unroll
        for (int32_t i = 0; i < LINES; i++)
            v[i] = bs_cu_recurrent_four(x, i, k);
#pragma unroll
        for (int32_t gate = 0; gate < GATES; gate++)
#pragma unroll
            for (int32_t i = 0; i < LINES; i++) {
                float *to = &sum[FIRST + gate][i];
                *to = fmaf(v[i].x, b[gate].x, *to);
                *to = fmaf(v[i].y, b[gate].y, *to);
                *to = fmaf(v[i].z, b[gate].z, *to);
                *to = fmaf(v[i].w, b[gate].w, *to);
            }
    }
}

/* x is what the products would be: one lane begins with them. */
template <bool GRU, int LINES>
__device__ __forceinline__ void bs_cu_recurrent_begin(const bs_cu_recurrent_side<LINES> &x, int32_t hidden,
                                                      int32_t unit, float (&sum)[BS_RECURRENT_COLUMNS][LINES])
{
    if (bs_cu_lane() > 0)
        return;
#pragma unroll
    for (int32_t gate = 0; gate < (GRU ? 3 : 4); gate++)
#pragma unroll
        for (int32_t i = 0; i < LINES; i++) {
            const int64_t at = (int64_t)bs_recurrent_gate(GRU, false, gate) * hidden + unit;
            sum[gate][i] = bs_cu_get(x.line[i], x.dtype, at * x.step);
        }
}

/* What follows the sums of a unit of one line. */
template <bool GRU>
__device__ __forceinline__ void bs_cu_recurrent_finish(const bs_cu_tile &t, const bs_device_step *s,
                                                       const bs_cu_work &w, int32_t line, int32_t unit,
                                                       const float *sums)
{
    const bs_device_operand *before = bs_cu_in(t, s, GRU ? 1 : 2), *h_out = bs_cu_out(t, s, 0);
    const float was = bs_cu_get(bs_cu_recurrent_at(t, w, before, line), before->dtype,
                                (int64_t)unit * bs_cu_recurrent_step(before));
    float h, c = 0.0f;
    if (GRU) {
        h = bs_gru_step(sums, was);
    } else {
        const bs_device_operand *c_out = bs_cu_out(t, s, 1);
        h = bs_lstm_step(sums, was, &c);
        bs_cu_put(bs_cu_recurrent_at(t, w, c_out, line), c_out->dtype, (int64_t)unit * bs_cu_recurrent_step(c_out), c);
    }
    bs_cu_put(bs_cu_recurrent_at(t, w, h_out, line), h_out->dtype, (int64_t)unit * bs_cu_recurrent_step(h_out), h);
}

/* One unit of lines line .. line + count, LINES at most, by a warp. */
template <bool GRU, int BYTES, int LINES>
__device__ inline void bs_cu_recurrent_unit(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                            int32_t line, int32_t count, int32_t unit)
{
    const bs_cu_recurrent_side<LINES> x = bs_cu_recurrent_side_of<LINES>(t, w, bs_cu_in(t, s, 0), line, count),
                                      h = bs_cu_recurrent_side_of<LINES>(t, w, bs_cu_in(t, s, 1), line, count);
    const int64_t lines = (int64_t)bs_recurrent_gates(GRU) * h.n; /* as bs_recurrent_place */
    const int32_t inputs = s->p[BS_CU_RECURRENT_PROJECTED].i ? 0 : x.n;
    const uint8_t *of_x = bs_cu_prepared(t, s),
                  *of_h = of_x + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(inputs, BYTES) / 4)),
                  *biases = of_h + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(h.n, BYTES) / 4));
    const float *bias = reinterpret_cast<const float *>(biases) + unit;
    float sum[BS_RECURRENT_COLUMNS][LINES] = {};
    if (inputs > 0)
        bs_cu_recurrent_add<GRU, false, BYTES>(x, of_x, h.n, unit, sum);
    else
        bs_cu_recurrent_begin<GRU>(x, h.n, unit, sum);
    bs_cu_recurrent_add<GRU, true, BYTES>(h, of_h, h.n, unit, sum);
    float mine[BS_RECURRENT_COLUMNS]; /* of line `lane` */
#pragma unroll
    for (int32_t k = 0; k < BS_RECURRENT_COLUMNS; k++)
#pragma unroll
        for (int32_t i = 0; i < LINES; i++) {
#pragma unroll
            for (int32_t m = 16; m > 0; m /= 2)
                sum[k][i] += __shfl_xor_sync(0xffffffffu, sum[k][i], m);
            mine[k] = i == 0 || bs_cu_lane() == i ? sum[k][i] : mine[k];
        }
    if (bs_cu_lane() >= count)
        return;
#pragma unroll
    for (int32_t k = 0; k < BS_RECURRENT_COLUMNS; k++)
        mine[k] += bias[(int64_t)k * h.n];
    bs_cu_recurrent_finish<GRU>(t, s, w, line + bs_cu_lane(), unit, mine);
}

/* One line alone does a quarter of the arithmetic. */
template <bool GRU, int BYTES>
__device__ __forceinline__ void bs_cu_recurrent_lines(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                      int32_t line, int32_t count, int32_t unit)
{
    if (count == 1)
        bs_cu_recurrent_unit<GRU, BYTES, 1>(t, s, w, line, count, unit);
    else
        bs_cu_recurrent_unit<GRU, BYTES, BS_CU_RECURRENT_LINES>(t, s, w, line, count, unit);
}

template <bool GRU>
__device__ inline void bs_cu_recurrent_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *y = bs_cu_out(t, s, 0);
    const int32_t units = y->dim[y->rank - 1], lines = (w.end - w.row) * bs_cu_linear_lines(y),
                  groups = (lines + BS_CU_RECURRENT_LINES - 1) / BS_CU_RECURRENT_LINES,
                  warps = bs_cu_threads() / 32;
    for (int32_t r = w.row; r < w.end; r++) {
        bs_cu_zero_margin_of(t, w, y, r);
        if (!GRU)
            bs_cu_zero_margin_of(t, w, bs_cu_out(t, s, 1), r);
    }
    /* lines fastest: neighbours read the same weights */
    for (int64_t item = (int64_t)w.part * warps + bs_cu_warp(); item < (int64_t)groups * units;
         item += (int64_t)w.parts * warps) {
        const int32_t line = (int32_t)(item % groups) * BS_CU_RECURRENT_LINES, unit = (int32_t)(item / groups);
        const int32_t count = min((int32_t)BS_CU_RECURRENT_LINES, lines - line);
        if (s->p[BS_CU_RECURRENT_HALF].i)
            bs_cu_recurrent_lines<GRU, 2>(t, s, w, line, count, unit);
        else
            bs_cu_recurrent_lines<GRU, 4>(t, s, w, line, count, unit);
    }
}

__device__ inline void bs_cu_lstm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_recurrent_run<false>(t, s, w);
}

__device__ inline void bs_cu_gru_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_recurrent_run<true>(t, s, w);
}

#endif
