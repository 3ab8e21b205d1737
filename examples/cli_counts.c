/* cli_counts.c: see cli_counts.h. Numbers of a profile that was opened are in range: bs_profile_next saw to it. */
#include "cli_counts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double factors[COUNTS_FACTORS] = {1, 1.25, 1.5, 2, 4};

/* The cells that one decision gave one path; what gave none is not in a profile. */
typedef struct count {
    int32_t router, path;
    uint64_t cells;
} count;

typedef struct counting {
    count *items;
    size_t n, room;
    uint64_t *last_ns; /* [routers] when each decided last */
    int32_t *last;     /* [routers] the path that it counted last then */
    bool out_of_memory;
} counting;

static int by_path(const void *a, const void *b)
{
    const count *x = a, *y = b;
    if (x->router != y->router)
        return x->router < y->router ? -1 : 1;
    if (x->path != y->path)
        return x->path < y->path ? -1 : 1;
    return (x->cells > y->cells) - (x->cells < y->cells);
}

/* The paths of a decision are told in order, at one time. */
static void take(counting *c, counts_router *routers, const bs_event *e)
{
    const int32_t r = e->subject - 1;
    void *items = c->items;
    if (!cli_grow(&items, &c->room, c->n, sizeof *c->items)) {
        c->out_of_memory = true;
        return;
    }
    c->items = items;
    c->items[c->n++] = (count){r, e->index, e->value};
    routers[r].decisions += routers[r].decisions == 0 || c->last_ns[r] != e->start_ns || c->last[r] >= e->index;
    c->last_ns[r] = e->start_ns;
    c->last[r] = e->index;
}

/* Decisions that gave a path nothing count as well: they stand before the `n` that gave it cells, in order. */
static counts_path path_of(const count *items, size_t n, uint64_t decisions)
{
    const double rank = ceil(0.99 * (double)decisions), zeros = (double)decisions - (double)n;
    return (counts_path){rank > zeros ? items[(size_t)(rank - zeros) - 1].cells : 0, items[n - 1].cells};
}

static double share_beyond(const count *items, size_t n, uint64_t capacity)
{
    double all = 0, beyond = 0;
    for (size_t i = 0; i < n; i++) {
        all += (double)items[i].cells;
        beyond += items[i].cells > capacity ? (double)(items[i].cells - capacity) : 0;
    }
    return all > 0 ? beyond / all : 0;
}

/* Items of one router, in order. */
static void router_of(counts_router *r, const count *items, size_t n, int32_t paths)
{
    double all = 0;
    for (size_t first = 0, next; first < n; first = next) {
        for (next = first; next < n && items[next].path == items[first].path; next++)
            all += (double)items[next].cells;
        const counts_path path = path_of(items + first, next - first, r->decisions);
        r->paths[items[first].path] = path;
        r->proposed.capacity = path.p99 > r->proposed.capacity ? path.p99 : r->proposed.capacity;
    }
    r->mean = all / (double)r->decisions / paths;
    r->proposed.capacity += r->proposed.capacity == 0; /* a capacity is 1 at least */
    r->proposed.share = share_beyond(items, n, r->proposed.capacity);
    for (int32_t i = 0; i < COUNTS_FACTORS; i++) {
        const double capacity = fmin(fmax(ceil(factors[i] * r->mean), 1), 1e18);
        r->at[i] = (counts_capacity){factors[i], (uint64_t)capacity, share_beyond(items, n, (uint64_t)capacity)};
    }
}

static bool sum_up(counts_router *routers, counting *c, const bs_profile_reader *profile)
{
    if (c->n > 0)
        qsort(c->items, c->n, sizeof *c->items, by_path);
    for (size_t first = 0, next; first < c->n; first = next) {
        bs_profile_router_facts facts;
        counts_router *r = &routers[c->items[first].router];
        for (next = first; next < c->n && c->items[next].router == c->items[first].router;)
            next++;
        bs_profile_router_get(profile, c->items[first].router + 1, &facts);
        r->paths = calloc((size_t)facts.paths, sizeof *r->paths);
        if (!r->paths)
            return false;
        router_of(r, c->items + first, next - first, facts.paths);
    }
    return true;
}

counts_router *cli_counts_read(bs_profile_reader *profile, int32_t routers, bs_error *error)
{
    const size_t n = (size_t)routers + 1;
    counts_router *all = calloc(n, sizeof *all);
    counting c = {.last_ns = calloc(n, sizeof *c.last_ns), .last = calloc(n, sizeof *c.last)};
    bs_event e;
    c.out_of_memory = !all || !c.last_ns || !c.last;
    error->status = BS_OK;
    while (!c.out_of_memory && bs_profile_next(profile, &e, error)) {
        bs_profile_router_facts facts;
        const bool decides = e.kind == BS_EVENT_DECISION && e.value > 0;
        if (decides && bs_profile_router_get(profile, e.subject, &facts) == BS_OK && e.index < facts.paths)
            take(&c, all, &e);
    }
    const bool good = !c.out_of_memory && error->status == BS_OK && sum_up(all, &c, profile);
    if (!good && error->status == BS_OK) {
        error->status = BS_ERROR_ARENA;
        snprintf(error->message, sizeof error->message, "no memory for what the profile tells");
    }
    free(c.items);
    free(c.last_ns);
    free(c.last);
    if (good)
        return all;
    cli_counts_free(all, routers);
    return NULL;
}

void cli_counts_free(counts_router *counts, int32_t routers)
{
    for (int32_t i = 0; counts && i < routers; i++)
        free(counts[i].paths);
    free(counts);
}
