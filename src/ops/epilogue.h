/* ops/epilogue.h - what conv2d, deconv2d and linear have in common after their sums: bias, slopes, activation.
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

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum);

/* Sets bias and activation of the task. False: the activation is not fused, bs_epilogue_pass must follow. */
bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task);
/* The activation alone, over the box of `out`. */
void bs_epilogue_pass(const bs_epilogue *epilogue, const bs_operand *out, int32_t rows);

#endif
