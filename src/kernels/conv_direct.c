/* conv_direct.c: runs the direct algorithm: blocks of outputs along rows, over the ends of rows and images where these
 * are short, sum after sum where there are many products.
 *
 * Owns:      the loops over blocks, tiles and sums.
 * Relies on: conv_internal.h, the OUTER, ACROSS and DOT kernels of a tier.
 * Must never: do arithmetic on samples.
 */
#include "kernels/conv_internal.h"

/* Products of an output that are summed from zero: rows of the kernel, or taps of a row, or channels of a tap. */
typedef struct bs_conv_depth {
    int32_t rows, taps, channels;
    bool all; /* there are no others */
} bs_conv_depth;

/* One block of output channels of one group, ready to run along rows. */
typedef struct bs_conv_block {
    bs_conv_tile tile; /* at the first pixel */
    bs_conv_tile_kernel *const *kernels;
    int32_t most_pixels;
    int32_t out_h, out_w;
    ptrdiff_t in_row, out_row, residual_row; /* between the pixels of neighbouring rows */
#ifndef BS_SMALL
    int32_t images;
    ptrdiff_t in_image, out_image, residual_image;
#endif
    bs_conv_depth depth;
    const bs_conv_geometry *g;
    const bs_conv_kernels *k;
    bs_conv_task first, more, last; /* of sums that are not deep enough: what stands before them, and follows */
#ifndef BS_SMALL
    bs_conv_tile_kernel *const *across; /* where tiles reach over the ends of rows, or NULL */
#endif
} bs_conv_block;

/* Rounding grows with the depth of a sum, not with that of an output. Sums are about equally deep. */
static bs_conv_depth bs_conv_depth_of(const bs_conv_geometry *g)
{
    const int32_t most = BS_OUTER_DEPTH, in = g->in_channels / g->groups;
    const int64_t row = (int64_t)g->kernel_w * in;
    bs_conv_depth depth = { g->kernel_h, g->kernel_w, in, g->kernel_h * row <= 2 * most };
    if (depth.all)
        return depth;
    depth.rows = row < most ? bs_conv_equal(g->kernel_h, most / (int32_t)row) : 1;
    if (row > most)
        depth.taps = in < most ? bs_conv_equal(g->kernel_w, most / in) : 1;
    if (in > most)
        depth.channels = bs_conv_equal(in, most);
    return depth;
}

/* Sum after sum, each added to those before, which are kept apart: the residual may lie where the result goes. */
static void bs_conv_run_deep(const bs_conv_block *block, const bs_conv_tile *to, int32_t pixels)
{
    const bs_conv_geometry *g = block->g;
    const bs_conv_depth d = block->depth;
    const int32_t in = to->run / (g->kernel_w / to->taps), lanes = block->k->lanes;
    const int32_t width = to->channels > lanes ? 2 * lanes : lanes;
    float sums[BS_OUTER_SUMS];
    bs_conv_tile tile = *to;
    tile.out = sums;
    tile.out_pixel = tile.residual_pixel = width;
    tile.residual = NULL;
    tile.task = &block->first;
    for (int32_t y = 0; y < g->kernel_h; y += d.rows)
        for (int32_t x = 0; x < g->kernel_w; x += d.taps)
            for (int32_t c = 0; c < in; c += d.channels) {
                tile.in = to->in + y * to->in_row + x * to->in_tap + c;
                tile.rows = bs_conv_min(d.rows, g->kernel_h - y);
                tile.taps = bs_conv_min(d.taps, g->kernel_w - x);
                tile.run = bs_conv_min(d.channels, in - c);
                const ptrdiff_t products = (ptrdiff_t)tile.rows * tile.taps * tile.run;
                if (to->taps < g->kernel_w && d.channels == in) { /* side by side, as in bs_conv_tile_of */
                    tile.run *= tile.taps;
                    tile.taps = 1;
                }
                if (!to->residual && y + d.rows >= g->kernel_h && x + d.taps >= g->kernel_w && c + d.channels >= in) {
                    tile.task = &block->last;
                    tile.out = to->out;
                    tile.out_pixel = to->out_pixel;
                }
                block->kernels[pixels](&tile);
                tile.weights += products * width;
                tile.residual = sums;
                tile.task = &block->more;
            }
    if (to->residual)
        block->k->finish(to, sums, width, pixels);
}

static void bs_conv_run_row(const bs_conv_block *block, ptrdiff_t y)
{
    bs_conv_tile tile = block->tile;
    const float *in = tile.in + y * block->in_row;
    float *out = tile.out + y * block->out_row;
    const float *residual = tile.residual ? tile.residual + y * block->residual_row : NULL;
    int32_t tiles = bs_conv_ceil_div(block->out_w, block->most_pixels);
    for (int32_t x = 0; x < block->out_w; tiles--) {
        const int32_t count = bs_conv_next_pixels(block->kernels, block->out_w - x, tiles, block->most_pixels);
        tile.in = in + x * tile.in_step;
        tile.out = out + x * tile.out_pixel;
        tile.residual = residual ? residual + x * tile.residual_pixel : NULL;
        if (block->depth.all)
            block->kernels[count](&tile);
        else
            bs_conv_run_deep(block, &tile, count);
        x += count;
    }
}

#ifdef BS_SMALL
#define bs_conv_run_block bs_conv_run_rows
#endif
static void bs_conv_run_rows(const bs_conv_block *block)
{
    for (int32_t y = 0; y < block->out_h; y++)
        bs_conv_run_row(block, y);
}

#ifndef BS_SMALL
/* A pixel of an image. */
typedef struct bs_conv_at {
    int32_t y, x;
} bs_conv_at;

/* Where `count` pixels lie, the first one at `at`, row after row, and image after image. Returns where the last is. */
static bs_conv_at bs_conv_place(const bs_conv_block *block, bs_conv_at at, int32_t count, bs_conv_places *places)
{
    const bs_conv_tile *tile = &block->tile;
    const ptrdiff_t w = block->out_w, h = block->out_h;
    ptrdiff_t in = 0, out = 0, residual = 0;
    for (int32_t p = 0; p < count; p++) {
        places->in[p] = in;
        places->out[p] = out;
        places->residual[p] = residual;
        if (p == count - 1)
            break;
        in += tile->in_step;
        out += tile->out_pixel;
        residual += tile->residual_pixel;
        if (++at.x < w)
            continue;
        at.x = 0;
        in += block->in_row - w * tile->in_step;
        out += block->out_row - w * tile->out_pixel;
        residual += block->residual_row - w * tile->residual_pixel;
        if (++at.y < h)
            continue;
        at.y = 0;
        in += block->in_image - h * block->in_row;
        out += block->out_image - h * block->out_row;
        residual += block->residual_image - h * block->residual_row;
    }
    return at;
}

/* All pixels in so many tiles. Few tiles wait for weights that come from memory, so each fetches its share of what
 * follows these. */
static void bs_conv_run_across(const bs_conv_block *block, int32_t tiles)
{
    const int32_t lanes = block->k->lanes, w = block->out_w;
    bs_conv_tile tile = block->tile;
    const int32_t width = tile.channels > lanes ? 2 * lanes : lanes;
    const ptrdiff_t lines = (ptrdiff_t)tile.rows * tile.taps, quads = lines * (tile.run / 4);
    bs_conv_places places;
    tile.places = &places;
    tile.next[0].at = tile.weights + lines * tile.run * width;
    tile.next[0].share = bs_conv_round_up(4 * width / tiles, 16);
    bs_conv_at at = { 0, 0 };
    for (int32_t left = block->images * block->out_h * w, fetched = 0; left > 0; tiles--) {
        const int32_t count = bs_conv_ceil_div(left, tiles);
        const bool fetches = fetched < 4 * width, beyond = at.x + count > w;
        if (!fetches)
            tile.next[0].share = 0;
        at = bs_conv_place(block, at, count + 1, &places);
        (fetches || beyond ? block->across : block->kernels)[count](&tile);
        tile.in += places.in[count];
        tile.out += places.out[count];
        if (tile.residual)
            tile.residual += places.residual[count];
        tile.next[0].at += quads * tile.next[0].share;
        fetched += (int32_t)tile.next[0].share;
        left -= count;
    }
}

static void bs_conv_run_images(const bs_conv_block *block)
{
    bs_conv_block image = *block;
    for (int32_t left = block->images; left > 0; left--) {
        bs_conv_run_rows(&image);
        image.tile.in += block->in_image;
        image.tile.out += block->out_image;
        if (image.tile.residual)
            image.tile.residual += block->residual_image;
    }
}

/* Tiles with few pixels have too few sums under way, and read all weights for few products: where rows end within a
 * tile, tiles reach over their ends. */
static void bs_conv_run_tiles(const bs_conv_block *block)
{
    const int32_t w = block->out_w, most = bs_conv_min(block->most_pixels, BS_ACROSS_PIXELS);
    const int64_t by_rows = (int64_t)block->images * block->out_h * bs_conv_ceil_div(w, block->most_pixels);
    const int64_t tiles = ((int64_t)block->images * block->out_h * w + most - 1) / most;
    if (block->across && block->depth.all && 8 * tiles <= 7 * by_rows)
        bs_conv_run_across(block, (int32_t)tiles);
    else if (block->images == 1)
        bs_conv_run_rows(block);
    else
        bs_conv_run_images(block);
}

/* Sum after sum, as bs_conv_run_deep, but each of all pixels: its weights are read once, and stay in the first cache.
 * Sums so far lie where the result goes. */
static void bs_conv_run_sums(const bs_conv_block *block)
{
    const bs_conv_geometry *g = block->g;
    const bs_conv_depth d = block->depth;
    const bs_conv_tile *all = &block->tile;
    const int32_t in = all->run / (g->kernel_w / all->taps);
    const int32_t width = all->channels > block->k->lanes ? 2 * block->k->lanes : block->k->lanes;
    bs_conv_block part = *block;
    bs_conv_tile *tile = &part.tile;
    part.depth.all = true;
    part.residual_row = block->out_row;
    part.residual_image = block->out_image;
    tile->residual_pixel = tile->out_pixel;
    tile->task = &block->first;
    for (int32_t y = 0; y < g->kernel_h; y += d.rows)
        for (int32_t x = 0; x < g->kernel_w; x += d.taps)
            for (int32_t c = 0; c < in; c += d.channels) {
                tile->in = all->in + y * all->in_row + x * all->in_tap + c;
                tile->rows = bs_conv_min(d.rows, g->kernel_h - y);
                tile->taps = bs_conv_min(d.taps, g->kernel_w - x);
                tile->run = bs_conv_min(d.channels, in - c);
                const ptrdiff_t products = (ptrdiff_t)tile->rows * tile->taps * tile->run;
                if (all->taps < g->kernel_w && d.channels == in) { /* side by side, as in bs_conv_tile_of */
                    tile->run *= tile->taps;
                    tile->taps = 1;
                }
                if (y + d.rows >= g->kernel_h && x + d.taps >= g->kernel_w && c + d.channels >= in)
                    tile->task = &block->last;
                bs_conv_run_tiles(&part);
                tile->weights += products * width;
                tile->residual = tile->out;
                tile->task = &block->more;
            }
}

static void bs_conv_run_block(const bs_conv_block *block)
{
    if (block->depth.all || block->tile.residual)
        bs_conv_run_tiles(block);
    else
        bs_conv_run_sums(block);
}
#endif

void bs_conv_run_direct(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_family family,
                        const bs_conv_task *task)
{
    const int32_t in = g->in_channels / g->groups, out = g->out_channels / g->groups;
    const ptrdiff_t taps = (ptrdiff_t)g->kernel_h * g->kernel_w;
    bs_conv_block block = { .tile = bs_conv_tile_of(g, task, k->lanes, family), .kernels = k->dot,
                            .most_pixels = k->dot_pixels, .depth = bs_conv_depth_of(g), .g = g, .k = k,
                            .out_h = task->out_h, .out_w = task->out_w, .in_row = g->stride_h * task->in_row,
                            .out_row = task->out_row, .residual_row = task->residual_row,
                            .first = { .bias = task->bias }, .more = { .residual_before_activation = true },
                            .last = *task };
#ifndef BS_SMALL
    block.images = bs_conv_images(task);
    block.in_image = task->in_image;
    block.out_image = task->out_image;
    block.residual_image = task->residual_image;
#endif
    block.depth.all = block.depth.all || family != BS_FAMILY_OUTER;
    block.last.bias = NULL;
    block.last.residual_before_activation = true;
    for (int32_t group = 0; group < g->groups; group++)
        for (int32_t first = 0; first < out;) {
            int32_t width = BS_DOT_OUTPUTS, depth = bs_conv_round_up(in, k->lanes);
            if (family == BS_FAMILY_OUTER) {
                const int32_t vectors = out - first > k->lanes ? 2 : 1;
                width = vectors * k->lanes;
                depth = in;
                block.kernels = k->outer[vectors];
                block.most_pixels = k->outer_pixels[vectors];
#ifndef BS_SMALL
                block.across = k->across[vectors];
#endif
            }
            block.tile.channel = group * out + first;
            block.tile.channels = bs_conv_min(out - first, width);
            block.tile.in = task->in + group * in;
            block.tile.out = task->out + block.tile.channel;
            block.tile.residual = task->residual ? task->residual + block.tile.channel : NULL;
            bs_conv_run_block(&block);
            block.tile.weights += taps * depth * width;
            first += width;
        }
}
