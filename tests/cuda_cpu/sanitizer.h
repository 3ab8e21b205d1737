/* sanitizer.h - what the sanitizers are told: which fiber runs, and which order CUDA promises. The engine itself is
 * compiled without instrumentation, with CUDA_CPU_ASAN or CUDA_CPU_TSAN, so that they see CUDA's rules and not its
 * locks. Must never state an order that CUDA does not give: that hides missing waits. */
#ifndef CUDA_CPU_SANITIZER_H
#define CUDA_CPU_SANITIZER_H

#include <stddef.h>

#if defined(CUDA_CPU_TSAN)
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range(void *address, unsigned long size);
void __tsan_write_range(void *address, unsigned long size);
}
#endif
#if defined(CUDA_CPU_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_size);
}
#endif

namespace cuda_cpu {

/* A place where order is handed on. It is an address, so it must be made anew where old order would be too much. */
typedef long long Tag;

#if defined(CUDA_CPU_TSAN)
enum { thread_sanitizer = 1 };
inline void order_release(Tag *tag) { __tsan_release(tag); }
inline void order_acquire(Tag *tag) { __tsan_acquire(tag); }
inline void memory_read(const void *at, size_t bytes) { __tsan_read_range(const_cast<void *>(at), bytes); }
inline void memory_written(void *at, size_t bytes) { __tsan_write_range(at, bytes); }
inline void *identity_make() { return __tsan_create_fiber(0); }
inline void identity_destroy(void *identity) { __tsan_destroy_fiber(identity); }
inline void *identity_now() { return __tsan_get_current_fiber(); }
inline void identity_take(void *identity) { __tsan_switch_to_fiber(identity, 1 /* no order by the switch */); }
#else
enum { thread_sanitizer = 0 };
inline void order_release(Tag *) {}
inline void order_acquire(Tag *) {}
inline void memory_read(const void *, size_t) {}
inline void memory_written(void *, size_t) {}
inline void *identity_make() { return nullptr; }
inline void identity_destroy(void *) {}
inline void *identity_now() { return nullptr; }
inline void identity_take(void *) {}
#endif

#if defined(CUDA_CPU_ASAN)
enum { address_sanitizer = 1 };
inline void stack_leave(void **fake, const void *low, size_t size) { __sanitizer_start_switch_fiber(fake, low, size); }
inline void stack_enter(void *fake, const void **low, size_t *size)
{
    __sanitizer_finish_switch_fiber(fake, low, size);
}
#else
enum { address_sanitizer = 0 };
inline void stack_leave(void **, const void *, size_t) {}
inline void stack_enter(void *, const void **, size_t *) {}
#endif

} // namespace cuda_cpu

#endif
