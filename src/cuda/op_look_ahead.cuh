/* op_look_ahead.cuh - what a router that is yet to come would choose by the scores of now: how far each path is above the
 * best one that a row does not choose, in the row that wants it most (bs_route_guess). One block; a maximum over rows, so
 * their order does not matter. Relies on program.cuh. Must never touch a decision. */
#ifndef BS_CUDA_OP_LOOK_AHEAD
#define BS_CUDA_OP_LOOK_AHEAD

#include "cuda/kernels.cuh"
#include "cuda/program.cuh"

/* Scores of a row, as they are stored. */
struct bs_cu_hints {
    const uint8_t *data;
    int32_t stride, dtype;
};

__device__ inline float bs_cu_hint(const bs_cu_hints &s, int32_t path)
{
    const int64_t at = (int64_t)path * s.stride;
    return s.dtype == BS_I32 ? (float)reinterpret_cast<const int32_t *>(s.data)[at] : bs_cu_get(s.data, s.dtype, at);
}

__device__ inline bool bs_cu_hint_above(const bs_cu_hints &s, int32_t a, int32_t b)
{
    if (s.dtype != BS_I32)
        return bs_cu_hint(s, a) > bs_cu_hint(s, b);
    const int32_t *scores = reinterpret_cast<const int32_t *>(s.data);
    return scores[(int64_t)a * s.stride] > scores[(int64_t)b * s.stride];
}

/* The best path that is not taken; -1 none. */
__device__ inline int32_t bs_cu_hint_left(const bs_cu_hints &s, int32_t paths, uint64_t taken)
{
    int32_t best = -1;
    for (int32_t p = 0; p < paths; p++)
        if (!(taken >> p & 1) && (best < 0 || bs_cu_hint_above(s, p, best)))
            best = p;
    return best;
}

/* p: paths a cell at most, paths. Margins are not negative, so they compare as the integers that their bits are. */
__device__ inline void bs_cu_look_ahead_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    int32_t *margins = reinterpret_cast<int32_t *>(t.workspace);
    const bs_device_operand *o = bs_cu_in(t, s, 0);
    const int32_t paths = s->p[1].i;
    for (int32_t p = (int32_t)threadIdx.x; p < paths; p += (int32_t)blockDim.x)
        margins[p] = __float_as_int(-1.0f);
    __syncthreads();
    for (int32_t row = w.row + (int32_t)threadIdx.x; row < w.row + w.rows; row += (int32_t)blockDim.x) {
        const bs_cu_hints scores = {bs_cu_row(t, o, row), o->stride[0], o->dtype};
        uint64_t taken = 0;
        for (int32_t k = 0; k < s->p[0].i; k++)
            taken |= 1ull << bs_cu_hint_left(scores, paths, taken);
        const int32_t other = bs_cu_hint_left(scores, paths, taken);
        for (int32_t p = 0; p < paths; p++) {
            const float margin = other < 0 ? 0.0f : bs_cu_hint(scores, p) - bs_cu_hint(scores, other);
            if (taken >> p & 1)
                atomicMax(&margins[p], __float_as_int(margin > 0.0f ? margin : 0.0f)); /* a NaN too is a choice */
        }
    }
    __syncthreads();
    for (int32_t p = (int32_t)threadIdx.x; p < paths; p += (int32_t)blockDim.x)
        t.program->guesses[p] = __int_as_float(margins[p]);
}

#endif
