/* plan/locate.h - where the rows of a value are, worked out once for all that reads or writes them: as far as no
 * decision, extent or buffer is needed. The CPU's operands (run/operands.c) begin here, and a device's
 * (cuda/step_operand.cuh).
 * Relies on plan/plan.h. Must never know an address. */
#ifndef BS_LOCATE_H
#define BS_LOCATE_H

#include "plan/plan.h"

typedef enum bs_place {
    BS_AT_ROOT, /* one row, at `base` */
    BS_AT_ROWS, /* base + (first of the domain's rows + row) * row_bytes */
    BS_AT_TILE, /* base is an offset in the scratch of a tile: + row * row_bytes */
    BS_AT_CELL, /* in the root image `source`, where the cell lies */
    BS_AT_LINE, /* in the root tensor `source`: the row of the top-level domain */
    BS_AT_RING, /* a device's, of a cache: the row that state_append writes (segment, then position) */
    /* a CPU's, of values of a path: */
    BS_AT_ABOVE, /* where `source` has the row that this one came from */
    BS_AT_SEEN   /* the same while the path's rows stand side by side around it, else as BS_AT_ROWS and BS_AT_TILE */
} bs_place;

/* Whose memory it is that `base` is an offset in. */
typedef enum bs_memory_of {
    BS_OF_PLAN,    /* the plan's: transient memory, or the scratch of a tile */
    BS_OF_WEIGHTS, /* prepared weights */
    BS_OF_CALLER,  /* what is bound to node `bound` */
    BS_OF_EITHER   /* the caller's where that lies channels last, else the plan's */
} bs_memory_of;

/* Element [0,0,0] of the core of a row, and what hangs on the path that it is read along. */
typedef struct bs_locator {
    bs_bytes base;
    bs_bytes row_bytes; /* from one row to the next */
    int32_t form;       /* of the value itself (bs_form_twin) */
    int32_t domain;     /* whose rows they are */
    int32_t source;     /* CELL, LINE, ABOVE, SEEN: a value */
    int32_t loop;       /* ABOVE, SEEN: of the row of `source` it is the part that belongs to a trip of this; 0: all */
    int32_t bound;
    uint8_t place, memory; /* bs_place; bs_memory_of */
    bool in_tile;          /* TILE; and SEEN, if it is otherwise as that */
    uint8_t shift;         /* of a stored element's bytes */
} bs_locator;

void bs_locate(const bs_plan *plan, int32_t value, bs_locator *locator);
/* Strides in elements of rows that the plan stores, from the maxima of its extents; and how many elements the core
 * lies behind the start of the row. */
int64_t bs_strides_stored(const bs_plan *plan, int32_t value, int64_t stride[BS_MAX_AXES]);
/* Values have one form whose operands differ in their addresses alone, as far as the plan stores them. Returns one that
 * stands shortly before `value` and has its form; 0: it has one of its own. */
int32_t bs_form_twin(const bs_plan *plan, int32_t value);

#endif
