/* upscaler.h: the network of video_sr: a model file becomes a session that doubles luma planes.
 *
 * Owns: the graph, the plan, the session and the arenas they live in; the GPU's memory where one computes.
 * Relies on: brainstorm.h, arenas.h; stream_options.h where weights are streamed, device_options.h for a GPU.
 * Must never: know of y4m, files other than the model, or the command line's wording.
 */
#ifndef UPSCALER_H
#define UPSCALER_H

#include "arenas.h"
#include "brainstorm.h"
#include "options.h"

/* Exits of the large net: each router decides whether a cell leaves. */
#define UPSCALER_EXITS 2
#define UPSCALER_ROUTES 4 /* reuse, bicubic, small, large */

typedef struct upscaler_tallies { /* summed over frames */
    uint64_t frames;
    uint64_t cells[UPSCALER_ROUTES];
    uint64_t exits[UPSCALER_EXITS + 1]; /* cells that left the large net at each exit; the last is its end */
    uint64_t route_ns[UPSCALER_ROUTES]; /* large: up to the first exit */
    uint64_t exit_ns[UPSCALER_EXITS][2]; /* leaving there, going on to the next */
    uint64_t routing_ns, total_ns;
} upscaler_tallies;

typedef struct upscaler {
    bs_memory memory;
    bs_model *model;
    bs_graph *graph;
    bs_plan *plan;
    bs_session *session;
    arenas arenas; /* of these, and of memory */
    bs_arena index_memory, graph_memory, plan_memory;
    bs_sizes planned;
    device_tools gpu;
    uint64_t fixed_bytes; /* model index, graph and plan, and what is known of a GPU */
    int width, height, bits, tile;
    bool routed;
    bool plain; /* one input, one output, nothing to decide: */
    struct {
        const char *in, *out; /* their names */
        int32_t rank;         /* of both; dimensions before the last two are 1 */
        bs_dtype dtype;
        float *from, *to;     /* planes of f32, 0 to 1; NULL: the model takes codes */
        void *result;         /* of the run that was submitted */
        ptrdiff_t stride;
    } planes;
    bs_arena from_memory, to_memory;
    video_route route;
    float budget;
    double floor; /* dB, 0: none; NaN: nothing is decided by a budget */
    upscaler_tallies tallies;
    bs_error error;
} upscaler;

/* Width and height of the input, 8 or 10 bits a sample. False: error.message says why. */
bool upscaler_open(upscaler *u, const video_options *options, int width, int height, int bits);
/* The same with a platform or a profile; they must outlive the upscaler. tools may be NULL. */
bool upscaler_open_with(upscaler *u, const video_options *options, const stream_tools *tools, int width, int height,
                        int bits);
/* Ends its threads; no runs from here on, and upscaler_last knows nothing. Before upscaler_touched, when weights are
 * streamed. */
void upscaler_stop(upscaler *u);
void upscaler_close(upscaler *u);

/* Doubles one luma plane; strides in samples. */
bool upscaler_run(upscaler *u, const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride, bool reuse);
/* Its two halves. On a GPU submit returns before the plane is there, and until upscaler_wait neither plane may be
 * touched. On a CPU submit does it all. */
bool upscaler_submit(upscaler *u, const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride, bool reuse);
bool upscaler_wait(upscaler *u);

/* What the last frame did: cells of `size` input pixels, row by row. route: 0 reuse .. 3 large; exit: 0.. or -1. */
typedef struct upscaler_map {
    int across, down, size;
    const int16_t *route; /* NULL: one_route for all */
    video_route one_route;
    const int16_t *exit[UPSCALER_EXITS];
} upscaler_map;
void upscaler_last(const upscaler *u, upscaler_map *map);

/* Bytes of the arenas that were really written, found by the pattern painted before the start. */
uint64_t upscaler_touched(const upscaler *u);

#endif
