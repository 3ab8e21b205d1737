// Writes tokens, each from the one before, until the end of sequence or as many as each row may have.
#include "brainstorm.h"
#include <stdio.h>

enum { ROWS = 4, WORDS = 20, WIDTH = 8, UNITS = 16, BOUND = 12, END = 0 }; // END: the token that ends a sequence

BS_ALIGNED static uint8_t persistent[1 << 19], transient[1 << 16], staging[1 << 14];
static struct {
    float embedding[WORDS * WIDTH], w_ih[3 * UNITS * WIDTH], w_hh[3 * UNITS * UNITS], w_words[WORDS * UNITS];
} weights;
static const int32_t end_of_sequence[1] = {END};
static const bs_tensor tensors[] = {{"embedding", BS_F32, 2, {WORDS, WIDTH}, weights.embedding},
                                    {"gru.weight_ih", BS_F32, 2, {3 * UNITS, WIDTH}, weights.w_ih},
                                    {"gru.weight_hh", BS_F32, 2, {3 * UNITS, UNITS}, weights.w_hh},
                                    {"words.weight", BS_F32, 2, {WORDS, UNITS}, weights.w_words},
                                    {"end", BS_I32, 1, {1}, end_of_sequence}};

static void build(bs_graph *g, bool limited)
{
    const bs_value first = bs_rows(g, bs_input(g, "first", BS_I32, BS_SHAPE2(ROWS, 1)), BS_NONE);
    const bs_value state = bs_rows(g, bs_input(g, "state", BS_F32, BS_SHAPE2(ROWS, UNITS)), first);
    const bs_value most = limited ? bs_rows(g, bs_input(g, "most", BS_I32, BS_SHAPE2(ROWS, 1)), first) : BS_NONE;
    const bs_value table = bs_constant(g, "embedding", BS_F32, BS_SHAPE2(WORDS, WIDTH));
    const bs_value end = bs_constant(g, "end", BS_I32, BS_SHAPE1(1));

    const bs_router loop = bs_loop_begin(g, first, most, &(bs_loop_desc){.name = "decode", .bound = BOUND});
    const bs_value token = bs_loop_carry(g, loop, first), h = bs_loop_carry(g, loop, state);
    const bs_value x = bs_reshape(g, bs_gather_rows(g, table, token), BS_SHAPE1(WIDTH));
    const bs_value h_next = bs_gru(g, x, h, &(bs_recurrent_desc){.name = "gru", .no_bias = 1});
    const bs_value scores = bs_linear(g, h_next, &(bs_linear_desc){.name = "words", .out = WORDS, .no_bias = 1});
    const bs_value next = bs_argmax(g, scores);
    bs_loop_next(g, loop, token, next);
    bs_loop_next(g, loop, h, h_next);
    const bs_value tokens = bs_loop_collect(g, loop, next), count = bs_loop_trips(g, loop);
    bs_loop_end(g, loop, bs_compare(g, next, end, BS_COMPARE_NOT_EQUAL));

    bs_output(g, "tokens", bs_collect(g, tokens));
    bs_output(g, "count", bs_collect(g, count));
}

static void fill(float *data, size_t count, uint32_t *seed) // evenly from -2 to 2
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((*seed = *seed * 1664525u + 1013904223u) >> 8) / 4194304.0f - 2.0f;
}

/* most: the tokens that each row may have, or NULL. */
static void decode(int32_t *most)
{
    static int32_t first[ROWS] = {1, 2, 3, 4}, tokens[ROWS][BOUND], count[ROWS];
    static float state[ROWS * UNITS];
    uint32_t seed = 35;
    fill((float *)&weights, sizeof weights / sizeof(float), &seed);
    fill(state, ROWS * UNITS, &seed);

    bs_error error = {0};
    bs_memory memory = {0};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    build(g, most != NULL);
    const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : NULL;

    const bs_buffer in = {first, BS_I32, 2, {ROWS, 1}, {0}}, from = {state, BS_F32, 2, {ROWS, UNITS}, {0}};
    const bs_buffer limit = {most, BS_I32, 2, {ROWS, 1}, {0}}, counted = {count, BS_I32, 2, {ROWS, 1}, {0}};
    const bs_buffer out = {tokens, BS_I32, 3, {ROWS, BOUND, 1}, {0}};
    if (!s || bs_bind(s, "first", &in, &error) || bs_bind(s, "state", &from, &error) ||
        (most && bs_bind(s, "most", &limit, &error)) || bs_bind(s, "tokens", &out, &error) ||
        bs_bind(s, "count", &counted, &error) || bs_run(s, &error))
        printf("%s\n", error.message);
    for (int row = 0; row < ROWS && !error.status; row++) {
        printf("row %d, %d tokens:", row, (int)count[row]);
        for (int i = 0; i < count[row]; i++)
            printf(" %d", (int)tokens[row][i]);
        printf("\n");
    }
    bs_session_close(s);
}

int main(void)
{
    decode((int32_t[]){BOUND, BOUND, 5, 0});     // row 2 may have 5 tokens, row 3 none
    decode((int32_t[]){BOUND, BOUND + 1, 5, 0}); // more than there is room for
    decode(NULL);                                // until the end of sequence, whenever it comes
    return 0;
}
