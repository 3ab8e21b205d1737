/* ops/span.c - the strided walk.
 * Relies on span.h. Must never let the order of elements matter: inner functions are element by element. */
#include "ops/span.h"
#include "kernels/arrange.h"

void bs_span_box(bs_span *span, const bs_operand *out, int32_t rows)
{
    span->operands = 0;
    span->axes = out->rank + 1;
    memset(span->low, 0, sizeof span->low);
    span->count[0] = rows;
    for (int32_t d = 0; d < out->rank; d++)
        span->count[d + 1] = out->dim[d];
    if (!out->image)
        return;
    span->low[2] = out->rect.y0;
    span->count[2] = out->rect.y1 - out->rect.y0;
    span->low[3] = out->rect.x0;
    span->count[3] = out->rect.x1 - out->rect.x0;
}

void bs_span_add_strides(bs_span *span, const bs_operand *operand, const ptrdiff_t *stride, const int32_t *shift)
{
    const int32_t i = span->operands++;
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(operand->dtype);
    ptrdiff_t offset = 0;
    span->step[i][0] = operand->row_stride * bytes;
    for (int32_t d = 0; d < span->axes - 1; d++) {
        const ptrdiff_t step = stride[d] * bytes;
        span->step[i][d + 1] = step;
        offset += (ptrdiff_t)(span->low[d + 1] - (shift ? shift[d] : 0)) * step;
    }
    span->at[i] = (char *)operand->data + offset;
}

void bs_span_add(bs_span *span, const bs_operand *operand, const int32_t *shift)
{
    bs_span_add_strides(span, operand, operand->stride, shift);
}

void bs_span_open(bs_span *span, const bs_operand *out, int32_t rows)
{
    bs_span_box(span, out, rows);
    bs_span_add(span, out, NULL);
}

void bs_span_call(bs_span *span, const bs_call *call)
{
    bs_span_open(span, &call->out[0], call->rows);
    bs_span_add(span, &call->in[0], NULL);
}

void bs_span_open_lines(bs_span *span, const bs_operand *out, int32_t rows, int32_t axis)
{
    bs_span_box(span, out, rows);
    span->low[axis + 1] = 0;
    span->count[axis + 1] = 1;
    bs_span_add(span, out, NULL);
}

void bs_span_add_array(bs_span *span, const void *array, int32_t axis)
{
    const int32_t i = span->operands++;
    memset(span->step[i], 0, sizeof span->step[i]);
    span->step[i][axis + 1] = 4;
    span->at[i] = (char *)(uintptr_t)array + 4 * span->low[axis + 1];
}

/* ---------------------------------------------------------------------------------------------------- walk */

static void span_move_axis(bs_span *s, int32_t to, int32_t from)
{
    s->count[to] = s->count[from];
    for (int32_t i = 0; i < s->operands; i++)
        s->step[i][to] = s->step[i][from];
}

static void span_swap_axes(bs_span *s, int32_t a, int32_t b)
{
    const int64_t count = s->count[a];
    s->count[a] = s->count[b];
    s->count[b] = count;
    for (int32_t i = 0; i < s->operands; i++) {
        const ptrdiff_t step = s->step[i][a];
        s->step[i][a] = s->step[i][b];
        s->step[i][b] = step;
    }
}

static ptrdiff_t span_reach(const bs_span *s, int32_t axis)
{
    return s->step[0][axis] < 0 ? -s->step[0][axis] : s->step[0][axis];
}

/* Drops axes of one element and sorts the others, the output's largest step outermost. */
static void span_sort(bs_span *s)
{
    int32_t kept = 0;
    for (int32_t a = 0; a < s->axes; a++)
        if (s->count[a] != 1)
            span_move_axis(s, kept++, a);
    s->axes = kept;
    for (int32_t a = 1; a < kept; a++)
        for (int32_t b = a; b > 0 && span_reach(s, b) > span_reach(s, b - 1); b--)
            span_swap_axes(s, b, b - 1);
}

static bool span_follows(const bs_span *s, int32_t outer, int32_t inner)
{
    for (int32_t i = 0; i < s->operands; i++)
        if (s->step[i][outer] != s->step[i][inner] * (ptrdiff_t)s->count[inner])
            return false;
    return true;
}

static void span_merge(bs_span *s)
{
    int32_t last = 0;
    for (int32_t a = 1; a < s->axes; a++) {
        if (!span_follows(s, last, a)) {
            span_move_axis(s, ++last, a);
            continue;
        }
        const int64_t outer = s->count[last];
        span_move_axis(s, last, a);
        s->count[last] *= outer;
    }
    s->axes = s->axes ? last + 1 : 0;
}

/* Moves to the next line: an odometer over all axes but the innermost. */
static bool span_next(bs_span *s, int64_t *index, int32_t inner)
{
    for (int32_t a = inner - 1; a >= 0; a--) {
        const bool wraps = ++index[a] == s->count[a];
        for (int32_t i = 0; i < s->operands; i++)
            s->at[i] += wraps ? -s->step[i][a] * (ptrdiff_t)(s->count[a] - 1) : s->step[i][a];
        if (!wraps)
            return true;
        index[a] = 0;
    }
    return false;
}

/* False: there is nothing to walk. */
static bool span_arrange(bs_span *span)
{
    for (int32_t a = 0; a < span->axes; a++)
        if (span->count[a] <= 0)
            return false;
    span_sort(span);
    span_merge(span);
    return true;
}

static void span_walk(bs_span *span, bs_span_inner inner, const void *context)
{
    const int32_t last = span->axes > 0 ? span->axes - 1 : 0;
    int64_t index[BS_SPAN_AXES] = {0};
    ptrdiff_t step[BS_SPAN_OPERANDS] = {0};
    for (int32_t i = 0; i < span->operands && span->axes > 0; i++)
        step[i] = span->step[i][last];
    do
        inner(context, span->axes > 0 ? span->count[last] : 1, span->at, step);
    while (span_next(span, index, last));
}

void bs_span_run(bs_span *span, bs_span_inner inner, const void *context)
{
    if (span_arrange(span))
        span_walk(span, inner, context);
}

/* ---------------------------------------------------------------------------------------------------- copy */

static void span_copy_line(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const size_t bytes = *(const size_t *)context;
    char *to = at[0];
    const char *from = at[1];
    if (step[0] == (ptrdiff_t)bytes && step[1] == (ptrdiff_t)bytes) {
        bs_copy(to, from, bytes * (size_t)n);
        return;
    }
    if (bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step[0], from + i * step[1], 4);
    else if (bytes == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step[0], from + i * step[1], 2);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * step[0]] = from[i * step[1]];
}

/* Two axes, one that is dense in the output and one that is dense in what is copied. */
typedef struct span_plane {
    bs_tier tier;
    int32_t rows, columns;
    ptrdiff_t from_row, to_row; /* in elements */
} span_plane;

static void span_transpose(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const span_plane *p = context;
    for (int64_t i = 0; i < n; i++)
        bs_transpose_f32(p->tier, (const float *)(const void *)(at[1] + i * step[1]), p->from_row, p->rows, p->columns,
                         (float *)(void *)(at[0] + i * step[0]), p->to_row);
}

/* Takes such a plane of floats out of what is walked. False: there is none. */
static bool span_take_plane(bs_span *s, bs_tier tier, span_plane *plane)
{
    const int32_t last = s->axes - 1;
    int32_t dense = 0;
    while (dense < last && s->step[1][dense] != 4)
        dense++;
    if (dense >= last || s->step[0][last] != 4 || s->count[last] > INT32_MAX || s->count[dense] > INT32_MAX)
        return false;
    const span_plane found = {tier, (int32_t)s->count[last], (int32_t)s->count[dense], s->step[1][last] / 4,
                              s->step[0][dense] / 4};
    *plane = found;
    span_move_axis(s, dense, last - 1);
    s->axes -= 2;
    return true;
}

void bs_span_copy(bs_span *span, const bs_call *call, const bs_operand *to, const bs_operand *from,
                  const int32_t *shift)
{
    const size_t bytes = bs_dtype_bytes(to->dtype);
    span_plane plane;
    bs_span_add(span, to, NULL);
    bs_span_add(span, from, shift);
    if (!span_arrange(span))
        return;
    if (BS_DENSE_PAYS && to->dtype == BS_F32 && span_take_plane(span, (bs_tier)call->plan->tier, &plane))
        span_walk(span, span_transpose, &plane);
    else
        span_walk(span, span_copy_line, &bytes);
}
