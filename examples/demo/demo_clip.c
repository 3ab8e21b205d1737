/* demo_clip.c: demo_clip OUT.y4m: renders a short clip of a street, so that the demo needs no download.
 *
 * Owns: the camera: which parts are painted anew in a frame, the clouds, and the way to YUV.
 * Relies on: street.h for the scene, files.h, stop.h, video/y4m.h and video/progress.h.
 * Must never: change a pixel that nothing moved over: what stands still is equal in every frame.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "street.h"

#include "files.h"
#include "stop.h"
#include "video/progress.h"
#include "video/y4m.h"

enum { FPS = 24, GAMMA_STEPS = 4096 };

typedef struct options {
    const char *output;
    int frames, width, height;
    bool quiet;
} options;

typedef struct camera {
    int width, height;
    raster still, now; /* without and with what moves */
    float *light;      /* the picture in linear light, without clouds */
    float *sky;        /* how much of a pixel is sky, down to sky_rows */
    float *code;       /* gamma-coded R'G'B' with clouds */
    float *row;        /* of the reduction */
    int sky_rows;
    float gamma[GAMMA_STEPS + 1];
    uint8_t *frame;
} camera;

/* --- light to codes ----------------------------------------------------------------------- */

static void fill_gamma(float *table)
{
    for (int i = 0; i <= GAMMA_STEPS; i++) {
        double v = (double)i / GAMMA_STEPS;
        v *= v; /* the table is over the square root, where the curve is nearly straight */
        table[i] = (float)(v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055);
    }
}

static float coded(const camera *c, float light)
{
    float at = light <= 0 ? 0 : light >= 1 ? GAMMA_STEPS : sqrtf(light) * GAMMA_STEPS;
    int i = at < GAMMA_STEPS ? (int)at : GAMMA_STEPS - 1;
    return c->gamma[i] + (c->gamma[i + 1] - c->gamma[i]) * (at - (float)i);
}

static void code_row(const camera *c, int y, int left, int right, double seconds)
{
    const double units = RASTER_SAMPLES / c->now.scale;
    size_t at = ((size_t)y * (size_t)c->width + (size_t)left) * 3;
    for (int x = left; x < right; x++, at += 3) {
        float sky = y < c->sky_rows ? c->sky[at / 3] : 0, cloud = 0;
        if (sky > 0)
            cloud = sky * (float)street_cloud((x + 0.5) * units + c->now.left, (y + 0.5) * units + c->now.top, seconds);
        for (int k = 0; k < 3; k++)
            c->code[at + (size_t)k] = coded(c, c->light[at + (size_t)k] * (1 - cloud) + cloud * 0.93f);
    }
}

/* BT.601, limited range. Chroma is centred between four pixels (420jpeg). */
static void to_yuv(const camera *c, int top, int bottom, int left, int right)
{
    const size_t w = (size_t)c->width, chroma_width = (w + 1) / 2, luma_bytes = w * (size_t)c->height;
    uint8_t *cb = c->frame + luma_bytes, *cr = cb + chroma_width * (((size_t)c->height + 1) / 2);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            const float *p = c->code + ((size_t)y * w + (size_t)x) * 3;
            c->frame[(size_t)y * w + (size_t)x] = (uint8_t)(16.5f + 65.481f * p[0] + 128.553f * p[1] + 24.966f * p[2]);
        }
    for (int y = top & ~1; y < bottom; y += 2) {
        for (int x = left & ~1; x < right; x += 2) {
            float sum[3] = {0, 0, 0};
            for (int i = 0; i < 4; i++) {
                int sx = x + (i & 1) < c->width ? x + (i & 1) : x, sy = y + i / 2 < c->height ? y + i / 2 : y;
                for (int k = 0; k < 3; k++)
                    sum[k] += c->code[((size_t)sy * w + (size_t)sx) * 3 + (size_t)k] / 4;
            }
            size_t at = (size_t)(y / 2) * chroma_width + (size_t)(x / 2);
            cb[at] = (uint8_t)(128.5f - 37.797f * sum[0] - 74.203f * sum[1] + 112.0f * sum[2]);
            cr[at] = (uint8_t)(128.5f + 112.0f * sum[0] - 93.786f * sum[1] - 18.214f * sum[2]);
        }
    }
}

/* --- frames ------------------------------------------------------------------------------- */

typedef struct area {
    int left, top, right, bottom; /* pixels */
} area;

static int clamp(double v, int high) { return v < 0 ? 0 : v > high ? high : (int)v; }

/* Pixels that a box of units can touch: the reduction reaches two pixels, chroma one more. */
static area pixels_of(const camera *c, const box *b)
{
    double pixels = c->now.scale / RASTER_SAMPLES;
    return (area){clamp((b->x - c->now.left) * pixels - 4, c->width) & ~1,
                  clamp((b->y - c->now.top) * pixels - 4, c->height) & ~1,
                  clamp((b->x + b->width - c->now.left) * pixels + 5, c->width),
                  clamp((b->y + b->height - c->now.top) * pixels + 5, c->height)};
}

static void reduce(const camera *c, const raster *from, area a, float *out)
{
    for (int y = a.top; y < a.bottom; y++)
        raster_reduce_row(from, y, a.left, a.right, out + ((size_t)y * (size_t)c->width + (size_t)a.left) * 3, c->row);
}

static void repaint(camera *c, const box *b, double seconds)
{
    area a = pixels_of(c, b);
    if (a.left >= a.right || a.top >= a.bottom)
        return;
    raster_clip(&c->now, b);
    raster_copy(&c->now, &c->still);
    traffic_paint(&c->now, seconds);
    street_foreground(&c->now);
    reduce(c, &c->now, a, c->light);
    for (int y = a.top; y < a.bottom; y++)
        code_row(c, y, a.left, a.right, seconds);
    to_yuv(c, a.top, a.bottom, a.left, a.right);
}

static void first_frame(camera *c)
{
    raster_clip(&c->now, NULL);
    raster_copy(&c->now, &c->still);
    traffic_paint(&c->now, 0);
    street_foreground(&c->now);
    reduce(c, &c->now, (area){0, 0, c->width, c->height}, c->light);
    for (int y = 0; y < c->height; y++)
        code_row(c, y, 0, c->width, 0);
    to_yuv(c, 0, c->height, 0, c->width);
}

static box around(box a, box b)
{
    double left = fmin(a.x, b.x), top = fmin(a.y, b.y);
    return (box){left, top, fmax(a.x + a.width, b.x + b.width) - left, fmax(a.y + a.height, b.y + b.height) - top};
}

static void next_frame(camera *c, int frame)
{
    box old[STREET_MOVERS_MAX], new[STREET_MOVERS_MAX];
    double seconds = (double)frame / FPS;
    int n = traffic_boxes(seconds, new);
    traffic_boxes((double)(frame - 1) / FPS, old);
    for (int y = 0; y < c->sky_rows; y++)
        code_row(c, y, 0, c->width, seconds);
    to_yuv(c, 0, c->sky_rows, 0, c->width);
    for (int i = 0; i < n; i++) {
        /* What has gone around the scene stands at both ends. */
        if (fabs(old[i].x - new[i].x) > RASTER_UNITS_X / 2.0) {
            repaint(c, &old[i], seconds);
            repaint(c, &new[i], seconds);
        } else {
            box both = around(old[i], new[i]);
            repaint(c, &both, seconds);
        }
    }
}

/* Where the sky shows: a picture with a brighter sky less the picture. */
static void find_sky(camera *c)
{
    double pixels = c->now.scale / RASTER_SAMPLES;
    c->sky_rows = clamp((STREET_SKY_BOTTOM + 6 - c->now.top) * pixels, c->height) & ~1;
    area top = {0, 0, c->width, c->sky_rows};
    const box band = {-1000, -1000, 3000, 1000 + STREET_SKY_BOTTOM + 12};
    raster_clip(&c->now, &band);
    raster_clip(&c->still, &band);
    street_background(&c->now, 1);
    reduce(c, &c->now, top, c->light);
    reduce(c, &c->still, top, c->code);
    for (size_t i = 0; i < (size_t)c->sky_rows * (size_t)c->width; i++) {
        float share = (c->light[3 * i] - c->code[3 * i]) * STREET_GLOW_PARTS;
        c->sky[i] = share < 0.01f ? 0 : share > 1 ? 1 : share;
    }
}

static bool start(camera *c, const options *o)
{
    size_t pixels = (size_t)o->width * (size_t)o->height, samples = raster_bytes(o->width, o->height);
    void *still = malloc(samples), *now = malloc(samples);
    c->width = o->width, c->height = o->height;
    c->light = malloc(pixels * 3 * sizeof(float));
    c->code = malloc(pixels * 3 * sizeof(float));
    c->sky = malloc(pixels * sizeof(float));
    c->row = malloc((size_t)o->width * RASTER_SAMPLES * 3 * sizeof(float));
    c->frame = malloc(pixels * 3);
    if (!still || !now || !c->light || !c->code || !c->sky || !c->row || !c->frame)
        return false; /* NOLINT(clang-analyzer-unix.Malloc): main() leaves */
    fill_gamma(c->gamma);
    raster_init(&c->still, o->width, o->height, still);
    raster_init(&c->now, o->width, o->height, now);
    street_background(&c->still, 0);
    find_sky(c);
    raster_clip(&c->still, NULL);
    return true;
}

/* --- command ------------------------------------------------------------------------------ */

static void usage(FILE *to)
{
    fputs("usage: demo_clip [--frames N] [--width W] [--height H] [--quiet] OUT.y4m   (- is standard output)\n"
          "Renders a street seen by a fixed camera: 48 frames of 640 x 368 at 24 a second unless told.\n",
          to);
}

static bool number(const char *text, int low, int high, int *out)
{
    char *end;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || value < low || value > high)
        return false;
    *out = (int)value;
    return true;
}

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o)
{
    *o = (options){NULL, 48, RASTER_UNITS_X, RASTER_UNITS_Y, false};
    for (int i = 1; i < argc; i++) {
        bool good = true;
        if (strcmp(argv[i], "--frames") == 0)
            good = number(argv[++i], 1, 1000000, &o->frames);
        else if (strcmp(argv[i], "--width") == 0)
            good = number(argv[++i], 16, 4096, &o->width);
        else if (strcmp(argv[i], "--height") == 0)
            good = number(argv[++i], 16, 4096, &o->height);
        else if (strcmp(argv[i], "--quiet") == 0)
            o->quiet = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return usage(stdout), 0;
        else if ((argv[i][0] == '-' && argv[i][1]) || o->output)
            return fprintf(stderr, "demo_clip: unexpected argument %s\n", argv[i]), 2;
        else
            o->output = argv[i];
        if (!good)
            return fprintf(stderr, "demo_clip: %s wants a number in range\n", argv[i - 1]), 2;
    }
    if (o->output && y4m_misnamed(o->output))
        return fprintf(stderr, "demo_clip: %s: what is written is y4m\n", o->output), 2;
    if (o->output)
        return -1;
    return usage(stderr), 2;
}

static int fail(const options *o, const y4m_error *error)
{
    char text[256];
    y4m_message(error, text, sizeof text);
    fprintf(stderr, "demo_clip: %s: %s\n", o->output, text);
    return 1;
}

static int render(camera *c, const options *o, y4m_writer *writer)
{
    progress p;
    bool stopped = false;
    progress_start(&p, o->frames, o->quiet);
    for (int frame = 0; frame < o->frames && !stopped; frame++) {
        if (frame == 0)
            first_frame(c);
        else
            next_frame(c, frame);
        if (y4m_write_frame(writer, c->frame))
            break;
        progress_step(&p);
        stopped = *stop_flag() && frame + 1 < o->frames;
    }
    if (y4m_writer_close(writer) || stopped) {
        progress_break(&p);
        return fail(o, writer->error.status ? &writer->error : &(y4m_error){.status = Y4M_STOPPED});
    }
    progress_end(&p);
    return 0;
}

static int open_and_render(camera *c, const options *o, files *f)
{
    y4m_writer writer;
    const y4m_info info = {.width = o->width,
                           .height = o->height,
                           .layout = Y4M_LAYOUT_420JPEG,
                           .interlacing = 'p',
                           .range = Y4M_RANGE_LIMITED,
                           .rate = {true, FPS, 1},
                           .aspect = {true, 1, 1}};
    const int output = files_add(f, FILES_VIDEO, "the output", o->output);
    if (output < 0)
        return fprintf(stderr, "demo_clip: %s\n", f->message), 1;
    if (!start(c, o))
        return fputs("demo_clip: out of memory\n", stderr), 1;
    if (!files_empty(f))
        return fprintf(stderr, "demo_clip: %s\n", f->message), 1;
    if (y4m_writer_open(&writer, files_take(f, output), &info, stop_flag()))
        return fail(o, &writer.error);
    return render(c, o, &writer);
}

int main(int argc, char **argv)
{
    static camera c;
    options o;
    files f;
    files_begin(&f);
    int code = read_options(argc, argv, &o);
    if (code >= 0)
        return code;
    stop_catch();
    code = open_and_render(&c, &o, &f);
    files_end(&f);
    free(c.still.samples), free(c.now.samples), free(c.light), free(c.code), free(c.sky), free(c.row), free(c.frame);
    return code;
}
