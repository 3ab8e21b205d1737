/* tags: asan */
/* test_png_read.c - PNG files: what png.c writes is read as it was; a file that is cut, or of which a bit is another,
 * is refused in words; and no byte beyond either buffer is touched (sanitizers look). */
#define _POSIX_C_SOURCE 200809L
#include "../examples/pictures/png.h"
#include "../examples/pictures/inflate.h"
#include "../examples/pictures/png_read.h"
#include "check.h"

#include <stdlib.h>

static char message[160];
static uint8_t pixels[64 * 48 * 3], bytes[1 << 16];

static size_t write_picture(int width, int height, int channels)
{
    FILE *file = tmpfile();
    void *scratch = malloc(png_scratch(width, channels));
    size_t n = 0;
    if (file && scratch &&
        png_write(file, pixels, (size_t)(width * channels), width, height, channels, scratch)) {
        rewind(file);
        n = fread(bytes, 1, sizeof bytes, file);
    }
    free(scratch);
    if (file)
        fclose(file);
    return n;
}

static bool read_picture(size_t n, pnm_picture *picture)
{
    FILE *file = tmpfile();
    bool good = false;
    message[0] = 0;
    if (file && fwrite(bytes, 1, n, file) == n) {
        rewind(file);
        good = png_read(file, n, picture, message, sizeof message);
    }
    if (file)
        fclose(file);
    return good;
}

static void test_round_trip(void)
{
    static const int sizes[][3] = {{1, 1, 1}, {1, 1, 3}, {7, 5, 1}, {64, 48, 3}, {63, 1, 3}, {1, 47, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int w = sizes[i][0], h = sizes[i][1], c = sizes[i][2];
        pnm_picture p;
        for (int k = 0; k < w * h * c; k++) /* smooth, then noise */
            pixels[k] = (uint8_t)(k < w * h * c / 2 ? k / 5 : (int)(check_float() * 127));
        const size_t n = write_picture(w, h, c);
        const bool good = n > 0 && read_picture(n, &p);
        check(good && p.width == w && p.height == h && p.channels == c &&
                  memcmp(p.pixels, pixels, (size_t)(w * h * c)) == 0,
              "%d x %d of %d: %s", w, h, c, message);
        if (good)
            free(p.pixels);
    }
}

static void test_damage(void)
{
    pnm_picture p;
    const size_t n = write_picture(7, 5, 3);
    int read = 0, wrong = 0;
    for (size_t cut = 0; cut < n; cut++)
        if (read_picture(cut, &p)) {
            wrong++;
            free(p.pixels);
        }
    check(wrong == 0, "%d of %d cuts were read", wrong, (int)n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (read_picture(n, &p)) {
            read++;
            free(p.pixels);
        } else {
            wrong += !message[0];
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    check(wrong == 0 && read == 0, "%d files with a bit turned are read, %d refused without a word", read, wrong);
}

/* The stream alone, where no checksum of a chunk stands before it. */
static void test_streams(void)
{
    static const uint8_t stored[] = {0x78, 1, 1, 3, 0, 0xfc, 0xff, 'a', 'b', 'c', 2, 0x4d, 1, 0x27};
    static const uint8_t repeated[] = {0x78, 0x9c, 0x4b, 4, 2, 0}; /* the beginning of one of fixed codes */
    uint8_t to[64], from[64];
    check(inflate_all(stored, sizeof stored, to, 3) && memcmp(to, "abc", 3) == 0, "bytes that are stored");
    check(!inflate_all(stored, sizeof stored, to, 2) && !inflate_all(stored, sizeof stored, to, 4),
          "no more and no fewer");
    check(!inflate_all(repeated, sizeof repeated, to, 8), "a stream that is cut");
    memcpy(from, stored, sizeof stored);
    from[sizeof stored - 1] ^= 1;
    check(!inflate_all(from, sizeof stored, to, 3), "a wrong sum of the bytes");
    int ended = 0;
    for (int turn = 0; turn < 20000; turn++) { /* anything at all ends */
        const size_t n = 6 + (size_t)turn % 58;
        from[0] = 0x78;
        from[1] = 1;
        for (size_t i = 2; i < n; i++)
            from[i] = (uint8_t)(check_float() * 127 + 128);
        ended += !inflate_all(from, n, to, (size_t)turn % 65);
    }
    check(ended > 19900, "%d of 20000 streams of noise are refused", ended);
}

int main(void)
{
    check_seed(6);
    test_round_trip();
    test_damage();
    test_streams();
    return check_end();
}
