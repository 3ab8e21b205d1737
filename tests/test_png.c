/* tags: asan */
/* test_png.c: what examples/pictures/png.h promises: any picture comes back, and a full device is told.
 *
 * Owns: an inflate of its own. Relies on: video_check.h.
 * Must never: reuse a table or a helper of the code under test.
 */
#define _POSIX_C_SOURCE 200809L
#include "../examples/pictures/png.h"
#include "video_check.h"

typedef struct bit_source {
    const uint8_t *at, *end;
    int bit;
    bool bad;
} bit_source;

static int bits_in(bit_source *s, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (s->at >= s->end) {
            s->bad = true;
            return 0;
        }
        value |= (*s->at >> s->bit & 1) << i;
        s->bit = (s->bit + 1) & 7;
        s->at += s->bit == 0;
    }
    return value;
}

/* Canonical code: count[] per length and the symbols in order. Decoded bit by bit. */
typedef struct canonical {
    int count[16], symbol[320];
} canonical;

static bool make_canonical(canonical *c, const int *length, int n)
{
    int left = 1;
    memset(c, 0, sizeof *c);
    for (int bits = 1, next = 0; bits < 16; bits++) {
        for (int i = 0; i < n; i++)
            if (length[i] == bits)
                c->symbol[next++] = i, c->count[bits]++;
        left = 2 * left - c->count[bits];
        if (left < 0)
            return false;
    }
    return left == 0; /* over- or under-full codes are refused by strict readers */
}

static int decode(bit_source *s, const canonical *c)
{
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits < 16; bits++) {
        code |= bits_in(s, 1);
        if (code - first < c->count[bits])
            return c->symbol[index + code - first];
        index += c->count[bits];
        first = (first + c->count[bits]) << 1;
        code <<= 1;
    }
    s->bad = true;
    return 0;
}

static bool read_codes(bit_source *s, canonical *literals, canonical *distances)
{
    static const int order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    int length[320] = {0}, nl = bits_in(s, 5) + 257, nd = bits_in(s, 5) + 1, nc = bits_in(s, 4) + 4;
    canonical c;
    for (int i = 0; i < nc; i++)
        length[order[i]] = bits_in(s, 3);
    if (!make_canonical(&c, length, 19))
        return false;
    memset(length, 0, sizeof length);
    for (int i = 0; i < nl + nd && !s->bad;) {
        int symbol = decode(s, &c), repeat = 1, value = symbol;
        if (symbol == 16)
            value = i ? length[i - 1] : 0, repeat = 3 + bits_in(s, 2);
        else if (symbol > 16)
            value = 0, repeat = symbol == 17 ? 3 + bits_in(s, 3) : 11 + bits_in(s, 7);
        for (; repeat > 0 && i < nl + nd; repeat--)
            length[i++] = value;
    }
    return make_canonical(literals, length, nl) && make_canonical(distances, length + nl, nd);
}

/* Base and extra bits of length and distance codes, worked out instead of tabled. */
static int base_value(bit_source *s, int code, int group, int first)
{
    int extra = code < 2 * group ? 0 : code / group - 1, base = first;
    for (int i = 0; i < code; i++)
        base += 1 << (i < 2 * group ? 0 : i / group - 1);
    return base + bits_in(s, extra);
}

static size_t inflate_block(bit_source *s, uint8_t *out, size_t used, size_t room)
{
    canonical literals, distances;
    if (!read_codes(s, &literals, &distances)) {
        s->bad = true;
        return used;
    }
    while (!s->bad) {
        int symbol = decode(s, &literals);
        if (symbol == 256)
            return used;
        if (symbol < 256 && used < room) {
            out[used++] = (uint8_t)symbol;
            continue;
        }
        int length = symbol == 285 ? 258 : base_value(s, symbol - 257, 4, 3);
        int distance = base_value(s, decode(s, &distances), 2, 1);
        s->bad = s->bad || (size_t)distance > used || used + (size_t)length > room;
        for (; !s->bad && length > 0; length--, used++)
            out[used] = out[used - (size_t)distance];
    }
    return used;
}

/* zlib stream to bytes; 0 where anything is wrong with it. */
static size_t inflate(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
    bit_source s = {data + 2, data + size, 0, size < 6 || (data[0] * 256 + data[1]) % 31 != 0};
    size_t used = 0;
    for (int last = 0; !last && !s.bad;) {
        last = bits_in(&s, 1);
        s.bad = s.bad || bits_in(&s, 2) != 2;
        if (!s.bad)
            used = inflate_block(&s, out, used, room);
    }
    const uint8_t *check_bytes = s.at + (s.bit != 0);
    uint32_t a = 1, b = 0, stored = 0;
    for (size_t i = 0; i < used; i++)
        a = (a + out[i]) % 65521, b = (b + a) % 65521;
    for (int i = 0; i < 4 && check_bytes + i < s.end; i++)
        stored = stored << 8 | check_bytes[i];
    return s.bad || stored != (b << 16 | a) || check_bytes + 4 != s.end ? 0 : used;
}

static uint32_t crc_of(const uint8_t *bytes, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Checks every chunk and joins the image data in place. Returns its size. */
static size_t join_chunks(uint8_t *file, size_t size, int *width, int *height, int *channels)
{
    size_t at = 8, used = 0;
    while (at + 12 <= size) {
        uint32_t n = word_at(file + at);
        const uint8_t *body = file + at + 8;
        if (at + 12 + n > size || crc_of(file + at + 4, n + 4) != word_at(body + n))
            return 0;
        if (memcmp(file + at + 4, "IHDR", 4) == 0) {
            *width = (int)word_at(body), *height = (int)word_at(body + 4);
            *channels = body[9] == 2 ? 3 : 1;
        } else if (memcmp(file + at + 4, "IDAT", 4) == 0) {
            memmove(file + used, body, n);
            used += n;
        } else if (memcmp(file + at + 4, "IEND", 4) == 0) {
            return at + 12 == size ? used : 0;
        }
        at += 12 + n;
    }
    return 0;
}

static int paeth_of(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* rows: filter byte and residuals; turned into pixels in place, still with the filter bytes. */
static void unfilter(uint8_t *rows, int bytes, int height, int channels)
{
    for (int y = 0; y < height; y++) {
        uint8_t *row = rows + (size_t)y * (size_t)(bytes + 1) + 1;
        const uint8_t *above = y ? row - bytes - 1 : row;
        int filter = row[-1] % 5;
        for (int i = 0; i < bytes; i++) {
            int a = i >= channels ? row[i - channels] : 0, b = y ? above[i] : 0;
            int c = y && i >= channels ? above[i - channels] : 0;
            const int add[5] = {0, a, b, (a + b) / 2, paeth_of(a, b, c)};
            row[i] = (uint8_t)(row[i] + add[filter]);
        }
    }
}

static void png_case(const uint8_t *pixels, int width, int height, int channels, const char *what)
{
    const size_t bytes = (size_t)(width * channels), raw = (bytes + 1) * (size_t)height;
    FILE *file = tmpfile();
    void *memory = malloc(png_scratch(width, channels));
    uint8_t *copy = malloc(2 * raw + 4096), *rows = malloc(raw);
    int w = 0, h = 0, c = 0;
    if (check(file && memory && copy && rows, "out of memory")) {
        check(png_write(file, pixels, bytes, width, height, channels, memory), "%s: not written", what);
        rewind(file);
        size_t size = fread(copy, 1, 2 * raw + 4096, file), data = join_chunks(copy, size, &w, &h, &c);
        check(data > 0 && w == width && h == height && c == channels, "%s: chunks", what);
        check(inflate(copy, data, rows, raw) == raw, "%s: compressed data", what);
        unfilter(rows, (int)bytes, height, channels);
        for (int y = 0; y < height; y++)
            check(memcmp(rows + (size_t)y * (bytes + 1) + 1, pixels + (size_t)y * bytes, bytes) == 0,
                  "%s: row %d differs", what, y);
    }
    free(memory), free(copy), free(rows);
    if (file)
        fclose(file);
}

static void test_png(void)
{
    begin("PNG files decode to the same pixels, with right checksums and complete codes");
    static uint8_t pixels[300 * 200 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)random_bits();
    png_case(pixels, 300, 200, 3, "noise");
    png_case(pixels, 1, 1, 1, "one pixel");
    png_case(pixels, 1, 7, 3, "a column");
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i % 900 / 5 + i / 900);
    png_case(pixels, 300, 200, 3, "gradient");
    png_case(pixels, 173, 111, 1, "grey");
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i >> 9);
    png_case(pixels, 300, 200, 3, "pattern");
    memset(pixels, 77, sizeof pixels);
    png_case(pixels, 300, 200, 3, "flat");
    finish();
}

static void test_png_of_full_device(void)
{
    begin("a PNG that cannot be written is reported");
    static uint8_t pixels[64 * 64];
    FILE *file = fopen("/dev/full", "wb");
    void *memory = malloc(png_scratch(64, 1));
    if (!file)
        printf("skipped: no /dev/full here\n");
    else if (check(memory != NULL, "out of memory"))
        check(!png_write(file, pixels, 64, 64, 64, 1, memory), "success reported");
    if (file)
        fclose(file);
    free(memory);
    finish();
}

int main(void)
{
    test_png();
    test_png_of_full_device();
    return summary();
}
