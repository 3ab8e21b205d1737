/* ops/broadcast.h - operands of several shapes beside each other, element by element: what shape they give, and how the
 * elements of each lie beside those of the result.
 *
 * As in NumPy: fewer dimensions are the last ones of the result's, and a dimension that is 1 where the result's is not
 * is repeated. But one dimension beside an image of three is its channels. Relies on common.h and span.h. Must never
 * touch data. */
#ifndef BS_OPS_BROADCAST_H
#define BS_OPS_BROADCAST_H

#include "ops/common.h"
#include "ops/span.h"

/* How many dimensions of the result come before the first one of an operand. */
static inline int32_t bs_broadcast_shift(int32_t rank, int32_t operand_rank)
{
    return rank == 3 && operand_rank == 1 ? 0 : rank - operand_rank;
}

/* Dimension d of the result in an operand: its number there, or less than 0. */
static inline int32_t bs_broadcast_dim(int32_t rank, const bs_value_info *operand, int32_t d)
{
    const int32_t at = d - bs_broadcast_shift(rank, operand->rank);
    return at < operand->rank ? at : -1;
}

/* The dimension of an operand in which dimension d of the result moves it; -1: none, as it has not got it, or is 1
 * there and the result is not. By the graph's extents: a clipped cell may be 1 high too. */
static inline int32_t bs_broadcast_axis(const bs_value_info *result, const bs_value_info *operand, int32_t d)
{
    const int32_t at = bs_broadcast_dim(result->rank, operand, d);
    return at < 0 || operand->dims[at] != result->dims[d] ? -1 : at;
}

/* Mask of the dimensions of the result that do not move an operand. */
static inline uint32_t bs_broadcast_mask(const bs_value_info *result, const bs_value_info *operand)
{
    uint32_t mask = 0;
    for (int32_t d = 0; d < result->rank; d++)
        if (bs_broadcast_axis(result, operand, d) < 0)
            mask |= 1u << d;
    return mask;
}

/* Sets rank, dimensions and scale of out[0] to what all operands give, or refuses. */
bool bs_infer_broadcast(bs_infer *infer);

/* Adds operand `index` of a call to a walk over out[0]. */
void bs_broadcast_add(bs_span *span, const bs_call *call, int32_t index);

#endif
