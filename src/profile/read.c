/* profile/read.c - a profile's header and events, checked one after the other.
 * Relies on profile/profile.h and base/cursor.h. Must never trust a number of the file: tables are taken from the
 * arena only when their bytes are there, and what is returned is in range. */
#include "profile/profile.h"

#include "base/cursor.h"

#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)

enum {
    PROFILE_MAX_ROUTERS = 1 << 16,
    PROFILE_MAX_UNITS = 1 << 20,
    PROFILE_MAX_PHASES = 1 << 20,
    PROFILE_MAX_PHASE_UNITS = 1 << 22,
    PROFILE_MAX_NODES = 1 << 24,
    PROFILE_MAX_HEADER_BYTES = 4096,
    PROFILE_MAX_EVENT_BYTES = 256,
    PROFILE_WINDOW_BYTES = 4096
};

/* Limit of one unit, so that no sum over units, uses or chunks comes near 64 bits. */
#define PROFILE_MAX_UNIT_BYTES ((uint64_t)1 << 40)

struct bs_profile_reader {
    bs_source source;
    bs_profile_facts facts;
    bs_profile_tables tables;
    bs_bytes events_at; /* in the file */
    uint32_t event_bytes;
    uint64_t next;                /* number of the next event */
    uint64_t window_first;        /* number of the first event in the window */
    uint32_t window_events;
    uint8_t window[PROFILE_WINDOW_BYTES];
};

/* ------------------------------------------------------------------------------------------------- the header */

static bool check_header(const bs_profile_file *h, bs_error *error)
{
    if (h->magic != BS_PROFILE_MAGIC)
        return bs_refuse(error, BS_ERROR_FORMAT, "not a profile: it does not begin with BSPF");
    if (h->version != BS_PROFILE_VERSION && h->version != BS_PROFILE_VERSION_PLAIN)
        return bs_refuse(error, BS_ERROR_VERSION, "profile: version %" PRIu32 ", expected %d or %d", h->version,
                         BS_PROFILE_VERSION_PLAIN, BS_PROFILE_VERSION);
    if (h->header_bytes < sizeof *h || h->header_bytes > PROFILE_MAX_HEADER_BYTES || h->header_bytes % 8)
        return bs_refuse(error, BS_ERROR_FORMAT, "profile: a header of %" PRIu32 " bytes, expected %d .. %d by eights",
                         h->header_bytes, (int)sizeof *h, PROFILE_MAX_HEADER_BYTES);
    if (h->event_bytes < sizeof(bs_event) || h->event_bytes > PROFILE_MAX_EVENT_BYTES || h->event_bytes % 8)
        return bs_refuse(error, BS_ERROR_FORMAT, "profile: events of %" PRIu32 " bytes, expected %d .. %d by eights",
                         h->event_bytes, (int)sizeof(bs_event), PROFILE_MAX_EVENT_BYTES);
    if (h->routers > PROFILE_MAX_ROUTERS || h->units > PROFILE_MAX_UNITS || h->phases > PROFILE_MAX_PHASES ||
        h->phase_units > PROFILE_MAX_PHASE_UNITS)
        return bs_refuse(error, BS_ERROR_LIMIT,
                         "profile: %" PRIu32 " routers, %" PRIu32 " units, %" PRIu32 " phases of %" PRIu32
                         " units, at most %d, %d, %d, %d",
                         h->routers, h->units, h->phases, h->phase_units, PROFILE_MAX_ROUTERS, PROFILE_MAX_UNITS,
                         PROFILE_MAX_PHASES, PROFILE_MAX_PHASE_UNITS);
    if (h->nodes > (h->version == BS_PROFILE_VERSION ? PROFILE_MAX_NODES : 0))
        return bs_refuse(error, BS_ERROR_LIMIT, "profile: %" PRIu32 " nodes, at most %d, and none in version %d",
                         h->nodes, PROFILE_MAX_NODES, BS_PROFILE_VERSION_PLAIN);
    if (h->policy < 0 || h->policy >= BS_POLICY_COUNT || h->speculation < 0 || h->speculation > BS_SPECULATE_OFF)
        return bs_refuse(error, BS_ERROR_FORMAT,
                         "profile: policy %" PRId32 ", speculation %" PRId32 ", expected 0 .. %d and 0 .. %d",
                         h->policy, h->speculation, BS_POLICY_COUNT - 1, BS_SPECULATE_OFF);
    return true;
}

/* Where the tables end. */
static bs_bytes end_of_tables(const bs_profile_file *h)
{
    bs_bytes end = bs_bytes_of(h->header_bytes);
    end = bs_bytes_add(end, bs_bytes_array(h->routers, sizeof(bs_profile_file_router)));
    end = bs_bytes_add(end, bs_bytes_array(h->units, sizeof(bs_profile_file_unit)));
    end = bs_bytes_add(end, bs_bytes_array(h->phases, sizeof(bs_profile_file_phase)));
    end = bs_bytes_add(end, bs_bytes_align_to(bs_bytes_array(h->phase_units, sizeof(int32_t)), 2 * sizeof(int32_t)));
    return bs_bytes_add(end, bs_bytes_array(h->nodes, sizeof(bs_profile_file_node)));
}

static bool read_header(bs_profile_reader *r, bs_profile_file *h, bs_error *error)
{
    const bs_status status = bs_source_read(&r->source, bs_bytes_of(0), h, bs_bytes_of(sizeof *h));
    if (status != BS_OK)
        return bs_refuse(error, status, "profile: its header cannot be read from %llu bytes",
                         bs_bytes_figure(r->source.size));
    if (!check_header(h, error))
        return false;
    r->events_at = end_of_tables(h);
    if (bs_bytes_less(r->source.size, r->events_at))
        return bs_refuse(error, BS_ERROR_FORMAT, "profile: its tables take %llu bytes, the file has %llu",
                         bs_bytes_figure(r->events_at), bs_bytes_figure(r->source.size));
    const uint64_t bytes = bs_bytes_figure(bs_bytes_sub(r->source.size, r->events_at));
    r->event_bytes = h->event_bytes;
    r->facts = (bs_profile_facts){(int32_t)h->routers, (int32_t)h->units, (int32_t)h->phases, bytes / h->event_bytes,
                                  bytes % h->event_bytes, h->slot_bytes, h->chunk_bytes, h->policy, h->speculation,
                                  (int32_t)h->nodes};
    return true;
}

/* ------------------------------------------------------------------------------------------------- the tables */

static bool ends_plain(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] == 0)
            return true;
        if (name[i] < 0x20 || name[i] > 0x7e)
            return false;
    }
    return false; /* no end */
}

static bool name_is_plain(const char name[BS_MAX_NAME]) { return ends_plain(name, BS_MAX_NAME); }

static bool read_routers(bs_profile_reader *r, bs_cursor *c, bs_profile_file_router *routers, bs_error *error)
{
    for (int32_t i = 0; i < r->facts.routers; i++) {
        if (!bs_cursor_take(c, &routers[i], bs_bytes_of(sizeof routers[i])))
            return bs_refuse(error, c->status, "profile: router %" PRId32 " cannot be read", i + 1);
        if (!name_is_plain(routers[i].name) || !bs_in_range(routers[i].paths, 1, BS_MAX_PATHS + 1))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "profile: router %" PRId32 " has %" PRId32
                             " paths, expected 1 .. %d, or its name is not plain ASCII",
                             i + 1, routers[i].paths, BS_MAX_PATHS);
    }
    return true;
}

static bool path_is_good(const bs_profile_reader *r, int32_t router, int32_t path)
{
    return bs_in_range(router, 1, r->facts.routers + 1) && bs_in_range(path, 0, r->tables.routers[router - 1].paths);
}

/* Whether a unit belongs to an existing router and path, or to every run. */
static bool place_is_good(const bs_profile_reader *r, int32_t router, int32_t path)
{
    return router == 0 ? path == -1 : path_is_good(r, router, path);
}

static bool read_units(bs_profile_reader *r, bs_cursor *c, bs_trace_unit *units, bs_profile_place *places,
                       bs_error *error)
{
    for (int32_t i = 0; i < r->facts.units; i++) {
        bs_profile_file_unit u;
        if (!bs_cursor_take(c, &u, bs_bytes_of(sizeof u)))
            return bs_refuse(error, c->status, "profile: unit %" PRId32 " cannot be read", i);
        if (!name_is_plain(u.name) || !place_is_good(r, u.router, u.path))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "profile: unit %" PRId32 " is path %" PRId32 " of router %" PRId32
                             ", which there is not, or its name is not plain ASCII",
                             i, u.path, u.router);
        if (u.read_bytes > PROFILE_MAX_UNIT_BYTES || u.slot_bytes > PROFILE_MAX_UNIT_BYTES)
            return bs_refuse(error, BS_ERROR_LIMIT,
                             "profile: unit %" PRId32 " of %llu bytes, in a slot %llu, at most %llu", i,
                             (unsigned long long)u.read_bytes, (unsigned long long)u.slot_bytes,
                             (unsigned long long)PROFILE_MAX_UNIT_BYTES);
        memcpy(units[i].name, u.name, sizeof u.name);
        units[i].read_bytes = u.read_bytes;
        units[i].slot_bytes = u.slot_bytes;
        places[i] = (bs_profile_place){u.router, u.path};
    }
    return true;
}

static bool read_phases(bs_profile_reader *r, bs_cursor *c, bs_trace_phase *phases, bs_error *error)
{
    int32_t first = 0;
    for (int32_t i = 0; i < r->facts.phases; i++) {
        bs_profile_file_phase s;
        if (!bs_cursor_take(c, &s, bs_bytes_of(sizeof s)))
            return bs_refuse(error, c->status, "profile: phase %" PRId32 " cannot be read", i);
        if (!bs_in_range(s.router, 0, r->facts.routers + 1) || !bs_is_part(first, s.n_units, r->tables.n_phase_units))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "profile: phase %" PRId32 " has router %" PRId32 " of %" PRId32 " and %" PRId32
                             " units, of which %" PRId32 " are left",
                             i, s.router, r->facts.routers, s.n_units, (r->tables.n_phase_units - first));
        phases[i] = (bs_trace_phase){s.router, first, s.n_units};
        first += s.n_units;
    }
    if (first != r->tables.n_phase_units)
        return bs_refuse(error, BS_ERROR_FORMAT, "profile: phases have %" PRId32 " units, %" PRId32 " are listed",
                         first, r->tables.n_phase_units);
    return true;
}

static bool read_phase_units(bs_profile_reader *r, bs_cursor *c, int32_t *units, bs_error *error)
{
    for (int32_t i = 0; i < r->tables.n_phase_units; i++) {
        units[i] = bs_cursor_i32(c);
        if (c->status != BS_OK)
            return bs_refuse(error, c->status, "profile: the units of phases cannot be read");
        if (!bs_in_range(units[i], 0, r->facts.units))
            return bs_refuse(error, BS_ERROR_FORMAT, "profile: a phase needs unit %" PRId32 ", there are %" PRId32,
                             units[i], r->facts.units);
    }
    return true;
}

/* A cost of a node: no NaN, and nothing that a sum over all events could not hold. */
static bool cost_is_good(double cost) { return cost >= 0 && cost <= 1e30; }

/* Behind the units of phases, whose padding was not read. */
static bool read_nodes(bs_profile_reader *r, bs_profile_file_node *nodes, bs_error *error)
{
    bs_cursor c;
    const bs_bytes bytes = bs_bytes_array((uint32_t)r->facts.nodes, sizeof *nodes);
    bs_cursor_init(&c, &r->source, bs_bytes_sub(r->events_at, bytes), r->events_at);
    for (int32_t i = 0; i < r->facts.nodes; i++) {
        bs_profile_file_node *n = &nodes[i];
        if (!bs_cursor_take(&c, n, bs_bytes_of(sizeof *n)))
            return bs_refuse(error, c.status, "profile: node %" PRId32 " cannot be read", i + 1);
        const bool outside = n->router == 0 && n->path == 0;
        if (!name_is_plain(n->name) || !name_is_plain(n->block) || !ends_plain(n->op, sizeof n->op) ||
            !(outside || path_is_good(r, n->router, n->path)) || !cost_is_good(n->flops) ||
            !cost_is_good(n->bytes) || !cost_is_good(n->weight_bytes))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "profile: node %" PRId32 " is of path %" PRId32 " of router %" PRId32
                             ", which there is not, or a text of it is not "
                             "plain ASCII, or a cost is no number",
                             i + 1, n->path, n->router);
    }
    return true;
}

static bool read_tables(bs_profile_reader *r, const bs_profile_file *h, bs_arena *arena, bs_error *error)
{
    bs_cursor c;
    bs_profile_file_router *routers = bs_take_table(arena, h->routers, sizeof *routers, "a profile's routers", error);
    bs_trace_unit *units = routers ? bs_take_table(arena, h->units, sizeof *units, "a profile's units", error) : NULL;
    bs_profile_place *places = units ? bs_take_table(arena, h->units, sizeof *places, "a profile's units", error)
                                     : NULL;
    bs_trace_phase *phases = places ? bs_take_table(arena, h->phases, sizeof *phases, "a profile's phases", error)
                                    : NULL;
    int32_t *phase_units = phases ? bs_take_table(arena, h->phase_units, sizeof(int32_t), "a profile's phases", error)
                                  : NULL;
    bs_profile_file_node *nodes = NULL;
    if (phase_units)
        nodes = bs_take_table(arena, h->nodes, sizeof *nodes, "a profile's nodes", error);
    if (!nodes)
        return false;
    r->tables = (bs_profile_tables){
        routers, nodes, units, places, phases, phase_units, (int32_t)h->units, (int32_t)h->phase_units};
    bs_cursor_init(&c, &r->source, bs_bytes_of(h->header_bytes), r->events_at);
    return read_routers(r, &c, routers, error) && read_units(r, &c, units, places, error) &&
           read_phases(r, &c, phases, error) && read_phase_units(r, &c, phase_units, error) &&
           read_nodes(r, nodes, error);
}

bs_profile_reader *bs_profile_open(bs_arena *arena, const bs_reader *reader, bs_error *error)
{
    bs_profile_file header;
    if (!arena || !reader || !reader->read) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_profile_open: the arena, the reader or its read is NULL");
        return NULL;
    }
    const size_t used = arena->used;
    bs_profile_reader *r = bs_take_table(arena, 1, sizeof *r, "reading a profile", error);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r);
    r->source.reader = *reader;
    r->source.size = bs_bytes_of(reader->size);
    if (read_header(r, &header, error) && read_tables(r, &header, arena, error))
        return r;
    arena->used = used;
    return NULL;
}

/* -------------------------------------------------------------------------------------------------- the facts */

const bs_profile_tables *bs_profile_tables_of(const bs_profile_reader *reader) { return &reader->tables; }

void bs_profile_facts_get(const bs_profile_reader *profile, bs_profile_facts *facts)
{
    if (!facts)
        return;
    memset(facts, 0, sizeof *facts);
    if (profile)
        *facts = profile->facts;
}

bs_status bs_profile_router_get(const bs_profile_reader *profile, int32_t router, bs_profile_router_facts *facts)
{
    if (!profile || !facts || !bs_in_range(router, 1, profile->facts.routers + 1))
        return BS_ERROR_ARGUMENT;
    const bs_profile_file_router *r = &profile->tables.routers[router - 1];
    memcpy(facts->name, r->name, sizeof facts->name);
    facts->paths = r->paths;
    return BS_OK;
}

bs_status bs_profile_unit_get(const bs_profile_reader *profile, int32_t unit, bs_stream_unit_facts *facts,
                              uint64_t *read_bytes)
{
    if (!profile || !facts || !bs_in_range(unit, 0, profile->facts.units))
        return BS_ERROR_ARGUMENT;
    const bs_trace_unit *u = &profile->tables.units[unit];
    memcpy(facts->name, u->name, sizeof facts->name);
    facts->router = profile->tables.places[unit].router;
    facts->path = profile->tables.places[unit].path;
    facts->slot_bytes = u->slot_bytes;
    if (read_bytes)
        *read_bytes = u->read_bytes;
    return BS_OK;
}

bs_status bs_profile_phase_get(const bs_profile_reader *profile, int32_t phase, bs_stream_phase_facts *facts,
                               int32_t *units)
{
    if (!profile || !facts || !bs_in_range(phase, 0, profile->facts.phases))
        return BS_ERROR_ARGUMENT;
    const bs_trace_phase *s = &profile->tables.phases[phase];
    facts->router = s->router;
    facts->n_units = s->n_units;
    for (int32_t i = 0; units && i < s->n_units; i++)
        units[i] = profile->tables.phase_units[s->first_unit + i];
    return BS_OK;
}

bs_status bs_profile_node_get(const bs_profile_reader *profile, int32_t node, bs_profile_node_facts *facts)
{
    if (!profile || !facts || !bs_in_range(node, 1, profile->facts.nodes + 1))
        return BS_ERROR_ARGUMENT;
    const bs_profile_file_node *n = &profile->tables.nodes[node - 1];
    *facts = (bs_profile_node_facts){n->op,   n->name,  n->block, n->router,
                                     n->path, n->flops, n->bytes, n->weight_bytes};
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------- the events */

static bool event_is_good(const bs_profile_reader *r, const bs_event *e)
{
    const bs_profile_facts *f = &r->facts;
    const bool of_unit = bs_in_range(e->subject, 0, f->units), of_phase = bs_in_range(e->index, 0, f->phases);
    switch (e->kind) {
    case BS_EVENT_DECISION: return path_is_good(r, e->subject, e->index);
    case BS_EVENT_PHASE:
        return bs_in_range(e->subject, 0, f->phases);
    case BS_EVENT_USE:
    case BS_EVENT_STALL: return of_unit && of_phase;
    case BS_EVENT_GUESS: return (of_unit || e->subject == -1) && of_phase;
    case BS_EVENT_READ:
    case BS_EVENT_PREPARE: return of_unit && e->index >= 0 && e->thread >= 0 && e->value <= PROFILE_MAX_UNIT_BYTES;
    case BS_EVENT_OP:
        return bs_in_range(e->subject, 1, f->nodes + 1) && bs_in_range(e->index, 0, 2) && e->thread >= 0;
    case BS_EVENT_TILE:
        return e->thread >= 0 && (e->subject == 0 ? e->index == 0 : path_is_good(r, e->subject, e->index));
    case BS_EVENT_LOADED:
    case BS_EVENT_EVICT:
    case BS_EVENT_DROP: return of_unit;
    }
    return true; /* about a run, or about dropped events */
}

/* Reads ahead so that the next event lies in the window. */
static bool fill_window(bs_profile_reader *r, bs_error *error)
{
    if (r->next >= r->window_first && r->next - r->window_first < r->window_events)
        return true;
    const uint64_t left = r->facts.events - r->next;
    const uint32_t most = PROFILE_WINDOW_BYTES / r->event_bytes;
    const uint32_t events = left < most ? (uint32_t)left : most;
    const bs_bytes each = bs_bytes_of(r->event_bytes),
                   at = bs_bytes_add(r->events_at, bs_bytes_product(each, bs_bytes_of(r->next)));
    const bs_status status = bs_source_read(&r->source, at, r->window, bs_bytes_times(each, events));
    if (status != BS_OK)
        return bs_refuse(error, status, "profile: event %llu cannot be read", (unsigned long long)r->next);
    r->window_first = r->next;
    r->window_events = events;
    return true;
}

bool bs_profile_next(bs_profile_reader *profile, bs_event *event, bs_error *error)
{
    bs_profile_reader *r = profile;
    if (error)
        memset(error, 0, sizeof *error);
    if (!r || !event)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "bs_profile_next: the profile or the event is NULL");
    while (r->next < r->facts.events) {
        if (!fill_window(r, error))
            return false;
        memcpy(event, r->window + (r->next - r->window_first) * r->event_bytes, sizeof *event);
        r->next++;
        if (event->kind <= BS_EVENT_NONE || event->kind >= BS_EVENT_COUNT)
            continue; /* an event of a later version */
        if (!event_is_good(r, event))
            return bs_refuse(error, BS_ERROR_FORMAT,
                             "profile: event %llu (kind %d): subject %" PRId32 ", index %" PRId32
                             " or value out of range",
                             (unsigned long long)(r->next - 1), event->kind, event->subject, event->index);
        if (event->end_ns < event->start_ns)
            event->end_ns = event->start_ns;
        return true;
    }
    return false;
}

void bs_profile_rewind(bs_profile_reader *profile)
{
    if (profile)
        profile->next = 0;
}
#endif
