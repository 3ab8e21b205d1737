/* gemm.c: 1x1 convolutions, and so the rows of linear layers: products of rows by a matrix in panels.
 *
 * Owns:      the walk over panels, blocks of products and rows.
 * Relies on: conv_internal.h, gemm.inc for the kernels, conv_pack.c for the panels.
 * Must never: do arithmetic on samples, or let its order depend on how many rows there are.
 *
 * A panel is BS_GEMM_VECTORS vectors of columns (the last one fewer), and stays in the first cache for BS_GEMM_DEPTH
 * products while GEMM_PIXELS rows pass; meanwhile the next one is fetched. All panels pass before other rows are taken,
 * so that what rows read and write stays in the second cache. The sums of a block begin at zero and are added to those
 * of the blocks before, so rounding grows with the depth of a block, not with that of the matrix.
 */
#include "kernels/conv_internal.h"

#include <math.h>

const float bs_gemm_zero[BS_GEMM_ZEROS];

enum {
    GEMM_PIXELS = 64,
    GEMM_AHEAD = 2048, /* floats */
    GEMM_SUMS = 768    /* floats that are kept on the stack: of 16, 32 or 64 rows of a panel */
};

/* Whether kernels take one tile at a time. */
#ifdef BS_SMALL
#define GEMM_ONE_TILE true
#else
#define GEMM_ONE_TILE false
#endif

bs_gemm_share bs_gemm_next_rows(const bs_conv_kernels *k, int32_t vectors, int32_t left)
{
    const int32_t tiles = bs_conv_ceil_div(left, k->gemm_rows[vectors]);
    bs_gemm_share share = {.rows = bs_conv_ceil_div(left, tiles)};
    share.tiles = GEMM_ONE_TILE ? 1 : left - tiles * (share.rows - 1);
    while (!k->gemm[vectors][share.rows])
        share.rows--;
    return share;
}

int32_t bs_gemm_next_columns(const bs_conv_kernels *k, int32_t left)
{
    const int32_t vectors = bs_conv_ceil_div(left, k->lanes), panels = bs_conv_ceil_div(vectors, BS_GEMM_VECTORS);
    return bs_conv_min(left, bs_conv_ceil_div(vectors, panels) * k->lanes);
}

void bs_gemm_run(const bs_conv_kernels *k, int32_t vectors, int32_t rows, bs_gemm_tile *tile)
{
    while (rows > 0) {
        const bs_gemm_share share = bs_gemm_next_rows(k, vectors, rows);
        const ptrdiff_t taken = (ptrdiff_t)share.rows * share.tiles;
        tile->tiles = share.tiles;
        k->gemm[vectors][share.rows](tile);
        tile->in += taken * tile->in_step;
        tile->out += taken * tile->out_step;
        tile->add += taken * tile->add_step;
        tile->next += share.tiles * (tile->depth / 4) * tile->next_step;
        rows -= (int32_t)taken;
    }
}

typedef struct gemm_job {
    const bs_conv_geometry *g;
    const bs_conv_kernels *k;
    const bs_conv_task *task;
    bool finish;     /* more follows than a clamp */
    float low, high; /* of that clamp */
    /* the panel at hand; of one row some may be */
    int32_t whole;   /* panels beside it that are taken with it, and lie before it */
    int32_t channel; /* the first of those */
    int32_t columns, vectors;
    const float *weights; /* of those */
} gemm_job;

/* The block of products from `k` on, for any rows. */
static bs_gemm_tile gemm_block(const gemm_job *j, int32_t k)
{
    const int32_t inputs = j->g->in_channels, depth = bs_conv_min(inputs - k, BS_GEMM_DEPTH);
    const ptrdiff_t width = (ptrdiff_t)j->vectors * j->k->lanes, whole = (ptrdiff_t)BS_GEMM_VECTORS * j->k->lanes;
    const float *last = j->weights + j->whole * inputs * whole + k * width;
    const bool clamps = k + depth == inputs && !j->finish;
    const bs_gemm_tile tile = {.in_step = (ptrdiff_t)j->g->stride_w * j->task->in_pixel,
                               .weights = j->whole ? j->weights + k * whole : last,
                               .next = (const char *)last,
                               .panel = inputs * whole,
                               .last = last,
                               .depth = depth,
                               .add = j->task->bias ? j->task->bias + j->channel : bs_gemm_zero,
                               .columns = j->columns,
                               .low = clamps ? j->low : -INFINITY,
                               .high = clamps ? j->high : INFINITY};
    return tile;
}

/* What rows fetch while they pass a block: the next one, each tile its share; behind the last one lies what runs next,
 * often. A single tile reads a block as it comes from memory: it fetches some way ahead. */
static void gemm_fetch(const gemm_job *j, bs_gemm_tile *tile, int32_t tiles)
{
    const ptrdiff_t width = (ptrdiff_t)j->vectors * j->k->lanes;
    tile->next = (const char *)(tile->weights + (tiles > 1 ? tile->depth * width : GEMM_AHEAD));
    tile->next_step = 4 * width * (ptrdiff_t)sizeof(float) / tiles;
}

/* All rows by one block. */
static void gemm_rows(const gemm_job *j, int32_t k)
{
    const bs_conv_task *task = j->task;
    const bool onto = k > 0 || task->onto;
    bs_gemm_tile tile = gemm_block(j, k);
    gemm_fetch(j, &tile, task->out_h * bs_conv_ceil_div(task->out_w, j->k->gemm_rows[j->vectors]));
    tile.out_step = task->out_pixel;
    tile.add_step = onto ? tile.out_step : 0;
    for (ptrdiff_t y = 0; y < task->out_h; y++) {
        tile.in = task->in + y * j->g->stride_h * task->in_row + k;
        tile.out = task->out + y * task->out_row + j->channel;
        tile.add = onto ? tile.out : tile.add;
        bs_gemm_run(j->k, j->vectors, task->out_w, &tile);
    }
}

/* One row by one block of several panels. */
static void gemm_row(const gemm_job *j, int32_t k)
{
    bs_gemm_tile tile = gemm_block(j, k);
    tile.in = j->task->in + k;
    tile.out = j->task->out + j->channel;
    if (k > 0 || j->task->onto)
        tile.add = tile.out;
    j->k->gemm_beside[j->whole + 1][j->vectors](&tile);
}

/* Some rows by all blocks, then what follows. The sums are kept apart: the residual may lie where the result goes. */
static void gemm_finished(const gemm_job *j, int32_t rows, const float *in, bs_conv_tile *to)
{
    float sums[GEMM_SUMS];
    const int32_t width = j->vectors * j->k->lanes;
    for (int32_t k = 0; k < j->g->in_channels; k += BS_GEMM_DEPTH) {
        bs_gemm_tile tile = gemm_block(j, k);
        gemm_fetch(j, &tile, bs_conv_ceil_div(rows, j->k->gemm_rows[j->vectors]));
        tile.in = in + k;
        tile.out = sums;
        tile.out_step = width;
        tile.add = k > 0 ? sums : tile.add;
        tile.add_step = k > 0 ? width : 0;
        bs_gemm_run(j->k, j->vectors, rows, &tile);
    }
    j->k->finish(to, sums, width, rows);
}

/* As many rows at a time as there is room for their sums: each time the whole panel is read. */
static void gemm_rows_finished(const gemm_job *j)
{
    const bs_conv_task *task = j->task;
    const int32_t most = GEMM_SUMS / (BS_GEMM_VECTORS * j->k->lanes);
    bs_conv_tile to = {.channel = j->channel,
                       .channels = j->columns,
                       .out_pixel = task->out_pixel,
                       .residual_pixel = task->residual_pixel,
                       .task = task};
    for (ptrdiff_t y = 0; y < task->out_h; y++)
        for (int32_t x = 0, rows; x < task->out_w; x += rows) {
            rows = bs_conv_min(task->out_w - x, most);
            to.out = task->out + y * task->out_row + (ptrdiff_t)x * task->out_pixel + j->channel;
            if (task->residual)
                to.residual =
                    task->residual + y * task->residual_row + (ptrdiff_t)x * task->residual_pixel + j->channel;
            gemm_finished(j, rows,
                          task->in + y * j->g->stride_h * task->in_row + (ptrdiff_t)x * j->g->stride_w * task->in_pixel,
                          &to);
        }
}

/* Of so many panels, how many one row takes beside another: as many each time, so that enough sums are under way. */
static int32_t gemm_beside(int32_t panels)
{
    const int32_t times = bs_conv_ceil_div(panels, BS_GEMM_ABREAST);
    return (times > 1 ? bs_conv_ceil_div(panels, times) : panels) - 1;
}

/* Of a panel. Divisions would take the smallest products some percent of their time. */
static int32_t gemm_vectors(const bs_conv_kernels *k, int32_t columns)
{
    _Static_assert(BS_GEMM_VECTORS == 3, "so many are counted");
    return 1 + (columns > k->lanes) + (columns > 2 * k->lanes);
}

/* All panels. */
static void gemm_panels(const bs_conv_geometry *g, const bs_conv_kernels *k, const bs_conv_task *task)
{
    const bool clip = task->activation == BS_CONV_CLIP, clamp = clip || task->activation == BS_CONV_RELU;
    const int32_t width = BS_GEMM_VECTORS * k->lanes;
    gemm_job j = {.g = g,
                  .k = k,
                  .task = task,
                  .finish = task->residual || (!clamp && task->activation != BS_CONV_NONE),
                  .low = clip ? task->low : clamp ? 0.0f : -INFINITY,
                  .high = clip ? task->high : INFINITY,
                  .weights = task->weights};
    const bool one = k->gemm_beside && task->out_h == 1 && task->out_w == 1 && !j.finish;
    while (j.channel < g->out_channels) {
        int32_t left = g->out_channels - j.channel;
        j.whole = one ? gemm_beside(bs_conv_ceil_div(left, width)) : 0;
        left -= j.whole * width;
        j.columns = bs_conv_min(left, width);
        j.vectors = gemm_vectors(k, j.columns);
        if (j.finish)
            gemm_rows_finished(&j);
        for (int32_t i = 0; i < g->in_channels && !j.finish; i += BS_GEMM_DEPTH)
            (j.whole > 0 ? gemm_row : gemm_rows)(&j, i);
        j.weights += ((ptrdiff_t)j.whole * BS_GEMM_VECTORS + j.vectors) * k->lanes * g->in_channels;
        j.channel += j.whole * width + j.columns;
    }
}

/* Pixels of a line that are taken at a time: about GEMM_PIXELS, and of all shares as many. A few left over would
 * read all weights once more, which takes longer than their products. */
static int32_t gemm_share(int32_t pixels)
{
    const int32_t shares = (pixels + GEMM_PIXELS - GEMM_PIXELS / 4) / GEMM_PIXELS;
    return pixels <= GEMM_PIXELS ? pixels : bs_conv_ceil_div(pixels, shares);
}

/* Some lines at a time, or a part of one. */
void bs_conv_run_gemm(const bs_conv_geometry *g, const bs_conv_kernels *k, const bs_conv_task *task)
{
    if (task->out_w <= GEMM_PIXELS && task->out_h <= GEMM_PIXELS && task->out_h * task->out_w <= GEMM_PIXELS) {
        gemm_panels(g, k, task);
        return;
    }
    const int32_t w = gemm_share(task->out_w), h = w < GEMM_PIXELS ? GEMM_PIXELS / w : 1;
    for (int32_t y = 0; y < task->out_h; y += h)
        for (int32_t x = 0; x < task->out_w; x += w) {
            bs_conv_task some = *task;
            some.in += (ptrdiff_t)y * g->stride_h * task->in_row + (ptrdiff_t)x * g->stride_w * task->in_pixel;
            some.out += y * (ptrdiff_t)task->out_row + (ptrdiff_t)x * task->out_pixel;
            if (task->residual)
                some.residual += y * (ptrdiff_t)task->residual_row + (ptrdiff_t)x * task->residual_pixel;
            some.out_h = bs_conv_min(h, task->out_h - y);
            some.out_w = bs_conv_min(w, task->out_w - x);
            gemm_panels(g, k, &some);
        }
}
