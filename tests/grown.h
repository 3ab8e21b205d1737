/* grown.h - a network that grows its own trees, for the CPU and a device: binomial trees, of which everything is known.
 */
#ifndef BS_TEST_GROWN_H
#define BS_TEST_GROWN_H

#include "brainstorm.h"

enum { GROWN_ROOM = 100 };

static const float grown_nothing[1];
static const bs_tensor grown_tensors[] = {{"nothing", BS_F32, 1, {1}, grown_nothing}};
static const bs_tensor_table grown_weights = {grown_tensors, 1};

/* A row of value n makes n rows, of values n - 1 down to 0; then, upwards, each counts the rows below it: 2^n with
 * itself. */
static inline bs_graph *grown_graph(bs_graph *g, int32_t bound)
{
    const bs_value none = {0};
    const bs_value n = bs_rows(g, bs_input(g, "n", BS_I32, BS_SHAPE2(GROWN_ROOM, 1)), none);
    const bs_value roots = bs_rows(g, bs_input(g, "roots", BS_I32, BS_SHAPE2(GROWN_ROOM, 1)), n);
    const bs_router down = bs_loop_begin(g, n, roots, &(bs_loop_desc){.name = "down", .bound = bound, .grows = 1});
    const bs_value was = bs_loop_carry(g, down, n), parent = bs_loop_parent(g, down), child = bs_loop_child(g, down);
    const bs_value above = bs_reshape(g, bs_loop_rows(g, down, was, parent), BS_SHAPE1(1));
    const bs_value zero = bs_sub(g, parent, parent), made = bs_compare(g, parent, zero, BS_COMPARE_GREATER_EQUAL);
    const bs_value one = bs_compare(g, zero, zero, BS_COMPARE_EQUAL), less = bs_sub(g, bs_sub(g, above, child), one);
    const bs_value is = bs_where(g, made, less, was);
    const bs_value value = bs_loop_next(g, down, was, is), lengths = bs_loop_next(g, down, none, is),
                   by = bs_loop_next(g, down, none, parent), trip = bs_loop_trips(g, down);
    bs_loop_end(g, down, is);
    const bs_value flat = bs_reshape(g, bs_collect(g, lengths), BS_SHAPE1(GROWN_ROOM));
    const bs_value children = bs_children(g, flat, bs_input(g, "numbers", BS_I32, BS_SHAPE1(GROWN_ROOM)), 8);
    const bs_value level = bs_rows(g, bs_levels(g, children), n), of = bs_rows(g, children, n);
    const bs_router up = bs_loop_begin(g, n, level, &(bs_loop_desc){.name = "up", .bound = 8, .in_turn = 1});
    const bs_value size = bs_loop_carry(g, up, bs_constant(g, "nothing", BS_F32, BS_SHAPE1(1)));
    const bs_value below = bs_loop_rows(g, up, size, bs_scatter(g, up, 0, of));
    const bs_value sum = bs_reduce(g, below, &(bs_reduce_desc){.kind = BS_REDUCE_SUM});
    const bs_value end = bs_loop_next(g, up, size, bs_affine(g, bs_reshape(g, sum, BS_SHAPE1(1)), 1.0f, 1.0f));
    bs_loop_end(g, up, none);
    bs_output(g, "value", bs_collect(g, value));
    bs_output(g, "made by", bs_collect(g, by));
    bs_output(g, "trip", bs_collect(g, trip));
    bs_output(g, "size", bs_collect(g, end));
    return g;
}

typedef struct grown {
    int32_t n[GROWN_ROOM], roots[GROWN_ROOM], numbers[GROWN_ROOM], value[GROWN_ROOM], by[GROWN_ROOM], trip[GROWN_ROOM];
    float size[GROWN_ROOM];
} grown;

static inline void grown_bind(bs_session *s, grown *w, bs_error *error)
{
    bs_bind(s, "n", &(bs_buffer){w->n, BS_I32, 2, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "roots", &(bs_buffer){w->roots, BS_I32, 2, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "numbers", &(bs_buffer){w->numbers, BS_I32, 1, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "value", &(bs_buffer){w->value, BS_I32, 2, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "made by", &(bs_buffer){w->by, BS_I32, 2, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "trip", &(bs_buffer){w->trip, BS_I32, 2, {GROWN_ROOM, 1}, {0}}, error);
    bs_bind(s, "size", &(bs_buffer){w->size, BS_F32, 2, {GROWN_ROOM, 1}, {0}}, error);
}

/* Roots of these values grow. Returns how many rows there are in the end that are not as they should be. */
static inline int32_t grown_wrong(const grown *w, int32_t roots)
{
    int32_t wrong = 0, rows = roots;
    for (int32_t row = 0; row < rows; row++) /* breadth first, as they are made */
        for (int32_t c = 0; c < w->value[row]; c++, rows++)
            wrong += rows >= GROWN_ROOM || w->by[rows] != row || w->value[rows] != w->value[row] - 1 - c ||
                     w->trip[rows] != w->trip[row] + 1;
    for (int32_t row = 0; row < GROWN_ROOM; row++)
        wrong += row < rows ? w->size[row] != (float)(1 << w->value[row])
                            : w->by[row] != 0 || w->trip[row] != 0 || w->value[row] != w->n[row];
    return wrong;
}

#endif
