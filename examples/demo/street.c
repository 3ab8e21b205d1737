/* street.c: sky, ground and street furniture: what stands still and is no house.
 *
 * Owns: the perspective of the ground, and the order in which the street is painted.
 * Relies on: raster.h for painting, facade.h for its stone, houses.c.
 * Must never: use a random number that is not a function of the place: two runs give the same street.
 *
 * Units are those of raster.h. Walls face the camera; the ground is seen in perspective, with the
 * horizon at STREET_HORIZON and one unit of a wall being one unit of ground where the two meet.
 */
#include "street.h"

#include "facade.h"

/* --- sky ---------------------------------------------------------------------------------- */

static rgb sky_shade(double x, double y, const void *glow)
{
    rgb high = srgb(0x6f9fd0), low = srgb(0xd3dfe6);
    rgb c = mix(high, low, smooth_step(-20, STREET_SKY_BOTTOM, y));
    double add = *(const double *)glow / STREET_GLOW_PARTS;
    (void)x;
    return (rgb){c.r + (float)add, c.g + (float)add, c.b + (float)add};
}

/* Low enough that most sky pixels change by no code, and the rest by one, from frame to frame. */
double street_cloud(double x, double y, double seconds)
{
    double wind = 5 * seconds;
    double density = raster_clouds((x - wind) / 95, y / 34, 4, 71);
    return 0.45 * smooth_step(0.42, 0.78, density) * smooth_step(115, 20, y);
}

/* --- far background ----------------------------------------------------------------------- */

static void skyline(const raster *r)
{
    paint far_away = solid(0xa9bccb), nearer = solid(0x8fa5b6);
    for (int i = 0; i < 60; i++) {
        double h = 18 + 26 * raster_noise_at(i, 1, 900);
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

static void cable(const raster *r, point a, point b, double sag, double width)
{
    enum { PIECES = 48 };
    point from = a;
    for (int i = 1; i <= PIECES; i++) {
        double u = (double)i / PIECES;
        point to = {a.x + (b.x - a.x) * u, a.y + (b.y - a.y) * u + sag * 4 * u * (1 - u)};
        raster_line(r, from.x, from.y, to.x, to.y, width, solid(0x22262b));
        from = to;
    }
}

static void cables(const raster *r)
{
    cable(r, (point){-10, 4}, (point){269, 21}, 9, 0.6);
    cable(r, (point){-10, 10}, (point){269, 27}, 10, 0.5);
    cable(r, (point){419, 22}, (point){660, 30}, 13, 0.6);
    cable(r, (point){419, 28}, (point){660, 38}, 15, 0.5);
    cable(r, (point){395, -4}, (point){660, 96}, 14, 0.7);
}

/* --- ground ------------------------------------------------------------------------------- */

/* Where on the ground a point of the picture lies: across and away, in units of the wall's foot. */
static point on_ground(double x, double y)
{
    const double depth = (double)(STREET_GROUND - STREET_HORIZON) / (y - STREET_HORIZON);
    return (point){(x - RASTER_UNITS_X / 2.0) * depth, depth * 420};
}

static rgb slab_shade(double x, double y, const void *user)
{
    point g = on_ground(x, y);
    double row = floor(g.y / 13), shift = fraction(row / 2) * 19, column = floor((g.x + shift) / 19);
    double in_x = fraction((g.x + shift) / 19) * 19, in_y = fraction(g.y / 13) * 13;
    double tone = raster_noise_at((int)column, (int)row, 601), grain = raster_noise(x * 1.4, y * 1.8, 602) - 0.5;
    rgb c = lit(srgb(0xa8a198), 0.80 + 0.26 * tone + 0.2 * grain);
    if (in_x < 0.9 || in_y < 1.6)
        c = lit(c, 0.55);
    (void)user;
    return lit(c, 0.86 + 0.26 * raster_clouds(g.x / 30, g.y / 30, 3, 603));
}

static rgb asphalt_shade(double x, double y, const void *user)
{
    point g = on_ground(x, y);
    double near_by = (y - STREET_KERB) / (STREET_ROAD_END - STREET_KERB);
    double grain = raster_noise(x * 1.7, y * 2.1, 611) - 0.5, coarse = raster_noise(g.x / 1.7, g.y / 3.5, 612) - 0.5;
    double stain = raster_clouds(g.x / 60, g.y / 22, 4, 613);
    double tone = 0.70 + 0.36 * stain + (0.34 + 0.16 * near_by) * grain + 0.30 * coarse;
    double stone = raster_noise_at((int)floor(x * 0.9), (int)floor(y * 1.2), 614);
    tone += stone > 0.93 ? 0.34 : stone < 0.05 ? -0.22 : 0; /* chippings */
    /* Wheels polish two bands in each lane. */
    double lane = fraction((g.y - 150) / 62);
    tone *= 1 + 0.07 * sin(lane * 12.566);
    (void)user;
    return lit(srgb(0x63656a), tone);
}

static rgb marking_shade(double x, double y, const void *user)
{
    double wear = raster_clouds(x / 5, y / 3, 3, 621);
    rgb under = asphalt_shade(x, y, NULL),
        over = lit(srgb(*(const uint32_t *)user), 0.9 + 0.15 * raster_noise(x, y, 622));
    return mix(under, over, smooth_step(0.26, 0.44, wear));
}

/* A rectangle of the ground: across and away to picture coordinates. */
static void ground_quad(const raster *r, double x0, double x1, double z0, double z1, paint p)
{
    const double reach = (STREET_GROUND - STREET_HORIZON) * 420.0, middle = RASTER_UNITS_X / 2.0;
    const double s0 = 420 / z0, s1 = 420 / z1;
    point q[4] = {{middle + x0 * s0, STREET_HORIZON + reach / z0},
                  {middle + x1 * s0, STREET_HORIZON + reach / z0},
                  {middle + x1 * s1, STREET_HORIZON + reach / z1},
                  {middle + x0 * s1, STREET_HORIZON + reach / z1}};
    raster_polygon(r, q, 4, p);
}

static void manhole(const raster *r, double x, double y, double rx, double ry)
{
    raster_ellipse(r, x, y + 0.5, rx + 1.2, ry + 0.9, 0, solid(0x35373a));
    raster_ellipse(r, x, y, rx, ry, 0, solid(0x55585c));
    for (int i = -4; i <= 4; i++) {
        double u = i / 5.0, half = sqrt(1 - u * u);
        raster_line(r, x + u * rx, y - ry * half * 0.9, x + u * rx, y + ry * half * 0.9, 0.7, solid(0x2e3033));
        raster_line(r, x - rx * half * 0.9, y + u * ry, x + rx * half * 0.9, y + u * ry, 0.45, solid(0x2e3033));
    }
}

static void crack(const raster *r, double x, double y, uint32_t seed)
{
    for (int i = 0; i < 26; i++) {
        double nx = x + 3.2 * (raster_noise_at(i, 1, seed) - 0.15), ny = y + 2.0 * (raster_noise_at(i, 2, seed) - 0.45);
        raster_line(r, x, y, nx, ny, 0.55, glaze(0x1c1d20, 0.75));
        x = nx, y = ny;
    }
}

static void kerb(const raster *r)
{
    static const coat stone = {0xbab4aa, 0, 631};
    raster_box(r, -20, STREET_KERB - 3, 700, 3.4, shaded(facade_plaster, &stone));
    raster_box(r, -20, STREET_KERB, 700, 3.6, solid(0x77736d));
    raster_box(r, -20, STREET_KERB + 3.4, 700, 2.4, glaze(0x0c0c10, 0.45));
    for (int i = 0; i < 40; i++)
        raster_line(r, i * 18 - 20, STREET_KERB - 3, i * 18 - 20.5, STREET_KERB + 3.6, 0.5, glaze(0x201c1a, 0.7));
}

static void ground(const raster *r)
{
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

static void lamp_post(const raster *r, double x)
{
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

static void bench(const raster *r, double x, double y)
{
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

static void litter_bin(const raster *r, double x, double y)
{
    raster_ellipse(r, x + 10, y + 20, 12, 1.6, 0, glaze(0x0c0a10, 0.4));
    raster_box(r, x, y, 12, 20, solid(0x2e4a3c));
    for (int i = 0; i < 5; i++)
        raster_box(r, x + 1 + i * 2.3, y + 4, 0.8, 15, solid(0x1c3028));
    raster_box(r, x - 1, y - 1.5, 14, 3, solid(0x3d6350));
    raster_text(r, x + 1.8, y + 7, 3.4, 0.7, "BIN", solid(0xe4e8da));
}

static void bus_stop(const raster *r, double x)
{
    paint post = solid(0x8d9296);
    raster_ellipse(r, x + 8, 257, 12, 1.4, 0, glaze(0x0c0a10, 0.35));
    raster_box(r, x - 1, 190, 2, 66, post);
    raster_box(r, x - 0.7, 190, 0.6, 66, glaze(0xffffff, 0.4));
    raster_box(r, x - 11, 184, 24, 24, solid(0xd9d9d4));
    raster_box(r, x - 10, 185, 22, 22, solid(0xc23a31));
    raster_text(r, x - 6, 188, 6, 1.1, "BUS", solid(0xffffff));
    raster_text(r, x - 8.6, 198, 5.4, 1.0, "STOP", solid(0xffffff));
    raster_box(r, x - 5.5, 214, 13, 17, solid(0xe9e8e2));
    for (int i = 0; i < 6; i++)
        raster_box(r, x - 4, 216.6 + i * 2.3, i % 3 == 1 ? 6.4 : 9.6, 0.8, solid(0x49535c));
}

static void trunk(const raster *r, double x, double base, double top)
{
    point sides[6] = {{x - 7, base},  {x - 4, base - 30},   {x - 3.4, top},
                      {x + 3.4, top}, {x + 4.5, base - 30}, {x + 8, base}};
    raster_ellipse(r, x + 12, base, 26, 2.6, 0, glaze(0x0c0a10, 0.35));
    raster_polygon(r, sides, 6, solid(0x58473a));
    for (int i = 0; i < 60; i++) {
        double u = raster_noise_at(i, 1, 700), y = top + (base - top) * raster_noise_at(i, 2, 700);
        raster_line(r, x - 3.5 + 7 * u, y, x - 3.5 + 7 * u + 0.8, y + 7, 0.55,
                    glaze(i & 1 ? 0x2c221c : 0x8a7460, 0.55));
    }
    raster_polygon(r, (point[3]){{x - 2, top + 6}, {x - 22, top - 24}, {x + 2, top}}, 3, solid(0x4d3e33));
    raster_polygon(r, (point[3]){{x + 2, top + 6}, {x + 24, top - 22}, {x - 2, top}}, 3, solid(0x4d3e33));
    for (int i = 0; i < 9; i++)
        raster_line(r, x - 17 + i * 4.4, base + 1.2, x - 17 + i * 4.4, base - 3, 0.7, solid(0x2b3130)); /* grille */
}

void street_background(const raster *r, double glow)
{
    raster_box(r, -400, -400, 1500, 1200, shaded(sky_shade, &glow));
    skyline(r);
    houses_paint(r);
    cables(r);
    ground(r);
    bench(r, 206, 240);
    litter_bin(r, 388, 235);
    lamp_post(r, 112);
    bus_stop(r, 417);
    trunk(r, 274, 258, 176);
    trunk(r, 504, 258, 172);
}

/* --- what stands before the traffic ------------------------------------------------------- */

static void bollard(const raster *r, double x)
{
    raster_ellipse(r, x + 4, 364, 9, 1.6, 0, glaze(0x0c0a10, 0.4));
    raster_box(r, x - 3.4, 334, 6.8, 31, solid(0x2a2e33));
    raster_box(r, x - 2.4, 334, 1.2, 31, glaze(0xffffff, 0.25));
    raster_ellipse(r, x, 334, 3.9, 2.6, 0, solid(0x34393f));
    raster_box(r, x - 3.4, 341, 6.8, 2.6, solid(0xd9d6c8));
    raster_box(r, x - 3.4, 346, 6.8, 1.2, solid(0x16181b));
}

static void speed_sign(const raster *r, double x)
{
    raster_box(r, x - 1.8, 208, 3.6, 170, solid(0x9aa0a4));
    raster_box(r, x - 1.2, 208, 0.9, 170, glaze(0xffffff, 0.5));
    raster_box(r, x + 0.9, 208, 0.9, 170, glaze(0x101010, 0.35));
    raster_ellipse(r, x, 200, 19, 19, 0, solid(0xb9bcbc));
    raster_ellipse(r, x, 200, 18, 18, 0, solid(0xc3272b));
    raster_ellipse(r, x, 200, 13.6, 13.6, 0, solid(0xf6f5ef));
    raster_text(r, x - 10, 193.4, 13, 2.4, "30", solid(0x16181c));
    raster_box(r, x - 15, 222, 30, 11, solid(0xf6f5ef));
    facade_frame(r, (box){x - 15, 222, 30, 11}, 0.9, solid(0x16181c));
    raster_text(r, x - 11.2, 225, 5, 0.95, "ZONE", solid(0x16181c));
}

void street_foreground(const raster *r)
{
    speed_sign(r, 612);
    for (int i = 0; i < 4; i++)
        bollard(r, 36 + i * 46);
}
