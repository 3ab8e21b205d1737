/* Promises: whatever numbers stand in descriptors, handles and shapes, the builder and the planner give an error with a
 * message, or a plan of bounded size: never undefined behaviour (run it with sanitizers). Cycles cannot be said:
 * operands are made before what reads them, and a handle of what is yet to come, or of a larger graph, is refused. */
#include "check.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "ops/structure.h"

static _Alignas(64) uint8_t graph_memory[2 << 20], plan_memory[4 << 20];
static char report[1 << 16];
static const bs_value none = {0};

static const int32_t extremes[] = {INT32_MIN, -1, 0, 1, INT32_MAX};
static const int32_t numbers[] = {INT32_MIN, -1, 0, 1, 2, 16, 255, 1 << 15, 1 << 20, 1 << 24, 1 << 30, INT32_MAX};
enum { EXTREMES = sizeof extremes / sizeof *extremes, NUMBERS = sizeof numbers / sizeof *numbers };

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, &(bs_graph_desc){.max_nodes = 64, .max_values = 64, .max_text_bytes = 8192});
}

/* ---------------------------------------------------------------------------------------------- what comes of a
 * graph */

static int32_t refused, planned, unplanned, wrong;

static bool is_told(const bs_error *error)
{
    return error->status < 0 && error->message[0] && strlen(error->message) < sizeof error->message - 1;
}

static bool refers_backwards(const bs_graph *g)
{
    for (int32_t n = 1; n < g->n_nodes; n++)
        for (int32_t i = 0; i < g->nodes[n].n_in; i++)
            if (bs_node_in(g, &g->nodes[n])[i] < 0 || g->values[bs_node_in(g, &g->nodes[n])[i]].node >= n)
                return false;
    return true;
}

/* Makes a result an output, wherever it is. */
static void use(bs_graph *g, bs_value value, const char *name)
{
    const bs_value_info info = *bs_value_get(g, value.id);
    const bs_domain *domain = &g->domains[info.domain];
    if (domain->kind == BS_DOMAIN_PATH) {
        bs_value values[TEST_PATHS] = {{0}};
        values[domain->path] = value;
        use(g, bs_gather(g, (bs_router){domain->router}, values, none, &(bs_gather_desc){.mode = BS_GATHER_SELECT}),
            name);
    } else if (info.domain == 0)
        bs_output(g, name, value);
    else
        bs_output(g, name,
                  bs_domain_is_patches(domain) && info.rank == 3 ? bs_assemble(g, value) : bs_collect(g, value));
}

static bool plan_is_bounded(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_sizes sizes;
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, g, desc, &error);
    if (!plan) {
        unplanned++;
        return is_told(&error) && arena.used == 0;
    }
    planned++;
    bs_plan_sizes(plan, &sizes);
    return bs_plan_report(plan, report, sizeof report) > 0 && sizes.transient <= 64 * BS_MAX_PLAN_BYTES &&
           sizes.persistent < (uint64_t)1 << 60 && sizes.device < (uint64_t)1 << 60;
}

/* An error that is told, or a graph that can be described, with plans or errors of those. */
static bool is_bounded(const bs_graph *g)
{
    static const bs_plan_desc descs[] = {{.tier = BS_TIER_SCALAR, .order = BS_ORDER_BREADTH},
                                         {.order = BS_ORDER_DEPTH, .threads = 3, .slot_bytes = UINT64_MAX},
                                         {.conv = BS_CONV_FORCE_WINOGRAD, .patch_size = 4},
                                         {.tier = BS_TIER_CUDA, .half = 1, .order = BS_ORDER_DEPTH}};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (bs_graph_check(g, &error) != BS_OK) {
        refused++;
        return is_told(&error);
    }
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (bs_graph_describe(g, n, report, sizeof report) == 0)
            return false;
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++)
        if (!plan_is_bounded(g, &descs[i]))
            return false;
    return refers_backwards(g);
}

static void expect_bounded(const bs_graph *g, const char *what, int32_t a, int32_t b)
{
    if (!is_bounded(g) && wrong++ < 10)
        printf("  %s, %d, %d: %s\n", what, a, b, g->error.message);
}

/* ------------------------------------------------------------------------------------------------------ fields of
 * ops */

typedef union params {
    const char *name;
    uint8_t bytes[sizeof(const char *) + 32 * 4];
} params;

typedef struct world {
    bs_graph *g;
    bs_value images[5]; /* plain, of many channels, large, cells, cells of a path */
    bs_value line, integers, table, codes, cells_codes, lengths, past, cache, words, tokens, score, losses, square,
        inside;
    bs_router router, budget;
} world;

static world world_new(void)
{
    world w;
    bs_graph *g = w.g = new_graph();
    const bs_dim h = bs_symbol(g, "H", 64), x = bs_symbol(g, "W", 48), n = bs_symbol(g, "N", 40);
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(16, h, x));
    w.images[0] = bs_input(g, "image", BS_F32, BS_SHAPE3(16, 24, 20));
    w.images[1] = bs_input(g, "deep", BS_F32, BS_SHAPE3(1 << 28, 2, 2));
    w.images[2] = bs_input(g, "large", BS_F32, BS_SHAPE3(1, BS_UPTO(1 << 20), 1 << 20));
    w.images[3] = bs_patches(g, frame, &(bs_patches_desc){.size = 16});
    w.score = bs_slice(g, bs_pool2d(g, w.images[3], &(bs_pool2d_desc){.global = 1}), &(bs_slice_desc){.length = 2});
    w.router = bs_route(g, w.score, none, &(bs_route_desc){.name = "route", .paths = 2});
    w.losses = bs_convert(g, w.score, &(bs_convert_desc){.dtype = BS_I32});
    w.budget = bs_route(g, w.losses, none, &(bs_route_desc){.name = "budget", .paths = 2, .protocol = BS_ROUTE_BUDGET});
    w.images[4] = bs_scatter(g, w.router, 1, w.images[3]);
    w.line = bs_input(g, "line", BS_F32, BS_SHAPE1(4));
    w.integers = bs_input(g, "integers", BS_I32, BS_SHAPE1(4));
    w.table = bs_input(g, "table", BS_F32, BS_SHAPE2(n, 4));
    w.codes = bs_input(g, "codes", BS_U8, BS_SHAPE3(1, h, x));
    w.cells_codes = bs_patches(g, w.codes, &(bs_patches_desc){.size = 16});
    w.lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(5));
    w.past = bs_input(g, "past", BS_I32, BS_SHAPE1(5));
    w.cache = bs_state(g, "cache", BS_F32, BS_SHAPE3(5, 6, 4));
    w.square = bs_input(g, "square", BS_F32, BS_SHAPE2(4, 4));
    w.inside = bs_scatter(g, w.router, 0, w.images[3]);
    w.words = bs_segments(g, w.table, w.lengths);
    w.tokens = bs_rows(g, w.table, none);
    return w;
}

/* Operands of op `name`, the turn-th choice of them; false: there are no more. */
static bool operands_of(const world *w, const char *name, int32_t turn, int32_t *in, int32_t *n_in)
{
    static const char *const of_images[] = {"conv2d",     "deconv2d",  "pixel_shuffle", "pixel_unshuffle", "activation",
                                            "prelu",      "clip",      "affine",        "convert",         "slice",
                                            "reshape",    "transpose", "pad",           "softmax",         "layer_norm",
                                            "batch_norm", "pool2d",    "resize",        "reduce",          "argmax",
                                            "topk",       "linear",    "patches",       "concat",          "rows"};
    const int32_t words = w->words.id, cells = w->images[3].id;
    const struct {
        const char *op;
        int32_t count, in[6];
    } others[] = {{"matmul", 2, {w->square.id, w->square.id}},
                  {"add", 2, {w->images[3].id, w->images[3].id}},
                  {"sub", 2, {w->line.id, w->line.id}},
                  {"mul", 2, {w->integers.id, w->integers.id}},
                  {"gather_rows", 2, {w->integers.id, w->table.id}},
                  {"constant", 0, {0}},
                  {"input", 0, {0}},
                  {"state", 0, {0}},
                  {"state_write", 2, {w->cache.id, w->cache.id}},
                  {"output", 1, {w->line.id}},
                  {"assemble", 1, {cells}},
                  {"collect", 1, {w->tokens.id}},
                  {"route", 1, {w->score.id}},
                  {"scatter", 1, {cells}},
                  {"gather", 3, {w->inside.id, 0, 0}},
                  {"route_price", 0, {0}},
                  {"route_score", 1, {w->score.id}},
                  {"patch_features", 1, {w->cells_codes.id}},
                  {"segments", 2, {w->table.id, w->lengths.id}},
                  {"state_append", 3, {w->cache.id, words, w->past.id}},
                  {"segment_spread", 2, {w->lengths.id, words}},
                  {"segment_reduce", 1, {words}},
                  {"attention", 6, {words, words, words, w->cache.id, w->cache.id, w->past.id}},
                  {"look_ahead", 1, {w->score.id}}};
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images; i++)
        if (strcmp(of_images[i], name) == 0) {
            *n_in = 1;
            in[0] = turn < 5 ? w->images[turn].id : turn == 5 ? w->line.id : w->tokens.id;
            return turn < 7;
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].op, name) == 0) {
            *n_in = others[i].count;
            memcpy(in, others[i].in, sizeof others[i].in);
            return turn == 0 || (turn == 1 && strcmp(name, "route") == 0 && (in[0] = w->losses.id) != 0);
        }
    return false;
}

/* A number that field `name` may have: where zero is none. */
static int32_t sound_number(const char *op, const char *name)
{
    static const struct {
        const char *op, *field;
        int32_t n;
    } table[] = {{"", "out", 4},    {"", "r", 2},         {"", "k", 1},    {"", "paths", 2},
                 {"", "router", 1}, {"", "rank", 1},      {"", "dim0", 4}, {"route_price", "router", 2},
                 {"route", "k", 0}, {"gather", "mode", 3}};
    int32_t n = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].field, name) == 0 && (!*table[i].op || strcmp(table[i].op, op) == 0))
            n = table[i].n;
    return n;
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
    int32_t in[8], n_in;
    *w = world_new();
    if (!operands_of(w, op->name, turn, in, &n_in))
        return false;
    const bs_node *node = bs_op_build_numbered(w->g, bs_op_index(op->name), in, n_in, op->params_bytes ? p : NULL);
    if (!node)
        return true;
    const bs_value first = {node->first_out};
    const int32_t count = node->n_out;
    for (int32_t i = 0; i < count && w->g->status == BS_OK; i++)
        use(w->g, (bs_value){first.id + i}, i ? "second" : "first");
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
            printf("  %s: %s\n", op->name, w.g->error.message);
        for (int32_t i = 0; i < op->n_fields; i++)
            for (int32_t k = 0; k < EXTREMES && op->fields[i].kind == 'i'; k++) {
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

static void test_pairs_of_fields(void)
{
    const int32_t before = wrong;
    int32_t pairs = 0;
    for (int32_t o = 0; o < bs_op_count(); o++) {
        const bs_op *op = bs_op_get(o);
        for (int32_t i = 0; i < op->n_fields; i++)
            for (int32_t j = 0; j < i; j++)
                for (int32_t k = 0; k < NUMBERS * NUMBERS && op->fields[i].kind == 'i' && op->fields[j].kind == 'i';
                     k++) {
                    world w;
                    params p;
                    sound_params(op, &p);
                    set_field(&p, i, numbers[k / NUMBERS]);
                    set_field(&p, j, numbers[k % NUMBERS]);
                    const int32_t turn = check_below(6);
                    if (build(op, turn, &p, &w) || build(op, 0, &p, &w))
                        expect_bounded(w.g, op->name, numbers[k / NUMBERS], numbers[k % NUMBERS]);
                    pairs++;
                }
    }
    check(wrong == before, "%d pairs of fields likewise", pairs);
    check(refused > 1000 && planned > 1000 && unplanned > 100,
          "of them %d builds are refused, %d plans made, %d refused", refused, planned, unplanned);
}

/* ------------------------------------------------------------------------------------------------ handles and
 * shapes */

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

static void test_shapes(void)
{
    static const int64_t dims[] = {INT64_MIN,
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
    static const int32_t ranks[] = {INT32_MIN, -1, 0, 1, 4, 5, INT32_MAX};
    const int32_t before = wrong, count = (int32_t)(sizeof dims / sizeof *dims);
    int32_t shapes = 0;
    for (int32_t k = 0; k < count * count * 4; k++) {
        world w = world_new();
        const bs_shape shape = BS_SHAPE2(dims[k % count], dims[k / count % count]);
        bs_value value = none;
        switch (k / count / count) {
        case 0:
            value = bs_input(w.g, "it", BS_F32, shape);
            break;
        case 1:
            value = bs_state(w.g, "it", BS_U8, shape);
            break;
        case 2:
            value = bs_constant(w.g, "it", BS_I32, shape);
            break;
        default:
            value = bs_reshape(w.g, k % 2 ? w.table : w.images[2], shape);
            break;
        }
        if (value.id)
            use(w.g, value, "used");
        expect_bounded(w.g, "shape", k % count, k / count);
        shapes++;
    }
    for (int32_t k = 0; k < 7 * 4; k++) {
        world w = world_new();
        const bs_shape shape = bs_shape_of(ranks[k % 7], 4, 1, 1, 1);
        bs_value value = none;
        switch (k / 7) {
        case 0:
            value = bs_input(w.g, "it", BS_F32, shape);
            break;
        case 1:
            value = bs_state(w.g, "it", BS_U8, shape);
            break;
        case 2:
            value = bs_constant(w.g, "it", BS_I32, shape);
            break;
        default:
            value = bs_reshape(w.g, w.line, shape);
            break;
        }
        if (value.id)
            use(w.g, value, "used");
        expect_bounded(w.g, "rank", ranks[k % 7], k / 7);
        shapes++;
    }
    for (int32_t k = 0; k < count * EXTREMES; k++) {
        world w = world_new();
        const bs_dim twice = bs_times(w.g, dims[k % count], extremes[k / count]), again = bs_times(w.g, twice, 1 << 15);
        if (again)
            use(w.g, bs_input(w.g, "it", BS_U8, BS_SHAPE1(again)), "used");
        expect_bounded(w.g, "times", k % count, extremes[k / count]);
        w = world_new();
        bs_symbol(w.g, "S", dims[k % count]);
        expect_bounded(w.g, "symbol", k % count, 0);
        w = world_new();
        bs_patches(w.g, w.images[0], &(bs_patches_desc){.size = extremes[k / count], .like = extremes[k % EXTREMES]});
        expect_bounded(w.g, "patches", extremes[k / count], extremes[k % EXTREMES]);
        w = world_new();
        bs_concat(w.g, &w.line, extremes[k / count] == 1 ? 1 : extremes[k / count], extremes[k % EXTREMES]);
        expect_bounded(w.g, "concat", extremes[k / count], extremes[k % EXTREMES]);
        shapes += 4;
    }
    check(wrong == before, "%d shapes, symbols and multiples likewise", shapes);
}

/* --------------------------------------------------------------------------------------------------- plans and
 * graphs */

static void test_plan_descs(void)
{
    static const size_t fields[] = {offsetof(bs_plan_desc, threads),       offsetof(bs_plan_desc, tier),
                                    offsetof(bs_plan_desc, order),         offsetof(bs_plan_desc, conv),
                                    offsetof(bs_plan_desc, patch_size),    offsetof(bs_plan_desc, n_forces),
                                    offsetof(bs_plan_desc, lanes),         offsetof(bs_plan_desc, chunk_bytes),
                                    offsetof(bs_plan_desc, half),          offsetof(bs_plan_desc, in_place),
                                    offsetof(bs_plan_desc, lowering),      offsetof(bs_plan_desc, shared_bytes),
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
    test_plan_descs();
    test_graph_descs();
    return check_end();
}
