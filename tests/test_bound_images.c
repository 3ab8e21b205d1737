/* tags: asan tsan */
/* Promises: an image comes out the same however its outputs are bound, nothing beside its elements is written, and
 * where an output is bound channels last, as kernels write, it is written once, without rows in the arena. An image
 * that comes in gives the same however it is bound, nothing beside its elements is read, and where it is bound channels
 * last and nothing is needed around it, it is read where it is. A saved plan that would write or read anywhere else is
 * refused. */
#include "check.h"
#include "net.h"
#include "plan_image.h"
#include "plan/plan.h"
#include "run/session.h"

enum { CHANNELS = 5, HEIGHT = 9, WIDTH = 7, ALL = CHANNELS * HEIGHT * WIDTH, ROOM = 6 * ALL, UNTOUCHED = 77 };

typedef struct layout {
    const char *name;
    int64_t stride[3];
    bool direct; /* it can be written as it is made */
} layout;

static const layout layouts[] = {
    {"planes", {HEIGHT * WIDTH, WIDTH, 1}, false},
    {"planes, last row first", {HEIGHT * WIDTH, -WIDTH, 1}, false},
    {"channels last", {1, WIDTH * CHANNELS, CHANNELS}, true},
    {"channels last, gaps between rows", {1, WIDTH * CHANNELS + 3, CHANNELS}, true},
    {"channels last, last row first", {1, -WIDTH * CHANNELS, CHANNELS}, true},
    {"channels last, gaps between pixels", {1, WIDTH * (CHANNELS + 2), CHANNELS + 2}, false},
    {"rows of channels, a pixel's step is their number", {WIDTH * CHANNELS, WIDTH * CHANNELS * CHANNELS, CHANNELS},
     false},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static float data[2 * (HEIGHT + 2) * (WIDTH + 2)], memory[2][ROOM], want[ALL];

/* Binds output `name`, element [0, 0, 0] of which stands where no stride leads out of its memory. */
static bool bind(net *n, const char *name, float *at, const layout *l)
{
    bs_buffer b = {at + (l->stride[1] < 0 ? -l->stride[1] * (HEIGHT - 1) : 0), BS_F32, 3, {CHANNELS, HEIGHT, WIDTH},
                   {l->stride[0], l->stride[1], l->stride[2]}};
    return bs_bind(n->session, name, &b, &n->error) == BS_OK;
}

/* Whether the elements are `want`, and all else is as it was. */
static bool is_wanted(const float *at, const layout *l)
{
    static float seen[ROOM];
    for (int32_t i = 0; i < ROOM; i++)
        seen[i] = UNTOUCHED;
    const int64_t first = l->stride[1] < 0 ? -l->stride[1] * (HEIGHT - 1) : 0;
    for (int32_t i = 0; i < ALL; i++) {
        const int32_t c = i / (HEIGHT * WIDTH), y = i / WIDTH % HEIGHT, x = i % WIDTH;
        seen[first + c * l->stride[0] + y * l->stride[1] + x * l->stride[2]] = want[i];
    }
    return memcmp(seen, at, sizeof seen) == 0;
}

/* A convolution that is an output, or two; `read`: and something else reads it. */
static bool start(net *n, net_table *t, bool read, int32_t *value)
{
    const int64_t dim[4] = {CHANNELS, 2, 3, 3};
    bs_graph *g = net_begin(n);
    memset(t, 0, sizeof *t);
    net_add(t, "c.weight", 4, dim, 0.2f);
    net_add(t, "c.bias", 1, dim, 0.5f);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(2, HEIGHT, WIDTH));
    const bs_value y = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = CHANNELS});
    bs_output(g, "a", y);
    bs_output(g, "b", read ? bs_affine(g, y, 1, 0) : y);
    *value = y.id;
    const bs_weights weights = bs_weights_from_table(&t->table);
    return net_start(n, &(bs_plan_desc){.threads = 2}, &weights);
}

static void test_layouts(bool read)
{
    static net n;
    static net_table t;
    int32_t value;
    const bs_buffer x = {data, BS_F32, 3, {2, HEIGHT, WIDTH}, {0}};
    check(start(&n, &t, read, &value) && bs_bind(n.session, "x", &x, &n.error) == BS_OK, "a session");
    for (int32_t i = 0; i < LAYOUTS * LAYOUTS; i++) {
        const layout *a = &layouts[i / LAYOUTS], *b = &layouts[i % LAYOUTS];
        for (int32_t k = 0; k < ROOM; k++)
            memory[0][k] = memory[1][k] = UNTOUCHED;
        const bs_value_plan *p = &n.session->plan->values[value];
        uint8_t *rows = bs_bytes_at(n.session->transient, p->offset);
        memset(rows, 0x77, (size_t)bs_bytes_figure(p->row_bytes));
        const bool ran = bind(&n, "a", memory[0], a) && bind(&n, "b", memory[1], b) &&
                         bs_run(n.session, &n.error) == BS_OK;
        for (int32_t k = 0; i == 0 && k < ALL; k++) /* planes of the first pair; others must be the same */
            want[k] = memory[0][k];
        const bool same = ran && is_wanted(memory[0], a) && is_wanted(memory[1], b);
        check(same, "bound as %s, and as %s%s: %s", a->name, b->name, read ? ", read by another" : "",
              ran ? "the same image" : n.error.message);
        check((rows[0] == 0x77) == (a->direct && !read), "%s: written %s", a->name, a->direct ? "at once" : "in rows");
    }
    bs_session_close(n.session);
}

/* ------------------------------------------------------------------------------------------- images that come in */

typedef struct reader {
    const char *name;
    int32_t channels, kernel, stride, groups;
    bool padded; /* it needs zeros around the image */
} reader;

static const reader readers[] = {{"of points", 5, 1, 1, 1, false},       {"of points apart", 5, 1, 2, 1, false},
                                 {"of patches", 3, 3, 3, 1, false},      {"of windows", 3, 3, 1, 1, false},
                                 {"of windows of many", 16, 3, 1, 1, false}, {"of channels", 9, 3, 1, 9, false},
                                 {"of groups", 8, 3, 2, 2, false},       {"with zeros around", 5, 3, 1, 1, true}};
enum { READERS = sizeof readers / sizeof *readers, MOST_CHANNELS = 16, MADE = MOST_CHANNELS * HEIGHT * WIDTH };

static bool start_reader(net *n, net_table *t, const reader *r, int32_t *value)
{
    const int32_t out = r->groups > 1 ? r->channels : 7;
    const int64_t dim[4] = {out, r->channels / r->groups, r->kernel, r->kernel};
    bs_graph *g = net_begin(n);
    memset(t, 0, sizeof *t);
    net_add(t, "c.weight", 4, dim, 0.2f);
    net_add(t, "c.bias", 1, dim, 0.5f);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(r->channels, HEIGHT, WIDTH));
    bs_output(g, "y", bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = out, .kernel = r->kernel,
                                                         .stride = r->stride, .groups = r->groups,
                                                         .padding = r->padded ? BS_PAD_DEFAULT : BS_PAD_VALID}));
    *value = x.id;
    const bs_weights weights = bs_weights_from_table(&t->table);
    return net_start(n, &(bs_plan_desc){.threads = 2}, &weights);
}

/* Runs with the image in memory that ends with its last element: planes, or channels last. */
static bool run_reader(net *n, const reader *r, bool last, float *y)
{
    const int32_t c = r->channels, pixels = HEIGHT * WIDTH;
    float *const x = malloc((size_t)(c * pixels) * sizeof *x);
    const int64_t y_h = (HEIGHT - (r->padded ? 1 : r->kernel)) / r->stride + 1,
                  y_w = (WIDTH - (r->padded ? 1 : r->kernel)) / r->stride + 1;
    const layout planes = {"", {pixels, WIDTH, 1}, false}, pixel_by_pixel = {"", {1, WIDTH * c, c}, true},
                 *l = last ? &pixel_by_pixel : &planes;
    const bs_buffer in = {x, BS_F32, 3, {c, HEIGHT, WIDTH}, {l->stride[0], l->stride[1], l->stride[2]}},
                    out = {y, BS_F32, 3, {r->groups > 1 ? c : 7, y_h, y_w}, {0}};
    for (int32_t i = 0; x && i < c * pixels; i++)
        x[last ? i % pixels * c + i / pixels : i] = data[i % (int32_t)(sizeof data / sizeof *data)];
    const bool ran = x && bs_bind(n->session, "x", &in, &n->error) == BS_OK &&
                     bs_bind(n->session, "y", &out, &n->error) == BS_OK && bs_run(n->session, &n->error) == BS_OK;
    free(x);
    return ran;
}

static void test_reader(const reader *r)
{
    static net n;
    static net_table t;
    static float planes[MADE], channels_last[MADE];
    int32_t value;
    check(start_reader(&n, &t, r, &value), "a session");
    const bs_value_plan *p = &n.session->plan->values[value];
    uint8_t *rows = bs_bytes_at(n.session->transient, p->offset);
    memset(rows, 0x77, (size_t)bs_bytes_figure(p->row_bytes));
    bool ran = run_reader(&n, r, true, channels_last);
    bool untouched = true;
    for (uint64_t i = 0; i < bs_bytes_figure(p->row_bytes); i++)
        untouched = untouched && rows[i] == 0x77;
    check(untouched == !r->padded, "%s: read %s", r->name, r->padded ? "with zeros around" : "where it is bound");
    ran = ran && run_reader(&n, r, false, planes) && memcmp(planes, channels_last, sizeof planes) == 0;
    check(ran && run_reader(&n, r, true, planes) && memcmp(planes, channels_last, sizeof planes) == 0,
          "a convolution %s gives the same, however its image is bound", r->name);
    static plan_image saved;
    const int32_t input = n.graph->values[value].node;
    check(plan_image_save(&saved, n.plan) && plan_image_open(&saved, n.graph), "a saved plan");
    n.plan->values[value].source = r->padded ? input : 0;
    check((plan_image_save(&saved, n.plan) && plan_image_open(&saved, n.graph)) == !r->padded,
          "%s: a saved plan may copy the image, but not leave out zeros around it", r->name);
    plan_image_free(&saved);
    bs_session_close(n.session);
}

static void test_lies(void)
{
    static net n;
    static net_table t;
    static plan_image saved;
    int32_t value;
    check(start(&n, &t, false, &value), "a session");
    bs_session_close(n.session);
    check(plan_image_save(&saved, n.plan) && plan_image_open(&saved, n.graph), "a saved plan");
    const int32_t truth = n.plan->values[value].source;
    for (int32_t node = 1; node < n.graph->n_nodes; node++) {
        n.plan->values[value].source = node;
        const bool opens = plan_image_save(&saved, n.plan) && plan_image_open(&saved, n.graph);
        const bool output = bs_node_is_output(&n.graph->nodes[node]); /* both are outputs of this image */
        check(node == truth ? opens : opens == output, "written in %s: %s", bs_node_name(&n.graph->nodes[node]),
              opens ? "opened" : saved.error.message);
    }
    plan_image_free(&saved);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)(check_below(2001) - 1000) / 500.0f;
    test_layouts(false);
    test_layouts(true);
    test_lies();
    for (int32_t i = 0; i < READERS; i++)
        test_reader(&readers[i]);
    return check_end();
}
