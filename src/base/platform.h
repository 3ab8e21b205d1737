/* base/platform.h - gates and worker threads over the platform table. Relies on base/base.h. */
#ifndef BS_PLATFORM_H
#define BS_PLATFORM_H

#include "base/base.h"

#include <stdatomic.h>

#define BS_MAX_THREADS 64

/* Storage of a gate, and its platform. While that is NULL there is only one thread, and every call does nothing. */
typedef struct bs_gate {
    _Alignas(16) uint8_t storage[BS_GATE_BYTES];
    const bs_platform *platform;
} bs_gate;

bool bs_gate_make(bs_gate *gate, const bs_platform *platform);
void bs_gate_destroy(bs_gate *gate);
void bs_gate_lock(bs_gate *gate);
void bs_gate_unlock(bs_gate *gate);
void bs_gate_wait(bs_gate *gate); /* between lock and unlock */
void bs_gate_wake(bs_gate *gate);
void bs_gate_tell(bs_gate *gate); /* wakes all waiting threads, and unlocks */

typedef void (*bs_task)(void *user, int32_t index, int32_t thread);

/* Tasks of a job are claimed one after the other from `next`. Which thread takes which task must never matter. */
typedef struct bs_worker {
    struct bs_workers *pool;
    int32_t thread;
    _Alignas(16) uint8_t handle[BS_THREAD_BYTES];
} bs_worker;

typedef struct bs_workers {
    int32_t threads; /* including the caller's */
    int32_t started;
    bs_task task;
    void *user;
    int32_t count;
    atomic_int next;       /* the next task to be claimed */
    atomic_int generation; /* number of the current job; changes under the gate */
    atomic_int busy;       /* workers that have not finished the current job */
    atomic_bool stop;
    bs_worker *workers; /* [threads], which are the caller's memory; that of thread 0 has nothing to do */
    bs_gate gate;
} bs_workers;

/* Starts threads-1 workers, in room for `threads`. On failure nothing is left running. */
bs_status bs_workers_start(bs_workers *pool, bs_worker *room, const bs_platform *platform, int32_t threads,
                           bs_error *error);
void bs_workers_stop(bs_workers *pool);
/* Runs task(user, 0..count-1); returns when all are done. Thread numbers are 0 (the caller) .. threads-1. */
void bs_workers_run(bs_workers *pool, bs_task task, void *user, int32_t count);

#endif
