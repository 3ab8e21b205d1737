/* attend.h: attention of rows of one segment, of heads that share their keys.
 *
 * Owns:      the interface between ops and the kernels of gemm.inc and functions.inc, for softmax(q k) v.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or let the order of a sum depend on anything but positions: not on how many rows
 *            there are, nor on where keys lie.
 *
 * Scores are sums of 192 products, each from zero in the order of elements, added up in order; weights are those of
 * bs_row_softmax; results are sums over positions 0 .. 191, 192 .. 383 and so on, in order, added up in order.
 */
#ifndef BS_KERNELS_ATTEND_H
#define BS_KERNELS_ATTEND_H

#include "kernels/tier.h"

/* Keys, or values, from the first element of their head on. Position j lies in row j - cache_length of the fresh ones,
 * or, below cache_length, in row j mod window of the ring. Steps in floats, between rows and between elements. */
typedef struct bs_attend_side {
    const float *fresh;
    ptrdiff_t fresh_row, fresh_step;
    const float *ring;
    ptrdiff_t ring_row, ring_step;
} bs_attend_side;

typedef struct bs_attend {
    int32_t n, rows, heads; /* elements of a head; head h of a row begins at element h n */
    const float *q;
    ptrdiff_t q_row, q_step;
    float *out;
    ptrdiff_t out_row, out_step;
    bs_attend_side k, v;
    int32_t cache_length, window;
    int32_t position; /* of the first row */
    bool causal;      /* row p attends to the last `window` positions up to p; else all do to low .. end - 1 */
    int32_t low, end;
    float scale;
    /* added to the scores: -slope |p - j| of ALiBi, with slope 2^(-8 (first_head + h + 1) / alibi_heads); 0: none */
    int32_t first_head, alibi_heads;
    const float *bias; /* [head][p][j], or NULL */
    ptrdiff_t bias_head, bias_row, bias_step;
    const void *mask; /* of fresh position j, f32 to be added, or i32: 0 hides the key; or NULL */
    ptrdiff_t mask_row;
    bool mask_is_truth;
    float *scratch; /* bs_attend_scratch_floats, one for each thread */
} bs_attend;

/* For at most `keys` positions that rows of one call attend to together, and heads of n elements. */
int64_t bs_attend_scratch_floats(bs_tier tier, int64_t keys, int64_t n);
/* A row without keys, or with a mask or a bias that leaves it none, is zeros. */
void bs_attend_run(bs_tier tier, const bs_attend *attend);

#endif
