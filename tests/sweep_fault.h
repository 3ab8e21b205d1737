/* sweep_fault.h: a platform, a reader, a source of weights, a router's function and a writer of profiles, of which the
 * n-th call fails, once or from then on.
 *
 * Owns: the counts of calls, and of what was opened, made and started and is not over yet; the file that it shows.
 * Relies on: sweep_profile.h. Several threads call it at once.
 * Must never: fail while no call is said to, nor touch a real file.
 */
#ifndef SWEEP_FAULT_H
#define SWEEP_FAULT_H

#include "sweep_profile.h"

/* What can fail, and how: a read fails, ends, or lacks a byte or half of what was asked. */
#define SWEEP_FAULTS(X)                                                                                             \
    X(NO_FAULT, "nothing") X(THREAD_START, "thread_start") X(GATE_INIT, "gate_init") X(FILE_OPEN, "file_open")      \
    X(FILE_OPEN_DIRECT, "file_open_direct") X(READ_FAILS, "a read that fails") X(READ_ENDS, "a read of nothing")    \
    X(READ_LACKS, "a read that lacks a byte") X(READ_HALF, "half a read") X(WRITE_FAILS, "a write that fails")      \
    X(FIND_FAILS, "find") X(LOAD_FAILS, "read of weights") X(LOCATE_FAILS, "locate") X(RECORD_FAILS, "record")      \
    X(FETCH_FAILS, "fetch") X(VERIFY_FAILS, "verify") X(ROUTE_FAILS, "a router's function that fails")              \
    X(ROUTE_BEYOND, "a router's function that names no path")

#define SWEEP_FAULT_ENUM(name, text) name,
#define SWEEP_FAULT_TEXT(name, text) text,
typedef enum sweep_fault { SWEEP_FAULTS(SWEEP_FAULT_ENUM) SWEEP_FAULT_COUNT } sweep_fault;
static const char *const sweep_fault_names[SWEEP_FAULT_COUNT] = {SWEEP_FAULTS(SWEEP_FAULT_TEXT)};

typedef struct sweep_faulty {
    bs_platform platform;
    bs_reader reader; /* the same bytes, without a platform */
    const bs_platform *real;
    bs_weights weights, source; /* the model's, and what passes on to it */
    const uint8_t *bytes;
    size_t n_bytes;
    uint32_t alignment; /* of the second handle's reads */
    sweep_written written;
    atomic_int fault, calls, fail_at, from_then_on, fired;
    atomic_int files, gates, threads, misused;
} sweep_faulty;

static inline bool sweep_fails(sweep_faulty *f, sweep_fault kind)
{
    const int32_t wanted = atomic_load(&f->fault);
    const bool reads = kind == READ_FAILS && wanted >= READ_FAILS && wanted <= READ_HALF;
    const bool routes = kind == ROUTE_FAILS && wanted == ROUTE_BEYOND;
    if (wanted != (int32_t)kind && !reads && !routes)
        return false;
    const int32_t call = atomic_fetch_add(&f->calls, 1) + 1, at = atomic_load(&f->fail_at);
    const bool now = at > 0 && (call == at || (atomic_load(&f->from_then_on) && call > at));
    if (now)
        atomic_fetch_add(&f->fired, 1);
    return now;
}

/* --------------------------------------------------------------------------------------------- the platform's calls */

static inline int sweep_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    sweep_faulty *f = user;
    if (sweep_fails(f, THREAD_START) || f->real->thread_start(f->real->user, handle, entry, argument) != 0)
        return -1;
    atomic_fetch_add(&f->threads, 1);
    return 0;
}

static inline void sweep_thread_join(void *user, void *handle)
{
    sweep_faulty *f = user;
    f->real->thread_join(f->real->user, handle);
    atomic_fetch_sub(&f->threads, 1);
}

static inline int sweep_gate_init(void *user, void *storage)
{
    sweep_faulty *f = user;
    if (sweep_fails(f, GATE_INIT) || f->real->gate_init(f->real->user, storage) != 0)
        return -1;
    atomic_fetch_add(&f->gates, 1);
    return 0;
}

static inline void sweep_gate_destroy(void *user, void *storage)
{
    sweep_faulty *f = user;
    f->real->gate_destroy(f->real->user, storage);
    atomic_fetch_sub(&f->gates, 1);
}

static inline int64_t sweep_file_open(void *user, const char *path, uint64_t *bytes)
{
    sweep_faulty *f = user;
    (void)path;
    if (sweep_fails(f, FILE_OPEN))
        return -1;
    atomic_fetch_add(&f->files, 1);
    *bytes = f->n_bytes;
    return 3;
}

static inline int64_t sweep_file_open_direct(void *user, const char *path, void *probe, uint64_t *bytes,
                                             uint32_t *alignment)
{
    sweep_faulty *f = user;
    (void)path;
    memset(probe, 0xA5, BS_PROBE_BYTES);
    if (sweep_fails(f, FILE_OPEN_DIRECT))
        return -1;
    atomic_fetch_add(&f->files, 1);
    *bytes = f->n_bytes;
    *alignment = f->alignment;
    return 4;
}

static inline int64_t sweep_read_bytes(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    sweep_faulty *f = user;
    const size_t left = offset < f->n_bytes ? f->n_bytes - (size_t)offset : 0, n = bytes < left ? bytes : left;
    if (n > 0)
        memcpy(buffer, f->bytes + offset, n);
    if (!sweep_fails(f, READ_FAILS))
        return (int64_t)n;
    const int32_t how = atomic_load(&f->fault);
    return how == READ_FAILS            ? -1
           : how == READ_ENDS || n == 0 ? 0
           : how == READ_LACKS          ? (int64_t)n - 1
                                        : (int64_t)n / 2;
}

static inline int64_t sweep_file_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    sweep_faulty *f = user;
    if (file != 3 && file != 4)
        atomic_fetch_add(&f->misused, 1);
    if (file == 4 && (offset | bytes | (uintptr_t)buffer) % f->alignment != 0)
        atomic_fetch_add(&f->misused, 1);
    return sweep_read_bytes(user, offset, buffer, bytes);
}

static inline void sweep_file_close(void *user, int64_t file)
{
    sweep_faulty *f = user;
    (void)file;
    atomic_fetch_sub(&f->files, 1);
}

static inline int sweep_write_profile(void *user, const void *data, size_t bytes)
{
    sweep_faulty *f = user;
    return sweep_fails(f, WRITE_FAILS) ? -1 : sweep_profile_write(&f->written, data, bytes);
}

/* ---------------------------------------------------------------------------------------------- weights and
 * decisions */

static inline bs_status sweep_find(const void *user, const char *name, bs_weight_info *info)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, FIND_FAILS) ? BS_ERROR_IO : f->weights.find(f->weights.user, name, info);
}

static inline bs_status sweep_load(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, LOAD_FAILS) ? BS_ERROR_IO : f->weights.read(f->weights.user, info, offset, buffer, bytes);
}

static inline bs_status sweep_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, LOCATE_FAILS) ? BS_ERROR_IO : f->weights.locate(f->weights.user, info, block, offset);
}

static inline bs_status sweep_record(const void *user, int32_t block, bs_record *record)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, RECORD_FAILS) ? BS_ERROR_IO : f->weights.record(f->weights.user, block, record);
}

static inline bs_status sweep_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, FETCH_FAILS) ? BS_ERROR_IO : f->weights.fetch(f->weights.user, offset, buffer, bytes);
}

static inline bs_status sweep_verify(const void *user, int32_t block, const void *head)
{
    sweep_faulty *f = (void *)(uintptr_t)user;
    return sweep_fails(f, VERIFY_FAILS) ? BS_ERROR_IO : f->weights.verify(f->weights.user, block, head);
}

/* Stands before the weights of this model. */
static inline const bs_weights *sweep_source(sweep_faulty *f, const bs_model *model)
{
    f->weights = bs_model_weights(model);
    f->source = f->weights;
    f->source.user = f;
    f->source.find = sweep_find;
    f->source.read = sweep_load;
    f->source.map = NULL;
    if (f->weights.fetch) {
        f->source.locate = sweep_locate;
        f->source.record = sweep_record;
        f->source.fetch = sweep_fetch;
        f->source.verify = sweep_verify;
    }
    return &f->source;
}

/* As sweep_asked. */
static inline bs_status sweep_route(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    int32_t paths = 3;
    const bool fails = sweep_fails(user, ROUTE_FAILS);
    const bs_status status = sweep_asked(&paths, scores, rows, path_of_row);
    if (!fails || rows == 0)
        return status;
    path_of_row[rows - 1] = paths;
    return atomic_load(&((sweep_faulty *)user)->fault) == ROUTE_FAILS ? BS_ERROR_IO : BS_OK;
}

/* --------------------------------------------------------------------------------------------------- what is
 * scripted */

static inline void sweep_heal(sweep_faulty *f)
{
    atomic_store(&f->fail_at, 0);
    atomic_store(&f->from_then_on, 0);
}

/* Call `nth` of that kind, from 1; 0: none, but they are counted. */
static inline void sweep_script(sweep_faulty *f, sweep_fault fault, int32_t nth, bool from_then_on)
{
    atomic_store(&f->fault, (int)fault);
    atomic_store(&f->calls, 0);
    atomic_store(&f->fired, 0);
    atomic_store(&f->fail_at, nth);
    atomic_store(&f->from_then_on, from_then_on);
    memset(&f->written, 0, offsetof(sweep_written, bytes));
}

static inline bool sweep_nothing_left(sweep_faulty *f)
{
    return !atomic_load(&f->files) && !atomic_load(&f->gates) && !atomic_load(&f->threads) && !atomic_load(&f->misused);
}

static inline void sweep_faulty_init(sweep_faulty *f, const sweep_file *file, bool threads, bool direct)
{
    memset(f, 0, sizeof *f);
    f->real = bs_platform_default();
    f->bytes = file->f.bytes;
    f->n_bytes = file->f.n;
    f->alignment = 512;
    f->platform = *f->real;
    f->platform.user = f;
    f->platform.clock_ns = threads ? f->real->clock_ns : sweep_clock;
    f->platform.thread_start = threads ? sweep_thread_start : NULL;
    f->platform.thread_join = sweep_thread_join;
    f->platform.gate_init = sweep_gate_init;
    f->platform.gate_destroy = sweep_gate_destroy;
    f->platform.file_open = sweep_file_open;
    f->platform.file_open_direct = direct ? sweep_file_open_direct : NULL;
    f->platform.file_read = sweep_file_read;
    f->platform.file_close = sweep_file_close;
    f->platform.file_forget = NULL;
    f->reader = (bs_reader){.user = f, .read = sweep_read_bytes, .size = f->n_bytes, .concurrent = 0};
}

#endif
