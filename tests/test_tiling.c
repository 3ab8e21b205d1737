/* tags: asan tsan shipped aarch64 32-bit */
/* Promises: forced routes equal the untiled net, any thread count and order give the same bytes, exits compact. */
#include "net.h"

#define W 150
#define H 100

static net_table weights;
static uint8_t frame[H * W], reference[4 * H * W], output[4 * H * W];

typedef struct shape_of_net {
    bool tiled, routed;
} shape_of_net;

static bs_value branch_small(bs_graph *g, bs_value x, void *user)
{
    (void)user;
    bs_value f = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / 255.0f});
    bs_value base = bs_resize(g, f, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
    bs_value t = bs_conv2d(g, f, &(bs_conv2d_desc){.name = "small.head", .out = 8, .kernel = 5, .act = BS_RELU});
    t = bs_conv2d(g, t, &(bs_conv2d_desc){.name = "small.tail", .out = 4, .kernel = 3});
    bs_value y = bs_add(g, bs_pixel_shuffle(g, t, 2), base);
    return bs_convert(g, y, &(bs_convert_desc){.dtype = BS_U8, .scale = 255.0f});
}

static bs_value exit_of(bs_graph *g, bs_value f, bs_value base, const char *name)
{
    bs_value y = bs_pixel_shuffle(g, bs_conv2d(g, f, &(bs_conv2d_desc){.name = name, .out = 4}), 2);
    return bs_convert(g, bs_add(g, y, base), &(bs_convert_desc){.dtype = BS_U8, .scale = 255.0f});
}

static bs_value branch_large(bs_graph *g, bs_value x, void *user)
{
    const shape_of_net *shape = user;
    bs_value f = bs_convert(g, x, &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / 255.0f});
    bs_value base = bs_resize(g, f, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
    bs_value t = bs_conv2d(g, f, &(bs_conv2d_desc){.name = "large.head", .out = 16, .act = BS_RELU});
    t = bs_conv2d(g, t, &(bs_conv2d_desc){.name = "large.body0", .out = 16, .act = BS_RELU});
    if (!shape->routed)
        return exit_of(g, bs_conv2d(g, t, &(bs_conv2d_desc){.name = "large.body1", .out = 16, .act = BS_RELU}), base,
                       "large.tail1");
    bs_value score = bs_linear(g, bs_pool2d(g, t, &(bs_pool2d_desc){.global = 1}),
                               &(bs_linear_desc){.name = "large.exit", .out = 1});
    bs_router router = bs_route(g, score, (bs_value){0},
                                &(bs_route_desc){.name = "exit", .protocol = BS_ROUTE_BINARY, .paths = 2});
    bs_value out[2];
    out[0] = exit_of(g, bs_scatter(g, router, 0, t), bs_scatter(g, router, 0, base), "large.tail0");
    bs_value go = bs_conv2d(g, bs_scatter(g, router, 1, t),
                            &(bs_conv2d_desc){.name = "large.body1", .out = 16, .act = BS_RELU});
    out[1] = exit_of(g, go, bs_scatter(g, router, 1, base), "large.tail1");
    return bs_gather(g, router, out, (bs_value){0}, NULL);
}

static bs_value branch_bicubic(bs_graph *g, bs_value x, void *user)
{
    (void)user;
    return bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
}

static bs_status by_position(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    (void)user, (void)scores;
    for (int32_t r = 0; r < rows; r++)
        path[r] = r % 3;
    return BS_OK;
}

static void build(bs_graph *g, const shape_of_net *shape)
{
    bs_value in = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, BS_UPTO(200), BS_UPTO(200)));
    if (!shape->tiled) {
        bs_output(g, "out", branch_large(g, in, (void *)(uintptr_t)shape));
        return;
    }
    bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 32});
    if (!shape->routed) {
        bs_output(g, "out", bs_assemble(g, branch_large(g, cells, (void *)(uintptr_t)shape)));
        return;
    }
    bs_value score = bs_convert(g, bs_patch_features(g, cells, (bs_value){0}, NULL),
                                &(bs_convert_desc){.dtype = BS_F32});
    bs_router route = bs_route(g, score, (bs_value){0},
                               &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_CALLBACK, .paths = 3});
    bs_value out[3];
    out[0] = bs_branch(g, route, 0, "bicubic", cells, branch_bicubic, NULL);
    out[1] = bs_branch(g, route, 1, "small", cells, branch_small, NULL);
    out[2] = bs_branch(g, route, 2, "large", cells, branch_large, (void *)(uintptr_t)shape);
    bs_output(g, "out", bs_assemble(g, bs_gather(g, route, out, (bs_value){0}, NULL)));
}

static bool run(const shape_of_net *shape, const bs_plan_desc *desc, uint8_t *out, int32_t *exits)
{
    net n;
    const bs_weights source = bs_weights_from_table(&weights.table);
    build(net_begin(&n), shape);
    bool ok = net_start(&n, desc, &source);
    const bs_buffer in = {frame, BS_U8, 3, {1, H, W, 0}, {0, 0, 0, 0}},
                    to = {out, BS_U8, 3, {1, 2 * H, 2 * W, 0}, {0, 0, 0, 0}};
    memset(out, 0xee, 4 * H * W);
    ok = ok && bs_bind(n.session, "frame", &in, &n.error) == BS_OK && bs_bind(n.session, "out", &to, &n.error) == BS_OK;
    if (ok && shape->routed)
        ok = bs_set_route(n.session, "route", by_position, NULL, &n.error) == BS_OK;
    ok = ok && bs_run(n.session, &n.error) == BS_OK;
    bs_decision d;
    if (ok && exits && bs_decision_get(n.session, "exit", &d) == BS_OK)
        exits[0] = d.counts[0], exits[1] = d.counts[1];
    if (!ok)
        printf("  %s: %s\n", bs_status_name(n.error.status), n.error.message);
    bs_session_close(n.session);
    return ok;
}

static int differing(const uint8_t *a, const uint8_t *b, int *worst)
{
    int count = 0;
    *worst = 0;
    for (int i = 0; i < 4 * H * W; i++) {
        const int d = abs(a[i] - b[i]);
        count += d != 0;
        *worst = d > *worst ? d : *worst;
    }
    return count;
}

static void make_weights(void)
{
    const int64_t one[2] = {1, 16};
    net_conv(&weights, "small.head.weight", "small.head.bias", 8, 1, 5);
    net_conv(&weights, "small.tail.weight", "small.tail.bias", 4, 8, 3);
    net_conv(&weights, "large.head.weight", "large.head.bias", 16, 1, 3);
    net_conv(&weights, "large.body0.weight", "large.body0.bias", 16, 16, 3);
    net_conv(&weights, "large.body1.weight", "large.body1.bias", 16, 16, 3);
    net_conv(&weights, "large.tail0.weight", "large.tail0.bias", 4, 16, 3);
    net_conv(&weights, "large.tail1.weight", "large.tail1.bias", 4, 16, 3);
    net_add(&weights, "large.exit.weight", 2, one, 1.0f);
    net_add(&weights, "large.exit.bias", 1, one, 0.02f);
}

int main(void)
{
    const shape_of_net untiled = {false, false}, tiled = {true, false}, routed = {true, true};
    int worst, exits[2] = {-1, -1}, again[2];
    make_weights();
    for (int i = 0; i < H * W; i++)
        frame[i] = (uint8_t)(128 + 60 * ((i / W / 9 + i % W / 7) % 2) + check_below(30));

    check(run(&untiled, &(bs_plan_desc){.conv = BS_CONV_FORCE_DIRECT}, reference, NULL), "the untiled net runs");
    for (int order = 1; order <= 2; order++)
        for (int size = 17; size <= 64; size += 47) {
            const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .patch_size = size, .threads = order};
            const bool ok = run(&tiled, &d, output, NULL);
            check(ok && differing(reference, output, &worst) == 0, "tiles of %d equal the untiled net, order %d", size,
                  order);
        }
    check(run(&tiled, &(bs_plan_desc){.conv = BS_CONV_FORCE_WINOGRAD}, output, NULL), "winograd runs");
    const int off = differing(reference, output, &worst);
    check(worst <= 1 && off <= 4 * H * W / 10000, "winograd is within one code value in %d of %d pixels (worst %d)",
          off, 4 * H * W, worst);

    for (int conv = 1; conv <= 2; conv++) {
        const bs_plan_desc first = {.conv = conv, .order = BS_ORDER_DEPTH};
        check(run(&routed, &first, reference, exits), "the routed net runs (conv %d): %d cells exit, %d go on", conv,
              exits[0], exits[1]);
        for (int order = 1; order <= 2; order++)
            for (int threads = 1; threads <= 3; threads++) {
                const bs_plan_desc d = {.conv = conv, .order = order, .threads = threads};
                const bool ok = run(&routed, &d, output, again);
                const int wrong = differing(reference, output, &worst);
                check(ok && wrong == 0 && memcmp(exits, again, sizeof exits) == 0,
                      "order %d, %d threads, conv %d: same bytes (%d differ), same exits", order, threads, conv, wrong);
            }
    }
    return check_end();
}
