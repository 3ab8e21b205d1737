/* tags: asan */
/* Promises: a loop may end by any view: what is the same in every trip, a slice, a carried value, a row of the outside.
 * A view that nothing but the end of a loop reads is the last value of a graph: the planner looks at nothing behind it,
 * whatever its arena held before, and however many values lie before it. */
#include "net.h"

enum { MOST = 8 };

static BS_ALIGNED uint8_t persistent[1 << 20], plans[1 << 20], transient[1 << 18], staging[1 << 16];
static bs_error error;
static const bs_value none;

typedef bs_value (*predicate)(bs_graph *g, bs_router loop, bs_value x, bs_value all, bs_value carried);

static bs_value lifted(bs_graph *g, bs_router loop, bs_value x, bs_value all, bs_value carried)
{
    (void)all, (void)carried;
    return bs_affine(g, bs_scatter(g, loop, 0, x), 2, 0);
}

static bs_value slice(bs_graph *g, bs_router loop, bs_value x, bs_value all, bs_value carried)
{
    (void)x, (void)carried;
    return bs_loop_slice(g, loop, all);
}

static bs_value handed_on(bs_graph *g, bs_router loop, bs_value x, bs_value all, bs_value carried)
{
    (void)g, (void)loop, (void)x, (void)all;
    return carried;
}

static bs_value outside(bs_graph *g, bs_router loop, bs_value x, bs_value all, bs_value carried)
{
    (void)all, (void)carried;
    return bs_scatter(g, loop, 0, x);
}

/* 1 and three times 1; `more` values stand before the loop. */
static bs_graph *build(bs_memory *m, predicate ends, int32_t more)
{
    bs_graph *g = bs_graph_create(&m->persistent, NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(1)), all = bs_input(g, "all", BS_F32, BS_SHAPE2(3, 1));
    bs_value z = bs_activation(g, bs_affine(g, x, 2, 0), BS_RELU, 0); /* fused: so the graph is copied */
    for (int32_t i = 0; i < more; i++)
        z = bs_concat(g, (bs_value[]){z, x}, 2, 0);
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "sum", .over = all});
    const bs_value s = bs_loop_carry(g, loop, x);
    const bs_value last = bs_loop_next(g, loop, s, bs_add(g, s, bs_loop_slice(g, loop, all)));
    bs_loop_end(g, loop, ends(g, loop, x, all, s));
    bs_output(g, "y", last);
    bs_output(g, "z", z);
    return g;
}

static float run(predicate ends, int32_t more, int32_t paint)
{
    float one[1] = {1}, three[3] = {1, 1, 1}, y[1] = {0}, z[MOST + 1];
    bs_memory m;
    bs_arena room;
    memset(&m, 0, sizeof m);
    memset(&error, 0, sizeof error);
    memset(plans, paint, sizeof plans);
    bs_arena_init(&room, "plan", plans, sizeof plans);
    bs_arena_init(&m.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&m.transient, "transient", transient, sizeof transient);
    bs_arena_init(&m.staging, "staging", staging, sizeof staging);
    bs_graph *g = build(&m, ends, more);
    const bs_plan *plan = bs_plan_create(&room, NULL, g, NULL, &error);
    const bs_session_desc with = {.platform = NULL};
    bs_session *s = plan ? bs_session_create(&m, plan, &with, &error) : NULL;
    const bs_buffer in = {one, BS_F32, 1, {1}, {0}}, series = {three, BS_F32, 2, {3, 1}, {0}},
                    out = {y, BS_F32, 1, {1}, {0}}, other = {z, BS_F32, 1, {more + 1}, {0}};
    if (!s || bs_bind(s, "x", &in, &error) || bs_bind(s, "all", &series, &error) || bs_bind(s, "y", &out, &error) ||
        bs_bind(s, "z", &other, &error) || bs_run(s, &error))
        y[0] = -1;
    if (s)
        bs_session_close(s);
    return y[0];
}

int main(void)
{
    static const struct {
        const char *what;
        predicate ends;
    } loops[] = {{"what is the same in every trip", lifted}, {"a slice", slice},
                 {"a carried value", handed_on}, {"what is outside", outside}};
    static const int32_t paints[3] = {0xFF, 0x7F, 0x00};
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        for (int32_t p = 0; p < 3; p++) {
            int32_t right = 0;
            for (int32_t more = 0; more < MOST; more++)
                right += run(loops[i].ends, more, paints[p]) == 4;
            check(right == MOST, "a loop ends by %s, planned over 0x%02X: %d of %d are right %s", loops[i].what,
                  (unsigned)paints[p], right, MOST, error.message);
        }
    return check_end();
}
