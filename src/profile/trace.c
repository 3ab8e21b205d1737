/* profile/trace.c - from a profile's events to what its runs needed from storage.
 * Relies on profile/profile.h. Must never count other than it fills: both passes are the same code.
 *
 * For each phase, the thread that runs emits its uses, stalls and look-aheads, then the phase itself when it is left;
 * and a run when it is over. So what came since the last phase belongs to this one, and the beginning of a run is
 * added to its first visit afterwards. When events were lost, uses may lack their phase: those are left out. */
#include "profile/profile.h"

#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)

enum { BUSY_INTERVALS = 16 };

/* When storage was busy, in disjoint intervals, the latest last. Lanes read at the same time and share the device, so
 * what counts is the time in which any of them read. Events come nearly in the order in which they end, so few
 * intervals stay open. */
typedef struct trace_busy {
    uint64_t start[BUSY_INTERVALS], end[BUSY_INTERVALS];
    int32_t count;
    uint64_t total_ns, bytes;
} trace_busy;

/* A unit's use since the last phase. In breadth-first order a unit may be used by several instructions in turn. */
typedef struct trace_seen {
    uint64_t stretch; /* the stretch of events in which it was used, from 1 */
    int32_t use, rest;
} trace_seen;

typedef struct trace_maker {
    int32_t n_visits, n_uses, n_guesses;
    int32_t most_uses, most_guesses; /* most between two phases, or without a phase */
    int32_t room_visits, room_uses, room_guesses; /* room of each table: the file may change between the passes */
    bs_trace_visit *visits;          /* NULL: the first pass, which counts */
    bs_trace_use *uses;
    bs_trace_guess *guesses;

    trace_seen *seen; /* [units] */
    uint64_t stretch;
    int32_t first_use, first_guess; /* since the last phase */
    int32_t use_phase;              /* phase of those uses */
    uint64_t used_ns, stalled_ns;
    bool has_end;      /* something in this run has ended: end_ns is when */
    uint64_t end_ns;
    int32_t run_visit; /* the first visit of this run; -1: none yet */
    /* when the run began; when its last phase ended; compute time after the last visit of the run before */
    uint64_t run_visit_ns, last_phase_ns, tail_ns;

    trace_busy reads;
    uint64_t prepare_ns, prepare_bytes, lost;
} trace_maker;

/* ------------------------------------------------------------------------------------------ time of storage */

static void busy_retire(trace_busy *b)
{
    b->total_ns = bs_add_u64(b->total_ns, b->end[0] - b->start[0]);
    b->count--;
    memmove(b->start, b->start + 1, (size_t)b->count * sizeof *b->start);
    memmove(b->end, b->end + 1, (size_t)b->count * sizeof *b->end);
}

static void busy_add(trace_busy *b, uint64_t start, uint64_t end, uint64_t bytes)
{
    b->bytes = bs_add_u64(b->bytes, bytes);
    while (b->count > 0 && b->end[b->count - 1] >= start) {
        b->count--;
        start = b->start[b->count] < start ? b->start[b->count] : start;
        end = bs_max_u64(b->end[b->count], end);
    }
    if (b->count == BUSY_INTERVALS)
        busy_retire(b);
    b->start[b->count] = start;
    b->end[b->count++] = end;
}

static double busy_ns_per_byte(trace_busy *b)
{
    while (b->count > 0)
        busy_retire(b);
    return b->bytes ? (double)b->total_ns / (double)b->bytes : 0;
}

/* ---------------------------------------------------------------------------------------- time of computing */

static void forget_uses(trace_maker *m)
{
    m->n_uses = m->first_use;
    m->stretch++;
    m->used_ns = 0;
    m->stalled_ns = 0;
}

/* Uses and stalls of another phase than those before: the end of the earlier phase was lost. */
static void enter_phase(trace_maker *m, int32_t phase)
{
    if (m->use_phase != phase)
        forget_uses(m);
    m->use_phase = phase;
}

static bool trace_add_use(trace_maker *m, const bs_event *e)
{
    enter_phase(m, e->index);
    const uint64_t ns = e->end_ns - e->start_ns;
    trace_seen *seen = &m->seen[e->subject];
    m->used_ns = bs_add_u64(m->used_ns, ns);
    if (seen->stretch == m->stretch) { /* the same use, which took longer */
        if (m->uses)
            m->uses[seen->use].compute_ns = bs_add_u64(m->uses[seen->use].compute_ns, ns);
        return true;
    }
    if (m->n_uses == m->room_uses)
        return false;
    if (m->uses)
        m->uses[m->n_uses] = (bs_trace_use){e->subject, e->value <= BS_USE_MISS ? (int32_t)e->value : -1, ns};
    *seen = (trace_seen){m->stretch, m->n_uses++, 0};
    m->most_uses = bs_max_i32(m->most_uses, m->n_uses);
    return true;
}

static bool trace_add_guess(trace_maker *m, const bs_event *e)
{
    if (m->n_guesses == m->room_guesses)
        return false;
    if (m->guesses)
        m->guesses[m->n_guesses] = (bs_trace_guess){e->index, e->subject, e->value < 7 ? (int32_t)e->value : 7};
    m->n_guesses++;
    m->most_guesses = bs_max_i32(m->most_guesses, m->n_guesses);
    return true;
}

static bool trace_add_visit(trace_maker *m, const bs_event *e)
{
    if (m->n_visits == m->room_visits)
        return false;
    enter_phase(m, e->subject);
    const uint64_t inside = bs_since(e->end_ns - e->start_ns, bs_add_u64(m->used_ns, m->stalled_ns));
    uint64_t before = m->has_end ? bs_since(e->start_ns, m->end_ns) : 0;
    before = bs_add_u64(bs_add_u64(before, inside), m->run_visit < 0 ? m->tail_ns : 0);
    if (m->visits)
        m->visits[m->n_visits] = (bs_trace_visit){e->subject,    m->first_use, m->n_uses - m->first_use,
                                                  m->first_guess, m->n_guesses - m->first_guess, before};
    if (m->run_visit < 0) {
        m->run_visit = m->n_visits;
        m->run_visit_ns = e->start_ns;
        m->tail_ns = 0;
    }
    m->n_visits++;
    m->first_use = m->n_uses;
    m->first_guess = m->n_guesses;
    forget_uses(m);
    m->use_phase = -1;
    m->has_end = true;
    m->end_ns = m->last_phase_ns = e->end_ns;
    return true;
}

/* The event of a run that is over says when it began. One recorded at the beginning (start = end) only sets the
 * clock. */
static void trace_add_run(trace_maker *m, const bs_event *e)
{
    if (m->run_visit >= 0 && m->run_visit_ns >= e->start_ns) {
        if (m->visits) {
            uint64_t *before = &m->visits[m->run_visit].before_ns;
            *before = bs_add_u64(*before, m->run_visit_ns - e->start_ns);
        }
        m->tail_ns = bs_since(e->end_ns, m->last_phase_ns);
    }
    m->run_visit = -1;
    m->has_end = e->start_ns == e->end_ns;
    m->end_ns = e->end_ns;
}

static bool trace_add_event(trace_maker *m, const bs_event *e)
{
    switch (e->kind) {
    case BS_EVENT_RUN: trace_add_run(m, e); break;
    case BS_EVENT_PHASE: return trace_add_visit(m, e);
    case BS_EVENT_USE: return trace_add_use(m, e);
    case BS_EVENT_GUESS: return trace_add_guess(m, e);
    case BS_EVENT_STALL:
        enter_phase(m, e->index);
        m->stalled_ns = bs_add_u64(m->stalled_ns, e->end_ns - e->start_ns);
        break;
    case BS_EVENT_READ: busy_add(&m->reads, e->start_ns, e->end_ns, e->value); break;
    case BS_EVENT_PREPARE:
        m->prepare_ns = bs_add_u64(m->prepare_ns, e->end_ns - e->start_ns);
        m->prepare_bytes = bs_add_u64(m->prepare_bytes, e->value);
        break;
    case BS_EVENT_DROPPED: m->lost = bs_add_u64(m->lost, e->value); break;
    }
    return true;
}

/* --------------------------------------------------------------------------------------------- the two passes */

static bool trace_pass(trace_maker *m, bs_profile_reader *profile, bs_error *error)
{
    bs_event event;
    bs_error wrong;
    m->use_phase = -1;
    m->run_visit = -1;
    m->stretch = 1;
    memset(m->seen, 0, (size_t)bs_profile_tables_of(profile)->n_units * sizeof *m->seen);
    bs_profile_rewind(profile);
    while (bs_profile_next(profile, &event, &wrong))
        if (!trace_add_event(m, &event))
            return bs_refuse(error, BS_ERROR_LIMIT,
                             "profile: more events than a trace can hold, or than there were just now");
    if (wrong.status == BS_OK) {
        forget_uses(m); /* their phase was never left */
        m->n_guesses = m->first_guess;
        return true;
    }
    bs_tell(&wrong, error);
    return false;
}

static bool trace_tables(trace_maker *m, const trace_maker *counted, bs_arena *arena, bs_error *error)
{
    memset(m, 0, sizeof *m);
    m->seen = counted->seen;
    m->room_visits = counted->n_visits;
    m->room_uses = counted->most_uses;
    m->room_guesses = counted->most_guesses;
    m->visits = bs_take_table(arena, (uint64_t)m->room_visits, sizeof *m->visits, "a trace", error);
    m->uses = m->visits ? bs_take_table(arena, (uint64_t)m->room_uses, sizeof *m->uses, "a trace", error) : NULL;
    m->guesses = m->uses ? bs_take_table(arena, (uint64_t)m->room_guesses, sizeof *m->guesses, "a trace", error) : NULL;
    return m->guesses != NULL;
}

static void trace_finish(bs_trace *t, trace_maker *m, const bs_profile_reader *profile)
{
    bs_profile_facts facts;
    const bs_profile_tables *tables = bs_profile_tables_of(profile);
    bs_profile_facts_get(profile, &facts);
    *t = (bs_trace){.n_units = facts.units,
                    .n_phases = facts.phases,
                    .n_phase_units = tables->n_phase_units,
                    .n_visits = m->n_visits,
                    .n_uses = m->n_uses,
                    .n_guesses = m->n_guesses,
                    .units = tables->units,
                    .phases = tables->phases,
                    .phase_units = tables->phase_units,
                    .visits = m->visits,
                    .uses = m->uses,
                    .guesses = m->guesses,
                    .slot_bytes = facts.slot_bytes,
                    .chunk_bytes = facts.chunk_bytes,
                    .lost_events = bs_add_u64(m->lost, facts.torn_bytes > 0),
                    .policy = facts.policy,
                    .speculation = facts.speculation,
                    .ns_per_byte = busy_ns_per_byte(&m->reads)};
    t->prepare_ns_per_byte = m->prepare_bytes ? (double)m->prepare_ns / (double)m->prepare_bytes : 0;
}

bs_status bs_trace_load(bs_arena *arena, const bs_reader *reader, bs_trace *trace, bs_error *error)
{
    bs_error here = {.status = BS_OK};
    trace_maker counted, filled;
    const size_t used = arena ? arena->used : 0;
    if (!trace)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_trace_load: the trace is NULL");
    memset(&counted, 0, sizeof counted);
    counted.room_visits = counted.room_uses = counted.room_guesses = INT32_MAX;
    bs_profile_reader *profile = bs_profile_open(arena, reader, &here);
    if (profile)
        counted.seen = bs_take_table(arena, (uint64_t)bs_profile_tables_of(profile)->n_units, sizeof *counted.seen,
                                     "a trace", &here);
    if (counted.seen && trace_pass(&counted, profile, &here) && trace_tables(&filled, &counted, arena, &here) &&
        trace_pass(&filled, profile, &here)) {
        trace_finish(trace, &filled, profile);
        return BS_OK;
    }
    if (arena)
        arena->used = used;
    return bs_tell(&here, error);
}
#endif
