/* recurrent.h: one step of an LSTM or a GRU for some rows, gates and states in one pass over the weights.
 *
 * Owns:      the layout of its weights, and the order of gates within it.
 * Relies on: tier.h.
 * Must never: allocate, keep state, or let a row's arithmetic depend on how many rows there are.
 *
 * A sum is the products of x, then those of h, in blocks of 192 (gemm.c); activations are those of functions.h.
 *
 *     LSTM   i, f, o = sigmoid, g = tanh of W_ih x + W_hh h + b;  c' = f c + i g;  h' = o tanh(c')
 *     GRU    r, z = sigmoid of W_ih x + W_hh h + b;  n = tanh(W_in x + b_in + r (W_hn h + b_hn));  h' = n + z (h - n)
 */
#ifndef BS_KERNELS_RECURRENT_H
#define BS_KERNELS_RECURRENT_H

#include <stdbool.h>

#include "base/both.h"
#include "kernels/tier.h"

/* Sums of a unit. Columns of x are the first ones (a GRU's n from x, r, z), columns of h the last ones (r, z, n from
 * h): an LSTM's are the same four. */
enum { BS_RECURRENT_COLUMNS = 4 };

typedef struct bs_recurrent {
    int32_t inputs, hidden; /* >= 1; inputs 0: x is what their products would be */
    bool gru;
} bs_recurrent;

/* How many of a unit's columns take x, and as many h; and which gate of PyTorch's order such a column is: i, f, o, g;
 * n, r, z; r, z, n. */
static inline BS_BOTH int32_t bs_recurrent_gates(bool gru) { return gru ? 3 : 4; }
static inline BS_BOTH int32_t bs_recurrent_gate(bool gru, bool of_h, int32_t column)
{
    return !gru ? column ^ column >> 1 : of_h ? column : (column + 2) % 3;
}

/* Floats of a row of x. */
static inline int32_t bs_recurrent_width(const bs_recurrent *net)
{
    return net->inputs > 0 ? net->inputs : bs_recurrent_gates(net->gru) * net->hidden;
}

/* Rows are dense, row strides in floats and within int32_t. c and c_out: of an LSTM only. */
typedef struct bs_recurrent_rows {
    int64_t n;
    const float *x, *h, *c;
    ptrdiff_t x_row, h_row, c_row;
    float *h_out, *c_out; /* h_out overlaps nothing else; c_out may be c */
    ptrdiff_t h_out_row, c_out_row;
} bs_recurrent_rows;

/* Floats of packed weights, which bs_recurrent_prepare makes of [gates * hidden][inputs] and [gates * hidden][hidden]
 * by running no instructions of the tier. 0: too many. */
uint64_t bs_recurrent_floats(bs_tier tier, const bs_recurrent *net);
void bs_recurrent_prepare(bs_tier tier, const bs_recurrent *net, const float *of_x, const float *of_h, float *prepared);

/* Units that are computed together: their columns are whole panels. Biases are [4 columns][units] for each such group.
 */
int32_t bs_recurrent_units(bs_tier tier, bool gru);

/* Scratch for each thread. */
size_t bs_recurrent_scratch_floats(bs_tier tier, const bs_recurrent *net);
void bs_recurrent_run(bs_tier tier, const bs_recurrent *net, const float *prepared, const float *bias,
                      const bs_recurrent_rows *rows, float *scratch);

#endif
