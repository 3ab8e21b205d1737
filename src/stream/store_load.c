/* stream/store_load.c - one chunk: read into staging, checked, prepared into its slot.
 *
 * A chunk is read to the far end of the lane's staging. Weights of two bytes are widened into the near end, in the
 * order in which they lie in storage, so that the widened ones never overwrite narrow ones that are still to be
 * widened (stream/store_plan.c counts the bytes for it). Relies on stream/store_load.h. Must never touch what the gate
 * guards. */
#include "stream/store_load.h"

#if !defined(BS_NO_STREAM)

bs_status bs_store_fetch(const bs_store *s, const bs_store_lane *lane, const bs_store_chunk *chunk, const uint8_t **raw)
{
    const uint64_t alignment = s->weights.fetch_alignment, front = alignment > BS_ALIGNMENT ? alignment : BS_ALIGNMENT;
    const bs_bytes begin = bs_bytes_align_down(chunk->begin, front),
                   bytes = bs_bytes_sub(bs_bytes_align_to(chunk->end, alignment), begin);
    const bs_bytes before = bs_bytes_sub(s->plan->lane_bytes, bs_bytes_align_to(bytes, BS_PAGE_BYTES));
    size_t size;
    if (!bs_bytes_known(before) || !bs_bytes_fit(bytes, bs_bytes_figure(s->plan->lane_bytes), &size))
        return BS_ERROR_LIMIT; /* unreachable: staging_of (stream/store_plan.c) */
    uint8_t *buffer = bs_bytes_at(lane->staging, before);
    *raw = bs_bytes_at(buffer, bs_bytes_sub(chunk->begin, begin));
    return s->weights.fetch(s->weights.user, bs_bytes_figure(begin), buffer, size);
}

/* Whether the record is the one that was requested; and, when records are checked, the CRC of what was read of it so
 * far. */
bs_status bs_store_check(bs_store *s, int32_t unit, const bs_store_chunk *chunk, const uint8_t *raw)
{
    bs_record record;
    bs_bytes head = bs_bytes_of(0);
    if (chunk->head && s->weights.verify) {
        const bs_status status = s->weights.verify(s->weights.user, chunk->block, raw);
        if (status != BS_OK)
            return status;
    }
    if (!s->check_records)
        return BS_OK;
    if (s->weights.record(s->weights.user, chunk->block, &record) != BS_OK)
        return BS_ERROR_FORMAT;
    if (bs_bytes_same(chunk->begin, bs_bytes_of(record.offset))) {
        s->units[unit].crc = 0;
        head = bs_bytes_of(record.head_bytes);
    }
    size_t size = 0;
    if (!bs_bytes_fit(bs_bytes_sub(bs_bytes_sub(chunk->end, chunk->begin), head), SIZE_MAX, &size))
        return BS_ERROR_FORMAT; /* the head is longer than the chunk */
    s->units[unit].crc = bs_crc32(s->units[unit].crc, bs_bytes_read_at(raw, head), size);
    return chunk->tail && s->units[unit].crc != record.crc32 ? BS_ERROR_FORMAT : BS_OK;
}

/* The tensors of a node as its op wants them: in place where possible, else copied or widened to *near. */
static void tensors_of(const bs_store *s, const bs_store_node *node, const bs_store_chunk *chunk, const uint8_t *raw,
                       uint8_t **near, const void **tensors)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const bs_node *n = &s->plan->graph->nodes[node->node];
    bs_node_weights(s->plan->graph, n, specs);
    for (int32_t i = 0; i < node->n_tensors; i++) {
        const bs_store_tensor *tensor = &s->tensors[node->first_tensor + i];
        const bs_weight_spec *spec = &specs[tensor->spec];
        const uint8_t *from = bs_bytes_read_at(raw, bs_bytes_sub(tensor->offset, chunk->begin));
        tensors[tensor->spec] = from;
        if (!tensor->copied)
            continue;
        if (tensor->dtype == spec->dtype)
            memmove(*near, from, (size_t)bs_bytes_figure(tensor->bytes));
        else
            bs_weight_widen(s->plan->tier, *near, from, bs_weight_elements(spec), tensor->dtype);
        tensors[tensor->spec] = *near;
        *near = bs_bytes_at(*near, bs_bytes_align(bs_weight_spec_bytes(spec)));
    }
}

bs_status bs_store_prepare(const bs_store *s, const bs_store_lane *lane, const bs_store_chunk *chunk,
                           const uint8_t *raw, uint8_t *slot)
{
    uint8_t *near = lane->staging;
    bs_status status = BS_OK;
    for (int32_t k = chunk->first_node; k < chunk->first_node + chunk->n_nodes && status == BS_OK; k++) {
        const void *tensors[BS_MAX_WEIGHTS];
        const bs_node_plan *plan = &s->plan->nodes[s->nodes[k].node];
        uint8_t *const place = bs_bytes_at(slot, plan->prepared_offset);
        tensors_of(s, &s->nodes[k], chunk, raw, &near, tensors);
        bs_weight_prepare(s->plan->graph, &s->plan->graph->nodes[s->nodes[k].node], plan, tensors,
                          lane->room ? lane->room : place);
        if (lane->room)
            status = s->device->api->copy(s->on_device, lane->index, place, lane->room,
                                          bs_bytes_figure(plan->prepared_bytes));
    }
    return status;
}
#endif
