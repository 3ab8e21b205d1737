/* cuda_cpu_warp.h - shuffles, votes and reductions of a warp. Relies on warp.cpp, where lanes meet and values change
 * hands out of a sanitizer's sight: these operations order no memory, only __syncwarp does. Must never touch another
 * lane's variables itself. */
#ifndef CUDA_CPU_WARP_H
#define CUDA_CPU_WARP_H

enum cuda_cpu_warp_kind {
    CUDA_CPU_WARP_SYNC,
    CUDA_CPU_WARP_SHUFFLE,
    CUDA_CPU_WARP_BALLOT,
    CUDA_CPU_WARP_MATCH_ANY,
    CUDA_CPU_WARP_MATCH_ALL,
    CUDA_CPU_WARP_ADD,
    CUDA_CPU_WARP_MIN_SIGNED,
    CUDA_CPU_WARP_MIN_UNSIGNED,
    CUDA_CPU_WARP_MAX_SIGNED,
    CUDA_CPU_WARP_MAX_UNSIGNED,
    CUDA_CPU_WARP_AND,
    CUDA_CPU_WARP_OR,
    CUDA_CPU_WARP_XOR,
    CUDA_CPU_WARP_MMA_16816,
    CUDA_CPU_WARP_LDMATRIX_X4,
    CUDA_CPU_WARP_LDMATRIX_X4_TRANS
};

enum cuda_cpu_shuffle_kind {
    CUDA_CPU_SHUFFLE_INDEX,
    CUDA_CPU_SHUFFLE_UP,
    CUDA_CPU_SHUFFLE_DOWN,
    CUDA_CPU_SHUFFLE_XOR
};

#define CUDA_CPU_LANE_WORDS 12 /* the most that a lane gives or gets: a, b and d of the tensor operation give 10 */

/* Every lane of the mask comes with words of its own and leaves with words of its own. */
extern "C" void cuda_cpu_warp(int kind, unsigned mask, const uint32_t *given, unsigned given_words, int source,
                              uint32_t *got, unsigned got_words, const char *file, int line);

template <class T>
static inline T cuda_cpu_shuffle(int kind, const char *file, int line, unsigned mask, T value, int argument,
                                 int width = 32)
{
    const unsigned words = (sizeof(T) + 3) / 4;
    static_assert(words <= CUDA_CPU_LANE_WORDS, "too large to shuffle");
    uint32_t given[words] = {0}, got[words];
    const int lane = static_cast<int>(cuda_cpu_self->lane), first = lane & ~(width - 1), end = first + width;
    int source = lane;
    if (kind == CUDA_CPU_SHUFFLE_INDEX)
        source = first + (argument & (width - 1));
    else if (kind == CUDA_CPU_SHUFFLE_UP)
        source = lane - argument >= first ? lane - argument : lane;
    else if (kind == CUDA_CPU_SHUFFLE_DOWN)
        source = lane + argument < end ? lane + argument : lane;
    else
        source = (lane ^ argument) < end ? lane ^ argument : lane;
    memcpy(given, static_cast<const void *>(&value), sizeof value);
    cuda_cpu_warp(CUDA_CPU_WARP_SHUFFLE, mask, given, words, source, got, words, file, line);
    memcpy(static_cast<void *>(&value), got, sizeof value);
    return value;
}

static inline unsigned cuda_cpu_vote(int kind, unsigned mask, const uint32_t *given, unsigned words, const char *file,
                                     int line)
{
    uint32_t got = 0;
    cuda_cpu_warp(kind, mask, given, words, 0, &got, 1, file, line);
    return got;
}

static inline unsigned cuda_cpu_ballot(unsigned mask, bool predicate, const char *file, int line)
{
    const uint32_t given = predicate;
    return cuda_cpu_vote(CUDA_CPU_WARP_BALLOT, mask, &given, 1, file, line);
}

static inline int cuda_cpu_all(unsigned mask, bool predicate, const char *file, int line)
{
    return cuda_cpu_ballot(mask, !predicate, file, line) == 0;
}

template <class T> static inline unsigned cuda_cpu_match(int kind, unsigned mask, T value, const char *file, int line)
{
    uint32_t given[2] = {0, 0};
    static_assert(sizeof value <= sizeof given, "too large to match");
    memcpy(given, &value, sizeof value);
    return cuda_cpu_vote(kind, mask, given, 2, file, line);
}

template <class T>
static inline unsigned cuda_cpu_match_all(unsigned mask, T value, int *all, const char *file, int line)
{
    const unsigned same = cuda_cpu_match(CUDA_CPU_WARP_MATCH_ALL, mask, value, file, line);
    *all = same != 0;
    return same;
}

template <class T>
static inline T cuda_cpu_reduce(int for_signed, int for_unsigned, unsigned mask, T value, const char *file, int line)
{
    static_assert(sizeof value == 4 && std::is_integral<T>::value, "32-bit integers reduce");
    const uint32_t given = static_cast<uint32_t>(value);
    const int kind = std::is_signed<T>::value ? for_signed : for_unsigned;
    return static_cast<T>(cuda_cpu_vote(kind, mask, &given, 1, file, line));
}

/* A value that is called, so that the mask can be left out without a macro of C++20. */
struct cuda_cpu_syncwarp {
    const char *file;
    int line;
    void operator()(unsigned mask = 0xffffffffu) const
    {
        uint32_t unused = 0;
        cuda_cpu_warp(CUDA_CPU_WARP_SYNC, mask, &unused, 0, 0, &unused, 0, file, line);
    }
};

#define __syncwarp(...) (cuda_cpu_syncwarp{__FILE__, __LINE__}(__VA_ARGS__))
/* The own lane only: a legal answer, and the harshest. */
#define __activemask() (1u << cuda_cpu_self->lane)

#define __shfl_sync(...)      cuda_cpu_shuffle(CUDA_CPU_SHUFFLE_INDEX, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...)   cuda_cpu_shuffle(CUDA_CPU_SHUFFLE_UP, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) cuda_cpu_shuffle(CUDA_CPU_SHUFFLE_DOWN, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...)  cuda_cpu_shuffle(CUDA_CPU_SHUFFLE_XOR, __FILE__, __LINE__, __VA_ARGS__)

#define __ballot_sync(m, p)    cuda_cpu_ballot(m, (p) ? true : false, __FILE__, __LINE__)
#define __any_sync(m, p)       (cuda_cpu_ballot(m, (p) ? true : false, __FILE__, __LINE__) != 0)
#define __all_sync(m, p)       cuda_cpu_all(m, (p) ? true : false, __FILE__, __LINE__)
#define __match_any_sync(m, v) cuda_cpu_match(CUDA_CPU_WARP_MATCH_ANY, m, v, __FILE__, __LINE__)
#define __match_all_sync(m, v, p) cuda_cpu_match_all(m, v, p, __FILE__, __LINE__)

#define __reduce_add_sync(m, v)                                                                                        \
    cuda_cpu_reduce(CUDA_CPU_WARP_ADD, CUDA_CPU_WARP_ADD, m, v, __FILE__, __LINE__)
#define __reduce_min_sync(m, v)                                                                                        \
    cuda_cpu_reduce(CUDA_CPU_WARP_MIN_SIGNED, CUDA_CPU_WARP_MIN_UNSIGNED, m, v, __FILE__, __LINE__)
#define __reduce_max_sync(m, v)                                                                                        \
    cuda_cpu_reduce(CUDA_CPU_WARP_MAX_SIGNED, CUDA_CPU_WARP_MAX_UNSIGNED, m, v, __FILE__, __LINE__)
#define __reduce_and_sync(m, v)                                                                                        \
    cuda_cpu_reduce(CUDA_CPU_WARP_AND, CUDA_CPU_WARP_AND, m, v, __FILE__, __LINE__)
#define __reduce_or_sync(m, v)                                                                                         \
    cuda_cpu_reduce(CUDA_CPU_WARP_OR, CUDA_CPU_WARP_OR, m, v, __FILE__, __LINE__)
#define __reduce_xor_sync(m, v)                                                                                        \
    cuda_cpu_reduce(CUDA_CPU_WARP_XOR, CUDA_CPU_WARP_XOR, m, v, __FILE__, __LINE__)

#endif
