/* fuzz_profile.c - a profile, hostile: opened, asked, read event by event, made a trace, replayed, summed up and turned
 * into a Chrome trace, as the tools do.
 *
 * The input: a profile, then FUZZ_OPTIONS bytes that say how it is read (through a reader that fails or changes what it
 * gives between two passes) and replayed.
 *
 * Relies on: fuzz_trace.h, profile/profile.h for the layout, the tools' modules. Must never: replay what would take
 * long. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_trace.h"

#include "profile/profile.h"
#include "profile_facts.h"
#include "storage.h"
#include "trace_json.h"

enum { FUZZ_OPTIONS = 24 };

/* --- where bytes come from -------------------------------------------------------------------------------- */

static bs_reader reader_of(storage *s, fuzz_bytes *o)
{
    const uint8_t how = fuzz_u8(o);
    s->reads = 0;
    s->kind = how < 160 ? STORAGE_SOUND : (storage_kind)(how % 5);
    s->at = fuzz_u8(o) / 4;
    s->where = fuzz_u32(o);
    return (bs_reader){.user = s, .read = storage_read, .size = s->n};
}

/* --- as the tools do ---------------------------------------------------------------------------------------- */

static BS_ALIGNED uint8_t tables[1 << 20];

static void ask(const bs_profile_reader *p)
{
    static int32_t list[1 << 16];
    bs_profile_facts facts;
    bs_profile_router_facts router;
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    uint64_t bytes;
    bs_profile_facts_get(p, &facts);
    for (int32_t i = 1; i <= facts.routers; i++)
        FUZZ_PROMISE(bs_profile_router_get(p, i, &router) == BS_OK && router.paths >= 1 &&
                         router.paths <= BS_MAX_PATHS && memchr(router.name, 0, BS_MAX_NAME),
                     "router %d", i);
    for (int32_t i = 0; i < facts.units; i++)
        FUZZ_PROMISE(bs_profile_unit_get(p, i, &unit, &bytes) == BS_OK && unit.router >= 0 &&
                         unit.router <= facts.routers && memchr(unit.name, 0, BS_MAX_NAME),
                     "unit %d", i);
    for (int32_t i = 0; i < facts.phases; i++) {
        FUZZ_PROMISE(bs_profile_phase_get(p, i, &phase, NULL) == BS_OK, "phase %d", i);
        if (phase.n_units <= 1 << 16)
            bs_profile_phase_get(p, i, &phase, list);
        for (int32_t k = 0; k < phase.n_units && k < 1 << 16; k++)
            FUZZ_PROMISE(list[k] >= 0 && list[k] < facts.units, "phase %d needs unit %d", i, list[k]);
    }
}

static void read_events(bs_profile_reader *p)
{
    bs_profile_facts facts;
    bs_error error = {0};
    bs_event e;
    uint64_t n = 0;
    bs_profile_facts_get(p, &facts);
    while (bs_profile_next(p, &e, &error)) {
        FUZZ_PROMISE(e.end_ns >= e.start_ns && e.kind > BS_EVENT_NONE && e.kind < BS_EVENT_COUNT && ++n <= facts.events,
                     "event %llu", (unsigned long long)n);
        FUZZ_PROMISE(e.kind != BS_EVENT_USE ||
                         (e.subject >= 0 && e.subject < facts.units && e.index >= 0 && e.index < facts.phases),
                     "use");
    }
    FUZZ_PROMISE(error.status == BS_OK || error.message[0], "a bad event without a message");
}

static void open_and_read(storage *s, fuzz_bytes *o)
{
    const bs_reader reader = reader_of(s, o);
    bs_arena arena;
    bs_error error = {0};
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_profile_reader *p = bs_profile_open(&arena, &reader, &error);
    FUZZ_PROMISE(p || (error.status != BS_OK && error.message[0] && arena.used == 0), "a refused profile");
    if (!p)
        return;
    ask(p);
    read_events(p);
    bs_profile_rewind(p);
    read_events(p);
}

static void load_and_replay(storage *s, fuzz_bytes *o)
{
    const bs_reader reader = reader_of(s, o);
    bs_arena arena;
    bs_error error = {0};
    bs_trace trace;
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    const bs_status status = bs_trace_load(&arena, &reader, &trace, &error);
    FUZZ_PROMISE(status == BS_OK || (error.status == status && error.message[0] && arena.used == 0), "a refused trace");
    if (status == BS_OK)
        fuzz_replay_all(&trace, o);
}

/* What `brainstorm profile` sums up. */
static void sum_up(storage *s, fuzz_bytes *o)
{
    const size_t room = 4 * s->n + 65536;
    cli_file file = {.memory = malloc(room)};
    profile_facts facts;
    bs_error error = {0};
    file.reader = reader_of(s, o);
    bs_arena_init(&file.arena, "profile", file.memory, room);
    profile_facts_read(&facts, &file, &error);
    profile_facts_free(&facts);
    free(file.memory);
}

static void convert(const storage *s, fuzz_bytes *o)
{
    trace_json *trace = trace_json_open("/dev/null");
    const size_t piece = 1 + (size_t)fuzz_u8(o) * 7;
    for (size_t at = 0; trace && at < s->n; at += piece)
        if (trace_json_write(trace, s->data + at, s->n - at < piece ? s->n - at : piece) != 0)
            break;
    trace_json_close(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = size > FUZZ_OPTIONS ? size - FUZZ_OPTIONS : size;
    fuzz_bytes options = {data + n, size - n, 0};
    uint8_t *copy = fuzz_copy(data, n);
    storage s = {.data = copy, .n = n, .every = 40};
    open_and_read(&s, &options);
    load_and_replay(&s, &options);
    sum_up(&s, &options);
    convert(&s, &options);
    free(copy);
    return 0;
}

/* --- by records ---------------------------------------------------------------------------------------------- */

#ifdef FUZZ_ENGINE
/* Where each part of a profile begins, as far as its header can be believed. */
typedef struct parts {
    size_t routers, units, phases, phase_units, events, end, event_bytes;
} parts;

static bool find_parts(const uint8_t *data, size_t n, parts *p)
{
    bs_profile_file h;
    if (n < sizeof h)
        return false;
    memcpy(&h, data, sizeof h);
    if (h.header_bytes > n || h.routers > n || h.units > n || h.phases > n || h.phase_units > n || h.event_bytes < 40 ||
        h.event_bytes > 256)
        return false;
    p->routers = h.header_bytes;
    p->units = p->routers + h.routers * sizeof(bs_profile_file_router);
    p->phases = p->units + h.units * sizeof(bs_profile_file_unit);
    p->phase_units = p->phases + h.phases * sizeof(bs_profile_file_phase);
    p->events = p->phase_units + 4 * (size_t)(h.phase_units + h.phase_units % 2);
    p->event_bytes = h.event_bytes;
    p->end = n;
    return p->events <= n;
}

/* A number of 4 or 8 bytes somewhere in [from, to). */
CHECK_WRAPS static void edit_number(uint8_t *data, size_t from, size_t to, fuzz_dice *dice)
{
    const size_t width = fuzz_chance(dice, 60) ? 4 : 8;
    if (to < from + 8)
        return;
    uint8_t *at = data + from + fuzz_pick(dice, (to - from) / width) * width;
    uint64_t n = 0;
    memcpy(&n, at, width);
    n = fuzz_chance(dice, 40)   ? n + fuzz_pick(dice, 5) - 2
        : fuzz_chance(dice, 50) ? (uint64_t)(int64_t)fuzz_odd_i32(dice)
                                : fuzz_odd_u64(dice);
    memcpy(at, &n, width);
}

/* An event is repeated, left out, swapped or another kind. */
static size_t edit_events(uint8_t *data, const parts *p, size_t most, fuzz_dice *dice)
{
    const size_t e = p->event_bytes, count = (p->end - p->events) / e, a = fuzz_pick(dice, count),
                 b = fuzz_pick(dice, count);
    uint8_t *first = data + p->events + a * e, *second = data + p->events + b * e, swap[256];
    if (count == 0)
        return p->end;
    switch (fuzz_pick(dice, 6)) {
    case 0:
        if (p->end + e > most)
            return p->end;
        memmove(first + e, first, p->end - (size_t)(first - data));
        return p->end + e;
    case 1: memmove(first, first + e, p->end - (size_t)(first + e - data)); return p->end - e;
    case 2:
        memcpy(swap, first, e);
        memcpy(first, second, e);
        memcpy(second, swap, e);
        return p->end;
    case 3: first[32] = (uint8_t)fuzz_pick(dice, BS_EVENT_COUNT + 1); return p->end;
    default: edit_number(first, 0, 40, dice); return p->end;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    fuzz_dice dice = fuzz_dice_of(seed);
    const uint32_t kind = fuzz_pick(&dice, 100);
    const size_t n = size > FUZZ_OPTIONS ? size - FUZZ_OPTIONS : 0;
    uint8_t options[FUZZ_OPTIONS];
    parts p;
    if (n == 0 || most < size || kind < 12 || !find_parts(data, n, &p))
        return LLVMFuzzerMutate(data, size, most);
    memcpy(options, data + n, sizeof options);
    size_t end = n;
    for (uint32_t i = 0; i <= fuzz_pick(&dice, 3) && end == n; i++) {
        if (kind < 35)
            options[fuzz_pick(&dice, FUZZ_OPTIONS)] = (uint8_t)fuzz_roll(&dice);
        else if (kind < 75)
            end = edit_events(data, &p, most - FUZZ_OPTIONS, &dice);
        else if (kind < 82)
            edit_number(data, 0, 64, &dice);
        else
            edit_number(data, p.routers, p.events, &dice);
    }
    memcpy(data + end, options, sizeof options);
    return end + FUZZ_OPTIONS;
}
#endif
