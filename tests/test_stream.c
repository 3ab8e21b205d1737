/* tags: asan */
/* Promises: whatever the order in which visits, reads and failures come, nothing that is needed goes, nothing half read
 * is published, nothing is read twice for one use, guesses never stand in the way of demand, and every visit can be
 * completed.
 *
 * The state machine is driven directly, in worlds of stream_world.h. */
#include "stream_world.h"

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

static void visit(int32_t phase)
{
    const bs_stream_phase *facts = &w.phases[phase];
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
    w.phase = phase;
    w.visits++;
    w.in_visit = true;
    bs_stream_visit(&w.stream, phase, units, count, w.now);
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
    const int32_t phase = check_below(w.facts.n_phases);
    const bs_stream_phase *facts = &w.phases[phase];
    if (facts->router)
        bs_stream_expect(&w.stream, phase,
                         check_below(5) ? w.uses[facts->first_unit + check_below(facts->n_units)] : -1, check_below(8));
}

static void next_phase(void)
{
    if (w.in_visit)
        end_visit();
    w.now += (uint64_t)check_below(3000);
    const bool round = w.back[w.phase] >= 0 && check_below(3);
    seen.rounds += round;
    visit(!check_below(25) ? check_below(w.facts.n_phases)
          : round          ? w.back[w.phase]
                           : (w.phase + 1) % w.facts.n_phases);
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
        next_phase();
    } else if (what < 98) { /* the run fails half way */
        release_all();
        leave();
    }
    check_all();
}

/* ----------------------------------------------------------------------------------------------------- worlds */

static void random_phases(void)
{
    int32_t used = 0;
    w.facts.n_phases = 1 + check_below(check_below(4) ? MOST_PHASES : 1);
    for (int32_t j = 0; j < w.facts.n_phases; j++) {
        bs_stream_phase *phase = &w.phases[j];
        *phase = (bs_stream_phase){check_below(2) ? j + 1 : 0, used, 0};
        for (int32_t u = 0; u < w.facts.n_units; u++)
            if (check_below(100) < (phase->router ? 60 : 25))
                w.uses[used++] = u;
        if (used == phase->first_unit)
            w.uses[used++] = check_below(w.facts.n_units);
        phase->n_units = used - phase->first_unit;
        w.back[j] = check_below(4) ? -1 : check_below(j + 1);
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
    random_phases();
    w.facts.units = w.units;
    w.facts.phases = w.phases;
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
    w.phase = w.facts.n_phases - 1;
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
        for (int32_t k = 0; k < 3 * w.facts.n_phases && !w.why; k++) {
            release_all();
            next_phase();
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
        "  failures of guesses %lld, of demands %lld, hits %lld, pauses %lld, gave way %lld, rounds %lld\n",
        (long long)seen.guesses, (long long)seen.upgrades, (long long)seen.dropped, (long long)seen.resumed,
        (long long)seen.late_chunks, (long long)seen.evictions, (long long)seen.guess_failed,
        (long long)seen.demand_failed, (long long)seen.hits, (long long)seen.pauses, (long long)seen.gave_way,
        (long long)seen.rounds);
    check(seen.guesses && seen.upgrades && seen.dropped && seen.resumed && seen.late_chunks && seen.evictions &&
              seen.guess_failed && seen.demand_failed && seen.hits && seen.pauses && seen.gave_way && seen.rounds,
          "and come by everything that can happen");
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    check_seed(seed);
    test_random(seed * 1000000, argc > 2 ? atoi(argv[2]) : 4000);
    return check_end();
}
