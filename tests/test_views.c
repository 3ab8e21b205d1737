/* tags: asan */
/* Promises: a reshape of what lies in the order of its elements takes no instruction and no bytes, and is a copy where
 * the layout asks for one; what is read through it is there as long as it is read: random graphs of reshapes, in the
 * root, in rows and in paths, give the bytes that they give without (no_fusion), in any order and from an image of the
 * plan; an image that shows a value where it does not lie is refused. On a GPU: test_cuda_suite_views.c.
 * Usage: test_views [seed] */
#include "net.h"

#include "ops/table.h"
#include "plan/image.h"
#include "plan/plan.h"

enum { MOST = 24, ROWS = 5, ELEMENTS = 24, OUTPUTS = 3 };

static const bs_value none = {0};

/* Reshapes of a plan that are seen where their operands are: in memory of all, in a tile's scratch, rows of a path. */
typedef struct views {
    int32_t all, in_tiles, in_paths, narrow;
} views;

static void count_views(const bs_plan *p, views *v)
{
    for (int32_t k = 1; k < p->graph->n_values; k++) {
        const int32_t in = bs_plan_rows_of(p, k);
        if (in == k)
            continue;
        v->all++;
        v->in_tiles += p->values[in].storage == BS_STORAGE_SCRATCH;
        v->in_paths += p->graph->domains[p->graph->values[k].domain].kind == BS_DOMAIN_PATH;
        v->narrow += p->values[k].narrow;
    }
}

/* ------------------------------------------------------------------------------------------------- which are views */

static bs_value rolled(bs_graph *g, bs_value x) { return bs_roll(g, x, &(bs_roll_desc){.shift = 1}); }

static bs_value image_of(bs_graph *g, bs_value x, int32_t kernel)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = "conv", .out = 1, .kernel = kernel});
}

static bs_value pooled(bs_graph *g, bs_value x, bool global)
{
    return bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = !global, .stride = !global,
                                             .global = global});
}

/* WIDE: a convolution of 3 reads it, too; BOUND: what comes in, and one of 1. */
typedef enum maker { INPUT, BOUND, ROLL, POOL, GLOBAL, WIDE } maker;
typedef enum reader { TO_ROLL, TO_OUTPUT, TO_TAIL, TO_CONV1, TO_CONV3 } reader;

static const struct {
    const char *what;
    bs_shape from, to, then; /* then: another reshape, if it has dimensions */
    maker made;
    reader read;
    int32_t views;
} cases[] = {
    {"lines become one", {2, {6, 4}}, {1, {24}}, {0}, ROLL, TO_ROLL, 1},
    {"one of another", {2, {6, 4}}, {1, {24}}, {2, {2, 12}}, ROLL, TO_ROLL, 2},
    {"lines of a symbol", {2, {'N', 4}}, {1, {-1}}, {0}, ROLL, TO_ROLL, 1},
    {"of each line more axes", {2, {'N', 4}}, {3, {'N', 2, 2}}, {0}, ROLL, TO_ROLL, 1},
    {"axes before a symbol", {3, {3, 4, 'N'}}, {2, {12, 'N'}}, {0}, ROLL, TO_ROLL, 0},
    {"a symbol behind one axis", {2, {4, 'N'}}, {1, {-1}}, {0}, ROLL, TO_ROLL, 0},
    {"a symbol that comes first then", {2, {4, 'N'}}, {2, {'N', 4}}, {0}, ROLL, TO_ROLL, 0},
    {"a symbol that comes last then", {2, {'N', 4}}, {2, {4, 'N'}}, {0}, ROLL, TO_ROLL, 0},
    {"symbols in another order", {2, {'M', 'N'}}, {2, {'N', 'M'}}, {0}, ROLL, TO_ROLL, 0},
    {"channels side by side", {3, {8, 4, 4}}, {1, {128}}, {0}, POOL, TO_ROLL, 0},
    {"a channel", {3, {1, 4, 4}}, {1, {16}}, {0}, POOL, TO_ROLL, 1},
    {"channels of a pixel", {3, {8, 4, 4}}, {1, {8}}, {0}, GLOBAL, TO_ROLL, 1},
    {"a channel with a margin", {3, {1, 4, 4}}, {1, {16}}, {0}, WIDE, TO_ROLL, 0},
    {"a channel that gets a margin", {1, {16}}, {3, {1, 4, 4}}, {0}, ROLL, TO_CONV3, 0},
    {"a channel that gets none", {1, {16}}, {3, {1, 4, 4}}, {0}, ROLL, TO_CONV1, 1},
    {"pixels that get channels", {1, {32}}, {3, {2, 4, 4}}, {0}, ROLL, TO_CONV1, 0},
    {"what is bound", {2, {6, 4}}, {1, {24}}, {0}, INPUT, TO_ROLL, 0},
    {"an image that may be read where it is bound", {3, {1, 4, 4}}, {1, {16}}, {0}, BOUND, TO_ROLL, 0},
    {"what becomes an output", {2, {6, 4}}, {1, {24}}, {0}, ROLL, TO_OUTPUT, 0},
    {"what is changed on the way", {2, {6, 4}}, {1, {24}}, {0}, ROLL, TO_TAIL, 0},
};

/* symbols: N and M. */
static bs_shape with_symbols(const bs_dim *symbols, bs_shape s)
{
    for (int32_t d = 0; d < s.rank; d++)
        s.dim[d] = s.dim[d] == 'N' || s.dim[d] == 'M' ? symbols[s.dim[d] == 'M'] : s.dim[d];
    return s;
}

static void build_case(bs_graph *g, size_t k)
{
    const bs_dim symbols[2] = {bs_symbol(g, "N", 8), bs_symbol(g, "M", 8)};
    bs_value x = bs_input(g, "x", BS_F32, with_symbols(symbols, cases[k].from));
    x = cases[k].made <= BOUND  ? x
        : cases[k].made == ROLL ? rolled(g, x)
                                : pooled(g, x, cases[k].made == GLOBAL);
    if (cases[k].made == WIDE || cases[k].made == BOUND)
        bs_output(g, "image", image_of(g, x, cases[k].made == WIDE ? 3 : 1));
    bs_value y = bs_reshape(g, x, with_symbols(symbols, cases[k].to));
    y = cases[k].then.rank ? bs_reshape(g, y, cases[k].then) : y;
    y = cases[k].read == TO_ROLL     ? rolled(g, y)
        : cases[k].read == TO_TAIL   ? bs_affine(g, y, 2, 1)
        : cases[k].read == TO_OUTPUT ? y
                                     : image_of(g, y, cases[k].read == TO_CONV3 ? 3 : 1);
    bs_output(g, "y", y);
}

static void test_cases(void)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int32_t apart = 0; apart < 2; apart++) {
            net n;
            views v = {0};
            build_case(net_begin(&n), k);
            const bs_plan *p =
                bs_plan_create(&n.memory.persistent, NULL, n.graph, &(bs_plan_desc){.no_fusion = apart}, &n.error);
            if (p)
                count_views(p, &v);
            check(p && v.all == (apart ? 0 : cases[k].views), "%s%s: %d views %s", cases[k].what,
                  apart ? ", not asked for" : "", v.all, n.error.message);
        }
}

/* What decides keeps its own type, which on a device may be another one than that of what is stored. */
static void test_scores(void)
{
    net n;
    views v = {0};
    bs_graph *g = net_begin(&n);
    const bs_value x = rolled(g, bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(ROWS, 1, 2)), none));
    const bs_router r = bs_route(g, bs_reshape(g, x, BS_SHAPE1(2)), none, &(bs_route_desc){.name = "r", .paths = 2});
    const bs_value out[2] = {rolled(g, bs_scatter(g, r, 0, bs_reshape(g, x, BS_SHAPE3(1, 2, 1)))), none};
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, NULL)));
    bs_plan *p = bs_plan_create(&n.memory.persistent, NULL, g,
                                &(bs_plan_desc){.tier = BS_TIER_CUDA, .half = 1, .no_dataflow = 1}, &n.error);
    if (p)
        count_views(p, &v);
    check(p && v.all == 1 && v.narrow == 1 && bs_image_values_sound(p), "scores are no view: %d, narrow %d %s", v.all,
          v.narrow, n.error.message);
    for (int32_t k = 1; p && k < g->n_values; k++)
        if (bs_plan_rows_of(p, k) != k) {
            p->values[k].narrow = false;
            check(!bs_image_values_sound(p), "a view has the type of what it shows");
        }
}

/* ------------------------------------------------------------------------------------------------------ images lie */

/* All reshapes of a plan that copies are said to be views; how many may be. */
static int32_t seen_all_the_same(bs_plan *p)
{
    int32_t n = 0;
    p->desc.no_fusion = 0;
    for (int32_t v = 1; v < p->graph->n_values; v++)
        if (bs_plan_may_show(p, v)) {
            p->values[v].storage = BS_STORAGE_VIEW;
            p->values[v].source = bs_node_in(p->graph, &p->graph->nodes[p->graph->values[v].node])[0];
            n++;
        }
    return n;
}

/* No kernel writes what is only seen. */
static void test_written(void)
{
    static BS_ALIGNED uint8_t workspace[1 << 16];
    net n;
    build_case(net_begin(&n), 0);
    bs_plan *p = bs_plan_create(&n.memory.persistent, NULL, n.graph, &(bs_plan_desc){.no_fusion = 1}, &n.error);
    check(p && bs_plan_walk(p, true, workspace) == BS_WALK_SOUND && seen_all_the_same(p) == 1 &&
              bs_image_values_sound(p) && bs_plan_walk(p, true, workspace) != BS_WALK_SOUND,
          "a kernel that writes what is only seen %s", n.error.message);
}

static void test_lies(void)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        net n;
        build_case(net_begin(&n), k);
        bs_plan *p = bs_plan_create(&n.memory.persistent, NULL, n.graph, NULL, &n.error);
        check(p && bs_image_values_sound(p), "%s: a plan %s", cases[k].what, n.error.message);
        for (int32_t v = 1; p && v < p->graph->n_values; v++) {
            const bs_node *node = &p->graph->nodes[p->graph->values[v].node];
            bs_value_plan *value = &p->values[v], was = *value;
            if (!p->graph->values[v].reshaped)
                continue;
            value->storage = BS_STORAGE_VIEW;
            value->source = bs_plan_may_show(p, v) ? 0 : bs_node_in(p->graph, node)[0];
            check(!bs_image_values_sound(p), "%s: seen where it does not lie", cases[k].what);
            *value = was;
        }
    }
}

/* ------------------------------------------------------------------------------------------------- random graphs */

static const bs_shape shapes[] = {{1, {24}},       {2, {2, 12}},    {2, {6, 4}},      {3, {2, 3, 4}},
                                  {3, {1, 4, 6}},  {3, {24, 1, 1}}, {4, {2, 3, 2, 2}}, {4, {1, 4, 1, 6}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct grown {
    bs_graph *g;
    bs_value value[MOST];
    int32_t count;
} grown;

static bs_value any_of(const grown *w) { return w->value[check_below(w->count)]; }

static bs_shape shape_of(const bs_graph *g, bs_value x)
{
    const bs_value_info *v = &g->values[x.id];
    bs_shape s = {v->rank, {0}};
    for (int32_t d = 0; d < v->rank; d++)
        s.dim[d] = bs_dim_max(g, v->dims[d]);
    return s;
}

/* Values of 24 elements, more and more; most are of one of the last. */
static void grow(grown *w, int32_t count)
{
    for (int32_t i = 0; i < count && w->count < MOST; i++) {
        const bs_value x = check_below(3) ? w->value[w->count - 1] : any_of(w), other = any_of(w);
        const int32_t rank = w->g->values[x.id].rank;
        bs_value y = {0};
        switch (check_below(6)) {
        case 0: y = bs_roll(w->g, x, &(bs_roll_desc){.axis = check_below(rank), .shift = 1 + check_below(5)}); break;
        case 1: y = bs_add(w->g, x, bs_reshape(w->g, other, shape_of(w->g, x))); break;
        case 2: y = rank == 3 ? pooled(w->g, x, false) : bs_affine(w->g, x, 3, (float)check_below(9)); break;
        default: y = bs_reshape(w->g, x, shapes[check_below(SHAPES)]); break;
        }
        w->value[w->count++] = y;
    }
}

/* One of the paths computes, and a residual stands beside it. */
static bs_value routed(grown *w)
{
    grown inside = {.g = w->g};
    const bs_value x = bs_reshape(w->g, any_of(w), shapes[0]);
    const bs_value score = bs_rows(w->g, bs_input(w->g, "score", BS_F32, BS_SHAPE2(ROWS, 2)), x);
    const bs_router r = bs_route(w->g, score, none, &(bs_route_desc){.name = "r", .paths = 2});
    inside.value[inside.count++] = bs_scatter(w->g, r, 0, x);
    grow(&inside, 6);
    const bs_value out[2] = {bs_reshape(w->g, any_of(&inside), shapes[0]), none};
    return bs_gather(w->g, r, out, bs_reshape(w->g, any_of(w), shapes[0]), NULL);
}

static void build_random(bs_graph *g, int32_t kind)
{
    grown w = {.g = g};
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, ELEMENTS));
    w.value[w.count++] = rolled(g, kind ? bs_rows(g, x, none) : bs_reshape(g, x, BS_SHAPE2(ROWS, ELEMENTS)));
    if (kind == 0) /* the root has a line of the input */
        w.value[0] = bs_slice(g, w.value[0], &(bs_slice_desc){.start = 2, .length = 1});
    grow(&w, 8);
    if (kind == 2) {
        const bs_value y = routed(&w);
        w.value[w.count++] = y;
        grow(&w, 4);
    }
    for (int32_t i = 0; i < OUTPUTS; i++) {
        static const char *const names[OUTPUTS] = {"a", "b", "c"};
        bs_value y = bs_reshape(g, any_of(&w), shapes[0]);
        y = kind ? bs_reshape(g, bs_collect(g, y), BS_SHAPE1(ROWS * ELEMENTS)) : y;
        bs_output(g, names[i], check_below(2) ? rolled(g, y) : y);
    }
}

static float given[ROWS * ELEMENTS], scores[2 * ROWS], made[2][OUTPUTS][ROWS * ELEMENTS];

static bool runs(net *n, int32_t kind, float out[OUTPUTS][ROWS * ELEMENTS])
{
    static const char *const names[OUTPUTS] = {"a", "b", "c"};
    bs_buffer b = {given, BS_F32, 2, {ROWS, ELEMENTS}, {0}};
    bool fine = n->session && bs_bind(n->session, "x", &b, &n->error) == BS_OK;
    b = (bs_buffer){scores, BS_F32, 2, {ROWS, 2}, {0}};
    fine = fine && (kind < 2 || bs_bind(n->session, "score", &b, &n->error) == BS_OK);
    memset(out, 0, sizeof made[0]);
    for (int32_t i = 0; i < OUTPUTS && fine; i++) {
        b = (bs_buffer){out[i], BS_F32, 1, {kind ? ROWS * ELEMENTS : ELEMENTS}, {0}};
        fine = bs_bind(n->session, names[i], &b, &n->error) == BS_OK;
    }
    return fine && bs_run(n->session, &n->error) == BS_OK;
}

static _Alignas(64) uint8_t walked[1 << 20];

static bool tried(uint64_t seed, int32_t kind, const bs_plan_desc *desc, views *v, float out[OUTPUTS][ROWS * ELEMENTS])
{
    net n;
    bs_arena arena;
    memset(net_transient, 0xff, 1 << 20); /* NaN */
    check_state = check_mixed(seed);
    build_random(net_begin(&n), kind);
    bool fine = net_start(&n, desc, NULL) && bs_image_values_sound(n.plan);
    bs_arena_init(&arena, "walked", walked, sizeof walked);
    fine = fine && bs_plan_verify(n.plan, &arena, &n.error) == BS_OK && runs(&n, kind, out);
    if (fine)
        count_views(n.plan, v);
    else
        check(false, "graph %llu of kind %d %s", (unsigned long long)seed, kind, n.error.message);
    bs_session_close(n.session);
    return fine;
}

static void test_random(uint64_t seed)
{
    static const bs_plan_desc descs[] = {{.threads = 1}, {.threads = 3, .order = BS_ORDER_BREADTH},
                                         {.threads = 2, .order = BS_ORDER_DEPTH}};
    static const char *const kinds[] = {"of the root", "of rows", "of paths"};
    for (int32_t kind = 0; kind < 3; kind++) {
        views v = {0}, copied = {0};
        int32_t wrong = 0;
        for (uint64_t s = 0; s < 40; s++)
            for (size_t d = 0; d < sizeof descs / sizeof *descs; d++) {
                bs_plan_desc apart = descs[d];
                apart.no_fusion = 1;
                const uint64_t number = seed + 40 * (uint64_t)kind + s;
                const bool fine = tried(number, kind, &apart, &copied, made[0]) &&
                                  tried(number, kind, &descs[d], &v, made[1]);
                wrong += !fine || memcmp(made[0], made[1], sizeof made[0]) != 0;
            }
        check(wrong == 0 && copied.all == 0, "%d graphs %s give other bytes", wrong, kinds[kind]);
        check(v.all > 100, "views %s: %d", kinds[kind], v.all);
        if (kind > 0)
            check(v.in_tiles > 40, "of them in tiles: %d", v.in_tiles);
        if (kind > 1)
            check(v.in_paths > 40, "of them in paths: %d", v.in_paths);
    }
}

int main(int argc, char **argv)
{
    for (int32_t i = 0; i < ROWS * ELEMENTS; i++)
        given[i] = (float)(i % 37) - 11;
    for (int32_t i = 0; i < 2 * ROWS; i++)
        scores[i] = (float)(i * 7 % 5);
#ifndef BS_TEST_ON_DEVICE
    test_cases();
    test_scores();
    test_lies();
    test_written();
#endif
    test_random(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    return check_end();
}
