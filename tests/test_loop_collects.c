/* tags: asan */
/* Promises: what a loop collects of images that a convolution of the body reads as well, and which therefore have
 * zeros around them, is these images alone, trip behind trip, and nothing around them is written: of the root, of rows,
 * in a loop in a loop, carried or made in the body, with wide margins, in every order. */
#define NET_TENSORS 8
#include "net.h"

enum { TRIPS = 3, ROWS = 2, C = 2, H = 3, W = 2, IMAGE = C * H * W };

static const bs_value none;

/* A convolution that gives twice what it takes. */
static bs_value doubled(bs_graph *g, bs_value x, int32_t dilation)
{
    return bs_conv2d(g, x, &(bs_conv2d_desc){.name = "double", .out = C, .no_bias = 1, .dilation = dilation});
}

/* x, 2 x, 4 x. */
static bs_value carried_of(bs_graph *g, bs_value x, int32_t dilation, const char *name)
{
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = name, .bound = TRIPS});
    const bs_value s = bs_loop_carry(g, loop, x);
    bs_loop_next(g, loop, s, doubled(g, s, dilation));
    const bs_value all = bs_loop_collect(g, loop, s);
    bs_loop_end(g, loop, none);
    return all;
}

static bs_value carried(bs_graph *g, bs_value x) { return carried_of(g, x, 1, "carried"); }
static bs_value wide(bs_graph *g, bs_value x) { return carried_of(g, x, 3, "wide"); }

/* The same of what is made in the body. */
static bs_value made(bs_graph *g, bs_value x)
{
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "made", .bound = TRIPS});
    const bs_value s = bs_loop_carry(g, loop, x), y = bs_affine(g, s, 1, 0);
    bs_loop_next(g, loop, s, doubled(g, y, 2));
    const bs_value all = bs_loop_collect(g, loop, y);
    bs_loop_end(g, loop, none);
    return all;
}

/* Of the second trip of the outer loop. */
static bs_value nested(bs_graph *g, bs_value x)
{
    const bs_router loop = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "outer", .bound = 2});
    const bs_value s = bs_loop_carry(g, loop, x), all = carried_of(g, s, 1, "inner");
    bs_loop_next(g, loop, s, bs_affine(g, s, 1, 0));
    const bs_value last = bs_loop_next(g, loop, none, all);
    bs_loop_end(g, loop, none);
    return last;
}

typedef struct network {
    const char *what;
    bs_value (*build)(bs_graph *g, bs_value x);
    bool rows;
} network;

static int32_t wrong_of(const network *n, int32_t order, bs_error *error)
{
    static struct net here;
    static float weight[C][C][3][3], x[ROWS][IMAGE], y[ROWS][TRIPS][IMAGE], beside[ROWS][IMAGE];
    const int32_t rows = n->rows ? ROWS : 1;
    const bs_tensor tensor = {"double.weight", BS_F32, 4, {C, C, 3, 3}, weight};
    const bs_tensor_table table = {&tensor, 1};
    const bs_weights weights = bs_weights_from_table(&table);
    for (int32_t c = 0; c < C; c++)
        weight[c][c][1][1] = 2;
    for (int32_t i = 0; i < ROWS * IMAGE; i++)
        x[i / IMAGE][i % IMAGE] = (float)(i + 1);
    memset(y, 0xFF, sizeof y);
    bs_graph *g = net_begin(&here);
    bs_value in = n->rows ? bs_input(g, "x", BS_F32, BS_SHAPE4(ROWS, C, H, W))
                          : bs_input(g, "x", BS_F32, BS_SHAPE3(C, H, W));
    in = n->rows ? bs_rows(g, in, none) : in;
    const bs_value all = bs_reshape(g, n->build(g, in), BS_SHAPE2(TRIPS, IMAGE));
    const bs_value other = bs_reshape(g, bs_affine(g, in, -1, 0), BS_SHAPE1(IMAGE));
    bs_output(g, "all", n->rows ? bs_collect(g, all) : all);
    bs_output(g, "beside", n->rows ? bs_collect(g, other) : other);
    const int32_t more = n->rows;
    const bs_buffer of = {x, BS_F32, 3 + more, {more ? ROWS : C, more ? C : H, more ? H : W, W}, {0}},
                    to = {y, BS_F32, 2 + more, {more ? ROWS : TRIPS, more ? TRIPS : IMAGE, IMAGE}, {0}},
                    by = {beside, BS_F32, 1 + more, {more ? ROWS : IMAGE, IMAGE}, {0}};
    const bool ran = net_start(&here, &(bs_plan_desc){.order = order}, &weights) &&
                     bs_bind(here.session, "x", &of, &here.error) == BS_OK &&
                     bs_bind(here.session, "all", &to, &here.error) == BS_OK &&
                     bs_bind(here.session, "beside", &by, &here.error) == BS_OK &&
                     bs_run(here.session, &here.error) == BS_OK;
    int32_t wrong = ran ? 0 : 1;
    for (int32_t r = 0; r < rows; r++)
        for (int32_t i = 0; i < IMAGE; i++) {
            for (int32_t t = 0; t < TRIPS; t++)
                wrong += !(y[r][t][i] == x[r][i] * (float)(1 << t));
            wrong += !(beside[r][i] == -x[r][i]);
        }
    *error = here.error;
    if (here.session)
        bs_session_close(here.session);
    return wrong;
}

int main(void)
{
    static const network networks[] = {{"carried images", carried, false}, {"images with wide margins", wide, false},
                                       {"images of the body", made, false},
                                       {"those of a loop in a loop", nested, false},
                                       {"carried images of rows", carried, true},
                                       {"images of rows with wide margins", wide, true},
                                       {"images of the body, of rows", made, true}};
    static const char *const orders[] = {"the planner's order", "breadth first", "depth first"};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++) {
            bs_error error;
            const int32_t wrong = wrong_of(&networks[i], order, &error);
            check(wrong == 0, "a loop collects %s, %s: %d wrong %s", networks[i].what, orders[order], wrong,
                  error.message);
        }
    return check_end();
}
