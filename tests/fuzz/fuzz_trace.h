/* fuzz_trace.h - replays a trace in every way, and what must hold of each.
 * Relies on: brainstorm_replay.h. Must never: replay what would take long. */
#ifndef FUZZ_TRACE_H
#define FUZZ_TRACE_H

#include "fuzz.h"

#include "brainstorm_replay.h"

#include <math.h>

enum { FUZZ_REPLAY_MOST = 4 << 20, FUZZ_WORK_MOST = 25000 };

/* What a replay costs: at every chunk that uses would read, all units of all phases may be weighed as guesses. */
static inline double fuzz_replay_work(const bs_trace *t, const bs_replay_desc *d)
{
    const double chunk = d->chunk_bytes > 0 ? d->chunk_bytes : 262144;
    double events = t->n_visits + t->n_guesses;
    for (int32_t i = 0; i < t->n_uses; i++)
        events += 1 + fmin((double)t->units[t->uses[i].unit].read_bytes / chunk, 1 << 20);
    return events * (8.0 + t->n_units + t->n_phase_units);
}

/* The least slots it can have, and those that hold everything. */
static inline uint64_t fuzz_trace_bytes(const bs_trace *t, uint64_t *all)
{
    uint64_t least = 0;
    *all = 0;
    for (int32_t u = 0; u < t->n_units; u++) {
        const uint64_t bytes = (t->units[u].slot_bytes + BS_ALIGNMENT - 1) & ~(uint64_t)(BS_ALIGNMENT - 1);
        least = bytes > least ? bytes : least;
        *all += bytes;
    }
    return least;
}

/* Uses visit by visit, no unit twice in a phase or a visit, and visits need units of their phase: what a session
 * records. A profile may say otherwise; then statistics are of nothing. */
static inline bool fuzz_trace_is_plain(const bs_trace *t)
{
    for (int32_t j = 0; j < t->n_phases; j++)
        for (int32_t a = 0; a < t->phases[j].n_units; a++)
            for (int32_t b = 0; b < a; b++)
                if (t->phase_units[t->phases[j].first_unit + a] == t->phase_units[t->phases[j].first_unit + b])
                    return false;
    for (int32_t k = 0; k < t->n_visits; k++) {
        const bs_trace_visit *v = &t->visits[k];
        const bs_trace_phase *s = &t->phases[v->phase];
        if (v->first_use != (k ? v[-1].first_use + v[-1].n_uses : 0))
            return false;
        for (int32_t i = v->first_use; i < v->first_use + v->n_uses; i++) {
            bool found = false;
            for (int32_t u = s->first_unit; u < s->first_unit + s->n_units; u++)
                found = found || t->phase_units[u] == t->uses[i].unit;
            for (int32_t b = v->first_use; b < i; b++)
                found = found && t->uses[b].unit != t->uses[i].unit;
            if (!found)
                return false;
        }
    }
    return true;
}

static inline void fuzz_replay_holds(const bs_trace *t, const bs_replay_desc *d, const bs_replay_result *r)
{
    const bs_stream_stats *s = &r->stats;
    uint64_t used = 0;
    for (int32_t k = 0; k < t->n_visits; k++)
        used += (uint64_t)t->visits[k].n_uses;
    /* In one visit a unit may have gone again before its turn: then it is a use more. */
    FUZZ_PROMISE(s->hits + s->late + s->misses >= used || !fuzz_trace_is_plain(t),
                 "%llu hits, %llu late, %llu misses of %llu uses", (unsigned long long)s->hits,
                 (unsigned long long)s->late, (unsigned long long)s->misses, (unsigned long long)used);
    FUZZ_PROMISE(s->resident_peak_bytes <= d->slot_bytes, "%llu of %llu bytes",
                 (unsigned long long)s->resident_peak_bytes, (unsigned long long)d->slot_bytes);
    FUZZ_PROMISE(r->time_ns >= r->compute_ns && (r->oracle_ns >= r->compute_ns || !fuzz_trace_is_plain(t)),
                 "time %llu, computing %llu, oracle %llu", (unsigned long long)r->time_ns,
                 (unsigned long long)r->compute_ns, (unsigned long long)r->oracle_ns);
    FUZZ_PROMISE(s->useful_guesses <= s->guessed_loads && s->guessed_loads <= s->loads,
                 "%llu useful of %llu guessed of %llu loads", (unsigned long long)s->useful_guesses,
                 (unsigned long long)s->guessed_loads, (unsigned long long)s->loads);
    FUZZ_PROMISE(d->stream.speculation != BS_SPECULATE_OFF || s->guessed_loads == 0, "guesses on demand only");
    for (int32_t p = 0; p < BS_PREDICTOR_COUNT && fuzz_trace_is_plain(t); p++)
        FUZZ_PROMISE(r->predictions[p].right <= r->predictions[p].expected &&
                         r->predictions[p].right <= r->predictions[p].needed,
                     "predictor %d", p);
}

/* Once, in a workspace of exactly the bytes that it asks for. */
static inline bool fuzz_replay(const bs_trace *t, const bs_replay_desc *d, bs_replay_result *result)
{
    bs_error error = {0};
    bs_arena workspace;
    const size_t bytes = bs_replay_bytes(t);
    if (bytes > FUZZ_REPLAY_MOST || (bytes > 0 && fuzz_replay_work(t, d) > FUZZ_WORK_MOST))
        return false;
    uint8_t *memory = aligned_alloc(BS_ALIGNMENT, (bytes / BS_ALIGNMENT + 1) * BS_ALIGNMENT);
    bs_arena_init(&workspace, "workspace", memory, bytes);
    const bs_status status = bs_replay(t, d, &workspace, result, &error);
    FUZZ_PROMISE(workspace.used == 0, "a replay keeps memory");
    if (status == BS_OK)
        fuzz_replay_holds(t, d, result);
    else
        FUZZ_PROMISE(error.status == status && error.message[0] &&
                         (status != BS_ERROR_ARENA || d->slot_bytes < error.needed),
                     "%s", error.message);
    free(memory);
    return status == BS_OK;
}

CHECK_WRAPS static inline void fuzz_replay_all(const bs_trace *t, fuzz_bytes *o)
{
    static const uint64_t speeds[8] = {1, 1000, 1000000, 100000000, 1000000000, 3000000000u, UINT64_MAX, 12345};
    uint64_t all;
    bs_replay_result r, again;
    bs_replay_desc d = {.slot_bytes = fuzz_trace_bytes(t, &all)};
    const uint8_t flags = fuzz_u8(o);
    d.slot_bytes += (all - d.slot_bytes) / 255 * fuzz_u8(o) - (flags >= 250);
    d.bytes_per_second = speeds[flags & 7];
    d.latency_ns = flags & 8 ? fuzz_u32(o) : 0;
    d.prepare_ns_per_byte = flags & 16 ? fuzz_u8(o) / 100.0 : t->prepare_ns_per_byte;
    d.lanes = flags >> 5 & 7;
    d.chunk_bytes = flags & 1 ? 1 + (int32_t)fuzz_u16(o) * 16 : 0;
    uint64_t hits[2] = {0, 0}, most = 0;
    bool comparable = true;
    for (int32_t k = 0; k < 2 * BS_POLICY_COUNT; k++) {
        d.stream = (bs_stream_desc){.policy = k / 2, .speculation = k % 2};
        if (k % 2 == BS_SPECULATE_AUTO && k / 2 != flags % BS_POLICY_COUNT)
            continue; /* one is enough for one input */
        if (!fuzz_replay(t, &d, &r)) {
            comparable = false;
            continue;
        }
        FUZZ_PROMISE(k != (flags & 7) ||
                         (fuzz_replay(t, &d, &again) && again.time_ns == r.time_ns &&
                          again.stats.hits == r.stats.hits && again.stats.bytes_read == r.stats.bytes_read),
                     "a replay is not the same again");
        if (k / 2 == BS_POLICY_BELADY)
            hits[k % 2] = r.stats.hits;
        else if (k % 2 == BS_SPECULATE_OFF)
            most = r.stats.hits > most ? r.stats.hits : most;
    }
    bool plain = comparable; /* Belady's theorem is of units of one size, one a visit */
    for (int32_t u = 1; u < t->n_units; u++)
        plain = plain && t->units[u].slot_bytes == t->units[0].slot_bytes &&
                t->units[u].read_bytes == t->units[0].read_bytes;
    for (int32_t v = 0; v < t->n_visits; v++)
        plain = plain && t->visits[v].n_uses <= 1;
    FUZZ_PROMISE(!plain || hits[BS_SPECULATE_OFF] >= most, "%llu hits beat Belady's %llu", (unsigned long long)most,
                 (unsigned long long)hits[BS_SPECULATE_OFF]);
}

#endif
