/* brainstorm.h - dynamic neural networks in static memory.   MIT licence, see LICENSE.
 *
 * brainstorm runs networks that decide, while they run, which part of themselves to use: mixture of
 * experts, patch-routed super-resolution, early exits. One idea covers all of them: cells (patches, rows,
 * samples) are routed through blocks (subnets, experts), and what is not chosen costs nothing.
 *
 * WHAT IT DOES NOT DO
 *   It does not train, and computes in f32; u8, u16 and i32 where they are exact. f16 and bf16 are storage types.
 *   It does not allocate, print or exit, and has no state of its own: all of that is the caller's.
 *   It does not read ONNX, PyTorch's or ncnn's files: the importers in python/ make model files of them.
 *   It does not run on big-endian machines, and has no kernels for GPUs but NVIDIA's.
 *   It does not grow: what a run brings stays within the maxima with which the graph was built.
 *   Segments do not nest. What works across their rows (attention, reductions) stands outside routers: gather first.
 *   Nothing has been run on a Jetson board yet, and AArch64 under emulation only.
 *
 * CONTENTS
 *   this comment                 the build line, the smallest program, concepts, memory, errors, threads, limits
 *   configuration                version, macros that leave modules out, fixed sizes
 *   types                        bs_dtype, bs_tier, bs_dim, bs_shape, bs_buffer
 *   errors                       bs_status, bs_error
 *   arenas                       bs_arena, bs_memory
 *   platform                     threads, clock, files: yours, or POSIX
 *   graph                        making one; inputs, outputs, states; looking into one
 *   plan                         bs_plan_create, bs_plan_sizes, images of plans
 *   weights                      from a table of yours, or from any source
 *   streaming                    weights that do not fit in memory
 *   session                      bs_session_create, bs_bind, bs_run; what was decided
 *   CUDA                         the same on an NVIDIA GPU
 *   model files                  a graph and its weights in a file
 *   profiles                     recording what happens in a run (reading that again: brainstorm_replay.h)
 *   ops                          what all descriptors share; activations, padding
 *   ops: layers                  conv2d, conv1d, deconv2d, linear, lstm, gru, matmul
 *   ops: elements                arithmetic, comparisons, functions of one element, conversions
 *   ops: shapes                  concat, slice, roll, reshape, transpose, pad
 *   ops: softmax and norms       softmax, layer_norm, rms_norm, batch_norm, lrn
 *   ops: images                  pixel_shuffle, pool2d, resize
 *   ops: reductions              reduce, argmax, cumsum, topk
 *   ops: indices                 gather_rows, select, gather_elements, scatter_elements, scatter_rows
 *   ops: extents from data       arange, nonzero, unique, nms
 *   ops: constants and features  constant, patch_features
 *   rows and segments            rows of a tensor; ragged batches; rotary positions
 *   attention                    of segments, with a cache
 *   patches                      cells of a frame
 *   routers                      from scores to a decision
 *   blocks and gathers           what a path computes, and its rows back in place
 *   loops                        rows that go through a body again and again
 *   trees                        children, levels, structures that grow
 *
 * BUILD    Copy brainstorm.h and brainstorm.c into your project:
 *              cc -std=c11 -O3 -c brainstorm.c            link with: -lm -lpthread
 *          -ffast-math, -Ofast and the like are refused: checks for NaN would vanish, and results would differ. (Your
 *          own program may use them.)
 *
 * SMALLEST COMPLETE PROGRAM    This is examples/minimal.c; examples/minimal.cpp is the same from C++.
 *
 *     // Cleans a frame patch by patch: the noisier a patch, the more layers it goes through.
 *     #include "brainstorm.h"
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *
 *     BS_ALIGNED static uint8_t persistent[1 << 18], transient[1 << 18], staging[1 << 12];
 *     static uint8_t frame[128][192], clean[128][192];
 *     static const float blur[9] = {.0625f, .125f, .0625f, .125f, .25f, .125f, .0625f, .125f, .0625f};
 *     static int32_t path_of_energy[64]; // the router's table: a patch's energy, in buckets, to its path
 *
 *     static bs_value branch(bs_graph *g, bs_value x, void *depth)
 *     {
 *         x = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_F32});
 *         for (int i = 0; i < *(const int *)depth; i++)
 *             x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "blur", .out = 1, .no_bias = 1});
 *         return bs_convert(g, x, &(bs_convert_desc){.dtype = BS_U8});
 *     }
 *
 *     int main(void)
 *     {
 *         for (int y = 0; y < 128; y++)
 *             for (int x = 0; x < 192; x++) // three columns of patches: smooth, some noise, much noise
 *                 frame[y][x] = (uint8_t)(60 + y / 4 + rand() % (1 + x / 64 * (x / 64) * 8));
 *         for (int i = 0; i < 64; i++)
 *             path_of_energy[i] = i < 24 ? 0 : i < 52 ? 1 : 2;
 *
 *         bs_error error = {0};
 *         bs_memory memory = {0};
 *         bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
 *         bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
 *         bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
 *
 *         bs_graph *g = bs_graph_create(&memory.persistent, NULL);
 *         bs_value in = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, 128, 192)), out[3];
 *         bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 64}); // halo and edges are taken care of
 *         bs_value features = bs_patch_features(g, cells, BS_NONE, NULL);
 *         bs_value energy = bs_slice(g, features, &(bs_slice_desc){.length = 1});
 *         bs_route_desc by_table = {.name = "route", .protocol = BS_ROUTE_TABLE, .paths = 3, .keys = 64};
 *         bs_router route = bs_route(g, energy, BS_NONE, &by_table);
 *         out[0] = bs_branch(g, route, 0, "none", cells, branch, &(int){0});
 *         out[1] = bs_branch(g, route, 1, "soft", cells, branch, &(int){1});
 *         out[2] = bs_branch(g, route, 2, "strong", cells, branch, &(int){4});
 *         bs_output(g, "clean", bs_assemble(g, bs_gather(g, route, out, BS_NONE, NULL)));
 *
 *         const bs_tensor tensors[] = {{"blur.weight", BS_F32, 4, {1, 1, 3, 3}, blur},
 *                                      {"route.table", BS_I32, 1, {64}, path_of_energy}};
 *         const bs_tensor_table table = {tensors, 2};
 *         const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
 *         const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error); // bs_plan_sizes: its bytes
 *         bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : NULL;
 *
 *         const bs_buffer from = {frame, BS_U8, 3, {1, 128, 192}, {0}}, to = {clean, BS_U8, 3, {1, 128, 192}, {0}};
 *         bs_decision went;
 *         if (s && bs_bind(s, "frame", &from, &error) == BS_OK && bs_bind(s, "clean", &to, &error) == BS_OK &&
 *             bs_run(s, &error) == BS_OK && bs_decision_get(s, "route", &went) == BS_OK)
 *             printf("patches through 0, 1 and 4 layers: %d, %d, %d\n", (int)went.counts[0],
 *                    (int)went.counts[1], (int)went.counts[2]);
 *         else
 *             printf("%s\n", error.message);
 *         bs_session_close(s);
 *         return error.status != BS_OK;
 *     }
 *
 * CONCEPTS
 *   cell      the unit at which the network decides: a patch of a frame, a row, a sample
 *   domain    the set of cells that a value's rows stand for. Ops combine values of one domain, or take
 *             a value of the root domain (one row) as a captured operand. Checked when the graph is built.
 *   block     a straight-line part of the graph with its own group of weights: an expert, a subnet, an arm
 *   router    turns scores into a decision: which cells go to which blocks, with which gate
 *   decision  counts per path, offsets, cell ids, gates and the inverse map; several tensors may follow one
 *   scatter / gather   move rows by a decision
 *   plan      one fixed sequence of instructions and the offset of every byte, made ahead from the maxima;
 *             what varies in a run (row counts, extents) is data that the instructions read
 *   segments  rows grouped by lengths that a run brings: sequences of tokens, with attention inside each and caches
 *             that outlive a run. A domain like any other: rows can be routed
 *   session   everything mutable of one running network: bindings, state, thread pool, decisions
 *
 *   The way of data:   build -> check -> plan (bytes are known) -> session -> bind, run, run, run ...
 *
 * MEMORY   All memory is the caller's, in four arenas: persistent (graph, plan, resident weights, state),
 *   transient (activations), staging (storage reads), slots (weights that come and go). Sizes are known
 *   before anything runs: bs_model_..._bytes for a model file, bs_graph_bytes and bs_plan_bytes for graph and plan, and
 *   bs_plan_sizes for the rest. Nothing allocates. Arenas align what they are given: the ..._bytes calls count that, so
 *   malloc(bs_graph_bytes(...)) will do, and so does a sum of them; to each figure of bs_plan_sizes add BS_ALIGNMENT
 *   where its memory is not aligned to that (malloc aligns to 16).
 *   The graph and most of what planning takes are needed only until the plan is there: with a scratch arena, for which
 *   the memory of the transient one serves, bs_plan_create keeps little (34 KB of 174 for models/sr2x.gguf).
 *   Without streaming slots are empty, and staging is free again once the session is made. With it the caller chooses
 *   the slots, from the largest unit up, and staging (a share for each reader) stays taken as long as the session.
 *
 * ERRORS   Values, never aborts, prints or exits. Graph building is sticky: after the first failure every
 *   builder call does nothing and returns a value with id 0; bs_graph_check tells which call failed and why.
 *   Everything else returns a bs_status and fills a caller's bs_error when one is given (it may be NULL).
 *   A handle, a name or an out-pointer that is NULL does no harm anywhere: the status is BS_ERROR_ARGUMENT, bytes and
 *   handles that are returned are none, and a struct that would be filled is all zeros.
 *
 * THREADS  A graph and a plan are immutable once planned and may be shared by any number of sessions.
 *   A session is used by one thread at a time; it runs its own pool inside bs_run, which blocks.
 *   Results are the same bytes for any number of threads and either order of execution (within a tier).
 *   When weights are streamed, reader threads live as long as the session and read between runs as well: the source of
 *   weights stays open until bs_session_close, and is called by them. bs_session_stream_stats and
 *   bs_session_prediction_get lock them out for a moment; they belong to the session's one thread like everything else.
 *
 * LIMITS   What is beyond one of these numbers is refused with a message that names it, before anything runs (of a
 *   bs_graph_desc bs_graph_bytes is 0, and bs_graph_create gives NULL).
 *     a value       rank 4 (6 between reshape, transpose and slice), elements 2^40; a dimension 2^30, as are the cells
 *                   of a domain and what a router chooses for them
 *     an op         operands 8, margin around a cell 2^20 pixels, a frame's scale 2^15 (either number of n/d)
 *     conv2d        kernel, stride, dilation and pad 2^15, out and groups 2^20
 *     deconv2d      kernel and pad 255, out 2^20, stride 16, output_pad 15
 *     pool2d        kernel, stride and dilation 2^15, pads dilation (kernel-1)
 *     other ops     linear's out 2^24, pixel_shuffle's r 64, resize's factor 16, each side of a pad 2^15,
 *                   size of patches 8192, buckets 128, code_bits 16, attention's heads times rows 2^30,
 *                   a router's floor 2^24,
 *                   units of an lstm or a gru 2^20
 *     a graph       entries 2^24 of each table of bs_graph_desc (four times as many operands), text 2^30 bytes,
 *                   symbols 65535, in an input or state 1024 times one, paths 32767 of a router and 2^28 of all,
 *                   names 63 bytes; loops in loops 8, trips of a row 2^24
 *     a plan        bytes of activations, scratch of a thread and weights together 2^46, threads 64, lanes 8,
 *                   forces 16, patch_size 8192, chunk_bytes 2^30
 *     a model file  what its bytes can hold: entries 2^24 of each kind (keys, weights); weight names 95 bytes,
 *                   tensor names 63, keys 127; alignment 65536, scale 64
 *     a profile     routers 65536, units and phases 2^20, units of all phases 2^22, a unit's bytes 2^40; a replay units
 *                   and phases 65536
 */
#ifndef BRAINSTORM_H
#define BRAINSTORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BS_VERSION_MAJOR 0
#define BS_VERSION_MINOR 1
#define BS_VERSION_PATCH 0
#define BS_VERSION (BS_VERSION_MAJOR * 10000 + BS_VERSION_MINOR * 100 + BS_VERSION_PATCH)

/* Version of the library that was linked, to compare with BS_VERSION of the header. */
int32_t bs_version(void);

/* ---------------------------------------------------------------------------------------- configuration
 * What a program does without can be left out, by macros with which brainstorm.c is compiled, and whatever includes
 * this header: what is left out is not declared, so that its use does not compile. docs/building.md has the bytes.
 *
 * BS_NO_PLANNER   making plans: bs_plan_create, bs_plan_save; a plan is opened from an image (bs_plan_open)
 * BS_NO_MODEL     model files: bs_model_...
 * BS_NO_STREAM    weights that come and go: asking a plan for slots is BS_ERROR_UNSUPPORTED
 * BS_NO_PROFILE   recording what happens, and reading it again: bs_profile_..., bs_trace_load
 * BS_NO_REPLAY    all of brainstorm_replay.h: what a workstation does with what a board has recorded
 * BS_NO_REPORT    bs_plan_report, bs_session_report, bs_graph_describe, bs_op_describe
 * BS_NO_MESSAGES  texts of errors: bs_error.message is the status' own sentence, with the op and the node where one is
 *                 at fault; all other fields of bs_error are as ever
 * BS_NO_WINOGRAD  every convolution is direct
 * BS_ONLY_OPS     all ops but those whose macro is defined as well (BS_OP_conv2d of bs_conv2d), and those of inputs,
 *                 outputs, states, patches, rows and routers, which are always there. A builder call of another op is
 *                 BS_ERROR_UNSUPPORTED and names it; the linker drops its code (-ffunction-sections -fdata-sections,
 *                 and -Wl,--gc-sections when linking)
 * BS_NO_POSIX     the POSIX platform table (files, threads, clock); pass your own
 * BS_NO_SIMD      all kernels but scalar ones
 * BS_NO_AVX512    those for AVX-512: a fifth of the compiler's time on x86-64, and a quarter of the code
 * BS_NO_AVX2      those for AVX2 and AVX-512
 * BS_SMALL        forms of kernels that only make them faster, and calls kept from trip to trip: some three quarters of
 *                 the code are left at -Os. On AArch64 the scalar tier, too. Results are the same bytes
 *
 * BS_DEBUG        assert() what only the calling program can get wrong: objects that are closed or of another kind, a
 *                 session entered by two threads at once, arenas that overlap, buffers bound inside a session's own
 *                 memory
 */
#define BS_MAX_RANK 4
#define BS_MAX_AXES 6 /* rank of what reshape, transpose and slice make for each other */
#define BS_MAX_OPERANDS 8
#define BS_MAX_OUTPUTS 4
#define BS_MAX_PATHS 32767 /* of a router; no table is sized by it */
#define BS_MAX_NAME 64
#define BS_ALIGNMENT 64 /* of every arena's base and of everything placed in it */

/* Fields of a descriptor of which one at most is read: a word with a name for each of its meanings. */
#if defined(__GNUC__)
#define BS_ONE_OF __extension__ union /* C99 has no unions without a name */
#else
#define BS_ONE_OF union
#endif

#if defined(__cplusplus)
#define BS_ALIGNED alignas(BS_ALIGNMENT)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define BS_ALIGNED _Alignas(BS_ALIGNMENT)
#elif defined(__GNUC__)
#define BS_ALIGNED __attribute__((aligned(BS_ALIGNMENT)))
#else
#define BS_ALIGNED
#endif

/* ------------------------------------------------------------------------------------------------- types
 * Enums that descriptors have are lists (BS_..._LIST) of enumerators and their names, which `brainstorm inspect` and
 * Python use, too. Their numbers stand in model files, and never change. */
#define BS_ENUMERATOR(name, text) name,

/* One list: name, bytes an element. f16 and bf16 are storage types: arithmetic is in f32. */
#define BS_DTYPE_LIST(X) \
    X(BS_F32, 4, "f32")  \
    X(BS_U8, 1, "u8")    \
    X(BS_I8, 1, "i8")    \
    X(BS_I32, 4, "i32")  \
    X(BS_F16, 2, "f16")  \
    X(BS_BF16, 2, "bf16") \
    X(BS_U16, 2, "u16")

typedef enum bs_dtype {
#define BS_DTYPE_ENUM(name, bytes, text) name,
    BS_DTYPE_LIST(BS_DTYPE_ENUM)
#undef BS_DTYPE_ENUM
        BS_DTYPE_COUNT
} bs_dtype;

const char *bs_dtype_name(bs_dtype dtype);
size_t bs_dtype_bytes(bs_dtype dtype);

/* What computes: an instruction set of this processor (zero = the best one it has), or a GPU (see CUDA). */
typedef enum bs_tier { BS_TIER_AUTO, BS_TIER_SCALAR, BS_TIER_AVX2, BS_TIER_AVX512, BS_TIER_NEON, BS_TIER_CUDA } bs_tier;

bs_tier bs_tier_best(void);
bool bs_tier_available(bs_tier tier); /* compiled in, and this processor can run it; for a GPU, bs_cuda_open tells */
const char *bs_tier_name(bs_tier tier);

/* A dimension: a positive constant, BS_UPTO(n) (an anonymous symbol with a maximum), or a symbol made
 * by bs_symbol. Symbols are bound by the inputs of a run; a multiple of one (bs_times) binds it too. (Some ops make
 * symbols of their own: "ops: extents from data".) Zero ends the list. */
typedef int64_t bs_dim;
#ifdef __cplusplus
#define BS_UPTO(n) (INT64_C(1099511627776) + (n))
#else
#define BS_UPTO(n) (((bs_dim)1 << 40) + (bs_dim)(n))
#endif

typedef struct bs_shape {
    int32_t rank;
    bs_dim dim[BS_MAX_AXES];
} bs_shape;

/* A caller's strided buffer. strides in elements, all zero = dense row-major; they may be negative (`data` is the
 * element [0, 0, ...] wherever it lies). An input may repeat itself by strides of 0 among others. What is written,
 * outputs and states, may not: by size, every stride of a dimension of 2 or more is larger than all that the smaller
 * ones reach, else bs_bind refuses. */
typedef struct bs_buffer {
    void *data;
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
    int64_t stride[BS_MAX_RANK];
} bs_buffer;

/* ------------------------------------------------------------------------------------------------ errors
 * One list: code, number (frozen), message. */
#define BS_STATUS_LIST(X)                                                     \
    X(BS_OK, 0, "ok")                                                         \
    X(BS_ERROR_ARGUMENT, -1, "an argument is out of its range")               \
    X(BS_ERROR_GRAPH, -2, "the graph is not well formed")                     \
    X(BS_ERROR_SHAPE, -3, "shapes do not fit")                                \
    X(BS_ERROR_DOMAIN, -4, "values of different domains were combined")       \
    X(BS_ERROR_ARENA, -5, "an arena is too small")                            \
    X(BS_ERROR_LIMIT, -6, "a fixed limit was exceeded")                       \
    X(BS_ERROR_UNBOUND, -7, "an input or output was not bound")               \
    X(BS_ERROR_UNSUPPORTED, -8, "not supported")                              \
    X(BS_ERROR_IO, -9, "reading or writing failed")                           \
    X(BS_ERROR_FORMAT, -10, "the file is malformed")                          \
    X(BS_ERROR_WEIGHTS, -11, "a weight tensor is missing or of another shape") \
    X(BS_ERROR_PLATFORM, -12, "a platform call failed")                       \
    X(BS_ERROR_DATA, -13, "run-time data is out of range (index, NaN score)") \
    X(BS_ERROR_VERSION, -14, "version of header, library or file differs")    \
    X(BS_ERROR_INTERNAL, -15, "a fault of the library: please tell us")

typedef enum bs_status {
#define BS_STATUS_ENUM(name, number, text) name = number,
    BS_STATUS_LIST(BS_STATUS_ENUM)
#undef BS_STATUS_ENUM
} bs_status;

const char *bs_status_name(bs_status status); /* "BS_ERROR_ARENA"; "BS_UNKNOWN" for other numbers */
const char *bs_status_text(bs_status status); /* the sentence of the list above */

/* What went wrong. `needed` and `available` are bytes, set for BS_ERROR_ARENA (and `arena` names it). */
typedef struct bs_error {
    bs_status status;
    const char *arena; /* static string or NULL */
    uint64_t needed;
    uint64_t available;
    char message[256]; /* one line: the op, the dimension, the file or key at fault and what was expected */
} bs_error;

/* ------------------------------------------------------------------------------------------------ arenas
 * A bump arena over the caller's memory. `high_water` never shrinks. */
typedef struct bs_arena {
    const char *name;
    uint8_t *base;
    size_t size;
    size_t used;
    size_t high_water;
} bs_arena;

/* memory: any alignment (the arena aligns up and loses at most BS_ALIGNMENT-1 bytes). name: static string. */
void bs_arena_init(bs_arena *arena, const char *name, void *memory, size_t bytes);
/* Aligned, not cleared. NULL when it does not fit. */
void *bs_arena_take(bs_arena *arena, size_t bytes);

typedef struct bs_memory {
    bs_arena persistent, transient, staging, slots;
} bs_memory;

/* ---------------------------------------------------------------------------------------------- platform
 * Everything the library needs from outside. NULL table = POSIX default. Threads are optional: a table
 * with thread_start == NULL runs everything on the calling thread. */
typedef struct bs_platform {
    void *user;
    uint64_t (*clock_ns)(void *user); /* monotonic; called by every thread */
    void (*log)(void *user, const char *line);
    /* Worker threads. handle: storage of BS_THREAD_BYTES. start returns 0 on success. */
    int (*thread_start)(void *user, void *handle, void (*entry)(void *), void *argument);
    void (*thread_join)(void *user, void *handle);
    /* A gate: a mutex with one condition. wait unlocks, blocks until a wake that comes after it, and locks again.
     * storage: BS_GATE_BYTES, initialised by gate_init, which returns 0 on success. */
    int (*gate_init)(void *user, void *storage);
    void (*gate_destroy)(void *user, void *storage);
    void (*gate_lock)(void *user, void *storage);
    void (*gate_unlock)(void *user, void *storage);
    void (*gate_wait)(void *user, void *storage); /* called locked; may wake spuriously */
    void (*gate_wake)(void *user, void *storage); /* called locked; wakes all */
    /* Files, read only. open returns a handle >= 0 or -1; read returns bytes read (short = end) or -1. When weights are
     * streamed, several reader threads read one file at once. */
    int64_t (*file_open)(void *user, const char *path, uint64_t *size_bytes);
    int64_t (*file_read)(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes);
    void (*file_close)(void *user, int64_t file);
    /* Opens for large aligned reads that should not fill the page cache (O_DIRECT on Linux, probed by a real aligned
     * read of one block). *alignment: what offset, size and buffer of file_read must be multiples of, at most 4096;
     * 1 = buffered after all. probe: BS_PROBE_BYTES at a multiple of that, to try a read with. NULL = file_open
     * serves. */
    int64_t (*file_open_direct)(void *user, const char *path, void *probe, uint64_t *size_bytes, uint32_t *alignment);
    /* These bytes will not be read again soon: the cache need not hold them. NULL = nothing. */
    void (*file_forget)(void *user, int64_t file, uint64_t offset, uint64_t bytes);
} bs_platform;

#define BS_THREAD_BYTES 64
#define BS_GATE_BYTES 128
#define BS_PROBE_BYTES 4096

const bs_platform *bs_platform_default(void); /* NULL when built with BS_NO_POSIX */

/* ------------------------------------------------------------------------------------------------- graph */
typedef struct bs_graph bs_graph;
typedef struct bs_value { int32_t id; } bs_value;   /* 0: none / failed */
typedef struct bs_router { int32_t id; } bs_router; /* 0: none / failed */
/* No value, where an operand may be left out: its id is 0. */
#ifdef __cplusplus
#define BS_NONE (bs_value{0})
#else
#define BS_NONE ((bs_value){0})
#endif

/* Sizes of a graph's tables; zero = default in brackets. At most 2^24 each, 2^26 operands, 2^30 bytes of text. The last
 * four grow with max_nodes, and are then enough for most graphs; building says which one is full. */
typedef struct bs_graph_desc {
    int32_t max_nodes;      /* [512] */
    int32_t max_values;     /* [768] */
    int32_t max_text_bytes; /* [32768] names, and parameters of nodes */
    int32_t max_operands;   /* [4 a node] of all nodes together; a gather has one a path and its residual */
    int32_t max_dims;       /* [by max_nodes; 512 of 512 nodes] different extents */
    int32_t max_domains;    /* [by max_nodes; 511 of 512 nodes] sets of cells; each path is one */
    int32_t max_blocks;     /* [by max_nodes; 127 of 512 nodes] */
    int32_t max_routers;    /* [by max_nodes; 63 of 512 nodes] */
} bs_graph_desc;

/* Memory of any alignment. desc may be NULL; 0 when out of range, or more than a size_t holds. */
size_t bs_graph_bytes(const bs_graph_desc *desc);
/* Lives in `arena` (persistent). NULL when it does not fit. */
bs_graph *bs_graph_create(bs_arena *arena, const bs_graph_desc *desc);
/* The sticky error of building, BS_OK when there is none. Inside a block that is not ended: BS_ERROR_GRAPH, until it
 * is. */
bs_status bs_graph_check(const bs_graph *graph, bs_error *error);

/* Inputs, outputs and routers by name, for programs that take other people's models. BS_ERROR_ARGUMENT: there is none
 * of that name. */
typedef struct bs_port_facts {
    bool output; /* else an input */
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[BS_MAX_RANK]; /* at most, where a symbol stands for them */
} bs_port_facts;
bs_status bs_graph_port_get(const bs_graph *graph, const char *name, bs_port_facts *facts);
/* The name of input or output `index`, from 0 in the order in which they were built; NULL behind the last. */
const char *bs_graph_port_name(const bs_graph *graph, int32_t index);

typedef struct bs_router_facts {
    int32_t paths;
    int32_t patch_size; /* of the patches that it decides on, or that contain what it decides on; 0: there are none */
} bs_router_facts;
bs_status bs_graph_router_get(const bs_graph *graph, const char *name, bs_router_facts *facts);

/* Node `index`, from 1 in the order of building, for programs that look into graphs: which values it gives, on which
 * rows it works, and what that costs at their largest extents. BS_ERROR_ARGUMENT: there is no such node. */
typedef enum bs_rows_kind {
    BS_ROWS_ROOT,    /* one row: whole tensors */
    BS_ROWS_TENSOR,  /* rows of a tensor (bs_rows), in segments too: bs_collect makes a tensor of them again */
    BS_ROWS_PATCHES  /* cells of a frame (bs_patches): bs_assemble does */
} bs_rows_kind;
typedef struct bs_node_facts {
    const char *op, *name; /* the graph's own; name "": it has none */
    int32_t block;         /* the innermost around it, as in bs_model_block_get; 0: none */
    int32_t values;        /* how many it gives */
    bs_value value;        /* the first of them; the next ones have the next ids */
    bs_dtype dtype;        /* of that value; 0: it gives none */
    int32_t rank;
    int32_t kind;          /* bs_rows_kind of its rows, or of those that a router sent where it works */
    bs_router router;      /* whose rows it works on; id 0: outside all paths */
    int32_t path, paths;   /* of that router */
    /* Of one row: floating-point operations, bytes of what it reads and writes; bytes of its weights, which all rows
     * share. Elements of images are counted in the cell, without what is around it. */
    double flops, bytes, weight_bytes;
} bs_node_facts;
bs_status bs_graph_node_get(const bs_graph *graph, int32_t index, bs_node_facts *facts);

bs_dim bs_symbol(bs_graph *graph, const char *name, int64_t maximum);
bs_dim bs_times(bs_graph *graph, bs_dim symbol, int32_t factor); /* e.g. the height of a frame of twice the size */
bs_shape bs_shape_of(int32_t rank, bs_dim d0, bs_dim d1, bs_dim d2, bs_dim d3);
#define BS_SHAPE1(a) bs_shape_of(1, a, 0, 0, 0)
#define BS_SHAPE2(a, b) bs_shape_of(2, a, b, 0, 0)
#define BS_SHAPE3(a, b, c) bs_shape_of(3, a, b, c, 0)
#define BS_SHAPE4(a, b, c, d) bs_shape_of(4, a, b, c, d)

/* Values of the root domain, bound by name in a session. Images are [channels, height, width]. */
bs_value bs_input(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape);
void bs_output(bs_graph *graph, const char *name, bs_value value);
/* State kept from run to run: read here as it was at the start of a run, zero after a reset; written at
 * the end of a run by bs_state_write. Lives in the persistent arena (of a GPU: in its memory), or in a buffer bound by
 * its name: what that holds when it is bound is what the next run reads. */
bs_value bs_state(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape);
void bs_state_write(bs_graph *graph, bs_value state, bs_value value);

#ifndef BS_NO_REPORT
/* One line about node `index` (from 1), for people: number, op, name, operands, what it gives, what it is set to.
 * Returns the length it has (cut to bytes-1, always ended by NUL); 0 when there is no such node. */
size_t bs_graph_describe(const bs_graph *graph, int32_t index, char *text, size_t bytes);
/* The same for op `index` (from 0) of the op set, for programs that write model files: its name, the fewest and most
 * operands, and its parameters in stored order, a trailing ~ for those that are f32. */
size_t bs_op_describe(int32_t index, char *text, size_t bytes);
#endif

/* -------------------------------------------------------------------------------------------------- plan
 * Planning needs no weights and no device: a workstation can tell what a board will need. */
typedef struct bs_plan bs_plan;

typedef enum bs_order {
    BS_ORDER_AUTO,    /* images depth first where there may be several, but for layers with more weights than a row has
                         bytes; so is what is no image and has weights that stream; everything else breadth first */
    BS_ORDER_BREADTH, /* layer by layer over all rows */
    BS_ORDER_DEPTH    /* a whole block on one tile while it stays in cache; transient memory = threads x tile */
} bs_order;

typedef enum bs_conv_choice {
    BS_CONV_AUTO, /* Winograd F(4x4,3x3) where it is faster, direct elsewhere: as the node says, and its constant
                     extents, whatever a run brings and however frames are cut */
    BS_CONV_FORCE_DIRECT,
    BS_CONV_FORCE_WINOGRAD, /* where it can be done at all */
    BS_CONV_FORCE_REFERENCE /* plain loops (convolutions, linear): slow, what the tests compare with */
} bs_conv_choice;

/* A route that is decided ahead: the router is not run, its features are not computed, other paths are left
 * out of the plan. */
typedef struct bs_force {
    const char *router;
    int32_t path;
} bs_force;
#define BS_MAX_FORCES 16

/* CUDA: how the kernels of a run are launched. The results are the same bytes. */
typedef enum bs_launch_mode {
    BS_LAUNCH_AUTO,        /* GRAPH from the second run on, where it can be; loops that data end as in CONDITIONAL */
    BS_LAUNCH_STREAM,      /* one by one; branches without cells cost an empty launch; of loops at top level the host
                              learns now and then whether there is another trip */
    BS_LAUNCH_GRAPH,       /* captured once as a CUDA graph, which serves all extents and buffers, with all trips that
                              there may be; above 4,096 launches: STREAM */
    BS_LAUNCH_CONDITIONAL, /* the same, and the graph leaves out what no cell takes, and goes round loops (CUDA 12.4) */
    BS_LAUNCH_COUNT
} bs_launch_mode;
const char *bs_launch_mode_name(bs_launch_mode launch_mode);

typedef struct bs_plan_desc {
    int32_t threads;    /* [1] .. 64 */
    int32_t tier;       /* bs_tier, [the best here] */
    int32_t order;      /* bs_order */
    int32_t conv;       /* bs_conv_choice */
    int32_t patch_size; /* overrides the size of every patch domain (the result does not depend on it where all
                           cells take one path); 0 = the graph's */
    int32_t n_forces;
    bs_force forces[BS_MAX_FORCES];
    /* 1: work is done where it was built. Else what only one path of a router reads is computed for the rows of that
     * path alone, and equal work once; bs_plan_report says what was moved. The results are the same bytes. With slots,
     * weights of blocks stay where they are. */
    int32_t no_dataflow;
    /* 1: every op has a kernel of its own. Else one kernel runs a chain: what changes a result element by element or
     * line by line, and is all that reads it, is done by the kernel that makes the result; and a reshape needs
     * no kernel where its operand can be read as it lies. The results are the same bytes. */
    int32_t no_fusion;
    /* Streaming: 0 = the weights of every block are resident. Else those of blocks come and go in a slots arena of this
     * many bytes (less when all blocks take less); bs_plan_stream_get tells the least that works. */
    uint64_t slot_bytes;
    int32_t lanes;       /* [2] reader threads, 1 .. 8; each has its own share of the staging arena */
    int32_t chunk_bytes; /* [262144] of one read; a layer with more weights is read at once */
    /* BS_TIER_CUDA only */
    int32_t half;         /* 1: weights and activations are kept in f16; sums are f32 all the same, those of more than
                             447 paths of a row in groups of as many, each rounded to f16 */
    int32_t in_place;     /* 1: slots and copies of the caller's buffers stay in pinned memory, which the GPU reads
                             where it is: nothing is held twice on boards that share their memory
                             (bs_cuda_facts.integrated) */
    int32_t launch_mode;     /* bs_launch_mode: how a run's kernels reach the GPU; bs_cuda_choose finds the fastest */
    /* [98304] shared memory that a block of threads may have: bs_cuda_facts tells what there is */
    int32_t shared_bytes;
} bs_plan_desc;

/* Bytes of each arena that a session of this plan takes, padding included (the graph and the plan come on top, at
 * what bs_graph_bytes and bs_plan_bytes say). device, pinned: of the two that bs_cuda_open makes, for BS_TIER_CUDA. */
typedef struct bs_sizes {
    uint64_t persistent, transient, staging, slots;
    uint64_t device, pinned;
    /* prepared, resident: the part of persistent (of device) that is not taken with bs_session_desc.weights_of */
    uint64_t weights;
} bs_sizes;

#ifndef BS_NO_PLANNER
/* What bs_plan_create needs of `arena` without a scratch arena, to the byte, most of it only while it plans; as many
 * are enough of a scratch arena. 0: the graph has failed, or more than a size_t holds. */
size_t bs_plan_bytes(const bs_graph *graph, const bs_plan_desc *desc);
/* A plan in `arena` (persistent), which keeps what a run needs and gives the rest back; arena->used tells how much that
 * is. desc may be NULL. Returns NULL on failure, and then leaves the arena as it was.
 * scratch: where planning works, as it was when this returns. The plan then has a graph of its own, and neither the
 * caller's nor the scratch arena is needed any more: what will be the transient arena serves for both. NULL: planning
 * works in `arena`, and the graph must outlive the plan.
 * Each plan is walked once more before it is returned: BS_ERROR_INTERNAL if an instruction read what is not written
 * yet. */
bs_plan *bs_plan_create(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const bs_plan_desc *desc,
                        bs_error *error);
#endif
#if defined(BS_VERIFY) || defined(BS_DEBUG)
/* Walks a plan once more, which bs_plan_create has done already for the order of its instructions, for its bytes: that
 * nothing is read which another one has written over, whatever runs side by side. BS_ERROR_INTERNAL, with the
 * instruction: please report it. Only builds with BS_VERIFY or BS_DEBUG have it; under BS_DEBUG bs_plan_create calls
 * it. Takes workspace from `arena` and gives it back: some 110 bytes for each value and each node. */
bs_status bs_plan_verify(const bs_plan *plan, bs_arena *arena, bs_error *error);
#endif
void bs_plan_sizes(const bs_plan *plan, bs_sizes *sizes);
/* A plan is an image: indices and offsets, no pointers. A workstation plans for a board (bs_plan_desc.tier, threads,
 * slot_bytes ...) and saves what it made; the board, which has the same graph, opens it in place, in flash or in
 * memory, and needs no planner. The tables stay where they are: of `arena` only a handle is taken, and the graph as it
 * is planned, bs_plan_open_bytes at most.
 *
 *     // on the workstation, to a file or as an array into the board's program
 *     bs_plan_save(plan, image, bs_plan_image_bytes(plan), &error);
 *     // on the board
 *     const bs_plan *plan = bs_plan_open(&memory.persistent, NULL, graph, image, sizeof image, &error);
 *
 * bs_plan_save gives the same bytes for the same plan. bs_plan_open takes images of any origin: one that is cut, or is
 * damaged, or lies, is refused, or runs within the arenas of its session, whatever comes out. It is refused by name
 * when it is for another graph (any node, parameter, name or extent that differs), of another version of the library,
 * or laid out for another kind of processor (32-bit Arm and 64-bit machines read the same image, 32-bit x86 another). A
 * plan for a tier that is not there can be opened and looked at; bs_session_create refuses it. What was forced
 * (bs_plan_desc.forces) is part of the plan.
 * image: of bs_plan_image_bytes; to be opened at a multiple of 8 (BS_ALIGNED), of as many bytes or more, and there and
 * unchanged as long as the plan is used. scratch: as for bs_plan_create; NULL: the graph must outlive the plan. */
#ifndef BS_NO_PLANNER
size_t bs_plan_image_bytes(const bs_plan *plan);
bs_status bs_plan_save(const bs_plan *plan, void *image, size_t bytes, bs_error *error);
#endif
size_t bs_plan_open_bytes(const bs_graph *graph); /* at most; 0: the graph has failed */
const bs_plan *bs_plan_open(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const void *image, size_t bytes,
                            bs_error *error);
#ifndef BS_NO_REPORT
/* A printable report of arenas, blocks and instructions; and of what maxima cost: for each symbol, and each domain of
 * rows or patches (64 of these), the bytes of the activations that depend on it, which share memory with others.
 * Returns the length it has (cut to bytes-1, always ended by NUL). */
size_t bs_plan_report(const bs_plan *plan, char *text, size_t bytes);
#endif

/* ----------------------------------------------------------------------------------------------- weights */
/* One tensor in the caller's memory (dense, little-endian, row-major, slowest dimension first). */
typedef struct bs_tensor {
    const char *name;
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
    const void *data;
} bs_tensor;

/* Where weights come from: the caller's table, or a model file (bs_model_weights). */
typedef struct bs_weight_info {
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
    uint64_t bytes;
    uint64_t handle; /* the source's own */
} bs_weight_info;

/* Where the weights of a block lie in what a source reads from: one range. bytes 0: the block has none. */
typedef struct bs_record {
    uint64_t offset, bytes; /* the head included; in files, offset is a multiple of 4096 */
    uint32_t head_bytes;    /* that bs_weights.verify looks at; 0: none */
    uint32_t crc32;         /* of what follows the head (zip's) */
} bs_record;

typedef struct bs_weights {
    const void *user;
    /* BS_ERROR_WEIGHTS when there is none of that name. */
    bs_status (*find)(const void *user, const char *name, bs_weight_info *info);
    bs_status (*read)(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes);
    const void *(*map)(const void *user, const bs_weight_info *info); /* its bytes in memory, or NULL: read it */
    /* Streaming; all NULL and 0 when the source cannot be streamed from. Called from several reader threads at once.
     * locate: the record that holds the weight, and where its bytes begin in the storage that fetch reads.
     * record: BS_ERROR_ARGUMENT when there is no such block.
     * fetch: reads; offset, bytes and buffer are multiples of fetch_alignment, a power of two of at most 4096. Beyond
     *   the end of the storage up to the next multiple: any bytes. BS_ERROR_IO when there is less than there was.
     * verify: checks the first head_bytes of a record, as read: the right block of the file that was opened? If not,
     *   BS_ERROR_FORMAT. NULL: there are no heads. */
    bs_status (*locate)(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset);
    bs_status (*record)(const void *user, int32_t block, bs_record *record);
    bs_status (*fetch)(const void *user, uint64_t offset, void *buffer, size_t bytes);
    bs_status (*verify)(const void *user, int32_t block, const void *head);
    uint32_t fetch_alignment;
    int32_t serial; /* 1: one fetch at a time; the caller of fetch sees to it */
} bs_weights;

typedef struct bs_tensor_table {
    const bs_tensor *tensors;
    int32_t count;
} bs_tensor_table;
/* table must outlive the result. */
bs_weights bs_weights_from_table(const bs_tensor_table *table);

/* --------------------------------------------------------------------------------------------- streaming
 * Weights that do not fit: with bs_plan_desc.slot_bytes the weights of blocks are read from storage into slots when
 * they are needed, and before that when it can be guessed. A guess that was wrong costs time only: results are the same
 * bytes whatever fits, whatever is guessed and whatever the storage does.
 *
 *   unit    what is loaded at once: the weights of one path of a router (with the blocks and loops inside it), or of a
 *           block that every run goes through. Paths inside of paths are units of their own (exits behind exits are
 *           read as rows come to them), but for patches, in plans with BS_ORDER_DEPTH and on a GPU: there they belong
 *           to the path around them. Weights outside blocks, or of several units, tables of routers and constants stay
 *           resident.
 *   phase   a step of the plan that needs units: of those paths that a router chose, or always the same. In the body of
 *           a loop it comes with every trip.
 *   chunk   one read, at most chunk_bytes or the weights of one layer. Demand waits for at most one.
 *   lane    a reader thread. It reads and prepares (packs, transforms) what it read.
 *
 * On platforms without threads everything is read when it is needed, by the thread of bs_run. Without a clock nothing
 * is guessed: what a guess costs and saves is not known.
 *
 *     bs_plan_desc d = {.slot_bytes = UINT64_MAX};                  // a first plan, to ask: what do all take?
 *     const bs_plan *ask = bs_plan_create(&scratch, NULL, graph, &d, &error);
 *     bs_stream_plan all;
 *     bs_plan_stream_get(ask, &all);                                // ask: NULL after a failure
 *     d.slot_bytes = all.all_bytes / 2 > all.least_bytes ? all.all_bytes / 2 : all.least_bytes;
 *     const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, graph, &d, &error);
 *     bs_sizes sizes;
 *     bs_plan_sizes(plan, &sizes);                                  // slots and staging among them: make these arenas
 *     const bs_session_desc with = {.weights = bs_model_weights(model)}; // of a file of version 2, left open
 *     bs_session *s = bs_session_create(&memory, plan, &with, &error);   // then bs_bind and bs_run, as ever
 *     bs_session_stream_stats(s, &stats);                           // hits, misses, bytes read, time stood still
 *
 * A read that fails makes bs_run fail with its status when the weights are needed; the next run tries again. Weights
 * that were only guessed are not an error. Slots are used as the policy says, nothing has to be tuned for them. */

/* What is evicted when room is needed. One list: name, text. */
#define BS_POLICY_LIST(X)                                                        \
    X(BS_POLICY_REUSE, "reuse")   /* what will be needed again last, as far as phases and frequencies tell */ \
    X(BS_POLICY_LRU, "lru")       /* what was used least recently: useless once a run's cycle exceeds the slots */ \
    X(BS_POLICY_LFU, "lfu")       /* what is used least often, older uses counting less */ \
    X(BS_POLICY_BELADY, "belady") /* what will in fact be needed again last: replay only */

typedef enum bs_policy {
#define BS_POLICY_ENUM(name, text) name,
    BS_POLICY_LIST(BS_POLICY_ENUM)
#undef BS_POLICY_ENUM
        BS_POLICY_COUNT
} bs_policy;

typedef enum bs_speculation {
    BS_SPECULATE_AUTO, /* while it pays */
    BS_SPECULATE_OFF   /* on demand only */
} bs_speculation;

typedef struct bs_stream_desc {
    int32_t policy;        /* bs_policy, [BS_POLICY_REUSE] */
    int32_t speculation;   /* bs_speculation */
    int32_t check_records; /* 1: the CRC-32 of every record is checked each time it is read */
} bs_stream_desc;

/* What a plan streams. */
typedef struct bs_stream_plan {
    int32_t units, phases;
    uint64_t slot_bytes; /* of the slots arena; 0: nothing is streamed */
    uint64_t least_bytes; /* the largest unit: below it planning fails */
    uint64_t all_bytes;   /* of all units, prepared */
} bs_stream_plan;

typedef struct bs_stream_unit_facts {
    char name[BS_MAX_NAME]; /* of its outermost block */
    int32_t router, path;   /* number of the router, from 1, and its path; 0, -1: needed in every run */
    uint64_t slot_bytes;    /* prepared */
} bs_stream_unit_facts;

typedef struct bs_stream_phase_facts {
    int32_t router;  /* the router that decides, from 1; 0: all units are always needed */
    int32_t n_units; /* units that it may need */
} bs_stream_phase_facts;

/* Counted since the session began. Every use of a unit is a hit (it was there), late (on its way) or a miss. */
typedef struct bs_stream_stats {
    uint64_t hits, late, misses;
    uint64_t loads, guessed_loads;  /* units read whole; those that a guess began */
    uint64_t useful_guesses;        /* of those guesses, used before they were evicted */
    uint64_t dropped;               /* loads given up: no longer needed, or to make room */
    uint64_t bytes_read;            /* from storage */
    uint64_t bytes_wasted;          /* of guesses that were never used */
    uint64_t evictions;
    uint64_t stall_ns;              /* the run waited for weights */
    uint64_t read_ns, prepare_ns;   /* of all lanes */
    uint64_t delayed_ns;            /* demand waited for a chunk of a guess */
    uint64_t resident_peak_bytes;   /* of slots in use */
    uint64_t paused;                /* times that guessing was given up because it did not pay */
    bool guessing;                  /* now */
    bool direct;                    /* reads go past the page cache */
} bs_stream_stats;

/* How good guesses are: at each visit of a routed phase every predictor says which units it expects (as many as are
 * needed on average), whether or not anything is read for them. */
typedef enum bs_predictor {
    BS_PREDICT_KNOWN,      /* phases that need the same in every run */
    BS_PREDICT_LOOK_AHEAD, /* bs_look_ahead */
    BS_PREDICT_TRANSITION, /* what followed the choices of the router before */
    BS_PREDICT_FREQUENCY,  /* what is chosen often */
    BS_PREDICTOR_COUNT
} bs_predictor;
typedef struct bs_prediction {
    uint64_t expected, right, needed; /* units; precision = right / expected, recall = right / needed */
} bs_prediction;

#ifndef BS_NO_STREAM
const char *bs_policy_name(bs_policy policy);
const char *bs_predictor_name(bs_predictor predictor);
void bs_plan_stream_get(const bs_plan *plan, bs_stream_plan *stream);
bs_status bs_plan_unit_get(const bs_plan *plan, int32_t unit, bs_stream_unit_facts *facts); /* from 0 */
/* units: room for `n_units` numbers (may be NULL). */
bs_status bs_plan_phase_get(const bs_plan *plan, int32_t phase, bs_stream_phase_facts *facts, int32_t *units);
#endif

/* ----------------------------------------------------------------------------------------------- session */
typedef struct bs_session bs_session;
typedef struct bs_profile bs_profile;
typedef struct bs_device bs_device;

typedef struct bs_session_desc {
    const bs_platform *platform; /* NULL: the default */
    bs_weights weights;          /* zero: the graph has none */
    bs_stream_desc stream;       /* for plans that stream */
    bs_profile *profile;         /* what happens is recorded here; NULL: nowhere. Used by one session. */
    bs_device *device;           /* for plans of BS_TIER_CUDA: what bs_cuda_open gave */
    /* Another session of the same plan (on the same device), or NULL. This one then reads the other's prepared resident
     * weights instead of making its own: it takes bs_sizes.weights bytes less, and no staging where nothing streams.
     * The other must be closed after it. Both may run at once. Slots of streamed weights are each session's own. */
    const bs_session *weights_of;
    /* a cudaStream_t that runs are queued on (see CUDA); NULL: one of the session's own */
    void *cuda_stream;
} bs_session_desc;

/* Takes what bs_plan_sizes said from the four arenas, loads and prepares the weights, starts threads-1 workers.
 * The plan and the arenas' memory must outlive the session. */
bs_session *bs_session_create(bs_memory *memory, const bs_plan *plan, const bs_session_desc *desc, bs_error *error);
void bs_session_close(bs_session *session); /* joins the workers; NULL is fine */

/* Inputs, outputs and states by name. Extents of inputs set the symbols of the run; an output's or a state's buffer
 * must have the extents of that run. The buffer's memory is used until it is bound anew. Element type = the graph's.
 * Outputs may be written before all inputs have been read: an output's buffer overlaps no other buffer. */
bs_status bs_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error);

/* Scores as the router sees them: row r, path p at data[r * row_stride + p * stride]. */
typedef struct bs_operand_view {
    const void *data;
    bs_dtype dtype;
    int32_t width;
    ptrdiff_t row_stride, stride;
} bs_operand_view;

/* BS_ROUTE_CALLBACK: fills path_of_row[rows] (-1: no path). Called on the thread of bs_run. What it returns is
 * how the run ends; a number that is no bs_status is BS_ERROR_DATA. */
typedef bs_status (*bs_route_function)(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row);
bs_status bs_set_route(bs_session *session, const char *router, bs_route_function function, void *user,
                       bs_error *error);

/* Runs the network once; blocks. After a failure, states are invalid until bs_reset_state, and the session can run
 * again. */
bs_status bs_run(bs_session *session, bs_error *error);
/* The two halves of bs_run. On a GPU bs_submit only queues the run: it returns before it has run, and what it wrote is
 * there after bs_wait. A second bs_submit before that waits for the first one, unless every bound buffer is in the
 * GPU's memory. On a CPU bs_submit runs, and bs_wait has nothing to wait for. bs_wait returns how the last submitted
 * run ended. */
bs_status bs_submit(bs_session *session, bs_error *error);
bs_status bs_wait(bs_session *session, bs_error *error);
void bs_reset_state(bs_session *session);
/* 1 after a run that wrote states and until a reset or a failed run: what bs_state reads is a previous result. */
bool bs_state_valid(const bs_session *session);

/* What a router decided in the last run. */
typedef struct bs_decision {
    int32_t paths;
    const int32_t *counts;  /* [paths] cells per path; of a loop those of all trips together */
    const uint64_t *ns;     /* [paths] time spent in the tiles of each path, all threads (depth first; else 0) */
    int32_t cells;          /* that it decides for; of a router in a path those of the outermost domain around it */
    const int16_t *chosen;  /* [cells] the first path that each took; -1: none, or the router was not reached */
    int64_t dropped;        /* choices beyond the capacity; with a spill path that took them */
} bs_decision;
bs_status bs_decision_get(const bs_session *session, const char *router, bs_decision *decision);

/* The extents that an output had in the last run, for those that come from data: dims[BS_MAX_RANK], 0 beyond its rank.
 * BS_ERROR_ARGUMENT: there is no output of that name. */
bs_status bs_output_extents(const bs_session *session, const char *output, int64_t *dims);
/* The extents that the buffer of an output or a state must have in a run of the inputs that are bound now, for programs
 * that allocate it: dims[BS_MAX_RANK], 0 beyond its rank; the maximum of what comes from data. bs_output_extents tells
 * nothing from then on until the next run. BS_ERROR_SHAPE, BS_ERROR_UNBOUND: what bs_run would say of the inputs. */
bs_status bs_bound_extents(bs_session *session, const char *name, int64_t *dims, bs_error *error);

typedef struct bs_run_stats {
    uint64_t runs;
    uint64_t total_ns;   /* last run */
    uint64_t routing_ns; /* last run: features and decisions, outside the blocks */
} bs_run_stats;
void bs_session_stats(const bs_session *session, bs_run_stats *stats);
#ifndef BS_NO_REPORT
/* The report of its plan; beside each symbol and domain what the last run had, and the bytes that it used of those
 * activations. Between runs. */
size_t bs_session_report(const bs_session *session, char *text, size_t bytes);
#endif
#ifndef BS_NO_STREAM
/* Zero for a session that does not stream. Between runs; reader threads may go on reading for guesses meanwhile. */
void bs_session_stream_stats(bs_session *session, bs_stream_stats *stats);
/* phase: from 0; -1: all. */
bs_status bs_session_prediction_get(bs_session *session, int32_t phase, bs_predictor predictor,
                                    bs_prediction *prediction);
#endif

/* -------------------------------------------------------------------------------------------------- CUDA
 * The same graphs and model files on an NVIDIA GPU: compile brainstorm_cuda.cu beside brainstorm.c and link both.
 *
 *     nvcc -std=c++14 -O3 -arch=sm_87 -c brainstorm_cuda.cu       link with: -lcublas -lcudart -lstdc++
 *
 *     bs_plan_desc d = {.tier = BS_TIER_CUDA};           // planning needs no GPU: a workstation can tell the bytes
 *     const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, graph, &d, &error);
 *     bs_plan_sizes(plan, &sizes);
 *     bs_cuda_desc c = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
 *     bs_device *gpu = bs_cuda_open(&memory.persistent, &c, &error);    // the only call that allocates
 *     bs_session_desc with = {.weights = bs_model_weights(model), .device = gpu};
 *     bs_session *s = bs_session_create(&memory, plan, &with, &error);  // then bs_bind and bs_run, as ever
 *     ...
 *     bs_session_close(s);
 *     bs_cuda_close(gpu);
 *
 * Routing stays on the GPU: between input and output of a run the host waits for nothing, unless weights are streamed
 * or a router asks a callback. Results equal the CPU's within rounding; they are the same bytes from run to run.
 *
 * Bound buffers may lie in ordinary memory (they are copied: inputs by bs_submit, outputs by bs_wait), in pinned memory
 * or in the GPU's (used in place). Strides are honoured wherever a buffer lies; what lies between its elements is left
 * alone. The host itself reads `lengths` of segments and `cache_lengths`: those are in ordinary or pinned memory.
 *
 * Streams   Every session queues on a stream of its own unless bs_session_desc.cuda_stream names one of the caller's,
 *   which then outlives the session. On the caller's stream a run is like a kernel: it reads what was queued before
 *   bs_submit has written, and what is queued after bs_submit has returned finds, without bs_wait, the outputs and
 *   states that are bound in the GPU's or in pinned memory. bs_wait is for the host: outputs in ordinary memory, the
 *   status (after a failed run outputs hold nothing of use), bs_decision_get. With streams of their own sessions do not
 *   wait for each other: bs_wait for the one before giving its outputs to the next. The stream may be one of several
 *   sessions', and of work of the caller's, from any thread: they take turns, launch by launch, and none is held up or
 *   captured by another (graphs are captured on a stream that nobody else has). It must not be being captured by the
 *   caller when a session is made, run or waited for, nor be cudaStreamPerThread.
 * Limits    Strides of a bound buffer are below 2^31 elements; so are the elements of what an op gives (of a row; of a
 *   whole tensor of the root domain) and of a bound output. Else BS_ERROR_LIMIT, before anything runs.
 * Threads   Sessions of one device run on threads of their own, each used by one at a time. What takes from the
 *   device's memory is for one thread at a time: bs_session_create. bs_cuda_close comes after the last
 *   bs_session_close. */
typedef struct bs_cuda_desc {
    int32_t index;         /* of the GPU */
    uint64_t device_bytes; /* of one allocation on it; the sum of bs_sizes.device of the sessions it will serve */
    uint64_t pinned_bytes; /* of one page-locked allocation; likewise */
    void *device_memory;   /* or: the caller's, of these sizes; NULL: allocated */
    void *pinned_memory;
    /* more than 0: large layers on rows that no router made are cuBLAS's, with so many of device_bytes for its
     * workspace in each session (4 MiB; 32 on Hopper). Faster where it is, but a session then makes a handle of cuBLAS,
     * which allocates, and a row's last bits may depend on how many rows there are. Not with BS_NO_CUBLAS */
    uint64_t cublas_bytes;
} bs_cuda_desc;
/* Bookkeeping lies in `arena` (persistent, some 200 bytes). NULL on failure: BS_ERROR_UNSUPPORTED when there is no
 * GPU. */
bs_device *bs_cuda_open(bs_arena *arena, const bs_cuda_desc *desc, bs_error *error);
void bs_cuda_close(bs_device *device); /* after its sessions; NULL is fine */

typedef struct bs_cuda_facts {
    char name[BS_MAX_NAME];
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t runtime, driver; /* as CUDA numbers them: 12060 is 12.6 */
    bool integrated;         /* shares its memory with the CPU */
    bool conditional;        /* CUDA graphs can decide (IF nodes, from 12.4) */
    uint64_t memory_bytes;
    int32_t shared_bytes; /* that a block may have: for bs_plan_desc.shared_bytes */
} bs_cuda_facts;
/* Needs no bs_cuda_open. BS_ERROR_UNSUPPORTED and a message that says why when there is none. */
bs_status bs_cuda_facts_get(int32_t index, bs_cuda_facts *facts, bs_error *error);

/* Times every launch mode on what is bound, `runs` runs of each in turn, and keeps the fastest for this session; *best
 * is what bs_plan_desc.launch_mode should say next time. ns: [BS_LAUNCH_COUNT] the median of a run, 0 where it cannot
 * be; may be NULL. States are reset. On a CPU: BS_ERROR_UNSUPPORTED. */
bs_status bs_cuda_choose(bs_session *session, int32_t runs, bs_launch_mode *best, uint64_t *ns, bs_error *error);

/* What a launch of a plan was in one run. Bytes are those that its steps read and write in the GPU's memory when each
 * reads and writes each of its operands and weights once; of operands the rows that there were. */
typedef struct bs_cuda_launch {
    const char *kernel; /* "begin": extents and buffers are put in place; "region": the tiles of a region */
    int32_t node;       /* of the first step, as bs_graph_node_get counts; 0: none */
    int32_t steps;      /* that it runs together, of several branches; of a region those of all of its parts */
    int32_t times;      /* that it was launched: in a loop once a trip, 0 where its body has no rows at all */
    int32_t blocks;     /* each time; 0: cuBLAS, which does not tell */
    int64_t items;      /* work items with something to do, of all times together; of a region tiles */
    int64_t empty;      /* work items without, and blocks that found no work item */
    uint64_t bytes;
    uint64_t identity_bytes; /* of them those of copies that change nothing but the place */
    uint64_t least_bytes;    /* what no launch can spare: weights and inputs that none before it read, outputs */
} bs_cuda_launch;
/* Counts what runs launch. From now on each run of a session of this device, one session at a time, goes kernel by
 * kernel and is waited for before each: it takes long, and gives the same bytes. When it has ended, launches[0 .. room)
 * say what the launches of its plan were, in their order, and the next call of this function returns how many there are
 * (perhaps more than room; 0: there was no run). NULL: runs are as ever. The body of a loop is launched once a trip,
 * where launch modes may launch it beyond the last one. */
int32_t bs_cuda_launches(bs_device *device, bs_cuda_launch *launches, int32_t room);

/* ------------------------------------------------------------------------------------------- model files
 * GGUF version 3 with the graph in its metadata and one packed tensor a block (docs/format.md). The file is
 * hostile: it is checked when opened, and the graph is rebuilt by the builder calls with all their checks.
 *
 *     size_t bytes = bs_model_file_bytes(NULL, "net.gguf", &error);     // 0 when it is no model file
 *     bs_arena_init(&persistent, "persistent", malloc(bytes), bytes);
 *     bs_model *model = bs_model_open_file(&persistent, NULL, "net.gguf", &error);
 *     bs_graph_desc room = bs_model_graph_desc(model);
 *     bs_graph *graph = bs_graph_create(&persistent, &room);
 *     if (bs_model_build(model, graph, NULL, &error)) ...      then plan; weights: bs_model_weights(model)
 */
#define BS_MODEL_VERSION 2 /* of the file format; 1 is read too, but cannot be streamed */
#define BS_MODEL_OPSET 4   /* newest set of ops known: files of older sets are read, newer ones refused */
#define BS_MAX_WEIGHT_NAME 96

/* A caller's bytes. read gives the bytes read (fewer than requested = end) or -1. Threads: called from the thread
 * that opens, builds or reads weights, and, when weights are streamed, from reader threads: one at a time a model,
 * unless `concurrent` is set. */
typedef struct bs_reader {
    void *user;
    int64_t (*read)(void *user, uint64_t offset, void *buffer, size_t bytes);
    uint64_t size;
    int32_t concurrent; /* 1: read may be called by several threads at once */
} bs_reader;

#ifndef BS_NO_MODEL
typedef struct bs_model bs_model;

/* Bytes of `arena` that the calls below take at most (of memory of any alignment; a part of them is free again
 * afterwards): what to lend before opening. They read the header, not the records. 0 on failure. */
size_t bs_model_file_bytes(const bs_platform *platform, const char *path, bs_error *error);
size_t bs_model_reader_bytes(const bs_reader *reader, bs_error *error);
size_t bs_model_memory_bytes(const void *data, size_t bytes, bs_error *error);
/* Checks the file and keeps an index of it in `arena` (persistent): some 64 bytes a key, 96 a weight. NULL on failure,
 * and the arena is as it was; when it is too small, the error says how much opening takes in all.
 * file: kept open until bs_model_close; platform NULL = the default; a second handle for streaming is opened with the
 * platform's file_open_direct where that works (8 KB of the arena serve to try it, and are free again afterwards; where
 * they do not fit, streaming is buffered). reader: copied. memory (an array in flash): any alignment; never copied, and
 * weights are used in place where they can be; it must outlive the model, as must everything that `user` and `platform`
 * point to. */
bs_model *bs_model_open_file(bs_arena *arena, const bs_platform *platform, const char *path, bs_error *error);
bs_model *bs_model_open_reader(bs_arena *arena, const bs_reader *reader, bs_error *error);
bs_model *bs_model_open_memory(bs_arena *arena, const void *data, size_t bytes, bs_error *error);
void bs_model_close(bs_model *model); /* closes the file; NULL is fine. The arena's bytes stay taken. */
/* Streaming reads of this model go through the page cache from now on. Before bs_model_weights. */
void bs_model_use_buffered(bs_model *model);

/* What the file says of itself. */
typedef struct bs_model_facts {
    char name[BS_MAX_NAME];
    int32_t version, opset;
    int32_t scale; /* super-resolution: output pixels an input pixel along a side; else 0 */
    int32_t nodes, values, blocks, weights, symbols;
    uint64_t file_bytes, weight_bytes, alignment;
    bool direct;              /* streaming reads bypass the page cache */
    uint32_t fetch_alignment; /* of streaming reads; 0: weights of this model cannot be streamed */
} bs_model_facts;
void bs_model_facts_get(const bs_model *model, bs_model_facts *facts);

/* Room that the graph of this file needs. */
bs_graph_desc bs_model_graph_desc(const bs_model *model);

/* The largest extents of an input that will be bound: they set the maxima of the symbols in its shape, and so the
 * bytes of every arena. A dimension of 0 leaves the file's maximum. */
typedef struct bs_model_input {
    const char *name;
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
} bs_model_input;

typedef struct bs_model_build_desc {
    const bs_model_input *inputs;
    int32_t n_inputs;
    /* 9..15: u8 inputs, states and outputs become u16 holding codes of that many bits; 0 or 8: as stored */
    int32_t code_bits;
    int32_t floor;     /* of every BUDGET router, as in bs_route_desc, but 0 = as stored, -1 = none */
} bs_model_build_desc;

/* Replays the stored graph into an empty one. desc may be NULL. On failure the graph is of no use. */
bs_status bs_model_build(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error);

/* The weights of the file, for bs_session_desc. The model must stay open while they are read, and, when it was opened
 * from memory, as long as the session lives. */
bs_weights bs_model_weights(const bs_model *model);
/* Whether they can be streamed. BS_ERROR_UNSUPPORTED with a message that says why not: a file of version 1 has no
 * heads of records, and records must be aligned to 4096 bytes. */
bs_status bs_model_can_stream(const bs_model *model, bs_error *error);

/* Block `index` (0 = "main", what is outside every block) and its record in the file. */
typedef struct bs_model_block_facts {
    char name[BS_MAX_NAME];
    int32_t first_node, end_node; /* of the stored graph, from 0 */
    int32_t weights;
    uint64_t offset, bytes; /* of the record: offset is a multiple of the file's alignment; bytes may be 0 */
    uint32_t crc32;         /* of what follows the record's head */
} bs_model_block_facts;
bs_status bs_model_block_get(const bs_model *model, int32_t index, bs_model_block_facts *facts);
/* Weight `index`: its name (BS_MAX_WEIGHT_NAME bytes; may be NULL), block (may be NULL), type and shape. */
bs_status bs_model_weight_get(const bs_model *model, int32_t index, char *name, int32_t *block,
                              bs_weight_info *info);

/* Reads every record: its head, its CRC-32, zeros between its weights. Blocks as long as that takes. */
bs_status bs_model_check(const bs_model *model, bs_error *error);
#endif

/* ------------------------------------------------------------------------------------------- profiles
 * What happens in a run, as events in a ring that the caller supplies; a thread streams them to wherever the caller
 * writes. A full ring drops events and counts them; it never makes a run wait. Which events there are, and what a
 * workstation does with them, is in brainstorm_replay.h; the file is in docs/profile.md. */
#ifndef BS_NO_PROFILE
/* Writes `bytes`, in order; returns 0, or anything else to stop (the rest is dropped and counted). Called on the
 * profile's own thread, on platforms without threads within bs_run. */
typedef int (*bs_profile_write)(void *user, const void *data, size_t bytes);
typedef struct bs_profile_desc {
    const bs_platform *platform; /* NULL: the default */
    bs_profile_write write;
    void *user;
    void *memory; /* the ring: 4160 bytes (one write, alignment), and 48 an event, of which it holds a power of two,
                     16 or more. In the file an event takes 40. Must outlive the profile */
    size_t bytes;
    int32_t ops; /* 1: BS_EVENT_OP and BS_EVENT_TILE as well, of what a CPU runs: one a node, in tiles one a node and
                    tile, and some 0.1 us for each. That is kept near 1 % of the time: after a run with n such events
                    there are none for n times 16 us of running, so short runs are sampled. 2: of every run */
} bs_profile_desc;
/* In `arena` (persistent). Give it to bs_session_desc; close it after the session. */
bs_profile *bs_profile_create(bs_arena *arena, const bs_profile_desc *desc, bs_error *error);
/* Writes what is left. Returns BS_ERROR_IO when a write failed. `dropped` (may be NULL): events lost in all. */
bs_status bs_profile_close(bs_profile *profile, uint64_t *dropped);
#endif

/* -------------------------------------------------------------------------------------------------- ops */
/* Every descriptor: `name` first (names the op in messages, and its weights), then 4-byte fields whose
 * zero means default (of a bs_value: BS_NONE). */
#define BS_DEPTHWISE (-1)

/* Layers of one kind and name share their weights: they are prepared once for each layout that they need. A tensor's
 * name with two shapes or types is BS_ERROR_SHAPE when it is planned. */

/* `pad` of a descriptor is read with BS_PAD_EXPLICIT only; else it must be 0. (PyTorch's padding=p is EXPLICIT and pad
 * p.) */
#define BS_PADDING_LIST(X)                                                                                      \
    X(BS_PAD_DEFAULT, "default")   /* what the op says: conv2d keeps the size at stride 1, others do not pad */ \
    X(BS_PAD_VALID, "valid")       /* none */                                                                   \
    X(BS_PAD_EXPLICIT, "explicit") /* `pad` on all four sides, or what `pad_top` and so on say */
typedef enum bs_padding { BS_PADDING_LIST(BS_ENUMERATOR) BS_PADDING_COUNT } bs_padding;

/* On a CPU sigmoid, tanh and silu are within 3 units in the last place of the real result, gelu within 8, above 0
 * within 4; in an op of their own and after a product alike: the same bytes on one tier. */
#define BS_ACT_LIST(X)                                                                 \
    X(BS_ACT_NONE, "none")                                                             \
    X(BS_RELU, "relu")                                                                 \
    X(BS_LEAKY_RELU, "leaky_relu") /* act_param: slope, 0 = 0.01 */                    \
    X(BS_PRELU, "prelu")           /* slopes per channel from weight "<name>.prelu" */ \
    X(BS_SIGMOID, "sigmoid")                                                           \
    X(BS_TANH, "tanh")                                                                 \
    X(BS_GELU, "gelu")             /* erf form */                                      \
    X(BS_SILU, "silu")                                                                 \
    X(BS_CLIP, "clip")             /* to 0 .. act_param, 0 = 1 */
typedef enum bs_act { BS_ACT_LIST(BS_ENUMERATOR) BS_ACT_COUNT } bs_act;

/* ------------------------------------------------------------------------------------------ ops: layers */
/* x [C,H,W] -> [out,H',W']. Weights "<name>.weight" [out, C/groups, kh, kw], "<name>.bias" [out].
 * H' = floor((H + pad_top + pad_bottom - dilation_h (kh-1) - 1) / stride_h) + 1, W' alike. Accumulates in f32 in a
 * fixed order. In a patch domain cells stay where they are: pads of an axis make up dilation (kernel-1), and stride_h
 * is stride_w; else it is BS_ERROR_SHAPE. */
typedef struct bs_conv2d_desc {
    const char *name;
    int32_t out;        /* output channels, required */
    int32_t kernel;     /* [3] square kernel, or: */
    int32_t kernel_h, kernel_w;
    int32_t stride;     /* [1] */
    int32_t pad;        /* with BS_PAD_EXPLICIT */
    int32_t dilation;   /* [1] */
    int32_t groups;     /* [1]; BS_DEPTHWISE = one a channel */
    int32_t no_bias;
    int32_t batch_norm; /* 1: "<name>.bn.weight|bias|mean|var" [out], eps 1e-5, folded when loaded */
    int32_t act;        /* bs_act */
    float act_param;
    int32_t padding;    /* bs_padding [dilation (kernel-1)/2, each side: "same" at stride 1] */
    int32_t stride_h, stride_w;     /* [stride] */
    int32_t dilation_h, dilation_w; /* [dilation] */
    int32_t pad_top, pad_left, pad_bottom, pad_right; /* [pad], with BS_PAD_EXPLICIT; the order of ONNX */
} bs_conv2d_desc;
bs_value bs_conv2d(bs_graph *graph, bs_value x, const bs_conv2d_desc *desc);
/* x [C,L] -> [out,L'], by weights [out, C/groups, 1, kernel], the bytes of PyTorch's [out, C/groups, kernel]; or of an
 * image [C,H,W] each row by itself. Fields of the height are not read. Builds a conv2d of an image of height 1 and
 * around it reshape and pad; it is one node, and copies nothing, where x is an image and padding BS_PAD_VALID. */
bs_value bs_conv1d(bs_graph *graph, bs_value x, const bs_conv2d_desc *desc);

/* Transposed convolution: x [C,H,W] -> [out, (H-1) stride - 2 pad + kernel + output_pad, ...].
 * Weight "<name>.weight" [C, out, kh, kw]. */
typedef struct bs_deconv2d_desc {
    const char *name;
    int32_t out, kernel /* [3] */, stride /* [1] */, pad /* with BS_PAD_EXPLICIT */, output_pad;
    int32_t no_bias;
    int32_t act;
    float act_param;
    int32_t padding; /* bs_padding [none] */
} bs_deconv2d_desc;
bs_value bs_deconv2d(bs_graph *graph, bs_value x, const bs_deconv2d_desc *desc);

/* x [..., K] -> [..., out] on the last dimension. Weights "<name>.weight" [out, K], "<name>.bias" [out]. */
typedef struct bs_linear_desc {
    const char *name;
    int32_t out;
    int32_t no_bias;
    int32_t act;
    float act_param;
} bs_linear_desc;
bs_value bs_linear(bs_graph *graph, bs_value x, const bs_linear_desc *desc);

/* One step of an LSTM or a GRU on the last dimension: x [..., I], h (and c) [..., H] -> h' (and c') [..., H]. Weights
 * are PyTorch's LSTMCell's and GRUCell's: "<name>.weight_ih" [4 H, I] (GRU: [3 H, I]), "<name>.weight_hh" [4 H, H], and
 * "<name>.bias_ih", "<name>.bias_hh" [4 H], gates in the order i, f, g, o (r, z, n).
 *     LSTM   i, f, o = sigmoid, g = tanh of W_ih x + b_ih + W_hh h + b_hh;  c' = f c + i g;  h' = o tanh(c')
 *     GRU    r, z = sigmoid of the same;  n = tanh(W_in x + b_in + r (W_hn h + b_hn));  h' = (1 - z) n + z h
 * (ONNX: linear_before_reset = 1). c_out may be NULL. h and c as states are written with bs_state_write.
 * Of several steps whose x are known, all products with W_ih are one bs_linear, which reads it once: with `projected` x
 * is W_ih x + b_ih, [..., 4 H] (GRU: [..., 3 H]), and there are neither "<name>.weight_ih" nor "<name>.bias_ih". */
typedef struct bs_recurrent_desc {
    const char *name;
    int32_t no_bias;
    int32_t projected;
} bs_recurrent_desc;
bs_value bs_lstm(bs_graph *graph, bs_value x, bs_value h, bs_value c, const bs_recurrent_desc *desc, bs_value *c_out);
bs_value bs_gru(bs_graph *graph, bs_value x, bs_value h, const bs_recurrent_desc *desc);

/* a [..., M, K] times b [..., K, N] (transpose_b: b [..., N, K]). Leading dimensions must agree. */
typedef struct bs_matmul_desc {
    const char *name;
    int32_t transpose_b;
    float scale; /* [1] */
} bs_matmul_desc;
bs_value bs_matmul(bs_graph *graph, bs_value a, bs_value b, const bs_matmul_desc *desc);

/* ---------------------------------------------------------------------------------------- ops: elements */
/* Element by element, f32 or i32 (wrapping). Shapes are equal, or broadcast as in NumPy, either way: a dimension of 1
 * is repeated beside n, fewer dimensions are the last ones; but [C] beside [C,H,W] is one value a channel. The first
 * operand says which domain it is; those after it may be captured root values. */
bs_value bs_add(bs_graph *graph, bs_value a, bs_value b);
bs_value bs_sub(bs_graph *graph, bs_value a, bs_value b);
bs_value bs_mul(bs_graph *graph, bs_value a, bs_value b);
bs_value bs_activation(bs_graph *graph, bs_value x, bs_act act, float param); /* BS_PRELU: use bs_prelu */
bs_value bs_prelu(bs_graph *graph, bs_value x, const char *name);            /* slopes "<name>.prelu" [C] */
bs_value bs_clip(bs_graph *graph, bs_value x, float low, float high);
bs_value bs_affine(bs_graph *graph, bs_value x, float scale, float offset); /* x scale + offset */

/* Functions of two operands, f32; min and max also of i32. Shapes and domains as above. pow is the C library's, which
 * is within a unit in the last place with the common ones; on a GPU within 4. */
#define BS_BINARY_LIST(X)                                                               \
    X(BS_BINARY_DIV, "div")                                                             \
    X(BS_BINARY_MIN, "min") /* NaN where either is, as PyTorch's minimum and maximum */ \
    X(BS_BINARY_MAX, "max")                                                             \
    X(BS_BINARY_POW, "pow")
typedef enum bs_binary_kind { BS_BINARY_LIST(BS_ENUMERATOR) BS_BINARY_COUNT } bs_binary_kind;
bs_value bs_binary(bs_graph *graph, bs_value a, bs_value b, bs_binary_kind kind);

/* Truth values are i32: 0 is false, all else true; what is made is 0 or 1. Two operands of f32 or i32, of and, or and
 * xor i32, give one; NaN is not equal to anything. Shapes and domains as above. */
#define BS_COMPARE_LIST(X)                       \
    X(BS_COMPARE_EQUAL, "equal")                 \
    X(BS_COMPARE_NOT_EQUAL, "not_equal")         \
    X(BS_COMPARE_LESS, "less")                   \
    X(BS_COMPARE_LESS_EQUAL, "less_equal")       \
    X(BS_COMPARE_GREATER, "greater")             \
    X(BS_COMPARE_GREATER_EQUAL, "greater_equal") \
    X(BS_COMPARE_AND, "and")                     \
    X(BS_COMPARE_OR, "or")                       \
    X(BS_COMPARE_XOR, "xor")
typedef enum bs_compare_kind { BS_COMPARE_LIST(BS_ENUMERATOR) BS_COMPARE_COUNT } bs_compare_kind;
bs_value bs_compare(bs_graph *graph, bs_value a, bs_value b, bs_compare_kind kind);
/* a where the condition, i32, is true, else b; both f32 or i32. All three may be broadcast. */
bs_value bs_where(bs_graph *graph, bs_value condition, bs_value a, bs_value b);

/* A function of each element, f32; abs, neg and sign also of i32, wrapping. On a CPU exp, log and erf are within 2
 * units in the last place, sqrt and reciprocal as IEEE 754 rounds them, rsqrt is 1 / sqrt(x) rounded twice, and sin to
 * atan are the C library's, for arguments of any size. */
#define BS_UNARY_LIST(X)                                                                   \
    X(BS_UNARY_ABS, "abs")                                                                 \
    X(BS_UNARY_NEG, "neg")                                                                 \
    X(BS_UNARY_SIGN, "sign")             /* -1, 0 or 1; of NaN 0 */                        \
    X(BS_UNARY_FLOOR, "floor")                                                             \
    X(BS_UNARY_CEIL, "ceil")                                                               \
    X(BS_UNARY_ROUND, "round")           /* ties to even */                                \
    X(BS_UNARY_SQRT, "sqrt")                                                               \
    X(BS_UNARY_RSQRT, "rsqrt")                                                             \
    X(BS_UNARY_RECIPROCAL, "reciprocal")                                                   \
    X(BS_UNARY_EXP, "exp")                                                                 \
    X(BS_UNARY_LOG, "log")                                                                 \
    X(BS_UNARY_ERF, "erf")                                                                 \
    X(BS_UNARY_SIN, "sin")                                                                 \
    X(BS_UNARY_COS, "cos")                                                                 \
    X(BS_UNARY_TAN, "tan")                                                                 \
    X(BS_UNARY_ASIN, "asin")                                                               \
    X(BS_UNARY_ACOS, "acos")                                                               \
    X(BS_UNARY_ATAN, "atan")                                                               \
    X(BS_UNARY_NOT, "not")               /* of i32 truth values: 1 where x is 0, else 0 */
typedef enum bs_unary_kind { BS_UNARY_LIST(BS_ENUMERATOR) BS_UNARY_COUNT } bs_unary_kind;
bs_value bs_unary(bs_graph *graph, bs_value x, bs_unary_kind kind);

/* Type conversion. To f32: code x scale. To u8/u16/i8/i32: round to nearest even of x scale, saturated
 * (u16 saturates at 2^code_bits - 1, zero = 16). scale 0 = 1. */
typedef struct bs_convert_desc {
    const char *name;
    int32_t dtype; /* bs_dtype */
    float scale;
    int32_t code_bits;
} bs_convert_desc;
bs_value bs_convert(bs_graph *graph, bs_value x, const bs_convert_desc *desc);

/* ------------------------------------------------------------------------------------------ ops: shapes */
bs_value bs_concat(bs_graph *graph, const bs_value *values, int32_t count, int32_t axis);
typedef struct bs_slice_desc { const char *name; int32_t axis, start, length; } bs_slice_desc;
bs_value bs_slice(bs_graph *graph, bs_value x, const bs_slice_desc *desc);
typedef struct bs_roll_desc { const char *name; int32_t axis, shift; } bs_roll_desc;
/* y[i] = x[(i - shift) mod n] along a dimension of n (torch.roll); in patches along the channels only. */
bs_value bs_roll(bs_graph *graph, bs_value x, const bs_roll_desc *desc);
/* One dimension may be -1. What it makes may have a rank up to BS_MAX_AXES, as may what transpose and slice make of
 * that, for each other alone: every other op takes BS_MAX_RANK. */
bs_value bs_reshape(bs_graph *graph, bs_value x, bs_shape shape);
typedef struct bs_transpose_desc { const char *name; int32_t order[BS_MAX_AXES]; } bs_transpose_desc;
bs_value bs_transpose(bs_graph *graph, bs_value x, const bs_transpose_desc *desc);
#define BS_EDGE_LIST(X)                                                                                             \
    X(BS_EDGE_VALUE, "value")                                                                                       \
    X(BS_EDGE_REPEAT, "repeat")   /* the pixel of the edge (PyTorch 'replicate') */                                 \
    X(BS_EDGE_REFLECT, "reflect") /* the image, mirrored at that pixel, which is not repeated: fewer than it has */
typedef enum bs_pad_edge { BS_EDGE_LIST(BS_ENUMERATOR) BS_EDGE_COUNT } bs_pad_edge;
typedef struct bs_pad_desc {
    const char *name;
    int32_t top, bottom, left, right;
    float value;
    int32_t edge; /* bs_pad_edge */
} bs_pad_desc;
/* A border around a whole image [C,H,W], of any type: not in patches, whose cells would move in their frame. */
bs_value bs_pad(bs_graph *graph, bs_value x, const bs_pad_desc *desc);

/* ------------------------------------------------------------------------------- ops: softmax and norms */
/* Over the last dimension. On a CPU within 6 units in the last place, of differences to the largest as floats. */
bs_value bs_softmax(bs_graph *graph, bs_value x);
typedef struct bs_norm_desc { const char *name; float epsilon; /* [1e-5] */ } bs_norm_desc;
/* Last dim; ".weight", ".bias". On a CPU within 2^-22 of |bias| + |weight| (1 + largest |x| / standard deviation). */
bs_value bs_layer_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc);
/* x / sqrt(mean(x^2) + epsilon) weight over the last dimension (Zhang & Sennrich 2019); ".weight". On a CPU within 4
 * units in the last place where the mean of squares is a normal number. */
bs_value bs_rms_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc);
/* channel dim 0; ".weight|bias|mean|var" */
bs_value bs_batch_norm(bs_graph *graph, bs_value x, const bs_norm_desc *desc);

/* Local response normalisation (Krizhevsky et al. 2012), as ONNX has it: each channel c of an image [C,H,W] becomes
 *     x_c / (bias + alpha/size sum of x_k^2)^beta,   k = c - floor((size-1)/2) .. c + ceil((size-1)/2)
 * of those there are, in f32, from the lowest channel up. */
typedef struct bs_lrn_desc {
    const char *name;
    int32_t size;      /* [5] channels of a window */
    float alpha, beta; /* [1e-4], [0.75] */
    float bias;        /* [1] */
} bs_lrn_desc;
bs_value bs_lrn(bs_graph *graph, bs_value x, const bs_lrn_desc *desc);

/* ------------------------------------------------------------------------------------------ ops: images */
/* [C r r,H,W] <-> [C,rH,rW]; channel c r r + i r + j holds the pixel (i,j) of each r x r group. */
bs_value bs_pixel_shuffle(bs_graph *graph, bs_value x, int32_t r);
bs_value bs_pixel_unshuffle(bs_graph *graph, bs_value x, int32_t r);

#define BS_POOL_LIST(X)           \
    X(BS_POOL_AVERAGE, "average") \
    X(BS_POOL_MAX, "max")
typedef enum bs_pool { BS_POOL_LIST(BS_ENUMERATOR) BS_POOL_COUNT } bs_pool;
/* x [C,H,W] -> [C,H',W'], sizes as of conv2d. Of a window what lies in the frame counts; one without any is 0. Pads are
 * dilation (kernel-1) at most. */
typedef struct bs_pool2d_desc {
    const char *name;
    int32_t kind, kernel /* [2] */, stride /* [kernel] */, pad /* with BS_PAD_EXPLICIT */;
    int32_t global; /* 1: [C,H,W] -> [C]; a patch's core only */
    int32_t count_pad; /* average: 1 divides by kernel_h kernel_w at the edges too */
    int32_t padding;   /* bs_padding [none] */
    int32_t kernel_h, kernel_w;     /* [kernel] */
    int32_t stride_h, stride_w;     /* [stride; kernel_h, kernel_w] */
    int32_t dilation_h, dilation_w; /* [1] */
    int32_t pad_top, pad_left, pad_bottom, pad_right; /* [pad], with BS_PAD_EXPLICIT */
} bs_pool2d_desc;
bs_value bs_pool2d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc);
/* x [C,L] -> [C,L'], or [C] with `global`; or of an image each row. Fields of the height are not read. */
bs_value bs_pool1d(bs_graph *graph, bs_value x, const bs_pool2d_desc *desc);

#define BS_RESIZE_LIST(X)                                                                                       \
    X(BS_RESIZE_NEAREST, "nearest")                                                                             \
    X(BS_RESIZE_BILINEAR, "bilinear")                                                                           \
    X(BS_RESIZE_BICUBIC, "bicubic")                                                                             \
    X(BS_RESIZE_AREA, "area")         /* the mean of the pixels that one touches (to a size: PyTorch 'area') */
typedef enum bs_resize_kind { BS_RESIZE_LIST(BS_ENUMERATOR) BS_RESIZE_COUNT } bs_resize_kind;
/* Where pixel i of the result lies in the operand, which is in/out times as large (ONNX Resize). */
#define BS_CENTRES_LIST(X)                                                                                      \
    X(BS_RESIZE_HALF_PIXEL, "half_pixel")       /* (i + 1/2) in/out - 1/2; NEAREST: PyTorch 'nearest-exact' */  \
    X(BS_RESIZE_ALIGN_CORNERS, "align_corners") /* i (in - 1) / (out - 1): whole images only, not in patches */ \
    X(BS_RESIZE_ASYMMETRIC, "asymmetric")       /* i in/out; NEAREST: PyTorch 'nearest' */
typedef enum bs_resize_centres { BS_CENTRES_LIST(BS_ENUMERATOR) BS_CENTRES_COUNT } bs_resize_centres;
/* [C,H,W] to floor(H factor/den), floor(W factor/den), or to height x width; edges replicated. bicubic: a = cubic_a
 * [-0.5]. u8 and u16 bicubic x2 run in integers (same codes on every tier). code_bits as in bs_convert. In patches
 * cells must stay whole pixels, and there are no sizes. NEAREST is rounded down: with ALIGN_CORNERS too. */
typedef struct bs_resize_desc {
    const char *name;
    int32_t kind, factor /* [2] at most 16 times den */;
    float cubic_a;
    int32_t code_bits;
    int32_t den;           /* [1] */
    int32_t height, width; /* both, and factor 0: of whole images */
    int32_t centres;       /* bs_resize_centres; of AREA HALF_PIXEL */
    int32_t antialias;     /* 1: BILINEAR and BICUBIC of HALF_PIXEL, down to 1/16 (PyTorch antialias=True) */
} bs_resize_desc;
bs_value bs_resize(bs_graph *graph, bs_value x, const bs_resize_desc *desc);

/* -------------------------------------------------------------------------------------- ops: reductions */
#define BS_REDUCE_LIST(X)                                                                          \
    X(BS_REDUCE_SUM, "sum")                                                                        \
    X(BS_REDUCE_MEAN, "mean")                                                                      \
    X(BS_REDUCE_MAX, "max")                 /* of numbers: NaN counts where it comes first */      \
    X(BS_REDUCE_MIN, "min")                                                                        \
    X(BS_REDUCE_PROD, "prod")                                                                      \
    X(BS_REDUCE_SUM_SQUARE, "sum_square")   /* of x^2 */                                           \
    X(BS_REDUCE_L1, "l1")                   /* of |x| */                                           \
    X(BS_REDUCE_L2, "l2")                   /* the root of the sum of x^2 */                       \
    X(BS_REDUCE_LOG_SUM_EXP, "log_sum_exp") /* top + log(sum of e^(x - top)), top the largest x */
typedef enum bs_reduce_kind { BS_REDUCE_LIST(BS_ENUMERATOR) BS_REDUCE_COUNT } bs_reduce_kind;
/* f32, over one dimension or some that follow each other; what is left is [1] at least. On a CPU from index 0 up, the
 * last dimension fastest. A frame that is cut into patches: its channels only, with `keep`. */
typedef struct bs_reduce_desc {
    const char *name;
    int32_t kind, axis /* the first one; negative counts from the end */;
    int32_t keep; /* 1: reduced dimensions stay, as 1 */
    int32_t axes; /* [1] how many dimensions, from `axis` on */
} bs_reduce_desc;
bs_value bs_reduce(bs_graph *graph, bs_value x, const bs_reduce_desc *desc);
/* Of f32 or i32 over the last dimension -> i32: the first of equals. NaN is taken where it comes first, elsewhere it is
 * ignored. */
bs_value bs_argmax(bs_graph *graph, bs_value x);
bs_value bs_argmin(bs_graph *graph, bs_value x);
/* Running sums of f32 or i32 (which wrap) along a dimension: y_i is the sum of all x_k with k <= i. On a CPU from the
 * first to the last. */
typedef struct bs_cumsum_desc {
    const char *name;
    int32_t axis /* negative counts from the end */;
    int32_t exclusive; /* 1: of k < i */
    int32_t reverse;   /* 1: from the end: of k >= i, or k > i */
} bs_cumsum_desc;
bs_value bs_cumsum(bs_graph *graph, bs_value x, const bs_cumsum_desc *desc);
bs_value bs_topk(bs_graph *graph, bs_value x, int32_t k, bs_value *indices); /* last dim; ties: lower index first */

/* ----------------------------------------------------------------------------------------- ops: indices */
/* Rows of `table` (root or same domain; [N, ...]) by i32 indices [M] -> [M, ...]. An index out of range is
 * BS_ERROR_DATA. */
bs_value bs_gather_rows(bs_graph *graph, bs_value table, bs_value indices);
/* x with the indices in place of its dimension `axis` (negative counts from the end): i32 of rank 0, 1 or 2, so that
 * [A, N, B] and [M] give [A, M, B] (ONNX Gather, PyTorch index_select). Indices are 0 .. N - 1 here and below: one that
 * is not is BS_ERROR_DATA. Here and below any operand may be a root value beside others of one domain. */
bs_value bs_select(bs_graph *graph, bs_value x, bs_value indices, int32_t axis);
/* An element for each index: indices i32 of x's rank, along other dimensions at most as many as x has. y[i][j] =
 * x[indices[i][j]][j] along axis 0 (ONNX GatherElements, torch.gather). */
bs_value bs_gather_elements(bs_graph *graph, bs_value x, bs_value indices, int32_t axis);

#define BS_UPDATE_LIST(X)       \
    X(BS_UPDATE_WRITE, "write") \
    X(BS_UPDATE_ADD, "add")
typedef enum bs_update { BS_UPDATE_LIST(BS_ENUMERATOR) BS_UPDATE_COUNT } bs_update;
typedef struct bs_update_desc {
    const char *name;
    int32_t axis;   /* negative counts from the end */
    int32_t update; /* bs_update; ADD: f32 or i32 */
} bs_update_desc;
/* x, in which updates are written or added where indices say, both of one shape: y[indices[i][j]][j] = updates[i][j]
 * along axis 0 (ONNX ScatterElements, torch.scatter). Those of one element are taken in rising order of i: the last one
 * stays, and sums are the same bytes always. desc may be NULL. */
bs_value bs_scatter_elements(bs_graph *graph, bs_value x, bs_value indices, bs_value updates,
                             const bs_update_desc *desc);
/* The same for whole rows (or what lies along another axis): table [N, ...], indices i32 [M], updates [M, ...] (PyTorch
 * index_copy, index_add). */
bs_value bs_scatter_rows(bs_graph *graph, bs_value table, bs_value indices, bs_value updates,
                         const bs_update_desc *desc);

/* ------------------------------------------------------------------------------- ops: extents from data
 * Some ops know only when they have run how long their result is: its dimension is a symbol with the descriptor's
 * maximum, named as the node, from 0 on in a run. A run that would be beyond the maximum is BS_ERROR_DATA,
 * and so is one that makes a dimension derived of it negative. Whatever follows computes as many elements as there are;
 * a result without elements is computed by nothing, and an op that wants elements (a maximum, an average) and gets none
 * ends the run with BS_ERROR_DATA. An output's buffer has the maximum in such a dimension: what lies beyond the extent
 * of a run is left as it is, and bs_output_extents tells that extent. Operands are root values. */
typedef struct bs_extent_desc {
    const char *name;
    int32_t maximum; /* 1 .. 2^30 */
} bs_extent_desc;
/* start, start + step, ... up to `limit`, which is not one of them (ONNX Range, torch.arange, numpy.arange): f32 or i32
 * [n], operands of that type with one element. start may be BS_NONE: 0; with that step may be BS_NONE: 1. Element i is
 * start + i step, rounded once. A step of 0, infinities and NaN are BS_ERROR_DATA. */
bs_value bs_arange(bs_graph *graph, bs_value limit, bs_value start, bs_value step, const bs_extent_desc *desc);
/* The indices of all elements that are not 0 (NaN is not), the last dimension fastest: x of any type and rank 1 .. 4 ->
 * i32 [n, rank] (torch.nonzero). desc may be NULL; maximum [elements of x]. */
bs_value bs_nonzero(bs_graph *graph, bs_value x, const bs_extent_desc *desc);
/* The different elements of x, in rising order [n]: f32 or i32 of rank 1 .. 4 (ONNX Unique, torch.unique). -0 is 0,
 * and all NaN are one element, the last. outputs [4], may be NULL: these elements, each as it stands where it comes
 * first; i32 [n]: that place, counted over all of x, the last dimension fastest; i32 of x's shape: which of the
 * elements stands there; i32 [n]: how often each is there. Returns the first one. desc may be NULL; maximum [elements
 * of x, below 2^31]. */
bs_value bs_unique(bs_graph *graph, bs_value x, const bs_extent_desc *desc, bs_value *outputs);

typedef struct bs_nms_desc {
    const char *name;
    int32_t maximum;     /* [as many as there can be] rows of the result */
    int32_t max_each;    /* [as many as there are] boxes of each class of a batch */
    float iou_threshold; /* 0 .. 1 */
    float score_above;   /* a box wants a score above it: with 0 a positive one, with -INFINITY any but that */
    int32_t centre;      /* 1: boxes are x y w h, x and y of their centre; 0: y x y x of two opposite corners */
} bs_nms_desc;
/* Of boxes that overlap the best ones (ONNX NonMaxSuppression): boxes f32 [B, N, 4], scores f32 [B, C, N] -> i32
 * [n, 3]: batch, class, box. For each class of a batch, from the highest score down (of equal ones the lower index
 * first), a box is kept if with none that is kept already it shares more than iou_threshold of the area of both. In
 * f32: a side is high - low, an area the product of two sides, a share A / (area + area - A), areas added first; of no
 * area it is 0. A score that is NaN is BS_ERROR_DATA. desc may be NULL. */
bs_value bs_nms(bs_graph *graph, bs_value boxes, bs_value scores, const bs_nms_desc *desc);

/* -------------------------------------------------------------------------- ops: constants and features */
/* A constant from the weights: "<name>" of that dtype (f32 or i32) and shape, root domain. */
bs_value bs_constant(bs_graph *graph, const char *name, bs_dtype dtype, bs_shape shape);

/* Integer features of a patch (u8 or u16): per core area A of A samples,
 *   energy = 16 sum((4 c - up - down - left - right)^2) / A   (edges replicated)
 *   change = 16 sum((c - reference)^2) / A                    (reference may be BS_NONE: change = 0)
 * -> i32 [2], the buckets of both: 0 for 0, else 1 + floor(4 log2(v)), at most buckets-1 [64].
 * u16 codes are first shifted right by code_bits - 8. Integer arithmetic: the same on every tier. */
typedef struct bs_patch_features_desc { const char *name; int32_t buckets, code_bits; } bs_patch_features_desc;
bs_value bs_patch_features(bs_graph *graph, bs_value cells, bs_value reference, const bs_patch_features_desc *desc);

/* ------------------------------------------------------------------------------------ rows and segments */
/* Leading dimension of a root value -> rows of a domain of its own (samples, tokens): [N, ...] -> N cells [...].
 * like: a cell value whose domain the rows shall join (x has as many rows at least; the first ones are taken), or
 * BS_NONE. */
bs_value bs_rows(bs_graph *graph, bs_value x, bs_value like);
/* Rows back to a root value [N, ...]. */
bs_value bs_collect(bs_graph *graph, bs_value cells);

/* Rows grouped in segments: tokens of sequences, patches of frames. x: a root value [n, ...]; lengths: a root *input*
 * i32 [s], the rows of each segment in this run: >= 0, together n, else the run is BS_ERROR_DATA before anything has
 * run. The rows of x become the cells [...] of a domain of their own, segment 0's first; routers, blocks, gathers and
 * bs_collect take them as any rows. Two calls with one `lengths` and the same leading dimension give one domain.
 * Rows that take a path, or make a trip of a loop, stay in their segments: to the ops below a segment is those of its
 * rows that are there, in their order. */
bs_value bs_segments(bs_graph *graph, bs_value x, bs_value lengths);
/* The number of each cell in its segment, from 0: i32 []. cache_lengths: a root input i32 [s] that is added, as for
 * bs_attention, or BS_NONE. like: any cells of the segments. */
bs_value bs_segment_index(bs_graph *graph, bs_value like, bs_value cache_lengths);
/* Rotary position embedding (Su et al. 2021): x, f32 cells [heads features] or [heads, features] of any rows (or a
 * root value), positions i32 [] or [1] of the same rows: 0 .. 2^30, else BS_ERROR_DATA. With m = dims/2, pair i < m of
 * each head turns by the angle position base^(-i/m):
 *     a cos - b sin, b cos + a sin       of elements a = i, b = i + m (Llama, GPT-NeoX), or 2i, 2i + 1 (interleaved)
 * Elements from `dims` on are copied. Sines and cosines are within 2^-23 of those of the exact angle up to positions of
 * 2^20, and the same bytes on any tier. */
typedef struct bs_rope_desc {
    const char *name;
    int32_t heads; /* [1] of x [heads features] */
    int32_t dims;  /* [features] that turn: an even number */
    float base;    /* [10000] 1 or more */
    int32_t interleaved;
} bs_rope_desc;
bs_value bs_rope(bs_graph *graph, bs_value x, bs_value positions, const bs_rope_desc *desc);
/* Each cell gets its segment's row [...] of `parent`, a root value [s, ...]. like: any cells of the segments. */
bs_value bs_segment_spread(bs_graph *graph, bs_value parent, bs_value like);

#define BS_SEGMENT_LIST(X)     \
    X(BS_SEGMENT_LAST, "last") \
    X(BS_SEGMENT_SUM, "sum")   \
    X(BS_SEGMENT_MEAN, "mean") \
    X(BS_SEGMENT_MAX, "max")
typedef enum bs_segment_mode { BS_SEGMENT_LIST(BS_ENUMERATOR) BS_SEGMENT_COUNT } bs_segment_mode;
typedef struct bs_segment_reduce_desc {
    const char *name;
    int32_t mode;
    int32_t to_rows; /* 1: each row gets what its segment gives; so in the body of a loop */
} bs_segment_reduce_desc;
/* One row a segment: f32 cells [...] -> a root value [s, ...], or, with to_rows, cells [...] as they come in. Sums run
 * from a segment's first row to its last, in f32. An empty segment gives zeros. desc may be NULL: the last row. */
bs_value bs_segment_reduce(bs_graph *graph, bs_value x, const bs_segment_reduce_desc *desc);

/* -------------------------------------------------------------------------------------------- attention */
/* Attention of many heads of the rows of each segment, to themselves and what a cache holds of them, or to another's.
 * q: f32 [d] cells in segments; k, v: f32 [kv_heads d/heads] cells in segments, of one domain; the result is as q.
 * Head h has elements h d/heads .. of q, and head floor(h kv_heads / heads) of k and v: fewer kv_heads are
 * grouped-query attention (Ainslie et al. 2023).
 *   causal (bidirectional 0): all are of one domain; a row attends to the last `window` positions up to its own.
 *   bidirectional 1: a row attends to all rows of k in the segment of that number, and to all that the cache holds. k
 *   may
 *     be of another domain than q (cross attention), with as many segments: a run whose numbers differ is
 *     BS_ERROR_DATA.
 * cache_k, cache_v: root values f32 [s, window, kv_heads d/heads], states as a rule; cache_lengths: a root input i32
 * [s], the tokens that the cache of each sequence has seen: 0 .. 2^30, else BS_ERROR_DATA as above. Row i of a segment
 * of k stands at position cache length + i; position j < cache length lies in row j mod window of the cache. A row of q
 * has the position p of the row of k beside it, and across domains its number in the segment. The result is
 *     sum_j softmax_j(scale q k_j - slope_h |p - j|) v_j       (Vaswani et al. 2017)
 * alibi 1: slope_h = 2^(-8 (h+1) / heads) (Press et al. 2022), else 0. All in f32, in an order that depends on
 * positions alone: a sequence in one run or token by token, alone or in a batch, gives the same bytes. No key beyond
 * those that a row attends to has any influence, NaN included; a row without keys gives zeros. The cache is not
 * written: that is bs_state_append, at the end. cache_k, cache_v and cache_lengths all BS_NONE: no cache, a row attends
 * to its segment. desc may be NULL. */
typedef struct bs_attention_desc {
    const char *name;
    int32_t heads; /* [1] must divide d */
    int32_t alibi;
    int32_t kv_heads;      /* [heads] must divide heads */
    int32_t bidirectional; /* 1: not causal */
    float scale;           /* [1 / sqrt(d/heads)] */
} bs_attention_desc;
bs_value bs_attention(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value cache_k, bs_value cache_v,
                      bs_value cache_lengths, const bs_attention_desc *desc);
/* The same with something that is added to the scores, of one of two kinds:
 *   a mask  f32 [] or [1] cells of k's domain, or i32 ones: 0 hides the key (key padding). Without a cache. A hidden
 *   key
 *           (i32 0, f32 -infinity) and its value have no influence, whatever they hold, NaN included.
 *   a bias  a root value f32 [1 or heads, p, j]: element [h, p, j] for position p and key j (relative positions as of
 *           T5). Every position of a run must be within it, else BS_ERROR_DATA.
 * A row that is left without keys gives zeros. mask BS_NONE: none. */
bs_value bs_attention_masked(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value cache_k, bs_value cache_v,
                             bs_value cache_lengths, bs_value mask, const bs_attention_desc *desc);
/* At the end of a run, as bs_state_write: writes cells of segments, all of their rows, behind what the cache, a state
 * [s, window, ...cell], holds: row i of segment g to [g, (cache_lengths[g] + i) mod window]. Only the last `window`
 * rows of a segment are written. cache_lengths: as for bs_attention. Make s a constant (sequences without rows have
 * length 0): a state whose extents change starts anew. */
void bs_state_append(bs_graph *graph, bs_value state, bs_value value, bs_value cache_lengths);

/* ---------------------------------------------------------------------------------------------- patches */
/* A frame [C,H,W] -> cells of size x size pixels. What an op needs beyond its cell (the halo) is provided inside
 * the frame, and ops pad at the frame's edge, so the assembled result equals the untiled network.
 * like: cells of a frame whose extents are 1/k of this one's: joins their domain with k times their size. */
typedef struct bs_patches_desc {
    const char *name;
    int32_t size /* [64] */;
    bs_value like; /* cells; BS_NONE: a domain of its own */
} bs_patches_desc;
bs_value bs_patches(bs_graph *graph, bs_value frame, const bs_patches_desc *desc);
bs_value bs_assemble(bs_graph *graph, bs_value cells); /* cells [C,h,w] of a patch domain -> frame */

/* ---------------------------------------------------------------------------------------------- routers */
/* How scores become a decision. Scores are f32 or i32 [paths] a cell unless said otherwise. NaN scores:
 * BS_ERROR_DATA. */
typedef enum bs_protocol {
    BS_ROUTE_TOP1,               /* the highest score; ties: the lower path. Gate: its score. */
    BS_ROUTE_TOPK,               /* the k highest; gate: its score */
    BS_ROUTE_THRESHOLD,          /* every path with score > threshold; none: `fallback` path (or nothing) */
    BS_ROUTE_RESIDUAL_THRESHOLD, /* 2 paths: sum of scores < threshold -> path 0, else path 1 */
    BS_ROUTE_BINARY,             /* score [1]: score >= threshold -> path 0 (exit), else path 1 (continue) */
    BS_ROUTE_LABEL,              /* i32 [1]: the path itself; out of range: BS_ERROR_DATA */
    BS_ROUTE_TABLE,              /* i32 [1]: key into the table "<name>.table" i32 [keys] of paths */
    BS_ROUTE_CAPACITY,           /* top-k, at most `capacity` cells a path: first by priority (highest score, then
                                    lower row), later choices after earlier; excess is counted, and dropped or taken by
                                    the path `spill`, which has no limit: a cell goes there once, with the sum of the
                                    gates of all choices that it takes */
    BS_ROUTE_BUDGET,             /* scores = estimated losses (i32 >= 0, at most 2^24) of `variants`: "<name>.cost" and
                                    "<name>.path" i32 [variants] say what each costs and which path it takes (several
                                    may take one that decides the rest by itself, at the price).
                                    The cheapest choice whose losses sum to at most budget x the sum over cells of
                                    (loss of the baseline - best loss), each patch weighted by its area: each
                                    cell minimises cost + price x loss, at the lowest price that is within it.
                                    With a `floor` the sum may always reach `floor` a cell, on top of the best losses;
                                    what one cell adds is then at most 8 x floor, or what the budget alone would take.
                                    It is one sum: the budget gives nothing more until its share is the larger. */
    BS_ROUTE_CALLBACK,           /* the caller's function, which bs_set_route names */
    BS_PROTOCOL_COUNT
} bs_protocol;

typedef struct bs_route_desc {
    const char *name;
    int32_t protocol; /* bs_protocol */
    int32_t paths;    /* 1 .. BS_MAX_PATHS */
    int32_t k;        /* [1] TOPK, CAPACITY */
    float threshold;
    BS_ONE_OF {
        int32_t fallback; /* THRESHOLD: path + 1 of cells that no score sends anywhere; 0 = they go nowhere */
        int32_t baseline; /* BUDGET: variant + 1 that the budget is counted from; 0 = the worst */
    };
    BS_ONE_OF {
        int32_t capacity; /* CAPACITY: most cells of a path, 1 or more */
        int32_t keys;     /* TABLE: [256] length of the table */
        int32_t variants; /* BUDGET: [one a path] how many losses a cell has */
    };
    int32_t normalise; /* TOPK, CAPACITY: 1 divides gates by their sum over a cell, where that is positive and finite */
    int32_t floor; /* BUDGET: a mean loss that nobody sees, 0 .. 2^24; 0 = none */
    int32_t spill; /* CAPACITY: path + 1 that takes what is beyond the capacity of others; 0 = that is dropped */
} bs_route_desc;
/* score decides; knob: a captured root value, or BS_NONE: BUDGET: f32 [1] the budget (fraction 0..1);
 * (none is a budget of 0); BINARY, THRESHOLD, RESIDUAL_THRESHOLD: f32 [1] added to the threshold. */
bs_router bs_route(bs_graph *graph, bs_value score, bs_value knob, const bs_route_desc *desc);
/* Predicts what a later router, given by name, will decide: `score` is what it would see if it were run on what is
 * known now (the next layer's router on this layer's rows, a trained guess). TOP1 and TOPK only; one score a path.
 * Weights of the paths it points to are read ahead when the plan streams them; without memory for slots nothing is
 * computed for it. */
void bs_look_ahead(bs_graph *graph, bs_value score, const char *router);
/* Rows of x that went to `path`. */
bs_value bs_scatter(bs_graph *graph, bs_router router, int32_t path, bs_value x);
/* BUDGET: log2 of loss per unit of cost at which the choice was made, a root value f32 [1]. */
bs_value bs_route_price(bs_graph *graph, bs_router router);
/* The score of the first chosen path (BUDGET: the loss of the chosen variant), in the parent's rows: [1]. Cells without
 * a path: 0. */
bs_value bs_route_score(bs_graph *graph, bs_router router);

/* ----------------------------------------------------------------------------------- blocks and gathers */
typedef bs_value (*bs_block_function)(bs_graph *graph, bs_value x, void *user);
/* Opens block `name` on `path`, scatters x, builds the function's nodes into it. */
bs_value bs_branch(bs_graph *graph, bs_router router, int32_t path, const char *name, bs_value x,
                   bs_block_function function, void *user);
/* The same by hand: nodes built between begin and end belong to the block (own group of weights). */
void bs_block_begin(bs_graph *graph, const char *name);
void bs_block_end(bs_graph *graph);

#define BS_GATHER_LIST(X)                                                                                          \
    X(BS_GATHER_PLACE, "place")       /* the row of the one path the cell took (at most one path a cell) */        \
    X(BS_GATHER_ADD, "add")           /* sum over the cell's paths, in path order */                               \
    X(BS_GATHER_WEIGHTED, "weighted") /* sum of gate x row, in path order */                                       \
    X(BS_GATHER_SELECT, "select")     /* the row of the cell's path with the largest gate; ties: the lower path */
typedef enum bs_gather_mode { BS_GATHER_LIST(BS_ENUMERATOR) BS_GATHER_COUNT } bs_gather_mode;
/* values[path] (BS_NONE: the path gives nothing) -> rows of the router's parent domain. Cells without a row take
 * their row of `residual` (PLACE, SELECT), or add it (ADD, WEIGHTED); BS_NONE: zero. A cell has no row when it took no
 * path, and with PLACE and SELECT when the one path it took, or the one with its largest gate, gives nothing. */
typedef struct bs_gather_desc { const char *name; int32_t mode; } bs_gather_desc;
bs_value bs_gather(bs_graph *graph, bs_router router, const bs_value *values, bs_value residual,
                   const bs_gather_desc *desc);

/* ------------------------------------------------------------------------------------------------ loops
 * The rows of a domain, or the root (one row), go through the body again and again, each as often as it needs;
 * rows that are done cost nothing. A loop is a router whose one path is the body, decided again after each trip:
 *
 *     bs_router loop = bs_loop_begin(g, x, BS_NONE, &(bs_loop_desc){.name = "steps", .over = x});
 *     bs_value h = bs_loop_carry(g, loop, h0);                    what the row has before the trip
 *     bs_value y = body(g, bs_loop_slice(g, loop, x), h);
 *     bs_value last = bs_loop_next(g, loop, h, y);                what it has after it
 *     bs_value all = bs_loop_collect(g, loop, y);
 *     bs_loop_end(g, loop, BS_NONE);
 *
 * Between begin and end values of the body are built as those of any path: from carried values, slices, and rows of the
 * outside by bs_scatter(graph, loop, 0, x). What a loop gives is of the domain around it and is read after its end.
 * Loops stand in loops, up to 8 deep, and end in the order opposite to that in which they begin. No carried value of
 * patches may need a halo. What is made of scatters of the loop and root values alone, row by row, is the same in every
 * trip: it is lifted, built around the loop and scattered. That is one node and value more for each of its results.
 *
 * A row makes as many trips as its `count` says, or as dimension 0 of `over` has in the run, or `bound`, and none after
 * a trip whose predicate does not hold. BS_ERROR_DATA, which names loop and row: a count beyond the bound, or beyond
 * what `over` has in the run; without `count` and `over`, a predicate that still holds after `bound` trips; one that is
 * NaN. */
#define BS_MAX_TRIPS (1 << 24)
typedef struct bs_loop_desc {
    const char *name; /* among those of routers */
    int32_t bound;    /* most trips of a row, 1 .. BS_MAX_TRIPS; with `over` 0 is its largest extent */
    bs_value over;    /* a value [T, ...]: T trips; or BS_NONE */
    int32_t in_turn;  /* not 0: a row makes one trip alone, the one that its count is the number of, from 1 */
    int32_t grows;    /* not 0: a row makes one trip, and rows for the next one: see bs_loop_parent */
    int32_t no_lift;  /* not 0: what is the same in every trip is computed in each; else before the loop, of all rows */
} bs_loop_desc;
/* like: a value of the domain whose rows loop. count: i32 [1] of that domain, read before the first
 * trip, or BS_NONE; below 1: no trip. */
bs_router bs_loop_begin(bs_graph *graph, bs_value like, bs_value count, const bs_loop_desc *desc);
/* A value that trips hand on: `initial`, of the loop's domain or one root value for all rows, before the first one.
 * Gives it in the body. */
bs_value bs_loop_carry(bs_graph *graph, bs_router loop, bs_value initial);
/* What `carried` is after the trip: `value` of the body, of the same type and shape. Gives what each row has in the
 * end. carried BS_NONE: the value of the row's last trip, zeros where it makes none. */
bs_value bs_loop_next(bs_graph *graph, bs_router loop, bs_value carried, bs_value value);
/* The values of all trips, [T, ...] or [bound, ...]; zeros for trips that a row does not make. */
bs_value bs_loop_collect(bs_graph *graph, bs_router loop, bs_value value);
/* In the body: the number of the trip, i32 [1], from 0; and x[trip] of x [T, ...] of the loop's domain. */
bs_value bs_loop_trip(bs_graph *graph, bs_router loop);
bs_value bs_loop_slice(bs_graph *graph, bs_router loop, bs_value x);
/* In the body: the rows of a carried value that index, i32 [K] or a number alone, names: [K, ...], or one. They are as
 * before the trip, those that make it as well; -1: zeros. Rows count from 0 in the domain of the loop, which must be
 * one of bs_rows and not of a path; it then runs layer by layer. BS_ERROR_DATA: an index that is out of range. */
bs_value bs_loop_rows(bs_graph *graph, bs_router loop, bs_value carried, bs_value index);
/* After the end: how many trips each row made, i32 [1]. Call it in the body. */
bs_value bs_loop_trips(bs_graph *graph, bs_router loop);
/* go_on: f32 or i32 [1] of the body, above 0: the row makes another trip. BS_NONE: as many as there are. */
void bs_loop_end(bs_graph *graph, bs_router loop, bs_value go_on);

/* ------------------------------------------------------------------------------------------------ trees
 * A row is a vertex, and reads what its children have by bs_loop_rows. With the levels as count, in
 * turn, vertices of one level make a trip together, those of many graphs at once:
 *
 *     bs_value children = bs_children(g, lengths, indices, 2);
 *     bs_value x = bs_rows(g, words, BS_NONE), of = bs_rows(g, children, x);
 *     bs_router loop = bs_loop_begin(g, x, bs_rows(g, bs_levels(g, children), x),
 *                                    &(bs_loop_desc){.name = "tree", .bound = DEPTH, .in_turn = 1});
 *     bs_value h = bs_loop_carry(g, loop, zeros);
 *     bs_value below = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, of));      [2, ...]
 *
 * Lists of children, i32 [E], one behind the other, as long as lengths, i32 [V], says; E may be more than all of them.
 * Gives [V, slots], -1 behind the last child of a row. BS_ERROR_DATA: a length that is below 0, above `slots`, or more
 * than is left. */
bs_value bs_children(bs_graph *graph, bs_value lengths, bs_value indices, int32_t slots);
/* children: i32 [V, K], numbers of rows or -1. Gives i32 [V, 1]: 1 for a row without children, else 1 more than the
 * highest level of its children. BS_ERROR_DATA: a number out of range; children that go round in a circle. */
bs_value bs_levels(bs_graph *graph, bs_value children);
/* A structure that is decided while it grows: rows with a count above 0 make the first trip; `go_on`, here i32 [1],
 * says how many rows a row makes for the next one. These are numbered from the row behind the last that made the first
 * trip on, in the order of those that make them; they must be rows of the domain, which has room for all of them.
 * BS_ERROR_DATA: a row makes more than there is room for, or makes some in the last trip that there may be.
 * bs_loop_parent: in the body, the row that made this one, i32 [1]; -1: none did. By bs_loop_rows it sees what that one
 * has. bs_loop_child: which one it is of those that the same row made, from 0. */
bs_value bs_loop_parent(bs_graph *graph, bs_router loop);
bs_value bs_loop_child(bs_graph *graph, bs_router loop);

#ifdef __cplusplus
}
#endif
#endif
