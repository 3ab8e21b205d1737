/* cli_peek.h: any value of a graph as an output. Relies on: brainstorm.h. Owns: how rows become a tensor again. Must
 * never: change what else the graph gives. */
#ifndef CLI_PEEK_H
#define CLI_PEEK_H

#include "brainstorm.h"

enum { CLI_PEEK_NODES = 16 }; /* that one adds, at most */

/* node: the name of a node, or its number as `inspect` prints it; its first value is shown. Of a path rows that went
 * elsewhere are zeros. name: of the new output. False: error says why, and the graph is of no use. */
bool cli_peek(bs_graph *graph, const char *node, char name[BS_MAX_NAME], bs_error *error);

#endif
