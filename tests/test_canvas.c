/* tags: asan */
/* test_canvas.c: what examples/pictures/canvas.h promises about drawing.
 *
 * Relies on: video_check.h.
 * Must never: reuse a table or a helper of the code under test.
 */
#define _POSIX_C_SOURCE 200809L
#include "../examples/pictures/canvas.h"
#include "video_check.h"

static void test_drawing_stays_inside(void)
{
    begin("drawing is cut off at the canvas's edges and nowhere else");
    static uint8_t memory[3 * (10 * 8 + 20)];
    memset(memory, 1, sizeof memory);
    canvas out = {memory + 30, 10, 8};
    const canvas_colour white = {255, 255, 255};
    canvas_text(&out, -7, -3, 2, "AZ~\xff", white);
    canvas_label(&out, 5, 5, 1, "label", white);
    canvas_tile(&out, -5, 2, 400, 500, white, 100, 2);
    canvas_tile(&out, 3, -9, 2, 90, white, 100, 5);
    canvas_crop(&out, -2, -2, &out, -3, -3, 30, 30, 3);
    canvas_fill(&out, -10, -10, 100, 100, white);
    for (int i = 0; i < 30; i++)
        check(memory[i] == 1 && memory[30 + 240 + i] == 1, "byte %d beside the canvas changed", i);
    for (int i = 0; i < 240; i++)
        check(memory[30 + i] == 255, "byte %d of the canvas not filled", i);
    finish();
}

static void test_blending(void)
{
    begin("a tile has a translucent inside and an opaque outline of the thickness asked for");
    static uint8_t pixels[8 * 8 * 3];
    memset(pixels, 100, sizeof pixels);
    canvas out = {pixels, 8, 8};
    canvas_tile(&out, 1, 1, 6, 6, (canvas_colour){200, 0, 100}, 128, 1);
    check(pixels[0] == 100, "outside is %d", pixels[0]);
    check(pixels[(8 + 1) * 3] == 200 && pixels[(6 * 8 + 6) * 3 + 1] == 0, "outline");
    check(pixels[(2 * 8 + 2) * 3] == 150 && pixels[(2 * 8 + 2) * 3 + 1] == 50, "inside is %d", pixels[(2 * 8 + 2) * 3]);
    finish();
}

static void test_glyphs(void)
{
    begin("every printable character has a glyph of its own");
    static uint8_t pixels[95][5 * 7 * 3];
    for (int c = 32; c < 127; c++) {
        char text[2] = {(char)c, 0};
        canvas out = {pixels[c - 32], 5, 7};
        canvas_text(&out, 0, 0, 1, text, (canvas_colour){1, 1, 1});
        for (int earlier = 32; earlier < c; earlier++)
            check(memcmp(pixels[c - 32], pixels[earlier - 32], sizeof pixels[0]) != 0, "'%c' looks like '%c'", c,
                  earlier);
    }
    check(canvas_text_width("abc", 2) == 34 && canvas_text_width("", 2) == 0, "width of text");
    finish();
}

int main(void)
{
    test_drawing_stays_inside();
    test_blending();
    test_glyphs();
    return summary();
}
