/* tags: unsigned */
/* Promises: whatever numbers stand in descriptors, handles and shapes, the builder and the planner give an error with a
 * message, or a plan of bounded size: never undefined behaviour (run it with sanitizers). Cycles cannot be said:
 * operands are made before what reads them, and a handle of what is yet to come, or of a larger graph, is refused. */
#include "numbers_world.h"

#include "budget.h"

static const int32_t extremes[] = {INT32_MIN, -1, 0, 1, INT32_MAX};
static const int32_t numbers[] = {INT32_MIN, -1, 0, 1, 2, 16, 255, 1 << 15, 1 << 20, 1 << 24, 1 << 30, INT32_MAX};
enum { EXTREMES = sizeof extremes / sizeof *extremes, NUMBERS = sizeof numbers / sizeof *numbers };

/* ------------------------------------------------------------------------------------------------ fields of ops */

typedef union params {
    const char *name;
    uint8_t bytes[sizeof(const char *) + 32 * 4];
} params;

/* A number that field `name` may have: where zero is none. */
static int32_t sound_number(const char *op, const char *name)
{
    static const struct {
        const char *op, *field;
        int32_t n;
    } table[] = {{"", "out", 4},    {"", "r", 2},         {"", "k", 1},    {"", "paths", 2},
                 {"", "router", 1}, {"", "rank", 1},      {"", "dim0", 4}, {"route_price", "router", 2},
                 {"route", "k", 0},  {"gather", "mode", 3},  {"arange", "maximum", 4}, {"loop", "bound", 4},
                 {"", "slots", 2}};
    int32_t n = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].field, name) == 0 && (!*table[i].op || strcmp(table[i].op, op) == 0))
            n = table[i].n;
    return is_of_a_loop(op) && strcmp(name, "router") == 0 ? 3 : n;
}

static void set_field(params *p, int32_t field, int32_t n)
{
    memcpy(p->bytes + sizeof(const char *) + 4 * (size_t)field, &n, sizeof n);
}

static void sound_params(const bs_op *op, params *p)
{
    memset(p, 0, sizeof *p);
    p->name = strcmp(op->name, "look_ahead") == 0 ? "route" : "it";
    for (int32_t i = 0; i < op->n_fields; i++)
        set_field(p, i, sound_number(op->name, op->fields[i].name));
}

/* Builds one node of the op on the turn-th operands, and uses it. */
static bool build(const bs_op *op, int32_t turn, const params *p, world *w)
{
    static const char *const names[BS_MAX_OUTPUTS] = {"first", "second", "third", "fourth"};
    int32_t in[8], n_in;
    *w = world_new();
    if (is_of_a_loop(op->name))
        world_begin_loop(w, op->name);
    if (!operands_of(w, op->name, turn, in, &n_in))
        return false;
    const bs_node *node = bs_op_build_numbered(w->g, bs_op_index(op->name), in, n_in, op->params_bytes ? p : NULL);
    if (!node)
        return true;
    const bs_value first = {node->first_out};
    const bool in_body = node->n_out > 0 && w->g->domains[node->domain].loop;
    const int32_t count = in_body ? 0 : node->n_out;
    if (in_body)
        bs_loop_next(w->g, w->loop, strcmp(op->name, "loop_carry") == 0 ? first : none, first);
    if (in_body && w->carried.id)
        bs_loop_next(w->g, w->loop, w->carried, w->body);
    if (w->g->open_loop)
        bs_loop_end(w->g, (bs_router){w->g->open_loop},
                    in_body && w->g->routers[w->g->open_loop].loop.grows ? first : none);
    for (int32_t i = 0; i < count && w->g->status == BS_OK; i++)
        use(w->g, (bs_value){first.id + i}, names[i]);
    return true;
}

static void test_single_fields(void)
{
    int32_t fields = 0, sound = 0, ops = 0;
    for (int32_t o = 0; o < bs_op_count(); o++) {
        const bs_op *op = bs_op_get(o);
        world w;
        params p;
        sound_params(op, &p);
        bool any = false;
        for (int32_t turn = 0; build(op, turn, &p, &w); turn++) {
            any = any || w.g->status == BS_OK;
            expect_bounded(w.g, op->name, -1, turn);
        }
        ops++;
        sound += any;
        if (!any)
            printf("  %s: %s (operands: numbers_world.h; fields that cannot be 0: sound_number)\n", op->name,
                   w.g->error.message);
        for (int32_t i = 0; i < op->n_fields; i++)
            for (int32_t k = 0; k < EXTREMES && op->fields[i].holds != BS_FIELD_FLOAT; k++) {
                sound_params(op, &p);
                set_field(&p, i, extremes[k]);
                fields++;
                for (int32_t turn = 0; build(op, turn, &p, &w); turn++)
                    expect_bounded(w.g, op->fields[i].name, extremes[k], turn);
            }
    }
    check(sound == ops, "every op can be built soundly (%d of %d)", sound, ops);
    check(wrong == 0,
          "%d fields of descriptors at INT32_MIN, -1, 0, 1, INT32_MAX: an error that is told, or plans of bounded size",
          fields);
}

/* In rounds, of which each takes other numbers of all pairs. */
enum { PAIR_ROUNDS = 7, LEAST_ROUNDS = 2 };

static int32_t test_pairs_of(const bs_op *op, int32_t i, int32_t j, int32_t round)
{
    int32_t pairs = 0;
    for (int32_t k = (round + i + j) % PAIR_ROUNDS; k < NUMBERS * NUMBERS; k += PAIR_ROUNDS, pairs++) {
        world w;
        params p;
        sound_params(op, &p);
        set_field(&p, i, numbers[k / NUMBERS]);
        set_field(&p, j, numbers[k % NUMBERS]);
        const int32_t turn = check_below(6);
        if (build(op, turn, &p, &w) || build(op, 0, &p, &w))
            expect_bounded(w.g, op->name, numbers[k / NUMBERS], numbers[k % NUMBERS]);
    }
    return pairs;
}

static void test_pairs_of_fields(void)
{
    const budget b = budget_of(0.7);
    const int32_t before = wrong;
    int32_t pairs = 0, round = 0;
    for (; budget_left(&b, round, LEAST_ROUNDS, PAIR_ROUNDS); round++)
        for (int32_t o = 0; o < bs_op_count(); o++) {
            const bs_op *op = bs_op_get(o);
            for (int32_t i = 0; i < op->n_fields; i++)
                for (int32_t j = 0; j < i; j++)
                    if (op->fields[i].holds != BS_FIELD_FLOAT && op->fields[j].holds != BS_FIELD_FLOAT)
                        pairs += test_pairs_of(op, i, j, round);
        }
    check(wrong == before, "%d pairs of fields likewise, in %d rounds of %d", pairs, round, PAIR_ROUNDS);
    check(refused > 1000 && planned > 1000 && unplanned > 100,
          "of them %d builds are refused, %d plans made, %d refused", refused, planned, unplanned);
}

/* ------------------------------------------------------------------------------------------- handles and shapes */

static void test_handles(void)
{
    int32_t told = 0, tried = 0;
    for (int32_t o = 0; o < bs_op_count(); o++) {
        const bs_op *op = bs_op_get(o);
        world w = world_new();
        params p;
        int32_t in[8], n_in = 0;
        sound_params(op, &p);
        operands_of(&w, op->name, 0, in, &n_in);
        for (int32_t i = 0; i < n_in; i++) {
            /* the third: its own result */
            const int32_t wild[] = {INT32_MIN, -1, w.g->n_values, w.g->n_values + 1, INT32_MAX};
            for (int32_t k = 0; k < 5; k++) {
                w = world_new();
                operands_of(&w, op->name, 0, in, &n_in);
                in[i] = wild[k];
                const bool made = bs_op_build_numbered(w.g, o, in, n_in, op->params_bytes ? &p : NULL) != NULL;
                told += !made && w.g->status == BS_ERROR_GRAPH && strstr(w.g->error.message, "does not exist") &&
                        is_bounded(w.g);
                tried++;
            }
        }
    }
    check(told == tried && tried > 100,
          "an operand that is its own result, yet to come, or of a larger graph, is refused (%d of %d)", told, tried);

    int32_t routers = 0;
    for (int32_t k = 0; k < 6; k++) {
        world w = world_new();
        const bs_router wild = {k == 5 ? w.g->n_routers : k == 3 ? -2 : extremes[k]};
        const bs_value values[2] = {w.images[4], none};
        bs_scatter(w.g, wild, 0, w.images[3]);
        routers += w.g->status == BS_ERROR_GRAPH;
        w = world_new();
        bs_gather(w.g, wild, values, none, NULL);
        routers += w.g->status == BS_ERROR_GRAPH;
        w = world_new();
        bs_route_score(w.g, wild);
        routers += w.g->status == BS_ERROR_GRAPH;
        w = world_new();
        bs_route_price(w.g, wild);
        routers += w.g->status == BS_ERROR_GRAPH;
    }
    check(routers == 24, "so is a router that there is not yet (%d of 24)", routers);
}

static const int64_t odd_dims[] = {INT64_MIN,
                                   INT32_MIN,
                                   -1,
                                   0,
                                   1,
                                   1 << 30,
                                   (1 << 30) + 1,
                                   INT32_MAX,
                                   BS_UPTO(0) - 1,
                                   BS_UPTO(0),
                                   BS_UPTO(1),
                                   BS_UPTO(1 << 30),
                                   BS_UPTO((1 << 30) + 1),
                                   2 * BS_UPTO(0) - 1,
                                   2 * BS_UPTO(0),
                                   2 * BS_UPTO(0) + 4,
                                   2 * BS_UPTO(0) + 10000,
                                   INT64_MAX};
enum { ODD_DIMS = sizeof odd_dims / sizeof *odd_dims };

/* An input, a state, a constant or a reshape of `value`: nothing is built where the shape is refused. */
static bs_value shaped(bs_graph *g, int32_t what, bs_value value, bs_shape shape)
{
    switch (what) {
    case 0:
        return bs_input(g, "it", BS_F32, shape);
    case 1:
        return bs_state(g, "it", BS_U8, shape);
    case 2:
        return bs_constant(g, "it", BS_I32, shape);
    default:
        return bs_reshape(g, value, shape);
    }
}

static void test_shapes(void)
{
    const int32_t before = wrong, count = ODD_DIMS * ODD_DIMS * 4;
    for (int32_t k = 0; k < count; k++) {
        world w = world_new();
        const bs_shape shape = BS_SHAPE2(odd_dims[k % ODD_DIMS], odd_dims[k / ODD_DIMS % ODD_DIMS]);
        const bs_value value = shaped(w.g, k / ODD_DIMS / ODD_DIMS, k % 2 ? w.table : w.images[2], shape);
        if (value.id)
            use(w.g, value, "used");
        expect_bounded(w.g, "shape", k % ODD_DIMS, k / ODD_DIMS);
    }
    check(wrong == before, "%d shapes likewise", count);
}

static void test_ranks(void)
{
    static const int32_t ranks[] = {INT32_MIN, -1, 0, 1, 4, 5, INT32_MAX};
    const int32_t before = wrong;
    for (int32_t k = 0; k < 7 * 4; k++) {
        world w = world_new();
        const bs_value value = shaped(w.g, k / 7, w.line, bs_shape_of(ranks[k % 7], 4, 1, 1, 1));
        if (value.id)
            use(w.g, value, "used");
        expect_bounded(w.g, "rank", ranks[k % 7], k / 7);
    }
    check(wrong == before, "%d ranks likewise", 7 * 4);
}

static void test_multiples(void)
{
    const int32_t before = wrong;
    for (int32_t k = 0; k < ODD_DIMS * EXTREMES; k++) {
        world w = world_new();
        const bs_dim twice = bs_times(w.g, odd_dims[k % ODD_DIMS], extremes[k / ODD_DIMS]),
                     again = bs_times(w.g, twice, 1 << 15);
        if (again)
            use(w.g, bs_input(w.g, "it", BS_U8, BS_SHAPE1(again)), "used");
        expect_bounded(w.g, "times", k % ODD_DIMS, extremes[k / ODD_DIMS]);
        w = world_new();
        bs_symbol(w.g, "S", odd_dims[k % ODD_DIMS]);
        expect_bounded(w.g, "symbol", k % ODD_DIMS, 0);
        w = world_new();
        bs_patches(w.g, w.images[0],
                   &(bs_patches_desc){.size = extremes[k / ODD_DIMS], .like = {extremes[k % EXTREMES]}});
        expect_bounded(w.g, "patches", extremes[k / ODD_DIMS], extremes[k % EXTREMES]);
        w = world_new();
        bs_concat(w.g, &w.line, extremes[k / ODD_DIMS] == 1 ? 1 : extremes[k / ODD_DIMS], extremes[k % EXTREMES]);
        expect_bounded(w.g, "concat", extremes[k / ODD_DIMS], extremes[k % EXTREMES]);
    }
    check(wrong == before, "%d multiples, symbols, patches and lists likewise", 4 * ODD_DIMS * EXTREMES);
}

/* --------------------------------------------------------------------------------------------- plans and graphs */

static void test_plan_descs(void)
{
    static const size_t fields[] = {offsetof(bs_plan_desc, threads),       offsetof(bs_plan_desc, tier),
                                    offsetof(bs_plan_desc, order),         offsetof(bs_plan_desc, conv),
                                    offsetof(bs_plan_desc, patch_size),    offsetof(bs_plan_desc, n_forces),
                                    offsetof(bs_plan_desc, lanes),         offsetof(bs_plan_desc, chunk_bytes),
                                    offsetof(bs_plan_desc, half),          offsetof(bs_plan_desc, in_place),
                                    offsetof(bs_plan_desc, launch_mode),      offsetof(bs_plan_desc, shared_bytes),
                                    offsetof(bs_plan_desc, forces[0].path)};
    enum { FIELDS = sizeof fields / sizeof *fields };
    static const uint64_t slots[] = {0, 1, 63, 64, 1 << 20, UINT64_MAX - 1, UINT64_MAX};
    const int32_t before = wrong, plans = planned;
    int32_t descs = 0;
    world w = world_new();
    bs_block_begin(w.g, "block");
    const bs_value y = bs_conv2d(w.g, w.images[4], &(bs_conv2d_desc){.name = "conv", .out = 16});
    bs_block_end(w.g);
    use(w.g, y, "y");
    check(w.g->status == BS_OK, "a net with a router, for plans: %s", w.g->error.message);
    for (int32_t i = 0; i < FIELDS * FIELDS; i++)
        for (int32_t k = 0; k < NUMBERS * NUMBERS; k++) {
            bs_plan_desc d = {.tier = k % 3 == 0   ? BS_TIER_CUDA
                                      : k % 3 == 1 ? BS_TIER_SCALAR
                                                   : 0,
                              .slot_bytes = slots[(i + k) % 7],
                              .forces = {{"route", 0}}};
            memcpy((char *)&d + fields[i / FIELDS], &numbers[k / NUMBERS], sizeof(int32_t));
            memcpy((char *)&d + fields[i % FIELDS], &numbers[k % NUMBERS], sizeof(int32_t));
            bs_plan_bytes(w.g, &d);
            if (!plan_is_bounded(w.g, &d) && wrong++ < 10)
                printf("  plan desc %d %d\n", i, k);
            descs++;
        }
    check(wrong == before && planned > plans, "%d plan descriptions of two wild fields, %d of them plans", descs,
          planned - plans);
}

static void test_graph_descs(void)
{
    int32_t sound = 0, made = 0;
    for (int32_t k = 0; k < NUMBERS * NUMBERS * NUMBERS; k++) {
        const bs_graph_desc d = {.max_nodes = numbers[k % NUMBERS],
                                 .max_values = numbers[k / NUMBERS % NUMBERS],
                                 .max_text_bytes = numbers[k / NUMBERS / NUMBERS]};
        bs_arena arena;
        bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
        const size_t bytes = bs_graph_bytes(&d);
        bs_graph *g = bytes <= sizeof graph_memory ? bs_graph_create(&arena, &d) : NULL;
        sound += bytes < (size_t)1 << 35 && (g == NULL || arena.used + BS_ALIGNMENT == bytes) &&
                 (bytes != 0 || g == NULL);
        if (g) {
            use(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), "y");
            sound -= !is_bounded(g);
        }
        made += g != NULL;
    }
    check(sound == NUMBERS * NUMBERS * NUMBERS && made > 0, "%d capacities of graphs, of which %d can be", sound, made);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_single_fields();
    test_pairs_of_fields();
    test_handles();
    test_shapes();
    test_ranks();
    test_multiples();
    test_plan_descs();
    test_graph_descs();
    return check_end();
}
