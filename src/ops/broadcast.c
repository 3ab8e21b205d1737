/* ops/broadcast.c - shapes of operands beside each other.
 * Relies on broadcast.h. Must never touch data. */
#include "ops/broadcast.h"

static bool is_one(const bs_graph *graph, bs_dim_id d)
{
    return bs_dim_is_const(graph, d) && bs_dim_max(graph, d) == 1;
}

/* Dimension d of the result: what an operand has that is not 1. */
static bool broadcast_dim_fits(bs_infer *infer, int32_t d)
{
    bs_value_info *out = &infer->out[0];
    int32_t owner = -1;
    for (int32_t i = 0; i < infer->n_in; i++) {
        const int32_t at = bs_broadcast_dim(out->rank, infer->in[i], d);
        if (at < 0)
            continue;
        const bs_dim_id id = infer->in[i]->dims[at];
        if (owner >= 0 && id != out->dims[d] && !is_one(infer->graph, id) && !is_one(infer->graph, out->dims[d]))
            return bs_infer_fail(infer, BS_ERROR_SHAPE,
                                 "dimension %" PRId32 "%s is %s in operand %" PRId32 " and %s in operand %" PRId32, d,
                                 infer->in[owner]->rank == infer->in[i]->rank ? "" : " of the result",
                                 bs_say_dim(infer, out->dims[d]), owner, bs_say_dim(infer, id), i);
        if (owner >= 0 && (id == out->dims[d] || is_one(infer->graph, id)))
            continue;
        owner = i;
        out->dims[d] = id;
    }
    return true;
}

/* Whether an operand is the same for every pixel of the result, an image. */
static bool is_same_for_pixels(const bs_graph *graph, const bs_value_info *operand)
{
    for (int32_t d = 1; d < 3; d++) {
        const int32_t at = bs_broadcast_dim(3, operand, d);
        if (at >= 0 && !is_one(graph, operand->dims[at]))
            return false;
    }
    return true;
}

/* In patches: an operand that is not the same for every pixel is an image of these patches, and all such images are
 * of one frame. A root image would have to be cut into patches as well. */
static bool broadcast_frames_fit(bs_infer *infer)
{
    bs_value_info *out = &infer->out[0];
    int32_t owner = -1;
    if (!bs_value_in_patches(infer->graph, out))
        return true;
    for (int32_t i = 0; i < infer->n_in; i++) {
        const bs_value_info *v = infer->in[i];
        const bool image = v->domain == out->domain && v->image && is_same_for_pixels(infer->graph, out);
        if (!image && is_same_for_pixels(infer->graph, v))
            continue;
        if (v->domain != out->domain)
            return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                                 "operand %" PRId32 " is a whole image beside patches; cut it with bs_patches (like)",
                                 i);
        if (!v->image)
            return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                                 "operand %" PRId32 " is %s, which has no place in the frame of these patches", i,
                                 bs_say_value(infer, v));
        if (owner >= 0 && !bs_infer_same_scale(infer, out, v))
            return false;
        owner = i;
        out->scale_num = v->scale_num;
        out->scale_den = v->scale_den;
    }
    return true;
}

bool bs_infer_broadcast(bs_infer *infer)
{
    bs_value_info *out = &infer->out[0];
    for (int32_t i = 1; i < infer->n_in; i++)
        bs_value_set_rank(out, bs_max_i32(out->rank, infer->in[i]->rank));
    for (int32_t d = 0; d < out->rank; d++)
        if (!broadcast_dim_fits(infer, d))
            return false;
    return broadcast_frames_fit(infer);
}

void bs_broadcast_add(bs_span *span, const bs_call *call, int32_t index)
{
    const int32_t *in = bs_node_in(call->graph, call->node);
    const bs_value_info *result = bs_value_get(call->graph, call->node->first_out);
    const bs_value_info *v = bs_value_get(call->graph, in[index]);
    const bs_operand *operand = &call->in[index];
    ptrdiff_t stride[BS_MAX_AXES];
    for (int32_t d = 0; d < result->rank; d++) {
        const int32_t at = bs_broadcast_axis(result, v, d);
        stride[d] = at < 0 ? 0 : operand->stride[at];
    }
    bs_span_add_strides(span, operand, stride, NULL);
}
