/* base/sort.c - the one stable sort: ids, ordered by what a function says of two of them.
 * Relies on base/base.h. Must never recurse or take memory. */
#include "base/base.h"

/* A merge sort, bottom up. */
void bs_sort(int32_t *ids, int32_t *buffer, int32_t count, bs_before before, const void *user)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t low = 0; low < count; low += 2 * width) {
            const int64_t middle = bs_min_i64(low + width, count), high = bs_min_i64(low + 2 * width, count);
            int64_t a = low, b = middle;
            for (int64_t k = low; k < high; k++)
                buffer[k] = a < middle && (b >= high || !before(user, ids[b], ids[a])) ? ids[a++] : ids[b++];
        }
        memcpy(ids, buffer, (size_t)count * sizeof *ids);
    }
}
