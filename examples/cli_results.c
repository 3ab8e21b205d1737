/* cli_results.c: what a result is, in words and beside another array (cli_tensor.h).
 * Owns: nothing. Relies on: cli_tensor.h. Must never: tell of a difference and not where it is. */
#include "cli_tensor.h"

#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 6, BEST = 5 };

static int64_t count_of(const bs_buffer *b)
{
    int64_t n = 1;
    for (int32_t i = 0; i < b->rank; i++)
        n *= b->dim[i];
    return n;
}

static double half_value(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double n = exponent == 31  ? (fraction ? NAN : INFINITY)
                     : exponent == 0 ? ldexp(fraction, -24)
                                     : ldexp(1024 + fraction, exponent - 25);
    return h >> 15 ? -n : n;
}

/* Element number `index`, counted in row-major order. */
static double value_at(const bs_buffer *b, int64_t index)
{
    int64_t at = 0;
    for (int32_t d = b->rank - 1; d >= 0; d--) {
        at += index % b->dim[d] * b->stride[d];
        index /= b->dim[d];
    }
    switch (b->dtype) {
    case BS_U8: return ((const uint8_t *)b->data)[at];
    case BS_I8: return ((const int8_t *)b->data)[at];
    case BS_U16: return ((const uint16_t *)b->data)[at];
    case BS_I32: return ((const int32_t *)b->data)[at];
    case BS_F32: return (double)((const float *)b->data)[at];
    case BS_F16: return half_value(((const uint16_t *)b->data)[at]);
    default: return NAN;
    }
}

static void print_extents(const bs_buffer *b)
{
    printf("[");
    for (int32_t i = 0; i < b->rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)b->dim[i]);
    printf("]");
}

/* Where an element is: [2, 0, 17]. */
static void print_place(const bs_buffer *b, int64_t index)
{
    int64_t place[BS_MAX_RANK];
    for (int32_t d = b->rank - 1; d >= 0; d--) {
        place[d] = index % b->dim[d];
        index /= b->dim[d];
    }
    printf("[");
    for (int32_t i = 0; i < b->rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)place[i]);
    printf("]");
}

/* Whether it is a list: one dimension of more than one. */
static bool is_list(const bs_buffer *b, int64_t count)
{
    for (int32_t i = 0; i < b->rank; i++)
        if (b->dim[i] == count)
            return count > FIRST;
    return false;
}

static void print_best(const bs_buffer *b, int64_t count)
{
    int64_t best[BEST];
    int n = 0;
    for (int64_t i = 0; i < count; i++) {
        int at = n < BEST ? n : BEST;
        const double v = value_at(b, i);
        while (at > 0 && v > value_at(b, best[at - 1]))
            at--;
        if (at == BEST)
            continue;
        n += n < BEST;
        memmove(best + at + 1, best + at, (size_t)(n - at - 1) * sizeof *best);
        best[at] = i;
    }
    printf("    largest:");
    for (int i = 0; i < n; i++)
        printf("%s number %lld: %.6g", i ? "," : "", (long long)best[i], value_at(b, best[i]));
    printf("\n");
}

void cli_tensor_print(const cli_tensor *t)
{
    const bs_buffer *b = &t->buffer;
    const int64_t count = count_of(b);
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t numbers = 0;
    for (int64_t i = 0; i < count; i++) {
        const double v = value_at(b, i);
        if (!isfinite(v))
            continue;
        least = v < least ? v : least;
        most = v > most ? v : most;
        sum += v;
        numbers++;
    }
    printf("  %-16s %s ", t->name, bs_dtype_name(b->dtype));
    print_extents(b);
    if (numbers > 0)
        printf("  %.6g .. %.6g, mean %.6g", least, most, sum / (double)numbers);
    if (numbers < count)
        printf(", %lld NaN or infinite", (long long)(count - numbers));
    printf("\n    first:");
    for (int64_t i = 0; i < count && i < FIRST; i++)
        printf(" %.6g", value_at(b, i));
    printf("%s\n", count > FIRST ? " ..." : count == 0 ? " (none)" : "");
    if (is_list(b, count))
        print_best(b, count);
}

/* -------------------------------------------------------------------------------------------------- comparing */

typedef struct difference {
    double largest, sum, magnitude;
    int64_t at, numbers, odd; /* odd: one is a number and the other none */
} difference;

static difference difference_of(const bs_buffer *a, const bs_buffer *b)
{
    difference d = {0, 0, 0, 0, 0, 0};
    for (int64_t i = count_of(a) - 1; i >= 0; i--) {
        const double x = value_at(a, i), y = value_at(b, i), apart = fabs(x - y);
        d.magnitude = isfinite(y) && fabs(y) > d.magnitude ? fabs(y) : d.magnitude;
        if (x == y || (isnan(x) && isnan(y)))
            d.numbers++;
        else if (!isfinite(apart))
            d.odd++;
        else {
            d.numbers++;
            d.sum += apart;
            if (apart >= d.largest) {
                d.largest = apart;
                d.at = i;
            }
        }
    }
    return d;
}

/* The difference, and whether it is small enough. */
static bool print_difference(const cli_tensor *t, const bs_buffer *other, double tolerance)
{
    const difference d = difference_of(&t->buffer, other);
    const double scale = d.magnitude > 0 ? d.magnitude : 1;
    printf("largest difference %.3g at ", d.largest);
    print_place(&t->buffer, d.at);
    printf(" (%.9g, there %.9g), %.3g of the largest magnitude %.6g; mean %.3g", value_at(&t->buffer, d.at),
           value_at(other, d.at), d.largest / scale, d.magnitude, d.sum / (double)(d.numbers ? d.numbers : 1));
    if (d.odd)
        printf("; %lld are NaN or infinite on one side only", (long long)d.odd);
    printf("\n");
    return d.odd == 0 && d.largest <= tolerance * scale;
}

bool cli_tensor_compare(const cli_tensor *t, double tolerance)
{
    const bs_buffer other = npy_buffer(&t->expected);
    bool same = other.rank == t->buffer.rank;
    for (int32_t i = 0; same && i < other.rank; i++)
        same = other.dim[i] == t->buffer.dim[i];
    printf("  %-16s beside %s: ", t->name, t->beside);
    if (same)
        return print_difference(t, &other, tolerance);
    printf("other extents: ");
    print_extents(&t->buffer);
    printf(" and ");
    print_extents(&other);
    printf("\n");
    return false;
}
