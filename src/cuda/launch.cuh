/* launch.cuh - how steps run: one launch over the rows of all branches, or the steps of a part, tile by tile.
 *
 * A block takes the work item that has its number, and every gridDim-th one after it. How many there are follows from
 * extents and decisions, on the device. Grids are sized for the most there can be and surplus blocks return: a launch
 * is the same whatever was decided and however long the run is. Relies on step.cuh and ops.cuh. Must never let a count
 * on the device decide anything on the host. */
#ifndef BS_CUDA_LAUNCH
#define BS_CUDA_LAUNCH

#include "cuda/extents_made.cuh"
#include "cuda/step.cuh"

/* A step that was found: its number (-1: none), which operands it has, and its router. */
struct bs_cu_found {
    int32_t step, operands, n_in, n_out, router;
};

/* Finds the step, of `count` from `first` on, that work item number `item` belongs to, and its rows. Every warp does so
 * by itself: a lane reads a step, and what it has read is passed on. */
__device__ inline bs_cu_found bs_cu_find_step(const bs_cu_tile &t, int32_t first, int32_t count, int32_t item,
                                              bs_cu_work *w)
{
    const int32_t lane = bs_cu_thread_here() % 32;
    int32_t base = 0;
    do {
        const int32_t left = count - base; /* further lanes read the last step again; they are not asked */
        const bs_device_step *s = t.program->steps + first + base + min(lane, left - 1);
        const int32_t rows = bs_cu_count(t, s), batch = s->batch, parts = s->parts, operands = s->operands,
                      n_in = s->n_in, n_out = s->n_out, router = s->router;
        const uint32_t items = (uint32_t)((rows + batch - 1) / batch * parts);
        uint32_t until = items;
        for (int32_t d = 1; d < 32; d *= 2) {
            const uint32_t before = __shfl_up_sync(0xffffffffu, until, (unsigned)d);
            until += lane >= d ? before : 0;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, until > (uint32_t)item) &
                                (left < 32 ? (1u << left) - 1 : 0xffffffffu);
        if (beyond) {
            const int32_t k = __ffs((int)beyond) - 1, size = __shfl_sync(0xffffffffu, batch, k);
            item -= (int32_t)__shfl_sync(0xffffffffu, until - items, k);
            w->parts = __shfl_sync(0xffffffffu, parts, k);
            const int32_t number = w->parts == 1 ? item : item / w->parts;
            w->row = number * size;
            w->end = min(w->row + size, __shfl_sync(0xffffffffu, rows, k));
            w->part = item - number * w->parts;
            const bs_cu_found found = {first + base + k, __shfl_sync(0xffffffffu, operands, k),
                                       __shfl_sync(0xffffffffu, n_in, k), __shfl_sync(0xffffffffu, n_out, k),
                                       __shfl_sync(0xffffffffu, router, k)};
            return found;
        }
        item -= (int32_t)__shfl_sync(0xffffffffu, until, 31);
        base += 32;
    } while (base < count);
    const bs_cu_found none = {-1, 0, 0, 0, 0};
    return none;
}

/* Fills the record with a step and what belongs to it: every thread copies a word, all at the same time. The caller
 * synchronises. */
__device__ inline void bs_cu_take_record(const bs_cu_program &program, const bs_cu_found &f, bs_cu_record *record)
{
    const int32_t outs = BS_CU_RECORD_OUT, all = outs + BS_CU_RECORD_IN;
    for (int32_t i = bs_cu_thread_here(); i < (all + 2) * BS_CU_RECORD_WORDS; i += bs_cu_threads()) {
        const int32_t slot = i / BS_CU_RECORD_WORDS, word = i % BS_CU_RECORD_WORDS, in = slot - outs;
        const void *from = program.operands + f.operands + (in < 0 ? f.n_in + slot : in);
        void *to = record->out + slot;
        int32_t bytes = (in < 0 ? slot < f.n_out : in < f.n_in) ? (int32_t)sizeof(bs_device_operand) : 0;
        if (slot == all) {
            from = program.steps + f.step;
            to = &record->step;
            bytes = (int32_t)sizeof(bs_device_step);
        } else if (slot > all) {
            from = program.decision + f.router;
            to = &record->decision;
            bytes = (int32_t)sizeof(bs_device_decision);
        }
        if (word * 16 < bytes)
            static_cast<uint4 *>(to)[word] = static_cast<const uint4 *>(from)[word];
    }
}

/* A step that is known by its number. */
__device__ __forceinline__ bs_cu_found bs_cu_step_number(const bs_cu_program &program, int32_t number)
{
    const bs_device_step *s = program.steps + number;
    const bs_cu_found found = {number, s->operands, s->n_in, s->n_out, s->router};
    return found;
}

/* Where a block's record lies, in its shared memory. */
__device__ __forceinline__ bs_cu_record *bs_cu_record_in(uint8_t *shared)
{
    return reinterpret_cast<bs_cu_record *>(shared + BS_CU_WORKSPACE);
}

__device__ __forceinline__ bs_cu_tile bs_cu_everything(const bs_cu_program *p, uint8_t *workspace,
                                                       const bs_cu_record *record)
{
    bs_cu_tile t;
    t.program = p;
    t.record = record;
    t.context = t.scratch = NULL;
    t.workspace = workspace;
    t.domain = -1;
    t.first = t.rows = 0;
    return t;
}

/* Runs the kernel that the template names. KERNEL is a constant, so no switch is left in the code. */
template <int KERNEL>
__device__ __forceinline__ void bs_cu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    switch (KERNEL) {
#define BS_CU_CASE(name) \
    case BS_CU_##name: bs_cu_##name##_run(t, s, w); break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

/* The steps of all branches, a work item a block; or a step whose blocks see all of its rows. */
template <int KERNEL>
__global__ void __launch_bounds__(256, KERNEL <= BS_CU_LAST_LIGHT || KERNEL > BS_CU_LAST_HEAVY ? 2 : 1)
    bs_cu_group(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count, int32_t items)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    bs_cu_record *record = bs_cu_record_in(shared);
    bs_cu_tile t = bs_cu_everything(&program, shared, record);
    if (bs_cu_sees_all_rows(KERNEL)) {
        const bs_cu_work w = {0, bs_cu_count(t, program.steps + first), (int32_t)blockIdx.x, (int32_t)gridDim.x};
        bs_cu_take_record(program, bs_cu_step_number(program, first), record);
        __syncthreads();
        bs_cu_run<KERNEL>(t, &record->step, w);
        return;
    }
    const bool failed = bs_cu_has_failed(program); /* read together with what finds the step: neither waits */
    int32_t taken = -1;
    for (int32_t item = (int32_t)blockIdx.x; item < items; item += (int32_t)gridDim.x) {
        bs_cu_work w;
        const bs_cu_found found = bs_cu_find_step(t, first, count, item, &w);
        if (found.step < 0 || found.step != taken) {
            if (found.step >= 0)
                bs_cu_take_record(program, found, record);
            if (__syncthreads_or(failed || found.step < 0))
                return; /* before anything is read that a decision says the place of */
            taken = found.step;
        }
        if (bs_cu_wants_kernel(t, &record->step))
            bs_cu_run<KERNEL>(t, &record->step, w);
        __syncthreads(); /* before the next item takes the workspace */
    }
}

/* ------------------------------------------------------------------------------------------------- regions */

/* All threads of a block on rows of a tile: rows `first` .. `first + rows - 1` of `domain`. */
__device__ __forceinline__ bs_cu_tile bs_cu_tile_of(const bs_cu_program *p, uint8_t *shared, uint8_t *context,
                                                    uint8_t *scratch, int32_t domain, int32_t first, int32_t rows)
{
    bs_cu_tile t = bs_cu_everything(p, shared, bs_cu_record_in(shared));
    t.context = context;
    t.scratch = scratch;
    t.domain = domain;
    t.first = first;
    t.rows = rows;
    return t;
}

/* What makes a tile comes in registers, or lies in shared memory; a tile itself would come in memory. */
template <int KERNEL>
__device__ __noinline__ void bs_cu_call(uint8_t *context, uint8_t *scratch, int32_t domain, int32_t first, int32_t rows,
                                        int32_t row, int32_t end)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    const bs_cu_program *p = &bs_cu_record_in(shared)->program;
    const bs_cu_tile t = bs_cu_tile_of(p, shared, context, scratch, domain, first, rows);
    const bs_cu_work w = {row, end, 0, 1};
    bs_cu_run<KERNEL>(t, &t.record->step, w);
}

__device__ inline void bs_cu_dispatch(const bs_cu_tile &t, int32_t row, int32_t end)
{
    switch (t.record->step.kernel) {
#define BS_CU_CASE(name)                                                                     \
    case BS_CU_##name:                                                                       \
        bs_cu_call<BS_CU_##name>(t.context, t.scratch, t.domain, t.first, t.rows, row, end); \
        break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

/* Runs a step, which is in the record, on the rows of a tile. */
__device__ inline void bs_cu_tile_step(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t rows = bs_cu_count(t, s);
    if (bs_cu_sees_all_rows(s->kernel)) {
        bs_cu_dispatch(t, 0, rows);
        return;
    }
    for (int32_t row = 0; row < rows && bs_cu_wants_kernel(t, s); row += s->batch) {
        if (row > 0)
            __syncthreads(); /* before the next rows take the workspace */
        bs_cu_dispatch(t, row, min(row + s->batch, rows));
    }
}

/* What step k, which is in the record, leaves to the one after it; all threads are done with it then. Returns the step
 * after which the tile goes on: k itself, or the first decision of a loop that has rows after a trip. */
__device__ inline int32_t bs_cu_tile_after(const bs_cu_tile &t, const bs_device_step *s, int32_t k)
{
    const int32_t round = s->round, *counts = round < 0 ? bs_cu_decision_of(t).counts : NULL;
    __syncthreads();
    return counts && counts[0] > 0 ? k + round : k;
}

/* Finds the part that tile number `item` belongs to, and sets the tile's rows; 0: there are not so many tiles. */
__device__ inline bs_device_part bs_cu_find_part(const bs_cu_program &program, int32_t first, int32_t count,
                                                 int32_t item, bs_cu_tile *t)
{
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_part part = bs_cu_read_whole(program.parts + k);
        t->domain = -1;
        const int32_t rows = bs_cu_count(*t, part.domain, part.rows),
                      tiles = (rows + part.tile_rows - 1) / part.tile_rows;
        if (item < tiles) {
            t->domain = part.domain;
            t->first = item * part.tile_rows;
            t->rows = min(part.tile_rows, rows - t->first);
            return part;
        }
        item -= tiles;
    }
    t->rows = 0;
    const bs_device_part none = {{0, 0}, 0, 0, 0, 0};
    return none;
}

__global__ void __launch_bounds__(256, 1)
    bs_cu_region(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    bs_cu_record *record = bs_cu_record_in(shared);
    uint8_t *context = program.contexts + blockIdx.x * program.context_bytes;
    uint8_t *rows = program.scratch_bytes ? program.scratch + blockIdx.x * program.scratch_bytes
                                          : shared + BS_DEVICE_SHARED;
    bs_cu_tile t = bs_cu_tile_of(&program, shared, context, rows, -1, 0, 0);
    if (bs_cu_thread_here() == 0)
        record->program = program;
    for (int32_t item = (int32_t)blockIdx.x;; item += (int32_t)gridDim.x) {
        const bool failed = bs_cu_has_failed(program); /* read together with what finds the part */
        const bs_device_part part = bs_cu_find_part(program, first, count, item, &t);
        if (__syncthreads_or(failed || t.rows == 0))
            return;
        for (int32_t k = 0; k < part.count; k++) {
            bs_cu_take_record(program, bs_cu_step_number(program, part.first + k), record);
            __syncthreads();
            bs_cu_tile_step(t, &record->step);
            k = bs_cu_tile_after(t, &record->step, k);
        }
    }
}

/* Puts the extents and buffers of the run in place, and resets what a run adds to: the status, the counts, and which
 * cells were reached. */
__global__ void bs_cu_begin(BS_CU_ARGUMENT bs_cu_program program, int32_t routers)
{
    const int32_t at = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), step = (int32_t)(gridDim.x * blockDim.x);
    if (at < BS_DEVICE_STATUS)
        program.status[at] = 0;
    for (int32_t i = at; i < program.n_operands; i += step)
        bs_cu_extend_operand(program.dims, program.bound, &program.operands[i]);
    for (int32_t i = at; i < program.n_domains; i += step)
        bs_cu_extend_domain(program.dims, &program.domains[i]);
    for (int32_t i = at; i < program.n_dims; i += step)
        program.extents[i] = program.dims[i];
    for (int32_t r = 1; r < routers; r++) {
        const bs_device_decision &d = program.decision[r];
        if (!d.live)
            continue;
        for (int32_t i = at; i < d.paths; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.sums)[i] = 0;
        for (int32_t i = at; i < 2; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.dropped)[i] = 0;
        for (int32_t i = at; i < d.top_rows; i += step)
            reinterpret_cast<int16_t *>(program.decisions + d.top)[i] = -1;
    }
}

/* Whether a join has a row for each cell. Another thread may be putting the domain's count in place meanwhile. */
__device__ inline bool bs_cu_join_fits(const bs_cu_program &program, const bs_device_join &join)
{
    return program.extents[join.dim] >= bs_cu_domain_count(program.extents, &program.domains[join.domain]);
}

/* Puts what steps first .. first + count - 1 made in place, for the launches after this one. */
__global__ void bs_cu_extend(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count)
{
    const int32_t at = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), step = (int32_t)(gridDim.x * blockDim.x);
    const bs_cu_tile t = bs_cu_everything(&program, NULL, NULL);
    for (int32_t i = at; i < program.n_operands; i += step)
        bs_cu_extend_operand(program.extents, program.bound, &program.operands[i]);
    for (int32_t i = at; i < program.n_domains; i += step)
        bs_cu_extend_domain(program.extents, &program.domains[i]);
    for (int32_t i = at; i < program.n_joins * count; i += step) {
        const bs_device_join &join = program.joins[i / count];
        const bs_device_step *s = program.steps + first + i % count;
        if (s->makes && s->node == join.maker && !bs_cu_join_fits(program, join))
            bs_cu_fail(t, s, BS_ERROR_DATA);
    }
}

/* --------------------------------------------------------------------------------------------- the host's side */

static void bs_cu_launch_kernel(const bs_cu_program &p, const bs_device_launch &l, unsigned blocks, int threads,
                                cudaStream_t stream)
{
    switch (l.kernel) {
#define BS_CU_CASE(name)                                                                                      \
    case BS_CU_##name:                                                                                        \
        BS_LAUNCH((bs_cu_group<BS_CU_##name>), blocks, (unsigned)threads, BS_DEVICE_SHARED, stream, p, l.first, \
                  l.count, l.items);                                                                          \
        break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

#endif
