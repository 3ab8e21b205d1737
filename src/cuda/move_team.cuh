/* move_team.cuh - how moves are divided: large rows into work items, small rows among *teams*. A team works on one
 * row: the whole block, or only as many threads as the row's bytes keep busy.
 * Relies on describe.cuh. Must never decide anything. */
#ifndef BS_CUDA_MOVE_TEAM
#define BS_CUDA_MOVE_TEAM

#include "cuda/describe.cuh"

enum {
    /* of a work item: four words of 16 bytes a thread, all in flight; down to one where there is little to do */
    BS_CU_MOVE_BYTES = 16384,
    BS_CU_MOVE_MOST = 65536,  /* of a work item of large rows, so that finding a row costs little beside moving it, */
    BS_CU_MOVE_MANY = 2048,   /* as long as there are this many work items */
    BS_CU_MOVE_ROW = 8192,    /* rows with fewer bytes are moved by several teams of a block */
    BS_CU_MOVE_TEAM = 15      /* p: threads of a team; 0: the block */
};

/* Small rows are batched, one for each team, so that all teams of a block are busy. */
static void bs_cu_move_cut(const bs_cu_node *n, const bs_device_operand *o, int64_t elements, bs_device_step *s)
{
    const int64_t bytes = elements * (int64_t)bs_dtype_bytes((bs_dtype)o->dtype),
                  item = bs_cu_item(n, bytes, BS_CU_MOVE_BYTES);
    if (bytes >= BS_CU_MOVE_ROW || o->place == BS_AT_ROOT) {
        s->parts = bs_cu_work_items(bytes, bs_max_i64(item, bs_min_i64(bytes / BS_CU_MOVE_MANY, BS_CU_MOVE_MOST)));
        return;
    }
    int32_t team = 4;
    while (team < 32 && team * 16 < bytes)
        team *= 2;
    const int64_t rows = item / (bytes > 1 ? bytes : 1), least = 256 / team;
    s->p[BS_CU_MOVE_TEAM].i = team;
    s->batch = (int32_t)(rows < least ? least : rows > 256 ? 256 : rows);
}

/* The threads that work on one row, and this thread's place among them. */
struct bs_cu_team {
    int32_t rank, size, index, count;
};

__device__ __forceinline__ bs_cu_team bs_cu_team_of(const bs_device_step *s)
{
    const int32_t size = s->p[BS_CU_MOVE_TEAM].i, shift = 31 - __clz(size); /* a power of two */
    bs_cu_team team = {bs_cu_thread(), bs_cu_threads(), 0, 1};
    if (size > 0) {
        team.size = size;
        team.rank = bs_cu_thread() & (size - 1);
        team.index = bs_cu_thread() >> shift;
        team.count = bs_cu_threads() >> shift;
    }
    return team;
}

#endif
