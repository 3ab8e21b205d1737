/* profile_facts.h: what a profile tells about the runs it recorded.
 * Owns: counting, correlations, simple caches. Relies on: brainstorm_replay.h, cli.h for growing. Must never: print. */
#ifndef PROFILE_FACTS_H
#define PROFILE_FACTS_H

#include "brainstorm_replay.h"
#include "cli.h"

enum { FACTS_PAIRS = 5, FACTS_BUDGETS = 20, FACTS_MOST_PATHS = 1 << 24, FACTS_MOST_PAIRS = 1 << 24 };

/* The mean, and what 95 of 100 stay within. */
typedef struct facts_spread {
    uint64_t count;
    double mean, p95, most;
} facts_spread;

/* Path `from` of a router and path `to` of the next, chosen in the same run. */
typedef struct facts_pair {
    int32_t from, to;
    uint64_t runs;
    double lift;   /* times as often as if they were independent */
    double weight; /* share of runs times log2 of lift: pairs are ranked by it */
} facts_pair;

typedef struct facts_router {
    bs_profile_router_facts facts;
    uint64_t *cells, all_cells; /* [paths] */
    uint64_t *runs;             /* [paths] in which the path was chosen */
    double entropy;              /* of cells, 1: all paths alike */
    uint32_t *joint;             /* [paths][paths of the next] runs; NULL for the last, and where there are too many */
    facts_pair pairs[FACTS_PAIRS];
    int32_t n_pairs;
    int32_t *chosen; /* [n_chosen] in this run */
    uint64_t *chosen_in; /* [paths] the last run that chose it, from 1 */
    int32_t n_chosen;
} facts_router;

typedef struct facts_budget {
    uint64_t bytes;
    int32_t percent;
    bool fits;          /* the largest unit, at least: else nothing runs, and the rest is 0 */
    double belady, lru; /* share of uses that hit */
} facts_budget;

typedef struct profile_facts {
    bs_profile_facts file;
    bs_trace trace;
    uint64_t runs, run_ns, uses[3], reads, bytes_read, read_ns, prepare_ns, stall_ns;
    uint64_t loads, guessed_loads, evictions, dropped_loads, lost;
    facts_router *routers;
    facts_spread units_a_run, bytes_a_run;
    facts_spread *units_a_visit; /* [phases] */
    bs_prediction look_ahead;
    facts_budget budgets[FACTS_BUDGETS];
    int32_t knee;       /* of budgets; -1 none */
    uint64_t all_bytes; /* of all units, prepared */
} profile_facts;

bool profile_facts_read(profile_facts *facts, cli_file *file, bs_error *error);
void profile_facts_free(profile_facts *facts);

#endif
