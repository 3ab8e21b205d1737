/* arrange.h: moving weights into the layout that kernels want, as fast as they come from storage, and values into
 * another order.
 *
 * Owns:      transposing, gathering what is not dense, and widening of half floats, for every tier.
 * Relies on: tier.h.
 * Must never: change a value: every tier gives the same bytes (except the payload of a NaN).
 */
#ifndef BS_KERNELS_ARRANGE_H
#define BS_KERNELS_ARRANGE_H

#include "kernels/tier.h"

/* to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns; rows in floats, nothing overlaps. */
void bs_transpose_f32(bs_tier tier, const float *from, ptrdiff_t from_row, int32_t rows, int32_t columns, float *to,
                      ptrdiff_t to_row);

/* to[r * to_row + c] = from[r * from_row + c * from_step], by whichever step is 1; nothing overlaps. */
void bs_gather_f32(bs_tier tier, const float *from, ptrdiff_t from_row, ptrdiff_t from_step, int32_t rows,
                   int32_t columns, float *to, ptrdiff_t to_row);

/* 64 half floats (IEEE binary16) to floats. Overlapping is fine: all are read before one is written. */
void bs_widen64_f16(bs_tier tier, const uint16_t *from, float *to);

#endif
