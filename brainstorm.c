/* brainstorm.c - 0.1.0.   MIT licence, see LICENSE.   Documentation: brainstorm.h
 * Generated from src/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.
 * sha256 of the parts: 12beea6b2b11e7022069fe81bb5cd07a30ccdf0bb96aaf35e0e4467461ec0c60
 */
#if !defined(_POSIX_C_SOURCE) && !defined(BS_NO_POSIX)
#define _POSIX_C_SOURCE 200809L
#endif
#include "brainstorm.h"

#if BS_VERSION_MAJOR != 0 || BS_VERSION_MINOR != 1 || BS_VERSION_PATCH != 0
#error "brainstorm.h and brainstorm.c are of different versions"
#endif

/* ==== begin src/base.h ======================================================================== */
/* base.h - what everything stands on: checked arithmetic, alignment, small helpers.
 * Relies on nothing but brainstorm.h. Must never know of graphs, ops or files. */
#ifndef BS_BASE_H
#define BS_BASE_H

/* #include "brainstorm.h" */

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BS_PAGE_BYTES 4096 /* what storage may want offsets, sizes and buffers of direct reads aligned to */
#define BS_MAX_LANES 8

/* Sizes are computed in 64 bits and saturate: a product that wraps becomes UINT64_MAX, which no arena has. */
static inline uint64_t bs_mul_u64(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static inline uint64_t bs_add_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t bs_align_u64(uint64_t bytes)
{
    return bs_add_u64(bytes, BS_ALIGNMENT - 1) & ~(uint64_t)(BS_ALIGNMENT - 1);
}

static inline int32_t bs_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t bs_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int64_t bs_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t bs_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int32_t bs_clamp_i32(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }
static inline int32_t bs_or_default(int32_t v, int32_t fallback) { return v ? v : fallback; }

/* Rounds towards minus infinity; b > 0. */
static inline int64_t bs_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }
static inline int64_t bs_ceil_div(int64_t a, int64_t b) { return -bs_floor_div(-a, b); }

#if defined(__GNUC__)
#define BS_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define BS_PRINTF(format_index, first)
#endif

/* Fills `error` (may be NULL) and returns the status. */
bs_status bs_fail(bs_error *error, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
/* The same, returning false. */
bool bs_refuse(bs_error *error, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
/* The same for an arena that is too small: `what` says what the bytes were for. */
bs_status bs_fail_arena(bs_error *error, const bs_arena *arena, uint64_t needed, const char *what);

/* Storage conversions (dtype.c). Round to nearest even. */
float bs_f16_to_f32(uint16_t h);
uint16_t bs_f32_to_f16(float f);
float bs_bf16_to_f32(uint16_t h);
uint16_t bs_f32_to_bf16(float f);
/* One element as f32, whatever its type. */
float bs_load_f32(const void *data, bs_dtype dtype, int64_t index);

/* CRC-32 as in zip (crc32.c). Starts with 0; over pieces, each call takes what the one before gave. */
uint32_t bs_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
/* ==== end src/base.h ========================================================================== */

/* ==== begin src/error.c ======================================================================= */
/* error.c - status names and the filling of bs_error. Relies on base.h. Must never print. */
/* #include "base.h" */

const char *bs_status_name(bs_status status)
{
    switch (status) {
#define BS_STATUS_NAME(name, number, text) \
    case name: return #name;
        BS_STATUS_LIST(BS_STATUS_NAME)
#undef BS_STATUS_NAME
    }
    return "BS_UNKNOWN";
}

const char *bs_status_text(bs_status status)
{
    switch (status) {
#define BS_STATUS_TEXT(name, number, text) \
    case name: return text;
        BS_STATUS_LIST(BS_STATUS_TEXT)
#undef BS_STATUS_TEXT
    }
    return "unknown status";
}

int32_t bs_version(void)
{
    return BS_VERSION;
}

static void error_fill(bs_error *error, bs_status status, const char *format, va_list arguments)
{
    if (!error)
        return;
    memset(error, 0, sizeof *error);
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
}

bs_status bs_fail(bs_error *error, bs_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_fill(error, status, format, arguments);
    va_end(arguments);
    return status;
}

bool bs_refuse(bs_error *error, bs_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_fill(error, status, format, arguments);
    va_end(arguments);
    return false;
}

bs_status bs_fail_arena(bs_error *error, const bs_arena *arena, uint64_t needed, const char *what)
{
    const uint64_t available = arena ? arena->size - arena->used : 0;
    const char *name = arena && arena->name ? arena->name : "?";
    bs_fail(error, BS_ERROR_ARENA, "arena %s: %s needs %llu bytes, %llu are free", name, what, (unsigned long long)needed,
            (unsigned long long)available);
    if (error) {
        error->arena = name;
        error->needed = needed;
        error->available = available;
    }
    return BS_ERROR_ARENA;
}
/* ==== end src/error.c ========================================================================= */

/* ==== begin src/arena.c ======================================================================= */
/* arena.c - bump arenas over the caller's memory. Relies on base.h. Must never allocate. */
/* #include "base.h" */

void bs_arena_init(bs_arena *arena, const char *name, void *memory, size_t bytes)
{
    const size_t slack = memory ? (size_t)(-(uintptr_t)memory & (BS_ALIGNMENT - 1)) : 0;
    memset(arena, 0, sizeof *arena);
    arena->name = name;
    if (!memory || bytes < slack)
        return;
    arena->base = (uint8_t *)memory + slack;
    arena->size = bytes - slack;
}

void *bs_arena_take(bs_arena *arena, size_t bytes)
{
    const uint64_t end = bs_add_u64(arena->used, bs_align_u64(bytes));
    if (!arena->base || end > arena->size)
        return NULL;
    uint8_t *memory = arena->base + arena->used;
    arena->used = (size_t)end;
    if (arena->used > arena->high_water)
        arena->high_water = arena->used;
    return memory;
}
/* ==== end src/arena.c ========================================================================= */

/* ==== begin src/crc32.c ======================================================================= */
/* crc32.c - CRC-32 as in zip and PNG (polynomial 0xedb88320).
 * Owns the table: 1 KB, one row of 16 a nibble of an 8-byte word, so that the 16 look-ups of a word do not wait for each
 * other. A row a byte would be 8 KB and no faster: what limits either is the chain from word to word.
 * Relies on base.h. Must never keep state between calls: reader threads check records side by side. */
/* #include "base.h" */

/* [k][n]: what nibble n adds to the checksum when k more nibbles follow it. [0] alone is the classic table of 16. */
static const uint32_t crc32_table[16][16] = {
    {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
     0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c},
    {0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f, 0xe963a535, 0x9e6495a3,
     0x0edb8832, 0x79dcb8a4, 0xe0d5e91e, 0x97d2d988, 0x09b64c2b, 0x7eb17cbd, 0xe7b82d07, 0x90bf1d91},
    {0x00000000, 0x4ac21251, 0x958424a2, 0xdf4636f3, 0xf0794f05, 0xbabb5d54, 0x65fd6ba7, 0x2f3f79f6,
     0x3b83984b, 0x71418a1a, 0xae07bce9, 0xe4c5aeb8, 0xcbfad74e, 0x8138c51f, 0x5e7ef3ec, 0x14bce1bd},
    {0x00000000, 0x191b3141, 0x32366282, 0x2b2d53c3, 0x646cc504, 0x7d77f445, 0x565aa786, 0x4f4196c7,
     0xc8d98a08, 0xd1c2bb49, 0xfaefe88a, 0xe3f4d9cb, 0xacb54f0c, 0xb5ae7e4d, 0x9e832d8e, 0x87981ccf},
    {0x00000000, 0x1c26a370, 0x384d46e0, 0x246be590, 0x709a8dc0, 0x6cbc2eb0, 0x48d7cb20, 0x54f16850,
     0xe1351b80, 0xfd13b8f0, 0xd9785d60, 0xc55efe10, 0x91af9640, 0x8d893530, 0xa9e2d0a0, 0xb5c473d0},
    {0x00000000, 0x01c26a37, 0x0384d46e, 0x0246be59, 0x0709a8dc, 0x06cbc2eb, 0x048d7cb2, 0x054f1685,
     0x0e1351b8, 0x0fd13b8f, 0x0d9785d6, 0x0c55efe1, 0x091af964, 0x08d89353, 0x0a9e2d0a, 0x0b5c473d},
    {0x00000000, 0x5019579f, 0xa032af3e, 0xf02bf8a1, 0x9b14583d, 0xcb0d0fa2, 0x3b26f703, 0x6b3fa09c,
     0xed59b63b, 0xbd40e1a4, 0x4d6b1905, 0x1d724e9a, 0x764dee06, 0x2654b999, 0xd67f4138, 0x866616a7},
    {0x00000000, 0xb8bc6765, 0xaa09c88b, 0x12b5afee, 0x8f629757, 0x37def032, 0x256b5fdc, 0x9dd738b9,
     0xc5b428ef, 0x7d084f8a, 0x6fbde064, 0xd7018701, 0x4ad6bfb8, 0xf26ad8dd, 0xe0df7733, 0x58631056},
    {0x00000000, 0x60e09782, 0xc1c12f04, 0xa121b886, 0x58f35849, 0x3813cfcb, 0x9932774d, 0xf9d2e0cf,
     0xb1e6b092, 0xd1062710, 0x70279f96, 0x10c70814, 0xe915e8db, 0x89f57f59, 0x28d4c7df, 0x4834505d},
    {0x00000000, 0x3d6029b0, 0x7ac05360, 0x47a07ad0, 0xf580a6c0, 0xc8e08f70, 0x8f40f5a0, 0xb220dc10,
     0x30704bc1, 0x0d106271, 0x4ab018a1, 0x77d03111, 0xc5f0ed01, 0xf890c4b1, 0xbf30be61, 0x825097d1},
    {0x00000000, 0x03d6029b, 0x07ac0536, 0x047a07ad, 0x0f580a6c, 0x0c8e08f7, 0x08f40f5a, 0x0b220dc1,
     0x1eb014d8, 0x1d661643, 0x191c11ee, 0x1aca1375, 0x11e81eb4, 0x123e1c2f, 0x16441b82, 0x15921919},
    {0x00000000, 0xcb5cd3a5, 0x4dc8a10b, 0x869472ae, 0x9b914216, 0x50cd91b3, 0xd659e31d, 0x1d0530b8,
     0xec53826d, 0x270f51c8, 0xa19b2366, 0x6ac7f0c3, 0x77c2c07b, 0xbc9e13de, 0x3a0a6170, 0xf156b2d5},
    {0x00000000, 0x67de9cce, 0xcfbd399c, 0xa863a552, 0x440b7579, 0x23d5e9b7, 0x8bb64ce5, 0xec68d02b,
     0x8816eaf2, 0xefc8763c, 0x47abd36e, 0x20754fa0, 0xcc1d9f8b, 0xabc30345, 0x03a0a617, 0x647e3ad9},
    {0x00000000, 0xa6770bb4, 0x979f1129, 0x31e81a9d, 0xf44f2413, 0x52382fa7, 0x63d0353a, 0xc5a73e8e,
     0x33ef4e67, 0x959845d3, 0xa4705f4e, 0x020754fa, 0xc7a06a74, 0x61d761c0, 0x503f7b5d, 0xf64870e9},
    {0x00000000, 0x7cbb312b, 0xf9766256, 0x85cd537d, 0x299dc2ed, 0x5526f3c6, 0xd0eba0bb, 0xac509190,
     0x533b85da, 0x2f80b4f1, 0xaa4de78c, 0xd6f6d6a7, 0x7aa64737, 0x061d761c, 0x83d02561, 0xff6b144a},
    {0x00000000, 0xccaa009e, 0x4225077d, 0x8e8f07e3, 0x844a0efa, 0x48e00e64, 0xc66f0987, 0x0ac50919,
     0xd3e51bb5, 0x1f4f1b2b, 0x91c01cc8, 0x5d6a1c56, 0x57af154f, 0x9b0515d1, 0x158a1232, 0xd92012ac},
};

static inline uint32_t crc32_word(uint32_t crc, const uint8_t *data)
{
    uint64_t word;
    uint32_t sum = 0;
    memcpy(&word, data, sizeof word);
    word ^= crc;
    for (int k = 15; k >= 0; k--, word >>= 4)
        sum ^= crc32_table[k][word & 15];
    return sum;
}

uint32_t bs_crc32(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8)
        crc = crc32_word(crc, at);
    for (; bytes > 0; bytes--, at++) {
        crc = (crc ^ *at) >> 4 ^ crc32_table[0][(crc ^ *at) & 15];
        crc = crc >> 4 ^ crc32_table[0][crc & 15];
    }
    return ~crc;
}
/* ==== end src/crc32.c ========================================================================= */

/* ==== begin src/dtype.c ======================================================================= */
/* dtype.c - element types: names, sizes, conversion of storage types.
 * Relies on base.h. Must never depend on the rounding mode or on instructions a board may lack. */
/* #include "base.h" */

static const char *const dtype_names[] = {
#define DTYPE_NAME(name, bytes, text) text,
    BS_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
};

static const uint8_t dtype_sizes[] = {
#define DTYPE_SIZE(name, bytes, text) bytes,
    BS_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
};

static bool dtype_known(bs_dtype dtype) { return (int)dtype >= 0 && (int)dtype < (int)BS_DTYPE_COUNT; }

const char *bs_dtype_name(bs_dtype dtype) { return dtype_known(dtype) ? dtype_names[dtype] : "unknown"; }

size_t bs_dtype_bytes(bs_dtype dtype) { return dtype_known(dtype) ? dtype_sizes[dtype] : 0; }

static uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float bs_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = (float)mantissa * 0x1p-24f; /* exact, subnormals too */
    return sign ? -small : small;
}

/* Drops the low `drop` bits, rounding to nearest even. */
static uint32_t round_shift(uint32_t v, uint32_t drop)
{
    const uint32_t half = 1u << (drop - 1), rest = v & ((1u << drop) - 1);
    v >>= drop;
    return v + (rest > half || (rest == half && (v & 1u)));
}

uint16_t bs_f32_to_f16(float f)
{
    const uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u); /* NaN */
    if (magnitude >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00u); /* 65536 and more; what rounds up to it carries below */
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | round_shift(magnitude - 0x38000000u, 13));
    if (magnitude < 0x33000000u)
        return (uint16_t)sign; /* below half of the smallest subnormal */
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | round_shift(mantissa, 126 - (magnitude >> 23)));
}

float bs_bf16_to_f32(uint16_t h) { return bits_float((uint32_t)h << 16); }

uint16_t bs_f32_to_bf16(float f)
{
    const uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)round_shift(bits, 16);
}

float bs_load_f32(const void *data, bs_dtype dtype, int64_t index)
{
    switch (dtype) {
    case BS_F32: return ((const float *)data)[index];
    case BS_U8: return (float)((const uint8_t *)data)[index];
    case BS_I8: return (float)((const int8_t *)data)[index];
    case BS_I32: return (float)((const int32_t *)data)[index];
    case BS_F16: return bs_f16_to_f32(((const uint16_t *)data)[index]);
    case BS_BF16: return bs_bf16_to_f32(((const uint16_t *)data)[index]);
    case BS_U16: return (float)((const uint16_t *)data)[index];
    case BS_DTYPE_COUNT: break;
    }
    return 0.0f;
}
/* ==== end src/dtype.c ========================================================================= */

/* ==== begin src/platform.h ==================================================================== */
/* platform.h - worker threads over the platform table. Relies on base.h. */
#ifndef BS_PLATFORM_H
#define BS_PLATFORM_H

/* #include "base.h" */

#include <stdatomic.h>

#define BS_MAX_THREADS 64

typedef void (*bs_task)(void *user, int32_t index, int32_t thread);

/* Tasks of one job are claimed one after the other from `next`; which thread takes which must never matter. */
typedef struct bs_workers {
    const bs_platform *platform;
    int32_t threads; /* the caller's included */
    int32_t started;
    bs_task task;
    void *user;
    int32_t count;
    atomic_int next;       /* task to be claimed */
    atomic_int generation; /* of jobs; changes under the gate */
    atomic_int busy;       /* workers that have not finished this job */
    atomic_bool stop;
    struct bs_worker {
        struct bs_workers *pool;
        int32_t thread;
        _Alignas(16) uint8_t handle[BS_THREAD_BYTES];
    } workers[BS_MAX_THREADS];
    _Alignas(16) uint8_t gate[BS_GATE_BYTES];
    bool gate_made;
} bs_workers;

/* Starts threads-1 workers. On failure nothing is left running. */
bs_status bs_workers_start(bs_workers *pool, const bs_platform *platform, int32_t threads, bs_error *error);
void bs_workers_stop(bs_workers *pool);
/* Runs task(user, 0..count-1); returns when all are done. Thread numbers are 0 (the caller) .. threads-1. */
void bs_workers_run(bs_workers *pool, bs_task task, void *user, int32_t count);

#endif
/* ==== end src/platform.h ====================================================================== */

/* ==== begin src/platform_posix.c ============================================================== */
/* platform_posix.c - the default platform table: pthreads, pread, monotonic clock, no log.
 * Relies on POSIX.1-2008, and on O_DIRECT where there is such a thing. Must never be referenced directly: always through bs_platform. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
/* #include "base.h" */

#ifdef BS_NO_POSIX

const bs_platform *bs_platform_default(void)
{
    return NULL;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t posix_clock_ns(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct posix_thread {
    pthread_t thread;
    void (*entry)(void *);
    void *argument;
} posix_thread;

typedef struct posix_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} posix_gate;

/* The caller's storage must hold ours. */
typedef char posix_thread_fits[sizeof(posix_thread) <= BS_THREAD_BYTES ? 1 : -1];
typedef char posix_gate_fits[sizeof(posix_gate) <= BS_GATE_BYTES ? 1 : -1];

static void *posix_thread_main(void *handle)
{
    posix_thread *t = handle;
    t->entry(t->argument);
    return NULL;
}

static int posix_thread_start(void *user, void *handle, void (*entry)(void *), void *argument)
{
    posix_thread *t = handle;
    (void)user;
    t->entry = entry;
    t->argument = argument;
    return pthread_create(&t->thread, NULL, posix_thread_main, t);
}

static void posix_thread_join(void *user, void *handle)
{
    (void)user;
    pthread_join(((posix_thread *)handle)->thread, NULL);
}

static int posix_gate_init(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    if (pthread_mutex_init(&g->mutex, NULL) != 0)
        return -1;
    if (pthread_cond_init(&g->changed, NULL) == 0)
        return 0;
    pthread_mutex_destroy(&g->mutex);
    return -1;
}

static void posix_gate_destroy(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
}

static void posix_gate_lock(void *user, void *storage)
{
    (void)user;
    pthread_mutex_lock(&((posix_gate *)storage)->mutex);
}

static void posix_gate_unlock(void *user, void *storage)
{
    (void)user;
    pthread_mutex_unlock(&((posix_gate *)storage)->mutex);
}

static void posix_gate_wait(void *user, void *storage)
{
    posix_gate *g = storage;
    (void)user;
    pthread_cond_wait(&g->changed, &g->mutex);
}

static void posix_gate_wake(void *user, void *storage)
{
    (void)user;
    pthread_cond_broadcast(&((posix_gate *)storage)->changed);
}

/* O_DIRECT is Linux's and hidden in strict C; glibc has it under this name then. Elsewhere reads are buffered. */
#if defined(O_DIRECT)
enum { posix_direct = O_DIRECT };
#elif defined(__O_DIRECT)
enum { posix_direct = __O_DIRECT };
#else
enum { posix_direct = 0 };
#endif

static int64_t posix_file_open_with(const char *path, int flags, uint64_t *size_bytes)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (file < 0)
        return -1;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
        close(file);
        return -1;
    }
    *size_bytes = (uint64_t)info.st_size;
    return file;
}

static int64_t posix_file_open(void *user, const char *path, uint64_t *size_bytes)
{
    (void)user;
    return posix_file_open_with(path, 0, size_bytes);
}

static int64_t posix_file_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    size_t done = 0;
    (void)user;
    while (done < bytes) { /* short and interrupted reads go on */
        const ssize_t n = pread((int)file, (char *)buffer + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL && done > 0)
            break; /* a direct read met the file's end, and cannot go on from where that is */
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

/* Some file systems open with O_DIRECT and then refuse to read. What is tried is aligned to no more than `alignment`. */
static bool posix_direct_works(int64_t file, uint8_t *probe, uint32_t alignment, uint64_t size_bytes)
{
    uint8_t *const buffer = alignment < BS_PROBE_BYTES ? probe + alignment : probe;
    const uint64_t offset = size_bytes > alignment ? alignment : 0;
    return posix_file_read(NULL, file, offset, buffer, alignment) > 0;
}

static int64_t posix_file_open_direct(void *user, const char *path, void *probe, uint64_t *size_bytes, uint32_t *alignment)
{
    (void)user;
    const int64_t direct = posix_direct ? posix_file_open_with(path, posix_direct, size_bytes) : -1;
    for (*alignment = 512; direct >= 0 && *alignment <= BS_PROBE_BYTES; *alignment *= 8)
        if (posix_direct_works(direct, probe, *alignment, *size_bytes))
            return direct;
    if (direct >= 0)
        close((int)direct);
    *alignment = 1;
    const int64_t file = posix_file_open_with(path, 0, size_bytes);
#ifdef POSIX_FADV_RANDOM
    if (file >= 0)
        posix_fadvise((int)file, 0, 0, POSIX_FADV_RANDOM); /* advice: a refusal costs nothing */
#endif
    return file;
}

static void posix_file_forget(void *user, int64_t file, uint64_t offset, uint64_t bytes)
{
    (void)user;
#ifdef POSIX_FADV_DONTNEED
    posix_fadvise((int)file, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
#else
    (void)file;
    (void)offset;
    (void)bytes;
#endif
}

static void posix_file_close(void *user, int64_t file)
{
    (void)user;
    close((int)file);
}

static const bs_platform posix_platform = {
    NULL,
    posix_clock_ns,
    NULL,
    posix_thread_start,
    posix_thread_join,
    posix_gate_init,
    posix_gate_destroy,
    posix_gate_lock,
    posix_gate_unlock,
    posix_gate_wait,
    posix_gate_wake,
    posix_file_open,
    posix_file_read,
    posix_file_close,
    posix_file_open_direct,
    posix_file_forget,
};

const bs_platform *bs_platform_default(void)
{
    return &posix_platform;
}

#endif
/* ==== end src/platform_posix.c ================================================================ */

/* ==== begin src/workers.c ===================================================================== */
/* workers.c - worker threads that run one job at a time. Relies on platform.h. Must never decide who does what in a way
 * that shows in results: tasks are independent. */
/* #include "platform.h" */

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
        return bs_fail(error, BS_ERROR_PLATFORM, "the gate of the thread pool cannot be made");
    pool->gate_made = true;
    pool->threads = threads;
    for (int32_t i = 1; i < threads; i++) {
        struct bs_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i;
        if (platform->thread_start(platform->user, worker->handle, worker_main, worker) != 0) {
            bs_workers_stop(pool);
            return bs_fail(error, BS_ERROR_PLATFORM, "worker thread %d of %d cannot be started", i, threads - 1);
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
/* ==== end src/workers.c ======================================================================= */

/* ==== begin src/kernels/tier.h ================================================================ */
/* tier.h: which instruction set a kernel may use; the enum and the probes are public, in brainstorm.h.
 *
 * Owns:      the macros that say which tiers this build compiles.
 * Relies on: brainstorm.h (BS_NO_SIMD: scalar kernels only).
 * Must never: keep state. Callers probe once and pass the tier along, so a test can force any lower one.
 *
 *     BS_TIER_SCALAR  portable C: whatever the build's baseline is (SSE2 on x86-64)
 *     BS_TIER_AVX2    AVX2 and FMA
 *     BS_TIER_AVX512  AVX-512 F, BW, DQ, VL: Skylake-X, Zen 4 and later
 *     BS_TIER_NEON    AArch64 Advanced SIMD, part of its baseline
 */
#ifndef BS_KERNELS_TIER_H
#define BS_KERNELS_TIER_H

/* #include "brainstorm.h" */

/* Compiled by attribute, function by function: the build needs no -m flags. */
#if !defined(BS_NO_SIMD) && defined(__x86_64__) && defined(__GNUC__)
#define BS_HAVE_X86_TIERS 1
#else
#define BS_HAVE_X86_TIERS 0
#endif

#if !defined(BS_NO_SIMD) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define BS_HAVE_NEON_TIER 1
#else
#define BS_HAVE_NEON_TIER 0
#endif

/* INLINE where a copy for each constant argument is the point, OUTLINE where a rare case would bloat a hundred
 * kernels. */
#define BS_INLINE __attribute__((always_inline))
#define BS_OUTLINE __attribute__((noinline))

#endif
/* ==== end src/kernels/tier.h ================================================================== */

/* ==== begin src/kernels/tier.c ================================================================ */
/* tier.c: finds out what this processor and its operating system can run.
 *
 * Owns:      the probe. Relies on: CPUID and XGETBV on x86-64; NEON is part of AArch64.
 * Must never: keep the answer (no globals): it costs about 100 ns, and sessions keep it.
 */
/* #include "kernels/tier.h" */

#if BS_HAVE_X86_TIERS
#include <cpuid.h>

/* Bits of CPUID leaf 1 ECX, leaf 7 EBX, and of XCR0 (which registers the system saves). */
enum {
    BS_CPUID_FMA = 1 << 12,
    BS_CPUID_OSXSAVE = 1 << 27,
    BS_CPUID_AVX = 1 << 28,
    BS_CPUID_AVX2 = 1 << 5,
    BS_XCR0_AVX = 0x06,
    BS_XCR0_AVX512 = 0xe6
};
#define BS_CPUID_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) /* F, DQ, BW, VL */

static bs_tier bs_tier_probe(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return BS_TIER_SCALAR;
    const unsigned need = BS_CPUID_FMA | BS_CPUID_OSXSAVE | BS_CPUID_AVX;
    if ((c & need) != need)
        return BS_TIER_SCALAR;
    unsigned xcr0, high;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    (void)high;
    if ((xcr0 & BS_XCR0_AVX) != BS_XCR0_AVX || __get_cpuid_max(0, NULL) < 7)
        return BS_TIER_SCALAR;
    __cpuid_count(7, 0, a, b, c, d);
    if (!(b & BS_CPUID_AVX2))
        return BS_TIER_SCALAR;
    const bool wide = (b & BS_CPUID_AVX512) == BS_CPUID_AVX512 && (xcr0 & BS_XCR0_AVX512) == BS_XCR0_AVX512;
    return wide ? BS_TIER_AVX512 : BS_TIER_AVX2;
}
#elif BS_HAVE_NEON_TIER
static bs_tier bs_tier_probe(void)
{
    return BS_TIER_NEON;
}
#else
static bs_tier bs_tier_probe(void)
{
    return BS_TIER_SCALAR;
}
#endif

bs_tier bs_tier_best(void)
{
    return bs_tier_probe();
}

/* The x86 tiers are ordered in the enum; NEON never meets them in one build. */
bool bs_tier_available(bs_tier tier)
{
    if (tier == BS_TIER_AUTO || tier == BS_TIER_SCALAR)
        return true;
    const bs_tier best = bs_tier_probe();
    if (tier == BS_TIER_NEON || best == BS_TIER_NEON)
        return tier == best;
    return tier == BS_TIER_AVX2 ? best >= BS_TIER_AVX2 : tier == best;
}

const char *bs_tier_name(bs_tier tier)
{
    switch (tier) {
    case BS_TIER_AUTO: return "auto";
    case BS_TIER_SCALAR: return "scalar";
    case BS_TIER_AVX2: return "avx2";
    case BS_TIER_AVX512: return "avx512";
    case BS_TIER_NEON: return "neon";
    }
    return "unknown";
}
/* ==== end src/kernels/tier.c ================================================================== */

/* ==== begin src/kernels/conv.h ================================================================ */
/* conv.h: 2-d convolution of one cell on the CPU, channels last, f32.
 *
 * Owns:      the interface between ops and the convolution kernels of every tier.
 * Relies on: tier.h.
 * Must never: allocate, keep state, read outside the windows, or let padding decide anything: the caller
 *            provides every margin (zeros at the frame's edge), the kernels compute "valid" convolutions.
 *
 * Life of a weight: canonical OIHW f32 -> bs_conv_prepare (once, at load) -> bs_conv_run (any thread, any
 * number of times). What is prepared belongs to one (geometry, algorithm, tier) and to nothing else.
 *
 * Arithmetic. DIRECT: every output element is one fixed sequence of operations for a given (geometry, tier):
 * it does not depend on out_h, out_w, on where the element stands, or on which buffers are used, so any split
 * of the work is bit-identical. WINOGRAD4: fixed for a given position modulo 4 relative to the task's origin;
 * splits at multiples of 4 are bit-identical, others differ by rounding.
 * Tiers differ from each other by rounding.
 *
 * The channel stride is 1 everywhere. Buffers need the alignment of float; 64 bytes is faster.
 */
#ifndef BS_KERNELS_CONV_H
#define BS_KERNELS_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* #include "kernels/tier.h" */

typedef enum bs_conv_algorithm {
    BS_CONV_DIRECT = 0,   /* any geometry */
    BS_CONV_WINOGRAD4 = 1 /* F(4x4, 3x3): 3x3, stride 1, dilation 1, one group */
} bs_conv_algorithm;

typedef enum bs_conv_activation {
    BS_CONV_NONE = 0,
    BS_CONV_RELU,  /* max(x, 0) */
    BS_CONV_LEAKY, /* x > 0 ? x : slope * x */
    BS_CONV_PRELU, /* the same with a slope for each output channel */
    BS_CONV_CLIP   /* min(max(x, low), high) */
} bs_conv_activation;

/* All fields >= 1; groups divides both channel counts. */
typedef struct bs_conv_geometry {
    int32_t in_channels, out_channels;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t groups;
} bs_conv_geometry;

/* One call's worth of work. Strides are in floats, between rows and between pixels. */
typedef struct bs_conv_task {
    const float *in;  /* first sample of the window of output (0, 0) */
    ptrdiff_t in_row; /* the storage must cover all windows: (out_h-1)*stride_h + (kernel_h-1)*dilation_h + 1 rows */
    int32_t in_pixel;

    int32_t out_pixel;
    float *out; /* must not overlap `in` */
    ptrdiff_t out_row;
    int32_t out_h, out_w; /* zero is allowed: nothing is done */

    const float *weights; /* from bs_conv_prepare */
    const float *bias;    /* out_channels floats, or NULL */

    const float *residual; /* added to the result, or NULL; may be `out` itself (same strides) */
    ptrdiff_t residual_row;
    int32_t residual_pixel;
    bool residual_before_activation; /* else after */

    bs_conv_activation activation;
    float slope;         /* LEAKY */
    float low, high;     /* CLIP */
    const float *slopes; /* PRELU: out_channels floats */

    float *scratch; /* bs_conv_scratch_floats, one for each thread; may be NULL if that is 0 */
} bs_conv_task;

/* Whether bs_conv_run can do this at this tier in this build. DIRECT: every valid geometry. */
bool bs_conv_supports(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Floats that bs_conv_prepare writes; 0 if unsupported (or if the size overflows). */
size_t bs_conv_prepared_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Packs [out][in / groups][kernel_h][kernel_w] weights. Deterministic; padding lanes are zero. Does not run
 * the tier's instructions: a workstation can prepare for another machine. */
void bs_conv_prepare(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                     const float *oihw, float *prepared);

/* Floats of scratch for one thread, for outputs of any size; 0 for DIRECT. */
size_t bs_conv_scratch_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

void bs_conv_run(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                 const bs_conv_task *task);

#endif
/* ==== end src/kernels/conv.h ================================================================== */

/* ==== begin src/kernels/conv_internal.h ======================================================= */
/* conv_internal.h: what conv.c and the per-tier kernels say to each other.
 *
 * Owns:      the argument blocks of the inner kernels and the table that each tier fills in.
 * Relies on: conv.h.
 * Must never: be included by anything outside src/kernels.
 */
#ifndef BS_KERNELS_CONV_INTERNAL_H
#define BS_KERNELS_CONV_INTERNAL_H

/* #include "kernels/conv.h" */

/* Which family of inner kernels computes a direct convolution. A function of geometry and lane count only,
 * because the packed layout follows from it. */
typedef enum bs_conv_family {
    BS_FAMILY_OUTER,    /* lanes are output channels; inputs are broadcast */
    BS_FAMILY_DOT,      /* lanes are input channels; four outputs a pass, reduced at the end */
    BS_FAMILY_DEPTHWISE /* lanes are channels, one group each */
} bs_conv_family;

enum {
    BS_DOT_OUTPUTS = 4, /* outputs of one pass of the dot kernel */
    BS_WINOGRAD_OUT = 4,
    BS_WINOGRAD_IN = 6,
    BS_WINOGRAD_POINTS = 36
};

/* A run of pixels of one output row, times one block of output channels. Strides in floats. */
typedef struct bs_conv_tile {
    const float *in;   /* first window of the tile, first channel of the group */
    ptrdiff_t in_row;  /* between kernel rows */
    ptrdiff_t in_tap;  /* between taps of a kernel row */
    ptrdiff_t in_step; /* between the windows of neighbouring pixels */
    int32_t rows, taps;
    int32_t run; /* input channels of a tap (or of a whole kernel row where taps are contiguous) */
    const float *weights;

    int32_t channel;  /* first output channel of the block */
    int32_t channels; /* valid ones: the kernel's vectors cover them, only the last may be partial */
    float *out;       /* first pixel, first channel of the block */
    ptrdiff_t out_pixel;
    const float *residual; /* likewise, or NULL */
    ptrdiff_t residual_pixel;
    const bs_conv_task *task; /* bias, activation, order of the residual */
} bs_conv_tile;

typedef void bs_conv_tile_kernel(const bs_conv_tile *tile);

/* One Winograd tile being transformed. `points` is the element of point 0; the others follow at `point_step`. */
typedef void bs_conv_winograd_in(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel, int32_t channels,
                                 float *points, ptrdiff_t point_step);
typedef void bs_conv_winograd_out(const float *points, ptrdiff_t point_step, const bs_conv_tile *tile,
                                  ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows, int32_t columns);

typedef struct bs_conv_kernels {
    int32_t lanes;
    int32_t outer_pixels[3]; /* [vectors]: the most pixels a tile may have */
    bs_conv_tile_kernel *const *outer[3]; /* [vectors][pixels]; [0] is unused */
    int32_t dot_pixels;
    bs_conv_tile_kernel *const *dot; /* [pixels], or NULL: then OUTER is used */
    int32_t depthwise_pixels;
    bs_conv_tile_kernel *const *depthwise; /* [pixels] */
    bs_conv_winograd_in *winograd_in;
    bs_conv_winograd_out *winograd_out;
} bs_conv_kernels;

/* The table of a tier, or NULL if it is not compiled in. */
const bs_conv_kernels *bs_conv_kernels_scalar(void);
const bs_conv_kernels *bs_conv_kernels_avx2(void);
const bs_conv_kernels *bs_conv_kernels_avx512(void);
const bs_conv_kernels *bs_conv_kernels_neon(void);

/* conv_pack.c: layout, known without running the tier's instructions. Lanes of each tier are fixed. */
int32_t bs_conv_lanes(bs_tier tier);
bs_conv_family bs_conv_family_of(const bs_conv_geometry *geometry, bs_tier tier);
bool bs_conv_can_prepare(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* conv_winograd.c */
size_t bs_conv_winograd_scratch(const bs_conv_geometry *geometry, int32_t lanes);
void bs_conv_winograd_run(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels,
                          const bs_conv_task *task);

static inline int32_t bs_conv_ceil_div(int32_t a, int32_t b)
{
    return a / b + (a % b != 0);
}

static inline int32_t bs_conv_round_up(int32_t a, int32_t b)
{
    return bs_conv_ceil_div(a, b) * b;
}

static inline int32_t bs_conv_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

#endif
/* ==== end src/kernels/conv_internal.h ========================================================= */

/* ==== begin src/kernels/conv_winograd.h ======================================================= */
/* conv_winograd.h: the constants of F(4x4, 3x3).
 *
 * Owns:      the interpolation points 0, +-a, +-b, infinity with a = 3/4, b = 3/2, and the factors a^k.
 * Relies on: nothing.
 * Must never: be changed in one place only: the weight transform (conv_pack.c) uses the same points.
 *
 * The usual points 0, +-1, +-2 spread the transforms' coefficients over 1..8 and 1/24..1; these keep them near
 * 1 and are exact in f32. Measured, 32 channels: the largest error is 3.5 times smaller, for no more operations.
 */
#ifndef BS_KERNELS_CONV_WINOGRAD_H
#define BS_KERNELS_CONV_WINOGRAD_H

#define BS_WINOGRAD_A 0.75f
#define BS_WINOGRAD_B 1.5f /* must be 2a: the output transform relies on it */

/* a^k: the factor of output row y and column x is a^(y + x). */
static const float bs_conv_winograd_scale[7] = {
    1.0f, 0.75f, 0.5625f, 0.421875f, 0.31640625f, 0.2373046875f, 0.177978515625f
};

#endif
/* ==== end src/kernels/conv_winograd.h ========================================================= */

/* ==== begin src/kernels/elementwise.h ========================================================= */
/* elementwise.h: the hot loops around a super-resolution network: codes to floats and back, the final store,
 * bicubic enlargement and the integer features that routing goes by.
 *
 * Owns:      the interface of those loops, for every tier.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or touch a sample outside what each declaration says.
 *
 * Integer results (bicubic of codes, energy, change) are the same on every tier, bit for bit. Float results are
 * the same for a given tier wherever a sample stands; tiers and compilers may contract multiply and add.
 * All row strides are in samples. Inputs and outputs must not overlap. A tier that is not available runs as
 * BS_TIER_SCALAR.
 */
#ifndef BS_KERNELS_ELEMENTWISE_H
#define BS_KERNELS_ELEMENTWISE_H

/* #include "kernels/tier.h" */

/* ------------------------------------------------------------------------------------------- conversion */

/* code x scale */
void bs_row_u8_to_f32(bs_tier tier, const uint8_t *in, float *out, int32_t count, float scale);
void bs_row_u16_to_f32(bs_tier tier, const uint16_t *in, float *out, int32_t count, float scale);

/* x scale, clipped to 0..high, rounded to nearest even. NaN gives 0. u8: high is 255; u16: any, e.g. 1023. */
void bs_row_f32_to_u8(bs_tier tier, const float *in, uint8_t *out, int32_t count, float scale);
void bs_row_f32_to_u16(bs_tier tier, const float *in, uint16_t *out, int32_t count, float scale, uint16_t high);

/* ---------------------------------------------------------------------------------- super-resolution store
 * out[2y + dy][2x + dx] = code of (tail[y][x][2 dy + dx] + base[2y + dy][2x + dx]) x scale. */
typedef struct bs_sr_store {
    const float *tail; /* four channels, channel stride 1 */
    ptrdiff_t tail_row;
    int32_t tail_pixel;
    const float *base; /* already twice the size; NULL: nothing is added */
    ptrdiff_t base_row;
    void *out; /* uint8_t or uint16_t */
    ptrdiff_t out_row;
    int32_t h, w; /* of the tail */
    float scale;
    uint16_t high; /* u16: the largest code */
} bs_sr_store;

void bs_sr_store_u8(bs_tier tier, const bs_sr_store *store);
void bs_sr_store_u16(bs_tier tier, const bs_sr_store *store);

/* --------------------------------------------------------------------------------------------- bicubic x2
 * Keys' kernel with a = -0.5, half-pixel centres: an output between two inputs takes -3 29 111 -9 (or mirrored)
 * over 128 of four, in each direction; the weights are exact.
 *   f32      sideways, then downwards, in float
 *   u8, u16  floor(s / 2^14 + 1/2) of the exact integer sum s, clipped to 0..high: the real result rounded half
 *            up. Codes must not exceed `high`. Up to 10 bits (high <= 1023) are fast, more are right but slow. */
typedef struct bs_margins { /* valid samples beyond each side; what is missing of two is replicated from the edge */
    int32_t top, bottom, left, right;
} bs_margins;

typedef struct bs_bicubic2x {
    const void *in; /* first sample of the region */
    ptrdiff_t in_row;
    void *out; /* 2h x 2w, of the same type */
    ptrdiff_t out_row;
    int32_t h, w; /* of the region, in input samples */
    bs_margins margins;
    uint16_t high; /* u16: the largest code */
} bs_bicubic2x;

void bs_bicubic2x_f32(bs_tier tier, const bs_bicubic2x *task);
void bs_bicubic2x_u8(bs_tier tier, const bs_bicubic2x *task);
void bs_bicubic2x_u16(bs_tier tier, const bs_bicubic2x *task);

/* ----------------------------------------------------------------------------------------------- features
 * Sum over a region of (4 c - up - down - left - right)^2; neighbours beyond the margins are replicated.
 * u16 codes are first shifted right by `shift`; they must then be below 2^12. */
uint64_t bs_laplacian_energy_u8(bs_tier tier, const uint8_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins);
uint64_t bs_laplacian_energy_u16(bs_tier tier, const uint16_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins,
                                 int32_t shift);

/* Sum over a region of (a - b)^2. */
uint64_t bs_squared_change_u8(bs_tier tier, const uint8_t *a, ptrdiff_t a_row, const uint8_t *b, ptrdiff_t b_row, int32_t h,
                              int32_t w);
uint64_t bs_squared_change_u16(bs_tier tier, const uint16_t *a, ptrdiff_t a_row, const uint16_t *b, ptrdiff_t b_row,
                               int32_t h, int32_t w, int32_t shift);

#endif
/* ==== end src/kernels/elementwise.h =========================================================== */

/* ==== begin src/kernels/conv_pack.c =========================================================== */
/* conv_pack.c: canonical weights -> what the kernels of a tier read.
 *
 * Owns:      the packed layouts, and which kernel family a geometry uses.
 * Relies on: conv_internal.h. Runs on any machine: it knows a tier's lanes, not its instructions.
 * Must never: depend on anything but (geometry, algorithm, tier): prepared records may be stored.
 *
 * Layouts, `lanes` wide, padding lanes zero:
 *   OUTER      [group][block][kernel_h][kernel_w][in / group][vectors of the block][lanes]
 *              blocks of two vectors of output channels, the last of one where that is enough
 *   DOT        [group][block of 4 outputs][kernel_h][kernel_w][vectors of in / group][4][lanes]
 *   DEPTHWISE  [vectors of channels][kernel_h][kernel_w][lanes]
 *   WINOGRAD4  [36 points] of OUTER with a 1x1 kernel
 */
/* #include "kernels/conv_internal.h" */
/* #include "kernels/conv_winograd.h" */


int32_t bs_conv_lanes(bs_tier tier)
{
    switch (tier) {
    case BS_TIER_SCALAR: return 4;
    case BS_TIER_NEON: return 4;
    case BS_TIER_AVX2: return 8;
    case BS_TIER_AVX512: return 16;
    case BS_TIER_AUTO: break;
    }
    return 0;
}

bs_conv_family bs_conv_family_of(const bs_conv_geometry *g, bs_tier tier)
{
    if (g->groups == g->in_channels && g->groups == g->out_channels)
        return BS_FAMILY_DEPTHWISE;
    if (tier != BS_TIER_AVX2 && tier != BS_TIER_AVX512)
        return BS_FAMILY_OUTER;
    /* Compare the shares of lanes that do useful work; reducing costs the dot kernel about a fifth. */
    const int64_t lanes = bs_conv_lanes(tier);
    const int64_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const int64_t dot_padded = bs_conv_round_up((int32_t)out, BS_DOT_OUTPUTS) * (int64_t)bs_conv_round_up((int32_t)in, (int32_t)lanes);
    const int64_t outer_padded = bs_conv_round_up((int32_t)out, (int32_t)lanes) * in;
    return dot_padded * 5 <= outer_padded * 4 ? BS_FAMILY_DOT : BS_FAMILY_OUTER;
}

static bool bs_conv_valid(const bs_conv_geometry *g)
{
    const int32_t limit = 1 << 20;
    const int32_t all[] = { g->in_channels, g->out_channels, g->kernel_h, g->kernel_w, g->stride_h,
                            g->stride_w, g->dilation_h, g->dilation_w, g->groups };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] < 1 || all[i] > limit)
            return false;
    return g->in_channels % g->groups == 0 && g->out_channels % g->groups == 0;
}

static bool bs_conv_is_winograd(const bs_conv_geometry *g)
{
    return g->kernel_h == 3 && g->kernel_w == 3 && g->stride_h == 1 && g->stride_w == 1 &&
           g->dilation_h == 1 && g->dilation_w == 1 && g->groups == 1;
}

bool bs_conv_can_prepare(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (bs_conv_lanes(tier) == 0 || !bs_conv_valid(g))
        return false;
    return algorithm == BS_CONV_DIRECT || (algorithm == BS_CONV_WINOGRAD4 && bs_conv_is_winograd(g));
}

size_t bs_conv_prepared_floats(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (!bs_conv_can_prepare(g, algorithm, tier))
        return 0;
    const int32_t lanes = bs_conv_lanes(tier);
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    uint64_t factors[4] = { (uint64_t)g->kernel_h * (uint64_t)g->kernel_w, (uint64_t)g->groups, (uint64_t)in,
                            (uint64_t)bs_conv_round_up(out, lanes) };
    if (algorithm == BS_CONV_WINOGRAD4) {
        factors[0] = BS_WINOGRAD_POINTS;
    } else if (bs_conv_family_of(g, tier) == BS_FAMILY_DEPTHWISE) {
        factors[1] = factors[2] = 1;
        factors[3] = (uint64_t)bs_conv_round_up(g->out_channels, lanes);
    } else if (bs_conv_family_of(g, tier) == BS_FAMILY_DOT) {
        factors[2] = (uint64_t)bs_conv_round_up(in, lanes);
        factors[3] = (uint64_t)bs_conv_round_up(out, BS_DOT_OUTPUTS);
    }
    uint64_t floats = 1;
    for (int32_t i = 0; i < 4; i++) {
        if (floats > SIZE_MAX / sizeof(float) / factors[i])
            return 0;
        floats *= factors[i];
    }
    return (size_t)floats;
}

/* One group of OUTER. `taps` = kernel_h * kernel_w; weights are [out][in][taps]. Returns the end. */
static float *bs_conv_pack_outer(const float *weights, int32_t out, int32_t in, int32_t taps, int32_t lanes,
                                 float *to)
{
    for (int32_t first = 0; first < out;) {
        const int32_t width = out - first > lanes ? 2 * lanes : lanes;
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t i = 0; i < in; i++)
                for (int32_t lane = 0; lane < width; lane++) {
                    const ptrdiff_t o = first + lane;
                    *to++ = o < out ? weights[(o * in + i) * taps + tap] : 0.0f;
                }
        first += width;
    }
    return to;
}

/* One group of DOT. */
static float *bs_conv_pack_dot(const float *weights, int32_t out, int32_t in, int32_t taps, int32_t lanes,
                               float *to)
{
    for (int32_t first = 0; first < out; first += BS_DOT_OUTPUTS)
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t i = 0; i < in; i += lanes)
                for (ptrdiff_t o = first; o < first + BS_DOT_OUTPUTS; o++)
                    for (int32_t lane = 0; lane < lanes; lane++)
                        *to++ = o < out && i + lane < in ? weights[(o * in + i + lane) * taps + tap] : 0.0f;
    return to;
}

static void bs_conv_pack_depthwise(const float *weights, int32_t channels, int32_t taps, int32_t lanes, float *to)
{
    for (int32_t first = 0; first < channels; first += lanes)
        for (int32_t tap = 0; tap < taps; tap++)
            for (ptrdiff_t c = first; c < first + lanes; c++)
                *to++ = c < channels ? weights[c * taps + tap] : 0.0f;
}

/* G of the points 0, a, -a, b, -b, infinity: row p is (1, p, p^2) / product of (p - q) over the other finite
 * points q. The last row is over a^3, which the output's factor a^3 gives back (conv_winograd.inc). */
static void bs_conv_winograd_g(double g[BS_WINOGRAD_IN][3])
{
    const double a = (double)BS_WINOGRAD_A, b = (double)BS_WINOGRAD_B;
    const double points[5] = { 0, a, -a, b, -b };
    for (int32_t i = 0; i < 5; i++) {
        double product = 1;
        for (int32_t k = 0; k < 5; k++)
            product *= k == i ? 1 : points[i] - points[k];
        g[i][0] = 1 / product;
        g[i][1] = points[i] / product;
        g[i][2] = points[i] * points[i] / product;
    }
    g[5][0] = g[5][1] = 0;
    g[5][2] = 1 / (a * a * a);
}

/* G w G^T at one point. */
static float bs_conv_winograd_weight(double g[BS_WINOGRAD_IN][3], const float *w, int32_t point)
{
    const double *gy = g[point / BS_WINOGRAD_IN], *gx = g[point % BS_WINOGRAD_IN];
    double sum = 0;
    for (int32_t y = 0; y < 3; y++)
        for (int32_t x = 0; x < 3; x++)
            sum += gy[y] * gx[x] * (double)w[3 * y + x];
    return (float)sum;
}

static void bs_conv_pack_winograd(const float *weights, int32_t out, int32_t in, int32_t lanes, float *to)
{
    double g[BS_WINOGRAD_IN][3];
    bs_conv_winograd_g(g);
    for (int32_t point = 0; point < BS_WINOGRAD_POINTS; point++)
        for (int32_t first = 0; first < out;) {
            const int32_t width = out - first > lanes ? 2 * lanes : lanes;
            for (int32_t i = 0; i < in; i++)
                for (ptrdiff_t o = first; o < first + width; o++)
                    *to++ = o < out ? bs_conv_winograd_weight(g, weights + (o * in + i) * 9, point) : 0.0f;
            first += width;
        }
}

void bs_conv_prepare(const bs_conv_geometry *g, bs_conv_algorithm algorithm, bs_tier tier, const float *oihw,
                     float *prepared)
{
    if (bs_conv_prepared_floats(g, algorithm, tier) == 0)
        return;
    const int32_t lanes = bs_conv_lanes(tier), taps = g->kernel_h * g->kernel_w;
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const bs_conv_family family = bs_conv_family_of(g, tier);
    if (algorithm == BS_CONV_WINOGRAD4) {
        bs_conv_pack_winograd(oihw, out, in, lanes, prepared);
        return;
    }
    if (family == BS_FAMILY_DEPTHWISE) {
        bs_conv_pack_depthwise(oihw, out * g->groups, taps, lanes, prepared);
        return;
    }
    for (int32_t group = 0; group < g->groups; group++, oihw += (size_t)out * (size_t)in * (size_t)taps)
        prepared = family == BS_FAMILY_DOT ? bs_conv_pack_dot(oihw, out, in, taps, lanes, prepared)
                                           : bs_conv_pack_outer(oihw, out, in, taps, lanes, prepared);
}
/* ==== end src/kernels/conv_pack.c ============================================================= */

/* ==== begin src/kernels/conv_scalar.c ========================================================= */
/* conv_scalar.c: the convolution kernels of one tier, portable C.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_scalar.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_scalar.h.
 */
/* #include "kernels/conv_internal.h" */
/* #include "kernels/conv_winograd.h" */

/* --- template kernels/simd_scalar.h --- */
/* simd_scalar.h: the vector vocabulary of the kernel templates in portable C.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: GCC's vector types, which the compiler lowers to whatever the build's baseline has
 *            (SSE2, NEON, or plain floats on a microcontroller).
 * Must never: be guarded against a second inclusion.
 */
#include <string.h>

#define BS_TIER_FN(name) name##_scalar
#define BS_TARGET
#define BS_LANES 4
#define BS_V bs_v4_scalar

#define BS_V_ZERO() ((BS_V){ 0, 0, 0, 0 })
#define BS_V_SET1(x) ((BS_V){ x, x, x, x })
#define BS_V_LOAD(p) bs_load_scalar(p)
#define BS_V_STORE(p, v) memcpy(p, &(v), sizeof(BS_V))
#define BS_V_ADD(a, b) ((a) + (b))
#define BS_V_SUB(a, b) ((a) - (b))
#define BS_V_MUL(a, b) ((a) * (b))
#define BS_V_FMA(a, b, c) ((a) * (b) + (c))
#define BS_V_FNMA(a, b, c) ((c) - (a) * (b))
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) bs_select_scalar((bs_m4_scalar)((a) > (b)), a, b)
#define BS_V_MIN(a, b) bs_select_scalar((bs_m4_scalar)((a) < (b)), a, b)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) ((part) == BS_LANES ? bs_load_scalar(p) : bs_load_few_scalar(p, part))
#define BS_V_STORE_PART(p, v, part) bs_store_part_scalar(p, v, part)

#define BS_OPAQUE(pointer) (void)(pointer)

#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 4
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_4(M, 2)
#define BS_DEPTHWISE_PIXELS 4
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_4(M, 0)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_scalar(p)
#define BS_V_LOAD_U16(p) bs_load_u16_scalar(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_scalar(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_scalar(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_scalar(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_scalar(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_scalar(a, b)

#ifndef BS_SIMD_SCALAR_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_SCALAR_FUNCTIONS

typedef float bs_v4_scalar __attribute__((vector_size(16)));
typedef int32_t bs_m4_scalar __attribute__((vector_size(16)));

static inline bs_v4_scalar bs_load_scalar(const float *from)
{
    bs_v4_scalar v;
    memcpy(&v, from, sizeof v);
    return v;
}

static BS_OUTLINE bs_v4_scalar bs_load_few_scalar(const float *from, int32_t part)
{
    bs_v4_scalar v = { 0, 0, 0, 0 };
    for (int32_t i = 0; i < part; i++)
        v[i] = from[i];
    return v;
}

static BS_OUTLINE void bs_store_few_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    for (int32_t i = 0; i < part; i++)
        to[i] = v[i];
}

static inline void bs_store_part_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    if (part == BS_LANES)
        memcpy(to, &v, sizeof v);
    else
        bs_store_few_scalar(to, v, part);
}

static inline bs_v4_scalar bs_select_scalar(bs_m4_scalar which, bs_v4_scalar yes, bs_v4_scalar no)
{
    return (bs_v4_scalar)((which & (bs_m4_scalar)yes) | (~which & (bs_m4_scalar)no));
}

static inline bs_v4_scalar bs_load_u8_scalar(const uint8_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

static inline bs_v4_scalar bs_load_u16_scalar(const uint16_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

/* To nearest even: adding 2^23 leaves no room for a fraction. */
static inline bs_v4_scalar bs_round_scalar(bs_v4_scalar v)
{
    const bs_v4_scalar big = { 8388608.0f, 8388608.0f, 8388608.0f, 8388608.0f };
    return (v + big) - big;
}

static inline void bs_store_u8_scalar(uint8_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(int32_t)v[i];
}

static inline void bs_store_u16_scalar(uint16_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint16_t)(int32_t)v[i];
}

static inline void bs_store_pairs_u8_scalar(uint8_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint8_t)(int32_t)even[i];
        to[2 * i + 1] = (uint8_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_u16_scalar(uint16_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint16_t)(int32_t)even[i];
        to[2 * i + 1] = (uint16_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_f32_scalar(float *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = even[i];
        to[2 * i + 1] = odd[i];
    }
}

static inline bs_v4_scalar bs_even_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[0], a[1], b[0], b[1] };
}

static inline bs_v4_scalar bs_odd_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[2], a[3], b[2], b[3] };
}

#endif
/* --- end of template kernels/simd_scalar.h --- */

/* --- template kernels/repeat.h --- */
/* repeat.h: loops over small constants, written out by the preprocessor.
 *
 * Owns:      BS_EACH_n(M): M(0) ... M(n-1), and BS_UPTO_n(M, x): M(1, x) ... M(n, x).
 * Relies on: nothing.
 * Must never: survive a template: simd_end.h undefines all of it.
 *
 * Why not loops: accumulators must be separate variables to live in registers with every compiler and at -O2.
 */
#define BS_EACH_1(M) M(0)
#define BS_EACH_2(M) BS_EACH_1(M) M(1)
#define BS_EACH_3(M) BS_EACH_2(M) M(2)
#define BS_EACH_4(M) BS_EACH_3(M) M(3)
#define BS_EACH_5(M) BS_EACH_4(M) M(4)
#define BS_EACH_6(M) BS_EACH_5(M) M(5)
#define BS_EACH_7(M) BS_EACH_6(M) M(6)
#define BS_EACH_8(M) BS_EACH_7(M) M(7)
#define BS_EACH_9(M) BS_EACH_8(M) M(8)
#define BS_EACH_10(M) BS_EACH_9(M) M(9)
#define BS_EACH_11(M) BS_EACH_10(M) M(10)
#define BS_EACH_12(M) BS_EACH_11(M) M(11)
#define BS_EACH_13(M) BS_EACH_12(M) M(12)
#define BS_EACH_14(M) BS_EACH_13(M) M(13)

#define BS_UPTO_4(M, x) M(1, x) M(2, x) M(3, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_5(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_6(M, x) M(7, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(9, x) M(10, x) M(11, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_12(M, x) M(13, x) M(14, x)
/* --- end of template kernels/repeat.h --- */

/* --- template kernels/conv_epilogue.inc --- */
/* conv_epilogue.inc: how an accumulator tile starts and ends: bias, residual, activation, store.
 *
 * Owns:      macros over accumulators named a<pixel>_<vector>, for one vector of output channels or two.
 * Relies on: a simd_*.h and repeat.h before it; `tile`, `task`, `part` and `zero` in the kernel that uses it.
 * Must never: touch lanes beyond `part` of the last vector.
 */
#include <math.h> /* INFINITY */

/* One vector of output channels, or two. Of the last vector only `part` is valid. */
#define BS_BIAS_1   \
    if (task->bias) \
        b0 = BS_V_LOAD_PART(task->bias + tile->channel, part);
#define BS_BIAS_2                                                         \
    if (task->bias) {                                                     \
        b0 = BS_V_LOAD(task->bias + tile->channel);                       \
        b1 = BS_V_LOAD_PART(task->bias + tile->channel + BS_LANES, part); \
    }
#define BS_SLOPES_1 s0 = BS_V_LOAD_PART(task->slopes + tile->channel, part);
#define BS_SLOPES_2                               \
    s0 = BS_V_LOAD(task->slopes + tile->channel); \
    s1 = BS_V_LOAD_PART(task->slopes + tile->channel + BS_LANES, part);

#define BS_INIT_1(p) BS_V a##p##_0 = b0;
#define BS_INIT_2(p) BS_V a##p##_0 = b0, a##p##_1 = b1;

#define BS_RESIDUAL_1(p) \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD_PART(residual + (p) * residual_pixel, part));
#define BS_RESIDUAL_2(p)                                                       \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD(residual + (p) * residual_pixel)); \
    a##p##_1 = BS_V_ADD(a##p##_1, BS_V_LOAD_PART(residual + (p) * residual_pixel + BS_LANES, part));

#define BS_CLAMP_1(p) a##p##_0 = BS_V_MIN(high, BS_V_MAX(low, a##p##_0));
#define BS_CLAMP_2(p) BS_CLAMP_1(p) a##p##_1 = BS_V_MIN(high, BS_V_MAX(low, a##p##_1));

#define BS_SLOPE_1(p) a##p##_0 = BS_V_FMA(BS_V_MIN(zero, a##p##_0), s0, BS_V_MAX(zero, a##p##_0));
#define BS_SLOPE_2(p) \
    BS_SLOPE_1(p)     \
    a##p##_1 = BS_V_FMA(BS_V_MIN(zero, a##p##_1), s1, BS_V_MAX(zero, a##p##_1));

#define BS_STORE_1(p) BS_V_STORE_PART(out + (p) * out_pixel, a##p##_0, part);
#define BS_STORE_2(p)                            \
    BS_V_STORE(out + (p) * out_pixel, a##p##_0); \
    BS_V_STORE_PART(out + (p) * out_pixel + BS_LANES, a##p##_1, part);

/* From accumulators to memory: residual, activation, residual, store. */
#define BS_EPILOGUE(P, B)                                                                   \
        const float *residual = tile->residual;                                             \
        const ptrdiff_t residual_pixel = tile->residual_pixel, out_pixel = tile->out_pixel; \
        float *out = tile->out;                                                             \
        if (residual && task->residual_before_activation) {                                 \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        if (task->activation == BS_CONV_RELU || task->activation == BS_CONV_CLIP) {         \
            const bool clip = task->activation == BS_CONV_CLIP;                             \
            const BS_V low = clip ? BS_V_SET1(task->low) : zero;                            \
            const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);                      \
            BS_EACH_##P(BS_CLAMP_##B)                                                       \
        } else if (task->activation != BS_CONV_NONE) {                                      \
            BS_V s0 = BS_V_SET1(task->slope), s1 = s0;                                      \
            if (task->activation == BS_CONV_PRELU) {                                        \
                BS_SLOPES_##B                                                               \
            }                                                                               \
            (void)s1;                                                                       \
            BS_EACH_##P(BS_SLOPE_##B)                                                       \
        }                                                                                   \
        if (residual && !task->residual_before_activation) {                                \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        BS_EACH_##P(BS_STORE_##B)
/* --- end of template kernels/conv_epilogue.inc --- */
/* --- template kernels/conv_outer.inc --- */
/* conv_outer.inc: direct convolution, lanes are output channels.
 *
 * Owns:      for each count of pixels, a kernel that keeps pixels x vectors accumulators in registers.
 * Relies on: a simd_*.h, repeat.h and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant computes
 *            bias, then + input * weight over (kernel row, tap, channel), one operation each, in that order.
 */

/* Pixel p stands at one of four bases plus 0, 1, 2 or 3 steps. */
#define BS_X_0 xa[0]
#define BS_X_1 xa[step]
#define BS_X_2 xa[2 * step]
#define BS_X_3 xa[step3]
#define BS_X_4 xb[0]
#define BS_X_5 xb[step]
#define BS_X_6 xb[2 * step]
#define BS_X_7 xb[step3]
#define BS_X_8 xc[0]
#define BS_X_9 xc[step]
#define BS_X_10 xc[2 * step]
#define BS_X_11 xc[step3]
#define BS_X_12 xd[0]
#define BS_X_13 xd[step]

#define BS_WEIGHTS_1 const BS_V w0 = BS_V_LOAD(w);
#define BS_WEIGHTS_2 const BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);

#define BS_MAC_1(p) a##p##_0 = BS_V_FMA(BS_V_SET1(BS_X_##p), w0, a##p##_0);
#define BS_MAC_2(p)                           \
    {                                         \
        const BS_V x = BS_V_SET1(BS_X_##p);   \
        a##p##_0 = BS_V_FMA(x, w0, a##p##_0); \
        a##p##_1 = BS_V_FMA(x, w1, a##p##_1); \
    }

#define BS_OUTER_DEFINE(P, B)                                                           \
    static BS_TARGET void BS_TIER_FN(bs_conv_outer_##B##_##P)(const bs_conv_tile *tile) \
    {                                                                                   \
        const bs_conv_task *task = tile->task;                                          \
        const BS_V_PART part = BS_V_PART_OF(tile->channels - (B - 1) * BS_LANES);       \
        const BS_V zero = BS_V_ZERO();                                                  \
        BS_V b0 = zero, b1 = zero;                                                      \
        BS_BIAS_##B                                                                     \
        BS_EACH_##P(BS_INIT_##B)                                                        \
        (void)b1;                                                                       \
        const ptrdiff_t step = tile->in_step, step3 = 3 * step;                         \
        const float *w = tile->weights;                                                 \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                \
            ptrdiff_t at = row * in_row;                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {              \
                const float *xa = tile->in + at;                                        \
                const float *xb = xa + (P > 4 ? 4 : 0) * step;                          \
                const float *xc = xa + (P > 8 ? 8 : 0) * step;                          \
                const float *xd = xa + (P > 12 ? 12 : 0) * step;                        \
                int32_t left = tile->run;                                               \
                BS_OUTER_QUADS(P, B)                                                    \
                for (; left > 0; left--) {                                              \
                    BS_OPAQUE(xa);                                                      \
                    BS_OPAQUE(xb);                                                      \
                    BS_OPAQUE(xc);                                                      \
                    BS_OPAQUE(xd);                                                      \
                    BS_WEIGHTS_##B                                                      \
                    BS_EACH_##P(BS_MAC_##B)                                             \
                    xa++, xb++, xc++, xd++;                                             \
                    w += B * BS_LANES;                                                  \
                }                                                                       \
                (void)step3;                                                            \
            }                                                                           \
        }                                                                               \
        BS_EPILOGUE(P, B)                                                               \
    }

#ifdef BS_V_QUAD
/* Four channels of a pixel come in one load and are multiplied by lane (a broadcast load is not free there).
 * Lane after lane over all pixels keeps dependent operations apart; each sum sees the same order. */
#define BS_QUAD_LOAD(p) const BS_V_QUAD q##p = BS_V_QUAD_LOAD(&BS_X_##p);
#define BS_QUAD_1(p, lane) a##p##_0 = BS_V_QUAD_FMA(a##p##_0, w0, q##p, lane);
#define BS_QUAD_2(p, lane) BS_QUAD_1(p, lane) a##p##_1 = BS_V_QUAD_FMA(a##p##_1, w1, q##p, lane);
#define BS_QUAD_1_0(p) BS_QUAD_1(p, 0)
#define BS_QUAD_1_1(p) BS_QUAD_1(p, 1)
#define BS_QUAD_1_2(p) BS_QUAD_1(p, 2)
#define BS_QUAD_1_3(p) BS_QUAD_1(p, 3)
#define BS_QUAD_2_0(p) BS_QUAD_2(p, 0)
#define BS_QUAD_2_1(p) BS_QUAD_2(p, 1)
#define BS_QUAD_2_2(p) BS_QUAD_2(p, 2)
#define BS_QUAD_2_3(p) BS_QUAD_2(p, 3)
#define BS_QUAD_STEP(P, B, lane)          \
    {                                     \
        BS_WEIGHTS_##B                    \
        BS_EACH_##P(BS_QUAD_##B##_##lane) \
        w += B * BS_LANES;                \
    }
#define BS_OUTER_QUADS(P, B)                \
    for (; left >= 4; left -= 4) {          \
        BS_EACH_##P(BS_QUAD_LOAD)           \
        BS_QUAD_STEP(P, B, 0)               \
        BS_QUAD_STEP(P, B, 1)               \
        BS_QUAD_STEP(P, B, 2)               \
        BS_QUAD_STEP(P, B, 3)               \
        xa += 4, xb += 4, xc += 4, xd += 4; \
    }
#else
#define BS_OUTER_QUADS(P, B)
#endif

BS_OUTER_UPTO_1(BS_OUTER_DEFINE)
BS_OUTER_UPTO_2(BS_OUTER_DEFINE)

#define BS_OUTER_NAME(P, B) BS_TIER_FN(bs_conv_outer_##B##_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_1)[] = { NULL, BS_OUTER_UPTO_1(BS_OUTER_NAME) };
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_2)[] = { NULL, BS_OUTER_UPTO_2(BS_OUTER_NAME) };
/* --- end of template kernels/conv_outer.inc --- */
/* --- template kernels/conv_depthwise.inc --- */
/* conv_depthwise.inc: direct convolution of one channel a group, lanes are channels.
 *
 * Owns:      kernels for 1..8 pixels (scalar: 1..4) of one vector of channels.
 * Relies on: simd_*.h, repeat.h, and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels.
 */
#define BS_DEPTHWISE_MAC(p) \
    a##p##_0 = BS_V_FMA(BS_V_LOAD_PART(x + (p) * step, part), w0, a##p##_0);

#define BS_DEPTHWISE_DEFINE(P, unused)                                                \
    static BS_TARGET void BS_TIER_FN(bs_conv_depthwise_##P)(const bs_conv_tile *tile) \
    {                                                                                 \
        const bs_conv_task *task = tile->task;                                        \
        const BS_V_PART part = BS_V_PART_OF(tile->channels);                          \
        const BS_V zero = BS_V_ZERO();                                                \
        const ptrdiff_t step = tile->in_step;                                         \
        const float *w = tile->weights;                                               \
        BS_V b0 = zero;                                                               \
        BS_BIAS_1                                                                     \
        BS_EACH_##P(BS_INIT_1)                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                 \
        for (int32_t row = 0; row < tile->rows; row++) {                              \
            ptrdiff_t at = row * in_row;                                              \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {            \
                const float *x = tile->in + at;                                       \
                const BS_V w0 = BS_V_LOAD(w);                                         \
                BS_EACH_##P(BS_DEPTHWISE_MAC)                                         \
                w += BS_LANES;                                                        \
            }                                                                         \
        }                                                                             \
        BS_EPILOGUE(P, 1)                                                             \
    }

BS_DEPTHWISE_UPTO(BS_DEPTHWISE_DEFINE)

#define BS_DEPTHWISE_NAME(P, unused) BS_TIER_FN(bs_conv_depthwise_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_depthwise)[] = { NULL, BS_DEPTHWISE_UPTO(BS_DEPTHWISE_NAME) };
/* --- end of template kernels/conv_depthwise.inc --- */
/* --- template kernels/conv_winograd.inc --- */
/* conv_winograd.inc: the two transforms of F(4x4, 3x3), lanes are channels.
 *
 * Owns:      input patch 6x6 -> 36 points, and 36 points -> output patch 4x4 with its epilogue.
 * Relies on: a simd_*.h and repeat.h before it; conv_winograd.h for the constants and where they come from.
 * Must never: read lanes beyond the channels, or store outside the rows and columns asked for.
 *
 * Both directions work through registers: h<row>_<column> is a patch after its columns were transformed.
 */

/* ------------------------------------------------------------------------------------------ input
 * B^T d B. Rows 0 and 5, 1 and 2 (points a, -a), 3 and 4 (b, -b) of the half-transformed patch are made in
 * turn, 12 vectors at a time; reading the patch again is cheaper than keeping 36. */
#define BS_D0 BS_V_LOAD_PART(d, part)
#define BS_D1 BS_V_LOAD_PART(d + in_row, part)
#define BS_D2 BS_V_LOAD_PART(d + 2 * in_row, part)
#define BS_D3 BS_V_LOAD_PART(d + row3, part)
#define BS_D4 BS_V_LOAD_PART(d + row4, part)
#define BS_D5 BS_V_LOAD_PART(d + row5, part)

/* `d` walks along the columns; opaque, or the compiler makes 36 addresses of it. */
#define BS_COLUMN_OUTER(x)                                                           \
    const BS_V h0_##x = BS_V_FMA(BS_D0, aabb, BS_V_FNMA(BS_D2, sum, BS_D4));         \
    const BS_V h5_##x = BS_V_FMA(BS_D1, aabb, BS_V_FNMA(BS_D3, sum, BS_D5));         \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);
#define BS_COLUMN_PAIR(x)                                                            \
    const BS_V p##x = BS_V_FNMA(BS_D2, other, BS_D4), q##x = BS_V_FNMA(BS_D1, other, BS_D3); \
    const BS_V h1_##x = BS_V_FMA(q##x, point, p##x), h2_##x = BS_V_FNMA(q##x, point, p##x); \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);

/* One row: B^T again, and out. `y` is the row of points, `h` the name of the row in registers. */
#define BS_ROW_IN(y, h)                                                                                      \
    {                                                                                                        \
        float *to = points + (y) * 6 * point_step;                                                           \
        BS_OPAQUE(to);                                                                                       \
        const BS_V pa = BS_V_FNMA(h##_2, bb, h##_4), qa = BS_V_FNMA(h##_1, bb, h##_3);                       \
        const BS_V pb = BS_V_FNMA(h##_2, aa, h##_4), qb = BS_V_FNMA(h##_1, aa, h##_3);                       \
        BS_V_STORE_AT(to, BS_V_FMA(h##_0, aabb, BS_V_FNMA(h##_2, sum, h##_4)));                              \
        BS_V_STORE_AT(to + point_step, BS_V_FMA(qa, a, pa));                                                 \
        BS_V_STORE_AT(to + 2 * point_step, BS_V_FNMA(qa, a, pa));                                            \
        BS_V_STORE_AT(to + step3, BS_V_FMA(qb, b, pb));                                             \
        BS_V_STORE_AT(to + step4, BS_V_FNMA(qb, b, pb));                                            \
        BS_V_STORE_AT(to + step5, BS_V_FMA(h##_1, aabb, BS_V_FNMA(h##_3, sum, h##_5)));             \
    }
#define BS_V_STORE_AT(to, value)     \
    {                                \
        const BS_V stored = value;   \
        BS_V_STORE(to, stored);      \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_in_vector)(const float *in, ptrdiff_t in_row,
                                                                              ptrdiff_t in_pixel, BS_V_PART part,
                                                                              float *points, ptrdiff_t point_step)
{
    const BS_V a = BS_V_SET1(BS_WINOGRAD_A), b = BS_V_SET1(BS_WINOGRAD_B);
    const BS_V aa = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A), bb = BS_V_SET1(BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V aabb = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A * BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V sum = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A + BS_WINOGRAD_B * BS_WINOGRAD_B);
    ptrdiff_t row3 = 3 * in_row, row4 = 4 * in_row, row5 = 5 * in_row;
    ptrdiff_t step3 = 3 * point_step, step4 = 4 * point_step, step5 = 5 * point_step;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(step3);
    BS_OPAQUE(step4);
    BS_OPAQUE(step5);
    {
        const float *d = in;
        BS_EACH_6(BS_COLUMN_OUTER)
        BS_ROW_IN(0, h0)
        BS_ROW_IN(5, h5)
    }
    {
        const float *d = in;
        const BS_V point = a, other = bb;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(1, h1)
        BS_ROW_IN(2, h2)
    }
    {
        const float *d = in;
        const BS_V point = b, other = aa;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(3, h1)
        BS_ROW_IN(4, h2)
    }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_in)(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel,
                                                      int32_t channels, float *points, ptrdiff_t point_step)
{
    for (; channels >= BS_LANES; channels -= BS_LANES, in += BS_LANES, points += BS_LANES)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(BS_LANES), points, point_step);
    if (channels > 0)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(channels), points, point_step);
}

/* ----------------------------------------------------------------------------------------- output
 * A^T m A up to the factors a^(row + column), which come with the bias: with b = 2a only 2, 4, 8 remain. */
#define BS_M0 BS_V_LOAD(m)
#define BS_M1 BS_V_LOAD(m + row)
#define BS_M2 BS_V_LOAD(m + 2 * row)
#define BS_M3 BS_V_LOAD(m + row3)
#define BS_M4 BS_V_LOAD(m + row4)
#define BS_M5 BS_V_LOAD(m + row5)

#define BS_COLUMN_OUT(x)                                                                       \
    const BS_V s##x = BS_V_ADD(BS_M1, BS_M2), d##x = BS_V_SUB(BS_M1, BS_M2); \
    const BS_V u##x = BS_V_ADD(BS_M3, BS_M4), v##x = BS_V_SUB(BS_M3, BS_M4); \
    const BS_V h0_##x = BS_V_ADD(BS_V_ADD(BS_M0, s##x), u##x);                            \
    const BS_V h1_##x = BS_V_FMA(v##x, two, d##x);                                             \
    const BS_V h2_##x = BS_V_FMA(u##x, four, s##x);                                            \
    const BS_V h3_##x = BS_V_FMA(v##x, eight, BS_V_ADD(BS_M5, d##x));                          \
    m += point_step;                                                                           \
    BS_OPAQUE(m);

/* One row: A^T again, factor and bias, clamp, and out. */
#define BS_ROW_OUT(y)                                                                          \
    {                                                                                          \
        const BS_V s = BS_V_ADD(h##y##_1, h##y##_2), d = BS_V_SUB(h##y##_1, h##y##_2);         \
        const BS_V u = BS_V_ADD(h##y##_3, h##y##_4), v = BS_V_SUB(h##y##_3, h##y##_4);         \
        BS_STORE_OUT(to, (y) + 0, BS_V_ADD(BS_V_ADD(h##y##_0, s), u))                          \
        BS_STORE_OUT(to + to_pixel, (y) + 1, BS_V_FMA(v, two, d))                              \
        BS_STORE_OUT(to + 2 * to_pixel, (y) + 2, BS_V_FMA(u, four, s))                         \
        BS_STORE_OUT(to + to_pixel3, (y) + 3, BS_V_FMA(v, eight, BS_V_ADD(h##y##_5, d)))       \
        to += to_row;                                                                          \
        BS_OPAQUE(to);                                                                         \
    }
#define BS_STORE_OUT(at, power, value)                                                         \
    {                                                                                          \
        BS_V scaled = BS_V_FMA(value, BS_V_SET1(bs_conv_winograd_scale[power]), bias);         \
        scaled = BS_V_MAX(low, scaled);                                                        \
        scaled = BS_V_MIN(high, scaled);                                                       \
        BS_V_STORE_PART(at, scaled, part);                                                     \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_out_vector)(const float *points,
                                                                               ptrdiff_t point_step, BS_V bias,
                                                                               BS_V low, BS_V high, float *to,
                                                                               ptrdiff_t to_row, ptrdiff_t to_pixel,
                                                                               BS_V_PART part)
{
    const BS_V two = BS_V_SET1(2), four = BS_V_SET1(4), eight = BS_V_SET1(8);
    const ptrdiff_t row = 6 * point_step;
    ptrdiff_t row3 = 3 * row, row4 = 4 * row, row5 = 5 * row, to_pixel3 = 3 * to_pixel;
    const float *m = points;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(to_pixel3);
    BS_EACH_6(BS_COLUMN_OUT)
    BS_ROW_OUT(0)
    BS_ROW_OUT(1)
    BS_ROW_OUT(2)
    BS_ROW_OUT(3)
}

/* One vector of a patch with everything that is not a clamp after the bias: residuals, slopes, ragged edges. */
static BS_TARGET void BS_TIER_FN(bs_conv_winograd_finish)(const float *patch, const bs_conv_tile *tile, int32_t channel,
                                                          ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows,
                                                          int32_t columns, BS_V low, BS_V high)
{
    const bs_conv_task *task = tile->task;
    const BS_V_PART part = BS_V_PART_OF(bs_conv_min(tile->channels - channel, BS_LANES));
    const bool sloped = task->activation == BS_CONV_LEAKY || task->activation == BS_CONV_PRELU;
    const bool before = tile->residual && task->residual_before_activation;
    const bool after = tile->residual && !task->residual_before_activation;
    const BS_V zero = BS_V_ZERO();
    BS_V slope = BS_V_SET1(task->slope);
    if (task->activation == BS_CONV_PRELU)
        slope = BS_V_LOAD_PART(task->slopes + channel, part);
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++) {
            BS_V v = BS_V_LOAD(patch + (4 * y + x) * BS_LANES), residual = zero;
            if (tile->residual)
                residual = BS_V_LOAD_PART(tile->residual + y * residual_row + x * tile->residual_pixel + channel, part);
            if (before)
                v = BS_V_ADD(v, residual);
            v = BS_V_MAX(low, v);
            v = BS_V_MIN(high, v);
            if (sloped)
                v = BS_V_FMA(BS_V_MIN(zero, v), slope, BS_V_MAX(zero, v));
            if (after)
                v = BS_V_ADD(v, residual);
            BS_V_STORE_PART(tile->out + y * out_row + x * tile->out_pixel + channel, v, part);
        }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_out)(const float *points, ptrdiff_t point_step,
                                                       const bs_conv_tile *tile, ptrdiff_t out_row,
                                                       ptrdiff_t residual_row, int32_t rows, int32_t columns)
{
    const bs_conv_task *task = tile->task;
    const bool clip = task->activation == BS_CONV_CLIP, clamp = clip || task->activation == BS_CONV_RELU;
    const BS_V low = BS_V_SET1(clip ? task->low : clamp ? 0.0f : -INFINITY);
    const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);
    const BS_V lowest = BS_V_SET1(-INFINITY), highest = BS_V_SET1(INFINITY);
    const bool straight = rows == 4 && columns == 4 && !tile->residual && (clamp || task->activation == BS_CONV_NONE);
    for (int32_t c = 0; c < tile->channels; c += BS_LANES, points += BS_LANES) {
        const int32_t valid = bs_conv_min(tile->channels - c, BS_LANES);
        BS_V bias = BS_V_ZERO();
        if (task->bias)
            bias = BS_V_LOAD_PART(task->bias + c, BS_V_PART_OF(valid));
        if (straight && valid == BS_LANES) {
            BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, low, high, tile->out + c, out_row,
                                                    tile->out_pixel, BS_V_PART_OF(BS_LANES));
            continue;
        }
        float patch[16 * BS_LANES];
        BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, lowest, highest, patch, 4 * BS_LANES,
                                                BS_LANES, BS_V_PART_OF(BS_LANES));
        BS_TIER_FN(bs_conv_winograd_finish)(patch, tile, c, out_row, residual_row, rows, columns, low, high);
    }
}
/* --- end of template kernels/conv_winograd.inc --- */

static const bs_conv_kernels bs_conv_table_scalar = {
    .lanes = BS_LANES,
    .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },
    .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },
    .dot_pixels = 0,
    .dot = NULL,
    .depthwise_pixels = BS_DEPTHWISE_PIXELS,
    .depthwise = BS_TIER_FN(bs_conv_depthwise),
    .winograd_in = BS_TIER_FN(bs_conv_winograd_in),
    .winograd_out = BS_TIER_FN(bs_conv_winograd_out),
};

/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

const bs_conv_kernels *bs_conv_kernels_scalar(void)
{
    return &bs_conv_table_scalar;
}
/* ==== end src/kernels/conv_scalar.c =========================================================== */

/* ==== begin src/kernels/conv_avx2.c =========================================================== */
/* conv_avx2.c: the convolution kernels of one tier, AVX2 and FMA.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_avx2.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_avx2.h.
 */
/* #include "kernels/conv_internal.h" */
/* #include "kernels/conv_winograd.h" */

#if BS_HAVE_X86_TIERS
/* --- template kernels/simd_avx2.h --- */
/* simd_avx2.h: the vector vocabulary of the kernel templates, AVX2 and FMA.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx2.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>

#define BS_TIER_FN(name) name##_avx2
#define BS_TARGET __attribute__((target("avx2,fma")))
#define BS_LANES 8
#define BS_V __m256
#define BS_V_ZERO() _mm256_setzero_ps()
#define BS_V_SET1(x) _mm256_set1_ps(x)
#define BS_V_LOAD(p) _mm256_loadu_ps(p)
#define BS_V_STORE(p, v) _mm256_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm256_add_ps(a, b)
#define BS_V_SUB(a, b) _mm256_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm256_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm256_max_ps(a, b)
#define BS_V_MIN(a, b) _mm256_min_ps(a, b)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. A masked load is
 * fast everywhere, a masked store is microcode on some processors: whole vectors and halves avoid it. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_avx2(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_avx2(p, v, part)

/* As in simd_avx512.h. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 12
#define BS_OUTER_PIXELS_2 6
#define BS_OUTER_UPTO_1(M) BS_UPTO_12(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_6(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD4(a, b, c, d) __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d))
#define BS_DOT_PIXELS 2
#define BS_DOT_UPTO(M) M(1, 0) M(2, 0)

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx2(a, b, c, d)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx2(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx2(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx2(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx2(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx2(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx2(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx2(a, b)

#ifndef BS_SIMD_AVX2_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX2_FUNCTIONS

static inline BS_TARGET __m256i bs_part_mask_avx2(int32_t part)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(part), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline BS_TARGET __m256 bs_load_part_avx2(const float *from, int32_t part)
{
    return part == BS_LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, bs_part_mask_avx2(part));
}

static BS_OUTLINE BS_TARGET void bs_store_few_avx2(float *to, __m256 v, int32_t part)
{
    if (part == 4)
        _mm_storeu_ps(to, _mm256_castps256_ps128(v));
    else
        _mm256_maskstore_ps(to, bs_part_mask_avx2(part), v);
}

static inline BS_TARGET void bs_store_part_avx2(float *to, __m256 v, int32_t part)
{
    if (part == BS_LANES)
        _mm256_storeu_ps(to, v);
    else
        bs_store_few_avx2(to, v, part);
}

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx2(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

static inline BS_TARGET __m256 bs_load_u8_avx2(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m256 bs_load_u16_avx2(const uint16_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

/* Eight integers of at most 16 bits. */
static inline BS_TARGET __m128i bs_narrow_avx2(__m256i v)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline BS_TARGET void bs_store_u8_avx2(uint8_t *to, __m256 v)
{
    const __m128i codes = bs_narrow_avx2(_mm256_cvtps_epi32(v));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(codes, codes));
}

static inline BS_TARGET void bs_store_u16_avx2(uint16_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(_mm256_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx2(uint8_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 8);
    const __m256i pairs = _mm256_or_si256(_mm256_cvttps_epi32(even), high);
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx2(uint16_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 16);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_or_si256(_mm256_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx2(float *to, __m256 even, __m256 odd)
{
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + BS_LANES, _mm256_permute2f128_ps(low, high, 0x31));
}

static inline BS_TARGET __m256 bs_even_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

static inline BS_TARGET __m256 bs_odd_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

#endif
/* --- end of template kernels/simd_avx2.h --- */

/* --- template kernels/repeat.h --- */
/* repeat.h: loops over small constants, written out by the preprocessor.
 *
 * Owns:      BS_EACH_n(M): M(0) ... M(n-1), and BS_UPTO_n(M, x): M(1, x) ... M(n, x).
 * Relies on: nothing.
 * Must never: survive a template: simd_end.h undefines all of it.
 *
 * Why not loops: accumulators must be separate variables to live in registers with every compiler and at -O2.
 */
#define BS_EACH_1(M) M(0)
#define BS_EACH_2(M) BS_EACH_1(M) M(1)
#define BS_EACH_3(M) BS_EACH_2(M) M(2)
#define BS_EACH_4(M) BS_EACH_3(M) M(3)
#define BS_EACH_5(M) BS_EACH_4(M) M(4)
#define BS_EACH_6(M) BS_EACH_5(M) M(5)
#define BS_EACH_7(M) BS_EACH_6(M) M(6)
#define BS_EACH_8(M) BS_EACH_7(M) M(7)
#define BS_EACH_9(M) BS_EACH_8(M) M(8)
#define BS_EACH_10(M) BS_EACH_9(M) M(9)
#define BS_EACH_11(M) BS_EACH_10(M) M(10)
#define BS_EACH_12(M) BS_EACH_11(M) M(11)
#define BS_EACH_13(M) BS_EACH_12(M) M(12)
#define BS_EACH_14(M) BS_EACH_13(M) M(13)

#define BS_UPTO_4(M, x) M(1, x) M(2, x) M(3, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_5(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_6(M, x) M(7, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(9, x) M(10, x) M(11, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_12(M, x) M(13, x) M(14, x)
/* --- end of template kernels/repeat.h --- */

/* --- template kernels/conv_epilogue.inc --- */
/* conv_epilogue.inc: how an accumulator tile starts and ends: bias, residual, activation, store.
 *
 * Owns:      macros over accumulators named a<pixel>_<vector>, for one vector of output channels or two.
 * Relies on: a simd_*.h and repeat.h before it; `tile`, `task`, `part` and `zero` in the kernel that uses it.
 * Must never: touch lanes beyond `part` of the last vector.
 */
#include <math.h> /* INFINITY */

/* One vector of output channels, or two. Of the last vector only `part` is valid. */
#define BS_BIAS_1   \
    if (task->bias) \
        b0 = BS_V_LOAD_PART(task->bias + tile->channel, part);
#define BS_BIAS_2                                                         \
    if (task->bias) {                                                     \
        b0 = BS_V_LOAD(task->bias + tile->channel);                       \
        b1 = BS_V_LOAD_PART(task->bias + tile->channel + BS_LANES, part); \
    }
#define BS_SLOPES_1 s0 = BS_V_LOAD_PART(task->slopes + tile->channel, part);
#define BS_SLOPES_2                               \
    s0 = BS_V_LOAD(task->slopes + tile->channel); \
    s1 = BS_V_LOAD_PART(task->slopes + tile->channel + BS_LANES, part);

#define BS_INIT_1(p) BS_V a##p##_0 = b0;
#define BS_INIT_2(p) BS_V a##p##_0 = b0, a##p##_1 = b1;

#define BS_RESIDUAL_1(p) \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD_PART(residual + (p) * residual_pixel, part));
#define BS_RESIDUAL_2(p)                                                       \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD(residual + (p) * residual_pixel)); \
    a##p##_1 = BS_V_ADD(a##p##_1, BS_V_LOAD_PART(residual + (p) * residual_pixel + BS_LANES, part));

#define BS_CLAMP_1(p) a##p##_0 = BS_V_MIN(high, BS_V_MAX(low, a##p##_0));
#define BS_CLAMP_2(p) BS_CLAMP_1(p) a##p##_1 = BS_V_MIN(high, BS_V_MAX(low, a##p##_1));

#define BS_SLOPE_1(p) a##p##_0 = BS_V_FMA(BS_V_MIN(zero, a##p##_0), s0, BS_V_MAX(zero, a##p##_0));
#define BS_SLOPE_2(p) \
    BS_SLOPE_1(p)     \
    a##p##_1 = BS_V_FMA(BS_V_MIN(zero, a##p##_1), s1, BS_V_MAX(zero, a##p##_1));

#define BS_STORE_1(p) BS_V_STORE_PART(out + (p) * out_pixel, a##p##_0, part);
#define BS_STORE_2(p)                            \
    BS_V_STORE(out + (p) * out_pixel, a##p##_0); \
    BS_V_STORE_PART(out + (p) * out_pixel + BS_LANES, a##p##_1, part);

/* From accumulators to memory: residual, activation, residual, store. */
#define BS_EPILOGUE(P, B)                                                                   \
        const float *residual = tile->residual;                                             \
        const ptrdiff_t residual_pixel = tile->residual_pixel, out_pixel = tile->out_pixel; \
        float *out = tile->out;                                                             \
        if (residual && task->residual_before_activation) {                                 \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        if (task->activation == BS_CONV_RELU || task->activation == BS_CONV_CLIP) {         \
            const bool clip = task->activation == BS_CONV_CLIP;                             \
            const BS_V low = clip ? BS_V_SET1(task->low) : zero;                            \
            const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);                      \
            BS_EACH_##P(BS_CLAMP_##B)                                                       \
        } else if (task->activation != BS_CONV_NONE) {                                      \
            BS_V s0 = BS_V_SET1(task->slope), s1 = s0;                                      \
            if (task->activation == BS_CONV_PRELU) {                                        \
                BS_SLOPES_##B                                                               \
            }                                                                               \
            (void)s1;                                                                       \
            BS_EACH_##P(BS_SLOPE_##B)                                                       \
        }                                                                                   \
        if (residual && !task->residual_before_activation) {                                \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        BS_EACH_##P(BS_STORE_##B)
/* --- end of template kernels/conv_epilogue.inc --- */
/* --- template kernels/conv_outer.inc --- */
/* conv_outer.inc: direct convolution, lanes are output channels.
 *
 * Owns:      for each count of pixels, a kernel that keeps pixels x vectors accumulators in registers.
 * Relies on: a simd_*.h, repeat.h and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant computes
 *            bias, then + input * weight over (kernel row, tap, channel), one operation each, in that order.
 */

/* Pixel p stands at one of four bases plus 0, 1, 2 or 3 steps. */
#define BS_X_0 xa[0]
#define BS_X_1 xa[step]
#define BS_X_2 xa[2 * step]
#define BS_X_3 xa[step3]
#define BS_X_4 xb[0]
#define BS_X_5 xb[step]
#define BS_X_6 xb[2 * step]
#define BS_X_7 xb[step3]
#define BS_X_8 xc[0]
#define BS_X_9 xc[step]
#define BS_X_10 xc[2 * step]
#define BS_X_11 xc[step3]
#define BS_X_12 xd[0]
#define BS_X_13 xd[step]

#define BS_WEIGHTS_1 const BS_V w0 = BS_V_LOAD(w);
#define BS_WEIGHTS_2 const BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);

#define BS_MAC_1(p) a##p##_0 = BS_V_FMA(BS_V_SET1(BS_X_##p), w0, a##p##_0);
#define BS_MAC_2(p)                           \
    {                                         \
        const BS_V x = BS_V_SET1(BS_X_##p);   \
        a##p##_0 = BS_V_FMA(x, w0, a##p##_0); \
        a##p##_1 = BS_V_FMA(x, w1, a##p##_1); \
    }

#define BS_OUTER_DEFINE(P, B)                                                           \
    static BS_TARGET void BS_TIER_FN(bs_conv_outer_##B##_##P)(const bs_conv_tile *tile) \
    {                                                                                   \
        const bs_conv_task *task = tile->task;                                          \
        const BS_V_PART part = BS_V_PART_OF(tile->channels - (B - 1) * BS_LANES);       \
        const BS_V zero = BS_V_ZERO();                                                  \
        BS_V b0 = zero, b1 = zero;                                                      \
        BS_BIAS_##B                                                                     \
        BS_EACH_##P(BS_INIT_##B)                                                        \
        (void)b1;                                                                       \
        const ptrdiff_t step = tile->in_step, step3 = 3 * step;                         \
        const float *w = tile->weights;                                                 \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                \
            ptrdiff_t at = row * in_row;                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {              \
                const float *xa = tile->in + at;                                        \
                const float *xb = xa + (P > 4 ? 4 : 0) * step;                          \
                const float *xc = xa + (P > 8 ? 8 : 0) * step;                          \
                const float *xd = xa + (P > 12 ? 12 : 0) * step;                        \
                int32_t left = tile->run;                                               \
                BS_OUTER_QUADS(P, B)                                                    \
                for (; left > 0; left--) {                                              \
                    BS_OPAQUE(xa);                                                      \
                    BS_OPAQUE(xb);                                                      \
                    BS_OPAQUE(xc);                                                      \
                    BS_OPAQUE(xd);                                                      \
                    BS_WEIGHTS_##B                                                      \
                    BS_EACH_##P(BS_MAC_##B)                                             \
                    xa++, xb++, xc++, xd++;                                             \
                    w += B * BS_LANES;                                                  \
                }                                                                       \
                (void)step3;                                                            \
            }                                                                           \
        }                                                                               \
        BS_EPILOGUE(P, B)                                                               \
    }

#ifdef BS_V_QUAD
/* Four channels of a pixel come in one load and are multiplied by lane (a broadcast load is not free there).
 * Lane after lane over all pixels keeps dependent operations apart; each sum sees the same order. */
#define BS_QUAD_LOAD(p) const BS_V_QUAD q##p = BS_V_QUAD_LOAD(&BS_X_##p);
#define BS_QUAD_1(p, lane) a##p##_0 = BS_V_QUAD_FMA(a##p##_0, w0, q##p, lane);
#define BS_QUAD_2(p, lane) BS_QUAD_1(p, lane) a##p##_1 = BS_V_QUAD_FMA(a##p##_1, w1, q##p, lane);
#define BS_QUAD_1_0(p) BS_QUAD_1(p, 0)
#define BS_QUAD_1_1(p) BS_QUAD_1(p, 1)
#define BS_QUAD_1_2(p) BS_QUAD_1(p, 2)
#define BS_QUAD_1_3(p) BS_QUAD_1(p, 3)
#define BS_QUAD_2_0(p) BS_QUAD_2(p, 0)
#define BS_QUAD_2_1(p) BS_QUAD_2(p, 1)
#define BS_QUAD_2_2(p) BS_QUAD_2(p, 2)
#define BS_QUAD_2_3(p) BS_QUAD_2(p, 3)
#define BS_QUAD_STEP(P, B, lane)          \
    {                                     \
        BS_WEIGHTS_##B                    \
        BS_EACH_##P(BS_QUAD_##B##_##lane) \
        w += B * BS_LANES;                \
    }
#define BS_OUTER_QUADS(P, B)                \
    for (; left >= 4; left -= 4) {          \
        BS_EACH_##P(BS_QUAD_LOAD)           \
        BS_QUAD_STEP(P, B, 0)               \
        BS_QUAD_STEP(P, B, 1)               \
        BS_QUAD_STEP(P, B, 2)               \
        BS_QUAD_STEP(P, B, 3)               \
        xa += 4, xb += 4, xc += 4, xd += 4; \
    }
#else
#define BS_OUTER_QUADS(P, B)
#endif

BS_OUTER_UPTO_1(BS_OUTER_DEFINE)
BS_OUTER_UPTO_2(BS_OUTER_DEFINE)

#define BS_OUTER_NAME(P, B) BS_TIER_FN(bs_conv_outer_##B##_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_1)[] = { NULL, BS_OUTER_UPTO_1(BS_OUTER_NAME) };
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_2)[] = { NULL, BS_OUTER_UPTO_2(BS_OUTER_NAME) };
/* --- end of template kernels/conv_outer.inc --- */
/* --- template kernels/conv_depthwise.inc --- */
/* conv_depthwise.inc: direct convolution of one channel a group, lanes are channels.
 *
 * Owns:      kernels for 1..8 pixels (scalar: 1..4) of one vector of channels.
 * Relies on: simd_*.h, repeat.h, and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels.
 */
#define BS_DEPTHWISE_MAC(p) \
    a##p##_0 = BS_V_FMA(BS_V_LOAD_PART(x + (p) * step, part), w0, a##p##_0);

#define BS_DEPTHWISE_DEFINE(P, unused)                                                \
    static BS_TARGET void BS_TIER_FN(bs_conv_depthwise_##P)(const bs_conv_tile *tile) \
    {                                                                                 \
        const bs_conv_task *task = tile->task;                                        \
        const BS_V_PART part = BS_V_PART_OF(tile->channels);                          \
        const BS_V zero = BS_V_ZERO();                                                \
        const ptrdiff_t step = tile->in_step;                                         \
        const float *w = tile->weights;                                               \
        BS_V b0 = zero;                                                               \
        BS_BIAS_1                                                                     \
        BS_EACH_##P(BS_INIT_1)                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                 \
        for (int32_t row = 0; row < tile->rows; row++) {                              \
            ptrdiff_t at = row * in_row;                                              \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {            \
                const float *x = tile->in + at;                                       \
                const BS_V w0 = BS_V_LOAD(w);                                         \
                BS_EACH_##P(BS_DEPTHWISE_MAC)                                         \
                w += BS_LANES;                                                        \
            }                                                                         \
        }                                                                             \
        BS_EPILOGUE(P, 1)                                                             \
    }

BS_DEPTHWISE_UPTO(BS_DEPTHWISE_DEFINE)

#define BS_DEPTHWISE_NAME(P, unused) BS_TIER_FN(bs_conv_depthwise_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_depthwise)[] = { NULL, BS_DEPTHWISE_UPTO(BS_DEPTHWISE_NAME) };
/* --- end of template kernels/conv_depthwise.inc --- */
/* --- template kernels/conv_dot.inc --- */
/* conv_dot.inc: direct convolution with few outputs (network tails), lanes are input channels. x86 only.
 *
 * Owns:      kernels for 1..4 pixels (AVX2: 1..2) of four outputs: 4 accumulators a pixel, reduced at the end.
 * Relies on: simd_avx2.h or simd_avx512.h, and repeat.h.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant does one FMA a
 *            lane over (kernel row, tap, vector of channels), then BS_V_SUM4's tree, then + bias.
 *
 * With lanes over outputs, 32 -> 4 would leave 12 of 16 idle.
 */
#define BS_DOT_INIT(p) BS_V d##p##_0 = zero, d##p##_1 = zero, d##p##_2 = zero, d##p##_3 = zero;

#define BS_DOT_FMA(p, v)                  \
    d##p##_0 = BS_V_FMA(v, w0, d##p##_0); \
    d##p##_1 = BS_V_FMA(v, w1, d##p##_1); \
    d##p##_2 = BS_V_FMA(v, w2, d##p##_2); \
    d##p##_3 = BS_V_FMA(v, w3, d##p##_3);
#define BS_DOT_WHOLE(p)                              \
    {                                                \
        const BS_V v##p = BS_V_LOAD(x + (p) * step); \
        BS_DOT_FMA(p, v##p)                          \
    }
#define BS_DOT_PART(p)                                          \
    {                                                           \
        const BS_V v##p = BS_V_LOAD_PART(x + (p) * step, part); \
        BS_DOT_FMA(p, v##p)                                     \
    }
#define BS_DOT_STEP(P, LOAD)                                                     \
    {                                                                            \
        BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);                    \
        BS_V w2 = BS_V_LOAD(w + 2 * BS_LANES), w3 = BS_V_LOAD(w + 3 * BS_LANES); \
        BS_HOLD4(w0, w1, w2, w3);                                                \
        BS_EACH_##P(LOAD)                                                        \
        w += 4 * BS_LANES;                                                       \
    }
#define BS_DOT_SUM(p) const __m128 sum##p = BS_V_SUM4(d##p##_0, d##p##_1, d##p##_2, d##p##_3);
#define BS_DOT_STORE(p) _mm_storeu_ps(tile->out + (p) * tile->out_pixel, _mm_add_ps(sum##p, bias));
#define BS_DOT_FINISH(p) BS_TIER_FN(bs_conv_dot_finish)(tile, p, sum##p);

static inline BS_TARGET __m128 BS_TIER_FN(bs_conv_dot_load)(const float *from, __m128i mask)
{
    return _mm_maskload_ps(from, mask);
}

/* Bias, residual and activation of one pixel's four sums: what is not the plain case of a network's tail. */
static BS_TARGET void BS_TIER_FN(bs_conv_dot_finish)(const bs_conv_tile *tile, int32_t pixel, __m128 sums)
{
    const bs_conv_task *task = tile->task;
    const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(tile->channels), _mm_setr_epi32(0, 1, 2, 3));
    float *out = tile->out + pixel * tile->out_pixel;
    const __m128 zero = _mm_setzero_ps();
    __m128 residual = zero;
    if (tile->residual)
        residual = BS_TIER_FN(bs_conv_dot_load)(tile->residual + pixel * tile->residual_pixel, mask);
    if (task->bias)
        sums = _mm_add_ps(sums, BS_TIER_FN(bs_conv_dot_load)(task->bias + tile->channel, mask));
    if (tile->residual && task->residual_before_activation)
        sums = _mm_add_ps(sums, residual);
    if (task->activation == BS_CONV_RELU) {
        sums = _mm_max_ps(zero, sums);
    } else if (task->activation == BS_CONV_CLIP) {
        sums = _mm_min_ps(_mm_set1_ps(task->high), _mm_max_ps(_mm_set1_ps(task->low), sums));
    } else if (task->activation != BS_CONV_NONE) {
        __m128 slope = _mm_set1_ps(task->slope);
        if (task->activation == BS_CONV_PRELU)
            slope = BS_TIER_FN(bs_conv_dot_load)(task->slopes + tile->channel, mask);
        sums = _mm_fmadd_ps(_mm_min_ps(zero, sums), slope, _mm_max_ps(zero, sums));
    }
    if (tile->residual && !task->residual_before_activation)
        sums = _mm_add_ps(sums, residual);
    if (tile->channels == 4) {
        _mm_storeu_ps(out, sums);
        return;
    }
    float all[4];
    _mm_storeu_ps(all, sums);
    for (int32_t i = 0; i < tile->channels; i++)
        out[i] = all[i];
}

#define BS_DOT_DEFINE(P, unused)                                                                        \
    static BS_TARGET void BS_TIER_FN(bs_conv_dot_##P)(const bs_conv_tile *tile)                         \
    {                                                                                                   \
        const BS_V zero = BS_V_ZERO();                                                                  \
        const ptrdiff_t step = tile->in_step;                                                           \
        const int32_t whole = tile->run / BS_LANES, rest = tile->run % BS_LANES;                        \
        const BS_V_PART part = BS_V_PART_OF(rest ? rest : BS_LANES);                                    \
        const float *w = tile->weights;                                                                 \
        BS_EACH_##P(BS_DOT_INIT)                                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                                \
            ptrdiff_t at = row * in_row;                                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {                              \
                const float *x = tile->in + at;                                                         \
                for (int32_t i = 0; i < whole; i++, x += BS_LANES)                                      \
                    BS_DOT_STEP(P, BS_DOT_WHOLE)                                                        \
                if (rest)                                                                               \
                    BS_DOT_STEP(P, BS_DOT_PART)                                                         \
            }                                                                                           \
        }                                                                                               \
        BS_EACH_##P(BS_DOT_SUM)                                                                         \
        const bs_conv_task *task = tile->task;                                                          \
        if (tile->channels == 4 && task->bias && !tile->residual && task->activation == BS_CONV_NONE) { \
            const __m128 bias = _mm_loadu_ps(task->bias + tile->channel);                               \
            BS_EACH_##P(BS_DOT_STORE)                                                                   \
            return;                                                                                     \
        }                                                                                               \
        BS_EACH_##P(BS_DOT_FINISH)                                                                      \
    }

BS_DOT_UPTO(BS_DOT_DEFINE)

#define BS_DOT_NAME(P, unused) BS_TIER_FN(bs_conv_dot_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_dot)[] = { NULL, BS_DOT_UPTO(BS_DOT_NAME) };
/* --- end of template kernels/conv_dot.inc --- */
/* --- template kernels/conv_winograd.inc --- */
/* conv_winograd.inc: the two transforms of F(4x4, 3x3), lanes are channels.
 *
 * Owns:      input patch 6x6 -> 36 points, and 36 points -> output patch 4x4 with its epilogue.
 * Relies on: a simd_*.h and repeat.h before it; conv_winograd.h for the constants and where they come from.
 * Must never: read lanes beyond the channels, or store outside the rows and columns asked for.
 *
 * Both directions work through registers: h<row>_<column> is a patch after its columns were transformed.
 */

/* ------------------------------------------------------------------------------------------ input
 * B^T d B. Rows 0 and 5, 1 and 2 (points a, -a), 3 and 4 (b, -b) of the half-transformed patch are made in
 * turn, 12 vectors at a time; reading the patch again is cheaper than keeping 36. */
#define BS_D0 BS_V_LOAD_PART(d, part)
#define BS_D1 BS_V_LOAD_PART(d + in_row, part)
#define BS_D2 BS_V_LOAD_PART(d + 2 * in_row, part)
#define BS_D3 BS_V_LOAD_PART(d + row3, part)
#define BS_D4 BS_V_LOAD_PART(d + row4, part)
#define BS_D5 BS_V_LOAD_PART(d + row5, part)

/* `d` walks along the columns; opaque, or the compiler makes 36 addresses of it. */
#define BS_COLUMN_OUTER(x)                                                           \
    const BS_V h0_##x = BS_V_FMA(BS_D0, aabb, BS_V_FNMA(BS_D2, sum, BS_D4));         \
    const BS_V h5_##x = BS_V_FMA(BS_D1, aabb, BS_V_FNMA(BS_D3, sum, BS_D5));         \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);
#define BS_COLUMN_PAIR(x)                                                            \
    const BS_V p##x = BS_V_FNMA(BS_D2, other, BS_D4), q##x = BS_V_FNMA(BS_D1, other, BS_D3); \
    const BS_V h1_##x = BS_V_FMA(q##x, point, p##x), h2_##x = BS_V_FNMA(q##x, point, p##x); \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);

/* One row: B^T again, and out. `y` is the row of points, `h` the name of the row in registers. */
#define BS_ROW_IN(y, h)                                                                                      \
    {                                                                                                        \
        float *to = points + (y) * 6 * point_step;                                                           \
        BS_OPAQUE(to);                                                                                       \
        const BS_V pa = BS_V_FNMA(h##_2, bb, h##_4), qa = BS_V_FNMA(h##_1, bb, h##_3);                       \
        const BS_V pb = BS_V_FNMA(h##_2, aa, h##_4), qb = BS_V_FNMA(h##_1, aa, h##_3);                       \
        BS_V_STORE_AT(to, BS_V_FMA(h##_0, aabb, BS_V_FNMA(h##_2, sum, h##_4)));                              \
        BS_V_STORE_AT(to + point_step, BS_V_FMA(qa, a, pa));                                                 \
        BS_V_STORE_AT(to + 2 * point_step, BS_V_FNMA(qa, a, pa));                                            \
        BS_V_STORE_AT(to + step3, BS_V_FMA(qb, b, pb));                                             \
        BS_V_STORE_AT(to + step4, BS_V_FNMA(qb, b, pb));                                            \
        BS_V_STORE_AT(to + step5, BS_V_FMA(h##_1, aabb, BS_V_FNMA(h##_3, sum, h##_5)));             \
    }
#define BS_V_STORE_AT(to, value)     \
    {                                \
        const BS_V stored = value;   \
        BS_V_STORE(to, stored);      \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_in_vector)(const float *in, ptrdiff_t in_row,
                                                                              ptrdiff_t in_pixel, BS_V_PART part,
                                                                              float *points, ptrdiff_t point_step)
{
    const BS_V a = BS_V_SET1(BS_WINOGRAD_A), b = BS_V_SET1(BS_WINOGRAD_B);
    const BS_V aa = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A), bb = BS_V_SET1(BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V aabb = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A * BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V sum = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A + BS_WINOGRAD_B * BS_WINOGRAD_B);
    ptrdiff_t row3 = 3 * in_row, row4 = 4 * in_row, row5 = 5 * in_row;
    ptrdiff_t step3 = 3 * point_step, step4 = 4 * point_step, step5 = 5 * point_step;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(step3);
    BS_OPAQUE(step4);
    BS_OPAQUE(step5);
    {
        const float *d = in;
        BS_EACH_6(BS_COLUMN_OUTER)
        BS_ROW_IN(0, h0)
        BS_ROW_IN(5, h5)
    }
    {
        const float *d = in;
        const BS_V point = a, other = bb;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(1, h1)
        BS_ROW_IN(2, h2)
    }
    {
        const float *d = in;
        const BS_V point = b, other = aa;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(3, h1)
        BS_ROW_IN(4, h2)
    }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_in)(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel,
                                                      int32_t channels, float *points, ptrdiff_t point_step)
{
    for (; channels >= BS_LANES; channels -= BS_LANES, in += BS_LANES, points += BS_LANES)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(BS_LANES), points, point_step);
    if (channels > 0)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(channels), points, point_step);
}

/* ----------------------------------------------------------------------------------------- output
 * A^T m A up to the factors a^(row + column), which come with the bias: with b = 2a only 2, 4, 8 remain. */
#define BS_M0 BS_V_LOAD(m)
#define BS_M1 BS_V_LOAD(m + row)
#define BS_M2 BS_V_LOAD(m + 2 * row)
#define BS_M3 BS_V_LOAD(m + row3)
#define BS_M4 BS_V_LOAD(m + row4)
#define BS_M5 BS_V_LOAD(m + row5)

#define BS_COLUMN_OUT(x)                                                                       \
    const BS_V s##x = BS_V_ADD(BS_M1, BS_M2), d##x = BS_V_SUB(BS_M1, BS_M2); \
    const BS_V u##x = BS_V_ADD(BS_M3, BS_M4), v##x = BS_V_SUB(BS_M3, BS_M4); \
    const BS_V h0_##x = BS_V_ADD(BS_V_ADD(BS_M0, s##x), u##x);                            \
    const BS_V h1_##x = BS_V_FMA(v##x, two, d##x);                                             \
    const BS_V h2_##x = BS_V_FMA(u##x, four, s##x);                                            \
    const BS_V h3_##x = BS_V_FMA(v##x, eight, BS_V_ADD(BS_M5, d##x));                          \
    m += point_step;                                                                           \
    BS_OPAQUE(m);

/* One row: A^T again, factor and bias, clamp, and out. */
#define BS_ROW_OUT(y)                                                                          \
    {                                                                                          \
        const BS_V s = BS_V_ADD(h##y##_1, h##y##_2), d = BS_V_SUB(h##y##_1, h##y##_2);         \
        const BS_V u = BS_V_ADD(h##y##_3, h##y##_4), v = BS_V_SUB(h##y##_3, h##y##_4);         \
        BS_STORE_OUT(to, (y) + 0, BS_V_ADD(BS_V_ADD(h##y##_0, s), u))                          \
        BS_STORE_OUT(to + to_pixel, (y) + 1, BS_V_FMA(v, two, d))                              \
        BS_STORE_OUT(to + 2 * to_pixel, (y) + 2, BS_V_FMA(u, four, s))                         \
        BS_STORE_OUT(to + to_pixel3, (y) + 3, BS_V_FMA(v, eight, BS_V_ADD(h##y##_5, d)))       \
        to += to_row;                                                                          \
        BS_OPAQUE(to);                                                                         \
    }
#define BS_STORE_OUT(at, power, value)                                                         \
    {                                                                                          \
        BS_V scaled = BS_V_FMA(value, BS_V_SET1(bs_conv_winograd_scale[power]), bias);         \
        scaled = BS_V_MAX(low, scaled);                                                        \
        scaled = BS_V_MIN(high, scaled);                                                       \
        BS_V_STORE_PART(at, scaled, part);                                                     \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_out_vector)(const float *points,
                                                                               ptrdiff_t point_step, BS_V bias,
                                                                               BS_V low, BS_V high, float *to,
                                                                               ptrdiff_t to_row, ptrdiff_t to_pixel,
                                                                               BS_V_PART part)
{
    const BS_V two = BS_V_SET1(2), four = BS_V_SET1(4), eight = BS_V_SET1(8);
    const ptrdiff_t row = 6 * point_step;
    ptrdiff_t row3 = 3 * row, row4 = 4 * row, row5 = 5 * row, to_pixel3 = 3 * to_pixel;
    const float *m = points;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(to_pixel3);
    BS_EACH_6(BS_COLUMN_OUT)
    BS_ROW_OUT(0)
    BS_ROW_OUT(1)
    BS_ROW_OUT(2)
    BS_ROW_OUT(3)
}

/* One vector of a patch with everything that is not a clamp after the bias: residuals, slopes, ragged edges. */
static BS_TARGET void BS_TIER_FN(bs_conv_winograd_finish)(const float *patch, const bs_conv_tile *tile, int32_t channel,
                                                          ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows,
                                                          int32_t columns, BS_V low, BS_V high)
{
    const bs_conv_task *task = tile->task;
    const BS_V_PART part = BS_V_PART_OF(bs_conv_min(tile->channels - channel, BS_LANES));
    const bool sloped = task->activation == BS_CONV_LEAKY || task->activation == BS_CONV_PRELU;
    const bool before = tile->residual && task->residual_before_activation;
    const bool after = tile->residual && !task->residual_before_activation;
    const BS_V zero = BS_V_ZERO();
    BS_V slope = BS_V_SET1(task->slope);
    if (task->activation == BS_CONV_PRELU)
        slope = BS_V_LOAD_PART(task->slopes + channel, part);
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++) {
            BS_V v = BS_V_LOAD(patch + (4 * y + x) * BS_LANES), residual = zero;
            if (tile->residual)
                residual = BS_V_LOAD_PART(tile->residual + y * residual_row + x * tile->residual_pixel + channel, part);
            if (before)
                v = BS_V_ADD(v, residual);
            v = BS_V_MAX(low, v);
            v = BS_V_MIN(high, v);
            if (sloped)
                v = BS_V_FMA(BS_V_MIN(zero, v), slope, BS_V_MAX(zero, v));
            if (after)
                v = BS_V_ADD(v, residual);
            BS_V_STORE_PART(tile->out + y * out_row + x * tile->out_pixel + channel, v, part);
        }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_out)(const float *points, ptrdiff_t point_step,
                                                       const bs_conv_tile *tile, ptrdiff_t out_row,
                                                       ptrdiff_t residual_row, int32_t rows, int32_t columns)
{
    const bs_conv_task *task = tile->task;
    const bool clip = task->activation == BS_CONV_CLIP, clamp = clip || task->activation == BS_CONV_RELU;
    const BS_V low = BS_V_SET1(clip ? task->low : clamp ? 0.0f : -INFINITY);
    const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);
    const BS_V lowest = BS_V_SET1(-INFINITY), highest = BS_V_SET1(INFINITY);
    const bool straight = rows == 4 && columns == 4 && !tile->residual && (clamp || task->activation == BS_CONV_NONE);
    for (int32_t c = 0; c < tile->channels; c += BS_LANES, points += BS_LANES) {
        const int32_t valid = bs_conv_min(tile->channels - c, BS_LANES);
        BS_V bias = BS_V_ZERO();
        if (task->bias)
            bias = BS_V_LOAD_PART(task->bias + c, BS_V_PART_OF(valid));
        if (straight && valid == BS_LANES) {
            BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, low, high, tile->out + c, out_row,
                                                    tile->out_pixel, BS_V_PART_OF(BS_LANES));
            continue;
        }
        float patch[16 * BS_LANES];
        BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, lowest, highest, patch, 4 * BS_LANES,
                                                BS_LANES, BS_V_PART_OF(BS_LANES));
        BS_TIER_FN(bs_conv_winograd_finish)(patch, tile, c, out_row, residual_row, rows, columns, low, high);
    }
}
/* --- end of template kernels/conv_winograd.inc --- */

static const bs_conv_kernels bs_conv_table_avx2 = {
    .lanes = BS_LANES,
    .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },
    .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },
    .dot_pixels = BS_DOT_PIXELS,
    .dot = BS_TIER_FN(bs_conv_dot),
    .depthwise_pixels = BS_DEPTHWISE_PIXELS,
    .depthwise = BS_TIER_FN(bs_conv_depthwise),
    .winograd_in = BS_TIER_FN(bs_conv_winograd_in),
    .winograd_out = BS_TIER_FN(bs_conv_winograd_out),
};

/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

const bs_conv_kernels *bs_conv_kernels_avx2(void)
{
    return &bs_conv_table_avx2;
}
#else
const bs_conv_kernels *bs_conv_kernels_avx2(void)
{
    return NULL;
}
#endif
/* ==== end src/kernels/conv_avx2.c ============================================================= */

/* ==== begin src/kernels/conv_avx512.c ========================================================= */
/* conv_avx512.c: the convolution kernels of one tier, AVX-512.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_avx512.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_avx512.h.
 */
/* #include "kernels/conv_internal.h" */
/* #include "kernels/conv_winograd.h" */

#if BS_HAVE_X86_TIERS
/* --- template kernels/simd_avx512.h --- */
/* simd_avx512.h: the vector vocabulary of the kernel templates, AVX-512 (F, BW, DQ, VL).
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx512.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>

#define BS_TIER_FN(name) name##_avx512
#define BS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define BS_LANES 16
#define BS_V __m512
#define BS_V_ZERO() _mm512_setzero_ps()
#define BS_V_SET1(x) _mm512_set1_ps(x)
#define BS_V_LOAD(p) _mm512_loadu_ps(p)
#define BS_V_STORE(p, v) _mm512_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm512_add_ps(a, b)
#define BS_V_SUB(a, b) _mm512_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm512_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm512_max_ps(a, b)
#define BS_V_MIN(a, b) _mm512_min_ps(a, b)

/* A part stands for the valid lanes, 1..BS_LANES of them; the others are neither read nor written. */
#define BS_V_PART __mmask16
#define BS_V_PART_OF(n) ((__mmask16)(0xffffu >> (BS_LANES - (n))))
#define BS_V_LOAD_PART(p, part) _mm512_maskz_loadu_ps(part, p)
#define BS_V_STORE_PART(p, v, part) _mm512_mask_storeu_ps(p, part, v)

/* Stops the compiler from turning a base and its multiples into one pointer for each pixel: x86 adds
 * base + index * scale for nothing, and fourteen pointers do not fit the registers. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 14
#define BS_OUTER_PIXELS_2 14
#define BS_OUTER_UPTO_1(M) BS_UPTO_14(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_14(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD4(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#define BS_DOT_PIXELS 4
#define BS_DOT_UPTO(M) BS_UPTO_4(M, 0)

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx512(a, b, c, d)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx512(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx512(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx512(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx512(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx512(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx512(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx512(a, b)

#ifndef BS_SIMD_AVX512_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX512_FUNCTIONS

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 t = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(t), _mm512_extractf32x8_ps(t, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

static inline BS_TARGET __m512 bs_load_u8_avx512(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m512 bs_load_u16_avx512(const uint16_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

static inline BS_TARGET void bs_store_u8_avx512(uint8_t *to, __m512 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_u16_avx512(uint16_t *to, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx512(uint8_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 8);
    const __m512i pairs = _mm512_or_si512(_mm512_cvttps_epi32(even), high);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx512(uint16_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 16);
    _mm512_storeu_si512(to, _mm512_or_si512(_mm512_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx512(float *to, __m512 even, __m512 odd)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(to + BS_LANES, _mm512_permutex2var_ps(even, second, odd));
}

static inline BS_TARGET __m512 bs_even_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

static inline BS_TARGET __m512 bs_odd_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

#endif
/* --- end of template kernels/simd_avx512.h --- */

/* --- template kernels/repeat.h --- */
/* repeat.h: loops over small constants, written out by the preprocessor.
 *
 * Owns:      BS_EACH_n(M): M(0) ... M(n-1), and BS_UPTO_n(M, x): M(1, x) ... M(n, x).
 * Relies on: nothing.
 * Must never: survive a template: simd_end.h undefines all of it.
 *
 * Why not loops: accumulators must be separate variables to live in registers with every compiler and at -O2.
 */
#define BS_EACH_1(M) M(0)
#define BS_EACH_2(M) BS_EACH_1(M) M(1)
#define BS_EACH_3(M) BS_EACH_2(M) M(2)
#define BS_EACH_4(M) BS_EACH_3(M) M(3)
#define BS_EACH_5(M) BS_EACH_4(M) M(4)
#define BS_EACH_6(M) BS_EACH_5(M) M(5)
#define BS_EACH_7(M) BS_EACH_6(M) M(6)
#define BS_EACH_8(M) BS_EACH_7(M) M(7)
#define BS_EACH_9(M) BS_EACH_8(M) M(8)
#define BS_EACH_10(M) BS_EACH_9(M) M(9)
#define BS_EACH_11(M) BS_EACH_10(M) M(10)
#define BS_EACH_12(M) BS_EACH_11(M) M(11)
#define BS_EACH_13(M) BS_EACH_12(M) M(12)
#define BS_EACH_14(M) BS_EACH_13(M) M(13)

#define BS_UPTO_4(M, x) M(1, x) M(2, x) M(3, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_5(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_6(M, x) M(7, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(9, x) M(10, x) M(11, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_12(M, x) M(13, x) M(14, x)
/* --- end of template kernels/repeat.h --- */

/* --- template kernels/conv_epilogue.inc --- */
/* conv_epilogue.inc: how an accumulator tile starts and ends: bias, residual, activation, store.
 *
 * Owns:      macros over accumulators named a<pixel>_<vector>, for one vector of output channels or two.
 * Relies on: a simd_*.h and repeat.h before it; `tile`, `task`, `part` and `zero` in the kernel that uses it.
 * Must never: touch lanes beyond `part` of the last vector.
 */
#include <math.h> /* INFINITY */

/* One vector of output channels, or two. Of the last vector only `part` is valid. */
#define BS_BIAS_1   \
    if (task->bias) \
        b0 = BS_V_LOAD_PART(task->bias + tile->channel, part);
#define BS_BIAS_2                                                         \
    if (task->bias) {                                                     \
        b0 = BS_V_LOAD(task->bias + tile->channel);                       \
        b1 = BS_V_LOAD_PART(task->bias + tile->channel + BS_LANES, part); \
    }
#define BS_SLOPES_1 s0 = BS_V_LOAD_PART(task->slopes + tile->channel, part);
#define BS_SLOPES_2                               \
    s0 = BS_V_LOAD(task->slopes + tile->channel); \
    s1 = BS_V_LOAD_PART(task->slopes + tile->channel + BS_LANES, part);

#define BS_INIT_1(p) BS_V a##p##_0 = b0;
#define BS_INIT_2(p) BS_V a##p##_0 = b0, a##p##_1 = b1;

#define BS_RESIDUAL_1(p) \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD_PART(residual + (p) * residual_pixel, part));
#define BS_RESIDUAL_2(p)                                                       \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD(residual + (p) * residual_pixel)); \
    a##p##_1 = BS_V_ADD(a##p##_1, BS_V_LOAD_PART(residual + (p) * residual_pixel + BS_LANES, part));

#define BS_CLAMP_1(p) a##p##_0 = BS_V_MIN(high, BS_V_MAX(low, a##p##_0));
#define BS_CLAMP_2(p) BS_CLAMP_1(p) a##p##_1 = BS_V_MIN(high, BS_V_MAX(low, a##p##_1));

#define BS_SLOPE_1(p) a##p##_0 = BS_V_FMA(BS_V_MIN(zero, a##p##_0), s0, BS_V_MAX(zero, a##p##_0));
#define BS_SLOPE_2(p) \
    BS_SLOPE_1(p)     \
    a##p##_1 = BS_V_FMA(BS_V_MIN(zero, a##p##_1), s1, BS_V_MAX(zero, a##p##_1));

#define BS_STORE_1(p) BS_V_STORE_PART(out + (p) * out_pixel, a##p##_0, part);
#define BS_STORE_2(p)                            \
    BS_V_STORE(out + (p) * out_pixel, a##p##_0); \
    BS_V_STORE_PART(out + (p) * out_pixel + BS_LANES, a##p##_1, part);

/* From accumulators to memory: residual, activation, residual, store. */
#define BS_EPILOGUE(P, B)                                                                   \
        const float *residual = tile->residual;                                             \
        const ptrdiff_t residual_pixel = tile->residual_pixel, out_pixel = tile->out_pixel; \
        float *out = tile->out;                                                             \
        if (residual && task->residual_before_activation) {                                 \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        if (task->activation == BS_CONV_RELU || task->activation == BS_CONV_CLIP) {         \
            const bool clip = task->activation == BS_CONV_CLIP;                             \
            const BS_V low = clip ? BS_V_SET1(task->low) : zero;                            \
            const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);                      \
            BS_EACH_##P(BS_CLAMP_##B)                                                       \
        } else if (task->activation != BS_CONV_NONE) {                                      \
            BS_V s0 = BS_V_SET1(task->slope), s1 = s0;                                      \
            if (task->activation == BS_CONV_PRELU) {                                        \
                BS_SLOPES_##B                                                               \
            }                                                                               \
            (void)s1;                                                                       \
            BS_EACH_##P(BS_SLOPE_##B)                                                       \
        }                                                                                   \
        if (residual && !task->residual_before_activation) {                                \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        BS_EACH_##P(BS_STORE_##B)
/* --- end of template kernels/conv_epilogue.inc --- */
/* --- template kernels/conv_outer.inc --- */
/* conv_outer.inc: direct convolution, lanes are output channels.
 *
 * Owns:      for each count of pixels, a kernel that keeps pixels x vectors accumulators in registers.
 * Relies on: a simd_*.h, repeat.h and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant computes
 *            bias, then + input * weight over (kernel row, tap, channel), one operation each, in that order.
 */

/* Pixel p stands at one of four bases plus 0, 1, 2 or 3 steps. */
#define BS_X_0 xa[0]
#define BS_X_1 xa[step]
#define BS_X_2 xa[2 * step]
#define BS_X_3 xa[step3]
#define BS_X_4 xb[0]
#define BS_X_5 xb[step]
#define BS_X_6 xb[2 * step]
#define BS_X_7 xb[step3]
#define BS_X_8 xc[0]
#define BS_X_9 xc[step]
#define BS_X_10 xc[2 * step]
#define BS_X_11 xc[step3]
#define BS_X_12 xd[0]
#define BS_X_13 xd[step]

#define BS_WEIGHTS_1 const BS_V w0 = BS_V_LOAD(w);
#define BS_WEIGHTS_2 const BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);

#define BS_MAC_1(p) a##p##_0 = BS_V_FMA(BS_V_SET1(BS_X_##p), w0, a##p##_0);
#define BS_MAC_2(p)                           \
    {                                         \
        const BS_V x = BS_V_SET1(BS_X_##p);   \
        a##p##_0 = BS_V_FMA(x, w0, a##p##_0); \
        a##p##_1 = BS_V_FMA(x, w1, a##p##_1); \
    }

#define BS_OUTER_DEFINE(P, B)                                                           \
    static BS_TARGET void BS_TIER_FN(bs_conv_outer_##B##_##P)(const bs_conv_tile *tile) \
    {                                                                                   \
        const bs_conv_task *task = tile->task;                                          \
        const BS_V_PART part = BS_V_PART_OF(tile->channels - (B - 1) * BS_LANES);       \
        const BS_V zero = BS_V_ZERO();                                                  \
        BS_V b0 = zero, b1 = zero;                                                      \
        BS_BIAS_##B                                                                     \
        BS_EACH_##P(BS_INIT_##B)                                                        \
        (void)b1;                                                                       \
        const ptrdiff_t step = tile->in_step, step3 = 3 * step;                         \
        const float *w = tile->weights;                                                 \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                \
            ptrdiff_t at = row * in_row;                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {              \
                const float *xa = tile->in + at;                                        \
                const float *xb = xa + (P > 4 ? 4 : 0) * step;                          \
                const float *xc = xa + (P > 8 ? 8 : 0) * step;                          \
                const float *xd = xa + (P > 12 ? 12 : 0) * step;                        \
                int32_t left = tile->run;                                               \
                BS_OUTER_QUADS(P, B)                                                    \
                for (; left > 0; left--) {                                              \
                    BS_OPAQUE(xa);                                                      \
                    BS_OPAQUE(xb);                                                      \
                    BS_OPAQUE(xc);                                                      \
                    BS_OPAQUE(xd);                                                      \
                    BS_WEIGHTS_##B                                                      \
                    BS_EACH_##P(BS_MAC_##B)                                             \
                    xa++, xb++, xc++, xd++;                                             \
                    w += B * BS_LANES;                                                  \
                }                                                                       \
                (void)step3;                                                            \
            }                                                                           \
        }                                                                               \
        BS_EPILOGUE(P, B)                                                               \
    }

#ifdef BS_V_QUAD
/* Four channels of a pixel come in one load and are multiplied by lane (a broadcast load is not free there).
 * Lane after lane over all pixels keeps dependent operations apart; each sum sees the same order. */
#define BS_QUAD_LOAD(p) const BS_V_QUAD q##p = BS_V_QUAD_LOAD(&BS_X_##p);
#define BS_QUAD_1(p, lane) a##p##_0 = BS_V_QUAD_FMA(a##p##_0, w0, q##p, lane);
#define BS_QUAD_2(p, lane) BS_QUAD_1(p, lane) a##p##_1 = BS_V_QUAD_FMA(a##p##_1, w1, q##p, lane);
#define BS_QUAD_1_0(p) BS_QUAD_1(p, 0)
#define BS_QUAD_1_1(p) BS_QUAD_1(p, 1)
#define BS_QUAD_1_2(p) BS_QUAD_1(p, 2)
#define BS_QUAD_1_3(p) BS_QUAD_1(p, 3)
#define BS_QUAD_2_0(p) BS_QUAD_2(p, 0)
#define BS_QUAD_2_1(p) BS_QUAD_2(p, 1)
#define BS_QUAD_2_2(p) BS_QUAD_2(p, 2)
#define BS_QUAD_2_3(p) BS_QUAD_2(p, 3)
#define BS_QUAD_STEP(P, B, lane)          \
    {                                     \
        BS_WEIGHTS_##B                    \
        BS_EACH_##P(BS_QUAD_##B##_##lane) \
        w += B * BS_LANES;                \
    }
#define BS_OUTER_QUADS(P, B)                \
    for (; left >= 4; left -= 4) {          \
        BS_EACH_##P(BS_QUAD_LOAD)           \
        BS_QUAD_STEP(P, B, 0)               \
        BS_QUAD_STEP(P, B, 1)               \
        BS_QUAD_STEP(P, B, 2)               \
        BS_QUAD_STEP(P, B, 3)               \
        xa += 4, xb += 4, xc += 4, xd += 4; \
    }
#else
#define BS_OUTER_QUADS(P, B)
#endif

BS_OUTER_UPTO_1(BS_OUTER_DEFINE)
BS_OUTER_UPTO_2(BS_OUTER_DEFINE)

#define BS_OUTER_NAME(P, B) BS_TIER_FN(bs_conv_outer_##B##_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_1)[] = { NULL, BS_OUTER_UPTO_1(BS_OUTER_NAME) };
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_2)[] = { NULL, BS_OUTER_UPTO_2(BS_OUTER_NAME) };
/* --- end of template kernels/conv_outer.inc --- */
/* --- template kernels/conv_depthwise.inc --- */
/* conv_depthwise.inc: direct convolution of one channel a group, lanes are channels.
 *
 * Owns:      kernels for 1..8 pixels (scalar: 1..4) of one vector of channels.
 * Relies on: simd_*.h, repeat.h, and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels.
 */
#define BS_DEPTHWISE_MAC(p) \
    a##p##_0 = BS_V_FMA(BS_V_LOAD_PART(x + (p) * step, part), w0, a##p##_0);

#define BS_DEPTHWISE_DEFINE(P, unused)                                                \
    static BS_TARGET void BS_TIER_FN(bs_conv_depthwise_##P)(const bs_conv_tile *tile) \
    {                                                                                 \
        const bs_conv_task *task = tile->task;                                        \
        const BS_V_PART part = BS_V_PART_OF(tile->channels);                          \
        const BS_V zero = BS_V_ZERO();                                                \
        const ptrdiff_t step = tile->in_step;                                         \
        const float *w = tile->weights;                                               \
        BS_V b0 = zero;                                                               \
        BS_BIAS_1                                                                     \
        BS_EACH_##P(BS_INIT_1)                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                 \
        for (int32_t row = 0; row < tile->rows; row++) {                              \
            ptrdiff_t at = row * in_row;                                              \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {            \
                const float *x = tile->in + at;                                       \
                const BS_V w0 = BS_V_LOAD(w);                                         \
                BS_EACH_##P(BS_DEPTHWISE_MAC)                                         \
                w += BS_LANES;                                                        \
            }                                                                         \
        }                                                                             \
        BS_EPILOGUE(P, 1)                                                             \
    }

BS_DEPTHWISE_UPTO(BS_DEPTHWISE_DEFINE)

#define BS_DEPTHWISE_NAME(P, unused) BS_TIER_FN(bs_conv_depthwise_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_depthwise)[] = { NULL, BS_DEPTHWISE_UPTO(BS_DEPTHWISE_NAME) };
/* --- end of template kernels/conv_depthwise.inc --- */
/* --- template kernels/conv_dot.inc --- */
/* conv_dot.inc: direct convolution with few outputs (network tails), lanes are input channels. x86 only.
 *
 * Owns:      kernels for 1..4 pixels (AVX2: 1..2) of four outputs: 4 accumulators a pixel, reduced at the end.
 * Relies on: simd_avx2.h or simd_avx512.h, and repeat.h.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant does one FMA a
 *            lane over (kernel row, tap, vector of channels), then BS_V_SUM4's tree, then + bias.
 *
 * With lanes over outputs, 32 -> 4 would leave 12 of 16 idle.
 */
#define BS_DOT_INIT(p) BS_V d##p##_0 = zero, d##p##_1 = zero, d##p##_2 = zero, d##p##_3 = zero;

#define BS_DOT_FMA(p, v)                  \
    d##p##_0 = BS_V_FMA(v, w0, d##p##_0); \
    d##p##_1 = BS_V_FMA(v, w1, d##p##_1); \
    d##p##_2 = BS_V_FMA(v, w2, d##p##_2); \
    d##p##_3 = BS_V_FMA(v, w3, d##p##_3);
#define BS_DOT_WHOLE(p)                              \
    {                                                \
        const BS_V v##p = BS_V_LOAD(x + (p) * step); \
        BS_DOT_FMA(p, v##p)                          \
    }
#define BS_DOT_PART(p)                                          \
    {                                                           \
        const BS_V v##p = BS_V_LOAD_PART(x + (p) * step, part); \
        BS_DOT_FMA(p, v##p)                                     \
    }
#define BS_DOT_STEP(P, LOAD)                                                     \
    {                                                                            \
        BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);                    \
        BS_V w2 = BS_V_LOAD(w + 2 * BS_LANES), w3 = BS_V_LOAD(w + 3 * BS_LANES); \
        BS_HOLD4(w0, w1, w2, w3);                                                \
        BS_EACH_##P(LOAD)                                                        \
        w += 4 * BS_LANES;                                                       \
    }
#define BS_DOT_SUM(p) const __m128 sum##p = BS_V_SUM4(d##p##_0, d##p##_1, d##p##_2, d##p##_3);
#define BS_DOT_STORE(p) _mm_storeu_ps(tile->out + (p) * tile->out_pixel, _mm_add_ps(sum##p, bias));
#define BS_DOT_FINISH(p) BS_TIER_FN(bs_conv_dot_finish)(tile, p, sum##p);

static inline BS_TARGET __m128 BS_TIER_FN(bs_conv_dot_load)(const float *from, __m128i mask)
{
    return _mm_maskload_ps(from, mask);
}

/* Bias, residual and activation of one pixel's four sums: what is not the plain case of a network's tail. */
static BS_TARGET void BS_TIER_FN(bs_conv_dot_finish)(const bs_conv_tile *tile, int32_t pixel, __m128 sums)
{
    const bs_conv_task *task = tile->task;
    const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(tile->channels), _mm_setr_epi32(0, 1, 2, 3));
    float *out = tile->out + pixel * tile->out_pixel;
    const __m128 zero = _mm_setzero_ps();
    __m128 residual = zero;
    if (tile->residual)
        residual = BS_TIER_FN(bs_conv_dot_load)(tile->residual + pixel * tile->residual_pixel, mask);
    if (task->bias)
        sums = _mm_add_ps(sums, BS_TIER_FN(bs_conv_dot_load)(task->bias + tile->channel, mask));
    if (tile->residual && task->residual_before_activation)
        sums = _mm_add_ps(sums, residual);
    if (task->activation == BS_CONV_RELU) {
        sums = _mm_max_ps(zero, sums);
    } else if (task->activation == BS_CONV_CLIP) {
        sums = _mm_min_ps(_mm_set1_ps(task->high), _mm_max_ps(_mm_set1_ps(task->low), sums));
    } else if (task->activation != BS_CONV_NONE) {
        __m128 slope = _mm_set1_ps(task->slope);
        if (task->activation == BS_CONV_PRELU)
            slope = BS_TIER_FN(bs_conv_dot_load)(task->slopes + tile->channel, mask);
        sums = _mm_fmadd_ps(_mm_min_ps(zero, sums), slope, _mm_max_ps(zero, sums));
    }
    if (tile->residual && !task->residual_before_activation)
        sums = _mm_add_ps(sums, residual);
    if (tile->channels == 4) {
        _mm_storeu_ps(out, sums);
        return;
    }
    float all[4];
    _mm_storeu_ps(all, sums);
    for (int32_t i = 0; i < tile->channels; i++)
        out[i] = all[i];
}

#define BS_DOT_DEFINE(P, unused)                                                                        \
    static BS_TARGET void BS_TIER_FN(bs_conv_dot_##P)(const bs_conv_tile *tile)                         \
    {                                                                                                   \
        const BS_V zero = BS_V_ZERO();                                                                  \
        const ptrdiff_t step = tile->in_step;                                                           \
        const int32_t whole = tile->run / BS_LANES, rest = tile->run % BS_LANES;                        \
        const BS_V_PART part = BS_V_PART_OF(rest ? rest : BS_LANES);                                    \
        const float *w = tile->weights;                                                                 \
        BS_EACH_##P(BS_DOT_INIT)                                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                                \
            ptrdiff_t at = row * in_row;                                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {                              \
                const float *x = tile->in + at;                                                         \
                for (int32_t i = 0; i < whole; i++, x += BS_LANES)                                      \
                    BS_DOT_STEP(P, BS_DOT_WHOLE)                                                        \
                if (rest)                                                                               \
                    BS_DOT_STEP(P, BS_DOT_PART)                                                         \
            }                                                                                           \
        }                                                                                               \
        BS_EACH_##P(BS_DOT_SUM)                                                                         \
        const bs_conv_task *task = tile->task;                                                          \
        if (tile->channels == 4 && task->bias && !tile->residual && task->activation == BS_CONV_NONE) { \
            const __m128 bias = _mm_loadu_ps(task->bias + tile->channel);                               \
            BS_EACH_##P(BS_DOT_STORE)                                                                   \
            return;                                                                                     \
        }                                                                                               \
        BS_EACH_##P(BS_DOT_FINISH)                                                                      \
    }

BS_DOT_UPTO(BS_DOT_DEFINE)

#define BS_DOT_NAME(P, unused) BS_TIER_FN(bs_conv_dot_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_dot)[] = { NULL, BS_DOT_UPTO(BS_DOT_NAME) };
/* --- end of template kernels/conv_dot.inc --- */
/* --- template kernels/conv_winograd.inc --- */
/* conv_winograd.inc: the two transforms of F(4x4, 3x3), lanes are channels.
 *
 * Owns:      input patch 6x6 -> 36 points, and 36 points -> output patch 4x4 with its epilogue.
 * Relies on: a simd_*.h and repeat.h before it; conv_winograd.h for the constants and where they come from.
 * Must never: read lanes beyond the channels, or store outside the rows and columns asked for.
 *
 * Both directions work through registers: h<row>_<column> is a patch after its columns were transformed.
 */

/* ------------------------------------------------------------------------------------------ input
 * B^T d B. Rows 0 and 5, 1 and 2 (points a, -a), 3 and 4 (b, -b) of the half-transformed patch are made in
 * turn, 12 vectors at a time; reading the patch again is cheaper than keeping 36. */
#define BS_D0 BS_V_LOAD_PART(d, part)
#define BS_D1 BS_V_LOAD_PART(d + in_row, part)
#define BS_D2 BS_V_LOAD_PART(d + 2 * in_row, part)
#define BS_D3 BS_V_LOAD_PART(d + row3, part)
#define BS_D4 BS_V_LOAD_PART(d + row4, part)
#define BS_D5 BS_V_LOAD_PART(d + row5, part)

/* `d` walks along the columns; opaque, or the compiler makes 36 addresses of it. */
#define BS_COLUMN_OUTER(x)                                                           \
    const BS_V h0_##x = BS_V_FMA(BS_D0, aabb, BS_V_FNMA(BS_D2, sum, BS_D4));         \
    const BS_V h5_##x = BS_V_FMA(BS_D1, aabb, BS_V_FNMA(BS_D3, sum, BS_D5));         \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);
#define BS_COLUMN_PAIR(x)                                                            \
    const BS_V p##x = BS_V_FNMA(BS_D2, other, BS_D4), q##x = BS_V_FNMA(BS_D1, other, BS_D3); \
    const BS_V h1_##x = BS_V_FMA(q##x, point, p##x), h2_##x = BS_V_FNMA(q##x, point, p##x); \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);

/* One row: B^T again, and out. `y` is the row of points, `h` the name of the row in registers. */
#define BS_ROW_IN(y, h)                                                                                      \
    {                                                                                                        \
        float *to = points + (y) * 6 * point_step;                                                           \
        BS_OPAQUE(to);                                                                                       \
        const BS_V pa = BS_V_FNMA(h##_2, bb, h##_4), qa = BS_V_FNMA(h##_1, bb, h##_3);                       \
        const BS_V pb = BS_V_FNMA(h##_2, aa, h##_4), qb = BS_V_FNMA(h##_1, aa, h##_3);                       \
        BS_V_STORE_AT(to, BS_V_FMA(h##_0, aabb, BS_V_FNMA(h##_2, sum, h##_4)));                              \
        BS_V_STORE_AT(to + point_step, BS_V_FMA(qa, a, pa));                                                 \
        BS_V_STORE_AT(to + 2 * point_step, BS_V_FNMA(qa, a, pa));                                            \
        BS_V_STORE_AT(to + step3, BS_V_FMA(qb, b, pb));                                             \
        BS_V_STORE_AT(to + step4, BS_V_FNMA(qb, b, pb));                                            \
        BS_V_STORE_AT(to + step5, BS_V_FMA(h##_1, aabb, BS_V_FNMA(h##_3, sum, h##_5)));             \
    }
#define BS_V_STORE_AT(to, value)     \
    {                                \
        const BS_V stored = value;   \
        BS_V_STORE(to, stored);      \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_in_vector)(const float *in, ptrdiff_t in_row,
                                                                              ptrdiff_t in_pixel, BS_V_PART part,
                                                                              float *points, ptrdiff_t point_step)
{
    const BS_V a = BS_V_SET1(BS_WINOGRAD_A), b = BS_V_SET1(BS_WINOGRAD_B);
    const BS_V aa = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A), bb = BS_V_SET1(BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V aabb = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A * BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V sum = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A + BS_WINOGRAD_B * BS_WINOGRAD_B);
    ptrdiff_t row3 = 3 * in_row, row4 = 4 * in_row, row5 = 5 * in_row;
    ptrdiff_t step3 = 3 * point_step, step4 = 4 * point_step, step5 = 5 * point_step;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(step3);
    BS_OPAQUE(step4);
    BS_OPAQUE(step5);
    {
        const float *d = in;
        BS_EACH_6(BS_COLUMN_OUTER)
        BS_ROW_IN(0, h0)
        BS_ROW_IN(5, h5)
    }
    {
        const float *d = in;
        const BS_V point = a, other = bb;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(1, h1)
        BS_ROW_IN(2, h2)
    }
    {
        const float *d = in;
        const BS_V point = b, other = aa;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(3, h1)
        BS_ROW_IN(4, h2)
    }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_in)(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel,
                                                      int32_t channels, float *points, ptrdiff_t point_step)
{
    for (; channels >= BS_LANES; channels -= BS_LANES, in += BS_LANES, points += BS_LANES)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(BS_LANES), points, point_step);
    if (channels > 0)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(channels), points, point_step);
}

/* ----------------------------------------------------------------------------------------- output
 * A^T m A up to the factors a^(row + column), which come with the bias: with b = 2a only 2, 4, 8 remain. */
#define BS_M0 BS_V_LOAD(m)
#define BS_M1 BS_V_LOAD(m + row)
#define BS_M2 BS_V_LOAD(m + 2 * row)
#define BS_M3 BS_V_LOAD(m + row3)
#define BS_M4 BS_V_LOAD(m + row4)
#define BS_M5 BS_V_LOAD(m + row5)

#define BS_COLUMN_OUT(x)                                                                       \
    const BS_V s##x = BS_V_ADD(BS_M1, BS_M2), d##x = BS_V_SUB(BS_M1, BS_M2); \
    const BS_V u##x = BS_V_ADD(BS_M3, BS_M4), v##x = BS_V_SUB(BS_M3, BS_M4); \
    const BS_V h0_##x = BS_V_ADD(BS_V_ADD(BS_M0, s##x), u##x);                            \
    const BS_V h1_##x = BS_V_FMA(v##x, two, d##x);                                             \
    const BS_V h2_##x = BS_V_FMA(u##x, four, s##x);                                            \
    const BS_V h3_##x = BS_V_FMA(v##x, eight, BS_V_ADD(BS_M5, d##x));                          \
    m += point_step;                                                                           \
    BS_OPAQUE(m);

/* One row: A^T again, factor and bias, clamp, and out. */
#define BS_ROW_OUT(y)                                                                          \
    {                                                                                          \
        const BS_V s = BS_V_ADD(h##y##_1, h##y##_2), d = BS_V_SUB(h##y##_1, h##y##_2);         \
        const BS_V u = BS_V_ADD(h##y##_3, h##y##_4), v = BS_V_SUB(h##y##_3, h##y##_4);         \
        BS_STORE_OUT(to, (y) + 0, BS_V_ADD(BS_V_ADD(h##y##_0, s), u))                          \
        BS_STORE_OUT(to + to_pixel, (y) + 1, BS_V_FMA(v, two, d))                              \
        BS_STORE_OUT(to + 2 * to_pixel, (y) + 2, BS_V_FMA(u, four, s))                         \
        BS_STORE_OUT(to + to_pixel3, (y) + 3, BS_V_FMA(v, eight, BS_V_ADD(h##y##_5, d)))       \
        to += to_row;                                                                          \
        BS_OPAQUE(to);                                                                         \
    }
#define BS_STORE_OUT(at, power, value)                                                         \
    {                                                                                          \
        BS_V scaled = BS_V_FMA(value, BS_V_SET1(bs_conv_winograd_scale[power]), bias);         \
        scaled = BS_V_MAX(low, scaled);                                                        \
        scaled = BS_V_MIN(high, scaled);                                                       \
        BS_V_STORE_PART(at, scaled, part);                                                     \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_out_vector)(const float *points,
                                                                               ptrdiff_t point_step, BS_V bias,
                                                                               BS_V low, BS_V high, float *to,
                                                                               ptrdiff_t to_row, ptrdiff_t to_pixel,
                                                                               BS_V_PART part)
{
    const BS_V two = BS_V_SET1(2), four = BS_V_SET1(4), eight = BS_V_SET1(8);
    const ptrdiff_t row = 6 * point_step;
    ptrdiff_t row3 = 3 * row, row4 = 4 * row, row5 = 5 * row, to_pixel3 = 3 * to_pixel;
    const float *m = points;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(to_pixel3);
    BS_EACH_6(BS_COLUMN_OUT)
    BS_ROW_OUT(0)
    BS_ROW_OUT(1)
    BS_ROW_OUT(2)
    BS_ROW_OUT(3)
}

/* One vector of a patch with everything that is not a clamp after the bias: residuals, slopes, ragged edges. */
static BS_TARGET void BS_TIER_FN(bs_conv_winograd_finish)(const float *patch, const bs_conv_tile *tile, int32_t channel,
                                                          ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows,
                                                          int32_t columns, BS_V low, BS_V high)
{
    const bs_conv_task *task = tile->task;
    const BS_V_PART part = BS_V_PART_OF(bs_conv_min(tile->channels - channel, BS_LANES));
    const bool sloped = task->activation == BS_CONV_LEAKY || task->activation == BS_CONV_PRELU;
    const bool before = tile->residual && task->residual_before_activation;
    const bool after = tile->residual && !task->residual_before_activation;
    const BS_V zero = BS_V_ZERO();
    BS_V slope = BS_V_SET1(task->slope);
    if (task->activation == BS_CONV_PRELU)
        slope = BS_V_LOAD_PART(task->slopes + channel, part);
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++) {
            BS_V v = BS_V_LOAD(patch + (4 * y + x) * BS_LANES), residual = zero;
            if (tile->residual)
                residual = BS_V_LOAD_PART(tile->residual + y * residual_row + x * tile->residual_pixel + channel, part);
            if (before)
                v = BS_V_ADD(v, residual);
            v = BS_V_MAX(low, v);
            v = BS_V_MIN(high, v);
            if (sloped)
                v = BS_V_FMA(BS_V_MIN(zero, v), slope, BS_V_MAX(zero, v));
            if (after)
                v = BS_V_ADD(v, residual);
            BS_V_STORE_PART(tile->out + y * out_row + x * tile->out_pixel + channel, v, part);
        }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_out)(const float *points, ptrdiff_t point_step,
                                                       const bs_conv_tile *tile, ptrdiff_t out_row,
                                                       ptrdiff_t residual_row, int32_t rows, int32_t columns)
{
    const bs_conv_task *task = tile->task;
    const bool clip = task->activation == BS_CONV_CLIP, clamp = clip || task->activation == BS_CONV_RELU;
    const BS_V low = BS_V_SET1(clip ? task->low : clamp ? 0.0f : -INFINITY);
    const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);
    const BS_V lowest = BS_V_SET1(-INFINITY), highest = BS_V_SET1(INFINITY);
    const bool straight = rows == 4 && columns == 4 && !tile->residual && (clamp || task->activation == BS_CONV_NONE);
    for (int32_t c = 0; c < tile->channels; c += BS_LANES, points += BS_LANES) {
        const int32_t valid = bs_conv_min(tile->channels - c, BS_LANES);
        BS_V bias = BS_V_ZERO();
        if (task->bias)
            bias = BS_V_LOAD_PART(task->bias + c, BS_V_PART_OF(valid));
        if (straight && valid == BS_LANES) {
            BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, low, high, tile->out + c, out_row,
                                                    tile->out_pixel, BS_V_PART_OF(BS_LANES));
            continue;
        }
        float patch[16 * BS_LANES];
        BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, lowest, highest, patch, 4 * BS_LANES,
                                                BS_LANES, BS_V_PART_OF(BS_LANES));
        BS_TIER_FN(bs_conv_winograd_finish)(patch, tile, c, out_row, residual_row, rows, columns, low, high);
    }
}
/* --- end of template kernels/conv_winograd.inc --- */

static const bs_conv_kernels bs_conv_table_avx512 = {
    .lanes = BS_LANES,
    .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },
    .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },
    .dot_pixels = BS_DOT_PIXELS,
    .dot = BS_TIER_FN(bs_conv_dot),
    .depthwise_pixels = BS_DEPTHWISE_PIXELS,
    .depthwise = BS_TIER_FN(bs_conv_depthwise),
    .winograd_in = BS_TIER_FN(bs_conv_winograd_in),
    .winograd_out = BS_TIER_FN(bs_conv_winograd_out),
};

/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

const bs_conv_kernels *bs_conv_kernels_avx512(void)
{
    return &bs_conv_table_avx512;
}
#else
const bs_conv_kernels *bs_conv_kernels_avx512(void)
{
    return NULL;
}
#endif
/* ==== end src/kernels/conv_avx512.c =========================================================== */

/* ==== begin src/kernels/conv_neon.c =========================================================== */
/* conv_neon.c: the convolution kernels of one tier, AArch64 Advanced SIMD.
 *
 * Owns:      the tier's kernel table.
 * Relies on: the templates (*.inc) and simd_neon.h.
 * Must never: contain arithmetic of its own: what differs between tiers is in simd_neon.h.
 */
/* #include "kernels/conv_internal.h" */
/* #include "kernels/conv_winograd.h" */

#if BS_HAVE_NEON_TIER
/* --- template kernels/simd_neon.h --- */
/* simd_neon.h: the vector vocabulary of the kernel templates, AArch64 Advanced SIMD.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_neon.c just before the templates.
 * Must never: be guarded against a second inclusion, or use what is not in the AArch64 baseline.
 */
#include <arm_neon.h>
#include <string.h>

#define BS_TIER_FN(name) name##_neon
#define BS_TARGET
#define BS_LANES 4
#define BS_V float32x4_t
#define BS_V_ZERO() vdupq_n_f32(0)
#define BS_V_SET1(x) vdupq_n_f32(x)
#define BS_V_LOAD(p) vld1q_f32(p)
#define BS_V_STORE(p, v) vst1q_f32(p, v)
#define BS_V_ADD(a, b) vaddq_f32(a, b)
#define BS_V_SUB(a, b) vsubq_f32(a, b)
#define BS_V_MUL(a, b) vmulq_f32(a, b)
#define BS_V_FMA(a, b, c) vfmaq_f32(c, a, b)  /* a * b + c */
#define BS_V_FNMA(a, b, c) vfmsq_f32(c, a, b) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) vmaxq_f32(a, b)
#define BS_V_MIN(a, b) vminq_f32(a, b)

#define BS_V_QUAD float32x4_t
#define BS_V_QUAD_LOAD(p) vld1q_f32(p)
#define BS_V_QUAD_FMA(sum, w, quad, lane) vfmaq_laneq_f32(sum, w, quad, lane)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_neon(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_neon(p, v, part)

#define BS_OPAQUE(pointer) (void)(pointer)

/* 16 accumulators, 8 inputs and 2 weights of 32 registers. */
#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 8
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_neon(p)
#define BS_V_LOAD_U16(p) bs_load_u16_neon(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_neon(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_neon(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_neon(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_neon(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_neon(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_neon(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_neon(a, b)

#ifndef BS_SIMD_NEON_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_NEON_FUNCTIONS

static BS_OUTLINE float32x4_t bs_load_few_neon(const float *from, int32_t part)
{
    float lanes[4] = { 0, 0, 0, 0 };
    for (int32_t i = 0; i < part; i++)
        lanes[i] = from[i];
    return vld1q_f32(lanes);
}

static BS_OUTLINE void bs_store_few_neon(float *to, float32x4_t v, int32_t part)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    for (int32_t i = 0; i < part; i++)
        to[i] = lanes[i];
}

static inline float32x4_t bs_load_part_neon(const float *from, int32_t part)
{
    return part == BS_LANES ? vld1q_f32(from) : bs_load_few_neon(from, part);
}

static inline void bs_store_part_neon(float *to, float32x4_t v, int32_t part)
{
    if (part == BS_LANES)
        vst1q_f32(to, v);
    else
        bs_store_few_neon(to, v, part);
}

static inline float32x4_t bs_load_u8_neon(const uint8_t *from)
{
    uint32_t four;
    memcpy(&four, from, 4);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}

static inline float32x4_t bs_load_u16_neon(const uint16_t *from)
{
    return vcvtq_f32_u32(vmovl_u16(vld1_u16(from)));
}

/* The low bytes of eight 16-bit integers, of which the first four count. */
static inline void bs_store_low_neon(uint8_t *to, uint16x4_t codes)
{
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(codes, codes));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(to, &four, 4);
}

static inline void bs_store_u8_neon(uint8_t *to, float32x4_t v)
{
    bs_store_low_neon(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_u16_neon(uint16_t *to, float32x4_t v)
{
    vst1_u16(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_pairs_u8_neon(uint8_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 8));
    vst1_u8(to, vreinterpret_u8_u16(vmovn_u32(pairs)));
}

static inline void bs_store_pairs_u16_neon(uint16_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 16));
    vst1q_u16(to, vreinterpretq_u16_u32(pairs));
}

static inline void bs_store_pairs_f32_neon(float *to, float32x4_t even, float32x4_t odd)
{
    vst1q_f32(to, vzip1q_f32(even, odd));
    vst1q_f32(to + BS_LANES, vzip2q_f32(even, odd));
}

static inline float32x4_t bs_even_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}

static inline float32x4_t bs_odd_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}

#endif
/* --- end of template kernels/simd_neon.h --- */

/* --- template kernels/repeat.h --- */
/* repeat.h: loops over small constants, written out by the preprocessor.
 *
 * Owns:      BS_EACH_n(M): M(0) ... M(n-1), and BS_UPTO_n(M, x): M(1, x) ... M(n, x).
 * Relies on: nothing.
 * Must never: survive a template: simd_end.h undefines all of it.
 *
 * Why not loops: accumulators must be separate variables to live in registers with every compiler and at -O2.
 */
#define BS_EACH_1(M) M(0)
#define BS_EACH_2(M) BS_EACH_1(M) M(1)
#define BS_EACH_3(M) BS_EACH_2(M) M(2)
#define BS_EACH_4(M) BS_EACH_3(M) M(3)
#define BS_EACH_5(M) BS_EACH_4(M) M(4)
#define BS_EACH_6(M) BS_EACH_5(M) M(5)
#define BS_EACH_7(M) BS_EACH_6(M) M(6)
#define BS_EACH_8(M) BS_EACH_7(M) M(7)
#define BS_EACH_9(M) BS_EACH_8(M) M(8)
#define BS_EACH_10(M) BS_EACH_9(M) M(9)
#define BS_EACH_11(M) BS_EACH_10(M) M(10)
#define BS_EACH_12(M) BS_EACH_11(M) M(11)
#define BS_EACH_13(M) BS_EACH_12(M) M(12)
#define BS_EACH_14(M) BS_EACH_13(M) M(13)

#define BS_UPTO_4(M, x) M(1, x) M(2, x) M(3, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_5(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_6(M, x) M(7, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(9, x) M(10, x) M(11, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_12(M, x) M(13, x) M(14, x)
/* --- end of template kernels/repeat.h --- */

/* --- template kernels/conv_epilogue.inc --- */
/* conv_epilogue.inc: how an accumulator tile starts and ends: bias, residual, activation, store.
 *
 * Owns:      macros over accumulators named a<pixel>_<vector>, for one vector of output channels or two.
 * Relies on: a simd_*.h and repeat.h before it; `tile`, `task`, `part` and `zero` in the kernel that uses it.
 * Must never: touch lanes beyond `part` of the last vector.
 */
#include <math.h> /* INFINITY */

/* One vector of output channels, or two. Of the last vector only `part` is valid. */
#define BS_BIAS_1   \
    if (task->bias) \
        b0 = BS_V_LOAD_PART(task->bias + tile->channel, part);
#define BS_BIAS_2                                                         \
    if (task->bias) {                                                     \
        b0 = BS_V_LOAD(task->bias + tile->channel);                       \
        b1 = BS_V_LOAD_PART(task->bias + tile->channel + BS_LANES, part); \
    }
#define BS_SLOPES_1 s0 = BS_V_LOAD_PART(task->slopes + tile->channel, part);
#define BS_SLOPES_2                               \
    s0 = BS_V_LOAD(task->slopes + tile->channel); \
    s1 = BS_V_LOAD_PART(task->slopes + tile->channel + BS_LANES, part);

#define BS_INIT_1(p) BS_V a##p##_0 = b0;
#define BS_INIT_2(p) BS_V a##p##_0 = b0, a##p##_1 = b1;

#define BS_RESIDUAL_1(p) \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD_PART(residual + (p) * residual_pixel, part));
#define BS_RESIDUAL_2(p)                                                       \
    a##p##_0 = BS_V_ADD(a##p##_0, BS_V_LOAD(residual + (p) * residual_pixel)); \
    a##p##_1 = BS_V_ADD(a##p##_1, BS_V_LOAD_PART(residual + (p) * residual_pixel + BS_LANES, part));

#define BS_CLAMP_1(p) a##p##_0 = BS_V_MIN(high, BS_V_MAX(low, a##p##_0));
#define BS_CLAMP_2(p) BS_CLAMP_1(p) a##p##_1 = BS_V_MIN(high, BS_V_MAX(low, a##p##_1));

#define BS_SLOPE_1(p) a##p##_0 = BS_V_FMA(BS_V_MIN(zero, a##p##_0), s0, BS_V_MAX(zero, a##p##_0));
#define BS_SLOPE_2(p) \
    BS_SLOPE_1(p)     \
    a##p##_1 = BS_V_FMA(BS_V_MIN(zero, a##p##_1), s1, BS_V_MAX(zero, a##p##_1));

#define BS_STORE_1(p) BS_V_STORE_PART(out + (p) * out_pixel, a##p##_0, part);
#define BS_STORE_2(p)                            \
    BS_V_STORE(out + (p) * out_pixel, a##p##_0); \
    BS_V_STORE_PART(out + (p) * out_pixel + BS_LANES, a##p##_1, part);

/* From accumulators to memory: residual, activation, residual, store. */
#define BS_EPILOGUE(P, B)                                                                   \
        const float *residual = tile->residual;                                             \
        const ptrdiff_t residual_pixel = tile->residual_pixel, out_pixel = tile->out_pixel; \
        float *out = tile->out;                                                             \
        if (residual && task->residual_before_activation) {                                 \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        if (task->activation == BS_CONV_RELU || task->activation == BS_CONV_CLIP) {         \
            const bool clip = task->activation == BS_CONV_CLIP;                             \
            const BS_V low = clip ? BS_V_SET1(task->low) : zero;                            \
            const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);                      \
            BS_EACH_##P(BS_CLAMP_##B)                                                       \
        } else if (task->activation != BS_CONV_NONE) {                                      \
            BS_V s0 = BS_V_SET1(task->slope), s1 = s0;                                      \
            if (task->activation == BS_CONV_PRELU) {                                        \
                BS_SLOPES_##B                                                               \
            }                                                                               \
            (void)s1;                                                                       \
            BS_EACH_##P(BS_SLOPE_##B)                                                       \
        }                                                                                   \
        if (residual && !task->residual_before_activation) {                                \
            BS_EACH_##P(BS_RESIDUAL_##B)                                                    \
        }                                                                                   \
        BS_EACH_##P(BS_STORE_##B)
/* --- end of template kernels/conv_epilogue.inc --- */
/* --- template kernels/conv_outer.inc --- */
/* conv_outer.inc: direct convolution, lanes are output channels.
 *
 * Owns:      for each count of pixels, a kernel that keeps pixels x vectors accumulators in registers.
 * Relies on: a simd_*.h, repeat.h and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels: every variant computes
 *            bias, then + input * weight over (kernel row, tap, channel), one operation each, in that order.
 */

/* Pixel p stands at one of four bases plus 0, 1, 2 or 3 steps. */
#define BS_X_0 xa[0]
#define BS_X_1 xa[step]
#define BS_X_2 xa[2 * step]
#define BS_X_3 xa[step3]
#define BS_X_4 xb[0]
#define BS_X_5 xb[step]
#define BS_X_6 xb[2 * step]
#define BS_X_7 xb[step3]
#define BS_X_8 xc[0]
#define BS_X_9 xc[step]
#define BS_X_10 xc[2 * step]
#define BS_X_11 xc[step3]
#define BS_X_12 xd[0]
#define BS_X_13 xd[step]

#define BS_WEIGHTS_1 const BS_V w0 = BS_V_LOAD(w);
#define BS_WEIGHTS_2 const BS_V w0 = BS_V_LOAD(w), w1 = BS_V_LOAD(w + BS_LANES);

#define BS_MAC_1(p) a##p##_0 = BS_V_FMA(BS_V_SET1(BS_X_##p), w0, a##p##_0);
#define BS_MAC_2(p)                           \
    {                                         \
        const BS_V x = BS_V_SET1(BS_X_##p);   \
        a##p##_0 = BS_V_FMA(x, w0, a##p##_0); \
        a##p##_1 = BS_V_FMA(x, w1, a##p##_1); \
    }

#define BS_OUTER_DEFINE(P, B)                                                           \
    static BS_TARGET void BS_TIER_FN(bs_conv_outer_##B##_##P)(const bs_conv_tile *tile) \
    {                                                                                   \
        const bs_conv_task *task = tile->task;                                          \
        const BS_V_PART part = BS_V_PART_OF(tile->channels - (B - 1) * BS_LANES);       \
        const BS_V zero = BS_V_ZERO();                                                  \
        BS_V b0 = zero, b1 = zero;                                                      \
        BS_BIAS_##B                                                                     \
        BS_EACH_##P(BS_INIT_##B)                                                        \
        (void)b1;                                                                       \
        const ptrdiff_t step = tile->in_step, step3 = 3 * step;                         \
        const float *w = tile->weights;                                                 \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                   \
        for (int32_t row = 0; row < tile->rows; row++) {                                \
            ptrdiff_t at = row * in_row;                                                \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {              \
                const float *xa = tile->in + at;                                        \
                const float *xb = xa + (P > 4 ? 4 : 0) * step;                          \
                const float *xc = xa + (P > 8 ? 8 : 0) * step;                          \
                const float *xd = xa + (P > 12 ? 12 : 0) * step;                        \
                int32_t left = tile->run;                                               \
                BS_OUTER_QUADS(P, B)                                                    \
                for (; left > 0; left--) {                                              \
                    BS_OPAQUE(xa);                                                      \
                    BS_OPAQUE(xb);                                                      \
                    BS_OPAQUE(xc);                                                      \
                    BS_OPAQUE(xd);                                                      \
                    BS_WEIGHTS_##B                                                      \
                    BS_EACH_##P(BS_MAC_##B)                                             \
                    xa++, xb++, xc++, xd++;                                             \
                    w += B * BS_LANES;                                                  \
                }                                                                       \
                (void)step3;                                                            \
            }                                                                           \
        }                                                                               \
        BS_EPILOGUE(P, B)                                                               \
    }

#ifdef BS_V_QUAD
/* Four channels of a pixel come in one load and are multiplied by lane (a broadcast load is not free there).
 * Lane after lane over all pixels keeps dependent operations apart; each sum sees the same order. */
#define BS_QUAD_LOAD(p) const BS_V_QUAD q##p = BS_V_QUAD_LOAD(&BS_X_##p);
#define BS_QUAD_1(p, lane) a##p##_0 = BS_V_QUAD_FMA(a##p##_0, w0, q##p, lane);
#define BS_QUAD_2(p, lane) BS_QUAD_1(p, lane) a##p##_1 = BS_V_QUAD_FMA(a##p##_1, w1, q##p, lane);
#define BS_QUAD_1_0(p) BS_QUAD_1(p, 0)
#define BS_QUAD_1_1(p) BS_QUAD_1(p, 1)
#define BS_QUAD_1_2(p) BS_QUAD_1(p, 2)
#define BS_QUAD_1_3(p) BS_QUAD_1(p, 3)
#define BS_QUAD_2_0(p) BS_QUAD_2(p, 0)
#define BS_QUAD_2_1(p) BS_QUAD_2(p, 1)
#define BS_QUAD_2_2(p) BS_QUAD_2(p, 2)
#define BS_QUAD_2_3(p) BS_QUAD_2(p, 3)
#define BS_QUAD_STEP(P, B, lane)          \
    {                                     \
        BS_WEIGHTS_##B                    \
        BS_EACH_##P(BS_QUAD_##B##_##lane) \
        w += B * BS_LANES;                \
    }
#define BS_OUTER_QUADS(P, B)                \
    for (; left >= 4; left -= 4) {          \
        BS_EACH_##P(BS_QUAD_LOAD)           \
        BS_QUAD_STEP(P, B, 0)               \
        BS_QUAD_STEP(P, B, 1)               \
        BS_QUAD_STEP(P, B, 2)               \
        BS_QUAD_STEP(P, B, 3)               \
        xa += 4, xb += 4, xc += 4, xd += 4; \
    }
#else
#define BS_OUTER_QUADS(P, B)
#endif

BS_OUTER_UPTO_1(BS_OUTER_DEFINE)
BS_OUTER_UPTO_2(BS_OUTER_DEFINE)

#define BS_OUTER_NAME(P, B) BS_TIER_FN(bs_conv_outer_##B##_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_1)[] = { NULL, BS_OUTER_UPTO_1(BS_OUTER_NAME) };
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_outer_2)[] = { NULL, BS_OUTER_UPTO_2(BS_OUTER_NAME) };
/* --- end of template kernels/conv_outer.inc --- */
/* --- template kernels/conv_depthwise.inc --- */
/* conv_depthwise.inc: direct convolution of one channel a group, lanes are channels.
 *
 * Owns:      kernels for 1..8 pixels (scalar: 1..4) of one vector of channels.
 * Relies on: simd_*.h, repeat.h, and conv_epilogue.inc before it.
 * Must never: let the arithmetic of an element depend on the count of pixels.
 */
#define BS_DEPTHWISE_MAC(p) \
    a##p##_0 = BS_V_FMA(BS_V_LOAD_PART(x + (p) * step, part), w0, a##p##_0);

#define BS_DEPTHWISE_DEFINE(P, unused)                                                \
    static BS_TARGET void BS_TIER_FN(bs_conv_depthwise_##P)(const bs_conv_tile *tile) \
    {                                                                                 \
        const bs_conv_task *task = tile->task;                                        \
        const BS_V_PART part = BS_V_PART_OF(tile->channels);                          \
        const BS_V zero = BS_V_ZERO();                                                \
        const ptrdiff_t step = tile->in_step;                                         \
        const float *w = tile->weights;                                               \
        BS_V b0 = zero;                                                               \
        BS_BIAS_1                                                                     \
        BS_EACH_##P(BS_INIT_1)                                                        \
        const ptrdiff_t in_row = tile->in_row, in_tap = tile->in_tap;                 \
        for (int32_t row = 0; row < tile->rows; row++) {                              \
            ptrdiff_t at = row * in_row;                                              \
            for (int32_t tap = tile->taps; tap > 0; tap--, at += in_tap) {            \
                const float *x = tile->in + at;                                       \
                const BS_V w0 = BS_V_LOAD(w);                                         \
                BS_EACH_##P(BS_DEPTHWISE_MAC)                                         \
                w += BS_LANES;                                                        \
            }                                                                         \
        }                                                                             \
        BS_EPILOGUE(P, 1)                                                             \
    }

BS_DEPTHWISE_UPTO(BS_DEPTHWISE_DEFINE)

#define BS_DEPTHWISE_NAME(P, unused) BS_TIER_FN(bs_conv_depthwise_##P),
static bs_conv_tile_kernel *const BS_TIER_FN(bs_conv_depthwise)[] = { NULL, BS_DEPTHWISE_UPTO(BS_DEPTHWISE_NAME) };
/* --- end of template kernels/conv_depthwise.inc --- */
/* --- template kernels/conv_winograd.inc --- */
/* conv_winograd.inc: the two transforms of F(4x4, 3x3), lanes are channels.
 *
 * Owns:      input patch 6x6 -> 36 points, and 36 points -> output patch 4x4 with its epilogue.
 * Relies on: a simd_*.h and repeat.h before it; conv_winograd.h for the constants and where they come from.
 * Must never: read lanes beyond the channels, or store outside the rows and columns asked for.
 *
 * Both directions work through registers: h<row>_<column> is a patch after its columns were transformed.
 */

/* ------------------------------------------------------------------------------------------ input
 * B^T d B. Rows 0 and 5, 1 and 2 (points a, -a), 3 and 4 (b, -b) of the half-transformed patch are made in
 * turn, 12 vectors at a time; reading the patch again is cheaper than keeping 36. */
#define BS_D0 BS_V_LOAD_PART(d, part)
#define BS_D1 BS_V_LOAD_PART(d + in_row, part)
#define BS_D2 BS_V_LOAD_PART(d + 2 * in_row, part)
#define BS_D3 BS_V_LOAD_PART(d + row3, part)
#define BS_D4 BS_V_LOAD_PART(d + row4, part)
#define BS_D5 BS_V_LOAD_PART(d + row5, part)

/* `d` walks along the columns; opaque, or the compiler makes 36 addresses of it. */
#define BS_COLUMN_OUTER(x)                                                           \
    const BS_V h0_##x = BS_V_FMA(BS_D0, aabb, BS_V_FNMA(BS_D2, sum, BS_D4));         \
    const BS_V h5_##x = BS_V_FMA(BS_D1, aabb, BS_V_FNMA(BS_D3, sum, BS_D5));         \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);
#define BS_COLUMN_PAIR(x)                                                            \
    const BS_V p##x = BS_V_FNMA(BS_D2, other, BS_D4), q##x = BS_V_FNMA(BS_D1, other, BS_D3); \
    const BS_V h1_##x = BS_V_FMA(q##x, point, p##x), h2_##x = BS_V_FNMA(q##x, point, p##x); \
    d += in_pixel;                                                                   \
    BS_OPAQUE(d);

/* One row: B^T again, and out. `y` is the row of points, `h` the name of the row in registers. */
#define BS_ROW_IN(y, h)                                                                                      \
    {                                                                                                        \
        float *to = points + (y) * 6 * point_step;                                                           \
        BS_OPAQUE(to);                                                                                       \
        const BS_V pa = BS_V_FNMA(h##_2, bb, h##_4), qa = BS_V_FNMA(h##_1, bb, h##_3);                       \
        const BS_V pb = BS_V_FNMA(h##_2, aa, h##_4), qb = BS_V_FNMA(h##_1, aa, h##_3);                       \
        BS_V_STORE_AT(to, BS_V_FMA(h##_0, aabb, BS_V_FNMA(h##_2, sum, h##_4)));                              \
        BS_V_STORE_AT(to + point_step, BS_V_FMA(qa, a, pa));                                                 \
        BS_V_STORE_AT(to + 2 * point_step, BS_V_FNMA(qa, a, pa));                                            \
        BS_V_STORE_AT(to + step3, BS_V_FMA(qb, b, pb));                                             \
        BS_V_STORE_AT(to + step4, BS_V_FNMA(qb, b, pb));                                            \
        BS_V_STORE_AT(to + step5, BS_V_FMA(h##_1, aabb, BS_V_FNMA(h##_3, sum, h##_5)));             \
    }
#define BS_V_STORE_AT(to, value)     \
    {                                \
        const BS_V stored = value;   \
        BS_V_STORE(to, stored);      \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_in_vector)(const float *in, ptrdiff_t in_row,
                                                                              ptrdiff_t in_pixel, BS_V_PART part,
                                                                              float *points, ptrdiff_t point_step)
{
    const BS_V a = BS_V_SET1(BS_WINOGRAD_A), b = BS_V_SET1(BS_WINOGRAD_B);
    const BS_V aa = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A), bb = BS_V_SET1(BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V aabb = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A * BS_WINOGRAD_B * BS_WINOGRAD_B);
    const BS_V sum = BS_V_SET1(BS_WINOGRAD_A * BS_WINOGRAD_A + BS_WINOGRAD_B * BS_WINOGRAD_B);
    ptrdiff_t row3 = 3 * in_row, row4 = 4 * in_row, row5 = 5 * in_row;
    ptrdiff_t step3 = 3 * point_step, step4 = 4 * point_step, step5 = 5 * point_step;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(step3);
    BS_OPAQUE(step4);
    BS_OPAQUE(step5);
    {
        const float *d = in;
        BS_EACH_6(BS_COLUMN_OUTER)
        BS_ROW_IN(0, h0)
        BS_ROW_IN(5, h5)
    }
    {
        const float *d = in;
        const BS_V point = a, other = bb;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(1, h1)
        BS_ROW_IN(2, h2)
    }
    {
        const float *d = in;
        const BS_V point = b, other = aa;
        BS_EACH_6(BS_COLUMN_PAIR)
        BS_ROW_IN(3, h1)
        BS_ROW_IN(4, h2)
    }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_in)(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel,
                                                      int32_t channels, float *points, ptrdiff_t point_step)
{
    for (; channels >= BS_LANES; channels -= BS_LANES, in += BS_LANES, points += BS_LANES)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(BS_LANES), points, point_step);
    if (channels > 0)
        BS_TIER_FN(bs_conv_winograd_in_vector)(in, in_row, in_pixel, BS_V_PART_OF(channels), points, point_step);
}

/* ----------------------------------------------------------------------------------------- output
 * A^T m A up to the factors a^(row + column), which come with the bias: with b = 2a only 2, 4, 8 remain. */
#define BS_M0 BS_V_LOAD(m)
#define BS_M1 BS_V_LOAD(m + row)
#define BS_M2 BS_V_LOAD(m + 2 * row)
#define BS_M3 BS_V_LOAD(m + row3)
#define BS_M4 BS_V_LOAD(m + row4)
#define BS_M5 BS_V_LOAD(m + row5)

#define BS_COLUMN_OUT(x)                                                                       \
    const BS_V s##x = BS_V_ADD(BS_M1, BS_M2), d##x = BS_V_SUB(BS_M1, BS_M2); \
    const BS_V u##x = BS_V_ADD(BS_M3, BS_M4), v##x = BS_V_SUB(BS_M3, BS_M4); \
    const BS_V h0_##x = BS_V_ADD(BS_V_ADD(BS_M0, s##x), u##x);                            \
    const BS_V h1_##x = BS_V_FMA(v##x, two, d##x);                                             \
    const BS_V h2_##x = BS_V_FMA(u##x, four, s##x);                                            \
    const BS_V h3_##x = BS_V_FMA(v##x, eight, BS_V_ADD(BS_M5, d##x));                          \
    m += point_step;                                                                           \
    BS_OPAQUE(m);

/* One row: A^T again, factor and bias, clamp, and out. */
#define BS_ROW_OUT(y)                                                                          \
    {                                                                                          \
        const BS_V s = BS_V_ADD(h##y##_1, h##y##_2), d = BS_V_SUB(h##y##_1, h##y##_2);         \
        const BS_V u = BS_V_ADD(h##y##_3, h##y##_4), v = BS_V_SUB(h##y##_3, h##y##_4);         \
        BS_STORE_OUT(to, (y) + 0, BS_V_ADD(BS_V_ADD(h##y##_0, s), u))                          \
        BS_STORE_OUT(to + to_pixel, (y) + 1, BS_V_FMA(v, two, d))                              \
        BS_STORE_OUT(to + 2 * to_pixel, (y) + 2, BS_V_FMA(u, four, s))                         \
        BS_STORE_OUT(to + to_pixel3, (y) + 3, BS_V_FMA(v, eight, BS_V_ADD(h##y##_5, d)))       \
        to += to_row;                                                                          \
        BS_OPAQUE(to);                                                                         \
    }
#define BS_STORE_OUT(at, power, value)                                                         \
    {                                                                                          \
        BS_V scaled = BS_V_FMA(value, BS_V_SET1(bs_conv_winograd_scale[power]), bias);         \
        scaled = BS_V_MAX(low, scaled);                                                        \
        scaled = BS_V_MIN(high, scaled);                                                       \
        BS_V_STORE_PART(at, scaled, part);                                                     \
    }

static inline BS_INLINE BS_TARGET void BS_TIER_FN(bs_conv_winograd_out_vector)(const float *points,
                                                                               ptrdiff_t point_step, BS_V bias,
                                                                               BS_V low, BS_V high, float *to,
                                                                               ptrdiff_t to_row, ptrdiff_t to_pixel,
                                                                               BS_V_PART part)
{
    const BS_V two = BS_V_SET1(2), four = BS_V_SET1(4), eight = BS_V_SET1(8);
    const ptrdiff_t row = 6 * point_step;
    ptrdiff_t row3 = 3 * row, row4 = 4 * row, row5 = 5 * row, to_pixel3 = 3 * to_pixel;
    const float *m = points;
    BS_OPAQUE(row3);
    BS_OPAQUE(row4);
    BS_OPAQUE(row5);
    BS_OPAQUE(to_pixel3);
    BS_EACH_6(BS_COLUMN_OUT)
    BS_ROW_OUT(0)
    BS_ROW_OUT(1)
    BS_ROW_OUT(2)
    BS_ROW_OUT(3)
}

/* One vector of a patch with everything that is not a clamp after the bias: residuals, slopes, ragged edges. */
static BS_TARGET void BS_TIER_FN(bs_conv_winograd_finish)(const float *patch, const bs_conv_tile *tile, int32_t channel,
                                                          ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows,
                                                          int32_t columns, BS_V low, BS_V high)
{
    const bs_conv_task *task = tile->task;
    const BS_V_PART part = BS_V_PART_OF(bs_conv_min(tile->channels - channel, BS_LANES));
    const bool sloped = task->activation == BS_CONV_LEAKY || task->activation == BS_CONV_PRELU;
    const bool before = tile->residual && task->residual_before_activation;
    const bool after = tile->residual && !task->residual_before_activation;
    const BS_V zero = BS_V_ZERO();
    BS_V slope = BS_V_SET1(task->slope);
    if (task->activation == BS_CONV_PRELU)
        slope = BS_V_LOAD_PART(task->slopes + channel, part);
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++) {
            BS_V v = BS_V_LOAD(patch + (4 * y + x) * BS_LANES), residual = zero;
            if (tile->residual)
                residual = BS_V_LOAD_PART(tile->residual + y * residual_row + x * tile->residual_pixel + channel, part);
            if (before)
                v = BS_V_ADD(v, residual);
            v = BS_V_MAX(low, v);
            v = BS_V_MIN(high, v);
            if (sloped)
                v = BS_V_FMA(BS_V_MIN(zero, v), slope, BS_V_MAX(zero, v));
            if (after)
                v = BS_V_ADD(v, residual);
            BS_V_STORE_PART(tile->out + y * out_row + x * tile->out_pixel + channel, v, part);
        }
}

static BS_TARGET void BS_TIER_FN(bs_conv_winograd_out)(const float *points, ptrdiff_t point_step,
                                                       const bs_conv_tile *tile, ptrdiff_t out_row,
                                                       ptrdiff_t residual_row, int32_t rows, int32_t columns)
{
    const bs_conv_task *task = tile->task;
    const bool clip = task->activation == BS_CONV_CLIP, clamp = clip || task->activation == BS_CONV_RELU;
    const BS_V low = BS_V_SET1(clip ? task->low : clamp ? 0.0f : -INFINITY);
    const BS_V high = BS_V_SET1(clip ? task->high : INFINITY);
    const BS_V lowest = BS_V_SET1(-INFINITY), highest = BS_V_SET1(INFINITY);
    const bool straight = rows == 4 && columns == 4 && !tile->residual && (clamp || task->activation == BS_CONV_NONE);
    for (int32_t c = 0; c < tile->channels; c += BS_LANES, points += BS_LANES) {
        const int32_t valid = bs_conv_min(tile->channels - c, BS_LANES);
        BS_V bias = BS_V_ZERO();
        if (task->bias)
            bias = BS_V_LOAD_PART(task->bias + c, BS_V_PART_OF(valid));
        if (straight && valid == BS_LANES) {
            BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, low, high, tile->out + c, out_row,
                                                    tile->out_pixel, BS_V_PART_OF(BS_LANES));
            continue;
        }
        float patch[16 * BS_LANES];
        BS_TIER_FN(bs_conv_winograd_out_vector)(points, point_step, bias, lowest, highest, patch, 4 * BS_LANES,
                                                BS_LANES, BS_V_PART_OF(BS_LANES));
        BS_TIER_FN(bs_conv_winograd_finish)(patch, tile, c, out_row, residual_row, rows, columns, low, high);
    }
}
/* --- end of template kernels/conv_winograd.inc --- */

static const bs_conv_kernels bs_conv_table_neon = {
    .lanes = BS_LANES,
    .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },
    .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },
    .dot_pixels = 0,
    .dot = NULL,
    .depthwise_pixels = BS_DEPTHWISE_PIXELS,
    .depthwise = BS_TIER_FN(bs_conv_depthwise),
    .winograd_in = BS_TIER_FN(bs_conv_winograd_in),
    .winograd_out = BS_TIER_FN(bs_conv_winograd_out),
};

/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

const bs_conv_kernels *bs_conv_kernels_neon(void)
{
    return &bs_conv_table_neon;
}
#else
const bs_conv_kernels *bs_conv_kernels_neon(void)
{
    return NULL;
}
#endif
/* ==== end src/kernels/conv_neon.c ============================================================= */

/* ==== begin src/kernels/conv_winograd.c ======================================================= */
/* conv_winograd.c: runs F(4x4, 3x3): transforms strips of tiles, multiplies point by point, transforms back.
 *
 * Owns:      the strip loop and the scratch layout: points of the input, points of the output, one edge patch.
 * Relies on: the transforms and the OUTER kernels of a tier, used as 36 small matrix products.
 * Must never: let a tile that hangs over the output's edge read outside the windows: it is copied into a
 *            patch of zeros first.
 */
/* #include "kernels/conv_internal.h" */

#include <string.h>

/* Padding to whole vectors; the points of one tile lie next to those of its neighbours. */
typedef struct bs_winograd_plan {
    int32_t in_padded, out_padded;
    int32_t strip; /* tiles transformed together */
    ptrdiff_t in_step, out_step; /* floats from point to point */
    size_t in_points, out_points, patch; /* floats */
} bs_winograd_plan;

/* The 36 points of a tile are written and read together: an odd count of 64-byte lines between them spreads
 * them over all sets of the first-level cache. */
static ptrdiff_t bs_winograd_step(int32_t strip, int32_t padded)
{
    const ptrdiff_t lines = ((ptrdiff_t)strip * padded + 15) / 16;
    return 16 * (lines | 1);
}

/* A strip is a few register tiles long, so that every product is made of full ones, and its points should
 * stay in a second-level cache of 256 KiB. Larger strips were not faster with 1 MiB. */
static bs_winograd_plan bs_winograd_plan_of(const bs_conv_geometry *g, int32_t lanes)
{
    bs_winograd_plan plan = {
        .in_padded = bs_conv_round_up(g->in_channels, lanes),
        .out_padded = bs_conv_round_up(g->out_channels, lanes),
    };
    const int64_t tile_bytes = (int64_t)BS_WINOGRAD_POINTS * 4 * ((int64_t)plan.in_padded + plan.out_padded);
    const int32_t unit = lanes == 16 ? 14 : lanes == 8 ? 12 : 8;
    plan.strip = unit;
    while (plan.strip < 4 * unit && (plan.strip + unit) * tile_bytes <= 160 << 10)
        plan.strip += unit;
    plan.in_step = bs_winograd_step(plan.strip, plan.in_padded);
    plan.out_step = bs_winograd_step(plan.strip, plan.out_padded);
    plan.in_points = BS_WINOGRAD_POINTS * (size_t)plan.in_step;
    plan.out_points = BS_WINOGRAD_POINTS * (size_t)plan.out_step;
    plan.patch = (size_t)BS_WINOGRAD_POINTS * (size_t)plan.in_padded;
    return plan;
}

size_t bs_conv_winograd_scratch(const bs_conv_geometry *geometry, int32_t lanes)
{
    const bs_winograd_plan plan = bs_winograd_plan_of(geometry, lanes);
    return plan.in_points + plan.out_points + plan.patch;
}

/* One run, with its scratch laid out. */
typedef struct bs_winograd_run {
    const bs_conv_geometry *geometry;
    const bs_conv_kernels *kernels;
    const bs_conv_task *task;
    bs_winograd_plan plan;
    float *in_points, *out_points, *patch;
    int32_t tiles_x;
} bs_winograd_run;

/* The part of a 6x6 patch that is inside the windows, among zeros. */
static void bs_winograd_copy_patch(const bs_winograd_run *run, const float *in, int32_t rows, int32_t columns)
{
    const size_t pixel = (size_t)run->plan.in_padded, channels = (size_t)run->geometry->in_channels;
    memset(run->patch, 0, run->plan.patch * sizeof(float));
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++)
            memcpy(run->patch + (size_t)(y * BS_WINOGRAD_IN + x) * pixel,
                   in + y * run->task->in_row + (ptrdiff_t)x * run->task->in_pixel, channels * sizeof(float));
}

static void bs_winograd_transform_in(const bs_winograd_run *run, int32_t index, float *points)
{
    const bs_conv_task *task = run->task;
    const int32_t y = index / run->tiles_x * BS_WINOGRAD_OUT, x = index % run->tiles_x * BS_WINOGRAD_OUT;
    const int32_t rows = bs_conv_min(task->out_h + 2 - y, BS_WINOGRAD_IN);
    const int32_t columns = bs_conv_min(task->out_w + 2 - x, BS_WINOGRAD_IN);
    const float *in = task->in + y * task->in_row + (ptrdiff_t)x * task->in_pixel;
    ptrdiff_t row = task->in_row, pixel = task->in_pixel;
    if (rows < BS_WINOGRAD_IN || columns < BS_WINOGRAD_IN) {
        bs_winograd_copy_patch(run, in, rows, columns);
        in = run->patch;
        pixel = run->plan.in_padded;
        row = BS_WINOGRAD_IN * pixel;
    }
    run->kernels->winograd_in(in, row, pixel, run->geometry->in_channels, points,
                              run->plan.in_step);
}

static void bs_winograd_transform_out(const bs_winograd_run *run, int32_t index, const float *points)
{
    const bs_conv_task *task = run->task;
    const int32_t y = index / run->tiles_x * BS_WINOGRAD_OUT, x = index % run->tiles_x * BS_WINOGRAD_OUT;
    const bs_conv_tile tile = {
        .channels = run->geometry->out_channels,
        .out = task->out + y * task->out_row + (ptrdiff_t)x * task->out_pixel,
        .out_pixel = task->out_pixel,
        .residual = task->residual
                        ? task->residual + y * task->residual_row + (ptrdiff_t)x * task->residual_pixel
                        : NULL,
        .residual_pixel = task->residual_pixel,
        .task = task,
    };
    run->kernels->winograd_out(points, run->plan.out_step, &tile, task->out_row,
                               task->residual_row, bs_conv_min(task->out_h - y, BS_WINOGRAD_OUT),
                               bs_conv_min(task->out_w - x, BS_WINOGRAD_OUT));
}

/* [tiles][in] x [in][out] at one point. Returns the end of the point's weights. */
static const float *bs_winograd_multiply(const bs_winograd_run *run, const float *weights, const float *in,
                                         float *out, int32_t tiles)
{
    static const bs_conv_task plain = { .activation = BS_CONV_NONE };
    const bs_conv_kernels *k = run->kernels;
    const int32_t channels = run->geometry->in_channels;
    bs_conv_tile tile = { .in_step = run->plan.in_padded, .rows = 1, .taps = 1, .run = channels,
                          .out_pixel = run->plan.out_padded, .task = &plain };
    for (int32_t first = 0; first < run->plan.out_padded;) {
        const int32_t vectors = run->plan.out_padded - first > k->lanes ? 2 : 1;
        int32_t parts = bs_conv_ceil_div(tiles, k->outer_pixels[vectors]);
        tile.channels = vectors * k->lanes;
        tile.weights = weights;
        for (int32_t t = 0; parts > 0; parts--) {
            const int32_t count = bs_conv_ceil_div(tiles - t, parts);
            tile.in = in + (ptrdiff_t)t * run->plan.in_padded;
            tile.out = out + (ptrdiff_t)t * run->plan.out_padded + first;
            k->outer[vectors][count](&tile);
            t += count;
        }
        weights += (ptrdiff_t)channels * tile.channels;
        first += tile.channels;
    }
    return weights;
}

static void bs_winograd_strip(const bs_winograd_run *run, int32_t first, int32_t tiles)
{
    const bs_winograd_plan *plan = &run->plan;
    for (int32_t t = 0; t < tiles; t++)
        bs_winograd_transform_in(run, first + t, run->in_points + (ptrdiff_t)t * plan->in_padded);
    const float *weights = run->task->weights;
    for (int32_t point = 0; point < BS_WINOGRAD_POINTS; point++)
        weights = bs_winograd_multiply(run, weights, run->in_points + point * plan->in_step,
                                       run->out_points + point * plan->out_step, tiles);
    for (int32_t t = 0; t < tiles; t++)
        bs_winograd_transform_out(run, first + t, run->out_points + (ptrdiff_t)t * plan->out_padded);
}

void bs_conv_winograd_run(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels,
                          const bs_conv_task *task)
{
    bs_winograd_run run = { .geometry = geometry, .kernels = kernels, .task = task,
                            .plan = bs_winograd_plan_of(geometry, kernels->lanes) };
    run.in_points = task->scratch;
    run.out_points = run.in_points + run.plan.in_points;
    run.patch = run.out_points + run.plan.out_points;
    run.tiles_x = bs_conv_ceil_div(task->out_w, BS_WINOGRAD_OUT);
    const int32_t tiles = run.tiles_x * bs_conv_ceil_div(task->out_h, BS_WINOGRAD_OUT);
    int32_t strips = bs_conv_ceil_div(tiles, run.plan.strip);
    for (int32_t first = 0; strips > 0; strips--) {
        const int32_t count = bs_conv_ceil_div(tiles - first, strips);
        bs_winograd_strip(&run, first, count);
        first += count;
    }
}
/* ==== end src/kernels/conv_winograd.c ========================================================= */

/* ==== begin src/kernels/conv.c ================================================================ */
/* conv.c: runs a convolution task: cuts it into tiles and hands them to the tier's kernels.
 *
 * Owns:      the dispatch and the loops of the direct algorithm.
 * Relies on: conv_internal.h, conv_pack.c for the layouts.
 * Must never: do arithmetic on samples.
 */
/* #include "kernels/conv_internal.h" */

static const bs_conv_kernels *bs_conv_kernels_of(bs_tier tier)
{
    switch (tier) {
    case BS_TIER_SCALAR: return bs_conv_kernels_scalar();
    case BS_TIER_AVX2: return bs_conv_kernels_avx2();
    case BS_TIER_AVX512: return bs_conv_kernels_avx512();
    case BS_TIER_NEON: return bs_conv_kernels_neon();
    case BS_TIER_AUTO: break;
    }
    return NULL;
}

bool bs_conv_supports(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier)
{
    return bs_conv_kernels_of(tier) && bs_conv_prepared_floats(geometry, algorithm, tier) > 0;
}

size_t bs_conv_scratch_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier)
{
    if (algorithm != BS_CONV_WINOGRAD4 || !bs_conv_can_prepare(geometry, algorithm, tier))
        return 0;
    return bs_conv_winograd_scratch(geometry, bs_conv_lanes(tier));
}

/* One block of output channels of one group, ready to run along rows. */
typedef struct bs_conv_block {
    bs_conv_tile tile;
    bs_conv_tile_kernel *const *kernels;
    int32_t most_pixels;
} bs_conv_block;

/* Pixels are dealt out evenly: 64 by at most 14 are 13 13 13 13 12, not 14 14 14 14 8. */
static void bs_conv_run_row(const bs_conv_block *block, const float *in, float *out, const float *residual,
                            int32_t pixels)
{
    bs_conv_tile tile = block->tile;
    int32_t tiles = bs_conv_ceil_div(pixels, block->most_pixels);
    for (int32_t x = 0; tiles > 0; tiles--) {
        const int32_t count = bs_conv_ceil_div(pixels - x, tiles);
        tile.in = in + x * tile.in_step;
        tile.out = out + x * tile.out_pixel;
        tile.residual = residual ? residual + x * tile.residual_pixel : NULL;
        block->kernels[count](&tile);
        x += count;
    }
}

static void bs_conv_run_block(const bs_conv_geometry *g, const bs_conv_task *task, const bs_conv_block *block,
                              int32_t in_channel)
{
    const int32_t channel = block->tile.channel;
    for (ptrdiff_t y = 0; y < task->out_h; y++) {
        const float *in = task->in + y * g->stride_h * task->in_row + in_channel;
        const float *residual = task->residual ? task->residual + y * task->residual_row + channel : NULL;
        bs_conv_run_row(block, in, task->out + y * task->out_row + channel, residual, task->out_w);
    }
}

/* What all blocks have in common. Taps that lie one after the other in memory are one long run: the order of
 * accumulation is the same, the loops are fewer. */
static bs_conv_tile bs_conv_tile_of(const bs_conv_geometry *g, const bs_conv_task *task, int32_t lanes,
                                    bs_conv_family family)
{
    const int32_t in = g->in_channels / g->groups;
    bs_conv_tile tile = {
        .in_row = g->dilation_h * task->in_row,
        .in_tap = (ptrdiff_t)g->dilation_w * task->in_pixel,
        .in_step = (ptrdiff_t)g->stride_w * task->in_pixel,
        .rows = g->kernel_h,
        .taps = g->kernel_w,
        .run = in,
        .weights = task->weights,
        .out_pixel = task->out_pixel,
        .residual_pixel = task->residual_pixel,
        .task = task,
    };
    const bool whole = family == BS_FAMILY_OUTER || (family == BS_FAMILY_DOT && in % lanes == 0);
    if (whole && tile.in_tap == in && g->kernel_w <= INT32_MAX / in) {
        tile.run *= tile.taps;
        tile.taps = 1;
    }
    return tile;
}

static void bs_conv_run_depthwise(const bs_conv_geometry *g, const bs_conv_kernels *k, const bs_conv_task *task)
{
    bs_conv_block block = { bs_conv_tile_of(g, task, k->lanes, BS_FAMILY_DEPTHWISE), k->depthwise,
                            k->depthwise_pixels };
    for (int32_t c = 0; c < g->out_channels; c += k->lanes) {
        block.tile.channel = c;
        block.tile.channels = bs_conv_min(g->out_channels - c, k->lanes);
        bs_conv_run_block(g, task, &block, c);
        block.tile.weights += (ptrdiff_t)g->kernel_h * g->kernel_w * k->lanes;
    }
}

static void bs_conv_run_direct(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_family family,
                               const bs_conv_task *task)
{
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const ptrdiff_t taps = (ptrdiff_t)g->kernel_h * g->kernel_w;
    bs_conv_block block = { bs_conv_tile_of(g, task, k->lanes, family), k->dot, k->dot_pixels };
    for (int32_t group = 0; group < g->groups; group++)
        for (int32_t first = 0; first < out;) {
            int32_t width = BS_DOT_OUTPUTS, depth = bs_conv_round_up(in, k->lanes);
            if (family == BS_FAMILY_OUTER) {
                const int32_t vectors = out - first > k->lanes ? 2 : 1;
                width = vectors * k->lanes;
                depth = in;
                block.kernels = k->outer[vectors];
                block.most_pixels = k->outer_pixels[vectors];
            }
            block.tile.channel = group * out + first;
            block.tile.channels = bs_conv_min(out - first, width);
            bs_conv_run_block(g, task, &block, group * in);
            block.tile.weights += taps * depth * width;
            first += width;
        }
}

void bs_conv_run(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                 const bs_conv_task *task)
{
    const bs_conv_kernels *kernels = bs_conv_kernels_of(tier);
    if (!kernels || task->out_h <= 0 || task->out_w <= 0)
        return;
    const bs_conv_family family = bs_conv_family_of(geometry, tier);
    if (algorithm == BS_CONV_WINOGRAD4)
        bs_conv_winograd_run(geometry, kernels, task);
    else if (family == BS_FAMILY_DEPTHWISE)
        bs_conv_run_depthwise(geometry, kernels, task);
    else
        bs_conv_run_direct(geometry, kernels, family, task);
}
/* ==== end src/kernels/conv.c ================================================================== */

/* ==== begin src/kernels/elementwise.c ========================================================= */
/* elementwise.c: instantiates the loops of elementwise.inc for every tier and dispatches to them.
 *
 * Owns:      the tables, and what is the same for every tier: edges, 64-bit sums, codes of more than 10 bits.
 * Relies on: elementwise.inc and the simd_*.h.
 * Must never: hold a loop over samples that should be fast.
 */
/* #include "kernels/elementwise.h" */

#include <string.h>

enum {
    BS_SUM_CHUNK = 256,         /* samples of a row summed together: bounds 32-bit sums of squares */
    BS_BICUBIC_CHUNK = 128, /* columns enlarged together: a whole count of vectors; five rows are on the stack */
    BS_EXACT_HIGH = 1023    /* largest code of the bicubic in floats */
};

typedef struct bs_elementwise_kernels {
    void (*u8_to_f32)(const uint8_t *in, float *out, int32_t count, float scale);
    void (*u16_to_f32)(const uint16_t *in, float *out, int32_t count, float scale);
    void (*f32_to_u8)(const float *in, uint8_t *out, int32_t count, float scale, float high);
    void (*f32_to_u16)(const float *in, uint16_t *out, int32_t count, float scale, float high);
    void (*sr_u8)(const bs_sr_store *store, float high);
    void (*sr_u16)(const bs_sr_store *store, float high);
    void (*bicubic_f32)(const bs_bicubic2x *task, float high);
    void (*bicubic_u8)(const bs_bicubic2x *task, float high);
    void (*bicubic_u16)(const bs_bicubic2x *task, float high);
    uint32_t (*laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count);
    uint64_t (*laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down, int32_t count, int32_t shift);
    uint32_t (*change_u8)(const uint8_t *a, const uint8_t *b, int32_t count);
    uint64_t (*change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift);
} bs_elementwise_kernels;

/* ------------------------------------------------------------------------------- helpers of the templates */

/* A coordinate moved to where samples are. */
static inline ptrdiff_t bs_inside(int32_t at, int32_t extent, int32_t before, int32_t after)
{
    return at < -before ? -before : at > extent - 1 + after ? extent - 1 + after : at;
}

/* A chunk of an input row of the bicubic, enlarged sideways: the outputs left and right of each column. */
typedef struct bs_line_pair {
    float even[BS_BICUBIC_CHUNK], odd[BS_BICUBIC_CHUNK];
} bs_line_pair;

/* -------------------------------------------------------------------------------------------------- tiers */

/* --- template kernels/simd_scalar.h --- */
/* simd_scalar.h: the vector vocabulary of the kernel templates in portable C.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: GCC's vector types, which the compiler lowers to whatever the build's baseline has
 *            (SSE2, NEON, or plain floats on a microcontroller).
 * Must never: be guarded against a second inclusion.
 */
#include <string.h>

#define BS_TIER_FN(name) name##_scalar
#define BS_TARGET
#define BS_LANES 4
#define BS_V bs_v4_scalar

#define BS_V_ZERO() ((BS_V){ 0, 0, 0, 0 })
#define BS_V_SET1(x) ((BS_V){ x, x, x, x })
#define BS_V_LOAD(p) bs_load_scalar(p)
#define BS_V_STORE(p, v) memcpy(p, &(v), sizeof(BS_V))
#define BS_V_ADD(a, b) ((a) + (b))
#define BS_V_SUB(a, b) ((a) - (b))
#define BS_V_MUL(a, b) ((a) * (b))
#define BS_V_FMA(a, b, c) ((a) * (b) + (c))
#define BS_V_FNMA(a, b, c) ((c) - (a) * (b))
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) bs_select_scalar((bs_m4_scalar)((a) > (b)), a, b)
#define BS_V_MIN(a, b) bs_select_scalar((bs_m4_scalar)((a) < (b)), a, b)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) ((part) == BS_LANES ? bs_load_scalar(p) : bs_load_few_scalar(p, part))
#define BS_V_STORE_PART(p, v, part) bs_store_part_scalar(p, v, part)

#define BS_OPAQUE(pointer) (void)(pointer)

#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 4
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_4(M, 2)
#define BS_DEPTHWISE_PIXELS 4
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_4(M, 0)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_scalar(p)
#define BS_V_LOAD_U16(p) bs_load_u16_scalar(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_scalar(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_scalar(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_scalar(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_scalar(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_scalar(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_scalar(a, b)

#ifndef BS_SIMD_SCALAR_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_SCALAR_FUNCTIONS

typedef float bs_v4_scalar __attribute__((vector_size(16)));
typedef int32_t bs_m4_scalar __attribute__((vector_size(16)));

static inline bs_v4_scalar bs_load_scalar(const float *from)
{
    bs_v4_scalar v;
    memcpy(&v, from, sizeof v);
    return v;
}

static BS_OUTLINE bs_v4_scalar bs_load_few_scalar(const float *from, int32_t part)
{
    bs_v4_scalar v = { 0, 0, 0, 0 };
    for (int32_t i = 0; i < part; i++)
        v[i] = from[i];
    return v;
}

static BS_OUTLINE void bs_store_few_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    for (int32_t i = 0; i < part; i++)
        to[i] = v[i];
}

static inline void bs_store_part_scalar(float *to, bs_v4_scalar v, int32_t part)
{
    if (part == BS_LANES)
        memcpy(to, &v, sizeof v);
    else
        bs_store_few_scalar(to, v, part);
}

static inline bs_v4_scalar bs_select_scalar(bs_m4_scalar which, bs_v4_scalar yes, bs_v4_scalar no)
{
    return (bs_v4_scalar)((which & (bs_m4_scalar)yes) | (~which & (bs_m4_scalar)no));
}

static inline bs_v4_scalar bs_load_u8_scalar(const uint8_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

static inline bs_v4_scalar bs_load_u16_scalar(const uint16_t *from)
{
    return (bs_v4_scalar){ (float)from[0], (float)from[1], (float)from[2], (float)from[3] };
}

/* To nearest even: adding 2^23 leaves no room for a fraction. */
static inline bs_v4_scalar bs_round_scalar(bs_v4_scalar v)
{
    const bs_v4_scalar big = { 8388608.0f, 8388608.0f, 8388608.0f, 8388608.0f };
    return (v + big) - big;
}

static inline void bs_store_u8_scalar(uint8_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(int32_t)v[i];
}

static inline void bs_store_u16_scalar(uint16_t *to, bs_v4_scalar v)
{
    v = bs_round_scalar(v);
    for (int32_t i = 0; i < 4; i++)
        to[i] = (uint16_t)(int32_t)v[i];
}

static inline void bs_store_pairs_u8_scalar(uint8_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint8_t)(int32_t)even[i];
        to[2 * i + 1] = (uint8_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_u16_scalar(uint16_t *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = (uint16_t)(int32_t)even[i];
        to[2 * i + 1] = (uint16_t)(int32_t)odd[i];
    }
}

static inline void bs_store_pairs_f32_scalar(float *to, bs_v4_scalar even, bs_v4_scalar odd)
{
    for (int32_t i = 0; i < 4; i++) {
        to[2 * i] = even[i];
        to[2 * i + 1] = odd[i];
    }
}

static inline bs_v4_scalar bs_even_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[0], a[1], b[0], b[1] };
}

static inline bs_v4_scalar bs_odd_pairs_scalar(bs_v4_scalar a, bs_v4_scalar b)
{
    return (bs_v4_scalar){ a[2], a[3], b[2], b[3] };
}

#endif
/* --- end of template kernels/simd_scalar.h --- */

/* --- template kernels/elementwise.inc --- */
/* elementwise.inc: the loops of elementwise.h.
 *
 * Owns:      one copy of every loop for each tier.
 * Relies on: a simd_*.h before it, and the types and constants of elementwise.c. Loops without BS_V in them are
 *            simple enough for every compiler's vectoriser at -O3.
 * Must never: make an integer result depend on the tier.
 *
 * Rows are worked on in whole vectors; what is left of a row goes through buffers of one vector, so nothing
 * beyond it is read or written.
 */

/* ------------------------------------------------------------------------------------------- conversion */

static BS_TARGET void BS_TIER_FN(bs_u8_to_f32)(const uint8_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

static BS_TARGET void BS_TIER_FN(bs_u16_to_f32)(const uint16_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

/* MAX before MIN, with the bound second: NaN becomes 0. */
#define BS_TO_CODES_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const float *in, code_type *out, int32_t count, float scale, float high) \
    {                                                                                                            \
        const BS_V zero = BS_V_ZERO(), factor = BS_V_SET1(scale), top = BS_V_SET1(high);                         \
        for (; count >= BS_LANES; count -= BS_LANES, in += BS_LANES, out += BS_LANES) {                          \
            BS_V v = BS_V_MUL(BS_V_LOAD(in), factor);                                                            \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(out, BS_V_MIN(v, top));                                                                        \
        }                                                                                                        \
        if (count > 0) {                                                                                         \
            code_type codes[BS_LANES];                                                                           \
            BS_V v = BS_V_MUL(BS_V_LOAD_PART(in, BS_V_PART_OF(count)), factor);                                  \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(codes, BS_V_MIN(v, top));                                                                      \
            memcpy(out, codes, (size_t)count * sizeof(code_type));                                               \
        }                                                                                                        \
    }

BS_TO_CODES_DEFINE(bs_f32_to_u8, uint8_t, BS_V_STORE_U8)
BS_TO_CODES_DEFINE(bs_f32_to_u16, uint16_t, BS_V_STORE_U16)

/* ---------------------------------------------------------------------------------- super-resolution store
 * Half a vector of pixels: their first two channels belong to the upper output row, the others to the lower. */

static inline BS_TARGET BS_V BS_TIER_FN(bs_sr_value)(BS_V pairs, const float *base, int32_t count, BS_V scale, BS_V top)
{
    BS_V v = pairs;
    if (base)
        v = BS_V_ADD(v, BS_V_LOAD_PART(base, BS_V_PART_OF(count)));
    v = BS_V_MUL(v, scale);
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

/* `pixels` of the four-channel tail, at most half a vector. */
#define BS_SR_STORE_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const bs_sr_store *s, const float *quads, int32_t y, int32_t x, int32_t pixels, \
                                           float high)                                                           \
    {                                                                                                            \
        const BS_V a = BS_V_LOAD(quads), b = BS_V_LOAD(quads + BS_LANES);                                        \
        const BS_V scale = BS_V_SET1(s->scale), top = BS_V_SET1(high);                                           \
        const float *base = s->base ? s->base + 2 * y * s->base_row + 2 * x : NULL;                              \
        const float *below = base ? base + s->base_row : NULL;                                                   \
        code_type *out = (code_type *)s->out + 2 * y * s->out_row + 2 * x, *under = out + s->out_row;            \
        const BS_V upper = BS_TIER_FN(bs_sr_value)(BS_V_EVEN_PAIRS(a, b), base, 2 * pixels, scale, top);         \
        const BS_V lower = BS_TIER_FN(bs_sr_value)(BS_V_ODD_PAIRS(a, b), below, 2 * pixels, scale, top);         \
        if (2 * pixels == BS_LANES) {                                                                            \
            STORE(out, upper);                                                                                   \
            STORE(under, lower);                                                                                 \
            return;                                                                                              \
        }                                                                                                        \
        code_type codes[2][BS_LANES];                                                                            \
        STORE(codes[0], upper);                                                                                  \
        STORE(codes[1], lower);                                                                                  \
        memcpy(out, codes[0], (size_t)(2 * pixels) * sizeof(code_type));                                         \
        memcpy(under, codes[1], (size_t)(2 * pixels) * sizeof(code_type));                                       \
    }                                                                                                            \
    static BS_TARGET void BS_TIER_FN(name##_all)(const bs_sr_store *s, float high)                               \
    {                                                                                                            \
        for (int32_t y = 0; y < s->h; y++)                                                                       \
            for (int32_t x = 0; x < s->w; x += BS_LANES / 2) {                                                   \
                const float *tail = s->tail + y * s->tail_row + (ptrdiff_t)x * s->tail_pixel;                    \
                float quads[2 * BS_LANES];                                                                       \
                const int32_t pixels = s->w - x < BS_LANES / 2 ? s->w - x : BS_LANES / 2;                        \
                if (s->tail_pixel == 4 && pixels == BS_LANES / 2) {                                              \
                    BS_TIER_FN(name)(s, tail, y, x, pixels, high);                                               \
                    continue;                                                                                    \
                }                                                                                                \
                memset(quads, 0, sizeof quads);                                                                  \
                for (int32_t i = 0; i < pixels; i++)                                                             \
                    memcpy(quads + 4 * i, tail + i * (ptrdiff_t)s->tail_pixel, 4 * sizeof(float));               \
                BS_TIER_FN(name)(s, quads, y, x, pixels, high);                                                  \
            }                                                                                                    \
    }

BS_SR_STORE_DEFINE(bs_sr_u8, uint8_t, BS_V_STORE_U8)
BS_SR_STORE_DEFINE(bs_sr_u16, uint16_t, BS_V_STORE_U16)

/* --------------------------------------------------------------------------------------------- bicubic x2
 * In floats for every type. The weights are -3 29 111 -9 over 128; on codes of up to 10 bits all sums are exact:
 * two passes give multiples of 2^-14 below 2^10, or something that is clipped anyway. */

/* Far taps first: then no sum exceeds the result's range by more than a few per cent. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic)(BS_V a, BS_V b, BS_V c, BS_V d)
{
    BS_V sum = BS_V_MUL(a, BS_V_SET1(-3.0f / 128.0f));
    sum = BS_V_FNMA(d, BS_V_SET1(9.0f / 128.0f), sum);
    sum = BS_V_FMA(b, BS_V_SET1(29.0f / 128.0f), sum);
    return BS_V_FMA(c, BS_V_SET1(111.0f / 128.0f), sum);
}

/* Half up: the value is not negative when it is truncated. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic_code)(BS_V v, BS_V top)
{
    v = BS_V_ADD(v, BS_V_SET1(0.5f));
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

#define BS_CUBIC_PLAIN(v, top) (v)
#define BS_CUBIC_CODE(v, top) BS_TIER_FN(bs_cubic_code)(v, top)
#define BS_V_LOAD_F32(p) BS_V_LOAD(p)

#define BS_BICUBIC_DEFINE(type, sample_type, LOAD, STORE_PAIRS, FINISH)                                          \
    /* Both outputs of one vector of columns of an input row; `in` stands two columns before the first. */       \
    static inline BS_TARGET void BS_TIER_FN(bs_horizontal_##type)(const sample_type *in, float *even, float *odd) \
    {                                                                                                            \
        const BS_V a = LOAD(in), b = LOAD(in + 1), c = LOAD(in + 2), d = LOAD(in + 3), e = LOAD(in + 4);         \
        const BS_V left = BS_TIER_FN(bs_cubic)(a, b, c, d), right = BS_TIER_FN(bs_cubic)(e, d, c, b);            \
        BS_V_STORE(even, left);                                                                                  \
        BS_V_STORE(odd, right);                                                                                  \
    }                                                                                                            \
    /* A chunk of an input row. Vectors that reach beyond the margins are gathered column by column. */          \
    static BS_TARGET void BS_TIER_FN(bs_lines_##type)(const bs_bicubic2x *t, int32_t y, int32_t x, int32_t count, bs_line_pair *lines) \
    {                                                                                                            \
        const sample_type *row = (const sample_type *)t->in + y * t->in_row;                                     \
        for (int32_t i = 0; i < count; i += BS_LANES) {                                                          \
            const int32_t first = x + i - 2, end = x + i + BS_LANES + 2;                                         \
            sample_type some[BS_LANES + 4];                                                                      \
            const sample_type *in = row + first;                                                                 \
            if (first < -t->margins.left || end > t->w + t->margins.right) {                                     \
                for (int32_t k = 0; k < BS_LANES + 4; k++)                                                       \
                    some[k] = row[bs_inside(first + k, t->w, t->margins.left, t->margins.right)];                \
                in = some;                                                                                       \
            }                                                                                                    \
            BS_TIER_FN(bs_horizontal_##type)(in, lines->even + i, lines->odd + i);                               \
        }                                                                                                        \
    }                                                                                                            \
    /* One output row from four pairs of lines, nearest weights on the third. */                                 \
    static BS_TARGET void BS_TIER_FN(bs_vertical_##type)(const bs_line_pair *r0, const bs_line_pair *r1,         \
                                                         const bs_line_pair *r2, const bs_line_pair *r3,         \
                                                         sample_type *out, int32_t count, float high)            \
    {                                                                                                            \
        const BS_V top = BS_V_SET1(high);                                                                        \
        (void)top;                                                                                               \
        for (int32_t i = 0; i < count; i += BS_LANES, out += 2 * BS_LANES) {                                     \
            const BS_V left = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->even + i), BS_V_LOAD(r1->even + i),             \
                                                   BS_V_LOAD(r2->even + i), BS_V_LOAD(r3->even + i));            \
            const BS_V right = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->odd + i), BS_V_LOAD(r1->odd + i),              \
                                                    BS_V_LOAD(r2->odd + i), BS_V_LOAD(r3->odd + i));             \
            const BS_V even = FINISH(left, top), odd = FINISH(right, top);                                       \
            if (count - i >= BS_LANES) {                                                                         \
                STORE_PAIRS(out, even, odd);                                                                     \
                continue;                                                                                        \
            }                                                                                                    \
            sample_type last[2 * BS_LANES];                                                                      \
            STORE_PAIRS(last, even, odd);                                                                        \
            memcpy(out, last, (size_t)(2 * (count - i)) * sizeof(sample_type));                                  \
        }                                                                                                        \
    }                                                                                                            \
    /* A column of chunks; each input row is enlarged sideways once and kept until five further rows are. */     \
    static BS_TARGET void BS_TIER_FN(bs_bicubic_##type)(const bs_bicubic2x *t, float high)                       \
    {                                                                                                            \
        bs_line_pair ring[5];                                                                                    \
        for (int32_t x = 0; x < t->w; x += BS_BICUBIC_CHUNK) {                                                   \
            const int32_t count = t->w - x < BS_BICUBIC_CHUNK ? t->w - x : BS_BICUBIC_CHUNK;                     \
            sample_type *out = (sample_type *)t->out + 2 * (ptrdiff_t)x;                                         \
            int32_t made = -3;                                                                                   \
            for (int32_t y = 0; y < t->h; y++, out += 2 * t->out_row) {                                          \
                const bs_line_pair *r[5];                                                                        \
                for (int32_t i = 0; i < 5; i++) {                                                                \
                    const int32_t row = (int32_t)bs_inside(y + i - 2, t->h, t->margins.top, t->margins.bottom);  \
                    bs_line_pair *lines = &ring[(row + 5) % 5];                                                  \
                    if (row > made)                                                                              \
                        BS_TIER_FN(bs_lines_##type)(t, row, x, count, lines);                                    \
                    made = row > made ? row : made;                                                              \
                    r[i] = lines;                                                                                \
                }                                                                                                \
                BS_TIER_FN(bs_vertical_##type)(r[0], r[1], r[2], r[3], out, count, high);                        \
                BS_TIER_FN(bs_vertical_##type)(r[4], r[3], r[2], r[1], out + t->out_row, count, high);           \
            }                                                                                                    \
        }                                                                                                        \
    }

BS_BICUBIC_DEFINE(u8, uint8_t, BS_V_LOAD_U8, BS_V_STORE_PAIRS_U8, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(u16, uint16_t, BS_V_LOAD_U16, BS_V_STORE_PAIRS_U16, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(f32, float, BS_V_LOAD_F32, BS_V_STORE_PAIRS_F32, BS_CUBIC_PLAIN)

/* ----------------------------------------------------------------------------------------------- features
 * Sums of a row, at most BS_SUM_CHUNK samples: 256 squares of at most 1020 fit 31 bits. */

static BS_TARGET uint32_t BS_TIER_FN(bs_laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(4 * c[i] - up[i] - down[i] - c[i - 1] - c[i + 1]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down,
                                                       int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = 4 * (c[i] >> shift) - (up[i] >> shift) - (down[i] >> shift) - (c[i - 1] >> shift) - (c[i + 1] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}

static BS_TARGET uint32_t BS_TIER_FN(bs_change_u8)(const uint8_t *a, const uint8_t *b, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(a[i] - b[i]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = (a[i] >> shift) - (b[i] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}
/* --- end of template kernels/elementwise.inc --- */
/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

#if BS_HAVE_X86_TIERS
/* --- template kernels/simd_avx2.h --- */
/* simd_avx2.h: the vector vocabulary of the kernel templates, AVX2 and FMA.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx2.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>

#define BS_TIER_FN(name) name##_avx2
#define BS_TARGET __attribute__((target("avx2,fma")))
#define BS_LANES 8
#define BS_V __m256
#define BS_V_ZERO() _mm256_setzero_ps()
#define BS_V_SET1(x) _mm256_set1_ps(x)
#define BS_V_LOAD(p) _mm256_loadu_ps(p)
#define BS_V_STORE(p, v) _mm256_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm256_add_ps(a, b)
#define BS_V_SUB(a, b) _mm256_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm256_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm256_max_ps(a, b)
#define BS_V_MIN(a, b) _mm256_min_ps(a, b)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. A masked load is
 * fast everywhere, a masked store is microcode on some processors: whole vectors and halves avoid it. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_avx2(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_avx2(p, v, part)

/* As in simd_avx512.h. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 12
#define BS_OUTER_PIXELS_2 6
#define BS_OUTER_UPTO_1(M) BS_UPTO_12(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_6(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD4(a, b, c, d) __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d))
#define BS_DOT_PIXELS 2
#define BS_DOT_UPTO(M) M(1, 0) M(2, 0)

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx2(a, b, c, d)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx2(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx2(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx2(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx2(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx2(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx2(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx2(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx2(a, b)

#ifndef BS_SIMD_AVX2_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX2_FUNCTIONS

static inline BS_TARGET __m256i bs_part_mask_avx2(int32_t part)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(part), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline BS_TARGET __m256 bs_load_part_avx2(const float *from, int32_t part)
{
    return part == BS_LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, bs_part_mask_avx2(part));
}

static BS_OUTLINE BS_TARGET void bs_store_few_avx2(float *to, __m256 v, int32_t part)
{
    if (part == 4)
        _mm_storeu_ps(to, _mm256_castps256_ps128(v));
    else
        _mm256_maskstore_ps(to, bs_part_mask_avx2(part), v);
}

static inline BS_TARGET void bs_store_part_avx2(float *to, __m256 v, int32_t part)
{
    if (part == BS_LANES)
        _mm256_storeu_ps(to, v);
    else
        bs_store_few_avx2(to, v, part);
}

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx2(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

static inline BS_TARGET __m256 bs_load_u8_avx2(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m256 bs_load_u16_avx2(const uint16_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

/* Eight integers of at most 16 bits. */
static inline BS_TARGET __m128i bs_narrow_avx2(__m256i v)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline BS_TARGET void bs_store_u8_avx2(uint8_t *to, __m256 v)
{
    const __m128i codes = bs_narrow_avx2(_mm256_cvtps_epi32(v));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(codes, codes));
}

static inline BS_TARGET void bs_store_u16_avx2(uint16_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(_mm256_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx2(uint8_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 8);
    const __m256i pairs = _mm256_or_si256(_mm256_cvttps_epi32(even), high);
    _mm_storeu_si128((__m128i *)(void *)to, bs_narrow_avx2(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx2(uint16_t *to, __m256 even, __m256 odd)
{
    const __m256i high = _mm256_slli_epi32(_mm256_cvttps_epi32(odd), 16);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_or_si256(_mm256_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx2(float *to, __m256 even, __m256 odd)
{
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + BS_LANES, _mm256_permute2f128_ps(low, high, 0x31));
}

static inline BS_TARGET __m256 bs_even_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

static inline BS_TARGET __m256 bs_odd_pairs_avx2(__m256 a, __m256 b)
{
    const __m256d pairs = _mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}

#endif
/* --- end of template kernels/simd_avx2.h --- */

/* --- template kernels/elementwise.inc --- */
/* elementwise.inc: the loops of elementwise.h.
 *
 * Owns:      one copy of every loop for each tier.
 * Relies on: a simd_*.h before it, and the types and constants of elementwise.c. Loops without BS_V in them are
 *            simple enough for every compiler's vectoriser at -O3.
 * Must never: make an integer result depend on the tier.
 *
 * Rows are worked on in whole vectors; what is left of a row goes through buffers of one vector, so nothing
 * beyond it is read or written.
 */

/* ------------------------------------------------------------------------------------------- conversion */

static BS_TARGET void BS_TIER_FN(bs_u8_to_f32)(const uint8_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

static BS_TARGET void BS_TIER_FN(bs_u16_to_f32)(const uint16_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

/* MAX before MIN, with the bound second: NaN becomes 0. */
#define BS_TO_CODES_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const float *in, code_type *out, int32_t count, float scale, float high) \
    {                                                                                                            \
        const BS_V zero = BS_V_ZERO(), factor = BS_V_SET1(scale), top = BS_V_SET1(high);                         \
        for (; count >= BS_LANES; count -= BS_LANES, in += BS_LANES, out += BS_LANES) {                          \
            BS_V v = BS_V_MUL(BS_V_LOAD(in), factor);                                                            \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(out, BS_V_MIN(v, top));                                                                        \
        }                                                                                                        \
        if (count > 0) {                                                                                         \
            code_type codes[BS_LANES];                                                                           \
            BS_V v = BS_V_MUL(BS_V_LOAD_PART(in, BS_V_PART_OF(count)), factor);                                  \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(codes, BS_V_MIN(v, top));                                                                      \
            memcpy(out, codes, (size_t)count * sizeof(code_type));                                               \
        }                                                                                                        \
    }

BS_TO_CODES_DEFINE(bs_f32_to_u8, uint8_t, BS_V_STORE_U8)
BS_TO_CODES_DEFINE(bs_f32_to_u16, uint16_t, BS_V_STORE_U16)

/* ---------------------------------------------------------------------------------- super-resolution store
 * Half a vector of pixels: their first two channels belong to the upper output row, the others to the lower. */

static inline BS_TARGET BS_V BS_TIER_FN(bs_sr_value)(BS_V pairs, const float *base, int32_t count, BS_V scale, BS_V top)
{
    BS_V v = pairs;
    if (base)
        v = BS_V_ADD(v, BS_V_LOAD_PART(base, BS_V_PART_OF(count)));
    v = BS_V_MUL(v, scale);
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

/* `pixels` of the four-channel tail, at most half a vector. */
#define BS_SR_STORE_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const bs_sr_store *s, const float *quads, int32_t y, int32_t x, int32_t pixels, \
                                           float high)                                                           \
    {                                                                                                            \
        const BS_V a = BS_V_LOAD(quads), b = BS_V_LOAD(quads + BS_LANES);                                        \
        const BS_V scale = BS_V_SET1(s->scale), top = BS_V_SET1(high);                                           \
        const float *base = s->base ? s->base + 2 * y * s->base_row + 2 * x : NULL;                              \
        const float *below = base ? base + s->base_row : NULL;                                                   \
        code_type *out = (code_type *)s->out + 2 * y * s->out_row + 2 * x, *under = out + s->out_row;            \
        const BS_V upper = BS_TIER_FN(bs_sr_value)(BS_V_EVEN_PAIRS(a, b), base, 2 * pixels, scale, top);         \
        const BS_V lower = BS_TIER_FN(bs_sr_value)(BS_V_ODD_PAIRS(a, b), below, 2 * pixels, scale, top);         \
        if (2 * pixels == BS_LANES) {                                                                            \
            STORE(out, upper);                                                                                   \
            STORE(under, lower);                                                                                 \
            return;                                                                                              \
        }                                                                                                        \
        code_type codes[2][BS_LANES];                                                                            \
        STORE(codes[0], upper);                                                                                  \
        STORE(codes[1], lower);                                                                                  \
        memcpy(out, codes[0], (size_t)(2 * pixels) * sizeof(code_type));                                         \
        memcpy(under, codes[1], (size_t)(2 * pixels) * sizeof(code_type));                                       \
    }                                                                                                            \
    static BS_TARGET void BS_TIER_FN(name##_all)(const bs_sr_store *s, float high)                               \
    {                                                                                                            \
        for (int32_t y = 0; y < s->h; y++)                                                                       \
            for (int32_t x = 0; x < s->w; x += BS_LANES / 2) {                                                   \
                const float *tail = s->tail + y * s->tail_row + (ptrdiff_t)x * s->tail_pixel;                    \
                float quads[2 * BS_LANES];                                                                       \
                const int32_t pixels = s->w - x < BS_LANES / 2 ? s->w - x : BS_LANES / 2;                        \
                if (s->tail_pixel == 4 && pixels == BS_LANES / 2) {                                              \
                    BS_TIER_FN(name)(s, tail, y, x, pixels, high);                                               \
                    continue;                                                                                    \
                }                                                                                                \
                memset(quads, 0, sizeof quads);                                                                  \
                for (int32_t i = 0; i < pixels; i++)                                                             \
                    memcpy(quads + 4 * i, tail + i * (ptrdiff_t)s->tail_pixel, 4 * sizeof(float));               \
                BS_TIER_FN(name)(s, quads, y, x, pixels, high);                                                  \
            }                                                                                                    \
    }

BS_SR_STORE_DEFINE(bs_sr_u8, uint8_t, BS_V_STORE_U8)
BS_SR_STORE_DEFINE(bs_sr_u16, uint16_t, BS_V_STORE_U16)

/* --------------------------------------------------------------------------------------------- bicubic x2
 * In floats for every type. The weights are -3 29 111 -9 over 128; on codes of up to 10 bits all sums are exact:
 * two passes give multiples of 2^-14 below 2^10, or something that is clipped anyway. */

/* Far taps first: then no sum exceeds the result's range by more than a few per cent. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic)(BS_V a, BS_V b, BS_V c, BS_V d)
{
    BS_V sum = BS_V_MUL(a, BS_V_SET1(-3.0f / 128.0f));
    sum = BS_V_FNMA(d, BS_V_SET1(9.0f / 128.0f), sum);
    sum = BS_V_FMA(b, BS_V_SET1(29.0f / 128.0f), sum);
    return BS_V_FMA(c, BS_V_SET1(111.0f / 128.0f), sum);
}

/* Half up: the value is not negative when it is truncated. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic_code)(BS_V v, BS_V top)
{
    v = BS_V_ADD(v, BS_V_SET1(0.5f));
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

#define BS_CUBIC_PLAIN(v, top) (v)
#define BS_CUBIC_CODE(v, top) BS_TIER_FN(bs_cubic_code)(v, top)
#define BS_V_LOAD_F32(p) BS_V_LOAD(p)

#define BS_BICUBIC_DEFINE(type, sample_type, LOAD, STORE_PAIRS, FINISH)                                          \
    /* Both outputs of one vector of columns of an input row; `in` stands two columns before the first. */       \
    static inline BS_TARGET void BS_TIER_FN(bs_horizontal_##type)(const sample_type *in, float *even, float *odd) \
    {                                                                                                            \
        const BS_V a = LOAD(in), b = LOAD(in + 1), c = LOAD(in + 2), d = LOAD(in + 3), e = LOAD(in + 4);         \
        const BS_V left = BS_TIER_FN(bs_cubic)(a, b, c, d), right = BS_TIER_FN(bs_cubic)(e, d, c, b);            \
        BS_V_STORE(even, left);                                                                                  \
        BS_V_STORE(odd, right);                                                                                  \
    }                                                                                                            \
    /* A chunk of an input row. Vectors that reach beyond the margins are gathered column by column. */          \
    static BS_TARGET void BS_TIER_FN(bs_lines_##type)(const bs_bicubic2x *t, int32_t y, int32_t x, int32_t count, bs_line_pair *lines) \
    {                                                                                                            \
        const sample_type *row = (const sample_type *)t->in + y * t->in_row;                                     \
        for (int32_t i = 0; i < count; i += BS_LANES) {                                                          \
            const int32_t first = x + i - 2, end = x + i + BS_LANES + 2;                                         \
            sample_type some[BS_LANES + 4];                                                                      \
            const sample_type *in = row + first;                                                                 \
            if (first < -t->margins.left || end > t->w + t->margins.right) {                                     \
                for (int32_t k = 0; k < BS_LANES + 4; k++)                                                       \
                    some[k] = row[bs_inside(first + k, t->w, t->margins.left, t->margins.right)];                \
                in = some;                                                                                       \
            }                                                                                                    \
            BS_TIER_FN(bs_horizontal_##type)(in, lines->even + i, lines->odd + i);                               \
        }                                                                                                        \
    }                                                                                                            \
    /* One output row from four pairs of lines, nearest weights on the third. */                                 \
    static BS_TARGET void BS_TIER_FN(bs_vertical_##type)(const bs_line_pair *r0, const bs_line_pair *r1,         \
                                                         const bs_line_pair *r2, const bs_line_pair *r3,         \
                                                         sample_type *out, int32_t count, float high)            \
    {                                                                                                            \
        const BS_V top = BS_V_SET1(high);                                                                        \
        (void)top;                                                                                               \
        for (int32_t i = 0; i < count; i += BS_LANES, out += 2 * BS_LANES) {                                     \
            const BS_V left = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->even + i), BS_V_LOAD(r1->even + i),             \
                                                   BS_V_LOAD(r2->even + i), BS_V_LOAD(r3->even + i));            \
            const BS_V right = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->odd + i), BS_V_LOAD(r1->odd + i),              \
                                                    BS_V_LOAD(r2->odd + i), BS_V_LOAD(r3->odd + i));             \
            const BS_V even = FINISH(left, top), odd = FINISH(right, top);                                       \
            if (count - i >= BS_LANES) {                                                                         \
                STORE_PAIRS(out, even, odd);                                                                     \
                continue;                                                                                        \
            }                                                                                                    \
            sample_type last[2 * BS_LANES];                                                                      \
            STORE_PAIRS(last, even, odd);                                                                        \
            memcpy(out, last, (size_t)(2 * (count - i)) * sizeof(sample_type));                                  \
        }                                                                                                        \
    }                                                                                                            \
    /* A column of chunks; each input row is enlarged sideways once and kept until five further rows are. */     \
    static BS_TARGET void BS_TIER_FN(bs_bicubic_##type)(const bs_bicubic2x *t, float high)                       \
    {                                                                                                            \
        bs_line_pair ring[5];                                                                                    \
        for (int32_t x = 0; x < t->w; x += BS_BICUBIC_CHUNK) {                                                   \
            const int32_t count = t->w - x < BS_BICUBIC_CHUNK ? t->w - x : BS_BICUBIC_CHUNK;                     \
            sample_type *out = (sample_type *)t->out + 2 * (ptrdiff_t)x;                                         \
            int32_t made = -3;                                                                                   \
            for (int32_t y = 0; y < t->h; y++, out += 2 * t->out_row) {                                          \
                const bs_line_pair *r[5];                                                                        \
                for (int32_t i = 0; i < 5; i++) {                                                                \
                    const int32_t row = (int32_t)bs_inside(y + i - 2, t->h, t->margins.top, t->margins.bottom);  \
                    bs_line_pair *lines = &ring[(row + 5) % 5];                                                  \
                    if (row > made)                                                                              \
                        BS_TIER_FN(bs_lines_##type)(t, row, x, count, lines);                                    \
                    made = row > made ? row : made;                                                              \
                    r[i] = lines;                                                                                \
                }                                                                                                \
                BS_TIER_FN(bs_vertical_##type)(r[0], r[1], r[2], r[3], out, count, high);                        \
                BS_TIER_FN(bs_vertical_##type)(r[4], r[3], r[2], r[1], out + t->out_row, count, high);           \
            }                                                                                                    \
        }                                                                                                        \
    }

BS_BICUBIC_DEFINE(u8, uint8_t, BS_V_LOAD_U8, BS_V_STORE_PAIRS_U8, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(u16, uint16_t, BS_V_LOAD_U16, BS_V_STORE_PAIRS_U16, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(f32, float, BS_V_LOAD_F32, BS_V_STORE_PAIRS_F32, BS_CUBIC_PLAIN)

/* ----------------------------------------------------------------------------------------------- features
 * Sums of a row, at most BS_SUM_CHUNK samples: 256 squares of at most 1020 fit 31 bits. */

static BS_TARGET uint32_t BS_TIER_FN(bs_laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(4 * c[i] - up[i] - down[i] - c[i - 1] - c[i + 1]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down,
                                                       int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = 4 * (c[i] >> shift) - (up[i] >> shift) - (down[i] >> shift) - (c[i - 1] >> shift) - (c[i + 1] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}

static BS_TARGET uint32_t BS_TIER_FN(bs_change_u8)(const uint8_t *a, const uint8_t *b, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(a[i] - b[i]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = (a[i] >> shift) - (b[i] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}
/* --- end of template kernels/elementwise.inc --- */
/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */

/* --- template kernels/simd_avx512.h --- */
/* simd_avx512.h: the vector vocabulary of the kernel templates, AVX-512 (F, BW, DQ, VL).
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_avx512.c just before the templates.
 * Must never: be guarded against a second inclusion, or need -m flags.
 */
#include <immintrin.h>

#define BS_TIER_FN(name) name##_avx512
#define BS_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define BS_LANES 16
#define BS_V __m512
#define BS_V_ZERO() _mm512_setzero_ps()
#define BS_V_SET1(x) _mm512_set1_ps(x)
#define BS_V_LOAD(p) _mm512_loadu_ps(p)
#define BS_V_STORE(p, v) _mm512_storeu_ps(p, v)
#define BS_V_ADD(a, b) _mm512_add_ps(a, b)
#define BS_V_SUB(a, b) _mm512_sub_ps(a, b)
#define BS_V_MUL(a, b) _mm512_mul_ps(a, b)
#define BS_V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)   /* a * b + c */
#define BS_V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) _mm512_max_ps(a, b)
#define BS_V_MIN(a, b) _mm512_min_ps(a, b)

/* A part stands for the valid lanes, 1..BS_LANES of them; the others are neither read nor written. */
#define BS_V_PART __mmask16
#define BS_V_PART_OF(n) ((__mmask16)(0xffffu >> (BS_LANES - (n))))
#define BS_V_LOAD_PART(p, part) _mm512_maskz_loadu_ps(part, p)
#define BS_V_STORE_PART(p, v, part) _mm512_mask_storeu_ps(p, part, v)

/* Stops the compiler from turning a base and its multiples into one pointer for each pixel: x86 adds
 * base + index * scale for nothing, and fourteen pointers do not fit the registers. */
#define BS_OPAQUE(pointer) __asm__("" : "+r"(pointer))

#define BS_OUTER_PIXELS_1 14
#define BS_OUTER_PIXELS_2 14
#define BS_OUTER_UPTO_1(M) BS_UPTO_14(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_14(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)
/* Keeps four weights in registers: left alone, GCC reads each from memory once for every pixel. */
#define BS_HOLD4(a, b, c, d) __asm__("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#define BS_DOT_PIXELS 4
#define BS_DOT_UPTO(M) BS_UPTO_4(M, 0)

#define BS_V_SUM4(a, b, c, d) bs_sum4_avx512(a, b, c, d)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_avx512(p)
#define BS_V_LOAD_U16(p) bs_load_u16_avx512(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_avx512(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_avx512(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_avx512(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_avx512(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_avx512(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_avx512(a, b)

#ifndef BS_SIMD_AVX512_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_AVX512_FUNCTIONS

/* Four vectors -> the four sums of their lanes. */
static inline BS_TARGET __m128 bs_sum4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 t = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(t), _mm512_extractf32x8_ps(t, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

static inline BS_TARGET __m512 bs_load_u8_avx512(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

static inline BS_TARGET __m512 bs_load_u16_avx512(const uint16_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

static inline BS_TARGET void bs_store_u8_avx512(uint8_t *to, __m512 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_u16_avx512(uint16_t *to, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
}

static inline BS_TARGET void bs_store_pairs_u8_avx512(uint8_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 8);
    const __m512i pairs = _mm512_or_si512(_mm512_cvttps_epi32(even), high);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(pairs));
}

static inline BS_TARGET void bs_store_pairs_u16_avx512(uint16_t *to, __m512 even, __m512 odd)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvttps_epi32(odd), 16);
    _mm512_storeu_si512(to, _mm512_or_si512(_mm512_cvttps_epi32(even), high));
}

static inline BS_TARGET void bs_store_pairs_f32_avx512(float *to, __m512 even, __m512 odd)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(to + BS_LANES, _mm512_permutex2var_ps(even, second, odd));
}

static inline BS_TARGET __m512 bs_even_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

static inline BS_TARGET __m512 bs_odd_pairs_avx512(__m512 a, __m512 b)
{
    const __m512i which = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), which, _mm512_castps_pd(b)));
}

#endif
/* --- end of template kernels/simd_avx512.h --- */

/* --- template kernels/elementwise.inc --- */
/* elementwise.inc: the loops of elementwise.h.
 *
 * Owns:      one copy of every loop for each tier.
 * Relies on: a simd_*.h before it, and the types and constants of elementwise.c. Loops without BS_V in them are
 *            simple enough for every compiler's vectoriser at -O3.
 * Must never: make an integer result depend on the tier.
 *
 * Rows are worked on in whole vectors; what is left of a row goes through buffers of one vector, so nothing
 * beyond it is read or written.
 */

/* ------------------------------------------------------------------------------------------- conversion */

static BS_TARGET void BS_TIER_FN(bs_u8_to_f32)(const uint8_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

static BS_TARGET void BS_TIER_FN(bs_u16_to_f32)(const uint16_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

/* MAX before MIN, with the bound second: NaN becomes 0. */
#define BS_TO_CODES_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const float *in, code_type *out, int32_t count, float scale, float high) \
    {                                                                                                            \
        const BS_V zero = BS_V_ZERO(), factor = BS_V_SET1(scale), top = BS_V_SET1(high);                         \
        for (; count >= BS_LANES; count -= BS_LANES, in += BS_LANES, out += BS_LANES) {                          \
            BS_V v = BS_V_MUL(BS_V_LOAD(in), factor);                                                            \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(out, BS_V_MIN(v, top));                                                                        \
        }                                                                                                        \
        if (count > 0) {                                                                                         \
            code_type codes[BS_LANES];                                                                           \
            BS_V v = BS_V_MUL(BS_V_LOAD_PART(in, BS_V_PART_OF(count)), factor);                                  \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(codes, BS_V_MIN(v, top));                                                                      \
            memcpy(out, codes, (size_t)count * sizeof(code_type));                                               \
        }                                                                                                        \
    }

BS_TO_CODES_DEFINE(bs_f32_to_u8, uint8_t, BS_V_STORE_U8)
BS_TO_CODES_DEFINE(bs_f32_to_u16, uint16_t, BS_V_STORE_U16)

/* ---------------------------------------------------------------------------------- super-resolution store
 * Half a vector of pixels: their first two channels belong to the upper output row, the others to the lower. */

static inline BS_TARGET BS_V BS_TIER_FN(bs_sr_value)(BS_V pairs, const float *base, int32_t count, BS_V scale, BS_V top)
{
    BS_V v = pairs;
    if (base)
        v = BS_V_ADD(v, BS_V_LOAD_PART(base, BS_V_PART_OF(count)));
    v = BS_V_MUL(v, scale);
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

/* `pixels` of the four-channel tail, at most half a vector. */
#define BS_SR_STORE_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const bs_sr_store *s, const float *quads, int32_t y, int32_t x, int32_t pixels, \
                                           float high)                                                           \
    {                                                                                                            \
        const BS_V a = BS_V_LOAD(quads), b = BS_V_LOAD(quads + BS_LANES);                                        \
        const BS_V scale = BS_V_SET1(s->scale), top = BS_V_SET1(high);                                           \
        const float *base = s->base ? s->base + 2 * y * s->base_row + 2 * x : NULL;                              \
        const float *below = base ? base + s->base_row : NULL;                                                   \
        code_type *out = (code_type *)s->out + 2 * y * s->out_row + 2 * x, *under = out + s->out_row;            \
        const BS_V upper = BS_TIER_FN(bs_sr_value)(BS_V_EVEN_PAIRS(a, b), base, 2 * pixels, scale, top);         \
        const BS_V lower = BS_TIER_FN(bs_sr_value)(BS_V_ODD_PAIRS(a, b), below, 2 * pixels, scale, top);         \
        if (2 * pixels == BS_LANES) {                                                                            \
            STORE(out, upper);                                                                                   \
            STORE(under, lower);                                                                                 \
            return;                                                                                              \
        }                                                                                                        \
        code_type codes[2][BS_LANES];                                                                            \
        STORE(codes[0], upper);                                                                                  \
        STORE(codes[1], lower);                                                                                  \
        memcpy(out, codes[0], (size_t)(2 * pixels) * sizeof(code_type));                                         \
        memcpy(under, codes[1], (size_t)(2 * pixels) * sizeof(code_type));                                       \
    }                                                                                                            \
    static BS_TARGET void BS_TIER_FN(name##_all)(const bs_sr_store *s, float high)                               \
    {                                                                                                            \
        for (int32_t y = 0; y < s->h; y++)                                                                       \
            for (int32_t x = 0; x < s->w; x += BS_LANES / 2) {                                                   \
                const float *tail = s->tail + y * s->tail_row + (ptrdiff_t)x * s->tail_pixel;                    \
                float quads[2 * BS_LANES];                                                                       \
                const int32_t pixels = s->w - x < BS_LANES / 2 ? s->w - x : BS_LANES / 2;                        \
                if (s->tail_pixel == 4 && pixels == BS_LANES / 2) {                                              \
                    BS_TIER_FN(name)(s, tail, y, x, pixels, high);                                               \
                    continue;                                                                                    \
                }                                                                                                \
                memset(quads, 0, sizeof quads);                                                                  \
                for (int32_t i = 0; i < pixels; i++)                                                             \
                    memcpy(quads + 4 * i, tail + i * (ptrdiff_t)s->tail_pixel, 4 * sizeof(float));               \
                BS_TIER_FN(name)(s, quads, y, x, pixels, high);                                                  \
            }                                                                                                    \
    }

BS_SR_STORE_DEFINE(bs_sr_u8, uint8_t, BS_V_STORE_U8)
BS_SR_STORE_DEFINE(bs_sr_u16, uint16_t, BS_V_STORE_U16)

/* --------------------------------------------------------------------------------------------- bicubic x2
 * In floats for every type. The weights are -3 29 111 -9 over 128; on codes of up to 10 bits all sums are exact:
 * two passes give multiples of 2^-14 below 2^10, or something that is clipped anyway. */

/* Far taps first: then no sum exceeds the result's range by more than a few per cent. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic)(BS_V a, BS_V b, BS_V c, BS_V d)
{
    BS_V sum = BS_V_MUL(a, BS_V_SET1(-3.0f / 128.0f));
    sum = BS_V_FNMA(d, BS_V_SET1(9.0f / 128.0f), sum);
    sum = BS_V_FMA(b, BS_V_SET1(29.0f / 128.0f), sum);
    return BS_V_FMA(c, BS_V_SET1(111.0f / 128.0f), sum);
}

/* Half up: the value is not negative when it is truncated. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic_code)(BS_V v, BS_V top)
{
    v = BS_V_ADD(v, BS_V_SET1(0.5f));
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

#define BS_CUBIC_PLAIN(v, top) (v)
#define BS_CUBIC_CODE(v, top) BS_TIER_FN(bs_cubic_code)(v, top)
#define BS_V_LOAD_F32(p) BS_V_LOAD(p)

#define BS_BICUBIC_DEFINE(type, sample_type, LOAD, STORE_PAIRS, FINISH)                                          \
    /* Both outputs of one vector of columns of an input row; `in` stands two columns before the first. */       \
    static inline BS_TARGET void BS_TIER_FN(bs_horizontal_##type)(const sample_type *in, float *even, float *odd) \
    {                                                                                                            \
        const BS_V a = LOAD(in), b = LOAD(in + 1), c = LOAD(in + 2), d = LOAD(in + 3), e = LOAD(in + 4);         \
        const BS_V left = BS_TIER_FN(bs_cubic)(a, b, c, d), right = BS_TIER_FN(bs_cubic)(e, d, c, b);            \
        BS_V_STORE(even, left);                                                                                  \
        BS_V_STORE(odd, right);                                                                                  \
    }                                                                                                            \
    /* A chunk of an input row. Vectors that reach beyond the margins are gathered column by column. */          \
    static BS_TARGET void BS_TIER_FN(bs_lines_##type)(const bs_bicubic2x *t, int32_t y, int32_t x, int32_t count, bs_line_pair *lines) \
    {                                                                                                            \
        const sample_type *row = (const sample_type *)t->in + y * t->in_row;                                     \
        for (int32_t i = 0; i < count; i += BS_LANES) {                                                          \
            const int32_t first = x + i - 2, end = x + i + BS_LANES + 2;                                         \
            sample_type some[BS_LANES + 4];                                                                      \
            const sample_type *in = row + first;                                                                 \
            if (first < -t->margins.left || end > t->w + t->margins.right) {                                     \
                for (int32_t k = 0; k < BS_LANES + 4; k++)                                                       \
                    some[k] = row[bs_inside(first + k, t->w, t->margins.left, t->margins.right)];                \
                in = some;                                                                                       \
            }                                                                                                    \
            BS_TIER_FN(bs_horizontal_##type)(in, lines->even + i, lines->odd + i);                               \
        }                                                                                                        \
    }                                                                                                            \
    /* One output row from four pairs of lines, nearest weights on the third. */                                 \
    static BS_TARGET void BS_TIER_FN(bs_vertical_##type)(const bs_line_pair *r0, const bs_line_pair *r1,         \
                                                         const bs_line_pair *r2, const bs_line_pair *r3,         \
                                                         sample_type *out, int32_t count, float high)            \
    {                                                                                                            \
        const BS_V top = BS_V_SET1(high);                                                                        \
        (void)top;                                                                                               \
        for (int32_t i = 0; i < count; i += BS_LANES, out += 2 * BS_LANES) {                                     \
            const BS_V left = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->even + i), BS_V_LOAD(r1->even + i),             \
                                                   BS_V_LOAD(r2->even + i), BS_V_LOAD(r3->even + i));            \
            const BS_V right = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->odd + i), BS_V_LOAD(r1->odd + i),              \
                                                    BS_V_LOAD(r2->odd + i), BS_V_LOAD(r3->odd + i));             \
            const BS_V even = FINISH(left, top), odd = FINISH(right, top);                                       \
            if (count - i >= BS_LANES) {                                                                         \
                STORE_PAIRS(out, even, odd);                                                                     \
                continue;                                                                                        \
            }                                                                                                    \
            sample_type last[2 * BS_LANES];                                                                      \
            STORE_PAIRS(last, even, odd);                                                                        \
            memcpy(out, last, (size_t)(2 * (count - i)) * sizeof(sample_type));                                  \
        }                                                                                                        \
    }                                                                                                            \
    /* A column of chunks; each input row is enlarged sideways once and kept until five further rows are. */     \
    static BS_TARGET void BS_TIER_FN(bs_bicubic_##type)(const bs_bicubic2x *t, float high)                       \
    {                                                                                                            \
        bs_line_pair ring[5];                                                                                    \
        for (int32_t x = 0; x < t->w; x += BS_BICUBIC_CHUNK) {                                                   \
            const int32_t count = t->w - x < BS_BICUBIC_CHUNK ? t->w - x : BS_BICUBIC_CHUNK;                     \
            sample_type *out = (sample_type *)t->out + 2 * (ptrdiff_t)x;                                         \
            int32_t made = -3;                                                                                   \
            for (int32_t y = 0; y < t->h; y++, out += 2 * t->out_row) {                                          \
                const bs_line_pair *r[5];                                                                        \
                for (int32_t i = 0; i < 5; i++) {                                                                \
                    const int32_t row = (int32_t)bs_inside(y + i - 2, t->h, t->margins.top, t->margins.bottom);  \
                    bs_line_pair *lines = &ring[(row + 5) % 5];                                                  \
                    if (row > made)                                                                              \
                        BS_TIER_FN(bs_lines_##type)(t, row, x, count, lines);                                    \
                    made = row > made ? row : made;                                                              \
                    r[i] = lines;                                                                                \
                }                                                                                                \
                BS_TIER_FN(bs_vertical_##type)(r[0], r[1], r[2], r[3], out, count, high);                        \
                BS_TIER_FN(bs_vertical_##type)(r[4], r[3], r[2], r[1], out + t->out_row, count, high);           \
            }                                                                                                    \
        }                                                                                                        \
    }

BS_BICUBIC_DEFINE(u8, uint8_t, BS_V_LOAD_U8, BS_V_STORE_PAIRS_U8, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(u16, uint16_t, BS_V_LOAD_U16, BS_V_STORE_PAIRS_U16, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(f32, float, BS_V_LOAD_F32, BS_V_STORE_PAIRS_F32, BS_CUBIC_PLAIN)

/* ----------------------------------------------------------------------------------------------- features
 * Sums of a row, at most BS_SUM_CHUNK samples: 256 squares of at most 1020 fit 31 bits. */

static BS_TARGET uint32_t BS_TIER_FN(bs_laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(4 * c[i] - up[i] - down[i] - c[i - 1] - c[i + 1]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down,
                                                       int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = 4 * (c[i] >> shift) - (up[i] >> shift) - (down[i] >> shift) - (c[i - 1] >> shift) - (c[i + 1] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}

static BS_TARGET uint32_t BS_TIER_FN(bs_change_u8)(const uint8_t *a, const uint8_t *b, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(a[i] - b[i]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = (a[i] >> shift) - (b[i] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}
/* --- end of template kernels/elementwise.inc --- */
/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */
#endif

#if BS_HAVE_NEON_TIER
/* --- template kernels/simd_neon.h --- */
/* simd_neon.h: the vector vocabulary of the kernel templates, AArch64 Advanced SIMD.
 *
 * Owns:      the BS_V_* macros and the tile sizes; simd_end.h takes them back.
 * Relies on: being included by conv_neon.c just before the templates.
 * Must never: be guarded against a second inclusion, or use what is not in the AArch64 baseline.
 */
#include <arm_neon.h>
#include <string.h>

#define BS_TIER_FN(name) name##_neon
#define BS_TARGET
#define BS_LANES 4
#define BS_V float32x4_t
#define BS_V_ZERO() vdupq_n_f32(0)
#define BS_V_SET1(x) vdupq_n_f32(x)
#define BS_V_LOAD(p) vld1q_f32(p)
#define BS_V_STORE(p, v) vst1q_f32(p, v)
#define BS_V_ADD(a, b) vaddq_f32(a, b)
#define BS_V_SUB(a, b) vsubq_f32(a, b)
#define BS_V_MUL(a, b) vmulq_f32(a, b)
#define BS_V_FMA(a, b, c) vfmaq_f32(c, a, b)  /* a * b + c */
#define BS_V_FNMA(a, b, c) vfmsq_f32(c, a, b) /* c - a * b */
/* Of the smaller and larger the second operand is returned where one is NaN: MAX(low, v) keeps a NaN v. */
#define BS_V_MAX(a, b) vmaxq_f32(a, b)
#define BS_V_MIN(a, b) vminq_f32(a, b)

#define BS_V_QUAD float32x4_t
#define BS_V_QUAD_LOAD(p) vld1q_f32(p)
#define BS_V_QUAD_FMA(sum, w, quad, lane) vfmaq_laneq_f32(sum, w, quad, lane)

/* A part is the count of valid lanes, 1..BS_LANES; the others are neither read nor written. */
#define BS_V_PART int32_t
#define BS_V_PART_OF(n) (n)
#define BS_V_LOAD_PART(p, part) bs_load_part_neon(p, part)
#define BS_V_STORE_PART(p, v, part) bs_store_part_neon(p, v, part)

#define BS_OPAQUE(pointer) (void)(pointer)

/* 16 accumulators, 8 inputs and 2 weights of 32 registers. */
#define BS_OUTER_PIXELS_1 8
#define BS_OUTER_PIXELS_2 8
#define BS_OUTER_UPTO_1(M) BS_UPTO_8(M, 1)
#define BS_OUTER_UPTO_2(M) BS_UPTO_8(M, 2)
#define BS_DEPTHWISE_PIXELS 8
#define BS_DEPTHWISE_UPTO(M) BS_UPTO_8(M, 0)

/* Codes. Loads widen to float; stores take values already inside the range of the code, the pairs are truncated
 * and interleaved (even 0, odd 0, even 1, ...). EVEN and ODD_PAIRS pick two of every four floats of a, then of b. */
#define BS_V_LOAD_U8(p) bs_load_u8_neon(p)
#define BS_V_LOAD_U16(p) bs_load_u16_neon(p)
#define BS_V_STORE_U8(p, v) bs_store_u8_neon(p, v)
#define BS_V_STORE_U16(p, v) bs_store_u16_neon(p, v)
#define BS_V_STORE_PAIRS_U8(p, even, odd) bs_store_pairs_u8_neon(p, even, odd)
#define BS_V_STORE_PAIRS_U16(p, even, odd) bs_store_pairs_u16_neon(p, even, odd)
#define BS_V_STORE_PAIRS_F32(p, even, odd) bs_store_pairs_f32_neon(p, even, odd)
#define BS_V_EVEN_PAIRS(a, b) bs_even_pairs_neon(a, b)
#define BS_V_ODD_PAIRS(a, b) bs_odd_pairs_neon(a, b)

#ifndef BS_SIMD_NEON_FUNCTIONS /* the header is included for each family of kernels, its functions exist once */
#define BS_SIMD_NEON_FUNCTIONS

static BS_OUTLINE float32x4_t bs_load_few_neon(const float *from, int32_t part)
{
    float lanes[4] = { 0, 0, 0, 0 };
    for (int32_t i = 0; i < part; i++)
        lanes[i] = from[i];
    return vld1q_f32(lanes);
}

static BS_OUTLINE void bs_store_few_neon(float *to, float32x4_t v, int32_t part)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    for (int32_t i = 0; i < part; i++)
        to[i] = lanes[i];
}

static inline float32x4_t bs_load_part_neon(const float *from, int32_t part)
{
    return part == BS_LANES ? vld1q_f32(from) : bs_load_few_neon(from, part);
}

static inline void bs_store_part_neon(float *to, float32x4_t v, int32_t part)
{
    if (part == BS_LANES)
        vst1q_f32(to, v);
    else
        bs_store_few_neon(to, v, part);
}

static inline float32x4_t bs_load_u8_neon(const uint8_t *from)
{
    uint32_t four;
    memcpy(&four, from, 4);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}

static inline float32x4_t bs_load_u16_neon(const uint16_t *from)
{
    return vcvtq_f32_u32(vmovl_u16(vld1_u16(from)));
}

/* The low bytes of eight 16-bit integers, of which the first four count. */
static inline void bs_store_low_neon(uint8_t *to, uint16x4_t codes)
{
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(codes, codes));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(to, &four, 4);
}

static inline void bs_store_u8_neon(uint8_t *to, float32x4_t v)
{
    bs_store_low_neon(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_u16_neon(uint16_t *to, float32x4_t v)
{
    vst1_u16(to, vmovn_u32(vcvtnq_u32_f32(v)));
}

static inline void bs_store_pairs_u8_neon(uint8_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 8));
    vst1_u8(to, vreinterpret_u8_u16(vmovn_u32(pairs)));
}

static inline void bs_store_pairs_u16_neon(uint16_t *to, float32x4_t even, float32x4_t odd)
{
    const uint32x4_t pairs = vorrq_u32(vcvtq_u32_f32(even), vshlq_n_u32(vcvtq_u32_f32(odd), 16));
    vst1q_u16(to, vreinterpretq_u16_u32(pairs));
}

static inline void bs_store_pairs_f32_neon(float *to, float32x4_t even, float32x4_t odd)
{
    vst1q_f32(to, vzip1q_f32(even, odd));
    vst1q_f32(to + BS_LANES, vzip2q_f32(even, odd));
}

static inline float32x4_t bs_even_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
}

static inline float32x4_t bs_odd_pairs_neon(float32x4_t a, float32x4_t b)
{
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}

#endif
/* --- end of template kernels/simd_neon.h --- */

/* --- template kernels/elementwise.inc --- */
/* elementwise.inc: the loops of elementwise.h.
 *
 * Owns:      one copy of every loop for each tier.
 * Relies on: a simd_*.h before it, and the types and constants of elementwise.c. Loops without BS_V in them are
 *            simple enough for every compiler's vectoriser at -O3.
 * Must never: make an integer result depend on the tier.
 *
 * Rows are worked on in whole vectors; what is left of a row goes through buffers of one vector, so nothing
 * beyond it is read or written.
 */

/* ------------------------------------------------------------------------------------------- conversion */

static BS_TARGET void BS_TIER_FN(bs_u8_to_f32)(const uint8_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

static BS_TARGET void BS_TIER_FN(bs_u16_to_f32)(const uint16_t *restrict in, float *restrict out, int32_t count, float scale)
{
    for (int32_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

/* MAX before MIN, with the bound second: NaN becomes 0. */
#define BS_TO_CODES_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const float *in, code_type *out, int32_t count, float scale, float high) \
    {                                                                                                            \
        const BS_V zero = BS_V_ZERO(), factor = BS_V_SET1(scale), top = BS_V_SET1(high);                         \
        for (; count >= BS_LANES; count -= BS_LANES, in += BS_LANES, out += BS_LANES) {                          \
            BS_V v = BS_V_MUL(BS_V_LOAD(in), factor);                                                            \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(out, BS_V_MIN(v, top));                                                                        \
        }                                                                                                        \
        if (count > 0) {                                                                                         \
            code_type codes[BS_LANES];                                                                           \
            BS_V v = BS_V_MUL(BS_V_LOAD_PART(in, BS_V_PART_OF(count)), factor);                                  \
            v = BS_V_MAX(v, zero);                                                                               \
            STORE(codes, BS_V_MIN(v, top));                                                                      \
            memcpy(out, codes, (size_t)count * sizeof(code_type));                                               \
        }                                                                                                        \
    }

BS_TO_CODES_DEFINE(bs_f32_to_u8, uint8_t, BS_V_STORE_U8)
BS_TO_CODES_DEFINE(bs_f32_to_u16, uint16_t, BS_V_STORE_U16)

/* ---------------------------------------------------------------------------------- super-resolution store
 * Half a vector of pixels: their first two channels belong to the upper output row, the others to the lower. */

static inline BS_TARGET BS_V BS_TIER_FN(bs_sr_value)(BS_V pairs, const float *base, int32_t count, BS_V scale, BS_V top)
{
    BS_V v = pairs;
    if (base)
        v = BS_V_ADD(v, BS_V_LOAD_PART(base, BS_V_PART_OF(count)));
    v = BS_V_MUL(v, scale);
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

/* `pixels` of the four-channel tail, at most half a vector. */
#define BS_SR_STORE_DEFINE(name, code_type, STORE)                                                               \
    static BS_TARGET void BS_TIER_FN(name)(const bs_sr_store *s, const float *quads, int32_t y, int32_t x, int32_t pixels, \
                                           float high)                                                           \
    {                                                                                                            \
        const BS_V a = BS_V_LOAD(quads), b = BS_V_LOAD(quads + BS_LANES);                                        \
        const BS_V scale = BS_V_SET1(s->scale), top = BS_V_SET1(high);                                           \
        const float *base = s->base ? s->base + 2 * y * s->base_row + 2 * x : NULL;                              \
        const float *below = base ? base + s->base_row : NULL;                                                   \
        code_type *out = (code_type *)s->out + 2 * y * s->out_row + 2 * x, *under = out + s->out_row;            \
        const BS_V upper = BS_TIER_FN(bs_sr_value)(BS_V_EVEN_PAIRS(a, b), base, 2 * pixels, scale, top);         \
        const BS_V lower = BS_TIER_FN(bs_sr_value)(BS_V_ODD_PAIRS(a, b), below, 2 * pixels, scale, top);         \
        if (2 * pixels == BS_LANES) {                                                                            \
            STORE(out, upper);                                                                                   \
            STORE(under, lower);                                                                                 \
            return;                                                                                              \
        }                                                                                                        \
        code_type codes[2][BS_LANES];                                                                            \
        STORE(codes[0], upper);                                                                                  \
        STORE(codes[1], lower);                                                                                  \
        memcpy(out, codes[0], (size_t)(2 * pixels) * sizeof(code_type));                                         \
        memcpy(under, codes[1], (size_t)(2 * pixels) * sizeof(code_type));                                       \
    }                                                                                                            \
    static BS_TARGET void BS_TIER_FN(name##_all)(const bs_sr_store *s, float high)                               \
    {                                                                                                            \
        for (int32_t y = 0; y < s->h; y++)                                                                       \
            for (int32_t x = 0; x < s->w; x += BS_LANES / 2) {                                                   \
                const float *tail = s->tail + y * s->tail_row + (ptrdiff_t)x * s->tail_pixel;                    \
                float quads[2 * BS_LANES];                                                                       \
                const int32_t pixels = s->w - x < BS_LANES / 2 ? s->w - x : BS_LANES / 2;                        \
                if (s->tail_pixel == 4 && pixels == BS_LANES / 2) {                                              \
                    BS_TIER_FN(name)(s, tail, y, x, pixels, high);                                               \
                    continue;                                                                                    \
                }                                                                                                \
                memset(quads, 0, sizeof quads);                                                                  \
                for (int32_t i = 0; i < pixels; i++)                                                             \
                    memcpy(quads + 4 * i, tail + i * (ptrdiff_t)s->tail_pixel, 4 * sizeof(float));               \
                BS_TIER_FN(name)(s, quads, y, x, pixels, high);                                                  \
            }                                                                                                    \
    }

BS_SR_STORE_DEFINE(bs_sr_u8, uint8_t, BS_V_STORE_U8)
BS_SR_STORE_DEFINE(bs_sr_u16, uint16_t, BS_V_STORE_U16)

/* --------------------------------------------------------------------------------------------- bicubic x2
 * In floats for every type. The weights are -3 29 111 -9 over 128; on codes of up to 10 bits all sums are exact:
 * two passes give multiples of 2^-14 below 2^10, or something that is clipped anyway. */

/* Far taps first: then no sum exceeds the result's range by more than a few per cent. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic)(BS_V a, BS_V b, BS_V c, BS_V d)
{
    BS_V sum = BS_V_MUL(a, BS_V_SET1(-3.0f / 128.0f));
    sum = BS_V_FNMA(d, BS_V_SET1(9.0f / 128.0f), sum);
    sum = BS_V_FMA(b, BS_V_SET1(29.0f / 128.0f), sum);
    return BS_V_FMA(c, BS_V_SET1(111.0f / 128.0f), sum);
}

/* Half up: the value is not negative when it is truncated. */
static inline BS_TARGET BS_V BS_TIER_FN(bs_cubic_code)(BS_V v, BS_V top)
{
    v = BS_V_ADD(v, BS_V_SET1(0.5f));
    v = BS_V_MAX(v, BS_V_ZERO());
    return BS_V_MIN(v, top);
}

#define BS_CUBIC_PLAIN(v, top) (v)
#define BS_CUBIC_CODE(v, top) BS_TIER_FN(bs_cubic_code)(v, top)
#define BS_V_LOAD_F32(p) BS_V_LOAD(p)

#define BS_BICUBIC_DEFINE(type, sample_type, LOAD, STORE_PAIRS, FINISH)                                          \
    /* Both outputs of one vector of columns of an input row; `in` stands two columns before the first. */       \
    static inline BS_TARGET void BS_TIER_FN(bs_horizontal_##type)(const sample_type *in, float *even, float *odd) \
    {                                                                                                            \
        const BS_V a = LOAD(in), b = LOAD(in + 1), c = LOAD(in + 2), d = LOAD(in + 3), e = LOAD(in + 4);         \
        const BS_V left = BS_TIER_FN(bs_cubic)(a, b, c, d), right = BS_TIER_FN(bs_cubic)(e, d, c, b);            \
        BS_V_STORE(even, left);                                                                                  \
        BS_V_STORE(odd, right);                                                                                  \
    }                                                                                                            \
    /* A chunk of an input row. Vectors that reach beyond the margins are gathered column by column. */          \
    static BS_TARGET void BS_TIER_FN(bs_lines_##type)(const bs_bicubic2x *t, int32_t y, int32_t x, int32_t count, bs_line_pair *lines) \
    {                                                                                                            \
        const sample_type *row = (const sample_type *)t->in + y * t->in_row;                                     \
        for (int32_t i = 0; i < count; i += BS_LANES) {                                                          \
            const int32_t first = x + i - 2, end = x + i + BS_LANES + 2;                                         \
            sample_type some[BS_LANES + 4];                                                                      \
            const sample_type *in = row + first;                                                                 \
            if (first < -t->margins.left || end > t->w + t->margins.right) {                                     \
                for (int32_t k = 0; k < BS_LANES + 4; k++)                                                       \
                    some[k] = row[bs_inside(first + k, t->w, t->margins.left, t->margins.right)];                \
                in = some;                                                                                       \
            }                                                                                                    \
            BS_TIER_FN(bs_horizontal_##type)(in, lines->even + i, lines->odd + i);                               \
        }                                                                                                        \
    }                                                                                                            \
    /* One output row from four pairs of lines, nearest weights on the third. */                                 \
    static BS_TARGET void BS_TIER_FN(bs_vertical_##type)(const bs_line_pair *r0, const bs_line_pair *r1,         \
                                                         const bs_line_pair *r2, const bs_line_pair *r3,         \
                                                         sample_type *out, int32_t count, float high)            \
    {                                                                                                            \
        const BS_V top = BS_V_SET1(high);                                                                        \
        (void)top;                                                                                               \
        for (int32_t i = 0; i < count; i += BS_LANES, out += 2 * BS_LANES) {                                     \
            const BS_V left = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->even + i), BS_V_LOAD(r1->even + i),             \
                                                   BS_V_LOAD(r2->even + i), BS_V_LOAD(r3->even + i));            \
            const BS_V right = BS_TIER_FN(bs_cubic)(BS_V_LOAD(r0->odd + i), BS_V_LOAD(r1->odd + i),              \
                                                    BS_V_LOAD(r2->odd + i), BS_V_LOAD(r3->odd + i));             \
            const BS_V even = FINISH(left, top), odd = FINISH(right, top);                                       \
            if (count - i >= BS_LANES) {                                                                         \
                STORE_PAIRS(out, even, odd);                                                                     \
                continue;                                                                                        \
            }                                                                                                    \
            sample_type last[2 * BS_LANES];                                                                      \
            STORE_PAIRS(last, even, odd);                                                                        \
            memcpy(out, last, (size_t)(2 * (count - i)) * sizeof(sample_type));                                  \
        }                                                                                                        \
    }                                                                                                            \
    /* A column of chunks; each input row is enlarged sideways once and kept until five further rows are. */     \
    static BS_TARGET void BS_TIER_FN(bs_bicubic_##type)(const bs_bicubic2x *t, float high)                       \
    {                                                                                                            \
        bs_line_pair ring[5];                                                                                    \
        for (int32_t x = 0; x < t->w; x += BS_BICUBIC_CHUNK) {                                                   \
            const int32_t count = t->w - x < BS_BICUBIC_CHUNK ? t->w - x : BS_BICUBIC_CHUNK;                     \
            sample_type *out = (sample_type *)t->out + 2 * (ptrdiff_t)x;                                         \
            int32_t made = -3;                                                                                   \
            for (int32_t y = 0; y < t->h; y++, out += 2 * t->out_row) {                                          \
                const bs_line_pair *r[5];                                                                        \
                for (int32_t i = 0; i < 5; i++) {                                                                \
                    const int32_t row = (int32_t)bs_inside(y + i - 2, t->h, t->margins.top, t->margins.bottom);  \
                    bs_line_pair *lines = &ring[(row + 5) % 5];                                                  \
                    if (row > made)                                                                              \
                        BS_TIER_FN(bs_lines_##type)(t, row, x, count, lines);                                    \
                    made = row > made ? row : made;                                                              \
                    r[i] = lines;                                                                                \
                }                                                                                                \
                BS_TIER_FN(bs_vertical_##type)(r[0], r[1], r[2], r[3], out, count, high);                        \
                BS_TIER_FN(bs_vertical_##type)(r[4], r[3], r[2], r[1], out + t->out_row, count, high);           \
            }                                                                                                    \
        }                                                                                                        \
    }

BS_BICUBIC_DEFINE(u8, uint8_t, BS_V_LOAD_U8, BS_V_STORE_PAIRS_U8, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(u16, uint16_t, BS_V_LOAD_U16, BS_V_STORE_PAIRS_U16, BS_CUBIC_CODE)
BS_BICUBIC_DEFINE(f32, float, BS_V_LOAD_F32, BS_V_STORE_PAIRS_F32, BS_CUBIC_PLAIN)

/* ----------------------------------------------------------------------------------------------- features
 * Sums of a row, at most BS_SUM_CHUNK samples: 256 squares of at most 1020 fit 31 bits. */

static BS_TARGET uint32_t BS_TIER_FN(bs_laplacian_u8)(const uint8_t *up, const uint8_t *c, const uint8_t *down, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(4 * c[i] - up[i] - down[i] - c[i - 1] - c[i + 1]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_laplacian_u16)(const uint16_t *up, const uint16_t *c, const uint16_t *down,
                                                       int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = 4 * (c[i] >> shift) - (up[i] >> shift) - (down[i] >> shift) - (c[i - 1] >> shift) - (c[i + 1] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}

static BS_TARGET uint32_t BS_TIER_FN(bs_change_u8)(const uint8_t *a, const uint8_t *b, int32_t count)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int16_t d = (int16_t)(a[i] - b[i]);
        sum += d * d;
    }
    return (uint32_t)sum;
}

static BS_TARGET uint64_t BS_TIER_FN(bs_change_u16)(const uint16_t *a, const uint16_t *b, int32_t count, int32_t shift)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t d = (a[i] >> shift) - (b[i] >> shift);
        sum += (uint32_t)d * (uint32_t)d;
    }
    return sum;
}
/* --- end of template kernels/elementwise.inc --- */
/* --- template kernels/simd_end.h --- */
/* simd_end.h: takes back every macro of simd_*.h, repeat.h and the templates, so that the next tier, or the
 * rest of an amalgamated file, starts clean. Included last by each conv_<tier>.c. */
#undef BS_BIAS_1
#undef BS_BIAS_2
#undef BS_BICUBIC_DEFINE
#undef BS_CLAMP_1
#undef BS_CLAMP_2
#undef BS_COLUMN_OUT
#undef BS_COLUMN_OUTER
#undef BS_COLUMN_PAIR
#undef BS_CUBIC_CODE
#undef BS_CUBIC_PLAIN
#undef BS_D0
#undef BS_D1
#undef BS_D2
#undef BS_D3
#undef BS_D4
#undef BS_D5
#undef BS_DEPTHWISE_DEFINE
#undef BS_DEPTHWISE_MAC
#undef BS_DEPTHWISE_NAME
#undef BS_DEPTHWISE_PIXELS
#undef BS_DEPTHWISE_UPTO
#undef BS_DOT_DEFINE
#undef BS_DOT_FINISH
#undef BS_DOT_FMA
#undef BS_DOT_INIT
#undef BS_DOT_NAME
#undef BS_DOT_PART
#undef BS_DOT_PIXELS
#undef BS_DOT_STEP
#undef BS_DOT_STORE
#undef BS_DOT_SUM
#undef BS_DOT_UPTO
#undef BS_DOT_WHOLE
#undef BS_EACH_1
#undef BS_EACH_2
#undef BS_EACH_3
#undef BS_EACH_4
#undef BS_EACH_5
#undef BS_EACH_6
#undef BS_EACH_7
#undef BS_EACH_8
#undef BS_EACH_9
#undef BS_EACH_10
#undef BS_EACH_11
#undef BS_EACH_12
#undef BS_EACH_13
#undef BS_EACH_14
#undef BS_EPILOGUE
#undef BS_HOLD4
#undef BS_INIT_1
#undef BS_INIT_2
#undef BS_LANES
#undef BS_M0
#undef BS_M1
#undef BS_M2
#undef BS_M3
#undef BS_M4
#undef BS_M5
#undef BS_MAC_1
#undef BS_MAC_2
#undef BS_OPAQUE
#undef BS_OUTER_DEFINE
#undef BS_OUTER_NAME
#undef BS_OUTER_PIXELS_1
#undef BS_OUTER_PIXELS_2
#undef BS_OUTER_QUADS
#undef BS_OUTER_UPTO_1
#undef BS_OUTER_UPTO_2
#undef BS_QUAD_1
#undef BS_QUAD_2
#undef BS_QUAD_1_0
#undef BS_QUAD_1_1
#undef BS_QUAD_1_2
#undef BS_QUAD_1_3
#undef BS_QUAD_2_0
#undef BS_QUAD_2_1
#undef BS_QUAD_2_2
#undef BS_QUAD_2_3
#undef BS_QUAD_LOAD
#undef BS_QUAD_STEP
#undef BS_RESIDUAL_1
#undef BS_RESIDUAL_2
#undef BS_ROW_IN
#undef BS_ROW_OUT
#undef BS_SLOPES_1
#undef BS_SLOPES_2
#undef BS_SLOPE_1
#undef BS_SLOPE_2
#undef BS_SR_STORE_DEFINE
#undef BS_STORE_1
#undef BS_STORE_2
#undef BS_STORE_OUT
#undef BS_TARGET
#undef BS_TIER_FN
#undef BS_TO_CODES_DEFINE
#undef BS_UPTO_4
#undef BS_UPTO_5
#undef BS_UPTO_6
#undef BS_UPTO_8
#undef BS_UPTO_12
#undef BS_UPTO_14
#undef BS_V
#undef BS_V_ADD
#undef BS_V_EVEN_PAIRS
#undef BS_V_FMA
#undef BS_V_FNMA
#undef BS_V_LOAD
#undef BS_V_LOAD_F32
#undef BS_V_LOAD_PART
#undef BS_V_LOAD_U8
#undef BS_V_LOAD_U16
#undef BS_V_MAX
#undef BS_V_MIN
#undef BS_V_MUL
#undef BS_V_ODD_PAIRS
#undef BS_V_PART
#undef BS_V_PART_OF
#undef BS_V_QUAD
#undef BS_V_QUAD_FMA
#undef BS_V_QUAD_LOAD
#undef BS_V_SET1
#undef BS_V_STORE
#undef BS_V_STORE_AT
#undef BS_V_STORE_PAIRS_F32
#undef BS_V_STORE_PAIRS_U8
#undef BS_V_STORE_PAIRS_U16
#undef BS_V_STORE_PART
#undef BS_V_STORE_U8
#undef BS_V_STORE_U16
#undef BS_V_SUB
#undef BS_V_SUM4
#undef BS_V_ZERO
#undef BS_WEIGHTS_1
#undef BS_WEIGHTS_2
#undef BS_X_0
#undef BS_X_1
#undef BS_X_2
#undef BS_X_3
#undef BS_X_4
#undef BS_X_5
#undef BS_X_6
#undef BS_X_7
#undef BS_X_8
#undef BS_X_9
#undef BS_X_10
#undef BS_X_11
#undef BS_X_12
#undef BS_X_13
/* --- end of template kernels/simd_end.h --- */
#endif

#define BS_ELEMENTWISE_TABLE(tier)                                                                        \
    {                                                                                                     \
        bs_u8_to_f32_##tier, bs_u16_to_f32_##tier, bs_f32_to_u8_##tier, bs_f32_to_u16_##tier,             \
            bs_sr_u8_all_##tier, bs_sr_u16_all_##tier, bs_bicubic_f32_##tier, bs_bicubic_u8_##tier,       \
            bs_bicubic_u16_##tier, bs_laplacian_u8_##tier, bs_laplacian_u16_##tier, bs_change_u8_##tier,  \
            bs_change_u16_##tier,                                                                         \
    }

static const bs_elementwise_kernels *bs_elementwise_of(bs_tier tier)
{
    static const bs_elementwise_kernels scalar = BS_ELEMENTWISE_TABLE(scalar);
#if BS_HAVE_X86_TIERS
    static const bs_elementwise_kernels avx2 = BS_ELEMENTWISE_TABLE(avx2);
    static const bs_elementwise_kernels avx512 = BS_ELEMENTWISE_TABLE(avx512);
    if (tier == BS_TIER_AVX2)
        return &avx2;
    if (tier == BS_TIER_AVX512)
        return &avx512;
#endif
#if BS_HAVE_NEON_TIER
    static const bs_elementwise_kernels neon = BS_ELEMENTWISE_TABLE(neon);
    if (tier == BS_TIER_NEON)
        return &neon;
#endif
    (void)tier;
    return &scalar;
}
#undef BS_ELEMENTWISE_TABLE

/* ----------------------------------------------------------------------------------------------- dispatch */

void bs_row_u8_to_f32(bs_tier tier, const uint8_t *in, float *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->u8_to_f32(in, out, count, scale);
}

void bs_row_u16_to_f32(bs_tier tier, const uint16_t *in, float *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->u16_to_f32(in, out, count, scale);
}

void bs_row_f32_to_u8(bs_tier tier, const float *in, uint8_t *out, int32_t count, float scale)
{
    bs_elementwise_of(tier)->f32_to_u8(in, out, count, scale, 255.0f);
}

void bs_row_f32_to_u16(bs_tier tier, const float *in, uint16_t *out, int32_t count, float scale, uint16_t high)
{
    bs_elementwise_of(tier)->f32_to_u16(in, out, count, scale, (float)high);
}

void bs_sr_store_u8(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u8(store, 255.0f);
}

void bs_sr_store_u16(bs_tier tier, const bs_sr_store *store)
{
    bs_elementwise_of(tier)->sr_u16(store, (float)store->high);
}

void bs_bicubic2x_f32(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_f32(task, 0.0f);
}

void bs_bicubic2x_u8(bs_tier tier, const bs_bicubic2x *task)
{
    bs_elementwise_of(tier)->bicubic_u8(task, 255.0f);
}

/* ---------------------------------------------------------------------------------- bicubic of wide codes */

static int32_t bs_cubic_sum(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return 29 * b + 111 * c - 3 * a - 9 * d;
}

/* The sums of 16-bit codes stay below 65535 (140^2 + 12^2) = 1.3e9. */
static uint16_t bs_cubic_wide_code(const int32_t *line, int32_t odd, int32_t high)
{
    const int32_t sum = odd ? bs_cubic_sum(line[4], line[3], line[2], line[1]) : bs_cubic_sum(line[0], line[1], line[2], line[3]);
    const int32_t code = sum <= -(1 << 13) ? 0 : (sum + (1 << 13)) >> 14;
    return (uint16_t)(code < high ? code : high);
}

/* One input sample at a time: plain, and right for every code. */
static void bs_bicubic2x_wide(const bs_bicubic2x *t)
{
    for (int32_t y = 0; y < 2 * t->h; y++) {
        const uint16_t *r[5];
        for (int32_t i = 0; i < 5; i++) {
            const int32_t step = y % 2 ? 2 - i : i - 2; /* odd rows: the same weights from below */
            r[i] = (const uint16_t *)t->in + bs_inside(y / 2 + step, t->h, t->margins.top, t->margins.bottom) * t->in_row;
        }
        uint16_t *out = (uint16_t *)t->out + y * t->out_row;
        for (int32_t x = 0; x < t->w; x++) {
            int32_t line[5];
            for (int32_t i = 0; i < 5; i++) {
                const ptrdiff_t at = bs_inside(x + i - 2, t->w, t->margins.left, t->margins.right);
                line[i] = bs_cubic_sum(r[0][at], r[1][at], r[2][at], r[3][at]);
            }
            out[2 * x] = bs_cubic_wide_code(line, 0, t->high);
            out[2 * x + 1] = bs_cubic_wide_code(line, 1, t->high);
        }
    }
}

void bs_bicubic2x_u16(bs_tier tier, const bs_bicubic2x *task)
{
    if (task->high > BS_EXACT_HIGH)
        bs_bicubic2x_wide(task);
    else
        bs_elementwise_of(tier)->bicubic_u16(task, (float)task->high);
}

/* ----------------------------------------------------------------------------------------------- features */

/* One sample whose left or right neighbour may be missing. */
static uint64_t bs_laplacian_at(int32_t c, int32_t up, int32_t down, int32_t left, int32_t right)
{
    const int64_t d = 4 * c - up - down - left - right;
    return (uint64_t)(d * d);
}

/* Columns 0 and w-1 by hand where the margin does not hold their neighbour, the rest in chunks. */
#define BS_ENERGY_BODY(sample_type, SHIFT, ROW_SUM)                                                              \
    const int32_t first = margins.left > 0 ? 0 : 1, end = margins.right > 0 ? w : w - 1;                         \
    uint64_t sum = 0;                                                                                            \
    for (int32_t y = 0; y < h; y++) {                                                                            \
        const sample_type *c = in + y * row;                                                                     \
        const sample_type *up = in + bs_inside(y - 1, h, margins.top, margins.bottom) * row;                     \
        const sample_type *down = in + bs_inside(y + 1, h, margins.top, margins.bottom) * row;                   \
        for (int32_t x = first; x < end; x += BS_SUM_CHUNK) {                                                        \
            const int32_t count = end - x < BS_SUM_CHUNK ? end - x : BS_SUM_CHUNK;                                       \
            sum += ROW_SUM;                                                                                      \
        }                                                                                                        \
        for (int32_t x = 0; x < w; x += w > 1 ? w - 1 : 1) {                                                     \
            if (x >= first && x < end)                                                                           \
                continue;                                                                                        \
            const ptrdiff_t left = bs_inside(x - 1, w, margins.left, margins.right);                             \
            const ptrdiff_t right = bs_inside(x + 1, w, margins.left, margins.right);                            \
            sum += bs_laplacian_at(c[x] SHIFT, up[x] SHIFT, down[x] SHIFT, c[left] SHIFT, c[right] SHIFT);       \
        }                                                                                                        \
    }                                                                                                            \
    return sum;

uint64_t bs_laplacian_energy_u8(bs_tier tier, const uint8_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint8_t, , k->laplacian_u8(up + x, c + x, down + x, count))
}

uint64_t bs_laplacian_energy_u16(bs_tier tier, const uint16_t *in, ptrdiff_t row, int32_t h, int32_t w, bs_margins margins,
                                 int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    BS_ENERGY_BODY(uint16_t, >> shift, k->laplacian_u16(up + x, c + x, down + x, count, shift))
}
#undef BS_ENERGY_BODY

uint64_t bs_squared_change_u8(bs_tier tier, const uint8_t *a, ptrdiff_t a_row, const uint8_t *b, ptrdiff_t b_row, int32_t h,
                              int32_t w)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_SUM_CHUNK)
            sum += k->change_u8(a + y * a_row + x, b + y * b_row + x, w - x < BS_SUM_CHUNK ? w - x : BS_SUM_CHUNK);
    return sum;
}

uint64_t bs_squared_change_u16(bs_tier tier, const uint16_t *a, ptrdiff_t a_row, const uint16_t *b, ptrdiff_t b_row,
                               int32_t h, int32_t w, int32_t shift)
{
    const bs_elementwise_kernels *k = bs_elementwise_of(tier);
    uint64_t sum = 0;
    for (int32_t y = 0; y < h; y++)
        for (int32_t x = 0; x < w; x += BS_SUM_CHUNK)
            sum += k->change_u16(a + y * a_row + x, b + y * b_row + x, w - x < BS_SUM_CHUNK ? w - x : BS_SUM_CHUNK, shift);
    return sum;
}
/* ==== end src/kernels/elementwise.c =========================================================== */

/* ==== begin src/graph.h ======================================================================= */
/* graph.h - the graph: dimensions, domains, values, nodes, blocks, routers.
 * Owns the data structures and the primitives that add to them. Relies on base.h. Must never know how a
 * graph is planned or run. Everything refers to lower ids only, so one pass in order is always enough. */
#ifndef BS_GRAPH_H
#define BS_GRAPH_H

/* #include "base.h" */

/* A dimension is a constant, a symbol with a maximum, or floor((parent * mul + add) / div) of another.
 * Equal expressions are one entry, so two dimensions are equal in every run exactly when their ids are equal. */
typedef enum bs_dim_kind { BS_DIM_CONST, BS_DIM_SYMBOL, BS_DIM_DERIVED } bs_dim_kind;
typedef int32_t bs_dim_id;

typedef struct bs_dim_info {
    bs_dim_kind kind;
    bs_dim_id parent;
    int64_t mul, add, div;
    int64_t maximum; /* the value of a constant */
    int32_t name;    /* offset in text; 0 none */
} bs_dim_info;

/* Domain 0 is the root: one row. */
typedef enum bs_domain_kind {
    BS_DOMAIN_ROOT,
    BS_DOMAIN_ROWS,    /* rows of a root tensor; count = its leading dimension */
    BS_DOMAIN_PATCHES, /* cells of a frame; count = ceil(H/size) * ceil(W/size) */
    BS_DOMAIN_PATH,    /* the rows that a router sent along one path */
    BS_DOMAIN_SEGMENTS /* as ROWS, grouped: how many rows each segment has in a run, an input says */
} bs_domain_kind;

typedef struct bs_domain {
    bs_domain_kind kind;
    int32_t parent;
    int32_t router, path;     /* PATH */
    bs_dim_id rows;           /* ROWS, SEGMENTS */
    int32_t lengths;          /* SEGMENTS: value of an input i32 [segments]; else 0 */
    bs_dim_id height, width;  /* PATCHES: extents of the frame */
    int32_t size;             /* PATCHES: cell size in pixels of that frame */
    int64_t max_rows;
    int32_t patches;          /* the PATCHES domain this one descends from (or is); -1 none */
} bs_domain;

/* A value. In a patch domain `dims` are the extents of the whole frame, as in the untiled network; the cell is
 * scale x domain size pixels of it. */
typedef struct bs_value_info {
    bs_dtype dtype;
    int32_t rank;
    bs_dim_id dims[BS_MAX_RANK];
    int32_t domain;
    int32_t node; /* that makes it */
    int32_t output_index;
    /* extent of this value's frame = frame of the domain x scale_num / scale_den (patch domains, rank 3) */
    int32_t scale_num, scale_den;
} bs_value_info;

typedef struct bs_node {
    int32_t op; /* index into the op table */
    int32_t n_in, n_out;
    int32_t in; /* offset of n_in value ids in the operand pool */
    int32_t first_out; /* value id; outputs are consecutive */
    int32_t domain;    /* of the outputs (and where it runs) */
    int32_t block;
    int32_t router; /* route, scatter, gather: the router; else 0 */
    int32_t path;   /* scatter */
    const void *params; /* the descriptor, name resolved into the graph's text */
} bs_node;

typedef struct bs_block {
    int32_t name; /* offset in text */
    int32_t parent;
    int32_t first_node, end_node;
} bs_block;

typedef struct bs_router_info {
    int32_t node; /* the route node */
    int32_t domain; /* of the scores: the parent domain */
    int32_t score;  /* value id */
    int32_t knob;   /* value id or 0 */
    int32_t max_paths_per_cell;
    const bs_route_desc *desc;
} bs_router_info;

#define BS_MAX_BLOCKS 128
#define BS_MAX_ROUTERS 64
#define BS_MAX_DOMAINS 512
#define BS_MAX_DIMS 512

struct bs_graph {
    bs_status status;
    bs_error error;
    int32_t max_nodes, max_values, max_text, max_operands;
    int32_t n_nodes, n_values, n_text, n_operands, n_domains, n_dims, n_blocks, n_routers;
    int32_t current_block;
    bs_node *nodes;       /* [0] unused */
    bs_value_info *values; /* [0] unused */
    int32_t *operands;
    char *text; /* names and parameters; offset 0 is "" */
    bs_dim_info dims[BS_MAX_DIMS];
    bs_domain domains[BS_MAX_DOMAINS];
    bs_block blocks[BS_MAX_BLOCKS]; /* [0]: what is outside every block, "main" */
    bs_router_info routers[BS_MAX_ROUTERS]; /* [0] unused */
};

/* Records the first failure of building; later ones are ignored. Returns false always. */
bool bs_graph_fail(bs_graph *graph, bs_status status, const char *format, ...) BS_PRINTF(3, 4);

/* Dimensions. All return -1 on failure (recorded). */
bs_dim_id bs_dim_const(bs_graph *graph, int64_t n);
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div);
bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim); /* a public handle */
static inline int64_t bs_dim_max(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].maximum; }
static inline bool bs_dim_is_const(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].kind == BS_DIM_CONST; }
/* "640", "H<=1080", "(H<=1080*2)": for messages. */
const char *bs_dim_text(const bs_graph *graph, bs_dim_id d, char *buffer, size_t bytes);
/* "[32, 64, W<=1920]" */
const char *bs_value_text(const bs_graph *graph, const bs_value_info *value, char *buffer, size_t bytes);

static inline const bs_value_info *bs_value_get(const bs_graph *graph, int32_t id) { return &graph->values[id]; }
static inline const int32_t *bs_node_in(const bs_graph *graph, const bs_node *node) { return graph->operands + node->in; }
static inline const char *bs_node_name(const bs_node *node)
{
    return node->params && *(const char *const *)node->params ? *(const char *const *)node->params : "";
}

/* Names and parameters live in the graph's text. NULL on failure (recorded). */
const char *bs_graph_text(bs_graph *graph, const char *text);
int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain); /* finds an equal one or adds it; -1 */

/* Adds a node of op `op` (bs_op_index) with operands `in`; copies `params` (op->params_bytes) ; runs the op's shape
 * rule. Returns the node, or NULL on failure (recorded). The only way nodes come into being. */
bs_node *bs_graph_add(bs_graph *graph, int32_t op, const int32_t *in, int32_t n_in, const void *params);
/* The same, returning output 0 as a handle. */
bs_value bs_graph_value(bs_graph *graph, int32_t op, const int32_t *in, int32_t n_in, const void *params);

#endif
/* ==== end src/graph.h ========================================================================= */

/* ==== begin src/op.h ========================================================================== */
/* op.h - the op table: what every op declares, and what a kernel is given.
 * Adding an op is one file in ops/ and one line in ops.c. Relies on graph.h. Must never know the planner. */
#ifndef BS_OP_H
#define BS_OP_H

/* #include "graph.h" */

/* One operand of a kernel: `rows` consecutive cells of one shape. `data` is the element [0,0,0] of the core of the
 * first row; strides are in elements. Rank-3 values are images [C,H,W] (kept channels-last inside, but a kernel goes by
 * the strides). In a patch domain `dim` is the core clipped to the frame, and rect the part that is present around it:
 * core plus halo, clipped to the frame, in core coordinates (may start below 0). Elsewhere rect is 0..dim.
 * Storage holds zeros outside rect as far as any reader's window goes. */
typedef struct bs_rect { int32_t y0, y1, x0, x1; } bs_rect;

typedef struct bs_operand {
    void *data;
    bs_dtype dtype;
    int32_t rank;
    int32_t dim[BS_MAX_RANK];
    ptrdiff_t stride[BS_MAX_RANK];
    ptrdiff_t row_stride;
    bs_rect rect;             /* rank 3 only: for an output, the part to compute */
    int32_t frame_y, frame_x; /* of the core's origin in its frame */
    int32_t frame_h, frame_w;
} bs_operand;

#define BS_MAX_WEIGHTS 8

/* A weight tensor an op asks for: "<node name>.<suffix>". */
typedef struct bs_weight_spec {
    const char *suffix;
    bs_dtype dtype; /* delivered in; f16/bf16 files are widened */
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
} bs_weight_spec;

/* What is fixed for a node at plan time. */
typedef struct bs_node_plan {
    bs_tier tier;
    int32_t algorithm;      /* the op's own meaning; conv2d: bs_conv_algorithm */
    int32_t act;            /* the activation of its epilogue (bs_act), fixed when planned */
    int32_t fusion;         /* 0, or the kernel that does this node and those it follows (plan_fuse.c) */
    int32_t fused_in[2];    /* the operands it then has */
    int32_t unit;           /* whose slot holds its prepared weights; 0: resident */
    uint64_t prepared_bytes; /* of its weights, in its unit's slot or the resident weights */
    uint64_t prepared_offset;
    uint64_t scratch_bytes; /* a thread */
    int32_t pieces;         /* > 0: a row is so many tasks, bs_call.piece says which (BS_OP_ACROSS) */
} bs_node_plan;

typedef struct bs_call {
    const bs_graph *graph;
    const bs_node *node;
    const bs_node_plan *plan;
    const void *params;
    int32_t n_in, n_out, rows;
    bs_operand in[BS_MAX_OPERANDS];
    bs_operand out[BS_MAX_OUTPUTS];
    const void *prepared; /* the node's prepared weights */
    void *scratch;
    /* BS_OP_ACROSS only */
    int32_t row;            /* of the segment domain: where outputs begin; operands of that domain are whole, from row 0 */
    int32_t piece;          /* 0 .. plan->pieces - 1 */
    int32_t n_segments;
    const int32_t *offsets; /* [n_segments + 1] the first row of each segment; checked */
} bs_call;

typedef struct bs_infer {
    bs_graph *graph;
    const struct bs_op *op;
    const void *params;
    const char *name; /* of the node, for messages ("" when it has none) */
    int32_t n_in;
    const int32_t *ids; /* of the operands; a structural op may have more than BS_MAX_OPERANDS, and 0 = none */
    const bs_value_info *in[BS_MAX_OPERANDS];
    int32_t router, path; /* structural ops set them; the node keeps them */
    int32_t n_out; /* 1 unless the rule says otherwise */
    bs_value_info out[BS_MAX_OUTPUTS]; /* comes in as a copy of in[0] where there is one */
} bs_infer;

typedef enum bs_op_flags {
    BS_OP_SPATIAL = 1,      /* rank-3 images: called one row at a time with rects; may be split into bands of rows */
    BS_OP_CAPTURE = 2,      /* operands after the first may be root values: their row_stride is 0 */
    BS_OP_STRUCTURAL = 4,   /* lowered by the planner (patches, route, gather ...), no kernel */
    BS_OP_CORE_INPUT = 8,   /* sees the core only: needs no halo beyond `halo` */
    BS_OP_VARIADIC = 16,
    BS_OP_CLAMPS = 32,      /* finds the frame's edge itself: may read a view, which has no zeros around it */
    BS_OP_CHANNELS_LAST = 64, /* reads and writes images with channel step 1 only (or one channel): no planar views */
    BS_OP_ACROSS = 128 /* rows of a segment influence each other: never in a tile, operands whole; its rule checks their domains */
} bs_op_flags;

/* A field of a descriptor, in order: for the model file and inspect. */
typedef struct bs_field { const char *name; char kind; /* 'i', 'f' */ } bs_field;

typedef struct bs_op {
    const char *name;
    int32_t min_in, max_in;
    int32_t flags;
    size_t params_bytes; /* sizeof the descriptor: name pointer, then 4-byte fields */
    const bs_field *fields;
    int32_t n_fields;
    /* Shape rule: fills out[] (dtype, rank, dims, scale) or calls bs_graph_fail and returns false. */
    bool (*infer)(bs_infer *infer);
    /* Margin that input `index` needs around what is asked of the output; NULL: the same margin. */
    int32_t (*halo)(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin);
    /* Cost rule: floating-point operations of one row at maximum extents; NULL: one an output element. */
    double (*flops)(const bs_graph *graph, const bs_node *node);
    /* Weights: NULL = none. Returns their number, fills specs. */
    int32_t (*weights)(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs);
    /* Choose algorithm, prepared and scratch bytes; max_rect: largest output rect. NULL: prepared = weights as they are,
     * each aligned to BS_ALIGNMENT. */
    void (*plan)(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w, bs_node_plan *plan);
    /* Canonical weights (dense, in spec order) -> prepared. NULL: copied. */
    void (*prepare)(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan, const void *const *weights, void *prepared);
    /* The kernel: plan->tier decides; BS_TIER_SCALAR is the plain reference. BS_ERROR_DATA for bad run-time data. */
    bs_status (*run)(const bs_call *call);
} bs_op;

int32_t bs_op_count(void);
const bs_op *bs_op_get(int32_t index);
int32_t bs_op_index(const char *name); /* -1 when unknown */

/* Offset of weight `index` in default-prepared memory, and the total for index == count. */
uint64_t bs_weight_offset(const bs_weight_spec *specs, int32_t index);
uint64_t bs_weight_elements(const bs_weight_spec *spec);

/* The segment that a row is of: the last one that begins at or before it (empty ones begin there too, before it). */
static inline int32_t bs_segment_of(const int32_t *offsets, int32_t n_segments, int32_t row)
{
    int32_t low = 0, high = n_segments - 1;
    while (low < high) {
        const int32_t middle = high - (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Scalar activation, shared by every reference kernel. slope: of this channel, for BS_PRELU. */
float bs_act_apply(bs_act act, float param, float slope, float x);

static inline float *bs_f32_at(const bs_operand *o, int64_t offset) { return (float *)o->data + offset; }

#endif
/* ==== end src/op.h ============================================================================ */

/* ==== begin src/graph.c ======================================================================= */
/* graph.c - building a graph: storage, sticky errors, names, dimensions, domains, nodes.
 * Relies on graph.h and the op table. Must never plan or touch data. */
/* #include "graph.h" */
/* #include "op.h" */

/* ------------------------------------------------------------------------------------------------ storage */

typedef struct bs_graph_layout {
    int32_t nodes, values, text, operands;
    uint64_t at_nodes, at_values, at_operands, at_text, bytes;
} bs_graph_layout;

static bool graph_layout(const bs_graph_desc *desc, bs_graph_layout *l)
{
    const bs_graph_desc none = {0, 0, 0};
    if (!desc)
        desc = &none;
    l->nodes = bs_or_default(desc->max_nodes, 512);
    l->values = bs_or_default(desc->max_values, 768);
    l->text = bs_or_default(desc->max_text_bytes, 32768);
    if (l->nodes < 1 || l->values < 1 || l->text < 64 || l->nodes > 1 << 20 || l->values > 1 << 20 || l->text > 1 << 28)
        return false;
    l->operands = l->nodes * 4;
    l->at_nodes = bs_align_u64(sizeof(bs_graph));
    l->at_values = l->at_nodes + bs_align_u64((uint64_t)(l->nodes + 1) * sizeof(bs_node));
    l->at_operands = l->at_values + bs_align_u64((uint64_t)(l->values + 1) * sizeof(bs_value_info));
    l->at_text = l->at_operands + bs_align_u64((uint64_t)l->operands * sizeof(int32_t));
    l->bytes = l->at_text + bs_align_u64((uint64_t)l->text);
    return true;
}

size_t bs_graph_bytes(const bs_graph_desc *desc)
{
    bs_graph_layout l;
    return graph_layout(desc, &l) ? (size_t)l.bytes : 0;
}

bs_graph *bs_graph_create(bs_arena *arena, const bs_graph_desc *desc)
{
    bs_graph_layout l;
    if (!arena || !graph_layout(desc, &l))
        return NULL;
    uint8_t *memory = bs_arena_take(arena, (size_t)l.bytes);
    if (!memory)
        return NULL;
    memset(memory, 0, (size_t)l.bytes);
    bs_graph *g = (bs_graph *)(void *)memory;
    g->nodes = (bs_node *)(void *)(memory + l.at_nodes);
    g->values = (bs_value_info *)(void *)(memory + l.at_values);
    g->operands = (int32_t *)(void *)(memory + l.at_operands);
    g->text = (char *)(memory + l.at_text);
    g->max_nodes = l.nodes;
    g->max_values = l.values;
    g->max_text = l.text;
    g->max_operands = l.operands;
    g->n_nodes = g->n_values = g->n_text = g->n_routers = g->n_blocks = g->n_domains = 1; /* entry 0: none, root, main */
    g->domains[0].max_rows = 1;
    g->domains[0].patches = -1;
    g->blocks[0].parent = -1;
    return g;
}

/* ------------------------------------------------------------------------------------------------- errors */

bool bs_graph_fail(bs_graph *graph, bs_status status, const char *format, ...)
{
    if (graph->status != BS_OK)
        return false;
    va_list arguments;
    va_start(arguments, format);
    memset(&graph->error, 0, sizeof graph->error);
    graph->status = graph->error.status = status;
    vsnprintf(graph->error.message, sizeof graph->error.message, format, arguments);
    va_end(arguments);
    return false;
}

bs_status bs_graph_check(const bs_graph *graph, bs_error *error)
{
    if (!graph)
        return bs_fail(error, BS_ERROR_ARGUMENT, "the graph is NULL (did bs_graph_create fit its arena?)");
    if (graph->status != BS_OK && error)
        *error = graph->error;
    return graph->status;
}

/* --------------------------------------------------------------------------------------------------- text */

static void *graph_take(bs_graph *g, size_t bytes, size_t alignment)
{
    const size_t at = ((size_t)g->n_text + alignment - 1) / alignment * alignment;
    if (at + bytes > (size_t)g->max_text) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "the graph's text is full: %d bytes (bs_graph_desc.max_text_bytes)", g->max_text);
        return NULL;
    }
    g->n_text = (int32_t)(at + bytes);
    return g->text + at;
}

const char *bs_graph_text(bs_graph *graph, const char *text)
{
    if (!text || !*text)
        return graph->text;
    const size_t length = strlen(text);
    if (length >= BS_MAX_NAME) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "the name \"%.32s...\" is longer than %d bytes", text, BS_MAX_NAME - 1);
        return graph->text;
    }
    char *copy = graph_take(graph, length + 1, 1);
    if (!copy)
        return graph->text;
    memcpy(copy, text, length + 1);
    return copy;
}

/* --------------------------------------------------------------------------------------------- dimensions */

static bs_dim_id dim_intern(bs_graph *g, const bs_dim_info *dim)
{
    for (int32_t i = 0; i < g->n_dims && dim->kind != BS_DIM_SYMBOL; i++) {
        const bs_dim_info *d = &g->dims[i];
        if (d->kind == dim->kind && d->parent == dim->parent && d->mul == dim->mul && d->add == dim->add &&
            d->div == dim->div && d->maximum == dim->maximum)
            return i;
    }
    if (g->n_dims == BS_MAX_DIMS) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "more than %d different dimensions", BS_MAX_DIMS);
        return -1;
    }
    g->dims[g->n_dims] = *dim;
    return g->n_dims++;
}

/* Extents and their products must stay far from 2^63; one dimension of 2^30 is beyond any board. */
#define BS_DIM_LIMIT ((int64_t)1 << 30)

static bool dim_in_range(bs_graph *g, int64_t n, const char *what)
{
    if (n >= 1 && n <= BS_DIM_LIMIT)
        return true;
    return bs_graph_fail(g, BS_ERROR_SHAPE, "%s is %lld, expected 1 .. 2^30", what, (long long)n);
}

bs_dim_id bs_dim_const(bs_graph *graph, int64_t n)
{
    const bs_dim_info dim = {BS_DIM_CONST, -1, 0, 0, 0, n, 0};
    return dim_in_range(graph, n, "a dimension") ? dim_intern(graph, &dim) : -1;
}

static bs_dim_id dim_fail(bs_graph *g, int64_t mul, int64_t add, int64_t div)
{
    bs_graph_fail(g, BS_ERROR_SHAPE, "a dimension cannot be derived: (x%lld + %lld) / %lld", (long long)mul, (long long)add, (long long)div);
    return -1;
}

static int64_t dim_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* Expressions are brought to one form, so that what is always equal has one id: (d*2)*3 is d*6, (d+2)-2 is d, and
 * floor((d*2 + 4) / 2) is d+2. */
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div)
{
    if (parent < 0 || parent >= graph->n_dims || mul < 1 || div < 1 || mul > BS_DIM_LIMIT || div > BS_DIM_LIMIT ||
        add > BS_DIM_LIMIT || add < -BS_DIM_LIMIT)
        return dim_fail(graph, mul, add, div);
    const bs_dim_info *p = &graph->dims[parent];
    if (p->kind == BS_DIM_DERIVED && p->div == 1)
        return bs_dim_derive(graph, p->parent, p->mul * mul, p->add * mul + add, div);
    const int64_t common = dim_divisor(dim_divisor(mul, add), div);
    mul /= common;
    add /= common;
    div /= common;
    if (mul == 1 && add == 0 && div == 1)
        return parent;
    const int64_t maximum = bs_floor_div(p->maximum * mul + add, div);
    if (!dim_in_range(graph, maximum, "a derived dimension"))
        return -1;
    if (p->kind == BS_DIM_CONST)
        return bs_dim_const(graph, maximum);
    const bs_dim_info dim = {BS_DIM_DERIVED, parent, mul, add, div, maximum, 0};
    return dim_intern(graph, &dim);
}

/* Public handles: constants as they are, BS_UPTO in bit 40, dimensions of the table in bit 41. */
#define BS_DIM_UPTO ((bs_dim)1 << 40)
#define BS_DIM_TABLE ((bs_dim)1 << 41)

bs_dim bs_symbol(bs_graph *graph, const char *name, int64_t maximum)
{
    if (!graph || graph->status != BS_OK || !dim_in_range(graph, maximum, "the maximum of a symbol"))
        return 0;
    const char *text = bs_graph_text(graph, name);
    const bs_dim_info dim = {BS_DIM_SYMBOL, -1, 0, 0, 0, maximum, (int32_t)(text - graph->text)};
    const bs_dim_id id = dim_intern(graph, &dim);
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim)
{
    if (dim >= BS_DIM_TABLE && dim - BS_DIM_TABLE < graph->n_dims)
        return (bs_dim_id)(dim - BS_DIM_TABLE);
    if (dim >= BS_DIM_UPTO && dim < BS_DIM_TABLE) {
        const bs_dim symbol = bs_symbol(graph, "", dim - BS_DIM_UPTO);
        return symbol ? (bs_dim_id)(symbol - BS_DIM_TABLE) : -1;
    }
    return bs_dim_const(graph, dim);
}

bs_dim bs_times(bs_graph *graph, bs_dim symbol, int32_t factor)
{
    if (!graph || graph->status != BS_OK)
        return 0;
    const bs_dim_id parent = bs_dim_resolve(graph, symbol);
    const bs_dim_id id = parent < 0 ? -1 : bs_dim_derive(graph, parent, factor, 0, 1);
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

/* "2H<=4320", "(H+1)/2<=540"; of a derivation's derivation only the last step. */
static void derived_text(const bs_graph *g, const bs_dim_info *dim, char *buffer, size_t bytes)
{
    const bs_dim_info *parent = &g->dims[dim->parent];
    const char *name = parent->kind == BS_DIM_SYMBOL && g->text[parent->name] ? g->text + parent->name : "n";
    const long long mul = (long long)dim->mul, add = (long long)dim->add, div = (long long)dim->div, maximum = (long long)dim->maximum;
    char factor[24] = "";
    if (mul != 1)
        snprintf(factor, sizeof factor, "%lld", mul);
    if (add == 0 && div == 1)
        snprintf(buffer, bytes, "%s%s<=%lld", factor, name, maximum);
    else if (div == 1)
        snprintf(buffer, bytes, "%s%s%+lld<=%lld", factor, name, add, maximum);
    else
        snprintf(buffer, bytes, "(%s%s%+lld)/%lld<=%lld", factor, name, add, div, maximum);
}

const char *bs_dim_text(const bs_graph *graph, bs_dim_id d, char *buffer, size_t bytes)
{
    if (d < 0 || d >= graph->n_dims) {
        snprintf(buffer, bytes, "?");
        return buffer;
    }
    const bs_dim_info *dim = &graph->dims[d];
    const long long maximum = (long long)dim->maximum;
    if (dim->kind == BS_DIM_CONST)
        snprintf(buffer, bytes, "%lld", maximum);
    else if (dim->kind == BS_DIM_SYMBOL)
        snprintf(buffer, bytes, "%s<=%lld", graph->text[dim->name] ? graph->text + dim->name : "n", maximum);
    else
        derived_text(graph, dim, buffer, bytes);
    return buffer;
}

const char *bs_value_text(const bs_graph *graph, const bs_value_info *value, char *buffer, size_t bytes)
{
    size_t used = 0;
    buffer[0] = 0;
    for (int32_t i = 0; i < value->rank && used + 1 < bytes; i++) {
        char dim[64];
        const int n = snprintf(buffer + used, bytes - used, "%s%s", i ? ", " : "[",
                               bs_dim_text(graph, value->dims[i], dim, sizeof dim));
        used = n < 0 ? bytes : bs_add_u64(used, (uint64_t)n);
    }
    if (used + 2 <= bytes)
        snprintf(buffer + used, bytes - used, value->rank ? "]" : "[]");
    return buffer;
}

bs_shape bs_shape_of(int32_t rank, bs_dim d0, bs_dim d1, bs_dim d2, bs_dim d3)
{
    bs_shape shape = {rank, {d0, d1, d2, d3}};
    return shape;
}

/* ------------------------------------------------------------------------------------------------ domains */

int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain)
{
    for (int32_t i = 1; i < graph->n_domains; i++) {
        const bs_domain *d = &graph->domains[i];
        if (d->kind == domain->kind && d->parent == domain->parent && d->router == domain->router &&
            d->path == domain->path && d->rows == domain->rows && d->height == domain->height &&
            d->width == domain->width && d->size == domain->size && d->lengths == domain->lengths)
            return i;
    }
    if (graph->n_domains == BS_MAX_DOMAINS) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "more than %d domains", BS_MAX_DOMAINS);
        return -1;
    }
    bs_domain *d = &graph->domains[graph->n_domains];
    *d = *domain;
    d->patches = d->kind == BS_DOMAIN_PATCHES ? graph->n_domains : graph->domains[d->parent].patches;
    return graph->n_domains++;
}

/* -------------------------------------------------------------------------------------------------- nodes */

static bool operands_known(bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in)
{
    if (n_in < op->min_in || n_in > op->max_in)
        return bs_graph_fail(g, BS_ERROR_GRAPH, "%s takes %d..%d operands, not %d", op->name, op->min_in, op->max_in, n_in);
    if (g->n_operands + n_in > g->max_operands || g->n_nodes > g->max_nodes)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %d nodes (bs_graph_desc.max_nodes)", g->max_nodes);
    for (int32_t i = 0; i < n_in; i++) {
        const bool none = in[i] == 0 && op->flags & BS_OP_STRUCTURAL && op->flags & BS_OP_VARIADIC;
        if (!none && (in[i] < 1 || in[i] >= g->n_values))
            return bs_graph_fail(g, BS_ERROR_GRAPH, "operand %d of %s is value %d, which does not exist", i, op->name, in[i]);
    }
    return true;
}

/* Ops combine rows of one domain; a captured operand may be a root value. */
static bool operands_agree(bs_graph *g, const bs_infer *infer)
{
    if (infer->op->flags & (BS_OP_STRUCTURAL | BS_OP_ACROSS))
        return true;
    for (int32_t i = 1; i < infer->n_in; i++) {
        const int32_t d = infer->in[i]->domain, first = infer->in[0]->domain;
        if (d != first && !(d == 0 && infer->op->flags & BS_OP_CAPTURE))
            return bs_graph_fail(g, BS_ERROR_DOMAIN,
                                 "%s \"%s\": operand %d belongs to domain %d, operand 0 to domain %d; scatter or gather it first",
                                 infer->op->name, infer->name, i, d, first);
    }
    return true;
}

static const void *copy_params(bs_graph *g, const bs_op *op, const void *params)
{
    if (op->params_bytes == 0)
        return NULL;
    char *copy = graph_take(g, op->params_bytes, sizeof(void *));
    if (!copy)
        return NULL;
    memset(copy, 0, op->params_bytes);
    if (params) {
        memcpy(copy, params, op->params_bytes);
        const char *name = bs_graph_text(g, *(const char *const *)params);
        memcpy(copy, &name, sizeof name);
    } else {
        const char *none = g->text;
        memcpy(copy, &none, sizeof none);
    }
    return copy;
}

static void infer_begin(bs_infer *infer, bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
{
    memset(infer, 0, sizeof *infer);
    infer->graph = g;
    infer->op = op;
    infer->params = params;
    infer->name = params ? *(const char *const *)params : "";
    infer->n_in = n_in;
    infer->ids = in;
    infer->n_out = 1;
    infer->path = -1;
    for (int32_t i = 0; i < n_in && i < BS_MAX_OPERANDS; i++)
        infer->in[i] = &g->values[in[i]];
    for (int32_t i = 0; i < BS_MAX_OUTPUTS; i++) {
        if (n_in > 0)
            infer->out[i] = g->values[in[0]];
        else
            infer->out[i].scale_num = infer->out[i].scale_den = 1;
    }
}

static bool outputs_sound(bs_graph *g, const bs_infer *infer)
{
    if (g->n_values + infer->n_out > g->max_values + 1)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %d values (bs_graph_desc.max_values)", g->max_values);
    for (int32_t i = 0; i < infer->n_out; i++) {
        const bs_value_info *out = &infer->out[i];
        uint64_t elements = 1;
        for (int32_t d = 0; d < out->rank; d++) {
            if (out->dims[d] < 0)
                return bs_graph_fail(g, BS_ERROR_SHAPE, "%s \"%s\": dimension %d cannot be told", infer->op->name, infer->name, d);
            elements = bs_mul_u64(elements, (uint64_t)bs_dim_max(g, out->dims[d]));
        }
        if (out->rank < 0 || out->rank > BS_MAX_RANK || elements > (uint64_t)1 << 40)
            return bs_graph_fail(g, BS_ERROR_SHAPE, "%s \"%s\": the result is too large", infer->op->name, infer->name);
    }
    return true;
}

bs_node *bs_graph_add(bs_graph *graph, int32_t op_index, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_op *op = bs_op_get(op_index);
    if (!graph || graph->status != BS_OK)
        return NULL;
    if (!op) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "op %d does not exist", op_index);
        return NULL;
    }
    if (!operands_known(graph, op, in, n_in))
        return NULL;
    const void *copy = copy_params(graph, op, params);
    bs_infer infer;
    infer_begin(&infer, graph, op, in, n_in, copy);
    if (graph->status != BS_OK || !operands_agree(graph, &infer))
        return NULL;
    if (!op->infer(&infer) || graph->status != BS_OK) {
        bs_graph_fail(graph, BS_ERROR_SHAPE, "%s \"%s\" cannot take these operands", op->name, infer.name);
        return NULL;
    }
    if (!outputs_sound(graph, &infer))
        return NULL;

    bs_node *node = &graph->nodes[graph->n_nodes];
    memset(node, 0, sizeof *node);
    node->op = op_index;
    node->n_in = n_in;
    node->n_out = infer.n_out;
    node->in = graph->n_operands;
    node->first_out = graph->n_values;
    node->block = graph->current_block;
    node->params = copy;
    node->router = infer.router;
    node->path = infer.path;
    node->domain = infer.n_out > 0 ? infer.out[0].domain : n_in > 0 && in[0] ? graph->values[in[0]].domain : 0;
    for (int32_t i = 0; i < n_in; i++)
        graph->operands[graph->n_operands++] = in[i];
    for (int32_t i = 0; i < infer.n_out; i++) {
        bs_value_info *value = &graph->values[graph->n_values++];
        *value = infer.out[i];
        value->node = graph->n_nodes;
        value->output_index = i;
    }
    graph->n_nodes++;
    return node;
}

bs_value bs_graph_value(bs_graph *graph, int32_t op, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_node *node = bs_graph_add(graph, op, in, n_in, params);
    const bs_value value = {node && node->n_out > 0 ? node->first_out : 0};
    return value;
}

/* ------------------------------------------------------------------------------------------------- blocks */

void bs_block_begin(bs_graph *graph, const char *name)
{
    if (!graph || graph->status != BS_OK)
        return;
    if (graph->n_blocks == BS_MAX_BLOCKS) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "more than %d blocks", BS_MAX_BLOCKS);
        return;
    }
    bs_block *block = &graph->blocks[graph->n_blocks];
    block->name = (int32_t)(bs_graph_text(graph, name) - graph->text);
    block->parent = graph->current_block;
    block->first_node = block->end_node = graph->n_nodes;
    graph->current_block = graph->n_blocks++;
}

void bs_block_end(bs_graph *graph)
{
    if (!graph || graph->status != BS_OK)
        return;
    if (graph->current_block == 0) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "bs_block_end without bs_block_begin");
        return;
    }
    bs_block *block = &graph->blocks[graph->current_block];
    block->end_node = graph->n_nodes;
    graph->current_block = block->parent;
}
/* ==== end src/graph.c ========================================================================= */

/* ==== begin src/ops/common.h ================================================================== */
/* ops/common.h - what the shape, halo and cost rules of several ops share.
 * Owns the wording of refusals, and what holds in a patch domain. Relies on op.h. Must never touch data. */
#ifndef BS_OPS_COMMON_H
#define BS_OPS_COMMON_H

/* #include "op.h" */

#define BS_FIELDS(array) .fields = array, .n_fields = (int32_t)(sizeof(array) / sizeof *(array))

/* Every refusal reads: op "node": text. Returns false always. */
bool bs_infer_fail(bs_infer *infer, bs_status status, const char *format, ...) BS_PRINTF(3, 4);

bool bs_infer_dtype(bs_infer *infer, int32_t index, bs_dtype dtype);
bool bs_infer_rank(bs_infer *infer, int32_t index, int32_t low, int32_t high);
/* An f32 image [C,H,W] with a constant number of channels. */
bool bs_infer_image(bs_infer *infer, int32_t index, int32_t *channels);
/* Dimension `axis` of the operand as a constant; `what` names it in the refusal. */
bool bs_infer_const(bs_infer *infer, int32_t index, int32_t axis, const char *what, int32_t *n);
/* A negative axis counts from the end. */
bool bs_infer_axis(bs_infer *infer, int32_t axis, int32_t *positive);
/* The same with a value known to be sound, for kernels. */
static inline int32_t bs_axis_of(int32_t axis, int32_t rank) { return axis < 0 ? axis + rank : axis; }
/* A field of a descriptor within low .. high. */
bool bs_infer_field(bs_infer *infer, const char *field, int64_t n, int64_t low, int64_t high);
bool bs_infer_act(bs_infer *infer, int32_t act);
/* out[0].dims[axis] = floor((d mul + add) / div) of dimension `axis` of operand 0. */
bool bs_infer_extent(bs_infer *infer, int32_t axis, int64_t mul, int64_t add, int64_t div);

/* An image of a patch domain: its dims are those of the frame, a kernel sees one cell and its halo. */
bool bs_value_in_patches(const bs_graph *graph, const bs_value_info *value);
/* Refuses operands whose pixels a kernel would have to see all at once. */
bool bs_infer_whole(bs_infer *infer, int32_t index);
/* Refuses to make an image out of something else in a patch domain: it would have no place in the frame. */
bool bs_infer_no_new_image(bs_infer *infer);
/* The frame of out[0] is num/den of operand 0's; a cell must stay a whole number of pixels. */
bool bs_infer_scale(bs_infer *infer, int32_t num, int32_t den);
/* Windows of `kernel` (dilated) over both axes. Sets extents and scale. In a patch domain padding must keep output
 * cells where their input cells are: floor(H/stride) <= H' <= ceil(H/stride). */
typedef struct bs_window {
    int32_t kernel_h, kernel_w, stride, pad_h, pad_w, dilation;
} bs_window;
bool bs_infer_window(bs_infer *infer, const bs_window *window);
int32_t bs_window_halo(const bs_window *window, int32_t out_margin);

/* Elements of one row at maximum extents (a cell, in a patch domain), and pixels of an image likewise. */
double bs_value_work(const bs_graph *graph, int32_t value);
double bs_value_pixels(const bs_graph *graph, int32_t value);

/* Makes a node of this op. */
bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
const bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);

/* A weight of an op, for its table of specs. */
bs_weight_spec bs_weight_of(const char *suffix, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3);

/* Elements that a kernel may take as [.., channels] with channel step 1. */
static inline bool bs_channels_last(const bs_operand *o) { return o->dim[0] == 1 || o->stride[0] == 1; }

#endif
/* ==== end src/ops/common.h ==================================================================== */

/* ==== begin src/ops/common.c ================================================================== */
/* ops/common.c - shared shape, halo and cost rules.
 * Relies on common.h. Must never touch data. */
/* #include "ops/common.h" */

/* ------------------------------------------------------------------------------------------------ refusals */

bool bs_infer_fail(bs_infer *infer, bs_status status, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const bool named = infer->name && *infer->name;
    return bs_graph_fail(infer->graph, status, "%s%s%s%s: %s", infer->op->name, named ? " \"" : "",
                         named ? infer->name : "", named ? "\"" : "", text);
}

bool bs_infer_dtype(bs_infer *infer, int32_t index, bs_dtype dtype)
{
    if (infer->in[index]->dtype == dtype)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d is %s, expected %s", index,
                         bs_dtype_name(infer->in[index]->dtype), bs_dtype_name(dtype));
}

bool bs_infer_rank(bs_infer *infer, int32_t index, int32_t low, int32_t high)
{
    const bs_value_info *value = infer->in[index];
    char shape[96], wanted[32];
    if (value->rank >= low && value->rank <= high)
        return true;
    if (low == high)
        snprintf(wanted, sizeof wanted, "rank %d", low);
    else
        snprintf(wanted, sizeof wanted, "rank %d to %d", low, high);
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d is %s, expected %s%s", index,
                         bs_value_text(infer->graph, value, shape, sizeof shape), wanted,
                         low == 3 && high == 3 ? " [C, H, W]" : "");
}

bool bs_infer_const(bs_infer *infer, int32_t index, int32_t axis, const char *what, int32_t *n)
{
    const bs_dim_id d = infer->in[index]->dims[axis];
    char text[64];
    if (!bs_dim_is_const(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d of operand %d (%s) is %s, expected a constant", axis,
                             index, what, bs_dim_text(infer->graph, d, text, sizeof text));
    *n = (int32_t)bs_dim_max(infer->graph, d);
    return true;
}

bool bs_infer_image(bs_infer *infer, int32_t index, int32_t *channels)
{
    return bs_infer_dtype(infer, index, BS_F32) && bs_infer_rank(infer, index, 3, 3) &&
           bs_infer_const(infer, index, 0, "channels", channels);
}

bool bs_infer_axis(bs_infer *infer, int32_t axis, int32_t *positive)
{
    const int32_t rank = infer->in[0]->rank;
    *positive = bs_axis_of(axis, rank);
    if (*positive >= 0 && *positive < rank)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "axis %d of an operand of rank %d", axis, rank);
}

bool bs_infer_field(bs_infer *infer, const char *field, int64_t n, int64_t low, int64_t high)
{
    if (n >= low && n <= high)
        return true;
    return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "%s is %lld, expected %lld .. %lld", field, (long long)n,
                         (long long)low, (long long)high);
}

bool bs_infer_act(bs_infer *infer, int32_t act)
{
    return bs_infer_field(infer, "act", act, 0, (int64_t)BS_ACT_COUNT - 1);
}

bool bs_infer_extent(bs_infer *infer, int32_t axis, int64_t mul, int64_t add, int64_t div)
{
    const bs_dim_id d = infer->in[0]->dims[axis];
    const int64_t maximum = bs_floor_div(bs_dim_max(infer->graph, d) * mul + add, div);
    char text[64];
    if (maximum < 1 || maximum > (int64_t)1 << 30)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s, which gives a result of %lld", axis,
                             bs_dim_text(infer->graph, d, text, sizeof text), (long long)maximum);
    infer->out[0].dims[axis] = bs_dim_derive(infer->graph, d, mul, add, div);
    return infer->out[0].dims[axis] >= 0;
}

/* ------------------------------------------------------------------------------------------------- patches */

static const bs_domain *value_patches(const bs_graph *graph, const bs_value_info *value)
{
    const int32_t patches = graph->domains[value->domain].patches;
    return patches < 0 ? NULL : &graph->domains[patches];
}

bool bs_value_in_patches(const bs_graph *graph, const bs_value_info *value)
{
    return value->rank == 3 && value_patches(graph, value) != NULL;
}

bool bs_infer_whole(bs_infer *infer, int32_t index)
{
    if (!bs_value_in_patches(infer->graph, infer->in[index]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %d is cut into patches, but this needs all of its pixels",
                         index);
}

bool bs_infer_no_new_image(bs_infer *infer)
{
    if (!bs_value_in_patches(infer->graph, &infer->out[0]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                         "the result would be an image (rank 3) without a place in the patched frame");
}

static int32_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return (int32_t)a;
}

bool bs_infer_scale(bs_infer *infer, int32_t num, int32_t den)
{
    const bs_value_info *in = infer->in[0];
    const bs_domain *patches = value_patches(infer->graph, in);
    int64_t n = (int64_t)in->scale_num * num, d = (int64_t)in->scale_den * den;
    const int32_t divisor = common_divisor(n, d);
    n /= divisor;
    d /= divisor;
    if (in->rank == 3 && patches && (int64_t)patches->size * n % d != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "cells of %lld pixels (dimensions 1 and 2) do not divide by %d",
                             (long long)((int64_t)patches->size * in->scale_num / in->scale_den), den);
    if (n > 1 << 15 || d > 1 << 15)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "the frame's scale would be %lld/%lld", (long long)n, (long long)d);
    infer->out[0].scale_num = (int32_t)n;
    infer->out[0].scale_den = (int32_t)d;
    return true;
}

/* H' = floor((H + slack) / stride). */
static int32_t window_slack(const bs_window *w, int32_t kernel, int32_t pad)
{
    return 2 * pad - w->dilation * (kernel - 1) - 1 + w->stride;
}

static bool window_aligned(bs_infer *infer, const bs_window *w, int32_t axis, int32_t slack)
{
    if (!bs_value_in_patches(infer->graph, infer->in[0]) || (slack >= 0 && slack < w->stride))
        return true;
    return bs_infer_fail(
        infer, BS_ERROR_SHAPE,
        "dimension %d: padding %d with kernel %d moves cells of a patch domain; pad by dilation (kernel-1)/2", axis,
        axis == 1 ? w->pad_h : w->pad_w, axis == 1 ? w->kernel_h : w->kernel_w);
}

bool bs_infer_window(bs_infer *infer, const bs_window *window)
{
    const int32_t h = window_slack(window, window->kernel_h, window->pad_h);
    const int32_t w = window_slack(window, window->kernel_w, window->pad_w);
    return bs_infer_extent(infer, 1, 1, h, window->stride) && bs_infer_extent(infer, 2, 1, w, window->stride) &&
           window_aligned(infer, window, 1, h) && window_aligned(infer, window, 2, w) &&
           bs_infer_scale(infer, 1, window->stride);
}

/* In a patch domain slack >= 0, so the last window of a margin m reaches no farther than the first: m stride + pad. A
 * whole frame has m = 0, and its windows end at pad beyond it. */
int32_t bs_window_halo(const bs_window *window, int32_t out_margin)
{
    return out_margin * window->stride + bs_max_i32(window->pad_h, window->pad_w);
}

/* ---------------------------------------------------------------------------------------------------- cost */

/* Largest extent of dimension d in one row: the frame's, but at most the cell's in a patch domain. */
static double value_extent(const bs_graph *graph, const bs_value_info *value, int32_t d)
{
    const double extent = (double)bs_dim_max(graph, value->dims[d]);
    if (d == 0 || !bs_value_in_patches(graph, value))
        return extent;
    const double cell = (double)value_patches(graph, value)->size * value->scale_num / value->scale_den;
    return extent < cell ? extent : cell;
}

double bs_value_work(const bs_graph *graph, int32_t value)
{
    const bs_value_info *info = bs_value_get(graph, value);
    double work = 1;
    for (int32_t d = 0; d < info->rank; d++)
        work *= value_extent(graph, info, d);
    return work;
}

double bs_value_pixels(const bs_graph *graph, int32_t value)
{
    const bs_value_info *info = bs_value_get(graph, value);
    return value_extent(graph, info, 1) * value_extent(graph, info, 2);
}

/* ------------------------------------------------------------------------------------------------- builder */

const bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
{
    int32_t index = 0;
    while (index < bs_op_count() && bs_op_get(index) != op)
        index++;
    return bs_graph_add(graph, index, in, n_in, params);
}

bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_node *node = bs_op_build_node(graph, op, in, n_in, params);
    const bs_value value = {node ? node->first_out : 0};
    return value;
}

bs_weight_spec bs_weight_of(const char *suffix, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    const bs_weight_spec spec = {suffix, BS_F32, rank, {d0, d1, d2, d3}};
    return spec;
}
/* ==== end src/ops/common.c ==================================================================== */

/* ==== begin src/ops/span.h ==================================================================== */
/* ops/span.h - one loop nest for every op that goes element by element over strided operands.
 * Owns the walk: it sorts axes by the output's strides, merges those that are contiguous in every operand, and calls
 * `inner` on the innermost. Relies on op.h. Must never know what an element means. */
#ifndef BS_OPS_SPAN_H
#define BS_OPS_SPAN_H

/* #include "op.h" */

#define BS_SPAN_OPERANDS 4
#define BS_SPAN_AXES     (BS_MAX_RANK + 1) /* axis 0 is the row, axis d + 1 dimension d */

typedef struct bs_span {
    int32_t operands, axes;
    int64_t low[BS_SPAN_AXES]; /* first coordinate, in those of the output */
    int64_t count[BS_SPAN_AXES];
    char *at[BS_SPAN_OPERANDS];
    ptrdiff_t step[BS_SPAN_OPERANDS][BS_SPAN_AXES]; /* bytes */
} bs_span;

/* n elements: of operand i at at[i], at[i] + step[i], ... (bytes). Operand 0 is the output. */
typedef void (*bs_span_inner)(const void *context, int64_t n, char *const *at, const ptrdiff_t *step);

/* The box of an output: its rect where it has rank 3, else all of it. No operand is added yet: the box may be
 * changed. */
void bs_span_box(bs_span *span, const bs_operand *out, int32_t rows);
/* The box, and the output added as operand 0. */
void bs_span_open(bs_span *span, const bs_operand *out, int32_t rows);
/* The same for ops on whole lines: every index but those of dimension `axis`, of which only 0 is visited. */
void bs_span_open_lines(bs_span *span, const bs_operand *out, int32_t rows, int32_t axis);
/* Operand of the output's rank. Element c of it belongs to coordinate c + shift[d] of dimension d (shift may be
 * NULL); dimensions in the mask `broadcast` (bit d) do not move it. */
void bs_span_add(bs_span *span, const bs_operand *operand, const int32_t *shift, uint32_t broadcast);
/* An array of 4-byte elements, one for each index of dimension `axis`. */
void bs_span_add_array(bs_span *span, const void *array, int32_t axis);
/* Walks. The span is spent afterwards. */
void bs_span_run(bs_span *span, bs_span_inner inner, const void *context);

/* Whether the first operands of an inner loop are dense arrays of f32, for a loop that compilers vectorise. */
static inline bool bs_span_dense_f32(const ptrdiff_t *step, int32_t operands)
{
    for (int32_t i = 0; i < operands; i++)
        if (step[i] != 4)
            return false;
    return true;
}

/* Inner loop that copies elements of *(const size_t *)context bytes: 1, 2 or 4. */
void bs_span_copy(const void *context, int64_t n, char *const *at, const ptrdiff_t *step);

#endif
/* ==== end src/ops/span.h ====================================================================== */

/* ==== begin src/ops/span.c ==================================================================== */
/* ops/span.c - the strided walk.
 * Relies on span.h. Must never let the order of elements matter: inner functions are element by element. */
/* #include "ops/span.h" */

void bs_span_box(bs_span *span, const bs_operand *out, int32_t rows)
{
    memset(span, 0, sizeof *span);
    span->axes = out->rank + 1;
    span->count[0] = rows;
    for (int32_t d = 0; d < out->rank; d++)
        span->count[d + 1] = out->dim[d];
    if (out->rank != 3)
        return;
    span->low[2] = out->rect.y0;
    span->count[2] = out->rect.y1 - out->rect.y0;
    span->low[3] = out->rect.x0;
    span->count[3] = out->rect.x1 - out->rect.x0;
}

void bs_span_add(bs_span *span, const bs_operand *operand, const int32_t *shift, uint32_t broadcast)
{
    const int32_t i = span->operands++;
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(operand->dtype);
    ptrdiff_t offset = 0;
    span->step[i][0] = operand->row_stride * bytes;
    for (int32_t d = 0; d < span->axes - 1; d++) {
        if (broadcast >> d & 1u)
            continue;
        span->step[i][d + 1] = operand->stride[d] * bytes;
        offset += (ptrdiff_t)(span->low[d + 1] - (shift ? shift[d] : 0)) * operand->stride[d] * bytes;
    }
    span->at[i] = (char *)operand->data + offset;
}

void bs_span_open(bs_span *span, const bs_operand *out, int32_t rows)
{
    bs_span_box(span, out, rows);
    bs_span_add(span, out, NULL, 0);
}

void bs_span_open_lines(bs_span *span, const bs_operand *out, int32_t rows, int32_t axis)
{
    bs_span_box(span, out, rows);
    span->low[axis + 1] = 0;
    span->count[axis + 1] = 1;
    bs_span_add(span, out, NULL, 0);
}

void bs_span_add_array(bs_span *span, const void *array, int32_t axis)
{
    const int32_t i = span->operands++;
    span->step[i][axis + 1] = 4;
    span->at[i] = (char *)(uintptr_t)array + 4 * span->low[axis + 1];
}

/* ---------------------------------------------------------------------------------------------------- walk */

static void span_move_axis(bs_span *s, int32_t to, int32_t from)
{
    s->count[to] = s->count[from];
    for (int32_t i = 0; i < s->operands; i++)
        s->step[i][to] = s->step[i][from];
}

static void span_swap_axes(bs_span *s, int32_t a, int32_t b)
{
    const int64_t count = s->count[a];
    s->count[a] = s->count[b];
    s->count[b] = count;
    for (int32_t i = 0; i < s->operands; i++) {
        const ptrdiff_t step = s->step[i][a];
        s->step[i][a] = s->step[i][b];
        s->step[i][b] = step;
    }
}

static ptrdiff_t span_reach(const bs_span *s, int32_t axis)
{
    return s->step[0][axis] < 0 ? -s->step[0][axis] : s->step[0][axis];
}

/* Axes of one element go; the others are sorted, the output's largest step outermost. */
static void span_sort(bs_span *s)
{
    int32_t kept = 0;
    for (int32_t a = 0; a < s->axes; a++)
        if (s->count[a] != 1)
            span_move_axis(s, kept++, a);
    s->axes = kept;
    for (int32_t a = 1; a < kept; a++)
        for (int32_t b = a; b > 0 && span_reach(s, b) > span_reach(s, b - 1); b--)
            span_swap_axes(s, b, b - 1);
}

static bool span_follows(const bs_span *s, int32_t outer, int32_t inner)
{
    for (int32_t i = 0; i < s->operands; i++)
        if (s->step[i][outer] != s->step[i][inner] * (ptrdiff_t)s->count[inner])
            return false;
    return true;
}

static void span_merge(bs_span *s)
{
    int32_t last = 0;
    for (int32_t a = 1; a < s->axes; a++) {
        if (!span_follows(s, last, a)) {
            span_move_axis(s, ++last, a);
            continue;
        }
        const int64_t outer = s->count[last];
        span_move_axis(s, last, a);
        s->count[last] *= outer;
    }
    s->axes = s->axes ? last + 1 : 0;
}

/* Moves to the next line: an odometer over all axes but the innermost. */
static bool span_next(bs_span *s, int64_t *index, int32_t inner)
{
    for (int32_t a = inner - 1; a >= 0; a--) {
        const bool wraps = ++index[a] == s->count[a];
        for (int32_t i = 0; i < s->operands; i++)
            s->at[i] += wraps ? -s->step[i][a] * (ptrdiff_t)(s->count[a] - 1) : s->step[i][a];
        if (!wraps)
            return true;
        index[a] = 0;
    }
    return false;
}

void bs_span_run(bs_span *span, bs_span_inner inner, const void *context)
{
    for (int32_t a = 0; a < span->axes; a++)
        if (span->count[a] <= 0)
            return;
    span_sort(span);
    span_merge(span);
    const int32_t last = span->axes > 0 ? span->axes - 1 : 0;
    int64_t index[BS_SPAN_AXES] = {0};
    ptrdiff_t step[BS_SPAN_OPERANDS] = {0};
    for (int32_t i = 0; i < span->operands && span->axes > 0; i++)
        step[i] = span->step[i][last];
    do
        inner(context, span->axes > 0 ? span->count[last] : 1, span->at, step);
    while (span_next(span, index, last));
}

/* ---------------------------------------------------------------------------------------------------- copy */

void bs_span_copy(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const size_t bytes = *(const size_t *)context;
    char *to = at[0];
    const char *from = at[1];
    if (step[0] == (ptrdiff_t)bytes && step[1] == (ptrdiff_t)bytes) {
        memcpy(to, from, bytes * (size_t)n);
        return;
    }
    if (bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step[0], from + i * step[1], 4);
    else if (bytes == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step[0], from + i * step[1], 2);
    else
        for (int64_t i = 0; i < n; i++)
            to[i * step[0]] = from[i * step[1]];
}
/* ==== end src/ops/span.c ====================================================================== */

/* ==== begin src/ops/epilogue.h ================================================================ */
/* ops/epilogue.h - what conv2d, deconv2d and linear have in common after their sums: bias, slopes, activation.
 * Owns the translation from bs_act to what conv.h fuses, and the pass for what it does not.
 * Relies on kernels/conv.h and span.h. Must never change the order of bias, then activation. */
#ifndef BS_OPS_EPILOGUE_H
#define BS_OPS_EPILOGUE_H

/* #include "kernels/conv.h" */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

/* The kernels' own tables do not serve this node: a plain loop does. */
#define BS_CONV_REFERENCE (-1)

typedef struct bs_epilogue {
    bs_act act;
    float param;
    const float *bias;   /* a channel, or NULL */
    const float *slopes; /* a channel, PRELU only */
} bs_epilogue;

/* Bias and slopes behind packed weights in prepared memory: one place for all three ops. */
typedef struct bs_epilogue_layout {
    uint64_t bias, slopes, bytes;
} bs_epilogue_layout;
bs_epilogue_layout bs_epilogue_place(uint64_t packed_bytes, int32_t channels, int32_t act);

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum);

/* Sets bias and activation of the task. False: the activation is not fused, bs_epilogue_pass must follow. */
bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task);
/* The activation alone, over the box of `out`. */
void bs_epilogue_pass(const bs_epilogue *epilogue, const bs_operand *out, int32_t rows);

#endif
/* ==== end src/ops/epilogue.h ================================================================== */

/* ==== begin src/ops/epilogue.c ================================================================ */
/* ops/epilogue.c - bias and activation after a sum.
 * Relies on epilogue.h. Must never change the order of bias, then activation. */
/* #include "ops/epilogue.h" */

bs_epilogue_layout bs_epilogue_place(uint64_t packed_bytes, int32_t channels, int32_t act)
{
    const uint64_t array = bs_align_u64(4 * (uint64_t)channels);
    bs_epilogue_layout layout;
    layout.bias = bs_align_u64(packed_bytes);
    layout.slopes = bs_add_u64(layout.bias, array);
    layout.bytes = bs_add_u64(layout.slopes, act == BS_PRELU ? array : 0);
    return layout;
}

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum)
{
    if (epilogue->bias)
        sum += epilogue->bias[channel];
    return bs_act_apply(epilogue->act, epilogue->param, epilogue->slopes ? epilogue->slopes[channel] : 0.0f, sum);
}

bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task)
{
    task->bias = epilogue->bias;
    task->slopes = epilogue->slopes;
    task->slope = epilogue->param == 0.0f ? 0.01f : epilogue->param;
    task->low = 0.0f;
    task->high = epilogue->param == 0.0f ? 1.0f : epilogue->param;
    switch (epilogue->act) {
    case BS_ACT_NONE:
        task->activation = BS_CONV_NONE;
        return true;
    case BS_RELU:
        task->activation = BS_CONV_RELU;
        return true;
    case BS_LEAKY_RELU:
        task->activation = BS_CONV_LEAKY;
        return true;
    case BS_PRELU:
        task->activation = BS_CONV_PRELU;
        return true;
    case BS_CLIP:
        task->activation = BS_CONV_CLIP;
        return true;
    case BS_SIGMOID:
    case BS_TANH:
    case BS_GELU:
    case BS_SILU:
    case BS_ACT_COUNT:
        break;
    }
    task->activation = BS_CONV_NONE;
    return false;
}

static void epilogue_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_epilogue *epilogue = context;
    for (int64_t i = 0; i < n; i++) {
        float *x = (float *)(void *)(at[0] + i * step[0]);
        *x = bs_act_apply(epilogue->act, epilogue->param, 0.0f, *x);
    }
}

void bs_epilogue_pass(const bs_epilogue *epilogue, const bs_operand *out, int32_t rows)
{
    bs_span span;
    bs_span_open(&span, out, rows);
    bs_span_run(&span, epilogue_inner, epilogue);
}
/* ==== end src/ops/epilogue.c ================================================================== */

/* ==== begin src/ops/binary.c ================================================================== */
/* ops/binary.c - add, sub, mul, with broadcasting of the second operand.
 * Relies on span.h for the walk. Must never look at neighbours: exact in patch domains. One code for every tier. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

/* Dimensions of b that are 1 where a's are not. Compared as the graph has them: a clipped cell may be 1 high too. */
static uint32_t binary_broadcast(const bs_value_info *a, const bs_value_info *b)
{
    uint32_t mask = 0;
    for (int32_t d = 0; d < a->rank; d++)
        if (b->rank != a->rank ? d > 0 : a->dims[d] != b->dims[d])
            mask |= 1u << d;
    return mask;
}

static bool binary_dims_fit(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    for (int32_t d = 0; d < b->rank; d++) {
        char left[64], right[64];
        if (a->dims[d] == b->dims[d] ||
            (bs_dim_is_const(infer->graph, b->dims[d]) && bs_dim_max(infer->graph, b->dims[d]) == 1))
            continue;
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s in operand 0 and %s in operand 1", d,
                             bs_dim_text(infer->graph, a->dims[d], left, sizeof left),
                             bs_dim_text(infer->graph, b->dims[d], right, sizeof right));
    }
    return true;
}

/* Beside a patch, a root image would have to be cut too: only what is the same for every pixel may be captured. */
static bool binary_frames_fit(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    if (!bs_value_in_patches(infer->graph, a) || b->rank != 3)
        return true;
    const bool constant = (binary_broadcast(a, b) & 6u) == 6u;
    if (b->domain != a->domain && !constant)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand 1 is a whole image beside patches; cut it with bs_patches (like)");
    if (b->domain == a->domain && (a->scale_num != b->scale_num || a->scale_den != b->scale_den))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimensions 1 and 2: operands have frames of different scale");
    return true;
}

static bool binary_infer(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    if (a->dtype != BS_F32 && a->dtype != BS_I32)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected f32 or i32", bs_dtype_name(a->dtype));
    if (!bs_infer_dtype(infer, 1, a->dtype))
        return false;
    /* b of rank 1 beside an image: one value a channel */
    if (b->rank != a->rank && !(a->rank == 3 && b->rank == 1))
        return bs_infer_rank(infer, 1, a->rank, a->rank);
    return binary_dims_fit(infer) && binary_frames_fit(infer);
}

/* The three loops differ in one operator. i32 wraps: unsigned, because signed overflow is undefined. */
#define BINARY_LOOP(type, expression)                                      \
    for (int64_t i = 0; i < n; i++) {                                      \
        const type a = *(const type *)(const void *)(at[1] + i * step[1]); \
        const type b = *(const type *)(const void *)(at[2] + i * step[2]); \
        *(type *)(void *)(at[0] + i * step[0]) = expression;               \
    }
#define BINARY_INNER(op, operator)                                                                     \
    static void op##_inner_f32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step) \
    {                                                                                                  \
        (void)context;                                                                                 \
        if (!bs_span_dense_f32(step, 3)) {                                                             \
            BINARY_LOOP(float, a operator b)                                                           \
            return;                                                                                    \
        }                                                                                              \
        float *out = (float *)(void *)at[0];                                                           \
        const float *a = (const float *)(const void *)at[1], *b = (const float *)(const void *)at[2];  \
        for (int64_t i = 0; i < n; i++)                                                                \
            out[i] = a[i] operator b[i];                                                               \
    }                                                                                                  \
    static void op##_inner_i32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step) \
    {                                                                                                  \
        (void)context;                                                                                 \
        BINARY_LOOP(uint32_t, a operator b)                                                            \
    }
BINARY_INNER(add, +)
BINARY_INNER(sub, -)
BINARY_INNER(mul, *)
#undef BINARY_INNER
#undef BINARY_LOOP

static bs_status binary_run(const bs_call *call, bs_span_inner f32, bs_span_inner i32)
{
    const int32_t *in = bs_node_in(call->graph, call->node);
    const bs_value_info *a = bs_value_get(call->graph, in[0]), *b = bs_value_get(call->graph, in[1]);
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_add(&span, &call->in[1], NULL, binary_broadcast(a, b));
    bs_span_run(&span, call->out[0].dtype == BS_F32 ? f32 : i32, NULL);
    return BS_OK;
}

static bs_status add_run(const bs_call *call) { return binary_run(call, add_inner_f32, add_inner_i32); }
static bs_status sub_run(const bs_call *call) { return binary_run(call, sub_inner_f32, sub_inner_i32); }
static bs_status mul_run(const bs_call *call) { return binary_run(call, mul_inner_f32, mul_inner_i32); }

/* A macro so that each is a plain constant table. */
#define BINARY_OP(op)                                                 \
    extern const bs_op bs_op_##op;                                    \
    const bs_op bs_op_##op = {.name = #op,                            \
                              .min_in = 2,                            \
                              .max_in = 2,                            \
                              .infer = binary_infer,                  \
                              .flags = BS_OP_SPATIAL | BS_OP_CAPTURE, \
                              .run = op##_run};                       \
    bs_value bs_##op(bs_graph *graph, bs_value a, bs_value b)         \
    {                                                                 \
        const int32_t in[2] = {a.id, b.id};                           \
        return bs_op_build(graph, &bs_op_##op, in, 2, NULL);          \
    }
BINARY_OP(add)
BINARY_OP(sub)
BINARY_OP(mul)
#undef BINARY_OP
/* ==== end src/ops/binary.c ==================================================================== */

/* ==== begin src/ops/concat_slice.c ============================================================ */
/* ops/concat_slice.c - joins values along a dimension, and takes a part of one. Elements of any type.
 * Relies on span.h. Must never do arithmetic. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

typedef struct bs_concat_desc {
    const char *name;
    int32_t axis;
} bs_concat_desc;

static const bs_field concat_fields[] = {{"axis", 'i'}};
static const bs_field slice_fields[] = {{"axis", 'i'}, {"start", 'i'}, {"length", 'i'}};

/* Rows and columns of a patch cannot be moved: its neighbours have the pixels. */
static bool axis_may_change(bs_infer *infer, int32_t axis)
{
    if (axis == 0 || !bs_value_in_patches(infer->graph, infer->in[0]))
        return true;
    return bs_infer_fail(infer, BS_ERROR_DOMAIN, "axis %d of an image that is cut into patches", axis);
}

/* ----------------------------------------------------------------------------------------------------- concat */

static bool concat_operand_fits(bs_infer *infer, int32_t index, int32_t axis)
{
    const bs_value_info *first = infer->in[0], *other = infer->in[index];
    if (!bs_infer_dtype(infer, index, first->dtype) || !bs_infer_rank(infer, index, first->rank, first->rank))
        return false;
    for (int32_t d = 0; d < first->rank; d++) {
        char left[64], right[64];
        if (d != axis && first->dims[d] != other->dims[d])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s in operand 0 and %s in operand %d", d,
                                 bs_dim_text(infer->graph, first->dims[d], left, sizeof left),
                                 bs_dim_text(infer->graph, other->dims[d], right, sizeof right), index);
    }
    if (bs_value_in_patches(infer->graph, first) &&
        (first->scale_num != other->scale_num || first->scale_den != other->scale_den))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimensions 1 and 2: operand %d has a frame of another scale",
                             index);
    return true;
}

/* The joined extent: constants add up; of symbols only one may take part (any number of times). */
static bool concat_extent(bs_infer *infer, int32_t axis)
{
    int64_t constant = 0, times = 0;
    bs_dim_id symbol = -1;
    for (int32_t i = 0; i < infer->n_in; i++) {
        const bs_dim_id d = infer->in[i]->dims[axis];
        if (bs_dim_is_const(infer->graph, d)) {
            constant += bs_dim_max(infer->graph, d);
            continue;
        }
        if (symbol >= 0 && symbol != d)
            return bs_infer_fail(infer, BS_ERROR_UNSUPPORTED, "dimension %d would be a sum of different symbols", axis);
        symbol = d;
        times++;
    }
    infer->out[0].dims[axis] =
        symbol < 0 ? bs_dim_const(infer->graph, constant) : bs_dim_derive(infer->graph, symbol, times, constant, 1);
    return infer->out[0].dims[axis] >= 0;
}

static bool concat_infer(bs_infer *infer)
{
    int32_t axis;
    if (!bs_infer_axis(infer, ((const bs_concat_desc *)infer->params)->axis, &axis) || !axis_may_change(infer, axis))
        return false;
    for (int32_t i = 1; i < infer->n_in; i++)
        if (!concat_operand_fits(infer, i, axis))
            return false;
    return concat_extent(infer, axis);
}

static bs_status concat_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    const int32_t axis = bs_axis_of(((const bs_concat_desc *)call->params)->axis, out->rank);
    const size_t bytes = bs_dtype_bytes(out->dtype);
    int32_t shift[BS_MAX_RANK] = {0};
    for (int32_t i = 0; i < call->n_in; i++) {
        const bs_operand *in = &call->in[i];
        bs_span span;
        bs_span_box(&span, out, call->rows);
        const int64_t low = bs_max_i64(span.low[axis + 1], shift[axis]);
        const int64_t high =
            bs_min_i64(span.low[axis + 1] + span.count[axis + 1], (int64_t)shift[axis] + in->dim[axis]);
        span.low[axis + 1] = low;
        span.count[axis + 1] = high - low;
        bs_span_add(&span, out, NULL, 0);
        bs_span_add(&span, in, shift, 0);
        bs_span_run(&span, bs_span_copy, &bytes);
        shift[axis] += in->dim[axis];
    }
    return BS_OK;
}

const bs_op bs_op_concat = {.name = "concat",
                            .min_in = 1,
                            .max_in = BS_MAX_OPERANDS,
                            .flags = BS_OP_SPATIAL | BS_OP_VARIADIC,
                            .params_bytes = sizeof(bs_concat_desc),
                            BS_FIELDS(concat_fields),
                            .infer = concat_infer,
                            .run = concat_run};

bs_value bs_concat(bs_graph *graph, const bs_value *values, int32_t count, int32_t axis)
{
    const bs_concat_desc desc = {NULL, axis};
    int32_t in[BS_MAX_OPERANDS] = {0};
    for (int32_t i = 0; values && count <= BS_MAX_OPERANDS && i < count; i++)
        in[i] = values[i].id;
    return bs_op_build(graph, &bs_op_concat, in, count, &desc);
}

/* ------------------------------------------------------------------------------------------------------ slice */

/* length 0: all from start. */
static bool slice_infer(bs_infer *infer)
{
    const bs_slice_desc *desc = infer->params;
    int32_t axis;
    if (!bs_infer_axis(infer, desc->axis, &axis) || !axis_may_change(infer, axis))
        return false;
    const bs_dim_id d = infer->in[0]->dims[axis];
    char text[64];
    if (desc->start < 0 || desc->length < 0 ||
        (int64_t)desc->start + bs_max_i32(desc->length, 1) > bs_dim_max(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s: start %d, length %d reach beyond it", axis,
                             bs_dim_text(infer->graph, d, text, sizeof text), desc->start, desc->length);
    if (desc->length == 0)
        return bs_infer_extent(infer, axis, 1, -(int64_t)desc->start, 1);
    infer->out[0].dims[axis] = bs_dim_const(infer->graph, desc->length);
    return true;
}

static bs_status slice_run(const bs_call *call)
{
    const bs_slice_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t axis = bs_axis_of(desc->axis, out->rank);
    const size_t bytes = bs_dtype_bytes(out->dtype);
    int32_t shift[BS_MAX_RANK] = {0};
    shift[axis] = -desc->start;
    if (out->dim[axis] > in->dim[axis] - desc->start)
        return BS_ERROR_SHAPE; /* a symbol was bound below what the slice needs */
    bs_span span;
    bs_span_open(&span, out, call->rows);
    bs_span_add(&span, in, shift, 0);
    bs_span_run(&span, bs_span_copy, &bytes);
    return BS_OK;
}

const bs_op bs_op_slice = {.name = "slice",
                           .min_in = 1,
                           .max_in = 1,
                           .flags = BS_OP_SPATIAL,
                           .params_bytes = sizeof(bs_slice_desc),
                           BS_FIELDS(slice_fields),
                           .infer = slice_infer,
                           .run = slice_run};

bs_value bs_slice(bs_graph *graph, bs_value x, const bs_slice_desc *desc)
{
    return bs_op_build(graph, &bs_op_slice, &x.id, 1, desc);
}
/* ==== end src/ops/concat_slice.c ============================================================== */

/* ==== begin src/ops/conv2d.c ================================================================== */
/* ops/conv2d.c - convolution: shape rule, folding of batch norm, the plain reference, and the way to the fast kernels.
 * Relies on kernels/conv.h. Must never decide padding in a kernel: storage is zero outside an operand's rect, so both
 * ways simply read windows. Bands of a Winograd node must start at multiples of 4 rows below rect.y0. */
/* #include "ops/epilogue.h" */

static const bs_field conv2d_fields[] = {
    {"out", 'i'},      {"kernel", 'i'}, {"kernel_h", 'i'}, {"kernel_w", 'i'},   {"stride", 'i'}, {"pad", 'i'},
    {"dilation", 'i'}, {"groups", 'i'}, {"no_bias", 'i'},  {"batch_norm", 'i'}, {"act", 'i'},    {"act_param", 'f'},
};

/* The descriptor with every default filled in. */
typedef struct conv2d_form {
    bs_conv_geometry geometry;
    bs_window window;
} conv2d_form;

static conv2d_form conv2d_form_of(const bs_conv2d_desc *desc, int32_t channels)
{
    const int32_t square = bs_or_default(desc->kernel, 3), dilation = bs_or_default(desc->dilation, 1);
    const int32_t kh = bs_or_default(desc->kernel_h, square), kw = bs_or_default(desc->kernel_w, square);
    const int32_t stride = bs_or_default(desc->stride, 1);
    const int32_t pad_h = desc->pad == BS_PAD_VALID ? 0 : bs_or_default(desc->pad, dilation * (kh - 1) / 2);
    const int32_t pad_w = desc->pad == BS_PAD_VALID ? 0 : bs_or_default(desc->pad, dilation * (kw - 1) / 2);
    const int32_t groups = desc->groups == BS_DEPTHWISE ? channels : bs_or_default(desc->groups, 1);
    const conv2d_form form = {{channels, desc->out, kh, kw, stride, stride, dilation, dilation, groups},
                              {kh, kw, stride, pad_h, pad_w, dilation}};
    return form;
}

static conv2d_form conv2d_form_at(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return conv2d_form_of(node->params, (int32_t)bs_dim_max(graph, x->dims[0]));
}

/* ------------------------------------------------------------------------------------------------- shape rule */

/* Bounds that keep every product of the geometry far inside 32 bits. */
static bool conv2d_fields_sound(bs_infer *infer, const bs_conv2d_desc *desc)
{
    return bs_infer_field(infer, "out", desc->out, 1, 1 << 20) &&
           bs_infer_field(infer, "kernel", desc->kernel, 0, 255) &&
           bs_infer_field(infer, "kernel_h", desc->kernel_h, 0, 255) &&
           bs_infer_field(infer, "kernel_w", desc->kernel_w, 0, 255) &&
           bs_infer_field(infer, "stride", desc->stride, 0, 255) &&
           bs_infer_field(infer, "pad", desc->pad, BS_PAD_VALID, 1 << 15) &&
           bs_infer_field(infer, "dilation", desc->dilation, 0, 255) &&
           bs_infer_field(infer, "groups", desc->groups, BS_DEPTHWISE, 1 << 20) && bs_infer_act(infer, desc->act);
}

static bool conv2d_infer(bs_infer *infer)
{
    const bs_conv2d_desc *desc = infer->params;
    int32_t channels;
    if (!conv2d_fields_sound(infer, desc) || !bs_infer_image(infer, 0, &channels))
        return false;
    const conv2d_form form = conv2d_form_of(desc, channels);
    if (channels % form.geometry.groups != 0 || desc->out % form.geometry.groups != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension 0: %d channels in and %d out are not divisible by %d groups", channels,
                             desc->out, form.geometry.groups);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, desc->out);
    return bs_infer_window(infer, &form.window);
}

static int32_t conv2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const conv2d_form form = conv2d_form_at(graph, node);
    (void)index;
    return bs_window_halo(&form.window, out_margin);
}

static double conv2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    return 2.0 * g.kernel_h * g.kernel_w * (g.in_channels / g.groups) * bs_value_work(graph, node->first_out);
}

/* ---------------------------------------------------------------------------------------------------- weights */

static int32_t conv2d_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    static const char *const norm[] = {"bn.weight", "bn.bias", "bn.mean", "bn.var"};
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    int32_t n = 0;
    specs[n++] = bs_weight_of("weight", 4, g.out_channels, g.in_channels / g.groups, g.kernel_h, g.kernel_w);
    if (!desc->no_bias)
        specs[n++] = bs_weight_of("bias", 1, g.out_channels, 0, 0, 0);
    for (int32_t i = 0; desc->batch_norm && i < 4; i++)
        specs[n++] = bs_weight_of(norm[i], 1, g.out_channels, 0, 0, 0);
    if (desc->act == BS_PRELU)
        specs[n++] = bs_weight_of("prelu", 1, g.out_channels, 0, 0, 0);
    return n;
}

static uint64_t conv2d_weight_floats(const bs_conv_geometry *g)
{
    return (uint64_t)g->out_channels * (uint64_t)(g->in_channels / g->groups) * (uint64_t)(g->kernel_h * g->kernel_w);
}

static int32_t conv2d_algorithm(const bs_conv_geometry *g, bs_tier tier, bs_conv_choice choice)
{
    /* Below 12 channels the transforms of Winograd cost more than the products they save. */
    const bool wide = g->in_channels >= 12 && g->out_channels >= 12;
    const bool wanted = choice == BS_CONV_FORCE_WINOGRAD || (choice == BS_CONV_AUTO && wide);
    if (choice == BS_CONV_FORCE_REFERENCE)
        return BS_CONV_REFERENCE;
    if (wanted && bs_conv_supports(g, BS_CONV_WINOGRAD4, tier))
        return BS_CONV_WINOGRAD4;
    return bs_conv_supports(g, BS_CONV_DIRECT, tier) ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
}

/* Floats of the weights as the kernels want them. */
static uint64_t conv2d_packed_floats(const bs_conv_geometry *g, const bs_node_plan *plan)
{
    return plan->algorithm == BS_CONV_REFERENCE
               ? conv2d_weight_floats(g)
               : (uint64_t)bs_conv_prepared_floats(g, (bs_conv_algorithm)plan->algorithm, plan->tier);
}

/* Prepared: packed weights, bias, slopes; and behind them, with batch norm, room for the folded weights before they are
 * packed (the canonical ones may be mapped read-only). Folding at export saves it. */
static void conv2d_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    (void)max_h, (void)max_w;
    plan->algorithm = conv2d_algorithm(&g, plan->tier, choice);
    plan->prepared_bytes = bs_epilogue_place(4 * conv2d_packed_floats(&g, plan), desc->out, desc->act).bytes;
    if (plan->algorithm == BS_CONV_REFERENCE)
        return;
    plan->scratch_bytes = 4 * (uint64_t)bs_conv_scratch_floats(&g, (bs_conv_algorithm)plan->algorithm, plan->tier);
    if (desc->batch_norm)
        plan->prepared_bytes = bs_add_u64(plan->prepared_bytes, bs_align_u64(4 * conv2d_weight_floats(&g)));
}

/* ---------------------------------------------------------------------------------------------------- prepare */

/* Batch norm y = (x - mean) scale + shift, scale = weight / sqrt(var + 1e-5), is linear: it goes into weights and
 * bias. */
static float conv2d_norm_scale(const float *const *norm, int32_t o)
{
    return norm[0] ? norm[0][o] / sqrtf(norm[3][o] + 1e-5f) : 1.0f;
}

static void conv2d_fold_bias(const float *bias, const float *const *norm, int32_t channels, float *target)
{
    for (int32_t o = 0; o < channels; o++) {
        const float plain = bias ? bias[o] : 0.0f;
        target[o] = norm[0] ? (plain - norm[2][o]) * conv2d_norm_scale(norm, o) + norm[1][o] : plain;
    }
}

static void conv2d_fold_weights(const float *weight, const float *const *norm, const bs_conv_geometry *g, float *target)
{
    const uint64_t each = conv2d_weight_floats(g) / (uint64_t)g->out_channels;
    for (int32_t o = 0; o < g->out_channels; o++) {
        const float scale = conv2d_norm_scale(norm, o);
        for (uint64_t i = 0; i < each; i++)
            target[(uint64_t)o * each + i] = weight[(uint64_t)o * each + i] * scale;
    }
}

static void conv2d_pack(const bs_conv_geometry *g, const bs_node_plan *plan, const float *weight,
                        const float *const *norm, uint64_t behind, void *prepared)
{
    if (plan->algorithm == BS_CONV_REFERENCE) {
        conv2d_fold_weights(weight, norm, g, prepared);
        return;
    }
    float *folded = (float *)(void *)((uint8_t *)prepared + behind);
    if (norm[0])
        conv2d_fold_weights(weight, norm, g, folded);
    bs_conv_prepare(g, (bs_conv_algorithm)plan->algorithm, plan->tier, norm[0] ? folded : weight, prepared);
}

static void conv2d_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                           const void *const *weights, void *prepared)
{
    const bs_conv2d_desc *desc = node->params;
    const bs_conv_geometry g = conv2d_form_at(graph, node).geometry;
    const bs_epilogue_layout layout = bs_epilogue_place(4 * conv2d_packed_floats(&g, plan), desc->out, desc->act);
    uint8_t *memory = prepared;
    int32_t next = 1;
    const float *bias = desc->no_bias ? NULL : weights[next++];
    const float *norm[4] = {NULL, NULL, NULL, NULL};
    for (int32_t i = 0; desc->batch_norm && i < 4; i++)
        norm[i] = weights[next++];
    conv2d_fold_bias(bias, norm, desc->out, (float *)(void *)(memory + layout.bias));
    if (desc->act == BS_PRELU)
        memcpy(memory + layout.slopes, weights[next], 4 * (size_t)desc->out);
    conv2d_pack(&g, plan, weights[0], norm, layout.bytes, prepared);
}

/* -------------------------------------------------------------------------------------------------- reference */

static bs_epilogue conv2d_epilogue(const bs_call *call, const bs_conv_geometry *g)
{
    const bs_conv2d_desc *desc = call->params;
    const bs_epilogue_layout layout = bs_epilogue_place(4 * conv2d_packed_floats(g, call->plan), desc->out, desc->act);
    const uint8_t *memory = call->prepared;
    const bs_epilogue epilogue = {(bs_act)desc->act, desc->act_param,
                                  (const float *)(const void *)(memory + layout.bias),
                                  desc->act == BS_PRELU ? (const float *)(const void *)(memory + layout.slopes) : NULL};
    return epilogue;
}

/* Sum of one output element over ky, kx, ci in this order. x: first sample of its window, first channel of its
 * group. */
static float conv2d_sum(const bs_conv_geometry *g, const bs_operand *in, const float *x, const float *weight)
{
    const int32_t channels = g->in_channels / g->groups, taps = g->kernel_h * g->kernel_w;
    float sum = 0.0f;
    for (int32_t ky = 0; ky < g->kernel_h; ky++)
        for (int32_t kx = 0; kx < g->kernel_w; kx++) {
            const float *tap = x + ky * g->dilation_h * in->stride[1] + kx * g->dilation_w * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                sum += tap[c * in->stride[0]] * weight[c * taps + ky * g->kernel_w + kx];
        }
    return sum;
}

static void conv2d_reference(const bs_call *call, const conv2d_form *form, const bs_epilogue *epilogue, int32_t row)
{
    const bs_conv_geometry *g = &form->geometry;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t in_group = g->in_channels / g->groups, out_group = g->out_channels / g->groups;
    const ptrdiff_t each = (ptrdiff_t)in_group * g->kernel_h * g->kernel_w;
    const float *x = bs_f32_at(in, row * in->row_stride);
    float *y = bs_f32_at(out, row * out->row_stride);
    for (int32_t o = 0; o < g->out_channels; o++) {
        const float *group = x + (ptrdiff_t)(o / out_group) * in_group * in->stride[0];
        const float *weight = (const float *)call->prepared + o * each;
        for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++)
            for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++) {
                const float *window = group + (oy * g->stride_h - form->window.pad_h) * in->stride[1] +
                                      (ox * g->stride_w - form->window.pad_w) * in->stride[2];
                y[o * out->stride[0] + oy * out->stride[1] + ox * out->stride[2]] =
                    bs_epilogue_apply(epilogue, o, conv2d_sum(g, in, window, weight));
            }
    }
}

/* ------------------------------------------------------------------------------------------------------- fast */

static void conv2d_fast(const bs_call *call, const conv2d_form *form, const bs_epilogue *epilogue, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const bs_rect r = out->rect;
    const int32_t stride = form->window.stride;
    bs_conv_task task;
    memset(&task, 0, sizeof task);
    task.in = bs_f32_at(in, row * in->row_stride + (r.y0 * stride - form->window.pad_h) * in->stride[1] +
                                (r.x0 * stride - form->window.pad_w) * in->stride[2]);
    task.in_row = in->stride[1];
    task.in_pixel = (int32_t)in->stride[2];
    task.out = bs_f32_at(out, row * out->row_stride + r.y0 * out->stride[1] + r.x0 * out->stride[2]);
    task.out_row = out->stride[1];
    task.out_pixel = (int32_t)out->stride[2];
    task.out_h = r.y1 - r.y0;
    task.out_w = r.x1 - r.x0;
    task.weights = call->prepared;
    task.scratch = call->scratch;
    bs_epilogue_fuse(epilogue, &task);
    bs_conv_run(&form->geometry, (bs_conv_algorithm)call->plan->algorithm, call->plan->tier, &task);
}

static bs_status conv2d_run(const bs_call *call)
{
    const conv2d_form form = conv2d_form_at(call->graph, call->node);
    const bs_epilogue epilogue = conv2d_epilogue(call, &form.geometry);
    const bs_rect r = call->out[0].rect;
    if (r.y1 <= r.y0 || r.x1 <= r.x0)
        return BS_OK;
    const bool reference = call->plan->algorithm == BS_CONV_REFERENCE;
    if (!reference && !(bs_channels_last(&call->in[0]) && bs_channels_last(&call->out[0])))
        return BS_ERROR_UNSUPPORTED; /* the planner keeps f32 images channels last */
    for (int32_t row = 0; row < call->rows; row++) {
        if (reference)
            conv2d_reference(call, &form, &epilogue, row);
        else
            conv2d_fast(call, &form, &epilogue, row);
    }
    bs_conv_task probe;
    if (!reference && !bs_epilogue_fuse(&epilogue, &probe))
        bs_epilogue_pass(&epilogue, &call->out[0], call->rows);
    return BS_OK;
}

const bs_op bs_op_conv2d = {.name = "conv2d",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = BS_OP_SPATIAL | BS_OP_CHANNELS_LAST,
                            .params_bytes = sizeof(bs_conv2d_desc),
                            BS_FIELDS(conv2d_fields),
                            .infer = conv2d_infer,
                            .halo = conv2d_halo,
                            .flops = conv2d_flops,
                            .weights = conv2d_weights,
                            .plan = conv2d_plan,
                            .prepare = conv2d_prepare,
                            .run = conv2d_run};

bs_value bs_conv2d(bs_graph *graph, bs_value x, const bs_conv2d_desc *desc)
{
    return bs_op_build(graph, &bs_op_conv2d, &x.id, 1, desc);
}
/* ==== end src/ops/conv2d.c ==================================================================== */

/* ==== begin src/ops/convert.c ================================================================= */
/* ops/convert.c - between element types, with a scale.
 * Relies on span.h, the storage conversions of dtype.c and kernels/elementwise.h. Must never let codes depend on the
 * tier. Integers to integers at scale 1 stay integers, so that large i32 are exact. */
/* #include "kernels/elementwise.h" */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

static const bs_field convert_fields[] = {{"dtype", 'i'}, {"scale", 'f'}, {"code_bits", 'i'}};

static bool convert_infer(bs_infer *infer)
{
    const bs_convert_desc *desc = infer->params;
    if (!bs_infer_field(infer, "dtype", desc->dtype, 0, (int64_t)BS_DTYPE_COUNT - 1) ||
        !bs_infer_field(infer, "code_bits", desc->code_bits, 0, 16))
        return false;
    infer->out[0].dtype = (bs_dtype)desc->dtype;
    return true;
}

typedef struct convert_job {
    bs_dtype from, to;
    bs_tier tier;
    float scale;
    int64_t low, high; /* of the codes */
} convert_job;

static bool convert_is_integer(bs_dtype dtype)
{
    return dtype == BS_U8 || dtype == BS_I8 || dtype == BS_I32 || dtype == BS_U16;
}

static void convert_range(convert_job *job, int32_t code_bits)
{
    job->low = job->to == BS_I8 ? -128 : job->to == BS_I32 ? INT32_MIN : 0;
    job->high = job->to == BS_I8 ? 127 : job->to == BS_U8 ? 255 : job->to == BS_I32 ? INT32_MAX : 0;
    if (job->to == BS_U16)
        job->high = ((int64_t)1 << bs_or_default(code_bits, 16)) - 1;
}

static void convert_store_code(void *at, bs_dtype to, int64_t code)
{
    switch (to) {
    case BS_U8:
        *(uint8_t *)at = (uint8_t)code;
        break;
    case BS_I8:
        *(int8_t *)at = (int8_t)code;
        break;
    case BS_I32:
        *(int32_t *)at = (int32_t)code;
        break;
    case BS_U16:
        *(uint16_t *)at = (uint16_t)code;
        break;
    case BS_F32:
    case BS_F16:
    case BS_BF16:
    case BS_DTYPE_COUNT:
        break;
    }
}

/* Saturates before rounding: the bounds are compared as floats, and 2^31 - 1 is not one. NaN gives 0 (or low). */
static int64_t convert_code(const convert_job *job, float x)
{
    if (!(x > (float)job->low))
        return x == x ? job->low : 0;
    return x >= (float)job->high ? job->high : (int64_t)rintf(x);
}

static void convert_store(const convert_job *job, void *at, float x)
{
    if (job->to == BS_F32)
        *(float *)at = x;
    else if (job->to == BS_F16)
        *(uint16_t *)at = bs_f32_to_f16(x);
    else if (job->to == BS_BF16)
        *(uint16_t *)at = bs_f32_to_bf16(x);
    else
        convert_store_code(at, job->to, convert_code(job, x));
}

static int64_t convert_load_code(const void *at, bs_dtype from)
{
    return from == BS_I32 ? *(const int32_t *)at : (int64_t)bs_load_f32(at, from, 0);
}

/* ------------------------------------------------------------------------------------------------ inner loops */

static void convert_codes(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    for (int64_t i = 0; i < n; i++) {
        const int64_t code = convert_load_code(at[1] + i * step[1], job->from);
        convert_store_code(at[0] + i * step[0], job->to,
                           code < job->low    ? job->low
                           : code > job->high ? job->high
                                              : code);
    }
}

static void convert_any(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    for (int64_t i = 0; i < n; i++)
        convert_store(job, at[0] + i * step[0], bs_load_f32(at[1] + i * step[1], job->from, 0) * job->scale);
}

/* Frames of codes to f32 and back, where a line is contiguous. */
static bool convert_line(const convert_job *job, int32_t n, void *out, const void *in)
{
    if (job->from == BS_U8 && job->to == BS_F32)
        bs_row_u8_to_f32(job->tier, in, out, n, job->scale);
    else if (job->from == BS_U16 && job->to == BS_F32)
        bs_row_u16_to_f32(job->tier, in, out, n, job->scale);
    else if (job->from == BS_F32 && job->to == BS_U8)
        bs_row_f32_to_u8(job->tier, in, out, n, job->scale);
    else if (job->from == BS_F32 && job->to == BS_U16)
        bs_row_f32_to_u16(job->tier, in, out, n, job->scale, (uint16_t)job->high);
    else
        return false;
    return true;
}

static void convert_fast(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    const bool dense = step[0] == (ptrdiff_t)bs_dtype_bytes(job->to) && step[1] == (ptrdiff_t)bs_dtype_bytes(job->from);
    if (!dense || n > INT32_MAX || !convert_line(job, (int32_t)n, at[0], at[1]))
        convert_any(context, n, at, step);
}

static bs_status convert_run(const bs_call *call)
{
    const bs_convert_desc *desc = call->params;
    convert_job job = {
        call->in[0].dtype, call->out[0].dtype, call->plan->tier, desc->scale == 0.0f ? 1.0f : desc->scale, 0, 0};
    convert_range(&job, desc->code_bits);
    const bool codes = convert_is_integer(job.from) && convert_is_integer(job.to) && desc->scale == 0.0f;
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_run(&span, codes ? convert_codes : job.tier == BS_TIER_SCALAR ? convert_any : convert_fast, &job);
    return BS_OK;
}

const bs_op bs_op_convert = {.name = "convert",
                             .min_in = 1,
                             .max_in = 1,
                             .flags = BS_OP_SPATIAL,
                             .params_bytes = sizeof(bs_convert_desc),
                             BS_FIELDS(convert_fields),
                             .infer = convert_infer,
                             .run = convert_run};

bs_value bs_convert(bs_graph *graph, bs_value x, const bs_convert_desc *desc)
{
    return bs_op_build(graph, &bs_op_convert, &x.id, 1, desc);
}
/* ==== end src/ops/convert.c =================================================================== */

/* ==== begin src/ops/deconv2d.c ================================================================ */
/* ops/deconv2d.c - transposed convolution: the plain reference, and the fast way as stride x stride convolutions.
 * Relies on kernels/conv.h. Must never clip: storage is zero outside an operand's rect, as for conv2d.
 *
 * Output y takes input i through tap ky where i stride - pad + ky = y. With a = (y + pad) mod stride the taps are
 * ky = a, a + stride, ... and i = (y + pad - a) / stride - t for the t-th: outputs of one phase a are an ordinary
 * convolution with the taps of that phase in reverse. */
/* #include "ops/epilogue.h" */

static const bs_field deconv2d_fields[] = {
    {"out", 'i'},        {"kernel", 'i'},  {"stride", 'i'}, {"pad", 'i'},
    {"output_pad", 'i'}, {"no_bias", 'i'}, {"act", 'i'},    {"act_param", 'f'},
};

typedef struct deconv2d_form {
    int32_t in, out, kernel, stride, pad, output_pad;
} deconv2d_form;

static deconv2d_form deconv2d_form_of(const bs_deconv2d_desc *desc, int32_t channels)
{
    const deconv2d_form form = {
        channels,  desc->out,       bs_or_default(desc->kernel, 3), bs_or_default(desc->stride, 1),
        desc->pad, desc->output_pad};
    return form;
}

static deconv2d_form deconv2d_form_at(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return deconv2d_form_of(node->params, (int32_t)bs_dim_max(graph, x->dims[0]));
}

/* ------------------------------------------------------------------------------------------------- shape rule */

static bool deconv2d_fields_sound(bs_infer *infer, const bs_deconv2d_desc *desc)
{
    return bs_infer_field(infer, "out", desc->out, 1, 1 << 20) &&
           bs_infer_field(infer, "kernel", desc->kernel, 0, 255) &&
           bs_infer_field(infer, "stride", desc->stride, 0, 16) && bs_infer_field(infer, "pad", desc->pad, 0, 255) &&
           bs_infer_field(infer, "output_pad", desc->output_pad, 0, 15) && bs_infer_act(infer, desc->act);
}

/* Pixels by which the result exceeds stride x operand. */
static int32_t deconv2d_extra(const deconv2d_form *f) { return f->kernel - f->stride - 2 * f->pad + f->output_pad; }

static bool deconv2d_infer(bs_infer *infer)
{
    int32_t channels;
    if (!deconv2d_fields_sound(infer, infer->params) || !bs_infer_image(infer, 0, &channels))
        return false;
    const deconv2d_form f = deconv2d_form_of(infer->params, channels);
    const int32_t extra = deconv2d_extra(&f);
    if (f.output_pad >= f.stride && f.output_pad > 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "output_pad %d is not below stride %d", f.output_pad, f.stride);
    if (extra != 0 && bs_value_in_patches(infer->graph, infer->in[0]))
        return bs_infer_fail(
            infer, BS_ERROR_SHAPE,
            "dimensions 1 and 2: kernel - stride - 2 pad + output_pad is %d, in a patch domain it must be 0", extra);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, f.out);
    return bs_infer_extent(infer, 1, f.stride, extra, 1) && bs_infer_extent(infer, 2, f.stride, extra, 1) &&
           bs_infer_scale(infer, f.stride, 1);
}

/* From the relation above, for the last output (of stride x operand + extra) and its first tap; the first output
 * reaches no farther: floor((m - pad + kernel - 1) / stride). */
static int32_t deconv2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t m)
{
    const deconv2d_form f = deconv2d_form_at(graph, node);
    (void)index;
    return bs_max_i32(0, (int32_t)bs_floor_div(m - f.pad + f.kernel - 1 + f.output_pad, f.stride));
}

static double deconv2d_flops(const bs_graph *graph, const bs_node *node)
{
    const deconv2d_form f = deconv2d_form_at(graph, node);
    return 2.0 * f.kernel * f.kernel * f.out * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

/* ------------------------------------------------------------------------------------------- weights and phases */

static int32_t deconv2d_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_deconv2d_desc *desc = node->params;
    const deconv2d_form f = deconv2d_form_at(graph, node);
    int32_t n = 0;
    specs[n++] = bs_weight_of("weight", 4, f.in, f.out, f.kernel, f.kernel);
    if (!desc->no_bias)
        specs[n++] = bs_weight_of("bias", 1, f.out, 0, 0, 0);
    if (desc->act == BS_PRELU)
        specs[n++] = bs_weight_of("prelu", 1, f.out, 0, 0, 0);
    return n;
}

/* Taps of phase a along one axis; 0 where the kernel is smaller than the stride. */
static int32_t deconv2d_taps(const deconv2d_form *f, int32_t a) { return (f->kernel - a + f->stride - 1) / f->stride; }

static bs_conv_geometry deconv2d_geometry(const deconv2d_form *f, int32_t a, int32_t b)
{
    const bs_conv_geometry g = {f->in, f->out, deconv2d_taps(f, a), deconv2d_taps(f, b), 1, 1, 1, 1, 1};
    return g;
}

/* Floats of the packed phases before phase (a, b); a = stride: of all. */
static uint64_t deconv2d_packed(const deconv2d_form *f, bs_tier tier, int32_t a, int32_t b)
{
    uint64_t floats = 0;
    for (int32_t phase = 0; phase < a * f->stride + b; phase++) {
        const bs_conv_geometry g = deconv2d_geometry(f, phase / f->stride, phase % f->stride);
        if (g.kernel_h > 0 && g.kernel_w > 0)
            floats += (bs_conv_prepared_floats(&g, BS_CONV_DIRECT, tier) + 15) / 16 * 16; /* whole cache lines */
    }
    return floats;
}

static uint64_t deconv2d_plain_floats(const deconv2d_form *f)
{
    return (uint64_t)f->in * (uint64_t)f->out * (uint64_t)(f->kernel * f->kernel);
}

static bs_epilogue_layout deconv2d_layout(const deconv2d_form *f, const bs_node_plan *plan, int32_t act)
{
    const bool reference = plan->algorithm == BS_CONV_REFERENCE;
    return bs_epilogue_place(4 * (reference ? deconv2d_plain_floats(f) : deconv2d_packed(f, plan->tier, f->stride, 0)),
                             f->out, act);
}

/* Prepared: packed phases, bias, slopes, and room for one phase before it is packed. */
static void deconv2d_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                          int32_t max_w, bs_node_plan *plan)
{
    const bs_deconv2d_desc *desc = node->params;
    const deconv2d_form f = deconv2d_form_at(graph, node);
    const bs_conv_geometry largest = deconv2d_geometry(&f, 0, 0);
    (void)max_h, (void)max_w;
    const bool fast = choice != BS_CONV_FORCE_REFERENCE && bs_conv_supports(&largest, BS_CONV_DIRECT, plan->tier);
    plan->algorithm = fast ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
    plan->prepared_bytes = deconv2d_layout(&f, plan, desc->act).bytes;
    if (fast)
        plan->prepared_bytes +=
            bs_align_u64(4 * (uint64_t)f.in * (uint64_t)f.out * (uint64_t)(largest.kernel_h * largest.kernel_w));
}

/* [C, out, k, k] -> [out, C, taps, taps] of one phase, reversed. */
static void deconv2d_phase(const deconv2d_form *f, const bs_conv_geometry *g, int32_t a, int32_t b, const float *weight,
                           float *oihw)
{
    for (int32_t o = 0; o < f->out; o++)
        for (int32_t c = 0; c < f->in; c++)
            for (int32_t u = 0; u < g->kernel_h; u++)
                for (int32_t v = 0; v < g->kernel_w; v++) {
                    const int32_t ky = a + f->stride * (g->kernel_h - 1 - u),
                                  kx = b + f->stride * (g->kernel_w - 1 - v);
                    *oihw++ = weight[(((ptrdiff_t)c * f->out + o) * f->kernel + ky) * f->kernel + kx];
                }
}

static void deconv2d_pack(const deconv2d_form *f, bs_tier tier, const float *weight, float *room, float *packed)
{
    for (int32_t phase = 0; phase < f->stride * f->stride; phase++) {
        const int32_t a = phase / f->stride, b = phase % f->stride;
        const bs_conv_geometry g = deconv2d_geometry(f, a, b);
        if (g.kernel_h <= 0 || g.kernel_w <= 0)
            continue;
        deconv2d_phase(f, &g, a, b, weight, room);
        bs_conv_prepare(&g, BS_CONV_DIRECT, tier, room, packed + deconv2d_packed(f, tier, a, b));
    }
}

static void deconv2d_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                             const void *const *weights, void *prepared)
{
    const bs_deconv2d_desc *desc = node->params;
    const deconv2d_form f = deconv2d_form_at(graph, node);
    const bs_epilogue_layout layout = deconv2d_layout(&f, plan, desc->act);
    uint8_t *memory = prepared;
    if (plan->algorithm == BS_CONV_REFERENCE)
        memcpy(memory, weights[0], 4 * (size_t)deconv2d_plain_floats(&f));
    else
        deconv2d_pack(&f, plan->tier, weights[0], (float *)(void *)(memory + layout.bytes), prepared);
    memset(memory + layout.bias, 0, 4 * (size_t)f.out);
    if (!desc->no_bias)
        memcpy(memory + layout.bias, weights[1], 4 * (size_t)f.out);
    if (desc->act == BS_PRELU)
        memcpy(memory + layout.slopes, weights[desc->no_bias ? 1 : 2], 4 * (size_t)f.out);
}

/* -------------------------------------------------------------------------------------------------- reference */

static bs_epilogue deconv2d_epilogue(const bs_call *call, const deconv2d_form *f)
{
    const bs_deconv2d_desc *desc = call->params;
    const bs_epilogue_layout layout = deconv2d_layout(f, call->plan, desc->act);
    const uint8_t *memory = call->prepared;
    const bs_epilogue epilogue = {(bs_act)desc->act, desc->act_param,
                                  (const float *)(const void *)(memory + layout.bias),
                                  desc->act == BS_PRELU ? (const float *)(const void *)(memory + layout.slopes) : NULL};
    return epilogue;
}

static int32_t deconv2d_first_tap(const deconv2d_form *f, int32_t y)
{
    return (int32_t)(y + f->pad - bs_floor_div(y + f->pad, f->stride) * f->stride);
}

static float deconv2d_sum(const deconv2d_form *f, const bs_operand *in, const float *x, const float *weight, int32_t o,
                          int32_t y0, int32_t x0)
{
    float sum = 0.0f;
    for (int32_t ky = deconv2d_first_tap(f, y0); ky < f->kernel; ky += f->stride)
        for (int32_t kx = deconv2d_first_tap(f, x0); kx < f->kernel; kx += f->stride) {
            const float *tap =
                x + (y0 + f->pad - ky) / f->stride * in->stride[1] + (x0 + f->pad - kx) / f->stride * in->stride[2];
            for (int32_t c = 0; c < f->in; c++)
                sum += tap[c * in->stride[0]] * weight[(((ptrdiff_t)c * f->out + o) * f->kernel + ky) * f->kernel + kx];
        }
    return sum;
}

static void deconv2d_reference(const bs_call *call, const deconv2d_form *f, const bs_epilogue *epilogue, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const float *x = bs_f32_at(in, row * in->row_stride);
    float *y = bs_f32_at(out, row * out->row_stride);
    for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++)
        for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++)
            for (int32_t o = 0; o < f->out; o++)
                y[o * out->stride[0] + oy * out->stride[1] + ox * out->stride[2]] =
                    bs_epilogue_apply(epilogue, o, deconv2d_sum(f, in, x, call->prepared, o, oy, ox));
}

/* ------------------------------------------------------------------------------------------------------- fast */

/* First coordinate >= low of phase a. */
static int32_t deconv2d_start(const deconv2d_form *f, int32_t low, int32_t a)
{
    const int32_t behind = a - deconv2d_first_tap(f, low);
    return low + (behind < 0 ? behind + f->stride : behind);
}

static bs_conv_task deconv2d_task(const bs_call *call, const deconv2d_form *f, const bs_conv_geometry *g, int32_t a,
                                  int32_t b, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t y = deconv2d_start(f, out->rect.y0, a), x = deconv2d_start(f, out->rect.x0, b), s = f->stride;
    bs_conv_task task;
    memset(&task, 0, sizeof task);
    task.in = bs_f32_at(in, row * in->row_stride + ((y + f->pad - a) / s - (g->kernel_h - 1)) * in->stride[1] +
                                ((x + f->pad - b) / s - (g->kernel_w - 1)) * in->stride[2]);
    task.in_row = in->stride[1];
    task.in_pixel = (int32_t)in->stride[2];
    task.out = bs_f32_at(out, row * out->row_stride + y * out->stride[1] + x * out->stride[2]);
    task.out_row = out->stride[1] * s;
    task.out_pixel = (int32_t)out->stride[2] * s;
    task.out_h = y < out->rect.y1 ? (out->rect.y1 - y + s - 1) / s : 0;
    task.out_w = x < out->rect.x1 ? (out->rect.x1 - x + s - 1) / s : 0;
    task.weights = (const float *)call->prepared + deconv2d_packed(f, call->plan->tier, a, b);
    return task;
}

/* A phase without taps: the bias alone, with its activation where that is fused. */
static void deconv2d_fill(const bs_epilogue *epilogue, const bs_conv_task *task, int32_t channels, bool fused)
{
    for (int32_t y = 0; y < task->out_h; y++)
        for (int32_t x = 0; x < task->out_w; x++)
            for (int32_t o = 0; o < channels; o++)
                task->out[y * task->out_row + x * (ptrdiff_t)task->out_pixel + o] =
                    fused ? bs_epilogue_apply(epilogue, o, 0.0f) : epilogue->bias[o];
}

static void deconv2d_fast(const bs_call *call, const deconv2d_form *f, const bs_epilogue *epilogue, int32_t row)
{
    for (int32_t phase = 0; phase < f->stride * f->stride; phase++) {
        const int32_t a = phase / f->stride, b = phase % f->stride;
        const bs_conv_geometry g = deconv2d_geometry(f, a, b);
        bs_conv_task task = deconv2d_task(call, f, &g, a, b, row);
        const bool fused = bs_epilogue_fuse(epilogue, &task);
        if (g.kernel_h > 0 && g.kernel_w > 0)
            bs_conv_run(&g, BS_CONV_DIRECT, call->plan->tier, &task);
        else
            deconv2d_fill(epilogue, &task, f->out, fused);
    }
}

static bs_status deconv2d_run(const bs_call *call)
{
    const deconv2d_form f = deconv2d_form_at(call->graph, call->node);
    const bs_epilogue epilogue = deconv2d_epilogue(call, &f);
    const bs_rect r = call->out[0].rect;
    const bool reference = call->plan->algorithm == BS_CONV_REFERENCE;
    if (r.y1 <= r.y0 || r.x1 <= r.x0)
        return BS_OK;
    if (!reference && !(bs_channels_last(&call->in[0]) && bs_channels_last(&call->out[0])))
        return BS_ERROR_UNSUPPORTED; /* the planner keeps f32 images channels last */
    for (int32_t row = 0; row < call->rows; row++) {
        if (reference)
            deconv2d_reference(call, &f, &epilogue, row);
        else
            deconv2d_fast(call, &f, &epilogue, row);
    }
    bs_conv_task probe;
    if (!reference && !bs_epilogue_fuse(&epilogue, &probe))
        bs_epilogue_pass(&epilogue, &call->out[0], call->rows);
    return BS_OK;
}

const bs_op bs_op_deconv2d = {.name = "deconv2d",
                              .min_in = 1,
                              .max_in = 1,
                              .flags = BS_OP_SPATIAL | BS_OP_CHANNELS_LAST,
                              .params_bytes = sizeof(bs_deconv2d_desc),
                              BS_FIELDS(deconv2d_fields),
                              .infer = deconv2d_infer,
                              .halo = deconv2d_halo,
                              .flops = deconv2d_flops,
                              .weights = deconv2d_weights,
                              .plan = deconv2d_plan,
                              .prepare = deconv2d_prepare,
                              .run = deconv2d_run};

bs_value bs_deconv2d(bs_graph *graph, bs_value x, const bs_deconv2d_desc *desc)
{
    return bs_op_build(graph, &bs_op_deconv2d, &x.id, 1, desc);
}
/* ==== end src/ops/deconv2d.c ================================================================== */

/* ==== begin src/ops/elementwise.c ============================================================= */
/* ops/elementwise.c - activation, prelu, clip, affine, batch_norm.
 * Relies on span.h for the walk. Must never look at neighbours: an element of the result depends on the elements at
 * its own place only, so all of these are exact in patch domains. One code for every tier: results are the same. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

typedef struct bs_activation_desc {
    const char *name;
    int32_t act;
    float param;
} bs_activation_desc;
typedef struct bs_prelu_desc {
    const char *name;
} bs_prelu_desc;
typedef struct bs_clip_desc {
    const char *name;
    float low, high;
} bs_clip_desc;
typedef struct bs_affine_desc {
    const char *name;
    float scale, offset;
} bs_affine_desc;

static const bs_field activation_fields[] = {{"act", 'i'}, {"param", 'f'}};
static const bs_field clip_fields[] = {{"low", 'f'}, {"high", 'f'}};
static const bs_field affine_fields[] = {{"scale", 'f'}, {"offset", 'f'}};
static const bs_field batch_norm_fields[] = {{"epsilon", 'f'}};

/* ----------------------------------------------------------------------------------- activation, clip, affine */

static bool unary_infer(bs_infer *infer) { return bs_infer_dtype(infer, 0, BS_F32); }

static bs_status unary_run(const bs_call *call, bs_span_inner inner)
{
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_run(&span, inner, call->params);
    return BS_OK;
}

static bool activation_infer(bs_infer *infer)
{
    const bs_activation_desc *desc = infer->params;
    if (desc->act == BS_PRELU)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "PReLU has weights; use bs_prelu");
    return bs_infer_act(infer, desc->act) && unary_infer(infer);
}

static void relu_contiguous(int64_t n, float *out, const float *x)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

static void activation_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_activation_desc *desc = context;
    if (desc->act == BS_RELU && bs_span_dense_f32(step, 2)) {
        relu_contiguous(n, (float *)(void *)at[0], (const float *)(const void *)at[1]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) =
            bs_act_apply((bs_act)desc->act, desc->param, 0.0f, *(const float *)(const void *)(at[1] + i * step[1]));
}

static bs_status activation_run(const bs_call *call) { return unary_run(call, activation_inner); }

const bs_op bs_op_activation = {.name = "activation",
                                .min_in = 1,
                                .max_in = 1,
                                .flags = BS_OP_SPATIAL,
                                .params_bytes = sizeof(bs_activation_desc),
                                BS_FIELDS(activation_fields),
                                .infer = activation_infer,
                                .run = activation_run};

bs_value bs_activation(bs_graph *graph, bs_value x, bs_act act, float param)
{
    const bs_activation_desc desc = {NULL, (int32_t)act, param};
    return bs_op_build(graph, &bs_op_activation, &x.id, 1, &desc);
}

static bool clip_infer(bs_infer *infer)
{
    const bs_clip_desc *desc = infer->params;
    if (!(desc->low <= desc->high))
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "low %g is not <= high %g", (double)desc->low,
                             (double)desc->high);
    return unary_infer(infer);
}

/* min and max written so that compilers see them */
static float clip_one(float x, float low, float high)
{
    const float above = x < low ? low : x;
    return above > high ? high : above;
}

static void clip_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_clip_desc *desc = context;
    const float low = desc->low, high = desc->high;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (bs_span_dense_f32(step, 2))
        for (int64_t i = 0; i < n; i++)
            out[i] = clip_one(x[i], low, high);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * (step[0] / 4)] = clip_one(x[i * (step[1] / 4)], low, high);
}

static bs_status clip_run(const bs_call *call) { return unary_run(call, clip_inner); }

const bs_op bs_op_clip = {.name = "clip",
                          .min_in = 1,
                          .max_in = 1,
                          .flags = BS_OP_SPATIAL,
                          .params_bytes = sizeof(bs_clip_desc),
                          BS_FIELDS(clip_fields),
                          .infer = clip_infer,
                          .run = clip_run};

bs_value bs_clip(bs_graph *graph, bs_value x, float low, float high)
{
    const bs_clip_desc desc = {NULL, low, high};
    return bs_op_build(graph, &bs_op_clip, &x.id, 1, &desc);
}

static void affine_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_affine_desc *desc = context;
    const float scale = desc->scale, offset = desc->offset;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (bs_span_dense_f32(step, 2))
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] * scale + offset;
    else
        for (int64_t i = 0; i < n; i++)
            out[i * (step[0] / 4)] = x[i * (step[1] / 4)] * scale + offset;
}

static bs_status affine_run(const bs_call *call) { return unary_run(call, affine_inner); }

const bs_op bs_op_affine = {.name = "affine",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = BS_OP_SPATIAL,
                            .params_bytes = sizeof(bs_affine_desc),
                            BS_FIELDS(affine_fields),
                            .infer = unary_infer,
                            .run = affine_run};

bs_value bs_affine(bs_graph *graph, bs_value x, float scale, float offset)
{
    const bs_affine_desc desc = {NULL, scale, offset};
    return bs_op_build(graph, &bs_op_affine, &x.id, 1, &desc);
}

/* ------------------------------------------------------------------------------------------ prelu, batch_norm */

static int32_t first_dim(const bs_graph *graph, const bs_node *node)
{
    return (int32_t)bs_dim_max(graph, bs_value_get(graph, bs_node_in(graph, node)[0])->dims[0]);
}

static bool channel_infer(bs_infer *infer)
{
    int32_t channels;
    return bs_infer_dtype(infer, 0, BS_F32) && bs_infer_rank(infer, 0, 1, BS_MAX_RANK) &&
           bs_infer_const(infer, 0, 0, "channels", &channels);
}

static int32_t prelu_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    specs[0] = bs_weight_of("prelu", 1, first_dim(graph, node), 0, 0, 0);
    return 1;
}

static void prelu_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1], *slope = (const float *)(const void *)at[2];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4, p = step[2] / 4;
    if (bs_span_dense_f32(step, 3)) /* channels last: a pixel */
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] > 0.0f ? x[i] : x[i] * slope[i];
    else
        for (int64_t i = 0; i < n; i++)
            out[i * o] = x[i * s] > 0.0f ? x[i * s] : x[i * s] * slope[i * p];
}

static bs_status prelu_run(const bs_call *call)
{
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_add_array(&span, call->prepared, 0);
    bs_span_run(&span, prelu_inner, NULL);
    return BS_OK;
}

const bs_op bs_op_prelu = {.name = "prelu",
                           .min_in = 1,
                           .max_in = 1,
                           .flags = BS_OP_SPATIAL,
                           .params_bytes = sizeof(bs_prelu_desc),
                           .infer = channel_infer,
                           .weights = prelu_weights,
                           .run = prelu_run};

bs_value bs_prelu(bs_graph *graph, bs_value x, const char *name)
{
    const bs_prelu_desc desc = {name};
    return bs_op_build(graph, &bs_op_prelu, &x.id, 1, &desc);
}

static int32_t batch_norm_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    static const char *const suffixes[] = {"weight", "bias", "mean", "var"};
    for (int32_t i = 0; i < 4; i++)
        specs[i] = bs_weight_of(suffixes[i], 1, first_dim(graph, node), 0, 0, 0);
    return 4;
}

/* Prepared: scale [C], offset [C]. */
static void batch_norm_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                            int32_t max_w, bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    plan->prepared_bytes = 2 * bs_align_u64(4 * (uint64_t)first_dim(graph, node));
}

static void batch_norm_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                               const void *const *weights, void *prepared)
{
    const bs_norm_desc *desc = node->params;
    const float *weight = weights[0], *bias = weights[1], *mean = weights[2], *variance = weights[3];
    const float epsilon = desc->epsilon == 0.0f ? 1e-5f : desc->epsilon;
    const int32_t channels = first_dim(graph, node);
    float *scale = prepared, *offset = scale + plan->prepared_bytes / 8;
    for (int32_t c = 0; c < channels; c++) {
        scale[c] = weight[c] / sqrtf(variance[c] + epsilon);
        offset[c] = bias[c] - mean[c] * scale[c];
    }
}

static void batch_norm_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    const float *scale = (const float *)(const void *)at[2], *offset = (const float *)(const void *)at[3];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4, p = step[2] / 4;
    for (int64_t i = 0; i < n; i++)
        out[i * o] = x[i * s] * scale[i * p] + offset[i * p];
}

static bs_status batch_norm_run(const bs_call *call)
{
    const float *scale = call->prepared;
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_add_array(&span, scale, 0);
    bs_span_add_array(&span, scale + call->plan->prepared_bytes / 8, 0);
    bs_span_run(&span, batch_norm_inner, NULL);
    return BS_OK;
}

const bs_op bs_op_batch_norm = {.name = "batch_norm",
                                .min_in = 1,
                                .max_in = 1,
                                .flags = BS_OP_SPATIAL,
                                .params_bytes = sizeof(bs_norm_desc),
                                BS_FIELDS(batch_norm_fields),
                                .infer = channel_infer,
                                .weights = batch_norm_weights,
                                .plan = batch_norm_plan,
                                .prepare = batch_norm_prepare,
                                .run = batch_norm_run};

bs_value bs_batch_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc)
{
    return bs_op_build(graph, &bs_op_batch_norm, &x.id, 1, desc);
}
/* ==== end src/ops/elementwise.c =============================================================== */

/* ==== begin src/ops/gather_rows.c ============================================================= */
/* ops/gather_rows.c - rows of a table by index, and constants from the weights.
 * Relies on span.h. Must never trust an index. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

/* Operand 0 is the indices: operands after the first may be root values, and the table usually is. */
static bool gather_rows_infer(bs_infer *infer)
{
    const bs_value_info *indices = infer->in[0], *table = infer->in[1];
    if (!bs_infer_dtype(infer, 0, BS_I32) || !bs_infer_rank(infer, 0, 1, 1) ||
        !bs_infer_rank(infer, 1, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 1))
        return false;
    infer->out[0].dtype = table->dtype;
    infer->out[0].rank = table->rank;
    infer->out[0].dims[0] = indices->dims[0];
    for (int32_t d = 1; d < table->rank; d++)
        infer->out[0].dims[d] = table->dims[d];
    return bs_infer_no_new_image(infer);
}

/* One row of the result; false when its index is out of range. */
static bool gather_rows_one(const bs_call *call, int32_t row, int32_t m, size_t bytes)
{
    const bs_operand *indices = &call->in[0], *table = &call->in[1], *out = &call->out[0];
    const int32_t index = ((const int32_t *)indices->data)[row * indices->row_stride + m * indices->stride[0]];
    if (index < 0 || index >= table->dim[0])
        return false;
    bs_operand from = *table, to = *out;
    from.data = (char *)table->data + (row * table->row_stride + index * table->stride[0]) * (ptrdiff_t)bytes;
    to.data = (char *)out->data + (row * out->row_stride + m * out->stride[0]) * (ptrdiff_t)bytes;
    bs_span span;
    bs_span_box(&span, &to, 1);
    span.low[1] = 0;
    span.count[1] = 1;
    bs_span_add(&span, &to, NULL, 0);
    bs_span_add(&span, &from, NULL, 0);
    bs_span_run(&span, bs_span_copy, &bytes);
    return true;
}

static bs_status gather_rows_run(const bs_call *call)
{
    const size_t bytes = bs_dtype_bytes(call->out[0].dtype);
    for (int32_t row = 0; row < call->rows; row++)
        for (int32_t m = 0; m < call->in[0].dim[0]; m++)
            if (!gather_rows_one(call, row, m, bytes))
                return BS_ERROR_DATA;
    return BS_OK;
}

const bs_op bs_op_gather_rows = {.name = "gather_rows",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .flags = BS_OP_CAPTURE,
                                 .infer = gather_rows_infer,
                                 .run = gather_rows_run};

bs_value bs_gather_rows(bs_graph *graph, bs_value table, bs_value indices)
{
    const int32_t in[2] = {indices.id, table.id};
    return bs_op_build(graph, &bs_op_gather_rows, in, 2, NULL);
}

/* ---------------------------------------------------------------------------------------------------- constant */

typedef struct bs_constant_desc {
    const char *name;
    int32_t dtype, rank, dim[BS_MAX_RANK];
} bs_constant_desc;

static const bs_field constant_fields[] = {{"dtype", 'i'}, {"rank", 'i'}, {"dim0", 'i'},
                                           {"dim1", 'i'},  {"dim2", 'i'}, {"dim3", 'i'}};

static bool constant_infer(bs_infer *infer)
{
    const bs_constant_desc *desc = infer->params;
    if (desc->dtype != BS_F32 && desc->dtype != BS_I32)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "dtype is %s, expected f32 or i32",
                             bs_dtype_name((bs_dtype)desc->dtype));
    if (!bs_infer_field(infer, "rank", desc->rank, 0, BS_MAX_RANK))
        return false;
    infer->out[0].dtype = (bs_dtype)desc->dtype;
    infer->out[0].rank = desc->rank;
    for (int32_t d = 0; d < desc->rank; d++) {
        if (desc->dim[d] < 1)
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is not a constant", d);
        infer->out[0].dims[d] = bs_dim_const(infer->graph, desc->dim[d]);
    }
    return true;
}

/* The tensor's name is the node's: no suffix. */
static int32_t constant_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_constant_desc *desc = node->params;
    (void)graph;
    specs[0] = bs_weight_of("", desc->rank, desc->dim[0], desc->dim[1], desc->dim[2], desc->dim[3]);
    specs[0].dtype = (bs_dtype)desc->dtype;
    return 1;
}

static bs_status constant_run(const bs_call *call)
{
    const size_t bytes = bs_dtype_bytes(call->out[0].dtype);
    bs_operand from = call->out[0];
    from.data = (char *)(uintptr_t)call->prepared;
    from.row_stride = 0;
    ptrdiff_t step = 1;
    for (int32_t d = from.rank - 1; d >= 0; d--) {
        from.stride[d] = step;
        step *= from.dim[d];
    }
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_span_add(&span, &from, NULL, 0);
    bs_span_run(&span, bs_span_copy, &bytes);
    return BS_OK;
}

const bs_op bs_op_constant = {.name = "constant",
                              .min_in = 0,
                              .max_in = 0,
                              .flags = BS_OP_SPATIAL,
                              .params_bytes = sizeof(bs_constant_desc),
                              BS_FIELDS(constant_fields),
                              .infer = constant_infer,
                              .weights = constant_weights,
                              .run = constant_run};

bs_value bs_constant(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    bs_constant_desc desc = {name, (int32_t)dtype, shape.rank, {0}};
    for (int32_t d = 0; d < shape.rank && d < BS_MAX_RANK; d++)
        desc.dim[d] = shape.dim[d] > 0 && shape.dim[d] <= INT32_MAX ? (int32_t)shape.dim[d] : 0;
    return bs_op_build(graph, &bs_op_constant, NULL, 0, &desc);
}
/* ==== end src/ops/gather_rows.c =============================================================== */

/* ==== begin src/ops/linear.c ================================================================== */
/* ops/linear.c - x W^T + b on the last dimension.
 * Relies on kernels/conv.h: rows are the pixels of a 1x1 convolution, whose arithmetic does not depend on how many
 * there are or where they stand. Must never let rows influence each other. */
/* #include "ops/epilogue.h" */

static const bs_field linear_fields[] = {{"out", 'i'}, {"no_bias", 'i'}, {"act", 'i'}, {"act_param", 'f'}};

static bool linear_infer(bs_infer *infer)
{
    const bs_linear_desc *desc = infer->params;
    const int32_t last = infer->in[0]->rank - 1;
    int32_t inputs;
    if (!bs_infer_field(infer, "out", desc->out, 1, 1 << 24) || !bs_infer_act(infer, desc->act) ||
        !bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_rank(infer, 0, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 0) ||
        !bs_infer_const(infer, 0, last, "features", &inputs))
        return false;
    infer->out[0].dims[last] = bs_dim_const(infer->graph, desc->out);
    return true;
}

static int32_t linear_inputs(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return (int32_t)bs_dim_max(graph, x->dims[x->rank - 1]);
}

static double linear_flops(const bs_graph *graph, const bs_node *node)
{
    return 2.0 * linear_inputs(graph, node) * bs_value_work(graph, node->first_out);
}

/* ---------------------------------------------------------------------------------------------------- weights */

static int32_t linear_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_linear_desc *desc = node->params;
    int32_t n = 0;
    specs[n++] = bs_weight_of("weight", 2, desc->out, linear_inputs(graph, node), 0, 0);
    if (!desc->no_bias)
        specs[n++] = bs_weight_of("bias", 1, desc->out, 0, 0, 0);
    if (desc->act == BS_PRELU)
        specs[n++] = bs_weight_of("prelu", 1, desc->out, 0, 0, 0);
    return n;
}

static bs_conv_geometry linear_geometry(int32_t inputs, int32_t outputs)
{
    const bs_conv_geometry g = {inputs, outputs, 1, 1, 1, 1, 1, 1, 1};
    return g;
}

static bs_epilogue_layout linear_layout(const bs_linear_desc *desc, const bs_node_plan *plan, int32_t inputs)
{
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    const uint64_t plain = bs_mul_u64((uint64_t)inputs, (uint64_t)desc->out);
    const uint64_t floats =
        plan->algorithm == BS_CONV_REFERENCE ? plain : bs_conv_prepared_floats(&g, BS_CONV_DIRECT, plan->tier);
    return bs_epilogue_place(4 * floats, desc->out, desc->act);
}

/* Scratch: one line in and one line out, for operands whose last dimension is not contiguous. */
static void linear_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    const bs_linear_desc *desc = node->params;
    const int32_t inputs = linear_inputs(graph, node);
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    (void)max_h, (void)max_w;
    const bool fast = choice != BS_CONV_FORCE_REFERENCE && bs_conv_supports(&g, BS_CONV_DIRECT, plan->tier);
    plan->algorithm = fast ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
    plan->prepared_bytes = linear_layout(desc, plan, inputs).bytes;
    plan->scratch_bytes = bs_align_u64(4 * (uint64_t)inputs) + bs_align_u64(4 * (uint64_t)desc->out);
}

static void linear_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                           const void *const *weights, void *prepared)
{
    const bs_linear_desc *desc = node->params;
    const int32_t inputs = linear_inputs(graph, node);
    const bs_conv_geometry g = linear_geometry(inputs, desc->out);
    const bs_epilogue_layout layout = linear_layout(desc, plan, inputs);
    uint8_t *memory = prepared;
    if (plan->algorithm == BS_CONV_REFERENCE)
        memcpy(memory, weights[0], 4 * (size_t)inputs * (size_t)desc->out);
    else
        bs_conv_prepare(&g, BS_CONV_DIRECT, plan->tier, weights[0], prepared);
    memset(memory + layout.bias, 0, 4 * (size_t)desc->out);
    if (!desc->no_bias)
        memcpy(memory + layout.bias, weights[1], 4 * (size_t)desc->out);
    if (desc->act == BS_PRELU)
        memcpy(memory + layout.slopes, weights[desc->no_bias ? 1 : 2], 4 * (size_t)desc->out);
}

/* -------------------------------------------------------------------------------------------------------- run */

/* What the walk over lines needs. */
typedef struct linear_job {
    const bs_call *call;
    bs_conv_geometry geometry;
    bs_epilogue epilogue;
    bool fused;
    ptrdiff_t in_step, out_step; /* of the last dimension, in floats */
} linear_job;

static void linear_line(const linear_job *job, const float *x, float *y)
{
    const int32_t inputs = job->geometry.in_channels;
    const float *weight = job->call->prepared;
    for (int32_t o = 0; o < job->geometry.out_channels; o++, weight += inputs) {
        float sum = 0.0f;
        for (int32_t k = 0; k < inputs; k++)
            sum += x[k * job->in_step] * weight[k];
        y[o * job->out_step] = bs_epilogue_apply(&job->epilogue, o, sum);
    }
}

static void linear_lines_reference(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        linear_line(context, (const float *)(const void *)(at[1] + i * step[1]),
                    (float *)(void *)(at[0] + i * step[0]));
}

static void linear_activate(const linear_job *job, float *y)
{
    for (int32_t o = 0; o < job->geometry.out_channels && !job->fused; o++)
        y[o] = bs_act_apply(job->epilogue.act, job->epilogue.param, 0.0f, y[o]);
}

/* `n` lines as the pixels of one image row; in_pixel and out_pixel in floats. */
static void linear_block(const linear_job *job, int64_t n, const float *x, ptrdiff_t in_pixel, float *y,
                         ptrdiff_t out_pixel)
{
    bs_conv_task task;
    memset(&task, 0, sizeof task);
    task.in = x;
    task.in_pixel = (int32_t)in_pixel;
    task.out = y;
    task.out_pixel = (int32_t)out_pixel;
    task.out_h = 1;
    task.out_w = (int32_t)n;
    task.weights = job->call->prepared;
    bs_epilogue_fuse(&job->epilogue, &task);
    bs_conv_run(&job->geometry, BS_CONV_DIRECT, job->call->plan->tier, &task);
    for (int64_t i = 0; i < n; i++)
        linear_activate(job, y + i * out_pixel);
}

/* Not contiguous: through scratch, line by line. */
static void linear_gathered(const linear_job *job, const float *x, float *y)
{
    const int32_t inputs = job->geometry.in_channels, outputs = job->geometry.out_channels;
    float *line = job->call->scratch, *result = line + bs_align_u64(4 * (uint64_t)inputs) / 4;
    for (int32_t k = 0; k < inputs; k++)
        line[k] = x[k * job->in_step];
    linear_block(job, 1, line, inputs, result, outputs);
    for (int32_t o = 0; o < outputs; o++)
        y[o * job->out_step] = result[o];
}

static void linear_lines_fast(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const linear_job *job = context;
    const float *x = (const float *)(const void *)at[1];
    float *y = (float *)(void *)at[0];
    const ptrdiff_t in_pixel = step[1] / 4, out_pixel = step[0] / 4;
    const bool dense = job->in_step == 1 && job->out_step == 1 && n <= INT32_MAX && in_pixel >= 0 &&
                       in_pixel <= INT32_MAX && out_pixel >= 0 && out_pixel <= INT32_MAX;
    if (dense) {
        linear_block(job, n, x, in_pixel, y, out_pixel);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        linear_gathered(job, x + i * in_pixel, y + i * out_pixel);
}

static linear_job linear_job_of(const bs_call *call)
{
    const bs_linear_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t inputs = in->dim[in->rank - 1];
    const bs_epilogue_layout layout = linear_layout(desc, call->plan, inputs);
    const uint8_t *memory = call->prepared;
    linear_job job;
    memset(&job, 0, sizeof job);
    job.call = call;
    job.geometry = linear_geometry(inputs, desc->out);
    job.epilogue.act = (bs_act)desc->act;
    job.epilogue.param = desc->act_param;
    job.epilogue.bias = (const float *)(const void *)(memory + layout.bias);
    job.epilogue.slopes = desc->act == BS_PRELU ? (const float *)(const void *)(memory + layout.slopes) : NULL;
    bs_conv_task probe;
    job.fused = bs_epilogue_fuse(&job.epilogue, &probe);
    job.in_step = in->dim[in->rank - 1] == 1 ? 1 : in->stride[in->rank - 1];
    job.out_step = desc->out == 1 ? 1 : out->stride[out->rank - 1];
    return job;
}

static bs_status linear_run(const bs_call *call)
{
    const linear_job job = linear_job_of(call);
    bs_span span;
    bs_span_open_lines(&span, &call->out[0], call->rows, call->out[0].rank - 1);
    bs_span_add(&span, &call->in[0], NULL, 0);
    bs_span_run(&span, call->plan->algorithm == BS_CONV_REFERENCE ? linear_lines_reference : linear_lines_fast, &job);
    return BS_OK;
}

const bs_op bs_op_linear = {.name = "linear",
                            .min_in = 1,
                            .max_in = 1,
                            .params_bytes = sizeof(bs_linear_desc),
                            BS_FIELDS(linear_fields),
                            .infer = linear_infer,
                            .flops = linear_flops,
                            .weights = linear_weights,
                            .plan = linear_plan,
                            .prepare = linear_prepare,
                            .run = linear_run};

bs_value bs_linear(bs_graph *graph, bs_value x, const bs_linear_desc *desc)
{
    return bs_op_build(graph, &bs_op_linear, &x.id, 1, desc);
}
/* ==== end src/ops/linear.c ==================================================================== */

/* ==== begin src/ops/lines.c =================================================================== */
/* ops/lines.c - ops on whole lines of one dimension: softmax, layer_norm, reduce, argmax, topk.
 * Relies on span.h to visit lines. Must never let lines influence each other; sums go from index 0 up. One code for
 * every tier. What removes the only dimension leaves [1]. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

typedef struct bs_topk_desc {
    const char *name;
    int32_t k;
} bs_topk_desc;

static const bs_field layer_norm_fields[] = {{"epsilon", 'f'}};
static const bs_field reduce_fields[] = {{"kind", 'i'}, {"axis", 'i'}, {"keep", 'i'}};
static const bs_field topk_fields[] = {{"k", 'i'}};

/* One visit: the lines' length and steps, and whatever the op adds. */
typedef struct lines_job {
    const bs_call *call;
    int32_t n;
    ptrdiff_t in_step, out_step, index_step; /* in elements */
    int32_t kind;
    float epsilon;
    const float *weight, *bias;
} lines_job;

/* ------------------------------------------------------------------------------------------------------ shared */

static bool lines_last_f32(bs_infer *infer)
{
    return bs_infer_dtype(infer, 0, BS_F32) && bs_infer_rank(infer, 0, 1, BS_MAX_RANK) && bs_infer_whole(infer, 0);
}

/* The shape without dimension `axis`. */
static bool lines_remove(bs_infer *infer, int32_t axis)
{
    bs_value_info *out = &infer->out[0];
    for (int32_t d = axis; d + 1 < out->rank; d++)
        out->dims[d] = out->dims[d + 1];
    out->rank--;
    if (out->rank == 0) {
        out->rank = 1;
        out->dims[0] = bs_dim_const(infer->graph, 1);
    }
    return bs_infer_no_new_image(infer);
}

/* An operand that lost dimension `axis`, with it put back as 1, so that it walks beside the line's operand. */
static bs_operand lines_view(const bs_operand *out, int32_t rank, int32_t axis)
{
    bs_operand view = *out;
    if (out->rank == rank)
        return view;
    view.rank = rank;
    for (int32_t d = rank - 1; d > axis; d--) {
        view.dim[d] = out->dim[d - 1];
        view.stride[d] = out->stride[d - 1];
    }
    view.dim[axis] = 1;
    view.stride[axis] = 0;
    const bs_rect whole = {0, view.dim[1], 0, view.dim[2]};
    if (rank == 3)
        view.rect = whole;
    return view;
}

static lines_job lines_job_of(const bs_call *call, int32_t axis)
{
    lines_job job;
    memset(&job, 0, sizeof job);
    job.call = call;
    job.n = call->in[0].dim[axis];
    job.in_step = call->in[0].stride[axis];
    return job;
}

static void lines_visit(const bs_call *call, int32_t axis, bs_span_inner inner, lines_job *job)
{
    const bs_operand out = lines_view(&call->out[0], call->in[0].rank, axis);
    bs_span span;
    job->out_step = out.stride[axis];
    bs_span_open_lines(&span, &out, call->rows, axis);
    bs_span_add(&span, &call->in[0], NULL, 0);
    if (call->n_out > 1)
        bs_span_add(&span, &call->out[1], NULL, 0);
    bs_span_run(&span, inner, job);
}

/* ----------------------------------------------------------------------------------------------------- softmax */

static double softmax_flops(const bs_graph *graph, const bs_node *node)
{
    return 8.0 * bs_value_work(graph, node->first_out); /* maximum, exponential, sum, quotient */
}

static void softmax_line(const lines_job *job, const float *x, float *y)
{
    float top = x[0], sum = 0.0f;
    for (int32_t i = 1; i < job->n; i++)
        top = x[i * job->in_step] > top ? x[i * job->in_step] : top;
    for (int32_t i = 0; i < job->n; i++) {
        const float e = expf(x[i * job->in_step] - top);
        y[i * job->out_step] = e;
        sum += e;
    }
    for (int32_t i = 0; i < job->n; i++)
        y[i * job->out_step] /= sum;
}

static void softmax_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        softmax_line(context, (const float *)(const void *)(at[1] + i * step[1]),
                     (float *)(void *)(at[0] + i * step[0]));
}

static bs_status softmax_run(const bs_call *call)
{
    const int32_t last = call->in[0].rank - 1;
    lines_job job = lines_job_of(call, last);
    if (job.n > 0)
        lines_visit(call, last, softmax_lines, &job);
    return BS_OK;
}

const bs_op bs_op_softmax = {
    .name = "softmax", .min_in = 1, .max_in = 1, .infer = lines_last_f32, .flops = softmax_flops, .run = softmax_run};

bs_value bs_softmax(bs_graph *graph, bs_value x) { return bs_op_build(graph, &bs_op_softmax, &x.id, 1, NULL); }

/* -------------------------------------------------------------------------------------------------- layer_norm */

static bool layer_norm_infer(bs_infer *infer)
{
    int32_t features;
    return lines_last_f32(infer) && bs_infer_const(infer, 0, infer->in[0]->rank - 1, "features", &features);
}

static int32_t layer_norm_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    const int64_t features = bs_dim_max(graph, x->dims[x->rank - 1]);
    specs[0] = bs_weight_of("weight", 1, features, 0, 0, 0);
    specs[1] = bs_weight_of("bias", 1, features, 0, 0, 0);
    return 2;
}

static void layer_norm_line(const lines_job *job, const float *x, float *y)
{
    const float count = (float)job->n;
    float mean = 0.0f, variance = 0.0f;
    for (int32_t i = 0; i < job->n; i++)
        mean += x[i * job->in_step];
    mean /= count;
    for (int32_t i = 0; i < job->n; i++)
        variance += (x[i * job->in_step] - mean) * (x[i * job->in_step] - mean);
    const float scale = 1.0f / sqrtf(variance / count + job->epsilon);
    for (int32_t i = 0; i < job->n; i++)
        y[i * job->out_step] = (x[i * job->in_step] - mean) * scale * job->weight[i] + job->bias[i];
}

static void layer_norm_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        layer_norm_line(context, (const float *)(const void *)(at[1] + i * step[1]),
                        (float *)(void *)(at[0] + i * step[0]));
}

static bs_status layer_norm_run(const bs_call *call)
{
    const bs_norm_desc *desc = call->params;
    const int32_t last = call->in[0].rank - 1;
    lines_job job = lines_job_of(call, last);
    job.epsilon = desc->epsilon == 0.0f ? 1e-5f : desc->epsilon;
    job.weight = call->prepared;
    job.bias = job.weight + bs_align_u64(4 * (uint64_t)job.n) / 4;
    lines_visit(call, last, layer_norm_lines, &job);
    return BS_OK;
}

const bs_op bs_op_layer_norm = {.name = "layer_norm",
                                .min_in = 1,
                                .max_in = 1,
                                .params_bytes = sizeof(bs_norm_desc),
                                BS_FIELDS(layer_norm_fields),
                                .infer = layer_norm_infer,
                                .flops = softmax_flops,
                                .weights = layer_norm_weights,
                                .run = layer_norm_run};

bs_value bs_layer_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc)
{
    return bs_op_build(graph, &bs_op_layer_norm, &x.id, 1, desc);
}

/* ------------------------------------------------------------------------------------------------------ reduce */

static bool reduce_infer(bs_infer *infer)
{
    const bs_reduce_desc *desc = infer->params;
    int32_t axis;
    if (!bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_field(infer, "kind", desc->kind, 0, BS_REDUCE_MIN) ||
        !bs_infer_axis(infer, desc->axis, &axis))
        return false;
    /* channels of one pixel may be combined anywhere; pixels of a patch may not: its halo would count */
    if (axis != 0 && !bs_infer_whole(infer, 0))
        return false;
    if (!desc->keep)
        return lines_remove(infer, axis) && (axis == 0 ? bs_infer_whole(infer, 0) : true);
    infer->out[0].dims[axis] = bs_dim_const(infer->graph, 1);
    return true;
}

static double reduce_flops(const bs_graph *graph, const bs_node *node)
{
    return bs_value_work(graph, bs_node_in(graph, node)[0]);
}

static float reduce_line(const lines_job *job, const float *x)
{
    float result = x[0];
    for (int32_t i = 1; i < job->n; i++) {
        const float v = x[i * job->in_step];
        if (job->kind == BS_REDUCE_SUM || job->kind == BS_REDUCE_MEAN)
            result += v;
        else if (job->kind == BS_REDUCE_MAX)
            result = v > result ? v : result;
        else
            result = v < result ? v : result;
    }
    return job->kind == BS_REDUCE_MEAN ? result / (float)job->n : result;
}

static void reduce_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) =
            reduce_line(context, (const float *)(const void *)(at[1] + i * step[1]));
}

static bs_status reduce_run(const bs_call *call)
{
    const bs_reduce_desc *desc = call->params;
    const int32_t axis = bs_axis_of(desc->axis, call->in[0].rank);
    lines_job job = lines_job_of(call, axis);
    job.kind = desc->kind;
    if (job.n > 0)
        lines_visit(call, axis, reduce_lines, &job);
    return BS_OK;
}

const bs_op bs_op_reduce = {.name = "reduce",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = BS_OP_SPATIAL,
                            .params_bytes = sizeof(bs_reduce_desc),
                            BS_FIELDS(reduce_fields),
                            .infer = reduce_infer,
                            .flops = reduce_flops,
                            .run = reduce_run};

bs_value bs_reduce(bs_graph *graph, bs_value x, const bs_reduce_desc *desc)
{
    return bs_op_build(graph, &bs_op_reduce, &x.id, 1, desc);
}

/* ------------------------------------------------------------------------------------------------ argmax, topk */

static bool argmax_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    if (x->dtype != BS_F32 && x->dtype != BS_I32)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected f32 or i32", bs_dtype_name(x->dtype));
    if (!bs_infer_rank(infer, 0, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 0))
        return false;
    infer->out[0].dtype = BS_I32;
    return lines_remove(infer, x->rank - 1);
}

static int32_t argmax_f32(const float *x, int32_t n, ptrdiff_t step)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i * step] > x[best * step])
            best = i;
    return best;
}

static int32_t argmax_i32(const int32_t *x, int32_t n, ptrdiff_t step)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i * step] > x[best * step])
            best = i;
    return best;
}

static void argmax_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const lines_job *job = context;
    const bool f32 = job->call->in[0].dtype == BS_F32;
    for (int64_t i = 0; i < n; i++) {
        const void *x = at[1] + i * step[1];
        *(int32_t *)(void *)(at[0] + i * step[0]) =
            f32 ? argmax_f32(x, job->n, job->in_step) : argmax_i32(x, job->n, job->in_step);
    }
}

static bs_status argmax_run(const bs_call *call)
{
    const int32_t last = call->in[0].rank - 1;
    lines_job job = lines_job_of(call, last);
    lines_visit(call, last, argmax_lines, &job);
    return BS_OK;
}

const bs_op bs_op_argmax = {
    .name = "argmax", .min_in = 1, .max_in = 1, .infer = argmax_infer, .flops = reduce_flops, .run = argmax_run};

bs_value bs_argmax(bs_graph *graph, bs_value x) { return bs_op_build(graph, &bs_op_argmax, &x.id, 1, NULL); }

static bool topk_infer(bs_infer *infer)
{
    const bs_topk_desc *desc = infer->params;
    if (!lines_last_f32(infer))
        return false;
    const int32_t last = infer->in[0]->rank - 1;
    const bs_dim_id d = infer->in[0]->dims[last];
    char text[64];
    if (desc->k < 1 || desc->k > bs_dim_max(infer->graph, d))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s, k is %d", last,
                             bs_dim_text(infer->graph, d, text, sizeof text), desc->k);
    infer->n_out = 2;
    infer->out[0].dims[last] = infer->out[1].dims[last] = bs_dim_const(infer->graph, desc->k);
    infer->out[1].dtype = BS_I32;
    return true;
}

/* NaN goes last. */
static bool topk_before(float a, float b) { return a > b || (a == a && b != b); }

/* Keeps the best found so far in order; an equal one goes behind, so the lower index stays first. */
static void topk_line(const lines_job *job, const float *x, float *best, int32_t *index)
{
    const int32_t k = job->kind;
    for (int32_t i = 0; i < job->n; i++) {
        const float v = x[i * job->in_step];
        int32_t place = bs_min_i32(i, k);
        while (place > 0 && topk_before(v, best[(place - 1) * job->out_step])) {
            if (place < k) {
                best[place * job->out_step] = best[(place - 1) * job->out_step];
                index[place * job->index_step] = index[(place - 1) * job->index_step];
            }
            place--;
        }
        if (place < k) {
            best[place * job->out_step] = v;
            index[place * job->index_step] = i;
        }
    }
}

static void topk_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    for (int64_t i = 0; i < n; i++)
        topk_line(context, (const float *)(const void *)(at[1] + i * step[1]), (float *)(void *)(at[0] + i * step[0]),
                  (int32_t *)(void *)(at[2] + i * step[2]));
}

static bs_status topk_run(const bs_call *call)
{
    const int32_t last = call->in[0].rank - 1;
    lines_job job = lines_job_of(call, last);
    job.kind = ((const bs_topk_desc *)call->params)->k;
    job.index_step = call->out[1].stride[last];
    if (job.n < job.kind)
        return BS_ERROR_SHAPE; /* a symbol was bound below k */
    lines_visit(call, last, topk_lines, &job);
    return BS_OK;
}

const bs_op bs_op_topk = {.name = "topk",
                          .min_in = 1,
                          .max_in = 1,
                          .params_bytes = sizeof(bs_topk_desc),
                          BS_FIELDS(topk_fields),
                          .infer = topk_infer,
                          .flops = reduce_flops,
                          .run = topk_run};

bs_value bs_topk(bs_graph *graph, bs_value x, int32_t k, bs_value *indices)
{
    const bs_topk_desc desc = {NULL, k};
    const bs_node *node = bs_op_build_node(graph, &bs_op_topk, &x.id, 1, &desc);
    const bs_value values = {node ? node->first_out : 0};
    if (indices)
        indices->id = node ? node->first_out + 1 : 0;
    return values;
}
/* ==== end src/ops/lines.c ===================================================================== */

/* ==== begin src/ops/matmul.c ================================================================== */
/* ops/matmul.c - product of two computed matrices (attention scores and the like).
 * Relies on op.h. Must never let the order of a sum depend on sizes of M or N: it is k = 0, 1, ... for every element,
 * on every tier, so all tiers agree to the bit where the compiler does not fuse multiply and add. */
/* #include "ops/common.h" */

static const bs_field matmul_fields[] = {{"transpose_b", 'i'}, {"scale", 'f'}};

static bool matmul_same_dim(bs_infer *infer, int32_t a_axis, int32_t b_axis)
{
    const bs_dim_id a = infer->in[0]->dims[a_axis], b = infer->in[1]->dims[b_axis];
    char left[64], right[64];
    if (a == b)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d of operand 0 is %s, dimension %d of operand 1 is %s",
                         a_axis, bs_dim_text(infer->graph, a, left, sizeof left), b_axis,
                         bs_dim_text(infer->graph, b, right, sizeof right));
}

static bool matmul_infer(bs_infer *infer)
{
    const bs_matmul_desc *desc = infer->params;
    const int32_t rank = infer->in[0]->rank;
    if (!bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_dtype(infer, 1, BS_F32) ||
        !bs_infer_rank(infer, 0, 2, BS_MAX_RANK) || !bs_infer_rank(infer, 1, rank, rank) || !bs_infer_whole(infer, 0) ||
        !bs_infer_whole(infer, 1))
        return false;
    for (int32_t d = 0; d < rank - 2; d++)
        if (!matmul_same_dim(infer, d, d))
            return false;
    if (!matmul_same_dim(infer, rank - 1, desc->transpose_b ? rank - 1 : rank - 2))
        return false;
    infer->out[0].dims[rank - 1] = infer->in[1]->dims[desc->transpose_b ? rank - 2 : rank - 1];
    return true;
}

static double matmul_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *a = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return 2.0 * (double)bs_dim_max(graph, a->dims[a->rank - 1]) * bs_value_work(graph, node->first_out);
}

#define MATMUL_BLOCK 64 /* columns summed at a time: 256 bytes of accumulators stay in registers or the first cache */

typedef struct matmul_job {
    int32_t m, n, k;
    ptrdiff_t a_row, a_step, b_row, b_step, out_row, out_step; /* b as [K, N], whichever way it is stored */
    float scale;
} matmul_job;

static void matmul_block(const matmul_job *job, const float *a, const float *b, float *out, int32_t columns)
{
    float sum[MATMUL_BLOCK] = {0};
    for (int32_t k = 0; k < job->k; k++) {
        const float x = a[k * job->a_step], *row = b + k * job->b_row;
        if (job->b_step == 1)
            for (int32_t n = 0; n < columns; n++)
                sum[n] += x * row[n];
        else
            for (int32_t n = 0; n < columns; n++)
                sum[n] += x * row[n * job->b_step];
    }
    for (int32_t n = 0; n < columns; n++)
        out[n * job->out_step] = sum[n] * job->scale;
}

static void matmul_one(const matmul_job *job, const float *a, const float *b, float *out)
{
    for (int32_t n = 0; n < job->n; n += MATMUL_BLOCK)
        for (int32_t m = 0; m < job->m; m++)
            matmul_block(job, a + m * job->a_row, b + n * job->b_step, out + m * job->out_row + n * job->out_step,
                         bs_min_i32(MATMUL_BLOCK, job->n - n));
}
#undef MATMUL_BLOCK

static matmul_job matmul_job_of(const bs_call *call)
{
    const bs_matmul_desc *desc = call->params;
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int32_t r = a->rank, row = desc->transpose_b ? r - 1 : r - 2, column = desc->transpose_b ? r - 2 : r - 1;
    const matmul_job job = {a->dim[r - 2],      b->dim[column],
                            a->dim[r - 1],      a->stride[r - 2],
                            a->stride[r - 1],   b->stride[row],
                            b->stride[column],  out->stride[r - 2],
                            out->stride[r - 1], desc->scale == 0.0f ? 1.0f : desc->scale};
    return job;
}

/* Offset of matrix `index` of an operand: row, then its leading dimensions (at most two). */
static int64_t matmul_offset(const bs_operand *o, int32_t row, int32_t i, int32_t j)
{
    int64_t offset = row * o->row_stride;
    if (o->rank == 4)
        offset += i * o->stride[0] + j * o->stride[1];
    if (o->rank == 3)
        offset += j * o->stride[0];
    return offset;
}

static bs_status matmul_run(const bs_call *call)
{
    const matmul_job job = matmul_job_of(call);
    const bs_operand *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const int32_t outer = a->rank == 4 ? a->dim[0] : 1, inner = a->rank == 4 ? a->dim[1] : a->rank == 3 ? a->dim[0] : 1;
    for (int32_t row = 0; row < call->rows; row++)
        for (int32_t i = 0; i < outer; i++)
            for (int32_t j = 0; j < inner; j++)
                matmul_one(&job, bs_f32_at(a, matmul_offset(a, row, i, j)), bs_f32_at(b, matmul_offset(b, row, i, j)),
                           bs_f32_at(out, matmul_offset(out, row, i, j)));
    return BS_OK;
}

const bs_op bs_op_matmul = {.name = "matmul",
                            .min_in = 2,
                            .max_in = 2,
                            .flags = BS_OP_CAPTURE,
                            .params_bytes = sizeof(bs_matmul_desc),
                            BS_FIELDS(matmul_fields),
                            .infer = matmul_infer,
                            .flops = matmul_flops,
                            .run = matmul_run};

bs_value bs_matmul(bs_graph *graph, bs_value a, bs_value b, const bs_matmul_desc *desc)
{
    const int32_t in[2] = {a.id, b.id};
    return bs_op_build(graph, &bs_op_matmul, in, 2, desc);
}
/* ==== end src/ops/matmul.c ==================================================================== */

/* ==== begin src/ops/pad.c ===================================================================== */
/* ops/pad.c - a border around an image, of a value or of its edge repeated. Elements of any type.
 * Relies on op.h. Must never be used in a patch domain: cells would move against their frame (convolutions and pooling
 * pad at the frame's edge by themselves). */
/* #include "ops/common.h" */

static const bs_field pad_fields[] = {{"top", 'i'},   {"bottom", 'i'}, {"left", 'i'},
                                      {"right", 'i'}, {"value", 'f'},  {"edge", 'i'}};

static bool pad_infer(bs_infer *infer)
{
    const bs_pad_desc *desc = infer->params;
    const int32_t most = 1 << 15;
    return bs_infer_rank(infer, 0, 3, 3) && bs_infer_whole(infer, 0) &&
           bs_infer_field(infer, "top", desc->top, 0, most) && bs_infer_field(infer, "bottom", desc->bottom, 0, most) &&
           bs_infer_field(infer, "left", desc->left, 0, most) && bs_infer_field(infer, "right", desc->right, 0, most) &&
           bs_infer_extent(infer, 1, 1, (int64_t)desc->top + desc->bottom, 1) &&
           bs_infer_extent(infer, 2, 1, (int64_t)desc->left + desc->right, 1);
}

/* The border's value as an element; values out of a type's range are its nearest end. */
static void pad_element(bs_dtype dtype, float value, uint8_t *element)
{
    const float whole = rintf(value);
    const int32_t code = whole >= 2147483648.0f ? INT32_MAX : whole > -2147483648.0f ? (int32_t)whole : INT32_MIN;
    const uint16_t half = dtype == BS_F16    ? bs_f32_to_f16(value)
                          : dtype == BS_BF16 ? bs_f32_to_bf16(value)
                                             : (uint16_t)bs_clamp_i32(code, 0, 65535);
    if (dtype == BS_F32)
        memcpy(element, &value, 4);
    else if (dtype == BS_I32)
        memcpy(element, &code, 4);
    else if (dtype == BS_U8)
        *element = (uint8_t)bs_clamp_i32(code, 0, 255);
    else if (dtype == BS_I8)
        *element = (uint8_t)bs_clamp_i32(code, -128, 127);
    else
        memcpy(element, &half, 2);
}

static void pad_pixel(const bs_operand *out, char *to, const char *from, ptrdiff_t from_step, size_t bytes)
{
    const ptrdiff_t to_step = out->stride[0] * (ptrdiff_t)bytes;
    for (int32_t c = 0; c < out->dim[0]; c++)
        memcpy(to + c * to_step, from + c * from_step, bytes);
}

static void pad_row(const bs_call *call, int32_t row, const uint8_t *border)
{
    const bs_pad_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const size_t bytes = bs_dtype_bytes(out->dtype);
    const ptrdiff_t size = (ptrdiff_t)bytes;
    char *to = (char *)out->data + row * out->row_stride * size;
    const char *from = (const char *)in->data + row * in->row_stride * size;
    for (int32_t y = out->rect.y0; y < out->rect.y1; y++)
        for (int32_t x = out->rect.x0; x < out->rect.x1; x++) {
            const int32_t sy = bs_clamp_i32(y - desc->top, 0, in->dim[1] - 1),
                          sx = bs_clamp_i32(x - desc->left, 0, in->dim[2] - 1);
            const bool inside = desc->edge || (sy == y - desc->top && sx == x - desc->left);
            char *pixel = to + (y * out->stride[1] + x * out->stride[2]) * size;
            if (inside)
                pad_pixel(out, pixel, from + (sy * in->stride[1] + sx * in->stride[2]) * size, in->stride[0] * size,
                          bytes);
            else
                pad_pixel(out, pixel, (const char *)border, 0, bytes);
        }
}

static bs_status pad_run(const bs_call *call)
{
    const bs_pad_desc *desc = call->params;
    uint8_t border[4] = {0, 0, 0, 0};
    pad_element(call->out[0].dtype, desc->value, border);
    for (int32_t row = 0; row < call->rows; row++)
        pad_row(call, row, border);
    return BS_OK;
}

const bs_op bs_op_pad = {.name = "pad",
                         .min_in = 1,
                         .max_in = 1,
                         .flags = BS_OP_SPATIAL,
                         .params_bytes = sizeof(bs_pad_desc),
                         BS_FIELDS(pad_fields),
                         .infer = pad_infer,
                         .run = pad_run};

bs_value bs_pad(bs_graph *graph, bs_value x, const bs_pad_desc *desc)
{
    return bs_op_build(graph, &bs_op_pad, &x.id, 1, desc);
}
/* ==== end src/ops/pad.c ======================================================================= */

/* ==== begin src/ops/patch_features.c ========================================================== */
/* ops/patch_features.c - how busy a patch is and how much it changed, as small integers for a routing table.
 * Relies on kernels/elementwise.h. Sees the core only. Must never use floating point: decisions must be the same on
 * every machine. */
/* #include "kernels/elementwise.h" */
/* #include "ops/common.h" */

static const bs_field patch_features_fields[] = {{"buckets", 'i'}, {"code_bits", 'i'}};

#define BS_FEATURE_BUCKETS 64
#define BS_FEATURE_MOST    128 /* bucket of 2^32 - 1, where sums saturate */

static bool patch_features_infer(bs_infer *infer)
{
    const bs_patch_features_desc *desc = infer->params;
    const bs_value_info *cells = infer->in[0];
    if (cells->dtype != BS_U8 && cells->dtype != BS_U16)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected u8 or u16", bs_dtype_name(cells->dtype));
    if (!bs_infer_rank(infer, 0, 3, 3) ||
        !bs_infer_field(infer, "buckets", bs_or_default(desc->buckets, 2), 2, BS_FEATURE_MOST) ||
        !bs_infer_field(infer, "code_bits", bs_or_default(desc->code_bits, 16), 8, 16))
        return false;
    for (int32_t d = 0; d < 3 && infer->n_in > 1; d++) {
        char left[64], right[64];
        if (!bs_infer_dtype(infer, 1, cells->dtype) || !bs_infer_rank(infer, 1, 3, 3))
            return false;
        if (cells->dims[d] != infer->in[1]->dims[d])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %s in the cells and %s in the reference", d,
                                 bs_dim_text(infer->graph, cells->dims[d], left, sizeof left),
                                 bs_dim_text(infer->graph, infer->in[1]->dims[d], right, sizeof right));
    }
    infer->out[0].dtype = BS_I32;
    infer->out[0].rank = 1;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 2);
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

static int32_t patch_features_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)node, (void)index, (void)out_margin;
    return 0;
}

static double patch_features_flops(const bs_graph *graph, const bs_node *node)
{
    return 10.0 * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

/* ----------------------------------------------------------------------------------------------------- buckets */

/* floor(4 log2(v)), v > 0: the top bit, and quarters by comparing v, shifted up to 2^31 .. 2^32, with 2^(31 + j/4). */
static int32_t quarter_log2(uint32_t v)
{
    int32_t bit = 31;
    for (; !(v & 0x80000000u); v <<= 1)
        bit--;
    return 4 * bit + (v >= 0x9837f052u) + (v >= 0xb504f334u) + (v >= 0xd744fccbu);
}

static int32_t feature_bucket(uint64_t sum, uint64_t area, int32_t buckets)
{
    const uint64_t v = 16 * sum / area;
    if (v == 0)
        return 0;
    return bs_min_i32(1 + quarter_log2(v > UINT32_MAX ? UINT32_MAX : (uint32_t)v), buckets - 1);
}

/* -------------------------------------------------------------------------------------------------------- sums */

/* Codes of 8 bits of one operand's core. */
typedef struct feature_source {
    const bs_operand *operand;
    ptrdiff_t row;
    int32_t shift;
} feature_source;

static int32_t feature_code(const feature_source *s, int32_t c, int32_t y, int32_t x)
{
    const bs_operand *o = s->operand;
    const ptrdiff_t at = s->row + c * o->stride[0] + y * o->stride[1] + x * o->stride[2];
    return o->dtype == BS_U8 ? ((const uint8_t *)o->data)[at] : ((const uint16_t *)o->data)[at] >> s->shift;
}

static uint64_t feature_energy(const feature_source *s)
{
    const int32_t height = s->operand->dim[1], width = s->operand->dim[2];
    uint64_t sum = 0;
    for (int32_t c = 0; c < s->operand->dim[0]; c++)
        for (int32_t y = 0; y < height; y++)
            for (int32_t x = 0; x < width; x++) {
                const int64_t d = 4 * (int64_t)feature_code(s, c, y, x) - feature_code(s, c, bs_max_i32(y - 1, 0), x) -
                                  feature_code(s, c, bs_min_i32(y + 1, height - 1), x) -
                                  feature_code(s, c, y, bs_max_i32(x - 1, 0)) -
                                  feature_code(s, c, y, bs_min_i32(x + 1, width - 1));
                sum += (uint64_t)(d * d);
            }
    return sum;
}

static uint64_t feature_change(const feature_source *s, const feature_source *reference)
{
    const bs_operand *o = s->operand;
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++)
        for (int32_t y = 0; y < o->dim[1]; y++)
            for (int32_t x = 0; x < o->dim[2]; x++) {
                const int64_t d = (int64_t)feature_code(s, c, y, x) - feature_code(reference, c, y, x);
                sum += (uint64_t)(d * d);
            }
    return sum;
}

/* ------------------------------------------------------------------------------------------------------- fast */

/* The kernels take rows of contiguous samples, and u16 codes that are below 2^14 even when they are no valid codes. */
static bool feature_is_fast(const bs_call *call, const feature_source *s)
{
    return call->plan->tier != BS_TIER_SCALAR && s->operand->stride[2] == 1 &&
           (s->operand->dtype == BS_U8 || s->shift >= 2);
}

static uint64_t feature_energy_fast(bs_tier tier, const feature_source *s)
{
    const bs_operand *o = s->operand;
    const bs_margins none = {0, 0, 0, 0};
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++) {
        const ptrdiff_t at = s->row + c * o->stride[0];
        sum += o->dtype == BS_U8 ? bs_laplacian_energy_u8(tier, (const uint8_t *)o->data + at, o->stride[1], o->dim[1],
                                                          o->dim[2], none)
                                 : bs_laplacian_energy_u16(tier, (const uint16_t *)o->data + at, o->stride[1],
                                                           o->dim[1], o->dim[2], none, s->shift);
    }
    return sum;
}

static uint64_t feature_change_fast(bs_tier tier, const feature_source *s, const feature_source *reference)
{
    const bs_operand *o = s->operand, *r = reference->operand;
    uint64_t sum = 0;
    for (int32_t c = 0; c < o->dim[0]; c++) {
        const ptrdiff_t at = s->row + c * o->stride[0], to = reference->row + c * r->stride[0];
        sum +=
            o->dtype == BS_U8
                ? bs_squared_change_u8(tier, (const uint8_t *)o->data + at, o->stride[1], (const uint8_t *)r->data + to,
                                       r->stride[1], o->dim[1], o->dim[2])
                : bs_squared_change_u16(tier, (const uint16_t *)o->data + at, o->stride[1],
                                        (const uint16_t *)r->data + to, r->stride[1], o->dim[1], o->dim[2], s->shift);
    }
    return sum;
}

/* -------------------------------------------------------------------------------------------------------- run */

static void patch_features_row(const bs_call *call, int32_t row, int32_t *energy, int32_t *change)
{
    const bs_patch_features_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const int32_t buckets = bs_or_default(desc->buckets, BS_FEATURE_BUCKETS),
                  shift = bs_or_default(desc->code_bits, 16) - 8;
    const uint64_t area = (uint64_t)in->dim[0] * (uint64_t)in->dim[1] * (uint64_t)in->dim[2];
    const feature_source cells = {in, row * in->row_stride, shift};
    const feature_source reference = {&call->in[1], row * call->in[1].row_stride, shift};
    const bool fast = feature_is_fast(call, &cells);
    *energy = *change = 0;
    if (area == 0)
        return;
    *energy =
        feature_bucket(fast ? feature_energy_fast(call->plan->tier, &cells) : feature_energy(&cells), area, buckets);
    if (call->n_in < 2)
        return;
    const bool both = fast && feature_is_fast(call, &reference);
    *change = feature_bucket(both ? feature_change_fast(call->plan->tier, &cells, &reference)
                                  : feature_change(&cells, &reference),
                             area, buckets);
}

static bs_status patch_features_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    for (int32_t row = 0; row < call->rows; row++) {
        int32_t *to = (int32_t *)out->data + row * out->row_stride;
        patch_features_row(call, row, &to[0], &to[out->stride[0]]);
    }
    return BS_OK;
}
#undef BS_FEATURE_BUCKETS
#undef BS_FEATURE_MOST

const bs_op bs_op_patch_features = {.name = "patch_features",
                                    .min_in = 1,
                                    .max_in = 2,
                                    .flags = BS_OP_SPATIAL | BS_OP_CORE_INPUT,
                                    .params_bytes = sizeof(bs_patch_features_desc),
                                    BS_FIELDS(patch_features_fields),
                                    .infer = patch_features_infer,
                                    .halo = patch_features_halo,
                                    .flops = patch_features_flops,
                                    .run = patch_features_run};

bs_value bs_patch_features(bs_graph *graph, bs_value cells, bs_value reference, const bs_patch_features_desc *desc)
{
    const int32_t in[2] = {cells.id, reference.id};
    return bs_op_build(graph, &bs_op_patch_features, in, reference.id ? 2 : 1, desc);
}
/* ==== end src/ops/patch_features.c ============================================================ */

/* ==== begin src/ops/pixel_shuffle.c =========================================================== */
/* ops/pixel_shuffle.c - [C r r, H, W] <-> [C, rH, rW], elements of any type.
 * Relies on span.h: each of the r x r phases is a strided copy. Must never do arithmetic. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

typedef struct bs_pixel_shuffle_desc {
    const char *name;
    int32_t r;
} bs_pixel_shuffle_desc;

static const bs_field pixel_shuffle_fields[] = {{"r", 'i'}};

static int32_t pixel_shuffle_factor(const bs_node *node) { return ((const bs_pixel_shuffle_desc *)node->params)->r; }

/* Channels of operand 0, after the checks that both directions share; 0 on failure. */
static int32_t pixel_shuffle_channels(bs_infer *infer)
{
    const bs_pixel_shuffle_desc *desc = infer->params;
    int32_t channels = 0;
    if (!bs_infer_field(infer, "r", desc->r, 1, 64) || !bs_infer_rank(infer, 0, 3, 3) ||
        !bs_infer_const(infer, 0, 0, "channels", &channels))
        return 0;
    return channels;
}

static bool pixel_shuffle_infer(bs_infer *infer)
{
    const int32_t r = ((const bs_pixel_shuffle_desc *)infer->params)->r, channels = pixel_shuffle_channels(infer);
    if (!channels)
        return false;
    if (channels % (r * r) != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension 0 is %d, not a multiple of r r = %d", channels, r * r);
    infer->out[0].dims[0] = bs_dim_const(infer->graph, channels / (r * r));
    return bs_infer_extent(infer, 1, r, 0, 1) && bs_infer_extent(infer, 2, r, 0, 1) && bs_infer_scale(infer, r, 1);
}

static bool pixel_unshuffle_divides(bs_infer *infer, int32_t axis, int32_t r)
{
    const bs_dim_id d = infer->in[0]->dims[axis];
    if (!bs_dim_is_const(infer->graph, d) || bs_dim_max(infer->graph, d) % r == 0)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is %lld, not a multiple of r = %d", axis,
                         (long long)bs_dim_max(infer->graph, d), r);
}

static bool pixel_unshuffle_infer(bs_infer *infer)
{
    const int32_t r = ((const bs_pixel_shuffle_desc *)infer->params)->r, channels = pixel_shuffle_channels(infer);
    if (!channels || !pixel_unshuffle_divides(infer, 1, r) || !pixel_unshuffle_divides(infer, 2, r))
        return false;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, (int64_t)channels * r * r);
    return bs_infer_extent(infer, 1, 1, 0, r) && bs_infer_extent(infer, 2, 1, 0, r) && bs_infer_scale(infer, 1, r);
}

static int32_t pixel_shuffle_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)index;
    return (int32_t)bs_ceil_div(out_margin, pixel_shuffle_factor(node));
}

static int32_t pixel_unshuffle_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    (void)graph, (void)index;
    return out_margin * pixel_shuffle_factor(node);
}

/* ----------------------------------------------------------------------------------------------------- kernels */

/* Every r-th pixel of a large image from (y, x): a view with the small image's coordinates. */
static bs_operand phase_of_large(const bs_operand *large, int32_t r, int32_t i, int32_t j)
{
    bs_operand view = *large;
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(large->dtype);
    view.data = (char *)large->data + (i * large->stride[1] + j * large->stride[2]) * bytes;
    view.stride[1] *= r;
    view.stride[2] *= r;
    return view;
}

/* Channels first, first + step, ... of a small image. */
static bs_operand phase_of_small(const bs_operand *small, int32_t step, int32_t first)
{
    bs_operand view = *small;
    view.data = (char *)small->data + first * small->stride[0] * (ptrdiff_t)bs_dtype_bytes(small->dtype);
    view.stride[0] *= step;
    view.dim[0] /= step;
    return view;
}

/* Coordinates q with low <= q r + i < high. */
static void phase_range(bs_span *span, int32_t axis, int32_t low, int32_t high, int32_t r, int32_t i)
{
    span->low[axis + 1] = bs_ceil_div(low - i, r);
    span->count[axis + 1] = bs_ceil_div(high - i, r) - span->low[axis + 1];
}

static bs_status pixel_shuffle_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    const int32_t r = pixel_shuffle_factor(call->node);
    const size_t bytes = bs_dtype_bytes(out->dtype);
    for (int32_t phase = 0; phase < r * r; phase++) {
        const bs_operand to = phase_of_large(out, r, phase / r, phase % r),
                         from = phase_of_small(&call->in[0], r * r, phase);
        bs_span span;
        bs_span_box(&span, out, call->rows);
        phase_range(&span, 1, out->rect.y0, out->rect.y1, r, phase / r);
        phase_range(&span, 2, out->rect.x0, out->rect.x1, r, phase % r);
        bs_span_add(&span, &to, NULL, 0);
        bs_span_add(&span, &from, NULL, 0);
        bs_span_run(&span, bs_span_copy, &bytes);
    }
    return BS_OK;
}

/* A frame that does not divide by r (its extents are symbols) is refused here: rows would be missing. */
static bs_status pixel_unshuffle_run(const bs_call *call)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const int32_t r = pixel_shuffle_factor(call->node);
    const size_t bytes = bs_dtype_bytes(out->dtype);
    if (in->frame_h % r != 0 || in->frame_w % r != 0)
        return BS_ERROR_SHAPE;
    for (int32_t phase = 0; phase < r * r; phase++) {
        const bs_operand to = phase_of_small(out, r * r, phase), from = phase_of_large(in, r, phase / r, phase % r);
        bs_span span;
        bs_span_box(&span, out, call->rows);
        span.count[1] = to.dim[0];
        bs_span_add(&span, &to, NULL, 0);
        bs_span_add(&span, &from, NULL, 0);
        bs_span_run(&span, bs_span_copy, &bytes);
    }
    return BS_OK;
}

const bs_op bs_op_pixel_shuffle = {.name = "pixel_shuffle",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .flags = BS_OP_SPATIAL | BS_OP_CLAMPS,
                                   .params_bytes = sizeof(bs_pixel_shuffle_desc),
                                   BS_FIELDS(pixel_shuffle_fields),
                                   .infer = pixel_shuffle_infer,
                                   .halo = pixel_shuffle_halo,
                                   .run = pixel_shuffle_run};

const bs_op bs_op_pixel_unshuffle = {.name = "pixel_unshuffle",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .flags = BS_OP_SPATIAL | BS_OP_CLAMPS,
                                     .params_bytes = sizeof(bs_pixel_shuffle_desc),
                                     BS_FIELDS(pixel_shuffle_fields),
                                     .infer = pixel_unshuffle_infer,
                                     .halo = pixel_unshuffle_halo,
                                     .run = pixel_unshuffle_run};

bs_value bs_pixel_shuffle(bs_graph *graph, bs_value x, int32_t r)
{
    const bs_pixel_shuffle_desc desc = {NULL, r};
    return bs_op_build(graph, &bs_op_pixel_shuffle, &x.id, 1, &desc);
}

bs_value bs_pixel_unshuffle(bs_graph *graph, bs_value x, int32_t r)
{
    const bs_pixel_shuffle_desc desc = {NULL, r};
    return bs_op_build(graph, &bs_op_pixel_unshuffle, &x.id, 1, &desc);
}
/* ==== end src/ops/pixel_shuffle.c ============================================================= */

/* ==== begin src/ops/pool2d.c ================================================================== */
/* ops/pool2d.c - average and maximum over windows, or over everything.
 * Relies on op.h. Must never count what lies outside the frame (unless count_pad says so): windows are clipped by the
 * operand's place in its frame. Global pooling sees the core only, so that every pixel counts once. */
/* #include "ops/common.h" */

static const bs_field pool2d_fields[] = {{"kind", 'i'}, {"kernel", 'i'}, {"stride", 'i'},
                                         {"pad", 'i'},  {"global", 'i'}, {"count_pad", 'i'}};

static bs_window pool2d_window(const bs_pool2d_desc *desc)
{
    const int32_t kernel = bs_or_default(desc->kernel, 2);
    const bs_window window = {kernel, kernel, bs_or_default(desc->stride, kernel), desc->pad, desc->pad, 1};
    return window;
}

static bool pool2d_infer(bs_infer *infer)
{
    const bs_pool2d_desc *desc = infer->params;
    const bs_window window = pool2d_window(desc);
    if (!bs_infer_field(infer, "kind", desc->kind, 0, BS_POOL_MAX) ||
        !bs_infer_field(infer, "kernel", desc->kernel, 0, 255) ||
        !bs_infer_field(infer, "stride", desc->stride, 0, 255) || !bs_infer_dtype(infer, 0, BS_F32) ||
        !bs_infer_rank(infer, 0, 3, 3))
        return false;
    if (!desc->global)
        return bs_infer_field(infer, "pad", desc->pad, 0, window.kernel_h / 2) && bs_infer_window(infer, &window);
    infer->out[0].rank = 1;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

static int32_t pool2d_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = pool2d_window(desc);
    (void)graph, (void)index;
    return desc->global ? 0 : bs_window_halo(&window, out_margin);
}

static double pool2d_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_pool2d_desc *desc = node->params;
    const bs_window window = pool2d_window(desc);
    if (desc->global)
        return bs_value_work(graph, bs_node_in(graph, node)[0]);
    return bs_value_work(graph, node->first_out) * window.kernel_h * window.kernel_w;
}

/* ----------------------------------------------------------------------------------------------------- windows */

/* Taps first .. end of a window that starts at `at` in a frame of `extent`. */
typedef struct pool2d_range {
    int32_t first, end;
} pool2d_range;

static pool2d_range pool2d_clip(int32_t at, int32_t kernel, int32_t extent)
{
    const pool2d_range range = {bs_max_i32(0, -at), bs_min_i32(kernel, extent - at)};
    return range;
}

static void pool2d_pixel(const bs_call *call, const float *window, pool2d_range y, pool2d_range x, float *out)
{
    const bs_pool2d_desc *desc = call->params;
    const bs_operand *in = &call->in[0];
    const ptrdiff_t step = in->stride[0], out_step = call->out[0].stride[0];
    const int32_t channels = call->out[0].dim[0], kernel = bs_or_default(desc->kernel, 2);
    for (int32_t ky = y.first; ky < y.end; ky++)
        for (int32_t kx = x.first; kx < x.end; kx++) {
            const float *tap = window + ky * in->stride[1] + kx * in->stride[2];
            const bool first = ky == y.first && kx == x.first;
            for (int32_t c = 0; c < channels; c++) {
                const float v = tap[c * step], old = first ? v : out[c * out_step];
                out[c * out_step] = first ? v : desc->kind == BS_POOL_MAX ? (v > old ? v : old) : old + v;
            }
        }
    if (desc->kind == BS_POOL_MAX)
        return;
    const float count = (float)(desc->count_pad ? kernel * kernel : (y.end - y.first) * (x.end - x.first));
    for (int32_t c = 0; c < channels; c++)
        out[c * out_step] /= count;
}

static void pool2d_windows(const bs_call *call, int32_t row)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const bs_window w = pool2d_window(call->params);
    const float *from = bs_f32_at(in, row * in->row_stride);
    float *to = bs_f32_at(out, row * out->row_stride);
    for (int32_t oy = out->rect.y0; oy < out->rect.y1; oy++) {
        const int32_t y = oy * w.stride - w.pad_h;
        const pool2d_range rows = pool2d_clip(y + in->frame_y, w.kernel_h, in->frame_h);
        for (int32_t ox = out->rect.x0; ox < out->rect.x1; ox++) {
            const int32_t x = ox * w.stride - w.pad_w;
            pool2d_pixel(call, from + y * in->stride[1] + x * in->stride[2], rows,
                         pool2d_clip(x + in->frame_x, w.kernel_w, in->frame_w),
                         to + oy * out->stride[1] + ox * out->stride[2]);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------ global */

#define POOL_BLOCK 64 /* channels at a time: their sums stay on the stack, whatever the number of channels */

/* Sums go pixel by pixel into a row, row by row into the total: short sums lose little in f32. */
static void pool2d_global_sum(const bs_operand *in, const float *from, int32_t channels, float *total)
{
    memset(total, 0, sizeof(float) * POOL_BLOCK);
    for (int32_t y = 0; y < in->dim[1]; y++) {
        float line[POOL_BLOCK] = {0};
        for (int32_t x = 0; x < in->dim[2]; x++) {
            const float *pixel = from + y * in->stride[1] + x * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                line[c] += pixel[c * in->stride[0]];
        }
        for (int32_t c = 0; c < channels; c++)
            total[c] += line[c];
    }
}

static void pool2d_global_max(const bs_operand *in, const float *from, int32_t channels, float *top)
{
    for (int32_t c = 0; c < channels; c++)
        top[c] = from[c * in->stride[0]];
    for (int32_t y = 0; y < in->dim[1]; y++)
        for (int32_t x = 0; x < in->dim[2]; x++) {
            const float *pixel = from + y * in->stride[1] + x * in->stride[2];
            for (int32_t c = 0; c < channels; c++)
                top[c] = pixel[c * in->stride[0]] > top[c] ? pixel[c * in->stride[0]] : top[c];
        }
}

/* A cell without pixels (its frame shrank below it) gives zero. */
static void pool2d_global(const bs_call *call, int32_t row)
{
    const bs_pool2d_desc *desc = call->params;
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const float area = (float)in->dim[1] * (float)in->dim[2];
    float *to = bs_f32_at(out, row * out->row_stride);
    for (int32_t first = 0; first < in->dim[0]; first += POOL_BLOCK) {
        const float *from = bs_f32_at(in, row * in->row_stride + first * in->stride[0]);
        const int32_t channels = bs_min_i32(POOL_BLOCK, in->dim[0] - first);
        float block[POOL_BLOCK] = {0};
        if (area > 0.0f && desc->kind == BS_POOL_MAX)
            pool2d_global_max(in, from, channels, block);
        else if (area > 0.0f)
            pool2d_global_sum(in, from, channels, block);
        for (int32_t c = 0; c < channels; c++)
            to[(first + c) * out->stride[0]] = desc->kind == BS_POOL_MAX || area == 0.0f ? block[c] : block[c] / area;
    }
}
#undef POOL_BLOCK

static bs_status pool2d_run(const bs_call *call)
{
    const bs_pool2d_desc *desc = call->params;
    for (int32_t row = 0; row < call->rows; row++) {
        if (desc->global)
            pool2d_global(call, row);
        else
            pool2d_windows(call, row);
    }
    return BS_OK;
}

const bs_op bs_op_pool2d = {.name = "pool2d",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = BS_OP_SPATIAL | BS_OP_CLAMPS,
                            .params_bytes = sizeof(bs_pool2d_desc),
                            BS_FIELDS(pool2d_fields),
                            .infer = pool2d_infer,
                            .halo = pool2d_halo,
                            .flops = pool2d_flops,
                            .run = pool2d_run};

bs_value bs_pool2d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc)
{
    return bs_op_build(graph, &bs_op_pool2d, &x.id, 1, desc);
}
/* ==== end src/ops/pool2d.c ==================================================================== */

/* ==== begin src/ops/reshape.c ================================================================= */
/* ops/reshape.c - reshape and transpose: elements keep their values, not their places. Elements of any type.
 * Relies on span.h. Must never be used on images of a patch domain: a cell holds only part of the elements. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

/* dim: a constant; 0 - a for a symbol copied from dimension a - 1 of the operand (so -1 is dimension 0);
 * BS_RESHAPE_REST once: what is left. Operands are named by place, so that files need no symbols here. */
typedef struct bs_reshape_desc {
    const char *name;
    int32_t rank, dim[BS_MAX_RANK];
} bs_reshape_desc;
#define BS_RESHAPE_REST INT32_MIN

static const bs_field reshape_fields[] = {{"rank", 'i'}, {"dim0", 'i'}, {"dim1", 'i'}, {"dim2", 'i'}, {"dim3", 'i'}};
static const bs_field transpose_fields[] = {{"order0", 'i'}, {"order1", 'i'}, {"order2", 'i'}, {"order3", 'i'}};

/* -------------------------------------------------------------------------------------------------- shape rule */

/* Elements on both sides as constant x symbols; symbols that stand on both sides cancel. */
typedef struct reshape_count {
    int64_t in, out;             /* products of constants */
    bs_dim_id left[BS_MAX_RANK]; /* symbols of the operand that the result does not copy; -1 none */
    int32_t symbols, rest;       /* how many; axis of BS_RESHAPE_REST or -1 */
} reshape_count;

static void reshape_count_operand(const bs_infer *infer, reshape_count *count)
{
    const bs_value_info *x = infer->in[0];
    memset(count, 0, sizeof *count);
    count->in = count->out = 1;
    count->rest = -1;
    for (int32_t d = 0; d < x->rank; d++) {
        const bool constant = bs_dim_is_const(infer->graph, x->dims[d]);
        count->left[d] = constant ? -1 : x->dims[d];
        count->symbols += !constant;
        count->in *= constant ? bs_dim_max(infer->graph, x->dims[d]) : 1;
    }
}

/* One dimension of the result. */
static bool reshape_take(bs_infer *infer, reshape_count *count, int32_t axis, int32_t code)
{
    const int32_t source = -code - 1;
    if (code == BS_RESHAPE_REST) {
        if (count->rest >= 0)
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimensions %d and %d are both to be worked out", count->rest,
                                 axis);
        count->rest = axis;
        return true;
    }
    if (code > 0) {
        count->out = count->out > ((int64_t)1 << 40) / code ? (int64_t)1 << 40 : count->out * code;
        infer->out[0].dims[axis] = bs_dim_const(infer->graph, code);
        return infer->out[0].dims[axis] >= 0;
    }
    if (code == 0 || source >= infer->in[0]->rank || count->left[source] < 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d is not a constant, -1, or a symbol of the operand",
                             axis);
    infer->out[0].dims[axis] = count->left[source];
    count->left[source] = -1;
    count->symbols--;
    return true;
}

/* in/out x the symbol that is left, if any. Element counts are below 2^40 (outputs_sound), so products fit. */
static bool reshape_rest(bs_infer *infer, reshape_count *count)
{
    bs_dim_id symbol = -1;
    for (int32_t d = 0; d < infer->in[0]->rank; d++)
        symbol = count->left[d] >= 0 ? count->left[d] : symbol;
    const bs_dim_info *dim = symbol >= 0 ? &infer->graph->dims[symbol] : NULL;
    if (dim && dim->kind == BS_DIM_DERIVED && dim->add == 0 && dim->div == 1) { /* a multiple: its factor can divide */
        count->in *= dim->mul;
        symbol = dim->parent;
    }
    if (count->symbols > 1)
        return bs_infer_fail(infer, BS_ERROR_UNSUPPORTED, "dimension %d would be a product of symbols", count->rest);
    if (count->in % count->out != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %d: %lld elements do not divide by %lld", count->rest,
                             (long long)count->in, (long long)count->out);
    const int64_t factor = count->in / count->out;
    infer->out[0].dims[count->rest] =
        symbol < 0 ? bs_dim_const(infer->graph, factor) : bs_dim_derive(infer->graph, symbol, factor, 0, 1);
    return infer->out[0].dims[count->rest] >= 0;
}

static bool reshape_infer(bs_infer *infer)
{
    const bs_reshape_desc *desc = infer->params;
    char shape[96];
    reshape_count count;
    if (!bs_infer_field(infer, "rank", desc->rank, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 0))
        return false;
    reshape_count_operand(infer, &count);
    infer->out[0].rank = desc->rank;
    for (int32_t d = 0; d < desc->rank; d++)
        if (!reshape_take(infer, &count, d, desc->dim[d]))
            return false;
    if (count.rest >= 0)
        return reshape_rest(infer, &count) && bs_infer_no_new_image(infer);
    if (count.in != count.out || count.symbols != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "%s does not have %lld elements",
                             bs_value_text(infer->graph, infer->in[0], shape, sizeof shape), (long long)count.out);
    return bs_infer_no_new_image(infer);
}

/* ----------------------------------------------------------------------------------------------------- reshape */

static bool dense_row(const bs_operand *o)
{
    ptrdiff_t step = 1;
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        if (o->dim[d] != 1 && o->stride[d] != step)
            return false;
        step *= o->dim[d];
    }
    return true;
}

static int64_t row_elements(const bs_operand *o)
{
    int64_t elements = 1;
    for (int32_t d = 0; d < o->rank; d++)
        elements *= o->dim[d];
    return elements;
}

/* A row-major counter over the places of one operand. */
typedef struct reshape_place {
    int32_t index[BS_MAX_RANK];
    ptrdiff_t offset;
} reshape_place;

static void place_next(reshape_place *place, const bs_operand *o)
{
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        place->offset += o->stride[d];
        if (++place->index[d] < o->dim[d])
            return;
        place->offset -= o->stride[d] * o->dim[d];
        place->index[d] = 0;
    }
}

static void reshape_row(const bs_operand *in, const bs_operand *out, int32_t row, size_t bytes)
{
    const int64_t elements = row_elements(out);
    char *to = (char *)out->data + row * out->row_stride * (ptrdiff_t)bytes;
    const char *from = (const char *)in->data + row * in->row_stride * (ptrdiff_t)bytes;
    reshape_place source = {{0}, 0}, target = {{0}, 0};
    if (dense_row(in) && dense_row(out)) {
        memcpy(to, from, bytes * (size_t)elements);
        return;
    }
    for (int64_t i = 0; i < elements; i++) {
        memcpy(to + target.offset * (ptrdiff_t)bytes, from + source.offset * (ptrdiff_t)bytes, bytes);
        place_next(&source, in);
        place_next(&target, out);
    }
}

static bs_status reshape_run(const bs_call *call)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    if (row_elements(in) != row_elements(out))
        return BS_ERROR_SHAPE;
    for (int32_t row = 0; row < call->rows; row++)
        reshape_row(in, out, row, bs_dtype_bytes(out->dtype));
    return BS_OK;
}

const bs_op bs_op_reshape = {.name = "reshape",
                             .min_in = 1,
                             .max_in = 1,
                             .params_bytes = sizeof(bs_reshape_desc),
                             BS_FIELDS(reshape_fields),
                             .infer = reshape_infer,
                             .run = reshape_run};

/* A public dimension as a code of bs_reshape_desc; 0 if there is none. */
static int32_t reshape_code(bs_graph *graph, const bs_value_info *x, bs_dim dim)
{
    if (dim == -1)
        return BS_RESHAPE_REST;
    if (dim < 1 || (dim >= BS_UPTO(0) && dim < 2 * BS_UPTO(0)))
        return 0; /* a new anonymous symbol cannot equal any of the operand's */
    const bs_dim_id id = bs_dim_resolve(graph, dim);
    if (id >= 0 && bs_dim_is_const(graph, id))
        return (int32_t)bs_dim_max(graph, id);
    for (int32_t d = 0; id >= 0 && d < x->rank; d++)
        if (x->dims[d] == id)
            return -d - 1;
    return 0;
}

bs_value bs_reshape(bs_graph *graph, bs_value x, bs_shape shape)
{
    bs_reshape_desc desc = {NULL, shape.rank, {0}};
    const bool sound = graph && graph->status == BS_OK && x.id > 0 && x.id < graph->n_values;
    for (int32_t d = 0; d < shape.rank && d < BS_MAX_RANK && sound; d++)
        desc.dim[d] = reshape_code(graph, bs_value_get(graph, x.id), shape.dim[d]);
    return bs_op_build(graph, &bs_op_reshape, &x.id, 1, &desc);
}

/* --------------------------------------------------------------------------------------------------- transpose */

/* Dimension d of the result is dimension order[d] of the operand. All zero: the last two change places. */
static void transpose_order(const bs_transpose_desc *desc, int32_t rank, int32_t *order)
{
    bool given = rank < 2;
    for (int32_t d = 0; d < BS_MAX_RANK; d++) {
        given = given || desc->order[d] != 0;
        order[d] = desc->order[d];
    }
    if (given)
        return;
    for (int32_t d = 0; d < rank; d++)
        order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
}

static bool transpose_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    int32_t order[BS_MAX_RANK];
    uint32_t seen = 0;
    if (!bs_infer_rank(infer, 0, 1, BS_MAX_RANK) || !bs_infer_whole(infer, 0))
        return false;
    transpose_order(infer->params, x->rank, order);
    for (int32_t d = 0; d < x->rank; d++) {
        if (order[d] < 0 || order[d] >= x->rank || seen >> order[d] & 1u)
            return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "order[%d] = %d is out of range or there twice", d,
                                 order[d]);
        seen |= 1u << order[d];
        infer->out[0].dims[d] = x->dims[order[d]];
    }
    return true;
}

static bs_status transpose_run(const bs_call *call)
{
    const bs_operand *in = &call->in[0], *out = &call->out[0];
    const size_t bytes = bs_dtype_bytes(out->dtype);
    bs_operand view = *in;
    int32_t order[BS_MAX_RANK];
    transpose_order(call->params, in->rank, order);
    for (int32_t d = 0; d < in->rank; d++) {
        view.dim[d] = in->dim[order[d]];
        view.stride[d] = in->stride[order[d]];
    }
    bs_span span;
    bs_span_open(&span, out, call->rows);
    bs_span_add(&span, &view, NULL, 0);
    bs_span_run(&span, bs_span_copy, &bytes);
    return BS_OK;
}

const bs_op bs_op_transpose = {.name = "transpose",
                               .min_in = 1,
                               .max_in = 1,
                               .params_bytes = sizeof(bs_transpose_desc),
                               BS_FIELDS(transpose_fields),
                               .infer = transpose_infer,
                               .run = transpose_run};

bs_value bs_transpose(bs_graph *graph, bs_value x, const bs_transpose_desc *desc)
{
    return bs_op_build(graph, &bs_op_transpose, &x.id, 1, desc);
}
#undef BS_RESHAPE_REST
/* ==== end src/ops/reshape.c =================================================================== */

/* ==== begin src/ops/resize.c ================================================================== */
/* ops/resize.c - enlargement by an integer factor, half-pixel centres, the frame's edges replicated.
 * Relies on kernels/elementwise.h. Must never read beyond the frame: taps are clamped to it, and halo() asks for all
 * others. Weights depend on the phase (output coordinate modulo factor) alone, so a pixel is the same in whichever
 * cell it is computed.
 *
 * Integer bicubic x2 (u8, u16, a = -0.5): the weights -3 29 111 -9 over 128 are exact, both passes stay in integers,
 * and the result is (sum + 2^13) >> 14, saturated: the same codes on every tier. */
/* #include "kernels/elementwise.h" */
/* #include "ops/common.h" */

static const bs_field resize_fields[] = {{"kind", 'i'}, {"factor", 'i'}, {"cubic_a", 'f'}, {"code_bits", 'i'}};

#define BS_RESIZE_MOST 16 /* the largest factor: phases are tabulated on the stack */

static int32_t resize_factor(const bs_resize_desc *desc) { return bs_or_default(desc->factor, 2); }

static float resize_cubic_a(const bs_resize_desc *desc) { return desc->cubic_a == 0.0f ? -0.5f : desc->cubic_a; }

static bool resize_in_integers(const bs_resize_desc *desc, bs_dtype dtype)
{
    return (dtype == BS_U8 || dtype == BS_U16) && desc->kind == BS_RESIZE_BICUBIC && resize_factor(desc) == 2 &&
           resize_cubic_a(desc) == -0.5f;
}

static bool resize_infer(bs_infer *infer)
{
    const bs_resize_desc *desc = infer->params;
    const int32_t factor = resize_factor(desc);
    const bs_dtype dtype = infer->in[0]->dtype;
    if (dtype != BS_F32 && dtype != BS_U8 && dtype != BS_U16)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, expected f32, u8 or u16", bs_dtype_name(dtype));
    return bs_infer_rank(infer, 0, 3, 3) && bs_infer_field(infer, "kind", desc->kind, 0, BS_RESIZE_BICUBIC) &&
           bs_infer_field(infer, "factor", desc->factor, 0, BS_RESIZE_MOST) &&
           bs_infer_field(infer, "code_bits", desc->code_bits, 0, 16) && bs_infer_extent(infer, 1, factor, 0, 1) &&
           bs_infer_extent(infer, 2, factor, 0, 1) && bs_infer_scale(infer, factor, 1);
}

static int32_t resize_halo(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin)
{
    const bs_resize_desc *desc = node->params;
    (void)graph, (void)index;
    return (int32_t)bs_ceil_div(out_margin, resize_factor(desc)) + desc->kind; /* taps reach 0, 1, 2 pixels */
}

static double resize_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_resize_desc *desc = node->params;
    const double taps = desc->kind == BS_RESIZE_BICUBIC ? 4 : desc->kind == BS_RESIZE_BILINEAR ? 2 : 1;
    return bs_value_work(graph, node->first_out) * 2.0 * taps * (taps + 1.0);
}

/* ----------------------------------------------------------------------------------------------------- phases */

/* Output r of each group of `factor` takes `taps` inputs from `start` relative to the group's own. */
typedef struct resize_phase {
    int32_t start;
    float weight[4];
    int32_t code_weight[4]; /* x 128 */
} resize_phase;

typedef struct resize_job {
    const bs_call *call;
    int32_t factor, taps;
    bool integers;
    int32_t top; /* largest code */
    resize_phase phase[BS_RESIZE_MOST];
} resize_job;

/* Keys' kernel; a = -0.5 reproduces quadratics. */
static float resize_cubic(float a, float distance)
{
    const float x = fabsf(distance);
    if (x <= 1.0f)
        return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    return ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a;
}

static resize_phase resize_phase_of(const bs_resize_desc *desc, int32_t r)
{
    const float offset = ((float)r + 0.5f) / (float)resize_factor(desc) - 0.5f,
                t = offset < 0.0f ? offset + 1.0f : offset;
    resize_phase phase = {0, {1.0f, 0.0f, 0.0f, 0.0f}, {0, 0, 0, 0}};
    if (desc->kind == BS_RESIZE_NEAREST)
        return phase;
    phase.start = offset < 0.0f ? -1 : 0;
    phase.weight[0] = 1.0f - t;
    phase.weight[1] = t;
    if (desc->kind == BS_RESIZE_BILINEAR)
        return phase;
    phase.start--;
    for (int32_t k = 0; k < 4; k++) {
        phase.weight[k] = resize_cubic(resize_cubic_a(desc), t + 1.0f - (float)k);
        phase.code_weight[k] = (int32_t)(phase.weight[k] * 128.0f);
    }
    return phase;
}

static void resize_job_fill(resize_job *job, const bs_call *call)
{
    const bs_resize_desc *desc = call->params;
    const bs_dtype dtype = call->out[0].dtype;
    job->call = call;
    job->factor = resize_factor(desc);
    job->taps = desc->kind == BS_RESIZE_BICUBIC ? 4 : desc->kind == BS_RESIZE_BILINEAR ? 2 : 1;
    job->integers = resize_in_integers(desc, dtype);
    job->top = dtype == BS_U8 ? 255 : (1 << bs_or_default(desc->code_bits, 16)) - 1;
    for (int32_t r = 0; r < job->factor; r++)
        job->phase[r] = resize_phase_of(desc, r);
}

/* Offsets of the taps of one output coordinate along one axis, and its phase. */
typedef struct resize_taps {
    ptrdiff_t offset[4];
    const resize_phase *phase;
} resize_taps;

static resize_taps resize_taps_of(const resize_job *job, int32_t at, ptrdiff_t stride, int32_t origin, int32_t extent)
{
    const int32_t group = (int32_t)bs_floor_div(at, job->factor);
    resize_taps taps = {{0, 0, 0, 0}, &job->phase[at - group * job->factor]};
    for (int32_t k = 0; k < job->taps; k++) {
        const int32_t tap = bs_clamp_i32(group + taps.phase->start + k + origin, 0, extent - 1) - origin;
        taps.offset[k] = tap * stride;
    }
    return taps;
}

/* ----------------------------------------------------------------------------------------------------- kernels */

static float resize_sample(const resize_job *job, const void *data, bs_dtype dtype, int64_t at, const resize_taps *y,
                           const resize_taps *x)
{
    float sum = 0.0f;
    for (int32_t j = 0; j < job->taps; j++) {
        float line = 0.0f;
        for (int32_t i = 0; i < job->taps; i++)
            line += x->phase->weight[i] * bs_load_f32(data, dtype, at + y->offset[j] + x->offset[i]);
        sum += y->phase->weight[j] * line;
    }
    return sum;
}

static int32_t resize_code(const void *data, bs_dtype dtype, int64_t at)
{
    return dtype == BS_U8 ? ((const uint8_t *)data)[at] : ((const uint16_t *)data)[at];
}

/* At most 65535 (140^2 + 12^2) = 1.3e9: fits 32 bits. */
static int32_t resize_sample_code(const void *data, bs_dtype dtype, int64_t at, const resize_taps *y,
                                  const resize_taps *x)
{
    int32_t sum = 0;
    for (int32_t j = 0; j < 4; j++) {
        int32_t line = 0;
        for (int32_t i = 0; i < 4; i++)
            line += x->phase->code_weight[i] * resize_code(data, dtype, at + y->offset[j] + x->offset[i]);
        sum += y->phase->code_weight[j] * line;
    }
    return (int32_t)bs_floor_div((int64_t)sum + (1 << 13), 1 << 14);
}

static void resize_store(const resize_job *job, const bs_operand *out, int64_t at, int32_t code)
{
    const int32_t saturated = bs_clamp_i32(code, 0, job->top);
    if (out->dtype == BS_U8)
        ((uint8_t *)out->data)[at] = (uint8_t)saturated;
    else
        ((uint16_t *)out->data)[at] = (uint16_t)saturated;
}

static void resize_pixel(const resize_job *job, int64_t from, int64_t to, const resize_taps *y, const resize_taps *x)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    for (int32_t c = 0; c < out->dim[0]; c++, from += in->stride[0], to += out->stride[0]) {
        if (job->integers)
            resize_store(job, out, to, resize_sample_code(in->data, in->dtype, from, y, x));
        else if (out->dtype == BS_F32)
            ((float *)out->data)[to] = resize_sample(job, in->data, BS_F32, from, y, x);
        else
            resize_store(job, out, to, (int32_t)rintf(resize_sample(job, in->data, in->dtype, from, y, x)));
    }
}

static void resize_reference(const resize_job *job, int32_t row)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    const bs_rect r = out->rect;
    for (int32_t oy = r.y0; oy < r.y1; oy++) {
        const resize_taps y = resize_taps_of(job, oy, in->stride[1], in->frame_y, in->frame_h);
        for (int32_t ox = r.x0; ox < r.x1; ox++) {
            const resize_taps x = resize_taps_of(job, ox, in->stride[2], in->frame_x, in->frame_w);
            resize_pixel(job, row * in->row_stride, row * out->row_stride + oy * out->stride[1] + ox * out->stride[2],
                         &y, &x);
        }
    }
}

/* ----------------------------------------------------------------------------------------------- bicubic x2, fast
 * The kernels fill whole groups of 2 x 2. A rectangle may begin or end within a group (an odd halo): such groups go
 * through a small buffer, by the same kernel, so that a pixel's bits do not depend on the rectangle. */

/* f32: strides choose between this and the reference, which rounds otherwise; a value's strides are fixed in a plan. */
#define BS_RESIZE_PIECE 64 /* input columns of a buffered piece */

static bool resize_is_fast(const resize_job *job)
{
    const bs_resize_desc *desc = job->call->params;
    const bool doubles = desc->kind == BS_RESIZE_BICUBIC && job->factor == 2 && resize_cubic_a(desc) == -0.5f;
    const bool lines = job->call->in[0].stride[2] == 1 && job->call->out[0].stride[2] == 1;
    return doubles && lines && job->call->plan->tier != BS_TIER_SCALAR;
}

/* One plane: addresses of element (0, 0) of operand and result. */
typedef struct resize_plane {
    const resize_job *job;
    const char *in;
    char *out;
    ptrdiff_t bytes;
} resize_plane;

/* Input region at (y, x) of h x w to `out`. */
static void resize_double(const resize_plane *p, int32_t y, int32_t x, int32_t h, int32_t w, void *out,
                          ptrdiff_t out_row)
{
    const bs_operand *in = &p->job->call->in[0];
    const bs_tier tier = p->job->call->plan->tier;
    const int32_t fy = y + in->frame_y, fx = x + in->frame_x;
    const bs_margins margins = {bs_min_i32(2, fy), bs_min_i32(2, in->frame_h - fy - h), bs_min_i32(2, fx),
                                bs_min_i32(2, in->frame_w - fx - w)};
    const bs_bicubic2x task = {
        p->in + (y * in->stride[1] + x) * p->bytes, in->stride[1], out, out_row, h, w, margins, (uint16_t)p->job->top};
    if (in->dtype == BS_F32)
        bs_bicubic2x_f32(tier, &task);
    else if (in->dtype == BS_U8)
        bs_bicubic2x_u8(tier, &task);
    else
        bs_bicubic2x_u16(tier, &task);
}

/* Input row y, columns x .. x + w (at most BS_RESIZE_PIECE): what of their groups lies in the rectangle. */
static void resize_piece(const resize_plane *p, int32_t y, int32_t x, int32_t w)
{
    const bs_operand *out = &p->job->call->out[0];
    float buffer[2][2 * BS_RESIZE_PIECE];
    const int32_t from = bs_max_i32(2 * x, out->rect.x0), to = bs_min_i32(2 * (x + w), out->rect.x1);
    resize_double(p, y, x, 1, w, buffer, (ptrdiff_t)sizeof buffer[0] / p->bytes);
    for (int32_t oy = bs_max_i32(2 * y, out->rect.y0); oy < bs_min_i32(2 * y + 2, out->rect.y1); oy++)
        memcpy(p->out + (oy * out->stride[1] + from) * p->bytes,
               (const char *)buffer[oy - 2 * y] + (from - 2 * x) * p->bytes, (size_t)((to - from) * p->bytes));
}

static void resize_pieces(const resize_plane *p, int32_t y0, int32_t y1, int32_t x0, int32_t x1)
{
    for (int32_t y = y0; y < y1; y++)
        for (int32_t x = x0; x < x1; x += BS_RESIZE_PIECE)
            resize_piece(p, y, x, bs_min_i32(BS_RESIZE_PIECE, x1 - x));
}
#undef BS_RESIZE_PIECE

static void resize_plane_fast(const resize_plane *p)
{
    const bs_operand *out = &p->job->call->out[0];
    const bs_rect r = out->rect;
    const bs_rect all = {(int32_t)bs_floor_div(r.y0, 2), (int32_t)bs_ceil_div(r.y1, 2), (int32_t)bs_floor_div(r.x0, 2),
                         (int32_t)bs_ceil_div(r.x1, 2)};
    /* groups that lie inside as a whole */
    const int32_t y0 = (int32_t)bs_ceil_div(r.y0, 2), y1 = bs_max_i32(y0, (int32_t)bs_floor_div(r.y1, 2));
    const int32_t x0 = (int32_t)bs_ceil_div(r.x0, 2), x1 = bs_max_i32(x0, (int32_t)bs_floor_div(r.x1, 2));
    if (y1 > y0 && x1 > x0)
        resize_double(p, y0, x0, y1 - y0, x1 - x0, p->out + (2 * y0 * out->stride[1] + 2 * x0) * p->bytes,
                      out->stride[1]);
    resize_pieces(p, all.y0, y0, all.x0, all.x1);
    resize_pieces(p, y1, all.y1, all.x0, all.x1);
    resize_pieces(p, y0, y1, all.x0, x0);
    resize_pieces(p, y0, y1, x1, all.x1);
}

static void resize_fast(const resize_job *job, int32_t row)
{
    const bs_operand *in = &job->call->in[0], *out = &job->call->out[0];
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(in->dtype);
    for (int32_t c = 0; c < out->dim[0]; c++) {
        const resize_plane plane = {job, (const char *)in->data + (row * in->row_stride + c * in->stride[0]) * bytes,
                                    (char *)out->data + (row * out->row_stride + c * out->stride[0]) * bytes, bytes};
        resize_plane_fast(&plane);
    }
}

static bs_status resize_run(const bs_call *call)
{
    const bs_rect r = call->out[0].rect;
    resize_job job;
    if (r.y1 <= r.y0 || r.x1 <= r.x0)
        return BS_OK;
    resize_job_fill(&job, call);
    for (int32_t row = 0; row < call->rows; row++) {
        if (resize_is_fast(&job))
            resize_fast(&job, row);
        else
            resize_reference(&job, row);
    }
    return BS_OK;
}
#undef BS_RESIZE_MOST

const bs_op bs_op_resize = {.name = "resize",
                            .min_in = 1,
                            .max_in = 1,
                            .flags = BS_OP_SPATIAL | BS_OP_CLAMPS,
                            .params_bytes = sizeof(bs_resize_desc),
                            BS_FIELDS(resize_fields),
                            .infer = resize_infer,
                            .halo = resize_halo,
                            .flops = resize_flops,
                            .run = resize_run};

bs_value bs_resize(bs_graph *graph, bs_value x, const bs_resize_desc *desc)
{
    return bs_op_build(graph, &bs_op_resize, &x.id, 1, desc);
}
/* ==== end src/ops/resize.c ==================================================================== */

/* ==== begin src/ops.c ========================================================================= */
/* ops.c - the op table: one line an op.
 * Owns the list and what holds for every op. Relies on op.h. Must never know what any op does. */
/* #include "op.h" */

/* Append only: model files name ops, but the order here is also that of `inspect` and of the tests. */
#define BS_OP_LIST(X)                                                                                                 \
    /* structure*.c: lowered by the planner */                                                                        \
    X(input) X(state) X(state_write) X(output) X(patches) X(assemble) X(rows) X(collect) X(route) X(scatter)          \
    X(gather) X(route_price) X(route_score)                                                                           \
    /* ops/: kernels */                                                                                               \
    X(conv2d)                                                                                                         \
    X(deconv2d)                                                                                                       \
    X(linear)                                                                                                         \
    X(matmul)                                                                                                         \
    X(pixel_shuffle)                                                                                                  \
    X(pixel_unshuffle)                                                                                                \
    X(add)                                                                                                            \
    X(sub)                                                                                                            \
    X(mul)                                                                                                            \
    X(activation)                                                                                                     \
    X(prelu)                                                                                                          \
    X(clip)                                                                                                           \
    X(affine)                                                                                                         \
    X(convert)                                                                                                        \
    X(concat)                                                                                                         \
    X(slice)                                                                                                          \
    X(reshape)                                                                                                        \
    X(transpose)                                                                                                      \
    X(pad)                                                                                                            \
    X(softmax)                                                                                                        \
    X(layer_norm)                                                                                                     \
    X(batch_norm)                                                                                                     \
    X(pool2d)                                                                                                         \
    X(resize)                                                                                                         \
    X(reduce)                                                                                                         \
    X(argmax)                                                                                                         \
    X(topk)                                                                                                           \
    X(gather_rows)                                                                                                    \
    X(constant)                                                                                                       \
    X(patch_features)                                                                                                 \
    /* segments: structure_segment.c, ops/ */                                                                        \
    X(segments) X(state_append) X(segment_spread) X(segment_reduce) X(attention)

#define OP_EXTERN(name) extern const bs_op bs_op_##name;
BS_OP_LIST(OP_EXTERN)
#undef OP_EXTERN

static const bs_op *const op_table[] = {
#define OP_ENTRY(name) &bs_op_##name,
    BS_OP_LIST(OP_ENTRY)
#undef OP_ENTRY
};
#undef BS_OP_LIST

int32_t bs_op_count(void) { return (int32_t)(sizeof op_table / sizeof *op_table); }

const bs_op *bs_op_get(int32_t index) { return index >= 0 && index < bs_op_count() ? op_table[index] : NULL; }

int32_t bs_op_index(const char *name)
{
    for (int32_t i = 0; name && i < bs_op_count(); i++)
        if (strcmp(op_table[i]->name, name) == 0)
            return i;
    return -1;
}

/* ------------------------------------------------------------------------------------------------- weights */

uint64_t bs_weight_elements(const bs_weight_spec *spec)
{
    uint64_t elements = 1;
    for (int32_t d = 0; d < spec->rank; d++)
        elements = bs_mul_u64(elements, (uint64_t)spec->dim[d]);
    return elements;
}

uint64_t bs_weight_offset(const bs_weight_spec *specs, int32_t index)
{
    uint64_t offset = 0;
    for (int32_t i = 0; i < index; i++) {
        const uint64_t bytes = bs_mul_u64(bs_weight_elements(&specs[i]), bs_dtype_bytes(specs[i].dtype));
        offset = bs_add_u64(offset, bs_align_u64(bytes));
    }
    return offset;
}

/* --------------------------------------------------------------------------------------------- activations */

float bs_act_apply(bs_act act, float param, float slope, float x)
{
    switch (act) {
    case BS_RELU: return x > 0.0f ? x : 0.0f;
    case BS_LEAKY_RELU: return x > 0.0f ? x : x * (param == 0.0f ? 0.01f : param);
    case BS_PRELU: return x > 0.0f ? x : x * slope;
    case BS_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case BS_TANH: return tanhf(x);
    case BS_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case BS_SILU: return x / (1.0f + expf(-x));
    case BS_CLIP: {
        const float high = param == 0.0f ? 1.0f : param;
        return x > high ? high : x > 0.0f ? x : 0.0f;
    }
    case BS_ACT_NONE:
    case BS_ACT_COUNT: break;
    }
    return x;
}
/* ==== end src/ops.c =========================================================================== */

/* ==== begin src/structure.h =================================================================== */
/* structure.h - the structural ops: where values come from, cells, routers. They have no kernels: the planner
 * lowers them to moves and decisions. Their parameters, as stored in nodes and model files. */
#ifndef BS_STRUCTURE_H
#define BS_STRUCTURE_H

/* #include "op.h" */

extern const bs_op bs_op_input, bs_op_state, bs_op_state_write, bs_op_output, bs_op_patches, bs_op_assemble, bs_op_rows,
    bs_op_collect, bs_op_route, bs_op_scatter, bs_op_gather, bs_op_route_price, bs_op_route_score, bs_op_segments, bs_op_state_append,
    bs_op_segment_spread, bs_op_segment_reduce, bs_op_attention;

/* input, state. dim: > 0 a constant; < 0: -dim is symbol number (from 1, in order of creation) + 65536 (factor - 1). */
typedef struct bs_source_params {
    const char *name;
    int32_t dtype, rank, dim[BS_MAX_RANK];
} bs_source_params;

typedef struct bs_name_params {
    const char *name;
} bs_name_params;

typedef struct bs_router_params { /* scatter, route_price, route_score */
    const char *name;
    int32_t router, path;
} bs_router_params;

typedef struct bs_gather_params { /* operands: one a path (0: none), then the residual (0: none) */
    const char *name;
    int32_t router, mode;
} bs_gather_params;

/* Whether `node` is of this op. */
static inline bool bs_node_is(const bs_node *node, const bs_op *op)
{
    return bs_op_get(node->op) == op;
}

const char *bs_protocol_name(bs_protocol protocol);

/* Same dtype, rank and dimensions, in every run. */
bool bs_same_shape(const bs_value_info *a, const bs_value_info *b);

/* Whether a state_write or state_append of this state is there already. */
bool bs_state_is_written(const bs_graph *graph, int32_t state);

/* Segments (structure_segment.c). The two below refuse and return false.
 * Operand `index` is an input i32 [n], the same n as dims[0] of the lengths of `domain` (domain 0: any n). */
bool bs_infer_segment_input(bs_infer *infer, int32_t index, int32_t domain, const char *what);
/* Operand `index` is of a segment domain: which one, or 0 after refusing. */
int32_t bs_infer_segments(bs_infer *infer, int32_t index);
/* Of a segment domain: its number of segments. */
static inline bs_dim_id bs_segment_dim(const bs_graph *graph, int32_t domain)
{
    return graph->values[graph->domains[domain].lengths].dims[0];
}

#endif
/* ==== end src/structure.h ===================================================================== */

/* ==== begin src/structure.c =================================================================== */
/* structure.c - structural ops: inputs, states, outputs, cells, routers, branches.
 * Owns their builder functions and shape rules. Relies on graph.h. Must never run anything. */
/* #include "structure.h" */

/* ------------------------------------------------------------------------------------ inputs and outputs */

static bs_dim_id symbol_by_number(const bs_graph *g, int32_t number)
{
    for (bs_dim_id d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_SYMBOL && --number == 0)
            return d;
    return -1;
}

static int32_t symbol_number(const bs_graph *g, bs_dim_id id)
{
    int32_t number = 0;
    for (bs_dim_id d = 0; d <= id; d++)
        number += g->dims[d].kind == BS_DIM_SYMBOL;
    return number;
}

/* Encodes a dimension as bs_source_params.dim; 0 when it is none of the storable forms. */
static int32_t source_dim_encode(const bs_graph *g, bs_dim_id id)
{
    const bs_dim_info *d = &g->dims[id];
    if (d->kind == BS_DIM_CONST)
        return (int32_t)d->maximum;
    if (d->kind == BS_DIM_SYMBOL)
        return -symbol_number(g, id);
    if (d->add == 0 && d->div == 1 && d->mul <= 1024 && g->dims[d->parent].kind == BS_DIM_SYMBOL)
        return -(symbol_number(g, d->parent) + 65536 * (int32_t)(d->mul - 1));
    return 0;
}

static bs_dim_id source_dim_decode(bs_graph *g, int32_t code)
{
    if (code >= 0)
        return bs_dim_const(g, code);
    if (code < -(65536 * 1024))
        return -1;
    const bs_dim_id symbol = symbol_by_number(g, -code & 0xffff);
    return symbol < 0 ? -1 : bs_dim_derive(g, symbol, (-code >> 16) + 1, 0, 1);
}

static bool name_is_new(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (!infer->name[0])
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s needs a name", infer->op->name);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_op *op = bs_op_get(g->nodes[n].op);
        const bool named = op == &bs_op_input || op == &bs_op_state || op == &bs_op_output;
        if (named && strcmp(bs_node_name(&g->nodes[n]), infer->name) == 0)
            return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "two inputs, states or outputs are called \"%s\"", infer->name);
    }
    return true;
}

static bool source_infer(bs_infer *infer)
{
    const bs_source_params *p = infer->params;
    if (!name_is_new(infer))
        return false;
    if (p->dtype < 0 || p->dtype >= BS_DTYPE_COUNT || p->rank < 1 || p->rank > BS_MAX_RANK)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s \"%s\": dtype %d or rank %d is out of range", infer->op->name,
                             infer->name, p->dtype, p->rank);
    infer->out[0].dtype = (bs_dtype)p->dtype;
    infer->out[0].rank = p->rank;
    for (int32_t i = 0; i < p->rank; i++) {
        infer->out[0].dims[i] = p->dim[i] == 0 ? -1 : source_dim_decode(infer->graph, p->dim[i]);
        if (infer->out[0].dims[i] < 0)
            return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "%s \"%s\": dimension %d is not a constant or up to 1024 times a symbol",
                                 infer->op->name, infer->name, i);
    }
    return true;
}

static const bs_field source_fields[] = {{"dtype", 'i'}, {"rank", 'i'}, {"dim0", 'i'}, {"dim1", 'i'}, {"dim2", 'i'}, {"dim3", 'i'}};

const bs_op bs_op_input = {.name = "input", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_source_params),
                           .fields = source_fields, .n_fields = 6, .infer = source_infer};
const bs_op bs_op_state = {.name = "state", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_source_params),
                           .fields = source_fields, .n_fields = 6, .infer = source_infer};

static bs_value source_add(bs_graph *g, const bs_op *op, const char *name, bs_dtype dtype, bs_shape shape)
{
    const bs_value failed = {0};
    bs_source_params p = {name ? name : "", (int32_t)dtype, shape.rank, {0, 0, 0, 0}};
    if (!g || g->status != BS_OK)
        return failed;
    for (int32_t i = 0; i < shape.rank && i < BS_MAX_RANK; i++) {
        if (shape.dim[i] < 1 || (shape.dim[i] > (bs_dim)1 << 30 && shape.dim[i] < BS_UPTO(0)))
            bs_graph_fail(g, BS_ERROR_SHAPE, "%s \"%s\": dimension %d is %lld, expected 1 .. 2^30", op->name, p.name, i, (long long)shape.dim[i]);
        const bs_dim_id id = bs_dim_resolve(g, shape.dim[i]);
        p.dim[i] = id < 0 ? 0 : source_dim_encode(g, id);
    }
    return bs_graph_value(g, bs_op_index(op->name), NULL, 0, &p);
}

bs_value bs_input(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_input, name, dtype, shape);
}

bs_value bs_state(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape)
{
    return source_add(graph, &bs_op_state, name, dtype, shape);
}

static bool is_root(bs_infer *infer, int32_t index)
{
    if (infer->in[index]->domain == 0)
        return true;
    return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "%s \"%s\" takes a root value, operand %d is of domain %d",
                         infer->op->name, infer->name, index, infer->in[index]->domain);
}

static bool output_infer(bs_infer *infer)
{
    infer->n_out = 0;
    return name_is_new(infer) && is_root(infer, 0);
}

const bs_op bs_op_output = {.name = "output", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                            .params_bytes = sizeof(bs_name_params), .infer = output_infer};

void bs_output(bs_graph *graph, const char *name, bs_value value)
{
    const bs_name_params p = {name ? name : ""};
    bs_graph_add(graph, bs_op_index("output"), &value.id, 1, &p);
}

bool bs_same_shape(const bs_value_info *a, const bs_value_info *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* A state may hold more rows than are written: a row a cell, for the most cells there can be. */
static bool fits_state(const bs_graph *g, const bs_value_info *state, const bs_value_info *value)
{
    bs_value_info rows = *value;
    if (state->rank < 1 || value->rank < 1 || !bs_dim_is_const(g, state->dims[0]) || !bs_dim_is_const(g, value->dims[0]))
        return bs_same_shape(state, value);
    rows.dims[0] = state->dims[0];
    return bs_same_shape(state, &rows) && bs_dim_max(g, value->dims[0]) <= bs_dim_max(g, state->dims[0]);
}

bool bs_state_is_written(const bs_graph *graph, int32_t state)
{
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        const bool writes = bs_node_is(node, &bs_op_state_write) || bs_node_is(node, &bs_op_state_append);
        if (writes && bs_node_in(graph, node)[0] == state)
            return true;
    }
    return false;
}

static bool state_write_infer(bs_infer *infer)
{
    infer->n_out = 0;
    if (!is_root(infer, 0) || !is_root(infer, 1))
        return false;
    const bs_node *source = &infer->graph->nodes[infer->in[0]->node];
    if (!bs_node_is(source, &bs_op_state))
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "state_write: operand 0 is not a state");
    if (bs_state_is_written(infer->graph, infer->ids[0]))
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "state_write: state \"%s\" is written twice", bs_node_name(source));
    char a[128], b[128];
    if (!fits_state(infer->graph, infer->in[0], infer->in[1]))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "state_write \"%s\": %s %s is written to a state of %s %s", bs_node_name(source),
                             bs_dtype_name(infer->in[1]->dtype), bs_value_text(infer->graph, infer->in[1], b, sizeof b),
                             bs_dtype_name(infer->in[0]->dtype), bs_value_text(infer->graph, infer->in[0], a, sizeof a));
    return true;
}

const bs_op bs_op_state_write = {.name = "state_write", .min_in = 2, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                                 .params_bytes = sizeof(bs_name_params), .infer = state_write_infer};

void bs_state_write(bs_graph *graph, bs_value state, bs_value value)
{
    const int32_t in[2] = {state.id, value.id};
    bs_graph_add(graph, bs_op_index("state_write"), in, 2, NULL);
}

/* -------------------------------------------------------------------------------------------------- cells */

/* The integer k with dim = base x k in every run; 0 when there is none. */
static int32_t dim_ratio(const bs_graph *g, bs_dim_id base, bs_dim_id dim)
{
    const bs_dim_info *b = &g->dims[base], *d = &g->dims[dim];
    if (base == dim)
        return 1;
    if (b->kind == BS_DIM_CONST && d->kind == BS_DIM_CONST)
        return d->maximum % b->maximum == 0 ? (int32_t)(d->maximum / b->maximum) : 0;
    if (d->kind == BS_DIM_DERIVED && d->parent == base && d->add == 0 && d->div == 1)
        return (int32_t)d->mul;
    return 0;
}

static bool patches_join(bs_infer *infer, int32_t domain)
{
    const bs_graph *g = infer->graph;
    const bs_domain *d = &g->domains[g->domains[domain].patches < 0 ? 0 : g->domains[domain].patches];
    if (d->kind != BS_DOMAIN_PATCHES || d != &g->domains[domain])
        return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "patches \"%s\": `like` is not a value of a patch domain", infer->name);
    const int32_t ky = dim_ratio(g, d->height, infer->in[0]->dims[1]), kx = dim_ratio(g, d->width, infer->in[0]->dims[2]);
    if (ky < 1 || ky != kx)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "patches \"%s\": dimensions 1 and 2 are not the same multiple of those of `like`",
                             infer->name);
    infer->out[0].domain = domain;
    infer->out[0].scale_num = ky;
    return true;
}

static bool patches_infer(bs_infer *infer)
{
    const bs_patches_desc *p = infer->params;
    const bs_value_info *frame = infer->in[0];
    const int32_t size = bs_or_default(p->size, 64);
    if (!is_root(infer, 0))
        return false;
    if (frame->rank != 3 || size < 1 || size > 8192)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "patches \"%s\" takes a frame [C,H,W] and a size of 1..8192, not rank %d, size %d",
                             infer->name, frame->rank, size);
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    if (infer->n_in == 2)
        return patches_join(infer, infer->in[1]->domain);
    const int64_t rows = bs_ceil_div(bs_dim_max(infer->graph, frame->dims[1]), size) * bs_ceil_div(bs_dim_max(infer->graph, frame->dims[2]), size);
    const bs_domain domain = {.kind = BS_DOMAIN_PATCHES, .path = -1, .rows = -1, .height = frame->dims[1],
                              .width = frame->dims[2], .size = size, .max_rows = rows};
    infer->out[0].domain = bs_graph_domain(infer->graph, &domain);
    return infer->out[0].domain >= 0;
}

static const bs_field patches_fields[] = {{"size", 'i'}, {"like", 'i'}};
const bs_op bs_op_patches = {.name = "patches", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_patches_desc), .fields = patches_fields, .n_fields = 2, .infer = patches_infer};

bs_value bs_patches(bs_graph *graph, bs_value frame, const bs_patches_desc *desc)
{
    bs_patches_desc p = desc ? *desc : (bs_patches_desc){NULL, 0, 0};
    const int32_t in[2] = {frame.id, p.like};
    const int32_t n_in = p.like ? 2 : 1;
    p.like = 0; /* an operand now */
    return bs_graph_value(graph, bs_op_index("patches"), in, n_in, &p);
}

static bool assemble_infer(bs_infer *infer)
{
    const bs_graph *g = infer->graph;
    if (g->domains[infer->in[0]->domain].kind != BS_DOMAIN_PATCHES || infer->in[0]->rank != 3)
        return bs_graph_fail(infer->graph, BS_ERROR_DOMAIN, "assemble takes cells [C,h,w] of a patch domain; gather what a router scattered first");
    infer->out[0].domain = 0;
    infer->out[0].scale_num = infer->out[0].scale_den = 1;
    return true;
}

const bs_op bs_op_assemble = {.name = "assemble", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                              .params_bytes = sizeof(bs_name_params), .infer = assemble_infer};

bs_value bs_assemble(bs_graph *graph, bs_value cells)
{
    return bs_graph_value(graph, bs_op_index("assemble"), &cells.id, 1, NULL);
}

static bool rows_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_value_info *x = infer->in[0];
    if (!is_root(infer, 0))
        return false;
    if (x->rank < 1)
        return bs_graph_fail(g, BS_ERROR_SHAPE, "rows needs a leading dimension");
    bs_value_info *out = &infer->out[0];
    out->rank = x->rank - 1;
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        out->dims[i] = i < out->rank ? x->dims[i + 1] : -1;
    if (infer->n_in == 2) { /* as many rows as the domain may have; a run uses the first ones */
        const bs_domain *d = &g->domains[infer->in[1]->domain];
        if (infer->in[1]->domain == 0)
            return bs_graph_fail(g, BS_ERROR_DOMAIN, "rows: `like` is a root value, not one of cells");
        if (bs_dim_max(g, x->dims[0]) < d->max_rows)
            return bs_graph_fail(g, BS_ERROR_SHAPE, "rows: dimension 0 holds %lld rows, the domain of `like` up to %lld",
                                 (long long)bs_dim_max(g, x->dims[0]), (long long)d->max_rows);
        out->domain = infer->in[1]->domain;
        return true;
    }
    const bs_domain domain = {.kind = BS_DOMAIN_ROWS, .path = -1, .rows = x->dims[0], .height = -1, .width = -1,
                              .max_rows = bs_dim_max(g, x->dims[0])};
    out->domain = bs_graph_domain(g, &domain);
    return out->domain >= 0;
}

const bs_op bs_op_rows = {.name = "rows", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                          .params_bytes = sizeof(bs_name_params), .infer = rows_infer};

bs_value bs_rows(bs_graph *graph, bs_value x, bs_value like)
{
    const int32_t in[2] = {x.id, like.id};
    return bs_graph_value(graph, bs_op_index("rows"), in, like.id ? 2 : 1, NULL);
}

static bool collect_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_value_info *x = infer->in[0];
    const bs_domain *d = &g->domains[x->domain];
    const bool rows = d->kind == BS_DOMAIN_ROWS || d->kind == BS_DOMAIN_SEGMENTS;
    if (!rows && d->kind != BS_DOMAIN_PATCHES)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "collect takes rows, segments or patches; gather what a router scattered first");
    if (x->rank == BS_MAX_RANK || (d->kind == BS_DOMAIN_PATCHES && x->rank == 3))
        return bs_graph_fail(g, BS_ERROR_SHAPE, "collect: rank %d cells cannot be stacked (images of patches: use assemble)", x->rank);
    bs_value_info *out = &infer->out[0];
    out->rank = x->rank + 1;
    out->dims[0] = rows ? d->rows : bs_dim_const(g, d->max_rows);
    for (int32_t i = 0; i < x->rank; i++)
        out->dims[i + 1] = x->dims[i];
    out->domain = 0;
    return out->dims[0] >= 0;
}

const bs_op bs_op_collect = {.name = "collect", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_name_params), .infer = collect_infer};

bs_value bs_collect(bs_graph *graph, bs_value cells)
{
    return bs_graph_value(graph, bs_op_index("collect"), &cells.id, 1, NULL);
}
/* ==== end src/structure.c ===================================================================== */

/* ==== begin src/structure_route.c ============================================================= */
/* structure_route.c - routers, scatter, gather: builder functions and shape rules.
 * Relies on structure.h. Must never decide anything itself: that is route.c, when a session runs. */
/* #include "structure.h" */

typedef struct bs_protocol_rule {
    const char *name;
    int32_t score_width; /* 0: one score a path */
    bool score_f32, score_i32;
    bool many_paths; /* k or more paths a cell */
} bs_protocol_rule;

static const bs_protocol_rule protocol_rules[BS_PROTOCOL_COUNT] = {
    [BS_ROUTE_TOP1] = {"top1", 0, true, true, false},
    [BS_ROUTE_TOPK] = {"topk", 0, true, true, true},
    [BS_ROUTE_THRESHOLD] = {"threshold", 0, true, false, true},
    [BS_ROUTE_RESIDUAL_THRESHOLD] = {"residual_threshold", 0, true, false, false},
    [BS_ROUTE_BINARY] = {"binary", 1, true, false, false},
    [BS_ROUTE_LABEL] = {"label", 1, false, true, false},
    [BS_ROUTE_TABLE] = {"table", 1, false, true, false},
    [BS_ROUTE_CAPACITY] = {"capacity", 0, true, true, true},
    [BS_ROUTE_BUDGET] = {"budget", 0, false, true, false},
    [BS_ROUTE_CALLBACK] = {"callback", -1, true, true, false},
};

const char *bs_protocol_name(bs_protocol protocol)
{
    return (int32_t)protocol >= 0 && protocol < BS_PROTOCOL_COUNT ? protocol_rules[protocol].name : "unknown";
}

static bool route_params_sound(bs_infer *infer, const bs_route_desc *d)
{
    bs_graph *g = infer->graph;
    if (d->protocol < 0 || d->protocol >= BS_PROTOCOL_COUNT)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": protocol %d does not exist", infer->name, d->protocol);
    if (!infer->name[0])
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "a router needs a name");
    for (int32_t i = 1; i < g->n_routers; i++)
        if (strcmp(g->routers[i].desc->name, infer->name) == 0)
            return bs_graph_fail(g, BS_ERROR_GRAPH, "two routers are called \"%s\"", infer->name);
    const bool two = d->protocol == BS_ROUTE_BINARY || d->protocol == BS_ROUTE_RESIDUAL_THRESHOLD;
    if (d->paths < 1 || d->paths > BS_MAX_PATHS || (two && d->paths != 2))
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": %d paths; %s takes %s", infer->name, d->paths,
                             protocol_rules[d->protocol].name, two ? "2" : "1..64");
    if (d->k < 0 || d->k > d->paths || d->fallback < 0 || d->fallback > d->paths)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": k %d or fallback %d is beyond its %d paths", infer->name, d->k,
                             d->fallback, d->paths);
    if (d->capacity < 0 || (d->protocol == BS_ROUTE_BUDGET && d->capacity > BS_MAX_PATHS))
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": capacity %d is out of range", infer->name, d->capacity);
    if (d->protocol == BS_ROUTE_CAPACITY && d->capacity < 1)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "route \"%s\": capacity %d, expected at least 1", infer->name, d->capacity);
    return true;
}

static bool route_scores_sound(bs_infer *infer, const bs_route_desc *d)
{
    const bs_protocol_rule *rule = &protocol_rules[d->protocol];
    const bs_value_info *score = infer->in[0];
    const int64_t width = score->rank == 1 ? bs_dim_max(infer->graph, score->dims[0]) : -1;
    const bool variants = d->protocol == BS_ROUTE_BUDGET && d->capacity > 0;
    const int64_t expected = variants ? d->capacity : rule->score_width == 0 ? d->paths : rule->score_width;
    if (score->rank != 1 || !bs_dim_is_const(infer->graph, score->dims[0]) || (expected > 0 && width != expected))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": %s takes scores [%lld] a cell, dimension 0 is %lld (rank %d)",
                             infer->name, rule->name, (long long)expected, (long long)width, score->rank);
    if (!(score->dtype == BS_F32 && rule->score_f32) && !(score->dtype == BS_I32 && rule->score_i32))
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": %s does not take %s scores", infer->name, rule->name,
                             bs_dtype_name(score->dtype));
    return true;
}

static bool route_knob_sound(bs_infer *infer)
{
    if (infer->n_in < 2)
        return true;
    const bs_value_info *knob = infer->in[1];
    if (knob->domain == 0 && knob->dtype == BS_F32 && knob->rank == 1 && bs_dim_max(infer->graph, knob->dims[0]) == 1)
        return true;
    return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "route \"%s\": the knob must be a root value f32 [1]", infer->name);
}

static int32_t route_max_paths_per_cell(const bs_route_desc *d)
{
    if (d->protocol == BS_ROUTE_TOPK || d->protocol == BS_ROUTE_CAPACITY)
        return bs_or_default(d->k, 1);
    return d->protocol == BS_ROUTE_THRESHOLD ? d->paths : 1;
}

static bool route_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_route_desc *d = infer->params;
    infer->n_out = 0;
    if (!route_params_sound(infer, d) || !route_scores_sound(infer, d) || !route_knob_sound(infer))
        return false;
    if (infer->in[0]->domain == 0)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "route \"%s\": scores are a root value; make cells first (bs_rows, bs_patches)", infer->name);
    if (g->n_routers == BS_MAX_ROUTERS)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "more than %d routers", BS_MAX_ROUTERS - 1);
    bs_router_info *router = &g->routers[g->n_routers];
    router->node = g->n_nodes;
    router->domain = infer->in[0]->domain;
    router->score = infer->ids[0];
    router->knob = infer->n_in > 1 ? infer->ids[1] : 0;
    router->max_paths_per_cell = route_max_paths_per_cell(d);
    router->desc = d;
    infer->router = g->n_routers++;
    return true;
}

static int32_t route_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    (void)graph;
    const bs_route_desc *d = node->params;
    if (d->protocol == BS_ROUTE_BUDGET) {
        const int32_t variants = bs_or_default(d->capacity, d->paths);
        specs[0] = (bs_weight_spec){"cost", BS_I32, 1, {variants, 0, 0, 0}};
        specs[1] = (bs_weight_spec){"path", BS_I32, 1, {variants, 0, 0, 0}};
        return 2;
    }
    if (d->protocol == BS_ROUTE_TABLE) { /* as many keys as the file has: -1 */
        specs[0] = (bs_weight_spec){"table", BS_I32, 1, {bs_or_default(d->capacity, 256), 0, 0, 0}};
        return 1;
    }
    return 0;
}

static const bs_field route_fields[] = {{"protocol", 'i'}, {"paths", 'i'}, {"k", 'i'}, {"threshold", 'f'},
                                        {"fallback", 'i'}, {"capacity", 'i'}, {"normalise", 'i'}};
const bs_op bs_op_route = {.name = "route", .min_in = 1, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                           .params_bytes = sizeof(bs_route_desc), .fields = route_fields, .n_fields = 7,
                           .infer = route_infer, .weights = route_weights};

bs_router bs_route(bs_graph *graph, bs_value score, bs_value knob, const bs_route_desc *desc)
{
    const int32_t in[2] = {score.id, knob.id};
    const bs_node *node = bs_graph_add(graph, bs_op_index("route"), in, knob.id ? 2 : 1, desc); /* NULL: refused, it has no name */
    const bs_router router = {node ? node->router : 0};
    return router;
}

/* ------------------------------------------------------------------------------------ what follows a router */

static const bs_router_info *router_known(bs_infer *infer, int32_t id)
{
    if (id >= 1 && id < infer->graph->n_routers)
        return &infer->graph->routers[id];
    bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "%s: router %d does not exist", infer->op->name, id);
    return NULL;
}

static bool scatter_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (p->path < 0 || p->path >= router->desc->paths)
        return bs_graph_fail(g, BS_ERROR_ARGUMENT, "scatter: router \"%s\" has no path %d", router->desc->name, p->path);
    if (infer->in[0]->domain != router->domain)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "scatter: the value is of domain %d, router \"%s\" decides for domain %d",
                             infer->in[0]->domain, router->desc->name, router->domain);
    const bs_domain domain = {.kind = BS_DOMAIN_PATH, .parent = router->domain, .router = p->router, .path = p->path, .rows = -1,
                              .height = -1, .width = -1, .max_rows = g->domains[router->domain].max_rows};
    infer->router = p->router;
    infer->path = p->path;
    infer->out[0].domain = bs_graph_domain(g, &domain);
    return infer->out[0].domain >= 0;
}

static const bs_field router_fields[] = {{"router", 'i'}, {"path", 'i'}};
const bs_op bs_op_scatter = {.name = "scatter", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL,
                             .params_bytes = sizeof(bs_router_params), .fields = router_fields, .n_fields = 2, .infer = scatter_infer};

bs_value bs_scatter(bs_graph *graph, bs_router router, int32_t path, bs_value x)
{
    const bs_router_params p = {"", router.id, path};
    return bs_graph_value(graph, bs_op_index("scatter"), &x.id, 1, &p);
}

bs_value bs_branch(bs_graph *graph, bs_router router, int32_t path, const char *name, bs_value x, bs_block_function function, void *user)
{
    bs_block_begin(graph, name);
    bs_value value = bs_scatter(graph, router, path, x);
    if (function)
        value = function(graph, value, user);
    bs_block_end(graph);
    return value;
}

static bool price_infer(bs_infer *infer)
{
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (router->desc->protocol != BS_ROUTE_BUDGET)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "route_price: router \"%s\" has no budget", router->desc->name);
    infer->router = p->router;
    infer->out[0].dtype = BS_F32;
    infer->out[0].rank = 1;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

static bool score_infer(bs_infer *infer)
{
    const bs_router_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (infer->ids[0] != router->score)
        return bs_graph_fail(infer->graph, BS_ERROR_GRAPH, "route_score: the operand is not the score of router \"%s\"", router->desc->name);
    infer->router = p->router;
    infer->out[0].dims[0] = bs_dim_const(infer->graph, 1);
    return true;
}

const bs_op bs_op_route_price = {.name = "route_price", .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_router_params),
                                 .fields = router_fields, .n_fields = 2, .infer = price_infer};
const bs_op bs_op_route_score = {.name = "route_score", .min_in = 1, .max_in = 1, .flags = BS_OP_STRUCTURAL, .params_bytes = sizeof(bs_router_params),
                                 .fields = router_fields, .n_fields = 2, .infer = score_infer};

bs_value bs_route_price(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    return bs_graph_value(graph, bs_op_index("route_price"), NULL, 0, &p);
}

bs_value bs_route_score(bs_graph *graph, bs_router router)
{
    const bs_router_params p = {"", router.id, 0};
    const bool known = graph && router.id >= 1 && router.id < graph->n_routers;
    const int32_t score = known ? graph->routers[router.id].score : 0; /* 0: refused */
    return bs_graph_value(graph, bs_op_index("route_score"), &score, 1, &p);
}

/* ------------------------------------------------------------------------------------------------- gather */

static bool gather_value_sound(bs_infer *infer, const bs_router_info *router, int32_t path, const bs_value_info *first)
{
    bs_graph *g = infer->graph;
    const bs_gather_params *p = infer->params;
    const bs_value_info *v = &g->values[infer->ids[path]];
    const bs_domain *d = &g->domains[v->domain];
    if (d->kind != BS_DOMAIN_PATH || d->router != p->router || d->path != path)
        return bs_graph_fail(g, BS_ERROR_DOMAIN, "gather: operand %d is not of path %d of router \"%s\"", path, path, router->desc->name);
    bool same = v->rank == first->rank && v->dtype == first->dtype && v->scale_num == first->scale_num && v->scale_den == first->scale_den;
    for (int32_t i = 0; same && i < v->rank; i++)
        same = v->dims[i] == first->dims[i];
    char a[128], b[128];
    if (!same)
        return bs_graph_fail(g, BS_ERROR_SHAPE, "gather of router \"%s\": path %d gives %s %s, another path %s %s", router->desc->name, path,
                             bs_dtype_name(v->dtype), bs_value_text(g, v, a, sizeof a), bs_dtype_name(first->dtype),
                             bs_value_text(g, first, b, sizeof b));
    return true;
}

static bool gather_mode_sound(bs_infer *infer, const bs_router_info *router, const bs_value_info *first)
{
    const bs_gather_params *p = infer->params;
    if (p->mode < BS_GATHER_PLACE || p->mode > BS_GATHER_SELECT)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "gather: mode %d does not exist", p->mode);
    if (p->mode == BS_GATHER_PLACE && router->max_paths_per_cell > 1)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "gather: place takes at most one path a cell, router \"%s\" gives up to %d",
                             router->desc->name, router->max_paths_per_cell);
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    if (sums && first->dtype != BS_F32)
        return bs_graph_fail(infer->graph, BS_ERROR_SHAPE, "gather: sums are f32, not %s", bs_dtype_name(first->dtype));
    return true;
}

static bool gather_infer(bs_infer *infer)
{
    bs_graph *g = infer->graph;
    const bs_gather_params *p = infer->params;
    const bs_router_info *router = router_known(infer, p->router);
    if (!router)
        return false;
    if (infer->n_in != router->desc->paths + 1)
        return bs_graph_fail(g, BS_ERROR_GRAPH, "gather: router \"%s\" has %d paths", router->desc->name, router->desc->paths);
    const bs_value_info *first = NULL;
    for (int32_t i = 0; i < infer->n_in && !first; i++)
        first = infer->ids[i] ? &g->values[infer->ids[i]] : NULL;
    if (!first)
        return bs_graph_fail(g, BS_ERROR_GRAPH, "gather of router \"%s\" has nothing to gather", router->desc->name);
    if (!gather_mode_sound(infer, router, first))
        return false;
    for (int32_t i = 0; i < router->desc->paths; i++)
        if (infer->ids[i] && !gather_value_sound(infer, router, i, first))
            return false;
    const int32_t residual = infer->ids[router->desc->paths];
    if (residual && (g->values[residual].domain != router->domain || !bs_same_shape(&g->values[residual], first)))
        return bs_graph_fail(g, BS_ERROR_SHAPE, "gather of router \"%s\": the residual is of another domain or shape", router->desc->name);
    infer->router = p->router;
    infer->out[0] = *first;
    infer->out[0].domain = router->domain;
    return true;
}

static const bs_field gather_fields[] = {{"router", 'i'}, {"mode", 'i'}};
const bs_op bs_op_gather = {.name = "gather", .min_in = 2, .max_in = BS_MAX_PATHS + 1, .flags = BS_OP_STRUCTURAL | BS_OP_VARIADIC,
                            .params_bytes = sizeof(bs_gather_params), .fields = gather_fields, .n_fields = 2, .infer = gather_infer};

bs_value bs_gather(bs_graph *graph, bs_router router, const bs_value *values, bs_value residual, const bs_gather_desc *desc)
{
    int32_t in[BS_MAX_PATHS + 1];
    const bs_value failed = {0};
    if (!graph || graph->status != BS_OK)
        return failed;
    if (router.id < 1 || router.id >= graph->n_routers || !values) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "gather: router %d does not exist", router.id);
        return failed;
    }
    const int32_t paths = graph->routers[router.id].desc->paths;
    for (int32_t i = 0; i < paths; i++)
        in[i] = values[i].id;
    in[paths] = residual.id;
    const bs_gather_params p = {desc && desc->name ? desc->name : "", router.id, desc ? desc->mode : BS_GATHER_PLACE};
    return bs_graph_value(graph, bs_op_index("gather"), in, paths + 1, &p);
}
/* ==== end src/structure_route.c =============================================================== */

/* ==== begin src/structure_segment.c =========================================================== */
/* structure_segment.c - rows grouped in segments, and caches that segments are appended to: builder functions and shape
 * rules.
 * Owns what holds for every op on segments: whose input says how rows are grouped, and that two values agree on it.
 * Relies on structure.h. Must never read lengths: they are data of a run (segment.c). */
/* #include "ops/common.h" */
/* #include "structure.h" */

/* ---------------------------------------------------------------------------------------------- what is shared */

int32_t bs_infer_segments(bs_infer *infer, int32_t index)
{
    const int32_t domain = infer->in[index]->domain;
    if (infer->graph->domains[domain].kind == BS_DOMAIN_SEGMENTS)
        return domain;
    bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %d is not of segments (bs_segments; gather what a router scattered first)", index);
    return 0;
}

bool bs_infer_segment_input(bs_infer *infer, int32_t index, int32_t domain, const char *what)
{
    const bs_value_info *v = infer->in[index];
    char shape[96];
    if (!bs_node_is(&infer->graph->nodes[v->node], &bs_op_input))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "operand %d (%s) is not an input", index, what);
    if (v->dtype != BS_I32 || v->rank != 1)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d (%s) is %s %s, expected i32 [segments]", index, what,
                             bs_dtype_name(v->dtype), bs_value_text(infer->graph, v, shape, sizeof shape));
    if (domain && v->dims[0] != bs_segment_dim(infer->graph, domain))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d (%s) is %s, which is another number of segments", index, what,
                             bs_value_text(infer->graph, v, shape, sizeof shape));
    return true;
}

/* ---------------------------------------------------------------------------------------------------- segments */

static bool segments_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    if (x->domain != 0)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand 0 is of domain %d, expected a root value", x->domain);
    if (!bs_infer_rank(infer, 0, 1, BS_MAX_RANK) || !bs_infer_segment_input(infer, 1, 0, "lengths"))
        return false;
    out->rank = x->rank - 1;
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        out->dims[i] = i < out->rank ? x->dims[i + 1] : -1;
    const bs_domain domain = {.kind = BS_DOMAIN_SEGMENTS, .path = -1, .rows = x->dims[0], .height = -1, .width = -1,
                              .lengths = infer->ids[1], .max_rows = bs_dim_max(infer->graph, x->dims[0])};
    out->domain = bs_graph_domain(infer->graph, &domain);
    return out->domain >= 0;
}

const bs_op bs_op_segments = {.name = "segments", .min_in = 2, .max_in = 2, .flags = BS_OP_STRUCTURAL,
                              .params_bytes = sizeof(bs_name_params), .infer = segments_infer};

bs_value bs_segments(bs_graph *graph, bs_value x, bs_value lengths)
{
    const int32_t in[2] = {x.id, lengths.id};
    return bs_graph_value(graph, bs_op_index("segments"), in, 2, NULL);
}

/* ------------------------------------------------------------------------------------------------ state_append */

/* The state is [segments, window, ...cell]. */
static bool append_fits(bs_infer *infer, int32_t domain)
{
    const bs_value_info *state = infer->in[0], *value = infer->in[1];
    char a[96], b[96];
    bool fits = state->dtype == value->dtype && state->rank == value->rank + 2 &&
                state->dims[0] == bs_segment_dim(infer->graph, domain) && bs_dim_is_const(infer->graph, state->dims[1]);
    for (int32_t i = 0; fits && i < value->rank; i++)
        fits = state->dims[i + 2] == value->dims[i];
    if (fits)
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE, "cells %s %s do not fit a state of %s %s, expected [segments, window, ...cell]",
                         bs_dtype_name(value->dtype), bs_value_text(infer->graph, value, b, sizeof b), bs_dtype_name(state->dtype),
                         bs_value_text(infer->graph, state, a, sizeof a));
}

static bool state_append_infer(bs_infer *infer)
{
    infer->n_out = 0;
    const bs_node *source = &infer->graph->nodes[infer->in[0]->node];
    if (!bs_node_is(source, &bs_op_state))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "operand 0 is not a state");
    if (bs_state_is_written(infer->graph, infer->ids[0]))
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "state \"%s\" is written twice", bs_node_name(source));
    const int32_t domain = bs_infer_segments(infer, 1);
    return domain && append_fits(infer, domain) && bs_infer_segment_input(infer, 2, domain, "past");
}

const bs_op bs_op_state_append = {.name = "state_append", .min_in = 3, .max_in = 3, .flags = BS_OP_STRUCTURAL,
                                  .params_bytes = sizeof(bs_name_params), .infer = state_append_infer};

void bs_state_append(bs_graph *graph, bs_value state, bs_value value, bs_value past)
{
    const int32_t in[3] = {state.id, value.id, past.id};
    bs_graph_add(graph, bs_op_index("state_append"), in, 3, NULL);
}
/* ==== end src/structure_segment.c ============================================================= */

/* ==== begin src/ops/segment_rows.c ============================================================ */
/* ops/segment_rows.c - between segments and their rows: one row a segment spread over its rows, rows reduced to one.
 * Relies on span.h and structure.h. Must never look beyond the offsets of the call. Sums go from the first row of a
 * segment to its last. One code for every tier. */
/* #include "ops/common.h" */
/* #include "ops/span.h" */
/* #include "structure.h" */

/* Row `index` of a root operand [n, ...], as an operand of a cell's shape. */
static bs_operand segment_row(const bs_operand *root, int32_t index, const bs_operand *cell)
{
    bs_operand row = *cell;
    row.data = (char *)root->data + index * root->stride[0] * (ptrdiff_t)bs_dtype_bytes(root->dtype);
    row.row_stride = 0;
    for (int32_t d = 0; d < cell->rank; d++)
        row.stride[d] = root->stride[d + 1];
    return row;
}

/* ------------------------------------------------------------------------------------------------------ spread */

static bool segment_spread_infer(bs_infer *infer)
{
    const bs_value_info *parent = infer->in[0];
    bs_value_info *out = &infer->out[0];
    const int32_t domain = bs_infer_segments(infer, 1);
    char shape[96];
    if (!domain)
        return false;
    if (parent->domain != 0)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand 0 is of domain %d, expected a root value", parent->domain);
    if (parent->rank < 1 || parent->dims[0] != bs_segment_dim(infer->graph, domain))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, dimension 0 is not the number of segments",
                             bs_value_text(infer->graph, parent, shape, sizeof shape));
    out->rank = parent->rank - 1;
    for (int32_t i = 0; i < out->rank; i++)
        out->dims[i] = parent->dims[i + 1];
    out->domain = domain;
    return true;
}

static bs_status segment_spread_run(const bs_call *call)
{
    const bs_operand *out = &call->out[0];
    const size_t bytes = bs_dtype_bytes(out->dtype);
    for (int32_t r = 0; r < call->rows; r++) {
        bs_operand to = *out;
        to.data = (char *)out->data + r * out->row_stride * (ptrdiff_t)bytes;
        const bs_operand from = segment_row(&call->in[0], bs_segment_of(call->offsets, call->n_segments, call->row + r), &to);
        bs_span span;
        bs_span_open(&span, &to, 1);
        bs_span_add(&span, &from, NULL, 0);
        bs_span_run(&span, bs_span_copy, &bytes);
    }
    return BS_OK;
}

/* The second operand tells the domain and is not read (bs_plan_in). */
const bs_op bs_op_segment_spread = {.name = "segment_spread",
                                    .min_in = 2,
                                    .max_in = 2,
                                    .flags = BS_OP_ACROSS,
                                    .params_bytes = sizeof(bs_name_params),
                                    .infer = segment_spread_infer,
                                    .run = segment_spread_run};

bs_value bs_segment_spread(bs_graph *graph, bs_value parent, bs_value like)
{
    const int32_t in[2] = {parent.id, like.id};
    return bs_op_build(graph, &bs_op_segment_spread, in, 2, NULL);
}

/* ------------------------------------------------------------------------------------------------------ reduce */

static bool segment_reduce_infer(bs_infer *infer)
{
    const bs_segment_reduce_desc *desc = infer->params;
    const bs_value_info *x = infer->in[0];
    bs_value_info *out = &infer->out[0];
    const int32_t domain = bs_infer_segments(infer, 0);
    if (!domain || !bs_infer_field(infer, "mode", desc->mode, BS_SEGMENT_LAST, BS_SEGMENT_MAX) ||
        !bs_infer_dtype(infer, 0, BS_F32) || !bs_infer_rank(infer, 0, 0, BS_MAX_RANK - 1))
        return false;
    out->rank = x->rank + 1;
    out->dims[0] = bs_segment_dim(infer->graph, domain);
    for (int32_t i = 0; i < x->rank; i++)
        out->dims[i + 1] = x->dims[i];
    out->domain = 0;
    return true;
}

/* Segments are dealt out to so many tasks at most. */
#define SEGMENT_TASKS 64

static void segment_reduce_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                                bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const int64_t segments = bs_dim_max(graph, graph->values[node->first_out].dims[0]);
    plan->pieces = (int32_t)bs_min_i64(segments, SEGMENT_TASKS);
}

static double segment_reduce_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    return (double)graph->domains[x->domain].max_rows * bs_value_work(graph, bs_node_in(graph, node)[0]);
}

typedef struct segment_job {
    bool first, max; /* first: the row is the result so far */
    float divisor;   /* not 0: the last step of a mean */
} segment_job;

static float segment_step(const segment_job *job, float so_far, float x)
{
    if (job->first)
        return x;
    return job->max ? (x > so_far ? x : so_far) : so_far + x;
}

/* NaN is kept by sums; a maximum that meets NaN leaves it out unless it comes first. */
static void segment_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const segment_job *job = context;
    for (int64_t i = 0; i < n; i++) {
        float *to = (float *)(void *)(at[0] + i * step[0]);
        *to = segment_step(job, *to, *(const float *)(const void *)(at[1] + i * step[1]));
    }
}

static void segment_add_dense(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    float *to = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    if (!bs_span_dense_f32(step, 2)) {
        segment_lines(context, n, at, step);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] += x[i];
}

static void segment_divide(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const segment_job *job = context;
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) /= job->divisor;
}

static void segment_zero(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    for (int64_t i = 0; i < n; i++)
        *(float *)(void *)(at[0] + i * step[0]) = 0.0f;
}

static void segment_walk(const bs_operand *to, const bs_operand *from, bs_span_inner inner, const segment_job *job)
{
    bs_span span;
    bs_span_open(&span, to, 1);
    if (from)
        bs_span_add(&span, from, NULL, 0);
    bs_span_run(&span, inner, job);
}

static void segment_reduce_one(const bs_call *call, int32_t segment)
{
    const bs_segment_reduce_desc *desc = call->params;
    const int32_t begin = call->offsets[segment], end = call->offsets[segment + 1];
    const bs_operand to = segment_row(&call->out[0], segment, &call->in[0]);
    segment_job job = {true, desc->mode == BS_SEGMENT_MAX, 0};
    if (begin == end)
        segment_walk(&to, NULL, segment_zero, &job);
    for (int32_t r = desc->mode == BS_SEGMENT_LAST ? bs_max_i32(end - 1, begin) : begin; r < end; r++) {
        bs_operand from = call->in[0];
        from.data = bs_f32_at(&from, r * from.row_stride);
        segment_walk(&to, &from, job.first || job.max ? segment_lines : segment_add_dense, &job);
        job.first = false;
    }
    job.divisor = (float)(end - begin);
    if (desc->mode == BS_SEGMENT_MEAN && end > begin)
        segment_walk(&to, NULL, segment_divide, &job);
}

static bs_status segment_reduce_run(const bs_call *call)
{
    for (int32_t s = call->piece; s < call->n_segments; s += call->plan->pieces)
        segment_reduce_one(call, s);
    return BS_OK;
}

static const bs_field segment_reduce_fields[] = {{"mode", 'i'}};

const bs_op bs_op_segment_reduce = {.name = "segment_reduce",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .flags = BS_OP_ACROSS,
                                    .params_bytes = sizeof(bs_segment_reduce_desc),
                                    BS_FIELDS(segment_reduce_fields),
                                    .infer = segment_reduce_infer,
                                    .flops = segment_reduce_flops,
                                    .plan = segment_reduce_plan,
                                    .run = segment_reduce_run};

bs_value bs_segment_reduce(bs_graph *graph, bs_value x, const bs_segment_reduce_desc *desc)
{
    return bs_op_build(graph, &bs_op_segment_reduce, &x.id, 1, desc);
}
/* ==== end src/ops/segment_rows.c ============================================================== */

/* ==== begin src/ops/attention.c =============================================================== */
/* ops/attention.c - causal attention of the rows of a segment, behind a cache of earlier ones.
 * A task is one row and one head. Keys are visited from the oldest position to the row's own, wherever they lie, so
 * that a sequence in one run or token by token gives the same bits.
 * Relies on structure.h. Must never trust a position: offsets and past come checked (segment.c), and the ring is
 * addressed modulo its window. One code for every tier. */
/* #include "ops/common.h" */
/* #include "structure.h" */

enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_PAST_K, ATTENTION_PAST_V, ATTENTION_PAST };

/* ------------------------------------------------------------------------------------------------------- shape */

static bool attention_cells_agree(bs_infer *infer, int32_t domain)
{
    for (int32_t i = ATTENTION_Q; i <= ATTENTION_V; i++) {
        if (!bs_infer_dtype(infer, i, BS_F32) || !bs_infer_rank(infer, i, 1, 1))
            return false;
        if (infer->in[i]->domain != domain)
            return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %d is of domain %d, operand 0 of domain %d", i, infer->in[i]->domain, domain);
        if (infer->in[i]->dims[0] != infer->in[0]->dims[0])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d has another dimension 0 than operand 0", i);
    }
    return true;
}

/* [segments, window, d], both with one window. */
static bool attention_cache_fits(bs_infer *infer, int32_t domain)
{
    for (int32_t i = ATTENTION_PAST_K; i <= ATTENTION_PAST_V; i++) {
        const bs_value_info *cache = infer->in[i];
        int32_t window;
        char shape[96];
        if (!bs_infer_dtype(infer, i, BS_F32) || !bs_infer_rank(infer, i, 3, 3) || !bs_infer_const(infer, i, 1, "the window", &window))
            return false;
        if (cache->domain != 0)
            return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %d is of domain %d, expected a root value", i, cache->domain);
        if (cache->dims[0] != bs_segment_dim(infer->graph, domain) || cache->dims[1] != infer->in[ATTENTION_PAST_K]->dims[1] ||
            cache->dims[2] != infer->in[0]->dims[0])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d is %s, expected [segments, window, d] with the window of operand 3 and the d of operand 0",
                                 i, bs_value_text(infer->graph, cache, shape, sizeof shape));
    }
    return bs_infer_segment_input(infer, ATTENTION_PAST, domain, "past");
}

static bool attention_infer(bs_infer *infer)
{
    const bs_attention_desc *desc = infer->params;
    const int32_t domain = bs_infer_segments(infer, 0), heads = bs_or_default(desc->heads, 1);
    int32_t d;
    if (!domain || !attention_cells_agree(infer, domain) || !bs_infer_const(infer, 0, 0, "d", &d) ||
        !bs_infer_field(infer, "alibi", desc->alibi, 0, 1))
        return false;
    if (heads < 1 || d % heads != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "%d heads of cells [%d]: not a whole number of elements each", heads, d);
    if (infer->graph->domains[domain].max_rows * heads > (int64_t)1 << 30)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "%d heads of up to %lld rows are more than 2^30 tasks", heads,
                             (long long)infer->graph->domains[domain].max_rows);
    if (infer->n_in != 3 && infer->n_in != 6)
        return bs_infer_fail(infer, BS_ERROR_GRAPH, "%d operands: past_k, past_v and past are given all three or none", infer->n_in);
    return infer->n_in == 3 || attention_cache_fits(infer, domain);
}

/* Positions that a row attends to, at most: the window, or without a cache all rows of the run. */
static int64_t attention_most(const bs_graph *graph, const bs_node *node)
{
    const int32_t *in = bs_node_in(graph, node);
    if (node->n_in > ATTENTION_PAST_K)
        return bs_dim_max(graph, graph->values[in[ATTENTION_PAST_K]].dims[1]);
    return graph->domains[node->domain].max_rows;
}

static double attention_flops(const bs_graph *graph, const bs_node *node)
{
    return 4.0 * (double)attention_most(graph, node) * bs_value_work(graph, node->first_out);
}

static void attention_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w, bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    plan->pieces = bs_or_default(((const bs_attention_desc *)node->params)->heads, 1);
    plan->scratch_bytes = bs_mul_u64((uint64_t)attention_most(graph, node), sizeof(float));
}

/* ------------------------------------------------------------------------------------------------------ kernel */

/* One row and head: where its keys and values are. */
typedef struct attention_job {
    const bs_call *call;
    int32_t segment, first_row;         /* of the segment, in this run */
    int32_t past, low, position;        /* of the row; it attends to low .. position */
    int32_t window, element, n;         /* elements of the head: element .. element + n */
    float *scores;                      /* [position - low + 1] */
} attention_job;

static attention_job attention_job_of(const bs_call *call)
{
    const int32_t heads = call->plan->pieces, d = call->in[ATTENTION_Q].dim[0];
    const bool cached = call->n_in > ATTENTION_PAST_K;
    attention_job job = {.call = call, .n = d / heads, .element = call->piece * (d / heads), .scores = call->scratch};
    job.segment = bs_segment_of(call->offsets, call->n_segments, call->row);
    job.first_row = call->offsets[job.segment];
    const bs_operand *past = &call->in[ATTENTION_PAST];
    job.past = cached ? ((const int32_t *)past->data)[job.segment * past->stride[0]] : 0;
    job.position = job.past + (call->row - job.first_row);
    job.window = cached ? call->in[ATTENTION_PAST_K].dim[1] : job.position + 1;
    job.low = bs_max_i32(0, job.position - job.window + 1);
    return job;
}

/* Key (or value: one operand further) of position j: of this run, or from the ring. */
static const float *attention_at(const attention_job *job, int32_t kind, int32_t j, ptrdiff_t *step)
{
    const bs_operand *fresh = &job->call->in[kind], *ring = &job->call->in[kind + ATTENTION_PAST_K - ATTENTION_K];
    if (j >= job->past) {
        *step = fresh->stride[0];
        return bs_f32_at(fresh, (job->first_row + (j - job->past)) * fresh->row_stride + job->element * *step);
    }
    *step = ring->stride[2];
    return bs_f32_at(ring, job->segment * ring->stride[0] + j % job->window * ring->stride[1] + job->element * *step);
}

/* Eight sums side by side, added up in one order whatever the strides: the same bits from a run's rows and the ring. */
#define ATTENTION_LANES 8

static float attention_dot_dense(const float *a, const float *b, int32_t n, float *lanes)
{
    int32_t i = 0;
    for (; i + ATTENTION_LANES <= n; i += ATTENTION_LANES)
        for (int32_t k = 0; k < ATTENTION_LANES; k++)
            lanes[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        lanes[i % ATTENTION_LANES] += a[i] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static float attention_dot(const float *a, ptrdiff_t a_step, const float *b, ptrdiff_t b_step, int32_t n)
{
    float lanes[ATTENTION_LANES] = {0};
    if (a_step == 1 && b_step == 1)
        return attention_dot_dense(a, b, n, lanes);
    for (int32_t i = 0; i < n; i++)
        lanes[i % ATTENTION_LANES] += a[i * a_step] * b[i * b_step];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* Scores of all positions; returns the largest. */
static float attention_scores(const attention_job *job)
{
    const bs_attention_desc *desc = job->call->params;
    const bs_operand *in = &job->call->in[ATTENTION_Q];
    const float *q = bs_f32_at(in, job->call->row * in->row_stride + job->element * in->stride[0]);
    const float scale = 1.0f / sqrtf((float)job->n);
    const float slope = desc->alibi ? exp2f(-8.0f * (float)(job->call->piece + 1) / (float)job->call->plan->pieces) : 0.0f;
    float top = 0.0f;
    for (int32_t j = job->low; j <= job->position; j++) {
        ptrdiff_t step;
        const float *k = attention_at(job, ATTENTION_K, j, &step);
        const float score = attention_dot(q, in->stride[0], k, step, job->n) * scale - slope * (float)(job->position - j);
        job->scores[j - job->low] = score;
        top = j == job->low || score > top ? score : top;
    }
    return top;
}

static void attention_add(float *out, ptrdiff_t out_step, const float *v, ptrdiff_t v_step, int32_t n, float weight)
{
    if (out_step == 1 && v_step == 1) {
        for (int32_t i = 0; i < n; i++)
            out[i] += weight * v[i];
        return;
    }
    for (int32_t i = 0; i < n; i++)
        out[i * out_step] += weight * v[i * v_step];
}

static bs_status attention_run(const bs_call *call)
{
    const attention_job job = attention_job_of(call);
    const bs_operand *to = &call->out[0];
    float *out = bs_f32_at(to, job.element * to->stride[0]), sum = 0.0f;
    const float top = attention_scores(&job);
    for (int32_t j = 0; j <= job.position - job.low; j++)
        sum += job.scores[j] = expf(job.scores[j] - top);
    for (int32_t i = 0; i < job.n; i++)
        out[i * to->stride[0]] = 0.0f;
    for (int32_t j = job.low; j <= job.position; j++) {
        ptrdiff_t step;
        const float *v = attention_at(&job, ATTENTION_V, j, &step);
        attention_add(out, to->stride[0], v, step, job.n, job.scores[j - job.low] / sum);
    }
    return BS_OK;
}

static const bs_field attention_fields[] = {{"heads", 'i'}, {"alibi", 'i'}};

const bs_op bs_op_attention = {.name = "attention",
                               .min_in = 3,
                               .max_in = 6,
                               .flags = BS_OP_ACROSS,
                               .params_bytes = sizeof(bs_attention_desc),
                               BS_FIELDS(attention_fields),
                               .infer = attention_infer,
                               .flops = attention_flops,
                               .plan = attention_plan,
                               .run = attention_run};

bs_value bs_attention(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value past_k, bs_value past_v, bs_value past,
                      const bs_attention_desc *desc)
{
    const int32_t in[6] = {q.id, k.id, v.id, past_k.id, past_v.id, past.id};
    const bool cached = past_k.id || past_v.id || past.id;
    return bs_op_build(graph, &bs_op_attention, in, cached ? 6 : 3, desc);
}
/* ==== end src/ops/attention.c ================================================================= */

/* ==== begin src/describe.c ==================================================================== */
/* describe.c - nodes and ops in one line each, for people and for `inspect`.
 * Relies on graph.h, op.h and structure.h. Must never print. */
/* #include "structure.h" */

/* Text that is cut where the buffer ends, while its true length goes on being counted. */
typedef struct describe_text {
    char *text;
    size_t bytes, used;
} describe_text;

static void describe_put(describe_text *t, const char *format, ...) BS_PRINTF(2, 3);
static void describe_put(describe_text *t, const char *format, ...)
{
    const size_t room = t->used < t->bytes ? t->bytes - t->used : 0;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(room ? t->text + t->used : NULL, room, format, arguments);
    va_end(arguments);
    t->used += n > 0 ? (size_t)n : 0;
}

/* "cells of 64x64", "rows", "cells of 64x64 / route.2"; nothing for the root. From the inside out, as domains are
 * chained: each one's parent has a lower index. */
static void describe_domain(const bs_graph *g, int32_t domain, describe_text *t)
{
    const bs_domain *d = &g->domains[domain];
    for (; d->kind == BS_DOMAIN_PATH; d = &g->domains[d->parent])
        describe_put(t, " %s:%d", g->routers[d->router].desc->name, d->path);
    if (d->kind == BS_DOMAIN_PATCHES)
        describe_put(t, " cells %d", d->size);
    else if (d->kind == BS_DOMAIN_ROWS)
        describe_put(t, " rows<=%lld", (long long)d->max_rows);
    else if (d->kind == BS_DOMAIN_SEGMENTS)
        describe_put(t, " segments<=%lld", (long long)d->max_rows);
}

static void describe_inputs(const bs_graph *g, const bs_node *node, describe_text *t)
{
    const size_t start = t->used;
    for (int32_t i = 0; i < node->n_in; i++)
        describe_put(t, "%s%d", i ? "," : "", bs_node_in(g, node)[i]);
    while (t->used < start + 10)
        describe_put(t, " ");
}

static void describe_outputs(const bs_graph *g, const bs_node *node, describe_text *t)
{
    char shape[128];
    for (int32_t i = 0; i < node->n_out; i++) {
        const bs_value_info *value = bs_value_get(g, node->first_out + i);
        describe_put(t, "%s%d %s %s", i ? ", " : "-> ", node->first_out + i, bs_dtype_name(value->dtype),
                     bs_value_text(g, value, shape, sizeof shape));
    }
    if (node->n_out == 0)
        describe_put(t, "->");
    describe_domain(g, node->domain, t);
}

/* The names of enums, by op ("" = any) and field. */
typedef struct describe_names {
    const char *op, *field;
    int32_t count;
    const char *names[BS_ACT_COUNT];
} describe_names;

static const describe_names describe_enums[] = {
    {"", "act", BS_ACT_COUNT, {"none", "relu", "leaky_relu", "prelu", "sigmoid", "tanh", "gelu", "silu", "clip"}},
    {"gather", "mode", 4, {"place", "add", "weighted", "select"}},
    {"pool2d", "kind", 2, {"average", "max"}},
    {"resize", "kind", 3, {"nearest", "bilinear", "bicubic"}},
    {"reduce", "kind", 4, {"sum", "mean", "max", "min"}},
    {"segment_reduce", "mode", 4, {"last", "sum", "mean", "max"}},
};

/* A number's name where the field is one of the public enums; else NULL. */
static const char *describe_enum(const char *op, const char *field, int32_t n)
{
    if (strcmp(field, "dtype") == 0 && n >= 0 && n < BS_DTYPE_COUNT)
        return bs_dtype_name((bs_dtype)n);
    if (strcmp(field, "protocol") == 0)
        return bs_protocol_name((bs_protocol)n);
    for (size_t i = 0; i < sizeof describe_enums / sizeof *describe_enums; i++) {
        const describe_names *e = &describe_enums[i];
        if (strcmp(e->field, field) == 0 && (!*e->op || strcmp(e->op, op) == 0))
            return n >= 0 && n < e->count ? e->names[n] : NULL;
    }
    return NULL;
}

static void describe_field(const bs_op *op, const bs_field *field, const uint8_t *word, describe_text *t)
{
    int32_t n;
    float f;
    memcpy(&n, word, sizeof n);
    memcpy(&f, word, sizeof f);
    const char *name = describe_enum(op->name, field->name, n);
    if (name)
        describe_put(t, "%s %s", field->name, name);
    else if (field->kind == 'f')
        describe_put(t, "%s %g", field->name, (double)f);
    else
        describe_put(t, "%s %d", field->name, n);
}

/* What an op is: worth saying even when it is the default. */
static bool describe_always(const char *field)
{
    static const char *const fields[] = {"protocol", "dtype", "mode", "kind"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(field, fields[i]) == 0)
            return true;
    return false;
}

/* Fields that are not at their default. Descriptors are a pointer and then 4-byte fields. */
static void describe_params(const bs_node *node, const bs_op *op, describe_text *t)
{
    static const uint8_t zero[4] = {0};
    const char *before = "  {";
    if (!node->params)
        return;
    const uint8_t *fields = (const uint8_t *)node->params + sizeof(const char *);
    for (int32_t i = 0; i < op->n_fields; i++) {
        if (!describe_always(op->fields[i].name) && memcmp(fields + 4 * i, zero, sizeof zero) == 0)
            continue;
        describe_put(t, "%s", before);
        describe_field(op, &op->fields[i], fields + 4 * i, t);
        before = ", ";
    }
    if (before[0] == ',')
        describe_put(t, "}");
}

size_t bs_graph_describe(const bs_graph *graph, int32_t index, char *text, size_t bytes)
{
    describe_text t = {text, bytes, 0};
    if (bytes > 0)
        text[0] = 0;
    if (!graph || index < 1 || index >= graph->n_nodes)
        return 0;
    const bs_node *node = &graph->nodes[index];
    const bs_op *op = bs_op_get(node->op);
    describe_put(&t, "%4d  %-14s %-22s ", index, op->name, bs_node_name(node));
    describe_inputs(graph, node, &t);
    describe_outputs(graph, node, &t);
    if (node->n_in > 0) /* inputs, states and constants are all in their shape */
        describe_params(node, op, &t);
    return t.used;
}

size_t bs_op_describe(int32_t index, char *text, size_t bytes)
{
    describe_text t = {text, bytes, 0};
    const bs_op *op = bs_op_get(index);
    if (bytes > 0)
        text[0] = 0;
    if (!op)
        return 0;
    describe_put(&t, "%s %d %d", op->name, op->min_in, op->max_in);
    for (int32_t i = 0; i < op->n_fields; i++)
        describe_put(&t, " %s%s", op->fields[i].name, op->fields[i].kind == 'f' ? "~" : "");
    return t.used;
}
/* ==== end src/describe.c ====================================================================== */

/* ==== begin src/weights.h ===================================================================== */
/* weights.h - from a weight source to the canonical tensor that an op asked for.
 * Owns the checks between what a source offers and what an op declares, and the widening of storage types.
 * Relies on base.h and op.h (bs_weight_spec). Must never know files, and never trust a source's shapes. */
#ifndef BS_WEIGHTS_H
#define BS_WEIGHTS_H

/* #include "op.h" */

/* Bytes of the tensor as the op wants it (spec->dtype). UINT64_MAX when they cannot be counted. */
uint64_t bs_weight_spec_bytes(const bs_weight_spec *spec);

/* Finds `name` and checks it against what the op declares: same rank and dimensions; same type, or f16/bf16 where
 * f32 is wanted. BS_ERROR_WEIGHTS with a message that names tensor, shape found and shape wanted. */
bs_status bs_weight_find(const bs_weights *weights, const char *name, const bs_weight_spec *spec, bs_weight_info *info,
                         bs_error *error);

/* The tensor in place, when the source can map it and its type is already the wanted one; else NULL. */
const void *bs_weight_view(const bs_weights *weights, const bs_weight_spec *spec, const bs_weight_info *info);

/* Reads a found tensor to `target` (bs_weight_spec_bytes, 4-byte aligned) in the wanted type. Needs no scratch:
 * narrow storage is read into the far half of the target and widened in place. */
bs_status bs_weight_load(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                         const bs_weight_info *info, void *target, bs_error *error);

#endif
/* ==== end src/weights.h ======================================================================= */

/* ==== begin src/weights.c ===================================================================== */
/* weights.c - checks and conversions between weight sources and ops; the source over a caller's table.
 * Relies on weights.h. Must never trust a source's shapes, nor allocate. */
/* #include "weights.h" */

uint64_t bs_weight_spec_bytes(const bs_weight_spec *spec)
{
    return bs_mul_u64(bs_weight_elements(spec), bs_dtype_bytes(spec->dtype));
}

/* ------------------------------------------------------------------------------------------------- checks */

static void weight_shape_text(int32_t rank, const int64_t *dim, char *buffer, size_t bytes)
{
    size_t used = 0;
    snprintf(buffer, bytes, "[]");
    for (int32_t i = 0; i < rank && i < BS_MAX_RANK && used < bytes; i++) {
        const int n = snprintf(buffer + used, bytes - used, "%s%lld%s", i ? ", " : "[", (long long)dim[i],
                               i + 1 == rank ? "]" : "");
        used += n < 0 ? bytes : (size_t)n;
    }
}

static bool weight_type_fits(bs_dtype stored, bs_dtype wanted)
{
    return stored == wanted || (wanted == BS_F32 && (stored == BS_F16 || stored == BS_BF16));
}

static bool weight_shape_fits(const bs_weight_spec *spec, const bs_weight_info *info)
{
    if (info->rank != spec->rank)
        return false;
    for (int32_t i = 0; i < spec->rank; i++)
        if (info->dim[i] != spec->dim[i])
            return false;
    return true;
}

bs_status bs_weight_find(const bs_weights *weights, const char *name, const bs_weight_spec *spec, bs_weight_info *info,
                         bs_error *error)
{
    memset(info, 0, sizeof *info);
    const bs_status status = weights->find(weights->user, name, info);
    if (status == BS_ERROR_WEIGHTS)
        return bs_fail(error, status, "weight \"%s\" is missing", name);
    if (status != BS_OK)
        return bs_fail(error, status, "weight \"%s\" could not be looked up", name);
    char found[64], wanted[64];
    weight_shape_text(info->rank, info->dim, found, sizeof found);
    weight_shape_text(spec->rank, spec->dim, wanted, sizeof wanted);
    if (!weight_shape_fits(spec, info))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" is %s, expected %s", name, found, wanted);
    if (!weight_type_fits(info->dtype, spec->dtype))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" is %s, expected %s", name, bs_dtype_name(info->dtype),
                       bs_dtype_name(spec->dtype));
    if (info->bytes != bs_mul_u64(bs_weight_elements(spec), bs_dtype_bytes(info->dtype)))
        return bs_fail(error, BS_ERROR_WEIGHTS, "weight \"%s\" has %llu bytes, which are not those of %s", name,
                       (unsigned long long)info->bytes, found);
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ loading */

const void *bs_weight_view(const bs_weights *weights, const bs_weight_spec *spec, const bs_weight_info *info)
{
    return weights->map && info->dtype == spec->dtype ? weights->map(weights->user, info) : NULL;
}

/* Element i of the far half lies at or beyond the end of target element i, so going forward is safe. */
static void weight_widen(uint8_t *target, uint64_t elements, bs_dtype stored)
{
    const uint8_t *narrow = target + 2 * elements;
    for (uint64_t i = 0; i < elements; i++) {
        uint16_t half;
        memcpy(&half, narrow + 2 * i, sizeof half);
        const float wide = stored == BS_F16 ? bs_f16_to_f32(half) : bs_bf16_to_f32(half);
        memcpy(target + 4 * i, &wide, sizeof wide);
    }
}

bs_status bs_weight_load(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                         const bs_weight_info *info, void *target, bs_error *error)
{
    const uint64_t wanted = bs_weight_spec_bytes(spec);
    if (info->bytes > wanted || wanted > SIZE_MAX)
        return bs_fail(error, BS_ERROR_ARGUMENT, "weight \"%s\" was found for another shape", name);
    uint8_t *landing = (uint8_t *)target + (wanted - info->bytes);
    const bs_status status = weights->read(weights->user, info, 0, landing, (size_t)info->bytes);
    if (status != BS_OK)
        return bs_fail(error, status, "weight \"%s\" could not be read", name);
    if (info->dtype != spec->dtype)
        weight_widen(target, bs_weight_elements(spec), info->dtype);
    return BS_OK;
}

/* -------------------------------------------------------------------------------- a caller's table of arrays */

static bool tensor_table_info(const bs_tensor *tensor, bs_weight_info *info)
{
    if (tensor->rank < 0 || tensor->rank > BS_MAX_RANK || !tensor->data)
        return false;
    info->dtype = tensor->dtype;
    info->rank = tensor->rank;
    info->bytes = bs_dtype_bytes(tensor->dtype);
    for (int32_t d = 0; d < tensor->rank; d++) {
        info->dim[d] = tensor->dim[d];
        info->bytes = bs_mul_u64(info->bytes, tensor->dim[d] < 0 ? 0 : (uint64_t)tensor->dim[d]);
    }
    return true;
}

static bs_status tensor_table_find(const void *user, const char *name, bs_weight_info *info)
{
    const bs_tensor_table *table = user;
    for (int32_t i = 0; i < table->count; i++) {
        const bs_tensor *tensor = &table->tensors[i];
        if (!tensor->name || strcmp(tensor->name, name) != 0)
            continue;
        info->handle = (uint64_t)i;
        return tensor_table_info(tensor, info) ? BS_OK : BS_ERROR_ARGUMENT;
    }
    return BS_ERROR_WEIGHTS;
}

static bs_status tensor_table_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    const bs_tensor_table *table = user;
    if (offset > info->bytes || bytes > info->bytes - offset)
        return BS_ERROR_ARGUMENT;
    memcpy(buffer, (const uint8_t *)table->tensors[info->handle].data + offset, bytes);
    return BS_OK;
}

static const void *tensor_table_map(const void *user, const bs_weight_info *info)
{
    const bs_tensor_table *table = user;
    const void *data = table->tensors[info->handle].data;
    return (uintptr_t)data % bs_dtype_bytes(info->dtype) == 0 ? data : NULL;
}

bs_weights bs_weights_from_table(const bs_tensor_table *table)
{
    const bs_weights weights = {.user = table, .find = tensor_table_find, .read = tensor_table_read, .map = tensor_table_map};
    return weights;
}
/* ==== end src/weights.c ======================================================================= */

/* ==== begin src/cursor.h ====================================================================== */
/* cursor.h - bytes of a file, wherever it is, read forward and never beyond an end.
 * Owns sources, cursors, and hashes of names. Relies on base.h. Must never know what the bytes mean. */
#ifndef BS_CURSOR_H
#define BS_CURSOR_H

/* #include "base.h" */

/* Bytes 0 .. size-1, in memory or behind a reader. */
typedef struct bs_source {
    const uint8_t *memory; /* NULL: ask the reader */
    bs_reader reader;
    uint64_t size;
} bs_source;

/* All of the bytes or a failure: BS_ERROR_FORMAT beyond the end, BS_ERROR_IO when the reader gives less. */
bs_status bs_source_read(const bs_source *source, uint64_t offset, void *buffer, uint64_t bytes);

#define BS_CURSOR_BYTES 128

/* Reads on from `at` and never beyond `end`. Failure is sticky: after it, numbers read as 0. */
typedef struct bs_cursor {
    const bs_source *source;
    uint64_t at, end;
    bs_status status;
    uint32_t window_bytes;
    uint64_t window_at;
    uint8_t window[BS_CURSOR_BYTES];
} bs_cursor;

void bs_cursor_init(bs_cursor *cursor, const bs_source *source, uint64_t at, uint64_t end);
bool bs_cursor_take(bs_cursor *cursor, void *target, uint64_t bytes);
bool bs_cursor_skip(bs_cursor *cursor, uint64_t bytes);
uint32_t bs_cursor_u32(bs_cursor *cursor);
uint64_t bs_cursor_u64(bs_cursor *cursor);
static inline int32_t bs_cursor_i32(bs_cursor *cursor) { return (int32_t)bs_cursor_u32(cursor); }
static inline int64_t bs_cursor_i64(bs_cursor *cursor) { return (int64_t)bs_cursor_u64(cursor); }
/* A string of at most bytes-1 printable ASCII characters, ended by NUL; anything else is BS_ERROR_FORMAT. */
bool bs_cursor_text(bs_cursor *cursor, char *text, size_t bytes);
static inline uint64_t bs_cursor_left(const bs_cursor *cursor) { return cursor->end - cursor->at; }

/* ------------------------------------------------------------------------------------------------- hashes */

/* FNV-1a over a name, 64 bits. */
uint64_t bs_name_hash(const char *name, size_t bytes);
/* Sorts; false when two are equal. Two names of one hash count as duplicates: a file that contrives such a pair only
 * hurts itself. */
bool bs_hashes_unique(uint64_t *hashes, size_t count);

#endif
/* ==== end src/cursor.h ======================================================================== */

/* ==== begin src/cursor.c ====================================================================== */
/* cursor.c - sources of bytes, cursors over them, the check on doubled names.
 * Relies on cursor.h. Must never read beyond a cursor's end, recurse, or allocate. */
/* #include "cursor.h" */

/* ------------------------------------------------------------------------------------------------ sources */

bs_status bs_source_read(const bs_source *source, uint64_t offset, void *buffer, uint64_t bytes)
{
    if (offset > source->size || bytes > source->size - offset)
        return BS_ERROR_FORMAT;
    if (bytes == 0)
        return BS_OK;
    if (bytes > SIZE_MAX)
        return BS_ERROR_IO;
    if (source->memory) {
        memcpy(buffer, source->memory + offset, (size_t)bytes);
        return BS_OK;
    }
    const int64_t got = source->reader.read(source->reader.user, offset, buffer, (size_t)bytes);
    return got >= 0 && (uint64_t)got == bytes ? BS_OK : BS_ERROR_IO;
}

/* ------------------------------------------------------------------------------------------------ cursors */

void bs_cursor_init(bs_cursor *cursor, const bs_source *source, uint64_t at, uint64_t end)
{
    cursor->source = source;
    cursor->at = at;
    cursor->end = end;
    cursor->status = at <= end && end <= source->size ? BS_OK : BS_ERROR_FORMAT;
    cursor->window_at = 0;
    cursor->window_bytes = 0;
}

static bool cursor_fail(bs_cursor *c, bs_status status)
{
    if (c->status == BS_OK)
        c->status = status;
    return false;
}

static bool cursor_has(bs_cursor *c, uint64_t bytes)
{
    return c->status == BS_OK && (bytes <= c->end - c->at || cursor_fail(c, BS_ERROR_FORMAT));
}

/* Makes [at, at + bytes) lie in the window; bytes <= BS_CURSOR_BYTES. */
static bool cursor_fill(bs_cursor *c, uint64_t bytes)
{
    if (c->at >= c->window_at && c->at + bytes <= c->window_at + c->window_bytes)
        return true;
    const uint64_t left = c->end - c->at;
    const uint64_t ahead = left < BS_CURSOR_BYTES ? left : BS_CURSOR_BYTES;
    const bs_status status = bs_source_read(c->source, c->at, c->window, ahead);
    if (status != BS_OK)
        return cursor_fail(c, status);
    c->window_at = c->at;
    c->window_bytes = (uint32_t)ahead;
    return true;
}

static bool cursor_direct(bs_cursor *c, void *target, uint64_t bytes)
{
    const bs_status status = bs_source_read(c->source, c->at, target, bytes);
    return status == BS_OK || cursor_fail(c, status);
}

bool bs_cursor_take(bs_cursor *cursor, void *target, uint64_t bytes)
{
    if (!cursor_has(cursor, bytes))
        return false;
    if (cursor->source->memory || bytes > BS_CURSOR_BYTES) {
        if (!cursor_direct(cursor, target, bytes))
            return false;
    } else {
        if (!cursor_fill(cursor, bytes))
            return false;
        memcpy(target, cursor->window + (cursor->at - cursor->window_at), (size_t)bytes);
    }
    cursor->at += bytes;
    return true;
}

bool bs_cursor_skip(bs_cursor *cursor, uint64_t bytes)
{
    if (!cursor_has(cursor, bytes))
        return false;
    cursor->at += bytes;
    return true;
}

uint32_t bs_cursor_u32(bs_cursor *cursor)
{
    uint32_t n = 0;
    return bs_cursor_take(cursor, &n, sizeof n) ? n : 0;
}

uint64_t bs_cursor_u64(bs_cursor *cursor)
{
    uint64_t n = 0;
    return bs_cursor_take(cursor, &n, sizeof n) ? n : 0;
}

/* Names end up in messages and on terminals: nothing but printable ASCII. */
static bool text_is_plain(const char *text, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

bool bs_cursor_text(bs_cursor *cursor, char *text, size_t bytes)
{
    text[0] = 0;
    const uint64_t length = bs_cursor_u64(cursor);
    if (cursor->status != BS_OK)
        return false;
    if (length >= bytes)
        return cursor_fail(cursor, BS_ERROR_FORMAT);
    if (!bs_cursor_take(cursor, text, length))
        return false;
    text[length] = 0;
    if (text_is_plain(text, length))
        return true;
    text[0] = 0;
    return cursor_fail(cursor, BS_ERROR_FORMAT);
}

/* ------------------------------------------------------------------------------------------------- hashes */

uint64_t bs_name_hash(const char *name, size_t bytes)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)name[i]) * 1099511628211u;
    return hash;
}

static void hash_sift(uint64_t *hashes, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && hashes[child + 1] > hashes[child])
            child++;
        if (hashes[root] >= hashes[child])
            return;
        const uint64_t swap = hashes[root];
        hashes[root] = hashes[child];
        hashes[child] = swap;
    }
}

/* Heap sort: no recursion, no bad inputs. */
bool bs_hashes_unique(uint64_t *hashes, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        hash_sift(hashes, i, count);
    for (size_t n = count; n > 1; n--) {
        const uint64_t largest = hashes[0];
        hashes[0] = hashes[n - 1];
        hashes[n - 1] = largest;
        hash_sift(hashes, 0, n - 1);
        if (n < count && hashes[n - 1] == hashes[n])
            return false;
    }
    return count < 2 || hashes[0] != hashes[1];
}
/* ==== end src/cursor.c ======================================================================== */

/* ==== begin src/gguf.h ======================================================================== */
/* gguf.h - GGUF version 3, read only, from any source of bytes.
 * Owns the byte level: keys and tensor records. Relies on cursor.h.
 * Must never know what a graph is, assert on what it reads, hold the whole header in memory, or take more steps than
 * the header has bytes. THE FILE IS HOSTILE: each count and length is checked once, against the bytes that are there.
 *
 * It accepts what both the specification and the reference reader accept (power-of-two alignment, tensors in order
 * without gaps, padded to the end, names below 64 bytes), so whatever opens here opens elsewhere. */
#ifndef BS_GGUF_H
#define BS_GGUF_H

/* #include "cursor.h" */

#define BS_GGUF_MAX_KEYS 512
#define BS_GGUF_MAX_TENSORS 1024
#define BS_GGUF_MAX_KEY_BYTES 127
#define BS_GGUF_MAX_NAME_BYTES 63
#define BS_GGUF_MAX_ALIGNMENT 65536

typedef enum bs_gguf_type {
    BS_GGUF_U8, BS_GGUF_I8, BS_GGUF_U16, BS_GGUF_I16, BS_GGUF_U32, BS_GGUF_I32, BS_GGUF_F32, BS_GGUF_BOOL,
    BS_GGUF_STRING, BS_GGUF_ARRAY, BS_GGUF_U64, BS_GGUF_I64, BS_GGUF_F64, BS_GGUF_TYPE_COUNT
} bs_gguf_type;

/* Where the value of a key lies: [at, end) of the file. An array's bytes are those of its elements. */
typedef struct bs_gguf_key {
    uint64_t hash;
    uint64_t at, end;
    uint64_t count;   /* elements of an array; 1 */
    uint32_t type;    /* of the value, or of an array's elements */
    bool is_array;
} bs_gguf_key;

typedef struct bs_gguf_tensor {
    uint64_t name_at; /* of the string, its length included */
    uint64_t offset;  /* absolute in the file */
    uint64_t bytes;   /* without padding */
    uint64_t dim[4];  /* fastest-varying first */
    uint32_t rank, type;
} bs_gguf_tensor;

#define BS_GGUF_TENSOR_I8 24u

typedef struct bs_gguf {
    bs_source source;
    uint64_t alignment;
    uint64_t data; /* offset of the data section */
    uint32_t n_keys, n_tensors;
    bs_gguf_key *keys;
    bs_gguf_tensor *tensors;
} bs_gguf;

/* Checks the whole header and that every tensor's bytes are there. The index goes to `arena`; `source` is copied.
 * After a failure the arena is as it was. */
bs_status bs_gguf_open(bs_gguf *gguf, const bs_source *source, bs_arena *arena, bs_error *error);

/* NULL when there is no such key. */
const bs_gguf_key *bs_gguf_find(const bs_gguf *gguf, const char *name);
/* A cursor over the value (a string: over its bytes, length included). NULL key: an empty one. */
void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor);

#endif
/* ==== end src/gguf.h ========================================================================== */

/* ==== begin src/gguf.c ======================================================================== */
/* gguf.c - the GGUF version 3 reader: one pass over the header.
 * Relies on gguf.h. Must never assert on what it reads, recurse, or loop more often than the header has bytes. */
/* #include "gguf.h" */

/* --------------------------------------------------------------------------------------------------- pass */

/* State of the one pass. `what` says where in the header we are, for the message when it ends early. */
typedef struct gguf_pass {
    bs_gguf *gguf;
    bs_cursor cursor;
    bs_error *error;
    const char *what;
    uint32_t index;
    uint64_t *hashes; /* of names, for the check on duplicates */
} gguf_pass;

static bs_status gguf_fail_read(gguf_pass *p)
{
    const bs_status status = p->cursor.status;
    if (status == BS_ERROR_IO)
        return bs_fail(p->error, status, "reading %s %u failed at byte %llu", p->what, (unsigned)p->index,
                       (unsigned long long)p->cursor.at);
    return bs_fail(p->error, BS_ERROR_FORMAT, "%s %u is malformed or runs over the end, at byte %llu", p->what,
                   (unsigned)p->index, (unsigned long long)p->cursor.at);
}

static bs_status gguf_fail_here(gguf_pass *p, const char *why)
{
    return bs_fail(p->error, BS_ERROR_FORMAT, "%s %u %s, at byte %llu", p->what, (unsigned)p->index, why,
                   (unsigned long long)p->cursor.at);
}

static void *gguf_take(gguf_pass *p, bs_arena *arena, uint64_t count, size_t each, bs_status *status)
{
    const uint64_t bytes = bs_mul_u64(count, each); /* count is capped: far from SIZE_MAX */
    void *memory = bs_arena_take(arena, (size_t)(bytes ? bytes : 1));
    if (!memory)
        *status = bs_fail_arena(p->error, arena, bytes, "the index of a GGUF file");
    return memory;
}

/* ------------------------------------------------------------------------------------------------- header */

static bs_status gguf_version(gguf_pass *p)
{
    const uint32_t version = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if ((version & 0xffff) == 0 && version != 0)
        return bs_fail(p->error, BS_ERROR_VERSION, "the file is big-endian");
    if (version != 3)
        return bs_fail(p->error, BS_ERROR_VERSION, "GGUF version %u, expected 3", (unsigned)version);
    return BS_OK;
}

/* A count is believed when its records can fit into what is left. */
static bs_status gguf_count(gguf_pass *p, const char *what, uint64_t least_bytes, uint32_t cap, uint32_t *count)
{
    const uint64_t n = bs_cursor_u64(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (n > bs_cursor_left(&p->cursor) / least_bytes)
        return bs_fail(p->error, BS_ERROR_FORMAT, "%llu %s cannot fit into the file", (unsigned long long)n, what);
    if (n > cap)
        return bs_fail(p->error, BS_ERROR_LIMIT, "%llu %s, at most %u are supported", (unsigned long long)n, what,
                       (unsigned)cap);
    *count = (uint32_t)n;
    return BS_OK;
}

static bs_status gguf_header(gguf_pass *p)
{
    char magic[4] = {0};
    p->what = "GGUF header";
    if (!bs_cursor_take(&p->cursor, magic, 4))
        return gguf_fail_read(p);
    if (memcmp(magic, "GGUF", 4) != 0)
        return bs_fail(p->error, BS_ERROR_FORMAT, "not a GGUF file: it does not start with \"GGUF\"");
    bs_status status = gguf_version(p);
    if (status == BS_OK) /* name of 1 byte, rank 1, type, offset; key of 1 byte, type, value of 1 byte */
        status = gguf_count(p, "tensors", 8 + 1 + 4 + 8 + 4 + 8, BS_GGUF_MAX_TENSORS, &p->gguf->n_tensors);
    if (status == BS_OK)
        status = gguf_count(p, "keys", 8 + 1 + 4 + 1, BS_GGUF_MAX_KEYS, &p->gguf->n_keys);
    return status;
}

/* --------------------------------------------------------------------------------------------------- keys */

static uint32_t gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[BS_GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < BS_GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static bs_status gguf_skip_elements(gguf_pass *p, const bs_gguf_key *key)
{
    const uint32_t bytes = gguf_type_bytes(key->type);
    if (bytes)
        return bs_cursor_skip(&p->cursor, bs_mul_u64(key->count, bytes)) ? BS_OK : gguf_fail_read(p);
    for (uint64_t i = 0; i < key->count; i++) /* every turn consumes 8 bytes or ends */
        if (!bs_cursor_skip(&p->cursor, bs_cursor_u64(&p->cursor)))
            return gguf_fail_read(p);
    return BS_OK;
}

static bs_status gguf_value(gguf_pass *p, bs_gguf_key *key)
{
    key->type = bs_cursor_u32(&p->cursor);
    key->count = 1;
    key->is_array = key->type == BS_GGUF_ARRAY;
    if (key->is_array) {
        key->type = bs_cursor_u32(&p->cursor);
        key->count = bs_cursor_u64(&p->cursor);
    }
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (key->type >= BS_GGUF_TYPE_COUNT)
        return gguf_fail_here(p, "has a type that does not exist");
    if (key->type == BS_GGUF_ARRAY)
        return gguf_fail_here(p, "is an array of arrays, which is not supported");
    key->at = p->cursor.at;
    const bs_status status = gguf_skip_elements(p, key);
    key->end = p->cursor.at;
    return status;
}

static bs_status gguf_key(gguf_pass *p, bs_gguf_key *key)
{
    char name[BS_GGUF_MAX_KEY_BYTES + 1];
    if (!bs_cursor_text(&p->cursor, name, sizeof name))
        return gguf_fail_read(p);
    if (!name[0])
        return gguf_fail_here(p, "has no name");
    key->hash = bs_name_hash(name, strlen(name));
    p->hashes[p->index] = key->hash;
    return gguf_value(p, key);
}

static bs_status gguf_keys(gguf_pass *p)
{
    p->what = "key";
    for (p->index = 0; p->index < p->gguf->n_keys; p->index++) {
        const bs_status status = gguf_key(p, &p->gguf->keys[p->index]);
        if (status != BS_OK)
            return status;
    }
    if (!bs_hashes_unique(p->hashes, p->gguf->n_keys))
        return bs_fail(p->error, BS_ERROR_FORMAT, "a key occurs twice");
    return BS_OK;
}

static bs_status gguf_alignment(gguf_pass *p)
{
    const bs_gguf_key *key = bs_gguf_find(p->gguf, "general.alignment");
    p->gguf->alignment = 32;
    if (!key)
        return BS_OK;
    if (key->is_array || key->type != BS_GGUF_U32)
        return bs_fail(p->error, BS_ERROR_FORMAT, "general.alignment is not a u32");
    bs_cursor cursor;
    bs_gguf_cursor(p->gguf, key, &cursor);
    const uint64_t n = bs_cursor_u32(&cursor);
    if (cursor.status != BS_OK)
        return bs_fail(p->error, cursor.status, "general.alignment could not be read");
    if (n < 8 || n > BS_GGUF_MAX_ALIGNMENT || (n & (n - 1)) != 0)
        return bs_fail(p->error, BS_ERROR_FORMAT, "general.alignment is %llu, expected a power of two from 8 to %d",
                       (unsigned long long)n, BS_GGUF_MAX_ALIGNMENT);
    p->gguf->alignment = n;
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ tensors */

/* Bytes an element of the plain types; 0 for quantised and unknown ones. */
static uint32_t gguf_tensor_type_bytes(uint32_t type)
{
    switch (type) {
    case 0: return 4;  /* F32 */
    case 1: return 2;  /* F16 */
    case 24: return 1; /* I8 */
    case 25: return 2; /* I16 */
    case 26: return 4; /* I32 */
    case 27: return 8; /* I64 */
    case 28: return 8; /* F64 */
    case 30: return 2; /* BF16 */
    default: return 0;
    }
}

static bs_status gguf_tensor_shape(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->rank = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (tensor->rank < 1 || tensor->rank > 4)
        return gguf_fail_here(p, "has a rank outside 1..4");
    for (uint32_t i = 0; i < 4; i++)
        tensor->dim[i] = i < tensor->rank ? bs_cursor_u64(&p->cursor) : 1;
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    tensor->bytes = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dim[i] == 0 || tensor->dim[i] > INT64_MAX)
            return gguf_fail_here(p, "has a dimension that is zero or beyond 2^63");
        tensor->bytes = bs_mul_u64(tensor->bytes, tensor->dim[i]);
    }
    return BS_OK;
}

static bs_status gguf_tensor_type(gguf_pass *p, bs_gguf_tensor *tensor)
{
    tensor->type = bs_cursor_u32(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    const uint32_t each = gguf_tensor_type_bytes(tensor->type);
    if (each == 0)
        return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "tensor %u has type %u, which is not one of the plain types",
                       (unsigned)p->index, (unsigned)tensor->type);
    tensor->bytes = bs_mul_u64(tensor->bytes, each);
    if (tensor->bytes > p->gguf->source.size)
        return gguf_fail_here(p, "is larger than the file");
    return BS_OK;
}

static bs_status gguf_tensor_name(gguf_pass *p, bs_gguf_tensor *tensor)
{
    char name[BS_GGUF_MAX_NAME_BYTES + 1];
    tensor->name_at = p->cursor.at;
    if (!bs_cursor_text(&p->cursor, name, sizeof name))
        return gguf_fail_read(p);
    if (!name[0])
        return gguf_fail_here(p, "has no name");
    p->hashes[p->index] = bs_name_hash(name, strlen(name));
    return BS_OK;
}

/* Tensors follow each other in listed order, padded: so they cannot overlap and leave no holes. */
static bs_status gguf_tensor_place(gguf_pass *p, bs_gguf_tensor *tensor, uint64_t *running)
{
    tensor->offset = bs_cursor_u64(&p->cursor);
    if (p->cursor.status != BS_OK)
        return gguf_fail_read(p);
    if (tensor->offset != *running)
        return gguf_fail_here(p, "does not start where the one before it ends");
    *running = bs_add_u64(*running, bs_add_u64(tensor->bytes, p->gguf->alignment - 1) & ~(p->gguf->alignment - 1));
    return *running <= p->gguf->source.size ? BS_OK : gguf_fail_here(p, "ends beyond the file");
}

static bs_status gguf_tensor(gguf_pass *p, bs_gguf_tensor *tensor, uint64_t *running)
{
    bs_status status = gguf_tensor_name(p, tensor);
    if (status == BS_OK)
        status = gguf_tensor_shape(p, tensor);
    if (status == BS_OK)
        status = gguf_tensor_type(p, tensor);
    return status == BS_OK ? gguf_tensor_place(p, tensor, running) : status;
}

/* Where data starts is known only behind the last record: offsets become absolute, and the end is checked, here. */
static bs_status gguf_data(gguf_pass *p, uint64_t data_bytes)
{
    bs_gguf *gguf = p->gguf;
    gguf->data = bs_add_u64(p->cursor.at, gguf->alignment - 1) & ~(gguf->alignment - 1);
    if (gguf->n_tensors > 0 && bs_add_u64(gguf->data, data_bytes) > gguf->source.size)
        return bs_fail(p->error, BS_ERROR_FORMAT, "the file is cut short: %llu bytes, its tensors end at %llu",
                       (unsigned long long)gguf->source.size, (unsigned long long)bs_add_u64(gguf->data, data_bytes));
    for (uint32_t i = 0; i < gguf->n_tensors; i++)
        gguf->tensors[i].offset += gguf->data;
    return BS_OK;
}

static bs_status gguf_tensors(gguf_pass *p)
{
    uint64_t running = 0;
    p->what = "tensor";
    for (p->index = 0; p->index < p->gguf->n_tensors; p->index++) {
        const bs_status status = gguf_tensor(p, &p->gguf->tensors[p->index], &running);
        if (status != BS_OK)
            return status;
    }
    if (!bs_hashes_unique(p->hashes, p->gguf->n_tensors))
        return bs_fail(p->error, BS_ERROR_FORMAT, "a tensor's name occurs twice");
    return gguf_data(p, running);
}

/* --------------------------------------------------------------------------------------------------- open */

static bs_status gguf_index(gguf_pass *p, bs_arena *arena)
{
    bs_gguf *gguf = p->gguf;
    bs_status status = BS_OK;
    gguf->keys = gguf_take(p, arena, gguf->n_keys, sizeof *gguf->keys, &status);
    if (gguf->keys)
        gguf->tensors = gguf_take(p, arena, gguf->n_tensors, sizeof *gguf->tensors, &status);
    return status;
}

static bs_status gguf_body(gguf_pass *p, bs_arena *arena)
{
    const uint32_t most = p->gguf->n_keys > p->gguf->n_tensors ? p->gguf->n_keys : p->gguf->n_tensors;
    const size_t mark = arena->used;
    bs_status status = BS_OK;
    p->hashes = gguf_take(p, arena, most, sizeof *p->hashes, &status);
    if (status == BS_OK)
        status = gguf_keys(p);
    if (status == BS_OK)
        status = gguf_alignment(p);
    if (status == BS_OK)
        status = gguf_tensors(p);
    arena->used = mark; /* the hashes are done with */
    return status;
}

bs_status bs_gguf_open(bs_gguf *gguf, const bs_source *source, bs_arena *arena, bs_error *error)
{
    const size_t mark = arena->used;
    gguf_pass pass;
    memset(gguf, 0, sizeof *gguf);
    memset(&pass, 0, sizeof pass);
    gguf->source = *source;
    pass.gguf = gguf;
    pass.error = error;
    bs_cursor_init(&pass.cursor, &gguf->source, 0, source->size);
    bs_status status = gguf_header(&pass);
    if (status == BS_OK)
        status = gguf_index(&pass, arena);
    if (status == BS_OK)
        status = gguf_body(&pass, arena);
    if (status != BS_OK)
        arena->used = mark;
    return status;
}

/* ------------------------------------------------------------------------------------------------- access */

const bs_gguf_key *bs_gguf_find(const bs_gguf *gguf, const char *name)
{
    const uint64_t hash = bs_name_hash(name, strlen(name));
    for (uint32_t i = 0; i < gguf->n_keys; i++)
        if (gguf->keys[i].hash == hash)
            return &gguf->keys[i];
    return NULL;
}

void bs_gguf_cursor(const bs_gguf *gguf, const bs_gguf_key *key, bs_cursor *cursor)
{
    bs_cursor_init(cursor, &gguf->source, key ? key->at : 0, key ? key->end : 0);
}
/* ==== end src/gguf.c ========================================================================== */

/* ==== begin src/stream.h ====================================================================== */
/* stream.h - which weights are in slots, what is read next, and what is guessed: a state machine without threads, files or
 * a clock of its own. The store drives it with reader threads, a replay with a scripted clock; both get the same decisions.
 *
 * Owns extents of the slots arena, the queue of reads and the predictors. Relies on base.h. Must never touch weights,
 * block, or be called by two threads at once: whoever drives it holds a lock. Times are ns of whoever drives it. */
#ifndef BS_STREAM_H
#define BS_STREAM_H

/* #include "base.h" */

/* ------------------------------------------------------------------------------------- what does not change */

typedef struct bs_stream_unit {
    uint64_t slot_bytes; /* a multiple of BS_ALIGNMENT */
    uint64_t read_bytes;
    int32_t n_chunks; /* at least 1; each is read and prepared by itself */
} bs_stream_unit;

typedef bs_trace_stage bs_stream_stage; /* first_unit, n_units: in `uses` */

typedef struct bs_stream_facts {
    int32_t n_units, n_stages, n_uses;
    const bs_stream_unit *units;
    const bs_stream_stage *stages; /* in the order in which a run visits them */
    const int32_t *uses;           /* units of the stages, one after the other */
    uint64_t slot_bytes;
    bs_stream_desc desc;
    bool serial; /* one chunk of a unit at a time, in order */
} bs_stream_facts;

/* ------------------------------------------------------------------------------------------------- its state */

typedef enum bs_slot_state {
    BS_SLOT_ABSENT,
    BS_SLOT_LOADING,
    BS_SLOT_READY,
    BS_SLOT_DROPPED /* given up while chunks are still being read: its bytes are free when they are back */
} bs_slot_state;

typedef struct bs_slot {
    bs_slot_state state;
    uint32_t generation; /* of the load; a chunk of another generation is discarded */
    uint64_t offset;     /* in the slots arena, unless absent */
    int32_t pins, issued, done, in_flight;
    bool needed;  /* by the visit in progress, and not yet taken */
    bool guessed; /* a guess began this load, and nothing used it yet */
    bool evicted_by_guess;
    bool spoiled; /* a chunk of this load failed */
    bs_use outcome; /* of the visit in progress */
    bs_status failed;
    uint64_t last_use; /* in takes */
    double frequency;  /* of uses, older ones counting less */
    uint64_t silent_until; /* visits: reads failed, so it is not guessed */
    uint64_t load_start;
    double keep; /* scratch of one search for room */
} bs_slot;

typedef struct bs_stage_state {
    bool told;             /* look-ahead said what to expect of the next visit */
    uint64_t visits;
    double set_size;       /* units a visit needs, on average */
    double compute_ns;     /* from this visit to the next one, without stalls; -1 unknown */
    double ahead_in, ahead_out;       /* how often an expected unit, and another one, was needed */
    double error_transition, error_frequency; /* squared, of the probabilities */
    int32_t before;        /* the routed stage visited before this one */
    uint32_t table;        /* of transitions: [units of before][own units], then [units of before] totals */
    bs_prediction predictions[BS_PREDICTOR_COUNT];
} bs_stage_state;

typedef struct bs_stream {
    bs_stream_facts facts;
    bs_slot *slots;         /* [units] */
    bs_stage_state *stages; /* [stages] */
    double *rate;           /* [uses] how often its stage needs it */
    uint8_t *chosen;        /* [uses] by the last visit */
    uint8_t *expected;      /* [uses] by look-ahead, of the next visit */
    double *score;          /* [uses] scratch of predictors */
    int32_t *distance;      /* [units] stages until the next visit that may need it, 1 = the next one */
    int32_t *next_use;      /* [units] index in `uses` of that visit */
    int32_t *needed;        /* [units] of the visit in progress, in order */
    uint16_t *transitions;
    const int64_t *future;  /* replay: [units] the visit that will in fact need it next, for BS_POLICY_BELADY */
    int32_t n_needed;
    int32_t stage;          /* of the visit in progress or the last one; -1 none yet */
    uint64_t visits, takes;
    uint64_t visit_ns, stalled_ns; /* when the visit began; stalls since */
    double ns_per_byte; /* of reading and preparing, measured; 0 unknown */
    double miss_rate;   /* how often a visit has to wait for a read */
    /* does guessing pay? */
    double gained_ns, lost_ns;
    uint64_t window_end, pause_visits;
    bool paused;
    uint64_t slots_used;
    int32_t reading; /* chunks that storage is busy with */
    bs_stream_stats stats;
} bs_stream;

/* Bytes for `memory`, which must be aligned to BS_ALIGNMENT. */
uint64_t bs_stream_bytes(const bs_stream_facts *facts);
/* facts: copied; what it points to must outlive the stream. */
void bs_stream_init(bs_stream *stream, const bs_stream_facts *facts, void *memory);

/* ------------------------------------------------------------------------------------------------ the run side */

/* A stage is reached, and these units are needed, in this order. */
void bs_stream_visit(bs_stream *stream, int32_t stage, const int32_t *units, int32_t count, uint64_t now);
/* Look-ahead: the next visit of `stage` will need this unit (-1: none of them). First call of a stage forgets older ones. */
void bs_stream_expect(bs_stream *stream, int32_t stage, int32_t unit);
/* Pins a unit that is ready and tells where it is. False: not yet (or *failed tells why never); a unit that the visit
 * did not ask for is asked for. */
bool bs_stream_take(bs_stream *stream, int32_t unit, uint64_t *offset, bs_status *failed);
void bs_stream_release(bs_stream *stream, int32_t unit);
/* The visit is over, whatever was not taken is no longer needed. */
void bs_stream_leave(bs_stream *stream);
void bs_stream_stalled(bs_stream *stream, uint64_t ns);

/* --------------------------------------------------------------------------------------------- the reader side */

typedef struct bs_stream_chunk {
    int32_t unit, index;
    uint32_t generation;
    bool demanded;
    bool arrived;
    uint64_t offset; /* of the unit's slot */
} bs_stream_chunk;

/* What to read next; false: nothing now. Each chunk must come back through bs_stream_done. */
bool bs_stream_next(bs_stream *stream, uint64_t now, bs_stream_chunk *chunk);
/* The chunk's bytes are here, and are being prepared: storage is free for another guess. */
void bs_stream_arrived(bs_stream *stream, bs_stream_chunk *chunk);
/* status: of reading, checking and preparing it. Returns whether its unit is complete. */
bool bs_stream_done(bs_stream *stream, bs_stream_chunk *chunk, bs_status status, uint64_t bytes, uint64_t ns,
                    uint64_t now);

/* --------------------------------------------------------------------------------------- inside: stream_*.c */

/* stream_slots.c */
/* Finds the cheapest place for `bytes` by the policy; gives false when what is pinned or needed leaves none. */
bool bs_slots_find(bs_stream *stream, uint64_t bytes, uint64_t *offset);
/* The next unit whose extent overlaps [offset, offset + bytes), after unit `after` (-1: the first); -1 none. */
int32_t bs_slots_overlap(const bs_stream *stream, uint64_t offset, uint64_t bytes, int32_t after);
void bs_slots_begin(bs_stream *stream, int32_t unit, uint64_t offset, bool guessed, uint64_t now);
void bs_slots_give_up(bs_stream *stream, int32_t unit, bool for_guess);

/* stream_predict.c */
/* How likely the next visit of `stage` needs use `use` (an index in facts.uses). */
double bs_predict_use(const bs_stream *stream, int32_t stage, int32_t use);
/* Compares what was expected of this visit with what it needs, and learns from it. */
void bs_predict_visit(bs_stream *stream, int32_t stage, const int32_t *units, int32_t count);
/* From the stage of the visit: how far each unit's next use is. */
void bs_predict_distances(bs_stream *stream);
uint32_t bs_predict_tables(const bs_stream_facts *facts, bs_stage_state *stages);

/* What reading a unit takes, by what was measured so far. */
static inline double bs_stream_read_ns(const bs_stream *s, int32_t unit)
{
    return (double)s->facts.units[unit].read_bytes * s->ns_per_byte;
}

#endif
/* ==== end src/stream.h ======================================================================== */

/* ==== begin src/stream_slots.c ================================================================ */
/* stream_slots.c - extents of the slots arena: who is where, who goes.
 *
 * Extents rather than slots of fixed sizes: units differ (a small and a large subnet), and an extent wastes nothing but
 * what lies between two others. Room is found by trying every place that begins or ends at an extent, and taking the one
 * whose most valuable victim is worth least. What is pinned, needed or being read stays.
 * Relies on stream.h. Must never evict what the visit in progress still needs. */
/* #include "stream.h" */

/* ------------------------------------------------------------------------------------------------ policies */

/* The larger, the longer it stays. */
typedef double (*slot_keep)(const bs_stream *s, int32_t unit);

/* Minus the stages until it is needed again, as expected: its next visit, or after a miss of that once in 1/rate runs. */
static double keep_reuse(const bs_stream *s, int32_t unit)
{
    const int32_t ahead = s->distance[unit], stages = s->facts.n_stages;
    const int32_t stage = (s->stage + ahead) % stages;
    const double p = bs_predict_use(s, stage, s->next_use[unit]), rate = s->rate[s->next_use[unit]];
    return -(ahead + (1 - p) * stages / (rate > 0.01 ? rate : 0.01));
}

static double keep_lru(const bs_stream *s, int32_t unit) { return (double)s->slots[unit].last_use; }

static double keep_lfu(const bs_stream *s, int32_t unit)
{
    const double age = (double)(s->takes - s->slots[unit].last_use) / (8.0 * s->facts.n_units);
    return s->slots[unit].frequency * exp2(-age);
}

static double keep_belady(const bs_stream *s, int32_t unit) { return s->future ? -(double)s->future[unit] : 0; }

static const slot_keep slot_policies[BS_POLICY_COUNT] = {keep_reuse, keep_lru, keep_lfu, keep_belady};

const char *bs_policy_name(bs_policy policy)
{
#define SLOT_POLICY_TEXT(name, text) text,
    static const char *const names[] = {BS_POLICY_LIST(SLOT_POLICY_TEXT)};
#undef SLOT_POLICY_TEXT
    return (int)policy >= 0 && policy < BS_POLICY_COUNT ? names[policy] : "unknown";
}

/* ------------------------------------------------------------------------------------------------ searching */

static bool slot_may_go(const bs_slot *slot)
{
    return slot->pins == 0 && !slot->needed && slot->in_flight == 0;
}

int32_t bs_slots_overlap(const bs_stream *s, uint64_t offset, uint64_t bytes, int32_t after)
{
    for (int32_t u = after + 1; u < s->facts.n_units; u++) {
        const bs_slot *slot = &s->slots[u];
        if (slot->state != BS_SLOT_ABSENT && slot->offset < offset + bytes && offset < slot->offset + s->facts.units[u].slot_bytes)
            return u;
    }
    return -1;
}

typedef struct slot_place {
    uint64_t offset, evicted;
    double worst; /* of its victims; -infinity without any */
    bool found;
} slot_place;

static void try_place(const bs_stream *s, uint64_t offset, uint64_t bytes, slot_place *best)
{
    slot_place place = {offset, 0, -(double)INFINITY, true};
    if (offset > s->facts.slot_bytes || bytes > s->facts.slot_bytes - offset)
        return;
    for (int32_t u = bs_slots_overlap(s, offset, bytes, -1); u >= 0; u = bs_slots_overlap(s, offset, bytes, u)) {
        if (!slot_may_go(&s->slots[u]))
            return;
        place.worst = s->slots[u].keep > place.worst ? s->slots[u].keep : place.worst;
        place.evicted += s->facts.units[u].slot_bytes;
    }
    if (!best->found || place.worst < best->worst || (place.worst <= best->worst && place.evicted < best->evicted))
        *best = place;
}

bool bs_slots_find(bs_stream *s, uint64_t bytes, uint64_t *offset)
{
    const slot_keep keep = slot_policies[s->facts.desc.policy];
    slot_place best = {0, 0, 0, false};
    for (int32_t u = 0; u < s->facts.n_units; u++)
        if (s->slots[u].state != BS_SLOT_ABSENT && slot_may_go(&s->slots[u]))
            s->slots[u].keep = keep(s, u);
    try_place(s, 0, bytes, &best);
    for (int32_t u = 0; u < s->facts.n_units; u++) {
        if (s->slots[u].state == BS_SLOT_ABSENT)
            continue;
        try_place(s, s->slots[u].offset, bytes, &best);
        try_place(s, s->slots[u].offset + s->facts.units[u].slot_bytes, bytes, &best);
    }
    *offset = best.offset;
    return best.found;
}

/* ---------------------------------------------------------------------------------------- coming and going */

static void count_waste(bs_stream *s, int32_t unit)
{
    const bs_stream_unit *facts = &s->facts.units[unit];
    bs_slot *slot = &s->slots[unit];
    if (slot->guessed)
        s->stats.bytes_wasted += facts->read_bytes * (uint64_t)slot->done / (uint64_t)facts->n_chunks;
    slot->guessed = false;
}

void bs_slots_give_up(bs_stream *s, int32_t unit, bool for_guess)
{
    bs_slot *slot = &s->slots[unit];
    const bool loading = slot->state != BS_SLOT_READY;
    s->stats.dropped += loading && slot->state != BS_SLOT_DROPPED;
    s->stats.evictions += !loading;
    count_waste(s, unit);
    slot->evicted_by_guess = for_guess && !loading;
    if (slot->in_flight > 0) { /* a lane still writes to it */
        slot->state = BS_SLOT_DROPPED;
        return;
    }
    slot->state = BS_SLOT_ABSENT;
    slot->generation++;
    s->slots_used -= s->facts.units[unit].slot_bytes;
}

void bs_slots_begin(bs_stream *s, int32_t unit, uint64_t offset, bool guessed, uint64_t now)
{
    const uint64_t bytes = s->facts.units[unit].slot_bytes;
    bs_slot *slot = &s->slots[unit];
    for (int32_t u = bs_slots_overlap(s, offset, bytes, -1); u >= 0; u = bs_slots_overlap(s, offset, bytes, u))
        bs_slots_give_up(s, u, guessed);
    slot->state = BS_SLOT_LOADING;
    slot->generation++;
    slot->offset = offset;
    slot->issued = slot->done = 0;
    slot->spoiled = false;
    slot->guessed = guessed;
    slot->load_start = now;
    s->slots_used += bytes;
    if (s->slots_used > s->stats.resident_peak_bytes)
        s->stats.resident_peak_bytes = s->slots_used;
}
/* ==== end src/stream_slots.c ================================================================== */

/* ==== begin src/stream_predict.c ============================================================== */
/* stream_predict.c - which units the next visits will need.
 *
 * Four predictors, best first: *known* (a stage without a router needs the same in every run), *look-ahead* (the next
 * router run on what is known now, handed in by the graph), *transition* (what followed the choices of the router before),
 * *frequency*. Each is asked at every visit, so that its precision and recall are known whether or not anything was read;
 * what comes out is a probability that was calibrated by that.
 * Relies on stream.h. Must never decide what is read. */
/* #include "stream.h" */

#define PREDICT_STEP (1.0 / 32)     /* weight of the newest visit in running averages */
#define PREDICT_SMOOTHING 4.0       /* visits' worth of frequency in a transition count */
#define PREDICT_MAX_COUNT 4096      /* transition counts are halved here */

const char *bs_predictor_name(bs_predictor predictor)
{
    static const char *const names[] = {"known", "look-ahead", "transition", "frequency"};
    return (int)predictor >= 0 && predictor < BS_PREDICTOR_COUNT ? names[predictor] : "unknown";
}

/* ---------------------------------------------------------------------------------------------- transitions */

/* Gives every routed stage its table; returns the counters of all. stages may be NULL: only counted. */
uint32_t bs_predict_tables(const bs_stream_facts *facts, bs_stage_state *stages)
{
    uint32_t used = 0;
    int32_t before = -1;
    for (int32_t j = 0; j < facts->n_stages; j++)
        if (facts->stages[j].router)
            before = j;
    for (int32_t j = 0; j < facts->n_stages; j++) {
        const int32_t own = facts->stages[j].n_units, other = before >= 0 ? facts->stages[before].n_units : 0;
        if (stages) {
            stages[j].before = facts->stages[j].router ? before : -1;
            stages[j].table = used;
        }
        if (!facts->stages[j].router)
            continue;
        used += (uint32_t)(other * (own + 1));
        before = j;
    }
    return used;
}

static uint16_t *table_row(const bs_stream *s, int32_t stage, int32_t from)
{
    return s->transitions + s->stages[stage].table + (size_t)from * (size_t)s->facts.stages[stage].n_units;
}

static uint16_t *table_total(const bs_stream *s, int32_t stage, int32_t from)
{
    const int32_t before = s->stages[stage].before;
    return s->transitions + s->stages[stage].table +
           (size_t)s->facts.stages[before].n_units * (size_t)s->facts.stages[stage].n_units + (size_t)from;
}

/* The mean, over what the router before chose, of how often this followed. */
static double transition_probability(const bs_stream *s, int32_t stage, int32_t use)
{
    const bs_stream_stage *before = &s->facts.stages[s->stages[stage].before];
    const int32_t own = use - s->facts.stages[stage].first_unit;
    double sum = 0;
    int32_t chosen = 0;
    for (int32_t a = 0; a < before->n_units; a++) {
        if (!s->chosen[before->first_unit + a])
            continue;
        sum += (table_row(s, stage, a)[own] + PREDICT_SMOOTHING * s->rate[use]) / (*table_total(s, stage, a) + PREDICT_SMOOTHING);
        chosen++;
    }
    return chosen ? sum / chosen : s->rate[use];
}

static void count_transitions(bs_stream *s, int32_t stage)
{
    const bs_stream_stage *own = &s->facts.stages[stage], *before = &s->facts.stages[s->stages[stage].before];
    for (int32_t a = 0; a < before->n_units; a++) {
        if (!s->chosen[before->first_unit + a])
            continue;
        uint16_t *row = table_row(s, stage, a), *total = table_total(s, stage, a);
        if (*total == PREDICT_MAX_COUNT) {
            *total /= 2;
            for (int32_t k = 0; k < own->n_units; k++)
                row[k] /= 2;
        }
        ++*total;
        for (int32_t k = 0; k < own->n_units; k++)
            row[k] = (uint16_t)(row[k] + (s->score[own->first_unit + k] > 0)); /* score: 1 = needed now */
    }
}

/* -------------------------------------------------------------------------------------------- probabilities */

/* Whether nothing routed lies between the visit in progress and the next one of `stage`. */
static bool follows_directly(const bs_stream *s, int32_t stage)
{
    const int32_t before = s->stages[stage].before;
    if (before < 0 || s->stage < 0)
        return false;
    for (int32_t j = s->stage;; j = (j + s->facts.n_stages - 1) % s->facts.n_stages) {
        if (s->facts.stages[j].router)
            return j == before;
        if (j == stage)
            return false;
    }
}

double bs_predict_use(const bs_stream *s, int32_t stage, int32_t use)
{
    const bs_stage_state *state = &s->stages[stage];
    if (s->facts.stages[stage].router == 0)
        return 1;
    if (state->told)
        return s->expected[use] ? state->ahead_in : state->ahead_out;
    if (follows_directly(s, stage) && state->error_transition < state->error_frequency)
        return transition_probability(s, stage, use);
    return s->rate[use];
}

void bs_predict_distances(bs_stream *s)
{
    for (int32_t u = 0; u < s->facts.n_units; u++)
        s->distance[u] = 0;
    for (int32_t d = 1; d <= s->facts.n_stages; d++) {
        const bs_stream_stage *stage = &s->facts.stages[(s->stage + d) % s->facts.n_stages];
        for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++) {
            const int32_t u = s->facts.uses[k];
            if (s->distance[u] != 0)
                continue;
            s->distance[u] = d;
            s->next_use[u] = k;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- measurement */

static void average(double *value, double sample) { *value += (sample - *value) * PREDICT_STEP; }

static bool is_needed(const int32_t *units, int32_t count, int32_t unit)
{
    for (int32_t i = 0; i < count; i++)
        if (units[i] == unit)
            return true;
    return false;
}

/* The `expected` likeliest by score, highest first; of equal ones the first. */
static void rate_ranking(bs_stream *s, const bs_stream_stage *stage, bs_prediction *p, const int32_t *units, int32_t count,
                         int32_t expected)
{
    for (int32_t n = 0; n < expected; n++) {
        int32_t best = -1;
        for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++)
            if (s->score[k] >= 0 && (best < 0 || s->score[k] > s->score[best]))
                best = k;
        if (best < 0)
            break;
        s->score[best] = -1;
        p->expected++;
        p->right += is_needed(units, count, s->facts.uses[best]);
    }
    p->needed += (uint64_t)count;
}

/* Scores one of the two statistical predictors; returns its squared error a unit. */
static double rate_statistics(bs_stream *s, int32_t j, bs_predictor which, const int32_t *units, int32_t count)
{
    const bs_stream_stage *stage = &s->facts.stages[j];
    double error = 0;
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++) {
        const double p = which == BS_PREDICT_TRANSITION ? transition_probability(s, j, k) : s->rate[k];
        const double miss = p - (double)is_needed(units, count, s->facts.uses[k]);
        s->score[k] = p;
        error += miss * miss;
    }
    const double size = s->stages[j].set_size;
    const int32_t expected = bs_clamp_i32((int32_t)(size + 0.5), 1, stage->n_units);
    rate_ranking(s, stage, &s->stages[j].predictions[which], units, count, expected);
    return error / stage->n_units;
}

static void rate_look_ahead(bs_stream *s, int32_t j, const int32_t *units, int32_t count)
{
    const bs_stream_stage *stage = &s->facts.stages[j];
    bs_stage_state *state = &s->stages[j];
    bs_prediction *p = &state->predictions[BS_PREDICT_LOOK_AHEAD];
    int32_t inside = 0, right = 0;
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++) {
        inside += s->expected[k];
        right += s->expected[k] && is_needed(units, count, s->facts.uses[k]);
    }
    p->expected += (uint64_t)inside;
    p->right += (uint64_t)right;
    p->needed += (uint64_t)count;
    if (inside > 0)
        average(&state->ahead_in, (double)right / inside);
    if (inside < stage->n_units)
        average(&state->ahead_out, (double)(count - right) / (stage->n_units - inside));
}

static void learn(bs_stream *s, int32_t j, const int32_t *units, int32_t count)
{
    const bs_stream_stage *stage = &s->facts.stages[j];
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++)
        s->score[k] = is_needed(units, count, s->facts.uses[k]);
    if (s->stages[j].before >= 0 && s->stages[s->stages[j].before].visits > 0)
        count_transitions(s, j);
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++) {
        average(&s->rate[k], s->score[k]);
        s->chosen[k] = s->score[k] > 0;
        s->expected[k] = 0;
    }
    if (s->stages[j].visits == 0)
        s->stages[j].set_size = count;
    average(&s->stages[j].set_size, count);
}

void bs_predict_visit(bs_stream *s, int32_t j, const int32_t *units, int32_t count)
{
    bs_stage_state *state = &s->stages[j];
    if (s->facts.stages[j].router == 0) {
        bs_prediction *known = &state->predictions[BS_PREDICT_KNOWN];
        known->expected += (uint64_t)s->facts.stages[j].n_units;
        known->right += (uint64_t)count;
        known->needed += (uint64_t)count;
    } else {
        if (state->told)
            rate_look_ahead(s, j, units, count);
        if (state->before >= 0)
            average(&state->error_transition, rate_statistics(s, j, BS_PREDICT_TRANSITION, units, count));
        average(&state->error_frequency, rate_statistics(s, j, BS_PREDICT_FREQUENCY, units, count));
        learn(s, j, units, count);
    }
    state->told = false;
    state->visits++;
}
/* ==== end src/stream_predict.c ================================================================ */

/* ==== begin src/stream.c ====================================================================== */
/* stream.c - the queue: what is read next.
 *
 * Demand goes first, always: while a unit that the visit in progress needs is not there, nothing is read for a guess.
 * Guesses fill the time in which storage would be idle, and only when they pay: what a read saves if it is right, against
 * what it delays if it is wrong and what the evicted would have saved. What was passed by is dropped, a guess that turns
 * out needed is upgraded where it stands, and nothing is read twice for one use. When guessing loses more than it gains
 * over a window of visits, it pauses, for longer each time; predictors go on being measured meanwhile.
 * Relies on stream_slots.c and stream_predict.c. Must never wait. */
/* #include "stream.h" */

#define STREAM_WINDOW 64         /* visits over which guessing must pay */
#define STREAM_LONGEST_PAUSE 4096 /* visits */
#define STREAM_MARGIN 0.05       /* of its reading time that an uncertain guess must promise */
#define STREAM_SLACK 1.25        /* reading may take that much longer than measured */
#define STREAM_SILENCE 64        /* visits in which a unit that could not be read is not guessed */

/* ------------------------------------------------------------------------------------------------ making one */

typedef struct stream_carver {
    uint8_t *base;
    uint64_t used;
} stream_carver;

static void *stream_carve(stream_carver *c, uint64_t count, uint64_t bytes)
{
    uint8_t *memory = c->base ? c->base + c->used : NULL;
    c->used = bs_add_u64(c->used, bs_align_u64(bs_mul_u64(count, bytes)));
    return memory;
}

static void carve_stream(stream_carver *c, const bs_stream_facts *f, bs_stream *s)
{
    const uint64_t units = (uint64_t)f->n_units, stages = (uint64_t)f->n_stages, uses = (uint64_t)f->n_uses;
    s->slots = stream_carve(c, units, sizeof *s->slots);
    s->stages = stream_carve(c, stages, sizeof *s->stages);
    s->rate = stream_carve(c, uses, sizeof *s->rate);
    s->score = stream_carve(c, uses, sizeof *s->score);
    s->chosen = stream_carve(c, uses, 1);
    s->expected = stream_carve(c, uses, 1);
    s->distance = stream_carve(c, units, sizeof *s->distance);
    s->next_use = stream_carve(c, units, sizeof *s->next_use);
    s->needed = stream_carve(c, units, sizeof *s->needed);
    s->transitions = stream_carve(c, bs_predict_tables(f, NULL), sizeof *s->transitions);
}

uint64_t bs_stream_bytes(const bs_stream_facts *facts)
{
    stream_carver c = {NULL, 0};
    bs_stream unused;
    carve_stream(&c, facts, &unused);
    return c.used;
}

void bs_stream_init(bs_stream *s, const bs_stream_facts *facts, void *memory)
{
    stream_carver c = {memory, 0};
    memset(memory, 0, (size_t)bs_stream_bytes(facts));
    memset(s, 0, sizeof *s);
    s->facts = *facts;
    carve_stream(&c, facts, s);
    bs_predict_tables(facts, s->stages);
    for (int32_t j = 0; j < facts->n_stages; j++) {
        bs_stage_state *stage = &s->stages[j];
        stage->compute_ns = -1;
        stage->ahead_in = 0.5;
        stage->ahead_out = 0.1;
        stage->error_transition = stage->error_frequency = 0.25;
        for (int32_t k = facts->stages[j].first_unit; k < facts->stages[j].first_unit + facts->stages[j].n_units; k++)
            s->rate[k] = facts->stages[j].router ? 0.25 : 1;
    }
    s->stage = -1;
    s->window_end = STREAM_WINDOW;
    s->pause_visits = STREAM_WINDOW;
    bs_predict_distances(s);
}

/* ------------------------------------------------------------------------------------------- does guessing pay? */

static void gain(bs_stream *s, double ns) { s->gained_ns += ns; }
static void lose(bs_stream *s, double ns) { s->lost_ns += ns; }

/* At the end of a window guessing goes on, pauses, or is tried again. */
static void close_window(bs_stream *s)
{
    const bool pays = s->gained_ns >= s->lost_ns;
    if (s->visits < s->window_end)
        return;
    if (s->paused) {
        s->paused = false;
        s->window_end = s->visits + STREAM_WINDOW;
    } else if (pays) {
        s->pause_visits = STREAM_WINDOW;
        s->window_end = s->visits + STREAM_WINDOW;
    } else {
        s->paused = true;
        s->stats.paused++;
        s->window_end = s->visits + s->pause_visits;
        s->pause_visits = s->pause_visits < STREAM_LONGEST_PAUSE ? s->pause_visits * 2 : s->pause_visits;
    }
    s->gained_ns = s->lost_ns = 0;
}

/* ----------------------------------------------------------------------------------------------------- visits */

static void end_stage_time(bs_stream *s, uint64_t now)
{
    if (s->stage < 0)
        return;
    bs_stage_state *stage = &s->stages[s->stage];
    const double ns = (double)(now - s->visit_ns) - (double)s->stalled_ns;
    const double compute = ns > 0 ? ns : 0;
    stage->compute_ns = stage->compute_ns < 0 ? compute : stage->compute_ns + (compute - stage->compute_ns) / 8;
}

/* Reading time that a guess has spared the visit so far. */
static double spared(const bs_stream *s, int32_t unit, uint64_t now)
{
    const bs_slot *slot = &s->slots[unit];
    const double read = bs_stream_read_ns(s, unit), gone = (double)(now - slot->load_start);
    return slot->state == BS_SLOT_READY || gone > read ? read : gone;
}

/* How the unit stands when it is needed; an unfinished guess becomes demand where it is. */
static void demand(bs_stream *s, int32_t unit, uint64_t now)
{
    bs_slot *slot = &s->slots[unit];
    slot->needed = true;
    slot->failed = BS_OK;
    if (slot->state == BS_SLOT_DROPPED && !slot->spoiled)
        slot->state = BS_SLOT_LOADING; /* taken up again before its last chunk came back */
    slot->outcome = slot->state == BS_SLOT_READY ? BS_USE_HIT : slot->state == BS_SLOT_LOADING ? BS_USE_LATE : BS_USE_MISS;
    s->stats.hits += slot->outcome == BS_USE_HIT;
    s->stats.late += slot->outcome == BS_USE_LATE;
    s->stats.misses += slot->outcome == BS_USE_MISS;
    if (slot->guessed)
        gain(s, spared(s, unit, now));
    if (slot->outcome == BS_USE_MISS && slot->evicted_by_guess)
        lose(s, bs_stream_read_ns(s, unit));
    slot->evicted_by_guess = false;
    for (int32_t i = 0; i < s->n_needed; i++)
        if (s->needed[i] == unit)
            return; /* for the second time in one visit */
    s->needed[s->n_needed++] = unit;
}

/* Loads that were begun for this visit, which does not need them. */
static void drop_passed(bs_stream *s)
{
    const bs_stream_stage *stage = &s->facts.stages[s->stage];
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++) {
        const int32_t unit = s->facts.uses[k];
        if (s->slots[unit].state == BS_SLOT_LOADING && !s->slots[unit].needed)
            bs_slots_give_up(s, unit, false);
    }
}

void bs_stream_visit(bs_stream *s, int32_t stage, const int32_t *units, int32_t count, uint64_t now)
{
    bs_stream_leave(s);
    end_stage_time(s, now);
    bs_predict_visit(s, stage, units, count);
    s->stage = stage;
    s->visits++;
    s->visit_ns = now;
    s->stalled_ns = 0;
    close_window(s);
    for (int32_t i = 0; i < count; i++)
        if (!s->slots[units[i]].needed)
            demand(s, units[i], now);
    bs_predict_distances(s);
    drop_passed(s);
    int32_t missing = 0;
    for (int32_t i = 0; i < s->n_needed; i++)
        missing += s->slots[s->needed[i]].state != BS_SLOT_READY;
    s->miss_rate += ((missing > 0) - s->miss_rate) / 32;
}

void bs_stream_expect(bs_stream *s, int32_t stage, int32_t unit)
{
    const bs_stream_stage *facts = &s->facts.stages[stage];
    if (!s->stages[stage].told)
        for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++)
            s->expected[k] = 0;
    s->stages[stage].told = true;
    for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++)
        if (s->facts.uses[k] == unit)
            s->expected[k] = 1;
}

bool bs_stream_take(bs_stream *s, int32_t unit, uint64_t *offset, bs_status *failed)
{
    bs_slot *slot = &s->slots[unit];
    *failed = slot->needed ? slot->failed : BS_OK;
    if (slot->state != BS_SLOT_READY) {
        if (!slot->needed) /* it was used, went, and is needed again in the same visit */
            demand(s, unit, s->visit_ns);
        return false;
    }
    if (slot->guessed)
        s->stats.useful_guesses++;
    slot->guessed = false;
    slot->needed = false;
    slot->pins++;
    const double age = (double)(s->takes - slot->last_use) / (8.0 * s->facts.n_units);
    slot->frequency = slot->frequency * exp2(-age) + 1;
    slot->last_use = ++s->takes;
    *offset = slot->offset;
    return true;
}

void bs_stream_release(bs_stream *s, int32_t unit)
{
    s->slots[unit].pins--;
}

void bs_stream_leave(bs_stream *s)
{
    for (int32_t i = 0; i < s->n_needed; i++)
        s->slots[s->needed[i]].needed = false;
    s->n_needed = 0;
}

void bs_stream_stalled(bs_stream *s, uint64_t ns)
{
    s->stalled_ns += ns;
    s->stats.stall_ns += ns;
}

/* ------------------------------------------------------------------------------------------------ what to read */

static bool issue(bs_stream *s, int32_t unit, bs_stream_chunk *chunk)
{
    bs_slot *slot = &s->slots[unit];
    if (slot->state != BS_SLOT_LOADING || slot->issued >= s->facts.units[unit].n_chunks || (s->facts.serial && slot->in_flight > 0))
        return false;
    chunk->unit = unit;
    chunk->index = slot->issued++;
    chunk->generation = slot->generation;
    chunk->demanded = slot->needed;
    chunk->offset = slot->offset;
    chunk->arrived = false;
    slot->in_flight++;
    s->reading++;
    return true;
}

/* A chunk of what the visit waits for. *waiting: there is something left to read, but no room, or not now. */
static bool next_demand(bs_stream *s, uint64_t now, bs_stream_chunk *chunk, bool *waiting)
{
    *waiting = false;
    for (int32_t i = 0; i < s->n_needed; i++) {
        const int32_t unit = s->needed[i];
        const bs_slot *slot = &s->slots[unit];
        uint64_t offset;
        if (!slot->needed || slot->state == BS_SLOT_READY || slot->failed != BS_OK)
            continue;
        if (slot->state == BS_SLOT_ABSENT && bs_slots_find(s, s->facts.units[unit].slot_bytes, &offset))
            bs_slots_begin(s, unit, offset, false, now);
        if (issue(s, unit, chunk))
            return true;
        *waiting = *waiting || slot->state != BS_SLOT_LOADING || slot->issued < s->facts.units[unit].n_chunks;
    }
    return false;
}

/* Computing time from now until the visit `ahead` stages away; a stage never seen counts as long enough. */
static double time_until(const bs_stream *s, int32_t ahead, uint64_t now)
{
    double ns = 0;
    for (int32_t d = 0; d < ahead; d++) {
        const double stage = s->stage < 0 ? -1 : s->stages[(s->stage + d) % s->facts.n_stages].compute_ns;
        if (stage < 0)
            return (double)INFINITY;
        ns += stage;
    }
    const double gone = (double)(now - s->visit_ns) - (double)s->stalled_ns;
    return ns - gone > ns / 8 ? ns - gone : ns / 8; /* longer than usual, or between two runs: not long, but some */
}

/* What the visits to come lose with everything that overlaps the place, when a guess of probability p takes it. What is
 * needed later than the guess would have to make room all the same if the guess is right. */
static double damage(const bs_stream *s, uint64_t offset, uint64_t bytes, int32_t ahead, double p)
{
    double ns = 0;
    for (int32_t u = bs_slots_overlap(s, offset, bytes, -1); u >= 0; u = bs_slots_overlap(s, offset, bytes, u)) {
        const int32_t far = s->distance[u];
        const double needed = bs_predict_use(s, (s->stage + far) % s->facts.n_stages, s->next_use[u]);
        ns += needed * bs_stream_read_ns(s, u) * (far <= ahead ? 1.0 : 1 - p);
    }
    return ns;
}

/* The next visit's demand waits for a chunk of a wrong guess that is still being read then. */
static double delay(const bs_stream *s, int32_t unit, uint64_t now)
{
    const double until = time_until(s, 1, now);
    const double read = bs_stream_read_ns(s, unit), chunk = read / s->facts.units[unit].n_chunks;
    return s->miss_rate * (chunk > until ? chunk - until : read > until ? chunk / 2 : 0);
}

typedef enum guess_result { GUESS_ISSUED, GUESS_NOT_WORTH, GUESS_NO_ROOM } guess_result;

static guess_result try_guess(bs_stream *s, int32_t ahead, int32_t stage, int32_t use, bool may_evict, uint64_t now,
                              bs_stream_chunk *chunk)
{
    const int32_t unit = s->facts.uses[use];
    const bs_slot *slot = &s->slots[unit];
    const bool begun = slot->state == BS_SLOT_LOADING;
    if (slot->state == BS_SLOT_READY || slot->state == BS_SLOT_DROPPED || s->visits < slot->silent_until ||
        s->distance[unit] != ahead || (begun && slot->issued == s->facts.units[unit].n_chunks))
        return GUESS_NOT_WORTH;
    const double until = time_until(s, ahead, now), read = bs_stream_read_ns(s, unit), p = bs_predict_use(s, stage, use);
    const double worth = p * (read < until ? read : until) - (1 - p) * delay(s, unit, now);
    uint64_t offset;
    if (worth <= (1 - p) * STREAM_MARGIN * read)
        return GUESS_NOT_WORTH;
    if (begun)
        return issue(s, unit, chunk) ? GUESS_ISSUED : GUESS_NOT_WORTH;
    const uint64_t bytes = s->facts.units[unit].slot_bytes;
    if (!bs_slots_find(s, bytes, &offset) || (!may_evict && bs_slots_overlap(s, offset, bytes, -1) >= 0) ||
        worth <= (1 - p) * STREAM_MARGIN * read + damage(s, offset, bytes, ahead, p))
        return GUESS_NO_ROOM;
    bs_slots_begin(s, unit, offset, true, now);
    return issue(s, unit, chunk) ? GUESS_ISSUED : GUESS_NOT_WORTH;
}

/* The likeliest unit of a stage that has not been tried; score: scratch, -1 = tried. */
static int32_t likeliest(bs_stream *s, const bs_stream_stage *stage)
{
    int32_t best = -1;
    for (int32_t k = stage->first_unit; k < stage->first_unit + stage->n_units; k++)
        if (s->score[k] >= 0 && (best < 0 || s->score[k] > s->score[best]))
            best = k;
    return best;
}

/* Whether some certain need would have to wait if storage did nothing until the next visit. Before that, reading it would
 * only evict earlier than necessary, and so something that is needed sooner (the "forestall" rule of Kimbrel et al., 1996). */
static bool is_pressed(const bs_stream *s, uint64_t now)
{
    const double next = time_until(s, 1, now);
    double reading = 0, until = next;
    for (int32_t ahead = 1; ahead <= s->facts.n_stages; ahead++) {
        const int32_t stage = (s->stage + ahead) % s->facts.n_stages;
        const bs_stream_stage *facts = &s->facts.stages[stage];
        for (int32_t k = facts->first_unit; facts->router == 0 && k < facts->first_unit + facts->n_units; k++)
            if (s->slots[s->facts.uses[k]].state != BS_SLOT_READY && s->distance[s->facts.uses[k]] == ahead)
                reading += bs_stream_read_ns(s, s->facts.uses[k]);
        if (reading > 0 && next + STREAM_SLACK * reading >= until)
            return true;
        until += s->stages[stage].compute_ns < 0 ? 0 : s->stages[stage].compute_ns;
    }
    return false;
}

static bool next_guess(bs_stream *s, uint64_t now, bs_stream_chunk *chunk)
{
    const bool pressed = is_pressed(s, now);
    for (int32_t ahead = 1; ahead <= s->facts.n_stages; ahead++) {
        const int32_t stage = (s->stage + ahead) % s->facts.n_stages;
        const bs_stream_stage *facts = &s->facts.stages[stage];
        for (int32_t k = facts->first_unit; k < facts->first_unit + facts->n_units; k++)
            s->score[k] = bs_predict_use(s, stage, k);
        for (int32_t k = likeliest(s, facts); k >= 0; k = likeliest(s, facts)) {
            const bool may_evict = pressed || facts->router != 0;
            const guess_result result = try_guess(s, ahead, stage, k, may_evict, now, chunk);
            if (result == GUESS_ISSUED)
                return true;
            if (result == GUESS_NO_ROOM && facts->router == 0)
                return false; /* what is needed later has less right to the room */
            s->score[k] = -1;
        }
    }
    return false;
}

bool bs_stream_next(bs_stream *s, uint64_t now, bs_stream_chunk *chunk)
{
    bool waiting;
    if (next_demand(s, now, chunk, &waiting))
        return true;
    if (waiting || s->reading > 0 || s->facts.desc.speculation == BS_SPECULATE_OFF || s->paused || s->ns_per_byte <= 0)
        return false;
    return next_guess(s, now, chunk);
}

/* ---------------------------------------------------------------------------------------------- what was read */

static void measure_read(bs_stream *s, uint64_t bytes, uint64_t ns)
{
    const double sample = bytes ? (double)ns / (double)bytes : 0;
    s->stats.bytes_read += bytes;
    if (bytes)
        s->ns_per_byte = s->ns_per_byte > 0 ? s->ns_per_byte + (sample - s->ns_per_byte) / 16 : sample;
}

static void chunk_failed(bs_stream *s, int32_t unit, bs_status status)
{
    bs_slot *slot = &s->slots[unit];
    if (slot->needed)
        slot->failed = status;
    slot->silent_until = s->visits + STREAM_SILENCE;
    slot->spoiled = true;
    if (slot->state == BS_SLOT_LOADING)
        bs_slots_give_up(s, unit, false);
}

/* A demand stood behind a guess that the visit found in flight. */
static void measure_delay(bs_stream *s, const bs_stream_chunk *chunk, uint64_t ns, uint64_t now)
{
    const bool before = now - s->visit_ns < ns; /* it began before the visit did */
    if (chunk->demanded || s->slots[chunk->unit].needed || !before || s->n_needed == 0)
        return;
    for (int32_t i = 0; i < s->n_needed; i++)
        if (s->slots[s->needed[i]].needed && s->slots[s->needed[i]].outcome == BS_USE_MISS) {
            s->stats.delayed_ns += now - s->visit_ns;
            lose(s, (double)(now - s->visit_ns));
            return;
        }
}

void bs_stream_arrived(bs_stream *s, bs_stream_chunk *chunk)
{
    s->reading -= !chunk->arrived;
    chunk->arrived = true;
}

bool bs_stream_done(bs_stream *s, bs_stream_chunk *chunk, bs_status status, uint64_t bytes, uint64_t ns, uint64_t now)
{
    bs_slot *slot = &s->slots[chunk->unit];
    bs_stream_arrived(s, chunk);
    measure_read(s, bytes, ns);
    measure_delay(s, chunk, ns, now);
    if (chunk->generation != slot->generation)
        return false; /* of a load that is no more */
    slot->in_flight--;
    if (slot->state == BS_SLOT_DROPPED) {
        if (slot->in_flight == 0)
            bs_slots_give_up(s, chunk->unit, false);
        return false;
    }
    if (status != BS_OK) {
        chunk_failed(s, chunk->unit, status);
        return false;
    }
    if (++slot->done < s->facts.units[chunk->unit].n_chunks)
        return false;
    slot->state = BS_SLOT_READY;
    s->stats.loads++;
    s->stats.guessed_loads += slot->guessed;
    return true;
}
/* ==== end src/stream.c ======================================================================== */

/* ==== begin src/replay.c ====================================================================== */
/* replay.c - a trace of visits run against any slots, policy and storage, on a scripted clock; and the oracle.
 *
 * The stream decides exactly as in a session; here the clock jumps from event to event. Storage reads one chunk after the
 * other, lanes prepare what arrived, one thread computes. The oracle knows the whole trace: see bs_replay_result.
 * Relies on stream.h. Must never read a real clock. */
/* #include "stream.h" */

#define REPLAY_MAX_LANES 8

typedef struct replay_lane {
    bool busy;
    bs_stream_chunk chunk;
    uint64_t start, arrives, done, bytes;
} replay_lane;

typedef struct replay {
    const bs_trace *trace;
    const bs_replay_desc *desc;
    bs_stream stream;
    bs_stream_unit *units;
    int32_t *next_position; /* [uses] where the unit is used again; -1 never */
    int64_t *future;        /* [units] position of the next use */
    int32_t *wanted;        /* [units] of one visit */
    uint64_t *ready_at; /* [units] of the oracle */
    uint64_t *before;   /* [uses] computed before it, without its own */
    bool *resident;
    replay_lane lanes[REPLAY_MAX_LANES];
    int32_t n_lanes;
    uint64_t now, device_free, computed;
} replay;

/* ------------------------------------------------------------------------------------------------- reading */

static uint64_t chunk_bytes_of(const replay *r, int32_t unit, int32_t index)
{
    const uint64_t bytes = r->units[unit].read_bytes, chunks = (uint64_t)r->units[unit].n_chunks;
    return bytes / chunks + ((uint64_t)index < bytes % chunks);
}

static uint64_t device_ns(const replay *r, uint64_t bytes)
{
    return r->desc->latency_ns + (uint64_t)((double)bytes * 1e9 / (double)r->desc->bytes_per_second);
}

static uint64_t prepare_ns(const replay *r, uint64_t bytes) { return (uint64_t)((double)bytes * r->desc->prepare_ns_per_byte); }

static void fill_lanes(replay *r)
{
    for (int32_t i = 0; i < r->n_lanes; i++) {
        replay_lane *lane = &r->lanes[i];
        if (lane->busy || !bs_stream_next(&r->stream, r->now, &lane->chunk))
            continue;
        lane->busy = true;
        lane->bytes = chunk_bytes_of(r, lane->chunk.unit, lane->chunk.index);
        lane->start = r->now > r->device_free ? r->now : r->device_free;
        lane->arrives = r->device_free = lane->start + device_ns(r, lane->bytes);
        lane->done = lane->arrives + prepare_ns(r, lane->bytes);
    }
}

/* The lane with the earliest event, or NULL. */
static replay_lane *next_event(replay *r, uint64_t *when)
{
    replay_lane *first = NULL;
    for (int32_t i = 0; i < r->n_lanes; i++) {
        replay_lane *lane = &r->lanes[i];
        const uint64_t at = lane->chunk.arrived ? lane->done : lane->arrives;
        if (lane->busy && (!first || at < *when)) {
            first = lane;
            *when = at;
        }
    }
    return first;
}

static void pass_event(replay *r, replay_lane *lane, uint64_t when)
{
    r->now = when > r->now ? when : r->now;
    if (!lane->chunk.arrived) {
        bs_stream_arrived(&r->stream, &lane->chunk);
        r->stream.stats.read_ns += lane->arrives - lane->start;
    } else {
        lane->busy = false;
        r->stream.stats.prepare_ns += lane->done - lane->arrives;
        bs_stream_done(&r->stream, &lane->chunk, BS_OK, lane->bytes, lane->done - lane->start, r->now);
    }
    fill_lanes(r);
}

static void compute(replay *r, uint64_t ns)
{
    const uint64_t end = r->now + ns;
    uint64_t when = 0;
    r->computed += ns;
    fill_lanes(r);
    for (replay_lane *lane = next_event(r, &when); lane && when <= end; lane = next_event(r, &when))
        pass_event(r, lane, when);
    r->now = end;
}

/* -------------------------------------------------------------------------------------------------- visiting */

/* A use of this visit that is not done and whose unit is there; waits for one. -1: nothing will ever come. */
static int32_t take_ready(replay *r, const bs_trace_visit *v, const bool *done)
{
    const uint64_t since = r->now;
    for (;;) {
        for (int32_t i = 0; i < v->n_uses; i++) {
            uint64_t offset;
            bs_status failed;
            if (!done[i] && bs_stream_take(&r->stream, r->trace->uses[v->first_use + i].unit, &offset, &failed)) {
                bs_stream_stalled(&r->stream, r->now - since);
                return i;
            }
        }
        uint64_t when = 0;
        fill_lanes(r);
        replay_lane *lane = next_event(r, &when);
        if (!lane)
            return -1;
        pass_event(r, lane, when);
    }
}

static bs_status visit(replay *r, const bs_trace_visit *v, bool *done)
{
    compute(r, v->before_ns);
    for (int32_t i = 0; i < v->n_guesses; i++)
        bs_stream_expect(&r->stream, r->trace->guesses[v->first_guess + i].stage, r->trace->guesses[v->first_guess + i].unit);
    for (int32_t i = 0; i < v->n_uses; i++) {
        r->wanted[i] = r->trace->uses[v->first_use + i].unit;
        done[i] = false;
    }
    bs_stream_visit(&r->stream, v->stage, r->wanted, v->n_uses, r->now);
    for (int32_t k = 0; k < v->n_uses; k++) {
        const int32_t i = take_ready(r, v, done);
        if (i < 0)
            return BS_ERROR_LIMIT;
        const bs_trace_use *use = &r->trace->uses[v->first_use + i];
        r->future[use->unit] = r->next_position[v->first_use + i] < 0 ? INT32_MAX : r->next_position[v->first_use + i];
        done[i] = true;
        compute(r, use->compute_ns);
        bs_stream_release(&r->stream, use->unit);
    }
    return BS_OK;
}

/* ---------------------------------------------------------------------------------------------------- oracle */

/* A schedule that knows the whole trace: storage reads what is missing in the order of need, at most `horizon` uses ahead,
 * as soon as it is idle and something that is needed later can make room. Far horizons never stand still, near ones read
 * fewest bytes (horizon 0 is Belady's replacement on demand); which is fastest depends on compute and storage. */
typedef struct replay_oracle {
    int32_t horizon;
    int32_t at;      /* use that is computed or waited for */
    int32_t missing; /* everything needed before it is resident or being read */
    int32_t loading; /* unit, -1 none */
    bool computing;
    uint64_t now, computed, loaded, used, bytes;
} replay_oracle;

static void first_positions(replay *r)
{
    for (int32_t u = 0; u < r->trace->n_units; u++)
        r->future[u] = INT32_MAX;
    for (int32_t i = r->trace->n_uses - 1; i >= 0; i--) {
        const int64_t next = r->future[r->trace->uses[i].unit];
        r->next_position[i] = next == INT32_MAX ? -1 : (int32_t)next;
        r->future[r->trace->uses[i].unit] = i;
    }
}

static int32_t oracle_next_missing(const replay *r, replay_oracle *o)
{
    const int32_t uses = r->trace->n_uses;
    for (o->missing = bs_max_i32(o->missing, o->at); o->missing < uses; o->missing++) {
        const int32_t u = r->trace->uses[o->missing].unit;
        if (!r->resident[u] && u != o->loading)
            break;
    }
    return o->missing < uses && o->missing - o->at <= o->horizon ? r->trace->uses[o->missing].unit : -1;
}

/* Gives up what is needed last until there is room; nothing that is needed sooner than the unit, nor what is computed. */
static bool oracle_room(replay *r, replay_oracle *o, uint64_t bytes)
{
    while (o->used + bytes > r->stream.facts.slot_bytes) {
        int32_t last = -1;
        for (int32_t u = 0; u < r->trace->n_units; u++)
            if (r->resident[u] && !(o->computing && u == r->trace->uses[o->at].unit) && (last < 0 || r->future[u] > r->future[last]))
                last = u;
        if (last < 0 || r->future[last] <= o->missing)
            return false;
        r->resident[last] = false;
        o->used -= r->units[last].slot_bytes;
    }
    return true;
}

static void oracle_read(replay *r, replay_oracle *o)
{
    const int32_t u = o->loading < 0 ? oracle_next_missing(r, o) : -1;
    if (u < 0 || !oracle_room(r, o, r->units[u].slot_bytes))
        return;
    o->loading = u;
    o->used += r->units[u].slot_bytes;
    o->bytes += r->units[u].read_bytes;
    o->loaded = o->now;
    for (int32_t c = 0; c < r->units[u].n_chunks; c++)
        o->loaded += device_ns(r, chunk_bytes_of(r, u, c));
}

/* The unit's last chunk is still to be prepared when storage is free again. */
static void oracle_arrive(replay *r, replay_oracle *o)
{
    const int32_t u = o->loading;
    r->resident[u] = true;
    r->ready_at[u] = o->loaded + prepare_ns(r, chunk_bytes_of(r, u, r->units[u].n_chunks - 1));
    o->loading = -1;
}

static void oracle_compute(replay *r, replay_oracle *o, const uint64_t *before)
{
    const bs_trace_use *use = &r->trace->uses[o->at];
    if (o->computing || !r->resident[use->unit])
        return;
    const uint64_t from = o->now > o->computed + before[o->at] ? o->now : o->computed + before[o->at];
    o->computed = (from > r->ready_at[use->unit] ? from : r->ready_at[use->unit]) + use->compute_ns;
    r->future[use->unit] = r->next_position[o->at] < 0 ? INT32_MAX : r->next_position[o->at];
    o->computing = true;
}

static uint64_t oracle_time(replay *r, int32_t horizon, const uint64_t *before, uint64_t *bytes)
{
    replay_oracle o = {horizon, 0, 0, -1, false, 0, 0, 0, 0, 0};
    memset(r->resident, 0, (size_t)r->trace->n_units * sizeof *r->resident);
    first_positions(r);
    while (o.at < r->trace->n_uses) {
        oracle_compute(r, &o, before);
        oracle_read(r, &o);
        if (o.loading >= 0 && (!o.computing || o.loaded <= o.computed)) {
            o.now = o.loaded;
            oracle_arrive(r, &o);
        } else if (o.computing) {
            o.now = o.computed;
            o.computing = false;
            o.at++;
        } else {
            return UINT64_MAX; /* this use does not fit */
        }
    }
    *bytes = o.bytes;
    return o.computed;
}

static void oracle(replay *r, uint64_t *before, bs_replay_result *result)
{
    uint64_t tail = 0;
    memset(before, 0, (size_t)r->trace->n_uses * sizeof *before);
    for (int32_t k = 0; k < r->trace->n_visits; k++) {
        const bs_trace_visit *v = &r->trace->visits[k];
        tail += v->before_ns;
        if (v->n_uses > 0) {
            before[v->first_use] = tail;
            tail = 0;
        }
    }
    result->oracle_ns = UINT64_MAX;
    for (int32_t horizon = 0; horizon >= 0 && horizon < 2 * r->trace->n_uses + 2; horizon = horizon < 8 ? horizon + 1 : horizon * 2) {
        uint64_t bytes = 0;
        const uint64_t ns = oracle_time(r, horizon, before, &bytes);
        if (ns < result->oracle_ns - tail || result->oracle_ns == UINT64_MAX) {
            result->oracle_ns = ns == UINT64_MAX ? ns : ns + tail;
            result->oracle_bytes = bytes;
        }
    }
}

/* --------------------------------------------------------------------------------------------------- the whole */

static bool trace_is_sound(const bs_trace *t)
{
    bool sound = t->n_units > 0 && t->n_stages > 0 && t->n_units <= 65536 && t->n_stages <= 65536;
    for (int32_t j = 0; sound && j < t->n_stages; j++) {
        const bs_trace_stage *s = &t->stages[j];
        sound = s->first_unit >= 0 && s->n_units > 0 && s->n_units <= t->n_stage_units - s->first_unit && s->router >= 0;
    }
    for (int32_t i = 0; sound && i < t->n_stage_units; i++)
        sound = t->stage_units[i] >= 0 && t->stage_units[i] < t->n_units;
    for (int32_t k = 0; sound && k < t->n_visits; k++) {
        const bs_trace_visit *v = &t->visits[k];
        sound = v->stage >= 0 && v->stage < t->n_stages && v->first_use >= 0 && v->n_uses >= 0 && v->n_uses <= t->n_units &&
                v->n_uses <= t->n_uses - v->first_use && v->first_guess >= 0 && v->n_guesses >= 0 &&
                v->n_guesses <= t->n_guesses - v->first_guess;
    }
    for (int32_t i = 0; sound && i < t->n_uses; i++)
        sound = t->uses[i].unit >= 0 && t->uses[i].unit < t->n_units;
    for (int32_t i = 0; sound && i < t->n_guesses; i++)
        sound = t->guesses[i].stage >= 0 && t->guesses[i].stage < t->n_stages && t->guesses[i].unit >= -1 && t->guesses[i].unit < t->n_units;
    return sound;
}

static uint64_t least_slots(const bs_trace *t)
{
    uint64_t least = 0;
    for (int32_t u = 0; u < t->n_units; u++)
        least = t->units[u].slot_bytes > least ? t->units[u].slot_bytes : least;
    return bs_align_u64(least);
}

static bs_status replay_check(const bs_trace *t, const bs_replay_desc *d, bs_error *error)
{
    if (!t || !d || !trace_is_sound(t))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: the trace is empty or refers to what it does not have");
    if (d->bytes_per_second == 0 || d->chunk_bytes < 0 || d->lanes < 0 || d->lanes > REPLAY_MAX_LANES || !(d->prepare_ns_per_byte >= 0))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: bandwidth, chunk or lanes are out of range");
    if (d->stream.policy < 0 || d->stream.policy >= BS_POLICY_COUNT)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_replay: policy %d does not exist", d->stream.policy);
    if (d->slot_bytes < least_slots(t)) {
        const bs_arena slots = {"slots", NULL, (size_t)d->slot_bytes, 0, 0};
        return bs_fail_arena(error, &slots, least_slots(t), "the largest unit");
    }
    return BS_OK;
}

static bs_stream_facts replay_facts(replay *r)
{
    const bs_trace *t = r->trace;
    const uint64_t chunk = (uint64_t)bs_or_default(r->desc->chunk_bytes, 262144);
    for (int32_t u = 0; u < t->n_units; u++) {
        const uint64_t chunks = (t->units[u].read_bytes + chunk - 1) / chunk;
        r->units[u].slot_bytes = bs_align_u64(t->units[u].slot_bytes);
        r->units[u].read_bytes = t->units[u].read_bytes;
        r->units[u].n_chunks = chunks < 1 ? 1 : chunks > 1 << 20 ? 1 << 20 : (int32_t)chunks;
    }
    const bs_stream_facts facts = {t->n_units, t->n_stages, t->n_stage_units, r->units, t->stages, t->stage_units,
                                   r->desc->slot_bytes, r->desc->stream, false};
    return facts;
}

static void *replay_take(bs_arena *a, uint64_t count, uint64_t bytes) { return bs_arena_take(a, (size_t)bs_mul_u64(count ? count : 1, bytes)); }

/* What replay_carve takes. */
size_t bs_replay_bytes(const bs_trace *t)
{
    if (!t || !trace_is_sound(t))
        return 0;
    const bs_stream_facts facts = {t->n_units, t->n_stages, t->n_stage_units, NULL, t->stages, t->stage_units, 0, {0, 0, 0}, false};
    const uint64_t units = (uint64_t)t->n_units, uses = (uint64_t)(t->n_uses ? t->n_uses : 1);
    const uint64_t unit_arrays[] = {sizeof(bs_stream_unit), sizeof(int64_t), sizeof(int32_t), sizeof(uint64_t), sizeof(bool)};
    uint64_t bytes = bs_align_u64(sizeof(replay)) + bs_align_u64(uses * sizeof(int32_t)) + bs_align_u64(uses * sizeof(uint64_t)) + bs_align_u64(bs_stream_bytes(&facts));
    for (size_t i = 0; i < sizeof unit_arrays / sizeof *unit_arrays; i++)
        bytes = bs_add_u64(bytes, bs_align_u64(units * unit_arrays[i]));
    return (size_t)bytes;
}

static bool replay_carve(replay *r, bs_arena *a, void **memory)
{
    const uint64_t units = (uint64_t)r->trace->n_units;
    r->units = replay_take(a, units, sizeof *r->units);
    r->next_position = replay_take(a, (uint64_t)r->trace->n_uses, sizeof *r->next_position);
    r->future = replay_take(a, units, sizeof *r->future);
    r->wanted = replay_take(a, units, sizeof *r->wanted);
    r->ready_at = replay_take(a, units, sizeof *r->ready_at);
    r->before = replay_take(a, (uint64_t)r->trace->n_uses, sizeof *r->before);
    r->resident = replay_take(a, units, sizeof *r->resident);
    if (!r->units || !r->next_position || !r->future || !r->wanted || !r->ready_at || !r->before || !r->resident)
        return false;
    const bs_stream_facts facts = replay_facts(r);
    *memory = replay_take(a, 1, bs_stream_bytes(&facts));
    if (*memory)
        bs_stream_init(&r->stream, &facts, *memory);
    return *memory != NULL;
}

static void sum_predictions(const replay *r, bs_prediction *sums)
{
    for (int32_t j = 0; j < r->trace->n_stages; j++)
        for (int32_t p = 0; p < BS_PREDICTOR_COUNT; p++) {
            sums[p].expected += r->stream.stages[j].predictions[p].expected;
            sums[p].right += r->stream.stages[j].predictions[p].right;
            sums[p].needed += r->stream.stages[j].predictions[p].needed;
        }
}

bs_status bs_replay(const bs_trace *trace, const bs_replay_desc *desc, bs_arena *workspace, bs_replay_result *result, bs_error *error)
{
    const bs_status sound = replay_check(trace, desc, error);
    if (sound != BS_OK)
        return sound;
    const size_t mark = workspace->used;
    void *memory = NULL;
    replay *r = replay_take(workspace, 1, sizeof *r);
    if (r) {
        memset(r, 0, sizeof *r);
        r->trace = trace;
        r->desc = desc;
        r->n_lanes = bs_or_default(desc->lanes, 2);
    }
    if (!r || !replay_carve(r, workspace, &memory)) {
        workspace->used = mark;
        return bs_fail_arena(error, workspace, bs_replay_bytes(trace), "a replay");
    }
    memset(result, 0, sizeof *result);
    oracle(r, r->before, result);
    first_positions(r);
    r->stream.future = r->future;
    bs_status status = BS_OK;
    for (int32_t k = 0; k < trace->n_visits && status == BS_OK; k++)
        status = visit(r, &trace->visits[k], r->resident);
    result->stats = r->stream.stats;
    result->stats.guessing = !r->stream.paused && desc->stream.speculation != BS_SPECULATE_OFF;
    sum_predictions(r, result->predictions);
    result->time_ns = r->now;
    result->compute_ns = r->computed;
    workspace->used = mark;
    return status == BS_OK ? BS_OK : bs_fail(error, status, "bs_replay: a unit is never read: the slots are too small for it");
}
/* ==== end src/replay.c ======================================================================== */

/* ==== begin src/plan.h ======================================================================== */
/* plan.h - what planning makes of a graph: where every value lives, and one fixed list of instructions.
 * Owns the plan's data structures. Relies on graph.h and op.h. Must never hold anything that changes in a run. */
#ifndef BS_PLAN_H
#define BS_PLAN_H

/* #include "op.h" */

typedef enum bs_place {
    BS_PLACE_NONE,      /* not needed by any output: never computed */
    BS_PLACE_INPUT,     /* the caller's buffer of input `source` */
    BS_PLACE_OUTPUT,    /* the caller's buffer of output `source` */
    BS_PLACE_STATE,     /* the state made by node `source` */
    BS_PLACE_TRANSIENT, /* rows in the transient arena */
    BS_PLACE_SCRATCH,   /* rows of the tile in a thread's scratch */
    BS_PLACE_WEIGHT,    /* a constant: prepared memory of its node */
    BS_PLACE_VIEW,      /* patches, rows, scatter: rows of operand `source`, found through the decision */
    BS_PLACE_FRAME      /* a gather that goes straight to its place in the assembled root value `source` */
} bs_place;

typedef struct bs_value_plan {
    bs_place place;
    int32_t source;
    int32_t margin;       /* storage around a cell's core, in samples, rank 3 only */
    int32_t slab;         /* transient: values of one slab share its bytes (the paths of a router, packed) */
    int32_t first, last;  /* time of definition and of last use, in its list (transient: global; scratch: the part's) */
    int32_t scope;        /* -1 global, else index of the part whose scratch it lives in */
    uint64_t offset;
    uint64_t row_bytes;
    int64_t rows;         /* that the storage holds */
} bs_value_plan;

typedef enum bs_instr_kind {
    BS_INSTR_OP,     /* run a node's kernel */
    BS_INSTR_LOAD,   /* materialise value `value` from its source into rows of its own */
    BS_INSTR_STORE,  /* rows of `value` to their place in `target` (gather, assemble, collect, output, state) */
    BS_INSTR_FILL,   /* gather `target`: the rows that no path gives, from its residual `value` or zero;
                        collect `target`: the rows beyond the last patch, zero */
    BS_INSTR_REDUCE, /* gather `target` from packed rows of every path */
    BS_INSTR_ROUTE,
    BS_INSTR_REGION  /* the parts of region `node`, tile by tile, in one parallel step */
} bs_instr_kind;

typedef struct bs_instr {
    bs_instr_kind kind;
    int32_t node;
    int32_t value, target;
    int32_t domain; /* whose rows it works on */
    int32_t region, part; /* while planning: region -1 = top level */
    int32_t time;
    int32_t stage; /* top level: whose units it needs; -1 none */
} bs_instr;

/* Straight-line instructions for tiles of one domain. */
typedef struct bs_part {
    int32_t region;
    int32_t domain;
    int32_t router, path; /* 0, -1 when the part is not one path of a router */
    int32_t first, count; /* instructions */
    int32_t unit;         /* whose weights it needs; 0 none */
    uint64_t scratch_bytes;
    double flops; /* a row, for the order in which tiles start */
} bs_part;

typedef struct bs_domain_plan {
    int32_t order;     /* BS_ORDER_BREADTH or _DEPTH, of top-level domains */
    int32_t tile_rows; /* depth */
    int32_t size;      /* patches: cell size, desc.patch_size applied */
    int64_t max_rows;
    bool live; /* something that is needed works on its rows */
} bs_domain_plan;

typedef struct bs_router_plan {
    int32_t forced; /* path + 1, or 0 */
    bool live;
    bool in_tile;   /* decided tile by tile, inside a region */
    int64_t rows;   /* a decision's maximum */
} bs_router_plan;

/* Weights that are loaded at once (numbered from 1; 0: what is resident). */
typedef struct bs_plan_unit {
    int32_t block;  /* the outermost; names it */
    int32_t domain; /* PATH: the outermost path whose nodes they are; else 0 */
    int32_t n_nodes, n_tensors;
    uint64_t prepared_bytes;
} bs_plan_unit;

#define BS_MAX_REGIONS 128
#define BS_MAX_PARTS 512

struct bs_plan {
    const bs_graph *graph;
    bs_plan_desc desc;
    bs_tier tier;
    int32_t threads;
    int32_t n_instrs, n_parts, n_regions, n_top; /* top-level instructions come first */
    int32_t max_instrs;
    uint64_t transient_bytes, scratch_bytes /* a thread */, weight_bytes, staging_bytes;
    uint64_t kernel_scratch_bytes, kernel_scratch_offset;
    bool *node_live;          /* [nodes] */
    bs_node_plan *nodes;      /* [nodes] */
    bs_value_plan *values;    /* [values] */
    bs_instr *instrs;
    bs_part parts[BS_MAX_PARTS];
    int32_t region_domain[BS_MAX_REGIONS];
    bs_domain_plan domains[BS_MAX_DOMAINS];
    bs_router_plan routers[BS_MAX_ROUTERS];
    /* streaming; n_units = 1 and nothing else when everything is resident */
    int32_t n_units, n_stages, n_stage_units, max_units, max_stage_units;
    bs_plan_unit *units;      /* [n_units], [0] unused */
    bs_trace_stage *stages;   /* [n_stages] */
    int32_t *stage_units;     /* [n_stage_units], of stages, from 0 as the stream counts */
    uint64_t slot_bytes, all_unit_bytes, largest_unit_bytes;
    uint64_t chunk_bytes, lane_bytes; /* of one lane's staging */
    int32_t lanes;
};

/* The stages, in order (plan_*.c). Each returns false after recording an error. */
bool bs_plan_live(bs_plan *plan, bs_error *error);   /* what is needed; forced routes; orders of domains; margins */
void bs_plan_fuse(bs_plan *plan);                    /* chains that one kernel does */
void bs_plan_units(bs_plan *plan);                   /* which weights come and go together (plan_stream.c) */
bool bs_plan_lower(bs_plan *plan, void *workspace, bs_error *error);  /* places and instructions */
bool bs_plan_stages(bs_plan *plan, bs_error *error); /* steps that need units; sizes of slots and staging */
bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error); /* offsets in transient and scratch */
uint64_t bs_plan_lower_workspace(const bs_graph *graph);  /* bytes, only while planning */
uint64_t bs_plan_memory_workspace(const bs_graph *graph);

/* Greedy by size, lowest fitting gap among what is alive at the same time. Blocks: bytes, first..last; gives offsets and
 * returns the bytes of the whole. order: scratch of `count`. (plan_memory.c; tested by brute force.) */
typedef struct bs_life {
    uint64_t bytes, offset;
    int32_t first, last;
} bs_life;
uint64_t bs_plan_place(bs_life *lives, int32_t *order, int32_t count);

/* Helpers of several stages. */
static inline bool bs_plan_streams(const bs_plan *plan) { return plan->n_units > 1; }
/* Whether a domain has routed blocks whose weights come and go: it runs depth first, path by path. */
bool bs_plan_streams_paths(const bs_plan *plan, int32_t top);
/* Bytes of a node's weights as its op declares them. */
uint64_t bs_plan_canonical_bytes(const bs_graph *graph, const bs_node *node);
/* The operands a node has in this plan: its own, or those of the chain it ends. */
const int32_t *bs_plan_in(const bs_plan *plan, int32_t node, int32_t *count);
bs_status bs_fusion_run(const bs_call *call);
const char *bs_fusion_name(int32_t fusion);
/* Sets the order of a top-level domain and of all below it, and where its routers decide. */
void bs_plan_set_order(bs_plan *plan, int32_t top, int32_t order);
/* The ROWS or PATCHES domain that `domain` is or descends from; 0 for the root. */
int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain);
/* Whether operand `index` of a gather (a path's value, or the residual) can be asked for. */
bool bs_plan_gathers(const bs_plan *plan, const bs_node *gather, int32_t index);
/* The core of a cell of this value at most, [h, w]. */
void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w);

#endif
/* ==== end src/plan.h ========================================================================== */

/* ==== begin src/plan_live.c =================================================================== */
/* plan_live.c - the first stage of planning: what is needed at all, which routes are decided ahead, in which order
 * each domain runs, and how much margin each value carries.
 * Relies on plan.h. Must never assign memory. */
/* #include "plan.h" */
/* #include "structure.h" */

int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain)
{
    while (graph->domains[domain].kind == BS_DOMAIN_PATH)
        domain = graph->domains[domain].parent;
    return domain;
}

void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w)
{
    const bs_graph *g = plan->graph;
    *h = value->rank == 3 ? bs_dim_max(g, value->dims[1]) : 1;
    *w = value->rank == 3 ? bs_dim_max(g, value->dims[2]) : 1;
    const int32_t patches = g->domains[value->domain].patches;
    if (value->rank != 3 || patches < 0)
        return;
    const int64_t cell = bs_ceil_div((int64_t)plan->domains[patches].size * value->scale_num, value->scale_den);
    *h = bs_min_i64(*h, cell);
    *w = bs_min_i64(*w, cell);
}

/* ------------------------------------------------------------------------------------------- forced routes */

static bool force_routes(bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    if (plan->desc.n_forces < 0 || plan->desc.n_forces > BS_MAX_FORCES)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "%d forced routes, at most %d", plan->desc.n_forces, BS_MAX_FORCES);
    for (int32_t f = 0; f < plan->desc.n_forces; f++) {
        const bs_force *force = &plan->desc.forces[f];
        int32_t found = 0;
        for (int32_t r = 1; r < g->n_routers; r++)
            if (force->router && strcmp(g->routers[r].desc->name, force->router) == 0)
                found = r;
        if (!found || force->path < 0 || force->path >= g->routers[found].desc->paths)
            return bs_refuse(error, BS_ERROR_ARGUMENT, "cannot force path %d of router \"%s\": there is no such %s", force->path,
                           force->router ? force->router : "", found ? "path" : "router");
        plan->routers[found].forced = force->path + 1;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- liveness */

static void mark(bs_plan *plan, int32_t value)
{
    if (value > 0)
        plan->node_live[plan->graph->values[value].node] = true;
}

static void mark_router(bs_plan *plan, int32_t router)
{
    plan->routers[router].live = true;
    plan->node_live[plan->graph->routers[router].node] = true;
}

/* The router that decided for a domain must be there, and those of the domains above; and what says how its rows are
 * grouped. */
static void mark_domain(bs_plan *plan, int32_t domain)
{
    const bs_graph *g = plan->graph;
    while (g->domains[domain].kind == BS_DOMAIN_PATH) {
        mark_router(plan, g->domains[domain].router);
        domain = g->domains[domain].parent;
    }
    plan->domains[domain].live = true;
    mark(plan, g->domains[domain].lengths);
}

bool bs_plan_gathers(const bs_plan *plan, const bs_node *gather, int32_t index)
{
    const int32_t forced = plan->routers[gather->router].forced;
    const bool residual = index == plan->graph->routers[gather->router].desc->paths;
    const bool adds = ((const bs_gather_params *)gather->params)->mode == BS_GATHER_ADD ||
                      ((const bs_gather_params *)gather->params)->mode == BS_GATHER_WEIGHTED;
    if (forced == 0 || (residual && adds))
        return true;
    /* every cell takes the forced path: the residual only counts where that path gives nothing */
    return residual ? bs_node_in(plan->graph, gather)[forced - 1] == 0 : index == forced - 1;
}

static void mark_operands(bs_plan *plan, const bs_node *node)
{
    const bs_graph *g = plan->graph;
    int32_t n_in;
    const int32_t *in = bs_plan_in(plan, (int32_t)(node - g->nodes), &n_in);
    if (bs_node_is(node, &bs_op_route) && plan->routers[node->router].forced)
        return; /* decided ahead: scores are not needed */
    for (int32_t i = 0; i < n_in; i++)
        if (!bs_node_is(node, &bs_op_gather) || bs_plan_gathers(plan, node, i))
            mark(plan, in[i]);
    if (node->router)
        mark_router(plan, node->router);
}

/* A state is kept when something that is needed reads it. */
static bool is_needed_ending(const bs_plan *plan, const bs_node *node)
{
    const bs_graph *g = plan->graph;
    if (bs_node_is(node, &bs_op_state_write) || bs_node_is(node, &bs_op_state_append))
        return plan->node_live[g->values[bs_node_in(g, node)[0]].node];
    return bs_node_is(node, &bs_op_output);
}

/* Backwards to what is needed; again while that made another state's writing needed. */
static void find_live(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (bool more = true; more;) {
        more = false;
        for (int32_t n = g->n_nodes - 1; n >= 1; n--) {
            const bs_node *node = &g->nodes[n];
            if (!plan->node_live[n] && is_needed_ending(plan, node))
                plan->node_live[n] = more = true;
            if (!plan->node_live[n])
                continue;
            mark_operands(plan, node);
            mark_domain(plan, node->domain);
        }
    }
}

/* -------------------------------------------------------------------------------------------------- order */

static bool tree_has_images(const bs_plan *plan, int32_t top)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        if (plan->node_live[n] && node->n_out > 0 && bs_plan_top_domain(g, node->domain) == top &&
            g->values[node->first_out].rank == 3)
            return true;
    }
    return false;
}

/* Decisions of the outermost routers are made for all rows; a nested router can be decided tile by tile when its rows
 * do not influence each other and the caller is not asked. */
static bool protocol_is_row_local(const bs_route_desc *d)
{
    return d->protocol != BS_ROUTE_CAPACITY && d->protocol != BS_ROUTE_BUDGET && d->protocol != BS_ROUTE_CALLBACK;
}

static bool tree_can_tile(const bs_plan *plan, int32_t top)
{
    const bs_graph *g = plan->graph;
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bs_router_info *router = &g->routers[r];
        const bool nested = router->domain != top && bs_plan_top_domain(g, router->domain) == top;
        if (nested && plan->routers[r].live && !plan->routers[r].forced && !protocol_is_row_local(router->desc))
            return false;
    }
    return true;
}

#define BS_TILE_ROWS 16 /* rows a tile of a non-image domain */

void bs_plan_set_order(bs_plan *plan, int32_t top, int32_t order)
{
    const bs_graph *g = plan->graph;
    for (int32_t d = 0; d < g->n_domains; d++)
        if (bs_plan_top_domain(g, d) == top)
            plan->domains[d].order = order;
    for (int32_t r = 1; r < g->n_routers; r++) {
        const int32_t d = g->routers[r].domain;
        plan->routers[r].in_tile = plan->domains[d].order == BS_ORDER_DEPTH && g->domains[d].kind == BS_DOMAIN_PATH;
        plan->routers[r].rows = plan->routers[r].in_tile ? plan->domains[d].tile_rows : plan->domains[d].max_rows;
    }
}

static void choose_orders(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t d = 0; d < g->n_domains; d++) {
        bs_domain_plan *p = &plan->domains[d];
        const bs_domain *domain = &g->domains[d];
        const int32_t top = bs_plan_top_domain(g, d);
        p->max_rows = domain->max_rows;
        p->size = domain->size;
        if (domain->kind == BS_DOMAIN_PATCHES && plan->desc.patch_size > 0)
            p->size = plan->desc.patch_size;
        if (domain->kind == BS_DOMAIN_PATCHES)
            p->max_rows = bs_ceil_div(bs_dim_max(g, domain->height), p->size) * bs_ceil_div(bs_dim_max(g, domain->width), p->size);
        if (domain->kind == BS_DOMAIN_PATH)
            p->max_rows = plan->domains[domain->parent].max_rows;
        const bool images = top > 0 && tree_has_images(plan, top);
        const bool wanted = plan->desc.order == BS_ORDER_DEPTH ||
                            (plan->desc.order == BS_ORDER_AUTO && (images || bs_plan_streams_paths(plan, top)));
        p->order = top > 0 && wanted && tree_can_tile(plan, top) ? BS_ORDER_DEPTH : BS_ORDER_BREADTH;
        p->tile_rows = images ? 1 : BS_TILE_ROWS;
    }
    for (int32_t d = 0; d < g->n_domains; d++)
        if (g->domains[d].kind != BS_DOMAIN_PATH)
            bs_plan_set_order(plan, d, plan->domains[d].order);
}

/* ------------------------------------------------------------------------------------------------ margins */

static int32_t margin_of_outputs(const bs_plan *plan, const bs_node *node)
{
    int32_t margin = 0;
    for (int32_t i = 0; i < node->n_out; i++)
        margin = bs_max_i32(margin, plan->values[node->first_out + i].margin);
    return margin;
}

/* Outside a patch domain an output has nothing around it to compute: only the op's own window counts. */
static int32_t margin_asked(const bs_plan *plan, const bs_node *node, int32_t index)
{
    const bs_graph *g = plan->graph;
    const bs_op *op = bs_op_get(node->op);
    const bool patches = g->domains[node->domain].patches >= 0;
    const int32_t out = patches ? margin_of_outputs(plan, node) : 0;
    if (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_patches) || node->n_out == 0)
        return 0;
    return op->halo ? op->halo(g, node, index, out) : out;
}

static void spread_margins(bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = g->n_nodes - 1; n >= 1; n--) {
        const bs_node *node = &g->nodes[n];
        const int32_t *in = bs_node_in(g, node);
        for (int32_t i = 0; plan->node_live[n] && i < node->n_in; i++) {
            if (in[i] == 0 || g->values[in[i]].rank != 3)
                continue;
            bs_value_plan *v = &plan->values[in[i]];
            v->margin = bs_max_i32(v->margin, margin_asked(plan, node, i));
        }
    }
}

/* Tensors that hold a row a cell were sized for the graph's own patch size. */
static bool cells_fit(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        if (!plan->node_live[n] || !(bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_collect)))
            continue;
        const bool rows = bs_node_is(node, &bs_op_rows);
        const bs_value_info *root = &g->values[rows ? bs_node_in(g, node)[0] : node->first_out];
        const int32_t domain = rows ? node->domain : g->values[bs_node_in(g, node)[0]].domain;
        if (bs_dim_max(g, root->dims[0]) < plan->domains[domain].max_rows)
            return bs_refuse(error, BS_ERROR_LIMIT, "patch size %d makes up to %lld cells, %s \"%s\" holds %lld: take larger patches",
                             plan->desc.patch_size, (long long)plan->domains[domain].max_rows, bs_op_get(node->op)->name, bs_node_name(node),
                             (long long)bs_dim_max(g, root->dims[0]));
    }
    return true;
}

/* Cells of every scale must be whole pixels: the builder saw to it for the graph's own patch size. */
static bool cells_are_whole(const bs_plan *plan, bs_error *error)
{
    const bs_graph *g = plan->graph;
    for (int32_t v = 1; v < g->n_values; v++) {
        const bs_value_info *value = &g->values[v];
        const int32_t patches = g->domains[value->domain].patches;
        if (!plan->node_live[value->node] || value->rank != 3 || patches < 0 ||
            (int64_t)plan->domains[patches].size * value->scale_num % value->scale_den == 0)
            continue;
        return bs_refuse(error, BS_ERROR_SHAPE, "patch size %d: %s \"%s\" makes cells of %d/%d of it, which are not whole pixels",
                         plan->domains[patches].size, bs_op_get(g->nodes[value->node].op)->name, bs_node_name(&g->nodes[value->node]),
                         value->scale_num, value->scale_den);
    }
    return true;
}

bool bs_plan_live(bs_plan *plan, bs_error *error)
{
    if (!force_routes(plan, error))
        return false;
    find_live(plan);
    choose_orders(plan);
    spread_margins(plan);
    return cells_fit(plan, error) && cells_are_whole(plan, error);
}
/* ==== end src/plan_live.c ===================================================================== */

/* ==== begin src/plan_stream.c ================================================================= */
/* plan_stream.c - streaming: which weights come and go together (units), and which steps of the plan need them (stages).
 *
 * A unit is what one path of a router needs, or one block that every run goes through. Weights outside blocks stay
 * resident, and so do tables of routers and constants, which are read in other ways than by a kernel.
 * Relies on plan.h. Must never know where weights are stored: it plans for a board that is not there. */
/* #include "plan.h" */
/* #include "structure.h" */

/* --------------------------------------------------------------------------------------------------- units */

static int32_t outermost_path(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && g->domains[g->domains[domain].parent].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return g->domains[domain].kind == BS_DOMAIN_PATH ? domain : 0;
}

static int32_t outermost_block(const bs_graph *g, int32_t block, int32_t path)
{
    for (int32_t up = g->blocks[block].parent; up != 0; up = g->blocks[up].parent) {
        const bs_node *first = &g->nodes[g->blocks[up].first_node];
        if (outermost_path(g, first->domain) != path)
            break;
        block = up;
    }
    return block;
}

static int32_t count_tensors(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const bs_op *op = bs_op_get(node->op);
    return op->weights ? op->weights(g, node, specs) : 0;
}

static bool node_streams(const bs_plan *p, int32_t n)
{
    const bs_node *node = &p->graph->nodes[n];
    return p->node_live[n] && node->block != 0 && node->n_in > 0 && !bs_node_is(node, &bs_op_route) && count_tensors(p->graph, node) > 0;
}

static int32_t unit_find(bs_plan *p, int32_t block, int32_t path)
{
    for (int32_t u = 1; u < p->n_units; u++)
        if (path ? p->units[u].domain == path : p->units[u].domain == 0 && p->units[u].block == block)
            return u;
    bs_plan_unit *unit = &p->units[p->n_units];
    unit->block = path ? outermost_block(p->graph, block, path) : block;
    unit->domain = path;
    return p->n_units++;
}

void bs_plan_units(bs_plan *p)
{
    const bs_graph *g = p->graph;
    p->n_units = 1;
    for (int32_t n = 1; p->desc.slot_bytes > 0 && n < g->n_nodes; n++) {
        if (!node_streams(p, n))
            continue;
        const int32_t unit = unit_find(p, g->nodes[n].block, outermost_path(g, g->nodes[n].domain));
        p->nodes[n].unit = unit;
        p->units[unit].n_nodes++;
        p->units[unit].n_tensors += count_tensors(g, &g->nodes[n]);
    }
}

bool bs_plan_streams_paths(const bs_plan *p, int32_t top)
{
    const bs_graph *g = p->graph;
    for (int32_t n = 1; p->desc.slot_bytes > 0 && n < g->n_nodes; n++)
        if (node_streams(p, n) && outermost_path(g, g->nodes[n].domain) && bs_plan_top_domain(g, g->nodes[n].domain) == top)
            return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------- stages */

/* What a stage is known by: the router that decides, or minus the unit that every run needs; 0: none needed. */
static int32_t unit_key(const bs_plan *p, int32_t unit)
{
    const int32_t domain = unit ? p->units[unit].domain : 0;
    return unit == 0 ? 0 : domain ? p->graph->domains[domain].router : -unit;
}

static int32_t instr_key(const bs_plan *p, const bs_instr *i)
{
    if (i->kind == BS_INSTR_OP)
        return unit_key(p, p->nodes[i->node].unit);
    for (int32_t k = 0; i->kind == BS_INSTR_REGION && k < p->n_parts; k++)
        if (p->parts[k].region == i->node && p->parts[k].unit)
            return unit_key(p, p->parts[k].unit);
    return 0;
}

static bool stage_add(bs_plan *p, bs_trace_stage *stage, int32_t unit)
{
    for (int32_t k = stage->first_unit; unit != 0 && k < stage->first_unit + stage->n_units; k++)
        if (p->stage_units[k] == unit - 1)
            return true;
    if (unit == 0)
        return true;
    if (p->n_stage_units == p->max_stage_units)
        return false;
    p->stage_units[p->n_stage_units++] = unit - 1;
    stage->n_units++;
    return true;
}

static bool stage_add_instr(bs_plan *p, bs_trace_stage *stage, const bs_instr *i)
{
    bool fits = true;
    if (i->kind == BS_INSTR_OP)
        return stage_add(p, stage, p->nodes[i->node].unit);
    for (int32_t k = 0; fits && k < p->n_parts; k++)
        if (p->parts[k].region == i->node)
            fits = stage_add(p, stage, p->parts[k].unit);
    return fits;
}

/* Neighbouring instructions that need the same make one stage; a region is one by itself. */
static bool find_stages(bs_plan *p)
{
    bs_trace_stage *open = NULL;
    int32_t open_key = 0;
    for (int32_t k = 0; k < p->n_top; k++) {
        bs_instr *i = &p->instrs[k];
        const int32_t key = instr_key(p, i);
        i->stage = -1;
        if (key == 0)
            continue;
        if (!open || key != open_key || i->kind == BS_INSTR_REGION) {
            open = &p->stages[p->n_stages++];
            open->router = key > 0 ? key : 0;
            open->first_unit = p->n_stage_units;
            open->n_units = 0;
            open_key = key;
        }
        i->stage = p->n_stages - 1;
        if (!stage_add_instr(p, open, i))
            return false;
        if (i->kind == BS_INSTR_REGION)
            open = NULL;
    }
    return true;
}

static void part_units(bs_plan *p)
{
    for (int32_t k = 0; k < p->n_parts; k++)
        for (int32_t i = p->parts[k].first; i < p->parts[k].first + p->parts[k].count; i++)
            if (p->instrs[i].kind == BS_INSTR_OP && p->nodes[p->instrs[i].node].unit)
                p->parts[k].unit = p->nodes[p->instrs[i].node].unit;
}

/* --------------------------------------------------------------------------------------------------- sizes */

/* A lane's staging holds a chunk, or the weights of the largest layer; and what alignment to pages adds at both ends. */
static void size_lanes(bs_plan *p)
{
    uint64_t largest = 0;
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const uint64_t bytes = p->nodes[n].unit ? bs_plan_canonical_bytes(p->graph, &p->graph->nodes[n]) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    p->chunk_bytes = (uint64_t)bs_or_default(p->desc.chunk_bytes, 262144);
    p->lanes = bs_or_default(p->desc.lanes, 2);
    const uint64_t piece = largest > p->chunk_bytes ? largest : p->chunk_bytes;
    p->lane_bytes = (bs_add_u64(piece, 5 * BS_PAGE_BYTES - 1)) & ~(uint64_t)(BS_PAGE_BYTES - 1);
}

bool bs_plan_stages(bs_plan *p, bs_error *error)
{
    for (int32_t u = 1; u < p->n_units; u++) {
        const uint64_t bytes = p->units[u].prepared_bytes;
        p->all_unit_bytes = bs_add_u64(p->all_unit_bytes, bytes);
        p->largest_unit_bytes = bytes > p->largest_unit_bytes ? bytes : p->largest_unit_bytes;
    }
    if (!bs_plan_streams(p))
        return true;
    part_units(p);
    if (!find_stages(p))
        return bs_refuse(error, BS_ERROR_LIMIT, "the plan's stages need more than %d units", p->max_stage_units);
    p->slot_bytes = p->desc.slot_bytes & ~(uint64_t)(BS_ALIGNMENT - 1);
    if (p->slot_bytes < p->largest_unit_bytes) {
        const bs_arena slots = {"slots", NULL, (size_t)p->desc.slot_bytes, 0, 0};
        bs_fail_arena(error, &slots, p->largest_unit_bytes, "the weights of the largest block");
        return false;
    }
    p->slot_bytes = p->slot_bytes < p->all_unit_bytes ? p->slot_bytes : p->all_unit_bytes;
    size_lanes(p);
    return true;
}

/* --------------------------------------------------------------------------------------------------- asking */

void bs_plan_stream_get(const bs_plan *plan, bs_stream_plan *stream)
{
    const bs_stream_plan s = {plan->n_units - 1, plan->n_stages, plan->slot_bytes, plan->largest_unit_bytes, plan->all_unit_bytes};
    *stream = s;
}

bs_status bs_plan_unit_get(const bs_plan *plan, int32_t unit, bs_stream_unit_facts *facts)
{
    if (unit < 0 || unit >= plan->n_units - 1)
        return BS_ERROR_ARGUMENT;
    const bs_plan_unit *u = &plan->units[unit + 1];
    const bs_domain *domain = &plan->graph->domains[u->domain];
    memset(facts, 0, sizeof *facts);
    snprintf(facts->name, sizeof facts->name, "%s", plan->graph->text + plan->graph->blocks[u->block].name);
    facts->router = u->domain ? domain->router : 0;
    facts->path = u->domain ? domain->path : -1;
    facts->slot_bytes = u->prepared_bytes;
    return BS_OK;
}

bs_status bs_plan_stage_get(const bs_plan *plan, int32_t stage, bs_stream_stage_facts *facts, int32_t *units)
{
    if (stage < 0 || stage >= plan->n_stages)
        return BS_ERROR_ARGUMENT;
    const bs_trace_stage *s = &plan->stages[stage];
    facts->router = s->router;
    facts->n_units = s->n_units;
    if (units)
        memcpy(units, plan->stage_units + s->first_unit, (size_t)s->n_units * sizeof *units);
    return BS_OK;
}
/* ==== end src/plan_stream.c =================================================================== */

/* ==== begin src/plan_fuse.c =================================================================== */
/* plan_fuse.c - chains of nodes that one kernel does in a single pass: an epilogue that need not go through memory.
 *
 * A fusion is a pattern and a kernel that gives the same bits as the chain. The last node of the chain stays and is given
 * the chain's outer operands; the others are not needed any more. Adding one is an entry in the table.
 * Relies on plan_live.c having run. Must never change a result. */
/* #include "plan.h" */
/* #include "structure.h" */
/* #include "kernels/elementwise.h" */

static int32_t readers_of(const bs_plan *p, int32_t value)
{
    int32_t count = 0;
    for (int32_t n = p->graph->values[value].node + 1; n < p->graph->n_nodes; n++) {
        int32_t n_in;
        const int32_t *in = bs_plan_in(p, n, &n_in);
        for (int32_t i = 0; p->node_live[n] && i < n_in; i++)
            count += in[i] == value;
    }
    return count;
}

/* The live node of op `name` that makes `value`, when only one node reads it; 0 otherwise. */
static int32_t only_use(const bs_plan *p, int32_t value, const char *name)
{
    const int32_t n = p->graph->values[value].node;
    const bool is = p->node_live[n] && strcmp(bs_op_get(p->graph->nodes[n].op)->name, name) == 0;
    return is && p->nodes[n].fusion == 0 && readers_of(p, value) == 1 ? n : 0;
}

/* ------------------------------------------------------- pixel_shuffle 2 of [4,h,w] + base -> codes [1,2h,2w] */

static bool sr_store_match(bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *convert = &g->nodes[n];
    const bs_convert_desc *desc = convert->params;
    if (strcmp(bs_op_get(convert->op)->name, "convert") != 0 || (desc->dtype != BS_U8 && desc->dtype != BS_U16) ||
        g->values[convert->first_out].rank != 3 || p->values[convert->first_out].margin != 0)
        return false;
    const int32_t add = only_use(p, bs_node_in(g, convert)[0], "add");
    if (!add || g->nodes[add].domain != convert->domain)
        return false;
    for (int32_t side = 0; side < 2; side++) {
        const int32_t *in = bs_node_in(g, &g->nodes[add]);
        const int32_t shuffle = only_use(p, in[side], "pixel_shuffle"), base = in[1 - side];
        if (!shuffle || !bs_same_shape(&g->values[in[0]], &g->values[in[1]]) || g->values[base].domain != convert->domain)
            continue;
        const int32_t tail = bs_node_in(g, &g->nodes[shuffle])[0];
        if (g->values[tail].dtype != BS_F32 || bs_dim_max(g, g->values[in[side]].dims[0]) != 1 || bs_dim_max(g, g->values[tail].dims[0]) != 4)
            continue;
        p->node_live[add] = p->node_live[shuffle] = false;
        p->nodes[n].fused_in[0] = tail;
        p->nodes[n].fused_in[1] = base;
        return true;
    }
    return false;
}

static bs_status sr_store_run(const bs_call *call)
{
    const bs_operand *tail = &call->in[0], *base = &call->in[1], *out = &call->out[0];
    const bs_convert_desc *desc = call->params;
    const bs_rect r = out->rect; /* even: a cell of the doubled frame, or a band of it */
    const size_t bytes = bs_dtype_bytes(out->dtype);
    bs_sr_store s;
    memset(&s, 0, sizeof s);
    s.tail = bs_f32_at(tail, r.y0 / 2 * tail->stride[1] + r.x0 / 2 * tail->stride[2]);
    s.tail_row = tail->stride[1];
    s.tail_pixel = (int32_t)tail->stride[2];
    s.base = bs_f32_at(base, r.y0 * base->stride[1] + r.x0 * base->stride[2]);
    s.base_row = base->stride[1];
    s.out = (uint8_t *)out->data + (r.y0 * out->stride[1] + r.x0 * out->stride[2]) * (ptrdiff_t)bytes;
    s.out_row = out->stride[1];
    s.h = (r.y1 - r.y0) / 2;
    s.w = (r.x1 - r.x0) / 2;
    s.scale = desc->scale != 0 ? desc->scale : 1;
    s.high = (uint16_t)((1u << bs_or_default(desc->code_bits, 16)) - 1);
    if (out->dtype == BS_U8)
        bs_sr_store_u8(call->plan->tier, &s);
    else
        bs_sr_store_u16(call->plan->tier, &s);
    return BS_OK;
}

/* -------------------------------------------------------------------------------------------------- table */

typedef struct bs_fusion {
    const char *name;
    bool (*match)(bs_plan *plan, int32_t node); /* on success: fused_in is set, the inner nodes are off */
    bs_status (*run)(const bs_call *call);
    int32_t operands;
} bs_fusion;

static const bs_fusion fusions[] = {{"sr_store", sr_store_match, sr_store_run, 2}};
#define FUSIONS ((int32_t)(sizeof fusions / sizeof *fusions))

const int32_t *bs_plan_in(const bs_plan *plan, int32_t node, int32_t *count)
{
    const bs_node_plan *p = &plan->nodes[node];
    const bs_node *n = &plan->graph->nodes[node];
    const bool cells = bs_node_is(n, &bs_op_patches) || bs_node_is(n, &bs_op_rows) || bs_node_is(n, &bs_op_segments) ||
                       bs_node_is(n, &bs_op_segment_spread); /* the second operand told the domain: it is not read */
    *count = p->fusion ? fusions[p->fusion - 1].operands : cells ? 1 : n->n_in;
    return p->fusion ? p->fused_in : bs_node_in(plan->graph, n);
}

bs_status bs_fusion_run(const bs_call *call)
{
    return fusions[call->plan->fusion - 1].run(call);
}

const char *bs_fusion_name(int32_t fusion)
{
    return fusion > 0 && fusion <= FUSIONS ? fusions[fusion - 1].name : "";
}

void bs_plan_fuse(bs_plan *plan)
{
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        for (int32_t f = 0; plan->node_live[n] && plan->nodes[n].fusion == 0 && f < FUSIONS; f++)
            if (fusions[f].match(plan, n))
                plan->nodes[n].fusion = f + 1;
}
/* ==== end src/plan_fuse.c ===================================================================== */

/* ==== begin src/plan_lower.h ================================================================== */
/* plan_lower.h - what the files of the lowering stage share: plan_region.c, plan_place.c, plan_lower.c.
 * Relies on plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_LOWER_H
#define BS_PLAN_LOWER_H

/* #include "plan.h" */
/* #include "structure.h" */

#define BS_TOP (-1) /* no region: at top level */

typedef struct bs_lowering {
    bs_plan *plan;
    const bs_graph *g;
    int32_t *home;        /* [nodes] part index, or BS_TOP */
    int32_t *needed;      /* [nodes] of region_needs */
    int32_t *ready;       /* [values] time from which a value can be read (top level and region results) */
    int32_t clock[BS_MAX_DOMAINS];
    int32_t open[BS_MAX_DOMAINS]; /* [top-level domain] region that still takes nodes, or BS_TOP */
    int32_t region_time[BS_MAX_REGIONS];
    int32_t decided[BS_MAX_ROUTERS]; /* time of its decision */
    bs_status status;
} bs_lowering;

bool bs_lower_is_view(const bs_node *node);
/* Whether every path's rows are kept until all are there: sums, and several paths a cell. */
bool bs_lower_is_packed(const bs_lowering *l, const bs_node *gather);

/* Calls visit for every live reader of a value, in order, until it returns false; returns whether it never did. */
typedef bool (*bs_reader_visit)(bs_lowering *l, int32_t node, int32_t index, void *user);
bool bs_lower_each_reader(bs_lowering *l, int32_t value, bs_reader_visit visit, void *user);

/* A region for every node that runs in tiles (l->home). Returns a top-level domain that cannot run so, or 0. */
int32_t bs_lower_regions(bs_lowering *l);
int32_t bs_lower_region_of(const bs_lowering *l, int32_t node);
/* A place for every live value; needs the regions. */
void bs_lower_places(bs_lowering *l);

#endif
/* ==== end src/plan_lower.h ==================================================================== */

/* ==== begin src/plan_region.c ================================================================= */
/* plan_region.c - which nodes run together in tiles.
 *
 * Nodes of a depth-first domain are collected in regions: a region runs tile by tile, and its parts (the paths of one
 * router, or the domain's own rows) side by side. A region ends where something outside it needs a result.
 * Relies on plan_lower.h and plan_live.c. Must never place values or emit instructions. */
/* #include "plan_lower.h" */

/* ------------------------------------------------------------------------------------------ who reads what */

bool bs_lower_is_view(const bs_node *node)
{
    return bs_node_is(node, &bs_op_patches) || bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_segments) ||
           bs_node_is(node, &bs_op_scatter);
}

bool bs_lower_is_packed(const bs_lowering *l, const bs_node *node)
{
    return l->g->routers[node->router].max_paths_per_cell > 1 || ((const bs_gather_params *)node->params)->mode == BS_GATHER_ADD ||
           ((const bs_gather_params *)node->params)->mode == BS_GATHER_WEIGHTED;
}

bool bs_lower_each_reader(bs_lowering *l, int32_t value, bs_reader_visit visit, void *user)
{
    for (int32_t n = l->g->values[value].node + 1; n < l->g->n_nodes; n++) {
        const bs_node *node = &l->g->nodes[n];
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, n, &n_in);
        const bool gather = bs_node_is(node, &bs_op_gather);
        const bool forced_route = bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].forced;
        for (int32_t i = 0; l->plan->node_live[n] && !forced_route && i < n_in; i++)
            if (in[i] == value && (!gather || bs_plan_gathers(l->plan, node, i)) && !visit(l, n, i, user))
                return false;
    }
    return true;
}

/* Whether an image is the caller's or part of a plain tensor, seen as it is: those are planar. */
/* ------------------------------------------------------------------------------------------------ regions */

/* The rows that a node's tile is made of: its top-level domain itself, or the outermost path below it. */
static int32_t part_domain(const bs_graph *g, int32_t domain)
{
    while (g->domains[domain].kind == BS_DOMAIN_PATH && g->domains[g->domains[domain].parent].kind == BS_DOMAIN_PATH)
        domain = g->domains[domain].parent;
    return domain;
}

static int32_t part_find(bs_lowering *l, int32_t region, int32_t domain)
{
    bs_plan *p = l->plan;
    for (int32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].region == region && p->parts[i].domain == domain)
            return i;
    if (p->n_parts == BS_MAX_PARTS) {
        l->status = BS_ERROR_LIMIT;
        return 0;
    }
    bs_part *part = &p->parts[p->n_parts];
    memset(part, 0, sizeof *part);
    part->region = region;
    part->domain = domain;
    const bs_domain *d = &l->g->domains[domain];
    part->router = d->kind == BS_DOMAIN_PATH ? d->router : 0;
    part->path = d->kind == BS_DOMAIN_PATH ? d->path : -1;
    return p->n_parts++;
}

/* Parts of one region are the paths of one router, or the top-level domain itself; a part has weights of one unit. */
static bool region_takes(const bs_lowering *l, int32_t region, int32_t domain, int32_t unit)
{
    const bs_domain *d = &l->g->domains[domain];
    for (int32_t i = 0; i < l->plan->n_parts; i++) {
        const bs_part *part = &l->plan->parts[i];
        if (part->region != region)
            continue;
        if (d->kind == BS_DOMAIN_PATH)
            return part->router == d->router;
        return part->domain == domain && (unit == 0 || part->unit == 0 || part->unit == unit);
    }
    return true;
}

static int32_t region_open(bs_lowering *l, int32_t top)
{
    if (l->plan->n_regions == BS_MAX_REGIONS) {
        l->status = BS_ERROR_LIMIT;
        return 0;
    }
    l->plan->region_domain[l->plan->n_regions] = top;
    l->open[top] = l->plan->n_regions;
    return l->plan->n_regions++;
}

static bool runs_in_tiles(const bs_lowering *l, const bs_node *node)
{
    const bs_graph *g = l->g;
    const int32_t top = bs_plan_top_domain(g, node->domain);
    if (bs_op_get(node->op)->flags & BS_OP_ACROSS)
        return false;
    if (top == 0 || l->plan->domains[top].order != BS_ORDER_DEPTH || node->n_out == 0)
        return bs_node_is(node, &bs_op_route) && l->plan->routers[node->router].in_tile;
    if (bs_node_is(node, &bs_op_gather))
        return l->plan->routers[node->router].in_tile;
    return true;
}

/* Closes the region that makes an operand, when the reader is not of that region: what comes later may depend on the
 * reader, and the region would have to run before and after it. */
static void close_read_regions(bs_lowering *l, const bs_node *node, int32_t home)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    const int32_t region = home == BS_TOP ? BS_TOP : l->plan->parts[home].region;
    for (int32_t i = 0; i < n_in; i++) {
        const int32_t from = in[i] ? l->home[l->g->values[in[i]].node] : BS_TOP;
        const int32_t made_in = from == BS_TOP ? BS_TOP : l->plan->parts[from].region;
        if (made_in != BS_TOP && made_in != region)
            for (int32_t d = 0; d < l->g->n_domains; d++)
                if (l->open[d] == made_in)
                    l->open[d] = BS_TOP;
    }
}

static void assign_home(bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    l->home[n] = BS_TOP;
    if (!runs_in_tiles(l, node)) {
        close_read_regions(l, node, BS_TOP);
        return;
    }
    const int32_t top = bs_plan_top_domain(l->g, node->domain);
    const int32_t domain = part_domain(l->g, node->domain);
    if (l->open[top] == BS_TOP || !region_takes(l, l->open[top], domain, l->plan->nodes[n].unit))
        region_open(l, top);
    l->home[n] = part_find(l, l->open[top], domain);
    if (l->plan->nodes[n].unit)
        l->plan->parts[l->home[n]].unit = l->plan->nodes[n].unit;
    close_read_regions(l, node, l->home[n]);
}

int32_t bs_lower_region_of(const bs_lowering *l, int32_t node)
{
    return l->home[node] == BS_TOP ? BS_TOP : l->plan->parts[l->home[node]].region;
}

/* What is decided tile by tile is known in its own region only. Whether node n needs it in another one. */
static bool is_torn(const bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    int32_t router = node->router, domain = node->domain;
    for (;;) {
        if (router && l->plan->routers[router].in_tile && bs_lower_region_of(l, l->g->routers[router].node) != bs_lower_region_of(l, n))
            return true;
        if (l->g->domains[domain].kind != BS_DOMAIN_PATH)
            return false;
        router = l->g->domains[domain].router;
        domain = l->g->domains[domain].parent;
    }
}

/* A region for every node that runs in tiles. Returns a top-level domain that cannot, or 0. */
int32_t bs_lower_regions(bs_lowering *l)
{
    l->plan->n_regions = l->plan->n_parts = 0;
    for (int32_t d = 0; d < BS_MAX_DOMAINS; d++)
        l->open[d] = BS_TOP;
    for (int32_t n = 0; n < l->g->n_nodes; n++) {
        l->home[n] = BS_TOP;
        if (n > 0 && l->plan->node_live[n])
            assign_home(l, n);
    }
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        if (l->plan->node_live[n] && is_torn(l, n))
            return bs_plan_top_domain(l->g, l->g->nodes[n].domain);
    return 0;
}
/* ==== end src/plan_region.c =================================================================== */

/* ==== begin src/plan_place.c ================================================================== */
/* plan_place.c - where every value lives: the caller's buffers, states in place, views, transient rows, a thread's scratch.
 * Relies on plan_region.c having run. Must never assign offsets. */
/* #include "plan_lower.h" */

static bool is_planar(const bs_lowering *l, int32_t value)
{
    for (;;) {
        const bs_node *node = &l->g->nodes[l->g->values[value].node];
        if (!bs_node_is(node, &bs_op_scatter) && !bs_node_is(node, &bs_op_patches))
            return node->n_in == 0 || bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_segments);
        value = bs_node_in(l->g, node)[0];
        const bs_place place = l->plan->values[value].place;
        if (place == BS_PLACE_TRANSIENT || place == BS_PLACE_SCRATCH)
            return false;
    }
}

/* A reader that goes through storage: it needs zeros around the rows, rows that lie one after the other, or channels that
 * do. */
static bool reads_view_directly(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    const int32_t value = *(const int32_t *)user;
    const bs_node *node = &l->g->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    const bs_value_info *v = &l->g->values[value];
    const bool scattered_rows = l->g->domains[v->domain].kind == BS_DOMAIN_PATH && l->g->domains[v->domain].patches < 0;
    if (bs_node_is(node, &bs_op_route) && l->g->routers[node->router].desc->protocol == BS_ROUTE_CALLBACK)
        return l->g->domains[v->domain].kind != BS_DOMAIN_PATH; /* a callback sees all rows by one stride */
    if (bs_node_is(node, &bs_op_state_append) && index == 1)
        return false; /* written when states are: what they held before is to be written */
    if (op->flags & BS_OP_STRUCTURAL)
        return true;
    const bool zeros = v->rank == 3 && op->halo && !(op->flags & (BS_OP_CLAMPS | BS_OP_CORE_INPUT)) && l->plan->values[value].margin > 0;
    const bool channels = v->rank == 3 && (op->flags & BS_OP_CHANNELS_LAST || l->plan->nodes[n].fusion) && is_planar(l, value);
    return !zeros && !scattered_rows && !channels;
}

static bool count_reader(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)l, (void)n, (void)index;
    ++*(int32_t *)user;
    return true;
}

/* ------------------------------------------------------------------------------------------------- places */

/* Whether a reader needs the value outside the part that makes it. */
static bool reads_within(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    const int32_t home = *(const int32_t *)user;
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect))
        return true; /* a store inside the part */
    if (bs_node_is(node, &bs_op_gather) && index < l->g->routers[node->router].desc->paths)
        return l->home[n] == home || !bs_lower_is_packed(l, node);
    return l->home[n] == home;
}

static void place_computed(bs_lowering *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    int32_t home = l->home[l->g->values[value].node];
    const bool inside = home != BS_TOP && bs_lower_each_reader(l, value, reads_within, &home);
    v->place = inside ? BS_PLACE_SCRATCH : BS_PLACE_TRANSIENT;
    v->scope = inside ? home : BS_TOP;
}

static bool is_assemble(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    *(int32_t *)user = l->g->nodes[n].first_out;
    return bs_node_is(&l->g->nodes[n], &bs_op_assemble);
}

static void place_gather(bs_lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t readers = 0, frame = 0;
    bs_lower_each_reader(l, value, count_reader, &readers);
    if (readers == 1 && !bs_lower_is_packed(l, node) && !l->plan->routers[node->router].in_tile && bs_lower_each_reader(l, value, is_assemble, &frame)) {
        l->plan->values[value].place = BS_PLACE_FRAME;
        l->plan->values[value].source = frame;
        return;
    }
    place_computed(l, value);
}

static void place_view(bs_lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    int32_t id = value;
    if (bs_lower_each_reader(l, value, reads_view_directly, &id)) {
        l->plan->values[value].place = BS_PLACE_VIEW;
        l->plan->values[value].source = bs_node_in(l->g, node)[0];
    } else {
        place_computed(l, value);
    }
}

static void place_source(bs_lowering *l, int32_t value, bs_place place)
{
    int32_t id = value;
    l->plan->values[value].source = l->g->values[value].node;
    l->plan->values[value].place = bs_lower_each_reader(l, value, reads_view_directly, &id) ? place : BS_PLACE_TRANSIENT;
}

static bool is_not_copied(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    return !bs_node_is(&l->g->nodes[n], &bs_op_output) && !(bs_node_is(&l->g->nodes[n], &bs_op_state_write) && index == 1);
}

static bool is_not_written(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)user;
    const bool writes = bs_node_is(&l->g->nodes[n], &bs_op_state_write) || bs_node_is(&l->g->nodes[n], &bs_op_state_append);
    return !(writes && index == 0);
}

/* What is copied from a state at the end of a run is its old content, in whatever order states are written. */
static void place_state(bs_lowering *l, int32_t value)
{
    const bool in_place = bs_lower_each_reader(l, value, is_not_copied, NULL) || bs_lower_each_reader(l, value, is_not_written, NULL);
    place_source(l, value, BS_PLACE_STATE);
    if (!in_place)
        l->plan->values[value].place = BS_PLACE_TRANSIENT;
}

static bool is_output(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index;
    if (*(int32_t *)user == 0)
        *(int32_t *)user = n;
    return bs_node_is(&l->g->nodes[n], &bs_op_output);
}

/* ------------------------------------------------------------------------------------- states, in place */

typedef struct state_use {
    int32_t frame;         /* the assembled value that becomes the state */
    const bs_node *gather; /* whose paths store it */
} state_use;

static void need(bs_lowering *l, int32_t node, bool *more)
{
    *more = *more || !l->needed[node];
    l->needed[node] = 1;
}

/* Marks what node n cannot run without: operands, decisions, and all of its region. */
static void need_before(bs_lowering *l, int32_t n, bool *more)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, n, &n_in);
    for (int32_t i = 0; i < n_in; i++)
        if (in[i] && l->plan->node_live[l->g->values[in[i]].node])
            need(l, l->g->values[in[i]].node, more);
    for (int32_t d = l->g->nodes[n].domain; l->g->domains[d].kind == BS_DOMAIN_PATH; d = l->g->domains[d].parent)
        need(l, l->g->routers[l->g->domains[d].router].node, more);
    for (int32_t m = 1; bs_lower_region_of(l, n) != BS_TOP && m < l->g->n_nodes; m++)
        if (bs_lower_region_of(l, m) == bs_lower_region_of(l, n))
            need(l, m, more);
}

/* Whether region `before` must have run for region `after` to run. */
static bool region_needs(bs_lowering *l, int32_t after, int32_t before)
{
    bool more = true, found = false;
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        l->needed[n] = bs_lower_region_of(l, n) == after;
    while (more) {
        more = false;
        for (int32_t n = l->g->n_nodes - 1; n >= 1; n--)
            if (l->needed[n])
                need_before(l, n, &more);
    }
    for (int32_t n = 1; n < l->g->n_nodes; n++)
        found = found || (l->needed[n] && bs_lower_region_of(l, n) == before);
    return found && after != before;
}

/* The region that stores what path `path` gives; BS_TOP: it gives nothing, or stores in none. */
static int32_t region_of_path(const bs_lowering *l, const bs_node *gather, int32_t path)
{
    const int32_t value = bs_plan_gathers(l->plan, gather, path) ? bs_node_in(l->g, gather)[path] : 0;
    return value ? bs_lower_region_of(l, l->g->values[value].node) : BS_TOP;
}

/* Whether no path stores before region `before` has run. */
static bool stores_wait_for(bs_lowering *l, const bs_node *gather, int32_t before)
{
    for (int32_t i = 0; i < l->g->routers[gather->router].desc->paths; i++) {
        const int32_t region = region_of_path(l, gather, i);
        if (region != BS_TOP && !region_needs(l, region, before))
            return false;
    }
    return true;
}

static bool state_reader_is_early(bs_lowering *l, int32_t n, int32_t index, void *user);

/* Readers of the old content must be done before the region that writes it, or be its own residual. */
static bool state_value_is_early(bs_lowering *l, int32_t value, const state_use *use)
{
    state_use copy = *use;
    return bs_lower_each_reader(l, value, state_reader_is_early, &copy);
}

static bool state_reader_is_early(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    const state_use *use = user;
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_state_write))
        return index == 0;
    if (bs_lower_is_view(node) && l->plan->values[node->first_out].place == BS_PLACE_VIEW) /* read by ops, or as a residual */
        return state_value_is_early(l, node->first_out, use);
    if (bs_node_is(node, &bs_op_gather) && index == l->g->routers[node->router].desc->paths)
        return l->plan->values[node->first_out].place == BS_PLACE_FRAME && l->plan->values[node->first_out].source == use->frame;
    return bs_lower_region_of(l, n) != BS_TOP && stores_wait_for(l, use->gather, bs_lower_region_of(l, n));
}

/* Whether tiles store an assembled value straight from the paths of a router. */
static bool is_stored_by_paths(const bs_lowering *l, const bs_node *gather)
{
    bool stored = false;
    for (int32_t i = 0; bs_node_is(gather, &bs_op_gather) && i < l->g->routers[gather->router].desc->paths; i++)
        stored = stored || region_of_path(l, gather, i) != BS_TOP;
    return stored;
}

static bool is_ending(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    (void)index, (void)user;
    return l->g->nodes[n].n_out == 0 && !bs_node_is(&l->g->nodes[n], &bs_op_route);
}

static bool finds_state(bs_lowering *l, int32_t n, int32_t index, void *user)
{
    const bs_node *node = &l->g->nodes[n];
    if (bs_node_is(node, &bs_op_state_write) && index == 1)
        *(int32_t *)user = bs_node_in(l->g, node)[0];
    return true;
}

static void place_assembled(bs_lowering *l, int32_t value)
{
    bs_value_plan *v = &l->plan->values[value];
    int32_t state = 0;
    bs_lower_each_reader(l, value, finds_state, &state);
    const int32_t cells = bs_node_in(l->g, &l->g->nodes[l->g->values[value].node])[0];
    const state_use use = {value, &l->g->nodes[l->g->values[cells].node]};
    if (state && l->plan->values[state].place == BS_PLACE_STATE && is_stored_by_paths(l, use.gather) &&
        bs_lower_each_reader(l, value, is_ending, NULL) && state_value_is_early(l, state, &use)) {
        v->place = BS_PLACE_STATE;
        v->source = l->g->values[state].node;
        return;
    }
    int32_t output = 0;
    const bool only_outputs = bs_lower_each_reader(l, value, is_output, &output);
    v->place = only_outputs ? BS_PLACE_OUTPUT : BS_PLACE_TRANSIENT;
    v->source = output;
}

static void place_value(bs_lowering *l, int32_t value)
{
    const bs_node *node = &l->g->nodes[l->g->values[value].node];
    l->plan->values[value].scope = BS_TOP;
    if (bs_node_is(node, &bs_op_input))
        place_source(l, value, BS_PLACE_INPUT);
    else if (bs_node_is(node, &bs_op_state))
        place_state(l, value);
    else if (node->n_in == 0 && bs_op_get(node->op)->weights)
        place_source(l, value, BS_PLACE_WEIGHT); /* a constant */
    else if (bs_lower_is_view(node))
        place_view(l, value);
    else if (bs_node_is(node, &bs_op_gather))
        place_gather(l, value);
    else if (!bs_node_is(node, &bs_op_assemble) && !bs_node_is(node, &bs_op_collect))
        place_computed(l, value);
}

void bs_lower_places(bs_lowering *l)
{
    for (int32_t v = 1; v < l->g->n_values; v++)
        if (l->plan->node_live[l->g->values[v].node])
            place_value(l, v);
    for (int32_t v = 1; v < l->g->n_values; v++) { /* needs the places of gathers and views */
        const int32_t n = l->g->values[v].node;
        const bs_node *node = &l->g->nodes[n];
        if (l->plan->node_live[n] && (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect)))
            place_assembled(l, v);
    }
}
/* ==== end src/plan_place.c ==================================================================== */

/* ==== begin src/plan_lower.c ================================================================== */
/* plan_lower.c - the second stage of planning: from nodes to instructions.
 *
 * Nodes are visited once, in order. Breadth-first nodes become top-level instructions; the paths of a router are
 * concurrent, so their instructions carry equal times and are put in lockstep. Nodes of a region (plan_region.c) become
 * instructions of its parts; values have their places (plan_place.c).
 * Relies on plan_lower.h. Must never assign offsets. */
/* #include "plan_lower.h" */

/* ------------------------------------------------------------------------------------------- instructions */

static bs_instr *emit(bs_lowering *l, bs_instr_kind kind, int32_t home, int32_t node)
{
    bs_plan *p = l->plan;
    if (p->n_instrs == p->max_instrs) {
        l->status = BS_ERROR_LIMIT;
        return &p->instrs[0];
    }
    bs_instr *i = &p->instrs[p->n_instrs++];
    memset(i, 0, sizeof *i);
    i->kind = kind;
    i->node = node;
    i->part = home;
    i->region = home == BS_TOP ? BS_TOP : p->parts[home].region;
    i->domain = l->g->nodes[node].domain;
    return i;
}

/* From when `value` can be read by an instruction of `region`; what a region makes itself is there in order. */
static int32_t value_ready(const bs_lowering *l, int32_t value, int32_t region)
{
    if (value == 0)
        return 0;
    const bs_place place = l->plan->values[value].place;
    const int32_t made_in = bs_lower_region_of(l, l->g->values[value].node);
    const bool seen = place == BS_PLACE_VIEW || place == BS_PLACE_FRAME; /* stored by others */
    const int32_t ready = made_in == BS_TOP || seen ? l->ready[value] : 0;
    return made_in == BS_TOP || made_in == region ? ready : bs_max_i32(ready, l->region_time[made_in]);
}

/* When an instruction can run: after what it reads, and after the previous one of its domain. */
static void schedule(bs_lowering *l, bs_instr *i, int32_t after)
{
    if (i->region != BS_TOP) {
        l->region_time[i->region] = bs_max_i32(l->region_time[i->region], after + 1);
        return;
    }
    i->time = bs_max_i32(after, l->clock[i->domain]) + 1;
    l->clock[i->domain] = i->time;
}

/* Rows of a path exist once its router has decided. */
static int32_t domain_ready(const bs_lowering *l, int32_t domain)
{
    int32_t ready = 0;
    for (; l->g->domains[domain].kind == BS_DOMAIN_PATH; domain = l->g->domains[domain].parent)
        ready = bs_max_i32(ready, l->decided[l->g->domains[domain].router]);
    return ready;
}

static int32_t operands_ready(const bs_lowering *l, const bs_node *node, int32_t region)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, (int32_t)(node - l->g->nodes), &n_in);
    int32_t ready = domain_ready(l, node->domain);
    for (int32_t i = 0; i < n_in; i++)
        ready = bs_max_i32(ready, value_ready(l, in[i], region));
    return ready;
}

static void outputs_ready(bs_lowering *l, const bs_node *node, int32_t time)
{
    for (int32_t i = 0; i < node->n_out; i++)
        l->ready[node->first_out + i] = time;
}

/* A store belongs to the part that makes the value; its target is ready when all stores are. */
static void emit_store(bs_lowering *l, int32_t n, int32_t value, int32_t target)
{
    const bs_value_info *v = &l->g->values[value];
    bs_instr *i = emit(l, BS_INSTR_STORE, l->home[v->node], n);
    i->value = value;
    i->target = target;
    i->domain = v->domain;
    const int32_t from = l->plan->values[value].place == BS_PLACE_VIEW ? l->plan->values[value].source : value;
    schedule(l, i, bs_max_i32(domain_ready(l, v->domain), bs_max_i32(value_ready(l, value, i->region), value_ready(l, from, i->region))));
    const int32_t time = i->region == BS_TOP ? i->time : l->region_time[i->region];
    if (target)
        l->ready[target] = bs_max_i32(l->ready[target], time);
}

/* Where the rows of a gather go: its own storage, or the frame it is assembled in. */
static int32_t gather_target(const bs_lowering *l, int32_t value)
{
    return l->plan->values[value].place == BS_PLACE_FRAME ? l->plan->values[value].source : value;
}

/* In place, what no path writes simply stays. */
static bool residual_is_in_place(const bs_lowering *l, int32_t gather, int32_t residual)
{
    const bs_value_plan *g = &l->plan->values[gather];
    if (g->place != BS_PLACE_FRAME || residual == 0 || l->plan->values[residual].place != BS_PLACE_VIEW)
        return false;
    const bs_value_plan *frame = &l->plan->values[g->source];
    const bs_value_plan *old = &l->plan->values[l->plan->values[residual].source];
    return frame->place == BS_PLACE_STATE && old->place == BS_PLACE_STATE && frame->source == old->source;
}

static void emit_gather(bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t *in = bs_node_in(l->g, node);
    const int32_t paths = l->g->routers[node->router].desc->paths, value = node->first_out;
    const bool packed = bs_lower_is_packed(l, node);
    const int32_t target = gather_target(l, value);
    const int32_t region = l->home[n] == BS_TOP ? BS_TOP : l->plan->parts[l->home[n]].region;
    int32_t ready = l->decided[node->router];
    for (int32_t i = 0; i < paths; i++) {
        if (in[i] == 0 || !bs_plan_gathers(l->plan, node, i))
            continue;
        if (!packed)
            emit_store(l, n, in[i], target);
        ready = bs_max_i32(ready, bs_max_i32(value_ready(l, in[i], region), l->ready[target]));
    }
    const int32_t residual = bs_plan_gathers(l->plan, node, paths) ? in[paths] : 0;
    ready = bs_max_i32(ready, value_ready(l, residual, region));
    const bool complete = l->plan->routers[node->router].forced && in[l->plan->routers[node->router].forced - 1] != 0;
    if (packed || (!complete && !residual_is_in_place(l, value, residual))) {
        bs_instr *i = emit(l, packed ? BS_INSTR_REDUCE : BS_INSTR_FILL, l->home[n], n);
        i->value = residual;
        i->target = target;
        schedule(l, i, ready);
        ready = i->region == BS_TOP ? i->time : ready;
    }
    l->ready[value] = ready;
    l->ready[target] = bs_max_i32(l->ready[target], ready);
}

/* A tensor with a row for every patch there can be: those without one become zero. */
static void emit_rest(bs_lowering *l, int32_t n)
{
    bs_instr *i = emit(l, BS_INSTR_FILL, BS_TOP, n);
    i->target = l->g->nodes[n].first_out;
    schedule(l, i, l->ready[i->target]);
    l->ready[i->target] = i->time;
}

static void emit_route(bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    bs_instr *i = emit(l, BS_INSTR_ROUTE, l->home[n], n);
    const int32_t *in = bs_node_in(l->g, node);
    const bool forced = l->plan->routers[node->router].forced != 0;
    i->domain = l->g->routers[node->router].domain;
    int32_t ready = domain_ready(l, i->domain);
    for (int32_t k = 0; !forced && k < node->n_in; k++)
        ready = bs_max_i32(ready, value_ready(l, in[k], i->region));
    schedule(l, i, ready);
    l->decided[node->router] = i->region == BS_TOP ? i->time : 0;
}

/* Copies to outputs and states that are not the value's own place. */
static void emit_ending(bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const bool output = bs_node_is(node, &bs_op_output);
    const int32_t value = bs_node_in(l->g, node)[output ? 0 : 1];
    const bs_value_plan *v = &l->plan->values[value];
    const int32_t state = output ? 0 : l->g->values[bs_node_in(l->g, node)[0]].node;
    if (output ? v->place == BS_PLACE_OUTPUT && v->source == n : v->place == BS_PLACE_STATE && v->source == state)
        return;
    bs_instr *i = emit(l, BS_INSTR_STORE, BS_TOP, n);
    i->value = value;
    i->target = 0; /* the node tells: an output or a state */
    i->domain = l->g->values[value].domain; /* the root, or segments whose rows are appended */
    schedule(l, i, bs_max_i32(value_ready(l, value, BS_TOP), INT32_MAX / 2)); /* states are written at the end of a run */
}

static void emit_node(bs_lowering *l, int32_t n)
{
    const bs_node *node = &l->g->nodes[n];
    const int32_t value = node->first_out;
    if (bs_node_is(node, &bs_op_route)) {
        emit_route(l, n);
    } else if (bs_node_is(node, &bs_op_gather)) {
        emit_gather(l, n);
    } else if (bs_node_is(node, &bs_op_assemble) || bs_node_is(node, &bs_op_collect)) {
        const int32_t from = bs_node_in(l->g, node)[0];
        if (l->plan->values[from].place == BS_PLACE_FRAME)
            l->ready[value] = bs_max_i32(l->ready[value], l->ready[from]);
        else
            emit_store(l, n, from, value);
        if (bs_node_is(node, &bs_op_collect) && l->g->domains[l->g->values[from].domain].kind == BS_DOMAIN_PATCHES)
            emit_rest(l, n);
    } else if (node->n_out == 0) {
        return; /* endings come last */
    } else if (l->plan->values[value].place == BS_PLACE_VIEW || l->plan->values[value].place == BS_PLACE_INPUT ||
               l->plan->values[value].place == BS_PLACE_STATE || l->plan->values[value].place == BS_PLACE_WEIGHT) {
        const int32_t region = bs_lower_region_of(l, n), ready = operands_ready(l, node, region);
        outputs_ready(l, node, ready);
        if (region != BS_TOP) /* its stores come late, when others have been told the region's time */
            l->region_time[region] = bs_max_i32(l->region_time[region], ready + 1);
    } else {
        const bool decided = bs_node_is(node, &bs_op_route_price) || bs_node_is(node, &bs_op_route_score);
        const bool moved = bs_lower_is_view(node) || (node->n_in == 0 && !decided); /* given, not computed */
        bs_instr *i = emit(l, moved ? BS_INSTR_LOAD : BS_INSTR_OP, l->home[n], n);
        i->value = value;
        schedule(l, i, bs_max_i32(operands_ready(l, node, i->region), decided ? l->decided[node->router] : 0));
        outputs_ready(l, node, i->region == BS_TOP ? i->time : l->region_time[i->region]);
    }
}

/* -------------------------------------------------------------------------------------------------- order */

static bool goes_before(const bs_instr *a, const bs_instr *b)
{
    if (a->region != b->region)
        return a->region < b->region; /* BS_TOP first */
    if (a->region == BS_TOP)
        return a->time < b->time;
    return a->part < b->part;
}

/* Stable merge sort by halves of growing width; the upper half of the array is the buffer. */
static void sort_instrs(bs_instr *instrs, bs_instr *buffer, int32_t count)
{
    for (int32_t width = 1; width < count; width *= 2) {
        for (int32_t low = 0; low < count; low += 2 * width) {
            const int32_t middle = bs_min_i32(low + width, count), high = bs_min_i32(low + 2 * width, count);
            int32_t a = low, b = middle;
            for (int32_t k = low; k < high; k++)
                buffer[k] = a < middle && (b >= high || !goes_before(&instrs[b], &instrs[a])) ? instrs[a++] : instrs[b++];
        }
        memcpy(instrs, buffer, (size_t)count * sizeof *instrs);
    }
}

static void index_parts(bs_plan *p)
{
    p->n_top = 0;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].region == BS_TOP) {
            p->n_top++;
            continue;
        }
        bs_part *part = &p->parts[p->instrs[i].part];
        if (part->count++ == 0)
            part->first = i;
    }
}

/* A region whose nodes are all views has nothing to run. */
static bool region_has_work(const bs_plan *p, int32_t region)
{
    for (int32_t i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].region == region)
            return true;
    return false;
}

static void emit_regions(bs_lowering *l)
{
    for (int32_t r = 0; r < l->plan->n_regions; r++) {
        if (!region_has_work(l->plan, r))
            continue;
        bs_instr *i = emit(l, BS_INSTR_REGION, BS_TOP, 0);
        i->domain = l->plan->region_domain[r];
        i->time = l->region_time[r];
        i->node = r; /* the region's number */
    }
}

static void part_costs(bs_plan *p)
{
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        const bs_op *op = bs_op_get(p->graph->nodes[instr->node].op);
        if (instr->part != BS_TOP && instr->kind == BS_INSTR_OP && op->flops)
            p->parts[instr->part].flops += op->flops(p->graph, &p->graph->nodes[instr->node]);
    }
}

bool bs_plan_lower(bs_plan *plan, void *workspace, bs_error *error)
{
    const bs_graph *g = plan->graph;
    bs_lowering *l = workspace;
    memset(l, 0, sizeof *l);
    l->plan = plan;
    l->g = g;
    l->home = (int32_t *)(void *)((uint8_t *)workspace + bs_align_u64(sizeof *l));
    l->needed = l->home + g->n_nodes;
    l->ready = l->needed + g->n_nodes;
    memset(l->home, 0, (size_t)(2 * g->n_nodes + g->n_values) * sizeof(int32_t));
    for (int32_t torn = bs_lower_regions(l); torn != 0; torn = bs_lower_regions(l))
        bs_plan_set_order(plan, torn, BS_ORDER_BREADTH);
    bs_lower_places(l);
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (plan->node_live[n])
            emit_node(l, n);
    emit_regions(l);
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (plan->node_live[n] && g->nodes[n].n_out == 0 && !bs_node_is(&g->nodes[n], &bs_op_route))
            emit_ending(l, n);
    if (l->status != BS_OK)
        return bs_refuse(error, l->status, "the plan has more than %d instructions, %d regions or %d parts", plan->max_instrs,
                         BS_MAX_REGIONS, BS_MAX_PARTS);
    sort_instrs(plan->instrs, plan->instrs + plan->max_instrs, plan->n_instrs);
    index_parts(plan);
    part_costs(plan);
    return true;
}

uint64_t bs_plan_lower_workspace(const bs_graph *graph)
{
    return bs_align_u64(sizeof(bs_lowering)) + bs_align_u64((uint64_t)(2 * graph->n_nodes + graph->n_values) * sizeof(int32_t));
}
/* ==== end src/plan_lower.c ==================================================================== */

/* ==== begin src/plan_memory.c ================================================================= */
/* plan_memory.c - the third stage of planning: lifetimes to offsets.
 *
 * Time is that of the instructions; what shares a time is concurrent (paths of a router run side by side), and a value
 * is alive from the first to the last time that touches it, both included. Values of different paths that have the same
 * place in their block share a slab: rows of all paths packed, `max rows x paths per cell x widest row` bytes. That also
 * makes the arms of a single-cell if share their memory, and nothing else overlap.
 * Relies on plan_lower.c having run. */
/* #include "plan.h" */
/* #include "structure.h" */

uint64_t bs_plan_place(bs_life *lives, int32_t *order, int32_t count)
{
    uint64_t total = 0;
    for (int32_t i = 0; i < count; i++) { /* by size, descending; insertion keeps it stable */
        int32_t k = i;
        for (; k > 0 && lives[order[k - 1]].bytes < lives[i].bytes; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        bs_life *life = &lives[order[i]];
        life->offset = 0;
        for (int32_t k = 0; k < i; k++) { /* raise past every conflict; restart, since raising may meet an earlier one */
            const bs_life *other = &lives[order[k]];
            const bool together = life->first <= other->last && other->first <= life->last;
            const bool overlap = life->offset < other->offset + other->bytes && other->offset < bs_add_u64(life->offset, life->bytes);
            if (together && overlap && other->bytes > 0) {
                life->offset = bs_align_u64(other->offset + other->bytes);
                k = -1;
            }
        }
        if (life->bytes > 0)
            total = total > bs_add_u64(life->offset, life->bytes) ? total : bs_add_u64(life->offset, life->bytes);
    }
    return bs_align_u64(total);
}

/* -------------------------------------------------------------------------------------------------- sizes */

static uint64_t row_bytes(const bs_plan *p, int32_t value)
{
    const bs_value_info *v = &p->graph->values[value];
    uint64_t elements = 1;
    for (int32_t i = 0; i < v->rank; i++)
        elements = bs_mul_u64(elements, (uint64_t)bs_dim_max(p->graph, v->dims[i]));
    if (v->rank == 3) {
        int64_t h, w;
        const int64_t margin = p->values[value].margin;
        bs_plan_core(p, v, &h, &w);
        elements = bs_mul_u64(bs_mul_u64((uint64_t)bs_dim_max(p->graph, v->dims[0]), (uint64_t)(h + 2 * margin)), (uint64_t)(w + 2 * margin));
    }
    return bs_align_u64(bs_mul_u64(elements, bs_dtype_bytes(v->dtype)));
}

static int64_t storage_rows(const bs_plan *p, int32_t value)
{
    const bs_domain *d = &p->graph->domains[p->graph->values[value].domain];
    const int32_t domain = p->graph->values[value].domain;
    if (p->values[value].place == BS_PLACE_SCRATCH)
        return p->domains[domain].tile_rows;
    if (d->kind != BS_DOMAIN_PATH)
        return p->domains[domain].max_rows;
    return p->domains[domain].max_rows * p->graph->routers[d->router].max_paths_per_cell;
}

/* --------------------------------------------------------------------------------------------- lifetimes */

static int32_t storage_of(const bs_plan *p, int32_t value)
{
    while (value > 0 && (p->values[value].place == BS_PLACE_VIEW || p->values[value].place == BS_PLACE_FRAME))
        value = p->values[value].source;
    return value;
}

static void touch(bs_plan *p, int32_t value, int32_t scope, int32_t time)
{
    value = storage_of(p, value);
    bs_value_plan *v = &p->values[value];
    const bool here = value > 0 && ((v->place == BS_PLACE_TRANSIENT && scope < 0) || (v->place == BS_PLACE_SCRATCH && v->scope == scope));
    if (!here)
        return;
    v->first = v->first < 0 ? time : bs_min_i32(v->first, time);
    v->last = bs_max_i32(v->last, time);
}

static void touch_instr(bs_plan *p, const bs_instr *i, int32_t scope, int32_t time)
{
    const bs_node *node = &p->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(p, i->node, &n_in);
    touch(p, i->value, scope, time);
    touch(p, i->target, scope, time);
    const bool moves = i->kind == BS_INSTR_STORE || i->kind == BS_INSTR_FILL;
    for (int32_t k = 0; !moves && k < n_in; k++)
        touch(p, in[k], scope, time);
    for (int32_t k = 0; i->kind == BS_INSTR_OP && k < node->n_out; k++)
        touch(p, node->first_out + k, scope, time);
    /* a decision's price is written by the route */
    for (int32_t n = i->node + 1; i->kind == BS_INSTR_ROUTE && n < p->graph->n_nodes; n++)
        if (p->node_live[n] && p->graph->nodes[n].router == node->router && bs_node_is(&p->graph->nodes[n], &bs_op_route_price))
            touch(p, p->graph->nodes[n].first_out, scope, time);
}

static void find_lifetimes(bs_plan *p)
{
    for (int32_t v = 0; v < p->graph->n_values; v++)
        p->values[v].first = p->values[v].last = -1;
    for (int32_t i = 0; i < p->n_instrs; i++) {
        const bs_instr *instr = &p->instrs[i];
        if (instr->kind == BS_INSTR_REGION)
            continue;
        if (instr->region < 0) {
            touch_instr(p, instr, -1, instr->time);
            continue;
        }
        touch_instr(p, instr, instr->part, i);
        for (int32_t t = 0; t < p->n_top; t++) /* what a region touches outside is touched at the region's time */
            if (p->instrs[t].kind == BS_INSTR_REGION && p->instrs[t].node == instr->region)
                touch_instr(p, instr, -1, p->instrs[t].time);
    }
}

/* ------------------------------------------------------------------------------------------------ placing */

/* The ordinal of a value among the stored ones of its path: values of equal ordinal share a slab. */
static void assign_slabs(bs_plan *p)
{
    for (int32_t v = 1; v < p->graph->n_values; v++) {
        bs_value_plan *plan = &p->values[v];
        const bs_domain *d = &p->graph->domains[p->graph->values[v].domain];
        int32_t ordinal = 0;
        plan->slab = v;
        if (plan->place != BS_PLACE_TRANSIENT || d->kind != BS_DOMAIN_PATH)
            continue;
        for (int32_t u = 1; u < v; u++)
            ordinal += p->values[u].place == BS_PLACE_TRANSIENT && p->graph->values[u].domain == p->graph->values[v].domain;
        for (int32_t u = 1; u < v; u++) {
            const bs_domain *other = &p->graph->domains[p->graph->values[u].domain];
            if (p->values[u].place != BS_PLACE_TRANSIENT || other->kind != BS_DOMAIN_PATH || other->router != d->router || other->path == d->path)
                continue;
            int32_t place = 0;
            for (int32_t w = 1; w < u; w++)
                place += p->values[w].place == BS_PLACE_TRANSIENT && p->graph->values[w].domain == p->graph->values[u].domain;
            if (place == ordinal && p->values[u].slab == u) {
                plan->slab = u;
                break;
            }
        }
    }
}

static uint64_t place_scope(bs_plan *p, bs_life *lives, int32_t *order, bs_place place, int32_t scope)
{
    int32_t count = p->graph->n_values;
    memset(lives, 0, (size_t)count * sizeof *lives);
    for (int32_t v = 1; v < count; v++) {
        const bs_value_plan *plan = &p->values[v];
        if (plan->place != place || plan->scope != scope || plan->first < 0)
            continue;
        bs_life *life = &lives[plan->slab];
        const uint64_t bytes = bs_mul_u64(plan->row_bytes, (uint64_t)plan->rows);
        const bool fresh = life->bytes == 0;
        life->first = fresh ? plan->first : bs_min_i32(life->first, plan->first);
        life->last = fresh ? plan->last : bs_max_i32(life->last, plan->last);
        life->bytes = life->bytes > bytes ? life->bytes : bytes;
    }
    const uint64_t total = bs_plan_place(lives, order, count);
    for (int32_t v = 1; v < count; v++)
        if (p->values[v].place == place && p->values[v].scope == scope)
            p->values[v].offset = lives[p->values[v].slab].offset;
    return total;
}

/* Rows of every path in a slab are as wide as its widest. */
static void widen_slabs(bs_plan *p)
{
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t v = 1; v < p->graph->n_values; v++) {
            bs_value_plan *plan = &p->values[v], *slab = &p->values[plan->slab];
            const uint64_t widest = plan->row_bytes > slab->row_bytes ? plan->row_bytes : slab->row_bytes;
            plan->row_bytes = slab->row_bytes = widest;
        }
}

uint64_t bs_plan_memory_workspace(const bs_graph *graph)
{
    return bs_align_u64((uint64_t)graph->n_values * sizeof(bs_life)) + bs_align_u64((uint64_t)graph->n_values * sizeof(int32_t));
}

bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error)
{
    const int32_t values = plan->graph->n_values;
    bs_life *lives = workspace;
    int32_t *order = (int32_t *)(void *)((uint8_t *)workspace + bs_align_u64((uint64_t)values * sizeof(bs_life)));
    find_lifetimes(plan);
    assign_slabs(plan);
    for (int32_t v = 1; v < values; v++) {
        const bs_place place = plan->values[v].place;
        if (place != BS_PLACE_TRANSIENT && place != BS_PLACE_SCRATCH)
            continue;
        plan->values[v].row_bytes = row_bytes(plan, v);
        plan->values[v].rows = storage_rows(plan, v);
    }
    widen_slabs(plan);
    plan->transient_bytes = place_scope(plan, lives, order, BS_PLACE_TRANSIENT, -1);
    plan->kernel_scratch_offset = 0;
    for (int32_t k = 0; k < plan->n_parts; k++) {
        plan->parts[k].scratch_bytes = place_scope(plan, lives, order, BS_PLACE_SCRATCH, k);
        if (plan->parts[k].scratch_bytes > plan->kernel_scratch_offset)
            plan->kernel_scratch_offset = plan->parts[k].scratch_bytes;
    }
    plan->scratch_bytes = bs_align_u64(plan->kernel_scratch_offset) + bs_align_u64(plan->kernel_scratch_bytes);
    if (plan->transient_bytes > (uint64_t)1 << 46 || plan->scratch_bytes > (uint64_t)1 << 46)
        return bs_refuse(error, BS_ERROR_LIMIT, "the plan needs more than 2^46 bytes: are the maxima of the symbols right?");
    return true;
}
/* ==== end src/plan_memory.c =================================================================== */

/* ==== begin src/plan.c ======================================================================== */
/* plan.c - making a plan: checks, the stages in order, sizes and the printable report.
 * Relies on plan.h. Must never touch weights or run anything: a workstation plans for a board. */
/* #include "plan.h" */
/* #include "structure.h" */

/* ----------------------------------------------------------------------------------------------- storage */

typedef struct plan_layout {
    uint64_t at_live, at_nodes, at_values, at_instrs, at_units, at_stages, at_stage_units, at_workspace, bytes;
    int32_t max_instrs, max_units, max_stage_units;
} plan_layout;

/* A unit is the nodes of a path or of a block; a stage is an instruction or several. */
static void layout_streaming(const bs_graph *g, bool streams, plan_layout *l)
{
    const int32_t stages = streams ? g->n_nodes + BS_MAX_REGIONS : 0;
    l->max_units = streams ? g->n_blocks + g->n_domains + 1 : 0;
    l->max_stage_units = streams ? 2 * g->n_nodes + BS_MAX_PARTS : 0;
    l->at_stages = l->at_units + bs_align_u64((uint64_t)l->max_units * sizeof(bs_plan_unit));
    l->at_stage_units = l->at_stages + bs_align_u64((uint64_t)stages * sizeof(bs_trace_stage));
    l->at_workspace = l->at_stage_units + bs_align_u64((uint64_t)l->max_stage_units * sizeof(int32_t));
}

static void plan_layout_make(const bs_graph *g, bool streams, plan_layout *l)
{
    l->max_instrs = 4 * g->n_nodes + g->n_operands + BS_MAX_REGIONS;
    l->at_live = bs_align_u64(sizeof(bs_plan));
    l->at_nodes = l->at_live + bs_align_u64((uint64_t)g->n_nodes);
    l->at_values = l->at_nodes + bs_align_u64((uint64_t)g->n_nodes * sizeof(bs_node_plan));
    l->at_instrs = l->at_values + bs_align_u64((uint64_t)g->n_values * sizeof(bs_value_plan));
    l->at_units = l->at_instrs + bs_align_u64(2 * (uint64_t)l->max_instrs * sizeof(bs_instr)); /* twice: sorting */
    layout_streaming(g, streams, l);
    const uint64_t lower = bs_plan_lower_workspace(g), memory = bs_plan_memory_workspace(g);
    l->bytes = l->at_workspace + (lower > memory ? lower : memory);
}

size_t bs_plan_bytes(const bs_graph *graph, const bs_plan_desc *desc)
{
    plan_layout l;
    if (!graph || graph->status != BS_OK)
        return 0;
    plan_layout_make(graph, desc && desc->slot_bytes > 0, &l);
    return (size_t)l.bytes;
}

/* -------------------------------------------------------------------------------------------------- nodes */

uint64_t bs_plan_canonical_bytes(const bs_graph *g, const bs_node *node)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const bs_op *op = bs_op_get(node->op);
    const int32_t count = op->weights ? op->weights(g, node, specs) : 0;
    return bs_weight_offset(specs, count);
}

static void plan_node(bs_plan *p, int32_t n)
{
    const bs_graph *g = p->graph;
    const bs_node *node = &g->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    bs_node_plan *np = &p->nodes[n];
    int64_t h = 1, w = 1;
    if (node->n_out > 0) {
        const int32_t margin = p->values[node->first_out].margin;
        bs_plan_core(p, &g->values[node->first_out], &h, &w);
        h += 2 * margin;
        w += 2 * margin;
    }
    np->tier = p->tier;
    np->prepared_bytes = bs_plan_canonical_bytes(g, node);
    if (op->plan)
        op->plan(g, node, (bs_conv_choice)p->desc.conv, (int32_t)h, (int32_t)w, np);
    uint64_t *used = np->unit ? &p->units[np->unit].prepared_bytes : &p->weight_bytes;
    np->prepared_offset = *used;
    *used = bs_add_u64(*used, bs_align_u64(np->prepared_bytes));
    const uint64_t staging = np->unit ? 0 : bs_plan_canonical_bytes(g, node);
    p->staging_bytes = staging > p->staging_bytes ? staging : p->staging_bytes;
    p->kernel_scratch_bytes = np->scratch_bytes > p->kernel_scratch_bytes ? np->scratch_bytes : p->kernel_scratch_bytes;
}

static bool desc_sound(const bs_plan_desc *d, bs_error *error)
{
    if (d->threads < 0 || d->threads > 64)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "%d threads, expected 1 .. 64", d->threads);
    if (d->tier < 0 || d->tier > BS_TIER_NEON)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "tier %d does not exist", d->tier);
    if (d->order < 0 || d->order > BS_ORDER_DEPTH || d->conv < 0 || d->conv > BS_CONV_FORCE_REFERENCE)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "order %d or conv %d does not exist", d->order, d->conv);
    if (d->patch_size < 0 || d->patch_size > 8192)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "patch size %d, expected 0 .. 8192", d->patch_size);
    if (d->lanes < 0 || d->lanes > BS_MAX_LANES || d->chunk_bytes < 0 || d->chunk_bytes > 1 << 30)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "%d lanes of %d bytes, expected 1 .. %d of at most 2^30", d->lanes, d->chunk_bytes,
                         BS_MAX_LANES);
    return true;
}

/* All stages, in order. */
static bool plan_make(bs_plan *p, uint8_t *workspace, bs_error *error)
{
    if (!bs_plan_live(p, error))
        return false;
    bs_plan_fuse(p);
    bs_plan_units(p);
    if (!bs_plan_lower(p, workspace, error))
        return false;
    for (int32_t n = 1; n < p->graph->n_nodes; n++)
        if (p->node_live[n])
            plan_node(p, n);
    return bs_plan_stages(p, error) && bs_plan_memory(p, workspace, error);
}

bs_plan *bs_plan_create(bs_arena *arena, const bs_graph *graph, const bs_plan_desc *desc, bs_error *error)
{
    plan_layout l;
    bs_plan_desc none;
    memset(&none, 0, sizeof none);
    if (!desc)
        desc = &none;
    if (bs_graph_check(graph, error) != BS_OK || !desc_sound(desc, error))
        return NULL;
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_create: the arena is NULL");
        return NULL;
    }
    plan_layout_make(graph, desc->slot_bytes > 0, &l);
    const size_t mark = arena->used;
    uint8_t *memory = bs_arena_take(arena, (size_t)l.bytes);
    if (!memory) {
        bs_fail_arena(error, arena, l.bytes, "the plan");
        return NULL;
    }
    memset(memory, 0, (size_t)l.bytes);
    bs_plan *p = (bs_plan *)(void *)memory;
    p->graph = graph;
    p->desc = *desc;
    p->tier = desc->tier ? (bs_tier)desc->tier : bs_tier_best();
    p->threads = bs_or_default(desc->threads, 1);
    p->max_instrs = l.max_instrs;
    p->node_live = (bool *)(memory + l.at_live);
    p->nodes = (bs_node_plan *)(void *)(memory + l.at_nodes);
    p->values = (bs_value_plan *)(void *)(memory + l.at_values);
    p->instrs = (bs_instr *)(void *)(memory + l.at_instrs);
    p->units = (bs_plan_unit *)(void *)(memory + l.at_units);
    p->stages = (bs_trace_stage *)(void *)(memory + l.at_stages);
    p->stage_units = (int32_t *)(void *)(memory + l.at_stage_units);
    p->max_units = l.max_units;
    p->max_stage_units = l.max_stage_units;
    if (plan_make(p, memory + l.at_workspace, error))
        return p;
    arena->used = mark;
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- report */

typedef struct report {
    char *text;
    size_t bytes, used;
} report;

static void say(report *r, const char *format, ...) BS_PRINTF(2, 3);
static void say(report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = r->used < r->bytes ? r->bytes - r->used : 0;
    const int n = vsnprintf(room ? r->text + r->used : NULL, room, format, arguments);
    va_end(arguments);
    r->used += n > 0 ? (size_t)n : 0;
}

static const char *const instr_names[] = {"op", "load", "store", "fill", "reduce", "route", "region"};

static void say_instr(report *r, const bs_plan *p, const bs_instr *i, const char *indent)
{
    const bs_node *node = &p->graph->nodes[i->node];
    const char *name = bs_node_name(node);
    if (i->kind == BS_INSTR_REGION)
        say(r, "%s[t%d] region %d: tiles of domain %d\n", indent, i->time, i->node, i->domain);
    else
        say(r, "%s[t%d] %-6s %s%s%s", indent, i->time, instr_names[i->kind], bs_op_get(node->op)->name, *name ? " " : "", name);
    if (i->kind != BS_INSTR_REGION)
        say(r, "%s%s%s\n", i->kind == BS_INSTR_OP && p->nodes[i->node].algorithm ? "  (winograd)" : "",
            i->kind == BS_INSTR_OP && p->nodes[i->node].fusion ? "  fused: " : "", i->kind == BS_INSTR_OP ? bs_fusion_name(p->nodes[i->node].fusion) : "");
}

static void say_region(report *r, const bs_plan *p, int32_t region)
{
    for (int32_t k = 0; k < p->n_parts; k++) {
        const bs_part *part = &p->parts[k];
        if (part->region != region)
            continue;
        if (part->router)
            say(r, "    path %d of \"%s\": scratch %llu bytes, %.3g flop a cell\n", part->path, p->graph->routers[part->router].desc->name,
                (unsigned long long)part->scratch_bytes, part->flops);
        else
            say(r, "    every cell: scratch %llu bytes, %.3g flop a cell\n", (unsigned long long)part->scratch_bytes, part->flops);
        for (int32_t i = part->first; i < part->first + part->count; i++)
            say_instr(r, p, &p->instrs[i], "      ");
    }
}

size_t bs_plan_report(const bs_plan *plan, char *text, size_t bytes)
{
    report r = {text, bytes, 0};
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    say(&r, "arena        bytes\npersistent   %llu (graph and plan come on top: %llu)\ntransient    %llu\nstaging      %llu\nslots        %llu\n",
        (unsigned long long)sizes.persistent, (unsigned long long)bs_plan_bytes(plan->graph, &plan->desc), (unsigned long long)sizes.transient,
        (unsigned long long)sizes.staging, (unsigned long long)sizes.slots);
    say(&r, "of transient %llu shared, %llu a thread x %d\ntier %s, %d threads, prepared weights %llu bytes\n",
        (unsigned long long)plan->transient_bytes, (unsigned long long)plan->scratch_bytes, plan->threads, bs_tier_name(plan->tier),
        plan->threads, (unsigned long long)plan->weight_bytes);
    if (bs_plan_streams(plan))
        say(&r, "streamed: %d units of %llu bytes in all, the largest %llu; %d stages, %d lanes of %llu bytes\n", plan->n_units - 1,
            (unsigned long long)plan->all_unit_bytes, (unsigned long long)plan->largest_unit_bytes, plan->n_stages, plan->lanes,
            (unsigned long long)plan->lane_bytes);
    for (int32_t i = 0; i < plan->n_top; i++) {
        say_instr(&r, plan, &plan->instrs[i], "  ");
        if (plan->instrs[i].kind == BS_INSTR_REGION)
            say_region(&r, plan, plan->instrs[i].node);
    }
    if (bytes > 0 && r.used >= bytes)
        text[bytes - 1] = 0;
    return r.used;
}
/* ==== end src/plan.c ========================================================================== */

/* ==== begin src/session.h ===================================================================== */
/* session.h - one running network: everything that changes. Relies on plan.h and platform.h. */
#ifndef BS_SESSION_H
#define BS_SESSION_H

/* #include "plan.h" */
/* #include "platform.h" */

/* What a router decided for the rows it saw (all of them, or those of one tile). */
typedef struct bs_decision_data {
    int32_t rows, paths, per_row; /* per_row: most paths a cell */
    int32_t *chosen;   /* [rows * per_row] path or -1, in order of choice */
    float *gates;      /* [rows * per_row] */
    int32_t *counts;   /* [paths] */
    int32_t *offsets;  /* [paths + 1] */
    int32_t *ids;      /* [rows * per_row] parent row of every packed row; ascending within a path */
    int32_t *inverse;  /* [rows * per_row] packed row of every choice, -1 none */
    int64_t dropped;
} bs_decision_data;

/* Rows of a domain as a context sees them. `first` is added to reach storage that holds all rows. */
typedef struct bs_rows_state {
    int32_t count;
    int32_t first;
    const int32_t *ids; /* PATH: parent row of each, in the parent's numbering of the same context */
} bs_rows_state;

/* Where instructions run: the whole session, or one tile on one thread. The same code runs in both. */
typedef struct bs_context {
    struct bs_session *session;
    int32_t thread;
    bool tile;
    uint8_t *scratch;        /* of the thread */
    bs_rows_state *domains;  /* [domains] */
    bs_decision_data *decisions; /* [routers] */
} bs_context;

typedef struct bs_route_callback {
    bs_route_function function;
    void *user;
} bs_route_callback;

struct bs_session {
    const bs_plan *plan;
    const bs_graph *graph;
    const bs_platform *platform;
    bs_workers pool;
    bool state_valid, broken; /* broken: a run failed half way, states are in between */
    uint8_t *transient;
    uint8_t *scratch; /* threads x plan->scratch_bytes */
    uint8_t *weights; /* prepared */
    int64_t *dims;    /* [dims] of this run */
    bs_buffer *bound; /* [nodes] inputs, outputs, states; data NULL = not bound */
    uint8_t **state;  /* [nodes] own memory of states */
    uint64_t *state_bytes;
    int32_t **offsets; /* [domains] of segments: the first row of each in this run, and their end; NULL for others */
    int32_t **past;    /* [nodes] of inputs that say where caches stand: a checked copy of this run's; NULL for others */
    bs_context *contexts; /* [threads]; contexts of tiles */
    bs_context root;
    bs_route_callback *callbacks; /* [routers] */
    int8_t **chosen;  /* [routers] path of every top-level cell, in the last run */
    int32_t *counts;  /* [routers * BS_MAX_PATHS] of the last run */
    int64_t *dropped; /* [routers] */
    uint64_t *path_ns; /* [threads * routers * BS_MAX_PATHS] */
    int32_t *route_counts; /* [threads * routers * BS_MAX_PATHS] decided in tiles */
    bs_run_stats stats;
    atomic_int status; /* of the run in progress: the first failure */
    atomic_int failed_node;
};

/* move.c: finding rows, and moving them */
void bs_operand_make(const bs_context *c, int32_t value, int32_t row, bs_operand *operand);
void bs_move_load(const bs_context *c, const bs_instr *i, int32_t row);
void bs_move_store(const bs_context *c, const bs_instr *i, int32_t row);
void bs_move_fill(const bs_context *c, const bs_instr *i, int32_t row);
void bs_move_reduce(const bs_context *c, const bs_instr *i, int32_t row);
void bs_zero_margin(const bs_operand *operand, int32_t margin, int64_t max_h, int64_t max_w);
/* Row of the ROWS or PATCHES domain above, counted from the first of all. */
int32_t bs_top_row(const bs_context *c, int32_t domain, int32_t row);

/* segment.c: what inputs say of segments, checked and kept for the run */
int64_t bs_segment_room(const bs_plan *plan, int32_t domain); /* numbers of `offsets`; 0: nothing works on its rows */
int64_t bs_past_room(const bs_plan *plan, int32_t node);      /* numbers of `past`; 0: not such an input */
bs_status bs_segments_begin(bs_session *session, bs_error *error);
void bs_segment_call(const bs_context *c, int32_t row, bs_call *call);
/* Strides and place of row `row` of what is appended, in the cache; data NULL: it is older than the window. */
void bs_segment_append(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *operand);

/* route.c */
bs_status bs_route_decide(bs_context *c, int32_t router);
void bs_decision_forced(bs_decision_data *d, int32_t rows, int32_t path);

/* exec.c */
void bs_execute(bs_session *session);

#endif
/* ==== end src/session.h ======================================================================= */

/* ==== begin src/segment.c ===================================================================== */
/* segment.c - segments in a run: what the inputs say of them, checked before anything runs, and where appended rows go.
 * Owns the offsets of segments and the copies of `past`: a buffer that changes during a run steers nothing.
 * Relies on session.h. Must never let a number that was not checked reach an address. */
/* #include "session.h" */
/* #include "structure.h" */

#define PAST_MOST ((int32_t)1 << 30) /* with the rows of a run, positions stay below 2^31 */

/* -------------------------------------------------------------------------------------------------- room */

int64_t bs_segment_room(const bs_plan *plan, int32_t domain)
{
    if (plan->graph->domains[domain].kind != BS_DOMAIN_SEGMENTS || !plan->domains[domain].live)
        return 0;
    return bs_dim_max(plan->graph, bs_segment_dim(plan->graph, domain)) + 1;
}

/* Whether node n reads `value` as the number of tokens that caches hold. */
static bool reads_as_past(const bs_plan *plan, int32_t n, int32_t value)
{
    const bs_node *node = &plan->graph->nodes[n];
    const int32_t *in = bs_node_in(plan->graph, node);
    if (bs_node_is(node, &bs_op_state_append))
        return in[2] == value;
    return bs_node_is(node, &bs_op_attention) && node->n_in == 6 && in[5] == value;
}

int64_t bs_past_room(const bs_plan *plan, int32_t node)
{
    const int32_t value = plan->graph->nodes[node].first_out;
    if (!plan->node_live[node] || !bs_node_is(&plan->graph->nodes[node], &bs_op_input))
        return 0;
    for (int32_t n = node + 1; n < plan->graph->n_nodes; n++)
        if (plan->node_live[n] && reads_as_past(plan, n, value))
            return bs_dim_max(plan->graph, plan->graph->values[value].dims[0]);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- begin */

static int32_t bound_i32(const bs_session *s, int32_t node, int64_t index)
{
    const bs_buffer *b = &s->bound[node];
    return ((const int32_t *)b->data)[index * b->stride[0]];
}

static bs_status begin_offsets(bs_session *s, int32_t domain, bs_error *error)
{
    const int32_t node = s->graph->values[s->graph->domains[domain].lengths].node, rows = s->root.domains[domain].count;
    const int64_t segments = s->dims[bs_segment_dim(s->graph, domain)];
    const char *name = bs_node_name(&s->graph->nodes[node]);
    int32_t *offsets = s->offsets[domain];
    offsets[0] = 0;
    for (int64_t g = 0; g < segments; g++) {
        const int32_t length = bound_i32(s, node, g);
        if (length < 0 || length > rows - offsets[g])
            return bs_fail(error, BS_ERROR_DATA, "\"%s\": segment %lld has %d rows, of %d in all %d are left", name, (long long)g, length,
                           rows, rows - offsets[g]);
        offsets[g + 1] = offsets[g] + length;
    }
    if (offsets[segments] != rows)
        return bs_fail(error, BS_ERROR_DATA, "\"%s\": the segments have %d rows together, this run has %d", name, offsets[segments], rows);
    return BS_OK;
}

static bs_status begin_past(bs_session *s, int32_t node, bs_error *error)
{
    const int64_t segments = s->dims[s->graph->values[s->graph->nodes[node].first_out].dims[0]];
    for (int64_t g = 0; g < segments; g++) {
        s->past[node][g] = bound_i32(s, node, g);
        if (s->past[node][g] < 0 || s->past[node][g] > PAST_MOST)
            return bs_fail(error, BS_ERROR_DATA, "\"%s\": segment %lld has %d tokens already, expected 0 .. %d",
                           bs_node_name(&s->graph->nodes[node]), (long long)g, s->past[node][g], PAST_MOST);
    }
    return BS_OK;
}

bs_status bs_segments_begin(bs_session *session, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t d = 1; d < session->graph->n_domains && status == BS_OK; d++)
        if (session->offsets[d])
            status = begin_offsets(session, d, error);
    for (int32_t n = 1; n < session->graph->n_nodes && status == BS_OK; n++)
        if (session->past[n])
            status = begin_past(session, n, error);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- run */

/* Of the rows that a node makes, or takes. */
static int32_t segment_domain(const bs_graph *g, const bs_node *node)
{
    if (g->domains[node->domain].kind == BS_DOMAIN_SEGMENTS)
        return node->domain;
    return g->values[bs_node_in(g, node)[0]].domain;
}

void bs_segment_call(const bs_context *c, int32_t row, bs_call *call)
{
    const bs_session *s = c->session;
    const int32_t domain = segment_domain(s->graph, call->node);
    call->row = row;
    call->piece = 0;
    call->n_segments = (int32_t)s->dims[bs_segment_dim(s->graph, domain)];
    call->offsets = s->offsets[domain];
}

void bs_segment_append(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *operand)
{
    const bs_session *s = c->session;
    const bs_graph *g = s->graph;
    const int32_t *in = bs_node_in(g, &g->nodes[i->node]), *offsets = s->offsets[i->domain];
    const bs_buffer *state = &s->bound[g->values[in[0]].node];
    const int32_t segment = bs_segment_of(offsets, (int32_t)s->dims[bs_segment_dim(g, i->domain)], row);
    const int32_t window = (int32_t)state->dim[1], position = s->past[g->values[in[2]].node][segment] + (row - offsets[segment]);
    operand->data = NULL;
    if (offsets[segment + 1] - row > window)
        return;
    const ptrdiff_t at = (ptrdiff_t)(segment * state->stride[0] + position % window * state->stride[1]);
    operand->data = (uint8_t *)state->data + at * (ptrdiff_t)bs_dtype_bytes(operand->dtype);
    for (int32_t k = 0; k < operand->rank; k++)
        operand->stride[k] = (ptrdiff_t)state->stride[k + 2];
}
/* ==== end src/segment.c ======================================================================= */

/* ==== begin src/move.c ======================================================================== */
/* move.c - finding the rows of a value, and moving them: load, store, fill, reduce.
 * Rows are found through the plan's places and the context's decisions; views cost nothing but the lookup.
 * Relies on session.h. Must never decide anything or know of threads. */
/* #include "session.h" */
/* #include "structure.h" */

/* ----------------------------------------------------------------------------------------- finding rows */

int32_t bs_top_row(const bs_context *c, int32_t domain, int32_t row)
{
    const bs_graph *g = c->session->graph;
    for (; g->domains[domain].kind == BS_DOMAIN_PATH; domain = g->domains[domain].parent)
        row = c->domains[domain].ids[row];
    return c->domains[domain].first + row;
}

static int64_t dim_now(const bs_context *c, bs_dim_id d)
{
    return c->session->dims[d];
}

/* Extents, and the rectangle that is computed or present, of row `row`. Independent of where it is stored. */
static void operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    const bs_value_info *v = &g->values[value];
    o->dtype = v->dtype;
    o->rank = v->rank;
    for (int32_t i = 0; i < v->rank; i++)
        o->dim[i] = (int32_t)dim_now(c, v->dims[i]);
    o->frame_y = o->frame_x = 0;
    if (v->rank != 3)
        return;
    o->frame_h = o->dim[1];
    o->frame_w = o->dim[2];
    o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]};
    const int32_t patches = g->domains[v->domain].patches;
    if (patches < 0)
        return;
    const int32_t size = c->session->plan->domains[patches].size;
    const int32_t cell = (int32_t)bs_ceil_div((int64_t)size * v->scale_num, v->scale_den);
    const int32_t across = (int32_t)bs_ceil_div(dim_now(c, g->domains[patches].width), size);
    const int32_t top = bs_top_row(c, v->domain, row), margin = c->session->plan->values[value].margin;
    o->frame_y = top / across * cell;
    o->frame_x = top % across * cell;
    o->dim[1] = bs_min_i32(cell, o->frame_h - o->frame_y);
    o->dim[2] = bs_min_i32(cell, o->frame_w - o->frame_x);
    o->rect = (bs_rect){bs_max_i32(-margin, -o->frame_y), bs_min_i32(cell + margin, o->frame_h - o->frame_y),
                        bs_max_i32(-margin, -o->frame_x), bs_min_i32(cell + margin, o->frame_w - o->frame_x)};
}

static void dense_strides(const bs_context *c, const bs_value_info *v, bs_operand *o)
{
    ptrdiff_t stride = 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        o->stride[i] = stride;
        stride *= (ptrdiff_t)bs_dim_max(c->session->graph, v->dims[i]);
    }
}

/* Rows the plan stores: images channels-last with margins, all else dense; strides from the maxima. */
static void operand_stored(const bs_context *c, int32_t value, uint8_t *base, bs_operand *o)
{
    const bs_value_info *v = &c->session->graph->values[value];
    const bs_value_plan *p = &c->session->plan->values[value];
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(v->dtype);
    o->row_stride = (ptrdiff_t)p->row_bytes / bytes;
    o->data = base;
    if (v->rank != 3) {
        dense_strides(c, v, o);
        return;
    }
    int64_t h, w;
    bs_plan_core(c->session->plan, v, &h, &w);
    const ptrdiff_t channels = (ptrdiff_t)bs_dim_max(c->session->graph, v->dims[0]);
    o->stride[0] = 1;
    o->stride[2] = channels;
    o->stride[1] = channels * (ptrdiff_t)(w + 2 * p->margin);
    o->data = base + (p->margin * o->stride[1] + p->margin * o->stride[2]) * bytes;
}

static void operand_bound(const bs_context *c, int32_t node, bs_operand *o)
{
    const bs_buffer *b = &c->session->bound[node];
    o->data = b->data;
    o->row_stride = 0;
    for (int32_t i = 0; i < b->rank; i++)
        o->stride[i] = (ptrdiff_t)b->stride[i];
    if (c->session->past[node]) { /* the copy that was checked */
        o->data = c->session->past[node];
        o->stride[0] = 1;
    }
}

/* Steps into a root image at the place of a cell, or to row `row` of a root tensor. */
static void operand_step(const bs_context *c, int32_t node, bs_operand *o, const bs_operand *root, int32_t top)
{
    const bool image = bs_node_is(&c->session->graph->nodes[node], &bs_op_patches);
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(root->dtype);
    if (image) {
        o->stride[0] = root->stride[0], o->stride[1] = root->stride[1], o->stride[2] = root->stride[2];
        o->data = (uint8_t *)root->data + (o->frame_y * root->stride[1] + o->frame_x * root->stride[2]) * bytes;
        o->row_stride = 0;
        return;
    }
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = root->stride[i + 1];
    o->row_stride = root->stride[0];
    o->data = (uint8_t *)root->data + top * root->stride[0] * bytes;
}

static uint8_t *storage_row(const bs_context *c, int32_t value, int32_t row)
{
    const bs_value_plan *p = &c->session->plan->values[value];
    const int32_t domain = c->session->graph->values[value].domain;
    if (p->place == BS_PLACE_SCRATCH)
        return c->scratch + p->offset + (uint64_t)row * p->row_bytes;
    return c->session->transient + p->offset + (uint64_t)(c->domains[domain].first + row) * p->row_bytes;
}

/* A root value, wherever it is. */
static void operand_root(const bs_context *c, int32_t value, bs_operand *o)
{
    const bs_value_plan *p = &c->session->plan->values[value];
    const bs_session *s = c->session;
    operand_extent(c, value, 0, o);
    if (p->place == BS_PLACE_INPUT || p->place == BS_PLACE_OUTPUT || p->place == BS_PLACE_STATE) {
        operand_bound(c, p->source, o);
    } else if (p->place == BS_PLACE_WEIGHT) {
        o->data = s->weights + s->plan->nodes[p->source].prepared_offset;
        o->row_stride = 0;
        dense_strides(c, &s->graph->values[value], o);
    } else {
        operand_stored(c, value, s->transient + p->offset, o);
        o->row_stride = 0;
    }
}

void bs_operand_make(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_session *s = c->session;
    const bs_value_info *v = &s->graph->values[value];
    operand_extent(c, value, row, o);
    if (v->domain == 0) {
        operand_root(c, value, o);
        return;
    }
    while (s->plan->values[value].place == BS_PLACE_VIEW) {
        const int32_t node = s->graph->values[value].node;
        if (!bs_node_is(&s->graph->nodes[node], &bs_op_scatter)) {
            bs_operand root;
            operand_root(c, s->plan->values[value].source, &root);
            operand_step(c, node, o, &root, bs_top_row(c, s->graph->values[value].domain, row));
            return;
        }
        row = c->domains[s->graph->values[value].domain].ids[row];
        value = s->plan->values[value].source;
    }
    operand_stored(c, value, storage_row(c, value, row), o);
}

/* ------------------------------------------------------------------------------------------------- moving */

static int64_t operand_elements(const bs_operand *o)
{
    int64_t n = 1;
    for (int32_t i = 0; i < o->rank; i++)
        n *= o->dim[i];
    return n;
}

static void copy_row(uint8_t *to, ptrdiff_t to_step, const uint8_t *from, ptrdiff_t from_step, int32_t count, size_t bytes)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)count * bytes);
        return;
    }
    for (int32_t x = 0; x < count; x++)
        memcpy(to + (ptrdiff_t)x * to_step * (ptrdiff_t)bytes, from + (ptrdiff_t)x * from_step * (ptrdiff_t)bytes, bytes);
}

/* Copies a rectangle of all channels. Channels-last to channels-last rows go in one piece. */
static void copy_image(const bs_operand *to, const bs_operand *from, bs_rect r)
{
    const size_t bytes = bs_dtype_bytes(from->dtype);
    const ptrdiff_t b = (ptrdiff_t)bytes;
    const int32_t channels = from->dim[0];
    const bool whole = to->stride[0] == 1 && from->stride[0] == 1 && to->stride[2] == channels && from->stride[2] == channels;
    for (int32_t y = r.y0; y < r.y1; y++) {
        uint8_t *t = (uint8_t *)to->data + (y * to->stride[1] + r.x0 * to->stride[2]) * b;
        const uint8_t *f = (const uint8_t *)from->data + (y * from->stride[1] + r.x0 * from->stride[2]) * b;
        if (whole) {
            memcpy(t, f, (size_t)(r.x1 - r.x0) * (size_t)channels * bytes);
            continue;
        }
        for (int32_t ch = 0; ch < channels; ch++)
            copy_row(t + ch * to->stride[0] * b, to->stride[2], f + ch * from->stride[0] * b, from->stride[2], r.x1 - r.x0, bytes);
    }
}

/* Offset in elements of element number k of a dense index into a strided operand. */
static ptrdiff_t element_offset(const bs_operand *o, int64_t k)
{
    ptrdiff_t offset = 0;
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        offset += (ptrdiff_t)(k % o->dim[i]) * o->stride[i];
        k /= o->dim[i];
    }
    return offset;
}

static void copy_tensor(const bs_operand *to, const bs_operand *from)
{
    const size_t bytes = bs_dtype_bytes(to->dtype);
    const int64_t n = operand_elements(to);
    if (to->rank == 1) {
        copy_row(to->data, to->stride[0], from->data, from->stride[0], to->dim[0], bytes);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        memcpy((uint8_t *)to->data + element_offset(to, k) * (ptrdiff_t)bytes,
               (const uint8_t *)from->data + element_offset(from, k) * (ptrdiff_t)bytes, bytes);
}

/* Zeroes the rectangle of an image, or all of another tensor, whatever its strides. */
static void zero_row(const bs_operand *o)
{
    const size_t bytes = bs_dtype_bytes(o->dtype);
    const int64_t n = o->rank == 3 ? 0 : operand_elements(o);
    for (int64_t k = 0; k < n; k++)
        memset((uint8_t *)o->data + element_offset(o, k) * (ptrdiff_t)bytes, 0, bytes);
    for (int32_t ch = 0; o->rank == 3 && ch < o->dim[0]; ch++)
        for (int32_t y = o->rect.y0; y < o->rect.y1; y++)
            for (int32_t x = o->rect.x0; x < o->rect.x1; x++)
                memset((uint8_t *)o->data + (ch * o->stride[0] + y * o->stride[1] + x * o->stride[2]) * (ptrdiff_t)bytes, 0, bytes);
}

static void zero_image(const bs_operand *o, bs_rect r)
{
    const size_t bytes = bs_dtype_bytes(o->dtype);
    for (int32_t y = r.y0; y < r.y1; y++) /* stored images only: channels-last */
        memset((uint8_t *)o->data + (y * o->stride[1] + r.x0 * o->stride[2]) * (ptrdiff_t)bytes, 0,
               (size_t)bs_max_i32(r.x1 - r.x0, 0) * (size_t)o->stride[2] * bytes);
}

void bs_zero_margin(const bs_operand *o, int32_t margin, int64_t max_h, int64_t max_w)
{
    const int32_t low = -margin, bottom = (int32_t)bs_min_i64(o->rect.y1 + margin, max_h + margin);
    const int32_t right = (int32_t)bs_min_i64(o->rect.x1 + margin, max_w + margin);
    zero_image(o, (bs_rect){low, o->rect.y0, low, right});
    zero_image(o, (bs_rect){o->rect.y1, bottom, low, right});
    if (o->rect.x0 > low)
        zero_image(o, (bs_rect){o->rect.y0, o->rect.y1, low, o->rect.x0});
    if (o->rect.x1 < right)
        zero_image(o, (bs_rect){o->rect.y0, o->rect.y1, o->rect.x1, right});
}

/* Of a frame that tiles make: a cell at its edge zeroes what lies beyond. */
static void zero_beyond_frame(const bs_operand *o, int32_t margin)
{
    const int32_t h = o->dim[1], w = o->dim[2];
    const int32_t top = o->frame_y == 0 ? -margin : 0, bottom = o->frame_y + h == o->frame_h ? h + margin : h;
    const int32_t left = o->frame_x == 0 ? -margin : 0, right = o->frame_x + w == o->frame_w ? w + margin : w;
    zero_image(o, (bs_rect){top, 0, left, right});
    zero_image(o, (bs_rect){h, bottom, left, right});
    zero_image(o, (bs_rect){0, h, left, 0});
    zero_image(o, (bs_rect){0, h, w, right});
}

/* Around a row that was moved to `target`, where a reader's window goes. */
static void zero_around(const bs_context *c, int32_t target, const bs_operand *o)
{
    const bs_session *s = c->session;
    const int32_t margin = target ? s->plan->values[target].margin : 0;
    int64_t h, w;
    if (margin == 0 || o->rank != 3)
        return;
    if (s->graph->values[target].domain == 0) {
        zero_beyond_frame(o, margin);
        return;
    }
    bs_plan_core(s->plan, &s->graph->values[target], &h, &w);
    bs_zero_margin(o, margin, h, w);
}

static bs_rect rect_common(bs_rect a, bs_rect b)
{
    return (bs_rect){bs_max_i32(a.y0, b.y0), bs_min_i32(a.y1, b.y1), bs_max_i32(a.x0, b.x0), bs_min_i32(a.x1, b.x1)};
}

static void move_row(const bs_operand *to, const bs_operand *from)
{
    if (to->rank == 3)
        copy_image(to, from, rect_common(to->rect, from->rect));
    else
        copy_tensor(to, from);
}

/* What `value` is a view of, seen as an operand: used to load it into storage of its own. */
static void operand_source(const bs_context *c, int32_t value, int32_t row, bs_operand *o)
{
    const bs_session *s = c->session;
    const int32_t node = s->graph->values[value].node;
    operand_extent(c, value, row, o);
    if (bs_node_is(&s->graph->nodes[node], &bs_op_scatter)) {
        bs_operand parent;
        const int32_t from = bs_node_in(s->graph, &s->graph->nodes[node])[0];
        bs_operand_make(c, from, c->domains[s->graph->values[value].domain].ids[row], &parent);
        memcpy(o->stride, parent.stride, sizeof o->stride);
        o->data = parent.data;
    } else if (bs_op_get(s->graph->nodes[node].op)->weights) { /* a constant */
        dense_strides(c, &s->graph->values[value], o);
        o->data = s->weights + s->plan->nodes[node].prepared_offset;
    } else if (s->graph->nodes[node].n_in == 0) {
        operand_bound(c, node, o);
    } else {
        bs_operand root;
        operand_root(c, bs_node_in(s->graph, &s->graph->nodes[node])[0], &root);
        operand_step(c, node, o, &root, bs_top_row(c, s->graph->values[value].domain, row));
    }
}

void bs_move_load(const bs_context *c, const bs_instr *i, int32_t row)
{
    bs_operand from, to;
    operand_source(c, i->value, row, &from);
    bs_operand_make(c, i->value, row, &to);
    move_row(&to, &from);
}

/* The place of row `row` of `value` in the target of a store. */
static void operand_target(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *o)
{
    const bs_graph *g = c->session->graph;
    const bs_node *node = &g->nodes[i->node];
    if (i->target == 0) { /* an output or a state */
        operand_extent(c, i->value, row, o);
        if (bs_node_is(node, &bs_op_state_append)) {
            bs_segment_append(c, i, row, o);
            return;
        }
        operand_bound(c, bs_node_is(node, &bs_op_output) ? i->node : g->values[bs_node_in(g, node)[0]].node, o);
        return;
    }
    const bool to_root = g->values[i->target].domain == 0;
    if (!to_root) { /* a gather with rows of its own: the row of the parent */
        bs_operand_make(c, i->target, c->domains[i->domain].ids[row], o);
        return;
    }
    bs_operand root;
    operand_root(c, i->target, &root);
    operand_extent(c, i->value, row, o);
    const ptrdiff_t bytes = (ptrdiff_t)bs_dtype_bytes(root.dtype);
    const int32_t top = bs_top_row(c, i->domain, row);
    if (o->rank == 3 && root.rank == 3) {
        memcpy(o->stride, root.stride, sizeof o->stride);
        o->data = (uint8_t *)root.data + (o->frame_y * root.stride[1] + o->frame_x * root.stride[2]) * bytes;
        o->rect = (bs_rect){0, o->dim[1], 0, o->dim[2]}; /* the core only */
        return;
    }
    for (int32_t k = 0; k < o->rank; k++)
        o->stride[k] = root.stride[k + 1];
    o->data = (uint8_t *)root.data + top * root.stride[0] * bytes;
}

void bs_move_store(const bs_context *c, const bs_instr *i, int32_t row)
{
    bs_operand from, to;
    bs_operand_make(c, i->value, row, &from);
    operand_target(c, i, row, &to);
    if (!to.data)
        return; /* an output that is not asked for, or older than a cache's window */
    move_row(&to, &from);
    zero_around(c, i->target, &to);
}

/* Whether a path gave this row its result. */
static bool row_is_given(const bs_context *c, const bs_node *gather, int32_t row)
{
    const bs_decision_data *d = &c->decisions[gather->router];
    const int32_t path = d->chosen[row * d->per_row];
    return path >= 0 && bs_node_in(c->session->graph, gather)[path] != 0;
}

/* Rows of a collected tensor that no cell has. */
static void zero_rest(const bs_context *c, const bs_instr *i)
{
    const bs_graph *g = c->session->graph;
    bs_operand all;
    bs_operand_make(c, i->target, 0, &all);
    const int32_t rows = c->domains[g->values[bs_node_in(g, &g->nodes[i->node])[0]].domain].count;
    all.data = (uint8_t *)all.data + rows * all.stride[0] * (ptrdiff_t)bs_dtype_bytes(all.dtype);
    all.dim[0] -= rows;
    all.rect = (bs_rect){0, all.dim[1], 0, all.dim[2]};
    zero_row(&all);
}

void bs_move_fill(const bs_context *c, const bs_instr *i, int32_t row)
{
    const bs_node *node = &c->session->graph->nodes[i->node];
    if (bs_node_is(node, &bs_op_collect)) {
        zero_rest(c, i);
        return;
    }
    if (row_is_given(c, node, row))
        return;
    bs_operand from, to;
    bs_instr target = *i;
    target.value = node->first_out;
    target.domain = c->session->graph->routers[node->router].domain;
    if (c->session->graph->values[i->target].domain == 0)
        operand_target(c, &target, row, &to);
    else
        bs_operand_make(c, i->target, row, &to);
    if (i->value) {
        bs_operand_make(c, i->value, row, &from);
        move_row(&to, &from);
    } else {
        zero_row(&to);
    }
    zero_around(c, i->target, &to);
}

/* ------------------------------------------------------------------------------------------------- reduce */

static void accumulate(const bs_operand *to, const bs_operand *from, float gate)
{
    const bs_rect r = to->rank == 3 ? rect_common(to->rect, from->rect) : (bs_rect){0, 1, 0, 1};
    if (to->rank == 3) {
        for (int32_t y = r.y0; y < r.y1; y++)
            for (int32_t x = r.x0; x < r.x1; x++)
                for (int32_t ch = 0; ch < to->dim[0]; ch++)
                    *bs_f32_at(to, ch * to->stride[0] + y * to->stride[1] + x * to->stride[2]) +=
                        gate * *bs_f32_at(from, ch * from->stride[0] + y * from->stride[1] + x * from->stride[2]);
        return;
    }
    const int64_t n = operand_elements(to);
    const bool dense = to->rank == 1 && to->stride[0] == 1 && from->stride[0] == 1;
    for (int64_t k = 0; k < n; k++)
        *bs_f32_at(to, dense ? k : element_offset(to, k)) += gate * *bs_f32_at(from, dense ? k : element_offset(from, k));
}

/* The row of path `path` that came from parent row `row`: ids are ascending, and packed rows are storage rows. */
static void operand_packed(const bs_context *c, int32_t value, const bs_decision_data *d, int32_t path, int32_t packed, bs_operand *o)
{
    bs_operand_make(c, value, packed - d->offsets[path], o);
}

void bs_move_reduce(const bs_context *c, const bs_instr *i, int32_t row)
{
    const bs_graph *g = c->session->graph;
    const bs_node *node = &g->nodes[i->node];
    const bs_gather_params *p = node->params;
    const bs_decision_data *d = &c->decisions[node->router];
    const int32_t *in = bs_node_in(g, node);
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    bs_operand to, from;
    int32_t best = -1;
    float best_gate = 0;
    bs_operand_make(c, i->target, row, &to);
    zero_row(&to);
    zero_around(c, i->target, &to);
    for (int32_t path = 0; path < d->paths; path++) { /* in path order, whatever the order of choice */
        for (int32_t k = 0; k < d->per_row; k++) {
            const int32_t at = row * d->per_row + k;
            if (d->chosen[at] != path || d->inverse[at] < 0 || in[path] == 0)
                continue;
            if (best < 0 || d->gates[at] > best_gate)
                best = at, best_gate = d->gates[at];
            if (!sums)
                continue;
            operand_packed(c, in[path], d, path, d->inverse[at], &from);
            accumulate(&to, &from, p->mode == BS_GATHER_WEIGHTED ? d->gates[at] : 1.0f);
        }
    }
    if (i->value && (sums || best < 0)) {
        bs_operand_make(c, i->value, row, &from);
        if (sums)
            accumulate(&to, &from, 1.0f);
        else
            move_row(&to, &from);
    } else if (!sums && best >= 0) {
        operand_packed(c, in[d->chosen[best]], d, d->chosen[best], d->inverse[best], &from);
        move_row(&to, &from);
    }
}
/* ==== end src/move.c ========================================================================== */

/* ==== begin src/route.c ======================================================================= */
/* route.c - from scores to a decision: the protocols.
 *
 * A protocol fills chosen[row * per_row + k] and gates[...] in order of choice; what follows (counts, offsets, packed
 * ids, inverse map) is the same for all. Rows of a path keep the order of the parent, whatever the protocol.
 * Relies on session.h. Must never look at anything but scores, the knob and weights of the router. */
/* #include "session.h" */
/* #include "structure.h" */

typedef struct routing {
    bs_context *c;
    const bs_route_desc *desc;
    bs_decision_data *d;
    bs_operand score; /* row 0; row r is row_stride further */
    float knob;
    const int32_t *table; /* prepared weight of the router: BUDGET: costs, TABLE: paths */
    const int32_t *path_of; /* BUDGET: the path of each variant */
    int32_t variants;       /* BUDGET */
    int32_t router;
} routing;

/* ------------------------------------------------------------------------------------------------- scores */

static bs_operand score_row(const routing *r, int32_t row)
{
    bs_operand o;
    bs_operand_make(r->c, r->c->session->graph->routers[r->router].score, row, &o);
    return o;
}

static float score_at(const bs_operand *o, int32_t path)
{
    const ptrdiff_t at = path * o->stride[0];
    return o->dtype == BS_I32 ? (float)((const int32_t *)o->data)[at] : ((const float *)o->data)[at];
}

static int32_t score_int(const bs_operand *o, int32_t path)
{
    return ((const int32_t *)o->data)[path * o->stride[0]];
}

/* Whether path a is to be taken before path b. Large i32 scores are exact. */
static bool score_above(const bs_operand *o, int32_t a, int32_t b)
{
    return o->dtype == BS_I32 ? score_int(o, a) > score_int(o, b) : score_at(o, a) > score_at(o, b);
}

static bool has_nan(const bs_operand *o)
{
    for (int32_t i = 0; o->dtype == BS_F32 && i < o->dim[0]; i++)
        if (isnan(score_at(o, i)))
            return true;
    return false;
}

static void choose(const routing *r, int32_t row, int32_t k, int32_t path, float gate)
{
    r->d->chosen[row * r->d->per_row + k] = path;
    r->d->gates[row * r->d->per_row + k] = gate;
}

/* ---------------------------------------------------------------------------------------- row by row */

static bool is_chosen(const routing *r, int32_t row, int32_t n, int32_t path)
{
    for (int32_t k = 0; k < n; k++)
        if (r->d->chosen[row * r->d->per_row + k] == path)
            return true;
    return false;
}

static void decide_topk(const routing *r, int32_t row, const bs_operand *o, int32_t count)
{
    float sum = 0;
    for (int32_t k = 0; k < count; k++) {
        int32_t best = -1;
        for (int32_t p = 0; p < r->desc->paths; p++)
            if (!is_chosen(r, row, k, p) && (best < 0 || score_above(o, p, best)))
                best = p;
        choose(r, row, k, best, score_at(o, best));
        sum += score_at(o, best);
    }
    for (int32_t k = 0; r->desc->normalise && sum > 0 && k < count; k++)
        r->d->gates[row * r->d->per_row + k] /= sum;
}

static void decide_threshold(const routing *r, int32_t row, const bs_operand *o)
{
    const float threshold = r->desc->threshold + r->knob;
    int32_t n = 0;
    for (int32_t p = 0; p < r->desc->paths; p++)
        if (score_at(o, p) > threshold)
            choose(r, row, n++, p, score_at(o, p));
    if (n == 0 && r->desc->fallback > 0)
        choose(r, row, 0, r->desc->fallback - 1, score_at(o, r->desc->fallback - 1));
}

static void decide_residual(const routing *r, int32_t row, const bs_operand *o)
{
    const float sum = score_at(o, 0) + score_at(o, 1);
    const int32_t path = sum < r->desc->threshold + r->knob ? 0 : 1;
    choose(r, row, 0, path, score_at(o, path));
}

static bs_status decide_label(const routing *r, int32_t row, const bs_operand *o)
{
    const int32_t label = score_int(o, 0);
    if (label < 0 || label >= r->desc->paths)
        return BS_ERROR_DATA;
    choose(r, row, 0, label, 1.0f);
    return BS_OK;
}

static bs_status decide_table(const routing *r, int32_t row, const bs_operand *o)
{
    const int32_t key = score_int(o, 0);
    if (key < 0 || key >= bs_or_default(r->desc->capacity, 256))
        return BS_ERROR_DATA;
    if (r->table[key] < 0 || r->table[key] >= r->desc->paths)
        return BS_ERROR_DATA;
    choose(r, row, 0, r->table[key], 1.0f);
    return BS_OK;
}

static bs_status decide_row(const routing *r, int32_t row)
{
    const bs_operand o = score_row(r, row);
    if (has_nan(&o))
        return BS_ERROR_DATA;
    switch ((bs_protocol)r->desc->protocol) {
    case BS_ROUTE_TOP1: decide_topk(r, row, &o, 1); return BS_OK;
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: decide_topk(r, row, &o, r->d->per_row); return BS_OK;
    case BS_ROUTE_THRESHOLD: decide_threshold(r, row, &o); return BS_OK;
    case BS_ROUTE_RESIDUAL_THRESHOLD: decide_residual(r, row, &o); return BS_OK;
    case BS_ROUTE_BINARY: choose(r, row, 0, score_at(&o, 0) >= r->desc->threshold + r->knob ? 0 : 1, score_at(&o, 0)); return BS_OK;
    case BS_ROUTE_LABEL: return decide_label(r, row, &o);
    case BS_ROUTE_TABLE: return decide_table(r, row, &o);
    default: return BS_ERROR_UNSUPPORTED;
    }
}

/* ------------------------------------------------------------------------------------------------ capacity */

/* Sorts rows by the gate of their choice k, highest first, equal ones as they were: a merge sort by halves of growing
 * width. */
static void sort_rows(const bs_decision_data *d, int32_t k, int32_t *rows, int32_t *buffer)
{
    for (int32_t width = 1; width < d->rows; width *= 2) {
        for (int32_t low = 0; low < d->rows; low += 2 * width) {
            const int32_t middle = bs_min_i32(low + width, d->rows), high = bs_min_i32(low + 2 * width, d->rows);
            int32_t a = low, b = middle;
            for (int32_t i = low; i < high; i++) {
                const bool second = b < high && (a == middle || d->gates[rows[b] * d->per_row + k] > d->gates[rows[a] * d->per_row + k]);
                buffer[i] = second ? rows[b++] : rows[a++];
            }
        }
        memcpy(rows, buffer, (size_t)d->rows * sizeof *rows);
    }
}

/* What was kept moves up, in order of choice. */
static void close_gaps(bs_decision_data *d, int32_t row)
{
    int32_t *chosen = d->chosen + row * d->per_row, kept = 0;
    float *gates = d->gates + row * d->per_row;
    for (int32_t k = 0; k < d->per_row; k++)
        if (chosen[k] >= 0) {
            chosen[kept] = chosen[k];
            gates[kept++] = gates[k];
        }
    d->dropped += d->per_row - kept;
    for (; kept < d->per_row; kept++) {
        chosen[kept] = -1;
        gates[kept] = 0;
    }
}

/* First choices are served before second ones, on every path the highest gate first, then the lower row; what does not
 * fit is dropped and counted. Normalised gates rank by share, which is what the cell wants. ids and inverse are free
 * until the decision is packed. */
static void limit_capacity(const routing *r)
{
    bs_decision_data *d = r->d;
    memset(d->counts, 0, (size_t)d->paths * sizeof *d->counts);
    for (int32_t k = 0; k < d->per_row; k++) {
        for (int32_t row = 0; row < d->rows; row++)
            d->ids[row] = row;
        sort_rows(d, k, d->ids, d->inverse);
        for (int32_t i = 0; i < d->rows; i++) {
            int32_t *path = &d->chosen[d->ids[i] * d->per_row + k];
            if (d->counts[*path] < r->desc->capacity)
                d->counts[*path]++;
            else
                *path = -1;
        }
    }
    for (int32_t row = 0; row < d->rows; row++)
        close_gaps(d, row);
}

/* -------------------------------------------------------------------------------------------------- budget */

/* Each cell minimises cost + price x loss. The price runs over 2^(t/8 - 12), so the choice is made in integers and is
 * the same everywhere; the smallest price whose losses fit the budget is taken. At the last one loss alone counts: that
 * fits every budget. */
#define BUDGET_STEPS 200
static const uint16_t budget_mantissa[8] = {256, 279, 304, 332, 362, 395, 431, 470}; /* 256 x 2^(i/8) */

/* 0: the last. */
static uint64_t budget_weight(int32_t t)
{
    return t == BUDGET_STEPS ? 0 : (uint64_t)budget_mantissa[t & 7] << (t >> 3);
}

/* The variant of least cost + price x loss; the lower of equals. */
static int32_t budget_choice(const routing *r, const bs_operand *o, uint64_t weight)
{
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < r->variants; v++) {
        const uint64_t loss = (uint64_t)bs_clamp_i32(score_int(o, v), 0, 1 << 24);
        const uint64_t cost = (uint64_t)bs_clamp_i32(r->table[v], 0, 1 << 24);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total)
            best = v, best_total = total;
    }
    return best;
}

/* A patch counts by its area, any other cell as one. */
static uint64_t cell_weight(const routing *r, int32_t row)
{
    const bs_session *s = r->c->session;
    const int32_t domain = s->graph->routers[r->router].domain, patches = s->graph->domains[domain].patches;
    if (patches < 0)
        return 1;
    const bs_domain *d = &s->graph->domains[patches];
    const int64_t size = s->plan->domains[patches].size, h = s->dims[d->height], w = s->dims[d->width];
    const int64_t across = bs_ceil_div(w, size), top = bs_top_row(r->c, domain, row);
    return (uint64_t)(bs_min_i64(size, h - top / across * size) * bs_min_i64(size, w - top % across * size));
}

static uint64_t budget_loss(const routing *r, uint64_t weight)
{
    uint64_t loss = 0;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = score_row(r, row);
        loss += cell_weight(r, row) * (uint64_t)bs_clamp_i32(score_int(&o, budget_choice(r, &o, weight)), 0, 1 << 24);
    }
    return loss;
}

/* What the budget is a share of: the sum over cells of what the baseline loses against the best one. best: the losses
 * that cannot be avoided. */
static uint64_t budget_range(const routing *r, uint64_t *best)
{
    uint64_t range = 0;
    *best = 0;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = score_row(r, row);
        int32_t low = 1 << 24, high = 0;
        for (int32_t v = 0; v < r->variants; v++) {
            const int32_t loss = bs_clamp_i32(score_int(&o, v), 0, 1 << 24);
            low = bs_min_i32(low, loss);
            high = r->desc->fallback == 0 || r->desc->fallback == v + 1 ? bs_max_i32(high, loss) : high;
        }
        range += cell_weight(r, row) * (uint64_t)(high - low);
        *best += cell_weight(r, row) * (uint64_t)low;
    }
    return range;
}

/* Weights come from a file: a variant may name a path that there is not. */
static bool paths_exist(const routing *r)
{
    for (int32_t v = 0; v < r->variants; v++)
        if (r->path_of[v] < 0 || r->path_of[v] >= r->desc->paths)
            return false;
    return true;
}

static int32_t decide_budget(const routing *r)
{
    uint64_t best;
    const float share = r->knob < 0 ? 0 : r->knob > 1 ? 1 : r->knob;
    const uint64_t allowed = (uint64_t)((double)share * (double)budget_range(r, &best)) + best;
    int32_t low = 0, high = BUDGET_STEPS; /* the loss falls as the price rises */
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (budget_loss(r, budget_weight(middle)) <= allowed)
            high = middle;
        else
            low = middle + 1;
    }
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = score_row(r, row);
        const int32_t variant = budget_choice(r, &o, budget_weight(low));
        choose(r, row, 0, r->path_of[variant], (float)score_int(&o, variant));
    }
    return low;
}

/* The price is an output of the graph where something reads it. */
static void publish_price(const routing *r, float price)
{
    const bs_session *s = r->c->session;
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        if (!s->plan->node_live[n] || node->router != r->router || !bs_node_is(node, &bs_op_route_price))
            continue;
        bs_operand o;
        bs_operand_make(r->c, node->first_out, 0, &o);
        *(float *)o.data = price;
    }
}

/* ------------------------------------------------------------------------------------------------ callback */

static bs_status decide_callback(const routing *r)
{
    const bs_route_callback *callback = &r->c->session->callbacks[r->router];
    if (!callback->function)
        return BS_ERROR_UNBOUND;
    for (int32_t row = 0; row < r->d->rows; row++) {
        const bs_operand o = score_row(r, row);
        if (has_nan(&o))
            return BS_ERROR_DATA;
    }
    const bs_operand_view view = {r->score.data, r->score.dtype, r->score.dim[0], r->score.row_stride, r->score.stride[0]};
    const bs_status status = callback->function(callback->user, &view, r->d->rows, r->d->chosen);
    for (int32_t row = 0; row < r->d->rows && status == BS_OK; row++) {
        r->d->gates[row] = 1.0f;
        if (r->d->chosen[row] < -1 || r->d->chosen[row] >= r->desc->paths)
            return BS_ERROR_DATA;
    }
    return status;
}

/* --------------------------------------------------------------------------------------------------- pack */

/* Counts, offsets, ids and the inverse map from what was chosen: two passes in row order, so the order is stable. */
static void decision_pack(bs_decision_data *d)
{
    const int32_t choices = d->rows * d->per_row;
    memset(d->counts, 0, (size_t)d->paths * sizeof *d->counts);
    for (int32_t at = 0; at < choices; at++)
        if (d->chosen[at] >= 0)
            d->counts[d->chosen[at]]++;
    d->offsets[0] = 0;
    for (int32_t p = 0; p < d->paths; p++) {
        d->offsets[p + 1] = d->offsets[p] + d->counts[p];
        d->counts[p] = d->offsets[p]; /* running position in the second pass */
    }
    for (int32_t at = 0; at < choices; at++) {
        const int32_t path = d->chosen[at];
        d->inverse[at] = path < 0 ? -1 : d->counts[path]++;
        if (path >= 0)
            d->ids[d->inverse[at]] = at / d->per_row;
    }
    for (int32_t p = 0; p < d->paths; p++)
        d->counts[p] = d->offsets[p + 1] - d->offsets[p];
}

void bs_decision_forced(bs_decision_data *d, int32_t rows, int32_t path)
{
    d->rows = rows;
    for (int32_t at = 0; at < rows * d->per_row; at++) {
        d->chosen[at] = at % d->per_row == 0 ? path : -1;
        d->gates[at] = 1.0f;
    }
    decision_pack(d);
}

static bs_status decide_all(const routing *r)
{
    bs_status status = BS_OK;
    if (r->desc->protocol == BS_ROUTE_CALLBACK)
        return r->d->rows > 0 ? decide_callback(r) : BS_OK;
    if (r->desc->protocol == BS_ROUTE_BUDGET) {
        if (!paths_exist(r))
            return BS_ERROR_DATA;
        publish_price(r, 12.0f - (float)decide_budget(r) / 8.0f);
        return BS_OK;
    }
    for (int32_t row = 0; row < r->d->rows && status == BS_OK; row++)
        status = decide_row(r, row);
    if (status == BS_OK && r->desc->protocol == BS_ROUTE_CAPACITY)
        limit_capacity(r);
    return status;
}

bs_status bs_route_decide(bs_context *c, int32_t router)
{
    const bs_session *s = c->session;
    const bs_router_info *info = &s->graph->routers[router];
    bs_decision_data *d = &c->decisions[router];
    const int32_t rows = c->domains[info->domain].count, forced = s->plan->routers[router].forced;
    d->dropped = 0;
    d->rows = rows;
    if (forced) {
        bs_decision_forced(d, rows, forced - 1);
        return BS_OK;
    }
    routing r = {.c = c, .desc = info->desc, .d = d, .router = router};
    const uint8_t *weights = s->weights + s->plan->nodes[info->node].prepared_offset;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    r.variants = bs_or_default(info->desc->capacity, info->desc->paths);
    r.table = (const int32_t *)(const void *)weights;
    if (info->desc->protocol == BS_ROUTE_BUDGET) {
        bs_op_route.weights(s->graph, &s->graph->nodes[info->node], specs);
        r.path_of = (const int32_t *)(const void *)(weights + bs_weight_offset(specs, 1));
    }
    if (rows > 0)
        r.score = score_row(&r, 0);
    if (info->knob) {
        bs_operand knob;
        bs_operand_make(c, info->knob, 0, &knob);
        r.knob = *(const float *)knob.data;
        if (isnan(r.knob))
            return BS_ERROR_DATA;
    }
    memset(d->chosen, -1, (size_t)rows * (size_t)d->per_row * sizeof *d->chosen);
    memset(d->gates, 0, (size_t)rows * (size_t)d->per_row * sizeof *d->gates);
    const bs_status status = decide_all(&r);
    if (status == BS_OK)
        decision_pack(d);
    return status;
}
/* ==== end src/route.c ========================================================================= */

/* ==== begin src/exec.c ======================================================================== */
/* exec.c - running a plan: one interpreter for the whole session and for a tile.
 *
 * At top level an instruction runs over all rows of its domain in parallel; inside a region a thread takes a tile and
 * runs the part's instructions on its rows, one after the other, in its own scratch. Who takes which never shows.
 * Relies on session.h. Must never allocate, plan, or let a count decide how work is cut. */
/* #include "session.h" */
/* #include "structure.h" */

#define BAND_ROWS 32  /* of an image, per task; a multiple of the Winograd tile, so cutting changes no bit */
#define BATCH_ROWS 16 /* cells of a non-image op, per task */

static void report_failure(bs_session *s, bs_status status, int32_t node)
{
    int expected = BS_OK;
    if (status != BS_OK && atomic_compare_exchange_strong(&s->status, &expected, (int)status))
        atomic_store(&s->failed_node, node);
}

static bool has_failed(bs_session *s)
{
    return atomic_load_explicit(&s->status, memory_order_relaxed) != BS_OK;
}

/* ---------------------------------------------------------------------------------------------- one kernel */

static void call_prepare(const bs_context *c, const bs_node *node, int32_t row, int32_t rows, bs_call *call)
{
    const bs_session *s = c->session;
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, (int32_t)(node - s->graph->nodes), &n_in);
    call->graph = s->graph;
    call->node = node;
    call->plan = &s->plan->nodes[node - s->graph->nodes];
    call->params = node->params;
    call->n_in = n_in;
    call->n_out = node->n_out;
    call->rows = rows;
    call->prepared = s->weights + call->plan->prepared_offset;
    call->scratch = c->scratch + s->plan->kernel_scratch_offset;
    const bool across = bs_op_get(node->op)->flags & BS_OP_ACROSS;
    for (int32_t i = 0; i < n_in; i++)
        bs_operand_make(c, in[i], across || s->graph->values[in[i]].domain == 0 ? 0 : row, &call->in[i]);
    if (across)
        bs_segment_call(c, row, call);
    for (int32_t i = 0; i < node->n_out; i++)
        bs_operand_make(c, node->first_out + i, row, &call->out[i]);
}

static void zero_margins(const bs_context *c, const bs_call *call)
{
    for (int32_t i = 0; i < call->n_out; i++) {
        const int32_t value = call->node->first_out + i, margin = c->session->plan->values[value].margin;
        int64_t h, w;
        if (call->out[i].rank != 3 || margin == 0)
            continue;
        bs_plan_core(c->session->plan, &c->session->graph->values[value], &h, &w);
        bs_zero_margin(&call->out[i], margin, h, w);
    }
}

/* route_score: of the first chosen path, moved like any other element. A budget's is the loss of the chosen variant. */
static void run_route_score(const bs_context *c, const bs_node *node, int32_t row)
{
    const bs_router_info *router = &c->session->graph->routers[node->router];
    const bs_decision_data *d = &c->decisions[node->router];
    const bs_domain_kind kind = c->session->graph->domains[node->domain].kind;
    const int32_t decided = kind == BS_DOMAIN_PATH ? row : c->domains[node->domain].first + row; /* those below are of this tile */
    const int32_t path = d->chosen[decided * d->per_row], loss = (int32_t)d->gates[decided * d->per_row];
    const bool budget = router->desc->protocol == BS_ROUTE_BUDGET && !c->session->plan->routers[node->router].forced;
    bs_operand score, out;
    bs_operand_make(c, router->score, row, &score);
    bs_operand_make(c, node->first_out, row, &out);
    const int32_t at = score.dim[0] == 1 ? 0 : path; /* one score for all paths */
    if (path >= 0 && budget)
        memcpy(out.data, &loss, 4);
    else if (path >= 0 && at < score.dim[0])
        memcpy(out.data, (const uint8_t *)score.data + at * score.stride[0] * 4, 4);
    else
        memset(out.data, 0, 4);
}

/* The route wrote it; one that is decided ahead weighs nothing. */
static void run_route_price(const bs_context *c, const bs_node *node)
{
    bs_operand out;
    bs_operand_make(c, node->first_out, 0, &out);
    if (c->session->plan->routers[node->router].forced)
        *(float *)out.data = 0.0f;
}

/* Runs the node's kernel on `rows` rows from `row`; of an image only the rows y0..y1 of the rectangle. */
static void run_op(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    bs_call call;
    const bs_node *node = &c->session->graph->nodes[i->node];
    if (bs_node_is(node, &bs_op_route_price)) {
        run_route_price(c, node);
        return;
    }
    if (bs_node_is(node, &bs_op_route_score)) {
        for (int32_t r = row; r < row + rows; r++)
            run_route_score(c, node, r);
        return;
    }
    call_prepare(c, node, row, rows, &call);
    if (band <= 0)
        zero_margins(c, &call);
    if (call.plan->pieces > 0) {
        call.piece = band;
    } else if (band >= 0) {
        bs_rect *r = &call.out[0].rect;
        const int32_t y0 = r->y0 + band * BAND_ROWS;
        if (y0 >= r->y1)
            return;
        r->y1 = bs_min_i32(y0 + BAND_ROWS, r->y1);
        r->y0 = y0;
    }
    report_failure(c->session, call.plan->fusion ? bs_fusion_run(&call) : bs_op_get(node->op)->run(&call), i->node);
}

/* ---------------------------------------------------------------------------------------- one instruction */

static void run_rows(bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    if (i->kind == BS_INSTR_OP) {
        run_op(c, i, row, rows, band);
        return;
    }
    for (int32_t r = row; r < row + rows; r++) {
        if (i->kind == BS_INSTR_LOAD) {
            bs_operand o;
            int64_t h, w;
            bs_move_load(c, i, r);
            bs_operand_make(c, i->value, r, &o);
            bs_plan_core(c->session->plan, &c->session->graph->values[i->value], &h, &w);
            if (o.rank == 3)
                bs_zero_margin(&o, c->session->plan->values[i->value].margin, h, w);
        } else if (i->kind == BS_INSTR_STORE) {
            bs_move_store(c, i, r);
        } else if (i->kind == BS_INSTR_FILL) {
            bs_move_fill(c, i, r);
        } else if (i->kind == BS_INSTR_REDUCE) {
            bs_move_reduce(c, i, r);
        }
    }
}

/* Rows of one call: one, where geometry differs from row to row or rows are found through a decision. */
static int32_t batch_rows(const bs_session *s, const bs_instr *i)
{
    const bs_node *node = &s->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, i->node, &n_in);
    if (i->kind != BS_INSTR_OP)
        return 1;
    for (int32_t k = 0; k < n_in; k++) {
        const bs_value_info *v = &s->graph->values[in[k]];
        const bool scattered = s->plan->values[in[k]].place == BS_PLACE_VIEW && s->graph->domains[v->domain].kind == BS_DOMAIN_PATH;
        if (v->rank == 3 || scattered)
            return 1;
    }
    return node->n_out > 0 && s->graph->values[node->first_out].rank == 3 ? 1 : BATCH_ROWS;
}

typedef struct instr_job {
    bs_session *session;
    const bs_instr *instr;
    int32_t rows, batch, bands; /* bands: tasks a row, 0 = not cut */
} instr_job;

static void instr_task(void *user, int32_t index, int32_t thread)
{
    const instr_job *job = user;
    if (has_failed(job->session))
        return;
    bs_context c = job->session->root; /* rows and decisions of the root, scratch of the thread */
    c.thread = thread;
    c.scratch = job->session->contexts[thread].scratch;
    if (job->bands > 0) {
        run_rows(&c, job->instr, index / job->bands, 1, index % job->bands);
    } else {
        const int32_t first = index * job->batch;
        run_rows(&c, job->instr, first, bs_min_i32(job->batch, job->rows - first), -1);
    }
}

static int32_t bands_of(const bs_session *s, const bs_instr *i)
{
    const bs_node *node = &s->graph->nodes[i->node];
    int64_t h, w;
    if (i->kind == BS_INSTR_OP && s->plan->nodes[i->node].pieces > 0)
        return s->plan->nodes[i->node].pieces;
    if (i->kind != BS_INSTR_OP || node->n_out != 1 || !(bs_op_get(node->op)->flags & BS_OP_SPATIAL) ||
        s->graph->values[node->first_out].rank != 3)
        return 0;
    bs_plan_core(s->plan, &s->graph->values[node->first_out], &h, &w);
    return (int32_t)bs_ceil_div(h + 2 * s->plan->values[node->first_out].margin, BAND_ROWS);
}

static void run_parallel(bs_session *s, const bs_instr *i)
{
    instr_job job = {s, i, s->root.domains[i->domain].count, batch_rows(s, i), bands_of(s, i)};
    const int32_t tasks = job.bands > 0 ? job.rows * job.bands : (int32_t)bs_ceil_div(job.rows, job.batch);
    bs_workers_run(&s->pool, instr_task, &job, tasks);
}

/* ---------------------------------------------------------------------------------------------- decisions */

/* The rows of the paths of a router, now that it has decided. */
static void open_paths(bs_context *c, int32_t router)
{
    const bs_graph *g = c->session->graph;
    const bs_decision_data *d = &c->decisions[router];
    for (int32_t k = 1; k < g->n_domains; k++) {
        const bs_domain *domain = &g->domains[k];
        if (domain->kind != BS_DOMAIN_PATH || domain->router != router)
            continue;
        c->domains[k].count = d->counts[domain->path];
        c->domains[k].first = c->tile ? 0 : d->offsets[domain->path];
        c->domains[k].ids = d->ids + d->offsets[domain->path];
    }
}

static void record_decision(bs_context *c, int32_t router)
{
    bs_session *s = c->session;
    const bs_decision_data *d = &c->decisions[router];
    const int32_t domain = s->graph->routers[router].domain;
    int32_t *counts = s->route_counts + ((size_t)c->thread * (size_t)s->graph->n_routers + (size_t)router) * BS_MAX_PATHS;
    for (int32_t p = 0; p < d->paths; p++)
        counts[p] += d->counts[p];
    for (int32_t row = 0; row < d->rows; row++)
        s->chosen[router][bs_top_row(c, domain, row)] = (int8_t)d->chosen[row * d->per_row];
    if (!c->tile)
        s->dropped[router] = d->dropped;
}

static void run_route(bs_context *c, const bs_instr *i)
{
    const int32_t router = c->session->graph->nodes[i->node].router;
    const bs_status status = bs_route_decide(c, router);
    report_failure(c->session, status, i->node);
    if (status != BS_OK)
        return;
    open_paths(c, router);
    record_decision(c, router);
}

/* ------------------------------------------------------------------------------------------------ regions */

typedef struct region_job {
    bs_session *session;
    int32_t n_parts;
    int32_t parts[BS_MAX_PATHS]; /* heaviest first: a long tile that starts last is what a thread waits for */
    int32_t first_tile[BS_MAX_PATHS + 1];
} region_job;

static bs_rows_state part_rows(const bs_session *s, const bs_part *part)
{
    return s->root.domains[part->domain];
}

static void tile_open(bs_context *c, const bs_part *part, int32_t first, int32_t rows)
{
    bs_session *s = c->session;
    memcpy(c->domains, s->root.domains, (size_t)s->graph->n_domains * sizeof *c->domains);
    for (int32_t r = 1; r < s->graph->n_routers; r++)
        if (!s->plan->routers[r].in_tile)
            c->decisions[r] = s->root.decisions[r];
    bs_rows_state *state = &c->domains[part->domain];
    state->count = rows;
    state->first += first;
    if (state->ids)
        state->ids += first;
}

static uint64_t now_ns(const bs_session *s)
{
    return s->platform && s->platform->clock_ns ? s->platform->clock_ns(s->platform->user) : 0;
}

/* Time goes to the innermost path whose instructions ran. */
static void charge(const bs_context *c, int32_t domain, uint64_t ns)
{
    const bs_session *s = c->session;
    const bs_domain *d = &s->graph->domains[domain];
    if (d->kind == BS_DOMAIN_PATH)
        s->path_ns[((size_t)c->thread * (size_t)s->graph->n_routers + (size_t)d->router) * BS_MAX_PATHS + (size_t)d->path] += ns;
}

static void run_tile(bs_context *c, const bs_part *part)
{
    bs_session *s = c->session;
    int32_t domain = part->domain;
    uint64_t since = now_ns(s);
    for (int32_t k = 0; k < part->count && !has_failed(s); k++) {
        const bs_instr *i = &s->plan->instrs[part->first + k];
        const int32_t rows = c->domains[i->domain].count;
        if (i->kind == BS_INSTR_ROUTE) {
            run_route(c, i);
            continue;
        }
        if (rows == 0)
            continue;
        if (i->domain != domain) {
            const uint64_t now = now_ns(s);
            charge(c, domain, now - since);
            since = now;
            domain = i->domain;
        }
        const int32_t batch = batch_rows(s, i);
        for (int32_t row = 0; row < rows; row += batch)
            run_rows(c, i, row, bs_min_i32(batch, rows - row), -1);
    }
    charge(c, domain, now_ns(s) - since);
}

static void tile_task(void *user, int32_t index, int32_t thread)
{
    const region_job *job = user;
    bs_session *s = job->session;
    int32_t k = 0;
    if (has_failed(s))
        return;
    while (index >= job->first_tile[k + 1])
        k++;
    const bs_part *part = &s->plan->parts[job->parts[k]];
    const int32_t tile_rows = s->plan->domains[part->domain].tile_rows;
    const int32_t first = (index - job->first_tile[k]) * tile_rows;
    bs_context *c = &s->contexts[thread];
    tile_open(c, part, first, bs_min_i32(tile_rows, part_rows(s, part).count - first));
    run_tile(c, part);
}

static void run_region(bs_session *s, const bs_instr *i)
{
    region_job job;
    memset(&job, 0, sizeof job);
    job.session = s;
    for (int32_t k = 0; k < s->plan->n_parts; k++) {
        if (s->plan->parts[k].region != i->node || s->plan->parts[k].count == 0)
            continue;
        int32_t at = job.n_parts++;
        for (; at > 0 && s->plan->parts[job.parts[at - 1]].flops < s->plan->parts[k].flops; at--)
            job.parts[at] = job.parts[at - 1];
        job.parts[at] = k;
    }
    for (int32_t k = 0; k < job.n_parts; k++) {
        const bs_part *part = &s->plan->parts[job.parts[k]];
        const int32_t rows = part_rows(s, part).count;
        job.first_tile[k + 1] = job.first_tile[k] + (int32_t)bs_ceil_div(rows, s->plan->domains[part->domain].tile_rows);
    }
    bs_workers_run(&s->pool, tile_task, &job, job.first_tile[job.n_parts]);
}

/* ------------------------------------------------------------------------------------------------ the run */

/* Features and decisions: routes, and regions of whole cells that a later route waits for. */
static bool counts_as_routing(const bs_plan *p, int32_t at)
{
    const bs_instr *i = &p->instrs[at];
    if (i->kind == BS_INSTR_ROUTE)
        return true;
    for (int32_t k = 0; i->kind == BS_INSTR_REGION && k < p->n_parts; k++)
        if (p->parts[k].region == i->node && p->parts[k].router != 0)
            return false;
    for (int32_t k = at + 1; i->kind == BS_INSTR_REGION && k < p->n_top; k++)
        if (p->instrs[k].kind == BS_INSTR_ROUTE)
            return true;
    return false;
}

void bs_execute(bs_session *s)
{
    const uint64_t start = now_ns(s);
    s->stats.routing_ns = 0;
    for (int32_t k = 0; k < s->plan->n_top && !has_failed(s); k++) {
        const bs_instr *i = &s->plan->instrs[k];
        const uint64_t since = now_ns(s);
        if (i->kind == BS_INSTR_ROUTE)
            run_route(&s->root, i);
        else if (i->kind == BS_INSTR_REGION)
            run_region(s, i);
        else
            run_parallel(s, i);
        if (counts_as_routing(s->plan, k))
            s->stats.routing_ns += now_ns(s) - since;
    }
    s->stats.total_ns = now_ns(s) - start;
    s->stats.runs++;
}
/* ==== end src/exec.c ========================================================================== */

/* ==== begin src/session.c ===================================================================== */
/* session.c - making a session out of four arenas, binding buffers, running, asking what happened.
 * Relies on session.h and weights.h. Must never allocate: what it takes is what bs_plan_sizes said, to the byte. */
/* #include "session.h" */
/* #include "structure.h" */
/* #include "weights.h" */

/* ------------------------------------------------------------------------------------------------- carving */

/* The same walk counts bytes (base NULL) and hands them out. */
typedef struct carver {
    uint8_t *base;
    uint64_t used;
} carver;

static void *carve(carver *c, uint64_t count, uint64_t bytes)
{
    uint8_t *memory = c->base ? c->base + c->used : NULL;
    c->used = bs_add_u64(c->used, bs_align_u64(bs_mul_u64(count, bytes)));
    return memory;
}

static void carve_decision(carver *c, const bs_plan *p, int32_t router, bs_decision_data *d)
{
    const bs_router_info *info = &p->graph->routers[router];
    const uint64_t choices = bs_mul_u64((uint64_t)p->routers[router].rows, (uint64_t)info->max_paths_per_cell);
    memset(d, 0, sizeof *d);
    d->paths = info->desc->paths;
    d->per_row = info->max_paths_per_cell;
    d->chosen = carve(c, choices, sizeof(int32_t));
    d->gates = carve(c, choices, sizeof(float));
    d->ids = carve(c, choices, sizeof(int32_t));
    d->inverse = carve(c, choices, sizeof(int32_t));
    d->counts = carve(c, (uint64_t)d->paths, sizeof(int32_t));
    d->offsets = carve(c, (uint64_t)d->paths + 1, sizeof(int32_t));
}

/* A context of the root decides what is global, one of a tile what is decided in tiles. */
static void carve_context(carver *c, const bs_plan *p, bs_context *context, bool tile)
{
    const bs_graph *g = p->graph;
    bs_decision_data unused;
    bs_rows_state *domains = carve(c, (uint64_t)g->n_domains, sizeof(bs_rows_state));
    bs_decision_data *decisions = carve(c, (uint64_t)g->n_routers, sizeof(bs_decision_data));
    for (int32_t r = 1; r < g->n_routers; r++)
        if (p->routers[r].live && p->routers[r].in_tile == tile)
            carve_decision(c, p, r, decisions ? &decisions[r] : &unused);
    if (context) {
        context->domains = domains;
        context->decisions = decisions;
        context->tile = tile;
    }
}

static uint64_t state_bytes(const bs_plan *p, int32_t node)
{
    const bs_value_info *v = &p->graph->values[p->graph->nodes[node].first_out];
    uint64_t bytes = bs_dtype_bytes(v->dtype);
    for (int32_t i = 0; i < v->rank; i++)
        bytes = bs_mul_u64(bytes, (uint64_t)bs_dim_max(p->graph, v->dims[i]));
    return bytes;
}

static bool is_live_state(const bs_plan *p, int32_t node)
{
    return p->node_live[node] && bs_node_is(&p->graph->nodes[node], &bs_op_state);
}

/* Everything persistent. s: NULL while counting. States come last: a caller that binds its own pays for them all
 * the same, since the plan cannot know. */
static void carve_session(carver *c, const bs_plan *p, bs_session *s)
{
    const bs_graph *g = p->graph;
    const uint64_t nodes = (uint64_t)g->n_nodes, routers = (uint64_t)g->n_routers, threads = (uint64_t)p->threads;
    bs_session unused;
    if (!s)
        s = &unused;
    s->dims = carve(c, (uint64_t)g->n_dims, sizeof(int64_t));
    s->bound = carve(c, nodes, sizeof(bs_buffer));
    s->state = carve(c, nodes, sizeof(uint8_t *));
    s->state_bytes = carve(c, nodes, sizeof(uint64_t));
    s->callbacks = carve(c, routers, sizeof(bs_route_callback));
    s->chosen = carve(c, routers, sizeof(int8_t *));
    s->counts = carve(c, routers * BS_MAX_PATHS, sizeof(int32_t));
    s->dropped = carve(c, routers, sizeof(int64_t));
    s->path_ns = carve(c, threads * routers * BS_MAX_PATHS, sizeof(uint64_t));
    s->route_counts = carve(c, threads * routers * BS_MAX_PATHS, sizeof(int32_t));
    s->contexts = carve(c, threads, sizeof(bs_context));
    carve_context(c, p, c->base ? &s->root : NULL, false);
    for (int32_t t = 0; t < p->threads; t++)
        carve_context(c, p, s->contexts ? &s->contexts[t] : NULL, true);
    for (int32_t r = 1; r < g->n_routers; r++) {
        int8_t *chosen = carve(c, (uint64_t)p->domains[bs_plan_top_domain(g, g->routers[r].domain)].max_rows, 1);
        if (s->chosen)
            s->chosen[r] = chosen;
    }
    s->offsets = carve(c, (uint64_t)g->n_domains, sizeof(int32_t *));
    for (int32_t d = 1; d < g->n_domains; d++) {
        int32_t *offsets = carve(c, (uint64_t)bs_segment_room(p, d), sizeof(int32_t));
        if (s->offsets)
            s->offsets[d] = bs_segment_room(p, d) ? offsets : NULL;
    }
    s->past = carve(c, nodes, sizeof(int32_t *));
    for (int32_t n = 1; n < g->n_nodes; n++) {
        int32_t *past = carve(c, (uint64_t)bs_past_room(p, n), sizeof(int32_t));
        if (s->past)
            s->past[n] = bs_past_room(p, n) ? past : NULL;
    }
    s->weights = carve(c, p->weight_bytes, 1);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        uint8_t *memory = is_live_state(p, n) ? carve(c, state_bytes(p, n), 1) : NULL;
        if (s->state) {
            s->state[n] = memory;
            s->state_bytes[n] = is_live_state(p, n) ? state_bytes(p, n) : 0;
        }
    }
}

void bs_plan_sizes(const bs_plan *plan, bs_sizes *sizes)
{
    carver c = {NULL, 0};
    carve(&c, 1, sizeof(bs_session));
    carve_session(&c, plan, NULL);
    sizes->persistent = c.used;
    sizes->transient = bs_add_u64(plan->transient_bytes, bs_mul_u64(plan->scratch_bytes, (uint64_t)plan->threads));
    sizes->staging = plan->staging_bytes;
    sizes->slots = 0; /* every block is resident */
}

/* ------------------------------------------------------------------------------------------------- weights */

static void weight_name(char *text, size_t bytes, const bs_node *node, const char *suffix)
{
    const char *name = bs_node_name(node);
    snprintf(text, bytes, "%s%s%s", name, *suffix ? "." : "", suffix);
}

/* Canonical tensors of one node in place or in staging, then prepared. */
static bs_status load_node(bs_session *s, int32_t n, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    const bs_node *node = &s->graph->nodes[n];
    const bs_op *op = bs_op_get(node->op);
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const void *tensors[BS_MAX_WEIGHTS];
    const int32_t count = op->weights ? op->weights(s->graph, node, specs) : 0;
    uint8_t *prepared = s->weights + s->plan->nodes[n].prepared_offset;
    for (int32_t i = 0; i < count; i++) {
        char name[2 * BS_MAX_NAME];
        bs_weight_info info;
        weight_name(name, sizeof name, node, specs[i].suffix);
        const bs_status found = bs_weight_find(weights, name, &specs[i], &info, error);
        if (found != BS_OK)
            return found;
        tensors[i] = bs_weight_view(weights, &specs[i], &info);
        if (tensors[i])
            continue;
        uint8_t *target = staging + bs_weight_offset(specs, i);
        const bs_status read = bs_weight_load(weights, name, &specs[i], &info, target, error);
        if (read != BS_OK)
            return read;
        tensors[i] = target;
    }
    if (count > 0 && op->prepare)
        op->prepare(s->graph, node, &s->plan->nodes[n], tensors, prepared);
    else
        for (int32_t i = 0; i < count; i++)
            memcpy(prepared + bs_weight_offset(specs, i), tensors[i], (size_t)bs_weight_spec_bytes(&specs[i]));
    return BS_OK;
}

/* A router that is decided ahead needs no table of its own. */
static bool needs_weights(const bs_session *s, int32_t n)
{
    const bs_node *node = &s->graph->nodes[n];
    const bool forced = bs_node_is(node, &bs_op_route) && s->plan->routers[node->router].forced;
    return s->plan->node_live[n] && bs_op_get(node->op)->weights && !forced;
}

static bs_status load_weights(bs_session *s, const bs_weights *weights, uint8_t *staging, bs_error *error)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        if (!needs_weights(s, n))
            continue;
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        if (bs_op_get(s->graph->nodes[n].op)->weights(s->graph, &s->graph->nodes[n], specs) == 0)
            continue;
        if (!weights->find)
            return bs_fail(error, BS_ERROR_WEIGHTS, "%s \"%s\" needs weights and the session was given none",
                           bs_op_get(s->graph->nodes[n].op)->name, bs_node_name(&s->graph->nodes[n]));
        const bs_status status = load_node(s, n, weights, staging, error);
        if (status != BS_OK)
            return status;
    }
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ creation */

static void bind_own_states(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (is_live_state(s->plan, n))
            s->bound[n].data = s->state[n];
}

/* Whether the session itself provides the memory of this state. */
static bool is_own_state(const bs_session *s, int32_t n)
{
    return s->state[n] && s->bound[n].data == s->state[n];
}

void bs_reset_state(bs_session *session)
{
    if (!session)
        return;
    session->state_valid = session->broken = false;
    for (int32_t n = 1; n < session->graph->n_nodes; n++) {
        const bs_buffer *b = &session->bound[n];
        if (!is_live_state(session->plan, n))
            continue;
        if (is_own_state(session, n)) {
            memset(session->state[n], 0, (size_t)session->state_bytes[n]);
            continue;
        }
        const size_t bytes = bs_dtype_bytes(b->dtype);
        int64_t elements = 1;
        for (int32_t i = 0; i < b->rank; i++)
            elements *= b->dim[i];
        for (int64_t k = 0; k < elements; k++) {
            int64_t rest = k, at = 0;
            for (int32_t i = b->rank - 1; i >= 0; i--) {
                at += rest % b->dim[i] * b->stride[i];
                rest /= b->dim[i];
            }
            memset((uint8_t *)b->data + at * (int64_t)bytes, 0, bytes);
        }
    }
}

static void *take(bs_arena *arena, uint64_t bytes, const char *what, bs_error *error)
{
    void *memory = bs_arena_take(arena, (size_t)bytes);
    if (!memory)
        bs_fail_arena(error, arena, bytes, what);
    return memory;
}

static bs_session *session_carve(bs_memory *memory, const bs_plan *plan, const bs_sizes *sizes, bs_error *error)
{
    carver c = {take(&memory->persistent, sizes->persistent, "the session", error), 0};
    if (!c.base)
        return NULL;
    memset(c.base, 0, (size_t)sizes->persistent);
    bs_session *s = carve(&c, 1, sizeof *s);
    s->plan = plan;
    s->graph = plan->graph;
    carve_session(&c, plan, s);
    s->transient = sizes->transient ? take(&memory->transient, sizes->transient, "activations", error) : NULL;
    if (sizes->transient && !s->transient)
        return NULL;
    s->scratch = s->transient ? s->transient + plan->transient_bytes : NULL;
    s->root.session = s;
    s->root.domains[0].count = 1;
    for (int32_t t = 0; t < plan->threads; t++) {
        s->contexts[t].session = s;
        s->contexts[t].thread = t;
        s->contexts[t].scratch = s->scratch + (uint64_t)t * plan->scratch_bytes;
    }
    s->root.scratch = s->scratch;
    return s;
}

bs_session *bs_session_create(bs_memory *memory, const bs_plan *plan, const bs_session_desc *desc, bs_error *error)
{
    const bs_session_desc none = {.platform = NULL};
    bs_sizes sizes;
    if (!memory || !plan) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_session_create: memory or plan is NULL");
        return NULL;
    }
    if (!desc)
        desc = &none;
    if (!bs_tier_available(plan->tier)) {
        bs_fail(error, BS_ERROR_UNSUPPORTED, "the plan is for tier %s, which this machine does not have", bs_tier_name(plan->tier));
        return NULL;
    }
    bs_plan_sizes(plan, &sizes);
    const size_t mark[3] = {memory->persistent.used, memory->transient.used, memory->staging.used};
    bs_session *s = session_carve(memory, plan, &sizes, error);
    uint8_t *staging = s && sizes.staging ? take(&memory->staging, sizes.staging, "reading weights", error) : NULL;
    bool ok = s && (sizes.staging == 0 || staging);
    if (ok) {
        s->platform = desc->platform ? desc->platform : bs_platform_default();
        bind_own_states(s);
        ok = load_weights(s, &desc->weights, staging, error) == BS_OK &&
             bs_workers_start(&s->pool, s->platform, plan->threads, error) == BS_OK;
    }
    memory->staging.used = mark[2]; /* only while loading */
    if (!ok) {
        memory->persistent.used = mark[0];
        memory->transient.used = mark[1];
        return NULL;
    }
    return s;
}

void bs_session_close(bs_session *session)
{
    if (session)
        bs_workers_stop(&session->pool);
}

/* ------------------------------------------------------------------------------------------------- binding */

static int32_t find_named(const bs_session *s, const char *name)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        const bool bindable = bs_node_is(node, &bs_op_input) || bs_node_is(node, &bs_op_output) || bs_node_is(node, &bs_op_state);
        if (bindable && strcmp(bs_node_name(node), name) == 0)
            return n;
    }
    return 0;
}

static const bs_value_info *bound_value(const bs_session *s, int32_t n)
{
    const bs_node *node = &s->graph->nodes[n];
    return &s->graph->values[bs_node_is(node, &bs_op_output) ? bs_node_in(s->graph, node)[0] : node->first_out];
}

bs_status bs_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    if (!session || !name || !buffer || !buffer->data)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind: the session, the name or the buffer is NULL");
    const int32_t n = find_named(session, name);
    if (!n)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_bind: there is no input, output or state \"%s\"", name);
    const bs_value_info *v = bound_value(session, n);
    if (buffer->dtype != v->dtype || buffer->rank != v->rank)
        return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": %s of rank %d given, %s of rank %d expected", name,
                       bs_dtype_name(buffer->dtype), buffer->rank, bs_dtype_name(v->dtype), v->rank);
    bs_buffer b = *buffer;
    bool dense = true;
    for (int32_t i = 0; i < b.rank; i++) {
        char text[64];
        const int64_t maximum = bs_dim_max(session->graph, v->dims[i]);
        const bool fixed = bs_dim_is_const(session->graph, v->dims[i]);
        if (b.dim[i] < 1 || b.dim[i] > maximum || (fixed && b.dim[i] != maximum))
            return bs_fail(error, BS_ERROR_SHAPE, "bs_bind \"%s\": dimension %d is %lld, expected %s", name, i, (long long)b.dim[i],
                           bs_dim_text(session->graph, v->dims[i], text, sizeof text));
        dense = dense && b.stride[i] == 0;
    }
    for (int32_t i = b.rank - 1; dense && i >= 0; i--)
        b.stride[i] = i == b.rank - 1 ? 1 : b.stride[i + 1] * b.dim[i + 1];
    session->bound[n] = b;
    return BS_OK;
}

bs_status bs_set_route(bs_session *session, const char *router, bs_route_function function, void *user, bs_error *error)
{
    for (int32_t r = 1; session && router && r < session->graph->n_routers; r++)
        if (strcmp(session->graph->routers[r].desc->name, router) == 0) {
            session->callbacks[r].function = function;
            session->callbacks[r].user = user;
            return BS_OK;
        }
    return bs_fail(error, BS_ERROR_ARGUMENT, "bs_set_route: there is no router \"%s\"", router ? router : "");
}

/* ------------------------------------------------------------------------------------------------- extents */

/* Extents that an input's buffer gives; two inputs that share a symbol must agree. */
static bs_status take_symbols(bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++) {
        int64_t *now = &s->dims[v->dims[i]];
        if (s->graph->dims[v->dims[i]].kind != BS_DIM_SYMBOL)
            continue;
        if (*now != 0 && *now != s->bound[n].dim[i] && s->plan->node_live[n])
            return bs_fail(error, BS_ERROR_SHAPE, "input \"%s\": dimension %d is %lld, another input says %lld", bs_node_name(&s->graph->nodes[n]),
                           i, (long long)s->bound[n].dim[i], (long long)*now);
        *now = *now ? *now : s->bound[n].dim[i];
    }
    return BS_OK;
}

/* Inputs that this plan does not read give what the others leave open, when they are bound. */
static bs_status set_symbols(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t d = 0; d < g->n_dims; d++)
        s->dims[d] = g->dims[d].kind == BS_DIM_CONST ? g->dims[d].maximum : 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
            if (!bs_node_is(&g->nodes[n], &bs_op_input) || s->plan->node_live[n] == (pass == 1))
                continue;
            if (s->bound[n].data)
                status = take_symbols(s, n, error);
            else if (pass == 0)
                status = bs_fail(error, BS_ERROR_UNBOUND, "input \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        }
    return status;
}

static bs_status derive_extents(bs_session *s, bs_error *error)
{
    for (int32_t d = 0; d < s->graph->n_dims; d++) {
        const bs_dim_info *dim = &s->graph->dims[d];
        if (dim->kind == BS_DIM_SYMBOL && s->dims[d] == 0)
            s->dims[d] = dim->maximum; /* no input has it: states keep their maximum */
        if (dim->kind == BS_DIM_DERIVED)
            s->dims[d] = bs_floor_div(s->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (s->dims[d] < 1)
            return bs_fail(error, BS_ERROR_SHAPE, "an extent of this run is %lld: the input is smaller than the network's window",
                           (long long)s->dims[d]);
    }
    return BS_OK;
}

static bs_status check_extents(const bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bound_value(s, n);
    for (int32_t i = 0; i < v->rank; i++)
        if (s->bound[n].dim[i] != s->dims[v->dims[i]])
            return bs_fail(error, BS_ERROR_SHAPE, "\"%s\": dimension %d of its buffer is %lld, this run needs %lld",
                           bs_node_name(&s->graph->nodes[n]), i, (long long)s->bound[n].dim[i], (long long)s->dims[v->dims[i]]);
    return BS_OK;
}

/* An own state is as large as this run's extents ask, densely; a change of size starts it anew. Once all else is sound. */
static void shape_own_state(bs_session *s, int32_t n, const bs_value_info *v)
{
    bs_buffer *b = &s->bound[n];
    bool same = b->rank == v->rank;
    for (int32_t i = 0; same && i < v->rank; i++)
        same = b->dim[i] == s->dims[v->dims[i]];
    if (same)
        return;
    b->dtype = v->dtype;
    b->rank = v->rank;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        b->dim[i] = s->dims[v->dims[i]];
        b->stride[i] = i == v->rank - 1 ? 1 : b->stride[i + 1] * b->dim[i + 1];
    }
    memset(s->state[n], 0, (size_t)s->state_bytes[n]);
    s->state_valid = false;
}

/* A copy of a state that already has a place of its own is not asked for. */
static bool output_is_optional(const bs_session *s, int32_t n)
{
    const int32_t value = bs_node_in(s->graph, &s->graph->nodes[n])[0];
    return s->plan->values[value].place == BS_PLACE_STATE;
}

static bs_status check_bound(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    bs_status status = BS_OK;
    for (int32_t n = 1; n < g->n_nodes && status == BS_OK; n++) {
        const bool input = bs_node_is(&g->nodes[n], &bs_op_input) && s->plan->node_live[n];
        const bool output = bs_node_is(&g->nodes[n], &bs_op_output), state = is_live_state(s->plan, n) && !is_own_state(s, n);
        if (!input && !output && !state)
            continue;
        if (!s->bound[n].data && output_is_optional(s, n))
            continue;
        if (!s->bound[n].data)
            return bs_fail(error, BS_ERROR_UNBOUND, "output \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        status = check_extents(s, n, error);
    }
    return status;
}

static bs_status count_rows(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t d = 1; d < g->n_domains; d++) {
        const bs_domain *domain = &g->domains[d];
        bs_rows_state *rows = &s->root.domains[d];
        memset(rows, 0, sizeof *rows);
        if (domain->kind == BS_DOMAIN_ROWS || domain->kind == BS_DOMAIN_SEGMENTS)
            rows->count = (int32_t)s->dims[domain->rows];
        if (domain->kind == BS_DOMAIN_PATCHES) {
            const int64_t size = s->plan->domains[d].size;
            rows->count = (int32_t)(bs_ceil_div(s->dims[domain->height], size) * bs_ceil_div(s->dims[domain->width], size));
        }
        if (rows->count > s->plan->domains[d].max_rows)
            return bs_fail(error, BS_ERROR_LIMIT, "%d cells, at most %lld were planned", rows->count, (long long)s->plan->domains[d].max_rows);
    }
    return BS_OK;
}

/* ----------------------------------------------------------------------------------------------------- run */

static void run_begin(bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++)
        if (is_live_state(s->plan, n) && is_own_state(s, n))
            shape_own_state(s, n, bound_value(s, n));
    const size_t slots = (size_t)s->graph->n_routers * BS_MAX_PATHS;
    memset(s->path_ns, 0, (size_t)s->plan->threads * slots * sizeof *s->path_ns);
    memset(s->route_counts, 0, (size_t)s->plan->threads * slots * sizeof *s->route_counts);
    for (int32_t r = 1; r < s->graph->n_routers; r++) {
        s->dropped[r] = 0;
        memset(s->chosen[r], -1, (size_t)s->plan->domains[bs_plan_top_domain(s->graph, s->graph->routers[r].domain)].max_rows);
    }
    atomic_store(&s->status, BS_OK);
}

/* Sums what the threads counted. */
static void run_end(bs_session *s)
{
    const size_t slots = (size_t)s->graph->n_routers * BS_MAX_PATHS;
    memset(s->counts, 0, slots * sizeof *s->counts);
    for (int32_t t = 0; t < s->plan->threads; t++)
        for (size_t k = 0; k < slots; k++) {
            s->counts[k] += s->route_counts[(size_t)t * slots + k];
            if (t > 0)
                s->path_ns[k] += s->path_ns[(size_t)t * slots + k];
        }
}

static bool writes_states(const bs_session *s)
{
    for (int32_t n = 1; n < s->graph->n_nodes; n++) {
        const bs_node *node = &s->graph->nodes[n];
        if (s->plan->node_live[n] && (bs_node_is(node, &bs_op_state_write) || bs_node_is(node, &bs_op_state_append)))
            return true;
    }
    return false;
}

bs_status bs_run(bs_session *session, bs_error *error)
{
    if (!session)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_run: the session is NULL");
    if (session->broken)
        return bs_fail(error, BS_ERROR_DATA, "the last run failed and left its states in between: call bs_reset_state");
    bs_status status = set_symbols(session, error);
    status = status == BS_OK ? derive_extents(session, error) : status;
    status = status == BS_OK ? check_bound(session, error) : status;
    status = status == BS_OK ? count_rows(session, error) : status;
    status = status == BS_OK ? bs_segments_begin(session, error) : status;
    if (status != BS_OK)
        return status;
    run_begin(session);
    bs_execute(session);
    run_end(session);
    status = (bs_status)atomic_load(&session->status);
    if (status == BS_OK) {
        session->state_valid = writes_states(session);
        return BS_OK;
    }
    session->state_valid = false;
    session->broken = writes_states(session);
    const bs_node *node = &session->graph->nodes[atomic_load(&session->failed_node)];
    return bs_fail(error, status, "%s \"%s\": %s", bs_op_get(node->op)->name, bs_node_name(node), bs_status_text(status));
}

bool bs_state_valid(const bs_session *session)
{
    return session && session->state_valid;
}

/* ---------------------------------------------------------------------------------------------------- asking */

bs_status bs_decision_get(const bs_session *session, const char *router, bs_decision *decision)
{
    for (int32_t r = 1; session && router && decision && r < session->graph->n_routers; r++) {
        if (strcmp(session->graph->routers[r].desc->name, router) != 0)
            continue;
        const int32_t top = bs_plan_top_domain(session->graph, session->graph->routers[r].domain);
        decision->paths = session->graph->routers[r].desc->paths;
        decision->counts = session->counts + (size_t)r * BS_MAX_PATHS;
        decision->ns = session->path_ns + (size_t)r * BS_MAX_PATHS;
        decision->cells = session->root.domains[top].count;
        decision->chosen = session->chosen[r];
        decision->dropped = session->dropped[r];
        return BS_OK;
    }
    return BS_ERROR_ARGUMENT;
}

void bs_session_stats(const bs_session *session, bs_run_stats *stats)
{
    if (session && stats)
        *stats = session->stats;
}
/* ==== end src/session.c ======================================================================= */

/* ==== begin src/model.h ======================================================================= */
/* model.h - a model file: the graph and the weights that a GGUF file carries.
 * Owns the meaning of the "brainstorm.*" keys and of records. Relies on gguf.h for bytes, on graph.h and op.h to rebuild
 * the graph.
 * Must never trust the file, nor know how a graph is planned or run. The format is described in docs/format.md. */
#ifndef BS_MODEL_H
#define BS_MODEL_H

/* #include "gguf.h" */
/* #include "op.h" */

/* Caps of a file: beyond any network for a board, and small enough that what is quadratic in them does not matter. */
#define BS_MODEL_MAX_NODES 8192
#define BS_MODEL_MAX_OPERANDS 65536
#define BS_MODEL_MAX_WEIGHTS 8192
#define BS_MODEL_MAX_SYMBOLS 64
#define BS_MODEL_MAX_PARAMS 32

/* Of a record, from version 2 on: so that what a streamed read brought can be told from anything else. */
#define BS_MODEL_HEAD_BYTES 256
#define BS_MODEL_HEAD_MAGIC 0x43525342u /* "BSRC" */
#define BS_MODEL_HEAD_VERSION 1u
#define BS_MODEL_PAGE 4096 /* records of files that can be streamed start at multiples of it */

/* A range of nodes and its record. Nodes count from 0 here, as in the file. */
typedef struct bs_model_block {
    uint64_t name_at; /* of the string, its length included */
    uint64_t offset, bytes; /* the head included */
    int32_t first_node, end_node;
    int32_t first_weight, end_weight;
    uint32_t crc32; /* of what follows the head */
} bs_model_block;

typedef struct bs_model_weight {
    uint64_t hash, name_at;
    uint64_t offset, bytes; /* absolute */
    int64_t dim[BS_MAX_RANK];
    int32_t dtype, rank, block;
} bs_model_weight;

typedef struct bs_model_symbol {
    uint64_t name_at;
    int64_t maximum;
} bs_model_symbol;

struct bs_model {
    bs_gguf gguf;
    const bs_platform *platform; /* of a file that bs_model_close closes; NULL for other sources */
    int64_t file;
    int64_t stream_file; /* a second handle, for streaming; -1: the first one serves */
    uint32_t stream_alignment; /* of reads from stream_file; 1: buffered */
    bool buffered; /* stream_file is left alone */
    char name[BS_MAX_NAME];
    uint64_t file_id;
    int32_t version, opset, scale;
    int32_t n_nodes, n_values, n_operands, n_blocks, n_weights, n_symbols;
    uint64_t text_bytes; /* that names and parameters will take in the graph */
    bs_model_block *blocks;
    bs_model_weight *weights;
    bs_model_symbol symbols[BS_MODEL_MAX_SYMBOLS];
};

/* One stored node, decoded. */
typedef struct bs_model_node {
    int32_t op, block, n_in, n_params;
    int32_t in[BS_MAX_PATHS + 1];
    int32_t params[BS_MODEL_MAX_PARAMS];
    char name[BS_MAX_NAME];
} bs_model_node;

/* Seven cursors that walk the arrays of nodes abreast. */
typedef struct bs_model_walk {
    bs_cursor op, name, in_count, in, param_count, param, block;
    int32_t index; /* of the node read last; -1 before the first */
} bs_model_walk;

/* Bytes of the head that each record of this file has. */
static inline uint32_t bs_model_head_bytes(const bs_model *model)
{
    return model->version >= 2 ? BS_MODEL_HEAD_BYTES : 0;
}

/* Everything that the keys say, checked; model->gguf is open. The index goes to `arena`. */
bs_status bs_model_index(bs_model *model, bs_arena *arena, bs_error *error);

/* Fills in the streaming half of a source, if the file can be streamed. */
void bs_model_stream_source(const bs_model *model, bs_weights *weights);
/* What offset, size and buffer of a fetch must be multiples of; 0 when the file cannot be streamed. */
uint32_t bs_model_fetch_alignment(const bs_model *model);

void bs_model_walk_begin(const bs_model *model, bs_model_walk *walk);
bs_status bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error);

#endif
/* ==== end src/model.h ========================================================================= */

/* ==== begin src/model_build.c ================================================================= */
/* model_build.c - from the stored nodes to a graph, through the primitive that every builder function ends in.
 * Relies on model.h, graph.h, op.h. Must never accept what a builder call would refuse: all verification of ops,
 * shapes and domains is the graph's own. */
/* #include "model.h" */
/* #include "structure.h" */

/* --------------------------------------------------------------------------------------------------- walk */

static void walk_cursor(const bs_model *model, const char *key, bs_cursor *cursor)
{
    bs_gguf_cursor(&model->gguf, bs_gguf_find(&model->gguf, key), cursor);
}

void bs_model_walk_begin(const bs_model *model, bs_model_walk *walk)
{
    walk_cursor(model, "brainstorm.node.op", &walk->op);
    walk_cursor(model, "brainstorm.node.name", &walk->name);
    walk_cursor(model, "brainstorm.node.inputs.count", &walk->in_count);
    walk_cursor(model, "brainstorm.node.inputs", &walk->in);
    walk_cursor(model, "brainstorm.node.params.count", &walk->param_count);
    walk_cursor(model, "brainstorm.node.params", &walk->param);
    walk_cursor(model, "brainstorm.node.block", &walk->block);
    walk->index = -1;
}

static bool walk_list(bs_cursor *counts, bs_cursor *list, int32_t most, int32_t *count, int32_t *target)
{
    *count = bs_cursor_i32(counts);
    if (counts->status != BS_OK || *count < 0 || *count > most)
        return false;
    return bs_cursor_take(list, target, (uint64_t)*count * sizeof *target);
}

static bs_status walk_op(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    char op[BS_MAX_NAME];
    if (!bs_cursor_text(&walk->op, op, sizeof op))
        return bs_fail(error, BS_ERROR_FORMAT, "node %d: the op's name is malformed", walk->index);
    if (!bs_cursor_text(&walk->name, node->name, sizeof node->name))
        return bs_fail(error, BS_ERROR_FORMAT, "node %d: its name is malformed", walk->index);
    node->op = bs_op_index(op);
    if (node->op < 0)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "node %d: there is no op \"%s\"", walk->index, op);
    return BS_OK;
}

bs_status bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    walk->index++;
    const bs_status status = walk_op(walk, node, error);
    if (status != BS_OK)
        return status;
    if (!walk_list(&walk->in_count, &walk->in, BS_MAX_PATHS + 1, &node->n_in, node->in))
        return bs_fail(error, BS_ERROR_FORMAT, "node %d: its inputs are malformed", walk->index);
    /* fewer parameters than the op has: the file is older, and zero means default */
    const int32_t fields = bs_min_i32(bs_op_get(node->op)->n_fields, BS_MODEL_MAX_PARAMS);
    if (!walk_list(&walk->param_count, &walk->param, fields, &node->n_params, node->params))
        return bs_fail(error, BS_ERROR_FORMAT, "node %d: its parameters are malformed", walk->index);
    node->block = bs_cursor_i32(&walk->block);
    if (walk->block.status != BS_OK)
        return bs_fail(error, BS_ERROR_FORMAT, "node %d: its block is malformed", walk->index);
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ symbols */

/* The maxima that the symbols will get: the file's, or what the caller's inputs ask for. */
typedef struct model_maxima {
    int64_t maximum[BS_MODEL_MAX_SYMBOLS];
    bool set[BS_MODEL_MAX_SYMBOLS];
} model_maxima;

/* One dimension of an input, as structure.h encodes it: a constant, or symbol number + 65536 (factor - 1), negated. */
static bs_status maxima_dim(const bs_model *model, model_maxima *m, const bs_model_input *input, int32_t index,
                            int32_t code, bs_error *error)
{
    const int64_t wanted = input->dim[index], negated = -(int64_t)code;
    const int64_t symbol = (negated & 0xffff) - 1, factor = (negated >> 16) + 1;
    if (wanted == 0)
        return BS_OK;
    if (code >= 0)
        return wanted == code ? BS_OK : bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d is %d, not %lld",
                                                input->name, index, code, (long long)wanted);
    if (symbol < 0 || symbol >= model->n_symbols)
        return bs_fail(error, BS_ERROR_FORMAT, "input \"%.64s\": dimension %d has no symbol", input->name, index);
    if (wanted < 1 || wanted % factor != 0)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d must be a multiple of %lld, not %lld",
                       input->name, index, (long long)factor, (long long)wanted);
    if (m->set[symbol] && m->maximum[symbol] != wanted / factor)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d contradicts another input", input->name, index);
    m->maximum[symbol] = wanted / factor;
    m->set[symbol] = true;
    return BS_OK;
}

static bs_status maxima_input(const bs_model *model, model_maxima *m, const bs_model_input *input,
                              const bs_model_node *node, bs_error *error)
{
    if (node->n_params < 2 || node->params[1] != input->rank || input->rank < 1 || input->rank > BS_MAX_RANK ||
        node->n_params < 2 + input->rank)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\" has another rank than %d", input->name, input->rank);
    bs_status status = BS_OK;
    for (int32_t i = 0; status == BS_OK && i < input->rank; i++)
        status = maxima_dim(model, m, input, i, node->params[2 + i], error);
    return status;
}

/* Looks for one input among the nodes. */
static bs_status maxima_find(const bs_model *model, model_maxima *m, const bs_model_input *input, bs_error *error)
{
    bs_model_walk walk;
    bs_model_node node;
    if (!input->name)
        return bs_fail(error, BS_ERROR_ARGUMENT, "an input without a name");
    bs_model_walk_begin(model, &walk);
    for (int32_t i = 0; i < model->n_nodes; i++) {
        const bs_status status = bs_model_walk_next(&walk, &node, error);
        if (status != BS_OK)
            return status;
        if (bs_op_get(node.op) == &bs_op_input && strcmp(node.name, input->name) == 0)
            return maxima_input(model, m, input, &node, error);
    }
    return bs_fail(error, BS_ERROR_ARGUMENT, "the model has no input \"%.64s\"", input->name);
}

static bs_status maxima_decide(const bs_model *model, const bs_model_build_desc *desc, model_maxima *m, bs_error *error)
{
    bs_status status = BS_OK;
    memset(m, 0, sizeof *m);
    for (int32_t i = 0; i < model->n_symbols; i++)
        m->maximum[i] = model->symbols[i].maximum;
    for (int32_t i = 0; status == BS_OK && desc && i < desc->n_inputs; i++)
        status = maxima_find(model, m, &desc->inputs[i], error);
    return status;
}

/* Symbols are numbered in the order they are made: all of them, before any node. */
static bs_status build_symbols(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    model_maxima maxima;
    const bs_status status = maxima_decide(model, desc, &maxima, error);
    if (status != BS_OK)
        return status;
    for (int32_t i = 0; i < model->n_symbols; i++) {
        bs_cursor cursor;
        char name[BS_MAX_NAME];
        bs_cursor_init(&cursor, &model->gguf.source, model->symbols[i].name_at, model->gguf.source.size);
        if (!bs_cursor_text(&cursor, name, sizeof name))
            return bs_fail(error, cursor.status, "symbol %d could not be read again", i);
        bs_symbol(graph, name, maxima.maximum[i]);
    }
    return bs_graph_check(graph, error);
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* A descriptor as the builders pass it: the name's pointer, then 4-byte fields. */
typedef union model_params {
    const char *name;
    uint8_t bytes[sizeof(const char *) + BS_MODEL_MAX_PARAMS * 4 + 8];
} model_params;

static bs_status build_node(bs_graph *graph, const bs_model_node *node, int32_t index, bs_error *error)
{
    const bs_op *op = bs_op_get(node->op);
    model_params params;
    memset(&params, 0, sizeof params);
    params.name = node->name;
    const size_t fields = (size_t)node->n_params * 4;
    if (op->params_bytes > sizeof params || sizeof params.name + fields > sizeof params)
        return bs_fail(error, BS_ERROR_LIMIT, "node %d: op \"%s\" has too many parameters", index, op->name);
    memcpy(params.bytes + sizeof params.name, node->params, fields);
    bs_graph_add(graph, node->op, node->in, node->n_in, op->params_bytes ? &params : NULL);
    return graph->status;
}

/* A net for 8-bit codes on deeper ones: u8 becomes u16, and what turns codes into numbers and back, enlarges or measures
 * them is told how many bits they have. Numbers inside the net stay the same. */
static void widen_convert(const bs_graph *graph, bs_model_node *node, int32_t bits)
{
    const bool known = node->n_in == 1 && node->in[0] > 0 && node->in[0] < graph->n_values;
    const bool from_codes = known && graph->values[node->in[0]].dtype == BS_U16, to_codes = node->params[0] == BS_U8;
    const float factor = (float)(1 << (bits - 8));
    float scale;
    memcpy(&scale, &node->params[1], sizeof scale);
    scale = scale != 0 ? scale : 1;
    scale = from_codes && !to_codes ? scale / factor : to_codes && !from_codes ? scale * factor : scale;
    memcpy(&node->params[1], &scale, sizeof scale);
}

static void widen_codes(const bs_graph *graph, bs_model_node *node, int32_t bits)
{
    const bs_op *op = bs_op_get(node->op);
    const bool convert = strcmp(op->name, "convert") == 0;
    for (int32_t i = node->n_params; i < op->n_fields && i < BS_MODEL_MAX_PARAMS; i++)
        node->params[i] = 0; /* an older file left them out */
    node->n_params = bs_min_i32(op->n_fields, BS_MODEL_MAX_PARAMS);
    for (int32_t i = 0; i < node->n_params; i++)
        if (strcmp(op->fields[i].name, "code_bits") == 0)
            node->params[i] = bits;
    if (convert)
        widen_convert(graph, node, bits);
    if ((convert || op == &bs_op_input || op == &bs_op_state) && node->params[0] == BS_U8)
        node->params[0] = BS_U16;
}

/* The state of replaying: which block comes next. */
typedef struct model_replay {
    const bs_model *model;
    bs_graph *graph;
    bs_error *error;
    int32_t next_block;
    int32_t code_bits;
} model_replay;

static bs_status replay_open_block(model_replay *r)
{
    const bs_model_block *block = &r->model->blocks[r->next_block];
    bs_cursor cursor;
    char name[BS_MAX_NAME];
    if (block->end_node > r->model->blocks[r->graph->current_block].end_node)
        return bs_fail(r->error, BS_ERROR_FORMAT, "block %d ends after the block it lies in", r->next_block);
    bs_cursor_init(&cursor, &r->model->gguf.source, block->name_at, r->model->gguf.source.size);
    if (!bs_cursor_text(&cursor, name, sizeof name))
        return bs_fail(r->error, cursor.status, "block %d could not be read again", r->next_block);
    bs_block_begin(r->graph, name);
    r->next_block++;
    return bs_graph_check(r->graph, r->error);
}

/* Ends what ends before node `index`, begins what begins there. Blocks are never empty and properly nested. */
static bs_status replay_blocks(model_replay *r, int32_t index)
{
    const bs_model *m = r->model;
    bs_status status = BS_OK;
    while (r->graph->current_block != 0 && m->blocks[r->graph->current_block].end_node == index)
        bs_block_end(r->graph);
    while (status == BS_OK && r->next_block < m->n_blocks && m->blocks[r->next_block].first_node == index)
        status = replay_open_block(r);
    return status;
}

static bs_status replay_node(model_replay *r, bs_model_node *node, int32_t index)
{
    const bs_status status = replay_blocks(r, index);
    if (status != BS_OK)
        return status;
    if (node->block != r->graph->current_block)
        return bs_fail(r->error, BS_ERROR_FORMAT, "node %d is said to be of block %d, but lies in block %d", index, node->block,
                       r->graph->current_block);
    if (r->code_bits > 8)
        widen_codes(r->graph, node, r->code_bits);
    if (build_node(r->graph, node, index, r->error) == BS_OK)
        return BS_OK;
    return r->graph->status != BS_OK ? bs_graph_check(r->graph, r->error) : BS_ERROR_LIMIT;
}

static bs_status replay_end(model_replay *r)
{
    const bs_status status = replay_blocks(r, r->model->n_nodes);
    if (status != BS_OK)
        return status;
    if (r->next_block != r->model->n_blocks || r->graph->current_block != 0)
        return bs_fail(r->error, BS_ERROR_FORMAT, "block %d is not in the order of nodes", r->next_block);
    if (r->graph->n_values - 1 != r->model->n_values)
        return bs_fail(r->error, BS_ERROR_FORMAT, "the graph has %d values, the file says %d", r->graph->n_values - 1,
                       r->model->n_values);
    return BS_OK;
}

bs_status bs_model_build(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    if (!model || !graph || graph->n_nodes != 1 || graph->n_dims != 0 || graph->n_blocks != 1)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build takes a model and an empty graph");
    if (desc && (desc->code_bits < 0 || desc->code_bits > 15))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build: %d bits a code, expected 8 .. 15", desc->code_bits);
    model_replay replay = {model, graph, error, 1, desc ? desc->code_bits : 0};
    bs_model_walk walk;
    bs_model_node node;
    bs_status status = bs_graph_check(graph, error);
    if (status == BS_OK)
        status = build_symbols(model, graph, desc, error);
    bs_model_walk_begin(model, &walk);
    for (int32_t i = 0; status == BS_OK && i < model->n_nodes; i++) {
        status = bs_model_walk_next(&walk, &node, error);
        if (status == BS_OK)
            status = replay_node(&replay, &node, i);
    }
    return status == BS_OK ? replay_end(&replay) : status;
}
/* ==== end src/model_build.c =================================================================== */

/* ==== begin src/model_record.c ================================================================ */
/* model_record.c - records: their heads, streaming from them, and the check of a whole file.
 * Relies on model.h. Must never keep state between calls, nor believe what a read brought: a file may be cut short or
 * overwritten while it is open. */
/* #include "model.h" */

/* -------------------------------------------------------------------------------------------------- heads */

static uint32_t head_u32(const uint8_t *head, size_t at)
{
    uint32_t n;
    memcpy(&n, head + at, sizeof n);
    return n;
}

static uint64_t head_u64(const uint8_t *head, size_t at)
{
    uint64_t n;
    memcpy(&n, head + at, sizeof n);
    return n;
}

static bool bytes_are_zero(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 0)
            return false;
    return true;
}

/* What is wrong with the head of that block's record; NULL: nothing. The layout is in docs/format.md. */
static const char *head_fault(const bs_model *model, int32_t index, const uint8_t *head)
{
    const bs_model_block *block = &model->blocks[index];
    if (head_u32(head, 0) != BS_MODEL_HEAD_MAGIC)
        return "does not begin with \"BSRC\"";
    if (head_u32(head, 4) != BS_MODEL_HEAD_VERSION)
        return "has a head of another version";
    if (head_u64(head, 24) != model->file_id)
        return "is of another file";
    if (head_u32(head, 8) != (uint32_t)index)
        return "is that of another block";
    if (head_u32(head, 12) != block->crc32)
        return "has another CRC-32 in its head than the file's index";
    if (head_u64(head, 16) != block->bytes)
        return "has another length in its head than the file's index";
    return bytes_are_zero(head + 32, BS_MODEL_HEAD_BYTES - 32) ? NULL : "has a head with bytes that should be zero";
}

/* ---------------------------------------------------------------------------------------------- streaming */

/* The handle and the alignment that streaming reads use. */
static bool stream_is_direct(const bs_model *model)
{
    return model->stream_file >= 0 && model->stream_alignment > 1 && !model->buffered;
}

static int64_t stream_handle(const bs_model *model)
{
    return model->stream_file >= 0 && !model->buffered ? model->stream_file : model->file;
}

uint32_t bs_model_fetch_alignment(const bs_model *model)
{
    if (bs_model_can_stream(model, NULL) != BS_OK)
        return 0;
    return stream_is_direct(model) ? model->stream_alignment : 1;
}

bs_status bs_model_can_stream(const bs_model *model, bs_error *error)
{
    if (model->version < 2)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "a model file of version %d cannot be streamed: write it anew in version %d",
                       model->version, BS_MODEL_VERSION);
    if (model->gguf.alignment % BS_MODEL_PAGE != 0)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "records aligned to %llu bytes cannot be streamed: they must be to %d",
                       (unsigned long long)model->gguf.alignment, BS_MODEL_PAGE);
    return BS_OK;
}

static bs_status stream_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const bs_model *model = user;
    if (info->handle >= (uint64_t)model->n_weights)
        return BS_ERROR_ARGUMENT;
    *block = model->weights[info->handle].block;
    *offset = model->weights[info->handle].offset;
    return BS_OK;
}

static bs_status stream_record(const void *user, int32_t index, bs_record *record)
{
    const bs_model *model = user;
    memset(record, 0, sizeof *record);
    if (index < 0 || index >= model->n_blocks)
        return BS_ERROR_ARGUMENT;
    const bs_model_block *block = &model->blocks[index];
    record->offset = block->offset;
    record->bytes = block->bytes;
    record->head_bytes = block->bytes ? BS_MODEL_HEAD_BYTES : 0;
    record->crc32 = block->crc32;
    return BS_OK;
}

/* From the handle for streaming. What went through the page cache need not stay there: it is read once a load. */
static int64_t stream_file_read(const bs_model *model, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_platform *p = model->platform;
    const int64_t file = stream_handle(model);
    const int64_t got = p->file_read(p->user, file, offset, buffer, bytes);
    if (got > 0 && p->file_forget && !stream_is_direct(model))
        p->file_forget(p->user, file, offset, (uint64_t)got);
    return got;
}

/* A direct read may ask beyond the file's end, up to the next multiple: the end comes back as a shorter read. */
static bs_status stream_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_model *model = user;
    const uint64_t size = model->gguf.source.size, mask = stream_is_direct(model) ? model->stream_alignment - 1 : 0;
    const uint64_t end = bs_add_u64(size, mask) & ~mask;
    if (((offset | bytes | (uintptr_t)buffer) & mask) != 0 || offset > end || bytes > end - offset)
        return BS_ERROR_ARGUMENT;
    const uint64_t left = offset < size ? size - offset : 0, there = left < bytes ? left : bytes;
    if (there == 0)
        return BS_OK;
    if (!model->platform)
        return bs_source_read(&model->gguf.source, offset, buffer, there);
    const int64_t got = stream_file_read(model, offset, buffer, bytes);
    return got >= 0 && (uint64_t)got >= there ? BS_OK : BS_ERROR_IO;
}

static bs_status stream_verify(const void *user, int32_t index, const void *head)
{
    const bs_model *model = user;
    if (index < 0 || index >= model->n_blocks || model->blocks[index].bytes == 0)
        return BS_ERROR_ARGUMENT;
    return head_fault(model, index, head) ? BS_ERROR_FORMAT : BS_OK;
}

void bs_model_stream_source(const bs_model *model, bs_weights *weights)
{
    if (bs_model_can_stream(model, NULL) != BS_OK)
        return;
    weights->locate = stream_locate;
    weights->record = stream_record;
    weights->fetch = stream_fetch;
    weights->verify = stream_verify;
    weights->fetch_alignment = bs_model_fetch_alignment(model);
    weights->serial = !model->gguf.source.memory && !model->gguf.source.reader.concurrent;
}

/* -------------------------------------------------------------------------------------------------- check */

static bs_status check_head(const bs_model *model, int32_t index, bs_error *error)
{
    uint8_t head[BS_MODEL_HEAD_BYTES];
    const bs_status status = bs_source_read(&model->gguf.source, model->blocks[index].offset, head, sizeof head);
    if (status != BS_OK)
        return bs_fail(error, status, "the record of block %d could not be read", index);
    const char *const fault = head_fault(model, index, head);
    return fault ? bs_fail(error, BS_ERROR_FORMAT, "the record of block %d %s", index, fault) : BS_OK;
}

static bs_status check_crc(const bs_model *model, int32_t index, bs_error *error)
{
    const bs_model_block *block = &model->blocks[index];
    uint8_t piece[512];
    uint32_t crc = 0;
    for (uint64_t at = bs_model_head_bytes(model); at < block->bytes;) {
        const uint64_t left = block->bytes - at;
        const size_t bytes = left < sizeof piece ? (size_t)left : sizeof piece;
        const bs_status status = bs_source_read(&model->gguf.source, block->offset + at, piece, bytes);
        if (status != BS_OK)
            return bs_fail(error, status, "the record of block %d could not be read", index);
        crc = bs_crc32(crc, piece, bytes);
        at += bytes;
    }
    if (crc == block->crc32)
        return BS_OK;
    return bs_fail(error, BS_ERROR_FORMAT, "block %d: CRC-32 is %08x, the file says %08x", index, (unsigned)crc,
                   (unsigned)block->crc32);
}

/* Zeros from `at` to `end`, both absolute. */
static bs_status check_gap(const bs_model *model, int32_t index, uint64_t at, uint64_t end, bs_error *error)
{
    uint8_t piece[BS_MODEL_HEAD_BYTES]; /* as long as gaps can be in files that writers make */
    while (at < end) {
        const size_t bytes = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        const bs_status status = bs_source_read(&model->gguf.source, at, piece, bytes);
        if (status != BS_OK)
            return bs_fail(error, status, "the record of block %d could not be read", index);
        if (!bytes_are_zero(piece, bytes))
            return bs_fail(error, BS_ERROR_FORMAT, "the record of block %d is not zero between its weights", index);
        at += bytes;
    }
    return BS_OK;
}

static bs_status check_gaps(const bs_model *model, int32_t index, bs_error *error)
{
    const bs_model_block *block = &model->blocks[index];
    uint64_t at = block->offset + BS_MODEL_HEAD_BYTES;
    bs_status status = BS_OK;
    for (int32_t w = block->first_weight; status == BS_OK && w < block->end_weight; w++) {
        status = check_gap(model, index, at, model->weights[w].offset, error);
        at = model->weights[w].offset + model->weights[w].bytes;
    }
    return status == BS_OK ? check_gap(model, index, at, block->offset + block->bytes, error) : status;
}

bs_status bs_model_check(const bs_model *model, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t i = 0; status == BS_OK && i < model->n_blocks; i++) {
        const bool head = model->blocks[i].bytes > 0 && model->version >= 2; /* version 1 promised neither head nor zeros */
        if (head)
            status = check_head(model, i, error);
        if (status == BS_OK)
            status = check_crc(model, i, error);
        if (status == BS_OK && head)
            status = check_gaps(model, i, error);
    }
    return status;
}
/* ==== end src/model_record.c ================================================================== */

/* ==== begin src/model_weights.c =============================================================== */
/* model_weights.c - the weights of a model file as a source for sessions, and what can be asked of a file.
 * Relies on model.h. Must never keep state between calls: several threads may read weights of one model when the
 * reader underneath allows it. */
/* #include "model.h" */

/* ----------------------------------------------------------------------------------------- weights source */

static bool model_text_again(const bs_model *model, uint64_t at, char *text, size_t bytes)
{
    bs_cursor cursor;
    bs_cursor_init(&cursor, &model->gguf.source, at, model->gguf.source.size);
    return bs_cursor_text(&cursor, text, bytes);
}

static void model_weight_info(const bs_model_weight *w, int32_t index, bs_weight_info *info)
{
    memset(info, 0, sizeof *info);
    info->dtype = (bs_dtype)w->dtype;
    info->rank = w->rank;
    info->bytes = w->bytes;
    info->handle = (uint64_t)index;
    memcpy(info->dim, w->dim, sizeof info->dim);
}

static bs_status model_weight_find(const void *user, const char *name, bs_weight_info *info)
{
    const bs_model *model = user;
    const uint64_t hash = bs_name_hash(name, strlen(name));
    char text[BS_MAX_WEIGHT_NAME];
    for (int32_t i = 0; i < model->n_weights; i++) {
        if (model->weights[i].hash != hash)
            continue;
        if (!model_text_again(model, model->weights[i].name_at, text, sizeof text))
            return BS_ERROR_IO;
        if (strcmp(text, name) != 0)
            return BS_ERROR_WEIGHTS;
        model_weight_info(&model->weights[i], i, info);
        return BS_OK;
    }
    return BS_ERROR_WEIGHTS;
}

static bs_status model_weight_load(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_model *model = user;
    if (info->handle >= (uint64_t)model->n_weights)
        return BS_ERROR_ARGUMENT;
    const bs_model_weight *w = &model->weights[info->handle];
    if (offset > w->bytes || bytes > w->bytes - offset)
        return BS_ERROR_ARGUMENT;
    return bs_source_read(&model->gguf.source, w->offset + offset, buffer, bytes);
}

static const void *model_weight_map(const void *user, const bs_weight_info *info)
{
    const bs_model *model = user;
    if (!model->gguf.source.memory || info->handle >= (uint64_t)model->n_weights)
        return NULL;
    const bs_model_weight *w = &model->weights[info->handle];
    const uint8_t *data = model->gguf.source.memory + w->offset;
    return (uintptr_t)data % bs_dtype_bytes((bs_dtype)w->dtype) == 0 ? data : NULL;
}

bs_weights bs_model_weights(const bs_model *model)
{
    bs_weights weights = {.user = model, .find = model_weight_find, .read = model_weight_load, .map = model_weight_map};
    bs_model_stream_source(model, &weights);
    return weights;
}

/* ---------------------------------------------------------------------------------------------- questions */

void bs_model_facts_get(const bs_model *model, bs_model_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    memcpy(facts->name, model->name, sizeof facts->name);
    facts->version = model->version;
    facts->opset = model->opset;
    facts->scale = model->scale;
    facts->nodes = model->n_nodes;
    facts->values = model->n_values;
    facts->blocks = model->n_blocks;
    facts->weights = model->n_weights;
    facts->symbols = model->n_symbols;
    facts->file_bytes = model->gguf.source.size;
    facts->alignment = model->gguf.alignment;
    facts->fetch_alignment = bs_model_fetch_alignment(model);
    facts->direct = facts->fetch_alignment > 1;
    for (int32_t i = 0; i < model->n_weights; i++)
        facts->weight_bytes += model->weights[i].bytes;
}

bs_graph_desc bs_model_graph_desc(const bs_model *model)
{
    /* a graph has room for four operands a node */
    const int32_t nodes = bs_max_i32(model->n_nodes, (model->n_operands + 3) / 4);
    const bs_graph_desc desc = {nodes, bs_max_i32(model->n_values, 1), (int32_t)model->text_bytes + 64};
    return desc;
}

bs_status bs_model_block_get(const bs_model *model, int32_t index, bs_model_block_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    if (index < 0 || index >= model->n_blocks)
        return BS_ERROR_ARGUMENT;
    const bs_model_block *block = &model->blocks[index];
    facts->first_node = block->first_node;
    facts->end_node = block->end_node;
    facts->weights = block->end_weight - block->first_weight;
    facts->offset = block->offset;
    facts->bytes = block->bytes;
    facts->crc32 = block->crc32;
    return model_text_again(model, block->name_at, facts->name, sizeof facts->name) ? BS_OK : BS_ERROR_IO;
}

bs_status bs_model_weight_get(const bs_model *model, int32_t index, char *name, int32_t *block, bs_weight_info *info)
{
    if (index < 0 || index >= model->n_weights)
        return BS_ERROR_ARGUMENT;
    const bs_model_weight *w = &model->weights[index];
    model_weight_info(w, index, info);
    if (block)
        *block = w->block;
    if (name && !model_text_again(model, w->name_at, name, BS_MAX_WEIGHT_NAME))
        return BS_ERROR_IO;
    return BS_OK;
}
/* ==== end src/model_weights.c ================================================================= */

/* ==== begin src/model.c ======================================================================= */
/* model.c - the index of a model file: what it says of itself, its symbols, blocks, weights and nodes, each checked once.
 * Relies on model.h. Must never trust a number of the file, nor read weights. */
/* #include "model.h" */

/* What the opening functions share. */
typedef struct model_open {
    bs_model *model;
    bs_arena *arena;
    bs_error *error;
} model_open;

/* ------------------------------------------------------------------------------------------ single values */

static bs_status model_fail_key(const model_open *o, const char *key, const char *why)
{
    return bs_fail(o->error, BS_ERROR_FORMAT, "key \"%s\" %s", key, why);
}

static bs_status model_text(const model_open *o, const char *key, bool required, char *text, size_t bytes)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    text[0] = 0;
    if (!found)
        return required ? model_fail_key(o, key, "is missing") : BS_OK;
    if (found->is_array || found->type != BS_GGUF_STRING)
        return model_fail_key(o, key, "is not a string");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    return bs_cursor_text(&cursor, text, bytes) ? BS_OK : model_fail_key(o, key, "is too long, or not plain ASCII");
}

/* Absent: *number is left as it is. */
static bs_status model_u32(const model_open *o, const char *key, uint32_t most, int32_t *number)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    if (!found)
        return BS_OK;
    if (found->is_array || found->type != BS_GGUF_U32)
        return model_fail_key(o, key, "is not a u32");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    const uint32_t n = bs_cursor_u32(&cursor);
    if (cursor.status != BS_OK || n > most)
        return model_fail_key(o, key, "is out of range");
    *number = (int32_t)n;
    return BS_OK;
}

/* What every record's head repeats. */
static bs_status model_file_id(const model_open *o)
{
    const char *const key = "brainstorm.file.id";
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    if (o->model->version < 2)
        return BS_OK;
    if (!found)
        return model_fail_key(o, key, "is missing");
    if (found->is_array || found->type != BS_GGUF_U64)
        return model_fail_key(o, key, "is not a u64");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    o->model->file_id = bs_cursor_u64(&cursor);
    return cursor.status == BS_OK ? BS_OK : model_fail_key(o, key, "could not be read");
}

static bs_status model_identity(const model_open *o)
{
    char architecture[16];
    bs_model *m = o->model;
    bs_status status = model_text(o, "general.architecture", true, architecture, sizeof architecture);
    if (status == BS_OK && strcmp(architecture, "brainstorm") != 0)
        return bs_fail(o->error, BS_ERROR_FORMAT, "a GGUF file of architecture \"%s\", not a brainstorm model", architecture);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.version", INT32_MAX, &m->version);
    if (status == BS_OK && (m->version < 1 || m->version > BS_MODEL_VERSION))
        return bs_fail(o->error, BS_ERROR_VERSION, "model file version %d, expected 1..%d", m->version, BS_MODEL_VERSION);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.opset", INT32_MAX, &m->opset);
    if (status == BS_OK && (m->opset < 1 || m->opset > BS_MODEL_OPSET))
        return bs_fail(o->error, BS_ERROR_VERSION, "the file needs op set %d, this library knows 1..%d", m->opset,
                       BS_MODEL_OPSET);
    return status == BS_OK ? model_file_id(o) : status;
}

static bs_status model_labels(const model_open *o)
{
    bs_status status = model_text(o, "brainstorm.model.name", false, o->model->name, sizeof o->model->name);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.model.scale", 64, &o->model->scale);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.value.count", BS_MODEL_MAX_NODES * BS_MAX_OUTPUTS, &o->model->n_values);
    return status;
}

/* ------------------------------------------------------------------------------------------------- arrays */

/* How many elements an array has; an array without elements is not written at all. */
static bs_status model_count(const model_open *o, const char *key, int32_t most, int32_t *count)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    *count = 0;
    if (!found)
        return BS_OK;
    if (!found->is_array)
        return model_fail_key(o, key, "is not an array");
    if (found->count > (uint64_t)most)
        return bs_fail(o->error, BS_ERROR_LIMIT, "key \"%s\" has %llu elements, at most %d are supported", key,
                       (unsigned long long)found->count, most);
    *count = (int32_t)found->count;
    return BS_OK;
}

/* A cursor over an array of `count` elements of `type`. */
static bs_status model_array(const model_open *o, const char *key, bs_gguf_type type, int64_t count, bs_cursor *cursor)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    bs_gguf_cursor(&o->model->gguf, found, cursor);
    if (!found && count == 0)
        return BS_OK;
    if (!found)
        return model_fail_key(o, key, "is missing");
    if (!found->is_array || found->type != (uint32_t)type)
        return model_fail_key(o, key, "is not an array of the expected type");
    if (found->count != (uint64_t)count)
        return bs_fail(o->error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements, expected %lld", key,
                       (unsigned long long)found->count, (long long)count);
    return BS_OK;
}

static bs_status model_fail_entry(const model_open *o, const char *what, int32_t index, const char *why)
{
    return bs_fail(o->error, BS_ERROR_FORMAT, "%s %d %s", what, index, why);
}

static void *model_take(const model_open *o, int32_t count, size_t each, bs_status *status)
{
    const uint64_t bytes = bs_mul_u64((uint64_t)(count > 0 ? count : 1), each); /* capped counts */
    void *memory = bs_arena_take(o->arena, (size_t)bytes);
    if (!memory)
        *status = bs_fail_arena(o->error, o->arena, bytes, "the index of a model file");
    else
        memset(memory, 0, (size_t)bytes);
    return memory;
}

/* ------------------------------------------------------------------------------------------------ symbols */

static bs_status model_symbols(const model_open *o)
{
    bs_model *m = o->model;
    bs_cursor name, maximum;
    char text[BS_MAX_NAME];
    bs_status status = model_count(o, "brainstorm.symbol.name", BS_MODEL_MAX_SYMBOLS, &m->n_symbols);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.symbol.name", BS_GGUF_STRING, m->n_symbols, &name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.symbol.maximum", BS_GGUF_I64, m->n_symbols, &maximum);
    for (int32_t i = 0; status == BS_OK && i < m->n_symbols; i++) {
        m->symbols[i].name_at = name.at;
        m->symbols[i].maximum = bs_cursor_i64(&maximum);
        if (!bs_cursor_text(&name, text, sizeof text))
            return model_fail_entry(o, "symbol", i, "has a bad name");
        if (maximum.status != BS_OK || m->symbols[i].maximum < 1)
            return model_fail_entry(o, "symbol", i, "has a bad maximum");
        m->text_bytes += strlen(text) + 1;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------- blocks */

typedef struct model_block_cursors {
    bs_cursor name, first, end, tensor, bytes, crc32;
} model_block_cursors;

static bs_status model_block_arrays(const model_open *o, model_block_cursors *c)
{
    const int32_t n = o->model->n_blocks;
    bs_status status = model_array(o, "brainstorm.block.name", BS_GGUF_STRING, n, &c->name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.first_node", BS_GGUF_I32, n, &c->first);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.end_node", BS_GGUF_I32, n, &c->end);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.tensor", BS_GGUF_I32, n, &c->tensor);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.bytes", BS_GGUF_U64, n, &c->bytes);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.crc32", BS_GGUF_U32, n, &c->crc32);
    return status;
}

/* The record of a block is a whole tensor of bytes; blocks take tensors in order, so none is taken twice. */
static bs_status model_block_record(const model_open *o, int32_t index, int32_t number, int32_t *last)
{
    const bs_gguf *gguf = &o->model->gguf;
    bs_model_block *block = &o->model->blocks[index];
    if (number == -1)
        return block->bytes == 0 ? BS_OK : model_fail_entry(o, "block", index, "has bytes but no tensor");
    if (number <= *last || (uint32_t)number >= gguf->n_tensors)
        return model_fail_entry(o, "block", index, "names a tensor that does not exist or is taken");
    const bs_gguf_tensor *tensor = &gguf->tensors[number];
    if (tensor->type != BS_GGUF_TENSOR_I8 || tensor->rank != 1 || tensor->bytes != block->bytes)
        return model_fail_entry(o, "block", index, "does not have the bytes of its tensor");
    if (block->bytes < bs_model_head_bytes(o->model))
        return model_fail_entry(o, "block", index, "has a record without room for its head");
    block->offset = tensor->offset;
    *last = number;
    return BS_OK;
}

static bs_status model_block_read(const model_open *o, model_block_cursors *c, int32_t index, int32_t *last)
{
    bs_model_block *block = &o->model->blocks[index];
    char text[BS_MAX_NAME];
    block->name_at = c->name.at;
    if (!bs_cursor_text(&c->name, text, sizeof text) || !text[0])
        return model_fail_entry(o, "block", index, "has a bad name");
    o->model->text_bytes += strlen(text) + 1;
    block->first_node = bs_cursor_i32(&c->first);
    block->end_node = bs_cursor_i32(&c->end);
    block->bytes = bs_cursor_u64(&c->bytes);
    block->crc32 = bs_cursor_u32(&c->crc32);
    const int32_t tensor = bs_cursor_i32(&c->tensor);
    if (c->first.status || c->end.status || c->bytes.status || c->crc32.status || c->tensor.status)
        return model_fail_entry(o, "block", index, "could not be read");
    const bool whole = block->first_node == 0 && block->end_node == o->model->n_nodes;
    const bool range = 0 <= block->first_node && block->first_node < block->end_node && block->end_node <= o->model->n_nodes;
    if (index == 0 ? !whole : !range)
        return model_fail_entry(o, "block", index, "has a bad range of nodes");
    return model_block_record(o, index, tensor, last);
}

static bs_status model_blocks(const model_open *o)
{
    bs_model *m = o->model;
    model_block_cursors cursors;
    int32_t last = -1;
    bs_status status = model_count(o, "brainstorm.block.name", BS_MAX_BLOCKS, &m->n_blocks);
    if (status == BS_OK && m->n_blocks == 0)
        return model_fail_key(o, "brainstorm.block.name", "is missing");
    if (status == BS_OK)
        status = model_block_arrays(o, &cursors);
    if (status == BS_OK)
        m->blocks = model_take(o, m->n_blocks, sizeof *m->blocks, &status);
    for (int32_t i = 0; status == BS_OK && i < m->n_blocks; i++)
        status = model_block_read(o, &cursors, i, &last);
    return status;
}

/* ------------------------------------------------------------------------------------------------ weights */

typedef struct model_weight_cursors {
    bs_cursor name, block, dtype, rank, dims, offset;
} model_weight_cursors;

static bs_status model_weight_arrays(const model_open *o, model_weight_cursors *c)
{
    const int32_t n = o->model->n_weights;
    int32_t dims = 0;
    bs_status status = model_count(o, "brainstorm.weight.dims", BS_MODEL_MAX_WEIGHTS * BS_MAX_RANK, &dims);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.name", BS_GGUF_STRING, n, &c->name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.block", BS_GGUF_I32, n, &c->block);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.dtype", BS_GGUF_I32, n, &c->dtype);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.rank", BS_GGUF_I32, n, &c->rank);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.dims", BS_GGUF_I64, dims, &c->dims);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.offset", BS_GGUF_U64, n, &c->offset);
    return status;
}

static bs_status model_weight_shape(const model_open *o, model_weight_cursors *c, int32_t index)
{
    bs_model_weight *w = &o->model->weights[index];
    w->dtype = bs_cursor_i32(&c->dtype);
    w->rank = bs_cursor_i32(&c->rank);
    if (c->dtype.status || w->dtype < 0 || w->dtype >= BS_DTYPE_COUNT)
        return model_fail_entry(o, "weight", index, "has a type that does not exist");
    if (c->rank.status || w->rank < 1 || w->rank > BS_MAX_RANK)
        return model_fail_entry(o, "weight", index, "has a rank outside 1..4");
    w->bytes = bs_dtype_bytes((bs_dtype)w->dtype);
    for (int32_t i = 0; i < w->rank; i++) {
        w->dim[i] = bs_cursor_i64(&c->dims);
        if (c->dims.status || w->dim[i] < 1)
            return model_fail_entry(o, "weight", index, "has a dimension below 1, or none");
        w->bytes = bs_mul_u64(w->bytes, (uint64_t)w->dim[i]);
    }
    return BS_OK;
}

/* Weights are listed block by block in the order of their bytes: ranges are contiguous, nothing overlaps. */
static bs_status model_weight_place(const model_open *o, model_weight_cursors *c, int32_t index)
{
    bs_model *m = o->model;
    bs_model_weight *w = &m->weights[index];
    w->block = bs_cursor_i32(&c->block);
    const uint64_t offset = bs_cursor_u64(&c->offset);
    const int32_t before = index ? w[-1].block : 0;
    if (c->block.status || w->block < before || w->block >= m->n_blocks)
        return model_fail_entry(o, "weight", index, "is not in the order of blocks");
    bs_model_block *block = &m->blocks[w->block];
    const bool first = index == 0 || w->block != before;
    const uint64_t used = first ? bs_model_head_bytes(m) : w[-1].offset + w[-1].bytes - block->offset;
    if (c->offset.status || offset % 256 != 0 || offset < used || bs_add_u64(offset, w->bytes) > block->bytes)
        return model_fail_entry(o, "weight", index, "does not lie in its block's record");
    if (first)
        block->first_weight = index;
    block->end_weight = index + 1;
    w->offset = block->offset + offset;
    return BS_OK;
}

static bs_status model_weight_read(const model_open *o, model_weight_cursors *c, int32_t index)
{
    char text[BS_MAX_WEIGHT_NAME];
    bs_model_weight *w = &o->model->weights[index];
    w->name_at = c->name.at;
    if (!bs_cursor_text(&c->name, text, sizeof text) || !text[0])
        return model_fail_entry(o, "weight", index, "has a bad name");
    w->hash = bs_name_hash(text, strlen(text));
    const bs_status status = model_weight_shape(o, c, index);
    return status == BS_OK ? model_weight_place(o, c, index) : status;
}

static bs_status model_weights_unique(const model_open *o)
{
    const size_t mark = o->arena->used;
    bs_status status = BS_OK;
    uint64_t *hashes = model_take(o, o->model->n_weights, sizeof *hashes, &status);
    if (!hashes)
        return status;
    for (int32_t i = 0; i < o->model->n_weights; i++)
        hashes[i] = o->model->weights[i].hash;
    if (!bs_hashes_unique(hashes, (size_t)o->model->n_weights))
        status = bs_fail(o->error, BS_ERROR_FORMAT, "a weight's name occurs twice");
    o->arena->used = mark;
    return status;
}

static bs_status model_weights(const model_open *o)
{
    bs_model *m = o->model;
    model_weight_cursors cursors;
    bs_status status = model_count(o, "brainstorm.weight.name", BS_MODEL_MAX_WEIGHTS, &m->n_weights);
    if (status == BS_OK)
        status = model_weight_arrays(o, &cursors);
    if (status == BS_OK)
        m->weights = model_take(o, m->n_weights, sizeof *m->weights, &status);
    for (int32_t i = 0; status == BS_OK && i < m->n_weights; i++)
        status = model_weight_read(o, &cursors, i);
    if (status == BS_OK && bs_cursor_left(&cursors.dims) != 0)
        return model_fail_key(o, "brainstorm.weight.dims", "has more dimensions than its weights");
    return status == BS_OK ? model_weights_unique(o) : status;
}

/* -------------------------------------------------------------------------------------------------- nodes */

static bs_status model_node_arrays(const model_open *o)
{
    static const struct { const char *key; bs_gguf_type type; } arrays[] = {
        {"brainstorm.node.op", BS_GGUF_STRING},       {"brainstorm.node.name", BS_GGUF_STRING},
        {"brainstorm.node.inputs.count", BS_GGUF_I32}, {"brainstorm.node.params.count", BS_GGUF_I32},
        {"brainstorm.node.block", BS_GGUF_I32},
    };
    bs_cursor cursor;
    bs_status status = model_count(o, "brainstorm.node.op", BS_MODEL_MAX_NODES, &o->model->n_nodes);
    if (status == BS_OK && o->model->n_nodes == 0)
        return model_fail_key(o, "brainstorm.node.op", "is missing");
    for (size_t i = 0; status == BS_OK && i < sizeof arrays / sizeof *arrays; i++)
        status = model_array(o, arrays[i].key, arrays[i].type, o->model->n_nodes, &cursor);
    return status;
}

static bs_status model_node_lists(const model_open *o, int32_t *n_params)
{
    bs_cursor cursor;
    bs_status status = model_count(o, "brainstorm.node.inputs", BS_MODEL_MAX_OPERANDS, &o->model->n_operands);
    if (status == BS_OK)
        status = model_count(o, "brainstorm.node.params", BS_MODEL_MAX_NODES * BS_MODEL_MAX_PARAMS, n_params);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.node.inputs", BS_GGUF_I32, o->model->n_operands, &cursor);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.node.params", BS_GGUF_I32, *n_params, &cursor);
    return status;
}

/* One walk over all nodes: each can be decoded, the flat lists are used up, and the text of the graph is counted. */
static bs_status model_nodes(const model_open *o)
{
    bs_model *m = o->model;
    bs_model_walk walk;
    bs_model_node node;
    int32_t n_params = 0;
    bs_status status = model_node_lists(o, &n_params);
    if (status != BS_OK)
        return status;
    bs_model_walk_begin(m, &walk);
    for (int32_t i = 0; i < m->n_nodes; i++) {
        status = bs_model_walk_next(&walk, &node, o->error);
        if (status != BS_OK)
            return status;
        m->text_bytes += bs_op_get(node.op)->params_bytes + sizeof(void *) + strlen(node.name) + 1;
    }
    if (bs_cursor_left(&walk.in) || bs_cursor_left(&walk.param))
        return bs_fail(o->error, BS_ERROR_FORMAT, "there are more inputs or parameters than nodes account for");
    return BS_OK;
}

/* ---------------------------------------------------------------------------------------------- all of it */

bs_status bs_model_index(bs_model *model, bs_arena *arena, bs_error *error)
{
    bs_status (*const parts[])(const model_open *) = {model_identity, model_labels, model_symbols, model_node_arrays,
                                                      model_blocks, model_weights, model_nodes};
    const model_open open = {model, arena, error};
    bs_status status = BS_OK;
    for (size_t i = 0; status == BS_OK && i < sizeof parts / sizeof *parts; i++)
        status = parts[i](&open);
    return status;
}
/* ==== end src/model.c ========================================================================= */

/* ==== begin src/model_open.c ================================================================== */
/* model_open.c - where the bytes of a model file come from: memory, a caller's reader, or a file of the platform.
 * Owns the two handles of a file: one for its index and for weights that stay, one for streaming.
 * Relies on model.h. Must never leave a handle open or arena bytes taken after a failure. */
/* #include "model.h" */

/* A model without a source. NULL when it does not fit. */
static bs_model *model_create(bs_arena *arena, bs_error *error)
{
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "the arena is NULL");
        return NULL;
    }
    bs_model *model = bs_arena_take(arena, sizeof *model);
    if (!model) {
        bs_fail_arena(error, arena, sizeof *model, "a model file");
        return NULL;
    }
    memset(model, 0, sizeof *model);
    model->stream_file = -1;
    model->stream_alignment = 1;
    return model;
}

/* Gives everything back on failure. */
static bs_model *model_finish(bs_model *model, const bs_source *source, bs_arena *arena, size_t mark, bs_error *error)
{
    bs_status status = bs_gguf_open(&model->gguf, source, arena, error);
    if (status == BS_OK)
        status = bs_model_index(model, arena, error);
    if (status == BS_OK)
        return model;
    bs_model_close(model);
    arena->used = mark;
    return NULL;
}

bs_model *bs_model_open_memory(bs_arena *arena, const void *data, size_t bytes, bs_error *error)
{
    const size_t mark = arena ? arena->used : 0;
    if (!data) {
        bs_fail(error, BS_ERROR_ARGUMENT, "the model's memory is NULL");
        return NULL;
    }
    const bs_source source = {data, {NULL, NULL, 0, 1}, bytes};
    bs_model *model = model_create(arena, error);
    return model ? model_finish(model, &source, arena, mark, error) : NULL;
}

bs_model *bs_model_open_reader(bs_arena *arena, const bs_reader *reader, bs_error *error)
{
    const size_t mark = arena ? arena->used : 0;
    if (!reader || !reader->read) {
        bs_fail(error, BS_ERROR_ARGUMENT, "the reader is NULL");
        return NULL;
    }
    const bs_source source = {NULL, *reader, reader->size};
    bs_model *model = model_create(arena, error);
    return model ? model_finish(model, &source, arena, mark, error) : NULL;
}

static int64_t model_file_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const bs_model *model = user;
    return model->platform->file_read(model->platform->user, model->file, offset, buffer, bytes);
}

static bool model_stream_fits(uint64_t bytes, uint64_t wanted_bytes, uint32_t alignment)
{
    return bytes == wanted_bytes && alignment > 0 && alignment <= BS_MODEL_PAGE && (alignment & (alignment - 1)) == 0;
}

/* A second handle, for large reads past the page cache. What does not work is left: the first handle serves as well. */
static void model_open_stream(bs_model *model, bs_arena *arena, const char *path, uint64_t wanted_bytes)
{
    const bs_platform *p = model->platform;
    const size_t mark = arena->used;
    uint8_t *room = p->file_open_direct ? bs_arena_take(arena, 2 * BS_PROBE_BYTES - BS_ALIGNMENT) : NULL;
    arena->used = mark; /* nothing else is taken while the probe is in use */
    if (!room)
        return;
    uint64_t bytes = 0;
    uint32_t alignment = 0;
    uint8_t *probe = room + (-(uintptr_t)room & (BS_PROBE_BYTES - 1));
    model->stream_file = p->file_open_direct(p->user, path, probe, &bytes, &alignment);
    if (model->stream_file < 0)
        return;
    model->stream_alignment = alignment;
    if (model_stream_fits(bytes, wanted_bytes, alignment))
        return;
    p->file_close(p->user, model->stream_file);
    model->stream_file = -1;
    model->stream_alignment = 1;
}

bs_model *bs_model_open_file(bs_arena *arena, const bs_platform *platform, const char *path, bs_error *error)
{
    const bs_platform *p = platform ? platform : bs_platform_default();
    const size_t mark = arena ? arena->used : 0;
    if (!p || !p->file_open || !p->file_read || !p->file_close || !path) {
        bs_fail(error, BS_ERROR_ARGUMENT, "opening a model takes a path and a platform with files");
        return NULL;
    }
    bs_model *model = model_create(arena, error);
    if (!model)
        return NULL;
    bs_source source = {NULL, {model, model_file_read, 0, 1}, 0};
    model->file = p->file_open(p->user, path, &source.size);
    if (model->file < 0) {
        arena->used = mark;
        bs_fail(error, BS_ERROR_IO, "the model file \"%.128s\" cannot be opened", path);
        return NULL;
    }
    model->platform = p;
    model_open_stream(model, arena, path, source.size);
    return model_finish(model, &source, arena, mark, error);
}

void bs_model_close(bs_model *model)
{
    if (!model)
        return;
    const bs_platform *p = model->platform;
    if (p && model->stream_file >= 0)
        p->file_close(p->user, model->stream_file);
    if (p)
        p->file_close(p->user, model->file);
    model->platform = NULL;
    model->stream_file = -1;
}

void bs_model_use_buffered(bs_model *model)
{
    model->buffered = true;
}
/* ==== end src/model_open.c ==================================================================== */
