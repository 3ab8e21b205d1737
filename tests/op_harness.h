/* op_harness.h - runs one node of a graph on storage of any layout, without planner or session.
 * Storage is poisoned (NaN, 255, -1) wherever a kernel has no business: beyond the halo that the op asked for, between
 * padded rows, around the rectangle of an output. */
#ifndef BS_TEST_OP_HARNESS_H
#define BS_TEST_OP_HARNESS_H

#include "check.h"
#include "ops/table.h"
#include "ops/structure.h"
#include "ops/weights.h"
#include "plan/plan.h"

#include <stdalign.h>

/* ------------------------------------------------------------------------------------------------------ memory */

static alignas(64) uint8_t pool_memory[48 << 20];
static size_t pool_used;

static void *pool_take(size_t bytes)
{
    const size_t at = pool_used;
    pool_used += (bytes + 127) / 64 * 64;
    if (pool_used > sizeof pool_memory) {
        printf("FAIL the test's pool of %zu bytes is full\n", sizeof pool_memory);
        exit(1);
    }
    return pool_memory + at;
}

static bs_graph *new_graph(void)
{
    static alignas(64) uint8_t memory[1 << 20];
    bs_arena arena;
    bs_arena_init(&arena, "test", memory, sizeof memory);
    return bs_graph_create(&arena, NULL);
}

/* ----------------------------------------------------------------------------------------------------- tensors */

/* Dense, row-major, rows first. */
typedef struct tensor {
    bs_dtype dtype;
    int32_t rows, rank, dim[BS_MAX_RANK];
    uint8_t *data;
} tensor;

static int64_t tensor_elements(const tensor *t)
{
    int64_t n = t->rows;
    for (int32_t d = 0; d < t->rank; d++)
        n *= t->dim[d];
    return n;
}

static tensor tensor_new(bs_dtype dtype, int32_t rows, int32_t rank, const int32_t *dim)
{
    tensor t = {dtype, rows, rank, {0}, NULL};
    for (int32_t d = 0; d < rank; d++)
        t.dim[d] = dim[d];
    t.data = pool_take((size_t)tensor_elements(&t) * bs_dtype_bytes(dtype));
    return t;
}

static inline void tensor_randomise(tensor *t)
{
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++) {
        const float f = check_float();
        const uint32_t code = check_random();
        if (t->dtype == BS_F32)
            memcpy(t->data + 4 * i, &f, 4);
        else
            memcpy(t->data + (int64_t)bs_dtype_bytes(t->dtype) * i, &code, bs_dtype_bytes(t->dtype));
    }
}

static int64_t tensor_at(const tensor *t, int32_t row, const int32_t *index)
{
    int64_t at = row;
    for (int32_t d = 0; d < t->rank; d++)
        at = at * t->dim[d] + index[d];
    return at;
}

/* Largest |a - b| / (1 + |b|); infinite where NaN meets a number or shapes differ. */
static inline double tensor_distance(const tensor *a, const tensor *b)
{
    double worst = 0;
    if (a->dtype != b->dtype || a->rows != b->rows || a->rank != b->rank || tensor_elements(a) != tensor_elements(b))
        return INFINITY;
    for (int64_t i = 0; i < tensor_elements(b); i++) {
        const bool whole = a->dtype == BS_I32;
        const double x = whole ? ((const int32_t *)(const void *)a->data)[i]
                               : (double)bs_load_f32(a->data, a->dtype, i);
        const double y = whole ? ((const int32_t *)(const void *)b->data)[i]
                               : (double)bs_load_f32(b->data, b->dtype, i);
        const double error = x == y ? 0 : fabs(x - y) / (1 + fabs(y));
        if (!(error <= worst))
            worst = error == error ? error : INFINITY;
    }
    return worst;
}

/* ----------------------------------------------------------------------------------------------------- storage */

enum { LAYOUT_PLANAR, LAYOUT_LAST, LAYOUT_LAST_PADDED, LAYOUT_PLANAR_PADDED, LAYOUTS };

typedef struct storage {
    bs_operand operand;
    int32_t rows;
    uint8_t *base;
    size_t bytes;
} storage;

/* Coordinates of a box, row-major. */
typedef struct walk { int32_t rank, low[BS_MAX_RANK], high[BS_MAX_RANK], at[BS_MAX_RANK]; bool more; } walk;

static walk walk_box(const bs_operand *o, bs_rect rect)
{
    walk w = {o->rank, {0}, {0}, {0}, true};
    for (int32_t d = 0; d < o->rank; d++)
        w.high[d] = o->dim[d];
    if (o->rank == 3) {
        w.low[1] = rect.y0, w.high[1] = rect.y1;
        w.low[2] = rect.x0, w.high[2] = rect.x1;
    }
    for (int32_t d = 0; d < o->rank; d++) {
        w.at[d] = w.low[d];
        w.more = w.more && w.low[d] < w.high[d];
    }
    return w;
}

static void walk_next(walk *w)
{
    for (int32_t d = w->rank - 1; d >= 0; d--) {
        if (++w->at[d] < w->high[d])
            return;
        w->at[d] = w->low[d];
    }
    w->more = false;
}

static uint8_t *storage_at(const storage *s, int32_t row, const int32_t *index)
{
    ptrdiff_t at = row * s->operand.row_stride;
    for (int32_t d = 0; d < s->operand.rank; d++)
        at += index[d] * s->operand.stride[d];
    return (uint8_t *)s->operand.data + at * (ptrdiff_t)bs_dtype_bytes(s->operand.dtype);
}

/* Strides of a region of `extent`; returns its elements. */
static ptrdiff_t layout_strides(bs_operand *o, const int32_t *extent, int32_t layout)
{
    const ptrdiff_t pixel = layout == LAYOUT_LAST_PADDED ? 3 : 0, line = layout >= LAYOUT_LAST_PADDED ? 5 : 0;
    if (o->rank == 3 && (layout == LAYOUT_LAST || layout == LAYOUT_LAST_PADDED)) {
        o->stride[0] = 1;
        o->stride[2] = extent[0] + pixel;
        o->stride[1] = extent[2] * o->stride[2] + line;
        return extent[1] * o->stride[1];
    }
    ptrdiff_t step = o->rank != 3 && layout == LAYOUT_PLANAR_PADDED ? 2 : 1;
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        o->stride[d] = step;
        step = step * extent[d] + line;
    }
    return step;
}

/* rect: what is present of a rank-3 operand; `reach`: zeros around it. The rest is poison. */
static storage storage_new(bs_dtype dtype, int32_t rows, int32_t rank, const int32_t *dim, bs_rect rect, int32_t reach,
                           int32_t layout)
{
    storage s;
    int32_t extent[BS_MAX_RANK] = {1, 1, 1, 1};
    memset(&s, 0, sizeof s);
    s.rows = rows;
    s.operand.dtype = dtype;
    s.operand.rank = (int16_t)rank;
    s.operand.image = rank == 3;
    for (int32_t d = 0; d < rank; d++)
        extent[d] = s.operand.dim[d] = dim[d];
    const int32_t border = reach + 2;
    if (rank == 3) {
        s.operand.rect = rect;
        extent[1] = rect.y1 - rect.y0 + 2 * border;
        extent[2] = rect.x1 - rect.x0 + 2 * border;
    }
    s.operand.row_stride = layout_strides(&s.operand, extent, layout) + (layout >= LAYOUT_LAST_PADDED ? 7 : 0);
    s.bytes = (size_t)(s.operand.row_stride * rows) * bs_dtype_bytes(dtype);
    s.base = pool_take(s.bytes);
    memset(s.base, 0xff, s.bytes);
    const ptrdiff_t origin = rank == 3
                                 ? (border - rect.y0) * s.operand.stride[1] + (border - rect.x0) * s.operand.stride[2]
                                 : 0;
    s.operand.data = s.base + origin * (ptrdiff_t)bs_dtype_bytes(dtype);
    s.operand.frame_h = rank == 3 ? dim[1] : 0;
    s.operand.frame_w = rank == 3 ? dim[2] : 0;
    const bs_rect zeros = {rect.y0 - reach, rect.y1 + reach, rect.x0 - reach, rect.x1 + reach};
    for (int32_t row = 0; row < rows; row++)
        for (walk w = walk_box(&s.operand, zeros); w.more; walk_next(&w))
            memset(storage_at(&s, row, w.at), 0, bs_dtype_bytes(dtype));
    return s;
}

/* All of a value that is not cut. */
static bs_rect whole_rect(int32_t rank, const int32_t *dim)
{
    const bs_rect rect = {0, rank == 3 ? dim[1] : 0, 0, rank == 3 ? dim[2] : 0};
    return rect;
}

/* What `rect` covers, from a tensor in which the core's origin is at (y, x). */
static void storage_fill(storage *s, const tensor *t, int32_t y, int32_t x)
{
    const size_t bytes = bs_dtype_bytes(t->dtype);
    for (int32_t row = 0; row < s->rows; row++)
        for (walk w = walk_box(&s->operand, s->operand.rect); w.more; walk_next(&w)) {
            int32_t index[BS_MAX_RANK] = {w.at[0], w.at[1], w.at[2], w.at[3]};
            if (t->rank == 3)
                index[1] += y, index[2] += x;
            memcpy(storage_at(s, row, w.at), t->data + tensor_at(t, row, index) * (int64_t)bytes, bytes);
        }
}

/* Reads `rect` as a tensor and poisons it again. */
static tensor storage_drain(storage *s)
{
    const bs_operand *o = &s->operand;
    int32_t dim[BS_MAX_RANK] = {o->dim[0], o->dim[1], o->dim[2], o->dim[3]};
    const size_t bytes = bs_dtype_bytes(o->dtype);
    if (o->rank == 3) {
        dim[1] = bs_max_i32(0, o->rect.y1 - o->rect.y0);
        dim[2] = bs_max_i32(0, o->rect.x1 - o->rect.x0);
    }
    tensor t = tensor_new(o->dtype, s->rows, o->rank, dim);
    uint8_t *to = t.data;
    for (int32_t row = 0; row < s->rows; row++)
        for (walk w = walk_box(o, o->rect); w.more; walk_next(&w), to += bytes) {
            memcpy(to, storage_at(s, row, w.at), bytes);
            memset(storage_at(s, row, w.at), 0xff, bytes);
        }
    return t;
}

/* After draining: the kernel wrote nothing else. */
static bool storage_is_poison(const storage *s)
{
    for (size_t i = 0; i < s->bytes; i++)
        if (s->base[i] != 0xff)
            return false;
    return true;
}

/* -------------------------------------------------------------------------------------------------------- runs */

typedef struct op_run {
    bs_graph *graph;
    const bs_node *node;
    const bs_op *op;
    bs_tier tier;
    bs_conv_choice choice;
    const void *weights[BS_MAX_WEIGHTS];
    bs_node_plan plan;
    bs_call call;
    bs_operand in[BS_MAX_OPERANDS], out[BS_MAX_OUTPUTS]; /* of the call */
} op_run;

/* Runs are copied, so a call learns where its operands are when it is made. */
static inline bs_call *op_call(op_run *r)
{
    r->call.in = r->in;
    r->call.out = r->out;
    return &r->call;
}

static int32_t op_halo(const op_run *r, int32_t index, int32_t margin)
{
    return bs_op_has_halo(r->op) ? r->op->rules->halo(r->graph, r->node, index, margin) : margin;
}

/* How far there are zeros around an operand: as far as the op looks, unless it finds edges itself. */
static inline int32_t op_zeros(const op_run *r, int32_t index, int32_t margin)
{
    return r->op->layout.edges ? 0 : op_halo(r, index, margin);
}

static inline void op_random_weights(op_run *r)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t n = bs_node_weights(r->graph, r->node, specs);
    for (int32_t i = 0; i < n; i++) {
        const uint64_t elements = bs_bytes_figure(bs_weight_elements(&specs[i]));
        float *w = pool_take(elements * 4);
        for (uint64_t k = 0; k < elements; k++)
            w[k] = strstr(specs[i].suffix, "var") ? check_float() * 0.4f + 0.6f : check_float();
        r->weights[i] = w;
    }
}

/* What lies behind prepared weights and scratch, and stays as it is. */
enum { OP_GUARD = 64 };

static inline bool op_guards_hold(const op_run *r)
{
    const uint8_t *prepared = (const uint8_t *)r->call.prepared + bs_bytes_figure(r->plan.prepared_bytes),
                  *scratch = (const uint8_t *)r->call.scratch + bs_bytes_figure(r->plan.scratch_bytes);
    bool hold = true;
    for (int32_t i = 0; i < OP_GUARD; i++)
        hold = hold && prepared[i] == 0xff && scratch[i] == 0xff;
    return hold;
}

/* Plans and prepares for the tier; poison where nothing was prepared. */
static void op_prepare(op_run *r, int32_t max_h, int32_t max_w)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t n = bs_node_weights(r->graph, r->node, specs);
    memset(&r->plan, 0, sizeof r->plan);
    memset(&r->call, 0, sizeof r->call);
    memset(r->in, 0, sizeof r->in);
    memset(r->out, 0, sizeof r->out);
    r->plan.tier = r->tier;
    r->plan.phases = r->plan.grain = 1;
    r->plan.images = 1;
    if (r->op->rules && r->op->rules->plan)
        r->op->rules->plan(r->graph, r->node, r->tier == BS_TIER_SCALAR ? BS_CONV_FORCE_REFERENCE : r->choice, max_h,
                           max_w, &r->plan);
    else
        r->plan.prepared_bytes = bs_weight_offset(specs, n);
    const size_t prepared_bytes = (size_t)bs_bytes_figure(r->plan.prepared_bytes),
                 scratch_bytes = (size_t)bs_bytes_figure(r->plan.scratch_bytes);
    uint8_t *prepared = pool_take(prepared_bytes + OP_GUARD), *scratch = pool_take(scratch_bytes + OP_GUARD);
    memset(prepared, 0xff, prepared_bytes + OP_GUARD);
    memset(scratch, 0xff, scratch_bytes + OP_GUARD);
    bs_weight_prepare(r->graph, r->node, &r->plan, r->weights, prepared);
    r->call.graph = r->graph;
    r->call.node = r->node;
    r->call.plan = &r->plan;
    r->call.params = r->node->params;
    r->call.n_in = r->node->n_in;
    r->call.n_out = r->node->n_out;
    r->call.rows = 1;
    r->call.prepared = prepared;
    r->call.scratch = scratch;
}

static op_run op_run_of(bs_graph *graph, bs_tier tier)
{
    op_run r;
    memset(&r, 0, sizeof r);
    r.graph = graph;
    r.node = &graph->nodes[graph->n_nodes - 1];
    r.op = bs_op_get(r.node->op);
    r.tier = tier;
    return r;
}

static storage storage_of_output(const op_run *r, int32_t index, int32_t rows, int32_t layout)
{
    const bs_value_info *v = bs_value_get(r->graph, r->node->first_out + index);
    int32_t dim[BS_MAX_RANK] = {0};
    for (int32_t d = 0; d < v->rank; d++)
        dim[d] = (int32_t)bs_dim_max(r->graph, v->dims[d]);
    storage s = storage_new(v->dtype, rows, v->rank, dim, whole_rect(v->rank, dim), 0, layout);
    memset(s.base, 0xff, s.bytes);
    return s;
}

/* A frame or a row as a whole; *why where that goes wrong. */
static inline tensor run_whole(op_run *r, const tensor *in, int32_t layout, const char **why)
{
    op_prepare(r, 64, 64);
    storage x = storage_new(in->dtype, 1, in->rank, in->dim, whole_rect(in->rank, in->dim), op_zeros(r, 0, 0), layout);
    storage y = storage_of_output(r, 0, 1, layout);
    storage_fill(&x, in, 0, 0);
    r->in[0] = x.operand;
    r->out[0] = y.operand;
    if (r->op->run(op_call(r)) != BS_OK)
        *why = "run failed";
    const tensor result = storage_drain(&y);
    if (!storage_is_poison(&y) || !op_guards_hold(r))
        *why = "wrote beside its output, or beyond its scratch";
    return result;
}

/* One op of a graph on storage of one layout, at its largest extents; in[i] may be changed before op_case_run. */
typedef struct op_case {
    op_run r;
    storage in[3], out[2];
} op_case;

static inline op_case op_case_new(bs_graph *g, bs_tier tier, int32_t layout)
{
    op_case c;
    memset(&c, 0, sizeof c);
    if (g->status != BS_OK)
        check(0, "a sound graph: %s", g->error.message);
    c.r = op_run_of(g, tier);
    op_random_weights(&c.r);
    op_prepare(&c.r, 32, 32);
    for (int32_t i = 0; i < c.r.node->n_in; i++) {
        const bs_value_info *v = bs_value_get(g, bs_node_in(g, c.r.node)[i]);
        int32_t dim[BS_MAX_RANK] = {0};
        for (int32_t d = 0; d < v->rank; d++)
            dim[d] = (int32_t)bs_dim_max(g, v->dims[d]);
        c.in[i] = storage_new(v->dtype, 1, v->rank, dim, whole_rect(v->rank, dim), op_zeros(&c.r, i, 0), layout);
        tensor t = tensor_new(v->dtype, 1, v->rank, dim);
        tensor_randomise(&t);
        storage_fill(&c.in[i], &t, 0, 0);
        c.r.in[i] = c.in[i].operand;
    }
    for (int32_t i = 0; i < c.r.node->n_out; i++) {
        c.out[i] = storage_of_output(&c.r, i, 1, layout);
        c.r.out[i] = c.out[i].operand;
    }
    return c;
}

static inline bs_status op_case_run(op_case *c)
{
    c->r.call.plan = &c->r.plan; /* not that of the copy it was made of */
    return c->r.plan.fusion ? bs_fusion_run(op_call(&c->r)) : c->r.op->run(op_call(&c->r));
}

/* In bands of rows, cut at multiples of 4 as the executor does. */
static inline bs_status run_in_bands(op_run *r)
{
    const bs_rect rect = r->out[0].rect;
    bs_status status = BS_OK;
    for (int32_t y = rect.y0; y < rect.y1 && status == BS_OK;) {
        const int32_t end = bs_min_i32(y + 4 * (1 + check_below(5)), rect.y1);
        r->out[0].rect.y0 = y;
        r->out[0].rect.y1 = y = end;
        status = r->op->run(op_call(r));
    }
    r->out[0].rect = rect;
    return status;
}

/* The next tier that this machine has, from `from` on; BS_TIER_AUTO at the end. */
static inline bs_tier next_tier(bs_tier from)
{
    static const bs_tier tiers[] = {BS_TIER_SCALAR, BS_TIER_AVX2, BS_TIER_AVX512, BS_TIER_NEON};
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (tiers[i] > from && bs_tier_available(tiers[i]))
            return tiers[i];
    return BS_TIER_AUTO;
}

#endif
