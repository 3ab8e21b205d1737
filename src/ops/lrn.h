/* ops/lrn.h - local response normalisation with the defaults of its descriptor filled in, for the plain kernel and for
 * a device. Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum. */
#ifndef BS_OPS_LRN_H
#define BS_OPS_LRN_H

#include "base/base.h"

#include <math.h>

typedef struct bs_lrn_form {
    int32_t before, after; /* channels of a window beside its own */
    float scale, beta, bias;
} bs_lrn_form;

static inline bs_lrn_form bs_lrn_form_of(const bs_lrn_desc *desc)
{
    const int32_t size = bs_or_default(desc->size, 5);
    const bs_lrn_form form = {(size - 1) / 2, size / 2, (desc->alpha == 0.0f ? 1e-4f : desc->alpha) / (float)size,
                              desc->beta == 0.0f ? 0.75f : desc->beta, desc->bias == 0.0f ? 1.0f : desc->bias};
    return form;
}

/* squares: of the window. The usual beta of 3/4 needs no power. */
static inline BS_BOTH float bs_lrn_of(float x, float squares, float scale, float beta, float bias)
{
    const float base = BS_SUM(scale * squares, bias), root = sqrtf(base);
    return x / (beta == 0.75f ? root * sqrtf(root) : powf(base, beta));
}

#endif
