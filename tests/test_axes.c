/* tags: asan */
/* test_axes.c - reshape, transpose and slice over as many as six axes: chains of them move each element to where their
 * definition says, whatever its type and the bound layout, in a root tensor or in each of some rows; a reshape and a
 * transpose that are one kernel do, too; what other ops are of the same kind give the same bytes. On a GPU:
 * test_cuda_suite_axes.c. Usage: test_axes [seed] */
#include "net.h"
#include "ops/table.h"
#include "plan/plan.h"

#define MOST 8192 /* elements of a value */
#define ROWS 3

static const bs_value none = {0};

/* What a chain makes of the numbers of its elements. */
typedef struct world {
    bs_graph *g;
    bs_value x;
    int64_t rank, dim[BS_MAX_AXES], n;
    int32_t at[MOST];
} world;

static int64_t product(const int64_t *dim, int64_t rank)
{
    int64_t n = 1;
    for (int64_t d = 0; d < rank; d++)
        n *= dim[d];
    return n;
}

static bs_shape shape_of(const world *w)
{
    bs_shape s = {(int32_t)w->rank, {0}};
    for (int64_t d = 0; d < w->rank; d++)
        s.dim[d] = w->dim[d];
    return s;
}

/* Any factors of the elements, in some order. */
static void reshape(world *w, int32_t rank)
{
    int64_t left = w->n;
    for (int32_t d = 0; d < rank; d++)
        w->dim[d] = 1;
    for (int64_t f = 2; left > 1; f++)
        for (; left % f == 0; left /= f)
            w->dim[check_below(rank)] *= f;
    w->rank = rank;
    w->x = bs_reshape(w->g, w->x, shape_of(w));
}

static void transpose(world *w)
{
    static int32_t old[MOST];
    bs_transpose_desc desc = {.name = NULL};
    int64_t from[BS_MAX_AXES], step[BS_MAX_AXES], index[BS_MAX_AXES] = {0};
    memcpy(old, w->at, sizeof old);
    memcpy(from, w->dim, sizeof from);
    for (int32_t d = 0; d < w->rank; d++)
        desc.order[d] = d;
    for (int32_t d = (int32_t)w->rank - 1; d > 0; d--) {
        const int32_t k = check_below(d + 1), swapped = desc.order[k];
        desc.order[k] = desc.order[d];
        desc.order[d] = swapped;
    }
    for (int32_t d = 0; d < w->rank; d++) {
        w->dim[d] = from[desc.order[d]];
        step[d] = product(from + desc.order[d] + 1, w->rank - desc.order[d] - 1);
    }
    for (int64_t i = 0; i < w->n; i++) {
        int64_t source = 0;
        for (int64_t d = 0; d < w->rank; d++)
            source += index[d] * step[d];
        w->at[i] = old[source];
        for (int64_t d = w->rank - 1; d >= 0 && ++index[d] == w->dim[d]; d--)
            index[d] = 0;
    }
    w->x = bs_transpose(w->g, w->x, &desc);
}

static void slice(world *w)
{
    const int32_t axis = check_below((int32_t)w->rank), extent = (int32_t)w->dim[axis];
    const int32_t length = 1 + check_below(extent), start = check_below(extent - length + 1);
    const int64_t inner = product(w->dim + axis + 1, w->rank - axis - 1), outer = w->n / inner / extent;
    int64_t n = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = start; i < start + length; i++)
            for (int64_t k = 0; k < inner; k++)
                w->at[n++] = w->at[(o * extent + i) * inner + k];
    w->n = n;
    w->dim[axis] = length;
    w->x = bs_slice(w->g, w->x, &(bs_slice_desc){.axis = axis - (check_below(2) ? (int32_t)w->rank : 0),
                                                 .start = start,
                                                 .length = length});
}

static bool run(net *n, bs_buffer *in, bs_buffer *out)
{
    return net_start(n, &(bs_plan_desc){.threads = 1}, NULL) && bs_bind(n->session, "x", in, &n->error) == BS_OK &&
           bs_bind(n->session, "y", out, &n->error) == BS_OK && bs_run(n->session, &n->error) == BS_OK;
}

static int32_t fused[8]; /* nodes of each fusion */

static void test_chain(int32_t trial)
{
    static uint8_t given[4 * ROWS * MOST], made[4 * ROWS * MOST];
    static world w;
    net n;
    const bool rows = trial % 2;
    const bs_dtype dtype = trial % 3 == 0 ? BS_F32 : trial % 3 == 1 ? BS_U8 : BS_F16;
    const int64_t bytes = (int64_t)bs_dtype_bytes(dtype);
    memset(&w, 0, sizeof w);
    w.g = net_begin(&n);
    w.rank = 2;
    w.dim[0] = 12 * (1 + check_below(3)), w.dim[1] = 6 * (1 + check_below(30));
    w.n = w.dim[0] * w.dim[1];
    bs_buffer in = {given, dtype, rows + 2, {ROWS}, {0}}, out = {made, dtype, 0, {0}, {0}};
    memcpy(in.dim + rows, w.dim, 2 * sizeof *w.dim);
    w.x = bs_input(w.g, "x", dtype, (bs_shape){in.rank, {in.dim[0], in.dim[1], in.dim[2]}});
    w.x = rows ? bs_rows(w.g, w.x, none) : w.x;
    const int64_t whole = w.n, height = w.dim[0], width = w.dim[1];
    const bool columns = !rows && check_below(2); /* the input lies column by column */
    if (columns)
        in.stride[0] = 1, in.stride[1] = height;
    for (int32_t i = 0; i < w.n; i++)
        w.at[i] = i;
    for (int64_t i = 0; i < (int64_t)sizeof given; i++)
        given[i] = (uint8_t)check_random();
    for (int32_t step = 0; step < 3; step++) {
        if (check_below(3))
            reshape(&w, 5 + check_below(2));
        transpose(&w);
        if (check_below(2))
            slice(&w);
    }
    reshape(&w, 1 + check_below(rows ? 3 : 4));
    bs_output(w.g, "y", rows ? bs_collect(w.g, w.x) : w.x);
    out.rank = (int32_t)w.rank + rows;
    out.dim[0] = ROWS;
    memcpy(out.dim + rows, w.dim, (size_t)w.rank * sizeof *w.dim);
    memset(made, 0, sizeof made);
    bool same = run(&n, &in, &out);
    for (int64_t r = 0; r < (rows ? ROWS : 1); r++)
        for (int64_t i = 0; same && i < w.n; i++) {
            const int64_t at = columns ? w.at[i] % width * height + w.at[i] / width : w.at[i];
            same = memcmp(made + (r * w.n + i) * bytes, given + (r * whole + at) * bytes, (size_t)bytes) == 0;
        }
    for (int32_t k = 1; k < w.g->n_nodes; k++)
        fused[n.plan ? n.plan->nodes[k].fusion : 0]++;
    check(same, "chain %d of %s%s %s", trial, bs_dtype_name(dtype), rows ? " in rows" : "", n.error.message);
    bs_session_close(n.session);
}

/* [C r r, H, W] -> [C, H r, W r] by six axes is what pixel_shuffle does; heights are symbols. */
static void test_shuffle(int32_t channels, int32_t r, int32_t width)
{
    enum { HEIGHT = 3 };
    static float given[4000], made[2][4000];
    for (int32_t way = 0; way < 2; way++) {
        net n;
        bs_graph *g = net_begin(&n);
        const bs_dim h = bs_symbol(g, "H", 9);
        bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(channels * r * r, h, width));
        const bs_pool2d_desc same = {.kind = BS_POOL_MAX, .kernel = 1, .stride = 1}; /* its result has channels last */
        if (way == 0) {
            x = bs_reshape(g, x, (bs_shape){6, {channels, r, r, 1, h, width}});
            x = bs_transpose(g, x, &(bs_transpose_desc){.order = {0, 4, 1, 3, 5, 2}});
            x = bs_reshape(g, x, BS_SHAPE3(channels, -1, width * r));
        } else {
            x = bs_pool2d(g, bs_pixel_shuffle(g, bs_pool2d(g, x, &same), r), &same);
        }
        bs_output(g, "y", x);
        for (int32_t i = 0; i < 4000; i++)
            given[i] = (float)i;
        bs_buffer in = {given, BS_F32, 3, {channels * r * r, HEIGHT, width}, {0}};
        bs_buffer out = {made[way], BS_F32, 3, {channels, HEIGHT * r, width * r}, {0}};
        check(run(&n, &in, &out), "shuffle of a symbol %s", n.error.message);
        bs_session_close(n.session);
    }
    check(memcmp(made[0], made[1], sizeof made[0]) == 0, "six axes shuffle pixels of %d channels", channels);
}

/* Every other op says so. */
static void test_refusals(void)
{
    const struct {
        const char *op;
        int32_t rank;
    } no[] = {{"affine", 5}, {"output", 6}, {"concat", 5}, {"rows", 5}};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        net n;
        char text[100];
        bs_graph *g = net_begin(&n);
        const bs_shape s = {no[i].rank, {1, 1, 2, 3, 2, 1}};
        const bs_value x = bs_reshape(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, 3)), s);
        const bool fine = check(bs_graph_check(g, &n.error) == BS_OK, "rank %d %s", s.rank, n.error.message);
        bs_op_build(g, bs_op_get(bs_op_index(no[i].op)), &x.id, 1, NULL);
        bs_graph_check(g, &n.error);
        snprintf(text, sizeof text, "operand 0 has rank %d, expected 4 at most", s.rank);
        check(fine && strstr(n.error.message, text) && strstr(n.error.message, no[i].op), "%s: %s", no[i].op,
              n.error.message);
    }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (int32_t i = 0; i < 90; i++)
        test_chain(i);
    for (int32_t f = 1; f <= bs_fusion_count(); f++)
        check(fused[f] > 20 || !strstr(bs_fusion_name(f), "transpose"), "%d nodes are %s", fused[f], bs_fusion_name(f));
    test_shuffle(3, 3, 4);
    test_shuffle(8, 2, 40);
    test_shuffle(5, 2, 40);
    test_refusals();
    return check_end();
}
