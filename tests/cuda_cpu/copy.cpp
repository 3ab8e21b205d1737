/* copy.cpp - copies and fills. All run on their stream, also from pageable memory: the harshest reading of what is
 * allowed. They are the C library's, so that sanitizers check both sides. Relies on memory.cpp to tell device from
 * host. Must never accept a kind that contradicts its pointers, or bytes outside an allocation. */
#include "engine.h"

#include <string.h>

namespace cuda_cpu {

/* Rows of bytes; a plain copy is one row. */
struct Area {
    void *to;
    size_t to_pitch;
    const void *from;
    size_t from_pitch;
    size_t width, height;
};

static size_t extent(size_t pitch, size_t width, size_t height) { return height ? pitch * (height - 1) + width : 0; }

static bool within(const Place &place, const void *start, size_t bytes)
{
    if (place.where == PAGEABLE)
        return true;
    return reinterpret_cast<uintptr_t>(start) - place.start + bytes <= place.bytes;
}

static bool sides_fit(cudaMemcpyKind kind, Where to, Where from)
{
    switch (kind) {
    case cudaMemcpyHostToDevice: return to != PAGEABLE && from != DEVICE;
    case cudaMemcpyDeviceToHost: return from != PAGEABLE && to != DEVICE;
    case cudaMemcpyDeviceToDevice: return to != PAGEABLE && from != PAGEABLE;
    case cudaMemcpyHostToHost: return to != DEVICE && from != DEVICE;
    default: return kind == cudaMemcpyDefault;
    }
}

static cudaError_t copy(const Area &area, cudaMemcpyKind kind, cudaStream_t stream, bool asynchronous)
{
    const Place to = memory_find(area.to), from = memory_find(area.from);
    const size_t to_bytes = extent(area.to_pitch, area.width, area.height);
    const size_t from_bytes = extent(area.from_pitch, area.width, area.height);
    if (!area.width || !area.height)
        return cudaSuccess;
    if (area.height > 1 && (area.to_pitch < area.width || area.from_pitch < area.width))
        return fail(cudaErrorInvalidPitchValue);
    if (!sides_fit(kind, to.where, from.where)) {
        trouble("a copy of kind %d from %p to %p: host and device are mistaken", kind, area.from, area.to);
        return fail(cudaErrorInvalidValue);
    }
    if (!within(to, area.to, to_bytes) || !within(from, area.from, from_bytes)) {
        trouble("a copy of %zu bytes from %p to %p leaves its allocation", to_bytes, area.from, area.to);
        return fail(cudaErrorInvalidValue);
    }
    const cudaError_t error = stream_enqueue(stream, work_of([area](Worker &) {
        for (size_t row = 0; row < area.height; row++)
            memcpy(static_cast<char *>(area.to) + row * area.to_pitch,
                   static_cast<const char *>(area.from) + row * area.from_pitch, area.width);
    }));
    if (error != cudaSuccess)
        return error;
    count(COPIES);
    count(COPIED_BYTES, static_cast<int64_t>(area.width * area.height));
    if (asynchronous && (to.where == PAGEABLE || from.where == PAGEABLE))
        count(PAGEABLE_COPIES);
    return cudaSuccess;
}

static cudaError_t fill(void *at, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    const Place place = memory_find(at);
    if (!width || !height)
        return cudaSuccess;
    if (place.where == PAGEABLE || !within(place, at, extent(pitch, width, height))) {
        trouble("a fill at %p is not on the device or leaves its allocation", at);
        return fail(cudaErrorInvalidValue);
    }
    return stream_enqueue(stream, work_of([at, pitch, value, width, height](Worker &) {
        for (size_t row = 0; row < height; row++)
            memset(static_cast<char *>(at) + row * pitch, value, width);
    }));
}

/* The legacy stream's calls keep the host until they are done. */
static cudaError_t finish(cudaError_t error)
{
    if (error != cudaSuccess)
        return error;
    count(SYNCHRONISATIONS);
    stream_wait(stream_find(nullptr));
    return cudaSuccess;
}

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_CPU_BEGIN();
    return copy(Area{to, bytes, from, bytes, bytes, 1}, kind, stream, true);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_CPU_BEGIN();
    return copy(Area{to, to_pitch, from, from_pitch, width, height}, kind, stream, true);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    CUDA_CPU_BEGIN();
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    return finish(copy(Area{to, bytes, from, bytes, bytes, 1}, kind, nullptr, false));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind)
{
    CUDA_CPU_BEGIN();
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    return finish(copy(Area{to, to_pitch, from, from_pitch, width, height}, kind, nullptr, false));
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    CUDA_CPU_BEGIN();
    return fill(at, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    CUDA_CPU_BEGIN();
    return fill(at, pitch, value, width, height, stream);
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    CUDA_CPU_BEGIN();
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    return finish(fill(at, bytes, value, bytes, 1, nullptr));
}

} // extern "C"
