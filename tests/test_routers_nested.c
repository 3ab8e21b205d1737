/* tags: asan tsan shipped aarch64 32-bit */
/* Promises: routers below routers decide about the cells that reach them, whatever they look at; and a mixture of
 * experts is its formula, token by token. */
#include "router_trial.h"

#include <pthread.h>
#include <time.h>

/* ---------------------------------------------------------------------------------------------------------- nested */

/* Three levels of routers over one tensor and its scores; `image`: with convolutions, so that halos cross every
 * level. */
static bs_value nested(bs_graph *g, bs_value x, bs_value score, int32_t level, bool image)
{
    static const char *const convs[] = {"conv.top", "conv.middle", "conv.bottom"};
    bs_value out[3] = {{0}, {0}, {0}};
    char name[32];
    snprintf(name, sizeof name, "level%d.%d", level, g->n_routers);
    bs_route_desc d = {.name = name,
                       .protocol = level == 1 ? BS_ROUTE_TOPK : BS_ROUTE_THRESHOLD,
                       .paths = 3,
                       .k = 2,
                       .threshold = (float)level - 1};
    const bs_router r = bs_route(g, score, (bs_value){0}, &d);
    for (int32_t p = 0; p < 3; p++) {
        bs_value y = bs_scatter(g, r, p, x), s = bs_scatter(g, r, p, score);
        if (p == 1 && image)
            y = bs_conv2d(g, y, &(bs_conv2d_desc){.name = convs[level], .out = 1, .act = BS_CLIP, .act_param = 8});
        y = bs_affine(g, y, 1, (float)(p - 1));
        if (level < 2 && p != 2)
            y = nested(g, y, bs_affine(g, s, -1, (float)p), level + 1, image && p == 0);
        out[p] = p == 2 && level == 2 ? (bs_value){0} : y;
    }
    return bs_gather(g, r, out, x, &(bs_gather_desc){.mode = level == 1 ? BS_GATHER_WEIGHTED : BS_GATHER_SELECT});
}

static bs_graph *nested_graph(bool image)
{
    static const char *const names[3][2] = {{"conv.top.weight", "conv.top.bias"},
                                            {"conv.middle.weight", "conv.middle.bias"},
                                            {"conv.bottom.weight", "conv.bottom.bias"}};
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    for (int32_t i = 0; i < 3; i++) {
        net_add_whole(&weights, names[i][0], 4, conv);
        net_add_whole(&weights, names[i][1], 1, one);
    }
    if (!image) {
        const bs_dim n = bs_symbol(g, "N", 100);
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), (bs_value){0});
        bs_output(g, "y",
                  bs_collect(g, nested(g, x, bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, 3)), (bs_value){0}),
                                       0, false)));
        return g;
    }
    const bs_dim h = bs_symbol(g, "H", 40), w = bs_symbol(g, "W", 30);
    const bs_value cells =
        bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, h, w)), &(bs_patches_desc){.size = 8});
    const bs_value y = nested(g, cells, bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(20, 3)), cells), 0, true);
    bs_output(g, "y", bs_assemble(g, bs_clip(g, y, -100, 100)));
    return g;
}

static void test_nested(void)
{
    for (int32_t image = 0; image < 2; image++) {
        int32_t wrong = 0, plans = 0;
        for (int32_t turn = 0; turn < 8; turn++) {
            const bs_plan_desc desc = {.conv = BS_CONV_FORCE_DIRECT, .order = 1 + turn % 2, .threads = 1 + turn / 2};
            bs_graph *g = nested_graph(image != 0);
            rig r;
            memset(&a, 0, sizeof a);
            if (!rig_plan(&r, g, &desc) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
                printf("  %s\n", g->status ? g->error.message : r.error.message);
                wrong++;
                continue;
            }
            plans += r.plan->routers[3].in_tile;
            for (int32_t run = 0; run < 3; run++) {
                const int64_t extent[3] = {run == 0 ? 100 : 1 + check_below(100), 40 - run * 7, 30 - run * 11};
                against_inputs(&a, g, &weights.table, &desc, extent);
                const bool ok = against_run(&a, r.session);
                wrong += !ok;
                if (!ok)
                    printf("  order %d, %d threads: %s\n", desc.order, desc.threads, a.why);
            }
            bs_session_close(r.session);
        }
        check(wrong == 0, "routers in routers in routers, %s, both orders, 1 to 4 threads",
              image ? "patches with halos" : "rows");
        check(plans == 4, "depth first, inner routers decide tile by tile");
    }
}

/* Protocols that look at all rows at once, below another router: their scores are rows of a path as they are. */
static bs_graph *wide_graph(bs_protocol protocol)
{
    static const int32_t cost[3] = {30, 5, 1}, path[3] = {0, 1, 2};
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", 100);
    const bs_dtype dtype = protocol == BS_ROUTE_BUDGET ? BS_I32 : BS_F32;
    const bs_value knob = bs_input(g, "knob", BS_F32, BS_SHAPE1(1)),
                   x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), none);
    const bs_value halves = bs_rows(g, bs_input(g, "halves", BS_F32, BS_SHAPE2(n, 1)), none);
    bs_value score = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, 3)), none);
    if (dtype == BS_I32)
        score = bs_convert(g, bs_activation(g, score, BS_RELU, 0), &(bs_convert_desc){.dtype = BS_I32});
    net_add_ints(&weights, "r.cost", 3, cost);
    net_add_ints(&weights, "r.path", 3, path);
    const bs_router half =
        bs_route(g, halves, none, &(bs_route_desc){.name = "half", .protocol = BS_ROUTE_BINARY, .paths = 2});
    const bs_value inside = bs_scatter(g, half, 0, x);
    const bs_router r = bs_route(
        g, bs_scatter(g, half, 0, score), knob,
        &(bs_route_desc){
            .name = "r", .protocol = (int32_t)protocol, .paths = 3, .capacity = protocol == BS_ROUTE_CAPACITY ? 9 : 0});
    bs_value out[3], all[2];
    for (int32_t p = 0; p < 3; p++)
        out[p] = bs_affine(g, bs_scatter(g, r, p, inside), 1, (float)p);
    all[0] = bs_gather(g, r, out, inside, NULL);
    all[1] = bs_scatter(g, half, 1, x);
    bs_output(g, "y", bs_collect(g, bs_gather(g, half, all, none, NULL)));
    return g;
}

typedef struct calls {
    pthread_t thread;
    int32_t calls, rows, elsewhere;
} calls;

static bs_status counted_callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    calls *c = user;
    c->calls++;
    c->rows += rows;
    c->elsewhere += !pthread_equal(c->thread, pthread_self());
    return rg_callback_run(&callback_paths, scores, rows, path);
}

static void test_wide_below(void)
{
    const bs_protocol protocols[3] = {BS_ROUTE_CAPACITY, BS_ROUTE_BUDGET, BS_ROUTE_CALLBACK};
    for (int32_t k = 0; k < 3; k++) {
        int32_t wrong = 0;
        calls c = {pthread_self(), 0, 0, 0};
        bool once = true;
        for (int32_t turn = 0; turn < 4; turn++) {
            const bs_plan_desc desc = {.order = 1 + turn % 2, .threads = 1 + turn};
            rig r;
            memset(&a, 0, sizeof a);
            a.oracle.callback = rg_callback;
            callback_paths = 3;
            if (!rig_plan(&r, wide_graph(protocols[k]), &desc) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
                wrong++;
                continue;
            }
            bs_set_route(r.session, "r", counted_callback, &c, NULL);
            for (int32_t run = 0; run < 3; run++) {
                const int64_t extent[3] = {100 - 30 * run, 1, 1};
                against_inputs(&a, r.plan->graph, &weights.table, &desc, extent);
                c.calls = c.rows = 0;
                wrong += !against_run(&a, r.session);
                once = once && c.calls == (k == 2) && c.rows == (k == 2 ? a.oracle.counts[1][0] : 0);
            }
            bs_session_close(r.session);
        }
        check(wrong == 0, "%s below another router decides over all its rows, both orders %s",
              bs_protocol_name(protocols[k]), wrong ? a.why : "");
        check(once && c.elsewhere == 0, "a callback is asked once, on the thread of bs_run");
    }
}

/* --------------------------------------------------------------------------------------------- mixture of experts */

enum { TOKENS = 50, WIDTH = 16, HIDDEN = 24, EXPERTS = 4 };

static const char *const expert_names[EXPERTS][6] = {
    {"e0.up", "e0.up.weight", "e0.up.bias", "e0.down", "e0.down.weight", "e0.down.bias"},
    {"e1.up", "e1.up.weight", "e1.up.bias", "e1.down", "e1.down.weight", "e1.down.bias"},
    {"e2.up", "e2.up.weight", "e2.up.bias", "e2.down", "e2.down.weight", "e2.down.bias"},
    {"e3.up", "e3.up.weight", "e3.up.bias", "e3.down", "e3.down.weight", "e3.down.bias"}};

static bs_value expert(bs_graph *g, bs_value x, void *user)
{
    const char *const *names = user;
    const bs_value h = bs_linear(g, x, &(bs_linear_desc){.name = names[0], .out = HIDDEN, .act = BS_GELU});
    return bs_linear(g, h, &(bs_linear_desc){.name = names[3], .out = WIDTH});
}

static bs_graph *experts_graph(void)
{
    static const int64_t gate[2] = {EXPERTS, WIDTH}, up[2] = {HIDDEN, WIDTH}, down[2] = {WIDTH, HIDDEN};
    bs_graph *g = new_graph();
    net_add(&weights, "gate.weight", 2, gate, 0.5f);
    net_add(&weights, "gate.bias", 1, gate, 0.1f);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 64), WIDTH)), (bs_value){0});
    const bs_value score = bs_softmax(g, bs_linear(g, x, &(bs_linear_desc){.name = "gate", .out = EXPERTS}));
    const bs_router r = bs_route(
        g, score, (bs_value){0},
        &(bs_route_desc){.name = "experts", .protocol = BS_ROUTE_TOPK, .paths = EXPERTS, .k = 2, .normalise = 1});
    bs_value out[EXPERTS];
    for (int32_t e = 0; e < EXPERTS; e++) {
        net_add(&weights, expert_names[e][1], 2, up, 0.3f);
        net_add(&weights, expert_names[e][2], 1, up, 0.1f);
        net_add(&weights, expert_names[e][4], 2, down, 0.3f);
        net_add(&weights, expert_names[e][5], 1, down, 0.1f);
        out[e] = bs_branch(g, r, e, expert_names[e][0], x, expert, (void *)(uintptr_t)expert_names[e]);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED})));
    return g;
}

static const float *weight_of(const char *name)
{
    for (int32_t i = 0; i < weights.table.count; i++)
        if (strcmp(weights.tensors[i].name, name) == 0)
            return weights.tensors[i].data;
    return NULL;
}

static void plain_linear(const double *x, int32_t in, const char *weight, const char *bias, int32_t out, double *y)
{
    const float *w = weight_of(weight), *b = weight_of(bias);
    for (int32_t o = 0; o < out; o++) {
        y[o] = (double)b[o];
        for (int32_t i = 0; i < in; i++)
            y[o] += x[i] * (double)w[o * in + i];
    }
}

/* One token through its two best experts, in double. */
static void plain_token(const float *token, double *y)
{
    double x[WIDTH], score[EXPERTS], h[HIDDEN], part[WIDTH];
    for (int32_t i = 0; i < WIDTH; i++)
        y[i] = x[i] = (double)token[i];
    plain_linear(x, WIDTH, "gate.weight", "gate.bias", EXPERTS, score);
    int32_t first = 0, second = -1;
    for (int32_t e = 1; e < EXPERTS; e++)
        first = score[e] > score[first] ? e : first;
    for (int32_t e = 0; e < EXPERTS; e++)
        if (e != first && (second < 0 || score[e] > score[second]))
            second = e;
    const double a_share = 1 / (1 + exp(score[second] - score[first]));
    for (int32_t e = 0; e < EXPERTS; e++) {
        if (e != first && e != second)
            continue;
        plain_linear(x, WIDTH, expert_names[e][1], expert_names[e][2], HIDDEN, h);
        for (int32_t i = 0; i < HIDDEN; i++)
            h[i] = 0.5 * h[i] * (1 + erf(h[i] / sqrt(2.0)));
        plain_linear(h, HIDDEN, expert_names[e][4], expert_names[e][5], WIDTH, part);
        for (int32_t i = 0; i < WIDTH; i++)
            y[i] += (e == first ? a_share : 1 - a_share) * part[i];
    }
}

static void test_experts(void)
{
    static float x[TOKENS][WIDTH], y[TOKENS][WIDTH], first[TOKENS][WIDTH];
    double worst = 0;
    int32_t same = 0, runs = 0;
    for (int32_t i = 0; i < TOKENS * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] = check_float();
    for (int32_t order = 1; order <= 2; order++)
        for (int32_t threads = 1; threads <= 4; threads++) {
            rig r;
            const bs_buffer in = {x, BS_F32, 2, {TOKENS, WIDTH, 0, 0}, {0, 0, 0, 0}},
                            out = {y, BS_F32, 2, {TOKENS, WIDTH, 0, 0}, {0, 0, 0, 0}};
            if (!rig_plan(&r, experts_graph(), &(bs_plan_desc){.order = order, .threads = threads}) ||
                !rig_session(&r, &weights.table, NULL, 0xFF))
                continue;
            bs_bind(r.session, "x", &in, NULL);
            bs_bind(r.session, "y", &out, NULL);
            memset(y, 0xC3, sizeof y);
            runs += bs_run(r.session, &r.error) == BS_OK;
            if (runs == 1)
                memcpy(first, y, sizeof y);
            same += memcmp(first, y, sizeof y) == 0;
            bs_session_close(r.session);
        }
    for (int32_t t = 0; t < TOKENS; t++) {
        double plain[WIDTH];
        plain_token(x[t], plain);
        for (int32_t i = 0; i < WIDTH; i++)
            worst = fmax(worst, fabs(plain[i] - (double)first[t][i]));
    }
    check(runs == 8 && worst < 2e-5, "a mixture of experts is what plain arithmetic gives (off by %.1e)", worst);
    check(same == 8, "in the same bytes for both orders and 1 to 4 threads");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_nested();
    test_wide_below();
    test_experts();
    return check_end();
}
