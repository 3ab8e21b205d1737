/* memory.cpp - device memory, pinned memory, and which is which. New memory is filled: 0xff on the device (NaN, -1)
 * unless a test says otherwise, 0xa5 on the host; of more than 512 MiB the ends. It comes from the C library's
 * allocator, so that the address sanitizer bounds it. Must never be freed as the host thread: what the device did must
 * not become known to the host by that. */
#include "engine.h"

#include <map>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace cuda_cpu {

struct Address {
    uintptr_t value;
    bool operator<(const Address &other) const { return value < other.value; }
};
struct Allocation {
    size_t bytes;
    Where where;
    bool registered; /* somebody else's memory */
};
typedef std::map<Address, Allocation> Allocations;

static Lock lock;
static size_t device_used;
static Allocations &allocations()
{
    static Allocations *map = new Allocations();
    return *map;
}

static Address address_of(const void *pointer) { return Address{reinterpret_cast<uintptr_t>(pointer)}; }

/* The allocation that holds the address, or the end. */
static Allocations::iterator find(uintptr_t address)
{
    Allocations &all = allocations();
    Allocations::iterator after = all.upper_bound(Address{address});
    if (after == all.begin())
        return all.end();
    --after;
    return address < after->first.value + after->second.bytes ? after : all.end();
}

Place memory_find(const void *address)
{
    Held held(lock);
    const Allocations::iterator found = find(reinterpret_cast<uintptr_t>(address));
    if (found == allocations().end())
        return Place{PAGEABLE, 0, 0};
    return Place{found->second.where, found->first.value, found->second.bytes};
}

static void fill_raw(void *at, int value, size_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
#else
    for (volatile char *byte = static_cast<char *>(at); bytes--;)
        *byte++ = static_cast<char>(value);
#endif
}

/* ---- separate memory: what a host touches while the device is idle faults ---- */

enum : size_t { ARENA_BYTES = static_cast<size_t>(64) << 30, ARENA_ALIGN = 64 << 10 };
static Lock arena_lock;
static char *arena;
static size_t arena_used;
static int arena_users;

static bool separate()
{
    static const bool wanted = environment("CUDA_CPU_SEPARATE", 0) != 0;
    return wanted;
}

static void arena_protect(int how)
{
    if (arena_used && mprotect(arena, arena_used, how))
        die("device memory cannot be protected");
}

void device_open()
{
    if (!separate())
        return;
    Held held(arena_lock);
    if (arena_users++ == 0)
        arena_protect(PROT_READ | PROT_WRITE);
}

void device_close()
{
    if (!separate())
        return;
    Held held(arena_lock);
    if (--arena_users == 0)
        arena_protect(PROT_NONE);
}

/* Addresses are not used again. The caller has opened the device. */
static void *arena_take(size_t bytes)
{
    Held held(arena_lock);
    if (!arena) {
        void *made = mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED)
            return nullptr;
        arena = static_cast<char *>(made);
    }
    const size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (rounded > ARENA_BYTES - arena_used)
        return nullptr;
    char *at = arena + arena_used;
    arena_used += rounded;
    arena_protect(PROT_READ | PROT_WRITE);
    return at;
}

static void *memory_take(size_t bytes, Where where)
{
    if (where == DEVICE && separate())
        return arena_take(bytes);
    void *made = nullptr;
    return posix_memalign(&made, where == DEVICE ? 256 : 4096, bytes) ? nullptr : made;
}

static void memory_give(void *pointer)
{
    const char *at = static_cast<char *>(pointer);
    if (!arena || at < arena || at >= arena + ARENA_BYTES)
        free(pointer);
}

/* Behind each allocation, unless a sanitizer bounds it: looked at when it is freed. */
enum { GUARD_BYTES = address_sanitizer ? 0 : 64, GUARD = 0xfd };

static bool guard_holds(const void *start, size_t bytes)
{
    const volatile unsigned char *guard = static_cast<const unsigned char *>(start) + bytes;
    for (int i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != GUARD)
            return false;
    return true;
}

/* New memory is filled, what is very large at its ends only: it shall not need so much of this machine. */
static void fill_new(void *at, int value, size_t bytes)
{
    const size_t most = static_cast<size_t>(256) << 20;
    if (bytes <= 2 * most)
        return fill_raw(at, value, bytes);
    fill_raw(at, value, most);
    fill_raw(static_cast<char *>(at) + bytes - most, value, most);
}

static cudaError_t allocate(void **pointer, size_t bytes, Where where)
{
    *pointer = nullptr;
    CUDA_CPU_BEGIN(cudaErrorMemoryAllocation);
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    if (!bytes)
        return cudaSuccess;
    const size_t total = device_now().total_memory_bytes;
    Held held(lock);
    if (where == DEVICE && (bytes > total || device_used > total - bytes))
        return fail(cudaErrorMemoryAllocation);
    device_open();
    void *made = memory_take(bytes + GUARD_BYTES, where);
    if (made) {
        fill_new(made, where == DEVICE ? fill_now() : 0xa5, bytes);
        fill_raw(static_cast<char *>(made) + bytes, GUARD, GUARD_BYTES);
    }
    device_close();
    if (!made)
        return fail(cudaErrorMemoryAllocation);
    allocations()[address_of(made)] = Allocation{bytes, where, false};
    if (where == DEVICE)
        device_used += bytes;
    count(where == DEVICE ? DEVICE_ALLOCATIONS : HOST_ALLOCATIONS);
    count(LIVE_ALLOCATIONS);
    *pointer = made;
    return cudaSuccess;
}

static cudaError_t release(void *pointer, Where where)
{
    if (!device_present())
        return fail(cudaErrorNoDevice);
    if (!pointer)
        return cudaSuccess;
    const cudaError_t forbidden = capture_forbids();
    if (forbidden != cudaSuccess)
        return fail(forbidden);
    device_wait(false);
    {
        Held held(lock);
        const Allocations::iterator found = allocations().find(address_of(pointer));
        if (found == allocations().end() || found->second.where != where || found->second.registered) {
            trouble("%s of %p, which it does not own", where == DEVICE ? "cudaFree" : "cudaFreeHost", pointer);
            return fail(cudaErrorInvalidValue);
        }
        device_open();
        const bool holds = guard_holds(pointer, found->second.bytes);
        device_close();
        if (!holds)
            trouble("memory at %p, %zu bytes, was written beyond its end", pointer, found->second.bytes);
        if (where == DEVICE)
            device_used -= found->second.bytes;
        allocations().erase(found);
    }
    count(FREES);
    count(LIVE_ALLOCATIONS, -1);
    as_janitor(memory_give, pointer);
    return cudaSuccess;
}

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" {

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return allocate(pointer, bytes, DEVICE); }
cudaError_t cudaFree(void *pointer) { return release(pointer, DEVICE); }
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, PINNED); }
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return allocate(pointer, bytes, PINNED); }
cudaError_t cudaFreeHost(void *pointer) { return release(pointer, PINNED); }

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned)
{
    CUDA_CPU_BEGIN(cudaErrorMemoryAllocation);
    if (!pointer || !bytes)
        return fail(cudaErrorInvalidValue);
    Held held(lock);
    const uintptr_t start = reinterpret_cast<uintptr_t>(pointer);
    const Allocations::iterator after = allocations().lower_bound(Address{start});
    if (find(start) != allocations().end() ||
        (after != allocations().end() && after->first.value < start + bytes))
        return fail(cudaErrorHostMemoryAlreadyRegistered);
    allocations()[Address{start}] = Allocation{bytes, PINNED, true};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *pointer)
{
    if (!device_present())
        return fail(cudaErrorNoDevice);
    Held held(lock);
    const Allocations::iterator found = allocations().find(address_of(pointer));
    if (found == allocations().end() || !found->second.registered) {
        trouble("cudaHostUnregister of %p, which is not registered", pointer);
        return fail(cudaErrorHostMemoryNotRegistered);
    }
    allocations().erase(found);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    CUDA_CPU_BEGIN();
    *device = nullptr;
    if (memory_find(host).where != PINNED)
        return fail(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
{
    CUDA_CPU_BEGIN();
    const Place place = memory_find(pointer);
    void *plain = const_cast<void *>(pointer);
    cudaPointerAttributes found = cudaPointerAttributes();
    found.type = place.where == DEVICE   ? cudaMemoryTypeDevice
                 : place.where == PINNED ? cudaMemoryTypeHost
                                         : cudaMemoryTypeUnregistered;
    found.device = place.where == PAGEABLE ? -2 : 0;
    found.devicePointer = place.where == PAGEABLE ? nullptr : plain;
    found.hostPointer = place.where == DEVICE ? nullptr : plain;
    *attributes = found;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    CUDA_CPU_BEGIN();
    const size_t total = device_now().total_memory_bytes;
    Held held(lock);
    *total_bytes = total;
    *free_bytes = device_used < total ? total - device_used : 0;
    return cudaSuccess;
}

} // extern "C"
