/* tags: asan tsan */
/* Promises: a tile that may go on computes only what it needs until it does, and gives the same bytes as with all
 * margins at once: exits in exits, residual sums, values read on both sides of a decision, other scales, edges. */
#include "net.h"

#include "plan/plan.h"

#define W 150
#define H 100
#define EXITS 3

static net_table weights;
static uint8_t frame[H * W];
static float reference[4 * H * W], output[4 * H * W];
static float thresholds[EXITS];

typedef struct shape_of_net {
    int exits;      /* one inside of another */
    bool shuffled;  /* what goes on is computed at twice the size, and back */
    bool late;      /* something is computed behind the decision, and read only by what goes on */
} shape_of_net;

static bs_value conv(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = name, .out = out, .act = BS_RELU});
}

static bs_value tail(bs_graph *g, bs_value f, bs_value base, const char *name)
{
    return bs_add(g, bs_pixel_shuffle(g, bs_conv2d(g, f, &(bs_conv2d_desc){.name = name, .out = 4}), 2), base);
}

/* Two convolutions and a residual sum: what they begin with is read three layers later, and by what goes on. */
static bs_value stage(bs_graph *g, bs_value x, const shape_of_net *shape, int exit)
{
    static const char *const first[] = {"a0", "a1", "a2", "a3"}, *const last[] = {"b0", "b1", "b2", "b3"};
    bs_value f = bs_add(g, conv(g, conv(g, x, first[exit], 8), last[exit], 8), x);
    if (!shape->shuffled || exit == 0)
        return f;
    f = bs_pixel_shuffle(g, conv(g, f, "up", 32), 2);
    return bs_conv2d(g, f, &(bs_conv2d_desc){.name = "down", .out = 8, .stride = 2});
}

static bs_value from(bs_graph *g, bs_value x, bs_value base, const shape_of_net *shape, int exit)
{
    static const char *const tails[] = {"t0", "t1", "t2", "t3"}, *const names[] = {"exit0", "exit1", "exit2"};
    const bs_value f = stage(g, x, shape, exit);
    if (exit == shape->exits)
        return tail(g, f, base, tails[exit]);
    const bs_value score = bs_pool2d(g, base, &(bs_pool2d_desc){.global = 1}); /* how bright a cell is */
    const bs_router r = bs_route(g, score, (bs_value){0},
                                 &(bs_route_desc){.name = names[exit], .protocol = BS_ROUTE_BINARY, .paths = 2,
                                                  .threshold = thresholds[exit]});
    const bs_value behind = shape->late && exit == 0 ? conv(g, f, "late", 8) : f;
    bs_value out[2];
    out[0] = tail(g, bs_scatter(g, r, 0, f), bs_scatter(g, r, 0, base), tails[exit]);
    out[1] = from(g, bs_scatter(g, r, 1, behind), bs_scatter(g, r, 1, base), shape, exit + 1);
    return bs_gather(g, r, out, (bs_value){0}, NULL);
}

/* Exits are decided tile by tile in a path of a router that decides for all cells: here all take it. */
static void build(bs_graph *g, const shape_of_net *shape)
{
    const bs_value in = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, BS_UPTO(200), BS_UPTO(200)));
    const bs_value cells = bs_patches(g, in, &(bs_patches_desc){.size = 32});
    const bs_value score = bs_slice(g, bs_patch_features(g, cells, (bs_value){0}, NULL),
                                    &(bs_slice_desc){.length = 1});
    const bs_router all = bs_route(g, bs_convert(g, score, &(bs_convert_desc){.dtype = BS_F32}), (bs_value){0},
                                   &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_BINARY, .paths = 2,
                                                    .threshold = -1e9f});
    const bs_value codes = bs_scatter(g, all, 0, cells);
    const bs_value x = bs_convert(g, codes, &(bs_convert_desc){.dtype = BS_F32, .scale = 1.0f / 255.0f});
    const bs_value base = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_BICUBIC});
    const bs_value out[2] = {from(g, conv(g, x, "head", 8), base, shape, 0), {0}};
    bs_output(g, "out", bs_assemble(g, bs_gather(g, all, out, (bs_value){0}, NULL)));
}

/* What a plan leaves for rows that go on. */
typedef struct ring_facts {
    int near, rings, domains;
} ring_facts;

static ring_facts look(bs_plan *plan, bool whole)
{
    ring_facts facts = {0, 0, 0};
    int32_t last = 0;
    for (int32_t k = 0; k < plan->n_instrs; k++) {
        bs_instr *i = &plan->instrs[k];
        facts.near += i->extent == BS_EXTENT_NEAR;
        facts.rings += i->extent == BS_EXTENT_RING;
        facts.domains += i->extent == BS_EXTENT_RING && i->domain != last;
        last = i->extent == BS_EXTENT_RING ? i->domain : last;
        if (whole) { /* all at once, and no ring is left */
            i->extent = i->extent == BS_EXTENT_NEAR ? BS_EXTENT_ALL : i->extent;
            i->done = i->reach;
        }
    }
    return facts;
}

static bool run(const shape_of_net *shape, const bs_plan_desc *desc, bool whole, float *out, ring_facts *facts,
                int32_t *left)
{
    net n;
    const bs_weights source = bs_weights_from_table(&weights.table);
    build(net_begin(&n), shape);
    static size_t used = 64 << 20; /* of the last run */
    memset(net_transient, 0xff, used); /* NaN, where nothing is computed */
    const bool started = net_start(&n, desc, &source);
    used = n.memory.transient.used;
    const bs_buffer in = {frame, BS_U8, 3, {1, H, W, 0}, {0}}, to = {out, BS_F32, 3, {1, 2 * H, 2 * W, 0}, {0}};
    memset(out, 0xee, sizeof output);
    *facts = started ? look(n.plan, whole) : (ring_facts){0, 0, 0};
    const bool ok = started && bs_bind(n.session, "frame", &in, &n.error) == BS_OK &&
                    bs_bind(n.session, "out", &to, &n.error) == BS_OK && bs_run(n.session, &n.error) == BS_OK;
    for (int e = 0; ok && e < shape->exits; e++) {
        static const char *const names[] = {"exit0", "exit1", "exit2"};
        bs_decision d;
        left[e] = bs_decision_get(n.session, names[e], &d) == BS_OK ? d.counts[0] : -1;
        left[e + 1] = bs_decision_get(n.session, names[e], &d) == BS_OK ? d.counts[1] : -1;
    }
    if (!ok)
        printf("  %s: %s\n", bs_status_name(n.error.status), n.error.message);
    bs_session_close(n.session);
    return ok;
}

static int differing(void)
{
    int count = 0;
    for (int i = 0; i < 4 * H * W; i++)
        count += memcmp(&output[i], &reference[i], sizeof *output) != 0;
    return count;
}

static void make_weights(void)
{
    static const char *const convs[][2] = {
        {"a0.weight", "a0.bias"}, {"a1.weight", "a1.bias"}, {"a2.weight", "a2.bias"}, {"a3.weight", "a3.bias"},
        {"b0.weight", "b0.bias"}, {"b1.weight", "b1.bias"}, {"b2.weight", "b2.bias"}, {"b3.weight", "b3.bias"},
        {"late.weight", "late.bias"}};
    static const char *const tails[][2] = {
        {"t0.weight", "t0.bias"}, {"t1.weight", "t1.bias"}, {"t2.weight", "t2.bias"}, {"t3.weight", "t3.bias"}};
    net_conv(&weights, "head.weight", "head.bias", 8, 1, 3);
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        net_conv(&weights, convs[i][0], convs[i][1], 8, 8, 3);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        net_conv(&weights, tails[i][0], tails[i][1], 4, 8, 3);
    net_conv(&weights, "down.weight", "down.bias", 8, 8, 3);
    net_conv(&weights, "up.weight", "up.bias", 32, 8, 3);
}

static void same_bytes(const shape_of_net *shape, int32_t conv_choice, int32_t size, const char *what)
{
    int32_t left[EXITS + 1], again[EXITS + 1];
    ring_facts facts, none;
    /* what is late would sink below the decision */
    const bs_plan_desc d = {.conv = conv_choice, .patch_size = size, .order = BS_ORDER_DEPTH,
                            .no_dataflow = shape->late};
    const bool ok = run(shape, &d, true, reference, &none, left) && run(shape, &d, false, output, &facts, again);
    const int wrong = differing();
    check(ok && wrong == 0 && memcmp(left, again, sizeof *left * (size_t)(shape->exits + 1)) == 0,
          "%s, tiles of %d, %s: the same bytes (%d differ)", what, size, conv_choice == 1 ? "direct" : "winograd",
          wrong);
    if (size >= 32)
        check(facts.rings > 0 && facts.near > 0 && facts.domains == shape->exits - shape->late,
              "%s: %d near, %d rings behind %d decisions", what, facts.near, facts.rings, facts.domains);
    if (shape->exits == EXITS && size == 32)
        printf("  leave at the three exits, and at the end: %d %d %d %d\n", left[0], left[1], left[2], left[3]);
}

/* All decisions, with whole margins at top level, layer by layer: no rings, the same bytes. */
static void orders_agree(const shape_of_net *shape)
{
    int32_t left[EXITS + 1];
    ring_facts facts, none;
    for (int32_t conv_choice = 1; conv_choice <= 2; conv_choice++) {
        const bs_plan_desc deep = {.conv = conv_choice, .order = BS_ORDER_DEPTH, .threads = 2};
        const bs_plan_desc broad = {.conv = conv_choice, .order = BS_ORDER_BREADTH};
        const bool ok = run(shape, &broad, false, reference, &none, left) &&
                        run(shape, &deep, false, output, &facts, left);
        check(ok && none.rings == 0 && facts.rings > 0 && differing() == 0,
              "layer by layer there are no rings (%d), and the bytes are the same (%d differ)", none.rings,
              differing());
    }
}

int main(void)
{
    static const shape_of_net shapes[] = {{1, false, false}, {EXITS, false, false}, {EXITS, true, false},
                                          {EXITS, false, true}};
    static const char *const names[] = {"one exit", "three exits", "a larger scale", "computed behind the decision"};
    make_weights();
    for (int i = 0; i < H * W; i++)
        frame[i] = (uint8_t)(i % W + (i / W / 9 + i % W / 7) % 2 * 60 + check_below(25));
    for (int at = 0; at < 3; at++) { /* all leave, none does, some do */
        for (int e = 0; e < EXITS; e++)
            thresholds[e] = at == 0 ? -1e9f : at == 1 ? 1e9f : 0.55f - 0.12f * (float)e;
        for (int k = 0; k < 4; k++)
            for (int32_t conv_choice = 1; conv_choice <= 2; conv_choice++)
                for (int32_t size = 7; size <= 44; size += size == 7 ? 25 : 12)
                    same_bytes(&shapes[k], conv_choice, size, names[k]);
    }
    orders_agree(&shapes[2]);
    return check_end();
}
