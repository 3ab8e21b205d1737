/* report.c: see report.h. */
#include "report.h"

#include "files.h"
#include "frame_rgb.h"
#include "json_text.h"
#include "pictures/canvas.h"
#include "pictures/png.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASS_REUSE, CLASS_BICUBIC, CLASS_SMALL, CLASS_EXIT1, CLASS_EXIT2, CLASS_LARGE, CLASSES };

static const char *const class_names[CLASSES] = {"reuse",         "bicubic",       "small",
                                                 "large, exit 1", "large, exit 2", "large, end"};
static const canvas_colour class_colours[CLASSES] = {{70, 70, 80},   {40, 110, 255}, {40, 200, 90},
                                                     {250, 220, 40}, {250, 140, 30}, {235, 40, 40}};

/* ------------------------------------------------------------------------------------------------- numbers */

static uint64_t cells_total(const upscaler_tallies *t)
{
    uint64_t n = 0;
    for (int p = 0; p < UPSCALER_ROUTES; p++)
        n += t->cells[p];
    return n;
}

static double share(uint64_t n, uint64_t of)
{
    return of ? (double)n / (double)of : 0;
}

static void json_number(FILE *f, const char *key, double value)
{
    if (isfinite(value))
        fprintf(f, "  \"%s\": %.6g,\n", key, value);
    else
        fprintf(f, "  \"%s\": null,\n", key);
}

static void json_word(FILE *f, const char *key, const char *text)
{
    fprintf(f, "  \"%s\": ", key);
    json_text(f, text);
    fprintf(f, ",\n");
}

static void json_routes(FILE *f, const upscaler_tallies *t)
{
    static const char *const names[UPSCALER_ROUTES] = {"reuse", "bicubic", "small", "large"};
    const uint64_t all = cells_total(t);
    fprintf(f, "  \"routes\": {");
    for (int p = 0; p < UPSCALER_ROUTES; p++)
        fprintf(f, "%s\n    \"%s\": {\"cells\": %llu, \"share\": %.6g, \"seconds\": %.6g}", p ? "," : "", names[p],
                (unsigned long long)t->cells[p], share(t->cells[p], all), (double)t->route_ns[p] * 1e-9);
    fprintf(f, "\n  },\n  \"exits\": [");
    /* Time of a cell that leaves at exit e: the way there and the exit's own tail. */
    double way = t->cells[3] ? (double)t->route_ns[3] / (double)t->cells[3] : 0;
    uint64_t inside = t->cells[3];
    for (int e = 0; e <= UPSCALER_EXITS; e++) {
        const uint64_t left = t->exits[e];
        double cell = way;
        if (e < UPSCALER_EXITS) {
            cell += left ? (double)t->exit_ns[e][0] / (double)left : 0;
            inside -= left;
            way += inside ? (double)t->exit_ns[e][1] / (double)inside : 0;
        }
        fprintf(f, "%s\n    {\"exit\": %d, \"cells\": %llu, \"share\": %.6g, \"us_a_cell\": %.6g}", e ? "," : "", e + 1,
                (unsigned long long)left, share(left, t->cells[3]), left ? cell * 1e-3 : 0.0);
    }
    fprintf(f, "\n  ],\n");
}

bool report_json(FILE *f, const run_facts *r)
{
    const upscaler *u = r->up;
    fprintf(f, "{\n");
    json_word(f, "model", r->options->model);
    json_word(f, "route", options_route_name(r->options->route));
    json_word(f, "tier",
              bs_tier_name(u->gpu.used        ? BS_TIER_CUDA
                           : r->options->tier ? r->options->tier
                                              : bs_tier_best()));
    fprintf(f, "  \"device\": ");
    device_json(f, &u->gpu);
    fprintf(f, ",\n");
    fprintf(f, "  \"threads\": %d,\n  \"quality\": %g,\n  \"width\": %d,\n  \"height\": %d,\n  \"frames\": %lld,\n",
            r->options->threads, r->options->quality, r->out->width, r->out->height, (long long)r->frames);
    json_number(f, "floor", u->floor); /* null: nothing is decided by a budget */
    json_number(f, "seconds", r->seconds);
    json_number(f, "fps", r->seconds > 0 ? (double)r->frames / r->seconds : 0);
    json_number(f, "seconds_network", r->seconds_network);
    json_number(f, "seconds_waited", r->seconds_waited);
    json_number(f, "seconds_routing", u->gpu.used ? NAN : (double)u->tallies.routing_ns * 1e-9);
    json_routes(f, &u->tallies);
    json_number(f, "psnr_y", r->has_reference ? r->psnr : NAN);
    json_number(f, "ssim_y", r->has_reference ? r->ssim : NAN);
    fprintf(f, "  \"streaming\": ");
    stream_json(f, &r->stream);
    fprintf(f, ",\n");
    const uint64_t planned = u->fixed_bytes + u->planned.persistent + u->planned.transient + u->planned.staging +
                             u->planned.slots;
    fprintf(
        f,
        "  \"arena_bytes\": {\"graph_and_plan\": %llu, \"persistent\": %llu, \"transient\": %llu, \"staging\": %llu, "
        "\"slots\": %llu, \"device\": %llu, \"pinned\": %llu},\n",
        (unsigned long long)u->fixed_bytes, (unsigned long long)u->planned.persistent,
        (unsigned long long)u->planned.transient, (unsigned long long)u->planned.staging,
        (unsigned long long)u->planned.slots, (unsigned long long)u->planned.device,
        (unsigned long long)u->planned.pinned);
    fprintf(f,
            "  \"arena_bytes_planned\": %llu,\n  \"arena_bytes_touched\": %llu,\n  \"frame_buffer_bytes\": %llu\n}\n",
            (unsigned long long)planned, (unsigned long long)upscaler_touched(u), (unsigned long long)r->frame_bytes);
    return files_close(f);
}

void report_summary(const run_facts *r)
{
    const upscaler_tallies *t = &r->up->tallies;
    const uint64_t all = cells_total(t);
    if (r->up->routed && all) {
        fprintf(stderr, "cells: %.1f %% reuse, %.1f %% bicubic, %.1f %% small, %.1f %% large",
                100 * share(t->cells[0], all), 100 * share(t->cells[1], all), 100 * share(t->cells[2], all),
                100 * share(t->cells[3], all));
        fprintf(stderr, " (exits %.0f / %.0f / %.0f %%)", 100 * share(t->exits[0], t->cells[3]),
                100 * share(t->exits[1], t->cells[3]), 100 * share(t->exits[2], t->cells[3]));
        if (!r->up->gpu.used) /* a GPU does not tell when it began to compute */
            fprintf(stderr, "; routing %.2f ms a frame",
                    (double)t->routing_ns * 1e-6 / (double)(t->frames ? t->frames : 1));
        fprintf(stderr, "\n");
    }
    if (r->has_reference)
        fprintf(stderr, "against the reference: PSNR-Y %.3f dB, SSIM %.4f\n", r->psnr, r->ssim);
    device_summary(stderr, &r->up->gpu);
    if (r->up->gpu.used && t->frames)
        fprintf(stderr, "a frame: %.2f ms from input to output, %.2f ms of them waited for the GPU\n",
                r->seconds_network * 1e3 / (double)t->frames, r->seconds_waited * 1e3 / (double)t->frames);
    stream_summary(stderr, &r->stream);
}

/* ---------------------------------------------------------------------------------------------------- map */

static int cell_class(const upscaler_map *map, int cell)
{
    if (!map->route)
        return map->one_route == ROUTE_BICUBIC ? CLASS_BICUBIC
               : map->one_route == ROUTE_SMALL ? CLASS_SMALL
               : map->one_route == ROUTE_EXIT1 ? CLASS_EXIT1
               : map->one_route == ROUTE_EXIT2 ? CLASS_EXIT2
                                               : CLASS_LARGE;
    if (map->route[cell] < 3)
        return map->route[cell] < 0 ? CLASS_REUSE : map->route[cell];
    for (int e = 0; e < UPSCALER_EXITS; e++)
        if (map->exit[e] && map->exit[e][cell] == 0)
            return CLASS_EXIT1 + e;
    return CLASS_LARGE;
}

static void tint_plane(const y4m_info *info, uint8_t *frame, int plane, const upscaler_map *map)
{
    const int bits = y4m_facts(info->layout)->bits, w = y4m_plane_width(info, plane), h = y4m_plane_height(info, plane);
    uint8_t *data = frame + y4m_plane_offset(info, plane);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            const int cy = (int)((int64_t)y * info->height / h) / (2 * map->size),
                      cx = (int)((int64_t)x * info->width / w) / (2 * map->size);
            const canvas_colour c = class_colours[cell_class(map, cy * map->across + cx)];
            const double tone = plane == 1 ? 128 - 0.169 * c.r - 0.331 * c.g + 0.5 * c.b
                                           : 128 + 0.5 * c.r - 0.419 * c.g - 0.081 * c.b;
            const size_t at = (size_t)y * (size_t)w + (size_t)x;
            if (bits == 8)
                data[at] = (uint8_t)((data[at] + 2 * tone) / 3);
            else
                ((uint16_t *)(void *)data)[at] = (uint16_t)((((uint16_t *)(void *)data)[at] + 8 * tone) / 3);
        }
    }
}

void report_tint(const y4m_info *info, void *frame, const upscaler_map *map)
{
    for (int plane = 1; plane < y4m_planes(info); plane++)
        tint_plane(info, frame, plane, map);
}

static void draw_cells(const canvas *c, const upscaler_map *map)
{
    const int side = 2 * map->size;
    for (int y = 0; y < map->down; y++)
        for (int x = 0; x < map->across; x++)
            canvas_tile(c, x * side, y * side, side, side, class_colours[cell_class(map, y * map->across + x)], 70, 2);
}

/* A strip of its own below the picture; rows as the width needs. With out NULL it only counts its height. */
enum { LEGEND_ROW = 24, LEGEND_SWATCH = 16 };

static int draw_legend(const canvas *out, int width, int top)
{
    int x = 8, y = top + 4;
    for (int k = 0; k < CLASSES; k++) {
        const int wide = LEGEND_SWATCH + 8 + canvas_text_width(class_names[k], 2) + 16;
        if (x > 8 && x + wide > width)
            x = 8, y += LEGEND_ROW;
        if (out) {
            canvas_fill(out, x, y, LEGEND_SWATCH, LEGEND_SWATCH, class_colours[k]);
            canvas_text(out, x + LEGEND_SWATCH + 8, y + 1, 2, class_names[k], (canvas_colour){255, 255, 255});
        }
        x += wide;
    }
    return y + LEGEND_ROW - top;
}

/* The page first: png_scratch wants alignment too, and rows of pixels need not end where that is. */
static size_t page_bytes(const y4m_info *info)
{
    return (canvas_bytes(info->width, info->height + draw_legend(NULL, info->width, 0)) + 63) / 64 * 64;
}

size_t report_map_bytes(const y4m_info *info) { return page_bytes(info) + png_scratch(info->width, 3); }

bool report_map_png(FILE *file, const y4m_info *info, const void *frame, const upscaler_map *map, void *scratch)
{
    const int legend = draw_legend(NULL, info->width, 0);
    const canvas page = {scratch, info->width, info->height + legend};
    const canvas picture = {page.pixels, info->width, info->height}; /* the page's upper part */
    canvas_fill(&page, 0, info->height, info->width, legend, (canvas_colour){24, 24, 28});
    frame_to_rgb(picture.pixels, info, frame, frame_matrix_for(info->height / 2));
    draw_cells(&picture, map);
    draw_legend(&page, info->width, info->height);
    const bool drawn = png_write(file, page.pixels, (size_t)info->width * 3, page.width, page.height, 3,
                                 (uint8_t *)scratch + page_bytes(info));
    if (drawn)
        return files_close(file);
    files_discard(file);
    return false;
}
