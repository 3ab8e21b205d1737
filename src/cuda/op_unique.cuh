/* op_unique.cuh - the different elements of a value, in rising order: unique.
 *
 * One block sorts keys of all elements, each with its place, so that equal ones stay in the order of their places and
 * no two keys are equal (sort.cuh says how often it goes through them: 28 times with 10^5 elements); then it numbers
 * them. Keys lie in the scratch that the op planned.
 * Relies on op_from_data.cuh, move_nest.cuh and sort.cuh. Must never write an element beyond its maximum: what there is
 * is counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_UNIQUE
#define BS_CUDA_OP_UNIQUE

#include "cuda/move_nest.cuh"
#include "cuda/op_from_data.cuh"
#include "cuda/sort.cuh"

extern "C" {
#include "ops/found.h"
}

enum { BS_CU_UNIQUE_FIRST = 1, BS_CU_UNIQUE_INVERSE, BS_CU_UNIQUE_COUNTS }; /* results after the elements */

static constexpr bs_cu_describe bs_cu_unique_describe = bs_cu_arange_describe;

/* What lies in the scratch, as unique_plan in ops/unique.c sizes it. */
struct bs_cu_unique {
    uint64_t *keys;   /* [n]: the order of an element, then its place */
    int32_t *begins;  /* [n]: the first key of each different element */
    int32_t n, found;
};

static_assert(BS_CU_SORT_STAGE * sizeof(uint64_t) <= BS_CU_WORKSPACE, "a stage of keys is sorted in the workspace");

__device__ inline void bs_cu_unique_sort(const bs_cu_tile &t, const bs_device_operand *x, const bs_cu_unique &u)
{
    const uint8_t *from = bs_cu_row(t, x, 0);
    for (int32_t i = bs_cu_thread(); i < u.n; i += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES];
        const uint32_t bits = reinterpret_cast<const uint32_t *>(from)[bs_cu_index_of(x, i, index)];
        u.keys[i] = (uint64_t)bs_order_key((bs_dtype)x->dtype, bits) << 32 | (uint32_t)i;
    }
    __syncthreads();
    bs_cu_sort_keys(u.keys, (uint32_t)u.n, reinterpret_cast<uint64_t *>(t.workspace));
}

/* Writes which of the different elements stands where, and finds where each begins among the keys. */
__device__ inline void bs_cu_unique_number(const bs_cu_tile &t, const bs_device_operand *inverse, bs_cu_unique *u)
{
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, inverse, 0));
    u->found = 0;
    for (int64_t first = 0; first < u->n; first += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES], all;
        const int64_t i = first + bs_cu_thread();
        const bool is = i < u->n && (i == 0 || u->keys[i] >> 32 != u->keys[i - 1] >> 32);
        const int32_t row = u->found + bs_cu_rank(is, reinterpret_cast<int32_t *>(t.workspace), &all) - !is;
        if (is)
            u->begins[row] = (int32_t)i;
        if (i < u->n)
            to[bs_cu_index_of(inverse, (int32_t)u->keys[i], index)] = row;
        u->found += all;
        __syncthreads(); /* before the next round takes the workspace, and before others read where elements begin */
    }
}

__device__ inline void bs_cu_unique_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    bs_cu_unique u;
    u.n = (int32_t)bs_cu_product(x->dim, x->rank);
    u.keys = reinterpret_cast<uint64_t *>(t.program->kernel_scratch);
    u.begins = reinterpret_cast<int32_t *>(u.keys + u.n);
    bs_cu_zero_margin_of(t, w, &out[BS_CU_UNIQUE_INVERSE], 0);
    bs_cu_unique_sort(t, x, u);
    bs_cu_unique_number(t, &out[BS_CU_UNIQUE_INVERSE], &u);
    const uint8_t *from = bs_cu_row(t, x, 0);
    uint8_t *values = bs_cu_row(t, out, 0);
    int32_t *places = reinterpret_cast<int32_t *>(bs_cu_row(t, &out[BS_CU_UNIQUE_FIRST], 0)),
            *counts = reinterpret_cast<int32_t *>(bs_cu_row(t, &out[BS_CU_UNIQUE_COUNTS], 0));
    for (int32_t row = bs_cu_thread(); row < min(u.found, out->dim[0]); row += bs_cu_threads()) {
        const int32_t begin = u.begins[row], end = row + 1 < u.found ? u.begins[row + 1] : u.n,
                      place = (int32_t)u.keys[begin];
        int32_t index[BS_MAX_AXES];
        bs_cu_element_move(values, out->dtype, (int64_t)row * out->stride[0], from, x->dtype,
                           bs_cu_index_of(x, place, index));
        places[(int64_t)row * out[BS_CU_UNIQUE_FIRST].stride[0]] = place;
        counts[(int64_t)row * out[BS_CU_UNIQUE_COUNTS].stride[0]] = end - begin;
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, u.found);
}

#endif
