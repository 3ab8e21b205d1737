/* profile/profile.c - the ring that events go through, the thread that writes them, the header before them.
 * Owns the ring in the caller's memory. Relies on profile/profile.h and the platform table. Must never make a producer
 * wait: when the ring is full, the event is dropped and counted.
 *
 * The ring is a bounded queue with a sequence number in each cell (Vyukov's). A cell is free for position n when its
 * number is n, filled when it is n + 1, and free again, for position n + cells, once the event was taken. Producers
 * claim positions by compare and swap of `head`; `tail` belongs to the one consumer. Numbers wrap; only their
 * differences count. */
#include "profile/profile.h"

#include "base/platform.h"

#if !defined(BS_NO_PROFILE)

enum {
    PROFILE_BLOCK_BYTES = 4096, /* of one write */
    PROFILE_LEAST_CELLS = 16,
    PROFILE_MOST_CELLS = 1 << 24
};

typedef struct profile_cell {
    atomic_uint sequence;
    uint32_t rest;
    bs_event event;
} profile_cell;

struct bs_profile {
    bs_profile_write write;
    void *user;
    profile_cell *cells;
    unsigned mask, mark; /* cells - 1; number of events for which the writer is woken */

    /* Used by one thread at a time: the thread that writes the header, then the writer, then the thread of close. */
    uint8_t *block;
    size_t block_bytes, block_events;
    uint64_t lost, last_ns;
    int32_t ops;
    bool failed;

    _Alignas(BS_ALIGNMENT) atomic_uint head;
    _Alignas(BS_ALIGNMENT) atomic_uint tail;
    atomic_uint dropped; /* since the last event that told how many */
    atomic_bool asleep;  /* the writer waits, or is about to */
    atomic_bool draining;
    atomic_bool open;    /* the header is written */
    bool stop;           /* under the gate */
    _Alignas(16) uint8_t thread[BS_THREAD_BYTES];
    bs_gate gate; /* the writer waits at it; not made: the threads that add events write the blocks */
};

/* ------------------------------------------------------------------------------------------------- the ring */

/* Positions are never reset: they wrap. */

BS_WRAPS static bool ring_put(bs_profile *p, const bs_event *event)
{
    unsigned at = atomic_load_explicit(&p->head, memory_order_relaxed);
    for (;;) {
        profile_cell *cell = &p->cells[at & p->mask];
        const int32_t ahead = (int32_t)(atomic_load_explicit(&cell->sequence, memory_order_acquire) - at);
        if (ahead < 0)
            return false; /* its event of the last lap was not taken yet: the ring is full */
        if (ahead > 0) {
            at = atomic_load_explicit(&p->head, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak(&p->head, &at, at + 1)) {
            cell->event = *event;
            cell->event.reserved = 0;
            atomic_store(&cell->sequence, at + 1);
            return true;
        }
    }
}

BS_WRAPS static bool ring_take(bs_profile *p, bs_event *event)
{
    const unsigned at = atomic_load_explicit(&p->tail, memory_order_relaxed);
    profile_cell *cell = &p->cells[at & p->mask];
    if (atomic_load(&cell->sequence) != at + 1)
        return false;
    *event = cell->event;
    atomic_store_explicit(&cell->sequence, at + p->mask + 1, memory_order_release);
    atomic_store_explicit(&p->tail, at + 1, memory_order_relaxed);
    return true;
}

/* An old tail makes this too large, never too small: at worst the writer wakes for few events. */
BS_WRAPS static bool ring_is_filled(bs_profile *p)
{
    return atomic_load(&p->head) - atomic_load_explicit(&p->tail, memory_order_relaxed) >= p->mark;
}

BS_WRAPS static bool ring_has_next(bs_profile *p)
{
    const unsigned at = atomic_load_explicit(&p->tail, memory_order_relaxed);
    return atomic_load(&p->cells[at & p->mask].sequence) == at + 1;
}

/* ---------------------------------------------------------------------------------------- blocks of the file */

static void block_flush(bs_profile *p)
{
    if (p->block_bytes > 0 && !p->failed && p->write(p->user, p->block, p->block_bytes) != 0) {
        p->failed = true;
        p->lost += p->block_events;
    }
    p->block_bytes = 0;
    p->block_events = 0;
}

static void block_put(bs_profile *p, const void *data, size_t bytes)
{
    if (p->block_bytes + bytes > PROFILE_BLOCK_BYTES)
        block_flush(p);
    if (p->failed)
        return;
    memcpy(p->block + p->block_bytes, data, bytes);
    p->block_bytes += bytes;
}

static void block_put_event(bs_profile *p, const bs_event *event)
{
    block_put(p, event, sizeof *event);
    if (event->kind == BS_EVENT_DROPPED)
        return; /* replaces the dropped events, which are counted already */
    if (p->failed)
        p->lost++;
    else
        p->block_events++;
    p->last_ns = event->end_ns;
}

static void profile_tell_dropped(bs_profile *p)
{
    const unsigned dropped = atomic_exchange(&p->dropped, 0);
    if (dropped == 0)
        return;
    p->lost += dropped;
    const bs_event event = {
        .start_ns = p->last_ns, .end_ns = p->last_ns, .value = dropped, .subject = -1, .kind = BS_EVENT_DROPPED};
    block_put_event(p, &event);
}

/* Takes at most one lap, so that a count of dropped events is written even while producers keep the ring full. */
static void profile_drain(bs_profile *p)
{
    bs_event event;
    for (unsigned i = 0; i <= p->mask && ring_take(p, &event); i++)
        block_put_event(p, &event);
    profile_tell_dropped(p);
    block_flush(p);
}

/* ------------------------------------------------------------------------------------------------ the writer */

/* The writer announces that it sleeps and then looks once more; a producer publishes its event and then looks whether
 * the writer sleeps. All four are sequentially consistent, so that one of the two sees the other. */
static void profile_main(void *argument)
{
    bs_profile *p = argument;
    for (;;) {
        bs_gate_lock(&p->gate);
        for (;;) {
            atomic_store(&p->asleep, true);
            if (p->stop || (atomic_load(&p->open) && ring_is_filled(p) && ring_has_next(p)))
                break;
            bs_gate_wait(&p->gate);
        }
        atomic_store(&p->asleep, false);
        const bool stop = p->stop;
        bs_gate_unlock(&p->gate);
        if (stop)
            return; /* close drains */
        profile_drain(p);
    }
}

static void profile_wake(bs_profile *p)
{
    if (!atomic_load(&p->asleep) || !atomic_exchange(&p->asleep, false))
        return; /* it is awake, or another producer wakes it */
    bs_gate_lock(&p->gate);
    bs_gate_tell(&p->gate);
}

/* Without threads: runs on the caller's thread. The flag keeps a second consumer out, in case the caller has threads
 * after all. */
static void profile_drain_here(bs_profile *p)
{
    if (atomic_exchange(&p->draining, true))
        return;
    profile_drain(p);
    atomic_store(&p->draining, false);
}

void bs_profile_add(bs_profile *profile, const bs_event *event)
{
    if (!profile)
        return;
    if (!ring_put(profile, event))
        atomic_fetch_add_explicit(&profile->dropped, 1, memory_order_relaxed);
    if (!ring_is_filled(profile))
        return;
    if (profile->gate.platform)
        profile_wake(profile);
    else if (atomic_load(&profile->open))
        profile_drain_here(profile);
}

/* ------------------------------------------------------------------------------------------------ the header */

int32_t bs_profile_takes_ops(const bs_profile *profile) { return profile ? profile->ops : 0; }

unsigned bs_profile_added(bs_profile *profile) { return atomic_load_explicit(&profile->head, memory_order_relaxed); }

/* Names end up on terminals: everything that is not printable ASCII becomes a question mark. `target` is zeroed. */
static void header_text(char *target, size_t bytes, const char *name)
{
    for (size_t i = 0; name && name[i] && i < bytes - 1; i++)
        target[i] = name[i] < 0x20 || name[i] > 0x7e ? '?' : name[i];
}

static void header_name(char target[BS_MAX_NAME], const char *name) { header_text(target, BS_MAX_NAME, name); }

static void header_routers(bs_profile *p, const bs_profile_header_desc *d)
{
    for (int32_t i = 0; i < d->n_routers; i++) {
        bs_profile_router router = {NULL, 0};
        bs_profile_file_router record = {.rest = 0};
        d->router(d->user, i, &router);
        header_name(record.name, router.name);
        record.paths = router.paths;
        block_put(p, &record, sizeof record);
    }
}

static void header_units(bs_profile *p, const bs_profile_header_desc *d)
{
    for (int32_t i = 0; i < d->n_units; i++) {
        bs_profile_unit unit = {NULL, 0, -1, 0, 0};
        d->unit(d->user, i, &unit);
        bs_profile_file_unit record = {
            .router = unit.router, .path = unit.path, .read_bytes = unit.read_bytes, .slot_bytes = unit.slot_bytes};
        header_name(record.name, unit.name);
        block_put(p, &record, sizeof record);
    }
}

/* Phases, then the numbers of their units, filled up to 8 bytes so that events are aligned. */
static void header_phases(bs_profile *p, const bs_profile_header_desc *d, uint32_t phase_units)
{
    const int32_t zero = 0;
    bs_profile_phase phase = {0, 0, NULL};
    for (int32_t i = 0; i < d->n_phases; i++) {
        d->phase(d->user, i, &phase);
        const bs_profile_file_phase record = {phase.router, phase.n_units};
        block_put(p, &record, sizeof record);
    }
    for (int32_t i = 0; i < d->n_phases; i++) {
        d->phase(d->user, i, &phase);
        for (int32_t k = 0; k < phase.n_units; k++)
            block_put(p, &phase.units[k], sizeof phase.units[k]);
    }
    if (phase_units % 2)
        block_put(p, &zero, sizeof zero);
}

static void header_nodes(bs_profile *p, const bs_profile_header_desc *d)
{
    for (int32_t i = 0; i < d->n_nodes; i++) {
        bs_node_facts node;
        const char *block = d->node(d->user, i, &node);
        bs_profile_file_node record = {.router = node.router.id,
                                       .path = node.path,
                                       .flops = node.flops,
                                       .bytes = node.bytes,
                                       .weight_bytes = node.weight_bytes};
        header_name(record.name, node.name);
        header_name(record.block, block);
        header_text(record.op, sizeof record.op, node.op);
        block_put(p, &record, sizeof record);
    }
}

static uint32_t count_phase_units(const bs_profile_header_desc *d)
{
    uint32_t n = 0;
    for (int32_t i = 0; i < d->n_phases; i++) {
        bs_profile_phase phase = {0, 0, NULL};
        d->phase(d->user, i, &phase);
        n += (uint32_t)phase.n_units;
    }
    return n;
}

/* Lets the writer start. Before this it does not touch the block, and events wait in the ring. */
static void profile_open_ring(bs_profile *p)
{
    bs_gate_lock(&p->gate);
    atomic_store(&p->open, true);
    bs_gate_tell(&p->gate);
}

bs_status bs_profile_header(bs_profile *profile, const bs_profile_header_desc *desc)
{
    if (!profile)
        return BS_OK;
    if (atomic_load(&profile->open))
        return BS_ERROR_ARGUMENT;
    const bs_profile_file file = {.magic = BS_PROFILE_MAGIC,
                                  .version = desc->n_nodes > 0 ? BS_PROFILE_VERSION : BS_PROFILE_VERSION_PLAIN,
                                  .header_bytes = sizeof file,
                                  .event_bytes = sizeof(bs_event),
                                  .routers = (uint32_t)desc->n_routers,
                                  .units = (uint32_t)desc->n_units,
                                  .phases = (uint32_t)desc->n_phases,
                                  .phase_units = count_phase_units(desc),
                                  .slot_bytes = desc->slot_bytes,
                                  .chunk_bytes = desc->chunk_bytes,
                                  .policy = desc->policy,
                                  .speculation = desc->speculation,
                                  .nodes = (uint32_t)desc->n_nodes};
    block_put(profile, &file, sizeof file);
    header_routers(profile, desc);
    header_units(profile, desc);
    header_phases(profile, desc, file.phase_units);
    header_nodes(profile, desc);
    block_flush(profile);
    profile_open_ring(profile);
    return BS_OK;
}

/* ------------------------------------------------------------------------------------- its life, from outside */

/* The block and then the cells, in the caller's memory; the number of cells is a power of two. */
static bool profile_carve(bs_profile *p, const bs_profile_desc *desc)
{
    const size_t skip = bs_to_aligned(desc->memory, BS_ALIGNMENT);
    const size_t least = skip + PROFILE_BLOCK_BYTES + PROFILE_LEAST_CELLS * sizeof(profile_cell);
    if (!desc->memory || desc->bytes < least)
        return false;
    const size_t room = (desc->bytes - skip - PROFILE_BLOCK_BYTES) / sizeof(profile_cell);
    unsigned cells = PROFILE_LEAST_CELLS;
    while (cells * 2u <= room && cells < PROFILE_MOST_CELLS)
        cells *= 2;
    p->block = (uint8_t *)desc->memory + skip;
    p->cells = (profile_cell *)(void *)(p->block + PROFILE_BLOCK_BYTES);
    p->mask = cells - 1;
    p->mark = cells / 4;
    for (unsigned i = 0; i < cells; i++)
        atomic_init(&p->cells[i].sequence, i);
    return true;
}

static void profile_init(bs_profile *p, const bs_profile_desc *desc)
{
    memset(p, 0, sizeof *p);
    p->write = desc->write;
    p->user = desc->user;
    p->ops = desc->ops;
    atomic_init(&p->head, 0);
    atomic_init(&p->tail, 0);
    atomic_init(&p->dropped, 0);
    atomic_init(&p->asleep, false);
    atomic_init(&p->draining, false);
    atomic_init(&p->open, false);
}

static bs_status profile_start(bs_profile *p, const bs_platform *os, bs_error *error)
{
    if (!os || !os->thread_start)
        return BS_OK;
    if (!bs_gate_make(&p->gate, os))
        return bs_fail(error, BS_ERROR_PLATFORM, "profile: the platform's gate_init failed for its writer");
    if (os->thread_start(os->user, p->thread, profile_main, p) == 0)
        return BS_OK;
    bs_gate_destroy(&p->gate);
    return bs_fail(error, BS_ERROR_PLATFORM, "profile: the platform's thread_start failed for its writer");
}

bs_profile *bs_profile_create(bs_arena *arena, const bs_profile_desc *desc, bs_error *error)
{
    if (!arena || !desc || !desc->write) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_profile_create: the arena, the desc or its write is NULL");
        return NULL;
    }
    const size_t used = arena->used;
    bs_profile *p = bs_arena_take(arena, sizeof *p);
    if (!p) {
        bs_fail_arena(error, arena, bs_bytes_of(sizeof *p), "a profile");
        return NULL;
    }
    profile_init(p, desc);
    bs_status status = BS_OK;
    if (!profile_carve(p, desc))
        status = bs_fail(error, BS_ERROR_ARGUMENT,
                         "bs_profile_desc: %llu bytes of memory are too few for the ring, %d always do",
                         (unsigned long long)desc->bytes,
                         (int)(BS_ALIGNMENT + PROFILE_BLOCK_BYTES + PROFILE_LEAST_CELLS * sizeof(profile_cell)));
    if (status == BS_OK)
        status = profile_start(p, desc->platform ? desc->platform : bs_platform_default(), error);
    if (status == BS_OK)
        return p;
    arena->used = used;
    return NULL;
}

static void profile_stop(bs_profile *p)
{
    const bs_platform *os = p->gate.platform;
    if (!os)
        return;
    bs_gate_lock(&p->gate);
    p->stop = true;
    bs_gate_tell(&p->gate);
    os->thread_join(os->user, p->thread);
    bs_gate_destroy(&p->gate);
}

bs_status bs_profile_close(bs_profile *profile, uint64_t *dropped)
{
    if (dropped)
        *dropped = 0;
    if (!profile)
        return BS_OK;
    profile_stop(profile);
    const bool open = atomic_load(&profile->open);
    if (!open)
        profile->failed = true; /* events without a header mean nothing: they are counted, not written */
    profile_drain(profile);
    if (dropped)
        *dropped = profile->lost;
    return open && profile->failed ? BS_ERROR_IO : BS_OK;
}
#endif
