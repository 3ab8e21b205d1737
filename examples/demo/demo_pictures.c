/* demo_pictures.c: demo_pictures BEFORE.y4m AFTER.y4m REFERENCE.y4m OUT.png: shows what a network added.
 *
 * Owns: the page: both frames side by side, below them crops of both and of the reference.
 * Relies on: files.h; pictures/canvas.h, png.h; video/y4m.h, frame_rgb.h, quality.h.
 * Must never: choose a crop by taste: they are where the squared error of luma fell most, apart from each other.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "pictures/canvas.h"
#include "pictures/png.h"
#include "video/frame_rgb.h"
#include "video/quality.h"
#include "video/y4m.h"

enum { BEFORE, AFTER, REFERENCE, SIDES, CROPS = 3, ZOOM = 6, GAP = 8, BAND = 24 };

static const canvas_colour white = {255, 255, 255}, paper = {24, 24, 28};
static const canvas_colour marks[CROPS] = {{255, 210, 40}, {70, 230, 120}, {90, 170, 255}};

typedef struct options {
    const char *path[SIDES], *output, *label[SIDES];
    long frame; /* from 1; 0 = the last */
} options;

typedef struct side {
    y4m_reader reader;
    int file; /* of files */
    uint8_t *frame;
    canvas picture;
} side;

typedef struct spot {
    int x, y;
} spot;

/* --- reading ------------------------------------------------------------------------------ */

static int fail(const char *what, const y4m_error *error)
{
    char text[256];
    y4m_message(error, text, sizeof text);
    fprintf(stderr, "demo_pictures: %s: %s\n", what, text);
    return 1;
}

/* Leaves the wanted frame (or the last whole one) in s->frame. A frame that ends early is read over it, so
 * the one before is kept beside it. */
static int read_side(side *s, const files *f, const char *path, long wanted)
{
    if (y4m_reader_open(&s->reader, files_fd(f, s->file), NULL))
        return fail(path, &s->reader.error);
    const size_t bytes = y4m_frame_bytes(&s->reader.info);
    uint8_t *next = malloc(bytes);
    s->frame = malloc(bytes);
    if (!next || !s->frame)
        return free(next), fputs("demo_pictures: out of memory\n", stderr), 1;
    while ((!wanted || s->reader.frames < wanted) && y4m_read_frame(&s->reader, next) == Y4M_OK) {
        uint8_t *whole = next;
        next = s->frame;
        s->frame = whole;
    }
    free(next);
    if (s->reader.frames == 0 || s->reader.frames < wanted)
        return fprintf(stderr, "demo_pictures: %s: it has only %lld frames\n", path, (long long)s->reader.frames), 1;
    return 0;
}

static int colour_side(side *s)
{
    const y4m_info *info = &s->reader.info;
    s->picture = (canvas){malloc(canvas_bytes(info->width, info->height)), info->width, info->height};
    if (!s->picture.pixels)
        return fputs("demo_pictures: out of memory\n", stderr), 1;
    frame_to_rgb(s->picture.pixels, info, s->frame, frame_matrix_for(info->height / 2));
    return 0;
}

/* --- choosing ----------------------------------------------------------------------------- */

static picture_plane window(const side *s, spot at, int width, int height)
{
    const y4m_info *info = &s->reader.info;
    const size_t stride = y4m_row_bytes(info, 0);
    return (picture_plane){s->frame + (size_t)at.y * stride + (size_t)at.x * y4m_sample_bytes(info), stride, width,
                           height, y4m_facts(info->layout)->bits};
}

static uint64_t squared_error(const side *s, const side *reference, spot at, int width, int height)
{
    const picture_plane a = window(s, at, width, height), b = window(reference, at, width, height);
    return quality_squared_error(&a, &b, 0);
}

static double psnr(const side *s, const side *reference, spot at, int width, int height)
{
    const picture_plane a = window(s, at, width, height), b = window(reference, at, width, height);
    return quality_psnr(&a, &b, 0);
}

static bool near_one(const spot *chosen, int count, spot at, int width, int height)
{
    for (int i = 0; i < count; i++)
        if (abs(chosen[i].x - at.x) < width + width / 2 && abs(chosen[i].y - at.y) < height + height / 2)
            return true;
    return false;
}

static spot best_spot(const side s[SIDES], const spot *chosen, int count, int width, int height)
{
    const int step = width > 64 ? width / 16 : 4;
    spot best = {0, 0};
    int64_t most = INT64_MIN;
    for (int y = 0; y + height <= s->picture.height; y += step)
        for (int x = 0; x + width <= s->picture.width; x += step) {
            const spot at = {x, y};
            if (near_one(chosen, count, at, width, height))
                continue;
            const int64_t gain = (int64_t)squared_error(&s[BEFORE], &s[REFERENCE], at, width, height) -
                                 (int64_t)squared_error(&s[AFTER], &s[REFERENCE], at, width, height);
            if (gain > most)
                most = gain, best = at;
        }
    return best;
}

/* --- the page ----------------------------------------------------------------------------- */

static void outline(const canvas *out, int x, int y, int width, int height, canvas_colour colour)
{
    canvas_tile(out, x, y, width, height, colour, 0, 2);
}

static void draw_frames(const canvas *page, const side s[SIDES], const options *o, const spot *spots, int width,
                        int height)
{
    char text[80];
    for (int k = BEFORE; k <= AFTER; k++) {
        const canvas *from = &s[k].picture;
        const int left = k == BEFORE ? 0 : from->width + GAP;
        snprintf(text, sizeof text, "%.40s  %.2f dB", o->label[k],
                 psnr(&s[k], &s[REFERENCE], (spot){0, 0}, from->width, from->height));
        canvas_text(page, left + 4, 5, 2, text, white);
        canvas_crop(page, left, BAND, from, 0, 0, from->width, from->height, 1);
        for (int i = 0; i < CROPS; i++)
            outline(page, left + spots[i].x - 2, BAND + spots[i].y - 2, width + 4, height + 4, marks[i]);
    }
}

static void draw_crops(const canvas *page, const side s[SIDES], const options *o, const spot *spots, int width,
                       int height)
{
    char text[80];
    const int wide = width * ZOOM, high = height * ZOOM, margin = (page->width - SIDES * wide - (SIDES - 1) * GAP) / 2;
    for (int i = 0; i < CROPS; i++)
        for (int k = 0; k < SIDES; k++) {
            const int x = margin + k * (wide + GAP), y = BAND + s->picture.height + GAP + i * (high + GAP);
            canvas_crop(page, x, y, &s[k].picture, spots[i].x, spots[i].y, width, height, ZOOM);
            outline(page, x, y, wide, high, marks[i]);
            if (k == REFERENCE)
                snprintf(text, sizeof text, "%.40s", o->label[k]);
            else
                snprintf(text, sizeof text, "%.40s  %.2f dB", o->label[k],
                         psnr(&s[k], &s[REFERENCE], spots[i], width, height));
            canvas_label(page, x + 6, y + 6, 2, text, white);
        }
}

/* The file is written only now that all memory is there. */
static int write_page(const canvas *page, files *f, int output, const char *path)
{
    void *scratch = malloc(png_scratch(page->width, 3));
    FILE *file = scratch ? files_stream(f, output) : NULL;
    if (!file)
        return free(scratch), fputs("demo_pictures: out of memory\n", stderr), 1;
    bool ok =
        files_empty(f) && png_write(file, page->pixels, (size_t)page->width * 3, page->width, page->height, 3, scratch);
    ok = files_close(file) && ok;
    if (!ok)
        fprintf(stderr, "demo_pictures: %s: %s\n", path, strerror(errno));
    free(scratch);
    return !ok;
}

static int draw(const side s[SIDES], files *f, int output, const options *o)
{
    const int frame_width = s->picture.width, frame_height = s->picture.height;
    const int width = (2 * frame_width + GAP - 2 * GAP) / SIDES / ZOOM, height = width * 9 / 16;
    spot spots[CROPS];
    if (height < 4 || height > frame_height / 3)
        return fputs("demo_pictures: the pictures are too small or too wide\n", stderr), 1;
    for (int i = 0; i < CROPS; i++)
        spots[i] = best_spot(s, spots, i, width, height);
    canvas page = {NULL, 2 * frame_width + GAP, BAND + frame_height + GAP + CROPS * (height * ZOOM + GAP)};
    page.pixels = malloc(canvas_bytes(page.width, page.height));
    if (!page.pixels)
        return fputs("demo_pictures: out of memory\n", stderr), 1;
    canvas_fill(&page, 0, 0, page.width, page.height, paper);
    draw_frames(&page, s, o, spots, width, height);
    draw_crops(&page, s, o, spots, width, height);
    const int code = write_page(&page, f, output, o->output);
    free(page.pixels);
    return code;
}

/* --- the command line --------------------------------------------------------------------- */

static void usage(FILE *to)
{
    fputs("usage: demo_pictures [options] BEFORE.y4m AFTER.y4m REFERENCE.y4m OUT.png\n"
          "One frame before and after, and crops where the error fell most beside the reference.\n"
          "  --frame N                    frame, from 1 [the last]\n"
          "  --before TEXT, --after TEXT  labels [before, after]\n",
          to);
}

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o)
{
    int named = 0;
    *o = (options){{NULL}, NULL, {"before", "after", "original"}, 0};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return usage(stdout), 0;
        else if (strcmp(argv[i], "--frame") == 0 && more)
            o->frame = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--before") == 0 && more)
            o->label[BEFORE] = argv[++i];
        else if (strcmp(argv[i], "--after") == 0 && more)
            o->label[AFTER] = argv[++i];
        else if (argv[i][0] == '-' || named > SIDES)
            return fprintf(stderr, "demo_pictures: unexpected argument %s\n", argv[i]), 2;
        else if (named < SIDES)
            o->path[named++] = argv[i];
        else
            o->output = argv[i], named++;
    }
    if (o->output && o->frame >= 0)
        return -1;
    return usage(stderr), 2;
}

static int run(side s[SIDES], files *f, const options *o)
{
    static const char *const roles[SIDES] = {"the picture before", "the picture after", "the reference"};
    for (int k = 0; k < SIDES; k++)
        if ((s[k].file = files_add(f, FILES_READ, roles[k], o->path[k])) < 0)
            return fprintf(stderr, "demo_pictures: %s\n", f->message), 1;
    const int output = files_add(f, FILES_WRITE, "the output", o->output);
    if (output < 0)
        return fprintf(stderr, "demo_pictures: %s\n", f->message), 1;
    for (int k = 0; k < SIDES; k++)
        if (read_side(&s[k], f, o->path[k], k ? (long)s->reader.frames : o->frame) || colour_side(&s[k]))
            return 1;
    for (int k = AFTER; k < SIDES; k++) {
        const y4m_info *a = &s->reader.info, *b = &s[k].reader.info;
        if (a->width != b->width || a->height != b->height || y4m_facts(a->layout)->bits != y4m_facts(b->layout)->bits)
            return fprintf(stderr, "demo_pictures: %s: of another size or depth than %s\n", o->path[k],
                           o->path[BEFORE]),
                   1;
    }
    return draw(s, f, output, o);
}

int main(int argc, char **argv)
{
    static side s[SIDES];
    options o;
    files f;
    files_begin(&f);
    int code = read_options(argc, argv, &o);
    if (code >= 0)
        return code;
    code = run(s, &f, &o);
    files_end(&f);
    for (int k = 0; k < SIDES; k++)
        free(s[k].frame), free(s[k].picture.pixels);
    return code;
}
