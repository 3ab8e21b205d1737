/* brainstorm_cuda.cu - 0.1.0.   MIT licence, see LICENSE.   Documentation: brainstorm.h
 * Generated from src/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.
 * sha256 of the parts: 33872eeaee113fab3117c021ae5ed73f16af4945ec225235346be2cf784ab234
 */
#include "brainstorm.h"

#if BS_VERSION_MAJOR != 0 || BS_VERSION_MINOR != 1 || BS_VERSION_PATCH != 0
#error "brainstorm.h and brainstorm_cuda.cu are of different versions"
#endif

/* ==== begin brainstorm_replay.h =============================================================== */
/* brainstorm_replay.h - reading what a run has recorded, and running it again on a scripted clock.
 * MIT licence, see LICENSE.
 *
 * For programs on a workstation that look into profiles, which bs_profile_create of brainstorm.h records. A program
 * that only runs networks does without this header. The functions are in brainstorm.c, unless BS_NO_PROFILE,
 * BS_NO_STREAM or BS_NO_REPLAY leaves them out; it compiles without this file beside it. Limits: the table of
 * brainstorm.h.
 *
 * CONTENTS
 *   events      what a profile has of a run
 *   profiles    the file, event by event
 *   traces      what a run needed from storage
 *   replay      the same run with other slots, policies and storage
 */
#ifndef BRAINSTORM_REPLAY_H
#define BRAINSTORM_REPLAY_H

/* #include "brainstorm.h" */

#if BS_VERSION_MAJOR != 0 || BS_VERSION_MINOR != 1 || BS_VERSION_PATCH != 0
#error "brainstorm.h and brainstorm_replay.h are of different versions"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------- events
 * A profile (docs/profile.md) is little-endian: a header that names units, routers and phases, then events. */
typedef enum bs_event_kind {
    BS_EVENT_NONE,
    BS_EVENT_RUN,      /* a run, when it is over: subject = its number */
    BS_EVENT_DECISION, /* subject = router, index = path, value = cells; one for each path with cells */
    BS_EVENT_PHASE,    /* a phase was reached: subject = phase, value = units needed; end = when it was left */
    BS_EVENT_USE,      /* subject = unit, index = phase, value = bs_use; start, end: computed */
    BS_EVENT_STALL,    /* subject = unit waited for first, index = phase */
    BS_EVENT_GUESS,    /* a look-ahead's prediction: subject = unit, index = phase, value = strength, 0 .. 7 */
    BS_EVENT_READ,     /* a chunk: subject = unit, index = chunk, value = bytes; thread = lane */
    BS_EVENT_PREPARE,  /* the same chunk: packed into its slot */
    BS_EVENT_LOADED,   /* subject = unit, index = 1: begun by a guess; start = when its load began */
    BS_EVENT_EVICT,    /* subject = unit, index = 1: to make room for a guess */
    BS_EVENT_DROP,     /* subject = unit: a load was given up */
    BS_EVENT_DROPPED,  /* value = events that found no room, since the last of these */
    BS_EVENT_OP,       /* subject = node, index = 1: in a tile, by one thread; else all share the work; value = rows */
    BS_EVENT_TILE,     /* its ops come before it: subject = router, index = path, value = rows; 0, 0: no path */
    BS_EVENT_COUNT
} bs_event_kind;

typedef enum bs_use { BS_USE_HIT, BS_USE_LATE, BS_USE_MISS } bs_use;

typedef struct bs_event {
    uint64_t start_ns, end_ns; /* of the platform's clock; equal where it is a moment */
    uint64_t value;
    int32_t subject, index;
    int16_t kind;   /* bs_event_kind */
    int16_t thread; /* lane of reads; of ops and tiles 0 .. threads - 1 */
    int32_t reserved; /* 0 */
} bs_event;

/* --------------------------------------------------------------------------------------------- profiles */
#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)
/* Reads a profile again, event by event. The file is hostile: every count and number is checked, kinds of events that
 * are not known are passed over, and a last event that was cut off is left out. */
typedef struct bs_profile_reader bs_profile_reader;
typedef struct bs_profile_facts {
    int32_t routers, units, phases;
    uint64_t events;     /* in the file, of any kind */
    uint64_t torn_bytes; /* of an event cut off at the end */
    uint64_t slot_bytes, chunk_bytes;
    int32_t policy, speculation;
    int32_t nodes; /* 0: ops were not recorded */
} bs_profile_facts;
typedef struct bs_profile_router_facts {
    char name[BS_MAX_NAME];
    int32_t paths;
} bs_profile_router_facts;
/* Its tables lie in `arena`: some 100 bytes a unit and a router, 200 a node, 16 a phase, and 5000. reader: copied; used
 * by bs_profile_next until the end. NULL on failure, and the arena is as it was. There is nothing to close. */
bs_profile_reader *bs_profile_open(bs_arena *arena, const bs_reader *reader, bs_error *error);
void bs_profile_facts_get(const bs_profile_reader *profile, bs_profile_facts *facts);
/* from 1 */
bs_status bs_profile_router_get(const bs_profile_reader *profile, int32_t router, bs_profile_router_facts *facts);
/* From 0. read_bytes (may be NULL): of storage. units: room for `n_units` numbers (may be NULL). */
bs_status bs_profile_unit_get(const bs_profile_reader *profile, int32_t unit, bs_stream_unit_facts *facts,
                              uint64_t *read_bytes);
bs_status bs_profile_phase_get(const bs_profile_reader *profile, int32_t phase, bs_stream_phase_facts *facts,
                               int32_t *units);
/* A node, from 1, as bs_graph_node_get told of it, but: op, name and block's name are text of the profile. */
typedef struct bs_profile_node_facts {
    const char *op, *name, *block;
    int32_t router, path; /* whose rows it works on; router 0: outside all paths */
    double flops, bytes, weight_bytes;
} bs_profile_node_facts;
bs_status bs_profile_node_get(const bs_profile_reader *profile, int32_t node, bs_profile_node_facts *facts);
/* The next event, its subject and index in range and its end not before its start. False at the end (status of `error`:
 * BS_OK), or when the event is malformed or cannot be read. */
bool bs_profile_next(bs_profile_reader *profile, bs_event *event, bs_error *error);
void bs_profile_rewind(bs_profile_reader *profile); /* to the first event */
#endif

/* ----------------------------------------------------------------------------------------------- traces */
/* What a run needed from storage: made from a profile, or by hand. */
typedef struct bs_trace_unit {
    char name[BS_MAX_NAME];
    uint64_t read_bytes, slot_bytes;
} bs_trace_unit;
typedef struct bs_trace_phase {
    int32_t router; /* from 1; 0: every visit needs all of its units */
    int32_t first_unit, n_units; /* in phase_units, behind those of the phase before */
} bs_trace_phase;
typedef struct bs_trace_visit {
    int32_t phase;
    int32_t first_use, n_uses;
    int32_t first_guess, n_guesses; /* look-aheads made before this visit, since the one before */
    uint64_t before_ns;             /* computed since the visit before, without its uses */
} bs_trace_visit;
typedef struct bs_trace_use {
    int32_t unit;
    int32_t outcome; /* bs_use of the run that was recorded; -1 unknown */
    uint64_t compute_ns;
} bs_trace_use;
typedef struct bs_trace_guess {
    int32_t phase, unit; /* unit -1: this phase is predicted to need nothing */
    int32_t strength;    /* 0 .. 7: how clear the choice was, compared with what is usual */
} bs_trace_guess;
typedef struct bs_trace {
    int32_t n_units, n_phases, n_phase_units, n_visits, n_uses, n_guesses;
    const bs_trace_unit *units;
    const bs_trace_phase *phases;
    const int32_t *phase_units;
    const bs_trace_visit *visits;
    const bs_trace_use *uses;
    const bs_trace_guess *guesses;
    /* Of the run that was recorded; 0 unknown. */
    uint64_t slot_bytes, chunk_bytes, lost_events;
    int32_t policy, speculation;
    double ns_per_byte, prepare_ns_per_byte; /* measured reads */
} bs_trace;
#if !defined(BS_NO_PROFILE) && !defined(BS_NO_REPLAY)
/* Reads and checks a profile (a hostile file). What it points to lies in `arena`, some 100 bytes a use. */
bs_status bs_trace_load(bs_arena *arena, const bs_reader *reader, bs_trace *trace, bs_error *error);
#endif

/* ----------------------------------------------------------------------------------------------- replay */
#if !defined(BS_NO_STREAM) && !defined(BS_NO_REPLAY)
/* The same queue, slots, policies and predictors as in a session, on a scripted clock: one storage device that reads
 * one chunk at a time, one thread that computes. */
typedef struct bs_replay_desc {
    uint64_t slot_bytes;
    uint64_t bytes_per_second; /* of storage; required */
    uint64_t latency_ns;       /* of a read */
    double prepare_ns_per_byte;
    int32_t chunk_bytes; /* [262144] */
    int32_t lanes;       /* [2] that prepare; reads take turns */
    bs_stream_desc stream;
} bs_replay_desc;
typedef struct bs_replay_result {
    bs_stream_stats stats;
    bs_prediction predictions[BS_PREDICTOR_COUNT];
    uint64_t time_ns, compute_ns;
    uint64_t oracle_ns; /* perfect knowledge: reads in the order of need, each as soon as what is needed later can make
                           room: load_i = max(load_i-1, free_i) + read_i; done_i = max(done_i-1, load_i) + compute_i, at
                           the best of several limits on how far ahead is read (0: Belady's replacement on demand) */
    uint64_t oracle_bytes;
} bs_replay_result;
/* workspace: bs_replay_bytes. `result` is of the whole trace. */
size_t bs_replay_bytes(const bs_trace *trace);
bs_status bs_replay(const bs_trace *trace, const bs_replay_desc *desc, bs_arena *workspace, bs_replay_result *result,
                    bs_error *error);
#endif

#ifdef __cplusplus
}
#endif
#endif
/* ==== end brainstorm_replay.h ================================================================= */

#if defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 177
#elif defined(__CUDACC__)
#pragma diag_suppress 177
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#endif

/* ==== begin src/cuda/cuda.cu ================================================================== */
/* cuda.cu - all of the CUDA backend, bottom to top: brainstorm_cuda.cu is generated from it (tools/amalgamate.py). */
/* ==== begin src/cuda/portable.cuh ============================================================= */
/* portable.cuh - the few constructs in which a CUDA compiler and the emulation of the tests differ.
 * Compiled by nvcc, or with BS_CUDA_CPU by a C++ compiler: then tests/cuda_cpu runs every kernel on the CPU.
 * Must never be needed by host code alone. */
#ifndef BS_CUDA_PORTABLE
#define BS_CUDA_PORTABLE

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu.h"
#define BS_CU_PEEK(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#else
#include <cuda_runtime.h>
#define BS_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define BS_SHARED(type, name, dims) __shared__ type name dims
/* A word that another block may be writing. */
#define BS_CU_PEEK(word) (*(const volatile int32_t *)(word))
#define BS_DYNAMIC_SHARED(type, name)                        \
    extern __shared__ __align__(16) uint8_t bs_cu_dynamic[]; \
    type *name = reinterpret_cast<type *>(bs_cu_dynamic)
#endif
/* A kernel argument that is read in place: without this, taking its address copies it for every thread. */
#if defined(__CUDACC__) && CUDART_VERSION >= 11070 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700)
#define BS_CU_ARGUMENT const __grid_constant__
#else
#define BS_CU_ARGUMENT const
#endif
#include <cuda_fp16.h>

/* a b + c with the product rounded before the sum, as in the CPU's scalar kernels. The compiler may round plain a * b +
 * c once or twice, and decides anew in each function; but the same formula is compiled for launches and for tiles, for
 * words and for single elements, and all must give the same bytes. Where one rounding is wanted, fmaf says so. So
 * nothing is left to fuse: tests/cuda_build.sh checks that -fmad=false changes no function. */
__device__ __forceinline__ float bs_cu_mul_add(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }

/* This thread of its block, and its warp; how many there are. */
__device__ __forceinline__ int32_t bs_cu_thread(void) { return (int32_t)threadIdx.x; }
__device__ __forceinline__ int32_t bs_cu_threads(void) { return (int32_t)blockDim.x; }
__device__ __forceinline__ int32_t bs_cu_lane(void) { return (int32_t)(threadIdx.x % 32); }
__device__ __forceinline__ int32_t bs_cu_warp(void) { return (int32_t)(threadIdx.x / 32); }
__device__ __forceinline__ int32_t bs_cu_warps(void) { return (int32_t)(blockDim.x / 32); }

/* This thread again, inside of a loop: what follows from it is worked out there, and takes no registers around it. */
__device__ __forceinline__ int32_t bs_cu_thread_here(void)
{
    int32_t thread = (int32_t)threadIdx.x;
#ifndef BS_CUDA_CPU
    asm volatile("" : "+r"(thread)); /* not what it was before, as far as the compiler knows */
#endif
    return thread;
}

/* The sum over each group of `lanes` lanes of a warp, in all of its lanes. */
template <typename T> __device__ __forceinline__ T bs_cu_lanes_sum(T v, int32_t lanes = 32)
{
    for (int32_t m = lanes / 2; m > 0; m /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}

/* The sum over all threads of a block, in every thread. sums: [warps], in shared memory. */
__device__ inline uint64_t bs_cu_sum_threads(uint64_t *sums, uint64_t own)
{
    own = bs_cu_lanes_sum(own);
    __syncthreads();
    if (bs_cu_lane() == 0)
        sums[bs_cu_warp()] = own;
    __syncthreads();
    uint64_t sum = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++)
        sum += sums[k];
    return sum;
}

/* A copy of what lies in global memory, in words of 16 bytes that are all under way at once. (Member by member the
 * compiler reads what is asked for after a condition when the condition is known.) */
template <typename T> __device__ __forceinline__ T bs_cu_read_whole(const T *from)
{
    static_assert(sizeof(T) % 16 == 0, "it is read by words");
#ifdef BS_CUDA_CPU
    return *from;
#else
    uint4 words[sizeof(T) / 16];
    T whole;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 16); i++)
        asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %4; ld.global.v4.u32 {%0, %1, %2, %3}, [at]; }"
                     : "=r"(words[i].x), "=r"(words[i].y), "=r"(words[i].z), "=r"(words[i].w)
                     : "l"(reinterpret_cast<const uint4 *>(from) + i));
    memcpy(&whole, words, sizeof whole);
    return whole;
#endif
}

/* An address on the device, as tables hold it, as a pointer. */
template <typename T> __host__ __device__ __forceinline__ T *bs_cu_at(uint64_t address)
{
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

extern "C" {
/* ==== begin src/ops/structure.h =============================================================== */
/* ops/structure.h - the structural ops: where values come from, cells, routers. They have no kernels: the planner
 * lowers them to moves and decisions. Their parameters, as stored in nodes and model files. */
#ifndef BS_STRUCTURE_H
#define BS_STRUCTURE_H

/* ==== begin src/ops/table.h =================================================================== */
/* ops/table.h - which ops there are, by number and by name, and what holds for every op.
 * Relies on graph/op.h. Must never know what any op does. */
#ifndef BS_OPS_TABLE_H
#define BS_OPS_TABLE_H

/* ==== begin src/graph/op.h ==================================================================== */
/* graph/op.h - the op table: what every op declares, and what a kernel is given.
 * Adding an op is one file in ops/ and one line in ops/list.h. Relies on graph/graph.h. Must never know the planner,
 * nor which ops there are. */
#ifndef BS_OP_H
#define BS_OP_H

/* ==== begin src/graph/segments.h ============================================================== */
/* graph/segments.h - rows as segments see them: those of a domain that has segments, or of a path in it, which are in
 * the segments of the rows that they came from. Relies on graph/graph.h and graph/rows.h. Must never know who computes
 * rows. */
#ifndef BS_SEGMENTS_H
#define BS_SEGMENTS_H

/* ==== begin src/graph/graph.h ================================================================= */
/* graph/graph.h - the graph: dimensions, domains, values, nodes, blocks, routers.
 * Owns the data structures and the primitives that add to them. Relies on base/base.h. Must never know how a graph is
 * planned or run. Every entry refers to lower ids only, so one pass in order is always enough. */
#ifndef BS_GRAPH_H
#define BS_GRAPH_H

/* ==== begin src/base/debug.h ================================================================== */
/* base/debug.h - mistakes that only the calling program can make, found in builds with BS_DEBUG.
 * Relies on base/base.h and, in those builds alone, on assert(). Must never check files, streams or tensors: whatever
 * comes from outside is checked in every build, and a fault in it is returned as an error. */
#ifndef BS_DEBUG_H
#define BS_DEBUG_H

/* ==== begin src/base/base.h =================================================================== */
/* base/base.h - what every folder uses: saturating sums, alignment, small helpers.
 * Relies on nothing but brainstorm.h and base/bytes.h. Must never know of graphs, ops or files. */
#ifndef BS_BASE_H
#define BS_BASE_H

/* #include "brainstorm.h" */
/* ==== begin src/base/both.h =================================================================== */
/* base/both.h - what a device compiles too: functions with one source for both.
 * Owns BS_BOTH, BS_SUM and BS_PRODUCT. Relies on nothing. A function marked BS_BOTH must never touch anything but its
 * arguments. */
#ifndef BS_BOTH_H
#define BS_BOTH_H

#if defined(__CUDACC__)
#define BS_BOTH __host__ __device__
#else
#define BS_BOTH
#endif

/* The sum of two floats, one of which may end in a product that no compiler must fuse with the sum. */
#if defined(__CUDA_ARCH__)
#define BS_SUM(a, b) __fadd_rn(a, b)
#else
#define BS_SUM(a, b) ((a) + (b))
#endif

/* The product of two floats, rounded before anything is added to it: doubles hold it, so nothing is fused. */
#if defined(__CUDA_ARCH__)
#define BS_PRODUCT(a, b) __fmul_rn(a, b)
#else
#define BS_PRODUCT(a, b) ((float)((double)(a) * (double)(b)))
#endif

#endif
/* ==== end src/base/both.h ===================================================================== */
/* ==== begin src/base/bytes.h ================================================================== */
/* base/bytes.h - a number of bytes, or an offset: a type whose only operations are checked ones.
 *
 * What does not fit becomes BS_BYTES_TOO_MANY, and stays that whatever is done to it: added to, aligned, multiplied by
 * zero, divided. No arena, file or plan has as many bytes, so a sum of sizes from a file or a shape cannot wrap to a
 * small number. It is a struct, so that `a + b` does not compile; it has one field, so that it costs nothing. Elements
 * of a shape are counted as bytes of one each, until they are multiplied by their size.
 *
 * Owns the field `unchecked`, which nothing else may touch (tests/test_bare_sums.sh). Relies on brainstorm.h. C and
 * C++. Must never give a plain number to arithmetic: bs_bytes_fit() gives a size for memory; bs_bytes_figure() is for
 * messages, comparisons with what callers and files say, and the plain fields of public structs. */
#ifndef BS_BYTES_H
#define BS_BYTES_H

/* #include "brainstorm.h" */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bs_bytes {
    uint64_t unchecked;
} bs_bytes;

#define BS_BYTES_TOO_MANY UINT64_MAX

static inline bs_bytes bs_bytes_of(uint64_t n)
{
    const bs_bytes bytes = {n};
    return bytes;
}

static inline bool bs_bytes_known(bs_bytes a) { return a.unchecked != BS_BYTES_TOO_MANY; }
static inline bool bs_bytes_any(bs_bytes a) { return a.unchecked != 0; }
static inline bool bs_bytes_less(bs_bytes a, bs_bytes b) { return a.unchecked < b.unchecked; }
static inline bool bs_bytes_same(bs_bytes a, bs_bytes b) { return a.unchecked == b.unchecked; }
static inline bs_bytes bs_bytes_max(bs_bytes a, bs_bytes b) { return a.unchecked > b.unchecked ? a : b; }
static inline bs_bytes bs_bytes_min(bs_bytes a, bs_bytes b) { return a.unchecked < b.unchecked ? a : b; }

static inline bs_bytes bs_bytes_add(bs_bytes a, bs_bytes b)
{
    return bs_bytes_of(a.unchecked > BS_BYTES_TOO_MANY - b.unchecked ? BS_BYTES_TOO_MANY : a.unchecked + b.unchecked);
}

/* a - b; too many when that is below zero. */
static inline bs_bytes bs_bytes_sub(bs_bytes a, bs_bytes b)
{
    return bs_bytes_of(!bs_bytes_known(a) || b.unchecked > a.unchecked ? BS_BYTES_TOO_MANY : a.unchecked - b.unchecked);
}

/* A count below zero is too many. */
static inline bs_bytes bs_bytes_times(bs_bytes a, int64_t count)
{
    const bool fits = bs_bytes_known(a) && count >= 0 &&
                      (count == 0 || a.unchecked <= BS_BYTES_TOO_MANY / (uint64_t)count);
    return bs_bytes_of(fits ? a.unchecked * (uint64_t)count : BS_BYTES_TOO_MANY);
}

/* Bytes of `count` elements; and the same where the count comes from a file. */
static inline bs_bytes bs_bytes_array(int64_t count, size_t each) { return bs_bytes_times(bs_bytes_of(each), count); }
static inline bs_bytes bs_bytes_product(bs_bytes a, bs_bytes b)
{
    const bool fits = bs_bytes_known(a) && bs_bytes_known(b) &&
                      (b.unchecked == 0 || a.unchecked <= BS_BYTES_TOO_MANY / b.unchecked);
    return bs_bytes_of(fits ? a.unchecked * b.unchecked : BS_BYTES_TOO_MANY);
}

/* Rounded down; parts > 0. */
static inline bs_bytes bs_bytes_share(bs_bytes a, uint64_t parts)
{
    return bs_bytes_of(bs_bytes_known(a) ? a.unchecked / parts : BS_BYTES_TOO_MANY);
}

/* Up and down to a multiple of a power of two. */
static inline bs_bytes bs_bytes_align_to(bs_bytes a, uint64_t alignment)
{
    const uint64_t pad = alignment - 1;
    return bs_bytes_of(a.unchecked > BS_BYTES_TOO_MANY - pad ? BS_BYTES_TOO_MANY : (a.unchecked + pad) & ~pad);
}

static inline bs_bytes bs_bytes_align_down(bs_bytes a, uint64_t alignment)
{
    return bs_bytes_of(bs_bytes_known(a) ? a.unchecked & ~(alignment - 1) : BS_BYTES_TOO_MANY);
}

static inline bs_bytes bs_bytes_align(bs_bytes a) { return bs_bytes_align_to(a, BS_ALIGNMENT); }
static inline bool bs_bytes_aligned_to(bs_bytes a, uint64_t alignment)
{
    return bs_bytes_known(a) && (a.unchecked & (alignment - 1)) == 0;
}

/* Puts bytes, or an array, behind what is *used, aligned; returns where they begin. Every layout is made with this. */
static inline bs_bytes bs_bytes_put(bs_bytes *used, bs_bytes bytes)
{
    const bs_bytes at = *used;
    *used = bs_bytes_add(at, bs_bytes_align(bytes));
    return at;
}

static inline bs_bytes bs_bytes_place(bs_bytes *used, int64_t count, size_t each)
{
    return bs_bytes_put(used, bs_bytes_array(count, each));
}

/* The number for messages (%llu), comparisons and public structs. It must not be used in sums. */
static inline unsigned long long bs_bytes_figure(bs_bytes a) { return a.unchecked; }

/* The size as a size_t, when it is at most `most` and fits: the only way from bytes to memory. False leaves *size
 * alone. */
static inline bool bs_bytes_fit(bs_bytes a, uint64_t most, size_t *size)
{
    if (!bs_bytes_known(a) || a.unchecked > most || a.unchecked > SIZE_MAX)
        return false;
    *size = (size_t)a.unchecked;
    return true;
}

/* An address within memory whose size came from bs_bytes_fit. The planner placed every offset below the total, so none
 * is checked again while a network runs. */
static inline uint8_t *bs_bytes_at(uint8_t *memory, bs_bytes offset) { return memory + (size_t)offset.unchecked; }
static inline const uint8_t *bs_bytes_read_at(const uint8_t *memory, bs_bytes offset)
{
    return memory + (size_t)offset.unchecked;
}
/* Row `row` of rows of `each` bytes, the first at `offset`. */
static inline uint8_t *bs_bytes_row(uint8_t *memory, bs_bytes offset, int32_t row, bs_bytes each)
{
    return memory + (size_t)offset.unchecked + (uint64_t)row * each.unchecked;
}

#endif
/* ==== end src/base/bytes.h ==================================================================== */
/* ==== begin src/base/exact_math.h ============================================================= */
/* base/exact_math.h - refuses compiler options that remove promised checks or reorder sums, and keeps compilers from
 * rounding a product and a sum once instead of twice where the source does not say so (fma).
 *
 * Owns:      both, for every part: base/base.h and kernels/tier.h include it, and every part includes one.
 * Relies on: nothing but what compilers define.
 * Must never: be left out of a part. Under -ffinite-math-only isnan() is false, so NaN scores would be accepted in
 *            silence; under the others the compiler chooses the order of every sum, and results are not the same
 *            bytes. */
#ifndef BS_EXACT_MATH_H
#define BS_EXACT_MATH_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(_M_FP_FAST)
#error "brainstorm is compiled without -ffast-math, -Ofast and their kin: NaN would pass checks, and sums be reordered"
#endif

/* GCC contracts a * b + c by itself unless it is told -std=c11, clang within an expression even then: the bytes of a
 * row would depend on which of two loops computes it. Clang's -ffp-contract=fast overrides this and is not supported;
 * no macro tells of it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC optimize("fp-contract=off")
#endif

#endif
/* ==== end src/base/exact_math.h =============================================================== */
/* ==== begin src/base/messages.h =============================================================== */
/* base/messages.h - how a failure is reported. Owns what BS_NO_MESSAGES leaves out: texts.
 * Relies on base/bytes.h. Must never let a status depend on whether there are texts.
 *
 * Without messages, a call of a function that is declared here becomes a call of one that takes no text. The compiler
 * still sees the text, its format and its arguments, as the operand of sizeof: it checks them and makes no code of
 * them. (bs_fail)(...), in brackets, is the function itself, for the few texts that always stay. */
#ifndef BS_MESSAGES_H
#define BS_MESSAGES_H

/* #include "brainstorm.h" */
/* #include "base/bytes.h" */
#include <inttypes.h> /* PRId32 and others: int32_t is long where the C library is newlib */

/* Of what takes a format and its arguments. It is not called in a run that nothing is wrong with, nor often: what leads
 * to it is made small, and laid out behind the rest. */
#if defined(__GNUC__)
#define BS_PRINTF(format_index, first) __attribute__((cold, format(printf, format_index, first)))
#else
#define BS_PRINTF(format_index, first)
#endif

/* Fills `error` (may be NULL) and returns the status. */
bs_status bs_fail(bs_error *error, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
/* The same, but false. This and others are macros, so that compilers know what comes of a refusal: 2 KB of the library
 * would do what never follows one. */
#define bs_refuse(error, status, ...) bs_refused(bs_fail(error, status, __VA_ARGS__))
static inline __attribute__((always_inline)) bool bs_refused(bs_status status) { return (void)status, false; }
/* Reports a failure that was recorded in a local error, as the caller's may be NULL. Returns its status; BS_OK reports
 * nothing. */
bs_status bs_tell(const bs_error *here, bs_error *error);
/* Whether a number that a caller's function returned is in BS_STATUS_LIST. */
bool bs_status_is_known(int32_t number);
/* As bs_fail, for an arena that is too small: `what` says what the bytes were for. */
bs_status bs_fail_arena(bs_error *error, const bs_arena *arena, bs_bytes needed, const char *what);
/* The same where no arena is at hand: the room `name` has `available` bytes left. */
bs_status bs_fail_room(bs_error *error, const char *name, uint64_t available, bs_bytes bytes, const char *what);
/* Prefixes a message with where it happened: a file, a key, a node. What does not fit is cut at the end. */
void bs_error_prefix(bs_error *error, const char *format, ...) BS_PRINTF(2, 3);

#if defined(BS_NO_MESSAGES)
/* Reports the status with its own sentence as the message. */
bs_status bs_fail_bare(bs_error *error, bs_status status);
#define BS_UNTOLD(full) ((void)sizeof((void)(full), 0))
#define BS_TOLD(full, bare) (BS_UNTOLD(full), (bare))
#define BS_TEXT(text) (BS_UNTOLD(text), (const char *)0)
#define bs_fail(error, status, ...) BS_TOLD((bs_fail)(error, status, __VA_ARGS__), bs_fail_bare(error, status))
#define bs_fail_arena(error, arena, needed, what) (bs_fail_arena)(error, arena, needed, BS_TEXT(what))
#define bs_fail_room(error, name, available, bytes, what) \
    (bs_fail_room)(error, name, available, bytes, BS_TEXT(what))
#define bs_error_prefix(error, ...) BS_UNTOLD((bs_error_prefix)(error, __VA_ARGS__))
#endif

#endif
/* ==== end src/base/messages.h ================================================================= */
/* ==== begin src/base/wrapping.h =============================================================== */
/* base/wrapping.h - marks functions in which unsigned numbers are meant to wrap: hashes, squares of negative
 * differences. All others are reported by -fsanitize=unsigned-integer-overflow. Owns BS_WRAPS. Relies on nothing. */
#ifndef BS_WRAPPING_H
#define BS_WRAPPING_H

#if defined(__clang__)
#define BS_WRAPS __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define BS_WRAPS
#endif

#endif
/* ==== end src/base/wrapping.h ================================================================= */

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BS_PAGE_BYTES 4096 /* alignment of offsets, sizes and buffers that direct reads may need */
#define BS_MAX_LANES 8

/* Times and counts saturate: what would wrap becomes UINT64_MAX. Bytes have a type of their own (base/bytes.h). */
static inline uint64_t bs_mul_u64(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static inline uint64_t bs_add_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Elements from one value to another. The rows of a plan from a file may lie over each other: then nothing sensible is
 * copied, but nothing undefined happens either. */
static inline void bs_copy(void *to, const void *from, size_t bytes) { memmove(to, from, bytes); }

/* A number of an operand that is checked before it is used, as an index: read once, whatever else writes there
 * meanwhile. */
static inline BS_BOTH int32_t bs_read_once(const void *at) { return *(const volatile int32_t *)at; }

static inline BS_BOTH int32_t bs_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
static inline BS_BOTH int32_t bs_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
static inline BS_BOTH int64_t bs_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline BS_BOTH int64_t bs_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline BS_BOTH int32_t bs_clamp_i32(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}
static inline bool bs_in_range(int32_t n, int32_t low, int32_t end) { return n >= low && n < end; }
/* Whether entries [first, first + count) lie within 0 .. end - 1. */
static inline bool bs_is_part(int32_t first, int32_t count, int32_t end)
{
    return first >= 0 && count >= 0 && count <= end - first;
}
/* Difference of times or visits: 0 where `then` is later. */
static inline uint64_t bs_since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }
static inline uint64_t bs_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t bs_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline BS_BOTH int32_t bs_or_default(int32_t v, int32_t fallback) { return v ? v : fallback; }

/* Rounds towards minus infinity; b > 0. */
static inline BS_BOTH int64_t bs_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }
static inline BS_BOTH int64_t bs_ceil_div(int64_t a, int64_t b) { return -bs_floor_div(-a, b); }

/* Bytes from here to the next multiple of a power of two. */
static inline size_t bs_to_aligned(const void *memory, size_t alignment)
{
    const size_t past = (size_t)((uintptr_t)memory & (alignment - 1));
    return past ? alignment - past : 0;
}

/* Hands out blocks of memory one after the other, aligned; with base NULL it only counts them. */
typedef struct bs_carver {
    uint8_t *base;
    bs_bytes used;
} bs_carver;
void *bs_carve(bs_carver *carver, uint64_t count, size_t each); /* (base/arena.c) */
void *bs_carve_bytes(bs_carver *carver, bs_bytes bytes);
/* Carves an array for a pointer: `count` elements of its type. A count below zero is too many. */
#define BS_CARVE(carver, pointer, count) ((pointer) = bs_carve(carver, (uint64_t)(count), sizeof *(pointer)))
/* Arrays that are carved together: of `each` bytes an element, counts[count] of them, for the pointer at `offset` of an
 * object. */
typedef struct bs_carved {
    uint32_t offset : 14, each : 12, count : 6;
} bs_carved;
#define BS_CARVED(type, pointer, count) {offsetof(type, pointer), sizeof *((type *)0)->pointer, count}
void bs_carve_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts);
/* The same, and what the object had there moves along: no array may come to lie further on than it was. */
void bs_move_arrays(bs_carver *carver, void *object, const bs_carved *arrays, size_t n, const int64_t *counts);
#define BS_CARVE_ARRAYS(carver, object, arrays, counts) \
    bs_carve_arrays(carver, object, arrays, sizeof(arrays) / sizeof *(arrays), counts)
/* Takes bytes from an arena, if size_t of this machine holds their number; or NULL. */
void *bs_take(bs_arena *arena, bs_bytes bytes);
void *bs_take_zeros(bs_arena *arena, bs_bytes bytes);
/* The last bytes of what is free in an arena, for as long as nothing is taken of it but by bs_take_before, which takes
 * nothing from `end` on. NULL: there is no room. */
void *bs_lend(bs_arena *arena, bs_bytes bytes);
bool bs_arenas_apart(const bs_arena *a, const bs_arena *b); /* no byte is in both */
void *bs_take_before(bs_arena *arena, bs_bytes bytes, const void *end);
/* A table that may have no entries, but always has an address: its bytes; and the table itself, or NULL with a message
 * that says what it was for (base/error.c). */
bs_bytes bs_table_bytes(uint64_t count, size_t each);
void *bs_take_table(bs_arena *arena, uint64_t count, size_t each, const char *what, bs_error *error);
#if defined(BS_NO_MESSAGES)
#define bs_take_table(arena, count, each, what, error) (bs_take_table)(arena, count, each, BS_TEXT(what), error)
#endif

/* Sorts ids by what `before` says of two of them; equal ones keep their order. buffer: room for `count`
 * (base/sort.c) */
typedef bool (*bs_before)(const void *user, int32_t a, int32_t b);
void bs_sort(int32_t *ids, int32_t *buffer, int32_t count, bs_before before, const void *user);
/* Turns counts of adjacent groups into the index where each group begins. */
static inline void bs_starts_of(int32_t *counts, int32_t n)
{
    for (int32_t i = 0, sum = 0; i < n; i++) {
        const int32_t count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

/* Name `number` of `count`, which stand one behind the other ("auto\0scalar\0"): a table of pointers takes more bytes.
 * "unknown" for other numbers. (base/error.c) */
const char *bs_name_of(const char *names, int64_t number, int64_t count);

/* Storage conversions (base/dtype.c). Round to nearest even. */
float bs_f16_to_f32(uint16_t h);
/* The nearest code. Saturates before rounding: the bounds are compared as floats, and 2^31 - 1 is not one. NaN gives
 * 0. */
static inline BS_BOTH int32_t bs_f32_to_code(float x, int32_t low, int32_t high)
{
    if (!(x > (float)low))
        return x == x ? low : 0;
    return x >= (float)high ? high : (int32_t)rintf(x);
}

uint16_t bs_f32_to_f16(float f);
float bs_bf16_to_f32(uint16_t h);
uint16_t bs_f32_to_bf16(float f);
/* One element as f32, whatever its type. */
float bs_load_f32(const void *data, bs_dtype dtype, int64_t index);

/* CRC-32 as in zip (base/crc32.c). The first call gets 0, each further call the result of the one before. */
uint32_t bs_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
/* ==== end src/base/base.h ===================================================================== */

/* Live objects begin with one of these. */
#define BS_MARK_GRAPH 0x47525342u /* "BSRG" */
#define BS_MARK_PLAN 0x50525342u
#define BS_MARK_SESSION 0x53525342u

#if defined(BS_DEBUG)
#undef NDEBUG /* BS_DEBUG is explicit: checks even where NDEBUG is set */
#include <assert.h>
#define BS_DEBUG_CHECK(condition) assert(condition)

static inline bool bs_disjoint(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return a_bytes == 0 || b_bytes == 0 || (uintptr_t)a + a_bytes <= (uintptr_t)b ||
           (uintptr_t)b + b_bytes <= (uintptr_t)a;
}
#else
#define BS_DEBUG_CHECK(condition) ((void)0)
#endif

#endif
/* ==== end src/base/debug.h ==================================================================== */

/* A dimension is a constant, a symbol with a maximum, or floor((parent * mul + add) / div) of another.
 * Equal expressions are one entry, so two dimensions are equal in every run exactly when their ids are equal.
 * A symbol is given by the inputs of a run, or it comes from data: then it is known when the node that makes it has
 * run, and until then it stands at its maximum. Only what comes from data may be 0. */
typedef enum bs_dim_kind { BS_DIM_CONST, BS_DIM_SYMBOL, BS_DIM_DERIVED } bs_dim_kind;
typedef int32_t bs_dim_id;

typedef struct bs_dim_info {
    bs_dim_kind kind;
    bs_dim_id parent;
    int32_t mul, add, div; /* at most 2^30, like `maximum` */
    int32_t maximum;       /* the value of a constant */
    int32_t name;    /* offset in text; 0 none */
    int32_t symbols; /* number of symbols up to this entry, itself included */
    int32_t node;    /* a symbol from data, or what is derived of one: the node that makes it; else 0 */
    int32_t child[2];
} bs_dim_info;

/* Domain 0 is the root: one row. */
typedef enum bs_domain_kind {
    BS_DOMAIN_ROOT,
    BS_DOMAIN_ROWS, /* rows of a root tensor, `rows` of them; or cells of a frame, ceil(H/size) * ceil(W/size) */
    BS_DOMAIN_PATH  /* the rows that a router sent along one path */
} bs_domain_kind;

typedef struct bs_domain {
    bs_domain_kind kind;
    int32_t parent;
    int32_t router, path;     /* PATH */
    bs_dim_id rows;           /* ROWS that are not patches; else -1 */
    int32_t lengths;          /* ROWS in segments: value of an input i32 [segments], the rows of each; else 0 */
    bs_dim_id height, width;  /* ROWS that are patches: extents of the frame; else -1 */
    int32_t size;             /* patches: cell size in pixels of that frame; else 0 */
    int64_t max_rows;
    int32_t patches;          /* the domain of patches that it is or descends from; -1 none */
    int32_t depth;            /* how many domains it is in */
    int32_t top;              /* the domain without a router that it is or descends from */
    /* PATH: the outermost PATH domain that it is or descends from, if no loop is between it and the rows; else 0 */
    int32_t outermost;
    int32_t routed;           /* PATH: the outermost path of a router, not of a loop, that it is or is in; else 0 */
    int32_t loop;             /* the innermost loop in whose body it is (its router); 0 none */
    int32_t next;             /* PATH: another PATH domain of its router; 0 none */
    int32_t child[2];
} bs_domain;

static inline bool bs_domain_is_patches(const bs_domain *domain) { return domain->size > 0; }
static inline bool bs_domain_is_segments(const bs_domain *domain) { return domain->lengths != 0; }

/* A value. In a patch domain `dims` are the extents of the whole frame, as in the untiled network; the cell is
 * scale x domain size pixels of it. */
typedef struct bs_value_info {
    bs_dtype dtype;
    int16_t rank;
    bool image; /* [channels, height, width] (bs_value_set_rank) */
    bool reshaped; /* it has the elements of operand 0 of its node, in the same order */
    bs_dim_id dims[BS_MAX_AXES];
    int32_t domain;
    int32_t node; /* the node that makes it */
    /* how many values there are up to it, itself included, without those that only lifting made (ops/lift.c): the
     * number that a model file has for it */
    int32_t number;
    int32_t only; /* the path to which all that read it so far scatter it; 0: nothing does, -1: it is read elsewhere */
    /* extent of this value's frame = frame of the domain x scale_num / scale_den (patch domains, rank 3) */
    int32_t scale_num, scale_den;
} bs_value_info;

/* Gives a value its rank, and says whether it is an image: of three dimensions it is. Nothing else goes by that. */
static inline void bs_value_set_rank(bs_value_info *value, int32_t rank)
{
    value->rank = (int16_t)rank;
    value->image = rank == 3;
}

typedef struct bs_node {
    int32_t op; /* index into the op table */
    int32_t n_in, n_out;
    int32_t n_read; /* of n_in: the others only tell the domain */
    int32_t in; /* offset of n_in value ids in the operand pool */
    int32_t first_out; /* value id; outputs are consecutive */
    int32_t domain;    /* of the outputs; the node runs on its rows */
    int32_t block;
    int32_t router; /* route, scatter, gather: the router; else 0 */
    int32_t path;   /* scatter */
    int32_t writer; /* state: the node that writes it; carried value: what it is after a trip; 0 none */
    int32_t number; /* its place among the nodes that were built: for messages */
    int32_t same;   /* the first node that computes what it does, in the same domain; 0: itself */
    int32_t merged; /* in a graph as it is planned: how many nodes it stands for beside itself */
    int32_t built_in; /* the domain in which it was built; it may run in another one (ops/lift.c, plan/dataflow.c) */
    int32_t makes;  /* 1 + the symbol that is known when this has run; 0 none */
    int32_t child[2]; /* in the tree of names, for ops that are named; of others in that of equal work */
    int32_t tail, n_tail; /* in a graph as it is planned: steps that follow its kernel, in the table of tails */
    const void *params; /* the descriptor, name resolved into the graph's text */
} bs_node;

/* A node that has become part of the one whose result it changes: a step of that one's tail. */
typedef struct bs_tail {
    bs_node node;  /* its result is that of the whole, and so is operand `at`, which it changes in place */
    int32_t at;
    int32_t other; /* which operand of the whole the first of its others is, in their order; -1: it has none */
    int32_t own;   /* how many operands the whole has without its tail */
    bool keeps;    /* it leaves what it changes as it was: steps from this one on read that too, as an operand that is
                    * no other */
    bs_dtype from, to; /* what it changes, what its result is */
} bs_tail;

#define BS_MAX_TAIL 10      /* steps; */
#define BS_MAX_CHAIN 4      /* of a device */
#define BS_MAX_TAIL_OTHERS 2 /* operands of all of them together */

typedef struct bs_block {
    int32_t name; /* offset in text */
    int32_t parent;
    int32_t first_node, end_node;
} bs_block;

/* What is computed before a loop if it is the same in every trip: nothing; what can refuse no data, where a row may
 * make no trip; all, where each makes one for sure. Other routers: nothing. */
typedef enum bs_lifts { BS_LIFTS_NOTHING, BS_LIFTS_SOUND, BS_LIFTS_ALL } bs_lifts;

/* Of a router that is a loop: its one path is the body, decided again after each trip. */
typedef struct bs_loop_info {
    int32_t bound;      /* most trips; 0: the router is no loop */
    int32_t count;      /* value i32 [1]: trips of each row; 0 none */
    bs_dim_id trips;    /* the dimension that is the number of trips; -1 none */
    bool in_turn;       /* a row makes one trip, the one that its count is the number of, from 1 */
    bool grows;         /* a row makes one trip, and as many rows for the next one as its predicate says */
    bs_lifts lifts;
    int32_t again;      /* the node that decides after a trip, with which the body ends; 0: it has not ended yet */
    int32_t begun_before; /* the loop that was begun before it and had not ended; 0 none */
    int32_t n_carried;  /* carried values that nothing follows yet */
} bs_loop_info;

typedef struct bs_router_info {
    int32_t node; /* the route node */
    int32_t domain; /* domain of the scores: the parent of its paths' domains */
    int32_t score;  /* value id */
    int32_t knob;   /* value id or 0 */
    int32_t max_paths_per_cell;
    int32_t first_path; /* number of paths of all routers before it: where its own begin in tables of all paths */
    int32_t path_domains; /* the first of its PATH domains; 0 none */
    const bs_route_desc *desc;
    bs_loop_info loop;
} bs_router_info;

#define BS_MAX_LOOP_DEPTH 8 /* loops in loops */

/* Limit of every table: ids, and small multiples of counts, stay far below 2^31. */
#define BS_MAX_ENTRIES (1 << 24)
#define BS_MAX_TEXT (1 << 30)
#define BS_MAX_ALL_PATHS (1 << 28) /* paths of all routers of a graph together */

/* What is looked up while a graph is built (equal dimensions, equal domains, names) is kept in digital search trees:
 * the children of an entry, for a next hash bit of 0 and 1, are later entries of the same table. So a tree needs no
 * table of its own, and no file can make it deeper than a hash has bits, except by names of equal hashes. */
struct bs_graph {
    uint32_t mark;
    bs_status status;
    bs_error error;
    /* not counting entry 0 */
    int32_t max_nodes, max_values, max_text, max_operands, max_domains, max_dims, max_blocks, max_routers;
    int32_t n_nodes, n_values, n_text, n_operands, n_domains, n_dims, n_blocks, n_routers;
    int32_t n_cell_nodes; /* nodes that do not run on the root domain, or did not before they were lifted */
    int32_t n_paths;    /* of all routers */
    int32_t max_paths;  /* most paths of one router */
    int32_t first_name; /* root of the tree of names; 0 none */
    int32_t first_work; /* root of the tree of equal work; 0 none */
    int32_t n_same;     /* nodes that compute what an earlier one does */
    int32_t current_block;
    int32_t makes;      /* not 0: an extent comes from data, so a value may have no elements */
    int32_t open_loop;  /* the loop begun last of those that have not ended; 0 none */
    /* while a node is added: its op and name, with which messages begin; else NULL */
    const char *adding, *adding_name;
    bs_node *nodes;       /* [0] unused */
    bs_value_info *values; /* [0] unused */
    int32_t *operands;
    bs_domain *domains; /* [0]: the root; a node makes at most one */
    char *text; /* names and parameters; offset 0 is "" */
    bs_dim_info *dims;
    bs_block *blocks; /* [0]: "main", everything outside all blocks */
    bs_router_info *routers; /* [0] unused */
    const bs_tail *tails; /* in a graph as it is planned: of all nodes */
    int32_t n_tails;
};

/* Whether any extent is known only when a run begins. */
static inline bool bs_graph_varies(const bs_graph *graph) { return graph->dims[graph->n_dims - 1].symbols > 0; }

/* Records the first failure of building; later ones are ignored. While a node is being added the message begins with
 * its op and name. Returns false always. */
#define bs_graph_fail(graph, status, ...) bs_refused(bs_graph_set_failure(graph, status, __VA_ARGS__))
bs_status bs_graph_set_failure(bs_graph *graph, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
#if defined(BS_NO_MESSAGES)
bs_status bs_graph_set_failure_bare(bs_graph *graph, bs_status status);
#define bs_graph_set_failure(graph, status, ...) \
    BS_TOLD((bs_graph_set_failure)(graph, status, __VA_ARGS__), bs_graph_set_failure_bare(graph, status))
#endif
/* The recorded failure alone. Unlike bs_graph_check it accepts a block that has not ended yet. */
bs_status bs_graph_failure(const bs_graph *graph, bs_error *error);

/* Dimensions. All return -1 on failure (recorded). */
bs_dim_id bs_dim_const(bs_graph *graph, int64_t n);
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div); /* div: 1 .. 2^30 */
int64_t bs_common_divisor(int64_t a, int64_t b); /* the greatest; its sign is not defined */
bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim); /* from a public handle */
/* A new symbol that the node to be added next makes; `name` lies in the graph's text. */
bs_dim_id bs_dim_from_data(bs_graph *graph, const char *name, int64_t maximum);
bool bs_dim_is_known(const bs_graph *graph, bs_dim dim); /* whether a handle is valid; records nothing */
static inline int64_t bs_dim_max(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].maximum; }
static inline bool bs_dim_is_const(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].kind == BS_DIM_CONST; }
/* The node that says how many rows a domain has; 0: inputs do, or a router. */
static inline int32_t bs_domain_maker(const bs_graph *graph, int32_t domain)
{
    const bs_domain *d = &graph->domains[domain];
    return d->kind == BS_DOMAIN_ROWS && d->rows >= 0 ? graph->dims[d->rows].node : 0;
}
/* The product of its dimensions, each at its maximum; and the bytes of these elements. */
bs_bytes bs_value_elements(const bs_graph *graph, const bs_value_info *value);
static inline bs_bytes bs_value_bytes(const bs_graph *graph, const bs_value_info *value)
{
    return bs_bytes_product(bs_value_elements(graph, value), bs_bytes_of(bs_dtype_bytes(value->dtype)));
}
/* Text that is cut at the end of its buffer, while its full length is still counted. (graph/text.c) */
typedef struct bs_text {
    char *text;
    size_t bytes, used;
} bs_text;
void bs_text_add(bs_text *text, const char *format, ...) BS_PRINTF(2, 3);
/* "640", "H<=1080", "(H<=1080*2)": for messages. */
const char *bs_dim_text(const bs_graph *graph, bs_dim_id d, char *buffer, size_t bytes);
/* "[32, 64, W<=1920]" */
const char *bs_value_text(const bs_graph *graph, const bs_value_info *value, char *buffer, size_t bytes);
/* "the root", "rows [N<=40]", "patches of 16 [H<=64, W<=48]", "path 1 of \"route\"" */
const char *bs_domain_text(const bs_graph *graph, int32_t domain, char *buffer, size_t bytes);

/* Whether `router` is a loop; and whether the rows of a domain are those of its body. */
static inline bool bs_router_loops(const bs_graph *graph, int32_t router)
{
    return graph->routers[router].loop.bound > 0;
}
bool bs_domain_in_loop(const bs_graph *graph, int32_t domain, int32_t router);

static inline const bs_value_info *bs_value_get(const bs_graph *graph, int32_t id) { return &graph->values[id]; }
static inline const int32_t *bs_node_in(const bs_graph *graph, const bs_node *node)
{
    return graph->operands + node->in;
}
/* How many operands its own kernel has. */
static inline int32_t bs_node_own_in(const bs_graph *graph, const bs_node *node)
{
    return node->n_tail ? graph->tails[node->tail].own : node->n_in;
}
static inline const char *bs_node_name(const bs_node *node)
{
    return node->params ? *(const char *const *)node->params : "";
}

/* Names and parameters live in the graph's text. NULL on failure (recorded). */
const char *bs_graph_text(bs_graph *graph, const char *text);
const void *bs_graph_keep(bs_graph *graph, const void *bytes, size_t count); /* a copy, aligned for pointers */
int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain); /* an equal one, or this one added; -1 on failure */
/* The node of this name among ops that are named: a router, or (false) an input, a state or an output. 0: there is
 * none. */
int32_t bs_graph_named(const bs_graph *graph, const char *name, bool router);
static inline int32_t bs_graph_router_named(const bs_graph *graph, const char *name) /* 0: there is none */
{
    return name ? graph->nodes[bs_graph_named(graph, name, true)].router : 0;
}

/* The value of this number. One that does not exist: an id that does not. */
int32_t bs_graph_value_numbered(const bs_graph *graph, int32_t number);

/* Where the operands of the next node will be. A caller without a table of its own may write `count` of them there and
 * pass that address on. NULL: there is no room, and adding the node will report it. */
static inline int32_t *bs_graph_operands(bs_graph *graph, int32_t count)
{
    return count <= graph->max_operands - graph->n_operands ? graph->operands + graph->n_operands : NULL;
}

#endif
/* ==== end src/graph/graph.h =================================================================== */
/* ==== begin src/graph/rows.h ================================================================== */
/* graph/rows.h - which rows a domain has in a run, and what routers decided.
 * Relies on base/both.h. Must never know who computes rows: the CPU's tiles and a device's blocks use the same
 * structures. */
#ifndef BS_ROWS_H
#define BS_ROWS_H

/* #include "brainstorm.h" */
/* #include "base/both.h" */

/* What a router decided for the rows it saw (all of them, or those of one tile). */
typedef struct bs_decision_data {
    int32_t rows, paths, per_row; /* per_row: most paths a cell */
    float price;                  /* price at which a budget is kept; 0 for other protocols and forced routes */
    int32_t trip;                 /* a loop: the number of the trip that is to be made, from 0 */
    int32_t due, taken;           /* whose rows go in turn: how many do, and how many of those have begun */
    /* of a loop that grows `due` is how many rows there are so far, or the row behind the last that begins */
    int32_t *chosen;   /* [rows * per_row] path or -1, in order of choice */
    float *gates;      /* [rows * per_row] */
    int32_t *counts;   /* [paths] */
    int32_t *offsets;  /* [paths + 1] */
    int32_t *ids;      /* [rows * per_row] parent row of every packed row; ascending within a path */
    int32_t *inverse;  /* [rows * per_row] packed row of every choice, -1 none. Of a loop: the most trips of each row;
                        * or the due rows in order of turns, which `ids` has from `taken` on; or, where it grows, the
                        * row that made each, -1 none */
    int64_t dropped;
} bs_decision_data;

/* Rows of a domain as a context sees them. `first` is the index of its row 0 in storage that holds all rows. */
typedef struct bs_rows_state {
    int32_t count;
    int32_t first;
    const int32_t *ids; /* PATH: parent row of each, in the parent's numbering of the same context */
} bs_rows_state;

typedef struct bs_route_callback {
    bs_route_function function;
    void *user;
} bs_route_callback;

/* Which score of a row belongs to the path that it took: the path's own, or the one that all paths share; -1: none. */
static inline BS_BOTH int32_t bs_score_of(int32_t path, int32_t width)
{
    const int32_t at = width == 1 ? 0 : path;
    return path >= 0 && at < width ? at : -1;
}

/* The segment of a row: the last segment that begins at or before the row (empty ones that begin there come before
 * it). */
static inline BS_BOTH int32_t bs_segment_of(const int32_t *offsets, int32_t n_segments, int32_t row)
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

#endif
/* ==== end src/graph/rows.h ==================================================================== */

typedef struct bs_segment_rows {
    const bs_graph *graph;
    const bs_rows_state *rows; /* [domains] of this run */
    int32_t domain;            /* whose rows they are */
    const int32_t *offsets; /* [count + 1] the first row of each segment in the domain that has them; checked */
    int32_t count;
} bs_segment_rows;

/* The domain around all paths that has the segments which rows of `domain` are in; 0: there are none. */
static inline int32_t bs_segmented(const bs_graph *graph, int32_t domain)
{
    const int32_t top = graph->domains[domain].top;
    return bs_domain_is_segments(&graph->domains[top]) ? top : 0;
}

/* The row of the domain around all paths that a row came from, in the numbering of the same context. */
static inline int32_t bs_rows_top(const bs_graph *graph, const bs_rows_state *rows, int32_t domain, int32_t row)
{
    for (; graph->domains[domain].kind == BS_DOMAIN_PATH; domain = graph->domains[domain].parent)
        row = rows[domain].ids[row];
    return row;
}

/* The segment of a row. (graph/segments.c) */
int32_t bs_segment_at(const bs_segment_rows *segments, int32_t row);
/* The first row of a segment, or of what follows where it has none; of segment `count`: the number of rows. */
int32_t bs_segment_first(const bs_segment_rows *segments, int32_t segment);

#endif
/* ==== end src/graph/segments.h ================================================================ */

/* One operand of a kernel: `rows` consecutive cells of one shape. `data` is the element [0,0,0] of the core of the
 * first row; strides are in elements. Rank-3 values are images [C,H,W] (stored channels-last inside, but a kernel uses
 * the strides). In a patch domain `dim` is the core clipped to the frame, and rect the part that is present: core plus
 * halo, clipped to the frame, in core coordinates (may start below 0). Elsewhere rect is 0..dim. Storage holds zeros
 * outside rect as far as any reader's window reaches. */
typedef struct bs_rect { int32_t y0, y1, x0, x1; } bs_rect;

typedef struct bs_operand {
    void *data;
    bs_dtype dtype;
    int16_t rank;
    bool image; /* bs_value_info.image */
    int32_t dim[BS_MAX_AXES];
    ptrdiff_t stride[BS_MAX_AXES];
    ptrdiff_t row_stride;
    bs_rect rect;             /* rank 3 only: for an output, the part to compute */
    int32_t frame_y, frame_x; /* of the core's origin in its frame */
    int32_t frame_h, frame_w;
} bs_operand;

#define BS_MAX_WEIGHTS 8

/* A weight tensor that an op declares: "<node name>.<suffix>". */
typedef struct bs_weight_spec {
    const char *suffix;
    bs_dtype dtype; /* type that the op wants; f16/bf16 files are widened */
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
} bs_weight_spec;

/* What is fixed for a node at plan time. */
typedef struct bs_node_plan {
    uint32_t tier;          /* bs_tier, in four bytes whatever the compiler */
    int32_t algorithm;      /* the op's own meaning; conv2d: bs_conv_algorithm */
    bool half;              /* a device whose weights are prepared in f16 */
    uint8_t fusion;         /* 0, or the fused kernel of the chain that ends at this node (plan/fuse.c) */
    /* What its kernel does with images: whether it adds one (bs_call.residual) where a sum is the first step behind
     * it; */
    bool adds;
    /* > 1: it stores a result so many times as large as the step right behind it does (bs_call.phases); its weights are
     * in that order, and neither kernel nor rules go by the extents of the result in the graph; */
    uint8_t phases;
    /* the result has the same bits in whatever rectangles it is computed, if these begin and end at multiples of so
     * many pixels from where the row's own does, or end with it; */
    uint8_t grain;
    /* and rows with an image each, of the same extents, that a call should have, where there are as many. */
    int32_t images;
    int32_t ahead_of;       /* for a look-ahead: the router whose choice it predicts; else 0 */
    int32_t work_items;         /* > 0: work items of each row; bs_call.work_item says which (BS_ROWS_SEGMENT) */
    int32_t fused_in[2];    /* the operands of a fused kernel */
    int32_t unit;           /* unit whose slot holds its prepared weights; 0: resident */
    int32_t instr;          /* of a node that makes a symbol: the instruction that calls it; else -1 */
    int32_t owner;          /* the node whose prepared copy it reads: itself, or an earlier twin with the same layout */
    bs_bytes prepared_bytes; /* offset of its weights, in its unit's slot or the resident weights */
    bs_bytes prepared_offset;
    /* for each thread; on a device (bs_memory_contract.on_device only) for all blocks together, in its memory */
    bs_bytes scratch_bytes;
} bs_node_plan;

#define BS_CROSS_ROWS 64 /* rows, at most, of a call that is one of the work items of bs_node_plan */
#define BS_FAULT_BYTES 160

typedef struct bs_call {
    const bs_graph *graph;
    const bs_node *node;
    const bs_node_plan *plan;
    const void *params;
    int32_t n_in, n_out, rows;
    bs_operand *in;  /* [n_in] */
    bs_operand *out; /* [n_out] */
    const void *prepared; /* the node's prepared weights */
    void *scratch;
    const bs_operand *residual; /* what it adds to its result (bs_node_plan.adds), of the same extents; or NULL */
    /* r > 1, only where bs_node_plan.phases is: the result is every r-th pixel of an image that is r times as large,
     * and its channel c r r + i r + j lies i rows and j pixels of that image on, as channel c */
    int32_t phases;
    char *fault; /* [BS_FAULT_BYTES] for what is wrong with the data of this run, or NULL */
    /* of an op that makes a symbol (bs_infer_data_dim): where it says what the extent is, 0 so far. Its results have
     * the maximum as their extent; it writes no element beyond that, and says more when there are more */
    int64_t *extent;
    /* BS_ROWS_SEGMENT only */
    /* where outputs begin among the rows of their domain; operands in segments are whole, from row 0 */
    int32_t row;
    int32_t work_item; /* 0 .. plan->work_items - 1 */
    bs_segment_rows segments, of_keys; /* of the rows that are made or, of ops that make none, read; of operand 1 */
    /* BS_ROWS_DECIDED only: one row a call */
    const bs_decision_data *decision; /* of the node's router */
    int32_t decided;                  /* the row of it that this call is about */
    int32_t around;                   /* BS_ROWS_AROUND only: rows of operand 0 */
    bool ahead;                       /* the route is forced: there are no scores */
    /* for a look-ahead, which has no outputs. [paths of its router]: the largest margins so far, -1: no row chooses
     * that path; and [paths] scratch */
    float *margins;
    int32_t *order;
} bs_call;

/* A call with room for its operands. */
typedef struct bs_call_room {
    bs_call call;
    bs_operand in[BS_MAX_OPERANDS], out[BS_MAX_OUTPUTS];
} bs_call_room;

typedef struct bs_infer {
    bs_graph *graph;
    const struct bs_op *op;
    const void *params;
    const char *name; /* of the node, for messages ("" when it has none) */
    int32_t n_in;
    const int32_t *ids; /* of the operands; a structural op may have more than BS_MAX_OPERANDS, and 0 = none */
    const bs_value_info *in[BS_MAX_OPERANDS];
    int32_t router, path; /* structural ops set them; the node keeps them */
    int32_t makes;        /* bs_infer_data_dim sets it; the node keeps it */
    bool reshapes;        /* the result is bs_value_info.reshaped */
    int32_t domain; /* of a node without outputs; 0: that of operand 0 */
    int32_t n_out; /* 1 unless the rule says otherwise */
    bs_value_info out[BS_MAX_OUTPUTS]; /* starts as a copy of in[0], if there is one */
    char said[4][112]; /* texts for a refusal, at most four (bs_say_value, ...) */
    uint32_t n_said;
} bs_infer;

/* Refuses a field of a descriptor that is outside low .. high. (graph/graph.c) */
bool bs_infer_field(bs_infer *infer, const char *field, int64_t n, int64_t low, int64_t high);
#if defined(BS_NO_MESSAGES)
#define bs_infer_field(infer, field, n, low, high) (bs_infer_field)(infer, BS_TEXT(field), n, low, high)
#endif

/* For refusals: a shape, a dimension, a domain, as in bs_value_text and similar functions. (graph/text.c) */
const char *bs_say_value(bs_infer *infer, const bs_value_info *value);
const char *bs_say_typed(bs_infer *infer, const bs_value_info *value); /* "f32 [8, 4]" */
const char *bs_say_dim(bs_infer *infer, bs_dim_id d);
const char *bs_say_domain(bs_infer *infer, int32_t domain);

/* What the planner makes of a node. */
typedef enum bs_op_work {
    BS_WORK_CALL,  /* a kernel computes its outputs; without outputs, it predicts what a later router will need */
    BS_WORK_GIVEN, /* nothing: its output already is memory of the caller, of a state or of prepared weights */
    BS_WORK_VIEW,  /* nothing, if readers can find its rows in those of operand 0: through the decision of its
                    * router, or as cells of a tensor */
    BS_WORK_MOVE,  /* moves rows of its operands: with a router, back from its paths; else into a tensor; without
                    * outputs, at the end of a run, to a bound buffer or into a state */
    BS_WORK_ROUTE  /* a router decides */
} bs_op_work;

/* How an op uses an operand. */
typedef enum bs_role {
    BS_ROLE_DATA,
    BS_ROLE_LIKE,        /* only tells the domain of the result; not read */
    BS_ROLE_DECIDING,    /* a router decides by it, or it says an extent: it keeps its own type */
    BS_ROLE_STATE,       /* a state that is written at the end of a run */
    BS_ROLE_KEYS,        /* rows in as many segments as those of operand 0: checked before a run */
    BS_ROLE_CACHE_LENGTH /* i32, tokens that the cache of each segment holds: checked and copied before a run */
} bs_role;

/* How a run uses the memory that is bound to a node's name: bits. */
enum { BS_BOUND_READ = 1, BS_BOUND_WRITTEN = 2 };

/* ------------------------------------------------------------------------------------------------ the contract
 * What passes and runs ask of an op, instead of its name: which rows it reads, how its kernel takes what lies in
 * memory, what it may make where, and its weights. */

/* Which rows of its operands a row of the result is made of. Of all but the first the op's rule checks the domains. */
typedef enum bs_row_source {
    BS_ROWS_OWN,     /* those in its place */
    BS_ROWS_SEGMENT, /* all of its segment: never in a tile, operands whole */
    BS_ROWS_ANY,     /* what its rule says, wherever they are */
    BS_ROWS_DECIDED, /* the same; it reads its router's decision, row by row */
    BS_ROWS_AROUND   /* the same; operand 0 is what a loop around it carries, all rows of it: never in a tile */
} bs_row_source;

typedef struct bs_rows_contract {
    uint8_t of;              /* bs_row_source */
    bool captures : 1;       /* operands after the first may be root values: their row_stride is 0 */
    bool captures_first : 1; /* so may operand 0; its rule says which domain the result is of */
    bool refuses : 1;        /* a row may hold what it refuses (bs_call_fail): it is computed for rows that ask only */
} bs_rows_contract;

typedef struct bs_layout_contract {
    bool images : 1;        /* rank 3 is an image: one row a call, with rects; may be split into bands of rows */
    bool edges : 1;         /* finds the edge of a frame or core itself: needs no zeros around it, may read a view */
    bool channels_last : 1; /* takes and makes images with channel step 1 (or one channel) only: no planar views */
    bool picks : 1;         /* reads few elements of operand 0, so its rows may lie anywhere */
    bool axes : 1;          /* takes operands of BS_MAX_AXES dimensions, not of BS_MAX_RANK at most */
    bool empty : 1;         /* takes operands without elements; with other ops such a run is BS_ERROR_DATA, unless the
                             * result is empty as well: then no kernel is called */
} bs_layout_contract;

/* An op without weights can follow a kernel as a step of its tail (plan/tails.c) if it goes by elements or by lines. */
typedef struct bs_memory_contract {
    bool elements : 1;  /* each element of its result depends on those in its place alone, and may be made over any of
                         * them that takes as many bytes */
    bool lines : 1;     /* each line of the last dimension depends on that of operand 0 alone, and may be made over it;
                         * chains of a device may begin with it (cuda/op_lines_chain.cuh) */
    bool chained : 1;   /* chains of a device have its function (cuda/op_chain.cuh): its line in ops/list.h says so */
    bool sums : 1;      /* as such a step it is the sum of its two operands */
    bool updates : 1;   /* its result is operand 0 with some elements changed, and may be made in the place of that */
    bool on_device : 1; /* on a device it has scratch as well, one for all blocks: nothing runs beside it */
} bs_memory_contract;

typedef struct bs_weights_contract {
    /* Their number; fills specs. NULL: it has none. */
    int32_t (*specs)(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs);
    /* Canonical weights (dense, in spec order) -> prepared; of the first tensor rows (of its first dimension) first ..
     * first + count: all, or (by_rows) a few at a time, in order. NULL: copied, each aligned to BS_ALIGNMENT. */
    void (*prepare)(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan, const void *const *weights,
                    int32_t first, int32_t count, void *prepared);
    /* Whether two nodes with the same weights, algorithm and prepared bytes prepare them alike. NULL: they do. */
    bool (*same_layout)(const bs_graph *graph, const bs_node *a, const bs_node *b);
    bool by_rows;
} bs_weights_contract;

/* The lists of brainstorm.h (BS_..._LIST) that fields of descriptors choose from. */
#define BS_FIELD_LISTS(X)                                                                          \
    X(PADDING) X(ACT) X(BINARY) X(COMPARE) X(UNARY) X(EDGE) X(POOL) X(RESIZE) X(CENTRES) X(REDUCE) \
    X(UPDATE) X(SEGMENT) X(GATHER)

/* What a field holds: a number, or one of a list (ops/describe.c has the names). */
typedef enum bs_field_kind {
#define BS_FIELD_ENUM(list) BS_FIELD_##list,
    BS_FIELD_INT, BS_FIELD_FLOAT, BS_FIELD_DTYPE, BS_FIELD_PROTOCOL, BS_FIELD_LISTS(BS_FIELD_ENUM) BS_FIELD_KINDS
#undef BS_FIELD_ENUM
} bs_field_kind;

/* A field of a descriptor, in order: for model files and `inspect`, and to check that integers are within low .. high
 * (both 0: any) before a shape rule sees them. */
typedef struct bs_field {
    char name[14];
    uint8_t holds; /* bs_field_kind */
    int8_t low;
    int32_t high;
} bs_field;

/* Rules that only some ops have. */
typedef struct bs_op_rules {
    bs_weights_contract weights;
    /* Margin that input `index` needs when the output has `margin`; NULL: the same margin. */
    int32_t (*halo)(const bs_graph *graph, const bs_node *node, int32_t index, int32_t out_margin);
    /* Chooses what bs_node_plan has of a kernel; max_rect: largest output rect. NULL: all as bs_plan_size_node sets
     * it. */
    void (*plan)(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                 bs_node_plan *plan);
    /* What else may follow a kernel as a step: it makes a [C, r H, r W] of f32 from [C r r, H, W] by moving elements.
     * Its r. NULL: it is none. */
    int32_t (*enlarges)(const bs_node *node);
    /* Converts the fields of a model file of an older op set; NULL: nothing changed. */
    void (*upgrade)(int32_t *fields, int32_t opset);
} bs_op_rules;

typedef struct bs_op {
    const char *name;
    const bs_field *fields;
    uint16_t max_in;                   /* operands; 0: as many as min_in */
    uint8_t min_in;
    uint8_t params_bytes;              /* sizeof the descriptor: name pointer, then 4-byte fields */
    uint8_t n_fields;
    uint8_t work : 3;                  /* bs_op_work */
    uint8_t more_out : 2;              /* results behind the first */
    uint8_t bound : 2;                 /* BS_BOUND_READ: an input; _WRITTEN: an output; both: a state; 0: nothing */
    bool named : 1;                    /* its name must be unique: inputs, states and outputs; routers */
    bool variadic : 1;                 /* has a list of operands; those of a structural op may be none */
    bs_rows_contract rows;
    bs_layout_contract layout;
    bs_memory_contract memory;
    uint8_t roles[BS_MAX_OPERANDS];    /* bs_role of each operand; further operands are data */
    /* Shape rule: fills out[] (dtype, rank, dims, scale) or refuses (bs_infer_fail) and returns false. */
    bool (*infer)(bs_infer *infer);
    /* Cost rule: floating-point operations of one row at maximum extents; NULL: so few that they do not count. */
    double (*flops)(const bs_graph *graph, const bs_node *node);
    const bs_op_rules *rules; /* NULL: it has none of these */
    /* The kernel of plan->tier; BS_TIER_SCALAR is the plain reference. BS_ERROR_DATA for bad run-time data. */
    bs_status (*run)(const bs_call *call);
} bs_op;

/* Whether its rows are computed one by one, each of the rows in its place; and whether none of them may be refused:
 * then they may be computed wherever, and for whichever rows, that pays. */
static inline bool bs_op_is_by_row(const bs_op *op) { return op->rows.of == BS_ROWS_OWN; }
static inline bool bs_op_is_pure(const bs_op *op) { return bs_op_is_by_row(op) && !op->rows.refuses; }
/* Whether its rule says where its rows are, not one of the rows of its operands. */
static inline bool bs_op_is_structural(const bs_op *op) { return op->rows.of >= BS_ROWS_ANY; }
/* Whether its rows need others, which a tile may not have. */
static inline bool bs_op_sees_rows(const bs_op *op)
{
    return op->rows.of == BS_ROWS_SEGMENT || op->rows.of == BS_ROWS_AROUND;
}
/* Whether it may refuse what an operand holds: those marked, and of those that see rows some. */
static inline bool bs_op_may_refuse(const bs_op *op) { return bs_op_sees_rows(op) || op->rows.refuses; }
/* Whether it may need more of an image than it makes (bs_op_rules.halo). */
static inline bool bs_op_has_halo(const bs_op *op) { return op->rules && op->rules->halo; }
/* Its weights; NULL: it has none. */
static inline const bs_weights_contract *bs_op_weights_of(const bs_op *op)
{
    return op->rules && op->rules->weights.specs ? &op->rules->weights : NULL;
}
/* Whether they are brought into another form than they come in. */
static inline bool bs_op_prepares(const bs_op *op) { return op->rules && op->rules->weights.prepare; }

static inline int32_t bs_op_max_in(const bs_op *op) { return bs_or_default(op->max_in, op->min_in); }

/* Adds a node of this op, whose place in the op table is `number`, with operands `in`; copies `params`
 * (op->params_bytes); runs the op's shape rule. Returns the node, or NULL on failure (recorded). The only way nodes
 * come into being; ops/table.h has what finds the op. (graph/graph.c) */
bs_node *bs_graph_add(bs_graph *graph, const bs_op *op, int32_t number, const int32_t *in, int32_t n_in,
                      const void *params);

/* Finds the first node that computes what node n does: row by row the same, at any time of a run. (graph/same.c) */
void bs_graph_find_same(bs_graph *graph, const bs_op *op, int32_t n);

/* Whether a loop is worth writing twice, the second time over dense floats, of which compilers make vectors. Not in
 * a small library (BS_SMALL). */
#ifdef BS_SMALL
#define BS_DENSE_PAYS false
#else
#define BS_DENSE_PAYS true
#endif

/* Floats that n floats take when the next array is aligned. */
static inline BS_BOTH ptrdiff_t bs_aligned_floats(ptrdiff_t n)
{
    const ptrdiff_t line = BS_ALIGNMENT / (ptrdiff_t)sizeof(float);
    return (n + line - 1) / line * line;
}

/* Element `offset` of an operand, from [0,0,0] of its first row. */
static inline void *bs_operand_at(const bs_operand *o, int64_t offset)
{
    return (char *)o->data + offset * (ptrdiff_t)bs_dtype_bytes(o->dtype);
}
/* How many elements a row has, if they lie one after the other; else -1. */
static inline int64_t bs_operand_line(const bs_operand *o)
{
    int64_t n = 1;
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        if (o->stride[d] != n && o->dim[d] != 1)
            return -1;
        n *= o->dim[d];
    }
    return n;
}
static inline float *bs_f32_at(const bs_operand *o, int64_t offset) { return (float *)o->data + offset; }

#endif
/* ==== end src/graph/op.h ====================================================================== */

int32_t bs_op_count(void);
const bs_op *bs_op_get(int32_t number); /* NULL: there is none */
int32_t bs_op_index(const char *name);  /* -1 when unknown */

/* The op of a node of a graph: there is one, since the node could be added. Runs ask for it many times a node. */
extern const bs_op *const bs_op_table[];
static inline const bs_op *bs_node_op(const bs_node *node) { return bs_op_table[node->op]; }

static inline bs_op_work bs_node_work(const bs_node *node) { return (bs_op_work)bs_node_op(node)->work; }
static inline bs_role bs_node_role(const bs_node *node, int32_t operand)
{
    return operand < BS_MAX_OPERANDS ? (bs_role)bs_node_op(node)->roles[operand] : BS_ROLE_DATA;
}
/* The first operand of that role; -1: it has none. */
int32_t bs_node_operand(const bs_node *node, bs_role role);
static inline bool bs_node_is_input(const bs_node *node) { return bs_node_op(node)->bound == BS_BOUND_READ; }
static inline bool bs_node_is_output(const bs_node *node) { return bs_node_op(node)->bound == BS_BOUND_WRITTEN; }
static inline bool bs_node_is_state(const bs_node *node)
{
    return bs_node_op(node)->bound == (BS_BOUND_READ | BS_BOUND_WRITTEN);
}
static inline bool bs_node_is_view(const bs_node *node) { return bs_node_work(node) == BS_WORK_VIEW; }
/* Whether it moves rows back from the paths of its router. */
static inline bool bs_node_gathers(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->router != 0;
}
/* Whether it makes a tensor of cells. */
static inline bool bs_node_joins_cells(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->router == 0 && node->n_out > 0;
}
/* Whether it copies at the end of a run, to an output or into a state. */
static inline bool bs_node_ends_run(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_MOVE && node->n_out == 0;
}
/* How many times as large as what it changes the result of a step of a tail is. */
static inline int32_t bs_node_enlarges(const bs_node *node)
{
    const bs_op_rules *rules = bs_node_op(node)->rules;
    return rules && rules->enlarges ? rules->enlarges(node) : 1;
}
/* The same of the step right behind a kernel. */
static inline int32_t bs_node_phases(const bs_graph *graph, const bs_node *node)
{
    return node->n_tail > 0 ? bs_node_enlarges(&graph->tails[node->tail].node) : 1;
}
/* The value whose elements lie in the buffer that is bound to an input, an output or a state. */
static inline int32_t bs_bound_value(const bs_graph *graph, const bs_node *node)
{
    return node->n_out > 0 ? node->first_out : bs_node_in(graph, node)[0];
}

/* Lifts the node that was added last out of the loops in which it would compute the same in every trip. Returns the
 * node whose outputs, and those of the next ones, are what it gives in the body. NULL: NULL. (ops/lift.c) */
bs_node *bs_lift(bs_graph *graph, bs_node *node);

/* Adds a node (bs_graph_add) of the op with this number, and lifts it. Returns the node whose output is the result. */
bs_node *bs_op_build_numbered(bs_graph *graph, int32_t number, const int32_t *in, int32_t n_in, const void *params);
/* The same by the op itself; and the same, returning output 0 as a handle. */
bs_node *bs_op_build_node(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
bs_value bs_op_build(bs_graph *graph, const bs_op *op, const int32_t *in, int32_t n_in, const void *params);
/* The same with one operand, or two: `b` may be none where the op takes one. */
bs_value bs_op_build_one(bs_graph *graph, bs_value x, const void *params, const bs_op *op);
bs_value bs_op_build_two(bs_graph *graph, bs_value a, bs_value b, const void *params, const bs_op *op);

/* Weights of a node: fills specs [BS_MAX_WEIGHTS], returns their number. */
int32_t bs_node_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs);
/* Offset of weight `index` in default-prepared memory, and the total for index == count. */
bs_bytes bs_weight_offset(const bs_weight_spec *specs, int32_t index);
bs_bytes bs_weight_elements(const bs_weight_spec *spec);

#endif
/* ==== end src/ops/table.h ===================================================================== */

extern const bs_op bs_op_input, bs_op_state, bs_op_state_write, bs_op_output, bs_op_patches, bs_op_assemble, bs_op_rows,
    bs_op_collect, bs_op_route, bs_op_scatter, bs_op_gather, bs_op_route_price, bs_op_route_score, bs_op_look_ahead,
    bs_op_segments, bs_op_state_append, bs_op_segment_spread, bs_op_segment_reduce, bs_op_segment_index,
    bs_op_loop_carry;

/* input, state. dim > 0: a constant; dim < 0: -dim is symbol number (from 1, in order of creation) + 65536 (factor -
 * 1). */
typedef struct bs_source_params {
    const char *name;
    int32_t dtype, rank, dim[BS_MAX_RANK];
} bs_source_params;

typedef struct bs_name_params {
    const char *name;
} bs_name_params;

typedef struct bs_router_params { /* of scatter, route_price, route_score */
    const char *name;
    int32_t router, path;
} bs_router_params;

typedef struct bs_gather_params { /* operands: one for each path (0: none), then the residual (0: none) */
    const char *name;
    int32_t router, mode;
} bs_gather_params;

typedef struct bs_loop_params {
    const char *name;
    int32_t bound, in_turn, grows, no_lift;
} bs_loop_params;

/* `mode` of a loop_trip: the number of the trip, from 0 or from 1, as [1]; or from 0 as a number alone, an index. */
enum { BS_TRIP_FROM_0, BS_TRIP_FROM_1, BS_TRIP_INDEX };

/* `mode` of a loop_parent: the row that made a row, or which one it is of those that this one made. */
enum { BS_PARENT_ROW, BS_PARENT_CHILD };

/* The protocol of loops, which no bs_route has: a predicate, a count or a dimension decides after each trip. */
enum { BS_ROUTE_LOOP = BS_PROTOCOL_COUNT };

/* Whether `node` is of this op. */
static inline bool bs_node_is(const bs_node *node, const bs_op *op)
{
    return bs_node_op(node) == op;
}

const char *bs_protocol_name(bs_protocol protocol);
/* Whether what a row takes depends on other rows, or on the caller's function. */
bool bs_protocol_sees_all_rows(int32_t protocol);
/* Whether each row takes a path, whatever the scores are. */
bool bs_route_leaves_none(const bs_route_desc *desc);

/* Same dtype, rank and dimensions, in every run. */
bool bs_same_shape(const bs_value_info *a, const bs_value_info *b);

/* A router's name must be there and new; then the router is added, which decides for the rows of `domain`. NULL: it is
 * refused. */
bool bs_infer_router_name(bs_infer *infer);
bs_router_info *bs_infer_router(bs_infer *infer, const bs_route_desc *desc, int32_t domain);

/* The domain of the rows that infer->router sends to a path; below 0: there is no room for it. */
int32_t bs_infer_path(const bs_infer *infer, int32_t path);

/* The value whose rows a view shows: its operand, or what a carried value is after a trip. */
static inline int32_t bs_view_of(const bs_graph *g, const bs_node *view)
{
    return view->writer ? g->nodes[view->writer].first_out : bs_node_in(g, view)[0];
}

/* Whether a view shows the part of each row that belongs to the trip of its loop, along dimension 0. */
static inline bool bs_view_slices(const bs_graph *g, const bs_node *view)
{
    return view->router != 0 && g->values[bs_view_of(g, view)].rank > g->values[view->first_out].rank;
}

/* Whether it keeps what each trip of a loop gives, not what the last one does. */
static inline bool bs_loop_collects(const bs_graph *g, const bs_node *node)
{
    return bs_node_gathers(node) && bs_router_loops(g, node->router) && node->n_in == 2;
}

/* Refuses unless operand 0 is a state that no node writes yet. */
bool bs_infer_state(bs_infer *infer);

/* bs_infer_row_shape gives out[0] the shape of a row of operand 0, which must be a root value that has rows;
 * bs_infer_row_domain the domain of those rows. `lengths`: the value that groups them in segments, or 0. */
bool bs_infer_row_shape(bs_infer *infer);
bool bs_infer_row_domain(bs_infer *infer, int32_t lengths);

/* Segments (ops/segments.c). The two below refuse and return false.
 * Operand `index` is an input i32 [n], the same n as dims[0] of the lengths of `domain` (domain 0: any n). */
bool bs_infer_segment_input(bs_infer *infer, int32_t index, int32_t domain, const char *what);
/* The domain of operand `index`, one of segments or a path in it, or 0 after refusing. */
int32_t bs_infer_segments(bs_infer *infer, int32_t index);
/* Number of segments that rows of such a domain are in. */
static inline bs_dim_id bs_segment_dim(const bs_graph *graph, int32_t domain)
{
    return graph->values[graph->domains[bs_segmented(graph, domain)].lengths].dims[0];
}

#endif
/* ==== end src/ops/structure.h ================================================================= */
/* ==== begin src/plan/device.h ================================================================= */
/* plan/device.h - a plan as a device reads it, and what a backend does for a session.
 *
 * A device runs the plan's own instructions. They are written out for it once: a *step* for each instruction, chosen
 * for the largest extents, with its operands resolved as far as that depends on no decision, extent or buffer. Extents
 * and buffers are data: before each run the device puts those of the run in place, from a table of all dimensions and
 * one of what is bound. How many rows went where it reads from the decisions, which it made itself.
 * Relies on plan/locate.h and graph/rows.h. C and C++. Must never need a device: a workstation counts bytes for a
 * board. */
#ifndef BS_DEVICE_H
#define BS_DEVICE_H

/* ==== begin src/plan/locate.h ================================================================= */
/* plan/locate.h - where the rows of a value are, worked out once for all that reads or writes them: as far as no
 * decision, extent or buffer is needed. The CPU's operands (run/operands.c) begin here, and a device's
 * (cuda/step_operand.cuh).
 * Relies on plan/plan.h. Must never know an address. */
#ifndef BS_LOCATE_H
#define BS_LOCATE_H

/* ==== begin src/plan/plan.h =================================================================== */
/* plan/plan.h - what planning makes of a graph: where every value lives, and one fixed list of instructions.
 * Owns the plan's data structures. Relies on graph/graph.h and graph/op.h. Must never hold anything that changes in a
 * run. */
#ifndef BS_PLAN_H
#define BS_PLAN_H

/* #include "ops/table.h" */
/* #include "brainstorm_replay.h" */

typedef enum bs_storage {
    BS_STORAGE_NONE,      /* not needed by any output: never computed */
    BS_STORAGE_INPUT,     /* the caller's buffer of input `source` */
    BS_STORAGE_OUTPUT,    /* the caller's buffer of output `source` */
    BS_STORAGE_STATE,     /* the state made by node `source` */
    BS_STORAGE_TRANSIENT, /* rows in the transient arena; or in output `source`, if there is one, when a run finds
                           * that it is bound as the rows would lie: images channels last */
    BS_STORAGE_SCRATCH,   /* rows of the tile in a thread's scratch */
    BS_STORAGE_WEIGHT,    /* a constant: prepared memory of its node */
    BS_STORAGE_VIEW,      /* patches, rows, scatter: rows of operand `source`, found through the decision; or a call's
                           * result that is `source` in other dimensions, or made in its place: no kernel copies */
    BS_STORAGE_FRAME      /* a gather whose rows are stored in the joined root value `source` */
} bs_storage;

typedef struct bs_value_plan {
    uint8_t storage;      /* bs_storage */
    bool planar;          /* rank 3: stored with its last dimension innermost, not its channels */
    bool narrow;          /* f32 that a device keeps in f16 */
    bool is_cache_length; /* some op reads it as cache lengths */
    int32_t source;
    int32_t margin;       /* storage around a cell's core, in samples, rank 3 only */
    int32_t scope;        /* -1 global, else index of the part whose scratch it lives in */
    bs_bytes offset;
    bs_bytes row_bytes;
    int64_t rows;         /* rows that the storage holds */
} bs_value_plan;

typedef enum bs_instr_kind {
    BS_INSTR_CALL,  /* the kernel of `node` on the rows of `domain` */
    /* moves rows of `value` (0: none) to `target`; `map` says where each goes, `combine` how */
    BS_INSTR_MOVE,
    BS_INSTR_ROUTE, /* the router of `node` decides about the rows of `domain` */
    BS_INSTR_RUN    /* lists of instructions on the rows of their domains: the parts of `region`, tile by tile */
} bs_instr_kind;

/* For each row of an instruction's domain: where it is read, and where it goes.
 * VIEW    from what `value` is a view of to the view's own rows (target: itself)
 * ROW     from a row to the same row of `target`
 * PARENT  from a row of a path to the parent row that it was scattered from
 * CELL    from a row to its place in the root tensor `target`
 * BOUND   from the only row to the buffer bound to `node`, or to the state that it writes
 * APPEND  from a row of a segment to the next place in the ring of the cache that `node` writes
 * PATHS   from the packed rows that paths made of a row to that row of `target`
 * BEYOND  to the rows of the root tensor `target` that no cell has
 * TRIP    from a row of a loop's body to the place that the trip has in the parent row of `target`
 * They are written in plan/lower.c, known again in plan/walk_makes.c, and done in run/move.c; others ask below. */
#define BS_ROW_MAP_LIST(X)      \
    X(VIEW, "view to rows")     \
    X(ROW, "row to row")        \
    X(PARENT, "row to parent")  \
    X(CELL, "row to cell")      \
    X(BOUND, "row to bound")    \
    X(APPEND, "row to cache")   \
    X(PATHS, "paths to row")    \
    X(BEYOND, "beyond the cells") \
    X(TRIP, "row to trip")
#define BS_ROW_MAP_NUMBER(name, text) BS_MAP_##name,
typedef enum bs_row_map { BS_MAP_NONE /* no move */, BS_ROW_MAP_LIST(BS_ROW_MAP_NUMBER) } bs_row_map;
enum { BS_ROW_MAPS = BS_MAP_TRIP + 1 };

typedef enum bs_combine {
    BS_COMBINE_COPY,
    BS_COMBINE_RESIDUAL, /* only into rows that no path gives: copies `value`, or zeroes */
    BS_COMBINE_ZERO,
    /* of several paths. `value`, if there is one, is added; or selected when no path gives anything */
    BS_COMBINE_SUM, BS_COMBINE_WEIGHTED_SUM, BS_COMBINE_SELECT
} bs_combine;

/* How far a rectangle reaches beyond a cell's core: above it and to the left, and below it and to the right. */
typedef struct bs_reach {
    int32_t before, after;
} bs_reach;

/* What a call computes of an image in a tile (plan/rings.c). Without rectangles that a later decision may want it is
 * all of the row's rectangle, margin included. */
typedef enum bs_extent_of {
    BS_EXTENT_ALL,
    BS_EXTENT_NEAR, /* as far as `reach` */
    BS_EXTENT_RING  /* as far as `reach`, but for what reaches as far as `done`: up to four strips */
} bs_extent_of;

typedef struct bs_instr {
    uint8_t kind;             /* bs_instr_kind */
    uint8_t map, combine;     /* bs_row_map; MOVE: bs_combine */
    uint8_t extent;           /* CALL: bs_extent_of */
    int32_t node;             /* 0 for RUN */
    int32_t value, target;    /* MOVE; 0: none */
    int32_t domain;           /* whose rows it works on */
    int32_t region;           /* RUN: whose parts it runs */
    int32_t part;             /* part that it belongs to; BS_TOP: it is at top level */
    int32_t time;             /* BS_TIME_END or later: at the end of a run */
    int32_t phase;            /* top level: the phase whose units it needs; -1 none */
    bs_reach reach, done;     /* CALL in a tile, if it computes less than all */
} bs_instr;

#define BS_TOP (-1)

/* Of a move: whether it gives a view rows of its own, gathers what paths made, stays in its row, ends in a trip's place
 * or in a cell's, or goes between a row of a path and the one around it. */
static inline bool bs_instr_loads(const bs_instr *i) { return i->map == BS_MAP_VIEW; }
static inline bool bs_instr_gathers(const bs_instr *i) { return i->map == BS_MAP_PATHS; }
static inline bool bs_instr_stays(const bs_instr *i) { return i->map == BS_MAP_ROW; }
static inline bool bs_instr_to_trip(const bs_instr *i) { return i->map == BS_MAP_TRIP; }
static inline bool bs_instr_to_cell(const bs_instr *i) { return i->map == BS_MAP_CELL; }
static inline bool bs_instr_to_parent(const bs_instr *i)
{
    return i->map == BS_MAP_PARENT || bs_instr_to_trip(i);
}

/* Straight-line instructions for tiles of one domain. */
typedef struct bs_part {
    int32_t region;
    int32_t domain;
    int32_t router, path; /* router 0, path -1 when the part is not a path of a router */
    int32_t first, count; /* instructions */
    int32_t unit;         /* whose weights it needs; 0 none */
    int32_t index;        /* of its entry in region_parts */
    bs_bytes scratch_bytes;
    double flops; /* of a row: the most expensive tiles start first */
} bs_part;

typedef struct bs_domain_plan {
    int32_t order;     /* BS_ORDER_BREADTH or _DEPTH, for top-level domains */
    int32_t tile_rows; /* rows of a tile, in depth order */
    int32_t size;      /* patches: cell size, desc.patch_size applied */
    int64_t max_rows;
    bool live; /* some needed node works on its rows */
    bool images, streams; /* top level: it has images; its routed blocks have streamed weights */
    bool whole; /* top level: a decision below it needs all of its rows */
    bool mixed; /* depth order, but wide nodes run at top level: tiles must fit in shared memory; a CPU: heavy ones */
    bool nested; /* top level: paths inside of paths have streamed weights, each path a unit of its own */
} bs_domain_plan;

typedef struct bs_router_plan {
    int32_t forced; /* path + 1, or 0 */
    bool live;
    bool in_tile;   /* decided tile by tile, inside a region */
    int32_t instr;  /* the instruction that decides; -1 none */
    int32_t again;  /* a loop: the instruction that decides after a trip; -1 none */
    int64_t rows;   /* most rows that a decision is about */
} bs_router_plan;

/* Weights that are loaded together (numbered from 1; 0: resident weights). */
typedef struct bs_plan_unit {
    int32_t block;  /* the outermost block; names the unit */
    int32_t domain; /* the path whose nodes it serves (bs_plan_unit_path); else 0 */
    int32_t node;   /* the first node whose weights are in it */
    bs_bytes prepared_bytes;
} bs_plan_unit;

#define BS_TIME_END (INT32_MAX / 2)
#define BS_TILE_ROWS 16 /* rows of a tile without images */
#define BS_MAX_MARGIN (1 << 20) /* multiplied by a stride it still stays far below 2^31 */
#define BS_MAX_ROWS (1 << 30) /* of a domain, and choices of a router for all of its rows together */
#define BS_MAX_PLAN_BYTES ((uint64_t)1 << 46) /* no plan needs as many */

/* The parts of a region: region_parts[first .. first + count), the most expensive first, equal ones in order of
 * creation. If a long tile started last, the other threads would wait for it. */
typedef struct bs_region {
    int32_t domain; /* whose tiles it runs */
    int32_t first, count;
    int32_t instr;  /* the instruction that runs it; -1: nothing is to be run */
} bs_region;

struct bs_plan {
    uint32_t mark;
    const bs_graph *graph;
    bs_plan_desc desc;
    uint32_t tier; /* bs_tier */
    int32_t threads;
    int32_t n_instrs, n_parts, n_regions, n_top; /* top-level instructions come first */
    /* while it is made, then NULL: what there is room for; and of nodes with the same weights */
    const struct bs_plan_room *room;
    int32_t *twin;            /* [nodes] the last node before it that has the same weights; 0: none */
    int32_t *newest_owner;    /* [nodes] the last owner among its twins, itself included */
    bs_bytes own_bytes;       /* of its own arena; for a plan opened from an image, without its tables */
    int32_t most_parts;       /* most parts of a region */
    int32_t most_phase_units; /* most units of a phase */
    int32_t last_route;       /* at top level: the last instruction that decides; -1 none */
    bs_bytes transient_bytes, scratch_bytes /* a thread */, weight_bytes, staging_bytes;
    bs_bytes kernel_scratch_bytes, kernel_scratch_offset;
    bs_bytes shared_bytes;    /* a device: limit for the rows of a tile */
    bool *node_live;          /* [nodes] */
    bs_node_plan *nodes;      /* [nodes] */
    bs_value_plan *values;    /* [values] */
    bs_instr *instrs;
    bs_part *parts;           /* [n_parts] */
    int32_t *region_parts;    /* [n_parts] */
    bs_region *regions;       /* [n_regions] */
    bs_domain_plan *domains;  /* [domains] */
    bs_router_plan *routers;  /* [routers] */
    /* streaming; when everything is resident n_units is 1 and the others 0 */
    int32_t n_units, n_phases, n_phase_units;
    bs_plan_unit *units;      /* [n_units], [0] unused */
    bs_trace_phase *phases;   /* [n_phases] */
    int32_t *phase_units;     /* [n_phase_units] units of all phases, numbered from 0 as in the stream */
    bs_bytes slot_bytes, all_unit_bytes, largest_unit_bytes;
    bs_bytes chunk_bytes, lane_bytes; /* of one lane's staging */
    int32_t lanes;
};

/* The passes, in order. Each returns false after recording an error. */
/* what is needed; forced routes; orders of domains; margins */
bool bs_plan_live(bs_plan *plan, void *workspace, bs_error *error);
void bs_plan_fuse(bs_plan *plan, void *workspace);   /* chains that one kernel does */
void bs_plan_lay_out(bs_plan *plan);                  /* which values of rank 3 are images */
bool bs_plan_share(bs_plan *plan, void *workspace, bs_error *error); /* which nodes have the same weights */
void bs_plan_lower(bs_plan *plan, void *workspace);  /* storage classes and instructions */
bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error); /* offsets in transient and scratch */
/* A device: a top-level domain whose tiles do not fit in shared memory, or 0. Streamed paths run in tiles all the
 * same, which then lie in device memory. */
int32_t bs_plan_domain_beyond_shared(const bs_plan *plan);
/* Whether a node's input or output rows are too wide to share a tile with others (mixed domains of a device). */
bool bs_plan_is_wide(const bs_plan *plan, int32_t node);
/* The same on a CPU. A node is heavy that has more weights than a row of what it reads and makes, so many that each
 * tile would read them from memory, which at top level all rows do once. */
typedef enum bs_load {
    BS_LOAD_LIGHT,  /* runs in tiles */
    BS_LOAD_EITHER, /* no weights, or few: runs where its operands were made */
    BS_LOAD_HEAVY   /* runs at top level */
} bs_load;
bs_load bs_plan_weight_load(const bs_plan *plan, int32_t node);
/* For tiles of `top` that are too large: smaller ones, if most nodes then still run in tiles; else layer by layer. */
void bs_plan_untile(bs_plan *plan, int32_t top);
/* No plan of a graph has more instructions. A node of cells begins at most one part, and at most one region. */
static inline int32_t bs_plan_most_instrs(const bs_graph *g) { return 2 * g->n_nodes + g->n_operands; }
static inline int32_t bs_plan_most_parts(const bs_graph *g) { return g->n_cell_nodes; }

/* What is needed while a plan is made: entries of the graph, at most, and of what is made of them. */
typedef struct bs_plan_room {
    int64_t nodes, values, operands, domains, routers, blocks;
    int64_t twins; /* nodes that may have the same weights */
    int64_t instrs, parts;
    int64_t units, phases, uses; /* uses: units of all phases */
    bool patches;
} bs_plan_room;

/* Bytes of the passes' workspaces. Passes run one after the other in the same memory. */
bs_bytes bs_plan_live_workspace(const bs_plan_room *room);
bs_bytes bs_plan_fuse_workspace(const bs_plan_room *room);
bs_bytes bs_plan_share_workspace(const bs_plan_room *room);
bs_bytes bs_plan_lower_workspace(const bs_plan_room *room);
bs_bytes bs_plan_memory_workspace(const bs_plan_room *room);

/* Streaming: plan/units.c. */
#if !defined(BS_NO_STREAM)
void bs_plan_units(bs_plan *plan, void *workspace);  /* which weights are loaded together */
/* which instructions need which units; sizes of slots and staging */
bool bs_plan_phases(bs_plan *plan, void *workspace, bs_error *error);
bs_bytes bs_plan_units_workspace(const bs_plan_room *room);
bs_bytes bs_plan_phases_workspace(const bs_plan_room *room);
/* Sizes slots, lanes and staging by what units need (plan/streamed.c). Returns the largest unit. */
int32_t bs_plan_size_slots(bs_plan *plan);
/* Whether a needed node has streamed weights. */
bool bs_plan_node_streams(const bs_plan *plan, int32_t node);
static inline bool bs_plan_streams(const bs_plan *plan) { return plan->n_units > 1; }
static inline bool bs_instr_streams(const bs_instr *i) { return i->phase >= 0; } /* it is part of a phase */
#else /* all weights are resident */
static inline void bs_plan_units(bs_plan *plan, void *workspace)
{
    (void)workspace;
    plan->n_units = 1;
}
static inline bool bs_plan_phases(bs_plan *plan, void *workspace, bs_error *error)
{
    (void)plan, (void)workspace, (void)error;
    return true;
}
static inline bs_bytes bs_plan_units_workspace(const bs_plan_room *room) { return (void)room, bs_bytes_of(0); }
static inline bs_bytes bs_plan_phases_workspace(const bs_plan_room *room) { return (void)room, bs_bytes_of(0); }
static inline int32_t bs_plan_size_slots(bs_plan *plan) { return plan->all_unit_bytes = bs_bytes_of(0), 0; }
static inline bool bs_plan_node_streams(const bs_plan *plan, int32_t node) { return (void)plan, (void)node, false; }
static inline bool bs_plan_streams(const bs_plan *plan) { return (void)plan, false; }
static inline bool bs_instr_streams(const bs_instr *i) { return (void)i, false; }
#endif

/* Something that takes `bytes` from the time `first` to the time `last`, both included, at `offset`. */
typedef struct bs_life {
    bs_bytes bytes, offset;
    int32_t first, last;
} bs_life;
/* Gives lives their offsets, so that none shares bytes with another that is alive at the same time, and returns the
 * bytes of the whole. workspace: bs_place_workspace(count) bytes. (plan/lifetimes.c; tested by brute force.) */
bs_bytes bs_place_lives(bs_life *lives, int32_t count, void *workspace);
bs_bytes bs_place_workspace(int32_t count);

/* Gives all domains the orders of their top-level ones; sets where routers decide. */
void bs_plan_spread_orders(bs_plan *plan);
/* Finds the node whose prepared copy a node reads, once all before it are planned and its layout is known
 * (plan/share.c). */
void bs_plan_find_owner(bs_plan *plan, int32_t node);

/* Whether a node's kernel wants images as they are stored here, channels last; and whether a value of rank 3 may be
 * stored otherwise, as far as its own node goes. */
bool bs_plan_is_of_images(const bs_plan *plan, int32_t node);
bool bs_plan_may_be_planar(const bs_plan *plan, int32_t value);
/* What a view of rows that are neither patches nor parts of anything shows, in its layout; or 0. */
int32_t bs_plan_whole_view_of(const bs_plan *plan, int32_t node);

/* Whether a value may be stored in the buffer of an output, whose strides are known when it is bound: joined cells, and
 * root values of kernels. Kernels of images want channels last, and a device's the strides that it was planned for. */
bool bs_plan_may_end_in_place(const bs_plan *plan, int32_t value);
/* Whether an image that comes in is read where it is bound, if that is channels last. */
bool bs_plan_may_lie_as_bound(const bs_plan *plan, int32_t value);

/* ------------------------------------------------------------------------------------ what is known of a plan
 * Rules by which a plan is made, looked at when an image of it is opened, and run (plan/facts.c). */
static inline bool bs_plan_on_device(const bs_plan *plan) { return plan->tier == BS_TIER_CUDA; }
/* The type in which the plan stores rows of a value. */
static inline bs_dtype bs_plan_stored(const bs_plan *plan, int32_t value)
{
    return plan->values[value].narrow ? BS_F16 : plan->graph->values[value].dtype;
}
/* Whether a value has rows of its own. */
static inline bool bs_plan_is_stored(const bs_plan *plan, int32_t value)
{
    return plan->values[value].storage == BS_STORAGE_TRANSIENT || plan->values[value].storage == BS_STORAGE_SCRATCH;
}
/* Whether an instruction decides which rows make a trip of a loop. */
static inline bool bs_instr_loops(const bs_plan *plan, const bs_instr *i)
{
    return i->kind == BS_INSTR_ROUTE && bs_router_loops(plan->graph, plan->graph->nodes[i->node].router);
}
/* Whether the rows of `domain` are rows of a tile of `above`. */
bool bs_plan_is_within(const bs_graph *graph, int32_t domain, int32_t above);
/* The ROWS or PATCHES domain that `domain` is or descends from; 0 for the root. */
int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain);
/* The path whose weights are loaded with those of a domain's nodes: of the paths of routers around it the outermost,
 * or, where every path is a unit of its own, the innermost; 0: it is in none. */
int32_t bs_plan_unit_path(const bs_plan *plan, int32_t domain);
/* The largest core that a cell of this value can have, [h, w]. */
void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w);
/* Sets what follows from the plan's tier and its description. */
void bs_plan_begin(bs_plan *plan);
/* Sets what follows from the plan's tables: sizes of arenas, and maxima. */
void bs_plan_sum(bs_plan *plan);
/* Where the rows of a stored value end in its arena. */
static inline bs_bytes bs_plan_end(const bs_value_plan *value)
{
    return bs_bytes_add(value->offset, bs_bytes_times(value->row_bytes, value->rows));
}
/* Patch size, most rows and those of a tile of a domain, parents first; and for a router, where it decides and about
 * how many rows. */
void bs_plan_size_domain(const bs_plan *plan, int32_t domain, bs_domain_plan *p);
void bs_plan_size_router(const bs_plan *plan, int32_t router, bs_router_plan *r);

/* The end of what may run side by side with instruction `first`, and one with another: the next ones at top level of
 * its time, at most BS_SIDE_BY_SIDE in all. None touches what another writes: the planner sees to it (plan/joins.c).
 * Of a saved plan that lies about it an index that one checks may be another one when it is read again: so it is read
 * once, and on a CPU what may refuse its data runs alone. Each stands by itself at the end of a run, and where weights
 * stream. */
int32_t bs_plan_side_by_side(const bs_plan *plan, int32_t first);
#define BS_SIDE_BY_SIDE 1024

/* The operands a node has in this plan: its own, or those of the chain it ends (plan/fusions.c). */
const int32_t *bs_plan_in(const bs_plan *plan, int32_t node, int32_t *count);
bs_status bs_fusion_run(const bs_call *call);
const char *bs_fusion_name(int32_t fusion);
int32_t bs_fusion_count(void);
bool bs_fusion_is_of_images(int32_t fusion); /* 0: false */
/* Whether the paths of a gather's router give it every row, whatever is decided: nothing is left for a residual. */
bool bs_plan_gives_all(const bs_plan *plan, const bs_node *gather);
/* Whether a run reads operand `index` of a node. A forced router reads no scores; a gather of one reads only what the
 * forced path gives. */
bool bs_plan_reads(const bs_plan *plan, const bs_node *node, int32_t index);
/* Whether operand `index` of node n, which is `value`, can be read where its rows are, without a copy. */
bool bs_plan_reads_in_place(const bs_plan *plan, int32_t n, int32_t index, int32_t value);
/* The same where the rows of a path happen to lie one after the other among those around it. */
bool bs_plan_reads_in_a_row(const bs_plan *plan, int32_t n, int32_t index, int32_t value);
/* Whether a run may look for the rows of a value of a path, which is stored, where its source has them: a carried
 * value, which outlives its trip. */
bool bs_plan_may_be_seen(const bs_plan *plan, int32_t value);
/* The carried value in whose place `value` may be made, of which it is what that is after the trip, but for some
 * elements; 0: none. */
int32_t bs_plan_updates(const bs_plan *plan, int32_t value);
bool bs_plan_is_seen(const bs_plan *plan, int32_t value);
/* The value in whose rows those of `value` lie, if it is only that in other dimensions; else itself. And whether a plan
 * may say so of a call's result and its operand, which has been placed. */
int32_t bs_plan_rows_of(const bs_plan *plan, int32_t value);
bool bs_plan_may_show(const bs_plan *plan, int32_t value);
bool bs_plan_is_planar(const bs_plan *plan, int32_t value);
/* Whether a gather keeps the rows of all paths until all are there (for sums, and for several paths a cell); and how
 * it then combines them. */
bool bs_plan_is_packed(const bs_graph *graph, const bs_node *gather);
bs_combine bs_plan_combine(const bs_node *gather);
/* A call without outputs: it only predicts what a later router will choose. */
static inline bool bs_plan_looks_ahead(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_CALL && node->n_out == 0;
}
bool bs_plan_look_ahead_fits(const bs_plan *plan, int32_t node, int32_t router, bs_error *error);

/* Margin that operand `index` needs where the node's outputs have `margin`; and where they have their own. */
int32_t bs_plan_margin_for(const bs_plan *plan, const bs_node *node, int32_t index, int32_t margin);
int32_t bs_plan_margin_needed(const bs_plan *plan, const bs_node *node, int32_t index);
/* For a value with rows of its own: bytes of a row, and number of rows; from its margin and its storage class. */
bs_bytes bs_plan_row_bytes(const bs_plan *plan, int32_t value);
int64_t bs_plan_storage_rows(const bs_plan *plan, int32_t value);

/* Whether a run reads the node's weights: a forced router needs no table. */
bool bs_plan_needs_weights(const bs_plan *plan, int32_t node);
/* Bytes of a node's weights as its op declares them. */
bs_bytes bs_plan_canonical_bytes(const bs_graph *graph, const bs_node *node);
/* Chooses the node's algorithm, bytes and work items; needs its margins. */
void bs_plan_size_node(const bs_plan *plan, int32_t node, bs_node_plan *np);
/* Whether two nodes that have the same weights can read one copy. */
bool bs_plan_laid_out_alike(const bs_plan *plan, int32_t a, int32_t b);

/* Whether a row of a table is what the planner's own rules give; and whether all from `first` on are. */
typedef bool bs_plan_sound(const bs_plan *plan, int32_t row);
bool bs_plan_each(const bs_plan *plan, int32_t first, int32_t rows, bs_plan_sound *sound);
/* Walks all instructions, to the end: whether each is one that the graph needs, there and then, and reads only what has
 * been written before it on every way to it, by an account of its own (plan/walk.c). Returns the first that is not (the
 * number of all: one is missing), or BS_WALK_SOUND. workspace: bs_plan_walk_workspace bytes. */
#define BS_WALK_SOUND (-1)
int32_t bs_plan_walk(const bs_plan *plan, bool whole, void *workspace);
#if defined(BS_VERIFY) || defined(BS_DEBUG)
/* The same, and whether what is read is still there: nothing else was written over it (plan/walk_bytes.c). */
int32_t bs_plan_walk_bytes(const bs_plan *plan, void *workspace);
bs_bytes bs_plan_walk_bytes_workspace(const bs_plan_room *room);
#endif
bs_bytes bs_plan_walk_workspace(int64_t nodes, int64_t operands); /* of a graph with so many */

/* plan/limits.c. First checks bs_plan_desc; then the limits of every plan. */
bool bs_plan_desc_sound(const bs_plan_desc *desc, bs_error *error);
bool bs_plan_rows_fit(const bs_plan *plan, bs_error *error);
bool bs_plan_bytes_fit(const bs_plan *plan, bs_error *error);

#endif
/* ==== end src/plan/plan.h ===================================================================== */

typedef enum bs_place {
    BS_AT_ROOT, /* one row, at `base` */
    BS_AT_ROWS, /* base + (first of the domain's rows + row) * row_bytes */
    BS_AT_TILE, /* base is an offset in the scratch of a tile: + row * row_bytes */
    BS_AT_CELL, /* in the root image `source`, where the cell lies */
    BS_AT_LINE, /* in the root tensor `source`: the row of the top-level domain */
    BS_AT_RING, /* a device's, of a cache: the row that state_append writes (segment, then position) */
    /* a CPU's, of values of a path: */
    BS_AT_ABOVE, /* where `source` has the row that this one came from */
    BS_AT_SEEN   /* the same while the path's rows stand side by side around it, else as BS_AT_ROWS and BS_AT_TILE */
} bs_place;

/* Whose memory it is that `base` is an offset in. */
typedef enum bs_memory_of {
    BS_OF_PLAN,    /* the plan's: transient memory, or the scratch of a tile */
    BS_OF_WEIGHTS, /* prepared weights */
    BS_OF_CALLER,  /* what is bound to node `bound` */
    BS_OF_EITHER   /* the caller's where that lies channels last, else the plan's */
} bs_memory_of;

/* Element [0,0,0] of the core of a row, and what hangs on the path that it is read along. */
typedef struct bs_locator {
    bs_bytes base;
    bs_bytes row_bytes; /* from one row to the next */
    int32_t form;       /* of the value itself (bs_form_twin) */
    int32_t domain;     /* whose rows they are */
    int32_t source;     /* CELL, LINE, ABOVE, SEEN: a value */
    int32_t loop;       /* ABOVE, SEEN: of the row of `source` it is the part that belongs to a trip of this; 0: all */
    int32_t bound;
    uint8_t place, memory; /* bs_place; bs_memory_of */
    bool in_tile;          /* TILE; and SEEN, if it is otherwise as that */
    uint8_t shift;         /* of a stored element's bytes */
} bs_locator;

void bs_locate(const bs_plan *plan, int32_t value, bs_locator *locator);
/* Strides in elements of rows that the plan stores, from the maxima of its extents; and how many elements the core
 * lies behind the start of the row. */
int64_t bs_strides_stored(const bs_plan *plan, int32_t value, int64_t stride[BS_MAX_AXES]);
/* Values have one form whose operands differ in their addresses alone, as far as the plan stores them. Returns one that
 * stands shortly before `value` and has its form; 0: it has one of its own. */
int32_t bs_form_twin(const bs_plan *plan, int32_t value);

#endif
/* ==== end src/plan/locate.h =================================================================== */
/* #include "graph/rows.h" */

/* ------------------------------------------------------------------------------------------------- tables */

/* Where a caller's buffer is on the device, or its copy there. */
typedef struct bs_device_bound {
    uint64_t address;
    int32_t stride[BS_MAX_RANK]; /* in elements */
    int32_t bytes;               /* of an element */
} bs_device_bound;

/* Words of 4 bytes are numbered from the start of the session's decisions, or of a tile's (in_tile). Word 0 of either
 * is none of those that are looked for. */

/* From a row of a path to the row of the domain around it that it came from: ids[of the path's first row + row]. */
typedef struct bs_device_link {
    int32_t domain;  /* the path */
    uint32_t offset; /* word: where the path's rows begin among those of all paths */
    uint32_t ids;    /* word: i32 [rows of all paths] */
    int32_t in_tile;
} bs_device_link;

/* Where it is said how many rows a domain has: bytes from the start of the decisions. */
typedef struct bs_device_count {
    int64_t at;
    int32_t in_tile;
} bs_device_count;

#define BS_DEVICE_LINKS 2 /* that an operand has by itself; of domains further in all others are looked up */

/* One operand of a step. Where element [0,0,0] of the core of a row lies follows from the row, and from what was
 * decided: those words have their places here, so that none is looked for in other tables. */
typedef struct bs_device_operand {
    uint64_t base;      /* address on the device */
    int64_t row_bytes;  /* from one row to the next */
    uint8_t place, dtype, rank;
    uint8_t image : 1; /* [C,H,W], perhaps in cells and with a margin; else it has dimensions like any others */
    uint8_t skip : 7;  /* dimensions of the buffer before the operand's own: of rows 1, of a ring 2; 1 more of trips */
    int32_t stored;    /* domain whose rows are stored: `domain`, or one above when a scatter is a view of it */
    uint16_t levels, depth; /* links from `domain` up to `stored`, and to `top` */
    uint32_t first;         /* word of the session: the first of the rows of `stored` that are stored; 0: it is 0 */
    bs_device_link link[BS_DEVICE_LINKS]; /* from `domain` upwards */
    uint32_t trip;        /* word: the number of the trip, of whose place in a row it is; 0: of none */
    int32_t trip_in_tile;
    int64_t trip_bytes;   /* from the place that one trip has in a row to that of the next */
    int32_t stride[BS_MAX_AXES]; /* in elements */
    int32_t dim[BS_MAX_AXES];    /* in this run (until it begins: at most); for patches, of the frame */
    int32_t max_h, max_w;        /* core at most: the margin is kept around that */
    int32_t margin;
    int32_t cell, across; /* patches: side of a whole cell in pixels, and cells beside each other; else 0 */
    int32_t domain;       /* whose rows are read or written */
    int32_t top;          /* the outermost one around it */
    /* what dim and across are taken from: dimensions (-1: none), the width of the frame, pixels of a cell in that */
    int32_t from[BS_MAX_AXES], width, size;
    int32_t bound; /* the buffer that base and strides are taken from, 0: none */
} bs_device_operand;

#define BS_DEVICE_PARAMS 16

/* A dimension, where nodes make some: how it follows from its parent (-1: a symbol). */
typedef struct bs_device_dim {
    int32_t node; /* that makes it; 0: inputs give it */
    int32_t parent, mul, add, div, maximum;
} bs_device_dim;

/* Rows of a root tensor that join cells, as many of either as data say: there must be a row for each cell. */
typedef struct bs_device_join {
    int32_t dim, domain; /* rows; cells */
    int32_t maker;       /* the node after which both numbers are known */
} bs_device_join;

/* One of several element-wise ops that a kernel runs, one after the other. */
typedef struct bs_device_tail {
    int32_t kernel; /* the backend's number of the op's own kernel */
    int16_t at;     /* the operand of the op that is the result so far: 0 or 1 */
    int16_t other;  /* which operand of the step is its other one; -1: it has none */
    int32_t how;    /* how that lies beside the result: the backend's word for it */
    union {
        int32_t i;
        float f;
    } p[2]; /* the words of its descriptor */
} bs_device_tail;

/* One instruction. */
typedef struct bs_device_step {
    bs_device_count rows; /* of its domain */
    int32_t domain;   /* whose rows it works on */
    int32_t batch;    /* rows of a work item */
    int32_t parts;    /* work items that each batch is cut into */
    int32_t operands; /* index of the first: inputs, then outputs */
    int32_t n_in, n_out;
    int32_t kernel;   /* the backend's number of the kernel */
    int32_t node;     /* for error messages */
    int32_t router;   /* for routes, gathers and ops that read a decision */
    int32_t unit;     /* unit whose slot holds its weights; 0: resident */
    int32_t makes;    /* 1 + the symbol that its kernel says the extent of, or 0 */
    int32_t round;    /* of a loop's first decision: steps on to its second; of that back to it, < 0; else 0 */
    uint64_t prepared; /* offset in bytes, in the resident weights or the unit */
    union {
        int32_t i;
        float f;
    } p[BS_DEVICE_PARAMS]; /* the kernel's own */
    uint16_t then;   /* the kernel of a second launch, for what is known after the first alone; 0: none */
    uint8_t empty;   /* it has a result even where an operand has no elements */
    uint8_t rounded; /* what each op of a chain gives to the next is rounded to f16 */
    int32_t n_tail;  /* ops of a chain: the node's own, then its tail; else 0 */
    bs_device_tail tail[1 + BS_MAX_CHAIN];
    uint32_t none[2]; /* to a multiple of 16 bytes */
} bs_device_step;

/* A launch: `count` steps from `first` by one kernel; or `count` parts of a region. The same for all extents, so a
 * graph that is captured serves them all. It stays on the host. */
typedef struct bs_device_launch {
    int32_t kernel, first, count;
    int32_t instr;    /* the first instruction it belongs to, at top level */
    int32_t callback; /* the router whose callback is called before this, or 0 */
    int32_t items;    /* work items, at most */
    int32_t round;    /* as in bs_device_step, counted in launches */
} bs_device_launch;

typedef struct bs_device_domain {
    bs_device_count counted; /* its rows, wherever that is said */
    int32_t kind, parent;
    int32_t router, path; /* BS_DOMAIN_PATH, as is the link */
    bs_device_link link;
    int32_t count;        /* of others: rows in this run */
    int32_t lengths;      /* its rows, or those around it, are in segments: how many segments in this run; else 0 */
    uint64_t offsets;     /* of segments, i32 [lengths + 1]: address on the device */
    /* what count is taken from: dimensions, and of patches the pixels of a cell; what lengths is. -1: nothing */
    int32_t rows, across, size, segments;
} bs_device_domain;

/* Steps for tiles of one domain, or of one path of it. Part k of the table is region_parts[k] of the plan. */
typedef struct bs_device_part {
    bs_device_count rows; /* of its domain */
    int32_t domain, tile_rows;
    int32_t first, count; /* steps */
} bs_device_part;

/* Where a decision lies: byte offsets from the start of the session's decisions, or of a tile's. bs_decision_data says
 * what each array is. */
typedef struct bs_device_decision {
    int32_t live, in_tile;
    int32_t paths, per_row, rows /* at most */, domain, top_rows /* of `top`, at most */;
    uint64_t chosen, gates, counts, offsets, ids, inverse, dropped /* i64, of a run */;
    /* i32 [2 * rows * per_row + 4 * paths]: scratch of the protocol, of packing, and of the sort by capacity */
    uint64_t work;
    uint64_t top;  /* i16 [rows of the top-level domain]: the first path of each, for the host; -1 not reached */
    uint64_t sums; /* i32 [paths]: rows of a path in this run, over all tiles */
    uint64_t price; /* f32 [1] */
    uint64_t trip;  /* i32 [3]: of a loop; then `due` and `taken` of bs_decision_data */
} bs_device_decision;

/* ------------------------------------------------------------------------------------------------- layout */

/* Offsets within what a session takes of the device's arena and of the pinned arena. */
typedef struct bs_device_layout {
    int32_t n_steps, n_launches /* at most */, n_operands, n_given;
    int32_t n_dims, n_joins; /* where nodes make extents; else 0 */
    uint64_t transient, states, inputs, decisions, guesses, contexts, tables, scratch, slots, device_bytes;
    uint64_t context_bytes;  /* of the decisions of one tile */
    uint64_t scratch_bytes;  /* of the rows of one tile, when they do not fit in shared memory; else 0 */
    uint64_t kernel_scratch; /* of a kernel with scratch (bs_node_plan.scratch_bytes): one runs at a time */
    int32_t tiles;           /* tiles that have a context (and scratch outside shared memory) */
    uint64_t status;         /* within decisions: i32 [BS_DEVICE_STATUS] */
    uint64_t extents;        /* within decisions, of n_dims: i32, as known so far in a run */
    uint64_t results_bytes;  /* what the host reads after a run: this many bytes from the start of the decisions */
    uint64_t session, session_bytes, launches, tables_pinned, slots_pinned, rooms, room_bytes /* a lane */,
        places /* u64 a unit */, fetched, asked, results, inputs_pinned, loading, pinned_bytes;
    /* within tables */
    uint64_t steps_at, operands_at, domains_at, decisions_at, parts_at, given_at, units_at, derived_at, joins_at;
    uint64_t dims_at, bound_at, segments_at, tables_bytes; /* from dims_at on: of each run */
    uint64_t inputs_bytes;
    /* With bs_plan_desc.in_place, inputs and slots take no bytes of the device. */
} bs_device_layout;

/* The status of a run: the first failure and its node; whether a branch has rows; of a failed loop a bs_route_fault,
 * whose row is the cell. */
enum { BS_DEVICE_FAILED, BS_DEVICE_NODE, BS_DEVICE_ANY, BS_DEVICE_FAULT, BS_DEVICE_STATUS = BS_DEVICE_FAULT + 4 };

/* Bytes of shared memory beside the rows of a tile: what a kernel may use, what is known of its step, and both. */
enum {
    BS_DEVICE_WORKSPACE = 24576,
    BS_DEVICE_RECORD = 2560,
    BS_DEVICE_SHARED = BS_DEVICE_WORKSPACE + BS_DEVICE_RECORD
};
#define BS_DEVICE_SESSION_BYTES 2048 /* pinned bytes that the backend keeps for a session, */
#define BS_DEVICE_BOUND_BYTES 48     /* and for the buffer of a node */

void bs_device_layout_make(const bs_plan *plan, bs_device_layout *layout);
/* Pinned bytes for the call of a callback: the scores of all rows, then the paths and gates that it returns, i32 and
 * f32 a row. 0: the router has no callback to call. */
uint64_t bs_device_scores_bytes(const bs_plan *plan, int32_t router);
/* The table entries of all routers' decisions, [routers]. */
void bs_device_decisions_place(const bs_plan *plan, bs_device_decision *decisions);
/* Words of 32 bits that say which paths of a gather give a value, for an instruction that needs to know; else 0. */
int32_t bs_device_given_words(const bs_plan *plan, const bs_instr *instr);
/* Offset from layout->inputs of the copy of node n's buffer, used when the caller's buffer is not in device memory;
 * UINT64_MAX: n needs none. bs_device_state_place: offset from layout->states of a state's own memory. */
uint64_t bs_device_input_place(const bs_plan *plan, int32_t node);
/* Numbers the nodes that something can be bound to, from 1 on, in at [nodes], if that is not NULL; the others get 0.
 * Returns how many numbers there are, with 0. */
int32_t bs_bound_places(const bs_graph *graph, int32_t *at);
/* Whether a buffer can be bound to node n. Such nodes have entries in the table of what is bound, from 1 on. */
bool bs_device_is_bound(const bs_plan *plan, int32_t node);
bs_bytes bs_device_state_place(const bs_plan *plan, int32_t node);
/* Offsets from layout->segments_at: i32 [segments + 1] offsets of a domain, i32 [segments] cache lengths. */
uint64_t bs_device_offsets_place(const bs_plan *plan, int32_t domain);
uint64_t bs_device_cache_lengths_place(const bs_plan *plan, int32_t node);

/* Whether node n joins rows to cells whose numbers data say: then *join says which. */
bool bs_device_joins(const bs_plan *plan, int32_t node, bs_device_join *join);

/* ------------------------------------------------------------------------------------------------ backend */

/* What is bound to an input, an output or a state, and what a session keeps for it. */
typedef struct bs_bound {
    bs_buffer buffer;       /* data NULL: nothing is bound */
    uint8_t *state;         /* a state's own memory; on a device, there */
    bs_bytes state_bytes;
    int32_t *cache_lengths; /* of an input of cache lengths a copy for this run, which has been checked; else NULL */
} bs_bound;

static inline bool bs_same_buffer(const bs_buffer *a, const bs_buffer *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

/* What a session shows its device. Arrays are the session's own and stay where they are. */
typedef struct bs_device_client {
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_platform *platform;
    int64_t *dims;                /* [dims] of the run that is submitted; wait fills in what its nodes made */
    const bs_bound *bound;        /* [n_bound], by bs_bound_places; [0]: nothing is bound */
    const int32_t *bound_at;      /* [nodes] the place of each in `bound` */
    int32_t n_bound;
    const bs_rows_state *domains; /* [domains] row counts of domains that no router makes */
    int32_t *const *offsets;      /* [domains] of segments, checked; NULL for others */
    uint8_t *weights;             /* prepared, resident: address on the device */
    const bs_route_callback *callbacks; /* [routers] */
    /* filled by wait */
    int16_t *const *chosen;
    int32_t *counts;   /* [paths] of all routers; those of one begin at bs_router_info.first_path */
    int64_t *dropped;  /* [routers] */
    char *fault;       /* filled where a run fails: [BS_FAULT_BYTES], "" where the status says everything */
    void *stream; /* the caller's stream for runs; NULL: the backend makes one for this session alone */
} bs_device_client;

static inline const bs_bound *bs_client_bound(const bs_device_client *c, int32_t node)
{
    return &c->bound[c->bound_at[node]];
}

typedef struct bs_device_session bs_device_session; /* the backend's; lies in pinned memory */

typedef struct bs_device_api {
    /* device, pinned: memory of the sizes that bs_plan_sizes gave. On failure nothing is left behind. */
    bs_status (*open)(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned,
                      bs_device_session **session, bs_error *error);
    void (*close)(bs_device_session *session);
    /* load: room for the prepared weights of one node. loaded: they are there; copies them to `offset` of the resident
     * weights. */
    void *(*load)(bs_device_session *session, bs_error *error);
    bs_status (*loaded)(bs_device_session *session, uint64_t offset, uint64_t bytes, bs_error *error);
    bs_status (*zero)(bs_device_session *session, uint8_t *memory, uint64_t bytes);
    /* sets the bs_launch_mode of later runs */
    bs_status (*set_launch_mode)(bs_device_session *session, int32_t launch_mode, bs_error *error);
    /* A run: begin (inputs, and what has changed in the client's tables), instructions, end (outputs). All of it is
     * only queued. */
    bs_status (*begin)(bs_device_session *session, bs_error *error);
    /* top-level instructions [first, end) */
    bs_status (*run)(bs_device_session *session, int32_t first, int32_t end, bs_error *error);
    bs_status (*end)(bs_device_session *session, bs_error *error);
    /* Waits for the end of the last run and fills the client's results. *node: of the step that failed. */
    bs_status (*wait)(bs_device_session *session, int32_t *node, bs_error *error);
    /* For streamed weights. part: runs the tiles of one part of a region. place: says where a unit's weights are from
     * now on. fetch_counts: waits for a decision and returns its counts [paths]; *node as above. settle: waits for all
     * that is queued. copy: called by lanes, copies `from` in pinned memory; returns when the copy is complete. */
    bs_status (*part)(bs_device_session *session, int32_t part, bs_error *error);
    bs_status (*place)(bs_device_session *session, int32_t unit, const uint8_t *weights, bs_error *error);
    bs_status (*fetch_counts)(bs_device_session *session, int32_t router, int32_t *counts, int32_t *node,
                              bs_error *error);
    /* fetch_extents: waits for what nodes have made so far and puts it into the client's dims. */
    bs_status (*fetch_extents)(bs_device_session *session, int32_t *node, bs_error *error);
    /* guess: waits for the result of the last look_ahead: margins [paths] as in bs_call.margins. */
    bs_status (*guess)(bs_device_session *session, int32_t router, float *margins, bs_error *error);
    bs_status (*settle)(bs_device_session *session, bs_error *error);
    bs_status (*copy)(bs_device_session *session, int32_t lane, uint8_t *to, const uint8_t *from, uint64_t bytes);
} bs_device_api;

struct bs_device {
    const bs_device_api *api;
    bs_arena memory; /* addresses on the device: the host never touches them */
    bs_arena pinned;
};

#endif
/* ==== end src/plan/device.h =================================================================== */
}

#endif
/* ==== end src/cuda/portable.cuh =============================================================== */

/* ==== begin src/cuda/program.cuh ============================================================== */
/* program.cuh - what a block of threads sees of a session: its steps, and where the rows of an operand are.
 *
 * The device's side of run/operands.c: rows are found through the plan's places and the decisions; views cost nothing
 * but the lookup. All threads of a block compute the same here.
 * Relies on plan/device.h and elements.cuh. Must never write anything but the status and margins. */
#ifndef BS_CUDA_PROGRAM
#define BS_CUDA_PROGRAM

/* ==== begin src/cuda/elements.cuh ============================================================= */
/* elements.cuh - loading and storing elements, one or four at a time: the raw bits of any type, f32 and f16 as f32.
 * f16 is converted in one way everywhere: in the low half of a word, rounded to nearest even.
 * Relies on portable.cuh. Must never be given four elements that are not aligned to the size of all four. */
#ifndef BS_CUDA_ELEMENTS
#define BS_CUDA_ELEMENTS

/* #include "cuda/portable.cuh" */

__device__ __forceinline__ int32_t bs_cu_bytes(int32_t dtype)
{
    return dtype == BS_F32 || dtype == BS_I32 ? 4 : dtype == BS_U8 || dtype == BS_I8 ? 1 : 2;
}

/* -------------------------------------------------------------------------------------- as they lie in memory */

/* The raw bits of an element of any type. */
__device__ __forceinline__ uint32_t bs_cu_load_one(const uint8_t *data, int32_t bytes, int64_t at)
{
    return bytes == 4   ? reinterpret_cast<const uint32_t *>(data)[at]
           : bytes == 2 ? reinterpret_cast<const uint16_t *>(data)[at]
                        : data[at];
}

__device__ __forceinline__ void bs_cu_store_one(uint8_t *data, int32_t bytes, int64_t at, uint32_t raw)
{
    if (bytes == 4)
        reinterpret_cast<uint32_t *>(data)[at] = raw;
    else if (bytes == 2)
        reinterpret_cast<uint16_t *>(data)[at] = (uint16_t)raw;
    else
        data[at] = (uint8_t)raw;
}

/* Four adjacent elements, aligned to the size of all four. */
__device__ __forceinline__ void bs_cu_load_four(const uint8_t *data, int32_t bytes, int64_t at, uint32_t (&raw)[4])
{
    if (bytes == 4) {
        const uint4 q = *reinterpret_cast<const uint4 *>(data + at * 4);
        raw[0] = q.x, raw[1] = q.y, raw[2] = q.z, raw[3] = q.w;
    } else if (bytes == 2) {
        const uint2 q = *reinterpret_cast<const uint2 *>(data + at * 2);
        raw[0] = q.x & 0xffffu, raw[1] = q.x >> 16, raw[2] = q.y & 0xffffu, raw[3] = q.y >> 16;
    } else {
        const uint32_t q = *reinterpret_cast<const uint32_t *>(data + at);
        raw[0] = q & 0xffu, raw[1] = q >> 8 & 0xffu, raw[2] = q >> 16 & 0xffu, raw[3] = q >> 24;
    }
}

__device__ __forceinline__ void bs_cu_store_four(uint8_t *data, int32_t bytes, int64_t at, const uint32_t (&raw)[4])
{
    if (bytes == 4)
        *reinterpret_cast<uint4 *>(data + at * 4) = make_uint4(raw[0], raw[1], raw[2], raw[3]);
    else if (bytes == 2)
        *reinterpret_cast<uint2 *>(data + at * 2) = make_uint2((raw[0] & 0xffffu) | raw[1] << 16,
                                                               (raw[2] & 0xffffu) | raw[3] << 16);
    else
        *reinterpret_cast<uint32_t *>(data + at) = (raw[0] & 0xffu) | (raw[1] & 0xffu) << 8 | (raw[2] & 0xffu) << 16 |
                                                   raw[3] << 24;
}

/* Whether element `at`, and so every fourth one after it, is aligned to the size of four. */
__device__ __forceinline__ bool bs_cu_aligned(const uint8_t *data, int32_t bytes, int64_t at)
{
    return ((reinterpret_cast<uintptr_t>(data) + (uintptr_t)(at * bytes)) & (uintptr_t)(4 * bytes - 1)) == 0;
}

/* -------------------------------------------------------------------------------------------------------- f16 */

__device__ __forceinline__ float bs_cu_half_from(uint32_t raw)
{
    __half_raw h;
    h.x = (unsigned short)raw;
    return __half2float(__half(h));
}

__device__ __forceinline__ uint32_t bs_cu_half_to(float x) { return static_cast<__half_raw>(__float2half_rn(x)).x; }

/* Two f16 in a word, the first in the low half. */
__device__ __forceinline__ uint32_t bs_cu_pack_half2(float low, float high)
{
    return bs_cu_half_to(low) | bs_cu_half_to(high) << 16;
}

__device__ __forceinline__ float bs_cu_low_half(uint32_t word) { return bs_cu_half_from(word & 0xffffu); }
__device__ __forceinline__ float bs_cu_high_half(uint32_t word) { return bs_cu_half_from(word >> 16); }

/* Four f16 in two words. */
__device__ __forceinline__ uint2 bs_cu_pack_quad(const float4 &v)
{
    return make_uint2(bs_cu_pack_half2(v.x, v.y), bs_cu_pack_half2(v.z, v.w));
}

__device__ __forceinline__ float4 bs_cu_unpack_quad(const uint2 &h)
{
    return make_float4(bs_cu_low_half(h.x), bs_cu_high_half(h.x), bs_cu_low_half(h.y), bs_cu_high_half(h.y));
}

/* ----------------------------------------------------------------------------------------------------- as f32 */

/* f32 or f16 storage. */
__device__ __forceinline__ float bs_cu_real(uint32_t raw, int32_t dtype)
{
    return dtype == BS_F16 ? bs_cu_half_from(raw) : __uint_as_float(raw);
}

__device__ __forceinline__ uint32_t bs_cu_raw(float x, int32_t dtype)
{
    return dtype == BS_F16 ? bs_cu_half_to(x) : __float_as_uint(x);
}

/* An element of f32 or f16 storage as f32; and back, rounded to nearest even. */
__device__ __forceinline__ float bs_cu_get(const uint8_t *data, int32_t dtype, int64_t at)
{
    return dtype == BS_F16 ? bs_cu_half_from(reinterpret_cast<const uint16_t *>(data)[at])
                           : reinterpret_cast<const float *>(data)[at];
}

__device__ __forceinline__ void bs_cu_put(uint8_t *data, int32_t dtype, int64_t at, float x)
{
    if (dtype == BS_F16)
        reinterpret_cast<uint16_t *>(data)[at] = (uint16_t)bs_cu_half_to(x);
    else
        reinterpret_cast<float *>(data)[at] = x;
}

/* Four adjacent elements of f32 or f16 storage, aligned to the size of all four. */
__device__ __forceinline__ float4 bs_cu_get_quad(const uint8_t *data, int32_t dtype, int64_t at)
{
    return dtype == BS_F16 ? bs_cu_unpack_quad(*reinterpret_cast<const uint2 *>(data + at * 2))
                           : *reinterpret_cast<const float4 *>(data + at * 4);
}

__device__ __forceinline__ void bs_cu_put_quad(uint8_t *data, int32_t dtype, int64_t at, const float4 &v)
{
    if (dtype == BS_F16)
        *reinterpret_cast<uint2 *>(data + at * 2) = bs_cu_pack_quad(v);
    else
        *reinterpret_cast<float4 *>(data + at * 4) = v;
}

/* The same as an array, loaded as words and converted singly: loops over taps (pool2d) then need fewer registers. */
__device__ __forceinline__ void bs_cu_get_four(const uint8_t *data, int32_t dtype, int64_t at, float (&x)[4])
{
    uint32_t raw[4];
    bs_cu_load_four(data, dtype == BS_F16 ? 2 : 4, at, raw);
    for (int32_t i = 0; i < 4; i++)
        x[i] = bs_cu_real(raw[i], dtype);
}

__device__ __forceinline__ void bs_cu_put_four(uint8_t *data, int32_t dtype, int64_t at, const float (&x)[4])
{
    uint32_t raw[4];
    for (int32_t i = 0; i < 4; i++)
        raw[i] = bs_cu_raw(x[i], dtype);
    bs_cu_store_four(data, dtype == BS_F16 ? 2 : 4, at, raw);
}

#endif
/* ==== end src/cuda/elements.cuh =============================================================== */

extern "C" {
/* ==== begin src/ops/act.h ===================================================================== */
/* ops/act.h - activations: what they make of one value, for every plain kernel and for a device.
 * Relies on base/base.h. Must never round other than as written: a device gives the CPU's bytes where its expf does. */
#ifndef BS_OPS_ACT_H
#define BS_OPS_ACT_H

/* #include "base/base.h" */

static inline BS_BOTH float bs_act_slope(float param) { return param == 0.0f ? 0.01f : param; } /* LEAKY_RELU */
static inline BS_BOTH float bs_act_high(float param) { return param == 0.0f ? 1.0f : param; }   /* CLIP */

/* slope: of this channel, for BS_PRELU only. */
static inline BS_BOTH float bs_act_apply(bs_act act, float param, float slope, float x)
{
    switch (act) {
    case BS_RELU: return x > 0.0f ? x : 0.0f;
    case BS_LEAKY_RELU: return x > 0.0f ? x : x * bs_act_slope(param);
    case BS_PRELU: return x > 0.0f ? x : x * slope;
    /* a device's expf ends in a product, which must not be fused with the sum */
    case BS_SIGMOID: return 1.0f / BS_SUM(1.0f, expf(-x));
    case BS_TANH: return tanhf(x);
    case BS_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case BS_SILU: return x / BS_SUM(1.0f, expf(-x));
    case BS_CLIP: {
        const float high = bs_act_high(param);
        return x > high ? high : x > 0.0f ? x : 0.0f;
    }
    case BS_ACT_NONE:
    case BS_ACT_COUNT: break;
    }
    return x;
}

#endif
/* ==== end src/ops/act.h ======================================================================= */
}

/* The argument of every kernel. */
struct bs_cu_program {
    const bs_device_step *steps;
    bs_device_operand *operands;
    bs_device_domain *domains;
    const bs_device_decision *decision;
    const bs_device_part *parts;
    const uint32_t *given; /* bits of gathers: which paths give a value */
    const uint64_t *units; /* addresses of prepared weights; [0] the resident ones */
    uint8_t *decisions;    /* what was decided for all rows */
    uint8_t *contexts;     /* what is decided in tiles: context_bytes a tile */
    uint64_t context_bytes;
    uint8_t *scratch; /* rows of tiles, scratch_bytes each, when they do not fit in shared memory */
    uint64_t scratch_bytes;
    uint8_t *kernel_scratch; /* of a step that stands alone (step.cuh), for all of its blocks */
    float *guesses;        /* [paths of a router] of the last look_ahead, and room for its lists */
    int32_t *status;       /* [BS_DEVICE_STATUS] */
    const int32_t *dims;   /* [dimensions] of the run, as it begins */
    const bs_device_bound *bound;
    int32_t *extents; /* [n_dims] as they are known so far; NULL: no step makes any */
    const bs_device_dim *derived;
    const bs_device_join *joins;
    int32_t n_operands, n_domains, n_dims, n_joins;
};

/* A step, its first operands and its router's decision, copied to shared memory before it runs: all that is asked of
 * them afterwards is near, and one read away from where they were found. */
enum { BS_CU_RECORD_OUT = 4, BS_CU_RECORD_IN = 6, BS_CU_RECORD_WORDS = 16 /* of 16 bytes, at most, of each */ };
struct bs_cu_record {
    bs_device_operand out[BS_CU_RECORD_OUT], in[BS_CU_RECORD_IN];
    bs_device_step step;
    bs_device_decision decision;
    bs_cu_program program; /* for the steps of a tile: functions that are called do not see the kernel's argument */
};
static_assert(sizeof(bs_cu_record) <= BS_DEVICE_RECORD && BS_DEVICE_SHARED % BS_ALIGNMENT == 0,
              "a record has its place between the workspace and the rows of a tile");
static_assert(sizeof(bs_device_operand) % 16 == 0 && sizeof(bs_device_operand) <= 16 * BS_CU_RECORD_WORDS &&
                  sizeof(bs_device_step) % 16 == 0 && sizeof(bs_device_step) <= 16 * BS_CU_RECORD_WORDS &&
                  sizeof(bs_device_decision) % 16 == 0 && sizeof(bs_device_decision) <= 16 * BS_CU_RECORD_WORDS,
              "records are copied by words of 16 bytes");

/* What a block works on: all rows (domain -1), or a tile of the rows of a part. */
struct bs_cu_tile {
    const bs_cu_program *program;
    const bs_cu_record *record; /* of the step that runs */
    uint8_t *context;  /* decisions made in this tile */
    uint8_t *scratch;  /* rows of this tile, in shared memory as a rule */
    uint8_t *workspace; /* the kernel's own, in shared memory, 16-byte aligned */
    int32_t domain, first, rows;
};

/* A work item of a step: share `part` of `parts` of the elements of rows row .. end - 1. */
struct bs_cu_work {
    int32_t row, end, part, parts;
};

/* The arrays of a decision. */
struct bs_cu_decision {
    int32_t paths, per_row;
    int32_t *chosen, *counts, *offsets, *ids, *inverse, *work;
    float *gates, *price;
};

struct bs_cu_rect {
    int32_t y0, y1, x0, x1;
};

/* One row of an operand. data: the element [0,0,0] of its core. An image is [C,H,W] by the strides; its rectangle is
 * what is present (of an output: to be computed), in core coordinates, as in bs_operand. All else is whole. */
struct bs_cu_view : bs_cu_rect {
    uint8_t *data;
    int32_t dim[BS_MAX_AXES];
    int32_t stride[BS_MAX_AXES]; /* in elements */
    int32_t dtype, rank;
    bool image;
    int32_t frame_y, frame_x, frame_h, frame_w;
    int32_t margin, max_h, max_w;
};

__device__ __forceinline__ int32_t bs_cu_index_at(const bs_cu_view &which, int64_t at)
{
    return bs_read_once(reinterpret_cast<const int32_t *>(which.data) + at);
}

/* Whether this run has failed, as this thread sees it. */
__device__ __forceinline__ bool bs_cu_has_failed(const bs_cu_program &program)
{
    return BS_CU_PEEK(&program.status[BS_DEVICE_FAILED]) != 0;
}

/* Whether this run has failed: its decisions must not be followed then. Another block may fail at this moment, so the
 * threads of a block agree on one answer. */
__device__ __forceinline__ bool bs_cu_failed(const bs_cu_program &program)
{
    return __syncthreads_or(bs_cu_has_failed(program)) != 0;
}

__device__ __forceinline__ void bs_cu_fail(const bs_cu_tile &t, const bs_device_step *s, bs_status status)
{
    if (atomicCAS(&t.program->status[BS_DEVICE_FAILED], 0, (int)status) == 0)
        t.program->status[BS_DEVICE_NODE] = s->node;
}

/* Whether a block works on all rows. A launch of steps says so by a constant, so nothing is left of the question. */
__device__ __forceinline__ bool bs_cu_is_at_top(const bs_cu_tile &t) { return t.domain < 0; }

/* Operand i of a step that may have many: further ones than the record has. */
__device__ __forceinline__ const bs_device_operand *bs_cu_in_of_many(const bs_cu_tile &t, const bs_device_step *s,
                                                                     int32_t i)
{
    return t.program->operands + s->operands + i;
}

/* The same where i is a constant. */
__device__ __forceinline__ const bs_device_operand *bs_cu_in(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return i < BS_CU_RECORD_IN ? &t.record->in[i] : bs_cu_in_of_many(t, s, i);
}

__device__ __forceinline__ const bs_device_operand *bs_cu_out(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return i < BS_CU_RECORD_OUT ? &t.record->out[i] : bs_cu_in_of_many(t, s, s->n_in + i);
}

/* The prepared weights of a step, as its op packed them. */
__device__ __forceinline__ const uint8_t *bs_cu_prepared(const bs_cu_tile &t, const bs_device_step *s)
{
    return bs_cu_at<const uint8_t>(t.program->units[s->unit] + s->prepared);
}

/* ---------------------------------------------------------------------------------------------- decisions */

/* Whether rows of a domain are those of a tile, which has its own numbers for them. */
__device__ __forceinline__ bool bs_cu_is_of_tile(const bs_cu_tile &t, int32_t domain)
{
    return !bs_cu_is_at_top(t) && domain == t.domain;
}

/* What is added to a row of such a domain to count from the first of all tiles. */
__device__ __forceinline__ int32_t bs_cu_before(const bs_cu_tile &t, int32_t domain)
{
    return bs_cu_is_of_tile(t, domain) ? t.first : 0;
}

/* Where the decisions begin: those of the tile, or of all rows. No step at top level reads a tile's. */
__device__ __forceinline__ uint8_t *bs_cu_decided(const bs_cu_tile &t, int32_t in_tile)
{
    return !bs_cu_is_at_top(t) && in_tile ? t.context : t.program->decisions;
}

/* Word number `word` of decisions, and those after it. */
__device__ __forceinline__ int32_t *bs_cu_words(const bs_cu_tile &t, uint32_t word, int32_t in_tile)
{
    return reinterpret_cast<int32_t *>(bs_cu_decided(t, in_tile)) + word;
}

/* The decision of the step's router. */
__device__ inline bs_cu_decision bs_cu_decision_of(const bs_cu_tile &t)
{
    const bs_device_decision &d = t.record->decision;
    uint8_t *at = bs_cu_decided(t, d.in_tile);
    bs_cu_decision r;
    r.paths = d.paths;
    r.per_row = d.per_row;
    r.chosen = reinterpret_cast<int32_t *>(at + d.chosen);
    r.gates = reinterpret_cast<float *>(at + d.gates);
    r.counts = reinterpret_cast<int32_t *>(at + d.counts);
    r.offsets = reinterpret_cast<int32_t *>(at + d.offsets);
    r.ids = reinterpret_cast<int32_t *>(at + d.ids);
    r.inverse = reinterpret_cast<int32_t *>(at + d.inverse);
    r.work = reinterpret_cast<int32_t *>(at + d.work);
    r.price = reinterpret_cast<float *>(at + d.price);
    return r;
}

/* Rows of a domain as this block numbers them. */
__device__ __forceinline__ int32_t bs_cu_count(const bs_cu_tile &t, int32_t domain, const bs_device_count &count)
{
    if (bs_cu_is_of_tile(t, domain))
        return t.rows;
    return *reinterpret_cast<const int32_t *>(bs_cu_decided(t, count.in_tile) + count.at);
}

__device__ __forceinline__ int32_t bs_cu_count(const bs_cu_tile &t, const bs_device_step *s)
{
    return bs_cu_count(t, s->domain, s->rows);
}

__device__ inline int32_t bs_cu_count(const bs_cu_tile &t, int32_t domain)
{
    return bs_cu_count(t, domain, t.program->domains[domain].counted);
}

/* The row that a row of a path came from. */
__device__ __forceinline__ int32_t bs_cu_follow(const bs_cu_tile &t, const bs_device_link &link, int32_t row)
{
    const int32_t first = *bs_cu_words(t, link.offset, link.in_tile);
    return bs_cu_words(t, link.ids, link.in_tile)[first + bs_cu_before(t, link.domain) + row];
}

/* The row of the parent domain that a row of a path came from. */
__device__ inline int32_t bs_cu_parent_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    return bs_cu_follow(t, t.program->domains[domain].link, row);
}

/* Row of the outermost domain, counted from its first row even in a tile. */
__device__ inline int32_t bs_cu_top_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    while (t.program->domains[domain].kind == BS_DOMAIN_PATH) {
        row = bs_cu_parent_row(t, domain, row);
        domain = t.program->domains[domain].parent;
    }
    return bs_cu_before(t, domain) + row;
}

/* ------------------------------------------------------------------------------------------- finding rows */

/* Dimension or stride d of a view, where d is known at run time only: indexing would put the view in memory. */
__device__ __forceinline__ int32_t bs_cu_pick(const int32_t *a, int32_t d)
{
    return d == 0 ? a[0] : d == 1 ? a[1] : d == 2 ? a[2] : a[3];
}

/* Where pixel (y, x) of channel c is in a view, in elements. */
__device__ __forceinline__ int64_t bs_cu_pixel_at(const bs_cu_view &v, int32_t c, int32_t y, int32_t x)
{
    return (int64_t)c * v.stride[0] + (int64_t)y * v.stride[1] + (int64_t)x * v.stride[2];
}

/* The number of the trip that a loop makes, from 0; where its rows go in turn, how many do and how many have begun. */
__device__ inline int32_t *bs_cu_trip(const bs_cu_tile &t, int32_t loop)
{
    const bs_device_decision &d = t.program->decision[loop];
    return reinterpret_cast<int32_t *>(bs_cu_decided(t, d.in_tile) + d.trip);
}

/* The row of a domain `levels` further out than an operand's that one of its rows came from. link: the operand's. */
__device__ __forceinline__ int32_t bs_cu_row_above(const bs_cu_tile &t, const bs_device_link *link, int32_t levels,
                                                   int32_t row)
{
    int32_t k = 0;
#pragma unroll 1
    for (; k < levels && k < BS_DEVICE_LINKS; k++)
        row = bs_cu_follow(t, link[k], row);
    if (k < levels) {
        int32_t domain = link[BS_DEVICE_LINKS - 1].domain;
#pragma unroll 1
        for (; k < levels; k++) {
            domain = t.program->domains[domain].parent;
            row = bs_cu_parent_row(t, domain, row);
        }
    }
    return row;
}

__device__ __forceinline__ uint8_t *bs_cu_row_by(const bs_cu_tile &t, const bs_device_operand *o,
                                                 const bs_device_link *link, int32_t row)
{
    if (o->place == BS_AT_ROOT)
        return bs_cu_at<uint8_t>(o->base);
    row = bs_cu_row_above(t, link, o->levels, row);
    if (o->place == BS_AT_TILE)
        return t.scratch + o->base + row * o->row_bytes;
    row += bs_cu_before(t, o->stored);
    if (o->first)
        row += *bs_cu_words(t, o->first, false);
    return bs_cu_at<uint8_t>(o->base) + row * o->row_bytes;
}

/* The address of a row, for kernels that need nothing else; not for views of images. */
__device__ inline uint8_t *bs_cu_row(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    return bs_cu_row_by(t, o, o->link, row);
}

/* Extents and rectangle of a row of patches: the cell's place in its frame, its core clipped to the frame. */
__device__ __forceinline__ void bs_cu_clip(const bs_cu_tile &t, const bs_device_operand *o, const bs_device_link *link,
                                           int32_t row, bs_cu_view *v)
{
    const int32_t top = bs_cu_before(t, o->top) + bs_cu_row_above(t, link, o->depth, row), margin = o->margin;
    v->frame_y = top / o->across * o->cell;
    v->frame_x = top % o->across * o->cell;
    v->dim[1] = min(o->cell, v->frame_h - v->frame_y);
    v->dim[2] = min(o->cell, v->frame_w - v->frame_x);
    v->y0 = max(-margin, -v->frame_y);
    v->y1 = min(o->cell + margin, v->frame_h - v->frame_y);
    v->x0 = max(-margin, -v->frame_x);
    v->x1 = min(o->cell + margin, v->frame_w - v->frame_x);
}

/* A row of an operand whose links may lie elsewhere. */
__device__ __forceinline__ bs_cu_view bs_cu_open_by(const bs_cu_tile &t, const bs_device_operand *o,
                                                    const bs_device_link *link, int32_t row)
{
    bs_cu_view v;
    for (int32_t i = 0; i < BS_MAX_AXES; i++) {
        v.dim[i] = o->dim[i];
        v.stride[i] = o->stride[i];
    }
    v.dtype = o->dtype;
    v.rank = o->rank;
    v.image = o->image;
    v.margin = o->margin;
    v.max_h = o->max_h;
    v.max_w = o->max_w;
    v.frame_y = v.frame_x = v.y0 = v.x0 = 0;
    v.frame_h = v.y1 = o->dim[1];
    v.frame_w = v.x1 = o->dim[2];
    if (o->cell > 0)
        bs_cu_clip(t, o, link, row, &v);
    if (o->place == BS_AT_CELL)
        v.data = bs_cu_at<uint8_t>(o->base) +
                 ((int64_t)v.frame_y * v.stride[1] + (int64_t)v.frame_x * v.stride[2]) * bs_cu_bytes(v.dtype);
    else
        v.data = bs_cu_row_by(t, o, link, row);
    if (o->trip)
        v.data += *bs_cu_words(t, o->trip, o->trip_in_tile) * o->trip_bytes;
    return v;
}

__device__ inline bs_cu_view bs_cu_open(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    return bs_cu_open_by(t, o, o->link, row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_in(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                    int32_t row)
{
    return bs_cu_open(t, bs_cu_in(t, s, i), row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_out(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                     int32_t row)
{
    return bs_cu_open(t, bs_cu_out(t, s, i), row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_of_many(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                         int32_t row)
{
    const bs_device_operand *there = bs_cu_in_of_many(t, s, i), o = bs_cu_read_whole(there);
    return bs_cu_open_by(t, &o, there->link, row); /* a copy in registers has no link number k */
}

/* ------------------------------------------------------------------------------------------------ margins */

/* Zeroes a rectangle of all channels, with all threads of a block. Stored images only: channels last. */
__device__ inline void bs_cu_zero(const bs_cu_view &v, int32_t y0, int32_t y1, int32_t x0, int32_t x1)
{
    const int32_t bytes = bs_cu_bytes(v.dtype), pixel = v.stride[2] * bytes, width = (x1 - x0) * pixel;
    const bool wide = ((reinterpret_cast<uintptr_t>(v.data) | (uintptr_t)pixel | (uintptr_t)(v.stride[1] * bytes)) &
                       15) == 0;
    const int32_t unit = wide ? 16 : 2;
    for (int32_t y = y0; y < y1 && width > 0; y++)
        for (int32_t i = threadIdx.x * unit; i < width; i += blockDim.x * unit) {
            uint8_t *at = v.data + (int64_t)y * v.stride[1] * bytes + (int64_t)x0 * pixel + i;
            if (wide) {
                *reinterpret_cast<uint4 *>(at) = make_uint4(0, 0, 0, 0);
                continue;
            }
            at[0] = 0; /* an odd number of bytes: codes */
            if (i + 1 < width)
                at[1] = 0;
        }
}

/* As bs_zero_margin: zeroes around the rectangle as far as readers' windows reach; part 0 of a row does it. Called by
 * all threads of a block. */
__device__ inline void bs_cu_zero_margin(const bs_cu_work &w, const bs_cu_view &v)
{
    const int32_t low = -v.margin, bottom = min(v.y1 + v.margin, v.max_h + v.margin),
                  right = min(v.x1 + v.margin, v.max_w + v.margin);
    if (w.part > 0 || v.margin == 0)
        return;
    /* above, below, left, right: a loop, because this code is in every kernel */
#pragma unroll 1
    for (int32_t k = 0; k < 4; k++)
        bs_cu_zero(v,
                   k == 0   ? low
                   : k == 1 ? v.y1
                            : v.y0,
                   k == 0   ? v.y0
                   : k == 1 ? bottom
                            : v.y1,
                   k == 3 ? v.x1 : low, k == 2 ? v.x0 : right);
}

/* The same around a row that is opened for this only. */
__device__ __forceinline__ void bs_cu_zero_margin_of(const bs_cu_tile &t, const bs_cu_work &w,
                                                     const bs_device_operand *o, int32_t row)
{
    if (w.part == 0 && o->margin > 0)
        bs_cu_zero_margin(w, bs_cu_open(t, o, row));
}

#endif
/* ==== end src/cuda/program.cuh ================================================================ */
/* ==== begin src/cuda/kernels.cuh ============================================================== */
/* kernels.cuh - the lists of kernels, by what a launch must know of them.
 * A kernel NAME is a function bs_cu_NAME_run(tile, step, work), called by all threads of a block. It does one work item
 * of a step's work, and is launched over all rows of all branches at once (bs_cu_group), or as one of the steps of a
 * tile (bs_cu_region). Relies on the op files. */
#ifndef BS_CUDA_KERNELS
#define BS_CUDA_KERNELS

/* They are bound by memory: two blocks on a multiprocessor leave them all the registers they need. */
#define BS_CU_LIGHT_KERNELS(X)                                                                                \
    /* op_move.cuh, op_append.cuh, op_gather.cuh */                                                           \
    X(store) X(append) X(fill) X(beyond) X(paths)                                                             \
    /* op_route_score.cuh */                                                                                  \
    X(route_score) X(route_price)                                                                             \
    /* op_elementwise.cuh */                                                                                  \
    X(activation) X(prelu) X(clip) X(affine) X(batch_norm)                                                    \
    /* op_unary.cuh, op_binary.cuh, op_chain.cuh */                                                           \
    X(unary) X(binary) X(compare) X(where) X(chain)                                                           \
    /* op_binary.cuh, op_convert.cuh */                                                                       \
    X(add) X(sub) X(mul) X(convert) X(sr_store)                                                               \
    /* op_shape.cuh */                                                                                        \
    X(concat) X(slice) X(reshape) X(transpose) X(pad) X(pixel_shuffle) X(pixel_unshuffle) X(gather_rows)      \
    /* the same, op_shape_index.cuh */                                                                        \
    X(roll) X(select) X(gather_elements) X(scatter_elements) X(scatter_rows)                                  \
    /* op_lines.cuh, op_lines_chain.cuh */                                                                    \
    X(softmax) X(layer_norm) X(reduce) X(argmax) X(topk)                                                      \
    X(rms_norm) X(argmin) X(cumsum) X(line_chain)                                                             \
    /* op_loop.cuh, op_rope.cuh, op_segment.cuh, op_image.cuh, op_from_data.cuh, op_unique.cuh, op_nms.cuh */ \
    X(loop_trip) X(rope) X(segment_index) X(lrn) X(arange) X(nonzero) X(unique) X(nms) X(nms_pack)            \
    /* op_loop.cuh, op_trees.cuh */                                                                           \
    X(loop_rows) X(loop_parent) X(children) X(levels)                                                         \
    /* op_image.cuh, op_resize.cuh, op_features.cuh */                                                        \
    X(pool2d) X(pool2d_global) X(resize) X(resize_double) X(resize_any) X(patch_features)

/* A block takes the registers of a multiprocessor. */
#define BS_CU_HEAVY_KERNELS(X)                                                                                \
    /* op_conv_*.cuh, op_deconv.cuh */                                                                        \
    X(conv2d) X(conv2d_depthwise) X(conv2d_tensor) X(conv2d_tile) X(conv2d_plain) X(deconv2d)                 \
    /* op_linear.cuh, op_matmul.cuh */                                                                        \
    X(linear) X(linear_tensor) X(matmul)                                                                      \
    /* op_recurrent.cuh */                                                                                    \
    X(lstm) X(gru)                                                                                            \
    /* op_attention.cuh, op_segment.cuh */                                                                    \
    X(attention) X(segment_spread) X(segment_reduce)

/* Each block sees all rows of its step, even none: such a step has launches of its own, and is not cut into work items.
 * op_route.cuh, op_loop.cuh, op_look_ahead.cuh */
#define BS_CU_WHOLE_KERNELS(X) X(route) X(route_rows) X(route_pack) X(loop) X(loop_again) X(look_ahead)

#define BS_CU_KERNELS(X) BS_CU_LIGHT_KERNELS(X) BS_CU_HEAVY_KERNELS(X) BS_CU_WHOLE_KERNELS(X)

/* What else is launched (run.cuh): linears that the host hands to cuBLAS, putting extents in place that steps made, the
 * tiles of a region. */
#ifdef BS_NO_CUBLAS
#define BS_CU_OTHER_LAUNCHES(X) X(extend) X(region)
#else
#define BS_CU_OTHER_LAUNCHES(X) X(cublas) X(extend) X(region)
#endif

enum {
    BS_CU_none, /* nothing is launched */
#define BS_CU_ENUM(name) BS_CU_##name,
    BS_CU_KERNELS(BS_CU_ENUM) BS_CU_OTHER_LAUNCHES(BS_CU_ENUM)
#undef BS_CU_ENUM
};

/* The last number of each list. */
enum {
#define BS_CU_ONE(name) +1
    BS_CU_LAST_LIGHT = 0 BS_CU_LIGHT_KERNELS(BS_CU_ONE),
    BS_CU_LAST_HEAVY = BS_CU_LAST_LIGHT BS_CU_HEAVY_KERNELS(BS_CU_ONE),
    BS_CU_LAST_WHOLE = BS_CU_LAST_HEAVY BS_CU_WHOLE_KERNELS(BS_CU_ONE)
#undef BS_CU_ONE
};

#endif
/* ==== end src/cuda/kernels.cuh ================================================================ */
/* ==== begin src/cuda/describe.cuh ============================================================= */
/* describe.cuh - the host's side of an op on a device: how its file fills in the step of a node with resolved operands.
 * Relies on portable.cuh. Must never touch the device. */
#ifndef BS_CUDA_DESCRIBE
#define BS_CUDA_DESCRIBE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/portable.cuh" */

#ifndef BS_CU_THREADS
#define BS_CU_THREADS 256 /* threads of a block: a multiple of 32, 64 .. 256 */
#endif
#define BS_CU_WORKSPACE BS_DEVICE_WORKSPACE /* shared memory that a kernel may use beside the rows of a tile */

/* What a describe function is given about a node. */
struct bs_cu_node {
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_node *node;
    const bs_node_plan *np;
    const void *params;
    const bs_device_operand *in, *out; /* extents are the largest */
    const bs_instr *instr;
    int64_t rows;     /* of the step's domain, at most */
    int32_t blocks;   /* that keep the device busy; 1: a tile has one */
    bool near;        /* rows of tiles lie in shared memory */
    bool cublas;      /* large products go to cuBLAS */
};

/* Fills p; batch and parts where they are not 1; the kernel where an op has several, and the one that follows it. All
 * other fields are set already. */
typedef void (*bs_cu_describe)(const bs_cu_node *n, bs_device_step *step);

/* The batch of a step that one block does alone. */
enum { BS_CU_ONE_BLOCK = INT32_MAX };

/* How a step is made: its default kernel and its describe function. */
struct bs_cu_description {
    int32_t kernel;
    bs_cu_describe describe;
};
#define BS_CU_DESCRIPTION(name) {BS_CU_##name, bs_cu_##name##_describe}

/* Whether a launch, or a step, runs a kernel of the lists; one of those whose blocks see all rows of a step. */
static inline bool bs_cu_is_kernel(int32_t kernel) { return kernel <= BS_CU_LAST_WHOLE; }
static inline bool bs_cu_is_region(int32_t kernel) { return kernel == BS_CU_region; }
__host__ __device__ static inline bool bs_cu_sees_all_rows(int32_t kernel)
{
    return kernel > BS_CU_LAST_HEAVY && kernel <= BS_CU_LAST_WHOLE;
}

/* Pixels of the largest rectangle of a row of an image, margins included. */
static inline int64_t bs_cu_pixels(const bs_device_operand *o)
{
    const int64_t h = o->cell > 0 ? o->cell : o->dim[1], w = o->cell > 0 ? o->cell : o->dim[2];
    return (h + 2 * (int64_t)o->margin) * (w + 2 * (int64_t)o->margin);
}

/* The product of the first n dimensions. */
__host__ __device__ static inline int64_t bs_cu_product(const int32_t *dim, int32_t n)
{
    int64_t product = 1;
    for (int32_t i = 0; i < n; i++)
        product *= dim[i];
    return product;
}

static inline int64_t bs_cu_elements(const bs_device_operand *o)
{
    return o->image ? bs_cu_pixels(o) * o->dim[0] : bs_cu_product(o->dim, o->rank);
}

/* Work items of `each` elements for `count` of them: at least 1, at most 65536. */
static inline int32_t bs_cu_work_items(int64_t count, int64_t each)
{
    const int64_t items = bs_ceil_div(count, each);
    return (int32_t)(items < 1 ? 1 : items > 65536 ? 65536 : items);
}

/* How much of all rows a work item gets, each with `amount`: `most`, or down to a quarter of it where the device would
 * have less to do than it has blocks. */
static inline int64_t bs_cu_item(const bs_cu_node *n, int64_t amount, int64_t most)
{
    return bs_max_i64(bs_min_i64(bs_ceil_div(n->rows * amount, n->blocks), most), most / 4);
}

#endif
/* ==== end src/cuda/describe.cuh =============================================================== */
/* ==== begin src/cuda/ops.cuh ================================================================== */
/* ops.cuh - which function describes the step of an op, by its number. (Of a move: step.cuh.)
 * Adding an op: its file, with an include here if it is new; its kernels in kernels.cuh. Relies on ops/list.h and the
 * files of ops. */
#ifndef BS_CUDA_OPS
#define BS_CUDA_OPS

/* ==== begin src/ops/list.h ==================================================================== */
/* ops/list.h - the list of all ops: one line of the op table each, for CPU and device.
 * BS_OP_LIST(X) names each op and what a device does with it: NONE: the planner lowers it to moves and views; KERNEL:
 * a function of src/cuda/ describes its step; CHAIN: likewise, and chains of a device have its function of an element
 * (cuda/op_chain.cuh); LINES: likewise, and they begin with its function of a line (cuda/op_lines_chain.cuh).
 * Relies on nothing.
 * Append only: model files name ops, but the order here is also that of `inspect` and of the tests. An op is in the op
 * set that brought it; the newest is BS_MODEL_OPSET, or that one brought parameters alone, as set 3 did. A released set
 * gets no more ops. Set 4 is in no release yet; a release says here that it is.
 *
 * A build with BS_ONLY_OPS has only the ops whose macros are defined (BS_OP_conv2d for conv2d), and the structural
 * ones. BS_OP_IF(name, yes, no) chooses one or the other: numbers stay the same, and an op that is left out has an
 * empty line. */
#ifndef BS_OPS_LIST_H
#define BS_OPS_LIST_H

#define BS_OPS_OF_SET_1(X)                                                                                            \
    /* structure.c, routers.c: lowered by the planner */                                                              \
    X(input, NONE) X(state, NONE) X(state_write, NONE) X(output, NONE) X(patches, NONE) X(assemble, NONE)             \
    X(rows, NONE) X(collect, NONE) X(route, KERNEL) X(scatter, NONE) X(gather, NONE)                                  \
    X(route_price, KERNEL) X(route_score, KERNEL)                                                                     \
    /* one file an op or family: kernels */                                                                           \
    X(conv2d, KERNEL) X(deconv2d, KERNEL) X(linear, KERNEL) X(matmul, KERNEL) X(pixel_shuffle, KERNEL)                \
    X(pixel_unshuffle, KERNEL) X(add, CHAIN) X(sub, CHAIN) X(mul, CHAIN) X(activation, CHAIN) X(prelu, KERNEL)        \
    X(clip, CHAIN) X(affine, CHAIN) X(convert, KERNEL) X(concat, KERNEL) X(slice, KERNEL) X(reshape, KERNEL)          \
    X(transpose, KERNEL) X(pad, KERNEL) X(softmax, LINES) X(layer_norm, LINES) X(batch_norm, KERNEL)                  \
    X(pool2d, KERNEL) X(resize, KERNEL) X(reduce, KERNEL) X(argmax, KERNEL) X(topk, KERNEL) X(gather_rows, KERNEL)    \
    X(constant, NONE) X(patch_features, KERNEL)

#define BS_OPS_OF_SET_2(X)                                                                                            \
    /* segments: segments.c and files of their own */                                                                 \
    X(segments, NONE) X(state_append, NONE) X(segment_spread, KERNEL) X(segment_reduce, KERNEL) X(attention, KERNEL)  \
    /* streaming: routers.c */                                                                                        \
    X(look_ahead, KERNEL)

#define BS_OPS_OF_SET_4(X)                                                                                            \
    /* lines.c, reduce.c, rope.c, segment_rows.c, lrn.c */                                                            \
    X(rms_norm, LINES) X(argmin, KERNEL) X(cumsum, KERNEL) X(rope, KERNEL) X(segment_index, KERNEL) X(lrn, KERNEL)    \
    /* gather_rows.c, concat_slice.c */                                                                               \
    X(select, KERNEL) X(gather_elements, KERNEL) X(scatter_elements, KERNEL) X(scatter_rows, KERNEL) X(roll, KERNEL)  \
    /* recurrent.c */                                                                                                 \
    X(lstm, KERNEL) X(gru, KERNEL)                                                                                    \
    /* unary.c, binary.c, compare.c */                                                                                \
    X(unary, CHAIN) X(binary, CHAIN) X(compare, KERNEL) X(where, KERNEL)                                              \
    /* from_data.c, unique.c, nms.c */                                                                                \
    X(arange, KERNEL) X(nonzero, KERNEL) X(unique, KERNEL) X(nms, KERNEL)                                             \
    /* loops.c, lowered by the planner */                                                                             \
    X(loop, KERNEL) X(loop_carry, NONE) X(loop_trip, KERNEL) X(loop_slice, NONE) X(loop_next, NONE)                   \
    X(loop_collect, NONE) X(loop_again, KERNEL) X(loop_rows, KERNEL) X(loop_parent, KERNEL)                           \
    /* trees.c */                                                                                                     \
    X(children, KERNEL) X(levels, KERNEL)

#define BS_OP_LIST(X) BS_OPS_OF_SET_1(X) BS_OPS_OF_SET_2(X) BS_OPS_OF_SET_4(X)

/* What a device does with an op, by name: BS_OP_DEVICE_conv2d. What chains may have is taken from here (BS_BY_ELEMENTS,
 * BS_BY_LINES), as the switches of the device are: a planner chains nothing that a device has no function of. */
enum {
    BS_DEVICE_NONE,
    BS_DEVICE_KERNEL,
    BS_DEVICE_CHAIN,
    BS_DEVICE_LINES,
#define BS_OP_DEVICE(name, device) BS_OP_DEVICE_##name = BS_DEVICE_##device,
    BS_OP_LIST(BS_OP_DEVICE)
#undef BS_OP_DEVICE
};

#if defined(BS_ONLY_OPS)
#define BS_OP_input 1
#define BS_OP_state 1
#define BS_OP_state_write 1
#define BS_OP_output 1
#define BS_OP_patches 1
#define BS_OP_assemble 1
#define BS_OP_rows 1
#define BS_OP_collect 1
#define BS_OP_route 1
#define BS_OP_scatter 1
#define BS_OP_gather 1
#define BS_OP_route_price 1
#define BS_OP_route_score 1

/* A macro that is defined, as nothing or as 1, becomes a comma: then `yes` is the second of three arguments, else `no`
 * is. */
#define BS_OP_HAVE_ 0,
#define BS_OP_HAVE_1 0,
#define BS_OP_SECOND(first, second, ...) second
#define BS_OP_PICK(...) BS_OP_SECOND(__VA_ARGS__)
#define BS_OP_WITH(macro, yes, no) BS_OP_PICK(BS_OP_HAVE_##macro yes, no, 0)
#define BS_OP_EXPAND(macro, yes, no) BS_OP_WITH(macro, yes, no)
#define BS_OP_IF(name, yes, no) BS_OP_EXPAND(BS_OP_##name, yes, no)
#else
#define BS_OP_IF(name, yes, no) yes
#endif

#endif
/* ==== end src/ops/list.h ====================================================================== */

/* ==== begin src/cuda/op_append.cuh ============================================================ */
/* op_append.cuh - append: each row of a segment to its position in the segment's ring.
 * Relies on move_rows.cuh and segment.cuh. Must never write a position that a later row of the same run writes: the
 * order of the two would be undefined. */
#ifndef BS_CUDA_OP_APPEND
#define BS_CUDA_OP_APPEND

/* #include "cuda/kernels.cuh" */
/* ==== begin src/cuda/move_rows.cuh ============================================================ */
/* move_rows.cuh - moving a row from view to view, and zeroing the margin around it that readers' windows reach.
 * Relies on move_nest.cuh. Must never write outside a row and its margin. */
#ifndef BS_CUDA_MOVE_ROWS
#define BS_CUDA_MOVE_ROWS

/* ==== begin src/cuda/move_nest.cuh ============================================================ */
/* move_nest.cuh - copying and zeroing the elements of a row: a *nest* of at most four loops. Contiguous loops are
 * merged, so that the same code moves any tensor in the widest words that its addresses allow.
 * Relies on move_team.cuh and program.cuh. Must never write outside the nest it is given. */
#ifndef BS_CUDA_MOVE_NEST
#define BS_CUDA_MOVE_NEST

/* ==== begin src/cuda/move_team.cuh ============================================================ */
/* move_team.cuh - how moves are divided: large rows into work items, small rows among *teams*. A team works on one
 * row: the whole block, or only as many threads as the row's bytes keep busy.
 * Relies on describe.cuh. Must never decide anything. */
#ifndef BS_CUDA_MOVE_TEAM
#define BS_CUDA_MOVE_TEAM

/* #include "cuda/describe.cuh" */

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
/* ==== end src/cuda/move_team.cuh ============================================================== */
/* #include "cuda/program.cuh" */

enum {
    BS_CU_NO_WORD = 1 << 30, /* elements of a word, a power of two: more than a line has, so that none is copied so */
    BS_CU_TILE_FAST = 64, /* of a transposed tile: elements along one side ... */
    BS_CU_TILE_SLOW = 32  /* ... and the other */
};

/* ------------------------------------------------------------------------------------------------------ nests */

/* Loops over the elements of a row, the fastest first; strides in elements. */
struct bs_cu_nest {
    uint8_t *to;
    const uint8_t *from;
    int32_t n[4], to_step[4], from_step[4];
    int32_t to_type, from_type;
};

__device__ __forceinline__ void bs_cu_nest_swap(bs_cu_nest *c, int32_t a, int32_t b)
{
    const int32_t n = c->n[a], to = c->to_step[a], from = c->from_step[a];
    c->n[a] = c->n[b], c->to_step[a] = c->to_step[b], c->from_step[a] = c->from_step[b];
    c->n[b] = n, c->to_step[b] = to, c->from_step[b] = from;
}

/* Merges loop b into loop a, where the two together step evenly on both sides. */
__device__ __forceinline__ void bs_cu_nest_merge(bs_cu_nest *c, int32_t a, int32_t b)
{
    if (c->n[a] == 1)
        bs_cu_nest_swap(c, a, b);
    if (c->n[b] == 1 || c->to_step[b] != (int64_t)c->n[a] * c->to_step[a] ||
        c->from_step[b] != (int64_t)c->n[a] * c->from_step[a])
        return;
    c->n[a] *= c->n[b];
    c->n[b] = 1;
}

/* The loops over a rectangle of `to` (an image), or over all of its elements. Loops of length 1 come last. */
__device__ inline bs_cu_nest bs_cu_nest_of(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_rect &r)
{
    bs_cu_nest c;
    c.to = to.data;
    c.from = from.data;
    c.to_type = to.dtype;
    c.from_type = from.dtype;
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const int32_t d = to.rank - 1 - i;
        c.n[i] = d >= 0 ? bs_cu_pick(to.dim, d) : 1;
        c.to_step[i] = d >= 0 ? bs_cu_pick(to.stride, d) : 0;
        c.from_step[i] = d >= 0 ? bs_cu_pick(from.stride, d) : 0;
    }
    if (to.image) { /* so far x, y, channel */
        c.n[0] = max(r.x1 - r.x0, 0);
        c.n[1] = max(r.y1 - r.y0, 0);
        c.to += bs_cu_pixel_at(to, 0, r.y0, r.x0) * bs_cu_bytes(to.dtype);
        c.from += bs_cu_pixel_at(from, 0, r.y0, r.x0) * bs_cu_bytes(from.dtype);
    }
    if (c.to_step[2] == 1 || c.from_step[2] == 1) { /* channels that lie side by side */
        bs_cu_nest_swap(&c, 1, 2);
        bs_cu_nest_swap(&c, 0, 1);
    }
    bs_cu_nest_merge(&c, 2, 3);
    bs_cu_nest_merge(&c, 1, 2);
    bs_cu_nest_merge(&c, 0, 1);
    return c;
}

/* Words of `each` elements, a power of two, in a line. Shifts, because a division takes as long as all else here. */
__device__ __forceinline__ int32_t bs_cu_words(const bs_cu_nest &c, int32_t each)
{
    return c.n[0] >> (31 - __clz(each));
}

/* Offset of word number i by these steps, when the first loop goes in words of `each` elements. */
__device__ __forceinline__ int64_t bs_cu_nest_at(const bs_cu_nest &c, const int32_t *step, uint32_t i, int32_t each)
{
    uint32_t line = 0, a = 0, b = 0;
    if (c.n[1] * c.n[2] * c.n[3] > 1) {
        const uint32_t width = (uint32_t)bs_cu_words(c, each);
        line = i / width;
        i -= line * width;
        if (c.n[2] * c.n[3] > 1) {
            a = line / (uint32_t)c.n[1];
            line -= a * (uint32_t)c.n[1];
            if (c.n[3] > 1) {
                b = a / (uint32_t)c.n[2];
                a -= b * (uint32_t)c.n[2];
            }
        }
    }
    /* a loop has fewer than 2^31 elements: 32 bits times 32, or every step is kept as 64 bits too */
    return (int64_t)(int32_t)(i * (uint32_t)each) * step[0] + (int64_t)(int32_t)line * step[1] +
           (int64_t)(int32_t)a * step[2] + (int64_t)(int32_t)b * step[3];
}

/* The same in bytes, where an element has 1, 2 or 4, by a shift: nvcc multiplies a factor into each step ahead of the
 * loop, and keeps all of these products, 64 bits each. */
__device__ __forceinline__ int64_t bs_cu_nest_byte(const bs_cu_nest &c, const int32_t *step, uint32_t i, int32_t each,
                                                   int32_t bytes)
{
    return (int64_t)((uint64_t)bs_cu_nest_at(c, step, i, each) << (bytes >> 1));
}

/* --------------------------------------------------------------------------------------------------- elements */

/* Moves one element: its bits, or converted between f32 and f16. */
__device__ __forceinline__ void bs_cu_element_move(uint8_t *to, int32_t to_type, int64_t to_at, const uint8_t *from,
                                                   int32_t from_type, int64_t from_at)
{
    if (to_type == from_type)
        bs_cu_store_one(to, bs_cu_bytes(to_type), to_at, bs_cu_load_one(from, bs_cu_bytes(from_type), from_at));
    else
        bs_cu_put(to, to_type, to_at, bs_cu_get(from, from_type, from_at));
}

/* Moves a word, or four elements converted between f32 and f16. */
template <typename word> __device__ __forceinline__ void bs_cu_word_move(word *to, const word &from)
{
    *to = from;
}

__device__ __forceinline__ void bs_cu_word_move(uint2 *to, const float4 &from) { *to = bs_cu_pack_quad(from); }
__device__ __forceinline__ void bs_cu_word_move(float4 *to, const uint2 &from) { *to = bs_cu_unpack_quad(from); }

/* ---------------------------------------------------------------------------------------------------- copying */

/* Copies words first .. last - 1 of a nest whose first loop is contiguous. A thread has four loads in flight, and
 * computes where they go meanwhile. */
template <typename to_word, typename from_word>
__device__ __forceinline__ void bs_cu_copy_words(const bs_cu_nest &c, int32_t each, uint32_t first, uint32_t last,
                                                 const bs_cu_team &team)
{
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += 4u * (uint32_t)team.size) {
        from_word word[4];
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) { /* beyond the end: the last one again */
            const uint32_t at = min(i + u * (uint32_t)team.size, last - 1);
            word[u] = *reinterpret_cast<const from_word *>(c.from +
                                                           bs_cu_nest_byte(c, c.from_step, at, each, from_bytes));
        }
#pragma unroll
        for (uint32_t u = 0; u < 4; u++) {
            const uint32_t at = i + u * (uint32_t)team.size;
            if (at < last)
                bs_cu_word_move(reinterpret_cast<to_word *>(c.to + bs_cu_nest_byte(c, c.to_step, at, each, to_bytes)),
                                word[u]);
        }
    }
}

template <typename word>
__device__ __forceinline__ void bs_cu_zero_words(const bs_cu_nest &c, int32_t each, uint32_t first, uint32_t last,
                                                 const bs_cu_team &team)
{
    const int32_t bytes = bs_cu_bytes(c.to_type);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        *reinterpret_cast<word *>(c.to + bs_cu_nest_byte(c, c.to_step, i, each, bytes)) = word();
    }
}

/* The widest word, in bytes, that an address and the steps from it allow. */
__device__ __forceinline__ int32_t bs_cu_word(const uint8_t *data, const int32_t *n, const int32_t *step, int32_t bytes)
{
    uint64_t all = 16 | (uint64_t)reinterpret_cast<uintptr_t>(data);
#pragma unroll
    for (int32_t i = 1; i < 4; i++)
        all |= n[i] > 1 ? (uint64_t)((int64_t)step[i] * bytes) : 0;
    return (int32_t)(all & (0 - all));
}

/* The words of this work item of a row: an even share of `total`. */
__device__ __forceinline__ void bs_cu_share(uint32_t total, const bs_cu_work &w, uint32_t *first, uint32_t *last)
{
    *first = 0;
    *last = total;
    if (w.parts == 1)
        return;
    *first = (uint32_t)((uint64_t)total * (uint32_t)w.part / (uint32_t)w.parts);
    *last = (uint32_t)((uint64_t)total * (uint32_t)(w.part + 1) / (uint32_t)w.parts);
}

/* The words of this work item, when the first loop goes in words of `each` elements; ends of lines that fill no word
 * are not counted. */
__device__ __forceinline__ void bs_cu_nest_share(const bs_cu_nest &c, int32_t each, const bs_cu_work &w,
                                                 uint32_t *first, uint32_t *last)
{
    bs_cu_share((uint32_t)bs_cu_words(c, each) * (uint32_t)c.n[1] * (uint32_t)c.n[2] * (uint32_t)c.n[3], w, first,
                last);
}

/* The ends of lines that fill no whole word. */
__device__ __forceinline__ bs_cu_nest bs_cu_nest_rest(const bs_cu_nest &c, int32_t each)
{
    bs_cu_nest rest = c;
    const int32_t done = c.n[0] & -each;
    rest.n[0] -= done;
    rest.to += (int64_t)done * bs_cu_bytes(c.to_type);
    rest.from += (int64_t)done * bs_cu_bytes(c.from_type);
    return rest;
}

/* Any strides, any types: element by element. */
__device__ inline void bs_cu_copy_elements(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    uint32_t first, last;
    bs_cu_nest_share(c, 1, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        bs_cu_element_move(c.to, c.to_type, bs_cu_nest_at(c, c.to_step, i, 1), c.from, c.from_type,
                           bs_cu_nest_at(c, c.from_step, i, 1));
    }
}

/* Copies where both sides are contiguous along the first loop. Returns the elements of a word: the caller copies the
 * ends of lines that fill none. */
__device__ inline int32_t bs_cu_copy_lines(const bs_cu_nest &c, const bs_cu_team &team, const bs_cu_work &w)
{
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    const int32_t to_word = bs_cu_word(c.to, c.n, c.to_step, to_bytes),
                  from_word = bs_cu_word(c.from, c.n, c.from_step, from_bytes);
    const bool same = c.to_type == c.from_type;
    const int32_t bytes = min(to_word, from_word), each = !same ? 4 : bytes > to_bytes ? bytes >> (to_bytes >> 1) : 1;
    uint32_t first, last;
    if (!same && (to_word < 4 * to_bytes || from_word < 4 * from_bytes))
        return BS_CU_NO_WORD;
    bs_cu_nest_share(c, each, w, &first, &last);
    if (!same && to_bytes == 2)
        bs_cu_copy_words<uint2, float4>(c, each, first, last, team);
    else if (!same)
        bs_cu_copy_words<float4, uint2>(c, each, first, last, team);
    else if (bytes == 16)
        bs_cu_copy_words<uint4, uint4>(c, each, first, last, team);
    else if (bytes == 8)
        bs_cu_copy_words<uint2, uint2>(c, each, first, last, team);
    else if (bytes == 4)
        bs_cu_copy_words<uint32_t, uint32_t>(c, each, first, last, team);
    else if (bytes == 2)
        bs_cu_copy_words<uint16_t, uint16_t>(c, each, first, last, team);
    else
        bs_cu_copy_words<uint8_t, uint8_t>(c, each, first, last, team);
    return each;
}

/* Copies where one side is contiguous along the first loop, the other along the second: tiles are transposed in shared
 * memory, so that accesses are coalesced on both sides. Called by all threads of a block. */
__device__ inline void bs_cu_copy_turned(const bs_cu_nest &c, uint8_t *workspace, const bs_cu_work &w)
{
    uint32_t *tile = reinterpret_cast<uint32_t *>(workspace);
    const int32_t to_bytes = bs_cu_bytes(c.to_type), from_bytes = bs_cu_bytes(c.from_type);
    const bool from_first = c.from_step[0] == 1; /* which side runs along loop 0 */
    const int32_t pitch = BS_CU_TILE_FAST | 1, across = (c.n[0] + BS_CU_TILE_SLOW - 1) / BS_CU_TILE_SLOW;
    const int32_t along = (c.n[1] + BS_CU_TILE_FAST - 1) / BS_CU_TILE_FAST;
    const int64_t tiles = (int64_t)across * along * c.n[2] * c.n[3];
    for (int64_t k = w.part; k < tiles; k += w.parts) {
        const int32_t b0 = (int32_t)(k % across) * BS_CU_TILE_SLOW,
                      a0 = (int32_t)(k / across % along) * BS_CU_TILE_FAST;
        const int32_t rest = (int32_t)(k / ((int64_t)across * along)), u = rest % c.n[2], v = rest / c.n[2];
        const int32_t nb = min(BS_CU_TILE_SLOW, c.n[0] - b0), na = min(BS_CU_TILE_FAST, c.n[1] - a0);
        const uint8_t *from = c.from + ((int64_t)u * c.from_step[2] + (int64_t)v * c.from_step[3]) * from_bytes;
        uint8_t *to = c.to + ((int64_t)u * c.to_step[2] + (int64_t)v * c.to_step[3]) * to_bytes;
        for (int32_t e = bs_cu_thread(); e < na * nb; e += bs_cu_threads()) {
            const int32_t b = from_first ? e % nb : e / na, a = from_first ? e / nb : e % na;
            tile[b * pitch + a] = bs_cu_load_one(from, from_bytes,
                                             (int64_t)(b0 + b) * c.from_step[0] + (int64_t)(a0 + a) * c.from_step[1]);
        }
        __syncthreads();
        for (int32_t e = bs_cu_thread(); e < na * nb; e += bs_cu_threads()) {
            const int32_t b = from_first ? e / na : e % nb, a = from_first ? e % na : e / nb;
            bs_cu_element_move(to, c.to_type, (int64_t)(b0 + b) * c.to_step[0] + (int64_t)(a0 + a) * c.to_step[1],
                               reinterpret_cast<const uint8_t *>(&tile[b * pitch + a]), c.from_type, 0);
        }
        __syncthreads();
    }
}

/* A row that is not cut into parts. */
__device__ __forceinline__ bs_cu_work bs_cu_uncut(void)
{
    const bs_cu_work all = {0, 1, 0, 1};
    return all;
}

/* Moves this team's share of a nest. */
__device__ inline void bs_cu_nest_copy(const bs_cu_nest &c, const bs_cu_team &team, uint8_t *workspace,
                                       const bs_cu_work &w)
{
    const bool block = team.size == bs_cu_threads();
    const bool turned = (c.to_step[0] == 1 && c.from_step[1] == 1) || (c.from_step[0] == 1 && c.to_step[1] == 1);
    int32_t each = BS_CU_NO_WORD;
    if (c.to_step[0] == 1 && c.from_step[0] == 1)
        each = bs_cu_copy_lines(c, team, w);
    else if (turned && block && c.n[0] >= 8 && c.n[1] >= 8) {
        bs_cu_copy_turned(c, workspace, w);
        return;
    }
    /* few channels are transposed this way too: the elements of a warp are close together as they are */
    if (c.n[0] & (each - 1))
        bs_cu_copy_elements(bs_cu_nest_rest(c, each), team, w);
}

/* Zeroes a rectangle of a view: whole words, then the ends of lines. */
__device__ inline void bs_cu_zero_rect(const bs_cu_view &v, const bs_cu_rect &r, const bs_cu_team &team,
                                       const bs_cu_work &w)
{
    const bs_cu_nest c = bs_cu_nest_of(v, v, r);
    const int32_t bytes = bs_cu_bytes(c.to_type),
                  word = c.to_step[0] == 1 ? bs_cu_word(c.to, c.n, c.to_step, bytes) : 1;
    const int32_t each = word == 16 ? 16 >> (bytes >> 1) : word >= 4 ? 4 >> (bytes >> 1) : (int32_t)BS_CU_NO_WORD;
    uint32_t first, last;
    bs_cu_nest_share(c, each, w, &first, &last);
    if (word == 16)
        bs_cu_zero_words<uint4>(c, each, first, last, team);
    else if (word >= 4)
        bs_cu_zero_words<uint32_t>(c, each, first, last, team);
    if ((c.n[0] & (each - 1)) == 0)
        return;
    const bs_cu_nest rest = bs_cu_nest_rest(c, each);
    bs_cu_nest_share(rest, 1, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        bs_cu_store_one(rest.to, bytes, bs_cu_nest_at(rest, rest.to_step, i, 1), 0);
    }
}

#endif
/* ==== end src/cuda/move_nest.cuh ============================================================== */

__device__ __forceinline__ bs_cu_rect bs_cu_common(const bs_cu_view &a, const bs_cu_view &b)
{
    const bs_cu_rect r = {max(a.y0, b.y0), min(a.y1, b.y1), max(a.x0, b.x0), min(a.x1, b.x1)};
    return r;
}

__device__ __forceinline__ void bs_cu_row_copy(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_team &team,
                                               uint8_t *workspace, const bs_cu_work &w)
{
    bs_cu_nest_copy(bs_cu_nest_of(to, from, bs_cu_common(to, from)), team, workspace, w);
}

/* Zeroes what lies between an outer and an inner rectangle of a stored image. */
__device__ inline void bs_cu_zero_ring(const bs_cu_view &v, const bs_cu_rect &inner, const bs_cu_rect &outer,
                                       const bs_cu_team &team)
{
#pragma unroll 1
    for (int32_t side = 0; side < 4; side++) { /* above, below, left, right */
        bs_cu_rect r = outer;
        if (side == 0)
            r.y1 = inner.y0;
        else
            r.y0 = side == 1 ? max(inner.y1, outer.y0) : inner.y0;
        if (side > 1)
            r.y1 = inner.y1;
        if (side == 2)
            r.x1 = inner.x0;
        if (side == 3)
            r.x0 = max(inner.x1, outer.x0);
        if (r.y1 > r.y0 && r.x1 > r.x0)
            bs_cu_zero_rect(v, r, team, bs_cu_uncut());
    }
}

/* As bs_zero_margin. */
__device__ inline void bs_cu_zero_outside(const bs_cu_view &v, const bs_cu_team &team)
{
    const bs_cu_rect outer = {-v.margin, min(v.y1 + v.margin, v.max_h + v.margin), -v.margin,
                              min(v.x1 + v.margin, v.max_w + v.margin)};
    bs_cu_zero_ring(v, v, outer, team);
}

/* In a frame that is assembled from cells, a cell at the frame's edge zeroes the margin beyond. A cell that is empty at
 * this scale does nothing. */
__device__ inline void bs_cu_zero_beyond_frame(const bs_cu_view &v, const bs_cu_team &team)
{
    const int32_t h = v.dim[1], w = v.dim[2], margin = v.margin;
    if (h <= 0 || w <= 0)
        return;
    const bs_cu_rect inner = {0, h, 0, w};
    const bs_cu_rect outer = {v.frame_y == 0 ? -margin : 0, v.frame_y + h == v.frame_h ? h + margin : h,
                              v.frame_x == 0 ? -margin : 0, v.frame_x + w == v.frame_w ? w + margin : w};
    bs_cu_zero_ring(v, inner, outer, team);
}

/* A row as the target of a store: in a root image only the core of the cell. */
__device__ inline bs_cu_view bs_cu_open_target(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    bs_cu_view v = bs_cu_open(t, o, row);
    if (o->place == BS_AT_CELL)
        v.y0 = v.x0 = 0, v.y1 = v.dim[1], v.x1 = v.dim[2];
    return v;
}

/* A row of lines that is a channel of a root image, as that. */
__device__ inline bs_cu_view bs_cu_as_channel(bs_cu_view v)
{
    v.rank = 3;
    v.image = true;
    v.dim[2] = v.frame_w = v.dim[1];
    v.dim[1] = v.frame_h = v.dim[0];
    v.dim[0] = 1;
    v.stride[2] = v.stride[1];
    v.stride[1] = v.stride[0];
    v.frame_y = v.frame_x = 0;
    return v;
}

/* Zeroes the margin of a row that was moved. Opens the row again, because copying needed the registers. */
__device__ __forceinline__ void bs_cu_zero_around(const bs_cu_tile &t, const bs_device_operand *o, int32_t row,
                                                  const bs_cu_team &team, const bs_cu_work &w)
{
    if (w.part != 0 || o->margin == 0)
        return;
    const bs_cu_view v = bs_cu_open_target(t, o, row);
    if (!v.image) /* only in the root (bs_cu_to_cell) */
        bs_cu_zero_beyond_frame(bs_cu_as_channel(v), team);
    else if (o->place == BS_AT_CELL)
        bs_cu_zero_beyond_frame(v, team);
    else
        bs_cu_zero_outside(v, team);
}

#endif
/* ==== end src/cuda/move_rows.cuh ============================================================== */
/* ==== begin src/cuda/segment.cuh ============================================================== */
/* segment.cuh - rows as segments see them: graph/segments.h, on a device.
 * Relies on program.cuh; offsets are checked before the run. Must never read beyond them. */
#ifndef BS_CUDA_SEGMENT
#define BS_CUDA_SEGMENT

/* #include "cuda/program.cuh" */

struct bs_cu_segments {
    const int32_t *offsets; /* [count + 1] */
    int32_t count, domain;  /* domain: of the rows, that of the segments or a path in it */
};

__device__ inline bs_cu_segments bs_cu_segments_of(const bs_cu_tile &t, int32_t domain)
{
    const bs_device_domain &d = t.program->domains[domain];
    const bs_cu_segments s = {bs_cu_at<const int32_t>(d.offsets), d.lengths, domain};
    return s;
}

__device__ inline int32_t bs_cu_segment_at(const bs_cu_tile &t, const bs_cu_segments &s, int32_t row)
{
    return bs_segment_of(s.offsets, s.count, bs_cu_top_row(t, s.domain, row));
}

/* The first row of a segment, or of what follows where it has none. */
__device__ inline int32_t bs_cu_segment_first(const bs_cu_tile &t, const bs_cu_segments &s, int32_t segment)
{
    const int32_t first = s.offsets[segment];
    int32_t low = 0, high = bs_cu_count(t, s.domain);
    if (t.program->domains[s.domain].kind != BS_DOMAIN_PATH)
        return first;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (bs_cu_top_row(t, s.domain, middle) < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
/* ==== end src/cuda/segment.cuh ================================================================ */

static void bs_cu_append_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->in[0], bs_cu_elements(&n->in[0]), s);
}

/* Where a row goes in the ring of its segment; NULL: nowhere, a later row of this run would overwrite it. */
__device__ inline uint8_t *bs_cu_ring_place(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    const bs_device_operand *cache_lengths = bs_cu_in(t, s, 1), *ring = bs_cu_out(t, s, 0);
    const bs_device_domain &domain = t.program->domains[bs_cu_in(t, s, 0)->domain];
    const int32_t *offsets = bs_cu_at<const int32_t>(domain.offsets);
    const int32_t segment = bs_segment_of(offsets, domain.lengths, row);
    const int32_t position = bs_cu_at<const int32_t>(cache_lengths->base)[segment] +
                             (row - offsets[segment]);
    if (offsets[segment + 1] - row > ring->dim[BS_MAX_RANK - 1] || position < 0)
        return NULL;
    return bs_cu_at<uint8_t>(ring->base) + segment * ring->row_bytes +
           (int64_t)(position % ring->dim[BS_MAX_RANK - 1]) * ring->max_w * bs_cu_bytes(ring->dtype);
}

/* Each row of a segment to its position in the segment's ring. */
__device__ inline void bs_cu_append_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        uint8_t *place = bs_cu_ring_place(t, s, r);
        if (!place)
            continue;
        const bs_cu_view from = bs_cu_open_in(t, s, 0, r);
        bs_cu_view to = from;
        to.data = place;
        to.dtype = bs_cu_out(t, s, 0)->dtype;
        for (int32_t i = 0; i < BS_MAX_RANK; i++)
            to.stride[i] = bs_cu_out(t, s, 0)->stride[i];
        bs_cu_row_copy(to, from, team, t.workspace, w);
    }
}

#endif
/* ==== end src/cuda/op_append.cuh ============================================================== */
/* ==== begin src/cuda/op_attention.cuh ========================================================= */
/* op_attention.cuh - attention of the rows of a segment, to themselves after a cache of earlier ones or to another's.
 *
 * A work item is one row and one head. Positions are taken 32 at a time, counted from position 0 whatever the window: a
 * warp computes the largest score, the sum and the weighted values of 32, and these are merged from the oldest on. The
 * order of additions depends on positions alone, not on warps or on whether a key is in the ring or in this run, so a
 * prompt in one run and token by token give the same bits.
 * Relies on op_segment.cuh; offsets, cache lengths and the bounds of a bias are checked before the run. Must never let
 * rows of a run share anything. */
#ifndef BS_CUDA_OP_ATTENTION
#define BS_CUDA_OP_ATTENTION

/* ==== begin src/cuda/op_segment.cuh =========================================================== */
/* op_segment.cuh - between segments and their rows: numbers rows, spreads one row a segment over its rows, reduces its
 * rows to one. Sums go from the first row of a segment to its last, an element a thread.
 * Relies on segment.cuh, walk.cuh and move_nest.cuh; offsets are checked before the run. Must never read beyond
 * them. */
#ifndef BS_CUDA_OP_SEGMENT
#define BS_CUDA_OP_SEGMENT

/* #include "cuda/kernels.cuh" */
/* #include "cuda/move_nest.cuh" */
/* #include "cuda/segment.cuh" */
/* ==== begin src/cuda/walk.cuh ================================================================= */
/* walk.cuh - one loop nest for every op that computes element by element over strided operands (copies: move_nest.cuh),
 * and how rows and elements are dealt out to the threads of a block.
 *
 * Axes are merged where all operands allow it, so that an image with margins is lines of pixels and channels, and a
 * dense tensor one line. Four elements of a line are taken at a time where they are adjacent; a thread gets from its
 * elements to the next ones by carrying digits, without a division.
 * Relies on program.cuh and describe.cuh. Must never know what an element means. */
#ifndef BS_CUDA_WALK
#define BS_CUDA_WALK

/* #include "cuda/describe.cuh" */
/* #include "cuda/program.cuh" */

#define BS_CU_EACH 4096 /* elements of a work item, at most */

/* Work items of an op that fills out[0] element by element: parts of images and large rows, batches of small rows. */
static inline void bs_cu_cut(const bs_cu_node *n, bs_device_step *s)
{
    const int64_t elements = bs_cu_elements(&n->out[0]), each = bs_cu_item(n, elements, BS_CU_EACH);
    if (n->out[0].image || elements > each)
        s->parts = bs_cu_work_items(elements, each);
    else
        s->batch = (int32_t)(each / (elements < 64 ? 64 : elements));
}

/* --------------------------------------------------------------------------------------- dealing out work */

/* Rows `row`, row + rows, ... below `end` are this worker's, and of their elements index, index + workers, ... A worker
 * is a thread, or a warp. */
struct bs_cu_deal {
    int32_t row, rows, end, index, workers;
};

/* A row with an image, or one that is cut into parts, goes to the whole block; others to at most as many workers as
 * they have `units`, and to fewer where all rows together keep all of them busy: finding a row takes long. */
__device__ inline bs_cu_deal bs_cu_deal_out(const bs_cu_work &w, bool whole, int32_t units, int32_t worker,
                                            int32_t workers)
{
    bs_cu_deal d = {w.row, 1, w.end, w.part * workers + worker, w.parts * workers};
    if (whole || w.parts > 1 || w.end - w.row == 1)
        return d;
    int32_t shift = 0;
    while (1 << shift < units && 2 << shift <= workers && (w.end - w.row) << shift < workers)
        shift++;
    d.rows = workers >> shift;
    d.row = worker >> shift < d.rows ? w.row + (worker >> shift) : d.end;
    d.index = worker & ((1 << shift) - 1);
    d.workers = 1 << shift;
    return d;
}

/* For an op that fills out[0]; `unit`: log2 of the bytes that a worker writes at a time, four elements. */
__device__ __forceinline__ bs_cu_deal bs_cu_deal_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                      int32_t unit = 4)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    return bs_cu_deal_out(w, out->image, (int32_t)(out->row_bytes >> unit), bs_cu_thread(), bs_cu_threads());
}

/* Every row to the whole block. */
__device__ __forceinline__ bs_cu_deal bs_cu_deal_whole(const bs_cu_work &w)
{
    return bs_cu_deal_out(w, true, 0, bs_cu_thread(), bs_cu_threads());
}

/* Calls each(y, x, row) with the result and operand 0 of this worker's rows; margins are zeroed before. */
template <typename E>
__device__ __forceinline__ void bs_cu_each_row(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                               const bs_cu_deal &d, const E &each)
{
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_view x = bs_cu_open_in(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        each(y, x, r);
    }
}

/* --------------------------------------------------------------------------------------------------- walk */

/* Four axes, the last one moves fastest; begin: the first element. Operand 0 is the output. */
template <int N> struct bs_cu_walk {
    int32_t count[4];
    int32_t step[N][4]; /* elements */
    uint8_t *begin[N];
    int32_t bytes[N]; /* of an element */
};

/* Where axis k of the walk is in a view: an image whose channels lie side by side goes y, x, c; else the last dimension
 * is the last axis. Without an index that is known at run time only, which would put the view in memory. */
template <int M>
__device__ __forceinline__ int32_t bs_cu_on_axis(const int32_t (&v)[M], int32_t rank, bool channels_last, int32_t k,
                                                 int32_t none)
{
    int32_t there = none;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        there = d <= k && d + BS_MAX_RANK - rank == k ? v[d] : there;
    return !channels_last ? there : k == 0 ? none : v[k % 3];
}

/* Merges axis 2 into axis 3 where both are one line in every operand; the axes before move up. */
template <int N> __device__ __forceinline__ void bs_cu_walk_fold(bs_cu_walk<N> *k)
{
    bool follows = true;
    for (int32_t i = 0; i < N; i++)
        follows = follows && (int64_t)k->step[i][2] == (int64_t)k->step[i][3] * k->count[3];
    if (k->count[3] != 1 && k->count[2] != 1 && !follows)
        return;
    for (int32_t i = 0; i < N; i++) {
        k->step[i][3] = k->count[3] == 1 ? k->step[i][2] : k->step[i][3];
        k->step[i][2] = k->step[i][1];
        k->step[i][1] = k->step[i][0];
        k->step[i][0] = 0;
    }
    k->count[3] *= k->count[2];
    k->count[2] = k->count[1];
    k->count[1] = k->count[0];
    k->count[0] = 1;
}

/* A walk over the rectangle of view 0. The other views have its rank, and strides 0 where they are broadcast. */
template <int N> __device__ __forceinline__ bs_cu_walk<N> bs_cu_walk_over(const bs_cu_view (&v)[N])
{
    const bs_cu_view &o = v[0];
    const bool last = o.image && (o.dim[0] == 1 || o.stride[0] < o.stride[2]);
    const int32_t extent[BS_MAX_RANK] = {o.dim[0], o.y1 - o.y0, o.x1 - o.x0, o.dim[3]};
    bs_cu_walk<N> k;
#pragma unroll
    for (int32_t a = 0; a < 4; a++)
        k.count[a] = bs_cu_on_axis(extent, o.rank, last, a, 1);
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        k.bytes[i] = bs_cu_bytes(v[i].dtype);
        k.begin[i] = v[i].data + bs_cu_pixel_at(v[i], 0, o.y0, o.x0) * k.bytes[i];
#pragma unroll
        for (int32_t a = 0; a < 4; a++)
            k.step[i][a] = bs_cu_on_axis(v[i].stride, o.rank, last, a, 0);
    }
    bs_cu_walk_fold(&k);
    bs_cu_walk_fold(&k);
    bs_cu_walk_fold(&k);
    return k;
}

/* Whether lines are whole fours of elements, adjacent and aligned in the first `most` operands. */
template <int N> __device__ __forceinline__ bool bs_cu_walk_fours(const bs_cu_walk<N> &k, int32_t most = N)
{
    bool fours = k.count[3] % 4 == 0;
    for (int32_t i = 0; i < N; i++)
        fours = fours && (i >= most || (k.step[i][3] == 1 && ((k.step[i][0] | k.step[i][1] | k.step[i][2]) & 3) == 0 &&
                                        bs_cu_aligned(k.begin[i], k.bytes[i], 0)));
    return fours;
}

/* Visits this thread's elements: calls each.four(at) if `four`, else each.one(at), at being offsets from where operands
 * begin. The first axis is longer than 1 only where four dimensions could not be merged: it is the outer loop. */
template <int N, typename E>
__device__ __forceinline__ void bs_cu_walk_run(const bs_cu_walk<N> &k, bool four, const bs_cu_deal &d, const E &each)
{
    const int32_t unit = four ? 4 : 1, n2 = k.count[2], n3 = k.count[3] / unit;
    if (k.count[1] <= 0 || n2 <= 0 || n3 <= 0)
        return;
    const bool line = k.count[1] == 1 && n2 == 1; /* no digit but the last: nothing to divide */
    const int32_t over = line ? 0 : d.workers / n3, s3 = d.workers - over * n3, s2 = line ? 0 : over % n2,
                  s1 = line ? 0 : over / n2;
    const int32_t on = line ? d.index >= n3 : d.index / n3;
    for (int32_t d0 = 0; d0 < k.count[0]; d0++) {
        int32_t d3 = line ? d.index : d.index - on * n3, d2 = line ? 0 : on % n2, d1 = line ? on : on / n2;
        while (d1 < k.count[1]) {
            int64_t at[N];
#pragma unroll
            for (int32_t i = 0; i < N; i++)
                at[i] = (int64_t)(d3 * unit) * k.step[i][3] + (int64_t)d2 * k.step[i][2] + (int64_t)d1 * k.step[i][1] +
                        (int64_t)d0 * k.step[i][0];
            if (four)
                each.four(at);
            else
                each.one(at);
            d3 += s3;
            const int32_t carry3 = d3 >= n3;
            d3 -= carry3 ? n3 : 0;
            d2 += s2 + carry3;
            const int32_t carry2 = d2 >= n2;
            d2 -= carry2 ? n2 : 0;
            d1 += s1 + carry2;
        }
    }
}

/* --------------------------------------------------------------------------------------------------- scan */

/* floor(v / r), by a shift where r is a power of two. */
__device__ __forceinline__ int32_t bs_cu_floor_div(int32_t v, int32_t r)
{
    if ((r & (r - 1)) == 0)
        return v >> (31 - __clz(r));
    return v >= 0 ? v / r : -1 - (-1 - v) / r;
}

/* Visits pixels and channels (or `units` of them) of a rectangle, channels fastest, for code that needs their
 * coordinates. */
struct bs_cu_scan {
    int32_t y, x, c;       /* where it is */
    int32_t x0, width, units, dy, dx, dc;
};

__device__ __forceinline__ void bs_cu_scan_next(bs_cu_scan *k)
{
    k->c += k->dc;
    const int32_t carry = k->c >= k->units;
    k->c -= carry ? k->units : 0;
    k->x += k->dx + carry;
    const int32_t over = k->x >= k->x0 + k->width;
    k->x -= over ? k->width : 0;
    k->y += k->dy + over;
}

/* Stores two adjacent pixels, or one of them. */
__device__ __forceinline__ void bs_cu_store_pair(const bs_cu_view &y, int64_t at, uint32_t left, uint32_t right,
                                                 bool first, bool second)
{
    const int32_t bytes = bs_cu_bytes(y.dtype);
    uint8_t *to = y.data + at * bytes;
    if (first && second && y.stride[2] == 1 && (reinterpret_cast<uintptr_t>(to) & (uintptr_t)(2 * bytes - 1)) == 0) {
        if (bytes == 4)
            *reinterpret_cast<uint2 *>(to) = make_uint2(left, right);
        else if (bytes == 2)
            *reinterpret_cast<uint32_t *>(to) = left | right << 16;
        else
            *reinterpret_cast<uint16_t *>(to) = (uint16_t)(left | right << 8);
        return;
    }
    if (first)
        bs_cu_store_one(y.data, bytes, at, left);
    if (second)
        bs_cu_store_one(y.data, bytes, at + y.stride[2], right);
}

/* Calls each(k) for this thread's share. */
template <typename E>
__device__ __forceinline__ void bs_cu_scan_run(const bs_cu_deal &d, const bs_cu_rect &r, int32_t units, const E &each)
{
    const int32_t width = r.x1 - r.x0;
    if (width <= 0 || units <= 0)
        return;
    bs_cu_scan k;
    k.x0 = r.x0;
    k.width = width;
    k.units = units;
    k.c = d.index % units;
    k.x = r.x0 + d.index / units % width;
    k.y = r.y0 + d.index / units / width;
    k.dc = d.workers % units;
    k.dx = d.workers / units % width;
    k.dy = d.workers / units / width;
    for (; k.y < r.y1; bs_cu_scan_next(&k))
        each(k);
}

/* Calls each(y, x, k) for the pixels and channels of every row of an image, x being operand 0. */
template <typename E>
__device__ __forceinline__ void bs_cu_scan_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) { each(y, x, k); });
    });
}

/* An element of an op of a chain (op_chain.cuh): of its operands, the second where it has one, and its descriptor's
 * first words, op.p. */
struct bs_cu_element {
    float a, b;
    const bs_device_tail &op;
};

#endif
/* ==== end src/cuda/walk.cuh =================================================================== */

enum { BS_CU_SEGMENT_EACH = 1024 }; /* elements of a work item */
enum { BS_CU_SEGMENT_MODE, BS_CU_SEGMENT_TO_ROWS }; /* parameters of segment_reduce, in p: the descriptor's words */

static constexpr bs_cu_describe bs_cu_segment_index_describe = bs_cu_cut;

/* Operands: cells, which are not read, and cache lengths, if there are any. */
__device__ inline void bs_cu_segment_index_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    for (int32_t r = w.row + bs_cu_thread(); r < w.end; r += bs_cu_threads()) {
        const int32_t segment = bs_cu_segment_at(t, segments, r);
        const int32_t before =
            s->n_in > 1 ? reinterpret_cast<const int32_t *>(bs_cu_row(t, bs_cu_in(t, s, 1), 0))[segment] : 0;
        *reinterpret_cast<int32_t *>(bs_cu_row(t, out, r)) = before + (r - bs_cu_segment_first(t, segments, segment));
    }
}

/* The step's rows are those in segments. */
static void bs_cu_segment_spread_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_SEGMENT_EACH);
}

/* The step has one row, all segments, or rows that get what their segments give. */
static void bs_cu_segment_reduce_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), 256);
}

/* The offset by these strides of element number i of a cell. In images channels move fastest. */
__device__ inline int64_t bs_cu_segment_element(const bs_device_operand *cell, const int32_t *stride, int32_t i)
{
    int64_t at = 0;
    if (cell->image) {
        at = (int64_t)(i % cell->dim[0]) * stride[0];
        i /= cell->dim[0];
    }
    for (int32_t d = cell->rank - 1; d >= cell->image; d--) {
        at += (int64_t)(i % cell->dim[d]) * stride[d];
        i /= cell->dim[d];
    }
    return at;
}

__device__ inline void bs_cu_segment_spread_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *root = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    const int32_t n = (int32_t)bs_cu_product(out->dim, out->rank), step = w.parts * bs_cu_threads();
    const uint8_t *base = bs_cu_row(t, root, 0);
    for (int32_t r = w.row; r < w.end; r++) {
        const int32_t segment = bs_cu_segment_at(t, segments, r);
        const uint8_t *from = base + (int64_t)segment * root->stride[0] * bs_cu_bytes(root->dtype);
        uint8_t *to = bs_cu_row(t, out, r);
        bs_cu_zero_margin_of(t, w, out, r);
        for (int32_t i = w.part * bs_cu_threads() + bs_cu_thread(); i < n; i += step)
            bs_cu_element_move(to, out->dtype, bs_cu_segment_element(out, out->stride, i), from, root->dtype,
                               bs_cu_segment_element(out, root->stride + 1, i));
    }
}

/* Reduces one element over one segment. rows: where it is in row 0; row_bytes: from row to row. */
__device__ inline float bs_cu_segment_reduced(int32_t mode, const uint8_t *rows, int64_t row_bytes, int32_t dtype,
                                              int32_t begin, int32_t end)
{
    float result = 0.0f;
    for (int32_t r = mode == BS_SEGMENT_LAST ? max(end - 1, begin) : begin; r < end; r++) {
        const float x = bs_cu_get(rows + r * row_bytes, dtype, 0);
        if (r == begin || mode == BS_SEGMENT_LAST)
            result = x;
        else if (mode == BS_SEGMENT_MAX)
            result = x > result ? x : result;
        else
            result += x;
    }
    return mode == BS_SEGMENT_MEAN && end > begin ? result / (float)(end - begin) : result;
}

/* Each row gets what its segment gives: as many sums as there are rows, of which none waits for another. */
__device__ inline void bs_cu_segment_reduce_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, s->domain);
    const int32_t each = (int32_t)bs_cu_product(x->dim, x->rank), step = w.parts * bs_cu_threads();
    const uint8_t *rows = bs_cu_row(t, x, 0);
    for (int32_t r = w.row; r < w.end; r++) {
        const int32_t segment = bs_cu_segment_at(t, segments, r), begin = bs_cu_segment_first(t, segments, segment),
                      end = bs_cu_segment_first(t, segments, segment + 1);
        uint8_t *to = bs_cu_row(t, out, r);
        bs_cu_zero_margin_of(t, w, out, r);
        for (int32_t i = w.part * bs_cu_threads() + bs_cu_thread(); i < each; i += step) {
            const uint8_t *from = rows + bs_cu_segment_element(x, x->stride, i) * bs_cu_bytes(x->dtype);
            bs_cu_put(to, out->dtype, bs_cu_segment_element(x, out->stride, i),
                      bs_cu_segment_reduced(s->p[BS_CU_SEGMENT_MODE].i, from, x->row_bytes, x->dtype, begin, end));
        }
    }
}

__device__ inline void bs_cu_segment_reduce_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (s->p[BS_CU_SEGMENT_TO_ROWS].i) {
        bs_cu_segment_reduce_rows(t, s, w);
        return;
    }
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const bs_cu_segments segments = bs_cu_segments_of(t, x->domain);
    const int32_t each = (int32_t)bs_cu_product(x->dim, x->rank), step = w.parts * bs_cu_threads();
    /* these ops run at top level, where the rows of a domain, or of a path, are consecutive */
    const uint8_t *rows = bs_cu_row(t, x, 0);
    uint8_t *to = bs_cu_row(t, out, 0);
    bs_cu_zero_margin_of(t, w, out, 0);
    for (int64_t i = (int64_t)w.part * blockDim.x + threadIdx.x; i < (int64_t)segments.count * each; i += step) {
        const int32_t segment = (int32_t)(i / each), element = (int32_t)(i % each);
        const uint8_t *from = rows + bs_cu_segment_element(x, x->stride, element) * bs_cu_bytes(x->dtype);
        const float result = bs_cu_segment_reduced(s->p[BS_CU_SEGMENT_MODE].i, from, x->row_bytes, x->dtype,
                                                   bs_cu_segment_first(t, segments, segment),
                                                   bs_cu_segment_first(t, segments, segment + 1));
        bs_cu_put(to, out->dtype,
                  (int64_t)segment * out->stride[0] + bs_cu_segment_element(x, out->stride + 1, element), result);
    }
}

#endif
/* ==== end src/cuda/op_segment.cuh ============================================================= */
/* ==== begin src/cuda/tensor.cuh =============================================================== */
/* tensor.cuh - instructions of the tensor cores, and asynchronous copies to shared memory.
 *
 * Each is one instruction from sm_80 on. Below that, shuffles and plain loads give the same values (sums in another
 * order), so that kernels are written once. All 32 lanes of a warp must call them together.
 * Relies on elements.cuh. Must never be given an address that is not aligned to what it moves. */
#ifndef BS_CUDA_TENSOR
#define BS_CUDA_TENSOR

/* #include "cuda/elements.cuh" */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define BS_CU_AMPERE 1
#else
#define BS_CU_AMPERE 0
#endif

/* Tells the compiler that a pointer is to shared memory, which it cannot see where a tile's rows come as arguments. Not
 * from Blackwell on: there nvcc 13.0 makes invalid code of it ("PHI node operands are not the same type as the
 * result"). */
#if defined(BS_CUDA_CPU)
#define BS_CU_ASSUME_SHARED(p) cuda_cpu_must_be_shared(p)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1000 && CUDART_VERSION >= 11020
#define BS_CU_ASSUME_SHARED(p) __builtin_assume(__isShared(p))
#else
#define BS_CU_ASSUME_SHARED(p) ((void)(p))
#endif

/* d[16][8] += a[16][16] b[16][8], f16 with sums in f32. Of lane 4 g + t:
 *   a: rows g, g + 8 of columns 2t, 2t+1; then the same rows of columns 2t+8, 2t+9
 *   b: rows 2t, 2t+1 of column g; then rows 2t+8, 2t+9
 *   d: columns 2t, 2t+1 of row g; then of row g + 8 */
__device__ __forceinline__ void bs_cu_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_mma_16816(d, a, b);
#elif BS_CU_AMPERE
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = bs_cu_lane(), row = lane & ~3, column = (lane & 3) * 8;
#pragma unroll
    for (int k = 0; k < 8; k++) { /* columns 2k, 2k+1 of a lie in lane k % 4 of each row */
        const int high = k >> 2, from = k & 3;
        const uint32_t a0 = __shfl_sync(0xffffffffu, a[2 * high], row + from),
                       a1 = __shfl_sync(0xffffffffu, a[2 * high + 1], row + from);
        const uint32_t b0 = __shfl_sync(0xffffffffu, b[high], column + from),
                       b1 = __shfl_sync(0xffffffffu, b[high], column + 4 + from);
        d[0] = fmaf(bs_cu_high_half(a0), bs_cu_high_half(b0), fmaf(bs_cu_low_half(a0), bs_cu_low_half(b0), d[0]));
        d[1] = fmaf(bs_cu_high_half(a0), bs_cu_high_half(b1), fmaf(bs_cu_low_half(a0), bs_cu_low_half(b1), d[1]));
        d[2] = fmaf(bs_cu_high_half(a1), bs_cu_high_half(b0), fmaf(bs_cu_low_half(a1), bs_cu_low_half(b0), d[2]));
        d[3] = fmaf(bs_cu_high_half(a1), bs_cu_high_half(b1), fmaf(bs_cu_low_half(a1), bs_cu_low_half(b1), d[3]));
    }
#endif
}

/* Four 8x8 matrices of f16 from shared memory: lane 8 i + j brings the address of row j of matrix i (16 bytes,
 * aligned); r[i] of lane 4 g + t becomes columns 2t, 2t+1 of row g of matrix i. */
__device__ __forceinline__ void bs_cu_ldmatrix_x4(uint32_t r[4], const void *shared_row)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_ldmatrix_x4(r, shared_row);
#elif BS_CU_AMPERE
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared_row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#else
    const int lane = bs_cu_lane();
    const unsigned long long own = (unsigned long long)reinterpret_cast<uintptr_t>(shared_row);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned long long at = __shfl_sync(0xffffffffu, own, 8 * i + (lane >> 2));
        r[i] = bs_cu_at<const uint32_t>(at)[lane & 3];
    }
#endif
}

/* Copies 16 bytes from global to shared memory, both aligned to 16, bypassing the L1 cache. They are there after commit
 * and wait, for other threads after one more barrier. */
__device__ __forceinline__ void bs_cu_cp_async_16(void *shared, const void *global)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_16(shared, global);
#elif BS_CU_AMPERE
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(at), "l"(__cvta_generic_to_global(global))
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(shared) = *reinterpret_cast<const uint4 *>(global);
#endif
}

/* Ends a group of copies. */
__device__ __forceinline__ void bs_cu_cp_async_commit(void)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_commit();
#elif BS_CU_AMPERE
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits until at most N groups of this thread are under way. */
template <int N> __device__ __forceinline__ void bs_cu_cp_async_wait(void)
{
#if defined(BS_CUDA_CPU)
    cuda_cpu_cp_async_wait(N);
#elif BS_CU_AMPERE
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
#endif
}

#endif
/* ==== end src/cuda/tensor.cuh ================================================================= */

enum {
    BS_CU_ATTEND_LANES = 4,                          /* elements of a value that a lane sums */
    BS_CU_ATTEND_ELEMENTS = 32 * BS_CU_ATTEND_LANES, /* together; a larger head goes in several rounds */
    BS_CU_ATTEND_PARTIAL = BS_CU_ATTEND_ELEMENTS + 4 /* floats of a warp: values, largest score, sum */
};

/* Its parameters, in p: the descriptor's words. */
enum {
    BS_CU_ATTEND_HEADS,
    BS_CU_ATTEND_ALIBI,
    BS_CU_ATTEND_KV_HEADS,
    BS_CU_ATTEND_BIDIRECTIONAL,
    BS_CU_ATTEND_SCALE
};

static void bs_cu_attention_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t heads = bs_or_default(s->p[BS_CU_ATTEND_HEADS].i, 1);
    s->p[BS_CU_ATTEND_HEADS].i = heads;
    s->p[BS_CU_ATTEND_KV_HEADS].i = bs_or_default(s->p[BS_CU_ATTEND_KV_HEADS].i, heads);
    if (s->p[BS_CU_ATTEND_SCALE].f == 0.0f)
        s->p[BS_CU_ATTEND_SCALE].f = 1.0f / sqrtf((float)(n->in[0].dim[0] / heads));
    s->parts = heads;
}

/* The keys, or the values, of one head: where the first one is, and how they lie. */
struct bs_cu_attend_rows {
    const uint8_t *data;
    int64_t bytes;
    int32_t type, step;
};

/* fresh: those of this run, from the segment's first row on; ring: those of the cache, from its position 0 on. */
struct bs_cu_attend_side {
    bs_cu_attend_rows fresh, ring;
};

/* One row and head: it attends to positions low .. last. added: the bias of these, or the mask of fresh keys. */
struct bs_cu_attend_job {
    bs_cu_attend_side k, v;
    const uint8_t *q;
    uint8_t *out;
    int32_t q_type, q_step, out_type, out_step, n, cache_length, low, last, position, window;
    float scale, slope;
    const uint8_t *added; /* or NULL */
    int64_t added_bytes;
    int32_t added_type;
};

__device__ inline bs_cu_attend_side bs_cu_attend_side_of(const bs_cu_tile &t, const bs_device_operand *fresh,
                                                         const bs_device_operand *ring, int32_t first_row,
                                                         int32_t segment, int32_t element)
{
    /* at top level rows of a domain, or of a path, are consecutive */
    const bs_cu_attend_rows rows = {bs_cu_row(t, fresh, 0) + first_row * fresh->row_bytes +
                                        (int64_t)element * fresh->stride[0] * bs_cu_bytes(fresh->dtype),
                                    fresh->row_bytes, fresh->dtype, fresh->stride[0]};
    bs_cu_attend_side side = {rows, rows};
    if (ring) {
        const int32_t bytes = bs_cu_bytes(ring->dtype);
        side.ring = {bs_cu_row(t, ring, 0) +
                         ((int64_t)segment * ring->stride[0] + (int64_t)element * ring->stride[2]) * bytes,
                     (int64_t)ring->stride[1] * bytes, ring->dtype, ring->stride[2]};
    }
    return side;
}

/* What is added to the scores: the last operand, if there is one more than without. */
__device__ inline void bs_cu_attend_added(const bs_cu_tile &t, const bs_device_step *s, int32_t head, int32_t first_key,
                                          bs_cu_attend_job *j)
{
    const bs_device_operand *m = bs_cu_in(t, s, s->n_in - 1);
    const int32_t bytes = bs_cu_bytes(m->dtype);
    j->added = NULL;
    if (s->n_in % 3 != 1)
        return;
    j->added_type = m->dtype;
    if (m->rank < 3) {
        j->added = bs_cu_row(t, m, 0) + first_key * m->row_bytes;
        j->added_bytes = m->row_bytes;
        return;
    }
    j->added = bs_cu_row(t, m, 0) +
               ((int64_t)(m->dim[0] > 1 ? head : 0) * m->stride[0] + (int64_t)j->position * m->stride[1]) * bytes;
    j->added_bytes = (int64_t)m->stride[2] * bytes;
}

__device__ inline bs_cu_attend_job bs_cu_attend_job_of(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                       int32_t head)
{
    const bs_device_operand *q = bs_cu_in(t, s, 0), *k = bs_cu_in(t, s, 1), *o = bs_cu_out(t, s, 0),
                            *window = s->n_in > 5 ? bs_cu_in(t, s, 3) : NULL;
    const bs_cu_segments rows = bs_cu_segments_of(t, s->domain), keys = bs_cu_segments_of(t, k->domain);
    const int32_t heads = s->p[BS_CU_ATTEND_HEADS].i, segment = bs_cu_segment_at(t, rows, row);
    const int32_t first_key = bs_cu_segment_first(t, keys, segment);
    bs_cu_attend_job j;
    j.n = q->dim[0] / heads;
    j.q = bs_cu_row(t, q, row) + (int64_t)head * j.n * q->stride[0] * bs_cu_bytes(q->dtype);
    j.q_type = q->dtype;
    j.q_step = q->stride[0];
    j.out = bs_cu_row(t, o, row) + (int64_t)head * j.n * o->stride[0] * bs_cu_bytes(o->dtype);
    j.out_type = o->dtype;
    j.out_step = o->stride[0];
    j.cache_length = window ? reinterpret_cast<const int32_t *>(bs_cu_row(t, bs_cu_in(t, s, 5), 0))[segment] : 0;
    j.position = row - bs_cu_segment_first(t, rows, segment) + (k->domain == s->domain ? j.cache_length : 0);
    if (s->p[BS_CU_ATTEND_BIDIRECTIONAL].i) {
        j.window = window ? window->dim[1] : 1;
        j.low = max(0, j.cache_length - j.window);
        j.last = j.cache_length + (bs_cu_segment_first(t, keys, segment + 1) - first_key) - 1;
    } else {
        j.window = window ? window->dim[1] : j.position + 1;
        j.low = max(0, j.position - j.window + 1);
        j.last = j.position;
    }
    const int32_t element = head / (heads / s->p[BS_CU_ATTEND_KV_HEADS].i) * j.n;
    j.k = bs_cu_attend_side_of(t, k, window, first_key, segment, element);
    j.v = bs_cu_attend_side_of(t, bs_cu_in(t, s, 2), window ? bs_cu_in(t, s, 4) : NULL, first_key, segment,
                               element);
    j.scale = s->p[BS_CU_ATTEND_SCALE].f;
    j.slope = s->p[BS_CU_ATTEND_ALIBI].i ? exp2f(-8.0f * (float)(head + 1) / (float)heads) : 0.0f;
    bs_cu_attend_added(t, s, head, first_key, &j);
    return j;
}

__device__ __forceinline__ const bs_cu_attend_rows &bs_cu_attend_rows_at(const bs_cu_attend_job &j,
                                                                         const bs_cu_attend_side &side,
                                                                         int32_t position)
{
    return position >= j.cache_length ? side.fresh : side.ring;
}

__device__ __forceinline__ const uint8_t *bs_cu_attend_at(const bs_cu_attend_job &j, const bs_cu_attend_side &side,
                                                          int32_t position)
{
    const bs_cu_attend_rows &rows = bs_cu_attend_rows_at(j, side, position);
    return rows.data + (position >= j.cache_length ? position - j.cache_length : position % j.window) * rows.bytes;
}

__device__ __forceinline__ bool bs_cu_attend_quads(const uint8_t *data, int32_t dtype, int32_t step)
{
    return step == 1 && bs_cu_aligned(data, bs_cu_bytes(dtype), 0);
}

/* Four partial sums, each added up in the same order whether elements are read by four or singly. */
__device__ inline float bs_cu_attend_dot(const bs_cu_attend_job &j, const uint8_t *k, int32_t type, int32_t step)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int32_t i = 0;
    if (bs_cu_attend_quads(j.q, j.q_type, j.q_step) && bs_cu_attend_quads(k, type, step))
#pragma unroll 2
        for (; i + 4 <= j.n; i += 4) {
            const float4 a = bs_cu_get_quad(j.q, j.q_type, i), b = bs_cu_get_quad(k, type, i);
            sum.x = fmaf(a.x, b.x, sum.x);
            sum.y = fmaf(a.y, b.y, sum.y);
            sum.z = fmaf(a.z, b.z, sum.z);
            sum.w = fmaf(a.w, b.w, sum.w);
        }
#pragma unroll 1
    for (; i < j.n; i++) {
        const float product_a = bs_cu_get(j.q, j.q_type, (int64_t)i * j.q_step),
                    product_b = bs_cu_get(k, type, (int64_t)i * step);
        if ((i & 3) == 0)
            sum.x = fmaf(product_a, product_b, sum.x);
        else if ((i & 3) == 1)
            sum.y = fmaf(product_a, product_b, sum.y);
        else if ((i & 3) == 2)
            sum.z = fmaf(product_a, product_b, sum.z);
        else
            sum.w = fmaf(product_a, product_b, sum.w);
    }
    return (sum.x + sum.z) + (sum.y + sum.w);
}

/* The score of a key with its bias or mask: of a hidden key, whatever it holds, -infinity. */
__device__ inline float bs_cu_attend_add(const bs_cu_attend_job &j, float score, int32_t position)
{
    const uint8_t *at = j.added + (int64_t)position * j.added_bytes;
    if (j.added_type == BS_I32)
        return *reinterpret_cast<const int32_t *>(at) != 0 ? score : -INFINITY;
    const float added = bs_cu_get(at, j.added_type, 0);
    return added == -INFINITY ? added : score + added;
}

/* One warp on 32 positions from `first`: their largest score, the sum of the weights e^(score - top), and elements
 * from + 32 i + lane of the weighted values. */
__device__ inline void bs_cu_attend_block(const bs_cu_attend_job &j, int32_t first, int32_t from, float *partial)
{
    const int32_t lane = bs_cu_lane(), position = first + lane, begin = max(j.low - first, 0),
                  end = min(j.last - first, 31);
    const bool attends = lane >= begin && lane <= end;
    float score = -INFINITY, weight = 0.0f, value[BS_CU_ATTEND_LANES] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned long long at = 0;
    if (attends) {
        const bs_cu_attend_rows &k = bs_cu_attend_rows_at(j, j.k, position);
        score = bs_cu_attend_dot(j, bs_cu_attend_at(j, j.k, position), k.type, k.step);
        score = fmaf(score, j.scale, -j.slope * fabsf((float)(j.position - position)));
        if (j.added)
            score = bs_cu_attend_add(j, score, position);
        at = (unsigned long long)reinterpret_cast<uintptr_t>(bs_cu_attend_at(j, j.v, position));
    }
    float top = score;
    for (int32_t d = 16; d > 0; d /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    if (attends && !(j.added && score == -INFINITY))
        weight = expf(score - top);
    const float sum = bs_cu_lanes_sum(weight);
#pragma unroll 2
    for (int32_t p = begin; p <= end; p++) {
        const float w = __shfl_sync(0xffffffffu, weight, p);
        const uint8_t *v = bs_cu_at<const uint8_t>(__shfl_sync(0xffffffffu, at, p));
        const bs_cu_attend_rows &rows = bs_cu_attend_rows_at(j, j.v, first + p);
        if (w == 0.0f && j.added) /* hidden: its value may be anything */
            continue;
#pragma unroll
        for (int32_t i = 0; i < BS_CU_ATTEND_LANES; i++)
            if (from + 32 * i + lane < j.n)
                value[i] = fmaf(w, bs_cu_get(v, rows.type, (int64_t)(from + 32 * i + lane) * rows.step), value[i]);
    }
#pragma unroll
    for (int32_t i = 0; i < BS_CU_ATTEND_LANES; i++)
        partial[32 * i + lane] = value[i];
    if (lane == 0) {
        partial[BS_CU_ATTEND_ELEMENTS] = top;
        partial[BS_CU_ATTEND_ELEMENTS + 1] = sum;
    }
}

/* A thread's result over the positions so far: the largest score, the sum, and up to two elements of the values. */
struct bs_cu_attend_state {
    float top, sum, value[2];
    bool any;
};

__device__ __forceinline__ void bs_cu_attend_merge(bs_cu_attend_state *state, const float *partial)
{
    if (partial[BS_CU_ATTEND_ELEMENTS] == -INFINITY && partial[BS_CU_ATTEND_ELEMENTS + 1] == 0.0f)
        return; /* all hidden */
    const float top = fmaxf(state->top, partial[BS_CU_ATTEND_ELEMENTS]);
    const float before = state->any ? expf(state->top - top) : 0.0f,
                now = state->any ? expf(partial[BS_CU_ATTEND_ELEMENTS] - top) : 1.0f;
    state->sum = fmaf(state->sum, before, partial[BS_CU_ATTEND_ELEMENTS + 1] * now);
    for (int32_t i = 0; i < 2; i++)
        if ((int32_t)(threadIdx.x + i * blockDim.x) < BS_CU_ATTEND_ELEMENTS)
            state->value[i] = fmaf(state->value[i], before, partial[threadIdx.x + i * blockDim.x] * now);
    state->top = top;
    state->any = true;
}

/* Elements from .. from + 128 of one row and head. */
__device__ inline void bs_cu_attend(const bs_cu_tile &t, const bs_cu_attend_job &j, int32_t from)
{
    float *partial = reinterpret_cast<float *>(t.workspace);
    const int32_t warp = bs_cu_warp(), warps = bs_cu_warps(), last = j.last >= j.low ? j.last / 32 : -1;
    bs_cu_attend_state state = {-INFINITY, 0.0f, {0.0f, 0.0f}, false};
    for (int32_t block = j.low / 32; block <= last; block += warps) {
        if (block + warp <= last)
            bs_cu_attend_block(j, (block + warp) * 32, from, partial + warp * BS_CU_ATTEND_PARTIAL);
        __syncthreads();
        for (int32_t k = 0; k < warps && block + k <= last; k++)
            bs_cu_attend_merge(&state, partial + k * BS_CU_ATTEND_PARTIAL);
        __syncthreads();
    }
    for (int32_t i = 0; i < 2; i++) {
        const int32_t element = (int32_t)(threadIdx.x + i * blockDim.x);
        if (element < BS_CU_ATTEND_ELEMENTS && from + element < j.n)
            bs_cu_put(j.out, j.out_type, (int64_t)(from + element) * j.out_step,
                      state.any ? state.value[i] / state.sum : 0.0f);
    }
}

__device__ inline void bs_cu_attention_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    /* in shared memory: registers are needed for the sums */
    bs_cu_attend_job *job = reinterpret_cast<bs_cu_attend_job *>(t.workspace + BS_CU_WORKSPACE) - 1;
    for (int32_t r = w.row; r < w.end; r++)
        for (int32_t head = w.part; head < s->p[BS_CU_ATTEND_HEADS].i; head += w.parts) {
            if (threadIdx.x == 0)
                *job = bs_cu_attend_job_of(t, s, r, head);
            __syncthreads();
            for (int32_t from = 0; from < job->n; from += BS_CU_ATTEND_ELEMENTS)
                bs_cu_attend(t, *job, from);
            __syncthreads();
        }
}

#endif
/* ==== end src/cuda/op_attention.cuh =========================================================== */
/* ==== begin src/cuda/op_binary.cuh ============================================================ */
/* op_binary.cuh - add, sub, mul, binary, compare, where: operands may be broadcast.
 * Relies on beside.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_BINARY
#define BS_CUDA_OP_BINARY

/* ==== begin src/cuda/beside.cuh =============================================================== */
/* beside.cuh - operands of several shapes beside a result, as broadcast.h lays them: the host's word for it, and the
 * view that a kernel opens by that word.
 * The word follows from the graph, not from this run's extents: a clipped cell may be 1 high too. Relies on walk.cuh
 * and ops/broadcast.h. Must never touch data. */
#ifndef BS_CUDA_BESIDE
#define BS_CUDA_BESIDE

/* #include "cuda/walk.cuh" */
/* ==== begin src/ops/broadcast.h =============================================================== */
/* ops/broadcast.h - operands of several shapes beside each other, element by element: what shape they give, and how the
 * elements of each lie beside those of the result.
 *
 * As in NumPy: fewer dimensions are the last ones of the result's, and a dimension that is 1 where the result's is not
 * is repeated. But one dimension beside an image of three is its channels. Relies on common.h and span.h. Must never
 * touch data. */
#ifndef BS_OPS_BROADCAST_H
#define BS_OPS_BROADCAST_H

/* ==== begin src/ops/common.h ================================================================== */
/* ops/common.h - what the shape, halo and cost rules of several ops share.
 * Owns the wording of refusals, and what holds in a patch domain. Relies on graph/op.h. Must never touch data. */
#ifndef BS_OPS_COMMON_H
#define BS_OPS_COMMON_H

/* #include "ops/list.h" */
/* #include "ops/table.h" */

/* Entries of an op's table of fields: of a float; of integers within low .. high, or of any value. */
#define BS_FLOAT(field) {field, BS_FIELD_FLOAT, 0, 0}
#define BS_INT(field) {field, BS_FIELD_INT, 0, 0}
#define BS_INT_OF(field, low, high) {field, BS_FIELD_INT, low, high}
/* One of BS_<list>_LIST; and one that a rule of its own checks. */
#define BS_FIELD_OF(field, list) {field, BS_FIELD_##list, 0, BS_##list##_COUNT - 1}
#define BS_NAMED(field, list) {field, BS_FIELD_##list, 0, 0}
#define BS_PARAMS(type, array) \
    .params_bytes = sizeof(type), .fields = array, .n_fields = (uint8_t)(sizeof(array) / sizeof *(array))

/* The name of an op that goes by elements or by lines, and that it does; whether chains of a device have its function
 * its line in ops/list.h says. */
#define BS_BY_ELEMENTS(op) \
    .name = #op, .memory.elements = true, .memory.chained = BS_OP_DEVICE_##op == BS_DEVICE_CHAIN
#define BS_BY_LINES(op) .name = #op, .memory.lines = BS_OP_DEVICE_##op == BS_DEVICE_LINES

/* Every refusal reads: op "node": text (bs_graph_fail). Returns false always. */
#define bs_infer_fail(infer, status, ...) bs_graph_fail((infer)->graph, status, __VA_ARGS__)

/* Records what is wrong with the data of a run. Returns BS_ERROR_DATA always. */
bs_status bs_call_fail(const bs_call *call, const char *format, ...) BS_PRINTF(2, 3);

bool bs_infer_dtype(bs_infer *infer, int32_t index, bs_dtype dtype);
/* The type is one of these, bits 1 << bs_dtype; `expected` names them in the refusal. */
bool bs_infer_dtypes(bs_infer *infer, int32_t index, uint32_t dtypes, const char *expected);
/* It is f32 or i32. */
bool bs_infer_number(bs_infer *infer, int32_t index);
/* Refuses operand `index`, whose dimension d is not what operand 0 has. */
bool bs_infer_dim_differs(bs_infer *infer, int32_t index, int32_t d);
/* Dimension d of operand `index` must be `expected`. */
bool bs_infer_dim_is(bs_infer *infer, int32_t index, int32_t d, bs_dim_id expected);
/* out[0] gets this rank, if a value can have it. */
bool bs_infer_rank_out(bs_infer *infer, int32_t rank);
bool bs_infer_rank(bs_infer *infer, int32_t index, int32_t low, int32_t high);
/* f32 of that rank; and lines of f32, of which a kernel sees the whole. */
bool bs_infer_f32(bs_infer *infer, int32_t index, int32_t low, int32_t high);
bool bs_infer_lines(bs_infer *infer, int32_t index);
/* Operand `index` must have as many dimensions as operand 0. */
bool bs_infer_same_rank(bs_infer *infer, int32_t index);
/* Operand `index` has type, rank and dimensions of operand 0; dimension `but` may differ. */
bool bs_infer_like(bs_infer *infer, int32_t index, int32_t but);
/* An f32 image [C,H,W] with a constant number of channels. */
bool bs_infer_image(bs_infer *infer, int32_t index, int32_t *channels);
/* Dimension `axis` of the operand as a constant; `what` names it in the refusal. */
bool bs_infer_const(bs_infer *infer, int32_t index, int32_t axis, const char *what, int32_t *n);
/* Turns an axis that counts from the end (negative) into a positive one. */
bool bs_infer_axis(bs_infer *infer, int32_t axis, int32_t *positive);
/* The same for kernels, whose axes are already checked. */
static inline int32_t bs_axis_of(int32_t axis, int32_t rank) { return axis < 0 ? axis + rank : axis; }
/* `padding` must be a bs_padding; `pad` 0 .. most with BS_PAD_EXPLICIT, else 0, as `sides`, all of them in one word. */
bool bs_infer_padding(bs_infer *infer, int32_t padding, int32_t pad, int32_t sides, int32_t most);
/* Before op set 3 there was only `pad`. */
void bs_upgrade_padding(int32_t opset, int32_t pad, int32_t *padding);
/* Operand `index` has one element, whatever its rank. */
bool bs_infer_single(bs_infer *infer, int32_t index);
/* The operand is a root value. */
bool bs_infer_root(bs_infer *infer, int32_t index);
/* out[0] has the shape of operand 0 behind a dimension of rows, and is a root value. */
bool bs_infer_stacked(bs_infer *infer, bs_dim_id rows);
/* out[0].dims[axis] = floor((d mul + add) / div) of dimension `axis` of operand 0. */
bool bs_infer_extent(bs_infer *infer, int32_t axis, int64_t mul, int64_t add, int64_t div);
/* The same of dimensions 1 and 2. */
bool bs_infer_frame(bs_infer *infer, int64_t mul, int64_t add_h, int64_t add_w, int64_t div);

/* A new dimension, named as the node, whose extent the op says when it has run (bs_call.extent): 0 .. maximum. One for
 * each node. All operands must be root values. */
bs_dim_id bs_infer_data_dim(bs_infer *infer, int64_t maximum);
/* The same of an op that finds `most` at the most, whose descriptor may give a smaller maximum (0: none). */
bs_dim_id bs_infer_found_dim(bs_infer *infer, int32_t given, int64_t most);
/* Refuses a dimension of operand `index` that comes from data, where it must be known before a run. */
bool bs_infer_bound_dim(bs_infer *infer, int32_t index, int32_t d);
/* A dimension, whose maximum allows it, is `least` or more in every run: other runs are refused before they begin, or
 * end when it is known. */
bool bs_infer_least(bs_infer *infer, bs_dim_id d, int64_t least);

/* Whether a value is an image of a patch domain: its dims are those of the frame, a kernel sees one cell and its
 * halo. */
bool bs_value_in_patches(const bs_graph *graph, const bs_value_info *value);
/* Refuses operands that are images of a patch domain, when a kernel would have to see all pixels at once. */
bool bs_infer_whole(bs_infer *infer, int32_t index);
/* Refuses to make an image out of something else in a patch domain: it would have no place in the frame. */
bool bs_infer_no_new_image(bs_infer *infer);
/* The frame of out[0] is num/den of operand 0's; a cell must stay a whole number of pixels. */
bool bs_infer_scale(bs_infer *infer, int32_t num, int32_t den);
/* Refuses images of patches that are of frames of different scale. */
bool bs_infer_same_scale(bs_infer *infer, const bs_value_info *a, const bs_value_info *b);
/* Windows of `kernel` (dilated) over both axes, down and across, of a frame that begins `before` ahead of its first
 * sample and ends `after` behind its last one. Sets extents and scale. In a patch domain padding must keep output cells
 * where their input cells are: floor(H/stride) <= H' <= ceil(H/stride); and one scale is for both axes. */
typedef struct bs_window_axis {
    int32_t kernel, stride, dilation, before, after;
} bs_window_axis;
typedef struct bs_window {
    bs_window_axis axis[2];
} bs_window;
/* Samples between the first tap of a window and its last; of fields that nobody has checked any number. */
BS_WRAPS static inline int32_t bs_window_reach(const bs_window_axis *a)
{
    return (int32_t)((uint32_t)a->dilation * ((uint32_t)a->kernel - 1u));
}
/* The windows that a descriptor ends with, from its stride_h on. `stride` 0: as large as the kernel. */
bs_window bs_window_of(const void *fields, int32_t kernel_h, int32_t kernel_w, int32_t stride, int32_t dilation,
                       int32_t pad);
#define BS_WINDOW_OF(desc, type, ...) bs_window_of((const char *)(desc) + offsetof(type, stride_h), __VA_ARGS__)
/* What conv2d and pool2d have at the end of their descriptors: their tables of fields, and the sides in one word. */
#define BS_WINDOW_MOST (1 << 15)
#define BS_WINDOW_FIELDS                                                                                   \
    BS_INT_OF("stride_h", 0, BS_WINDOW_MOST), BS_INT_OF("stride_w", 0, BS_WINDOW_MOST),                    \
        BS_INT_OF("dilation_h", 0, BS_WINDOW_MOST), BS_INT_OF("dilation_w", 0, BS_WINDOW_MOST),            \
        BS_INT_OF("pad_top", 0, BS_WINDOW_MOST), BS_INT_OF("pad_left", 0, BS_WINDOW_MOST),                 \
        BS_INT_OF("pad_bottom", 0, BS_WINDOW_MOST), BS_INT_OF("pad_right", 0, BS_WINDOW_MOST)
#define BS_WINDOW_SIDES(desc) ((desc)->pad_top | (desc)->pad_left | (desc)->pad_bottom | (desc)->pad_right)
bool bs_infer_window(bs_infer *infer, const bs_window *window);
int32_t bs_window_halo(const bs_window *window, int32_t out_margin);

/* Elements of one row at maximum extents (a cell, in a patch domain); and the same for the pixels of an image. */
double bs_value_work(const bs_graph *graph, int32_t value);
double bs_value_pixels(const bs_graph *graph, int32_t value);

/* A weight of an op, for its table of specs. */
bs_weight_spec bs_weight_of(const char *suffix, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
bs_weight_spec bs_weight_vector(const char *suffix, int64_t length);

#if defined(BS_NO_MESSAGES)
#define bs_call_fail(call, ...) BS_TOLD((bs_call_fail)(call, __VA_ARGS__), BS_ERROR_DATA)
#define bs_infer_dtypes(infer, index, dtypes, expected) (bs_infer_dtypes)(infer, index, dtypes, BS_TEXT(expected))
#define bs_infer_const(infer, index, axis, what, n) (bs_infer_const)(infer, index, axis, BS_TEXT(what), n)
#endif

#endif
/* ==== end src/ops/common.h ==================================================================== */
/* ==== begin src/ops/span.h ==================================================================== */
/* ops/span.h - one loop nest for every op that goes element by element over strided operands.
 * Owns the walk: it sorts axes by the output's strides, merges those that are contiguous in every operand, and calls
 * `inner` on the innermost. Relies on graph/op.h. Must never know what an element means. */
#ifndef BS_OPS_SPAN_H
#define BS_OPS_SPAN_H

/* #include "ops/table.h" */

#define BS_SPAN_OPERANDS 5
#define BS_SPAN_AXES     (BS_MAX_AXES + 1) /* axis 0 is the row, axis d + 1 dimension d */

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
/* The box, with the output already added as operand 0. */
void bs_span_open(bs_span *span, const bs_operand *out, int32_t rows);
/* The box of a call's output, with that output and operand 0, which has its shape, already added. */
void bs_span_call(bs_span *span, const bs_call *call);
/* As bs_span_open, for ops on whole lines: visits every index but those of dimension `axis`, of which it visits only
 * 0. */
void bs_span_open_lines(bs_span *span, const bs_operand *out, int32_t rows, int32_t axis);
/* Whether that would visit one line, which begins where the output does; where it pays to know. */
static inline bool bs_span_is_line(const bs_operand *out, int32_t rows)
{
    return BS_DENSE_PAYS && rows == 1 && (out->rank == 1 || (out->rank == 2 && out->dim[0] == 1));
}
/* Adds an operand of the output's rank. Its element c belongs to coordinate c + shift[d] of dimension d (shift may be
 * NULL). */
void bs_span_add(bs_span *span, const bs_operand *operand, const int32_t *shift);
/* The same of any rank, by its strides along the dimensions of the output: 0 where these do not move it. */
void bs_span_add_strides(bs_span *span, const bs_operand *operand, const ptrdiff_t *stride, const int32_t *shift);
/* Adds an array of 4-byte elements, one for each index of dimension `axis`. */
void bs_span_add_array(bs_span *span, const void *array, int32_t axis);
/* Walks. The span cannot be used again. */
void bs_span_run(bs_span *span, bs_span_inner inner, const void *context);

/* Before a loop over elements: each is made of what stands in its own place. So a result may be made over an operand
 * (a step of a tail), and the compiler need not ask whether they overlap, or go one by one where they do. */
#if defined(__GNUC__) && !defined(__clang__)
#define BS_EACH_BY_ITSELF _Pragma("GCC ivdep")
#else
#define BS_EACH_BY_ITSELF
#endif

/* Whether the first operands of an inner loop are dense arrays of f32, where that pays. */
static inline bool bs_span_dense_f32(const ptrdiff_t *step, int32_t operands)
{
    bool dense = BS_DENSE_PAYS;
    for (int32_t i = 0; i < operands && dense; i++)
        dense = step[i] == 4;
    return dense;
}

/* Adds `to`, then `from` with its shift, to a box, and copies the elements, of 1, 2 or 4 bytes. They do not overlap. */
void bs_span_copy(bs_span *span, const bs_call *call, const bs_operand *to, const bs_operand *from,
                  const int32_t *shift);

#endif
/* ==== end src/ops/span.h ====================================================================== */

/* How many dimensions of the result come before the first one of an operand. */
static inline int32_t bs_broadcast_shift(int32_t rank, int32_t operand_rank)
{
    return rank == 3 && operand_rank == 1 ? 0 : rank - operand_rank;
}

/* Dimension d of the result in an operand: its number there, or less than 0. */
static inline int32_t bs_broadcast_dim(int32_t rank, const bs_value_info *operand, int32_t d)
{
    const int32_t at = d - bs_broadcast_shift(rank, operand->rank);
    return at < operand->rank ? at : -1;
}

/* The dimension of an operand in which dimension d of the result moves it; -1: none, as it has not got it, or is 1
 * there and the result is not. By the graph's extents: a clipped cell may be 1 high too. */
static inline int32_t bs_broadcast_axis(const bs_value_info *result, const bs_value_info *operand, int32_t d)
{
    const int32_t at = bs_broadcast_dim(result->rank, operand, d);
    return at < 0 || operand->dims[at] != result->dims[d] ? -1 : at;
}

/* Mask of the dimensions of the result that do not move an operand. */
static inline uint32_t bs_broadcast_mask(const bs_value_info *result, const bs_value_info *operand)
{
    uint32_t mask = 0;
    for (int32_t d = 0; d < result->rank; d++)
        if (bs_broadcast_axis(result, operand, d) < 0)
            mask |= 1u << d;
    return mask;
}

/* Sets rank, dimensions and scale of out[0] to what all operands give, or refuses. */
bool bs_infer_broadcast(bs_infer *infer);

/* Adds operand `index` of a call to a walk over out[0]. */
void bs_broadcast_add(bs_span *span, const bs_call *call, int32_t index);

#endif
/* ==== end src/ops/broadcast.h ================================================================= */

/* bs_broadcast_mask, and from bit 8 on bs_broadcast_shift. */
static inline int32_t bs_cu_how_beside(const bs_value_info *result, const bs_value_info *operand)
{
    return (int32_t)bs_broadcast_mask(result, operand) | bs_broadcast_shift(result->rank, operand->rank) << 8;
}

/* Operand i of row r, with the strides of the result's dimensions. */
__device__ __forceinline__ bs_cu_view bs_cu_open_how(const bs_cu_tile &t, const bs_device_step *s, int32_t i, int32_t r,
                                                     int32_t how)
{
    bs_cu_view v = bs_cu_open_in(t, s, i, r);
#pragma unroll
    for (int32_t k = 1; k < BS_MAX_RANK; k++) {
        if (k > how >> 8)
            break;
        v.stride[3] = v.stride[2];
        v.stride[2] = v.stride[1];
        v.stride[1] = v.stride[0];
    }
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        v.stride[d] = how >> d & 1 ? 0 : v.stride[d];
    return v;
}

#endif
/* ==== end src/cuda/beside.cuh ================================================================= */
/* #include "cuda/kernels.cuh" */
/* ==== begin src/ops/maths.h =================================================================== */
/* ops/maths.h - element-wise functions of one or two operands: what they make of one value each, for plain kernels and
 * a device. Relies on base/base.h. Must never round other than as written: a device gives the CPU's bytes where its
 * libm does. */
#ifndef BS_OPS_MATHS_H
#define BS_OPS_MATHS_H

/* #include "base/base.h" */

/* NaN has no sign, so 0; ties go to even. BS_UNARY_NOT is of i32 alone. */
static inline BS_BOTH float bs_unary_apply(bs_unary_kind kind, float x)
{
    switch (kind) {
    case BS_UNARY_ABS: return fabsf(x);
    case BS_UNARY_NEG: return -x;
    case BS_UNARY_SIGN: return (float)((x > 0.0f) - (x < 0.0f));
    case BS_UNARY_FLOOR: return floorf(x);
    case BS_UNARY_CEIL: return ceilf(x);
    case BS_UNARY_ROUND: return rintf(x);
    case BS_UNARY_SQRT: return sqrtf(x);
    case BS_UNARY_RSQRT: return 1.0f / sqrtf(x);
    case BS_UNARY_RECIPROCAL: return 1.0f / x;
    case BS_UNARY_EXP: return expf(x);
    case BS_UNARY_LOG: return logf(x);
    case BS_UNARY_ERF: return erff(x);
    case BS_UNARY_SIN: return sinf(x);
    case BS_UNARY_COS: return cosf(x);
    case BS_UNARY_TAN: return tanf(x);
    case BS_UNARY_ASIN: return asinf(x);
    case BS_UNARY_ACOS: return acosf(x);
    case BS_UNARY_ATAN: return atanf(x);
    case BS_UNARY_NOT:
    case BS_UNARY_COUNT: break;
    }
    return x;
}

/* The same of i32, whose bits are given, for the kinds that take it: these wrap. */
BS_WRAPS static inline BS_BOTH uint32_t bs_unary_apply_i32(bs_unary_kind kind, uint32_t x)
{
    const bool negative = x >> 31 != 0;
    if (kind == BS_UNARY_SIGN)
        return negative ? UINT32_MAX : x != 0;
    if (kind == BS_UNARY_NOT)
        return x == 0;
    return kind == BS_UNARY_NEG || negative ? 0u - x : x;
}

static inline BS_BOTH bool bs_unary_takes_i32(bs_unary_kind kind)
{
    return kind == BS_UNARY_ABS || kind == BS_UNARY_NEG || kind == BS_UNARY_SIGN || kind == BS_UNARY_NOT;
}

/* Of two operands. Minimum and maximum are NaN where either operand is. */
static inline BS_BOTH float bs_binary_apply(bs_binary_kind kind, float a, float b)
{
    switch (kind) {
    case BS_BINARY_DIV: return a / b;
    case BS_BINARY_MIN: return a <= b || a != a ? a : b;
    case BS_BINARY_MAX: return a >= b || a != a ? a : b;
    case BS_BINARY_POW: return powf(a, b);
    case BS_BINARY_COUNT: break;
    }
    return a;
}

static inline BS_BOTH int32_t bs_binary_apply_i32(bs_binary_kind kind, int32_t a, int32_t b)
{
    return (kind == BS_BINARY_MIN) == (a < b) ? a : b;
}

/* Truth values of two operands: 0 or 1. */
static inline BS_BOTH int32_t bs_compare_apply(bs_compare_kind kind, float a, float b)
{
    switch (kind) {
    case BS_COMPARE_NOT_EQUAL: return a != b;
    case BS_COMPARE_LESS: return a < b;
    case BS_COMPARE_LESS_EQUAL: return a <= b;
    case BS_COMPARE_GREATER: return a > b;
    case BS_COMPARE_GREATER_EQUAL: return a >= b;
    case BS_COMPARE_EQUAL:
    case BS_COMPARE_AND:
    case BS_COMPARE_OR:
    case BS_COMPARE_XOR:
    case BS_COMPARE_COUNT: break;
    }
    return a == b;
}

static inline BS_BOTH int32_t bs_compare_apply_i32(bs_compare_kind kind, int32_t a, int32_t b)
{
    switch (kind) {
    case BS_COMPARE_NOT_EQUAL: return a != b;
    case BS_COMPARE_LESS: return a < b;
    case BS_COMPARE_LESS_EQUAL: return a <= b;
    case BS_COMPARE_GREATER: return a > b;
    case BS_COMPARE_GREATER_EQUAL: return a >= b;
    case BS_COMPARE_AND: return a != 0 && b != 0;
    case BS_COMPARE_OR: return a != 0 || b != 0;
    case BS_COMPARE_XOR: return (a != 0) != (b != 0);
    case BS_COMPARE_EQUAL:
    case BS_COMPARE_COUNT: break;
    }
    return a == b;
}

#endif
/* ==== end src/ops/maths.h ===================================================================== */

/* Parameters of ops whose operands are broadcast, in p: of each operand bs_cu_how_beside; then their descriptor's
 * words. */
enum { BS_CU_BROADCAST_OPERANDS, BS_CU_BROADCAST_KIND = 3 };

static void bs_cu_broadcast_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t *in = bs_node_in(n->graph, n->node);
    const bs_value_info *result = bs_value_get(n->graph, n->node->first_out);
    for (int32_t i = 0; i < bs_node_own_in(n->graph, n->node); i++)
        s->p[BS_CU_BROADCAST_OPERANDS + i].i = bs_cu_how_beside(result, bs_value_get(n->graph, in[i]));
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_add_describe = bs_cu_broadcast_describe,
                                bs_cu_sub_describe = bs_cu_broadcast_describe,
                                bs_cu_mul_describe = bs_cu_broadcast_describe,
                                bs_cu_where_describe = bs_cu_broadcast_describe;

static void bs_cu_binary_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BROADCAST_KIND] = s->p[0]; /* where the words of a descriptor are put */
    s->p[0].i = 0;
    bs_cu_broadcast_describe(n, s);
}

static constexpr bs_cu_describe bs_cu_compare_describe = bs_cu_binary_describe;

/* Operand i of row r, with the strides of the result's dimensions. */
__device__ __forceinline__ bs_cu_view bs_cu_open_beside(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                        int32_t r)
{
    return bs_cu_open_how(t, s, i, r, s->p[BS_CU_BROADCAST_OPERANDS + i].i);
}

/* F: uint32_t of(words of the operands, types of the result and the operands). Words are i32, or floats as they are
 * stored. */
template <int N, typename F> struct bs_cu_beside {
    uint8_t *data[N];
    int32_t type[N];
    bool same[N]; /* along a line */
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[N]) const
    {
        uint32_t v[N - 1];
#pragma unroll
        for (int32_t i = 1; i < N; i++)
            v[i - 1] = bs_cu_load_one(data[i], bs_cu_bytes(type[i]), at[i]);
        bs_cu_store_one(data[0], bs_cu_bytes(type[0]), at[0], f(v, type));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[N]) const
    {
        uint32_t v[N][4];
#pragma unroll
        for (int32_t i = 1; i < N; i++) {
            if (same[i])
                v[i][0] = v[i][1] = v[i][2] = v[i][3] = bs_cu_load_one(data[i], bs_cu_bytes(type[i]), at[i]);
            else
                bs_cu_load_four(data[i], bs_cu_bytes(type[i]), at[i], v[i]);
        }
#pragma unroll
        for (int32_t k = 0; k < 4; k++) {
            uint32_t words[N - 1];
#pragma unroll
            for (int32_t i = 1; i < N; i++)
                words[i - 1] = v[i][k];
            v[0][k] = f(words, type);
        }
        bs_cu_store_four(data[0], bs_cu_bytes(type[0]), at[0], v[0]);
    }
};

/* Whether lines are whole fours, in operands that move along them. */
template <int N> __device__ __forceinline__ bool bs_cu_beside_fours(const bs_cu_walk<N> &k)
{
    bool fours = k.count[3] % 4 == 0;
#pragma unroll
    for (int32_t i = 0; i < N; i++)
        fours = fours && ((i > 0 && k.step[i][3] == 0) ||
                          (k.step[i][3] == 1 && ((k.step[i][0] | k.step[i][1] | k.step[i][2]) & 3) == 0 &&
                           bs_cu_aligned(k.begin[i], k.bytes[i], 0)));
    return fours;
}

template <int N, typename F>
__device__ __forceinline__ void bs_cu_beside_walk(const bs_cu_view (&v)[N], const bs_cu_deal &d, const F &f)
{
    const bs_cu_walk<N> k = bs_cu_walk_over<N>(v);
    bs_cu_beside<N, F> each = {{}, {}, {}, f};
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        each.data[i] = k.begin[i];
        each.type[i] = v[i].dtype;
        each.same[i] = k.step[i][3] == 0;
    }
    bs_cu_walk_run(k, bs_cu_beside_fours(k), d, each);
}

/* Two operands. */
template <typename F>
__device__ __forceinline__ void bs_cu_beside_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                 const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_beside_walk<3>({y, bs_cu_open_beside(t, s, 0, r), bs_cu_open_beside(t, s, 1, r)}, d, f);
    }
}

/* F takes two floats, or two i32 as unsigned words: i32 wraps, and signed overflow is undefined. */
template <typename F>
__device__ __forceinline__ void bs_cu_sum_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                              const F &f)
{
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        return type[0] == BS_I32 ? f(v[0], v[1])
                                 : bs_cu_raw(f(bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2])), type[0]);
    });
}

__device__ __forceinline__ float bs_cu_add_chain(const bs_cu_element &e) { return e.a + e.b; }
__device__ __forceinline__ float bs_cu_sub_chain(const bs_cu_element &e) { return e.a - e.b; }
__device__ __forceinline__ float bs_cu_mul_chain(const bs_cu_element &e) { return e.a * e.b; }

__device__ inline void bs_cu_add_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a + b; });
}

__device__ inline void bs_cu_sub_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a - b; });
}

__device__ inline void bs_cu_mul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_sum_run(t, s, w, [](auto a, auto b) { return a * b; });
}

__device__ __forceinline__ float bs_cu_binary_chain(const bs_cu_element &e)
{
    return bs_binary_apply((bs_binary_kind)e.op.p[0].i, e.a, e.b);
}

__device__ inline void bs_cu_binary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_binary_kind kind = (bs_binary_kind)s->p[BS_CU_BROADCAST_KIND].i;
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        if (type[0] == BS_I32)
            return (uint32_t)bs_binary_apply_i32(kind, (int32_t)v[0], (int32_t)v[1]);
        const float of = bs_binary_apply(kind, bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2]));
        return bs_cu_raw(of, type[0]);
    });
}

__device__ inline void bs_cu_compare_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_compare_kind kind = (bs_compare_kind)s->p[BS_CU_BROADCAST_KIND].i;
    bs_cu_beside_run(t, s, w, [=](const uint32_t (&v)[2], const int32_t (&type)[3]) {
        return (uint32_t)(type[1] == BS_I32
                              ? bs_compare_apply_i32(kind, (int32_t)v[0], (int32_t)v[1])
                              : bs_compare_apply(kind, bs_cu_real(v[0], type[1]), bs_cu_real(v[1], type[2])));
    });
}

__device__ inline void bs_cu_where_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_beside_walk<4>({y, bs_cu_open_beside(t, s, 0, r), bs_cu_open_beside(t, s, 1, r),
                              bs_cu_open_beside(t, s, 2, r)},
                             d, [](const uint32_t (&v)[3], const int32_t (&type)[4]) {
                                 const uint32_t word = v[0] ? v[1] : v[2];
                                 const int32_t from = v[0] ? type[2] : type[3];
                                 return type[0] == BS_I32 ? word : bs_cu_raw(bs_cu_real(word, from), type[0]);
                             });
    }
}

#endif
/* ==== end src/cuda/op_binary.cuh ============================================================== */
/* ==== begin src/cuda/op_chain.cuh ============================================================= */
/* op_chain.cuh - an element-wise op with a tail: several ops in one kernel, each what its own kernel does, and what one
 * gives to the next rounded as if it had been stored. So the bytes are those of one kernel after the other.
 * Convolutions and linears have no tails here: code behind their sums cost their loops 10 to 40 % (docs/cuda.md).
 * Relies on beside.cuh, ops/list.h and the files of the ops that chains have. Must never let an element depend on where
 * it stands. */
#ifndef BS_CUDA_OP_CHAIN
#define BS_CUDA_OP_CHAIN

/* #include "cuda/op_binary.cuh" */
/* ==== begin src/cuda/op_elementwise.cuh ======================================================= */
/* op_elementwise.cuh - activation, prelu, clip, affine, batch_norm.
 * Relies on walk.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_ELEMENTWISE
#define BS_CUDA_OP_ELEMENTWISE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

/* Parameters of the ops of this file, in p: their descriptors' words. */
enum { BS_CU_ACTIVATION_ACT, BS_CU_ACTIVATION_PARAM };
enum { BS_CU_CLIP_LOW, BS_CU_CLIP_HIGH };
enum { BS_CU_AFFINE_SCALE, BS_CU_AFFINE_OFFSET };
enum { BS_CU_BATCH_NORM_OFFSETS }; /* floats from the scales to the offsets */

static constexpr bs_cu_describe bs_cu_activation_describe = bs_cu_cut, bs_cu_clip_describe = bs_cu_cut,
                                bs_cu_affine_describe = bs_cu_cut, bs_cu_prelu_describe = bs_cu_cut;

static void bs_cu_batch_norm_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BATCH_NORM_OFFSETS].i = (int32_t)bs_bytes_figure(
        bs_bytes_share(n->np->prepared_bytes, 2 * sizeof(float)));
    bs_cu_cut(n, s);
}

/* ---------------------------------------------------------------------------------------- of one operand */

/* F: float of(float). */
template <typename F> struct bs_cu_map {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_put(y, y_type, at[0], f(bs_cu_get(x, x_type, at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        for (int32_t i = 0; i < 4; i++)
            v[i] = f(v[i]);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ __forceinline__ void bs_cu_map_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                              const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_map<F> each = {k.begin[1], k.begin[0], x.dtype, y.dtype, f};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

__device__ __forceinline__ float bs_cu_activation_chain(const bs_cu_element &e)
{
    return bs_act_apply((bs_act)e.op.p[0].i, e.op.p[1].f, 0.0f, e.a);
}

__device__ inline void bs_cu_activation_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_act act = (bs_act)s->p[BS_CU_ACTIVATION_ACT].i;
    const float param = s->p[BS_CU_ACTIVATION_PARAM].f;
    bs_cu_map_run(t, s, w, [=](float x) { return bs_act_apply(act, param, 0.0f, x); });
}

__device__ __forceinline__ float bs_cu_clip_chain(const bs_cu_element &e)
{
    const float above = e.a < e.op.p[0].f ? e.op.p[0].f : e.a;
    return above > e.op.p[1].f ? e.op.p[1].f : above;
}

__device__ inline void bs_cu_clip_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float low = s->p[BS_CU_CLIP_LOW].f, high = s->p[BS_CU_CLIP_HIGH].f;
    bs_cu_map_run(t, s, w, [=](float x) {
        const float above = x < low ? low : x;
        return above > high ? high : above;
    });
}

__device__ __forceinline__ float bs_cu_affine_chain(const bs_cu_element &e)
{
    return bs_cu_mul_add(e.a, e.op.p[0].f, e.op.p[1].f);
}

__device__ inline void bs_cu_affine_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float scale = s->p[BS_CU_AFFINE_SCALE].f, offset = s->p[BS_CU_AFFINE_OFFSET].f;
    bs_cu_map_run(t, s, w, [=](float x) { return bs_cu_mul_add(x, scale, offset); });
}

/* ------------------------------------------------------------------------------------ with a weight a channel */

/* at[2] is the channel. F: float of(float x, float a, float b): a, b of the channel. */
template <typename F> struct bs_cu_channelwise {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    const float *a, *b;
    F f;
    __device__ __forceinline__ void one(const int64_t (&at)[3]) const
    {
        bs_cu_put(y, y_type, at[0], f(bs_cu_get(x, x_type, at[1]), a[at[2]], b[at[2]]));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[3]) const
    {
        const float4 p = *reinterpret_cast<const float4 *>(a + at[2]), q = *reinterpret_cast<const float4 *>(b + at[2]);
        float v[4];
        bs_cu_get_four(x, x_type, at[1], v);
        v[0] = f(v[0], p.x, q.x);
        v[1] = f(v[1], p.y, q.y);
        v[2] = f(v[2], p.z, q.z);
        v[3] = f(v[3], p.w, q.w);
        bs_cu_put_four(y, y_type, at[0], v);
    }
};

template <typename F>
__device__ __forceinline__ void bs_cu_channelwise_run(const bs_cu_tile &t, const bs_device_step *s,
                                                      const bs_cu_work &w, const float *a, const float *b, const F &f)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_view channel = bs_cu_view();
        channel.dtype = BS_F32;
        channel.stride[0] = 1;
        const bs_cu_walk<3> k = bs_cu_walk_over<3>({y, x, channel});
        const bs_cu_channelwise<F> each = {k.begin[1], k.begin[0], x.dtype, y.dtype, a, b, f};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

__device__ inline void bs_cu_prelu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *slope = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    bs_cu_channelwise_run(t, s, w, slope, slope, [](float x, float a, float) { return x > 0.0f ? x : x * a; });
}

__device__ inline void bs_cu_batch_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const float *scale = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    bs_cu_channelwise_run(t, s, w, scale, scale + s->p[BS_CU_BATCH_NORM_OFFSETS].i,
                          [](float x, float a, float b) { return bs_cu_mul_add(x, a, b); });
}

#endif
/* ==== end src/cuda/op_elementwise.cuh ========================================================= */
/* ==== begin src/cuda/op_unary.cuh ============================================================= */
/* op_unary.cuh - unary: a function of one operand.
 * Relies on walk.cuh and ops/maths.h. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_UNARY
#define BS_CUDA_OP_UNARY

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */
/* #include "ops/maths.h" */

/* Parameters of the op, in p: its descriptor's words. */
enum { BS_CU_UNARY_KIND };

static constexpr bs_cu_describe bs_cu_unary_describe = bs_cu_cut;

/* i32 goes as words, the bits of a float as they are stored. */
struct bs_cu_unary {
    const uint8_t *x;
    uint8_t *y;
    int32_t x_type, y_type;
    bs_unary_kind kind;
    __device__ __forceinline__ uint32_t of(uint32_t word) const
    {
        return y_type == BS_I32 ? bs_unary_apply_i32(kind, word)
                                : bs_cu_raw(bs_unary_apply(kind, bs_cu_real(word, x_type)), y_type);
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_store_one(y, bs_cu_bytes(y_type), at[0], of(bs_cu_load_one(x, bs_cu_bytes(x_type), at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        uint32_t v[4];
        bs_cu_load_four(x, bs_cu_bytes(x_type), at[1], v);
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++)
            v[i] = of(v[i]);
        bs_cu_store_four(y, bs_cu_bytes(y_type), at[0], v);
    }
};

__device__ __forceinline__ float bs_cu_unary_chain(const bs_cu_element &e)
{
    return bs_unary_apply((bs_unary_kind)e.op.p[0].i, e.a);
}

__device__ inline void bs_cu_unary_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_unary_kind kind = (bs_unary_kind)s->p[BS_CU_UNARY_KIND].i;
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_unary each = {k.begin[1], k.begin[0], x.dtype, y.dtype, kind};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

#endif
/* ==== end src/cuda/op_unary.cuh =============================================================== */
/* #include "ops/list.h" */

enum { BS_CU_OTHERS = 1 + BS_MAX_TAIL_OTHERS }; /* operands behind operand 0 */

/* How operand 0 lies beside the result, in p. */
enum { BS_CU_CHAIN_HOW };

/* Describes one op: the node `op`, whose operand `at` is the result so far; other: of the step, -1 none. */
static void bs_cu_chain_op(const bs_graph *g, const bs_node *op, int32_t kernel, int32_t at, int32_t other,
                           bs_device_tail *to)
{
    const bs_value_info *result = bs_value_get(g, op->first_out);
    memset(to, 0, sizeof *to);
    to->kernel = kernel;
    to->at = (int16_t)at;
    to->other = (int16_t)other;
    to->how = other >= 0 ? bs_cu_how_beside(result, bs_value_get(g, bs_node_in(g, op)[1 - at])) : 0;
    for (int32_t i = 0; i < bs_op_get(op->op)->n_fields && i < 2; i++)
        memcpy(&to->p[i], static_cast<const char *>(op->params) + sizeof(char *) + 4 * i, 4);
}

/* ---------------------------------------------------------------------------------------------------- elements */

/* x is operand k.at. An op whose line in ops/list.h says CHAIN has a function bs_cu_NAME_chain beside its kernel;
 * without one it gives NaN: a planner chains none. */
__device__ inline float bs_cu_chain_apply(const bs_device_tail &k, float x, float other)
{
    const bs_cu_element e = {k.at ? other : x, k.at ? x : other, k};
    switch (k.kernel) {
#define BS_CU_CHAIN_NONE(name)
#define BS_CU_CHAIN_KERNEL(name)
#define BS_CU_CHAIN_LINES(name)
#define BS_CU_CHAIN_CHAIN(name) case BS_CU_##name: return bs_cu_##name##_chain(e);
#define BS_CU_CHAIN_CASE(name, device) BS_CU_CHAIN_##device(name)
        BS_OP_LIST(BS_CU_CHAIN_CASE)
#undef BS_CU_CHAIN_CASE
#undef BS_CU_CHAIN_CHAIN
#undef BS_CU_CHAIN_LINES
#undef BS_CU_CHAIN_KERNEL
#undef BS_CU_CHAIN_NONE
    default: return NAN;
    }
}

/* Operand 0 is the result, 1 what the first op begins with, the others theirs. */
struct bs_cu_chain {
    uint8_t *data[2 + BS_CU_OTHERS];
    int32_t type[2 + BS_CU_OTHERS], step[2 + BS_CU_OTHERS] /* along a line */, n /* of the others */;
    const bs_device_step *s;
    /* All ops over one element: x so far, `i` its place in a four. */
    __device__ __forceinline__ float all(float x, const int64_t (&at)[2 + BS_CU_OTHERS], int32_t i) const
    {
        float others[BS_CU_OTHERS];
#pragma unroll
        for (int32_t k = 0; k < BS_CU_OTHERS; k++)
            others[k] = k < n ? bs_cu_get(data[2 + k], type[2 + k], at[2 + k] + i * step[2 + k]) : 0.0f;
#pragma unroll 1
        for (int32_t k = 0; k < s->n_tail; k++) {
            const bs_device_tail &op = s->tail[k];
            const float other = op.other == 1 ? others[0] : op.other == 2 ? others[1] : others[2];
            x = bs_cu_chain_apply(op, k > 0 && s->rounded ? bs_cu_half_from(bs_cu_half_to(x)) : x, other);
        }
        return x;
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        bs_cu_put(data[0], type[0], at[0], all(bs_cu_get(data[1], type[1], at[1]), at, 0));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2 + BS_CU_OTHERS]) const
    {
        float x[4];
        bs_cu_get_four(data[1], type[1], at[1], x);
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++) { /* shifted, so that none is indexed */
            const float y = all(x[0], at, i);
            x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = y;
        }
        bs_cu_put_four(data[0], type[0], at[0], x);
    }
};

__device__ __forceinline__ void bs_cu_chain_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                                const bs_cu_deal &d, const bs_cu_view &y)
{
    bs_cu_view o[BS_CU_OTHERS] = {y, y, y};
    bs_cu_chain each;
    each.s = s;
    each.n = 0;
#pragma unroll 1
    for (int32_t k = 0; k < s->n_tail; k++) {
        if (s->tail[k].other < 0)
            continue;
        const bs_cu_view v = bs_cu_open_how(t, s, s->tail[k].other, row, s->tail[k].how);
        each.n = s->tail[k].other;
        o[0] = each.n == 1 ? v : o[0];
        o[1] = each.n == 2 ? v : o[1];
        o[2] = each.n == 3 ? v : o[2];
    }
    const bs_cu_view x = bs_cu_open_how(t, s, 0, row, s->p[BS_CU_CHAIN_HOW].i), all[] = {y, x, o[0], o[1], o[2]};
    const bs_cu_walk<2 + BS_CU_OTHERS> k = bs_cu_walk_over<2 + BS_CU_OTHERS>(all);
#pragma unroll
    for (int32_t i = 0; i < 2 + BS_CU_OTHERS; i++) {
        each.data[i] = k.begin[i];
        each.type[i] = all[i].dtype;
        each.step[i] = k.step[i][3];
    }
    bs_cu_walk_run(k, bs_cu_walk_fours(k, 2), d, each);
}

__device__ inline void bs_cu_chain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        bs_cu_chain_row(t, s, r, d, y);
    }
}

#endif
/* ==== end src/cuda/op_chain.cuh =============================================================== */
/* ==== begin src/cuda/op_conv.cuh ============================================================== */
/* op_conv.cuh - conv2d: which of its kernels a node gets, by the algorithm that was planned and by what fits.
 * Relies on the op_conv_*.cuh, one for each kind of kernel. Must never touch the device. */
#ifndef BS_CUDA_OP_CONV
#define BS_CUDA_OP_CONV

/* ==== begin src/cuda/op_conv_depthwise.cuh ==================================================== */
/* op_conv_depthwise.cuh - conv2d with one channel a group, in f32: windows are read in place.
 * Relies on conv_store.cuh and on the layout of BS_CONV_DIRECT (kernels/conv_pack.c). Must never let the order of a sum
 * depend on where a pixel stands. */
#ifndef BS_CUDA_OP_CONV_DEPTHWISE
#define BS_CUDA_OP_CONV_DEPTHWISE

/* ==== begin src/cuda/conv_store.cuh =========================================================== */
/* conv_store.cuh - from the sums of a convolution to its output: bias, activation, stores.
 * Relies on conv_job.cuh. Must never let a value depend on which kernel stores it. */
#ifndef BS_CUDA_CONV_STORE
#define BS_CUDA_CONV_STORE

/* ==== begin src/cuda/conv_job.cuh ============================================================= */
/* conv_job.cuh - what all convolutions have in common: their parameters in p, the cut into tiles of pixels, the job
 * of a row, and the work items of that job.
 * Relies on walk.cuh and tensor.cuh. Must never clip: storage is zero outside an operand's rect, as on the CPU. */
#ifndef BS_CUDA_CONV_JOB
#define BS_CUDA_CONV_JOB

/* #include "cuda/kernels.cuh" */
/* #include "cuda/tensor.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* ==== begin src/ops/forms.h =================================================================== */
/* ops/forms.h - convolutions and linears with the defaults of their descriptors filled in, where their prepared
 * weights lie, and what else the file of an op and the backend of a device must agree on.
 * Relies on epilogue.h. Must never depend on anything but descriptor, channels and plan: prepared weights may be
 * stored. */
#ifndef BS_OPS_FORMS_H
#define BS_OPS_FORMS_H

/* ==== begin src/kernels/recurrent.h =========================================================== */
/* recurrent.h: one step of an LSTM or a GRU for some rows, gates and states in one pass over the weights.
 *
 * Owns:      the layout of its weights, and the order of gates within it.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or let a row's arithmetic depend on how many rows there are.
 *
 * A sum is the products of x, then those of h, in blocks of 192 (gemm.c); activations are those of functions.h.
 *
 *     LSTM   i, f, o = sigmoid, g = tanh of W_ih x + W_hh h + b;  c' = f c + i g;  h' = o tanh(c')
 *     GRU    r, z = sigmoid of W_ih x + W_hh h + b;  n = tanh(W_in x + b_in + r (W_hn h + b_hn));  h' = n + z (h - n)
 */
#ifndef BS_KERNELS_RECURRENT_H
#define BS_KERNELS_RECURRENT_H

#include <stdbool.h>

/* #include "base/both.h" */
/* ==== begin src/kernels/tier.h ================================================================ */
/* tier.h: which instruction set a kernel may use; the enum and the probes are public, in brainstorm.h.
 *
 * Owns:      the macros that say which tiers this build compiles.
 * Relies on: brainstorm.h (BS_NO_SIMD: scalar kernels only).
 * Must never: keep state. Callers probe once and pass the tier along, so a test can force any lower one.
 *
 *     BS_TIER_SCALAR  portable C: whatever the build's baseline is (SSE2 on x86-64); not in a small library
 *                     (BS_SMALL) on AArch64
 *     BS_TIER_AVX2    AVX2, FMA and F16C (no processor has the first without the others)
 *     BS_TIER_AVX512  AVX-512 F, BW, DQ, VL: Skylake-X, Zen 4 and later
 *     BS_TIER_NEON    AArch64 Advanced SIMD, part of its baseline
 */
#ifndef BS_KERNELS_TIER_H
#define BS_KERNELS_TIER_H

/* #include "brainstorm.h" */
/* #include "base/exact_math.h" */
/* #include "base/wrapping.h" */

/* Compiled by attribute, function by function: the build needs no -m flags. */
#if !defined(BS_NO_SIMD) && !defined(BS_NO_AVX2) && defined(__x86_64__) && defined(__GNUC__)
#define BS_HAVE_X86_TIERS 1
#else
#define BS_HAVE_X86_TIERS 0
#endif

#if BS_HAVE_X86_TIERS && !defined(BS_NO_AVX512)
#define BS_HAVE_AVX512_TIER 1
#else
#define BS_HAVE_AVX512_TIER 0
#endif

#if !defined(BS_NO_SIMD) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define BS_HAVE_NEON_TIER 1
#else
#define BS_HAVE_NEON_TIER 0
#endif

/* Every AArch64 has NEON: a small library (BS_SMALL) has no other kernels there. */
#if defined(BS_SMALL) && BS_HAVE_NEON_TIER
#define BS_HAVE_SCALAR_KERNELS 0
#else
#define BS_HAVE_SCALAR_KERNELS 1
#endif

/* INLINE: a copy for each constant argument is wanted. OUTLINE: a rare case that would bloat a hundred kernels.
 * INLINE_IF_FAST: copies are worth their bytes, except in a small library (BS_SMALL). */
#define BS_INLINE __attribute__((always_inline))
#if defined(__clang__)
#define BS_OUTLINE __attribute__((noinline))
#else
#define BS_OUTLINE __attribute__((noinline, noclone)) /* nor a copy for constants */
#endif
#ifdef BS_SMALL
#define BS_INLINE_IF_FAST BS_OUTLINE
#else
#define BS_INLINE_IF_FAST inline BS_INLINE
#endif

#endif
/* ==== end src/kernels/tier.h ================================================================== */

/* Sums of a unit. Columns of x are the first ones (a GRU's n from x, r, z), columns of h the last ones (r, z, n from
 * h): an LSTM's are the same four. */
enum { BS_RECURRENT_COLUMNS = 4 };

typedef struct bs_recurrent {
    int32_t inputs, hidden; /* >= 1; inputs 0: x is what their products would be */
    bool gru;
} bs_recurrent;

/* How many of a unit's columns take x, and as many h; and which gate of PyTorch's order such a column is: i, f, o, g;
 * n, r, z; r, z, n. */
static inline BS_BOTH int32_t bs_recurrent_gates(bool gru) { return gru ? 3 : 4; }
static inline BS_BOTH int32_t bs_recurrent_gate(bool gru, bool of_h, int32_t column)
{
    return !gru ? column ^ column >> 1 : of_h ? column : (column + 2) % 3;
}

/* Floats of a row of x. */
static inline int32_t bs_recurrent_width(const bs_recurrent *net)
{
    return net->inputs > 0 ? net->inputs : bs_recurrent_gates(net->gru) * net->hidden;
}

/* Rows are dense, row strides in floats and within int32_t. c and c_out: of an LSTM only. */
typedef struct bs_recurrent_rows {
    int64_t n;
    const float *x, *h, *c;
    ptrdiff_t x_row, h_row, c_row;
    float *h_out, *c_out; /* h_out overlaps nothing else; c_out may be c */
    ptrdiff_t h_out_row, c_out_row;
} bs_recurrent_rows;

/* Floats of packed weights, which bs_recurrent_prepare makes of [gates * hidden][inputs] and [gates * hidden][hidden]
 * by running no instructions of the tier. 0: too many. */
uint64_t bs_recurrent_floats(bs_tier tier, const bs_recurrent *net);
void bs_recurrent_prepare(bs_tier tier, const bs_recurrent *net, const float *of_x, const float *of_h, float *prepared);

/* Units that are computed together: their columns are whole panels. Biases are [4 columns][units] for each such group.
 */
int32_t bs_recurrent_units(bs_tier tier, bool gru);

/* Scratch for each thread. */
size_t bs_recurrent_scratch_floats(bs_tier tier, const bs_recurrent *net);
void bs_recurrent_run(bs_tier tier, const bs_recurrent *net, const float *prepared, const float *bias,
                      const bs_recurrent_rows *rows, float *scratch);

#endif
/* ==== end src/kernels/recurrent.h ============================================================= */
/* ==== begin src/ops/epilogue.h ================================================================ */
/* ops/epilogue.h - what conv2d, deconv2d and linear share: calls of the kernels, and bias, slopes and activation after
 * their sums.
 * Owns the translation from bs_act to what conv.h fuses, and the pass for what it does not fuse.
 * Relies on kernels/conv.h, kernels/functions.h and span.h. Must never change the order of bias, then activation. */
#ifndef BS_OPS_EPILOGUE_H
#define BS_OPS_EPILOGUE_H

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
 * splits at multiples of 4 are bit-identical, others differ by rounding. Either way sums of many products are made of
 * shorter ones.
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
    BS_CONV_WINOGRAD4 = 1, /* F(4x4, 3x3): 3x3, stride 1, dilation 1, one group */
    BS_CONV_TENSOR = 2 /* a GPU's: f16 products, as matrices; channels of a group in multiples of 4 */
} bs_conv_algorithm;

enum { BS_CONV_WINOGRAD_TILE = 4 }; /* pixels of an output tile, a side */

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

/* The work of one call. Strides are in floats, between images, between rows and between pixels. */
typedef struct bs_conv_task {
    int32_t images; /* of the same extents; 0: one */
    int32_t in_pixel;
    const float *in;  /* first sample of the window of output (0, 0) */
    ptrdiff_t in_row; /* the storage must cover all windows: (out_h-1)*stride_h + (kernel_h-1)*dilation_h + 1 rows */
    ptrdiff_t in_image;

    float *out; /* must not overlap `in` */
    ptrdiff_t out_row, out_image;
    int32_t out_h, out_w; /* zero is allowed: the call does nothing */
    int32_t out_pixel, residual_pixel;
    /* r > 1: channel c r r + i r + j of a pixel lies i / r rows and j / r pixels on, as channel c; weights, bias and
     * slopes are in the order i, j, c, and all channels c are whole blocks (bs_conv_block_outputs). No residual */
    int32_t phases;

    const float *weights; /* from bs_conv_prepare */
    const float *bias;    /* out_channels floats, or NULL */
    bool onto;            /* for bs_conv_run_gemm without a residual: adds to what is in `out` instead of the bias */

    const float *residual; /* added to the result, or NULL; may be `out` itself (same strides) */
    ptrdiff_t residual_row, residual_image;
    bool residual_before_activation; /* else it is added after it */

    bs_conv_activation activation;
    float slope;         /* LEAKY */
    float low, high;     /* CLIP */
    const float *slopes; /* PRELU: out_channels floats */

    float *scratch; /* bs_conv_scratch_floats, one for each thread; may be NULL if that is 0 */
} bs_conv_task;

/* Whether bs_conv_run supports this at this tier, on machines that have the tier: a workstation plans for a board
 * whose kernels it lacks. DIRECT: every valid geometry. */
bool bs_conv_supports(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Floats that bs_conv_prepare writes; 0 if unsupported (or if the size overflows). */
size_t bs_conv_prepared_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Packs [out][in / groups][kernel_h][kernel_w] weights. Deterministic; padding lanes are zero. Does not run
 * the tier's instructions: a workstation can prepare for another machine. */
void bs_conv_prepare(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                     const float *oihw, float *prepared);
/* The same a few outputs at a time, of all groups: from 0 on, in order. `rows`: the weights of output `first`. */
void bs_conv_prepare_rows(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier, int32_t first,
                          int32_t count, const float *rows, float *prepared);

/* Outputs of a block, which lie side by side, at multiples of as many; 0: bs_conv_task.phases is not for this. */
int32_t bs_conv_block_outputs(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

/* Floats of scratch for one thread, for outputs of any size; 0 for DIRECT. */
size_t bs_conv_scratch_floats(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

void bs_conv_run(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier,
                 const bs_conv_task *task);

#endif
/* ==== end src/kernels/conv.h ================================================================== */
/* ==== begin src/kernels/functions.h =========================================================== */
/* functions.h: rows of what needs an exponential or a logarithm, and what sums a row: activations, exp, log, erf,
 * softmax, layer and RMS norm; argmax and argmin.
 *
 * Owns:      the one arithmetic of sigmoid, tanh, gelu, silu, exp, log and erf on a CPU, whichever op asks for it.
 * Relies on: tier.h.
 * Must never: call libm for an element: its result is the same wherever it stands in a row, however long that is.
 *
 * Steps are in floats; each may be anything, and rows of the same numbers give the same bytes at any step. A row may be
 * computed in place: x == y with equal steps. A tier that is not available runs as BS_TIER_SCALAR. Sums have an order
 * that the tier and n fix. Infinities and NaN come out as the formulas say.
 *
 * Errors, against the real result in units in its last place, wherever it is a normal number; elsewhere in those of the
 * smallest number. test_functions.c measures them, over all floats:
 *
 *                                         bound  worst
 *     sigmoid   1 / (1 + e^-x)             2.5    2.5
 *     silu      x / (1 + e^-x)             2.5    2.4   silu(-inf) is NaN, as the quotient is
 *     tanh                                 2.7    2.7
 *     gelu      x / 2 (1 + erf(x / 2^.5))  8      7.0   in the lower tail; 3.1 above 0
 *     exp                                  1.5    1.1
 *     log                                  1.5    0.9
 *     erf                                  1.5    1.2
 *     softmax                              6      4.2   of differences x - top as floats have them
 *     layer norm: 4 times 2^-24 of |bias| + |weight| (1 + largest |x| / sqrt(variance + epsilon))
 *     RMS norm                             4      3.4   where the mean of squares is a normal number
 */
#ifndef BS_KERNELS_FUNCTIONS_H
#define BS_KERNELS_FUNCTIONS_H

/* #include "kernels/tier.h" */

/* Whether an activation is one of those that bs_row_function computes. */
static inline bool bs_is_function(bs_act act)
{
    return act == BS_SIGMOID || act == BS_TANH || act == BS_GELU || act == BS_SILU;
}

/* n elements from x to y. */
void bs_row_function(bs_tier tier, bs_act act, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                     int64_t n);

/* The same of kinds of the op `unary`: those that bs_row_unary computes. */
static inline bool bs_is_row_unary(bs_unary_kind kind)
{
    return kind == BS_UNARY_EXP || kind == BS_UNARY_LOG || kind == BS_UNARY_ERF;
}
void bs_row_unary(bs_tier tier, bs_unary_kind kind, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step,
                  int64_t n);

/* e^(x - top) over the sum of these; n > 0. A row with a NaN, or +inf, or nothing above -inf, is NaN. */
void bs_row_softmax(bs_tier tier, const float *x, ptrdiff_t x_step, float *y, ptrdiff_t y_step, int64_t n);

/* Where the largest element of a row stands, or with `least` the smallest; n > 0. Of equal ones the first; a NaN counts
 * only where it is element 0, and then it is the answer. A small library (BS_SMALL) does without it. */
#ifndef BS_SMALL
int64_t bs_row_place_of_best(bs_tier tier, const float *x, int64_t n, bool least);
#endif

/* Layer norm: (x - mean) / sqrt(variance + epsilon) * weight + bias; weight and bias have step 1. */
typedef struct bs_row_norm {
    const float *weight, *bias; /* bias NULL: RMS norm, x / sqrt(mean of x^2 + epsilon) * weight */
    float epsilon;
    int32_t n;
} bs_row_norm;
void bs_row_normalise(bs_tier tier, const bs_row_norm *norm, const float *x, ptrdiff_t x_step, float *y,
                      ptrdiff_t y_step);

/* A step of n units of an LSTM: sums of i, f, o and g behind each other, n of each; c' = f c + i g, h' = o tanh(c'). As
 * by rows of sigmoid and tanh, but c' is rounded once less. c_out may be c. */
void bs_row_lstm(bs_tier tier, const float *sums, const float *c, float *c_out, float *h_out, int64_t n);

#endif
/* ==== end src/kernels/functions.h ============================================================= */
/* #include "ops/act.h" */
/* #include "ops/common.h" */
/* #include "ops/span.h" */

/* a node that runs as plain loops, not by the kernels' algorithms */
#define BS_CONV_REFERENCE (-1)

typedef struct bs_epilogue {
    bs_act act;
    float param;
    const float *bias;   /* one for each channel, or NULL */
    const float *slopes; /* one for each channel, with PRELU only */
} bs_epilogue;

/* Bias and slopes lie behind the packed weights in prepared memory, for all three ops. */
typedef struct bs_epilogue_layout {
    bs_bytes bias, slopes, bytes;
} bs_epilogue_layout;
bs_epilogue_layout bs_epilogue_place(bs_bytes packed_bytes, int32_t channels, int32_t act);
/* The same layout from its bytes, where they are known. */
bs_epilogue_layout bs_epilogue_at_end(bs_bytes bytes, int32_t channels, int32_t act);
/* bs_epilogue_weights adds the epilogue's weights to the n before it and returns the new count. bs_epilogue_prepare
 * copies these weights to prepared memory. */
int32_t bs_epilogue_weights(bs_weight_spec *specs, int32_t n, int32_t channels, bool no_bias, int32_t act);
void bs_epilogue_prepare(const bs_epilogue_layout *layout, int32_t channels, bool no_bias, int32_t act,
                         const void *const *weights, void *prepared);
/* The epilogue of a call, from prepared memory. */
bs_epilogue bs_epilogue_of(const bs_call *call, const bs_epilogue_layout *layout, int32_t act, float param);

float bs_epilogue_apply(const bs_epilogue *epilogue, int32_t channel, float sum);

/* Sets bias and activation of the task. False: the activation is not fused and must be applied afterwards. */
bool bs_epilogue_fuse(const bs_epilogue *epilogue, bs_conv_task *task);

/* The task of all rows, an image each. The first window begins at `from` (y, x) and belongs to the output at `to`; the
 * next windows belong to every `step`-th output of the rect. */
bs_conv_task bs_epilogue_task(const bs_call *call, const int32_t *from, const int32_t *to, int32_t step);

/* Runs a call of a convolution: row by row in plain loops or all rows by the kernels, then what these do not fuse. */
typedef void bs_epilogue_row(const bs_call *call, const void *form, const bs_epilogue *epilogue, int32_t row);
typedef void bs_epilogue_rows(const bs_call *call, const void *form, const bs_epilogue *epilogue);
bs_status bs_epilogue_run(const bs_call *call, const void *form, const bs_epilogue *epilogue,
                          bs_epilogue_row *reference, bs_epilogue_rows *fast);

#endif
/* ==== end src/ops/epilogue.h ================================================================== */

/* ops/conv2d.c */
typedef struct bs_conv2d_form {
    bs_conv_geometry geometry;
    bs_window window;
} bs_conv2d_form;
bs_conv2d_form bs_conv2d_form_of(const bs_conv2d_desc *desc, int32_t channels);
bs_epilogue_layout bs_conv2d_layout(const bs_conv2d_desc *desc, const bs_conv_geometry *g, const bs_node_plan *plan);

/* ops/pool2d.c */
bs_window bs_pool2d_window(const bs_pool2d_desc *desc);

/* ops/reshape.c: x becomes an image [C,1,L] if it is [C,L]; and back. */
bool bs_reshape_line(bs_graph *graph, bs_value *x);
bs_value bs_reshape_to_line(bs_graph *graph, bs_value x);

/* The same file: one pass for a reshape and the transpose of its result, called for the transpose; and for the reshape
 * of what a transpose has made, called for the reshape. (plan/fusions.c) */
bs_status bs_reshape_transpose_run(const bs_call *call);
bs_status bs_transpose_reshape_run(const bs_call *call);
/* Dimension d of the result of a transpose is dimension order[d] of the operand. All zero: the last two change
 * places. */
static inline void bs_transpose_order(const bs_transpose_desc *desc, int32_t rank, int32_t *order)
{
    bool given = rank < 2;
    for (int32_t d = 0; d < BS_MAX_AXES; d++) {
        given = given || desc->order[d] != 0;
        order[d] = desc->order[d];
    }
    for (int32_t d = 0; d < rank && !given; d++)
        order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
}

/* Parameters of the transpose whose result is operand 0 of `node`. */
static inline const void *bs_transpose_before(const bs_graph *graph, const bs_node *node)
{
    return graph->nodes[graph->values[bs_node_in(graph, node)[0]].node].params;
}

/* ops/deconv2d.c */
typedef struct bs_deconv2d_form {
    int32_t in, out, kernel, stride, pad, output_pad;
} bs_deconv2d_form;
bs_deconv2d_form bs_deconv2d_form_of(const bs_deconv2d_desc *desc, int32_t channels);
bs_epilogue_layout bs_deconv2d_layout(const bs_deconv2d_form *f, const bs_node_plan *plan, int32_t act);
/* Taps of phase a along one axis; 0 where the kernel is smaller than the stride. */
static inline BS_BOTH int32_t bs_deconv2d_taps(int32_t kernel, int32_t stride, int32_t a)
{
    return (kernel - a + stride - 1) / stride;
}

/* ops/pad.c: the pixel that pixel `at`, counted from the operand's first of n, is a copy of; the nearest one if it is
 * none. */
static inline BS_BOTH int32_t bs_pad_source(int32_t edge, int32_t at, int32_t n)
{
    if (edge == BS_EDGE_REFLECT)
        at = at < 0 ? -at : at < n ? at : 2 * (n - 1) - at;
    return bs_clamp_i32(at, 0, n - 1);
}
/* ops/pad.c: the border's value as an element; a value outside a type's range becomes the nearest one in it. */
void bs_pad_element(bs_dtype dtype, float value, void *element);

/* ops/convert.c: the range of a type's codes. */
bool bs_convert_is_integer(bs_dtype dtype);
void bs_convert_range(bs_dtype to, int32_t code_bits, int32_t *low, int32_t *high);

/* ops/linear.c */
bs_epilogue_layout bs_linear_layout(const bs_linear_desc *desc, const bs_node_plan *plan, int32_t inputs);
/* A device's layout is that of the reference, with lines padded with zeros to whole loads of 16 bytes. */
static inline BS_BOTH int64_t bs_linear_line_bytes(int32_t inputs, int32_t each)
{
    return ((int64_t)inputs * each + 15) & ~(int64_t)15;
}

/* Weights as lines for a device or for the reference, and bytes of one. */
bs_bytes bs_linear_line(const bs_node_plan *plan, int32_t inputs);
void bs_linear_lines(const bs_node_plan *plan, int32_t inputs, int32_t outputs, const float *weight, uint8_t *memory);

/* ops/recurrent.c: lines of x come first; biases are [4 columns][units], of groups of units in a tier's panels. */
typedef struct bs_recurrent_layout {
    bs_bytes of_h, bias, bytes;
} bs_recurrent_layout;
bs_recurrent_layout bs_recurrent_place(const bs_recurrent *net, const bs_node_plan *plan);
/* h' of one unit from its sums (BS_RECURRENT_COLUMNS); the LSTM's c' too. */
static inline BS_BOTH float bs_lstm_step(const float *sums, float c, float *c_out)
{
    const float i = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[0]), f = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[1]),
                o = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[2]), g = bs_act_apply(BS_TANH, 0.0f, 0.0f, sums[3]),
                next = BS_SUM(f * c, i * g);
    *c_out = next;
    return o * bs_act_apply(BS_TANH, 0.0f, 0.0f, next);
}
static inline BS_BOTH float bs_gru_step(const float *sums, float h)
{
    const float r = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[1]), z = bs_act_apply(BS_SIGMOID, 0.0f, 0.0f, sums[2]),
                n = bs_act_apply(BS_TANH, 0.0f, 0.0f, BS_SUM(sums[0], r * sums[3]));
    return BS_SUM(n, z * (h - n));
}

#endif
/* ==== end src/ops/forms.h ===================================================================== */
}

/* Parameters of the kernels of this file, in p. */
enum {
    BS_CU_CONV_KERNEL_H,
    BS_CU_CONV_KERNEL_W,
    BS_CU_CONV_STRIDE, /* of both axes, in one word (bs_cu_both) */
    BS_CU_CONV_PAD_H,  /* before the first sample */
    BS_CU_CONV_PAD_W,
    BS_CU_CONV_DILATION, /* alike */
    BS_CU_CONV_GROUPS,
    BS_CU_CONV_ACT,
    BS_CU_CONV_PARAM,
    BS_CU_CONV_BIAS,   /* bytes from the weights */
    BS_CU_CONV_TILE_H, /* outputs of a work item */
    BS_CU_CONV_TILE_W,
    BS_CU_CONV_CHUNK,  /* input channels that are in shared memory at once */
    BS_CU_CONV_PIXEL,  /* elements between pixels there; 0: windows are read in place */
    /* conv2d_plain: 0 canonical weights, 1 those of conv2d_tensor, 2 of conv2d; deconv2d: 0 canonical, 1 phases */
    BS_CU_CONV_LAYOUT,
    BS_CU_CONV_UP      /* deconv2d: its stride */
};

enum { BS_CU_CONV_JOB = 96 }; /* bytes of the workspace for the job */

/* The convolution of one row, from the first requested output on. Strides are in elements; channels of input and output
 * are contiguous. It lies in shared memory, because registers are needed for sums. */
struct bs_cu_conv {
    const uint8_t *in; /* first sample of the first window */
    uint8_t *out;
    int16_t in_dtype, out_dtype;
    int32_t in_row, in_pixel, out_row, out_pixel;
    int32_t h, w; /* outputs */
    int32_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w, dilation_h, dilation_w;
    int32_t groups, in_c, out_c; /* channels of a group */
    const uint8_t *weights;
    const float *bias;
    const bs_device_step *step; /* for the end: where the step is at hand it is nearer */
};

/* Two numbers in one word of p, down and across. */
__host__ __device__ static inline int32_t bs_cu_both(int32_t h, int32_t w)
{
    return (int32_t)((uint32_t)h << 16 | (uint32_t)w);
}
__host__ __device__ static inline uint16_t bs_cu_down(int32_t both) { return (uint16_t)((uint32_t)both >> 16); }
__host__ __device__ static inline uint16_t bs_cu_across(int32_t both) { return (uint16_t)both; }

/* -------------------------------------------------------------------------------------------- the host's side */

static inline int64_t bs_cu_window(int64_t outputs, int32_t kernel, int32_t stride, int32_t dilation)
{
    return (outputs - 1) * stride + (int64_t)(kernel - 1) * dilation + 1;
}

/* Cuts h x w outputs into the fewest equal tiles of at most `most` pixels whose windows have at most `room`. False: the
 * window of a single output is larger. */
static bool bs_cu_conv_cut(bs_device_step *s, int64_t h, int64_t w, int64_t most, int64_t room)
{
    const int32_t kh = s->p[BS_CU_CONV_KERNEL_H].i, kw = s->p[BS_CU_CONV_KERNEL_W].i;
    const int32_t stride = s->p[BS_CU_CONV_STRIDE].i, dilation = s->p[BS_CU_CONV_DILATION].i;
    const int64_t window = bs_cu_window(1, kh, 1, bs_cu_down(dilation));
    int64_t fewest = INT64_MAX, from = bs_ceil_div(w, most < 64 ? most : 64);
    for (int64_t columns = from < 1 ? 1 : from; columns <= w && columns <= 2 * bs_ceil_div(w, 8) + 8; columns++) {
        const int64_t tw = bs_ceil_div(w, columns),
                      across = bs_cu_window(tw, kw, bs_cu_across(stride), bs_cu_across(dilation));
        const int64_t rows = (room / across - window) / bs_cu_down(stride) + 1;
        const int64_t th = rows * tw > most ? most / tw : rows;
        if (room / across < window || th < 1)
            continue;
        const int64_t down = bs_ceil_div(h, th < h ? th : h);
        if (columns * down >= fewest)
            continue;
        fewest = columns * down;
        s->p[BS_CU_CONV_TILE_H].i = (int32_t)bs_ceil_div(h, down);
        s->p[BS_CU_CONV_TILE_W].i = (int32_t)tw;
    }
    return fewest != INT64_MAX;
}

/* The largest rectangle of outputs that a row can have. */
static void bs_cu_conv_extent(const bs_device_operand *o, int64_t *h, int64_t *w)
{
    *h = (o->cell > 0 ? o->cell : o->dim[1]) + 2 * (int64_t)o->margin;
    *w = (o->cell > 0 ? o->cell : o->dim[2]) + 2 * (int64_t)o->margin;
    *h = *h < 1 ? 1 : *h;
    *w = *w < 1 ? 1 : *w;
}

static int64_t bs_cu_conv_tiles(const bs_device_step *s, int64_t h, int64_t w)
{
    return bs_ceil_div(h, s->p[BS_CU_CONV_TILE_H].i) * bs_ceil_div(w, s->p[BS_CU_CONV_TILE_W].i);
}

/* ------------------------------------------------------------------------------------------- the job of a row */

/* The job of a row. */
__device__ __forceinline__ bs_cu_conv bs_cu_conv_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                    const bs_cu_view &y)
{
    const int32_t stride = s->p[BS_CU_CONV_STRIDE].i, dilation = s->p[BS_CU_CONV_DILATION].i,
                  groups = s->p[BS_CU_CONV_GROUPS].i;
    bs_cu_conv c;
    c.stride_h = bs_cu_down(stride);
    c.stride_w = bs_cu_across(stride);
    c.dilation_h = bs_cu_down(dilation);
    c.dilation_w = bs_cu_across(dilation);
    c.kernel_h = s->p[BS_CU_CONV_KERNEL_H].i;
    c.kernel_w = s->p[BS_CU_CONV_KERNEL_W].i;
    c.in = x.data + bs_cu_pixel_at(x, 0, y.y0 * c.stride_h - s->p[BS_CU_CONV_PAD_H].i,
                                   y.x0 * c.stride_w - s->p[BS_CU_CONV_PAD_W].i) * bs_cu_bytes(x.dtype);
    c.groups = groups;
    c.in_dtype = (int16_t)x.dtype;
    c.in_row = x.stride[1];
    c.in_pixel = x.stride[2];
    c.out = y.data + bs_cu_pixel_at(y, 0, y.y0, y.x0) * bs_cu_bytes(y.dtype);
    c.out_dtype = (int16_t)y.dtype;
    c.out_row = y.stride[1];
    c.out_pixel = y.stride[2];
    c.h = y.y1 - y.y0;
    c.w = y.x1 - y.x0;
    c.in_c = x.dim[0] / groups;
    c.out_c = y.dim[0] / groups;
    c.weights = bs_cu_prepared(t, s);
    c.bias = reinterpret_cast<const float *>(c.weights + s->p[BS_CU_CONV_BIAS].i);
    c.step = s;
    return c;
}

/* Puts the job into shared memory, where all threads see it. */
__device__ __forceinline__ const bs_cu_conv &bs_cu_conv_share(const bs_cu_tile &t, const bs_cu_conv &c)
{
    bs_cu_conv *shared = reinterpret_cast<bs_cu_conv *>(t.workspace);
    static_assert(sizeof *shared <= BS_CU_CONV_JOB, "the job has its room");
    BS_CU_ASSUME_SHARED(shared);
    __syncthreads(); /* all threads are done with the previous job */
    if (threadIdx.x == 0)
        *shared = c;
    __syncthreads();
    return *shared;
}

/* Whether a row has anything to compute; fails where the channels of an image are not contiguous. */
__device__ __forceinline__ bool bs_cu_conv_sound(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                                 const bs_cu_view &y)
{
    const bool last = (x.stride[0] == 1 || x.dim[0] == 1) && (y.stride[0] == 1 || y.dim[0] == 1);
    if (!last && threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_UNSUPPORTED);
    return last && y.y1 > y.y0 && y.x1 > y.x0;
}

/* Calls each(job) for every row that has anything to compute. */
template <typename E>
__device__ __forceinline__ void bs_cu_conv_rows(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    bs_cu_each_row(t, s, w, bs_cu_deal_whole(w), [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (bs_cu_conv_sound(t, s, x, y))
            each(bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)));
    });
}

/* -------------------------------------------------------------------------------------------- work items of a job */

/* A tile of pixels, by as many blocks of 8 output channels of a group as there are threads for. */
struct bs_cu_conv_item {
    int32_t y, x, h, w; /* outputs */
    int32_t window_h, window_w;
    int32_t group, pass;
};

__device__ __forceinline__ bs_cu_conv_item bs_cu_conv_item_of(const bs_device_step *s, const bs_cu_conv &c,
                                                              int32_t item, int32_t passes)
{
    const int32_t tile_h = s->p[BS_CU_CONV_TILE_H].i, tile_w = s->p[BS_CU_CONV_TILE_W].i,
                  across = (c.w + tile_w - 1) / tile_w;
    bs_cu_conv_item p;
    p.pass = item % passes;
    item /= passes;
    p.group = item % c.groups;
    item /= c.groups;
    p.y = item / across * tile_h;
    p.x = item % across * tile_w;
    p.h = min(tile_h, c.h - p.y);
    p.w = min(tile_w, c.w - p.x);
    p.window_h = (p.h - 1) * c.stride_h + (c.kernel_h - 1) * c.dilation_h + 1;
    p.window_w = (p.w - 1) * c.stride_w + (c.kernel_w - 1) * c.dilation_w + 1;
    return p;
}

__device__ __forceinline__ int32_t bs_cu_conv_tiles_of(const bs_device_step *s, const bs_cu_conv &c)
{
    const int32_t tile_h = s->p[BS_CU_CONV_TILE_H].i, tile_w = s->p[BS_CU_CONV_TILE_W].i;
    return (c.w + tile_w - 1) / tile_w * ((c.h + tile_h - 1) / tile_h) * c.groups;
}

__device__ __forceinline__ const uint8_t *bs_cu_conv_source(const bs_cu_conv &c, const bs_cu_conv_item &p)
{
    const int64_t at = (int64_t)(p.y * c.stride_h) * c.in_row + (int64_t)(p.x * c.stride_w) * c.in_pixel;
    return c.in + (at + (int64_t)p.group * c.in_c) * bs_cu_bytes(c.in_dtype);
}

/* --------------------------------------------------------------------------------------------------- elements */

/* Weights never change while a kernel runs. */
template <typename T> __device__ __forceinline__ T bs_cu_constant(const T *at)
{
#ifdef BS_CUDA_CPU
    return *at;
#else
    return __ldg(at);
#endif
}

/* Whether channels can be moved four at a time. */
__device__ __forceinline__ bool bs_cu_quads(const uint8_t *at, int32_t dtype, int32_t row, int32_t pixel,
                                            int32_t channels)
{
    return ((row | pixel | channels) & 3) == 0 && bs_cu_aligned(at, bs_cu_bytes(dtype), 0);
}

#endif
/* ==== end src/cuda/conv_job.cuh =============================================================== */

/* Common activations are one expression: x > 0 ? min(x, high) : x * slope, where a slope of 0 gives 0 even for NaN and
 * infinities. */
struct bs_cu_conv_end {
    const float *bias;
    const float *slopes; /* NULL: one for all */
    float slope, high;
    int32_t rare;        /* another activation, or BS_ACT_NONE */
};

__device__ __forceinline__ bs_cu_conv_end bs_cu_conv_end_of(const bs_cu_conv &c)
{
    const float param = c.step->p[BS_CU_CONV_PARAM].f;
    bs_cu_conv_end e = {c.bias, NULL, 1.0f, INFINITY, BS_ACT_NONE};
    switch (c.step->p[BS_CU_CONV_ACT].i) {
    case BS_ACT_NONE: break;
    case BS_RELU: e.slope = 0.0f; break;
    case BS_LEAKY_RELU: e.slope = bs_act_slope(param); break;
    case BS_PRELU: e.slopes = c.bias + bs_aligned_floats(c.groups * c.out_c); break;
    case BS_CLIP:
        e.slope = 0.0f;
        e.high = bs_act_high(param);
        break;
    default: e.rare = c.step->p[BS_CU_CONV_ACT].i; break;
    }
    return e;
}

/* RARE: applies e.rare. Kernels contain this code once, in a separate loop, so that it costs the main loop no
 * registers. */
template <bool RARE> __device__ __forceinline__ float bs_cu_conv_finish(const bs_cu_conv_end &e, float slope, float x)
{
    if (RARE)
        return bs_act_apply((bs_act)e.rare, 0.0f, 0.0f, x);
    return x > 0.0f ? fminf(x, e.high) : slope == 0.0f ? 0.0f : x * slope;
}

/* Stores `count` channels of a pixel, at most WIDTH, from their sums. */
template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_store(const bs_cu_conv &c, const bs_cu_conv_end &e, const float (&sum)[8],
                                                 int32_t channel, int32_t count, uint8_t *to)
{
    float y[WIDTH];
#pragma unroll
    for (int o = 0; o < WIDTH; o++)
        y[o] = o < count ? bs_cu_conv_finish<false>(e, e.slopes ? e.slopes[channel + o] : e.slope,
                                                    sum[o] + e.bias[channel + o])
                         : 0.0f;
#pragma unroll
    for (int q = 0; q < WIDTH; q += 4) {
        uint8_t *at = to + q * bs_cu_bytes(c.out_dtype);
        if (count >= q + 4 && bs_cu_aligned(at, bs_cu_bytes(c.out_dtype), 0)) {
            bs_cu_put_quad(at, c.out_dtype, 0, make_float4(y[q], y[q + 1], y[q + 2], y[q + 3]));
        } else {
#pragma unroll
            for (int o = 0; o < 4; o++)
                if (q + o < count)
                    bs_cu_put(at, c.out_dtype, o, y[q + o]);
        }
    }
}

/* The same with a rare activation, one channel at a time; overwrites `sum`. */
__device__ __forceinline__ void bs_cu_conv_store_rare(const bs_cu_conv &c, const bs_cu_conv_end &e, float (&sum)[8],
                                                      int32_t channel, int32_t count, uint8_t *to)
{
#pragma unroll 1
    for (int32_t k = 0; k < count; k++) {
        bs_cu_put(to, c.out_dtype, k, bs_cu_conv_finish<true>(e, 0.0f, sum[0] + e.bias[channel + k]));
#pragma unroll
        for (int o = 0; o + 1 < 8; o++)
            sum[o] = sum[o + 1];
    }
}

/* Adds the bias to a sum and applies the activation, whichever it is. */
__device__ inline float bs_cu_conv_any(const bs_cu_conv &c, int32_t o, float sum)
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    return bs_act_apply((bs_act)c.step->p[BS_CU_CONV_ACT].i, c.step->p[BS_CU_CONV_PARAM].f,
                        e.slopes ? e.slopes[o] : 0.0f, sum + e.bias[o]);
}

#endif
/* ==== end src/cuda/conv_store.cuh ============================================================= */

/* A thread computes four adjacent channels of a pixel. Weights are [quads of channels][taps][4]. */
__device__ inline void bs_cu_conv2d_depthwise_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) {
        const int32_t taps = c.kernel_h * c.kernel_w, bytes = bs_cu_bytes(c.in_dtype);
        const bool quads = bs_cu_quads(c.in, c.in_dtype, c.in_row, c.in_pixel, 0);
        bs_cu_scan_run(d, {0, c.h, 0, c.w}, (c.groups + 3) / 4, [&](const bs_cu_scan &k) {
            const int32_t channel = 4 * k.c, count = min(4, c.groups - channel);
            const float4 *weight = reinterpret_cast<const float4 *>(c.weights) + (int64_t)k.c * taps;
            const int64_t first = (int64_t)k.y * c.stride_h * c.in_row + (int64_t)k.x * c.stride_w * c.in_pixel;
            const uint8_t *window = c.in + (first + channel) * bytes;
            float sum[8] = {};
            for (int32_t ky = 0; ky < c.kernel_h; ky++)
                for (int32_t kx = 0; kx < c.kernel_w; kx++, weight++) {
                    const uint8_t *at = window +
                                        ((int64_t)ky * c.dilation_h * c.in_row +
                                         (int64_t)kx * c.dilation_w * c.in_pixel) *
                                            bytes;
                    const float4 v = bs_cu_constant(weight);
                    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (quads && count == 4) {
                        q = bs_cu_get_quad(at, c.in_dtype, 0);
                    } else {
                        q.x = bs_cu_get(at, c.in_dtype, 0);
                        q.y = count > 1 ? bs_cu_get(at, c.in_dtype, 1) : 0.0f;
                        q.z = count > 2 ? bs_cu_get(at, c.in_dtype, 2) : 0.0f;
                        q.w = count > 3 ? bs_cu_get(at, c.in_dtype, 3) : 0.0f;
                    }
                    sum[0] = fmaf(q.x, v.x, sum[0]);
                    sum[1] = fmaf(q.y, v.y, sum[1]);
                    sum[2] = fmaf(q.z, v.z, sum[2]);
                    sum[3] = fmaf(q.w, v.w, sum[3]);
                }
            uint8_t *to = c.out +
                          ((int64_t)k.y * c.out_row + (int64_t)k.x * c.out_pixel + channel) * bs_cu_bytes(c.out_dtype);
            const bs_cu_conv_end end = bs_cu_conv_end_of(c);
            if (end.rare != BS_ACT_NONE)
                bs_cu_conv_store_rare(c, end, sum, channel, count, to);
            else
                bs_cu_conv_store<4>(c, end, sum, channel, count, to);
        });
    });
}

#endif
/* ==== end src/cuda/op_conv_depthwise.cuh ====================================================== */
/* ==== begin src/cuda/op_conv_direct.cuh ======================================================= */
/* op_conv_direct.cuh - conv2d in f32, any geometry: a window is copied to shared memory; a thread has 4 pixels x 8
 * outputs. Owns the chunks of channels that are in shared memory at once. Relies on conv_store.cuh and on the
 * layout of BS_CONV_DIRECT (kernels/conv_pack.c). Must never let the order of a sum depend on where a pixel stands or
 * on the cut: it is one order for each geometry. */
#ifndef BS_CUDA_OP_CONV_DIRECT
#define BS_CUDA_OP_CONV_DIRECT

/* #include "cuda/conv_store.cuh" */

enum { BS_CU_CONV_MOST = 20 }; /* channels of a chunk: 306 pixels of a window in the workspace */

/* -------------------------------------------------------------------------------------------- the host's side */

/* Chooses chunks of equal size, and the distance between pixels: an odd number of words, or of quads, so that the
 * threads of a warp, a pixel each, have no bank conflicts. */
static void bs_cu_conv_chunk(bs_device_step *s, int32_t in_c)
{
    const int32_t chunks = (in_c + BS_CU_CONV_MOST - 1) / BS_CU_CONV_MOST, each = (in_c + chunks - 1) / chunks;
    const int32_t chunk = in_c < 4 ? in_c : (each + 3) / 4 * 4;
    s->p[BS_CU_CONV_CHUNK].i = chunk;
    s->p[BS_CU_CONV_PIXEL].i = chunk < 4 ? chunk | 1 : chunk % 8 == 0 ? chunk + 4 : chunk;
}

/* Threads for the pixels of a tile, 4 each: whole warps. */
__host__ __device__ static inline int32_t bs_cu_conv_quads(const bs_device_step *s)
{
    return (s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i + 127) / 128 * 32;
}

/* f32, windows in shared memory. False: a window is too large for it. */
static bool bs_cu_conv_describe_direct(bs_device_step *s, int32_t in_c, int32_t out_c, int64_t h, int64_t w)
{
    bs_cu_conv_chunk(s, in_c);
    /* threads of a block of outputs */
    const int32_t blocks = (out_c + 7) / 8, share = BS_CU_THREADS / (blocks < 4 ? blocks : 4) / 32 * 32;
    const int32_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB) / 4 / s->p[BS_CU_CONV_PIXEL].i;
    if (!bs_cu_conv_cut(s, h, w, 4 * (share > 64 ? share : 64), room))
        return false;
    const int32_t sides = BS_CU_THREADS / bs_cu_conv_quads(s);
    s->parts = bs_cu_work_items(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i * bs_ceil_div(blocks, sides), 1);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- sums */

/* Copies `channels` channels of a work item's window to shared memory, as f32, pixels `apart` floats apart. */
__device__ __forceinline__ void bs_cu_conv_stage(const bs_cu_conv &c, const bs_cu_conv_item &p, const uint8_t *from,
                                                 int32_t channels, int32_t apart, float *to)
{
    const int32_t threads = bs_cu_threads(), bytes = bs_cu_bytes(c.in_dtype);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, channels);
    const int32_t each = quads ? channels / 4 : channels, w = p.window_w, n = p.window_h * w * each;
    for (int32_t i = bs_cu_thread(); i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        if (quads)
            *reinterpret_cast<float4 *>(to + at * apart + 4 * k) = bs_cu_get_quad(pixel, c.in_dtype, 4 * k);
        else
            to[at * apart + k] = bs_cu_get(pixel, c.in_dtype, k);
    }
}

template <int WIDTH> __device__ __forceinline__ void bs_cu_conv_load(const float *w, float (&to)[WIDTH])
{
#pragma unroll
    for (int q = 0; q < WIDTH; q += 4) {
        const float4 v = bs_cu_constant(reinterpret_cast<const float4 *>(w + q));
        to[q] = v.x;
        to[q + 1] = v.y;
        to[q + 2] = v.z;
        to[q + 3] = v.w;
    }
}

template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_add(float (&sum)[4][8], const float (&x)[4], const float *w)
{
    float each[WIDTH];
    bs_cu_conv_load<WIDTH>(w, each);
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int o = 0; o < WIDTH; o++)
            sum[p][o] = fmaf(x[p], each[o], sum[p][o]);
}

/* Adds `channels` channels of all taps to the sums of 4 pixels, whose windows begin at `window` + at[p]. row, column:
 * floats to the next tap. w: weights of the first channel; those of the next tap are `tap` floats farther. */
template <int WIDTH>
__device__ __forceinline__ void bs_cu_conv_sum(const bs_cu_conv &c, const float *window, int32_t row, int32_t column,
                                               const int32_t (&at)[4], const float *w, int32_t tap, int32_t channels,
                                               float (&sum)[4][8])
{
#pragma unroll 1
    for (int32_t ky = 0; ky < c.kernel_h; ky++)
#pragma unroll 1
        for (int32_t kx = 0; kx < c.kernel_w; kx++, w += tap) {
            const float *x = window + ky * row + kx * column, *v = w;
            int32_t i = 0;
#pragma unroll 1
            for (; i + 4 <= channels; i += 4, v += 4 * WIDTH) {
                float4 q[4];
#pragma unroll
                for (int p = 0; p < 4; p++)
                    q[p] = *reinterpret_cast<const float4 *>(x + at[p] + i);
                const float x0[4] = {q[0].x, q[1].x, q[2].x, q[3].x}, x1[4] = {q[0].y, q[1].y, q[2].y, q[3].y};
                const float x2[4] = {q[0].z, q[1].z, q[2].z, q[3].z}, x3[4] = {q[0].w, q[1].w, q[2].w, q[3].w};
                bs_cu_conv_add<WIDTH>(sum, x0, v);
                bs_cu_conv_add<WIDTH>(sum, x1, v + WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x2, v + 2 * WIDTH);
                bs_cu_conv_add<WIDTH>(sum, x3, v + 3 * WIDTH);
            }
#pragma unroll 1
            for (; i < channels; i++, v += WIDTH) {
                const float one[4] = {x[at[0] + i], x[at[1] + i], x[at[2] + i], x[at[3] + i]};
                bs_cu_conv_add<WIDTH>(sum, one, v);
            }
        }
}

/* ----------------------------------------------------------------------------------------------------- work items */

/* Stores the sums of a thread's 4 pixels: pixels `lane`, lane + each ... of the tile, 8 outputs from `first`. */
__device__ __forceinline__ void bs_cu_conv_finish_tile(const bs_cu_conv &c, const bs_cu_conv_item &p, int32_t first,
                                                       int32_t lane, int32_t each, float (&sum)[4][8])
{
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
    const int32_t channel = p.group * c.out_c + first, count = min(8, c.out_c - first),
                  bytes = bs_cu_bytes(c.out_dtype);
    uint8_t *to = c.out + ((int64_t)p.y * c.out_row + (int64_t)p.x * c.out_pixel + channel) * bytes;
    if (e.rare != BS_ACT_NONE) {
#pragma unroll 1
        for (int32_t i = lane; i < p.h * p.w; i += each) {
            const int32_t y = i / p.w;
            bs_cu_conv_store_rare(c, e, sum[0], channel, count,
                                  to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
#pragma unroll
            for (int o = 0; o < 8; o++) {
                sum[0][o] = sum[1][o];
                sum[1][o] = sum[2][o];
                sum[2][o] = sum[3][o];
            }
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int32_t i = lane + k * each, y = i / p.w;
        if (i < p.h * p.w)
            bs_cu_conv_store<8>(c, e, sum[k], channel, count,
                                to + ((int64_t)y * c.out_row + (int64_t)(i - y * p.w) * c.out_pixel) * bytes);
    }
}

/* Computes every parts-th work item from `part` on; returns how many there are in all. They are numbered by tile, then
 * group, then pass. */
__device__ __forceinline__ int32_t bs_cu_conv_direct(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_conv &c,
                                                     int32_t part, int32_t parts)
{
    float *window = reinterpret_cast<float *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(window);
    const int32_t taps = c.kernel_h * c.kernel_w, padded = (c.out_c + 3) / 4 * 4, blocks = (c.out_c + 7) / 8;
    const int32_t quads = bs_cu_conv_quads(s);
    const int32_t side = bs_cu_thread() / quads, lane = bs_cu_thread() % quads;
    const int32_t sides = bs_cu_threads() / quads, passes = (blocks + sides - 1) / sides,
                  items = bs_cu_conv_tiles_of(s, c) * passes;
    const int32_t chunk = s->p[BS_CU_CONV_CHUNK].i, apart = s->p[BS_CU_CONV_PIXEL].i;
    int32_t staged = -1;
    for (int32_t item = part; item < items; item += parts) {
        const bs_cu_conv_item p = bs_cu_conv_item_of(s, c, item, passes);
        const int32_t block = p.pass * sides + side, first = block * 8, n = p.h * p.w, each = (n + 3) / 4;
        const bool active = side < sides && block < blocks && lane < each;
        const int32_t wide = c.out_c - first > 4 ? 8 : 4;
        const float *w = reinterpret_cast<const float *>(c.weights) +
                         ((int64_t)p.group * padded + first) * taps * c.in_c;
        float sum[4][8] = {};
        int32_t at[4];
#pragma unroll
        for (int k = 0; k < 4; k++) { /* neighbouring threads have neighbouring pixels */
            const int32_t i = min(lane + k * each, n - 1), y = i / p.w;
            at[k] = (y * c.stride_h * p.window_w + (i - y * p.w) * c.stride_w) * apart;
        }
        for (int32_t i = 0; i < c.in_c && taps > 0; i += chunk) {
            const int32_t channels = min(chunk, c.in_c - i);
            if (channels < c.in_c || staged != item / passes) {
                __syncthreads();
                bs_cu_conv_stage(c, p, bs_cu_conv_source(c, p) + i * bs_cu_bytes(c.in_dtype), channels, apart,
                                 window);
                __syncthreads();
                staged = item / passes;
            }
            const int32_t column = c.dilation_w * apart, row = p.window_w * c.dilation_h * apart;
            if (active && wide == 8)
                bs_cu_conv_sum<8>(c, window, row, column, at, w + i * 8, c.in_c * 8, channels, sum);
            else if (active)
                bs_cu_conv_sum<4>(c, window, row, column, at, w + i * 4, c.in_c * 4, channels, sum);
        }
        if (active)
            bs_cu_conv_finish_tile(c, p, first, lane, each, sum);
    }
    return items;
}

__device__ inline void bs_cu_conv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_direct(t, s, c, w.part, w.parts); });
}

#endif
/* ==== end src/cuda/op_conv_direct.cuh ========================================================= */
/* ==== begin src/cuda/op_conv_plain.cuh ======================================================== */
/* op_conv_plain.cuh - conv2d by plain loops over any layout of weights, for what the other kernels cannot do and for
 * BS_CONV_FORCE_REFERENCE.
 * Relies on conv_store.cuh and on all layouts that kernels/conv_pack.c writes. Must never need contiguous
 * channels. */
#ifndef BS_CUDA_OP_CONV_PLAIN
#define BS_CUDA_OP_CONV_PLAIN

/* #include "cuda/conv_store.cuh" */

/* Weight of product k (ky, kx, channel) of output o of a group. */
__device__ inline float bs_cu_conv_weight(const bs_cu_conv &c, int32_t layout, int32_t group, int32_t o, int32_t tap,
                                          int32_t channel)
{
    const int32_t taps = c.kernel_h * c.kernel_w;
    if (layout == 0)
        return reinterpret_cast<const float *>(
            c.weights)[((int64_t)(group * c.out_c + o) * c.in_c + channel) * taps + tap];
    if (layout == 1) {
        const int32_t steps = (taps * c.in_c + 15) / 16, blocks = (c.out_c + 7) / 8, k = tap * c.in_c + channel;
        const int64_t at = (((int64_t)(group * blocks + o / 8) * steps + k / 16) * 8 + o % 8) * 16 + k % 16;
        return bs_cu_get(c.weights, BS_F16, at);
    }
    const int32_t first = o / 8 * 8, wide = c.out_c - first > 4 ? 8 : 4, padded = (c.out_c + 3) / 4 * 4;
    const float *block = reinterpret_cast<const float *>(c.weights) + ((int64_t)group * padded + first) * taps * c.in_c;
    return block[((int64_t)tap * c.in_c + channel) * wide + o - first];
}

__device__ inline void bs_cu_conv2d_plain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_conv &c = bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y));
        bs_cu_scan_run(d, {0, c.h, 0, c.w}, y.dim[0], [&](const bs_cu_scan &k) {
            const int32_t group = k.c / c.out_c;
            const int64_t window = (int64_t)k.y * c.stride_h * c.in_row + (int64_t)k.x * c.stride_w * c.in_pixel +
                                   (int64_t)group * c.in_c * x.stride[0];
            float sum = 0.0f;
            for (int32_t tap = 0; tap < c.kernel_h * c.kernel_w; tap++) {
                const int32_t ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
                const int64_t at = window + (int64_t)ky * c.dilation_h * c.in_row +
                                   (int64_t)kx * c.dilation_w * c.in_pixel;
                for (int32_t i = 0; i < c.in_c; i++)
                    sum = fmaf(bs_cu_get(c.in, c.in_dtype, at + (int64_t)i * x.stride[0]),
                               bs_cu_conv_weight(c, s->p[BS_CU_CONV_LAYOUT].i, group, k.c - group * c.out_c, tap, i),
                               sum);
            }
            bs_cu_put(c.out, c.out_dtype,
                      (int64_t)k.y * c.out_row + (int64_t)k.x * c.out_pixel + (int64_t)k.c * y.stride[0],
                      bs_cu_conv_any(c, k.c, sum));
        });
    });
}

#endif
/* ==== end src/cuda/op_conv_plain.cuh ========================================================== */
/* ==== begin src/cuda/op_conv_tensor.cuh ======================================================= */
/* op_conv_tensor.cuh - conv2d on tensor cores: f16 products, sums in f32. Pixels are the rows of a matrix product, all
 * products of a window its depth, without gaps between taps.
 *
 * conv2d_tensor     windows are copied to shared memory, or read in place
 * conv2d_tile       windows lie in shared memory already, as rows of a tile
 *
 * Relies on conv_store.cuh, tensor.cuh and the layout of BS_CONV_TENSOR (kernels/conv_pack.c). Must never let the
 * order of a sum depend on where a pixel stands or on the cut: it is one order for each geometry. */
#ifndef BS_CUDA_OP_CONV_TENSOR
#define BS_CUDA_OP_CONV_TENSOR

/* #include "cuda/conv_store.cuh" */
/* #include "cuda/tensor.cuh" */

enum {
    BS_CU_TENSOR_PIXELS = 512,
    BS_CU_TENSOR_BAND = 32768 /* pixels that are numbered at once where windows are read directly */
};

/* -------------------------------------------------------------------------------------------- the host's side */

static int32_t bs_cu_tensor_steps(int32_t taps, int32_t in_c) { return (taps * in_c + 15) / 16; }

/* f16 products. In a tile, windows lie in shared memory already; elsewhere they are copied there. Pixels 16 words
 * apart, or a multiple of that, would all be in the same banks. */
static bool bs_cu_conv_describe_tensor(const bs_cu_node *n, bs_device_step *s, int32_t in_c, int64_t h, int64_t w)
{
    const int32_t steps = bs_cu_tensor_steps(s->p[BS_CU_CONV_KERNEL_H].i * s->p[BS_CU_CONV_KERNEL_W].i, in_c);
    const int32_t pixel = in_c % 32 == 0 ? in_c + 8 : in_c;
    const bool half = n->in[0].dtype == BS_F16, tile = n->near && n->in[0].place == BS_AT_TILE;
    const int64_t room = (BS_CU_WORKSPACE - BS_CU_CONV_JOB - 16 * steps) / (2 * pixel);
    if (!(half && tile) && bs_cu_conv_cut(s, h, w, BS_CU_TENSOR_PIXELS, room) &&
        (!half || s->p[BS_CU_CONV_TILE_H].i * s->p[BS_CU_CONV_TILE_W].i >= 32 || h * w < 32)) {
        s->p[BS_CU_CONV_PIXEL].i = pixel;
    } else {
        s->p[BS_CU_CONV_PIXEL].i = 0;
        s->p[BS_CU_CONV_TILE_W].i = (int32_t)(tile ? w : w < 16 ? w : 16);
        s->p[BS_CU_CONV_TILE_H].i = (int32_t)(tile     ? (w < BS_CU_TENSOR_BAND ? BS_CU_TENSOR_BAND / w : 1)
                                              : h < 16 ? h
                                                       : 16);
    }
    s->parts = bs_cu_work_items(bs_cu_conv_tiles(s, h, w) * s->p[BS_CU_CONV_GROUPS].i, 1);
    /* read in place, windows are found by offsets of 32 bits */
    const int64_t down = bs_cu_window(s->p[BS_CU_CONV_TILE_H].i, s->p[BS_CU_CONV_KERNEL_H].i,
                                      bs_cu_down(s->p[BS_CU_CONV_STRIDE].i), bs_cu_down(s->p[BS_CU_CONV_DILATION].i));
    if (s->p[BS_CU_CONV_PIXEL].i == 0 && 2 * (down + 1) * n->in[0].stride[1] > INT32_MAX)
        return false;
    return half || s->p[BS_CU_CONV_PIXEL].i > 0;
}

/* ---------------------------------------------------------------------------------------------------- windows */

/* A window as the products read it: quad q of 4 products is table[q] bytes from a pixel's first one. */
struct bs_cu_conv_window {
    const uint8_t *data;  /* f16: the first window of the tile */
    int32_t row, pixel;   /* bytes between neighbouring outputs, down and across */
    const int32_t *table;
    int32_t steps;
    int32_t spread; /* log2 of the distance between the pixels of neighbouring matrix rows: bs_cu_conv_spread */
};

/* Lanes 4 g .. 4 g + 3 read 8 words of pixel g together, 16 lanes at a time. The four pixels have no bank conflicts
 * when they are an odd multiple of 8 words apart: where neighbours are an odd multiple of 4 or 2 apart, take every 2nd
 * or 4th pixel. */
__device__ __forceinline__ int32_t bs_cu_conv_spread(int32_t bytes)
{
    const int32_t words = bytes / 4;
    return words % 4 == 2 ? 2 : words % 8 == 4 ? 1 : 0;
}

/* Copies the window of a work item to shared memory, as f16, pixels `apart` elements apart. */
__device__ __forceinline__ void bs_cu_conv_stage_half(const bs_cu_conv &c, const bs_cu_conv_item &p,
                                                      const uint8_t *from, bool far, int32_t apart, __half *to)
{
    const int32_t threads = bs_cu_threads(), bytes = bs_cu_bytes(c.in_dtype);
    const bool quads = bs_cu_quads(from, c.in_dtype, c.in_row, c.in_pixel, c.in_c);
    const bool async = far && quads && c.in_dtype == BS_F16 && ((c.in_row | c.in_pixel | c.in_c) & 7) == 0 &&
                       (reinterpret_cast<uintptr_t>(from) & 15) == 0;
    const int32_t each = async ? c.in_c / 8 : quads ? c.in_c / 4 : c.in_c, w = p.window_w, n = p.window_h * w * each;
    for (int32_t i = bs_cu_thread(); i < n; i += threads) {
        const int32_t at = i / each, k = i - at * each, y = at / w, x = at - y * w;
        const uint8_t *pixel = from + ((int64_t)y * c.in_row + x * c.in_pixel) * bytes;
        __half *target = to + at * apart;
        if (async) {
            bs_cu_cp_async_16(target + 8 * k, pixel + 16 * k);
        } else if (quads && c.in_dtype == BS_F16) {
            *reinterpret_cast<uint2 *>(target + 4 * k) = *reinterpret_cast<const uint2 *>(pixel + 8 * k);
        } else if (quads) {
            *reinterpret_cast<uint2 *>(target + 4 * k) = bs_cu_pack_quad(bs_cu_get_quad(pixel, BS_F32, 4 * k));
        } else {
            bs_cu_put(reinterpret_cast<uint8_t *>(target), BS_F16, k, bs_cu_get(pixel, c.in_dtype, k));
        }
    }
    bs_cu_cp_async_commit();
    bs_cu_cp_async_wait<0>();
}

/* Where the quads of products are in a window: bytes from its first sample. Quads beyond the last product read the
 * first sample, with weights of zero. */
__device__ __forceinline__ void bs_cu_conv_table(const bs_cu_conv &c, int32_t row, int32_t pixel, int32_t quads,
                                                 int32_t *table)
{
    const int32_t products = c.kernel_h * c.kernel_w * c.in_c;
    for (int32_t q = bs_cu_thread(); q < quads; q += bs_cu_threads()) {
        const int32_t k = 4 * q, tap = k / c.in_c, ky = tap / c.kernel_w, kx = tap - ky * c.kernel_w;
        table[q] = k < products ? 2 * (ky * c.dilation_h * row + kx * c.dilation_w * pixel + k - tap * c.in_c) : 0;
    }
}

/* --------------------------------------------------------------------------------------------------- products */

/* Two neighbouring outputs of a thread. */
struct bs_cu_conv_pair {
    int32_t channel, valid; /* the first; how many there are: 2, 1 or less */
    float bias[2], slope[2];
};

__device__ __forceinline__ bs_cu_conv_pair bs_cu_conv_pair_of(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                              const bs_cu_conv_item &p, int32_t o)
{
    bs_cu_conv_pair pair = {p.group * c.out_c + o, c.out_c - o, {0.0f, 0.0f}, {e.slope, e.slope}};
    for (int32_t i = 0; i < 2; i++)
        if (i < pair.valid) {
            pair.bias[i] = e.bias[pair.channel + i];
            pair.slope[i] = e.slopes ? e.slopes[pair.channel + i] : e.slope;
        }
    return pair;
}

/* Stores a pair to pixel `at`: row << 16 | column of the tile; -1: not at all. */
template <bool RARE>
__device__ __forceinline__ void bs_cu_conv_put_pair(const bs_cu_conv &c, const bs_cu_conv_end &e,
                                                    const bs_cu_conv_item &p, const bs_cu_conv_pair &pair, int32_t at,
                                                    float d0, float d1)
{
    if (at < 0 || pair.valid <= 0)
        return;
    const int64_t row = (int64_t)(p.y + (at >> 16)) * c.out_row, column = (int64_t)(p.x + (at & 0xffff)) * c.out_pixel;
    const float y0 = bs_cu_conv_finish<RARE>(e, pair.slope[0], d0 + pair.bias[0]),
                y1 = bs_cu_conv_finish<RARE>(e, pair.slope[1], d1 + pair.bias[1]);
    uint8_t *y = c.out + (row + column + pair.channel) * bs_cu_bytes(c.out_dtype);
    if (pair.valid > 1 && c.out_dtype == BS_F16 && (reinterpret_cast<uintptr_t>(y) & 3) == 0) {
        *reinterpret_cast<uint32_t *>(y) = bs_cu_pack_half2(y0, y1);
    } else {
        bs_cu_put(y, c.out_dtype, 0, y0);
        if (pair.valid > 1)
            bs_cu_put(y, c.out_dtype, 1, y1);
    }
}

/* Computes 16 MT pixels of a tile from `base` on, by NT blocks of 8 outputs from `first` on. NEAR: windows are in
 * shared memory. */
template <int MT, int NT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_product(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                   const bs_cu_conv_item &p, int32_t base, int32_t first)
{
    const int32_t lane = bs_cu_lane(), g = lane >> 2, quad = lane & 3, n = p.h * p.w,
                  blocks = (c.out_c + 7) / 8;
    const uint2 *w = reinterpret_cast<const uint2 *>(c.weights) + ((int64_t)p.group * blocks + first) * v.steps * 32 +
                     lane;
    const int32_t apart = v.steps * 32, last = min(NT, blocks - first) - 1; /* beyond it, the last block again */
    const uint8_t *data = v.data;
    if (NEAR)
        BS_CU_ASSUME_SHARED(data);
    int32_t x[2 * MT], at[2 * MT];
    float d[NT * MT * 4]; /* [blocks of outputs][16s of pixels]: pairs of rows g and g + 8 */
#pragma unroll
    for (int m = 0; m < 2 * MT; m++) {
        const int32_t u = m * 2 + (g >> 2);
        const int32_t i = base + ((u >> v.spread) << (v.spread + 2)) + (u & ((1 << v.spread) - 1)) +
                          ((g & 3) << v.spread);
        const int32_t row = min(i, n - 1) / p.w, column = min(i, n - 1) - row * p.w;
        x[m] = row * v.row + column * v.pixel;
        at[m] = i < n ? row << 16 | column : -1;
    }
#pragma unroll
    for (int k = 0; k < NT * MT * 4; k++)
        d[k] = 0.0f;
#pragma unroll 1
    for (int32_t step = 0; step < v.steps; step++, w += 32) {
        const uint8_t *from = data + v.table[4 * step + quad];
        uint2 b[NT];
#pragma unroll
        for (int k = 0; k < NT; k++)
            b[k] = bs_cu_constant(w + min(k, last) * apart);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const uint2 low = *reinterpret_cast<const uint2 *>(from + x[2 * m]),
                        high = *reinterpret_cast<const uint2 *>(from + x[2 * m + 1]);
            const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
            for (int k = 0; k < NT; k++) {
                const uint32_t bk[2] = {b[k].x, b[k].y};
                bs_cu_mma(d + (k * MT + m) * 4, a, bk);
            }
        }
    }
    const bs_cu_conv_end e = bs_cu_conv_end_of(c);
#pragma unroll 1 /* here and below: sums are shifted to the front, so that this code exists once */
    for (int32_t k = 0; k < NT; k++) {
        const bs_cu_conv_pair pair = bs_cu_conv_pair_of(c, e, p, (first + k) * 8 + 2 * quad);
        if (e.rare == BS_ACT_NONE) {
#pragma unroll
            for (int m = 0; m < 2 * MT; m++)
                bs_cu_conv_put_pair<false>(c, e, p, pair, at[m], d[2 * m], d[2 * m + 1]);
        }
#pragma unroll 1
        for (int32_t m = 0; e.rare != BS_ACT_NONE && m < 2 * MT; m++) {
            const int32_t here = at[0];
            const float d0 = d[0], d1 = d[1];
            bs_cu_conv_put_pair<true>(c, e, p, pair, here, d0, d1);
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                at[i] = i + 1 < 2 * MT ? at[i + 1] : here;
                d[2 * i] = i + 1 < 2 * MT ? d[2 * i + 2] : d0;
                d[2 * i + 1] = i + 1 < 2 * MT ? d[2 * i + 3] : d1;
            }
        }
#pragma unroll
        for (int i = 0; i + 4 * MT < NT * MT * 4; i++)
            d[i] = d[i + 4 * MT];
    }
}

/* All products of a tile, divided among the warps; `together`: blocks of outputs of a warp. */
template <int MT, bool NEAR>
__device__ __forceinline__ void bs_cu_conv_products(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                    const bs_cu_conv_item &p, int32_t together)
{
    const int32_t down = (p.h * p.w + 16 * MT - 1) / (16 * MT), blocks = (c.out_c + 7) / 8,
                  across = (blocks + together - 1) / together;
    for (int32_t item = bs_cu_warp(); item < down * across; item += bs_cu_warps()) {
        const int32_t base = item % down * 16 * MT, first = item / down * together;
        if (together == 1)
            bs_cu_conv_product<MT, 1, NEAR>(c, v, p, base, first);
        else if (together == 2 || !NEAR)
            bs_cu_conv_product<MT, 2, NEAR>(c, v, p, base, first);
        else if (together == 3)
            bs_cu_conv_product<MT, NEAR ? 3 : 2, NEAR>(c, v, p, base, first);
        else
            bs_cu_conv_product<MT, MT == 4 ? 3 : NEAR ? 4 : 2, NEAR>(c, v, p, base, first);
    }
}

/* ------------------------------------------------------------------------------------------------ dealing out */

/* Blocks of outputs that a warp computes together: up to 4, so that windows are read less often; fewer where warps
 * would be idle. */
__device__ __forceinline__ int32_t bs_cu_conv_together(const bs_cu_conv &c, const bs_cu_conv_item &p)
{
    const int32_t blocks = (c.out_c + 7) / 8, warps = bs_cu_warps(), groups = (p.h * p.w + 31) / 32;
    const int32_t least = max((blocks + 3) / 4, min(blocks, warps / groups));
    return (blocks + least - 1) / least;
}

/* Chooses the pixels of a warp: 64 at once reuse weights more, 32 leave fewer warps idle at the end. There are
 * registers for 64 only in a tile, which has a multiprocessor to itself. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_deal(const bs_cu_conv &c, const bs_cu_conv_window &v,
                                                const bs_cu_conv_item &p, bool near)
{
    const int32_t n = p.h * p.w, warps = bs_cu_warps(), together = bs_cu_conv_together(c, p);
    if (TILE) {
        const int32_t across = ((c.out_c + 7) / 8 + together - 1) / together;
        const int32_t fours = ((n + 63) / 64 * across + warps - 1) / warps,
                      twos = ((n + 31) / 32 * across + warps - 1) / warps;
        if (together < 4 && fours * 12 <= twos * 7)
            bs_cu_conv_products<4, true>(c, v, p, together);
        else
            bs_cu_conv_products<2, true>(c, v, p, together);
    } else if (near) {
        bs_cu_conv_products<2, true>(c, v, p, together);
    } else {
        bs_cu_conv_products<2, false>(c, v, p, min(together, 2));
    }
}

/* TILE: the operand is a row of a tile, in shared memory already. */
template <bool TILE>
__device__ __forceinline__ void bs_cu_conv_tensor(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_conv &c,
                                                  int32_t part, int32_t parts)
{
    const int32_t items = bs_cu_conv_tiles_of(s, c), apart = TILE ? 0 : s->p[BS_CU_CONV_PIXEL].i;
    int32_t *table = reinterpret_cast<int32_t *>(t.workspace + BS_CU_CONV_JOB);
    BS_CU_ASSUME_SHARED(table);
    bs_cu_conv_window v;
    v.steps = (c.kernel_h * c.kernel_w * c.in_c + 15) / 16;
    v.table = table;
    __half *room = reinterpret_cast<__half *>(table + 4 * v.steps);
    int32_t columns = 0; /* of the window that the table is for */
    for (int32_t item = part; item < items; item += parts) {
        const bs_cu_conv_item p = bs_cu_conv_item_of(s, c, item, 1);
        const int32_t row = apart > 0 ? p.window_w * apart : c.in_row, pixel = apart > 0 ? apart : c.in_pixel;
        const uint8_t *from = bs_cu_conv_source(c, p);
        __syncthreads(); /* the previous work item is done with the workspace */
        if (columns != p.window_w)
            bs_cu_conv_table(c, row, pixel, 4 * v.steps, table);
        if (apart > 0)
            bs_cu_conv_stage_half(c, p, from, t.scratch == NULL, apart, room);
        __syncthreads();
        columns = p.window_w;
        v.data = apart > 0 ? reinterpret_cast<const uint8_t *>(room) : from;
        v.row = 2 * row * c.stride_h;
        v.pixel = 2 * pixel * c.stride_w;
        v.spread = bs_cu_conv_spread(v.pixel);
        bs_cu_conv_deal<TILE>(c, v, p, apart > 0);
    }
}

__device__ inline void bs_cu_conv2d_tensor_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_tensor<false>(t, s, c, w.part, w.parts); });
}

/* Runs in regions only; code for a launch of its own would never be used. */
__device__ inline void bs_cu_conv2d_tile_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (t.scratch != NULL)
        bs_cu_conv_rows(t, s, w, [&](const bs_cu_conv &c) { bs_cu_conv_tensor<true>(t, s, c, w.part, w.parts); });
}

#endif
/* ==== end src/cuda/op_conv_tensor.cuh ========================================================= */

static void bs_cu_conv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_conv2d_desc *d = static_cast<const bs_conv2d_desc *>(n->params);
    const bs_conv2d_form f = bs_conv2d_form_of(d, n->in[0].dim[0]);
    const int32_t groups = f.geometry.groups, in_c = f.geometry.in_channels / groups,
                  out_c = f.geometry.out_channels / groups, algorithm = n->np->algorithm;
    const bool depthwise = in_c == 1 && out_c == 1;
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    s->p[BS_CU_CONV_KERNEL_H].i = f.geometry.kernel_h;
    s->p[BS_CU_CONV_KERNEL_W].i = f.geometry.kernel_w;
    s->p[BS_CU_CONV_STRIDE].i = bs_cu_both(f.geometry.stride_h, f.geometry.stride_w);
    s->p[BS_CU_CONV_PAD_H].i = f.window.axis[0].before;
    s->p[BS_CU_CONV_PAD_W].i = f.window.axis[1].before;
    s->p[BS_CU_CONV_DILATION].i = bs_cu_both(f.geometry.dilation_h, f.geometry.dilation_w);
    s->p[BS_CU_CONV_GROUPS].i = groups;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(bs_conv2d_layout(d, &f.geometry, n->np).bias);
    bs_cu_conv_extent(&n->out[0], &h, &w);
    if (algorithm == BS_CONV_TENSOR && bs_cu_conv_describe_tensor(n, s, in_c, h, w)) {
        const bool tile = n->near && n->in[0].dtype == BS_F16 && n->in[0].place == BS_AT_TILE;
        s->kernel = tile ? BS_CU_conv2d_tile : BS_CU_conv2d_tensor;
    } else if (algorithm == BS_CONV_DIRECT && depthwise) {
        s->kernel = BS_CU_conv2d_depthwise;
        s->parts = bs_cu_work_items(h * w * ((groups + 3) / 4), 2 * BS_CU_THREADS);
    } else if (algorithm == BS_CONV_DIRECT && bs_cu_conv_describe_direct(s, in_c, out_c, h, w)) {
    } else {
        s->kernel = BS_CU_conv2d_plain;
        s->p[BS_CU_CONV_LAYOUT].i = algorithm == BS_CONV_TENSOR ? 1 : algorithm == BS_CONV_DIRECT ? 2 : 0;
        s->parts = bs_cu_work_items(h * w * d->out, 4 * BS_CU_THREADS);
    }
}

#endif
/* ==== end src/cuda/op_conv.cuh ================================================================ */
/* ==== begin src/cuda/op_convert.cuh =========================================================== */
/* op_convert.cuh - between element types, with a scale; and the end of a super-resolution network.
 * Relies on walk.cuh. Must never round or saturate otherwise than ops/convert.c: codes are the same everywhere. */
#ifndef BS_CUDA_OP_CONVERT
#define BS_CUDA_OP_CONVERT

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* #include "ops/forms.h" */
}

/* Parameters of the kernels of this file, in p. */
enum {
    BS_CU_CONVERT_TO,
    BS_CU_CONVERT_SCALE, /* f */
    BS_CU_CONVERT_LOW,   /* in: the descriptor's code_bits; out: the smallest code, */
    BS_CU_CONVERT_HIGH,  /* the largest one */
    BS_CU_CONVERT_CODES  /* 1: integers stay integers */
};

static void bs_cu_convert_limits(const bs_cu_node *n, bs_device_step *s)
{
    const bs_dtype from = (bs_dtype)n->in[0].dtype, to = (bs_dtype)n->out[0].dtype;
    const float scale = s->p[BS_CU_CONVERT_SCALE].f;
    s->p[BS_CU_CONVERT_SCALE].f = scale == 0.0f ? 1.0f : scale;
    s->p[BS_CU_CONVERT_CODES].i = bs_convert_is_integer(from) && bs_convert_is_integer(to) && scale == 0.0f;
    bs_convert_range(to, s->p[BS_CU_CONVERT_LOW].i, &s->p[BS_CU_CONVERT_LOW].i, &s->p[BS_CU_CONVERT_HIGH].i);
}

/* Or the end of the fused chain pixel_shuffle 2, add, convert (plan/fusions.c): operand 0 is then the shuffle's. */
static void bs_cu_convert_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = n->np->fusion ? BS_CU_sr_store : BS_CU_convert;
    bs_cu_convert_limits(n, s);
    bs_cu_cut(n, s);
}

/* An element of any type as f32. */
__device__ __forceinline__ float bs_cu_decode(uint32_t raw, int32_t dtype)
{
    switch (dtype) {
    case BS_F32: return __uint_as_float(raw);
    case BS_F16: return bs_cu_half_from(raw);
    case BS_BF16: return __uint_as_float(raw << 16);
    case BS_I8: return (float)(int8_t)raw;
    case BS_I32: return (float)(int32_t)raw;
    default: return (float)raw;
    }
}

__device__ __forceinline__ uint32_t bs_cu_bfloat_to(float x)
{
    const uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

struct bs_cu_conversion {
    const uint8_t *x;
    uint8_t *y;
    int32_t from, to, low, high;
    float scale;
    bool codes;
    __device__ __forceinline__ uint32_t turn(uint32_t raw) const
    {
        if (codes) {
            const int32_t code = from == BS_I8 ? (int8_t)raw : (int32_t)raw;
            return (uint32_t)min(max(code, low), high);
        }
        const float v = bs_cu_decode(raw, from) * scale;
        if (to == BS_F32 || to == BS_F16)
            return bs_cu_raw(v, to);
        return to == BS_BF16 ? bs_cu_bfloat_to(v) : (uint32_t)bs_f32_to_code(v, low, high);
    }
    __device__ __forceinline__ void one(const int64_t (&at)[2]) const
    {
        bs_cu_store_one(y, bs_cu_bytes(to), at[0], turn(bs_cu_load_one(x, bs_cu_bytes(from), at[1])));
    }
    __device__ __forceinline__ void four(const int64_t (&at)[2]) const
    {
        uint32_t raw[4];
        bs_cu_load_four(x, bs_cu_bytes(from), at[1], raw);
        for (int32_t i = 0; i < 4; i++)
            raw[i] = turn(raw[i]);
        bs_cu_store_four(y, bs_cu_bytes(to), at[0], raw);
    }
};

__device__ inline void bs_cu_convert_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w, 2);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bs_cu_walk<2> k = bs_cu_walk_over<2>({y, x});
        const bs_cu_conversion each = {k.begin[1],
                                       k.begin[0],
                                       x.dtype,
                                       y.dtype,
                                       s->p[BS_CU_CONVERT_LOW].i,
                                       s->p[BS_CU_CONVERT_HIGH].i,
                                       s->p[BS_CU_CONVERT_SCALE].f,
                                       s->p[BS_CU_CONVERT_CODES].i != 0};
        bs_cu_walk_run(k, bs_cu_walk_fours(k), d, each);
    });
}

/* ----------------------------------------------------------------------------------------------- sr_store */

/* Pixel (py, px) of the tail gives four of the result. */
__device__ inline void bs_cu_sr_store_pixel(const bs_device_step *s, const bs_cu_view &tail, const bs_cu_view &base,
                                            const bs_cu_view &y, int32_t py, int32_t px)
{
    const int64_t from = bs_cu_pixel_at(tail, 0, py, px);
    const int32_t low = s->p[BS_CU_CONVERT_LOW].i, high = s->p[BS_CU_CONVERT_HIGH].i;
    const float scale = s->p[BS_CU_CONVERT_SCALE].f;
    float v[4];
    if (tail.stride[0] == 1 && bs_cu_aligned(tail.data, bs_cu_bytes(tail.dtype), from))
        bs_cu_get_four(tail.data, tail.dtype, from, v);
    else
        for (int32_t i = 0; i < 4; i++)
            v[i] = bs_cu_get(tail.data, tail.dtype, from + (int64_t)i * tail.stride[0]);
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const int64_t b = bs_cu_pixel_at(base, 0, 2 * py + i, 2 * px), to = bs_cu_pixel_at(y, 0, 2 * py + i, 2 * px);
        const float left = (v[2 * i] + bs_cu_get(base.data, base.dtype, b)) * scale;
        const float right = (v[2 * i + 1] + bs_cu_get(base.data, base.dtype, b + base.stride[2])) * scale;
        const uint32_t first = (uint32_t)bs_f32_to_code(left, low, high),
                       second = (uint32_t)bs_f32_to_code(right, low, high);
        bs_cu_store_pair(y, to, first, second, true, true);
    }
}

/* The rectangle has even coordinates: it is a cell of the doubled frame. */
__device__ inline void bs_cu_sr_store_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &tail, int32_t r) {
        const bs_cu_view base = bs_cu_open_in(t, s, 1, r);
        bs_cu_scan_run(d, {y.y0 / 2, y.y1 / 2, y.x0 / 2, y.x1 / 2}, 1,
                       [&](const bs_cu_scan &k) { bs_cu_sr_store_pixel(s, tail, base, y, k.y, k.x); });
    });
}

#endif
/* ==== end src/cuda/op_convert.cuh ============================================================= */
/* ==== begin src/cuda/op_deconv.cuh ============================================================ */
/* op_deconv.cuh - deconv2d: a convolution, as op_conv_direct.cuh does it, for each phase of the stride.
 * Relies on op_conv_direct.cuh and on the layouts that deconv2d packs. Must never let the order of a sum depend
 * on where a pixel stands or on the cut. */
#ifndef BS_CUDA_OP_DECONV
#define BS_CUDA_OP_DECONV

/* #include "cuda/op_conv_direct.cuh" */

/* -------------------------------------------------------------------------------------------- the host's side */

/* Floats of the packed phases before number `phase`. */
__host__ __device__ static inline int64_t bs_cu_deconv_packed(int32_t kernel, int32_t stride, int32_t in_c,
                                                              int32_t out_c, int32_t phase)
{
    int64_t floats = 0;
    for (int32_t k = 0; k < phase; k++) {
        const int32_t taps = bs_deconv2d_taps(kernel, stride, k / stride) *
                             bs_deconv2d_taps(kernel, stride, k % stride);
        floats += ((int64_t)taps * in_c * ((out_c + 3) / 4 * 4) + 15) / 16 * 16;
    }
    return floats;
}

/* p as for conv2d: the kernel's size and the padding are the descriptor's, all else is that of a phase. */
static void bs_cu_deconv2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_deconv2d_desc *d = static_cast<const bs_deconv2d_desc *>(n->params);
    const bs_deconv2d_form f = bs_deconv2d_form_of(d, n->in[0].dim[0]);
    const int32_t kernel = f.kernel, stride = f.stride, in_c = f.in;
    const bool reference = n->np->algorithm != BS_CONV_DIRECT;
    int64_t h, w;
    memset(s->p, 0, sizeof s->p);
    bs_cu_conv_extent(&n->out[0], &h, &w);
    /* of the largest phase */
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = bs_deconv2d_taps(kernel, stride, 0);
    s->p[BS_CU_CONV_STRIDE].i = s->p[BS_CU_CONV_DILATION].i = bs_cu_both(1, 1);
    s->p[BS_CU_CONV_GROUPS].i = 1;
    if (reference || !bs_cu_conv_describe_direct(s, in_c, d->out, bs_ceil_div(h, stride), bs_ceil_div(w, stride)))
        s->parts = bs_cu_work_items(h * w * d->out, 4 * BS_CU_THREADS);
    else
        s->parts = bs_cu_work_items((int64_t)s->parts * stride * stride, 1);
    s->p[BS_CU_CONV_KERNEL_H].i = s->p[BS_CU_CONV_KERNEL_W].i = kernel;
    s->p[BS_CU_CONV_UP].i = stride;
    s->p[BS_CU_CONV_PAD_H].i = s->p[BS_CU_CONV_PAD_W].i = d->pad;
    s->p[BS_CU_CONV_ACT].i = d->act;
    s->p[BS_CU_CONV_PARAM].f = d->act_param;
    s->p[BS_CU_CONV_BIAS].i = (int32_t)bs_bytes_figure(bs_deconv2d_layout(&f, n->np, d->act).bias);
    s->p[BS_CU_CONV_LAYOUT].i = !reference;
}

/* ------------------------------------------------------------------------------------------------ plain loops */

/* (y + pad) mod stride, of any sign. */
__device__ __forceinline__ int32_t bs_cu_deconv_phase(int32_t y, int32_t pad, int32_t stride)
{
    const int32_t rest = (y + pad) % stride;
    return rest < 0 ? rest + stride : rest;
}

__device__ inline void bs_cu_deconv_plain(const bs_cu_view &x, const bs_cu_view &y, const bs_cu_conv &c, int32_t pad,
                                          int32_t up, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    const float *weights = reinterpret_cast<const float *>(c.weights);
    bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) {
        float sum = 0.0f;
        for (int32_t ky = bs_cu_deconv_phase(k.y, pad, up); ky < c.kernel_h; ky += up)
            for (int32_t kx = bs_cu_deconv_phase(k.x, pad, up); kx < c.kernel_w; kx += up)
                for (int32_t i = 0; i < x.dim[0]; i++)
                    sum = fmaf(bs_cu_get(x.data, x.dtype,
                                         bs_cu_pixel_at(x, i, (k.y + pad - ky) / up, (k.x + pad - kx) / up)),
                               weights[(((int64_t)i * y.dim[0] + k.c) * c.kernel_h + ky) * c.kernel_w + kx], sum);
        bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x), bs_cu_conv_any(c, k.c, sum));
    });
}

/* ----------------------------------------------------------------------------------------------------- phases */

/* Phase (a, b) as a convolution: every stride-th output from the phase's first one on, with the taps in reverse. */
__device__ __forceinline__ bs_cu_conv bs_cu_deconv_job(const bs_cu_conv &whole, const bs_cu_view &x,
                                                       const bs_cu_view &y, int32_t pad, int32_t up, int32_t phase)
{
    bs_cu_conv c = whole;
    const int32_t a = phase / up, b = phase % up;
    const int32_t down = a - bs_cu_deconv_phase(y.y0, pad, up), right = b - bs_cu_deconv_phase(y.x0, pad, up);
    const int32_t oy = y.y0 + (down < 0 ? down + up : down), ox = y.x0 + (right < 0 ? right + up : right);
    c.kernel_h = bs_deconv2d_taps(whole.kernel_h, up, a);
    c.kernel_w = bs_deconv2d_taps(whole.kernel_w, up, b);
    const int32_t iy = (oy + pad - a) / up - (c.kernel_h - 1), ix = (ox + pad - b) / up - (c.kernel_w - 1);
    c.in = x.data + bs_cu_pixel_at(x, 0, iy, ix) * bs_cu_bytes(x.dtype);
    c.out = y.data + bs_cu_pixel_at(y, 0, oy, ox) * bs_cu_bytes(y.dtype);
    c.out_row = y.stride[1] * up;
    c.out_pixel = y.stride[2] * up;
    c.h = max(0, (y.y1 - oy + up - 1) / up);
    c.w = max(0, (y.x1 - ox + up - 1) / up);
    c.weights = whole.weights + 4 * bs_cu_deconv_packed(whole.kernel_h, up, whole.in_c, whole.out_c, phase);
    return c;
}

/* Not inlined: the loop over phases would leave it too few registers. */
static __device__ __noinline__ int32_t bs_cu_deconv_phase_run(const bs_cu_tile &t, const bs_device_step *s,
                                                              const bs_cu_conv &c, int32_t part, int32_t parts)
{
    return bs_cu_conv_direct(t, s, c, part, parts);
}

__device__ inline void bs_cu_deconv2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t up = s->p[BS_CU_CONV_UP].i;
    for (int32_t r = w.row; r < w.end; r++) {
        int32_t part = w.part; /* work items are numbered across all phases */
        /* everything is looked up again in each phase, because registers are scarce */
        for (int32_t phase = 0; phase < (s->p[BS_CU_CONV_LAYOUT].i == 0 ? 1 : up * up); phase++) {
            const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
            const int32_t pad = s->p[BS_CU_CONV_PAD_H].i;
            if (phase == 0)
                bs_cu_zero_margin(w, y);
            if (s->p[BS_CU_CONV_LAYOUT].i == 0) {
                bs_cu_deconv_plain(x, y, bs_cu_conv_share(t, bs_cu_conv_of(t, s, x, y)), pad, up, w);
            } else if (bs_cu_conv_sound(t, s, x, y)) {
                const bs_cu_conv &job =
                    bs_cu_conv_share(t, bs_cu_deconv_job(bs_cu_conv_of(t, s, x, y), x, y, pad, up, phase));
                part -= bs_cu_deconv_phase_run(t, s, job, part, w.parts) % w.parts;
                part += part < 0 ? w.parts : 0;
            }
        }
    }
}

#endif
/* ==== end src/cuda/op_deconv.cuh ============================================================== */
/* #include "cuda/op_elementwise.cuh" */
/* ==== begin src/cuda/op_features.cuh ========================================================== */
/* op_features.cuh - patch_features: how busy a patch is and how much it changed, as small integers.
 * Reads the core only; sums are of integers, so their order does not matter.
 * Relies on walk.cuh. Must never use floating point. */
#ifndef BS_CUDA_OP_FEATURES
#define BS_CUDA_OP_FEATURES

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* ==== begin src/ops/features.h ================================================================ */
/* ops/features.h - from the sums of patch_features to the small integers that are the keys of a routing table.
 * Relies on base/base.h. Must never use floating point: decisions must be the same on every machine. */
#ifndef BS_OPS_FEATURES_H
#define BS_OPS_FEATURES_H

/* #include "base/base.h" */

#define BS_FEATURE_BUCKETS 64
#define BS_FEATURE_MOST    128 /* bucket of 2^32 - 1, where sums saturate */

/* Codes of more than 8 bits are shifted right by this many bits. */
static inline int32_t bs_feature_shift(int32_t code_bits) { return bs_or_default(code_bits, 16) - 8; }

/* floor(4 log2(v)), v > 0: the top bit, and quarters by comparing v, shifted up to 2^31 .. 2^32, with 2^(31 + j/4). */
static inline BS_BOTH int32_t bs_quarter_log2(uint32_t v)
{
    int32_t bit = 31;
    for (int32_t step = 16; step > 0; step /= 2)
        if (v >> (32 - step) == 0) {
            v <<= step;
            bit -= step;
        }
    return 4 * bit + (v >= 0x9837f052u) + (v >= 0xb504f334u) + (v >= 0xd744fccbu);
}

static inline BS_BOTH int32_t bs_feature_bucket(uint64_t sum, uint64_t area, int32_t buckets)
{
    const uint64_t v = 16 * sum / area;
    if (v == 0)
        return 0;
    return bs_min_i32(1 + bs_quarter_log2(v > UINT32_MAX ? UINT32_MAX : (uint32_t)v), buckets - 1);
}

#endif
/* ==== end src/ops/features.h ================================================================== */
}

/* Its parameters, in p. */
enum {
    BS_CU_FEATURES_BUCKETS,
    BS_CU_FEATURES_SHIFT, /* in: the descriptor's code_bits; out: bits that codes are shifted down */
    BS_CU_FEATURES_WARP   /* 1: a warp a cell */
};

static void bs_cu_patch_features_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int64_t samples = bs_cu_pixels(&n->in[0]) * n->in[0].dim[0];
    s->p[BS_CU_FEATURES_BUCKETS].i = bs_or_default(s->p[BS_CU_FEATURES_BUCKETS].i, BS_FEATURE_BUCKETS);
    s->p[BS_CU_FEATURES_SHIFT].i = n->in[0].dtype == BS_U8 ? 0 : bs_feature_shift(s->p[BS_CU_FEATURES_SHIFT].i);
    s->p[BS_CU_FEATURES_WARP].i = samples <= 1024;
    s->batch = samples <= 1024 ? 8 : 1;
}

__device__ __forceinline__ int32_t bs_cu_feature_code(const bs_cu_view &v, int32_t shift, int32_t c, int32_t y,
                                                      int32_t x)
{
    return (int32_t)bs_cu_load_one(v.data, bs_cu_bytes(v.dtype), bs_cu_pixel_at(v, c, y, x)) >> shift;
}

__device__ __forceinline__ uint64_t bs_cu_feature_square(int32_t d) { return (uint64_t)((int64_t)d * d); }

/* The sums over this worker's samples of a cell. */
__device__ inline void bs_cu_feature_sums(const bs_cu_deal &d, const bs_cu_view &x, const bs_cu_view &reference,
                                          bool both, int32_t shift, uint64_t *energy, uint64_t *change)
{
    const int32_t h = x.dim[1], width = x.dim[2];
    *energy = *change = 0;
    bs_cu_scan_run(d, {0, h, 0, width}, x.dim[0], [&](const bs_cu_scan &k) {
        const int32_t code = bs_cu_feature_code(x, shift, k.c, k.y, k.x);
        *energy += bs_cu_feature_square(4 * code - bs_cu_feature_code(x, shift, k.c, max(k.y - 1, 0), k.x) -
                                        bs_cu_feature_code(x, shift, k.c, min(k.y + 1, h - 1), k.x) -
                                        bs_cu_feature_code(x, shift, k.c, k.y, max(k.x - 1, 0)) -
                                        bs_cu_feature_code(x, shift, k.c, k.y, min(k.x + 1, width - 1)));
        if (both)
            *change += bs_cu_feature_square(code - bs_cu_feature_code(reference, shift, k.c, k.y, k.x));
    });
}

__device__ inline void bs_cu_feature_put(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                         uint64_t energy, uint64_t change)
{
    const uint64_t area = (uint64_t)x.dim[0] * (uint64_t)max(x.dim[1], 0) * (uint64_t)max(x.dim[2], 0);
    int32_t *to = reinterpret_cast<int32_t *>(y.data);
    to[0] = area ? bs_feature_bucket(energy, area, s->p[BS_CU_FEATURES_BUCKETS].i) : 0;
    to[y.stride[0]] = area && s->n_in > 1 ? bs_feature_bucket(change, area, s->p[BS_CU_FEATURES_BUCKETS].i) : 0;
}

/* A warp a cell, or all threads one after the other. */
__device__ inline void bs_cu_patch_features_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bool small = s->p[BS_CU_FEATURES_WARP].i != 0;
    const bs_cu_deal warps = {w.row + bs_cu_warp(), bs_cu_warps(), w.end, bs_cu_lane(), 32},
                     d = small ? warps : bs_cu_deal_whole(w);
    uint64_t *sums = reinterpret_cast<uint64_t *>(t.workspace);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
        const bs_cu_view reference = bs_cu_open_in(t, s, s->n_in - 1, r);
        uint64_t energy, change;
        bs_cu_feature_sums(d, x, reference, s->n_in > 1, s->p[BS_CU_FEATURES_SHIFT].i, &energy, &change);
        energy = small ? bs_cu_lanes_sum(energy) : bs_cu_sum_threads(sums, energy);
        change = small ? bs_cu_lanes_sum(change) : bs_cu_sum_threads(sums, change);
        if (d.index == 0)
            bs_cu_feature_put(s, x, y, energy, change);
    }
}

#endif
/* ==== end src/cuda/op_features.cuh ============================================================ */
/* ==== begin src/cuda/op_from_data.cuh ========================================================= */
/* op_from_data.cuh - ops whose result is as long as their data say: arange, nonzero.
 * One block does all of it, because what it finds has one order and one number. Relies on extents_made.cuh. Must never
 * write an element beyond its maximum: what there is is counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_FROM_DATA
#define BS_CUDA_OP_FROM_DATA

/* #include "cuda/describe.cuh" */
/* ==== begin src/cuda/extents_made.cuh ========================================================= */
/* extents_made.cuh - extents that a step finds in its data, and steps that have nothing to do because of that.
 *
 * A kernel that makes a dimension says how long it is (bs_cu_made); the launch after it puts that into the operands and
 * domains (bs_cu_extend in launch.cuh). Until then they hold the maximum.
 * Relies on program.cuh. Must never let an extent become one that memory was not planned for. */
#ifndef BS_CUDA_EXTENTS_MADE
#define BS_CUDA_EXTENTS_MADE

/* #include "cuda/program.cuh" */

/* Sets the symbol that a step makes, and what is derived of it. Called by one thread of the launch. */
__device__ inline void bs_cu_made(const bs_cu_tile &t, const bs_device_step *s, int64_t extent)
{
    const bs_cu_program &p = *t.program;
    for (int32_t d = s->makes - 1; d < p.n_dims; d++) {
        const bs_device_dim &dim = p.derived[d];
        if (dim.node != s->node)
            continue;
        if (dim.parent >= 0)
            extent = bs_floor_div((int64_t)p.extents[dim.parent] * dim.mul + dim.add, dim.div);
        if (extent < 0 || extent > dim.maximum) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        p.extents[d] = (int32_t)extent;
    }
}

__device__ inline bool bs_cu_is_empty(const bs_device_operand *o)
{
    bool empty = false;
    for (int32_t i = 0; i < o->rank; i++)
        empty = empty || o->dim[i] == 0;
    return empty;
}

/* As wants_kernel in run/call.c: whether a step is to run. It is not where all results are empty; where an operand
 * alone is, the run fails unless the step has a result all the same. */
__device__ inline bool bs_cu_wants_kernel(const bs_cu_tile &t, const bs_device_step *s)
{
    if (!t.program->extents)
        return true;
    bool empty = s->n_out > 0, lacks = false;
    for (int32_t i = 0; i < s->n_out; i++)
        empty = empty && bs_cu_is_empty(bs_cu_in_of_many(t, s, s->n_in + i));
    for (int32_t i = 0; i < s->n_in && !s->empty; i++)
        lacks = lacks || bs_cu_is_empty(bs_cu_in_of_many(t, s, i));
    if (lacks && !empty)
        bs_cu_fail(t, s, BS_ERROR_DATA);
    return !lacks && !empty;
}

#endif
/* ==== end src/cuda/extents_made.cuh =========================================================== */
/* #include "cuda/kernels.cuh" */
/* ==== begin src/ops/found.h =================================================================== */
/* ops/found.h - what decides how long a result is, for plain kernels and a device: the order of elements, boxes and
 * what they share. Relies on base/base.h. Must never leave a rounding to the compiler. */
#ifndef BS_OPS_FOUND_H
#define BS_OPS_FOUND_H

/* #include "base/base.h" */

#include <math.h>

/* How many elements start, start + step, ... has before `limit`; infinity: not any number of them, as its step is 0 or
 * not all three are finite. */
static inline BS_BOTH double bs_range_elements(double start, double limit, double step)
{
    const bool finite = fabs(start) < (double)INFINITY && fabs(limit) < (double)INFINITY &&
                        fabs(step) < (double)INFINITY;
    return finite && step != 0 ? fmax(ceil((limit - start) / step), 0.0) : (double)INFINITY;
}

/* Numbers without a sign that order as elements of f32 or i32 with these bits do: those of a float from its largest
 * negative one on, then 0 of any sign, and last NaN of any kind. */
static inline BS_BOTH uint32_t bs_order_key(bs_dtype dtype, uint32_t bits)
{
    const uint32_t sign = UINT32_C(1) << 31, infinite = UINT32_C(0x7f800000), size = bits & ~sign;
    if (dtype == BS_I32)
        return bits ^ sign;
    if (size > infinite)
        return UINT32_MAX;
    if (size == 0)
        return sign;
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

/* -------------------------------------------------------------------------------------------------------- boxes */

typedef struct bs_box {
    float low[2], high[2], area;
} bs_box;

/* Which of both axes is which makes no difference. */
static inline BS_BOTH bs_box bs_box_of(const float *at, ptrdiff_t step, bool centre)
{
    bs_box box;
    for (int32_t axis = 0; axis < 2; axis++) {
        const float a = at[axis * step], b = at[(axis + 2) * step];
        const double half = centre ? 0.5 * (double)b : 0;
        const float first = centre ? (float)((double)a - half) : a, second = centre ? (float)((double)a + half) : b;
        box.low[axis] = first < second ? first : second;
        box.high[axis] = first < second ? second : first;
    }
    box.area = BS_PRODUCT(box.high[0] - box.low[0], box.high[1] - box.low[1]);
    return box;
}

/* Whether what both have in common is more than this part of what one of them has. */
static inline BS_BOTH bool bs_boxes_overlap(const bs_box *a, const bs_box *b, float most)
{
    float side[2];
    for (int32_t axis = 0; axis < 2; axis++) {
        const float low = a->low[axis] > b->low[axis] ? a->low[axis] : b->low[axis],
                    high = a->high[axis] < b->high[axis] ? a->high[axis] : b->high[axis];
        side[axis] = high > low ? high - low : 0;
    }
    const float both = BS_PRODUCT(side[0], side[1]), either = a->area + b->area - both;
    return either > 0 && both / either > most;
}

#endif
/* ==== end src/ops/found.h ===================================================================== */

/* One work item. */
static void bs_cu_arange_describe(const bs_cu_node *n, bs_device_step *s) { (void)n, (void)s; }

static constexpr bs_cu_describe bs_cu_nonzero_describe = bs_cu_arange_describe;

/* ------------------------------------------------------------------------------------------------------ arange */

/* Operand i of arange; `otherwise`, if there is none. */
__device__ inline double bs_cu_arange_operand(const bs_cu_tile &t, const bs_device_step *s, int32_t i, double otherwise)
{
    if (i >= s->n_in)
        return otherwise;
    const bs_device_operand *in = bs_cu_in(t, s, i);
    const uint8_t *at = bs_cu_row(t, in, 0);
    return in->dtype == BS_I32 ? (double)*reinterpret_cast<const int32_t *>(at) : (double)bs_cu_get(at, in->dtype, 0);
}

__device__ inline void bs_cu_arange_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const double limit = bs_cu_arange_operand(t, s, 0, 0), start = bs_cu_arange_operand(t, s, 1, 0),
                 step = bs_cu_arange_operand(t, s, 2, 1), count = bs_range_elements(start, limit, step);
    uint8_t *to = bs_cu_row(t, out, 0);
    (void)w;
    if (count >= 1e18) {
        bs_cu_fail(t, s, BS_ERROR_DATA);
        return;
    }
    const int64_t extent = (int64_t)count, end = extent < out->dim[0] ? extent : out->dim[0];
    for (int64_t i = bs_cu_thread(); i < end; i += bs_cu_threads()) {
        const double element = fma((double)i, step, start);
        if (out->dtype == BS_I32)
            reinterpret_cast<int32_t *>(to)[i * out->stride[0]] = (int32_t)element;
        else
            bs_cu_put(to, out->dtype, i * out->stride[0], (float)element);
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, extent);
}

/* ----------------------------------------------------------------------------------------------------- nonzero */

/* All bits of an element but the sign of a float: 0 where it is zero. */
__device__ __forceinline__ uint32_t bs_cu_element_bits(const uint8_t *x, int32_t dtype, int64_t at)
{
    const uint32_t bits = bs_cu_load_one(x, bs_cu_bytes(dtype), at);
    return bits & (dtype == BS_F32 ? 0x7fffffffu : dtype == BS_F16 ? 0x7fffu : 0xffffffffu);
}

/* The number of threads before this one for which `is` holds. *all: of all threads. of_warp: a word a warp, which may
 * be written again after the next barrier. All threads. */
__device__ inline int32_t bs_cu_rank(bool is, int32_t *of_warp, int32_t *all)
{
    const uint32_t votes = __ballot_sync(0xffffffffu, is);
    int32_t before = __popc(votes & ((1u << bs_cu_lane()) - 1u));
    if (bs_cu_lane() == 0)
        of_warp[bs_cu_warp()] = __popc(votes);
    __syncthreads();
    *all = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        before += k < bs_cu_warp() ? of_warp[k] : 0;
        *all += of_warp[k];
    }
    return before;
}

/* The index of element number i of x along each dimension; returns where it lies. */
__device__ inline int64_t bs_cu_index_of(const bs_device_operand *x, int64_t i, int32_t (&index)[BS_MAX_AXES])
{
    int64_t at = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        index[d] = (int32_t)(i % x->dim[d]);
        i /= x->dim[d];
        at += (int64_t)index[d] * x->stride[d];
    }
    return at;
}

__device__ inline void bs_cu_nonzero_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const uint8_t *from = bs_cu_row(t, x, 0);
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, out, 0));
    const int64_t elements = bs_cu_product(x->dim, x->rank);
    int64_t found = 0;
    (void)w;
    for (int64_t first = 0; first < elements; first += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES] = {0}, all;
        const int64_t i = first + bs_cu_thread(), at = bs_cu_index_of(x, i < elements ? i : 0, index);
        const bool is = i < elements && bs_cu_element_bits(from, x->dtype, at) != 0;
        const int64_t row = found + bs_cu_rank(is, reinterpret_cast<int32_t *>(t.workspace), &all);
        for (int32_t d = 0; is && row < out->dim[0] && d < x->rank; d++)
            to[row * out->stride[0] + d * out->stride[1]] = index[d];
        found += all;
        __syncthreads(); /* before the next round takes the workspace */
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, found);
}

#endif
/* ==== end src/cuda/op_from_data.cuh =========================================================== */
/* ==== begin src/cuda/op_gather.cuh ============================================================ */
/* op_gather.cuh - brings what the paths of a router gave back to the rows they came from.
 *
 * fill              the rows that no path gives
 * paths             several paths a row: their sum, or the row of the path with the largest gate
 *
 * Relies on move_rows.cuh. Must never add up in an order that depends on threads or on other rows: the order is that of
 * the paths, then the residual. */
#ifndef BS_CUDA_OP_GATHER
#define BS_CUDA_OP_GATHER

/* #include "cuda/kernels.cuh" */
/* #include "cuda/move_rows.cuh" */

enum { BS_CU_SUM_EACH = 2048 }; /* elements of a work item of a sum: two words a thread */

/* --------------------------------------------------------------------------------------------------- describe */

/* Parameters of the kernels of this file, in p. *_GIVEN: the first word of the bits that say which paths give a value.
 * */
enum { BS_CU_FILL_GIVEN };
enum {
    BS_CU_GATHER_COMBINE,
    BS_CU_GATHER_RESIDUAL, /* whether there is one */
    BS_CU_GATHER_GIVEN
};

static void bs_cu_fill_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

static void bs_cu_paths_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_router_info *router = &n->graph->routers[n->node->router];
    const int64_t elements = bs_cu_elements(&n->out[0]);
    s->p[BS_CU_GATHER_COMBINE].i = n->instr->combine;
    s->p[BS_CU_GATHER_RESIDUAL].i = n->instr->value != 0;
    s->parts = bs_cu_work_items(elements, BS_CU_SUM_EACH);
    if (elements <= 512 && router->max_paths_per_cell <= 16) { /* a warp a row; its sources fit the workspace */
        s->p[BS_CU_MOVE_TEAM].i = 32;
        s->batch = 8;
    }
}

/* ------------------------------------------------------------------------------------------- what was decided */

/* Whether a path gives this step's gather a value; p[at]: the first word of its bits (step.cuh). */
__device__ __forceinline__ bool bs_cu_path_gives(const bs_cu_tile &t, const bs_device_step *s, int32_t at, int32_t path)
{
    return t.program->given[s->p[at].i + (path >> 5)] >> (path & 31) & 1;
}

/* A row's number within a decision: one that was not made in the tile counts all rows. */
__device__ __forceinline__ int32_t bs_cu_decided_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row)
{
    return row + (t.record->decision.in_tile ? 0 : bs_cu_before(t, s->domain));
}

/* Whether choice `at` of a decision gave the gather a row. */
__device__ __forceinline__ bool bs_cu_gives(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_decision &d,
                                            int64_t at)
{
    const int32_t path = d.chosen[at];
    return path >= 0 && d.inverse[at] >= 0 && bs_cu_path_gives(t, s, BS_CU_GATHER_GIVEN, path);
}

/* ------------------------------------------------------------------------------------------------------- fill */

/* The rows that no path gives: the residual's, or zeros. */
__device__ inline void bs_cu_fill_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        const int32_t path = d.chosen[(int64_t)bs_cu_decided_row(t, s, r) * d.per_row];
        if (path >= 0 && bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, path))
            continue;
        const bs_cu_view to = bs_cu_open_target(t, out, r);
        if (s->n_in > 0)
            bs_cu_row_copy(to, bs_cu_open_in(t, s, 0, r), team, t.workspace, w);
        else
            bs_cu_zero_rect(to, to, team, w);
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* ------------------------------------------------------------------------------------------- sources of a sum */

/* A row that goes into a sum: what one path gave for it, or the residual. Steps are those of the result's loops. */
struct bs_cu_addend {
    const uint8_t *data;
    int32_t step[4];
    bs_cu_rect there; /* of images */
    float gate;
    int32_t dtype;
};

/* The dimension that loop k of a sum goes along: of images channel, x, y; else the last one first. -1: none. */
__device__ __forceinline__ int32_t bs_cu_sum_axis(bool image, int32_t rank, int32_t k)
{
    return !image ? rank - 1 - k : k == 0 ? 0 : k == 3 ? -1 : 3 - k;
}

/* image: the result is one. */
__device__ inline void bs_cu_addend_open(const bs_cu_view &v, float gate, bool image, bs_cu_addend *source)
{
    source->data = v.data;
    source->there = v;
    source->gate = gate;
    source->dtype = v.dtype;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t axis = bs_cu_sum_axis(image, v.rank, k);
        source->step[k] = axis < 0 ? 0 : bs_cu_pick(v.stride, axis);
    }
}

enum { BS_CU_SUM_SOURCES = 448 }; /* addends of a row at once */
static_assert(BS_CU_SUM_SOURCES * sizeof(bs_cu_addend) <= BS_CU_WORKSPACE, "sources lie in the workspace");

/* The addends of a row are what its paths gave, in path order, then the residual. Writes those from number `from` on to
 * `sources`, as many as there is room for; returns how many there are in all. A row takes a path once at most, so an
 * addend's number is the count of lower paths. By a team; the caller synchronises. */
__device__ inline int32_t bs_cu_sources(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, int32_t from, bs_cu_addend *sources)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    const bool image = bs_cu_out(t, s, 0)->image, residual = s->p[BS_CU_GATHER_RESIDUAL].i != 0;
    bs_cu_addend last; /* opened before the others are: it waits for nothing that they need */
    if (residual && team.rank == 0)
        bs_cu_addend_open(bs_cu_open_in(t, s, 0, row), 1.0f, image, &last);
    int32_t count = 0;
    for (int32_t k = team.rank; k < d.per_row || k == team.rank; k += team.size) { /* once at least: all need count */
        const int32_t path = k < d.per_row && bs_cu_gives(t, s, d, at + k) ? d.chosen[at + k] : -1;
        int32_t before = 0;
        count = 0;
        for (int32_t i = 0; i < d.per_row; i++) {
            const bool gives = bs_cu_gives(t, s, d, at + i);
            count += gives;
            before += gives && d.chosen[at + i] < path;
        }
        if (path >= 0 && before >= from && before - from < BS_CU_SUM_SOURCES)
            bs_cu_addend_open(bs_cu_open_of_many(t, s, 1 + path, d.inverse[at + k] - d.offsets[path]),
                              s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SUM ? 1.0f : d.gates[at + k], image,
                              &sources[before - from]);
    }
    if (residual && team.rank == 0 && count >= from && count - from < BS_CU_SUM_SOURCES)
        sources[count - from] = last;
    return count + residual;
}

/* ----------------------------------------------------------------------------------------------------- reduce */

/* The loops of the result, and where its first element is: of images channel, x, y. */
struct bs_cu_sum {
    uint8_t *to;
    int32_t n[4], step[4];
    int32_t y0, x0, dtype;
    bool image;
};

__device__ inline bs_cu_sum bs_cu_sum_of(const bs_cu_view &v)
{
    bs_cu_sum m;
    m.image = v.image;
    m.y0 = m.image ? v.y0 : 0;
    m.x0 = m.image ? v.x0 : 0;
    m.dtype = v.dtype;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t axis = bs_cu_sum_axis(v.image, v.rank, k);
        m.n[k] = axis < 0 ? 1 : bs_cu_pick(v.dim, axis);
        m.step[k] = axis < 0 ? 0 : bs_cu_pick(v.stride, axis);
    }
    if (m.image) {
        m.n[1] = max(v.x1 - v.x0, 0);
        m.n[2] = max(v.y1 - v.y0, 0);
    }
    m.to = v.data;
    return m;
}

/* Whether rows with these steps can be read in words of four elements. */
__device__ __forceinline__ bool bs_cu_by_four(const uint8_t *data, int32_t dtype, const int32_t *n, const int32_t *step)
{
    const int32_t bytes = bs_cu_bytes(dtype);
    return step[0] == 1 && n[0] % 4 == 0 && bs_cu_word(data, n, step, bytes) >= 4 * bytes;
}

/* Sums word number i, of `each` (4 or 1) elements, of all sources in their order. more: adds to what is stored
 * already. */
template <int each>
__device__ __forceinline__ void bs_cu_sum_at(const bs_cu_sum &m, const bs_cu_addend *sources, int32_t count, bool more,
                                             uint32_t i)
{
    const uint32_t width = (uint32_t)m.n[0] / each;
    uint32_t line = m.n[1] * m.n[2] * m.n[3] == 1 ? 0 : i / width;
    const int32_t c = (int32_t)(i - line * width) * each, x = m.x0 + (int32_t)(line % (uint32_t)m.n[1]);
    line /= (uint32_t)m.n[1];
    const int32_t y = m.y0 + (int32_t)(line % (uint32_t)m.n[2]), z = (int32_t)(line / (uint32_t)m.n[2]);
    const int64_t to = (int64_t)c * m.step[0] + (int64_t)x * m.step[1] + (int64_t)y * m.step[2] +
                       (int64_t)z * m.step[3];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (more && each == 4)
        sum = bs_cu_get_quad(m.to, m.dtype, to);
    else if (more)
        sum.x = bs_cu_get(m.to, m.dtype, to);
    for (int32_t k = 0; k < count; k++) {
        const bs_cu_addend &from = sources[k];
        if (m.image && (y < from.there.y0 || y >= from.there.y1 || x < from.there.x0 || x >= from.there.x1))
            continue;
        const int64_t at = (int64_t)c * from.step[0] + (int64_t)x * from.step[1] + (int64_t)y * from.step[2] +
                           (int64_t)z * from.step[3];
        if (each == 4) {
            const float4 v = bs_cu_get_quad(from.data, from.dtype, at);
            sum.x = bs_cu_mul_add(from.gate, v.x, sum.x);
            sum.y = bs_cu_mul_add(from.gate, v.y, sum.y);
            sum.z = bs_cu_mul_add(from.gate, v.z, sum.z);
            sum.w = bs_cu_mul_add(from.gate, v.w, sum.w);
        } else {
            sum.x = bs_cu_mul_add(from.gate, bs_cu_get(from.data, from.dtype, at), sum.x);
        }
    }
    if (each == 4)
        bs_cu_put_quad(m.to, m.dtype, to, sum);
    else
        bs_cu_put(m.to, m.dtype, to, sum.x);
}

/* This team's share of a row, from its sources. */
__device__ inline void bs_cu_sum_row(const bs_cu_view &to, const bs_cu_addend *sources, int32_t count, bool more,
                                     const bs_cu_team &team, const bs_cu_work &w)
{
    const bs_cu_sum m = bs_cu_sum_of(to);
    bool four = bs_cu_by_four(m.to, m.dtype, m.n, m.step);
    for (int32_t k = 0; four && k < count; k++)
        four = bs_cu_by_four(sources[k].data, sources[k].dtype, m.n, sources[k].step);
    const uint32_t total = (uint32_t)m.n[0] * (uint32_t)m.n[1] * (uint32_t)m.n[2] * (uint32_t)m.n[3];
    uint32_t first, last;
    bs_cu_share(four ? total / 4 : total, w, &first, &last);
    for (uint32_t i = first + (uint32_t)team.rank; i < last; i += (uint32_t)team.size) {
        if (four)
            bs_cu_sum_at<4>(m, sources, count, more, i);
        else
            bs_cu_sum_at<1>(m, sources, count, more, i);
    }
}

/* The row of the path with the largest gate, the lower path of equals; where it gives none the residual's or zeros. */
__device__ inline void bs_cu_select_row(const bs_cu_tile &t, const bs_device_step *s, int32_t row,
                                        const bs_cu_team &team, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int64_t at = (int64_t)bs_cu_decided_row(t, s, row) * d.per_row;
    int64_t best = -1;
    for (int64_t i = at; i < at + d.per_row; i++)
        if (d.chosen[i] >= 0 && d.inverse[i] >= 0 &&
            (best < 0 || d.gates[i] > d.gates[best] || (d.gates[i] == d.gates[best] && d.chosen[i] < d.chosen[best])))
            best = i;
    if (best >= 0 && !bs_cu_gives(t, s, d, best))
        best = -1; /* the path of the largest gate gives nothing */
    const bs_cu_view to = bs_cu_open_target(t, out, row);
    if (best < 0 && !s->p[BS_CU_GATHER_RESIDUAL].i) {
        bs_cu_zero_rect(to, to, team, w);
        return;
    }
    const bs_cu_view from = bs_cu_open_of_many(t, s, best < 0 ? 0 : 1 + d.chosen[best],
                                               best < 0 ? row : d.inverse[best] - d.offsets[d.chosen[best]]);
    bs_cu_row_copy(to, from, team, t.workspace, w);
    if (to.image && w.part == 0)
        bs_cu_zero_ring(to, bs_cu_common(to, from), to, team);
}

__device__ inline void bs_cu_paths_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    const bool sums = s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SUM ||
                      s->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_WEIGHTED_SUM;
    const int32_t most = t.record->decision.per_row + 1;
    bs_cu_addend *sources = reinterpret_cast<bs_cu_addend *>(t.workspace) + team.index * min(most, BS_CU_SUM_SOURCES);
    for (int32_t first = w.row; first < w.end; first += team.count) { /* as many rounds for all teams: barriers */
        const int32_t r = first + team.index;
        const bool inside = r < w.end;
        for (int32_t from = 0; sums && from < most; from += BS_CU_SUM_SOURCES) {
            const int32_t count = inside ? bs_cu_sources(t, s, r, team, from, sources) - from : 0;
            __syncthreads();
            if (inside && (count > 0 || from == 0))
                bs_cu_sum_row(bs_cu_open_target(t, out, r), sources, min(count, BS_CU_SUM_SOURCES), from > 0, team, w);
            if (from + BS_CU_SUM_SOURCES < most)
                __syncthreads();
        }
        if (inside && !sums)
            bs_cu_select_row(t, s, r, team, w);
        if (inside)
            bs_cu_zero_around(t, out, r, team, w);
        __syncthreads();
    }
}

#endif
/* ==== end src/cuda/op_gather.cuh ============================================================== */
/* ==== begin src/cuda/op_image.cuh ============================================================= */
/* op_image.cuh - pool2d, by windows and global; lrn.
 * Relies on walk.cuh. Must never count what lies outside the frame, unless count_pad says so. */
#ifndef BS_CUDA_OP_IMAGE
#define BS_CUDA_OP_IMAGE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* #include "ops/forms.h" */
/* ==== begin src/ops/lrn.h ===================================================================== */
/* ops/lrn.h - local response normalisation with the defaults of its descriptor filled in, for the plain kernel and for
 * a device. Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum. */
#ifndef BS_OPS_LRN_H
#define BS_OPS_LRN_H

/* #include "base/base.h" */

#include <math.h>

typedef struct bs_lrn_form {
    int32_t before, after; /* channels of a window beside its own */
    float scale, beta, bias;
} bs_lrn_form;

static inline bs_lrn_form bs_lrn_form_of(const bs_lrn_desc *desc)
{
    const int32_t size = bs_or_default(desc->size, 5);
    const bs_lrn_form form = {(size - 1) / 2, size / 2, (desc->alpha == 0.0f ? 1e-4f : desc->alpha) / (float)size,
                              desc->beta == 0.0f ? 0.75f : desc->beta, desc->bias == 0.0f ? 1.0f : desc->bias};
    return form;
}

/* squares: of the window. The usual beta of 3/4 needs no power. */
static inline BS_BOTH float bs_lrn_of(float x, float squares, float scale, float beta, float bias)
{
    const float base = BS_SUM(scale * squares, bias), root = sqrtf(base);
    return x / (beta == 0.75f ? root * sqrtf(root) : powf(base, beta));
}

#endif
/* ==== end src/ops/lrn.h ======================================================================= */
}

/* Parameters of pooling, in p. */
enum {
    BS_CU_POOL_KIND,
    BS_CU_POOL_COUNT_PAD,
    BS_CU_POOL_CHANNELS, /* channels that global pooling sums together */
    BS_CU_POOL_WINDOW    /* a bs_window */
};
static_assert(BS_CU_POOL_WINDOW + sizeof(bs_window) / 4 <= BS_DEVICE_PARAMS, "p holds a window");

static void bs_cu_pool2d_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t channels = n->in[0].dim[0];
    const bs_pool2d_desc *d = static_cast<const bs_pool2d_desc *>(n->params);
    const bs_window window = bs_pool2d_window(d);
    memset(s->p, 0, sizeof s->p);
    s->p[BS_CU_POOL_KIND].i = d->kind;
    s->p[BS_CU_POOL_COUNT_PAD].i = d->count_pad;
    memcpy(&s->p[BS_CU_POOL_WINDOW], &window, sizeof window);
    s->kernel = d->global ? BS_CU_pool2d_global : BS_CU_pool2d;
    if (!d->global) {
        s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_EACH / 2);
        return;
    }
    /* a block takes 64 channels, of a large frame 8: a sector of memory */
    s->p[BS_CU_POOL_CHANNELS].i = bs_cu_pixels(&n->in[0]) > 1 << 14 ? 8 : 64;
    s->parts = bs_cu_work_items(channels, s->p[BS_CU_POOL_CHANNELS].i);
}

/* ------------------------------------------------------------------------------------------------- windows */

/* The taps of a pixel that are in the frame: first .. end of the window at (y, x). */
struct bs_cu_pool_window {
    int32_t y, x, y_first, y_end, x_first, x_end, y_step, x_step;
};

__device__ __forceinline__ const bs_window_axis *bs_cu_pool_axes(const bs_device_step *s)
{
    return reinterpret_cast<const bs_window *>(&s->p[BS_CU_POOL_WINDOW])->axis;
}

__device__ __forceinline__ bs_cu_pool_window bs_cu_pool_window_of(const bs_device_step *s, const bs_cu_view &x,
                                                                  int32_t oy, int32_t ox)
{
    const bs_window_axis &down = bs_cu_pool_axes(s)[0], &across = bs_cu_pool_axes(s)[1];
    const int32_t y = oy * down.stride - down.before, at = ox * across.stride - across.before;
    const bs_cu_pool_window o = {
        y,
        at,
        (max(0, -(y + x.frame_y)) + down.dilation - 1) / down.dilation,
        min(down.kernel, (x.frame_h - y - x.frame_y + down.dilation - 1) / down.dilation),
        (max(0, -(at + x.frame_x)) + across.dilation - 1) / across.dilation,
        min(across.kernel, (x.frame_w - at - x.frame_x + across.dilation - 1) / across.dilation),
        down.dilation,
        across.dilation};
    return o;
}

__device__ __forceinline__ float bs_cu_pool_join(bool top, bool first, float v, float old)
{
    return first ? v : top ? (v > old ? v : old) : old + v;
}

__device__ __forceinline__ float bs_cu_pool_count(const bs_device_step *s, const bs_cu_pool_window &o)
{
    const bs_window_axis *a = bs_cu_pool_axes(s);
    const int32_t taps = s->p[BS_CU_POOL_COUNT_PAD].i ? a[0].kernel * a[1].kernel
                                                      : max(0, o.y_end - o.y_first) * max(0, o.x_end - o.x_first);
    return (float)max(1, taps); /* a window of which nothing is in the frame gives 0 */
}

__device__ inline void bs_cu_pool_one(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                      const bs_cu_scan &k)
{
    const bs_cu_pool_window o = bs_cu_pool_window_of(s, x, k.y, k.x);
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    float sum = 0.0f;
    for (int32_t ky = o.y_first; ky < o.y_end; ky++)
        for (int32_t kx = o.x_first; kx < o.x_end; kx++) {
            const int64_t at = bs_cu_pixel_at(x, k.c, o.y + ky * o.y_step, o.x + kx * o.x_step);
            sum = bs_cu_pool_join(top, ky == o.y_first && kx == o.x_first, bs_cu_get(x.data, x.dtype, at), sum);
        }
    bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x),
              top ? sum : sum / bs_cu_pool_count(s, o));
}

/* Four channels from 4 k.c on. */
__device__ inline void bs_cu_pool_four(const bs_device_step *s, const bs_cu_view &x, const bs_cu_view &y,
                                       const bs_cu_scan &k)
{
    const bs_cu_pool_window o = bs_cu_pool_window_of(s, x, k.y, k.x);
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, v[4];
    for (int32_t ky = o.y_first; ky < o.y_end; ky++)
        for (int32_t kx = o.x_first; kx < o.x_end; kx++) {
            bs_cu_get_four(x.data, x.dtype,
                           (int64_t)(o.y + ky * o.y_step) * x.stride[1] + (int64_t)(o.x + kx * o.x_step) * x.stride[2] +
                               4 * k.c,
                           v);
            for (int32_t i = 0; i < 4; i++)
                sum[i] = bs_cu_pool_join(top, ky == o.y_first && kx == o.x_first, v[i], sum[i]);
        }
    for (int32_t i = 0; i < 4 && !top; i++)
        sum[i] /= bs_cu_pool_count(s, o);
    bs_cu_put_four(y.data, y.dtype, (int64_t)k.y * y.stride[1] + (int64_t)k.x * y.stride[2] + 4 * k.c, sum);
}

/* Whether the channels of every pixel can be read by four, aligned. */
__device__ __forceinline__ bool bs_cu_pool_fours(const bs_cu_view &v)
{
    return v.stride[0] == 1 && ((v.dim[0] | v.stride[1] | v.stride[2]) & 3) == 0 &&
           bs_cu_aligned(v.data, bs_cu_bytes(v.dtype), 0);
}

__device__ inline void bs_cu_pool2d_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const bool four = bs_cu_pool_fours(x) && bs_cu_pool_fours(y);
        bs_cu_scan_run(d, y, y.dim[0] / (four ? 4 : 1), [&](const bs_cu_scan &k) {
            if (four)
                bs_cu_pool_four(s, x, y, k);
            else
                bs_cu_pool_one(s, x, y, k);
        });
    });
}

/* -------------------------------------------------------------------------------------------------- global */

/* A line of pixels of one channel, from left to right. */
__device__ inline float bs_cu_pool_line(const bs_cu_view &x, bool top, int32_t y, int32_t c)
{
    const int64_t at = bs_cu_pixel_at(x, c, y, 0);
    float sum = top ? bs_cu_get(x.data, x.dtype, (int64_t)c * x.stride[0]) : 0.0f;
    for (int32_t px = 0; px < x.dim[2]; px++)
        sum = bs_cu_pool_join(top, false, bs_cu_get(x.data, x.dtype, at + (int64_t)px * x.stride[2]), sum);
    return sum;
}

/* Channels first .. first + channels: a thread adds up a line, then lines are added from the top down as on the CPU. */
__device__ inline void bs_cu_pool_channels(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &x,
                                           const bs_cu_view &y, int32_t first, int32_t channels)
{
    const bool top = s->p[BS_CU_POOL_KIND].i == BS_POOL_MAX;
    const int32_t lines = (int32_t)(BS_CU_WORKSPACE / sizeof(float)) / channels, c = bs_cu_thread();
    const float area = (float)x.dim[1] * (float)x.dim[2];
    float *line = reinterpret_cast<float *>(t.workspace);
    float total = top && c < channels && area > 0.0f ? bs_cu_get(x.data, x.dtype, (int64_t)(first + c) * x.stride[0])
                                                     : 0.0f;
    for (int32_t from = 0; from < x.dim[1] && area > 0.0f; from += lines) {
        const int32_t count = min(lines, x.dim[1] - from);
        for (int32_t i = c; i < count * channels; i += bs_cu_threads())
            line[i] = bs_cu_pool_line(x, top, from + i / channels, first + i % channels);
        __syncthreads();
        for (int32_t i = 0; i < count && c < channels; i++)
            total = bs_cu_pool_join(top, false, line[i * channels + c], total);
        __syncthreads();
    }
    if (c < channels) /* a cell without pixels gives zero */
        bs_cu_put(y.data, y.dtype, (int64_t)(first + c) * y.stride[0], top || area == 0.0f ? total : total / area);
}

__device__ inline void bs_cu_pool2d_global_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t each = s->p[BS_CU_POOL_CHANNELS].i;
    for (int32_t r = w.row; r < w.end; r++) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r), x = bs_cu_open_in(t, s, 0, r);
        for (int32_t first = w.part * each; first < x.dim[0]; first += w.parts * each)
            bs_cu_pool_channels(t, s, x, y, first, min(each, x.dim[0] - first));
    }
}

/* ----------------------------------------------------------------------------------------------------- lrn */

enum { BS_CU_LRN_BEFORE, BS_CU_LRN_AFTER, BS_CU_LRN_SCALE, BS_CU_LRN_BETA, BS_CU_LRN_BIAS }; /* p: a bs_lrn_form */

static void bs_cu_lrn_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_lrn_form form = bs_lrn_form_of(static_cast<const bs_lrn_desc *>(n->params));
    memcpy(s->p, &form, sizeof form);
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_lrn_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t first = max(0, k.c - s->p[BS_CU_LRN_BEFORE].i),
                      last = min(x.dim[0] - 1, k.c + s->p[BS_CU_LRN_AFTER].i);
        float squares = 0.0f;
        for (int32_t c = first; c <= last; c++) {
            const float v = bs_cu_get(x.data, x.dtype, bs_cu_pixel_at(x, c, k.y, k.x));
            squares = bs_cu_mul_add(v, v, squares);
        }
        bs_cu_put(y.data, y.dtype, bs_cu_pixel_at(y, k.c, k.y, k.x),
                  bs_lrn_of(bs_cu_get(x.data, x.dtype, bs_cu_pixel_at(x, k.c, k.y, k.x)), squares,
                            s->p[BS_CU_LRN_SCALE].f, s->p[BS_CU_LRN_BETA].f, s->p[BS_CU_LRN_BIAS].f));
    });
}

#endif
/* ==== end src/cuda/op_image.cuh =============================================================== */
/* ==== begin src/cuda/op_linear.cuh ============================================================ */
/* op_linear.cuh - x W^T + b on the last dimension, with the activation that follows.
 *
 * Experts are steps of one launch, and only the device knows how many rows each has: a work item is up to 64 lines
 * by 64 (or 16) columns, and its block takes the shape that suits the lines it finds. Up to 8 lines, reading weights
 * is the whole cost: they are read once, 4 KB at a time, of 64 columns (in f16: of 16) side by side. Beyond that
 * a tile of 32 or 64 lines shares them. All shapes add up in one order (gemm.cuh). Relies on linear_cublas.cuh. Must
 * never let rows influence each other. */
#ifndef BS_CUDA_OP_LINEAR
#define BS_CUDA_OP_LINEAR

/* ==== begin src/cuda/linear_cublas.cuh ======================================================== */
/* linear_cublas.cuh - a large linear, as a product that cuBLAS computes and an epilogue of our own.
 * Relies on linear_job.cuh; op_linear.cuh describes the step. Must never be given a linear whose number of rows only
 * the device knows. */
#ifndef BS_CUDA_LINEAR_CUBLAS
#define BS_CUDA_LINEAR_CUBLAS

/* ==== begin src/cuda/linear_job.cuh =========================================================== */
/* linear_job.cuh - what all tile shapes of a linear have in common: the lines of a work item, and loading them and
 * their weights into shared memory.
 * Weights are lines [out][k], padded with zeros to 16 bytes, f32 or f16. Lines are fetched by address, so rows of a
 * scatter need no copy. Relies on gemm.cuh, program.cuh and ops/linear.c. Must never read beyond a line. */
#ifndef BS_CUDA_LINEAR_JOB
#define BS_CUDA_LINEAR_JOB

/* ==== begin src/cuda/gemm.cuh ================================================================= */
/* gemm.cuh - products of lines in shared memory: what linear and matmul have in common.
 *
 * A sum is one chain, k = 0, 1, 2 ... (in f16: steps of 16 products of a tensor core, in that order), whatever the
 * shape of the tile it is part of. So a block may choose its tile shape by the number of rows it finds without changing
 * a bit. Relies on tensor.cuh. Must never add up in an order that depends on rows, columns or threads. */
#ifndef BS_CUDA_GEMM
#define BS_CUDA_GEMM

/* #include "cuda/describe.cuh" */
/* #include "cuda/tensor.cuh" */

enum {
    BS_CU_GEMM_SIDE = 64,  /* of a tile, at most: lines on one side, columns on the other */
    BS_CU_GEMM_DEPTH = 64, /* bytes of a line that are in shared memory at a time: 16 f32, 32 f16 */
    BS_CU_GEMM_PITCH = 80, /* bytes from line to line there: eight lines begin in different banks */
    BS_CU_SUMS_PITCH = 68  /* floats from line to line of finished sums */
};

/* Lines of a pass with ROWS * 4 sums a thread: f32 is laid out 16 threads wide, f16 two warps wide. */
template <int BYTES, int ROWS> __device__ __forceinline__ int32_t bs_cu_gemm_lines(void)
{
    return BYTES == 4 ? ROWS * (bs_cu_threads() / 16) : ROWS * 4 * (bs_cu_threads() / 64);
}

/* f32: thread (x, y) has columns x + 16 j of lines y + i * (threads / 16). */
template <int ROWS>
__device__ __forceinline__ void bs_cu_gemm_f32(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    const int32_t x = bs_cu_thread() & 15, y = bs_cu_thread() >> 4, high = bs_cu_threads() >> 4;
#pragma unroll 1
    for (int32_t k = 0; k < BS_CU_GEMM_DEPTH; k += 16) {
        float4 a[ROWS], b[4];
#pragma unroll
        for (int32_t j = 0; j < 4; j++)
            b[j] = *reinterpret_cast<const float4 *>(columns + (x + 16 * j) * BS_CU_GEMM_PITCH + k);
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
            a[i] = *reinterpret_cast<const float4 *>(lines + (y + i * high) * BS_CU_GEMM_PITCH + k);
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (int32_t j = 0; j < 4; j++) {
                float s = fmaf(a[i].x, b[j].x, sum[4 * i + j]);
                s = fmaf(a[i].y, b[j].y, s);
                s = fmaf(a[i].z, b[j].z, s);
                sum[4 * i + j] = fmaf(a[i].w, b[j].w, s);
            }
    }
}

/* f16: a warp has 32 columns (the rows of two matrices a) by ROWS / 2 times 8 lines (the columns of b). */
template <int ROWS>
__device__ __forceinline__ void bs_cu_gemm_f16(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    const int32_t lane = bs_cu_lane(), warp = bs_cu_warp(), matrix = lane >> 3,
                  row = lane & 7;
    const uint8_t *from = columns + ((warp & 1) * 32 + (matrix & 1) * 8 + row) * BS_CU_GEMM_PITCH + (matrix >> 1) * 16;
    const uint8_t *with = lines + ((warp >> 1) * (ROWS / 2) * 8 + row) * BS_CU_GEMM_PITCH + matrix * 16;
    uint32_t b[ROWS / 2][4]; /* two steps of 16 */
    if (warp >= (bs_cu_threads() >> 6) * 2)
        return;
#pragma unroll
    for (int32_t j = 0; j < ROWS / 2; j++)
        bs_cu_ldmatrix_x4(b[j], with + 8 * j * BS_CU_GEMM_PITCH);
#pragma unroll
    for (int32_t k = 0; k < 2; k++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++) {
            uint32_t a[4];
            bs_cu_ldmatrix_x4(a, from + 16 * i * BS_CU_GEMM_PITCH + 32 * k);
#pragma unroll
            for (int32_t j = 0; j < ROWS / 2; j++)
                bs_cu_mma(sum + 4 * (i * (ROWS / 2) + j), a, b[j] + 2 * k);
        }
}

/* Adds to this thread's ROWS * 4 sums the products of what is in shared memory: 64 columns, bs_cu_gemm_lines lines. */
template <int BYTES, int ROWS>
__device__ __forceinline__ void bs_cu_gemm_step(const uint8_t *columns, const uint8_t *lines, float *sum)
{
    if (BYTES == 4)
        bs_cu_gemm_f32<ROWS>(columns, lines, sum);
    else
        bs_cu_gemm_f16<ROWS>(columns, lines, sum);
}

/* Stores sums to to[line][column], pitch BS_CU_SUMS_PITCH. The caller needs a barrier before and after. */
template <int BYTES, int ROWS> __device__ __forceinline__ void bs_cu_gemm_finish(const float *sum, float *to)
{
    const int32_t lane = bs_cu_lane(), warp = bs_cu_warp();
    if (BYTES == 4) {
        const int32_t x = bs_cu_thread() & 15, y = bs_cu_thread() >> 4, high = bs_cu_threads() >> 4;
#pragma unroll
        for (int32_t i = 0; i < ROWS; i++)
#pragma unroll
            for (int32_t j = 0; j < 4; j++)
                to[(y + i * high) * BS_CU_SUMS_PITCH + x + 16 * j] = sum[4 * i + j];
    } else if (warp < (bs_cu_threads() >> 6) * 2) {
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
#pragma unroll
            for (int32_t j = 0; j < ROWS / 2; j++)
#pragma unroll
                for (int32_t e = 0; e < 4; e++)
                    to[((warp >> 1) * (ROWS / 2) * 8 + 8 * j + 2 * (lane & 3) + (e & 1)) * BS_CU_SUMS_PITCH +
                       (warp & 1) * 32 + 16 * i + (lane >> 2) + 8 * (e >> 1)] = sum[4 * (i * (ROWS / 2) + j) + e];
    }
}

#endif
/* ==== end src/cuda/gemm.cuh =================================================================== */
/* #include "cuda/kernels.cuh" */
/* #include "cuda/program.cuh" */

extern "C" {
/* #include "ops/forms.h" */
}

/* Parameters of the kernels of a linear, in p: the descriptor's words, then ours. */
enum {
    BS_CU_LINEAR_OUT,
    BS_CU_LINEAR_NO_BIAS,
    BS_CU_LINEAR_ACT,
    BS_CU_LINEAR_PARAM,
    BS_CU_LINEAR_BRANCHES, /* whose lines may run side by side */
    BS_CU_LINEAR_TOP       /* the outermost domain around the step's */
};

enum {
    BS_CU_FEW_LINES = 8,
    BS_CU_FEW_COLUMNS = 16 /* at a time: a matrix of a tensor core */
};

struct bs_cu_linear_line {
    const uint8_t *x;
    uint8_t *y;
};

/* Lies in shared memory: registers are needed for sums. */
struct bs_cu_linear_job {
    const bs_device_step *step;
    const uint8_t *weights;
    int32_t line_bytes; /* of weights */
    int32_t k, out, x_step, lines /* of a row */, lines_here /* of the work */;
    int32_t type; /* of x */
    /* how x is loaded: 0 by element; 1 by 16 bytes; 2 by cp.async, which cannot read the shared memory of a tile */
    int32_t copy;
    /* of the work: its first row, tiles of its lines, columns of a tile, work items of the step, tiles */
    int32_t row, down, wide, parts, items;
    bs_cu_linear_line at[BS_CU_GEMM_SIDE]; /* of the tile */
};

static_assert(sizeof(bs_cu_linear_job) + (BS_CU_GEMM_SIDE + 32) * BS_CU_GEMM_PITCH * 3 <= BS_CU_WORKSPACE,
              "stages and the job share the workspace");

/* Lines of a row. */
__host__ __device__ static inline int32_t bs_cu_linear_lines(const bs_device_operand *o)
{
    return (int32_t)bs_cu_product(o->dim, o->rank - 1);
}

/* Lines of a run, at most: of all paths together. */
static int64_t bs_cu_linear_most_lines(const bs_cu_node *n, int32_t domain)
{
    const bs_graph *g = n->graph;
    return n->plan->domains[g->domains[domain].top].max_rows * bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1);
}

/* Columns of a work item: 16 where 64 would leave too few items in this run to keep a GPU busy with reading. */
__device__ inline int32_t bs_cu_linear_wide(const bs_cu_tile &t, const bs_device_step *s, int32_t lines)
{
    const int64_t all = (int64_t)t.program->domains[s->p[BS_CU_LINEAR_TOP].i].count * lines;
    const int32_t wide = (s->p[BS_CU_LINEAR_OUT].i + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    const bool few = all <= 2 * BS_CU_FEW_LINES &&
                     min((int32_t)all, s->p[BS_CU_LINEAR_BRANCHES].i) * (int64_t)wide < 256;
    return few ? (int32_t)BS_CU_FEW_COLUMNS : (int32_t)BS_CU_GEMM_SIDE;
}

template <int BYTES>
__device__ inline void bs_cu_linear_begin(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                          bs_cu_linear_job &j)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    j.step = s;
    j.k = x->dim[x->rank - 1];
    j.out = s->p[BS_CU_LINEAR_OUT].i;
    j.line_bytes = (int32_t)bs_linear_line_bytes(j.k, BYTES);
    j.weights = bs_cu_prepared(t, s);
    j.lines = bs_cu_linear_lines(bs_cu_out(t, s, 0));
    j.type = x->dtype;
    j.row = w.row;
    j.parts = w.parts;
    j.wide = bs_cu_linear_wide(t, s, j.lines);
    j.lines_here = (w.end - w.row) * j.lines;
    j.down = (j.lines_here + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    j.items = j.down * ((j.out + j.wide - 1) / j.wide);
    j.x_step = j.k == 1 ? 1 : x->stride[x->rank - 1];
    j.copy = j.x_step != 1 || bs_cu_bytes(x->dtype) != BYTES ? 0 : x->place == BS_AT_TILE ? 1 : 2;
}

/* What is done to a finished sum. Looked up only then: until sums are finished they need the registers. */
struct bs_cu_linear_end {
    const float *bias, *slopes;
    int32_t dtype, step, act;
    float param;
};

__device__ inline bs_cu_linear_end bs_cu_linear_end_of(const bs_cu_tile &t, const bs_cu_linear_job &j)
{
    const bs_device_operand *y = bs_cu_out(t, j.step, 0);
    bs_cu_linear_end e; /* as bs_epilogue_place */
    e.bias = reinterpret_cast<const float *>(j.weights) + bs_aligned_floats((int64_t)(j.line_bytes / 4) * j.out);
    e.slopes = e.bias + bs_aligned_floats(j.out); /* there for BS_PRELU only */
    e.dtype = y->dtype;
    e.step = j.out == 1 ? 1 : y->stride[y->rank - 1];
    e.act = j.step->p[BS_CU_LINEAR_ACT].i;
    e.param = j.step->p[BS_CU_LINEAR_PARAM].f;
    return e;
}

__device__ __forceinline__ void bs_cu_linear_put(const bs_cu_linear_end &e, const bs_cu_linear_line &line,
                                                 int32_t column, float sum)
{
    const float slope = e.act == BS_PRELU ? e.slopes[column] : 0.0f;
    bs_cu_put(line.y, e.dtype, (int64_t)column * e.step,
              bs_act_apply((bs_act)e.act, e.param, slope, sum + e.bias[column]));
}

/* ---------------------------------------------------------------------------------------------------- loading */

/* Offset of line number `line` of a row, in elements. */
__device__ inline int64_t bs_cu_linear_offset(const bs_device_operand *o, int32_t line)
{
    int64_t offset = 0;
    for (int32_t d = o->rank - 2; d >= 0; d--) {
        offset += (int64_t)(line % o->dim[d]) * o->stride[d];
        line /= o->dim[d];
    }
    return offset;
}

/* Finds lines first .. first + count of the work. count <= 64 <= threads. */
__device__ inline void bs_cu_linear_find(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t first, int32_t count)
{
    const bs_device_operand *x = bs_cu_in(t, j.step, 0), *y = bs_cu_out(t, j.step, 0);
    const int32_t i = bs_cu_thread();
    if (i >= count)
        return;
    const int32_t r = j.row + (first + i) / j.lines, line = (first + i) % j.lines;
    j.at[i].x = bs_cu_row(t, x, r) + bs_cu_linear_offset(x, line) * bs_cu_bytes(x->dtype);
    j.at[i].y = bs_cu_row(t, y, r) + bs_cu_linear_offset(y, line) * bs_cu_bytes(y->dtype);
}

/* Loads 16 bytes of weights. The L2 cache fetches the 256 bytes around them: the same line reads those next. */
__device__ __forceinline__ void bs_cu_linear_fetch(void *shared, const void *global)
{
#if BS_CU_AMPERE && (__CUDACC_VER_MAJOR__ > 11 || (__CUDACC_VER_MAJOR__ == 11 && __CUDACC_VER_MINOR__ >= 4))
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;"
                 :
                 : "r"(at), "l"(__cvta_generic_to_global(global))
                 : "memory");
#else
    bs_cu_cp_async_16(shared, global);
#endif
}

/* Loads bytes from .. from + 16 * CHUNKS of the weights of `count` columns from `first`; zeros beyond a line's end. */
template <int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_weights(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch,
                                                     int32_t first, int32_t count, int32_t from)
{
    const int32_t line_bytes = j.line_bytes;
    const uint8_t *weights = j.weights + (int64_t)first * line_bytes + from;
    for (int32_t i = bs_cu_thread(); i < count * CHUNKS; i += bs_cu_threads()) {
        const int32_t column = i / CHUNKS, chunk = i % CHUNKS * 16;
        uint8_t *slot = to + column * pitch + chunk;
        if (from + chunk < line_bytes)
            bs_cu_linear_fetch(slot, weights + (int64_t)column * line_bytes + chunk);
        else
            *reinterpret_cast<uint4 *>(slot) = make_uint4(0, 0, 0, 0);
    }
}

/* Loads the same bytes of `count` lines of x, as f32 or f16 (BYTES); element by element where they cannot be copied. */
template <int BYTES, int CHUNKS>
__device__ __forceinline__ void bs_cu_linear_rows(const bs_cu_linear_job &j, uint8_t *to, int32_t pitch, int32_t count,
                                                  int32_t from)
{
    const int32_t end = j.k, step = j.x_step, type = j.type, copy = j.copy;
    for (int32_t i = bs_cu_thread(); i < count * CHUNKS; i += bs_cu_threads()) {
        const uint8_t *line = j.at[i / CHUNKS].x;
        uint8_t *slot = to + i / CHUNKS * pitch + i % CHUNKS * 16;
        const int32_t k = (from + i % CHUNKS * 16) / BYTES;
        const bool whole = copy > 0 && k + 16 / BYTES <= end && (reinterpret_cast<uintptr_t>(line) & 15) == 0;
        if (whole && copy == 2) {
            bs_cu_cp_async_16(slot, line + (int64_t)k * BYTES);
        } else if (whole) {
            *reinterpret_cast<uint4 *>(slot) = *reinterpret_cast<const uint4 *>(line + (int64_t)k * BYTES);
        } else if (BYTES == 2 && type == BS_F32 && step == 1 && k + 8 <= end && bs_cu_aligned(line, 4, k)) {
            const float4 *from = reinterpret_cast<const float4 *>(line) + k / 4, low = from[0], high = from[1];
            const uint2 first = bs_cu_pack_quad(low), second = bs_cu_pack_quad(high);
            *reinterpret_cast<uint4 *>(slot) = make_uint4(first.x, first.y, second.x, second.y);
        } else {
#pragma unroll 1
            for (int32_t e = 0; e < 16 / BYTES; e++) {
                const float x = k + e < end ? bs_cu_get(line, type, (int64_t)(k + e) * step) : 0.0f;
                bs_cu_put(slot, BYTES == 4 ? BS_F32 : BS_F16, e, x);
            }
        }
    }
}

#endif
/* ==== end src/cuda/linear_job.cuh ============================================================= */

#ifndef BS_NO_CUBLAS
#include <cublas_v2.h>
#endif

/* What cuBLAS does not do: bias and activation, in place. */
static __global__ void __launch_bounds__(256)
    bs_cu_linear_epilogue(uint8_t *y, int32_t dtype, int64_t line, int64_t lines, int32_t out, const float *bias,
                          const float *slopes, int32_t act, float param)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < lines * out; i += step) {
        const int32_t column = (int32_t)(i % out);
        const int64_t at = i / out * line + column;
        const float slope = act == BS_PRELU ? slopes[column] : 0.0f;
        bs_cu_put(y, dtype, at, bs_act_apply((bs_act)act, param, slope, bs_cu_get(y, dtype, at) + bias[column]));
    }
}

#ifndef BS_NO_CUBLAS

/* Elements from line to line, where lines are contiguous and all the same distance apart; else 0. */
static int64_t bs_cu_linear_dense(const bs_cu_node *n, const bs_device_operand *o)
{
    const int32_t last = o->rank - 1;
    const bool rows = o->domain != 0;
    if (n->graph->domains[o->domain].kind == BS_DOMAIN_PATH || o->stored != o->domain ||
        (o->place != BS_AT_ROOT && o->place != BS_AT_ROWS && o->place != BS_AT_LINE) ||
        (o->dim[last] > 1 && o->stride[last] != 1) || (rows && o->rank > 1) || o->margin > 0)
        return 0;
    for (int32_t d = 0; d + 2 < o->rank; d++) /* strides are those of the largest extents */
        if (!bs_dim_is_const(n->graph, o->from[d + 1]) ||
            (o->dim[d] > 1 && o->stride[d] != (int64_t)o->dim[d + 1] * o->stride[d + 1]))
            return 0;
    return rows          ? o->row_bytes / (int64_t)bs_dtype_bytes((bs_dtype)o->dtype)
           : o->rank > 1 ? o->stride[last - 1]
                         : o->dim[last];
}

/* Whether nodes make an extent of what a node computes: then the host cannot tell cuBLAS how much there is. */
static bool bs_cu_is_from_data(const bs_cu_node *n)
{
    const bs_value_info *y = &n->graph->values[n->node->first_out];
    bool any = bs_domain_maker(n->graph, y->domain) != 0;
    for (int32_t i = 0; i < y->rank; i++)
        any = any || n->graph->dims[y->dims[i]].node != 0;
    return any;
}

/* Whether bs_cu_linear_cublas may take a linear: the host knows where its rows are and how many, and it may be large
 * enough. cuBLAS chooses the order of its sums. */
static bool bs_cu_linear_is_large(const bs_cu_node *n)
{
    const bs_dtype type = n->np->half ? BS_F16 : BS_F32;
    const int64_t k = n->in[0].dim[n->in[0].rank - 1], out = n->out[0].dim[n->out[0].rank - 1];
    const int64_t lines = bs_cu_linear_most_lines(n, n->out[0].domain);
    return n->in[0].dtype == type && n->out[0].dtype == type && k % 8 == 0 && k >= 128 && out >= 128 &&
           lines >= 256 && bs_cu_linear_dense(n, &n->in[0]) >= k && bs_cu_linear_dense(n, &n->out[0]) >= out &&
           !bs_cu_is_from_data(n);
}

/* Computes all `rows` rows of such a linear on `stream`, which the handle is set to. prepared: its weights on the
 * device. */
static bool bs_cu_linear_cublas(cublasHandle_t handle, cudaStream_t stream, const bs_cu_node *n,
                                const bs_device_step *s, const uint8_t *prepared, int32_t rows)
{
    const bs_device_operand *x = &n->in[0], *y = &n->out[0];
    const bool half = n->np->half != 0;
    const int32_t k = x->dim[x->rank - 1], out = s->p[BS_CU_LINEAR_OUT].i, bytes = half ? 2 : 4,
                  padded = (int32_t)(bs_linear_line_bytes(k, bytes) / bytes);
    const int64_t lines = (int64_t)rows * bs_cu_linear_lines(y), from = bs_cu_linear_dense(n, x),
                  to = bs_cu_linear_dense(n, y);
    const bs_epilogue_layout layout = bs_linear_layout(static_cast<const bs_linear_desc *>(n->params), n->np, k);
    const cudaDataType_t type = half ? CUDA_R_16F : CUDA_R_32F;
    const float one = 1.0f, zero = 0.0f;
#if CUBLAS_VER_MAJOR >= 11
    const cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
#else
    const cudaDataType_t compute = CUDA_R_32F;
#endif
    if (lines == 0)
        return true;
    if (lines > INT32_MAX || from > INT32_MAX || to > INT32_MAX ||
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, out, (int)lines, k, &one, prepared, type, padded,
                     bs_cu_at<const void>(x->base), type, (int)from, &zero,
                     bs_cu_at<void>(y->base), type, (int)to, compute,
                     CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
        return false;
    BS_LAUNCH(bs_cu_linear_epilogue, (unsigned)bs_min_i64(bs_ceil_div(lines * out, 1024), 4096), 256, 0, stream,
              bs_cu_at<uint8_t>(y->base), (int32_t)y->dtype, to, lines, out,
              reinterpret_cast<const float *>(prepared + bs_bytes_figure(layout.bias)),
              reinterpret_cast<const float *>(prepared + bs_bytes_figure(layout.slopes)), s->p[BS_CU_LINEAR_ACT].i,
              s->p[BS_CU_LINEAR_PARAM].f);
    return true;
}

#endif

#endif
/* ==== end src/cuda/linear_cublas.cuh ========================================================== */

enum {
    BS_CU_LINEAR_BATCH =
        1024 /* lines of a batch where no router decides: tiles of the same columns run side by side */
};

/* Stages of few lines: with more columns more threads add up, each for a shorter time; a tensor core wants but few. The
 * L2 cache fetches 256 bytes of a line at once. */
template <int COLUMNS> struct bs_cu_few {
    enum {
        DEPTH = 4096 / COLUMNS, /* bytes of a line */
        PITCH = DEPTH + 16,
        STAGE_BYTES = (BS_CU_FEW_LINES + COLUMNS) * PITCH,
        STAGES = COLUMNS == BS_CU_FEW_COLUMNS ? 3 : 4
    };
    static_assert(STAGES * STAGE_BYTES + (int)sizeof(bs_cu_linear_job) <= BS_CU_WORKSPACE, "stages fit beside the job");
};

/* ------------------------------------------------------------------------------------------------- describing */

/* A path gets batches of 64 lines, because it may have far fewer rows than it could; others get up to
 * BS_CU_LINEAR_BATCH. There are work items enough for either width that the run turns out to want. */
static void bs_cu_linear_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_domain *d = &n->graph->domains[s->domain];
    const bool path = d->kind == BS_DOMAIN_PATH;
    const int64_t lines = bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1),
                  all = bs_cu_linear_most_lines(n, s->domain);
    const int32_t out = s->p[BS_CU_LINEAR_OUT].i;
    const int64_t batch = bs_min_i64(path ? (int64_t)BS_CU_GEMM_SIDE : (int64_t)BS_CU_LINEAR_BATCH, all) / lines;
    s->kernel = n->np->half ? BS_CU_linear_tensor : BS_CU_linear;
#ifndef BS_NO_CUBLAS
    if (n->cublas && s->unit == 0 && bs_cu_linear_is_large(n))
        s->kernel = BS_CU_cublas;
#endif
    s->batch = batch < 1 ? 1 : (int32_t)batch;
    s->p[BS_CU_LINEAR_TOP].i = d->top;
    s->p[BS_CU_LINEAR_BRANCHES].i = path ? n->graph->routers[d->router].desc->paths : 1;
    s->parts = bs_cu_work_items(bs_max_i64(bs_ceil_div(s->batch * lines, BS_CU_GEMM_SIDE) *
                                               bs_ceil_div(out, BS_CU_GEMM_SIDE),
                                           bs_ceil_div(out, BS_CU_FEW_COLUMNS)),
                                1);
}

/* -------------------------------------------------------------------------------------------------- few lines */

/* Adds the products of a stage to the sums of a thread (in f16: of a warp). Warps take turns, so that not one quarter
 * of an SM does all of it. */
template <int BYTES, int COLUMNS>
__device__ __forceinline__ void bs_cu_linear_few_step(const uint8_t *stage, int32_t count, int32_t turn, float *sum)
{
    enum { DEPTH = bs_cu_few<COLUMNS>::DEPTH, PITCH = bs_cu_few<COLUMNS>::PITCH };
    const uint8_t *columns = stage, *lines = stage + COLUMNS * PITCH;
    const int32_t lane = bs_cu_lane();
    if (BYTES == 4) {
        const int32_t high = bs_cu_threads() / COLUMNS, y = turn / COLUMNS;
        const float4 *w = reinterpret_cast<const float4 *>(columns + turn % COLUMNS * PITCH);
        const float4 *x0 = reinterpret_cast<const float4 *>(lines + y * PITCH);
        const float4 *x1 = reinterpret_cast<const float4 *>(lines + (y + high) * PITCH);
        const bool second = y + high < count;
        if (y >= count)
            return;
#pragma unroll 4
        for (int32_t k = 0; k < DEPTH / 16; k++) {
            const float4 b = w[k], a = x0[k];
            sum[0] = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum[0]))));
            if (second) {
                const float4 c = x1[k];
                sum[1] = fmaf(c.w, b.w, fmaf(c.z, b.z, fmaf(c.y, b.y, fmaf(c.x, b.x, sum[1]))));
            }
        }
    } else if (turn < 32) {
        const int32_t matrix = lane >> 3, row = lane & 7;
        const uint8_t *from = columns + ((matrix & 1) * 8 + row) * PITCH + (matrix >> 1) * 16;
        const uint8_t *with = lines + row * PITCH + matrix * 16;
#pragma unroll 2
        for (int32_t k = 0; k < DEPTH; k += 64) {
            uint32_t a[4], b[4];
            bs_cu_ldmatrix_x4(b, with + k);
            bs_cu_ldmatrix_x4(a, from + k);
            bs_cu_mma(sum, a, b);
            bs_cu_ldmatrix_x4(a, from + k + 32);
            bs_cu_mma(sum, a, b + 2);
        }
    }
}

template <int BYTES, int COLUMNS>
__device__ __forceinline__ void bs_cu_linear_few_finish(const bs_cu_tile &t, const bs_cu_linear_job &j, int32_t count,
                                                        int32_t first, int32_t columns, int32_t turn, const float *sum)
{
    const bs_cu_linear_end e = bs_cu_linear_end_of(t, j);
    if (BYTES == 4) {
        const int32_t high = bs_cu_threads() / COLUMNS, column = turn % COLUMNS, y = turn / COLUMNS;
#pragma unroll 1
        for (int32_t i = 0; i < 2; i++)
            if (column < columns && y + i * high < count)
                bs_cu_linear_put(e, j.at[y + i * high], first + column, i ? sum[1] : sum[0]);
    } else if (turn < 32) {
#pragma unroll 1
        for (int32_t i = 0; i < 4; i++) {
            const int32_t line = 2 * (turn & 3) + (i & 1), column = (turn >> 2) + 8 * (i >> 1);
            if (column < columns && line < count)
                bs_cu_linear_put(e, j.at[line], first + column,
                                 i == 0   ? sum[0]
                                 : i == 1 ? sum[1]
                                 : i == 2 ? sum[2]
                                          : sum[3]);
        }
    }
}

/* `count` (at most 8) lines by columns first .. end: groups of columns, one after the other through the same stages. */
template <int BYTES, int COLUMNS>
__device__ inline void bs_cu_linear_few(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t line, int32_t count,
                                        int32_t first, int32_t end)
{
    typedef bs_cu_few<COLUMNS> few;
    const int32_t depth = (int32_t)((j.line_bytes + few::DEPTH - 1) / few::DEPTH), threads = bs_cu_threads();
    int32_t load_first = first, load_at = 0, load_stage = 0, at = 0, stage = 0;
    int32_t turn = (bs_cu_thread() + (int32_t)(blockIdx.x % 4 * 64)) % threads;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t i = 1 - few::STAGES; first < end; i++) {
        if (i >= 0) {
            bs_cu_cp_async_wait<few::STAGES - 2>();
            __syncthreads();
        }
        if (load_first < end) {
            uint8_t *to = t.workspace + load_stage * few::STAGE_BYTES;
            const int32_t from = load_at * few::DEPTH;
            bs_cu_linear_weights<few::DEPTH / 16>(j, to, few::PITCH, load_first, min(COLUMNS, end - load_first), from);
            if (i == 1 - few::STAGES) { /* weights need no rows: the first are under way while those are found */
                bs_cu_linear_find(t, j, line, count);
                __syncthreads();
            }
            bs_cu_linear_rows<BYTES, few::DEPTH / 16>(j, to + COLUMNS * few::PITCH, few::PITCH, count, from);
            load_stage = load_stage + 1 == few::STAGES ? 0 : load_stage + 1;
            load_at = load_at + 1 == depth ? 0 : load_at + 1;
            load_first += load_at == 0 ? COLUMNS : 0;
        }
        bs_cu_cp_async_commit();
        if (i < 0)
            continue;
        bs_cu_linear_few_step<BYTES, COLUMNS>(t.workspace + stage * few::STAGE_BYTES, count, turn, sum);
        stage = stage + 1 == few::STAGES ? 0 : stage + 1;
        if (++at == depth) {
            bs_cu_linear_few_finish<BYTES, COLUMNS>(t, j, count, first, min(COLUMNS, end - first), turn, sum);
            sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
            at = 0;
            first += COLUMNS;
            turn = turn + 32 >= threads ? turn + 32 - threads : turn + 32;
        }
    }
    __syncthreads();
}

/* ------------------------------------------------------------------------------------------------- more lines */

template <int BYTES>
__device__ __forceinline__ void bs_cu_linear_load(const bs_cu_linear_job &j, uint8_t *stage, int32_t count,
                                                  int32_t first, int32_t columns, int32_t step)
{
    const int32_t from = step * BS_CU_GEMM_DEPTH;
    bs_cu_linear_weights<BS_CU_GEMM_DEPTH / 16>(j, stage, BS_CU_GEMM_PITCH, first, columns, from);
    bs_cu_linear_rows<BYTES, BS_CU_GEMM_DEPTH / 16>(j, stage + BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH, BS_CU_GEMM_PITCH,
                                                    count, from);
}

/* `count` lines, at most those of a pass, by columns first .. end (64 at most). */
template <int BYTES, int ROWS, int STAGES>
__device__ inline void bs_cu_linear_pass(const bs_cu_tile &t, const bs_cu_linear_job &j, int32_t count, int32_t first,
                                         int32_t end)
{
    enum { STAGE_BYTES = (BS_CU_GEMM_SIDE + ROWS * 16) * BS_CU_GEMM_PITCH };
    const int32_t steps = (int32_t)((j.line_bytes + BS_CU_GEMM_DEPTH - 1) / BS_CU_GEMM_DEPTH), columns = end - first;
    float sum[ROWS * 4];
    int32_t stage = 0, load_stage = STAGES - 1;
#pragma unroll
    for (int32_t i = 0; i < ROWS * 4; i++)
        sum[i] = 0.0f;
    for (int32_t i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            bs_cu_linear_load<BYTES>(j, t.workspace + i * STAGE_BYTES, count, first, columns, i);
        bs_cu_cp_async_commit();
    }
    for (int32_t i = 0; i < steps; i++) {
        bs_cu_cp_async_wait<STAGES - 2>();
        __syncthreads();
        if (i + STAGES - 1 < steps)
            bs_cu_linear_load<BYTES>(j, t.workspace + load_stage * STAGE_BYTES, count, first, columns, i + STAGES - 1);
        bs_cu_cp_async_commit();
        bs_cu_gemm_step<BYTES, ROWS>(t.workspace + stage * STAGE_BYTES,
                                     t.workspace + stage * STAGE_BYTES + BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH, sum);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        load_stage = load_stage + 1 == STAGES ? 0 : load_stage + 1;
    }
    float *sums = reinterpret_cast<float *>(t.workspace);
    __syncthreads();
    bs_cu_gemm_finish<BYTES, ROWS>(sum, sums);
    __syncthreads();
    const bs_cu_linear_end e = bs_cu_linear_end_of(t, j);
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < count * BS_CU_GEMM_SIDE; i += bs_cu_threads()) {
        const int32_t line = i / BS_CU_GEMM_SIDE, column = i % BS_CU_GEMM_SIDE;
        if (column < columns)
            bs_cu_linear_put(e, j.at[line], first + column, sums[line * BS_CU_SUMS_PITCH + column]);
    }
    __syncthreads();
}

/* Lines line .. line + count (64 at most) of the work, in passes. */
template <int BYTES, int ROWS, int STAGES>
__device__ inline void bs_cu_linear_tiled(const bs_cu_tile &t, bs_cu_linear_job &j, int32_t line, int32_t count,
                                          int32_t first, int32_t end)
{
    const int32_t most = bs_cu_gemm_lines<BYTES, ROWS>();
    for (int32_t at = 0; at < count; at += most) {
        const int32_t here = min(most, count - at);
        bs_cu_linear_find(t, j, line + at, here);
        __syncthreads();
        bs_cu_linear_pass<BYTES, ROWS, STAGES>(t, j, here, first, end);
    }
}

template <int BYTES>
__device__ inline void bs_cu_linear_any(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_job &j = reinterpret_cast<bs_cu_linear_job *>(t.workspace + BS_CU_WORKSPACE)[-1];
    if (threadIdx.x == 0)
        bs_cu_linear_begin<BYTES>(t, s, w, j);
    __syncthreads();
    const bs_device_operand *y = bs_cu_out(t, s, 0);
    if (w.part == 0 && y->margin > 0)
        for (int32_t r = w.row; r < w.end; r++)
            bs_cu_zero_margin(w, bs_cu_open(t, y, r));
    /* lines fastest: neighbours read the same weights */
    for (int32_t item = w.part; item < j.items; item += j.parts) {
        const int32_t line = item % j.down * BS_CU_GEMM_SIDE, first = item / j.down * j.wide,
                      end = min(first + j.wide, j.out);
        const int32_t count = min(BS_CU_GEMM_SIDE, j.lines_here - line);
        if (BYTES == 4 && end - first > BS_CU_FEW_COLUMNS && count <= 2 * bs_cu_threads() / BS_CU_GEMM_SIDE)
            bs_cu_linear_few<BYTES, BYTES == 4 ? (int)BS_CU_GEMM_SIDE : (int)BS_CU_FEW_COLUMNS>(t, j, line, count,
                                                                                                first, end);
        else if (count <= BS_CU_FEW_LINES)
            bs_cu_linear_few<BYTES, BS_CU_FEW_COLUMNS>(t, j, line, count, first, end);
        else if (count <= BS_CU_GEMM_SIDE / 2)
            bs_cu_linear_tiled<BYTES, 2, 3>(t, j, line, count, first, end);
        else
            bs_cu_linear_tiled<BYTES, 4, 2>(t, j, line, count, first, end);
    }
}

__device__ inline void bs_cu_linear_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_any<4>(t, s, w);
}

__device__ inline void bs_cu_linear_tensor_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_linear_any<2>(t, s, w);
}

#endif
/* ==== end src/cuda/op_linear.cuh ============================================================== */
/* ==== begin src/cuda/op_lines.cuh ============================================================= */
/* op_lines.cuh - ops on whole lines of one dimension: softmax, layer_norm, rms_norm, reduce, cumsum, argmax,
 * argmin, topk.
 * Long lines with adjacent elements get a warp, others a thread; the op's shape alone decides which. A thread goes from
 * index 0 up as the CPU does; lanes of a warp take every 32nd element and are joined in a fixed tree.
 * Relies on walk.cuh. Must never let lines influence each other. */
#ifndef BS_CUDA_OP_LINES
#define BS_CUDA_OP_LINES

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* ==== begin src/ops/reduce.h ================================================================== */
/* ops/reduce.h - what reductions make of elements, for the plain kernel and for a device.
 * Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum. */
#ifndef BS_OPS_REDUCE_H
#define BS_OPS_REDUCE_H

/* #include "base/base.h" */

#include <math.h>

/* What an element adds. top: the largest element, of BS_REDUCE_LOG_SUM_EXP only. */
static inline BS_BOTH float bs_reduce_term(int32_t kind, float v, float top)
{
    if (kind < BS_REDUCE_SUM_SQUARE)
        return v;
    return kind == BS_REDUCE_L1 ? fabsf(v) : kind == BS_REDUCE_LOG_SUM_EXP ? expf(v - top) : v * v;
}

/* NaN in a maximum or minimum: it stays where it comes first, elsewhere it is ignored. */
static inline BS_BOTH float bs_reduce_join(int32_t kind, float so_far, float term)
{
    if (kind == BS_REDUCE_MAX)
        return term > so_far ? term : so_far;
    if (kind == BS_REDUCE_MIN)
        return term < so_far ? term : so_far;
    return kind == BS_REDUCE_PROD ? so_far * term : BS_SUM(so_far, term);
}

/* Of lines without anything finite, or with an infinity, exponentials are of the elements themselves. */
static inline BS_BOTH float bs_reduce_top(float top) { return fabsf(top) == INFINITY ? 0.0f : top; }

static inline BS_BOTH float bs_reduce_end(int32_t kind, float sum, float count, float top)
{
    if (kind == BS_REDUCE_MEAN)
        return sum / count;
    return kind == BS_REDUCE_L2 ? sqrtf(sum) : kind == BS_REDUCE_LOG_SUM_EXP ? BS_SUM(top, logf(sum)) : sum;
}

#endif
/* ==== end src/ops/reduce.h ==================================================================== */
}

/* Parameters of all ops of this file, in p, behind the words of each. */
enum {
    BS_CU_AXIS = 8, /* the dimension that lines run along */
    BS_CU_LANES,    /* threads a line: 1 or 32 */
    BS_CU_LINES,    /* lines of a row */
    BS_CU_FIRST     /* of a reduction over more than one dimension the first one; else as BS_CU_AXIS */
};

/* Whether the whole block goes through a row: it, or its result, is an image, and a margin takes all threads. */
__host__ __device__ static inline bool bs_cu_lines_of_image(const bs_device_operand *in, const bs_device_operand *out)
{
    return in->image || out->image;
}

static void bs_cu_lines_describe(const bs_cu_node *n, bs_device_step *s, int32_t first, int32_t axis)
{
    const bs_device_operand *in = &n->in[0];
    const int32_t innermost = in->image ? 0 : in->rank - 1;
    const int64_t length = bs_max_i64(bs_cu_product(in->dim + first, axis + 1 - first), 1),
                  lines = bs_cu_elements(in) / length;
    s->p[BS_CU_AXIS].i = axis;
    s->p[BS_CU_FIRST].i = first;
    s->p[BS_CU_LANES].i = axis == innermost && in->dim[axis] >= 32 ? 32 : 1;
    s->p[BS_CU_LINES].i = (int32_t)bs_min_i64(lines, INT32_MAX);
    const int64_t each = bs_max_i64(s->p[BS_CU_LANES].i == 32 ? 16 : 256, 2 * BS_CU_EACH / length);
    if (bs_cu_lines_of_image(in, &n->out[0]) || lines > each)
        s->parts = bs_cu_work_items(lines, each);
    else
        s->batch = (int32_t)(each / (lines < 1 ? 1 : lines));
}

static void bs_cu_softmax_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_lines_describe(n, s, n->in[0].rank - 1, n->in[0].rank - 1);
}

static constexpr bs_cu_describe bs_cu_argmax_describe = bs_cu_softmax_describe,
                                bs_cu_argmin_describe = bs_cu_softmax_describe,
                                bs_cu_topk_describe = bs_cu_softmax_describe;

/* The lines of a row: those of the operand, and their places in up to two results. Axes are those of a walk, without
 * the line's own. */
struct bs_cu_lines {
    const uint8_t *x;
    uint8_t *y, *z;
    int32_t x_type, y_type;
    int32_t n, x_step, y_step, z_step; /* along a line */
    int32_t lane, lanes;
    int32_t count[3];
    int32_t step[3][3]; /* operand, results */
};

/* A result that lost dimensions first .. axis gets them back, with stride 0, so that its axes are those of the
 * operand. */
__device__ __forceinline__ void bs_cu_lines_widen(bs_cu_view *y, int32_t rank, int32_t first, int32_t axis)
{
    if (y->rank == rank)
        return;
    for (int32_t a = first; a <= axis; a++) {
#pragma unroll
        for (int32_t d = BS_MAX_RANK - 1; d > 0; d--)
            y->stride[d] = d > a ? y->stride[d - 1] : y->stride[d];
#pragma unroll
        for (int32_t d = 0; d < BS_MAX_RANK; d++)
            y->stride[d] = d == a ? 0 : y->stride[d];
    }
}

/* Axis a, from 1 on, of those that are left when lines run along axis `own` of a walk. */
template <int M>
__device__ __forceinline__ int32_t bs_cu_lines_axis(const int32_t (&v)[M], const bs_cu_view &x, int32_t own, int32_t a,
                                                    int32_t none)
{
    return a > own ? bs_cu_on_axis(v, x.rank, x.image, a, none) : bs_cu_on_axis(v, x.rank, x.image, a - 1, none);
}

/* Lines along channels may include those of a cell's margin: the result's rectangle says which. All others cover whole
 * values. */
__device__ inline bs_cu_lines bs_cu_lines_of(const bs_cu_view &x, const bs_cu_view &y, const bs_cu_view &z,
                                             int32_t first, int32_t axis, int32_t lanes)
{
    const bool pixels = x.image && y.image && axis == 0;
    const int32_t y0 = pixels ? y.y0 : 0, x0 = pixels ? y.x0 : 0,
                  own = !x.image    ? axis + 4 - x.rank
                        : axis == 0 ? 3
                                    : axis;
    int32_t extent[BS_MAX_RANK] = {x.dim[0], pixels ? y.y1 - y0 : x.dim[1], pixels ? y.x1 - x0 : x.dim[2], x.dim[3]};
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        extent[d] = d >= first && d < axis ? 1 : extent[d];
    bs_cu_view v[3] = {x, y, z};
    bs_cu_lines k;
    bs_cu_lines_widen(&v[1], x.rank, first, axis);
    bs_cu_lines_widen(&v[2], x.rank, first, axis);
    k.n = bs_cu_pick(x.dim, axis);
    k.x_step = bs_cu_pick(v[0].stride, axis);
    k.y_step = bs_cu_pick(v[1].stride, axis);
    k.z_step = bs_cu_pick(v[2].stride, axis);
#pragma unroll
    for (int32_t a = 0; a < 3; a++)
        k.count[a] = bs_cu_lines_axis(extent, x, own, a + 1, 1);
#pragma unroll
    for (int32_t i = 0; i < 3; i++) {
        v[i].data += bs_cu_pixel_at(v[i], 0, y0, x0) * bs_cu_bytes(v[i].dtype);
#pragma unroll
        for (int32_t a = 0; a < 3; a++)
            k.step[i][a] = bs_cu_lines_axis(v[i].stride, x, own, a + 1, 0);
    }
    k.x = v[0].data;
    k.y = v[1].data;
    k.z = v[2].data;
    k.x_type = x.dtype;
    k.y_type = y.dtype;
    k.lanes = lanes;
    k.lane = bs_cu_thread() & (lanes - 1);
    return k;
}

/* Calls each(lines, at) for every line, at being offsets in N operands; the lanes of a warp call it together. */
template <int N, typename E>
__device__ __forceinline__ void bs_cu_lines_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                const E &each)
{
    const int32_t lanes = s->p[BS_CU_LANES].i;
    const bool image = bs_cu_lines_of_image(bs_cu_in(t, s, 0), bs_cu_out(t, s, 0));
    const bs_cu_deal d = bs_cu_deal_out(w, image, s->p[BS_CU_LINES].i, bs_cu_thread() / lanes,
                                        bs_cu_threads() / lanes);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        const bs_cu_view z = N == 3 ? bs_cu_open_out(t, s, 1, r) : y;
        const bs_cu_lines k = bs_cu_lines_of(bs_cu_open_in(t, s, 0, r), y, z, s->p[BS_CU_FIRST].i,
                                             s->p[BS_CU_AXIS].i, s->p[BS_CU_LANES].i);
        const int32_t n1 = k.count[1], n2 = k.count[2], n = k.count[0] * n1 * n2;
        for (int32_t l = d.index; l < n && (k.n > 0 || s->empty); l += d.workers) {
            const int32_t d2 = l % n2, d1 = l / n2 % n1, d0 = l / n2 / n1;
            int64_t at[N];
#pragma unroll
            for (int32_t i = 0; i < N; i++)
                at[i] = (int64_t)d2 * k.step[i][2] + (int64_t)d1 * k.step[i][1] + (int64_t)d0 * k.step[i][0];
            each(k, at);
        }
    }
}

__device__ __forceinline__ float bs_cu_line_get(const bs_cu_lines &k, int64_t at, int32_t i)
{
    return bs_cu_get(k.x, k.x_type, at + (int64_t)i * k.x_step);
}

__device__ __forceinline__ void bs_cu_line_put(const bs_cu_lines &k, int64_t at, int32_t i, float v)
{
    bs_cu_put(k.y, k.y_type, at + (int64_t)i * k.y_step, v);
}

/* The largest value of a line's lanes, in every lane. NaN as on the CPU: it stays when it is element 0, which all lanes
 * begin with, and is ignored elsewhere. */
__device__ __forceinline__ float bs_cu_lanes_max(float v, int32_t lanes)
{
    for (int32_t m = lanes / 2; m > 0; m /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, m);
        v = other > v ? other : v;
    }
    return v;
}

/* ----------------------------------------------------------------------------------------------- softmax */

/* Functions of a line that begins at `from`, which give their results to `put`: here to store them, behind a chain to
 * go on (op_lines_chain.cuh). Exponentials are computed twice: they cannot be kept in the result, which may be f16. */
template <typename P>
__device__ __forceinline__ void bs_cu_softmax_line(const bs_device_step *, const float *, const bs_cu_lines &k,
                                                   int64_t from, const P &put)
{
    float top = bs_cu_line_get(k, from, 0), sum = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float v = bs_cu_line_get(k, from, i);
        top = v > top ? v : top;
    }
    top = bs_cu_lanes_max(top, k.lanes);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        sum = __fadd_rn(sum, expf(bs_cu_line_get(k, from, i) - top)); /* not fused: expf ends in a product */
    sum = bs_cu_lanes_sum(sum, k.lanes);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, expf(bs_cu_line_get(k, from, i) - top) / sum);
}

__device__ inline void bs_cu_softmax_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_softmax_line(s, NULL, k, at[0], [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

/* -------------------------------------------------------------------------------------------- layer_norm */

enum { BS_CU_NORM_EPSILON, BS_CU_NORM_BIASES }; /* p: the descriptor's word, f; floats from weights to biases */

static void bs_cu_layer_norm_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t last = n->in[0].rank - 1;
    s->p[BS_CU_NORM_EPSILON].f = s->p[BS_CU_NORM_EPSILON].f == 0.0f ? 1e-5f : s->p[BS_CU_NORM_EPSILON].f;
    s->p[BS_CU_NORM_BIASES].i = (int32_t)bs_aligned_floats(n->in[0].dim[last]);
    bs_cu_lines_describe(n, s, last, last);
}

template <typename P>
__device__ __forceinline__ void bs_cu_layer_norm_line(const bs_device_step *s, const float *weight,
                                                      const bs_cu_lines &k, int64_t from, const P &put)
{
    const float count = (float)k.n;
    float mean = 0.0f, variance = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        mean += bs_cu_line_get(k, from, i);
    mean = bs_cu_lanes_sum(mean, k.lanes) / count;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float d = bs_cu_line_get(k, from, i) - mean;
        variance = bs_cu_mul_add(d, d, variance);
    }
    const float scale = 1.0f / sqrtf(bs_cu_lanes_sum(variance, k.lanes) / count + s->p[BS_CU_NORM_EPSILON].f);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, bs_cu_mul_add((bs_cu_line_get(k, from, i) - mean) * scale, weight[i],
                             weight[i + s->p[BS_CU_NORM_BIASES].i]));
}

__device__ inline void bs_cu_layer_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_layer_norm_line(s, reinterpret_cast<const float *>(bs_cu_prepared(t, s)), k, at[0],
                              [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

static constexpr bs_cu_describe bs_cu_rms_norm_describe = bs_cu_layer_norm_describe;

template <typename P>
__device__ __forceinline__ void bs_cu_rms_norm_line(const bs_device_step *s, const float *weight, const bs_cu_lines &k,
                                                    int64_t from, const P &put)
{
    float squares = 0.0f;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        const float v = bs_cu_line_get(k, from, i);
        squares = bs_cu_mul_add(v, v, squares);
    }
    const float mean = bs_cu_lanes_sum(squares, k.lanes) / (float)k.n;
    const float scale = 1.0f / sqrtf(mean + s->p[BS_CU_NORM_EPSILON].f);
    for (int32_t i = k.lane; i < k.n; i += k.lanes)
        put(i, __fmul_rn(bs_cu_line_get(k, from, i) * scale, weight[i])); /* no step fuses it with a sum */
}

__device__ inline void bs_cu_rms_norm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        bs_cu_rms_norm_line(s, reinterpret_cast<const float *>(bs_cu_prepared(t, s)), k, at[0],
                            [&](int32_t i, float v) { bs_cu_line_put(k, at[1], i, v); });
    });
}

/* ------------------------------------------------------------------------------------------------ reduce */

enum { BS_CU_REDUCE_KIND, BS_CU_REDUCE_AXIS, BS_CU_REDUCE_KEEP, BS_CU_REDUCE_AXES }; /* p: the descriptor's words */

static void bs_cu_reduce_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t axis = s->p[BS_CU_REDUCE_AXIS].i, first = axis < 0 ? axis + n->in[0].rank : axis;
    bs_cu_lines_describe(n, s, first, first + bs_max_i32(s->p[BS_CU_REDUCE_AXES].i, 1) - 1);
}

/* One reduction, in every lane of its line; of several dimensions `lines` lines one behind the other. Lanes take
 * elements lane, lane + lanes, ... of each; maxima and minima begin with element 0 in all of them. A lane beyond a
 * run's short line adds nothing, not even to -0. */
__device__ inline float bs_cu_reduced(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_lines &k, int64_t at,
                                      int32_t kind, int64_t lines, float top)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    const bool own = kind != BS_REDUCE_MAX && kind != BS_REDUCE_MIN && k.lane > 0;
    if (lines * k.n == 0)
        return kind == BS_REDUCE_PROD ? 1.0f : 0.0f;
    float result = kind == BS_REDUCE_PROD ? 1.0f : -0.0f;
    if (!own || k.lane < k.n)
        result = bs_reduce_term(kind, bs_cu_line_get(k, at, own ? k.lane : 0), top);
    for (int64_t l = 0; l < lines; l++) {
        int64_t from = at, rest = l;
        for (int32_t d = s->p[BS_CU_AXIS].i - 1; d >= s->p[BS_CU_FIRST].i; d--) {
            from += rest % x->dim[d] * x->stride[d];
            rest /= x->dim[d];
        }
        for (int32_t i = k.lane + (l == 0 && (own || k.lane == 0) ? k.lanes : 0); i < k.n; i += k.lanes)
            result = bs_reduce_join(kind, result, bs_reduce_term(kind, bs_cu_line_get(k, from, i), top));
    }
    for (int32_t m = k.lanes / 2; m > 0; m /= 2)
        result = bs_reduce_join(kind, result, __shfl_xor_sync(0xffffffffu, result, m));
    return result;
}

__device__ inline void bs_cu_reduce_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0);
    const int32_t kind = s->p[BS_CU_REDUCE_KIND].i, first = s->p[BS_CU_FIRST].i;
    const int64_t lines = bs_cu_product(x->dim + first, s->p[BS_CU_AXIS].i - first);
    if (kind >= BS_REDUCE_MEAN && kind <= BS_REDUCE_MIN && bs_cu_product(x->dim, x->rank) == 0) {
        bs_cu_fail(t, s, BS_ERROR_DATA);
        return;
    }
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        float top = 0.0f;
        if (kind == BS_REDUCE_LOG_SUM_EXP)
            top = bs_reduce_top(bs_cu_reduced(t, s, k, at[0], BS_REDUCE_MAX, lines, 0.0f));
        const float result = bs_cu_reduced(t, s, k, at[0], kind, lines, top);
        if (k.lane == 0)
            bs_cu_put(k.y, k.y_type, at[1], bs_reduce_end(kind, result, (float)k.n * (float)lines, top));
    });
}

/* ------------------------------------------------------------------------------------------------ cumsum */

enum { BS_CU_CUMSUM_AXIS, BS_CU_CUMSUM_EXCLUSIVE, BS_CU_CUMSUM_REVERSE }; /* p: the descriptor's words */

static void bs_cu_cumsum_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t axis = s->p[BS_CU_CUMSUM_AXIS].i, first = axis < 0 ? axis + n->in[0].rank : axis;
    bs_cu_lines_describe(n, s, first, first);
}

__device__ __forceinline__ float bs_cu_line_load(const bs_cu_lines &k, int64_t at, int32_t i, float)
{
    return bs_cu_line_get(k, at, i);
}

__device__ __forceinline__ uint32_t bs_cu_line_load(const bs_cu_lines &k, int64_t at, int32_t i, uint32_t)
{
    return reinterpret_cast<const uint32_t *>(k.x)[at + (int64_t)i * k.x_step];
}

__device__ __forceinline__ void bs_cu_line_store(const bs_cu_lines &k, int64_t at, int32_t i, float v)
{
    bs_cu_line_put(k, at, i, v);
}

__device__ __forceinline__ void bs_cu_line_store(const bs_cu_lines &k, int64_t at, int32_t i, uint32_t v)
{
    reinterpret_cast<uint32_t *>(k.y)[at + (int64_t)i * k.y_step] = v;
}

/* The sums of `lanes` elements at a time, by doubling, behind what came before. */
template <typename T>
__device__ inline void bs_cu_cumsum_of(const bs_device_step *s, const bs_cu_lines &k, int64_t from, int64_t to)
{
    const bool exclusive = s->p[BS_CU_CUMSUM_EXCLUSIVE].i != 0, reverse = s->p[BS_CU_CUMSUM_REVERSE].i != 0;
    T carry = 0;
    for (int32_t first = 0; first < k.n; first += k.lanes) {
        const int32_t number = first + k.lane, i = reverse ? k.n - 1 - number : number;
        T sum = number < k.n ? bs_cu_line_load(k, from, i, T()) : T(0), before = 0;
        for (int32_t m = 1; m < k.lanes; m *= 2) {
            const T other = __shfl_up_sync(0xffffffffu, sum, m);
            sum += k.lane >= m ? other : T(0);
        }
        if (exclusive && k.lanes > 1)
            before = __shfl_up_sync(0xffffffffu, sum, 1);
        if (number < k.n)
            bs_cu_line_store(k, to, i, carry + (exclusive ? (k.lane == 0 ? T(0) : before) : sum));
        carry += k.lanes > 1 ? __shfl_sync(0xffffffffu, sum, 31) : sum;
    }
}

__device__ inline void bs_cu_cumsum_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        if (k.x_type == BS_I32)
            bs_cu_cumsum_of<uint32_t>(s, k, at[0], at[1]);
        else
            bs_cu_cumsum_of<float>(s, k, at[0], at[1]);
    });
}

/* ---------------------------------------------------------------------------------------- argmax, argmin */

__device__ __forceinline__ void bs_cu_line_take(const bs_cu_lines &k, int64_t at, int32_t i, float *v)
{
    *v = bs_cu_line_get(k, at, i);
}

__device__ __forceinline__ void bs_cu_line_take(const bs_cu_lines &k, int64_t at, int32_t i, int32_t *v)
{
    *v = reinterpret_cast<const int32_t *>(k.x)[at + (int64_t)i * k.x_step];
}

/* NaN in element 0 stays the best; elsewhere it is ignored. Of equal elements the first. */
template <typename T> __device__ inline int32_t bs_cu_arg_of(const bs_cu_lines &k, int64_t at, bool least)
{
    T best, v;
    int32_t index = 0;
    bs_cu_line_take(k, at, 0, &best);
    if (!(best == best))
        return 0;
    for (int32_t i = k.lane; i < k.n; i += k.lanes) {
        bs_cu_line_take(k, at, i, &v);
        const bool better = least ? v < best : v > best;
        index = better ? i : index;
        best = better ? v : best;
    }
    for (int32_t m = k.lanes / 2; m > 0; m /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, best, m);
        const int32_t theirs = __shfl_xor_sync(0xffffffffu, index, m);
        if ((least ? other < best : other > best) || (other == best && theirs < index)) {
            best = other;
            index = theirs;
        }
    }
    return index;
}

__device__ inline void bs_cu_arg_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool least)
{
    bs_cu_lines_run<2>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[2]) {
        const int32_t index = k.x_type == BS_I32 ? bs_cu_arg_of<int32_t>(k, at[0], least)
                                                 : bs_cu_arg_of<float>(k, at[0], least);
        if (k.lane == 0)
            reinterpret_cast<int32_t *>(k.y)[at[1]] = index;
    });
}

__device__ inline void bs_cu_argmax_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_arg_run(t, s, w, false);
}

__device__ inline void bs_cu_argmin_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_arg_run(t, s, w, true);
}

/* -------------------------------------------------------------------------------------------------- topk */

enum { BS_CU_TOPK_COUNT }; /* p: the op's k */

/* The order of the result: larger first, NaN last, equal ones by index. */
__device__ __forceinline__ bool bs_cu_topk_before(float a, int32_t i, float b, int32_t j)
{
    if (a > b || (a == a && b != b))
        return true;
    const bool after = b > a || (b == b && a != a);
    return !after && i < j;
}

/* Fills one place after the other: with the first element, in that order, after the one in the place before. */
__device__ inline void bs_cu_topk_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_lines_run<3>(t, s, w, [&](const bs_cu_lines &k, const int64_t (&at)[3]) {
        float last = 0.0f;
        int32_t last_index = -1;
        if (k.n < s->p[BS_CU_TOPK_COUNT].i) { /* a symbol was bound below k */
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        for (int32_t place = 0; place < s->p[BS_CU_TOPK_COUNT].i; place++) {
            float best = 0.0f;
            int32_t index = INT32_MAX; /* none yet */
            for (int32_t i = k.lane; i < k.n; i += k.lanes) {
                const float v = bs_cu_line_get(k, at[0], i);
                const bool left = last_index < 0 || bs_cu_topk_before(last, last_index, v, i);
                if (left && (index == INT32_MAX || bs_cu_topk_before(v, i, best, index))) {
                    best = v;
                    index = i;
                }
            }
            for (int32_t m = k.lanes / 2; m > 0; m /= 2) {
                const float other = __shfl_xor_sync(0xffffffffu, best, m);
                const int32_t theirs = __shfl_xor_sync(0xffffffffu, index, m);
                if (theirs != INT32_MAX && (index == INT32_MAX || bs_cu_topk_before(other, theirs, best, index))) {
                    best = other;
                    index = theirs;
                }
            }
            if (k.lane == 0) {
                bs_cu_line_put(k, at[1], place, best);
                reinterpret_cast<int32_t *>(k.z)[at[2] + (int64_t)place * k.z_step] = index;
            }
            last = best;
            last_index = index;
        }
    });
}

#endif
/* ==== end src/cuda/op_lines.cuh =============================================================== */
/* ==== begin src/cuda/op_lines_chain.cuh ======================================================= */
/* op_lines_chain.cuh - a softmax or a norm with a tail: element-wise ops on what it gives, in its kernel, each what its
 * own kernel does, and what one gives to the next rounded as if it had been stored. So the bytes are those of one
 * kernel after the other.
 * A kernel by itself: those of lines without a tail keep their registers. Relies on op_chain.cuh and op_lines.cuh. Must
 * never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_LINES_CHAIN
#define BS_CUDA_OP_LINES_CHAIN

/* #include "cuda/op_chain.cuh" */
/* #include "cuda/op_lines.cuh" */

/* An operand of the steps beside the result of a line. */
struct bs_cu_line_other {
    const uint8_t *data;
    int32_t type, step; /* along the line */
    int64_t at;
};

/* What is left of a chain behind its first op; operands are numbered as those of the step. */
__device__ __forceinline__ float bs_cu_line_chain_on(const bs_device_step *s, const bs_cu_line_other &a,
                                                     const bs_cu_line_other &b, int32_t n, int32_t i, float x)
{
    const float first = n > 0 ? bs_cu_get(a.data, a.type, a.at + (int64_t)i * a.step) : 0.0f;
    const float second = n > 1 ? bs_cu_get(b.data, b.type, b.at + (int64_t)i * b.step) : 0.0f;
#pragma unroll 1
    for (int32_t k = 1; k < s->n_tail; k++)
        x = bs_cu_chain_apply(s->tail[k], s->rounded ? bs_cu_half_from(bs_cu_half_to(x)) : x,
                              s->tail[k].other == 1 ? first : second);
    return x;
}

/* The lines of operand 0 and of the result; third: an operand of the steps, which has the dimensions of the result. */
__device__ __forceinline__ bs_cu_lines bs_cu_line_chain_beside(const bs_device_step *s, const bs_cu_view &x,
                                                               const bs_cu_view &y, bs_cu_view third)
{
    third.rank = y.rank;
    return bs_cu_lines_of(x, y, third, s->p[BS_CU_FIRST].i, s->p[BS_CU_AXIS].i, s->p[BS_CU_LANES].i);
}

__device__ __forceinline__ int64_t bs_cu_line_chain_at(const bs_cu_lines &k, int32_t operand, int32_t l)
{
    const int32_t n1 = k.count[1], n2 = k.count[2], d2 = l % n2, d1 = l / n2 % n1, d0 = l / n2 / n1;
    return (int64_t)d2 * k.step[operand][2] + (int64_t)d1 * k.step[operand][1] + (int64_t)d0 * k.step[operand][0];
}

__device__ __forceinline__ void bs_cu_line_chain_line(const bs_cu_tile &t, const bs_device_step *s,
                                                      const bs_cu_lines &k, const bs_cu_lines &more, int32_t n,
                                                      const bs_cu_line_other &a, const bs_cu_line_other &b, int32_t l)
{
    const int64_t from = bs_cu_line_chain_at(k, 0, l), to = bs_cu_line_chain_at(k, 1, l);
    const bs_cu_line_other first = {a.data, a.type, a.step, bs_cu_line_chain_at(k, 2, l)},
                           second = {b.data, b.type, b.step, bs_cu_line_chain_at(more, 2, l)};
    const float *weight = reinterpret_cast<const float *>(bs_cu_prepared(t, s));
    const auto put = [&](int32_t i, float v) {
        bs_cu_line_put(k, to, i, bs_cu_line_chain_on(s, first, second, n, i, v));
    };
    switch (s->tail[0].kernel) { /* a function for each op whose line in ops/list.h says LINES */
#define BS_CU_LINE_NONE(name)
#define BS_CU_LINE_KERNEL(name)
#define BS_CU_LINE_CHAIN(name)
#define BS_CU_LINE_LINES(name) case BS_CU_##name: bs_cu_##name##_line(s, weight, k, from, put); break;
#define BS_CU_LINE_CASE(name, device) BS_CU_LINE_##device(name)
        BS_OP_LIST(BS_CU_LINE_CASE)
#undef BS_CU_LINE_CASE
#undef BS_CU_LINE_LINES
#undef BS_CU_LINE_CHAIN
#undef BS_CU_LINE_KERNEL
#undef BS_CU_LINE_NONE
    }
}

__device__ inline void bs_cu_line_chain_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t lanes = s->p[BS_CU_LANES].i;
    const bool image = bs_cu_lines_of_image(bs_cu_in(t, s, 0), bs_cu_out(t, s, 0));
    const bs_cu_deal d = bs_cu_deal_out(w, image, s->p[BS_CU_LINES].i, bs_cu_thread() / lanes,
                                        bs_cu_threads() / lanes);
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        const bs_cu_view y = bs_cu_open_out(t, s, 0, r), x = bs_cu_open_in(t, s, 0, r);
        bs_cu_view a = y, b = y;
        int32_t n = 0;
        bs_cu_zero_margin(w, y);
#pragma unroll 1
        for (int32_t k = 1; k < s->n_tail; k++) {
            if (s->tail[k].other < 0)
                continue;
            const bs_cu_view v = bs_cu_open_how(t, s, s->tail[k].other, r, s->tail[k].how);
            n = s->tail[k].other;
            a = n == 1 ? v : a;
            b = n == 2 ? v : b;
        }
        const bs_cu_lines k = bs_cu_line_chain_beside(s, x, y, a), more = bs_cu_line_chain_beside(s, x, y, b);
        const bs_cu_line_other first = {k.z, a.dtype, k.z_step, 0}, second = {more.z, b.dtype, more.z_step, 0};
        for (int32_t l = d.index; l < k.count[0] * k.count[1] * k.count[2] && k.n > 0; l += d.workers)
            bs_cu_line_chain_line(t, s, k, more, n, first, second, l);
    }
}

#endif
/* ==== end src/cuda/op_lines_chain.cuh ========================================================= */
/* ==== begin src/cuda/op_look_ahead.cuh ======================================================== */
/* op_look_ahead.cuh - what a later router would choose by the scores of now: for each path, the largest margin over all
 * rows by which it lies above the best path that a row does not choose (ops/look_ahead.c). One block; a maximum over
 * rows, so their order does not matter. Relies on route_scores.cuh. Must never touch a decision. */
#ifndef BS_CUDA_OP_LOOK_AHEAD
#define BS_CUDA_OP_LOOK_AHEAD

/* #include "cuda/kernels.cuh" */
/* #include "cuda/describe.cuh" */
/* ==== begin src/cuda/route_scores.cuh ========================================================= */
/* route_scores.cuh - scores of a row, in place or staged: copied to shared memory.
 * Relies on route_job.cuh. Must never round an i32 score. */
#ifndef BS_CUDA_ROUTE_SCORES
#define BS_CUDA_ROUTE_SCORES

/* ==== begin src/cuda/route_job.cuh ============================================================ */
/* route_job.cuh - what a block needs to make a decision: the parameters of a router's step, tables of paths in
 * shared memory or among the decision's own, choices, sums over the threads.
 * Relies on program.cuh and describe.cuh. Must never write beyond a decision's rows. */
#ifndef BS_CUDA_ROUTE_JOB
#define BS_CUDA_ROUTE_JOB

/* #include "cuda/kernels.cuh" */
/* #include "cuda/describe.cuh" */
/* #include "cuda/program.cuh" */

extern "C" {
/* ==== begin src/ops/price.h =================================================================== */
/* ops/price.h - the arithmetic of the budget protocol: for each row the variant of least cost, at the price that keeps
 * the budget. The callers sum over rows: run/budget.c, and the threads of a device (cuda/route_budget.cuh).
 * Relies on ops/decide.h. Must never use floats where a choice depends on them: choices are the same on every
 * processor. */
#ifndef BS_PRICE_H
#define BS_PRICE_H

/* ==== begin src/ops/decide.h ================================================================== */
/* ops/decide.h - the rules of the protocols: what the scores of a row decide, which row is served before which, and
 * which data is refused. run/route.c loops over the rows, the threads of a device (cuda/route_*.cuh) share them; both
 * use these rules.
 * Relies on base/base.h and graph/rows.h. Must never know where rows lie, nor what others chose. */
#ifndef BS_DECIDE_H
#define BS_DECIDE_H

/* #include "base/base.h" */
/* #include "graph/rows.h" */

/* The parameters of a router in words of four bytes. A route step on a device begins with them. */
typedef struct bs_rule {
    int32_t protocol, paths, width; /* width: scores a row */
    int32_t capacity;               /* CAPACITY: rows a path. TABLE: keys. BUDGET: variants */
    int32_t fallback, normalise, floor, spill;
    float threshold;
} bs_rule;

static inline bs_rule bs_rule_of(const bs_route_desc *d, int32_t width)
{
    const bs_rule rule = {d->protocol,
                          d->paths,
                          width,
                          d->protocol == BS_ROUTE_TABLE    ? bs_or_default(d->keys, 256)
                          : d->protocol == BS_ROUTE_BUDGET ? bs_or_default(d->variants, d->paths)
                                                           : d->capacity,
                          d->fallback,
                          d->normalise,
                          d->floor,
                          d->spill,
                          d->threshold};
    return rule;
}

/* What a row chose, in order of choice: a path or -1. */
typedef struct bs_choices {
    int32_t *path;
    float *gate;
    int32_t count; /* most paths of a row */
} bs_choices;

static inline BS_BOTH void bs_choose(const bs_choices *to, int32_t k, int32_t path, float gate)
{
    to->path[k] = path;
    to->gate[k] = gate;
}

/* ------------------------------------------------------------------------------------------------- scores */

/* The scores of a row: i32 or f32. */
typedef struct bs_scores {
    const void *data;
    ptrdiff_t stride; /* in elements */
    bool integer;
} bs_scores;

static inline BS_BOTH int32_t bs_score_int(const bs_scores *x, int32_t i)
{
    return ((const int32_t *)x->data)[i * x->stride];
}

static inline BS_BOTH float bs_score_at(const bs_scores *x, int32_t i)
{
    return x->integer ? (float)bs_score_int(x, i) : ((const float *)x->data)[i * x->stride];
}

/* Whether path a has a better score than path b. Large i32 scores are compared exactly. NaN, which a look-ahead may
 * see, is worse than all others. */
static inline BS_BOTH bool bs_score_above(const bs_scores *x, int32_t a, int32_t b)
{
    if (x->integer)
        return bs_score_int(x, a) > bs_score_int(x, b);
    const float first = bs_score_at(x, a), second = bs_score_at(x, b);
    return first > second || (isnan(second) && !isnan(first));
}

/* Whether path a is worse than path b; of equal scores the lower path is better. */
static inline BS_BOTH bool bs_score_worse(const bs_scores *x, int32_t a, int32_t b)
{
    return bs_score_above(x, b, a) || (a > b && !bs_score_above(x, a, b));
}

/* Adds path p to a heap of n, whose root is the worst path. */
static inline BS_BOTH void bs_heap_put(const bs_scores *x, int32_t *heap, int32_t n, int32_t p)
{
    for (; n > 0 && bs_score_worse(x, p, heap[(n - 1) / 2]); n = (n - 1) / 2)
        heap[n] = heap[(n - 1) / 2];
    heap[n] = p;
}

/* Replaces the root of a heap of n by path p. */
static inline BS_BOTH void bs_heap_sink(const bs_scores *x, int32_t *heap, int32_t n, int32_t p)
{
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && bs_score_worse(x, heap[child + 1], heap[child]))
            child++;
        if (!bs_score_worse(x, heap[child], p))
            break;
        heap[at] = heap[child];
    }
    heap[at] = p;
}

/* Finds the `count` best paths in falling order; of equal scores the lower path comes first. Keeps the best so far in
 * a heap, then sorts it: the worst goes to the end, again and again. */
static inline BS_BOTH void bs_best_paths(const bs_scores *x, int32_t paths, int32_t count, int32_t *best)
{
    int32_t root = 0;
    for (int32_t p = 0; p < paths; p++) { /* an equal later path is worse, so only a better one is taken */
        if (p >= count && !bs_score_above(x, p, root))
            continue;
        if (p < count)
            bs_heap_put(x, best, p, p);
        else
            bs_heap_sink(x, best, count, p);
        root = best[0];
    }
    for (int32_t n = bs_min_i32(count, paths) - 1; n > 0; n--) {
        root = best[0];
        bs_heap_sink(x, best, n, best[n]);
        best[n] = root;
    }
}

/* -------------------------------------------------------------------------------------------------- faults */

/* Why a router cannot decide, or what is wrong with what a caller's function returned. `number` of bs_route_fault
 * is: */
typedef enum bs_route_fault_kind {
    BS_ROUTE_SOUND,
    BS_ROUTE_BAD_SCORE, /* index of a score that is NaN */
    BS_ROUTE_BAD_KNOB,  /* the knob is NaN */
    /* the value below 0, or not below `end`: */
    BS_ROUTE_BAD_LABEL,
    BS_ROUTE_BAD_KEY,
    BS_ROUTE_BAD_ENTRY,   /* a path in the table */
    BS_ROUTE_BAD_VARIANT, /* the path of a variant */
    BS_ROUTE_BAD_ANSWER,  /* a path that the function chose */
    BS_ROUTE_BAD_STATUS,  /* the status that the function returned */
    BS_ROUTE_NO_FUNCTION, /* no function is set */
    /* of a loop, whose bound is `end`: */
    BS_ROUTE_BAD_COUNT,    /* trips of a row */
    BS_ROUTE_ENDLESS,      /* its predicate holds after the last trip that there may be */
    BS_ROUTE_BAD_PREDICATE, /* trip after which it is NaN */
    BS_ROUTE_FULL           /* rows that a row would make: more than there is room for, of `end` */
} bs_route_fault_kind;

typedef struct bs_route_fault {
    int32_t kind; /* bs_route_fault_kind */
    int32_t row;  /* -1: of all rows */
    int32_t number, end;
} bs_route_fault;

/* The fault `kind` if `bad`, else none. */
static inline BS_BOTH bs_route_fault bs_route_fault_if(bool bad, int32_t kind, int32_t row, int32_t number, int32_t end)
{
    const bs_route_fault fault = {bad ? kind : BS_ROUTE_SOUND, row, number, end};
    return fault;
}

/* Checks that a number is 0 .. end - 1. */
static inline BS_BOTH bs_route_fault bs_route_range(int32_t kind, int32_t row, int32_t number, int32_t end)
{
    return bs_route_fault_if(number < 0 || number >= end, kind, row, number, end);
}

static inline BS_BOTH bs_route_fault bs_route_check_scores(const bs_scores *x, int32_t width, int32_t row)
{
    int32_t i = x->integer ? width : 0;
    while (i < width && !isnan(bs_score_at(x, i)))
        i++;
    return bs_route_fault_if(i < width, BS_ROUTE_BAD_SCORE, row, i, width);
}

static inline BS_BOTH bs_route_fault bs_route_check_knob(float knob)
{
    return bs_route_fault_if(isnan(knob), BS_ROUTE_BAD_KNOB, -1, 0, 0);
}

/* Checks the path of each variant: weights come from a file. */
static inline BS_BOTH bs_route_fault bs_route_check_variants(const int32_t *path_of, int32_t variants, int32_t paths)
{
    bs_route_fault fault = {BS_ROUTE_SOUND, -1, 0, 0};
    for (int32_t v = 0; v < variants && fault.kind == BS_ROUTE_SOUND; v++)
        fault = bs_route_range(BS_ROUTE_BAD_VARIANT, -1, path_of[v], paths);
    return fault;
}

/* -------------------------------------------------------------------------------------------- row by row */

static inline BS_BOTH void bs_decide_topk(const bs_rule *rule, const bs_scores *x, const bs_choices *to)
{
    float sum = 0.0f;
    bs_best_paths(x, rule->paths, to->count, to->path);
    for (int32_t k = 0; k < to->count; k++) {
        to->gate[k] = bs_score_at(x, to->path[k]);
        sum += bs_score_at(x, to->path[k]);
    }
    for (int32_t k = 0; rule->normalise && sum > 0.0f && sum < INFINITY && k < to->count; k++)
        to->gate[k] /= sum;
}

static inline BS_BOTH void bs_decide_threshold(const bs_rule *rule, float threshold, const bs_scores *x,
                                               const bs_choices *to)
{
    const int32_t fallback = rule->fallback - 1;
    int32_t n = 0;
    for (int32_t p = 0; p < rule->paths; p++)
        if (bs_score_at(x, p) > threshold)
            bs_choose(to, n++, p, bs_score_at(x, p));
    if (n == 0 && fallback >= 0)
        bs_choose(to, n++, fallback, bs_score_at(x, fallback));
    for (; n < to->count; n++)
        bs_choose(to, n, -1, 0.0f);
}

static inline BS_BOTH bs_route_fault bs_decide_label(const bs_rule *rule, const bs_scores *x, int32_t row,
                                                     const bs_choices *to)
{
    const int32_t path = bs_read_once(x->data);
    const bs_route_fault fault = bs_route_range(BS_ROUTE_BAD_LABEL, row, path, rule->paths);
    if (fault.kind == BS_ROUTE_SOUND)
        bs_choose(to, 0, path, 1.0f);
    return fault;
}

static inline BS_BOTH bs_route_fault bs_decide_table(const bs_rule *rule, const bs_scores *x, const int32_t *table,
                                                     int32_t row, const bs_choices *to)
{
    const int32_t key = bs_read_once(x->data);
    bs_route_fault fault = bs_route_range(BS_ROUTE_BAD_KEY, row, key, rule->capacity);
    if (fault.kind == BS_ROUTE_SOUND)
        fault = bs_route_range(BS_ROUTE_BAD_ENTRY, row, table[key], rule->paths);
    if (fault.kind == BS_ROUTE_SOUND)
        bs_choose(to, 0, table[key], 1.0f);
    return fault;
}

/* What a row chooses by itself. table: the path of each key. The knob moves the threshold. */
static inline BS_BOTH bs_route_fault bs_decide_row(const bs_rule *rule, float knob, const bs_scores *x,
                                                   const int32_t *table, int32_t row, const bs_choices *to)
{
    const bs_route_fault fault = bs_route_check_scores(x, rule->width, row);
    const float threshold = rule->threshold + knob;
    if (fault.kind != BS_ROUTE_SOUND)
        return fault;
    switch (rule->protocol) {
    case BS_ROUTE_TOP1:
    case BS_ROUTE_TOPK:
    case BS_ROUTE_CAPACITY: bs_decide_topk(rule, x, to); break;
    case BS_ROUTE_THRESHOLD: bs_decide_threshold(rule, threshold, x, to); break;
    case BS_ROUTE_RESIDUAL_THRESHOLD: {
        const int32_t path = bs_score_at(x, 0) + bs_score_at(x, 1) < threshold ? 0 : 1;
        bs_choose(to, 0, path, bs_score_at(x, path));
        break;
    }
    case BS_ROUTE_BINARY: bs_choose(to, 0, bs_score_at(x, 0) >= threshold ? 0 : 1, bs_score_at(x, 0)); break;
    case BS_ROUTE_LABEL: return bs_decide_label(rule, x, row, to);
    case BS_ROUTE_TABLE: return bs_decide_table(rule, x, table, row, to);
    default: break; /* other protocols do not decide row by row */
    }
    return fault;
}

/* Entry `at` of `chosen` when a route is forced: the path as first choice, then none. */
static inline BS_BOTH int32_t bs_forced_choice(int32_t at, int32_t per_row, int32_t path)
{
    return at % per_row == 0 ? path : -1;
}

/* ------------------------------------------------------------------------------------------------ capacity */

/* Rows are served in ascending order of this rank: the highest gate first. Of equal gates (-0 equals 0) the lower row
 * goes first. */
static inline BS_BOTH uint32_t bs_capacity_rank(float gate)
{
    const float no_sign = gate + 0.0f; /* makes -0 0 */
    uint32_t bits;
    memcpy(&bits, &no_sign, sizeof bits);
    return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

/* Whether a path takes one more row after the `before` rows that it already has. */
static inline BS_BOTH bool bs_capacity_takes(const bs_rule *rule, int32_t path, int32_t before)
{
    return before < rule->capacity || path == rule->spill - 1;
}

/* In order of choice: what found no room (its path is -1) goes to the spill path, or is dropped and leaves no gap. A
 * row goes to the spill path once. Returns how many found no room. */
static inline BS_BOTH int32_t bs_spill(const bs_rule *rule, const bs_choices *of)
{
    const int32_t spill = rule->spill - 1;
    int32_t kept = 0, beyond = 0, spilled = -1;
    for (int32_t k = 0; k < of->count; k++) {
        const int32_t path = of->path[k] < 0 ? spill : of->path[k];
        beyond += of->path[k] < 0;
        if (path < 0)
            continue;
        if (path == spill && spilled >= 0) {
            of->gate[spilled] += of->gate[k];
            continue;
        }
        spilled = path == spill ? kept : spilled;
        bs_choose(of, kept++, path, of->gate[k]);
    }
    for (; kept < of->count; kept++)
        bs_choose(of, kept, -1, 0.0f);
    return beyond;
}

/* ------------------------------------------------------------------------------------------------- packing */

/* Records that entry `at` of `chosen` got the packed row `packed`; -1: it chose no path. */
static inline BS_BOTH void bs_pack_choice(int32_t at, int32_t per_row, int32_t packed, int32_t *ids, int32_t *inverse)
{
    inverse[at] = packed;
    if (packed >= 0)
        ids[packed] = at / per_row;
}

/* ---------------------------------------------------------------------------------------------- look-ahead */

/* How many paths a look-ahead must rank: those that a row takes, and the best of the others. */
static inline BS_BOTH int32_t bs_guess_asks(int32_t taken, int32_t paths) { return bs_min_i32(taken + 1, paths); }

/* How far the k-th best path lies above the best one that is not taken. */
static inline BS_BOTH float bs_guess_margin(const bs_scores *x, const int32_t *best, int32_t taken, int32_t asked,
                                            int32_t k)
{
    const float above = asked > taken ? bs_score_at(x, best[k]) - bs_score_at(x, best[taken]) : 0.0f;
    return above > 0.0f ? above : 0.0f; /* 0 for NaN: it is a choice all the same */
}

/* ---------------------------------------------------------------------------------------------- loops */

/* Which one a row is of those that the same row made, which stand side by side; makers ascend from row to row. */
static inline BS_BOTH int32_t bs_loop_child_of(const int32_t *made_by, int32_t row)
{
    int32_t first = 0, end = made_by[row] < 0 ? 0 : row; /* the first of them is one of first .. end */
    while (first < end) {
        const int32_t middle = first + (end - first) / 2;
        if (made_by[middle] < made_by[row])
            first = middle + 1;
        else
            end = middle;
    }
    return made_by[row] < 0 ? 0 : row - first;
}

#endif
/* ==== end src/ops/decide.h ==================================================================== */

/* Each row minimises cost + price x loss. The price goes through 2^(t/8 - 12), so the choice is made in integers and
 * is the same everywhere; the smallest price at which the losses fit the budget is taken. At the last step only the
 * loss counts, which fits every budget. */
#define BS_BUDGET_STEPS 200
/* A floor is an average over the frame. One row may lose this many times as much (9 dB), or what it would lose by the
 * budget alone. */
#define BS_FLOOR_ROW 8

typedef struct bs_budget {
    const bs_rule *rule;
    const int32_t *costs; /* of the variants */
    int32_t low, high;    /* search interval of the price's step */
    int32_t alone;        /* where the floor allows more than the budget: the step that keeps the budget; else -1 */
    uint64_t allowed;     /* losses that the search allows now */
    uint64_t floor;       /* losses that the floor allows */
} bs_budget;

/* Sums over all rows by weight. best: losses of the best variants. range: what the baseline loses beyond these. */
typedef struct bs_budget_sums {
    uint64_t range, best, rows;
} bs_budget_sums;

/* A patch counts by its area; at the frame's edge, by the part inside the frame. */
static inline BS_BOTH uint64_t bs_patch_area(int32_t size, int32_t height, int32_t width, int32_t patch)
{
    const int32_t across = (width + size - 1) / size;
    return (uint64_t)((int64_t)bs_min_i32(size, height - patch / across * size) *
                      bs_min_i32(size, width - patch % across * size));
}

/* Weight of the loss at step t; 0 stands for the last step, at which only the loss counts. */
static inline BS_BOTH uint64_t bs_budget_weight(int32_t t)
{
    /* 256 x 2^(i/8) - 256, a byte each */
    const uint64_t beyond = (uint64_t)23 << 8 | (uint64_t)48 << 16 | (uint64_t)76 << 24 | (uint64_t)106 << 32 |
                            (uint64_t)139 << 40 | (uint64_t)175 << 48 | (uint64_t)214 << 56;
    return t == BS_BUDGET_STEPS ? 0 : (256 + (beyond >> 8 * (t & 7) & 255)) << (t >> 3);
}

/* Limits a loss or a cost. */
static inline BS_BOTH int32_t bs_budget_clamp(int32_t n) { return bs_clamp_i32(n, 0, 1 << 24); }
static inline BS_BOTH int32_t bs_loss(const bs_scores *x, int32_t v) { return bs_budget_clamp(bs_score_int(x, v)); }

/* The variant of least cost + price x loss among those that lose at most `most`; the lower of equal ones. */
static inline BS_BOTH int32_t bs_budget_cheapest(const bs_budget *b, const bs_scores *x, uint64_t weight, uint64_t most)
{
    const int32_t variants = b->rule->capacity;
    int32_t best = 0;
    uint64_t best_total = UINT64_MAX;
    for (int32_t v = 0; v < variants; v++) {
        const uint64_t loss = (uint64_t)bs_loss(x, v), cost = (uint64_t)bs_budget_clamp(b->costs[v]);
        const uint64_t total = weight ? (cost << 20) + loss * weight : (loss << 25) + cost;
        if (total < best_total && loss <= most)
            best = v, best_total = total;
    }
    return best;
}

static inline BS_BOTH int32_t bs_budget_choice(const bs_budget *b, const bs_scores *x, uint64_t weight)
{
    if (b->alone < 0)
        return bs_budget_cheapest(b, x, weight, UINT64_MAX);
    const uint64_t alone = (uint64_t)bs_loss(x, bs_budget_cheapest(b, x, bs_budget_weight(b->alone), UINT64_MAX));
    const uint64_t least = (uint64_t)bs_loss(x, bs_budget_cheapest(b, x, 0, UINT64_MAX));
    const uint64_t row = least + BS_FLOOR_ROW * (uint64_t)b->rule->floor;
    return bs_budget_cheapest(b, x, weight, alone > row ? alone : row);
}

static inline BS_BOTH void bs_budget_add(const bs_budget *b, const bs_scores *x, uint64_t weight, bs_budget_sums *sums)
{
    const int32_t baseline = b->rule->fallback;
    int32_t low = 1 << 24, high = 0;
    for (int32_t v = 0; v < b->rule->capacity; v++) {
        const int32_t loss = bs_loss(x, v);
        low = bs_min_i32(low, loss);
        high = baseline == 0 || baseline == v + 1 ? bs_max_i32(high, loss) : high;
    }
    sums->range += weight * (uint64_t)(high - low);
    sums->best += weight * (uint64_t)low;
    sums->rows += weight;
}

/* Begins the search for the lowest price at which the losses keep the budget, which is a share of the range. */
static inline BS_BOTH void bs_budget_begin(bs_budget *b, float knob, const bs_budget_sums *sums)
{
    const float share = knob < 0.0f ? 0.0f : knob > 1.0f ? 1.0f : knob;
    b->allowed = sums->best + (uint64_t)((double)share * (double)sums->range);
    b->floor = sums->best + sums->rows * (uint64_t)b->rule->floor;
    b->low = 0;
    b->high = BS_BUDGET_STEPS;
    b->alone = -1;
}

/* Whether the search needs the losses at bs_budget_price(). Losses fall as the price rises. Where the floor allows
 * more than the budget, a second search goes on below the first result; rows may still lose what the budget alone let
 * them lose, so a floor never makes the result more expensive. */
static inline BS_BOTH bool bs_budget_asks(bs_budget *b)
{
    if (b->low == b->high && b->floor > b->allowed) {
        b->allowed = b->floor;
        b->alone = b->low;
        b->low = 0;
    }
    return b->low < b->high;
}

static inline BS_BOTH uint64_t bs_budget_price(const bs_budget *b) { return bs_budget_weight((b->low + b->high) / 2); }

static inline BS_BOTH void bs_budget_step(bs_budget *b, uint64_t losses)
{
    const int32_t middle = (b->low + b->high) / 2;
    if (losses <= b->allowed)
        b->high = middle;
    else
        b->low = middle + 1;
}

/* What bs_route_price gives: log2 of the loss for a unit of cost, which is minus that of the price: 12 - t/8,
 * exactly. */
static inline BS_BOTH float bs_budget_published(const bs_budget *b) { return (float)(96 - b->low) / 8.0f; }

#endif
/* ==== end src/ops/price.h ===================================================================== */
}

enum {
    BS_CU_ROUTE_PATHS = 1024 /* with more, tables do not fit in shared memory, and one block does everything */
};

/* Parameters of a step of a router, in p: a bs_rule, then what only a device needs. */
enum {
    BS_CU_P_KNOB = sizeof(bs_rule) / 4,
    BS_CU_P_FORCED,   /* path + 1 */
    BS_CU_P_LARGE,
    BS_CU_P_PATHS_AT, /* BUDGET: bytes from the table of costs to that of paths */
    BS_CU_P_SIZE,     /* BUDGET: size of the patches whose areas are weights; 0: none */
    BS_CU_P_HEIGHT,   /* of their frame: dimensions */
    BS_CU_P_FRAME_WIDTH,
    BS_CU_P_COUNT
};

static_assert(BS_CU_P_COUNT <= BS_DEVICE_PARAMS && sizeof(bs_rule) % 4 == 0, "p holds the parameters of a router");

__device__ __forceinline__ const bs_rule *bs_cu_rule(const bs_device_step *s)
{
    return reinterpret_cast<const bs_rule *>(s->p);
}

/* At the beginning of the workspace. Tables of paths follow if they fit, then what is staged or sorted. */
struct bs_cu_routing {
    uint64_t sums[8];       /* of each warp */
    int32_t of_thread[256];
};

/* What a block needs to make a decision. */
struct bs_cu_router {
    const bs_cu_tile *t;
    const bs_device_step *s;
    bs_cu_decision d;
    const bs_device_operand *score;
    bs_cu_routing *shared;
    int32_t *counts, *offsets; /* [paths], [paths + 1] */
    /* [paths] where the next row of a path goes; with a capacity: how many rows it has kept */
    int32_t *next;
    uint32_t *stage;
    int32_t stage_words;
    int32_t rows;
    float knob;
};

__device__ inline bs_cu_router bs_cu_router_of(const bs_cu_tile &t, const bs_device_step *s)
{
    const bs_device_decision &d = t.record->decision;
    const int32_t table_words = (3 * d.paths + 4) & ~3, words = (BS_CU_WORKSPACE - (int32_t)sizeof(bs_cu_routing)) / 4;
    const bool fits = d.paths <= BS_CU_ROUTE_PATHS;
    bs_cu_router r;
    r.t = &t;
    r.s = s;
    r.d = bs_cu_decision_of(t);
    r.score = bs_cu_in(t, s, 0);
    r.shared = reinterpret_cast<bs_cu_routing *>(t.workspace);
    r.stage = reinterpret_cast<uint32_t *>(r.shared + 1) + (fits ? table_words : 0);
    r.stage_words = words - (fits ? table_words : 0);
    r.counts = fits ? reinterpret_cast<int32_t *>(r.shared + 1) : r.d.work + 2 * (int64_t)d.rows * d.per_row;
    r.next = r.counts + d.paths;
    r.offsets = r.next + d.paths;
    r.rows = min(bs_cu_count(t, s), d.rows);
    r.knob = 0.0f;
    if (s->p[BS_CU_P_KNOB].i) {
        const bs_device_operand *knob = bs_cu_in(t, s, 1);
        r.knob = bs_cu_get(bs_cu_row(t, knob, 0), knob->dtype, 0);
    }
    return r;
}

__device__ __forceinline__ bs_choices bs_cu_choices(const bs_cu_router &r, int32_t row)
{
    const int64_t at = (int64_t)row * r.d.per_row;
    const bs_choices choices = {r.d.chosen + at, r.d.gates + at, r.d.per_row};
    return choices;
}

/* After a failure: no row has a path. */
__device__ inline void bs_cu_choose_none(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first + bs_cu_thread(); at < last; at += bs_cu_threads()) {
        r.d.chosen[at] = -1;
        r.d.gates[at] = 0.0f;
    }
}

#endif
/* ==== end src/cuda/route_job.cuh ============================================================== */

__device__ __forceinline__ bs_scores bs_cu_scores_of(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    const bs_scores scores = {bs_cu_row(t, o, row), o->stride[0], o->dtype == BS_I32};
    return scores;
}

/* Words from row to row: odd, so that the threads of a warp, a row each, have no bank conflicts. */
__device__ __forceinline__ int32_t bs_cu_stage_pitch(const bs_cu_router &r) { return bs_cu_rule(r.s)->width | 1; }

__device__ __forceinline__ bs_scores bs_cu_staged(const bs_cu_router &r, int32_t row)
{
    const bs_scores scores = {r.stage + row * bs_cu_stage_pitch(r), 1, r.score->dtype == BS_I32};
    return scores;
}

/* Stages the scores of rows first .. last - 1, by as many threads a row as it has scores. */
__device__ inline void bs_cu_stage_scores(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t width = bs_cu_rule(r.s)->width, stride = r.score->stride[0], pitch = bs_cu_stage_pitch(r);
    int32_t lanes = 1;
    while (lanes < width && lanes < 32)
        lanes *= 2;
    for (int32_t row = first + bs_cu_thread() / lanes; row < last; row += bs_cu_threads() / lanes) {
        const uint8_t *data = bs_cu_row(*r.t, r.score, row);
        uint32_t *to = r.stage + (row - first) * pitch;
        for (int32_t i = bs_cu_thread() % lanes; i < width; i += lanes)
            if (r.score->dtype == BS_I32)
                to[i] = reinterpret_cast<const uint32_t *>(data)[(int64_t)i * stride];
            else
                reinterpret_cast<float *>(to)[i] = bs_cu_get(data, r.score->dtype, (int64_t)i * stride);
    }
}

#endif
/* ==== end src/cuda/route_scores.cuh =========================================================== */

enum { BS_CU_LOOK_TAKEN, BS_CU_LOOK_PATHS }; /* p: paths a cell at most, paths */

static void bs_cu_look_ahead_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_router_info *r = &n->graph->routers[n->np->ahead_of];
    s->domain = n->in[0].domain;
    s->batch = BS_CU_ONE_BLOCK;
    s->p[BS_CU_LOOK_TAKEN].i = r->max_paths_per_cell;
    s->p[BS_CU_LOOK_PATHS].i = r->desc->paths;
}

/* Margins are not negative, so they compare as the integers that their bits are. A thread lists the best paths of its
 * row in the workspace, or, where one list does not fit there, behind the margins: guesses [paths], then a list [paths
 * a cell + 1]. */
__device__ inline void bs_cu_look_ahead_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    int32_t *margins = reinterpret_cast<int32_t *>(t.program->guesses);
    const bs_device_operand *o = bs_cu_in(t, s, 0);
    const int32_t taken = s->p[BS_CU_LOOK_TAKEN].i, paths = s->p[BS_CU_LOOK_PATHS].i;
    const int32_t asked = bs_guess_asks(taken, paths);
    const int32_t room = BS_CU_WORKSPACE / 4 / (taken + 1), threads = min(max(room, 1), bs_cu_threads());
    int32_t *best = (room > 0 ? reinterpret_cast<int32_t *>(t.workspace) : margins + paths) + threadIdx.x * (taken + 1);
    for (int32_t p = bs_cu_thread(); p < paths; p += bs_cu_threads())
        margins[p] = __float_as_int(-1.0f);
    __syncthreads();
    for (int32_t row = w.row + bs_cu_thread(); bs_cu_thread() < threads && row < w.end;
         row += threads) {
        const bs_scores x = bs_cu_scores_of(t, o, row);
        bs_best_paths(&x, paths, asked, best);
        for (int32_t k = 0; k < taken; k++)
            atomicMax(&margins[best[k]], __float_as_int(bs_guess_margin(&x, best, taken, asked, k)));
    }
    __syncthreads();
}

#endif
/* ==== end src/cuda/op_look_ahead.cuh ========================================================== */
/* ==== begin src/cuda/op_loop.cuh ============================================================== */
/* op_loop.cuh - a device decides the trips of a loop; the number of the trip, the row that made a row; and rows around
 * it.
 *
 * One block decides for all rows (of a tile, or of the whole), by ops/trips.inc: its threads are a team. A loop in a
 * tile is gone round by the block itself (bs_cu_region), one at top level by the host.
 * Relies on move_rows.cuh, prefix.cuh, route_pack.cuh, route_scores.cuh. Must never decide by rules of its own. */
#ifndef BS_CUDA_OP_LOOP
#define BS_CUDA_OP_LOOP

/* #include "cuda/move_rows.cuh" */
/* ==== begin src/cuda/prefix.cuh =============================================================== */
/* prefix.cuh - sums over the threads of a block, in their order.
 * Relies on portable.cuh. Must never be called by some threads of a block alone. */
#ifndef BS_CUDA_PREFIX
#define BS_CUDA_PREFIX

/* #include "cuda/portable.cuh" */

/* The sum of what the threads before this one give; *all: of all threads. of_warp: a place for each warp, free again
 * when this returns. */
__device__ inline int64_t bs_cu_sum_before(int64_t own, int64_t *of_warp, int64_t *all)
{
    int64_t upto = own, before = 0, sum = 0; /* upto: from the first lane of the warp */
    for (int32_t lanes = 1; lanes < 32; lanes *= 2) {
        const int64_t lower = __shfl_up_sync(0xffffffffu, upto, lanes);
        upto += bs_cu_lane() >= lanes ? lower : 0;
    }
    if (bs_cu_lane() == 31)
        of_warp[bs_cu_warp()] = upto;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        before += k < bs_cu_warp() ? of_warp[k] : 0;
        sum += of_warp[k];
    }
    __syncthreads();
    *all = sum;
    return before + upto - own;
}

#endif
/* ==== end src/cuda/prefix.cuh ================================================================= */
/* ==== begin src/cuda/route_pack.cuh =========================================================== */
/* route_pack.cuh - from choices to a decision that can be followed: how many rows each path got, which ones, where each
 * went; and what the host reads of it.
 * The rows of a path are packed in their order: ranks come from ballots and prefixes, never from the order in
 * which threads arrive. Relies on route_job.cuh. Must never change a choice. */
#ifndef BS_CUDA_ROUTE_PACK
#define BS_CUDA_ROUTE_PACK

/* #include "cuda/route_job.cuh" */

/* --------------------------------------------------------------------------------------------------- counting */

/* The lanes of this warp whose choice is the same path; 0 where there is none. Called by whole warps. */
__device__ __forceinline__ uint32_t bs_cu_peers(int32_t path, int32_t paths)
{
    uint32_t peers = __ballot_sync(0xffffffffu, path >= 0);
    for (int32_t bit = 1; bit < paths; bit *= 2) {
        const uint32_t set = __ballot_sync(0xffffffffu, (path & bit) != 0);
        peers &= path & bit ? set : ~set;
    }
    return path >= 0 ? peers : 0;
}

__device__ __forceinline__ uint32_t bs_cu_lanes_below() { return (1u << (threadIdx.x & 31u)) - 1u; }

/* Adds choices first .. last - 1 to counts; choice i is chosen[i * step + offset]. The caller clears counts before, and
 * synchronises. */
__device__ inline void bs_cu_count_choices(const bs_cu_router &r, int32_t first, int32_t last, int32_t step = 1,
                                           int32_t offset = 0)
{
    for (int32_t base = first; base < last; base += bs_cu_threads()) {
        const int32_t at = base + bs_cu_thread(), path = at < last ? r.d.chosen[(int64_t)at * step + offset] : -1;
        const uint32_t peers = bs_cu_peers(path, r.d.paths);
        if (path >= 0 && (peers & bs_cu_lanes_below()) == 0)
            atomicAdd(&r.counts[path], __popc(peers));
    }
}

__device__ inline void bs_cu_clear_counts(const bs_cu_router &r)
{
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.counts[p] = r.next[p] = 0;
}

/* Makes offsets from counts, and adds them to next. All threads, each a share of the paths; synchronises before and
 * after. */
__device__ inline void bs_cu_sum_counts(const bs_cu_router &r)
{
    const int32_t share = (r.d.paths + bs_cu_threads() - 1) / bs_cu_threads();
    const int32_t first = min(bs_cu_thread() * share, r.d.paths), last = min(first + share, r.d.paths);
    int32_t own = 0, sum = 0;
    __syncthreads();
    for (int32_t p = first; p < last; p++)
        own += r.counts[p];
    r.shared->of_thread[threadIdx.x] = own;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_thread() && first < r.d.paths; k++)
        sum += r.shared->of_thread[k];
    for (int32_t p = first; p < last; p++) {
        r.offsets[p] = sum;
        r.next[p] += sum;
        sum += r.counts[p];
        if (p + 1 == r.d.paths)
            r.offsets[r.d.paths] = sum;
    }
    __syncthreads();
}

/* Takes from next[paths] the next place on a path for this thread's item, in the order of the threads; -1 where it has
 * no path. Called by all threads; the warps take turns. */
__device__ inline int32_t bs_cu_take_place(int32_t *next, int32_t path, int32_t paths)
{
    const int32_t warp = bs_cu_warp(), lane = bs_cu_lane();
    const uint32_t peers = bs_cu_peers(path, paths);
    const int32_t leader = peers ? __ffs((int)peers) - 1 : lane;
    int32_t first = 0;
    for (int32_t k = 0; k < bs_cu_warps(); k++) {
        if (k == warp && path >= 0 && lane == leader) {
            first = next[path];
            next[path] = first + __popc(peers);
        }
        __syncthreads();
    }
    first = __shfl_sync(0xffffffffu, first, leader);
    return path < 0 ? -1 : first + __popc(peers & bs_cu_lanes_below());
}

__device__ __forceinline__ int32_t bs_cu_take_next(const bs_cu_router &r, int32_t path)
{
    return bs_cu_take_place(r.next, path, r.d.paths);
}

/* ---------------------------------------------------------------------------------------------------- packing */

/* Gives choices first .. last - 1 their packed rows: in order, from next on. All threads. */
__device__ inline void bs_cu_place_choices(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t base = first; base < last; base += bs_cu_threads()) {
        const int32_t at = base + bs_cu_thread(), path = at < last ? r.d.chosen[at] : -1;
        const int32_t packed = bs_cu_take_next(r, path);
        if (at < last)
            bs_pack_choice(at, r.d.per_row, packed, r.d.ids, r.d.inverse);
    }
}

/* At most 32 choices: the first warp packs them alone. A lane handles every 32nd path. */
__device__ inline void bs_cu_pack_few(const bs_cu_router &r, int32_t choices)
{
    const int32_t lane = bs_cu_thread(), paths = r.d.paths;
    if (lane >= 32)
        return;
    const int32_t path = lane < choices ? r.d.chosen[lane] : -1;
    const uint32_t peers = bs_cu_peers(path, paths);
    int32_t smaller = 0;
    for (int32_t base = 0; base < paths; base += 32) {
        const int32_t p = base + lane;
        int32_t count = 0, before = 0;
        for (int32_t i = 0; i < choices; i++) {
            const int32_t other = __shfl_sync(0xffffffffu, path, i);
            count += other == p;
            before += other >= 0 && other < p;
            smaller += base == 0 && other >= 0 && other < path;
        }
        if (p >= paths)
            continue;
        r.d.counts[p] = r.counts[p] = count;
        r.d.offsets[p] = before;
        if (p + 1 == paths)
            r.d.offsets[paths] = before + count;
    }
    if (lane >= choices)
        return;
    const int32_t packed = path < 0 ? -1 : smaller + __popc(peers & bs_cu_lanes_below());
    bs_pack_choice(lane, r.d.per_row, packed, r.d.ids, r.d.inverse);
}

/* Writes counts and offsets to where readers of the decision find them. */
__device__ inline void bs_cu_tell_counts(const bs_cu_router &r)
{
    for (int32_t p = bs_cu_thread(); p <= r.d.paths; p += bs_cu_threads()) {
        r.d.offsets[p] = r.offsets[p];
        if (p < r.d.paths)
            r.d.counts[p] = r.counts[p];
    }
}

/* Makes counts (rows of each path), offsets, ids and the inverse of what was chosen, by one block. */
__device__ inline void bs_cu_pack(const bs_cu_router &r)
{
    const int32_t choices = r.rows * r.d.per_row;
    __syncthreads(); /* chosen is written */
    if (choices <= 32) {
        bs_cu_pack_few(r, choices);
        __syncthreads();
        return;
    }
    bs_cu_clear_counts(r);
    __syncthreads();
    bs_cu_count_choices(r, 0, choices);
    bs_cu_sum_counts(r);
    bs_cu_tell_counts(r);
    bs_cu_place_choices(r, 0, choices);
}

/* ----------------------------------------------------------------------------------------------------- record */

/* What the host reads: the first path of rows first .. last - 1, by their place among all cells. */
__device__ inline void bs_cu_record_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    int16_t *top = reinterpret_cast<int16_t *>(r.t->program->decisions + r.t->record->decision.top);
    for (int32_t row = first + bs_cu_thread(); row < last; row += bs_cu_threads())
        top[bs_cu_top_row(*r.t, r.s->domain, row)] = (int16_t)r.d.chosen[(int64_t)row * r.d.per_row];
}

/* And how many rows each path got (counts): tiles add theirs. */
__device__ inline void bs_cu_record_counts(const bs_cu_router &r)
{
    const bs_device_decision &d = r.t->record->decision;
    int32_t *sums = reinterpret_cast<int32_t *>(r.t->program->decisions + d.sums);
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads()) {
        if (!d.in_tile) /* in a loop there is a decision a trip */
            sums[p] += r.counts[p];
        else if (r.counts[p] > 0)
            atomicAdd(&sums[p], r.counts[p]);
    }
}

#endif
/* ==== end src/cuda/route_pack.cuh ============================================================= */
/* #include "cuda/route_scores.cuh" */

/* Parameters of both decisions, in p, where a router has its bs_rule. */
enum {
    BS_CU_LOOP_BOUND,
    BS_CU_LOOP_TRIPS,   /* the dimension that it goes over, or -1 */
    BS_CU_LOOP_COUNTED, /* rows have counts: the last operand */
    BS_CU_LOOP_IN_TURN,
    BS_CU_LOOP_GROWS,
    BS_CU_LOOP_ASKS,    /* the body gives what it goes on by: operand 0 of its second decision */
    BS_CU_LOOP_END
};

static_assert((int)BS_CU_LOOP_END <= (int)BS_CU_P_KNOB, "loops have no knob");

static void bs_cu_loop_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_loop_info *loop = &n->graph->routers[n->node->router].loop;
    const bs_router_plan *plan = &n->plan->routers[n->node->router];
    memset(s->p, 0, sizeof s->p);
    s->batch = BS_CU_ONE_BLOCK;
    s->round = plan->again - plan->instr;
    s->p[BS_CU_LOOP_BOUND].i = loop->bound;
    s->p[BS_CU_LOOP_TRIPS].i = loop->trips;
    s->p[BS_CU_LOOP_COUNTED].i = loop->count != 0;
    s->p[BS_CU_LOOP_IN_TURN].i = loop->in_turn;
    s->p[BS_CU_LOOP_GROWS].i = loop->grows;
    s->p[BS_CU_LOOP_ASKS].i = bs_node_in(n->graph, &n->graph->nodes[loop->again])[0] != 0;
}

static void bs_cu_loop_again_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_loop_describe(n, s);
    s->round = -s->round;
}

static void bs_cu_loop_trip_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[0].i = static_cast<const bs_gather_params *>(n->params)->mode == BS_TRIP_FROM_1;
    s->batch = BS_CU_THREADS;
}

/* -------------------------------------------------------------------------------------------------------- team */

/* What a block knows as a team (ops/trips.inc). */
struct bs_team {
    const bs_cu_router *r;
    int32_t domain; /* of the loop */
    int32_t *places;
};

__device__ __forceinline__ int32_t bs_team_index(void) { return bs_cu_thread(); }
__device__ __forceinline__ int32_t bs_team_size(void) { return bs_cu_threads(); }
__device__ __forceinline__ void bs_team_meet(void) { __syncthreads(); }
__device__ __forceinline__ void bs_team_add(int32_t *place) { atomicAdd(place, 1); }

__device__ inline int64_t bs_team_sum_before(const bs_team *team, int64_t own, int64_t *all)
{
    return bs_cu_sum_before(own, reinterpret_cast<int64_t *>(team->r->shared->sums), all);
}

/* Fails the run by the fault of the lowest row, of those that the threads found. */
__device__ inline bool bs_team_failed(const bs_team *team, const bs_route_fault *fault)
{
    const bs_cu_router &r = *team->r;
    const bool bad = fault->kind != BS_ROUTE_SOUND;
    int32_t *lowest = team->places, *status = r.t->program->status;
    if (!__syncthreads_or(bad || bs_cu_has_failed(*r.t->program)))
        return false;
    if (threadIdx.x == 0)
        *lowest = INT32_MAX;
    __syncthreads();
    if (bad)
        atomicMin(lowest, fault->row);
    __syncthreads();
    if (bad && *lowest == fault->row && atomicCAS(&status[BS_DEVICE_FAILED], 0, (int)BS_ERROR_DATA) == 0) {
        status[BS_DEVICE_NODE] = r.s->node;
        status[BS_DEVICE_FAULT] = fault->kind;
        status[BS_DEVICE_FAULT + 1] = bs_cu_top_row(*r.t, team->domain, fault->row);
        status[BS_DEVICE_FAULT + 2] = fault->number;
        status[BS_DEVICE_FAULT + 3] = fault->end;
    }
    __syncthreads();
    return true;
}

__device__ inline int32_t bs_team_count(const bs_team *team, int32_t row)
{
    const bs_cu_router &r = *team->r;
    const bs_scores count = bs_cu_scores_of(*r.t, bs_cu_in(*r.t, r.s, r.s->n_in - 1), row);
    return bs_read_once(count.data);
}

__device__ inline bs_scores bs_team_answer(const bs_team *team, int32_t k)
{
    return bs_cu_scores_of(*team->r->t, team->r->score, k);
}

enum { BS_CU_TEAM_PLACES = sizeof(bs_cu_routing::of_thread) / sizeof(int32_t) };

__device__ inline int32_t bs_team_take(const bs_team *team, int32_t k)
{
    return bs_cu_take_place(team->places, k, BS_CU_TEAM_PLACES);
}

#define BS_TEAM __device__ inline
/* ==== begin src/ops/trips.inc ================================================================= */
/* ops/trips.inc - the decisions of a loop: which rows make the first trip, and which of those that made one make
 * another; or, where rows go in turn, whose turn it is; or, where they grow, which rows there are next.
 *
 * A team decides: the thread of a context (run/loops.c), or those of a block (cuda/op_loop.cuh). All members call each
 * function. Each has a bs_decision_data with the same numbers; its arrays are one. Rows go round the members, one each,
 * so what the members before this one found is of lower rows. Who includes this has defined:
 *     BS_TEAM                      what the functions here are, such as `static`
 *     bs_team                      a struct, in which `places` are BS_TEAM_PLACES numbers that all members see
 *     bs_team_index, bs_team_size  which member this is, and how many there are
 *     bs_team_meet                 a barrier
 *     bs_team_sum_before           the sum of what members before this one give, and that of all; barriers around it
 *     bs_team_add                  adds 1 to one of the places
 *     bs_team_take                 takes the next number of places[k], in the order of the members; k < 0: none
 *     bs_team_failed               whether the run has failed, here or elsewhere; a barrier. Of faults it keeps that of
 *                                  the lowest row
 *     bs_team_count                the count of a row of the loop's domain, where rows have one
 *     bs_team_answer               what row k of the body gave, where the loop goes by it
 *
 * Relies on ops/decide.h. Must never keep a row active beyond its bound or after a failure, nor change the order of
 * rows.
 */
enum { BS_TEAM_PLACES = 256 };

typedef struct bs_loop_rule {
    int32_t bound; /* trips of any row, at most */
    int32_t trips; /* extent of the dimension that it goes over; the bound where there is none */
    bool over, counted, in_turn; /* it goes over a dimension; each row has a count, which is the trip that it makes */
    bool grows, asks;            /* asks: the body gives what a row goes on by */
} bs_loop_rule;

typedef struct bs_trips {
    bs_team team;
    bs_loop_rule rule;
    bs_decision_data *d;
    bs_route_fault fault; /* the first one that this member found */
} bs_trips;

/* ----------------------------------------------------------------------------------------------------- rules */

/* No row makes more trips than that: what they collect has no more places. */
BS_TEAM int32_t bs_trips_limit(const bs_trips *t) { return bs_min_i32(t->rule.bound, t->rule.trips); }

/* A fault of this member, whose first one is that of its lowest row. */
BS_TEAM void bs_trips_refuse(bs_trips *t, int32_t kind, int32_t row, int32_t number, int32_t end)
{
    if (t->fault.kind == BS_ROUTE_SOUND)
        t->fault = bs_route_fault_if(true, kind, row, number, end);
}

/* Whether row k of the body, which is `row` of the loop's domain, makes the next trip as well: 1 or 0. */
BS_TEAM int32_t bs_trips_goes_on(bs_trips *t, int32_t k, int32_t row)
{
    const int32_t trip = t->d->trip;
    if (t->rule.asks) {
        const bs_scores predicate = bs_team_answer(&t->team, k);
        const float score = bs_score_at(&predicate, 0);
        if (isnan(score))
            bs_trips_refuse(t, BS_ROUTE_BAD_PREDICATE, row, trip - 1, 0);
        if (!(score > 0.0f))
            return 0;
        if (trip == t->rule.bound && !t->rule.counted && !t->rule.over)
            bs_trips_refuse(t, BS_ROUTE_ENDLESS, row, trip, t->rule.bound);
    }
    return trip < t->d->inverse[row];
}

/* How many rows row k of the body, which is `row` of the loop's domain, makes for the next trip. */
BS_TEAM int32_t bs_trips_offspring(bs_trips *t, int32_t k, int32_t row)
{
    const bs_scores asked = bs_team_answer(&t->team, k);
    const int32_t number = bs_read_once(asked.data);
    if (number > 0 && t->d->trip == t->rule.bound)
        bs_trips_refuse(t, BS_ROUTE_ENDLESS, row, t->d->trip, t->rule.bound);
    return number > 0 ? number : 0;
}

/* ------------------------------------------------------------------------------------------------------ rows */

/* Writes each member's row behind the first `kept` of `to`, as often as it says. Returns how many they are then: more
 * than there is room for, if a member has a fault. */
BS_TEAM int64_t bs_trips_add(bs_trips *t, int32_t *to, int64_t kept, int32_t row, int32_t times)
{
    int64_t all;
    const int64_t before = kept + bs_team_sum_before(&t->team, times, &all);
    if (times > 0 && times > t->d->rows - before)
        bs_trips_refuse(t, BS_ROUTE_FULL, row, times, t->d->rows);
    for (int32_t i = 0; i < times && t->fault.kind == BS_ROUTE_SOUND; i++)
        to[before + i] = row;
    return kept + all;
}

/* So many rows make the next trip; none after a failure. Returns how many they are. */
BS_TEAM int32_t bs_trips_set(const bs_trips *t, int64_t kept)
{
    const int32_t active = bs_team_failed(&t->team, &t->fault) ? 0 : (int32_t)kept;
    if (bs_team_index() == 0) {
        t->d->offsets[0] = 0;
        t->d->counts[0] = t->d->offsets[1] = active;
    }
    return active;
}

/* ----------------------------------------------------------------------------------------------------- turns */

/* A byte of the turn of a row, which is in `chosen` until turns are sorted. */
BS_TEAM int32_t bs_trips_digit(const bs_trips *t, int32_t row, int32_t shift)
{
    return t->d->chosen[row] >> shift & (BS_TEAM_PLACES - 1);
}

/* Sorts the due rows by a byte of their turns. Those where it is the same keep their order. */
BS_TEAM void bs_trips_sort(const bs_trips *t, int32_t shift, const int32_t *from, int32_t *to)
{
    const int32_t index = bs_team_index(), size = bs_team_size(), due = t->d->due;
    int32_t *const places = t->team.places;
    int64_t sum = 0, all;
    for (int32_t k = index; k < BS_TEAM_PLACES; k += size)
        places[k] = 0;
    bs_team_meet();
    for (int32_t i = index; i < due; i += size)
        bs_team_add(&places[bs_trips_digit(t, from[i], shift)]);
    bs_team_meet();
    for (int32_t base = 0; base < BS_TEAM_PLACES; base += size, sum += all) {
        const int32_t k = base + index;
        const int64_t before = sum + bs_team_sum_before(&t->team, k < BS_TEAM_PLACES ? places[k] : 0, &all);
        if (k < BS_TEAM_PLACES)
            places[k] = (int32_t)before;
    }
    bs_team_meet();
    for (int32_t base = 0; base < due; base += size) {
        const int32_t row = base + index < due ? from[base + index] : -1;
        const int32_t at = bs_team_take(&t->team, row < 0 ? -1 : bs_trips_digit(t, row, shift));
        if (row >= 0)
            to[at] = row;
    }
    bs_team_meet();
}

/* Moves the due rows from `ids` to `inverse`, in the order of their turns, and these to `ids`. BS_MAX_TRIPS turns have
 * three bytes. One pass, or three, end in `inverse`. */
BS_TEAM void bs_trips_sort_turns(const bs_trips *t)
{
    const bs_decision_data *d = t->d;
    int32_t *from = d->ids, *to = d->inverse;
    for (int32_t shift = 0; shift <= (t->rule.bound > BS_TEAM_PLACES ? 16 : 0); shift += 8) {
        bs_trips_sort(t, shift, from, to);
        int32_t *const sorted = to;
        to = from;
        from = sorted;
    }
    for (int32_t i = bs_team_index(); i < d->due; i += bs_team_size()) {
        d->ids[i] = d->chosen[d->inverse[i]];
        d->chosen[d->inverse[i]] = 0;
    }
    bs_team_meet();
}

/* ------------------------------------------------------------------------------------------------- decisions */

/* Who makes another trip.
 * Rows that go on are packed in place: one is written where it, or one that is decided already, has been; members read
 * before the sum, and write after it.
 * In turn: the next rows of `inverse` that have one turn, which is at their place in `ids`; those that make the trip
 * are written before that. Turns without rows are passed over.
 * Growing: the rows that those of the last trip make, side by side in their order; `inverse` says who made each. */
BS_TEAM void bs_trips_again(bs_trips *t)
{
    bs_decision_data *d = t->d;
    const bool in_turn = t->rule.in_turn, grows = t->rule.grows, alike = !t->rule.counted && !t->rule.asks;
    const int32_t count = in_turn ? d->due - d->taken : d->counts[0], first = grows ? d->due : 0;
    const int32_t *from = in_turn ? d->inverse + d->taken : d->ids;
    int64_t kept = first;
    if (count > 0)
        d->trip = in_turn ? d->ids[d->taken] : d->trip + 1;
    if (alike) /* all rows go on, or none */
        kept = d->trip < bs_trips_limit(t) ? count : 0;
    for (int32_t base = 0; base < count && !alike && (!in_turn || kept == base); base += bs_team_size()) {
        const int32_t k = base + bs_team_index(), row = k < count ? from[k] : -1;
        const bool may = row >= 0 && t->fault.kind == BS_ROUTE_SOUND;
        const int32_t times = !may      ? 0
                              : in_turn ? d->ids[d->taken + k] == d->trip
                              : grows   ? bs_trips_offspring(t, k, row)
                                        : bs_trips_goes_on(t, k, row);
        kept = bs_trips_add(t, grows ? d->inverse : d->ids, kept, row, times);
    }
    const int32_t made = bs_trips_set(t, kept - first);
    for (int32_t k = bs_team_index(); k < made && grows; k += bs_team_size())
        d->ids[k] = first + k;
    d->due += grows ? made : 0;
    d->taken += in_turn ? made : 0;
}

/* Who makes the first trip. Where rows grow, there are no others yet but those before the last that makes it; elsewhere
 * `inverse` says how many each makes at most, whatever its count becomes while the loop runs. */
BS_TEAM void bs_trips_begin(bs_trips *t)
{
    bs_decision_data *d = t->d;
    const int32_t limit = bs_trips_limit(t);
    int64_t kept = 0;
    for (int32_t base = 0; base < d->rows; base += bs_team_size()) {
        const int32_t row = base + bs_team_index();
        bool goes = false;
        if (row < d->rows && t->fault.kind == BS_ROUTE_SOUND) {
            const int32_t most = t->rule.counted ? bs_team_count(&t->team, row) : t->rule.trips;
            goes = most > 0;
            if (most > limit)
                bs_trips_refuse(t, BS_ROUTE_BAD_COUNT, row, most, limit);
            d->chosen[row] = !goes ? -1 : t->rule.in_turn ? most - 1 : 0;
            d->gates[row] = 1.0f;
            d->inverse[row] = t->rule.grows ? -1 : most;
        }
        kept = bs_trips_add(t, d->ids, kept, row, goes);
    }
    d->trip = d->taken = 0;
    d->due = bs_trips_set(t, kept);
    if (t->rule.in_turn) {
        bs_trips_sort_turns(t);
        bs_trips_again(t);
    } else if (t->rule.grows && d->due > 0) {
        d->due = d->ids[d->due - 1] + 1;
    }
}
/* ==== end src/ops/trips.inc =================================================================== */
#undef BS_TEAM

static_assert((int)BS_CU_TEAM_PLACES == (int)BS_TEAM_PLACES, "a team's places are in shared memory");

/* ------------------------------------------------------------------------------------------------- decisions */

enum { BS_CU_TRIP_NUMBER, BS_CU_TRIP_DUE, BS_CU_TRIP_TAKEN }; /* what is beside a decision from trip to trip */

__device__ inline bs_loop_rule bs_cu_loop_rule(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t *dims = t.program->extents ? t.program->extents : t.program->dims;
    const int32_t bound = s->p[BS_CU_LOOP_BOUND].i, trips = s->p[BS_CU_LOOP_TRIPS].i;
    const bs_loop_rule rule = {bound, trips >= 0 ? dims[trips] : bound, trips >= 0, s->p[BS_CU_LOOP_COUNTED].i != 0,
                               s->p[BS_CU_LOOP_IN_TURN].i != 0, s->p[BS_CU_LOOP_GROWS].i != 0,
                               s->p[BS_CU_LOOP_ASKS].i != 0};
    return rule;
}

/* Decides, begins: for the first time, and keeps what the next decision and the host need. domain: of the loop. */
__device__ inline void bs_cu_loop_decide(const bs_cu_router &r, int32_t domain, bool begins)
{
    int32_t *state = bs_cu_trip(*r.t, r.s->router);
    bs_decision_data d;
    memset(&d, 0, sizeof d);
    d.rows = min(bs_cu_count(*r.t, domain), r.t->program->decision[r.s->router].rows);
    d.chosen = r.d.chosen;
    d.gates = r.d.gates;
    d.counts = r.d.counts;
    d.offsets = r.d.offsets;
    d.ids = r.d.ids;
    d.inverse = r.d.inverse;
    if (!begins) {
        d.trip = state[BS_CU_TRIP_NUMBER];
        d.due = state[BS_CU_TRIP_DUE];
        d.taken = state[BS_CU_TRIP_TAKEN];
    }
    bs_trips trips = {{&r, domain, r.shared->of_thread}, bs_cu_loop_rule(*r.t, r.s), &d, {BS_ROUTE_SOUND, -1, 0, 0}};
    if (begins)
        bs_trips_begin(&trips);
    else
        bs_trips_again(&trips);
    if (threadIdx.x == 0) {
        state[BS_CU_TRIP_NUMBER] = d.trip;
        state[BS_CU_TRIP_DUE] = d.due;
        state[BS_CU_TRIP_TAKEN] = d.taken;
        r.counts[0] = d.counts[0];
    }
    bs_cu_record_counts(r);
}

__device__ inline void bs_cu_loop_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    (void)w;
    bs_cu_loop_decide(r, s->domain, true);
    if (bs_cu_has_failed(*t.program))
        bs_cu_choose_none(r, 0, r.rows);
    bs_cu_record_rows(r, 0, r.rows);
}

__device__ inline void bs_cu_loop_again_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    (void)w;
    bs_cu_loop_decide(bs_cu_router_of(t, s), t.program->domains[s->domain].parent, false);
}

/* ------------------------------------------------------------------------------------------------------ trip */

__device__ inline void bs_cu_loop_trip_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t trip = *bs_cu_trip(t, s->router) + s->p[0].i;
    for (int32_t row = w.row + bs_cu_thread(); row < w.end; row += bs_cu_threads())
        *reinterpret_cast<int32_t *>(bs_cu_row(t, bs_cu_out(t, s, 0), row)) = trip;
}

static_assert((int)BS_TRIP_FROM_1 == (int)BS_PARENT_CHILD, "one function describes both");
static constexpr bs_cu_describe bs_cu_loop_parent_describe = bs_cu_loop_trip_describe;

__device__ inline void bs_cu_loop_parent_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    for (int32_t k = w.row + bs_cu_thread(); k < w.end; k += bs_cu_threads()) {
        const int32_t row = bs_cu_parent_row(t, s->domain, k);
        *reinterpret_cast<int32_t *>(bs_cu_row(t, bs_cu_out(t, s, 0), k)) =
            s->p[0].i ? bs_loop_child_of(d.inverse, row) : d.inverse[row];
    }
}

/* ----------------------------------------------------------------------------------------------- rows around it */

static void bs_cu_loop_rows_describe(const bs_cu_node *n, bs_device_step *s)
{
    memset(s->p, 0, sizeof s->p);
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* Operands: the rows of the loop's domain, and which of them. A row goes to each place along dimension 0, or is all. */
__device__ inline void bs_cu_loop_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const int32_t rows = bs_cu_count(t, x->domain);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        const bs_cu_view index = bs_cu_open_in(t, s, 1, r), y = bs_cu_open_out(t, s, 0, r);
        for (int32_t k = 0; k < (index.rank ? index.dim[0] : 1); k++) {
            const int32_t named = bs_cu_index_at(index, (int64_t)k * index.stride[0]);
            if (named < -1 || named >= rows) {
                bs_cu_fail(t, s, BS_ERROR_DATA);
                return;
            }
            const bs_cu_view from = bs_cu_open(t, x, max(named, 0));
            bs_cu_view to = from;
            to.dtype = y.dtype;
            to.data = y.data + (index.rank ? (int64_t)k * y.stride[0] * bs_cu_bytes(y.dtype) : 0);
#pragma unroll
            for (int32_t d = 0; d < BS_MAX_RANK - 1; d++)
                to.stride[d] = index.rank ? y.stride[d + 1] : y.stride[d];
            if (named < 0)
                bs_cu_zero_rect(to, to, team, w);
            else
                bs_cu_row_copy(to, from, team, t.workspace, w);
        }
        bs_cu_zero_around(t, out, r, team, w);
    }
}

#endif
/* ==== end src/cuda/op_loop.cuh ================================================================ */
/* ==== begin src/cuda/op_matmul.cuh ============================================================ */
/* op_matmul.cuh - products of two computed matrices, one product for each index of the leading dimensions.
 * Operands have any strides and are copied to shared memory element by element, fastest along the dimension whose
 * elements are closer together. A sum is k = 0, 1, 2 ..., as the definition says.
 * Relies on gemm.cuh and program.cuh. Must never read beyond a matrix: sizes are those of this run. */
#ifndef BS_CUDA_OP_MATMUL
#define BS_CUDA_OP_MATMUL

/* #include "cuda/gemm.cuh" */
/* #include "cuda/kernels.cuh" */
/* #include "cuda/program.cuh" */

enum { BS_CU_MATMUL_STAGE_BYTES = 2 * BS_CU_GEMM_SIDE * BS_CU_GEMM_PITCH };

/* Its parameters, in p: the descriptor's words. */
enum { BS_CU_MATMUL_TRANSPOSE, BS_CU_MATMUL_SCALE };

static void bs_cu_matmul_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_device_operand *o = &n->out[0];
    s->parts = bs_cu_work_items(bs_cu_product(o->dim, o->rank - 2) * bs_ceil_div(o->dim[o->rank - 2], BS_CU_GEMM_SIDE) *
                                bs_ceil_div(o->dim[o->rank - 1], BS_CU_GEMM_SIDE),
                            1);
}

/* A matrix as lines of k, whichever way it is stored. */
struct bs_cu_matmul_side {
    const bs_device_operand *o;
    int32_t lines, k, line_step, k_step;
};

__device__ inline bs_cu_matmul_side bs_cu_matmul_side_of(const bs_device_operand *o, bool transposed)
{
    const int32_t line = transposed ? o->rank - 2 : o->rank - 1, k = transposed ? o->rank - 1 : o->rank - 2;
    bs_cu_matmul_side m;
    m.o = o;
    m.lines = o->dim[line];
    m.k = o->dim[k];
    m.line_step = o->stride[line];
    m.k_step = o->stride[k];
    return m;
}

/* Where matrix `index` of a row is. */
__device__ inline uint8_t *bs_cu_matmul_at(const bs_cu_tile &t, const bs_device_operand *o, int32_t row, int32_t index)
{
    int64_t offset = 0;
    for (int32_t d = o->rank - 3; d >= 0; d--) {
        offset += (int64_t)(index % o->dim[d]) * o->stride[d];
        index /= o->dim[d];
    }
    return bs_cu_row(t, o, row) + offset * bs_cu_bytes(o->dtype);
}

/* Loads elements k .. k + 16 of `count` lines from `first`; zeros beyond the last one. */
__device__ __forceinline__ void bs_cu_matmul_load(const bs_cu_matmul_side &m, const uint8_t *from, int32_t first,
                                                  int32_t count, int32_t k, uint8_t *to)
{
    const bool across = abs(m.line_step) < abs(m.k_step);
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < BS_CU_GEMM_SIDE * 16; i += bs_cu_threads()) {
        const int32_t line = across ? i % BS_CU_GEMM_SIDE : i / 16, at = across ? i / BS_CU_GEMM_SIDE : i % 16;
        if (line < count)
            *reinterpret_cast<float *>(to + line * BS_CU_GEMM_PITCH +
                                       at * 4) = k + at < m.k ? bs_cu_get(from, m.o->dtype,
                                                                          (int64_t)(first + line) * m.line_step +
                                                                              (int64_t)(k + at) * m.k_step)
                                                              : 0.0f;
    }
}

struct bs_cu_matmul_job {
    bs_cu_matmul_side a, b;
    const bs_device_operand *out;
    float scale;
};

/* Lines line .. line + count (those of a pass at most) by columns first .. first + columns (64 at most) of one
 * product. */
__device__ inline void bs_cu_matmul_pass(const bs_cu_tile &t, const bs_cu_matmul_job &j, const uint8_t *a,
                                         const uint8_t *b, uint8_t *out, int32_t line, int32_t count, int32_t first,
                                         int32_t columns)
{
    float sum[16];
    int32_t stage = 0;
#pragma unroll
    for (int32_t i = 0; i < 16; i++)
        sum[i] = 0.0f;
    bs_cu_matmul_load(j.b, b, first, columns, 0, t.workspace);
    bs_cu_matmul_load(j.a, a, line, count, 0, t.workspace + BS_CU_MATMUL_STAGE_BYTES / 2);
    for (int32_t k = 0; k < j.a.k; k += 16) {
        uint8_t *here = t.workspace + stage * BS_CU_MATMUL_STAGE_BYTES,
                *next = t.workspace + (stage ^ 1) * BS_CU_MATMUL_STAGE_BYTES;
        __syncthreads();
        if (k + 16 < j.a.k) {
            bs_cu_matmul_load(j.b, b, first, columns, k + 16, next);
            bs_cu_matmul_load(j.a, a, line, count, k + 16, next + BS_CU_MATMUL_STAGE_BYTES / 2);
        }
        bs_cu_gemm_step<4, 4>(here, here + BS_CU_MATMUL_STAGE_BYTES / 2, sum);
        stage ^= 1;
    }
    float *sums = reinterpret_cast<float *>(t.workspace);
    const bs_device_operand *o = j.out;
    __syncthreads();
    bs_cu_gemm_finish<4, 4>(sum, sums);
    __syncthreads();
#pragma unroll 1
    for (int32_t i = bs_cu_thread(); i < count * BS_CU_GEMM_SIDE; i += bs_cu_threads()) {
        const int32_t y = i / BS_CU_GEMM_SIDE, x = i % BS_CU_GEMM_SIDE;
        if (x < columns)
            bs_cu_put(out, o->dtype,
                      (int64_t)(line + y) * o->stride[o->rank - 2] + (int64_t)(first + x) * o->stride[o->rank - 1],
                      sums[y * BS_CU_SUMS_PITCH + x] * j.scale);
    }
    __syncthreads();
}

__device__ inline void bs_cu_matmul_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_matmul_job j;
    j.a = bs_cu_matmul_side_of(bs_cu_in(t, s, 0), true);
    j.b = bs_cu_matmul_side_of(bs_cu_in(t, s, 1), s->p[BS_CU_MATMUL_TRANSPOSE].i != 0);
    j.out = bs_cu_out(t, s, 0);
    j.scale = s->p[BS_CU_MATMUL_SCALE].f == 0.0f ? 1.0f : s->p[BS_CU_MATMUL_SCALE].f;
    const int64_t matrices = bs_cu_product(j.out->dim, j.out->rank - 2);
    const int32_t down = (j.a.lines + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE,
                  across = (j.b.lines + BS_CU_GEMM_SIDE - 1) / BS_CU_GEMM_SIDE;
    const int32_t most = bs_cu_gemm_lines<4, 4>();
    for (int32_t r = w.row; r < w.end; r++) {
        bs_cu_zero_margin_of(t, w, j.out, r);
        for (int64_t item = w.part; item < matrices * down * across; item += w.parts) {
            const int32_t matrix = (int32_t)(item / (down * across)), tile = (int32_t)(item % (down * across));
            const int32_t line = tile % down * BS_CU_GEMM_SIDE, first = tile / down * BS_CU_GEMM_SIDE,
                          end = min(line + BS_CU_GEMM_SIDE, j.a.lines);
            const uint8_t *a = bs_cu_matmul_at(t, j.a.o, r, matrix), *b = bs_cu_matmul_at(t, j.b.o, r, matrix);
            const int32_t columns = min((int32_t)BS_CU_GEMM_SIDE, j.b.lines - first);
            for (int32_t at = line; at < end; at += most)
                bs_cu_matmul_pass(t, j, a, b, bs_cu_matmul_at(t, j.out, r, matrix), at, min(most, end - at), first,
                                  columns);
        }
    }
}

#endif
/* ==== end src/cuda/op_matmul.cuh ============================================================== */
/* ==== begin src/cuda/op_move.cuh ============================================================== */
/* op_move.cuh - moving whole rows, the device's side of run/move.c: store, which loads too, and beyond, which zeroes
 * unused rows of a collected tensor. program.cuh finds the rows. Relies on move_rows.cuh. Must never decide anything.
 * */
#ifndef BS_CUDA_OP_MOVE
#define BS_CUDA_OP_MOVE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/move_rows.cuh" */

/* --------------------------------------------------------------------------------------------------- describe */

static void bs_cu_store_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(s->n_in ? &n->in[0] : &n->out[0]), s);
}

enum { BS_CU_BEYOND_DOMAIN }; /* p: the domain whose rows were collected */

static void bs_cu_beyond_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BEYOND_DOMAIN].i = n->graph->values[bs_node_in(n->graph, n->node)[0]].domain;
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* ------------------------------------------------------------------------------------------------------- rows */

__device__ inline void bs_cu_store_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        if (s->n_in == 0) { /* what a loop collects, before the first trip */
            const bs_cu_view v = bs_cu_open_target(t, out, r);
            bs_cu_zero_rect(v, v, team, w);
        } else {
            bs_cu_row_copy(bs_cu_open_target(t, out, r), bs_cu_open_in(t, s, 0, r), team, t.workspace, w);
        }
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* A collected tensor has a row for every cell there can be: those beyond the last one become zero. */
__device__ inline void bs_cu_beyond_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const int32_t rows = bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        bs_cu_view v = bs_cu_open(t, out, r);
        v.data += (int64_t)rows * v.stride[0] * bs_cu_bytes(v.dtype);
        v.dim[0] = max(v.dim[0] - rows, 0);
        bs_cu_zero_rect(v, {0, v.dim[1], 0, v.dim[2]}, team, w);
        if (w.part == 0 && v.margin > 0)
            bs_cu_zero_beyond_frame(v, team);
    }
}

#endif
/* ==== end src/cuda/op_move.cuh ================================================================ */
/* ==== begin src/cuda/op_nms.cuh =============================================================== */
/* op_nms.cuh - of boxes that overlap the one with the best score: nms.
 *
 * A block takes a class of a batch: it sorts the scores above the limit, then decides of as many boxes as it has
 * threads at a time, the best ones first. Each is compared with what is kept already, which is kept boxes times boxes
 * in all; among themselves they take one barrier for each that is kept. A second launch, for which all counts are
 * known, puts the rows one after the other.
 * Relies on op_from_data.cuh, sort.cuh and ops/found.h. Must never write a row beyond its maximum: what there is is
 * counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_NMS
#define BS_CUDA_OP_NMS

/* #include "cuda/op_from_data.cuh" */
/* ==== begin src/cuda/sort.cuh ================================================================= */
/* sort.cuh - sorting keys of which no two are equal, ascending, by all threads of a block.
 *
 * A bitonic network whose every comparison puts the smaller key first, so that what lies beyond the last key can be
 * left out: log2(n)^2 / 2 passes over all keys. Called after a barrier; ends with one.
 * Relies on portable.cuh. Must never be given two equal keys where their order matters: they have none. */
#ifndef BS_CUDA_SORT
#define BS_CUDA_SORT

/* #include "cuda/portable.cuh" */

enum { BS_CU_SORT_STAGE = 2048 }; /* keys that are sorted in shared memory at a time: a power of two */

/* One pass: compares keys that are `half` apart in blocks of twice as many; mirrored, those that lie alike from both
 * ends of such a block. */
__device__ inline void bs_cu_sort_pass(uint64_t *keys, uint32_t n, uint32_t half, bool mirrored)
{
    for (uint32_t i = threadIdx.x;; i += blockDim.x) {
        const uint32_t low = i / half * 2 * half + i % half, high = mirrored ? low ^ (2 * half - 1) : low + half;
        if (low >= n)
            break;
        if (high < n && keys[low] > keys[high]) {
            const uint64_t key = keys[low];
            keys[low] = keys[high];
            keys[high] = key;
        }
    }
    __syncthreads();
}

/* The passes from `half` down to 1. */
__device__ inline void bs_cu_sort_passes(uint64_t *keys, uint32_t n, uint32_t half)
{
    for (; half > 0; half /= 2)
        bs_cu_sort_pass(keys, n, half, false);
}

/* All passes where the keys are: for keys in shared memory, or few. */
__device__ inline void bs_cu_sort_here(uint64_t *keys, uint32_t n)
{
    for (uint32_t half = 1; half < n; half *= 2) {
        bs_cu_sort_pass(keys, n, half, true);
        bs_cu_sort_passes(keys, n, half / 2);
    }
}

/* Sorts each BS_CU_SORT_STAGE keys by themselves, in shared memory; merges: they were merged so far that passes from
 * half of as many down are left. */
__device__ inline void bs_cu_sort_stages(uint64_t *keys, uint32_t n, uint64_t *stage, bool merges)
{
    for (uint32_t first = 0; first < n; first += BS_CU_SORT_STAGE) {
        const uint32_t count = min(n - first, (uint32_t)BS_CU_SORT_STAGE);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            stage[i] = keys[first + i];
        __syncthreads();
        if (merges)
            bs_cu_sort_passes(stage, count, BS_CU_SORT_STAGE / 2);
        else
            bs_cu_sort_here(stage, count);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            keys[first + i] = stage[i];
        __syncthreads();
    }
}

/* Any number of keys up to 2^31 in the device's memory; stage: [BS_CU_SORT_STAGE] in shared memory. Of 2^k stages all
 * keys are read and written k (k + 1) / 2 times for passes between stages, and k + 1 times for those within them. */
__device__ inline void bs_cu_sort_keys(uint64_t *keys, uint32_t n, uint64_t *stage)
{
    bs_cu_sort_stages(keys, n, stage, false);
    for (uint32_t half = BS_CU_SORT_STAGE; half < n; half *= 2) {
        bs_cu_sort_pass(keys, n, half, true);
        for (uint32_t within = half / 2; within >= BS_CU_SORT_STAGE; within /= 2)
            bs_cu_sort_pass(keys, n, within, false);
        bs_cu_sort_stages(keys, n, stage, true);
    }
}

#endif
/* ==== end src/cuda/sort.cuh =================================================================== */

extern "C" {
/* #include "ops/found.h" */
}

/* p: the descriptor's words, the second one not 0 */
enum { BS_CU_NMS_MAXIMUM, BS_CU_NMS_MOST, BS_CU_NMS_SHARE, BS_CU_NMS_ABOVE, BS_CU_NMS_CENTRE };

/* A work item for each class of each batch. */
static void bs_cu_nms_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->parts = bs_cu_work_items((int64_t)n->in[1].dim[0] * n->in[1].dim[1], 1);
    s->then = BS_CU_nms_pack;
    if (s->p[BS_CU_NMS_MOST].i == 0)
        s->p[BS_CU_NMS_MOST].i = INT32_MAX;
}

/* What lies in the scratch, as nms_plan in ops/nms.c sizes it. A line is a class of a batch. */
struct bs_cu_nms {
    uint64_t *keys; /* [lines][boxes]: the order of a score, then its box; at last the boxes that are kept */
    int32_t *kept;  /* [lines] */
    int64_t lines;
    int32_t boxes, classes;
};

struct bs_cu_nms_room {
    int32_t of_warp[BS_CU_THREADS / 32];
    uint32_t votes[2][BS_CU_THREADS / 32];
    bs_box box[BS_CU_THREADS];
};

static_assert(sizeof(bs_cu_nms_room) <= BS_CU_WORKSPACE, "boxes are compared in the workspace");

__device__ __forceinline__ bs_cu_nms bs_cu_nms_of(const bs_cu_tile &t, const bs_device_step *s)
{
    const bs_device_operand *scores = bs_cu_in(t, s, 1);
    bs_cu_nms k;
    k.lines = (int64_t)scores->dim[0] * scores->dim[1];
    k.classes = scores->dim[1];
    k.boxes = scores->dim[2];
    k.keys = reinterpret_cast<uint64_t *>(t.program->kernel_scratch);
    k.kept = reinterpret_cast<int32_t *>(k.keys + k.lines * k.boxes);
    return k;
}

/* Box `id` of batch `batch`. */
__device__ __forceinline__ bs_box bs_cu_nms_box(const bs_cu_tile &t, const bs_device_step *s, int64_t batch, int32_t id)
{
    const bs_device_operand *o = bs_cu_in(t, s, 0);
    const float *at = reinterpret_cast<const float *>(bs_cu_row(t, o, 0)) + batch * o->stride[0] +
                      (int64_t)id * o->stride[1];
    return bs_box_of(at, o->stride[2], s->p[BS_CU_NMS_CENTRE].i != 0);
}

/* Keys of the scores above the limit, the best first; returns how many. */
__device__ inline int32_t bs_cu_nms_sort(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_nms &k, int64_t line,
                                         uint64_t *keys)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    const bs_device_operand *o = bs_cu_in(t, s, 1);
    const float *scores = reinterpret_cast<const float *>(bs_cu_row(t, o, 0)) + line / k.classes * o->stride[0] +
                          line % k.classes * o->stride[1];
    int32_t count = 0;
    for (int64_t first = 0; first < k.boxes; first += bs_cu_threads()) {
        const int64_t i = first + bs_cu_thread();
        const float score = i < k.boxes ? scores[i * o->stride[2]] : 0.0f;
        const bool is = i < k.boxes && score > s->p[BS_CU_NMS_ABOVE].f;
        int32_t all;
        if (score != score)
            bs_cu_fail(t, s, BS_ERROR_DATA);
        const int32_t at = count + bs_cu_rank(is, room->of_warp, &all);
        if (is)
            keys[at] = (uint64_t)~bs_order_key(BS_F32, __float_as_uint(score)) << 32 | (uint32_t)i;
        count += all;
        __syncthreads(); /* before the next round takes the workspace */
    }
    bs_cu_sort_keys(keys, (uint32_t)count, reinterpret_cast<uint64_t *>(t.workspace));
    return count;
}

/* Whether a box overlaps one that is kept. All threads, a box each. */
__device__ inline bool bs_cu_nms_is_covered(const bs_cu_tile &t, const bs_device_step *s, int64_t batch,
                                            const uint64_t *keys, int32_t kept, const bs_box &own)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    bool covered = false;
    for (int32_t first = 0; first < kept; first += bs_cu_threads()) {
        const int32_t count = min(bs_cu_threads(), kept - first);
        __syncthreads(); /* what is there has been compared */
        if (bs_cu_thread() < count)
            room->box[bs_cu_thread()] = bs_cu_nms_box(t, s, batch, (int32_t)keys[first + bs_cu_thread()]);
        __syncthreads();
        for (int32_t i = 0; i < count && !covered; i++)
            covered = bs_boxes_overlap(&room->box[i], &own, s->p[BS_CU_NMS_SHARE].f);
    }
    return covered;
}

/* The first thread for which `is` holds, or -1. votes: a word a warp, which may be written again after the next
 * barrier. */
__device__ inline int32_t bs_cu_first_of(bool is, uint32_t *votes)
{
    const uint32_t own = __ballot_sync(0xffffffffu, is);
    if (bs_cu_lane() == 0)
        votes[bs_cu_warp()] = own;
    __syncthreads();
    for (int32_t k = 0; k < bs_cu_warps(); k++)
        if (votes[k])
            return 32 * k + __ffs((int)votes[k]) - 1;
    return -1;
}

/* Moves the boxes of a line that stay to the front of its `count` keys; returns how many. */
__device__ inline int32_t bs_cu_nms_choose(const bs_cu_tile &t, const bs_device_step *s, int64_t batch, uint64_t *keys,
                                           int32_t count)
{
    bs_cu_nms_room *room = reinterpret_cast<bs_cu_nms_room *>(t.workspace);
    const int32_t most = s->p[BS_CU_NMS_MOST].i;
    int32_t kept = 0;
    for (int64_t first = 0; first < count && kept < most; first += bs_cu_threads()) {
        const bool is = first + bs_cu_thread() < count;
        const int32_t id = is ? (int32_t)keys[first + bs_cu_thread()] : (int32_t)keys[first];
        const bs_box own = bs_cu_nms_box(t, s, batch, id);
        bool left = !bs_cu_nms_is_covered(t, s, batch, keys, kept, own) && is;
        __syncthreads(); /* what is there has been compared */
        room->box[bs_cu_thread()] = own;
        for (int32_t turn = 0; kept < most; turn ^= 1) { /* two sets of votes: one barrier is enough */
            const int32_t best = bs_cu_first_of(left, room->votes[turn]);
            if (best < 0)
                break;
            if (bs_cu_thread() == best)
                keys[kept] = (uint32_t)id; /* each thread has read its own key */
            kept++;
            left = left && bs_cu_thread() > best &&
                   !bs_boxes_overlap(&room->box[best], &own, s->p[BS_CU_NMS_SHARE].f);
        }
    }
    return kept;
}

__device__ inline void bs_cu_nms_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_nms k = bs_cu_nms_of(t, s);
    for (int64_t line = w.part; line < k.lines; line += w.parts) {
        uint64_t *keys = k.keys + line * k.boxes;
        const int32_t count = bs_cu_nms_sort(t, s, k, line, keys),
                      kept = bs_cu_nms_choose(t, s, line / k.classes, keys, count);
        if (bs_cu_thread() == 0)
            k.kept[line] = kept;
        __syncthreads(); /* before the next line takes the workspace */
    }
}

/* ----------------------------------------------------------------------------------------------------- the rows */

/* How many boxes the lines before this one keep. All threads. */
__device__ inline int64_t bs_cu_nms_before(const bs_cu_tile &t, const bs_cu_nms &k, int64_t line)
{
    uint64_t sum = 0;
    for (int64_t i = bs_cu_thread(); i < line; i += bs_cu_threads())
        sum += (uint64_t)k.kept[i];
    return (int64_t)bs_cu_sum_threads(reinterpret_cast<uint64_t *>(t.workspace), sum);
}

__device__ inline void bs_cu_nms_pack_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_nms k = bs_cu_nms_of(t, s);
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, out, 0));
    for (int64_t line = w.part; line < k.lines; line += w.parts) {
        const int64_t before = bs_cu_nms_before(t, k, line);
        for (int64_t i = bs_cu_thread(); i < k.kept[line] && before + i < out->dim[0]; i += bs_cu_threads()) {
            int32_t *row = to + (before + i) * out->stride[0];
            row[0] = (int32_t)(line / k.classes);
            row[out->stride[1]] = (int32_t)(line % k.classes);
            row[2 * (int64_t)out->stride[1]] = (int32_t)k.keys[line * k.boxes + i];
        }
    }
    if (w.part > 0)
        return;
    const int64_t all = bs_cu_nms_before(t, k, k.lines);
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, all);
}

#endif
/* ==== end src/cuda/op_nms.cuh ================================================================= */
/* ==== begin src/cuda/op_recurrent.cuh ========================================================= */
/* op_recurrent.cuh - one step of an LSTM or a GRU.
 * A warp has one unit of up to four lines: all sums of the unit, so that only h' and c' are written. Its lanes take
 * every 32nd group of four products, those of x and then those of h, and are joined in a fixed tree, however many lines
 * there are.
 * Relies on linear_job.cuh for lines, and on ops/recurrent.c for weights and what follows the sums. Must never let rows
 * influence each other. */
#ifndef BS_CUDA_OP_RECURRENT
#define BS_CUDA_OP_RECURRENT

/* #include "cuda/op_linear.cuh" */

enum {
    BS_CU_RECURRENT_LINES = 4,
    BS_CU_RECURRENT_PROJECTED = 1, /* p */
    BS_CU_RECURRENT_HALF = 8       /* p: whether weights are f16, behind the descriptor's words */
};

static void bs_cu_lstm_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool path = n->graph->domains[s->domain].kind == BS_DOMAIN_PATH;
    const int64_t lines = bs_max_i64(bs_cu_linear_lines(&n->out[0]), 1),
                  all = bs_cu_linear_most_lines(n, s->domain);
    const int64_t batch = bs_min_i64(path ? (int64_t)BS_CU_GEMM_SIDE : (int64_t)BS_CU_LINEAR_BATCH, all) / lines;
    s->batch = batch < 1 ? 1 : (int32_t)batch;
    s->p[BS_CU_RECURRENT_HALF].i = n->np->half;
    s->parts = bs_cu_work_items(bs_ceil_div(s->batch * lines, BS_CU_RECURRENT_LINES) *
                                    n->out[0].dim[n->out[0].rank - 1],
                                BS_CU_THREADS / 32);
}

static constexpr bs_cu_describe bs_cu_gru_describe = bs_cu_lstm_describe;

/* Lines of an operand: where they are, of which type, with which step. */
template <int LINES> struct bs_cu_recurrent_side {
    const uint8_t *line[LINES];
    int32_t dtype, step, n;
    bool fours; /* adjacent and aligned */
};

__device__ __forceinline__ int32_t bs_cu_recurrent_step(const bs_device_operand *o)
{
    return o->dim[o->rank - 1] == 1 ? 1 : o->stride[o->rank - 1];
}

/* Line number `line` of the work. */
__device__ inline uint8_t *bs_cu_recurrent_at(const bs_cu_tile &t, const bs_cu_work &w, const bs_device_operand *o,
                                              int32_t line)
{
    const int32_t lines = bs_cu_linear_lines(o);
    if (lines == 1)
        return bs_cu_row(t, o, w.row + line);
    return bs_cu_row(t, o, w.row + line / lines) + bs_cu_linear_offset(o, line % lines) * bs_cu_bytes(o->dtype);
}

template <int LINES>
__device__ inline bs_cu_recurrent_side<LINES> bs_cu_recurrent_side_of(const bs_cu_tile &t, const bs_cu_work &w,
                                                                      const bs_device_operand *o, int32_t line,
                                                                      int32_t count)
{
    bs_cu_recurrent_side<LINES> side;
    side.dtype = o->dtype;
    side.step = bs_cu_recurrent_step(o);
    side.n = o->dim[o->rank - 1];
    side.fours = side.step == 1;
#pragma unroll
    for (int32_t i = 0; i < LINES; i++) {
        side.line[i] = bs_cu_recurrent_at(t, w, o, line + min(i, count - 1));
        side.fours = side.fours && bs_cu_aligned(side.line[i], bs_cu_bytes(side.dtype), 0);
    }
    return side;
}

/* Elements k .. k + 3 of a line; zeros beyond its end. */
template <int LINES>
__device__ __forceinline__ float4 bs_cu_recurrent_four(const bs_cu_recurrent_side<LINES> &x, int32_t i, int32_t k)
{
    if (x.fours && k + 4 <= x.n)
        return bs_cu_get_quad(x.line[i], x.dtype, k);
    float v[4];
#pragma unroll
    for (int32_t e = 0; e < 4; e++)
        v[e] = k + e < x.n ? bs_cu_get(x.line[i], x.dtype, (int64_t)(k + e) * x.step) : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

/* Adds to columns FIRST .. of a unit this lane's products of x (or h). Lines of weights end in zeros, at 16 bytes. */
template <bool GRU, bool OF_H, int BYTES, int LINES>
__device__ __forceinline__ void bs_cu_recurrent_add(const bs_cu_recurrent_side<LINES> &x, const uint8_t *weights,
                                                    int32_t hidden, int32_t unit,
                                                    float (&sum)[BS_RECURRENT_COLUMNS][LINES])
{
    enum { GATES = GRU ? 3 : 4, FIRST = OF_H ? BS_RECURRENT_COLUMNS - GATES : 0 };
    const int64_t line_bytes = bs_linear_line_bytes(x.n, BYTES);
#pragma unroll 2
    for (int32_t k = 4 * bs_cu_lane(); k < x.n; k += 128) {
        float4 v[LINES], b[GATES];
#pragma unroll
        for (int32_t gate = 0; gate < GATES; gate++) {
            const int64_t line = (int64_t)bs_recurrent_gate(GRU, OF_H, gate) * hidden + unit;
            b[gate] = bs_cu_get_quad(weights + line * line_bytes, BYTES == 4 ? BS_F32 : BS_F16, k);
        }
#pragma unroll
        for (int32_t i = 0; i < LINES; i++)
            v[i] = bs_cu_recurrent_four(x, i, k);
#pragma unroll
        for (int32_t gate = 0; gate < GATES; gate++)
#pragma unroll
            for (int32_t i = 0; i < LINES; i++) {
                float *to = &sum[FIRST + gate][i];
                *to = fmaf(v[i].x, b[gate].x, *to);
                *to = fmaf(v[i].y, b[gate].y, *to);
                *to = fmaf(v[i].z, b[gate].z, *to);
                *to = fmaf(v[i].w, b[gate].w, *to);
            }
    }
}

/* x is what the products would be: one lane begins with them. */
template <bool GRU, int LINES>
__device__ __forceinline__ void bs_cu_recurrent_begin(const bs_cu_recurrent_side<LINES> &x, int32_t hidden,
                                                      int32_t unit, float (&sum)[BS_RECURRENT_COLUMNS][LINES])
{
    if (bs_cu_lane() > 0)
        return;
#pragma unroll
    for (int32_t gate = 0; gate < (GRU ? 3 : 4); gate++)
#pragma unroll
        for (int32_t i = 0; i < LINES; i++) {
            const int64_t at = (int64_t)bs_recurrent_gate(GRU, false, gate) * hidden + unit;
            sum[gate][i] = bs_cu_get(x.line[i], x.dtype, at * x.step);
        }
}

/* What follows the sums of a unit of one line. */
template <bool GRU>
__device__ __forceinline__ void bs_cu_recurrent_finish(const bs_cu_tile &t, const bs_device_step *s,
                                                       const bs_cu_work &w, int32_t line, int32_t unit,
                                                       const float *sums)
{
    const bs_device_operand *before = bs_cu_in(t, s, GRU ? 1 : 2), *h_out = bs_cu_out(t, s, 0);
    const float was = bs_cu_get(bs_cu_recurrent_at(t, w, before, line), before->dtype,
                                (int64_t)unit * bs_cu_recurrent_step(before));
    float h, c = 0.0f;
    if (GRU) {
        h = bs_gru_step(sums, was);
    } else {
        const bs_device_operand *c_out = bs_cu_out(t, s, 1);
        h = bs_lstm_step(sums, was, &c);
        bs_cu_put(bs_cu_recurrent_at(t, w, c_out, line), c_out->dtype, (int64_t)unit * bs_cu_recurrent_step(c_out), c);
    }
    bs_cu_put(bs_cu_recurrent_at(t, w, h_out, line), h_out->dtype, (int64_t)unit * bs_cu_recurrent_step(h_out), h);
}

/* One unit of lines line .. line + count, LINES at most, by a warp. */
template <bool GRU, int BYTES, int LINES>
__device__ inline void bs_cu_recurrent_unit(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                            int32_t line, int32_t count, int32_t unit)
{
    const bs_cu_recurrent_side<LINES> x = bs_cu_recurrent_side_of<LINES>(t, w, bs_cu_in(t, s, 0), line, count),
                                      h = bs_cu_recurrent_side_of<LINES>(t, w, bs_cu_in(t, s, 1), line, count);
    const int64_t lines = (int64_t)bs_recurrent_gates(GRU) * h.n; /* as bs_recurrent_place */
    const int32_t inputs = s->p[BS_CU_RECURRENT_PROJECTED].i ? 0 : x.n;
    const uint8_t *of_x = bs_cu_prepared(t, s),
                  *of_h = of_x + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(inputs, BYTES) / 4)),
                  *biases = of_h + 4 * bs_aligned_floats(lines * (bs_linear_line_bytes(h.n, BYTES) / 4));
    const float *bias = reinterpret_cast<const float *>(biases) + unit;
    float sum[BS_RECURRENT_COLUMNS][LINES] = {};
    if (inputs > 0)
        bs_cu_recurrent_add<GRU, false, BYTES>(x, of_x, h.n, unit, sum);
    else
        bs_cu_recurrent_begin<GRU>(x, h.n, unit, sum);
    bs_cu_recurrent_add<GRU, true, BYTES>(h, of_h, h.n, unit, sum);
    float mine[BS_RECURRENT_COLUMNS]; /* of line `lane` */
#pragma unroll
    for (int32_t k = 0; k < BS_RECURRENT_COLUMNS; k++)
#pragma unroll
        for (int32_t i = 0; i < LINES; i++) {
#pragma unroll
            for (int32_t m = 16; m > 0; m /= 2)
                sum[k][i] += __shfl_xor_sync(0xffffffffu, sum[k][i], m);
            mine[k] = i == 0 || bs_cu_lane() == i ? sum[k][i] : mine[k];
        }
    if (bs_cu_lane() >= count)
        return;
#pragma unroll
    for (int32_t k = 0; k < BS_RECURRENT_COLUMNS; k++)
        mine[k] += bias[(int64_t)k * h.n];
    bs_cu_recurrent_finish<GRU>(t, s, w, line + bs_cu_lane(), unit, mine);
}

/* One line alone does a quarter of the arithmetic. */
template <bool GRU, int BYTES>
__device__ __forceinline__ void bs_cu_recurrent_lines(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                                      int32_t line, int32_t count, int32_t unit)
{
    if (count == 1)
        bs_cu_recurrent_unit<GRU, BYTES, 1>(t, s, w, line, count, unit);
    else
        bs_cu_recurrent_unit<GRU, BYTES, BS_CU_RECURRENT_LINES>(t, s, w, line, count, unit);
}

template <bool GRU>
__device__ inline void bs_cu_recurrent_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *y = bs_cu_out(t, s, 0);
    const int32_t units = y->dim[y->rank - 1], lines = (w.end - w.row) * bs_cu_linear_lines(y),
                  groups = (lines + BS_CU_RECURRENT_LINES - 1) / BS_CU_RECURRENT_LINES,
                  warps = bs_cu_threads() / 32;
    for (int32_t r = w.row; r < w.end; r++) {
        bs_cu_zero_margin_of(t, w, y, r);
        if (!GRU)
            bs_cu_zero_margin_of(t, w, bs_cu_out(t, s, 1), r);
    }
    /* lines fastest: neighbours read the same weights */
    for (int64_t item = (int64_t)w.part * warps + bs_cu_warp(); item < (int64_t)groups * units;
         item += (int64_t)w.parts * warps) {
        const int32_t line = (int32_t)(item % groups) * BS_CU_RECURRENT_LINES, unit = (int32_t)(item / groups);
        const int32_t count = min((int32_t)BS_CU_RECURRENT_LINES, lines - line);
        if (s->p[BS_CU_RECURRENT_HALF].i)
            bs_cu_recurrent_lines<GRU, 2>(t, s, w, line, count, unit);
        else
            bs_cu_recurrent_lines<GRU, 4>(t, s, w, line, count, unit);
    }
}

__device__ inline void bs_cu_lstm_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_recurrent_run<false>(t, s, w);
}

__device__ inline void bs_cu_gru_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_recurrent_run<true>(t, s, w);
}

#endif
/* ==== end src/cuda/op_recurrent.cuh =========================================================== */
/* ==== begin src/cuda/op_resize.cuh ============================================================ */
/* op_resize.cuh - images of another size: by an integer factor, by any ratio, or to a size.
 * Taps are clamped to the frame: operands may be views without anything around them. Products and sums are never
 * fused, so that codes that go through f32 round as on the CPU; bicubic x2 of codes stays in integers.
 * Relies on walk.cuh. Must never let a pixel depend on the rectangle it is computed in. */
#ifndef BS_CUDA_OP_RESIZE
#define BS_CUDA_OP_RESIZE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* ==== begin src/ops/resize.h ================================================================== */
/* ops/resize.h - the weights of resized images, for plain kernels and for a device.
 * Relies on base/base.h. Must never contain a product that a compiler may fuse with a sum: both sides must give the
 * same bytes. */
#ifndef BS_OPS_RESIZE_H
#define BS_OPS_RESIZE_H

/* #include "base/base.h" */

#include <math.h>

#define BS_RESIZE_MOST 16 /* the largest factor, and the smallest result with antialias: 1/16 */
#define BS_RESIZE_TAPS (4 * BS_RESIZE_MOST + 2)

/* Taps of output r of each group of `factor`: they begin at `start`, relative to the group's own input. */
typedef struct bs_resize_phase {
    float weight[4];
    int32_t start;
} bs_resize_phase;

/* Keys' kernel; a = -0.5 reproduces quadratics. */
static inline BS_BOTH float bs_resize_cubic(float a, float distance)
{
    const float x = fabsf(distance);
    if (x <= 1.0f)
        return BS_SUM(BS_SUM((a + 2.0f) * x, -(a + 3.0f)) * x * x, 1.0f);
    return BS_SUM(BS_SUM(BS_SUM(a * x, -5.0f * a) * x, 8.0f * a) * x, -4.0f * a);
}

static inline BS_BOTH bs_resize_phase bs_resize_phase_of(int32_t kind, int32_t factor, float cubic_a, int32_t r)
{
    const float offset = ((float)r + 0.5f) / (float)factor - 0.5f, at = offset < 0.0f ? offset + 1.0f : offset;
    bs_resize_phase phase = {{1.0f, 0.0f, 0.0f, 0.0f}, 0};
    if (kind == BS_RESIZE_NEAREST)
        return phase;
    phase.start = offset < 0.0f ? -1 : 0;
    phase.weight[0] = 1.0f - at;
    phase.weight[1] = at;
    if (kind == BS_RESIZE_BILINEAR)
        return phase;
    phase.start--;
    for (int32_t k = 0; k < 4; k++)
        phase.weight[k] = bs_resize_cubic(cubic_a, at + 1.0f - (float)k);
    return phase;
}

/* ------------------------------------------------------------------------------------------------- any ratio
 * Pixel i of an axis of a result lies at (i mul + add) / div among the operand's, in whole numbers: where a pixel reads
 * does not depend on how floats are rounded. Coordinates are of frames, not of cells. */
typedef struct bs_resize_axis {
    int32_t kind, extent; /* of the operand's frame */
    int64_t mul, add, div;
    int64_t unit; /* a distance of 1 of the kernel, over div */
    bool inside;
    float cubic_a;
} bs_resize_axis;

/* Whether the weights by phase above will do: what there was before op set 4. */
static inline BS_BOTH bool bs_resize_by_factor(const bs_resize_desc *desc)
{
    return desc->den <= 1 && desc->height == 0 && desc->centres == BS_RESIZE_HALF_PIXEL && !desc->antialias &&
           desc->kind != BS_RESIZE_AREA;
}

/* Whether taps beyond the frame are left out, and weights are made to sum to 1; else the edge's pixel is repeated. */
static inline BS_BOTH bool bs_resize_inside(const bs_resize_desc *desc)
{
    return desc->antialias || desc->kind == BS_RESIZE_AREA;
}

/* Of a result that is `size` long, or of the ratio if that is 0; all of `extent` are all of it where corners are
 * aligned, else `den` (or `extent`) pixels of the operand are `factor` (or `size`) of the result. */
static inline BS_BOTH bs_resize_axis bs_resize_axis_of(const bs_resize_desc *desc, int32_t size, int32_t extent)
{
    bs_resize_axis axis = {desc->kind, extent, size > 0 ? extent : desc->den, 0, size > 0 ? size : desc->factor, 0,
                           bs_resize_inside(desc), desc->cubic_a};
    if (desc->centres == BS_RESIZE_ALIGN_CORNERS) {
        const int64_t last = (size > 0 ? size : extent * axis.div / axis.mul) - 1;
        axis.mul = extent - 1;
        axis.div = last > 0 ? last : 1;
    } else if (desc->centres == BS_RESIZE_HALF_PIXEL && desc->kind != BS_RESIZE_AREA) {
        /* ((2 i + 1) from / to - 1) / 2; the nearest one is rounded down below */
        axis.add = desc->kind == BS_RESIZE_NEAREST ? axis.mul : axis.mul - axis.div;
        axis.mul *= 2;
        axis.div *= 2;
    }
    axis.unit = desc->antialias && axis.mul > axis.div ? axis.mul : axis.div;
    return axis;
}

/* Taps low .. low + count - 1 of one pixel, which lies at `at` over div; their weights sum to `total`. */
typedef struct bs_resize_line {
    int64_t at;
    int32_t low, count;
    float total;
} bs_resize_line;

static inline BS_BOTH float bs_resize_weight(const bs_resize_axis *axis, const bs_resize_line *line, int32_t tap)
{
    const int64_t away = (int64_t)(line->low + tap) * axis->div - line->at;
    const float distance = fabsf((float)away / (float)axis->unit);
    const float weight = axis->kind == BS_RESIZE_BILINEAR  ? 1.0f - distance
                         : axis->kind == BS_RESIZE_BICUBIC ? bs_resize_cubic(axis->cubic_a, distance)
                                                           : 1.0f;
    return weight / line->total;
}

static inline BS_BOTH bs_resize_line bs_resize_line_of(const bs_resize_axis *axis, int32_t pixel)
{
    bs_resize_line line = {pixel * axis->mul + axis->add, 0, 0, 1.0f};
    const bool kernel = axis->kind == BS_RESIZE_BILINEAR || axis->kind == BS_RESIZE_BICUBIC;
    const int64_t reach = kernel ? axis->kind * axis->unit : axis->kind == BS_RESIZE_AREA ? axis->mul : 0;
    int64_t low = bs_floor_div(kernel ? line.at - reach + axis->div : line.at, axis->div);
    int64_t high = kernel || reach == 0 ? bs_floor_div(line.at + reach, axis->div) + 1
                                        : bs_ceil_div(line.at + reach, axis->div);
    float total = 0.0f;
    if (axis->inside) {
        low = low < 0 ? 0 : low;
        high = high > axis->extent ? axis->extent : high;
    }
    line.low = (int32_t)low;
    line.count = (int32_t)(high - low);
    for (int32_t k = 0; axis->inside && k < line.count; k++)
        total += bs_resize_weight(axis, &line, k);
    line.total = axis->inside ? total : 1.0f;
    return line;
}

static inline BS_BOTH int32_t bs_resize_taps(int32_t kind)
{
    return kind == BS_RESIZE_BICUBIC ? 4 : kind == BS_RESIZE_BILINEAR ? 2 : 1;
}

#endif
/* ==== end src/ops/resize.h ==================================================================== */
}

/* Parameters of the kernels of this file, in p: the descriptor's words, then ours. */
enum {
    BS_CU_RESIZE_KIND,
    BS_CU_RESIZE_FACTOR,
    BS_CU_RESIZE_CUBIC, /* f */
    BS_CU_RESIZE_TOP,   /* in: the descriptor's code_bits; out: the largest code */
    BS_CU_RESIZE_DEN,
    BS_CU_RESIZE_HEIGHT,
    BS_CU_RESIZE_WIDTH,
    BS_CU_RESIZE_CENTRES,
    BS_CU_RESIZE_ANTIALIAS,
    BS_CU_RESIZE_TAPS,
    BS_CU_RESIZE_INTEGERS /* bicubic x2 of codes: 1 */
};

static void bs_cu_resize_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool by_factor = bs_resize_by_factor(reinterpret_cast<const bs_resize_desc *>(n->params));
    const int32_t kind = s->p[BS_CU_RESIZE_KIND].i, type = n->out[0].dtype;
    const bool codes = type == BS_U8 || type == BS_U16;
    const int32_t factor = bs_or_default(s->p[BS_CU_RESIZE_FACTOR].i, 2);
    const float cubic = s->p[BS_CU_RESIZE_CUBIC].f == 0.0f ? -0.5f : s->p[BS_CU_RESIZE_CUBIC].f;
    const bool bicubic = kind == BS_RESIZE_BICUBIC,
               integers = codes && bicubic && by_factor && factor == 2 && cubic == -0.5f;
    const bool doubles = bicubic && factor == 2 && (integers || !codes);
    s->p[BS_CU_RESIZE_FACTOR].i = factor;
    s->p[BS_CU_RESIZE_CUBIC].f = cubic;
    s->p[BS_CU_RESIZE_TOP].i = type == BS_U8 ? 255 : (1 << bs_or_default(s->p[BS_CU_RESIZE_TOP].i, 16)) - 1;
    s->p[BS_CU_RESIZE_TAPS].i = bs_resize_taps(kind);
    s->p[BS_CU_RESIZE_INTEGERS].i = integers;
    s->p[BS_CU_RESIZE_DEN].i = bs_or_default(s->p[BS_CU_RESIZE_DEN].i, 1);
    s->kernel = !by_factor ? BS_CU_resize_any : doubles ? BS_CU_resize_double : BS_CU_resize;
    s->parts = bs_cu_work_items(bs_cu_elements(&n->out[0]), BS_CU_EACH);
}

/* --------------------------------------------------------------------------------------------------- taps */

__device__ inline bs_resize_phase bs_cu_resize_phase_of(const bs_device_step *s, int32_t r)
{
    return bs_resize_phase_of(s->p[BS_CU_RESIZE_KIND].i, s->p[BS_CU_RESIZE_FACTOR].i, s->p[BS_CU_RESIZE_CUBIC].f, r);
}

/* The phases, in the workspace. */
__device__ inline const bs_resize_phase *bs_cu_resize_phases(const bs_cu_tile &t, const bs_device_step *s)
{
    bs_resize_phase *phases = reinterpret_cast<bs_resize_phase *>(t.workspace);
    if (bs_cu_thread() < s->p[BS_CU_RESIZE_FACTOR].i)
        phases[threadIdx.x] = bs_cu_resize_phase_of(s, bs_cu_thread());
    __syncthreads();
    return phases;
}

/* The coordinate of a tap, counted from the core and clamped to the frame. */
__device__ __forceinline__ int32_t bs_cu_resize_tap(int32_t at, int32_t origin, int32_t extent)
{
    return min(max(at + origin, 0), extent - 1) - origin;
}

__device__ __forceinline__ float bs_cu_resize_sample(const bs_cu_view &x, int64_t at)
{
    return x.dtype == BS_F32 || x.dtype == BS_F16 ? bs_cu_get(x.data, x.dtype, at)
                                                  : (float)bs_cu_load_one(x.data, bs_cu_bytes(x.dtype), at);
}

__device__ __forceinline__ void bs_cu_resize_store(const bs_cu_view &y, int64_t at, float v, int32_t top)
{
    if (y.dtype == BS_F32 || y.dtype == BS_F16)
        bs_cu_put(y.data, y.dtype, at, v);
    else
        bs_cu_store_one(y.data, bs_cu_bytes(y.dtype), at, (uint32_t)bs_f32_to_code(v, 0, top));
}

/* ------------------------------------------------------------------------------------------- a pixel a thread */

__device__ inline void bs_cu_resize_pixel(const bs_device_step *s, const bs_resize_phase *phases,
                                          const bs_cu_view &x, const bs_cu_view &y, const bs_cu_scan &k)
{
    const int32_t factor = s->p[BS_CU_RESIZE_FACTOR].i, taps = s->p[BS_CU_RESIZE_TAPS].i,
                  gy = bs_cu_floor_div(k.y, factor), gx = bs_cu_floor_div(k.x, factor);
    const bs_resize_phase &py = phases[k.y - gy * factor], &px = phases[k.x - gx * factor];
    const int64_t from = (int64_t)k.c * x.stride[0];
    float sum = 0.0f;
    for (int32_t j = 0; j < taps; j++) {
        const int64_t row = from + (int64_t)bs_cu_resize_tap(gy + py.start + j, x.frame_y, x.frame_h) * x.stride[1];
        float line = 0.0f;
        for (int32_t i = 0; i < taps; i++) {
            const int32_t at = bs_cu_resize_tap(gx + px.start + i, x.frame_x, x.frame_w);
            line = bs_cu_mul_add(px.weight[i], bs_cu_resize_sample(x, row + (int64_t)at * x.stride[2]), line);
        }
        sum = bs_cu_mul_add(py.weight[j], line, sum);
    }
    bs_cu_resize_store(y, bs_cu_pixel_at(y, k.c, k.y, k.x), sum,
                       s->p[BS_CU_RESIZE_TOP].i);
}

__device__ inline void bs_cu_resize_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_resize_phase *phases = bs_cu_resize_phases(t, s);
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        bs_cu_resize_pixel(s, phases, x, y, k);
    });
}

/* ----------------------------------------------------------------------------------------------- any ratio */

__device__ inline bs_resize_axis bs_cu_resize_axis_of(const bs_device_step *s, int32_t size, int32_t extent)
{
    bs_resize_desc desc = {};
    desc.kind = s->p[BS_CU_RESIZE_KIND].i;
    desc.factor = s->p[BS_CU_RESIZE_FACTOR].i;
    desc.cubic_a = s->p[BS_CU_RESIZE_CUBIC].f;
    desc.den = s->p[BS_CU_RESIZE_DEN].i;
    desc.centres = s->p[BS_CU_RESIZE_CENTRES].i;
    desc.antialias = s->p[BS_CU_RESIZE_ANTIALIAS].i;
    return bs_resize_axis_of(&desc, size, extent);
}

__device__ inline void bs_cu_resize_any_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const bs_resize_axis ay = bs_cu_resize_axis_of(s, s->p[BS_CU_RESIZE_HEIGHT].i, x.frame_h),
                             ax = bs_cu_resize_axis_of(s, s->p[BS_CU_RESIZE_WIDTH].i, x.frame_w);
        const bs_resize_line ly = bs_resize_line_of(&ay, k.y + y.frame_y), lx = bs_resize_line_of(&ax, k.x + y.frame_x);
        float sum = 0.0f;
        for (int32_t j = 0; j < ly.count; j++) {
            const int64_t row = (int64_t)k.c * x.stride[0] +
                                (int64_t)bs_cu_resize_tap(ly.low + j - x.frame_y, x.frame_y, x.frame_h) * x.stride[1];
            float line = 0.0f;
            for (int32_t i = 0; i < lx.count; i++) {
                const int32_t at = bs_cu_resize_tap(lx.low + i - x.frame_x, x.frame_x, x.frame_w);
                line = bs_cu_mul_add(bs_resize_weight(&ax, &lx, i),
                                     bs_cu_resize_sample(x, row + (int64_t)at * x.stride[2]), line);
            }
            sum = bs_cu_mul_add(bs_resize_weight(&ay, &ly, j), line, sum);
        }
        bs_cu_resize_store(y, bs_cu_pixel_at(y, k.c, k.y, k.x), sum, s->p[BS_CU_RESIZE_TOP].i);
    });
}

/* ---------------------------------------------------------------------------------------------- bicubic x2
 * A thread makes 2 x 2 pixels from 5 x 5: along the 5 lines first, then down. */

__device__ __forceinline__ int32_t bs_cu_resize_mad(int32_t sum, int32_t weight, int32_t v) { return sum + weight * v; }
__device__ __forceinline__ float bs_cu_resize_mad(float sum, float weight, float v)
{
    return bs_cu_mul_add(weight, v, sum);
}

__device__ __forceinline__ void bs_cu_resize_take(const bs_cu_view &x, int64_t at, int32_t *v)
{
    *v = (int32_t)bs_cu_load_one(x.data, bs_cu_bytes(x.dtype), at);
}
__device__ __forceinline__ void bs_cu_resize_take(const bs_cu_view &x, int64_t at, float *v)
{
    *v = bs_cu_get(x.data, x.dtype, at);
}

/* The sum is at most 65535 (140^2 + 12^2) = 1.3e9: it fits 32 bits, rounding included. */
__device__ __forceinline__ uint32_t bs_cu_resize_finish(const bs_cu_view &, int32_t sum, int32_t top)
{
    return (uint32_t)min(max((sum + (1 << 13)) >> 14, 0), top);
}
__device__ __forceinline__ uint32_t bs_cu_resize_finish(const bs_cu_view &y, float sum, int32_t)
{
    return bs_cu_raw(sum, y.dtype);
}

template <typename T> struct bs_cu_resize_weights {
    T even[4], odd[4]; /* of the taps from -2 and from -1 on */
};

/* The 2 x 2 pixels from (2 k.y, 2 k.x) of channel k.c. */
template <typename T>
__device__ inline void bs_cu_resize_group(const bs_cu_resize_weights<T> &weights, const bs_cu_view &x,
                                          const bs_cu_view &y, const bs_cu_scan &k, int32_t top)
{
    T even[5], odd[5];
#pragma unroll
    for (int32_t j = 0; j < 5; j++) {
        const int64_t row = (int64_t)k.c * x.stride[0] +
                            (int64_t)bs_cu_resize_tap(k.y + j - 2, x.frame_y, x.frame_h) * x.stride[1];
        T v[5];
#pragma unroll
        for (int32_t i = 0; i < 5; i++)
            bs_cu_resize_take(x, row + (int64_t)bs_cu_resize_tap(k.x + i - 2, x.frame_x, x.frame_w) * x.stride[2],
                              &v[i]);
        even[j] = odd[j] = 0;
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            even[j] = bs_cu_resize_mad(even[j], weights.even[i], v[i]);
            odd[j] = bs_cu_resize_mad(odd[j], weights.odd[i], v[i + 1]);
        }
    }
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t oy = 2 * k.y + half, ox = 2 * k.x;
        T left = 0, right = 0;
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
            const T weight = half ? weights.odd[j] : weights.even[j];
            left = bs_cu_resize_mad(left, weight, even[j + half]);
            right = bs_cu_resize_mad(right, weight, odd[j + half]);
        }
        if (oy >= y.y0 && oy < y.y1)
            bs_cu_store_pair(y, bs_cu_pixel_at(y, k.c, oy, ox),
                              bs_cu_resize_finish(y, left, top), bs_cu_resize_finish(y, right, top), ox >= y.x0,
                              ox + 1 < y.x1);
    }
}

template <typename T>
__device__ inline void bs_cu_resize_groups(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w,
                                           const bs_cu_resize_weights<T> &weights)
{
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (y.y1 <= y.y0 || y.x1 <= y.x0)
            return;
        /* shifts round towards minus infinity */
        bs_cu_scan_run(d, {y.y0 >> 1, (y.y1 + 1) >> 1, y.x0 >> 1, (y.x1 + 1) >> 1}, y.dim[0],
                       [&](const bs_cu_scan &k) { bs_cu_resize_group(weights, x, y, k, s->p[BS_CU_RESIZE_TOP].i); });
    });
}

__device__ inline void bs_cu_resize_double_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    if (s->p[BS_CU_RESIZE_INTEGERS].i) {
        const bs_cu_resize_weights<int32_t> weights = {{-3, 29, 111, -9}, {-9, 111, 29, -3}}; /* over 128 */
        bs_cu_resize_groups(t, s, w, weights);
        return;
    }
    bs_cu_resize_weights<float> weights;
    const bs_resize_phase even = bs_cu_resize_phase_of(s, 0), odd = bs_cu_resize_phase_of(s, 1);
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        weights.even[i] = even.weight[i];
        weights.odd[i] = odd.weight[i];
    }
    bs_cu_resize_groups(t, s, w, weights);
}

#endif
/* ==== end src/cuda/op_resize.cuh ============================================================== */
/* ==== begin src/cuda/op_rope.cuh ============================================================== */
/* op_rope.cuh - rotary position embedding: a pair a thread, of all heads of a row.
 * Relies on walk.cuh, ops/rope.h. Must never trust a position. */
#ifndef BS_CUDA_OP_ROPE
#define BS_CUDA_OP_ROPE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/walk.cuh" */

extern "C" {
/* ==== begin src/ops/rope.h ==================================================================== */
/* ops/rope.h - angles of rotary position embedding, for the plain kernel and for a device.
 * Angles are parts of a full turn in units of 2^-64, which wrap: a position's is as exact as the frequency, however far
 * it is, and one code gives the same bytes everywhere. Relies on base/base.h. Must never contain a product that a
 * compiler may fuse with a sum. */
#ifndef BS_OPS_ROPE_H
#define BS_OPS_ROPE_H

/* #include "base/base.h" */
/* #include "base/wrapping.h" */

#define BS_ROPE_MOST ((int32_t)1 << 30) /* the largest position */

/* Of a head: pairs that are turned, where the second of a pair lies behind the first, and where the next pair does, in
 * elements. */
typedef struct bs_rope_form {
    int32_t heads, features, pairs, apart, next;
} bs_rope_form;

/* Of cells whose last two dimensions, or whose last one, are these (rank: how many there are). */
static inline BS_BOTH bs_rope_form bs_rope_form_of(int32_t rank, const int32_t *dim, int32_t heads, int32_t dims,
                                                   int32_t interleaved)
{
    bs_rope_form f;
    f.heads = rank == 2 ? dim[0] : bs_or_default(heads, 1);
    f.features = rank == 2 ? dim[1] : dim[0] / f.heads;
    f.pairs = bs_or_default(dims, f.features) / 2;
    f.apart = interleaved ? 1 : f.pairs;
    f.next = interleaved ? 2 : 1;
    return f;
}

double bs_rope_ratio(const bs_rope_desc *desc, const bs_rope_form *form); /* ops/rope.c */

/* The turn of pair i at position 1: ratio^i / (2 pi), ratio = base^(-2 / dims). The power by squares: an error of i
 * roundings, 2^-46 at most of what i = 0 turns. */
static inline BS_BOTH uint64_t bs_rope_turn(double ratio, int32_t i)
{
    double turn = 2935890503282001226.0; /* 2^64 / (2 pi) */
    for (; i > 0; i /= 2) {
        turn *= i % 2 ? ratio : 1.0;
        ratio *= ratio;
    }
    return (uint64_t)turn;
}

/* Cosine and sine at a position: the nearest quarter turn, and polynomials of the rest (Cephes' sinf, cosf). */
BS_WRAPS static inline BS_BOTH void bs_rope_angle(uint64_t turn, int32_t position, float *cosine, float *sine)
{
    const uint64_t eighth = (uint64_t)1 << 61, at = turn * (uint64_t)position + eighth;
    const int64_t rest = (int64_t)(at & (2 * eighth - 1)) - (int64_t)eighth;
    const float r = (float)((double)rest * 3.406121580086554e-19), z = r * r; /* 2 pi / 2^64 */
    const float s = BS_SUM(BS_SUM(BS_SUM(-1.9515295891e-4f * z, 8.3321608736e-3f) * z, -1.6666654611e-1f) * z * r, r);
    const float c = BS_SUM(BS_SUM(BS_SUM(BS_SUM(2.443315711809948e-5f * z, -1.388731625493765e-3f) * z,
                                         4.166664568298827e-2f) * z * z, -0.5f * z), 1.0f);
    const uint32_t quarter = (uint32_t)(at >> 62);
    const float a = quarter & 1u ? s : c, b = quarter & 1u ? c : s;
    *cosine = quarter == 1 || quarter == 2 ? -a : a;
    *sine = quarter >= 2 ? -b : b;
}

#endif
/* ==== end src/ops/rope.h ====================================================================== */
}

enum { BS_CU_ROPE_HEADS, BS_CU_ROPE_DIMS, BS_CU_ROPE_BASE, BS_CU_ROPE_INTERLEAVED,
       BS_CU_ROPE_RATIO = 8 /* a double, in two words */ };

static void bs_cu_rope_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bs_rope_desc *desc = static_cast<const bs_rope_desc *>(n->params);
    const bs_rope_form form = bs_rope_form_of(n->in[0].rank, n->in[0].dim, desc->heads, desc->dims, desc->interleaved);
    const double ratio = bs_rope_ratio(desc, &form);
    memcpy(&s->p[BS_CU_ROPE_RATIO], &ratio, sizeof ratio);
    bs_cu_cut(n, s);
}

/* One pair, or one element that does not turn, of all heads. */
__device__ inline void bs_cu_rope_one(const bs_cu_view &y, const bs_cu_view &x, const bs_rope_form &f, double ratio,
                                      int32_t position, int32_t i)
{
    const int32_t in_step = x.rank == 2 ? x.stride[1] : x.stride[0], out_step = x.rank == 2 ? y.stride[1] : y.stride[0];
    const int64_t in_head = x.rank == 2 ? x.stride[0] : (int64_t)f.features * in_step,
                  out_head = x.rank == 2 ? y.stride[0] : (int64_t)f.features * out_step;
    const bool turns = i < f.pairs;
    const int32_t first = turns ? i * f.next : i + f.pairs, second = first + f.apart;
    float c = 1.0f, n = 0.0f;
    if (turns)
        bs_rope_angle(bs_rope_turn(ratio, i), position, &c, &n);
    for (int32_t h = 0; h < f.heads; h++) {
        const int64_t from = h * in_head, to = h * out_head;
        const float a = bs_cu_get(x.data, x.dtype, from + (int64_t)first * in_step);
        if (!turns) {
            bs_cu_put(y.data, y.dtype, to + (int64_t)first * out_step, a);
            continue;
        }
        const float b = bs_cu_get(x.data, x.dtype, from + (int64_t)second * in_step);
        bs_cu_put(y.data, y.dtype, to + (int64_t)first * out_step, __fsub_rn(__fmul_rn(a, c), __fmul_rn(b, n)));
        bs_cu_put(y.data, y.dtype, to + (int64_t)second * out_step, bs_cu_mul_add(b, c, __fmul_rn(a, n)));
    }
}

__device__ inline void bs_cu_rope_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    double ratio;
    memcpy(&ratio, &s->p[BS_CU_ROPE_RATIO], sizeof ratio);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        const bs_rope_form f = bs_rope_form_of(x.rank, x.dim, s->p[BS_CU_ROPE_HEADS].i, s->p[BS_CU_ROPE_DIMS].i,
                                               s->p[BS_CU_ROPE_INTERLEAVED].i);
        const int32_t position = *reinterpret_cast<const int32_t *>(bs_cu_open_in(t, s, 1, r).data);
        if (position < 0 || position > BS_ROPE_MOST) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        for (int32_t i = d.index; i < f.features - f.pairs; i += d.workers)
            bs_cu_rope_one(y, x, f, ratio, position, i);
    });
}

#endif
/* ==== end src/cuda/op_rope.cuh ================================================================ */
/* ==== begin src/cuda/op_route.cuh ============================================================= */
/* op_route.cuh - from scores to a decision.
 *
 * One block makes a decision (route), in tiles and for up to 1024 rows. For more rows, many blocks decide (route_rows:
 * each a chunk of rows, and counts where they went) and many blocks pack (route_pack: each adds up the chunks before
 * its own). A protocol that looks at all rows at once, a capacity or a budget, always runs in one block. What is
 * chosen, and in which order rows are packed, follows from the scores alone, never from threads or chunks. Relies on
 * the route_*.cuh. Must never leave a decision that leads its readers out of bounds: after a failure no row has a path.
 * */
#ifndef BS_CUDA_OP_ROUTE
#define BS_CUDA_OP_ROUTE

/* ==== begin src/cuda/route_budget.cuh ========================================================= */
/* route_budget.cuh - the protocol BUDGET: finds the price by sums over the rows, which the threads share.
 * Looks at all rows at once. Relies on route_scores.cuh and ops/price.h. Must never follow a table of paths that it has
 * not checked: weights come from a file. */
#ifndef BS_CUDA_ROUTE_BUDGET
#define BS_CUDA_ROUTE_BUDGET

/* #include "cuda/route_scores.cuh" */

/* All rows are staged, if they fit. */
__device__ __forceinline__ bool bs_cu_losses_staged(const bs_cu_router &r)
{
    return r.rows <= r.stage_words / bs_cu_stage_pitch(r);
}

__device__ __forceinline__ bs_scores bs_cu_losses_of(const bs_cu_router &r, int32_t row)
{
    return bs_cu_losses_staged(r) ? bs_cu_staged(r, row) : bs_cu_scores_of(*r.t, r.score, row);
}

/* A patch counts by its area, any other cell as one. */
__device__ inline uint64_t bs_cu_cell_weight(const bs_cu_router &r, int32_t row)
{
    const int32_t size = r.s->p[BS_CU_P_SIZE].i, *dims = r.t->program->dims;
    return size == 0 ? 1
                     : bs_patch_area(size, dims[r.s->p[BS_CU_P_HEIGHT].i], dims[r.s->p[BS_CU_P_FRAME_WIDTH].i],
                                     bs_cu_top_row(*r.t, r.s->domain, row));
}

__device__ inline uint64_t bs_cu_all_losses(const bs_cu_router &r, const bs_budget &b)
{
    const uint64_t price = bs_budget_price(&b);
    uint64_t losses = 0;
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        losses += bs_cu_cell_weight(r, row) * (uint64_t)bs_loss(&x, bs_budget_choice(&b, &x, price));
    }
    return bs_cu_sum_threads(r.shared->sums, losses);
}

/* Called by all threads; returns whether the tables are valid. */
__device__ inline bool bs_cu_decide_budget(const bs_cu_router &r)
{
    const uint8_t *tables = bs_cu_prepared(*r.t, r.s);
    const int32_t *path_of = reinterpret_cast<const int32_t *>(tables + r.s->p[BS_CU_P_PATHS_AT].i);
    bs_budget b = {bs_cu_rule(r.s), reinterpret_cast<const int32_t *>(tables), 0, 0, -1, 0, 0};
    bs_budget_sums sums = {0, 0, 0};
    if (bs_route_check_variants(path_of, b.rule->capacity, r.d.paths).kind != BS_ROUTE_SOUND)
        return false;
    if (bs_cu_losses_staged(r))
        bs_cu_stage_scores(r, 0, r.rows);
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        bs_budget_add(&b, &x, bs_cu_cell_weight(r, row), &sums);
    }
    sums.best = bs_cu_sum_threads(r.shared->sums, sums.best);
    sums.rows = bs_cu_sum_threads(r.shared->sums, sums.rows);
    sums.range = bs_cu_sum_threads(r.shared->sums, sums.range);
    bs_budget_begin(&b, r.knob, &sums);
    while (bs_budget_asks(&b))
        bs_budget_step(&b, bs_cu_all_losses(r, b));
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_scores x = bs_cu_losses_of(r, row);
        const bs_choices to = bs_cu_choices(r, row);
        const int32_t variant = bs_budget_choice(&b, &x, bs_budget_price(&b));
        bs_choose(&to, 0, path_of[variant], (float)bs_loss(&x, variant));
    }
    if (threadIdx.x == 0)
        *r.d.price = bs_budget_published(&b);
    return true;
}

#endif
/* ==== end src/cuda/route_budget.cuh =========================================================== */
/* ==== begin src/cuda/route_capacity.cuh ======================================================= */
/* route_capacity.cuh - the protocol CAPACITY, once rows have their choices: a path keeps those of the highest gates.
 * Looks at all rows at once. Relies on route_pack.cuh and sort.cuh. Must never let the order in which threads arrive
 * decide. */
#ifndef BS_CUDA_ROUTE_CAPACITY
#define BS_CUDA_ROUTE_CAPACITY

/* #include "cuda/route_pack.cuh" */
/* #include "cuda/sort.cuh" */

/* The order in which rows are served, as keys of which no two are equal. */
enum { BS_CU_CAPACITY_ROW = (1 << 30) - 1 };

__device__ __forceinline__ uint64_t bs_cu_capacity_key(float gate, int32_t row)
{
    return (uint64_t)bs_capacity_rank(gate) << 30 | (uint32_t)row;
}

/* Limits choice k of all rows: every path keeps those with the highest gates, as long as it has room. next: how many it
 * has kept. */
__device__ inline void bs_cu_limit_choice(const bs_cu_router &r, int32_t k)
{
    uint64_t *keys = 2 * r.rows <= r.stage_words ? reinterpret_cast<uint64_t *>(r.stage)
                                                 : reinterpret_cast<uint64_t *>(r.d.work);
    const int32_t per_row = r.d.per_row, capacity = bs_cu_rule(r.s)->capacity, spill = bs_cu_rule(r.s)->spill - 1;
    bool over = false;
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.counts[p] = 0;
    __syncthreads();
    bs_cu_count_choices(r, 0, r.rows, per_row, k);
    __syncthreads();
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        over = over || (p != spill && r.counts[p] > capacity - r.next[p]);
    over = __syncthreads_or(over) != 0;
    for (int32_t row = bs_cu_thread(); over && row < r.rows; row += bs_cu_threads())
        keys[row] = bs_cu_capacity_key(r.d.gates[(int64_t)row * per_row + k], row);
    __syncthreads();
    if (over)
        bs_cu_sort_here(keys, (uint32_t)r.rows);
    for (int32_t base = 0; over && base < r.rows; base += bs_cu_threads()) {
        const int32_t i = base + bs_cu_thread(), row = i < r.rows ? (int32_t)(keys[i] & BS_CU_CAPACITY_ROW) : 0;
        const int32_t path = i < r.rows ? r.d.chosen[(int64_t)row * per_row + k] : -1;
        if (!bs_capacity_takes(bs_cu_rule(r.s), path, bs_cu_take_next(r, path)))
            r.d.chosen[(int64_t)row * per_row + k] = -1;
    }
    __syncthreads();
    for (int32_t p = bs_cu_thread(); p < r.d.paths; p += bs_cu_threads())
        r.next[p] = over ? min(r.next[p], capacity) : r.next[p] + r.counts[p]; /* of the spill path nobody asks */
    __syncthreads();
}

/* First choices are served before second ones; what does not fit is counted and dropped or spilled. */
__device__ inline void bs_cu_limit_capacity(const bs_cu_router &r)
{
    int64_t *dropped = reinterpret_cast<int64_t *>(r.t->program->decisions +
                                                   r.t->record->decision.dropped);
    uint64_t lost = 0;
    bs_cu_clear_counts(r);
    __syncthreads();
    for (int32_t k = 0; k < r.d.per_row; k++)
        bs_cu_limit_choice(r, k);
    for (int32_t row = bs_cu_thread(); row < r.rows; row += bs_cu_threads()) {
        const bs_choices of = bs_cu_choices(r, row);
        lost += (uint64_t)bs_spill(bs_cu_rule(r.s), &of);
    }
    lost = bs_cu_sum_threads(r.shared->sums, lost);
    if (threadIdx.x == 0)
        *dropped += (int64_t)lost;
}

#endif
/* ==== end src/cuda/route_capacity.cuh ========================================================= */
/* #include "cuda/route_pack.cuh" */
/* ==== begin src/cuda/route_protocols.cuh ====================================================== */
/* route_protocols.cuh - protocols that decide each row by itself, a row a thread; and forced routes.
 * Relies on route_scores.cuh and ops/decide.h. Must never let rows influence each other. */
#ifndef BS_CUDA_ROUTE_PROTOCOLS
#define BS_CUDA_ROUTE_PROTOCOLS

/* #include "cuda/route_scores.cuh" */

/* Decides one row, by one thread. False: its scores are invalid. */
__device__ inline bool bs_cu_decide_row(const bs_cu_router &r, int32_t row, const bs_scores &x)
{
    const bs_choices to = bs_cu_choices(r, row);
    const int32_t *table = reinterpret_cast<const int32_t *>(bs_cu_prepared(*r.t, r.s));
    return bs_decide_row(bs_cu_rule(r.s), r.knob, &x, table, row, &to).kind == BS_ROUTE_SOUND;
}

/* Decides rows first .. last - 1. Called by all threads; returns to each whether all rows are valid. */
__device__ inline bool bs_cu_decide_rows(const bs_cu_router &r, int32_t first, int32_t last)
{
    const int32_t most = min(r.stage_words / bs_cu_stage_pitch(r), bs_cu_threads());
    bool bad = false;
    /* one row has too many scores to stage */
    for (int32_t row = first + bs_cu_thread(); most == 0 && row < last; row += bs_cu_threads())
        bad = !bs_cu_decide_row(r, row, bs_cu_scores_of(*r.t, r.score, row)) || bad;
    for (int32_t base = first; most > 0 && base < last; base += most) {
        const int32_t end = min(base + most, last), row = base + bs_cu_thread();
        bs_cu_stage_scores(r, base, end);
        __syncthreads();
        if (row < end)
            bad = !bs_cu_decide_row(r, row, bs_cu_staged(r, row - base)) || bad;
        __syncthreads();
    }
    return __syncthreads_or(bad) == 0;
}

__device__ inline void bs_cu_decide_forced(const bs_cu_router &r, int32_t first, int32_t last)
{
    for (int32_t at = first * r.d.per_row + bs_cu_thread(); at < last * r.d.per_row; at += bs_cu_threads()) {
        r.d.chosen[at] = bs_forced_choice(at, r.d.per_row, r.s->p[BS_CU_P_FORCED].i - 1);
        r.d.gates[at] = 1.0f;
    }
}

#endif
/* ==== end src/cuda/route_protocols.cuh ======================================================== */

enum {
    BS_CU_ROUTE_CHUNK = 256, /* rows of a block of route_rows and route_pack, at least */
    BS_CU_ROUTE_ROWS = 1024  /* up to this many, one block does everything */
};

/* Whether the host calls back for a router's decision. */
static bool bs_cu_asks_caller(const bs_plan *plan, int32_t router)
{
    return plan->graph->routers[router].desc->protocol == BS_ROUTE_CALLBACK && !plan->routers[router].forced;
}

/* A forced route needs nothing but the number of rows; what a callback chose is packed. */
static void bs_cu_route_describe(const bs_cu_node *n, bs_device_step *s)
{
    const int32_t router = n->node->router;
    const bs_router_info *info = &n->graph->routers[router];
    const bs_route_desc *d = info->desc;
    const bs_router_plan *plan = &n->plan->routers[router];
    const bool all_rows = bs_protocol_sees_all_rows(d->protocol);
    const bool large = !plan->in_tile && (!all_rows || plan->forced) && plan->rows > BS_CU_ROUTE_ROWS &&
                       d->paths <= BS_CU_ROUTE_PATHS;
    s->kernel = large                                ? BS_CU_route_rows
                : bs_cu_asks_caller(n->plan, router) ? BS_CU_route_pack
                                                     : BS_CU_route;
    s->then = large ? BS_CU_route_pack : BS_CU_none;
    /* so that the counts of all chunks fit into bs_device_decision.work */
    s->batch = large ? bs_max_i32(BS_CU_ROUTE_CHUNK, d->paths) : BS_CU_ONE_BLOCK;
    bs_rule rule = bs_rule_of(d, plan->forced ? 0 : n->in[0].dim[0]);
    rule.protocol = plan->forced ? -1 : rule.protocol;
    memcpy(s->p, &rule, sizeof rule);
    s->p[BS_CU_P_KNOB].i = info->knob != 0 && !plan->forced;
    s->p[BS_CU_P_FORCED].i = plan->forced;
    s->p[BS_CU_P_LARGE].i = large;
    if (d->protocol != BS_ROUTE_BUDGET || plan->forced)
        return;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t patches = n->graph->domains[info->domain].patches;
    bs_node_weights(n->graph, n->node, specs);
    s->p[BS_CU_P_PATHS_AT].i = (int32_t)bs_bytes_figure(bs_weight_offset(specs, 1));
    if (patches < 0)
        return;
    s->p[BS_CU_P_SIZE].i = n->plan->domains[patches].size;
    s->p[BS_CU_P_HEIGHT].i = n->graph->domains[patches].height;
    s->p[BS_CU_P_FRAME_WIDTH].i = n->graph->domains[patches].width;
}

/* ---------------------------------------------------------------------------------------------------- kernels */

/* A decision, by one block. */
__device__ inline void bs_cu_route_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    bool good = bs_route_check_knob(r.knob).kind == BS_ROUTE_SOUND;
    (void)w;
    if (threadIdx.x == 0)
        *r.d.price = 0.0f;
    if (s->p[BS_CU_P_FORCED].i)
        bs_cu_decide_forced(r, 0, r.rows);
    else if (good && bs_cu_rule(s)->protocol == BS_ROUTE_BUDGET)
        good = bs_cu_decide_budget(r);
    else if (good)
        good = bs_cu_decide_rows(r, 0, r.rows);
    if (good && bs_cu_rule(s)->protocol == BS_ROUTE_CAPACITY)
        bs_cu_limit_capacity(r);
    if (!good) {
        __syncthreads(); /* other threads may still be choosing */
        bs_cu_choose_none(r, 0, r.rows * r.d.per_row);
        if (threadIdx.x == 0)
            bs_cu_fail(t, s, BS_ERROR_DATA);
    }
    bs_cu_pack(r);
    bs_cu_record_rows(r, 0, r.rows);
    bs_cu_record_counts(r);
}

/* Decides chunk w.part of the rows, counts what each path got of it, and notes whether a row failed. */
__device__ inline void bs_cu_route_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    bool good = bs_route_check_knob(r.knob).kind == BS_ROUTE_SOUND;
    if (w.part == 0 && threadIdx.x == 0)
        *r.d.price = 0.0f;
    if (first >= r.rows && w.part > 0)
        return;
    bs_cu_clear_counts(r);
    if (s->p[BS_CU_P_FORCED].i)
        bs_cu_decide_forced(r, first, last);
    else if (good)
        good = bs_cu_decide_rows(r, first, last);
    __syncthreads();
    if (good)
        bs_cu_count_choices(r, first * r.d.per_row, last * r.d.per_row);
    else if (threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_DATA);
    __syncthreads();
    int32_t *chunk = r.d.work + (int64_t)w.part * (r.d.paths + 1);
    for (int32_t p = bs_cu_thread(); p <= r.d.paths; p += bs_cu_threads())
        chunk[p] = p < r.d.paths ? r.counts[p] : !good;
}

/* Sums what each path got of all chunks (counts) and of those before this one (next); returns whether any failed. */
__device__ inline bool bs_cu_sum_chunks(const bs_cu_router &r, int32_t chunk, int32_t chunks)
{
    const int32_t words = r.d.paths + 1, slices = max(bs_cu_threads() / words, 1);
    bs_cu_clear_counts(r);
    bool failed = false;
    __syncthreads();
    for (int32_t i = bs_cu_thread(); i < slices * words; i += bs_cu_threads()) {
        const int32_t p = i % words;
        int32_t all = 0, before = 0;
        for (int32_t k = i / words; k < chunks; k += slices) {
            const int32_t count = r.d.work[(int64_t)k * words + p];
            all += count;
            before += k < chunk ? count : 0;
        }
        if (p == r.d.paths) {
            failed = failed || all > 0;
        } else {
            atomicAdd(&r.counts[p], all);
            atomicAdd(&r.next[p], before);
        }
    }
    return __syncthreads_or(failed) != 0;
}

/* Packs chunk w.part of the rows after the chunks before it; chunk 0 also writes counts and offsets. */
__device__ inline void bs_cu_route_pack_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_router r = bs_cu_router_of(t, s);
    const int32_t first = w.part * s->batch, last = min(first + s->batch, r.rows);
    if (w.part > 0 && (first >= r.rows || !s->p[BS_CU_P_LARGE].i))
        return;
    if (!s->p[BS_CU_P_LARGE].i) { /* a callback chose, and the host has checked its choices */
        bs_cu_pack(r);
        bs_cu_record_rows(r, 0, r.rows);
        bs_cu_record_counts(r);
        return;
    }
    const bool failed = bs_cu_sum_chunks(r, w.part, (r.rows + s->batch - 1) / s->batch);
    if (failed) {
        bs_cu_clear_counts(r);
        bs_cu_choose_none(r, first * r.d.per_row, last * r.d.per_row);
    }
    bs_cu_sum_counts(r);
    if (w.part == 0) {
        bs_cu_tell_counts(r);
        bs_cu_record_counts(r);
    }
    bs_cu_place_choices(r, first * r.d.per_row, last * r.d.per_row);
    bs_cu_record_rows(r, first, last);
}

#endif
/* ==== end src/cuda/op_route.cuh =============================================================== */
/* ==== begin src/cuda/op_route_score.cuh ======================================================= */
/* op_route_score.cuh - what a model can read of a decision: the score of what was chosen, the price of a budget.
 * Relies on program.cuh and describe.cuh. Must never touch a decision. */
#ifndef BS_CUDA_OP_ROUTE_SCORE
#define BS_CUDA_OP_ROUTE_SCORE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/describe.cuh" */
/* #include "cuda/program.cuh" */

/* Parameters of the kernels of this file, in p. */
enum { BS_CU_SCORE_WIDTH, BS_CU_SCORE_BUDGET }; /* scores a row; whether a budget was kept */
enum { BS_CU_PRICE_FORCED };

static void bs_cu_route_score_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->batch = 256;
    s->p[BS_CU_SCORE_WIDTH].i = n->in[0].dim[0];
    s->p[BS_CU_SCORE_BUDGET].i = n->graph->routers[s->router].desc->protocol == BS_ROUTE_BUDGET &&
                                 !n->plan->routers[s->router].forced;
}

static void bs_cu_route_price_describe(const bs_cu_node *n, bs_device_step *s)
{
    /* a forced route has no price, and may be decided in tiles */
    s->p[BS_CU_PRICE_FORCED].i = n->plan->routers[s->router].forced;
}

/* The score of the first chosen path, or the one score for all paths; with a budget the loss of the chosen variant; 0
 * where no path was chosen. */
__device__ inline void bs_cu_route_score_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const bs_device_operand *in = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    const int32_t width = s->p[BS_CU_SCORE_WIDTH].i;
    /* a decision that was not made in the tile counts all rows */
    const int32_t ahead = t.record->decision.in_tile ? 0 : bs_cu_before(t, s->domain);
    for (int32_t r = w.row + bs_cu_thread(); r < w.end; r += bs_cu_threads()) {
        const int64_t decided = (int64_t)(ahead + r) * d.per_row;
        const int32_t path = d.chosen[decided], at = bs_score_of(path, width);
        const uint8_t *from = bs_cu_row(t, in, r);
        uint8_t *to = bs_cu_row(t, out, r);
        if (out->dtype == BS_I32)
            *reinterpret_cast<int32_t *>(to) =
                path >= 0 && s->p[BS_CU_SCORE_BUDGET].i ? (int32_t)d.gates[decided]
                : at >= 0 ? reinterpret_cast<const int32_t *>(from)[(int64_t)at * in->stride[0]]
                          : 0;
        else
            bs_cu_put(to, out->dtype, 0, at >= 0 ? bs_cu_get(from, in->dtype, (int64_t)at * in->stride[0]) : 0.0f);
    }
}

/* The price at which a budget was kept; 0 for a forced route. */
__device__ inline void bs_cu_route_price_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    if (threadIdx.x == 0 && w.part == 0)
        bs_cu_put(bs_cu_row(t, out, 0), out->dtype, 0,
                  s->p[BS_CU_PRICE_FORCED].i ? 0.0f : *bs_cu_decision_of(t).price);
}

#endif
/* ==== end src/cuda/op_route_score.cuh ========================================================= */
/* #include "cuda/op_segment.cuh" */
/* ==== begin src/cuda/op_shape.cuh ============================================================= */
/* op_shape.cuh - concat, slice, roll, reshape, transpose, pad, pixel_shuffle, pixel_unshuffle, gather_rows: they move
 * elements of any type.
 * Relies on move_nest.cuh, walk.cuh and turn.cuh. Must never do arithmetic on elements, nor trust an index. */
#ifndef BS_CUDA_OP_SHAPE
#define BS_CUDA_OP_SHAPE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/move_nest.cuh" */
/* ==== begin src/cuda/turn.cuh ================================================================= */
/* turn.cuh - views whose axes are split, joined or in another order: the same elements by other strides.
 * Relies on program.cuh. Must never touch an element. */
#ifndef BS_CUDA_TURN
#define BS_CUDA_TURN

/* #include "cuda/program.cuh" */

/* As bs_cu_pick, of all axes that a view can have. */
__device__ __forceinline__ int32_t bs_cu_pick_axis(const int32_t *a, int32_t d)
{
    return d == 4 ? a[4] : d == 5 ? a[5] : bs_cu_pick(a, d);
}

/* What is whole, in other dimensions: images are, too. */
__device__ __forceinline__ void bs_cu_make_whole(bs_cu_view *v)
{
    v->y0 = v->x0 = 0;
    v->y1 = v->dim[1];
    v->x1 = v->dim[2];
}

/* Dimension d is dimension p[d] of v. */
__device__ inline bs_cu_view bs_cu_turn(const bs_cu_view &v, const bs_device_step *s)
{
    bs_cu_view turned = v;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++)
        if (d < v.rank) {
            turned.dim[d] = bs_cu_pick_axis(v.dim, s->p[d].i);
            turned.stride[d] = bs_cu_pick_axis(v.stride, s->p[d].i);
        }
    bs_cu_make_whole(&turned);
    return turned;
}

/* The next axis of more than one element, from `axis` on; the rank: there is none. */
__device__ __forceinline__ int32_t bs_cu_real_axis(const bs_cu_view &v, int32_t axis)
{
    while (axis < v.rank && bs_cu_pick_axis(v.dim, axis) == 1)
        axis++;
    return axis;
}

/* Axes `to` .. `end` - 1 of a view become those of one axis with this stride. */
__device__ __forceinline__ void bs_cu_split_axis(bs_cu_view *view, int32_t to, int32_t end, int32_t stride)
{
#pragma unroll
    for (int32_t d = BS_MAX_AXES - 1; d >= 0; d--)
        if (d >= to && d < end) {
            view->stride[d] = stride;
            stride *= view->dim[d];
        }
}

/* As reshape_view of ops/reshape.c: `o` in the dimensions of `like`, of as many elements; false: no strides say it. */
__device__ inline bool bs_cu_reshape_view(const bs_cu_view &o, const bs_cu_view &like, bs_cu_view *view)
{
    *view = o;
    view->rank = like.rank;
    view->image = like.image;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++) {
        view->dim[d] = like.dim[d];
        view->stride[d] = 0;
    }
    bs_cu_make_whole(view);
    int32_t to = 0;
    for (int32_t from = bs_cu_real_axis(o, 0); from < o.rank && to < like.rank; from = bs_cu_real_axis(o, from + 1)) {
        int32_t have = bs_cu_pick_axis(o.dim, from), want = bs_cu_pick_axis(like.dim, to), end = to + 1;
        while (have != want) {
            const int32_t next = bs_cu_real_axis(o, from + 1);
            if (have < want ? next >= o.rank : end >= like.rank)
                return false;
            if (have > want) {
                want *= bs_cu_pick_axis(like.dim, end++);
                continue;
            }
            if (bs_cu_pick_axis(o.stride, from) != bs_cu_pick_axis(o.dim, next) * bs_cu_pick_axis(o.stride, next))
                return false;
            have *= bs_cu_pick_axis(o.dim, next);
            from = next;
        }
        bs_cu_split_axis(view, to, end, bs_cu_pick_axis(o.stride, from));
        to = end;
    }
    return true;
}

#endif
/* ==== end src/cuda/turn.cuh =================================================================== */
/* #include "cuda/walk.cuh" */

extern "C" {
/* #include "ops/forms.h" */
}

/* Copies this worker's share of the rectangle of `to`. */
__device__ inline void bs_cu_copy_view(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_deal &d,
                                       uint8_t *workspace)
{
    const bs_cu_team team = {d.index, d.workers, 0, 1};
    bs_cu_nest_copy(bs_cu_nest_of(to, from, to), team, workspace, bs_cu_uncut());
}

/* The first of more than four dimensions goes; the others move up. */
__device__ __forceinline__ int32_t bs_cu_drop_axis(bs_cu_view *v)
{
    const int32_t n = v->dim[0];
    v->rank--;
#pragma unroll
    for (int32_t i = 1; i < BS_MAX_AXES; i++) {
        v->dim[i - 1] = v->dim[i];
        v->stride[i - 1] = v->stride[i];
    }
    return n;
}

/* The same of views of any rank: loops around copies of four dimensions. All of these are of one nest, which is less to
 * keep from one to the next than the views. */
__device__ inline void bs_cu_copy_axes(const bs_cu_view &to, const bs_cu_view &from, const bs_cu_deal &d,
                                       uint8_t *workspace)
{
    bs_cu_view y = to, x = from;
    const int32_t outer = to.rank > BS_MAX_RANK ? bs_cu_drop_axis(&y) : 1;
    const int32_t inner = to.rank > BS_MAX_RANK + 1 ? bs_cu_drop_axis(&y) : 1;
    if (to.rank > BS_MAX_RANK)
        bs_cu_drop_axis(&x);
    if (to.rank > BS_MAX_RANK + 1)
        bs_cu_drop_axis(&x);
    const bs_cu_team team = {d.index, d.workers, 0, 1};
    const bs_cu_nest first = bs_cu_nest_of(y, x, y);
    for (int32_t i = 0; i < outer; i++)
        for (int32_t k = 0; k < inner; k++) {
            bs_cu_nest c = first;
            c.to += ((int64_t)i * to.stride[0] + (int64_t)k * to.stride[1]) * bs_cu_bytes(to.dtype);
            c.from += ((int64_t)i * from.stride[0] + (int64_t)k * from.stride[1]) * bs_cu_bytes(from.dtype);
            bs_cu_nest_copy(c, team, workspace, bs_cu_uncut());
        }
}

/* Copies element (c, y, x) of `from` to where the scan is in `to`. */
__device__ __forceinline__ void bs_cu_pixel_move(const bs_cu_view &to, const bs_cu_scan &k, const bs_cu_view &from,
                                                 int32_t c, int32_t y, int32_t x)
{
    bs_cu_element_move(to.data, to.dtype, bs_cu_pixel_at(to, k.c, k.y, k.x), from.data, from.dtype,
                       bs_cu_pixel_at(from, c, y, x));
}

/* Moves a view by `by` along dimension d. */
__device__ __forceinline__ void bs_cu_shift(bs_cu_view *v, int32_t d, int32_t by)
{
#pragma unroll
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        v->data += i == d ? (int64_t)by * v->stride[i] * bs_cu_bytes(v->dtype) : 0;
}

/* Keeps the first `n` along dimension d; rows and columns of whole images only. */
__device__ __forceinline__ void bs_cu_keep(bs_cu_view *v, int32_t d, int32_t n)
{
#pragma unroll
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        v->dim[i] = i == d ? n : v->dim[i];
    v->y1 = d == 1 ? n : v->y1;
    v->x1 = d == 2 ? n : v->x1;
}

/* Parameters of concat and slice, in p: the descriptor's words. */
enum { BS_CU_SLICE_AXIS, BS_CU_SLICE_START };

static void bs_cu_slice_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_SLICE_AXIS].i += s->p[BS_CU_SLICE_AXIS].i < 0 ? n->out[0].rank : 0;
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_concat_describe = bs_cu_slice_describe;

__device__ inline void bs_cu_concat_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i;
    for (int32_t r = d.row; r < d.end; r += d.rows) {
        bs_cu_view y = bs_cu_open_out(t, s, 0, r);
        bs_cu_zero_margin(w, y);
        for (int32_t i = 0; i < s->n_in; i++) {
            bs_cu_view to = y;
            const bs_cu_view from = bs_cu_open_of_many(t, s, i, r);
            const int32_t extent = bs_cu_pick(from.dim, axis);
            bs_cu_keep(&to, axis, extent);
            bs_cu_copy_view(to, from, d, t.workspace);
            bs_cu_shift(&y, axis, extent);
        }
    }
}

__device__ inline void bs_cu_slice_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i, start = s->p[BS_CU_SLICE_START].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, bs_cu_view &x, int32_t) {
        /* a symbol was bound below what the slice needs */
        if (bs_cu_pick_axis(y.dim, axis) > bs_cu_pick_axis(x.dim, axis) - start) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        bs_cu_shift(&x, axis, start);
        bs_cu_copy_axes(y, x, d, t.workspace);
    });
}

static constexpr bs_cu_describe bs_cu_roll_describe = bs_cu_slice_describe;

/* What is pushed out at one end comes in at the other. */
__device__ inline void bs_cu_roll_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_SLICE_AXIS].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        const int32_t n = max(bs_cu_pick(y.dim, axis), 1), over = s->p[BS_CU_SLICE_START].i % n,
                      at = over < 0 ? over + n : over;
        bs_cu_view to = y, from = x;
        if (at > 0) {
            bs_cu_keep(&to, axis, at);
            bs_cu_shift(&from, axis, n - at);
            bs_cu_copy_view(to, from, d, t.workspace);
            to = y;
        }
        bs_cu_shift(&to, axis, at);
        bs_cu_keep(&to, axis, n - at);
        bs_cu_copy_view(to, x, d, t.workspace);
    });
}

/* ---------------------------------------------------------------------------- transpose, reshape, both in one */

/* Parameters of a reshape, in p: what is a transpose too, and its order. */
enum { BS_CU_RESHAPE_TURNED = BS_MAX_AXES, BS_CU_RESHAPE_PARAMS };
static_assert(BS_CU_RESHAPE_PARAMS <= BS_DEVICE_PARAMS, "a step has these parameters");

enum { BS_CU_TURN_NONE, BS_CU_TURN_OPERAND, BS_CU_TURN_RESULT };

/* p: dimension d of the result is dimension p[d] of the operand; back: the other way. */
static void bs_cu_transpose_order(const bs_transpose_desc *desc, int32_t rank, bool back, bs_device_step *s)
{
    int32_t order[BS_MAX_AXES];
    bs_transpose_order(desc, rank, order);
    for (int32_t d = 0; d < rank; d++)
        s->p[back ? order[d] : d].i = back ? d : order[d];
}

/* Or the end of reshape, transpose (plan/fusions.c): operand 0 is then the reshape's. */
static void bs_cu_transpose_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool fused = n->np->fusion != 0;
    bs_cu_transpose_order((const bs_transpose_desc *)n->params, n->out[0].rank, fused, s);
    if (fused) {
        s->kernel = BS_CU_reshape;
        s->p[BS_CU_RESHAPE_TURNED].i = BS_CU_TURN_RESULT;
    }
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_transpose_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        bs_cu_copy_axes(y, bs_cu_turn(x, s), d, t.workspace);
    });
}

/* Or the end of transpose, reshape: operand 0 is then the transpose's. */
static void bs_cu_reshape_describe(const bs_cu_node *n, bs_device_step *s)
{
    const bool fused = n->np->fusion != 0;
    s->p[BS_CU_RESHAPE_TURNED].i = fused ? BS_CU_TURN_OPERAND : BS_CU_TURN_NONE;
    if (fused)
        bs_cu_transpose_order((const bs_transpose_desc *)bs_transpose_before(n->graph, n->node), n->in[0].rank, false,
                              s);
    bs_cu_cut(n, s);
}

__device__ inline int32_t bs_cu_reshape_count(const bs_cu_view &v)
{
    int32_t n = 1;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_AXES; d++)
        n *= d < v.rank ? v.dim[d] : 1;
    return n;
}

/* Element number i in row-major order. */
__device__ inline int64_t bs_cu_reshape_at(const bs_cu_view &v, int32_t i)
{
    int64_t at = 0;
#pragma unroll
    for (int32_t d = BS_MAX_AXES - 1; d >= 0; d--)
        if (d < v.rank) {
            const int32_t rest = i / v.dim[d];
            at += (int64_t)(i - rest * v.dim[d]) * v.stride[d];
            i = rest;
        }
    return at;
}

/* y and x, which have n elements in the same order, as views of the same dimensions: one where both are dense, else
 * those of y or of x; false: no strides say it. So a reshape contains one copy: that is most of its code and registers.
 */
__device__ inline bool bs_cu_reshape_views(const bs_cu_view &y, const bs_cu_view &x, int32_t n, bs_cu_view *to,
                                           bs_cu_view *from)
{
    bs_cu_view line = y;
    line.rank = 1;
    line.image = false;
    line.dim[0] = n;
    if (bs_cu_reshape_view(x, line, from) && bs_cu_reshape_view(y, line, to))
        return true;
    *to = y;
    if (bs_cu_reshape_view(x, y, from))
        return true;
    *from = x;
    return bs_cu_reshape_view(y, x, to);
}

__device__ inline void bs_cu_reshape_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t turned = s->p[BS_CU_RESHAPE_TURNED].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &result, const bs_cu_view &operand, int32_t) {
        const bs_cu_view y = turned == BS_CU_TURN_RESULT ? bs_cu_turn(result, s) : result;
        const bs_cu_view x = turned == BS_CU_TURN_OPERAND ? bs_cu_turn(operand, s) : operand;
        const int32_t n = bs_cu_reshape_count(y);
        bs_cu_view to, from;
        if (n != bs_cu_reshape_count(x))
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
        else if (bs_cu_reshape_views(y, x, n, &to, &from))
            bs_cu_copy_axes(to, from, d, t.workspace);
        else
            for (int32_t i = d.index; i < n; i += d.workers)
                bs_cu_element_move(y.data, y.dtype, bs_cu_reshape_at(y, i), x.data, x.dtype, bs_cu_reshape_at(x, i));
    });
}

/* ----------------------------------------------------------------------------------------------------- pad */

/* Parameters of pad, in p: the descriptor's words. */
enum {
    BS_CU_PAD_TOP,
    BS_CU_PAD_BOTTOM,
    BS_CU_PAD_LEFT,
    BS_CU_PAD_RIGHT,
    BS_CU_PAD_BORDER, /* in: its value, f; out: as it is stored */
    BS_CU_PAD_EDGE
};

static void bs_cu_pad_describe(const bs_cu_node *n, bs_device_step *s)
{
    const float border = s->p[BS_CU_PAD_BORDER].f;
    s->p[BS_CU_PAD_BORDER].i = 0;
    bs_pad_element((bs_dtype)n->out[0].dtype, border, &s->p[BS_CU_PAD_BORDER]);
    bs_cu_cut(n, s);
}

__device__ inline void bs_cu_pad_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t top = s->p[BS_CU_PAD_TOP].i, left = s->p[BS_CU_PAD_LEFT].i;
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t edge = s->p[BS_CU_PAD_EDGE].i, sy = bs_pad_source(edge, k.y - top, x.dim[1]),
                      sx = bs_pad_source(edge, k.x - left, x.dim[2]);
        if (edge == BS_EDGE_REFLECT && (max(top, s->p[BS_CU_PAD_BOTTOM].i) >= x.dim[1] ||
                                        max(left, s->p[BS_CU_PAD_RIGHT].i) >= x.dim[2])) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE); /* a symbol was bound below what is reflected */
            return;
        }
        if (edge || (sy == k.y - top && sx == k.x - left))
            bs_cu_pixel_move(y, k, x, k.c, sy, sx);
        else
            bs_cu_store_one(y.data, bs_cu_bytes(y.dtype), bs_cu_pixel_at(y, k.c, k.y, k.x),
                            (uint32_t)s->p[BS_CU_PAD_BORDER].i);
    });
}

/* ------------------------------------------------------------------------------------------- pixel shuffle */

enum { BS_CU_SHUFFLE_FACTOR }; /* parameters of both, in p */

static constexpr bs_cu_describe bs_cu_pixel_shuffle_describe = bs_cu_cut, bs_cu_pixel_unshuffle_describe = bs_cu_cut;

/* Goes over the result, so that it is written in order. */
__device__ inline void bs_cu_pixel_shuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i;
    bs_cu_scan_rows(t, s, w, [&](const bs_cu_view &y, const bs_cu_view &x, const bs_cu_scan &k) {
        const int32_t sy = bs_cu_floor_div(k.y, f), sx = bs_cu_floor_div(k.x, f),
                      c = (k.c * f + k.y - sy * f) * f + k.x - sx * f;
        bs_cu_pixel_move(y, k, x, c, sy, sx);
    });
}

__device__ inline void bs_cu_pixel_unshuffle_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const int32_t f = s->p[BS_CU_SHUFFLE_FACTOR].i;
    const bs_cu_deal d = bs_cu_deal_whole(w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t) {
        if (x.frame_h % f != 0 || x.frame_w % f != 0) { /* rows would be missing */
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        bs_cu_scan_run(d, y, y.dim[0], [&](const bs_cu_scan &k) {
            const int32_t c = bs_cu_floor_div(k.c, f * f), phase = k.c - c * f * f, i = bs_cu_floor_div(phase, f),
                          j = phase - i * f;
            bs_cu_pixel_move(y, k, x, c, k.y * f + i, k.x * f + j);
        });
    });
}

/* --------------------------------------------------------------------------------------------- gather_rows */

static constexpr bs_cu_describe bs_cu_gather_rows_describe = bs_cu_cut;

/* Copies rows of the table, each by only as many threads as its bytes keep busy. */
__device__ inline void bs_cu_gather_rows_of(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_view &y,
                                            const bs_cu_view &table, const bs_cu_view &indices, const bs_cu_deal &d)
{
    bs_cu_view row = y;
    bs_cu_keep(&row, 0, 1);
    const bs_cu_nest first = bs_cu_nest_of(row, table, {0, row.y1, 0, row.x1});
    const int64_t bytes = (int64_t)first.n[0] * first.n[1] * first.n[2] * first.n[3] * bs_cu_bytes(y.dtype);
    int32_t width = 1;
    while (width < 32 && width * 2 <= d.workers && width * 16 < bytes)
        width *= 2;
    const bs_cu_team team = {d.index % width, width, d.index / width, d.workers / width};
    for (int32_t m = team.index; m < y.dim[0]; m += team.count) {
        const int32_t from = bs_cu_index_at(indices, (int64_t)m * indices.stride[0]);
        if (from < 0 || from >= table.dim[0]) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        bs_cu_nest c = first;
        c.to += (int64_t)m * y.stride[0] * bs_cu_bytes(y.dtype);
        c.from += (int64_t)from * table.stride[0] * bs_cu_bytes(table.dtype);
        bs_cu_nest_copy(c, team, t.workspace, bs_cu_uncut());
    }
}

/* Operands: indices, table. */
__device__ inline void bs_cu_gather_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &indices, int32_t r) {
        bs_cu_gather_rows_of(t, s, y, bs_cu_open_in(t, s, 1, r), indices, d);
    });
}

#endif
/* ==== end src/cuda/op_shape.cuh =============================================================== */
/* ==== begin src/cuda/op_shape_index.cuh ======================================================= */
/* op_shape_index.cuh - select, gather_elements, scatter_elements, scatter_rows: elements by index (gather_rows:
 * op_shape.cuh). Relies on move_nest.cuh and walk.cuh. Must never trust an index, nor let two threads write one
 * line. */
#ifndef BS_CUDA_OP_SHAPE_INDEX
#define BS_CUDA_OP_SHAPE_INDEX

/* #include "cuda/op_shape.cuh" */

enum { BS_CU_INDEXED_AXIS, BS_CU_INDEXED_UPDATE }; /* parameters: the descriptor's words, the axis from 0 on */

static void bs_cu_select_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_INDEXED_AXIS].i += s->p[BS_CU_INDEXED_AXIS].i < 0 ? n->in[0].rank : 0;
    bs_cu_cut(n, s);
}

static constexpr bs_cu_describe bs_cu_gather_elements_describe = bs_cu_select_describe,
                                bs_cu_scatter_elements_describe = bs_cu_select_describe,
                                bs_cu_scatter_rows_describe = bs_cu_select_describe;

/* Gives indices, and lines of what is indexed, the rank of what stands beside the indices (ops/gather_rows.c). False: a
 * symbol was bound below what the indices need. */
__device__ inline bool bs_cu_indexed_align(const bs_cu_view &beside, bs_cu_view *which, bs_cu_view *lines, int32_t axis,
                                           bool each)
{
    const bs_cu_view indices = *which, named = *lines;
    const int32_t taken = each ? 1 : indices.rank;
    bool sound = true;
#pragma unroll
    for (int32_t d = 0; d < BS_MAX_RANK; d++) {
        const bool on = d >= axis && d < axis + taken;
        const int32_t of = d < axis ? d : max(d - taken + 1, 0);
        which->stride[d] = each ? indices.stride[d] : on ? bs_cu_pick(indices.stride, d - axis) : 0;
        lines->stride[d] = on ? 0 : bs_cu_pick(named.stride, of);
        sound = sound && (d >= beside.rank || on || beside.dim[d] <= bs_cu_pick(named.dim, of));
    }
    return sound;
}

/* Where element number i of `of` lies in a, b and c, and whether that is within c, which has the same rank. Dimension
 * `axis` is left out. */
struct bs_cu_indexed_place {
    int64_t a, b, c;
    bool within;
};

__device__ inline bs_cu_indexed_place bs_cu_indexed_find(int32_t i, const bs_cu_view &a, const bs_cu_view &b,
                                                         const bs_cu_view &c, int32_t axis)
{
    bs_cu_indexed_place p = {0, 0, 0, true};
#pragma unroll
    for (int32_t d = BS_MAX_RANK - 1; d >= 0; d--)
        if (d < a.rank && d != axis) {
            const int32_t rest = i / a.dim[d], at = i - rest * a.dim[d];
            p.a += (int64_t)at * a.stride[d];
            p.b += (int64_t)at * b.stride[d];
            p.c += (int64_t)at * c.stride[d];
            p.within = p.within && at < c.dim[d];
            i = rest;
        }
    return p;
}

__device__ inline void bs_cu_indexed_read(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool each)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_INDEXED_AXIS].i;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        bs_cu_view which = bs_cu_open_in(t, s, 1, r), lines = x;
        const int32_t n = bs_cu_reshape_count(y), extent = bs_cu_pick(x.dim, axis);
        const int64_t step = bs_cu_pick(x.stride, axis);
        if (!bs_cu_indexed_align(y, &which, &lines, axis, each)) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        for (int32_t i = d.index; i < n; i += d.workers) {
            const bs_cu_indexed_place p = bs_cu_indexed_find(i, y, which, lines, -1);
            const int32_t index = bs_cu_index_at(which, p.b);
            if (index < 0 || index >= extent) {
                bs_cu_fail(t, s, BS_ERROR_DATA);
                return;
            }
            bs_cu_element_move(y.data, y.dtype, p.a, x.data, x.dtype, p.c + index * step);
        }
    });
}

__device__ inline void bs_cu_select_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_read(t, s, w, false);
}

__device__ inline void bs_cu_gather_elements_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_read(t, s, w, true);
}

/* Writes an update, or adds it to what is there. */
__device__ __forceinline__ void bs_cu_indexed_update(const bs_cu_view &y, int64_t at, const bs_cu_view &u, int64_t from,
                                                     bool add)
{
    if (!add)
        bs_cu_element_move(y.data, y.dtype, at, u.data, u.dtype, from);
    else if (y.dtype == BS_I32)
        bs_cu_store_one(y.data, 4, at, bs_cu_load_one(y.data, 4, at) + bs_cu_load_one(u.data, 4, from));
    else
        bs_cu_put(y.data, y.dtype, at, bs_cu_get(y.data, y.dtype, at) + bs_cu_get(u.data, u.dtype, from));
}

/* A thread has a line of the result along the axis to itself: it copies the operand's, and then takes the updates in
 * the order of their index, as the CPU does. */
__device__ inline void bs_cu_indexed_write(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w, bool each)
{
    const bs_cu_deal d = bs_cu_deal_rows(t, s, w);
    const int32_t axis = s->p[BS_CU_INDEXED_AXIS].i;
    const bool add = s->p[BS_CU_INDEXED_UPDATE].i == BS_UPDATE_ADD;
    bs_cu_each_row(t, s, w, d, [&](const bs_cu_view &y, const bs_cu_view &x, int32_t r) {
        bs_cu_view which = bs_cu_open_in(t, s, 1, r), lines = y;
        const bs_cu_view u = bs_cu_open_in(t, s, 2, r);
        const int32_t extent = bs_cu_pick(y.dim, axis), updates = bs_cu_pick(u.dim, axis);
        const int64_t y_step = bs_cu_pick(y.stride, axis), x_step = bs_cu_pick(x.stride, axis),
                      u_step = bs_cu_pick(u.stride, axis);
        if (!bs_cu_indexed_align(u, &which, &lines, axis, each)) {
            bs_cu_fail(t, s, BS_ERROR_SHAPE);
            return;
        }
        const int64_t which_step = bs_cu_pick(which.stride, axis);
        for (int32_t i = d.index; i < bs_cu_reshape_count(y) / extent; i += d.workers) {
            const bs_cu_indexed_place p = bs_cu_indexed_find(i, y, which, u, axis),
                                      from = bs_cu_indexed_find(i, y, x, u, axis);
            for (int32_t k = 0; k < extent; k++)
                bs_cu_element_move(y.data, y.dtype, p.a + k * y_step, x.data, x.dtype, from.b + k * x_step);
            for (int32_t k = 0; p.within && k < updates; k++) {
                const int32_t index = bs_cu_index_at(which, p.b + k * which_step);
                if (index < 0 || index >= extent) {
                    bs_cu_fail(t, s, BS_ERROR_DATA);
                    return;
                }
                bs_cu_indexed_update(y, p.a + index * y_step, u, p.c + k * u_step, add);
            }
        }
    });
}

__device__ inline void bs_cu_scatter_elements_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_write(t, s, w, true);
}

__device__ inline void bs_cu_scatter_rows_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_indexed_write(t, s, w, false);
}

#endif
/* ==== end src/cuda/op_shape_index.cuh ========================================================= */
/* ==== begin src/cuda/op_trees.cuh ============================================================= */
/* op_trees.cuh - the structure of trees and graphs whose vertices are rows: children, levels. One block does each.
 * Relies on kernels.cuh, describe.cuh, prefix.cuh. Must never let an index that was not checked reach an address. */
#ifndef BS_CUDA_OP_TREES
#define BS_CUDA_OP_TREES

/* #include "cuda/describe.cuh" */
/* #include "cuda/kernels.cuh" */
/* #include "cuda/prefix.cuh" */
/* #include "cuda/program.cuh" */

extern "C" {
/* ==== begin src/ops/trees.h =================================================================== */
/* ops/trees.h - the lists by which rows get their levels, for the plain kernel and a device.
 * Relies on base/base.h. Must never know where indices come from. */
#ifndef BS_OPS_TREES_H
#define BS_OPS_TREES_H

/* #include "base/base.h" */
/* #include "base/both.h" */

typedef struct bs_children_params {
    const char *name;
    int32_t slots;
} bs_children_params;

/* Of [rows, slots] children. An index is named by where it stands among all of them: row * slots + slot. */
typedef struct bs_level_lists {
    int32_t *above; /* [rows] the first index that names a row; -1 none */
    int32_t *waits; /* [rows] children that have no level yet */
    int32_t *order; /* [rows] rows that have a level, in the order in which they got it */
    int32_t *next;  /* [rows * slots] another index that names the same row; -1 none */
} bs_level_lists;

enum { BS_LEVEL_WORDS = 3 }; /* of a row, beside those of its indices */

static inline BS_BOTH bs_level_lists bs_level_lists_in(void *scratch, int64_t rows)
{
    int32_t *at = (int32_t *)scratch;
    const bs_level_lists lists = {at, at + rows, at + 2 * rows, at + BS_LEVEL_WORDS * rows};
    return lists;
}

#endif
/* ==== end src/ops/trees.h ===================================================================== */
}

/* One work item. */
static void bs_cu_children_describe(const bs_cu_node *n, bs_device_step *s) { (void)n, (void)s; }

static constexpr bs_cu_describe bs_cu_levels_describe = bs_cu_children_describe;

/* A value of two dimensions, or of one, that is whole. */
struct bs_cu_lists {
    int32_t *data;
    int32_t rows, slots;
    int64_t row_step, slot_step;
};

__device__ inline bs_cu_lists bs_cu_lists_of(const bs_cu_tile &t, const bs_device_operand *o)
{
    const bs_cu_lists lists = {reinterpret_cast<int32_t *>(bs_cu_row(t, o, 0)), o->dim[0],
                               o->rank > 1 ? o->dim[1] : 1, o->stride[0], o->rank > 1 ? o->stride[1] : 0};
    return lists;
}

__device__ __forceinline__ int32_t *bs_cu_list_at(const bs_cu_lists &l, int32_t row, int32_t slot)
{
    return l.data + row * l.row_step + slot * l.slot_step;
}

/* ---------------------------------------------------------------------------------------------------- children */

/* A share of the rows for each thread, whose lists begin behind those of the threads before it. */
__device__ inline void bs_cu_children_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_lists lengths = bs_cu_lists_of(t, bs_cu_in(t, s, 0)), indices = bs_cu_lists_of(t, bs_cu_in(t, s, 1)),
                      out = bs_cu_lists_of(t, bs_cu_out(t, s, 0));
    const int32_t share = (out.rows + bs_cu_threads() - 1) / bs_cu_threads(),
                  first = min(bs_cu_thread() * share, out.rows), end = min(first + share, out.rows);
    int64_t own = 0, all;
    for (int32_t row = first; row < end; row++)
        own += max(*bs_cu_list_at(lengths, row, 0), 0); /* what is below 0, or too much, is refused below */
    int64_t taken = bs_cu_sum_before(own, reinterpret_cast<int64_t *>(t.workspace), &all);
    (void)w;
    for (int32_t row = first; row < end; row++) {
        const int32_t length = bs_read_once(bs_cu_list_at(lengths, row, 0));
        if (length < 0 || length > out.slots || length > indices.rows - taken) {
            bs_cu_fail(t, s, BS_ERROR_DATA);
            return;
        }
        for (int32_t k = 0; k < out.slots; k++)
            *bs_cu_list_at(out, row, k) = k < length ? *bs_cu_list_at(indices, (int32_t)taken + k, 0) : -1;
        taken += length;
    }
}

/* ------------------------------------------------------------------------------------------------------ levels */

/* Every list of rows above a row, and the rows without children. done: how many these are, in shared memory. Returns
 * whether all indices are sound. All threads. */
__device__ inline bool bs_cu_levels_list(const bs_cu_lists &children, const bs_cu_lists &levels,
                                         const bs_level_lists &lists, int32_t *done)
{
    bool bad = false;
    for (int32_t row = bs_cu_thread(); row < children.rows; row += bs_cu_threads())
        lists.above[row] = -1;
    __syncthreads();
    for (int32_t row = bs_cu_thread(); row < children.rows; row += bs_cu_threads()) {
        int32_t waits = 0;
        for (int32_t k = 0; k < children.slots; k++) {
            const int32_t child = bs_read_once(bs_cu_list_at(children, row, k)), at = row * children.slots + k;
            bad = bad || child < -1 || child >= children.rows;
            if (child < 0 || bad)
                continue;
            lists.next[at] = atomicExch(&lists.above[child], at);
            waits++;
        }
        lists.waits[row] = waits;
        *bs_cu_list_at(levels, row, 0) = 1;
        if (waits == 0)
            lists.order[atomicAdd(done, 1)] = row;
    }
    return !__syncthreads_or(bad);
}

/* Rows whose last child has got its level get theirs, level by level: within one their order makes no difference. */
__device__ inline void bs_cu_levels_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_cu_lists children = bs_cu_lists_of(t, bs_cu_in(t, s, 0)), levels = bs_cu_lists_of(t, bs_cu_out(t, s, 0));
    const bs_level_lists lists = bs_level_lists_in(t.program->kernel_scratch, children.rows);
    int32_t *done = reinterpret_cast<int32_t *>(t.workspace);
    (void)w;
    if (threadIdx.x == 0)
        *done = 0;
    __syncthreads();
    bool sound = bs_cu_levels_list(children, levels, lists, done);
    int32_t end = sound ? *done : 0;
    __syncthreads(); /* before others add to it */
    for (int32_t first = 0, level = 2; first < end; level++) {
        for (int32_t i = first + bs_cu_thread(); i < end; i += bs_cu_threads())
            for (int32_t at = lists.above[lists.order[i]]; at >= 0; at = lists.next[at]) {
                const int32_t parent = at / children.slots;
                if (atomicSub(&lists.waits[parent], 1) != 1)
                    continue;
                *bs_cu_list_at(levels, parent, 0) = level;
                lists.order[atomicAdd(done, 1)] = parent;
            }
        __syncthreads();
        first = end;
        end = *done;
        __syncthreads();
    }
    sound = sound && end == children.rows;
    if (!sound && threadIdx.x == 0)
        bs_cu_fail(t, s, BS_ERROR_DATA);
}

#endif
/* ==== end src/cuda/op_trees.cuh =============================================================== */
/* #include "cuda/op_unary.cuh" */
/* ==== begin src/cuda/op_unique.cuh ============================================================ */
/* op_unique.cuh - the different elements of a value, in rising order: unique.
 *
 * One block sorts keys of all elements, each with its place, so that equal ones stay in the order of their places and
 * no two keys are equal (sort.cuh says how often it goes through them: 28 times with 10^5 elements); then it numbers
 * them. Keys lie in the scratch that the op planned.
 * Relies on op_from_data.cuh, move_nest.cuh and sort.cuh. Must never write an element beyond its maximum: what there is
 * is counted all the same, and the run then fails. */
#ifndef BS_CUDA_OP_UNIQUE
#define BS_CUDA_OP_UNIQUE

/* #include "cuda/move_nest.cuh" */
/* #include "cuda/op_from_data.cuh" */
/* #include "cuda/sort.cuh" */

extern "C" {
/* #include "ops/found.h" */
}

enum { BS_CU_UNIQUE_FIRST = 1, BS_CU_UNIQUE_INVERSE, BS_CU_UNIQUE_COUNTS }; /* results after the elements */

static constexpr bs_cu_describe bs_cu_unique_describe = bs_cu_arange_describe;

/* What lies in the scratch, as unique_plan in ops/unique.c sizes it. */
struct bs_cu_unique {
    uint64_t *keys;   /* [n]: the order of an element, then its place */
    int32_t *begins;  /* [n]: the first key of each different element */
    int32_t n, found;
};

static_assert(BS_CU_SORT_STAGE * sizeof(uint64_t) <= BS_CU_WORKSPACE, "a stage of keys is sorted in the workspace");

__device__ inline void bs_cu_unique_sort(const bs_cu_tile &t, const bs_device_operand *x, const bs_cu_unique &u)
{
    const uint8_t *from = bs_cu_row(t, x, 0);
    for (int32_t i = bs_cu_thread(); i < u.n; i += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES];
        const uint32_t bits = reinterpret_cast<const uint32_t *>(from)[bs_cu_index_of(x, i, index)];
        u.keys[i] = (uint64_t)bs_order_key((bs_dtype)x->dtype, bits) << 32 | (uint32_t)i;
    }
    __syncthreads();
    bs_cu_sort_keys(u.keys, (uint32_t)u.n, reinterpret_cast<uint64_t *>(t.workspace));
}

/* Writes which of the different elements stands where, and finds where each begins among the keys. */
__device__ inline void bs_cu_unique_number(const bs_cu_tile &t, const bs_device_operand *inverse, bs_cu_unique *u)
{
    int32_t *to = reinterpret_cast<int32_t *>(bs_cu_row(t, inverse, 0));
    u->found = 0;
    for (int64_t first = 0; first < u->n; first += bs_cu_threads()) {
        int32_t index[BS_MAX_AXES], all;
        const int64_t i = first + bs_cu_thread();
        const bool is = i < u->n && (i == 0 || u->keys[i] >> 32 != u->keys[i - 1] >> 32);
        const int32_t row = u->found + bs_cu_rank(is, reinterpret_cast<int32_t *>(t.workspace), &all) - !is;
        if (is)
            u->begins[row] = (int32_t)i;
        if (i < u->n)
            to[bs_cu_index_of(inverse, (int32_t)u->keys[i], index)] = row;
        u->found += all;
        __syncthreads(); /* before the next round takes the workspace, and before others read where elements begin */
    }
}

__device__ inline void bs_cu_unique_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *x = bs_cu_in(t, s, 0), *out = bs_cu_out(t, s, 0);
    bs_cu_unique u;
    u.n = (int32_t)bs_cu_product(x->dim, x->rank);
    u.keys = reinterpret_cast<uint64_t *>(t.program->kernel_scratch);
    u.begins = reinterpret_cast<int32_t *>(u.keys + u.n);
    bs_cu_zero_margin_of(t, w, &out[BS_CU_UNIQUE_INVERSE], 0);
    bs_cu_unique_sort(t, x, u);
    bs_cu_unique_number(t, &out[BS_CU_UNIQUE_INVERSE], &u);
    const uint8_t *from = bs_cu_row(t, x, 0);
    uint8_t *values = bs_cu_row(t, out, 0);
    int32_t *places = reinterpret_cast<int32_t *>(bs_cu_row(t, &out[BS_CU_UNIQUE_FIRST], 0)),
            *counts = reinterpret_cast<int32_t *>(bs_cu_row(t, &out[BS_CU_UNIQUE_COUNTS], 0));
    for (int32_t row = bs_cu_thread(); row < min(u.found, out->dim[0]); row += bs_cu_threads()) {
        const int32_t begin = u.begins[row], end = row + 1 < u.found ? u.begins[row + 1] : u.n,
                      place = (int32_t)u.keys[begin];
        int32_t index[BS_MAX_AXES];
        bs_cu_element_move(values, out->dtype, (int64_t)row * out->stride[0], from, x->dtype,
                           bs_cu_index_of(x, place, index));
        places[(int64_t)row * out[BS_CU_UNIQUE_FIRST].stride[0]] = place;
        counts[(int64_t)row * out[BS_CU_UNIQUE_COUNTS].stride[0]] = end - begin;
    }
    if (bs_cu_thread() == 0)
        bs_cu_made(t, s, u.found);
}

#endif
/* ==== end src/cuda/op_unique.cuh ============================================================== */

/* The device's column of the op table: how the step of an op is made. A missing function does not compile. */
static const bs_cu_description bs_cu_ops[] = {
#define BS_CU_OP_NONE(name) {BS_CU_none, NULL},
#define BS_CU_OP_KERNEL(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_CHAIN(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_LINES(name) BS_CU_DESCRIPTION(name),
#define BS_CU_OP_COLUMN(name, device) BS_CU_OP_##device(name)
    BS_OP_LIST(BS_CU_OP_COLUMN)
#undef BS_CU_OP_COLUMN
#undef BS_CU_OP_LINES
#undef BS_CU_OP_CHAIN
#undef BS_CU_OP_KERNEL
#undef BS_CU_OP_NONE
};

#endif
/* ==== end src/cuda/ops.cuh ==================================================================== */

/* ==== begin src/cuda/step_operand.cuh ========================================================= */
/* step_operand.cuh - where the operands of an instruction are on the device, for the largest extents: kernels are
 * chosen for those, and each run puts its own extents and buffers in place (extents.cuh).
 * plan/locate.h says where; here that becomes addresses, and where the decisions are that a row's place depends on.
 * Relies on plan/device.h. Must never touch what the addresses point to. */
#ifndef BS_CUDA_STEP_OPERAND
#define BS_CUDA_STEP_OPERAND

/* ==== begin src/cuda/extents.cuh ============================================================== */
/* extents.cuh - what a run puts into the tables: dimensions and buffers of operands, rows of domains.
 * Relies on plan/device.h. Must never change what a step does: steps are those of all runs. */
#ifndef BS_CUDA_EXTENTS
#define BS_CUDA_EXTENTS

/* #include "cuda/portable.cuh" */

__host__ __device__ static inline int32_t bs_cu_cells(int32_t extent, int32_t size)
{
    return (int32_t)bs_ceil_div(extent, size);
}

/* Strides of a row are those of the buffer's later dimensions; a row of the first, or of a ring (the first two), or the
 * place of a trip begins where its step says. */
__host__ __device__ static inline void bs_cu_bind_operand(const bs_device_bound *b, bs_device_operand *o)
{
    o->base = b->address;
    for (int32_t i = 0; i < o->rank && i + o->skip < BS_MAX_RANK; i++)
        o->stride[i] = b->stride[i + o->skip];
    if (o->place != BS_AT_ROOT)
        o->row_bytes = (int64_t)b->stride[0] * b->bytes;
    if (o->place == BS_AT_RING)
        o->max_w = b->stride[1];
    if (o->trip)
        o->trip_bytes = (int64_t)b->stride[o->skip - 1] * b->bytes;
}

/* dims: [dimensions] of the run, bound: [entries]. */
__host__ __device__ static inline void bs_cu_extend_operand(const int32_t *dims, const bs_device_bound *bound,
                                                            bs_device_operand *o)
{
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        if (o->from[i] >= 0)
            o->dim[i] = dims[o->from[i]];
    if (o->cell > 0)
        o->across = bs_cu_cells(dims[o->width], o->size);
    if (o->bound > 0)
        bs_cu_bind_operand(&bound[o->bound], o);
}

/* Rows of a domain; its count, where that is not of a run, is read then alone. */
__host__ __device__ static inline int32_t bs_cu_domain_count(const int32_t *dims, const bs_device_domain *d)
{
    if (d->rows < 0)
        return d->count;
    return d->size > 0 ? bs_cu_cells(dims[d->rows], d->size) * bs_cu_cells(dims[d->across], d->size) : dims[d->rows];
}

__host__ __device__ static inline void bs_cu_extend_domain(const int32_t *dims, bs_device_domain *d)
{
    if (d->rows >= 0)
        d->count = bs_cu_domain_count(dims, d);
    if (d->segments >= 0)
        d->lengths = dims[d->segments];
}

#endif
/* ==== end src/cuda/extents.cuh ================================================================ */

/* Where the buffer that is bound to a node lies on the device. */
struct bs_cu_bound {
    uint64_t address; /* 0: nothing is bound */
    int64_t stride[BS_MAX_RANK];
    bool staged; /* a dense copy of the caller's buffer */
    int32_t entry; /* of the table of what is bound, 0: none */
};

/* The tables of a run while they are written, and what they are written from. */
struct bs_cu_tables {
    const bs_device_client *client;
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_device_layout *layout;
    const bs_cu_bound *bound;  /* [nodes] */
    uint64_t memory;           /* the session's on the device */
    uint64_t weights;          /* prepared, resident */
    const bs_device_domain *domains;
    const bs_device_decision *decisions;
    bs_device_step *steps;
    bs_device_operand *operands;
    uint32_t *given;
    int32_t n_steps, n_operands, n_given;
    int32_t blocks; /* that keep the device busy; 1 for the steps of a tile */
    bool cublas;   /* large linears go to it */
    bool overflow; /* a stride, an extent or a number of blocks beyond 31 bits, or a table that is full */
    int32_t too_many; /* the node of a step that writes more elements of a row than 31 bits count; 0: none */
};

static int32_t bs_cu_narrow(bs_cu_tables *l, int64_t n)
{
    l->overflow = l->overflow || n > INT32_MAX || n < INT32_MIN;
    return (int32_t)n;
}

/* What is an image on the device: here alone it is decided. */
static bool bs_cu_is_image(const bs_cu_tables *l, int32_t value)
{
    return l->graph->values[value].image && !l->plan->values[value].planar;
}

/* Extents of a row, wherever it is: the largest, and what they are taken from. */
static void bs_cu_extent(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    int64_t h, w;
    memset(o, 0, sizeof *o);
    o->dtype = (uint8_t)v->dtype;
    o->rank = (uint8_t)v->rank;
    o->image = bs_cu_is_image(l, value);
    o->domain = o->stored = v->domain;
    for (int32_t i = 0; i < BS_MAX_AXES; i++) {
        o->from[i] = i < v->rank ? v->dims[i] : -1;
        o->dim[i] = i < v->rank ? (int32_t)bs_dim_max(l->graph, v->dims[i]) : 0;
    }
    if (!o->image)
        return;
    bs_plan_core(l->plan, v, &h, &w);
    o->max_h = bs_cu_narrow(l, h);
    o->max_w = bs_cu_narrow(l, w);
    o->margin = l->plan->values[value].margin;
    const int32_t patches = l->graph->domains[v->domain].patches;
    if (patches < 0)
        return;
    o->width = l->graph->domains[patches].width;
    o->size = l->plan->domains[patches].size;
    o->cell = (int32_t)bs_ceil_div((int64_t)o->size * v->scale_num, v->scale_den);
    o->across = bs_cu_cells((int32_t)bs_dim_max(l->graph, o->width), o->size);
}

static void bs_cu_at_bound(bs_cu_tables *l, int32_t node, bs_device_operand *o)
{
    const bs_cu_bound *b = &l->bound[node];
    o->place = BS_AT_ROOT;
    o->bound = b->entry;
    o->base = b->address;
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = bs_cu_narrow(l, b->stride[i]);
    if (bs_client_bound(l->client, node)->cache_lengths) { /* the copy that was checked */
        o->bound = 0;
        o->base = l->memory + l->layout->tables + l->layout->segments_at + bs_device_cache_lengths_place(l->plan, node);
        o->stride[0] = 1;
    }
}

/* What the plan stores, or prepared weights. */
static void bs_cu_at_own(bs_cu_tables *l, int32_t value, const bs_locator *at, bs_device_operand *o)
{
    int64_t stride[BS_MAX_AXES];
    bs_strides_stored(l->plan, value, stride);
    o->dtype = (uint8_t)bs_plan_stored(l->plan, value);
    o->place = at->place;
    o->stored = at->domain;
    o->row_bytes = (int64_t)bs_bytes_figure(at->row_bytes);
    o->base = bs_bytes_figure(at->base) +
              (at->in_tile ? 0 : at->memory == BS_OF_WEIGHTS ? l->weights : l->memory + l->layout->transient);
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = bs_cu_narrow(l, stride[i]);
}

static void bs_cu_operand(bs_cu_tables *l, int32_t value, bs_device_operand *o);

/* Rows that are found in a root value by their place in it, as cells or as lines. o has their extents. */
static void bs_cu_in_root(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_device_operand root;
    bs_cu_operand(l, value, &root); /* which is no view */
    const int32_t first = o->rank != root.rank;
    o->dtype = root.dtype;
    o->bound = root.bound;
    o->skip = (uint8_t)first;
    o->base = root.base;
    o->place = first ? BS_AT_LINE : BS_AT_CELL;
    o->row_bytes = (int64_t)root.stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)root.dtype);
    for (int32_t i = 0; i < o->rank && i + first < BS_MAX_RANK; i++)
        o->stride[i] = root.stride[i + first];
}

/* Finds a value from view to view; o has the extents that it is seen with. */
static void bs_cu_find(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_locator at;
    bs_locate(l->plan, value, &at);
    while (at.place == BS_AT_ABOVE) {
        value = at.source;
        bs_locate(l->plan, value, &at);
    }
    if (at.place == BS_AT_CELL || at.place == BS_AT_LINE)
        bs_cu_in_root(l, at.source, o);
    else if (at.memory == BS_OF_CALLER)
        bs_cu_at_bound(l, at.bound, o);
    else
        bs_cu_at_own(l, value, &at, o);
}

/* A value as its readers and its maker find it. */
static void bs_cu_operand(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_cu_extent(l, value, o);
    bs_cu_find(l, value, o);
}

/* A constant, as it was prepared. */
static void bs_cu_constant(bs_cu_tables *l, int32_t node, bs_device_operand *o)
{
    int64_t stride = 1;
    o->place = BS_AT_ROOT;
    o->base = l->weights + bs_bytes_figure(l->plan->nodes[node].prepared_offset);
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        o->stride[i] = bs_cu_narrow(l, stride);
        stride *= o->dim[i];
    }
}

/* The place that a trip of a loop has in a row: o has its extents, `row` is the row as the loop's body finds it. */
static void bs_cu_trip_of(const bs_cu_tables *l, int32_t loop, const bs_device_operand *row, bs_device_operand *o)
{
    o->dtype = row->dtype;
    o->bound = row->bound;
    o->skip = (uint8_t)(row->skip + 1);
    o->base = row->base;
    o->place = row->place;
    o->row_bytes = row->row_bytes;
    o->stored = row->stored;
    o->trip = (uint32_t)(l->decisions[loop].trip / 4);
    o->trip_in_tile = l->decisions[loop].in_tile;
    o->trip_bytes = (int64_t)row->stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)row->dtype);
    for (int32_t i = 0; i < o->rank && i + 1 < BS_MAX_AXES; i++)
        o->stride[i] = row->stride[i + 1];
}

/* What a load copies from: the value itself has rows of its own. */
static void bs_cu_source(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const int32_t node = l->graph->values[value].node;
    const bs_node *n = &l->graph->nodes[node];
    bs_cu_extent(l, value, o);
    if (bs_view_slices(l->graph, n)) {
        bs_device_operand row;
        bs_cu_operand(l, bs_view_of(l->graph, n), &row);
        bs_cu_trip_of(l, n->router, &row, o);
    } else if (n->n_in > 0 && n->router == 0) {
        bs_cu_in_root(l, bs_view_of(l->graph, n), o);
    } else if (n->n_in > 0) {
        bs_cu_find(l, bs_view_of(l->graph, n), o);
    } else if (bs_op_get(n->op)->bound) {
        bs_cu_at_bound(l, node, o);
    } else {
        bs_cu_constant(l, node, o);
    }
}

/* Where an instruction stores rows, with the extents of `value`: in its target, */
static void bs_cu_to_own(bs_cu_tables *l, const bs_instr *i, int32_t, bs_device_operand *o)
{
    bs_cu_operand(l, i->target, o);
}

/* in the same row of it, or in that which its own came from, */
static void bs_cu_to_row(bs_cu_tables *l, const bs_instr *i, int32_t, bs_device_operand *o)
{
    bs_cu_operand(l, i->target, o);
    o->domain = i->domain;
}

/* in the place that the trip has there, */
static void bs_cu_to_trip(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    bs_device_operand row;
    bs_cu_operand(l, i->target, &row);
    bs_cu_extent(l, value, o);
    bs_cu_trip_of(l, l->graph->nodes[i->node].router, &row, o);
    o->margin = 0; /* that of the value is around its own rows; zeros around all trips are there before the first */
    o->domain = i->domain;
}

/* in the row's place in a root tensor, */
static void bs_cu_to_cell(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    bs_cu_extent(l, value, o);
    bs_cu_in_root(l, i->target, o);
    o->margin = l->plan->values[i->target].margin;
    o->domain = i->domain;
}

/* in what is bound to an output or a state (base 0: nothing is), */
static void bs_cu_to_bound(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    bs_cu_extent(l, value, o);
    o->margin = 0;
    bs_cu_at_bound(l, state < 0 ? i->node : l->graph->values[bs_node_in(l->graph, node)[state]].node, o);
}

/* or in a cache. Beside the strides of a cell, which has two dimensions at most: row_bytes from segment to segment,
 * max_w elements from position to position, and the positions as the last dimension. */
static void bs_cu_to_ring(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = l->graph->values[bs_node_in(l->graph, node)[bs_node_operand(node, BS_ROLE_STATE)]].node;
    const bs_value_info *v = &l->graph->values[l->graph->nodes[state].first_out];
    const bs_cu_bound *b = &l->bound[state];
    bs_cu_extent(l, value, o);
    o->place = BS_AT_RING;
    o->base = b->address;
    o->bound = b->entry;
    o->skip = 2;
    o->from[BS_MAX_RANK - 1] = v->dims[1];
    o->margin = 0;
}

/* ------------------------------------------------------------------------------------------------- decisions */

/* Which words of the decisions tell where a row of the operand lies: it has all else by now. */
static void bs_cu_link_operand(const bs_cu_tables *l, bs_device_operand *o)
{
    const bool outermost = o->place == BS_AT_LINE || o->place == BS_AT_CELL;
    int32_t domain = o->domain;
    for (; l->domains[domain].kind == BS_DOMAIN_PATH; domain = l->domains[domain].parent) {
        const bs_device_link *link = &l->domains[domain].link;
        if (o->depth < BS_DEVICE_LINKS)
            o->link[o->depth] = *link;
        if (domain == o->stored && o->place == BS_AT_ROWS) {
            o->levels = o->depth;
            o->first = link->in_tile ? 0 : link->offset;
        } else if (domain == o->stored) {
            o->levels = o->depth;
        }
        o->depth++;
    }
    o->top = domain;
    o->stored = outermost ? domain : o->stored;
    o->levels = o->stored == domain ? o->depth : o->levels;
}

#endif
/* ==== end src/cuda/step_operand.cuh =========================================================== */
/* ==== begin src/cuda/step.cuh ================================================================= */
/* step.cuh - from the plan's instructions to steps, and from steps to launches.
 *
 * Instructions of one time are independent of each other (bs_plan_side_by_side): those with the same kernel become one
 * launch, however many branches there are. A region is one launch too.
 * Relies on step_operand.cuh and the describe functions of the op files. Must never touch the device. */
#ifndef BS_CUDA_STEP
#define BS_CUDA_STEP

/* #include "cuda/step_operand.cuh" */
/* #include "cuda/ops.cuh" */

struct bs_cu_launches {
    bs_device_launch *list;
    int32_t count, room, instr;
    bool fixed; /* a library is told the extents and buffers of the run */
};

/* -------------------------------------------------------------------------------------------------- steps */

static bs_device_operand *bs_cu_add_operand(bs_cu_tables *l)
{
    bs_device_operand *o = &l->operands[l->n_operands < l->layout->n_operands ? l->n_operands : 0];
    l->overflow = l->overflow || l->n_operands >= l->layout->n_operands;
    l->n_operands++;
    memset(o, 0, sizeof *o);
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        o->from[i] = -1;
    return o;
}

static void bs_cu_add_in(bs_cu_tables *l, bs_device_step *s, int32_t value)
{
    bs_device_operand *o = bs_cu_add_operand(l);
    if (value)
        bs_cu_operand(l, value, o);
    s->n_in++;
}

/* Copies the descriptor's fields, which follow its name and have four bytes each. */
static void bs_cu_copy_fields(const bs_node *node, bs_device_step *s)
{
    const bs_op *op = bs_op_get(node->op);
    for (int32_t i = 0; node->params && i < op->n_fields && i < BS_DEVICE_PARAMS; i++)
        memcpy(&s->p[i], static_cast<const char *>(node->params) + sizeof(char *) + 4 * i, 4);
}

static void bs_cu_step_call(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, i->node, &n_in);
    const bool around = bs_op_get(node->op)->rows.of == BS_ROWS_AROUND;
    for (int32_t k = 0; k < n_in; k++) {
        const bs_node *carry = &l->graph->nodes[l->graph->values[in[k]].node];
        bs_cu_add_in(l, s, around && k == 0 ? bs_view_of(l->graph, carry) : in[k]);
    }
    bs_cu_copy_fields(node, s);
    for (int32_t k = 0; k < node->n_out; k++, s->n_out++)
        bs_cu_operand(l, node->first_out + k, bs_cu_add_operand(l));
}

/* Writes the bits that say which paths of a gather give a value; returns their first word. */
static int32_t bs_cu_add_given(bs_cu_tables *l, const bs_instr *i)
{
    const bs_node *gather = &l->graph->nodes[i->node];
    /* bs_device_given_words counted them too: there is room */
    const int32_t *in = bs_node_in(l->graph, gather), words = bs_device_given_words(l->plan, i), at = l->n_given;
    memset(l->given + at, 0, (size_t)words * sizeof *l->given);
    for (int32_t p = 0; p < l->graph->routers[gather->router].desc->paths; p++)
        if (in[p] != 0 && bs_plan_reads(l->plan, gather, p))
            l->given[at + (p >> 5)] |= 1u << (p & 31);
    l->n_given += words;
    return at;
}

/* Where an instruction stores rows, with the extents of value `of`. */
typedef void (*bs_cu_place)(bs_cu_tables *l, const bs_instr *i, int32_t of, bs_device_operand *o);

/* Stores rows, or zeros: to rows of the parent, the places of a trip in them, cells of a root tensor, or what is bound.
 */
static void bs_cu_step_store(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    if (i->value)
        bs_cu_add_in(l, s, i->value);
    to(l, i, i->value ? i->value : i->target, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_append(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    bs_cu_add_in(l, s, i->value);
    bs_cu_add_in(l, s, bs_node_in(l->graph, node)[bs_node_operand(node, BS_ROLE_CACHE_LENGTH)]);
    to(l, i, i->value, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_residual(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    if (i->value)
        bs_cu_add_in(l, s, i->value);
    to(l, i, l->graph->nodes[i->node].first_out, bs_cu_add_operand(l));
    s->n_out = 1;
    s->p[BS_CU_FILL_GIVEN].i = bs_cu_add_given(l, i);
}

static void bs_cu_step_beyond(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_paths(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t paths = l->graph->routers[node->router].desc->paths, *in = bs_node_in(l->graph, node);
    bs_cu_add_in(l, s, i->value);
    for (int32_t p = 0; p < paths; p++)
        bs_cu_add_in(l, s, bs_plan_reads(l->plan, node, p) ? in[p] : 0);
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_out = 1;
    s->p[BS_CU_GATHER_GIVEN].i = bs_cu_add_given(l, i);
}

static void bs_cu_step_load(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    bs_cu_source(l, i->value, bs_cu_add_operand(l));
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_in = s->n_out = 1;
}

/* A move: what adds its operands, where it stores, and how its step is described. By its row map; residuals have their
 * own kernel. */
struct bs_cu_move {
    void (*operands)(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s);
    bs_cu_place to;
    bs_cu_description description;
};

#define BS_CU_MOVE(name, text) name,

static bs_cu_move bs_cu_move_of(const bs_instr *i)
{
    const bs_cu_move NONE = {NULL, NULL, BS_CU_DESCRIPTION(store)},
                     VIEW = {bs_cu_step_load, bs_cu_to_own, BS_CU_DESCRIPTION(store)},
                     ROW = {bs_cu_step_store, bs_cu_to_row, BS_CU_DESCRIPTION(store)}, PARENT = ROW,
                     CELL = {bs_cu_step_store, bs_cu_to_cell, BS_CU_DESCRIPTION(store)},
                     BOUND = {bs_cu_step_store, bs_cu_to_bound, BS_CU_DESCRIPTION(store)},
                     APPEND = {bs_cu_step_append, bs_cu_to_ring, BS_CU_DESCRIPTION(append)},
                     PATHS = {bs_cu_step_paths, bs_cu_to_own, BS_CU_DESCRIPTION(paths)},
                     BEYOND = {bs_cu_step_beyond, bs_cu_to_own, BS_CU_DESCRIPTION(beyond)},
                     TRIP = {bs_cu_step_store, bs_cu_to_trip, BS_CU_DESCRIPTION(store)};
    const bs_cu_move moves[] = {NONE, BS_ROW_MAP_LIST(BS_CU_MOVE)};
    const bs_cu_move fill = {bs_cu_step_residual, moves[i->map].to, BS_CU_DESCRIPTION(fill)};
    return i->combine == BS_COMBINE_RESIDUAL ? fill : moves[i->map];
}

static void bs_cu_step_route(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const bs_router_info *r = &l->graph->routers[node->router];
    if (l->plan->routers[s->router].forced)
        return;
    if (bs_router_loops(l->graph, node->router)) { /* a predicate, a count */
        if (r->loop.again == i->node && bs_node_in(l->graph, node)[0])
            bs_cu_add_in(l, s, bs_node_in(l->graph, node)[0]);
        if (r->loop.count)
            bs_cu_add_in(l, s, r->loop.count);
        return;
    }
    bs_cu_add_in(l, s, r->score);
    if (r->knob)
        bs_cu_add_in(l, s, r->knob);
}

/* Whether kernels can count the elements that a step writes of a row: they number them with 31 bits. */
static bool bs_cu_countable(const bs_device_operand *o)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < o->rank && elements <= INT32_MAX; i++) {
        const bool side = o->image && i > 0;
        elements *= (side && o->cell > 0 ? o->cell : o->dim[i]) + (side ? 2 * (int64_t)o->margin : 0);
    }
    return elements <= INT32_MAX;
}

/* Rows that a domain can have. */
static int64_t bs_cu_most_rows(const bs_plan *p, int32_t domain)
{
    int64_t per_row = 1;
    for (; p->graph->domains[domain].kind == BS_DOMAIN_PATH; domain = p->graph->domains[domain].parent)
        per_row *= p->graph->routers[p->graph->domains[domain].router].max_paths_per_cell;
    return per_row * p->domains[domain].max_rows;
}

/* What describe functions are given about the node of a step that has its operands. */
static bs_cu_node bs_cu_node_of(const bs_device_client *c, const bs_device_step *s, const bs_device_operand *all,
                                const bs_instr *i, int32_t blocks, bool near, bool cublas)
{
    const bs_node *node = &c->graph->nodes[s->node];
    const bs_device_operand *in = all + s->operands;
    const bs_cu_node n = {c->graph, c->plan,   node, &c->plan->nodes[s->node],         node->params,
                          in,       in + s->n_in, i, bs_cu_most_rows(c->plan, s->domain), blocks, near, cublas};
    return n;
}

/* An op with a tail: the kernel that runs chains, with the op itself as the first one; of lines, theirs. */
static void bs_cu_step_chain(bs_cu_tables *l, const bs_cu_node *n, bs_device_step *s)
{
    const bs_graph *g = l->graph;
    if (n->node->n_tail == 0)
        return;
    const bool two = bs_node_own_in(g, n->node) > 1;
    const int32_t how = two ? bs_cu_how_beside(bs_value_get(g, n->node->first_out),
                                               bs_value_get(g, bs_node_in(g, n->node)[0]))
                            : 0;
    bs_cu_chain_op(g, n->node, s->kernel, 0, two ? 1 : -1, &s->tail[s->n_tail++]);
    for (int32_t i = 0; i < n->node->n_tail; i++) {
        const bs_tail *tail = &g->tails[n->node->tail + i];
        bs_cu_chain_op(g, &tail->node, bs_cu_ops[tail->node.op].kernel, tail->at, tail->other, &s->tail[s->n_tail++]);
    }
    const bool elements = bs_op_get(n->node->op)->memory.chained;
    s->kernel = elements ? BS_CU_chain : BS_CU_line_chain;
    if (elements)
        s->p[BS_CU_CHAIN_HOW].i = how;
    s->rounded = l->plan->desc.half;
}

/* Writes the step of an instruction. */
static void bs_cu_step(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    memset(s, 0, sizeof *s);
    s->node = i->node;
    s->domain = i->domain;
    s->router = node->router;
    s->operands = l->n_operands;
    s->batch = 1;
    s->unit = l->plan->nodes[i->node].unit;
    s->prepared = bs_bytes_figure(l->plan->nodes[i->node].prepared_offset);
    s->makes = i->kind == BS_INSTR_CALL ? node->makes : 0;
    s->empty = i->kind != BS_INSTR_CALL || bs_op_get(node->op)->layout.empty;
    switch (static_cast<bs_instr_kind>(i->kind)) {
    case BS_INSTR_CALL: bs_cu_step_call(l, i, s); break;
    case BS_INSTR_MOVE: bs_cu_move_of(i).operands(l, i, bs_cu_move_of(i).to, s); break;
    case BS_INSTR_ROUTE: bs_cu_step_route(l, i, s); break;
    case BS_INSTR_RUN: return;
    }
    bs_device_operand *operands = l->operands + s->operands;
    for (int32_t k = 0; k < s->n_in + s->n_out && !l->overflow; k++)
        bs_cu_link_operand(l, &operands[k]);
    for (int32_t k = s->n_in; k < s->n_in + s->n_out && !l->overflow; k++)
        l->too_many = bs_cu_countable(&operands[k]) ? l->too_many : i->node;
    if (l->overflow || l->too_many)
        return; /* nothing is launched, and describe functions could overflow */
    const bs_cu_node n = bs_cu_node_of(l->client, s, l->operands, i, l->blocks, l->layout->scratch_bytes == 0,
                                       l->cublas);
    const bool moves = i->kind == BS_INSTR_MOVE;
    if (!moves || n.out->base != 0 || n.out->place == BS_AT_TILE) { /* else an output that is not bound */
        const bs_cu_description d = moves ? bs_cu_move_of(i).description : bs_cu_ops[node->op];
        s->parts = 1;
        s->kernel = d.kernel;
        d.describe(&n, s);
        if (!moves)
            bs_cu_step_chain(l, &n, s);
    }
    s->rows = l->domains[s->domain].counted;
}

/* ----------------------------------------------------------------------------------------------- launches */

/* Work items of steps that run together, at most: paths of one router share its rows, as often as one of them has
 * several steps. */
static int64_t bs_cu_most_work_items(const bs_cu_tables *l, int32_t first, int32_t count)
{
    const bs_graph *g = l->graph;
    int64_t apart = 0, together = 0, rows = 0;
    int32_t batch = INT32_MAX, parts = 1, router = 0, most = 0;
    uint16_t steps[BS_SIDE_BY_SIDE] = {0}; /* of a path, and of those as many further on */
    bool one = true;
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_step *s = &l->steps[k];
        const bs_domain *d = &g->domains[s->domain];
        apart += bs_ceil_div(bs_cu_most_rows(l->plan, s->domain), s->batch) * s->parts;
        rows = bs_cu_most_rows(l->plan, s->domain);
        batch = bs_min_i32(batch, s->batch);
        parts = bs_max_i32(parts, s->parts);
        one = one && d->kind == BS_DOMAIN_PATH && (k == first || d->router == router);
        router = d->router;
        most = bs_max_i32(most, ++steps[bs_max_i32(d->path, 0) % BS_SIDE_BY_SIDE]);
    }
    /* a batch has a row at least */
    together = bs_min_i64(rows, bs_ceil_div(rows, batch) + (batch == 1 ? 0 : count)) * parts * most;
    return one && together < apart ? together : apart;
}

static void bs_cu_add_launch(bs_cu_tables *l, bs_cu_launches *to, int32_t kernel, int32_t first, int32_t count,
                             int64_t items, int32_t callback = 0, int32_t round = 0)
{
    const bs_device_launch launch = {kernel, first, count, to->instr, callback,
                                     (int32_t)bs_min_i64(items, INT32_MAX), round};
    l->overflow = l->overflow || to->count >= to->room || items > INT32_MAX;
    to->list[to->count < to->room ? to->count : 0] = launch;
    to->count++;
}

/* Launches `count` steps of one kernel, then what follows it. One that sees all rows is launched even where there can
 * be none, to write that there are none; a decision may have a callback, which is called before it. */
static void bs_cu_launch_kernels(bs_cu_tables *l, bs_cu_launches *to, int32_t first, int32_t count)
{
    const bs_device_step *s = &l->steps[first];
    const bool all = bs_cu_sees_all_rows(s->kernel), asks = all && s->router && bs_cu_asks_caller(l->plan, s->router);
    const int64_t items = bs_max_i64(bs_cu_most_work_items(l, first, count), all);
    to->fixed = to->fixed || !bs_cu_is_kernel(s->kernel);
    bs_cu_add_launch(l, to, s->kernel, first, count, items, asks ? s->router : 0, s->round);
    if (s->then)
        bs_cu_add_launch(l, to, s->then, first, count, items);
}

/* Launches the steps [first, end), which are of one time: those of one kernel together. */
static void bs_cu_launch_steps(bs_cu_tables *l, bs_cu_launches *to, int32_t first, int32_t end)
{
    for (int32_t k = first + 1; k < end; k++) { /* by kernel, stable */
        const bs_device_step s = l->steps[k];
        int32_t at = k;
        for (; at > first && l->steps[at - 1].kernel > s.kernel; at--)
            l->steps[at] = l->steps[at - 1];
        l->steps[at] = s;
    }
    for (int32_t k = first; k < end;) {
        const int32_t kernel = l->steps[k].kernel;
        int32_t count = 1;
        while (!bs_cu_sees_all_rows(kernel) && k + count < end && l->steps[k + count].kernel == kernel)
            count++;
        if (l->steps[k].parts > 0)
            bs_cu_launch_kernels(l, to, k, count);
        k += count;
    }
    for (int32_t k = first; k < end; k++)
        if (l->steps[k].makes) {
            bs_cu_add_launch(l, to, BS_CU_extend, first, end - first, 1);
            return;
        }
}

/* The parts of a region, in the plan's order: the most expensive first. */
static void bs_cu_launch_region(bs_cu_tables *l, bs_cu_launches *to, const bs_region *region, bs_device_part *parts)
{
    const bs_plan *p = l->plan;
    const int32_t blocks = l->blocks;
    int64_t tiles = 0;
    l->blocks = 1;
    for (int32_t k = region->first; k < region->first + region->count; k++) {
        const bs_part *part = &p->parts[p->region_parts[k]];
        bs_device_part *d = &parts[k];
        d->domain = part->domain;
        d->rows = l->domains[part->domain].counted;
        d->tile_rows = p->domains[part->domain].tile_rows;
        d->first = l->n_steps;
        d->count = part->count;
        for (int32_t i = 0; i < part->count; i++)
            bs_cu_step(l, &p->instrs[part->first + i], &l->steps[l->n_steps++]);
        const int64_t most = bs_ceil_div(bs_cu_most_rows(l->plan, part->domain), d->tile_rows);
        tiles = part->router ? (d->tile_rows == 1 && tiles > most ? tiles : most + (k - region->first) + 1) : most;
    }
    l->blocks = blocks;
    bs_cu_add_launch(l, to, BS_CU_region, region->first, region->count, tiles);
}

/* Whether a step makes an extent, or has scratch, which others share. */
static bool bs_cu_stands_alone(const bs_cu_tables *l, const bs_device_step *s)
{
    return s->makes || bs_bytes_figure(l->plan->nodes[s->node].scratch_bytes) > 0;
}

/* Tells both decisions of each loop where the other one is: how many launches lie between them is known now. */
static void bs_cu_write_loops(const bs_cu_tables *l, bs_cu_launches *launches)
{
    bs_device_launch *list = launches->list;
    for (int32_t k = 0; k < launches->count; k++) {
        const int32_t router = l->steps[list[k].first].router;
        int32_t at = k;
        if (list[k].round >= 0)
            continue;
        while (list[at].round <= 0 || l->steps[list[at].first].router != router)
            at--; /* the planner puts one before the other */
        list[at].round = k - at;
        list[k].round = at - k;
    }
}

/* All tables of a run. */
static bs_status bs_cu_write_tables(bs_cu_tables *l, bs_cu_launches *to, bs_device_part *parts, bs_error *error)
{
    const bs_plan *p = l->plan;
    to->count = 0;
    to->fixed = false;
    for (int32_t at = 0; at < p->n_top;) {
        to->instr = at;
        if (p->instrs[at].kind == BS_INSTR_RUN) {
            bs_cu_launch_region(l, to, &p->regions[p->instrs[at].region], parts);
            at++;
            continue;
        }
        const int32_t first = l->n_steps, end = bs_plan_side_by_side(p, at);
        for (; at < end && (l->n_steps == first || !bs_cu_stands_alone(l, &l->steps[l->n_steps - 1])); at++)
            bs_cu_step(l, &p->instrs[at], &l->steps[l->n_steps++]);
        bs_cu_launch_steps(l, to, first, l->n_steps);
    }
    if (l->too_many)
        return bs_fail(error, BS_ERROR_LIMIT,
                       "%s \"%s\" can give 2^31 elements or more, a GPU's kernels count to 2^31 - 1",
                       bs_op_get(l->graph->nodes[l->too_many].op)->name, bs_node_name(&l->graph->nodes[l->too_many]));
    if (l->overflow)
        return bs_fail(
            error, BS_ERROR_LIMIT,
            "a buffer can be larger than a GPU's kernels address (2^31 elements), or the plan has too many steps");
    bs_cu_write_loops(l, to);
    return BS_OK;
}

#endif
/* ==== end src/cuda/step.cuh =================================================================== */
/* ==== begin src/cuda/launch.cuh =============================================================== */
/* launch.cuh - how steps run: one launch over the rows of all branches, or the steps of a part, tile by tile.
 *
 * A block takes the work item that has its number, and every gridDim-th one after it. How many there are follows from
 * extents and decisions, on the device. Grids are sized for the most there can be and surplus blocks return: a launch
 * is the same whatever was decided and however long the run is. Relies on step.cuh and ops.cuh. Must never let a count
 * on the device decide anything on the host. */
#ifndef BS_CUDA_LAUNCH
#define BS_CUDA_LAUNCH

/* #include "cuda/extents_made.cuh" */
/* #include "cuda/step.cuh" */

/* A step that was found: its number (-1: none), which operands it has, and its router. */
struct bs_cu_found {
    int32_t step, operands, n_in, n_out, router;
};

/* Finds the step, of `count` from `first` on, that work item number `item` belongs to, and its rows. Every warp does so
 * by itself: a lane reads a step, and what it has read is passed on. */
__device__ inline bs_cu_found bs_cu_find_step(const bs_cu_tile &t, int32_t first, int32_t count, int32_t item,
                                              bs_cu_work *w)
{
    const int32_t lane = bs_cu_thread_here() % 32;
    int32_t base = 0;
    do {
        const int32_t left = count - base; /* further lanes read the last step again; they are not asked */
        const bs_device_step *s = t.program->steps + first + base + min(lane, left - 1);
        const int32_t rows = bs_cu_count(t, s), batch = s->batch, parts = s->parts, operands = s->operands,
                      n_in = s->n_in, n_out = s->n_out, router = s->router;
        const uint32_t items = (uint32_t)((rows + batch - 1) / batch * parts);
        uint32_t until = items;
        for (int32_t d = 1; d < 32; d *= 2) {
            const uint32_t before = __shfl_up_sync(0xffffffffu, until, (unsigned)d);
            until += lane >= d ? before : 0;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, until > (uint32_t)item) &
                                (left < 32 ? (1u << left) - 1 : 0xffffffffu);
        if (beyond) {
            const int32_t k = __ffs((int)beyond) - 1, size = __shfl_sync(0xffffffffu, batch, k);
            item -= (int32_t)__shfl_sync(0xffffffffu, until - items, k);
            w->parts = __shfl_sync(0xffffffffu, parts, k);
            const int32_t number = w->parts == 1 ? item : item / w->parts;
            w->row = number * size;
            w->end = min(w->row + size, __shfl_sync(0xffffffffu, rows, k));
            w->part = item - number * w->parts;
            const bs_cu_found found = {first + base + k, __shfl_sync(0xffffffffu, operands, k),
                                       __shfl_sync(0xffffffffu, n_in, k), __shfl_sync(0xffffffffu, n_out, k),
                                       __shfl_sync(0xffffffffu, router, k)};
            return found;
        }
        item -= (int32_t)__shfl_sync(0xffffffffu, until, 31);
        base += 32;
    } while (base < count);
    const bs_cu_found none = {-1, 0, 0, 0, 0};
    return none;
}

/* Fills the record with a step and what belongs to it: every thread copies a word, all at the same time. The caller
 * synchronises. */
__device__ inline void bs_cu_take_record(const bs_cu_program &program, const bs_cu_found &f, bs_cu_record *record)
{
    const int32_t outs = BS_CU_RECORD_OUT, all = outs + BS_CU_RECORD_IN;
    for (int32_t i = bs_cu_thread_here(); i < (all + 2) * BS_CU_RECORD_WORDS; i += bs_cu_threads()) {
        const int32_t slot = i / BS_CU_RECORD_WORDS, word = i % BS_CU_RECORD_WORDS, in = slot - outs;
        const void *from = program.operands + f.operands + (in < 0 ? f.n_in + slot : in);
        void *to = record->out + slot;
        int32_t bytes = (in < 0 ? slot < f.n_out : in < f.n_in) ? (int32_t)sizeof(bs_device_operand) : 0;
        if (slot == all) {
            from = program.steps + f.step;
            to = &record->step;
            bytes = (int32_t)sizeof(bs_device_step);
        } else if (slot > all) {
            from = program.decision + f.router;
            to = &record->decision;
            bytes = (int32_t)sizeof(bs_device_decision);
        }
        if (word * 16 < bytes)
            static_cast<uint4 *>(to)[word] = static_cast<const uint4 *>(from)[word];
    }
}

/* A step that is known by its number. */
__device__ __forceinline__ bs_cu_found bs_cu_step_number(const bs_cu_program &program, int32_t number)
{
    const bs_device_step *s = program.steps + number;
    const bs_cu_found found = {number, s->operands, s->n_in, s->n_out, s->router};
    return found;
}

/* Where a block's record lies, in its shared memory. */
__device__ __forceinline__ bs_cu_record *bs_cu_record_in(uint8_t *shared)
{
    return reinterpret_cast<bs_cu_record *>(shared + BS_CU_WORKSPACE);
}

__device__ __forceinline__ bs_cu_tile bs_cu_everything(const bs_cu_program *p, uint8_t *workspace,
                                                       const bs_cu_record *record)
{
    bs_cu_tile t;
    t.program = p;
    t.record = record;
    t.context = t.scratch = NULL;
    t.workspace = workspace;
    t.domain = -1;
    t.first = t.rows = 0;
    return t;
}

/* Runs the kernel that the template names. KERNEL is a constant, so no switch is left in the code. */
template <int KERNEL>
__device__ __forceinline__ void bs_cu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    switch (KERNEL) {
#define BS_CU_CASE(name) \
    case BS_CU_##name: bs_cu_##name##_run(t, s, w); break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

/* The steps of all branches, a work item a block; or a step whose blocks see all of its rows. */
template <int KERNEL>
__global__ void __launch_bounds__(256, KERNEL <= BS_CU_LAST_LIGHT || KERNEL > BS_CU_LAST_HEAVY ? 2 : 1)
    bs_cu_group(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count, int32_t items)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    bs_cu_record *record = bs_cu_record_in(shared);
    bs_cu_tile t = bs_cu_everything(&program, shared, record);
    if (bs_cu_sees_all_rows(KERNEL)) {
        const bs_cu_work w = {0, bs_cu_count(t, program.steps + first), (int32_t)blockIdx.x, (int32_t)gridDim.x};
        bs_cu_take_record(program, bs_cu_step_number(program, first), record);
        __syncthreads();
        bs_cu_run<KERNEL>(t, &record->step, w);
        return;
    }
    const bool failed = bs_cu_has_failed(program); /* read together with what finds the step: neither waits */
    int32_t taken = -1;
    for (int32_t item = (int32_t)blockIdx.x; item < items; item += (int32_t)gridDim.x) {
        bs_cu_work w;
        const bs_cu_found found = bs_cu_find_step(t, first, count, item, &w);
        if (found.step < 0 || found.step != taken) {
            if (found.step >= 0)
                bs_cu_take_record(program, found, record);
            if (__syncthreads_or(failed || found.step < 0))
                return; /* before anything is read that a decision says the place of */
            taken = found.step;
        }
        if (bs_cu_wants_kernel(t, &record->step))
            bs_cu_run<KERNEL>(t, &record->step, w);
        __syncthreads(); /* before the next item takes the workspace */
    }
}

/* ------------------------------------------------------------------------------------------------- regions */

/* All threads of a block on rows of a tile: rows `first` .. `first + rows - 1` of `domain`. */
__device__ __forceinline__ bs_cu_tile bs_cu_tile_of(const bs_cu_program *p, uint8_t *shared, uint8_t *context,
                                                    uint8_t *scratch, int32_t domain, int32_t first, int32_t rows)
{
    bs_cu_tile t = bs_cu_everything(p, shared, bs_cu_record_in(shared));
    t.context = context;
    t.scratch = scratch;
    t.domain = domain;
    t.first = first;
    t.rows = rows;
    return t;
}

/* What makes a tile comes in registers, or lies in shared memory; a tile itself would come in memory. */
template <int KERNEL>
__device__ __noinline__ void bs_cu_call(uint8_t *context, uint8_t *scratch, int32_t domain, int32_t first, int32_t rows,
                                        int32_t row, int32_t end)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    const bs_cu_program *p = &bs_cu_record_in(shared)->program;
    const bs_cu_tile t = bs_cu_tile_of(p, shared, context, scratch, domain, first, rows);
    const bs_cu_work w = {row, end, 0, 1};
    bs_cu_run<KERNEL>(t, &t.record->step, w);
}

__device__ inline void bs_cu_dispatch(const bs_cu_tile &t, int32_t row, int32_t end)
{
    switch (t.record->step.kernel) {
#define BS_CU_CASE(name)                                                                     \
    case BS_CU_##name:                                                                       \
        bs_cu_call<BS_CU_##name>(t.context, t.scratch, t.domain, t.first, t.rows, row, end); \
        break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

/* Runs a step, which is in the record, on the rows of a tile. */
__device__ inline void bs_cu_tile_step(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t rows = bs_cu_count(t, s);
    if (bs_cu_sees_all_rows(s->kernel)) {
        bs_cu_dispatch(t, 0, rows);
        return;
    }
    for (int32_t row = 0; row < rows && bs_cu_wants_kernel(t, s); row += s->batch) {
        if (row > 0)
            __syncthreads(); /* before the next rows take the workspace */
        bs_cu_dispatch(t, row, min(row + s->batch, rows));
    }
}

/* What step k, which is in the record, leaves to the one after it; all threads are done with it then. Returns the step
 * after which the tile goes on: k itself, or the first decision of a loop that has rows after a trip. */
__device__ inline int32_t bs_cu_tile_after(const bs_cu_tile &t, const bs_device_step *s, int32_t k)
{
    const int32_t round = s->round, *counts = round < 0 ? bs_cu_decision_of(t).counts : NULL;
    __syncthreads();
    return counts && counts[0] > 0 ? k + round : k;
}

/* Finds the part that tile number `item` belongs to, and sets the tile's rows; 0: there are not so many tiles. */
__device__ inline bs_device_part bs_cu_find_part(const bs_cu_program &program, int32_t first, int32_t count,
                                                 int32_t item, bs_cu_tile *t)
{
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_part part = bs_cu_read_whole(program.parts + k);
        t->domain = -1;
        const int32_t rows = bs_cu_count(*t, part.domain, part.rows),
                      tiles = (rows + part.tile_rows - 1) / part.tile_rows;
        if (item < tiles) {
            t->domain = part.domain;
            t->first = item * part.tile_rows;
            t->rows = min(part.tile_rows, rows - t->first);
            return part;
        }
        item -= tiles;
    }
    t->rows = 0;
    const bs_device_part none = {{0, 0}, 0, 0, 0, 0};
    return none;
}

__global__ void __launch_bounds__(256, 1)
    bs_cu_region(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    bs_cu_record *record = bs_cu_record_in(shared);
    uint8_t *context = program.contexts + blockIdx.x * program.context_bytes;
    uint8_t *rows = program.scratch_bytes ? program.scratch + blockIdx.x * program.scratch_bytes
                                          : shared + BS_DEVICE_SHARED;
    bs_cu_tile t = bs_cu_tile_of(&program, shared, context, rows, -1, 0, 0);
    if (bs_cu_thread_here() == 0)
        record->program = program;
    for (int32_t item = (int32_t)blockIdx.x;; item += (int32_t)gridDim.x) {
        const bool failed = bs_cu_has_failed(program); /* read together with what finds the part */
        const bs_device_part part = bs_cu_find_part(program, first, count, item, &t);
        if (__syncthreads_or(failed || t.rows == 0))
            return;
        for (int32_t k = 0; k < part.count; k++) {
            bs_cu_take_record(program, bs_cu_step_number(program, part.first + k), record);
            __syncthreads();
            bs_cu_tile_step(t, &record->step);
            k = bs_cu_tile_after(t, &record->step, k);
        }
    }
}

/* Puts the extents and buffers of the run in place, and resets what a run adds to: the status, the counts, and which
 * cells were reached. */
__global__ void bs_cu_begin(BS_CU_ARGUMENT bs_cu_program program, int32_t routers)
{
    const int32_t at = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), step = (int32_t)(gridDim.x * blockDim.x);
    if (at < BS_DEVICE_STATUS)
        program.status[at] = 0;
    for (int32_t i = at; i < program.n_operands; i += step)
        bs_cu_extend_operand(program.dims, program.bound, &program.operands[i]);
    for (int32_t i = at; i < program.n_domains; i += step)
        bs_cu_extend_domain(program.dims, &program.domains[i]);
    for (int32_t i = at; i < program.n_dims; i += step)
        program.extents[i] = program.dims[i];
    for (int32_t r = 1; r < routers; r++) {
        const bs_device_decision &d = program.decision[r];
        if (!d.live)
            continue;
        for (int32_t i = at; i < d.paths; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.sums)[i] = 0;
        for (int32_t i = at; i < 2; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.dropped)[i] = 0;
        for (int32_t i = at; i < d.top_rows; i += step)
            reinterpret_cast<int16_t *>(program.decisions + d.top)[i] = -1;
    }
}

/* Whether a join has a row for each cell. Another thread may be putting the domain's count in place meanwhile. */
__device__ inline bool bs_cu_join_fits(const bs_cu_program &program, const bs_device_join &join)
{
    return program.extents[join.dim] >= bs_cu_domain_count(program.extents, &program.domains[join.domain]);
}

/* Puts what steps first .. first + count - 1 made in place, for the launches after this one. */
__global__ void bs_cu_extend(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count)
{
    const int32_t at = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), step = (int32_t)(gridDim.x * blockDim.x);
    const bs_cu_tile t = bs_cu_everything(&program, NULL, NULL);
    for (int32_t i = at; i < program.n_operands; i += step)
        bs_cu_extend_operand(program.extents, program.bound, &program.operands[i]);
    for (int32_t i = at; i < program.n_domains; i += step)
        bs_cu_extend_domain(program.extents, &program.domains[i]);
    for (int32_t i = at; i < program.n_joins * count; i += step) {
        const bs_device_join &join = program.joins[i / count];
        const bs_device_step *s = program.steps + first + i % count;
        if (s->makes && s->node == join.maker && !bs_cu_join_fits(program, join))
            bs_cu_fail(t, s, BS_ERROR_DATA);
    }
}

/* --------------------------------------------------------------------------------------------- the host's side */

static void bs_cu_launch_kernel(const bs_cu_program &p, const bs_device_launch &l, unsigned blocks, int threads,
                                cudaStream_t stream)
{
    switch (l.kernel) {
#define BS_CU_CASE(name)                                                                                      \
    case BS_CU_##name:                                                                                        \
        BS_LAUNCH((bs_cu_group<BS_CU_##name>), blocks, (unsigned)threads, BS_DEVICE_SHARED, stream, p, l.first, \
                  l.count, l.items);                                                                          \
        break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    }
}

#endif
/* ==== end src/cuda/launch.cuh ================================================================= */

/* ==== begin src/cuda/device.cuh =============================================================== */
/* device.cuh - the GPU: opening it, its properties, its two arenas. Sessions share it; once it is open only the arenas
 * change, when a session is made and takes its bytes. Sessions queue work on streams of their own or of their caller
 * (state.cuh). The only place that allocates. Relies on portable.cuh. Must never decide by a board's name. */
#ifndef BS_CUDA_DEVICE
#define BS_CUDA_DEVICE

/* #include "cuda/portable.cuh" */

#ifndef BS_NO_CUBLAS
#include <cublas_v2.h>
#endif

struct bs_cu_device {
    bs_device base; /* first: what sessions see */
    int index;
    bool own_memory, own_pinned;
    int capability; /* 87: 8.7 */
    int multiprocessors, shared_bytes;
    bool integrated, conditional;
    uint64_t cublas_bytes; /* of a session's workspace; 0: without cuBLAS */
    /* bs_cuda_launches: [room] records of launches, NULL: none are kept; launches of the last run that was recorded */
    bs_cuda_launch *launches;
    int32_t room, recorded;
};

/* BS_OK, or BS_ERROR_PLATFORM with CUDA's message. */
static bs_status bs_cu_check(cudaError_t e, const char *what, bs_error *error)
{
    if (e == cudaSuccess)
        return BS_OK;
    cudaGetLastError(); /* or the next call would report it again */
    return bs_fail(error, BS_ERROR_PLATFORM, "CUDA: %s: %s", what, cudaGetErrorString(e));
}

/* Whether there is a GPU with this number; if not, the error says why. */
static bs_status bs_cu_find_device(int32_t index, bs_error *error)
{
    int count = 0, driver = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess)
        cudaGetLastError(); /* or a launch would report it */
    if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "this machine has no CUDA device");
    if (e != cudaSuccess) {
        cudaDriverGetVersion(&driver);
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "CUDA cannot be used here (%s; driver %d, built with %d)",
                       cudaGetErrorString(e), driver, (int)CUDART_VERSION);
    }
    if (index < 0 || index >= count)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_desc.index: there is no CUDA device %d, expected 0 .. %d",
                       index, count - 1);
    return BS_OK;
}

extern "C" bs_status bs_cuda_facts_get(int32_t index, bs_cuda_facts *facts, bs_error *error)
{
    cudaDeviceProp properties;
    if (!facts)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_facts_get: the facts are NULL");
    memset(facts, 0, sizeof *facts);
    bs_status status = bs_cu_find_device(index, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaGetDeviceProperties(&properties, index), "asking the device", error);
    if (status != BS_OK)
        return status;
    snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
    facts->major = properties.major;
    facts->minor = properties.minor;
    facts->multiprocessors = properties.multiProcessorCount;
    facts->integrated = properties.integrated != 0;
    facts->memory_bytes = properties.totalGlobalMem;
    facts->shared_bytes = (int32_t)properties.sharedMemPerBlockOptin;
    int version = 0;
    if (cudaRuntimeGetVersion(&version) == cudaSuccess)
        facts->runtime = version;
    if (cudaDriverGetVersion(&version) == cudaSuccess)
        facts->driver = version;
    facts->conditional = CUDART_VERSION >= 12040 && facts->runtime >= 12040 && facts->driver >= 12040;
    return BS_OK;
}

static void bs_cu_device_free(bs_cu_device *d)
{
    if (d->own_memory && d->base.memory.base)
        cudaFree(d->base.memory.base); /* waits for the device */
    if (d->own_pinned && d->base.pinned.base)
        cudaFreeHost(d->base.pinned.base);
}

static bs_status bs_cu_device_take(bs_cu_device *d, const bs_cuda_desc *desc, bs_error *error)
{
    void *memory = desc->device_memory, *pinned = desc->pinned_memory;
    bs_status status = BS_OK;
    d->own_memory = !memory && desc->device_bytes > 0;
    d->own_pinned = !pinned && desc->pinned_bytes > 0;
    if (d->own_memory)
        status = bs_cu_check(cudaMalloc(&memory, (size_t)desc->device_bytes), "allocating on the device", error);
    if (status != BS_OK)
        memory = NULL;
    bs_arena_init(&d->base.memory, "device", memory, memory ? (size_t)desc->device_bytes : 0);
    if (status == BS_OK && d->own_pinned)
        status = bs_cu_check(cudaHostAlloc(&pinned, (size_t)desc->pinned_bytes, cudaHostAllocMapped),
                             "allocating pinned memory", error);
    if (status != BS_OK)
        pinned = NULL;
    bs_arena_init(&d->base.pinned, "pinned", pinned, pinned ? (size_t)desc->pinned_bytes : 0);
    d->cublas_bytes = desc->cublas_bytes;
#ifdef BS_NO_CUBLAS
    if (status == BS_OK && desc->cublas_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, /* unreachable: without BS_NO_CUBLAS */
                       "cuBLAS was left out of this build (BS_NO_CUBLAS)");
#endif
    return status;
}

extern const bs_device_api bs_cu_api; /* session.cuh */

extern "C" bs_device *bs_cuda_open(bs_arena *arena, const bs_cuda_desc *desc, bs_error *error)
{
    bs_cuda_desc none;
    memset(&none, 0, sizeof none);
    if (!desc)
        desc = &none;
    if (!arena) {
        bs_fail(error, BS_ERROR_ARGUMENT, "bs_cuda_open: the arena is NULL");
        return NULL;
    }
    bs_cuda_facts facts; /* a GPU that cannot be queried is not opened: it would refuse every plan */
    if (bs_cuda_facts_get(desc->index, &facts, error) != BS_OK ||
        bs_cu_check(cudaSetDevice(desc->index), "choosing the device", error) != BS_OK)
        return NULL;
    const size_t mark = arena->used;
    bs_cu_device *d = static_cast<bs_cu_device *>(bs_arena_take(arena, sizeof *d));
    if (!d) {
        bs_fail_arena(error, arena, bs_bytes_of(sizeof *d), "the device");
        return NULL;
    }
    memset(d, 0, sizeof *d);
    d->base.api = &bs_cu_api;
    d->index = desc->index;
    d->capability = 10 * facts.major + facts.minor;
    d->multiprocessors = facts.multiprocessors;
    d->shared_bytes = facts.shared_bytes;
    d->integrated = facts.integrated;
    d->conditional = facts.conditional;
    if (bs_cu_device_take(d, desc, error) == BS_OK)
        return &d->base;
    bs_cu_device_free(d);
    arena->used = mark;
    return NULL;
}

extern "C" void bs_cuda_close(bs_device *device)
{
    if (device)
        bs_cu_device_free(reinterpret_cast<bs_cu_device *>(device));
}

#endif
/* ==== end src/cuda/device.cuh ================================================================= */
/* ==== begin src/cuda/session.cuh ============================================================== */
/* session.cuh - what the library calls: a run begins, goes through its instructions, ends, and is waited for.
 *
 * A run is launches and copies on one stream. The host waits where it must hand something back: at the end, for a
 * callback, where weights come and go, and before it writes pinned memory that a copy may still read.
 * Relies on graph.cuh and slots.cuh. Must never wait between input and output of a resident model. */
#ifndef BS_CUDA_SESSION
#define BS_CUDA_SESSION

/* ==== begin src/cuda/graph.cuh ================================================================ */
/* graph.cuh - how the launches of a run reach the device: its *launch mode*.
 *
 *   STREAM       launch by launch; branches without rows are launched too, and their blocks return; so are the trips
 *                of a loop, but now and then the host fetches whether there is another
 *   GRAPH        the same, captured once as a CUDA graph: one launch a run; loops as many times as their bounds say
 *   CONDITIONAL  captured, with an IF node around each branch: launches whose steps are all on paths (CUDA 12.4), and a
 *                WHILE node around each body of a loop
 *   AUTO         STREAM, then GRAPH from the second run on
 *
 * All modes read the same counts in the device's memory, so results are the same bytes.
 *
 * Relies on rounds.cuh. Must never let a mode change what a launch does. */
#ifndef BS_CUDA_GRAPH
#define BS_CUDA_GRAPH

/* ==== begin src/cuda/rounds.cuh =============================================================== */
/* rounds.cuh - loops at top level: their launches again and again, up to the bound or until the host has asked whether
 * there is another trip; or the body of a WHILE node, captured once.
 * (A loop in a tile is gone round by the tile's block: launch.cuh. Where weights are streamed the interpreter goes
 * round: run/exec.c.) Relies on capture.cuh. Must never launch a body more often than its loop's bound. */
#ifndef BS_CUDA_ROUNDS
#define BS_CUDA_ROUNDS

/* ==== begin src/cuda/capture.cuh ============================================================== */
/* capture.cuh - launches as a captured graph: opening and closing a capture, conditional nodes in it, and the question
 * that decides those, whether there are rows, which the host may ask as well.
 *
 * Captures always use the session's private stream, whichever stream its runs are queued on, so nothing that the caller
 * or other sessions and threads queue meanwhile can end up in the graph. Relies on run.cuh.
 * Must never use what the toolkit or the driver lacks, and never capture a stream that others can reach. */
#ifndef BS_CUDA_CAPTURE
#define BS_CUDA_CAPTURE

/* ==== begin src/cuda/run.cuh ================================================================== */
/* run.cuh - running one launch, and the callbacks of routers.
 * The host waits only for a callback. Relies on tables.cuh. Must never let a count decide what is launched. */
#ifndef BS_CUDA_RUN
#define BS_CUDA_RUN

/* ==== begin src/cuda/ledger.cuh =============================================================== */
/* ledger.cuh - what a run launched, for bs_cuda_launches: a record for each launch of the plan, in order.
 *
 * Each launch is counted before it runs (a region before and after: tiles decide by themselves), so a recorded run
 * waits for every step; it launches what any run does, and gives the same bytes. At its end the records learn what had
 * to be moved: weights and inputs that are read for the first time, outputs that are written for the first time.
 * Relies on ledger_counts.cuh and tables.cuh. Must never change what is launched. */
#ifndef BS_CUDA_LEDGER
#define BS_CUDA_LEDGER

/* ==== begin src/cuda/ledger_counts.cuh ======================================================== */
/* ledger_counts.cuh - what a step has to do in this run: its work items, those that find nothing, its bytes.
 *
 * A kernel of one block asks the decisions, extents and rules that the launch itself will go by: where an op's file
 * says how its rows are dealt out, this says how many shares are not empty. Relies on launch.cuh and the op files. Must
 * never write anything but its answer. */
#ifndef BS_CUDA_LEDGER_COUNTS
#define BS_CUDA_LEDGER_COUNTS

/* #include "cuda/launch.cuh" */

/* What a step has; `all` work items are those that blocks go through, `items` of them find something to do. */
struct bs_cu_counted {
    int64_t items, all, rows, bytes;
};

/* -------------------------------------------------------------------------------------------------- work items */

__device__ inline int64_t bs_cu_ledger_over(int64_t units, int64_t each) { return (units + each - 1) / each; }

/* Elements of a row that a step makes or reads: of an image those of its rectangle. */
__device__ inline int64_t bs_cu_ledger_elements(const bs_cu_view &v)
{
    if (v.image)
        return (int64_t)v.dim[0] * max(v.y1 - v.y0, 0) * max(v.x1 - v.x0, 0);
    return bs_cu_product(v.dim, v.rank);
}

/* Work items of a row whose elements are shared out evenly in words (move_nest.cuh), or in transposed tiles. */
__device__ inline int64_t bs_cu_ledger_moved(const bs_cu_view &to, const bs_cu_view &from, bool whole)
{
    const bs_cu_nest c = bs_cu_nest_of(to, from, bs_cu_common(to, from));
    const int64_t lines = (int64_t)c.n[1] * c.n[2] * c.n[3];
    const bool lie = c.to_step[0] == 1 && c.from_step[0] == 1,
               turned = (c.to_step[0] == 1 && c.from_step[1] == 1) || (c.from_step[0] == 1 && c.to_step[1] == 1);
    if (!lie && turned && whole && c.n[0] >= 8 && c.n[1] >= 8)
        return bs_cu_ledger_over(c.n[0], BS_CU_TILE_SLOW) * bs_cu_ledger_over(c.n[1], BS_CU_TILE_FAST) * c.n[2] *
               c.n[3];
    const int32_t bytes = bs_cu_bytes(c.to_type),
                  word = min(bs_cu_word(c.to, c.n, c.to_step, bytes),
                             bs_cu_word(c.from, c.n, c.from_step, bs_cu_bytes(c.from_type)));
    const int32_t each = !lie ? 1 : c.to_type != c.from_type ? 4 : max(word / bytes, 1);
    return lines * bs_cu_ledger_over(c.n[0], each);
}

/* Work items of a copy whose words are dealt out to the threads of all of them (op_shape.cuh). */
__device__ inline int64_t bs_cu_ledger_copied(const bs_cu_view &to, const bs_cu_view &from)
{
    bs_cu_view y = to, x = from;
    while (y.rank > BS_MAX_RANK) { /* loops around copies, each dealt out anew */
        bs_cu_drop_axis(&y);
        bs_cu_drop_axis(&x);
    }
    return bs_cu_ledger_over(bs_cu_ledger_moved(y, x, false), bs_cu_threads());
}

/* The same of a slice, a transposition, a reshape of row r; else as if words of 16 bytes could be copied. */
__device__ inline int64_t bs_cu_ledger_shaped(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view result = bs_cu_open_out(t, s, 0, r);
    bs_cu_view operand = bs_cu_open_in(t, s, 0, r), to, from;
    const int32_t turned = s->p[BS_CU_RESHAPE_TURNED].i;
    switch (s->kernel) {
    case BS_CU_slice:
        bs_cu_shift(&operand, s->p[BS_CU_SLICE_AXIS].i, s->p[BS_CU_SLICE_START].i);
        return bs_cu_ledger_copied(result, operand);
    case BS_CU_transpose: return bs_cu_ledger_copied(result, bs_cu_turn(operand, s));
    case BS_CU_reshape: {
        const bs_cu_view y = turned == BS_CU_TURN_RESULT ? bs_cu_turn(result, s) : result;
        const bs_cu_view x = turned == BS_CU_TURN_OPERAND ? bs_cu_turn(operand, s) : operand;
        const int32_t n = bs_cu_reshape_count(y);
        return n == bs_cu_reshape_count(x) && bs_cu_reshape_views(y, x, n, &to, &from)
                   ? bs_cu_ledger_copied(to, from)
                   : bs_cu_ledger_over(n, bs_cu_threads());
    }
    default: {
        const int64_t bytes = bs_cu_ledger_elements(result) * bs_cu_bytes(result.dtype);
        return bs_cu_ledger_over(bytes, 16 * (int64_t)bs_cu_threads());
    }
    }
}

/* Work items of a convolution of row r; of a deconvolution those of all its phases. */
__device__ inline int64_t bs_cu_ledger_conv(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
    if (y.y1 <= y.y0 || y.x1 <= y.x0)
        return 0;
    const bs_cu_conv c = bs_cu_conv_of(t, s, x, y);
    const int64_t blocks = bs_cu_ledger_over(c.out_c, 8);
    const int32_t pad = s->p[BS_CU_CONV_PAD_H].i, up = s->p[BS_CU_CONV_UP].i;
    int64_t tiles = 0;
    switch (s->kernel) {
    case BS_CU_conv2d: tiles = bs_cu_conv_tiles_of(s, c); break;
    case BS_CU_conv2d_tensor: return bs_cu_conv_tiles_of(s, c);
    case BS_CU_conv2d_depthwise:
        return bs_cu_ledger_over((int64_t)c.h * c.w * ((c.groups + 3) / 4), bs_cu_threads());
    case BS_CU_deconv2d:
        for (int32_t phase = 0; s->p[BS_CU_CONV_LAYOUT].i && phase < up * up; phase++)
            tiles += bs_cu_conv_tiles_of(s, bs_cu_deconv_job(c, x, y, pad, up, phase));
        break;
    default: break;
    }
    return tiles ? tiles * bs_cu_ledger_over(blocks, bs_cu_threads() / bs_cu_conv_quads(s))
                 : bs_cu_ledger_over(bs_cu_ledger_elements(y), bs_cu_threads());
}

/* Work items of the lines of row r (op_lines.cuh). */
__device__ inline int64_t bs_cu_ledger_lines(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view x = bs_cu_open_in(t, s, 0, r);
    const int32_t first = s->p[BS_CU_FIRST].i, axis = s->p[BS_CU_AXIS].i;
    const int64_t length = max((int64_t)1, bs_cu_product(bs_cu_in(t, s, 0)->dim + first, axis + 1 - first));
    return bs_cu_ledger_over(bs_cu_ledger_elements(x) / length, bs_cu_threads() / s->p[BS_CU_LANES].i);
}

/* Rows of a table: as many threads go along one as its bytes keep busy (bs_cu_gather_rows_of). */
__device__ inline int64_t bs_cu_ledger_table(const bs_cu_view &y)
{
    const int64_t rows = y.dim[0], bytes = rows ? bs_cu_ledger_elements(y) / rows * bs_cu_bytes(y.dtype) : 0;
    int32_t width = 1;
    while (width < 32 && width * 16 < bytes)
        width *= 2;
    return bs_cu_ledger_over(rows * width, bs_cu_threads());
}

/* Whether a fill has anything to do in row r: no path gives it. */
__device__ inline bool bs_cu_ledger_left(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int32_t path = d.chosen[(int64_t)r * d.per_row];
    return path < 0 || !bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, path);
}

/* Work items that row r makes, of a kernel that goes row by row. Where only the number of elements is known, they are
 * taken four at a time if they can be. */
__device__ inline int64_t bs_cu_ledger_of_row(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    if (s->n_out == 0)
        return 1;
    switch (s->kernel) {
    case BS_CU_conv2d:
    case BS_CU_conv2d_tensor:
    case BS_CU_conv2d_depthwise:
    case BS_CU_conv2d_plain:
    case BS_CU_deconv2d: return bs_cu_ledger_conv(t, s, r);
    case BS_CU_softmax:
    case BS_CU_layer_norm:
    case BS_CU_rms_norm:
    case BS_CU_reduce:
    case BS_CU_argmax:
    case BS_CU_argmin:
    case BS_CU_topk:
    case BS_CU_cumsum:
    case BS_CU_line_chain: return bs_cu_ledger_lines(t, s, r);
    case BS_CU_attention: return s->p[BS_CU_ATTEND_HEADS].i;
    case BS_CU_matmul:
        return bs_cu_product(out->dim, out->rank - 2) *
               bs_cu_ledger_over(out->dim[out->rank - 2], BS_CU_GEMM_SIDE) *
               bs_cu_ledger_over(out->dim[out->rank - 1], BS_CU_GEMM_SIDE);
    case BS_CU_nms:
    case BS_CU_nms_pack: return (int64_t)bs_cu_in(t, s, 1)->dim[0] * bs_cu_in(t, s, 1)->dim[1];
    case BS_CU_pool2d_global:
        return bs_cu_ledger_over(bs_cu_in(t, s, 0)->dim[0], s->p[BS_CU_POOL_CHANNELS].i);
    case BS_CU_slice:
    case BS_CU_reshape:
    case BS_CU_concat:
    case BS_CU_transpose: return bs_cu_ledger_shaped(t, s, r);
    case BS_CU_append: return s->parts;
    case BS_CU_fill:
        if (!bs_cu_ledger_left(t, s, r))
            return 0;
        break;
    default: break;
    }
    const bs_cu_view y = s->kernel <= BS_CU_paths ? bs_cu_open_target(t, out, r) : bs_cu_open(t, out, r);
    const int64_t elements = bs_cu_ledger_elements(y);
    switch (s->kernel) {
    case BS_CU_store:
    case BS_CU_fill:
        return s->n_in ? bs_cu_ledger_moved(y, bs_cu_open_in(t, s, 0, r), s->p[BS_CU_MOVE_TEAM].i == 0)
                       : bs_cu_ledger_moved(y, y, false);
    case BS_CU_paths: return bs_cu_ledger_over(elements, 4);
    case BS_CU_beyond: return elements - elements / max(y.dim[0], 1) * bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i);
    case BS_CU_gather_rows: return bs_cu_ledger_table(y);
    default: return bs_cu_ledger_over(elements % 4 ? elements : elements / 4, bs_cu_threads());
    }
}

/* How many of the work items of rows [w.row, w.end) have anything to do. */
__device__ inline int64_t bs_cu_ledger_items(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const int32_t lines = s->n_out ? bs_cu_linear_lines(out) : 0;
    const int64_t all = (int64_t)(w.end - w.row) * lines;
    int64_t items = 0;
    switch (s->kernel) {
    case BS_CU_linear:
    case BS_CU_linear_tensor:
        items = bs_cu_ledger_over(all, BS_CU_GEMM_SIDE) *
                bs_cu_ledger_over(s->p[BS_CU_LINEAR_OUT].i, bs_cu_linear_wide(t, s, lines));
        break;
    case BS_CU_lstm:
    case BS_CU_gru:
        items = bs_cu_ledger_over(bs_cu_ledger_over(all, BS_CU_RECURRENT_LINES) * out->dim[out->rank - 1],
                                  bs_cu_warps());
        break;
    default:
        for (int32_t r = w.row; r < w.end; r++) /* each part goes through all rows */
            items = max(items, bs_cu_ledger_of_row(t, s, r));
    }
    return min(items, (int64_t)s->parts);
}

/* ------------------------------------------------------------------------------------------------------- bytes */

/* Rows of a path that is decided in tiles are known when these are done: so many more than the run had before. What is
 * known ahead is counted afterwards alone. */
typedef enum bs_cu_when { BS_CU_NOW, BS_CU_BEFORE_TILES, BS_CU_AFTER_TILES } bs_cu_when;

__device__ inline int32_t bs_cu_ledger_rows(const bs_cu_tile &t, int32_t domain, bs_cu_when when)
{
    const bs_device_domain &d = t.program->domains[domain];
    if (d.kind == BS_DOMAIN_PATH && t.program->decision[d.router].in_tile)
        return reinterpret_cast<const int32_t *>(t.program->decisions + t.program->decision[d.router].sums)[d.path];
    return when == BS_CU_BEFORE_TILES ? 0 : bs_cu_count(t, domain);
}

/* This thread's share of the bytes of `rows` rows of an operand. Which rows of a path they are is known but in tiles:
 * there each has the bytes that rows around it have in the mean. */
__device__ inline int64_t bs_cu_ledger_rows_bytes(const bs_cu_tile &t, const bs_device_operand *operand, int32_t rows)
{
    bs_device_operand o = *operand;
    const int32_t first = bs_cu_thread(), step = bs_cu_threads(), bytes = bs_cu_bytes(o.dtype);
    if (o.cell == 0)
        return first == 0 ? (int64_t)rows * bytes * bs_cu_product(o.dim, o.rank) : 0;
    int32_t top = o.domain, cells = rows;
    bool known = true;
    for (; t.program->domains[top].kind == BS_DOMAIN_PATH; top = t.program->domains[top].parent)
        known = known && !t.program->decision[t.program->domains[top].router].in_tile;
    if (!known) {
        o.domain = top;
        o.depth = 0;
        cells = t.program->domains[top].count;
    }
    o.place = BS_AT_ROOT; /* only its rectangle is looked at */
    o.trip = 0;
    int64_t sum = 0;
    for (int32_t r = first; r < cells; r += step)
        sum += bs_cu_ledger_elements(bs_cu_open(t, &o, r));
    return known || cells == 0 ? sum * bytes : sum * rows / cells * bytes;
}

/* Whether an operand is there, in memory: one that is not given has no address; rows of a tile are in shared memory. */
__device__ inline bool bs_cu_ledger_in_memory(const bs_cu_tile &t, const bs_device_operand *o)
{
    return o->place == BS_AT_TILE ? t.program->scratch_bytes > 0 : o->base != 0;
}

/* This thread's share of the bytes of an operand. */
__device__ inline int64_t bs_cu_ledger_operand(const bs_cu_tile &t, const bs_device_operand *o, bs_cu_when when)
{
    return bs_cu_ledger_in_memory(t, o) ? bs_cu_ledger_rows_bytes(t, o, bs_cu_ledger_rows(t, o->domain, when)) : 0;
}

/* Whether a step reads of its first operand no more than it makes: an index or an axis says which part. */
__host__ __device__ static inline bool bs_cu_ledger_reads_part(int32_t kernel)
{
    switch (kernel) {
    case BS_CU_gather_rows:
    case BS_CU_gather_elements:
    case BS_CU_select:
    case BS_CU_slice: return true;
    default: return false;
    }
}

/* This thread's share of the bytes of rows that a fill copies or zeroes. */
__device__ inline int64_t bs_cu_ledger_filled(const bs_cu_tile &t, const bs_device_step *s, int32_t rows)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_device_decision &d = t.program->decision[s->router];
    const int32_t each = bs_cu_bytes(out->dtype) + (s->n_in ? bs_cu_bytes(bs_cu_in(t, s, 0)->dtype) : 0);
    const int32_t *sums = reinterpret_cast<const int32_t *>(t.program->decisions + d.sums);
    int32_t left = rows;
    int64_t sum = 0;
    for (int32_t p = 0; p < d.paths && d.in_tile; p++)
        left -= bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, p) ? sums[p] : 0;
    if (d.in_tile)
        return bs_cu_ledger_in_memory(t, out) ? bs_cu_ledger_rows_bytes(t, out, left) / bs_cu_bytes(out->dtype) * each
                                              : 0;
    for (int32_t r = bs_cu_thread(); r < rows; r += bs_cu_threads())
        sum += bs_cu_ledger_left(t, s, r) ? bs_cu_ledger_elements(bs_cu_open_target(t, out, r)) * each : 0;
    return sum;
}

/* This thread's share of what a step on `rows` rows reads and writes, without its weights. */
__device__ inline int64_t bs_cu_ledger_bytes(const bs_cu_tile &t, const bs_device_step *s, int32_t rows,
                                             bs_cu_when when)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    int64_t sum = 0;
    switch (s->kernel) {
    case BS_CU_fill: return bs_cu_ledger_filled(t, s, rows);
    case BS_CU_beyond:
        return bs_cu_ledger_operand(t, out, when) / max(out->dim[0], 1) *
               max(out->dim[0] - bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i), 0);
    default: break;
    }
    for (int32_t i = 0; i < s->n_in + s->n_out; i++) {
        const bs_device_operand *o = bs_cu_in_of_many(t, s, i);
        if (i == 0 && bs_cu_ledger_reads_part(s->kernel))
            sum += bs_cu_ledger_in_memory(t, o) ? bs_cu_ledger_operand(t, out, when) / bs_cu_bytes(out->dtype) *
                                                      bs_cu_bytes(o->dtype)
                                                : 0;
        else if (o->place == BS_AT_RING) /* of the ring the rows that are appended */
            sum += bs_cu_ledger_rows_bytes(t, bs_cu_in(t, s, 0), rows) / bs_cu_bytes(bs_cu_in(t, s, 0)->dtype) *
                   bs_cu_bytes(o->dtype);
        else
            sum += bs_cu_ledger_operand(t, o, when);
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------------------- a step */

/* Counts a step of a launch that comes next, or, in a region, its bytes. of: the domain whose rows are told. */
__global__ void bs_cu_count_step(BS_CU_ARGUMENT bs_cu_program program, int32_t step, int32_t of, bs_cu_when when,
                                 bs_cu_counted *counted)
{
    BS_SHARED(uint64_t, sums, [8]);
    BS_SHARED(uint4, room, [sizeof(bs_cu_record) / sizeof(uint4)]);
    bs_cu_record *record = reinterpret_cast<bs_cu_record *>(room);
    const bs_cu_tile t = bs_cu_everything(&program, NULL, record);
    bs_cu_take_record(program, bs_cu_step_number(program, step), record);
    __syncthreads();
    const bs_device_step *s = &record->step;
    const bool now = when == BS_CU_NOW, wanted = !bs_cu_failed(program) && (!now || bs_cu_wants_kernel(t, s));
    const int32_t rows = wanted ? bs_cu_ledger_rows(t, s->domain, when) : 0;
    const int64_t batches = bs_cu_ledger_over(rows, s->batch);
    int64_t items = 0;
    for (int64_t b = bs_cu_thread(); b < batches && now; b += bs_cu_threads()) {
        const int32_t first = (int32_t)b * s->batch;
        const bs_cu_work w = {first, first + min(s->batch, rows - first), 0, s->parts};
        items += bs_cu_ledger_items(t, s, w);
    }
    const int64_t bytes = wanted && (rows > 0 || !now) ? bs_cu_ledger_bytes(t, s, rows, when) : 0;
    const bs_cu_counted all = {(int64_t)bs_cu_sum_threads(sums, (uint64_t)items), batches * s->parts,
                               wanted ? bs_cu_ledger_rows(t, of, when) : 0,
                               (int64_t)bs_cu_sum_threads(sums, (uint64_t)bytes)};
    if (bs_cu_thread() == 0)
        *counted = all;
}

#endif
/* ==== end src/cuda/ledger_counts.cuh ========================================================== */
/* ==== begin src/cuda/tables.cuh =============================================================== */
/* tables.cuh - the tables of a session, written in pinned memory and copied; and what each run puts in them:
 * dimensions, buffers, offsets of segments, cache lengths.
 * Relies on bind.cuh and step.cuh. Must never write what a copy may still read. */
#ifndef BS_CUDA_TABLES
#define BS_CUDA_TABLES

/* ==== begin src/cuda/bind.cuh ================================================================= */
/* bind.cuh - the caller's buffers: in place where the device can read them, else through a dense copy.
 * Relies on state.cuh. Must never write a buffer that the graph only reads. */
#ifndef BS_CUDA_BIND
#define BS_CUDA_BIND

/* ==== begin src/cuda/state.cuh ================================================================ */
/* state.cuh - the backend's record of a session, its streams, and waiting for the device.
 *
 * Sessions share nothing that they queue, capture, record or wait for, so those of one device run side by side, each on
 * its caller's thread. Sessions that are given the same stream are in each other's order there, launch by launch.
 * The record lies in the session's pinned bytes; prepared weights go to the device through there too.
 * Relies on device.cuh and launch.cuh. Must never allocate. */
#ifndef BS_CUDA_STATE
#define BS_CUDA_STATE

/* #include "cuda/device.cuh" */
/* #include "cuda/launch.cuh" */

extern "C" {
/* ==== begin src/run/route.h =================================================================== */
/* run/route.h - the parts of run/route.c that serve a device as well: faults in words, and calling the caller's
 * function. Relies on ops/decide.h. */
#ifndef BS_ROUTE_H
#define BS_ROUTE_H

/* #include "ops/decide.h" */

/* Records in words what is wrong; BS_OK: nothing is. bs_route_say: into a failed run's message [BS_FAULT_BYTES], with
 * the cell, numbered as in bs_decision.chosen. */
bs_status bs_route_fail(const bs_route_fault *fault, bs_error *error);
bs_status bs_route_say(const bs_route_fault *fault, int32_t cell, char *message);
/* Calls the caller's function, which chooses one path for each of `rows` rows. BS_OK and a fault: there is no
 * function, or its result is not valid. */
bs_status bs_route_ask(const bs_route_callback *callback, const bs_operand_view *scores, int32_t paths, int32_t rows,
                       int32_t *chosen, float *gates, bs_route_fault *fault);

#endif
/* ==== end src/run/route.h ===================================================================== */
}

struct bs_device_session {
    bs_cu_device *device;
    const bs_device_client *client;
    bs_device_layout layout;
    uint8_t *memory; /* on the device */
    uint8_t *pinned;
    uint64_t pinned_there; /* the device's address of it */
    bs_cu_program program;
    cudaStream_t private_stream; /* the session's alone: captures use it */
    cudaStream_t run_stream;     /* runs are queued on it: the caller's, or the private one */
    /* where the next launch or copy goes: run_stream, or private_stream while it is captured */
    cudaStream_t stream;
    cudaEvent_t done;
    cudaStream_t lanes[BS_MAX_LANES]; /* copies of weights */
#ifndef BS_NO_CUBLAS
    cublasHandle_t cublas; /* NULL: cuBLAS is not used */
    void *workspace;       /* of cuBLAS, in the device's memory */
    size_t workspace_bytes;
#endif
    int32_t n_lanes;
    bool has_event, lowered, in_flight, any_staged, has_segments;
    bool varies; /* what there is to do is known only when a run begins, or when routers have decided */
    bool loops;  /* a loop at top level makes as many trips as a run says, and a graph can go round it */
    int32_t launch_mode; /* bs_launch_mode */
    bool capturing, replays, no_graph;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t last; /* the last node that was captured */
    int threads;      /* of a block */
    uint64_t shared;  /* of a region */
    bs_cu_launches launches;
    int64_t *dims;    /* [dims] of the last run */
    bs_buffer *bound; /* [nodes] of the last run */
    bs_cu_bound *at;  /* [nodes] */
};

/* Whether a graph that is captured has conditional nodes: with AUTO those of loops that would else be captured with all
 * trips that their bound allows. */
static inline bool bs_cu_has_nodes(const bs_device_session *s)
{
    return s->launch_mode == BS_LAUNCH_CONDITIONAL || (s->launch_mode == BS_LAUNCH_AUTO && s->loops);
}

/* Blocks of a launch that keep the device busy. */
static inline int32_t bs_cu_busy_blocks(const bs_device_session *s) { return 2 * s->device->multiprocessors; }

enum {
    /* Blocks for a multiprocessor that has work enough. As many as are there at a time, 1, 2, 3 or 6, divide it: none
     * is left for a last round alone. */
    BS_CU_FILL = 6,
    BS_CU_TABLE_BLOCKS = 4 /* that put extents in place */
};

/* The blocks of a launch. Kernels that see all rows have one for each item. */
static int32_t bs_cu_blocks(const bs_device_session *s, const bs_device_launch *l)
{
    const int32_t full = BS_CU_FILL * s->device->multiprocessors;
    switch (l->kernel) {
    case BS_CU_region: return bs_min_i32(l->items, s->layout.tiles);
    case BS_CU_extend: return BS_CU_TABLE_BLOCKS;
#ifndef BS_NO_CUBLAS
    case BS_CU_cublas: return 0; /* it has its own */
#endif
    default: return bs_cu_sees_all_rows(l->kernel) || !s->varies ? l->items : bs_min_i32(l->items, full);
    }
}

/* -------------------------------------------------------------------------------------------------- memory */

static_assert(sizeof(bs_device_session) <= BS_DEVICE_SESSION_BYTES && sizeof(bs_cu_bound) <= BS_DEVICE_BOUND_BYTES,
              "run/device_layout.c counts with these");

static bs_status bs_cu_session_carve(bs_device_session *s, bs_error *error)
{
    const bs_graph *g = s->client->graph;
    bs_carver c = {s->pinned + s->layout.session, {0}};
    bs_carve(&c, 1, sizeof *s);
    s->launches.list = reinterpret_cast<bs_device_launch *>(s->pinned + s->layout.launches);
    s->launches.room = s->layout.n_launches;
    s->dims = static_cast<int64_t *>(bs_carve(&c, (uint64_t)g->n_dims, sizeof(int64_t)));
    s->bound = static_cast<bs_buffer *>(bs_carve(&c, (uint64_t)s->client->n_bound, sizeof(bs_buffer)));
    s->at = static_cast<bs_cu_bound *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_cu_bound)));
    if (bs_bytes_figure(c.used) > s->layout.session_bytes)
        return bs_fail(error, BS_ERROR_LIMIT, /* unreachable: plan/device.h has room for it */
                       "bookkeeping of a session on the GPU needs %llu bytes",
                       (unsigned long long)bs_bytes_figure(c.used));
    memset(s->at, 0, (size_t)g->n_nodes * sizeof *s->at);
    for (int32_t n = 1, entry = 1; n < g->n_nodes; n++)
        s->at[n].entry = bs_device_is_bound(s->client->plan, n) ? entry++ : 0;
    return BS_OK;
}

static void bs_cu_session_program(bs_device_session *s)
{
    const bs_device_layout *l = &s->layout;
    uint8_t *tables = s->memory + l->tables;
    bs_cu_program *p = &s->program;
    p->steps = reinterpret_cast<const bs_device_step *>(tables + l->steps_at);
    p->operands = reinterpret_cast<bs_device_operand *>(tables + l->operands_at);
    p->domains = reinterpret_cast<bs_device_domain *>(tables + l->domains_at);
    p->dims = reinterpret_cast<const int32_t *>(tables + l->dims_at);
    p->n_dims = l->n_dims;
    p->n_joins = l->n_joins;
    p->extents = l->n_dims ? reinterpret_cast<int32_t *>(s->memory + l->decisions + l->extents) : NULL;
    p->derived = reinterpret_cast<const bs_device_dim *>(tables + l->derived_at);
    p->joins = reinterpret_cast<const bs_device_join *>(tables + l->joins_at);
    p->bound = reinterpret_cast<const bs_device_bound *>(tables + l->bound_at);
    p->decision = reinterpret_cast<const bs_device_decision *>(tables + l->decisions_at);
    p->parts = reinterpret_cast<const bs_device_part *>(tables + l->parts_at);
    p->given = reinterpret_cast<const uint32_t *>(tables + l->given_at);
    p->units = reinterpret_cast<const uint64_t *>(tables + l->units_at);
    p->decisions = s->memory + l->decisions;
    p->guesses = reinterpret_cast<float *>(s->memory + l->guesses);
    p->contexts = s->memory + l->contexts;
    p->context_bytes = l->context_bytes;
    p->status = reinterpret_cast<int32_t *>(s->memory + l->decisions + l->status);
}

/* A kernel may use more than the default 48 KiB of shared memory only when its limit is raised. It is raised to all
 * that the GPU has: the limit is the function's, and sessions with tiles of other sizes use it too. */
static bs_status bs_cu_session_shared(bs_device_session *s, bs_error *error)
{
    bs_bytes most = {0};
    for (int32_t k = 0; k < s->client->plan->n_parts; k++)
        most = bs_bytes_max(most, s->client->plan->parts[k].scratch_bytes);
    s->program.scratch = s->memory + s->layout.scratch;
    s->program.scratch_bytes = s->layout.scratch_bytes;
    s->program.kernel_scratch = s->memory + s->layout.kernel_scratch;
    s->shared = (s->layout.scratch_bytes ? 0 : bs_bytes_figure(most)) + BS_DEVICE_SHARED;
    if (s->client->plan->n_regions == 0)
        return BS_OK;
    if (s->shared > (uint64_t)s->device->shared_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "the plan uses %llu bytes of shared memory, this GPU has %d: plan with its shared_bytes",
                       (unsigned long long)s->shared, s->device->shared_bytes);
    return bs_cu_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(bs_cu_region),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, s->device->shared_bytes),
                       "asking for shared memory", error);
}

/* ------------------------------------------------------------------------------------------------- cuBLAS */

#ifndef BS_NO_CUBLAS
/* Sets the handle's stream and workspace. cublasSetStream replaces the workspace by one that the library allocates, so
 * the session's workspace is set after it, each time. */
static bool bs_cu_cublas_here(bs_device_session *s)
{
    return cublasSetStream(s->cublas, s->stream) == CUBLAS_STATUS_SUCCESS &&
           cublasSetWorkspace(s->cublas, s->workspace, s->workspace_bytes) == CUBLAS_STATUS_SUCCESS;
}

/* A handle of the session's own, because a handle has one stream and one workspace at a time. */
static bs_status bs_cu_session_cublas(bs_device_session *s, bs_error *error)
{
    bs_arena *memory = &s->device->base.memory;
    uint8_t *bytes = static_cast<uint8_t *>(bs_arena_take(memory, (size_t)s->device->cublas_bytes));
    if (!bytes)
        return bs_fail_arena(error, memory, bs_bytes_of(s->device->cublas_bytes), "the workspace of cuBLAS");
    const size_t lost = (size_t)(0 - reinterpret_cast<uintptr_t>(bytes)) & 255, all = (size_t)s->device->cublas_bytes;
    s->workspace = bytes + lost; /* cuBLAS takes multiples of 256 only */
    s->workspace_bytes = all > lost ? all - lost : 0;
    if (cublasCreate(&s->cublas) != CUBLAS_STATUS_SUCCESS) {
        s->cublas = NULL;
        return bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: a handle cannot be made");
    }
    return bs_cu_cublas_here(s) ? BS_OK
                                : bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: it does not take its stream or workspace");
}
#endif

/* --------------------------------------------------------------------------------------- opening, closing */

/* Waits once more where waiting fails: the memory that work may still use goes back to its owner. */
static void bs_cu_idle(cudaStream_t stream)
{
    if (cudaStreamSynchronize(stream) != cudaSuccess)
        cudaStreamSynchronize(stream);
}

static void bs_cu_state_close(bs_device_session *s)
{
    if (s->run_stream)
        bs_cu_idle(s->run_stream);
    for (int32_t k = 0; k < s->n_lanes; k++) {
        bs_cu_idle(s->lanes[k]);
        cudaStreamDestroy(s->lanes[k]);
    }
    s->n_lanes = 0;
#ifndef BS_NO_CUBLAS
    if (s->cublas)
        cublasDestroy(s->cublas);
    s->cublas = NULL;
#endif
    if (s->has_event)
        cudaEventDestroy(s->done);
    s->has_event = s->in_flight = false;
    if (s->private_stream)
        cudaStreamDestroy(s->private_stream);
    s->private_stream = s->run_stream = s->stream = NULL;
}

/* The private stream waits for no other stream, not even the default one. */
static bs_status bs_cu_session_streams(bs_device_session *s, bs_error *error)
{
    bs_status status = bs_cu_check(cudaStreamCreateWithFlags(&s->private_stream, cudaStreamNonBlocking),
                                   "making a stream", error);
    if (status != BS_OK) {
        s->private_stream = NULL;
        return status;
    }
    s->run_stream = s->stream = s->client->stream ? static_cast<cudaStream_t>(s->client->stream) : s->private_stream;
    status = bs_cu_check(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "making an event", error);
    s->has_event = status == BS_OK;
    for (; status == BS_OK && bs_plan_streams(s->client->plan) && s->n_lanes < s->client->plan->lanes;
         s->n_lanes += status == BS_OK)
        status = bs_cu_check(cudaStreamCreateWithFlags(&s->lanes[s->n_lanes], cudaStreamNonBlocking), "making a stream",
                             error);
    return status;
}

/* Whether rows of a loop end at different times: by a count or a predicate. */
static bool bs_cu_ends_apart(const bs_graph *g, const bs_loop_info *loop)
{
    return loop->count || bs_node_in(g, &g->nodes[loop->again])[0] != 0;
}

/* Whether a run says how many trips a loop at top level makes. */
static bool bs_cu_goes_round(const bs_plan *plan)
{
    const bs_graph *g = plan->graph;
    bool any = false;
    for (int32_t r = 1; r < g->n_routers; r++) {
        const bs_loop_info *loop = &g->routers[r].loop;
        any = any || (bs_router_loops(g, r) && !plan->routers[r].in_tile &&
                      (bs_cu_ends_apart(g, loop) || (loop->trips >= 0 && !bs_dim_is_const(g, loop->trips))));
    }
    return any;
}

static bs_status bs_cu_state_open(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned,
                                    bs_device_session **session, bs_error *error)
{
    bs_device_layout layout;
    bs_device_layout_make(client->plan, &layout);
    bs_device_session *s = reinterpret_cast<bs_device_session *>(pinned + layout.session);
    memset(s, 0, sizeof *s);
    s->device = reinterpret_cast<bs_cu_device *>(device);
    s->client = client;
    s->layout = layout;
    s->memory = memory;
    s->pinned = pinned;
    s->threads = BS_CU_THREADS;
    s->has_segments = layout.segments_at < layout.tables_bytes;
    s->varies = bs_graph_varies(client->graph) || client->graph->n_routers > 1;
    s->loops = s->device->conditional && bs_cu_goes_round(client->plan);
    s->launch_mode = client->plan->desc.launch_mode;
    bs_cu_session_program(s);
    void *there = NULL;
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK)
        status = bs_cu_check(cudaHostGetDevicePointer(&there, pinned, 0), "finding pinned memory on the device", error);
    s->pinned_there = (uint64_t)(uintptr_t)there;
    if (status == BS_OK)
        status = bs_cu_session_carve(s, error);
    if (status == BS_OK)
        status = bs_cu_session_shared(s, error);
    if (status == BS_OK)
        status = bs_cu_session_streams(s, error);
#ifndef BS_NO_CUBLAS
    if (status == BS_OK && s->device->cublas_bytes)
        status = bs_cu_session_cublas(s, error);
#endif
    *session = s;
    if (status != BS_OK)
        bs_cu_state_close(s);
    return status;
}

/* ------------------------------------------------------------------------------------------------- waiting */

/* Waits for what is queued: then pinned memory may be written again. Waits once more where that fails: work that is
 * still under way must not overlap what follows the error. */
static bs_status bs_cu_settle(bs_device_session *s, bs_error *error)
{
    if (!s->in_flight)
        return BS_OK;
    s->in_flight = false;
    const bs_status status = bs_cu_check(cudaEventSynchronize(s->done), "waiting for the device", error);
    if (status != BS_OK)
        cudaStreamSynchronize(s->stream);
    return status;
}

static bs_status bs_cu_mark(bs_device_session *s, bs_error *error)
{
    const bs_status status = bs_cu_check(cudaEventRecord(s->done, s->stream), "recording an event", error);
    s->in_flight = status == BS_OK;
    if (status != BS_OK)
        cudaStreamSynchronize(s->stream);
    return status;
}

static bs_status bs_cu_session_settle(bs_device_session *s, bs_error *error)
{
    const bs_status status = bs_cu_mark(s, error);
    return status == BS_OK ? bs_cu_settle(s, error) : status;
}

/* The status of the run as the device says it; where it has failed, the node and what is wrong with its data. */
static bs_status bs_cu_tell_status(bs_device_session *s, const int32_t *said, int32_t *node)
{
    const int32_t *of = said + BS_DEVICE_FAULT;
    const bs_route_fault fault = {of[0], of[1], of[2], of[3]};
    if (said[BS_DEVICE_FAILED] == BS_OK)
        return BS_OK;
    *node = said[BS_DEVICE_NODE];
    bs_route_say(&fault, fault.row, s->client->fault);
    return (bs_status)said[BS_DEVICE_FAILED];
}

/* Copies between pinned and device memory. what: for the error message. */
static bs_status bs_cu_copy(bs_device_session *s, void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind,
                            const char *what, bs_error *error)
{
    return bs_cu_check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, s->stream), what, error);
}

/* The same, and then waits. */
static bs_status bs_cu_fetch(bs_device_session *s, void *to, const void *from, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_copy(s, to, from, bytes, cudaMemcpyDefault, "asking the device", error);
    return status == BS_OK ? bs_cu_session_settle(s, error) : status;
}

static void *bs_cu_session_load(bs_device_session *s, bs_error *error)
{
    return bs_cu_settle(s, error) == BS_OK ? s->pinned + s->layout.loading : NULL;
}

static bs_status bs_cu_session_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_copy(s, s->client->weights + offset, s->pinned + s->layout.loading, bytes,
                                        cudaMemcpyHostToDevice, "copying weights to the device", error);
    return status == BS_OK ? bs_cu_mark(s, error) : status;
}

#endif
/* ==== end src/cuda/state.cuh ================================================================== */

/* The device's address of any memory; NULL: the device cannot read it. */
static void *bs_cu_there(const void *memory)
{
    cudaPointerAttributes known;
    memset(&known, 0, sizeof known);
    if (cudaPointerGetAttributes(&known, memory) == cudaSuccess)
        return known.type != cudaMemoryTypeUnregistered ? known.devicePointer : NULL;
    cudaGetLastError(); /* older toolkits call ordinary memory an error */
    return NULL;
}

/* The pinned copy of the buffer that is bound to a node. */
static uint8_t *bs_cu_dense(const bs_device_session *s, int32_t node)
{
    return s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, node);
}

/* Resolves a caller's buffer: in place where the device can read it, else in a dense copy. */
static void bs_cu_locate(bs_device_session *s, int32_t node)
{
    const bs_device_client *c = s->client;
    const bs_buffer *b = &bs_client_bound(c, node)->buffer;
    bs_cu_bound *at = &s->at[node];
    at->address = 0;
    at->staged = false;
    memset(at->stride, 0, sizeof at->stride);
    if (!b->data)
        return;
    for (int32_t i = 0; i < b->rank; i++)
        at->stride[i] = b->stride[i];
    at->address = (uint64_t)(uintptr_t)b->data;
    if (bs_client_bound(c, node)->state == b->data)
        return; /* the session's own memory */
    const void *there = bs_cu_there(b->data);
    if (there) {
        at->address = (uint64_t)(uintptr_t)there;
        return;
    }
    at->staged = s->any_staged = true;
    const uint64_t copy = bs_device_input_place(c->plan, node);
    at->address = c->plan->desc.in_place ? s->pinned_there + s->layout.inputs_pinned + copy
                                         : (uint64_t)(uintptr_t)s->memory + s->layout.inputs + copy;
    int64_t stride = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at->stride[i] = stride;
        stride *= b->dim[i];
    }
}

static size_t bs_cu_bound_bytes(const bs_buffer *b)
{
    size_t bytes = bs_dtype_bytes(b->dtype);
    for (int32_t i = 0; i < b->rank; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

/* Copies between a strided buffer and a dense one of its extents, by lines of the last dimension; a scalar is a line of
 * one. dim: how far, at most b->dim. */
static void bs_cu_pack(const bs_buffer *b, const int64_t *dim, uint8_t *dense, bool out)
{
    const size_t bytes = bs_dtype_bytes(b->dtype);
    const int64_t last = b->rank > 0 ? dim[b->rank - 1] : 1, step = b->rank > 0 ? b->stride[b->rank - 1] : 1;
    int64_t lines = 1;
    for (int32_t i = 0; i + 1 < b->rank; i++)
        lines *= dim[i];
    for (int64_t line = 0; line < lines; line++) {
        int64_t at = 0, there = 0, rest = line, pitch = b->rank > 0 ? b->dim[b->rank - 1] : 1;
        for (int32_t i = b->rank - 2; i >= 0; i--) {
            at += rest % dim[i] * b->stride[i];
            there += rest % dim[i] * pitch;
            rest /= dim[i];
            pitch *= b->dim[i];
        }
        uint8_t *from = static_cast<uint8_t *>(b->data) + at * (int64_t)bytes, *to = dense + (size_t)there * bytes;
        for (int64_t x = 0; step != 1 && x < last; x++)
            memcpy(out ? from + x * step * (int64_t)bytes : to + x * (int64_t)bytes,
                   out ? to + x * (int64_t)bytes : from + x * step * (int64_t)bytes, bytes);
        if (step == 1)
            memcpy(out ? from : to, out ? to : from, (size_t)last * bytes);
    }
}

static bool bs_cu_reads(const bs_device_session *s, int32_t node)
{
    const bs_node *n = &s->client->graph->nodes[node];
    return s->at[node].staged && s->client->plan->node_live[node] && !bs_node_is_output(n);
}

static bool bs_cu_writes(const bs_device_session *s, int32_t node)
{
    return s->at[node].staged && !bs_node_is_input(&s->client->graph->nodes[node]);
}

/* Copies the caller's inputs into pinned memory. */
static void bs_cu_pack_inputs(bs_device_session *s)
{
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++)
        if (bs_cu_reads(s, n)) {
            const bs_buffer *b = &bs_client_bound(s->client, n)->buffer;
            bs_cu_pack(b, b->dim, bs_cu_dense(s, n), false);
        }
}

/* Copies what was computed from pinned memory to the caller's buffer of an output or a state, as far as this run
 * went. */
static void bs_cu_unpack(const bs_device_session *s, int32_t node)
{
    const bs_device_client *c = s->client;
    const bs_value_info *v = &c->graph->values[bs_bound_value(c->graph, &c->graph->nodes[node])];
    int64_t dim[BS_MAX_RANK];
    for (int32_t i = 0; i < v->rank; i++)
        dim[i] = c->dims[v->dims[i]];
    bs_cu_pack(&bs_client_bound(c, node)->buffer, dim, bs_cu_dense(s, node), true);
}

/* Copies staged buffers to the device, or back into pinned memory. */
static bs_status bs_cu_copy_bound(bs_device_session *s, bool in, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t n = 1; n < s->client->graph->n_nodes && status == BS_OK && !s->client->plan->desc.in_place; n++) {
        if (in ? !bs_cu_reads(s, n) : !bs_cu_writes(s, n))
            continue;
        uint8_t *device = bs_cu_at<uint8_t>(s->at[n].address);
        const size_t bytes = bs_cu_bound_bytes(&bs_client_bound(s->client, n)->buffer);
        status = in ? bs_cu_copy(s, device, bs_cu_dense(s, n), bytes, cudaMemcpyHostToDevice,
                                 "copying inputs to the device", error)
                    : bs_cu_copy(s, bs_cu_dense(s, n), device, bytes, cudaMemcpyDeviceToHost,
                                 "copying outputs from the device", error);
    }
    return status;
}

#endif
/* ==== end src/cuda/bind.cuh =================================================================== */

/* A table of the run, where the host has it. */
template <typename T> static T *bs_cu_table(const bs_device_session *s, uint64_t at)
{
    return reinterpret_cast<T *>(s->pinned + s->layout.tables_pinned + at);
}

static bool bs_cu_same_buffers(const bs_device_session *s)
{
    bool same = true;
    for (int32_t k = 1; same && k < s->client->n_bound; k++)
        same = bs_same_buffer(&s->bound[k], &s->client->bound[k].buffer);
    return same;
}

/* Whether the tables hold for this run: cuBLAS is told of buffers by the host. */
static bool bs_cu_is_lowered(const bs_device_session *s, bool same_buffers)
{
#ifndef BS_NO_CUBLAS
    if (s->cublas && !same_buffers)
        return false;
#endif
    (void)same_buffers;
    return s->lowered;
}

/* Where a decision lies, as the tables say. */
static const bs_device_decision *bs_cu_decision_at(const bs_device_session *s, int32_t router)
{
    return bs_cu_table<bs_device_decision>(s, s->layout.decisions_at) + router;
}

/* What a path's domain has in a decision. */
static void bs_cu_link_domain(const bs_device_decision *made, int32_t domain, int32_t path, bs_device_domain *d)
{
    d->counted.at = (int64_t)made->counts + 4 * (int64_t)path;
    d->counted.in_tile = d->link.in_tile = made->in_tile;
    d->link.domain = domain;
    d->link.offset = (uint32_t)(made->offsets / 4) + (uint32_t)path;
    d->link.ids = (uint32_t)(made->ids / 4);
}

static bs_device_domain bs_cu_domain_of(const bs_device_session *s, int32_t domain)
{
    const bs_device_client *c = s->client;
    const bs_domain *from = &c->graph->domains[domain];
    bs_device_domain d;
    memset(&d, 0, sizeof d);
    d.kind = from->kind;
    d.parent = from->parent;
    d.router = from->router;
    d.path = from->path;
    d.count = from->kind == BS_DOMAIN_ROOT;
    d.counted.at = (int64_t)(s->layout.tables + s->layout.domains_at + (uint64_t)domain * sizeof d +
                             offsetof(bs_device_domain, count)) - (int64_t)s->layout.decisions;
    if (from->kind == BS_DOMAIN_PATH)
        bs_cu_link_domain(bs_cu_decision_at(s, from->router), domain, from->path, &d);
    d.rows = d.segments = -1;
    if (bs_domain_is_patches(from)) {
        d.rows = from->height;
        d.across = from->width;
        d.size = c->plan->domains[domain].size;
    } else if (from->kind == BS_DOMAIN_ROWS) {
        d.rows = from->rows;
    }
    if (c->offsets[from->top]) {
        d.segments = bs_segment_dim(c->graph, from->top);
        d.offsets = (uint64_t)(uintptr_t)(s->memory + s->layout.tables + s->layout.segments_at +
                                          bs_device_offsets_place(c->plan, from->top));
    }
    return d;
}

static void bs_cu_write_domains(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const int32_t *dims = bs_cu_table<int32_t>(s, s->layout.dims_at);
    bs_device_domain *domains = bs_cu_table<bs_device_domain>(s, s->layout.domains_at);
    bs_device_decision *decisions = bs_cu_table<bs_device_decision>(s, s->layout.decisions_at);
    memset(decisions, 0, (size_t)c->graph->n_routers * sizeof *decisions);
    bs_device_decisions_place(c->plan, decisions);
    for (int32_t d = 0; d < c->graph->n_domains; d++) {
        domains[d] = bs_cu_domain_of(s, d);
        bs_cu_extend_domain(dims, &domains[d]);
    }
    *bs_cu_table<uint64_t>(s, s->layout.units_at) = (uint64_t)(uintptr_t)c->weights;
}

/* How dimensions follow from what nodes make, and what must fit then. */
static void bs_cu_write_derived(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    bs_device_dim *dims = bs_cu_table<bs_device_dim>(s, s->layout.derived_at);
    bs_device_join *join = bs_cu_table<bs_device_join>(s, s->layout.joins_at), one;
    for (int32_t d = 0; d < s->layout.n_dims; d++) {
        const bs_dim_info *from = &c->graph->dims[d];
        const bs_device_dim dim = {from->node, from->kind == BS_DIM_DERIVED ? from->parent : -1, from->mul, from->add,
                                   from->div, from->maximum};
        dims[d] = dim;
    }
    for (int32_t n = 1; n < c->graph->n_nodes && s->layout.n_joins > 0; n++)
        if (bs_device_joins(c->plan, n, &one))
            *join++ = one;
}

static bs_status bs_cu_write_bound(bs_device_session *s, bs_error *error)
{
    bs_device_bound *bound = bs_cu_table<bs_device_bound>(s, s->layout.bound_at);
    s->any_staged = false;
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++) {
        if (!s->at[n].entry)
            continue;
        bs_cu_locate(s, n);
        bs_device_bound *b = &bound[s->at[n].entry];
        memset(b, 0, sizeof *b);
        b->address = s->at[n].address;
        b->bytes = (int32_t)bs_dtype_bytes(bs_client_bound(s->client, n)->buffer.dtype);
        for (int32_t i = 0; i < BS_MAX_RANK; i++) {
            b->stride[i] = (int32_t)s->at[n].stride[i];
            if (b->stride[i] != s->at[n].stride[i])
                return bs_fail(error, BS_ERROR_LIMIT,
                               "\"%s\": a stride of its buffer is %lld elements, a GPU's kernels count to 2^31 - 1",
                               bs_node_name(&s->client->graph->nodes[n]), (long long)s->at[n].stride[i]);
        }
    }
    return BS_OK;
}

/* Writes this run's dimensions, buffers, offsets of segments and cache lengths. */
static bs_status bs_cu_write_extents(bs_device_session *s, bool same_buffers, bs_error *error)
{
    const bs_device_client *c = s->client;
    uint8_t *to = bs_cu_table<uint8_t>(s, s->layout.segments_at);
    int32_t *dims = bs_cu_table<int32_t>(s, s->layout.dims_at);
    for (int32_t d = 0; d < c->graph->n_dims; d++)
        dims[d] = (int32_t)c->dims[d];
    for (int32_t d = 1; d < c->graph->n_domains; d++)
        if (c->offsets[d])
            memcpy(to + bs_device_offsets_place(c->plan, d), c->offsets[d],
                   4 * (size_t)(c->dims[bs_segment_dim(c->graph, d)] + 1));
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        if (bs_client_bound(c, n)->cache_lengths)
            memcpy(to + bs_device_cache_lengths_place(c->plan, n), bs_client_bound(c, n)->cache_lengths,
                   4 * (size_t)c->dims[c->graph->values[c->graph->nodes[n].first_out].dims[0]]);
    return same_buffers ? BS_OK : bs_cu_write_bound(s, error);
}

static bs_status bs_cu_upload(bs_device_session *s, uint64_t from, uint64_t bytes, bs_error *error)
{
    if (bytes == 0)
        return BS_OK;
    return bs_cu_copy(s, s->memory + s->layout.tables + from, bs_cu_table<uint8_t>(s, from), bytes,
                      cudaMemcpyHostToDevice, "copying tables to the device", error);
}

/* Operand number i as it is in this run, for the host: a copy, because the table may still be under way. */
static bs_device_operand bs_cu_operand_here(const bs_device_session *s, int32_t i)
{
    bs_device_operand o = bs_cu_table<bs_device_operand>(s, s->layout.operands_at)[i];
    bs_cu_extend_operand(bs_cu_table<int32_t>(s, s->layout.dims_at),
                         bs_cu_table<bs_device_bound>(s, s->layout.bound_at), &o);
    return o;
}

static bs_status bs_cu_write_tables(bs_device_session *s, bs_error *error)
{
    const bs_device_client *c = s->client;
    bs_cu_tables l;
    memset(&l, 0, sizeof l);
    l.client = c;
    l.graph = c->graph;
    l.plan = c->plan;
    l.layout = &s->layout;
    l.bound = s->at;
    l.memory = (uint64_t)(uintptr_t)s->memory;
    l.weights = (uint64_t)(uintptr_t)s->client->weights;
    l.blocks = bs_cu_busy_blocks(s);
#ifndef BS_NO_CUBLAS
    l.cublas = s->cublas != NULL;
#endif
    l.steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    l.operands = bs_cu_table<bs_device_operand>(s, s->layout.operands_at);
    l.given = bs_cu_table<uint32_t>(s, s->layout.given_at);
    l.domains = bs_cu_table<bs_device_domain>(s, s->layout.domains_at);
    l.decisions = bs_cu_table<bs_device_decision>(s, s->layout.decisions_at);
    bs_cu_write_domains(s);
    bs_status status = bs_cu_write_tables(&l, &s->launches, bs_cu_table<bs_device_part>(s, s->layout.parts_at), error);
    if (status != BS_OK)
        return status;
    bs_cu_write_derived(s);
    s->program.n_operands = l.n_operands;
    s->program.n_domains = c->graph->n_domains;
    return bs_cu_upload(s, 0, s->layout.dims_at, error);
}

#endif
/* ==== end src/cuda/tables.cuh ================================================================= */

static const char *bs_cu_launch_name(int32_t kernel)
{
    static const char *const names[] = {
        "none",
#define BS_CU_NAME(name) #name,
        BS_CU_KERNELS(BS_CU_NAME) BS_CU_OTHER_LAUNCHES(BS_CU_NAME)
#undef BS_CU_NAME
    };
    return names[kernel];
}

/* Whether a launch is the one that its steps were made for: others follow it, on the same steps. */
static bool bs_cu_ledger_leads(const bs_device_launch *l, const bs_device_step *step)
{
    return bs_cu_is_region(l->kernel) || l->kernel == step->kernel;
}

/* ----------------------------------------------------------------------------------------- identities, weights */

/* Whether a is stored in the order in which b is; dimension i of a is turned[i] of b. */
static bool bs_cu_ledger_in_order(const bs_device_operand *a, const bs_device_operand *b, const int32_t *turned)
{
    bool same = a->rank == b->rank;
    for (int32_t j = 1; same && j < a->rank; j++)
        for (int32_t i = 0; i < j; i++) {
            const int32_t k = turned ? turned[i] : i, l = turned ? turned[j] : j;
            same = same && (a->dim[i] == 1 || a->dim[j] == 1 ||
                            (a->stride[i] > a->stride[j]) == (b->stride[k] > b->stride[l]));
        }
    return same;
}

/* Whether elements lie one behind the other, the last dimension fastest. */
static bool bs_cu_ledger_is_line(const bs_device_operand *o)
{
    int64_t stride = 1;
    bool line = o->cell == 0;
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        line = line && (o->dim[i] == 1 || o->stride[i] == stride);
        stride *= o->dim[i];
    }
    return line;
}

/* Whether a step copies elements as they are, and as they lie: nothing changes but the place. To and from the shared
 * memory of a tile is none. */
static bool bs_cu_ledger_is_identity(const bs_device_session *s, const bs_device_step *step)
{
    if (step->n_in == 0 || step->n_out == 0)
        return false;
    const bs_device_operand out = bs_cu_operand_here(s, step->operands + step->n_in);
    bs_device_operand in = bs_cu_operand_here(s, step->operands);
    for (int32_t i = 1; i < step->n_in && in.base == 0; i++)
        in = bs_cu_operand_here(s, step->operands + i); /* of the paths that give a value the first */
    int32_t turned[BS_MAX_AXES];
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        turned[i] = step->p[i].i;
    if (in.dtype != out.dtype || in.place == BS_AT_TILE || out.place == BS_AT_TILE)
        return false;
    switch (step->kernel) {
    case BS_CU_store:
    case BS_CU_append:
    case BS_CU_fill:
    case BS_CU_slice: return bs_cu_ledger_in_order(&in, &out, NULL);
    case BS_CU_paths:
        return step->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SELECT && bs_cu_ledger_in_order(&in, &out, NULL);
    case BS_CU_transpose: return bs_cu_ledger_in_order(&out, &in, turned);
    case BS_CU_reshape:
        return step->p[BS_CU_RESHAPE_TURNED].i == BS_CU_TURN_NONE && bs_cu_ledger_is_line(&in) &&
               bs_cu_ledger_is_line(&out);
    default: return false;
    }
}

static uint64_t bs_cu_ledger_weights(const bs_device_session *s, const bs_device_step *step)
{
    const bs_plan *p = s->client->plan;
    return bs_bytes_figure(p->nodes[p->nodes[step->node].owner].prepared_bytes);
}

/* ------------------------------------------------------------------------------------------------- counting */

/* The record of a launch; NULL: there is no room for it. One of a part of a region is the region's. */
static bs_cuda_launch *bs_cu_ledger_of(const bs_device_session *s, const bs_device_launch *l)
{
    const bs_device_launch *list = s->launches.list;
    int32_t at = (int32_t)(l - list);
    if (bs_cu_is_region(l->kernel))
        for (at = 0; !bs_cu_is_region(list[at].kernel) || l->first < list[at].first ||
                     l->first >= list[at].first + list[at].count;)
            at++;
    at++; /* [0]: bs_cu_begin */
    return at < s->device->room ? &s->device->launches[at] : NULL;
}

/* Asks the device about a step. of: whose rows are to be told. */
static bs_status bs_cu_ledger_ask(bs_device_session *s, int32_t step, int32_t of, bs_cu_when when,
                                  bs_cu_counted *counted, bs_error *error)
{
    static_assert(sizeof *counted <= BS_ALIGNMENT, "the results of a run, which come later, have room for it");
    BS_LAUNCH(bs_cu_count_step, 1, (unsigned)s->threads, 0, s->stream, s->program, step, of, when,
              bs_cu_at<bs_cu_counted>(s->pinned_there + s->layout.results));
    bs_status status = bs_cu_check(cudaGetLastError(), "counting a step", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status == BS_OK)
        memcpy(counted, s->pinned + s->layout.results, sizeof *counted);
    return status;
}

static void bs_cu_ledger_moves(const bs_device_session *s, const bs_device_step *step, int64_t bytes,
                               bs_cuda_launch *record)
{
    record->bytes += (uint64_t)bytes;
    record->identity_bytes += bs_cu_ledger_is_identity(s, step) ? (uint64_t)bytes : 0;
}

/* A region: its tiles; what its steps have moved afterwards without what they had before. */
static bs_status bs_cu_ledger_region(bs_device_session *s, const bs_device_launch *l, bool after, int32_t blocks,
                                     bs_cuda_launch *record, bs_error *error)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_status status = BS_OK;
    int64_t tiles = 0;
    for (int32_t k = l->first; k < l->first + l->count; k++) {
        bs_cu_counted c = {0, 0, 0, 0};
        for (int32_t i = parts[k].first; i < parts[k].first + parts[k].count && status == BS_OK; i++) {
            status = bs_cu_ledger_ask(s, i, parts[k].domain, after ? BS_CU_AFTER_TILES : BS_CU_BEFORE_TILES, &c, error);
            bs_cu_ledger_moves(s, &steps[i], after ? c.bytes : -c.bytes, record);
            record->bytes += after && c.all > 0 ? bs_cu_ledger_weights(s, &steps[i]) : 0;
        }
        tiles += bs_ceil_div(c.rows, parts[k].tile_rows);
    }
    record->items += after ? tiles : 0;
    record->empty += after && tiles < blocks ? blocks - tiles : 0;
    return status;
}

static bs_status bs_cu_ledger_steps(bs_device_session *s, const bs_device_launch *l, int32_t blocks,
                                    bs_cuda_launch *record, bs_error *error)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_status status = BS_OK;
    int64_t items = 0, all = 0;
    for (int32_t k = l->first; k < l->first + l->count && status == BS_OK; k++) {
        const bs_device_step *step = &steps[k];
        bs_cu_counted c = {0, 0, 0, 0};
        status = bs_cu_ledger_ask(s, k, step->domain, BS_CU_NOW, &c, error);
        if (bs_cu_sees_all_rows(l->kernel)) { /* a block a chunk of rows, or one for all */
            all = blocks;
            items = bs_max_i64(1, bs_min_i64(bs_ceil_div(c.rows, step->batch), blocks));
        } else {
            all += c.all;
            items += c.items;
        }
        if (!bs_cu_ledger_leads(l, step))
            continue;
        bs_cu_ledger_moves(s, step, c.bytes, record);
        record->bytes += c.rows > 0 ? bs_cu_ledger_weights(s, step) : 0;
    }
    record->items += items;
    record->empty += all - items + (all < blocks ? blocks - all : 0);
    return status;
}

/* Counts a launch: called before it and, after, when it is queued. */
static bs_status bs_cu_ledger_launch(bs_device_session *s, const bs_device_launch *l, bool after, bs_error *error)
{
    bs_cuda_launch *record = s->device->launches ? bs_cu_ledger_of(s, l) : NULL;
    const int32_t blocks = bs_cu_blocks(s, l);
    if (!record || (after && !bs_cu_is_region(l->kernel)))
        return BS_OK;
    record->times += !after;
    record->blocks = bs_max_i32(record->blocks, blocks);
    if (bs_cu_is_region(l->kernel))
        return bs_cu_ledger_region(s, l, after, blocks, record, error);
    if (bs_cu_is_kernel(l->kernel) || blocks == 0)
        return bs_cu_ledger_steps(s, l, blocks, record, error);
    record->items += blocks; /* bs_cu_extend */
    return BS_OK;
}

/* Empty records of all launches of the plan, as a run begins. */
static void bs_cu_ledger_begin(bs_device_session *s)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_cu_device *d = s->device;
    if (!d->launches) /* others may run on this device meanwhile: nothing is written */
        return;
    d->recorded = 1 + s->launches.count;
    for (int32_t k = 0; k < d->recorded && k < d->room; k++) {
        bs_cuda_launch *record = &d->launches[k];
        memset(record, 0, sizeof *record);
        record->kernel = k ? bs_cu_launch_name(s->launches.list[k - 1].kernel) : "begin";
        if (k == 0) {
            record->times = 1;
            record->blocks = BS_CU_TABLE_BLOCKS;
            record->items = BS_CU_TABLE_BLOCKS;
            continue;
        }
        const bs_device_launch *l = &s->launches.list[k - 1];
        const bool region = bs_cu_is_region(l->kernel);
        record->node = s->client->graph->nodes[steps[region ? parts[l->first].first : l->first].node].number;
        for (int32_t i = l->first; i < l->first + l->count; i++)
            record->steps += region ? parts[i].count : 1;
    }
}

/* --------------------------------------------------------------------------------------------------- the least */

/* Rows of a domain in the run that has ended, of all trips and tiles together. */
static int64_t bs_cu_ledger_rows_of_run(const bs_device_session *s, int32_t domain)
{
    const bs_device_client *c = s->client;
    const bs_domain *d = &c->graph->domains[domain];
    if (d->kind == BS_DOMAIN_PATH)
        return c->counts[c->graph->routers[d->router].first_path + d->path];
    return domain == 0 ? 1 : bs_domain_maker(c->graph, domain) ? c->dims[d->rows] : c->domains[domain].count;
}

/* The node whose buffer is entry `bound` of the table of what is bound. */
static int32_t bs_cu_ledger_bound_node(const bs_device_session *s, int32_t bound)
{
    int32_t n = s->client->graph->n_nodes - 1;
    while (n > 0 && (bound == 0 || s->at[n].entry != bound))
        n--;
    return n;
}

/* Whether a step before number `at` that had rows did the same: has these weights, or this operand. */
static bool bs_cu_ledger_before(const bs_device_session *s, int32_t at, const bs_device_step *weights,
                                const bs_device_operand *operand)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    const bs_device_operand *all = bs_cu_table<bs_device_operand>(s, s->layout.operands_at);
    bool found = false;
    for (int32_t k = 0; k < at && !found; k++) {
        if (bs_cu_ledger_rows_of_run(s, steps[k].domain) == 0)
            continue;
        found = weights && steps[k].unit == weights->unit && steps[k].prepared == weights->prepared &&
                bs_cu_ledger_weights(s, &steps[k]) > 0;
        for (int32_t i = steps[k].operands; operand && i < steps[k].operands + steps[k].n_in + steps[k].n_out; i++)
            found = found || (all[i].bound == operand->bound && (operand->bound || all[i].base == operand->base));
    }
    return found;
}

/* What must move of operand i of a step, if no step before has moved it: an input or output that is bound, a constant.
 */
static uint64_t bs_cu_ledger_least_operand(const bs_device_session *s, int32_t at, const bs_device_step *step,
                                           int32_t i)
{
    const bs_device_client *c = s->client;
    const bs_device_operand o = bs_cu_operand_here(s, step->operands + i),
                            out = bs_cu_operand_here(s, step->operands + step->n_in);
    const int32_t node = bs_cu_ledger_bound_node(s, o.bound);
    const bs_node *n = &c->graph->nodes[node];
    const uint64_t weights = (uint64_t)(uintptr_t)c->weights,
                   whole = bs_bytes_figure(c->plan->weight_bytes);
    const bool constant = o.place == BS_AT_ROOT && o.bound == 0 && o.base >= weights && o.base - weights < whole;
    for (int32_t k = 0; k < i; k++) { /* twice in one step */
        const bs_device_operand *twin = bs_cu_table<bs_device_operand>(s, s->layout.operands_at) + step->operands + k;
        if (twin->bound == o.bound && (o.bound || twin->base == o.base))
            return 0;
    }
    if (!(constant || (node && (bs_node_is_input(n) || bs_node_is_output(n)))) || bs_cu_ledger_before(s, at, NULL, &o))
        return 0;
    uint64_t bytes = bs_dtype_bytes((bs_dtype)o.dtype);
    if (constant) {
        const int64_t read = bs_cu_product(out.dim, out.rank) * bs_cu_ledger_rows_of_run(s, step->domain);
        const int64_t elements = bs_cu_product(o.dim, o.rank);
        return bytes * (uint64_t)(bs_cu_ledger_reads_part(step->kernel) && read < elements ? read : elements);
    }
    const bs_value_info *v = &c->graph->values[bs_bound_value(c->graph, n)];
    for (int32_t d = 0; d < v->rank; d++)
        bytes *= (uint64_t)c->dims[v->dims[d]];
    return bytes;
}

static uint64_t bs_cu_ledger_least_step(const bs_device_session *s, int32_t at)
{
    const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + at;
    uint64_t bytes = 0;
    if (bs_cu_ledger_rows_of_run(s, step->domain) == 0)
        return 0;
    if (!bs_cu_ledger_before(s, at, step, NULL))
        bytes = bs_cu_ledger_weights(s, step);
    for (int32_t i = 0; i < step->n_in + step->n_out; i++)
        bytes += bs_cu_ledger_least_operand(s, at, step, i);
    return bytes;
}

/* A run has ended, and its counts are there. */
static void bs_cu_ledger_end(bs_device_session *s)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    for (int32_t k = 0; k < s->launches.count && s->device->launches && k + 1 < s->device->room; k++) {
        const bs_device_launch *l = &s->launches.list[k];
        bs_cuda_launch *record = &s->device->launches[k + 1];
        for (int32_t i = l->first; i < l->first + l->count; i++) {
            const bool region = bs_cu_is_region(l->kernel);
            const int32_t first = region ? parts[i].first : i, end = region ? first + parts[i].count : i + 1;
            for (int32_t at = first; at < end; at++)
                record->least_bytes += bs_cu_ledger_leads(l, &steps[at]) ? bs_cu_ledger_least_step(s, at) : 0;
        }
    }
}

extern "C" int32_t bs_cuda_launches(bs_device *device, bs_cuda_launch *launches, int32_t room)
{
    bs_cu_device *d = reinterpret_cast<bs_cu_device *>(device);
    if (!d)
        return 0;
    const int32_t recorded = d->recorded;
    d->launches = launches;
    d->room = launches ? room : 0;
    d->recorded = 0;
    return recorded;
}

#endif
/* ==== end src/cuda/ledger.cuh ================================================================= */

static bs_status bs_cu_launched(bs_error *error)
{
    return bs_cu_check(cudaGetLastError(), "launching a kernel", error);
}

/* The number of rows of a domain, which a router may have decided, and its first row among the rows of all paths. */
static bs_status bs_cu_rows(bs_device_session *s, int32_t domain, int32_t *first, int32_t *rows, bs_error *error)
{
    const bs_domain *d = &s->client->graph->domains[domain];
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    *rows = s->client->domains[domain].count;
    *first = 0;
    if (bs_domain_maker(s->client->graph, domain)) {
        const bs_status status = bs_cu_fetch(s, fetched, s->program.extents + d->rows, sizeof *fetched, error);
        *rows = fetched[0];
        return status;
    }
    if (d->kind != BS_DOMAIN_PATH)
        return BS_OK;
    const bs_status status = bs_cu_fetch(
        s, fetched, s->program.decisions + bs_cu_decision_at(s, d->router)->offsets + 4 * (size_t)d->path, 8, error);
    *first = fetched[0];
    *rows = fetched[1] - fetched[0];
    return status;
}

/* BS_OK, or the fault as an error that names the route and the row. */
static bs_status bs_cu_route_status(const bs_route_desc *desc, const bs_route_fault *fault, bs_error *error)
{
    const bs_status status = bs_route_fail(fault, error);
    if (status != BS_OK && fault->row >= 0)
        bs_error_prefix(error, "row %d: ", fault->row);
    if (status != BS_OK)
        bs_error_prefix(error, "route \"%s\": ", desc->name);
    return status;
}

/* A callback does not get the knob, but a knob that is NaN is an error whoever decides. */
static bs_status bs_cu_check_knob(bs_device_session *s, const bs_route_desc *desc, const bs_device_operand &operand,
                                  bs_error *error)
{
    float knob;
    uint8_t *here = s->pinned + s->layout.fetched;
    const bs_status status = bs_cu_fetch(s, here, bs_cu_at<const void>(operand.base),
                                         sizeof knob, error);
    if (status != BS_OK)
        return status;
    memcpy(&knob, here, sizeof knob);
    const bs_route_fault fault = bs_route_check_knob(knob);
    return bs_cu_route_status(desc, &fault, error);
}

/* Copies the scores of `rows` rows from `first` on to where the callback reads them, dense, and waits for them. */
static bs_status bs_cu_fetch_scores(bs_device_session *s, const bs_device_operand *score, int32_t first, int32_t rows,
                                    bs_error *error)
{
    const size_t width = 4 * (size_t)score->dim[0];
    const bs_status status = bs_cu_check(
        cudaMemcpy2DAsync(s->pinned + s->layout.asked, width,
                          bs_cu_at<const uint8_t>(score->base) + first * score->row_bytes,
                          (size_t)score->row_bytes, width, (size_t)rows, cudaMemcpyDeviceToHost, s->stream),
        "copying scores from the device", error);
    return status == BS_OK ? bs_cu_session_settle(s, error) : status;
}

/* Calls the callback, which chooses by the scores. */
static bs_status bs_cu_ask_caller(const bs_route_desc *desc, const bs_route_callback *callback,
                                  const bs_operand_view *view, int32_t rows, int32_t *chosen, float *gates,
                                  bs_error *error)
{
    bs_route_fault fault;
    const bs_status status = bs_route_ask(callback, view, desc->paths, rows, chosen, gates, &fault);
    return status == BS_OK ? bs_cu_route_status(desc, &fault, error)
                           : bs_fail(error, status, "route \"%s\": its callback failed: %s", desc->name,
                                     bs_status_text(status));
}

/* A router with a callback: fetches its scores and copies the answer to the device. The step packs it. */
static bs_status bs_cu_ask(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bs_router_info *info = &c->graph->routers[l->callback];
    const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + l->first;
    const bs_device_operand score = bs_cu_operand_here(s, step->operands);
    uint8_t *asked = s->pinned + s->layout.asked;
    const bs_device_decision *d = bs_cu_decision_at(s, l->callback);
    int32_t first, rows;
    bs_status status = bs_cu_rows(s, info->domain, &first, &rows, error);
    if (status != BS_OK || rows == 0)
        return status;
    if (step->n_in > 1)
        status = bs_cu_check_knob(s, info->desc, bs_cu_operand_here(s, step->operands + 1), error);
    if (status == BS_OK)
        status = bs_cu_fetch_scores(s, &score, first, rows, error);
    if (status != BS_OK)
        return status;
    const bs_operand_view view = {asked, (bs_dtype)score.dtype, score.dim[0], score.dim[0], 1};
    int32_t *chosen = reinterpret_cast<int32_t *>(asked + bs_device_scores_bytes(c->plan, l->callback));
    float *gates = reinterpret_cast<float *>(chosen) + bs_aligned_floats(rows);
    status = bs_cu_ask_caller(info->desc, &c->callbacks[l->callback], &view, rows, chosen, gates, error);
    if (status == BS_OK)
        status = bs_cu_copy(s, s->program.decisions + d->chosen, chosen, 4 * (uint64_t)rows, cudaMemcpyHostToDevice,
                            "copying an answer to the device", error);
    return status == BS_OK ? bs_cu_fetch(s, s->program.decisions + d->gates, gates, 4 * (size_t)rows, error) : status;
}

#ifndef BS_NO_CUBLAS
static bs_status bs_cu_run_cublas(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bool here = bs_cu_cublas_here(s);
    for (int32_t k = l->first; k < l->first + l->count; k++) {
        const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + k;
        const bs_device_operand x = bs_cu_operand_here(s, step->operands),
                                y = bs_cu_operand_here(s, step->operands + step->n_in);
        bs_cu_node n = bs_cu_node_of(c, step, bs_cu_table<bs_device_operand>(s, s->layout.operands_at), NULL,
                                    bs_cu_busy_blocks(s), s->layout.scratch_bytes == 0, true);
        n.in = &x;
        n.out = &y;
        if (!here || !bs_cu_linear_cublas(s->cublas, s->stream, &n, step, c->weights + step->prepared,
                                          c->domains[step->domain].count))
            return bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: %s \"%s\" failed", bs_op_get(n.node->op)->name,
                           bs_node_name(n.node));
    }
    return bs_cu_launched(error);
}
#endif

static bs_status bs_cu_run_extend(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    BS_LAUNCH(bs_cu_extend, (unsigned)bs_cu_blocks(s, l), (unsigned)s->threads, 0, s->stream, s->program, l->first,
              l->count);
    return bs_cu_launched(error);
}

static bs_status bs_cu_run_region(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    BS_LAUNCH(bs_cu_region, (unsigned)bs_cu_blocks(s, l), (unsigned)s->threads, (size_t)s->shared, s->stream,
              s->program, l->first, l->count);
    return bs_cu_launched(error);
}

static bs_status bs_cu_run_kernel(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    bs_cu_launch_kernel(s->program, *l, (unsigned)bs_cu_blocks(s, l), s->threads, s->stream);
    return bs_cu_launched(error);
}

/* How a launch reaches the device, by what it runs. */
static bs_status (*const bs_cu_runs[])(bs_device_session *s, const bs_device_launch *l, bs_error *error) = {
    NULL,
#define BS_CU_RUN_KERNEL(name) bs_cu_run_kernel,
#define BS_CU_RUN_OTHER(name) bs_cu_run_##name,
    BS_CU_KERNELS(BS_CU_RUN_KERNEL) BS_CU_OTHER_LAUNCHES(BS_CU_RUN_OTHER)
#undef BS_CU_RUN_OTHER
#undef BS_CU_RUN_KERNEL
};

static bs_status bs_cu_run_launch(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    bs_status status = l->callback ? bs_cu_ask(s, l, error) : BS_OK;
    if (l->items == 0 || status != BS_OK)
        return status;
    status = bs_cu_ledger_launch(s, l, false, error);
    if (status == BS_OK)
        status = bs_cu_runs[l->kernel](s, l, error);
    return status == BS_OK ? bs_cu_ledger_launch(s, l, true, error) : status;
}

#endif
/* ==== end src/cuda/run.cuh ==================================================================== */

#define BS_CU_CONDITIONAL (CUDART_VERSION >= 12040)

#if BS_CU_CONDITIONAL
typedef cudaGraphConditionalHandle bs_cu_handle;
#else
typedef unsigned long long bs_cu_handle;
#endif

/* ------------------------------------------------------------------------------------------------- rows */

/* Sets *any to whether any step of a branch has rows; decides: the condition of the node `handle` too. */
__global__ void bs_cu_any_rows(BS_CU_ARGUMENT bs_cu_program program, int32_t first, int32_t count, int32_t *any,
                              bs_cu_handle handle, bool decides)
{
    const bs_cu_tile t = bs_cu_everything(&program, NULL, NULL);
    bool any_rows = false;
    for (int32_t k = bs_cu_thread(); k < count; k += bs_cu_threads())
        any_rows = any_rows || bs_cu_count(t, program.steps + first + k) > 0;
    const bool some = __syncthreads_or(any_rows) != 0 && program.status[BS_DEVICE_FAILED] == 0;
    if (threadIdx.x != 0)
        return;
    *any = some;
#if BS_CU_CONDITIONAL
    if (decides)
        cudaGraphSetConditional(handle, some);
#else
    (void)handle, (void)decides;
#endif
}

/* Queues the kernel that finds out whether any step of a branch has rows. decides: for the node `handle`. */
static bs_status bs_cu_queue_any_rows(bs_device_session *s, int32_t at, int32_t count, bs_cu_handle handle,
                                      bool decides, bs_error *error)
{
    int32_t steps = 0;
    for (int32_t k = at; k < at + count; k++)
        steps += s->launches.list[k].count;
    BS_LAUNCH(bs_cu_any_rows, 1, 64, 0, s->stream, s->program, s->launches.list[at].first, steps,
              s->program.status + BS_DEVICE_ANY, handle, decides);
    return bs_cu_launched(error);
}

/* The same of one launch for the host, which waits for the answer. */
static bs_status bs_cu_ask_host(bs_device_session *s, int32_t at, bool *any, bs_error *error)
{
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    bs_status status = bs_cu_queue_any_rows(s, at, 1, 0, false, error);
    if (status == BS_OK)
        status = bs_cu_fetch(s, fetched, s->program.status + BS_DEVICE_ANY, sizeof *fetched, error);
    *any = status == BS_OK && fetched[0];
    return status;
}

/* ------------------------------------------------------------------------------------------------- capture */

static void bs_cu_drop_graph(bs_device_session *s)
{
    if (s->exec) {
        cudaStreamSynchronize(s->run_stream); /* it may be running */
        cudaGraphExecDestroy(s->exec);
    }
    if (s->graph)
        cudaGraphDestroy(s->graph);
    s->exec = NULL;
    s->graph = NULL;
    s->last = NULL;
}

/* From here on, what is queued on the private stream becomes nodes that follow the last one. Thread-local: calls of
 * other threads do not disturb the capture. */
static bs_status bs_cu_capture_open(bs_device_session *s, bs_error *error)
{
#if BS_CU_CONDITIONAL
    if (bs_cu_has_nodes(s))
        return bs_cu_check(cudaStreamBeginCaptureToGraph(s->private_stream, s->graph, s->last ? &s->last : NULL, NULL,
                                                         s->last ? 1 : 0, cudaStreamCaptureModeThreadLocal),
                           "capturing", error);
#endif
    return bs_cu_check(cudaStreamBeginCapture(s->private_stream, cudaStreamCaptureModeThreadLocal), "capturing", error);
}

static bs_status bs_cu_capture_close(bs_device_session *s, bs_error *error)
{
    cudaGraph_t captured = NULL;
    bs_status status = BS_OK;
#if BS_CU_CONDITIONAL
    if (bs_cu_has_nodes(s)) {
        cudaStreamCaptureStatus active;
        const cudaGraphNode_t *nodes = NULL;
        size_t count = 0;
#if CUDART_VERSION >= 13000
        status = bs_cu_check(cudaStreamGetCaptureInfo(s->private_stream, &active, NULL, NULL, &nodes, NULL, &count),
                             "capturing", error);
#else
        status = bs_cu_check(cudaStreamGetCaptureInfo_v2(s->private_stream, &active, NULL, NULL, &nodes, &count),
                             "capturing", error);
#endif
        if (status == BS_OK && count == 1)
            s->last = nodes[0];
    }
#endif
    const bs_status ended = bs_cu_check(cudaStreamEndCapture(s->private_stream, &captured), "capturing",
                                        status == BS_OK ? error : NULL);
    if (!bs_cu_has_nodes(s))
        s->graph = captured;
    return status == BS_OK ? ended : status;
}

#if BS_CU_CONDITIONAL
/* Adds an IF or a WHILE node after what was captured: its condition is `handle`, its body the empty graph *body. */
static bs_status bs_cu_add_conditional(bs_device_session *s, cudaGraphConditionalNodeType type,
                                       cudaGraphConditionalHandle handle, cudaGraph_t *body, bs_error *error)
{
    cudaGraphNodeParams params = {};
    cudaGraphNode_t node;
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    const cudaError_t e = cudaGraphAddNode(&node, s->graph, s->last ? &s->last : NULL, NULL, s->last ? 1 : 0, &params);
#else
    const cudaError_t e = cudaGraphAddNode(&node, s->graph, s->last ? &s->last : NULL, s->last ? 1 : 0, &params);
#endif
    if (e == cudaSuccess) {
        s->last = node;
        *body = params.conditional.phGraph_out[0];
    }
    return bs_cu_check(e, "adding a conditional node", error);
}

/* From here on, what is queued on the private stream becomes nodes of `body`. */
static bs_status bs_cu_body_open(bs_device_session *s, cudaGraph_t body, bs_error *error)
{
    return bs_cu_check(
        cudaStreamBeginCaptureToGraph(s->private_stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal),
        "capturing a branch", error);
}

static bs_status bs_cu_body_close(bs_device_session *s, bs_error *error)
{
    cudaGraph_t same = NULL;
    return bs_cu_check(cudaStreamEndCapture(s->private_stream, &same), "capturing a branch", error);
}
#endif

/* -------------------------------------------------------------------------------------------------- a graph */

static bs_status bs_cu_graph_begin(bs_device_session *s, bs_error *error)
{
    bs_status status = BS_OK;
#if BS_CU_CONDITIONAL
    if (bs_cu_has_nodes(s))
        status = bs_cu_check(cudaGraphCreate(&s->graph, 0), "making a graph", error);
#endif
    s->last = NULL;
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    if (s->capturing)
        s->stream = s->private_stream;
    return status;
}

/* Instantiates what was captured, and launches it for this run. */
static bs_status bs_cu_graph_end(bs_device_session *s, bs_error *error)
{
    bs_status status = bs_cu_capture_close(s, error);
    s->capturing = false;
    s->stream = s->run_stream;
#if CUDART_VERSION >= 12000
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphInstantiate(&s->exec, s->graph, 0), "instantiating a graph", error);
#else
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphInstantiate(&s->exec, s->graph, NULL, NULL, 0), "instantiating a graph", error);
#endif
    if (status == BS_OK)
        status = bs_cu_check(cudaGraphLaunch(s->exec, s->stream), "launching a graph", error);
    return status;
}

/* After a failure while capturing: the private stream is as before, and graphs are not tried again. */
static void bs_cu_graph_give_up(bs_device_session *s)
{
    cudaGraph_t captured = NULL;
    if (s->capturing && cudaStreamEndCapture(s->private_stream, &captured) == cudaSuccess && captured &&
        captured != s->graph && !bs_cu_has_nodes(s)) /* that one's are parts of its graph */
        cudaGraphDestroy(captured);
    cudaGetLastError();
    bs_cu_drop_graph(s);
    s->capturing = false;
    s->stream = s->run_stream;
    s->no_graph = true;
}

#endif
/* ==== end src/cuda/capture.cuh ================================================================ */

/* A loop at top level that is being launched or captured. */
struct bs_cu_round {
    int32_t begin, again; /* the launches of its decisions */
    int32_t trips;        /* so far; captured so far of a WHILE node's */
    bool around_others;   /* loops stand in it */
    bs_cu_handle handle;  /* of its WHILE node, */
    cudaGraphNode_t node; /* which is this, */
    cudaGraph_t around;   /* and stands in this graph */
};

struct bs_cu_rounds {
    bs_cu_round list[BS_MAX_LOOP_DEPTH];
    int32_t count;
};

enum {
    BS_CU_TRIPS_FIRST = 8,   /* in mode STREAM the host asks after 8 trips, 16, 32, then every 64 */
    BS_CU_TRIPS = 64,
    BS_CU_TRIPS_A_ROUND = 4, /* of a WHILE node without loops in it: a round takes as long as two launches or three */
    BS_CU_UNROLLED = 1 << 12 /* launches of a graph without WHILE nodes, at most */
};

static const bs_loop_info *bs_cu_loop_of(const bs_device_session *s, int32_t begin)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    return &s->client->graph->routers[steps[s->launches.list[begin].first].router].loop;
}

#if BS_CU_CONDITIONAL
/* From here on what is queued is captured into the body of a WHILE node. */
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&r->handle, s->graph, 0, 0), "making a condition",
                                   error);
    r->around = s->graph;
    if (status == BS_OK)
        status = bs_cu_queue_any_rows(s, r->again, 1, r->handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeWhile, r->handle, &body, error);
    if (status != BS_OK)
        return status;
    r->node = s->last;
    s->graph = body;
    s->last = NULL;
    status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}

static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    bs_status status = bs_cu_queue_any_rows(s, r->again, 1, r->handle, true, error);
    if (status != BS_OK)
        return status;
    status = bs_cu_capture_close(s, error);
    s->graph = r->around;
    s->last = r->node;
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes"); /* unreachable: graph.cuh */
}
static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes");
}
#endif

/* Behind launch k, the first decision of a loop. */
static bs_status bs_cu_enter_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t k, bs_error *error)
{
    for (int32_t i = 0; i < rounds->count; i++)
        rounds->list[i].around_others = true;
    bs_cu_round *r = &rounds->list[rounds->count++]; /* the builder bounds how deep loops nest */
    memset(r, 0, sizeof *r);
    r->begin = k;
    r->again = k + s->launches.list[k].round;
    return bs_cu_has_nodes(s) && s->capturing ? bs_cu_open_while(s, r, error) : BS_OK;
}

/* Trips that the host launches of a loop, at most: where an extent that it knows says how many, those. A graph serves
 * all extents. */
static int32_t bs_cu_most_trips(const bs_device_session *s, const bs_loop_info *loop)
{
    const bs_graph *g = s->client->graph;
    const bool known = loop->trips >= 0 && !s->capturing && g->dims[loop->trips].node == 0;
    return known ? (int32_t)s->client->dims[loop->trips] : loop->bound;
}

/* Whether the host asks after so many trips if there is another: only where rows end at different times. One that
 * records asks after each. */
static bool bs_cu_asks_after(const bs_device_session *s, const bs_loop_info *loop, int32_t trips)
{
    const bool ends = bs_cu_ends_apart(s->client->graph, loop),
               now_and_then = s->device->launches || trips % BS_CU_TRIPS == 0 ||
                              (trips >= BS_CU_TRIPS_FIRST && (trips & (trips - 1)) == 0);
    return ends && !s->capturing && now_and_then;
}

/* Behind launch *k, the second decision of the innermost loop: goes back to the first one, or on. */
static bs_status bs_cu_leave_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t *k, bs_error *error)
{
    bs_cu_round *r = &rounds->list[rounds->count - 1];
    const bs_loop_info *loop = bs_cu_loop_of(s, r->begin);
    bs_status status = BS_OK;
    bool more = ++r->trips < bs_cu_most_trips(s, loop);
    if (bs_cu_has_nodes(s) && s->capturing) {
        more = more && !r->around_others && r->trips < BS_CU_TRIPS_A_ROUND;
        *k = more ? r->begin : *k;
        rounds->count -= !more;
        return more ? BS_OK : bs_cu_close_while(s, r, error);
    }
    if (more && bs_cu_asks_after(s, loop, r->trips))
        status = bs_cu_ask_host(s, *k, &more, error);
    *k = more ? r->begin : *k;
    rounds->count -= !more;
    return status;
}

/* Launches with all trips that there may be, cut at BS_CU_UNROLLED. */
static int32_t bs_cu_unrolled(const bs_device_session *s)
{
    int64_t launches = 0, times[BS_MAX_LOOP_DEPTH + 1] = {1};
    int32_t depth = 0;
    for (int32_t k = 0; k < s->launches.count && launches < BS_CU_UNROLLED; k++) {
        const bs_device_launch *l = &s->launches.list[k];
        launches += times[depth];
        if (l->round > 0) {
            times[depth + 1] = bs_min_i64(times[depth] * bs_cu_loop_of(s, k)->bound, BS_CU_UNROLLED);
            depth++;
        }
        depth -= l->round < 0;
    }
    return (int32_t)bs_min_i64(launches, BS_CU_UNROLLED);
}

#endif
/* ==== end src/cuda/rounds.cuh ================================================================= */

/* ------------------------------------------------------------------------------------------------- branches */

/* Whether a step works on the rows of a path, of which there may be none; a body of a loop is not run without any. */
static bool bs_cu_on_path(const bs_device_session *s, const bs_device_step *step)
{
    const bs_domain *d = &s->client->graph->domains[step->domain];
    return d->kind == BS_DOMAIN_PATH && !bs_router_loops(s->client->graph, d->router);
}

/* How many launches from number `at` on are one branch: all of their steps are on paths, and may have no rows. */
static int32_t bs_cu_branch_length(const bs_device_session *s, int32_t at, int32_t end)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    int32_t count = 0;
    for (; at + count < end; count++) {
        const bs_device_launch *l = &s->launches.list[at + count];
        if (!bs_cu_is_kernel(l->kernel) || bs_cu_sees_all_rows(l->kernel))
            return count;
        for (int32_t k = l->first; k < l->first + l->count; k++)
            if (!bs_cu_on_path(s, &steps[k]))
                return count;
    }
    return count;
}

static bs_status bs_cu_run_launches(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t k = first; k < end && status == BS_OK; k++)
        status = bs_cu_run_launch(s, &s->launches.list[k], error);
    return status;
}

#if BS_CU_CONDITIONAL
/* Launches, captured into the empty graph of a conditional node. */
static bs_status bs_cu_capture_body(bs_device_session *s, cudaGraph_t body, int32_t at, int32_t count, bs_error *error)
{
    bs_status status = bs_cu_body_open(s, body, error);
    if (status != BS_OK)
        return status;
    status = bs_cu_run_launches(s, at, at + count, error);
    const bs_status ended = bs_cu_body_close(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? ended : status;
}

static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&handle, s->graph, 0, 0), "making a condition",
                                   error);
    if (status == BS_OK)
        status = bs_cu_queue_any_rows(s, at, count, handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeIf, handle, &body, error);
    if (status == BS_OK)
        status = bs_cu_capture_body(s, body, at, count, error);
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_run_if(bs_device_session *s, int32_t at, int32_t count, bs_error *error)
{
    return bs_cu_run_launches(s, at, at + count, error);
}
#endif

/* -------------------------------------------------------------------------------------------------- a run */

/* Launches [first, end) as the launch mode says. Where weights are streamed it is the interpreter that goes round
 * loops. */
static bs_status bs_cu_run_lowered(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    const bool decides = s->launch_mode == BS_LAUNCH_CONDITIONAL && s->capturing,
               goes_round = !bs_plan_streams(s->client->plan);
    bs_status status = BS_OK;
    bs_cu_rounds rounds;
    rounds.count = 0;
    for (int32_t k = first; k < end && status == BS_OK;) {
        const int32_t branch = decides ? bs_cu_branch_length(s, k, end) : 0, round = s->launches.list[k].round;
        status = branch > 0 ? bs_cu_run_if(s, k, branch, error) : bs_cu_run_launch(s, &s->launches.list[k], error);
        if (status == BS_OK && goes_round && round > 0)
            status = bs_cu_enter_loop(s, &rounds, k, error);
        else if (status == BS_OK && goes_round && round < 0)
            status = bs_cu_leave_loop(s, &rounds, &k, error);
        k += branch > 0 ? branch : 1;
    }
    if (bs_cu_has_nodes(s) && s->capturing && rounds.count > 0) /* it failed within */
        s->graph = rounds.list[0].around;
    return status;
}

/* Whether to capture this run: nothing in it needs the host, and with AUTO it is like the last one. */
static bool bs_cu_wants_graph(const bs_device_session *s, bool like)
{
    const bool wanted = s->launch_mode == BS_LAUNCH_GRAPH || s->launch_mode == BS_LAUNCH_CONDITIONAL ||
                        (s->launch_mode == BS_LAUNCH_AUTO && like);
    const bool unrolls = !bs_cu_has_nodes(s);
    if (!wanted || s->no_graph || s->device->launches || bs_plan_streams(s->client->plan) ||
        (unrolls && bs_cu_unrolled(s) == BS_CU_UNROLLED))
        return false;
    for (int32_t k = 0; k < s->launches.count; k++)
        if (s->launches.list[k].callback)
            return false;
    return true;
}

#endif
/* ==== end src/cuda/graph.cuh ================================================================== */
/* ==== begin src/cuda/slots.cuh ================================================================ */
/* slots.cuh - weights that come and go: where a unit is, the tiles of one part, fetching the counts of a decision, and
 * copies into slots.
 *
 * Readers prepare a layer in pinned memory and copy it on a stream of their own. A unit is published when its copies
 * are complete, and released when the host has waited for the kernels that read it. Relies on run.cuh. Must never
 * return from a copy that is still under way. */
#ifndef BS_CUDA_SLOTS
#define BS_CUDA_SLOTS

/* #include "cuda/run.cuh" */

static bs_status bs_cu_session_part(bs_device_session *s, int32_t part, bs_error *error)
{
    const bs_part *p = &s->client->plan->parts[part];
    const int64_t tiles = bs_ceil_div(s->client->domains[p->domain].count,
                                      s->client->plan->domains[p->domain].tile_rows);
    const bs_device_launch l = {BS_CU_region, p->index, 1, 0, 0, (int32_t)tiles, 0};
    return bs_cu_run_launch(s, &l, error);
}

/* Kernels find a unit's weights by an address in the device's memory. No kernel that is queued still reads this unit's
 * old address, so it may be overwritten. Its copy has a source of its own, as one of the tables may be under way. */
static bs_status bs_cu_session_place(bs_device_session *s, int32_t unit, const uint8_t *weights, bs_error *error)
{
    uint64_t *place = reinterpret_cast<uint64_t *>(s->pinned + s->layout.places) + unit;
    *place = (uint64_t)(uintptr_t)weights +
             (s->client->plan->desc.in_place ? s->pinned_there - (uint64_t)(uintptr_t)s->pinned : 0);
    return bs_cu_copy(s, s->memory + s->layout.tables + s->layout.units_at + (uint64_t)unit * sizeof *place, place,
                      sizeof *place, cudaMemcpyHostToDevice, "telling the device where weights are", error);
}

/* Fetches the status of the run so far, then the counts. */
static bs_status bs_cu_session_fetch_counts(bs_device_session *s, int32_t router, int32_t *counts, int32_t *node,
                                     bs_error *error)
{
    const bs_device_decision *d = bs_cu_decision_at(s, router);
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    bs_status status = bs_cu_copy(s, fetched, s->program.status, BS_DEVICE_STATUS * sizeof *fetched,
                                  cudaMemcpyDeviceToHost, "copying the status from the device", error);
    if (status == BS_OK)
        status = bs_cu_copy(s, fetched + BS_DEVICE_STATUS, s->program.decisions + d->counts,
                            (uint64_t)d->paths * sizeof *fetched, cudaMemcpyDeviceToHost,
                            "copying a decision from the device", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status != BS_OK)
        return status;
    memcpy(counts, fetched + BS_DEVICE_STATUS, (size_t)d->paths * sizeof *counts);
    return bs_cu_tell_status(s, fetched, node);
}

/* The extents that nodes made, from what was fetched into the results. */
static void bs_cu_tell_extents(bs_device_session *s)
{
    const int32_t *now = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.extents);
    for (int32_t d = 0; d < s->layout.n_dims; d++)
        if (s->client->graph->dims[d].node)
            s->client->dims[d] = now[d];
}

static bs_status bs_cu_session_fetch_extents(bs_device_session *s, int32_t *node, bs_error *error)
{
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    const uint64_t bytes = s->layout.extents + 4 * (uint64_t)s->layout.n_dims;
    const bs_status status =
        bs_cu_fetch(s, s->pinned + s->layout.results, s->memory + s->layout.decisions, bytes, error);
    if (status != BS_OK)
        return status;
    bs_cu_tell_extents(s);
    return bs_cu_tell_status(s, said, node);
}

static bs_status bs_cu_session_guess(bs_device_session *s, int32_t router, float *margins, bs_error *error)
{
    const size_t bytes = (size_t)s->client->graph->routers[router].desc->paths * sizeof *margins;
    float *fetched = reinterpret_cast<float *>(s->pinned + s->layout.fetched);
    const bs_status status = bs_cu_fetch(s, fetched, s->program.guesses, bytes, error);
    if (status == BS_OK)
        memcpy(margins, fetched, bytes);
    return status;
}

static bs_status bs_cu_session_copy(bs_device_session *s, int32_t lane, uint8_t *to, const uint8_t *from,
                                    uint64_t bytes)
{
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", NULL);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, s->lanes[lane]),
                             "copying weights", NULL);
    if (status == BS_OK)
        status = bs_cu_check(cudaStreamSynchronize(s->lanes[lane]), "waiting for weights", NULL);
    if (status != BS_OK)
        cudaStreamSynchronize(s->lanes[lane]); /* or the copy could land where something else lies by then */
    return status;
}

#endif
/* ==== end src/cuda/slots.cuh ================================================================== */

/* ---------------------------------------------------------------------------------------------------- run */

/* Queues the copies that come before all launches. Those of buffers may be shorter than in the run before, so they are
 * no part of a graph. */
static bs_status bs_cu_queue_inputs(bs_device_session *s, bool extents, bs_error *error)
{
    bs_status status = BS_OK;
    if (extents)
        status = bs_cu_upload(s, s->layout.dims_at, s->layout.tables_bytes - s->layout.dims_at, error);
    return status == BS_OK ? bs_cu_copy_bound(s, true, error) : status;
}

/* Queues the first launch. */
static bs_status bs_cu_queue_begin(bs_device_session *s, bs_error *error)
{
    BS_LAUNCH(bs_cu_begin, BS_CU_TABLE_BLOCKS, (unsigned)s->threads, 0, s->stream, s->program,
              s->client->graph->n_routers);
    return bs_cu_launched(error);
}

static bs_status bs_cu_queue_end(bs_device_session *s, bs_error *error)
{
    return bs_cu_copy(s, s->pinned + s->layout.results, s->memory + s->layout.decisions, s->layout.results_bytes,
                      cudaMemcpyDeviceToHost, "copying decisions from the device", error);
}

/* Queues the launches without a graph, after a capture that failed: none of them has been queued so far. */
static bs_status bs_cu_requeue(bs_device_session *s, int32_t launches, bs_error *error)
{
    bs_cu_graph_give_up(s);
    const bs_status status = bs_cu_queue_begin(s, error);
    return status == BS_OK ? bs_cu_run_lowered(s, 0, launches, error) : status;
}

static bs_status bs_cu_session_run(bs_device_session *s, int32_t first, int32_t end, bs_error *error)
{
    const bool captures = s->capturing;
    int32_t a = 0, b;
    if (s->replays)
        return BS_OK;
    while (a < s->launches.count && s->launches.list[a].instr < first)
        a++;
    for (b = a; b < s->launches.count && s->launches.list[b].instr < end;)
        b++;
    const bs_status status = bs_cu_run_lowered(s, a, b, captures ? NULL : error);
    return captures && status != BS_OK ? bs_cu_requeue(s, b, error) : status;
}

/* Writes what this run changes in the tables, and queues the copies before its launches. *like: the launches are those
 * of the run before. */
static bs_status bs_cu_prepare(bs_device_session *s, bool *like, bs_error *error)
{
    const bs_device_client *c = s->client;
    const size_t dims_bytes = (size_t)c->graph->n_dims * sizeof *s->dims;
    const bool first = !s->lowered, same_buffers = !first && bs_cu_same_buffers(s);
    const bool same_dims = !first && memcmp(s->dims, c->dims, dims_bytes) == 0,
               changes = !same_buffers || !same_dims || s->has_segments, lowered = bs_cu_is_lowered(s, same_buffers);
    bs_status status = BS_OK;
    if (changes || s->any_staged)
        status = bs_cu_settle(s, error);
    if (status == BS_OK && changes)
        status = bs_cu_write_extents(s, same_buffers, error);
    if (status == BS_OK && !lowered)
        status = bs_cu_write_tables(s, error);
    *like = !first && (!s->launches.fixed || (same_dims && same_buffers));
    memcpy(s->dims, c->dims, dims_bytes);
    for (int32_t k = 0; k < c->n_bound; k++)
        s->bound[k] = c->bound[k].buffer;
    if (status == BS_OK) {
        bs_cu_pack_inputs(s);
        status = bs_cu_queue_inputs(s, changes, error);
    }
    s->lowered = status == BS_OK; /* else all is written anew */
    return status;
}

/* A run whose launches are those of the last one launches its graph again, whatever its extents are. */
static bs_status bs_cu_session_begin(bs_device_session *s, bs_error *error)
{
    bool like = false;
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    s->replays = false;
    cudaGetLastError(); /* an error that was reported before is not one of this run's launches */
    if (status == BS_OK)
        status = bs_cu_prepare(s, &like, error);
    if (!like || s->device->launches)
        bs_cu_drop_graph(s);
    if (status != BS_OK)
        return status;
    bs_cu_ledger_begin(s);
    s->replays = s->exec != NULL;
    if (s->replays)
        return bs_cu_check(cudaGraphLaunch(s->exec, s->stream), "launching a graph", error);
    if (bs_cu_wants_graph(s, like) && (bs_cu_graph_begin(s, NULL) != BS_OK || bs_cu_queue_begin(s, NULL) != BS_OK))
        bs_cu_graph_give_up(s);
    return s->capturing ? BS_OK : bs_cu_queue_begin(s, error);
}

static bs_status bs_cu_session_end(bs_device_session *s, bs_error *error)
{
    const bool captures = s->capturing;
    bs_status status = s->replays ? BS_OK : bs_cu_queue_end(s, captures ? NULL : error);
    if (captures && (status != BS_OK || bs_cu_graph_end(s, NULL) != BS_OK)) {
        status = bs_cu_requeue(s, s->launches.count, error);
        status = status == BS_OK ? bs_cu_queue_end(s, error) : status;
    }
    if (status == BS_OK)
        status = bs_cu_copy_bound(s, false, error);
    const bs_status marked = bs_cu_mark(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? marked : status;
}

static bs_status bs_cu_session_launch_mode(bs_device_session *s, int32_t launch_mode, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    if (launch_mode == BS_LAUNCH_CONDITIONAL && !s->device->conditional)
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "CUDA graphs cannot decide here: toolkit and driver of CUDA 12.4 are needed");
    bs_cu_drop_graph(s);
    s->launch_mode = launch_mode;
    s->no_graph = false;
    return status;
}

/* ------------------------------------------------------------------------------------------------- the end */

/* What routers decided, for bs_decision_get. */
static void bs_cu_tell(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const uint8_t *results = s->pinned + s->layout.results;
    for (int32_t r = 1; r < c->graph->n_routers; r++) {
        const bs_device_decision *d = bs_cu_decision_at(s, r);
        if (!d->live)
            continue;
        const int32_t top = bs_plan_top_domain(c->graph, d->domain);
        memcpy(c->counts + c->graph->routers[r].first_path, results + d->sums, (size_t)d->paths * sizeof *c->counts);
        memcpy(&c->dropped[r], results + d->dropped, sizeof c->dropped[r]);
        memcpy(c->chosen[r], results + d->top, (size_t)c->domains[top].count * sizeof *c->chosen[r]);
    }
}

static bs_status bs_cu_session_wait(bs_device_session *s, int32_t *node, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    *node = 0;
    if (status != BS_OK)
        return status;
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    bs_cu_tell_extents(s);
    const bool failed = said[BS_DEVICE_FAILED] != BS_OK; /* then outputs are left alone */
    for (int32_t n = 1; !failed && n < s->client->graph->n_nodes; n++)
        if (bs_cu_writes(s, n))
            bs_cu_unpack(s, n);
    bs_cu_tell(s);
    bs_cu_ledger_end(s);
    return bs_cu_tell_status(s, said, node);
}

/* memory: the device's or the caller's, in one allocation. */
static bs_status bs_cu_session_zero(bs_device_session *s, uint8_t *memory, uint64_t bytes)
{
    void *there = bs_cu_there(memory);
    if (bs_cu_settle(s, NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    if (!there) {
        memset(memory, 0, (size_t)bytes);
        return BS_OK;
    }
    if (bs_cu_check(cudaMemsetAsync(there, 0, (size_t)bytes, s->stream), "clearing a state", NULL) !=
        BS_OK)
        return BS_ERROR_PLATFORM;
    return bs_cu_mark(s, NULL);
}

static void bs_cu_session_close(bs_device_session *s)
{
    bs_cu_settle(s, NULL);
    bs_cu_drop_graph(s);
    bs_cu_state_close(s);
}

const bs_device_api bs_cu_api = {
    bs_cu_state_open,    bs_cu_session_close,       bs_cu_session_load,   bs_cu_session_loaded,
    bs_cu_session_zero,  bs_cu_session_launch_mode, bs_cu_session_begin,  bs_cu_session_run,
    bs_cu_session_end,   bs_cu_session_wait,        bs_cu_session_part,   bs_cu_session_place,
    bs_cu_session_fetch_counts, bs_cu_session_fetch_extents, bs_cu_session_guess,
    bs_cu_session_settle, bs_cu_session_copy};

#endif
/* ==== end src/cuda/session.cuh ================================================================ */
/* ==== end src/cuda/cuda.cu ==================================================================== */
