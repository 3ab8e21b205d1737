/* brainstorm_cuda.cu - 0.1.0.   MIT licence, see LICENSE.   Documentation: brainstorm.h
 * Generated from src/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.
 * sha256 of the parts: 82a8fa261e3cfe638bfc5b0410d8ed43c8675ced8c86c4498019429ca7e69f12
 */
#include "brainstorm.h"

#if BS_VERSION_MAJOR != 0 || BS_VERSION_MINOR != 1 || BS_VERSION_PATCH != 0
#error "brainstorm.h and brainstorm_cuda.cu are of different versions"
#endif

#if defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 177
#elif defined(__CUDACC__)
#pragma diag_suppress 177
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#endif

/* ==== begin src/cuda/cuda.cu ================================================================== */
/* cuda.cu - all of the CUDA backend, bottom to top: brainstorm_cuda.cu is made of it (tools/amalgamate.py). */
/* ==== begin src/cuda/portable.cuh ============================================================= */
/* portable.cuh - the few words in which a CUDA compiler and the emulation of the tests differ.
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
#else
#include <cuda_runtime.h>
#define BS_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define BS_SHARED(type, name, dims) __shared__ type name dims
#define BS_DYNAMIC_SHARED(type, name)                        \
    extern __shared__ __align__(16) uint8_t bs_cu_dynamic[]; \
    type *name = reinterpret_cast<type *>(bs_cu_dynamic)
#endif
#include <cuda_fp16.h>

extern "C" {
/* ==== begin src/structure.h =================================================================== */
/* structure.h - the structural ops: where values come from, cells, routers. They have no kernels: the planner
 * lowers them to moves and decisions. Their parameters, as stored in nodes and model files. */
#ifndef BS_STRUCTURE_H
#define BS_STRUCTURE_H

/* ==== begin src/op.h ========================================================================== */
/* op.h - the op table: what every op declares, and what a kernel is given.
 * Adding an op is one file in ops/ and one line in ops.c. Relies on graph.h. Must never know the planner. */
#ifndef BS_OP_H
#define BS_OP_H

/* ==== begin src/graph.h ======================================================================= */
/* graph.h - the graph: dimensions, domains, values, nodes, blocks, routers.
 * Owns the data structures and the primitives that add to them. Relies on base.h. Must never know how a
 * graph is planned or run. Everything refers to lower ids only, so one pass in order is always enough. */
#ifndef BS_GRAPH_H
#define BS_GRAPH_H

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

/* Hands out pieces of memory one after the other, aligned; with base NULL it only counts them. */
typedef struct bs_carver {
    uint8_t *base;
    uint64_t used;
} bs_carver;
void *bs_carve(bs_carver *carver, uint64_t count, uint64_t bytes); /* (arena.c) */

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
    int32_t half;           /* a device: weights are prepared in f16 */
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

extern const bs_op bs_op_input, bs_op_state, bs_op_state_write, bs_op_output, bs_op_patches, bs_op_assemble, bs_op_rows,
    bs_op_collect, bs_op_route, bs_op_scatter, bs_op_gather, bs_op_route_price, bs_op_route_score, bs_op_look_ahead, bs_op_segments, bs_op_state_append,
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
/* ==== begin src/device.h ====================================================================== */
/* device.h - a plan as a device reads it, and what a backend does for a session.
 *
 * A device runs the plan's own instructions. They are written out for it once for every set of extents and buffers: a
 * *step* for each instruction, with its operands resolved as far as that does not depend on a decision. What varies
 * beyond that (how many rows went where) the device reads from the decisions, which it made itself.
 * Relies on plan.h and rows.h. C and C++. Must never need a device: a workstation counts a board's bytes. */
#ifndef BS_DEVICE_H
#define BS_DEVICE_H

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
    bool narrow;          /* f32 that a device keeps in f16 */
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
    BS_INSTR_LOOK_AHEAD, /* what a later router will probably decide; the node plan's `algorithm` is its number */
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
    uint64_t shared_bytes;    /* a device: what a tile's rows may take */
    bool *node_live;          /* [nodes] */
    bs_node_plan *nodes;      /* [nodes] */
    bs_value_plan *values;    /* [values] */
    bs_instr *instrs;
    bs_part parts[BS_MAX_PARTS];
    int32_t region_domain[BS_MAX_REGIONS];
    bs_domain_plan domains[BS_MAX_DOMAINS];
    bs_router_plan routers[BS_MAX_ROUTERS];
    /* streaming; n_units = 1 and nothing else when everything is resident */
    int32_t n_units, n_stages, n_stage_units, max_stage_units;
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
/* A device: a top-level domain whose tiles are larger than its shared memory, or 0. */
int32_t bs_plan_too_large(const bs_plan *plan);
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
static inline bool bs_plan_on_device(const bs_plan *plan) { return plan->tier == BS_TIER_CUDA; }
/* The type in which the plan's own rows of a value are stored. */
static inline bs_dtype bs_plan_stored(const bs_plan *plan, int32_t value)
{
    return plan->values[value].narrow ? BS_F16 : plan->graph->values[value].dtype;
}
static inline bool bs_plan_streams(const bs_plan *plan) { return plan->n_units > 1; }
/* Whether a domain has routed blocks whose weights come and go: it runs depth first, path by path. */
bool bs_plan_streams_paths(const bs_plan *plan, int32_t top);
/* The router that a look_ahead is about; 0: there is none of that name. */
int32_t bs_look_ahead_router(const bs_graph *graph, const bs_node *node);
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
/* ==== begin src/rows.h ======================================================================== */
/* rows.h - which rows a domain has in a run, and what routers decided.
 * Relies on brainstorm.h. Must never know who computes them: the CPU's tiles and a device's blocks see the same. */
#ifndef BS_ROWS_H
#define BS_ROWS_H

/* #include "brainstorm.h" */

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

typedef struct bs_route_callback {
    bs_route_function function;
    void *user;
} bs_route_callback;

#endif
/* ==== end src/rows.h ========================================================================== */

/* ------------------------------------------------------------------------------------------------- tables */

typedef enum bs_device_place {
    BS_AT_ROOT, /* one row, at `base` */
    BS_AT_ROWS, /* base + (first of the domain's rows + row) * row_bytes */
    BS_AT_TILE, /* base is an offset in the scratch of a tile: + row * row_bytes */
    BS_AT_CELL, /* in the root image at `base`, where the cell lies */
    BS_AT_LINE, /* of the root tensor at `base`: + (row of the top-level domain) * row_bytes */
    BS_AT_RING  /* of the cache at `base`: the row that state_append writes (segment, then position) */
} bs_device_place;

/* One operand of a step; where the element [0,0,0] of the core of a row lies, follows from the row. */
typedef struct bs_device_operand {
    uint64_t base;      /* address on the device */
    int64_t row_bytes;  /* from row to row */
    int32_t stride[BS_MAX_RANK]; /* in elements */
    int32_t dim[BS_MAX_RANK];    /* in this run; of patches those of the frame */
    int32_t max_h, max_w;        /* of a core: how far the margin is kept */
    int32_t margin;
    int32_t cell, across; /* patches: pixels of a whole cell along a side, cells beside each other; else 0 */
    uint8_t place, dtype, rank, unused;
    int16_t domain; /* whose rows are asked for */
    int16_t stored; /* whose rows are there: domain itself, or one above that a scatter is a view of */
} bs_device_operand;

#define BS_DEVICE_PARAMS 16

/* One instruction. */
typedef struct bs_device_step {
    int32_t kernel;   /* the backend's number of it */
    int32_t node;     /* for errors */
    int32_t domain;   /* whose rows it works on */
    int32_t router;   /* of routes, gathers and what asks about a decision */
    int32_t n_in, n_out;
    int32_t operands; /* the first: inputs, then outputs */
    int32_t batch;    /* rows of a piece of work */
    int32_t parts;    /* pieces of work that each batch is cut into */
    int32_t unit;     /* whose slot holds its weights; 0: resident */
    uint64_t prepared; /* bytes from the beginning of the resident weights or of the unit */
    union {
        int32_t i;
        float f;
    } p[BS_DEVICE_PARAMS]; /* the kernel's own */
} bs_device_step;

typedef struct bs_device_domain {
    int32_t kind, parent;
    int32_t router, path; /* BS_DOMAIN_PATH */
    int32_t count;        /* of others: rows in this run */
    int32_t lengths;      /* BS_DOMAIN_SEGMENTS: number of segments in this run; else 0 */
    uint64_t offsets;     /* of segments, i32 [lengths + 1]: address on the device */
} bs_device_domain;

/* Steps for tiles of one domain, or of one path of it. */
typedef struct bs_device_part {
    int32_t domain, tile_rows;
    int32_t first, count; /* steps */
} bs_device_part;

/* Where a decision lies: byte offsets from the decisions of the session, or of those of a tile. bs_decision_data says what
 * each is. */
typedef struct bs_device_decision {
    int32_t live, in_tile;
    int32_t paths, per_row, rows /* at most */, domain, top_rows /* of `top`, at most */;
    uint64_t chosen, gates, counts, offsets, ids, inverse, dropped /* i64, of a run */;
    uint64_t work; /* i32 [2 * rows * per_row + 64 * paths]: free for the protocol, the packing, and the sort of a capacity */
    uint64_t top;  /* i8 [rows of the top-level domain]: the first path of each, for the host; -1 not reached */
    uint64_t sums; /* i32 [paths]: rows of a path in this run, over all tiles */
    uint64_t price; /* f32 [1] */
} bs_device_decision;

/* ------------------------------------------------------------------------------------------------- layout */

/* Offsets in the bytes that a session takes of the device's arena and of the pinned one. */
typedef struct bs_device_layout {
    int32_t n_steps, n_operands;
    uint64_t weights, transient, states, inputs, decisions, contexts, tables, scratch, slots, device_bytes;
    uint64_t context_bytes;  /* of one tile's decisions */
    int32_t tiles;           /* that have a context (and scratch outside shared memory) */
    uint64_t status;         /* within decisions: i32 status, i32 node */
    uint64_t results_bytes;  /* what the host is told after a run: the decisions' first so many bytes */
    uint64_t session, session_bytes, tables_pinned, results, inputs_pinned, loading, pinned_bytes;
    uint64_t steps_at, operands_at, domains_at, decisions_at, parts_at, units_at, segments_at, tables_bytes; /* within tables */
    uint64_t inputs_bytes;
} bs_device_layout;

#define BS_DEVICE_WORKSPACE 24576 /* shared bytes that a kernel may use beside the rows of its tile */
#define BS_DEVICE_LAUNCH_BYTES 24  /* pinned bytes that the backend keeps of a launch, */
#define BS_DEVICE_SESSION_BYTES 2048 /* of a session besides, */
#define BS_DEVICE_BOUND_BYTES 48     /* and of a node's buffer */

void bs_device_layout_make(const bs_plan *plan, bs_device_layout *layout);
/* The table entries of a router's decision. */
void bs_device_decision_place(const bs_plan *plan, int32_t router, bs_device_decision *decision);
/* Offsets, from layout->inputs: where a copy of what is bound to node n lies when the caller's buffer is not the device's.
 * UINT64_MAX: n needs none. And from layout->states, of a state's own memory. */
uint64_t bs_device_input_place(const bs_plan *plan, int32_t node);
uint64_t bs_device_state_place(const bs_plan *plan, int32_t node);
/* From layout->segments_at: i32 [segments + 1] of a domain, i32 [segments] of a `past`. */
uint64_t bs_device_offsets_place(const bs_plan *plan, int32_t domain);
uint64_t bs_device_past_place(const bs_plan *plan, int32_t node);

/* ------------------------------------------------------------------------------------------------ backend */

/* What a session shows its device. Arrays are the session's own and stay where they are. */
typedef struct bs_device_client {
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_platform *platform;
    const int64_t *dims;          /* [dims] of the run that is submitted */
    const bs_buffer *bound;       /* [nodes] */
    uint8_t *const *state;        /* [nodes] the device's memory of states, as the session knows it */
    const bs_rows_state *domains; /* [domains] counts of those that no router makes */
    int32_t *const *offsets;      /* [domains] of segments, checked; NULL for others */
    int32_t *const *past;         /* [nodes], checked */
    const bs_route_callback *callbacks; /* [routers] */
    /* filled by wait */
    int8_t *const *chosen;
    int32_t *counts;   /* [routers * BS_MAX_PATHS] */
    int64_t *dropped;  /* [routers] */
} bs_device_client;

typedef struct bs_device_session bs_device_session; /* the backend's; lies in pinned memory */

typedef struct bs_device_api {
    /* device, pinned: addresses of what bs_plan_sizes said. Nothing is left behind on failure. */
    bs_status (*open)(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned, bs_device_session **session,
                      bs_error *error);
    void (*close)(bs_device_session *session);
    /* Room for the prepared weights of one node, and when they are there: on their way to `offset` of the resident ones. */
    void *(*load)(bs_device_session *session, bs_error *error);
    bs_status (*loaded)(bs_device_session *session, uint64_t offset, uint64_t bytes, bs_error *error);
    bs_status (*zero)(bs_device_session *session, uint8_t *memory, uint64_t bytes);
    /* Queues a run; the client's tables say what has changed. */
    bs_status (*submit)(bs_device_session *session, bs_error *error);
    /* When the last run is over: fills what the client wants to know. *node: of the step that failed in the run. */
    bs_status (*wait)(bs_device_session *session, int32_t *node, bs_error *error);
} bs_device_api;

struct bs_device {
    const bs_device_api *api;
    bs_arena memory; /* addresses on the device: never touched by the host */
    bs_arena pinned;
};

#endif
/* ==== end src/device.h ======================================================================== */
}

#endif
/* ==== end src/cuda/portable.cuh =============================================================== */

/* ==== begin src/cuda/program.cuh ============================================================== */
/* program.cuh - what a block of threads sees of a session: its steps, and where the rows of an operand are.
 *
 * The device's side of move.c: rows are found through the plan's places and the decisions; views cost nothing but the
 * lookup. Everything here is computed by every thread of a block alike.
 * Relies on device.h. Must never write anything but the status. */
#ifndef BS_CUDA_PROGRAM
#define BS_CUDA_PROGRAM

/* #include "cuda/portable.cuh" */

/* The argument of every kernel. */
struct bs_cu_program {
    const bs_device_step *steps;
    const bs_device_operand *operands;
    const bs_device_domain *domains;
    const bs_device_decision *decision;
    const bs_device_part *parts;
    const uint64_t *units; /* addresses of prepared weights; [0] the resident ones */
    uint8_t *decisions;    /* what was decided for all rows */
    uint8_t *contexts;     /* what is decided in tiles: context_bytes a tile */
    uint64_t context_bytes;
    int32_t *status;       /* [2]: the first failure of the run, and its node */
};

/* What a block works on: all rows (domain -1), or a tile of the rows of a part. */
struct bs_cu_tile {
    const bs_cu_program *program;
    uint8_t *context;  /* decisions made in this tile */
    uint8_t *scratch;  /* rows of this tile, in shared memory */
    uint8_t *workspace; /* the kernel's own, in shared memory, 16-byte aligned */
    int32_t domain, first, rows;
};

/* A piece of a step's work: `rows` rows from `row`, and of their elements piece `part` of `parts`. */
struct bs_cu_work {
    int32_t row, rows, part, parts;
};

/* A decision, by address. */
struct bs_cu_decision {
    int32_t paths, per_row;
    int32_t *chosen, *counts, *offsets, *ids, *inverse, *work;
    float *gates, *price;
};

/* One row of an operand. data: the element [0,0,0] of its core. Rank 3 is [C,H,W] by the strides; rect is what is present
 * (of an output: to be computed), in core coordinates, as in bs_operand. */
struct bs_cu_view {
    uint8_t *data;
    int32_t dim[BS_MAX_RANK];
    int32_t stride[BS_MAX_RANK]; /* in elements */
    int32_t dtype, rank;
    int32_t y0, y1, x0, x1;
    int32_t frame_y, frame_x, frame_h, frame_w;
    int32_t margin, max_h, max_w;
};

__device__ __forceinline__ void bs_cu_fail(const bs_cu_tile &t, const bs_device_step *s, bs_status status)
{
    if (atomicCAS(&t.program->status[0], 0, (int)status) == 0)
        t.program->status[1] = s->node;
}

__device__ __forceinline__ const bs_device_operand *bs_cu_in(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return t.program->operands + s->operands + i;
}

__device__ __forceinline__ const bs_device_operand *bs_cu_out(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return t.program->operands + s->operands + s->n_in + i;
}

/* The prepared weights of a step, as its op packed them. */
__device__ __forceinline__ const uint8_t *bs_cu_prepared(const bs_cu_tile &t, const bs_device_step *s)
{
    return reinterpret_cast<const uint8_t *>(static_cast<uintptr_t>(t.program->units[s->unit] + s->prepared));
}

/* ---------------------------------------------------------------------------------------------- decisions */

__device__ __forceinline__ uint8_t *bs_cu_decided(const bs_cu_tile &t, const bs_device_decision &d)
{
    return d.in_tile ? t.context : t.program->decisions;
}

__device__ inline bs_cu_decision bs_cu_decision_of(const bs_cu_tile &t, int32_t router)
{
    const bs_device_decision &d = t.program->decision[router];
    uint8_t *at = bs_cu_decided(t, d);
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
__device__ inline int32_t bs_cu_count(const bs_cu_tile &t, int32_t domain)
{
    const bs_device_domain &d = t.program->domains[domain];
    if (domain == t.domain)
        return t.rows;
    if (d.kind != BS_DOMAIN_PATH)
        return d.count;
    const bs_device_decision &made = t.program->decision[d.router];
    return reinterpret_cast<const int32_t *>(bs_cu_decided(t, made) + made.counts)[d.path];
}

/* What is added to a row to reach storage that holds all rows of all paths. */
__device__ inline int32_t bs_cu_first(const bs_cu_tile &t, int32_t domain)
{
    const bs_device_domain &d = t.program->domains[domain];
    const int32_t first = domain == t.domain ? t.first : 0;
    if (d.kind != BS_DOMAIN_PATH)
        return first;
    const bs_device_decision &made = t.program->decision[d.router];
    return made.in_tile ? first : first + reinterpret_cast<const int32_t *>(t.program->decisions + made.offsets)[d.path];
}

/* The row of the domain above that a row of a path came from. */
__device__ inline int32_t bs_cu_parent_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    const bs_device_domain &d = t.program->domains[domain];
    const bs_device_decision &made = t.program->decision[d.router];
    const uint8_t *at = bs_cu_decided(t, made);
    const int32_t offset = reinterpret_cast<const int32_t *>(at + made.offsets)[d.path];
    return reinterpret_cast<const int32_t *>(at + made.ids)[offset + (domain == t.domain ? t.first : 0) + row];
}

/* Row of the outermost domain, counted from the first of all. */
__device__ inline int32_t bs_cu_top_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    while (t.program->domains[domain].kind == BS_DOMAIN_PATH) {
        row = bs_cu_parent_row(t, domain, row);
        domain = t.program->domains[domain].parent;
    }
    return (domain == t.domain ? t.first : 0) + row;
}

/* ------------------------------------------------------------------------------------------- finding rows */

__device__ __forceinline__ int32_t bs_cu_bytes(int32_t dtype)
{
    return dtype == BS_F32 || dtype == BS_I32 ? 4 : dtype == BS_U8 || dtype == BS_I8 ? 1 : 2;
}

/* Where the row is, of an operand that is no view of an image: for kernels that need nothing but the address. */
__device__ inline uint8_t *bs_cu_row(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    if (o->place == BS_AT_ROOT)
        return reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(o->base));
    if (o->place == BS_AT_LINE)
        return reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(o->base)) + bs_cu_top_row(t, o->domain, row) * o->row_bytes;
    int32_t domain = o->domain;
    for (; domain != o->stored; domain = t.program->domains[domain].parent)
        row = bs_cu_parent_row(t, domain, row);
    if (o->place == BS_AT_TILE)
        return t.scratch + o->base + row * o->row_bytes;
    return reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(o->base)) + (bs_cu_first(t, domain) + row) * o->row_bytes;
}

/* Extents and rectangle of a row of patches: the cell's place in its frame, its core clipped to the frame. */
__device__ inline void bs_cu_clip(const bs_cu_tile &t, const bs_device_operand *o, int32_t row, bs_cu_view *v)
{
    const int32_t top = bs_cu_top_row(t, o->domain, row), margin = o->margin;
    v->frame_y = top / o->across * o->cell;
    v->frame_x = top % o->across * o->cell;
    v->dim[1] = min(o->cell, v->frame_h - v->frame_y);
    v->dim[2] = min(o->cell, v->frame_w - v->frame_x);
    v->y0 = max(-margin, -v->frame_y);
    v->y1 = min(o->cell + margin, v->frame_h - v->frame_y);
    v->x0 = max(-margin, -v->frame_x);
    v->x1 = min(o->cell + margin, v->frame_w - v->frame_x);
}

__device__ inline bs_cu_view bs_cu_open(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    bs_cu_view v;
    for (int32_t i = 0; i < BS_MAX_RANK; i++) {
        v.dim[i] = o->dim[i];
        v.stride[i] = o->stride[i];
    }
    v.dtype = o->dtype;
    v.rank = o->rank;
    v.margin = o->margin;
    v.max_h = o->max_h;
    v.max_w = o->max_w;
    v.frame_y = v.frame_x = v.y0 = v.x0 = 0;
    v.frame_h = v.y1 = o->dim[1];
    v.frame_w = v.x1 = o->dim[2];
    if (o->cell > 0 && o->rank == 3)
        bs_cu_clip(t, o, row, &v);
    if (o->place == BS_AT_CELL)
        v.data = reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(o->base)) +
                 ((int64_t)v.frame_y * v.stride[1] + (int64_t)v.frame_x * v.stride[2]) * bs_cu_bytes(v.dtype);
    else
        v.data = bs_cu_row(t, o, row);
    return v;
}

/* ----------------------------------------------------------------------------------------------- elements */

/* An element as f32, whatever f32 or f16 it is stored in; and back, rounded to nearest even. */
__device__ __forceinline__ float bs_cu_get(const uint8_t *data, int32_t dtype, int64_t at)
{
    return dtype == BS_F16 ? __half2float(reinterpret_cast<const __half *>(data)[at]) : reinterpret_cast<const float *>(data)[at];
}

__device__ __forceinline__ void bs_cu_put(uint8_t *data, int32_t dtype, int64_t at, float x)
{
    if (dtype == BS_F16)
        reinterpret_cast<__half *>(data)[at] = __float2half_rn(x);
    else
        reinterpret_cast<float *>(data)[at] = x;
}

/* As bs_act_apply (op.h). slope: of this channel, for BS_PRELU. */
__device__ inline float bs_cu_act(int32_t act, float param, float slope, float x)
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
    default: return x;
    }
}

/* Sets the elements of a rectangle of all channels to zero, dealt out to the block's threads. Stored images only: channels
 * last. */
__device__ inline void bs_cu_zero(const bs_cu_view &v, int32_t y0, int32_t y1, int32_t x0, int32_t x1)
{
    const int32_t bytes = bs_cu_bytes(v.dtype), pixel = v.stride[2] * bytes, width = (x1 - x0) * pixel;
    for (int32_t y = y0; y < y1 && width > 0; y++)
        for (int32_t i = threadIdx.x * 2; i < width; i += blockDim.x * 2) { /* stored: f32, f16, or codes of one byte */
            uint8_t *at = v.data + (int64_t)y * v.stride[1] * bytes + (int64_t)x0 * pixel + i;
            at[0] = 0;
            if (i + 1 < width)
                at[1] = 0;
        }
}

/* As bs_zero_margin: what lies around the rectangle, as far as readers' windows go. Called by all threads of a block. */
__device__ inline void bs_cu_zero_margin(const bs_cu_view &v)
{
    const int32_t low = -v.margin, bottom = min(v.y1 + v.margin, v.max_h + v.margin), right = min(v.x1 + v.margin, v.max_w + v.margin);
    if (v.margin == 0 || v.rank != 3)
        return;
    bs_cu_zero(v, low, v.y0, low, right);
    bs_cu_zero(v, v.y1, bottom, low, right);
    bs_cu_zero(v, v.y0, v.y1, low, v.x0);
    bs_cu_zero(v, v.y0, v.y1, v.x1, right);
}

#endif
/* ==== end src/cuda/program.cuh ================================================================ */
/* ==== begin src/cuda/kernels.cuh ============================================================== */
/* kernels.cuh - the list of kernels: one line each.
 * A kernel NAME is a function bs_cu_NAME_run(tile, step, work), called by all threads of a block, that does one piece of a
 * step's work; it is launched over all rows of all branches at once (bs_cu_group), or as one of the steps of a tile
 * (bs_cu_region). Relies on the op files. */
#ifndef BS_CUDA_KERNELS
#define BS_CUDA_KERNELS

#define BS_CU_STEP_KERNELS(X)                            \
    /* moves: op_move.cuh */                             \
    X(load) X(store) X(append) X(fill) X(rest) X(reduce) \
    /* what was decided: op_route.cuh */                 \
    X(route_score) X(route_price)                        \
    /* op_elementwise.cuh */                             \
    X(activation)

/* They see all rows of a router at once: op_route.cuh. */
#define BS_CU_DECISION_KERNELS(X) X(route) X(route_rows) X(route_pack)

#define BS_CU_KERNELS(X) BS_CU_STEP_KERNELS(X) BS_CU_DECISION_KERNELS(X)

enum {
    BS_CU_none,
#define BS_CU_ENUM(name) BS_CU_##name,
    BS_CU_KERNELS(BS_CU_ENUM)
#undef BS_CU_ENUM
        BS_CU_COUNT,
    BS_CU_unsupported = BS_CU_COUNT /* of an op that is missing in the table */
};

#endif
/* ==== end src/cuda/kernels.cuh ================================================================ */
/* ==== begin src/cuda/lower.cuh ================================================================ */
/* lower.cuh - the host's side of an op on a device: what its file says of a node, once its operands are resolved.
 * Relies on portable.cuh. Must never touch the device. */
#ifndef BS_CUDA_LOWER
#define BS_CUDA_LOWER

/* #include "cuda/portable.cuh" */

#ifndef BS_CU_THREADS
#define BS_CU_THREADS 256 /* of a block: a multiple of 32, 64 .. 256 */
#endif
#define BS_CU_WORKSPACE BS_DEVICE_WORKSPACE /* shared memory that a kernel may use beside the rows of a tile */

/* What describing a node sees of it. */
struct bs_cu_node {
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_node *node;
    const bs_node_plan *np;
    const void *params;
    const bs_device_operand *in, *out; /* as they are in this run */
    const bs_instr *instr;
};

/* Fills step->kernel, p, and where it is not one: batch, parts. The rest is filled already. */
typedef void (*bs_cu_describe)(const bs_cu_node *n, bs_device_step *step);

/* Elements of the largest rectangle of a row: of an image all its pixels (times channels), margins included. */
static inline int64_t bs_cu_pixels(const bs_device_operand *o)
{
    const int64_t h = o->cell > 0 ? o->cell : o->dim[1], w = o->cell > 0 ? o->cell : o->dim[2];
    return (h + 2 * (int64_t)o->margin) * (w + 2 * (int64_t)o->margin);
}

static inline int64_t bs_cu_elements(const bs_device_operand *o)
{
    int64_t n = 1;
    for (int32_t i = 0; i < o->rank && o->rank != 3; i++)
        n *= o->dim[i];
    return o->rank == 3 ? bs_cu_pixels(o) * o->dim[0] : n;
}

/* How many pieces of `each` elements make `count`: at least one. */
static inline int32_t bs_cu_pieces(int64_t count, int64_t each)
{
    const int64_t pieces = bs_ceil_div(count, each);
    return (int32_t)(pieces < 1 ? 1 : pieces > 65536 ? 65536 : pieces);
}

#endif
/* ==== end src/cuda/lower.cuh ================================================================== */

/* ==== begin src/cuda/op_move.cuh ============================================================== */
#ifndef STUB_OP_MOVE
#define STUB_OP_MOVE
/* #include "cuda/kernels.cuh" */
/* #include "cuda/lower.cuh" */
/* #include "cuda/program.cuh" */
static void bs_cu_load_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_load_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_store_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_store_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_append_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_append_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_fill_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_fill_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_rest_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_rest_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_reduce_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_reduce_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
#endif
/* ==== end src/cuda/op_move.cuh ================================================================ */
/* ==== begin src/cuda/op_route.cuh ============================================================= */
#ifndef STUB_OP_ROUTE
#define STUB_OP_ROUTE
/* #include "cuda/kernels.cuh" */
/* #include "cuda/lower.cuh" */
/* #include "cuda/program.cuh" */
static void bs_cu_route_score_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_route_score_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_route_price_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_route_price_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_route_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_route_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_route_rows_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_route_rows_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
static void bs_cu_route_pack_describe(const bs_cu_node *, bs_device_step *) {}
__device__ inline void bs_cu_route_pack_run(const bs_cu_tile &, const bs_device_step *, const bs_cu_work &) {}
#endif
/* ==== end src/cuda/op_route.cuh =============================================================== */
/* ==== begin src/cuda/op_elementwise.cuh ======================================================= */
/* op_elementwise.cuh - activation, prelu, clip, affine, batch_norm.
 * The plainest op file there is: what a node is told to the device (describe), and what a block of threads does (run).
 * Relies on program.cuh and lower.cuh. Must never let an element depend on where it stands. */
#ifndef BS_CUDA_OP_ELEMENTWISE
#define BS_CUDA_OP_ELEMENTWISE

/* #include "cuda/kernels.cuh" */
/* #include "cuda/lower.cuh" */
/* #include "cuda/program.cuh" */

enum { BS_CU_EACH = 1024 }; /* elements of a piece of work */

/* p: the descriptor's fields, in order (the lowering copied them): act, param. */
static void bs_cu_activation_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->kernel = BS_CU_activation;
    s->parts = bs_cu_pieces(bs_cu_elements(&n->out[0]), BS_CU_EACH);
}

/* Element number i of the rectangle of an image, channels fastest, or of another tensor: its offset. */
__device__ inline int64_t bs_cu_element(const bs_cu_view &v, const bs_cu_view &like, int32_t i)
{
    if (v.rank == 3) {
        const int32_t c = i % like.dim[0], pixel = i / like.dim[0], w = like.x1 - like.x0;
        return (int64_t)c * v.stride[0] + (int64_t)(like.y0 + pixel / w) * v.stride[1] + (int64_t)(like.x0 + pixel % w) * v.stride[2];
    }
    int64_t at = 0;
    for (int32_t d = v.rank - 1; d >= 0; d--) {
        at += (int64_t)(i % like.dim[d]) * v.stride[d];
        i /= like.dim[d];
    }
    return at;
}

__device__ inline int32_t bs_cu_element_count(const bs_cu_view &v)
{
    int32_t n = v.rank == 3 ? v.dim[0] * max(v.y1 - v.y0, 0) * max(v.x1 - v.x0, 0) : 1;
    for (int32_t d = 0; d < v.rank && v.rank != 3; d++)
        n *= v.dim[d];
    return n;
}

__device__ inline void bs_cu_activation_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    for (int32_t r = w.row; r < w.row + w.rows; r++) {
        const bs_cu_view x = bs_cu_open(t, bs_cu_in(t, s, 0), r), y = bs_cu_open(t, bs_cu_out(t, s, 0), r);
        const int32_t n = bs_cu_element_count(y), step = w.parts * (int32_t)blockDim.x;
        if (w.part == 0)
            bs_cu_zero_margin(y);
        for (int32_t i = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x; i < n; i += step)
            bs_cu_put(y.data, y.dtype, bs_cu_element(y, y, i), bs_cu_act(s->p[0].i, s->p[1].f, 0.0f, bs_cu_get(x.data, x.dtype, bs_cu_element(x, y, i))));
    }
}

#endif
/* ==== end src/cuda/op_elementwise.cuh ========================================================= */
/* ==== begin src/cuda/ops.cuh ================================================================== */
/* ops.cuh - the CUDA column of the op table: which describe function an op has.
 * Adding an op: its file, a line here, its kernels in kernels.cuh. Relies on the op files. */
#ifndef BS_CUDA_OPS
#define BS_CUDA_OPS

/* #include "cuda/op_elementwise.cuh" */
/* #include "cuda/op_move.cuh" */
/* #include "cuda/op_route.cuh" */

/* Ops with kernels, by name. */
#define BS_CU_OPS(X) X(activation)

struct bs_cu_column {
    const char *op;
    bs_cu_describe describe;
};

static const bs_cu_column bs_cu_columns[] = {
#define BS_CU_COLUMN(name) {#name, bs_cu_##name##_describe},
    BS_CU_OPS(BS_CU_COLUMN)
#undef BS_CU_COLUMN
};

/* Moves and decisions have their kernel already; an op is looked up. */
static void bs_cu_describe_step(const bs_cu_node *n, bs_device_step *s)
{
    switch (s->kernel) {
#define BS_CU_MOVE(name) \
    case BS_CU_##name: bs_cu_##name##_describe(n, s); return;
        BS_CU_MOVE(load) BS_CU_MOVE(store) BS_CU_MOVE(append) BS_CU_MOVE(fill) BS_CU_MOVE(rest) BS_CU_MOVE(reduce)
        BS_CU_MOVE(route) BS_CU_MOVE(route_score) BS_CU_MOVE(route_price)
#undef BS_CU_MOVE
    default: break;
    }
    const char *name = bs_op_get(n->node->op)->name;
    s->kernel = BS_CU_unsupported;
    for (size_t k = 0; k < sizeof bs_cu_columns / sizeof *bs_cu_columns; k++)
        if (strcmp(bs_cu_columns[k].op, name) == 0)
            bs_cu_columns[k].describe(n, s);
}

#endif
/* ==== end src/cuda/ops.cuh ==================================================================== */

/* ==== begin src/cuda/lower_operand.cuh ======================================================== */
/* lower_operand.cuh - where the operands of an instruction are on the device, for the extents and buffers of a run.
 * The host's side of move.c: everything but the decision is resolved here. Relies on device.h. Must never touch what it
 * points to. */
#ifndef BS_CUDA_LOWER_OPERAND
#define BS_CUDA_LOWER_OPERAND

/* #include "cuda/portable.cuh" */

/* Where what is bound to a node lies on the device. */
struct bs_cu_bound {
    uint64_t address; /* 0: nothing is bound */
    int64_t stride[BS_MAX_RANK];
    bool staged; /* a dense copy of the caller's buffer */
};

/* What tables are written from. */
struct bs_cu_lowering {
    const bs_device_client *client;
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_device_layout *layout;
    const bs_cu_bound *bound;  /* [nodes] */
    uint64_t memory;           /* the session's on the device */
    bs_device_step *steps;
    bs_device_operand *operands;
    int32_t n_steps, n_operands;
    bool overflow; /* a stride or an extent beyond 31 bits */
};

static int32_t bs_cu_narrow(bs_cu_lowering *l, int64_t n)
{
    l->overflow = l->overflow || n > INT32_MAX || n < INT32_MIN;
    return (int32_t)n;
}

static bool bs_cu_is(const bs_cu_lowering *l, int32_t node, const bs_op *op) { return bs_node_is(&l->graph->nodes[node], op); }

/* Extents of a row, wherever it is. */
static void bs_cu_extent(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    int64_t h, w;
    memset(o, 0, sizeof *o);
    o->dtype = (uint8_t)v->dtype;
    o->rank = (uint8_t)v->rank;
    o->domain = o->stored = (int16_t)v->domain;
    for (int32_t i = 0; i < v->rank; i++)
        o->dim[i] = bs_cu_narrow(l, l->client->dims[v->dims[i]]);
    if (v->rank != 3)
        return;
    bs_plan_core(l->plan, v, &h, &w);
    o->max_h = bs_cu_narrow(l, h);
    o->max_w = bs_cu_narrow(l, w);
    o->margin = l->plan->values[value].margin;
    const int32_t patches = l->graph->domains[v->domain].patches;
    if (patches < 0)
        return;
    const int32_t size = l->plan->domains[patches].size;
    o->cell = (int32_t)bs_ceil_div((int64_t)size * v->scale_num, v->scale_den);
    o->across = (int32_t)bs_ceil_div(l->client->dims[l->graph->domains[patches].width], size);
}

static void bs_cu_dense(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    int64_t stride = 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        o->stride[i] = bs_cu_narrow(l, stride);
        stride *= bs_dim_max(l->graph, v->dims[i]);
    }
}

/* Rows of the plan's own: images channels last with margins, all else dense; strides from the maxima. */
static void bs_cu_stored(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    const bs_value_plan *p = &l->plan->values[value];
    const bs_dtype dtype = bs_plan_stored(l->plan, value);
    int64_t h, w;
    o->dtype = (uint8_t)dtype;
    o->stored = (int16_t)v->domain;
    o->row_bytes = (int64_t)p->row_bytes;
    o->place = (uint8_t)(p->place == BS_PLACE_SCRATCH ? BS_AT_TILE : BS_AT_ROWS);
    o->base = p->offset + (p->place == BS_PLACE_SCRATCH ? 0 : l->memory + l->layout->transient);
    if (v->rank != 3) {
        bs_cu_dense(l, value, o);
        return;
    }
    bs_plan_core(l->plan, v, &h, &w);
    const int64_t channels = bs_dim_max(l->graph, v->dims[0]), line = channels * (w + 2 * (int64_t)p->margin);
    o->stride[0] = 1;
    o->stride[1] = bs_cu_narrow(l, line);
    o->stride[2] = bs_cu_narrow(l, channels);
    o->base += (uint64_t)(p->margin * (line + channels)) * bs_dtype_bytes(dtype);
}

static void bs_cu_at_bound(bs_cu_lowering *l, int32_t node, bs_device_operand *o)
{
    const bs_cu_bound *b = &l->bound[node];
    o->place = BS_AT_ROOT;
    o->base = b->address;
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = bs_cu_narrow(l, b->stride[i]);
    if (l->client->past[node]) { /* the copy that was checked */
        o->base = l->memory + l->layout->tables + l->layout->segments_at + bs_device_past_place(l->plan, node);
        o->stride[0] = 1;
    }
}

/* A root value, wherever it is. */
static void bs_cu_root(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    const bs_value_plan *p = &l->plan->values[value];
    bs_cu_extent(l, value, o);
    if (p->place == BS_PLACE_INPUT || p->place == BS_PLACE_OUTPUT || p->place == BS_PLACE_STATE) {
        bs_cu_at_bound(l, p->source, o);
    } else if (p->place == BS_PLACE_WEIGHT) {
        bs_cu_dense(l, value, o);
        o->base = l->memory + l->layout->weights + l->plan->nodes[p->source].prepared_offset;
    } else {
        bs_cu_stored(l, value, o);
    }
    o->place = BS_AT_ROOT;
}

/* Rows that are found in a root value by their place in it. */
static void bs_cu_seen(bs_cu_lowering *l, const bs_device_operand *root, bool image, bs_device_operand *o)
{
    const int32_t first = image ? 0 : 1;
    o->dtype = root->dtype;
    o->base = root->base;
    o->place = (uint8_t)(image ? BS_AT_CELL : BS_AT_LINE);
    o->row_bytes = (int64_t)root->stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)root->dtype);
    for (int32_t i = 0; i < o->rank && i + first < BS_MAX_RANK; i++)
        o->stride[i] = root->stride[i + first];
    (void)l;
}

/* The operand that `value` is a view of, seen with the view's extents (which o has). */
static void bs_cu_view_of(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    for (;;) {
        const int32_t node = l->graph->values[value].node, from = l->graph->operands[l->graph->nodes[node].in];
        if (!bs_cu_is(l, node, &bs_op_scatter)) {
            bs_device_operand root;
            bs_cu_root(l, from, &root);
            bs_cu_seen(l, &root, bs_cu_is(l, node, &bs_op_patches), o);
            return;
        }
        value = from;
        if (l->plan->values[value].place != BS_PLACE_VIEW) {
            bs_cu_stored(l, value, o);
            return;
        }
    }
}

/* A value as its readers and its maker find it. */
static void bs_cu_operand(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    if (l->graph->values[value].domain == 0) {
        bs_cu_root(l, value, o);
        return;
    }
    bs_cu_extent(l, value, o);
    if (l->plan->values[value].place == BS_PLACE_VIEW)
        bs_cu_view_of(l, value, o);
    else
        bs_cu_stored(l, value, o);
}

/* What a load copies from: the value itself has rows of its own. */
static void bs_cu_source(bs_cu_lowering *l, int32_t value, bs_device_operand *o)
{
    const int32_t node = l->graph->values[value].node;
    const bs_node *n = &l->graph->nodes[node];
    bs_cu_extent(l, value, o);
    if (bs_op_get(n->op)->weights) { /* a constant */
        bs_cu_dense(l, value, o);
        o->base = l->memory + l->layout->weights + l->plan->nodes[node].prepared_offset;
        o->place = BS_AT_ROOT;
    } else if (n->n_in == 0) {
        bs_cu_at_bound(l, node, o);
    } else {
        bs_cu_view_of(l, value, o);
    }
}

/* Where an instruction stores rows of `value` (of `domain`) in `target`. */
static void bs_cu_target(bs_cu_lowering *l, int32_t value, int32_t target, int32_t domain, bs_device_operand *o)
{
    bs_device_operand root;
    if (l->graph->values[target].domain != 0) { /* a gather with rows of its own: the row of the parent */
        bs_cu_operand(l, target, o);
        o->domain = (int16_t)domain;
        return;
    }
    bs_cu_root(l, target, &root);
    bs_cu_extent(l, value, o);
    bs_cu_seen(l, &root, o->rank == 3 && root.rank == 3, o);
    o->domain = (int16_t)domain;
    o->margin = l->plan->values[target].margin;
}

/* Of an output or a state: where its own copy is, or 0 when nobody asks for it. */
static void bs_cu_ending(bs_cu_lowering *l, const bs_instr *i, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const bool output = bs_node_is(node, &bs_op_output);
    bs_cu_extent(l, i->value, o);
    o->margin = 0;
    bs_cu_at_bound(l, output ? i->node : l->graph->values[bs_node_in(l->graph, node)[0]].node, o);
}

/* The cache that state_append writes: its strides of segment and position come beside those of a cell. */
static void bs_cu_ring(bs_cu_lowering *l, const bs_instr *i, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = l->graph->values[bs_node_in(l->graph, node)[0]].node;
    const bs_value_info *v = &l->graph->values[l->graph->nodes[state].first_out];
    const bs_cu_bound *b = &l->bound[state];
    bs_cu_extent(l, i->value, o);
    o->place = BS_AT_RING;
    o->base = b->address;
    o->row_bytes = b->stride[0] * (int64_t)bs_dtype_bytes(v->dtype);
    o->max_h = bs_cu_narrow(l, l->client->dims[v->dims[1]]);
    o->max_w = bs_cu_narrow(l, b->stride[1]);
    o->margin = 0;
    for (int32_t k = 0; k < o->rank; k++)
        o->stride[k] = bs_cu_narrow(l, b->stride[k + 2]);
}

#endif
/* ==== end src/cuda/lower_operand.cuh ========================================================== */
/* ==== begin src/cuda/lower_step.cuh =========================================================== */
/* lower_step.cuh - from the plan's instructions to steps, and from steps to launches.
 *
 * Instructions of one time are independent of each other (the paths of a router run in lockstep): those that the same
 * kernel does become one launch, however many branches there are. A region is one launch too.
 * Relies on lower_operand.cuh and the describe functions of the op files. Must never touch the device. */
#ifndef BS_CUDA_LOWER_STEP
#define BS_CUDA_LOWER_STEP

/* #include "cuda/lower_operand.cuh" */
/* #include "cuda/ops.cuh" */

/* A launch: `count` steps from `first` by one kernel; or `count` parts of a region (kernel BS_CU_none). */
struct bs_cu_launch {
    int32_t kernel, first, count;
    int32_t callback; /* the router that asks the caller before this, or 0 */
    int64_t blocks;   /* that have something to do, at most */
};

struct bs_cu_launches {
    bs_cu_launch *list;
    int32_t count, room;
};

/* -------------------------------------------------------------------------------------------------- steps */

static bs_device_operand *bs_cu_add_operand(bs_cu_lowering *l)
{
    bs_device_operand *o = &l->operands[l->n_operands < l->layout->n_operands ? l->n_operands : 0];
    l->overflow = l->overflow || l->n_operands >= l->layout->n_operands;
    l->n_operands++;
    memset(o, 0, sizeof *o);
    return o;
}

static void bs_cu_add_in(bs_cu_lowering *l, bs_device_step *s, int32_t value)
{
    bs_device_operand *o = bs_cu_add_operand(l);
    if (value)
        bs_cu_operand(l, value, o);
    s->n_in++;
}

/* The descriptor's fields, all of four bytes, behind its name. */
static void bs_cu_copy_fields(const bs_node *node, bs_device_step *s)
{
    const bs_op *op = bs_op_get(node->op);
    for (int32_t i = 0; node->params && i < op->n_fields && i < BS_DEVICE_PARAMS; i++)
        memcpy(&s->p[i], static_cast<const char *>(node->params) + sizeof(char *) + 4 * i, 4);
}

static void bs_cu_step_op(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    if (bs_node_is(node, &bs_op_route_price) || bs_node_is(node, &bs_op_route_score)) {
        s->kernel = bs_node_is(node, &bs_op_route_price) ? BS_CU_route_price : BS_CU_route_score;
        if (s->kernel == BS_CU_route_score)
            bs_cu_add_in(l, s, l->graph->routers[node->router].score);
    } else {
        int32_t n_in;
        const int32_t *in = bs_plan_in(l->plan, i->node, &n_in);
        for (int32_t k = 0; k < n_in; k++)
            bs_cu_add_in(l, s, in[k]);
        bs_cu_copy_fields(node, s);
    }
    for (int32_t k = 0; k < node->n_out; k++, s->n_out++)
        bs_cu_operand(l, node->first_out + k, bs_cu_add_operand(l));
}

static void bs_cu_step_store(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const bool append = bs_node_is(node, &bs_op_state_append);
    s->kernel = append ? BS_CU_append : BS_CU_store;
    bs_cu_add_in(l, s, i->value);
    if (append)
        bs_cu_add_in(l, s, bs_node_in(l->graph, node)[2]);
    bs_device_operand *out = bs_cu_add_operand(l);
    s->n_out = 1;
    if (append)
        bs_cu_ring(l, i, out);
    else if (i->target)
        bs_cu_target(l, i->value, i->target, i->domain, out);
    else
        bs_cu_ending(l, i, out);
    if (out->base == 0 && out->place != BS_AT_TILE)
        s->kernel = BS_CU_none; /* an output that is not asked for */
}

static uint64_t bs_cu_given(const bs_cu_lowering *l, const bs_node *gather)
{
    uint64_t mask = 0;
    for (int32_t p = 0; p < l->graph->routers[gather->router].desc->paths; p++)
        mask |= bs_node_in(l->graph, gather)[p] ? 1ull << p : 0;
    return mask;
}

static void bs_cu_step_fill(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const bool rest = bs_node_is(node, &bs_op_collect);
    s->kernel = rest ? BS_CU_rest : BS_CU_fill;
    if (!rest && i->value)
        bs_cu_add_in(l, s, i->value);
    s->n_out = 1;
    if (rest) {
        bs_cu_root(l, i->target, bs_cu_add_operand(l));
        s->p[0].i = l->graph->values[bs_node_in(l->graph, node)[0]].domain;
        return;
    }
    const uint64_t given = bs_cu_given(l, node);
    bs_cu_target(l, node->first_out, i->target, l->graph->routers[node->router].domain, bs_cu_add_operand(l));
    s->domain = l->graph->routers[node->router].domain;
    s->p[0].i = (int32_t)(uint32_t)given;
    s->p[1].i = (int32_t)(uint32_t)(given >> 32);
}

static void bs_cu_step_reduce(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t paths = l->graph->routers[node->router].desc->paths, *in = bs_node_in(l->graph, node);
    s->kernel = BS_CU_reduce;
    for (int32_t p = 0; p < paths; p++)
        bs_cu_add_in(l, s, bs_plan_gathers(l->plan, node, p) ? in[p] : 0);
    bs_cu_add_in(l, s, i->value);
    bs_cu_operand(l, i->target, bs_cu_add_operand(l));
    s->n_out = 1;
    s->p[0].i = static_cast<const bs_gather_params *>(node->params)->mode;
    s->p[1].i = i->value != 0;
}

static void bs_cu_step_load(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    s->kernel = BS_CU_load;
    bs_cu_source(l, i->value, bs_cu_add_operand(l));
    bs_cu_operand(l, i->value, bs_cu_add_operand(l));
    s->n_in = s->n_out = 1;
}

static void bs_cu_step_route(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_router_info *r = &l->graph->routers[l->graph->nodes[i->node].router];
    s->kernel = BS_CU_route;
    if (l->plan->routers[s->router].forced)
        return;
    bs_cu_add_in(l, s, r->score);
    if (r->knob)
        bs_cu_add_in(l, s, r->knob);
}

/* Writes the step of an instruction. */
static void bs_cu_step(bs_cu_lowering *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    memset(s, 0, sizeof *s);
    s->node = i->node;
    s->domain = i->domain;
    s->router = node->router;
    s->operands = l->n_operands;
    s->batch = s->parts = 1;
    s->unit = l->plan->nodes[i->node].unit;
    s->prepared = l->plan->nodes[i->node].prepared_offset;
    switch (i->kind) {
    case BS_INSTR_OP: bs_cu_step_op(l, i, s); break;
    case BS_INSTR_LOAD: bs_cu_step_load(l, i, s); break;
    case BS_INSTR_STORE: bs_cu_step_store(l, i, s); break;
    case BS_INSTR_FILL: bs_cu_step_fill(l, i, s); break;
    case BS_INSTR_REDUCE: bs_cu_step_reduce(l, i, s); break;
    case BS_INSTR_ROUTE: bs_cu_step_route(l, i, s); break;
    case BS_INSTR_LOOK_AHEAD:
    case BS_INSTR_REGION: return;
    }
    const bs_device_operand *operands = l->operands + s->operands;
    const bs_cu_node n = {l->graph, l->plan, node, &l->plan->nodes[i->node], node->params, operands, operands + s->n_in, i};
    if (s->kernel != BS_CU_none || i->kind == BS_INSTR_OP)
        bs_cu_describe_step(&n, s);
}

/* ----------------------------------------------------------------------------------------------- launches */

/* Rows that a domain can have in this run. */
static int64_t bs_cu_most_rows(const bs_cu_lowering *l, int32_t domain)
{
    int64_t per_row = 1;
    for (; l->graph->domains[domain].kind == BS_DOMAIN_PATH; domain = l->graph->domains[domain].parent)
        per_row *= l->graph->routers[l->graph->domains[domain].router].max_paths_per_cell;
    return per_row * l->client->domains[domain].count;
}

/* Pieces of work of steps that run together, at most: paths of one router share its rows. */
static int64_t bs_cu_most_pieces(const bs_cu_lowering *l, int32_t first, int32_t count)
{
    const bs_graph *g = l->graph;
    int64_t apart = 0, together = 0, rows = 0;
    int32_t batch = INT32_MAX, parts = 1, router = 0;
    bool one = true;
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_step *s = &l->steps[k];
        const bs_domain *d = &g->domains[s->domain];
        apart += bs_ceil_div(bs_cu_most_rows(l, s->domain), s->batch) * s->parts;
        rows = bs_cu_most_rows(l, s->domain);
        batch = bs_min_i32(batch, s->batch);
        parts = bs_max_i32(parts, s->parts);
        one = one && d->kind == BS_DOMAIN_PATH && (k == first || d->router == router);
        router = d->router;
    }
    together = (batch == 1 ? rows : bs_ceil_div(rows, batch) + count) * parts;
    return one && together < apart ? together : apart;
}

static void bs_cu_add_launch(bs_cu_lowering *l, bs_cu_launches *to, int32_t kernel, int32_t first, int32_t count, int64_t blocks)
{
    bs_cu_launch *launch = &to->list[to->count < to->room ? to->count : 0];
    l->overflow = l->overflow || to->count >= to->room || blocks > INT32_MAX;
    to->count++;
    launch->kernel = kernel;
    launch->first = first;
    launch->count = count;
    launch->callback = 0;
    launch->blocks = blocks;
}

/* A decision takes one launch, or two where there are many rows; the caller's function is asked in between. */
static void bs_cu_launch_route(bs_cu_lowering *l, bs_cu_launches *to, int32_t step)
{
    bs_device_step *s = &l->steps[step];
    const bs_route_desc *d = l->graph->routers[s->router].desc;
    const bool asks = d->protocol == BS_ROUTE_CALLBACK && !l->plan->routers[s->router].forced;
    if (s->kernel == BS_CU_route_rows)
        bs_cu_add_launch(l, to, BS_CU_route_rows, step, 1, bs_cu_most_pieces(l, step, 1));
    bs_cu_add_launch(l, to, s->kernel == BS_CU_route_rows || asks ? BS_CU_route_pack : BS_CU_route, step, 1,
                     s->kernel == BS_CU_route_rows || asks ? bs_cu_most_pieces(l, step, 1) : 1);
    if (asks)
        to->list[to->count <= to->room ? to->count - 1 : 0].callback = s->router;
}

/* The steps [first, end) of one time: those of one kernel together. */
static void bs_cu_launch_steps(bs_cu_lowering *l, bs_cu_launches *to, int32_t first, int32_t end)
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
        if (kernel == BS_CU_route || kernel == BS_CU_route_rows || kernel == BS_CU_route_pack) {
            bs_cu_launch_route(l, to, k);
        } else {
            while (k + count < end && l->steps[k + count].kernel == kernel)
                count++;
            if (kernel != BS_CU_none)
                bs_cu_add_launch(l, to, kernel, k, count, bs_cu_most_pieces(l, k, count));
        }
        k += count;
    }
}

/* The parts of a region, the dearest first: a long tile that starts last is what the device waits for. */
static void bs_cu_launch_region(bs_cu_lowering *l, bs_cu_launches *to, int32_t region, bs_device_part *parts, int32_t *n_parts)
{
    const bs_plan *p = l->plan;
    const int32_t first = *n_parts;
    int64_t tiles = 0;
    for (int32_t k = 0; k < p->n_parts; k++) {
        const bs_part *part = &p->parts[k];
        if (part->region != region || part->count == 0)
            continue;
        bs_device_part *d = &parts[(*n_parts)++];
        d->domain = part->domain;
        d->tile_rows = p->domains[part->domain].tile_rows;
        d->first = l->n_steps;
        d->count = part->count;
        for (int32_t i = 0; i < part->count; i++)
            bs_cu_step(l, &p->instrs[part->first + i], &l->steps[l->n_steps++]);
        const int64_t most = bs_ceil_div(bs_cu_most_rows(l, part->domain), d->tile_rows);
        tiles = part->router ? (d->tile_rows == 1 && tiles > most ? tiles : most + *n_parts) : most;
    }
    bs_cu_add_launch(l, to, BS_CU_none, first, *n_parts - first, tiles);
}

/* All tables of a run. */
static bs_status bs_cu_lower(bs_cu_lowering *l, bs_cu_launches *to, bs_device_part *parts, bs_error *error)
{
    const bs_plan *p = l->plan;
    int32_t n_parts = 0;
    to->count = 0;
    for (int32_t at = 0; at < p->n_top;) {
        if (p->instrs[at].kind == BS_INSTR_REGION) {
            bs_cu_launch_region(l, to, p->instrs[at].node, parts, &n_parts);
            at++;
            continue;
        }
        const int32_t first = l->n_steps, time = p->instrs[at].time;
        for (; at < p->n_top && p->instrs[at].time == time && p->instrs[at].kind != BS_INSTR_REGION; at++)
            bs_cu_step(l, &p->instrs[at], &l->steps[l->n_steps++]);
        bs_cu_launch_steps(l, to, first, l->n_steps);
    }
    for (int32_t k = 0; k < l->n_steps; k++)
        if (l->steps[k].kernel == BS_CU_unsupported)
            return bs_fail(error, BS_ERROR_UNSUPPORTED, "%s \"%s\" has no kernel for a GPU", bs_op_get(l->graph->nodes[l->steps[k].node].op)->name,
                           bs_node_name(&l->graph->nodes[l->steps[k].node]));
    if (l->overflow)
        return bs_fail(error, BS_ERROR_LIMIT, "a buffer of this run is larger than a GPU's kernels can address (2^31 elements), or has too many steps");
    return BS_OK;
}

#endif
/* ==== end src/cuda/lower_step.cuh ============================================================= */
/* ==== begin src/cuda/launch.cuh =============================================================== */
/* launch.cuh - how steps run: one launch over the rows of all branches, or the steps of a part, tile by tile.
 *
 * A block of threads takes the pieces of work that have its number; how many there are, the decisions tell, on the device.
 * Grids are sized for the most there can be, and blocks beyond that return: a launch is the same whatever was decided.
 * Relies on ops.cuh. Must never let a count on the device decide anything on the host. */
#ifndef BS_CUDA_LAUNCH
#define BS_CUDA_LAUNCH

/* #include "cuda/lower_step.cuh" */

/* The step that piece number `piece` of `count` steps from `first` belongs to, and its rows. Every warp finds it for itself. */
__device__ inline const bs_device_step *bs_cu_find_step(const bs_cu_tile &t, int32_t first, int32_t count, int32_t piece, bs_cu_work *w)
{
    const int32_t lane = (int32_t)threadIdx.x & 31;
    for (int32_t base = 0; base < count; base += 32) {
        int32_t pieces = 0, until;
        if (base + lane < count) {
            const bs_device_step *s = t.program->steps + first + base + lane;
            pieces = (bs_cu_count(t, s->domain) + s->batch - 1) / s->batch * s->parts;
        }
        until = pieces;
        for (int32_t d = 1; d < 32; d *= 2) {
            const int32_t before = __shfl_up_sync(0xffffffffu, until, (unsigned)d);
            until += lane >= d ? before : 0;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, until > piece);
        if (beyond) {
            const int32_t k = __ffs((int)beyond) - 1;
            const bs_device_step *s = t.program->steps + first + base + k;
            piece -= __shfl_sync(0xffffffffu, until - pieces, k);
            w->row = piece / s->parts * s->batch;
            w->rows = min(s->batch, bs_cu_count(t, s->domain) - w->row);
            w->part = piece % s->parts;
            w->parts = s->parts;
            return s;
        }
        piece -= __shfl_sync(0xffffffffu, until, 31);
    }
    return NULL;
}

__device__ __forceinline__ bs_cu_tile bs_cu_everything(const bs_cu_program *p, uint8_t *workspace)
{
    bs_cu_tile t;
    t.program = p;
    t.context = t.scratch = NULL;
    t.workspace = workspace;
    t.domain = -1;
    t.first = t.rows = 0;
    return t;
}

/* One kernel, chosen when compiled in the first use and at run time in the second. */
template <int KERNEL> __device__ __forceinline__ void bs_cu_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    switch (KERNEL) {
#define BS_CU_CASE(name) \
    case BS_CU_##name: bs_cu_##name##_run(t, s, w); break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    default: break;
    }
}

template <int KERNEL> __global__ void __launch_bounds__(256) bs_cu_group(const bs_cu_program program, int32_t first, int32_t count)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    const bs_cu_tile t = bs_cu_everything(&program, shared);
    bs_cu_work w;
    if (program.status[0] != 0) /* something failed before this launch: what it decided is not to be followed */
        return;
    const bs_device_step *s = bs_cu_find_step(t, first, count, (int32_t)blockIdx.x, &w);
    if (s)
        bs_cu_run<KERNEL>(t, s, w);
}

/* Steps of a decision: they run whatever the number of rows, and on all of them. */
template <int KERNEL> __global__ void __launch_bounds__(256) bs_cu_decide(const bs_cu_program program, int32_t first)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    const bs_cu_tile t = bs_cu_everything(&program, shared);
    const bs_device_step *s = program.steps + first;
    const bs_cu_work w = {0, bs_cu_count(t, s->domain), (int32_t)blockIdx.x, (int32_t)gridDim.x};
    bs_cu_run<KERNEL>(t, s, w);
}

/* ------------------------------------------------------------------------------------------------- regions */

template <int KERNEL> __device__ __noinline__ void bs_cu_call(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    bs_cu_run<KERNEL>(t, s, w);
}

__device__ inline void bs_cu_dispatch(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    switch (s->kernel) {
#define BS_CU_CASE(name) \
    case BS_CU_##name: bs_cu_call<BS_CU_##name>(t, s, w); break;
        BS_CU_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    default: break;
    }
}

/* A step on the rows of a tile: a decision even of none. */
__device__ inline void bs_cu_tile_step(const bs_cu_tile &t, const bs_device_step *s)
{
    const int32_t rows = bs_cu_count(t, s->domain);
    bs_cu_work w = {0, rows, 0, 1};
    if (s->kernel == BS_CU_route) {
        bs_cu_dispatch(t, s, w);
        __syncthreads();
        return;
    }
    for (; w.row < rows; w.row += s->batch) {
        w.rows = min(s->batch, rows - w.row);
        bs_cu_dispatch(t, s, w);
        __syncthreads();
    }
}

/* The part that tile number `piece` belongs to: sets the tile's rows. */
__device__ inline const bs_device_part *bs_cu_find_part(const bs_cu_program &program, int32_t first, int32_t count, int32_t piece, bs_cu_tile *t)
{
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_part *part = program.parts + k;
        t->domain = -1;
        const int32_t rows = bs_cu_count(*t, part->domain), tiles = (rows + part->tile_rows - 1) / part->tile_rows;
        if (piece < tiles) {
            t->domain = part->domain;
            t->first = piece * part->tile_rows;
            t->rows = min(part->tile_rows, rows - t->first);
            return part;
        }
        piece -= tiles;
    }
    return NULL;
}

__global__ void __launch_bounds__(256) bs_cu_region(const bs_cu_program program, int32_t first, int32_t count)
{
    BS_DYNAMIC_SHARED(uint8_t, shared);
    bs_cu_tile t = bs_cu_everything(&program, shared);
    t.scratch = shared + BS_CU_WORKSPACE;
    t.context = program.contexts + blockIdx.x * program.context_bytes;
    for (int32_t piece = (int32_t)blockIdx.x;; piece += (int32_t)gridDim.x) {
        const bool failed = __syncthreads_or(program.status[0] != 0) != 0; /* other blocks may be failing just now: all threads or none */
        const bs_device_part *part = failed ? NULL : bs_cu_find_part(program, first, count, piece, &t);
        if (!part)
            return;
        for (int32_t k = 0; k < part->count; k++)
            bs_cu_tile_step(t, program.steps + part->first + k);
    }
}

/* Before a run: nothing has failed, nothing was counted, no cell was reached. */
__global__ void bs_cu_begin(const bs_cu_program program, int32_t routers)
{
    const int32_t at = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), step = (int32_t)(gridDim.x * blockDim.x);
    if (at < 2)
        program.status[at] = 0;
    for (int32_t r = 1; r < routers; r++) {
        const bs_device_decision &d = program.decision[r];
        if (!d.live)
            continue;
        for (int32_t i = at; i < d.paths; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.sums)[i] = 0;
        for (int32_t i = at; i < 2; i += step)
            reinterpret_cast<int32_t *>(program.decisions + d.dropped)[i] = 0;
        for (int32_t i = at; i < d.top_rows; i += step)
            reinterpret_cast<int8_t *>(program.decisions + d.top)[i] = -1;
    }
}

/* --------------------------------------------------------------------------------------------- the host's side */

static void bs_cu_launch_kernel(const bs_cu_program &p, const bs_cu_launch &l, int threads, cudaStream_t stream)
{
    switch (l.kernel) {
#define BS_CU_CASE(name)                                                                                                                     \
    case BS_CU_##name:                                                                                                                       \
        BS_LAUNCH((bs_cu_group<BS_CU_##name>), (unsigned)l.blocks, (unsigned)threads, BS_CU_WORKSPACE, stream, p, l.first, l.count);         \
        break;
        BS_CU_STEP_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
#define BS_CU_CASE(name)                                                                                                                     \
    case BS_CU_##name:                                                                                                                       \
        BS_LAUNCH((bs_cu_decide<BS_CU_##name>), (unsigned)l.blocks, (unsigned)threads, BS_CU_WORKSPACE, stream, p, l.first);                 \
        break;
        BS_CU_DECISION_KERNELS(BS_CU_CASE)
#undef BS_CU_CASE
    default: break;
    }
}

#endif
/* ==== end src/cuda/launch.cuh ================================================================= */

/* ==== begin src/cuda/device.cuh =============================================================== */
/* device.cuh - the GPU: opening it, its two arenas, its stream, what it is.
 * The only place that allocates. Relies on portable.cuh. Must never decide by the name of a board. */
#ifndef BS_CUDA_DEVICE
#define BS_CUDA_DEVICE

/* #include "cuda/portable.cuh" */

struct bs_cu_device {
    bs_device base; /* first: what sessions see */
    int index;
    cudaStream_t stream;
    bool own_memory, own_pinned, own_stream;
    int capability; /* 87: 8.7 */
    int multiprocessors, shared_bytes;
    bool integrated;
};

/* BS_OK, or BS_ERROR_PLATFORM with what CUDA says. */
static bs_status bs_cu_check(cudaError_t e, const char *what, bs_error *error)
{
    if (e == cudaSuccess)
        return BS_OK;
    cudaGetLastError(); /* or the next call would report it again */
    return bs_fail(error, BS_ERROR_PLATFORM, "CUDA: %s: %s", what, cudaGetErrorString(e));
}

static int bs_cu_attribute(int index, cudaDeviceAttr attribute)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, index) == cudaSuccess ? value : 0;
}

/* Whether there is a GPU of that number, and why not. */
static bs_status bs_cu_find_device(int32_t index, bs_error *error)
{
    int count = 0, driver = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "this machine has no CUDA device");
    if (e != cudaSuccess) {
        cudaGetLastError();
        cudaDriverGetVersion(&driver);
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "CUDA cannot be used here (%s; driver %d, built with %d)", cudaGetErrorString(e), driver,
                       (int)CUDART_VERSION);
    }
    if (index < 0 || index >= count)
        return bs_fail(error, BS_ERROR_ARGUMENT, "CUDA device %d does not exist: there are %d", index, count);
    return BS_OK;
}

extern "C" bs_status bs_cuda_facts_get(int32_t index, bs_cuda_facts *facts, bs_error *error)
{
    cudaDeviceProp properties;
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
    if (d->own_stream && d->stream)
        cudaStreamDestroy(d->stream);
    if (d->own_memory && d->base.memory.base)
        cudaFree(d->base.memory.base);
    if (d->own_pinned && d->base.pinned.base)
        cudaFreeHost(d->base.pinned.base);
}

static bs_status bs_cu_device_take(bs_cu_device *d, const bs_cuda_desc *desc, bs_error *error)
{
    void *memory = desc->device_memory, *pinned = desc->pinned_memory;
    bs_status status = BS_OK;
    d->own_memory = !memory && desc->device_bytes > 0;
    d->own_pinned = !pinned && desc->pinned_bytes > 0;
    d->own_stream = !desc->stream;
    d->stream = static_cast<cudaStream_t>(desc->stream);
    if (d->own_memory)
        status = bs_cu_check(cudaMalloc(&memory, (size_t)desc->device_bytes), "allocating on the device", error);
    if (status != BS_OK)
        memory = NULL;
    bs_arena_init(&d->base.memory, "device", memory, memory ? (size_t)desc->device_bytes : 0);
    if (status == BS_OK && d->own_pinned)
        status = bs_cu_check(cudaHostAlloc(&pinned, (size_t)desc->pinned_bytes, cudaHostAllocMapped), "allocating pinned memory", error);
    if (status != BS_OK)
        pinned = NULL;
    bs_arena_init(&d->base.pinned, "pinned", pinned, pinned ? (size_t)desc->pinned_bytes : 0);
    if (status == BS_OK && d->own_stream)
        status = bs_cu_check(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "making a stream", error);
    if (status != BS_OK && d->own_stream)
        d->stream = NULL;
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
    if (bs_cu_find_device(desc->index, error) != BS_OK || bs_cu_check(cudaSetDevice(desc->index), "choosing the device", error) != BS_OK)
        return NULL;
    const size_t mark = arena->used;
    bs_cu_device *d = static_cast<bs_cu_device *>(bs_arena_take(arena, sizeof *d));
    if (!d) {
        bs_fail_arena(error, arena, sizeof *d, "the device");
        return NULL;
    }
    memset(d, 0, sizeof *d);
    d->base.api = &bs_cu_api;
    d->index = desc->index;
    d->capability = 10 * bs_cu_attribute(d->index, cudaDevAttrComputeCapabilityMajor) + bs_cu_attribute(d->index, cudaDevAttrComputeCapabilityMinor);
    d->multiprocessors = bs_cu_attribute(d->index, cudaDevAttrMultiProcessorCount);
    d->shared_bytes = bs_cu_attribute(d->index, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    d->integrated = bs_cu_attribute(d->index, cudaDevAttrIntegrated) != 0;
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
/* session.cuh - a session on a GPU: its tables and weights there, runs queued and waited for.
 *
 * Tables are written in pinned memory when extents or buffers change, and copied; a run itself is launches and copies on
 * one stream. The host waits only where it must hand something back: at the end of a run, for a callback, and before it
 * writes pinned memory that a copy may still read.
 * Relies on device.cuh, launch.cuh and device.h. Must never allocate. */
#ifndef BS_CUDA_SESSION
#define BS_CUDA_SESSION

/* #include "cuda/device.cuh" */
/* #include "cuda/launch.cuh" */

struct bs_device_session {
    bs_cu_device *device;
    const bs_device_client *client;
    bs_device_layout layout;
    uint8_t *memory; /* on the device */
    uint8_t *pinned;
    bs_cu_program program;
    cudaEvent_t done;
    bool has_event, lowered, in_flight, any_staged, has_segments;
    bs_status failed; /* while queueing */
    int threads;      /* of a block */
    uint64_t shared;  /* of a region */
    bs_cu_launches launches;
    int64_t *dims;    /* [dims] that the tables were written for */
    bs_buffer *bound; /* [nodes] likewise */
    bs_cu_bound *at;  /* [nodes] */
};

/* -------------------------------------------------------------------------------------------------- memory */

static_assert(sizeof(bs_device_session) <= BS_DEVICE_SESSION_BYTES && sizeof(bs_cu_launch) <= BS_DEVICE_LAUNCH_BYTES &&
                  sizeof(bs_cu_bound) <= BS_DEVICE_BOUND_BYTES,
              "device_plan.c counts with these");

static bs_status bs_cu_session_carve(bs_device_session *s, bs_error *error)
{
    const bs_graph *g = s->client->graph;
    bs_carver c = {s->pinned + s->layout.session, 0};
    bs_carve(&c, 1, sizeof *s);
    s->launches.room = 2 * s->layout.n_steps + 2;
    s->launches.list = static_cast<bs_cu_launch *>(bs_carve(&c, (uint64_t)s->launches.room, sizeof(bs_cu_launch)));
    s->dims = static_cast<int64_t *>(bs_carve(&c, (uint64_t)g->n_dims, sizeof(int64_t)));
    s->bound = static_cast<bs_buffer *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_buffer)));
    s->at = static_cast<bs_cu_bound *>(bs_carve(&c, (uint64_t)g->n_nodes, sizeof(bs_cu_bound)));
    if (c.used <= s->layout.session_bytes)
        return BS_OK;
    return bs_fail(error, BS_ERROR_LIMIT, "bookkeeping of a session on the GPU needs %llu bytes, %llu were planned", (unsigned long long)c.used,
                   (unsigned long long)s->layout.session_bytes);
}

static void bs_cu_session_program(bs_device_session *s)
{
    const bs_device_layout *l = &s->layout;
    uint8_t *tables = s->memory + l->tables;
    bs_cu_program *p = &s->program;
    p->steps = reinterpret_cast<const bs_device_step *>(tables + l->steps_at);
    p->operands = reinterpret_cast<const bs_device_operand *>(tables + l->operands_at);
    p->domains = reinterpret_cast<const bs_device_domain *>(tables + l->domains_at);
    p->decision = reinterpret_cast<const bs_device_decision *>(tables + l->decisions_at);
    p->parts = reinterpret_cast<const bs_device_part *>(tables + l->parts_at);
    p->units = reinterpret_cast<const uint64_t *>(tables + l->units_at);
    p->decisions = s->memory + l->decisions;
    p->contexts = s->memory + l->contexts;
    p->context_bytes = l->context_bytes;
    p->status = reinterpret_cast<int32_t *>(s->memory + l->decisions + l->status);
}

/* Kernels may use more shared memory than the default of 48 KiB only when it is asked for. */
static bs_status bs_cu_session_shared(bs_device_session *s, bs_error *error)
{
    uint64_t most = 0;
    for (int32_t k = 0; k < s->client->plan->n_parts; k++)
        most = most > s->client->plan->parts[k].scratch_bytes ? most : s->client->plan->parts[k].scratch_bytes;
    s->shared = most + BS_CU_WORKSPACE;
    if (s->client->plan->n_regions == 0)
        return BS_OK;
    if (s->shared > (uint64_t)s->device->shared_bytes)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "the plan uses %llu bytes of shared memory, this GPU has %d: plan with its shared_bytes",
                       (unsigned long long)s->shared, s->device->shared_bytes);
    return bs_cu_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(bs_cu_region), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s->shared),
                       "asking for shared memory", error);
}

static void bs_cu_session_close(bs_device_session *s)
{
    if (s->in_flight)
        cudaStreamSynchronize(s->device->stream);
    if (s->has_event)
        cudaEventDestroy(s->done);
    s->has_event = s->in_flight = false;
}

static bs_status bs_cu_session_open(bs_device *device, const bs_device_client *client, uint8_t *memory, uint8_t *pinned,
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
    bs_cu_session_program(s);
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK)
        status = bs_cu_session_carve(s, error);
    if (status == BS_OK)
        status = bs_cu_session_shared(s, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "making an event", error);
    s->has_event = status == BS_OK;
    *session = s;
    return status;
}

/* Waits for what is queued: pinned memory may be written again. */
static bs_status bs_cu_settle(bs_device_session *s, bs_error *error)
{
    if (!s->in_flight)
        return BS_OK;
    s->in_flight = false;
    return bs_cu_check(cudaEventSynchronize(s->done), "waiting for the device", error);
}

static bs_status bs_cu_mark(bs_device_session *s, bs_error *error)
{
    s->in_flight = true;
    return bs_cu_check(cudaEventRecord(s->done, s->device->stream), "recording an event", error);
}

static void *bs_cu_session_load(bs_device_session *s, bs_error *error)
{
    return bs_cu_settle(s, error) == BS_OK ? s->pinned + s->layout.loading : NULL;
}

static bs_status bs_cu_session_loaded(bs_device_session *s, uint64_t offset, uint64_t bytes, bs_error *error)
{
    const bs_status status = bs_cu_check(cudaMemcpyAsync(s->memory + s->layout.weights + offset, s->pinned + s->layout.loading, (size_t)bytes,
                                                         cudaMemcpyHostToDevice, s->device->stream),
                                         "copying weights to the device", error);
    return status == BS_OK ? bs_cu_mark(s, error) : status;
}

/* ------------------------------------------------------------------------------------------------- binding */

/* Where the device finds a caller's buffer: in place when it can, else in a dense copy. */
static bs_status bs_cu_locate(bs_device_session *s, int32_t node, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bs_buffer *b = &c->bound[node];
    bs_cu_bound *at = &s->at[node];
    cudaPointerAttributes known;
    memset(at, 0, sizeof *at);
    if (!b->data)
        return BS_OK;
    for (int32_t i = 0; i < b->rank; i++)
        at->stride[i] = b->stride[i];
    at->address = (uint64_t)(uintptr_t)b->data;
    if (c->state[node] == b->data)
        return BS_OK; /* the session's own */
    memset(&known, 0, sizeof known);
    if (cudaPointerGetAttributes(&known, b->data) != cudaSuccess)
        cudaGetLastError(); /* older toolkits call ordinary memory an error */
    else if (known.type != cudaMemoryTypeUnregistered && known.devicePointer) {
        at->address = (uint64_t)(uintptr_t)known.devicePointer;
        return BS_OK;
    }
    at->staged = s->any_staged = true;
    at->address = (uint64_t)(uintptr_t)(s->memory + s->layout.inputs + bs_device_input_place(c->plan, node));
    int64_t stride = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        at->stride[i] = stride;
        stride *= b->dim[i];
    }
    (void)error;
    return BS_OK;
}

static size_t bs_cu_bound_bytes(const bs_buffer *b)
{
    size_t bytes = bs_dtype_bytes(b->dtype);
    for (int32_t i = 0; i < b->rank; i++)
        bytes *= (size_t)b->dim[i];
    return bytes;
}

/* Between a strided buffer and a dense one, by rows of the last dimension. */
static void bs_cu_pack(const bs_buffer *b, uint8_t *dense, bool out)
{
    const size_t bytes = bs_dtype_bytes(b->dtype);
    const int64_t last = b->dim[b->rank - 1], step = b->stride[b->rank - 1];
    int64_t lines = 1;
    for (int32_t i = 0; i + 1 < b->rank; i++)
        lines *= b->dim[i];
    for (int64_t line = 0; line < lines; line++) {
        int64_t at = 0, rest = line;
        for (int32_t i = b->rank - 2; i >= 0; i--) {
            at += rest % b->dim[i] * b->stride[i];
            rest /= b->dim[i];
        }
        uint8_t *from = static_cast<uint8_t *>(b->data) + at * (int64_t)bytes, *to = dense + (size_t)(line * last) * bytes;
        for (int64_t x = 0; step != 1 && x < last; x++)
            memcpy(out ? from + x * step * (int64_t)bytes : to + x * (int64_t)bytes, out ? to + x * (int64_t)bytes : from + x * step * (int64_t)bytes, bytes);
        if (step == 1)
            memcpy(out ? from : to, out ? to : from, (size_t)last * bytes);
    }
}

static bool bs_cu_reads(const bs_device_session *s, int32_t node)
{
    const bs_node *n = &s->client->graph->nodes[node];
    return s->at[node].staged && s->client->plan->node_live[node] && !bs_node_is(n, &bs_op_output);
}

static bool bs_cu_writes(const bs_device_session *s, int32_t node)
{
    return s->at[node].staged && !bs_node_is(&s->client->graph->nodes[node], &bs_op_input);
}

/* Staged buffers to the device, or back into pinned memory. */
static bs_status bs_cu_copy_bound(bs_device_session *s, bool in, bs_error *error)
{
    bs_status status = BS_OK;
    for (int32_t n = 1; n < s->client->graph->n_nodes && status == BS_OK; n++) {
        if (in ? !bs_cu_reads(s, n) : !bs_cu_writes(s, n))
            continue;
        uint8_t *pinned = s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, n);
        uint8_t *device = reinterpret_cast<uint8_t *>((uintptr_t)s->at[n].address);
        const size_t bytes = bs_cu_bound_bytes(&s->client->bound[n]);
        if (in)
            bs_cu_pack(&s->client->bound[n], pinned, false);
        status = bs_cu_check(in ? cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, s->device->stream)
                                : cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, s->device->stream),
                             in ? "copying inputs to the device" : "copying outputs from the device", error);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------- tables */

static bool bs_cu_same_buffer(const bs_buffer *a, const bs_buffer *b)
{
    bool same = a->data == b->data && a->dtype == b->dtype && a->rank == b->rank;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

/* Whether the tables are those of this run. */
static bool bs_cu_is_lowered(const bs_device_session *s)
{
    const bs_graph *g = s->client->graph;
    bool same = s->lowered && memcmp(s->dims, s->client->dims, (size_t)g->n_dims * sizeof *s->dims) == 0;
    for (int32_t n = 1; same && n < g->n_nodes; n++)
        same = bs_cu_same_buffer(&s->bound[n], &s->client->bound[n]);
    return same;
}

static void bs_cu_write_domains(bs_device_session *s, uint8_t *tables)
{
    const bs_device_client *c = s->client;
    bs_device_domain *domains = reinterpret_cast<bs_device_domain *>(tables + s->layout.domains_at);
    bs_device_decision *decisions = reinterpret_cast<bs_device_decision *>(tables + s->layout.decisions_at);
    memset(domains, 0, (size_t)c->graph->n_domains * sizeof *domains);
    memset(decisions, 0, (size_t)c->graph->n_routers * sizeof *decisions);
    for (int32_t d = 0; d < c->graph->n_domains; d++) {
        const bs_domain *from = &c->graph->domains[d];
        domains[d].kind = from->kind;
        domains[d].parent = from->parent;
        domains[d].router = from->router;
        domains[d].path = from->path;
        domains[d].count = c->domains[d].count;
        if (!c->offsets[d])
            continue;
        domains[d].lengths = (int32_t)c->dims[bs_segment_dim(c->graph, d)];
        domains[d].offsets = (uint64_t)(uintptr_t)(s->memory + s->layout.tables + s->layout.segments_at + bs_device_offsets_place(c->plan, d));
    }
    for (int32_t r = 1; r < c->graph->n_routers; r++)
        bs_device_decision_place(c->plan, r, &decisions[r]);
    *reinterpret_cast<uint64_t *>(tables + s->layout.units_at) = (uint64_t)(uintptr_t)(s->memory + s->layout.weights);
}

/* What this run's inputs say of segments. */
static void bs_cu_write_segments(bs_device_session *s, uint8_t *tables)
{
    const bs_device_client *c = s->client;
    uint8_t *to = tables + s->layout.segments_at;
    for (int32_t d = 1; d < c->graph->n_domains; d++)
        if (c->offsets[d])
            memcpy(to + bs_device_offsets_place(c->plan, d), c->offsets[d], 4 * (size_t)(c->dims[bs_segment_dim(c->graph, d)] + 1));
    for (int32_t n = 1; n < c->graph->n_nodes; n++)
        if (c->past[n])
            memcpy(to + bs_device_past_place(c->plan, n), c->past[n], 4 * (size_t)c->dims[c->graph->values[c->graph->nodes[n].first_out].dims[0]]);
}

static bs_status bs_cu_upload(bs_device_session *s, uint64_t from, uint64_t bytes, bs_error *error)
{
    if (bytes == 0)
        return BS_OK;
    return bs_cu_check(cudaMemcpyAsync(s->memory + s->layout.tables + from, s->pinned + s->layout.tables_pinned + from, (size_t)bytes,
                                       cudaMemcpyHostToDevice, s->device->stream),
                       "copying tables to the device", error);
}

static bs_status bs_cu_write_tables(bs_device_session *s, bs_error *error)
{
    const bs_device_client *c = s->client;
    uint8_t *tables = s->pinned + s->layout.tables_pinned;
    bs_status status = BS_OK;
    s->lowered = s->any_staged = false;
    for (int32_t n = 1; n < c->graph->n_nodes && status == BS_OK; n++)
        status = bs_cu_locate(s, n, error);
    bs_cu_lowering l;
    memset(&l, 0, sizeof l);
    l.client = c;
    l.graph = c->graph;
    l.plan = c->plan;
    l.layout = &s->layout;
    l.bound = s->at;
    l.memory = (uint64_t)(uintptr_t)s->memory;
    l.steps = reinterpret_cast<bs_device_step *>(tables + s->layout.steps_at);
    l.operands = reinterpret_cast<bs_device_operand *>(tables + s->layout.operands_at);
    if (status == BS_OK)
        status = bs_cu_lower(&l, &s->launches, reinterpret_cast<bs_device_part *>(tables + s->layout.parts_at), error);
    if (status != BS_OK)
        return status;
    bs_cu_write_domains(s, tables);
    memcpy(s->dims, c->dims, (size_t)c->graph->n_dims * sizeof *s->dims);
    memcpy(s->bound, c->bound, (size_t)c->graph->n_nodes * sizeof *s->bound);
    s->has_segments = s->layout.segments_at < s->layout.tables_bytes;
    s->lowered = true;
    return bs_cu_upload(s, 0, s->layout.segments_at, error);
}

/* --------------------------------------------------------------------------------------------------- runs */

static bs_status bs_cu_launched(bs_error *error) { return bs_cu_check(cudaGetLastError(), "launching a kernel", error); }

static bs_status bs_cu_queue(bs_device_session *s, bs_error *error)
{
    const cudaStream_t stream = s->device->stream;
    BS_LAUNCH(bs_cu_begin, 4, (unsigned)s->threads, 0, stream, s->program, s->client->graph->n_routers);
    bs_status status = bs_cu_launched(error);
    for (int32_t k = 0; k < s->launches.count && status == BS_OK; k++) {
        const bs_cu_launch *l = &s->launches.list[k];
        if (l->blocks == 0)
            continue;
        if (l->kernel == BS_CU_none)
            BS_LAUNCH(bs_cu_region, (unsigned)bs_min_i64(l->blocks, s->layout.tiles), (unsigned)s->threads, (size_t)s->shared, stream, s->program,
                      l->first, l->count);
        else
            bs_cu_launch_kernel(s->program, *l, s->threads, stream);
        status = bs_cu_launched(error);
    }
    return status;
}

static bs_status bs_cu_session_submit(bs_device_session *s, bs_error *error)
{
    const bool same = bs_cu_is_lowered(s);
    bs_status status = bs_cu_check(cudaSetDevice(s->device->index), "choosing the device", error);
    if (status == BS_OK && (!same || s->any_staged || s->has_segments))
        status = bs_cu_settle(s, error);
    if (status == BS_OK && !same)
        status = bs_cu_write_tables(s, error);
    if (status == BS_OK && s->has_segments) {
        bs_cu_write_segments(s, s->pinned + s->layout.tables_pinned);
        status = bs_cu_upload(s, s->layout.segments_at, s->layout.tables_bytes - s->layout.segments_at, error);
    }
    if (status == BS_OK)
        status = bs_cu_copy_bound(s, true, error);
    if (status == BS_OK)
        status = bs_cu_queue(s, error);
    if (status == BS_OK)
        status = bs_cu_copy_bound(s, false, error);
    if (status == BS_OK)
        status = bs_cu_check(cudaMemcpyAsync(s->pinned + s->layout.results, s->memory + s->layout.decisions, (size_t)s->layout.results_bytes,
                                             cudaMemcpyDeviceToHost, s->device->stream),
                             "copying decisions from the device", error);
    const bs_status marked = bs_cu_mark(s, status == BS_OK ? error : NULL);
    return status == BS_OK ? marked : status;
}

/* What routers decided, for bs_decision_get. */
static void bs_cu_tell(bs_device_session *s)
{
    const bs_device_client *c = s->client;
    const uint8_t *results = s->pinned + s->layout.results;
    for (int32_t r = 1; r < c->graph->n_routers; r++) {
        bs_device_decision d;
        bs_device_decision_place(c->plan, r, &d);
        if (!d.live)
            continue;
        const int32_t top = bs_plan_top_domain(c->graph, d.domain);
        memset(c->counts + (size_t)r * BS_MAX_PATHS, 0, BS_MAX_PATHS * sizeof *c->counts);
        memcpy(c->counts + (size_t)r * BS_MAX_PATHS, results + d.sums, (size_t)d.paths * sizeof *c->counts);
        memcpy(&c->dropped[r], results + d.dropped, sizeof c->dropped[r]);
        memcpy(c->chosen[r], results + d.top, (size_t)c->domains[top].count);
    }
}

static bs_status bs_cu_session_wait(bs_device_session *s, int32_t *node, bs_error *error)
{
    const bs_status status = bs_cu_settle(s, error);
    *node = 0;
    if (status != BS_OK)
        return status;
    for (int32_t n = 1; n < s->client->graph->n_nodes; n++)
        if (bs_cu_writes(s, n))
            bs_cu_pack(&s->client->bound[n], s->pinned + s->layout.inputs_pinned + bs_device_input_place(s->client->plan, n), true);
    bs_cu_tell(s);
    const int32_t *said = reinterpret_cast<const int32_t *>(s->pinned + s->layout.results + s->layout.status);
    *node = said[0] != 0 ? said[1] : 0;
    return (bs_status)said[0];
}

/* Of the device or of the caller: one piece. */
static bs_status bs_cu_session_zero(bs_device_session *s, uint8_t *memory, uint64_t bytes)
{
    cudaPointerAttributes known;
    memset(&known, 0, sizeof known);
    const bool found = cudaPointerGetAttributes(&known, memory) == cudaSuccess && known.type != cudaMemoryTypeUnregistered;
    if (bs_cu_settle(s, NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    if (!found) {
        cudaGetLastError();
        memset(memory, 0, (size_t)bytes);
        return BS_OK;
    }
    if (bs_cu_check(cudaMemsetAsync(known.devicePointer, 0, (size_t)bytes, s->device->stream), "clearing a state", NULL) != BS_OK)
        return BS_ERROR_PLATFORM;
    return bs_cu_mark(s, NULL);
}

const bs_device_api bs_cu_api = {bs_cu_session_open, bs_cu_session_close, bs_cu_session_load, bs_cu_session_loaded,
                                        bs_cu_session_zero, bs_cu_session_submit, bs_cu_session_wait};

#endif
/* ==== end src/cuda/session.cuh ================================================================ */
/* ==== end src/cuda/cuda.cu ==================================================================== */
