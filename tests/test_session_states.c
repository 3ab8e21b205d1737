/* tags: asan tsan shipped aarch64 32-bit */
/* Promises: states are what the last run wrote, in place or copied, until a reset. */
#include "state_rig.h"

static void test_states(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2};
        rig r;
        if (!check(reuse_open(&r, reuse_net(), &d), "a net with a state, order %d", order))
            continue;
        const bs_graph *g = r.plan->graph;
        const int32_t result = bs_node_in(g, &g->nodes[g->n_nodes - 1])[0];
        check(r.plan->values[result].storage == BS_STORAGE_STATE, "the result is made in the state itself, order %d",
              order);
        bool ok = !bs_state_valid(r.session);
        for (int32_t i = 0; i < 4; i++)
            ok = ok && runs(&r, &d, 26, 21) && bs_state_valid(r.session);
        check(ok, "states go from run to run, order %d", order);
        bs_reset_state(r.session);
        ok = !bs_state_valid(r.session);
        memset(ag_data[1], 0, sizeof ag_data[1]); /* the oracle's state */
        for (int32_t i = 0; i < 3; i++)
            ok = ok && runs(&r, &d, 26, 21);
        check(ok, "after a reset they are zero, order %d", order);
        for (int32_t i = 0; i < 6; i++)
            ok = ok && runs(&r, &d, 9 + i / 2, 20 - i / 2);
        check(ok, "with another size they start anew, order %d", order);
        check(rig_intact(&r), "nothing is written outside the arenas");
        bs_session_close(r.session);
    }
}

/* What else may be done with the last result beside making the next one in its place. */
typedef enum hazard {
    READ_LATER,     /* by a convolution of another region */
    KEPT_ELSEWHERE, /* as the residual of a second gather */
    READ_BESIDE,    /* in the paths that write */
    CONVOLVED_BESIDE,
    GIVEN_OUT,
    READ_AS_A_WHOLE,
    RESULT_READ, /* the new one, by a convolution of the whole frame */
    WRITTEN_TO_TWO,
    HAZARDS
} hazard;

static bs_value hazard_conv(bs_graph *g, bs_value x)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = "conv", .out = 1, .act = BS_CLIP, .act_param = 8});
}

static bs_graph *hazard_net(hazard h)
{
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_graph *g = new_graph();
    net_add_whole(&weights, "conv.weight", 4, conv);
    net_add_whole(&weights, "conv.bias", 1, one);
    const bs_shape shape = BS_SHAPE3(1, bs_symbol(g, "H", 26), bs_symbol(g, "W", 21));
    const bs_value frame = bs_input(g, "frame", BS_F32, shape), before = bs_state(g, "before", BS_F32, shape);
    const bs_value second = h == WRITTEN_TO_TWO ? bs_state(g, "second", BS_F32, shape) : (bs_value){0};
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8}),
                   old = bs_patches(g, before, &(bs_patches_desc){.like = cells});
    const bs_value change = bs_pool2d(g, bs_sub(g, cells, old), &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1});
    const bs_router r = bs_route(g, change, (bs_value){0},
                                 &(bs_route_desc){.name = "reuse", .protocol = BS_ROUTE_CALLBACK, .paths = 2});
    bs_value out[2] = {{0}, hazard_conv(g, bs_scatter(g, r, 1, cells))}, other = {0};
    if (h == READ_BESIDE || h == CONVOLVED_BESIDE)
        out[0] =
            h == READ_BESIDE ? bs_affine(g, bs_scatter(g, r, 0, old), -1, 1) : hazard_conv(g, bs_scatter(g, r, 0, old));
    const bs_value result = bs_assemble(g, bs_gather(g, r, out, old, NULL));
    bs_state_write(g, before, result);
    if (h == READ_LATER)
        other = bs_assemble(g, hazard_conv(g, old));
    if (h == KEPT_ELSEWHERE) {
        const bs_value crossed[2] = {bs_affine(g, bs_scatter(g, r, 0, cells), 2, 0), {0}};
        other = bs_assemble(g, bs_gather(g, r, crossed, old, NULL));
    }
    if (h == READ_AS_A_WHOLE || h == RESULT_READ)
        other = hazard_conv(g, h == RESULT_READ ? result : before);
    if (h == GIVEN_OUT)
        other = before;
    if (h == WRITTEN_TO_TWO) {
        bs_state_write(g, second, result);
        other = bs_sub(g, second, before);
    }
    bs_output(g, "result", result);
    if (other.id)
        bs_output(g, "other", other);
    return g;
}

static void test_state_hazards(void)
{
    static const char *const names[HAZARDS] = {"read later",          "kept elsewhere", "read beside",
                                               "convolved beside",    "given out",      "read as a whole",
                                               "read when it is new", "written to two"};
    for (int32_t h = 0; h < HAZARDS; h++) {
        bool ok = true;
        for (int32_t turn = 0; turn < 4; turn++) {
            const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = 1 + turn % 2, .threads = 1 + turn / 2};
            rig r;
            ok = reuse_open(&r, hazard_net((hazard)h), &d) && ok;
            for (int32_t i = 0; i < 4; i++)
                ok = ok && runs(&r, &d, 26, 21);
            bs_session_close(r.session);
        }
        check(ok, "a state that is %s is what it was when the run began", names[h]);
    }
}

/* A state in the caller's memory, with gaps between its lines. */
static void test_bound_states(void)
{
    enum { H = 13, W = 17, PITCH = 40 };
    static float state[2][H * PITCH + 8];
    bool ok = true, apart = true;
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order};
        const bs_buffer b = {state[order - 1], BS_F32, 3, {1, H, W, 0}, {H * PITCH, PITCH, 2, 0}};
        rig r;
        ok = reuse_open(&r, reuse_net(), &d) && bs_bind(r.session, "before", &b, &r.error) == BS_OK && ok;
        for (int32_t i = 0; i < H * PITCH + 8; i++)
            state[order - 1][i] = 77;
        bs_reset_state(r.session);
        check_seed(5);
        for (int32_t i = 0; i < 3; i++)
            ok = ok && runs(&r, &d, H, W);
        for (int32_t i = 0; i < H * PITCH + 8; i++) {
            const bool inside = i / PITCH < H && i % PITCH < 2 * W && i % PITCH % 2 == 0;
            apart = apart && (inside || state[order - 1][i] == 77);
            ok = ok && (!inside || (double)state[order - 1][i] == ag_data[1][i / PITCH * W + i % PITCH / 2]);
        }
        const bs_buffer small = dense(state[0], BS_F32, 3, 1, H - 1, W);
        bs_bind(r.session, "before", &small, NULL);
        ok = ok && bs_run(r.session, &r.error) == BS_ERROR_SHAPE && strstr(r.error.message, "\"before\"");
        bs_session_close(r.session);
    }
    check(ok, "a state lives in the buffer bound to its name: %s",
          "written, read, reset, and refused when it does not fit");
    check(apart, "between its elements nothing is touched");
    check(memcmp(state[0], state[1], sizeof state[0]) == 0, "both orders leave the same bytes in it");
}

/* A state that is bound holds what the caller put there. */
static void test_first_content(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        float state[4] = {1, 2, 3, 4}, out[4] = {0};
        bs_graph *g = new_graph();
        const bs_value s = bs_state(g, "s", BS_F32, BS_SHAPE1(4));
        bs_output(g, "y", s);
        bs_state_write(g, s, bs_affine(g, s, 2, 0));
        rig r;
        const bs_buffer at = dense(state, BS_F32, 1, 4, 0, 0), y = dense(out, BS_F32, 1, 4, 0, 0);
        const bool ok = rig_plan(&r, g, &(bs_plan_desc){.order = order}) && rig_session(&r, &weights.table, NULL, 0) &&
                        bs_bind(r.session, "s", &at, &r.error) == BS_OK &&
                        bs_bind(r.session, "y", &y, &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
        check(ok && out[0] == 1 && out[3] == 4 && state[0] == 2 && state[3] == 8,
              "what a state holds when it is bound is what the first run reads, order %d: %s", order, r.error.message);
        bs_session_close(r.session);
    }
}

/* What a run reads of a state is what was there when it started, whatever is written first. */
static void test_delay(void)
{
    for (int32_t turn = 0; turn < 2; turn++) {
        bs_graph *g = new_graph();
        const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(1)), one = bs_state(g, "one", BS_F32, BS_SHAPE1(1)),
                       two = bs_state(g, "two", BS_F32, BS_SHAPE1(1));
        float in, out[3] = {-1, -1, -1};
        if (turn == 0)
            bs_state_write(g, one, x);
        bs_state_write(g, two, one);
        if (turn == 1)
            bs_state_write(g, one, x);
        bs_output(g, "now", x);
        bs_output(g, "last", one);
        bs_output(g, "before", two);
        rig r;
        bool ok = rig_plan(&r, g, NULL) && rig_session(&r, NULL, NULL, 0xFF);
        const bs_buffer b[4] = {dense(&in, BS_F32, 1, 1, 0, 0), dense(&out[0], BS_F32, 1, 1, 0, 0),
                                dense(&out[1], BS_F32, 1, 1, 0, 0), dense(&out[2], BS_F32, 1, 1, 0, 0)};
        ok = ok && bs_bind(r.session, "x", &b[0], NULL) == BS_OK && bs_bind(r.session, "now", &b[1], NULL) == BS_OK &&
             bs_bind(r.session, "last", &b[2], NULL) == BS_OK && bs_bind(r.session, "before", &b[3], NULL) == BS_OK;
        for (int32_t i = 1; i <= 5; i++) {
            in = (float)i;
            ok = ok && bs_run(r.session, NULL) == BS_OK && out[0] == (float)i && out[1] == (float)(i - 1) &&
                 out[2] == (float)(i > 2 ? i - 2 : 0);
        }
        check(ok, "two states make a delay of two runs, %s", turn ? "written back to front" : "written front to back");
        bs_session_close(r.session);
    }
}

int main(void)
{
    check_seed(1);
    test_states();
    test_state_hazards();
    test_bound_states();
    test_first_content();
    test_delay();
    return check_end();
}
