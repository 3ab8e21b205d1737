/* canvas.c: drawing.
 *
 * Owns: clipping, blending, text.
 * Relies on: canvas.h, font.h.
 * Must never: be used on the way to an output video: this is for looking.
 */
#include "canvas.h"

#include <string.h>

#include "font.h"

size_t canvas_bytes(int width, int height) { return (size_t)width * (size_t)height * 3; }

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

static void blend_pixel(uint8_t *pixel, canvas_colour colour, int alpha)
{
    const int rgb[3] = {colour.r, colour.g, colour.b};
    for (int i = 0; i < 3; i++)
        pixel[i] = (uint8_t)((pixel[i] * (255 - alpha) + rgb[i] * alpha + 127) / 255);
}

void canvas_blend(const canvas *out, int x, int y, int width, int height, canvas_colour colour, int alpha)
{
    int left = clamp(x, 0, out->width), right = clamp(x + width, 0, out->width);
    int top = clamp(y, 0, out->height), bottom = clamp(y + height, 0, out->height);
    for (int row = top; row < bottom; row++)
        for (int column = left; column < right; column++)
            blend_pixel(out->pixels + ((size_t)row * (size_t)out->width + (size_t)column) * 3, colour, alpha);
}

void canvas_fill(const canvas *out, int x, int y, int width, int height, canvas_colour colour)
{
    canvas_blend(out, x, y, width, height, colour, 255);
}

void canvas_tile(const canvas *out, int x, int y, int width, int height, canvas_colour colour, int alpha, int thickness)
{
    int t = clamp(thickness, 0, (width < height ? width : height) / 2);
    canvas_blend(out, x + t, y + t, width - 2 * t, height - 2 * t, colour, alpha);
    canvas_fill(out, x, y, width, t, colour);
    canvas_fill(out, x, y + height - t, width, t, colour);
    canvas_fill(out, x, y + t, t, height - 2 * t, colour);
    canvas_fill(out, x + width - t, y + t, t, height - 2 * t, colour);
}

int canvas_text_width(const char *text, int scale)
{
    int n = (int)strlen(text);
    return n ? (n * FONT_ADVANCE - 1) * scale : 0;
}

static void draw_glyph(const canvas *out, int x, int y, int scale, unsigned char c, canvas_colour colour)
{
    const uint8_t *rows = font_rows[(c < FONT_FIRST || c > FONT_LAST ? '?' : c) - FONT_FIRST];
    for (int row = 0; row < FONT_HEIGHT; row++)
        for (int dot = 0; dot < FONT_WIDTH; dot++)
            if (rows[row] >> (FONT_WIDTH - 1 - dot) & 1)
                canvas_fill(out, x + dot * scale, y + row * scale, scale, scale, colour);
}

void canvas_text(const canvas *out, int x, int y, int scale, const char *text, canvas_colour colour)
{
    for (; *text; text++, x += FONT_ADVANCE * scale)
        draw_glyph(out, x, y, scale, (unsigned char)*text, colour);
}

void canvas_label(const canvas *out, int x, int y, int scale, const char *text, canvas_colour colour)
{
    canvas_blend(out, x, y, canvas_text_width(text, scale) + 4 * scale, (FONT_HEIGHT + 4) * scale,
                 (canvas_colour){0, 0, 0}, 170);
    canvas_text(out, x + 2 * scale, y + 2 * scale, scale, text, colour);
}

void canvas_crop(const canvas *out, int x, int y, const canvas *from, int from_x, int from_y, int width, int height,
                 int factor)
{
    for (int row = 0; row < height; row++) {
        for (int column = 0; column < width; column++) {
            int sx = from_x + column, sy = from_y + row;
            if (sx < 0 || sy < 0 || sx >= from->width || sy >= from->height)
                continue;
            const uint8_t *p = from->pixels + ((size_t)sy * (size_t)from->width + (size_t)sx) * 3;
            canvas_fill(out, x + column * factor, y + row * factor, factor, factor, (canvas_colour){p[0], p[1], p[2]});
        }
    }
}
