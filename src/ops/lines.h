/* ops/lines.h - visiting whole lines of one dimension, for the ops on them.
 * Relies on span.h. Must never let lines influence each other. An op that removes all dimensions leaves [1]. */
#ifndef BS_OPS_LINES_H
#define BS_OPS_LINES_H

#include "kernels/functions.h"
#include "ops/common.h"
#include "ops/span.h"

/* One visit: the lines' length and steps, and whatever the op adds. */
typedef struct bs_lines_job {
    const bs_call *call;
    void (*line)(const struct bs_lines_job *job, const float *x, float *y); /* of bs_lines_each */
    int32_t n;
    ptrdiff_t in_step, out_step, index_step; /* in elements */
    int32_t kind;
    bs_row_norm norm;
} bs_lines_job;

/* The lines of operand 0 along `axis`. */
bs_lines_job bs_lines_job_of(const bs_call *call, int32_t axis);
/* Calls inner with the first elements of lines: of the result, of operand 0, of a second result. The results may lack
 * `axis` and dimensions before it. */
void bs_lines_visit(const bs_call *call, int32_t axis, bs_span_inner inner, bs_lines_job *job);
/* An inner of bs_lines_visit: the job's `line` for each line of f32. */
void bs_lines_each(const void *context, int64_t n, char *const *at, const ptrdiff_t *step);

/* out[0] without `count` dimensions from `axis` on. */
bool bs_lines_remove(bs_infer *infer, int32_t axis, int32_t count);
/* One operation for each element of operand 0. */
double bs_lines_flops(const bs_graph *graph, const bs_node *node);

#endif
