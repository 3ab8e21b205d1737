/* stream_world.h - a world around the state machine of streams: units, phases, a scripted clock and reader, memory that
 * is modelled by marks, one for each 64 bytes; and what must hold after every step of it.
 * Owns the world and its own account of it. Relies on check.h, stream/stream.h. Must never: believe the stream's
 * fields, which are looked at only to compare. */
#ifndef BS_TEST_STREAM_WORLD_H
#define BS_TEST_STREAM_WORLD_H

#include "check.h"
#include "stream/stream.h"

enum { MOST_UNITS = 8, MOST_PHASES = 6, MOST_LANES = 4, MOST_CHUNKS = 6, MOST_MARKS = 256 };

/* -------------------------------------------------------------------------------------------------- the world */

typedef struct mark {
    int32_t unit, chunk, load;
} mark;

typedef struct lane {
    bool busy;
    bs_stream_chunk chunk;
    int32_t load;
    uint64_t start;
} lane;

/* What the test knows by itself; the stream's own fields are looked at only to compare. */
typedef struct known {
    int32_t pins, issued, load, load_failed;
    bs_bytes offset;
    bool needed, failed, resident;
    uint64_t silent_until;
    int32_t guess_loads; /* in this visit, since something else than a guess made it go */
} known;

typedef struct world {
    bs_stream_facts facts;
    bs_stream_unit units[MOST_UNITS];
    bs_stream_phase phases[MOST_PHASES];
    int32_t uses[MOST_PHASES * MOST_UNITS];
    bs_stream stream;
    known known[MOST_UNITS];
    mark marks[MOST_MARKS];
    lane lanes[MOST_LANES];
    int32_t n_lanes, phase, error_percent;
    int32_t back[MOST_PHASES]; /* where a run usually goes after this phase, instead of on */
    uint64_t now, visits, asked, bytes;
    int64_t future[MOST_UNITS];
    int32_t failing; /* the unit whose chunk comes back with an error right now; -1 */
    int32_t order[MOST_UNITS], n_order; /* in which the visit's units are used, when no other is taken first */
    bool in_visit, in_order;
    const char *why;
} world;

/* What was seen to happen: a script that stops reaching something must not go unnoticed. */
typedef struct coverage {
    int64_t guesses, upgrades, dropped, resumed, late_chunks, evictions, guess_failed, demand_failed, hits, pauses,
        gave_way, rounds;
} coverage;

static world w;
static coverage seen;
static _Alignas(64) uint8_t memory[1 << 18];

static inline void wrong(const char *why)
{
    if (!w.why)
        w.why = why;
}

static inline uint64_t figure(bs_bytes bytes) { return bs_bytes_figure(bytes); }
static inline bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static inline void on_event(void *watcher, bs_event_kind kind, int32_t unit, bool for_guess)
{
    (void)watcher;
    known *k = &w.known[unit];
    if (k->pins > 0)
        wrong("a unit in use was evicted");
    if (k->needed && w.failing != unit)
        wrong("a unit that the visit needs was evicted");
    if (!for_guess)
        k->guess_loads = 0;
    seen.evictions += kind == BS_EVENT_EVICT;
    seen.dropped += kind == BS_EVENT_DROP;
}

/* ------------------------------------------------------------------------------------------------- invariants */

static inline int32_t in_flight_of(int32_t unit)
{
    int32_t count = 0;
    for (int32_t i = 0; i < w.n_lanes; i++)
        count += w.lanes[i].busy && w.lanes[i].chunk.unit == unit;
    return count;
}

static inline void check_extents(void)
{
    uint64_t used = 0;
    for (int32_t u = 0; u < w.facts.n_units; u++) {
        const bs_slot *a = &w.stream.slots[u];
        if (a->state == BS_SLOT_ABSENT)
            continue;
        used += figure(w.units[u].slot_bytes);
        if (figure(a->offset) % BS_ALIGNMENT ||
            figure(a->offset) + figure(w.units[u].slot_bytes) > figure(w.facts.slot_bytes))
            wrong("an extent lies outside the arena");
        for (int32_t v = 0; v < u; v++)
            if (w.stream.slots[v].state != BS_SLOT_ABSENT &&
                overlap(figure(a->offset), figure(w.units[u].slot_bytes), figure(w.stream.slots[v].offset),
                        figure(w.units[v].slot_bytes)))
                wrong("two extents overlap");
    }
    if (used != figure(w.stream.slots_used) || w.stream.stats.resident_peak_bytes < used)
        wrong("bytes in use are miscounted");
}

/* A lane may still write to the extent of its chunk. */
static inline void check_lanes(void)
{
    int32_t reading = 0, guessing = 0;
    for (int32_t i = 0; i < w.n_lanes; i++) {
        const lane *l = &w.lanes[i];
        if (!l->busy)
            continue;
        reading += !l->chunk.arrived;
        guessing += !l->chunk.arrived && !l->chunk.demanded;
        for (int32_t u = 0; u < w.facts.n_units; u++)
            if (u != l->chunk.unit && w.stream.slots[u].state != BS_SLOT_ABSENT &&
                overlap(figure(l->chunk.offset), figure(w.units[l->chunk.unit].slot_bytes),
                        figure(w.stream.slots[u].offset), figure(w.units[u].slot_bytes)))
                wrong("an extent is used again while a chunk may still be written to it");
        const bs_slot *slot = &w.stream.slots[l->chunk.unit];
        if (slot->state == BS_SLOT_ABSENT || slot->state == BS_SLOT_READY ||
            !bs_bytes_same(slot->offset, l->chunk.offset))
            wrong("a unit with a chunk in flight is published, moved or forgotten");
    }
    if (guessing > 1)
        wrong("demand may have to wait for two chunks of guesses");
    if (reading != w.stream.reading)
        wrong("chunks being read are miscounted");
}

static inline void check_units(void)
{
    for (int32_t u = 0; u < w.facts.n_units; u++) {
        const bs_slot *slot = &w.stream.slots[u];
        const known *k = &w.known[u];
        if (slot->pins != k->pins || slot->in_flight != in_flight_of(u) || slot->needed != k->needed)
            wrong("pins, needs or chunks in flight are miscounted");
        if (k->pins > 0 && slot->state != BS_SLOT_READY)
            wrong("a unit in use is not there");
        if (slot->state != BS_SLOT_READY)
            continue;
        const uint64_t first = figure(slot->offset) / BS_ALIGNMENT,
                       count = figure(w.units[u].slot_bytes) / BS_ALIGNMENT;
        bool chunks[MOST_CHUNKS] = {false};
        for (uint64_t m = first; m < first + count; m++) {
            if (w.marks[m].unit != u || w.marks[m].load != k->load)
                wrong("a unit is ready, but not all of its bytes are of this load");
            chunks[w.marks[m].chunk] = true;
        }
        for (int32_t c = 0; c < w.units[u].n_chunks; c++)
            if (!chunks[c])
                wrong("a unit is ready without one of its chunks");
    }
}

static inline bool demand_has_more(void)
{
    for (int32_t u = 0; u < w.facts.n_units; u++) {
        const known *k = &w.known[u];
        const bs_slot_state state = w.stream.slots[u].state;
        if (k->needed && !k->failed && state != BS_SLOT_READY &&
            (state != BS_SLOT_LOADING || k->issued < w.units[u].n_chunks))
            return true;
    }
    return false;
}

static inline void check_stats(void)
{
    const bs_stream_stats *s = &w.stream.stats;
    if (s->hits + s->late + s->misses != w.asked)
        wrong("uses are not each a hit, late or a miss");
    if (s->bytes_read != w.bytes)
        wrong("bytes read are miscounted");
    if (s->useful_guesses > s->guessed_loads || s->guessed_loads > s->loads)
        wrong("more guesses were useful than were loaded");
}

/* All phases are expected once, none before those that come earlier, and a unit by the first phase that lists it. */
static inline void check_order(void)
{
    const bs_stream *s = &w.stream;
    bool listed[MOST_PHASES] = {false}, met[MOST_UNITS] = {false};
    for (int32_t d = 1; d <= w.facts.n_phases; d++) {
        const int32_t phase = s->order[d];
        if (phase < 0 || phase >= w.facts.n_phases || listed[phase]) {
            wrong("a phase is expected twice, or there is none");
            return;
        }
        listed[phase] = true;
        if (!(s->after[d] >= d && s->until_ns[d] >= 0) ||
            (d > 1 && (s->after[d] < s->after[d - 1] + 1 || s->until_ns[d] < s->until_ns[d - 1])))
            wrong("what is expected later comes earlier");
        for (int32_t k = w.phases[phase].first_unit; k < w.phases[phase].first_unit + w.phases[phase].n_units; k++) {
            if (!met[w.uses[k]] && (s->distance[w.uses[k]] != d || s->next_use[w.uses[k]] != k))
                wrong("a unit is expected elsewhere than where it is needed next");
            met[w.uses[k]] = true;
        }
    }
}

static inline void check_all(void)
{
    check_order();
    check_extents();
    check_lanes();
    check_units();
    check_stats();
}

/* ------------------------------------------------------------------------------------------------- the reader */

/* The part of its unit that a chunk fills. */
static inline void write_marks(const lane *l, int32_t load)
{
    const int32_t u = l->chunk.unit, chunks = w.units[u].n_chunks;
    const int32_t count = (int32_t)(figure(w.units[u].slot_bytes) / BS_ALIGNMENT),
                  first = (int32_t)(figure(l->chunk.offset) / BS_ALIGNMENT);
    for (int32_t m = count * l->chunk.index / chunks; m < count * (l->chunk.index + 1) / chunks; m++)
        w.marks[first + m] = (mark){u, l->chunk.index, load};
}

static inline void issued(lane *l, const bs_slot_state *before, bool more_demand, bool idle)
{
    const bs_stream_chunk *c = &l->chunk;
    known *k = &w.known[c->unit];
    if (before[c->unit] == BS_SLOT_READY)
        wrong("a unit that is there is read again");
    if (c->index == 0) {
        if (before[c->unit] != BS_SLOT_ABSENT)
            wrong("a chunk is read twice for one use");
        k->load++;
        k->offset = c->offset;
        k->issued = 0;
        k->guess_loads += !c->demanded;
        if (k->guess_loads > 1)
            wrong("guesses evict each other and are read again and again");
    }
    if (c->index != k->issued || !bs_bytes_same(c->offset, k->offset) || c->index >= w.units[c->unit].n_chunks)
        wrong("a load does not go on where it stood");
    k->issued = c->index + 1;
    if (c->demanded != k->needed)
        wrong("a chunk is issued for a guess that is a demand, or the other way round");
    if (!c->demanded && (more_demand || !idle))
        wrong("a guess is read while a demand, or storage, has something to do");
    if (!c->demanded && w.facts.desc.speculation == BS_SPECULATE_OFF)
        wrong("a guess is read with speculation off");
    if (!c->demanded && w.visits < k->silent_until)
        wrong("a unit that could not be read is guessed right away");
    if (w.facts.serial && in_flight_of(c->unit) > 1)
        wrong("two chunks of a unit at a time, where only one may be");
    seen.guesses += !c->demanded;
    l->load = k->load;
    l->start = w.now;
}

static inline bool fill_lane(lane *l)
{
    bs_slot_state before[MOST_UNITS];
    const bool more = demand_has_more(), idle = w.stream.reading == 0;
    for (int32_t u = 0; u < w.facts.n_units; u++)
        before[u] = w.stream.slots[u].state;
    if (l->busy || !bs_stream_next(&w.stream, w.now, &l->chunk))
        return false;
    l->busy = true;
    issued(l, before, more, idle);
    return true;
}

static inline void arrive(lane *l)
{
    bs_stream_arrived(&w.stream, &l->chunk,
                      figure(w.units[l->chunk.unit].read_bytes) / (uint64_t)w.units[l->chunk.unit].n_chunks,
                      w.now - l->start, w.now);
    w.bytes += figure(w.units[l->chunk.unit].read_bytes) / (uint64_t)w.units[l->chunk.unit].n_chunks;
    write_marks(l, -1); /* half prepared */
}

static inline void finish(lane *l, bool fails)
{
    const int32_t u = l->chunk.unit;
    known *k = &w.known[u];
    const bool dropped = w.stream.slots[u].state == BS_SLOT_DROPPED;
    const uint64_t bytes = figure(w.units[u].read_bytes) / (uint64_t)w.units[u].n_chunks;
    l->busy = false;
    write_marks(l, fails ? -1 : l->load);
    w.failing = fails ? u : -1;
    const bool complete = bs_stream_done(&w.stream, &l->chunk, fails ? BS_ERROR_IO : BS_OK, bytes, w.now - l->start,
                                         w.now);
    w.failing = -1;
    seen.late_chunks += dropped;
    if (complete && (dropped || fails))
        wrong("what was given up is published");
    if (complete != (w.stream.slots[u].state == BS_SLOT_READY))
        wrong("a unit is published without a word");
    if (fails && !dropped) {
        k->failed = k->needed;
        k->silent_until = w.visits + 10;
        seen.demand_failed += k->needed;
        seen.guess_failed += !k->needed;
    }
}

static inline bool step_lane(lane *l)
{
    if (!l->busy)
        return fill_lane(l);
    if (!l->chunk.arrived && check_below(2))
        arrive(l);
    else
        finish(l, check_below(100) < w.error_percent);
    return true;
}

#endif
