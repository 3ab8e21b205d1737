/* brainstorm_cuda.cu - 0.1.0.   MIT licence, see LICENSE.   Documentation: brainstorm.h
 * Generated from src/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.
 * sha256 of the parts: 73ba3958db067091c5c33e0dfbeed4ca27a5a2d87f48fb68582a837eabb56772
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
/* cuda.cu - the CUDA backend as one translation unit: a line for each part, bottom to top. A part includes what it needs,
 * so the order matters only where one is not included by another.
 * tools/amalgamate.py makes brainstorm_cuda.cu of it: a new part is one line here, then `make amalgamate`. */
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
    int32_t paths, per_row, rows /* at most */, domain;
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
    uint64_t session, tables_pinned, results, inputs_pinned, loading, pinned_bytes;
    uint64_t steps_at, operands_at, domains_at, decisions_at, parts_at, units_at, segments_at, tables_bytes; /* within tables */
    uint64_t inputs_bytes;
} bs_device_layout;

#define BS_DEVICE_WORKSPACE 24576 /* shared bytes that a kernel may use beside the rows of its tile */
#define BS_DEVICE_SESSION_BYTES 65536 /* pinned bytes for the backend's own bookkeeping of a session */

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

static inline bool bs_plan_on_device(const bs_plan *plan) { return plan->tier == BS_TIER_CUDA; }

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

/* ==== begin src/cuda/kernels.cuh ============================================================== */
/* kernels.cuh - the list of kernels: one line each.
 * A kernel NAME is a function bs_cu_NAME_run(tile, step, work), called by all threads of a block, that does one piece of a
 * step's work; it is launched over all rows of all branches at once (bs_cu_group), or as one of the steps of a tile
 * (bs_cu_region). Relies on the op files. */
#ifndef BS_CUDA_KERNELS
#define BS_CUDA_KERNELS

#define BS_CU_KERNELS(X)                  \
    /* moves: op_move.cuh */              \
    X(load) X(store) X(fill) X(rest) X(reduce) \
    /* decisions: op_route.cuh */         \
    X(route) X(route_score) X(route_price) \
    /* op_elementwise.cuh */              \
    X(activation)

enum {
    BS_CU_none,
#define BS_CU_ENUM(name) BS_CU_##name,
    BS_CU_KERNELS(BS_CU_ENUM)
#undef BS_CU_ENUM
        BS_CU_COUNT
};

#endif
/* ==== end src/cuda/kernels.cuh ================================================================ */
/* ==== begin src/cuda/lower.cuh ================================================================ */
/* lower.cuh - the host's side of an op on a device: what its file says of a node, once its operands are resolved.
 * Relies on portable.cuh. Must never touch the device. */
#ifndef BS_CUDA_LOWER
#define BS_CUDA_LOWER

/* #include "cuda/portable.cuh" */

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
/* ==== end src/cuda/cuda.cu ==================================================================== */
