/* ops/segment_rows.c - between segments and their rows: the number of a row in its segment, one row of each segment
 * spread over its rows, or its rows reduced to one. Relies on span.h and ops/structure.h. Must never read rows but
 * those of the call's segments. Sums go from the first row of a segment to its last. One code for every tier. */
#include "ops/common.h"
#include "ops/span.h"
#include "ops/structure.h"

/* Row `index` of a root operand [n, ...], as an operand with the shape of a cell. */
static bs_operand segment_row(const bs_operand *root, int32_t index, const bs_operand *cell)
{
    bs_operand row = *cell;
    row.data = bs_operand_at(root, index * root->stride[0]);
    row.row_stride = 0;
    for (int32_t d = 0; d < cell->rank; d++)
        row.stride[d] = root->stride[d + 1];
    return row;
}

/* Row `index` of cells. */
static bs_operand segment_cell(const bs_operand *cells, int32_t index)
{
    bs_operand row = *cells;
    row.data = bs_operand_at(cells, index * cells->row_stride);
    return row;
}

/* ------------------------------------------------------------------------------------------------------- index */

static bool segment_index_infer(bs_infer *infer)
{
    const int32_t domain = bs_infer_segments(infer, 0);
    infer->out[0].dtype = BS_I32;
    bs_value_set_rank(&infer->out[0], 0);
    return domain && (infer->n_in < 2 || bs_infer_segment_input(infer, 1, domain, "cache_lengths"));
}

/* Cache lengths are 2^30 at most (run/segments.c): the sums fit. */
static bs_status segment_index_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0], *lengths = &call->in[1];
    for (int32_t r = 0; r < call->rows; r++) {
        const int32_t row = call->row + r, segment = bs_segment_at(&call->segments, row),
                      before = call->n_in > 1 ? ((const int32_t *)lengths->data)[segment * lengths->stride[0]] : 0;
        ((int32_t *)out->data)[r * out->row_stride] = before + (row - bs_segment_first(&call->segments, segment));
    }
    return BS_OK;
}

const bs_op bs_op_segment_index = {.name = "segment_index",
                                   .min_in = 1,
                                   .max_in = 2,
                                   .rows = {.of = BS_ROWS_SEGMENT},
                                   .roles = {[1] = BS_ROLE_CACHE_LENGTH},
                                   .params_bytes = sizeof(bs_name_params),
                                   .infer = segment_index_infer,
                                   .run = segment_index_run};

bs_value bs_segment_index(bs_graph *graph, bs_value like, bs_value cache_lengths)
{
    return bs_op_build_two(graph, like, cache_lengths, NULL, &bs_op_segment_index);
}

/* ------------------------------------------------------------------------------------------------------ spread */

static bool segment_spread_infer(bs_infer *infer)
{
    const bs_value_info *parent = infer->in[0];
    const int32_t domain = bs_infer_segments(infer, 1);
    if (!domain || !bs_infer_row_shape(infer))
        return false;
    const bs_dim_id segments = bs_segment_dim(infer->graph, domain);
    if (parent->dims[0] != segments)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected a row for each of %s segments",
                             bs_say_value(infer, parent), bs_say_dim(infer, segments));
    infer->out[0].domain = domain;
    return true;
}

static bs_status segment_spread_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    for (int32_t r = 0; r < call->rows; r++) {
        const bs_operand to = segment_cell(out, r);
        const bs_operand from = segment_row(&call->in[0], bs_segment_at(&call->segments, call->row + r), &to);
        bs_span span;
        bs_span_box(&span, &to, 1);
        bs_span_copy(&span, call, &to, &from, NULL);
    }
    return BS_OK;
}

/* The second operand only tells the domain and is not read (bs_plan_in). */
const bs_op bs_op_segment_spread = {.name = "segment_spread",
                                    .min_in = 2,
                                    .rows = {.of = BS_ROWS_SEGMENT},
                                    .roles = {BS_ROLE_DATA, BS_ROLE_LIKE}, .params_bytes = sizeof(bs_name_params),
                                    .infer = segment_spread_infer,
                                    .run = segment_spread_run};

bs_value bs_segment_spread(bs_graph *graph, bs_value parent, bs_value like)
{
    return bs_op_build_two(graph, parent, like, NULL, &bs_op_segment_spread);
}

/* ------------------------------------------------------------------------------------------------------ reduce */

static bool segment_reduce_infer(bs_infer *infer)
{
    const bool to_rows = ((const bs_segment_reduce_desc *)infer->params)->to_rows != 0;
    const int32_t domain = bs_infer_segments(infer, 0);
    if (!domain || !bs_infer_f32(infer, 0, 0, BS_MAX_RANK - 1))
        return false;
    if (!to_rows && infer->graph->domains[domain].loop)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand 0 is of %s: a trip has no result of its own for a segment, only for its rows "
                             "(to_rows)",
                             bs_say_domain(infer, domain));
    return to_rows || bs_infer_stacked(infer, bs_segment_dim(infer->graph, domain));
}

/* Most tasks that segments are divided into. */
#define SEGMENT_TASKS 64

static void segment_reduce_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                                int32_t max_w, bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const bool to_rows = ((const bs_segment_reduce_desc *)node->params)->to_rows != 0;
    const int64_t segments = bs_dim_max(graph, bs_segment_dim(graph, graph->values[bs_node_in(graph, node)[0]].domain));
    plan->work_items = to_rows ? 1 : (int32_t)bs_min_i64(segments, SEGMENT_TASKS);
}

static double segment_reduce_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return (double)graph->domains[x->domain].max_rows * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

typedef struct segment_job {
    bool first, max; /* first: no result yet, the row becomes it */
    float divisor;   /* not 0: divides at the end of a mean */
} segment_job;

static float segment_step(const segment_job *job, float so_far, float x)
{
    if (job->first)
        return x;
    return job->max ? (x > so_far ? x : so_far) : so_far + x;
}

/* Sums keep NaN; a maximum ignores NaN unless it comes first. */
static void segment_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const segment_job *job = context;
    for (int64_t i = 0; i < n; i++) {
        float *to = (float *)(void *)(at[0] + i * step[0]);
        *to = segment_step(job, *to, *(const float *)(const void *)(at[1] + i * step[1]));
    }
}

static void segment_add_dense(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    float *to = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (!bs_span_dense_f32(step, 2)) {
        segment_lines(context, n, at, step);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] += x[i];
}

static void segment_divide(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const segment_job *job = context;
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) /= job->divisor;
}

static void segment_zero(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) = 0.0f;
}

static void segment_walk(const bs_operand *to, const bs_operand *from, bs_span_inner inner, const segment_job *job)
{
    bs_span span;
    bs_span_open(&span, to, 1);
    if (from)
        bs_span_add(&span, from, NULL);
    bs_span_run(&span, inner, job);
}

/* Rows begin .. end - 1 to one row. */
static void segment_reduce_one(const bs_call *call, int32_t begin, int32_t end, const bs_operand *to)
{
    const bs_segment_reduce_desc *desc = call->params;
    segment_job job = {true, desc->mode == BS_SEGMENT_MAX, 0};
    if (begin == end)
        segment_walk(to, NULL, segment_zero, &job);
    for (int32_t r = desc->mode == BS_SEGMENT_LAST ? bs_max_i32(end - 1, begin) : begin; r < end; r++) {
        const bs_operand from = segment_cell(&call->in[0], r);
        segment_walk(to, &from, job.first || job.max ? segment_lines : segment_add_dense, &job);
        job.first = false;
    }
    job.divisor = (float)(end - begin);
    if (desc->mode == BS_SEGMENT_MEAN && end > begin)
        segment_walk(to, NULL, segment_divide, &job);
}

/* What the rows of a call get: the first of each segment what it gives, the others a copy. Each call sums the whole of
 * a segment that it has rows of. */
static void segment_reduce_to_rows(const bs_call *call)
{
    for (int32_t r = 0, end; r < call->rows; r = end) {
        const int32_t segment = bs_segment_at(&call->segments, call->row + r),
                      last = bs_segment_first(&call->segments, segment + 1);
        const bs_operand first = segment_cell(&call->out[0], r);
        segment_reduce_one(call, bs_segment_first(&call->segments, segment), last, &first);
        end = bs_min_i32(call->rows, last - call->row);
        for (int32_t k = r + 1; k < end; k++) {
            const bs_operand to = segment_cell(&call->out[0], k);
            bs_span span;
            bs_span_box(&span, &to, 1);
            bs_span_copy(&span, call, &to, &first, NULL);
        }
    }
}

static bs_status segment_reduce_run(const bs_call *call)
{
    if (((const bs_segment_reduce_desc *)call->params)->to_rows) {
        segment_reduce_to_rows(call);
        return BS_OK;
    }
    for (int32_t s = call->work_item; s < call->segments.count; s += call->plan->work_items) {
        const bs_operand to = segment_row(&call->out[0], s, &call->in[0]);
        segment_reduce_one(call, bs_segment_first(&call->segments, s), bs_segment_first(&call->segments, s + 1), &to);
    }
    return BS_OK;
}

static const bs_field segment_reduce_fields[] = {BS_FIELD_OF("mode", SEGMENT),
                                                 BS_INT_OF("to_rows", 0, 1)};

static const bs_op_rules segment_reduce_rules = {.plan = segment_reduce_plan};

const bs_op bs_op_segment_reduce = {.name = "segment_reduce",
                                    .min_in = 1,
                                    .rows = {.of = BS_ROWS_SEGMENT},
                                    BS_PARAMS(bs_segment_reduce_desc, segment_reduce_fields),
                                    .infer = segment_reduce_infer,
                                    .flops = segment_reduce_flops,
                                    .rules = &segment_reduce_rules,
                                    .run = segment_reduce_run};

bs_value bs_segment_reduce(bs_graph *graph, bs_value x, const bs_segment_reduce_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_segment_reduce);
}
