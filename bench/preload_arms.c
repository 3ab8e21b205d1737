/* preload_arms.c: the same network three times in one process: all weights resident, streamed on demand, and streamed
 * with guesses. They take turns, a pass of runs each; the first run of a pass is not timed, because what was read
 * between two turns is a present. Each arm has a device of its own, so that none waits for what another reads.
 * Relies on: preload.h, peak.h. Must never: time anything but bs_run. */
#define _POSIX_C_SOURCE 200809L
#include "peak.h"
#include "preload.h"

#include "brainstorm_replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PASSES = 7, MAX_HASHES = 1024, RING_EVENTS = 65536 };

typedef struct arm_profile {
    void *ring, *memory;
    bs_profile *profile;
    uint8_t *data;
    size_t bytes, room;
} arm_profile;

typedef struct arm {
    preload_kind kind;
    throttle device;
    const bs_platform *platform;
    flat_source source;
    bs_model *model;
    void *model_memory, *memory[4];
    bs_memory arenas;
    bs_session *session;
    arm_profile profile;
    int32_t runs;
    double pass_s[MAX_PASSES]; /* a run, on average */
} arm;

typedef struct trial {
    preload_net *net;
    const preload_speed *speed;
    void *plan_memory[2];
    bs_plan *plans[2]; /* resident, streaming */
    bs_sizes sizes;
    arm arms[ARMS];
    uint64_t hashes[MAX_HASHES];
    bool same_bytes;
    bs_error error;
} trial;

bool preload_complain(const char *what, const bs_error *error)
{
    fprintf(stderr, "preload: %s: %s\n", what, error->message[0] ? error->message : bs_status_text(error->status));
    return false;
}

/* ----------------------------------------------------------------------------------------------------- plans */

static bs_plan *make_plan(const preload_net *net, uint64_t slot_bytes, void **memory, bs_error *error)
{
    const bs_plan_desc desc = {.slot_bytes = slot_bytes};
    const size_t bytes = bs_plan_bytes(net->graph, &desc) + BS_ALIGNMENT;
    bs_arena arena;
    *memory = malloc(bytes);
    bs_arena_init(&arena, "plan", *memory, *memory ? bytes : 0);
    return bs_plan_create(&arena, NULL, net->graph, &desc, error);
}

/* Slots of so many per cent of all units, at least what works. */
static bool make_plans(trial *t, double slot_percent, preload_result *result)
{
    bs_stream_plan stream;
    t->plans[0] = make_plan(t->net, 0, &t->plan_memory[0], &t->error);
    bs_plan *whole = t->plans[0] ? make_plan(t->net, (uint64_t)1 << 40, &t->plan_memory[1], &t->error) : NULL;
    if (!whole)
        return false;
    bs_plan_stream_get(whole, &stream);
    const uint64_t wanted = (uint64_t)((double)stream.all_bytes * slot_percent / 100);
    free(t->plan_memory[1]);
    t->plans[1] = make_plan(t->net, wanted > stream.least_bytes ? wanted : stream.least_bytes, &t->plan_memory[1],
                            &t->error);
    if (!t->plans[1])
        return false;
    bs_plan_sizes(t->plans[1], &t->sizes);
    result->slots_mb = (double)t->sizes.slots / 1e6;
    result->staging_mb = (double)t->sizes.staging / 1e6;
    result->all_mb = (double)stream.all_bytes / 1e6;
    result->slot_percent = 100 * (double)t->sizes.slots / (double)stream.all_bytes;
    return true;
}

/* ------------------------------------------------------------------------------------------------------ arms */

static int keep(void *user, const void *data, size_t bytes)
{
    arm_profile *p = user;
    if (p->bytes + bytes > p->room) {
        p->room = 2 * (p->bytes + bytes) + 65536;
        uint8_t *larger = realloc(p->data, p->room);
        if (!larger)
            return 1;
        p->data = larger;
    }
    memcpy(p->data + p->bytes, data, bytes);
    p->bytes += bytes;
    return 0;
}

static bool open_profile(arm_profile *p, bs_error *error)
{
    const size_t ring = 5000 + RING_EVENTS * sizeof(bs_event), memory = 16384;
    bs_arena arena;
    p->ring = malloc(ring);
    p->memory = malloc(memory);
    bs_arena_init(&arena, "profile", p->memory, memory);
    const bs_profile_desc desc = {.write = keep, .user = p, .memory = p->ring, .bytes = ring};
    p->profile = p->ring && p->memory ? bs_profile_create(&arena, &desc, error) : NULL;
    return p->profile != NULL;
}

static bool open_weights(arm *a, const preload_net *net, bs_weights *weights, bs_error *error)
{
    if (!net->model_path[0]) {
        *weights = (bs_weights){0};
        if (!flat_open(&a->source, &net->file, a->platform))
            return false;
        *weights = flat_weights(&a->source);
        return true;
    }
    const size_t bytes = 4 << 20;
    bs_arena arena;
    a->model_memory = malloc(bytes);
    bs_arena_init(&arena, "model", a->model_memory, a->model_memory ? bytes : 0);
    a->model = bs_model_open_file(&arena, a->platform, net->model_path, error);
    if (a->model)
        *weights = bs_model_weights(a->model);
    return a->model != NULL;
}

static bool open_memory(arm *a, const bs_plan *plan)
{
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    const uint64_t bytes[4] = {sizes.persistent, sizes.transient, sizes.staging, sizes.slots};
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    bs_arena *arenas[4] = {&a->arenas.persistent, &a->arenas.transient, &a->arenas.staging, &a->arenas.slots};
    for (int32_t i = 0; i < 4; i++) {
        a->memory[i] = malloc((size_t)bytes[i] + BS_ALIGNMENT);
        if (!a->memory[i])
            return false;
        bs_arena_init(arenas[i], names[i], a->memory[i], (size_t)bytes[i] + BS_ALIGNMENT);
    }
    return true;
}

static bool bind_all(trial *t, arm *a)
{
    bs_buffer x[PRELOAD_INPUTS], y = t->net->output;
    for (int32_t i = 0; i < t->net->n_inputs; i++) {
        x[i] = t->net->inputs[i];
        if (t->net->tuned)
            x[i].dim[0] = t->net->rows;
        if (bs_bind(a->session, t->net->input_names[i], &x[i], &t->error) != BS_OK)
            return false;
    }
    if (t->net->tuned)
        y.dim[0] = t->net->rows;
    return bs_bind(a->session, t->net->output_name, &y, &t->error) == BS_OK;
}

static bool arm_open(trial *t, preload_kind kind)
{
    arm *a = &t->arms[kind];
    const bs_plan *plan = t->plans[kind != ARM_RESIDENT];
    const bool slow = kind != ARM_RESIDENT && t->speed->bytes_per_second > 0;
    a->kind = kind;
    throttle_init(&a->device, bs_platform_default(), slow ? t->speed->bytes_per_second : 1, t->speed->latency_ns);
    a->platform = slow ? throttle_platform(&a->device) : bs_platform_default();
    bs_session_desc desc = {.platform = a->platform};
    desc.stream.speculation = kind == ARM_SPECULATIVE ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF;
    if (!open_weights(a, t->net, &desc.weights, &t->error) || !open_memory(a, plan) ||
        (kind != ARM_RESIDENT && !open_profile(&a->profile, &t->error)))
        return false;
    desc.profile = a->profile.profile;
    a->session = bs_session_create(&a->arenas, plan, &desc, &t->error);
    return a->session && bind_all(t, a);
}

static bool arm_finish(arm *a)
{
    bs_session_close(a->session);
    a->session = NULL;
    uint64_t dropped = 0;
    const bool whole = !a->profile.profile || (bs_profile_close(a->profile.profile, &dropped) == BS_OK && dropped == 0);
    a->profile.profile = NULL;
    return whole;
}

static void arm_close(arm *a)
{
    arm_finish(a);
    flat_close(&a->source);
    bs_model_close(a->model);
    for (int32_t i = 0; i < 4; i++)
        free(a->memory[i]);
    free(a->model_memory);
    free(a->profile.ring);
    free(a->profile.memory);
    free(a->profile.data);
    memset(a, 0, sizeof *a);
}

/* ------------------------------------------------------------------------------------------------------ runs */

static uint64_t hash_output(const preload_net *net)
{
    size_t bytes = bs_dtype_bytes(net->output.dtype);
    for (int32_t d = 0; d < net->output.rank; d++)
        bytes *= (size_t)(net->tuned && d == 0 ? net->rows : net->output.dim[d]);
    uint64_t hash = 14695981039346656037u, word = 0;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, (const uint8_t *)net->output.data + i, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Run number `run` on one arm; negative: failed. */
static double run_one(trial *t, arm *a, int32_t run)
{
    t->net->step(t->net, run);
    const double since = peak_seconds();
    if (bs_run(a->session, &t->error) != BS_OK)
        return -1;
    const double took = peak_seconds() - since;
    a->runs++;
    const uint64_t hash = hash_output(t->net);
    uint64_t *known = &t->hashes[run % MAX_HASHES];
    t->same_bytes = t->same_bytes && (*known == 0 || *known == hash || run >= MAX_HASHES);
    *known = hash;
    return took;
}

/* What is read for the next run is read before another arm's turn. */
static void settle(const trial *t, arm *a)
{
    const double chunk = t->speed->bytes_per_second ? (double)t->net->chunk_bytes / (double)t->speed->bytes_per_second
                                                    : 0.002;
    const double wait = 1.5 * chunk + 0.001;
    const struct timespec pause = {(time_t)wait, (long)((wait - floor(wait)) * 1e9)};
    bs_stream_stats before, after;
    bs_session_stream_stats(a->session, &after);
    for (double waited = 0; waited < 2; waited += wait) {
        before = after;
        nanosleep(&pause, NULL);
        bs_session_stream_stats(a->session, &after);
        if (before.bytes_read == after.bytes_read)
            return;
    }
}

static bool pass(trial *t, arm *a, int32_t first, int32_t runs, double *seconds)
{
    double sum = 0;
    for (int32_t i = 0; i <= runs; i++) {
        const double took = run_one(t, a, first + i);
        if (took < 0)
            return false;
        sum += i > 0 ? took : 0;
    }
    if (a->kind == ARM_SPECULATIVE)
        settle(t, a);
    if (seconds)
        *seconds = sum / runs;
    return true;
}

static int32_t clamp(double value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : (int32_t)value;
}

/* All arms see the same runs, in order: states depend on those before. How many there are depends on what one takes. */
static bool take_turns(trial *t, const preload_options *options, preload_result *result)
{
    double demand = 0, resident = 0;
    if (!pass(t, &t->arms[ARM_DEMAND], 0, 1, &demand) || !pass(t, &t->arms[ARM_RESIDENT], 0, 1, &resident))
        return false;
    const double each = 1.8 * demand + resident;
    const int32_t warm = clamp(0.25 * options->seconds / (1.8 * demand), 2, PRELOAD_WARM);
    result->passes = options->quick || demand > 0.05 * options->seconds ? 3 : 5;
    result->runs = clamp(0.75 * options->seconds / result->passes / each - 1, 2, 60);
    if (!pass(t, &t->arms[ARM_SPECULATIVE], 0, 1, NULL) || !pass(t, &t->arms[ARM_DEMAND], 2, warm - 1, NULL) ||
        !pass(t, &t->arms[ARM_SPECULATIVE], 2, warm - 1, NULL) || !pass(t, &t->arms[ARM_RESIDENT], 2, warm - 1, NULL))
        return false;
    for (int32_t p = 0, first = 2 + warm; p < result->passes; p++, first += result->runs + 1)
        for (int32_t i = 0; i < ARMS; i++) {
            arm *a = &t->arms[(i + p) % ARMS];
            if (!pass(t, a, first, result->runs, &a->pass_s[p]))
                return false;
        }
    return true;
}

/* --------------------------------------------------------------------------------------------------- figures */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int32_t count)
{
    double sorted[MAX_PASSES];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double ratio(const trial *t, preload_kind above, preload_kind below, int32_t passes)
{
    double ratios[MAX_PASSES];
    for (int32_t p = 0; p < passes; p++)
        ratios[p] = t->arms[above].pass_s[p] / t->arms[below].pass_s[p];
    return median(ratios, passes);
}

static void collect(trial *t, preload_result *result)
{
    for (int32_t k = 0; k < ARMS; k++) {
        arm *a = &t->arms[k];
        result->wall_ms[k] = 1e3 * median(a->pass_s, result->passes);
        result->low_ms[k] = result->high_ms[k] = 1e3 * a->pass_s[0];
        for (int32_t p = 1; p < result->passes; p++) {
            result->low_ms[k] = fmin(result->low_ms[k], 1e3 * a->pass_s[p]);
            result->high_ms[k] = fmax(result->high_ms[k], 1e3 * a->pass_s[p]);
        }
        bs_session_stream_stats(a->session, &result->stats[k]);
    }
    result->speculative_over_demand = ratio(t, ARM_SPECULATIVE, ARM_DEMAND, result->passes);
    result->speculative_over_resident = ratio(t, ARM_SPECULATIVE, ARM_RESIDENT, result->passes);
    result->demand_over_resident = ratio(t, ARM_DEMAND, ARM_RESIDENT, result->passes);
    const bs_stream_stats *s = &result->stats[ARM_DEMAND];
    const uint64_t uses = s->hits + s->late + s->misses;
    result->recorded_hit_percent = uses ? 100 * (double)s->hits / (double)uses : 0;
    result->direct = s->direct;
    result->same_bytes = t->same_bytes;
    result->stats_runs = t->arms[ARM_DEMAND].runs;
}

/* ------------------------------------------------------------------------------------------- before the arms */

/* Bytes a second that reads of net->chunk_bytes bring, one after the other. */
static uint64_t reading_speed(const bs_weights *weights, uint64_t bytes, size_t chunk)
{
    uint8_t *memory = malloc(chunk + 4096);
    uint8_t *buffer = memory ? memory + (4096 - (uintptr_t)memory % 4096) : NULL;
    uint64_t read = 0;
    const double since = peak_seconds();
    for (uint64_t at = 0; buffer && at + chunk <= bytes; at += chunk)
        if (weights->fetch(weights->user, at, buffer, chunk) == BS_OK)
            read += chunk;
    free(memory);
    return 1 + (uint64_t)((double)read / (peak_seconds() - since));
}

uint64_t preload_disk_speed(const preload_net *net)
{
    const size_t chunk = (size_t)((net->chunk_bytes + 4095) & ~(uint64_t)4095);
    const uint64_t most = 64u << 20;
    flat_source source = {0};
    bs_weights weights;
    bs_model_facts facts;
    uint64_t speed = 1;
    if (net->model) {
        bs_model_facts_get(net->model, &facts);
        weights = bs_model_weights(net->model);
        return reading_speed(&weights, facts.file_bytes < most ? facts.file_bytes : most, chunk);
    }
    if (flat_open(&source, &net->file, bs_platform_default())) {
        weights = flat_weights(&source);
        speed = reading_speed(&weights, net->file.bytes < most ? net->file.bytes : most, chunk);
    }
    flat_close(&source);
    return speed;
}

/* Rows with which a unit is computed in the time that it is read in. */
static bool tune(trial *t, uint64_t bytes_per_second)
{
    preload_net *net = t->net;
    const double chunks = (double)net->unit_bytes / (double)net->chunk_bytes;
    const double wanted = (double)net->unit_bytes / (double)bytes_per_second +
                          chunks * 1e-9 * (double)t->speed->latency_ns;
    for (int32_t round = 0; round < 3; round++) {
        double took[3];
        if (!bind_all(t, &t->arms[ARM_RESIDENT]))
            return false;
        for (int32_t i = 0; i < 3; i++)
            if ((took[i] = run_one(t, &t->arms[ARM_RESIDENT], 0)) < 0)
                return false;
        net->rows = clamp(net->rows * wanted * net->n_units / median(took, 3), 1, net->most_rows);
    }
    memset(t->hashes, 0, sizeof t->hashes);
    t->same_bytes = true;
    return bind_all(t, &t->arms[ARM_RESIDENT]);
}

static bool measure(trial *t, double slot_percent, const preload_options *options, preload_result *result)
{
    if (!make_plans(t, slot_percent, result) || !arm_open(t, ARM_RESIDENT))
        return false;
    if (t->net->tuned && !tune(t, result->bytes_per_second))
        return false;
    if (!arm_open(t, ARM_DEMAND) || !arm_open(t, ARM_SPECULATIVE) || !take_turns(t, options, result))
        return false;
    collect(t, result);
    const arm *recorded = &t->arms[ARM_DEMAND];
    if (!arm_finish(&t->arms[ARM_DEMAND]))
        fprintf(stderr, "preload: %s: the profile is not whole\n", t->net->name);
    return preload_replay_profile(recorded->profile.data, recorded->profile.bytes, t->speed, t->net->chunk_bytes,
                                  result);
}

bool preload_measure(preload_net *net, const preload_speed *speed, double slot_percent, const preload_options *options,
                     preload_result *result)
{
    trial *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    memset(result, 0, sizeof *result);
    snprintf(result->name, sizeof result->name, "%s", net->name);
    result->speed = speed->name;
    result->bytes_per_second = speed->bytes_per_second ? speed->bytes_per_second : preload_disk_speed(net);
    t->net = net;
    t->speed = speed;
    t->same_bytes = true;
    const bool measured = measure(t, slot_percent, options, result);
    if (!measured)
        preload_complain(net->name, &t->error);
    for (int32_t k = 0; k < ARMS; k++)
        arm_close(&t->arms[k]);
    free(t->plan_memory[0]);
    free(t->plan_memory[1]);
    free(t);
    return measured;
}
