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
            return bs_infer_fail(infer, BS_ERROR_SHAPE,
                                 "dimension %" PRId32 " is %s in the cells and %s in the reference", d,
                                 bs_say_dim(infer, cells->dims[d]), bs_say_dim(infer, infer->in[1]->dims[d]));
    }
    infer->out[0].dtype = BS_I32;
    bs_value_set_rank(&infer->out[0], 1);
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

/* -------------------------------------------------------------------------------------------------------- run */

/* A channel of a cell's core, of which features see the upper 8 bits. */
static bs_codes feature_plane(const bs_call *call, int32_t operand, int32_t row, int32_t c)
{
    const bs_operand *o = &call->in[operand];
    const bs_patch_features_desc *desc = call->params;
    const bs_codes codes = {bs_operand_at(o, row * o->row_stride + c * o->stride[0]), o->stride[1], o->stride[2],
                            o->dtype == BS_U16, bs_feature_shift(desc->code_bits)};
    return codes;
}

static void patch_features_row(const bs_call *call, int32_t row, int32_t *energy, int32_t *change)
{
    const bs_patch_features_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const bs_tier tier = (bs_tier)call->plan->tier;
    const int32_t buckets = bs_or_default(desc->buckets, BS_FEATURE_BUCKETS);
    const uint64_t area = (uint64_t)in->dim[0] * (uint64_t)in->dim[1] * (uint64_t)in->dim[2];
    uint64_t energies = 0, changes = 0;
    for (int32_t c = 0; c < in->dim[0]; c++) {
        const bs_codes cells = feature_plane(call, 0, row, c);
        energies += bs_laplacian_energy(tier, &cells, in->dim[1], in->dim[2]);
        if (call->n_in < 2)
            continue;
        const bs_codes reference = feature_plane(call, 1, row, c);
        changes += bs_squared_change(tier, &cells, &reference, in->dim[1], in->dim[2]);
    }
    *energy = area > 0 ? bs_feature_bucket(energies, area, buckets) : 0;
    *change = area > 0 && call->n_in > 1 ? bs_feature_bucket(changes, area, buckets) : 0;
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

static const bs_op_rules patch_features_rules = {.halo = patch_features_halo};

const bs_op bs_op_patch_features = {.name = "patch_features",
                                    .min_in = 1,
                                    .max_in = 2,
                                    .layout = {.images = true, .edges = true},
                                    BS_PARAMS(bs_patch_features_desc, patch_features_fields),
                                    .infer = patch_features_infer,
                                    .flops = patch_features_flops,
                                    .rules = &patch_features_rules,
                                    .run = patch_features_run};

bs_value bs_patch_features(bs_graph *graph, bs_value cells, bs_value reference, const bs_patch_features_desc *desc)
{
    return bs_op_build_two(graph, cells, reference, desc, &bs_op_patch_features);
}
