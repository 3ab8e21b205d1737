/* coverage.h - what the frozen graphs have: ops, features, and pairs of features.
 *
 * Relies on generate.h. */
#ifndef BS_FROZEN_COVERAGE_H
#define BS_FROZEN_COVERAGE_H

#include "frozen/generate.h"

static const char *const fz_feature_names[] = {
#define FZ_FEATURE_NAME(name) #name,
    FZ_FEATURES(FZ_FEATURE_NAME)
#undef FZ_FEATURE_NAME
};

typedef struct fz_coverage {
    const char *ops[128];
    char names[128][24];
    int32_t n_ops, graphs_with[128], graphs, status[16];
    int32_t pairs[FZ_FEATURE_COUNT][FZ_FEATURE_COUNT];
} fz_coverage;

static fz_coverage fz_covered;

static inline int32_t fz_op_number(const char *name)
{
    fz_coverage *c = &fz_covered;
    for (int32_t i = 0; i < c->n_ops; i++)
        if (strcmp(c->names[i], name) == 0)
            return i;
    snprintf(c->names[c->n_ops], sizeof c->names[0], "%s", name);
    return c->n_ops++;
}

/* first: how the first of its runs that failed did. */
static inline void fz_cover(const fz *z, bs_status first)
{
    bool seen[128] = {false};
    bs_node_facts f;
    fz_coverage *c = &fz_covered;
    for (int32_t n = 1; bs_graph_node_get(z->g, n, &f) == BS_OK; n++) {
        const int32_t op = fz_op_number(f.op);
        c->graphs_with[op] += !seen[op];
        seen[op] = true;
    }
    for (int32_t i = 0; i < FZ_FEATURE_COUNT; i++)
        for (int32_t k = 0; k < FZ_FEATURE_COUNT; k++)
            c->pairs[i][k] += z->has[i] && z->has[k];
    c->status[-first]++;
    c->graphs++;
}

/* Features that a rebuild could get wrong together. */
static const fz_feature fz_wanted_pairs[][2] = {{FZ_ROOT_LOOP_FEATURE, FZ_ROWS_BEFORE_LOOP_FEATURE},
                                                {FZ_ROOT_LOOP_FEATURE, FZ_IMAGE_BEFORE_LOOP_FEATURE},
                                                {FZ_ROOT_LOOP_FEATURE, FZ_HEAVY_FEATURE},
                                                {FZ_ROOT_LOOP_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_ROWS_LOOP_FEATURE, FZ_ROUTER_FEATURE},
                                                {FZ_PATCH_LOOP_FEATURE, FZ_ROUTER_FEATURE},
                                                {FZ_SEGMENT_LOOP_FEATURE, FZ_SEGMENTS_FEATURE},
                                                {FZ_PATH_LOOP_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_LOOP_IN_LOOP_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_ROUTER_IN_LOOP_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_ROUTER_IN_ROUTER_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_ROUTER_IN_ROUTER_FEATURE, FZ_PATCHES_FEATURE},
                                                {FZ_PATCHES_FEATURE, FZ_WINOGRAD_FEATURE},
                                                {FZ_PATCHES_FEATURE, FZ_RUNS_FEATURE},
                                                {FZ_PATCHES_FEATURE, FZ_SYMBOLS_FEATURE},
                                                {FZ_SEGMENTS_FEATURE, FZ_ROUTER_FEATURE},
                                                {FZ_DATA_EXTENT_FEATURE, FZ_RUNS_FEATURE},
                                                {FZ_STATE_FEATURE, FZ_RUNS_FEATURE},
                                                {FZ_SHARED_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_HALF_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_ROUTER_FEATURE, FZ_STEPS_FEATURE},
                                                {FZ_ROUTER_FEATURE, FZ_NAN_FEATURE},
                                                {FZ_COUNTED_FEATURE, FZ_NO_LIFT_FEATURE},
                                                {FZ_OVER_FEATURE, FZ_SYMBOLS_FEATURE},
                                                {FZ_LOOK_AHEAD_FEATURE, FZ_PHASES_FEATURE},
                                                {FZ_WINOGRAD_FEATURE, FZ_TINY_FEATURE}};

enum { FZ_WANTED_PAIRS = (int)(sizeof fz_wanted_pairs / sizeof fz_wanted_pairs[0]) };

/* Ops and features in so many graphs at least, and these pairs in some. */
static inline void fz_check_covered(bool verbose)
{
    const fz_coverage *c = &fz_covered;
    int32_t fewest = c->graphs, rarest = c->graphs, fewest_pair = c->graphs;
    for (int32_t i = 0; i < c->n_ops; i++) {
        fewest = c->graphs_with[i] < fewest ? c->graphs_with[i] : fewest;
        if (verbose)
            printf("op %-20s %5d\n", c->names[i], c->graphs_with[i]);
    }
    for (int32_t i = 0; i < FZ_FEATURE_COUNT; i++) {
        rarest = c->pairs[i][i] < rarest ? c->pairs[i][i] : rarest;
        if (verbose)
            printf("feature %-20s %5d\n", fz_feature_names[i], c->pairs[i][i]);
    }
    for (int32_t i = 0; i < FZ_WANTED_PAIRS; i++) {
        const int32_t n = c->pairs[fz_wanted_pairs[i][0]][fz_wanted_pairs[i][1]];
        fewest_pair = n < fewest_pair ? n : fewest_pair;
        if (verbose)
            printf("pair %s with %s %d\n", fz_feature_names[fz_wanted_pairs[i][0]],
                   fz_feature_names[fz_wanted_pairs[i][1]], n);
    }
    for (int32_t i = 0; i < 16 && verbose; i++)
        if (c->status[i])
            printf("status %d: %d graphs\n", -i, c->status[i]);
    check(c->n_ops >= 76, "%d ops, each in %d graphs or more", c->n_ops, fewest);
    check(fewest >= 20, "the rarest op is in %d graphs", fewest);
    check(rarest >= 10, "the rarest feature is in %d graphs", rarest);
    check(fewest_pair >= 5, "the rarest pair of features is in %d graphs", fewest_pair);
}

#endif
