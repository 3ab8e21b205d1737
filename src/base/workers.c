/* base/workers.c - worker threads that run one job at a time. Relies on base/platform.h. Must never let results depend
 * on which thread runs which task: tasks are independent. */
#include "base/platform.h"

bool bs_gate_make(bs_gate *gate, const bs_platform *platform)
{
    const bool made = platform->gate_init(platform->user, gate->storage) == 0;
    gate->platform = made ? platform : NULL;
    return made;
}

void bs_gate_destroy(bs_gate *gate)
{
    if (gate->platform)
        gate->platform->gate_destroy(gate->platform->user, gate->storage);
    gate->platform = NULL;
}

void bs_gate_lock(bs_gate *gate)
{
    if (gate->platform)
        gate->platform->gate_lock(gate->platform->user, gate->storage);
}

void bs_gate_unlock(bs_gate *gate)
{
    if (gate->platform)
        gate->platform->gate_unlock(gate->platform->user, gate->storage);
}

void bs_gate_wait(bs_gate *gate)
{
    if (gate->platform)
        gate->platform->gate_wait(gate->platform->user, gate->storage);
}

void bs_gate_wake(bs_gate *gate)
{
    if (gate->platform)
        gate->platform->gate_wake(gate->platform->user, gate->storage);
}

void bs_gate_tell(bs_gate *gate)
{
    bs_gate_wake(gate);
    bs_gate_unlock(gate);
}

static void pool_drain(bs_workers *pool, int32_t thread)
{
    for (;;) {
        const int32_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count)
            return;
        pool->task(pool->user, index, thread);
    }
}

static void worker_main(void *argument)
{
    bs_worker *worker = argument;
    bs_workers *pool = worker->pool;
    int seen = 0;
    for (;;) {
        bs_gate_lock(&pool->gate);
        while (atomic_load(&pool->generation) == seen && !atomic_load(&pool->stop))
            bs_gate_wait(&pool->gate);
        seen = atomic_load(&pool->generation);
        bs_gate_unlock(&pool->gate);
        if (atomic_load(&pool->stop))
            return;
        pool_drain(pool, worker->thread);
        if (atomic_fetch_sub(&pool->busy, 1) == 1) { /* the last worker wakes the caller */
            bs_gate_lock(&pool->gate);
            bs_gate_tell(&pool->gate);
        }
    }
}

bs_status bs_workers_start(bs_workers *pool, bs_worker *room, const bs_platform *platform, int32_t threads,
                           bs_error *error)
{
    memset(pool, 0, sizeof *pool);
    pool->threads = 1;
    pool->workers = room;
    if (threads <= 1 || !platform || !platform->thread_start)
        return BS_OK; /* no workers: every task runs on the calling thread */
    if (!bs_gate_make(&pool->gate, platform))
        return bs_fail(error, BS_ERROR_PLATFORM, "worker threads: the platform's gate_init failed");
    pool->threads = threads;
    for (int32_t i = 1; i < threads; i++) {
        bs_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i;
        if (platform->thread_start(platform->user, worker->handle, worker_main, worker) != 0) {
            bs_workers_stop(pool);
            return bs_fail(error, BS_ERROR_PLATFORM,
                           "worker thread %" PRId32 " of %" PRId32 ": the platform's thread_start failed", i,
                           threads - 1);
        }
        pool->started = i;
    }
    return BS_OK;
}

void bs_workers_stop(bs_workers *pool)
{
    const bs_platform *p = pool->gate.platform;
    bs_gate_lock(&pool->gate);
    atomic_store(&pool->stop, true);
    bs_gate_tell(&pool->gate);
    for (int32_t i = 1; i <= pool->started; i++)
        p->thread_join(p->user, pool->workers[i].handle);
    bs_gate_destroy(&pool->gate);
    pool->started = 0;
}

static void pool_wait(bs_workers *pool)
{
    bs_gate_lock(&pool->gate);
    while (atomic_load(&pool->busy) > 0)
        bs_gate_wait(&pool->gate);
    bs_gate_unlock(&pool->gate);
}

void bs_workers_run(bs_workers *pool, bs_task task, void *user, int32_t count)
{
    if (pool->threads == 1 || count <= 1) {
        for (int32_t i = 0; i < count; i++)
            task(user, i, 0);
        return;
    }
    bs_gate_lock(&pool->gate);
    pool->task = task;
    pool->user = user;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->started);
    atomic_fetch_add(&pool->generation, 1);
    bs_gate_tell(&pool->gate);
    pool_drain(pool, 0);
    pool_wait(pool);
}
