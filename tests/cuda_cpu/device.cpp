/* device.cpp - the device that is claimed: properties, attributes of kernels, occupancy, versions. Relies on control
 * and environment for what to claim. Must never claim what the emulator cannot do: no cooperative launch, no managed
 * memory, no peers. */
#include "engine.h"

#include <map>
#include <stdlib.h>
#include <string.h>

namespace cuda_cpu {

enum { SHARED_DEFAULT = 48 << 10, WARP = 32, THREADS_BLOCK = 1024, THREADS_PROCESSOR = 1536, BLOCKS_PROCESSOR = 16 };

static Lock device_lock;
static struct cuda_cpu_device claimed; /* zeros: defaults */
static std::atomic<int> devices{-1};

static size_t kib(const char *name, size_t otherwise)
{
    return static_cast<size_t>(environment(name, static_cast<long>(otherwise))) << 10;
}

/* CUDA_CPU_CAPABILITY is written 87 or 110: the last digit is the minor one. */
struct ::cuda_cpu_device device_now()
{
    Held held(device_lock);
    struct cuda_cpu_device device = claimed;
    if (!device.major) {
        const long capability = environment("CUDA_CPU_CAPABILITY", 87);
        device.major = static_cast<int>(capability / 10);
        device.minor = static_cast<int>(capability % 10);
    }
    if (!device.integrated)
        device.integrated = static_cast<int>(environment("CUDA_CPU_INTEGRATED", 0));
    if (!device.multiprocessors)
        device.multiprocessors = static_cast<int>(environment("CUDA_CPU_MULTIPROCESSORS", 4));
    if (!device.shared_optin_bytes)
        device.shared_optin_bytes = kib("CUDA_CPU_SHARED_KIB", 99);
    if (!device.total_memory_bytes)
        device.total_memory_bytes = kib("CUDA_CPU_MEMORY_KIB", 8u << 20);
    return device;
}

bool device_present()
{
    const int set = devices.load();
    if (set >= 0)
        return set > 0;
    static const long at_start = environment("CUDA_CPU_DEVICES", 1);
    return at_start > 0;
}

/* ---- attributes of kernels ---- */

struct Function {
    const void *address;
    bool operator<(const Function &other) const { return address < other.address; }
};
struct FunctionSettings {
    size_t dynamic_bytes;
};
static Lock function_lock;
static std::map<Function, FunctionSettings> &functions()
{
    static std::map<Function, FunctionSettings> *map = new std::map<Function, FunctionSettings>();
    return *map;
}

size_t dynamic_shared_limit(const void *function)
{
    Held held(function_lock);
    const auto found = functions().find(Function{function});
    return found == functions().end() ? static_cast<size_t>(SHARED_DEFAULT) : found->second.dynamic_bytes;
}

static int attribute_of(const struct cuda_cpu_device &device, cudaDeviceAttr attribute)
{
    const int optin = static_cast<int>(device.shared_optin_bytes);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return THREADS_BLOCK;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return SHARED_DEFAULT;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return optin;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return optin + 1024;
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
    case cudaDevAttrWarpSize: return WARP;
    case cudaDevAttrMultiProcessorCount: return device.multiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return THREADS_PROCESSOR;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return BLOCKS_PROCESSOR;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrIntegrated: return device.integrated;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported: return 1;
    case cudaDevAttrAsyncEngineCount: return 2;
    case cudaDevAttrComputeCapabilityMajor: return device.major;
    case cudaDevAttrComputeCapabilityMinor: return device.minor;
    case cudaDevAttrL2CacheSize: return 4 << 20;
    case cudaDevAttrTotalConstantMemory: return 64 << 10;
    case cudaDevAttrClockRate: return 1300000;
    case cudaDevAttrMemoryClockRate: return 3199000;
    case cudaDevAttrGlobalMemoryBusWidth: return 256;
    case cudaDevAttrTextureAlignment: return 512;
    default: return 0; /* not offered */
    }
}

static int occupancy(int block, size_t dynamic_bytes)
{
    const size_t shared = dynamic_bytes + 1024;
    int blocks = THREADS_PROCESSOR / block;
    if (blocks > BLOCKS_PROCESSOR)
        blocks = BLOCKS_PROCESSOR;
    const size_t fit = (device_now().shared_optin_bytes + 1024) / shared;
    return fit < static_cast<size_t>(blocks) ? static_cast<int>(fit) : blocks;
}

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" {

void cuda_cpu_device(const struct cuda_cpu_device *device)
{
    static const struct cuda_cpu_device defaults = {0, 0, 0, 0, 0, 0};
    Held held(device_lock);
    claimed = device ? *device : defaults;
}

void cuda_cpu_devices(int count_of) { devices.store(count_of); }

cudaError_t cudaGetDeviceCount(int *count_of)
{
    *count_of = 0;
    CUDA_CPU_BEGIN();
    *count_of = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    CUDA_CPU_BEGIN();
    return fail(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    CUDA_CPU_BEGIN();
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    CUDA_CPU_BEGIN();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = device_present() ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    CUDA_CPU_BEGIN();
    if (device != 0)
        return fail(cudaErrorInvalidDevice);
    *value = attribute_of(device_now(), attribute);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int number)
{
    CUDA_CPU_BEGIN();
    if (number != 0)
        return fail(cudaErrorInvalidDevice);
    const struct cuda_cpu_device device = device_now();
    const auto ask = [&](cudaDeviceAttr attribute) { return attribute_of(device, attribute); };
    cudaDeviceProp p = cudaDeviceProp();
    strncpy(p.name, "CUDA on CPU", sizeof p.name - 1);
    p.major = device.major;
    p.minor = device.minor;
    p.integrated = device.integrated;
    p.multiProcessorCount = device.multiprocessors;
    p.totalGlobalMem = device.total_memory_bytes;
    p.sharedMemPerBlock = SHARED_DEFAULT;
    p.sharedMemPerBlockOptin = device.shared_optin_bytes;
    p.sharedMemPerMultiprocessor = device.shared_optin_bytes + 1024;
    p.reservedSharedMemPerBlock = 1024;
    p.regsPerBlock = p.regsPerMultiprocessor = ask(cudaDevAttrMaxRegistersPerBlock);
    p.warpSize = WARP;
    p.maxThreadsPerBlock = THREADS_BLOCK;
    p.maxThreadsPerMultiProcessor = THREADS_PROCESSOR;
    p.maxBlocksPerMultiProcessor = BLOCKS_PROCESSOR;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = THREADS_BLOCK;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.totalConstMem = 64 << 10;
    p.l2CacheSize = ask(cudaDevAttrL2CacheSize);
    p.memoryBusWidth = ask(cudaDevAttrGlobalMemoryBusWidth);
    p.asyncEngineCount = ask(cudaDevAttrAsyncEngineCount);
    p.textureAlignment = 512;
    p.unifiedAddressing = p.canMapHostMemory = p.concurrentKernels = p.streamPrioritiesSupported = 1;
    p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = 1;
    *properties = p;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value)
{
    CUDA_CPU_BEGIN();
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > device_now().shared_optin_bytes)
        return fail(cudaErrorInvalidValue);
    Held held(function_lock);
    functions()[Function{function}].dynamic_bytes = static_cast<size_t>(value);
    return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache)
{
    CUDA_CPU_BEGIN();
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function)
{
    CUDA_CPU_BEGIN();
    const struct cuda_cpu_device device = device_now();
    cudaFuncAttributes a = cudaFuncAttributes();
    a.maxThreadsPerBlock = THREADS_BLOCK;
    a.numRegs = 32;
    a.binaryVersion = a.ptxVersion = device.major * 10 + device.minor;
    a.maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(function));
    *attributes = a;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int block,
                                                                   size_t dynamic_bytes, unsigned)
{
    CUDA_CPU_BEGIN();
    if (block <= 0)
        return fail(cudaErrorInvalidValue);
    const bool fits = block <= THREADS_BLOCK && dynamic_bytes <= dynamic_shared_limit(function);
    *blocks = fits ? occupancy(block, dynamic_bytes) : 0;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block,
                                                          size_t dynamic_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, dynamic_bytes, 0);
}

} // extern "C"
