/* elementwise_kernels.c: what the loops around a network cost, in nanoseconds an input pixel of one warm cell.
 *
 * Owns:      one line for each loop of kernels/elementwise.h, at every tier this machine has, single thread.
 * Relies on: src/kernels only.
 * Run:       elementwise_kernels [tier name]
 *
 * Best of many: other work on the machine only ever makes a timing worse.
 */
#define _POSIX_C_SOURCE 200809L
#include "src/kernels/elementwise.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { EDGE = 64, MARGIN = 2, ROW = EDGE + 2 * MARGIN, ORIGIN = MARGIN * ROW + MARGIN, BATCH = 20, BATCHES = 60 };

static uint8_t a8[ROW * ROW], b8[ROW * ROW], out8[4 * EDGE * EDGE];
static uint16_t a16[ROW * ROW], b16[ROW * ROW], out16[4 * EDGE * EDGE];
static float f32[ROW * ROW], tail[4 * EDGE * EDGE], base[4 * EDGE * EDGE], out32[4 * EDGE * EDGE];
static volatile uint64_t bench_sink;

static double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define BENCH(name, work)                                            \
    {                                                                \
        double best = 1e9;                                           \
        for (int batch = 0; batch < BATCHES; batch++) {              \
            const double start = bench_now();                        \
            for (int i = 0; i < BATCH; i++) {                        \
                work;                                                \
            }                                                        \
            const double seconds = (bench_now() - start) / BATCH;    \
            best = seconds < best ? seconds : best;                  \
        }                                                            \
        printf("  %-28s %6.3f\n", name, best * 1e9 / (EDGE * EDGE)); \
    }
#define ROWS(work)                     \
    for (int y = 0; y < EDGE; y++) {   \
        const int at = ORIGIN + y * ROW; \
        work;                          \
    }

static void bench_tier(bs_tier tier)
{
    const bs_margins margins = { MARGIN, MARGIN, MARGIN, MARGIN };
    const bs_sr_store sr8 = { tail, 4 * EDGE, 4, base, 2 * EDGE, out8, 2 * EDGE, EDGE, EDGE, 255.0f, 0 };
    const bs_sr_store sr16 = { tail, 4 * EDGE, 4, base, 2 * EDGE, out16, 2 * EDGE, EDGE, EDGE, 1023.0f, 1023 };
    const bs_bicubic2x up8 = { a8 + ORIGIN, ROW, out8, 2 * EDGE, EDGE, EDGE, margins, 0 };
    const bs_bicubic2x up16 = { a16 + ORIGIN, ROW, out16, 2 * EDGE, EDGE, EDGE, margins, 1023 };
    const bs_bicubic2x up32 = { f32 + ORIGIN, ROW, out32, 2 * EDGE, EDGE, EDGE, margins, 0 };
    const bs_codes from8 = { a8 + ORIGIN, ROW, 1, false, 0 }, to8 = { b8 + ORIGIN, ROW, 1, false, 0 };
    const bs_codes from16 = { a16 + ORIGIN, ROW, 1, true, 2 }, to16 = { b16 + ORIGIN, ROW, 1, true, 2 };
    printf("tier %s, 1 thread, cell %dx%d, ns an input pixel\n", bs_tier_name(tier), EDGE, EDGE);
    BENCH("u8 to f32", ROWS(bs_row_u8_to_f32(tier, a8 + at, f32 + at, EDGE, 1.0f / 255.0f)))
    BENCH("u16 to f32", ROWS(bs_row_u16_to_f32(tier, a16 + at, f32 + at, EDGE, 1.0f / 1023.0f)))
    BENCH("f32 to u8", ROWS(bs_row_f32_to_u8(tier, f32 + at, out8 + y * EDGE, EDGE, 255.0f)))
    BENCH("f32 to u16", ROWS(bs_row_f32_to_u16(tier, f32 + at, out16 + y * EDGE, EDGE, 1023.0f, 1023)))
    BENCH("store x2 u8", bs_sr_store_u8(tier, &sr8))
    BENCH("store x2 u16", bs_sr_store_u16(tier, &sr16))
    BENCH("bicubic x2 u8", bs_bicubic2x_u8(tier, &up8))
    BENCH("bicubic x2 u16, 10 bit", bs_bicubic2x_u16(tier, &up16))
    BENCH("bicubic x2 f32", bs_bicubic2x_f32(tier, &up32))
    BENCH("energy u8", bench_sink = bs_laplacian_energy(tier, &from8, EDGE, EDGE))
    BENCH("energy u16", bench_sink = bs_laplacian_energy(tier, &from16, EDGE, EDGE))
    BENCH("change u8", bench_sink = bs_squared_change(tier, &from8, &to8, EDGE, EDGE))
    BENCH("change u16", bench_sink = bs_squared_change(tier, &from16, &to16, EDGE, EDGE))
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    for (uint32_t i = 0; i < ROW * ROW; i++) {
        a8[i] = (uint8_t)(i * 2654435761u >> 24);
        b8[i] = (uint8_t)(i * 2246822519u >> 24);
        a16[i] = (uint16_t)(a8[i] * 4);
        b16[i] = (uint16_t)(b8[i] * 4);
        f32[i] = (float)a8[i] / 255.0f;
    }
    for (uint32_t i = 0; i < 4 * EDGE * EDGE; i++) {
        tail[i] = (float)(i % 101) / 400.0f - 0.125f;
        base[i] = (float)(i % 97) / 97.0f;
    }
    for (int i = BS_TIER_SCALAR; i <= BS_TIER_NEON; i++)
        if (bs_tier_available((bs_tier)i) && strstr(bs_tier_name((bs_tier)i), only))
            bench_tier((bs_tier)i);
    return 0;
}
