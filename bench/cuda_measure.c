/* cuda_measure.c: rounds in which the arms of a network take turns; what the GPU could do at best beside them. */
#include "cuda_bench.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT_BYTES = 256 << 20, CHOOSE_RUNS = 20, MOST_RUNS = 200 };
#define ROUND_SECONDS 5e-3

typedef struct limits {
    double gflops, tensor_gflops, copy_gbs, read_gbs;
} limits;

typedef struct timing {
    double queued_ms, alone_ms, low_ms, high_ms; /* low, high: quartiles of queued */
    double error;
    int32_t runs;
    bool ran;
} timing;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static limits limits_now(void *stream)
{
    return (limits){bench_gpu_gflops(stream, 0), bench_gpu_gflops(stream, 1), bench_gpu_copy_gbs(stream, LIMIT_BYTES),
                    bench_gpu_read_gbs(stream, LIMIT_BYTES)};
}

/* ------------------------------------------------------------------------------------------------------- results */

/* Runs the arm once and compares with the CPU. */
static bool compare(cuda_line *line, int32_t i, timing *t)
{
    const bs_buffer *out = &line->net.output;
    void *mine = malloc((size_t)cuda_net_elements(out) * bs_dtype_bytes(out->dtype));
    bool ok = mine && line->errors[i].status == BS_OK && cuda_arm_seconds(&line->arms[i], 1, &line->errors[i]) >= 0;
    if (ok && !cuda_arm_result(&line->arms[i], mine)) {
        line->errors[i].status = BS_ERROR_PLATFORM;
        strcpy(line->errors[i].message, "the result cannot be copied back");
        ok = false;
    }
    if (ok)
        t->error = cuda_distance(out, mine, line->reference);
    t->ran = ok;
    free(mine);
    return ok;
}

static bool is_right(const cuda_line *line, int32_t i, const timing *t)
{
    return t->ran && t->error <= (line->arms[i].half ? line->of->half_tolerance : line->of->tolerance);
}

/* --------------------------------------------------------------------------------------------------------- times */

static bool time_rounds(cuda_line *line, timing *timings, const cuda_options *o)
{
    static double queued[CUDA_MAX_ARMS][CUDA_MAX_ROUNDS], alone[CUDA_MAX_ARMS][CUDA_MAX_ROUNDS];
    for (int32_t i = 0; i < line->n_arms; i++) {
        if (!timings[i].ran)
            continue;
        cuda_arm_seconds(&line->arms[i], 3, &line->errors[i]); /* graphs are captured, clocks rise */
        const double once = cuda_arm_seconds(&line->arms[i], 3, &line->errors[i]);
        const double runs = ROUND_SECONDS / (once > 1e-7 ? once : 1e-7);
        timings[i].runs = runs > MOST_RUNS ? MOST_RUNS : runs < 1 ? 1 : (int32_t)runs;
    }
    for (int32_t r = 0; r < o->rounds; r++)
        for (int32_t i = 0; i < line->n_arms; i++) {
            if (!timings[i].ran)
                continue;
            queued[i][r] = cuda_arm_seconds(&line->arms[i], timings[i].runs, &line->errors[i]);
            alone[i][r] = cuda_arm_seconds(&line->arms[i], 1, &line->errors[i]);
            if (queued[i][r] < 0 || alone[i][r] < 0)
                return false;
        }
    for (int32_t i = 0; i < line->n_arms; i++) {
        qsort(queued[i], (size_t)o->rounds, sizeof queued[i][0], by_size);
        qsort(alone[i], (size_t)o->rounds, sizeof alone[i][0], by_size);
        timings[i].queued_ms = 1e3 * queued[i][o->rounds / 2];
        timings[i].low_ms = 1e3 * queued[i][o->rounds / 4];
        timings[i].high_ms = 1e3 * queued[i][o->rounds - 1 - o->rounds / 4];
        timings[i].alone_ms = 1e3 * alone[i][o->rounds / 2];
    }
    return true;
}

static double bytes_of(const cuda_line *line, int32_t i)
{
    return line->net.io_bytes + line->net.weight_bytes * (line->arms[i].half ? 0.5 : 1);
}

/* The shortest time that the measured limits allow: arithmetic or memory, whichever takes longer. */
static double limit_ms(const cuda_line *line, int32_t i, const limits *l)
{
    const bool half = line->arms[i].half && l->tensor_gflops > 0;
    const double compute = line->net.flops / (half ? l->tensor_gflops : l->gflops);
    const double memory = line->net.io_bytes / l->copy_gbs +
                          line->net.weight_bytes * (line->arms[i].half ? 0.5 : 1) / l->read_gbs;
    return 1e-6 * (compute > memory ? compute : memory);
}

/* ------------------------------------------------------------------------------------------------------- printing */

static void print_arm(const cuda_line *line, int32_t i, const timing *t, const limits *l, const cuda_options *o)
{
    const char *verdict = is_right(line, i, t) ? "" : "  WRONG";
    if (!t->ran)
        printf("  %-28s %s\n", line->arms[i].name, line->errors[i].message);
    else if (!o->timed)
        printf("  %-28s %10.2g%s\n", line->arms[i].name, t->error, verdict);
    else
        printf("  %-28s %9.4f %9.4f %9.1f %9.1f %7.1f %% %10.2g%s\n", line->arms[i].name, t->queued_ms, t->alone_ms,
               1e-6 * line->net.flops / t->queued_ms, 1e-6 * bytes_of(line, i) / t->queued_ms,
               100 * limit_ms(line, i, l) / t->queued_ms, t->error, verdict);
    fflush(stdout);
}

static void json_arm(const cuda_line *line, int32_t i, const timing *t, const limits *l, const cuda_options *o)
{
    static bool follows;
    if (!o->json || !t->ran)
        return;
    fprintf(o->json, "%s\n  {\"what\": \"%s\", \"error\": %.4g, \"right\": %s, \"flops\": %.6g, \"bytes\": %.6g",
            follows ? "," : "", line->arms[i].name, t->error, is_right(line, i, t) ? "true" : "false", line->net.flops,
            bytes_of(line, i));
    if (o->timed)
        fprintf(
            o->json,
            ", \"ms\": %.6g, \"low_ms\": %.6g, \"high_ms\": %.6g, \"alone_ms\": %.6g, \"rounds\": %d, \"runs\": %d, "
            "\"of_limit\": %.4g, "
            "\"limits\": {\"gflops\": %.5g, \"tensor_gflops\": %.5g, \"copy_gbs\": %.5g, \"read_gbs\": %.5g}",
            t->queued_ms, t->low_ms, t->high_ms, t->alone_ms, (int)o->rounds, (int)t->runs,
            limit_ms(line, i, l) / t->queued_ms, l->gflops, l->tensor_gflops, l->copy_gbs, l->read_gbs);
    fprintf(o->json, "}");
    follows = true;
}

/* Every launch mode of the arm, by the library's own choice; the results must stay what they are. */
static bool choose(cuda_line *line, int32_t i, timing *t, const cuda_options *o)
{
    uint64_t ns[BS_LAUNCH_COUNT];
    bs_launch_mode best;
    if (bs_cuda_choose(line->arms[i].parts[0].session, o->timed ? CHOOSE_RUNS : 1, &best, ns, &line->errors[i]) !=
        BS_OK) {
        printf("  %-28s %s\n", line->arms[i].name, line->errors[i].message);
        return false;
    }
    if (o->timed) {
        printf("  %-28s", "  launch modes, ms a run:");
        for (int32_t k = 0; k < BS_LAUNCH_COUNT; k++)
            if (ns[k])
                printf(" %s%s %.4f", bs_launch_mode_name((bs_launch_mode)k), k == (int32_t)best ? "*" : "",
                       1e-6 * (double)ns[k]);
        printf("\n");
    }
    return compare(line, i, t) && is_right(line, i, t);
}

static bool measure_open(cuda_line *line, const cuda_options *o)
{
    timing timings[CUDA_MAX_ARMS];
    memset(timings, 0, sizeof timings);
    const limits l = o->timed ? limits_now(o->stream) : (limits){0};
    bool ok = true;
    for (int32_t i = 0; i < line->n_arms; i++)
        compare(line, i, &timings[i]);
    if (o->timed && !time_rounds(line, timings, o))
        printf("  %s: a run failed\n", line->of->name);
    if (o->timed)
        printf(
            "%s: %.3g GFLOP, %.3g MB a run in f32; measured limits %.0f GFLOP/s, tensor %.0f GFLOP/s, copy %.0f GB/s, "
            "read %.0f GB/s\n",
            line->of->name, 1e-9 * line->net.flops, 1e-6 * (line->net.io_bytes + line->net.weight_bytes), l.gflops,
            l.tensor_gflops, l.copy_gbs, l.read_gbs);
    for (int32_t i = 0; i < line->n_arms; i++) {
        print_arm(line, i, &timings[i], &l, o);
        json_arm(line, i, &timings[i], &l, o);
        ok = ok && is_right(line, i, &timings[i]);
        if ((line->of->forms & FORM_CHOOSE) && timings[i].ran && line->arms[i].n_parts == 1 &&
            !choose(line, i, &timings[i], o))
            ok = false;
    }
    return ok;
}

bool cuda_measure(const cuda_case *of, const cuda_options *o)
{
    static cuda_line line;
    bool ok = cuda_line_open(&line, of, o->tiny, NULL, o->stream) && cuda_line_refer(&line);
    if (!ok)
        printf("  %-28s %s\n", of->name, line.net.error.message);
    else
        ok = measure_open(&line, o);
    cuda_line_close(&line);
    return ok;
}
