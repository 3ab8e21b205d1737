/* ops/trees.h - the lists by which rows get their levels, for the plain kernel and a device.
 * Relies on base/base.h. Must never know where indices come from. */
#ifndef BS_OPS_TREES_H
#define BS_OPS_TREES_H

#include "base/base.h"
#include "base/both.h"

typedef struct bs_children_params {
    const char *name;
    int32_t slots;
} bs_children_params;

/* Of [rows, slots] children. An index is named by where it stands among all of them: row * slots + slot. */
typedef struct bs_level_lists {
    int32_t *above; /* [rows] the first index that names a row; -1 none */
    int32_t *waits; /* [rows] children that have no level yet */
    int32_t *order; /* [rows] rows that have a level, in the order in which they got it */
    int32_t *next;  /* [rows * slots] another index that names the same row; -1 none */
} bs_level_lists;

enum { BS_LEVEL_WORDS = 3 }; /* of a row, beside those of its indices */

static inline BS_BOTH bs_level_lists bs_level_lists_in(void *scratch, int64_t rows)
{
    int32_t *at = (int32_t *)scratch;
    const bs_level_lists lists = {at, at + rows, at + 2 * rows, at + BS_LEVEL_WORDS * rows};
    return lists;
}

#endif
