/* plan/plan.h - what planning makes of a graph: where every value lives, and one fixed list of instructions.
 * Owns the plan's data structures. Relies on graph/graph.h and graph/op.h. Must never hold anything that changes in a
 * run. */
#ifndef BS_PLAN_H
#define BS_PLAN_H

#include "ops/table.h"

typedef enum bs_storage {
    BS_STORAGE_NONE,      /* not needed by any output: never computed */
    BS_STORAGE_INPUT,     /* the caller's buffer of input `source` */
    BS_STORAGE_OUTPUT,    /* the caller's buffer of output `source` */
    BS_STORAGE_STATE,     /* the state made by node `source` */
    BS_STORAGE_TRANSIENT, /* rows in the transient arena */
    BS_STORAGE_SCRATCH,   /* rows of the tile in a thread's scratch */
    BS_STORAGE_WEIGHT,    /* a constant: prepared memory of its node */
    BS_STORAGE_VIEW,      /* patches, rows, scatter: rows of operand `source`, found through the decision */
    BS_STORAGE_FRAME      /* a gather that goes straight to its place in the assembled root value `source` */
} bs_storage;

typedef struct bs_value_plan {
    uint32_t storage;     /* bs_storage, in four bytes whatever the compiler */
    int32_t source;
    int32_t margin;       /* storage around a cell's core, in samples, rank 3 only */
    int32_t slab;         /* transient: values of one slab share its bytes (the paths of a router, packed) */
    int32_t first, last;  /* time of definition and of last use, in its list (transient: global; scratch: the part's) */
    int32_t scope;        /* -1 global, else index of the part whose scratch it lives in */
    bool narrow;          /* f32 that a device keeps in f16 */
    bool is_cache_length; /* something reads it as the number of tokens that caches hold */
    bs_bytes offset;
    bs_bytes row_bytes;
    int64_t rows;         /* that the storage holds */
} bs_value_plan;

typedef enum bs_instr_kind {
    BS_INSTR_CALL,  /* the kernel of `node` on the rows of `domain` */
    /* rows of `value` (0: none) to `target`: where each goes says `map`, what becomes of it `combine` */
    BS_INSTR_MOVE,
    BS_INSTR_ROUTE, /* the router of `node` decides about the rows of `domain` */
    BS_INSTR_RUN    /* lists of instructions on the rows of their domains: the parts of `region`, tile by tile */
} bs_instr_kind;

/* For each row of an instruction's domain: where it is read, and where it goes. */
typedef enum bs_row_map {
    BS_MAP_VIEW,   /* from where `value` is a view of, to the rows of its own that it has beside (target: itself) */
    BS_MAP_ROW,    /* from a row to the same row of `target` */
    BS_MAP_PARENT, /* from a row of a path to the row that it was scattered from */
    BS_MAP_CELL,   /* from a row to its place in the root tensor `target` */
    BS_MAP_BOUND,  /* from the only row to what the caller bound to `node`, or to the state that it writes */
    BS_MAP_APPEND, /* from a row of a segment to the next place in the ring of the cache that `node` writes */
    BS_MAP_PATHS,  /* from the rows that all paths made of a row, packed, to that row of `target` */
    BS_MAP_BEYOND  /* to the rows of the root tensor `target` that no cell has */
} bs_row_map;

typedef enum bs_combine {
    BS_COMBINE_COPY,
    BS_COMBINE_RESIDUAL, /* only into rows that no path gives: `value`, or zero */
    BS_COMBINE_ZERO,
    /* of several paths; where `value` is there: it is added, or selected when no path gives anything */
    BS_COMBINE_SUM, BS_COMBINE_WEIGHTED_SUM, BS_COMBINE_SELECT
} bs_combine;

typedef struct bs_instr {
    uint8_t kind;             /* bs_instr_kind */
    uint8_t map, combine;     /* MOVE: bs_row_map, bs_combine */
    int32_t node;             /* 0: RUN */
    int32_t value, target;    /* MOVE; 0: none */
    int32_t domain;           /* whose rows it works on */
    int32_t region;           /* RUN: whose parts it runs */
    int32_t part;             /* that it belongs to; BS_TOP: none, it stands at top level */
    int32_t time;             /* BS_TIME_END or later: when all else is done */
    int32_t phase;            /* top level: whose units it needs; -1 none */
} bs_instr;

#define BS_TOP (-1)

/* Straight-line instructions for tiles of one domain. */
typedef struct bs_part {
    int32_t region;
    int32_t domain;
    int32_t router, path; /* 0, -1 when the part is not one path of a router */
    int32_t first, count; /* instructions */
    int32_t unit;         /* whose weights it needs; 0 none */
    int32_t index;        /* in region_parts */
    bs_bytes scratch_bytes;
    double flops; /* a row, for the order in which tiles start */
} bs_part;

typedef struct bs_domain_plan {
    int32_t order;     /* BS_ORDER_BREADTH or _DEPTH, of top-level domains */
    int32_t tile_rows; /* depth */
    int32_t size;      /* patches: cell size, desc.patch_size applied */
    int64_t max_rows;
    bool live; /* something that is needed works on its rows */
    bool images, streams; /* top level: it holds images; routed blocks whose weights come and go */
    bool whole; /* top level: a decision below it needs all of its rows */
    bool mixed; /* depth, but wide values at top level: a device's tiles would not fit in its shared memory */
} bs_domain_plan;

typedef struct bs_router_plan {
    int32_t forced; /* path + 1, or 0 */
    bool live;
    bool in_tile;   /* decided tile by tile, inside a region */
    int32_t instr;  /* that decides; -1 none */
    int64_t rows;   /* a decision's maximum */
} bs_router_plan;

/* Weights that are loaded at once (numbered from 1; 0: what is resident). */
typedef struct bs_plan_unit {
    int32_t block;  /* the outermost; names it */
    int32_t domain; /* PATH: the outermost path whose nodes they are; else 0 */
    int32_t node;   /* the first that has some of them */
    bs_bytes prepared_bytes;
} bs_plan_unit;

#define BS_TIME_END (INT32_MAX / 2)
#define BS_TILE_ROWS 16 /* of a tile of what is no image */
#define BS_MAX_MARGIN (1 << 20) /* times a stride it is still far from 2^31 */
#define BS_MAX_ROWS (1 << 30) /* of a domain, and what a router chooses for all of its rows together */
#define BS_MAX_PLAN_BYTES ((uint64_t)1 << 46) /* no plan needs as many */

/* The parts of a region: region_parts[first .. first + count), the most expensive first, equal ones as they were made:
 * a long tile that starts last is what a thread waits for. */
typedef struct bs_region {
    int32_t domain; /* in whose tiles it runs */
    int32_t first, count;
    int32_t instr;  /* that runs it; -1: nothing is to be run */
} bs_region;

struct bs_plan {
    uint32_t mark;
    const bs_graph *graph;
    bs_plan_desc desc;
    uint32_t tier; /* bs_tier */
    int32_t threads;
    int32_t n_instrs, n_parts, n_regions, n_top; /* top-level instructions come first */
    int32_t max_instrs;
    bs_bytes own_bytes;       /* of the arena that it lies in, beside a session's: the tables too, but of an image */
    int32_t most_parts;       /* of a region */
    int32_t most_phase_units; /* of a phase */
    int32_t last_route;       /* at top level: the last instruction that decides; -1 none */
    bs_bytes transient_bytes, scratch_bytes /* a thread */, weight_bytes, staging_bytes;
    bs_bytes kernel_scratch_bytes, kernel_scratch_offset;
    bs_bytes shared_bytes;    /* a device: what a tile's rows may take */
    bool *node_live;          /* [nodes] */
    bs_node_plan *nodes;      /* [nodes] */
    bs_value_plan *values;    /* [values] */
    bs_instr *instrs;
    bs_part *parts;           /* [max_parts] */
    int32_t *region_parts;    /* [max_parts] */
    bs_region *regions;       /* [max_regions] */
    bs_domain_plan *domains;  /* [domains] */
    bs_router_plan *routers;  /* [routers] */
    /* streaming; n_units = 1 and nothing else when everything is resident */
    int32_t n_units, n_phases, n_phase_units;
    bs_plan_unit *units;      /* [n_units], [0] unused */
    bs_trace_phase *phases;   /* [n_phases] */
    int32_t *phase_units;     /* [n_phase_units], of phases, from 0 as the stream counts */
    bs_bytes slot_bytes, all_unit_bytes, largest_unit_bytes;
    bs_bytes chunk_bytes, lane_bytes; /* of one lane's staging */
    int32_t lanes;
};

/* The passes, in order. Each returns false after recording an error. */
/* what is needed; forced routes; orders of domains; margins */
bool bs_plan_live(bs_plan *plan, void *workspace, bs_error *error);
void bs_plan_fuse(bs_plan *plan, void *workspace);   /* chains that one kernel does */
bool bs_plan_share(bs_plan *plan, void *workspace, bs_error *error); /* which nodes have the same weights */
void bs_plan_lower(bs_plan *plan, void *workspace);  /* places and instructions */
bool bs_plan_memory(bs_plan *plan, void *workspace, bs_error *error); /* offsets in transient and scratch */
/* A device: a top-level domain whose tiles are larger than its shared memory, or 0. Paths whose weights come and go run
 * in tiles all the same, which then lie in the device's memory. */
int32_t bs_plan_domain_beyond_shared(const bs_plan *plan);
/* Whether a node's rows, in or out, are too wide to share a tile with others (mixed domains). */
bool bs_plan_is_wide(const bs_plan *plan, int32_t node);
/* Smaller tiles for such a domain, if that leaves most of it in tiles; else it runs layer by layer. */
void bs_plan_untile(bs_plan *plan, int32_t top);
/* Instructions there can be: of a gather one for each of its operands, else two at most; what works in tiles has one,
 * and so leaves room for that of its region. */
static inline int32_t bs_plan_most_instrs(const bs_graph *g) { return 2 * g->n_nodes + g->n_operands; }

/* A node of cells begins one part at most, and so it does with regions. */
static inline int32_t bs_plan_most_parts(const bs_graph *g) { return g->n_cell_nodes; }

/* Bytes of their workspaces, only while planning. Every pass has it to itself. */
bs_bytes bs_plan_live_workspace(const bs_graph *graph);
bs_bytes bs_plan_fuse_workspace(const bs_graph *graph);
bs_bytes bs_plan_share_workspace(const bs_graph *graph);
bs_bytes bs_plan_lower_workspace(const bs_graph *graph);
bs_bytes bs_plan_memory_workspace(const bs_graph *graph);

/* Streaming: plan/units.c. */
#if !defined(BS_NO_STREAM)
void bs_plan_units(bs_plan *plan, void *workspace);  /* which weights come and go together */
/* steps that need units; sizes of slots and staging */
bool bs_plan_phases(bs_plan *plan, void *workspace, bs_error *error);
bs_bytes bs_plan_units_workspace(const bs_graph *graph);
bs_bytes bs_plan_phases_workspace(const bs_graph *graph);
/* From what units take: slots, lanes, staging (plan/streamed.c). Returns the largest unit. */
int32_t bs_plan_size_slots(bs_plan *plan);
/* Whether a needed node has weights that come and go. */
bool bs_plan_node_streams(const bs_plan *plan, int32_t node);
static inline bool bs_plan_streams(const bs_plan *plan) { return plan->n_units > 1; }
static inline bool bs_instr_streams(const bs_instr *i) { return i->phase >= 0; } /* a part of a phase */
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
static inline bs_bytes bs_plan_units_workspace(const bs_graph *graph) { return (void)graph, bs_bytes_of(0); }
static inline bs_bytes bs_plan_phases_workspace(const bs_graph *graph) { return (void)graph, bs_bytes_of(0); }
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

/* Gives all domains the orders of their top-level ones; says where routers decide. */
void bs_plan_spread_orders(bs_plan *plan);
/* Finds the node whose prepared copy a node reads, once all before it are planned and its layout is known
 * (plan/share.c). */
void bs_plan_find_owner(bs_plan *plan, int32_t node);

/* ------------------------------------------------------------------------------------ what is known of a plan
 * Rules by which a plan is made, looked at when an image of it is opened, and run (plan/facts.c). */
static inline bool bs_plan_on_device(const bs_plan *plan) { return plan->tier == BS_TIER_CUDA; }
/* The type in which the plan's own rows of a value are stored. */
static inline bs_dtype bs_plan_stored(const bs_plan *plan, int32_t value)
{
    return plan->values[value].narrow ? BS_F16 : plan->graph->values[value].dtype;
}
/* Whether a value has rows of its own. */
static inline bool bs_plan_is_stored(const bs_plan *plan, int32_t value)
{
    return plan->values[value].storage == BS_STORAGE_TRANSIENT || plan->values[value].storage == BS_STORAGE_SCRATCH;
}
/* The ROWS or PATCHES domain that `domain` is or descends from; 0 for the root. */
int32_t bs_plan_top_domain(const bs_graph *graph, int32_t domain);
/* The core of a cell of this value at most, [h, w]. */
void bs_plan_core(const bs_plan *plan, const bs_value_info *value, int64_t *h, int64_t *w);
/* What follows from the plan's tier and its description. */
void bs_plan_begin(bs_plan *plan);
/* And what from its tables: arenas, the most that something has. */
void bs_plan_sum(bs_plan *plan);
/* Where the rows of a stored value end in its arena. */
static inline bs_bytes bs_plan_end(const bs_value_plan *value)
{
    return bs_bytes_add(value->offset, bs_bytes_times(value->row_bytes, value->rows));
}
/* Size of patches and most rows of a domain; parents first. Where a router decides, and about how many rows. */
void bs_plan_size_domain(const bs_plan *plan, int32_t domain, bs_domain_plan *p);
void bs_plan_size_router(const bs_plan *plan, int32_t router, bs_router_plan *r);

/* The operands a node has in this plan: its own, or those of the chain it ends (plan/fusions.c). */
const int32_t *bs_plan_in(const bs_plan *plan, int32_t node, int32_t *count);
bs_status bs_fusion_run(const bs_call *call);
const char *bs_fusion_name(int32_t fusion);
int32_t bs_fusion_count(void);
/* Whether a run reads operand `index` of a node: a router that is forced reads no scores, and a gather of one only what
 * the forced path gives, or the residual in its place. */
bool bs_plan_reads(const bs_plan *plan, const bs_node *node, int32_t index);
/* Whether operand `index` of node n, which is `value`, is read where its rows are, without rows of its own. */
bool bs_plan_reads_in_place(const bs_plan *plan, int32_t n, int32_t index, int32_t value);
bool bs_plan_is_planar(const bs_plan *plan, int32_t value);
/* Whether a gather keeps every path's rows until all are there: sums, and several paths a cell. And what it makes of
 * them. */
bool bs_plan_is_packed(const bs_graph *graph, const bs_node *gather);
bs_combine bs_plan_combine(const bs_node *gather);
/* A call that computes nothing: what it says of a later router is all it is for. */
static inline bool bs_plan_looks_ahead(const bs_node *node)
{
    return bs_node_work(node) == BS_WORK_CALL && node->n_out == 0;
}
bool bs_plan_look_ahead_fits(const bs_plan *plan, int32_t node, int32_t router, bs_error *error);

/* Margin that operand `index` needs, by the margins of what the node makes. */
int32_t bs_plan_margin_needed(const bs_plan *plan, const bs_node *node, int32_t index);
/* Of a value with rows of its own: bytes of a row, and rows; by its margin and its storage class. */
bs_bytes bs_plan_row_bytes(const bs_plan *plan, int32_t value);
int64_t bs_plan_storage_rows(const bs_plan *plan, int32_t value);

/* What a node's op declares: fills specs [BS_MAX_WEIGHTS], returns their number. */
int32_t bs_plan_tensors(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs);
/* Whether a run reads the node's weights: a router that is decided ahead needs no table of its own. */
bool bs_plan_needs_weights(const bs_plan *plan, int32_t node);
/* Bytes of a node's weights as its op declares them. */
bs_bytes bs_plan_canonical_bytes(const bs_graph *graph, const bs_node *node);
/* The node's algorithm, bytes and work items, by its margins. */
void bs_plan_size_node(const bs_plan *plan, int32_t node, bs_node_plan *np);
/* Whether two nodes that have the same weights can read one copy. */
bool bs_plan_laid_out_alike(const bs_plan *plan, int32_t a, int32_t b);

/* plan/limits.c. The first in words of bs_plan_desc; then what no plan may have. */
bool bs_plan_desc_sound(const bs_plan_desc *desc, bs_error *error);
bool bs_plan_rows_fit(const bs_plan *plan, bs_error *error);
bool bs_plan_bytes_fit(const bs_plan *plan, bs_error *error);

#endif
