/* product.h: the product of two computed matrices, of any strides.
 *
 * Owns:      the interface between ops and the kernels of gemm.inc, for a matrix that is not prepared.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or let the order of a sum depend on the number of rows or columns.
 *
 * out = a (scale b): for each element sums of 192 products, each from zero in the order of k, are added up in order.
 */
#ifndef BS_KERNELS_PRODUCT_H
#define BS_KERNELS_PRODUCT_H

#include "kernels/tier.h"

/* Strides in floats, between rows and between elements of a row. */
typedef struct bs_product {
    int32_t m, n, k; /* a is m x k, b is k x n */
    const float *a;
    ptrdiff_t a_row, a_step;
    const float *b;
    ptrdiff_t b_row, b_step;
    float *out; /* overlaps neither a nor b */
    ptrdiff_t out_row, out_step;
    float scale;
    float *scratch; /* bs_product_scratch_floats, one for each thread */
} bs_product;

size_t bs_product_scratch_floats(bs_tier tier);
void bs_product_run(bs_tier tier, const bs_product *product);

#endif
