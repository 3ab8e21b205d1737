/* model_check.h: whether a routed model is what video_sr binds, forces, counts and draws (examples/video/README.md).
 *
 * Owns: what is asked of its ports and routers. Relies on: brainstorm.h, upscaler.h (how many routes and exits).
 * Must never: leave to the frames what can be known when the model is opened: what counts decisions, and what draws
 * them, looks at nothing again.
 */
#ifndef MODEL_CHECK_H
#define MODEL_CHECK_H

#include "brainstorm.h"

#include <stdbool.h>

extern const char *const model_exits[]; /* names of the routers of exits */

/* The graph, built for frames of these extents. False: error says what it lacks, by name. patch_size (may be NULL): of
 * the patches that "route" decides on. */
bool model_check_graph(const bs_graph *graph, int bits, int height, int width, int *patch_size, bs_error *error);
/* The floor of "route", in losses of its tables (0: none), if it is a router with a budget; else -1. */
int model_floor(const bs_graph *graph);
/* After the first run, of which nothing has been used yet: "route" decides on as many cells as the frame has tiles. */
bool model_check_cells(const bs_session *session, int tiles, bs_error *error);

#endif
