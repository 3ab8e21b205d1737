/* profile_facts.c: see profile_facts.h. Numbers of a profile that was opened are in range: bs_profile_next saw to
 * it. */
#include "profile_facts.h"

#include "profile_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a profile says may be anything: sums end at the largest number. */
static void add_to(uint64_t *sum, uint64_t n) { *sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n; }

/* A number of each run, or of each visit of a phase. */
typedef struct sample {
    int32_t of;
    double value;
} sample;

typedef struct samples {
    sample *items;
    size_t count, room;
} samples;

typedef struct reading {
    profile_facts *f;
    samples units, bytes, visits;
    uint64_t *seen;       /* [units] run in which it was used last, from 1 */
    uint64_t *seen_visit; /* likewise */
    uint64_t visit, run, run_units, run_bytes;
    int32_t visit_units;
    bool out_of_memory;
} reading;

static void add_sample(reading *r, samples *s, int32_t of, double value)
{
    void *items = s->items;
    if (!cli_grow(&items, &s->room, s->count, sizeof *s->items)) {
        r->out_of_memory = true;
        return;
    }
    s->items = items;
    s->items[s->count++] = (sample){of, value};
}

static int by_value(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->of != y->of)
        return x->of < y->of ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Of items that are sorted. */
static facts_spread spread_of(const sample *items, size_t count)
{
    facts_spread s = {count, 0, 0, 0};
    for (size_t i = 0; i < count; i++)
        s.mean += items[i].value / (double)count;
    if (count > 0) {
        s.p95 = items[(size_t)ceil(0.95 * (double)count) - 1].value;
        s.most = items[count - 1].value;
    }
    return s;
}

static facts_spread spread(samples *s)
{
    if (s->count > 0)
        qsort(s->items, s->count, sizeof *s->items, by_value);
    return spread_of(s->items, s->count);
}

static void spread_visits(profile_facts *f, samples *s)
{
    if (s->count > 0)
        qsort(s->items, s->count, sizeof *s->items, by_value);
    for (size_t first = 0, next; first < s->count; first = next) {
        for (next = first; next < s->count && s->items[next].of == s->items[first].of;)
            next++;
        f->units_a_visit[s->items[first].of] = spread_of(s->items + first, next - first);
    }
}

/* ----------------------------------------------------------------------------------------------------- events */

static void see_unit(reading *r, int32_t unit)
{
    r->visit_units += r->seen_visit[unit] != r->visit;
    r->seen_visit[unit] = r->visit;
    if (r->seen[unit] == r->run)
        return;
    r->seen[unit] = r->run;
    r->run_units++;
    add_to(&r->run_bytes, r->f->trace.units[unit].slot_bytes);
}

static void count_pairs(facts_router *a, const facts_router *b)
{
    for (int32_t i = 0; a->joint && i < a->n_chosen; i++)
        for (int32_t k = 0; k < b->n_chosen; k++)
            a->joint[a->chosen[i] * b->facts.paths + b->chosen[k]]++;
}

static void end_run(reading *r, const bs_event *e)
{
    profile_facts *f = r->f;
    f->runs++;
    add_to(&f->run_ns, e->end_ns - e->start_ns);
    for (int32_t i = 0; i + 1 < f->file.routers; i++)
        count_pairs(&f->routers[i], &f->routers[i + 1]);
    for (int32_t i = 0; i < f->file.routers; i++) {
        for (int32_t k = 0; k < f->routers[i].n_chosen; k++)
            f->routers[i].runs[f->routers[i].chosen[k]]++;
        f->routers[i].n_chosen = 0;
    }
    if (f->file.units > 0) {
        add_sample(r, &r->units, 0, (double)r->run_units);
        add_sample(r, &r->bytes, 0, (double)r->run_bytes);
    }
    r->run++;
    r->run_units = r->run_bytes = 0;
}

static void count_decision(facts_router *router, const bs_event *e, uint64_t run)
{
    if (!router->cells || e->index >= router->facts.paths)
        return;
    add_to(&router->cells[e->index], e->value);
    add_to(&router->all_cells, e->value);
    if (e->value == 0 || router->chosen_in[e->index] == run)
        return;
    router->chosen_in[e->index] = run;
    router->chosen[router->n_chosen++] = e->index;
}

static void count_event(reading *r, const bs_event *e)
{
    profile_facts *f = r->f;
    const uint64_t ns = e->end_ns - e->start_ns;
    switch (e->kind) {
    case BS_EVENT_RUN: end_run(r, e); break;
    case BS_EVENT_DECISION: count_decision(&f->routers[e->subject - 1], e, r->run); break;
    case BS_EVENT_PHASE:
        add_sample(r, &r->visits, e->subject, r->visit_units);
        r->visit_units = 0;
        r->visit++;
        break;
    case BS_EVENT_USE:
        see_unit(r, e->subject);
        break;
    case BS_EVENT_STALL: add_to(&f->stall_ns, ns); break;
    case BS_EVENT_READ:
        f->reads++;
        add_to(&f->bytes_read, e->value);
        add_to(&f->read_ns, ns);
        break;
    case BS_EVENT_PREPARE: add_to(&f->prepare_ns, ns); break;
    case BS_EVENT_LOADED:
        f->loads++;
        f->guessed_loads += e->index == 1;
        break;
    case BS_EVENT_EVICT: f->evictions++; break;
    case BS_EVENT_DROP: f->dropped_loads++; break;
    case BS_EVENT_DROPPED: add_to(&f->lost, e->value); break;
    }
}

/* ---------------------------------------------------------------------------------------- loads and their pairs */

static double entropy_of(const facts_router *r)
{
    double bits = 0;
    for (int32_t p = 0; p < r->facts.paths; p++)
        if (r->cells[p] > 0) {
            const double share = (double)r->cells[p] / (double)r->all_cells;
            bits -= share * log2(share);
        }
    return r->facts.paths > 1 && r->all_cells ? bits / log2(r->facts.paths) : 0;
}

static void keep_pair(facts_router *r, facts_pair pair)
{
    int32_t at = r->n_pairs < FACTS_PAIRS ? r->n_pairs++ : FACTS_PAIRS;
    for (; at > 0 && r->pairs[at - 1].weight < pair.weight; at--)
        if (at < FACTS_PAIRS)
            r->pairs[at] = r->pairs[at - 1];
    if (at < FACTS_PAIRS)
        r->pairs[at] = pair;
}

static void find_pairs(facts_router *a, const facts_router *b, uint64_t runs)
{
    for (int32_t p = 0; p < a->facts.paths; p++)
        for (int32_t q = 0; q < b->facts.paths; q++) {
            const double together = a->joint[p * b->facts.paths + q];
            if (together == 0)
                continue;
            const double lift = together * (double)runs / ((double)a->runs[p] * (double)b->runs[q]);
            if (lift > 1.0001)
                keep_pair(a, (facts_pair){p, q, (uint64_t)together, lift, together / (double)runs * log2(lift)});
        }
}

/* ----------------------------------------------------------------------------------------------- look-ahead */

/* Guesses wait by phase, as linked lists, until that phase is visited. */
typedef struct waiting {
    int32_t *head; /* [phases] the latest guess; -1 */
    int32_t *next; /* [guesses] */
    int32_t *mark; /* [units] 1 + visit that used it */
} waiting;

static void judge_guesses(profile_facts *f, waiting *w, int32_t index)
{
    const bs_trace_visit *v = &f->trace.visits[index];
    bs_prediction *p = &f->look_ahead;
    if (w->head[v->phase] < 0)
        return; /* nobody guessed */
    uint64_t needed = 0;
    for (int32_t i = v->first_use; i < v->first_use + v->n_uses; i++) {
        needed += w->mark[f->trace.uses[i].unit] != index + 1;
        w->mark[f->trace.uses[i].unit] = index + 1;
    }
    p->needed += needed;
    for (int32_t g = w->head[v->phase]; g >= 0; g = w->next[g]) {
        const int32_t unit = f->trace.guesses[g].unit;
        if (unit < 0)
            continue; /* nothing was expected */
        p->expected++;
        p->right += w->mark[unit] == index + 1;
        if (w->mark[unit] == index + 1)
            w->mark[unit] = 0; /* once */
    }
    w->head[v->phase] = -1;
}

static void count_guesses(profile_facts *f, waiting *w)
{
    const bs_trace *t = &f->trace;
    for (int32_t i = 0; i < t->n_phases; i++)
        w->head[i] = -1;
    for (int32_t i = 0; i < t->n_visits; i++) {
        const bs_trace_visit *v = &t->visits[i];
        for (int32_t g = v->first_guess; g < v->first_guess + v->n_guesses; g++) {
            w->next[g] = w->head[t->guesses[g].phase];
            w->head[t->guesses[g].phase] = g;
        }
        judge_guesses(f, w, i);
    }
}

static bool look_ahead(profile_facts *f)
{
    const bs_trace *t = &f->trace;
    waiting w = {malloc((size_t)(t->n_phases + 1) * sizeof *w.head),
                 malloc(((size_t)t->n_guesses + 1) * sizeof *w.next), calloc((size_t)t->n_units + 1, sizeof *w.mark)};
    const bool good = w.head && w.next && w.mark;
    if (good)
        count_guesses(f, &w);
    free(w.head);
    free(w.next);
    free(w.mark);
    return good;
}

/* -------------------------------------------------------------------------------------------------- budgets */

/* Where Belady's curve stands highest above the line from its first point to its last. */
static int32_t find_knee(const facts_budget *b)
{
    const int32_t last = FACTS_BUDGETS - 1;
    int32_t first = 0, knee = -1;
    double best = 0.01;
    while (first < last && !b[first].fits)
        first++;
    for (int32_t i = first + 1; i < last; i++) {
        const double line = b[first].belady + (b[last].belady - b[first].belady) * (i - first) / (last - first);
        if (b[i].belady - line > best) {
            best = b[i].belady - line;
            knee = i;
        }
    }
    return knee;
}

static bool budgets(profile_facts *f)
{
    profile_cache *cache = profile_cache_create(&f->trace);
    if (!cache)
        return false;
    uint64_t least = 0;
    for (int32_t i = 0; i < f->trace.n_units; i++) {
        const uint64_t bytes = f->trace.units[i].slot_bytes;
        add_to(&f->all_bytes, bytes);
        least = bytes > least ? bytes : least;
    }
    for (int32_t i = 0; i < FACTS_BUDGETS; i++) {
        facts_budget *b = &f->budgets[i];
        b->percent = (i + 1) * 100 / FACTS_BUDGETS;
        b->bytes = (uint64_t)((double)f->all_bytes * (i + 1) / FACTS_BUDGETS + 0.5);
        b->fits = b->bytes >= least;
        b->belady = b->fits ? profile_cache_hits(cache, b->bytes, true) : 0;
        b->lru = b->fits ? profile_cache_hits(cache, b->bytes, false) : 0;
    }
    f->knee = find_knee(f->budgets);
    profile_cache_free(cache);
    return true;
}

/* ------------------------------------------------------------------------------------------------ all of it */

static bool make_paths(facts_router *r)
{
    const size_t paths = (size_t)r->facts.paths;
    r->cells = calloc(paths, sizeof *r->cells);
    r->runs = calloc(paths, sizeof *r->runs);
    r->chosen = calloc(paths, sizeof *r->chosen);
    r->chosen_in = calloc(paths, sizeof *r->chosen_in);
    return r->cells && r->runs && r->chosen && r->chosen_in;
}

static bool make_joints(profile_facts *f)
{
    int64_t room = FACTS_MOST_PAIRS;
    for (int32_t i = 0; i + 1 < f->file.routers; i++) {
        facts_router *r = &f->routers[i];
        const int64_t pairs = (int64_t)r->facts.paths * r[1].facts.paths;
        if (pairs > room)
            continue;
        room -= pairs;
        r->joint = calloc((size_t)pairs, sizeof *r->joint);
        if (!r->joint)
            return false;
    }
    return true;
}

static bool make_routers(profile_facts *f, const bs_profile_reader *profile)
{
    f->routers = calloc((size_t)f->file.routers + 1, sizeof *f->routers);
    f->units_a_visit = calloc((size_t)f->file.phases + 1, sizeof *f->units_a_visit);
    if (!f->routers || !f->units_a_visit)
        return false;
    int64_t paths = 0;
    for (int32_t i = 0; i < f->file.routers; i++) {
        bs_profile_router_get(profile, i + 1, &f->routers[i].facts);
        paths += f->routers[i].facts.paths;
        if (paths > FACTS_MOST_PATHS || !make_paths(&f->routers[i]))
            return false;
    }
    return make_joints(f);
}

static bool count_all(profile_facts *f, bs_profile_reader *profile, bs_error *error)
{
    reading r = {.f = f, .run = 1, .visit = 1};
    bs_event e;
    r.seen = calloc((size_t)f->file.units + 1, sizeof *r.seen);
    r.seen_visit = calloc((size_t)f->file.units + 1, sizeof *r.seen_visit);
    r.out_of_memory = !r.seen || !r.seen_visit || !make_routers(f, profile);
    error->status = BS_OK;
    while (!r.out_of_memory && bs_profile_next(profile, &e, error))
        count_event(&r, &e);
    if (!r.out_of_memory && error->status == BS_OK) {
        f->units_a_run = spread(&r.units);
        f->bytes_a_run = spread(&r.bytes);
        spread_visits(f, &r.visits);
    }
    free(r.seen);
    free(r.seen_visit);
    free(r.units.items);
    free(r.bytes.items);
    free(r.visits.items);
    return !r.out_of_memory;
}

bool profile_facts_read(profile_facts *facts, cli_file *file, bs_error *error)
{
    profile_facts *f = facts;
    memset(f, 0, sizeof *f);
    if (bs_trace_load(&file->arena, &file->reader, &f->trace, error) != BS_OK)
        return false;
    bs_profile_reader *profile = bs_profile_open(&file->arena, &file->reader, error);
    if (!profile)
        return false;
    bs_profile_facts_get(profile, &f->file);
    for (int32_t i = 0; i < f->trace.n_uses; i++) /* not the events: a unit may be computed with in several steps */
        if (f->trace.uses[i].outcome >= 0)
            f->uses[f->trace.uses[i].outcome]++;
    const bool room = count_all(f, profile, error) && look_ahead(f) && budgets(f);
    if (!room)
        snprintf(error->message, sizeof error->message, "no memory for what the profile tells");
    if (!room || error->status != BS_OK)
        return false;
    for (int32_t i = 0; i < f->file.routers; i++) {
        f->routers[i].entropy = entropy_of(&f->routers[i]);
        if (f->routers[i].joint)
            find_pairs(&f->routers[i], &f->routers[i + 1], f->runs);
    }
    return true;
}

void profile_facts_free(profile_facts *facts)
{
    for (int32_t i = 0; facts->routers && i < facts->file.routers; i++) {
        free(facts->routers[i].joint);
        free(facts->routers[i].cells);
        free(facts->routers[i].runs);
        free(facts->routers[i].chosen);
        free(facts->routers[i].chosen_in);
    }
    free(facts->routers);
    free(facts->units_a_visit);
    memset(facts, 0, sizeof *facts);
}
