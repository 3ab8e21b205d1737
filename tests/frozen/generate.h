/* generate.h - the frozen graph of a seed.
 *
 * Relies on refusals.h. Must never change: the tables of hashes are of these graphs. */
#ifndef BS_FROZEN_GENERATE_H
#define BS_FROZEN_GENERATE_H

#include "frozen/refusals.h"
#include "frozen/run.h"

static fz fz_the_graph;

static inline fz_flavour fz_some_flavour(void)
{
    const int32_t what = check_below(100);
    return what < 60   ? FZ_FRACTIONS
           : what < 78 ? FZ_STEPS
           : what < 84 ? FZ_TINY
           : what < 87 ? FZ_HUGE
           : what < 94 ? FZ_INFINITE
                       : FZ_NAN;
}

static inline void fz_flavour_feature(fz *z)
{
    static const fz_feature of[] = {FZ_FEATURE_COUNT, FZ_STEPS_FEATURE,    FZ_TINY_FEATURE,
                                    FZ_HUGE_FEATURE,  FZ_INFINITE_FEATURE, FZ_NAN_FEATURE};
    if (z->flavour != FZ_FRACTIONS)
        fz_has(z, of[z->flavour]);
}

static inline int64_t fz_some_budget(void)
{
    const int32_t what = check_below(100);
    return what < 50 ? 900000 : what < 80 ? 2500000 : what < 95 ? 6000000 : 14000000;
}

/* What the plan of every variant has: it changes results. */
static inline void fz_choose_plan(fz *z)
{
    static const int32_t sizes[] = {12, 24, 32, 40};
    int32_t r = z->n_routers ? check_below(z->n_routers) : 0;
    z->plan.conv = fz_chance(88) ? BS_CONV_AUTO : fz_between(BS_CONV_FORCE_DIRECT, BS_CONV_FORCE_WINOGRAD);
    if (z->has[FZ_PATCHES_FEATURE] && fz_chance(8))
        z->plan.patch_size = sizes[check_below(4)], fz_has(z, FZ_RESIZED_FEATURE);
    if (z->n_routers && !z->routers[r].loop && fz_chance(10)) {
        z->plan.n_forces = 1;
        z->plan.forces[0] = (bs_force){z->routers[r].name, check_below(z->routers[r].desc.paths)};
        fz_has(z, FZ_FORCED_FEATURE);
    }
}

/* In some graphs one input or two are out of their range in the second run. */
static inline void fz_choose_faults(fz *z)
{
    int32_t wanted = fz_chance(25) ? 1 + fz_chance(40) : 0, found = 0;
    for (int32_t i = 0; i < z->n_inputs && found < wanted; i++) {
        const fz_fill fill = z->inputs[i].fill;
        if (fill != FZ_FILL_BELOW && fill != FZ_FILL_CACHED && fill != FZ_FILL_LENGTHS)
            continue;
        if (fill == FZ_FILL_LENGTHS && !fz_chance(30))
            continue;
        z->faults |= 1 << i;
        found++;
    }
    if (found && z->runs < 2)
        z->runs = 2;
    if (found)
        fz_has(z, found > 1 ? FZ_FAILS_TWICE_FEATURE : FZ_FAILS_FEATURE);
}

/* Two tables that are both read out of range. */
static inline void fz_lookups(fz *z)
{
    for (int32_t i = 0; i < 2 && !z->failed; i++)
        fz_world_lookup(z);
}

static inline fz *fz_generate(int32_t seed, bool verbose)
{
    fz *z = &fz_the_graph;
    bs_arena arena;
    const bs_graph_desc room = {.max_nodes = 2048, .max_values = 3000, .max_text_bytes = 1 << 18};
    memset(z, 0, sizeof *z);
    fz_dice((uint32_t)seed, 7);
    z->seed = seed, z->verbose = verbose, z->flavour = fz_some_flavour(), z->budget = fz_some_budget();
    z->n_domains = 1;
    z->loops = fz_chance(45) ? 0 : fz_between(4, 18);
    z->routers_often = fz_chance(35) ? 0 : fz_between(6, 24);
    bs_arena_init(&arena, "graph", fz_graph_bytes, sizeof fz_graph_bytes);
    z->g = bs_graph_create(&arena, &room);
    fz_flavour_feature(z);
    z->runs = fz_chance(50) ? 1 : fz_between(2, FZ_RUNS);
    if (fz_chance(6))
        fz_lookups(z);
    fz_build(z);
    if (z->n_states && z->runs < 2)
        z->runs = 2;
    fz_choose_faults(z);
    fz_choose_plan(z);
    if (z->runs > 1)
        fz_has(z, FZ_RUNS_FEATURE);
    const int32_t what = check_below(100);
    if (what < 5 && !z->failed)
        fz_refuse(z);
    else if (what < 8 && !z->failed)
        fz_spoil(z);
    fz_lay_out(z, fz_records);
    fz_say(z, "seed %d: %d runs, conv %d, patch size %d, faults %x, flavour %d, cost %lld", seed, z->runs, z->plan.conv,
           z->plan.patch_size, (unsigned)z->faults, (int)z->flavour, (long long)z->cost);
    return z;
}

#endif
