/* op_segment.cuh - between segments and their rows: numbers rows, spreads one row a segment over its rows, reduces its
 * rows to one. Sums go from the first row of a segment to its last, an element a thread.
 * Relies on segment.cuh, walk.cuh and move_nest.cuh; offsets are checked before the run. Must never read beyond
 * them. */
#ifndef BS_CUDA_OP_SEGMENT
#define BS_CUDA_OP_SEGMENT

#include "cuda/kernels.cuh"
#include "cuda/move_nest.cuh"
#include "cuda/segment.cuh"
#include "cuda/walk.cuh"

enum { BS_CU_SEGMENT_EACH = 1024 }; /* elements of a work item */
enum { BS_CU_SEGMENT_MODE, BS_CU_SEGMENT_TO_ROWS }; /* parameters of segment_reduce, in p: the descriptor's words */

static constexpr bs_cu_describe bs_cu_segment_index_describe = bs_cu_cut;

/* Operands: cells, which are not read, and cache lengths, if there are any. */
__device__ inline void bs_cu_segment_index_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    for (int32_t r = w.row + bs_cu_thread(); r < w.end; r += bs_cu_threads()) {
        const int32_t segment = bs_cu_segment_at(t, segments, r);
        const int32_t before =
            s->n_in > 1 ? reinterpret_cast<const int32_t *>(bs_cu_row(t, bs_cu_in(t, s, 1), 0))[segment] : 0;
        *reinterpret_cast<int32_t *>(bs_cu_row(t, out, r)) = before + (r - bs_cu_segment_first(t, segments, segment));
    }
}

/* The step's rows are those in segments. */
static void bs_cu_segment_spread_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_SEGMENT_EACH);
}

/* The step has one row, all segments, or rows that get what their segments give. */
static void bs_cu_segment_reduce_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), 256);
}

/* The offset by these strides of element number i of a cell. In images channels move fastest. */
__device__ inline int64_t bs_cu_segment_element(const bs_device_operand *cell, const int32_t *stride, int32_t i)
{
    int64_t at = 0;
    if (cell->image) {
        at = (int64_t)(i % cell->dim[0]) * stride[0];
        i /= cell->dim[0];
    }
    for (int32_t d = cell->rank - 1; d >= cell->image; d--) {
        at += (int64_t)(i % cell->dim[d]) * stride[d];
        i /= cell->dim[d];
    }
    return at;
}

__device__ inline void bs_cu_segment_spread_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *root = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    const int32_t n = (int32_t)bs_cu_product(out->dim, out->rank), step = w.parts * bs_cu_threads();
    const uint8_t *base = bs_cu_row(t, root, 0);
    for (int32_t r = w.row; r < w.end; r++) {
        const int32_t segment = bs_cu_segment_at(t, segments, r);
        const uint8_t *from = base + (int64_t)segment * root->stride[0] * bs_cu_bytes(root->dtype);
        uint8_t *to = bs_cu_row(t, out, r);
        bs_cu_zero_margin_of(t, w, out, r);
        for (int32_t i = w.part * bs_cu_threads() + bs_cu_thread(); i < n; i += step)
            bs_cu_element_move(to, out->dtype, bs_cu_segment_element(out, out->stride, i), from, root->dtype,
                               bs_cu_segment_element(out, root->stride + 1, i));
    }
}

/* Reduces one element over one segment. rows: where it is in row 0; row_bytes: from row to row. */
__device__ inline float bs_cu_segment_reduced(int32_t mode, const uint8_t *rows, int64_t row_bytes, int32_t dtype,
                                              int32_t begin, int32_t end)
{
    float result = 0.0f;
    for (int32_t r = mode == BS_SEGMENT_LAST ? max(end - 1, begin) : begin; r < end; r++) {
        const float x = bs_cu_get(rows + r * row_bytes, dtype, 0);
        if (r == begin || mode == BS_SEGMENT_LAST)
            result = x;
        else if (mode == BS_SEGMENT_MAX)
            result = x > result ? x : result;
        else
            result += x;
    }
    return mode == BS_SEGMENT_MEAN && end > begin ? result / (float)(end - begin) : result;
}

/* Each row gets what its segment gives: as many sums as there are rows, of which none waits for another. */
__device__ inline void bs_cu_segment_reduce_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    const int32_t each = (int32_t)bs_cu_product(x->dim, x->rank), step = w.parts * bs_cu_threads();
    const uint8_t *rows = bs_cu_row(t, x, 0);
    for (int32_t r = w.row; r < w.end; r++) {
        const int32_t segment = bs_cu_segment_at(t, segments, r), begin = bs_cu_segment_first(t, segments, segment),
                      end = bs_cu_segment_first(t, segments, segment + 1);
        uint8_t *to = bs_cu_row(t, out, r);
        bs_cu_zero_margin_of(t, w, out, r);
        for (int32_t i = w.part * bs_cu_threads() + bs_cu_thread(); i < each; i += step) {
            const uint8_t *from = rows + bs_cu_segment_element(x, x->stride, i) * bs_cu_bytes(x->dtype);
            bs_cu_put(to, out->dtype, bs_cu_segment_element(x, out->stride, i),
                      bs_cu_segment_reduced(s->p[BS_CU_SEGMENT_MODE].i, from, x->row_bytes, x->dtype, begin, end));
        }
    }
}

__device__ inline void bs_cu_segment_reduce_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (s->p[BS_CU_SEGMENT_TO_ROWS].i) {
        bs_cu_segment_reduce_rows(t, s, w);
        return;
    }
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, x->domain);
    const int32_t each = (int32_t)bs_cu_product(x->dim, x->rank), step = w.parts * bs_cu_threads();
    /* these ops run at top level, where the rows of a domain, or of a path, are consecutive */
    const uint8_t *rows = bs_cu_row(t, x, 0);
    uint8_t *to = bs_cu_row(t, out, 0);
    bs_cu_zero_margin_of(t, w, out, 0);
    for (int64_t i = (int64_t)w.part * blockDim.x + threadIdx.x; i < (int64_t)segments.count * each; i += step) {
        const int32_t segment = (int32_t)(i / each), element = (int32_t)(i % each);
        const uint8_t *from = rows + bs_cu_segment_element(x, x->stride, element) * bs_cu_bytes(x->dtype);
        const float result = bs_cu_segment_reduced(s->p[BS_CU_SEGMENT_MODE].i, from, x->row_bytes, x->dtype,
                                                   bs_cu_segment_first(t, segments, segment),
                                                   bs_cu_segment_first(t, segments, segment + 1));
        bs_cu_put(to, out->dtype,
                  (int64_t)segment * out->stride[0] + bs_cu_segment_element(x, out->stride + 1, element), result);
    }
}

#endif
