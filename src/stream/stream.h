/* stream/stream.h - which weights are in slots, what is read next, and what is guessed: a state machine without
 * threads, files or a clock of its own. The store drives it with reader threads, a replay with a scripted clock; both
 * get the same decisions.
 *
 * Owns extents of the slots arena, the queue of reads and the predictors. Relies on base/base.h. Must never touch
 * weights, block, or be called by two threads at once: the caller holds a lock. Times are in ns of the caller's
 * clock. */
#ifndef BS_STREAM_H
#define BS_STREAM_H

#include "base/base.h"
#include "brainstorm_replay.h"

/* ------------------------------------------------------------------------------------- what does not change */

typedef struct bs_stream_unit {
    bs_bytes slot_bytes; /* a multiple of BS_ALIGNMENT */
    bs_bytes read_bytes;
    int32_t n_chunks; /* at least 1; each is read and prepared by itself */
} bs_stream_unit;

typedef bs_trace_phase bs_stream_phase; /* first_unit, n_units: in `uses` */

typedef struct bs_stream_facts {
    int32_t n_units, n_phases, n_uses;
    const bs_stream_unit *units;
    const bs_stream_phase *phases; /* in the order in which a run visits them, in a loop again each trip */
    const int32_t *uses;           /* units of the phases, one after the other */
    bs_bytes slot_bytes;
    bs_stream_desc desc;
    bool serial; /* chunks of a unit are read one at a time, in order */
} bs_stream_facts;

/* ------------------------------------------------------------------------------------------------- its state */

typedef enum bs_slot_state {
    BS_SLOT_ABSENT,
    BS_SLOT_LOADING,
    BS_SLOT_READY,
    BS_SLOT_DROPPED /* given up while chunks are still being read: its bytes are free once those are back */
} bs_slot_state;

typedef struct bs_slot {
    bs_slot_state state;
    bs_status failed;
    bs_bytes offset;     /* in the slots arena, unless absent */
    int32_t pins, issued, done, in_flight;
    bool needed;  /* by the visit in progress, which has not taken it yet */
    bool listed;  /* in the visit's list of needs, taken or not */
    bool in_visit; /* scratch of predictors: needed by the visit that they learn from */
    bool guessed; /* a guess began this load, and nothing used it yet */
    bool guess_used;       /* the last guess of this unit was right */
    bool spoiled;          /* a chunk of this load failed */
    int32_t evicted_for;   /* the guess that evicted it; -1 none */
    bs_use outcome;        /* how the visit in progress found it */
    uint64_t guess_visit;  /* visit of its last guess: guesses do not evict each other back and forth within one */
    uint64_t last_use; /* as a number of takes */
    double frequency;  /* of uses, older ones counting less */
    uint64_t silent_until; /* visit until which it is not guessed, as its reads failed */
    uint64_t load_start;
    double keep; /* scratch of one search for room */
} bs_slot;

#define BS_STRENGTHS 8
#define BS_STREAM_LOOPS 64 /* that are noticed */

/* Phases that come again and again in a run. Loops are referred to from 1; 0: none. */
typedef struct bs_stream_loop {
    int32_t first, last;
    int32_t around; /* the next loop further out that ends with the same phase */
    int32_t usual;  /* how often the run went back the last time */
    int32_t round;  /* how often it has, this time */
    bool regular;   /* the last two times were alike */
} bs_stream_loop;

typedef struct bs_phase_state {
    bool predicted;        /* look-ahead said what to expect of the next visit */
    /* the routed phase usually visited before this one, whose choices predict what this one needs; -1: no transitions
     * are used */
    int32_t before;
    int32_t rows;          /* of its table: units that `before` may have at most */
    bool strange;          /* its last visit came after another routed phase */
    int32_t place;         /* in `order` */
    int32_t loop, ends;    /* the innermost loop around it; the innermost one that ends with it */
    uint64_t visits;
    double set_size;       /* units a visit needs, on average */
    double compute_ns;     /* how often needed, by strength: absent before, resident */
    double ahead_in[BS_STRENGTHS][2]; /* how often such a unit was needed: absent before, resident */
    double ahead_out;                 /* how often a unit was needed that look-ahead did not expect */
    double error_transition, error_frequency; /* mean squared error of the probabilities */
    double error_rate, error_recent; /* mean squared error of `rate`, of `recent` */
    /* where its transitions begin: counts [units of before][own units], then totals [units of before] */
    bs_bytes table;
    double margin;         /* margin of the choices that look-ahead made, on average */
    bs_prediction predictions[BS_PREDICTOR_COUNT];
} bs_phase_state;

/* Called for BS_EVENT_EVICT and BS_EVENT_DROP. */
typedef void (*bs_stream_watch)(void *watcher, bs_event_kind kind, int32_t unit, bool for_guess);

typedef struct bs_stream {
    bs_stream_facts facts;
    bs_stream_watch watch; /* NULL: nobody */
    void *watcher;
    bs_slot *slots;         /* [units] */
    bs_phase_state *phases; /* [phases] */
    double *rate;           /* [uses] how often its phase needs it */
    double *recent;         /* [uses] the same over the last few visits */
    double *interval;       /* [uses] visits of its phase from one need to the next, on average; 0 unknown */
    double *deviation;      /* [uses] mean absolute deviation from that */
    uint64_t *needed_at;    /* [uses] number of the last visit of its phase that needed it, from 1; 0 none */
    uint8_t *chosen;        /* [uses] 1: the last visit of the phase needed it */
    uint8_t *expected;      /* [uses] 1 + strength when look-ahead expects it in the next visit; else 0 */
    double *score;          /* [most units of a phase] scratch: how likely each is */
    int32_t *ranked;        /* [most units of a phase] how likely `following` needs each, by earlier choices */
    int32_t n_ranked;
    double *follows;        /* [most units of a phase] how likely `following` needs each, by earlier choices */
    int32_t following;      /* the next routed phase, when its transitions are used; -1 none */
    int32_t routed;         /* the routed phase that was visited last; -1 none yet */
    bs_stream_loop loops[BS_STREAM_LOOPS];
    int32_t n_loops;
    /* From 1 on, all phases as their next visits are expected: which one, how many visits from here, and the time that
     * these compute before it. */
    int32_t *order;
    double *after, *until_ns;
    int32_t n_timed;        /* up to this one all phases on the way were timed */
    /* [units] place in `order` of the next visit that may need it; 0: no phase does */
    int32_t *distance;
    int32_t *next_use;      /* [units] index in `uses` of that visit */
    int32_t *needed;        /* [units] of the visit in progress, in order */
    int32_t *present;       /* [n_present] units that have an extent, ascending */
    int32_t *by_offset;     /* [n_present] the same by their extents, which never overlap */
    int32_t n_present;
    uint16_t *transitions;
    const int64_t *future;  /* replay: [units] the visit that will in fact need it next, for BS_POLICY_BELADY */
    int32_t n_needed;
    int32_t served;         /* how many of `needed`, from the first on, are there or have failed */
    int32_t phase;          /* of the visit in progress or the last one; -1 none yet */
    uint64_t visits, takes;
    uint64_t visit_ns, stalled_ns; /* when the visit began; stalls since */
    uint64_t stall_ns; /* when the stall in progress began */
    bool stalling;
    double read_per_byte, prepare_per_byte; /* ns, measured; 0 unknown */
    double miss_rate;   /* share of visits that have to wait for a read */
    /* time that guessing gained and lost in this window: whether it pays */
    double gained_ns, lost_ns;
    uint64_t window_end, pause_visits;
    bool paused;
    bs_bytes slots_used;
    int32_t reading; /* chunks that storage is busy with */
    bs_stream_stats stats;
} bs_stream;

/* Bytes for `memory`, which must be aligned to BS_ALIGNMENT. */
bs_bytes bs_stream_bytes(const bs_stream_facts *facts);
/* facts: copied; what it points to must outlive the stream. */
void bs_stream_init(bs_stream *stream, const bs_stream_facts *facts, void *memory);

/* ------------------------------------------------------------------------------------------------ the run side */

/* A phase begins and needs these units, in this order. */
void bs_stream_visit(bs_stream *stream, int32_t phase, const int32_t *units, int32_t count, uint64_t now);
/* Look-ahead: the next visit of `phase` will need this unit (-1: none); strength: 0 .. 7, how clear the choice was.
 * The first call for a visit forgets earlier predictions. */
void bs_stream_expect(bs_stream *stream, int32_t phase, int32_t unit, int32_t strength);
/* The strength of a choice whose score is `margin` above the best that was not chosen, relative to the usual margin of
 * this phase. */
int32_t bs_stream_strength(bs_stream *stream, int32_t phase, double margin);
/* Pins a unit that is ready and tells where it is. False: not ready yet (or never: *failed tells why). A unit that the
 * visit did not list is requested. */
bool bs_stream_take(bs_stream *stream, int32_t unit, bs_bytes *offset, bs_status *failed);
/* The run cannot go on with anything that is ready. If nothing else helps, units that are ready but needed later in
 * the visit may be evicted; they are requested again when they are taken. */
void bs_stream_wait(bs_stream *stream);
void bs_stream_release(bs_stream *stream, int32_t unit);
/* The visit is over; what was not taken is no longer needed. */
void bs_stream_leave(bs_stream *stream);
/* The run stalls for weights from `now` on; it goes on at `now`. */
void bs_stream_stall(bs_stream *stream, uint64_t now);
void bs_stream_resume(bs_stream *stream, uint64_t now);

/* --------------------------------------------------------------------------------------------- the reader side */

typedef struct bs_stream_chunk {
    int32_t unit, index;
    bool demanded;
    bool arrived;
    bs_bytes offset; /* of the unit's slot */
} bs_stream_chunk;

/* What to read next; false: nothing now. Each chunk must come back through bs_stream_done. */
bool bs_stream_next(bs_stream *stream, uint64_t now, bs_stream_chunk *chunk);
/* The chunk's bytes are here after `ns`, and are being prepared: storage is free for another guess. */
void bs_stream_arrived(bs_stream *stream, bs_stream_chunk *chunk, uint64_t bytes, uint64_t ns, uint64_t now);
/* status: of reading, checking and preparing the chunk; ns: time of preparing. Returns whether its unit is complete. */
bool bs_stream_done(bs_stream *stream, bs_stream_chunk *chunk, bs_status status, uint64_t bytes, uint64_t ns,
                    uint64_t now);

/* --------------------------------------------------------------------------------------- inside: stream_*.c */

/* stream/slots.c */
/* Finds the place for `bytes` that is cheapest by the policy; false when what is pinned or needed leaves none. */
bool bs_slots_find(bs_stream *stream, bs_bytes bytes, bs_bytes *offset);
/* The next unit whose extent overlaps [offset, offset + bytes), after unit `after` (-1: the first); -1 none. */
int32_t bs_slots_overlap(const bs_stream *stream, bs_bytes offset, bs_bytes bytes, int32_t after);
void bs_slots_begin(bs_stream *stream, int32_t unit, bs_bytes offset, bool guessed, uint64_t now);
/* for_guess: the unit that takes the place if that is a guess; else -1. */
void bs_slots_give_up(bs_stream *stream, int32_t unit, int32_t for_guess);

/* stream/stream.c: the next chunk of a unit that is loading; false: none now. */
bool bs_stream_issue(bs_stream *stream, int32_t unit, bs_stream_chunk *chunk);
/* How long the visit in progress has stalled. */
uint64_t bs_stream_stalled(const bs_stream *stream, uint64_t now);

/* stream/guess.c: a chunk worth guessing; false: there is none. */
bool bs_stream_guess(bs_stream *stream, uint64_t now, bs_stream_chunk *chunk);

/* stream/ahead.c */
/* A visit of `phase` follows that of s->phase. */
void bs_ahead_learn(bs_stream *stream, int32_t phase);
/* Seen from s->phase: lists all phases in `order`. */
void bs_ahead_order(bs_stream *stream);
/* Visits from one of a phase to the next. */
int32_t bs_ahead_period(const bs_stream *stream, int32_t phase);

/* stream/predict.c */
/* How likely the next visit of `phase` needs use `use` (an index in facts.uses). */
double bs_predict_use(const bs_stream *stream, int32_t phase, int32_t use);
/* How many visits of `phase` will probably pass before one needs it: 0 = the next one does. */
double bs_predict_visits(const bs_stream *stream, int32_t phase, int32_t use);
/* Compares the predictions for this visit with what it needs, and learns from it. */
void bs_predict_visit(bs_stream *stream, int32_t phase, const int32_t *units, int32_t count);
/* Seen from the phase of the visit: how far away each unit's next use is, and what the visit's choices say about the
 * next router's. */
void bs_predict_distances(bs_stream *stream);
/* Visits candidates by score: bs_rank_begin orders `ranked`, bs_rank_next returns the one with the highest score, of
 * equal ones the first; -1: no more. Candidates are counted from their phase's first use. */
void bs_rank_begin(bs_stream *stream);
int32_t bs_rank_next(bs_stream *stream);
/* Gives routed phases their tables of transitions, unless phases is NULL; returns the bytes of all. */
bs_bytes bs_predict_tables(const bs_stream_facts *facts, bs_phase_state *phases);

static inline void bs_prediction_add(bs_prediction *sum, const bs_prediction *p)
{
    sum->expected += p->expected;
    sum->right += p->right;
    sum->needed += p->needed;
}

/* Bytes of a unit's chunks: small units are cut as well, so that lanes can prepare one part while another is read. */
static inline bs_bytes bs_stream_chunk_limit(bs_bytes unit_bytes, bs_bytes chunk_bytes, int32_t lanes)
{
    const bs_bytes share = bs_bytes_share(bs_bytes_add(unit_bytes, bs_bytes_of((uint64_t)lanes - 1)), (uint64_t)lanes);
    return bs_bytes_min(bs_bytes_max(share, bs_bytes_of(131072)), chunk_bytes);
}

/* Time that a unit takes of storage, and until it is ready, as measured so far. */
static inline double bs_stream_read_ns(const bs_stream *s, int32_t unit)
{
    return (double)bs_bytes_figure(s->facts.units[unit].read_bytes) * s->read_per_byte;
}

static inline double bs_stream_load_ns(const bs_stream *s, int32_t unit)
{
    const bs_stream_unit *u = &s->facts.units[unit];
    /* of its last chunk */
    return bs_stream_read_ns(s, unit) + (double)bs_bytes_figure(u->read_bytes) / u->n_chunks * s->prepare_per_byte;
}

#endif
