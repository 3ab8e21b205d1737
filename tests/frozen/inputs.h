/* inputs.h - what the inputs of a frozen graph hold in each of its runs: the same in every variant.
 *
 * Owns: buffers of inputs and outputs. Relies on graph.h. */
#ifndef BS_FROZEN_INPUTS_H
#define BS_FROZEN_INPUTS_H

#include "frozen/graph.h"

enum { FZ_BUFFER = 1 << 20, FZ_GUARD_BYTE = 0xC3 };

static _Alignas(64) uint8_t fz_in_bytes[FZ_INPUTS][FZ_BUFFER], fz_out_bytes[FZ_OUTPUTS][FZ_BUFFER];
static uint8_t fz_dense[FZ_BUFFER];

static inline void fz_extents(const fz *z, int32_t run, int32_t *symbols)
{
    fz_dice((uint32_t)z->seed, 1000 + (uint32_t)run);
    for (int32_t i = 0; i < z->n_symbols; i++)
        symbols[i] = run == 0 && fz_chance(60) ? z->symbol_most[i] : fz_between(z->symbol_least[i], z->symbol_most[i]);
}

static inline int64_t fz_input_dims(const fz_input *in, const int32_t *symbols, int64_t *dims)
{
    int64_t n = 1;
    for (int32_t i = 0; i < in->rank; i++)
        n *= dims[i] = in->symbol[i] < 0 ? in->dim[i] : (int64_t)symbols[in->symbol[i]] * in->dim[i];
    return n;
}

static inline void fz_fill_lengths(const fz_input *in, const int32_t *symbols, int32_t *to, int64_t n)
{
    const int32_t rows = in->rows < 0 ? -in->rows : symbols[in->rows], used = 1 + check_below((int32_t)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = 0;
    for (int32_t r = 0; r < rows; r++)
        to[check_below(used)]++;
}

static inline int32_t fz_fill_int(const fz *z, const fz_input *in, int64_t i, int64_t n, bool wrong)
{
    (void)z;
    switch (in->fill) {
    case FZ_FILL_BELOW:
        return wrong && i == n / 2 ? in->below + 3 : check_below(in->below);
    case FZ_FILL_CHILDREN:
        return check_below((int32_t)(i / 2) + 1) - 1;
    case FZ_FILL_CACHED:
        return wrong && i == n - 1 ? -1 : check_below(in->below + 1);
    case FZ_FILL_ROOTS:
        return i < (n + 14) / 15;
    default:
        return check_below(256);
    }
}

static inline void fz_fill_input(const fz *z, const fz_input *in, const int32_t *symbols, int64_t n, bool wrong)
{
    float *reals = (float *)(void *)fz_dense;
    int32_t *ints = (int32_t *)(void *)fz_dense;
    if (in->fill == FZ_FILL_LENGTHS)
        fz_fill_lengths(in, symbols, ints, n);
    for (int64_t i = 0; i < n && in->fill != FZ_FILL_LENGTHS; i++)
        if (in->dtype == BS_F32)
            reals[i] = in->fill == FZ_FILL_KNOB ? (float)check_below(5) * 0.25f : fz_number(z->flavour);
        else if (in->dtype == BS_U8)
            fz_dense[i] = (uint8_t)(fz_chance(40) ? 100 + check_below(3) : check_below(256));
        else if (in->dtype == BS_U16)
            ((uint16_t *)(void *)fz_dense)[i] = (uint16_t)check_below(4096);
        else
            ints[i] = fz_fill_int(z, in, i, n, wrong);
    if (in->fill == FZ_FILL_LENGTHS && wrong)
        ints[0]++;
}

/* A buffer of these extents in `memory`: dense, or with gaps and the dimensions in another order. */
static inline bs_buffer fz_buffer(uint8_t *memory, bs_dtype dtype, int32_t rank, const int64_t *dims, bool strided,
                                  bool turned)
{
    bs_buffer b = {memory, dtype, rank, {0}, {0}};
    int64_t step = strided ? 2 : 1;
    for (int32_t k = 0; k < rank; k++) {
        const int32_t i = turned ? k : rank - 1 - k;
        b.dim[i] = dims[i];
        b.stride[i] = strided ? step : 0;
        step = step * dims[i] + (strided ? 3 : 0);
    }
    if ((uint64_t)step * bs_dtype_bytes(dtype) > FZ_BUFFER) {
        if (strided)
            return fz_buffer(memory, dtype, rank, dims, false, false);
        printf("the buffers of the test are too small\n");
        exit(2);
    }
    return b;
}

static inline int64_t fz_elements_of(const bs_buffer *b)
{
    int64_t n = 1;
    for (int32_t i = 0; i < b->rank; i++)
        n *= b->dim[i];
    return n;
}

static inline uint8_t *fz_element(const bs_buffer *b, int64_t k, const int64_t *dims)
{
    int64_t at = 0, dense = 1;
    const bool strided = b->stride[0] != 0;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at += k % dims[i] * (strided ? b->stride[i] : dense);
        dense *= b->dim[i];
        k /= dims[i];
    }
    return (uint8_t *)b->data + at * (int64_t)bs_dtype_bytes(b->dtype);
}

/* Whether input i is out of its range in this run. */
static inline bool fz_is_wrong(const fz *z, int32_t run, int32_t i)
{
    return run == 1 && i < 30 && (z->faults >> i & 1) != 0;
}

/* Indices are dense always: where one is wrong the message would name its place in memory. */
static inline bs_buffer fz_input_buffer(const fz *z, int32_t i, int32_t run, const int32_t *symbols, bool strided)
{
    const fz_input *in = &z->inputs[i];
    int64_t dims[BS_MAX_RANK] = {0};
    const int64_t n = fz_input_dims(in, symbols, dims);
    const size_t each = bs_dtype_bytes(in->dtype);
    fz_dice((uint32_t)z->seed, 2000 + 64 * (uint32_t)run + (uint32_t)i);
    const bs_buffer b =
        fz_buffer(fz_in_bytes[i], in->dtype, in->rank, dims, strided && in->dtype != BS_I32, (i & 1) != 0);
    fz_fill_input(z, in, symbols, n, fz_is_wrong(z, run, i));
    if (b.stride[0] == 0)
        memcpy(b.data, fz_dense, (size_t)n * each);
    for (int64_t k = 0; k < n && b.stride[0] != 0; k++)
        memcpy(fz_element(&b, k, dims), fz_dense + (size_t)k * each, each);
    return b;
}

#endif
