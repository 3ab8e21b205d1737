/* block.h - one block of threads at work, as block.cpp, warp.cpp and grid.cpp share it. */
#ifndef CUDA_CPU_BLOCK_H
#define CUDA_CPU_BLOCK_H

#include "cuda_cpu.h"
#include "engine.h"
#include "fiber.h"

#include <vector>

namespace cuda_cpu {

enum State : uint8_t { UNSTARTED, RUNNING, BLOCKED, ENDED };

enum : uint32_t { MOST_COPIES = 128, MOST_GROUPS = 32 }; /* of a thread, on their way at once */

struct PendingCopy {
    void *shared;
    const void *global;
};

/* A CUDA thread. Under the thread sanitizer each has identities and stacks of its own, two of them: neighbouring
 * blocks use different ones, so a race between blocks shows, and a stack stays with one identity for good. */
struct Slot {
    cuda_cpu_thread self;
    State state;
    Stack *stack;
    const char *file; /* where it waits */
    int line;
    void *identity, *identities[2];
    Stack *stacks[2];
    /* Copies of cp.async, in rings: no container, whose memory the thread sanitizer would watch across identities. */
    PendingCopy copies[MOST_COPIES];
    uint32_t group_end[MOST_GROUPS]; /* copies begun before the end of each committed group */
    uint32_t begun, arrived, committed;
};

/* Lanes on their way into one warp operation. */
struct Meeting {
    unsigned mask, arrived;
    int kind, line;
    const char *file;
};

struct LaneWords {
    uint32_t given[CUDA_CPU_LANE_WORDS], got[CUDA_CPU_LANE_WORDS];
    int source;
};

struct SharedArray {
    const void *key;
    char *at;
    size_t bytes;
    bool announced; /* to threads of this block that start later */
};

/* A launch as its blocks see it. */
struct Grid {
    const cuda_cpu_kernel *kernel;
    dim3 grid, block;
    size_t dynamic_bytes, shared_limit;
    Order order;
    uint64_t seed;
};

class Block {
public:
    ~Block();
    void prepare(const Grid *grid); /* for the blocks of one launch */
    void run(uint3 index);
    void finish(); /* the caller learns what the blocks did */

    int barrier(int kind, int predicate, const char *file, int line);
    void warp(int kind, unsigned mask, const uint32_t *given, unsigned given_words, int source, uint32_t *got,
              unsigned got_words, const char *file, int line);
    void *shared(const void *key, const char *name, size_t bytes);
    void *dynamic_shared();
    void must_be_shared(const void *address) const;
    Slot &me();
    const Grid *grid_now() const { return grid; }

private:
    friend struct Entry;
    void begin(uint3 index);
    void renew_shared();
    template <typename What> void as_janitor_of_block(What what);
    void release_shared();
    void start(int thread);
    void ended(int thread);
    void main_of_fiber();
    void wait(const char *file, int line);
    void schedule(Stack *dead, Slot *from);
    void jump(void **save, bool dead, Stack *to);
    Stack *stack_take();
    int pick(unsigned first_warp);
    void barrier_open();
    size_t meeting_for(unsigned w, unsigned mask);
    [[noreturn]] void deadlock();
    int warps() const { return (threads + 31) / 32; }

    const Grid *grid = nullptr;
    std::vector<Slot> slots;
    std::vector<Meeting> meetings; /* 32 a warp; usually at the mask's lowest lane */
    std::vector<LaneWords> lanes;  /* [thread] */
    std::vector<unsigned> turns;   /* the order in which threads start */
    uint32_t runnable[32], live_lanes[32];
    int threads = 0, started = 0, live = 0;
    uint64_t random = 0;
    uint3 index;

    int barrier_arrived = 0, barrier_kind = 0, barrier_sum = 0, barrier_result = 0, barrier_line = 0;
    const char *barrier_file = nullptr;
    int barrier_turn = 0;

    std::vector<SharedArray> arrays;
    char *dynamic = nullptr;

    Stack *free_stacks = nullptr, *on = nullptr;
    void *host_top = nullptr;
    const void *host_low = nullptr;
    size_t host_size = 0;

    /* Order, for the thread sanitizer. What a block's threads tell each other is made anew for every block. */
    void *host_identity = nullptr, *janitor = nullptr;
    Tag *tags = nullptr; /* two of barriers, then in and out of each meeting */
    Tag start_tag = 0, end_tag = 0, janitor_tag = 0;
    int parity = 0;
};

/* The block that this OS thread runs. */
Block *block_now();
/* The kernel's name within the launch as written. */
int kernel_name_length(const char *text);

} // namespace cuda_cpu

#endif
