/* raster.h: painting a supersampled picture in linear light, and filtering it down to pixels.
 *
 * Owns: polygons, ellipses, lines, lettering, noise, and the reduction of 4 x 4 samples a pixel.
 * Relies on: nothing; the sample memory is the caller's: raster_bytes().
 * Must never: smooth an edge by itself where the reduction does it, or paint outside the clip.
 *
 * Coordinates are scene units: the picture shows RASTER_UNITS_X x RASTER_UNITS_Y of them around the
 * scene's middle, whatever its size in pixels.
 */
#ifndef RASTER_H
#define RASTER_H

#include <stddef.h>
#include <stdint.h>

enum { RASTER_UNITS_X = 640, RASTER_UNITS_Y = 368, RASTER_SAMPLES = 4, RASTER_POINTS = 256 };

typedef struct rgb {
    float r, g, b; /* linear light, 0..1 */
} rgb;

typedef struct point {
    double x, y;
} point;

typedef struct box {
    double x, y, width, height;
} box;

/* One colour, or a function of the place where shade is set; alpha 1 covers. */
typedef rgb raster_shade(double x, double y, const void *user);
typedef struct paint {
    rgb colour;
    float alpha;
    raster_shade *shade;
    const void *user;
} paint;

typedef struct raster {
    uint16_t *samples; /* R, G, B, 65535 is white */
    int width, height; /* in samples */
    double scale, left, top;
    int clip_left, clip_top, clip_right, clip_bottom;
} raster;

size_t raster_bytes(int pixels_wide, int pixels_high);
void raster_init(raster *r, int pixels_wide, int pixels_high, void *samples);
void raster_clip(raster *r, const box *units); /* NULL: the whole picture */
/* Copies the samples inside the clip of to. */
void raster_copy(const raster *to, const raster *from);

rgb srgb(uint32_t hex);                  /* 0xrrggbb as screens write it */
rgb mix(rgb a, rgb b, double t);
rgb lit(rgb colour, double factor);
paint solid(uint32_t hex);
paint glaze(uint32_t hex, double alpha);
paint shaded(raster_shade *shade, const void *user);

void raster_box(const raster *r, double x, double y, double width, double height, paint p);
void raster_polygon(const raster *r, const point *points, int n, paint p);
/* Corners cut twice (Chaikin): a drawn outline of few points becomes a smooth one. */
void raster_smooth_polygon(const raster *r, const point *points, int n, paint p);
void raster_ellipse(const raster *r, double x, double y, double rx, double ry, double angle, paint p);
void raster_ring(const raster *r, double x, double y, double radius, double width, paint p);
void raster_line(const raster *r, double x0, double y0, double x1, double y1, double width, paint p);
/* Capitals, digits, & and - as rounded strokes; (x, y) is the upper left. Returns the width. */
double raster_text(const raster *r, double x, double y, double height, double weight, const char *text, paint p);

/* Deterministic noise: of a lattice point 0..1, smooth between lattice points, and summed octaves. */
double noise_at(int x, int y, uint32_t seed);
double noise(double x, double y, uint32_t seed);
double cloudy(double x, double y, int octaves, uint32_t seed);

/* Pixels [left, right) of one row, linear light, into out (3 floats each). row: 3 * width of the
 * raster floats of scratch. */
void raster_reduce_row(const raster *r, int y, int left, int right, float *out, float *row);

#endif
