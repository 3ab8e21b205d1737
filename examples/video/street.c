/* street.c: houses, pavement, road and street furniture.
 *
 * Owns: everything that stands still.
 * Relies on: raster.h for painting.
 * Must never: use a random number that is not a function of the place: two runs give the same street.
 *
 * Units are those of raster.h. Walls face the camera; the ground is seen in perspective, with the
 * horizon at STREET_HORIZON and one unit of a wall being one unit of ground where the two meet.
 */
#include "street.h"

#include <math.h>
#include <stdbool.h>

static double fraction(double v) {
    return v - floor(v);
}

static double smooth_step(double from, double to, double v) {
    double t = (v - from) / (to - from);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return t * t * (3 - 2 * t);
}

/* --- sky ---------------------------------------------------------------------------------- */

static rgb sky_shade(double x, double y, const void *glow) {
    rgb high = srgb(0x6f9fd0), low = srgb(0xd3dfe6);
    rgb c = mix(high, low, smooth_step(-20, STREET_SKY_BOTTOM, y));
    double add = *(const double *)glow / STREET_GLOW_PARTS;
    (void)x;
    return (rgb){c.r + (float)add, c.g + (float)add, c.b + (float)add};
}

/* Low enough that most sky pixels change by no code, and the rest by one, from frame to frame. */
double street_cloud(double x, double y, double seconds) {
    double wind = 5 * seconds;
    double density = cloudy((x - wind) / 95, y / 34, 4, 71);
    return 0.30 * smooth_step(0.48, 0.80, density) * smooth_step(115, 20, y);
}

/* --- walls -------------------------------------------------------------------------------- */

typedef struct wall {
    uint32_t brick, mortar;
    double course, length; /* of one brick with its joint */
    uint32_t seed;
} wall;

/* Rain and soot: broad patches, and streaks that run down. */
static double weather(double x, double y, uint32_t seed) {
    return 0.80 + 0.24 * cloudy(x / 40, y / 40, 3, seed) + 0.12 * (noise(x / 2.5, y / 45, seed + 9) - 0.5);
}

static rgb brick_shade(double x, double y, const void *user) {
    const wall *w = user;
    double row = floor(y / w->course), shift = fraction(row / 2) * w->length;
    double column = floor((x + shift) / w->length);
    double in_x = fraction((x + shift) / w->length) * w->length, in_y = fraction(y / w->course) * w->course;
    double tone = noise_at((int)column, (int)row, w->seed), grain = noise(x * 1.3, y * 1.3, w->seed + 3);
    rgb c = lit(srgb(w->brick), 0.62 + 0.62 * tone + 0.24 * (grain - 0.5));
    if (tone > 0.9)
        c = mix(c, srgb(0x4a3a3c), 0.5);
    if (in_y < 0.75 || in_x < 0.75)
        c = lit(srgb(w->mortar), 0.85 + 0.3 * grain);
    else if (in_y < 1.2)
        c = lit(c, 1.18); /* the upper edge of a brick catches the light */
    return lit(c, weather(x, y, w->seed + 20));
}

typedef struct coat {
    uint32_t colour;
    double groove; /* distance of horizontal grooves; 0 for none */
    uint32_t seed;
} coat;

static rgb plaster_shade(double x, double y, const void *user) {
    const coat *p = user;
    double grain = noise(x * 1.1, y * 1.1, p->seed) - 0.5;
    rgb c = lit(srgb(p->colour), (0.9 + 0.12 * grain) * weather(x, y, p->seed + 5));
    double in = p->groove > 0 ? fraction(y / p->groove) * p->groove : 9;
    if (in < 0.9)
        return lit(c, 0.55);
    return in < 1.6 ? lit(c, 1.15) : c;
}

static rgb board_shade(double x, double y, const void *user) {
    const coat *p = user;
    double row = floor(y / p->groove), in = fraction(y / p->groove);
    double tone = 0.85 + 0.2 * noise_at((int)row, 3, p->seed), grain = noise(x / 9, y * 2.5, p->seed) - 0.5;
    return lit(srgb(p->colour), tone * (in < 0.2 ? 0.5 : 0.85 + 0.25 * in) * (1 + 0.25 * grain));
}

static rgb tile_shade(double x, double y, const void *user) {
    const wall *w = user;
    double row = floor(y / w->course), shift = fraction(row / 2) * w->length;
    double column = floor((x + shift) / w->length), in_x = fraction((x + shift) / w->length) - 0.5;
    double in_y = fraction(y / w->course), hang = 1 - 1.1 * in_x * in_x; /* round lower ends */
    double tone = noise_at((int)column, (int)row, w->seed);
    rgb c = lit(srgb(w->brick), 0.7 + 0.5 * tone);
    if (in_y > hang * 0.92 || fabs(in_x) > 0.45)
        c = lit(c, 0.42);
    return lit(c, weather(x, y, w->seed + 4) * (0.8 + 0.35 * in_y));
}

/* --- parts of houses ---------------------------------------------------------------------- */

/* A projecting course: light on top, its shadow on the wall below. */
static void ledge(const raster *r, double x, double y, double width, double height, uint32_t colour) {
    raster_box(r, x - 1, y + height, width + 3, 3.2, glaze(0x100c10, 0.42));
    coat stone = {colour, 0, 31};
    raster_box(r, x - 2, y, width + 4, height, shaded(plaster_shade, &stone));
    raster_box(r, x - 2, y, width + 4, height * 0.25, glaze(0xffffff, 0.30));
    raster_box(r, x - 2, y + height * 0.8, width + 4, height * 0.2, glaze(0x201818, 0.35));
}

/* Teeth under a cornice. */
static void dentils(const raster *r, double x, double y, double width, uint32_t colour) {
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
static rgb glass_shade(double x, double y, const void *user) {
    const pane *p = user;
    double u = (x - p->glass.x) / p->glass.width, v = (y - p->glass.y) / p->glass.height;
    double kind = noise_at((int)p->seed, 1, 5), roof = 0.38 + 0.16 * noise_at((int)(u * 3), (int)p->seed, 8);
    rgb c = mix(srgb(0x1c242c), srgb(0x3a4650), v);
    if (v < roof)
        c = mix(srgb(0x9db6c8), srgb(0x6c8494), v / roof);
    if (kind > 0.35 && (u < 0.24 + 0.06 * sin(v * 5) || u > 0.76 - 0.06 * sin(v * 5)))
        c = mix(c, lit(srgb(0xe8dcc8), 0.6 + 0.4 * sin(u * 60)), 0.65);
    if (kind > 0.75 && v < 0.45)
        c = mix(c, lit(srgb(0xe2d9c4), fraction(v * 16) < 0.25 ? 0.5 : 0.9), 0.8); /* a blind */
    double glint = smooth_step(0.06, 0, fabs(u + v * 0.7 - 0.55 - 0.4 * kind));
    return mix(c, srgb(0xdfe9ee), 0.30 * glint);
}

static void glass(const raster *r, double x, double y, double width, double height, uint32_t seed) {
    pane p = {{x, y, width, height}, seed};
    raster_box(r, x, y, width, height, shaded(glass_shade, &p));
    raster_box(r, x, y, width, 1.8, glaze(0x06080a, 0.55)); /* shadow of the reveal */
    raster_box(r, x, y, 1.4, height, glaze(0x06080a, 0.45));
}

static void bars(const raster *r, box b, int columns, int rows, double width, paint p) {
    for (int i = 1; i < columns; i++)
        raster_box(r, b.x + b.width * i / columns - width / 2, b.y, width, b.height, p);
    for (int i = 1; i < rows; i++)
        raster_box(r, b.x, b.y + b.height * i / rows - width / 2, b.width, width, p);
}

static void frame(const raster *r, box b, double width, paint p) {
    raster_box(r, b.x, b.y, b.width, width, p);
    raster_box(r, b.x, b.y + b.height - width, b.width, width, p);
    raster_box(r, b.x, b.y, width, b.height, p);
    raster_box(r, b.x + b.width - width, b.y, width, b.height, p);
}

static void flowers(const raster *r, double x, double y, double width, uint32_t seed) {
    static const uint32_t colours[] = {0xd8434e, 0xf0c7d2, 0xe8b23a, 0x4f7f3a, 0x3a6a30, 0x5c9445};
    for (int i = 0; i < (int)(width * 3); i++) {
        double u = noise_at(i, 1, seed), v = noise_at(i, 2, seed), size = 0.8 + 0.7 * noise_at(i, 3, seed);
        int kind = i < (int)width * 2 ? 3 + i % 3 : i % 3;
        raster_ellipse(r, x + u * width, y - v * 4.6 + 1, size, size * 0.75, u * 3, solid(colours[kind]));
    }
    raster_box(r, x - 1, y + 0.6, width + 2, 4, solid(0x6d4a36));
    raster_box(r, x - 1, y + 0.6, width + 2, 0.8, glaze(0xffffff, 0.25));
    raster_box(r, x - 1, y + 4.6, width + 3, 2, glaze(0x100c10, 0.4));
}

typedef struct window_style {
    uint32_t bar, stone;
    int columns, rows;
    bool shutters, arch, box;
} window_style;

static void shutter(const raster *r, double x, double y, double width, double height) {
    raster_box(r, x + 0.8, y + 1, width + 0.8, height, glaze(0x100c10, 0.4));
    raster_box(r, x, y, width, height, solid(0x4f7466));
    for (double at = y + 2; at + 2 < y + height; at += 2.6)
        raster_box(r, x + 1.2, at, width - 2.4, 0.9, solid(0x2c4a40));
    raster_box(r, x, y + height / 2 - 0.8, width, 1.6, solid(0x5c8475));
}

/* The keyed stones of a flat arch. */
static void lintel(const raster *r, double x, double y, double width, uint32_t colour) {
    point outline[4] = {{x - 4, y - 7}, {x + width + 4, y - 7}, {x + width + 1, y}, {x - 1, y}};
    coat stone = {colour, 0, 57};
    raster_polygon(r, outline, 4, shaded(plaster_shade, &stone));
    for (int i = 1; i < 7; i++) {
        double u = i / 7.0;
        raster_line(r, x - 4 + (width + 8) * u, y - 7, x - 1 + (width + 2) * u, y, 0.45, glaze(0x201814, 0.6));
    }
}

static void window_at(const raster *r, double x, double y, double w, double h, const window_style *s, uint32_t seed) {
    raster_box(r, x - 1.2, y - 1.2, w + 2.4, h + 2.4, solid(0x2a2422));
    glass(r, x, y, w, h, seed);
    frame(r, (box){x, y, w, h}, 1.6, solid(s->bar));
    bars(r, (box){x + 1, y + 1, w - 2, h - 2}, s->columns, s->rows, 0.9, solid(s->bar));
    raster_box(r, x, y + h / 2 - 0.9, w, 1.8, solid(s->bar)); /* where the sashes meet */
    raster_box(r, x, y + h / 2 + 0.9, w, 0.8, glaze(0x101010, 0.5));
    if (s->arch)
        lintel(r, x, y - 1, w, s->stone);
    if (s->shutters) {
        shutter(r, x - w * 0.46 - 1.5, y - 1, w * 0.46, h + 2);
        shutter(r, x + w + 1.5, y - 1, w * 0.46, h + 2);
    }
    ledge(r, x - 1, y + h, w + 2, 2.4, s->stone);
    if (s->box)
        flowers(r, x, y + h - 1, w, seed);
}

static void chimney(const raster *r, double x, double y, double width, double height) {
    static const wall stack = {0x8f5a45, 0xb8a898, 3.2, 8, 411};
    raster_box(r, x, y, width, height, shaded(brick_shade, &stack));
    raster_box(r, x + width * 0.72, y, width * 0.28, height, glaze(0x140c10, 0.35));
    raster_box(r, x - 1.5, y - 2, width + 3, 3, solid(0x9a8878));
    for (double at = x + 2; at + 3 < x + width; at += 5) {
        raster_box(r, at, y - 8, 3.4, 6, solid(0xb56a45));
        raster_box(r, at + 2.4, y - 8, 1, 6, glaze(0x140c10, 0.4));
    }
}

static void antenna(const raster *r, double x, double y) {
    paint metal = solid(0x4c5258);
    raster_line(r, x, y, x, y + 30, 0.7, metal);
    raster_line(r, x - 11, y + 3, x + 11, y + 1, 0.55, metal);
    for (int i = -5; i <= 5; i++)
        raster_line(r, x + i * 2, y + 2 - i * 0.18 - 3.4, x + i * 2, y + 2 - i * 0.18 + 3.4, 0.4, metal);
}

static void door(const raster *r, double x, double y, double w, double h, uint32_t colour) {
    raster_box(r, x - 3, y - 3, w + 6, h + 3, solid(0xd9d2c2));
    raster_box(r, x - 3, y - 3, w + 6, 1, glaze(0xffffff, 0.4));
    raster_box(r, x, y, w, h, solid(colour));
    raster_box(r, x, y, w, 2, glaze(0x050505, 0.5));
    glass(r, x + 2, y + 2, w - 4, 7, 77);
    for (int i = 0; i < 4; i++) {
        box panel = {x + 2.2 + (i & 1) * (w / 2 - 0.9), y + 12 + (i / 2) * (h - 12) * 0.5, w / 2 - 3.4, (h - 12) * 0.5 - 3};
        raster_box(r, panel.x, panel.y, panel.width, panel.height, glaze(0x000000, 0.25));
        raster_box(r, panel.x + 0.8, panel.y + 0.8, panel.width - 0.8, panel.height - 0.8, solid(colour));
    }
    raster_ellipse(r, x + w - 2.5, y + h * 0.55, 0.9, 0.9, 0, solid(0xe2c46a));
    raster_box(r, x - 4, y + h, w + 8, 3, solid(0xa9a39a));
}

/* --- shops -------------------------------------------------------------------------------- */

typedef struct awning_cloth {
    double x, y, width, height, stripe;
    uint32_t colour;
} awning_cloth;

static rgb awning_shade(double x, double y, const void *user) {
    const awning_cloth *a = user;
    double down = (y - a->y) / a->height, spread = 1 + 0.10 * down;
    double u = (x - (a->x + a->width / 2)) / spread + a->width / 2;
    rgb c = fraction(u / a->stripe) < 0.5 ? srgb(a->colour) : srgb(0xf1eadb);
    return lit(c, 0.72 + 0.4 * down + 0.06 * sin(u * 0.9));
}

static void awning(const raster *r, double x, double y, double width, double height, uint32_t colour) {
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

static void sign_board(const raster *r, double x, double y, double width, double height, uint32_t board,
                       uint32_t letters, const char *text, double size) {
    raster_box(r, x, y + height, width + 1, 2.4, glaze(0x0c0a10, 0.5));
    raster_box(r, x, y, width, height, solid(board));
    frame(r, (box){x + 1, y + 1, width - 2, height - 2}, 0.6, glaze(0xffffff, 0.45));
    /* Painted off the picture once to learn the width. */
    double text_width = raster_text(r, 0, -900, size, 1, text, solid(0));
    double left = x + (width - text_width) / 2 + size * 0.06, top = y + (height - size) / 2;
    raster_text(r, left + 0.7, top + 0.7, size, size * 0.17, text, glaze(0x000000, 0.5));
    raster_text(r, left, top, size, size * 0.17, text, solid(letters));
}

static void bread(const raster *r, double x, double y, double width, uint32_t seed) {
    static const uint32_t crusts[] = {0xc98a45, 0xb87333, 0xd9a55e, 0x9c5f2b};
    raster_box(r, x, y, width, 1.4, solid(0x7a5a3c));
    for (int i = 0; i * 6.5 + 6 < width; i++) {
        uint32_t crust = crusts[(int)(noise_at(i, 4, seed) * 4)];
        double cx = x + 4 + i * 6.5, size = 2.4 + 0.9 * noise_at(i, 5, seed);
        raster_ellipse(r, cx, y - size * 0.6, size, size * 0.75, 0.2, solid(crust));
        raster_ellipse(r, cx - 0.6, y - size * 0.9, size * 0.5, size * 0.25, 0.2, glaze(0xffe9c0, 0.5));
        raster_line(r, cx - 1, y - size, cx + 0.4, y - size * 0.3, 0.4, glaze(0x5a3010, 0.7));
    }
}

static void shop_window(const raster *r, double x, double y, double w, double h, uint32_t trim, uint32_t seed) {
    raster_box(r, x - 2.5, y - 2.5, w + 5, h + 5, solid(trim));
    raster_box(r, x, y, w, h, solid(0x3b3026));
    raster_box(r, x, y, w, h * 0.35, glaze(0xf7d79a, 0.35)); /* lamps inside */
    for (int i = 0; i * 18 + 9 < (int)w; i++) {
        raster_line(r, x + 9 + i * 18, y, x + 9 + i * 18, y + 5, 0.4, solid(0x201810));
        raster_ellipse(r, x + 9 + i * 18, y + 6.5, 2.4, 1.8, 0, solid(0xfff0c4));
    }
    (void)seed;
}

static void shop_front_shine(const raster *r, double x, double y, double w, double h) {
    point streak[4] = {{x + w * 0.15, y + h}, {x + w * 0.38, y}, {x + w * 0.55, y}, {x + w * 0.32, y + h}};
    raster_polygon(r, streak, 4, glaze(0xeaf2f6, 0.16));
    point thin[4] = {{x + w * 0.62, y + h}, {x + w * 0.85, y}, {x + w * 0.89, y}, {x + w * 0.66, y + h}};
    raster_polygon(r, thin, 4, glaze(0xeaf2f6, 0.14));
    raster_box(r, x, y, w, 1.6, glaze(0x060404, 0.5));
}

static void books(const raster *r, double x, double y, double width, uint32_t seed) {
    static const uint32_t spines[] = {0xa83a32, 0x2f5d8a, 0xd9c27a, 0x3c7a50, 0x6b3f77, 0xe6e0d2, 0x26303a, 0xcf7a2e};
    raster_box(r, x, y, width, 1, solid(0x8a6a48));
    double at = x;
    for (int i = 0; at + 2 < x + width; i++) {
        double thick = 1.3 + 1.2 * noise_at(i, 6, seed), tall = 6 + 3 * noise_at(i, 7, seed);
        raster_box(r, at, y - tall, thick, tall, solid(spines[(int)(noise_at(i, 8, seed) * 8)]));
        raster_box(r, at, y - tall * 0.75, thick, 0.6, glaze(0xfff4d0, 0.5));
        raster_box(r, at + thick - 0.3, y - tall, 0.3, tall, glaze(0x000000, 0.5));
        at += thick;
    }
}

/* --- houses ------------------------------------------------------------------------------- */

static void house_bakery(const raster *r) {
    static const wall brick = {0xa8523f, 0xc9b8a6, 3.7, 10.5, 101};
    static const window_style sash = {0xf0ece2, 0xd6cbb6, 2, 4, false, true, false};
    raster_box(r, -10, 30, 160, 210, shaded(brick_shade, &brick));
    for (int floor_number = 0; floor_number < 2; floor_number++)
        for (int i = 0; i < 4; i++) {
            window_style s = sash;
            s.box = floor_number == 1;
            window_at(r, 10 + i * 36, 56 + floor_number * 54, 20, 36, &s, (uint32_t)(10 + i + 4 * floor_number));
        }
    ledge(r, -10, 26, 160, 6, 0xcdc0a8);
    dentils(r, -10, 33, 160, 0xcdc0a8);
    ledge(r, -10, 150, 160, 3, 0xcdc0a8);
    raster_box(r, -10, 156, 158, 82, solid(0x5c2f2a));
    shop_window(r, 8, 190, 62, 42, 0x7a3d34, 1);
    for (int i = 0; i < 3; i++)
        bread(r, 10, 206 + i * 12, 58, (uint32_t)(300 + i));
    shop_front_shine(r, 8, 190, 62, 42);
    door(r, 84, 192, 22, 44, 0x2f5560);
    shop_window(r, 120, 192, 24, 40, 0x7a3d34, 2);
    for (int i = 0; i < 3; i++)
        bread(r, 121, 208 + i * 11, 22, (uint32_t)(320 + i));
    shop_front_shine(r, 120, 192, 24, 40);
    sign_board(r, 6, 158, 138, 17, 0x7b2a26, 0xf4dfa6, "CORNER BAKERY", 10);
    awning(r, 6, 177, 70, 13, 0xb03a36);
}

static void roof(const raster *r, double x0, double x1, double top, double bottom, double inset, uint32_t colour, uint32_t seed) {
    wall tiles = {colour, 0, 4.4, 6.2, seed};
    point outline[4] = {{x0 + inset, top}, {x1 - inset, top}, {x1 + 4, bottom}, {x0 - 4, bottom}};
    raster_polygon(r, outline, 4, shaded(tile_shade, &tiles));
    raster_line(r, x0 + inset, top, x1 - inset, top, 2.2, solid(0x6a4a40));
    raster_box(r, x0 - 4, bottom - 0.5, x1 - x0 + 8, 2.6, solid(0x4a4e52)); /* gutter */
    raster_box(r, x0 - 4, bottom - 0.5, x1 - x0 + 8, 0.7, glaze(0xffffff, 0.35));
    raster_box(r, x0, bottom + 2, x1 - x0, 5, glaze(0x100c10, 0.35));
}

static void down_pipe(const raster *r, double x, double top, double bottom) {
    raster_box(r, x + 2.2, top, 2, bottom - top, glaze(0x100c10, 0.4));
    raster_box(r, x, top, 2.4, bottom - top, solid(0x3c4247));
    raster_box(r, x + 0.4, top, 0.6, bottom - top, glaze(0xffffff, 0.35));
    for (double y = top + 14; y < bottom; y += 34)
        raster_box(r, x - 0.8, y, 4, 1.6, solid(0x2c3034));
}

static void street_plate(const raster *r, double x, double y) {
    raster_box(r, x + 1, y + 1, 74, 15, glaze(0x100c10, 0.45));
    raster_box(r, x, y, 74, 15, solid(0x1f3f86));
    frame(r, (box){x + 0.9, y + 0.9, 72.2, 13.2}, 0.7, solid(0xf4f4f0));
    raster_text(r, x + 4.4, y + 4, 7, 1.15, "MARKET STREET", solid(0xf7f7f2));
}

static void house_cream(const raster *r) {
    static const coat upper = {0xe6d5ae, 0, 201}, lower = {0xcbb891, 11, 202};
    static const window_style casement = {0xf7f4ec, 0xe9e2d0, 2, 3, true, false, false};
    raster_box(r, 150, 70, 118, 170, shaded(plaster_shade, &upper));
    raster_box(r, 150, 166, 118, 74, shaded(plaster_shade, &lower));
    chimney(r, 166, 20, 18, 34);
    roof(r, 150, 268, 40, 72, 14, 0x59616b, 210);
    for (int i = 0; i < 2; i++) { /* dormers */
        double x = 178 + i * 42;
        point gable[3] = {{x - 4, 50}, {x + 9, 39}, {x + 22, 50}};
        raster_box(r, x, 49, 18, 20, solid(0xd9c9a4));
        window_style s = {0xf7f4ec, 0xe9e2d0, 2, 2, false, false, false};
        window_at(r, x + 3.5, 52, 11, 14, &s, (uint32_t)(50 + i));
        raster_polygon(r, gable, 3, solid(0x454c55));
    }
    for (int i = 0; i < 3; i++)
        window_at(r, 166 + i * 36, 98, 15, 42, &casement, (uint32_t)(60 + i));
    ledge(r, 150, 160, 118, 4, 0xefe6d0);
    door(r, 160, 190, 24, 47, 0x8c2f2b);
    street_plate(r, 189, 174);
    static const window_style plain = {0xf7f4ec, 0xe9e2d0, 3, 2, false, false, true};
    window_at(r, 204, 198, 44, 28, &plain, 66);
    down_pipe(r, 263, 74, 238);
}

static void house_books(const raster *r) {
    static const wall brick = {0xb79a6b, 0xd8ccb4, 3.7, 10.5, 301};
    static const window_style tall = {0x3a3f3c, 0xe4dccb, 2, 3, false, true, false};
    raster_box(r, 268, 16, 152, 224, shaded(brick_shade, &brick));
    for (int y = 0; y < 3; y++) {
        ledge(r, 268, 56 + y * 50, 152, 2.6, 0xe4dccb);
        for (int i = 0; i < 4; i++)
            window_at(r, 278 + i * 36, 22 + y * 50 + (y == 0 ? 2 : 0), 19, y == 0 ? 28 : 33, &tall, (uint32_t)(80 + i + 4 * y));
    }
    ledge(r, 268, 10, 152, 6, 0xe4dccb);
    raster_box(r, 270, 162, 148, 76, solid(0x1f3d34));
    shop_window(r, 278, 186, 54, 46, 0x2b5447, 3);
    for (int i = 0; i < 4; i++)
        books(r, 279, 196 + i * 11.5, 52, (uint32_t)(500 + i));
    shop_front_shine(r, 278, 186, 54, 46);
    door(r, 340, 190, 20, 46, 0x2b5447);
    shop_window(r, 370, 186, 42, 46, 0x2b5447, 4);
    for (int i = 0; i < 4; i++)
        books(r, 371, 196 + i * 11.5, 40, (uint32_t)(520 + i));
    shop_front_shine(r, 370, 186, 42, 46);
    sign_board(r, 274, 165, 140, 16, 0x16302a, 0xe9c878, "BOOKS & COFFEE", 9);
}

static void house_boards(const raster *r) {
    static const coat boards = {0x7f98a6, 5.2, 401};
    static const window_style small = {0xf2f0ea, 0xdcd6c8, 2, 2, false, false, true};
    raster_box(r, 420, 96, 98, 144, shaded(board_shade, &boards));
    chimney(r, 486, 44, 20, 36);
    roof(r, 420, 518, 64, 98, 10, 0xb0603f, 410);
    antenna(r, 450, 38);
    for (int i = 0; i < 2; i++)
        window_at(r, 434 + i * 42, 116, 26, 34, &small, (uint32_t)(120 + i));
    ledge(r, 420, 168, 98, 3, 0xdcd6c8);
    raster_box(r, 432, 184, 56, 54, solid(0x30363a)); /* roller shutter */
    for (double y = 186; y < 236; y += 2.6) {
        raster_box(r, 434, y, 52, 1.7, solid(0xb7bcbd));
        raster_box(r, 434, y, 52, 0.6, solid(0xe2e5e5));
    }
    raster_text(r, 441, 199, 11, 2, "GARAGE", glaze(0x274c7d, 0.85));
    sign_board(r, 432, 173, 56, 9.5, 0xe8e4d6, 0x9a2f2a, "NO PARKING", 5.6);
    down_pipe(r, 512, 100, 238);
}

/* Iron stairs down the front: thin diagonals, the hardest part of the street. */
static void fire_escape(const raster *r, double x, double y, double width, double height) {
    paint iron = solid(0x23282c);
    for (int side = 0; side < 2; side++)
        raster_line(r, x + side * width, y, x + side * width, y + height, 0.9, iron);
    for (int deck = 0; deck < 3; deck++) {
        double top = y + deck * height / 3 + height / 3 - 14;
        raster_box(r, x + 2, top + 16, width, 4, glaze(0x0c0a10, 0.35));
        raster_box(r, x - 3, top + 14, width + 6, 1.6, iron);
        raster_line(r, x - 3, top, x + width + 3, top, 0.8, iron);
        for (double at = x - 3; at <= x + width + 3; at += 3.4)
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

static void house_cafe(const raster *r) {
    static const wall brick = {0x96483a, 0xb9a594, 3.7, 10.5, 501};
    static const window_style sash = {0xe6e2d6, 0xc4b8a2, 2, 4, false, true, false};
    raster_box(r, 518, 40, 140, 200, shaded(brick_shade, &brick));
    for (int y = 0; y < 2; y++)
        for (int i = 0; i < 3; i++)
            window_at(r, 530 + i * 38, 60 + y * 54, 21, 36, &sash, (uint32_t)(140 + i + 3 * y));
    ledge(r, 518, 36, 140, 6, 0xb9ab93);
    dentils(r, 518, 43, 140, 0xb9ab93);
    fire_escape(r, 562, 50, 44, 108);
    ledge(r, 518, 156, 140, 3, 0xb9ab93);
    raster_box(r, 518, 160, 140, 78, solid(0x2b2f36));
    shop_window(r, 528, 192, 58, 40, 0x3d444d, 5);
    for (int i = 0; i < 4; i++) { /* chairs and cups behind the glass */
        raster_line(r, 536 + i * 14, 216, 536 + i * 14, 232, 1, solid(0x6e4c30));
        raster_ellipse(r, 536 + i * 14, 216, 6, 1.3, 0, solid(0x8a6140));
        raster_box(r, 534 + i * 14, 212, 3, 3.4, solid(0xe9e5da));
    }
    shop_front_shine(r, 528, 192, 58, 40);
    door(r, 600, 190, 22, 46, 0x4a2f24);
    sign_board(r, 524, 163, 70, 16, 0x2b2f36, 0xf2ead8, "CAFE", 10);
    awning(r, 522, 181, 72, 12, 0x2f6a4f);
}

/* --- far background ----------------------------------------------------------------------- */

static void skyline(const raster *r) {
    paint far_away = solid(0xa9bccb), nearer = solid(0x8fa5b6);
    for (int i = 0; i < 60; i++) {
        double h = 18 + 26 * noise_at(i, 1, 900);
        raster_box(r, i * 11 - 5, 104 - h, 12, h + 10, far_away);
    }
    point spire[3] = {{402, 74}, {409, 14}, {416, 74}};
    raster_polygon(r, spire, 3, nearer);
    raster_box(r, 400, 72, 18, 40, nearer);
    raster_line(r, 409, 4, 409, 16, 0.5, nearer);
    raster_line(r, 440, 104, 440, 22, 1, nearer); /* a crane */
    raster_line(r, 424, 28, 486, 28, 0.9, nearer);
    raster_line(r, 440, 20, 486, 28, 0.4, nearer);
    raster_line(r, 440, 20, 424, 28, 0.4, nearer);
    for (int i = 0; i < 12; i++)
        raster_line(r, 442 + i * 3.6, i & 1 ? 26 : 28, 445.6 + i * 3.6, i & 1 ? 28 : 26, 0.3, nearer);
}

static void cable(const raster *r, point a, point b, double sag, double width) {
    enum { PIECES = 48 };
    point from = a;
    for (int i = 1; i <= PIECES; i++) {
        double u = (double)i / PIECES;
        point to = {a.x + (b.x - a.x) * u, a.y + (b.y - a.y) * u + sag * 4 * u * (1 - u)};
        raster_line(r, from.x, from.y, to.x, to.y, width, solid(0x22262b));
        from = to;
    }
}

static void cables(const raster *r) {
    cable(r, (point){-10, 8}, (point){300, 2}, 12, 0.6);
    cable(r, (point){-10, 14}, (point){300, 6}, 13, 0.5);
    cable(r, (point){150, 24}, (point){660, 40}, 22, 0.6);
    cable(r, (point){150, 18}, (point){660, 33}, 21, 0.5);
    cable(r, (point){395, -4}, (point){660, 96}, 14, 0.7);
}

/* --- ground ------------------------------------------------------------------------------- */

/* Where on the ground a point of the picture lies: across and away, in units of the wall's foot. */
static point on_ground(double x, double y) {
    const double depth = (double)(STREET_GROUND - STREET_HORIZON) / (y - STREET_HORIZON);
    return (point){(x - RASTER_UNITS_X / 2.0) * depth, depth * 420};
}

static rgb slab_shade(double x, double y, const void *user) {
    point g = on_ground(x, y);
    double row = floor(g.y / 13), shift = fraction(row / 2) * 19, column = floor((g.x + shift) / 19);
    double in_x = fraction((g.x + shift) / 19) * 19, in_y = fraction(g.y / 13) * 13;
    double tone = noise_at((int)column, (int)row, 601), grain = noise(x * 1.4, y * 1.8, 602) - 0.5;
    rgb c = lit(srgb(0xa8a198), 0.80 + 0.26 * tone + 0.2 * grain);
    if (in_x < 0.9 || in_y < 1.6)
        c = lit(c, 0.55);
    (void)user;
    return lit(c, 0.86 + 0.26 * cloudy(g.x / 30, g.y / 30, 3, 603));
}

static rgb asphalt_shade(double x, double y, const void *user) {
    point g = on_ground(x, y);
    double near_by = (y - STREET_KERB) / (STREET_ROAD_END - STREET_KERB);
    double grain = noise(x * 1.7, y * 2.1, 611) - 0.5, coarse = noise(g.x / 1.7, g.y / 3.5, 612) - 0.5;
    double stain = cloudy(g.x / 60, g.y / 22, 4, 613);
    double tone = 0.74 + 0.30 * stain + (0.22 + 0.10 * near_by) * grain + 0.20 * coarse;
    /* Wheels polish two bands in each lane. */
    double lane = fraction((g.y - 150) / 62);
    tone *= 1 + 0.07 * sin(lane * 12.566);
    (void)user;
    return lit(srgb(0x63656a), tone);
}

static rgb marking_shade(double x, double y, const void *user) {
    double wear = cloudy(x / 5, y / 3, 3, 621);
    rgb under = asphalt_shade(x, y, NULL), over = lit(srgb(*(const uint32_t *)user), 0.9 + 0.15 * noise(x, y, 622));
    return mix(under, over, smooth_step(0.26, 0.44, wear));
}

/* A rectangle of the ground: across and away to picture coordinates. */
static void ground_quad(const raster *r, double x0, double x1, double z0, double z1, paint p) {
    const double reach = (STREET_GROUND - STREET_HORIZON) * 420.0, middle = RASTER_UNITS_X / 2.0;
    const double s0 = 420 / z0, s1 = 420 / z1;
    point q[4] = {{middle + x0 * s0, STREET_HORIZON + reach / z0}, {middle + x1 * s0, STREET_HORIZON + reach / z0},
                  {middle + x1 * s1, STREET_HORIZON + reach / z1}, {middle + x0 * s1, STREET_HORIZON + reach / z1}};
    raster_polygon(r, q, 4, p);
}

static void manhole(const raster *r, double x, double y, double rx, double ry) {
    raster_ellipse(r, x, y + 0.5, rx + 1.2, ry + 0.9, 0, solid(0x35373a));
    raster_ellipse(r, x, y, rx, ry, 0, solid(0x55585c));
    for (int i = -4; i <= 4; i++) {
        double u = i / 5.0, half = sqrt(1 - u * u);
        raster_line(r, x + u * rx, y - ry * half * 0.9, x + u * rx, y + ry * half * 0.9, 0.7, solid(0x2e3033));
        raster_line(r, x - rx * half * 0.9, y + u * ry, x + rx * half * 0.9, y + u * ry, 0.45, solid(0x2e3033));
    }
    raster_ring(r, x, y, 0.01, 0.01, solid(0x2e3033));
}

static void crack(const raster *r, double x, double y, uint32_t seed) {
    for (int i = 0; i < 26; i++) {
        double nx = x + 3.2 * (noise_at(i, 1, seed) - 0.15), ny = y + 2.0 * (noise_at(i, 2, seed) - 0.45);
        raster_line(r, x, y, nx, ny, 0.55, glaze(0x1c1d20, 0.75));
        x = nx, y = ny;
    }
}

static void kerb(const raster *r) {
    static const coat stone = {0xbab4aa, 0, 631};
    raster_box(r, -20, STREET_KERB - 3, 700, 3.4, shaded(plaster_shade, &stone));
    raster_box(r, -20, STREET_KERB, 700, 3.6, solid(0x77736d));
    raster_box(r, -20, STREET_KERB + 3.4, 700, 2.4, glaze(0x0c0c10, 0.45));
    for (int i = 0; i < 40; i++)
        raster_line(r, i * 18 - 20, STREET_KERB - 3, i * 18 - 20.5, STREET_KERB + 3.6, 0.5, glaze(0x201c1a, 0.7));
}

static void ground(const raster *r) {
    static const uint32_t white = 0xe9e8e0, yellow = 0xd9b33c;
    raster_box(r, -20, STREET_GROUND, 700, 30, shaded(slab_shade, NULL));
    raster_box(r, -20, STREET_GROUND, 700, 5, glaze(0x0c0a10, 0.35)); /* where the wall meets it */
    raster_box(r, -20, STREET_KERB, 700, 110, shaded(asphalt_shade, NULL));
    for (int i = 0; i < 2; i++)
        raster_box(r, -20, STREET_KERB + 7.5 + i * 2.6, 700, 1.1, shaded(marking_shade, &yellow));
    for (int i = -6; i <= 6; i++)
        ground_quad(r, i * 46 - 11, i * 46 + 11, 239, 234, shaded(marking_shade, &white));
    for (int i = 0; i < 6; i++)
        ground_quad(r, 182 + i * 17, 190 + i * 17, 319, 185, shaded(marking_shade, &white));
    point patch[4] = {{70, 322}, {176, 320}, {186, 341}, {60, 344}};
    raster_polygon(r, patch, 4, glaze(0x2a2b2e, 0.35));
    manhole(r, 300, 325, 19, 5.2);
    manhole(r, 452, 281, 11, 2.6);
    crack(r, 20, 300, 641);
    crack(r, 380, 340, 642);
    crack(r, 210, 284, 643);
    kerb(r);
    raster_box(r, -20, STREET_ROAD_END, 700, 4, solid(0xb0aaa1));
    raster_box(r, -20, STREET_ROAD_END + 3.4, 700, 1.2, solid(0x6f6b66));
    raster_box(r, -20, STREET_ROAD_END + 4.6, 700, 40, shaded(slab_shade, NULL));
}

/* --- furniture on the far pavement -------------------------------------------------------- */

static void lamp_post(const raster *r, double x) {
    paint iron = solid(0x24332e);
    raster_ellipse(r, x + 8, 256, 14, 1.6, 0, glaze(0x0c0a10, 0.35));
    raster_box(r, x - 1.3, 130, 2.6, 124, iron);
    raster_box(r, x - 0.9, 130, 0.7, 124, glaze(0xffffff, 0.25));
    raster_box(r, x - 3, 236, 6, 19, iron);
    raster_box(r, x - 4, 253, 8, 3, iron);
    raster_box(r, x - 7, 146, 14, 1.4, iron);
    point lantern[4] = {{x - 5, 116}, {x + 5, 116}, {x + 3.2, 130}, {x - 3.2, 130}};
    raster_polygon(r, lantern, 4, solid(0xe8e2c8));
    raster_polygon(r, (point[3]){{x - 6.5, 116}, {x, 108}, {x + 6.5, 116}}, 3, iron);
    raster_line(r, x - 5, 116, x - 3.2, 130, 0.8, iron);
    raster_line(r, x + 5, 116, x + 3.2, 130, 0.8, iron);
    raster_line(r, x, 116, x, 130, 0.6, iron);
}

static void bench(const raster *r, double x, double y) {
    raster_ellipse(r, x + 22, y + 13, 27, 2, 0, glaze(0x0c0a10, 0.4));
    for (int i = 0; i < 3; i++)
        raster_box(r, x, y - 12 + i * 3.4, 42, 2.3, solid(i & 1 ? 0x96683c : 0x8a5c34));
    for (int i = 0; i < 2; i++)
        raster_box(r, x - 1, y + i * 2.2, 44, 1.6, solid(0xa3743f));
    for (int i = 0; i < 2; i++) {
        raster_line(r, x + 4 + i * 34, y - 12, x + 4 + i * 34, y + 12, 1.3, solid(0x22282a));
        raster_line(r, x + 1 + i * 40, y + 3, x + 1 + i * 40, y + 13, 1.3, solid(0x22282a));
    }
}

static void litter_bin(const raster *r, double x, double y) {
    raster_ellipse(r, x + 10, y + 20, 12, 1.6, 0, glaze(0x0c0a10, 0.4));
    raster_box(r, x, y, 12, 20, solid(0x2e4a3c));
    for (int i = 0; i < 5; i++)
        raster_box(r, x + 1 + i * 2.3, y + 4, 0.8, 15, solid(0x1c3028));
    raster_box(r, x - 1, y - 1.5, 14, 3, solid(0x3d6350));
    raster_text(r, x + 1.8, y + 7, 3.4, 0.7, "BIN", solid(0xe4e8da));
}

static void bus_stop(const raster *r, double x) {
    paint post = solid(0x8d9296);
    raster_ellipse(r, x + 8, 257, 12, 1.4, 0, glaze(0x0c0a10, 0.35));
    raster_box(r, x - 1, 168, 2, 88, post);
    raster_box(r, x - 0.7, 168, 0.6, 88, glaze(0xffffff, 0.4));
    raster_box(r, x - 12, 162, 26, 30, solid(0xd9d9d4));
    raster_box(r, x - 11, 163, 24, 28, solid(0xc23a31));
    raster_text(r, x - 7.2, 167, 7, 1.25, "BUS", solid(0xffffff));
    raster_text(r, x - 9, 179, 7, 1.25, "STOP", solid(0xffffff));
    raster_box(r, x - 6, 205, 14, 20, solid(0xe9e8e2));
    for (int i = 0; i < 7; i++)
        raster_box(r, x - 4.4, 208 + i * 2.3, i % 3 == 1 ? 7 : 10.5, 0.8, solid(0x49535c));
}

static void trunk(const raster *r, double x, double base, double top) {
    point sides[6] = {{x - 7, base}, {x - 4, base - 30}, {x - 3.4, top}, {x + 3.4, top}, {x + 4.5, base - 30}, {x + 8, base}};
    raster_ellipse(r, x + 12, base, 26, 2.6, 0, glaze(0x0c0a10, 0.35));
    raster_polygon(r, sides, 6, solid(0x58473a));
    for (int i = 0; i < 60; i++) {
        double u = noise_at(i, 1, 700), y = top + (base - top) * noise_at(i, 2, 700);
        raster_line(r, x - 3.5 + 7 * u, y, x - 3.5 + 7 * u + 0.8, y + 7, 0.55, glaze(i & 1 ? 0x2c221c : 0x8a7460, 0.55));
    }
    raster_polygon(r, (point[3]){{x - 2, top + 6}, {x - 22, top - 24}, {x + 2, top}}, 3, solid(0x4d3e33));
    raster_polygon(r, (point[3]){{x + 2, top + 6}, {x + 24, top - 22}, {x - 2, top}}, 3, solid(0x4d3e33));
    for (int i = 0; i < 9; i++)
        raster_line(r, x - 17 + i * 4.4, base + 1.2, x - 17 + i * 4.4, base - 3, 0.7, solid(0x2b3130)); /* grille */
}

void street_background(const raster *r, double glow) {
    raster_box(r, -400, -400, 1500, 1200, shaded(sky_shade, &glow));
    skyline(r);
    house_cream(r);
    house_boards(r);
    house_bakery(r);
    house_books(r);
    house_cafe(r);
    cables(r);
    ground(r);
    bench(r, 206, 240);
    litter_bin(r, 398, 235);
    lamp_post(r, 112);
    bus_stop(r, 548);
    trunk(r, 262, 258, 176);
    trunk(r, 470, 258, 172);
}

/* --- what stands before the traffic ------------------------------------------------------- */

static void bollard(const raster *r, double x) {
    raster_ellipse(r, x + 4, 364, 9, 1.6, 0, glaze(0x0c0a10, 0.4));
    raster_box(r, x - 3.4, 334, 6.8, 31, solid(0x2a2e33));
    raster_box(r, x - 2.4, 334, 1.2, 31, glaze(0xffffff, 0.25));
    raster_ellipse(r, x, 334, 3.9, 2.6, 0, solid(0x34393f));
    raster_box(r, x - 3.4, 341, 6.8, 2.6, solid(0xd9d6c8));
    raster_box(r, x - 3.4, 346, 6.8, 1.2, solid(0x16181b));
}

static void speed_sign(const raster *r, double x) {
    raster_box(r, x - 1.8, 208, 3.6, 170, solid(0x9aa0a4));
    raster_box(r, x - 1.2, 208, 0.9, 170, glaze(0xffffff, 0.5));
    raster_box(r, x + 0.9, 208, 0.9, 170, glaze(0x101010, 0.35));
    raster_ellipse(r, x, 200, 19, 19, 0, solid(0xb9bcbc));
    raster_ellipse(r, x, 200, 18, 18, 0, solid(0xc3272b));
    raster_ellipse(r, x, 200, 13.6, 13.6, 0, solid(0xf6f5ef));
    raster_text(r, x - 10, 193.4, 13, 2.4, "30", solid(0x16181c));
    raster_box(r, x - 15, 222, 30, 11, solid(0xf6f5ef));
    frame(r, (box){x - 15, 222, 30, 11}, 0.9, solid(0x16181c));
    raster_text(r, x - 11.2, 225, 5, 0.95, "ZONE", solid(0x16181c));
}

void street_foreground(const raster *r) {
    speed_sign(r, 598);
    for (int i = 0; i < 4; i++)
        bollard(r, 36 + i * 46);
}
