/* planning.c - what planning costs: `planning` prints milliseconds for networks of 1k to 64k nodes; `planning NET NODES
 * [ORDER]` plans one, whose instructions bench/planning.sh counts.
 * Relies on brainstorm.h and planning_nets.h only. */
#include "bench/planning_nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void arena_make(bs_arena *arena, const char *name, size_t bytes)
{
    bytes = (bytes + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT;
    bs_arena_init(arena, name, aligned_alloc(BS_ALIGNMENT, bytes), bytes);
}

/* Processor time of planning, in ms, or -1. */
static double plan_net(const planning_net *net, int32_t nodes, int32_t order, size_t *plan_bytes)
{
    const bs_graph_desc room = planning_room(nodes);
    const bs_plan_desc desc = {.order = order, .slot_bytes = net->slot_bytes};
    bs_arena graph, plan;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    arena_make(&graph, "graph", bs_graph_bytes(&room));
    bs_graph *g = bs_graph_create(&graph, &room);
    planning_build(g, net, nodes);
    *plan_bytes = bs_plan_bytes(g, &desc);
    arena_make(&plan, "plan", *plan_bytes);
    const clock_t begin = clock();
    const bool made = bs_plan_create(&plan, NULL, g, &desc, &error) != NULL;
    const double ms = (double)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
    if (!made)
        fprintf(stderr, "planning: %s\n", error.message);
    free(graph.base);
    free(plan.base);
    return made ? ms : -1;
}

static int print_all(void)
{
    size_t bytes = 0;
    printf("processor time of planning, ms\n%-10s", "nodes");
    for (int32_t nodes = 1024; nodes <= 65536; nodes *= 4)
        printf(" %8d", nodes);
    for (int32_t i = 0; i < PLANNING_NETS; i++) {
        printf("\n%-10s", planning_nets[i].name);
        for (int32_t nodes = 1024; nodes <= 65536; nodes *= 4) {
            const double ms = plan_net(&planning_nets[i], nodes, 0, &bytes);
            if (ms < 0)
                return 1;
            printf(" %8.1f", ms);
        }
    }
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    size_t bytes = 0;
    if (argc == 1)
        return print_all();
    for (int32_t i = 0; argc > 2 && i < PLANNING_NETS; i++)
        if (strcmp(argv[1], planning_nets[i].name) == 0 && atoi(argv[2]) >= 8) {
            const double ms = plan_net(&planning_nets[i], atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 0, &bytes);
            printf("%s of %d nodes: %.1f ms, a plan of %lld bytes\n", argv[1], atoi(argv[2]), ms, (long long)bytes);
            return ms < 0;
        }
    fprintf(stderr, "planning [chain|alive|two-paths|experts NODES [ORDER]]\n");
    return 2;
}
