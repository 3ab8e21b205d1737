/* ops/weights.c - checks and conversions between weight sources and ops; the source over a caller's table.
 * Relies on ops/weights.h. Must never trust a source's shapes, nor allocate. */
#include "ops/weights.h"
#include "kernels/arrange.h"

/* Bytes of a tensor that are read at a time: together with biases, less than 1 MiB of staging. */
#define WEIGHT_SLICE ((uint64_t)768 << 10)

static bs_bytes bytes_as(const bs_weight_spec *spec, bs_dtype dtype)
{
    return bs_bytes_product(bs_weight_elements(spec), bs_bytes_of(bs_dtype_bytes(dtype)));
}

bs_bytes bs_weight_spec_bytes(const bs_weight_spec *spec)
{
    return bytes_as(spec, spec->dtype);
}

/* ------------------------------------------------------------------------------------------------- checks */

void bs_weight_name(char *text, size_t bytes, const bs_node *node, const char *suffix)
{
    snprintf(text, bytes, "%s%s%s", bs_node_name(node), *suffix ? "." : "", suffix);
}

#if !defined(BS_NO_MESSAGES)
const char *bs_weight_shape_text(int32_t rank, const int64_t *dim, char *buffer, size_t bytes)
{
    size_t used = 0;
    snprintf(buffer, bytes, "[]");
    for (int32_t i = 0; i < rank && i < BS_MAX_RANK && used < bytes; i++) {
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%lld%s", i ? ", " : "[", (long long)dim[i],
                                 i + 1 == rank ? "]" : "");
    }
    return buffer;
}
#endif

static bool weight_type_fits(bs_dtype stored, bs_dtype wanted)
{
    return stored == wanted || (wanted == BS_F32 && (stored == BS_F16 || stored == BS_BF16));
}

static bool weight_shape_fits(const bs_weight_spec *spec, const bs_weight_info *info)
{
    if (info->rank != spec->rank)
        return false;
    for (int32_t i = 0; i < spec->rank; i++)
        if (info->dim[i] != spec->dim[i])
            return false;
    return true;
}

bs_status bs_weight_find(const bs_weights *weights, const char *name, const bs_weight_spec *spec, bs_weight_info *info,
                         bs_error *error)
{
    memset(info, 0, sizeof *info);
    const bs_status status = weights->find(weights->user, name, info);
    if (status == BS_ERROR_WEIGHTS)
        return bs_fail(error, status, "weight \"%s\" is missing", name);
    if (status != BS_OK)
        return bs_fail(error, status, "weight \"%s\": its source cannot look it up", name);
    char found[64], wanted[64];
    if (!weight_shape_fits(spec, info))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" is %s, expected %s", name,
                       bs_weight_shape_text(info->rank, info->dim, found, sizeof found),
                       bs_weight_shape_text(spec->rank, spec->dim, wanted, sizeof wanted));
    if (!weight_type_fits(info->dtype, spec->dtype))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" is %s, expected %s", name, bs_dtype_name(info->dtype),
                       bs_dtype_name(spec->dtype));
    if (!bs_bytes_same(bs_bytes_of(info->bytes), bytes_as(spec, info->dtype)))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" has %llu bytes, expected those of %s of %s", name,
                       (unsigned long long)info->bytes,
                       bs_weight_shape_text(info->rank, info->dim, found, sizeof found), bs_dtype_name(info->dtype));
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ loading */

const void *bs_weight_view(const bs_weights *weights, const bs_weight_spec *spec, const bs_weight_info *info)
{
    return weights->map && info->dtype == spec->dtype ? weights->map(weights->user, info) : NULL;
}

#define WIDEN_BLOCK 64

static void widen_bf16(const uint16_t *from, float *to)
{
    uint32_t bits[WIDEN_BLOCK];
    for (int32_t i = 0; i < WIDEN_BLOCK; i++)
        bits[i] = (uint32_t)from[i] << 16;
    memcpy(to, bits, sizeof bits);
}

/* In blocks, through a buffer: the widened elements may overwrite the narrow ones. */
void bs_weight_widen(bs_tier tier, void *target, const void *narrow, bs_bytes elements, bs_dtype stored)
{
    const uint64_t n = bs_bytes_figure(elements);
    for (uint64_t i = 0; i < n; i += WIDEN_BLOCK) {
        const size_t count = n - i < WIDEN_BLOCK ? (size_t)(n - i) : WIDEN_BLOCK;
        uint16_t from[WIDEN_BLOCK] = {0};
        float to[WIDEN_BLOCK];
        memcpy(from, (const uint8_t *)narrow + 2 * i, 2 * count);
        if (stored == BS_F16)
            bs_widen64_f16(tier, from, to);
        else
            widen_bf16(from, to);
        memcpy((uint8_t *)target + 4 * i, to, 4 * count);
    }
}

/* `wanted` bytes of the tensor, stored in `stored` from `offset` on. Narrow elements lie in the far half of the target:
 * element i at or beyond the end of target element i. */
static bs_status load_range(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                            const bs_weight_info *info, bs_bytes offset, bs_bytes stored, bs_bytes wanted, bs_tier tier,
                            void *target, bs_error *error)
{
    const uint64_t most = bs_bytes_known(wanted) ? bs_bytes_figure(bs_bytes_min(wanted, bs_bytes_of(SIZE_MAX))) : 0;
    size_t size;
    if (!bs_bytes_fit(stored, most, &size))
        return bs_fail(error, BS_ERROR_ARGUMENT, "weight \"%s\" has %llu bytes, expected at most %llu", name,
                       (unsigned long long)bs_bytes_figure(stored), (unsigned long long)most);
    uint8_t *landing = bs_bytes_at(target, bs_bytes_sub(wanted, bs_bytes_of(size)));
    const bs_status status = weights->read(weights->user, info, bs_bytes_figure(offset), landing, size);
    if (status != BS_OK)
        return bs_fail(error, status, "weight \"%s\": its %llu bytes could not be read", name,
                       (unsigned long long)info->bytes);
    if (info->dtype != spec->dtype)
        bs_weight_widen(tier, target, landing, bs_bytes_share(wanted, bs_dtype_bytes(spec->dtype)), info->dtype);
    return BS_OK;
}

bs_status bs_weight_load(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                         const bs_weight_info *info, bs_tier tier, void *target, bs_error *error)
{
    return load_range(weights, name, spec, info, bs_bytes_of(0), bs_bytes_of(info->bytes), bs_weight_spec_bytes(spec),
                      tier, target, error);
}

bs_status bs_weight_load_rows(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                              const bs_weight_info *info, int32_t first, int32_t count, bs_tier tier, void *target,
                              bs_error *error)
{
    const bs_bytes row = bs_bytes_share(bs_weight_spec_bytes(spec), (uint64_t)spec->dim[0]);
    const bs_bytes stored = bs_bytes_share(bs_bytes_of(info->bytes), (uint64_t)spec->dim[0]);
    return load_range(weights, name, spec, info, bs_bytes_times(stored, first), bs_bytes_times(stored, count),
                      bs_bytes_times(row, count), tier, target, error);
}

int32_t bs_weight_rows(const bs_op *op, const bs_weight_spec *specs)
{
    if (!op->rules->weights.by_rows)
        return 0;
    const bs_bytes bytes = bs_weight_spec_bytes(specs);
    if (!bs_bytes_known(bytes))
        return 0;
    const uint64_t row = bs_bytes_figure(bs_bytes_share(bytes, (uint64_t)specs->dim[0]));
    return (int32_t)bs_min_i64(specs->dim[0], row > 0 && row < WEIGHT_SLICE ? (int64_t)(WEIGHT_SLICE / row) : 1);
}

bs_bytes bs_weight_staging(const bs_op *op, const bs_weight_spec *specs, int32_t count)
{
    const int32_t rows = count > 0 ? bs_weight_rows(op, specs) : 0;
    bs_bytes bytes = bs_weight_offset(specs, count);
    if (count > 0 && !bs_op_prepares(op))
        return bs_bytes_of(0);
    if (rows > 0) {
        const bs_bytes row = bs_bytes_share(bs_weight_spec_bytes(specs), (uint64_t)specs->dim[0]);
        bytes = bs_bytes_add(bs_bytes_sub(bytes, bs_weight_offset(specs, 1)),
                             bs_bytes_align(bs_bytes_times(row, rows)));
    }
    return bytes;
}

void bs_weight_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan, const void *const *tensors,
                       void *prepared)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const bs_op *op = bs_op_get(node->op);
    const int32_t count = bs_node_weights(graph, node, specs);
    if (count > 0 && bs_op_prepares(op)) {
        op->rules->weights.prepare(graph, node, plan, tensors, 0, (int32_t)specs[0].dim[0], prepared);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        memmove(bs_bytes_at(prepared, bs_weight_offset(specs, i)), tensors[i], /* which may be its place already */
                (size_t)bs_bytes_figure(bs_weight_spec_bytes(&specs[i])));
}

/* -------------------------------------------------------------------------------- a caller's table of arrays */

static bool tensor_table_info(const bs_tensor *tensor, bs_weight_info *info)
{
    if (tensor->rank < 0 || tensor->rank > BS_MAX_RANK || !tensor->data)
        return false;
    info->dtype = tensor->dtype;
    info->rank = tensor->rank;
    bs_bytes bytes = bs_bytes_of(bs_dtype_bytes(tensor->dtype));
    for (int32_t d = 0; d < tensor->rank; d++) {
        info->dim[d] = tensor->dim[d];
        bytes = bs_bytes_times(bytes, bs_max_i64(tensor->dim[d], 0));
    }
    info->bytes = bs_bytes_figure(bytes);
    return true;
}

static bs_status tensor_table_find(const void *user, const char *name, bs_weight_info *info)
{
    const bs_tensor_table *table = user;
    for (int32_t i = 0; i < table->count; i++) {
        const bs_tensor *tensor = &table->tensors[i];
        if (!tensor->name || strcmp(tensor->name, name) != 0)
            continue;
        info->handle = (uint64_t)i;
        return tensor_table_info(tensor, info) ? BS_OK : BS_ERROR_ARGUMENT;
    }
    return BS_ERROR_WEIGHTS;
}

static bs_status tensor_table_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    const bs_tensor_table *table = user;
    if (offset > info->bytes || bytes > info->bytes - offset)
        return BS_ERROR_ARGUMENT;
    memcpy(buffer, (const uint8_t *)table->tensors[info->handle].data + offset, bytes);
    return BS_OK;
}

static const void *tensor_table_map(const void *user, const bs_weight_info *info)
{
    const bs_tensor_table *table = user;
    const void *data = table->tensors[info->handle].data;
    return (uintptr_t)data % bs_dtype_bytes(info->dtype) == 0 ? data : NULL;
}

bs_weights bs_weights_from_table(const bs_tensor_table *table)
{
    const bs_weights weights = {
        .user = table, .find = tensor_table_find, .read = tensor_table_read, .map = tensor_table_map};
    const bs_weights none = {.user = NULL};
    return table ? weights : none;
}
