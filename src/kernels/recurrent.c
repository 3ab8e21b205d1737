/* recurrent.c: packs the weights of an LSTM or a GRU by groups of units, and runs group after group.
 *
 * Owns:      the groups: of a group's columns the panels of x, then those of h, so that weights are read once, in
 *            order, and all gates of a unit are there at once.
 * Relies on: conv_internal.h and gemm.c for the products, arrange.h, functions.h.
 * Must never: do a sum in another order for another number of rows.
 *
 * Layout of a group of `units` (the last one has fewer): GEMM (conv_pack.c) of [inputs] by gates * units columns, then
 * of [hidden] by as many; a column is (gate, unit).
 */
#include "kernels/recurrent.h"

#include "base/base.h"
#include "kernels/arrange.h"
#include "kernels/conv_internal.h"
#include "kernels/functions.h"

#include <string.h>

enum { UNITS_ROWS = 32 /* for which a block of weights stays in the first cache */ };

int32_t bs_recurrent_units(bs_tier tier, bool gru)
{
    return BS_GEMM_ABREAST * BS_GEMM_VECTORS * bs_conv_lanes(tier) / bs_recurrent_gates(gru);
}

/* ---------------------------------------------------------------------------------------------------- weights */

uint64_t bs_recurrent_floats(bs_tier tier, const bs_recurrent *net)
{
    const int32_t units = bs_recurrent_units(tier, net->gru), gates = bs_recurrent_gates(net->gru);
    const uint64_t whole = (uint64_t)(net->hidden / units) * (uint64_t)(gates * units),
                   columns =
                       whole + (uint64_t)bs_conv_round_up(net->hidden % units * gates, bs_conv_lanes(tier)),
                   depth = (uint64_t)net->inputs + (uint64_t)net->hidden;
    return columns > UINT64_MAX / sizeof(float) / depth ? 0 : columns * depth;
}

/* The columns of x (or of h) of units first .. first + units. Returns the end. */
static float *units_pack(bs_tier tier, const bs_recurrent *net, bool of_h, const float *weights, int32_t first,
                             int32_t units, float *to)
{
    const int32_t lanes = bs_conv_lanes(tier), columns = bs_recurrent_gates(net->gru) * units;
    const ptrdiff_t depth = of_h ? net->hidden : net->inputs;
    for (int32_t at = 0; at < columns; at += BS_GEMM_VECTORS * lanes) {
        const int32_t valid = bs_conv_min(columns - at, BS_GEMM_VECTORS * lanes),
                      width = bs_conv_round_up(valid, lanes);
        if (valid < width)
            memset(to, 0, (size_t)depth * (size_t)width * sizeof *to);
        for (int32_t c = 0; c < valid;) {
            const int32_t gate = bs_recurrent_gate(net->gru, of_h, (at + c) / units), unit = (at + c) % units,
                          count = bs_conv_min(valid - c, units - unit);
            bs_transpose_f32(tier, weights + ((ptrdiff_t)gate * net->hidden + first + unit) * depth, depth, count,
                             (int32_t)depth, to + c, width);
            c += count;
        }
        to += depth * width;
    }
    return to;
}

void bs_recurrent_prepare(bs_tier tier, const bs_recurrent *net, const float *of_x, const float *of_h, float *prepared)
{
    const int32_t most = bs_recurrent_units(tier, net->gru);
    for (int32_t first = 0; first < net->hidden; first += most) {
        const int32_t units = bs_conv_min(net->hidden - first, most);
        if (net->inputs > 0)
            prepared = units_pack(tier, net, false, of_x, first, units, prepared);
        prepared = units_pack(tier, net, true, of_h, first, units, prepared);
    }
}

/* -------------------------------------------------------------------------------------------------------- run */

/* A group of units of some rows. */
typedef struct units_job {
    bs_tier tier;
    const bs_conv_kernels *kernels;
    const bs_recurrent *net;
    const bs_recurrent_rows *rows;
    const float *weights, *bias;
    int32_t first, units;
    float *sums; /* [UNITS_ROWS][4 columns][units] */
} units_job;

/* x (or h) by the group's panels, added to what the sums are. */
static void units_product(const units_job *j, bool of_h, int64_t row, int32_t n)
{
    const bs_recurrent *net = j->net;
    const int32_t gates = bs_recurrent_gates(net->gru), columns = gates * j->units;
    const bs_conv_geometry g = {of_h ? net->hidden : net->inputs, columns, 1, 1, 1, 1, 1, 1, 1};
    const ptrdiff_t step = of_h ? j->rows->h_row : j->rows->x_row;
    const ptrdiff_t of_x = (ptrdiff_t)net->inputs * bs_conv_round_up(columns, j->kernels->lanes);
    const bs_conv_task task = {.in = (of_h ? j->rows->h : j->rows->x) + (ptrdiff_t)row * step,
                               .in_pixel = (int32_t)step,
                               .out = j->sums + (of_h ? (BS_RECURRENT_COLUMNS - gates) * j->units : 0),
                               .out_pixel = BS_RECURRENT_COLUMNS * j->units,
                               .out_h = 1,
                               .out_w = n,
                               .weights = j->weights + (of_h ? of_x : 0),
                               .onto = true};
    bs_conv_run_gemm(&g, j->kernels, &task);
}

/* Fetches what the next group reads of a row besides weights: rows lie apart, which no processor foresees. Must be
 * inlined, as bs_conv_fetch. */
static inline __attribute__((always_inline)) void units_fetch(const units_job *j, int64_t row)
{
    const bs_recurrent *net = j->net;
    const int32_t next = j->first + j->units, last = bs_conv_min(j->units, net->hidden - next) - 1;
    const float *x = j->rows->x + (ptrdiff_t)row * j->rows->x_row + next,
                *c = j->rows->c + (ptrdiff_t)row * j->rows->c_row + next;
    for (int32_t gate = 0; last >= 0 && gate < bs_recurrent_gates(net->gru) && net->inputs == 0; gate++) {
        __builtin_prefetch(x + (ptrdiff_t)gate * net->hidden);
        __builtin_prefetch(x + (ptrdiff_t)gate * net->hidden + last);
    }
    if (last >= 0)
        __builtin_prefetch(c + last);
}

/* x, which is projected, is added to the sums of one row. */
static void units_add(const units_job *j, int64_t row, float *sums)
{
    const float *x = j->rows->x + (ptrdiff_t)row * j->rows->x_row + j->first;
    for (int32_t column = 0; column < bs_recurrent_gates(j->net->gru); column++, sums += j->units) {
        const float *of_gate = x + (ptrdiff_t)bs_recurrent_gate(j->net->gru, false, column) * j->net->hidden;
        for (int32_t k = 0; k < j->units; k++)
            sums[k] += of_gate[k];
    }
}

/* Columns i, f, o, g become c' and h'. */
static void units_lstm(const units_job *j, int64_t row, float *s)
{
    const bs_recurrent_rows *r = j->rows;
    const int32_t n = j->units;
    const float *c = r->c + (ptrdiff_t)row * r->c_row + j->first;
    float *c_out = r->c_out + (ptrdiff_t)row * r->c_out_row + j->first,
          *h_out = r->h_out + (ptrdiff_t)row * r->h_out_row + j->first;
    bs_row_lstm(j->tier, s, c, c_out, h_out, n);
}

/* Columns n of x, r, z, n of h become h'. */
static void units_gru(const units_job *j, int64_t row, float *s)
{
    const bs_recurrent_rows *rows = j->rows;
    const int32_t n = j->units;
    const float *h = rows->h + (ptrdiff_t)row * rows->h_row + j->first, *r = s + n, *z = s + 2 * n, *of_h = s + 3 * n;
    float *h_out = rows->h_out + (ptrdiff_t)row * rows->h_out_row + j->first;
    bs_row_function(j->tier, BS_SIGMOID, r, 1, s + n, 1, 2 * n);
    for (int32_t k = 0; k < n; k++)
        s[k] += r[k] * of_h[k];
    bs_row_function(j->tier, BS_TANH, s, 1, s, 1, n);
    for (int32_t k = 0; k < n; k++)
        h_out[k] = s[k] + z[k] * (h[k] - s[k]);
}

static void units_rows(const units_job *j, int64_t row, int32_t n)
{
    const int32_t width = BS_RECURRENT_COLUMNS * j->units;
    for (int32_t i = 0; i < n; i++) {
        memcpy(j->sums + (ptrdiff_t)i * width, j->bias, sizeof(float) * (size_t)width);
        if (j->net->inputs == 0)
            units_add(j, row + i, j->sums + (ptrdiff_t)i * width);
        units_fetch(j, row + i);
    }
    if (j->net->inputs > 0)
        units_product(j, false, row, n);
    units_product(j, true, row, n);
    for (int32_t i = 0; i < n; i++)
        (j->net->gru ? units_gru : units_lstm)(j, row + i, j->sums + (ptrdiff_t)i * width);
}

size_t bs_recurrent_scratch_floats(bs_tier tier, const bs_recurrent *net)
{
    const int32_t units = bs_conv_min(bs_recurrent_units(tier, net->gru), net->hidden);
    return (size_t)(UNITS_ROWS * BS_RECURRENT_COLUMNS * units);
}

void bs_recurrent_run(bs_tier tier, const bs_recurrent *net, const float *prepared, const float *bias,
                      const bs_recurrent_rows *rows, float *scratch)
{
    const int32_t most = bs_recurrent_units(tier, net->gru), gates = bs_recurrent_gates(net->gru);
    units_job j = {.tier = tier,
                       .kernels = bs_conv_kernels_of(tier),
                       .net = net,
                       .rows = rows,
                       .weights = prepared,
                       .bias = bias,
                       .sums = scratch};
    for (; j.first < net->hidden; j.first += j.units) {
        j.units = bs_conv_min(net->hidden - j.first, most);
        for (int64_t row = 0; row < rows->n; row += UNITS_ROWS)
            units_rows(&j, row, (int32_t)bs_min_i64(rows->n - row, UNITS_ROWS));
        j.weights += (ptrdiff_t)bs_conv_round_up(gates * j.units, j.kernels->lanes) * (net->inputs + net->hidden);
        j.bias += BS_RECURRENT_COLUMNS * j.units;
    }
}
