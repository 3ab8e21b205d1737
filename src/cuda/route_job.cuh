/* route_job.cuh - what a block needs to make a decision: the parameters of a router's step, tables of paths in
 * shared memory or among the decision's own, choices, sums over the threads.
 * Relies on program.cuh and describe.cuh. Must never write beyond a decision's rows. */
#ifndef BS_CUDA_ROUTE_JOB
#define BS_CUDA_ROUTE_JOB

#include "cuda/kernels.cuh"
#include "cuda/describe.cuh"
#include "cuda/program.cuh"

extern "C" {
#include "ops/price.h"
}

enum {
    BS_CU_ROUTE_PATHS = 1024 /* with more, tables do not fit in shared memory, and one block does everything */
};

/* Parameters of a step of a router, in p: a bs_rule, then what only a device needs. */
enum {
    BS_CU_P_KNOB = sizeof(bs_rule) / 4,
    BS_CU_P_FORCED,   /* path + 1 */
    BS_CU_P_LARGE,
    BS_CU_P_PATHS_AT, /* BUDGET: bytes from the table of costs to that of paths */
    BS_CU_P_SIZE,     /* BUDGET: size of the patches whose areas are weights; 0: none */
    BS_CU_P_HEIGHT,   /* of their frame: dimensions */
    BS_CU_P_FRAME_WIDTH,
    BS_CU_P_COUNT
};

static_assert(BS_CU_P_COUNT <= BS_DEVICE_PARAMS && sizeof(bs_rule) % 4 == 0, "p holds the parameters of a router");

__device__ __forceinline__ const bs_rule *bs_cu_rule(const bs_device_step *s)
{
    return reinterpret_cast<const bs_rule *>(s->p);
}

/* At the beginning of the workspace. Tables of paths follow if they fit, then what is staged or sorted. */
struct bs_cu_routing {
    uint64_t sums[8];       /* of each warp */
    int32_t of_thread[256];
};

/* What a block needs to make a decision. */
struct bs_cu_router {
    const bs_cu_tile *t;
    const bs_device_step *s;
    bs_cu_decision d;
    const bs_device_operand *score;
    bs_cu_routing *shared;
    int32_t *counts, *offsets; /* [paths], [paths + 1] */
    /* [paths] where the next row of a path goes; with a capacity: how many rows it has kept */
    int32_t *next;
    uint32_t *stage;
    int32_t stage_words;
    int32_t rows;
    float knob;
};

__device__ inline bs_cu_router bs_cu_router_of(const bs_cu_tile &t, const bs_device_step *s)
{
    const bs_device_decision &d = t.record->decision;
    const int32_t table_words = (3 * d.paths + 4) & ~3, words = (BS_CU_WORKSPACE - (int32_t)sizeof(bs_cu_routing)) / 4;
    const bool fits = d.paths <= BS_CU_ROUTE_PATHS;
    bs_cu_router r;
    r.t = &t;
    r.s = s;
    r.d = bs_cu_decision_of(t);
    r.score = bs_cu_in(t, s, 0);
    r.shared = reinterpret_cast<bs_cu_routing *>(t.workspace);
    r.stage = reinterpret_cast<uint32_t *>(r.shared + 1) + (fits ? table_words : 0);
    r.stage_words = words - (fits ? table_words : 0);
    r.counts = fits ? reinterpret_cast<int32_t *>(r.shared + 1) : r.d.work + 2 * (int64_t)d.rows * d.per_row;
    r.next = r.counts + d.paths;
    r.offsets = r.next + d.paths;
    r.rows = min(bs_cu_count(t, s), d.rows);
    r.knob = 0.0f;
    if (s->p[BS_CU_P_KNOB].i) {
        const bs_device_operand *knob = bs_cu_in(t, s, 1);
        r.knob = bs_cu_get(bs_cu_row(t, knob, 0), knob->dtype, 0);
    }
    return r;
}

__device__ __forceinline__ bs_choices bs_cu_choices(const bs_cu_router &r, int32_t row)
{
    const int64_t at = (int64_t)row * r.d.per_row;
    const bs_choices choices = {r.d.chosen + at, r.d.gates + at, r.d.per_row};
    return choices;
}

/* After a failure: no row has a path. */
__device__ inline void bs_cu_choose_none(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first + bs_cu_thread(); at < last; at += bs_cu_threads()) {
        r.d.chosen[at] = -1;
        r.d.gates[at] = 0.0f;
    }
}

#endif
