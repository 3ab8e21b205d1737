/* ops/reduce.c - reductions over one dimension, or some that follow each other; running sums.
 * Relies on lines.h, reduce.h. Sums go from index 0 up, the last dimension fastest, one code for every tier. */
#include "ops/reduce.h"

#include "base/wrapping.h"
#include "kernels/functions.h"
#include "ops/lines.h"

enum { REDUCE_PART = 64 }; /* elements of which exponentials are taken together */

static const bs_field reduce_fields[] = {BS_FIELD_OF("kind", REDUCE), BS_INT("axis"), BS_INT("keep"),
                                         BS_INT_OF("axes", 0, BS_MAX_RANK)};

static bool reduce_infer(bs_infer *infer)
{
    const bs_reduce_desc *desc = infer->params;
    const int32_t axes = bs_or_default(desc->axes, 1);
    int32_t axis;
    if (!bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_axis(infer, desc->axis, &axis))
        return false;
    if (axes > infer->in[0]->rank - axis)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "%" PRId32 " axes from axis %" PRId32 " on of operand 0, which is %s", axes, axis,
                             bs_say_value(infer, infer->in[0]));
    /* channels of one pixel may be combined anywhere; pixels of a patch may not: its halo would count */
    if ((axis != 0 || axes > 1) && !bs_infer_whole(infer, 0))
        return false;
    if (!desc->keep)
        return bs_lines_remove(infer, axis, axes) && (axis == 0 ? bs_infer_whole(infer, 0) : true);
    for (int32_t d = axis; d < axis + axes; d++)
        infer->out[0].dims[d] = bs_dim_const(infer->graph, 1);
    return true;
}

/* The lines of a reduction, one behind the other: `lines` of them along dimensions first .. last - 1. */
typedef struct reduce_job {
    bs_lines_job job;
    int32_t first, last;
    int64_t lines;
} reduce_job;

/* Element 0 of line number i, which begins at x. */
static const float *reduce_line_at(const reduce_job *r, const float *x, int64_t i)
{
    const bs_operand *in = &r->job.call->in[0];
    for (int32_t d = r->last - 1; d >= r->first; d--) {
        x += i % in->dim[d] * in->stride[d];
        i /= in->dim[d];
    }
    return x;
}

static float reduce_all(const reduce_job *r, int32_t kind, const float *x, float top)
{
    if (r->lines * r->job.n == 0)
        return kind == BS_REDUCE_PROD;
    float result = bs_reduce_term(kind, x[0], top);
    for (int64_t l = 0; l < r->lines; l++) {
        const float *line = l == 0 ? x : reduce_line_at(r, x, l);
        for (int32_t i = l == 0; i < r->job.n; i++)
            result = bs_reduce_join(kind, result, bs_reduce_term(kind, line[i * r->job.in_step], top));
    }
    return result;
}

/* The sum of e^(x - top), some elements at a time. */
static float reduce_exps(const reduce_job *r, const float *x, float top)
{
    float part[REDUCE_PART], sum = 0.0f;
    for (int64_t l = 0; l < r->lines; l++) {
        const float *line = l == 0 ? x : reduce_line_at(r, x, l);
        for (int32_t i = 0, n; i < r->job.n; i += n) {
            n = bs_min_i32(r->job.n - i, REDUCE_PART);
            for (int32_t k = 0; k < n; k++)
                part[k] = line[(i + k) * r->job.in_step] - top;
            bs_row_unary((bs_tier)r->job.call->plan->tier, BS_UNARY_EXP, part, 1, part, 1, n);
            for (int32_t k = 0; k < n; k++)
                sum += part[k];
        }
    }
    return sum;
}

/* n lines whose elements lie beside each other: element by element of all of them, in the same order for each. */
static void reduce_beside(const reduce_job *r, int64_t n, const float *x, float *y)
{
    const int32_t kind = r->job.kind;
    memcpy(y, x, (size_t)n * sizeof *y);
    for (int32_t i = 1; i < r->job.n; i++) {
        const float *next = x + i * r->job.in_step;
        for (int64_t k = 0; k < n; k++)
            y[k] = bs_reduce_join(kind, y[k], next[k]);
    }
    for (int64_t k = 0; k < n && kind == BS_REDUCE_MEAN; k++)
        y[k] = bs_reduce_end(kind, y[k], (float)r->job.n, 0.0f);
}

static void reduce_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const reduce_job *r = context;
    const int32_t kind = r->job.kind;
    if (bs_span_dense_f32(step, 2) && r->lines == 1 && r->job.n > 0 && kind < BS_REDUCE_SUM_SQUARE) {
        reduce_beside(r, n, (const float *)(const void *)at[1], (float *)(void *)at[0]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float *x = (const float *)(const void *)(at[1] + i * step[1]);
        const bool exps = kind == BS_REDUCE_LOG_SUM_EXP;
        const float top = exps ? bs_reduce_top(reduce_all(r, BS_REDUCE_MAX, x, 0.0f)) : 0.0f;
        const float all = exps ? reduce_exps(r, x, top) : reduce_all(r, kind, x, top);
        *(float *)(void *)(at[0] + i * step[0]) = bs_reduce_end(kind, all, (float)r->job.n * (float)r->lines, top);
    }
}

static bs_status reduce_run(const bs_call *call)
{
    const bs_reduce_desc *desc = call->params;
    const int32_t first = bs_axis_of(desc->axis, call->in[0].rank), last = first + bs_or_default(desc->axes, 1) - 1;
    reduce_job r = {bs_lines_job_of(call, last), first, last, 1};
    r.job.kind = desc->kind;
    for (int32_t d = first; d < last; d++)
        r.lines *= call->in[0].dim[d];
    if (r.lines * r.job.n == 0 && desc->kind >= BS_REDUCE_MEAN && desc->kind <= BS_REDUCE_MIN)
        return bs_call_fail(call, "operand 0 is empty");
    bs_lines_visit(call, last, reduce_lines, &r.job);
    return BS_OK;
}

const bs_op bs_op_reduce = {.name = "reduce",
                            .min_in = 1,
                            .layout = {.images = true, .empty = true},
                            BS_PARAMS(bs_reduce_desc, reduce_fields),
                            .infer = reduce_infer,
                            .flops = bs_lines_flops,
                            .run = reduce_run};

bs_value bs_reduce(bs_graph *graph, bs_value x, const bs_reduce_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_reduce);
}

/* ------------------------------------------------------------------------------------------------------ cumsum */

static const bs_field cumsum_fields[] = {BS_INT("axis"), BS_INT_OF("exclusive", 0, 1), BS_INT_OF("reverse", 0, 1)};

static bool cumsum_infer(bs_infer *infer)
{
    int32_t axis;
    return bs_infer_number(infer, 0) && bs_infer_axis(infer, ((const bs_cumsum_desc *)infer->params)->axis, &axis) &&
           bs_infer_whole(infer, 0);
}

/* Steps are negative in reverse. */
static void cumsum_f32(const bs_lines_job *job, bool exclusive, const float *x, float *y)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < job->n; i++) {
        const float before = sum;
        sum += x[i * job->in_step];
        y[i * job->out_step] = exclusive ? before : sum;
    }
}

BS_WRAPS static void cumsum_i32(const bs_lines_job *job, bool exclusive, const uint32_t *x, uint32_t *y)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < job->n; i++) {
        const uint32_t before = sum;
        sum += x[i * job->in_step];
        y[i * job->out_step] = exclusive ? before : sum;
    }
}

static void cumsum_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    bs_lines_job job = *(const bs_lines_job *)context;
    const bs_cumsum_desc *desc = job.call->params;
    const ptrdiff_t end = desc->reverse ? job.n - 1 : 0, in_end = 4 * end * job.in_step,
                    out_end = 4 * end * job.out_step;
    job.in_step = desc->reverse ? -job.in_step : job.in_step;
    job.out_step = desc->reverse ? -job.out_step : job.out_step;
    for (int64_t i = 0; i < n; i++) {
        const void *x = at[1] + i * step[1] + in_end;
        void *y = at[0] + i * step[0] + out_end;
        if (job.call->in[0].dtype == BS_F32)
            cumsum_f32(&job, desc->exclusive, x, y);
        else
            cumsum_i32(&job, desc->exclusive, x, y);
    }
}

static bs_status cumsum_run(const bs_call *call)
{
    const int32_t axis = bs_axis_of(((const bs_cumsum_desc *)call->params)->axis, call->in[0].rank);
    bs_lines_job job = bs_lines_job_of(call, axis);
    if (job.n > 0)
        bs_lines_visit(call, axis, cumsum_lines, &job);
    return BS_OK;
}

const bs_op bs_op_cumsum = {.name = "cumsum",
                            .min_in = 1,
                            BS_PARAMS(bs_cumsum_desc, cumsum_fields),
                            .infer = cumsum_infer,
                            .flops = bs_lines_flops,
                            .run = cumsum_run};

bs_value bs_cumsum(bs_graph *graph, bs_value x, const bs_cumsum_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_cumsum);
}
