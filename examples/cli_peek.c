/* cli_peek.c: see cli_peek.h. */
#include "cli_peek.h"

#include "cli.h"
#include "plan_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first of that name; 0: there is none. */
static int32_t find_node(const bs_graph *graph, const char *node)
{
    bs_node_facts facts;
    int32_t number;
    if (plan_word_i32(node, 1, INT32_MAX, &number))
        return bs_graph_node_get(graph, number, &facts) == BS_OK ? number : 0;
    for (int32_t i = 1; bs_graph_node_get(graph, i, &facts) == BS_OK; i++)
        if (strcmp(facts.name, node) == 0 && facts.values > 0)
            return i;
    return 0;
}

static void last_node(const bs_graph *graph, bs_node_facts *facts)
{
    for (int32_t i = 1; bs_graph_node_get(graph, i, facts) == BS_OK; i++)
        continue;
}

/* Rows of a path come back to those that were routed; f32 is added, so that paths may be several a row. */
static bool leave_path(bs_graph *graph, bs_node_facts *facts)
{
    bs_value *values = calloc((size_t)facts->paths, sizeof *values);
    const bs_gather_desc desc = {.mode = facts->dtype == BS_F32 ? BS_GATHER_ADD : BS_GATHER_PLACE};
    if (!values)
        return false;
    values[facts->path] = facts->value;
    bs_gather(graph, facts->router, values, BS_NONE, &desc);
    free(values);
    last_node(graph, facts);
    return true;
}

bool cli_peek(bs_graph *graph, const char *node, char name[BS_MAX_NAME], bs_error *error)
{
    bs_node_facts facts;
    const int32_t number = find_node(graph, node);
    if (number == 0)
        return cli_say(error, BS_ERROR_ARGUMENT, "there is no node of that name or number (see `brainstorm inspect`)",
                       node);
    bs_graph_node_get(graph, number, &facts);
    if (facts.values == 0)
        return cli_say(error, BS_ERROR_ARGUMENT, "it gives no value", node);
    while (facts.router.id && bs_graph_check(graph, error) == BS_OK)
        if (!leave_path(graph, &facts))
            return cli_say(error, BS_ERROR_ARENA, "no memory", node);
    bs_value shown = facts.value;
    if (facts.kind == BS_ROWS_PATCHES && facts.rank == 3)
        shown = bs_assemble(graph, shown);
    else if (facts.kind != BS_ROWS_ROOT)
        shown = bs_collect(graph, shown);
    snprintf(name, BS_MAX_NAME, "peek:%s", node);
    bs_output(graph, name, shown);
    bs_error why = {0};
    return bs_graph_check(graph, &why) == BS_OK || cli_say(error, why.status, why.message, node);
}
