/* houses.c: the five houses of the street, left to right.
 *
 * Owns: where each part of a house is.
 * Relies on: facade.h for the parts; street.h.
 * Must never: draw below STREET_GROUND but for steps: the ground is painted later.
 */
#include "facade.h"
#include "street.h"

static void house_bakery(const raster *r)
{
    static const wall brick = {0xa8523f, 0xc9b8a6, 4.6, 12.6, 101};
    static const window_style sash = {0xf0ece2, 0xd6cbb6, 2, 4, false, true, false};
    raster_box(r, -10, 30, 160, 210, shaded(facade_brick, &brick));
    for (int floor_number = 0; floor_number < 2; floor_number++)
        for (int i = 0; i < 4; i++) {
            window_style s = sash;
            s.box = floor_number == 1;
            facade_window(r, 10 + i * 36, 56 + floor_number * 54, 20, 36, &s, (uint32_t)(10 + i + 4 * floor_number));
        }
    facade_ledge(r, -10, 26, 160, 6, 0xcdc0a8);
    facade_dentils(r, -10, 33, 160, 0xcdc0a8);
    facade_ledge(r, -10, 150, 160, 3, 0xcdc0a8);
    raster_box(r, -10, 156, 158, 82, solid(0x5c2f2a));
    facade_shop_window(r, 8, 190, 62, 42, 0x7a3d34);
    for (int i = 0; i < 3; i++)
        facade_bread(r, 10, 206 + i * 12, 58, (uint32_t)(300 + i));
    facade_shine(r, 8, 190, 62, 42);
    facade_door(r, 84, 192, 22, 44, 0x2f5560);
    facade_shop_window(r, 120, 192, 24, 40, 0x7a3d34);
    for (int i = 0; i < 3; i++)
        facade_bread(r, 121, 208 + i * 11, 22, (uint32_t)(320 + i));
    facade_shine(r, 120, 192, 24, 40);
    facade_sign(r, 6, 158, 138, 17, 0x7b2a26, 0xf4dfa6, "CORNER BAKERY", 10);
    facade_awning(r, 6, 177, 70, 13, 0xb03a36);
}

static void house_cream(const raster *r)
{
    static const coat upper = {0xe6d5ae, 0, 201}, lower = {0xcbb891, 11, 202};
    static const window_style casement = {0xf7f4ec, 0xe9e2d0, 2, 3, true, false, false};
    raster_box(r, 150, 70, 118, 170, shaded(facade_plaster, &upper));
    raster_box(r, 150, 166, 118, 74, shaded(facade_plaster, &lower));
    facade_chimney(r, 166, 20, 18, 34);
    facade_roof(r, 150, 268, 40, 72, 14, 0x59616b, 210);
    for (int i = 0; i < 2; i++) { /* dormers */
        double x = 178 + i * 42;
        point gable[3] = {{x - 4, 50}, {x + 9, 39}, {x + 22, 50}};
        raster_box(r, x, 49, 18, 20, solid(0xd9c9a4));
        window_style s = {0xf7f4ec, 0xe9e2d0, 2, 2, false, false, false};
        facade_window(r, x + 3.5, 52, 11, 14, &s, (uint32_t)(50 + i));
        raster_polygon(r, gable, 3, solid(0x3a4048));
        raster_line(r, x - 4, 50, x + 9, 39, 1.2, solid(0xe9e2d0));
        raster_line(r, x + 22, 50, x + 9, 39, 1.2, solid(0xe9e2d0));
    }
    for (int i = 0; i < 3; i++)
        facade_window(r, 166 + i * 36, 98, 15, 42, &casement, (uint32_t)(60 + i));
    facade_ledge(r, 150, 160, 118, 4, 0xefe6d0);
    facade_door(r, 162, 194, 23, 43, 0x8c2f2b);
    facade_plate(r, 156, 171);
    static const window_style plain = {0xf7f4ec, 0xe9e2d0, 3, 2, false, false, true};
    facade_window(r, 204, 198, 44, 28, &plain, 66);
    facade_pipe(r, 263, 74, 238);
}

static void house_books(const raster *r)
{
    static const wall brick = {0xb79a6b, 0xd8ccb4, 4.6, 12.6, 301};
    static const window_style tall = {0x3a3f3c, 0xe4dccb, 2, 3, false, true, false};
    raster_box(r, 268, 16, 152, 224, shaded(facade_brick, &brick));
    for (int y = 0; y < 3; y++) {
        facade_ledge(r, 268, 56 + y * 50, 152, 2.6, 0xe4dccb);
        for (int i = 0; i < 4; i++)
            facade_window(r, 278 + i * 36, 22 + y * 50 + (y == 0 ? 2 : 0), 19, y == 0 ? 28 : 33, &tall,
                          (uint32_t)(80 + i + 4 * y));
    }
    facade_ledge(r, 268, 10, 152, 6, 0xe4dccb);
    raster_box(r, 270, 162, 148, 76, solid(0x1f3d34));
    facade_shop_window(r, 278, 186, 54, 46, 0x2b5447);
    for (int i = 0; i < 4; i++)
        facade_books(r, 279, 196 + i * 11.5, 52, (uint32_t)(500 + i));
    facade_shine(r, 278, 186, 54, 46);
    facade_door(r, 340, 190, 20, 46, 0x2b5447);
    facade_shop_window(r, 370, 186, 42, 46, 0x2b5447);
    for (int i = 0; i < 4; i++)
        facade_books(r, 371, 196 + i * 11.5, 40, (uint32_t)(520 + i));
    facade_shine(r, 370, 186, 42, 46);
    facade_sign(r, 274, 165, 140, 16, 0x16302a, 0xe9c878, "BOOKS & COFFEE", 9);
}

static void house_boards(const raster *r)
{
    static const coat boards = {0x7f98a6, 5.2, 401};
    static const window_style small = {0xf2f0ea, 0xdcd6c8, 2, 2, false, false, true};
    raster_box(r, 420, 96, 98, 144, shaded(facade_boards, &boards));
    facade_chimney(r, 486, 44, 20, 36);
    facade_roof(r, 420, 518, 64, 98, 10, 0xb0603f, 410);
    facade_antenna(r, 450, 38);
    for (int i = 0; i < 2; i++)
        facade_window(r, 434 + i * 42, 116, 26, 34, &small, (uint32_t)(120 + i));
    facade_ledge(r, 420, 168, 98, 3, 0xdcd6c8);
    raster_box(r, 432, 184, 56, 54, solid(0x30363a)); /* roller shutter */
    for (double y = 186; y < 235; y += 4.6) {
        raster_box(r, 434, y, 52, 3.2, solid(0xb7bcbd));
        raster_box(r, 434, y, 52, 1.1, solid(0xe2e5e5));
    }
    raster_text(r, 438, 203, 8.2, 1.5, "GARAGE", glaze(0x274c7d, 0.85));
    facade_sign(r, 432, 173, 56, 9.5, 0xe8e4d6, 0x9a2f2a, "NO PARKING", 5.6);
    facade_pipe(r, 512, 100, 238);
}

static void house_cafe(const raster *r)
{
    static const wall brick = {0x96483a, 0xb9a594, 4.6, 12.6, 501};
    static const window_style sash = {0xe6e2d6, 0xc4b8a2, 2, 4, false, true, false};
    raster_box(r, 518, 40, 140, 200, shaded(facade_brick, &brick));
    for (int y = 0; y < 2; y++)
        for (int i = 0; i < 3; i++)
            facade_window(r, 530 + i * 38, 60 + y * 54, 21, 36, &sash, (uint32_t)(140 + i + 3 * y));
    facade_ledge(r, 518, 36, 140, 6, 0xb9ab93);
    facade_dentils(r, 518, 43, 140, 0xb9ab93);
    facade_stairs(r, 562, 50, 44, 108);
    facade_ledge(r, 518, 156, 140, 3, 0xb9ab93);
    raster_box(r, 518, 160, 140, 78, solid(0x2b2f36));
    facade_shop_window(r, 528, 192, 58, 40, 0x3d444d);
    for (int i = 0; i < 4; i++) { /* chairs and cups behind the glass */
        raster_line(r, 536 + i * 14, 216, 536 + i * 14, 232, 1, solid(0x6e4c30));
        raster_ellipse(r, 536 + i * 14, 216, 6, 1.3, 0, solid(0x8a6140));
        raster_box(r, 534 + i * 14, 212, 3, 3.4, solid(0xe9e5da));
    }
    facade_shine(r, 528, 192, 58, 40);
    facade_door(r, 600, 190, 22, 46, 0x4a2f24);
    facade_sign(r, 524, 163, 70, 16, 0x2b2f36, 0xf2ead8, "CAFE", 10);
    facade_awning(r, 522, 181, 72, 12, 0x2f6a4f);
}

/* The lower ones first: their neighbours' side walls stand before their roofs. */
void houses_paint(const raster *r)
{
    house_cream(r);
    house_boards(r);
    house_bakery(r);
    house_books(r);
    house_cafe(r);
}
