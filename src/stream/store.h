/* stream/store.h - weights on their way from storage to slots.
 * Owns reader threads ("lanes"), their staging, what is read for each unit, and the lock under which the stream
 * decides. Relies on stream/stream.h, plan/plan.h, base/platform.h, ops/weights.h and profile/profile.h. Must never
 * know rows or routers. */
#ifndef BS_STORE_H
#define BS_STORE_H

#include "base/platform.h"
#include "plan/plan.h"
#include "plan/device.h"
#include "profile/profile.h"
#include "stream/stream.h"
#include "ops/weights.h"

typedef struct bs_store_tensor {
    bs_bytes offset; /* in storage, of its first byte */
    bs_bytes bytes;
    bs_dtype dtype; /* as stored */
    int16_t spec;   /* which of the op's weights */
    bool copied;    /* copied to the near end of staging; else the op reads it where it was read to */
} bs_store_tensor;

typedef struct bs_store_node {
    int32_t node;
    int32_t block; /* of the record that holds its weights */
    int32_t first_tensor, n_tensors; /* in store->tensors, in the order of storage */
    bs_bytes begin, end;             /* in storage, around all its tensors */
} bs_store_node;

/* One read: weights of some nodes, or the head of a record. A chunk of the stream. */
typedef struct bs_store_chunk {
    bs_bytes begin, end; /* in storage */
    int32_t block;
    int32_t first_node, n_nodes; /* in store->nodes */
    bool head, tail;     /* whether the record begins or ends in this chunk */
} bs_store_chunk;

typedef struct bs_store_unit {
    int32_t first_node, n_nodes, first_chunk, n_chunks;
    uint32_t crc; /* of the part of its record that was read so far, when records are checked */
} bs_store_unit;

typedef struct bs_store_lane {
    struct bs_store *store;
    int32_t index;
    uint8_t *staging;
    uint8_t *room; /* on a device: memory in which weights are prepared before they are copied to a slot */
    _Alignas(16) uint8_t handle[BS_THREAD_BYTES];
} bs_store_lane;

typedef struct bs_store {
    const bs_plan *plan; /* NULL: nothing is streamed */
    const bs_platform *platform;
    bs_weights weights;
    bs_profile *profile;
    bs_stream stream;
    bs_stream_unit *facts;   /* [units] numbered from 0, as in the stream */
    bs_store_unit *units;    /* [units] */
    bs_store_node *nodes;
    bs_store_tensor *tensors;
    bs_store_chunk *chunks;
    int32_t *wanted;         /* [units] that the visit needs, numbered from 0 */
    uint8_t *slots;          /* on the device, if there is one */
    bs_device *device;
    bs_device_session *on_device;
    uint8_t **base;          /* [units + 1] prepared weights of pinned units; [0] the resident ones */
    bool check_records, stop;
    int32_t n_lanes, started;
    bs_store_lane *lanes;    /* [n_lanes] */
    bs_gate gate; /* no threads: the run reads for itself */
} bs_store;

typedef struct bs_store_desc {
    const bs_plan *plan;
    const bs_platform *platform;
    const bs_weights *weights;
    const bs_stream_desc *stream;
    bs_profile *profile;
    uint8_t *memory;   /* bs_store_bytes */
    uint8_t *slots;    /* plan->slot_bytes */
    uint8_t *staging;  /* plan->lanes x plan->lane_bytes, aligned to BS_PAGE_BYTES */
    uint8_t *resident;
    bs_device *device; /* NULL: slots are in host memory */
    bs_device_session *on_device;
    uint8_t *rooms;      /* NULL: weights are prepared in their slots */
    bs_bytes room_bytes; /* of each lane */
} bs_store_desc;
#if defined(BS_NO_STREAM) /* every weight is resident: all that a store has is base[0] */
static inline bs_bytes bs_store_bytes(const bs_plan *plan)
{
    (void)plan;
    return bs_bytes_of(BS_ALIGNMENT);
}
static inline bool bs_store_open(bs_store *store, const bs_store_desc *desc, bs_error *error)
{
    (void)error;
    store->base[0] = desc->resident;
    return true;
}
static inline void bs_store_close(bs_store *store) { (void)store; }
static inline void bs_store_leave(bs_store *store) { (void)store; }
/* What a run calls about streamed weights, when there are none (bs_instr_streams). */
static inline void bs_store_visit(bs_store *store, int32_t phase, const int32_t *units, int32_t count)
{
    (void)store, (void)phase, (void)units, (void)count;
}
static inline void bs_store_expect(bs_store *store, int32_t phase, int32_t unit, double margin)
{
    (void)store, (void)phase, (void)unit, (void)margin;
}
static inline bool bs_store_try(bs_store *store, int32_t unit, bs_status *status)
{
    return (void)store, (void)unit, (void)status, true;
}
static inline bs_status bs_store_wait(bs_store *store, int32_t phase, const int32_t *units, int32_t count,
                                      int32_t *taken)
{
    return (void)store, (void)phase, (void)units, (void)count, (void)taken, BS_OK;
}
static inline int32_t bs_store_missing(bs_store *store) { return (void)store, 0; }
static inline void bs_store_release(bs_store *store, int32_t unit) { (void)store, (void)unit; }
static inline bs_use bs_store_outcome(const bs_store *store, int32_t unit)
{
    return (void)store, (void)unit, BS_USE_HIT;
}
#else
/* Bytes that a store takes of the persistent arena. */
bs_bytes bs_store_bytes(const bs_plan *plan);
/* Finds every weight and plans the reads; starts the lanes. On failure nothing is left running. */
bool bs_store_open(bs_store *store, const bs_store_desc *desc, bs_error *error);
void bs_store_close(bs_store *store);

/* The run's side. Units count from 1, as in the plan. */
void bs_store_visit(bs_store *store, int32_t phase, const int32_t *units, int32_t count);
void bs_store_leave(bs_store *store);
void bs_store_expect(bs_store *store, int32_t phase, int32_t unit, double margin); /* unit 0: nothing */
/* Pins the unit if it is there and sets base[unit]. False: not there yet, or never, and then *status says why. */
bool bs_store_try(bs_store *store, int32_t unit, bs_status *status);
/* Waits until one of these is there (pinned; *taken is that unit) or one can never be (*taken is that unit; 0:
 * unknown). */
bs_status bs_store_wait(bs_store *store, int32_t phase, const int32_t *units, int32_t count, int32_t *taken);
/* How many units the visit still waits for. */
int32_t bs_store_missing(bs_store *store);
void bs_store_release(bs_store *store, int32_t unit);
bs_use bs_store_outcome(const bs_store *store, int32_t unit);
void bs_store_stats(bs_store *store, bs_stream_stats *stats);
void bs_store_prediction(bs_store *store, int32_t phase, bs_predictor predictor, bs_prediction *sum); /* adds */

#endif

#endif
