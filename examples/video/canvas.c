/* canvas.c: RGB conversion and drawing.
 *
 * Owns: colour matrices, chroma interpolation for display, clipping, text.
 * Relies on: canvas.h, font.h.
 * Must never: be used on the way to an output video: this is for looking.
 */
#include "canvas.h"

#include <math.h>
#include <string.h>

#include "font.h"

size_t canvas_bytes(int width, int height) { return (size_t)width * (size_t)height * 3; }

canvas_matrix canvas_matrix_for(int height) { return height < 720 ? CANVAS_BT601 : CANVAS_BT709; }

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

/* --- frames ------------------------------------------------------------------------------- */

/* 16.16 fixed point, from codes of any depth to 0..255. */
typedef struct conversion {
    int32_t luma, red_v, green_u, green_v, blue_u;
    int black, grey;
} conversion;

static int32_t fixed(double value) { return (int32_t)lround(value * 65536); }

static conversion make_conversion(const y4m_info *info, canvas_matrix matrix)
{
    double kr = matrix == CANVAS_BT709 ? 0.2126 : 0.299, kb = matrix == CANVAS_BT709 ? 0.0722 : 0.114;
    double kg = 1 - kr - kb;
    int shift = y4m_facts(info->layout)->bits - 8;
    bool full = info->range == Y4M_RANGE_FULL;
    double peak = (double)((256 << shift) - 1), step = (double)(1 << shift);
    double luma = full ? 255 / peak : 255 / (219 * step), chroma = full ? 255 / peak : 255 / (224 * step);
    conversion c = {0};
    c.luma = fixed(luma);
    c.red_v = fixed(2 * (1 - kr) * chroma);
    c.blue_u = fixed(2 * (1 - kb) * chroma);
    c.green_v = fixed(-2 * (1 - kr) * kr / kg * chroma);
    c.green_u = fixed(-2 * (1 - kb) * kb / kg * chroma);
    c.black = full ? 0 : 16 << shift;
    c.grey = 128 << shift;
    return c;
}

/* Which two chroma samples a luma sample lies between, and the second one's weight in quarters. */
typedef struct between {
    int a, b, quarters;
} between;

/* Chroma between two luma samples: luma x is at chroma x/2 - 1/4; cosited: at x/2. */
static between chroma_at(int x, int n, int halved, int cosited)
{
    int quarters = !halved ? 4 * x : cosited ? 2 * x : 2 * x - 1;
    int a = quarters < 0 ? -1 : quarters / 4;
    return (between){clamp(a, 0, n - 1), clamp(a + 1, 0, n - 1), quarters - 4 * a};
}

static int sample(const void *plane, size_t index, bool wide)
{
    return wide ? ((const uint16_t *)plane)[index] : ((const uint8_t *)plane)[index];
}

typedef struct plane_view {
    const void *data;
    int width, height;
    bool wide;
} plane_view;

static plane_view view(const y4m_info *info, const void *frame, int plane)
{
    return (plane_view){(const uint8_t *)frame + y4m_plane_offset(info, plane), y4m_plane_width(info, plane),
                        y4m_plane_height(info, plane), y4m_sample_bytes(info) > 1};
}

static int chroma_sample(plane_view p, between x, between y)
{
    size_t top = (size_t)y.a * (size_t)p.width, low = (size_t)y.b * (size_t)p.width;
    int a = sample(p.data, top + (size_t)x.a, p.wide) * (4 - x.quarters) +
            sample(p.data, top + (size_t)x.b, p.wide) * x.quarters;
    int b = sample(p.data, low + (size_t)x.a, p.wide) * (4 - x.quarters) +
            sample(p.data, low + (size_t)x.b, p.wide) * x.quarters;
    return (a * (4 - y.quarters) + b * y.quarters + 8) >> 4;
}

static uint8_t to_byte(int32_t fixed_value) { return (uint8_t)clamp((fixed_value + 32768) >> 16, 0, 255); }

static void to_rgb(const conversion *c, int y, int u, int v, uint8_t *rgb)
{
    int32_t luma = (y - c->black) * c->luma;
    u -= c->grey;
    v -= c->grey;
    rgb[0] = to_byte(luma + v * c->red_v);
    rgb[1] = to_byte(luma + u * c->green_u + v * c->green_v);
    rgb[2] = to_byte(luma + u * c->blue_u);
}

void canvas_from_frame(const canvas *out, const y4m_info *info, const void *frame, canvas_matrix matrix)
{
    const y4m_layout_facts *facts = y4m_facts(info->layout);
    const conversion c = make_conversion(info, matrix);
    const bool colour = y4m_planes(info) == 3;
    plane_view luma = view(info, frame, 0), cb = view(info, frame, colour ? 1 : 0), cr = cb;
    if (colour)
        cr = view(info, frame, 2);
    uint8_t *rgb = out->pixels;
    for (int y = 0; y < info->height; y++) {
        between down = chroma_at(y, cb.height, facts->halved_y, facts->cosited_y);
        for (int x = 0; x < info->width; x++, rgb += 3) {
            between across = chroma_at(x, cb.width, facts->halved_x, facts->cosited_x);
            int u = colour ? chroma_sample(cb, across, down) : c.grey;
            int v = colour ? chroma_sample(cr, across, down) : c.grey;
            to_rgb(&c, sample(luma.data, (size_t)y * (size_t)luma.width + (size_t)x, luma.wide), u, v, rgb);
        }
    }
}

/* --- drawing ------------------------------------------------------------------------------ */

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
