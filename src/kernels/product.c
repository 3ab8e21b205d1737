/* product.c: cuts a product of two computed matrices into tiles for the kernels of gemm.inc.
 *
 * Owns:      the panels that are made while it runs, and the way around strides that kernels do not have.
 * Relies on: conv_internal.h, arrange.h.
 * Must never: let arithmetic depend on strides: what is not dense is copied, before and after.
 *
 * Of b a block of a panel is packed at a time, and all rows pass it. Rows of a that are not dense are packed as well,
 * PRODUCT_ROWS at a time. Few rows take b from where it lies (gemm_row.inc): the same sums, without panels. */
#include "kernels/product.h"
#include "base/base.h"
#include "kernels/arrange.h"
#include "kernels/conv_internal.h"

#include <math.h>
#include <string.h>

enum {
    PRODUCT_ROWS = 64,
    PRODUCT_FEW = 3,   /* rows */
    PRODUCT_SET = 8192 /* floats between lines of a set, times the lines that half a set holds */
};

typedef struct product_job {
    const bs_product *p;
    const bs_conv_kernels *kernels;
    bs_tier tier;
    float *panel, *rows; /* scratch */
} product_job;

static int32_t panel_floats(const bs_conv_kernels *k) { return BS_GEMM_VECTORS * k->lanes * BS_GEMM_DEPTH; }

size_t bs_product_scratch_floats(bs_tier tier)
{
    return (size_t)((BS_GEMM_VECTORS * bs_conv_lanes(tier) + PRODUCT_ROWS) * BS_GEMM_DEPTH);
}

static void scale_panel(const product_job *j, int32_t depth, int32_t width)
{
    const float scale = j->p->scale;
#ifdef BS_SMALL
    for (int32_t i = 0; i < depth * width; i++)
        j->panel[i] *= scale;
#else
    j->kernels->gemm_pack(j->panel, width, depth, width, scale, j->panel);
#endif
}

/* [depth][width] of b from (k, n) on, times the scale; lanes without a column are zero. */
static void pack_panel(const product_job *j, int32_t k, int32_t depth, int32_t n, int32_t columns, int32_t width)
{
    const bs_product *p = j->p;
    const float *from = p->b + k * p->b_row + n * p->b_step;
#ifndef BS_SMALL
    if (p->b_step == 1) {
        j->kernels->gemm_pack(from, p->b_row, depth, columns, p->scale, j->panel);
        return;
    }
#endif
    if (columns < width)
        memset(j->panel, 0, (size_t)(depth * width) * sizeof(float));
    bs_gather_f32(j->tier, from, p->b_row, p->b_step, depth, columns, j->panel, width);
    if (p->scale != 1.0f)
        scale_panel(j, depth, width);
}

/* Rows by the panel, whose result is not dense: through a copy of it. */
static void product_apart(const product_job *j, int32_t vectors, int32_t rows, bs_gemm_tile *tile)
{
    const bs_product *p = j->p;
    const bool first = tile->add_step == 0;
    float copy[BS_GEMM_MOST_ROWS][BS_GEMM_VECTORS * BS_MOST_LANES], *out = tile->out;
    for (int32_t count; rows > 0; rows -= count, out += count * p->out_row) {
        count = bs_gemm_next_rows(j->kernels, vectors, rows).rows;
        for (int32_t r = 0; r < count; r++)
            for (int32_t c = 0; c < tile->columns; c++)
                copy[r][c] = first ? 0.0f : out[r * p->out_row + c * p->out_step];
        tile->out = copy[0];
        tile->add = copy[0];
        tile->out_step = tile->add_step = BS_GEMM_VECTORS * BS_MOST_LANES;
        bs_gemm_run(j->kernels, vectors, count, tile);
        for (int32_t r = 0; r < count; r++)
            for (int32_t c = 0; c < tile->columns; c++)
                out[r * p->out_row + c * p->out_step] = copy[r][c];
    }
}

/* Rows m .. m + rows, from k on: by one panel after the other. */
static void product_block(const product_job *j, int32_t m, int32_t rows, int32_t k, int32_t depth)
{
    const bs_product *p = j->p;
    const int32_t lanes = j->kernels->lanes;
    const bool dense = p->a_step == 1;
    const float *a = dense ? p->a + m * p->a_row + k : j->rows;
    if (!dense)
        bs_gather_f32(j->tier, p->a + m * p->a_row + k * p->a_step, p->a_row, p->a_step, rows, depth, j->rows, depth);
    for (int32_t n = 0, columns; n < p->n; n += columns) {
        columns = bs_gemm_next_columns(j->kernels, p->n - n);
        float *out = p->out + m * p->out_row + n * p->out_step;
        bs_gemm_tile tile = {.in = a,
                             .in_step = dense ? p->a_row : depth,
                             .weights = j->panel,
                             .depth = depth,
                             .add = k > 0 ? out : bs_gemm_zero,
                             .add_step = k > 0 ? p->out_row : 0,
                             .out = out,
                             .out_step = p->out_row,
                             .columns = columns,
                             .low = -INFINITY,
                             .high = INFINITY,
                             .next = (const char *)j->panel};
        const int32_t vectors = bs_conv_ceil_div(columns, lanes);
        pack_panel(j, k, depth, n, columns, vectors * lanes);
        if (p->out_step == 1)
            bs_gemm_run(j->kernels, vectors, rows, &tile);
        else
            product_apart(j, vectors, rows, &tile);
    }
}

#ifdef BS_SMALL
static bool product_rows(const bs_conv_kernels *kernels, const bs_product *p)
{
    return (void)kernels, (void)p, false;
}
#else
/* One row by columns n .. n + 2^i vectors, as many as are left and kernels take. Vectors that would go beyond the last
 * column begin before it: some columns are computed twice. */
static void product_row(const bs_conv_kernels *k, const bs_product *p, bool turns, int32_t m)
{
    const int32_t most = turns ? BS_ROW_TURNS : BS_ROW_LINES;
    bs_gemm_row_kernel *const *kernels = turns ? k->row_turns : k->row_lines;
    for (int32_t n = 0, i = most - 1; n < p->n; n += k->lanes << i) {
        while (i > 0 && k->lanes << i > p->n - n)
            i--;
        const int32_t first = bs_conv_min(n, p->n - k->lanes);
        const bs_gemm_row row = {.a = p->a + m * p->a_row,
                                 .depth = p->k,
                                 .b = p->b + first * p->b_step,
                                 .b_step = turns ? p->b_step : p->b_row,
                                 .scale = p->scale,
                                 .out = p->out + m * p->out_row + first};
        kernels[i](&row);
    }
}

/* Rows that do not pay for panels: few of them where rows of b are dense. Where its columns are, one, and none where so
 * many lines of b as a kernel reads at a time are kept in one set of the first cache. Whether the product was of those.
 */
static bool product_rows(const bs_conv_kernels *kernels, const bs_product *p)
{
    const bool lines = p->m <= PRODUCT_FEW && p->b_step == 1 && p->scale == 1.0f;
    const bool turns = p->m == 1 && p->b_row == 1 && p->b_step % (PRODUCT_SET / kernels->lanes) != 0;
    if (p->n < kernels->lanes || p->a_step != 1 || p->out_step != 1 || !(lines || turns))
        return false;
    for (int32_t m = 0; m < p->m; m++)
        product_row(kernels, p, !lines, m);
    return true;
}
#endif

void bs_product_run(bs_tier tier, const bs_product *product)
{
    const bs_conv_kernels *kernels = bs_conv_kernels_of(tier);
    if (product_rows(kernels, product))
        return;
    const product_job j = {product, kernels, tier, product->scratch, product->scratch + panel_floats(kernels)};
    const int32_t each = product->a_step == 1 ? product->m : PRODUCT_ROWS;
    for (int32_t m = 0; m < product->m; m += each)
        for (int32_t k = 0; k == 0 || k < product->k; k += BS_GEMM_DEPTH) /* of no products: zeros */
            product_block(&j, m, bs_conv_min(product->m - m, each), k, bs_conv_min(product->k - k, BS_GEMM_DEPTH));
}
