/* slots.cuh - weights that come and go: where a unit is, the tiles of one part, fetching the counts of a decision, and
 * copies into slots.
 *
 * Readers prepare a layer in pinned memory and copy it on a stream of their own. A unit is published when its copies
 * are complete, and released when the host has waited for the kernels that read it. Relies on run.cuh. Must never
 * return from a copy that is still under way. */
#ifndef BS_CUDA_SLOTS
#define BS_CUDA_SLOTS

#include "cuda/run.cuh"

static bs_status bs_cu_session_part(bs_device_session *s, int32_t part, bs_error *error)
{
    const bs_part *p = &s->client->plan->parts[part];
    const int64_t tiles = bs_ceil_div(s->client->domains[p->domain].count,
                                      s->client->plan->domains[p->domain].tile_rows);
    const bs_device_launch l = {BS_CU_region, p->index, 1, 0, 0, (int32_t)tiles, 0};
    return bs_cu_run_launch(s, &l, error);
}

/* Kernels find a unit's weights by an address in the device's memory. No kernel that is queued still reads this unit's
 * old address, so it may be overwritten. Its copy has a source of its own, as one of the tables may be under way. */
static bs_status bs_cu_session_place(bs_device_session *s, int32_t unit, const uint8_t *weights, bs_error *error)
{
    uint64_t *place = reinterpret_cast<uint64_t *>(s->pinned + s->layout.places) + unit;
    *place = (uint64_t)(uintptr_t)weights +
             (s->client->plan->desc.in_place ? s->pinned_there - (uint64_t)(uintptr_t)s->pinned : 0);
    return bs_cu_copy(s, s->memory + s->layout.tables + s->layout.units_at + (uint64_t)unit * sizeof *place, place,
                      sizeof *place, cudaMemcpyHostToDevice, "telling the device where weights are", error);
}

/* Fetches the status of the run so far, then the counts. */
static bs_status bs_cu_session_fetch_counts(bs_device_session *s, int32_t router, int32_t *counts, int32_t *node,
                                     bs_error *error)
{
    const bs_device_decision *d = bs_cu_decision_at(s, router);
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    bs_status status = bs_cu_copy(s, fetched, s->program.status, BS_DEVICE_STATUS * sizeof *fetched,
                                  cudaMemcpyDeviceToHost, "copying the status from the device", error);
    if (status == BS_OK)
        status = bs_cu_copy(s, fetched + BS_DEVICE_STATUS, s->program.decisions + d->counts,
                            (uint64_t)d->paths * sizeof *fetched, cudaMemcpyDeviceToHost,
                            "copying a decision from the device", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status != BS_OK)
        return status;
    memcpy(counts, fetched + BS_DEVICE_STATUS, (size_t)d->paths * sizeof *counts);
    return bs_cu_tell_status(s, fetched, node);
}

/* The extents that nodes made, from what was fetched into the results. */
static void bs_cu_tell_extents(bs_device_session *s)
{
    const int32_t *now = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.extents);
    for (int32_t d = 0; d < s->layout.n_dims; d++)
        if (s->client->graph->dims[d].node)
            s->client->dims[d] = now[d];
}

static bs_status bs_cu_session_fetch_extents(bs_device_session *s, int32_t *node, bs_error *error)
{
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    const uint64_t bytes = s->layout.extents + 4 * (uint64_t)s->layout.n_dims;
    const bs_status status =
        bs_cu_fetch(s, s->pinned + s->layout.results, s->memory + s->layout.decisions, bytes, error);
    if (status != BS_OK)
        return status;
    bs_cu_tell_extents(s);
    return bs_cu_tell_status(s, said, node);
}

static bs_status bs_cu_session_guess(bs_device_session *s, int32_t router, float *margins, bs_error *error)
{
    const size_t bytes = (size_t)s->client->graph->routers[router].desc->paths * sizeof *margins;
    float *fetched = reinterpret_cast<float *>(s->pinned + s->layout.fetched);
    const bs_status status = bs_cu_fetch(s, fetched, s->program.guesses, bytes, error);
    if (status == BS_OK)
        memcpy(margins, fetched, bytes);
    return status;
}

static bs_status bs_cu_session_copy(bs_device_session *s, int32_t lane, uint8_t *to, const uint8_t *from,
                                    uint64_t bytes)
{
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", NULL);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, s->lanes[lane]),
                             "copying weights", NULL);
    if (status == BS_OK)
        status = bs_cu_check(cudaStreamSynchronize(s->lanes[lane]), "waiting for weights", NULL);
    if (status != BS_OK)
        cudaStreamSynchronize(s->lanes[lane]); /* or the copy could land where something else lies by then */
    return status;
}

#endif
