/* stream/replay.c - a trace of visits run against any slots, policy and storage, on a scripted clock; and the oracle.
 *
 * The stream decides exactly as in a session; here the clock jumps from event to event. Storage reads one chunk after
 * the other, lanes prepare what arrived, one thread computes. The oracle knows the whole trace: see bs_replay_result.
 * Relies on stream/stream.h. Must never read a real clock. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM) && !defined(BS_NO_REPLAY)

#define REPLAY_MAX_LANES 8
#define REPLAY_MOST 65536 /* units or phases at most */

typedef struct replay_lane {
    bool busy;
    bs_stream_chunk chunk;
    uint64_t start, arrives, done;
    bs_bytes bytes;
} replay_lane;

typedef struct replay {
    const bs_trace *trace;
    const bs_replay_desc *desc;
    bs_stream stream;
    bs_stream_unit *units;
    int32_t *next_position; /* [uses] position of the next use of the same unit; INT32_MAX: none */
    int64_t *future;        /* [units] position of the next use */
    int32_t *wanted;        /* [units] of one visit */
    uint64_t *ready_at; /* [units] of the oracle */
    uint64_t *before;   /* [uses] compute time before each use, its own excluded */
    bool *resident;
    replay_lane lanes[REPLAY_MAX_LANES];
    int32_t n_lanes;
    uint64_t now, device_free, computed;
} replay;

/* ------------------------------------------------------------------------------------------------- reading */

/* A unit's bytes over its chunks; the first chunks have one byte more where division leaves a rest. */
static bs_bytes chunk_bytes_of(const replay *r, int32_t unit, int32_t index)
{
    const uint64_t bytes = bs_bytes_figure(r->units[unit].read_bytes), chunks = (uint64_t)r->units[unit].n_chunks;
    const bs_bytes share = bs_bytes_share(r->units[unit].read_bytes, chunks);
    return bs_bytes_add(share, bs_bytes_of((uint64_t)index < bytes % chunks));
}

/* Times saturate: a profile may say anything, and a clock that wraps would go back. */
static uint64_t whole_ns(double ns) { return ns < 1.8e19 ? (uint64_t)ns : UINT64_MAX; }

static uint64_t device_ns(const replay *r, bs_bytes bytes)
{
    return bs_add_u64(r->desc->latency_ns,
                      whole_ns((double)bs_bytes_figure(bytes) * 1e9 / (double)r->desc->bytes_per_second));
}

static uint64_t prepare_ns(const replay *r, bs_bytes bytes)
{
    return whole_ns((double)bs_bytes_figure(bytes) * r->desc->prepare_ns_per_byte);
}

static void fill_lanes(replay *r)
{
    for (int32_t i = 0; i < r->n_lanes; i++) {
        replay_lane *lane = &r->lanes[i];
        if (lane->busy || !bs_stream_next(&r->stream, r->now, &lane->chunk))
            continue;
        lane->busy = true;
        lane->bytes = chunk_bytes_of(r, lane->chunk.unit, lane->chunk.index);
        lane->start = bs_max_u64(r->now, r->device_free);
        lane->arrives = r->device_free = bs_add_u64(lane->start, device_ns(r, lane->bytes));
        lane->done = bs_add_u64(lane->arrives, prepare_ns(r, lane->bytes));
    }
}

/* The lane with the earliest event, or NULL. */
static replay_lane *next_event(replay *r, uint64_t *when)
{
    replay_lane *first = NULL;
    for (int32_t i = 0; i < r->n_lanes; i++) {
        replay_lane *lane = &r->lanes[i];
        const uint64_t at = lane->chunk.arrived ? lane->done : lane->arrives;
        if (lane->busy && (!first || at < *when)) {
            first = lane;
            *when = at;
        }
    }
    return first;
}

static void pass_event(replay *r, replay_lane *lane, uint64_t when)
{
    r->now = bs_max_u64(when, r->now);
    if (!lane->chunk.arrived) {
        bs_stream_arrived(&r->stream, &lane->chunk, bs_bytes_figure(lane->bytes), lane->arrives - lane->start, r->now);
    } else {
        lane->busy = false;
        bs_stream_done(&r->stream, &lane->chunk, BS_OK, bs_bytes_figure(lane->bytes), lane->done - lane->arrives,
                       r->now);
    }
    fill_lanes(r);
}

static void compute(replay *r, uint64_t ns)
{
    const uint64_t end = bs_add_u64(r->now, ns);
    uint64_t when = 0;
    r->computed = bs_add_u64(r->computed, ns);
    fill_lanes(r);
    for (replay_lane *lane = next_event(r, &when); lane && when <= end; lane = next_event(r, &when))
        pass_event(r, lane, when);
    r->now = end;
}

/* -------------------------------------------------------------------------------------------------- visiting */

/* A use of this visit that is not done and whose unit is ready; waits for one. -1: none will ever be. */
static int32_t take_ready(replay *r, const bs_trace_visit *v, const bool *done)
{
    for (;;) {
        for (int32_t i = 0; i < v->n_uses; i++) {
            bs_bytes offset;
            bs_status failed;
            if (!done[i] && bs_stream_take(&r->stream, r->trace->uses[v->first_use + i].unit, &offset, &failed)) {
                if (r->stream.stalling)
                    bs_stream_resume(&r->stream, r->now);
                return i;
            }
        }
        uint64_t when = 0;
        if (!r->stream.stalling)
            bs_stream_stall(&r->stream, r->now);
        fill_lanes(r);
        replay_lane *lane = next_event(r, &when);
        if (!lane) /* unreachable: with nothing pinned or being read, a needed unit finds room and a lane */
            return -1;
        pass_event(r, lane, when);
    }
}

static bool replay_visit(replay *r, const bs_trace_visit *v, bool *done)
{
    compute(r, v->before_ns);
    for (int32_t i = 0; i < v->n_guesses; i++) {
        const bs_trace_guess *guess = &r->trace->guesses[v->first_guess + i];
        bs_stream_expect(&r->stream, guess->phase, guess->unit, guess->strength);
    }
    for (int32_t i = 0; i < v->n_uses; i++) {
        r->wanted[i] = r->trace->uses[v->first_use + i].unit;
        done[i] = false;
    }
    bs_stream_visit(&r->stream, v->phase, r->wanted, v->n_uses, r->now);
    for (int32_t k = 0; k < v->n_uses; k++) {
        const int32_t i = take_ready(r, v, done);
        if (i < 0) return false; /* unreachable: see take_ready */
        const bs_trace_use *use = &r->trace->uses[v->first_use + i];
        r->future[use->unit] = r->next_position[v->first_use + i];
        done[i] = true;
        compute(r, use->compute_ns);
        bs_stream_release(&r->stream, use->unit);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------- oracle */

/* A schedule that knows the whole trace: as soon as storage is idle it reads what is missing in the order of need, at
 * most `horizon` uses ahead, if something that is needed later can make room. Far horizons never leave storage idle,
 * near ones read the fewest bytes (horizon 0 is Belady's replacement on demand); which is fastest depends on compute
 * and storage. */
typedef struct replay_oracle {
    int32_t horizon;
    int32_t at;      /* the use that is computed or waited for */
    int32_t missing; /* before this use, everything is resident or being read */
    int32_t loading; /* unit, -1 none */
    bool computing;
    uint64_t now, computed, loaded;
    bs_bytes used, bytes;
} replay_oracle;

static void first_positions(replay *r)
{
    for (int32_t u = 0; u < r->trace->n_units; u++)
        r->future[u] = INT32_MAX;
    for (int32_t i = r->trace->n_uses - 1; i >= 0; i--) {
        r->next_position[i] = (int32_t)r->future[r->trace->uses[i].unit];
        r->future[r->trace->uses[i].unit] = i;
    }
}

static int32_t oracle_next_missing(const replay *r, replay_oracle *o)
{
    const int32_t uses = r->trace->n_uses;
    for (o->missing = bs_max_i32(o->missing, o->at); o->missing < uses; o->missing++) {
        const int32_t u = r->trace->uses[o->missing].unit;
        if (!r->resident[u] && u != o->loading)
            break;
    }
    return o->missing < uses && o->missing - o->at <= o->horizon ? r->trace->uses[o->missing].unit : -1;
}

/* Evicts what is needed last until there is room, but nothing that is needed before the unit, nor what is computed. */
static bool oracle_room(replay *r, replay_oracle *o, bs_bytes bytes)
{
    while (bs_bytes_less(r->stream.facts.slot_bytes, bs_bytes_add(o->used, bytes))) {
        int32_t last = -1;
        for (int32_t u = 0; u < r->trace->n_units; u++)
            if (r->resident[u] && !(o->computing && u == r->trace->uses[o->at].unit) &&
                (last < 0 || r->future[u] > r->future[last]))
                last = u;
        if (last < 0 || r->future[last] <= o->missing)
            return false;
        r->resident[last] = false;
        o->used = bs_bytes_sub(o->used, r->units[last].slot_bytes);
    }
    return true;
}

static void oracle_read(replay *r, replay_oracle *o)
{
    const int32_t u = o->loading < 0 ? oracle_next_missing(r, o) : -1;
    if (u < 0 || !oracle_room(r, o, r->units[u].slot_bytes))
        return;
    o->loading = u;
    o->used = bs_bytes_add(o->used, r->units[u].slot_bytes);
    o->bytes = bs_bytes_add(o->bytes, r->units[u].read_bytes);
    o->loaded = o->now;
    for (int32_t c = 0; c < r->units[u].n_chunks; c++)
        o->loaded = bs_add_u64(o->loaded, device_ns(r, chunk_bytes_of(r, u, c)));
}

/* Storage is free, but the unit's last chunk is still to be prepared. */
static void oracle_arrive(replay *r, replay_oracle *o)
{
    const int32_t u = o->loading;
    r->resident[u] = true;
    r->ready_at[u] = bs_add_u64(o->loaded, prepare_ns(r, chunk_bytes_of(r, u, r->units[u].n_chunks - 1)));
    o->loading = -1;
}

static void oracle_compute(replay *r, replay_oracle *o)
{
    const bs_trace_use *use = &r->trace->uses[o->at];
    if (o->computing || !r->resident[use->unit])
        return;
    const uint64_t from = bs_max_u64(o->now, bs_add_u64(o->computed, r->before[o->at]));
    o->computed = bs_add_u64(bs_max_u64(from, r->ready_at[use->unit]), use->compute_ns);
    r->future[use->unit] = r->next_position[o->at];
    o->computing = true;
}

static uint64_t oracle_time(replay *r, int32_t horizon, bs_bytes *bytes)
{
    replay_oracle o = {horizon, 0, 0, -1, false, 0, 0, 0, {0}, {0}};
    memset(r->resident, 0, (size_t)r->trace->n_units * sizeof *r->resident);
    first_positions(r);
    while (o.at < r->trace->n_uses) {
        oracle_compute(r, &o);
        oracle_read(r, &o);
        if (o.loading >= 0 && (!o.computing || o.loaded <= o.computed)) {
            o.now = o.loaded;
            oracle_arrive(r, &o);
        } else if (o.computing) {
            o.now = o.computed;
            o.computing = false;
            o.at++;
        } else {
            return UINT64_MAX; /* this use does not fit */
        }
    }
    *bytes = o.bytes;
    return o.computed;
}

static void oracle(replay *r, bs_replay_result *result)
{
    uint64_t tail = 0;
    memset(r->before, 0, (size_t)r->trace->n_uses * sizeof *r->before);
    for (int32_t k = 0; k < r->trace->n_visits; k++) {
        const bs_trace_visit *v = &r->trace->visits[k];
        tail = bs_add_u64(tail, v->before_ns);
        if (v->n_uses > 0) {
            r->before[v->first_use] = tail;
            tail = 0;
        }
    }
    result->oracle_ns = UINT64_MAX;
    for (int32_t horizon = 0; horizon >= 0 && horizon < 2 * r->trace->n_uses + 2;
         horizon = horizon < 8 ? horizon + 1 : horizon * 2) {
        bs_bytes bytes = bs_bytes_of(0);
        const uint64_t ns = oracle_time(r, horizon, &bytes);
        if (ns < result->oracle_ns - tail || result->oracle_ns == UINT64_MAX) {
            result->oracle_ns = bs_add_u64(ns, tail);
            result->oracle_bytes = bs_bytes_figure(bytes);
        }
    }
}

/* --------------------------------------------------------------------------------------------------- the whole */

/* What is wrong with a trace: the name of a table that refers to what the trace does not have or to what belongs to
 * another phase, and *at, the entry. NULL: nothing is. */
static const char *trace_fault(const bs_trace *t, int32_t *at)
{
    int32_t end = 0; /* of the phase before: tables that learn are indexed by entry */
    for (*at = 0; *at < t->n_phases; ++*at) {
        const bs_trace_phase *s = &t->phases[*at];
        if (s->first_unit < end || s->n_units < 1 || s->n_units > t->n_phase_units - s->first_unit || s->router < 0)
            return "phases";
        end = s->first_unit + s->n_units;
    }
    for (*at = 0; *at < t->n_phase_units; ++*at)
        if (!bs_in_range(t->phase_units[*at], 0, t->n_units))
            return "phase_units";
    for (*at = 0; *at < t->n_visits; ++*at) {
        const bs_trace_visit *v = &t->visits[*at];
        if (!bs_in_range(v->phase, 0, t->n_phases) || v->n_uses > t->n_units ||
            !bs_is_part(v->first_use, v->n_uses, t->n_uses) || !bs_is_part(v->first_guess, v->n_guesses, t->n_guesses))
            return "visits";
    }
    for (*at = 0; *at < t->n_uses; ++*at)
        if (!bs_in_range(t->uses[*at].unit, 0, t->n_units))
            return "uses";
    for (*at = 0; *at < t->n_guesses; ++*at) {
        const bs_trace_guess *g = &t->guesses[*at];
        if (!bs_in_range(g->phase, 0, t->n_phases) || !bs_in_range(g->unit, -1, t->n_units) || g->strength < 0)
            return "guesses";
    }
    return NULL;
}

static bool trace_is_sound(const bs_trace *t, bs_error *error)
{
    int32_t at = 0;
    if (!bs_in_range(t->n_units, 1, REPLAY_MOST + 1) || !bs_in_range(t->n_phases, 1, REPLAY_MOST + 1))
        return bs_refuse(error, BS_ERROR_ARGUMENT,
                         "bs_replay: the trace has %" PRId32 " units, %" PRId32 " phases, expected 1 .. %d", t->n_units,
                         t->n_phases, REPLAY_MOST);
    const char *table = trace_fault(t, &at);
    return !table ||
           bs_refuse(error, BS_ERROR_ARGUMENT,
                     "bs_replay: %s[%" PRId32 "] of the trace refers to what it does not have, or another has", table,
                     at);
}

static bs_bytes least_slots(const bs_trace *t)
{
    bs_bytes least = bs_bytes_of(0);
    for (int32_t u = 0; u < t->n_units; u++)
        least = bs_bytes_max(least, bs_bytes_of(t->units[u].slot_bytes));
    return bs_bytes_align(least);
}

static bs_status replay_check(const bs_trace *t, const bs_replay_desc *d, bs_error *error)
{
    if (!t || !d)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: the trace or the desc is NULL");
    if (!trace_is_sound(t, error))
        return BS_ERROR_ARGUMENT;
    if (d->bytes_per_second == 0 || d->chunk_bytes < 0 || !bs_in_range(d->lanes, 0, REPLAY_MAX_LANES + 1) ||
        !(d->prepare_ns_per_byte >= 0))
        return bs_fail(error, BS_ERROR_ARGUMENT,
                       "bs_replay: bytes_per_second %llu, chunk_bytes %" PRId32 ", lanes %" PRId32
                       ", prepare_ns_per_byte %g, expected "
                       "> 0, >= 0, 0 .. %d, >= 0",
                       (unsigned long long)d->bytes_per_second, d->chunk_bytes, d->lanes, d->prepare_ns_per_byte,
                       REPLAY_MAX_LANES);
    if (!bs_in_range(d->stream.policy, 0, BS_POLICY_COUNT))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: policy %" PRId32 ", expected 0 .. %d", d->stream.policy,
                       BS_POLICY_COUNT - 1);
    if (bs_bytes_less(bs_bytes_of(d->slot_bytes), least_slots(t)))
        return bs_fail_room(error, "slots", d->slot_bytes, least_slots(t), "the largest unit");
    return BS_OK;
}

/* What the stream's memory depends on. */
static bs_stream_facts replay_facts(const bs_trace *t)
{
    const bs_stream_facts facts = {t->n_units,     t->n_phases, t->n_phase_units, NULL, t->phases,
                                   t->phase_units, {0},         {0, 0, 0},        false};
    return facts;
}

/* Returns the stream's memory. */
static void *carve_replay(bs_carver *c, const bs_trace *t, replay *r)
{
    const bs_stream_facts facts = replay_facts(t);
    enum { UNITS, USES };
    static const bs_carved arrays[] = {
        BS_CARVED(replay, units, UNITS),    BS_CARVED(replay, next_position, USES),
        BS_CARVED(replay, future, UNITS),   BS_CARVED(replay, wanted, UNITS),
        BS_CARVED(replay, ready_at, UNITS), BS_CARVED(replay, before, USES),
        BS_CARVED(replay, resident, UNITS),
    };
    const int64_t counts[] = {t->n_units, bs_or_default(t->n_uses, 1)};
    BS_CARVE_ARRAYS(c, r, arrays, counts);
    return bs_carve_bytes(c, bs_stream_bytes(&facts));
}

static bs_bytes replay_bytes(const bs_trace *t)
{
    bs_carver c = {NULL, {0}};
    replay unused;
    bs_carve(&c, 1, sizeof unused);
    carve_replay(&c, t, &unused);
    return c.used;
}

size_t bs_replay_bytes(const bs_trace *t)
{
    size_t bytes = 0;
    return t && trace_is_sound(t, NULL) &&
                   bs_bytes_fit(bs_bytes_add(replay_bytes(t), bs_bytes_of(BS_ALIGNMENT)), SIZE_MAX, &bytes)
               ? bytes
               : 0;
}

static void replay_units(replay *r)
{
    for (int32_t u = 0; u < r->trace->n_units; u++) {
        const bs_bytes bytes = bs_bytes_of(r->trace->units[u].read_bytes);
        const uint64_t chunk = bs_bytes_figure(
            bs_stream_chunk_limit(bytes, bs_bytes_array(bs_or_default(r->desc->chunk_bytes, 262144), 1), r->n_lanes));
        const uint64_t chunks = bs_bytes_figure(bs_bytes_share(bs_bytes_add(bytes, bs_bytes_of(chunk - 1)), chunk));
        r->units[u].slot_bytes = bs_bytes_align(bs_bytes_of(r->trace->units[u].slot_bytes));
        r->units[u].read_bytes = bytes;
        r->units[u].n_chunks = chunks < 1 ? 1 : chunks > 1 << 20 ? 1 << 20 : (int32_t)chunks;
    }
}

/* NULL: the workspace is too small. */
static replay *replay_make(const bs_trace *trace, const bs_replay_desc *desc, bs_arena *workspace, bs_error *error)
{
    bs_carver c = {bs_take(workspace, replay_bytes(trace)), {0}};
    if (!c.base) {
        bs_fail_arena(error, workspace, replay_bytes(trace), "a replay");
        return NULL;
    }
    replay *r = bs_carve(&c, 1, sizeof *r);
    memset(r, 0, sizeof *r);
    r->trace = trace;
    r->desc = desc;
    r->n_lanes = bs_or_default(desc->lanes, 2);
    void *memory = carve_replay(&c, trace, r);
    replay_units(r);
    bs_stream_facts facts = replay_facts(trace);
    facts.units = r->units;
    facts.slot_bytes = bs_bytes_of(desc->slot_bytes);
    facts.desc = desc->stream;
    bs_stream_init(&r->stream, &facts, memory);
    return r;
}

static void sum_predictions(const replay *r, bs_prediction *sums)
{
    for (int32_t j = 0; j < r->trace->n_phases; j++)
        for (int32_t p = 0; p < BS_PREDICTOR_COUNT; p++)
            bs_prediction_add(&sums[p], &r->stream.phases[j].predictions[p]);
}

bs_status bs_replay(const bs_trace *trace, const bs_replay_desc *desc, bs_arena *workspace, bs_replay_result *result,
                    bs_error *error)
{
    const bs_status sound = replay_check(trace, desc, error);
    if (sound != BS_OK)
        return sound;
    if (!workspace || !result)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: the workspace or the result is NULL");
    const size_t mark = workspace->used;
    replay *r = replay_make(trace, desc, workspace, error);
    if (!r)
        return BS_ERROR_ARENA;
    memset(result, 0, sizeof *result);
    oracle(r, result);
    first_positions(r);
    r->stream.future = r->future;
    bool read = true;
    for (int32_t k = 0; k < trace->n_visits && read; k++)
        read = replay_visit(r, &trace->visits[k], r->resident);
    result->stats = r->stream.stats;
    result->stats.guessing = !r->stream.paused && desc->stream.speculation != BS_SPECULATE_OFF;
    sum_predictions(r, result->predictions);
    result->time_ns = r->now;
    result->compute_ns = r->computed;
    workspace->used = mark;
    return read ? BS_OK : BS_ERROR_LIMIT; /* unreachable: see take_ready */
}
#endif
