/* tags: asan tsan */
/* Promises: in whatever order a record holds the weights of a layer, of two bytes or of four, what is streamed gives
 * the bytes of what is resident.
 *
 * Relies on: against.h (exact arenas), flat_source.h (a record a block). */
#define _POSIX_C_SOURCE 200809L
#include "against.h"
#include "flat_source.h"

enum { ROWS = 3, WIDTH = 400, LAYERS = 2 };

static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20];
static float in[ROWS][WIDTH], out[2][ROWS][WIDTH];

/* Layers too large for one read beside each other, each with a norm behind it: weights that are all of one
 * dimension. */
static const bs_graph *build(void)
{
    static char names[LAYERS][2][16];
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(ROWS, WIDTH)), (bs_value){0});
    for (int32_t i = 0; i < LAYERS; i++) {
        snprintf(names[i][0], sizeof names[i][0], "layer%d", i);
        snprintf(names[i][1], sizeof names[i][1], "norm%d", i);
        bs_block_begin(g, names[i][0]);
        x = bs_linear(g, x, &(bs_linear_desc){.name = names[i][0], .out = i + 1 == LAYERS ? WIDTH : WIDTH - 9 * i - 8});
        x = bs_layer_norm(g, x, &(bs_norm_desc){.name = names[i][1]});
        bs_block_end(g);
    }
    bs_output(g, "out", bs_collect(g, x));
    return g;
}

static bool run_into(float (*to)[WIDTH], uint64_t slot_bytes, int32_t chunk_bytes, bs_error *error)
{
    rig r;
    const bs_graph *g = build();
    const bs_plan_desc desc = {.slot_bytes = slot_bytes, .chunk_bytes = chunk_bytes};
    const bs_weights weights = flat_weights(&source, 1);
    const bs_buffer buffers[] = {{in, BS_F32, 2, {ROWS, WIDTH}, {0}}, {to, BS_F32, 2, {ROWS, WIDTH}, {0}}};
    memset(to, 0, sizeof out[0]);
    bool ok = rig_plan(&r, g, &desc) &&
              rig_streamed(&r, &weights, &(bs_stream_desc){.check_records = slot_bytes > 0}, 0x5A);
    ok = ok && bs_bind(r.session, "in", &buffers[0], &r.error) == BS_OK &&
         bs_bind(r.session, "out", &buffers[1], &r.error) == BS_OK && bs_run(r.session, &r.error) == BS_OK;
    *error = r.error;
    bs_session_close(r.session);
    return ok && rig_intact(&r);
}

static void test_order(bs_dtype dtype)
{
    for (int32_t way = 0; way < 4; way++) {
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        int32_t same = 0;
        flat_backwards = way % 2;
        flat_wide_lines = way / 2;
        flat_init(&source, build(), NULL, dtype);
        const bool resident = run_into(out[0], 0, 0, &error);
        for (int32_t chunk = 4096; resident && chunk <= 1 << 20; chunk *= 16)
            same += run_into(out[1], UINT64_MAX, chunk, &error) && memcmp(out[0], out[1], sizeof out[0]) == 0;
        check(same == 3 && out[0][1][7] != 0,
              "%s, %s first, lines of %s: streamed in chunks of three sizes as resident %s", bs_dtype_name(dtype),
              flat_backwards ? "bias" : "weight", flat_wide_lines ? "f32" : "that", error.message);
    }
}

int main(void)
{
    check_seed(3);
    for (int32_t i = 0; i < ROWS * WIDTH; i++)
        in[i / WIDTH][i % WIDTH] = (float)check_below(64) / 16 - 2;
    test_order(BS_F32);
    test_order(BS_F16);
    test_order(BS_BF16);
    return check_end();
}
