/* base/workers.c - worker threads that run one job at a time. Relies on base/platform.h. Must never decide who does
 * what in a way that shows in results: tasks are independent. */
#include "base/platform.h"

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
    struct bs_worker *worker = argument;
    bs_workers *pool = worker->pool;
    const bs_platform *p = pool->platform;
    int seen = 0;
    for (;;) {
        p->gate_lock(p->user, pool->gate);
        while (atomic_load(&pool->generation) == seen && !atomic_load(&pool->stop))
            p->gate_wait(p->user, pool->gate);
        seen = atomic_load(&pool->generation);
        p->gate_unlock(p->user, pool->gate);
        if (atomic_load(&pool->stop))
            return;
        pool_drain(pool, worker->thread);
        if (atomic_fetch_sub(&pool->busy, 1) == 1) { /* the last one tells the caller */
            p->gate_lock(p->user, pool->gate);
            p->gate_wake(p->user, pool->gate);
            p->gate_unlock(p->user, pool->gate);
        }
    }
}

bs_status bs_workers_start(bs_workers *pool, const bs_platform *platform, int32_t threads, bs_error *error)
{
    memset(pool, 0, sizeof *pool);
    pool->platform = platform;
    pool->threads = 1;
    if (threads <= 1 || !platform || !platform->thread_start)
        return BS_OK; /* all on the calling thread */
    if (platform->gate_init(platform->user, pool->gate) != 0)
        return bs_fail(error, BS_ERROR_PLATFORM, "worker threads: the platform's gate_init failed");
    pool->gate_made = true;
    pool->threads = threads;
    for (int32_t i = 1; i < threads; i++) {
        struct bs_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i;
        if (platform->thread_start(platform->user, worker->handle, worker_main, worker) != 0) {
            bs_workers_stop(pool);
            return bs_fail(error, BS_ERROR_PLATFORM, "worker thread %d of %d: the platform's thread_start failed", i,
                           threads - 1);
        }
        pool->started = i;
    }
    return BS_OK;
}

void bs_workers_stop(bs_workers *pool)
{
    const bs_platform *p = pool->platform;
    if (!pool->gate_made)
        return;
    p->gate_lock(p->user, pool->gate);
    atomic_store(&pool->stop, true);
    p->gate_wake(p->user, pool->gate);
    p->gate_unlock(p->user, pool->gate);
    for (int32_t i = 1; i <= pool->started; i++)
        p->thread_join(p->user, pool->workers[i].handle);
    p->gate_destroy(p->user, pool->gate);
    pool->gate_made = false;
    pool->started = 0;
}

static void pool_wait(bs_workers *pool)
{
    const bs_platform *p = pool->platform;
    p->gate_lock(p->user, pool->gate);
    while (atomic_load(&pool->busy) > 0)
        p->gate_wait(p->user, pool->gate);
    p->gate_unlock(p->user, pool->gate);
}

void bs_workers_run(bs_workers *pool, bs_task task, void *user, int32_t count)
{
    if (pool->threads == 1 || count <= 1) {
        for (int32_t i = 0; i < count; i++)
            task(user, i, 0);
        return;
    }
    const bs_platform *p = pool->platform;
    p->gate_lock(p->user, pool->gate);
    pool->task = task;
    pool->user = user;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->started);
    atomic_fetch_add(&pool->generation, 1);
    p->gate_wake(p->user, pool->gate);
    p->gate_unlock(p->user, pool->gate);
    pool_drain(pool, 0);
    pool_wait(pool);
}
