/* preload.h: what the parts of the preload benchmark share (preload.c tells what it measures).
 *
 *   preload_nets.c, preload_moe.c   the networks: what is built, and what goes in at each run
 *   preload_arms.c                  sessions that take turns, their time, a profile of one of them
 *   preload_clock.c                 profiles and made-up traces on the scripted clock
 *   preload_print.c                 tables, legend, JSON
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#include "flat_file.h"
#include "throttle.h"

enum { PRELOAD_INPUTS = 4, PRELOAD_WARM = 64 };

/* Storage. bytes_per_second 0: the real disk, as it is. */
typedef struct preload_speed {
    const char *name;
    uint64_t bytes_per_second, latency_ns;
} preload_speed;

/* A network with weights to stream, and inputs for run 0, 1, 2, ... that depend on the number alone. */
typedef struct preload_net {
    char name[40];
    char model_path[512]; /* its weights come from a model; else from `file` */
    void *memory;         /* of the graph */
    bs_graph *graph;
    bs_model *model; /* that the graph was built from; NULL */
    flat_file file;
    int32_t n_inputs, n_outputs;
    const char *input_names[PRELOAD_INPUTS], *output_name;
    bs_buffer inputs[PRELOAD_INPUTS], output;
    void (*step)(struct preload_net *net, int32_t run);
    /* static order only: rows, so that computing takes as long as reading */
    bool tuned;
    int32_t rows, most_rows;
    uint64_t unit_bytes, chunk_bytes; /* of storage: of the typical unit, of one read of it */
    int32_t n_units;
    int32_t right_percent; /* of look-aheads */
} preload_net;

typedef enum preload_kind { ARM_RESIDENT, ARM_DEMAND, ARM_SPECULATIVE, ARMS } preload_kind;

typedef struct preload_clock {
    double demand_ms, speculative_ms, oracle_ms; /* of a run, on average, the cold start included */
    double told_ms; /* with guesses, were every look-ahead right: what more recall could gain */
    double hit_percent, stall_ms, demand_stall_ms, waste_percent, read_mb, demand_read_mb, oracle_mb;
    double policy_hits[BS_POLICY_COUNT]; /* per cent, on demand */
    double precision[BS_PREDICTOR_COUNT], recall[BS_PREDICTOR_COUNT]; /* per cent; -1: not asked */
    uint64_t hits, late, misses, paused;
} preload_clock;

typedef struct preload_result {
    char name[40];
    const char *speed;
    uint64_t bytes_per_second;
    double slot_percent; /* of prepared weights of all units */
    double slots_mb, staging_mb, all_mb;
    /* Wall time of a run: median of passes; and the median of ratios within a pass. */
    int32_t passes, runs; /* runs timed in a pass */
    double wall_ms[ARMS], low_ms[ARMS], high_ms[ARMS], speculative_over_demand, speculative_over_resident,
        demand_over_resident;
    bs_stream_stats stats[ARMS]; /* of the passes and what led to them */
    int32_t stats_runs;
    double recorded_hit_percent;
    bool direct, same_bytes, synthetic;
    preload_clock clock;
} preload_result;

typedef struct preload_options {
    const char *workload, *speed, *json;
    bool quick;
    double seconds; /* that a line of the table may take */
} preload_options;

/* ---------------------------------------------------------------------------------------------- preload_nets.c */

/* `paths` of `layers` square linear layers behind a router, twice in a row; look-ahead for the second is right in
 * right_percent of the runs. */
bool preload_routed(preload_net *net, int32_t width, int32_t rows, int32_t right_percent);
/* LiveSR: 88 cells of 3x32x32 through 10 subnets. */
bool preload_livesr(preload_net *net);
/* A chain of blocks. */
bool preload_chain(preload_net *net);
void preload_net_close(preload_net *net);
uint32_t preload_random(uint32_t seed); /* scrambles */

/* ----------------------------------------------------------------------------------------------- preload_moe.c */

#define PRELOAD_MOE_MODEL "models/moe_text.gguf"
#define PRELOAD_MOE_TEXT "README.md"
/* The model, if it is there: one token of each sequence a run. */
bool preload_moe_there(void);
bool preload_moe(preload_net *net, int32_t sequences);

/* ---------------------------------------------------------------------------------------------- preload_arms.c */

/* Measures all arms at this speed with slots of so many per cent of all units' bytes. */
bool preload_measure(preload_net *net, const preload_speed *speed, double slot_percent, const preload_options *options,
                     preload_result *result);
/* Bytes a second of the real disk at reads of net->chunk_bytes, as streaming reads them. */
uint64_t preload_disk_speed(const preload_net *net);

/* --------------------------------------------------------------------------------------------- preload_clock.c */

/* A profile's bytes, recorded on demand, replayed. */
bool preload_replay_profile(const uint8_t *profile, size_t bytes, const preload_speed *speed, uint64_t chunk_bytes,
                            preload_result *result);
/* All made-up traces at this speed; called for each. */
bool preload_synthetic(const preload_speed *speed, void (*report)(void *user, const preload_result *result),
                       void *user);

/* --------------------------------------------------------------------------------------------- preload_print.c */

void preload_print_head(bool synthetic);
void preload_print(const preload_result *result);
void preload_print_clock(const preload_result *result);
void preload_print_predictors(const preload_result *result);
void preload_print_legend(void);
void preload_json(FILE *file, const preload_result *result, bool first);

bool preload_complain(const char *what, const bs_error *error); /* false */

#endif
