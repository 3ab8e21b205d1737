/* tags: small unsigned tsan */
/* Promises: convolutions of several images in one call give each image the bytes that it has alone, whatever the number
 * of rows and threads, with what is added and applied behind them, and with zeros around every image; a convolution of
 * images with few Winograd tiles each picks Winograd where a run may bring many of them. */
#include "net.h"

#include "kernels/conv.h"
#include "ops/table.h"
#include "plan/plan.h"

enum { ROWS = 37, MOST = ROWS * 48 * 14 * 14 };

static net_table weights;
static float x[MOST], alone[MOST], together[MOST];
static const bs_value none;

typedef struct image_case {
    const char *what;
    int32_t channels, height, width, rows;
    bool winograd, half; /* results are f16 */
} image_case;

/* Of 72 channels, which have no transformed weights stored, and of fewer, which have. */
static const image_case cases[] = {
    {"a tile", 72, 4, 4, ROWS, true, false},        {"two lines of tiles", 72, 6, 3, ROWS, true, false},
    {"few images", 72, 4, 4, 8, false, false},      {"stored weights", 24, 8, 8, ROWS, true, false},
    {"eight channels", 8, 5, 9, ROWS, true, false}, {"many tiles", 16, 14, 14, ROWS, true, false},
    {"part of a tile", 48, 2, 2, ROWS, true, false}, {"f16", 24, 8, 8, ROWS, true, true},
};

static int64_t floats_of(const image_case *c) { return (int64_t)c->channels * c->height * c->width; }

static void add_weights(const image_case *c)
{
    weights.table.count = 0;
    weights.next = NULL;
    net_conv(&weights, "a.weight", "a.bias", c->channels, c->channels, 3);
    net_conv(&weights, "b.weight", "b.bias", c->channels, c->channels, 3);
}

static bs_value conv(bs_graph *g, bs_value in, const char *name, int32_t channels, int32_t act)
{
    return bs_conv2d(g, in, &(bs_conv2d_desc){.name = name, .out = channels, .act = act});
}

/* relu(x + conv(relu(conv(x)))), as in a residual network, of each image. */
static bool start(net *n, const image_case *c, const bs_plan_desc *desc)
{
    bs_graph *g = net_begin(n);
    memset(net_transient, 0xff, 8 << 20); /* NaN, wherever nobody wrote */
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE4(BS_UPTO(c->rows), c->channels, c->height, c->width));
    const bs_value row = bs_rows(g, in, none);
    const bs_value sum = bs_add(g, conv(g, conv(g, row, "a", c->channels, BS_RELU), "b", c->channels, 0), row);
    const bs_value out = bs_activation(g, sum, BS_RELU, 0);
    bs_output(g, "y", bs_collect(g, c->half ? bs_convert(g, out, &(bs_convert_desc){.dtype = BS_F16}) : out));
    const bs_weights source = bs_weights_from_table(&weights.table);
    return net_start(n, desc, &source);
}

/* Rows first .. first + count, `to` their results. */
static bool run(net *n, const image_case *c, int32_t first, int32_t count, float *to)
{
    const int64_t each = floats_of(c);
    const bs_buffer from = {x + first * each, BS_F32, 4, {count, c->channels, c->height, c->width}, {0}};
    bs_buffer result = from;
    result.dtype = c->half ? BS_F16 : BS_F32;
    result.data = (uint8_t *)to + first * each * (c->half ? 2 : 4);
    return bs_bind(n->session, "x", &from, &n->error) == BS_OK &&
           bs_bind(n->session, "y", &result, &n->error) == BS_OK && bs_run(n->session, &n->error) == BS_OK;
}

/* All rows, `each` in a run. */
static bool run_all(const image_case *c, const bs_plan_desc *desc, int32_t each, float *to, bool *winograd)
{
    net n;
    bool good = start(&n, c, desc);
    for (int32_t first = 0; good && first < c->rows; first += each)
        good = run(&n, c, first, first + each < c->rows ? each : c->rows - first, to);
    if (!good)
        check(false, "%s: a run: %s", c->what, n.error.message);
    for (int32_t i = 1; good && i < n.plan->graph->n_nodes; i++)
        if (strcmp(bs_op_get(n.plan->graph->nodes[i].op)->name, "conv2d") == 0)
            *winograd = n.plan->nodes[i].algorithm == BS_CONV_WINOGRAD4;
    bs_session_close(n.session);
    return good;
}

static void test_rows(const image_case *c)
{
    const int64_t floats = c->rows * floats_of(c);
    static const struct {
        int32_t each;
        bs_plan_desc desc;
    } ways[] = {{ROWS, {.threads = 1, .order = BS_ORDER_BREADTH}},
                {ROWS, {.threads = 3, .order = BS_ORDER_BREADTH}},
                {5, {.threads = 1, .order = BS_ORDER_BREADTH}},
                {ROWS, {.threads = 1, .order = BS_ORDER_BREADTH, .no_fusion = 1}}};
    const bs_plan_desc one = {.threads = 1, .order = BS_ORDER_DEPTH},
                       direct = {.threads = 1, .conv = BS_CONV_FORCE_DIRECT};
    bool winograd = false, other = false;
    double worst = 0, most = 0;
    add_weights(c);
    memset(alone, 0, sizeof alone);
    if (!run_all(c, &one, 1, alone, &winograd))
        return;
    check(winograd == c->winograd || bs_tier_best() == BS_TIER_SCALAR, "%s: %s", c->what,
          winograd ? "Winograd" : "direct");
    for (int32_t i = 0; i < (int32_t)(sizeof ways / sizeof *ways); i++) {
        memset(together, 0, sizeof together);
        check(run_all(c, &ways[i].desc, ways[i].each, together, &winograd) &&
                  memcmp(alone, together, (size_t)floats * sizeof *alone) == 0,
              "%s, way %d: each image has the bytes that it has alone", c->what, i);
    }
    if (c->half || !run_all(c, &direct, ROWS, together, &other))
        return;
    for (int64_t i = 0; i < floats; i++) {
        const double e = fabs((double)alone[i] - (double)together[i]);
        worst = e <= worst ? worst : e == e ? e : INFINITY;
        most = fmax(most, fabs((double)together[i]));
    }
    check(!other && worst <= 1e-5 * most, "%s: beside direct convolutions: %g of %g", c->what, worst, most);
}

/* Patches of a frame have other extents at its edges: each is a call of its own. */
static void test_patches(void)
{
    enum { HEIGHT = 29, WIDTH = 22, CHANNELS = 16 };
    const image_case c = {"patches", CHANNELS, HEIGHT, WIDTH, 1, true, false};
    static const int32_t orders[] = {BS_ORDER_DEPTH, BS_ORDER_BREADTH};
    float *const to[] = {alone, together};
    const bs_buffer from = {x, BS_F32, 3, {CHANNELS, HEIGHT, WIDTH}, {0}};
    add_weights(&c);
    for (int32_t k = 0; k < 2; k++) {
        net n;
        bs_graph *g = net_begin(&n);
        const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE3(CHANNELS, HEIGHT, WIDTH));
        const bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 8});
        bs_output(g, "y", bs_assemble(g, conv(g, conv(g, cells, "a", CHANNELS, BS_RELU), "b", CHANNELS, 0)));
        const bs_weights source = bs_weights_from_table(&weights.table);
        const bs_plan_desc desc = {.threads = 1, .order = orders[k]};
        bs_buffer result = from;
        result.data = to[k];
        const bool good = net_start(&n, &desc, &source) && bs_bind(n.session, "x", &from, &n.error) == BS_OK &&
                          bs_bind(n.session, "y", &result, &n.error) == BS_OK &&
                          bs_run(n.session, &n.error) == BS_OK;
        check(good, "patches: a run: %s", n.error.message);
        bs_session_close(n.session);
    }
    check(memcmp(alone, together, (size_t)CHANNELS * HEIGHT * WIDTH * sizeof *alone) == 0,
          "patches of a frame, layer by layer: the bytes of one patch after the other");
}

int main(void)
{
    check_seed(1);
    for (int32_t i = 0; i < MOST; i++)
        x[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t i = 0; i < (int32_t)(sizeof cases / sizeof *cases); i++)
        test_rows(&cases[i]);
    test_patches();
    return check_end();
}
