/* options.h: the command line of video_sr.
 * Owns: the list of options, their texts and checks. Relies on: brainstorm.h for tier names, stream_options.h for
 *   --slots and what goes with it, device_options.h for --device, shipped.h for the default model, words.h.
 * Must never: open anything. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "brainstorm.h"
#include "device_options.h"
#include "stream_options.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum video_route { ROUTE_AUTO, ROUTE_BICUBIC, ROUTE_SMALL, ROUTE_LARGE, ROUTE_EXIT1, ROUTE_EXIT2 } video_route;

typedef struct video_options {
    const char *input, *output;
    const char *model; /* as named, or: */
    char shipped[512]; /* where the one lies that ships */
    const char *map, *reference, *stats;
    video_route route;
    bool reuse, quiet, help;
    bool map_is_png; /* else a y4m video */
    double quality; /* percent of the large net's gain over bicubic that the router keeps */
    double floor;   /* dB against the large net's result that are always near enough; 0 none, -1 the model's */
    int threads;
    bs_tier tier;
    bs_conv_choice conv;
    bs_order order;
    int tile; /* input pixels; 0 = the model's */
    int64_t frames; /* at most; -1 all */
    device_options device;
    stream_options stream;
} video_options;

/* Returns NULL when all is well, else what is wrong (in `message`, or a constant). */
const char *options_parse(video_options *options, int argc, char **argv, char *message, size_t bytes);
const char *options_usage(void);
const char *options_route_name(video_route route);

#endif
