/* pnm.h: reading and writing pictures as PGM (grey) and PPM (RGB), 8 bits a sample.
 *
 * Owns: the binary forms P5 and P6. Relies on: stdio. Must never: trust the file: extents are at most PNM_MOST, and
 * memory is taken for what they say, then all of it must be there.
 */
#ifndef PNM_H
#define PNM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PNM_MOST = 1 << 15 };

typedef struct pnm_picture {
    uint8_t *pixels; /* rows without padding; from malloc */
    int width, height, channels; /* 1 or 3 */
} pnm_picture;

/* False: message says why, and there is nothing to free. */
bool pnm_read(FILE *file, pnm_picture *picture, char *message, size_t room);
bool pnm_write(FILE *file, const pnm_picture *picture);

#endif
