/* stream/stream.c - the queue: what is read next.
 *
 * Demand always goes first: while a unit that the visit in progress needs is not there, nothing is read for a guess.
 * Guesses fill the time in which storage would be idle (stream/guess.c). A load for a visit that turns out not to need
 * it is dropped; a guess that turns out to be needed becomes demand and goes on; nothing is read twice for one use.
 * When guessing loses more than it gains over a window of visits, it pauses, for longer each time; predictors go on
 * being measured meanwhile.
 * Threads read the clock before they take the lock, so a time may lie a little before the visit: it counts as the
 * visit's beginning.
 * Relies on stream/slots.c, stream/predict.c and stream/guess.c. Must never wait. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM)

#define STREAM_WINDOW 64         /* visits over which guessing must pay */
#define STREAM_LONGEST_PAUSE 4096 /* in visits */
#define STREAM_SILENCE 64        /* after a failed read a unit is not guessed for this many visits */

/* ------------------------------------------------------------------------------------------------ making one */

static int32_t most_of_a_phase(const bs_stream_facts *f)
{
    int32_t most = 0;
    for (int32_t j = 0; j < f->n_phases; j++)
        most = bs_max_i32(most, f->phases[j].n_units);
    return most;
}

static void carve_stream(bs_carver *c, const bs_stream_facts *f, bs_stream *s)
{
    enum { UNITS, PHASES, USES, MOST, PLACES };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_stream, slots, UNITS),     BS_CARVED(bs_stream, phases, PHASES),
        BS_CARVED(bs_stream, rate, USES),       BS_CARVED(bs_stream, recent, USES),
        BS_CARVED(bs_stream, interval, USES),   BS_CARVED(bs_stream, deviation, USES),
        BS_CARVED(bs_stream, needed_at, USES),  BS_CARVED(bs_stream, score, MOST),
        BS_CARVED(bs_stream, follows, MOST),    BS_CARVED(bs_stream, ranked, MOST),
        BS_CARVED(bs_stream, chosen, USES),     BS_CARVED(bs_stream, expected, USES),
        BS_CARVED(bs_stream, distance, UNITS),  BS_CARVED(bs_stream, next_use, UNITS),
        BS_CARVED(bs_stream, needed, UNITS),    BS_CARVED(bs_stream, present, UNITS),
        BS_CARVED(bs_stream, by_offset, UNITS), BS_CARVED(bs_stream, order, PLACES),
        BS_CARVED(bs_stream, after, PLACES),    BS_CARVED(bs_stream, until_ns, PLACES),
    };
    const int64_t counts[] = {f->n_units, f->n_phases, f->n_uses, most_of_a_phase(f), (int64_t)f->n_phases + 1};
    BS_CARVE_ARRAYS(c, s, arrays, counts);
    s->transitions = bs_carve_bytes(c, bs_predict_tables(f, NULL));
}

bs_bytes bs_stream_bytes(const bs_stream_facts *facts)
{
    bs_carver c = {NULL, {0}};
    bs_stream unused;
    carve_stream(&c, facts, &unused);
    return c.used;
}

void bs_stream_init(bs_stream *s, const bs_stream_facts *facts, void *memory)
{
    bs_carver c = {memory, {0}};
    memset(memory, 0, (size_t)bs_bytes_figure(bs_stream_bytes(facts)));
    memset(s, 0, sizeof *s);
    s->facts = *facts;
    carve_stream(&c, facts, s);
    bs_predict_tables(facts, s->phases);
    for (int32_t j = 0; j < facts->n_phases; j++) {
        bs_phase_state *phase = &s->phases[j];
        phase->compute_ns = -1;
        for (int32_t r = 0; r < 2 * BS_STRENGTHS; r++)
            phase->ahead_in[r / 2][r % 2] = 0.5;
        phase->ahead_out = 0.1;
        phase->error_transition = phase->error_frequency = phase->error_rate = phase->error_recent = 0.25;
        for (int32_t k = facts->phases[j].first_unit; k < facts->phases[j].first_unit + facts->phases[j].n_units; k++)
            s->rate[k] = s->recent[k] = facts->phases[j].router ? 0.25 : 1;
    }
    for (int32_t u = 0; u < facts->n_units; u++)
        s->slots[u].evicted_for = -1;
    s->miss_rate = 1; /* until it is known that visits need not wait, assume that guesses delay them */
    s->phase = -1;
    s->following = s->routed = -1;
    s->window_end = STREAM_WINDOW;
    s->pause_visits = STREAM_WINDOW;
    bs_predict_distances(s);
}

/* ------------------------------------------------------------------------------------------- does guessing pay? */

/* At the end of a window decides whether guessing goes on, pauses, or is tried again. */
static void close_window(bs_stream *s)
{
    if (s->visits < s->window_end)
        return;
    const bool pays = s->gained_ns >= s->lost_ns, pauses = !s->paused && !pays;
    s->window_end = s->visits + (pauses ? s->pause_visits : STREAM_WINDOW);
    if (pauses)
        s->pause_visits = s->pause_visits < STREAM_LONGEST_PAUSE ? s->pause_visits * 2 : s->pause_visits;
    else if (!s->paused)
        s->pause_visits = STREAM_WINDOW;
    s->stats.paused += pauses;
    s->paused = pauses;
    s->gained_ns = s->lost_ns = 0;
}

/* ----------------------------------------------------------------------------------------------------- visits */

static void end_phase_time(bs_stream *s, uint64_t now)
{
    if (s->phase < 0)
        return;
    bs_phase_state *phase = &s->phases[s->phase];
    const double ns = (double)bs_since(now, s->visit_ns) - (double)s->stalled_ns;
    const double compute = ns > 0 ? ns : 0;
    phase->compute_ns = phase->compute_ns < 0 ? compute : phase->compute_ns + (compute - phase->compute_ns) / 8;
}

/* Reading time that a guess spares the visit. */
static double spared(const bs_stream *s, int32_t unit, uint64_t now)
{
    const bs_slot *slot = &s->slots[unit];
    const double load = bs_stream_load_ns(s, unit), gone = (double)bs_since(now, slot->load_start);
    return slot->state == BS_SLOT_READY || gone > load ? load : gone;
}

/* A visit needs the unit: records how far it is loaded; an unfinished guess becomes demand and goes on. */
static void demand(bs_stream *s, int32_t unit, uint64_t now)
{
    bs_slot *slot = &s->slots[unit];
    slot->needed = true;
    slot->failed = BS_OK;
    if (slot->state == BS_SLOT_DROPPED && !slot->spoiled)
        slot->state = BS_SLOT_LOADING; /* taken up again before its last chunk came back */
    slot->outcome = slot->state == BS_SLOT_READY     ? BS_USE_HIT
                    : slot->state == BS_SLOT_LOADING ? BS_USE_LATE
                                                     : BS_USE_MISS;
    s->stats.hits += slot->outcome == BS_USE_HIT;
    s->stats.late += slot->outcome == BS_USE_LATE;
    s->stats.misses += slot->outcome == BS_USE_MISS;
    if (slot->guessed)
        s->gained_ns += spared(s, unit, now);
    /* Only a wrong guess costs something: a right one would have had to make room anyway. Half, when this unit is back
     * already because another guess read it. */
    if (slot->evicted_for >= 0 && !s->slots[slot->evicted_for].guess_used)
        s->lost_ns += bs_stream_load_ns(s, unit) * (slot->outcome == BS_USE_MISS ? 1 : 0.5);
    slot->evicted_for = -1;
    s->served = 0; /* the units counted there may be needed again */
    if (slot->listed)
        return; /* a second time in one visit */
    slot->listed = true;
    s->needed[s->n_needed++] = unit;
}

/* Gives up loads that were begun for this visit, when it does not need them. */
static void drop_passed(bs_stream *s)
{
    const bs_stream_phase *phase = &s->facts.phases[s->phase];
    for (int32_t k = phase->first_unit; k < phase->first_unit + phase->n_units; k++) {
        const int32_t unit = s->facts.uses[k];
        if (s->slots[unit].state == BS_SLOT_LOADING && !s->slots[unit].needed)
            bs_slots_give_up(s, unit, -1);
    }
}

void bs_stream_visit(bs_stream *s, int32_t phase, const int32_t *units, int32_t count, uint64_t now)
{
    bs_stream_leave(s);
    end_phase_time(s, now);
    bs_ahead_learn(s, phase);
    bs_predict_visit(s, phase, units, count);
    s->phase = phase;
    s->visits++;
    s->visit_ns = now;
    s->stalled_ns = 0;
    close_window(s);
    for (int32_t i = 0; i < count; i++)
        if (!s->slots[units[i]].needed)
            demand(s, units[i], now);
    bs_predict_distances(s);
    drop_passed(s);
    int32_t missing = 0;
    for (int32_t i = 0; i < s->n_needed; i++)
        missing += s->slots[s->needed[i]].state != BS_SLOT_READY;
    s->miss_rate += ((missing > 0) - s->miss_rate) / 32;
}

void bs_stream_expect(bs_stream *s, int32_t phase, int32_t unit, int32_t strength)
{
    const bs_stream_phase *facts = &s->facts.phases[phase];
    if (!s->phases[phase].predicted)
        for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++)
            s->expected[k] = 0;
    s->phases[phase].predicted = true;
    for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++)
        if (s->facts.uses[k] == unit)
            s->expected[k] = (uint8_t)bs_max_i32(s->expected[k], 1 + bs_clamp_i32(strength, 0, BS_STRENGTHS - 1));
}

int32_t bs_stream_strength(bs_stream *s, int32_t phase, double margin)
{
    static const double limits[BS_STRENGTHS - 1] = {0.125, 0.25, 0.5, 1, 1.5, 2, 3};
    double *usual = &s->phases[phase].margin;
    int32_t strength = 0;
    if (!(margin >= 0) || isinf(margin))
        return 0;
    while (strength < BS_STRENGTHS - 1 && margin > limits[strength] * *usual)
        strength++;
    *usual += (margin - *usual) / (*usual > 0 ? 64 : 1);
    return strength;
}

bool bs_stream_take(bs_stream *s, int32_t unit, bs_bytes *offset, bs_status *failed)
{
    bs_slot *slot = &s->slots[unit];
    *failed = slot->needed ? slot->failed : BS_OK;
    if (slot->state != BS_SLOT_READY) {
        if (!slot->needed) /* it was used and evicted, and is needed again in the same visit */
            demand(s, unit, s->visit_ns);
        return false;
    }
    if (slot->guessed) {
        s->stats.useful_guesses++;
        slot->guess_used = true;
    }
    slot->guessed = false;
    slot->needed = false;
    slot->pins++;
    const double age = (double)(s->takes - slot->last_use) / (8.0 * s->facts.n_units);
    slot->frequency = slot->frequency * exp2(-age) + 1;
    slot->last_use = ++s->takes;
    *offset = slot->offset;
    return true;
}

/* Needed, but not there yet; a unit whose read failed never will be. */
static bool outstanding(const bs_slot *slot)
{
    return slot->needed && slot->state != BS_SLOT_READY && slot->failed == BS_OK;
}

/* When units of one visit are used one after the other, the next ones may leave no room for the first. */
void bs_stream_wait(bs_stream *s)
{
    bool blocked = false;
    for (int32_t u = 0; u < s->facts.n_units; u++)
        if (s->slots[u].in_flight > 0 || s->slots[u].pins > 0)
            return; /* something will change anyway */
    for (int32_t i = 0; i < s->n_needed; i++) {
        const int32_t unit = s->needed[i];
        const bs_slot *slot = &s->slots[unit];
        bs_bytes offset;
        if (!outstanding(slot))
            continue;
        if (slot->state != BS_SLOT_ABSENT || bs_slots_find(s, s->facts.units[unit].slot_bytes, &offset))
            return; /* it can be read */
        blocked = true;
    }
    for (int32_t i = 0; blocked && i < s->n_needed; i++)
        if (s->slots[s->needed[i]].state == BS_SLOT_READY)
            s->slots[s->needed[i]].needed = false;
}

void bs_stream_release(bs_stream *s, int32_t unit)
{
    s->slots[unit].pins--;
}

void bs_stream_leave(bs_stream *s)
{
    for (int32_t i = 0; i < s->n_needed; i++)
        s->slots[s->needed[i]].needed = s->slots[s->needed[i]].listed = false;
    s->n_needed = s->served = 0;
}

void bs_stream_stall(bs_stream *s, uint64_t now)
{
    s->stalling = true;
    s->stall_ns = now;
}

uint64_t bs_stream_stalled(const bs_stream *s, uint64_t now)
{
    return bs_add_u64(s->stalled_ns, s->stalling ? bs_since(now, s->stall_ns) : 0);
}

void bs_stream_resume(bs_stream *s, uint64_t now)
{
    s->stats.stall_ns = bs_add_u64(s->stats.stall_ns, bs_stream_stalled(s, now) - s->stalled_ns);
    s->stalled_ns = bs_stream_stalled(s, now);
    s->stalling = false;
}

/* ------------------------------------------------------------------------------------------------ what to read */

bool bs_stream_issue(bs_stream *s, int32_t unit, bs_stream_chunk *chunk)
{
    bs_slot *slot = &s->slots[unit];
    if (slot->state != BS_SLOT_LOADING || slot->issued >= s->facts.units[unit].n_chunks ||
        (s->facts.serial && slot->in_flight > 0))
        return false;
    chunk->unit = unit;
    chunk->index = slot->issued++;
    chunk->demanded = slot->needed;
    chunk->offset = slot->offset;
    chunk->arrived = false;
    slot->in_flight++;
    s->reading++;
    return true;
}

/* A chunk of what the visit waits for. *waiting: something is left to read, but there is no room, or not yet. */
static bool next_demand(bs_stream *s, uint64_t now, bs_stream_chunk *chunk, bool *waiting)
{
    *waiting = false;
    while (s->served < s->n_needed && !outstanding(&s->slots[s->needed[s->served]]))
        s->served++;
    for (int32_t i = s->served; i < s->n_needed; i++) {
        const int32_t unit = s->needed[i];
        const bs_slot *slot = &s->slots[unit];
        bs_bytes offset;
        if (!outstanding(slot))
            continue;
        if (slot->state == BS_SLOT_ABSENT && bs_slots_find(s, s->facts.units[unit].slot_bytes, &offset))
            bs_slots_begin(s, unit, offset, false, now);
        if (bs_stream_issue(s, unit, chunk))
            return true;
        *waiting = *waiting || slot->state != BS_SLOT_LOADING || slot->issued < s->facts.units[unit].n_chunks;
    }
    return false;
}

bool bs_stream_next(bs_stream *s, uint64_t now, bs_stream_chunk *chunk)
{
    bool waiting;
    if (next_demand(s, now, chunk, &waiting))
        return true;
    if (waiting || s->reading > 0 || s->facts.desc.speculation == BS_SPECULATE_OFF || s->paused ||
        s->read_per_byte <= 0)
        return false;
    return bs_stream_guess(s, now, chunk);
}

/* ---------------------------------------------------------------------------------------------- what was read */

static void measure(double *per_byte, uint64_t bytes, uint64_t ns)
{
    const double sample = bytes ? (double)ns / (double)bytes : 0;
    if (bytes)
        *per_byte = *per_byte > 0 ? *per_byte + (sample - *per_byte) / 16 : sample;
}

static void chunk_failed(bs_stream *s, int32_t unit, bs_status status)
{
    bs_slot *slot = &s->slots[unit];
    if (slot->needed && slot->state == BS_SLOT_LOADING) /* else the visit waits for a new load, which may succeed */
        slot->failed = status;
    slot->silent_until = s->visits + STREAM_SILENCE;
    slot->spoiled = true;
    if (slot->state == BS_SLOT_LOADING)
        bs_slots_give_up(s, unit, -1);
}

/* Measures how long demand had to wait for a wrong guess that the visit found being read. */
static void measure_delay(bs_stream *s, const bs_stream_chunk *chunk, uint64_t ns, uint64_t now)
{
    const uint64_t gone = bs_since(now, s->visit_ns);
    if (chunk->demanded || s->slots[chunk->unit].needed || gone > ns) /* gone > ns: issued after the visit began */
        return;
    for (int32_t i = 0; i < s->n_needed; i++)
        if (s->slots[s->needed[i]].needed && s->slots[s->needed[i]].outcome == BS_USE_MISS) {
            s->stats.delayed_ns = bs_add_u64(s->stats.delayed_ns, gone);
            s->lost_ns += (double)gone;
            return;
        }
}

void bs_stream_arrived(bs_stream *s, bs_stream_chunk *chunk, uint64_t bytes, uint64_t ns, uint64_t now)
{
    chunk->arrived = true;
    s->reading--;
    s->stats.bytes_read = bs_add_u64(s->stats.bytes_read, bytes);
    s->stats.read_ns = bs_add_u64(s->stats.read_ns, ns);
    measure(&s->read_per_byte, bytes, ns);
    measure_delay(s, chunk, ns, now);
}

bool bs_stream_done(bs_stream *s, bs_stream_chunk *chunk, bs_status status, uint64_t bytes, uint64_t ns, uint64_t now)
{
    bs_slot *slot = &s->slots[chunk->unit];
    if (!chunk->arrived)
        bs_stream_arrived(s, chunk, 0, 0, now);
    s->stats.prepare_ns = bs_add_u64(s->stats.prepare_ns, ns);
    if (status == BS_OK)
        measure(&s->prepare_per_byte, bytes, ns);
    slot->in_flight--;
    slot->done += status == BS_OK; /* counts for a dropped load, too: it may be resumed */
    if (status != BS_OK)
        chunk_failed(s, chunk->unit, status);
    if (slot->state == BS_SLOT_DROPPED && slot->in_flight == 0)
        bs_slots_give_up(s, chunk->unit, -1);
    if (slot->state != BS_SLOT_LOADING || slot->done < s->facts.units[chunk->unit].n_chunks)
        return false;
    slot->state = BS_SLOT_READY;
    s->stats.loads++;
    s->stats.guessed_loads += slot->guessed;
    return true;
}
#endif
