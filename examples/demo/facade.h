/* facade.h: what houses are made of: walls, windows, doors, shop fronts.
 *
 * Owns: the textures and the parts, each drawn at a place given in scene units.
 * Relies on: raster.h.
 * Must never: know which house it belongs to (houses.c does).
 */
#ifndef FACADE_H
#define FACADE_H

#include <stdbool.h>

#include "raster.h"

typedef struct wall {
    uint32_t brick, mortar;
    double course, length; /* of one brick with its joint */
    uint32_t seed;
} wall;

typedef struct coat {
    uint32_t colour;
    double groove; /* distance of horizontal grooves; 0 for none */
    uint32_t seed;
} coat;

/* Shades for raster paints: the user pointer is a wall, a coat, a coat. */
rgb facade_brick(double x, double y, const void *user);
rgb facade_plaster(double x, double y, const void *user);
rgb facade_boards(double x, double y, const void *user);

typedef struct window_style {
    uint32_t bar, stone;
    int columns, rows;
    bool shutters, arch, box;
} window_style;

/* (x, y) is the upper left corner of a part. */
void facade_ledge(const raster *r, double x, double y, double width, double height, uint32_t colour);
void facade_dentils(const raster *r, double x, double y, double width, uint32_t colour);
void facade_frame(const raster *r, box b, double width, paint p);
void facade_roof(const raster *r, double x0, double x1, double top, double bottom, double inset, uint32_t colour,
                 uint32_t seed);
void facade_chimney(const raster *r, double x, double y, double width, double height);
void facade_antenna(const raster *r, double x, double y);
void facade_pipe(const raster *r, double x, double top, double bottom);
void facade_stairs(const raster *r, double x, double y, double width, double height);
void facade_window(const raster *r, double x, double y, double w, double h, const window_style *s, uint32_t seed);
void facade_door(const raster *r, double x, double y, double w, double h, uint32_t colour);
void facade_shop_window(const raster *r, double x, double y, double w, double h, uint32_t trim);
void facade_bread(const raster *r, double x, double y, double width, uint32_t seed);
void facade_books(const raster *r, double x, double y, double width, uint32_t seed);
void facade_shine(const raster *r, double x, double y, double w, double h);
void facade_awning(const raster *r, double x, double y, double width, double height, uint32_t colour);
void facade_sign(const raster *r, double x, double y, double width, double height, uint32_t board, uint32_t letters,
                 const char *text, double size);
void facade_plate(const raster *r, double x, double y);

#endif
