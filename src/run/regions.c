/* run/regions.c - regions: tiles of all parts in one parallel step, or part by part as their weights arrive.
 * Relies on run/exec.h. Must never let a count, or what is in a slot, decide how work is cut. */
#include "run/exec.h"

/* ------------------------------------------------------------------------------------------------ regions */

typedef struct region_job {
    bs_session *session;
    int32_t n_parts;
    const int32_t *parts, *first_tile; /* [n_parts]; [n_parts + 1] tiles of the parts before */
} region_job;

static bs_rows_state part_rows(const bs_session *s, const bs_part *part)
{
    return s->root.domains[part->domain];
}

/* A tile sees the rows of its own domain and of the domains above. Rows of domains below appear when the tile's own
 * routers decide, before anything reads them. */
static void tile_open(bs_context *c, const bs_part *part, int32_t first, int32_t rows)
{
    const bs_session *s = c->session;
    int32_t d = part->domain;
    c->domains[d] = s->root.domains[d];
    while (s->graph->domains[d].kind == BS_DOMAIN_PATH) {
        d = s->graph->domains[d].parent;
        c->domains[d] = s->root.domains[d];
    }
    bs_rows_state *state = &c->domains[part->domain];
    state->count = rows;
    state->first += first;
    if (state->ids)
        state->ids += first;
}

static void tile_task(void *user, int32_t index, int32_t thread)
{
    const region_job *job = user;
    bs_session *s = job->session;
    int32_t k = 0, end = job->n_parts;
    if (bs_exec_failed(s))
        return;
    while (end - k > 1) { /* finds the last part that begins at or before the tile; no part is empty */
        const int32_t middle = k + (end - k) / 2;
        if (job->first_tile[middle] <= index)
            k = middle;
        else
            end = middle;
    }
    const bs_part *part = &s->plan->parts[job->parts[k]];
    const int32_t tile_rows = s->plan->domains[part->domain].tile_rows;
    const int32_t first = (index - job->first_tile[k]) * tile_rows;
    bs_context *c = &s->contexts[thread];
    tile_open(c, part, first, bs_min_i32(tile_rows, part_rows(s, part).count - first));
    bs_exec_tile(c, part->first, part->count, part->domain);
}

/* The same on a device, which knows the rows itself. Returns when the device has read the weights, which may then be
 * evicted. */
static void run_parts_there(bs_session *s, const int32_t *parts, int32_t count)
{
    int32_t node = 0;
    for (int32_t k = 0; k < count && !bs_exec_failed(s); k++) {
        const bs_part *part = &s->plan->parts[parts[k]];
        node = s->plan->instrs[part->first].node;
        bs_exec_place(s, part->unit, node);
        if (!bs_exec_failed(s)) /* after a failure it would read weights at a stale address */
            bs_exec_fail(s, s->device->api->part(s->on_device, parts[k], NULL), node);
    }
    bs_exec_finish_reads(s, node);
}

/* Runs the tiles of these parts in one parallel step. */
static void run_parts(bs_session *s, const int32_t *parts, int32_t count)
{
    region_job job = {s, count, parts, s->work.first_tile};
    int32_t *const first_tile = s->work.first_tile;
    if (s->device) {
        run_parts_there(s, parts, count);
        return;
    }
    first_tile[0] = 0;
    for (int32_t k = 0; k < count; k++) {
        const bs_part *part = &s->plan->parts[parts[k]];
        const int32_t rows = part_rows(s, part).count;
        first_tile[k + 1] = first_tile[k] + (int32_t)bs_ceil_div(rows, s->plan->domains[part->domain].tile_rows);
    }
    bs_workers_run(&s->pool, tile_task, &job, first_tile[count]);
}

/* Puts the parts that have rows into s->work.parts, the most expensive first; returns how many. */
static int32_t parts_to_run(bs_session *s, int32_t region)
{
    const bs_region *all = &s->plan->regions[region];
    int32_t count = 0;
    for (int32_t k = all->first; k < all->first + all->count; k++) {
        const bs_part *part = &s->plan->parts[s->plan->region_parts[k]];
        if (part->count > 0 && part_rows(s, part).count > 0)
            s->work.parts[count++] = s->plan->region_parts[k];
    }
    return count;
}

/* ------------------------------------------------------------------------------------------ with streamed weights */

/* Time that the threads spent on a path so far in this run. */
static uint64_t path_time(const bs_session *s, const bs_part *part)
{
    uint64_t ns = 0;
    for (int32_t t = 0; part->router && t < s->plan->threads; t++)
        ns += s->path_ns[bs_session_counts(s, t, part->router) + (size_t)part->path];
    return ns;
}

/* Parts that ran side by side share the elapsed time in proportion to what the threads spent on each. */
static void record_uses(bs_session *s, int32_t phase, const int32_t *parts, int32_t count, const uint64_t *spent,
                        uint64_t start, uint64_t end)
{
    uint64_t total = 0, at = start;
    for (int32_t k = 0; k < count; k++)
        total += path_time(s, &s->plan->parts[parts[k]]) - spent[k];
    for (int32_t k = 0; k < count; k++) {
        const bs_part *part = &s->plan->parts[parts[k]];
        const double share = total ? (double)(path_time(s, part) - spent[k]) / (double)total : 1.0 / count;
        const uint64_t until = k + 1 == count ? end : at + (uint64_t)((double)(end - start) * share);
        if (part->unit)
            bs_exec_used(s, phase, part->unit, at, until);
        at = until;
    }
}

static void move_to(int32_t *parts, int32_t from, int32_t to)
{
    const int32_t part = parts[from];
    for (int32_t at = from; at > to; at--)
        parts[at] = parts[at - 1];
    parts[to] = part;
}

static void release_parts(bs_session *s, const int32_t *parts, int32_t count)
{
    for (int32_t k = 0; k < count; k++)
        if (s->plan->parts[parts[k]].unit)
            bs_store_release(&s->store, s->plan->parts[parts[k]].unit);
}

/* Pins the units of the next parts that are ready, at least one, and moves those parts to the front. Returns how many,
 * 0 after a failure. While units are still missing it takes no more parts than there are threads: parts that are done
 * make room for what is missing. */
static int32_t take_parts(bs_session *s, int32_t phase, int32_t *parts, int32_t count)
{
    int32_t *const units = s->work.units, ready = 0, waited = 0, tried = 0;
    const int32_t most = bs_store_missing(&s->store) > 0 ? s->plan->threads : count;
    bs_status status = BS_OK;
    for (int32_t k = 0; k < count && status == BS_OK && ready < most; k++) {
        units[k] = tried = s->plan->parts[parts[k]].unit;
        if (tried == 0 || bs_store_try(&s->store, tried, &status))
            move_to(parts, k, ready++);
    }
    if (status == BS_OK && ready == 0) {
        status = bs_store_wait(&s->store, phase, units, count, &waited);
        tried = waited;
        for (int32_t k = 0; k < count && status == BS_OK && ready == 0; k++)
            if (s->plan->parts[parts[k]].unit == waited)
                move_to(parts, k, ready++);
    }
    if (status == BS_OK)
        return ready;
    release_parts(s, parts, ready);
    bs_exec_fail(s, status, tried ? s->plan->units[tried].node : 0);
    return 0;
}

/* Runs whatever is ready while the rest is being read. Results do not depend on the order. */
static void run_waves(bs_session *s, int32_t phase, int32_t *parts, int32_t count)
{
    uint64_t *const spent = s->work.spent;
    for (int32_t first = 0; first < count && !bs_exec_failed(s);) {
        const int32_t ready = take_parts(s, phase, parts + first, count - first);
        for (int32_t k = 0; k < ready; k++)
            spent[k] = path_time(s, &s->plan->parts[parts[first + k]]);
        const uint64_t start = bs_session_now(s);
        run_parts(s, parts + first, ready);
        record_uses(s, phase, parts + first, ready, spent, start, bs_session_now(s));
        release_parts(s, parts + first, ready);
        first += ready;
    }
}

void bs_exec_region(bs_session *s, const bs_instr *i)
{
    const int32_t count = parts_to_run(s, i->region);
    if (bs_instr_streams(i))
        run_waves(s, i->phase, s->work.parts, count);
    else
        run_parts(s, s->work.parts, count);
}

void bs_exec_region_units(bs_session *s, int32_t region, int32_t *count)
{
    const int32_t n = parts_to_run(s, region);
    for (int32_t k = 0; k < n; k++)
        bs_exec_need(s, s->plan->parts[s->work.parts[k]].unit, count);
}
