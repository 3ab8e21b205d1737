/* ops/epilogue.h - what conv2d, deconv2d and linear share: calls of the kernels, and bias, slopes and activation after
 * their sums.
 * Owns the translation from bs_act to what conv.h fuses, and the pass for what it does not fuse.
 * Relies on kernels/conv.h, kernels/functions.h and span.h. Must never change the order of bias, then activation. */
#ifndef BS_OPS_EPILOGUE_H
#define BS_OPS_EPILOGUE_H

#include "kernels/conv.h"
#include "kernels/functions.h"
#include "ops/act.h"
#include "ops/common.h"
#include "ops/span.h"

/* a node that runs as plain loops, not by the kernels' algorithms */
#define BS_CONV_REFERENCE (-1)

typedef struct bs_epilogue {
    bs_act act;
    float param;
    const float *bias;   /* one for each channel, or NULL */
    const float *slopes; /* one for each channel, with PRELU only */
} bs_epilogue;

/* Bias and slopes lie behind the packed weights in prepared memory, for all three ops. */
typedef struct bs_epilogue_layout {
    bs_bytes bias, slopes, bytes;
} bs_epilogue_layout;
bs_epilogue_layout bs_epilogue_place(bs_bytes packed_bytes, int32_t channels, int32_t act);
/* The same layout from its bytes, where they are known. */
bs_epilogue_layout bs_epilogue_at_end(bs_bytes bytes, int32_t channels, int32_t act);
/* bs_epilogue_weights adds the epilogue's weights to the n before it and returns the new count. bs_epilogue_prepare
 * copies these weights to prepared memory. */
int32_t bs_epilogue_weights(bs_weight_spec *specs, int32_t n, int32_t channels, bool no_bias, int32_t act);
void bs_epilogue_prepare(const bs_epilogue_layout *layout, int32_t channels, bool no_bias, int32_t act,
                         const void *const *weights, void *prepared);
/* The epilogue of a call, from prepared memory. */
bs_epilogue bs_epilogue_of(const bs_call *call, const bs_epilogue_layout *layout, int32_t act, float param);

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum);

/* Sets bias and activation of the task. False: the activation is not fused and must be applied afterwards. */
bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task);

/* The task of all rows, an image each. The first window begins at `from` (y, x) and belongs to the output at `to`; the
 * next windows belong to every `step`-th output of the rect. */
bs_conv_task bs_epilogue_task(const bs_call *call, const int32_t *from, const int32_t *to, int32_t step);

/* Runs a call of a convolution: row by row in plain loops or all rows by the kernels, then what these do not fuse. */
typedef void bs_epilogue_row(const bs_call *call, const void *form, const bs_epilogue *epilogue, int32_t row);
typedef void bs_epilogue_rows(const bs_call *call, const void *form, const bs_epilogue *epilogue);
bs_status bs_epilogue_run(const bs_call *call, const void *form, const bs_epilogue *epilogue,
                          bs_epilogue_row *reference, bs_epilogue_rows *fast);

#endif
