/* ops/rope.c - rotary position embedding: pairs of a head's elements turned by the position of their row.
 * Relies on rope.h. Must never trust a position. One code for every tier. */
#include "ops/rope.h"

#include "ops/common.h"

#include <float.h>
#include <math.h>

static const bs_field rope_fields[] = {BS_INT_OF("heads", 0, 1 << 30), BS_INT_OF("dims", 0, 1 << 30), BS_FLOAT("base"),
                                       BS_INT_OF("interleaved", 0, 1)};

static bool rope_positions(bs_infer *infer)
{
    const bs_value_info *v = infer->in[1];
    const bool one = v->rank == 0 || (v->rank == 1 && v->dims[0] == bs_dim_const(infer->graph, 1));
    return (v->dtype == BS_I32 && one) ||
           bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 1 (positions) is %s, expected i32 [] or [1]",
                         bs_say_typed(infer, v));
}

static bool rope_infer(bs_infer *infer)
{
    const bs_rope_desc *desc = infer->params;
    const bs_value_info *x = infer->in[0];
    int32_t width = 0;
    if (!bs_infer_f32(infer, 0, 1, 2) || !bs_infer_const(infer, 0, x->rank - 1, "features", &width) ||
        !rope_positions(infer))
        return false;
    const int32_t heads = x->rank == 2 ? 1 : bs_or_default(desc->heads, 1);
    if (x->rank == 2 && !bs_infer_field(infer, "heads", desc->heads, 0, 0)) /* dimension 0 says it */
        return false;
    if (width % heads != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "%" PRId32 " heads of cells [%" PRId32 "]: not a whole number of elements each", heads,
                             width);
    const int32_t dims = bs_or_default(desc->dims, width / heads);
    if (dims % 2 != 0 || dims > width / heads)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "%" PRId32 " dimensions to turn of heads of %" PRId32 ", expected an even number", dims,
                             width / heads);
    if (desc->base != 0.0f && !(desc->base >= 1.0f && desc->base <= FLT_MAX))
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "base is %g, expected 1 or more", (double)desc->base);
    return true;
}

static double rope_flops(const bs_graph *graph, const bs_node *node)
{
    return 4.0 * bs_value_work(graph, node->first_out);
}

/* The turns of all pairs, and cosines and sines of a row. */
static void rope_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                      bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const bs_value_info *x = &graph->values[node->first_out];
    plan->scratch_bytes = bs_bytes_array(bs_dim_max(graph, x->dims[x->rank - 1]) / 2, 16);
}

double bs_rope_ratio(const bs_rope_desc *desc, const bs_rope_form *form)
{
    const double base = desc->base == 0.0f ? 10000.0 : (double)desc->base;
    return form->pairs > 0 ? pow(base, -1.0 / form->pairs) : 1.0;
}

typedef struct rope_job {
    bs_rope_form form;
    uint64_t *turn;
    float *cosine, *sine;
    ptrdiff_t in_step, out_step; /* from element to element of a head */
} rope_job;

static void rope_dense(const rope_job *job, const float *restrict x, float *restrict y)
{
    const int32_t pairs = job->form.pairs;
    for (int32_t i = 0; i < pairs; i++)
        y[i] = x[i] * job->cosine[i] - x[i + pairs] * job->sine[i];
    for (int32_t i = 0; i < pairs; i++)
        y[i + pairs] = x[i + pairs] * job->cosine[i] + x[i] * job->sine[i];
}

static void rope_head(const rope_job *job, const float *x, float *y)
{
    const bs_rope_form *f = &job->form;
    if (BS_DENSE_PAYS && job->in_step == 1 && job->out_step == 1 && f->next == 1)
        rope_dense(job, x, y);
    else
        for (int32_t i = 0; i < f->pairs; i++) {
            const ptrdiff_t first = i * f->next, second = first + f->apart;
            const float a = x[first * job->in_step], b = x[second * job->in_step];
            y[first * job->out_step] = a * job->cosine[i] - b * job->sine[i];
            y[second * job->out_step] = b * job->cosine[i] + a * job->sine[i];
        }
    for (int32_t i = 2 * f->pairs; i < f->features; i++)
        y[i * job->out_step] = x[i * job->in_step];
}

static rope_job rope_job_of(const bs_call *call)
{
    const bs_rope_desc *desc = call->params;
    const bs_operand *x = &call->in[0];
    rope_job job = {bs_rope_form_of(x->rank, x->dim, desc->heads, desc->dims, desc->interleaved), call->scratch, NULL,
                    NULL, x->stride[x->rank - 1], call->out[0].stride[x->rank - 1]};
    const double ratio = bs_rope_ratio(desc, &job.form);
    job.cosine = (float *)(void *)(job.turn + job.form.pairs);
    job.sine = job.cosine + job.form.pairs;
    for (int32_t i = 0; i < job.form.pairs; i++)
        job.turn[i] = bs_rope_turn(ratio, i);
    return job;
}

static bs_status rope_run(const bs_call *call)
{
    const bs_operand *x = &call->in[0], *y = &call->out[0], *positions = &call->in[1];
    const rope_job job = rope_job_of(call);
    const ptrdiff_t in_head = x->rank == 2 ? x->stride[0] : job.form.features * x->stride[0];
    const ptrdiff_t out_head = x->rank == 2 ? y->stride[0] : job.form.features * y->stride[0];
    for (int32_t r = 0; r < call->rows; r++) {
        const int32_t position = ((const int32_t *)positions->data)[r * positions->row_stride];
        if (position < 0 || position > BS_ROPE_MOST)
            return bs_call_fail(call, "position %" PRId32 ", expected 0 .. %" PRId32, position, BS_ROPE_MOST);
        for (int32_t i = 0; i < job.form.pairs; i++)
            bs_rope_angle(job.turn[i], position, &job.cosine[i], &job.sine[i]);
        for (int32_t h = 0; h < job.form.heads; h++)
            rope_head(&job, bs_f32_at(x, r * x->row_stride + h * in_head),
                      bs_f32_at(y, r * y->row_stride + h * out_head));
    }
    return BS_OK;
}

static const bs_op_rules rope_rules = {.plan = rope_plan};

const bs_op bs_op_rope = {.name = "rope",
                          .min_in = 2,
                          .rows = {.refuses = true},
                          BS_PARAMS(bs_rope_desc, rope_fields),
                          .infer = rope_infer,
                          .flops = rope_flops,
                          .rules = &rope_rules,
                          .run = rope_run};

bs_value bs_rope(bs_graph *graph, bs_value x, bs_value positions, const bs_rope_desc *desc)
{
    return bs_op_build_two(graph, x, positions, desc, &bs_op_rope);
}
