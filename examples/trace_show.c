/* trace_show.c: see trace_show.h.
 *
 * Slices of a track must nest. On the track of runs, uses and stalls come first, then the op around them, the phase
 * around those, the run around all, each stretched over what it holds and begun no earlier than the last one ended.
 * What overlaps its neighbour (paths computed at the same time) goes to a track beside. Tiles have a track a thread. */
#include "trace_show.h"

#include "json_text.h"

#include <inttypes.h>

static const uint64_t none = UINT64_MAX;

/* ---------------------------------------------------------------------------------------------------- writing */

static void put_us(trace_show *t, const char *key, uint64_t ns)
{
    fprintf(t->file, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

/* {"ph":..,"name":..,"pid":1,"tid":.. : the caller adds what it likes and ends with `end`. */
static void begin(trace_show *t, char phase, const char *name, int32_t track)
{
    fprintf(t->file, "%s{\"ph\":\"%c\",\"name\":", t->any ? ",\n" : "", phase);
    json_text(t->file, name);
    fprintf(t->file, ",\"pid\":1,\"tid\":%d", (int)track);
    t->any = true;
}

static void end(trace_show *t) { fputc('}', t->file); }

static void name_track(trace_show *t, int32_t track, const char *name)
{
    begin(t, 'M', "thread_name", track);
    fprintf(t->file, ",\"args\":{\"name\":\"%s\"}}", name);
    begin(t, 'M', "thread_sort_index", track);
    fprintf(t->file, ",\"args\":{\"sort_index\":%d}}", (int)track);
}

static void slice(trace_show *t, int32_t track, const char *name, const char *category, uint64_t start, uint64_t stop)
{
    begin(t, 'X', name, track);
    fprintf(t->file, ",\"cat\":\"%s\"", category);
    put_us(t, "ts", start);
    put_us(t, "dur", stop - start);
}

static void counters(trace_show *t, uint64_t now)
{
    begin(t, 'C', "uses", 1);
    put_us(t, "ts", now);
    fprintf(t->file, ",\"args\":{\"hits\":%" PRIu64 ",\"late\":%" PRIu64 ",\"misses\":%" PRIu64 "}}",
            t->uses[BS_USE_HIT], t->uses[BS_USE_LATE], t->uses[BS_USE_MISS]);
    begin(t, 'C', "bytes read", 1);
    put_us(t, "ts", now);
    fprintf(t->file, ",\"args\":{\"bytes\":%" PRIu64 "}}", t->bytes_read);
}

/* ----------------------------------------------------------------------------------------------------- tracks */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Finds room for a use or a stall and moves it there. Returns its track. */
static int32_t place_leaf(trace_show *t, uint64_t *start, uint64_t *stop)
{
    if (*start >= t->cursor) {
        t->cursor = *stop;
        t->op_first = smaller(t->op_first, *start);
        t->phase_first = smaller(t->phase_first, *start);
        t->run_first = smaller(t->run_first, *start);
        return 1;
    }
    int32_t i = 0;
    while (i < TRACE_BESIDE - 1 && *start < t->beside[i])
        i++;
    *start = larger(*start, t->beside[i]);
    t->beside[i] = *stop = larger(*start, *stop);
    if (!t->beside_named[i])
        name_track(t, TRACE_FIRST_BESIDE + i, "run, at the same time");
    t->beside_named[i] = true;
    return TRACE_FIRST_BESIDE + i;
}

static void place_op(trace_show *t, uint64_t *start, uint64_t *stop)
{
    *start = larger(smaller(*start, t->op_first), t->op_floor);
    *stop = larger(*stop, larger(*start, t->cursor));
    t->cursor = t->op_floor = *stop;
    t->op_first = none;
    t->phase_first = smaller(t->phase_first, *start);
    t->run_first = smaller(t->run_first, *start);
}

static void place_phase(trace_show *t, uint64_t *start, uint64_t *stop)
{
    *start = larger(smaller(*start, t->phase_first), t->phase_floor);
    *stop = larger(*stop, larger(*start, t->cursor));
    t->cursor = t->op_floor = t->phase_floor = *stop;
    t->op_first = t->phase_first = none;
    t->run_first = smaller(t->run_first, *start);
}

static void place_run(trace_show *t, uint64_t *start, uint64_t *stop)
{
    *start = larger(smaller(*start, t->run_first), t->run_floor);
    *stop = larger(*stop, larger(*start, t->cursor));
    t->cursor = t->op_floor = t->phase_floor = t->run_floor = *stop;
    t->op_first = t->phase_first = t->run_first = none;
}

static int32_t lane_track(trace_show *t, int32_t lane)
{
    lane = lane < 0 ? 0 : lane < TRACE_LANES ? lane : TRACE_LANES - 1;
    if (!t->lane_named[lane]) {
        char name[32];
        snprintf(name, sizeof name, "lane %d", (int)lane);
        name_track(t, TRACE_FIRST_LANE + lane, name);
    }
    t->lane_named[lane] = true;
    return TRACE_FIRST_LANE + lane;
}

static int32_t place_chunk(trace_show *t, int32_t lane, uint64_t *start, uint64_t *stop)
{
    const int32_t track = lane_track(t, lane);
    uint64_t *at = &t->lanes[track - TRACE_FIRST_LANE];
    *start = larger(*start, *at);
    *at = *stop = larger(*start, *stop);
    return track;
}

/* ----------------------------------------------------------------------------------------------------- events */

/* From the read of a unit that was guessed to the use that found it: both ends are written together. */
static void flow(trace_show *t, trace_named *unit, int32_t track, uint64_t used_ns)
{
    if (!unit->guessed || unit->read_ns > used_ns)
        return;
    t->flows++;
    begin(t, 's', "guessed", unit->read_track);
    put_us(t, "ts", unit->read_ns);
    fprintf(t->file, ",\"cat\":\"guess\",\"id\":%" PRIu64 "}", t->flows);
    begin(t, 'f', "guessed", track);
    put_us(t, "ts", used_ns);
    fprintf(t->file, ",\"cat\":\"guess\",\"bp\":\"e\",\"id\":%" PRIu64 "}", t->flows);
    unit->guessed = false;
}

static void show_use(trace_show *t, const bs_event *e, trace_named *unit)
{
    static const char *const outcomes[] = {"hit", "late", "miss"};
    uint64_t start = e->start_ns, stop = e->end_ns;
    const int32_t track = place_leaf(t, &start, &stop);
    const char *outcome = e->value <= BS_USE_MISS ? outcomes[e->value] : "?";
    slice(t, track, unit->name, "use", start, stop);
    fprintf(t->file, ",\"args\":{\"unit\":%d,\"phase\":%d,\"outcome\":\"%s\"}", (int)e->subject, (int)e->index,
            outcome);
    end(t);
    if (e->value > BS_USE_MISS)
        return;
    t->uses[e->value]++;
    if (e->value != BS_USE_MISS)
        flow(t, unit, track, start);
}

static void show_stall(trace_show *t, const bs_event *e, const trace_named *unit)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    const int32_t track = place_leaf(t, &start, &stop);
    slice(t, track, "stall", "stall", start, stop);
    fprintf(t->file, ",\"args\":{\"for\":");
    json_text(t->file, unit->name);
    fputc('}', t->file);
    end(t);
}

static void show_phase(trace_show *t, const bs_event *e, const trace_named *phase)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    char name[BS_MAX_NAME + 32];
    const int32_t router = phase->router;
    snprintf(name, sizeof name, "phase %d", (int)e->subject);
    if (router > 0 && (uint32_t)router <= t->routers.count)
        snprintf(name, sizeof name, "phase %d of %s", (int)e->subject, t->routers.items[router - 1].name);
    place_phase(t, &start, &stop);
    slice(t, 1, name, "phase", start, stop);
    fprintf(t->file, ",\"args\":{\"units\":%" PRIu64 "}", e->value);
    end(t);
    counters(t, stop);
}

static void show_run(trace_show *t, const bs_event *e)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    char name[32];
    snprintf(name, sizeof name, "run %d", (int)e->subject);
    place_run(t, &start, &stop);
    slice(t, 1, name, "run", start, stop);
    end(t);
}

static void show_chunk(trace_show *t, const bs_event *e, trace_named *unit)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    const int32_t track = place_chunk(t, e->thread, &start, &stop);
    const bool read = e->kind == BS_EVENT_READ;
    slice(t, track, unit->name, read ? "read" : "prepare", start, stop);
    fprintf(t->file, ",\"args\":{\"%s\":%" PRIu64 ",\"chunk\":%d}", read ? "bytes" : "packed", e->value, (int)e->index);
    end(t);
    if (!read)
        return;
    t->bytes_read += e->value;
    unit->read = true;
    unit->read_ns = start;
    unit->read_track = track;
}

static void show_moment(trace_show *t, const bs_event *e, int32_t track, const char *what, const char *name)
{
    char text[BS_MAX_NAME + 32];
    snprintf(text, sizeof text, "%s %s", what, name);
    begin(t, 'i', text, track);
    put_us(t, "ts", e->start_ns);
    fprintf(t->file, ",\"s\":\"t\",\"args\":{\"value\":%" PRIu64 ",\"for a guess\":%d}", e->value, (int)e->index);
    end(t);
}

/* ------------------------------------------------------------------------------------------- ops and decisions */

static int32_t thread_track(trace_show *t, int32_t thread)
{
    thread = thread < 0 ? 0 : thread < TRACE_THREADS ? thread : TRACE_THREADS - 1;
    if (!t->threads[thread].named) {
        char name[32];
        snprintf(name, sizeof name, "tiles of thread %d", (int)thread);
        name_track(t, TRACE_FIRST_THREAD + thread, name);
    }
    t->threads[thread].named = true;
    return TRACE_FIRST_THREAD + thread;
}

static void show_op(trace_show *t, const bs_event *e, const trace_named *node)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    char name[sizeof node->op + sizeof node->name];
    int32_t track = 1;
    snprintf(name, sizeof name, "%s %s", node->op, node->name);
    if (e->index == 0) {
        place_op(t, &start, &stop);
    } else {
        track = thread_track(t, e->thread);
        trace_thread *thread = &t->threads[track - TRACE_FIRST_THREAD];
        start = larger(start, thread->cursor);
        thread->cursor = stop = larger(start, stop);
        thread->first = smaller(thread->first, start);
    }
    slice(t, track, name, "op", start, stop);
    fprintf(t->file, ",\"args\":{\"node\":%d,\"rows\":%" PRIu64 "}", (int)e->subject, e->value);
    end(t);
}

static void show_tile(trace_show *t, const bs_event *e)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    char name[BS_MAX_NAME + 32] = "tile";
    const int32_t track = thread_track(t, e->thread);
    trace_thread *thread = &t->threads[track - TRACE_FIRST_THREAD];
    if (e->subject > 0 && (uint32_t)e->subject <= t->routers.count)
        snprintf(name, sizeof name, "tile of %s:%d", t->routers.items[e->subject - 1].name, (int)e->index);
    start = larger(smaller(start, thread->first), thread->floor);
    thread->cursor = thread->floor = stop = larger(stop, larger(start, thread->cursor));
    thread->first = none;
    slice(t, track, name, "tile", start, stop);
    fprintf(t->file, ",\"args\":{\"rows\":%" PRIu64 "}", e->value);
    end(t);
}

static void show_decision(trace_show *t, const bs_event *e, const trace_named *router)
{
    char text[BS_MAX_NAME + 32];
    snprintf(text, sizeof text, "%s: path %d", router->name, (int)e->index);
    begin(t, 'i', text, 1);
    put_us(t, "ts", e->start_ns);
    fprintf(t->file, ",\"s\":\"t\",\"args\":{\"rows\":%" PRIu64 "}", e->value);
    end(t);
}

/* Of profiles that have ops: decisions of others are many, and say nothing beside what was read. */
static bool shown_as_op(trace_show *t, const bs_event *e)
{
    const bool of_node = e->subject >= 1 && (uint32_t)e->subject <= t->nodes.count;
    const bool of_router = e->subject >= 1 && (uint32_t)e->subject <= t->routers.count;
    if (e->kind == BS_EVENT_OP && of_node)
        show_op(t, e, &t->nodes.items[e->subject - 1]);
    else if (e->kind == BS_EVENT_TILE)
        show_tile(t, e);
    else if (e->kind == BS_EVENT_DECISION && of_router && t->nodes.count > 0)
        show_decision(t, e, &t->routers.items[e->subject - 1]);
    return e->kind == BS_EVENT_OP || e->kind == BS_EVENT_TILE || e->kind == BS_EVENT_DECISION;
}

static void show_of_unit(trace_show *t, const bs_event *e, trace_named *unit)
{
    switch (e->kind) {
    case BS_EVENT_USE: show_use(t, e, unit); break;
    case BS_EVENT_STALL: show_stall(t, e, unit); break;
    case BS_EVENT_READ:
    case BS_EVENT_PREPARE: show_chunk(t, e, unit); break;
    case BS_EVENT_LOADED: unit->guessed = e->index == 1 && unit->read; break;
    case BS_EVENT_EVICT:
        unit->guessed = false;
        show_moment(t, e, 1, "evict", unit->name);
        break;
    case BS_EVENT_DROP:
        unit->guessed = false;
        show_moment(t, e, 1, "drop", unit->name);
        break;
    }
}

void trace_show_event(trace_show *t, bs_event *e)
{
    if (e->end_ns < e->start_ns)
        e->end_ns = e->start_ns;
    if (shown_as_op(t, e))
        return;
    if (e->kind == BS_EVENT_RUN)
        show_run(t, e);
    else if (e->kind == BS_EVENT_DROPPED)
        show_moment(t, e, 1, "events lost", "");
    else if (e->kind == BS_EVENT_PHASE && e->subject >= 0 && (uint32_t)e->subject < t->phases.count)
        show_phase(t, e, &t->phases.items[e->subject]);
    else if (e->kind != BS_EVENT_PHASE && e->subject >= 0 && (uint32_t)e->subject < t->units.count)
        show_of_unit(t, e, &t->units.items[e->subject]);
}

void trace_show_begin(trace_show *t)
{
    t->op_first = t->phase_first = t->run_first = none;
    for (int i = 0; i < TRACE_THREADS; i++)
        t->threads[i].first = none;
    begin(t, 'M', "process_name", 1);
    fprintf(t->file, ",\"args\":{\"name\":\"brainstorm\"}}");
    name_track(t, 1, "run");
}
