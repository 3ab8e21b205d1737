/* conv.h: 2-d convolution of one cell on the CPU, channels last, f32.
 *
 * Owns:      the interface between ops and the convolution kernels of every tier.
 * Relies on: tier.h.
 * Must never: allocate, keep state, read outside the windows, or let padding decide anything: the caller
 *            provides every margin (zeros at the frame's edge), the kernels compute "valid" convolutions.
 *
 * Life of a weight: canonical OIHW f32 -> bs_conv_prepare (once, at load) -> bs_conv_run (any thread, any
 * number of times). What is prepared belongs to one (geometry, algorithm, tier) and to nothing else.
 *
 * Arithmetic. DIRECT: every output element is one fixed sequence of operations for a given (geometry, tier):
 * it does not depend on out_h, out_w, on where the element stands, or on which buffers are used, so any split
 * of the work is bit-identical. WINOGRAD4: fixed for a given position modulo 4 relative to the task's origin;
 * splits at multiples of 4 are bit-identical, others differ by rounding. Either way sums of many products are made of
 * shorter ones.
 * Tiers differ from each other by rounding.
 *
 * The channel stride is 1 everywhere. Buffers need the alignment of float; 64 bytes is faster.
 */
#ifndef BS_KERNELS_CONV_H
#define BS_KERNELS_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/tier.h"

typedef enum bs_conv_algorithm {
    BS_CONV_DIRECT = 0,   /* any geometry */
    BS_CONV_WINOGRAD4 = 1, /* F(4x4, 3x3): 3x3, stride 1, dilation 1, one group */
    BS_CONV_TENSOR = 2 /* a GPU's: f16 products, as matrices; channels of a group in multiples of 4 */
} bs_conv_algorithm;

enum { BS_CONV_WINOGRAD_TILE = 4 }; /* pixels of an output tile, a side */

typedef enum bs_conv_activation {
    BS_CONV_NONE = 0,
    BS_CONV_RELU,  /* max(x, 0) */
    BS_CONV_LEAKY, /* x > 0 ? x : slope * x */
    BS_CONV_PRELU, /* the same with a slope for each output channel */
    BS_CONV_CLIP   /* min(max(x, low), high) */
} bs_conv_activation;

/* All fields >= 1; groups divides both channel counts. */
typedef struct bs_conv_geometry {
    int32_t in_channels, out_channels;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t groups;
} bs_conv_geometry;

/* The work of one call. Strides are in floats, between images, between rows and between pixels. */
typedef struct bs_conv_task {
    int32_t images; /* of the same extents; 0: one */
    int32_t in_pixel;
    const float *in;  /* first sample of the window of output (0, 0) */
    ptrdiff_t in_row; /* the storage must cover all windows: (out_h-1)*stride_h + (kernel_h-1)*dilation_h + 1 rows */
    ptrdiff_t in_image;

    float *out; /* must not overlap `in` */
    ptrdiff_t out_row, out_image;
    int32_t out_h, out_w; /* zero is allowed: the call does nothing */
    int32_t out_pixel, residual_pixel;
    /* r > 1: channel c r r + i r + j of a pixel lies i / r rows and j / r pixels on, as channel c; weights, bias and
     * slopes are in the order i, j, c, and all channels c are whole blocks (bs_conv_block_outputs). No residual */
    int32_t phases;

    const float *weights; /* from bs_conv_prepare */
    const float *bias;    /* out_channels floats, or NULL */
    bool onto;            /* for bs_conv_run_gemm without a residual: adds to what is in `out` instead of the bias */

    const float *residual; /* added to the result, or NULL; may be `out` itself (same strides) */
    ptrdiff_t residual_row, residual_image;
    bool residual_before_activation; /* else it is added after it */

    bs_conv_activation activation;
    float slope;         /* LEAKY */
    float low, high;     /* CLIP */
    const float *slopes; /* PRELU: out_channels floats */

    float *scratch; /* bs_conv_scratch_floats, one for each thread; may be NULL if that is 0 */
} bs_conv_task;

/* Whether bs_conv_run supports this at this tier, on machines that have the tier: a workstation plans for a board
 * whose kernels it lacks. DIRECT: every valid geometry. */
bool bs_conv_supports(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Floats that bs_conv_prepare writes; 0 if unsupported (or if the size overflows). */
size_t bs_conv_prepared_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Packs [out][in / groups][kernel_h][kernel_w] weights. Deterministic; padding lanes are zero. Does not run
 * the tier's instructions: a workstation can prepare for another machine. */
void bs_conv_prepare(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                     const float *oihw, float *prepared);
/* The same a few outputs at a time, of all groups: from 0 on, in order. `rows`: the weights of output `first`. */
void bs_conv_prepare_rows(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier, int32_t first,
                          int32_t count, const float *rows, float *prepared);

/* Outputs of a block, which lie side by side, at multiples of as many; 0: bs_conv_task.phases is not for this. */
int32_t bs_conv_block_outputs(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Floats of scratch for one thread, for outputs of any size; 0 for DIRECT. */
size_t bs_conv_scratch_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

void bs_conv_run(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                 const bs_conv_task *task);

#endif
