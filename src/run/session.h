/* run/session.h - one running network: everything that changes. Relies on plan/plan.h and base/platform.h. */
#ifndef BS_SESSION_H
#define BS_SESSION_H

#include "plan/locate.h"
#include "plan/device.h"
#include "base/platform.h"
#include "graph/rows.h"
#include "stream/store.h"
#include "ops/structure.h"

/* Where instructions run: the whole session, or one tile on one thread. The same code runs in both. */
typedef struct bs_context {
    struct bs_session *session;
    int32_t thread;
    bool tile;
    uint8_t *scratch;        /* of this thread */
    bs_rows_state *domains;  /* [domains] */
    bs_decision_data *decisions; /* [routers] those made in this context: in tiles, or at top level */
    char fault[BS_FAULT_BYTES]; /* what a route, or a call that is kept, finds wrong with the data; else "" */
} bs_context;

/* Scratch of the thread that runs the session; each table is as long as the plan can ever need. */
typedef struct bs_exec_work {
    int32_t *parts, *first_tile; /* [parts of a region], [parts of a region + 1] */
    int32_t *units;   /* [parts of a region] units of a wave */
    uint64_t *spent;  /* [parts of a region] */
    int32_t *needed;  /* [units of a phase] */
    uint64_t *visited; /* [units] number of the last visit that listed the unit */
    int32_t *counts;  /* [paths of a router] */
    float *margins;   /* [paths of a router] */
    int32_t *order;   /* [paths of a router] */
    uint64_t visit;
    int32_t phase, n_needed; /* the phase that is open, -1: none; and units that it needs */
    uint64_t entered;        /* when it was */
} bs_exec_work;

/* What operands of values alike have in common: extents, and strides of rows that the plan stores. */
typedef struct bs_form {
    bs_operand operand;   /* with extents of this run; of cells, those of the frame */
    int32_t value;        /* one that has this form */
    int32_t cell, across; /* images in patches: side of a whole cell in pixels, and cells beside each other; else 0 */
} bs_form;

/* How an instruction at top level is run. */
typedef enum bs_way {
    BS_WAY_PLAIN,    /* a call or a move */
    BS_WAY_STREAMED, /* the same with weights that are streamed */
    BS_WAY_AHEAD,    /* a look-ahead */
    BS_WAY_ROUTE,
    BS_WAY_REGION
} bs_way;

/* An instruction as a CPU runs it: what of it hangs on no decision, extent or buffer. (run/steps.c) */
typedef struct bs_step {
    bs_status (*run)(const bs_call *call); /* CALL: its own kernel */
    uint8_t way;        /* bs_way */
    uint8_t kept;       /* its number among those that are kept, from 1; 0: it is not */
    bool tail : 1;      /* CALL: more is done with it: bs_exec_tail, */
    bool fusion : 1;    /* or bs_fusion_run */
    bool moves : 1;     /* a move, no call */
    bool alone : 1;     /* nothing of its time runs beside it, if only because there is one thread */
    bool routes : 1;    /* its time is that of routing */
    bool scattered : 1; /* CALL: rows of an operand are found through decisions, so each row is a call of its own */
    bool decided : 1;   /* CALL: reads a decision, row by row */
    bool zeroed : 1;    /* CALL of tiles: zeros are around its result already, left by what lay there before */
    int32_t node, domain;
    union {
        struct { /* CALL, MOVE */
            int32_t bands; /* tasks that a row, or a batch of rows, is cut into; 0: it is not cut */
            int32_t batch; /* rows of a task; < 0: images, at most; 0: of heavy rows, as many as a run has
                            * (bs_exec_batch) */
        };
        struct { /* ROUTE */
            int32_t router; /* that decides; `domain` is that of its first path */
            int32_t back;   /* of a loop's second decision the first one, behind which its body begins; else -1 */
        };
    };
} bs_step;

/* Since when addresses hold: those that decisions may change, and those that only a run changes for which something was
 * bound. */
typedef enum bs_epoch { BS_EPOCH_DECIDED, BS_EPOCH_BOUND, BS_EPOCHS } bs_epoch;

/* A call or a move in the body of a loop, prepared for its trips, or a call that no decision changes, for its runs.
 * (run/kept.c) */
typedef struct bs_kept {
    uint64_t since; /* the epoch in which it was prepared; 0: never */
    uint64_t ready; /* the epoch in which it is done as it is */
    bs_epoch epoch; /* the one that is meant */
    uint32_t trips; /* bit k: operand k is a trip's own part of something; of a move bit 1: out[0] is */
    bool does;      /* it can be kept in that epoch */
    bool stepped;   /* how far those parts lie from each other is known: `step`, in bytes */
    ptrdiff_t step[BS_MAX_OPERANDS];
    bs_call call; /* of a move only operands: in[0] goes to out[0], which lies behind it */
} bs_kept;

struct bs_session {
    uint32_t mark;
    atomic_int users; /* threads inside, counted under BS_DEBUG */
    const bs_plan *plan;
    const bs_graph *graph;
    const bs_platform *platform;
    bs_workers pool;
    bool state_valid, broken; /* broken: a run failed midway, so states are inconsistent */
    bool pending;             /* submitted, not waited for */
    bs_status last;           /* how the last run ended */
    uint8_t *transient;
    uint8_t *scratch; /* threads x plan->scratch_bytes */
    uint8_t *weights; /* prepared, resident; on a device: its address there */
    bs_store store;   /* weights that are streamed */
    bs_profile *profile;
    int32_t ops;           /* bs_profile_desc.ops, of what a CPU runs */
    bool times_ops;        /* this run adds an event of each instruction */
    unsigned events;       /* that there were before it */
    uint64_t ops_rest_ns;  /* of running that must pass before another one does */
    int32_t n_watched, *watched; /* [n_watched] nodes of which something is asked before or after every run */
    int64_t *dims;    /* [dims] of this run; what comes from data has its maximum until it is known */
    bs_locator *locators; /* [values] */
    int32_t n_forms;
    bs_form *forms;   /* [n_forms] */
    bool fits;        /* `dims` are those of what is bound, which has been checked; a run has changed none of them */
    bool writes_states; /* some needed node does */
    bool any_empty;   /* some dimension of this run is 0 */
    bs_bound *bound;   /* [n_bound] of inputs, outputs and states, by bs_bound_places; [0]: nothing is bound */
    int32_t *bound_at; /* [nodes] the place of each in `bound` */
    int32_t n_bound;
    int32_t **offsets; /* [domains] of segments: the first row of each in this run, then the end; else NULL */
    bs_context *contexts; /* [threads]; contexts of tiles */
    bs_context root;
    bs_route_callback *callbacks; /* [routers] */
    int16_t **chosen; /* [routers] path of every top-level cell, in the last run */
    /* [paths] of all routers; those of one router begin at bs_router_info.first_path */
    int32_t *counts;  /* [paths] of the last run */
    uint64_t *path_ns; /* [threads * paths] */
    int32_t *route_counts; /* [threads * paths] decided by that thread */
    int64_t *dropped; /* [routers] */
    bs_exec_work work;
    uint64_t epoch[BS_EPOCHS]; /* each grows with what may move its rows */
    bs_step *steps; /* [instructions] */
    int32_t n_kept;
    bs_kept *kept; /* [n_kept] */
    bs_run_stats stats;
    uint64_t started_ns;
    /* a device does the work */
    bs_device *device;
    bs_device_session *on_device;
    bs_device_client client;
    uint8_t *device_memory, *device_pinned;
    atomic_int status; /* of the run in progress: the first failure */
    atomic_int failed_node;
    char fault[BS_FAULT_BYTES]; /* what is wrong with the data; "": the status says everything */
};

/* What a router decided, as seen from `c`: a tile also sees the decisions made for all rows. */
static inline bs_decision_data *bs_decision_of(const bs_context *c, int32_t router)
{
    const bs_context *made_in = c->session->plan->routers[router].in_tile ? c : &c->session->root;
    return &made_in->decisions[router];
}

/* Index in path_ns and route_counts of a router's first path, for a thread. */
static inline size_t bs_session_counts(const bs_session *s, int32_t thread, int32_t router)
{
    return (size_t)thread * (size_t)s->graph->n_paths + (size_t)s->graph->routers[router].first_path;
}

static inline bs_bound *bs_bound_of(const bs_session *s, int32_t node) { return &s->bound[s->bound_at[node]]; }

/* run/session.c */
static inline bool bs_session_is_state(const bs_plan *plan, int32_t node)
{
    return plan->node_live[node] && bs_node_is_state(&plan->graph->nodes[node]);
}
static inline const bs_value_info *bs_bound_info(const bs_session *s, int32_t n)
{
    return &s->graph->values[bs_bound_value(s->graph, &s->graph->nodes[n])];
}

/* Only one thread at a time may use a session; builds with BS_DEBUG check it. */
static inline void bs_session_enter(bs_session *session)
{
    BS_DEBUG_CHECK(!session || session->mark == BS_MARK_SESSION);
#if defined(BS_DEBUG)
    const int others = session ? atomic_fetch_add(&session->users, 1) : 0;
    BS_DEBUG_CHECK(others == 0 && "one thread at a time");
#endif
    (void)session;
}

static inline void bs_session_leave(bs_session *session)
{
#if defined(BS_DEBUG)
    if (session)
        atomic_fetch_sub(&session->users, 1);
#endif
    (void)session;
}

static inline bool bs_exec_failed(bs_session *s)
{
    return atomic_load_explicit(&s->status, memory_order_relaxed) != BS_OK;
}

static inline uint64_t bs_session_now(const bs_session *s)
{
    return s->platform && s->platform->clock_ns ? s->platform->clock_ns(s->platform->user) : 0;
}

/* Checks a run before it begins; sets extents and the rows of domains. (run/extents.c) */
bool bs_session_check_run(bs_session *session, bs_error *error);
/* The node of this instruction has run and made a symbol: sets its extent and what hangs on it, or says in
 * fault[BS_FAULT_BYTES], zeros so far, why this run cannot go on. (run/extents.c) */
bs_status bs_extents_made(bs_session *session, const bs_instr *i, int64_t extent, char *fault);
/* Counts the rows that nodes make, by the extents as they are known. (run/extents.c) */
void bs_extents_count(bs_session *session);
/* Whether the session itself provides the memory of this state. */
bool bs_session_owns_state(const bs_session *s, int32_t node);

/* run/operands.c, run/move.c: finding rows, and moving them */
/* How many forms the values of a plan have; makes them and the locators, once; and gives them the extents of a run. */
int32_t bs_forms_count(const bs_plan *plan);
void bs_forms_make(bs_session *session);
void bs_forms_bind(bs_session *session);
void bs_operand_make(const bs_context *c, int32_t value, int32_t row, bs_operand *operand);
/* The number that row `row` has among those that lie row_stride apart: where the next one is, of any value but images,
 * follows from its own. */
int32_t bs_operand_row(const bs_context *c, int32_t value, int32_t row);
static inline void bs_operand_advance(bs_operand *operand, int32_t rows)
{
    operand->data = (uint8_t *)operand->data + rows * operand->row_stride * (ptrdiff_t)bs_dtype_bytes(operand->dtype);
}
/* Whether the rows of a value of a path lie one after the other in its source, a carried value: they are read there,
 * and no move copies them. */
bool bs_operand_is_seen(const bs_context *c, int32_t value);
void bs_move_rows(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows); /* of a BS_INSTR_MOVE */
/* Its row `row`, where a value is copied: where it goes, and where it lies; and copying it. */
void bs_move_operands(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *to, bs_operand *from);
void bs_move_row(const bs_operand *to, const bs_operand *from);
/* Around what was computed of an image whose core has up to max_h x max_w pixels; and around a row of a value, moved
 * there. */
void bs_zero_margin(const bs_operand *operand, int32_t margin, int64_t max_h, int64_t max_w);
void bs_zero_around(const bs_context *c, int32_t target, const bs_operand *operand);
/* Sets bs_step.zeroed. */
void bs_margins_find(bs_session *session);
/* The row of the ROWS or PATCHES domain above that this row came from, counted over all tiles. */
int32_t bs_top_row(const bs_context *c, int32_t domain, int32_t row);

/* run/segments.c: offsets and cache lengths from the inputs, checked and kept for the run */
int64_t bs_segment_room(const bs_plan *plan, int32_t domain); /* length of `offsets`; 0: no op needs its rows */
int64_t bs_cache_lengths_room(const bs_plan *plan, int32_t node); /* length of its copy, or 0 */
bool bs_segments_begin(bs_session *session, bs_error *error);
void bs_segment_call(const bs_context *c, int32_t row, bs_call *call);
/* Strides and address in the cache of appended row `row`; data NULL: the row is older than the window. */
void bs_segment_append(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *operand);

/* run/route.c */
/* On failure c->fault says what is wrong with the data; "": the status says everything. */
bs_status bs_route_decide(bs_context *c, int32_t router);
bs_status bs_route_again(bs_context *c, int32_t router); /* a loop, after a trip */
void bs_decision_forced(bs_decision_data *d, int32_t rows, int32_t path);

/* run/kept.c: how many instructions are kept, and their operands together; and who has which operands. */
int32_t bs_kept_count(const bs_plan *plan, int32_t *operands);
void bs_kept_place(bs_session *session, bs_operand *operands);

/* run/steps.c */
void bs_steps_make(bs_session *session);

/* run/exec.c */
void bs_execute(bs_session *session);
/* A run that began at `start` is over: counts and records it. */
void bs_exec_ended(bs_session *session, uint64_t start);

#endif
