/* traffic.c: cars, people and leaves.
 *
 * Owns: everything that moves, and the boxes that tell where.
 * Relies on: raster.h; street.h for the ground's lines.
 * Must never: paint outside the box it reports: what lies there is kept from the frame before.
 */
#include "street.h"

#include <math.h>
#include <stdbool.h>

#define TURN 6.283185307179586

/* --- a frame of reference that moves ------------------------------------------------------ */

/* Metres, x forward and y up, to the picture. */
typedef struct carriage {
    const raster *r;
    double x, base, scale; /* where metre 0, 0 stands; units a metre */
    int way;               /* 1 to the right, -1 to the left */
} carriage;

static point place(const carriage *c, double x, double y)
{
    return (point){c->x + c->way * x * c->scale, c->base - y * c->scale};
}

static void line(const carriage *c, double x0, double y0, double x1, double y1, double width, paint p)
{
    point a = place(c, x0, y0), b = place(c, x1, y1);
    raster_line(c->r, a.x, a.y, b.x, b.y, width * c->scale, p);
}

static void disc(const carriage *c, double x, double y, double rx, double ry, paint p)
{
    point a = place(c, x, y);
    raster_ellipse(c->r, a.x, a.y, rx * c->scale, ry * c->scale, 0, p);
}

static void shape(const carriage *c, const point *metres, int n, bool smooth, paint p)
{
    point units[32];
    for (int i = 0; i < n; i++)
        units[i] = place(c, metres[i].x, metres[i].y);
    if (smooth)
        raster_smooth_polygon(c->r, units, n, p);
    else
        raster_polygon(c->r, units, n, p);
}

/* Ground units a metre where something stands on line y of the picture. */
static double metre_at(double base) { return 17 * (base - STREET_HORIZON) / (STREET_GROUND - STREET_HORIZON); }

/* Along the street and around again. */
static double position(double start, double speed, double seconds)
{
    double x = fmod(start + speed * seconds, 1000);
    return (x < 0 ? x + 1000 : x) - 180;
}

/* --- cars --------------------------------------------------------------------------------- */

typedef struct vehicle {
    double start, speed, base;
    uint32_t colour;
    bool van;
} vehicle;

static const vehicle vehicles[] = {
    {620, -86, 296, 0xe9e6dc, true},
    {150, 112, 341, 0x2c5f9e, false},
};

typedef struct coachwork {
    const carriage *c;
    rgb colour;
    double height;
} coachwork;

static rgb coach_shade(double x, double y, const void *user)
{
    const coachwork *w = user;
    double up = (w->c->base - y) / w->c->scale, along = (x - w->c->x) / w->c->scale;
    double shoulder = exp(-pow((up - w->height * 0.60) / 0.07, 2)), low = up < 0.62 ? (0.62 - up) * 1.1 : 0;
    rgb c = lit(w->colour, 0.80 + 0.30 * up / w->height - low + 0.03 * sin(along * 2));
    return mix(c, srgb(0xe8f1f8), 0.38 * shoulder + (up > w->height * 0.93 ? 0.3 : 0));
}

static rgb car_glass_shade(double x, double y, const void *user)
{
    const carriage *c = user;
    double up = (c->base - y) / c->scale, along = (x - c->x) / c->scale;
    double slant = along + up * 0.8;
    rgb g = mix(srgb(0x10161c), srgb(0x8098a8), (up - 0.95) * 1.3);
    return mix(g, srgb(0xc9d6de), sin(slant * 5) > 0.75 ? 0.35 : 0.0);
}

static void wheel(const carriage *c, double x, double radius, double angle)
{
    disc(c, x, radius + 0.03, radius * 1.28, radius * 1.25, solid(0x0b0c0d));
    disc(c, x, radius, radius, radius, solid(0x1b1c1e));
    disc(c, x, radius, radius * 0.66, radius * 0.66, solid(0xb4b8bc));
    disc(c, x, radius, radius * 0.57, radius * 0.57, solid(0x55595d));
    for (int i = 0; i < 5; i++) {
        double a = angle + i * TURN / 5;
        line(c, x, radius, x + cos(a) * radius * 0.6, radius - sin(a) * radius * 0.6, 0.055, solid(0xc9cdd0));
    }
    disc(c, x, radius, radius * 0.16, radius * 0.16, solid(0xe2e4e6));
}

static void car_body(const carriage *c, uint32_t colour)
{
    static const point outline[] = {{-2.12, 0.24}, {-2.2, 0.55}, {-2.14, 0.95}, {-1.85, 1.12}, {-1.55, 1.46},
                                    {-0.7, 1.54},  {0.25, 1.48}, {0.62, 1.24},  {1.02, 1.0},   {1.85, 0.88},
                                    {2.18, 0.68},  {2.22, 0.4},  {2.1, 0.22}};
    static const point rear_glass[] = {{-0.52, 1.42}, {-0.44, 1.02}, {-1.62, 1.02}, {-1.42, 1.37}};
    static const point front_glass[] = {{0.22, 1.38}, {0.50, 1.18}, {0.74, 1.02}, {-0.34, 1.02}, {-0.42, 1.42}};
    coachwork work = {c, srgb(colour), 1.5};
    shape(c, outline, 13, true, shaded(coach_shade, &work));
    shape(c, rear_glass, 4, false, shaded(car_glass_shade, c));
    shape(c, front_glass, 5, false, shaded(car_glass_shade, c));
    line(c, -0.39, 0.98, -0.36, 0.36, 0.022, glaze(0x05080c, 0.8));
    line(c, 0.82, 0.98, 0.78, 0.36, 0.022, glaze(0x05080c, 0.8));
    line(c, -1.5, 0.96, -1.25, 0.66, 0.022, glaze(0x05080c, 0.7));
    line(c, -2.0, 0.5, 2.05, 0.46, 0.02, glaze(0x05080c, 0.45));
    line(c, -0.72, 0.86, -0.5, 0.86, 0.05, solid(0xd4d9dd));
    line(c, 0.44, 0.85, 0.66, 0.85, 0.05, solid(0xd4d9dd));
    line(c, 0.78, 1.04, 0.92, 1.08, 0.11, solid(colour));
    line(c, 1.86, 0.73, 2.06, 0.68, 0.12, solid(0xf6f2dc));
    line(c, -2.12, 0.86, -2.04, 0.98, 0.13, solid(0xb3211d));
    line(c, -2.1, 0.30, 2.12, 0.30, 0.10, solid(0x17191c));
}

static void van_body(const carriage *c, uint32_t colour)
{
    static const point outline[] = {{-2.55, 0.26}, {-2.6, 0.6},  {-2.6, 2.1},  {-2.48, 2.28}, {0.9, 2.28}, {1.28, 2.14},
                                    {1.78, 1.42},  {2.34, 1.14}, {2.56, 0.86}, {2.6, 0.4},    {2.46, 0.24}};
    static const point glass[] = {{0.98, 1.98}, {1.22, 1.94}, {1.60, 1.36}, {0.62, 1.30}, {0.62, 1.98}};
    coachwork work = {c, srgb(colour), 2.2};
    shape(c, outline, 11, true, shaded(coach_shade, &work));
    shape(c, glass, 5, false, shaded(car_glass_shade, c));
    line(c, 0.5, 2.1, 0.5, 0.36, 0.022, glaze(0x05080c, 0.7));
    line(c, -0.9, 2.16, -0.9, 0.4, 0.02, glaze(0x05080c, 0.45));
    line(c, 0.62, 1.08, 0.86, 1.08, 0.05, solid(0x2a2e32));
    line(c, -2.5, 0.62, 2.4, 0.62, 0.11, solid(0x9c2c28));
    line(c, 2.3, 0.86, 2.46, 0.78, 0.14, solid(0xf6f2dc));
    line(c, -2.55, 0.9, -2.55, 1.1, 0.1, solid(0xb3211d));
    line(c, -2.5, 0.32, 2.5, 0.32, 0.12, solid(0x1a1c1f));
    point text = place(c, c->way > 0 ? -2.35 : 0.36, 1.86);
    raster_text(c->r, text.x, text.y, 0.42 * c->scale, 0.075 * c->scale, "FRESH", solid(0x9c2c28));
    text = place(c, c->way > 0 ? -2.35 : 0.36, 1.28);
    raster_text(c->r, text.x, text.y, 0.42 * c->scale, 0.075 * c->scale, "BREAD", solid(0x9c2c28));
    disc(c, -1.95, 1.42, 0.36, 0.25, solid(0xc98a45));
    disc(c, -1.95, 1.47, 0.24, 0.10, glaze(0xffe9c0, 0.5));
}

static void paint_vehicle(const raster *r, const vehicle *v, double seconds)
{
    carriage c = {r, position(v->start, v->speed, seconds), v->base, metre_at(v->base), v->speed > 0 ? 1 : -1};
    double radius = v->van ? 0.36 : 0.33, axle = v->van ? 1.62 : 1.36;
    double angle = fabs(v->speed) * seconds / (radius * c.scale);
    disc(&c, 0.05, 0.02, v->van ? 2.75 : 2.35, 0.12, glaze(0x050608, 0.6));
    disc(&c, 0.05, -0.03, v->van ? 3.0 : 2.55, 0.2, glaze(0x050608, 0.35));
    if (v->van)
        van_body(&c, v->colour);
    else
        car_body(&c, v->colour);
    wheel(&c, -axle, radius, angle);
    wheel(&c, axle, radius, angle);
}

static box vehicle_box(const vehicle *v, double seconds)
{
    double s = metre_at(v->base);
    return (box){position(v->start, v->speed, seconds) - 3.2 * s, v->base - 2.5 * s, 6.4 * s, 2.8 * s};
}

/* --- people ------------------------------------------------------------------------------- */

/* The joint between two limbs of length a and b from `from` to `to`, bent to the side of sign. */
static point joint(point from, point to, double a, double b, int sign)
{
    double dx = to.x - from.x, dy = to.y - from.y, d = sqrt(dx * dx + dy * dy);
    d = d > a + b ? a + b : d < 0.01 ? 0.01 : d;
    double along = (a * a - b * b + d * d) / (2 * d), off = a * a - along * along;
    off = off > 0 ? sqrt(off) * sign : 0;
    return (point){from.x + (dx * along - dy * off) / d, from.y + (dy * along + dx * off) / d};
}

static void limb(const carriage *c, point from, point to, double a, double b, int bend, double width, paint p)
{
    point middle = joint(from, to, a, b, bend);
    line(c, from.x, from.y, middle.x, middle.y, width, p);
    line(c, middle.x, middle.y, to.x, to.y, width * 0.85, p);
}

typedef struct walker {
    double start, speed, base;
    uint32_t coat, trousers, hair, bag;
} walker;

static const walker walkers[] = {
    {330, 27, 254, 0xb5402f, 0x2a3550, 0x3a2a20, 0x6a4a2c},
    {760, -23, 258, 0x3f5a46, 0x3b3634, 0x8a6a40, 0},
    {590, 30, 251, 0xd9a93c, 0x24282e, 0x1c1816, 0x2d5a86},
};

static void paint_walker(const raster *r, const walker *w, double seconds)
{
    carriage c = {r, position(w->start, w->speed, seconds), w->base, metre_at(w->base), w->speed > 0 ? 1 : -1};
    double step = fabs(w->speed) * seconds / c.scale / 1.45 * TURN, bob = -0.022 - 0.022 * cos(2 * step);
    point hip = {0, 0.91 + bob}, shoulder = {0.03, 1.42 + bob};
    disc(&c, 0.15, 0.0, 0.5, 0.07, glaze(0x050608, 0.45));
    for (int side = 1; side >= 0; side--) {
        double phase = step + side * TURN / 2, lift = sin(phase) > 0 ? 0.12 * sin(phase) : 0;
        point foot = {0.36 * cos(phase), 0.05 + lift},
              hand = {-0.30 * cos(phase), 0.92 + bob + 0.05 * fabs(cos(phase))};
        paint trousers = side ? (paint){lit(srgb(w->trousers), 0.6), 1, NULL, NULL} : solid(w->trousers);
        paint sleeve = {lit(srgb(w->coat), side ? 0.55 : 0.85), 1, NULL, NULL};
        limb(&c, hip, foot, 0.44, 0.44, 1, 0.16, trousers);
        line(&c, foot.x - 0.04, foot.y, foot.x + 0.16, foot.y - 0.01, 0.09, solid(0x1d1a18));
        if (side)
            limb(&c, shoulder, hand, 0.28, 0.27, -1, 0.11, sleeve);
    }
    line(&c, 0, 1.0 + bob, 0.02, 1.36 + bob, 0.34, solid(w->coat));
    line(&c, -0.02, 0.84 + bob, 0, 1.02 + bob, 0.30, solid(w->coat));
    line(&c, 0.08, 0.9 + bob, 0.1, 1.38 + bob, 0.05, glaze(0xffffff, 0.18));
    if (w->bag)
        disc(&c, -0.22, 1.12 + bob, 0.15, 0.22, solid(w->bag));
    point hand = {-0.30 * cos(step), 0.92 + bob + 0.05 * fabs(cos(step))};
    limb(&c, shoulder, hand, 0.28, 0.27, -1, 0.11, (paint){lit(srgb(w->coat), 0.8), 1, NULL, NULL});
    disc(&c, hand.x, hand.y - 0.03, 0.05, 0.05, solid(0xd9a98a));
    line(&c, 0.03, 1.45 + bob, 0.04, 1.52 + bob, 0.1, solid(0xcf9c7c));
    disc(&c, 0.06, 1.64 + bob, 0.115, 0.14, solid(0xd9a98a));
    disc(&c, 0.02, 1.69 + bob, 0.125, 0.11, solid(w->hair));
}

static box walker_box(const walker *w, double seconds)
{
    double s = metre_at(w->base);
    return (box){position(w->start, w->speed, seconds) - 0.9 * s, w->base - 1.95 * s, 1.8 * s, 2.15 * s};
}

static const struct {
    double start, speed, base;
} cyclist = {370, 58, 277};

static void bicycle_wheel(const carriage *c, double x, double angle)
{
    point hub = place(c, x, 0.34);
    raster_ring(c->r, hub.x, hub.y, 0.33 * c->scale, 0.035 * c->scale, solid(0x17181a));
    raster_ring(c->r, hub.x, hub.y, 0.295 * c->scale, 0.015 * c->scale, solid(0xb9bdc0));
    for (int i = 0; i < 10; i++) {
        double a = angle + i * TURN / 10;
        line(c, x, 0.34, x + 0.29 * cos(a), 0.34 - 0.29 * sin(a), 0.009, solid(0xc5c9cc));
    }
}

static void rider(const carriage *c, double crank)
{
    const point hip = {-0.22, 0.98}, shoulder = {0.22, 1.42}, grip = {0.52, 1.04};
    for (int side = 1; side >= 0; side--) {
        double a = crank + side * TURN / 2;
        point pedal = {0.02 + 0.17 * cos(a), 0.30 - 0.17 * sin(a)}, foot = {pedal.x, pedal.y + 0.05};
        paint leg = {lit(srgb(0x22262e), side ? 0.6 : 1.2), 1, NULL, NULL};
        line(c, 0.02, 0.30, pedal.x, pedal.y, 0.03, solid(0x8b9094));
        limb(c, hip, foot, 0.43, 0.43, 1, 0.13, leg);
        line(c, foot.x - 0.07, foot.y - 0.02, foot.x + 0.14, foot.y - 0.02, 0.07, solid(0xe6e2d8));
    }
    line(c, hip.x, hip.y, shoulder.x - 0.04, shoulder.y - 0.04, 0.25, solid(0xd8d23a));
    line(c, hip.x + 0.03, hip.y + 0.17, shoulder.x, shoulder.y - 0.12, 0.05, solid(0xe9ecee));
    limb(c, shoulder, grip, 0.30, 0.28, 1, 0.09, solid(0xc9c234));
    disc(c, grip.x, grip.y, 0.045, 0.045, solid(0xd9a98a));
    line(c, shoulder.x, shoulder.y, 0.29, 1.52, 0.09, solid(0xcf9c7c));
    disc(c, 0.33, 1.61, 0.11, 0.125, solid(0xd9a98a));
    disc(c, 0.30, 1.68, 0.15, 0.095, solid(0xb8322c));
    line(c, 0.18, 1.66, 0.40, 1.69, 0.02, glaze(0xffffff, 0.6));
}

static void paint_cyclist(const raster *r, double seconds)
{
    carriage c = {r, position(cyclist.start, cyclist.speed, seconds), cyclist.base, metre_at(cyclist.base), 1};
    double rolled = cyclist.speed * seconds / c.scale;
    paint tube = solid(0x2c7a6b);
    disc(&c, 0.1, 0.0, 0.95, 0.07, glaze(0x050608, 0.45));
    bicycle_wheel(&c, -0.5, rolled / 0.34);
    bicycle_wheel(&c, 0.55, rolled / 0.34);
    line(&c, 0.02, 0.30, -0.5, 0.34, 0.028, tube);
    line(&c, 0.02, 0.30, -0.2, 0.86, 0.035, tube);
    line(&c, -0.5, 0.34, -0.17, 0.80, 0.026, tube);
    line(&c, 0.02, 0.30, 0.40, 0.82, 0.038, tube);
    line(&c, -0.17, 0.80, 0.40, 0.86, 0.035, tube);
    line(&c, 0.55, 0.34, 0.39, 0.98, 0.032, tube);
    line(&c, 0.39, 0.98, 0.54, 1.02, 0.03, solid(0x202226));
    line(&c, -0.32, 0.89, -0.10, 0.89, 0.05, solid(0x202226));
    disc(&c, 0.02, 0.30, 0.09, 0.09, solid(0x6c7175));
    rider(&c, rolled / 0.9);
}

static box cyclist_box(double seconds)
{
    double s = metre_at(cyclist.base);
    return (box){position(cyclist.start, cyclist.speed, seconds) - 1.1 * s, cyclist.base - 1.95 * s, 2.3 * s, 2.15 * s};
}

/* --- trees -------------------------------------------------------------------------------- */

typedef struct tree {
    double x, y, rx, ry;
    int leaves;
    uint32_t seed;
} tree;

static const tree trees[] = {{274, 136, 42, 46, 1500, 801}, {504, 134, 36, 40, 1200, 802}};

/* A gust travels along the street; leaves follow it and tremble by themselves. */
static point sway(double x, double y, double tremble, double seconds)
{
    double gust = sin(TURN * (seconds / 2.6 - x / 260)), high = (200 - y) / 100;
    return (point){high * (0.9 * gust + 0.5 * sin(TURN * (seconds / 0.9 + tremble))),
                   0.35 * high * sin(TURN * (seconds / 0.7 + 2 * tremble))};
}

static void paint_leaf(const raster *r, const tree *t, int i, double seconds)
{
    static const uint32_t greens[] = {0x2f5a2a, 0x3f7232, 0x56893c, 0x6f9f48, 0x8fb457};
    double a = TURN * raster_noise_at(i, 1, t->seed), layer = (double)i / t->leaves;
    double d = sqrt(raster_noise_at(i, 2, t->seed)), bump = 0.90 + 0.09 * sin(a * 7 + t->seed) + 0.07 * sin(a * 4 + 1);
    double x = t->x + cos(a) * d * t->rx * bump, y = t->y + sin(a) * d * t->ry * bump;
    /* Sun from the upper left, darkness inside and below. */
    double sun = 0.5 - 0.42 * (x - t->x) / t->rx - 0.55 * (y - t->y) / t->ry + 0.5 * (layer - 0.5);
    double tone = sun * 3 + 1.6 * raster_noise_at(i, 3, t->seed) - 0.2,
           size = 2.1 + 1.3 * raster_noise_at(i, 4, t->seed);
    int green = tone < 0 ? 0 : tone > 4 ? 4 : (int)tone;
    point shift = sway(x, y, raster_noise_at(i, 5, t->seed), seconds);
    double angle = TURN * raster_noise_at(i, 6, t->seed) + 0.12 * shift.x;
    paint p = {lit(srgb(greens[green]), 0.62 + 0.38 * layer), 1, NULL, NULL};
    raster_ellipse(r, x + shift.x, y + shift.y, size, size * 0.46, angle, p);
}

static void paint_tree(const raster *r, const tree *t, double seconds)
{
    for (int i = 0; i < t->leaves; i++)
        paint_leaf(r, t, i, seconds);
}

static box tree_box(const tree *t)
{
    double reach = 9;
    return (box){t->x - t->rx * 1.12 - reach, t->y - t->ry * 1.12 - reach, 2.24 * t->rx + 2 * reach,
                 2.24 * t->ry + 2 * reach};
}

/* --- all of it ---------------------------------------------------------------------------- */

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int traffic_boxes(double seconds, box boxes[STREET_MOVERS_MAX])
{
    int n = 0;
    for (int i = 0; i < COUNT(trees); i++)
        boxes[n++] = tree_box(&trees[i]);
    for (int i = 0; i < COUNT(walkers); i++)
        boxes[n++] = walker_box(&walkers[i], seconds);
    boxes[n++] = cyclist_box(seconds);
    for (int i = 0; i < COUNT(vehicles); i++)
        boxes[n++] = vehicle_box(&vehicles[i], seconds);
    return n;
}

static bool outside(const raster *r, box b)
{
    double left = r->clip_left / r->scale + r->left, right = r->clip_right / r->scale + r->left;
    double top = r->clip_top / r->scale + r->top, bottom = r->clip_bottom / r->scale + r->top;
    return b.x > right || b.x + b.width < left || b.y > bottom || b.y + b.height < top;
}

/* Far things first. */
void traffic_paint(const raster *r, double seconds)
{
    for (int i = 0; i < COUNT(trees); i++)
        if (!outside(r, tree_box(&trees[i])))
            paint_tree(r, &trees[i], seconds);
    for (int i = 0; i < COUNT(walkers); i++)
        if (!outside(r, walker_box(&walkers[i], seconds)))
            paint_walker(r, &walkers[i], seconds);
    if (!outside(r, cyclist_box(seconds)))
        paint_cyclist(r, seconds);
    for (int i = 0; i < COUNT(vehicles); i++)
        if (!outside(r, vehicle_box(&vehicles[i], seconds)))
            paint_vehicle(r, &vehicles[i], seconds);
}
