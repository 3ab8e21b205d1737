/* ops/nms.c - of boxes that overlap the one with the best score: nms.
 * Relies on common.h for the dimension that a node makes, found.h for boxes, base/sort.c. Must never write a row beyond
 * its maximum: what there is is counted all the same, and the run then ends (run/extents.c). */
#include "ops/common.h"
#include "ops/found.h"

static const bs_field nms_fields[] = {BS_INT_OF("maximum", 0, 1 << 30), BS_INT_OF("max_each", 0, 1 << 30),
                                      BS_FLOAT("iou_threshold"), BS_FLOAT("score_above"), BS_INT_OF("centre", 0, 1)};

static bool nms_infer(bs_infer *infer)
{
    const bs_nms_desc *desc = infer->params;
    const bs_value_info *boxes = infer->in[0], *scores = infer->in[1];
    bs_value_info *out = &infer->out[0];
    if (!bs_infer_f32(infer, 0, 3, 3) || !bs_infer_f32(infer, 1, 3, 3) ||
        !bs_infer_dim_is(infer, 0, 2, bs_dim_const(infer->graph, 4)) ||
        !bs_infer_dim_is(infer, 1, 0, boxes->dims[0]) || !bs_infer_dim_is(infer, 1, 2, boxes->dims[1]))
        return false;
    if (!(desc->iou_threshold >= 0 && desc->iou_threshold <= 1))
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "iou_threshold is %g, expected 0 .. 1",
                             (double)desc->iou_threshold);
    const int64_t each = bs_dim_max(infer->graph, boxes->dims[1]),
                  lines = (int64_t)bs_bytes_figure(bs_value_elements(infer->graph, scores)) / each;
    out->dtype = BS_I32;
    bs_value_set_rank(out, 2);
    out->dims[0] =
        bs_infer_found_dim(infer, desc->maximum, lines * bs_min_i64(each, bs_or_default(desc->max_each, 1 << 30)));
    out->dims[1] = bs_dim_const(infer->graph, 3);
    return out->dims[0] >= 0;
}

typedef struct nms_job {
    bs_box *box;          /* [boxes] of one batch */
    int32_t *ids, *other; /* [boxes] */
    const float *score;   /* of box 0, for one class */
    ptrdiff_t step;
} nms_job;

static void nms_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                     bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const int32_t *in = bs_node_in(graph, node);
    const bs_value_info *boxes = bs_value_get(graph, in[0]), *scores = bs_value_get(graph, in[1]);
    if (plan->tier == BS_TIER_CUDA) { /* classes of all batches at once: a key for each score, a count for each class */
        const bs_bytes counts = bs_bytes_array(bs_dim_max(graph, scores->dims[0]), sizeof(int32_t));
        plan->scratch_bytes = bs_bytes_add(bs_bytes_times(bs_value_elements(graph, scores), sizeof(uint64_t)),
                                           bs_bytes_times(counts, bs_dim_max(graph, scores->dims[1])));
        return;
    }
    plan->scratch_bytes = bs_bytes_times(bs_bytes_of(sizeof(bs_box) + 2 * sizeof(int32_t)),
                                         bs_dim_max(graph, boxes->dims[1]));
}

static bool nms_is_better(const void *user, int32_t a, int32_t b)
{
    const nms_job *job = user;
    return job->score[a * job->step] > job->score[b * job->step];
}

static void nms_put(const bs_call *call, int32_t batch, int32_t class, int32_t box)
{
    const bs_operand *out = &call->out[0];
    const int32_t found[3] = {batch, class, box};
    const int64_t row = (*call->extent)++;
    for (int32_t i = 0; row < out->dim[0] && i < 3; i++)
        *(int32_t *)bs_operand_at(out, row * out->stride[0] + i * out->stride[1]) = found[i];
}

/* The best first; ids of those that stay move to the front. */
static void nms_choose(const bs_call *call, const nms_job *job, int32_t count, int32_t batch, int32_t class)
{
    const bs_nms_desc *desc = call->params;
    const int32_t most = bs_or_default(desc->max_each, INT32_MAX);
    int32_t kept = 0;
    bs_sort(job->ids, job->other, count, nms_is_better, job);
    for (int32_t i = 0; i < count && kept < most; i++) {
        const int32_t id = job->ids[i];
        int32_t k = 0;
        while (k < kept && !bs_boxes_overlap(&job->box[job->ids[k]], &job->box[id], desc->iou_threshold))
            k++;
        if (k < kept)
            continue;
        job->ids[kept++] = id;
        nms_put(call, batch, class, id);
    }
}

static bs_status nms_class(const bs_call *call, nms_job *job, int32_t batch, int32_t class)
{
    const bs_operand *scores = &call->in[1];
    const float above = ((const bs_nms_desc *)call->params)->score_above;
    int32_t count = 0;
    job->score = bs_f32_at(scores, batch * scores->stride[0] + class * scores->stride[1]);
    job->step = scores->stride[2];
    for (int32_t i = 0; i < scores->dim[2]; i++) {
        const float score = job->score[i * job->step];
        if (score != score)
            return bs_call_fail(call, "score [%" PRId32 ", %" PRId32 ", %" PRId32 "] is NaN", batch, class, i);
        if (score > above)
            job->ids[count++] = i;
    }
    nms_choose(call, job, count, batch, class);
    return BS_OK;
}

static bs_status nms_run(const bs_call *call)
{
    const bs_operand *boxes = &call->in[0];
    const int32_t n = boxes->dim[1];
    nms_job job = {call->scratch, NULL, NULL, NULL, 0};
    bs_status status = BS_OK;
    job.ids = (int32_t *)(void *)(job.box + n);
    job.other = job.ids + n;
    for (int32_t b = 0; b < boxes->dim[0]; b++) {
        for (int32_t i = 0; i < n; i++)
            job.box[i] = bs_box_of(bs_f32_at(boxes, b * boxes->stride[0] + i * boxes->stride[1]), boxes->stride[2],
                                   ((const bs_nms_desc *)call->params)->centre);
        for (int32_t c = 0; c < call->in[1].dim[1] && status == BS_OK; c++)
            status = nms_class(call, &job, b, c);
    }
    return status;
}

static const bs_op_rules nms_rules = {.plan = nms_plan};

const bs_op bs_op_nms = {.name = "nms",
                         .min_in = 2,
                         .roles = {BS_ROLE_DECIDING, BS_ROLE_DECIDING},
                         .layout = {.empty = true},
                         BS_PARAMS(bs_nms_desc, nms_fields),
                         .infer = nms_infer,
                         .memory = {.on_device = true},
                         .rules = &nms_rules,
                         .run = nms_run};

bs_value bs_nms(bs_graph *graph, bs_value boxes, bs_value scores, const bs_nms_desc *desc)
{
    return bs_op_build_two(graph, boxes, scores, desc, &bs_op_nms);
}
