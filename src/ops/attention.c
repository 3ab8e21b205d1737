/* ops/attention.c - causal attention of the rows of a segment, behind a cache of earlier ones.
 * A task is one row and one head. Keys are visited from the oldest position to the row's own, wherever they lie, so
 * that a sequence in one run or token by token gives the same bits.
 * Relies on ops/structure.h. Must never trust a position: offsets and cache lengths come checked (run/segments.c), and
 * the ring is addressed modulo its window. One code for every tier. */
#include "ops/common.h"
#include "ops/structure.h"

enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_CACHE_K, ATTENTION_CACHE_V, ATTENTION_CACHE_LENGTHS };

/* ------------------------------------------------------------------------------------------------------- shape */

static bool attention_cells_agree(bs_infer *infer, int32_t domain)
{
    for (int32_t i = ATTENTION_Q; i <= ATTENTION_V; i++) {
        if (!bs_infer_dtype(infer, i, BS_F32) || !bs_infer_rank(infer, i, 1, 1))
            return false;
        if (infer->in[i]->domain != domain)
            return bs_infer_fail(infer, BS_ERROR_DOMAIN, "operand %d is of %s, operand 0 of %s", i,
                                 bs_say_domain(infer, infer->in[i]->domain), bs_say_domain(infer, domain));
        if (infer->in[i]->dims[0] != infer->in[0]->dims[0])
            return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand %d is %s, operand 0 %s", i,
                                 bs_say_value(infer, infer->in[i]), bs_say_value(infer, infer->in[0]));
    }
    return true;
}

/* Checks that both caches are [segments, window, d] with the same window. */
static bool attention_cache_fits(bs_infer *infer, int32_t domain)
{
    int32_t window;
    for (int32_t i = ATTENTION_CACHE_K; i <= ATTENTION_CACHE_V; i++) {
        const bs_value_info *cache = infer->in[i];
        if (!bs_infer_dtype(infer, i, BS_F32) || !bs_infer_root(infer, i))
            return false;
        if (cache->rank != 3 || cache->dims[0] != bs_segment_dim(infer->graph, domain) ||
            cache->dims[1] != infer->in[ATTENTION_CACHE_K]->dims[1] || cache->dims[2] != infer->in[0]->dims[0])
            return bs_infer_fail(
                infer, BS_ERROR_SHAPE,
                "operand %d is %s, expected [segments, window, d] with the window of operand 3 and the d of operand 0",
                i, bs_say_value(infer, cache));
    }
    return bs_infer_const(infer, ATTENTION_CACHE_K, 1, "the window", &window) &&
           bs_infer_segment_input(infer, ATTENTION_CACHE_LENGTHS, domain, "cache_lengths");
}

static bool attention_infer(bs_infer *infer)
{
    const bs_attention_desc *desc = infer->params;
    const int32_t domain = bs_infer_segments(infer, 0), heads = bs_or_default(desc->heads, 1);
    int32_t d = 0;
    if (!domain || !attention_cells_agree(infer, domain) || !bs_infer_const(infer, 0, 0, "d", &d))
        return false;
    if (heads < 1 || d % heads != 0)
        return bs_infer_fail(infer, BS_ERROR_ARGUMENT, "%d heads of cells [%d]: not a whole number of elements each",
                             heads, d);
    if (infer->graph->domains[domain].max_rows * heads > (int64_t)1 << 30)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "%d heads of up to %lld rows are more than 2^30 tasks", heads,
                             (long long)infer->graph->domains[domain].max_rows);
    if (infer->n_in != 3 && infer->n_in != 6)
        return bs_infer_fail(infer, BS_ERROR_GRAPH,
                             "%d operands: cache_k, cache_v and cache_lengths are given all three or none",
                             infer->n_in);
    return infer->n_in == 3 || attention_cache_fits(infer, domain);
}

/* Most positions that a row attends to: the window, or without a cache all rows of the run. */
static int64_t attention_most(const bs_graph *graph, const bs_node *node)
{
    const int32_t *in = bs_node_in(graph, node);
    if (node->n_in > ATTENTION_CACHE_K)
        return bs_dim_max(graph, graph->values[in[ATTENTION_CACHE_K]].dims[1]);
    return graph->domains[node->domain].max_rows;
}

static double attention_flops(const bs_graph *graph, const bs_node *node)
{
    return 4.0 * (double)attention_most(graph, node) * bs_value_work(graph, node->first_out);
}

static void attention_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                           int32_t max_w, bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    plan->work_items = bs_or_default(((const bs_attention_desc *)node->params)->heads, 1);
    plan->scratch_bytes = bs_bytes_array(attention_most(graph, node), sizeof(float));
}

/* ------------------------------------------------------------------------------------------------------ kernel */

/* One row and head: where its keys and values are. */
typedef struct attention_job {
    const bs_call *call;
    int32_t segment, first_row;         /* of the segment, in this run */
    int32_t cache_length, low, position; /* of the row; it attends to low .. position */
    int32_t window, element, n;         /* elements of the head: element .. element + n */
    float *scores;                      /* [position - low + 1] */
} attention_job;

static attention_job attention_job_of(const bs_call *call)
{
    const int32_t heads = call->plan->work_items, d = call->in[ATTENTION_Q].dim[0];
    const bool cached = call->n_in > ATTENTION_CACHE_K;
    attention_job job = {
        .call = call, .n = d / heads, .element = call->work_item * (d / heads), .scores = call->scratch};
    job.segment = bs_segment_of(call->offsets, call->n_segments, call->row);
    job.first_row = call->offsets[job.segment];
    const bs_operand *cache_lengths = &call->in[ATTENTION_CACHE_LENGTHS];
    job.cache_length = cached ? ((const int32_t *)cache_lengths->data)[job.segment * cache_lengths->stride[0]] : 0;
    job.position = job.cache_length + (call->row - job.first_row);
    job.window = cached ? call->in[ATTENTION_CACHE_K].dim[1] : job.position + 1;
    job.low = bs_max_i32(0, job.position - job.window + 1);
    return job;
}

/* Key of position j (or value: the next operand): from this run, or from the ring. */
static const float *attention_at(const attention_job *job, int32_t kind, int32_t j, ptrdiff_t *step)
{
    const bs_operand *fresh = &job->call->in[kind], *ring = &job->call->in[kind + ATTENTION_CACHE_K - ATTENTION_K];
    if (j >= job->cache_length) {
        *step = fresh->stride[0];
        return bs_f32_at(fresh, (job->first_row + (j - job->cache_length)) * fresh->row_stride + job->element * *step);
    }
    *step = ring->stride[2];
    return bs_f32_at(ring, job->segment * ring->stride[0] + j % job->window * ring->stride[1] + job->element * *step);
}

/* Eight sums side by side, added up in one order whatever the strides: the same bits from a run's rows and the ring. */
#define ATTENTION_LANES 8

static float attention_dot_dense(const float *a, const float *b, int32_t n, float *lanes)
{
    int32_t i = 0;
    for (; i + ATTENTION_LANES <= n; i += ATTENTION_LANES)
        for (int32_t k = 0; k < ATTENTION_LANES; k++)
            lanes[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        lanes[i % ATTENTION_LANES] += a[i] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static float attention_dot(const float *a, ptrdiff_t a_step, const float *b, ptrdiff_t b_step, int32_t n)
{
    float lanes[ATTENTION_LANES] = {0};
    if (BS_DENSE_PAYS && a_step == 1 && b_step == 1)
        return attention_dot_dense(a, b, n, lanes);
    for (int32_t i = 0; i < n; i++)
        lanes[i % ATTENTION_LANES] += a[i * a_step] * b[i * b_step];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* Scores of all positions; returns the largest. */
static float attention_scores(const attention_job *job)
{
    const bs_attention_desc *desc = job->call->params;
    const bs_operand *in = &job->call->in[ATTENTION_Q];
    const float *q = bs_f32_at(in, job->call->row * in->row_stride + job->element * in->stride[0]);
    const float scale = 1.0f / sqrtf((float)job->n);
    const float slope = desc->alibi
                            ? exp2f(-8.0f * (float)(job->call->work_item + 1) / (float)job->call->plan->work_items)
                            : 0.0f;
    float top = 0.0f;
    for (int32_t j = job->low; j <= job->position; j++) {
        ptrdiff_t step;
        const float *k = attention_at(job, ATTENTION_K, j, &step);
        const float score = attention_dot(q, in->stride[0], k, step, job->n) * scale -
                            slope * (float)(job->position - j);
        job->scores[j - job->low] = score;
        top = j == job->low || score > top ? score : top;
    }
    return top;
}

static void attention_add(float *out, ptrdiff_t out_step, const float *v, ptrdiff_t v_step, int32_t n, float weight)
{
    if (BS_DENSE_PAYS && out_step == 1 && v_step == 1) {
        for (int32_t i = 0; i < n; i++)
            out[i] += weight * v[i];
        return;
    }
    for (int32_t i = 0; i < n; i++)
        out[i * out_step] += weight * v[i * v_step];
}

static bs_status attention_run(const bs_call *call)
{
    const attention_job job = attention_job_of(call);
    const bs_operand *to = &call->out[0];
    float *out = bs_f32_at(to, job.element * to->stride[0]), sum = 0.0f;
    const float top = attention_scores(&job);
    for (int32_t j = 0; j <= job.position - job.low; j++)
        sum += job.scores[j] = expf(job.scores[j] - top);
    for (int32_t i = 0; i < job.n; i++)
        out[i * to->stride[0]] = 0.0f;
    for (int32_t j = job.low; j <= job.position; j++) {
        ptrdiff_t step;
        const float *v = attention_at(&job, ATTENTION_V, j, &step);
        attention_add(out, to->stride[0], v, step, job.n, job.scores[j - job.low] / sum);
    }
    return BS_OK;
}

static const bs_field attention_fields[] = {BS_INT("heads"), BS_INT_OF("alibi", 0, 1)};

const bs_op bs_op_attention = {.name = "attention",
                               .min_in = 3,
                               .max_in = 6,
                               .flags = BS_OP_CROSS_ROW,
                               .roles = {[5] = BS_ROLE_CACHE_LENGTH},
                               BS_PARAMS(bs_attention_desc, attention_fields),
                               .infer = attention_infer,
                               .flops = attention_flops,
                               .plan = attention_plan,
                               .run = attention_run};

bs_value bs_attention(bs_graph *graph, bs_value q, bs_value k, bs_value v, bs_value cache_k, bs_value cache_v,
                      bs_value cache_lengths, const bs_attention_desc *desc)
{
    const int32_t in[6] = {q.id, k.id, v.id, cache_k.id, cache_v.id, cache_lengths.id};
    const bool cached = cache_k.id || cache_v.id || cache_lengths.id;
    return bs_op_build(graph, &bs_op_attention, in, cached ? 6 : 3, desc);
}
