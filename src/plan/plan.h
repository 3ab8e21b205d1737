/* plan/plan.h - what planning makes of a graph: where every value lives, and one fixed list of instructions.
 * Owns the plan's data structures. Relies on graph/graph.h and graph/op.h. Must never hold anything that changes in a
 * run. */
#ifndef BS_PLAN_H
#define BS_PLAN_H

#include "ops/table.h"
#include "brainstorm_replay.h"

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
