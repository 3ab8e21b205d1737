/* planning_nets.h - networks of any size, for planning. See planning_nets.c. */
#ifndef PLANNING_NETS_H
#define PLANNING_NETS_H

#include "brainstorm.h"

typedef struct planning_net {
    const char *name;
    bs_value (*build)(bs_graph *g, bs_value x, int32_t nodes);
    uint64_t slot_bytes; /* > 0: its weights come and go */
} planning_net;

#define PLANNING_NETS 4
extern const planning_net planning_nets[PLANNING_NETS];

bs_graph_desc planning_room(int32_t nodes); /* of a graph for about so many */
void planning_build(bs_graph *g, const planning_net *net, int32_t nodes);

#endif
