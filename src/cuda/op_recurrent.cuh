/* op_recurrent.cuh - one step of an LSTM or a GRU.
 * A warp has one unit of up to four lines: all sums of the unit, so that only h' and c' are written. Its lanes take
 * every 32nd product, those of x and then those of h, and are joined in a fixed tree, however many lines there are.
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
struct bs_cu_recurrent_side {
    const uint8_t *line[BS_CU_RECURRENT_LINES];
    int32_t dtype, step, n;
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
    return bs_cu_row(t, o, w.row + line / lines) + bs_cu_linear_offset(o, line % lines) * bs_cu_bytes(o->dtype);
}

__device__ inline bs_cu_recurrent_side bs_cu_recurrent_side_of(const bs_cu_tile &t, const bs_cu_work &w,
                                                               const bs_device_operand *o, int32_t line, int32_t count)
{
    bs_cu_recurrent_side side;
#pragma unroll
    for (int32_t i = 0; i < BS_CU_RECURRENT_LINES; i++)
        side.line[i] = bs_cu_recurrent_at(t, w, o, line + min(i, count - 1));
    side.dtype = o->dtype;
    side.step = bs_cu_recurrent_step(o);
    side.n = o->dim[o->rank - 1];
    return side;
}

template <int BYTES> __device__ __forceinline__ float bs_cu_recurrent_weight(const uint8_t *line, int32_t k)
{
    return BYTES == 4 ? reinterpret_cast<const float *>(line)[k]
                      : bs_cu_half_from(reinterpret_cast<const uint16_t *>(line)[k]);
}

/* Adds to columns FIRST .. of a unit this lane's products of x (or h). */
template <bool GRU, bool OF_H, int BYTES>
__device__ __forceinline__ void bs_cu_recurrent_add(const bs_cu_recurrent_side &x, const uint8_t *weights,
                                                    int32_t hidden, int32_t unit,
                                                    float (&sum)[BS_RECURRENT_COLUMNS][BS_CU_RECURRENT_LINES])
{
    enum { GATES = GRU ? 3 : 4, FIRST = OF_H ? BS_RECURRENT_COLUMNS - GATES : 0 };
    const int64_t line_bytes = bs_linear_line_bytes(x.n, BYTES);
#pragma unroll 1
    for (int32_t k = bs_cu_lane(); k < x.n; k += 32) {
        float v[BS_CU_RECURRENT_LINES];
#pragma unroll
        for (int32_t i = 0; i < BS_CU_RECURRENT_LINES; i++)
            v[i] = bs_cu_get(x.line[i], x.dtype, (int64_t)k * x.step);
#pragma unroll
        for (int32_t gate = 0; gate < GATES; gate++) {
            const int64_t line = (int64_t)bs_recurrent_gate(GRU, OF_H, gate) * hidden + unit;
            const float b = bs_cu_recurrent_weight<BYTES>(weights + line * line_bytes, k);
#pragma unroll
            for (int32_t i = 0; i < BS_CU_RECURRENT_LINES; i++)
                sum[FIRST + gate][i] = fmaf(v[i], b, sum[FIRST + gate][i]);
        }
    }
}

/* x is what the products would be: one lane begins with them. */
template <bool GRU>
__device__ __forceinline__ void bs_cu_recurrent_begin(const bs_cu_recurrent_side &x, int32_t hidden, int32_t unit,
                                                      float (&sum)[BS_RECURRENT_COLUMNS][BS_CU_RECURRENT_LINES])
{
    if (bs_cu_lane() > 0)
        return;
    for (int32_t gate = 0; gate < (GRU ? 3 : 4); gate++)
        for (int32_t i = 0; i < BS_CU_RECURRENT_LINES; i++) {
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

/* One unit of lines line .. line + count, by a warp. */
template <bool GRU, int BYTES>
__device__ inline void bs_cu_recurrent_unit(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                            int32_t line, int32_t count, int32_t unit)
{
    const bs_cu_recurrent_side x = bs_cu_recurrent_side_of(t, w, bs_cu_in(t, s, 0), line, count),
                               h = bs_cu_recurrent_side_of(t, w, bs_cu_in(t, s, 1), line, count);
    const int64_t lines = (int64_t)bs_recurrent_gates(GRU) * h.n; /* as bs_recurrent_place */
    const int32_t inputs = s->p[BS_CU_RECURRENT_PROJECTED].i ? 0 : x.n;
    const uint8_t *of_x = bs_cu_prepared(t, s),
                  *of_h = of_x + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(inputs, BYTES) / 4)),
                  *biases = of_h + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(h.n, BYTES) / 4));
    const float *bias = reinterpret_cast<const float *>(biases) + unit;
    float sum[BS_RECURRENT_COLUMNS][BS_CU_RECURRENT_LINES] = {};
    if (inputs > 0)
        bs_cu_recurrent_add<GRU, false, BYTES>(x, of_x, h.n, unit, sum);
    else
        bs_cu_recurrent_begin<GRU>(x, h.n, unit, sum);
    bs_cu_recurrent_add<GRU, true, BYTES>(h, of_h, h.n, unit, sum);
#pragma unroll
    for (int32_t i = 0; i < BS_CU_RECURRENT_LINES; i++) {
        float sums[BS_RECURRENT_COLUMNS];
#pragma unroll
        for (int32_t k = 0; k < BS_RECURRENT_COLUMNS; k++) {
            for (int32_t m = 16; m > 0; m /= 2)
                sum[k][i] += __shfl_xor_sync(0xffffffffu, sum[k][i], m);
            sums[k] = sum[k][i] + bias[(int64_t)k * h.n];
        }
        if (bs_cu_lane() == i && i < count)
            bs_cu_recurrent_finish<GRU>(t, s, w, line + i, unit, sums);
    }
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
            bs_cu_recurrent_unit<GRU, 2>(t, s, w, line, count, unit);
        else
            bs_cu_recurrent_unit<GRU, 4>(t, s, w, line, count, unit);
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
