/* ops/lines.c - ops on whole lines of one dimension: softmax, layer_norm, rms_norm, argmax, argmin, topk.
 * Relies on lines.h, kernels/functions.h for softmax and norms. Must never let lines influence each other. */
#include "ops/lines.h"

typedef struct bs_topk_desc {
    const char *name;
    int32_t k;
} bs_topk_desc;

static const bs_field norm_fields[] = {BS_FLOAT("epsilon")};
static const bs_field topk_fields[] = {BS_INT("k")};

/* ------------------------------------------------------------------------------------------------------ shared */

static bool lines_infer(bs_infer *infer) { return bs_infer_lines(infer, 0); }

bool bs_lines_remove(bs_infer *infer, int32_t axis, int32_t count)
{
    bs_value_info *out = &infer->out[0];
    for (int32_t d = axis; d + count < out->rank; d++)
        out->dims[d] = out->dims[d + count];
    bs_value_set_rank(out, out->rank - count);
    if (out->rank == 0) {
        bs_value_set_rank(out, 1);
        out->dims[0] = bs_dim_const(infer->graph, 1);
    }
    return bs_infer_no_new_image(infer);
}

/* An operand without dimensions that the line's operand has, viewed with these as 1, so that both are walked along;
 * `axis` is the last one of them. */
static bs_operand lines_view(const bs_operand *out, const bs_operand *in, int32_t axis)
{
    bs_operand view = *out;
    const int32_t rank = in->rank, count = rank == 1 ? 0 : rank - out->rank; /* of all dimensions but one, which is 1 */
    if (count == 0)
        return view;
    view.rank = in->rank;
    view.image = in->image;
    for (int32_t d = rank - 1; d > axis - count; d--) {
        view.dim[d] = d > axis ? out->dim[d - count] : 1;
        view.stride[d] = d > axis ? out->stride[d - count] : 0;
    }
    const bs_rect whole = {0, view.dim[1], 0, view.dim[2]};
    if (view.image)
        view.rect = whole;
    return view;
}

bs_lines_job bs_lines_job_of(const bs_call *call, int32_t axis)
{
    bs_lines_job job;
    memset(&job, 0, sizeof job);
    job.call = call;
    job.n = call->in[0].dim[axis];
    job.in_step = call->in[0].stride[axis];
    return job;
}

void bs_lines_visit(const bs_call *call, int32_t axis, bs_span_inner inner, bs_lines_job *job)
{
    const bs_operand out = lines_view(&call->out[0], &call->in[0], axis);
    bs_span span;
    job->out_step = out.stride[axis];
    bs_span_open_lines(&span, &out, call->rows, axis);
    bs_span_add(&span, &call->in[0], NULL);
    if (call->n_out > 1)
        bs_span_add(&span, &call->out[1], NULL);
    bs_span_run(&span, inner, job);
}

void bs_lines_each(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_lines_job *job = context;
    for (int64_t i = 0; i < n; i++)
        job->line(job, (const float *)(const void *)(at[1] + i * step[1]), (float *)(void *)(at[0] + i * step[0]));
}

double bs_lines_flops(const bs_graph *graph, const bs_node *node)
{
    return bs_value_work(graph, bs_node_in(graph, node)[0]);
}

/* ----------------------------------------------------------------------------------------------------- softmax */

static double softmax_flops(const bs_graph *graph, const bs_node *node)
{
    return 8.0 * bs_value_work(graph, node->first_out); /* maximum, exponential, sum, quotient */
}

static void softmax_line(const bs_lines_job *job, const float *x, float *y)
{
    bs_row_softmax((bs_tier)job->call->plan->tier, x, job->in_step, y, job->out_step, job->n);
}

static bs_status softmax_run(const bs_call *call)
{
    const int32_t last = call->in[0].rank - 1;
    bs_lines_job job = bs_lines_job_of(call, last);
    job.line = softmax_line;
    if (job.n > 0)
        bs_lines_visit(call, last, bs_lines_each, &job);
    return BS_OK;
}

const bs_op bs_op_softmax = {
    BS_BY_LINES(softmax), .min_in = 1, .layout = {.images = true}, .infer = lines_infer, .flops = softmax_flops,
    .run = softmax_run};

bs_value bs_softmax(bs_graph *graph, bs_value x) { return bs_op_build_one(graph, x, NULL, &bs_op_softmax); }

/* --------------------------------------------------------------------------------------- layer_norm, rms_norm */

static bool norm_infer(bs_infer *infer)
{
    int32_t features;
    return bs_infer_lines(infer, 0) && bs_infer_const(infer, 0, infer->in[0]->rank - 1, "features", &features);
}

static int32_t rms_norm_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    const int64_t features = bs_dim_max(graph, x->dims[x->rank - 1]);
    specs[0] = bs_weight_vector("weight", features);
    return 1;
}

static int32_t layer_norm_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    rms_norm_weights(graph, node, specs);
    specs[1] = bs_weight_vector("bias", specs[0].dim[0]);
    return 2;
}

static void norm_line(const bs_lines_job *job, const float *x, float *y)
{
    bs_row_normalise((bs_tier)job->call->plan->tier, &job->norm, x, job->in_step, y, job->out_step);
}

static bs_status norm_run(const bs_call *call, bool biased)
{
    const bs_norm_desc *desc = call->params;
    const int32_t last = call->in[0].rank - 1;
    bs_lines_job job = bs_lines_job_of(call, last);
    const float *weight = call->prepared;
    const bs_row_norm norm = {weight, biased ? weight + bs_aligned_floats(job.n) : NULL,
                              desc->epsilon == 0.0f ? 1e-5f : desc->epsilon, job.n};
    job.norm = norm;
    job.line = norm_line;
    bs_lines_visit(call, last, bs_lines_each, &job);
    return BS_OK;
}

static bs_status layer_norm_run(const bs_call *call) { return norm_run(call, true); }
static bs_status rms_norm_run(const bs_call *call) { return norm_run(call, false); }

static const bs_op_rules layer_norm_rules = {.weights = {.specs = layer_norm_weights}};

const bs_op bs_op_layer_norm = {BS_BY_LINES(layer_norm),
                                .min_in = 1,
                                .layout = {.images = true},
                                BS_PARAMS(bs_norm_desc, norm_fields),
                                .infer = norm_infer,
                                .flops = softmax_flops,
                                .rules = &layer_norm_rules,
                                .run = layer_norm_run};

static const bs_op_rules rms_norm_rules = {.weights = {.specs = rms_norm_weights}};

const bs_op bs_op_rms_norm = {BS_BY_LINES(rms_norm),
                              .min_in = 1,
                              .layout = {.images = true},
                              BS_PARAMS(bs_norm_desc, norm_fields),
                              .infer = norm_infer,
                              .flops = softmax_flops,
                              .rules = &rms_norm_rules,
                              .run = rms_norm_run};

bs_value bs_layer_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_layer_norm);
}

bs_value bs_rms_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_rms_norm);
}

/* ---------------------------------------------------------------------------------------- argmax, argmin, topk */

static bool arg_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    if (!bs_infer_number(infer, 0) || !bs_infer_rank(infer, 0, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 0))
        return false;
    infer->out[0].dtype = BS_I32;
    return bs_lines_remove(infer, x->rank - 1, 1);
}

/* The first of the largest, or with `least` of the smallest. NaN: see the header. */
static int32_t arg_f32(const bs_lines_job *job, const float *x, bool least)
{
    const ptrdiff_t step = job->in_step;
    int32_t best = 0;
#ifndef BS_SMALL
    if (step == 1)
        return (int32_t)bs_row_place_of_best((bs_tier)job->call->plan->tier, x, job->n, least);
#endif
    for (int32_t i = 1; i < job->n; i++)
        if (least ? x[i * step] < x[best * step] : x[i * step] > x[best * step])
            best = i;
    return best;
}

static int32_t arg_i32(const int32_t *x, int32_t n, ptrdiff_t step, bool least)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (least ? x[i * step] < x[best * step] : x[i * step] > x[best * step])
            best = i;
    return best;
}

static void arg_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_lines_job *job = context;
    const bool f32 = job->call->in[0].dtype == BS_F32, least = job->kind != 0;
    for (int64_t i = 0; i < n; i++) {
        const void *x = at[1] + i * step[1];
        int32_t *place = (int32_t *)(void *)(at[0] + i * step[0]);
        if (f32)
            *place = arg_f32(job, x, least);
        else
            *place = arg_i32(x, job->n, job->in_step, least);
    }
}

static bs_status arg_run(const bs_call *call, bool least)
{
    const int32_t last = call->in[0].rank - 1;
    bs_lines_job job = bs_lines_job_of(call, last);
    job.kind = least;
    bs_lines_visit(call, last, arg_lines, &job);
    return BS_OK;
}

static bs_status argmax_run(const bs_call *call) { return arg_run(call, false); }
static bs_status argmin_run(const bs_call *call) { return arg_run(call, true); }

const bs_op bs_op_argmax = {
    .name = "argmax", .min_in = 1, .infer = arg_infer, .flops = bs_lines_flops, .run = argmax_run};
const bs_op bs_op_argmin = {
    .name = "argmin", .min_in = 1, .infer = arg_infer, .flops = bs_lines_flops, .run = argmin_run};

bs_value bs_argmax(bs_graph *graph, bs_value x) { return bs_op_build_one(graph, x, NULL, &bs_op_argmax); }
bs_value bs_argmin(bs_graph *graph, bs_value x) { return bs_op_build_one(graph, x, NULL, &bs_op_argmin); }

static bool topk_infer(bs_infer *infer)
{
    const bs_topk_desc *desc = infer->params;
    if (!bs_infer_lines(infer, 0))
        return false;
    const int32_t last = infer->in[0]->rank - 1;
    const bs_dim_id d = infer->in[0]->dims[last];
    if (desc->k < 1 || desc->k > bs_dim_max(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "k is %" PRId32 ", expected 1 .. dimension %" PRId32 " of operand 0, which is %s", desc->k,
                             last, bs_say_dim(infer, d));
    infer->n_out = 2;
    infer->out[0].dims[last] = infer->out[1].dims[last] = bs_dim_const(infer->graph, desc->k);
    infer->out[1].dtype = BS_I32;
    return bs_infer_least(infer, d, desc->k);
}

/* NaN goes last. */
static bool topk_before(float a, float b) { return a > b || (a == a && b != b); }

/* Keeps the best found so far in order. A value goes behind equal ones, so the lower index comes first. */
static void topk_line(const bs_lines_job *job, const float *x, float *best, int32_t *index)
{
    const int32_t k = job->kind;
    for (int32_t i = 0; i < job->n; i++) {
        const float v = x[i * job->in_step];
        int32_t place = bs_min_i32(i, k);
        while (place > 0 && topk_before(v, best[(place - 1) * job->out_step])) {
            if (place < k) {
                best[place * job->out_step] = best[(place - 1) * job->out_step];
                index[place * job->index_step] = index[(place - 1) * job->index_step];
            }
            place--;
        }
        if (place < k) {
            best[place * job->out_step] = v;
            index[place * job->index_step] = i;
        }
    }
}

static void topk_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        topk_line(context, (const float *)(const void *)(at[1] + i * step[1]), (float *)(void *)(at[0] + i * step[0]),
                  (int32_t *)(void *)(at[2] + i * step[2]));
}

static bs_status topk_run(const bs_call *call)
{
    const int32_t last = call->in[0].rank - 1;
    bs_lines_job job = bs_lines_job_of(call, last);
    job.kind = ((const bs_topk_desc *)call->params)->k;
    job.index_step = call->out[1].stride[last];
    if (job.n < job.kind)
        return BS_ERROR_SHAPE; /* a run set a symbol below k */
    bs_lines_visit(call, last, topk_lines, &job);
    return BS_OK;
}

const bs_op bs_op_topk = {.name = "topk",
                          .min_in = 1,
                          .more_out = 1,
                          BS_PARAMS(bs_topk_desc, topk_fields),
                          .infer = topk_infer,
                          .flops = bs_lines_flops,
                          .run = topk_run};

bs_value bs_topk(bs_graph *graph, bs_value x, int32_t k, bs_value *indices)
{
    const bs_topk_desc desc = {NULL, k};
    const bs_node *node = bs_op_build_node(graph, &bs_op_topk, &x.id, 1, &desc);
    const bs_value values = {node ? node->first_out : 0};
    if (indices)
        indices->id = node ? node->first_out + 1 : 0;
    return values;
}
