/* png.c: PNG chunks and row filters.
 *
 * Owns: everything about the file that is not compression.
 * Relies on: png.h, deflate.h.
 * Must never: write a chunk whose length it does not know: each flush of the compressor is one IDAT.
 */
#include "png.h"

#include <stdlib.h>
#include <string.h>

#include "deflate.h"

enum { FILTERS = 5 };

typedef struct png_writer {
    deflate_state deflate; /* first: the widest alignment of the scratch */
    uint32_t crc_table[256];
    FILE *file;
    bool failed;
} png_writer;

/* --- chunks ------------------------------------------------------------------------------- */

static void fill_crc_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
}

static uint32_t crc(const png_writer *w, uint32_t c, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        c = w->crc_table[(c ^ bytes[i]) & 0xff] ^ c >> 8;
    return c;
}

static void put(png_writer *w, const void *bytes, size_t size)
{
    w->failed = w->failed || fwrite(bytes, 1, size, w->file) != size;
}

static void big_endian(uint8_t out[4], uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void chunk(png_writer *w, const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t length[4], check[4], type[4];
    memcpy(type, name, 4);
    big_endian(length, (uint32_t)size);
    big_endian(check, ~crc(w, crc(w, ~0u, type, 4), bytes, size));
    put(w, length, 4);
    put(w, type, 4);
    put(w, bytes, size);
    put(w, check, 4);
}

static void data_chunk(void *user, const uint8_t *bytes, size_t size) { chunk(user, "IDAT", bytes, size); }

/* --- rows --------------------------------------------------------------------------------- */

static int paeth(int left, int up, int corner)
{
    int p = left + up - corner;
    int a = abs(p - left), b = abs(p - up), c = abs(p - corner);
    return a <= b && a <= c ? left : b <= c ? up : corner;
}

static int predicted(int filter, int left, int up, int corner)
{
    switch (filter) {
    case 1:
        return left;
    case 2:
        return up;
    case 3:
        return (left + up) / 2;
    case 4:
        return paeth(left, up, corner);
    default:
        return 0;
    }
}

/* Filtered row into out[0 .. bytes], the filter's number first. Returns the usual guess at its cost,
 * the sum of the residuals' magnitudes. */
static uint64_t filter_row(uint8_t *out, int filter, const uint8_t *row, const uint8_t *above, size_t bytes,
                           size_t pixel)
{
    uint64_t cost = 0;
    out[0] = (uint8_t)filter;
    for (size_t i = 0; i < bytes; i++) {
        int left = i >= pixel ? row[i - pixel] : 0, up = above ? above[i] : 0;
        int corner = above && i >= pixel ? above[i - pixel] : 0;
        uint8_t residual = (uint8_t)(row[i] - predicted(filter, left, up, corner));
        out[i + 1] = residual;
        cost += residual < 128 ? residual : 256u - residual;
    }
    return cost;
}

size_t png_scratch(int width, int channels) { return sizeof(png_writer) + 2 * ((size_t)width * (size_t)channels + 1); }

static void write_rows(png_writer *w, const uint8_t *pixels, size_t stride, size_t bytes, int height, int channels)
{
    uint8_t *trial = (uint8_t *)(w + 1), *best = trial + bytes + 1;
    const uint8_t *above = NULL;
    for (int y = 0; y < height; y++, above = pixels, pixels += stride) {
        uint64_t least = UINT64_MAX;
        for (int filter = 0; filter < FILTERS; filter++) {
            uint64_t cost = filter_row(trial, filter, pixels, above, bytes, (size_t)channels);
            if (cost >= least)
                continue;
            uint8_t *swap = best;
            best = trial;
            trial = swap;
            least = cost;
        }
        deflate_put(&w->deflate, best, bytes + 1);
    }
}

bool png_write(FILE *file, const uint8_t *pixels, size_t stride_bytes, int width, int height, int channels,
               void *scratch)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uint8_t header[13] = {0};
    png_writer *w = scratch;
    w->file = file;
    w->failed = false;
    fill_crc_table(w->crc_table);
    big_endian(header, (uint32_t)width);
    big_endian(header + 4, (uint32_t)height);
    header[8] = 8;
    header[9] = channels == 3 ? 2 : 0;
    put(w, signature, sizeof signature);
    chunk(w, "IHDR", header, sizeof header);
    deflate_begin(&w->deflate, data_chunk, w);
    write_rows(w, pixels, stride_bytes, (size_t)width * (size_t)channels, height, channels);
    deflate_end(&w->deflate);
    chunk(w, "IEND", header, 0);
    return !w->failed && fflush(file) == 0;
}
