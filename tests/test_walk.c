/* tags: asan */
/* Promises: no plan is handed out whose instructions stand in a wrong order, are missing, or come twice, and none that
 * bs_plan_verify passes reads what another instruction wrote over: in plans of random graphs and networks, in every
 * order, with threads and slots, faults of each kind below are planted, one at a time, and the walk refuses each; as it
 * was, each plan passes.
 *
 * Owns: the kinds of faults. Must never: plant what would still be right. */
#include "random_networks.h"

#include "budget.h"
#include "random_graph.h"

#include "plan/walk.h"

enum { SEEDS = 160, LEAST = 24, WORKSPACE = 1 << 20, MOST_INSTRS = 4096, MOST_VALUES = 4096 };

static random_graph rg;
static random_layers rl;
static net_table weights;
static bs_plan *plan;
static _Alignas(64) uint8_t graph_memory[4 << 20], plan_memory[8 << 20], workspace[WORKSPACE];

/* What a fault may change, as it was. */
static bs_instr instrs[MOST_INSTRS];
static bs_value_plan values[MOST_VALUES];
static bs_router_plan routers[256];

static void keep(void)
{
    memcpy(instrs, plan->instrs, (size_t)plan->n_instrs * sizeof *instrs);
    memcpy(values, plan->values, (size_t)plan->graph->n_values * sizeof *values);
    memcpy(routers, plan->routers, (size_t)plan->graph->n_routers * sizeof *routers);
}

static void restore(void)
{
    memcpy(plan->instrs, instrs, (size_t)plan->n_instrs * sizeof *instrs);
    memcpy(plan->values, values, (size_t)plan->graph->n_values * sizeof *values);
    memcpy(plan->routers, routers, (size_t)plan->graph->n_routers * sizeof *routers);
}

/* --------------------------------------------------------------------------------------------- who reads what */

static bool computes(const bs_instr *i) { return i->kind == BS_INSTR_CALL || i->kind == BS_INSTR_MOVE; }

static int32_t stored_in(int32_t value)
{
    while (plan->values[value].storage == BS_STORAGE_VIEW)
        value = plan->values[value].source;
    return value;
}

/* Whether instruction k reads, or writes, rows in the storage of `value`. */
static bool touches(int32_t k, int32_t value, bool writes)
{
    bool written;
    for (int32_t n = 0, v; (v = bs_walk_touched(plan, &plan->instrs[k], n, &written)) >= 0; n++)
        if (v != 0 && written == writes && stored_in(v) == value &&
            (writes || plan->instrs[k].map != BS_MAP_VIEW || v != plan->instrs[k].value))
            return true;
    return false;
}

/* A value that is stored, a call that makes it, and an instruction behind that which reads it: in one list, of a part
 * or at top level. */
typedef struct use {
    int32_t value, maker, reader;
} use;

static int32_t made_by(int32_t k)
{
    const bs_node *node = &plan->graph->nodes[plan->instrs[k].node];
    const bool makes = plan->instrs[k].kind == BS_INSTR_CALL && node->n_out == 1 && !node->makes &&
                       plan->instrs[k].extent == BS_EXTENT_ALL && bs_plan_is_stored(plan, node->first_out);
    return makes ? node->first_out : 0;
}

/* The nth use, from 0, of a list; the last one's number: -1 there are fewer. */
static bool find_use(int32_t first, int32_t count, int32_t nth, use *u)
{
    for (int32_t a = first; a < first + count; a++) {
        const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
        for (int32_t b = a + 1; value && b < first + count; b++) {
            if (!touches(b, value, false) || !computes(&plan->instrs[b]) ||
                plan->instrs[b].extent != BS_EXTENT_ALL)
                continue;
            *u = (use){value, a, b};
            if (nth-- == 0)
                return true;
        }
    }
    return false;
}

static bool any_use(int32_t first, int32_t count, use *u)
{
    use other;
    int32_t n = 0;
    while (find_use(first, count, n, &other))
        n++;
    return n > 0 && find_use(first, count, (int32_t)check_below(n), u);
}

/* Two instructions change places; times stay where they are. */
static void swap(int32_t a, int32_t b)
{
    const bs_instr was = plan->instrs[a];
    const int32_t time_a = was.time, time_b = plan->instrs[b].time;
    plan->instrs[a] = plan->instrs[b];
    plan->instrs[b] = was;
    plan->instrs[a].time = time_a;
    plan->instrs[b].time = time_b;
}

static bool any_part(int32_t *part)
{
    *part = plan->n_parts > 0 ? (int32_t)check_below(plan->n_parts) : -1;
    return *part >= 0 && plan->parts[*part].count > 1;
}

/* ------------------------------------------------------------------------------------------ faults of the order */

static bool reads_before(void)
{
    use u;
    const bool any = any_use(0, plan->n_top, &u);
    if (any)
        swap(u.maker, u.reader);
    return any;
}

static bool reads_at_the_same_time(void)
{
    use u;
    const bool any = any_use(0, plan->n_top, &u);
    for (int32_t k = u.maker; any && k <= u.reader; k++)
        plan->instrs[k].time = instrs[u.maker].time;
    return any;
}

static bool reads_before_in_a_tile(void)
{
    use u;
    int32_t part;
    const bool any = any_part(&part) && any_use(plan->parts[part].first, plan->parts[part].count, &u);
    if (any)
        swap(u.maker, u.reader);
    return any;
}

/* The region runs at the time of what one of its tiles reads. */
static bool tile_at_the_same_time(void)
{
    int32_t part;
    if (!any_part(&part))
        return false;
    const int32_t run = plan->regions[plan->parts[part].region].instr;
    for (int32_t a = 0; a < run; a++) {
        const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
        for (int32_t k = 0; value && k < plan->parts[part].count; k++) {
            if (!touches(plan->parts[part].first + k, value, false))
                continue;
            for (int32_t j = a; j <= run; j++)
                plan->instrs[j].time = instrs[a].time;
            return true;
        }
    }
    return false;
}

static bool comes_twice(void)
{
    const int32_t k = 1 + (int32_t)check_below(bs_max_i32(plan->n_top - 1, 1));
    if (k >= plan->n_top || plan->instrs[k - 1].kind != BS_INSTR_CALL || plan->instrs[k].kind != BS_INSTR_CALL)
        return false;
    const int32_t time = plan->instrs[k].time;
    plan->instrs[k] = plan->instrs[k - 1];
    plan->instrs[k].time = time;
    return true;
}

static bool last_is_missing(void)
{
    const bs_instr *last = &plan->instrs[plan->n_top - 1];
    if (!computes(last) || plan->n_instrs > plan->n_top)
        return false;
    plan->n_top--, plan->n_instrs--;
    return true;
}

/* A path's rows are stored twice, those of another one never. */
static bool other_path_is_stored(void)
{
    for (int32_t a = 0; a < plan->n_instrs; a++)
        for (int32_t b = a + 1; b < plan->n_instrs; b++) {
            bs_instr *x = &plan->instrs[a], *y = &plan->instrs[b];
            const bool stores = x->kind == BS_INSTR_MOVE && y->kind == BS_INSTR_MOVE && x->node == y->node &&
                                x->combine == BS_COMBINE_COPY && y->combine == BS_COMBINE_COPY && x->value &&
                                y->value && x->part == y->part && bs_node_gathers(&plan->graph->nodes[x->node]) &&
                                !bs_router_loops(plan->graph, plan->graph->nodes[x->node].router);
            if (!stores)
                continue;
            y->value = x->value;
            y->domain = x->domain;
            return true;
        }
    return false;
}

/* What works on rows of a path before the router has decided. */
static bool decides_too_late(void)
{
    for (int32_t a = 0; a < plan->n_top; a++)
        for (int32_t b = a + 1; plan->instrs[a].kind == BS_INSTR_ROUTE && b < plan->n_top; b++) {
            const int32_t router = plan->graph->nodes[plan->instrs[a].node].router;
            const bs_domain *d = &plan->graph->domains[plan->instrs[b].domain];
            if (plan->routers[router].instr != a || d->kind != BS_DOMAIN_PATH || d->router != router ||
                !computes(&plan->instrs[b]))
                continue;
            swap(a, b);
            plan->routers[router].instr = b;
            return true;
        }
    return false;
}

/* A loop's result is moved when its last trip is over. */
static bool moves_after_the_loop(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t again = plan->routers[r].again;
        if (!plan->routers[r].live || again < 1 || plan->instrs[again].part != plan->instrs[again - 1].part)
            continue;
        const bs_instr *i = &plan->instrs[again - 1];
        if (i->kind != BS_INSTR_MOVE || plan->graph->nodes[i->node].router != r || i->map == BS_MAP_ROW)
            continue;
        swap(again - 1, again);
        plan->routers[r].again = again - 1;
        return true;
    }
    return false;
}

/* What is there before the first trip comes after the decision. */
static bool begins_too_late(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t at = plan->routers[r].instr;
        if (!plan->routers[r].live || !bs_router_loops(plan->graph, r) || at < 1 ||
            plan->instrs[at].part != plan->instrs[at - 1].part)
            continue;
        const bs_instr *i = &plan->instrs[at - 1];
        if (i->kind != BS_INSTR_MOVE || plan->graph->nodes[i->node].router != r || i->map != BS_MAP_ROW)
            continue;
        swap(at - 1, at);
        plan->routers[r].instr = at - 1;
        return true;
    }
    return false;
}

/* Less of an image is computed near its core, or in its ring, than its readers need. */
static bool reaches_less(uint8_t extent)
{
    for (int32_t k = plan->n_top; k < plan->n_instrs; k++) {
        bs_instr *i = &plan->instrs[k];
        if (i->kind != BS_INSTR_CALL || i->extent != extent ||
            bs_op_grain(bs_node_op(&plan->graph->nodes[i->node]), &plan->nodes[i->node]) > 1)
            continue;
        const bs_reach less = extent == BS_EXTENT_RING ? i->done : (bs_reach){0, 0};
        if (i->reach.before <= less.before && i->reach.after <= less.after)
            continue;
        i->reach = less;
        return true;
    }
    return false;
}

static bool reaches_less_near(void) { return reaches_less(BS_EXTENT_NEAR); }
static bool reaches_less_in_a_ring(void) { return reaches_less(BS_EXTENT_RING); }

/* -------------------------------------------------------------------------------------------- faults of bytes */

static bool are_alike(int32_t a, int32_t b)
{
    return a == b || bs_walk_are_paths(plan->graph, plan->graph->values[a].domain, plan->graph->values[b].domain);
}

/* A value is written between where another one is and where that is read, into its place. */
static bool written_over(int32_t first, int32_t count)
{
    use u;
    if (!any_use(first, count, &u))
        return false;
    for (int32_t k = u.maker + 1; k < u.reader; k++) {
        const int32_t other = computes(&plan->instrs[k]) ? made_by(k) : 0;
        const bool between = plan->instrs[k].part != BS_TOP || (plan->instrs[k].time > plan->instrs[u.maker].time &&
                                                                plan->instrs[k].time <= plan->instrs[u.reader].time);
        if (!other || !between || are_alike(other, u.value) ||
            plan->values[other].storage != plan->values[u.value].storage)
            continue;
        plan->values[other].offset = plan->values[u.value].offset;
        return true;
    }
    return false;
}

static bool written_over_at_top(void) { return written_over(0, plan->n_top); }

static bool written_over_in_a_tile(void)
{
    int32_t part;
    return any_part(&part) && written_over(plan->parts[part].first, plan->parts[part].count);
}

/* What a loop's trips read from outside is written over in the body behind its last reader: by the first trip, for the
 * second. */
static bool written_over_for_the_next_trip(void)
{
    for (int32_t r = 1; r < plan->graph->n_routers; r++) {
        const int32_t begin = plan->routers[r].instr, end = plan->routers[r].again;
        if (!plan->routers[r].live || end < 0 || plan->instrs[end].part != BS_TOP)
            continue;
        for (int32_t a = 0; a < begin; a++) {
            const int32_t value = computes(&plan->instrs[a]) ? made_by(a) : 0;
            int32_t reader = -1;
            for (int32_t k = begin + 1; value && k < end; k++)
                reader = touches(k, value, false) ? k : reader;
            for (int32_t k = reader + 1; reader >= 0 && k < end; k++) {
                const int32_t other = computes(&plan->instrs[k]) ? made_by(k) : 0;
                if (!other || plan->instrs[k].time <= plan->instrs[reader].time || are_alike(other, value) ||
                    plan->values[other].storage != plan->values[value].storage)
                    continue;
                plan->values[other].offset = plan->values[value].offset;
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------------------------------- images with exits */

static bs_value conv(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = name, .out = out, .act = BS_RELU});
}

/* Patches that leave after some convolutions or go on, which takes more of what is around them: twice, one exit inside
 * of another. */
static bool exits_grow(bs_graph *g)
{
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, BS_UPTO(80), BS_UPTO(80)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = check_below(2) ? 16 : 24});
    const bs_router all = bs_route(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), (bs_value){0},
                                   &(bs_route_desc){.name = "all", .protocol = BS_ROUTE_BINARY, .paths = 2});
    bs_value x = bs_scatter(g, all, 0, cells), f = conv(g, x, "head", 4), out[2] = {{0}, {0}};
    const bs_router none = {0};
    bs_router exits[2] = {none, none};
    bs_value left[2];
    static const char *const names[] = {"first", "second"}, *const a[] = {"a0", "a1"}, *const b[] = {"b0", "b1"},
                      *const tails[] = {"t0", "t1"};
    const int32_t count = 1 + (int32_t)check_below(2);
    for (int32_t e = 0; e < count; e++) {
        f = bs_add(g, conv(g, conv(g, f, a[e], 4), b[e], 4), f);
        exits[e] = bs_route(g, bs_pool2d(g, x, &(bs_pool2d_desc){.global = 1}), (bs_value){0},
                            &(bs_route_desc){.name = names[e], .protocol = BS_ROUTE_BINARY, .paths = 2});
        left[e] = conv(g, bs_scatter(g, exits[e], 0, f), tails[e], 1);
        f = bs_scatter(g, exits[e], 1, f);
        x = bs_scatter(g, exits[e], 1, x);
    }
    bs_value end = conv(g, conv(g, f, "c", 4), "last", 1);
    for (int32_t e = count - 1; e >= 0; e--) {
        out[0] = left[e];
        out[1] = end;
        end = bs_gather(g, exits[e], out, (bs_value){0}, NULL);
    }
    out[0] = end;
    out[1] = (bs_value){0};
    bs_output(g, "out", bs_assemble(g, bs_gather(g, all, out, (bs_value){0}, NULL)));
    return bs_graph_check(g, NULL) == BS_OK;
}

/* -------------------------------------------------------------------------------------------------- planting */

static struct fault {
    bool (*plant)(void); /* false: there is no place for it in this plan */
    const char *what;
    bool of_bytes;
    int32_t planted, found;
} faults[] = {
    {reads_before, "what reads runs where what makes should", false, 0, 0},
    {reads_at_the_same_time, "what reads has the time of what makes", false, 0, 0},
    {reads_before_in_a_tile, "the same in the list of a tile", false, 0, 0},
    {tile_at_the_same_time, "tiles run at the time of what they read", false, 0, 0},
    {comes_twice, "an instruction comes twice, another one never", false, 0, 0},
    {last_is_missing, "the last instruction is missing", false, 0, 0},
    {other_path_is_stored, "a path is stored twice, another one never", false, 0, 0},
    {decides_too_late, "a router decides where its rows are worked on", false, 0, 0},
    {moves_after_the_loop, "a result of a loop is moved behind its end", false, 0, 0},
    {begins_too_late, "what a loop begins with is moved behind its beginning", false, 0, 0},
    {reaches_less_near, "too little of an image is computed near its core", false, 0, 0},
    {reaches_less_in_a_ring, "too little of an image is computed in a ring", false, 0, 0},
    {written_over_at_top, "another value is written over what is read later", true, 0, 0},
    {written_over_in_a_tile, "the same in the scratch of a tile", true, 0, 0},
    {written_over_for_the_next_trip, "a trip writes over what the next one reads", true, 0, 0},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static int32_t plans, sound;

static void plant(struct fault *f)
{
    const int32_t n_top = plan->n_top, n_instrs = plan->n_instrs;
    if (f->plant()) {
        const bool order = bs_plan_walk(plan, false, workspace) == BS_WALK_SOUND;
        const bool bytes = bs_plan_walk_bytes(plan, workspace) == BS_WALK_SOUND;
        f->planted++;
        f->found += f->of_bytes ? order && !bytes : !order && !bytes;
    }
    plan->n_top = n_top;
    plan->n_instrs = n_instrs;
    restore();
}

static void try_plan(const bs_graph *g, const bs_plan_desc *d)
{
    bs_arena arena;
    bs_error error;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    plan = bs_plan_create(&arena, g, d, &error);
    if (!plan || plan->n_instrs > MOST_INSTRS || plan->graph->n_values > MOST_VALUES)
        return;
    plans++;
    sound += bs_plan_walk(plan, true, workspace) == BS_WALK_SOUND &&
             bs_plan_walk_bytes(plan, workspace) == BS_WALK_SOUND;
    keep();
    for (int32_t k = 0; k < FAULTS; k++)
        plant(&faults[k]);
}

static void try_seed(uint64_t seed)
{
    const bs_plan_desc descs[] = {{.order = BS_ORDER_AUTO, .threads = 1},
                                  {.order = BS_ORDER_BREADTH, .threads = 2},
                                  {.order = BS_ORDER_DEPTH, .threads = 1},
                                  {.order = BS_ORDER_DEPTH, .threads = 2, .slot_bytes = UINT64_MAX},
                                  {.tier = BS_TIER_CUDA}};
    bs_arena arena;
    check_state = check_mixed(seed);
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    rg_segments = seed % 6 == 2;
    rg_loops = seed % 4 >= 2;
    rg_trees = seed % 8 >= 6;
    const bool grown = seed % 8 == 4 ? exits_grow(g)
                       : seed % 2    ? rl_grow(&rl, g, &weights)
                                     : rg_grow(&rg, g, &weights, 40);
    for (size_t k = 0; grown && k < sizeof descs / sizeof *descs; k++)
        try_plan(g, &descs[k]);
}

int main(void)
{
    const budget b = budget_of(3);
    uint64_t seed = 0;
    while (budget_left(&b, (int32_t)seed, LEAST, SEEDS))
        try_seed(++seed);
    check(plans > 0 && sound == plans, "%d plans of %d graphs pass as they are: %d", plans, (int)seed, sound);
    for (int32_t k = 0; k < FAULTS; k++)
        check(faults[k].planted > 0 && faults[k].found == faults[k].planted, "%s: %d of %d found", faults[k].what,
              faults[k].found, faults[k].planted);
    return check_end();
}
