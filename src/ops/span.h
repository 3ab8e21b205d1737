/* ops/span.h - one loop nest for every op that goes element by element over strided operands.
 * Owns the walk: it sorts axes by the output's strides, merges those that are contiguous in every operand, and calls
 * `inner` on the innermost. Relies on graph/op.h. Must never know what an element means. */
#ifndef BS_OPS_SPAN_H
#define BS_OPS_SPAN_H

#include "ops/table.h"

#define BS_SPAN_OPERANDS 5
#define BS_SPAN_AXES     (BS_MAX_AXES + 1) /* axis 0 is the row, axis d + 1 dimension d */

typedef struct bs_span {
    int32_t operands, axes;
    int64_t low[BS_SPAN_AXES]; /* first coordinate, in those of the output */
    int64_t count[BS_SPAN_AXES];
    char *at[BS_SPAN_OPERANDS];
    ptrdiff_t step[BS_SPAN_OPERANDS][BS_SPAN_AXES]; /* bytes */
} bs_span;

/* n elements: of operand i at at[i], at[i] + step[i], ... (bytes). Operand 0 is the output. */
typedef void (*bs_span_inner)(const void *context, int64_t n, char *const *at, const ptrdiff_t *step);

/* The box of an output: its rect where it has rank 3, else all of it. No operand is added yet: the box may be
 * changed. */
void bs_span_box(bs_span *span, const bs_operand *out, int32_t rows);
/* The box, with the output already added as operand 0. */
void bs_span_open(bs_span *span, const bs_operand *out, int32_t rows);
/* The box of a call's output, with that output and operand 0, which has its shape, already added. */
void bs_span_call(bs_span *span, const bs_call *call);
/* As bs_span_open, for ops on whole lines: visits every index but those of dimension `axis`, of which it visits only
 * 0. */
void bs_span_open_lines(bs_span *span, const bs_operand *out, int32_t rows, int32_t axis);
/* Whether that would visit one line, which begins where the output does; where it pays to know. */
static inline bool bs_span_is_line(const bs_operand *out, int32_t rows)
{
    return BS_DENSE_PAYS && rows == 1 && (out->rank == 1 || (out->rank == 2 && out->dim[0] == 1));
}
/* Adds an operand of the output's rank. Its element c belongs to coordinate c + shift[d] of dimension d (shift may be
 * NULL). */
void bs_span_add(bs_span *span, const bs_operand *operand, const int32_t *shift);
/* The same of any rank, by its strides along the dimensions of the output: 0 where these do not move it. */
void bs_span_add_strides(bs_span *span, const bs_operand *operand, const ptrdiff_t *stride, const int32_t *shift);
/* Adds an array of 4-byte elements, one for each index of dimension `axis`. */
void bs_span_add_array(bs_span *span, const void *array, int32_t axis);
/* Walks. The span cannot be used again. */
void bs_span_run(bs_span *span, bs_span_inner inner, const void *context);

/* Before a loop over elements: each is made of what stands in its own place. So a result may be made over an operand
 * (a step of a tail), and the compiler need not ask whether they overlap, or go one by one where they do. */
#if defined(__GNUC__) && !defined(__clang__)
#define BS_EACH_BY_ITSELF _Pragma("GCC ivdep")
#else
#define BS_EACH_BY_ITSELF
#endif

/* Whether the first operands of an inner loop are dense arrays of f32, where that pays. */
static inline bool bs_span_dense_f32(const ptrdiff_t *step, int32_t operands)
{
    bool dense = BS_DENSE_PAYS;
    for (int32_t i = 0; i < operands && dense; i++)
        dense = step[i] == 4;
    return dense;
}

/* Adds `to`, then `from` with its shift, to a box, and copies the elements, of 1, 2 or 4 bytes. They do not overlap. */
void bs_span_copy(bs_span *span, const bs_call *call, const bs_operand *to, const bs_operand *from,
                  const int32_t *shift);

#endif
