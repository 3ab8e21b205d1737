/* tags: asan */
/* Promises: images of many channels, which lie side by side, are resized to the bytes of their channels one by one: of
 * every kind, by factors and to sizes, whatever remains of a block of channels. */
#include "net.h"

static BS_ALIGNED uint8_t persistent[4 << 20], transient[4 << 20], staging[1 << 16];
static bs_error error;

enum { MOST = 40, HIGH = 7, WIDE = 9, MOST_OUT = 30 };
static float x[MOST][HIGH][WIDE], whole[MOST * MOST_OUT * MOST_OUT], one[MOST_OUT * MOST_OUT];

/* The size of the result, as [height, width] in out; false: it did not run. */
static bool resize(const bs_resize_desc *desc, int32_t channels, float *from, float *to, int64_t out[2])
{
    bs_memory memory;
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&memory.slots, "slots", NULL, 0);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    bs_value image = bs_input(g, "x", BS_F32, BS_SHAPE3(channels, HIGH, WIDE));
    bs_output(g, "y", bs_resize(g, bs_affine(g, image, 1, 0), desc));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, NULL, &error) : NULL;
    int64_t dims[BS_MAX_AXES];
    if (!s || bs_bind(s, "x", &(bs_buffer){from, BS_F32, 3, {channels, HIGH, WIDE}, {0}}, &error) != BS_OK ||
        bs_bound_extents(s, "y", dims, &error) != BS_OK)
        return false;
    out[0] = dims[1];
    out[1] = dims[2];
    const bool ran = bs_bind(s, "y", &(bs_buffer){to, BS_F32, 3, {channels, dims[1], dims[2]}, {0}}, &error) == BS_OK &&
                     bs_run(s, &error) == BS_OK;
    bs_session_close(s);
    return ran;
}

static void test_channels(const bs_resize_desc *desc, const char *what)
{
    static const int32_t counts[] = {2, 3, 4, 5, 15, 16, 17, 32, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int32_t channels = counts[i];
        int64_t size[2], single[2];
        int32_t wrong = 0;
        bool ran = resize(desc, channels, &x[0][0][0], whole, size);
        for (int32_t c = 0; c < channels && ran; c++) {
            ran = resize(desc, 1, &x[c][0][0], one, single) && single[0] == size[0] && single[1] == size[1];
            const size_t plane = (size_t)(size[0] * size[1]);
            wrong += ran && memcmp(one, whole + plane * (size_t)c, sizeof *one * plane) != 0;
        }
        check(ran && wrong == 0, "%s, %d channels: as one by one (%d differ) %s", what, channels, wrong, error.message);
    }
}

int main(void)
{
    check_seed(11);
    for (int32_t i = 0; i < MOST * HIGH * WIDE; i++)
        (&x[0][0][0])[i] = i % 53 == 0 ? -0.0f : (float)check_below(20001) / 1000.0f - 10.0f;
    test_channels(&(bs_resize_desc){.factor = 2, .kind = BS_RESIZE_BILINEAR}, "bilinear x 2");
    test_channels(&(bs_resize_desc){.factor = 3, .kind = BS_RESIZE_BICUBIC}, "bicubic x 3");
    test_channels(&(bs_resize_desc){.factor = 3, .den = 2, .kind = BS_RESIZE_BILINEAR}, "bilinear x 3/2");
    test_channels(&(bs_resize_desc){.height = 5, .width = 4, .kind = BS_RESIZE_AREA}, "areas");
    test_channels(&(bs_resize_desc){.height = 11, .width = 13, .kind = BS_RESIZE_BILINEAR,
                                    .centres = BS_RESIZE_ALIGN_CORNERS}, "bilinear, corners aligned");
    test_channels(&(bs_resize_desc){.factor = 1, .den = 2, .kind = BS_RESIZE_BICUBIC, .antialias = 1},
                  "bicubic / 2, antialias");
    test_channels(&(bs_resize_desc){.factor = 2, .kind = BS_RESIZE_NEAREST}, "nearest x 2");
    return check_end();
}
