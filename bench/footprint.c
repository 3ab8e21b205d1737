/* footprint.c - bytes that graph, plan and session of a model file take without weights and states:
 *
 *     footprint FILE...
 *
 * Owns: nothing. Relies on: the library's insides, for the states. Must never be needed by anything else. */
#include "brainstorm.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 1 << 24 };

static uint64_t states_of(const bs_plan *p)
{
    bs_bytes all = bs_bytes_of(0);
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        if (p->node_live[n] && bs_node_is_state(&p->graph->nodes[n]))
            bs_bytes_put(&all, bs_value_bytes(p->graph, &p->graph->values[p->graph->nodes[n].first_out]));
    return bs_bytes_figure(all);
}

static bool report(const char *file)
{
    static BS_ALIGNED uint8_t of_model[ROOM], of_graph[ROOM], of_plan[ROOM];
    bs_error error = {0};
    bs_arena model_arena, scratch, arena;
    bs_arena_init(&model_arena, "model", of_model, sizeof of_model);
    bs_arena_init(&scratch, "scratch", of_graph, sizeof of_graph);
    bs_arena_init(&arena, "plan", of_plan, sizeof of_plan);
    bs_model *model = bs_model_open_file(&model_arena, NULL, file, &error);
    const bs_graph_desc room = model ? bs_model_graph_desc(model) : (bs_graph_desc){0};
    bs_graph *g = model ? bs_graph_create(&scratch, &room) : NULL;
    const bs_plan_desc desc = {.threads = 1};
    const bs_plan *plan = g && bs_model_build(model, g, NULL, &error) == BS_OK
                              ? bs_plan_create(&arena, &scratch, g, &desc, &error)
                              : NULL;
    if (plan) {
        bs_sizes sizes;
        bs_plan_sizes(plan, &sizes);
        const uint64_t session = sizes.persistent - sizes.weights - states_of(plan);
        printf("%-40s %10llu graph and plan %10llu session %10llu together\n", file, (unsigned long long)arena.used,
               (unsigned long long)session, (unsigned long long)(arena.used + session));
    } else {
        fprintf(stderr, "%s: %s\n", file, error.message);
    }
    bs_model_close(model);
    return plan != NULL;
}

int main(int count, char **words)
{
    bool all = count > 1;
    for (int i = 1; i < count; i++)
        all = report(words[i]) && all;
    return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
