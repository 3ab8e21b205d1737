/* preload_clock.c: what bs_replay says: of profiles that were recorded here, and of made-up traces.
 * Relies on: preload.h. Must never: read a real clock. */
#include "preload.h"

#include "brainstorm_replay.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, EXPERTS = 16, TOP = 2, RUNS = 300, UNITS = LAYERS * EXPERTS, CHAIN = 12, UNIT_BYTES = 1 << 20 };
enum { COMPUTE_NS = 2000000 }; /* of one unit, in traces of routers */

/* --------------------------------------------------------------------------------------------------- replays */

static double percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * (double)part / (double)whole : 0; }

static double hit_percent(const bs_stream_stats *s) { return percent(s->hits, s->hits + s->late + s->misses); }

static bool replay(const bs_trace *trace, const bs_replay_desc *desc, bs_replay_result *out, bs_error *error)
{
    const size_t bytes = bs_replay_bytes(trace) + BS_ALIGNMENT;
    bs_arena workspace;
    void *memory = malloc(bytes);
    bs_arena_init(&workspace, "workspace", memory, memory ? bytes : 0);
    const bs_status status = bs_replay(trace, desc, &workspace, out, error);
    free(memory);
    return status == BS_OK;
}

static void take_demand(preload_clock *c, const bs_replay_result *r, double runs)
{
    c->demand_ms = (double)r->time_ns / 1e6 / runs;
    c->oracle_ms = (double)r->oracle_ns / 1e6 / runs;
    c->oracle_mb = (double)r->oracle_bytes / 1e6 / runs;
    c->hit_percent = hit_percent(&r->stats);
    c->demand_stall_ms = (double)r->stats.stall_ns / 1e6 / runs;
    c->demand_read_mb = (double)r->stats.bytes_read / 1e6 / runs;
}

static void take_speculative(preload_clock *c, const bs_replay_result *r, double runs)
{
    c->speculative_ms = (double)r->time_ns / 1e6 / runs;
    c->stall_ms = (double)r->stats.stall_ns / 1e6 / runs;
    c->read_mb = (double)r->stats.bytes_read / 1e6 / runs;
    c->waste_percent = percent(r->stats.bytes_wasted, r->stats.bytes_read);
    c->hits = r->stats.hits;
    c->late = r->stats.late;
    c->misses = r->stats.misses;
    c->paused = r->stats.paused;
    for (int32_t p = 0; p < BS_PREDICTOR_COUNT; p++) {
        const bs_prediction *q = &r->predictions[p];
        c->precision[p] = q->expected ? percent(q->right, q->expected) : -1;
        c->recall[p] = q->needed ? percent(q->right, q->needed) : -1;
    }
}

/* The same trace with every look-ahead right: what the next visit of its phase will in fact need. */
static bool replay_told(const bs_trace *trace, const bs_replay_desc *desc, bs_replay_result *out, bs_error *error)
{
    bs_trace told = *trace;
    const size_t most = (size_t)trace->n_uses + (size_t)trace->n_visits + 1;
    bs_trace_visit *visits = malloc((size_t)(trace->n_visits + 1) * sizeof *visits);
    bs_trace_guess *guesses = malloc(most * sizeof *guesses);
    bool ok = visits && guesses;
    told.visits = visits;
    told.guesses = guesses;
    told.n_guesses = 0;
    for (int32_t k = 0; ok && k < trace->n_visits; k++) {
        visits[k] = trace->visits[k];
        visits[k].first_guess = told.n_guesses;
        visits[k].n_guesses = 0;
        if (trace->visits[k].n_guesses == 0)
            continue;
        const int32_t phase = trace->guesses[trace->visits[k].first_guess].phase;
        int32_t next = k;
        while (next < trace->n_visits && trace->visits[next].phase != phase)
            next++;
        for (int32_t i = 0; next < trace->n_visits && i < trace->visits[next].n_uses && (size_t)told.n_guesses < most;
             i++)
            guesses[told.n_guesses++] = (bs_trace_guess){phase, trace->uses[trace->visits[next].first_use + i].unit, 0};
        visits[k].n_guesses = told.n_guesses - visits[k].first_guess;
    }
    ok = ok && replay(&told, desc, out, error);
    free(visits);
    free(guesses);
    return ok;
}

/* On demand with every policy, then with guesses. */
static bool replay_all(const bs_trace *trace, const bs_replay_desc *desc, double runs, preload_clock *clock,
                       bs_error *error)
{
    bs_replay_desc d = *desc;
    bs_replay_result r;
    d.stream.speculation = BS_SPECULATE_OFF;
    for (int32_t p = BS_POLICY_COUNT - 1; p >= 0; p--) {
        d.stream.policy = p;
        if (!replay(trace, &d, &r, error))
            return false;
        clock->policy_hits[p] = hit_percent(&r.stats);
        if (p == desc->stream.policy)
            take_demand(clock, &r, runs);
    }
    d.stream = desc->stream;
    if (!replay(trace, &d, &r, error))
        return false;
    take_speculative(clock, &r, runs);
    if (!replay_told(trace, &d, &r, error))
        return false;
    clock->told_ms = (double)r.time_ns / 1e6 / runs;
    return true;
}

/* -------------------------------------------------------------------------------------------------- profiles */

typedef struct profile_bytes {
    const uint8_t *data;
    size_t bytes;
} profile_bytes;

static int64_t read_profile(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const profile_bytes *p = user;
    const size_t left = offset < p->bytes ? p->bytes - (size_t)offset : 0, got = bytes < left ? bytes : left;
    memcpy(buffer, p->data + p->bytes - left, got);
    return (int64_t)got;
}

bool preload_replay_profile(const uint8_t *profile, size_t bytes, const preload_speed *speed, uint64_t chunk_bytes,
                            preload_result *result)
{
    profile_bytes source = {profile, bytes};
    const bs_reader reader = {.user = &source, .read = read_profile, .size = bytes};
    const size_t room = 4 * bytes + (1 << 20);
    void *memory = malloc(room);
    bs_arena arena;
    bs_error error = {0};
    bs_trace trace;
    bs_arena_init(&arena, "trace", memory, memory ? room : 0);
    bool ok = bs_trace_load(&arena, &reader, &trace, &error) == BS_OK;
    if (ok) {
        const double measured = trace.ns_per_byte > 0 ? 1e9 / trace.ns_per_byte : (double)result->bytes_per_second;
        const bs_replay_desc desc = {
            .slot_bytes = trace.slot_bytes,
            .bytes_per_second = speed->bytes_per_second ? speed->bytes_per_second : (uint64_t)measured,
            .latency_ns = speed->bytes_per_second ? speed->latency_ns : 0,
            .prepare_ns_per_byte = trace.prepare_ns_per_byte,
            .chunk_bytes = (int32_t)(chunk_bytes > trace.chunk_bytes ? chunk_bytes : trace.chunk_bytes),
            .stream = {.policy = trace.policy}};
        result->bytes_per_second = desc.bytes_per_second;
        ok = replay_all(&trace, &desc, result->stats_runs, &result->clock, &error);
    }
    free(memory);
    return ok || preload_complain("replay", &error);
}

/* ---------------------------------------------------------------------------------------------- made-up traces */

typedef struct maker {
    bs_trace_unit units[UNITS];
    bs_trace_phase phases[CHAIN];
    int32_t phase_units[UNITS];
    bs_trace_visit visits[RUNS * CHAIN];
    bs_trace_use uses[RUNS * CHAIN];
    bs_trace_guess guesses[RUNS * CHAIN];
    bs_trace trace;
    uint32_t drawn;
} maker;

static void make_phases(maker *m, int32_t phases, int32_t units, bool routed)
{
    m->drawn = 0;
    for (int32_t u = 0; u < phases * units; u++) {
        m->units[u] = (bs_trace_unit){"", UNIT_BYTES, UNIT_BYTES};
        snprintf(m->units[u].name, sizeof m->units[u].name, "u%d", (int)u);
        m->phase_units[u] = u;
    }
    for (int32_t j = 0; j < phases; j++)
        m->phases[j] = (bs_trace_phase){routed ? j + 1 : 0, j * units, units};
    m->trace = (bs_trace){.n_units = phases * units,
                          .n_phases = phases,
                          .n_phase_units = phases * units,
                          .units = m->units,
                          .phases = m->phases,
                          .phase_units = m->phase_units,
                          .visits = m->visits,
                          .uses = m->uses,
                          .guesses = m->guesses};
}

static void make_visit(maker *m, int32_t phase, uint64_t before_ns)
{
    m->visits[m->trace.n_visits++] = (bs_trace_visit){phase, m->trace.n_uses, 0, m->trace.n_guesses, 0, before_ns};
}

static void make_use(maker *m, int32_t unit, uint64_t compute_ns)
{
    m->uses[m->trace.n_uses++] = (bs_trace_use){unit, -1, compute_ns};
    m->visits[m->trace.n_visits - 1].n_uses++;
}

static double draw(maker *m) { return (double)preload_random(m->drawn++) / 4294967296.0; }

/* Zipf's law: rank r with probability in proportion to 1 / r. */
static int32_t draw_zipf(maker *m, int32_t phase)
{
    double left = draw(m) * 3.3807289932289932; /* sum of 1 / r up to EXPERTS */
    int32_t rank = 0;
    while (rank < EXPERTS - 1 && left > 1.0 / (rank + 1))
        left -= 1.0 / ++rank;
    return (rank * 5 + phase * 3) % EXPERTS;
}

typedef enum made_kind {
    MADE_UNIFORM,
    MADE_UNIFORM_TOLD,
    MADE_UNIFORM_WRONG,
    MADE_ZIPF,
    MADE_MARKOV,
    MADE_CYCLIC,
    MADE_STATIC,
    MADE_KINDS
} made_kind;

static int32_t draw_expert(maker *m, made_kind kind, int32_t phase, int32_t before)
{
    if (kind == MADE_ZIPF)
        return draw_zipf(m, phase);
    if (kind == MADE_MARKOV && draw(m) < 0.8)
        return (before * 7 + 3) % EXPERTS;
    return (int32_t)(draw(m) * EXPERTS);
}

/* Look-ahead for the next visit, given before this one is computed. */
static void make_guesses(maker *m, double right_share)
{
    for (int32_t k = 1; k < m->trace.n_visits; k++) {
        bs_trace_visit *v = &m->visits[k];
        const int32_t phase = v->phase;
        if (phase == 0)
            continue;
        v[0].first_guess = m->trace.n_guesses;
        v[-1].n_guesses = TOP; /* known before the visit in front of it begins */
        v[-1].first_guess = m->trace.n_guesses;
        for (int32_t i = 0; i < TOP; i++) {
            const int32_t right = m->uses[v->first_use + i].unit,
                          other = phase * EXPERTS + (right + 1 + (int32_t)(draw(m) * (EXPERTS - 1))) % EXPERTS;
            m->guesses[m->trace.n_guesses++] = (bs_trace_guess){phase, draw(m) < right_share ? right : other, 0};
        }
    }
}

static void make_routed(maker *m, made_kind kind)
{
    int32_t chosen[TOP] = {0, 1};
    make_phases(m, LAYERS, EXPERTS, true);
    for (int32_t k = 0; k < RUNS * LAYERS; k++) {
        const int32_t phase = k % LAYERS;
        make_visit(m, phase, COMPUTE_NS / 4);
        for (int32_t i = 0; i < TOP; i++) {
            int32_t expert = draw_expert(m, kind, phase, chosen[i]);
            while (i > 0 && expert == chosen[0])
                expert = draw_expert(m, kind == MADE_MARKOV ? MADE_UNIFORM : kind, phase, chosen[i]);
            chosen[i] = expert;
            make_use(m, phase * EXPERTS + expert, COMPUTE_NS);
        }
    }
    if (kind == MADE_UNIFORM_TOLD || kind == MADE_UNIFORM_WRONG)
        make_guesses(m, kind == MADE_UNIFORM_TOLD ? 0.85 : 0);
}

static void make_cyclic(maker *m)
{
    make_phases(m, 1, EXPERTS + 1, true);
    for (int32_t k = 0; k < RUNS * LAYERS; k++) {
        make_visit(m, 0, COMPUTE_NS / 4);
        make_use(m, k % (EXPERTS + 1), COMPUTE_NS);
    }
}

static void make_static(maker *m, const preload_speed *speed)
{
    const double read_ns = UNIT_BYTES * 1e9 / (double)speed->bytes_per_second + 4.0 * (double)speed->latency_ns;
    make_phases(m, CHAIN, 1, false);
    for (int32_t k = 0; k < RUNS * CHAIN; k++) {
        make_visit(m, k % CHAIN, 0);
        make_use(m, k % CHAIN, (uint64_t)read_ns);
    }
}

bool preload_synthetic(const preload_speed *speed, void (*report)(void *user, const preload_result *result), void *user)
{
    static const char *const names[MADE_KINDS] = {"uniform",    "uniform, told 85%", "uniform, misled", "zipf",
                                                  "markov 80%", "cyclic 17 in 16",   "static 12 in 3"};
    maker *m = malloc(sizeof *m);
    bool ok = m != NULL;
    for (int32_t kind = 0; kind < MADE_KINDS && ok; kind++) {
        preload_result r = {.speed = speed->name, .bytes_per_second = speed->bytes_per_second, .synthetic = true};
        bs_error error = {0};
        snprintf(r.name, sizeof r.name, "%s", names[kind]);
        if (kind == MADE_STATIC)
            make_static(m, speed);
        else if (kind == MADE_CYCLIC)
            make_cyclic(m);
        else
            make_routed(m, (made_kind)kind);
        const int32_t slots = kind == MADE_STATIC ? CHAIN / 4 : EXPERTS;
        const bs_replay_desc desc = {.slot_bytes = (uint64_t)slots * UNIT_BYTES,
                                     .bytes_per_second = speed->bytes_per_second,
                                     .latency_ns = speed->latency_ns};
        r.slot_percent = 100.0 * slots / m->trace.n_units;
        r.slots_mb = (double)desc.slot_bytes / 1e6;
        r.all_mb = (double)m->trace.n_units * UNIT_BYTES / 1e6;
        r.stats_runs = kind == MADE_CYCLIC ? RUNS * LAYERS : RUNS;
        ok = replay_all(&m->trace, &desc, r.stats_runs, &r.clock, &error) || preload_complain(r.name, &error);
        if (ok)
            report(user, &r);
    }
    free(m);
    return ok;
}
