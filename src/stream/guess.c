/* stream/guess.c - what is worth reading before it is needed.
 *
 * A guess is weighed in time: what it hides if it is right, against what it delays if it is wrong and what the units
 * that it evicts would cost to read again. What is certain to be needed is read ahead only when it would come too late
 * otherwise, since making room early evicts what is needed sooner.
 * Relies on stream/slots.c and stream/predict.c. Must never be called before the first visit, nor while the run waits
 * for something that could be read. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM)

#define STREAM_MARGIN 0.3         /* an uncertain guess must gain more than this share of the time it can hide */
#define STREAM_SLACK 1.25        /* reading may take this much longer than measured */
#define STREAM_LIKELY 0.9        /* needs at least this probable are treated as certain */

/* Time until what the run waits for has been prepared; storage is idle meanwhile. */
static double waiting_for_lanes(const bs_stream *s)
{
    double ns = 0;
    for (int32_t i = 0; i < s->n_needed; i++) {
        const bs_stream_unit *unit = &s->facts.units[s->needed[i]];
        const double chunk = (double)bs_bytes_figure(unit->read_bytes) / unit->n_chunks * s->prepare_per_byte;
        if (s->slots[s->needed[i]].needed && s->slots[s->needed[i]].in_flight > 0 && chunk > ns)
            ns = chunk;
    }
    return ns;
}

/* Time from now until the next visit of the phase `ahead` in order; infinite when a phase on the way was never
 * timed. */
static double time_until(const bs_stream *s, int32_t ahead, uint64_t now)
{
    if (ahead > s->n_timed)
        return (double)INFINITY;
    const double ns = s->until_ns[ahead] + waiting_for_lanes(s);
    const double gone = (double)bs_since(now, s->visit_ns) - (double)bs_stream_stalled(s, now);
    return ns - gone > ns / 8 ? ns - gone : ns / 8; /* longer than usual, or between runs: assume little, but some */
}

/* The time that coming visits lose when a guess of probability p evicts everything that overlaps the place. In a fixed
 * order, what is needed later than the guess would have to make room for it anyway. Where a router decides, waiting
 * may be better: what turns out not to be needed will be a better victim then. */
static double damage(const bs_stream *s, bs_bytes offset, bs_bytes bytes, int32_t ahead, double p)
{
    const double later = p > STREAM_LIKELY ? 1 - p : 1;
    double ns = 0;
    for (int32_t u = bs_slots_overlap(s, offset, bytes, -1); u >= 0; u = bs_slots_overlap(s, offset, bytes, u)) {
        const int32_t far = s->distance[u];
        const double needed = far == 0 ? 0 : bs_predict_use(s, s->order[far], s->next_use[u]);
        const bool spent = s->slots[u].guessed; /* an unused guess: its load would have been in vain */
        if (far <= ahead && needed >= p)
            return (double)INFINITY; /* the victim is needed no later, and is no less likely to be */
        ns += needed * bs_stream_load_ns(s, u) * (far <= ahead || spent ? 1.0 : later);
    }
    return ns;
}

/* How long the demand of the next visit, `until` from now, waits for a chunk of a wrong guess that is still being
 * read. */
static double delay(const bs_stream *s, int32_t unit, double until)
{
    const double read = bs_stream_read_ns(s, unit), chunk = read / s->facts.units[unit].n_chunks;
    return s->miss_rate * (chunk > until ? chunk - until : read > until ? chunk / 2 : 0);
}

typedef enum guess_result { GUESS_ISSUED, GUESS_NOT_WORTH, GUESS_NO_ROOM } guess_result;

/* The best place for this many bytes. It is the same for all guesses that are tried at one time, so it is kept. */
typedef struct guess_place {
    bs_bytes bytes, offset; /* bytes 0: not searched yet */
    bool found;
} guess_place;

static bool find_place(bs_stream *s, bs_bytes bytes, guess_place *place)
{
    if (!bs_bytes_same(place->bytes, bytes))
        place->found = bs_slots_find(s, bytes, &place->offset);
    place->bytes = bytes;
    return place->found;
}

/* The times by which the guesses for a phase are weighed; constant while they are tried one after the other. */
typedef struct guess_time {
    uint64_t now;
    int32_t ahead; /* its place in order */
    double next, until; /* time until the next visit, and until the visit of the guessed phase */
} guess_time;

/* Whether anything of the unit can be read for the next visit of the phase `ahead` in order. */
static bool may_be_guessed(const bs_stream *s, int32_t unit, int32_t ahead)
{
    const bs_slot *slot = &s->slots[unit];
    return slot->state != BS_SLOT_READY && slot->state != BS_SLOT_DROPPED && s->visits >= slot->silent_until &&
           s->distance[unit] == ahead &&
           (slot->state != BS_SLOT_LOADING || slot->issued < s->facts.units[unit].n_chunks);
}

/* p: how likely that visit needs the unit. */
static guess_result try_guess(bs_stream *s, int32_t unit, double p, const guess_time *t, bool may_evict,
                              guess_place *place, bs_stream_chunk *chunk)
{
    const bs_slot *slot = &s->slots[unit];
    const bool begun = slot->state == BS_SLOT_LOADING;
    const double read = bs_stream_load_ns(s, unit);
    /* a guess for a later visit delays the next one even when it is right */
    const double in_the_way = delay(s, unit, t->next) * (t->ahead == 1 ? 1 - p : 1);
    /* an uncertain guess is not made before it is known how long phases take */
    const bool known = p > STREAM_LIKELY || !isinf(t->until);
    const double hidden = !known ? 0 : read < t->until ? read : t->until;
    const double worth = p * hidden - in_the_way;
    if (worth <= (1 - p) * STREAM_MARGIN * hidden || (!begun && slot->guess_visit == s->visits))
        return GUESS_NOT_WORTH;
    if (begun)
        return bs_stream_issue(s, unit, chunk) ? GUESS_ISSUED : GUESS_NOT_WORTH;
    const bs_bytes bytes = s->facts.units[unit].slot_bytes;
    if (!find_place(s, bytes, place) || (!may_evict && bs_slots_overlap(s, place->offset, bytes, -1) >= 0) ||
        worth <= (1 - p) * STREAM_MARGIN * hidden + damage(s, place->offset, bytes, t->ahead, p))
        return GUESS_NO_ROOM;
    bs_slots_begin(s, unit, place->offset, true, t->now);
    return bs_stream_issue(s, unit, chunk) ? GUESS_ISSUED : GUESS_NOT_WORTH;
}

/* Ranks the units of a phase that may be guessed. False: there are none. */
static bool rank_guesses(bs_stream *s, int32_t phase, int32_t ahead)
{
    const bs_stream_phase *facts = &s->facts.phases[phase];
    s->n_ranked = 0;
    for (int32_t k = 0; k < facts->n_units; k++) {
        if (!may_be_guessed(s, s->facts.uses[facts->first_unit + k], ahead))
            continue;
        s->score[k] = bs_predict_use(s, phase, facts->first_unit + k);
        s->ranked[s->n_ranked++] = k;
    }
    bs_rank_begin(s);
    return s->n_ranked > 0;
}

/* Whether some likely need would have to wait if storage did nothing until the next visit. As long as none would,
 * reading for it only evicts earlier than necessary, and may evict what is needed sooner (the "forestall" rule of
 * Kimbrel et al., 1996). */
static bool is_pressed(const bs_stream *s, double next)
{
    double reading = 0;
    for (int32_t ahead = 1; ahead <= s->facts.n_phases; ahead++) {
        const int32_t phase = s->order[ahead];
        const bs_stream_phase *facts = &s->facts.phases[phase];
        for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++) {
            const int32_t unit = s->facts.uses[k];
            const double p = s->slots[unit].state != BS_SLOT_READY && s->distance[unit] == ahead
                                 ? bs_predict_use(s, phase, k)
                                 : 0;
            reading += p > STREAM_LIKELY ? bs_stream_read_ns(s, unit) : 0;
        }
        if (reading > 0 && next + STREAM_SLACK * reading >= next + (s->until_ns[ahead] - s->until_ns[1]))
            return true;
    }
    return false;
}

bool bs_stream_guess(bs_stream *s, uint64_t now, bs_stream_chunk *chunk)
{
    guess_time time = {now, 0, time_until(s, 1, now), 0};
    const bool pressed = is_pressed(s, time.next);
    guess_place place = {{0}, {0}, false};
    for (int32_t ahead = 1; ahead <= s->facts.n_phases; ahead++) {
        const int32_t phase = s->order[ahead];
        const bs_stream_phase *facts = &s->facts.phases[phase];
        if (!rank_guesses(s, phase, ahead))
            continue;
        time.ahead = ahead;
        time.until = time_until(s, ahead, now);
        for (int32_t k = bs_rank_next(s); k >= 0; k = bs_rank_next(s)) {
            const bool may_evict = pressed || s->score[k] <= STREAM_LIKELY;
            const int32_t unit = s->facts.uses[facts->first_unit + k];
            const guess_result result = try_guess(s, unit, s->score[k], &time, may_evict, &place, chunk);
            if (result == GUESS_ISSUED)
                return true;
            if (result == GUESS_NO_ROOM && facts->router == 0)
                return false; /* no room for a later phase either: its needs count less */
        }
    }
    return false;
}
#endif
