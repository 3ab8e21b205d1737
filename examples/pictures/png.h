/* png.h: writing a picture as PNG.
 *
 * Owns: the PNG container, its row filters, its checksums.
 * Relies on: deflate.h for the compression; stdio for the bytes.
 * Must never: allocate. Scratch is the caller's: png_scratch() bytes, aligned for uint64_t.
 */
#ifndef PNG_H
#define PNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* channels: 1 grey, 3 RGB; 8 bits each. Returns false where the file could not take it all. */
size_t png_scratch(int width, int channels);
bool png_write(FILE *file, const uint8_t *pixels, size_t stride_bytes, int width, int height, int channels,
               void *scratch);

#endif
