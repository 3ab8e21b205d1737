/* png_read.c: see png_read.h. */
#include "png_read.h"

#include "inflate.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28, GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

typedef struct png {
    const uint8_t *at, *end; /* chunks that are left */
    int width, height, kind, samples; /* of a pixel as it is stored */
    const uint8_t *palette;
    int colours;
    uint8_t *packed; /* all IDAT together */
    size_t packed_bytes;
    char *message;
    size_t room;
} png;

static bool fail(png *p, const char *what)
{
    snprintf(p->message, p->room, "%s", what);
    return false;
}

static uint32_t big(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t crc32_of(const uint8_t *bytes, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* ---------------------------------------------------------------------------------------------------- chunks */

static bool read_head(png *p, const uint8_t *data, uint32_t length)
{
    if (length != 13)
        return fail(p, "it is no PNG: its first chunk is no IHDR");
    const uint32_t width = big(data), height = big(data + 4);
    if (width < 1 || height < 1 || width > PNM_MOST || height > PNM_MOST)
        return fail(p, "its extents are not 1 .. 32768");
    if (data[8] != 8 || data[10] != 0 || data[11] != 0 || data[12] != 0)
        return fail(p, "it has other than 8 bits a sample, or is interlaced");
    p->width = (int)width;
    p->height = (int)height;
    p->kind = data[9];
    p->samples = p->kind == RGB ? 3 : p->kind == RGB_ALPHA ? 4 : p->kind == GREY_ALPHA ? 2 : 1;
    return p->kind == GREY || p->kind == RGB || p->kind == PALETTE || p->kind == GREY_ALPHA || p->kind == RGB_ALPHA ||
           fail(p, "its colours are of a kind that PNG does not have");
}

/* One chunk; *end: it was the last one. */
static bool read_chunk(png *p, bool *end)
{
    if (p->end - p->at < 12)
        return fail(p, "it ends within its chunks");
    const uint32_t length = big(p->at);
    const uint8_t *kind = p->at + 4, *data = p->at + 8;
    if (length > (size_t)(p->end - p->at) - 12)
        return fail(p, "it ends within a chunk");
    if (crc32_of(kind, length + 4) != big(data + length))
        return fail(p, "a chunk has another checksum than it says");
    if (p->width == 0)
        return memcmp(kind, "IHDR", 4) == 0 ? (p->at = data + length + 4, read_head(p, data, length))
                                            : fail(p, "it is no PNG: its first chunk is no IHDR");
    if (memcmp(kind, "PLTE", 4) == 0 && length % 3 == 0 && length <= 768) {
        p->palette = data;
        p->colours = (int)length / 3;
    } else if (memcmp(kind, "IDAT", 4) == 0) {
        memcpy(p->packed + p->packed_bytes, data, length); /* they lie in the file, so they fit in as many bytes */
        p->packed_bytes += length;
    } else if (memcmp(kind, "IEND", 4) == 0) {
        *end = true;
    } else if (!(kind[0] & 32)) {
        return fail(p, "it has a chunk that must be understood, and is not");
    }
    p->at = data + length + 4;
    return true;
}

/* ------------------------------------------------------------------------------------------------------ rows */

static int paeth(int a, int b, int c)
{
    const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* Adds to each byte what its row's filter foretold. False: there is no such filter. */
static bool unfilter(uint8_t *row, const uint8_t *above, size_t bytes, size_t step, int filter)
{
    for (size_t i = 0; i < bytes; i++) {
        const int a = i >= step ? row[i - step] : 0, b = above ? above[i] : 0;
        const int c = above && i >= step ? above[i - step] : 0;
        const int foretold = filter == 1   ? a
                             : filter == 2 ? b
                             : filter == 3 ? (a + b) / 2
                             : filter == 4 ? paeth(a, b, c)
                                           : 0;
        row[i] = (uint8_t)(row[i] + foretold);
    }
    return filter <= 4;
}

static bool to_pixels(png *p, uint8_t *rows, pnm_picture *picture)
{
    const size_t step = (size_t)p->samples, bytes = (size_t)p->width * step;
    uint8_t *to = picture->pixels;
    for (int y = 0; y < p->height; y++) {
        uint8_t *row = rows + (size_t)y * (bytes + 1);
        if (!unfilter(row + 1, y > 0 ? row - bytes : NULL, bytes, step, row[0]))
            return fail(p, "a row has a filter that PNG does not have");
        for (int x = 0; x < p->width; x++, to += picture->channels) {
            const uint8_t *pixel = row + 1 + (size_t)x * step;
            if (p->kind == PALETTE && *pixel >= p->colours)
                return fail(p, "a pixel is of a colour that its palette has not");
            memcpy(to, p->kind == PALETTE ? p->palette + 3 * *pixel : pixel, (size_t)picture->channels);
        }
    }
    return true;
}

static bool unpack(png *p, pnm_picture *picture)
{
    const uint64_t raw = (uint64_t)p->height * ((uint64_t)p->width * (uint64_t)p->samples + 1);
    if (p->kind == PALETTE && !p->palette)
        return fail(p, "it has no palette");
    if (raw > (uint64_t)INFLATE_MOST * p->packed_bytes || raw > SIZE_MAX / 4)
        return fail(p, "it ends before its last pixel");
    uint8_t *rows = malloc((size_t)raw + 1);
    *picture = (pnm_picture){NULL, p->width, p->height, p->kind == GREY || p->kind == GREY_ALPHA ? 1 : 3};
    picture->pixels = malloc((size_t)p->width * (size_t)p->height * (size_t)picture->channels + 1);
    bool good = rows && picture->pixels ? true : fail(p, "no memory for its pixels");
    good = good && (inflate_all(p->packed, p->packed_bytes, rows, (size_t)raw) || fail(p, "its pixels are damaged")) &&
           to_pixels(p, rows, picture);
    free(rows);
    if (!good) {
        free(picture->pixels);
        picture->pixels = NULL;
    }
    return good;
}

static bool read_all(png *p, const uint8_t *all, size_t bytes, pnm_picture *picture)
{
    bool end = false;
    if (bytes < 8 || memcmp(all, "\x89PNG\r\n\x1a\n", 8) != 0)
        return fail(p, "it is no PNG: it does not begin as one");
    p->at = all + 8;
    p->end = all + bytes;
    while (!end)
        if (!read_chunk(p, &end))
            return false;
    return p->width > 0 ? unpack(p, picture) : fail(p, "it is no PNG: it has no IHDR");
}

bool png_read(FILE *file, uint64_t bytes, pnm_picture *picture, char *message, size_t room)
{
    png p = {.message = message, .room = room};
    memset(picture, 0, sizeof *picture);
    if (bytes > FILE_MOST)
        return fail(&p, "it is larger than 256 MB");
    uint8_t *all = malloc((size_t)bytes + 1);
    p.packed = malloc((size_t)bytes + 1);
    const bool read = all && p.packed && fread(all, 1, (size_t)bytes, file) == bytes;
    const bool good = read ? read_all(&p, all, (size_t)bytes, picture) : fail(&p, "it cannot be read to its end");
    free(p.packed);
    free(all);
    return good;
}
