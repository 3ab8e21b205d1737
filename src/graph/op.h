/* graph/op.h - the op table: what every op declares, and what a kernel is given.
 * Adding an op is one file in ops/ and one line in ops/list.h. Relies on graph/graph.h. Must never know the planner,
 * nor which ops there are. */
#ifndef BS_OP_H
#define BS_OP_H

#include "graph/segments.h"

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
