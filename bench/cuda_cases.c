/* cuda_cases.c: which networks, how large, in which forms. Tiny: the same structure, for checking results. */
#include "cuda_bench.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- networks */

static bool livesr(cuda_net *net, int32_t channels, bool tiny, cuda_livesr_part part)
{
    const cuda_livesr_desc full = {10, channels, 80, 88, 32, (int32_t)part},
                           small = {3, channels, 3, 7, 8, (int32_t)part};
    return cuda_net_livesr(net, tiny ? &small : &full);
}
static bool livesr_8(cuda_net *net, bool tiny) { return livesr(net, 8, tiny, CUDA_LIVESR_ALL); }
static bool livesr_20(cuda_net *net, bool tiny) { return livesr(net, 20, tiny, CUDA_LIVESR_ALL); }
static bool livesr_8_body(cuda_net *net, bool tiny) { return livesr(net, 8, tiny, CUDA_LIVESR_BODY); }
static bool livesr_8_tail(cuda_net *net, bool tiny) { return livesr(net, 8, tiny, CUDA_LIVESR_TAIL); }

static const cuda_moe_desc *even(bool tiny)
{
    static const cuda_moe_desc full = {64, 64, 768, 3072, 0}, small = {5, 5, 24, 96, 0};
    return tiny ? &small : &full;
}
static const cuda_moe_desc *skewed(bool tiny)
{
    static const cuda_moe_desc full = {64, 64, 768, 3072, 1}, small = {5, 9, 24, 96, 1};
    return tiny ? &small : &full;
}
static bool moe_even(cuda_net *net, bool tiny) { return cuda_net_moe(net, even(tiny)); }
static bool moe_skewed(cuda_net *net, bool tiny) { return cuda_net_moe(net, skewed(tiny)); }

static bool sr_large(cuda_net *net, bool tiny)
{
    return cuda_net_sr(net, CUDA_MODEL, tiny ? 48 : 640, tiny ? 32 : 360, true, 0);
}
static bool sr_routed(cuda_net *net, bool tiny)
{
    return cuda_net_sr(net, CUDA_MODEL, tiny ? 80 : 640, tiny ? 72 : 360, false, 0.07f);
}

static bool rows(cuda_net *net, bool tiny, int32_t touched)
{
    const cuda_copy_desc full = {16384, 1024, 8, touched}, small = {37, 20, 4, touched}; /* 64 MiB */
    return cuda_net_copy(net, tiny ? &small : &full);
}
static bool rows_moved(cuda_net *net, bool tiny) { return rows(net, tiny, 0); }
static bool rows_doubled(cuda_net *net, bool tiny) { return rows(net, tiny, 1); }

static bool exits(cuda_net *net, bool tiny, int32_t depth)
{
    const cuda_exits_desc full = {1, 32, 56, 5, 4, depth}, small = {2, 4, 8, 5, 2, depth};
    return cuda_net_exits(net, tiny ? &small : &full);
}
static bool exits_1(cuda_net *net, bool tiny) { return exits(net, tiny, 1); }
static bool exits_3(cuda_net *net, bool tiny) { return exits(net, tiny, 3); }
static bool exits_5(cuda_net *net, bool tiny) { return exits(net, tiny, 5); }

static bool trips(cuda_net *net, bool tiny)
{
    const cuda_trips_desc full = {256, 64, 1000}, small = {5, 4, 20};
    return cuda_net_trips(net, tiny ? &small : &full);
}
static bool lstm(cuda_net *net, bool tiny, int32_t rows)
{
    const cuda_lstm_desc full = {rows, 64, 300, 512}, small = {rows < 5 ? rows : 5, 6, 12, 16};
    return cuda_net_lstm(net, tiny ? &small : &full);
}
static bool lstm_1(cuda_net *net, bool tiny) { return lstm(net, tiny, 1); }
static bool lstm_32(cuda_net *net, bool tiny) { return lstm(net, tiny, 32); }
static bool trees(cuda_net *net, bool tiny)
{
    const cuda_trees_desc full = {64, 128, 256}, small = {3, 8, 12};
    return cuda_net_trees(net, tiny ? &small : &full);
}

#define BOTH (FORM_F32 | FORM_HALF)

/* In f16 roundings add up: of 164 layers in LiveSR, 2e-3; of 4, 12 and 20 layers in the exits, 0.8e-3, 1.5e-3 and
 * 2.1e-3 on an H200; of 64 steps of an LSTM, 6e-4. */
const cuda_case cuda_cases[] = {
    {"livesr-10-8", livesr_8, NULL, BOTH | FORM_CHOOSE, 1e-5, 5e-3},
    {"livesr-10-8-body", livesr_8_body, NULL, BOTH | FORM_BREADTH, 1e-5, 5e-3},
    {"livesr-10-8-tail", livesr_8_tail, NULL, BOTH, 1e-5, 5e-3},
    {"livesr-10-20", livesr_20, NULL, BOTH, 1e-5, 5e-3},
    {"moe-even", moe_even, even, BOTH | FORM_SERIAL | FORM_CHOOSE, 1e-5, 2e-3},
    {"moe-skewed", moe_skewed, skewed, BOTH | FORM_SERIAL, 1e-5, 2e-3},
    {"sr-large", sr_large, NULL, BOTH | FORM_BUFFERS, 1, 2},
    {"sr-routed", sr_routed, NULL, BOTH, 1, 2},
    {"rows-moved", rows_moved, NULL, FORM_F32, 0, 0},
    {"rows-doubled", rows_doubled, NULL, FORM_F32, 0, 0},
    {"exits-1-of-5", exits_1, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 2e-3},
    {"exits-3-of-5", exits_3, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 2e-3},
    {"exits-5-of-5", exits_5, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 3e-3},
    {"trips-1000", trips, NULL, FORM_F32 | FORM_CHOOSE, 1e-5, 0},
    {"lstm-64-1", lstm_1, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 5e-3},
    {"lstm-64-32", lstm_32, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 5e-3},
    {"trees-64-128", trees, NULL, BOTH | FORM_BREADTH | FORM_CHOOSE, 1e-5, 5e-3},
};
const int32_t cuda_n_cases = (int32_t)(sizeof cuda_cases / sizeof cuda_cases[0]);

/* --------------------------------------------------------------------------------------------------------- arms */

typedef struct way {
    const char *name;
    int32_t form, half, order;
    bench_where where;
} way;

static const way ways[] = {
    {"f32", FORM_F32, 0, BS_ORDER_AUTO, BENCH_GPU},
    {"half", FORM_HALF, 1, BS_ORDER_AUTO, BENCH_GPU},
    {"f32-breadth", FORM_BREADTH, 0, BS_ORDER_BREADTH, BENCH_GPU},
    {"half-breadth", FORM_BREADTH, 1, BS_ORDER_BREADTH, BENCH_GPU},
    {"f32-serial", FORM_SERIAL, 0, BS_ORDER_AUTO, BENCH_GPU},
    {"half-serial", FORM_SERIAL, 1, BS_ORDER_AUTO, BENCH_GPU},
    {"f32-pinned", FORM_BUFFERS, 0, BS_ORDER_AUTO, BENCH_PINNED},
    {"f32-ordinary", FORM_BUFFERS, 0, BS_ORDER_AUTO, BENCH_HOST},
};

static bool wanted(const cuda_case *of, const way *w)
{
    bs_cuda_facts facts;
    bs_error error;
    if (!(of->forms & w->form))
        return false;
    return w->form != FORM_BUFFERS || (bs_cuda_facts_get(0, &facts, &error) == BS_OK && facts.integrated);
}

static void open_arm(cuda_line *line, int32_t i, const way *w, bool tiny, void *stream)
{
    const cuda_case *of = line->of;
    const bs_plan_desc desc = {.tier = BS_TIER_CUDA, .half = w->half, .order = w->order};
    cuda_arm *arm = &line->arms[i];
    bs_error error = {0};
    const bool ok = w->form == FORM_SERIAL
                        ? cuda_arm_open_serial(arm, &line->net, of->experts(tiny), &desc, stream, &error)
                        : cuda_arm_open(arm, &line->net, &desc, w->where, stream, &error);
    if (!ok) {
        cuda_arm_close(arm);
        line->errors[i] = error;
    }
    snprintf(arm->name, sizeof arm->name, "%s:%s", of->name, w->name);
    arm->half = w->half != 0;
}

bool cuda_line_open(cuda_line *line, const cuda_case *of, bool tiny, const char *only, void *stream)
{
    const way *these[CUDA_MAX_ARMS];
    memset(line, 0, sizeof *line);
    line->of = of;
    if (!of->build(&line->net, tiny))
        return false;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (wanted(of, &ways[i]) && (!only || strcmp(only, ways[i].name) == 0))
            these[line->n_arms++] = &ways[i];
    for (int32_t i = line->n_arms; i-- > 0;) /* those that need most shared memory last */
        open_arm(line, i, these[i], tiny, stream);
    return true;
}

bool cuda_line_refer(cuda_line *line)
{
    cuda_part cpu;
    const bs_buffer *out = &line->net.output;
    const bs_plan_desc desc = {.conv = BS_CONV_FORCE_DIRECT, .threads = 4};
    line->reference = malloc((size_t)cuda_net_elements(out) * bs_dtype_bytes(out->dtype));
    const bool ok = line->reference && cuda_part_open(&cpu, &line->net, &desc, BENCH_HOST, NULL, &line->net.error) &&
                    cuda_part_run(&cpu, &line->net.error) && cuda_part_result(&cpu, line->reference);
    if (line->reference)
        cuda_part_close(&cpu);
    return ok;
}

void cuda_line_close(cuda_line *line)
{
    for (int32_t i = 0; i < line->n_arms; i++)
        cuda_arm_close(&line->arms[i]);
    cuda_net_close(&line->net);
    free(line->reference);
    memset(line, 0, sizeof *line);
}
