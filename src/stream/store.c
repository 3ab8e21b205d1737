/* stream/store.c - lanes: threads that read chunks into staging, check them, and prepare them into slots; and how a
 * run waits.
 *
 * Everything the stream decides is decided under one gate; reading and preparing happen outside it. A lane writes only
 * to the slot of the chunk that it was given, and nothing else uses that slot until the lane hands the chunk back.
 * Relies on stream/store.h. Must never publish a unit before all of it is there. */
#include "stream/store_load.h"

#if !defined(BS_NO_STREAM)

/* ------------------------------------------------------------------------------------------------- carving */

static bs_stream_facts store_facts(const bs_plan *plan)
{
    const bs_stream_facts facts = {plan->n_units - 1, plan->n_phases,   plan->n_phase_units, NULL, plan->phases,
                                   plan->phase_units, plan->slot_bytes, {0, 0, 0},           false};
    return facts;
}

/* Room for the most chunks there can be: every node may begin one, and so may every record whose first weights are far
 * from its head. Returns the stream's memory. */
static void *carve_store(bs_carver *c, const bs_plan *plan, bs_store *s)
{
    const bs_stream_facts facts = store_facts(plan);
    enum { UNITS, NODES, TENSORS, CHUNKS, BASES, LANES };
    static const bs_carved arrays[] = {
        BS_CARVED(bs_store, facts, UNITS),   BS_CARVED(bs_store, units, UNITS),
        BS_CARVED(bs_store, nodes, NODES),   BS_CARVED(bs_store, tensors, TENSORS),
        BS_CARVED(bs_store, chunks, CHUNKS), BS_CARVED(bs_store, wanted, UNITS),
        BS_CARVED(bs_store, base, BASES),    BS_CARVED(bs_store, lanes, LANES),
    };
    int64_t nodes = 0, tensors = 0;
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        if (!bs_store_loads(plan, n))
            continue;
        nodes++;
        tensors += bs_node_weights(plan->graph, &plan->graph->nodes[n], specs);
    }
    const int64_t counts[] = {plan->n_units - 1, nodes, tensors, 2 * nodes, plan->n_units, plan->lanes};
    BS_CARVE_ARRAYS(c, s, arrays, counts);
    return bs_carve_bytes(c, bs_stream_bytes(&facts));
}

bs_bytes bs_store_bytes(const bs_plan *plan)
{
    bs_carver c = {NULL, {0}};
    bs_store unused;
    if (!bs_plan_streams(plan))
        return bs_bytes_align(bs_bytes_of(sizeof *unused.base));
    carve_store(&c, plan, &unused);
    return c.used;
}

/* --------------------------------------------------------------------------------------------------- lanes */

static uint64_t store_now(const bs_store *s)
{
    return s->platform && s->platform->clock_ns ? s->platform->clock_ns(s->platform->user) : 0;
}

static void record(const bs_store *s, bs_event_kind kind, uint64_t start, uint64_t end, int32_t subject, int32_t index,
                   uint64_t value, int32_t lane)
{
    const bs_event event = {start, end, value, subject, index, (int16_t)kind, (int16_t)lane, 0};
    bs_profile_add(s->profile, &event);
}

/* Records what the stream evicts or drops, where there is a profile. */
static void watch(void *user, bs_event_kind kind, int32_t unit, bool for_guess)
{
    const bs_store *s = user;
    const uint64_t now = store_now(s);
    record(s, kind, now, now, unit, for_guess, 0, 0);
}

/* Called locked, returns locked: the gate is open while bytes are read and prepared. */
static void load_chunk(bs_store *s, bs_store_lane *lane, bs_stream_chunk *wanted)
{
    const bs_store_chunk *chunk = &s->chunks[s->units[wanted->unit].first_chunk + wanted->index];
    bs_gate_unlock(&s->gate);
    const uint64_t start = store_now(s);
    const uint8_t *raw = NULL;
    bs_status status = bs_store_fetch(s, lane, chunk, &raw);
    const uint64_t arrived = store_now(s);
    bs_gate_lock(&s->gate);
    const uint64_t bytes = bs_bytes_figure(bs_bytes_sub(chunk->end, chunk->begin));
    bs_stream_arrived(&s->stream, wanted, status == BS_OK ? bytes : 0, arrived - start, arrived);
    bs_gate_tell(&s->gate);
    if (status == BS_OK)
        status = bs_store_check(s, wanted->unit, chunk, raw);
    if (status == BS_OK)
        status = bs_store_prepare(s, lane, chunk, raw, bs_bytes_at(s->slots, wanted->offset));
    const uint64_t done = store_now(s);
    record(s, BS_EVENT_READ, start, arrived, wanted->unit, wanted->index, bytes, lane->index);
    record(s, BS_EVENT_PREPARE, arrived, done, wanted->unit, wanted->index, bytes, lane->index);
    bs_gate_lock(&s->gate);
    const bs_slot *slot = &s->stream.slots[wanted->unit];
    const bool guessed = slot->guessed;
    const uint64_t began = slot->load_start;
    if (bs_stream_done(&s->stream, wanted, status, bytes, done - arrived, done))
        record(s, BS_EVENT_LOADED, began, done, wanted->unit, guessed,
               bs_bytes_figure(s->facts[wanted->unit].read_bytes), lane->index);
    bs_gate_wake(&s->gate);
}

static void lane_main(void *argument)
{
    bs_store_lane *lane = argument;
    bs_store *s = lane->store;
    bs_gate_lock(&s->gate);
    while (!s->stop) {
        bs_stream_chunk chunk;
        if (bs_stream_next(&s->stream, store_now(s), &chunk))
            load_chunk(s, lane, &chunk);
        else
            bs_gate_wait(&s->gate);
    }
    bs_gate_unlock(&s->gate);
}

static bool start_lanes(bs_store *s, bs_error *error)
{
    const bs_platform *p = s->platform;
    if (!p || !p->thread_start)
        return true;
    if (!bs_gate_make(&s->gate, p))
        return bs_refuse(error, BS_ERROR_PLATFORM, "reader threads: the platform's gate_init failed");
    for (; s->started < s->n_lanes; s->started++)
        if (p->thread_start(p->user, s->lanes[s->started].handle, lane_main, &s->lanes[s->started]) != 0) {
            const int32_t number = s->started + 1;
            bs_store_close(s);
            return bs_refuse(error, BS_ERROR_PLATFORM,
                             "reader thread %" PRId32 " of %" PRId32 ": the platform's thread_start failed", number,
                             s->n_lanes);
        }
    return true;
}

bool bs_store_open(bs_store *s, const bs_store_desc *d, bs_error *error)
{
    bs_carver c = {d->memory, {0}};
    memset(s, 0, sizeof *s);
    s->base = (uint8_t **)(void *)d->memory;
    s->platform = d->platform;
    s->profile = d->profile;
    if (bs_plan_streams(d->plan)) {
        const uint32_t align = d->weights->fetch_alignment;
        if (!d->weights->locate || !d->weights->record || !d->weights->fetch || align == 0 || (align & (align - 1)) ||
            align > BS_PAGE_BYTES)
            return bs_refuse(
                error, BS_ERROR_UNSUPPORTED,
                "the plan streams weights: bs_session_desc.weights needs locate, record, fetch and its alignment, "
                "a power of two up to %d",
                BS_PAGE_BYTES);
        if (!bs_in_range(d->stream->policy, 0, BS_POLICY_BELADY) ||
            !bs_in_range(d->stream->speculation, 0, BS_SPECULATE_OFF + 1))
            return bs_refuse(error, BS_ERROR_ARGUMENT,
                             "bs_session_desc.stream: policy %" PRId32 ", speculation %" PRId32
                             ", expected 0 .. %d and 0 .. %d",
                             d->stream->policy, d->stream->speculation, BS_POLICY_BELADY - 1, BS_SPECULATE_OFF);
        s->plan = d->plan;
        s->weights = *d->weights;
        s->slots = d->slots;
        s->device = d->device;
        s->on_device = d->on_device;
        s->check_records = d->stream->check_records != 0;
        void *memory = carve_store(&c, d->plan, s);
        if (!bs_store_plan(s, error))
            return false;
        bs_stream_facts facts = store_facts(d->plan);
        facts.units = s->facts;
        facts.desc = *d->stream;
        facts.serial = s->check_records;
        bs_stream_init(&s->stream, &facts, memory);
        s->stream.watch = d->profile ? watch : NULL;
        s->stream.watcher = s;
        s->n_lanes = d->weights->serial ? 1 : d->plan->lanes;
        for (int32_t i = 0; i < s->n_lanes; i++) {
            s->lanes[i].store = s;
            s->lanes[i].index = i;
            s->lanes[i].staging = bs_bytes_row(d->staging, bs_bytes_of(0), i, d->plan->lane_bytes);
            s->lanes[i].room = d->rooms ? bs_bytes_row(d->rooms, bs_bytes_of(0), i, d->room_bytes) : NULL;
        }
    }
    s->base[0] = d->resident;
    return !s->plan || start_lanes(s, error);
}

void bs_store_close(bs_store *s)
{
    bs_gate_lock(&s->gate);
    s->stop = true;
    bs_gate_tell(&s->gate);
    for (int32_t i = 0; i < s->started; i++)
        s->platform->thread_join(s->platform->user, s->lanes[i].handle);
    bs_gate_destroy(&s->gate);
    s->started = 0;
}

/* ------------------------------------------------------------------------------------------------- the run */

void bs_store_visit(bs_store *s, int32_t phase, const int32_t *units, int32_t count)
{
    bs_gate_lock(&s->gate);
    for (int32_t i = 0; i < count; i++)
        s->wanted[i] = units[i] - 1;
    bs_stream_visit(&s->stream, phase, s->wanted, count, store_now(s));
    bs_gate_tell(&s->gate);
}

void bs_store_leave(bs_store *s)
{
    if (!s->plan)
        return;
    bs_gate_lock(&s->gate);
    bs_stream_leave(&s->stream);
    bs_gate_tell(&s->gate);
}

void bs_store_expect(bs_store *s, int32_t phase, int32_t unit, double margin)
{
    bs_gate_lock(&s->gate);
    const int32_t strength = unit ? bs_stream_strength(&s->stream, phase, margin) : 0;
    bs_stream_expect(&s->stream, phase, unit - 1, strength);
    bs_gate_tell(&s->gate);
    const uint64_t now = s->profile ? store_now(s) : 0;
    record(s, BS_EVENT_GUESS, now, now, unit - 1, phase, (uint64_t)strength, 0);
}

/* Called locked. */
static bool take_locked(bs_store *s, int32_t unit, bs_status *status)
{
    bs_bytes offset = bs_bytes_of(0);
    if (!bs_stream_take(&s->stream, unit - 1, &offset, status))
        return false;
    s->base[unit] = bs_bytes_at(s->slots, offset);
    return true;
}

bool bs_store_try(bs_store *s, int32_t unit, bs_status *status)
{
    bs_gate_lock(&s->gate);
    const bool taken = take_locked(s, unit, status);
    bs_gate_unlock(&s->gate);
    return taken;
}

/* Called locked. Waits for a lane; where there are no threads, does a lane's work. */
static bs_status wait_locked(bs_store *s)
{
    bs_stream_chunk chunk;
    if (s->gate.platform) {
        bs_gate_wait(&s->gate);
        return BS_OK;
    }
    if (!bs_stream_next(&s->stream, store_now(s), &chunk))
        return BS_ERROR_LIMIT;
    load_chunk(s, &s->lanes[0], &chunk);
    return BS_OK;
}

bs_status bs_store_wait(bs_store *s, int32_t phase, const int32_t *units, int32_t count, int32_t *taken)
{
    const uint64_t start = store_now(s);
    bs_status status = BS_OK;
    bool waited = false;
    *taken = 0;
    bs_gate_lock(&s->gate);
    for (;;) {
        for (int32_t i = 0; i < count && status == BS_OK && !*taken; i++)
            if (take_locked(s, units[i], &status) || status != BS_OK)
                *taken = units[i];
        if (status != BS_OK || *taken)
            break;
        if (!waited)
            bs_stream_stall(&s->stream, start);
        waited = true;
        bs_stream_wait(&s->stream);
        bs_gate_wake(&s->gate);
        status = wait_locked(s);
    }
    const uint64_t end = store_now(s);
    if (waited)
        bs_stream_resume(&s->stream, end);
    bs_gate_unlock(&s->gate);
    if (waited)
        record(s, BS_EVENT_STALL, start, end, units[0] - 1, phase, 0, 0);
    return status;
}

int32_t bs_store_missing(bs_store *s)
{
    int32_t missing = 0;
    bs_gate_lock(&s->gate);
    for (int32_t i = 0; i < s->stream.n_needed; i++)
        missing += s->stream.slots[s->stream.needed[i]].state != BS_SLOT_READY;
    bs_gate_unlock(&s->gate);
    return missing;
}

void bs_store_release(bs_store *s, int32_t unit)
{
    bs_gate_lock(&s->gate);
    bs_stream_release(&s->stream, unit - 1);
    bs_gate_tell(&s->gate);
}

bs_use bs_store_outcome(const bs_store *s, int32_t unit)
{
    return s->stream.slots[unit - 1].outcome; /* no lock: only visits write it, on this thread */
}

void bs_store_stats(bs_store *s, bs_stream_stats *stats)
{
    bs_gate_lock(&s->gate);
    *stats = s->stream.stats;
    stats->guessing = s->stream.facts.desc.speculation != BS_SPECULATE_OFF && !s->stream.paused;
    stats->direct = s->weights.fetch_alignment > 1;
    bs_gate_unlock(&s->gate);
}

void bs_store_prediction(bs_store *s, int32_t phase, bs_predictor predictor, bs_prediction *sum)
{
    bs_gate_lock(&s->gate);
    bs_prediction_add(sum, &s->stream.phases[phase].predictions[predictor]);
    bs_gate_unlock(&s->gate);
}
#endif
