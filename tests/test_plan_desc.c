/* tags: unsigned tsan 32-bit */
/* Promises: what a plan says is what a session takes, to the byte; what its description asks for is what happens:
 * threads, order, forced routes, patches of any size; symbols take any extent up to their maximum; and a wrong
 * description is refused. On a net that is known; random graphs: test_planner.c. */
#define _POSIX_C_SOURCE 200809L
#include "against.h"
#include "net.h"

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 20];
static char report[1 << 17];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

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
    check(!bs_plan_create(&arena, NULL, g, NULL, &error) && error.status == BS_ERROR_ARENA &&
              error.needed == bytes - BS_ALIGNMENT && arena.used == 0,
          "a plan refuses too small an arena: %s", error.message);
    bs_arena_init(&arena, "persistent", ag_plan_memory, bytes - BS_ALIGNMENT);
    check(bs_plan_create(&arena, NULL, g, NULL, &error) != NULL && arena.high_water == arena.size &&
              arena.used < arena.size / 2,
          "a plan takes what bs_plan_bytes says, less what aligns it, and gives back what it does not keep: %d of %d",
          (int)(arena.size - arena.used), (int)arena.size);
    bs_arena_init(&arena, "persistent", (uint8_t *)ag_plan_memory + 1, bytes);
    check(bs_plan_create(&arena, NULL, g, NULL, &error) != NULL, "wherever its memory begins");
    bs_arena_init(&arena, "persistent", ag_plan_memory, sizeof ag_plan_memory);
    check(!bs_plan_create(&arena, NULL, g, &(bs_plan_desc){.patch_size = 9000}, &error) && arena.used == 0 &&
              error.status == BS_ERROR_ARGUMENT,
          "a refused plan gives back what it took");
    check(!bs_plan_create(NULL, NULL, g, NULL, &error) && error.status == BS_ERROR_ARGUMENT,
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
        linear = linear && now.transient == bs_bytes_figure(r.plan->transient_bytes) +
                                                (unsigned long long)t * bs_bytes_figure(r.plan->scratch_bytes);
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

/* What maxima cost, and what a run used of that. */
static void test_maxima(void)
{
    static float in[40 * 8], out[40 * 8];
    static const char *const planned[] = {"\n  N<=40: at most 40, 6400 bytes\n",
                                          "\n  rows [N<=40]: at most 40, 5120 bytes\n"},
                             *const used[] = {"\n  N<=40: at most 40, 6400 bytes; last run 10, 1600 bytes\n",
                                              "\n  rows [N<=40]: at most 40, 5120 bytes; last run 10, 1280 bytes\n"};
    rig r;
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 40), 8));
    const bs_value y = bs_rows(g, bs_softmax(g, x), (bs_value){0});
    bs_output(g, "y", bs_collect(g, bs_softmax(g, bs_softmax(g, y))));
    if (!check(rig_plan(&r, g, &(bs_plan_desc){.no_fusion = 1}) && rig_session(&r, NULL, NULL, 0),
               "a plan of a symbol: %s", r.error.message))
        return;
    const bs_buffer from = {in, BS_F32, 2, {10, 8}, {0}}, to = {out, BS_F32, 2, {10, 8}, {0}};
    bs_plan_report(r.plan, report, sizeof report);
    check(strstr(report, planned[0]) && strstr(report, planned[1]), "what maxima cost is told: %s", report);
    bs_session_report(r.session, report, sizeof report);
    check(strstr(report, planned[0]) && strstr(report, planned[1]), "before a run that is all");
    bs_bind(r.session, "x", &from, NULL);
    bs_bind(r.session, "y", &to, NULL);
    check(bs_run(r.session, &r.error) == BS_OK, "a run of 10 %s", r.error.message);
    bs_session_report(r.session, report, sizeof report);
    check(strstr(report, used[0]) && strstr(report, used[1]), "what the run used is told: %s", report);
    bs_session_close(r.session);
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

int main(void)
{
    test_exact_arenas();
    test_plan_arena();
    test_threads();
    test_forced();
    test_patch_sizes();
    test_symbols();
    test_report();
    test_maxima();
    test_wrong_descriptions();
    return check_end();
}
