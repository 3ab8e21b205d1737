/* conv_kernels.c: how fast the convolution kernels are, against the multiply-add peak measured beside them.
 *
 * Owns:      one table of shapes, run at every tier this machine has, single thread, one warm cell.
 * Relies on: src/kernels only.
 * Build:     cc -std=c11 -O3 -I. -o conv_kernels bench/conv_kernels.c src/kernels/(all).c -lm
 * Run:       conv_kernels [tier name] [cell edge, 64] [text the shape must contain]
 *
 * Each figure is the best of several timings (other work on the machine only ever makes it worse). Winograd
 * is counted with the operations of the direct algorithm, so its share can exceed 100 %.
 */
#define _POSIX_C_SOURCE 200809L
#include "src/kernels/conv.h"
#include "src/kernels/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if BS_HAVE_X86_TIERS
#include <immintrin.h>
#elif BS_HAVE_NEON_TIER
#include <arm_neon.h>
#endif

static double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------------------------------ peak */

static volatile float bench_sink;

#define PEAK_EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define PEAK_EACH_WIDE(M) PEAK_EACH(M) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23)

/* The barrier makes the sums different in the compiler's eyes: equal ones would be computed once. */
#define PEAK_INIT(i)  \
    V a##i = ZERO;    \
    __asm__ volatile("" : CHANGE(a##i));
#define PEAK_STEP(i) a##i = FMA(x, y, a##i);
#define PEAK_KEEP(i) __asm__ volatile("" : CHANGE(a##i));

#define PEAK_LOOP(EACH, COUNT, LANES)                                     \
    EACH(PEAK_INIT)                                                       \
    const double start = bench_now();                                     \
    for (long i = 0; i < rounds; i++) {                                   \
        EACH(PEAK_STEP)                                                   \
    }                                                                     \
    const double seconds = bench_now() - start;                           \
    EACH(PEAK_KEEP)                                                       \
    return (double)rounds * 2 * (COUNT) * (LANES) / seconds * 1e-9;

#if BS_HAVE_X86_TIERS
#define CHANGE(v) "+v"(v)
#define V __m512
#define ZERO _mm512_setzero_ps()
#define FMA(x, y, a) _mm512_fmadd_ps(x, y, a)
__attribute__((target("avx512f"))) static double peak_avx512(long rounds)
{
    const __m512 x = _mm512_set1_ps(bench_sink), y = x;
    PEAK_LOOP(PEAK_EACH_WIDE, 24, 16)
}
#undef V
#undef ZERO
#undef FMA
#undef CHANGE
#define CHANGE(v) "+x"(v)
#define V __m256
#define ZERO _mm256_setzero_ps()
#define FMA(x, y, a) _mm256_fmadd_ps(x, y, a)
__attribute__((target("avx2,fma"))) static double peak_avx2(long rounds)
{
    const __m256 x = _mm256_set1_ps(bench_sink), y = x;
    PEAK_LOOP(PEAK_EACH, 12, 8)
}
#undef V
#undef ZERO
#undef FMA
#define V __m128
#define ZERO _mm_setzero_ps()
#define FMA(x, y, a) _mm_add_ps(_mm_mul_ps(x, y), a)
static double peak_scalar(long rounds)
{
    const __m128 x = _mm_set1_ps(bench_sink);
    __m128 y = x;
#define PEAK_MUL(i) __asm__ volatile("" : "+x"(y)); /* or the product would be computed once */ a##i = FMA(x, y, a##i);
#undef PEAK_STEP
#define PEAK_STEP(i) PEAK_MUL(i)
    PEAK_LOOP(PEAK_EACH, 12, 4)
}
#elif BS_HAVE_NEON_TIER
#define CHANGE(v) "+w"(v)
#define V float32x4_t
#define ZERO vdupq_n_f32(0)
#define FMA(x, y, a) vfmaq_f32(a, x, y)
static double peak_neon(long rounds)
{
    const float32x4_t x = vdupq_n_f32(bench_sink), y = x;
    PEAK_LOOP(PEAK_EACH_WIDE, 24, 4)
}
#endif

static double peak_once(bs_tier tier, long rounds)
{
    switch (tier) {
#if BS_HAVE_X86_TIERS
    case BS_TIER_AVX512: return peak_avx512(rounds);
    case BS_TIER_AVX2: return peak_avx2(rounds);
    case BS_TIER_SCALAR: return peak_scalar(rounds);
#elif BS_HAVE_NEON_TIER
    case BS_TIER_NEON:
    case BS_TIER_SCALAR: return peak_neon(rounds);
#endif
    default: return 0;
    }
}

static double peak_of(bs_tier tier)
{
    double best = 0;
    for (int i = 0; i < 30; i++) {
        const double gflops = peak_once(tier, 200000);
        best = gflops > best ? gflops : best;
    }
    return best;
}

/* ---------------------------------------------------------------------------------------- shapes */

typedef struct bench_shape {
    const char *name;
    bs_conv_geometry geometry;
} bench_shape;

#define SHAPE(text, in, out, k, groups) { text, { in, out, k, k, 1, 1, 1, 1, groups } }
#define STRIDED(text, in, out, k, stride) { text, { in, out, k, k, stride, stride, 1, 1, 1 } }
static const bench_shape bench_shapes[] = {
    SHAPE("3x3 32->32", 32, 32, 3, 1),     SHAPE("3x3 1->32", 1, 32, 3, 1),
    SHAPE("5x5 1->16", 1, 16, 5, 1),       SHAPE("3x3 16->16", 16, 16, 3, 1),
    SHAPE("3x3 12->12", 12, 12, 3, 1),     SHAPE("3x3 32->4", 32, 4, 3, 1),
    SHAPE("3x3 16->4", 16, 4, 3, 1),       SHAPE("3x3 12->4", 12, 4, 3, 1),
    SHAPE("3x3 24->24", 24, 24, 3, 1),     SHAPE("3x3 8->8", 8, 8, 3, 1),
    SHAPE("3x3 8->32", 8, 32, 3, 1),       SHAPE("3x3 8->3", 8, 3, 3, 1),
    SHAPE("3x3 64->64", 64, 64, 3, 1),     SHAPE("1x1 32->32", 32, 32, 1, 1),
    SHAPE("1x1 64->64", 64, 64, 1, 1),     SHAPE("3x3 3->32", 3, 32, 3, 1),
    SHAPE("3x3 32->12", 32, 12, 3, 1),     SHAPE("3x3 128->128", 128, 128, 3, 1),
    SHAPE("3x3 16->64", 16, 64, 3, 1),     SHAPE("3x3 32->128", 32, 128, 3, 1),
    SHAPE("3x3 48->192", 48, 192, 3, 1),   SHAPE("3x3 64->256", 64, 256, 3, 1),
    SHAPE("3x3 96->96", 96, 96, 3, 1),     SHAPE("3x3 64->128", 64, 128, 3, 1),
    SHAPE("3x3 256->256", 256, 256, 3, 1), SHAPE("3x3 512->512", 512, 512, 3, 1),
    SHAPE("1x1 96->64", 96, 64, 1, 1),     SHAPE("1x1 320->128", 320, 128, 1, 1),
    STRIDED("7x7 3->32 stride 2", 3, 32, 7, 2), STRIDED("3x3 32->64 stride 2", 32, 64, 3, 2),
    STRIDED("3x3 64->128 stride 2", 64, 128, 3, 2), STRIDED("3x3 128->128 stride 2", 128, 128, 3, 2),
    STRIDED("3x3 384->384 stride 2", 384, 384, 3, 2),
    SHAPE("3x3 depthwise 32", 32, 32, 3, 32), SHAPE("3x3 32->32 in 4 groups", 32, 32, 3, 4),
};

static float *bench_floats(size_t count)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, (count + 16) * sizeof(float)))
        exit(2);
    float *f = p;
    for (size_t i = 0; i < count; i++)
        f[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    return f;
}

/* GFLOP/s, best of several batches of about a millisecond each. */
static double bench_run(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier, int edge)
{
    if (!bs_conv_supports(g, algorithm, tier))
        return 0;
    const int in_edge = (edge - 1) * g->stride_h + g->kernel_h;
    float *in = bench_floats((size_t)in_edge * (size_t)in_edge * (size_t)g->in_channels);
    float *out = bench_floats((size_t)edge * (size_t)edge * (size_t)g->out_channels);
    float *weights = bench_floats((size_t)(g->kernel_h * g->kernel_w * g->in_channels / g->groups * g->out_channels));
    float *prepared = bench_floats(bs_conv_prepared_floats(g, algorithm, tier));
    float *scratch = bench_floats(bs_conv_scratch_floats(g, algorithm, tier));
    float *bias = bench_floats((size_t)g->out_channels);
    bs_conv_prepare(g, algorithm, tier, weights, prepared);
    const bs_conv_task task = {
        .in = in, .in_row = (ptrdiff_t)in_edge * g->in_channels, .in_pixel = g->in_channels,
        .out = out, .out_row = (ptrdiff_t)edge * g->out_channels, .out_pixel = g->out_channels,
        .out_h = edge, .out_w = edge, .weights = prepared, .bias = bias, .activation = BS_CONV_RELU,
        .scratch = scratch,
    };
    const double flops = 2.0 * edge * edge * g->kernel_h * g->kernel_w * g->in_channels / g->groups * g->out_channels;
    const int batch = 1 + (int)(1e-3 / (flops / 100e9));
    double best = 1e9;
    for (int i = 0; i < 40; i++) {
        const double start = bench_now();
        for (int k = 0; k < batch; k++)
            bs_conv_run(g, algorithm, tier, &task);
        const double seconds = (bench_now() - start) / batch;
        best = seconds < best ? seconds : best;
    }
    free(in), free(out), free(weights), free(prepared), free(scratch), free(bias);
    return flops / best * 1e-9;
}

int main(int argc, char **argv)
{
    static const bs_tier tiers[] = { BS_TIER_SCALAR, BS_TIER_AVX2, BS_TIER_AVX512, BS_TIER_NEON };
    const char *only = argc > 1 ? argv[1] : "";
    const int edge = argc > 2 ? atoi(argv[2]) : 64;
    const char *text = argc > 3 ? argv[3] : "";
    for (size_t t = 0; t < sizeof tiers / sizeof tiers[0]; t++) {
        if (!bs_tier_available(tiers[t]) || !strstr(bs_tier_name(tiers[t]), only))
            continue;
        const double peak = peak_of(tiers[t]);
        printf("tier %s, 1 thread, cell %dx%d, multiply-add peak %.1f GFLOP/s\n", bs_tier_name(tiers[t]), edge, edge,
               peak);
        printf("  %-24s %10s %7s %14s %7s\n", "shape", "direct", "share", "winograd", "share");
        for (size_t s = 0; s < sizeof bench_shapes / sizeof bench_shapes[0]; s++) {
            if (!strstr(bench_shapes[s].name, text))
                continue;
            const double direct = bench_run(&bench_shapes[s].geometry, BS_CONV_DIRECT, tiers[t], edge);
            const double winograd = bench_run(&bench_shapes[s].geometry, BS_CONV_WINOGRAD4, tiers[t], edge);
            printf("  %-24s %10.1f %6.1f%% %14.1f %6.1f%%\n", bench_shapes[s].name, direct, 100 * direct / peak,
                   winograd, 100 * winograd / peak);
        }
    }
    return 0;
}
