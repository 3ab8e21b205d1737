/* cuda_cpu_atomic.h - the atomics of kernels: relaxed, as on the device, and instrumented with the source that uses
 * them. Must never order anything but the word itself. */
#ifndef CUDA_CPU_ATOMIC_H
#define CUDA_CPU_ATOMIC_H

template <size_t bytes> struct cuda_cpu_word;
template <> struct cuda_cpu_word<2> { typedef uint16_t type; };
template <> struct cuda_cpu_word<4> { typedef uint32_t type; };
template <> struct cuda_cpu_word<8> { typedef uint64_t type; };

template <class T, class Change> static inline T cuda_cpu_atomic(T *at, Change change)
{
    typedef typename cuda_cpu_word<sizeof(T)>::type __attribute__((may_alias)) word;
    word *place = reinterpret_cast<word *>(at);
    word before = __atomic_load_n(place, __ATOMIC_RELAXED), after;
    T old, changed;
    do {
        memcpy(static_cast<void *>(&old), &before, sizeof old);
        changed = change(old);
        memcpy(&after, static_cast<const void *>(&changed), sizeof after);
    } while (!__atomic_compare_exchange_n(place, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

/* The second argument converts to the first one's type and takes no part in finding it. */
template <class T> struct cuda_cpu_as { typedef T type; };

#define CUDA_CPU_ATOMIC(name, expression)                                                                              \
    template <class T> static inline T name(T *at, typename cuda_cpu_as<T>::type value)                                \
    {                                                                                                                  \
        return cuda_cpu_atomic(at, [value](T old) -> T { return static_cast<T>(expression); });                        \
    }
CUDA_CPU_ATOMIC(atomicAdd, old + value)
CUDA_CPU_ATOMIC(atomicSub, old - value)
CUDA_CPU_ATOMIC(atomicMin, value < old ? value : old)
CUDA_CPU_ATOMIC(atomicMax, value > old ? value : old)
CUDA_CPU_ATOMIC(atomicExch, ((void)old, value))
CUDA_CPU_ATOMIC(atomicAnd, old & value)
CUDA_CPU_ATOMIC(atomicOr, old | value)
CUDA_CPU_ATOMIC(atomicXor, old ^ value)
CUDA_CPU_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
CUDA_CPU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CUDA_CPU_ATOMIC

template <class T>
static inline T atomicCAS(T *at, typename cuda_cpu_as<T>::type expected, typename cuda_cpu_as<T>::type value)
{
    return cuda_cpu_atomic(at, [expected, value](T old) { return old == expected ? value : old; });
}

#endif
