/* wrong_builds.h - wrong builds, for the tables of messages: a graph with something of everything, one mistake upon it.
 *
 * WRONG(status, text, mistake) is a row: in a fresh graph `g`, whose values `f` names, the mistake is refused with
 * exactly this text; nothing is built after it, the text stays, and a plan gives it again. wrong_builds_end() says
 * whether that held. Owns the graph's memory. Relies on messages.h and graph/graph.h. Must never leave a mistake
 * unnoticed: a row fails when it is none. */
#ifndef BS_TEST_WRONG_BUILDS_H
#define BS_TEST_WRONG_BUILDS_H

#include "graph/graph.h"
#include "messages.h"

static _Alignas(64) uint8_t wrong_graph_memory[8 << 20];

static inline bs_graph *new_graph(const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", wrong_graph_memory, sizeof wrong_graph_memory);
    return bs_graph_create(&arena, desc);
}

typedef struct fixture {
    bs_graph *g;
    bs_dim n, h, w;
    bs_value frame, codes, image, line, numbers, table, knob, state, lengths, past, cache; /* root */
    /* patches, their scores, those of path 0 */
    bs_value cells, score, inside;
    bs_value tokens, labels, words; /* rows: f32 [4] and i32 [1]; segments: f32 [4] */
    bs_router router;
} fixture;

static const bs_value none = {0};

static inline fixture fixture_new(void)
{
    fixture f;
    f.g = new_graph(NULL);
    f.n = bs_symbol(f.g, "N", 40);
    f.h = bs_symbol(f.g, "H", 64);
    f.w = bs_symbol(f.g, "W", 48);
    f.frame = bs_input(f.g, "frame", BS_F32, BS_SHAPE3(2, f.h, f.w));
    f.codes = bs_input(f.g, "codes", BS_U8, BS_SHAPE3(1, f.h, f.w));
    f.image = bs_input(f.g, "image", BS_F32, BS_SHAPE3(3, 8, 10));
    f.line = bs_input(f.g, "line", BS_F32, BS_SHAPE1(4));
    f.numbers = bs_input(f.g, "numbers", BS_I32, BS_SHAPE1(4));
    f.table = bs_input(f.g, "table", BS_F32, BS_SHAPE2(f.n, 4));
    f.knob = bs_input(f.g, "knob", BS_F32, BS_SHAPE1(1));
    f.state = bs_state(f.g, "state", BS_F32, BS_SHAPE3(2, f.h, f.w));
    f.lengths = bs_input(f.g, "lengths", BS_I32, BS_SHAPE1(5));
    f.past = bs_input(f.g, "past", BS_I32, BS_SHAPE1(5));
    f.cache = bs_state(f.g, "cache", BS_F32, BS_SHAPE3(5, 6, 4));
    f.cells = bs_patches(f.g, f.frame, &(bs_patches_desc){.size = 16});
    f.tokens = bs_rows(f.g, f.table, none);
    f.labels = bs_rows(f.g, bs_input(f.g, "labels", BS_I32, BS_SHAPE2(f.n, 1)), none);
    f.words = bs_segments(f.g, f.table, f.lengths);
    f.score = bs_pool2d(f.g, f.cells, &(bs_pool2d_desc){.global = 1});
    f.router = bs_route(f.g, f.score, none, &(bs_route_desc){.name = "first", .paths = 2});
    f.inside = bs_scatter(f.g, f.router, 0, f.cells);
    return f;
}

static int32_t wrong_rows, wrong_fixtures, wrong_sound, wrong_stuck, wrong_unplanned;

/* Nothing is built any more, and the message stays. */
static inline bool is_stuck(const fixture *f)
{
    bs_graph *g = f->g;
    const bs_error first = g->error;
    const int32_t nodes = g->n_nodes, values = g->n_values, routers = g->n_routers, dims = g->n_dims, text = g->n_text;
    const bs_value out[2] = {f->inside, none};
    const bool nothing = bs_input(g, "later", BS_F32, BS_SHAPE1(4)).id == 0 &&
                         bs_activation(g, f->line, BS_RELU, 0).id == 0 &&
                         bs_conv2d(g, f->frame, &(bs_conv2d_desc){.out = 1}).id == 0 && bs_symbol(g, "Q", 4) == 0 &&
                         bs_times(g, f->h, 2) == 0 && bs_gather(g, f->router, out, none, NULL).id == 0 &&
                         bs_scatter(g, f->router, 0, f->cells).id == 0 &&
                         bs_route(g, f->score, none, &(bs_route_desc){.name = "late", .paths = 2}).id == 0 &&
                         bs_reshape(g, f->line, BS_SHAPE1(4)).id == 0 && bs_assemble(g, f->cells).id == 0 &&
                         bs_route_score(g, f->router).id == 0;
    bs_output(g, "late", f->line);
    bs_state_write(g, f->state, f->frame);
    bs_block_begin(g, "late");
    bs_block_end(g);
    return nothing && g->n_nodes == nodes && g->n_values == values && g->n_routers == routers && g->n_dims == dims &&
           g->n_text == text && g->status == first.status && strcmp(g->error.message, first.message) == 0;
}

static inline bool is_unplanned(const bs_graph *g)
{
    static _Alignas(64) uint8_t memory[1 << 20];
    bs_arena arena;
    bs_error again;
    bs_arena_init(&arena, "plan", memory, sizeof memory);
    return !bs_plan_create(&arena, NULL, g, NULL, &again) && strcmp(again.message, g->error.message) == 0 &&
           bs_plan_bytes(g, NULL) == 0;
}

static inline void wrong_is(const fixture *f, bs_status status, const char *text)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    wrong_rows++;
    wrong_sound += bs_graph_check(f->g, &error) == status;
    message_is(&error, status, text);
    wrong_stuck += is_stuck(f);
    wrong_unplanned += is_unplanned(f->g);
}

/* A limit that was met is told with this text. */
static inline bool stops_with(const bs_graph *g, const char *text)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_graph_check(g, &error);
    return message_is(&error, BS_ERROR_LIMIT, text);
}

#define WRONG(expected, message, ...)                           \
    do {                                                        \
        const fixture fixture_ = fixture_new(), *f = &fixture_; \
        bs_graph *g = f->g;                                     \
        wrong_fixtures += g->status == BS_OK;                   \
        __VA_ARGS__;                                            \
        wrong_is(f, expected, message);                         \
    } while (0)

static inline void wrong_builds_end(void)
{
    check(wrong_fixtures == wrong_rows, "before the mistake the graph is sound (%d of %d)", wrong_fixtures, wrong_rows);
    check(wrong_sound == wrong_rows, "bs_graph_check returns the status of the first mistake (%d of %d)", wrong_sound,
          wrong_rows);
    check(wrong_stuck == wrong_rows, "after a mistake nothing is built and the first message stays (%d of %d)",
          wrong_stuck, wrong_rows);
    check(wrong_unplanned == wrong_rows, "and there is no plan: it gives the same message (%d of %d)", wrong_unplanned,
          wrong_rows);
}

#endif
