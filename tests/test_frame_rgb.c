/* tags: asan */
/* test_frame_rgb.c: what examples/video/frame_rgb.h promises about frames as RGB.
 *
 * Owns: colours worked out from the formulas. Relies on: plane_rig.h, video_check.h.
 * Must never: reuse a table or a helper of the code under test.
 */
#define _POSIX_C_SOURCE 200809L
#include "../examples/video/frame_rgb.h"
#include "plane_rig.h"

static void colour_case(y4m_layout layout, y4m_range range, frame_matrix matrix, const int yuv[3], const int rgb[3])
{
    uint16_t frame[12];
    uint8_t pixels[12];
    y4m_info info = {.width = 2, .height = 2, .layout = layout, .range = range};
    int deep = y4m_sample_bytes(&info) == 2;
    for (int p = 0; p < y4m_planes(&info); p++) {
        for (size_t i = 0; i < y4m_plane_bytes(&info, p) / (deep ? 2 : 1); i++) {
            size_t at = y4m_plane_offset(&info, p) / (deep ? 2 : 1) + i;
            if (deep)
                frame[at] = (uint16_t)(yuv[p] * 4);
            else
                ((uint8_t *)frame)[at] = (uint8_t)yuv[p];
        }
    }
    frame_to_rgb(pixels, &info, frame, matrix);
    for (int i = 0; i < 12; i++)
        check(abs(pixels[i] - rgb[i % 3]) <= 1, "%s range %d matrix %d: channel %d is %d, not %d",
              y4m_facts(layout)->name, (int)range, (int)matrix, i % 3, pixels[i], rgb[i % 3]);
}

static void test_colours(void)
{
    begin("frames become RGB by matrix and range, in every layout");
    static const struct {
        y4m_range range;
        frame_matrix matrix;
        int yuv[3], rgb[3];
    } known[] = {
        {Y4M_RANGE_LIMITED, FRAME_BT601, {16, 128, 128}, {0, 0, 0}},
        {Y4M_RANGE_UNSAID, FRAME_BT601, {235, 128, 128}, {255, 255, 255}},
        {Y4M_RANGE_FULL, FRAME_BT601, {100, 128, 128}, {100, 100, 100}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {81, 90, 240}, {254, 0, 0}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {145, 54, 34}, {0, 255, 1}},
        {Y4M_RANGE_LIMITED, FRAME_BT601, {41, 240, 110}, {0, 0, 255}},
        {Y4M_RANGE_LIMITED, FRAME_BT709, {63, 102, 240}, {255, 1, 0}},
        {Y4M_RANGE_LIMITED, FRAME_BT709, {173, 42, 26}, {0, 255, 1}},
        {Y4M_RANGE_FULL, FRAME_BT601, {76, 85, 255}, {254, 0, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int layout = 0; layout < Y4M_LAYOUT_COUNT; layout++)
            if (layout != Y4M_LAYOUT_MONO &&
                !(known[i].range == Y4M_RANGE_FULL && y4m_facts((y4m_layout)layout)->bits > 8))
                colour_case((y4m_layout)layout, known[i].range, known[i].matrix, known[i].yuv, known[i].rgb);
    colour_case(Y4M_LAYOUT_MONO, Y4M_RANGE_FULL, FRAME_BT601, (int[]){9, 0, 0}, (int[]){9, 9, 9});
    check(frame_matrix_for(576) == FRAME_BT601 && frame_matrix_for(720) == FRAME_BT709, "choice by size");
    finish();
}

/* Chroma that rises with its position under luma must give a blue that rises evenly with it. */
static void test_chroma_lies_under_luma(void)
{
    begin("chroma is shown where its siting puts it");
    const int halved[] = {Y4M_LAYOUT_420JPEG, Y4M_LAYOUT_420MPEG2, Y4M_LAYOUT_420PALDV, Y4M_LAYOUT_422};
    for (size_t i = 0; i < sizeof halved / sizeof *halved; i++) {
        static uint8_t frame[16 * 16 * 3], pixels[16 * 16 * 3];
        y4m_info info = {.width = 16, .height = 16, .layout = (y4m_layout)halved[i], .range = Y4M_RANGE_FULL};
        const y4m_layout_facts *f = y4m_facts(info.layout);
        int w = y4m_plane_width(&info, 1), h = y4m_plane_height(&info, 1);
        memset(frame, 100, sizeof frame);
        for (int k = 0; k < w * h; k++) {
            size_t u = y4m_plane_offset(&info, 1) + (size_t)k, v = y4m_plane_offset(&info, 2) + (size_t)k;
            frame[u] = (uint8_t)(100 + 2 * luma_position(k % w, f->halved_x, f->cosited_x) +
                                 2 * luma_position(k / w, f->halved_y, f->cosited_y));
            frame[v] = 128;
        }
        frame_to_rgb(pixels, &info, frame, FRAME_BT601);
        for (int y = 2; y < 13; y++)
            for (int x = 2; x < 13; x++) {
                double want = 100 + 1.772 * (100 + 2 * x + 2 * y - 128);
                check(near(pixels[(y * 16 + x) * 3 + 2], want, 1.4), "%s: blue at %d,%d is %d, not %.1f", f->name, x, y,
                      pixels[(y * 16 + x) * 3 + 2], want);
            }
    }
    finish();
}

int main(void)
{
    test_colours();
    test_chroma_lies_under_luma();
    return summary();
}
