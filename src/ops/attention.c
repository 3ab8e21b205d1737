/* ops/attention.c - attention of the rows of a segment, to themselves behind a cache of earlier ones or to another's.
 * A task is some rows and the heads that share their keys. What is added to what depends on positions alone, wherever
 * keys lie, so that a sequence in one run or token by token gives the same bits.
 * Relies on ops/structure.h and kernels/attend.h. Must never trust a position: offsets, cache lengths and the bounds of
 * a bias come checked (run/segments.c), and the ring is addressed modulo its window. */
#include "kernels/attend.h"
#include "ops/common.h"
#include "ops/structure.h"

enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_CACHE_K, ATTENTION_CACHE_V, ATTENTION_CACHE_LENGTHS };

static int32_t attention_heads(const bs_attention_desc *desc) { return bs_or_default(desc->heads, 1); }
static int32_t attention_kv_heads(const bs_attention_desc *desc)
{
    return bs_or_default(desc->kv_heads, attention_heads(desc));
}
static bool attention_cached(int32_t n_in) { return n_in > ATTENTION_CACHE_LENGTHS; }
/* A mask or a bias is the last operand, behind the cache if there is one. */
static bool attention_masked(int32_t n_in) { return n_in % 3 == 1; }

/* ------------------------------------------------------------------------------------------------------- shape */

/* Keys and values share a domain; which it is. It is that of the queries, or for attention that is not causal another
 * one of as many segments. 0 after refusing. */
static int32_t attention_keys(bs_infer *infer, int32_t domain)
{
    const bs_attention_desc *desc = infer->params;
    const bs_graph *g = infer->graph;
    const int32_t keys = infer->in[ATTENTION_K]->domain;
    for (int32_t i = ATTENTION_Q; i <= ATTENTION_V; i++) {
        const int32_t expected = i == ATTENTION_V ? keys : domain, found = infer->in[i]->domain;
        if (!bs_infer_f32(infer, i, 1, 1))
            return 0;
        if (found == expected || (i == ATTENTION_K && desc->bidirectional && bs_segmented(g, found)))
            continue;
        bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %" PRId32 " is of %s, operand %" PRId32 " of %s", i,
                      bs_say_domain(infer, found), i - 1, bs_say_domain(infer, expected));
        return 0;
    }
    const bs_dim_id ours = bs_segment_dim(g, domain), theirs = bs_segment_dim(g, keys);
    if (ours == theirs || !bs_dim_is_const(g, ours) || !bs_dim_is_const(g, theirs))
        return keys;
    bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 1 has %s segments, operand 0 %s", bs_say_dim(infer, theirs),
                  bs_say_dim(infer, ours));
    return 0;
}

/* Checks heads, and that cells are a whole number of them. */
static bool attention_heads_fit(bs_infer *infer, int32_t domain)
{
    const bs_attention_desc *desc = infer->params;
    const int32_t heads = attention_heads(desc), kv_heads = attention_kv_heads(desc);
    int32_t d, each;
    if (!bs_infer_const(infer, 0, 0, "d", &d))
        return false;
    if (heads < 1 || d % heads != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "%" PRId32 " heads of cells [%" PRId32 "]: not a whole number of elements each", heads, d);
    if (kv_heads < 1 || heads % kv_heads != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                             "%" PRId32 " heads share %" PRId32 " kv_heads: not a whole number of them each", heads,
                             kv_heads);
    for (int32_t i = ATTENTION_K; i <= ATTENTION_V; i++)
        if (!bs_infer_const(infer, i, 0, "d", &each) || each != d / heads * kv_heads)
            return bs_infer_fail(infer, BS_ERROR_SHAPE,
                                 "operand %" PRId32 " is %s, expected %" PRId32 " heads of %" PRId32 " elements", i,
                                 bs_say_value(infer, infer->in[i]), kv_heads, d / heads);
    if (infer->graph->domains[domain].max_rows * heads > (int64_t)1 << 30)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "%" PRId32 " heads of up to %lld rows are more than 2^30 tasks",
                             heads, (long long)infer->graph->domains[domain].max_rows);
    return true;
}

/* Checks that both caches are [segments, window, d] with the same window. */
static bool attention_cache_fits(bs_infer *infer, int32_t keys)
{
    int32_t window;
    for (int32_t i = ATTENTION_CACHE_K; i <= ATTENTION_CACHE_V; i++) {
        const bs_value_info *cache = infer->in[i];
        if (!bs_infer_dtype(infer, i, BS_F32) || !bs_infer_root(infer, i))
            return false;
        if (cache->rank != 3 || cache->dims[0] != bs_segment_dim(infer->graph, keys) ||
            cache->dims[1] != infer->in[ATTENTION_CACHE_K]->dims[1] ||
            cache->dims[2] != infer->in[ATTENTION_K]->dims[0])
            return bs_infer_fail(
                infer, BS_ERROR_SHAPE,
                "operand %" PRId32
                " is %s, expected [segments, window, d] with the window of operand 3 and the d of operand 1",
                i, bs_say_value(infer, cache));
    }
    return bs_infer_const(infer, ATTENTION_CACHE_K, 1, "the window", &window) &&
           bs_infer_segment_input(infer, ATTENTION_CACHE_LENGTHS, keys, "cache_lengths");
}

/* A number for each key, or a bias for each pair of positions. */
static bool attention_mask_fits(bs_infer *infer, int32_t keys)
{
    const bs_graph *g = infer->graph;
    const int32_t index = infer->n_in - 1;
    const bs_value_info *m = infer->in[index];
    const int64_t first = m->rank > 0 && bs_dim_is_const(g, m->dims[0]) ? bs_dim_max(g, m->dims[0]) : 0;
    if (m->domain == keys && (m->dtype == BS_F32 || m->dtype == BS_I32) &&
        (m->rank == 0 || (m->rank == 1 && first == 1)))
        return !attention_cached(infer->n_in) ||
               bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "operand %" PRId32 " masks the keys of a run, but a cache has others", index);
    if (m->domain == 0 && m->dtype == BS_F32 && m->rank == 3 &&
        (first == 1 || first == attention_heads(infer->params)))
        return true;
    return bs_infer_fail(infer, BS_ERROR_SHAPE,
                         "operand %" PRId32
                         " is %s of %s, expected a mask, [] or [1] of each key, or a bias, a root value f32 [1 "
                         "or heads, positions, positions of keys]",
                         index, bs_say_typed(infer, m), bs_say_domain(infer, m->domain));
}

static bool attention_infer(bs_infer *infer)
{
    const int32_t domain = bs_infer_segments(infer, 0), keys = domain ? attention_keys(infer, domain) : 0;
    if (!keys || !attention_heads_fit(infer, domain))
        return false;
    if (infer->n_in == 5)
        return bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "%" PRId32 " operands: cache_k, cache_v and cache_lengths are given all three or none",
                             infer->n_in);
    return (!attention_cached(infer->n_in) || attention_cache_fits(infer, keys)) &&
           (!attention_masked(infer->n_in) || attention_mask_fits(infer, keys));
}

/* Most positions that rows of one call attend to together: all rows of the run, and those of the cache. */
static int64_t attention_most(const bs_graph *graph, const bs_node *node)
{
    const int32_t *in = bs_node_in(graph, node);
    const int64_t rows = graph->domains[graph->values[in[ATTENTION_K]].domain].max_rows;
    if (!attention_cached(node->n_in))
        return rows;
    const bool causal = !((const bs_attention_desc *)node->params)->bidirectional;
    return bs_dim_max(graph, graph->values[in[ATTENTION_CACHE_K]].dims[1]) +
           (causal ? bs_min_i64(rows, BS_CROSS_ROWS) : rows);
}

static double attention_flops(const bs_graph *graph, const bs_node *node)
{
    return 4.0 * (double)attention_most(graph, node) * bs_value_work(graph, node->first_out);
}

static void attention_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                           int32_t max_w, bs_node_plan *plan)
{
    const bs_attention_desc *desc = node->params;
    const int64_t d = bs_dim_max(graph, graph->values[node->first_out].dims[0]);
    (void)choice, (void)max_h, (void)max_w;
    plan->work_items = attention_kv_heads(desc);
    plan->scratch_bytes = bs_bytes_array(
        bs_attend_scratch_floats(plan->tier, attention_most(graph, node), d / attention_heads(desc)), sizeof(float));
}

/* ------------------------------------------------------------------------------------------------------ kernel */

/* Keys, or values (operand `kind`), of a segment, from row `first` and the head's first element on. */
static bs_attend_side attention_side(const bs_call *call, int32_t kind, int32_t segment, int32_t first, int32_t element)
{
    const bs_operand *fresh = &call->in[kind], *ring = &call->in[kind + ATTENTION_CACHE_K - ATTENTION_K];
    bs_attend_side side = {
        .fresh = bs_f32_at(fresh, first * fresh->row_stride + element * fresh->stride[0]),
        .fresh_row = fresh->row_stride,
        .fresh_step = fresh->stride[0]};
    if (attention_cached(call->n_in)) {
        side.ring = bs_f32_at(ring, segment * ring->stride[0] + element * ring->stride[2]);
        side.ring_row = ring->stride[1];
        side.ring_step = ring->stride[2];
    }
    return side;
}

static void attention_mask(const bs_call *call, int32_t first_key, bs_attend *a)
{
    const bs_operand *m = &call->in[call->n_in - 1];
    if (m->rank < 3) {
        a->mask = bs_operand_at(m, first_key * m->row_stride);
        a->mask_row = m->row_stride;
        a->mask_is_truth = m->dtype == BS_I32;
        return;
    }
    a->bias_head = m->dim[0] > 1 ? m->stride[0] : 0;
    a->bias = bs_f32_at(m, a->first_head * a->bias_head);
    a->bias_row = m->stride[1];
    a->bias_step = m->stride[2];
}

/* Rows of one segment, from `row` on. */
static void attention_rows(const bs_call *call, int32_t segment, int32_t row, int32_t rows)
{
    const bs_attention_desc *desc = call->params;
    const bs_operand *q = &call->in[ATTENTION_Q], *lengths = &call->in[ATTENTION_CACHE_LENGTHS], *out = &call->out[0];
    const int32_t heads = attention_heads(desc), shared = heads / call->plan->work_items, n = q->dim[0] / heads;
    const int32_t element = call->work_item * shared * n,
                  row_of_segment = row - bs_segment_first(&call->segments, segment);
    const bool cached = attention_cached(call->n_in);
    const int32_t first_key = bs_segment_first(&call->of_keys, segment),
                  keys = bs_segment_first(&call->of_keys, segment + 1) - first_key;
    bs_attend a = {.n = n,
                   .rows = rows,
                   .heads = shared,
                   .q = bs_f32_at(q, row * q->row_stride + element * q->stride[0]),
                   .q_row = q->row_stride,
                   .q_step = q->stride[0],
                   .out = bs_f32_at(out, (row - call->row) * out->row_stride + element * out->stride[0]),
                   .out_row = out->row_stride,
                   .out_step = out->stride[0],
                   .k = attention_side(call, ATTENTION_K, segment, first_key, call->work_item * n),
                   .v = attention_side(call, ATTENTION_V, segment, first_key, call->work_item * n),
                   .cache_length = cached ? ((const int32_t *)lengths->data)[segment * lengths->stride[0]] : 0,
                   .window = cached ? call->in[ATTENTION_CACHE_K].dim[1] : INT32_MAX,
                   .causal = !desc->bidirectional,
                   .scale = desc->scale != 0.0f ? desc->scale : 1.0f / sqrtf((float)n),
                   .first_head = call->work_item * shared,
                   .alibi_heads = desc->alibi ? heads : 0,
                   .scratch = call->scratch};
    a.position = row_of_segment + (call->segments.domain == call->of_keys.domain ? a.cache_length : 0);
    a.low = bs_max_i32(0, a.cache_length - a.window);
    a.end = a.cache_length + keys;
    if (attention_masked(call->n_in))
        attention_mask(call, first_key, &a);
    bs_attend_run(call->plan->tier, &a);
}

static bs_status attention_run(const bs_call *call)
{
    const int32_t end = call->row + call->rows;
    for (int32_t row = call->row, rows; row < end; row += rows) {
        const int32_t segment = bs_segment_at(&call->segments, row);
        rows = bs_min_i32(bs_segment_first(&call->segments, segment + 1), end) - row;
        attention_rows(call, segment, row, rows);
    }
    return BS_OK;
}

static const bs_field attention_fields[] = {BS_INT("heads"), BS_INT_OF("alibi", 0, 1), BS_INT("kv_heads"),
                                            BS_INT_OF("bidirectional", 0, 1), BS_FLOAT("scale")};

static const bs_op_rules attention_rules = {.plan = attention_plan};

const bs_op bs_op_attention = {.name = "attention",
                               .min_in = 3,
                               .max_in = 7,
                               .rows = {.of = BS_ROWS_SEGMENT},
                               .roles = {[1] = BS_ROLE_KEYS, [5] = BS_ROLE_CACHE_LENGTH},
                               BS_PARAMS(bs_attention_desc, attention_fields),
                               .infer = attention_infer,
                               .flops = attention_flops,
                               .rules = &attention_rules,
                               .run = attention_run};

bs_value bs_attention(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value cache_k, bs_value cache_v,
                      bs_value cache_lengths, const bs_attention_desc *desc)
{
    return bs_attention_masked(graph, q, k, v, cache_k, cache_v, cache_lengths, (bs_value){0}, desc);
}

bs_value bs_attention_masked(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value cache_k, bs_value cache_v,
                             bs_value cache_lengths, bs_value mask, const bs_attention_desc *desc)
{
    int32_t in[7] = {q.id, k.id, v.id, cache_k.id, cache_v.id, cache_lengths.id, 0};
    const int32_t n_in = cache_k.id || cache_v.id || cache_lengths.id ? 6 : 3;
    in[n_in] = mask.id;
    return bs_op_build(graph, &bs_op_attention, in, n_in + (mask.id != 0), desc);
}
