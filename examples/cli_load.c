/* cli_load.c: see cli_load.h. */
#include "cli_load.h"

#include "cli.h"

bool cli_load_model(cli_loaded *l, const char *path, const bs_platform *platform, bs_error *error)
{
    const size_t bytes = cli_add_model(path, error) ? bs_model_file_bytes(platform, path, error) : 0;
    if (bytes == 0 || !arenas_lend(&l->memory, &l->index, "model", bytes, error))
        return false;
    l->model = bs_model_open_file(&l->index, platform, path, error);
    return l->model != NULL;
}

bool cli_load_graph(cli_loaded *l, const bs_model_build_desc *desc, int32_t more, bs_error *error)
{
    bs_graph_desc room = bs_model_graph_desc(l->model);
    room.max_nodes += more;
    room.max_values += more;
    room.max_text_bytes += more * 256;
    room.max_operands += more > 0 ? 16 * more + 2 * BS_MAX_PATHS : 0;
    if (!arenas_lend(&l->memory, &l->graph_memory, "graph", bs_graph_bytes(&room), error))
        return false;
    l->graph = bs_graph_create(&l->graph_memory, &room);
    return bs_model_build(l->model, l->graph, desc, error) == BS_OK;
}

bool cli_load_plan(cli_loaded *l, bs_plan_desc *desc, const stream_options *stream, bs_error *error)
{
    if (!stream_options_plan(stream, l->graph, desc, error) ||
        !arenas_lend(&l->memory, &l->plan_memory, "plan", bs_plan_bytes(l->graph, desc), error))
        return false;
    l->plan = bs_plan_create(&l->plan_memory, NULL, l->graph, desc, error);
    return l->plan != NULL;
}

void cli_unload(cli_loaded *l)
{
    bs_model_close(l->model);
    arenas_free(&l->memory);
    l->model = NULL;
}
