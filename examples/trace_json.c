/* trace_json.c: see trace_json.h. Reads a profile's bytes as they come; trace_show.c draws what they say. */
#include "trace_json.h"

#include "brainstorm_replay.h"
#include "files.h"
#include "trace_show.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 64,
    ROUTER_BYTES = 72,
    UNIT_BYTES = 88,
    PHASE_BYTES = 8,
    NODE_BYTES = 184,
    EVENT_BYTES = sizeof(bs_event),
    MAX_RECORD_BYTES = 256,
    MAX_SKIP_BYTES = 4096
};

/* What the next bytes are. */
typedef enum part {
    PART_HEADER,
    PART_HEADER_REST,
    PART_ROUTERS,
    PART_UNITS,
    PART_PHASES,
    PART_PHASE_UNITS,
    PART_NODES,
    PART_EVENTS
} part;

struct trace_json {
    trace_show show;
    bool failed, begun, given; /* given: any bytes at all */
    part part;
    uint8_t record[MAX_RECORD_BYTES];
    size_t have;
    uint64_t skip; /* bytes to pass over */
    uint32_t event_bytes;
    uint64_t phase_unit_bytes, header_rest;
};

/* Tables grow with the bytes that came, never by what a count promises. */
static bool table_add(trace_table *table, const trace_named *item)
{
    if (table->count == table->room) {
        const uint32_t room = table->room ? 2 * table->room : 16;
        trace_named *items = room > table->room ? realloc(table->items, room * sizeof *items) : NULL;
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
    const uint32_t version = u32_at(r, 4);
    if (memcmp(r, "BSPF", 4) != 0 || version < 1 || version > 2 || header < HEADER_BYTES || header > MAX_SKIP_BYTES)
        return false;
    t->event_bytes = u32_at(r, 12);
    t->show.routers.expected = u32_at(r, 16);
    t->show.units.expected = u32_at(r, 20);
    t->show.phases.expected = u32_at(r, 24);
    t->show.nodes.expected = version == 2 ? u32_at(r, 56) : 0;
    t->phase_unit_bytes = 4 * ((uint64_t)phase_units + phase_units % 2);
    t->header_rest = header - HEADER_BYTES;
    return t->event_bytes >= EVENT_BYTES && t->event_bytes <= MAX_RECORD_BYTES;
}

static bool take_named(trace_json *t, trace_table *table)
{
    trace_named item = {.router = 0};
    memcpy(item.name, t->record, BS_MAX_NAME);
    return table_add(table, &item);
}

static bool take_phase(trace_json *t)
{
    const trace_named item = {.router = (int32_t)u32_at(t->record, 0)};
    return table_add(&t->show.phases, &item);
}

static bool take_node(trace_json *t)
{
    trace_named item = {.router = 0};
    memcpy(item.name, t->record, BS_MAX_NAME);
    memcpy(item.op, t->record + 2 * BS_MAX_NAME, sizeof item.op - 1);
    return table_add(&t->show.nodes, &item);
}

static bool take_record(trace_json *t)
{
    bs_event event;
    switch (t->part) {
    case PART_HEADER: return take_header(t);
    case PART_ROUTERS: return take_named(t, &t->show.routers);
    case PART_UNITS: return take_named(t, &t->show.units);
    case PART_PHASES: return take_phase(t);
    case PART_NODES: return take_node(t);
    case PART_EVENTS:
        memcpy(&event, t->record, sizeof event);
        trace_show_event(&t->show, &event);
        return true;
    default: return false;
    }
}

/* The table of a part; NULL: it is none. */
static trace_table *table_of(trace_json *t, size_t *bytes)
{
    *bytes = t->part == PART_ROUTERS  ? ROUTER_BYTES
             : t->part == PART_UNITS  ? UNIT_BYTES
             : t->part == PART_PHASES ? PHASE_BYTES
                                      : NODE_BYTES;
    switch (t->part) {
    case PART_ROUTERS: return &t->show.routers;
    case PART_UNITS: return &t->show.units;
    case PART_PHASES: return &t->show.phases;
    case PART_NODES: return &t->show.nodes;
    default: return NULL;
    }
}

/* Bytes of the next record, once the parts that are over have been left. */
static size_t record_bytes(trace_json *t)
{
    for (;;) {
        size_t bytes;
        const trace_table *of = table_of(t, &bytes);
        if (t->part == PART_HEADER)
            return HEADER_BYTES;
        if (t->part == PART_EVENTS)
            return t->event_bytes;
        if (of && of->count < of->expected)
            return bytes;
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
    fputs("[\n", t->show.file);
    trace_show_begin(&t->show);
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
    t->failed = t->failed || ferror(t->show.file);
    return t->failed;
}

trace_json *trace_json_start(FILE *file)
{
    trace_json *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->show.file = file;
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

static bool end_file(trace_json *t, bool whole)
{
    const bool closed = whole && files_close(t->show.file);
    if (!whole)
        files_discard(t->show.file);
    free(t->show.routers.items);
    free(t->show.units.items);
    free(t->show.phases.items);
    free(t->show.nodes.items);
    free(t);
    return closed;
}

void trace_json_drop(trace_json *trace)
{
    if (trace)
        end_file(trace, false);
}

bool trace_json_close(trace_json *trace)
{
    if (!trace)
        return true;
    begin_file(trace);
    fputs("\n]\n", trace->show.file);
    const bool good = !trace->failed && (trace->part != PART_HEADER || !trace->given);
    return end_file(trace, good);
}
