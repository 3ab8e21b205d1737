/* sweep_small.h - graphs of a few nodes for what random graphs do not have: their plans are swept too. */
#ifndef SWEEP_SMALL_H
#define SWEEP_SMALL_H

#include "brainstorm.h"

/* A cache that is appended to, and what says how far it is. */
static void small_cache(bs_graph *graph)
{
    const bs_value lengths = bs_input(graph, "lengths", BS_I32, BS_SHAPE1(3)),
                   past = bs_input(graph, "past", BS_I32, BS_SHAPE1(3)),
                   cache = bs_state(graph, "cache", BS_F32, BS_SHAPE3(3, 8, 4));
    const bs_value x = bs_segments(graph, bs_input(graph, "x", BS_F32, BS_SHAPE2(BS_UPTO(9), 4)), lengths);
    bs_state_append(graph, cache, x, past);
    bs_output(graph, "seen", cache);
}

/* Scores that say ahead of time what a router will choose. */
static void small_guess(bs_graph *graph)
{
    static const bs_route_desc later = {.name = "later", .paths = 2};
    static const bs_linear_desc linear = {.name = "linear", .out = 2};
    const bs_value none = {0}, x = bs_rows(graph, bs_input(graph, "x", BS_F32, BS_SHAPE2(9, 2)), none);
    bs_look_ahead(graph, x, "later");
    const bs_router router = bs_route(graph, x, none, &later);
    bs_block_begin(graph, "some");
    const bs_value out[] = {bs_linear(graph, bs_scatter(graph, router, 0, x), &linear), none};
    bs_block_end(graph);
    bs_output(graph, "y", bs_collect(graph, bs_gather(graph, router, out, x, NULL)));
}

/* Scores that a device may keep in f16. */
static void small_halves(bs_graph *graph)
{
    static const bs_route_desc some = {.name = "some", .paths = 2};
    static const bs_linear_desc score = {.name = "score", .out = 2};
    const bs_value none = {0}, x = bs_rows(graph, bs_input(graph, "x", BS_F32, BS_SHAPE2(9, 4)), none);
    const bs_router router = bs_route(graph, bs_linear(graph, x, &score), none, &some);
    const bs_value out[] = {bs_affine(graph, bs_scatter(graph, router, 0, x), 2, 0), bs_scatter(graph, router, 1, x)};
    bs_output(graph, "y", bs_collect(graph, bs_gather(graph, router, out, none, NULL)));
}

/* Two values go round; of the first nobody reads what it is in the end. */
static inline void small_loop(bs_graph *g)
{
    const bs_value none = {0}, x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(6, 3)), none);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "l", .bound = 3});
    const bs_value a = bs_loop_carry(g, loop, x), b = bs_loop_carry(g, loop, x);
    bs_loop_next(g, loop, a, bs_affine(g, a, 1.0f, 1.0f));
    const bs_value end = bs_loop_next(g, loop, b, bs_add(g, a, b));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, end));
}

#endif
