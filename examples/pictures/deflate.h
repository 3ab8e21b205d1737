/* deflate.h: a small zlib-format compressor, fed piece by piece.
 *
 * Owns: LZ77 over the last 32 KiB and one dynamic Huffman code per 32 KiB block (RFC 1950, 1951).
 * Relies on: a sink that takes the bytes; the state below, which is the caller's memory.
 * Must never: allocate, or write a byte that depends on anything but the input.
 */
#ifndef DEFLATE_H
#define DEFLATE_H

#include <stddef.h>
#include <stdint.h>

enum { DEFLATE_BLOCK = 32768, DEFLATE_HASH = 32768, DEFLATE_OUT = 8192 };

typedef void deflate_sink(void *user, const uint8_t *bytes, size_t size);

typedef struct deflate_state {
    deflate_sink *sink;
    void *user;
    uint8_t window[2 * DEFLATE_BLOCK];   /* the block before, then the one being filled */
    uint32_t filled, base;               /* bytes in this block; absolute position of window[0] */
    uint32_t head[DEFLATE_HASH];         /* hash -> absolute position + 1 of its last occurrence */
    uint32_t previous[DEFLATE_BLOCK];    /* position -> the occurrence before it */
    uint32_t symbols[DEFLATE_BLOCK + 1]; /* length << 16 | distance, or a literal (length 0) */
    uint32_t count;
    uint32_t adler_a, adler_b;
    uint64_t bits;
    int bit_count;
    size_t out_count;
    uint8_t out[DEFLATE_OUT];
} deflate_state;

void deflate_begin(deflate_state *state, deflate_sink *sink, void *user);
void deflate_put(deflate_state *state, const uint8_t *bytes, size_t size);
void deflate_end(deflate_state *state); /* flushes everything to the sink */

#endif
