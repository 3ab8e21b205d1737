/* replay_traces.h - traces made by hand, and their replays; no clock, no file, no thread.
 * Owns one trace and the workspace. Relies on check.h. Must never let a replay that fails pass: run() ends the
 * program. */
#ifndef BS_TEST_REPLAY_TRACES_H
#define BS_TEST_REPLAY_TRACES_H

#include "brainstorm_replay.h"
#include "check.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_UNITS = 64, MOST_PHASES = 32, MOST_VISITS = 60000, UNIT_BYTES = 1 << 16 };

static bs_trace_unit units[MOST_UNITS];
static bs_trace_phase phases[MOST_PHASES];
static int32_t phase_units[MOST_PHASES * MOST_UNITS];
static bs_trace_visit visits[MOST_VISITS];
static bs_trace_use uses[2 * MOST_VISITS];
static bs_trace_guess guesses[2 * MOST_VISITS];
static bs_trace trace;
static _Alignas(64) uint8_t workspace_memory[8 << 20];
static bs_error error;

static inline void trace_begin(int32_t n_units)
{
    memset(&trace, 0, sizeof trace);
    for (int32_t u = 0; u < n_units; u++) {
        snprintf(units[u].name, sizeof units[u].name, "u%d", u);
        units[u].read_bytes = units[u].slot_bytes = UNIT_BYTES;
    }
    trace.n_units = n_units;
    trace.units = units;
    trace.phases = phases;
    trace.phase_units = phase_units;
    trace.visits = visits;
    trace.uses = uses;
    trace.guesses = guesses;
}

static inline void add_phase(int32_t router, int32_t first, int32_t count)
{
    phases[trace.n_phases++] = (bs_trace_phase){router, trace.n_phase_units, count};
    for (int32_t u = first; u < first + count; u++)
        phase_units[trace.n_phase_units++] = u;
}

static inline void add_guess(int32_t phase, int32_t unit)
{
    guesses[trace.n_guesses++] = (bs_trace_guess){phase, unit, 0};
}

/* Guesses added since the visit before belong to this one. */
static inline void add_visit(int32_t phase, uint64_t before_ns)
{
    const bs_trace_visit *last = trace.n_visits ? &visits[trace.n_visits - 1] : NULL;
    const int32_t guessed = last ? last->first_guess + last->n_guesses : 0;
    visits[trace.n_visits++] = (bs_trace_visit){phase, trace.n_uses, 0, guessed, trace.n_guesses - guessed, before_ns};
}

static inline void add_use(int32_t unit, uint64_t compute_ns)
{
    uses[trace.n_uses++] = (bs_trace_use){unit, -1, compute_ns};
    visits[trace.n_visits - 1].n_uses++;
}

/* ------------------------------------------------------------------------------------------------ whole traces */

static inline void uniform_trace(int32_t n_units, int32_t n_visits, uint64_t compute_ns)
{
    trace_begin(n_units);
    add_phase(1, 0, n_units);
    for (int32_t k = 0; k < n_visits; k++) {
        add_visit(0, 0);
        add_use(check_below(n_units), compute_ns);
    }
}

/* A network of known and routed phases, units of any sizes, several of them needed at once. */
static inline void random_trace(int32_t runs, bool several)
{
    const int32_t n_phases = 1 + check_below(6);
    int32_t n_units = 0;
    trace_begin(MOST_UNITS);
    for (int32_t j = 0; j < n_phases; j++) {
        const int32_t count = 1 + check_below(6);
        add_phase(!several || check_below(2) ? j + 1 : 0, n_units, count);
        n_units += count;
    }
    trace.n_units = n_units;
    for (int32_t u = 0; u < n_units; u++)
        units[u].read_bytes = units[u].slot_bytes = (uint64_t)(UNIT_BYTES / 4 + check_below(UNIT_BYTES));
    for (int32_t k = 0; k < runs * n_phases; k++) {
        const int32_t j = k % n_phases, next = (k + 1) % n_phases;
        if (phases[next].router && check_below(2))
            add_guess(next, check_below(4) ? phases[next].first_unit + check_below(phases[next].n_units) : -1);
        add_visit(j, (uint64_t)check_below(200000));
        for (int32_t u = phases[j].first_unit; u < phases[j].first_unit + phases[j].n_units; u++)
            if ((phases[j].router == 0 || check_below(3) == 0) && (several || visits[trace.n_visits - 1].n_uses == 0))
                add_use(u, (uint64_t)check_below(200000));
    }
}

/* --------------------------------------------------------------------------------------------------- replaying */

static inline bs_replay_desc replay_of(int32_t slots, uint64_t read_ns)
{
    bs_replay_desc d = {.slot_bytes = (uint64_t)slots * UNIT_BYTES,
                        .bytes_per_second = (uint64_t)UNIT_BYTES * 1000000000u / read_ns};
    return d;
}

static inline bs_replay_result run(const bs_replay_desc *d)
{
    bs_replay_result result;
    bs_arena arena;
    bs_arena_init(&arena, "workspace", workspace_memory, sizeof workspace_memory);
    memset(&result, 0, sizeof result);
    if (bs_replay(&trace, d, &arena, &result, &error) != BS_OK || arena.used != 0) {
        check(0, "a replay fails: %s", error.message);
        exit(check_end());
    }
    return result;
}

static inline double hit_rate(const bs_replay_result *r)
{
    const uint64_t all = r->stats.hits + r->stats.late + r->stats.misses;
    return all ? (double)r->stats.hits / (double)all : 0;
}

#endif
