/* facade.c: textures of walls and parts of houses.
 *
 * Owns: bricks, plaster, boards, tiles, glass, and everything fixed to a wall.
 * Relies on: facade.h; light falls from the upper left, so ledges shade what is below them.
 * Must never: use a random number that is not a function of the place: two runs give the same street.
 */
#include "facade.h"

#include <math.h>

/* --- walls -------------------------------------------------------------------------------- */

/* Rain and soot: broad patches, and streaks that run down. */
static double weather(double x, double y, uint32_t seed)
{
    return 0.80 + 0.24 * raster_clouds(x / 40, y / 40, 3, seed) +
           0.12 * (raster_noise(x / 2.5, y / 45, seed + 9) - 0.5);
}

rgb facade_brick(double x, double y, const void *user)
{
    const wall *w = user;
    double row = floor(y / w->course), shift = fraction(row / 2) * w->length;
    double column = floor((x + shift) / w->length);
    double in_x = fraction((x + shift) / w->length) * w->length, in_y = fraction(y / w->course) * w->course;
    double tone = raster_noise_at((int)column, (int)row, w->seed), grain = raster_noise(x * 1.3, y * 1.3, w->seed + 3);
    rgb c = lit(srgb(w->brick), 0.62 + 0.62 * tone + 0.24 * (grain - 0.5));
    if (tone > 0.9)
        c = mix(c, srgb(0x4a3a3c), 0.5);
    if (in_y < 0.75 || in_x < 0.75)
        c = lit(srgb(w->mortar), 0.85 + 0.3 * grain);
    else if (in_y < 1.2)
        c = lit(c, 1.18); /* the upper edge of a brick catches the light */
    return lit(c, weather(x, y, w->seed + 20));
}

rgb facade_plaster(double x, double y, const void *user)
{
    const coat *p = user;
    double grain = raster_noise(x * 1.1, y * 1.1, p->seed) - 0.5;
    rgb c = lit(srgb(p->colour), (0.9 + 0.12 * grain) * weather(x, y, p->seed + 5));
    double in = p->groove > 0 ? fraction(y / p->groove) * p->groove : 9;
    if (in < 0.9)
        return lit(c, 0.55);
    return in < 1.6 ? lit(c, 1.15) : c;
}

rgb facade_boards(double x, double y, const void *user)
{
    const coat *p = user;
    double row = floor(y / p->groove), in = fraction(y / p->groove);
    double tone = 0.85 + 0.2 * raster_noise_at((int)row, 3, p->seed),
           grain = raster_noise(x / 9, y * 2.5, p->seed) - 0.5;
    return lit(srgb(p->colour), tone * (in < 0.2 ? 0.5 : 0.85 + 0.25 * in) * (1 + 0.25 * grain));
}

static rgb tile_shade(double x, double y, const void *user)
{
    const wall *w = user;
    double row = floor(y / w->course), shift = fraction(row / 2) * w->length;
    double column = floor((x + shift) / w->length), in_x = fraction((x + shift) / w->length) - 0.5;
    double in_y = fraction(y / w->course), hang = 1 - 1.1 * in_x * in_x; /* round lower ends */
    double tone = raster_noise_at((int)column, (int)row, w->seed);
    rgb c = lit(srgb(w->brick), 0.7 + 0.5 * tone);
    if (in_y > hang * 0.92 || fabs(in_x) > 0.45)
        c = lit(c, 0.42);
    return lit(c, weather(x, y, w->seed + 4) * (0.8 + 0.35 * in_y));
}

/* --- parts of houses ---------------------------------------------------------------------- */

/* A projecting course: light on top, its shadow on the wall below. */
void facade_ledge(const raster *r, double x, double y, double width, double height, uint32_t colour)
{
    raster_box(r, x - 1, y + height, width + 3, 3.2, glaze(0x100c10, 0.42));
    coat stone = {colour, 0, 31};
    raster_box(r, x - 2, y, width + 4, height, shaded(facade_plaster, &stone));
    raster_box(r, x - 2, y, width + 4, height * 0.25, glaze(0xffffff, 0.30));
    raster_box(r, x - 2, y + height * 0.8, width + 4, height * 0.2, glaze(0x201818, 0.35));
}

/* Teeth under a cornice. */
void facade_dentils(const raster *r, double x, double y, double width, uint32_t colour)
{
    for (double at = x + 1; at + 3 < x + width; at += 6) {
        raster_box(r, at + 0.6, y + 0.6, 3.4, 3.6, glaze(0x100c10, 0.45));
        raster_box(r, at, y, 3, 3, solid(colour));
    }
}

typedef struct pane {
    box glass;
    uint32_t seed;
} pane;

/* What a window shows: the sky, the roofs across the street, a curtain, a dark room. */
static rgb glass_shade(double x, double y, const void *user)
{
    const pane *p = user;
    double u = (x - p->glass.x) / p->glass.width, v = (y - p->glass.y) / p->glass.height;
    double kind = raster_noise_at((int)p->seed, 1, 5),
           roof = 0.38 + 0.16 * raster_noise_at((int)(u * 3), (int)p->seed, 8);
    rgb c = mix(srgb(0x1c242c), srgb(0x3a4650), v);
    if (v < roof)
        c = mix(srgb(0x9db6c8), srgb(0x6c8494), v / roof);
    if (kind > 0.35 && (u < 0.24 + 0.06 * sin(v * 5) || u > 0.76 - 0.06 * sin(v * 5)))
        c = mix(c, lit(srgb(0xe8dcc8), 0.6 + 0.4 * sin(u * 60)), 0.65);
    if (kind > 0.75 && v < 0.45)
        c = mix(c, lit(srgb(0xe2d9c4), fraction(v * 8) < 0.3 ? 0.6 : 0.9), 0.8); /* a blind */
    double glint = smooth_step(0.06, 0, fabs(u + v * 0.7 - 0.55 - 0.4 * kind));
    return mix(c, srgb(0xdfe9ee), 0.30 * glint);
}

static void glass(const raster *r, double x, double y, double width, double height, uint32_t seed)
{
    pane p = {{x, y, width, height}, seed};
    raster_box(r, x, y, width, height, shaded(glass_shade, &p));
    raster_box(r, x, y, width, 1.8, glaze(0x06080a, 0.55)); /* shadow of the reveal */
    raster_box(r, x, y, 1.4, height, glaze(0x06080a, 0.45));
}

static void bars(const raster *r, box b, int columns, int rows, double width, paint p)
{
    for (int i = 1; i < columns; i++)
        raster_box(r, b.x + b.width * i / columns - width / 2, b.y, width, b.height, p);
    for (int i = 1; i < rows; i++)
        raster_box(r, b.x, b.y + b.height * i / rows - width / 2, b.width, width, p);
}

void facade_frame(const raster *r, box b, double width, paint p)
{
    raster_box(r, b.x, b.y, b.width, width, p);
    raster_box(r, b.x, b.y + b.height - width, b.width, width, p);
    raster_box(r, b.x, b.y, width, b.height, p);
    raster_box(r, b.x + b.width - width, b.y, width, b.height, p);
}

static void flowers(const raster *r, double x, double y, double width, uint32_t seed)
{
    static const uint32_t colours[] = {0xd8434e, 0xf0c7d2, 0xe8b23a, 0x4f7f3a, 0x3a6a30, 0x5c9445};
    for (int i = 0; i < (int)(width * 3); i++) {
        double u = raster_noise_at(i, 1, seed), v = raster_noise_at(i, 2, seed),
               size = 0.8 + 0.7 * raster_noise_at(i, 3, seed);
        int kind = i < (int)width * 2 ? 3 + i % 3 : i % 3;
        raster_ellipse(r, x + u * width, y - v * 4.6 + 1, size, size * 0.75, u * 3, solid(colours[kind]));
    }
    raster_box(r, x - 1, y + 0.6, width + 2, 4, solid(0x6d4a36));
    raster_box(r, x - 1, y + 0.6, width + 2, 0.8, glaze(0xffffff, 0.25));
    raster_box(r, x - 1, y + 4.6, width + 3, 2, glaze(0x100c10, 0.4));
}

static void shutter(const raster *r, double x, double y, double width, double height)
{
    raster_box(r, x + 0.8, y + 1, width + 0.8, height, glaze(0x100c10, 0.4));
    raster_box(r, x, y, width, height, solid(0x4f7466));
    for (double at = y + 2; at + 2 < y + height; at += 4.4)
        raster_box(r, x + 1.2, at, width - 2.4, 1.6, solid(0x2c4a40));
    raster_box(r, x, y + height / 2 - 0.8, width, 1.6, solid(0x5c8475));
}

/* The keyed stones of a flat arch. */
static void lintel(const raster *r, double x, double y, double width, uint32_t colour)
{
    point outline[4] = {{x - 4, y - 7}, {x + width + 4, y - 7}, {x + width + 1, y}, {x - 1, y}};
    coat stone = {colour, 0, 57};
    raster_polygon(r, outline, 4, shaded(facade_plaster, &stone));
    for (int i = 1; i < 7; i++) {
        double u = i / 7.0;
        raster_line(r, x - 4 + (width + 8) * u, y - 7, x - 1 + (width + 2) * u, y, 0.45, glaze(0x201814, 0.6));
    }
}

void facade_window(const raster *r, double x, double y, double w, double h, const window_style *s, uint32_t seed)
{
    raster_box(r, x - 1.2, y - 1.2, w + 2.4, h + 2.4, solid(0x2a2422));
    glass(r, x, y, w, h, seed);
    facade_frame(r, (box){x, y, w, h}, 1.6, solid(s->bar));
    bars(r, (box){x + 1, y + 1, w - 2, h - 2}, s->columns, s->rows, 0.9, solid(s->bar));
    raster_box(r, x, y + h / 2 - 0.9, w, 1.8, solid(s->bar)); /* where the sashes meet */
    raster_box(r, x, y + h / 2 + 0.9, w, 0.8, glaze(0x101010, 0.5));
    if (s->arch)
        lintel(r, x, y - 1, w, s->stone);
    if (s->shutters) {
        shutter(r, x - w * 0.46 - 1.5, y - 1, w * 0.46, h + 2);
        shutter(r, x + w + 1.5, y - 1, w * 0.46, h + 2);
    }
    facade_ledge(r, x - 1, y + h, w + 2, 2.4, s->stone);
    if (s->box)
        flowers(r, x, y + h - 1, w, seed);
}

void facade_chimney(const raster *r, double x, double y, double width, double height)
{
    static const wall stack = {0x8f5a45, 0xb8a898, 4.4, 10, 411};
    raster_box(r, x, y, width, height, shaded(facade_brick, &stack));
    raster_box(r, x + width * 0.72, y, width * 0.28, height, glaze(0x140c10, 0.35));
    raster_box(r, x - 1.5, y - 2, width + 3, 3, solid(0x9a8878));
    for (double at = x + 2; at + 3 < x + width; at += 5) {
        raster_box(r, at, y - 8, 3.4, 6, solid(0xb56a45));
        raster_box(r, at + 2.4, y - 8, 1, 6, glaze(0x140c10, 0.4));
    }
}

void facade_antenna(const raster *r, double x, double y)
{
    paint metal = solid(0x4c5258);
    raster_line(r, x, y, x, y + 30, 0.7, metal);
    raster_line(r, x - 11, y + 3, x + 11, y + 1, 0.55, metal);
    for (int i = -5; i <= 5; i++)
        raster_line(r, x + i * 2, y + 2 - i * 0.18 - 3.4, x + i * 2, y + 2 - i * 0.18 + 3.4, 0.4, metal);
}

void facade_door(const raster *r, double x, double y, double w, double h, uint32_t colour)
{
    raster_box(r, x - 3, y - 3, w + 6, h + 3, solid(0xd9d2c2));
    raster_box(r, x - 3, y - 3, w + 6, 1, glaze(0xffffff, 0.4));
    raster_box(r, x, y, w, h, solid(colour));
    raster_box(r, x, y, w, 2, glaze(0x050505, 0.5));
    glass(r, x + 2, y + 2, w - 4, 7, 77);
    for (int i = 0; i < 4; i++) {
        box panel = {x + 2.2 + (i & 1) * (w / 2 - 0.9), y + 12 + (i / 2) * (h - 12) * 0.5, w / 2 - 3.4,
                     (h - 12) * 0.5 - 3};
        raster_box(r, panel.x, panel.y, panel.width, panel.height, glaze(0x000000, 0.25));
        raster_box(r, panel.x + 0.8, panel.y + 0.8, panel.width - 0.8, panel.height - 0.8, solid(colour));
    }
    raster_ellipse(r, x + w - 2.5, y + h * 0.55, 0.9, 0.9, 0, solid(0xe2c46a));
    raster_box(r, x - 4, y + h, w + 8, 3, solid(0xa9a39a));
}

void facade_roof(const raster *r, double x0, double x1, double top, double bottom, double inset, uint32_t colour,
                 uint32_t seed)
{
    wall tiles = {colour, 0, 4.4, 6.2, seed};
    point outline[4] = {{x0 + inset, top}, {x1 - inset, top}, {x1 + 4, bottom}, {x0 - 4, bottom}};
    raster_polygon(r, outline, 4, shaded(tile_shade, &tiles));
    raster_line(r, x0 + inset, top, x1 - inset, top, 2.2, solid(0x6a4a40));
    raster_box(r, x0 - 4, bottom - 0.5, x1 - x0 + 8, 2.6, solid(0x4a4e52)); /* gutter */
    raster_box(r, x0 - 4, bottom - 0.5, x1 - x0 + 8, 0.7, glaze(0xffffff, 0.35));
    raster_box(r, x0, bottom + 2, x1 - x0, 5, glaze(0x100c10, 0.35));
}

void facade_pipe(const raster *r, double x, double top, double bottom)
{
    raster_box(r, x + 2.2, top, 2, bottom - top, glaze(0x100c10, 0.4));
    raster_box(r, x, top, 2.4, bottom - top, solid(0x3c4247));
    raster_box(r, x + 0.4, top, 0.6, bottom - top, glaze(0xffffff, 0.35));
    for (double y = top + 14; y < bottom; y += 34)
        raster_box(r, x - 0.8, y, 4, 1.6, solid(0x2c3034));
}

void facade_plate(const raster *r, double x, double y)
{
    raster_box(r, x + 1, y + 1, 80, 14, glaze(0x100c10, 0.45));
    raster_box(r, x, y, 80, 14, solid(0x1f3f86));
    facade_frame(r, (box){x + 0.9, y + 0.9, 78.2, 12.2}, 0.7, solid(0xf4f4f0));
    raster_text(r, x + 5.2, y + 4, 6, 1.05, "MARKET STREET", solid(0xf7f7f2));
}

/* Iron stairs down the front: thin diagonals, the hardest part of the street. */
void facade_stairs(const raster *r, double x, double y, double width, double height)
{
    paint iron = solid(0x23282c);
    for (int side = 0; side < 2; side++)
        raster_line(r, x + side * width, y, x + side * width, y + height, 0.9, iron);
    for (int deck = 0; deck < 3; deck++) {
        double top = y + deck * height / 3 + height / 3 - 14;
        raster_box(r, x + 2, top + 16, width, 4, glaze(0x0c0a10, 0.35));
        raster_box(r, x - 3, top + 14, width + 6, 1.6, iron);
        raster_line(r, x - 3, top, x + width + 3, top, 0.8, iron);
        for (double at = x - 3; at <= x + width + 3; at += 5)
            raster_line(r, at, top, at, top + 14, 0.45, iron);
        if (deck == 0)
            continue;
        double from = deck & 1 ? x + 3 : x + width - 3, to = deck & 1 ? x + width - 6 : x + 6, rise = height / 3 - 14;
        raster_line(r, from, top - rise, to, top + 14, 0.9, iron);
        raster_line(r, from + 6, top - rise, to + 6, top + 14, 0.9, iron);
        for (int step = 1; step < 12; step++) {
            double u = step / 12.0, sx = from + (to - from) * u, sy = top - rise + (rise + 14) * u;
            raster_line(r, sx, sy, sx + 6, sy, 0.5, iron);
        }
    }
}

/* --- shops -------------------------------------------------------------------------------- */

typedef struct awning_cloth {
    double x, y, width, height, stripe;
    uint32_t colour;
} awning_cloth;

static rgb awning_shade(double x, double y, const void *user)
{
    const awning_cloth *a = user;
    double down = (y - a->y) / a->height, spread = 1 + 0.10 * down;
    double u = (x - (a->x + a->width / 2)) / spread + a->width / 2;
    rgb c = fraction(u / a->stripe) < 0.5 ? srgb(a->colour) : srgb(0xf1eadb);
    return lit(c, 0.72 + 0.4 * down + 0.06 * sin(u * 0.9));
}

void facade_awning(const raster *r, double x, double y, double width, double height, uint32_t colour)
{
    awning_cloth cloth = {x, y, width, height, 9, colour};
    double out = width * 0.05;
    point top[4] = {{x, y}, {x + width, y}, {x + width + out, y + height}, {x - out, y + height}};
    raster_box(r, x - 1, y + height, width + 5, 9, glaze(0x0c0a10, 0.45));
    raster_polygon(r, top, 4, shaded(awning_shade, &cloth));
    for (double at = x - out; at < x + width + out - 1; at += 4.5 * 1.1) { /* scallops */
        raster_ellipse(r, at + 2.4, y + height, 2.45, 3.4, 0, shaded(awning_shade, &cloth));
    }
    raster_line(r, x - out, y + height, x + width + out, y + height, 0.6, glaze(0x201010, 0.35));
}

void facade_sign(const raster *r, double x, double y, double width, double height, uint32_t board, uint32_t letters,
                 const char *text, double size)
{
    raster_box(r, x, y + height, width + 1, 2.4, glaze(0x0c0a10, 0.5));
    raster_box(r, x, y, width, height, solid(board));
    facade_frame(r, (box){x + 1, y + 1, width - 2, height - 2}, 0.6, glaze(0xffffff, 0.45));
    /* Painted off the picture once to learn the width. */
    double text_width = raster_text(r, 0, -900, size, 1, text, solid(0));
    double left = x + (width - text_width) / 2 + size * 0.06, top = y + (height - size) / 2;
    raster_text(r, left + 0.7, top + 0.7, size, size * 0.17, text, glaze(0x000000, 0.5));
    raster_text(r, left, top, size, size * 0.17, text, solid(letters));
}

void facade_bread(const raster *r, double x, double y, double width, uint32_t seed)
{
    static const uint32_t crusts[] = {0xc98a45, 0xb87333, 0xd9a55e, 0x9c5f2b};
    raster_box(r, x, y, width, 1.4, solid(0x7a5a3c));
    for (int i = 0; i * 6.5 + 6 < width; i++) {
        uint32_t crust = crusts[(int)(raster_noise_at(i, 4, seed) * 4)];
        double cx = x + 4 + i * 6.5, size = 2.4 + 0.9 * raster_noise_at(i, 5, seed);
        raster_ellipse(r, cx, y - size * 0.6, size, size * 0.75, 0.2, solid(crust));
        raster_ellipse(r, cx - 0.6, y - size * 0.9, size * 0.5, size * 0.25, 0.2, glaze(0xffe9c0, 0.5));
        raster_line(r, cx - 1, y - size, cx + 0.4, y - size * 0.3, 0.4, glaze(0x5a3010, 0.7));
    }
}

void facade_shop_window(const raster *r, double x, double y, double w, double h, uint32_t trim)
{
    raster_box(r, x - 2.5, y - 2.5, w + 5, h + 5, solid(trim));
    raster_box(r, x, y, w, h, solid(0x3b3026));
    raster_box(r, x, y, w, h * 0.35, glaze(0xf7d79a, 0.35)); /* lamps inside */
    for (int i = 0; i * 18 + 9 < (int)w; i++) {
        raster_line(r, x + 9 + i * 18, y, x + 9 + i * 18, y + 5, 0.4, solid(0x201810));
        raster_ellipse(r, x + 9 + i * 18, y + 6.5, 2.4, 1.8, 0, solid(0xfff0c4));
    }
}

void facade_shine(const raster *r, double x, double y, double w, double h)
{
    point streak[4] = {{x + w * 0.15, y + h}, {x + w * 0.38, y}, {x + w * 0.55, y}, {x + w * 0.32, y + h}};
    raster_polygon(r, streak, 4, glaze(0xeaf2f6, 0.16));
    point thin[4] = {{x + w * 0.62, y + h}, {x + w * 0.85, y}, {x + w * 0.89, y}, {x + w * 0.66, y + h}};
    raster_polygon(r, thin, 4, glaze(0xeaf2f6, 0.14));
    raster_box(r, x, y, w, 1.6, glaze(0x060404, 0.5));
}

void facade_books(const raster *r, double x, double y, double width, uint32_t seed)
{
    static const uint32_t spines[] = {0xa83a32, 0x2f5d8a, 0xd9c27a, 0x3c7a50, 0x6b3f77, 0xe6e0d2, 0x26303a, 0xcf7a2e};
    raster_box(r, x, y, width, 1, solid(0x8a6a48));
    double at = x;
    for (int i = 0; at + 2 < x + width; i++) {
        double thick = 1.3 + 1.2 * raster_noise_at(i, 6, seed), tall = 6 + 3 * raster_noise_at(i, 7, seed);
        raster_box(r, at, y - tall, thick, tall, solid(spines[(int)(raster_noise_at(i, 8, seed) * 8)]));
        raster_box(r, at, y - tall * 0.75, thick, 0.6, glaze(0xfff4d0, 0.5));
        raster_box(r, at + thick - 0.3, y - tall, 0.3, tall, glaze(0x000000, 0.5));
        at += thick;
    }
}
