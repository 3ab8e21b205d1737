// An LSTM over sequences of different lengths, in two runs: the second goes on where the first one ended.
#include "brainstorm.h"
#include <stdio.h>

enum { ROWS = 4, MOST = 8, WIDTH = 6, UNITS = 16 }; // sequences, most steps in a run, numbers a step, units

BS_ALIGNED static uint8_t persistent[1 << 19], transient[1 << 16], staging[1 << 14];
static struct {
    float w_ih[4 * UNITS * WIDTH], w_hh[4 * UNITS * UNITS], b_ih[4 * UNITS], b_hh[4 * UNITS], w_y[UNITS], b_y[1];
} weights;
static const bs_tensor tensors[] = {{"lstm.weight_ih", BS_F32, 2, {4 * UNITS, WIDTH}, weights.w_ih},
                                    {"lstm.weight_hh", BS_F32, 2, {4 * UNITS, UNITS}, weights.w_hh},
                                    {"lstm.bias_ih", BS_F32, 1, {4 * UNITS}, weights.b_ih},
                                    {"lstm.bias_hh", BS_F32, 1, {4 * UNITS}, weights.b_hh},
                                    {"y.weight", BS_F32, 2, {1, UNITS}, weights.w_y},
                                    {"y.bias", BS_F32, 1, {1}, weights.b_y}};

static void build(bs_graph *g)
{
    const bs_dim steps = bs_symbol(g, "steps", MOST); // of the longest sequence of a run
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(ROWS, steps, WIDTH)), BS_NONE);
    const bs_value length = bs_rows(g, bs_input(g, "length", BS_I32, BS_SHAPE2(ROWS, 1)), x);
    const bs_value h_kept = bs_state(g, "h", BS_F32, BS_SHAPE2(ROWS, UNITS)); // zeros before the first run
    const bs_value c_kept = bs_state(g, "c", BS_F32, BS_SHAPE2(ROWS, UNITS));

    const bs_router loop = bs_loop_begin(g, x, length, &(bs_loop_desc){.name = "time", .over = x});
    const bs_value h = bs_loop_carry(g, loop, bs_rows(g, h_kept, x));
    const bs_value c = bs_loop_carry(g, loop, bs_rows(g, c_kept, x));
    bs_value c_next;
    const bs_value h_next = bs_lstm(g, bs_loop_slice(g, loop, x), h, c, &(bs_recurrent_desc){.name = "lstm"}, &c_next);
    const bs_value y = bs_linear(g, h_next, &(bs_linear_desc){.name = "y", .out = 1});
    const bs_value h_last = bs_loop_next(g, loop, h, h_next), c_last = bs_loop_next(g, loop, c, c_next);
    const bs_value all = bs_loop_collect(g, loop, y);
    bs_loop_end(g, loop, BS_NONE);

    bs_output(g, "y", bs_collect(g, all));
    bs_state_write(g, h_kept, bs_collect(g, h_last));
    bs_state_write(g, c_kept, bs_collect(g, c_last));
}

static void fill(float *data, size_t count, uint32_t *seed) // evenly from -0.5 to 0.5
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((*seed = *seed * 1664525u + 1013904223u) >> 8) / 16777216.0f - 0.5f;
}

static void show(const float *y, const int32_t *length, int32_t steps, const bs_decision *trips)
{
    for (int row = 0; row < ROWS; row++) {
        printf("row %d, length %d:", row, (int)length[row]);
        for (int t = 0; t < steps; t++)
            printf(" %.5f", (double)y[row * steps + t]);
        printf("\n");
    }
    printf("computed: %d steps of %d\n", (int)trips->counts[0], ROWS * (int)steps);
}

int main(void)
{
    static int32_t length[2][ROWS] = {{6, 1, 0, 4}, {2, 3, 1, 0}};
    static const int32_t steps[2] = {6, 3};
    static float x[ROWS * MOST * WIDTH], y[ROWS * MOST];
    uint32_t seed = 1;
    fill((float *)&weights, sizeof weights / sizeof(float), &seed);

    bs_error error = {0};
    bs_memory memory = {0};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    build(g);
    const bs_tensor_table table = {tensors, sizeof tensors / sizeof *tensors};
    const bs_session_desc desc = {.weights = bs_weights_from_table(&table)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    bs_session *s = plan ? bs_session_create(&memory, plan, &desc, &error) : NULL;

    for (int run = 0; s && run < 2; run++) {
        const bs_buffer in = {x, BS_F32, 3, {ROWS, steps[run], WIDTH}, {0}};
        const bs_buffer lengths = {length[run], BS_I32, 2, {ROWS, 1}, {0}};
        const bs_buffer out = {y, BS_F32, 3, {ROWS, steps[run], 1}, {0}};
        bs_decision trips;
        fill(x, (size_t)(ROWS * steps[run] * WIDTH), &seed);
        if (bs_bind(s, "x", &in, &error) || bs_bind(s, "length", &lengths, &error) || bs_bind(s, "y", &out, &error) ||
            bs_run(s, &error) || bs_decision_get(s, "time", &trips))
            break;
        show(y, length[run], steps[run], &trips);
    }
    if (error.status)
        printf("%s\n", error.message);
    bs_session_close(s);
    return error.status != BS_OK;
}
