/* cuda_nets.h: the networks that the GPU benchmark runs and tests/test_cuda_nets.c checks, in any size.
 *
 * Owns: graph, weights (made up from their names, or a model's), inputs, room for the output.
 * Relies on: brainstorm.h. Must never: let a value depend on anything but its name and index: peers read the same ones.
 */
#ifndef CUDA_NETS_H
#define CUDA_NETS_H

#include "brainstorm.h"

#include <stdbool.h>

enum { CUDA_NET_INPUTS = 4, CUDA_NET_FORCES = 4 };

typedef struct cuda_weight {
    char name[BS_MAX_NAME];
    uint32_t seed;
    float scale; /* uniform in -scale .. scale */
    bs_weight_info info; /* f32; handle: its index */
} cuda_weight;

typedef struct cuda_net {
    char name[40];
    void *memory;       /* of the graph, and of the model's index */
    bs_graph *graph;
    bs_model *model;    /* that the weights come from, or NULL */
    cuda_weight *weights;
    int32_t n_weights, room_weights;
    int32_t n_inputs;
    const char *input_names[CUDA_NET_INPUTS], *output_name;
    bs_buffer inputs[CUDA_NET_INPUTS], output;
    int32_t n_forces;
    bs_force forces[CUDA_NET_FORCES];
    int32_t patch_size;
    bool keeps_state;     /* reset it before every run */
    int32_t *path_of_row; /* of a routed net: what its inputs ask for; NULL: not known ahead */
    int32_t rows;
    /* Of a run: operations of the direct algorithm; the least that must be read and written: weights used (as f32),
     * inputs and outputs. */
    double flops, weight_bytes, io_bytes;
    bs_error error;
} cuda_net;

/* All return false with net->error set; the net is closed by cuda_net_close in any case. */

/* LiveSR (OSDI'23, section 8): cells [3, side, side] through `subnets` of `channels` and `residual` blocks, enlarged 4
 * times, routed by label so that loads are in the proportions of the published ones. Its body keeps the cell's size,
 * its tail enlarges: apart, because a cell of the body may fit into shared memory where one of the tail does not. */
typedef enum cuda_livesr_part { CUDA_LIVESR_ALL, CUDA_LIVESR_BODY, CUDA_LIVESR_TAIL } cuda_livesr_part;
typedef struct cuda_livesr_desc {
    int32_t subnets, channels, residual, cells, side, part;
} cuda_livesr_desc;
bool cuda_net_livesr(cuda_net *net, const cuda_livesr_desc *desc);

/* A layer of a mixture of experts: rows [width] to the expert with the highest score, width -> hidden (ReLU) -> width.
 * skew 0: as even as can be; 1: expert i gets a share in proportion to 1 / (i + 1). */
typedef struct cuda_moe_desc {
    int32_t experts, rows, width, hidden, skew;
} cuda_moe_desc;
bool cuda_net_moe(cuda_net *net, const cuda_moe_desc *desc);
/* One expert of that layer by itself, without routing, on its rows of `whole`. The expert must have rows. */
bool cuda_net_expert(cuda_net *net, const cuda_moe_desc *desc, const cuda_net *whole, int32_t expert);

/* Rows [width] scattered to `paths` by label and gathered again. touched 1: a path doubles its rows in between, so that
 * the scatter, the doubling and the gather are passes of their own unless they are fused. */
typedef struct cuda_copy_desc {
    int32_t rows, width, paths, touched;
} cuda_copy_desc;
bool cuda_net_copy(cuda_net *net, const cuda_copy_desc *desc);

/* Phases of `layers` 3x3 convolutions, an exit before each but the first: a cell leaves where its score says so. Scores
 * are an input, so that the depth is chosen: cells leave after `depth` phases. */
typedef struct cuda_exits_desc {
    int32_t cells, channels, side, phases, layers, depth;
} cuda_exits_desc;
bool cuda_net_exits(cuda_net *net, const cuda_exits_desc *desc);

/* Rows [width] to which each of `trips` trips adds what they began with: what a trip costs. */
typedef struct cuda_trips_desc {
    int32_t rows, width, trips;
} cuda_trips_desc;
bool cuda_net_trips(cuda_net *net, const cuda_trips_desc *desc);

/* An LSTM over sequences [steps, width], products with the inputs before the loop; gives the last h [hidden]. */
typedef struct cuda_lstm_desc {
    int32_t rows, steps, width, hidden;
} cuda_lstm_desc;
bool cuda_net_lstm(cuda_net *net, const cuda_lstm_desc *desc);

/* Complete binary trees, level by level: a vertex [hidden] is tanh(W [left; right] + b + x). leaves: a power of 2. */
typedef struct cuda_trees_desc {
    int32_t trees, leaves, hidden;
} cuda_trees_desc;
bool cuda_net_trees(cuda_net *net, const cuda_trees_desc *desc);

/* A super-resolution model on a frame of edges and noise. large: its large net on every cell; else routed with
 * `budget`. */
bool cuda_net_sr(cuda_net *net, const char *model, int32_t width, int32_t height, bool large, float budget);

void cuda_net_close(cuda_net *net);
bs_weights cuda_net_weights(const cuda_net *net);
/* How `cells` are shared out in proportion to shares[n]: by largest remainder. */
void cuda_net_loads(const double *shares, int32_t n, int32_t cells, int32_t *loads);
int64_t cuda_net_elements(const bs_buffer *buffer);
double cuda_net_value(const bs_buffer *buffer, const void *data, int64_t index);

/* ------------------------------------------------------------------------------- for what builds networks
 * (cuda_nets_*.c) */

bool cuda_net_begin(cuda_net *net, const char *name, int32_t nodes);
bool cuda_net_ready(cuda_net *net);
bool cuda_net_fail(cuda_net *net, bs_status status, const char *message);
void cuda_net_weight(cuda_net *net, const char *name, const char *suffix, int32_t rank, const int64_t *dim,
                     float scale);
bs_buffer cuda_net_buffer(bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
/* The input's data; f32 is filled. */
void *cuda_net_input(cuda_net *net, const char *name, bs_buffer buffer);
void cuda_net_output(cuda_net *net, const char *name, bs_buffer buffer);
bs_value cuda_net_conv(cuda_net *net, bs_value x, const char *name, int32_t in, int32_t out, bs_act act, float gain);
bs_value cuda_net_linear(cuda_net *net, bs_value x, const char *name, int32_t in, int32_t out, bs_act act);
/* Rows get paths by these loads, in a scrambled order: net->path_of_row. */
bool cuda_net_deal(cuda_net *net, const int32_t *loads, int32_t paths, int32_t rows);

#endif
