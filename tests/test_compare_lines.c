/* tags: small */
/* Promises: one number compared with each of a line, or each of a line with one number, gives for every kind what the
 * definition gives element by element, in lines longer than the part that is brought side by side, of numbers and of
 * floats; and as f32, scaled, the same numbers. */
#include "net.h"

enum { LINES = 5, WIDE = 300 }; /* two parts of 128 and some */
static int32_t numbers[LINES], line[WIDE], truths[LINES * WIDE];
static float floats[LINES], float_line[WIDE], scaled[LINES * WIDE];

static int32_t is(bs_compare_kind kind, int32_t a, int32_t b)
{
    switch (kind) {
    case BS_COMPARE_EQUAL: return a == b;
    case BS_COMPARE_NOT_EQUAL: return a != b;
    case BS_COMPARE_LESS: return a < b;
    case BS_COMPARE_LESS_EQUAL: return a <= b;
    case BS_COMPARE_GREATER: return a > b;
    case BS_COMPARE_GREATER_EQUAL: return a >= b;
    case BS_COMPARE_AND: return a && b;
    case BS_COMPARE_OR: return a || b;
    case BS_COMPARE_XOR: return !a != !b;
    case BS_COMPARE_COUNT: break;
    }
    return -1;
}

static void test_kind(bs_compare_kind kind, bs_dtype dtype, bool line_first)
{
    net n;
    bs_graph *g = net_begin(&n);
    const bs_value one = bs_input(g, "one", dtype, BS_SHAPE2(LINES, 1)),
                   many = bs_input(g, "many", dtype, BS_SHAPE2(1, WIDE));
    const bs_value truth = bs_compare(g, line_first ? many : one, line_first ? one : many, kind);
    bs_output(g, "truths", truth);
    bs_output(g, "scaled", bs_convert(g, truth, &(bs_convert_desc){.dtype = BS_F32, .scale = 0.25f}));
    const bool whole = dtype == BS_I32;
    bs_buffer a = {whole ? (void *)numbers : floats, dtype, 2, {LINES, 1}, {0}},
              b = {whole ? (void *)line : float_line, dtype, 2, {1, WIDE}, {0}},
              y = {truths, BS_I32, 2, {LINES, WIDE}, {0}}, z = {scaled, BS_F32, 2, {LINES, WIDE}, {0}};
    memset(truths, 0x55, sizeof truths);
    int32_t wrong = !net_start(&n, NULL, NULL) || bs_bind(n.session, "one", &a, NULL) != BS_OK ||
                    bs_bind(n.session, "many", &b, NULL) != BS_OK || bs_bind(n.session, "truths", &y, NULL) != BS_OK ||
                    bs_bind(n.session, "scaled", &z, NULL) != BS_OK || bs_run(n.session, &n.error) != BS_OK;
    for (int32_t i = 0; i < LINES * WIDE && !wrong; i++) {
        const int32_t x = numbers[i / WIDE], k = line[i % WIDE], want = line_first ? is(kind, k, x) : is(kind, x, k);
        wrong += truths[i] != want || scaled[i] != 0.25f * (float)want;
    }
    check(wrong == 0, "kind %d of %s, %s: %d are wrong %s", (int)kind, whole ? "numbers" : "floats",
          line_first ? "a line and one" : "one and a line", wrong, n.error.message);
    bs_session_close(n.session);
}

int main(void)
{
    check_seed(5);
    for (int32_t i = 0; i < WIDE; i++)
        float_line[i] = (float)(line[i] = check_below(4) - 1);
    for (int32_t i = 0; i < LINES; i++)
        floats[i] = (float)(numbers[i] = i - 2);
    for (int32_t kind = 0; kind < BS_COMPARE_COUNT; kind++)
        for (int32_t first = 0; first < 2; first++) {
            test_kind((bs_compare_kind)kind, BS_I32, first);
            if (kind < BS_COMPARE_AND)
                test_kind((bs_compare_kind)kind, BS_F32, first);
        }
    return check_end();
}
