/* test_segments.c: rows in segments - attention against a plain reference in double precision, with histories of whole
 * sequences where the library has a ring; reductions against the oracle; a small decoder; what must be refused. */
#define NET_TENSORS 64
#include "against.h"

#define SEQS   4
#define D      12
#define WINDOW 8
#define MOST   48 /* rows a run */
#define VOCAB  11

static rig r;
static _Alignas(64) uint8_t graph_memory[2 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static bool start(const bs_graph *g, const bs_plan_desc *desc, const bs_tensor_table *weights)
{
    if (rig_plan(&r, g, desc) && rig_session(&r, weights, NULL, 0xFF))
        return true;
    printf("  %s: %s\n", bs_status_name(r.error.status), g->status == BS_OK ? r.error.message : g->error.message);
    return false;
}

static bs_buffer buffer_of(void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1, int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2, 0}, {0, 0, 0, 0}};
    return b;
}

static bool bind(const char *name, bs_buffer b)
{
    return bs_bind(r.session, name, &b, &r.error) == BS_OK;
}

static const bs_plan_desc ways[] = {
    {.threads = 1, .order = BS_ORDER_BREADTH}, {.threads = 2, .order = BS_ORDER_BREADTH},
    {.threads = 4, .order = BS_ORDER_BREADTH}, {.threads = 1, .order = BS_ORDER_DEPTH},
    {.threads = 2, .order = BS_ORDER_DEPTH},   {.threads = 4, .order = BS_ORDER_DEPTH},
};
#define WAYS ((int32_t)(sizeof ways / sizeof *ways))

/* --------------------------------------------------------------------------------------------------- attention */

static bs_graph *attention_net(int32_t heads, int32_t alibi, bool cached)
{
    bs_graph *g = new_graph();
    const bs_value none = {0};
    const bs_dim n = bs_symbol(g, "N", MOST);
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS));
    const bs_value past = cached ? bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS)) : none;
    bs_value in[3], state[2] = {none, none};
    static const char *const names[3] = {"q", "k", "v"};
    for (int32_t i = 0; i < 3; i++)
        in[i] = bs_segments(g, bs_input(g, names[i], BS_F32, BS_SHAPE2(n, D)), lengths);
    for (int32_t i = 0; i < 2 && cached; i++)
        state[i] = bs_state(g, i ? "cache_v" : "cache_k", BS_F32, BS_SHAPE3(SEQS, WINDOW, D));
    const bs_attention_desc desc = {.name = "attend", .heads = heads, .alibi = alibi};
    bs_output(g, "out", bs_collect(g, bs_attention(g, in[0], in[1], in[2], state[0], state[1], past, &desc)));
    for (int32_t i = 0; i < 2 && cached; i++)
        bs_state_append(g, state[i], in[1 + i], past);
    return g;
}

/* Whole sequences, as no cache would forget them. */
#define HISTORY 256
static float history[2][SEQS][HISTORY][D];
static int32_t history_count[SEQS];

static float q_now[MOST][D], kv_now[2][MOST][D], out_now[MOST][D];
static int32_t strided_lengths[3 * SEQS], strided_past[2 * SEQS];

static void attend_plainly(int32_t s, int32_t position, int32_t heads, int32_t alibi, int32_t window, const float *q,
                           double *y)
{
    const int32_t low = position - window + 1 > 0 ? position - window + 1 : 0, each = D / heads;
    for (int32_t h = 0; h < heads; h++) {
        double weight[HISTORY], sum = 0;
        for (int32_t j = low; j <= position; j++) {
            double score = 0;
            for (int32_t i = h * each; i < (h + 1) * each; i++)
                score += (double)q[i] * (double)history[0][s][j][i];
            score = score / sqrt((double)each) - (alibi ? pow(2, -8.0 * (h + 1) / heads) * (position - j) : 0);
            sum += weight[j] = exp(score);
        }
        for (int32_t i = h * each; i < (h + 1) * each; i++) {
            y[i] = 0;
            for (int32_t j = low; j <= position; j++)
                y[i] += weight[j] / sum * (double)history[1][s][j][i];
        }
    }
}

/* Binds and runs rows of these lengths, tokens made by seed; strides where they may be. */
static bs_status attention_step(const int32_t *lengths, bool cached, uint64_t seed)
{
    int32_t rows = 0;
    for (int32_t s = 0; s < SEQS; s++) {
        strided_lengths[3 * s] = lengths[s];
        strided_past[2 * s] = history_count[s];
        rows += lengths[s];
    }
    check_state = check_mixed(seed);
    for (int32_t i = 0; i < rows * D; i++) {
        (&q_now[0][0])[i] = 2 * check_float();
        (&kv_now[0][0][0])[i] = 2 * check_float();
        (&kv_now[1][0][0])[i] = check_float();
    }
    bs_buffer l = buffer_of(strided_lengths, BS_I32, 1, SEQS, 0, 0), p = buffer_of(strided_past, BS_I32, 1, SEQS, 0, 0);
    l.stride[0] = 3;
    p.stride[0] = 2;
    memset(out_now, 0xFF, sizeof out_now);
    if (!bind("lengths", l) || (cached && !bind("past", p)) || !bind("q", buffer_of(q_now, BS_F32, 2, rows, D, 0)) ||
        !bind("k", buffer_of(kv_now[0], BS_F32, 2, rows, D, 0)) ||
        !bind("v", buffer_of(kv_now[1], BS_F32, 2, rows, D, 0)) ||
        !bind("out", buffer_of(out_now, BS_F32, 2, rows, D, 0)))
        return r.error.status;
    return bs_run(r.session, &r.error);
}

/* The largest difference between what the last step gave and the reference; the sequences grow. */
static double attention_error(const int32_t *lengths, int32_t heads, int32_t alibi, bool cached)
{
    double worst = 0;
    for (int32_t s = 0, row = 0; s < SEQS; s++)
        for (int32_t i = 0; i < lengths[s]; i++, row++) {
            const int32_t position = history_count[s] + i;
            double y[D];
            memcpy(history[0][s][position], kv_now[0][row], sizeof kv_now[0][row]);
            memcpy(history[1][s][position], kv_now[1][row], sizeof kv_now[1][row]);
            attend_plainly(s, position, heads, alibi, cached ? WINDOW : HISTORY, q_now[row], y);
            for (int32_t k = 0; k < D; k++)
                worst = !(fabs(y[k] - (double)out_now[row][k]) <= worst) ? fabs(y[k] - (double)out_now[row][k]) : worst;
        }
    for (int32_t s = 0; s < SEQS && cached; s++)
        history_count[s] += lengths[s];
    return worst;
}

/* Lengths 0, longer than the window, exactly the window, and single tokens in between. */
static const int32_t script[][SEQS] = {{5, 0, 3, 1}, {1, 1, 1, 1},  {0, 12, 0, 2}, {1, 0, 1, 1}, {1, 1, 0, 0},
                                       {20, 3, 9, 0}, {0, 0, 0, 8}, {1, 1, 1, 1},  {7, 8, 9, 1}, {1, 1, 1, 1}};
#define STEPS ((int32_t)(sizeof script / sizeof *script))

static bool ring_holds_history(const float *ring)
{
    for (int32_t s = 0; s < SEQS; s++)
        for (int32_t j = history_count[s] > WINDOW ? history_count[s] - WINDOW : 0; j < history_count[s]; j++)
            if (memcmp(ring + (s * WINDOW + j % WINDOW) * D, history[0][s][j], sizeof history[0][s][j]) != 0)
                return false;
    return true;
}

static void test_attention(int32_t heads, int32_t alibi, bool cached)
{
    static float first[STEPS][MOST][D], ring[SEQS * WINDOW * D];
    double worst = 0;
    int32_t same = 0, runs = 0, intact = 0, rings = 0;
    for (int32_t w = 0; w < WAYS; w++) {
        const bs_graph *g = attention_net(heads, alibi, cached);
        const bool own = w % 2 == 0; /* else the caller's cache */
        memset(history_count, 0, sizeof history_count);
        memset(ring, 0, sizeof ring);
        if (!start(g, &ways[w], NULL) ||
            (cached && !own && !bind("cache_k", buffer_of(ring, BS_F32, 3, SEQS, WINDOW, D))))
            break;
        for (int32_t k = 0; k < STEPS; k++) {
            if (attention_step(script[k], cached, (uint64_t)k) != BS_OK) {
                printf("  %s\n", r.error.message);
                break;
            }
            const double error = attention_error(script[k], heads, alibi, cached);
            worst = !(error <= worst) ? error : worst;
            rings += !cached || own || ring_holds_history(ring);
            if (w == 0)
                memcpy(first[k], out_now, sizeof out_now);
            same += memcmp(first[k], out_now, sizeof out_now) == 0;
            runs++;
        }
        intact += rig_intact(&r);
        bs_session_close(r.session);
    }
    check(runs == WAYS * STEPS && worst < 1e-5,
          "attention of %d heads, alibi %d, %s: within 1e-5 of the definition (%.1e)", heads, alibi,
          cached ? "with a cache that wraps around" : "without cache", worst);
    check(same == runs && runs > 0, "  any threads, either order: the same bytes");
    check(intact == WAYS && rings == runs && runs > 0,
          "  nothing outside the arenas is written, caches hold the last rows");
}

static void test_prefill_is_decode(void)
{
    static const int32_t lengths[SEQS] = {13, 0, 5, 1}, one = 1;
    static float prefill[MOST][D], q[MOST][D], kv[2][MOST][D];
    const bs_graph *g = attention_net(3, 1, true);
    memset(history_count, 0, sizeof history_count);
    bool ok = start(g, &ways[1], NULL) && attention_step(lengths, true, 77) == BS_OK;
    memcpy(prefill, out_now, sizeof prefill);
    memcpy(q, q_now, sizeof q);
    memcpy(kv, kv_now, sizeof kv);
    bs_session_close(r.session);
    int32_t same = 0, tokens = 0;
    ok = ok && start(g, &ways[0], NULL);
    for (int32_t s = 0, row = 0; ok && s < SEQS; s++)
        for (int32_t i = 0; ok && i < lengths[s]; i++, row++, tokens++) {
            int32_t now[SEQS] = {0}, past[SEQS] = {0};
            float y[D];
            now[s] = one;
            past[s] = i;
            ok = bind("lengths", buffer_of(now, BS_I32, 1, SEQS, 0, 0)) &&
                 bind("past", buffer_of(past, BS_I32, 1, SEQS, 0, 0)) &&
                 bind("q", buffer_of(q[row], BS_F32, 2, 1, D, 0)) &&
                 bind("k", buffer_of(kv[0][row], BS_F32, 2, 1, D, 0)) &&
                 bind("v", buffer_of(kv[1][row], BS_F32, 2, 1, D, 0)) &&
                 bind("out", buffer_of(y, BS_F32, 2, 1, D, 0)) && bs_run(r.session, &r.error) == BS_OK;
            same += ok && memcmp(y, prefill[row], sizeof y) == 0;
        }
    bs_session_close(r.session);
    check(ok && tokens == 19 && same == tokens, "a sequence in one run gives the bytes that it gives token by token");
}

/* ------------------------------------------------------------------------------------------- against the oracle */

static naive oracle;

/* Every way between segments and rows in one graph, beside attention over a cache of random numbers. */
static bs_graph *segment_net(void)
{
    static const int32_t modes[4] = {BS_SEGMENT_LAST, BS_SEGMENT_SUM, BS_SEGMENT_MEAN, BS_SEGMENT_MAX};
    static const char *const names[4] = {"last", "sum", "mean", "max"};
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", MOST), s = bs_symbol(g, "H", SEQS); /* a run may have fewer segments */
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(s)),
                   past = bs_input(g, "past", BS_I32, BS_SHAPE1(s));
    const bs_value x = bs_segments(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, D)), lengths);
    const bs_value wide = bs_segments(g, bs_input(g, "wide", BS_F32, BS_SHAPE3(n, 3, 2)), lengths);
    const bs_value ring = bs_input(g, "ring", BS_F32, BS_SHAPE3(s, WINDOW, D)); /* need not be a state */
    for (int32_t i = 0; i < 4; i++)
        bs_output(g, names[i], bs_segment_reduce(g, x, &(bs_segment_reduce_desc){.name = names[i], .mode = modes[i]}));
    const bs_value mean = bs_segment_reduce(g, x, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_MEAN});
    const bs_value centred = bs_sub(g, x, bs_segment_spread(g, mean, x));
    bs_output(g, "wide_max", bs_segment_reduce(g, wide, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_MAX}));
    bs_output(g, "wide_spread", bs_collect(g, bs_segment_spread(g, bs_segment_reduce(g, wide, NULL), x)));
    bs_output(g, "centred", bs_collect(g, centred));
    const bs_attention_desc desc = {.heads = 2, .alibi = 1};
    bs_output(g, "attended", bs_collect(g, bs_attention(g, x, centred, x, ring, ring, past, &desc)));
    return g;
}

static double oracle_error(const bs_graph *g, const bs_buffer *outputs)
{
    double worst = 0;
    for (int32_t n = 1, k = 0; n < g->n_nodes; n++) {
        if (!bs_node_is(&g->nodes[n], &bs_op_output))
            continue;
        const int32_t value = bs_node_in(g, &g->nodes[n])[0];
        for (int64_t i = 0; i < naive_elements(&oracle, value); i++) {
            const double error = fabs(ag_read(ag_element(&outputs[k], i), BS_F32) - oracle.cell[value][0][i]);
            worst = !(error <= worst) ? error : worst;
        }
        k++;
    }
    return worst;
}

static void test_oracle(void)
{
    static against a;
    static const int32_t cases[5][SEQS] = {{3, 0, 7, 2}, {0, 0, 0, 1}, {12, 12, 12, 12}, {0, 17, 0, 0}, {1, 1, 1, 1}};
    double worst = 0;
    int32_t runs = 0;
    for (int32_t w = 0; w < WAYS; w++) {
        const bs_graph *g = segment_net();
        if (!start(g, &ways[w], NULL))
            break;
        for (int32_t k = 0; k < 5; k++) {
            bs_buffer in[AG_SOURCES], out[AG_SOURCES];
            int64_t extent[3] = {0, k == 3 ? 2 : SEQS, 1};
            for (int32_t s = 0; s < SEQS; s++)
                extent[0] += cases[k][s];
            memset(&a, 0, sizeof a);
            against_inputs(&a, g, NULL, &ways[w], extent);
            for (int32_t s = 0; s < SEQS; s++) {
                ag_data[0][s] = cases[k][s];
                ag_data[1][s] = check_below(20);
            }
            for (int32_t i = 0; i < a.n_inputs * (1 << 14); i++) /* small enough for scores that f32 tells apart */
                (&ag_data[0][0])[i] *= i < 2 << 14 ? 1 : 0.125;
            a.strided = k % 2;
            oracle = a.oracle;
            if (naive_run(&oracle) != BS_OK)
                break;
            a.oracle = oracle;
            if (!against_bind(&a, r.session, in, out) || bs_run(r.session, &r.error) != BS_OK) {
                printf("  %s %s\n", a.error.message, r.error.message);
                break;
            }
            const double error = oracle_error(g, out);
            worst = !(error <= worst) ? error : worst;
            runs++;
        }
        bs_session_close(r.session);
    }
    check(runs == 5 * WAYS && worst < 1e-5,
          "reductions, spreading and attention as the oracle has them, empty segments too (%.1e)", worst);
}

/* ----------------------------------------------------------------------------------------------------- a decoder */

static net_table weights;
static char weight_names[NET_TENSORS][24];

static const char *weight_of(const char *node, const char *suffix)
{
    char *name = weight_names[weights.table.count];
    snprintf(name, sizeof weight_names[0], "%s.%s", node, suffix);
    return name;
}

static bs_value linear(bs_graph *g, bs_value x, const char *name, int32_t in, int32_t out, bs_act act)
{
    const int64_t dim[2] = {out, in};
    net_add(&weights, weight_of(name, "weight"), 2, dim, 1.5f / sqrtf((float)in));
    net_add(&weights, weight_of(name, "bias"), 1, dim, 0.1f);
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = (int32_t)act});
}

static bs_value norm(bs_graph *g, bs_value x, const char *name)
{
    const int64_t dim[1] = {D};
    net_add(&weights, weight_of(name, "weight"), 1, dim, 1.0f);
    net_add(&weights, weight_of(name, "bias"), 1, dim, 0.1f);
    return bs_layer_norm(g, x, &(bs_norm_desc){.name = name});
}

/* Experts picked by top-2, on the rows of all sequences together. */
static bs_value experts(bs_graph *g, bs_value x)
{
    static const char *const names[4] = {"e0", "e1", "e2", "e3"};
    const bs_value h = norm(g, x, "ln_moe"), scores = bs_softmax(g, linear(g, h, "score", D, 4, BS_ACT_NONE));
    const bs_route_desc desc = {.name = "experts", .protocol = BS_ROUTE_TOPK, .paths = 4, .k = 2, .normalise = 1};
    const bs_router route = bs_route(g, scores, (bs_value){0}, &desc);
    bs_value out[4];
    for (int32_t e = 0; e < 4; e++) {
        bs_block_begin(g, names[e]);
        out[e] = linear(g, bs_scatter(g, route, e, h), names[e], D, D, BS_SILU);
        bs_block_end(g);
    }
    return bs_gather(g, route, out, x, &(bs_gather_desc){.mode = BS_GATHER_WEIGHTED});
}

static bs_value attend(bs_graph *g, bs_value x, const char *const *names, bs_value past)
{
    const bs_value h = norm(g, x, names[0]);
    const bs_value q = linear(g, h, names[1], D, D, BS_ACT_NONE), k = linear(g, h, names[2], D, D, BS_ACT_NONE),
                   v = linear(g, h, names[3], D, D, BS_ACT_NONE);
    const bs_value past_k = bs_state(g, names[4], BS_F32, BS_SHAPE3(SEQS, WINDOW, D)),
                   past_v = bs_state(g, names[5], BS_F32, BS_SHAPE3(SEQS, WINDOW, D));
    const bs_attention_desc desc = {.name = names[6], .heads = 3, .alibi = 1};
    const bs_value y = bs_attention(g, q, k, v, past_k, past_v, past, &desc);
    bs_state_append(g, past_k, k, past);
    bs_state_append(g, past_v, v, past);
    return bs_add(g, x, linear(g, y, names[7], D, D, BS_ACT_NONE));
}

static bs_graph *decoder(void)
{
    static const char *const first[] = {"ln0", "q0", "k0", "v0", "cache_k0", "cache_v0", "a0", "o0"};
    static const char *const second[] = {"ln1", "q1", "k1", "v1", "cache_k1", "cache_v1", "a1", "o1"};
    bs_graph *g = new_graph();
    weights.table.count = 0;
    weights.next = NULL;
    const int64_t dim[2] = {VOCAB, D};
    net_add(&weights, "embedding", 2, dim, 1.0f);
    const bs_value tokens = bs_input(g, "tokens", BS_I32, BS_SHAPE2(bs_symbol(g, "N", MOST), 1));
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS)),
                   past = bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS));
    const bs_value table = bs_constant(g, "embedding", BS_F32, BS_SHAPE2(VOCAB, D));
    bs_value x = bs_reshape(g, bs_gather_rows(g, table, bs_segments(g, tokens, lengths)), BS_SHAPE1(D));
    x = attend(g, x, first, past);
    x = experts(g, x);
    x = attend(g, x, second, past);
    bs_output(g, "logits", linear(g, bs_segment_reduce(g, x, NULL), "head", D, VOCAB, BS_ACT_NONE));
    bs_output(g, "hidden", bs_collect(g, x));
    return g;
}

static int32_t tokens_now[MOST];
static float logits_now[SEQS][VOCAB], hidden_now[MOST][D];

static bool decode(const int32_t *lengths, const int32_t *past, const int32_t *tokens)
{
    int32_t rows = 0, l[SEQS], p[SEQS];
    for (int32_t s = 0; s < SEQS; s++)
        rows += lengths[s];
    memcpy(l, lengths, sizeof l);
    memcpy(p, past, sizeof p);
    memcpy(tokens_now, tokens, (size_t)rows * sizeof *tokens);
    memset(logits_now, 0xFF, sizeof logits_now);
    memset(hidden_now, 0xFF, sizeof hidden_now);
    return bind("lengths", buffer_of(l, BS_I32, 1, SEQS, 0, 0)) && bind("past", buffer_of(p, BS_I32, 1, SEQS, 0, 0)) &&
           bind("tokens", buffer_of(tokens_now, BS_I32, 2, rows, 1, 0)) &&
           bind("logits", buffer_of(logits_now, BS_F32, 2, SEQS, VOCAB, 0)) &&
           bind("hidden", buffer_of(hidden_now, BS_F32, 2, rows, D, 0)) && bs_run(r.session, &r.error) == BS_OK;
}

static void test_decoder(void)
{
    static const int32_t prompt[SEQS] = {6, 11, 0, 1}, none[SEQS] = {0}, one[SEQS] = {1, 1, 0, 1};
    static float first[8][SEQS][VOCAB], hidden[MOST][D];
    int32_t tokens[MOST], same = 0, runs = 0, intact = 0, routed = 0, regions = 0;
    for (int32_t i = 0; i < MOST; i++)
        tokens[i] = check_below(VOCAB);
    for (int32_t w = 0; w < WAYS; w++) {
        bs_decision went;
        if (!start(decoder(), &ways[w], &weights.table))
            break;
        regions += r.plan->n_regions;
        for (int32_t k = 0; k < 8; k++) { /* a prompt, then token by token past the window */
            int32_t past[SEQS];
            for (int32_t s = 0; s < SEQS; s++)
                past[s] = k ? prompt[s] + (k - 1) * one[s] : 0;
            if (!decode(k ? one : prompt, k ? past : none, tokens + (k ? 20 + 3 * k : 0)))
                printf("  %s\n", r.error.message);
            if (k == 0 && w == 0)
                memcpy(hidden, hidden_now, sizeof hidden);
            if (w == 0)
                memcpy(first[k], logits_now, sizeof logits_now);
            same += memcmp(first[k], logits_now, sizeof logits_now) == 0;
            runs++;
            routed += bs_decision_get(r.session, "experts", &went) == BS_OK &&
                      went.counts[0] + went.counts[1] + went.counts[2] + went.counts[3] == (k ? 6 : 36);
        }
        intact += rig_intact(&r);
        bs_session_close(r.session);
    }
    check(runs == 8 * WAYS && same == runs && intact == WAYS,
          "a decoder with experts: any threads, either order give the same bytes");
    check(routed == runs && runs > 0, "tokens of all sequences are routed to two experts each");
    check(regions > 0, "depth first, what is between attentions runs in tiles");

    double worst = 0;
    bool ok = start(decoder(), &ways[3], &weights.table);
    for (int32_t s = 0, row = 0; ok && s < SEQS; s++)
        for (int32_t i = 0; ok && i < prompt[s]; i++, row++) {
            int32_t now[SEQS] = {0}, past[SEQS] = {0};
            now[s] = 1;
            past[s] = i;
            ok = decode(now, past, tokens + row);
            for (int32_t k = 0; ok && k < D; k++)
                worst = !(fabs((double)(hidden_now[0][k] - hidden[row][k])) <= worst)
                            ? fabs((double)(hidden_now[0][k] - hidden[row][k]))
                            : worst;
        }
    bs_session_close(r.session);
    check(ok && worst < 1e-5, "a decoder's prompt in one run is its prompt token by token (%.1e)", worst);
}

/* ---------------------------------------------------------------------------------------------------- run errors */

static void test_wrong_data(void)
{
    static const struct {
        const char *what;
        int32_t lengths[SEQS], past[SEQS];
    } wrong[] = {
        {"a negative length", {4, -1, 3, 3}, {0}},
        {"lengths of fewer rows", {1, 2, 3, 2}, {0}},
        {"lengths of more rows", {1, 2, 3, 4}, {0}},
        {"lengths that overflow", {INT32_MAX, INT32_MAX, 3, 4}, {0}},
        {"the smallest length", {INT32_MIN, 3, 3, 3}, {0}},
        {"a negative past", {3, 2, 3, 1}, {0, 0, -1, 0}},
        {"a past beyond 2^30", {3, 2, 3, 1}, {0, 0, 0, INT32_MAX}},
    };
    const int32_t n_wrong = (int32_t)(sizeof wrong / sizeof *wrong);
    static const int32_t sound[SEQS] = {3, 2, 3, 1}, more[SEQS] = {9, 0, 0, 0};
    float expected[MOST][D];
    memset(history_count, 0, sizeof history_count);
    bool ok = start(attention_net(2, 0, true), &ways[1], NULL) && attention_step(sound, true, 5) == BS_OK;
    for (int32_t s = 0; s < SEQS; s++)
        history_count[s] = sound[s];
    ok = ok && attention_step(more, true, 6) == BS_OK;
    memcpy(expected, out_now, sizeof expected);
    bs_reset_state(r.session);
    memset(history_count, 0, sizeof history_count);
    ok = ok && attention_step(sound, true, 5) == BS_OK;
    check(ok, "a session to be misled runs");
    for (int32_t i = 0; ok && i < n_wrong; i++) {
        int32_t l[SEQS], p[SEQS];
        memcpy(l, wrong[i].lengths, sizeof l);
        memcpy(p, wrong[i].past, sizeof p);
        bind("lengths", buffer_of(l, BS_I32, 1, SEQS, 0, 0));
        bind("past", buffer_of(p, BS_I32, 1, SEQS, 0, 0));
        const bs_status status = bs_run(r.session, &r.error);
        check(status == BS_ERROR_DATA && r.error.message[0] && bs_state_valid(r.session), "%s is BS_ERROR_DATA: %s",
              wrong[i].what, r.error.message);
    }
    for (int32_t s = 0; s < SEQS; s++)
        history_count[s] = sound[s];
    check(ok && attention_step(more, true, 6) == BS_OK && memcmp(expected, out_now, sizeof expected) == 0 &&
              rig_intact(&r),
          "after refusals the session runs as if they had not been asked");
    bs_session_close(r.session);
}

/* ---------------------------------------------------------------------------------------------------- liveness */

static void test_unused(void)
{
    bs_graph *g = new_graph();
    float x[2] = {3, 4}, y[2] = {0, 0};
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(2, 1));
    const bs_value rows = bs_segments(g, in, bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS)));
    bs_segment_reduce(g, rows, NULL);
    bs_output(g, "y", bs_affine(g, in, 2, 0));
    const bool ok = start(g, NULL, NULL) && bind("x", buffer_of(x, BS_F32, 2, 2, 1, 0)) &&
                    bind("y", buffer_of(y, BS_F32, 2, 2, 1, 0));
    check(ok && bs_run(r.session, &r.error) == BS_OK && y[1] > 7.9f,
          "lengths of segments that nothing needs need not be bound");
    bs_session_close(r.session);

    g = new_graph(); /* only the rows are needed: how they are grouped is checked all the same */
    int32_t lengths[SEQS] = {1, 0, 0, 0};
    const bs_value again = bs_input(g, "x", BS_F32, BS_SHAPE2(2, 1));
    bs_output(g, "y", bs_collect(g, bs_segments(g, again, bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS)))));
    bool wrong = start(g, NULL, NULL) && bind("x", buffer_of(x, BS_F32, 2, 2, 1, 0)) &&
                 bind("y", buffer_of(y, BS_F32, 2, 2, 1, 0));
    check(wrong && bs_run(r.session, &r.error) == BS_ERROR_UNBOUND,
          "lengths of segments that are needed must be bound");
    wrong = bind("lengths", buffer_of(lengths, BS_I32, 1, SEQS, 0, 0)) && bs_run(r.session, &r.error) == BS_ERROR_DATA;
    lengths[3] = 1;
    check(wrong && bs_run(r.session, &r.error) == BS_OK && y[0] > 2.9f && y[0] < 3.1f,
          "collected segments are their rows");
    bs_session_close(r.session);
}

/* A cache that is also asked for as an output is given as it was; rows that are a cache's own content are written as
 * they were. */
static void test_state_order(void)
{
    bs_graph *g = new_graph();
    float before[SEQS * 2 * 3], seen[SEQS * 2 * 3], flat[SEQS * 3], mirror[SEQS * 3];
    int32_t lengths[SEQS] = {1, 1, 1, 1}, past[SEQS] = {5, 4, 3, 2};
    const bs_value l = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS)),
                   p = bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS));
    const bs_value ring = bs_state(g, "ring", BS_F32, BS_SHAPE3(SEQS, 2, 3)),
                   rows = bs_state(g, "rows", BS_F32, BS_SHAPE2(SEQS, 3));
    bs_state_write(g, rows, bs_affine(g, rows, 2, 0)); /* endings run in this order */
    bs_state_append(g, ring, bs_segments(g, rows, l), p);
    bs_output(g, "seen", ring);
    for (int32_t i = 0; i < SEQS * 6; i++)
        before[i] = (float)(100 + i);
    for (int32_t i = 0; i < SEQS * 3; i++)
        flat[i] = mirror[i] = (float)i;
    const bool ok = start(g, &ways[2], NULL) && bind("ring", buffer_of(before, BS_F32, 3, SEQS, 2, 3)) &&
                    bind("rows", buffer_of(flat, BS_F32, 2, SEQS, 3, 0)) &&
                    bind("seen", buffer_of(seen, BS_F32, 3, SEQS, 2, 3)) &&
                    bind("lengths", buffer_of(lengths, BS_I32, 1, SEQS, 0, 0)) &&
                    bind("past", buffer_of(past, BS_I32, 1, SEQS, 0, 0)) && bs_run(r.session, &r.error) == BS_OK;
    bool old = ok, written = ok;
    for (int32_t i = 0; i < SEQS * 6; i++) {
        const bool appended = i / 3 % 2 == past[i / 6] % 2;
        old = old && (int32_t)seen[i] == 100 + i;
        written = written && (int32_t)before[i] == (appended ? (int32_t)mirror[i / 6 * 3 + i % 3] : 100 + i);
    }
    check(old, "an output of a cache is what it held before the run");
    check(written && (int32_t)flat[5] == 10, "rows of a state that is written too are appended as they were");
    bs_session_close(r.session);
}

/* Rows of a segment that is longer than the window share places in the ring, whichever thread comes last: only the last
 * ones may be given a place. */
static void test_places_in_ring(void)
{
    static const int32_t lengths[SEQS] = {2 * WINDOW + 3, 0, WINDOW, 1};
    int32_t placed = 0, wrong = 0;
    memset(history_count, 0, sizeof history_count);
    history_count[2] = 5;
    const bool ok = start(attention_net(1, 0, true), &ways[0], NULL) && attention_step(lengths, true, 3) == BS_OK;
    for (int32_t k = 0; ok && k < r.plan->n_top; k++) {
        const bs_instr *i = &r.plan->instrs[k];
        if (!bs_node_is(&r.plan->graph->nodes[i->node], &bs_op_state_append))
            continue;
        for (int32_t row = 0; row < 3 * WINDOW + 4; row++) {
            bs_operand o = {.dtype = BS_F32, .rank = 1};
            bs_segment_append(&r.session->root, i, row, &o);
            placed += o.data != NULL;
            wrong += (o.data == NULL) != (row < WINDOW + 3);
        }
    }
    bs_session_close(r.session);
    check(ok && wrong == 0 && placed == 2 * (2 * WINDOW + 1),
          "rows older than the window are not written to the cache");
}

/* ------------------------------------------------------------------------------------------------------- images */

/* Cells of segments may be images, such as patches of several frames. */
static void test_images(void)
{
    static float x[6][2][5][4], y[6][3][5][4], z[6][3][5][4], last[SEQS][3][5][4];
    int32_t lengths[SEQS] = {2, 0, 3, 1}, same = 0;
    for (size_t i = 0; i < sizeof x / sizeof(float); i++)
        (&x[0][0][0][0])[i] = check_float();
    for (int32_t w = 0; w < WAYS; w++) {
        bs_graph *g = new_graph();
        weights.table.count = 0;
        weights.next = NULL;
        const int32_t kernel = w % 2 ? 3 : 1; /* with and without zeros around an image */
        net_conv(&weights, "conv.weight", "conv.bias", 3, 2, kernel);
        const bs_conv2d_desc conv = {.name = "conv", .out = 3, .kernel = kernel};
        const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE4(6, 2, 5, 4));
        const bs_value cells = bs_segments(g, in, bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS)));
        const bs_value made = bs_conv2d(g, cells, &conv);
        bs_output(g, "y", bs_collect(g, made));
        bs_output(g, "z", bs_collect(g, bs_conv2d(g, bs_rows(g, in, (bs_value){0}), &conv)));
        bs_output(g, "last", bs_segment_reduce(g, made, NULL));
        bs_buffer b = buffer_of(x, BS_F32, 4, 6, 2, 5), by = buffer_of(y, BS_F32, 4, 6, 3, 5),
                  bz = buffer_of(z, BS_F32, 4, 6, 3, 5), bl = buffer_of(last, BS_F32, 4, SEQS, 3, 5);
        b.dim[3] = by.dim[3] = bz.dim[3] = bl.dim[3] = 4;
        const bool ok = start(g, &ways[w], &weights.table) && bind("x", b) && bind("y", by) && bind("z", bz) &&
                        bind("last", bl) && bind("lengths", buffer_of(lengths, BS_I32, 1, SEQS, 0, 0)) &&
                        bs_run(r.session, &r.error) == BS_OK;
        bool zeros = true;
        for (size_t i = 0; i < sizeof last[1] / sizeof(float); i++)
            zeros = zeros && fabsf((&last[1][0][0][0])[i]) < 1e-30f;
        same += ok && memcmp(y, z, sizeof y) == 0 && memcmp(last[0], y[1], sizeof last[0]) == 0 && zeros &&
                memcmp(last[2], y[4], sizeof last[2]) == 0 && memcmp(last[3], y[5], sizeof last[3]) == 0;
        bs_session_close(r.session);
    }
    check(same == WAYS, "images in segments are computed as images in rows");
}

/* ------------------------------------------------------------------------------------------------ builder errors */

typedef struct pieces {
    bs_dim n;
    bs_value lengths, past, five, x, y, rows, q, other, k, v, ring, ring5, ring_narrow, ring_rows, table, ints,
        per_five, per_four;
} pieces;

static pieces pieces_of(bs_graph *g)
{
    pieces p;
    p.n = bs_symbol(g, "N", MOST);
    p.lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS));
    p.past = bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS));
    p.five = bs_input(g, "five", BS_I32, BS_SHAPE1(5));
    p.x = bs_input(g, "x", BS_F32, BS_SHAPE2(p.n, D));
    p.y = bs_input(g, "y", BS_F32, BS_SHAPE2(p.n, 4));
    p.ints = bs_input(g, "ints", BS_I32, BS_SHAPE2(p.n, D));
    p.rows = bs_rows(g, p.x, (bs_value){0});
    p.q = p.k = p.v = bs_segments(g, p.x, p.lengths);
    p.other = bs_segments(g, p.x, p.past);
    p.ring = bs_state(g, "ring", BS_F32, BS_SHAPE3(SEQS, WINDOW, D));
    p.ring5 = bs_state(g, "ring5", BS_F32, BS_SHAPE3(SEQS, 5, D));
    p.ring_narrow = bs_state(g, "ring_narrow", BS_F32, BS_SHAPE3(SEQS, WINDOW, 4));
    p.ring_rows = bs_state(g, "ring_rows", BS_F32, BS_SHAPE3(5, WINDOW, D));
    p.per_five = bs_input(g, "per_five", BS_F32, BS_SHAPE2(5, 3));
    p.per_four = bs_input(g, "per_four", BS_F32, BS_SHAPE2(SEQS, 3));
    p.table = bs_constant(g, "table", BS_I32, BS_SHAPE1(SEQS));
    return p;
}

static bs_value attention_of(bs_graph *g, const pieces *p, bs_value past_k, bs_value past_v, bs_value past,
                             int32_t heads)
{
    return bs_attention(g, p->q, p->k, p->v, past_k, past_v, past, &(bs_attention_desc){.name = "a", .heads = heads});
}

static void build_wrong(bs_graph *g, const pieces *p, int32_t number)
{
    pieces w = *p;
    const bs_value none = {0};
    switch (number) {
    case 0: bs_segments(g, p->x, p->table); return;
    case 1: bs_segments(g, p->x, p->x); return;
    case 2: bs_segments(g, p->rows, p->lengths); return;
    case 3: bs_segments(g, p->x, p->q); return;
    case 4: bs_segment_spread(g, p->per_five, p->q); return;
    case 5: bs_segment_spread(g, p->per_four, p->rows); return;
    case 6: bs_segment_spread(g, p->q, p->q); return;
    case 7: bs_segment_reduce(g, p->rows, NULL); return;
    case 8: bs_segment_reduce(g, p->q, &(bs_segment_reduce_desc){.mode = 4}); return;
    case 9: bs_segment_reduce(g, bs_segments(g, p->ints, p->lengths), NULL); return;
    case 10: attention_of(g, p, p->ring, p->ring5, p->past, 1); return;
    case 11: attention_of(g, p, p->ring_narrow, p->ring_narrow, p->past, 1); return;
    case 12: attention_of(g, p, p->ring_rows, p->ring_rows, p->past, 1); return;
    case 13: attention_of(g, p, p->ring, p->ring, p->table, 1); return;
    case 14: attention_of(g, p, p->ring, p->ring, p->five, 1); return;
    case 15: attention_of(g, p, p->ring, none, p->past, 1); return;
    case 16: attention_of(g, p, p->ring, p->ring, p->past, 5); return;
    case 17: attention_of(g, p, p->ring, p->ring, p->past, -2); return;
    case 18: w.k = p->other; attention_of(g, &w, p->ring, p->ring, p->past, 1); return;
    case 19: w.v = bs_segments(g, p->y, p->lengths); attention_of(g, &w, p->ring, p->ring, p->past, 1); return;
    case 20: w.q = w.k = w.v = p->rows; attention_of(g, &w, p->ring, p->ring, p->past, 1); return;
    case 21: attention_of(g, p, p->x, p->x, p->past, 1); return;
    case 22: bs_state_append(g, p->ring, p->rows, p->past); return;
    case 23: bs_state_append(g, p->ring_narrow, p->q, p->past); return;
    case 24: bs_state_append(g, p->x, p->q, p->past); return;
    case 25: bs_state_append(g, p->ring, p->q, p->five); return;
    case 26: bs_state_append(g, p->ring, p->q, p->past); bs_state_append(g, p->ring, p->q, p->past); return;
    case 27: bs_state_append(g, p->ring, p->q, p->past); bs_state_write(g, p->ring, p->ring); return;
    default: bs_add(g, p->q, p->other); return;
    }
}
#define WRONG 29

static void test_builder_errors(void)
{
    int32_t refused = 0;
    for (int32_t i = 0; i < WRONG; i++) {
        bs_graph *g = new_graph();
        const pieces p = pieces_of(g);
        const bool sound = g->status == BS_OK;
        build_wrong(g, &p, i);
        refused += sound && g->status != BS_OK && g->error.message[0];
        if (!sound || g->status == BS_OK)
            printf("  wrong call %d: %s\n", i, g->status == BS_OK ? "it is taken" : g->error.message);
    }
    check(refused == WRONG, "%d of %d wrong calls are refused by a message", refused, WRONG);
    bs_graph *g = new_graph();
    const pieces p = pieces_of(g);
    check(bs_add(g, p.q, bs_segments(g, p.x, p.lengths)).id && g->status == BS_OK,
          "one `lengths` and one dimension give one domain");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_oracle();
    for (int32_t cached = 0; cached < 2; cached++) {
        test_attention(1, 0, cached);
        test_attention(3, 1, cached);
    }
    test_prefill_is_decode();
    test_decoder();
    test_wrong_data();
    test_unused();
    test_state_order();
    test_places_in_ring();
    test_images();
    test_builder_errors();
    return check_end();
}
