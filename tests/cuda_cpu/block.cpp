/* block.cpp - one block: a fiber for each thread that has to wait, barriers, shared memory, and whose turn it is. A
 * block stays on one OS thread. Threads that end without waiting run one after another on one stack, which costs no
 * more than a loop. Relies on fiber.cpp and sanitizer.h. Must never read or write memory of the kernel except to fill
 * what is new, and must give threads no order but that of barriers. */
#include "block.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread cuda_cpu_thread *cuda_cpu_self;

namespace cuda_cpu {

static __thread Block *current;

Block *block_now() { return current; }
Slot &Block::me() { return slots[cuda_cpu_self->slot]; }

enum { most_arrays = 64 };

static size_t rounded(size_t bytes) { return (bytes + 127) / 128 * 128; }

/* Not memset, which is intercepted: nobody has written this memory yet. 0xff: NaN, -1. */
static void fill_raw(char *at, size_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0xff) : "memory");
#else
    for (volatile char *byte = at; bytes--;)
        *byte++ = static_cast<char>(0xff);
#endif
}

static char *shared_make(size_t bytes)
{
    void *at = nullptr;
    if (posix_memalign(&at, 128, bytes))
        die("no memory for %zu bytes of shared memory", bytes);
    return static_cast<char *>(at);
}

/* ---- one launch, one block ---- */

/* Gives back memory that threads of blocks have seen. Only the janitor knows that the last block has ended; were it
 * this thread, blocks would be ordered. */
template <typename What> void Block::as_janitor_of_block(What what)
{
    if (thread_sanitizer) {
        host_identity = identity_now();
        if (!janitor)
            janitor = identity_make();
        order_release(&janitor_tag);
        identity_take(janitor);
        order_acquire(&janitor_tag);
        order_acquire(&end_tag);
    }
    what();
    if (thread_sanitizer)
        identity_take(host_identity);
}

void Block::prepare(const Grid *launched)
{
    grid = launched;
    random = launched->seed;
    threads = static_cast<int>(grid->block.x * grid->block.y * grid->block.z);
    const size_t count_of = static_cast<size_t>(threads);
    const bool several = grid->grid.x > 1 || grid->grid.y > 1 || grid->grid.z > 1;
    if (slots.size() < count_of) {
        std::vector<Slot> more(count_of);
        std::copy(slots.begin(), slots.end(), more.begin());
        slots.swap(more);
        as_janitor_of_block([&more] { std::vector<Slot>().swap(more); });
        lanes.resize(count_of);
        meetings.resize(static_cast<size_t>(warps()) * 32);
    }
    for (size_t i = 0; i < count_of && thread_sanitizer; i++)
        for (int k = 0; k < (several ? 2 : 1); k++) /* before any block: to make one orders its maker before it */
            if (!slots[i].identities[k])
                slots[i].identities[k] = identity_make();
    parity = 1;
    turns.resize(count_of);
    for (int i = 0; i < threads; i++) {
        const unsigned number = static_cast<unsigned>(i);
        cuda_cpu_thread &self = slots[number].self;
        self.slot = number;
        self.lane = number & 31;
        self.warp = number >> 5;
        self.block_size = grid->block;
        self.grid_size = grid->grid;
        self.thread_index.x = number % grid->block.x;
        self.thread_index.y = number / grid->block.x % grid->block.y;
        self.thread_index.z = number / grid->block.x / grid->block.y;
        turns[number] = grid->order == REVERSE ? static_cast<unsigned>(threads - 1 - i) : number;
    }
    if (grid->order == RANDOM)
        for (size_t i = count_of - 1; i > 0; i--)
            std::swap(turns[i], turns[next_random(&random) % (i + 1)]);
    release_shared();
    arrays.clear();
    arrays.reserve(most_arrays); /* threads that are not ordered add to it: it may not move */
}

/* Under the thread sanitizer, memory and tags of a block are new: old accesses and old order must not be seen in
 * them. */
void Block::release_shared()
{
    as_janitor_of_block([this] {
        free(dynamic);
        for (SharedArray &array : arrays)
            free(array.at);
        free(tags);
        dynamic = nullptr;
        tags = nullptr;
    });
}

void Block::renew_shared()
{
    if (thread_sanitizer) {
        release_shared();
        for (SharedArray &array : arrays)
            array.at = shared_make(rounded(array.bytes));
    }
    if (!dynamic && grid->dynamic_bytes)
        dynamic = shared_make(grid->dynamic_bytes);
    if (!tags)
        tags = static_cast<Tag *>(malloc((2 + meetings.size() * 2) * sizeof(Tag)));
}

void Block::begin(uint3 which)
{
    index = which;
    renew_shared();
    for (Slot &slot : slots) {
        slot.self.block_index = which;
        slot.state = UNSTARTED;
        slot.begun = slot.arrived = slot.committed = 0;
    }
    for (int w = 0; w < warps(); w++) {
        const int left = threads - w * 32;
        live_lanes[w] = left >= 32 ? ~0u : (1u << left) - 1;
        runnable[w] = 0;
    }
    for (Meeting &meeting : meetings)
        meeting.arrived = 0;
    live = threads;
    started = barrier_arrived = barrier_sum = 0;
    if (dynamic)
        fill_raw(dynamic, grid->dynamic_bytes);
    for (SharedArray &array : arrays) {
        fill_raw(array.at, array.bytes);
        array.announced = false;
    }
    parity ^= 1;
    order_release(&start_tag);
}

void Block::run(uint3 which)
{
    Block *outer = current;
    current = this;
    host_identity = identity_now();
    begin(which);
    host_low = nullptr;
    jump(&host_top, false, stack_take());
    identity_take(host_identity);
    current = outer;
    cuda_cpu_self = nullptr;
}

void Block::finish() { order_acquire(&end_tag); }

Block::~Block()
{
    release_shared();
    while (free_stacks) {
        Stack *stack = free_stacks;
        free_stacks = stack->next;
        stack_destroy(stack);
    }
    for (Slot &slot : slots)
        for (int k = 0; k < 2; k++) {
            if (slot.identities[k])
                identity_destroy(slot.identities[k]);
            if (slot.stacks[k])
                stack_destroy(slot.stacks[k]);
        }
    as_janitor_of_block([this] { std::vector<Slot>().swap(slots); });
    if (janitor)
        identity_destroy(janitor);
}

/* ---- turns ---- */

struct Entry {
    static void of_fiber() { current->main_of_fiber(); }
};

Stack *Block::stack_take()
{
    Stack *stack;
    if (thread_sanitizer) {
        Stack *&own = slots[turns[static_cast<size_t>(started)]].stacks[parity];
        if (!own)
            own = stack_make();
        stack = own;
    } else {
        stack = free_stacks;
        if (stack)
            free_stacks = stack->next;
        else
            stack = stack_make();
    }
    stack_prime(stack, Entry::of_fiber);
    return stack;
}

/* To no stack: to the one that called run. */
void Block::jump(void **save, bool dead, Stack *to)
{
    void *fake = nullptr;
    stack_leave(dead ? nullptr : &fake, to ? to->low : host_low, to ? to->size : host_size);
    on = to;
    cuda_cpu_switch(save, to ? to->top : host_top);
    const void *low;
    size_t size;
    stack_enter(fake, &low, &size);
}

void Block::start(int thread)
{
    Slot &slot = slots[static_cast<size_t>(thread)];
    slot.state = RUNNING;
    cuda_cpu_self = &slot.self;
    slot.identity = slot.identities[parity]; /* neighbouring blocks use different ones */
    identity_take(slot.identity);
    order_acquire(&start_tag);
}

void Block::ended(int thread)
{
    order_release(&end_tag);
    slots[static_cast<size_t>(thread)].state = ENDED;
    live--;
    live_lanes[thread >> 5] &= ~(1u << (thread & 31));
    if (live && barrier_arrived == live) { /* threads that have ended hold no barrier up */
        order_release(&tags[barrier_turn]);
        barrier_open();
    }
}

void Block::main_of_fiber()
{
    const void *low;
    size_t size;
    stack_enter(nullptr, &low, &size);
    if (address_sanitizer && !host_low) {
        host_low = low;
        host_size = size;
    }
    Stack *mine = on;
    int thread = 0;
    do {
        thread = static_cast<int>(turns[static_cast<size_t>(started++)]);
        start(thread);
        grid->kernel->call(grid->kernel->closure);
        ended(thread);
    } while (!thread_sanitizer && started < threads);
    if (!thread_sanitizer) { /* still on it, but nobody takes it before the jump */
        mine->next = free_stacks;
        free_stacks = mine;
    }
    schedule(mine, &slots[static_cast<size_t>(thread)]);
    die("a thread of %s came back from its end", grid->kernel->text);
}

void Block::wait(const char *file, int line)
{
    Slot &slot = me();
    slot.state = BLOCKED;
    slot.file = file;
    slot.line = line;
    slot.stack = on;
    schedule(nullptr, &slot);
    slot.state = RUNNING;
    cuda_cpu_self = &slot.self;
    identity_take(slot.identity);
}

int Block::pick(unsigned first_warp)
{
    const int all = warps();
    if (grid->order == RANDOM) {
        int seen = 0, choice = -1;
        for (int w = 0; w < all; w++)
            for (uint32_t left = runnable[w]; left; left &= left - 1)
                if (next_random(&random) % static_cast<unsigned>(++seen) == 0)
                    choice = w * 32 + __builtin_ctz(left);
        return choice;
    }
    for (int k = 0; k < all; k++) {
        const int w = (static_cast<int>(first_warp) + k) % all;
        if (runnable[w])
            return w * 32 + (grid->order == REVERSE ? 31 - __builtin_clz(runnable[w]) : __builtin_ctz(runnable[w]));
    }
    return -1;
}

/* Leaves `from` for whoever comes next: one of its own warp, else a thread that has not started, else any other. */
void Block::schedule(Stack *dead, Slot *from)
{
    void *unused;
    void **save = dead ? &unused : &from->stack->top;
    const unsigned warp_of = from->self.warp;
    int next = grid->order != RANDOM && runnable[warp_of] ? pick(warp_of) : -1;
    if (next < 0 && started < threads)
        return jump(save, dead != nullptr, stack_take());
    if (next < 0)
        next = pick(warp_of);
    if (next >= 0) {
        runnable[next >> 5] &= ~(1u << (next & 31));
        Slot *slot = &slots[static_cast<size_t>(next)];
        if (slot != from)
            jump(save, dead != nullptr, slot->stack);
        return;
    }
    if (live)
        deadlock();
    jump(save, true, nullptr);
}

void Block::deadlock()
{
    fprintf(stderr, "cuda_cpu: kernel %.*s: deadlock in block (%u,%u,%u): %d of %d threads are left\n",
            kernel_name_length(grid->kernel->text), grid->kernel->text, index.x, index.y, index.z, live, threads);
    int shown = 0;
    for (int i = 0; i < threads && shown < 8; i++) {
        const Slot &slot = slots[static_cast<size_t>(i)];
        if (slot.state == BLOCKED) {
            fprintf(stderr, "  thread %d waits at %s:%d\n", i, slot.file, slot.line);
            shown++;
        }
    }
    abort();
}

/* ---- barriers ---- */

void Block::barrier_open()
{
    barrier_result = barrier_kind == CUDA_CPU_BARRIER_COUNT ? barrier_sum
                     : barrier_kind == CUDA_CPU_BARRIER_AND ? barrier_sum == barrier_arrived
                                                            : barrier_sum != 0;
    for (int w = 0; w < warps(); w++)
        runnable[w] |= live_lanes[w];
    barrier_arrived = barrier_sum = 0;
    barrier_turn ^= 1;
}

int Block::barrier(int kind, int predicate, const char *file, int line)
{
    const unsigned number = cuda_cpu_self->slot;
    if (!barrier_arrived) {
        barrier_kind = kind;
        barrier_file = file;
        barrier_line = line;
    } else if (barrier_line != line || strcmp(barrier_file, file)) {
        die("kernel %.*s: divergent barrier: thread %u of block (%u,%u,%u) is at %s:%d, others are at %s:%d",
            kernel_name_length(grid->kernel->text), grid->kernel->text, number, index.x, index.y, index.z, file, line,
            barrier_file, barrier_line);
    }
    barrier_arrived++;
    barrier_sum += predicate;
    const int turn = barrier_turn;
    order_release(&tags[turn]);
    if (barrier_arrived == live) {
        barrier_open();
        runnable[number >> 5] &= ~(1u << (number & 31));
    } else {
        wait(file, line);
    }
    order_acquire(&tags[turn]);
    return barrier_result;
}

/* ---- shared memory ---- */

void *Block::shared(const void *key, const char *name, size_t bytes)
{
    size_t sum = bytes;
    for (const SharedArray &array : arrays) {
        if (array.key == key) {
            if (array.announced)
                order_acquire(&start_tag);
            return array.at;
        }
        sum += array.bytes;
    }
    if (arrays.size() == most_arrays)
        die("kernel %.*s has more than %d shared arrays", kernel_name_length(grid->kernel->text), grid->kernel->text,
            static_cast<int>(most_arrays));
    if (sum > (48 << 10) || sum + grid->dynamic_bytes > grid->shared_limit)
        die("kernel %.*s: shared array %s makes %zu static and %zu dynamic bytes, more than a block has",
            kernel_name_length(grid->kernel->text), grid->kernel->text, name, sum, grid->dynamic_bytes);
    char *at = shared_make(address_sanitizer ? bytes : rounded(bytes));
    fill_raw(at, bytes);
    arrays.push_back(SharedArray{key, at, bytes, true});
    order_release(&start_tag); /* so that threads which start later know of the allocation */
    return at;
}

void *Block::dynamic_shared()
{
    if (!dynamic)
        die("kernel %.*s uses dynamic shared memory and was launched with none",
            kernel_name_length(grid->kernel->text), grid->kernel->text);
    return dynamic;
}

void Block::must_be_shared(const void *address) const
{
    const char *at = static_cast<const char *>(address);
    bool is = dynamic && at >= dynamic && at < dynamic + grid->dynamic_bytes;
    for (const SharedArray &array : arrays)
        is = is || (at >= array.at && at < array.at + array.bytes);
    if (!is)
        die("kernel %.*s takes %p for an address of shared memory, which it is not",
            kernel_name_length(grid->kernel->text), grid->kernel->text, address);
}

} // namespace cuda_cpu

using namespace cuda_cpu;

static Tag fence_tag;

extern "C" {

int cuda_cpu_barrier(int kind, int predicate, const char *file, int line)
{
    return current->barrier(kind, predicate, file, line);
}

void *cuda_cpu_shared(const void *key, const char *name, size_t bytes) { return current->shared(key, name, bytes); }
void *cuda_cpu_dynamic_shared(void) { return current->dynamic_shared(); }
void cuda_cpu_must_be_shared(const void *address) { current->must_be_shared(address); }

void cuda_cpu_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    order_release(&fence_tag);
    order_acquire(&fence_tag);
}

void cuda_cpu_trap(const char *file, int line)
{
    const cuda_cpu_thread *self = cuda_cpu_self;
    die("__trap() at %s:%d by thread (%u,%u,%u) of block (%u,%u,%u)", file, line, self->thread_index.x,
        self->thread_index.y, self->thread_index.z, self->block_index.x, self->block_index.y, self->block_index.z);
}

void cuda_cpu_misaligned(const char *what, const void *address)
{
    const char *text = current->grid_now()->kernel->text;
    die("kernel %.*s: %s with the address %p, which is no multiple of 16", kernel_name_length(text), text, what,
        address);
}

void cuda_cpu_copy_begin(void *shared, const void *global)
{
    Slot &slot = current->me();
    if (slot.begun - slot.arrived == MOST_COPIES)
        die("more than %u copies of cp.async are on their way", (unsigned)MOST_COPIES);
    slot.copies[slot.begun++ % MOST_COPIES] = PendingCopy{shared, global};
}

void cuda_cpu_copy_commit(void)
{
    Slot &slot = current->me();
    slot.group_end[slot.committed++ % MOST_GROUPS] = slot.begun;
}

int cuda_cpu_copy_due(int pending, void **shared, const void **global)
{
    Slot &slot = current->me();
    const uint32_t newest = static_cast<uint32_t>(pending < 0 ? 0 : pending);
    if (slot.committed <= newest || newest >= MOST_GROUPS ||
        slot.arrived == slot.group_end[(slot.committed - newest - 1) % MOST_GROUPS])
        return 0;
    const PendingCopy &copy = slot.copies[slot.arrived++ % MOST_COPIES];
    *shared = copy.shared;
    *global = copy.global;
    return 1;
}

} // extern "C"
