/* png_read.h: reading PNG pictures of 8 bits a sample: grey, RGB, a palette; what is transparent is shown opaque.
 *
 * Owns: the container, row filters, checksums. Relies on: inflate.h; pnm.h for what a picture is. Must never: trust the
 * file: memory is taken for no more pixels than its compressed bytes can hold.
 */
#ifndef PNG_READ_H
#define PNG_READ_H

#include "pnm.h"

/* bytes: of the whole file, which begins where `file` stands. False: message says why, and there is nothing to free. */
bool png_read(FILE *file, uint64_t bytes, pnm_picture *picture, char *message, size_t room);

#endif
