/* conv_depthwise.c: runs a convolution whose groups are of one channel: cuts it into tiles.
 *
 * Owns:      the loops of this family.
 * Relies on: conv_internal.h, conv.c for the tile that all share.
 * Must never: do arithmetic on samples.
 */
#include "kernels/conv_internal.h"

#ifndef BS_SMALL
/* All whole vectors of some pixels of a row at once, where no more than a clamp follows a sum. */
static void bs_conv_depthwise_whole(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_tile *tile,
                                    int32_t pixels)
{
    const bs_conv_activation activation = tile->task->activation;
    const bool clamps = activation == BS_CONV_NONE || activation == BS_CONV_RELU || activation == BS_CONV_CLIP;
    if (!k->depthwise_whole || !clamps || tile->residual)
        return;
    tile->channels = g->out_channels / k->lanes * k->lanes;
    k->depthwise_whole[pixels](tile);
    tile->channel += tile->channels;
    tile->in += tile->channels;
    tile->out += tile->channels;
    tile->weights += (ptrdiff_t)g->kernel_h * g->kernel_w * tile->channels;
}

/* What the tile of `pixels` at (y, x) will write, and read first, the lowest rows of its windows. Tiles go through rows
 * side by side, which a processor does not see coming. */
static void bs_conv_depthwise_next(const bs_conv_geometry *g, const bs_conv_kernels *k, int32_t y, int32_t x,
                                   int32_t pixels, bs_conv_tile *tile)
{
    const bs_conv_task *task = tile->task;
    const int32_t vectors = bs_conv_ceil_div(g->out_channels, k->lanes);
    const int32_t seen = g->kernel_w > g->stride_w ? (g->kernel_w - g->stride_w) * g->dilation_w : 0;
    const int32_t rows = bs_conv_min(g->kernel_h, bs_conv_min(g->stride_h, BS_CONV_NEXT - 1));
    for (int32_t i = 0; i < BS_CONV_NEXT; i++)
        tile->next[i].at = NULL;
    if (y >= task->out_h)
        return;
    tile->next[0].at = task->out + y * task->out_row + x * tile->out_pixel;
    tile->next[0].share = pixels * tile->out_pixel / vectors;
    for (int32_t i = 1; i <= rows; i++) {
        tile->next[i].at = task->in + y * g->stride_h * task->in_row + (g->kernel_h - i) * tile->in_row +
                           x * tile->in_step + (ptrdiff_t)seen * task->in_pixel;
        tile->next[i].share = pixels * tile->in_step / vectors;
    }
}
#endif

/* Some pixels of a row, all channels. */
static void bs_conv_depthwise_pixels(const bs_conv_geometry *g, const bs_conv_kernels *k, bs_conv_tile tile,
                                     int32_t pixels)
{
#ifndef BS_SMALL
    bs_conv_depthwise_whole(g, k, &tile, pixels);
#endif
    for (; tile.channel < g->out_channels; tile.channel += k->lanes) {
        tile.channels = bs_conv_min(g->out_channels - tile.channel, k->lanes);
        k->depthwise[pixels](&tile);
        tile.in += k->lanes;
        tile.out += k->lanes;
        if (tile.residual)
            tile.residual += k->lanes;
        tile.weights += (ptrdiff_t)g->kernel_h * g->kernel_w * k->lanes;
    }
}

/* Channels are the innermost loop: pixels are read from the first cache, and its lines are used whole. */
void bs_conv_run_depthwise(const bs_conv_geometry *g, const bs_conv_kernels *k, const bs_conv_task *task)
{
    bs_conv_tile tile = bs_conv_tile_of(g, task, k->lanes, BS_FAMILY_DEPTHWISE);
    for (int32_t y = 0; y < task->out_h; y++) {
        int32_t tiles = bs_conv_ceil_div(task->out_w, k->depthwise_pixels);
        for (int32_t x = 0; x < task->out_w; tiles--) {
            const int32_t pixels = bs_conv_next_pixels(k->depthwise, task->out_w - x, tiles, k->depthwise_pixels);
            tile.in = task->in + (ptrdiff_t)y * g->stride_h * task->in_row + x * tile.in_step;
            tile.out = task->out + y * task->out_row + x * tile.out_pixel;
            if (task->residual)
                tile.residual = task->residual + y * task->residual_row + x * tile.residual_pixel;
            x += pixels;
#ifndef BS_SMALL
            bs_conv_depthwise_next(g, k, x < task->out_w ? y : y + 1, x < task->out_w ? x : 0, pixels, &tile);
#endif
            bs_conv_depthwise_pixels(g, k, tile, pixels);
        }
    }
}
