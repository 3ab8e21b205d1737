/* report.h: what video_sr tells of a run: the statistics as JSON, the routes drawn over the picture.
 * Owns: the JSON's keys, the colours of the map. Relies on: upscaler.h, y4m.h, frame_rgb.h,
 * pictures/canvas.h, pictures/png.h.
 * Must never: touch the video that is written. */
#ifndef REPORT_H
#define REPORT_H

#include "upscaler.h"
#include "y4m.h"

#include <stdio.h>

typedef struct run_facts {
    const video_options *options;
    const upscaler *up;
    const y4m_info *out;
    int64_t frames;
    double seconds;
    double seconds_network; /* from submitting to the end; on a GPU with what the host did meanwhile */
    double seconds_waited;  /* of them the host stood still: all but nothing on a CPU */
    bool has_reference;
    double psnr, ssim; /* means over frames */
    uint64_t frame_bytes; /* video_sr's own buffers */
    stream_facts stream;
} run_facts;

/* Closes the file. False, and errno says why: it could not take it all. */
bool report_json(FILE *file, const run_facts *facts);
/* A few lines for people. */
void report_summary(const run_facts *r);

/* Draws on a copy of an output frame (y4m order): chroma tinted by route, borders of cells darkened. */
void report_tint(const y4m_info *info, void *frame, const upscaler_map *map);
/* The same as a PNG with a legend; as report_json. scratch: report_map_bytes, aligned for uint64_t. */
size_t report_map_bytes(const y4m_info *info);
bool report_map_png(FILE *file, const y4m_info *info, const void *frame, const upscaler_map *map, void *scratch);

#endif
