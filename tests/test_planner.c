/* Promises: what is alive together never shares bytes, what a plan says is what a session takes, and whatever the
 * order, the threads, the patches or what memory held before, a run gives what the graph's definition gives. */
#define _POSIX_C_SOURCE 200809L
#include "random_graph.h"
#include "against.h"
#include "flat_source.h"

static net_table weights;
static random_graph rg;
static against a;
static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20];
static char report[1 << 17];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static uint64_t figure(bs_bytes bytes) { return bs_bytes_figure(bytes); }

/* ----------------------------------------------------------------------------- who is alive when, by the
 * instructions */

typedef struct span_of {
    int32_t first, last;
    bool read_first;
} span_of;

typedef struct watch {
    const bs_plan *plan;
    span_of spans[NAIVE_VALUES];
    int32_t scope; /* -1 or a part */
} watch;

static void see(watch *w, int32_t value, int32_t time, bool writes)
{
    while (value > 0 &&
           (w->plan->values[value].place == BS_PLACE_VIEW || w->plan->values[value].place == BS_PLACE_FRAME))
        value = w->plan->values[value].source;
    const bs_value_plan *v = &w->plan->values[value];
    const bool here =
        w->scope < 0 ? v->place == BS_PLACE_TRANSIENT : v->place == BS_PLACE_SCRATCH && v->scope == w->scope;
    if (value == 0 || !here)
        return;
    span_of *s = &w->spans[value];
    if (s->first < 0 || time < s->first)
        s->read_first = !writes;
    else if (time == s->first && writes && w->scope < 0)
        s->read_first = false; /* a region writes and reads at one time */
    s->first = s->first < 0 || time < s->first ? time : s->first;
    s->last = time > s->last ? time : s->last;
}

/* What an instruction reads and writes, told from what each kind means. */
static void see_instr(watch *w, const bs_instr *i, int32_t time)
{
    const bs_graph *g = w->plan->graph;
    const bs_node *node = &g->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(w->plan, i->node, &n_in);
    const bool forced = node->router && w->plan->routers[node->router].forced;
    switch ((bs_instr_kind)i->kind) {
    case BS_INSTR_CALL: /* a look-ahead makes nothing */
        for (int32_t k = 0; k < n_in; k++)
            see(w, in[k], time, false);
        for (int32_t k = 0; k < node->n_out; k++)
            see(w, node->first_out + k, time, true);
        break;
    case BS_INSTR_MOVE:
        if (i->map == BS_MAP_VIEW)
            see(w, n_in ? in[0] : 0, time, false);
        else if (i->map == BS_MAP_PATHS)
            for (int32_t k = 0; k < n_in; k++)
                see(w, bs_plan_reads(w->plan, node, k) ? in[k] : 0, time, false);
        else
            see(w, i->value, time, false);
        see(w, i->target, time, true);
        break;
    case BS_INSTR_ROUTE:
        for (int32_t k = 0; k < n_in && !forced; k++)
            see(w, in[k], time, false);
        break;
    case BS_INSTR_RUN:
        for (int32_t k = 0; k < w->plan->n_instrs; k++)
            if (w->plan->instrs[k].part != BS_TOP && w->plan->parts[w->plan->instrs[k].part].region == i->region)
                see_instr(w, &w->plan->instrs[k], time);
        break;
    }
}

static void watch_scope(watch *w, const bs_plan *plan, int32_t scope)
{
    const int32_t first = scope < 0 ? 0 : plan->parts[scope].first,
                  count = scope < 0 ? plan->n_top : plan->parts[scope].count;
    w->plan = plan;
    w->scope = scope;
    for (int32_t v = 0; v < plan->graph->n_values; v++)
        w->spans[v] = (span_of){-1, -1, false};
    for (int32_t i = first; i < first + count; i++)
        see_instr(w, &plan->instrs[i], scope < 0 ? plan->instrs[i].time : i);
}

/* Rows of different paths of a router are packed: they may share one slab, row size and all. */
static bool shares_slab(const bs_plan *p, int32_t u, int32_t v)
{
    const bs_domain *a_domain = &p->graph->domains[p->graph->values[u].domain],
                    *b_domain = &p->graph->domains[p->graph->values[v].domain];
    const bs_value_plan *x = &p->values[u], *y = &p->values[v];
    return a_domain->kind == BS_DOMAIN_PATH && b_domain->kind == BS_DOMAIN_PATH &&
           a_domain->router == b_domain->router && a_domain->path != b_domain->path &&
           bs_bytes_same(x->offset, y->offset) && bs_bytes_same(x->row_bytes, y->row_bytes) && x->rows == y->rows;
}

/* Whether all values of a scope lie apart, within `bytes`, and are written before they are read. */
static uint64_t end_of(const bs_value_plan *v)
{
    return figure(bs_bytes_add(v->offset, bs_bytes_times(v->row_bytes, v->rows)));
}

static bool scope_is_sound(watch *w, bs_bytes bytes)
{
    const bs_plan *p = w->plan;
    for (int32_t u = 1; u < p->graph->n_values; u++) {
        const bs_value_plan *x = &p->values[u];
        const uint64_t x_at = figure(x->offset), x_end = end_of(x);
        if (w->spans[u].first < 0)
            continue;
        if (w->spans[u].read_first || x_end > figure(bytes) || x_end == x_at)
            return false;
        for (int32_t v = 1; v < u; v++) {
            const bs_value_plan *y = &p->values[v];
            const bool together = w->spans[v].first >= 0 && w->spans[u].first <= w->spans[v].last &&
                                  w->spans[v].first <= w->spans[u].last;
            const bool overlap = x_at < end_of(y) && figure(y->offset) < x_end;
            if (together && overlap && !shares_slab(p, u, v))
                return false;
        }
    }
    return true;
}

static watch seen;

static bool plan_is_sound(const bs_plan *p)
{
    watch_scope(&seen, p, -1);
    bool ok = scope_is_sound(&seen, p->transient_bytes);
    for (int32_t k = 0; ok && k < p->n_parts; k++) {
        watch_scope(&seen, p, k);
        ok = scope_is_sound(&seen, p->kernel_scratch_offset);
    }
    for (int32_t n = 1; ok && n < p->graph->n_nodes; n++)
        ok = !p->node_live[n] ||
             figure(p->nodes[n].scratch_bytes) <= figure(p->scratch_bytes) - figure(p->kernel_scratch_offset);
    return ok;
}

/* The checker must see two values put on the same bytes. 1: it does, 0: it does not, -1: there are no two. */
static int32_t breaks_when_moved(bs_plan *p)
{
    watch_scope(&seen, p, -1);
    for (int32_t u = 1; u < p->graph->n_values; u++)
        for (int32_t v = 1; v < u; v++) {
            const span_of *x = &seen.spans[u], *y = &seen.spans[v];
            if (x->first < 0 || y->first < 0 || x->first > y->last || y->first > x->last || shares_slab(p, u, v))
                continue;
            const bs_bytes offset = p->values[u].offset;
            p->values[u].offset = p->values[v].offset;
            const bool noticed = !plan_is_sound(p);
            p->values[u].offset = offset;
            return noticed;
        }
    return -1;
}

/* -------------------------------------------------------------------------------------------------- random graphs */

/* What the random graphs and their plans held: a generator that stops making something must not go unnoticed. */
typedef struct coverage {
    int32_t graphs, refused, plans, sound, moved, noticed, regions, in_tile, torn, in_place, frames, loads, packed,
        fills, slabs, forced, sizes, streamed, uses;
} coverage;

static void count_plan(coverage *c, const bs_plan *p)
{
    const bs_graph *g = p->graph;
    c->plans++;
    c->regions += p->n_regions > 0;
    for (int32_t r = 1; r < g->n_routers; r++)
        c->in_tile += p->routers[r].live && p->routers[r].in_tile;
    for (int32_t d = 1; d < g->n_domains && p->desc.order == BS_ORDER_DEPTH; d++)
        if (g->domains[d].kind != BS_DOMAIN_PATH && p->domains[d].order == BS_ORDER_BREADTH) {
            c->torn++;
            break;
        }
    for (int32_t v = 1; v < g->n_values; v++) {
        const bool made = bs_node_is(&g->nodes[g->values[v].node], &bs_op_assemble);
        c->in_place += made && p->values[v].place == BS_PLACE_STATE;
        c->frames += p->values[v].place == BS_PLACE_FRAME;
        c->slabs += p->values[v].place == BS_PLACE_TRANSIENT && p->values[v].slab != v;
    }
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bool moves = instr->kind == BS_INSTR_MOVE;
        c->loads += moves && instr->map == BS_MAP_VIEW;
        c->packed += moves && instr->map == BS_MAP_PATHS;
        c->fills += moves && (instr->combine == BS_COMBINE_RESIDUAL || instr->combine == BS_COMBINE_ZERO);
    }
    c->forced += p->desc.n_forces > 0;
    c->sizes += p->desc.patch_size > 0;
}

static bs_plan_desc random_desc(const bs_graph *g, int32_t turn)
{
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = turn % 3, .threads = 1 + check_below(4)};
    if (turn % 3 == 0)
        d.order = rg_flip(70) ? BS_ORDER_DEPTH : BS_ORDER_AUTO;
    rg_choose(&d, g);
    return d;
}

static void random_extents(int64_t *extent, bool largest)
{
    extent[0] = largest ? 40 : 1 + check_below(40);
    extent[1] = largest ? 26 : 1 + check_below(26);
    extent[2] = largest ? 21 : 1 + check_below(21);
}

/* Two runs of two sizes, over three kinds of paint. */
static bool runs_agree(rig *r, const bs_graph *g, const bs_plan_desc *d)
{
    static const int32_t paint[4] = {0xFF, 0x7F, 0x00, 0x3A};
    int64_t extent[3];
    memset(&a, 0, sizeof a);
    a.oracle.callback = rg_callback;
    rg_set_callbacks(r->session, g);
    for (int32_t run = 0; run < 4; run++) {
        if (run % 2 == 0)
            random_extents(extent, run == 0 && rg_flip(50));
        a.strided = run == 1;
        against_inputs(&a, g, &weights.table, d, extent);
        memset(r->transient, paint[run], (size_t)r->sizes.transient);
        if (!against_run(&a, r->session))
            return false;
        if (!rig_intact(r)) {
            snprintf(a.why, sizeof a.why, "bytes outside the arenas were written");
            return false;
        }
    }
    return true;
}

/* A cell tensor that collects a row a patch may be too short for smaller patches: then the graph's own size will do. */
static bool plan_somehow(rig *r, const bs_graph *g, bs_plan_desc *d)
{
    if (rig_plan(r, g, d))
        return true;
    d->patch_size = 0;
    return r->error.status == BS_ERROR_LIMIT && rig_plan(r, g, d);
}

/* The same graph with weights that come and go: any slots, policy, lanes and threads. Without blocks there is nothing
 * to do. */
static bool try_streamed(const bs_graph *g, coverage *c)
{
    rig r;
    bs_plan_desc d = random_desc(g, check_below(3));
    bs_stream_plan facts;
    const bs_stream_desc stream = {
        .policy = check_below(BS_POLICY_BELADY), .speculation = check_below(2), .check_records = 0};
    d.slot_bytes = 1u << 30;
    if (!plan_somehow(&r, g, &d))
        return false;
    bs_plan_stream_get(r.plan, &facts);
    if (facts.units == 0)
        return true;
    d.slot_bytes = facts.least_bytes +
                   (rg_flip(50) ? (uint64_t)check_below((int32_t)(facts.all_bytes - facts.least_bytes) + 1) : 0);
    d.lanes = 1 + check_below(4);
    d.chunk_bytes = rg_flip(50) ? 64 : 0;
    flat_init(&source, g, &weights.table, rg_flip(70) ? BS_F32 : rg_flip(50) ? BS_F16 : BS_BF16);
    const bs_weights from = flat_weights(&source, rg_flip(50) ? 1 : 512);
    if (!rig_plan(&r, g, &d) || !rig_streamed(&r, &from, &stream, 0xFF)) {
        snprintf(a.why, sizeof a.why, "streamed: %.200s", r.error.message);
        return false;
    }
    c->plans++;
    c->sound += plan_is_sound(r.plan);
    const bool ok = runs_agree(&r, g, &d);
    bs_stream_stats stats;
    bs_session_stream_stats(r.session, &stats);
    bs_session_close(r.session);
    c->streamed++;
    c->uses += (int32_t)(stats.hits + stats.late + stats.misses);
    if (!ok)
        printf("  streamed: order %d, %d threads, %d lanes, %d slots of %d, policy %d, speculation %d\n", d.order,
               d.threads, d.lanes, (int)d.slot_bytes, (int)facts.all_bytes, stream.policy, stream.speculation);
    return ok;
}

static bool try_graph(const bs_graph *g, coverage *c, int32_t plans)
{
    for (int32_t turn = 0; turn < plans; turn++) {
        bs_plan_desc d = random_desc(g, turn);
        const bool unshared = turn == plans - 1;
        rig r;
        if (!plan_somehow(&r, g, &d)) {
            snprintf(a.why, sizeof a.why, "no plan: %.200s", r.error.message);
            return false;
        }
        count_plan(c, r.plan);
        c->sound += plan_is_sound(r.plan);
        const int32_t moved = breaks_when_moved(r.plan);
        c->moved += moved >= 0;
        c->noticed += moved == 1;
        if (unshared)
            rig_unshare(&r);
        if (!rig_session(&r, &weights.table, NULL, 0xFF)) {
            snprintf(a.why, sizeof a.why, "no session: %.200s", r.error.message);
            return false;
        }
        const bool ok = runs_agree(&r, g, &d);
        bs_session_close(r.session);
        if (!ok) {
            printf("  order %d, %d threads, patches of %d, %d forced, %s\n", d.order, d.threads, d.patch_size,
                   d.n_forces, unshared ? "nothing shared" : "shared");
            return false;
        }
    }
    return true;
}

static void test_random_graphs(uint64_t seed, int32_t count, const char *rows)
{
    coverage c = {0};
    int32_t wrong = 0;
    for (int32_t i = 0; i < count && wrong < 5; i++) {
        check_state = check_mixed(seed + (uint64_t)i);
        bs_graph *g = new_graph();
        if (!rg_grow(&rg, g, &weights, 15 + check_below(60))) {
            printf("  graph %llu is refused: %s\n", (unsigned long long)(seed + (uint64_t)i), g->error.message);
            c.refused++;
            continue;
        }
        c.graphs++;
        if (try_graph(g, &c, 4) && try_streamed(g, &c))
            continue;
        printf("  graph %llu, N %d, H %d, W %d: %s\n", (unsigned long long)(seed + (uint64_t)i), (int)a.extent[0],
               (int)a.extent[1], (int)a.extent[2], a.why);
        wrong++;
    }
    check(wrong == 0,
          "%d random graphs with %s: any order, threads, patches, sharing and paint give what the definition gives",
          c.graphs, rows);
    check(c.refused == 0, "the builder takes what the generator makes");
    check(c.sound == c.plans, "no two values of %d plans share bytes while both are needed", c.plans);
    check(c.noticed == c.moved && c.moved > c.plans / 2,
          "the checker notices a value that is put on another's bytes, in %d plans", c.moved);
    printf("  plans with regions %d, decisions in tiles %d, torn domains %d, states in place %d, rows straight into "
           "frames %d\n",
           c.regions, c.in_tile, c.torn, c.in_place, c.frames);
    printf("  loads %d, packed gathers %d, fills %d, shared slabs %d, forced %d, other patches %d\n", c.loads, c.packed,
           c.fills, c.slabs, c.forced, c.sizes);
    printf("  streamed plans %d, with %d uses of units\n", c.streamed, c.uses);
    check(c.streamed && c.uses && c.regions && c.in_tile && c.torn && c.in_place && c.frames && c.loads && c.packed &&
              c.fills && c.slabs && c.forced && c.sizes,
          "random graphs reach every kind of lowering");
}

/* ----------------------------------------------------------------------------------------------------- a fixed net */

static bs_value path_of(bs_graph *g, bs_value x, const char *first, const char *second)
{
    bs_value y = bs_conv2d(g, x, &(bs_conv2d_desc){.name = first, .out = 2, .act = BS_CLIP, .act_param = 8});
    return bs_conv2d(g, y, &(bs_conv2d_desc){.name = second, .out = 2, .act = BS_CLIP, .act_param = 8});
}

/* Patches through a classifier and one of two paths, with a halo on both sides of the router, and a table of scores. */
static bs_graph *fixed_net(bool table)
{
    static const int64_t conv[4] = {2, 2, 3, 3}, line[2] = {2, 2};
    static const char *const convs[] = {"before", "chosen0", "chosen1", "other0", "other1", "after"};
    static char names[8][2][24];
    bs_graph *g = new_graph();
    memset(&rg, 0, sizeof rg); /* its symbols are named as the random ones are */
    weights.table.count = 0;
    weights.next = NULL;
    for (int32_t i = 0; i < 7; i++) {
        snprintf(names[i][0], sizeof names[i][0], "%s.weight", i < 6 ? convs[i] : "classes");
        snprintf(names[i][1], sizeof names[i][1], "%s.bias", i < 6 ? convs[i] : "classes");
        net_add_whole(&weights, names[i][0], i < 6 ? 4 : 2, i < 6 ? conv : line);
        net_add_whole(&weights, names[i][1], 1, line);
    }
    const bs_dim h = bs_symbol(g, "H", 26), w = bs_symbol(g, "W", 21);
    const bs_value cells =
        bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(2, h, w)), &(bs_patches_desc){.size = 8});
    const bs_value x =
        bs_conv2d(g, cells, &(bs_conv2d_desc){.name = "before", .out = 2, .act = BS_CLIP, .act_param = 8});
    const bs_value pooled = bs_pool2d(g, x, &(bs_pool2d_desc){.name = "pooled", .kind = BS_POOL_MAX, .global = 1});
    const bs_value score = bs_linear(g, pooled, &(bs_linear_desc){.name = "classes", .out = 2});
    const bs_router r = bs_route(g, score, (bs_value){0}, &(bs_route_desc){.name = "route", .paths = 2});
    bs_value out[2];
    out[0] = path_of(g, bs_scatter(g, r, 0, x), "chosen0", "chosen1");
    out[1] = path_of(g, bs_scatter(g, r, 1, x), "other0", "other1");
    const bs_value all = bs_gather(g, r, out, (bs_value){0}, NULL);
    bs_output(g, "result", bs_assemble(g, bs_conv2d(g, all, &(bs_conv2d_desc){.name = "after", .out = 2})));
    if (table)
        bs_output(g, "scores", bs_collect(g, score));
    return g;
}

static bool fixed_runs(const bs_plan_desc *d, int64_t h, int64_t w)
{
    const int64_t extent[3] = {1, h, w};
    rig r;
    memset(&a, 0, sizeof a);
    if (!rig_plan(&r, fixed_net(false), d) || !rig_session(&r, &weights.table, NULL, 0xFF))
        return false;
    against_inputs(&a, r.plan->graph, &weights.table, d, extent);
    const bool ok = against_run(&a, r.session);
    bs_session_close(r.session);
    return ok;
}

/* -------------------------------------------------------------------------------------------------- exact arenas */

/* A session in arenas of the planned bytes, `less` of them missing from one. */
static bool starts(rig *r, int32_t which, uint64_t less)
{
    bs_session_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.weights = bs_weights_from_table(&weights.table);
    bs_plan_sizes(r->plan, &r->sizes);
    const uint64_t bytes[3] = {r->sizes.persistent - (which == 0 ? less : 0),
                               r->sizes.transient - (which == 1 ? less : 0),
                               r->sizes.staging - (which == 2 ? less : 0)};
    r->persistent = ag_arena(&r->memory.persistent, "persistent", ag_persistent, sizeof ag_persistent, bytes[0], 0xFF);
    r->transient = ag_arena(&r->memory.transient, "transient", ag_transient, sizeof ag_transient, bytes[1], 0xFF);
    r->staging = ag_arena(&r->memory.staging, "staging", ag_staging, sizeof ag_staging, bytes[2], 0xFF);
    bs_arena_init(&r->memory.slots, "slots", NULL, 0);
    r->session = bs_session_create(&r->memory, r->plan, &desc, &r->error);
    bs_session_close(r->session);
    return r->session != NULL;
}

static void test_exact_arenas(void)
{
    static const char *const names[3] = {"persistent", "transient", "staging"};
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        rig r;
        const bs_plan_desc d = {.order = order, .threads = 3};
        check(rig_plan(&r, fixed_net(false), &d) && starts(&r, -1, 0),
              "a session takes exactly the planned bytes, order %d", order);
        check(r.memory.persistent.used == r.sizes.persistent && r.memory.transient.used == r.sizes.transient &&
                  r.memory.staging.used == 0 && r.memory.staging.high_water == r.sizes.staging,
              "and all of them; staging only while weights are read");
        for (int32_t which = 0; which < 3; which++) {
            const bs_arena *arena = which == 0   ? &r.memory.persistent
                                    : which == 1 ? &r.memory.transient
                                                 : &r.memory.staging;
            const bool refused = !starts(&r, which, BS_ALIGNMENT);
            check(refused && r.error.status == BS_ERROR_ARENA && r.error.arena &&
                      strcmp(r.error.arena, names[which]) == 0 && r.error.needed == arena->size + BS_ALIGNMENT &&
                      r.error.available == arena->size && strstr(r.error.message, names[which]),
                  "%d bytes less: %s", BS_ALIGNMENT, r.error.message);
            check(r.memory.persistent.used == 0 && r.memory.transient.used == 0 && r.memory.staging.used == 0,
                  "a refused session gives back what it took (%s)", names[which]);
        }
        check(starts(&r, -1, 0), "and starts when there is enough, order %d", order);
    }
}

static void test_plan_arena(void)
{
    const bs_graph *g = fixed_net(false);
    bs_arena arena;
    bs_error error;
    const size_t bytes = bs_plan_bytes(g, NULL);
    bs_arena_init(&arena, "persistent", ag_plan_memory, bytes - 2 * BS_ALIGNMENT);
    check(!bs_plan_create(&arena, g, NULL, &error) && error.status == BS_ERROR_ARENA &&
              error.needed == bytes - BS_ALIGNMENT && arena.used == 0,
          "a plan refuses too small an arena: %s", error.message);
    bs_arena_init(&arena, "persistent", ag_plan_memory, bytes - BS_ALIGNMENT);
    check(bs_plan_create(&arena, g, NULL, &error) != NULL && arena.used == arena.size,
          "a plan takes what bs_plan_bytes says, less what aligns it");
    bs_arena_init(&arena, "persistent", (uint8_t *)ag_plan_memory + 1, bytes);
    check(bs_plan_create(&arena, g, NULL, &error) != NULL, "wherever its memory begins");
    bs_arena_init(&arena, "persistent", ag_plan_memory, sizeof ag_plan_memory);
    check(!bs_plan_create(&arena, g, &(bs_plan_desc){.patch_size = 9000}, &error) && arena.used == 0 &&
              error.status == BS_ERROR_ARGUMENT,
          "a refused plan gives back what it took");
    check(!bs_plan_create(NULL, g, NULL, &error) && error.status == BS_ERROR_ARGUMENT,
          "no arena is an error, not a crash");
}

static void test_threads(void)
{
    bs_sizes before = {0}, now;
    bool grows = true, linear = true;
    for (int32_t t = 1; t <= 8; t++) {
        rig r;
        grows = rig_plan(&r, fixed_net(false), &(bs_plan_desc){.order = BS_ORDER_DEPTH, .threads = t}) && grows;
        bs_plan_sizes(r.plan, &now);
        grows = grows && now.persistent >= before.persistent && now.transient >= before.transient &&
                now.staging >= before.staging;
        linear = linear &&
                 now.transient == figure(r.plan->transient_bytes) + (uint64_t)t * figure(r.plan->scratch_bytes);
        before = now;
    }
    check(grows && linear, "bytes grow with threads, by one scratch each");
}

/* ------------------------------------------------------------------------------------------------------- choices */

static void test_forced(void)
{
    static const char *const dead[] = {"other0", "other1", "classes", "pooled"};
    static const char *const live[] = {"before", "chosen0", "chosen1", "after"};
    bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .n_forces = 1, .forces = {{"route", 0}}};
    for (d.order = BS_ORDER_BREADTH; d.order <= BS_ORDER_DEPTH; d.order++) {
        rig r;
        bool ok = rig_plan(&r, fixed_net(false), &d);
        bs_plan_report(r.plan, report, sizeof report);
        for (int32_t i = 0; i < 4; i++)
            ok = ok && !strstr(report, dead[i]) && strstr(report, live[i]);
        check(ok, "a forced route leaves out the scores and the other path, order %d", d.order);
        check(fixed_runs(&d, 26, 21), "and gives what that path gives %s", a.why);
        rig free_rig;
        bs_sizes forced, free_sizes;
        bs_plan_sizes(r.plan, &forced);
        const bs_plan_desc open = {.order = d.order};
        rig_plan(&free_rig, fixed_net(false), &open);
        bs_plan_sizes(free_rig.plan, &free_sizes);
        check(forced.persistent < free_sizes.persistent && forced.transient <= free_sizes.transient,
              "in fewer bytes, order %d", d.order);
    }
    d.order = 0;
    rig r;
    d.forces[0].path = 2;
    check(!rig_plan(&r, fixed_net(false), &d) && r.error.status == BS_ERROR_ARGUMENT &&
              strstr(r.error.message, "route"),
          "%s", r.error.message);
    d.forces[0] = (bs_force){"none", 0};
    check(!rig_plan(&r, fixed_net(false), &d) && r.error.status == BS_ERROR_ARGUMENT && strstr(r.error.message, "none"),
          "%s", r.error.message);
}

static void test_patch_sizes(void)
{
    int32_t wrong = 0;
    for (int32_t size = 1; size <= 27; size++)
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
            const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .patch_size = size, .threads = 2};
            wrong += !fixed_runs(&d, 26, 21);
        }
    check(wrong == 0, "patches of 1 to 27 pixels, both orders %s", wrong ? a.why : "");
    rig r;
    check(!rig_plan(&r, fixed_net(true), &(bs_plan_desc){.patch_size = 5}) && r.error.status == BS_ERROR_LIMIT, "%s",
          r.error.message);
    check(rig_plan(&r, fixed_net(true), &(bs_plan_desc){.patch_size = 9}), "larger patches fit a table of cells");
    bs_graph *g = new_graph();
    const bs_value x = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, BS_UPTO(40), BS_UPTO(40))),
                                  &(bs_patches_desc){.size = 8});
    bs_output(g, "small", bs_assemble(g, bs_pool2d(g, x, &(bs_pool2d_desc){.name = "halve", .kind = BS_POOL_MAX})));
    check(rig_plan(&r, g, &(bs_plan_desc){.patch_size = 6}), "a size that can be halved");
    check(!rig_plan(&r, g, &(bs_plan_desc){.patch_size = 7}) && r.error.status == BS_ERROR_SHAPE &&
              strstr(r.error.message, "halve"),
          "%s", r.error.message);
}

/* Symbols take any extent up to the maximum, in one session. */
static void test_symbols(void)
{
    int32_t wrong = 0, runs = 0;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2};
        rig r;
        memset(&a, 0, sizeof a);
        if (!check(rig_plan(&r, fixed_net(true), &d) && rig_session(&r, &weights.table, NULL, 0xFF),
                   "a session for all sizes"))
            continue;
        for (int64_t h = 1; h <= 26; h++)
            for (int64_t w = 1 + h % 4; w <= 21; w += 4) {
                const int64_t extent[3] = {1, h, w};
                against_inputs(&a, r.plan->graph, &weights.table, &d, extent);
                wrong += !against_run(&a, r.session);
                runs++;
            }
        check(rig_intact(&r), "nothing is written outside the arenas, order %d", order);
        bs_session_close(r.session);
    }
    check(wrong == 0, "%d runs of every height up to the maximum on two plans %s", runs, wrong ? a.why : "");
}

static void test_report(void)
{
    rig r;
    bool cut = rig_plan(&r, fixed_net(false), NULL);
    const size_t length = bs_plan_report(r.plan, report, sizeof report);
    check(length < sizeof report && strlen(report) == length && strstr(report, "transient"),
          "the report is %d characters", (int)length);
    for (size_t bytes = 0; bytes < 300; bytes++) {
        char piece[304];
        memset(piece, 'x', sizeof piece);
        cut = cut && bs_plan_report(r.plan, piece, bytes) == length && piece[bytes] == 'x';
        cut = cut && (bytes == 0 || (strlen(piece) == bytes - 1 && memcmp(piece, report, bytes - 1) == 0));
    }
    check(cut, "a report that is cut ends with NUL and says how long it would be");
}

static void test_wrong_descriptions(void)
{
    static const bs_plan_desc wrong[] = {{.threads = -1},
                                         {.threads = 65},
                                         {.tier = 9},
                                         {.tier = -1},
                                         {.order = 3},
                                         {.order = -1},
                                         {.conv = BS_CONV_FORCE_REFERENCE + 1},
                                         {.conv = -1},
                                         {.patch_size = -1},
                                         {.patch_size = 8193},
                                         {.n_forces = 17},
                                         {.n_forces = -1},
                                         {.n_forces = 1}};
    int32_t refused = 0;
    const int32_t count = (int32_t)(sizeof wrong / sizeof *wrong);
    for (int32_t i = 0; i < count; i++) {
        rig r;
        refused +=
            !rig_plan(&r, fixed_net(false), &wrong[i]) && r.error.status == BS_ERROR_ARGUMENT && r.error.message[0];
    }
    check(refused == count, "%d of %d wrong plan descriptions are refused by a message", refused, count);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    check_seed(seed);
    test_random_graphs(seed * 1000, argc > 2 ? atoi(argv[2]) : 120, "rows and patches");
    rg_segments = true;
    test_random_graphs(seed * 1000 + 500000, argc > 2 ? atoi(argv[2]) : 60, "segments");
    rg_segments = false;
    test_exact_arenas();
    test_plan_arena();
    test_threads();
    test_forced();
    test_patch_sizes();
    test_symbols();
    test_report();
    test_wrong_descriptions();
    return check_end();
}
