/* tags: asan */
/* test_cuda_nets.c - the networks of the GPU benchmark (bench/cuda_nets.h), small, on the device against the CPU; how
 * many kernels they take; and how the exact shapes are planned, which needs no device.
 *
 * Counting needs the emulation; the rest runs on a GPU as well. */
#include "bench/cuda_arm.h"
#include "check.h"
#include "plan/device.h"

#include <stdlib.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

static void *reference_of(const cuda_net *net)
{
    cuda_part cpu;
    bs_error error = {0};
    const bs_buffer *out = &net->output;
    void *result = malloc((size_t)cuda_net_elements(out) * bs_dtype_bytes(out->dtype));
    const bs_plan_desc desc = {.tier = BS_TIER_SCALAR, .conv = BS_CONV_FORCE_REFERENCE};
    check(result && cuda_part_open(&cpu, net, &desc, BENCH_HOST, NULL, &error) && cuda_part_run(&cpu, &error) &&
              cuda_part_result(&cpu, result),
          "%s: the CPU: %s", net->name, error.message);
    cuda_part_close(&cpu);
    return result;
}

/* Runs an opened arm twice and compares. */
static void arm_agrees(cuda_arm *arm, const void *reference, const char *how, bs_error *error)
{
    const bs_buffer *out = &arm->net->output;
    void *mine = malloc((size_t)cuda_net_elements(out) * bs_dtype_bytes(out->dtype));
    if (check(mine && cuda_arm_seconds(arm, 2, error) >= 0 && cuda_arm_result(arm, mine), "%s, %s: %s", arm->net->name,
              how, error->message)) {
        const double distance = cuda_distance(out, mine, reference);
        check(distance <= (arm->half ? 2e-3 : 1e-5), "%s, %s: distance %.3g", arm->net->name, how, distance);
    }
    free(mine);
}

typedef struct seen {
    int64_t kernels; /* of a run, one by one; 0: not counted here */
    int32_t regions, parts;
} seen;

static int64_t kernels_of(cuda_arm *arm, bs_error *error)
{
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts counts;
    cuda_cpu_counts_reset();
    check(cuda_arm_seconds(arm, 1, error) >= 0, "%s: %s", arm->net->name, error->message);
    cuda_cpu_counts_get(&counts);
    return counts.kernels;
#else
    (void)arm, (void)error;
    return 0;
#endif
}

static seen agrees(const cuda_net *net, const bs_plan_desc *how, const void *reference)
{
    cuda_arm arm;
    bs_error error = {0};
    seen is = {0};
    char text[64];
    snprintf(text, sizeof text, "order %d, half %d, launch mode %d", (int)how->order, (int)how->half,
             (int)how->launch_mode);
    if (check(cuda_arm_open(&arm, net, how, BENCH_GPU, NULL, &error), "%s, %s: %s", net->name, text, error.message)) {
        arm_agrees(&arm, reference, text, &error);
        is = (seen){kernels_of(&arm, &error), arm.parts[0].plan->n_regions, arm.parts[0].plan->n_parts};
    }
    cuda_arm_close(&arm);
    return is;
}

/* Every order and type; where no tile is too large the default is in tiles. */
static void agrees_always(const cuda_net *net)
{
    void *reference = reference_of(net);
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t half = 0; half < 2; half++)
            agrees(net, &(bs_plan_desc){.tier = BS_TIER_CUDA, .order = order, .half = half}, reference);
    for (int32_t launch_mode = BS_LAUNCH_STREAM; launch_mode < BS_LAUNCH_COUNT; launch_mode++)
        agrees(net, &(bs_plan_desc){.tier = BS_TIER_CUDA, .launch_mode = launch_mode}, reference);
    free(reference);
}

/* ------------------------------------------------------------------------------------------------------- LiveSR */

static void test_livesr_parts(void)
{
    cuda_net net;
    for (int32_t part = CUDA_LIVESR_ALL; part <= CUDA_LIVESR_TAIL; part++) {
        const cuda_livesr_desc d = {3, 8, 2, 7, 8, part};
        if (check(cuda_net_livesr(&net, &d), "%s", net.error.message))
            agrees_always(&net);
        cuda_net_close(&net);
    }
}

/* Cells that fit into shared memory: all subnets in one launch, however many and however deep; else one for each layer,
 * of all subnets at once. */
static void test_livesr_launches(void)
{
    seen deep[2][2], flat[2][2]; /* [subnets][residual blocks] */
    for (int32_t i = 0; i < 4; i++) {
        cuda_net net;
        const cuda_livesr_desc d = {i & 1 ? 5 : 2, 8, i & 2 ? 6 : 2, 9, 8, CUDA_LIVESR_ALL};
        if (!check(cuda_net_livesr(&net, &d), "%s", net.error.message))
            return;
        void *reference = reference_of(&net);
        bs_plan_desc how = {.tier = BS_TIER_CUDA, .half = 1, .launch_mode = BS_LAUNCH_STREAM};
        deep[i & 1][i >> 1] = agrees(&net, &how, reference);
        how.order = BS_ORDER_BREADTH;
        flat[i & 1][i >> 1] = agrees(&net, &how, reference);
        check(deep[i & 1][i >> 1].regions > 0 && deep[i & 1][i >> 1].parts >= d.subnets,
              "small cells run in tiles: %d regions", deep[i & 1][i >> 1].regions);
        check(flat[i & 1][i >> 1].regions == 0, "no tiles when it is asked for");
        free(reference);
        cuda_net_close(&net);
    }
#ifdef BS_CUDA_CPU
    printf(
        "LiveSR, kernels a run: tiles %d, %d with 4 more residual blocks, %d with 3 more subnets; layer by layer %d, "
        "%d, %d\n",
        (int)deep[0][0].kernels, (int)deep[0][1].kernels, (int)deep[1][0].kernels, (int)flat[0][0].kernels,
        (int)flat[0][1].kernels, (int)flat[1][0].kernels);
    check(deep[0][0].kernels == deep[0][1].kernels, "depth adds no launch to tiles");
    check(deep[0][0].kernels == deep[1][0].kernels, "subnets add no launch to tiles");
    check(flat[0][0].kernels == flat[1][0].kernels, "subnets add no launch to layers");
    check(flat[0][1].kernels > flat[0][0].kernels, "layers are launches");
#endif
}

/* The bytes of a tile in the original's shapes, where shared memory has so many KiB; 0: layer by layer. */
static uint64_t exact_tile(int32_t channels, int32_t half, int32_t part, int32_t kib)
{
    cuda_net net;
    bs_arena arena;
    bs_error error = {0};
    uint64_t bytes = 0;
    const cuda_livesr_desc d = {10, channels, 80, 88, 32, part};
    const bs_plan_desc how = {.tier = BS_TIER_CUDA, .half = half, .shared_bytes = kib << 10};
    if (!check(cuda_net_livesr(&net, &d), "%s", net.error.message))
        return 0;
    const size_t room = bs_plan_bytes(net.graph, &how) + BS_ALIGNMENT;
    void *memory = malloc(room);
    bs_arena_init(&arena, "plan", memory, memory ? room : 0);
    const bs_plan *plan = bs_plan_create(&arena, NULL, net.graph, &how, &error);
    check(plan != NULL, "%s: %s", net.name, error.message);
    for (int32_t i = 0; plan && i < plan->n_parts; i++)
        bytes = bs_bytes_figure(bs_bytes_max(plan->parts[i].scratch_bytes, bs_bytes_of(bytes)));
    free(memory);
    cuda_net_close(&net);
    return bytes;
}

/* 99 KiB a block have GPUs of compute capability 8.6 and 8.9, 163 those of 8.0 and 8.7, 227 those of 9.0. */
static void test_livesr_exact(void)
{
    const uint64_t body = exact_tile(8, 1, CUDA_LIVESR_BODY, 99), large = exact_tile(8, 0, CUDA_LIVESR_BODY, 227);
    printf("LiveSR 10/8, bytes of a tile: body %llu in half, %llu in f32; all %llu in half\n", (unsigned long long)body,
           (unsigned long long)large, (unsigned long long)exact_tile(8, 1, CUDA_LIVESR_ALL, 1024));
    check(body > 0 && body <= (99 << 10) - BS_DEVICE_SHARED, "the body of LiveSR 10/8 in half lies in 99 KiB");
    check(large > 0, "in f32 in 227 KiB");
}

/* ------------------------------------------------------------------------------------------------------ experts */

static void test_experts(void)
{
    for (int32_t skew = 0; skew < 2; skew++) {
        cuda_net net;
        const cuda_moe_desc d = {6, 11, 40, 72, skew};
        if (check(cuda_net_moe(&net, &d), "%s", net.error.message))
            agrees_always(&net);
        cuda_net_close(&net);
    }
}

static void test_experts_serial(void)
{
    cuda_net net;
    const cuda_moe_desc d = {6, 11, 40, 72, 1};
    if (!check(cuda_net_moe(&net, &d), "%s", net.error.message))
        return;
    void *reference = reference_of(&net), *stream = bench_gpu_stream();
    for (int32_t half = 0; half < 2; half++) {
        cuda_arm arm;
        bs_error error = {0};
        if (check(cuda_arm_open_serial(&arm, &net, &d, &(bs_plan_desc){.tier = BS_TIER_CUDA, .half = half}, stream,
                                       &error),
                  "%s", error.message))
            arm_agrees(&arm, reference, "one expert after the other", &error);
        cuda_arm_close(&arm);
    }
    bench_gpu_stream_end(stream);
    free(reference);
    cuda_net_close(&net);
}

/* Experts are computed together: more of them take no more launches. */
static void test_experts_launches(void)
{
    int64_t kernels[2];
    for (int32_t i = 0; i < 2; i++) {
        cuda_net net;
        const cuda_moe_desc d = {i ? 32 : 4, 32, 40, 72, 0};
        if (!check(cuda_net_moe(&net, &d), "%s", net.error.message))
            return;
        void *reference = reference_of(&net);
        kernels[i] = agrees(&net, &(bs_plan_desc){.tier = BS_TIER_CUDA, .launch_mode = BS_LAUNCH_STREAM}, reference)
                         .kernels;
        free(reference);
        cuda_net_close(&net);
    }
    check(kernels[0] == kernels[1], "4 experts take %d kernels, 32 take %d", (int)kernels[0], (int)kernels[1]);
}

/* ------------------------------------------------------------------------------------------------- rows and exits */

static void test_rows(void)
{
    for (int32_t touched = 0; touched < 2; touched++) {
        cuda_net net;
        if (check(cuda_net_copy(&net, &(cuda_copy_desc){37, 20, 4, touched}), "%s", net.error.message))
            agrees_always(&net);
        cuda_net_close(&net);
    }
}

static void test_exits(void)
{
    for (int32_t depth = 1; depth <= 4; depth++) {
        cuda_net net;
        if (check(cuda_net_exits(&net, &(cuda_exits_desc){2, 4, 8, 4, 2, depth}), "%s", net.error.message))
            agrees_always(&net);
        cuda_net_close(&net);
    }
}

static void test_loads(void)
{
    int32_t loads[10], all = 0;
    cuda_net_loads((const double[]){6, 7, 12, 27, 8, 8, 8, 12, 12, 4}, 10, 88, loads);
    for (int32_t i = 0; i < 10; i++)
        all += loads[i];
    check(all == 88 && loads[3] == 23 && loads[9] == 3, "88 cells are dealt: %d, the largest %d, the last %d", all,
          loads[3], loads[9]);
}

int main(void)
{
    bs_cuda_facts facts;
    bs_error error = {0};
    test_loads();
    test_livesr_exact();
    if (bs_cuda_facts_get(0, &facts, &error) != BS_OK) {
        printf("skipped: %s\n", error.message);
        return check_end();
    }
    test_livesr_parts();
    test_livesr_launches();
    test_experts();
    test_experts_serial();
    test_experts_launches();
    test_rows();
    test_exits();
    return check_end();
}
