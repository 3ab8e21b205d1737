/* extents.cuh - what a run puts into the tables: dimensions and buffers of operands, rows of domains.
 * Relies on plan/device.h. Must never change what a step does: steps are those of all runs. */
#ifndef BS_CUDA_EXTENTS
#define BS_CUDA_EXTENTS

#include "cuda/portable.cuh"

__host__ __device__ static inline int32_t bs_cu_cells(int32_t extent, int32_t size)
{
    return (int32_t)bs_ceil_div(extent, size);
}

/* Strides of a row are those of the buffer's later dimensions; a row of the first, or of a ring (the first two), or the
 * place of a trip begins where its step says. */
__host__ __device__ static inline void bs_cu_bind_operand(const bs_device_bound *b, bs_device_operand *o)
{
    o->base = b->address;
    for (int32_t i = 0; i < o->rank && i + o->skip < BS_MAX_RANK; i++)
        o->stride[i] = b->stride[i + o->skip];
    if (o->place != BS_AT_ROOT)
        o->row_bytes = (int64_t)b->stride[0] * b->bytes;
    if (o->place == BS_AT_RING)
        o->max_w = b->stride[1];
    if (o->trip)
        o->trip_bytes = (int64_t)b->stride[o->skip - 1] * b->bytes;
}

/* dims: [dimensions] of the run, bound: [entries]. */
__host__ __device__ static inline void bs_cu_extend_operand(const int32_t *dims, const bs_device_bound *bound,
                                                            bs_device_operand *o)
{
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        if (o->from[i] >= 0)
            o->dim[i] = dims[o->from[i]];
    if (o->cell > 0)
        o->across = bs_cu_cells(dims[o->width], o->size);
    if (o->bound > 0)
        bs_cu_bind_operand(&bound[o->bound], o);
}

/* Rows of a domain; its count, where that is not of a run, is read then alone. */
__host__ __device__ static inline int32_t bs_cu_domain_count(const int32_t *dims, const bs_device_domain *d)
{
    if (d->rows < 0)
        return d->count;
    return d->size > 0 ? bs_cu_cells(dims[d->rows], d->size) * bs_cu_cells(dims[d->across], d->size) : dims[d->rows];
}

__host__ __device__ static inline void bs_cu_extend_domain(const int32_t *dims, bs_device_domain *d)
{
    if (d->rows >= 0)
        d->count = bs_cu_domain_count(dims, d);
    if (d->segments >= 0)
        d->lengths = dims[d->segments];
}

#endif
