/* arrange.h: moving weights into the layout that kernels want, as fast as they come from storage, and values into
 * another order.
 *
 * Owns:      transposing, gathering what is not dense, and widening of half floats, for every tier.
 * Relies on: tier.h.
 * Must never: change a value: every tier gives the same bytes (except the payload of a NaN).
 */
#ifndef BS_KERNELS_ARRANGE_H
#define BS_KERNELS_ARRANGE_H

#include <stdbool.h>

#include "kernels/tier.h"

/* to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns; rows in floats, nothing overlaps. */
void bs_transpose_f32(bs_tier tier, const float *from, ptrdiff_t from_row, int32_t rows, int32_t columns, float *to,
                      ptrdiff_t to_row);

/* to[r * to_row + c] = from[r * from_row + c * from_step], by whichever step is 1; nothing overlaps. */
void bs_gather_f32(bs_tier tier, const float *from, ptrdiff_t from_row, ptrdiff_t from_step, int32_t rows,
                   int32_t columns, float *to, ptrdiff_t to_row);

#ifndef BS_SMALL
/* Pixels of four phases, two for each of two lines: to[i * to_line + (2 p + j) * channels + c] is
 * from[(p * channels + c) * 4 + 2 i + j], p < pixels. False: the tier has no code for so many channels. */
bool bs_shuffle_pairs_f32(bs_tier tier, const float *from, int32_t pixels, int32_t channels, float *to,
                          ptrdiff_t to_line);
#endif

/* 64 half floats (IEEE binary16) to floats. Overlapping is fine: all are read before one is written. */
void bs_widen64_f16(bs_tier tier, const uint16_t *from, float *to);

#endif
