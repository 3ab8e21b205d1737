/* cli_stream.c: what `brainstorm plan --slots` tells of streaming: units, phases, sizes.
 * Owns: the tables. Relies on: cli.h. Must never: need weights. */
#include "cli.h"

#include <stdlib.h>

static void print_units(const bs_plan *plan, const bs_stream_plan *stream)
{
    bs_stream_unit_facts unit;
    printf("\nunits (what is loaded at once)\n");
    for (int32_t u = 0; u < stream->units && bs_plan_unit_get(plan, u, &unit) == BS_OK; u++) {
        printf("%4d  %-28s %11llu bytes", (int)u, unit.name, (unsigned long long)unit.slot_bytes);
        if (unit.router)
            printf("   path %d of router %d\n", (int)unit.path, (int)unit.router);
        else
            printf("   every run\n");
    }
}

static bool print_phases(const bs_plan *plan, const bs_stream_plan *stream)
{
    bs_stream_phase_facts phase;
    int32_t *units = malloc((size_t)(stream->units + 1) * sizeof *units);
    if (!units)
        return false;
    printf("\nstages (in the order of a run)\n");
    for (int32_t s = 0; s < stream->phases && bs_plan_phase_get(plan, s, &phase, NULL) == BS_OK; s++) {
        if (phase.router)
            printf("%4d  what router %d chose of units", (int)s, (int)phase.router);
        else
            printf("%4d  always units", (int)s);
        if (phase.n_units <= stream->units)
            bs_plan_phase_get(plan, s, &phase, units);
        for (int32_t k = 0; phase.n_units <= stream->units && k < phase.n_units; k++)
            printf(" %d", (int)units[k]);
        printf("\n");
    }
    free(units);
    return true;
}

int cli_stream(const bs_plan *plan)
{
    bs_stream_plan stream;
    bs_plan_stream_get(plan, &stream);
    if (stream.slot_bytes == 0) {
        printf("\nstreaming: nothing can be; no block that is left in the plan has weights\n");
        return EXIT_SUCCESS;
    }
    printf("\nstreaming: slots of %llu bytes, %.1f %% of all weights of blocks (%llu); the least is %llu\n",
           (unsigned long long)stream.slot_bytes, 100.0 * (double)stream.slot_bytes / (double)stream.all_bytes,
           (unsigned long long)stream.all_bytes, (unsigned long long)stream.least_bytes);
    print_units(plan, &stream);
    if (print_phases(plan, &stream))
        return EXIT_SUCCESS;
    return cli_fail(&(bs_error){.message = "no memory to list phases"});
}
