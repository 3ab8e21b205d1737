/* stream/store_load.h - what stream/store.c uses of stream/store_plan.c and stream/store_load.c. Relies on
 * stream/store.h. Must never be included elsewhere. */
#ifndef BS_STORE_LOAD_H
#define BS_STORE_LOAD_H

#include "stream/store.h"

/* Whether a node's weights are loaded with its unit: not when it reads the copy of another node of the same weights. */
static inline bool bs_store_loads(const bs_plan *plan, int32_t node)
{
    return plan->nodes[node].unit != 0 && plan->nodes[node].owner == node;
}

/* stream/store_plan.c: finds the weights of every unit and cuts them into chunks. */
bool bs_store_plan(bs_store *store, bs_error *error);

/* stream/store_load.c: called by a lane, without the gate. *raw: the chunk's bytes, in staging. */
bs_status bs_store_fetch(const bs_store *store, const bs_store_lane *lane, const bs_store_chunk *chunk,
                         const uint8_t **raw);
bs_status bs_store_check(bs_store *store, int32_t unit, const bs_store_chunk *chunk, const uint8_t *raw);
bs_status bs_store_prepare(const bs_store *store, const bs_store_lane *lane, const bs_store_chunk *chunk,
                           const uint8_t *raw, uint8_t *slot);

#endif
