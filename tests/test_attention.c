/* tags: asan tsan shipped aarch64 32-bit */
/* test_attention.c: attention against a plain reference in double precision, with histories of whole sequences where
 * the library has a ring; what a cache holds; lengths and pasts that must be refused. */
#include "segments_rig.h"

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

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (int32_t cached = 0; cached < 2; cached++) {
        test_attention(1, 0, cached);
        test_attention(3, 1, cached);
    }
    test_prefill_is_decode();
    test_wrong_data();
    test_state_order();
    test_places_in_ring();
    return check_end();
}
