/* peak.c: see peak.h. */
#define _POSIX_C_SOURCE 200809L
#include "peak.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { REPEATS = 60, ROUNDS = 100000 };

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double peak_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double peak_cpu_seconds(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* One loop of independent sums, more of them than latency times issue width. The barriers keep the compiler from
 * computing equal sums once, or none at all. */
static volatile float one = 1;

#define EACH12(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define EACH24(M) EACH12(M) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23)

#define PEAK_LOOP(EACH, SUMS, LANES, TYPE, HELD)                        \
    EACH(PEAK_DECLARE_##HELD##_##TYPE)                                  \
    const double since = peak_cpu_seconds();                           \
    for (int i = 0; i < ROUNDS; i++) {                                  \
        EACH(PEAK_STEP_##TYPE)                                          \
    }                                                                   \
    const double seconds = peak_cpu_seconds() - since;                 \
    EACH(PEAK_KEEP_##HELD)                                              \
    return 2e-9 * ROUNDS * (SUMS) * (LANES) / seconds;

#define PEAK_KEEP_v(i) __asm__ volatile("" : "+v"(a##i));
#define PEAK_KEEP_x(i) __asm__ volatile("" : "+x"(a##i));
#define PEAK_KEEP_w(i) __asm__ volatile("" : "+w"(a##i));

#if defined(__x86_64__)
#define PEAK_DECLARE_v___m512(i) __m512 a##i = _mm512_setzero_ps(); PEAK_KEEP_v(i)
#define PEAK_STEP___m512(i) a##i = _mm512_fmadd_ps(x, x, a##i);
__attribute__((target("avx512f"))) static double avx512_once(void)
{
    const __m512 x = _mm512_set1_ps(one);
    PEAK_LOOP(EACH24, 24, 16, __m512, v)
}

#define PEAK_DECLARE_x___m256(i) __m256 a##i = _mm256_setzero_ps(); PEAK_KEEP_x(i)
#define PEAK_STEP___m256(i) a##i = _mm256_fmadd_ps(x, x, a##i);
__attribute__((target("avx2,fma"))) static double avx2_once(void)
{
    const __m256 x = _mm256_set1_ps(one);
    PEAK_LOOP(EACH12, 12, 8, __m256, x)
}

/* The baseline has no fused multiply-add: a product, hidden from the compiler each time, and a sum. */
#define PEAK_DECLARE_x___m128(i) __m128 a##i = _mm_setzero_ps(); PEAK_KEEP_x(i)
#define PEAK_STEP___m128(i) __asm__ volatile("" : "+x"(x)); a##i = _mm_add_ps(a##i, _mm_mul_ps(x, x));
static double scalar_once(void)
{
    __m128 x = _mm_set1_ps(one);
    PEAK_LOOP(EACH12, 12, 4, __m128, x)
}
#elif defined(__aarch64__)
#define PEAK_DECLARE_w_float32x4_t(i) float32x4_t a##i = vdupq_n_f32(0); PEAK_KEEP_w(i)
#define PEAK_STEP_float32x4_t(i) a##i = vfmaq_f32(a##i, x, x);
static double neon_once(void)
{
    const float32x4_t x = vdupq_n_f32(one);
    PEAK_LOOP(EACH24, 24, 4, float32x4_t, w)
}
#endif

static double peak_once(bs_tier tier)
{
    switch (tier) {
#if defined(__x86_64__)
    case BS_TIER_AVX512: return avx512_once();
    case BS_TIER_AVX2: return avx2_once();
    case BS_TIER_SCALAR: return scalar_once();
#elif defined(__aarch64__)
    case BS_TIER_NEON:
    case BS_TIER_SCALAR: return neon_once();
#endif
    default: return 0;
    }
}

double peak_gflops(bs_tier tier)
{
    double best = 0;
    const bs_tier asked = tier == BS_TIER_AUTO ? bs_tier_best() : tier;
    for (int i = 0; bs_tier_available(asked) && i < REPEATS; i++) {
        const double now = peak_once(asked);
        best = now > best ? now : best;
    }
    return best;
}

/* Sums, that nothing be left out; four of them, that none waits for another. */
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void avx512_read(const float *from, size_t count)
{
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (size_t i = 0; i + 64 <= count; i += 64) {
        a0 = _mm512_add_ps(a0, _mm512_loadu_ps(from + i));
        a1 = _mm512_add_ps(a1, _mm512_loadu_ps(from + i + 16));
        a2 = _mm512_add_ps(a2, _mm512_loadu_ps(from + i + 32));
        a3 = _mm512_add_ps(a3, _mm512_loadu_ps(from + i + 48));
    }
    a0 = _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3));
    PEAK_KEEP_v(0)
}

__attribute__((target("avx2"))) static void avx2_read(const float *from, size_t count)
{
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (size_t i = 0; i + 32 <= count; i += 32) {
        a0 = _mm256_add_ps(a0, _mm256_loadu_ps(from + i));
        a1 = _mm256_add_ps(a1, _mm256_loadu_ps(from + i + 8));
        a2 = _mm256_add_ps(a2, _mm256_loadu_ps(from + i + 16));
        a3 = _mm256_add_ps(a3, _mm256_loadu_ps(from + i + 24));
    }
    a0 = _mm256_add_ps(_mm256_add_ps(a0, a1), _mm256_add_ps(a2, a3));
    PEAK_KEEP_x(0)
}
#endif

static void plain_read(const float *from, size_t count)
{
    float sum[8] = {0};
    for (size_t i = 0; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] += from[i + k];
    __asm__ volatile("" : : "r"(sum) : "memory");
}

double peak_read_gbs(size_t bytes)
{
    void (*once)(const float *, size_t) = plain_read;
#if defined(__x86_64__)
    once = bs_tier_available(BS_TIER_AVX512) ? avx512_read : bs_tier_available(BS_TIER_AVX2) ? avx2_read : plain_read;
#endif
    float *from = malloc(bytes);
    double best = 0;
    const int turns = 1 + (int)((size_t)(4 << 20) / bytes);
    for (int i = 0; from && i < REPEATS / 2; i++) {
        memset(from, 0, i == 0 ? bytes : 0);
        const double since = peak_cpu_seconds();
        for (int k = 0; k < turns; k++)
            once(from, bytes / sizeof *from);
        const double now = 1e-9 * (double)bytes * turns / (peak_cpu_seconds() - since);
        best = now > best ? now : best;
    }
    free(from);
    return best;
}

double peak_copy_gbs(size_t bytes)
{
    uint8_t *from = malloc(bytes), *to = malloc(bytes);
    double best = 0;
    const int turns = 1 + (int)((size_t)(4 << 20) / bytes);
    for (int i = 0; from && to && i < REPEATS; i++) {
        memset(from, i + 1, bytes);
        memcpy(to, from, bytes);
        const double since = peak_cpu_seconds();
        for (int k = 0; k < turns; k++) {
            memcpy(to, from, bytes);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        const double now = 2e-9 * (double)bytes * turns / (peak_cpu_seconds() - since);
        best = now > best ? now : best;
    }
    free(from);
    free(to);
    return best;
}
