/* ops/patch_features.c - how busy a patch is and how much it changed, as small integers for a routing table.
 * Relies on kernels/elementwise.h. Sees the core only. Must never use floating point: decisions must be the same on
 * every machine. */
#include "kernels/elementwise.h"
#include "ops/common.h"
#include "ops/features.h"

static const bs_field patch_features_fields[] = {BS_INT("buckets"), BS_INT("code_bits")};

static bool patch_features_infer(bs_infer *infer)
{
    const bs_patch_features_desc *desc = infer->params;
    const bs_value_info *cells = infer->in[0];
    if (!bs_infer_dtypes(infer, 0, 1u << BS_U8 | 1u << BS_U16, "u8 or u16") || !bs_infer_rank(infer, 0, 3, 3) ||
        !bs_infer_field(infer, "buckets", bs_or_default(desc->buckets, 2), 2, BS_FEATURE_MOST) ||
        !bs_infer_field(infer, "code_bits", bs_or_default(desc->code_bits, 16), 8, 16))
        return false;
    for (int32_t d = 0; d < 3 && infer->n_in > 1; d++) {
        if (!bs_infer_dtype(infer, 1, cells->dtype) || !bs_infer_rank(infer, 1, 3, 3))
            return false;
        if (cells->dims[d] != infer->in[1]->dims[d])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s in the cells and %s in the reference", d,
                                 bs_say_dim(infer, cells->dims[d]), bs_say_dim(infer, infer->in[1]->dims[d]));
    }
    infer->out[0].dtype = BS_I32;
    infer->out[0].rank = 1;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 2);
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

static int32_t patch_features_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)node, (void)index, (void)out_margin;
    return 0;
}

static double patch_features_flops(const bs_graph *graph, const bs_node *node)
{
    return 10.0 * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

/* -------------------------------------------------------------------------------------------------------- sums */

/* Codes of 8 bits of one operand's core. */
typedef struct feature_source {
    const bs_operand *operand;
    ptrdiff_t row;
    int32_t shift;
} feature_source;

static int32_t feature_code(const feature_source *s, int32_t c, int32_t y, int32_t x)
{
    const bs_operand *o = s->operand;
    const ptrdiff_t at = s->row + c * o->stride[0] + y * o->stride[1] + x * o->stride[2];
    return o->dtype == BS_U8 ? ((const uint8_t *)o->data)[at] : ((const uint16_t *)o->data)[at] >> s->shift;
}

static uint64_t feature_energy(const feature_source *s)
{
    const int32_t height = s->operand->dim[1], width = s->operand->dim[2];
    uint64_t sum = 0;
    for (int32_t c = 0; c < s->operand->dim[0]; c++)
        for (int32_t y = 0; y < height; y++)
            for (int32_t x = 0; x < width; x++) {
                const int64_t d = 4 * (int64_t)feature_code(s, c, y, x) - feature_code(s, c, bs_max_i32(y - 1, 0), x) -
                                  feature_code(s, c, bs_min_i32(y + 1, height - 1), x) -
                                  feature_code(s, c, y, bs_max_i32(x - 1, 0)) -
                                  feature_code(s, c, y, bs_min_i32(x + 1, width - 1));
                sum += (uint64_t)(d * d);
            }
    return sum;
}

static uint64_t feature_change(const feature_source *s, const feature_source *reference)
{
    const bs_operand *o = s->operand;
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++)
        for (int32_t y = 0; y < o->dim[1]; y++)
            for (int32_t x = 0; x < o->dim[2]; x++) {
                const int64_t d = (int64_t)feature_code(s, c, y, x) - feature_code(reference, c, y, x);
                sum += (uint64_t)(d * d);
            }
    return sum;
}

/* ------------------------------------------------------------------------------------------------------- fast */

/* The kernels take rows of contiguous samples, and u16 codes that are below 2^14 even when they are no valid codes. */
static bool feature_is_fast(const bs_call *call, const feature_source *s)
{
    return call->plan->tier != BS_TIER_SCALAR && s->operand->stride[2] == 1 &&
           (s->operand->dtype == BS_U8 || s->shift >= 2);
}

static bs_codes feature_plane(const feature_source *s, int32_t c)
{
    const bs_operand *o = s->operand;
    const bs_codes codes = {bs_operand_at(o, s->row + c * o->stride[0]), o->stride[1], o->dtype == BS_U16, s->shift};
    return codes;
}

static uint64_t feature_energy_fast(bs_tier tier, const feature_source *s)
{
    const bs_operand *o = s->operand;
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++) {
        const bs_codes codes = feature_plane(s, c);
        sum += bs_laplacian_energy(tier, &codes, o->dim[1], o->dim[2]);
    }
    return sum;
}

static uint64_t feature_change_fast(bs_tier tier, const feature_source *s, const feature_source *reference)
{
    const bs_operand *o = s->operand;
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++) {
        const bs_codes codes = feature_plane(s, c), others = feature_plane(reference, c);
        sum += bs_squared_change(tier, &codes, &others, o->dim[1], o->dim[2]);
    }
    return sum;
}

/* -------------------------------------------------------------------------------------------------------- run */

static void patch_features_row(const bs_call *call, int32_t row, int32_t *energy, int32_t *change)
{
    const bs_patch_features_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const int32_t buckets = bs_or_default(desc->buckets, BS_FEATURE_BUCKETS),
                  shift = bs_feature_shift(desc->code_bits);
    const uint64_t area = (uint64_t)in->dim[0] * (uint64_t)in->dim[1] * (uint64_t)in->dim[2];
    const feature_source cells = {in, row * in->row_stride, shift};
    const feature_source reference = {&call->in[1], row * call->in[1].row_stride, shift};
    const bool fast = feature_is_fast(call, &cells);
    *energy = *change = 0;
    if (area == 0)
        return;
    *energy =
        bs_feature_bucket(fast ? feature_energy_fast(call->plan->tier, &cells) : feature_energy(&cells), area, buckets);
    if (call->n_in < 2)
        return;
    const bool both = fast && feature_is_fast(call, &reference);
    *change = bs_feature_bucket(both ? feature_change_fast(call->plan->tier, &cells, &reference)
                                     : feature_change(&cells, &reference),
                                area, buckets);
}

static bs_status patch_features_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    for (int32_t row = 0; row < call->rows; row++) {
        int32_t *to = (int32_t *)out->data + row * out->row_stride;
        patch_features_row(call, row, &to[0], &to[out->stride[0]]);
    }
    return BS_OK;
}
#undef BS_FEATURE_BUCKETS
#undef BS_FEATURE_MOST

const bs_op bs_op_patch_features = {.name = "patch_features",
                                    .min_in = 1,
                                    .max_in = 2,
                                    .flags = BS_OP_SPATIAL | BS_OP_CORE_INPUT,
                                    BS_PARAMS(bs_patch_features_desc, patch_features_fields),
                                    .infer = patch_features_infer,
                                    .halo = patch_features_halo,
                                    .flops = patch_features_flops,
                                    .run = patch_features_run};

bs_value bs_patch_features(bs_graph *graph, bs_value cells, bs_value reference, const bs_patch_features_desc *desc)
{
    return bs_op_build_two(graph, cells, reference, desc, &bs_op_patch_features);
}
