/* sort.c - the one sort: stable, n log n, no recursion, over numbers of things. Relies on base.h. */
#include "base.h"

/* Halves of growing width, merged from one array into the other. */
void bs_sort(int32_t *items, int32_t *buffer, int32_t count, bs_before before, const void *context)
{
    int32_t *from = items, *to = buffer;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * width) {
            const int64_t middle = bs_min_i64(begin + width, count), end = bs_min_i64(begin + 2 * width, count);
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++) {
                const bool second = b < end && (a >= middle || before(context, from[b], from[a]));
                to[i] = from[second ? b++ : a++];
            }
        }
        int32_t *const swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, (size_t)count * sizeof *items);
}
