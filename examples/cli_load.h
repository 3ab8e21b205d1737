/* cli_load.h: a model file as the commands of `brainstorm` need it: opened, built, planned.
 *
 * Owns: the memory behind it. Relies on: brainstorm.h, arenas.h, cli.h; stream_options.h for --slots.
 * Must never: read weights, or trust that they are there.
 *
 *     cli_loaded l = {0};
 *     cli_load_model(&l, path, &error) && cli_load_graph(&l, &build, NULL, &error) && cli_load_plan(&l, &desc, &stream,
 *         &error) ... cli_unload(&l)
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "arenas.h"
#include "brainstorm.h"
#include "stream_options.h"

typedef struct cli_loaded {
    arenas memory;
    bs_arena index, graph_memory, plan_memory;
    bs_model *model;
    bs_graph *graph;
    bs_plan *plan;
} cli_loaded;

/* platform: NULL, or one on which reading is slower. */
bool cli_load_model(cli_loaded *l, const char *path, const bs_platform *platform, bs_error *error);
/* Again, when it is built a second time with other extents: the first graph stays where it is, and is of no use any
 * more. more: nodes that will be added; each may have as many operands as a router has paths. */
bool cli_load_graph(cli_loaded *l, const bs_model_build_desc *desc, int32_t more, bs_error *error);
bool cli_load_plan(cli_loaded *l, bs_plan_desc *desc, const stream_options *stream, bs_error *error);
void cli_unload(cli_loaded *l);

#endif
