/* cuda_nets_loops.c: networks with time: trips of one add, an LSTM over a sequence, recursion over trees. See
 * cuda_nets.h. */
#include "cuda_nets.h"

#include <math.h>
#include <stdio.h>

/* ---------------------------------------------------------------------------------------------------------- trips */

bool cuda_net_trips(cuda_net *net, const cuda_trips_desc *d)
{
    char name[40];
    snprintf(name, sizeof name, "%d trips of one add", (int)d->trips);
    if (!cuda_net_begin(net, name, 64))
        return false;
    bs_graph *g = net->graph;
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(d->rows, d->width)), BS_NONE),
                   counts = bs_rows(g, bs_input(g, "counts", BS_I32, BS_SHAPE2(d->rows, 1)), x);
    const bs_router loop = bs_loop_begin(g, x, counts, &(bs_loop_desc){.name = "trips", .bound = d->trips});
    const bs_value was = bs_loop_carry(g, loop, x),
                   end = bs_loop_next(g, loop, was, bs_add(g, was, bs_scatter(g, loop, 0, x)));
    bs_loop_end(g, loop, BS_NONE);
    bs_output(g, "y", bs_collect(g, end));
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    int32_t *to = cuda_net_input(net, "counts", cuda_net_buffer(BS_I32, 2, d->rows, 1, 0, 0));
    for (int32_t r = 0; to && r < d->rows; r++)
        to[r] = d->trips;
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, d->rows, d->width, 0, 0));
    net->flops = (double)d->rows * d->width * d->trips;
    return cuda_net_ready(net);
}

/* ----------------------------------------------------------------------------------------------------------- LSTM */

static void recurrent_weights(cuda_net *net, const char *name, int32_t hidden)
{
    const float scale = 1.0f / sqrtf((float)hidden);
    cuda_net_weight(net, name, "weight_hh", 2, (const int64_t[]){4 * hidden, hidden}, scale);
    cuda_net_weight(net, name, "bias_hh", 1, (const int64_t[]){4 * hidden}, scale);
}

/* All products with the inputs before the loop, as one. */
bool cuda_net_lstm(cuda_net *net, const cuda_lstm_desc *d)
{
    char name[40];
    snprintf(name, sizeof name, "LSTM %d to %d, %d steps, batch %d", (int)d->width, (int)d->hidden, (int)d->steps,
             (int)d->rows);
    if (!cuda_net_begin(net, name, 64))
        return false;
    bs_graph *g = net->graph;
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(d->rows, d->steps, d->width)), BS_NONE),
                   zero = bs_rows(g, bs_input(g, "zero", BS_F32, BS_SHAPE2(d->rows, d->hidden)), x),
                   projected = cuda_net_linear(net, x, "project", d->width, 4 * d->hidden, BS_ACT_NONE);
    const bs_router loop = bs_loop_begin(g, x, BS_NONE, &(bs_loop_desc){.name = "steps", .over = x});
    const bs_value h = bs_loop_carry(g, loop, zero), c = bs_loop_carry(g, loop, zero);
    bs_value c_next;
    const bs_value h_next = bs_lstm(g, bs_loop_slice(g, loop, projected), h, c,
                                    &(bs_recurrent_desc){.name = "lstm", .projected = 1}, &c_next);
    const bs_value end = bs_loop_next(g, loop, h, h_next);
    bs_loop_next(g, loop, c, c_next);
    bs_loop_end(g, loop, BS_NONE);
    bs_output(g, "y", bs_collect(g, end));
    recurrent_weights(net, "lstm", d->hidden);
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 3, d->rows, d->steps, d->width, 0));
    float *to = cuda_net_input(net, "zero", cuda_net_buffer(BS_F32, 2, d->rows, d->hidden, 0, 0));
    for (int64_t i = 0; to && i < (int64_t)d->rows * d->hidden; i++)
        to[i] = 0;
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, d->rows, d->hidden, 0, 0));
    net->flops = 8.0 * d->rows * d->steps * d->hidden * (d->width + d->hidden);
    return cuda_net_ready(net);
}

/* ---------------------------------------------------------------------------------------------------------- trees */

/* Binary trees of `leaves` leaves, vertices in order of levels: a vertex is tanh(W [left; right] + x). */
static void complete_trees(int32_t *lengths, int32_t *indices, const cuda_trees_desc *d)
{
    int32_t n = 0;
    for (int32_t t = 0; t < d->trees; t++) {
        const int32_t first = t * (2 * d->leaves - 1);
        for (int32_t v = 0; v < 2 * d->leaves - 1; v++) {
            lengths[first + v] = v < d->leaves ? 0 : 2;
            for (int32_t k = 0; v >= d->leaves && k < 2; k++)
                indices[n++] = first + 2 * (v - d->leaves) + k;
        }
    }
}

bool cuda_net_trees(cuda_net *net, const cuda_trees_desc *d)
{
    const int32_t rows = d->trees * (2 * d->leaves - 1), edges = d->trees * 2 * (d->leaves - 1);
    char name[40];
    snprintf(name, sizeof name, "%d trees of %d leaves", (int)d->trees, (int)d->leaves);
    if (!cuda_net_begin(net, name, 64))
        return false;
    bs_graph *g = net->graph;
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(rows, d->hidden)), BS_NONE);
    const bs_value children = bs_children(g, bs_input(g, "lengths", BS_I32, BS_SHAPE1(rows)),
                                          bs_input(g, "indices", BS_I32, BS_SHAPE1(edges)), 2);
    const bs_router loop = bs_loop_begin(
        g, x, bs_rows(g, bs_levels(g, children), x),
        &(bs_loop_desc){.name = "trees", .bound = d->leaves, .in_turn = 1});
    const bs_value h = bs_loop_carry(g, loop, x),
                   below = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, bs_rows(g, children, x))),
                   both = bs_reshape(g, below, BS_SHAPE1(2 * d->hidden)),
                   own = bs_add(g, cuda_net_linear(net, both, "vertex", 2 * d->hidden, d->hidden, BS_ACT_NONE),
                                bs_scatter(g, loop, 0, x)),
                   end = bs_loop_next(g, loop, h, bs_activation(g, own, BS_TANH, 0.0f));
    bs_loop_end(g, loop, BS_NONE);
    bs_output(g, "y", bs_collect(g, end));
    cuda_net_input(net, "x", cuda_net_buffer(BS_F32, 2, rows, d->hidden, 0, 0));
    int32_t *lengths = cuda_net_input(net, "lengths", cuda_net_buffer(BS_I32, 1, rows, 0, 0, 0)),
            *indices = cuda_net_input(net, "indices", cuda_net_buffer(BS_I32, 1, edges, 0, 0, 0));
    if (lengths && indices)
        complete_trees(lengths, indices, d);
    cuda_net_output(net, "y", cuda_net_buffer(BS_F32, 2, rows, d->hidden, 0, 0));
    net->flops = 4.0 * d->trees * (2.0 * d->leaves - 1) * d->hidden * d->hidden;
    return cuda_net_ready(net);
}
