/* scheduler.c: see scheduler.h. */
#include "scheduler.h"
#include "machine.h"
#include "bare/settings.h"

#include <string.h>

#define STACK_BYTES 8192
#define STACK_PAINT 0xA5

typedef struct coroutine {
    void *stack; /* where it left off */
    bool alive;
} coroutine;

static coroutine coroutines[1 + LANES]; /* main, and the readers */
static int running;
static _Alignas(16) uint8_t stacks[LANES][STACK_BYTES];

extern uint8_t main_stack[], main_stack_end[]; /* board.ld */

/* ---------------------------------------------------------------------------------------------- coroutines */

void scheduler_yield(void)
{
    const int from = running;
    do
        running = (running + 1) % (1 + LANES);
    while (running != 0 && !coroutines[running].alive); /* main always is */
    if (running != from)
        machine_switch(&coroutines[from].stack, coroutines[running].stack);
}

/* Called by start.S when a coroutine's function has returned. */
_Noreturn void coroutine_end(void);
_Noreturn void coroutine_end(void)
{
    coroutines[running].alive = false;
    for (;;)
        scheduler_yield(); /* does not come back */
}

/* A stack as machine_switch leaves it: x19 and x20 at its top, x30 behind them. */
static void *prepare_stack(int index, void (*entry)(void *), void *argument)
{
    enum { words = 20, x30 = 11 };
    uint64_t *frame = (uint64_t *)(void *)(stacks[index - 1] + STACK_BYTES) - words;
    memset(stacks[index - 1], STACK_PAINT, STACK_BYTES);
    memset(frame, 0, words * sizeof *frame);
    frame[0] = (uint64_t)(uintptr_t)entry;
    frame[1] = (uint64_t)(uintptr_t)argument;
    frame[x30] = (uint64_t)(uintptr_t)machine_enter;
    return frame;
}

uint32_t scheduler_stack_used(int index)
{
    const uint8_t *low = index == 0 ? main_stack : stacks[index - 1];
    const uint8_t *high = index == 0 ? main_stack_end : low + STACK_BYTES;
    while (low < high && *low == (index == 0 ? 0 : STACK_PAINT))
        low++;
    return (uint32_t)(high - low);
}

/* -------------------------------------------------------------------------------------- the platform table */

uint64_t scheduler_now_ns(void)
{
    const uint64_t ticks = machine_ticks(), second = machine_frequency();
    return ticks / second * 1000000000u + ticks % second * 1000000000u / second;
}

static uint64_t clock_ns(void *user)
{
    (void)user;
    return scheduler_now_ns();
}

/* handle: the number of the coroutine. */
static int thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    (void)user;
    for (int i = 1; i <= LANES; i++)
        if (!coroutines[i].alive) {
            coroutines[i].stack = prepare_stack(i, entry, argument);
            coroutines[i].alive = true;
            *(int *)handle = i;
            return 0;
        }
    return -1;
}

static void thread_join(void *user, void *handle)
{
    (void)user;
    while (coroutines[*(int *)handle].alive)
        scheduler_yield();
}

typedef struct gate {
    bool locked;
    uint32_t wakes;
} gate;

typedef char gate_fits[sizeof(gate) <= BS_GATE_BYTES ? 1 : -1];

static int gate_init(void *user, void *storage)
{
    (void)user;
    *(gate *)storage = (gate){false, 0};
    return 0;
}

static void gate_destroy(void *user, void *storage)
{
    (void)user;
    (void)storage;
}

static void gate_lock(void *user, void *storage)
{
    gate *g = storage;
    (void)user;
    while (g->locked)
        scheduler_yield();
    g->locked = true;
}

/* Who lets a gate go lets the others go on: a reader begins its next read while main computes. */
static void gate_unlock(void *user, void *storage)
{
    (void)user;
    ((gate *)storage)->locked = false;
    scheduler_yield();
}

static void gate_wait(void *user, void *storage)
{
    gate *g = storage;
    const uint32_t seen = g->wakes;
    g->locked = false;
    do
        scheduler_yield();
    while (g->wakes == seen);
    gate_lock(user, storage);
}

static void gate_wake(void *user, void *storage)
{
    (void)user;
    ((gate *)storage)->wakes++;
}

const bs_platform *scheduler_platform(void)
{
    static const bs_platform platform = {
        .clock_ns = clock_ns,
        .thread_start = thread_start,
        .thread_join = thread_join,
        .gate_init = gate_init,
        .gate_destroy = gate_destroy,
        .gate_lock = gate_lock,
        .gate_unlock = gate_unlock,
        .gate_wait = gate_wait,
        .gate_wake = gate_wake,
    };
    coroutines[0].alive = true;
    return &platform;
}
