/* ops/lrn.c - local response normalisation across channels.
 * Relies on lines.h, lrn.h. Sums go from the lowest channel of a window up, each from its beginning: one code for every
 * tier. */
#include "ops/lrn.h"

#include "ops/lines.h"

static const bs_field lrn_fields[] = {BS_INT_OF("size", 0, 1 << 20), BS_FLOAT("alpha"), BS_FLOAT("beta"),
                                      BS_FLOAT("bias")};

static bool lrn_infer(bs_infer *infer)
{
    int32_t channels;
    return bs_infer_image(infer, 0, &channels);
}

static double lrn_flops(const bs_graph *graph, const bs_node *node)
{
    const double size = bs_or_default(((const bs_lrn_desc *)node->params)->size, 5);
    return (2.0 * size + 4.0) * bs_value_work(graph, node->first_out);
}

static void lrn_line(const bs_lines_job *job, const float *x, float *y)
{
    const bs_lrn_form form = bs_lrn_form_of(job->call->params);
    for (int32_t c = 0; c < job->n; c++) {
        const int32_t first = bs_max_i32(0, c - form.before), last = bs_min_i32(job->n - 1, c + form.after);
        float squares = 0.0f;
        for (int32_t k = first; k <= last; k++)
            squares += x[k * job->in_step] * x[k * job->in_step];
        y[c * job->out_step] = bs_lrn_of(x[c * job->in_step], squares, form.scale, form.beta, form.bias);
    }
}

static bs_status lrn_run(const bs_call *call)
{
    bs_lines_job job = bs_lines_job_of(call, 0);
    job.line = lrn_line;
    bs_lines_visit(call, 0, bs_lines_each, &job);
    return BS_OK;
}

const bs_op bs_op_lrn = {.name = "lrn",
                         .min_in = 1,
                         .layout = {.images = true},
                         BS_PARAMS(bs_lrn_desc, lrn_fields),
                         .infer = lrn_infer,
                         .flops = lrn_flops,
                         .run = lrn_run};

bs_value bs_lrn(bs_graph *graph, bs_value x, const bs_lrn_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_lrn);
}
