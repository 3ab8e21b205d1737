/* tags: long asan */
/* test_demo_clip.c: what the demo clip's renderer promises.
 *
 * Owns: frames painted whole, to compare with frames painted piece by piece.
 * Relies on: examples/demo/demo_clip.c, included so that its camera can be used; video_check.h.
 * Must never: take long: frames are a quarter of the clip's size and smaller.
 */
#define main demo_clip_main
#include "../examples/demo/demo_clip.c"
#undef main

#include "video_check.h"

static size_t frame_bytes(const camera *c)
{
    size_t chroma = (size_t)((c->width + 1) / 2) * (size_t)((c->height + 1) / 2);
    return (size_t)c->width * (size_t)c->height + 2 * chroma;
}

static void release(camera *c)
{
    free(c->still.samples), free(c->now.samples), free(c->light), free(c->code);
    free(c->sky), free(c->row), free(c->frame);
    memset(c, 0, sizeof *c);
}

/* A frame without any memory of the frames before. */
static void paint_whole(camera *c, double seconds)
{
    const box all = {-2000, -2000, 4000, 4000};
    repaint(c, &all, seconds);
}

/* Long enough for everything to leave the picture and come back. */
static void pieces_case(int width, int height)
{
    static camera one, other;
    const options o = {NULL, 1, width, height, true};
    if (!check(start(&one, &o) && start(&other, &o), "out of memory"))
        return;
    first_frame(&one);
    for (int frame = 1; frame <= 420; frame++) {
        next_frame(&one, frame);
        if (frame % 30)
            continue;
        paint_whole(&other, (double)frame / FPS);
        check(memcmp(one.frame, other.frame, frame_bytes(&one)) == 0, "%d x %d: frame %d differs", width, height,
              frame);
    }
    release(&one);
    release(&other);
}

static void test_pieces_make_the_whole(void)
{
    begin("a frame painted piece by piece equals the same frame painted whole");
    pieces_case(160, 92);
    pieces_case(61, 33);
    finish();
}

static bool moved_over(const camera *c, int x, int y, int frames)
{
    for (int frame = 0; frame <= frames; frame++) {
        box boxes[STREET_MOVERS_MAX];
        int n = traffic_boxes((double)frame / FPS, boxes);
        for (int i = 0; i < n; i++) {
            area a = pixels_of(c, &boxes[i]);
            if (x >= a.left && x < a.right && y >= a.top && y < a.bottom)
                return true;
        }
    }
    return y < c->sky_rows;
}

static void test_what_stands_is_equal(void)
{
    begin("luma that nothing moved over is equal in every frame");
    static camera c;
    const options o = {NULL, 1, 320, 184, true};
    uint8_t *before = malloc(320 * 184);
    int standing = 0, moving = 0;
    if (check(before && start(&c, &o), "out of memory")) {
        first_frame(&c);
        memcpy(before, c.frame, 320 * 184);
        for (int frame = 1; frame <= 12; frame++)
            next_frame(&c, frame);
        for (int i = 0; i < 320 * 184; i++) {
            bool over = moved_over(&c, i % 320, i / 320, 12);
            check(over || c.frame[i] == before[i], "pixel %d, %d", i % 320, i / 320);
            standing += !over;
            moving += c.frame[i] != before[i];
        }
        check(standing > 320 * 184 / 4 && moving > 320 * 184 / 50, "%d stand, %d changed", standing, moving);
        release(&c);
    }
    free(before);
    finish();
}

int main(void)
{
    test_pieces_make_the_whole();
    test_what_stands_is_equal();
    return summary();
}
