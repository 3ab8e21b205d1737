/* ops/epilogue.h - what conv2d, deconv2d and linear have in common: the way to the kernels, and after their sums bias,
 * slopes, activation.
 * Owns the translation from bs_act to what conv.h fuses, and the pass for what it does not.
 * Relies on kernels/conv.h and span.h. Must never change the order of bias, then activation. */
#ifndef BS_OPS_EPILOGUE_H
#define BS_OPS_EPILOGUE_H

#include "kernels/conv.h"
#include "ops/act.h"
#include "ops/common.h"
#include "ops/span.h"

/* The kernels' own tables do not serve this node: a plain loop does. */
#define BS_CONV_REFERENCE (-1)

typedef struct bs_epilogue {
    bs_act act;
    float param;
    const float *bias;   /* a channel, or NULL */
    const float *slopes; /* a channel, PRELU only */
} bs_epilogue;

/* Bias and slopes behind packed weights in prepared memory: one place for all three ops. */
typedef struct bs_epilogue_layout {
    bs_bytes bias, slopes, bytes;
} bs_epilogue_layout;
bs_epilogue_layout bs_epilogue_place(bs_bytes packed_bytes, int32_t channels, int32_t act);
/* What it needs of an op's weights, which come after the first: adds them to the n that there are and returns how many
 * there are then; and from those weights to prepared memory. */
int32_t bs_epilogue_weights(bs_weight_spec *specs, int32_t n, int32_t channels, bool no_bias, int32_t act);
void bs_epilogue_prepare(const bs_epilogue_layout *layout, int32_t channels, bool no_bias, int32_t act,
                         const void *const *weights, void *prepared);
/* From there to a kernel. */
bs_epilogue bs_epilogue_of(const bs_call *call, const bs_epilogue_layout *layout, int32_t act, float param);

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum);

/* Sets bias and activation of the task. False: the activation is not fused, but must follow. */
bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task);

/* The task of a row whose first window begins at `from` (y, x) and belongs to the output at `to`; the others to each
 * `step`-th one of the rect. */
bs_conv_task bs_epilogue_task(const bs_call *call, int32_t row, const int32_t *from, const int32_t *to, int32_t step);

/* The whole of a convolution's call: row by row the plain way or by the kernels, and what these do not fuse. */
typedef void bs_epilogue_row(const bs_call *call, const void *form, const bs_epilogue *epilogue, int32_t row);
bs_status bs_epilogue_run(const bs_call *call, const void *form, const bs_epilogue *epilogue,
                          bs_epilogue_row *reference, bs_epilogue_row *fast);

#endif
