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

#include <math.h>
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

/* A code of 0..255 as screens have it to linear light. */
float raster_decode(uint32_t code);

static inline rgb srgb(uint32_t hex)
{ /* 0xrrggbb */
    return (rgb){raster_decode(hex >> 16), raster_decode(hex >> 8), raster_decode(hex)};
}

static inline rgb mix(rgb a, rgb b, double t)
{
    float f = (float)(t < 0 ? 0 : t > 1 ? 1 : t);
    return (rgb){a.r + (b.r - a.r) * f, a.g + (b.g - a.g) * f, a.b + (b.b - a.b) * f};
}

static inline rgb lit(rgb colour, double factor)
{
    float f = (float)factor;
    return (rgb){colour.r * f, colour.g * f, colour.b * f};
}

static inline paint solid(uint32_t hex) { return (paint){srgb(hex), 1, NULL, NULL}; }

static inline paint glaze(uint32_t hex, double alpha) { return (paint){srgb(hex), (float)alpha, NULL, NULL}; }

static inline paint shaded(raster_shade *shade, const void *user) { return (paint){{0, 0, 0}, 1, shade, user}; }

void raster_box(const raster *r, double x, double y, double width, double height, paint p);
void raster_polygon(const raster *r, const point *points, int n, paint p);
/* Corners cut twice (Chaikin): a drawn outline of few points becomes a smooth one. */
void raster_smooth_polygon(const raster *r, const point *points, int n, paint p);
void raster_ellipse(const raster *r, double x, double y, double rx, double ry, double angle, paint p);
void raster_ring(const raster *r, double x, double y, double radius, double width, paint p);
void raster_line(const raster *r, double x0, double y0, double x1, double y1, double width, paint p);
/* Capitals, digits, & and - as rounded strokes; (x, y) is the upper left. Returns the width. */
double raster_text(const raster *r, double x, double y, double height, double weight, const char *text, paint p);

static inline double fraction(double v) { return v - floor(v); }

static inline double smooth_step(double from, double to, double v)
{
    double t = (v - from) / (to - from);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return t * t * (3 - 2 * t);
}

/* Deterministic noise: of a lattice point 0..1, smooth between lattice points, and summed octaves. */
double raster_noise_at(int x, int y, uint32_t seed);
double raster_noise(double x, double y, uint32_t seed);
double raster_clouds(double x, double y, int octaves, uint32_t seed);

/* Pixels [left, right) of one row, linear light, into out (3 floats each). row: 3 * width of the
 * raster floats of scratch. */
void raster_reduce_row(const raster *r, int y, int left, int right, float *out, float *row);

#endif
