/* tags: asan tsan shipped aarch64 32-bit */
/* test_segments.c: rows in segments - reductions against the oracle; a small decoder; images; what must be refused.
 * Attention: test_attention.c. */
#include "segments_rig.h"

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
    const bs_value at = bs_segment_index(g, x, past), here = bs_segment_index(g, wide, (bs_value){0});
    const bs_rope_desc pairs = {.heads = 2, .dims = 4, .base = 100.0f, .interleaved = 1};
    const bs_value q = bs_rope(g, x, at, &(bs_rope_desc){.heads = 2}), k = bs_rope(g, centred, here, &pairs);
    bs_output(g, "positions", bs_collect(g, at));
    bs_output(g, "turned", bs_collect(g, bs_attention(g, q, k, x, ring, ring, past, &desc)));
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
            const double error = fabs(ag_read(ag_element(&outputs[k], i), outputs[k].dtype) - oracle.cell[value][0][i]);
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

/* ------------------------------------------------------------------------------------------ a number per row */

/* Rows of rank 0 through every way that rows go: routed, gathered, collected, reduced; a constant of rank 0 as well. */
static bs_graph *number_net(void)
{
    static const int32_t modes[3] = {BS_GATHER_ADD, BS_GATHER_WEIGHTED, BS_GATHER_PLACE};
    static const char *const names[3] = {"sum", "weighted", "place"};
    bs_graph *g = new_graph();
    const bs_dim n = bs_symbol(g, "N", MOST);
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQS));
    const bs_value scores = bs_segments(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, 3)), lengths);
    const bs_value number = bs_segments(g, bs_input(g, "number", BS_F32, BS_SHAPE1(n)), lengths);
    for (int32_t i = 0; i < 3; i++) {
        const bool one = modes[i] == BS_GATHER_PLACE;
        const bs_route_desc desc = {.name = names[i], .protocol = BS_ROUTE_TOPK, .paths = 3, .k = one ? 1 : 2};
        const bs_router route = bs_route(g, scores, (bs_value){0}, &desc);
        bs_value out[3] = {{0}};
        for (int32_t p = 0; p < 2; p++) { /* path 2 gives nothing */
            out[p] = bs_scatter(g, route, p, number);
            out[p] = p == 0 ? out[p] : bs_mul(g, out[p], out[p]);
        }
        const bs_value y = bs_gather(g, route, out, one ? number : (bs_value){0}, &(bs_gather_desc){.mode = modes[i]});
        bs_output(g, names[i], bs_collect(g, y));
    }
    bs_output(g, "largest", bs_segment_reduce(g, number, &(bs_segment_reduce_desc){.mode = BS_SEGMENT_MAX}));
    bs_output(g, "constant", bs_constant(g, "constant", BS_F32, (bs_shape){0}));
    return g;
}

static void test_numbers(void)
{
    static against a;
    static net_table constant;
    const int64_t none[1] = {0};
    net_add(&constant, "constant", 0, none, 1);
    int32_t runs = 0;
    double worst = 0;
    for (int32_t w = 0; w < WAYS; w++) {
        const bs_graph *g = number_net();
        bs_buffer in[AG_SOURCES], out[AG_SOURCES];
        const int64_t extent[3] = {29, 1, 1};
        if (!start(g, &ways[w], &constant.table))
            break;
        memset(&a, 0, sizeof a);
        against_inputs(&a, g, &constant.table, &ways[w], extent);
        a.strided = w % 2;
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
        bs_session_close(r.session);
    }
    check(runs == WAYS && worst == 0, "rows that are one number each, as the oracle has them (%d runs, %.1e)", runs,
          worst);
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

/* The prompts again, token by token: what was hidden in one run. */
static void decode_tokens(const int32_t *prompt, const int32_t *tokens, const float (*hidden)[D])
{
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
    decode_tokens(prompt, tokens, (const float (*)[D])hidden);
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
    test_numbers();
    test_decoder();
    test_unused();
    test_images();
    test_builder_errors();
    return check_end();
}
