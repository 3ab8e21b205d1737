/* tags: long asan */
/* Promises of the main job with the shipped models: a forced route is the untiled net, seams do not show, memory is
 * what was planned and little, leaving early is cheap, what nobody sees is not paid for.
 *
 *     test_super_resolution [MODEL HALF.y4m FULL.y4m]    measures the seams of a clip instead of a drawn frame
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include "graph/graph.h"
#include "picture.h"
#include "quality.h"
#include "upscaler.h"
#include "y4m.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

/* The thread sanitizer and emulation are some fifty times slower: there a smaller frame, and seams and
 * memory, which are of a full-size one, are left to the native run. */
#if defined(__SANITIZE_THREAD__) || defined(__aarch64__) || defined(BS_NO_SIMD)
#define LIGHT 1
#define LOW_W 208
#define LOW_H 144
#else
#define LIGHT 0
#define LOW_W 480
#define LOW_H 272
#endif

static uint8_t full[4 * LOW_W * LOW_H], half[LOW_W * LOW_H], routed[4 * LOW_W * LOW_H], other[4 * LOW_W * LOW_H];

/* Flat, smooth and busy parts side by side, edges of every direction: tiles of every route. */
static double light_at(double x, double y)
{
    const double u = x / 160.0, v = y / 130.0, busy = 0.5 + 0.5 * sin(u * 1.3) * cos(v * 1.7);
    double light = 120 + 40 * sin(u) + 30 * cos(v * 0.7);
    light += 50 * busy * busy * sin(0.045 * x * (1 + v * 0.2)) * sin(0.06 * y * (1 + u * 0.1));
    if (((int)x / 97 + (int)y / 61) % 5 == 0)
        light += 45 * (sin(0.35 * x + 0.21 * y) > 0.2);
    if (hypot(x - 300.0, y - 250.0) < 90)
        light = 200;
    return light < 0 ? 0 : light > 255 ? 255 : light;
}

/* Antialiased by 4 x 4 samples a pixel, as a camera would. */
static void draw(int phase)
{
    for (int y = 0; y < 2 * LOW_H; y++)
        for (int x = 0; x < 2 * LOW_W; x++) {
            double sum = 0;
            for (int k = 0; k < 16; k++)
                sum += light_at(x + (k % 4 + 0.5) / 4, y + phase + (k / 4 + 0.5) / 4);
            full[y * 2 * LOW_W + x] = (uint8_t)(sum / 16 + 0.5);
        }
    static int32_t scratch[64 * LOW_W];
    const picture_plane from = {full, 2 * LOW_W, 2 * LOW_W, 2 * LOW_H, 8}, to = {half, LOW_W, LOW_W, LOW_H, 8};
    if (picture_halve_scratch(2 * LOW_W) <= sizeof scratch)
        picture_halve(&to, &from, 0, LOW_H, scratch);
}

static video_options options_of(const char *model, video_route route, int tile, bs_conv_choice conv)
{
    const video_options o = {
        .model = model, .route = route, .tile = tile, .conv = conv, .threads = 1, .quality = 93, .reuse = true};
    return o;
}

static bool enlarge(const video_options *o, uint8_t *out)
{
    upscaler u;
    const bool ok = upscaler_open(&u, o, LOW_W, LOW_H, 8) && upscaler_run(&u, half, LOW_W, out, 2 * LOW_W, true);
    if (!ok)
        printf("  %s\n", u.error.message);
    upscaler_close(&u);
    return ok;
}

static int differing(const uint8_t *a, const uint8_t *b, int *worst)
{
    int count = 0;
    *worst = 0;
    for (int i = 0; i < 4 * LOW_W * LOW_H; i++) {
        const int d = abs(a[i] - b[i]);
        count += d != 0;
        *worst = d > *worst ? d : *worst;
    }
    return count;
}

/* A tile as large as the frame is the untiled net. */
static void forced_is_untiled(const char *model)
{
    for (video_route route = ROUTE_BICUBIC; route <= ROUTE_EXIT2; route++) {
        int worst;
        video_options whole = options_of(model, route, 8192, BS_CONV_FORCE_DIRECT),
                      tiled = options_of(model, route, 64, BS_CONV_FORCE_DIRECT);
        bool ok = enlarge(&whole, routed) && enlarge(&tiled, other);
        int off = differing(routed, other, &worst);
        check(ok && off == 0, "%s: tiles equal the untiled net to the byte, direct convolution (%d differ)",
              options_route_name(route), off);
        tiled.conv = BS_CONV_FORCE_WINOGRAD;
        ok = enlarge(&tiled, other);
        off = differing(routed, other, &worst);
        check(ok && worst <= 1 && off <= 4 * LOW_W * LOW_H / 100000,
              "%s: Winograd differs by %d at most in %d of %d pixels", options_route_name(route), worst, off,
              4 * LOW_W * LOW_H);
    }
}

/* ------------------------------------------------------------------------------------------------ seams */

/* Mean steps between neighbours across borders of different routes. A seam is a step more than there would be if one
 * net had made both sides: the static large net's picture at the same places. The original's is told beside it: every
 * enlargement is softer than that, border or not. */
typedef struct seams {
    double ours, large, original;
    int64_t samples;
} seams;

static int class_of(const upscaler_map *map, int cell)
{
    int c = map->route[cell];
    for (int e = 0; c == 3 && e < UPSCALER_EXITS; e++)
        if (map->exit[e] && map->exit[e][cell] == 0)
            return 4 + e;
    return c;
}

static void step_add(seams *s, const uint8_t *const pictures[3], int at, int before)
{
    s->ours += abs(pictures[0][at] - pictures[0][before]);
    s->large += abs(pictures[1][at] - pictures[1][before]);
    s->original += abs(pictures[2][at] - pictures[2][before]);
    s->samples++;
}

/* pictures: routed, static large, original. */
static void seams_add(seams *s, const upscaler_map *map, const uint8_t *const pictures[3], int w, int h)
{
    const int side = 2 * map->size;
    for (int cell = 0; cell < map->across * map->down; cell++) {
        const int cy = cell / map->across, cx = cell % map->across, x = (cx + 1) * side, y = (cy + 1) * side;
        const bool right = cx + 1 < map->across && class_of(map, cell + 1) != class_of(map, cell);
        const bool below = cy + 1 < map->down && class_of(map, cell + map->across) != class_of(map, cell);
        for (int k = 0; right && k < side && cy * side + k < h; k++)
            step_add(s, pictures, (cy * side + k) * w + x, (cy * side + k) * w + x - 1);
        for (int k = 0; below && k < side && cx * side + k < w; k++)
            step_add(s, pictures, y * w + cx * side + k, (y - 1) * w + cx * side + k);
    }
}

/* One frame both ways. */
static bool seams_frame(seams *s, upscaler *u, upscaler *large, const uint8_t *low, const uint8_t *original,
                        uint8_t *ours, uint8_t *theirs)
{
    upscaler_map map;
    const int w = u->width, h = u->height;
    const uint8_t *const pictures[3] = {ours, theirs, original};
    if (!upscaler_run(u, low, w, ours, 2 * w, true) || !upscaler_run(large, low, w, theirs, 2 * w, true))
        return false;
    upscaler_last(u, &map);
    seams_add(s, &map, pictures, 2 * w, 2 * h);
    return true;
}

static bool seams_open(upscaler *u, upscaler *large, const char *model, int w, int h)
{
    const video_options o = options_of(model, ROUTE_AUTO, 0, BS_CONV_AUTO),
                        l = options_of(model, ROUTE_LARGE, 0, BS_CONV_AUTO);
    return upscaler_open(u, &o, w, h, 8) && upscaler_open(large, &l, w, h, 8);
}

static void seams_do_not_show(const char *model)
{
    upscaler u, large;
    seams s = {0, 0, 0, 0};
    memset(&large, 0, sizeof large);
    bool ok = seams_open(&u, &large, model, LOW_W, LOW_H);
    for (int f = 0; ok && f < 4; f++) {
        draw(3 * f);
        ok = seams_frame(&s, &u, &large, half, full, routed, other);
    }
    upscaler_close(&u);
    upscaler_close(&large);
    const double ratio = s.large > 0 ? s.ours / s.large : 0;
    check(ok && s.samples > 1000 && ratio > 0.95 && ratio < 1.05,
          "across %lld border pixels of different routes the mean step is %.3f of the large net's",
          (long long)s.samples, ratio);
}

/* ------------------------------------------------------------------------------------------------- floor */

/* The router counts losses, people decibels; -1 dB is what the model was written with. */
static void floor_is_of_the_caller(const char *model)
{
    static const struct {
        double db;
        int32_t loss;
    } rows[] = {{-1, 10}, {55, 10}, {0, 0}, {30, 3329}, {50, 33}, {60, 3}, {65, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        upscaler u;
        video_options o = options_of(model, ROUTE_AUTO, 0, BS_CONV_AUTO);
        o.floor = rows[i].db;
        const bool ok = upscaler_open(&u, &o, LOW_W, LOW_H, 8);
        const int32_t loss = ok ? u.graph->routers[1].desc->floor : -1;
        check(ok && loss == rows[i].loss, "a floor of %.0f dB is a loss of %d", rows[i].db, loss);
        upscaler_close(&u);
    }
}

/* Faint waves: every net makes the same of them, and a relative budget pays for the difference. */
static void draw_faint(int phase)
{
    for (int i = 0; i < LOW_W * LOW_H; i++)
        half[i] = (uint8_t)(110 + 6 * sin(0.21 * (i % LOW_W + phase)) + 5 * cos(0.19 * (i / LOW_W - phase)) + 0.5);
}

static double least_psnr(const uint8_t *a, const uint8_t *b)
{
    const picture_plane p = {(void *)(uintptr_t)a, 2 * LOW_W, 2 * LOW_W, 2 * LOW_H, 8},
                        q = {(void *)(uintptr_t)b, 2 * LOW_W, 2 * LOW_W, 2 * LOW_H, 8};
    return quality_psnr(&p, &q, 0);
}

static void unseen_is_not_paid_for(const char *model)
{
    upscaler u[2], large;
    uint64_t nets[2] = {0, 0};
    double least = INFINITY;
    bool ok = true;
    const video_options l = options_of(model, ROUTE_LARGE, 0, BS_CONV_AUTO);
    ok = upscaler_open(&large, &l, LOW_W, LOW_H, 8);
    for (int i = 0; i < 2; i++) {
        video_options o = options_of(model, ROUTE_AUTO, 0, BS_CONV_AUTO);
        o.floor = i ? 55 : 0;
        ok = upscaler_open(&u[i], &o, LOW_W, LOW_H, 8) && ok;
    }
    for (int f = 0; ok && f < 3; f++) {
        draw_faint(f);
        ok = upscaler_run(&large, half, LOW_W, other, 2 * LOW_W, true);
        for (int i = 0; ok && i < 2; i++)
            ok = upscaler_run(&u[i], half, LOW_W, routed, 2 * LOW_W, true);
        const double db = least_psnr(routed, other);
        least = db < least ? db : least;
    }
    for (int i = 0; i < 2; i++) {
        nets[i] = u[i].tallies.cells[2] + u[i].tallies.cells[3];
        upscaler_close(&u[i]);
    }
    upscaler_close(&large);
    check(ok && nets[0] > 0 && 4 * nets[1] <= nets[0] && least >= 55,
          "faint waves: %llu cells through a net without a floor, %llu with one, %.1f dB to the large net's",
          (unsigned long long)nets[0], (unsigned long long)nets[1], least);
}

/* What was given away before is nobody's afterwards: another scene is what it is to a session that begins with it. */
static void scenes_do_not_mix(const char *model)
{
    int worst;
    upscaler u;
    video_options o = options_of(model, ROUTE_AUTO, 0, BS_CONV_AUTO);
    o.floor = 50;
    bool ok = upscaler_open(&u, &o, LOW_W, LOW_H, 8);
    for (int f = 0; ok && f < 3; f++) {
        draw_faint(f / 2);
        ok = upscaler_run(&u, half, LOW_W, routed, 2 * LOW_W, true);
    }
    const uint64_t kept = u.tallies.cells[0];
    draw(0);
    ok = ok && upscaler_run(&u, half, LOW_W, routed, 2 * LOW_W, true) && enlarge(&o, other);
    check(ok && kept > 0 && differing(routed, other, &worst) == 0, "a new scene after cells that were kept (%llu)",
          (unsigned long long)kept);
    ok = ok && upscaler_run(&u, half, LOW_W, routed, 2 * LOW_W, false);
    check(ok && differing(routed, other, &worst) == 0, "and after a reset");
    upscaler_close(&u);
}

/* ------------------------------------------------------------------------------------------------ memory */

static void memory_is_planned(const char *model)
{
    static uint8_t in[960 * 540], out[4 * 960 * 540];
    for (int i = 0; i < 960 * 540; i++)
        in[i] = (uint8_t)(check_random() >> 24);
    for (int forced = 0; forced < 2; forced++) {
        upscaler u;
        video_options o = options_of(model, forced ? ROUTE_LARGE : ROUTE_AUTO, 0, BS_CONV_AUTO);
        o.threads = 2;
        o.quality = 100; /* no floor, noise at full quality: every tile is large, to the end */
        const bool ok = upscaler_open(&u, &o, 960, 540, 8) && upscaler_run(&u, in, 960, out, 1920, true);
        const uint64_t planned = u.fixed_bytes + u.planned.persistent + u.planned.transient + u.planned.staging +
                                 u.planned.slots;
        const uint64_t touched = upscaler_touched(&u), frames = 960 * 540 * 3 / 2 * 5;
        check(ok && touched <= planned, "%s: %llu bytes touched of %llu planned", forced ? "large" : "routed",
              (unsigned long long)touched, (unsigned long long)planned);
        check(ok && touched * 100 >= planned * 98, "%s: the worst case uses what is planned (%.2f %%)",
              forced ? "large" : "routed", 100.0 * (double)touched / (double)planned);
        check(ok && planned + frames <= (uint64_t)16 << 20,
              "%s: 960x540, two threads: arenas and frames are %.2f MiB, at most 16", forced ? "large" : "routed",
              (double)(planned + frames) / 1048576);
        upscaler_close(&u);
    }
}

/* --------------------------------------------------------------------------------------------- one clip */

static int clip_seams(const char *model, const char *low_path, const char *full_path)
{
    static uint8_t low_frame[1 << 23], full_frame[1 << 25], ours[1 << 25], theirs[1 << 25];
    static y4m_reader low, high;
    const int low_fd = open(low_path, O_RDONLY), high_fd = open(full_path, O_RDONLY);
    upscaler u, large;
    seams s = {0, 0, 0, 0};
    if (low_fd < 0 || high_fd < 0 || y4m_reader_open(&low, low_fd, NULL) || y4m_reader_open(&high, high_fd, NULL) ||
        !seams_open(&u, &large, model, low.info.width, low.info.height))
        return !check(0, "the clip and the model open");
    while (y4m_read_frame(&low, low_frame) == Y4M_OK && y4m_read_frame(&high, full_frame) == Y4M_OK)
        if (!seams_frame(&s, &u, &large, low_frame, full_frame, ours, theirs))
            break;
    upscaler_close(&u);
    upscaler_close(&large);
    const double n = s.samples ? (double)s.samples : 1;
    printf(
        "%lld border pixels between different routes: mean step %.3f, static large %.3f (ratio %.4f), original %.3f "
        "(ratio %.4f)\n",
        (long long)s.samples, s.ours / n, s.large / n, s.ours / s.large, s.original / n, s.ours / s.original);
    return 0;
}

int main(int argc, char **argv)
{
    const char *models[] = {"models/sr2x.gguf", "models/sr2x_video.gguf"};
    if (argc == 4)
        return clip_seams(argv[1], argv[2], argv[3]);
    for (int m = 0; m < 2; m++) {
        const char *model = argc == 2 ? argv[1] : models[m];
        if (access(model, R_OK) != 0) {
            printf("%s is not there: skipped\n", model);
            continue;
        }
        draw(0);
        forced_is_untiled(model);
        if (LIGHT)
            continue;
        floor_is_of_the_caller(model);
        unseen_is_not_paid_for(model);
        scenes_do_not_mix(model);
        seams_do_not_show(model);
        memory_is_planned(model);
    }
    return check_end();
}
