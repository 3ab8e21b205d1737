/* plan/walk_bytes.c - the second half of the walk: whose rows each byte holds, instruction by instruction. What is read
 * must still be there, all of it: nothing else was written over it since; and of one time, whose instructions run in
 * any order, none writes what another one reads or writes.
 *
 * An arena is a list of spans, each with the value whose rows it holds. Paths of a router may share their bytes: a
 * slab, in which decisions keep the rows of each path apart. States and outputs that values are stored in are spans of
 * their own, behind those of the arena. Each part has a scratch of its own, where times are places of instructions.
 * For builds that ask for it (BS_VERIFY, BS_DEBUG): an arena of its own is needed, and time (bs_plan_verify).
 * Relies on plan/walk.h, and on the first half having looked at each instruction before. Must never write a plan. */
#include "plan/walk.h"

#if defined(BS_VERIFY) || defined(BS_DEBUG)

#define BOUND (UINT64_C(1) << 62) /* where spans of buffers begin; arenas are far smaller (BS_MAX_PLAN_BYTES) */

/* From `begin` to where the next one begins. */
typedef struct bs_walk_span {
    uint64_t begin;
    int32_t owner;   /* the value whose rows it holds, of a slab the last one that was written; 0 none */
    int32_t since;   /* when that, or the first one of its slab, was written */
    int32_t written, read; /* the times at which it last was; -1 never */
} walk_span;

typedef struct bs_walk_arena {
    walk_span *spans;
    int32_t count;
} walk_space;

struct bs_walk_bytes {
    const bs_walk *w;
    walk_space transient, scratch;
    int32_t *wrote; /* [values] when its rows began to be written */
    int32_t *read, *reader; /* [values] the time at which it was read last, and what at top level did; -1: several */
    int32_t clock;  /* instructions so far, those of repeated trips as well */
};

/* One access: where, and at which time. */
typedef struct walk_access {
    walk_space *in;
    uint64_t begin, end;
    int32_t time;
} walk_access;

/* ------------------------------------------------------------------------------------------------- spans */

static void walk_clear(walk_space *a)
{
    a->count = 1;
    a->spans[0] = (walk_span){0, 0, 0, -1, -1};
}

/* The span that begins at `at`, cut off the one that holds it. */
static int32_t cut_at(walk_space *a, uint64_t at)
{
    int32_t low = 0, high = a->count; /* the first one behind it */
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (a->spans[middle].begin <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (a->spans[low - 1].begin == at)
        return low - 1;
    memmove(&a->spans[low + 1], &a->spans[low], (size_t)(a->count - low) * sizeof(walk_span));
    a->spans[low] = a->spans[low - 1];
    a->spans[low].begin = at;
    a->count++;
    return low;
}

/* --------------------------------------------------------------------------------------------- what is touched */

int32_t bs_walk_touched(const bs_plan *p, const bs_instr *i, int32_t k, bool *is_written)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[i->node];
    const bool call = i->kind == BS_INSTR_CALL, view = bs_instr_loads(i) && bs_node_is_view(node);
    const int32_t written = call ? node->n_out : 1;
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    *is_written = k < written;
    if (k < written)
        return call ? node->first_out + k : i->target;
    k -= written + 2;
    if (k == -2)
        return i->value;
    if (k == -1 && call && bs_node_op(node)->rows.of == BS_ROWS_AROUND)
        return bs_view_of(g, &g->nodes[g->values[in[0]].node]);
    if (k == -1)
        return view ? bs_view_of(g, node) : 0;
    if (k >= n_in || (i->kind == BS_INSTR_MOVE && !bs_instr_gathers(i)))
        return -1;
    return bs_plan_reads(p, node, k) ? in[k] : 0;
}

bool bs_walk_are_paths(const bs_graph *g, int32_t a, int32_t b)
{
    const bs_domain *x = &g->domains[a], *y = &g->domains[b];
    return x->kind == BS_DOMAIN_PATH && y->kind == BS_DOMAIN_PATH && x->router == y->router && x->path != y->path;
}

/* The value in whose storage a value's rows are. */
static int32_t stored_in(const bs_plan *p, int32_t value)
{
    while (p->values[value].storage == BS_STORAGE_VIEW)
        value = p->values[value].source;
    return value;
}

/* Whether values of two paths share a slab. */
static bool share_slab(const bs_plan *p, int32_t a, int32_t b)
{
    const bs_value_plan *x = &p->values[a], *y = &p->values[b];
    return bs_bytes_same(x->offset, y->offset) && bs_bytes_same(x->row_bytes, y->row_bytes) &&
           bs_walk_are_paths(p->graph, p->graph->values[a].domain, p->graph->values[b].domain);
}

/* Whether both are kept, each in its rows. */
static bool live_together(const bs_plan *p, int32_t a, int32_t b)
{
    return a == b || (p->values[a].storage == BS_STORAGE_TRANSIENT && share_slab(p, a, b));
}

/* Where a value, which has storage of its own, is accessed now. False: in memory that nothing else shares. */
static bool find_access(bs_walk_bytes *b, int32_t value, walk_access *at)
{
    const bs_plan *p = b->w->p;
    const bs_value_plan *v = &p->values[value];
    const bool scratch = v->storage == BS_STORAGE_SCRATCH;
    at->in = scratch ? &b->scratch : &b->transient;
    at->time = scratch ? b->w->at : p->instrs[b->w->now].time;
    at->begin = bs_bytes_figure(v->offset);
    at->end = bs_bytes_figure(bs_plan_end(v));
    if (v->storage == BS_STORAGE_STATE || v->storage == BS_STORAGE_OUTPUT) {
        at->begin = BOUND + (uint64_t)v->source;
        at->end = at->begin + 1;
        return true;
    }
    return bs_plan_is_stored(p, value);
}

/* ------------------------------------------------------------------------------------------------- accesses */

/* Whether instructions of one time may access rows of the same value: one, its own; and tiles those that only they
 * have. */
static bool may_meet(const bs_walk *w, int32_t value, int32_t other)
{
    return other == w->now && (w->tile == 0 || bs_plan_is_within(w->g, w->g->values[value].domain, w->tile));
}

static bool is_still_there(bs_walk_bytes *b, int32_t value)
{
    const bs_walk *w = b->w;
    walk_access a;
    bool there = true;
    if (!find_access(b, value, &a))
        return true;
    const int32_t end = (cut_at(a.in, a.begin), cut_at(a.in, a.end));
    for (int32_t k = cut_at(a.in, a.begin); k < end && there; k++) {
        walk_span *s = &a.in->spans[k];
        const bool given = s->owner == 0 && w->of[w->g->values[value].node].last < 0;
        there = given || (s->owner != 0 && live_together(w->p, s->owner, value) && s->since <= b->wrote[value]);
        s->read = a.time;
    }
    b->reader[value] = b->read[value] == a.time && b->reader[value] != w->now ? -1 : w->now;
    b->read[value] = a.time;
    return there;
}

/* Rows of `owner` are written where a value lies, mostly its own. first: none of them were before. */
static bool may_write_over(bs_walk_bytes *b, int32_t value, int32_t owner, bool first)
{
    const bs_walk *w = b->w;
    walk_access a;
    bool apart = true;
    if (!find_access(b, value, &a))
        return true;
    const int32_t end = (cut_at(a.in, a.begin), cut_at(a.in, a.end));
    const bool alone = b->read[value] != a.time || may_meet(w, value, b->reader[value]);
    for (int32_t k = cut_at(a.in, a.begin); k < end && apart; k++) {
        walk_span *s = &a.in->spans[k];
        const bool same = s->owner != 0 && live_together(w->p, s->owner, value);
        apart = alone && (same || (s->written != a.time && s->read != a.time)) &&
                (first || (same && s->since <= b->wrote[value]));
        *s = (walk_span){s->begin, owner, same ? s->since : b->clock, a.time, s->read};
    }
    if (first)
        b->wrote[value] = b->clock;
    return apart;
}

/* What is seen has its rows in both places. */
static bool are_still_there(bs_walk_bytes *b, int32_t value)
{
    const bs_plan *p = b->w->p;
    bool there = true;
    while (there && value != 0) {
        const bool seen = bs_plan_is_seen(p, value);
        value = stored_in(p, value);
        there = is_still_there(b, value);
        value = seen ? p->values[value].source : 0;
    }
    return there;
}

/* At the end of a run a state is written that others may have read, where it lies. */
static bool ends_apart(bs_walk_bytes *b)
{
    const bs_walk *w = b->w;
    const int32_t *in = bs_node_in(w->g, w->node), state = bs_node_operand(w->node, BS_ROLE_STATE);
    return state < 0 || w->p->values[in[state]].storage != BS_STORAGE_STATE ||
           may_write_over(b, in[state], w->i->value, true);
}

bool bs_walk_bytes_sound(bs_walk_bytes *b, bool first)
{
    const bs_walk *w = b->w;
    const bs_plan *p = w->p;
    const bool move = w->i->kind == BS_INSTR_MOVE;
    const bool view = bs_instr_loads(w->i); /* its value is what it makes */
    bool sound = true, written;
    b->clock++;
    for (int32_t k = 0, value; sound && (value = bs_walk_touched(p, w->i, k, &written)) >= 0; k++)
        sound = written || value == 0 || (view && value == w->i->value) || are_still_there(b, value);
    for (int32_t k = 0, value; sound && (value = bs_walk_touched(p, w->i, k, &written)) >= 0 && written; k++) {
        const int32_t in = stored_in(p, value);
        sound = value == 0 || may_write_over(b, in, in, first && in == value);
    }
    return sound && (!move || w->i->target != 0 || ends_apart(b));
}

void bs_walk_bytes_part(bs_walk_bytes *b) { walk_clear(&b->scratch); }

/* ------------------------------------------------------------------------------------------------- the whole */

static void carve_bytes(bs_carver *c, bs_walk_bytes *b, const bs_plan_room *g)
{
    const int64_t spans = 2 * (g->values + g->nodes) + 4; /* each value and buffer is cut at two places */
    BS_CARVE(c, b->transient.spans, spans);
    BS_CARVE(c, b->scratch.spans, spans);
    BS_CARVE(c, b->wrote, g->values);
    BS_CARVE(c, b->read, g->values);
    BS_CARVE(c, b->reader, g->values);
}

/* One walk counts and hands out. */
static void carve_all(bs_carver *c, bs_walk *w, bs_walk_bytes *b, const bs_plan_room *g)
{
    bs_walk_carve(c, w, g->nodes, g->operands);
    BS_CARVE(c, w->repeated, g->routers);
    carve_bytes(c, b, g);
}

bs_bytes bs_plan_walk_bytes_workspace(const bs_plan_room *room)
{
    bs_walk w;
    bs_walk_bytes b;
    bs_carver c = {NULL, {0}};
    carve_all(&c, &w, &b, room);
    return c.used;
}

static bs_plan_room room_of_walk(const bs_graph *g)
{
    return (bs_plan_room){.nodes = g->n_nodes, .values = g->n_values, .operands = g->n_operands,
                          .routers = g->n_routers};
}

int32_t bs_plan_walk_bytes(const bs_plan *p, void *workspace)
{
    bs_walk_bytes b = {.clock = 0};
    bs_walk w = {.p = p, .g = p->graph, .whole = true, .bytes = &b};
    bs_carver c = {workspace, {0}};
    const bs_plan_room room = room_of_walk(p->graph);
    carve_all(&c, &w, &b, &room);
    memset(w.repeated, 0, (size_t)p->graph->n_routers * sizeof *w.repeated);
    memset(b.wrote, 0, (size_t)p->graph->n_values * sizeof *b.wrote);
    memset(b.read, 0xff, (size_t)p->graph->n_values * sizeof *b.read); /* -1 */
    walk_clear(&b.transient);
    b.w = &w;
    return bs_walk_all(&w);
}

bs_status bs_plan_verify(const bs_plan *p, bs_arena *arena, bs_error *error)
{
    if (!p || !arena)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_verify: the plan or the arena is NULL");
    const bs_plan_room room = room_of_walk(p->graph);
    const bs_bytes bytes = bs_plan_walk_bytes_workspace(&room);
    void *workspace = bs_lend(arena, bytes);
    if (!workspace)
        return bs_fail_arena(error, arena, bytes, "what verifies the plan");
    const int32_t at = bs_plan_walk_bytes(p, workspace);
    if (at == BS_WALK_SOUND)
        return BS_OK;
    return bs_fail(error, BS_ERROR_INTERNAL, "bs_plan_verify: instruction %" PRId32 " of %" PRId32 ", of node "
                   "%" PRId32 ", is wrong or missing, or what it reads was written over", at, p->n_instrs,
                   at < p->n_instrs ? p->instrs[at].node : 0);
}

#endif
