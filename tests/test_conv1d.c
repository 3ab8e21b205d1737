/* tags: asan */
/* test_conv1d.c: convolutions and pools of [C,L] are their definition in float64, at every tier, on a line and on an
 * image of lines alike; without padding an image costs nothing more; what conv2d refuses is refused. */
#include <math.h>

#include "net.h"

enum { MOST = 4096 };

static float data[MOST], got[MOST];
static double want[MOST];

typedef struct line_case {
    const char *name;
    int32_t channels, length;
    bs_conv2d_desc conv; /* out 0: a pool */
    bs_pool2d_desc pool;
    int32_t kernel, stride, dilation, left, right, groups; /* what that should mean */
} line_case;

static const line_case cases[] = {
    {"the default", 5, 40, {.out = 7}, {0}, 3, 1, 1, 1, 1, 1},
    {"stride and groups", 8, 41, {.out = 12, .kernel = 5, .stride = 2, .groups = 4, .no_bias = 1}, {0},
     5, 2, 1, 2, 2, 4},
    {"depthwise by width", 6, 33, {.out = 6, .kernel_w = 4, .stride_w = 3, .dilation_w = 2, .groups = BS_DEPTHWISE},
     {0}, 4, 3, 2, 3, 3, 6},
    {"causal and far apart", 4, 90, {.out = 8, .kernel = 2, .dilation = 64, .padding = BS_PAD_EXPLICIT, .pad_left = 64},
     {0}, 2, 1, 64, 64, 0, 1},
    {"both sides alike", 3, 20, {.out = 4, .kernel = 7, .padding = BS_PAD_EXPLICIT, .pad = 6}, {0}, 7, 1, 1, 6, 6, 1},
    {"no padding", 16, 50, {.out = 16, .padding = BS_PAD_VALID, .act = BS_RELU}, {0}, 3, 1, 1, 0, 0, 1},
    {"longer than 255", 2, 310, {.out = 3, .kernel = 300, .padding = BS_PAD_EXPLICIT, .pad_left = 7, .pad_right = 1},
     {0}, 300, 1, 1, 7, 1, 1},
    {"one tap", 24, 9, {.out = 20, .kernel = 1}, {0}, 1, 1, 1, 0, 0, 1},
    {"a maximum", 3, 21, {0},
     {.kind = BS_POOL_MAX, .kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad_left = 2}, 3, 2, 1, 2, 0, 1},
    {"a mean", 5, 20, {0}, {.kernel = 4, .padding = BS_PAD_EXPLICIT, .pad = 1}, 4, 4, 1, 1, 1, 1},
    {"a mean that counts padding", 5, 20, {0},
     {.kernel_w = 5, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad_left = 1, .pad_right = 3, .count_pad = 1},
     5, 1, 1, 1, 3, 1},
    {"all", 5, 20, {0}, {.global = 1}, 20, 20, 1, 0, 0, 1},
};

static const float *weight_of(const net_table *t, const char *name)
{
    for (int32_t i = 0; i < (int32_t)t->table.count; i++)
        if (strcmp(t->tensors[i].name, name) == 0)
            return t->tensors[i].data;
    return NULL;
}

static int32_t length_of(const line_case *c)
{
    return (c->length + c->left + c->right - c->dilation * (c->kernel - 1) - 1) / c->stride + 1;
}

static double conv_at(const line_case *c, const net_table *t, int32_t o, int32_t at)
{
    const int32_t in = c->channels / c->groups, first = o / (c->conv.out / c->groups) * in;
    const float *weight = weight_of(t, "c.weight"), *bias = weight_of(t, "c.bias");
    double sum = c->conv.no_bias ? 0 : bias[o];
    for (int32_t i = 0; i < in; i++)
        for (int32_t k = 0; k < c->kernel; k++) {
            const int32_t x = at * c->stride - c->left + k * c->dilation;
            if (x >= 0 && x < c->length)
                sum += (double)data[(first + i) * c->length + x] * weight[(o * in + i) * c->kernel + k];
        }
    return c->conv.act == BS_RELU && sum < 0 ? 0 : sum;
}

static double pool_at(const line_case *c, int32_t channel, int32_t at)
{
    double sum = 0, top = -INFINITY;
    int32_t taps = 0;
    for (int32_t k = 0; k < c->kernel; k++) {
        const int32_t x = at * c->stride - c->left + k;
        if (x < 0 || x >= c->length)
            continue;
        const double v = data[channel * c->length + x];
        sum += v, taps++;
        top = v > top ? v : top;
    }
    return c->pool.kind == BS_POOL_MAX ? top : sum / (c->pool.count_pad ? c->kernel : taps);
}

static bs_value build(bs_graph *g, const line_case *c, bs_value x)
{
    bs_conv2d_desc desc = c->conv;
    desc.name = "c";
    return c->conv.out > 0 ? bs_conv1d(g, x, &desc) : bs_pool1d(g, x, &c->pool);
}

/* The furthest result from the definition, in parts of 1 + it; infinity when there is none. */
static double distance(const line_case *c, bs_tier tier, bool image)
{
    static net n;
    static net_table t;
    const int32_t out = c->conv.out > 0 ? c->conv.out : c->channels, length = length_of(c);
    const int64_t dim[4] = {out, c->channels / c->groups, 1, c->kernel};
    bs_graph *g = net_begin(&n);
    memset(&t, 0, sizeof t);
    net_add(&t, "c.weight", 4, dim, 1.0f / (float)(dim[1] * c->kernel));
    net_add(&t, "c.bias", 1, dim, 0.5f);
    const bs_shape shape = image ? BS_SHAPE3(c->channels, 1, c->length) : BS_SHAPE2(c->channels, c->length);
    bs_output(g, "y", build(g, c, bs_input(g, "x", BS_F32, shape)));
    const bs_weights weights = bs_weights_from_table(&t.table);
    bs_buffer x = {data, BS_F32, shape.rank, {c->channels, image ? 1 : c->length, image ? c->length : 0}, {0}};
    bs_buffer y = {got, BS_F32, shape.rank, {out, image ? 1 : length, image ? length : 0}, {0}};
    y.rank = c->pool.global ? 1 : y.rank;
    if (!net_start(&n, &(bs_plan_desc){.tier = tier}, &weights) || bs_bind(n.session, "x", &x, &n.error) != BS_OK ||
        bs_bind(n.session, "y", &y, &n.error) != BS_OK || bs_run(n.session, &n.error) != BS_OK) {
        printf("  %s\n", n.error.message);
        return INFINITY;
    }
    double worst = 0;
    for (int32_t i = 0; i < out * length; i++) {
        want[i] = c->conv.out > 0 ? conv_at(c, &t, i / length, i % length) : pool_at(c, i / length, i % length);
        worst = fmax(worst, fabs(got[i] - want[i]) / (1 + fabs(want[i])));
    }
    bs_session_close(n.session);
    return worst;
}

static void test_lines(void)
{
    for (int32_t i = 0; i < MOST; i++)
        data[i] = (float)(check_below(2001) - 1000) / 500.0f;
    for (int32_t k = 0; k < (int32_t)(sizeof cases / sizeof *cases); k++)
        for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
            for (int32_t image = 0; image < 2 && bs_tier_available((bs_tier)tier); image++) {
                const double far = distance(&cases[k], (bs_tier)tier, image);
                check(far < 2e-6, "%s, %s, of %s: %.2g from the definition", cases[k].name,
                      bs_tier_name((bs_tier)tier), image ? "an image" : "a line", far);
            }
}

static void test_refusals(void)
{
    static net n;
    bs_error error;
    const bs_conv2d_desc wrong[] = {{.name = "c", .out = 4, .pad = 1},
                                    {.name = "c", .out = 4, .padding = BS_PAD_VALID, .pad_left = 1},
                                    {.name = "c", .out = 4, .kernel = INT32_MAX, .dilation = INT32_MAX},
                                    {.name = "c", .out = 4, .padding = BS_PAD_EXPLICIT, .pad_right = -1},
                                    {.name = "c", .out = 4, .kernel = 9, .padding = BS_PAD_VALID}};
    for (int32_t i = 0; i < (int32_t)(sizeof wrong / sizeof *wrong); i++) {
        bs_graph *g = net_begin(&n);
        const bs_value y = bs_conv1d(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 8)), &wrong[i]);
        check(y.id == 0 && bs_graph_check(g, &error) != BS_OK, "refused: %s", error.message);
    }
    bs_graph *g = net_begin(&n);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(4, 1, 8));
    const bs_value y = bs_conv1d(g, x, &(bs_conv2d_desc){.name = "c", .out = 4, .padding = BS_PAD_VALID});
    check(y.id == x.id + 1, "an image without padding is one node");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_lines();
    test_refusals();
    return check_end();
}
