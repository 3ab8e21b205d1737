/* arenas.h: memory for arenas, each as large as the library asks for.
 *
 * Owns: the blocks from malloc behind them. Relies on: brainstorm.h. Must never: guess a size.
 *
 *     arenas all = {0};
 *     bs_arena index, graph, plan;
 *     arenas_lend(&all, &index, "index", bs_model_file_bytes(...), &error)    then bs_model_open_file
 *     arenas_lend(&all, &graph, "graph", bs_graph_bytes(&room), &error)       then bs_graph_create, bs_model_build
 *     arenas_lend(&all, &plan, "plan", bs_plan_bytes(g, &desc), &error)       then bs_plan_create, bs_plan_sizes
 *     arenas_lend_session(&all, &memory, &sizes, &error)                      then bs_session_create
 *     ... bs_session_close, bs_model_close, arenas_free(&all)
 */
#ifndef ARENAS_H
#define ARENAS_H

#include "brainstorm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENAS_MOST = 12 };

typedef struct arenas_block {
    uint8_t *base;
    size_t bytes;
} arenas_block;

typedef struct arenas {
    arenas_block blocks[ARENAS_MOST];
    int count;
    uint64_t bytes; /* of all */
    bool painted;   /* set before the first is lent: arenas_touched will be asked */
} arenas;

/* name: as in bs_arena_init. False: error says that there is not enough memory. */
bool arenas_lend(arenas *a, bs_arena *arena, const char *name, uint64_t bytes, bs_error *error);
/* The four of a session. */
bool arenas_lend_session(arenas *a, bs_memory *memory, const bs_sizes *sizes, bs_error *error);
/* Bytes that were written to, in lines of BS_ALIGNMENT: what the paint no longer covers. What a call needed for itself
 * behind what it made (a planner's tables) is free for others when it returns: arenas_paint_rest leaves it out. */
uint64_t arenas_touched(const arenas *a);
void arenas_paint_rest(const arenas *a, const bs_arena *arena);
/* After whatever lies in them. Arenas of zeros are fine. */
void arenas_free(arenas *a);

#endif
