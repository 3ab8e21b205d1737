/* tags: asan aarch64 32-bit */
/* Promises: what the contract of an op says of its weights is so, at every tier: rows that come a few at a time are
 * prepared as all together are; two nodes whose weights are said to lie alike have the same bytes; and a product costs
 * what it multiplies.
 *
 * Usage: test_op_weights [seed] */
#include "op_trial.h"

BUILD(conv_apart, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "conv", .out = 7, .dilation = 2}))
BUILD(conv_stride_2, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "conv", .out = 7, .stride = 2}))
BUILD(conv_winograd, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "conv", .out = 16}))
BUILD(deconv_k3, bs_deconv2d(g, x[0], &(bs_deconv2d_desc){.name = "deconv", .out = 1, .kernel = 3, .stride = 1}))
BUILD(deconv_k3s2, bs_deconv2d(g, x[0], &(bs_deconv2d_desc){.name = "deconv", .out = 1, .kernel = 3, .stride = 2}))
BUILD(norm_of_much, bs_batch_norm(g, x[0], &(bs_norm_desc){.name = "norm", .epsilon = 0.5f}))

/* Two nodes that have the same weights. */
typedef struct twins { claim first; builder second; } twins;

static const twins pairs[] = {
    {{conv_plain, {F(3, 5, 9, 11)}}, conv_plain},
    {{conv_plain, {F(3, 5, 9, 11)}}, conv_apart},
    {{conv_plain, {F(3, 5, 9, 11)}}, conv_stride_2},
    {{conv_norm, {F(3, 4, 9, 11)}}, conv_norm},
    {{conv_depthwise, {F(3, 6, 9, 11)}}, conv_depthwise},
    {{conv_winograd, {F(3, 16, 20, 20)}}, conv_winograd},
    {{deconv_k4, {F(3, 5, 5, 7)}}, deconv_k4},
    {{deconv_k3, {F(3, 1, 5, 7)}}, deconv_k3s2},
    {{linear_rows, {F(2, 5, 7)}}, linear_rows},
    {{linear_prelu, {F(1, 21)}}, linear_prelu},
    {{lstm, {F(2, 3, 6), F(2, 3, 4), F(2, 3, 4)}}, lstm},
    {{gru, {F(2, 3, 6), F(2, 3, 4)}}, gru},
    {{batch_norm, {F(3, 20, 3, 7)}}, batch_norm},
    {{batch_norm, {F(3, 20, 3, 7)}}, norm_of_much},
    {{prelu, {F(3, 20, 3, 7)}}, prelu},
    {{layer_norm, {F(2, 5, 37)}}, layer_norm},
    {{rms_norm, {F(2, 5, 37)}}, rms_norm},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static trial world;

/* --------------------------------------------------------------------------------------------------- by rows */

/* Rows of the first tensor that come a few at a time, with nothing around them, give what all together do. */
static void try_by_rows(trial *t, const tensor *in, const tensor *y)
{
    enum { FEW = 3 };
    op_run *r = &t->r;
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    bs_node_weights(r->graph, r->node, specs);
    const int32_t rows = (int32_t)specs[0].dim[0];
    const size_t row = (size_t)bs_bytes_figure(bs_weight_elements(&specs[0])) / (size_t)rows * 4,
                 bytes = (size_t)bs_bytes_figure(r->plan.prepared_bytes);
    const void *tensors[BS_MAX_WEIGHTS];
    uint8_t *prepared = pool_take(bytes + OP_GUARD), *part = pool_take(FEW * row);
    memcpy(tensors, r->weights, sizeof tensors);
    memset(prepared, 0xff, bytes + OP_GUARD);
    tensors[0] = part;
    for (int32_t first = 0; first < rows; first += FEW) {
        const int32_t count = bs_min_i32(FEW, rows - first);
        memset(part, 0xff, FEW * row);
        memcpy(part, (const uint8_t *)r->weights[0] + (size_t)first * row, (size_t)count * row);
        r->op->rules->weights.prepare(r->graph, r->node, &r->plan, tensors, first, count, prepared);
    }
    r->call.prepared = prepared;
    const tensor now = go(t, in, NONE, NULL);
    if (!same_tensors(&now, y))
        t->why = "weights that are prepared by rows are others";
}

static void test_by_rows(const claim *c)
{
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const size_t mark = pool_used;
        tensor in[3];
        trial *t = &world;
        if (!begin(t, c, tier, LAYOUT_LAST, 0, NONE))
            return;
        if (!bs_op_prepares(t->r.op) || !t->r.op->rules->weights.by_rows)
            return;
        for (int32_t i = 0; i < t->r.node->n_in; i++)
            in[i] = operand_random(t, c, i);
        const tensor y = go(t, in, NONE, NULL);
        try_by_rows(t, in, &y);
        check(!t->why, "%s, %s: by rows%s%s", t->r.op->name, bs_tier_name(tier), t->why ? ": " : "",
              t->why ? t->why : "");
        pool_used = mark;
    }
}

/* -------------------------------------------------------------------------------------------------------- twins */

/* What pairs have shown: an op has weights; nodes of it that look alike, and prepare other bytes. */
static bool has_pair[256], has_others[256];

static void test_twins(const twins *p, bs_tier tier, bs_conv_choice choice)
{
    const size_t mark = pool_used;
    bs_graph *g = new_graph();
    bs_value x[3] = {{0}, {0}, {0}};
    op_run r[2];
    for (int32_t i = 0; i < 3 && p->first.in[i].rank; i++)
        x[i] = operand_of(g, &p->first.in[i], i, true, (bs_value){0});
    p->first.build(g, x);
    r[0] = op_run_of(g, tier);
    p->second(g, x);
    r[1] = op_run_of(g, tier);
    check(g->status == BS_OK, "a sound graph %s", g->error.message);
    op_random_weights(&r[0]);
    for (int32_t i = 0; i < 2; i++) {
        memcpy(r[i].weights, r[0].weights, sizeof r[0].weights);
        r[i].choice = choice;
        op_prepare(&r[i], 64, 64);
    }
    const bs_weights_contract *w = bs_op_weights_of(r[0].op);
    const size_t bytes = (size_t)bs_bytes_figure(r[0].plan.prepared_bytes);
    const bool alike = r[0].plan.algorithm == r[1].plan.algorithm &&
                       bs_bytes_same(r[0].plan.prepared_bytes, r[1].plan.prepared_bytes),
               said = !w->same_layout || w->same_layout(g, r[0].node, r[1].node),
               same = alike && memcmp(r[0].call.prepared, r[1].call.prepared, bytes) == 0;
    has_pair[r[0].node->op] = true;
    has_others[r[0].node->op] |= alike && !same;
    check(!(alike && said) || same, "%s, %s: pair %d has the same weights in the same bytes", r[0].op->name,
          bs_tier_name(tier), (int)(p - pairs));
    pool_used = mark;
}

/* --------------------------------------------------------------------------------------------------------- cost */

static void test_cost(const claim *c)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    bs_node_facts facts;
    if (!begin(&world, c, BS_TIER_SCALAR, LAYOUT_LAST, 0, NONE))
        return;
    const bs_graph *g = world.r.graph;
    bs_node_weights(g, world.r.node, specs);
    bs_graph_node_get(g, g->n_nodes - 1, &facts);
    const double least = 2 * (double)bs_bytes_figure(bs_weight_elements(&specs[0]));
    check(specs[0].rank < 2 || facts.flops >= least, "%s: %g operations with %g weights", world.r.op->name, facts.flops,
          least / 2);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (size_t i = 0; i < PAIRS; i++) {
        test_by_rows(&pairs[i].first);
        test_cost(&pairs[i].first);
        for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
            test_twins(&pairs[i], tier, BS_CONV_AUTO);
            test_twins(&pairs[i], tier, BS_CONV_FORCE_DIRECT);
        }
    }
    int32_t others = 0;
    for (int32_t i = 0; i < bs_op_count(); i++) {
        const bs_op *op = bs_op_get(i);
        const bool asked = bs_op_weights_of(op) && op->work == BS_WORK_CALL;
        check(!asked || has_pair[i], "%s: there is a pair for its weights", op->name);
        others += has_others[i];
    }
    check(others >= 1, "%d ops have pairs that look alike and are not", others);
    return check_end();
}
