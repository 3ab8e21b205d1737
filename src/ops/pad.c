/* ops/pad.c - a border around an image: a value, the edge repeated, or the image reflected. Elements of any type.
 * Relies on graph/op.h. Must never be used in a patch domain: cells would move relative to their frame (convolutions
 * and pooling pad at the frame's edge by themselves). */
#include "ops/forms.h"

static const bs_field pad_fields[] = {BS_INT_OF("top", 0, 1 << 15),
                                      BS_INT_OF("bottom", 0, 1 << 15),
                                      BS_INT_OF("left", 0, 1 << 15),
                                      BS_INT_OF("right", 0, 1 << 15),
                                      BS_FLOAT("value"),
                                      BS_FIELD_OF("edge", EDGE)};

/* Before op set 4 there were two kinds of border. */
static void pad_upgrade(int32_t *fields, int32_t opset)
{
    if (opset < 4)
        fields[5] = fields[5] != 0;
}

/* `most` pixels on one side of dimension d: a reflection reaches every pixel but the edge's own. */
static bool pad_reflects(bs_infer *infer, int32_t d, int32_t most)
{
    const bs_dim_id dim = infer->in[0]->dims[d];
    if (((const bs_pad_desc *)infer->params)->edge != BS_EDGE_REFLECT)
        return true;
    if (most < bs_dim_max(infer->graph, dim))
        return bs_infer_least(infer, dim, (int64_t)most + 1);
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 " is %s, too few to reflect %" PRId32 " of them",
                         d, bs_say_dim(infer, dim), most);
}

static bool pad_infer(bs_infer *infer)
{
    const bs_pad_desc *desc = infer->params;
    return bs_infer_rank(infer, 0, 3, 3) && bs_infer_whole(infer, 0) &&
           pad_reflects(infer, 1, bs_max_i32(desc->top, desc->bottom)) &&
           pad_reflects(infer, 2, bs_max_i32(desc->left, desc->right)) &&
           bs_infer_frame(infer, 1, (int64_t)desc->top + desc->bottom, (int64_t)desc->left + desc->right, 1);
}

void bs_pad_element(bs_dtype dtype, float value, void *element)
{
    const int32_t code = bs_f32_to_code(value, INT32_MIN, INT32_MAX);
    const uint16_t half = dtype == BS_F16    ? bs_f32_to_f16(value)
                          : dtype == BS_BF16 ? bs_f32_to_bf16(value)
                                             : (uint16_t)bs_clamp_i32(code, 0, 65535);
    if (dtype == BS_F32)
        memcpy(element, &value, 4);
    else if (dtype == BS_I32)
        memcpy(element, &code, 4);
    else if (dtype == BS_U8)
        *(uint8_t *)element = (uint8_t)bs_clamp_i32(code, 0, 255);
    else if (dtype == BS_I8)
        *(uint8_t *)element = (uint8_t)bs_clamp_i32(code, -128, 127);
    else
        memcpy(element, &half, 2);
}

static void pad_pixel(const bs_operand *out, char *to, const char *from, ptrdiff_t from_step, size_t bytes)
{
    const ptrdiff_t to_step = out->stride[0] * (ptrdiff_t)bytes;
    for (int32_t c = 0; c < out->dim[0]; c++)
        bs_copy(to + c * to_step, from + c * from_step, bytes);
}

static void pad_row(const bs_call *call, int32_t row, const uint8_t *border)
{
    const bs_pad_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const size_t bytes = bs_dtype_bytes(out->dtype);
    const ptrdiff_t size = (ptrdiff_t)bytes;
    char *to = bs_operand_at(out, row * out->row_stride);
    const char *from = bs_operand_at(in, row * in->row_stride);
    for (int32_t y = out->rect.y0; y < out->rect.y1; y++)
        for (int32_t x = out->rect.x0; x < out->rect.x1; x++) {
            const int32_t sy = bs_pad_source(desc->edge, y - desc->top, in->dim[1]),
                          sx = bs_pad_source(desc->edge, x - desc->left, in->dim[2]);
            const bool inside = desc->edge || (sy == y - desc->top && sx == x - desc->left);
            char *pixel = to + (y * out->stride[1] + x * out->stride[2]) * size;
            if (inside)
                pad_pixel(out, pixel, from + (sy * in->stride[1] + sx * in->stride[2]) * size, in->stride[0] * size,
                          bytes);
            else
                pad_pixel(out, pixel, (const char *)border, 0, bytes);
        }
}

static bs_status pad_run(const bs_call *call)
{
    const bs_pad_desc *desc = call->params;
    uint8_t border[4] = {0, 0, 0, 0};
    bs_pad_element(call->out[0].dtype, desc->value, border);
    for (int32_t row = 0; row < call->rows; row++)
        pad_row(call, row, border);
    return BS_OK;
}

static const bs_op_rules pad_rules = {.upgrade = pad_upgrade};

const bs_op bs_op_pad = {.name = "pad",
                         .min_in = 1,
                         .layout = {.images = true},
                         BS_PARAMS(bs_pad_desc, pad_fields),
                         .rules = &pad_rules,
                         .infer = pad_infer,
                         .run = pad_run};

bs_value bs_pad(bs_graph *graph, bs_value x, const bs_pad_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_pad);
}
