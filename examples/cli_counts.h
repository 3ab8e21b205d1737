/* cli_counts.h: how many cells each path of a router got in a decision, and what capacities would do.
 * Owns: counting. Relies on: brainstorm_replay.h, cli.h for growing. Must never: print. */
#ifndef CLI_COUNTS_H
#define CLI_COUNTS_H

#include "brainstorm_replay.h"
#include "cli.h"

enum { COUNTS_FACTORS = 5 };

/* A path: 99 of 100 decisions give it no more cells than p99, and none more than most. */
typedef struct counts_path {
    uint64_t p99, most;
} counts_path;

/* With at most `capacity` cells a path, `share` of all would be beyond it. */
typedef struct counts_capacity {
    double factor; /* times the mean; 0: the largest p99 of the paths */
    uint64_t capacity;
    double share;
} counts_capacity;

typedef struct counts_router {
    uint64_t decisions;
    double mean; /* cells a path and decision */
    counts_path *paths;
    counts_capacity at[COUNTS_FACTORS], proposed;
} counts_router;

/* Of `routers` routers, with so many paths. Reads all events; NULL: error says why. */
counts_router *cli_counts_read(bs_profile_reader *profile, int32_t routers, bs_error *error);
void cli_counts_free(counts_router *counts, int32_t routers);

#endif
