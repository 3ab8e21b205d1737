/* resample.h: a picture of another size.
 * Owns: the filter: a triangle that is as wide as a pixel of the larger of both (bilinear, without aliasing where the
 * picture becomes smaller). Relies on: pnm.h. Must never: read outside the picture. */
#ifndef RESAMPLE_H
#define RESAMPLE_H

#include "pnm.h"

/* `to` gets the pixels of `from` at width x height, from malloc. False: no memory, and nothing to free. */
bool resample(const pnm_picture *from, int width, int height, pnm_picture *to);

#endif
