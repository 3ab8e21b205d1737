/* Promises: whatever the order in which visits, reads and failures come, nothing that is needed goes, nothing half read
 * is published, nothing is read twice for one use, guesses never stand in the way of demand, and every visit can be
 * completed.
 *
 * The state machine is driven directly, by a scripted clock and reader; memory is modelled by marks, one for each 64
 * bytes. */
#include "check.h"
#include "stream/stream.h"

enum { MOST_UNITS = 8, MOST_STAGES = 6, MOST_LANES = 4, MOST_CHUNKS = 6, MOST_MARKS = 256 };

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
    bs_stream_stage stages[MOST_STAGES];
    int32_t uses[MOST_STAGES * MOST_UNITS];
    bs_stream stream;
    known known[MOST_UNITS];
    mark marks[MOST_MARKS];
    lane lanes[MOST_LANES];
    int32_t n_lanes, stage, error_percent;
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
        gave_way;
} coverage;

static world w;
static coverage seen;
static _Alignas(64) uint8_t memory[1 << 18];

static void wrong(const char *why)
{
    if (!w.why)
        w.why = why;
}

static uint64_t figure(bs_bytes bytes) { return bs_bytes_figure(bytes); }
static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static void on_event(void *watcher, bs_event_kind kind, int32_t unit, bool for_guess)
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

static int32_t in_flight_of(int32_t unit)
{
    int32_t count = 0;
    for (int32_t i = 0; i < w.n_lanes; i++)
        count += w.lanes[i].busy && w.lanes[i].chunk.unit == unit;
    return count;
}

static void check_extents(void)
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
static void check_lanes(void)
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

static void check_units(void)
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

static bool demand_has_more(void)
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

static void check_stats(void)
{
    const bs_stream_stats *s = &w.stream.stats;
    if (s->hits + s->late + s->misses != w.asked)
        wrong("uses are not each a hit, late or a miss");
    if (s->bytes_read != w.bytes)
        wrong("bytes read are miscounted");
    if (s->useful_guesses > s->guessed_loads || s->guessed_loads > s->loads)
        wrong("more guesses were useful than were loaded");
}

static void check_all(void)
{
    check_extents();
    check_lanes();
    check_units();
    check_stats();
}

/* ------------------------------------------------------------------------------------------------- the reader */

/* The part of its unit that a chunk fills. */
static void write_marks(const lane *l, int32_t load)
{
    const int32_t u = l->chunk.unit, chunks = w.units[u].n_chunks;
    const int32_t count = (int32_t)(figure(w.units[u].slot_bytes) / BS_ALIGNMENT),
                  first = (int32_t)(figure(l->chunk.offset) / BS_ALIGNMENT);
    for (int32_t m = count * l->chunk.index / chunks; m < count * (l->chunk.index + 1) / chunks; m++)
        w.marks[first + m] = (mark){u, l->chunk.index, load};
}

static void issued(lane *l, const bs_slot_state *before, bool more_demand, bool idle)
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

static bool fill_lane(lane *l)
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

static void arrive(lane *l)
{
    bs_stream_arrived(&w.stream, &l->chunk,
                      figure(w.units[l->chunk.unit].read_bytes) / (uint64_t)w.units[l->chunk.unit].n_chunks,
                      w.now - l->start, w.now);
    w.bytes += figure(w.units[l->chunk.unit].read_bytes) / (uint64_t)w.units[l->chunk.unit].n_chunks;
    write_marks(l, -1); /* half prepared */
}

static void finish(lane *l, bool fails)
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

static bool step_lane(lane *l)
{
    if (!l->busy)
        return fill_lane(l);
    if (!l->chunk.arrived && check_below(2))
        arrive(l);
    else
        finish(l, check_below(100) < w.error_percent);
    return true;
}

/* ----------------------------------------------------------------------------------------------------- the run */

static void leave(void)
{
    bs_stream_leave(&w.stream);
    for (int32_t u = 0; u < w.facts.n_units; u++)
        w.known[u].needed = w.known[u].failed = false;
    w.in_visit = false;
}

static void ask(int32_t unit)
{
    known *k = &w.known[unit];
    k->failed = false;
    k->needed = true;
    w.asked++;
}

static void visit(int32_t stage)
{
    const bs_stream_stage *facts = &w.stages[stage];
    const bool all = facts->router == 0 && check_below(10) > 0, none = check_below(20) == 0;
    int32_t units[MOST_UNITS], count = 0;
    for (int32_t u = 0; u < w.facts.n_units; u++)
        w.known[u].needed = w.known[u].failed = false, w.known[u].guess_loads = 0;
    for (int32_t i = 0; i < facts->n_units && !none; i++)
        if (all || check_below(100) < 45)
            units[count++] = w.uses[facts->first_unit + i];
    for (int32_t i = 0; i < count; i++) {
        const bs_slot *slot = &w.stream.slots[units[i]];
        seen.upgrades += slot->state == BS_SLOT_LOADING && slot->guessed;
        seen.resumed += slot->state == BS_SLOT_DROPPED && !slot->spoiled;
        seen.hits += slot->state == BS_SLOT_READY;
        ask(units[i]);
    }
    memcpy(w.order, units, sizeof units);
    w.n_order = count;
    w.stage = stage;
    w.visits++;
    w.in_visit = true;
    bs_stream_visit(&w.stream, stage, units, count, w.now);
    for (int32_t i = 0; i < facts->n_units; i++) {
        const int32_t u = w.uses[facts->first_unit + i];
        if (w.stream.slots[u].state == BS_SLOT_LOADING && !w.known[u].needed)
            wrong("a guess that was passed by goes on");
    }
}

static void take(int32_t unit)
{
    known *k = &w.known[unit];
    const bool there = w.stream.slots[unit].state == BS_SLOT_READY, failed = k->failed;
    bs_bytes offset = bs_bytes_of(1);
    bs_status status = BS_OK;
    if (!there && !k->needed)
        ask(unit); /* for the second time in this visit */
    const bool taken = bs_stream_take(&w.stream, unit, &offset, &status);
    if (taken != there || (taken && !bs_bytes_same(offset, w.stream.slots[unit].offset)))
        wrong("a unit that is there cannot be taken, or one that is not can");
    if (!taken && (status != BS_OK) != failed)
        wrong("a failed read is not reported, or another one is");
    if (taken) {
        k->pins++;
        k->needed = k->failed = false;
    }
}

static void release(int32_t unit)
{
    bs_stream_release(&w.stream, unit);
    w.known[unit].pins--;
}

static void release_all(void)
{
    for (int32_t u = 0; u < w.facts.n_units; u++)
        while (w.known[u].pins > 0)
            release(u);
}

/* The run stands still: what is there and needed later may have to give way, and is asked for again then. */
static void wait(void)
{
    bs_stream_wait(&w.stream);
    for (int32_t u = 0; u < w.facts.n_units; u++)
        if (w.known[u].needed && !w.stream.slots[u].needed) {
            if (w.stream.slots[u].state != BS_SLOT_READY || w.stream.reading > 0)
                wrong("a need is forgotten");
            w.known[u].needed = false;
            seen.gave_way++;
        }
}

/* Takes what the visit needs next. Returns 1: took it, 0: it has to wait, -1: it failed, 2: nothing is left. */
static int32_t take_next(void)
{
    if (w.n_order == 0)
        return 2;
    const int32_t u = w.order[0];
    take(u);
    if (w.known[u].failed)
        return -1;
    if (w.known[u].needed)
        return 0;
    w.n_order--;
    memmove(w.order, w.order + 1, (size_t)w.n_order * sizeof *w.order);
    return 1;
}

/* A while later: every lane goes on. False when none can. */
static bool step_lanes(void)
{
    bool moved = false;
    w.now += (uint64_t)check_below(50);
    for (int32_t i = 0; i < w.n_lanes; i++)
        moved = step_lane(&w.lanes[i]) || moved;
    check_all();
    return moved;
}

/* As complete_visit, in the order of the visit and never another one first. */
static bool complete_in_order(void)
{
    for (int32_t turn = 0; turn < 4000; turn++) {
        const int32_t taken = take_next();
        if (taken == 2 || taken < 0)
            return true;
        check_all();
        release_all();
        if (taken)
            continue;
        wait();
        if (!step_lanes())
            return false;
    }
    return false;
}

/* Runs the visit to its end: false when it can never end. With a failure it ends as a failed run does. */
static bool complete_visit(void)
{
    for (int32_t turn = 0; turn < 4000; turn++) {
        bool waits = false, moved = false;
        for (int32_t u = 0; u < w.facts.n_units; u++) {
            if (w.known[u].failed) {
                take(u);
                return true;
            }
            if (!w.known[u].needed)
                continue;
            take(u);
            moved = moved || w.known[u].pins > 0;
            waits = waits || w.known[u].needed;
        }
        check_all();
        release_all();
        if (!waits)
            return true;
        if (!step_lanes() && !moved)
            return false;
    }
    return false;
}

static void end_visit(void)
{
    release_all();
    if (!(w.in_order ? complete_in_order() : complete_visit()))
        wrong("a visit can never be completed");
    release_all();
    leave();
}

static void expect(void)
{
    const int32_t stage = check_below(w.facts.n_stages);
    const bs_stream_stage *facts = &w.stages[stage];
    if (facts->router)
        bs_stream_expect(&w.stream, stage,
                         check_below(5) ? w.uses[facts->first_unit + check_below(facts->n_units)] : -1, check_below(8));
}

static void next_stage(void)
{
    if (w.in_visit)
        end_visit();
    w.now += (uint64_t)check_below(3000);
    visit(check_below(25) ? (w.stage + 1) % w.facts.n_stages : check_below(w.facts.n_stages));
}

static void step(void)
{
    const int32_t unit = check_below(w.facts.n_units), what = check_below(100);
    w.now += (uint64_t)check_below(200);
    if (what < 60) {
        step_lane(&w.lanes[check_below(w.n_lanes)]);
    } else if (what < 75 && w.in_visit) {
        if (w.in_order)
            take_next();
        else if (w.known[unit].needed || check_below(8) == 0)
            take(unit);
    } else if (what < 82) {
        if (w.known[unit].pins > 0)
            release(unit);
    } else if (what < 86) {
        expect();
    } else if (what < 96) {
        next_stage();
    } else if (what < 98) { /* the run fails half way */
        release_all();
        leave();
    }
    check_all();
}

/* ----------------------------------------------------------------------------------------------------- worlds */

static void random_stages(void)
{
    int32_t used = 0;
    w.facts.n_stages = 1 + check_below(check_below(4) ? MOST_STAGES : 1);
    for (int32_t j = 0; j < w.facts.n_stages; j++) {
        bs_stream_stage *stage = &w.stages[j];
        *stage = (bs_stream_stage){check_below(2) ? j + 1 : 0, used, 0};
        for (int32_t u = 0; u < w.facts.n_units; u++)
            if (check_below(100) < (stage->router ? 60 : 25))
                w.uses[used++] = u;
        if (used == stage->first_unit)
            w.uses[used++] = check_below(w.facts.n_units);
        stage->n_units = used - stage->first_unit;
    }
    w.facts.n_uses = used;
}

static void random_world(void)
{
    uint64_t largest = 0, all = 0;
    memset(&w, 0, sizeof w);
    w.facts.n_units = 1 + check_below(check_below(4) ? MOST_UNITS : 1);
    const int32_t like = check_below(3); /* sizes: equal, alike, anything */
    for (int32_t u = 0; u < w.facts.n_units; u++) {
        const int32_t blocks = like == 0 ? 6 : like == 1 ? 6 + check_below(3) : 6 + check_below(20);
        w.units[u] = (bs_stream_unit){bs_bytes_array(blocks, BS_ALIGNMENT), bs_bytes_array(blocks, 60),
                                      1 + check_below(MOST_CHUNKS)};
        largest = figure(w.units[u].slot_bytes) > largest ? figure(w.units[u].slot_bytes) : largest;
        all += figure(w.units[u].slot_bytes);
    }
    random_stages();
    w.facts.units = w.units;
    w.facts.stages = w.stages;
    w.facts.uses = w.uses;
    w.facts.slot_bytes = bs_bytes_of(
        check_below(4) == 0
            ? largest
            : largest + (uint64_t)check_below((int32_t)((all - largest) / BS_ALIGNMENT) + 1) * BS_ALIGNMENT);
    w.facts.desc.policy = check_below(BS_POLICY_COUNT);
    w.facts.desc.speculation = check_below(5) ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF;
    w.facts.serial = check_below(4) == 0;
    w.in_order = check_below(3) == 0;
    w.n_lanes = 1 + check_below(MOST_LANES);
    w.error_percent = check_below(2) ? 0 : check_below(30);
    w.stage = w.facts.n_stages - 1;
    w.failing = -1;
    for (int32_t u = 0; u < MOST_UNITS; u++)
        w.future[u] = check_below(1000);
}

static void start_world(void)
{
    if (figure(bs_stream_bytes(&w.facts)) > sizeof memory)
        exit(2);
    memset(memory, 0xC3, sizeof memory);
    bs_stream_init(&w.stream, &w.facts, memory);
    w.stream.watch = on_event;
    w.stream.future = w.facts.desc.policy == BS_POLICY_BELADY ? w.future : NULL;
}

static void test_random(uint64_t seed, int32_t worlds)
{
    int32_t bad = 0;
    memset(&seen, 0, sizeof seen);
    for (int32_t i = 0; i < worlds && bad < 5; i++) {
        check_state = check_mixed(seed + (uint64_t)i);
        random_world();
        start_world();
        int32_t steps = 0;
        while (steps < 600 && !w.why) {
            step();
            steps++;
        }
        w.error_percent = 0; /* the storage is well again */
        for (int32_t k = 0; k < 3 * w.facts.n_stages && !w.why; k++) {
            release_all();
            next_stage();
        }
        if (w.in_visit && !w.why)
            end_visit();
        seen.pauses += (int64_t)w.stream.stats.paused;
        if (w.why) {
            printf("  world %llu, step %d: %s\n", (unsigned long long)(seed + (uint64_t)i), steps, w.why);
            bad++;
        }
    }
    check(bad == 0, "%d random worlds keep every promise", worlds);
    printf(
        "  guesses %lld, upgraded %lld, dropped %lld, taken up again %lld, chunks of dropped loads %lld, evictions "
        "%lld,\n"
        "  failures of guesses %lld, of demands %lld, hits %lld, pauses %lld, gave way %lld\n",
        (long long)seen.guesses, (long long)seen.upgrades, (long long)seen.dropped, (long long)seen.resumed,
        (long long)seen.late_chunks, (long long)seen.evictions, (long long)seen.guess_failed,
        (long long)seen.demand_failed, (long long)seen.hits, (long long)seen.pauses, (long long)seen.gave_way);
    check(seen.guesses && seen.upgrades && seen.dropped && seen.resumed && seen.late_chunks && seen.evictions &&
              seen.guess_failed && seen.demand_failed && seen.hits && seen.pauses && seen.gave_way,
          "and come by everything that can happen");
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    check_seed(seed);
    test_random(seed * 1000000, argc > 2 ? atoi(argv[2]) : 4000);
    return check_end();
}
