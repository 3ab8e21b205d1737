/* numbers_world.h - a graph with something of everything for numbers that nobody should give, and what must come of it:
 * an error with a message, or plans of bounded size.
 * Owns the graph's memory and the counts. Relies on check.h. */
#ifndef BS_TEST_NUMBERS_WORLD_H
#define BS_TEST_NUMBERS_WORLD_H

#include "check.h"
#include "ops/structure.h"
#include "ops/table.h"
#include "plan/plan.h"

static _Alignas(64) uint8_t graph_memory[2 << 20], plan_memory[4 << 20];
static char report[1 << 16];
static const bs_value none = {0};

static inline bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, &(bs_graph_desc){.max_nodes = 64, .max_values = 64, .max_text_bytes = 8192});
}

/* ---------------------------------------------------------------------------------------- what comes of a graph */

static int32_t refused, planned, unplanned, wrong;

static inline bool is_told(const bs_error *error)
{
    return error->status < 0 && error->message[0] && strlen(error->message) < sizeof error->message - 1;
}

static inline bool refers_backwards(const bs_graph *g)
{
    for (int32_t n = 1; n < g->n_nodes; n++)
        for (int32_t i = 0; i < g->nodes[n].n_in; i++)
            if (bs_node_in(g, &g->nodes[n])[i] < 0 || g->values[bs_node_in(g, &g->nodes[n])[i]].node >= n)
                return false;
    return true;
}

/* Makes a result an output, wherever it is. */
static inline void use(bs_graph *g, bs_value value, const char *name)
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

static inline bool plan_is_bounded(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_sizes sizes;
    bs_arena_init(&arena, "persistent", plan_memory, sizeof plan_memory);
    const bs_plan *plan = bs_plan_create(&arena, NULL, g, desc, &error);
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
static inline bool is_bounded(const bs_graph *g)
{
    static bs_plan_desc descs[] = {{.tier = BS_TIER_SCALAR, .order = BS_ORDER_BREADTH},
                                   {.order = BS_ORDER_DEPTH, .threads = 3, .slot_bytes = UINT64_MAX},
                                   {.conv = BS_CONV_FORCE_WINOGRAD, .patch_size = 4},
                                   {.tier = BS_TIER_CUDA, .half = 1, .order = BS_ORDER_DEPTH}};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (descs[1].tier == BS_TIER_AUTO) /* asking the processor takes longer than planning */
        descs[1].tier = descs[2].tier = bs_tier_best();
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

static inline void expect_bounded(const bs_graph *g, const char *what, int32_t a, int32_t b)
{
    if (!is_bounded(g) && wrong++ < 10)
        printf("  %s, %d, %d: %s\n", what, a, b, g->error.message);
}

/* ------------------------------------------------------------------------------------- operands for any builder */

typedef struct world {
    bs_graph *g;
    bs_value images[5]; /* plain, of many channels, large, cells, cells of a path */
    bs_value line, integers, table_of_integers, table, codes, cells_codes, lengths, past, cache, words, tokens, score,
        losses, square, boxes, inside, one;
    bs_value rope_positions;
    bs_router router, budget, loop; /* loop: begun for ops of loops alone */
    bs_value body, carried, trip;
} world;

static inline bool is_of_a_loop(const char *op) { return strncmp(op, "loop_", 5) == 0; }

/* A loop whose body an op is to stand in. */
static inline void world_begin_loop(world *w, const char *op)
{
    const bool carries = strcmp(op, "loop_rows") == 0, grows = strcmp(op, "loop_parent") == 0;
    const bs_loop_desc desc = {.name = "loop", .bound = 4, .grows = grows};
    w->loop = bs_loop_begin(w->g, w->tokens, grows ? bs_argmax(w->g, w->tokens) : none, &desc);
    w->body = bs_scatter(w->g, w->loop, 0, w->tokens);
    w->carried = carries ? bs_loop_carry(w->g, w->loop, w->tokens) : none;
    w->trip = carries ? bs_loop_trip(w->g, w->loop) : none;
}

static inline world world_new(void)
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
    w.table_of_integers = bs_input(g, "table of integers", BS_I32, BS_SHAPE2(4, 2));
    w.one = bs_input(g, "one", BS_I32, BS_SHAPE1(1));
    w.table = bs_input(g, "table", BS_F32, BS_SHAPE2(n, 4));
    w.codes = bs_input(g, "codes", BS_U8, BS_SHAPE3(1, h, x));
    w.cells_codes = bs_patches(g, w.codes, &(bs_patches_desc){.size = 16});
    w.lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(5));
    w.past = bs_input(g, "past", BS_I32, BS_SHAPE1(5));
    w.cache = bs_state(g, "cache", BS_F32, BS_SHAPE3(5, 6, 4));
    w.square = bs_input(g, "square", BS_F32, BS_SHAPE2(4, 4));
    w.boxes = bs_reshape(g, w.square, BS_SHAPE3(1, 4, 4));
    w.inside = bs_scatter(g, w.router, 0, w.images[3]);
    w.words = bs_segments(g, w.table, w.lengths);
    w.rope_positions = bs_segment_index(g, w.words, w.past);
    w.tokens = bs_rows(g, w.table, none);
    return w;
}

/* Operands of op `name`, the turn-th choice of them; false: there are no more. An op that is not in the list takes as
 * many as it must have of one value: an image, a line, or rows. */
static inline bool operands_of(const world *w, const char *name, int32_t turn, int32_t *in, int32_t *n_in)
{
    const int32_t words = w->words.id, cells = w->images[3].id;
    const struct {
        const char *op;
        int32_t count, in[6];
    } others[] = {{"matmul", 2, {w->square.id, w->square.id}},
                  {"add", 2, {w->images[3].id, w->images[3].id}},
                  {"sub", 2, {w->line.id, w->line.id}},
                  {"mul", 2, {w->integers.id, w->integers.id}},
                  {"binary", 2, {w->line.id, w->line.id}},
                  {"compare", 2, {w->integers.id, w->integers.id}},
                  {"where", 3, {w->integers.id, w->integers.id, w->integers.id}},
                  {"gather_rows", 2, {w->integers.id, w->table.id}},
                  {"select", 2, {w->table.id, w->integers.id}},
                  {"gather_elements", 2, {w->line.id, w->integers.id}},
                  {"scatter_elements", 3, {w->line.id, w->integers.id, w->line.id}},
                  {"scatter_rows", 3, {w->line.id, w->integers.id, w->line.id}},
                  {"arange", 3, {w->one.id, w->one.id, w->one.id}},
                  {"nms", 2, {w->boxes.id, w->boxes.id}},
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
                  {"segment_index", 2, {words, w->past.id}},
                  {"rope", 2, {words, w->rope_positions.id}},
                  {"lstm", 3, {w->line.id, w->line.id, w->line.id}},
                  {"gru", 2, {w->tokens.id, w->tokens.id}},
                  {"loop", 3, {w->tokens.id, 0, 0}},
                  {"loop_carry", 1, {w->tokens.id}},
                  {"loop_trip", 0, {0}},
                  {"loop_slice", 1, {w->tokens.id}},
                  {"loop_next", 3, {w->body.id, 0, 0}},
                  {"loop_collect", 2, {w->body.id, 0}},
                  {"loop_again", 2, {0, 0}},
                  {"loop_parent", 0, {0}},
                  {"loop_rows", 2, {w->carried.id, w->trip.id}},
                  {"children", 2, {w->integers.id, w->integers.id}},
                  {"levels", 1, {w->table_of_integers.id}},
                  {"look_ahead", 1, {w->score.id}}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].op, name) == 0) {
            *n_in = others[i].count;
            memcpy(in, others[i].in, sizeof others[i].in);
            return turn == 0 || (turn == 1 && strcmp(name, "route") == 0 && (in[0] = w->losses.id) != 0);
        }
    *n_in = bs_op_get(bs_op_index(name))->min_in;
    for (int32_t i = 0; i < *n_in; i++)
        in[i] = turn < 5 ? w->images[turn].id : turn == 5 ? w->line.id : w->tokens.id;
    return turn < 7;
}

#endif
