/* op_append.cuh - append: each row of a segment to its position in the segment's ring.
 * Relies on move_rows.cuh and segment.cuh. Must never write a position that a later row of the same run writes: the
 * order of the two would be undefined. */
#ifndef BS_CUDA_OP_APPEND
#define BS_CUDA_OP_APPEND

#include "cuda/kernels.cuh"
#include "cuda/move_rows.cuh"
#include "cuda/segment.cuh"

static void bs_cu_append_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->in[0], bs_cu_elements(&n->in[0]), s);
}

/* Where a row goes in the ring of its segment; NULL: nowhere, a later row of this run would overwrite it. */
__device__ inline uint8_t *bs_cu_ring_place(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    const bs_device_operand *cache_lengths = bs_cu_in(t, s, 1), *ring = bs_cu_out(t, s, 0);
    const bs_device_domain &domain = t.program->domains[bs_cu_in(t, s, 0)->domain];
    const int32_t *offsets = bs_cu_at<const int32_t>(domain.offsets);
    const int32_t segment = bs_segment_of(offsets, domain.lengths, row);
    const int32_t position = bs_cu_at<const int32_t>(cache_lengths->base)[segment] +
                             (row - offsets[segment]);
    if (offsets[segment + 1] - row > ring->dim[BS_MAX_RANK - 1] || position < 0)
        return NULL;
    return bs_cu_at<uint8_t>(ring->base) + segment * ring->row_bytes +
           (int64_t)(position % ring->dim[BS_MAX_RANK - 1]) * ring->max_w * bs_cu_bytes(ring->dtype);
}

/* Each row of a segment to its position in the segment's ring. */
__device__ inline void bs_cu_append_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        uint8_t *place = bs_cu_ring_place(t, s, r);
        if (!place)
            continue;
        const bs_cu_view from = bs_cu_open_in(t, s, 0, r);
        bs_cu_view to = from;
        to.data = place;
        to.dtype = bs_cu_out(t, s, 0)->dtype;
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            to.stride[i] = bs_cu_out(t, s, 0)->stride[i];
        bs_cu_row_copy(to, from, team, t.workspace, w);
    }
}

#endif
