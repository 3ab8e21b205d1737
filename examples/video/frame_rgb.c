/* frame_rgb.c: from Y'CbCr to RGB.
 *
 * Owns: colour matrices, chroma interpolation for display.
 * Relies on: frame_rgb.h, libm.
 * Must never: be used on the way to an output video: this is for looking.
 */
#include "frame_rgb.h"

#include <math.h>

frame_matrix frame_matrix_for(int height) { return height < 720 ? FRAME_BT601 : FRAME_BT709; }

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

/* 16.16 fixed point, from codes of any depth to 0..255. */
typedef struct conversion {
    int32_t luma, red_v, green_u, green_v, blue_u;
    int black, grey;
} conversion;

static int32_t fixed(double value) { return (int32_t)lround(value * 65536); }

static conversion make_conversion(const y4m_info *info, frame_matrix matrix)
{
    double kr = matrix == FRAME_BT709 ? 0.2126 : 0.299, kb = matrix == FRAME_BT709 ? 0.0722 : 0.114;
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

void frame_to_rgb(uint8_t *rgb, const y4m_info *info, const void *frame, frame_matrix matrix)
{
    const y4m_layout_facts *facts = y4m_facts(info->layout);
    const conversion c = make_conversion(info, matrix);
    const bool colour = y4m_planes(info) == 3;
    plane_view luma = view(info, frame, 0), cb = view(info, frame, colour ? 1 : 0), cr = cb;
    if (colour)
        cr = view(info, frame, 2);
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
