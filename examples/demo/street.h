/* street.h: the scene of the demo clip: a street seen by a fixed camera.
 *
 * Owns: what stands (street.c, houses.c) and what moves (traffic.c).
 * Relies on: raster.h. Everything is drawn by rule: no image is read.
 * Must never: depend on anything but the frame's time: a frame is the same however often it is drawn.
 */
#ifndef STREET_H
#define STREET_H

#include "raster.h"

enum { STREET_GROUND = 238, STREET_KERB = 262, STREET_ROAD_END = 356, STREET_HORIZON = 150, STREET_MOVERS_MAX = 12 };

/* All that stands behind the traffic. The sky is one part of the whole brighter where glow is 1; the
 * difference of two pictures tells where the sky shows through. */
enum { STREET_GLOW_PARTS = 4 };
void street_background(const raster *r, double glow);
void houses_paint(const raster *r);
/* All that stands before it. */
void street_foreground(const raster *r);
/* Light that the clouds add to the sky, as a part of the whole. */
double street_cloud(double x, double y, double seconds);
enum { STREET_SKY_BOTTOM = 104 };

/* Where things that move are at a time, a box for each; returns their number. */
int traffic_boxes(double seconds, box boxes[STREET_MOVERS_MAX]);
void traffic_paint(const raster *r, double seconds);

#endif
