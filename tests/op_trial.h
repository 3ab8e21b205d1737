/* op_trial.h - one node on random operands, run again and again: over an operand, in part, with root values. Relies on
 * op_builders.h. */
#ifndef BS_TEST_OP_TRIAL_H
#define BS_TEST_OP_TRIAL_H

#include "op_builders.h"

/* ------------------------------------------------------------------------------------------------------- a node */

typedef struct given {
    bs_dtype dtype;
    int32_t below; /* > 0: integers from 0 on; -1: that alone; 0: any of the type */
    int32_t rank, dim[BS_MAX_RANK];
} given;

typedef struct claim {
    builder build;
    given in[3];
} claim;

#define F(rank, ...)         {BS_F32, 0, rank, {__VA_ARGS__}}
#define I(below, rank, ...)  {BS_I32, below, rank, {__VA_ARGS__}}
#define OF(type, rank, ...)  {BS_##type, 0, rank, {__VA_ARGS__}}

enum { ROWS = 3, NONE = -1 };

/* The node of a case, prepared. Operand k of it is of[k] of the case. */
typedef struct trial {
    op_run r;
    int32_t of[3], layout, rows, captured; /* rows: 0, all operands are of the root; captured: one of them, or NONE */
    bs_status status;
    const char *why;
} trial;

static inline bs_value operand_of(bs_graph *g, const given *in, int32_t i, bool root, bs_value like)
{
    static const char *const names[] = {"x0", "x1", "x2"};
    bs_shape shape = {in->rank + !root, {0}};
    shape.dim[0] = ROWS;
    for (int32_t d = 0; d < in->rank; d++)
        shape.dim[d + !root] = in->dim[d];
    const bs_value x = bs_input(g, names[i], in->dtype, shape);
    return root ? x : bs_rows(g, x, like);
}

/* The node is the same each time; so are its weights. */
static inline bool begin(trial *t, const claim *c, bs_tier tier, int32_t layout, int32_t rows, int32_t captured)
{
    bs_graph *g = new_graph();
    bs_value x[3] = {{0}, {0}, {0}}, like = {0};
    const uint64_t random = check_state;
    for (int32_t i = 0; i < 3 && c->in[i].rank; i++) {
        const bool root = rows == 0 || i == captured;
        x[i] = operand_of(g, &c->in[i], i, root, like);
        like = root ? like : x[i];
    }
    c->build(g, x);
    memset(t, 0, sizeof *t);
    t->layout = layout;
    t->rows = rows;
    t->captured = captured;
    if (g->status != BS_OK)
        return check(0, "a sound graph: %s", g->error.message);
    t->r = op_run_of(g, tier);
    for (int32_t k = 0; k < t->r.node->n_in; k++)
        for (int32_t i = 0; i < 3; i++)
            t->of[k] = bs_node_in(g, t->r.node)[k] == x[i].id ? i : t->of[k];
    check_state = 7;
    op_random_weights(&t->r);
    check_state = random;
    t->r.choice = BS_CONV_FORCE_DIRECT;
    op_prepare(&t->r, 64, 64);
    return true;
}

static inline bool takes_layout(const bs_op *op, bs_tier tier, int32_t layout)
{
    return !op->layout.channels_last || tier == BS_TIER_SCALAR || layout == LAYOUT_LAST || layout == LAYOUT_LAST_PADDED;
}

static inline void fill(tensor *t, const given *in)
{
    tensor_randomise(t);
    for (int64_t i = 0; in->below && i < tensor_elements(t); i++)
        ((int32_t *)(void *)t->data)[i] = in->below > 0 ? check_below(in->below) : in->below;
}

static inline tensor operand_random(const trial *t, const claim *c, int32_t i)
{
    tensor x = tensor_new(c->in[i].dtype, t->rows == 0 || i == t->captured ? 1 : t->rows, c->in[i].rank, c->in[i].dim);
    fill(&x, &c->in[i]);
    return x;
}

/* The first result of the node: over operand `over` of it, or NONE; all of it, or `part` alone. */
static inline tensor go(trial *t, const tensor *in, int32_t over, const bs_rect *part)
{
    op_run *r = &t->r;
    storage at[3], out[BS_MAX_OUTPUTS];
    int64_t extent = 0;
    const int32_t rows = bs_max_i32(t->rows, 1);
    for (int32_t k = 0; k < r->node->n_in; k++) {
        const tensor *x = &in[t->of[k]];
        at[k] = storage_new(x->dtype, x->rows, x->rank, x->dim, whole_rect(x->rank, x->dim), op_zeros(r, k, 0),
                            t->layout);
        storage_fill(&at[k], x, 0, 0);
        r->in[k] = at[k].operand;
        if (t->of[k] == t->captured)
            r->in[k].row_stride = 0;
    }
    for (int32_t i = 0; i < r->node->n_out; i++) {
        out[i] = storage_of_output(r, i, rows, t->layout);
        if (over >= 0) {
            const bs_dtype dtype = out[i].operand.dtype;
            out[i] = at[over];
            out[i].operand.dtype = dtype;
        }
        if (part)
            out[i].operand.rect = *part;
        r->out[i] = out[i].operand;
    }
    r->call.rows = rows;
    r->call.extent = &extent;
    t->status = r->op->run(op_call(r));
    const tensor result = storage_drain(&out[0]);
    for (int32_t i = 1; i < r->node->n_out; i++)
        storage_drain(&out[i]);
    for (int32_t i = 0; i < r->node->n_out && t->status == BS_OK; i++)
        if (!storage_is_poison(&out[i]))
            t->why = "wrote beside its result";
    if (!op_guards_hold(r))
        t->why = "wrote beyond its scratch or its weights";
    return result;
}

/* ----------------------------------------------------------------------------------------------------- results */

/* The same bits, or NaN both. */
static inline bool same_at(const tensor *a, int64_t i, const tensor *b, int64_t k)
{
    const size_t bytes = bs_dtype_bytes(a->dtype);
    const uint8_t *x = a->data + (size_t)i * bytes, *y = b->data + (size_t)k * bytes;
    if (bytes != bs_dtype_bytes(b->dtype))
        return false;
    const bool nan = a->dtype == BS_F32 && isnan(bs_load_f32(a->data, BS_F32, i)) &&
                     isnan(bs_load_f32(b->data, BS_F32, k));
    return nan || memcmp(x, y, bytes) == 0;
}

static inline bool same_tensors(const tensor *a, const tensor *b)
{
    const int64_t n = tensor_elements(a);
    bool same = n == tensor_elements(b);
    for (int64_t i = 0; same && i < n; i++)
        same = same_at(a, i, b, i);
    return same;
}

static inline bool same_shape(const tensor *a, const tensor *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

#endif
