/* together.cuh - a loop at top level as one launch: as many blocks as a GPU holds at a time go through the launches of
 * its body together, and meet after each of them, trip after trip. Where trips are many and short that is less than
 * launching them.
 *
 * Relies on capture.cuh and launch.cuh. Must never let blocks part: what one of them decides by is the same for all of
 * them at that moment, or one waits at the gate for another that has left. */
#ifndef BS_CUDA_TOGETHER
#define BS_CUDA_TOGETHER

#include "cuda/capture.cuh"

/* ----------------------------------------------------------------------------------------------- on the device */

/* In the status, from BS_DEVICE_GATE on: blocks that have come, how often the gate has opened, and whether the run had
 * failed when it did. */
enum { BS_CU_GATE_COME, BS_CU_GATE_TURN, BS_CU_GATE_FAILED };

/* The last block to come opens the gate. */
__device__ inline void bs_cu_pass_gate(const bs_cu_program &program)
{
    int32_t *gate = program.status + BS_DEVICE_GATE;
    const int32_t turn = BS_CU_PEEK(&gate[BS_CU_GATE_TURN]);
    __threadfence(); /* what this block wrote, before it is counted */
    if (atomicAdd(&gate[BS_CU_GATE_COME], 1) == (int32_t)gridDim.x - 1) {
        atomicExch(&gate[BS_CU_GATE_COME], 0);
        atomicExch(&gate[BS_CU_GATE_FAILED], (int32_t)bs_cu_has_failed(program));
        __threadfence();
        atomicAdd(&gate[BS_CU_GATE_TURN], 1);
    }
    while (BS_CU_PEEK(&gate[BS_CU_GATE_TURN]) == turn)
        BS_CU_PAUSE();
    __threadfence(); /* what the others wrote, after it */
}

/* All blocks of the grid have come, and see what the others wrote. Returns whether the run has failed: the same to all
 * blocks, though one of them may fail at this moment. */
__device__ inline bool bs_cu_meet(const bs_cu_program &program)
{
    __syncthreads();
    if (threadIdx.x == 0)
        bs_cu_pass_gate(program);
    __syncthreads();
    return BS_CU_PEEK(&program.status[BS_DEVICE_GATE + BS_CU_GATE_FAILED]) != 0;
}

/* This block's work items of a launch; where blocks see all rows, too, each item has one for itself. */
__device__ inline void bs_cu_share_launch(const bs_cu_tile &t, const bs_device_launch &l)
{
    for (int32_t item = (int32_t)blockIdx.x; item < l.items; item += (int32_t)gridDim.x) {
        const bs_device_step *s = t.program->steps + l.first;
        bs_cu_work w = {0, bs_cu_count(t, s->domain), item, l.items};
        if (!bs_cu_sees_all_rows(l.kernel)) {
            s = bs_cu_find_step(t, l.first, l.count, item, &w);
            if (!s)
                return;
        }
        if (bs_cu_sees_all_rows(l.kernel) || bs_cu_wants_kernel(t, s))
            bs_cu_dispatch(l.kernel, t, s, w);
        __syncthreads(); /* before the next item takes the workspace */
    }
}

/* Launches [begin, end): of a loop, from its first decision to its second, until no row makes another trip. */
__global__ void __launch_bounds__(256, 1)
    bs_cu_together(BS_CU_ARGUMENT bs_cu_program program, int32_t begin, int32_t end)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    const bs_cu_tile t = bs_cu_everything(&program, shared);
    bool failed = bs_cu_meet(program);
    for (int32_t k = begin; k < end && !failed; k++) {
        const bs_device_launch &l = program.launches[k];
        bs_cu_share_launch(t, l);
        failed = bs_cu_meet(program);
        if (l.round < 0 && BS_CU_PEEK(bs_cu_decision_of(t, program.steps[l.first].router).counts) > 0)
            k += l.round;
    }
}

/* ------------------------------------------------------------------------------------------------- on the host */

static const bs_device_step *bs_cu_step_of(const bs_device_session *s, const bs_device_launch *l)
{
    return bs_cu_table<bs_device_step>(s, s->layout.steps_at) + l->first;
}

static const bs_loop_info *bs_cu_loop_of(const bs_device_session *s, int32_t begin)
{
    return &s->client->graph->routers[bs_cu_step_of(s, &s->launches.list[begin])->router].loop;
}

/* Whether blocks can go through a launch together: it is one kernel over work items, which nobody outside waits for.
 * Behind a second decision there is a launch before the next one: a gate between reading how many rows go round and
 * writing it again. */
static bool bs_cu_can_share(const bs_device_launch *l)
{
    return bs_cu_is_kernel(l->kernel) && !l->callback && l->round != -1;
}

/* How many launches from number `at` on are a loop whose blocks go round it together; 0: they do not. */
static int32_t bs_cu_together_length(const bs_device_session *s, int32_t at)
{
    const int32_t again = at + s->launches.list[at].round;
    if (s->launch_mode != BS_LAUNCH_PERSISTENT || !s->device->together || again <= at)
        return 0;
    for (int32_t k = at; k <= again; k++)
        if (!bs_cu_can_share(&s->launches.list[k]))
            return 0;
    return again - at + 1;
}

/* No more blocks than find room at a time, one a multiprocessor: they wait for each other. */
static bs_status bs_cu_run_together(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    int32_t items = 1;
    for (int32_t k = at; k < at + count; k++)
        items = bs_max_i32(items, s->launches.list[k].items);
    BS_LAUNCH_TOGETHER(bs_cu_together, (unsigned)bs_min_i32(items, s->device->multiprocessors), (unsigned)s->threads,
                       BS_CU_WORKSPACE, s->stream, s->program, at, at + count);
    return bs_cu_launched(error);
}

#endif
