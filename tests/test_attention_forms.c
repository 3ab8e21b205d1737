/* tags: asan tsan */
/* test_attention_forms.c: every form of attention against the oracle; that bytes depend on positions alone; what is not
 * seen has no influence; data that must be refused. */
#include "segments_rig.h"

/* Ways of planning, and steps of a decoder, that mean something: on a device threads do not. */
#ifdef BS_TEST_ON_DEVICE
enum { WAY_STEP = 3, SMALLEST_STEP = 60 };
#else
enum { WAY_STEP = 1, SMALLEST_STEP = 1 };
#endif
#define LONG 320 /* rows a run: more than a tile of queries, and than a block of positions */

typedef enum mask_kind { NO_MASK, MASK_F32, MASK_I32, BIAS_OF_ALL, BIAS_OF_EACH } mask_kind;

typedef struct form {
    const char *name;
    int32_t heads, kv_heads, n, alibi, bidirectional, window; /* window 0: no cache */
    bool cross;
    mask_kind mask;
    float scale;
} form;

static const form forms[] = {
    {"grouped heads", 6, 2, 5, 0, 0, 0, false, NO_MASK, 0},
    {"grouped heads behind a cache", 4, 1, 8, 1, 0, 21, false, NO_MASK, 0},
    {"not causal", 3, 3, 4, 0, 1, 0, false, NO_MASK, 0.25f},
    {"not causal, behind a cache, with slopes", 2, 1, 7, 1, 1, 21, false, NO_MASK, 0},
    {"across domains", 2, 2, 6, 0, 1, 0, true, NO_MASK, 0},
    {"across domains, behind a cache", 4, 2, 6, 1, 1, 9, true, NO_MASK, 0},
    {"a mask", 2, 2, 6, 0, 1, 0, false, MASK_F32, 0},
    {"a mask of truths, causal", 2, 1, 6, 1, 0, 0, false, MASK_I32, 0},
    {"a mask across domains", 2, 2, 6, 0, 1, 0, true, MASK_I32, 0},
    {"a bias", 2, 2, 6, 0, 1, 0, false, BIAS_OF_ALL, 0},
    {"a bias of each head, causal, behind a cache", 3, 3, 4, 0, 0, 21, false, BIAS_OF_EACH, 0},
    {"a large head", 1, 1, 200, 0, 1, 0, false, NO_MASK, 0},
};
#define FORMS ((int32_t)(sizeof forms / sizeof *forms))
#define POSITIONS 40 /* of a bias */

/* The mask or bias of a form. */
static bs_value mask_of(bs_graph *g, const form *f, bs_dim rows, bs_value lengths)
{
    const bs_value none = {0};
    if (f->mask == NO_MASK)
        return none;
    if (f->mask >= BIAS_OF_ALL)
        return bs_input(g, "mask", BS_F32, BS_SHAPE3(f->mask == BIAS_OF_ALL ? 1 : f->heads, POSITIONS, POSITIONS));
    return bs_segments(g, f->mask == MASK_I32 ? bs_input(g, "mask", BS_I32, BS_SHAPE2(rows, 1))
                                              : bs_input(g, "mask", BS_F32, BS_SHAPE1(rows)),
                       lengths);
}

/* Inputs in this order: lengths, lengths of keys (cross), past (a cache), mask, q, k, v, ring. */
static bs_graph *form_net(const form *f)
{
    const bs_value none = {0};
    bs_graph *g = new_graph();
    const int32_t d = f->heads * f->n, dk = f->kv_heads * f->n;
    const bs_dim n = bs_symbol(g, "N", LONG), m = bs_symbol(g, "H", LONG), s = bs_symbol(g, "W", SEQS),
                 s2 = bs_symbol(g, "W2", SEQS);
    const bs_value lengths = bs_input(g, "rows", BS_I32, BS_SHAPE1(s)),
                   others = f->cross ? bs_input(g, "others", BS_I32, BS_SHAPE1(s2)) : lengths,
                   past = f->window ? bs_input(g, "past", BS_I32, BS_SHAPE1(f->cross ? s2 : s)) : none,
                   mask = mask_of(g, f, f->cross ? m : n, others);
    const bs_value q = bs_segments(g, bs_input(g, "q", BS_F32, BS_SHAPE2(n, d)), lengths),
                   k = bs_segments(g, bs_input(g, "k", BS_F32, BS_SHAPE2(f->cross ? m : n, dk)), others),
                   v = bs_segments(g, bs_input(g, "v", BS_F32, BS_SHAPE2(f->cross ? m : n, dk)), others);
    const bs_value ring =
        f->window ? bs_input(g, "ring", BS_F32, BS_SHAPE3(f->cross ? s2 : s, f->window, dk)) : none;
    const bs_attention_desc desc = {.name = "attend",
                                    .heads = f->heads,
                                    .alibi = f->alibi,
                                    .kv_heads = f->kv_heads,
                                    .bidirectional = f->bidirectional,
                                    .scale = f->scale};
    bs_output(g, "out", bs_collect(g, bs_attention_masked(g, q, k, v, ring, ring, past, mask, &desc)));
    return g;
}

/* ------------------------------------------------------------------------------------------- against the oracle */

static const int32_t cases[4][2][SEQS] = {{{3, 0, 7, 2}, {5, 1, 0, 9}},
                                          {{0, 0, 0, 1}, {0, 0, 0, 2}},
                                          {{12, 13, 1, 12}, {1, 30, 40, 2}},
                                          {{0, 17, 0, 0}, {3, 0, 0, 8}}};

/* Replaces what the oracle has made up: lengths and pasts that fit, scores that f32 tells apart, some keys hidden. */
static void give_data(against *a, const form *f, int32_t k)
{
    int32_t at = 0;
    for (int32_t side = 0; side < (f->cross ? 2 : 1); side++, at++)
        for (int32_t s = 0; s < SEQS; s++)
            ag_data[at][s] = cases[k][side][s];
    if (f->window)
        for (int32_t s = 0; s < SEQS; s++)
            ag_data[at][s] = f->mask ? check_below(20) : check_below(40);
    at += f->window != 0;
    for (int32_t i = 0; i < 1 << 14 && f->mask; i++)
        ag_data[at][i] = f->mask == MASK_I32             ? check_below(3)
                         : check_below(4) == 0 || k == 1 ? -INFINITY
                                                         : ag_data[at][i] * 0.25;
    for (at += f->mask != 0; at < a->n_inputs; at++)
        for (int32_t i = 0; i < 1 << 14; i++)
            ag_data[at][i] *= 0.125;
}

static double form_error(const form *f, against *a, const bs_graph *g, int32_t way, int32_t k)
{
    int64_t extent[3] = {0, 0, SEQS};
    for (int32_t s = 0; s < SEQS; s++) {
        extent[0] += cases[k][0][s];
        extent[1] += cases[k][1][s];
    }
    memset(a, 0, sizeof *a);
    against_inputs(a, g, NULL, &ways[way], extent);
    give_data(a, f, k);
    a->strided = k % 2;
    return error_of_run(a, g);
}

static void test_form(const form *f)
{
    static against a;
    double worst = 0;
    int32_t intact = 0;
    for (int32_t w = 0; w < WAYS; w += WAY_STEP) {
        const bs_graph *g = form_net(f);
        if (!start(g, &ways[w], NULL)) {
            worst = INFINITY;
            break;
        }
        for (int32_t k = 0; k < 4; k++) {
            const double error = form_error(f, &a, g, w, k);
            worst = !(error <= worst) ? error : worst;
        }
        intact += rig_intact(&r);
        bs_session_close(r.session);
    }
    check(worst < 1e-5 && intact == WAYS / WAY_STEP, "%s: as the oracle has it (%.1e)", f->name, worst);
}

/* ------------------------------------------------------------------------------------------- positions alone */

static float q_data[LONG][64], k_data[LONG][64], v_data[LONG][64], mask_data[LONG], whole[LONG][64], part[LONG][64];
static float ring_k[SEQS * 256 * 64], ring_v[SEQS * 256 * 64];

static void make_data(void)
{
    check_state = check_mixed(11);
    for (int32_t i = 0; i < LONG; i++) {
        for (int32_t k = 0; k < 64; k++) {
            q_data[i][k] = 3 * check_float();
            k_data[i][k] = 3 * check_float();
            v_data[i][k] = check_float();
        }
        mask_data[i] = i % 5 == 3 ? -INFINITY : check_float();
    }
}

/* Runs rows of these lengths, which begin at row `at` of the data; past may be NULL. */
static bool run_rows_of(const form *f, int32_t *lengths, int32_t *past, int32_t at, int32_t rows, float (*out)[64])
{
    const int32_t d = f->heads * f->n, dk = f->kv_heads * f->n;
    bs_buffer q = buffer_of(q_data[at], BS_F32, 2, rows, d, 0), k = buffer_of(k_data[at], BS_F32, 2, rows, dk, 0),
              v = buffer_of(v_data[at], BS_F32, 2, rows, dk, 0), y = buffer_of(out, BS_F32, 2, rows, d, 0);
    q.stride[0] = k.stride[0] = v.stride[0] = y.stride[0] = 64;
    q.stride[1] = k.stride[1] = v.stride[1] = y.stride[1] = 1;
    if (f->mask && !bind("mask", buffer_of(&mask_data[at], BS_F32, 1, rows, 0, 0)))
        return false;
    return bind("rows", buffer_of(lengths, BS_I32, 1, SEQS, 0, 0)) &&
           (!past || bind("past", buffer_of(past, BS_I32, 1, SEQS, 0, 0))) && bind("q", q) && bind("k", k) &&
           bind("v", v) && bind("out", y) && bs_run(r.session, &r.error) == BS_OK;
}

/* The net of form_net with states that are appended to. */
static bs_graph *decoder(const form *f)
{
    bs_graph *g = new_graph();
    const bs_value none = {0};
    const int32_t d = f->heads * f->n, dk = f->kv_heads * f->n;
    const bs_dim n = bs_symbol(g, "N", LONG);
    const bs_value lengths = bs_input(g, "rows", BS_I32, BS_SHAPE1(SEQS)),
                   past = f->window ? bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS)) : none,
                   mask = mask_of(g, f, n, lengths);
    const bs_value q = bs_segments(g, bs_input(g, "q", BS_F32, BS_SHAPE2(n, d)), lengths),
                   k = bs_segments(g, bs_input(g, "k", BS_F32, BS_SHAPE2(n, dk)), lengths),
                   v = bs_segments(g, bs_input(g, "v", BS_F32, BS_SHAPE2(n, dk)), lengths);
    bs_value ring[2] = {none, none};
    for (int32_t i = 0; i < 2 && f->window; i++)
        ring[i] = bs_state(g, i ? "ring_v" : "ring_k", BS_F32, BS_SHAPE3(SEQS, f->window, dk));
    const bs_attention_desc desc = {.heads = f->heads,
                                    .alibi = f->alibi,
                                    .kv_heads = f->kv_heads,
                                    .bidirectional = f->bidirectional};
    bs_output(g, "out", bs_collect(g, bs_attention_masked(g, q, k, v, ring[0], ring[1], past, mask, &desc)));
    for (int32_t i = 0; i < 2 && f->window; i++)
        bs_state_append(g, ring[i], i ? v : k, past);
    return g;
}

static int32_t same_rows(int32_t first, int32_t end, int32_t d)
{
    int32_t same = 0;
    for (int32_t i = first; i < end; i++)
        same += memcmp(whole[i], part[i], (size_t)d * sizeof(float)) == 0;
    return same;
}

/* A ragged batch, and each sequence alone. */
static void test_ragged(const form *f)
{
    static const int32_t lengths[SEQS] = {70, 1, 0, 230};
    int32_t now[SEQS], same = 0;
    memcpy(now, lengths, sizeof now);
    bool ok = start(decoder(f), &ways[1], NULL) && run_rows_of(f, now, NULL, 0, 301, whole);
    for (int32_t s = 0, at = 0; ok && s < SEQS; at += lengths[s++]) {
        memset(now, 0, sizeof now);
        now[s] = lengths[s];
        ok = lengths[s] == 0 || run_rows_of(f, now, NULL, at, lengths[s], &part[at]);
    }
    same = same_rows(0, 301, f->heads * f->n);
    check(ok && same == 301 && rig_intact(&r), "%s: a ragged batch has the bytes of its sequences alone (%d of 301)",
          f->name, same);
    bs_session_close(r.session);
}

/* A sequence in one run, and in steps behind a cache. */
static void test_steps(const form *f, int32_t way, int32_t step)
{
    int32_t now[SEQS] = {0, 300, 0, 0}, past[SEQS] = {0};
    memset(ring_k, 0, sizeof ring_k);
    memset(ring_v, 0, sizeof ring_v);
    bool ok = start(decoder(f), &ways[way], NULL) && run_rows_of(f, now, past, 0, 300, whole);
    bs_session_close(r.session);
    ok = ok && start(decoder(f), &ways[way], NULL);
    for (int32_t at = 0; ok && at < 300; at += now[1]) {
        past[1] = at;
        now[1] = step < 300 - at ? step : 300 - at;
        ok = run_rows_of(f, now, past, at, now[1], &part[at]);
    }
    const int32_t same = same_rows(0, 300, f->heads * f->n);
    check(ok && same == 300 && rig_intact(&r), "%s, window %d: the same bytes %d at a time (%d of 300)", f->name,
          f->window, step, same);
    bs_session_close(r.session);
}

/* ---------------------------------------------------------------------------------------------- what is not seen */

static void spoil(int32_t row)
{
    for (int32_t k = 0; k < 64; k++) {
        k_data[row][k] = k % 2 ? NAN : INFINITY;
        v_data[row][k] = k % 3 ? INFINITY : NAN;
    }
}

static void test_unseen(void)
{
    static const form causal = {"causal", 2, 1, 24, 0, 0, 0, false, NO_MASK, 0},
                      ring = {"ring", 2, 2, 12, 0, 0, 31, false, NO_MASK, 0},
                      hidden = {"hidden", 2, 2, 12, 0, 1, 0, false, MASK_F32, 0};
    int32_t lengths[SEQS] = {100, 60, 0, 0}, past[SEQS] = {0};
    make_data();
    bool ok = start(decoder(&causal), &ways[0], NULL) && run_rows_of(&causal, lengths, NULL, 0, 160, whole);
    spoil(77);
    ok = ok && run_rows_of(&causal, lengths, NULL, 0, 160, part);
    check(ok && same_rows(0, 77, 48) == 77 && same_rows(77, 100, 48) == 0 && same_rows(100, 160, 48) == 60,
          "what is no number reaches the rows that see it, and no others");
    bs_session_close(r.session);
    make_data();
    ok = start(decoder(&ring), &ways[0], NULL) && run_rows_of(&ring, lengths, past, 0, 160, whole);
    bs_session_close(r.session);
    spoil(40);
    ok = ok && start(decoder(&ring), &ways[0], NULL) && run_rows_of(&ring, lengths, past, 0, 160, part);
    check(ok && same_rows(0, 40, 24) == 40 && same_rows(40, 71, 24) == 0 && same_rows(71, 160, 24) == 89,
          "a window ends where it says, whatever lies before it");
    bs_session_close(r.session);
    make_data();
    ok = start(decoder(&hidden), &ways[0], NULL) && run_rows_of(&hidden, lengths, NULL, 0, 160, whole);
    for (int32_t i = 3; i < 160; i += 5)
        spoil(i);
    ok = ok && run_rows_of(&hidden, lengths, NULL, 0, 160, part);
    check(ok && same_rows(0, 160, 24) == 160, "hidden keys and their values have no influence, NaN included");
    bs_session_close(r.session);
    make_data();
}

/* ---------------------------------------------------------------------------------------------- what is refused */

static bool refused(const form *f, int32_t rows, int32_t keys, int32_t segments, int32_t past, const char *text)
{
    int32_t lengths[SEQS] = {rows}, others[SEQS] = {keys}, pasts[SEQS] = {0, 0, past, 0};
    static float q[LONG * 64], out[LONG * 64], bias[8 * POSITIONS * POSITIONS], ring[SEQS * 256 * 8];
    const int32_t d = f->heads * f->n, dk = f->kv_heads * f->n;
    bool ok = start(form_net(f), &ways[0], NULL) && bind("rows", buffer_of(lengths, BS_I32, 1, SEQS, 0, 0)) &&
              bind("q", buffer_of(q, BS_F32, 2, rows, d, 0)) && bind("out", buffer_of(out, BS_F32, 2, rows, d, 0)) &&
              bind("k", buffer_of(k_data, BS_F32, 2, keys, dk, 0)) &&
              bind("v", buffer_of(v_data, BS_F32, 2, keys, dk, 0)) &&
              (!f->cross || bind("others", buffer_of(others, BS_I32, 1, segments, 0, 0))) &&
              (!f->mask || bind("mask", buffer_of(bias, BS_F32, 3, f->mask == BIAS_OF_ALL ? 1 : f->heads, POSITIONS,
                                                  POSITIONS))) &&
              (!f->window || (bind("past", buffer_of(pasts, BS_I32, 1, segments, 0, 0)) &&
                              bind("ring", buffer_of(ring, BS_F32, 3, segments, f->window, dk))));
    const bs_status status = ok ? bs_run(r.session, &r.error) : BS_OK;
    ok = ok && (text ? status == BS_ERROR_DATA && strcmp(r.error.message, text) == 0 : status == BS_OK);
    if (!ok)
        printf("  %s\n", r.error.message);
    bs_session_close(r.session);
    return ok;
}

static void test_refused(void)
{
    static const form cross = {"", 2, 2, 3, 0, 1, 0, true, NO_MASK, 0},
                      bias = {"", 2, 2, 3, 0, 1, 0, false, BIAS_OF_EACH, 0},
                      cached = {"", 2, 2, 3, 0, 0, 9, false, BIAS_OF_ALL, 0},
                      both = {"", 2, 2, 3, 0, 1, 0, true, BIAS_OF_ALL, 0};
    check(refused(&cross, 5, 7, SEQS, 0, NULL) &&
              refused(&cross, 5, 7, SEQS - 1, 0, "attention \"attend\": operand 0 has 4 segments, operand 1 has 3"),
          "across domains there are as many segments in both");
    check(refused(&bias, 40, 40, SEQS, 0, NULL) &&
              refused(&bias, 41, 41, SEQS, 0,
                      "attention \"attend\": segment 0 has 41 positions and 41 of keys, its bias [40, 40]"),
          "a position beyond a bias is refused");
    check(refused(&cached, 5, 5, SEQS, 40, NULL) &&
              refused(&cached, 5, 5, SEQS, 1 << 30,
                      "attention \"attend\": segment 2 has 1073741824 positions and 1073741824 of keys, its bias [40, "
                      "40]"),
          "cached positions count");
    check(refused(&both, 40, 40, SEQS, 0, NULL) &&
              refused(&both, 3, 41, SEQS, 0,
                      "attention \"attend\": segment 0 has 3 positions and 41 of keys, its bias [40, 40]"),
          "and so do those of another domain's keys");
}

int main(int argc, char **argv)
{
    static const form ragged[] = {{"grouped heads", 6, 2, 9, 1, 0, 0, false, NO_MASK, 0},
                                  {"not causal, with a mask", 2, 2, 30, 0, 1, 0, false, MASK_F32, 0},
                                  {"not causal", 1, 1, 64, 0, 1, 0, false, NO_MASK, 0}};
    static const form decoders[] = {{"a decoder of one head", 1, 1, 16, 0, 0, 100, false, NO_MASK, 0},
                                    {"a decoder of grouped heads", 4, 2, 11, 1, 0, 256, false, NO_MASK, 0}};
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (int32_t i = 0; i < FORMS; i++)
        test_form(&forms[i]);
    make_data();
    for (int32_t i = 0; i < 3; i++)
        test_ragged(&ragged[i]);
    for (int32_t i = 0; i < 2; i++) {
        test_steps(&decoders[i], 1, SMALLEST_STEP);
        test_steps(&decoders[i], 2, 7 * SMALLEST_STEP);
        test_steps(&decoders[i], 0, 130);
    }
    test_unseen();
    test_refused();
    return check_end();
}
