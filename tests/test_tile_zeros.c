/* tags: asan */
/* Promises: where an image of a tile lies as another one did, the zeros around it are those of that one, if nothing was
 * written there since: networks whose images come and go in a tile give the bytes of the same network layer by layer,
 * whatever margins and extents follow each other; zeros are kept where all images are alike. */
#include "net.h"

#include "run/session.h"

enum { CHANNELS = 8, SIDE = 12, ROWS = 3, NETS = 60, LAYERS = 14, FLOATS = ROWS * CHANNELS * SIDE * SIDE };

static net_table weights;
static float x[FLOATS], y[2][FLOATS];
static const bs_value none;

/* A layer behind `in`: of another window, of other extents on the way, of more channels on the way, or a sum. */
static bs_value layer(bs_graph *g, bs_value in, int32_t kind)
{
    static const char *const names[] = {"a", "b", "c"};
    const bs_conv2d_desc same = {.name = names[kind % 3], .out = CHANNELS, .kernel = 3 + 2 * (kind % 3)};
    if (kind < 3)
        return bs_conv2d(g, in, &same);
    if (kind == 3) {
        const bs_value small = bs_pool2d(g, in, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 2, .stride = 2});
        return bs_resize(g, bs_conv2d(g, bs_conv2d(g, small, &same), &same), &(bs_resize_desc){.factor = 2});
    }
    if (kind == 4)
        return bs_conv2d(g, bs_conv2d(g, in, &(bs_conv2d_desc){.name = "wide", .out = 2 * CHANNELS}),
                         &(bs_conv2d_desc){.name = "narrow", .out = CHANNELS});
    if (kind == 5) { /* as many bytes, of other extents */
        const bs_value flat = bs_resize(g, in, &(bs_resize_desc){.height = SIDE / 2, .width = SIDE}),
                       turned = bs_resize(g, bs_conv2d(g, bs_conv2d(g, flat, &same), &same),
                                          &(bs_resize_desc){.height = SIDE, .width = SIDE / 2});
        return bs_resize(g, bs_conv2d(g, bs_conv2d(g, turned, &same), &same),
                         &(bs_resize_desc){.height = SIDE, .width = SIDE});
    }
    return bs_add(g, bs_conv2d(g, bs_conv2d(g, in, &same), &same), in);
}

/* Kinds of layers from `state` on, or of one kind. Runs it in tiles or layer by layer; returns how often zeros are
 * kept, -1: it failed. */
static int32_t run(uint32_t state, int32_t kind, bool tiles, float *to)
{
    const bs_plan_desc desc = {.threads = 1, .order = tiles ? BS_ORDER_DEPTH : BS_ORDER_BREADTH};
    const bs_weights source = bs_weights_from_table(&weights.table);
    const bs_buffer from = {x, BS_F32, 4, {ROWS, CHANNELS, SIDE, SIDE}, {0}};
    bs_buffer result = from;
    net n;
    bs_graph *g = net_begin(&n);
    bs_value at = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(ROWS, CHANNELS, SIDE, SIDE)), none);
    int32_t kept = 0;
    for (int32_t i = 0; i < LAYERS; i++) {
        state = state * 1664525u + 1013904223u;
        at = layer(g, at, kind >= 0 ? kind : (int32_t)((state >> 16) % 7));
    }
    bs_output(g, "y", bs_collect(g, at));
    result.data = to;
    memset(net_transient, 0xff, 4 << 20); /* NaN, wherever nobody wrote */
    const bool good = net_start(&n, &desc, &source) && bs_bind(n.session, "x", &from, &n.error) == BS_OK &&
                      bs_bind(n.session, "y", &result, &n.error) == BS_OK && bs_run(n.session, &n.error) == BS_OK;
    if (!good)
        check(false, "a run: %s", n.error.message);
    for (int32_t i = 0; good && i < n.plan->n_instrs; i++)
        kept += n.session->steps[i].zeroed;
    bs_session_close(n.session);
    return good ? kept : -1;
}

int main(void)
{
    int32_t some = 0;
    check_seed(11);
    for (int32_t i = 0; i < FLOATS; i++)
        x[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t k = 0; k < 3; k++) {
        static const char *const names[][2] = {{"a.weight", "a.bias"}, {"b.weight", "b.bias"}, {"c.weight", "c.bias"}};
        net_conv(&weights, names[k][0], names[k][1], CHANNELS, CHANNELS, 3 + 2 * k);
    }
    net_conv(&weights, "wide.weight", "wide.bias", 2 * CHANNELS, CHANNELS, 3);
    net_conv(&weights, "narrow.weight", "narrow.bias", CHANNELS, 2 * CHANNELS, 3);
    for (uint32_t i = 0; i < NETS; i++) {
        const int32_t kept = run(i, -1, true, y[0]);
        check(kept >= 0 && run(i, -1, false, y[1]) == 0 && memcmp(y[0], y[1], sizeof *y) == 0,
              "network %d: the bytes of layer after layer, zeros kept %d times", (int)i, kept);
        some += kept > 0;
    }
    check(BS_DENSE_PAYS ? some > NETS / 2 : some == 0, "zeros are kept in %d of %d networks", some, (int)NETS);
    check(!BS_DENSE_PAYS || run(0, 0, true, y[0]) >= LAYERS - 4, "they are between layers of one kind");
    return check_end();
}
