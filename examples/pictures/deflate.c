/* deflate.c: LZ77 and dynamic Huffman codes.
 *
 * Owns: match search, code construction, the bit stream.
 * Relies on: deflate.h only.
 * Must never: be clever at the cost of length: it serves pictures of a few megabytes.
 */
#include "deflate.h"
#include "deflate_codes.h"

#include <string.h>

enum {
    MATCH_MIN = 4,
    MATCH_MAX = 258,
    CHAIN = 12,
    LITERALS = 286,
    DISTANCES = 30,
    LENGTH_CODES = 19,
    END_OF_BLOCK = 256
};

typedef struct code {
    uint8_t length[LITERALS];
    uint16_t bits[LITERALS]; /* already reversed: the stream takes the low bit first */
} code;

/* --- bits --------------------------------------------------------------------------------- */

static void byte_out(deflate_state *s, uint8_t byte)
{
    s->out[s->out_count++] = byte;
    if (s->out_count == DEFLATE_OUT) {
        s->sink(s->user, s->out, s->out_count);
        s->out_count = 0;
    }
}

static void bits_out(deflate_state *s, uint32_t value, int count)
{
    s->bits |= (uint64_t)value << s->bit_count;
    for (s->bit_count += count; s->bit_count >= 8; s->bit_count -= 8) {
        byte_out(s, (uint8_t)s->bits);
        s->bits >>= 8;
    }
}

/* --- Huffman codes ------------------------------------------------------------------------ */

typedef struct tree {
    uint32_t weight[2 * LITERALS];
    int parent[2 * LITERALS];
    int nodes;
} tree;

/* The lightest node without a parent; -1 when none is left. */
static int take_lightest(const tree *t)
{
    int best = -1;
    for (int i = 0; i < t->nodes; i++)
        if (t->weight[i] && t->parent[i] < 0 && (best < 0 || t->weight[i] < t->weight[best]))
            best = i;
    return best;
}

static void join_all(tree *t)
{
    for (;;) {
        int a = take_lightest(t);
        if (a < 0)
            return;
        t->parent[a] = t->nodes; /* out of the way of the second search */
        int b = take_lightest(t);
        if (b < 0) {
            t->parent[a] = -1;
            return;
        }
        t->parent[b] = t->nodes;
        t->weight[t->nodes] = t->weight[a] + t->weight[b];
        t->parent[t->nodes++] = -1;
    }
}

static int depths(const tree *t, int n, uint8_t *length)
{
    int longest = 0;
    for (int i = 0; i < n; i++) {
        int depth = 0;
        for (int j = t->parent[i]; t->weight[i] && j >= 0; j = t->parent[j])
            depth++;
        length[i] = (uint8_t)depth;
        longest = depth > longest ? depth : longest;
    }
    return longest;
}

/* Where a code comes out longer than allowed, the weights are flattened and it is built again. */
static void build_lengths(uint32_t *weight, int n, int limit, uint8_t *length)
{
    tree t;
    do {
        t.nodes = n;
        for (int i = 0; i < n; i++) {
            t.weight[i] = weight[i];
            t.parent[i] = -1;
            weight[i] = (weight[i] + 1) / 2;
        }
        join_all(&t);
    } while (depths(&t, n, length) > limit);
}

static void build_code(uint32_t *weight, int n, int limit, code *c)
{
    uint32_t next = 0;
    int used = 0;
    for (int i = 0; i < n; i++)
        used += weight[i] != 0;
    /* Two symbols at least, so that each has one bit and the code is complete. */
    for (int i = 0; used < 2; i++) {
        used += weight[i] == 0;
        weight[i] += weight[i] == 0;
    }
    build_lengths(weight, n, limit, c->length);
    for (int bits = 1; bits <= limit; bits++, next <<= 1) {
        for (int i = 0; i < n; i++) {
            if (c->length[i] != bits)
                continue;
            uint32_t reversed = 0;
            for (int b = 0; b < bits; b++)
                reversed |= (next >> b & 1) << (bits - 1 - b);
            c->bits[i] = (uint16_t)reversed;
            next++;
        }
    }
}

static void symbol_out(deflate_state *s, const code *c, int symbol) { bits_out(s, c->bits[symbol], c->length[symbol]); }

/* --- one block ---------------------------------------------------------------------------- */

/* The last entry of an ascending table that is not above value. */
static int code_of(const uint16_t *first, int n, uint32_t value)
{
    int i = n - 1;
    while (first[i] > value)
        i--;
    return i;
}

static void write_lengths(deflate_state *s, const code *literals, const code *distances)
{
    static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint32_t weight[LENGTH_CODES] = {0};
    code c;
    for (int i = 0; i < LITERALS; i++)
        weight[literals->length[i]]++;
    for (int i = 0; i < DISTANCES; i++)
        weight[distances->length[i]]++;
    build_code(weight, LENGTH_CODES, 7, &c);
    bits_out(s, LITERALS - 257, 5);
    bits_out(s, DISTANCES - 1, 5);
    bits_out(s, LENGTH_CODES - 4, 4);
    for (int i = 0; i < LENGTH_CODES; i++)
        bits_out(s, c.length[order[i]], 3);
    for (int i = 0; i < LITERALS; i++)
        symbol_out(s, &c, literals->length[i]);
    for (int i = 0; i < DISTANCES; i++)
        symbol_out(s, &c, distances->length[i]);
}

static void write_symbols(deflate_state *s, const code *literals, const code *distances)
{
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t length = s->symbols[i] >> 16, low = s->symbols[i] & 0xffff;
        if (length == 0) {
            symbol_out(s, literals, (int)low);
            continue;
        }
        int lc = code_of(length_first, 29, length), dc = code_of(distance_first, 30, low);
        symbol_out(s, literals, 257 + lc);
        bits_out(s, length - length_first[lc], length_extra[lc]);
        symbol_out(s, distances, dc);
        bits_out(s, low - distance_first[dc], distance_extra[dc]);
    }
    symbol_out(s, literals, END_OF_BLOCK);
}

static void write_block(deflate_state *s, int last)
{
    uint32_t literal_weight[LITERALS] = {0}, distance_weight[DISTANCES] = {0};
    code literals, distances;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t length = s->symbols[i] >> 16, low = s->symbols[i] & 0xffff;
        literal_weight[length ? 257u + (uint32_t)code_of(length_first, 29, length) : low]++;
        if (length)
            distance_weight[code_of(distance_first, 30, low)]++;
    }
    literal_weight[END_OF_BLOCK] = 1;
    build_code(literal_weight, LITERALS, 15, &literals);
    build_code(distance_weight, DISTANCES, 15, &distances);
    bits_out(s, (uint32_t)last | 2u << 1, 3);
    write_lengths(s, &literals, &distances);
    write_symbols(s, &literals, &distances);
}

/* --- matches ------------------------------------------------------------------------------ */

static uint32_t hash(const uint8_t *p)
{
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return (v * 2654435761u) >> 17;
}

static void remember(deflate_state *s, uint32_t at)
{
    uint32_t h = hash(s->window + at), position = s->base + at;
    s->previous[position % DEFLATE_BLOCK] = s->head[h];
    s->head[h] = position + 1;
}

static uint32_t match_length(const uint8_t *a, const uint8_t *b, uint32_t limit)
{
    uint32_t n = 0;
    while (n < limit && a[n] == b[n])
        n++;
    return n;
}

/* Longest earlier occurrence within the window, among the CHAIN latest. */
static uint32_t find(const deflate_state *s, uint32_t at, uint32_t limit, uint32_t *distance)
{
    uint32_t best = 0, position = s->base + at, candidate = s->head[hash(s->window + at)];
    for (int i = 0; i < CHAIN && candidate > s->base; i++) {
        uint32_t earlier = candidate - 1;
        if (earlier >= position || position - earlier >= DEFLATE_BLOCK)
            break;
        uint32_t n = match_length(s->window + at, s->window + (earlier - s->base), limit);
        if (n > best) {
            best = n;
            *distance = position - earlier;
        }
        candidate = s->previous[earlier % DEFLATE_BLOCK];
    }
    return best >= MATCH_MIN ? best : 0;
}

static void compress_block(deflate_state *s, int last)
{
    uint32_t at = DEFLATE_BLOCK, end = DEFLATE_BLOCK + s->filled;
    s->count = 0;
    while (at < end) {
        uint32_t left = end - at, distance = 0, n = 0;
        if (left >= MATCH_MIN)
            n = find(s, at, left < MATCH_MAX ? left : MATCH_MAX, &distance);
        s->symbols[s->count++] = n ? n << 16 | distance : s->window[at];
        for (n = n ? n : 1; n > 0; n--, at++)
            if (end - at >= MATCH_MIN)
                remember(s, at);
    }
    write_block(s, last);
    memmove(s->window, s->window + DEFLATE_BLOCK, DEFLATE_BLOCK);
    s->base += s->filled;
    s->filled = 0;
}

/* --- the stream --------------------------------------------------------------------------- */

void deflate_begin(deflate_state *state, deflate_sink *sink, void *user)
{
    memset(state, 0, sizeof *state);
    state->sink = sink;
    state->user = user;
    state->adler_a = 1;
    byte_out(state, 0x78);
    byte_out(state, 0x9c);
}

static void checksum(deflate_state *s, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        s->adler_a += bytes[i];
        s->adler_a -= s->adler_a >= 65521 ? 65521 : 0;
        s->adler_b += s->adler_a;
        s->adler_b -= s->adler_b >= 65521 ? 65521 : 0;
    }
}

void deflate_put(deflate_state *state, const uint8_t *bytes, size_t size)
{
    checksum(state, bytes, size);
    while (size > 0) {
        size_t room = DEFLATE_BLOCK - state->filled, n = size < room ? size : room;
        memcpy(state->window + DEFLATE_BLOCK + state->filled, bytes, n);
        state->filled += (uint32_t)n;
        bytes += n;
        size -= n;
        if (state->filled == DEFLATE_BLOCK)
            compress_block(state, 0);
    }
}

void deflate_end(deflate_state *state)
{
    compress_block(state, 1);
    if (state->bit_count)
        bits_out(state, 0, 8 - state->bit_count);
    for (int shift = 8; shift >= 0; shift -= 8)
        byte_out(state, (uint8_t)(state->adler_b >> shift));
    for (int shift = 8; shift >= 0; shift -= 8)
        byte_out(state, (uint8_t)(state->adler_a >> shift));
    state->sink(state->user, state->out, state->out_count);
}
