/* move_team.cuh - how moves are divided: large rows into work items, small rows among *teams*. A team works on one
 * row: the whole block, or only as many threads as the row's bytes keep busy.
 * Relies on describe.cuh. Must never decide anything. */
#ifndef BS_CUDA_MOVE_TEAM
#define BS_CUDA_MOVE_TEAM

#include "cuda/describe.cuh"

enum {
    BS_CU_MOVE_BYTES = 16384, /* of a work item: four words of 16 bytes a thread, all in flight */
    BS_CU_MOVE_MOST = 65536,  /* of a work item of large rows, so that finding a row costs little beside moving it, */
    BS_CU_MOVE_MANY = 2048,   /* as long as there are this many work items */
    BS_CU_MOVE_ROW = 8192,    /* rows with fewer bytes are moved by several teams of a block */
    BS_CU_MOVE_TEAM = 15      /* p: threads of a team; 0: the block */
};

/* Small rows are batched, one for each team, so that all teams of a block are busy. */
static void bs_cu_move_cut(const bs_device_operand *o, int64_t elements, bs_device_step *s)
{
    const int64_t bytes = elements * (int64_t)bs_dtype_bytes((bs_dtype)o->dtype);
    if (bytes >= BS_CU_MOVE_ROW || o->place == BS_AT_ROOT) {
        s->parts = bs_cu_work_items(bytes,
                                bs_max_i64(BS_CU_MOVE_BYTES, bs_min_i64(bytes / BS_CU_MOVE_MANY, BS_CU_MOVE_MOST)));
        return;
    }
    int32_t team = 4;
    while (team < 32 && team * 16 < bytes)
        team *= 2;
    const int64_t rows = BS_CU_MOVE_BYTES / (bytes > 1 ? bytes : 1), least = 256 / team;
    s->p[BS_CU_MOVE_TEAM].i = team;
    s->batch = (int32_t)(rows < least ? least : rows > 256 ? 256 : rows);
}

/* The threads that work on one row, and this thread's place among them. */
struct bs_cu_team {
    int32_t rank, size, index, count;
};

__device__ __forceinline__ bs_cu_team bs_cu_team_of(const bs_device_step *s)
{
    bs_cu_team team;
    team.size = s->p[BS_CU_MOVE_TEAM].i > 0 ? s->p[BS_CU_MOVE_TEAM].i : bs_cu_threads();
    team.rank = bs_cu_thread() % team.size;
    team.index = bs_cu_thread() / team.size;
    team.count = bs_cu_threads() / team.size;
    return team;
}

#endif
