/* op_nms.cuh - of boxes that overlap the one with the best score: nms.
 *
 * A block takes a class of a batch: it sorts the scores above the limit, then decides of as many boxes as it has
 * threads at a time, the best ones first. Each is compared with what is kept already, which is kept boxes times boxes
 * in all; among themselves they take one barrier for each that is kept. A second launch, for which all counts are
 * known, puts the rows one after the other.
 * Relies on op_from_data.cuh, sort.cuh and ops/found.h. Must never write a row beyond its maximum: what there is is
 * counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_NMS
#define BS_CUDA_OP_NMS

#include "cuda/op_from_data.cuh"
#include "cuda/sort.cuh"

extern "C" {
#include "ops/found.h"
}

/* p: the descriptor's words, the second one not 0 */
enum { BS_CU_NMS_MAXIMUM, BS_CU_NMS_MOST, BS_CU_NMS_SHARE, BS_CU_NMS_ABOVE, BS_CU_NMS_CENTRE };

/* A work item for each class of each batch. */
static void bs_cu_nms_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items((int64_t)n->in[1].dim[0] * n->in[1].dim[1], 1);
    s->then = BS_CU_nms_pack;
    if (s->p[BS_CU_NMS_MOST].i == 0)
        s->p[BS_CU_NMS_MOST].i = INT32_MAX;
}

/* What lies in the scratch, as nms_plan in ops/nms.c sizes it. A line is a class of a batch. */
struct bs_cu_nms {
    uint64_t *keys; /* [lines][boxes]: the order of a score, then its box; at last the boxes that are kept */
    int32_t *kept;  /* [lines] */
    int64_t lines;
    int32_t boxes, classes;
};

struct bs_cu_nms_room {
    int32_t of_warp[BS_CU_THREADS / 32];
    uint32_t votes[2][BS_CU_THREADS / 32];
    bs_box box[BS_CU_THREADS];
};

static_assert(sizeof(bs_cu_nms_room) <= BS_CU_WORKSPACE, "boxes are compared in the workspace");

__device__ __forceinline__ bs_cu_nms bs_cu_nms_of(const bs_cu_tile &t, const bs_device_step *s)
{
    const bs_device_operand *scores = bs_cu_in(t, s, 1);
    bs_cu_nms k;
    k.lines = (int64_t)scores->dim[0] * scores->dim[1];
    k.classes = scores->dim[1];
    k.boxes = scores->dim[2];
    k.keys = reinterpret_cast<uint64_t *>(t.program->kernel_scratch);
    k.kept = reinterpret_cast<int32_t *>(k.keys + k.lines * k.boxes);
    return k;
}

/* Box `id` of batch `batch`. */
__device__ __forceinline__ bs_box bs_cu_nms_box(const bs_cu_tile &t, const bs_device_step *s, int64_t batch, int32_t id)
{
    const bs_device_operand *o = bs_cu_in(t, s, 0);
    const float *at = reinterpret_cast<const float *>(bs_cu_row(t, o, 0)) + batch * o->stride[0] +
                      (int64_t)id * o->stride[1];
    return bs_box_of(at, o->stride[2], s->p[BS_CU_NMS_CENTRE].i != 0);
}

/* Keys of the scores above the limit, the best first; returns how many. */
__device__ inline int32_t bs_cu_nms_sort(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_nms &k, int64_t line,
                                         uint64_t *keys)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    const bs_device_operand *o = bs_cu_in(t, s, 1);
    const float *scores = reinterpret_cast<const float *>(bs_cu_row(t, o, 0)) + line / k.classes * o->stride[0] +
                          line % k.classes * o->stride[1];
    int32_t count = 0;
    for (int64_t first = 0; first < k.boxes; first += bs_cu_threads()) {
        const int64_t i = first + bs_cu_thread();
        const float score = i < k.boxes ? scores[i * o->stride[2]] : 0.0f;
        const bool is = i < k.boxes && score > s->p[BS_CU_NMS_ABOVE].f;
        int32_t all;
        if (score != score)
            bs_cu_fail(t, s, BS_ERROR_DATA);
        const int32_t at = count + bs_cu_rank(is, room->of_warp, &all);
        if (is)
            keys[at] = (uint64_t)~bs_order_key(BS_F32, __float_as_uint(score)) << 32 | (uint32_t)i;
        count += all;
        __syncthreads(); /* before the next round takes the workspace */
    }
    bs_cu_sort_keys(keys, (uint32_t)count, reinterpret_cast<uint64_t *>(t.workspace));
    return count;
}

/* Whether a box overlaps one that is kept. All threads, a box each. */
__device__ inline bool bs_cu_nms_is_covered(const bs_cu_tile &t, const bs_device_step *s, int64_t batch,
                                            const uint64_t *keys, int32_t kept, const bs_box &own)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    bool covered = false;
    for (int32_t first = 0; first < kept; first += bs_cu_threads()) {
        const int32_t count = min(bs_cu_threads(), kept - first);
        __syncthreads(); /* what is there has been compared */
        if (bs_cu_thread() < count)
            room->box[bs_cu_thread()] = bs_cu_nms_box(t, s, batch, (int32_t)keys[first + bs_cu_thread()]);
        __syncthreads();
        for (int32_t i = 0; i < count && !covered; i++)
            covered = bs_boxes_overlap(&room->box[i], &own, s->p[BS_CU_NMS_SHARE].f);
    }
    return covered;
}

/* The first thread for which `is` holds, or -1. votes: a word a warp, which may be written again after the next
 * barrier. */
__device__ inline int32_t bs_cu_first_of(bool is, uint32_t *votes)
{
    const uint32_t own = __ballot_sync(0xffffffffu, is);
    if (bs_cu_lane() == 0)
        votes[bs_cu_warp()] = own;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_warps(); k++)
        if (votes[k])
            return 32 * k + __ffs((int)votes[k]) - 1;
    return -1;
}

/* Moves the boxes of a line that stay to the front of its `count` keys; returns how many. */
__device__ inline int32_t bs_cu_nms_choose(const bs_cu_tile &t, const bs_device_step *s, int64_t batch, uint64_t *keys,
                                           int32_t count)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    const int32_t most = s->p[BS_CU_NMS_MOST].i;
    int32_t kept = 0;
    for (int64_t first = 0; first < count && kept < most; first += bs_cu_threads()) {
        const bool is = first + bs_cu_thread() < count;
        const int32_t id = is ? (int32_t)keys[first + bs_cu_thread()] : (int32_t)keys[first];
        const bs_box own = bs_cu_nms_box(t, s, batch, id);
        bool left = !bs_cu_nms_is_covered(t, s, batch, keys, kept, own) && is;
        __syncthreads(); /* what is there has been compared */
        room->box[bs_cu_thread()] = own;
        for (int32_t turn = 0; kept < most; turn ^= 1) { /* two sets of votes: one barrier is enough */
            const int32_t best = bs_cu_first_of(left, room->votes[turn]);
            if (best < 0)
                break;
            if (bs_cu_thread() == best)
                keys[kept] = (uint32_t)id; /* each thread has read its own key */
            kept++;
            left = left && bs_cu_thread() > best &&
                   !bs_boxes_overlap(&room->box[best], &own, s->p[BS_CU_NMS_SHARE].f);
        }
    }
    return kept;
}

__device__ inline void bs_cu_nms_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_nms k = bs_cu_nms_of(t, s);
    for (int64_t line = w.part; line < k.lines; line += w.parts) {
        uint64_t *keys = k.keys + line * k.boxes;
        const int32_t count = bs_cu_nms_sort(t, s, k, line, keys),
                      kept = bs_cu_nms_choose(t, s, line / k.classes, keys, count);
        if (bs_cu_thread() == 0)
            k.kept[line] = kept;
        __syncthreads(); /* before the next line takes the workspace */
    }
}

/* ----------------------------------------------------------------------------------------------------- the rows */

/* How many boxes the lines before this one keep. All threads. */
__device__ inline int64_t bs_cu_nms_before(const bs_cu_tile &t, const bs_cu_nms &k, int64_t line)
{
    uint64_t sum = 0;
    for (int64_t i = bs_cu_thread(); i < line; i += bs_cu_threads())
        sum += (uint64_t)k.kept[i];
    return (int64_t)bs_cu_sum_threads(reinterpret_cast<uint64_t *>(t.workspace), sum);
}

__device__ inline void bs_cu_nms_pack_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_nms k = bs_cu_nms_of(t, s);
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, out, 0));
    for (int64_t line = w.part; line < k.lines; line += w.parts) {
        const int64_t before = bs_cu_nms_before(t, k, line);
        for (int64_t i = bs_cu_thread(); i < k.kept[line] && before + i < out->dim[0]; i += bs_cu_threads()) {
            int32_t *row = to + (before + i) * out->stride[0];
            row[0] = (int32_t)(line / k.classes);
            row[out->stride[1]] = (int32_t)(line % k.classes);
            row[2 * (int64_t)out->stride[1]] = (int32_t)k.keys[line * k.boxes + i];
        }
    }
    if (w.part > 0)
        return;
    const int64_t all = bs_cu_nms_before(t, k, k.lines);
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, all);
}

#endif
