/* tags: asan */
/* Promises: no file that is read as a profile harms, nor does a reader that fails, nor too little room. Truncations and
 * bit flips are worth most under `make test-asan`. */
#include "profile_rig.h"

/* Opens, reads and loads a copy of exactly that size; whatever comes of it must be bounded by the file. */
static int survives(const uint8_t *data, size_t n, bs_status *status)
{
    synth_bytes b = {.data = malloc(n + (n == 0)), .n = n};
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    int good = 1;
    memcpy(b.data, data, n);
    *status = load(&b, &t, &error);
    if (*status == BS_OK) {
        const int64_t most = (int64_t)(n / sizeof(bs_event));
        good = t.n_visits <= most && t.n_uses <= most && t.n_guesses <= most && t.n_units <= (int64_t)n;
        for (int32_t i = 0; i < t.n_visits; i++)
            good &= t.visits[i].phase < t.n_phases && t.visits[i].first_use + t.visits[i].n_uses <= t.n_uses &&
                    t.visits[i].first_guess + t.visits[i].n_guesses <= t.n_guesses;
        for (int32_t i = 0; i < t.n_uses; i++)
            good &= t.uses[i].unit >= 0 && t.uses[i].unit < t.n_units;
    } else {
        good = error.status == *status && error.message[0] != 0;
    }
    free(b.data);
    return good;
}

static void test_truncations(void)
{
    synth_bytes b = synth_profile(3, NULL);
    const size_t events_at = synth_header_bytes();
    int bad = 0;
    for (size_t n = 0; n <= b.n; n++) {
        bs_status status;
        bad += !survives(b.data, n, &status) || status != (n < events_at ? BS_ERROR_FORMAT : BS_OK);
    }
    check(bad == 0, "cut off at each of %d bytes, the tables are refused and the events read as far as they go",
          (int)b.n);
    bs_trace t;
    bs_error error;
    const size_t whole = b.n;
    load(&b, &t, &error);
    const uint64_t lost = t.lost_events;
    b.n = whole - 1;
    check(load(&b, &t, &error) == BS_OK && t.lost_events == lost + 1, "an event that was cut off counts as lost");
    synth_free(&b);
}

static void test_bit_flips(void)
{
    synth_bytes b = synth_profile(2, NULL);
    int bad = 0, refused = 0;
    for (size_t i = 0; i < b.n * 8; i++) {
        bs_status status;
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        bad += !survives(b.data, b.n, &status);
        refused += status != BS_OK;
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    check(bad == 0 && refused > 500, "each of %d bits turned is refused (%d) or gives a bounded trace", (int)(b.n * 8),
          refused);
    synth_free(&b);
}

/* Where tables begin in a profile of 2 routers. */
enum {
    ROUTERS = 64,
    UNITS = 64 + 2 * 72,
    PHASES = UNITS + 9 * 88,
    PHASE_UNITS = PHASES + 3 * 8,
    EVENTS = PHASE_UNITS + 40
};
static const struct {
    const char *what;
    size_t at;
    uint64_t value;
    int bytes;
    bs_status status;
    const char *says;
} damages[] = {
    {"another magic", 0, 0x46554747, 4, BS_ERROR_FORMAT, "BSPF"},
    {"a newer version", 4, 3, 4, BS_ERROR_VERSION, "version 3"},
    {"nodes in a version without", 56, 1, 4, BS_ERROR_LIMIT, "1 nodes"},
    {"a header of no bytes", 8, 0, 4, BS_ERROR_FORMAT, "header"},
    {"a header of 2^32-8 bytes", 8, 0xfffffff8, 4, BS_ERROR_FORMAT, "header"},
    {"events of no bytes", 12, 0, 4, BS_ERROR_FORMAT, "events of 0"},
    {"events of 2^31 bytes", 12, 0x80000000, 4, BS_ERROR_FORMAT, "events of"},
    {"2^32-1 routers", 16, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
    {"2^32-1 units", 20, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
    {"2^32-1 phases", 24, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
    {"2^32-1 units of phases", 28, 0xffffffff, 4, BS_ERROR_LIMIT, "at most 65536"},
    {"2^20 units", 20, 1 << 20, 4, BS_ERROR_FORMAT, "tables take"},
    {"a policy that is not known", 48, 99, 4, BS_ERROR_FORMAT, "policy"},
    {"a negative policy", 48, 0xffffffff, 4, BS_ERROR_FORMAT, "policy"},
    {"a router of no paths", ROUTERS + 64, 0, 4, BS_ERROR_FORMAT, "router 1"},
    {"a router of 32768 paths", ROUTERS + 72 + 64, 32768, 4, BS_ERROR_FORMAT, "router 2"},
    {"a name that is not plain", ROUTERS, 0x1b, 1, BS_ERROR_FORMAT, "router 1"},
    {"a unit of router 3", UNITS + 88 + 64, 3, 4, BS_ERROR_FORMAT, "unit 1"},
    {"a unit of path 4", UNITS + 88 + 68, 4, 4, BS_ERROR_FORMAT, "unit 1"},
    {"a unit of path 0 of no router", UNITS + 68, 0, 4, BS_ERROR_FORMAT, "unit 0"},
    {"a unit of 2^63 bytes", UNITS + 80, (uint64_t)1 << 63, 8, BS_ERROR_LIMIT, "unit 0"},
    {"a phase of router -1", PHASES, 0xffffffff, 4, BS_ERROR_FORMAT, "phase 0"},
    {"a phase of -1 units", PHASES + 4, 0xffffffff, 4, BS_ERROR_FORMAT, "phase 0"},
    {"a phase of 2^31-1 units", PHASES + 12, 0x7fffffff, 4, BS_ERROR_FORMAT, "phase 1"},
    {"phases of fewer units than are listed", PHASES + 20, 3, 4, BS_ERROR_FORMAT, "phases have 8"},
    {"a phase that needs unit 9", PHASE_UNITS, 9, 4, BS_ERROR_FORMAT, "unit 9, there are 9"},
    {"a phase that needs unit -1", PHASE_UNITS + 32, 0xffffffff, 4, BS_ERROR_FORMAT, "unit -1"},
};

static void test_damages(void)
{
    synth_bytes b = synth_profile(1, NULL);
    bs_trace t;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t kept[8];
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        memcpy(kept, b.data + damages[i].at, 8);
        memcpy(b.data + damages[i].at, &damages[i].value, (size_t)damages[i].bytes);
        const bs_status status = load(&b, &t, &error);
        check(status == damages[i].status && strstr(error.message, damages[i].says), "%s: %s", damages[i].what,
              error.message);
        memcpy(b.data + damages[i].at, kept, 8);
    }
    memset(b.data + ROUTERS, 'x', BS_MAX_NAME);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    check(load(&b, &t, &error) == BS_ERROR_FORMAT, "a name without an end: %s", error.message);
    synth_free(&b);
}

static void test_event_damages(void)
{
    static const struct { bs_event_kind kind; int32_t subject, index;
    } events[] = {
        {BS_EVENT_DECISION, 0, 0},  {BS_EVENT_DECISION, 3, 0},      {BS_EVENT_DECISION, 1, 4},
        {BS_EVENT_DECISION, 1, -1}, {BS_EVENT_PHASE, 3, 0},         {BS_EVENT_PHASE, -1, 0},
        {BS_EVENT_USE, 9, 0},       {BS_EVENT_USE, -1, 0},          {BS_EVENT_USE, 0, 3},
        {BS_EVENT_USE, 0, -1},      {BS_EVENT_STALL, 9, 0},         {BS_EVENT_STALL, 0, 3},
        {BS_EVENT_GUESS, -2, 0},    {BS_EVENT_GUESS, 9, 0},         {BS_EVENT_GUESS, 0, 3},
        {BS_EVENT_READ, 9, 0},      {BS_EVENT_READ, 0, -1},         {BS_EVENT_PREPARE, -1, 0},
        {BS_EVENT_LOADED, 9, 0},    {BS_EVENT_EVICT, INT32_MAX, 0}, {BS_EVENT_DROP, INT32_MIN, 0},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const bs_event e[2] = {synth_event(BS_EVENT_RUN, 0, 0, 0, 1, 2),
                               synth_event(events[i].kind, events[i].subject, events[i].index, 0, 1, 2)};
        bs_trace t;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        synth_bytes b = file_of(e, 2);
        if (load(&b, &t, &error) != BS_ERROR_FORMAT || !strstr(error.message, "event 1 "))
            printf("     kind %d, subject %d, index %d: %s\n", events[i].kind, events[i].subject, events[i].index,
                   error.message),
                bad++;
        synth_free(&b);
    }
    check(bad == 0, "subjects and indices out of range are refused with the number of the event (%d kinds)",
          (int)(sizeof events / sizeof *events));
}

static void test_later_versions(void)
{
    synth_bytes b = synth_profile(2, NULL), wide = {0};
    bs_profile_file header;
    const size_t tables_bytes = synth_header_bytes() - sizeof header;
    const uint8_t more[24] = {1, 2, 3};
    bs_trace a, t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memcpy(&header, b.data, sizeof header);
    header.header_bytes += 16;
    header.event_bytes += 24;
    synth_write(&wide, &header, sizeof header);
    synth_write(&wide, more, 16);
    synth_write(&wide, b.data + sizeof header, tables_bytes);
    const bs_event unknown[2] = {synth_event((bs_event_kind)BS_EVENT_COUNT, -5, -5, 0, 0, 0),
                                 synth_event((bs_event_kind)-3, 0, 0, 0, 0, 0)};
    for (size_t i = sizeof header + tables_bytes; i < b.n; i += sizeof(bs_event)) {
        synth_write(&wide, b.data + i, sizeof(bs_event));
        synth_write(&wide, more, sizeof more);
        synth_write(&wide, &unknown[i / 40 % 2], sizeof(bs_event));
        synth_write(&wide, more, sizeof more);
    }
    load(&b, &a, &error);
    const int32_t visits = a.n_visits, uses = a.n_uses;
    const double speed = a.ns_per_byte;
    check(load(&wide, &t, &error) == BS_OK && t.n_visits == visits && t.n_uses == uses && t.ns_per_byte == speed,
          "longer headers and events, and kinds that are not known, are passed over %s", error.message);
    synth_free(&b);
    synth_free(&wide);
}

/* --- readers and room ------------------------------------------------------------------------------------ */

typedef struct odd_reader {
    synth_bytes *bytes;
    int reads, fail_at; /* this read fails, by giving less; 0: none */
    int swap_at;        /* from this read on, events are all uses of phase 0 and its ends; 0: never */
    bool keep_ends;     /* as many ends as there were, and everything else is a use */
    size_t events_at;
} odd_reader;

static int64_t odd_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    odd_reader *o = user;
    o->reads++;
    if (o->reads == o->fail_at)
        return bytes > 0 ? (int64_t)bytes - 1 : -1;
    const int64_t n = synth_read(o->bytes, offset, buffer, bytes);
    for (size_t at = 0; o->swap_at && o->reads >= o->swap_at && offset >= o->events_at && at + 40 <= bytes; at += 40) {
        bs_event e;
        memcpy(&e, (uint8_t *)buffer + at, sizeof e);
        const bool end = o->keep_ends ? e.kind == BS_EVENT_PHASE : at / 40 % 3 == 0;
        e = synth_event(end ? BS_EVENT_PHASE : BS_EVENT_USE,
                        o->keep_ends && !end ? (int32_t)(at / 40 % SYNTH_UNITS) : 0, 0, 0, 1, 2);
        memcpy((uint8_t *)buffer + at, &e, sizeof e);
    }
    return n;
}

static void test_readers(void)
{
    synth_bytes b = synth_profile(20, NULL);
    const size_t events_at = synth_header_bytes();
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_arena arena;
    odd_reader o = {.bytes = &b};
    const bs_reader reader = {.user = &o, .read = odd_read, .size = b.n};
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_trace_load(&arena, &reader, &t, &error);
    const int all = o.reads;
    int bad = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .fail_at = i};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        bad += bs_trace_load(&arena, &reader, &t, &error) != BS_ERROR_IO || arena.used != 0 || error.message[0] == 0;
    }
    check(bad == 0, "each of %d reads that fails is an error, and the arena is as it was", all);
    bad = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .swap_at = i, .events_at = events_at};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        const bs_status status = bs_trace_load(&arena, &reader, &t, &error);
        bad += status != BS_OK && status != BS_ERROR_LIMIT;
    }
    check(bad == 0, "a file that changes while it is read does no harm");
    int more = 0;
    for (int i = 1; i <= all; i++) {
        o = (odd_reader){.bytes = &b, .swap_at = i, .keep_ends = true, .events_at = events_at};
        bs_arena_init(&arena, "tables", tables, sizeof tables);
        more += bs_trace_load(&arena, &reader, &t, &error) == BS_ERROR_LIMIT;
    }
    check(more > 0, "more uses than there were is an error (from %d of %d reads on)", more, all);
    check(all < 16 + 2 * (int)(b.n / 4000 + 1), "events are read in blocks: %d reads of %d bytes", all, (int)b.n);
    synth_free(&b);
}

static void test_room(void)
{
    synth_bytes b = synth_profile(2, NULL);
    const bs_reader reader = synth_reader(&b);
    bs_trace t;
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "tables", tables, sizeof tables);
    bs_trace_load(&arena, &reader, &t, &error);
    const size_t needed = arena.used;
    int bad = 0;
    for (size_t n = 0; n < needed; n += 8) {
        bs_arena_init(&arena, "tables", tables, n);
        bad += bs_trace_load(&arena, &reader, &t, &error) != BS_ERROR_ARENA || arena.used != 0 || error.needed == 0;
    }
    bs_arena_init(&arena, "tables", tables, needed);
    check(bad == 0 && bs_trace_load(&arena, &reader, &t, &error) == BS_OK,
          "less than the %d bytes it takes is refused at any size", (int)needed);
    check(bs_trace_load(NULL, &reader, &t, &error) == BS_ERROR_ARGUMENT &&
              bs_trace_load(&arena, NULL, &t, NULL) == BS_ERROR_ARGUMENT,
          "without an arena or a reader nothing is read");
    synth_free(&b);
}

int main(void)
{
    test_truncations();
    test_bit_flips();
    test_damages();
    test_event_damages();
    test_later_versions();
    test_readers();
    test_room();
    return check_end();
}
