/* conv_winograd.c: runs F(4x4, 3x3): transforms strips of tiles, multiplies point by point, transforms back. A strip
 * goes on over the ends of rows and images.
 *
 * Owns:      the strip loop and the scratch layout: points of the input, points of the output, one edge patch, and
 *            where transformed weights are not stored, six points of a block of them.
 * Relies on: the transforms and the OUTER kernels of a tier, used as 36 small matrix products.
 * Must never: let a tile that hangs over the output's edge read outside the windows: it is copied into a
 *            patch of zeros first.
 */
#include "kernels/conv_internal.h"

#include <string.h>

#if !defined(BS_NO_WINOGRAD)

/* Channels are padded to whole vectors; at each point, neighbouring tiles are adjacent. */
typedef struct bs_winograd_plan {
    int32_t in_padded, out_padded;
    int32_t block; /* outputs that are made together */
    int32_t strip; /* tiles transformed together */
    int32_t depth; /* channels that are summed from zero */
    bool stores; /* transformed weights are at hand */
    bool in_place; /* points of the output are written where those of the input were */
    ptrdiff_t in_step, out_step; /* floats from point to point */
    size_t in_points, out_points, patch, weights; /* floats */
} bs_winograd_plan;

/* The 36 points of a tile are written and read together: an odd count of 64-byte lines between them spreads
 * them over all sets of the first-level cache. */
static ptrdiff_t bs_winograd_step(int32_t strip, int32_t padded)
{
    const ptrdiff_t lines = ((ptrdiff_t)strip * padded + 15) / 16;
    return 16 * (lines | 1);
}

/* Blocks of channels are of equal depth, in fours. */
static int32_t bs_winograd_depth(int32_t channels)
{
    return bs_conv_round_up(bs_conv_equal(channels, BS_WINOGRAD_DEPTH), 4);
}

/* Eight channels of one vector: a kernel of its own keeps the weights of a point in registers. */
static bool bs_winograd_eight(const bs_conv_geometry *g, int32_t lanes)
{
    return g->in_channels == 8 && lanes == 8;
}

/* A strip is a few register tiles long, so that every product is made of full tiles, and its points should stay in a
 * second-level cache of 256 KiB. Larger strips were not faster with 1 MiB. The kernel of eight channels takes any
 * count, so that all 64 tiles of 32 x 32 pixels are one strip. Where weights are transformed for each strip it is as
 * long as 1 MiB allows. */
static bs_winograd_plan bs_winograd_plan_of(const bs_conv_geometry *g, int32_t lanes)
{
    bs_winograd_plan plan = {
        .in_padded = bs_conv_round_up(g->in_channels, lanes),
        .out_padded = bs_conv_round_up(g->out_channels, lanes),
    };
    plan.stores = bs_conv_winograd_stores(g);
    plan.depth = bs_winograd_depth(g->in_channels);
    plan.block = bs_conv_min(plan.out_padded, plan.stores && bs_winograd_eight(g, lanes) ? lanes : 2 * lanes);
    const int64_t tile_bytes = (int64_t)BS_WINOGRAD_POINTS * 4 * ((int64_t)plan.in_padded + plan.block);
    const int64_t most = plan.stores ? 160 << 10 : 1 << 20;
    const int32_t unit = bs_winograd_eight(g, lanes) ? 16 : lanes == 16 ? 14 : lanes == 8 ? 12 : 8;
    plan.strip = unit;
    while (plan.strip < 4 * unit && (plan.strip + unit) * tile_bytes <= most)
        plan.strip += unit;
    /* A product reads all channels of its tiles before it writes any, where one block has all outputs. */
    plan.in_place = plan.stores && plan.in_padded == plan.out_padded && plan.block == plan.out_padded &&
                    g->in_channels <= plan.depth;
    plan.in_step = bs_winograd_step(plan.strip, plan.in_padded);
    plan.out_step = bs_winograd_step(plan.strip, plan.block);
    plan.in_points = BS_WINOGRAD_POINTS * (size_t)plan.in_step;
    plan.out_points = plan.in_place ? 0 : BS_WINOGRAD_POINTS * (size_t)plan.out_step;
    plan.patch = (size_t)BS_WINOGRAD_POINTS * (size_t)plan.in_padded;
    plan.weights = plan.stores ? 0 : (size_t)BS_WINOGRAD_IN * (size_t)g->in_channels * (size_t)plan.block;
    return plan;
}

size_t bs_conv_winograd_scratch(const bs_conv_geometry *geometry, int32_t lanes)
{
    const bs_winograd_plan plan = bs_winograd_plan_of(geometry, lanes);
    return plan.in_points + plan.out_points + plan.patch + plan.weights;
}

#ifndef BS_SMALL
int32_t bs_conv_winograd_block(const bs_conv_geometry *geometry, int32_t lanes)
{
    return bs_winograd_plan_of(geometry, lanes).block;
}
#endif

/* One run, with its scratch laid out. */
typedef struct bs_winograd_run {
    const bs_conv_geometry *geometry;
    const bs_conv_kernels *kernels;
    const bs_conv_task *task;
    bs_winograd_plan plan;
    float *in_points, *out_points, *patch, *weights;
} bs_winograd_run;

/* Copies the part of a 6x6 patch that is inside the windows; the rest is zero. */
static void bs_winograd_copy_patch(const bs_winograd_run *run, const float *in, int32_t rows, int32_t columns)
{
    const size_t pixel = (size_t)run->plan.in_padded, channels = (size_t)run->geometry->in_channels;
    memset(run->patch, 0, run->plan.patch * sizeof(float));
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++)
            memcpy(run->patch + (size_t)(y * BS_WINOGRAD_IN + x) * pixel,
                   in + y * run->task->in_row + (ptrdiff_t)x * run->task->in_pixel, channels * sizeof(float));
}

/* Where a tile begins in the outputs. */
typedef struct bs_winograd_at {
    int32_t image, y, x;
} bs_winograd_at;

/* Lines of tiles, one below the other. */
typedef struct bs_winograd_lines {
    int32_t tiles, lines;
} bs_winograd_lines;

#ifdef BS_SMALL /* transforms take one */
#define bs_winograd_next(run, at, left) ((void)(at), (void)(left), (bs_winograd_lines){ 1, 1 })
#else
/* Of `left` tiles from there on those that are transformed together: whole ones of a line, of several lines where these
 * are as wide as the image; or one that hangs over an edge. */
static bs_winograd_lines bs_winograd_next(const bs_winograd_run *run, bs_winograd_at at, int32_t left)
{
    const int32_t across = (run->task->out_w - at.x) / BS_WINOGRAD_OUT;
    const int32_t down = (run->task->out_h - at.y) / BS_WINOGRAD_OUT;
    bs_winograd_lines next = { bs_conv_min(bs_conv_min(across, left), run->kernels->winograd_tiles), 1 };
    if (across == 0 || down == 0)
        next.tiles = 1;
    else if (next.tiles > 1 && next.tiles * BS_WINOGRAD_OUT == run->task->out_w)
        next.lines = bs_conv_min(down, left / next.tiles);
    return next;
}
#endif

/* Beyond them: divisions would take a good part of the time of a tile of few channels. */
static void bs_winograd_on(const bs_winograd_run *run, bs_winograd_lines some, bs_winograd_at *at)
{
    at->x += some.tiles * BS_WINOGRAD_OUT;
    at->y += (some.lines - 1) * BS_WINOGRAD_OUT;
    if (at->x >= run->task->out_w) {
        at->x = 0;
        at->y += BS_WINOGRAD_OUT;
    }
    if (at->y >= run->task->out_h) {
        at->y = 0;
        at->image++;
    }
}

static void bs_winograd_transform_in(const bs_winograd_run *run, bs_winograd_at at, bs_winograd_lines some,
                                     float *points)
{
    const bs_conv_task *task = run->task;
    const int32_t y = at.y, x = at.x;
    const int32_t rows = bs_conv_min(task->out_h + 2 - y, BS_WINOGRAD_IN);
    const int32_t columns = bs_conv_min(task->out_w + 2 - x, BS_WINOGRAD_IN);
    const float *in = task->in + at.image * task->in_image + y * task->in_row + (ptrdiff_t)x * task->in_pixel;
    ptrdiff_t row = task->in_row, pixel = task->in_pixel;
    if (rows < BS_WINOGRAD_IN || columns < BS_WINOGRAD_IN) {
        bs_winograd_copy_patch(run, in, rows, columns);
        in = run->patch;
        pixel = run->plan.in_padded;
        row = BS_WINOGRAD_IN * pixel;
    }
    run->kernels->winograd_in(in, row, pixel, run->geometry->in_channels, some.tiles, some.lines, points,
                              run->plan.in_step);
}

/* All tiles of a strip, from that at `at` on. `block`: the channels, and their bias and slopes; points of the next tile
 * are `width` on. */
static void bs_winograd_transform_out(const bs_winograd_run *run, bs_winograd_at at, int32_t tiles, int32_t width,
                                      const bs_conv_tile *block)
{
    const bs_conv_task *task = run->task;
    const float *points = run->out_points;
    bs_conv_tile tile = *block;
    while (tiles > 0) {
        const bs_winograd_lines some = bs_winograd_next(run, at, tiles);
        tile.out = block->out + at.image * task->out_image + at.y * task->out_row + (ptrdiff_t)at.x * task->out_pixel;
        if (block->residual)
            tile.residual = block->residual + at.image * task->residual_image + at.y * task->residual_row +
                            (ptrdiff_t)at.x * task->residual_pixel;
        run->kernels->winograd_out(points, run->plan.out_step, &tile, task->out_row, task->residual_row,
                                   bs_conv_min(task->out_h - at.y, BS_WINOGRAD_OUT),
                                   bs_conv_min(task->out_w - at.x, BS_WINOGRAD_OUT), some.tiles, some.lines);
        points += (ptrdiff_t)some.tiles * some.lines * width;
        tiles -= some.tiles * some.lines;
        bs_winograd_on(run, some, &at);
    }
}

/* [tiles][in] x [in][block] at one point; rows of the result are `out_pixel` apart. The sums of some channels begin at
 * zero and are added to those of the channels before: rounding grows with the depth of a block. */
static void bs_winograd_multiply(const bs_winograd_run *run, const float *weights, int32_t vectors, const float *in,
                                 float *out, int32_t out_pixel, int32_t tiles)
{
    static const bs_conv_task plain = { .activation = BS_CONV_NONE, .residual_before_activation = true };
    const bs_conv_kernels *k = run->kernels;
    const int32_t channels = run->geometry->in_channels, depth = run->plan.depth;
    bs_conv_tile tile = { .in_step = run->plan.in_padded, .rows = 1, .taps = 1, .channels = vectors * k->lanes,
                          .out_pixel = out_pixel, .residual_pixel = out_pixel, .task = &plain };
    int32_t parts = bs_conv_ceil_div(tiles, k->outer_pixels[vectors]);
    for (int32_t t = 0; t < tiles; parts--) {
        const int32_t count = bs_conv_next_pixels(k->outer[vectors], tiles - t, parts, k->outer_pixels[vectors]);
        tile.in = in + (ptrdiff_t)t * run->plan.in_padded;
        tile.out = out + (ptrdiff_t)t * out_pixel;
        tile.weights = weights;
        tile.residual = NULL;
        for (int32_t left = channels; left > 0; left -= depth) {
            tile.run = bs_conv_min(left, depth);
            k->outer[vectors][count](&tile);
            tile.in += depth;
            tile.weights += (ptrdiff_t)depth * tile.channels;
            tile.residual = tile.out;
        }
        t += count;
    }
}

#if !BS_HAVE_WINOGRAD_POINTS
static bool bs_winograd_points(const bs_winograd_run *run, const float *weights, int32_t channel, int32_t width,
                               int32_t tiles)
{
    return (void)run, (void)weights, (void)channel, (void)width, (void)tiles, false;
}
#else
/* Weights are in panels of two vectors of outputs, the last of one where that is enough: its width. */
static int32_t bs_winograd_panel(const bs_winograd_run *run, int32_t channel)
{
    const int32_t panel = 2 * run->kernels->lanes;
    return bs_conv_min(panel, run->plan.out_padded - channel / panel * panel);
}

#ifndef BS_SMALL
/* Tiles by a kernel for as many as OUTER takes, evenly. */
static void bs_winograd_points_of_tiles(const bs_winograd_run *run, bs_conv_points *job, int32_t vectors, int32_t tiles)
{
    const bs_conv_kernels *k = run->kernels;
    int32_t parts = bs_conv_ceil_div(tiles, k->outer_pixels[vectors]);
    for (int32_t t = 0, count; t < tiles; t += job->groups * count, parts -= job->groups) {
        count = bs_conv_ceil_div(tiles - t, parts);
        job->groups = parts - (count * parts - (tiles - t)); /* the others are of one less */
        job->in = run->in_points + (ptrdiff_t)t * run->plan.in_padded;
        job->out = run->out_points + (ptrdiff_t)t * job->out_tile;
        k->points[vectors][count](job);
    }
}
#endif

/* A block at all points in a call, where channels are not too many to be summed from zero. */
static bool bs_winograd_points(const bs_winograd_run *run, const float *weights, int32_t channel, int32_t width,
                               int32_t tiles)
{
    const bs_winograd_plan *plan = &run->plan;
    const bs_conv_kernels *k = run->kernels;
    const ptrdiff_t channels = run->geometry->in_channels;
    bs_conv_points job = { .in = run->in_points, .weights = weights, .out = run->out_points, .in_step = plan->in_step,
                           .weights_step = channels * plan->out_padded, .out_step = plan->out_step,
                           .in_tile = plan->in_padded, .out_tile = width,
                           .weights_channel = bs_winograd_panel(run, channel), .channels = (int32_t)channels,
                           .groups = tiles };
    if (k->points_eight && bs_winograd_eight(run->geometry, k->lanes)) {
        k->points_eight(&job);
        return true;
    }
#ifndef BS_SMALL
    if (k->points[1] && channels <= plan->depth) {
        bs_winograd_points_of_tiles(run, &job, width / k->lanes, tiles);
        return true;
    }
#endif
    return false;
}
#endif

/* By weights that are transformed already. */
static void bs_winograd_stored(const bs_winograd_run *run, int32_t channel, int32_t width, int32_t tiles)
{
    const bs_winograd_plan *plan = &run->plan;
    const ptrdiff_t channels = run->geometry->in_channels;
    const int32_t first = channel / (2 * run->kernels->lanes) * (2 * run->kernels->lanes); /* of the panel */
    const float *weights = run->task->weights + first * channels + (channel - first);
    if (bs_winograd_points(run, weights, channel, width, tiles))
        return;
    for (int32_t point = 0; point < BS_WINOGRAD_POINTS; point++)
        bs_winograd_multiply(run, weights + point * channels * plan->out_padded, width / run->kernels->lanes,
                             run->in_points + point * plan->in_step, run->out_points + point * plan->out_step, width,
                             tiles);
}

/* By plain weights: six points of them are made and used at a time. */
static void bs_winograd_plain(const bs_winograd_run *run, int32_t channel, int32_t width, int32_t tiles)
{
    const bs_winograd_plan *plan = &run->plan;
    const ptrdiff_t floats = (ptrdiff_t)run->geometry->in_channels * width;
    const float *weights = run->task->weights + BS_WINOGRAD_TAPS * (ptrdiff_t)run->geometry->in_channels * channel;
    for (int32_t point = 0; point < BS_WINOGRAD_POINTS; point++) {
        const int32_t x = point % BS_WINOGRAD_IN;
        if (x == 0)
            run->kernels->winograd_weights(weights, floats, point / BS_WINOGRAD_IN, run->weights);
        bs_winograd_multiply(run, run->weights + x * floats, width / run->kernels->lanes,
                             run->in_points + point * plan->in_step, run->out_points + point * plan->out_step, width,
                             tiles);
    }
}

#ifdef BS_SMALL
#define bs_winograd_outputs(run, channel) ((run)->task->out + (channel))
#else
/* Where the outputs of a block begin. */
static float *bs_winograd_outputs(const bs_winograd_run *run, int32_t channel)
{
    const bs_conv_task *task = run->task;
    const int32_t r = task->phases;
    if (r <= 1)
        return task->out + channel;
    const int32_t channels = run->geometry->out_channels / (r * r), phase = channel / channels;
    return task->out + phase / r * (task->out_row / r) + phase % r * (ptrdiff_t)(task->out_pixel / r) +
           channel % channels;
}
#endif

/* Products and outputs of a strip whose inputs are transformed, block after block. */
static void bs_winograd_blocks(const bs_winograd_run *run, bs_winograd_at first, int32_t tiles)
{
    for (int32_t channel = 0, width; channel < run->plan.out_padded; channel += width) {
        width = bs_conv_min(run->plan.out_padded - channel, run->plan.block);
        if (run->plan.stores)
            bs_winograd_stored(run, channel, width, tiles);
        else
            bs_winograd_plain(run, channel, width, tiles);
        bs_conv_task task = *run->task;
        task.bias = task.bias ? task.bias + channel : NULL;
        task.slopes = task.slopes ? task.slopes + channel : NULL;
        const bs_conv_tile block = { .channels = bs_conv_min(run->geometry->out_channels - channel, width),
                                     .out = bs_winograd_outputs(run, channel), .out_pixel = task.out_pixel,
                                     .residual = task.residual ? task.residual + channel : NULL,
                                     .residual_pixel = task.residual_pixel, .task = &task };
        bs_winograd_transform_out(run, first, tiles, width, &block);
    }
}

/* The next tiles, from that at `at` on. */
static void bs_winograd_strip(const bs_winograd_run *run, bs_winograd_at *at, int32_t tiles)
{
    const bs_winograd_at first = *at;
    for (int32_t t = 0; t < tiles;) {
        const bs_winograd_lines some = bs_winograd_next(run, *at, tiles - t);
        bs_winograd_transform_in(run, *at, some, run->in_points + (ptrdiff_t)t * run->plan.in_padded);
        bs_winograd_on(run, some, at);
        t += some.tiles * some.lines;
    }
    bs_winograd_blocks(run, first, tiles);
}

void bs_conv_winograd_run(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels,
                          const bs_conv_task *task)
{
    bs_winograd_run run = { .geometry = geometry, .kernels = kernels, .task = task,
                            .plan = bs_winograd_plan_of(geometry, kernels->lanes) };
    run.in_points = task->scratch;
    run.out_points = run.plan.in_place ? run.in_points : run.in_points + run.plan.in_points;
    run.patch = run.in_points + run.plan.in_points + run.plan.out_points;
    run.weights = run.patch + run.plan.patch;
    const int64_t tiles = (int64_t)bs_conv_images(task) * bs_conv_ceil_div(task->out_h, BS_WINOGRAD_OUT) *
                          bs_conv_ceil_div(task->out_w, BS_WINOGRAD_OUT);
    int64_t left = tiles, strips = (tiles + run.plan.strip - 1) / run.plan.strip;
    bs_winograd_at at = { 0, 0, 0 };
    for (; strips > 0; strips--) {
        const int32_t count = (int32_t)((left + strips - 1) / strips);
        bs_winograd_strip(&run, &at, count);
        left -= count;
    }
}
#endif
