/* trace_json.c: see trace_json.h.
 *
 * Slices of a track must nest, whatever the profile says. On the track of runs, uses and stalls come first, then the
 * phase around them, then the run around those, each stretched over what it holds and begun no earlier than the last
 * one ended. What overlaps its neighbour (paths computed at the same time) goes to a track beside. */
#include "trace_json.h"

#include "brainstorm.h"
#include "files.h"
#include "json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 64,
    ROUTER_BYTES = 72,
    UNIT_BYTES = 88,
    PHASE_BYTES = 8,
    EVENT_BYTES = sizeof(bs_event),
    MAX_RECORD_BYTES = 256,
    MAX_SKIP_BYTES = 4096,
    BESIDE = 7,   /* tracks for what overlaps */
    LANES = 64,
    FIRST_BESIDE = 2, /* numbers of tracks; 1: runs */
    FIRST_LANE = 10
};

static const uint64_t none = UINT64_MAX;

/* What the next bytes are. */
typedef enum part {
    PART_HEADER,
    PART_HEADER_REST,
    PART_ROUTERS,
    PART_UNITS,
    PART_PHASES,
    PART_PHASE_UNITS,
    PART_EVENTS
} part;

typedef struct named {
    char name[BS_MAX_NAME + 1];
    int32_t router;                          /* of phases */
    uint64_t read_ns;                        /* of units: when their last read began, on: */
    int32_t read_track;
    bool read, guessed;                      /* a read was shown; it was loaded because of a guess */
} named;

typedef struct named_table {
    named *items;
    uint32_t count, expected, room;
} named_table;

struct trace_json {
    FILE *file;
    bool failed, any, begun, given; /* given: any bytes at all */
    part part;
    uint8_t record[MAX_RECORD_BYTES];
    size_t have;
    uint64_t skip; /* bytes to pass over */
    uint32_t event_bytes;
    uint64_t phase_unit_bytes, header_rest;
    named_table routers, units, phases;

    /* The track of runs: where it has come to, and the first start of what the next phase and the next run hold. */
    uint64_t cursor, phase_floor, run_floor, phase_first, run_first;
    uint64_t beside[BESIDE], lanes[LANES]; /* where those have come to */
    bool beside_named[BESIDE], lane_named[LANES];
    uint64_t uses[3], bytes_read, flows;
};

/* ---------------------------------------------------------------------------------------------------- writing */

static void put_us(trace_json *t, const char *key, uint64_t ns)
{
    fprintf(t->file, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

/* {"ph":..,"name":..,"pid":1,"tid":.. : the caller adds what it likes and ends with `end`. */
static void begin(trace_json *t, char phase, const char *name, int32_t track)
{
    fprintf(t->file, "%s{\"ph\":\"%c\",\"name\":", t->any ? ",\n" : "", phase);
    json_text(t->file, name);
    fprintf(t->file, ",\"pid\":1,\"tid\":%d", (int)track);
    t->any = true;
}

static void end(trace_json *t) { fputc('}', t->file); }

static void name_track(trace_json *t, int32_t track, const char *name)
{
    begin(t, 'M', "thread_name", track);
    fprintf(t->file, ",\"args\":{\"name\":\"%s\"}}", name);
    begin(t, 'M', "thread_sort_index", track);
    fprintf(t->file, ",\"args\":{\"sort_index\":%d}}", (int)track);
}

static void slice(trace_json *t, int32_t track, const char *name, const char *category, uint64_t start, uint64_t stop)
{
    begin(t, 'X', name, track);
    fprintf(t->file, ",\"cat\":\"%s\"", category);
    put_us(t, "ts", start);
    put_us(t, "dur", stop - start);
}

static void counters(trace_json *t, uint64_t now)
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
static int32_t place_leaf(trace_json *t, uint64_t *start, uint64_t *stop)
{
    if (*start >= t->cursor) {
        t->cursor = *stop;
        t->phase_first = smaller(t->phase_first, *start);
        t->run_first = smaller(t->run_first, *start);
        return 1;
    }
    int32_t i = 0;
    while (i < BESIDE - 1 && *start < t->beside[i])
        i++;
    *start = larger(*start, t->beside[i]);
    t->beside[i] = *stop = larger(*start, *stop);
    if (!t->beside_named[i])
        name_track(t, FIRST_BESIDE + i, "run, at the same time");
    t->beside_named[i] = true;
    return FIRST_BESIDE + i;
}

static void place_phase(trace_json *t, uint64_t *start, uint64_t *stop)
{
    *start = larger(smaller(*start, t->phase_first), t->phase_floor);
    *stop = larger(*stop, larger(*start, t->cursor));
    t->cursor = t->phase_floor = *stop;
    t->phase_first = none;
    t->run_first = smaller(t->run_first, *start);
}

static void place_run(trace_json *t, uint64_t *start, uint64_t *stop)
{
    *start = larger(smaller(*start, t->run_first), t->run_floor);
    *stop = larger(*stop, larger(*start, t->cursor));
    t->cursor = t->phase_floor = t->run_floor = *stop;
    t->phase_first = t->run_first = none;
}

static int32_t lane_track(trace_json *t, int32_t lane)
{
    lane = lane < 0 ? 0 : lane < LANES ? lane : LANES - 1;
    if (!t->lane_named[lane]) {
        char name[32];
        snprintf(name, sizeof name, "lane %d", (int)lane);
        name_track(t, FIRST_LANE + lane, name);
    }
    t->lane_named[lane] = true;
    return FIRST_LANE + lane;
}

static int32_t place_chunk(trace_json *t, int32_t lane, uint64_t *start, uint64_t *stop)
{
    const int32_t track = lane_track(t, lane);
    uint64_t *at = &t->lanes[track - FIRST_LANE];
    *start = larger(*start, *at);
    *at = *stop = larger(*start, *stop);
    return track;
}

/* ----------------------------------------------------------------------------------------------------- events */

/* From the read of a unit that was guessed to the use that found it: both ends are written together. */
static void flow(trace_json *t, named *unit, int32_t track, uint64_t used_ns)
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

static void show_use(trace_json *t, const bs_event *e, named *unit)
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

static void show_stall(trace_json *t, const bs_event *e, const named *unit)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    const int32_t track = place_leaf(t, &start, &stop);
    slice(t, track, "stall", "stall", start, stop);
    fprintf(t->file, ",\"args\":{\"for\":");
    json_text(t->file, unit->name);
    fputc('}', t->file);
    end(t);
}

static void show_phase(trace_json *t, const bs_event *e, const named *phase)
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

static void show_run(trace_json *t, const bs_event *e)
{
    uint64_t start = e->start_ns, stop = e->end_ns;
    char name[32];
    snprintf(name, sizeof name, "run %d", (int)e->subject);
    place_run(t, &start, &stop);
    slice(t, 1, name, "run", start, stop);
    end(t);
}

static void show_chunk(trace_json *t, const bs_event *e, named *unit)
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

static void show_moment(trace_json *t, const bs_event *e, int32_t track, const char *what, const char *name)
{
    char text[BS_MAX_NAME + 32];
    snprintf(text, sizeof text, "%s %s", what, name);
    begin(t, 'i', text, track);
    put_us(t, "ts", e->start_ns);
    fprintf(t->file, ",\"s\":\"t\",\"args\":{\"value\":%" PRIu64 ",\"for a guess\":%d}", e->value, (int)e->index);
    end(t);
}

static void show_of_unit(trace_json *t, const bs_event *e, named *unit)
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

static void show(trace_json *t, bs_event *e)
{
    if (e->end_ns < e->start_ns)
        e->end_ns = e->start_ns;
    if (e->kind == BS_EVENT_RUN)
        show_run(t, e);
    else if (e->kind == BS_EVENT_DROPPED)
        show_moment(t, e, 1, "events lost", "");
    else if (e->kind == BS_EVENT_PHASE && e->subject >= 0 && (uint32_t)e->subject < t->phases.count)
        show_phase(t, e, &t->phases.items[e->subject]);
    else if (e->kind != BS_EVENT_PHASE && e->kind != BS_EVENT_DECISION && e->subject >= 0 &&
             (uint32_t)e->subject < t->units.count)
        show_of_unit(t, e, &t->units.items[e->subject]);
}

/* ---------------------------------------------------------------------------------------------- bytes, in pieces */

/* Tables grow with the bytes that came, never by what a count promises. */
static bool table_add(named_table *table, const named *item)
{
    if (table->count == table->room) {
        const uint32_t room = table->room ? 2 * table->room : 16;
        named *items = room > table->room ? realloc(table->items, room * sizeof *items) : NULL;
        if (!items)
            return false;
        table->items = items;
        table->room = room;
    }
    table->items[table->count++] = *item;
    return true;
}

static uint32_t u32_at(const uint8_t *record, size_t at)
{
    uint32_t n;
    memcpy(&n, record + at, sizeof n);
    return n;
}

static bool take_header(trace_json *t)
{
    const uint8_t *r = t->record;
    const uint32_t header = u32_at(r, 8), phase_units = u32_at(r, 28);
    if (memcmp(r, "BSPF", 4) != 0 || u32_at(r, 4) != 1 || header < HEADER_BYTES || header > MAX_SKIP_BYTES)
        return false;
    t->event_bytes = u32_at(r, 12);
    t->routers.expected = u32_at(r, 16);
    t->units.expected = u32_at(r, 20);
    t->phases.expected = u32_at(r, 24);
    t->phase_unit_bytes = 4 * ((uint64_t)phase_units + phase_units % 2);
    t->header_rest = header - HEADER_BYTES;
    return t->event_bytes >= EVENT_BYTES && t->event_bytes <= MAX_RECORD_BYTES;
}

static bool take_named(trace_json *t, named_table *table)
{
    named item = {.router = 0};
    memcpy(item.name, t->record, BS_MAX_NAME);
    return table_add(table, &item);
}

static bool take_phase(trace_json *t)
{
    const named item = {.router = (int32_t)u32_at(t->record, 0)};
    return table_add(&t->phases, &item);
}

static bool take_record(trace_json *t)
{
    bs_event event;
    switch (t->part) {
    case PART_HEADER: return take_header(t);
    case PART_ROUTERS: return take_named(t, &t->routers);
    case PART_UNITS: return take_named(t, &t->units);
    case PART_PHASES: return take_phase(t);
    case PART_EVENTS:
        memcpy(&event, t->record, sizeof event);
        show(t, &event);
        return true;
    default: return false;
    }
}

/* Bytes of the next record, once the parts that are over have been left. */
static size_t record_bytes(trace_json *t)
{
    for (;;) {
        const named_table *of = t->part == PART_ROUTERS ? &t->routers : t->part == PART_UNITS ? &t->units : &t->phases;
        if (t->part == PART_HEADER)
            return HEADER_BYTES;
        if (t->part == PART_EVENTS)
            return t->event_bytes;
        if ((t->part == PART_ROUTERS || t->part == PART_UNITS || t->part == PART_PHASES) && of->count < of->expected)
            return t->part == PART_ROUTERS ? ROUTER_BYTES : t->part == PART_UNITS ? UNIT_BYTES : PHASE_BYTES;
        t->part = (part)(t->part + 1);
        t->skip = t->part == PART_HEADER_REST ? t->header_rest : t->part == PART_PHASE_UNITS ? t->phase_unit_bytes : 0;
        if (t->skip > 0)
            return 0;
    }
}

static void begin_file(trace_json *t)
{
    if (t->begun)
        return;
    t->begun = true;
    fputs("[\n", t->file);
    begin(t, 'M', "process_name", 1);
    fprintf(t->file, ",\"args\":{\"name\":\"brainstorm\"}}");
    name_track(t, 1, "run");
}

int trace_json_write(void *trace, const void *data, size_t bytes)
{
    trace_json *t = trace;
    const uint8_t *from = data;
    begin_file(t);
    t->given |= bytes > 0;
    while (bytes > 0 && !t->failed) {
        const size_t want = t->skip ? 0 : record_bytes(t);
        const uint64_t left = t->skip ? t->skip : want - t->have;
        const size_t n = left < bytes ? (size_t)left : bytes;
        if (t->skip) {
            t->skip -= n;
        } else {
            memcpy(t->record + t->have, from, n);
            t->have += n;
        }
        from += n;
        bytes -= n;
        if (want > 0 && t->have == want) {
            t->have = 0;
            t->failed = !take_record(t);
            if (t->part == PART_HEADER) {
                t->part = PART_HEADER_REST;
                t->skip = t->header_rest;
            }
        }
    }
    t->failed = t->failed || ferror(t->file);
    return t->failed;
}

trace_json *trace_json_start(FILE *file)
{
    trace_json *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->file = file;
    t->phase_first = t->run_first = none;
    return t;
}

trace_json *trace_json_open(const char *path)
{
    FILE *file = fopen(path, "w");
    trace_json *t = file ? trace_json_start(file) : NULL;
    if (file && !t)
        fclose(file);
    return t;
}

static bool end_file(trace_json *t)
{
    const bool closed = files_close(t->file);
    free(t->routers.items);
    free(t->units.items);
    free(t->phases.items);
    free(t);
    return closed;
}

void trace_json_drop(trace_json *trace)
{
    if (trace)
        end_file(trace);
}

bool trace_json_close(trace_json *trace)
{
    if (!trace)
        return true;
    begin_file(trace);
    fputs("\n]\n", trace->file);
    const bool good = !trace->failed && (trace->part != PART_HEADER || !trace->given);
    return end_file(trace) && good;
}
