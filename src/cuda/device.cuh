/* device.cuh - the GPU: opening it, its properties, its two arenas. Sessions share it; once it is open only the arenas
 * change, when a session is made and takes its bytes. Sessions queue work on streams of their own or of their caller
 * (state.cuh). The only place that allocates. Relies on portable.cuh. Must never decide by a board's name. */
#ifndef BS_CUDA_DEVICE
#define BS_CUDA_DEVICE

#include "cuda/portable.cuh"

#ifndef BS_NO_CUBLAS
#include <cublas_v2.h>
#endif

struct bs_cu_device {
    bs_device base; /* first: what sessions see */
    int index;
    bool own_memory, own_pinned;
    int capability; /* 87: 8.7 */
    int multiprocessors, shared_bytes;
    bool integrated, conditional;
    uint64_t cublas_bytes; /* of a session's workspace; 0: without cuBLAS */
    /* bs_cuda_launches: [room] records of launches, NULL: none are kept; launches of the last run that was recorded */
    bs_cuda_launch *launches;
    int32_t room, recorded;
};

/* BS_OK, or BS_ERROR_PLATFORM with CUDA's message. */
static bs_status bs_cu_check(cudaError_t e, const char *what, bs_error *error)
{
    if (e == cudaSuccess)
        return BS_OK;
    cudaGetLastError(); /* or the next call would report it again */
    return bs_fail(error, BS_ERROR_PLATFORM, "CUDA: %s: %s", what, cudaGetErrorString(e));
}

/* Whether there is a GPU with this number; if not, the error says why. */
static bs_status bs_cu_find_device(int32_t index, bs_error *error)
{
    int count = 0, driver = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess)
        cudaGetLastError(); /* or a launch would report it */
    if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "this machine has no CUDA device");
    if (e != cudaSuccess) {
        cudaDriverGetVersion(&driver);
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "CUDA cannot be used here (%s; driver %d, built with %d)",
                       cudaGetErrorString(e), driver, (int)CUDART_VERSION);
    }
    if (index < 0 || index >= count)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_desc.index: there is no CUDA device %d, expected 0 .. %d",
                       index, count - 1);
    return BS_OK;
}

extern "C" bs_status bs_cuda_facts_get(int32_t index, bs_cuda_facts *facts, bs_error *error)
{
    cudaDeviceProp properties;
    if (!facts)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_facts_get: the facts are NULL");
    memset(facts, 0, sizeof *facts);
    bs_status status = bs_cu_find_device(index, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaGetDeviceProperties(&properties, index), "asking the device", error);
    if (status != BS_OK)
        return status;
    snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
    facts->major = properties.major;
    facts->minor = properties.minor;
    facts->multiprocessors = properties.multiProcessorCount;
    facts->integrated = properties.integrated != 0;
    facts->memory_bytes = properties.totalGlobalMem;
    facts->shared_bytes = (int32_t)properties.sharedMemPerBlockOptin;
    int version = 0;
    if (cudaRuntimeGetVersion(&version) == cudaSuccess)
        facts->runtime = version;
    if (cudaDriverGetVersion(&version) == cudaSuccess)
        facts->driver = version;
    facts->conditional = CUDART_VERSION >= 12040 && facts->runtime >= 12040 && facts->driver >= 12040;
    return BS_OK;
}

static void bs_cu_device_free(bs_cu_device *d)
{
    if (d->own_memory && d->base.memory.base)
        cudaFree(d->base.memory.base); /* waits for the device */
    if (d->own_pinned && d->base.pinned.base)
        cudaFreeHost(d->base.pinned.base);
}

static bs_status bs_cu_device_take(bs_cu_device *d, const bs_cuda_desc *desc, bs_error *error)
{
    void *memory = desc->device_memory, *pinned = desc->pinned_memory;
    bs_status status = BS_OK;
    d->own_memory = !memory && desc->device_bytes > 0;
    d->own_pinned = !pinned && desc->pinned_bytes > 0;
    if (d->own_memory)
        status = bs_cu_check(cudaMalloc(&memory, (size_t)desc->device_bytes), "allocating on the device", error);
    if (status != BS_OK)
        memory = NULL;
    bs_arena_init(&d->base.memory, "device", memory, memory ? (size_t)desc->device_bytes : 0);
    if (status == BS_OK && d->own_pinned)
        status = bs_cu_check(cudaHostAlloc(&pinned, (size_t)desc->pinned_bytes, cudaHostAllocMapped),
                             "allocating pinned memory", error);
    if (status != BS_OK)
        pinned = NULL;
    bs_arena_init(&d->base.pinned, "pinned", pinned, pinned ? (size_t)desc->pinned_bytes : 0);
    d->cublas_bytes = desc->cublas_bytes;
#ifdef BS_NO_CUBLAS
    if (status == BS_OK && desc->cublas_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, /* unreachable: without BS_NO_CUBLAS */
                       "cuBLAS was left out of this build (BS_NO_CUBLAS)");
#endif
    return status;
}

extern const bs_device_api bs_cu_api; /* session.cuh */

extern "C" bs_device *bs_cuda_open(bs_arena *arena, const bs_cuda_desc *desc, bs_error *error)
{
    bs_cuda_desc none;
    memset(&none, 0, sizeof none);
    if (!desc)
        desc = &none;
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_open: the arena is NULL");
        return NULL;
    }
    bs_cuda_facts facts; /* a GPU that cannot be queried is not opened: it would refuse every plan */
    if (bs_cuda_facts_get(desc->index, &facts, error) != BS_OK ||
        bs_cu_check(cudaSetDevice(desc->index), "choosing the device", error) != BS_OK)
        return NULL;
    const size_t mark = arena->used;
    bs_cu_device *d = static_cast<bs_cu_device *>(bs_arena_take(arena, sizeof *d));
    if (!d) {
        bs_fail_arena(error, arena, bs_bytes_of(sizeof *d), "the device");
        return NULL;
    }
    memset(d, 0, sizeof *d);
    d->base.api = &bs_cu_api;
    d->index = desc->index;
    d->capability = 10 * facts.major + facts.minor;
    d->multiprocessors = facts.multiprocessors;
    d->shared_bytes = facts.shared_bytes;
    d->integrated = facts.integrated;
    d->conditional = facts.conditional;
    if (bs_cu_device_take(d, desc, error) == BS_OK)
        return &d->base;
    bs_cu_device_free(d);
    arena->used = mark;
    return NULL;
}

extern "C" void bs_cuda_close(bs_device *device)
{
    if (device)
        bs_cu_device_free(reinterpret_cast<bs_cu_device *>(device));
}

#endif
