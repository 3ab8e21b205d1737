/* Promises: an image comes out the same however its outputs are bound, nothing beside its elements is written, and
 * where an output is bound channels last, as kernels write, it is written once, without rows in the arena. A saved
 * plan that would write it anywhere else is refused. */
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
    return check_end();
}
