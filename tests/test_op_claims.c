/* tags: asan shipped aarch64 32-bit */
/* Promises: what the contract of an op says of its kernel is so, at every tier and wherever elements lie. Of each op
 * whose rows are computed in their place there is a case here for all that it says.
 *
 * Usage: test_op_claims [seed] */
#include "op_trial.h"

#include <float.h>

/* ------------------------------------------------------------------------------------------------------- cases */

BUILD(boxes_kept, bs_nms(g, x[0], x[1], &(bs_nms_desc){.iou_threshold = 0.5f}))
BUILD(children_2, bs_children(g, x[0], x[1], 2))
BUILD(levels_of, bs_levels(g, x[0]))

static const claim claims[] = {
    {conv_plain, {F(3, 5, 9, 11)}},
    {conv_norm, {F(3, 4, 9, 11)}},
    {deconv_k4, {F(3, 5, 5, 7)}},
    {linear_rows, {F(2, 5, 7)}},
    {lstm, {F(2, 3, 6), F(2, 3, 4), F(2, 3, 4)}},
    {gru, {F(2, 3, 6), F(2, 3, 4)}},
    {matmul_plain, {F(2, 4, 5), F(2, 5, 7)}},
    {shuffle_2, {F(3, 8, 5, 7)}},
    {unshuffle_2, {F(3, 3, 8, 10)}},
    {add, {F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {add, {F(2, 5, 9), F(2, 5, 9)}},
    {add, {I(0, 1, 21), I(0, 1, 21)}},
    {sub, {F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {sub, {I(0, 2, 5, 9), I(0, 2, 5, 9)}},
    {mul, {F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {mul, {F(2, 5, 9), F(2, 5, 9)}},
    {binary_pow, {F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {binary_min, {I(0, 2, 5, 9), I(0, 2, 5, 9)}},
    {compare_less, {F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {compare_xor, {I(2, 2, 5, 9), I(2, 2, 5, 9)}},
    {where, {I(2, 3, 3, 6, 11), F(3, 3, 6, 11), F(3, 3, 6, 11)}},
    {where, {I(2, 1, 21), I(0, 1, 21), I(0, 1, 21)}},
    {act_gelu, {F(3, 3, 6, 11)}},
    {act_tanh, {F(2, 5, 21)}},
    {prelu, {F(3, 3, 6, 11)}},
    {clip, {F(3, 3, 6, 11)}},
    {affine, {F(3, 3, 6, 11)}},
    {batch_norm, {F(3, 20, 3, 7)}},
    {unary_exp, {F(3, 3, 6, 11)}},
    {unary_not, {I(0, 2, 5, 9)}},
    {to_i32, {F(3, 3, 6, 11)}},
    {to_u8, {F(2, 5, 9)}},
    {to_f32, {I(0, 2, 5, 9)}},
    {to_f16, {OF(BF16, 3, 3, 6, 11)}},
    {concat_3, {F(3, 3, 6, 11), F(3, 2, 6, 11), F(3, 4, 6, 11)}},
    {concat_width, {OF(U8, 3, 3, 6, 11), OF(U8, 3, 3, 6, 5)}},
    {slice_13, {F(3, 3, 6, 11)}},
    {reshape_15, {F(2, 5, 6)}},
    {transpose_default, {F(3, 3, 6, 11)}},
    {pad_reflect, {F(3, 3, 6, 11)}},
    {roll_width, {F(3, 3, 6, 11)}},
    {softmax, {F(3, 3, 6, 11)}},
    {softmax, {F(2, 5, 37)}},
    {layer_norm, {F(3, 3, 6, 11)}},
    {layer_norm, {F(2, 5, 37)}},
    {rms_norm, {F(3, 3, 6, 11)}},
    {rms_norm, {F(2, 5, 37)}},
    {lrn, {F(3, 7, 6, 11)}},
    {cumsum_back, {F(2, 5, 9)}},
    {reduce_sum, {F(3, 3, 6, 11)}},
    {reduce_l2, {F(2, 5, 9)}},
    {argmax, {F(2, 5, 9)}},
    {argmin, {I(0, 2, 5, 9)}},
    {topk, {F(2, 5, 9)}},
    {pool_max, {F(3, 3, 9, 11)}},
    {pool_average_pad, {F(3, 3, 9, 11)}},
    {nearest_3, {F(3, 3, 6, 5)}},
    {bicubic_2, {F(3, 3, 6, 5)}},
    {features, {OF(U8, 3, 1, 8, 8), OF(U8, 3, 1, 8, 8)}},
    {rope, {F(1, 12), I(99, 1, 1)}},
    {rope_part, {F(1, 12), I(99, 1, 1)}},
    {gather_table, {F(2, 7, 3), I(7, 1, 4)}},
    {select_axis_1, {F(2, 5, 9), I(9, 1, 4)}},
    {gather_elements_1, {F(2, 5, 9), I(9, 2, 5, 3)}},
    {scatter_elements_0, {F(2, 9, 7), I(9, 2, 4, 3), F(2, 4, 3)}},
    {scatter_elements_last, {F(2, 9, 7), I(7, 2, 9, 3), F(2, 9, 3)}},
    {scatter_rows_0, {F(2, 9, 7), I(9, 1, 3), F(2, 3, 7)}},
    {scatter_rows_add, {F(2, 5, 9), I(9, 1, 3), F(2, 5, 3)}},
    {arange_7, {I(7, 1, 1)}},
    {nonzero_all, {F(2, 3, 4)}},
    {unique_11, {F(1, 12)}},
    {boxes_kept, {F(3, 1, 5, 4), F(3, 1, 2, 5)}},
    {children_2, {I(1, 1, 3), I(3, 1, 4)}},
    {levels_of, {I(-1, 2, 3, 2)}},
};
enum { CLAIMS = sizeof claims / sizeof *claims };

static trial world;

/* ------------------------------------------------------------------------------------------- elements and lines */

/* Other operands that have the same `count` elements from `first` on leave those of the result as they were. */
static void stays(trial *t, const claim *c, const tensor *in, const tensor *y, int64_t first, int64_t count,
                  const char *why)
{
    tensor other[3];
    for (int32_t k = 0; k < t->r.node->n_in; k++) {
        const int32_t i = t->of[k];
        const size_t bytes = bs_dtype_bytes(in[i].dtype);
        other[i] = operand_random(t, c, i);
        if (!same_shape(&in[i], y))
            t->why = "the result has another shape";
        else
            memcpy(other[i].data + (size_t)first * bytes, in[i].data + (size_t)first * bytes, (size_t)count * bytes);
    }
    const tensor now = go(t, other, NONE, NULL);
    for (int64_t i = first; i < first + count && !t->why; i++)
        if (!same_at(&now, i, y, i))
            t->why = why;
}

static void made_over(trial *t, const tensor *in, const tensor *y, int32_t operand)
{
    const tensor *x = &in[t->of[operand]];
    if (t->why || !same_shape(x, y) || bs_dtype_bytes(x->dtype) != bs_dtype_bytes(y->dtype))
        return;
    const tensor over = go(t, in, operand, NULL);
    if (!same_tensors(&over, y))
        t->why = "made over an operand it has other bits";
}

static void try_elements(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    for (int32_t i = 0; i < 4 && !t->why; i++)
        stays(t, c, in, y, check_below((int32_t)tensor_elements(y)), 1, "an element depends on other places");
    for (int32_t k = 0; k < t->r.node->n_in; k++)
        made_over(t, in, y, k);
}

static void try_lines(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    const int32_t line = y->dim[y->rank - 1], lines = (int32_t)(tensor_elements(y) / line);
    for (int32_t i = 0; i < 4 && !t->why; i++)
        stays(t, c, in, y, (int64_t)check_below(lines) * line, line, "a line depends on others");
    made_over(t, in, y, 0);
}

/* With other values of the last operand the elements that it changes are others; the rest are those of operand 0. */
static void try_updates(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    const tensor *x = &in[t->of[0]];
    const int32_t last = t->of[t->r.node->n_in - 1];
    tensor other[3] = {in[0], in[1], in[2]};
    int64_t kept = 0;
    if (!same_shape(x, y) || x->dtype != y->dtype) {
        t->why = "the result is not one of operand 0";
        return;
    }
    other[last] = operand_random(t, c, last);
    const tensor now = go(t, other, NONE, NULL);
    for (int64_t i = 0; i < tensor_elements(y); i++) {
        if (!same_at(&now, i, y, i))
            continue;
        kept++;
        if (!same_at(y, i, x, i))
            t->why = "elements that are not named are not those of operand 0";
    }
    if (kept == 0)
        t->why = "no element is that of operand 0";
    made_over(t, in, y, 0);
}

static void try_sums(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    (void)c;
    for (int64_t i = 0; i < tensor_elements(y); i++) {
        float a, b, both;
        uint32_t m, n, sum;
        memcpy(&a, in[0].data + 4 * i, 4), memcpy(&b, in[1].data + 4 * i, 4), memcpy(&both, y->data + 4 * i, 4);
        memcpy(&m, in[0].data + 4 * i, 4), memcpy(&n, in[1].data + 4 * i, 4), memcpy(&sum, y->data + 4 * i, 4);
        if (y->dtype == BS_F32 ? both != a + b : (uint64_t)sum != (((uint64_t)m + n) & UINT32_MAX))
            t->why = "it is not the sum";
    }
}

/* A rectangle by itself has the bits that it has in the whole image: of lines a band of whole ones. */
static void try_images(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    (void)c;
    for (int32_t i = 0; i < 4 && !t->why; i++) {
        const int32_t h = y->dim[1], w = y->dim[2], y0 = check_below(h), x0 = check_below(w);
        const bool lines = t->r.op->memory.lines;
        const bs_rect part = {y0, y0 + 1 + check_below(h - y0), lines ? 0 : x0,
                              lines ? w : x0 + 1 + check_below(w - x0)};
        const tensor got = go(t, in, NONE, &part);
        const int32_t high = part.y1 - y0, wide = part.x1 - part.x0;
        for (int32_t k = 0; k < high * wide * y->dim[0]; k++)
            if (!same_at(&got, k, y, ((int64_t)(k / wide / high) * h + y0 + k / wide % high) * w + part.x0 + k % wide))
                t->why = "a part has other bits than the whole";
    }
}

/* -------------------------------------------------------------------------------------------------- root values */

/* The rows that a captured operand stands for. */
static tensor repeated(const tensor *x)
{
    tensor all = tensor_new(x->dtype, ROWS, x->rank, x->dim);
    const size_t bytes = (size_t)tensor_elements(x) * bs_dtype_bytes(x->dtype);
    for (size_t row = 0; row < ROWS; row++)
        memcpy(all.data + row * bytes, x->data, bytes);
    return all;
}

/* An image of the root has no part for each cell. */
static const char *try_beside_cells(const claim *c, int32_t captured)
{
    bs_graph *g = new_graph();
    bs_value x[3] = {{0}, {0}, {0}}, like = {0};
    for (int32_t i = 0; i < 3 && c->in[i].rank == 3; i++) {
        x[i] = operand_of(g, &c->in[i], i, true, like);
        if (i == captured)
            continue;
        x[i] = bs_patches(g, x[i], &(bs_patches_desc){.size = 4, .like = like});
        like = like.id ? like : x[i];
    }
    if (bs_graph_check(g, NULL) != BS_OK)
        return "no cells";
    c->build(g, x);
    return bs_graph_check(g, NULL) == BS_ERROR_DOMAIN ? NULL : "it takes an image of the root beside cells";
}

/* Operand k of the node is a root value, or the same in each row. */
static const char *try_captured(const claim *c, bs_tier tier, int32_t layout, int32_t k)
{
    trial *t = &world;
    tensor in[3] = {{0}, {0}, {0}};
    if (!begin(t, c, tier, layout, ROWS, NONE))
        return "no graph";
    const int32_t captured = t->of[k], n_in = t->r.node->n_in;
    for (int32_t i = 0; i < n_in; i++)
        in[i] = operand_random(t, c, i);
    in[captured].rows = 1;
    const tensor one = in[captured];
    in[captured] = repeated(&one);
    const tensor expected = go(t, in, NONE, NULL);
    if (t->status != BS_OK || t->why || !begin(t, c, tier, layout, ROWS, captured))
        return t->why ? t->why : "rows do not run";
    in[captured] = one;
    const int32_t domain = bs_value_get(t->r.graph, t->r.node->first_out)->domain;
    const tensor got = go(t, in, NONE, NULL);
    if (t->status != BS_OK || t->why)
        return t->why ? t->why : "with a root value it does not run";
    if (domain == 0)
        return "with a root value the result is of the root";
    if (!same_tensors(&got, &expected))
        return "a root value differs from rows that are alike";
    return c->in[0].rank == 3 ? try_beside_cells(c, captured) : NULL;
}

/* ----------------------------------------------------------------------------------------------- what is refused */

/* Numbers that nothing is prepared for. */
static void make_hostile(tensor *t)
{
    static const float floats[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0x1p-149f, -0.0f, 0, 1, -1, 0x1p31f};
    static const int32_t integers[] = {INT32_MIN, INT32_MAX, -1, 0, 1, 1 << 24};
    tensor_randomise(t);
    for (int64_t i = 0; i < tensor_elements(t); i++)
        if (t->dtype == BS_F32)
            memcpy(t->data + 4 * i, &floats[check_below(sizeof floats / sizeof *floats)], 4);
        else if (t->dtype == BS_I32)
            memcpy(t->data + 4 * i, &integers[check_below(sizeof integers / sizeof *integers)], 4);
}

static const char *try_hostile(trial *t, const claim *c)
{
    bool refused = false;
    tensor in[3] = {{0}, {0}, {0}};
    for (int32_t i = 0; i < 20; i++) {
        const size_t mark = pool_used;
        for (int32_t k = 0; k < t->r.node->n_in; k++) {
            in[k] = tensor_new(c->in[k].dtype, 1, c->in[k].rank, c->in[k].dim);
            make_hostile(&in[k]);
        }
        go(t, in, NONE, NULL);
        refused = refused || t->status != BS_OK;
        pool_used = mark;
    }
    return refused == t->r.op->rows.refuses ? NULL
           : refused                        ? "it refuses data and does not say so"
                                            : "it says that it may refuse data, and takes all";
}

/* ------------------------------------------------------------------------------------------------ larger images */

/* A result r times as large has each element of its operand once, as bs_call.phases says. */
static void try_larger(trial *t, const claim *c, const tensor *in, const tensor *y)
{
    const int32_t r = bs_node_enlarges(t->r.node), *dim = in[0].dim;
    (void)c;
    if (y->dtype != BS_F32 || y->dim[0] * r * r != dim[0] || y->dim[1] != dim[1] * r || y->dim[2] != dim[2] * r) {
        t->why = "the result is not r times as large";
        return;
    }
    for (int32_t i = 0; i < dim[0] * dim[1] * dim[2]; i++) {
        const int32_t plane = i / dim[2] / dim[1], phase = plane % (r * r), at_y = i / dim[2] % dim[1] * r + phase / r;
        const int32_t at_x = i % dim[2] * r + phase % r;
        if (!same_at(&in[0], i, y, ((int64_t)(plane / r / r) * y->dim[1] + at_y) * y->dim[2] + at_x))
            t->why = "a phase lies elsewhere";
    }
}

/* ---------------------------------------------------------------------------------------------- operands left out */

/* With as few operands as it may have, it runs, or is refused when it is built. */
static const char *try_fewest(trial *t, const claim *c)
{
    bs_graph *g = t->r.graph;
    const bs_op *op = t->r.op;
    int32_t in[3];
    tensor operands[3] = {{0}, {0}, {0}};
    memcpy(in, bs_node_in(g, t->r.node), (size_t)t->r.node->n_in * sizeof *in);
    for (int32_t i = 0; i < t->r.node->n_in; i++)
        operands[i] = operand_random(t, c, i);
    const void *params = t->r.node->params;
    if (!bs_op_build_node(g, op, in, op->min_in, params))
        return NULL;
    t->r.node = &g->nodes[g->n_nodes - 1];
    op_prepare(&t->r, 64, 64);
    go(t, operands, NONE, NULL);
    return t->why ? t->why : t->status == BS_OK ? NULL : "it does not run with the fewest operands";
}

/* ---------------------------------------------------------------------------------------------------- six axes */

/* A result that is dense of an operand whose axes lie apart, as of one that is dense. */
static const char *try_axes(const claim *c, bs_tier tier)
{
    static const int32_t dim[BS_MAX_AXES] = {2, 3, 1, 5, 1, 2};
    enum { ELEMENTS_OF_ALL = 60, ROOM = 4096 };
    trial *t = &world;
    bs_graph *g = new_graph();
    const bs_value x = bs_reshape(g, bs_input(g, "x", BS_F32, BS_SHAPE2(30, 2)),
                                  (bs_shape){BS_MAX_AXES, {2, 3, 1, 5, 1, 2}});
    c->build(g, (const bs_value[]){x, x, x});
    if (g->status != BS_OK)
        return "it refuses six axes";
    t->r = op_run_of(g, tier);
    op_random_weights(&t->r);
    op_prepare(&t->r, 64, 64);
    const bs_value_info *v = bs_value_get(g, t->r.node->first_out);
    if (v->dtype != BS_F32)
        return NULL;
    float *at[2] = {pool_take(4 * ROOM), pool_take(4 * ROOM)}, *y[2] = {pool_take(4 * ROOM), pool_take(4 * ROOM)};
    for (int32_t apart = 0; apart < 2; apart++) {
        bs_operand in = {.data = at[apart], .dtype = BS_F32, .rank = BS_MAX_AXES},
                   out = {.data = y[apart], .dtype = v->dtype, .rank = v->rank};
        for (int32_t d = BS_MAX_AXES - 1, step = 1; d >= 0; step = (step + apart) * dim[d--])
            in.dim[d] = dim[d], in.stride[d] = step;
        for (int32_t d = v->rank - 1, step = 1; d >= 0; step *= out.dim[d--])
            out.dim[d] = (int32_t)bs_dim_max(g, v->dims[d]), out.stride[d] = step;
        memset(at[apart], 0xff, 4 * ROOM);
        memset(y[apart], 0xff, 4 * ROOM);
        for (int32_t i = 0; i < ELEMENTS_OF_ALL; i++) {
            ptrdiff_t to = 0;
            for (int32_t d = BS_MAX_AXES - 1, rest = i; d >= 0; rest /= dim[d--])
                to += rest % dim[d] * in.stride[d];
            at[apart][to] = (float)(i + 1);
        }
        for (int32_t k = 0; k < t->r.node->n_in; k++)
            t->r.in[k] = in;
        t->r.out[0] = out;
        if (t->r.op->run(op_call(&t->r)) != BS_OK)
            return "it does not run on six axes";
    }
    int64_t n = 1;
    for (int32_t d = 0; d < v->rank; d++)
        n *= bs_dim_max(g, v->dims[d]);
    for (int64_t i = 0; i < ROOM; i++)
        if (memcmp(&y[0][i], &y[1][i], 4) != 0 || (i < n) == (y[0][i] != y[0][i]))
            return "of six axes it makes something else when they lie apart";
    return NULL;
}

/* --------------------------------------------------------------------------------------------------------- all */

enum {
    ELEMENTS = 1,
    LINES = 2,
    UPDATES = 4,
    SUMS = 8,
    IMAGES = 16,
    CAPTURES = 32,
    CAPTURES_FIRST = 64,
    LARGER = 128,
    AXES = 256,
    CALLED = 512 /* what each op is */
};

static uint32_t says(const bs_op *op)
{
    return CALLED | (op->memory.elements ? ELEMENTS : 0u) | (op->memory.lines ? LINES : 0u) |
           (op->memory.updates ? UPDATES : 0u) | (op->memory.sums ? SUMS : 0u) | (op->rows.captures ? CAPTURES : 0u) |
           (op->rows.captures_first ? CAPTURES_FIRST : 0u) | (op->layout.images ? IMAGES : 0u) |
           (op->rules && op->rules->enlarges ? LARGER : 0u) |
           (op->layout.axes ? AXES : 0u);
}

/* What the case shows of what the op says. */
static uint32_t shown[256];

static const char *try_all(const claim *c, bs_tier tier, int32_t layout)
{
    static const struct {
        uint32_t what;
        void (*try)(trial *, const claim *, const tensor *, const tensor *);
    } ways[] = {{ELEMENTS, try_elements}, {LINES, try_lines}, {UPDATES, try_updates}, {SUMS, try_sums},
                {IMAGES, try_images}, {LARGER, try_larger}};
    trial *t = &world;
    tensor in[3] = {{0}, {0}, {0}};
    if (!begin(t, c, tier, layout, 0, NONE))
        exit(check_end());
    if (!takes_layout(t->r.op, tier, layout))
        return NULL;
    const bs_op *op = t->r.op;
    const int32_t number = t->r.node->op, n_in = t->r.node->n_in;
    uint32_t what = says(op);
    for (int32_t i = 0; i < n_in; i++)
        in[i] = operand_random(t, c, i);
    const tensor y = go(t, in, NONE, NULL);
    if (t->status != BS_OK || t->why || t->r.node->n_out != 1 + op->more_out)
        return t->why ? t->why : t->status != BS_OK ? "it does not run" : "it has another number of results";
    what &= in[0].rank == 3 ? UINT32_MAX : ~(uint32_t)IMAGES;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !t->why; i++)
        if (what & ways[i].what && (ways[i].what != IMAGES || y.rank == 3))
            ways[i].try(t, c, in, &y);
    const bool unmarked = !t->r.node->makes; /* what makes an extent may refuse, too */
    const char *why = t->why ? t->why : unmarked ? try_hostile(t, c) : NULL;
    if (!why && op->layout.axes)
        why = try_axes(c, tier);
    for (int32_t k = op->rows.captures_first ? 0 : 1; k < n_in && op->rows.captures && !why; k++)
        why = try_captured(c, tier, layout, k);
    if (!why && op->min_in < n_in && begin(t, c, tier, layout, 0, NONE))
        why = try_fewest(t, c);
    shown[number] |= what;
    return why;
}

static void test_claim(const claim *c)
{
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const char *why = NULL;
        for (int32_t layout = 0; layout < LAYOUTS && !why; layout++) {
            const size_t mark = pool_used;
            why = try_all(c, tier, layout);
            pool_used = mark;
        }
        check(!why, "case %d, %s, %s%s%s", (int)(c - claims), world.r.op->name, bs_tier_name(tier), why ? ": " : "",
              why ? why : "");
    }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (size_t i = 0; i < CLAIMS; i++)
        test_claim(&claims[i]);
    for (int32_t i = 0; i < bs_op_count(); i++) {
        const bs_op *op = bs_op_get(i);
        const bool asked = bs_op_is_by_row(op) && op->work == BS_WORK_CALL;
        check(!asked || shown[i] == says(op), "%s: cases show all that it says of itself (%x of %x)", op->name,
              (unsigned)shown[i], (unsigned)says(op));
    }
    return check_end();
}
