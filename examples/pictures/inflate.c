/* inflate.c: see inflate.h. Codes are decoded bit by bit, by how many there are of each length: a code of `length` bits
 * is one of count[length] that follow each other. */
#include "inflate.h"

#include "deflate_codes.h"

#include <string.h>

enum { MAX_BITS = 15, LITERALS = 288, DISTANCES = 32, END = 256, LENGTHS = 19 };

typedef struct input {
    const uint8_t *at, *end;
    uint32_t hold; /* bits that were read and not taken, the next one lowest */
    int count;     /* of them */
    bool over;     /* more were wanted than there are */
} input;

typedef struct output {
    uint8_t *first, *at, *end;
} output;

typedef struct code {
    uint16_t count[MAX_BITS + 1]; /* codes of each length */
    uint16_t symbol[LITERALS];    /* in the order of codes */
} code;

static uint32_t take(input *in, int bits)
{
    while (in->count < bits) {
        if (in->at == in->end) {
            in->over = true;
            return 0;
        }
        in->hold |= (uint32_t)*in->at++ << in->count;
        in->count += 8;
    }
    const uint32_t n = in->hold & ((1u << bits) - 1);
    in->hold >>= bits;
    in->count -= bits;
    return n;
}

/* False: more codes than there is room for. Fewer are let pass: those that are missing are refused when they come. */
static bool make_code(code *c, const uint8_t *lengths, int n)
{
    uint16_t next[MAX_BITS + 1];
    int left = 1;
    memset(c->count, 0, sizeof c->count);
    for (int i = 0; i < n; i++)
        c->count[lengths[i]]++;
    c->count[0] = 0;
    for (int length = 1; length <= MAX_BITS; length++) {
        left = 2 * left - c->count[length];
        if (left < 0)
            return false;
    }
    next[1] = 0;
    for (int length = 1; length < MAX_BITS; length++)
        next[length + 1] = (uint16_t)(next[length] + c->count[length]);
    for (int i = 0; i < n; i++)
        if (lengths[i])
            c->symbol[next[lengths[i]]++] = (uint16_t)i;
    return true;
}

/* -1: no such code. */
static int decode(input *in, const code *c)
{
    int value = 0, first = 0, before = 0; /* of the codes of this length: the first one, and how many are shorter */
    for (int length = 1; length <= MAX_BITS && !in->over; length++) {
        value |= (int)take(in, 1);
        if (value - first < c->count[length])
            return c->symbol[before + value - first];
        before += c->count[length];
        first = 2 * (first + c->count[length]);
        value *= 2;
    }
    return -1;
}

/* --------------------------------------------------------------------------------------------------- the blocks */

static bool put(output *out, uint8_t byte)
{
    if (out->at == out->end)
        return false;
    *out->at++ = byte;
    return true;
}

static bool copy_back(output *out, size_t distance, size_t length)
{
    if (distance > (size_t)(out->at - out->first) || length > (size_t)(out->end - out->at))
        return false;
    for (; length > 0; length--, out->at++)
        *out->at = *(out->at - distance);
    return true;
}

static bool stored(input *in, output *out)
{
    take(in, in->count % 8); /* to the next byte */
    uint32_t length = take(in, 16);
    const uint32_t inverse = take(in, 16);
    if (in->over || (length ^ inverse) != 0xffff)
        return false;
    for (; length > 0; length--) {
        const uint8_t byte = (uint8_t)take(in, 8);
        if (in->over || !put(out, byte))
            return false;
    }
    return true;
}

static bool coded(input *in, output *out, const code *literals, const code *distances)
{
    for (;;) {
        const int symbol = decode(in, literals);
        if (symbol < 0 || symbol > END + 29)
            return false;
        if (symbol == END)
            return true;
        if (symbol < END) {
            if (!put(out, (uint8_t)symbol))
                return false;
            continue;
        }
        const int of = symbol - END - 1;
        const size_t length = length_first[of] + take(in, length_extra[of]);
        const int far = decode(in, distances);
        if (far < 0 || far > 29)
            return false;
        const size_t distance = distance_first[far] + take(in, distance_extra[far]);
        if (in->over || !copy_back(out, distance, length))
            return false;
    }
}

static bool fixed(input *in, output *out)
{
    uint8_t lengths[LITERALS];
    code literals, distances;
    for (int i = 0; i < LITERALS; i++)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_code(&literals, lengths, LITERALS);
    memset(lengths, 5, DISTANCES);
    make_code(&distances, lengths, DISTANCES);
    return coded(in, out, &literals, &distances);
}

/* Lengths of codes are coded themselves. */
static bool read_lengths(input *in, const code *of, uint8_t *lengths, int n)
{
    for (int i = 0; i < n;) {
        const int symbol = decode(in, of);
        if (symbol < 0 || (symbol == 16 && i == 0))
            return false;
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        const uint8_t value = symbol == 16 ? lengths[i - 1] : 0;
        int times = symbol == 16 ? 3 + (int)take(in, 2) : symbol == 17 ? 3 + (int)take(in, 3) : 11 + (int)take(in, 7);
        if (in->over || times > n - i)
            return false;
        for (; times > 0; times--)
            lengths[i++] = value;
    }
    return true;
}

static bool dynamic(input *in, output *out)
{
    static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + DISTANCES] = {0};
    code literals, distances;
    const int n_literals = 257 + (int)take(in, 5), n_distances = 1 + (int)take(in, 5), n = 4 + (int)take(in, 4);
    for (int i = 0; i < n; i++)
        lengths[order[i]] = (uint8_t)take(in, 3);
    if (in->over || n_literals > LITERALS - 2 || !make_code(&literals, lengths, LENGTHS))
        return false;
    const code of_lengths = literals;
    memset(lengths, 0, sizeof lengths);
    return read_lengths(in, &of_lengths, lengths, n_literals + n_distances) &&
           make_code(&literals, lengths, n_literals) && make_code(&distances, lengths + n_literals, n_distances) &&
           coded(in, out, &literals, &distances);
}

static uint32_t adler(const uint8_t *bytes, size_t n)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

bool inflate_all(const uint8_t *from, size_t from_bytes, uint8_t *to, size_t bytes)
{
    if (from_bytes < 6 || (from[0] & 15) != 8 || from[0] >> 4 > 7 || (from[0] * 256 + from[1]) % 31 || from[1] & 32)
        return false;
    input in = {from + 2, from + from_bytes - 4, 0, 0, false};
    output out = {to, to, to + bytes};
    for (bool last = false; !last;) {
        last = take(&in, 1);
        const uint32_t kind = take(&in, 2);
        const bool good = kind == 0   ? stored(&in, &out)
                          : kind == 1 ? fixed(&in, &out)
                          : kind == 2 ? dynamic(&in, &out)
                                      : false;
        if (!good || in.over)
            return false;
    }
    const uint8_t *sum = from + from_bytes - 4;
    const uint32_t told = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
    return out.at == out.end && in.at == in.end && told == adler(to, bytes);
}
