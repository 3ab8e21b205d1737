/* canvas.h: drawing on RGB pictures, for the pictures that explain a result.
 *
 * Owns: labels, translucent tiles, magnified crops.
 * Relies on: nothing. Pixels are the caller's; write them out with png.h.
 * Must never: draw outside the canvas: whatever lies beyond its edges is cut off.
 */
#ifndef CANVAS_H
#define CANVAS_H

#include <stddef.h>
#include <stdint.h>

typedef struct canvas {
    uint8_t *pixels; /* R, G, B; rows without padding: canvas_bytes() */
    int width, height;
} canvas;

typedef struct canvas_colour {
    uint8_t r, g, b;
} canvas_colour;

size_t canvas_bytes(int width, int height);

void canvas_fill(const canvas *out, int x, int y, int width, int height, canvas_colour colour);

/* alpha of 255 covers. The tile has a translucent inside and an outline of full strength, thickness
 * pixels wide, inside its rectangle; 0 leaves it out. */
void canvas_blend(const canvas *out, int x, int y, int width, int height, canvas_colour colour, int alpha);
void canvas_tile(const canvas *out, int x, int y, int width, int height, canvas_colour colour, int alpha,
                 int thickness);

/* 5x7 dots of scale pixels each; a character takes 6 dots, characters beyond ASCII a question mark.
 * The label stands on a dark translucent strip, one dot wider than the text. */
int canvas_text_width(const char *text, int scale);
void canvas_text(const canvas *out, int x, int y, int scale, const char *text, canvas_colour colour);
void canvas_label(const canvas *out, int x, int y, int scale, const char *text, canvas_colour colour);

/* Copies a part of another canvas, each pixel as a square of factor x factor. */
void canvas_crop(const canvas *out, int x, int y, const canvas *from, int from_x, int from_y, int width, int height,
                 int factor);

#endif
