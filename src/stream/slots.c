/* stream/slots.c - extents of the slots arena: which unit lies where, and which is evicted.
 *
 * Extents rather than slots of fixed sizes: units differ (a small and a large subnet), and extents waste nothing but
 * the gaps between them. Room is found by trying every place that begins or ends at an extent, and taking the one
 * whose most valuable victim is worth least. What is pinned, needed or being read stays.
 * Relies on stream/stream.h. Must never evict what the visit in progress still needs. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM)

/* ------------------------------------------------------------------------------------------------ policies */

/* How much a unit is worth keeping: the larger, the longer it stays. */
typedef double (*slot_keep)(const bs_stream *s, int32_t unit);

/* Minus the expected number of visits until the unit is needed again; a unit that no phase lists goes first. */
static double keep_reuse(const bs_stream *s, int32_t unit)
{
    const int32_t ahead = s->distance[unit], phase = s->order[ahead];
    if (ahead == 0)
        return -(double)INFINITY;
    return -(s->after[ahead] + bs_ahead_period(s, phase) * bs_predict_visits(s, phase, s->next_use[unit]));
}

static double keep_lru(const bs_stream *s, int32_t unit) { return (double)s->slots[unit].last_use; }

static double keep_lfu(const bs_stream *s, int32_t unit)
{
    const double age = (double)(s->takes - s->slots[unit].last_use) / (8.0 * s->facts.n_units);
    return s->slots[unit].frequency * exp2(-age);
}

static double keep_belady(const bs_stream *s, int32_t unit) { return -(double)s->future[unit]; }

static const slot_keep slot_policies[BS_POLICY_COUNT] = {keep_reuse, keep_lru, keep_lfu, keep_belady};

const char *bs_policy_name(bs_policy policy)
{
#define SLOT_POLICY_TEXT(name, text) text "\0"
    return bs_name_of(BS_POLICY_LIST(SLOT_POLICY_TEXT), policy, BS_POLICY_COUNT);
#undef SLOT_POLICY_TEXT
}

/* ------------------------------------------------------------------------------------------------ searching */

static bool slot_may_go(const bs_slot *slot)
{
    return slot->pins == 0 && !slot->needed && slot->in_flight == 0;
}

/* How many units have an extent that begins before `offset`. */
static int32_t extents_before(const bs_stream *s, bs_bytes offset)
{
    int32_t low = 0, high = s->n_present;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (bs_bytes_less(s->slots[s->by_offset[middle]].offset, offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The next unit, from *at of `by_offset` on, whose extent overlaps [offset, offset + bytes); -1 none. Places are tried
 * at 0 and where an extent begins or ends, so no extent that begins before the place reaches into it. */
static int32_t next_overlap(const bs_stream *s, bs_bytes offset, bs_bytes bytes, int32_t *at)
{
    while (*at < s->n_present) {
        const int32_t u = s->by_offset[(*at)++];
        if (!bs_bytes_less(s->slots[u].offset, bs_bytes_add(offset, bytes)))
            return -1;
        if (bs_bytes_less(offset, bs_bytes_add(s->slots[u].offset, s->facts.units[u].slot_bytes)))
            return u;
    }
    return -1;
}

int32_t bs_slots_overlap(const bs_stream *s, bs_bytes offset, bs_bytes bytes, int32_t after)
{
    int32_t next = -1, at = extents_before(s, offset);
    for (int32_t u = next_overlap(s, offset, bytes, &at); u >= 0; u = next_overlap(s, offset, bytes, &at))
        if (u > after && (next < 0 || u < next))
            next = u;
    return next;
}

typedef struct slot_place {
    bs_bytes offset, evicted;
    double worst; /* worth of its most valuable victim; -infinity without victims */
    bool found;
} slot_place;

static void try_place(const bs_stream *s, bs_bytes offset, bs_bytes bytes, slot_place *best)
{
    slot_place place = {offset, {0}, -(double)INFINITY, true};
    if (bs_bytes_less(s->facts.slot_bytes, bs_bytes_add(offset, bytes)))
        return;
    int32_t at = extents_before(s, offset);
    for (int32_t u = next_overlap(s, offset, bytes, &at); u >= 0; u = next_overlap(s, offset, bytes, &at)) {
        const bs_slot *slot = &s->slots[u];
        if (!slot_may_go(slot))
            return;
        place.worst = slot->keep > place.worst ? slot->keep : place.worst;
        place.evicted = bs_bytes_add(place.evicted, s->facts.units[u].slot_bytes);
    }
    if (!best->found || place.worst < best->worst ||
        (place.worst <= best->worst && bs_bytes_less(place.evicted, best->evicted)))
        *best = place;
}

bool bs_slots_find(bs_stream *s, bs_bytes bytes, bs_bytes *offset)
{
    const slot_keep keep = slot_policies[s->facts.desc.policy];
    slot_place best = {{0}, {0}, 0, false};
    for (int32_t k = 0; k < s->n_present; k++)
        if (slot_may_go(&s->slots[s->present[k]]))
            s->slots[s->present[k]].keep = keep(s, s->present[k]);
    try_place(s, bs_bytes_of(0), bytes, &best);
    for (int32_t k = 0; k < s->n_present; k++) {
        const int32_t u = s->present[k];
        try_place(s, s->slots[u].offset, bytes, &best);
        try_place(s, bs_bytes_add(s->slots[u].offset, s->facts.units[u].slot_bytes), bytes, &best);
    }
    *offset = best.offset;
    return best.found;
}

/* ---------------------------------------------------------------------------------------- coming and going */

static void list_insert(int32_t *list, int32_t count, int32_t at, int32_t unit)
{
    memmove(list + at + 1, list + at, (size_t)(count - at) * sizeof *list);
    list[at] = unit;
}

static void list_remove(int32_t *list, int32_t count, int32_t at)
{
    memmove(list + at, list + at + 1, (size_t)(count - at - 1) * sizeof *list);
}

/* Index of a unit in `present`, or where it would be inserted. */
static int32_t present_at(const bs_stream *s, int32_t unit)
{
    int32_t low = 0, high = s->n_present;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->present[middle] < unit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void extent_taken(bs_stream *s, int32_t unit, bs_bytes offset)
{
    list_insert(s->present, s->n_present, present_at(s, unit), unit);
    list_insert(s->by_offset, s->n_present, extents_before(s, offset), unit);
    s->slots[unit].offset = offset;
    s->n_present++;
}

static void extent_left(bs_stream *s, int32_t unit)
{
    int32_t at = extents_before(s, s->slots[unit].offset);
    while (s->by_offset[at] != unit) /* units of no bytes may begin at the same offset */
        at++;
    list_remove(s->present, s->n_present, present_at(s, unit));
    list_remove(s->by_offset, s->n_present, at);
    s->n_present--;
}

static void count_waste(bs_stream *s, int32_t unit)
{
    const bs_stream_unit *facts = &s->facts.units[unit];
    bs_slot *slot = &s->slots[unit];
    if (slot->guessed)
        s->stats.bytes_wasted = bs_add_u64(
            s->stats.bytes_wasted,
            bs_bytes_figure(bs_bytes_share(bs_bytes_times(facts->read_bytes, slot->done), (uint64_t)facts->n_chunks)));
    slot->guessed = false;
}

void bs_slots_give_up(bs_stream *s, int32_t unit, int32_t for_guess)
{
    bs_slot *slot = &s->slots[unit];
    const bool loading = slot->state != BS_SLOT_READY;
    s->stats.dropped += loading && slot->state != BS_SLOT_DROPPED;
    s->stats.evictions += !loading;
    if (s->watch && slot->state != BS_SLOT_DROPPED)
        s->watch(s->watcher, loading ? BS_EVENT_DROP : BS_EVENT_EVICT, unit, for_guess >= 0);
    count_waste(s, unit);
    if (!loading)
        slot->evicted_for = for_guess;
    if (slot->in_flight > 0) { /* a lane still writes to it */
        slot->state = BS_SLOT_DROPPED;
        return;
    }
    slot->state = BS_SLOT_ABSENT;
    extent_left(s, unit);
    s->slots_used = bs_bytes_sub(s->slots_used, s->facts.units[unit].slot_bytes);
}

void bs_slots_begin(bs_stream *s, int32_t unit, bs_bytes offset, bool guessed, uint64_t now)
{
    const bs_bytes bytes = s->facts.units[unit].slot_bytes;
    bs_slot *slot = &s->slots[unit];
    for (int32_t u = bs_slots_overlap(s, offset, bytes, -1); u >= 0; u = bs_slots_overlap(s, offset, bytes, u))
        bs_slots_give_up(s, u, guessed ? unit : -1);
    slot->state = BS_SLOT_LOADING;
    extent_taken(s, unit, offset);
    slot->issued = slot->done = 0;
    slot->spoiled = false;
    slot->guessed = guessed;
    slot->guess_used = slot->guess_used && !guessed;
    slot->guess_visit = guessed ? s->visits : slot->guess_visit;
    slot->load_start = now;
    s->slots_used = bs_bytes_add(s->slots_used, bytes);
    if (bs_bytes_figure(s->slots_used) > s->stats.resident_peak_bytes)
        s->stats.resident_peak_bytes = bs_bytes_figure(s->slots_used);
}
#endif
