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

#include "plan/locate.h"
#include "graph/rows.h"

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
