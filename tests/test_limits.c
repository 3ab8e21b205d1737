/* tags: unsigned 32-bit */
/* Promises: sizes at and beyond what numbers can hold. A sum of bytes that does not fit never becomes a small number,
 * whatever is done to it afterwards; a plan, a model or a session that needs more than there can be is refused, with
 * the figure; and what this machine cannot count (32 bits) is refused too, never cut. */
#include "check.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "run/session.h"

#include <stdlib.h>

static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[1 << 20];

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static const bs_plan *plan_of(const bs_graph *g, const bs_plan_desc *desc, bs_error *error)
{
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    return bs_plan_create(&arena, NULL, g, desc, error);
}

/* ------------------------------------------------------------------------------------------------------------- the
 * type */

static void test_operations(void)
{
    const bs_bytes many = bs_bytes_of(UINT64_MAX), last = bs_bytes_of(UINT64_MAX - 1), one = bs_bytes_of(1),
                   zero = bs_bytes_of(0);
    const bs_bytes half = bs_bytes_of((uint64_t)1 << 32);
    check(bs_bytes_figure(bs_bytes_add(bs_bytes_of(2), bs_bytes_of(3))) == 5 &&
              bs_bytes_same(bs_bytes_add(last, zero), last),
          "sums that fit are sums");
    check(!bs_bytes_known(bs_bytes_add(last, one)) && !bs_bytes_known(bs_bytes_add(last, last)) &&
              !bs_bytes_known(bs_bytes_add(half, many)),
          "those that do not are too many");
    check(bs_bytes_figure(bs_bytes_sub(bs_bytes_of(5), bs_bytes_of(5))) == 0 &&
              bs_bytes_figure(bs_bytes_sub(last, one)) == UINT64_MAX - 2,
          "differences are differences");
    check(!bs_bytes_known(bs_bytes_sub(one, bs_bytes_of(2))) && !bs_bytes_known(bs_bytes_sub(zero, last)),
          "what would be below zero is too many");
    check(bs_bytes_figure(bs_bytes_times(bs_bytes_of(3), 5)) == 15 &&
              bs_bytes_figure(bs_bytes_times(last, 1)) == UINT64_MAX - 1 &&
              bs_bytes_figure(bs_bytes_times(last, 0)) == 0 && bs_bytes_figure(bs_bytes_array(7, 4)) == 28 &&
              bs_bytes_figure(bs_bytes_product(bs_bytes_of(((uint64_t)1 << 32) - 1), half)) ==
                  UINT64_MAX - (((uint64_t)1 << 32) - 1),
          "products that fit are products");
    check(!bs_bytes_known(bs_bytes_times(half, (int64_t)1 << 32)) &&
              !bs_bytes_known(bs_bytes_times(bs_bytes_of(3), (int64_t)(UINT64_MAX / 3) + 1)) &&
              !bs_bytes_known(bs_bytes_product(half, half)) && !bs_bytes_known(bs_bytes_array(INT64_MAX, 3)),
          "those that do not are too many");
    check(!bs_bytes_known(bs_bytes_times(one, -1)) && !bs_bytes_known(bs_bytes_array(-1, 0)) &&
              !bs_bytes_known(bs_bytes_times(zero, INT64_MIN)),
          "so is a count below zero");
    check(bs_bytes_figure(bs_bytes_align(zero)) == 0 && bs_bytes_figure(bs_bytes_align(one)) == 64 &&
              bs_bytes_figure(bs_bytes_align(bs_bytes_of(64))) == 64 &&
              bs_bytes_figure(bs_bytes_align(bs_bytes_of(UINT64_MAX - 63))) == UINT64_MAX - 63 &&
              bs_bytes_figure(bs_bytes_align_down(bs_bytes_of(127), 64)) == 64,
          "what is aligned is aligned");
    check(!bs_bytes_known(bs_bytes_align(bs_bytes_of(UINT64_MAX - 62))) &&
              !bs_bytes_known(bs_bytes_align_to(last, 4096)),
          "or too many");
    check(bs_bytes_figure(bs_bytes_share(bs_bytes_of(7), 2)) == 3 && bs_bytes_same(bs_bytes_max(one, last), last) &&
              bs_bytes_same(bs_bytes_min(one, many), one) && bs_bytes_less(one, last) && !bs_bytes_less(last, last) &&
              bs_bytes_less(last, many) && bs_bytes_any(one) && !bs_bytes_any(zero) &&
              bs_bytes_aligned_to(bs_bytes_of(128), 64) && !bs_bytes_aligned_to(bs_bytes_of(129), 64),
          "shares and comparisons are what they say");
}

/* Whatever is done to too many, it stays that. */
static void test_sticky(void)
{
    const bs_bytes many = bs_bytes_of(BS_BYTES_TOO_MANY),
                   results[] = {bs_bytes_add(many, bs_bytes_of(0)),
                                bs_bytes_add(bs_bytes_of(1), many),
                                bs_bytes_sub(many, bs_bytes_of(1)),
                                bs_bytes_sub(many, many),
                                bs_bytes_sub(bs_bytes_of(1), many),
                                bs_bytes_times(many, 0),
                                bs_bytes_times(many, 1),
                                bs_bytes_product(many, bs_bytes_of(0)),
                                bs_bytes_product(bs_bytes_of(0), many),
                                bs_bytes_share(many, 2),
                                bs_bytes_align(many),
                                bs_bytes_align_to(many, 1),
                                bs_bytes_align_down(many, 64),
                                bs_bytes_max(many, bs_bytes_of(0)),
                                bs_bytes_align(bs_bytes_add(bs_bytes_align(many), bs_bytes_of(64)))};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        check(!bs_bytes_known(results[i]), "too many stays too many (%d)", (int)i);
    bs_bytes used = many;
    check(!bs_bytes_known(bs_bytes_place(&used, 1, 1)) && !bs_bytes_known(used) && !bs_bytes_aligned_to(many, 1),
          "also where arrays are placed");
}

/* The one way to a size: `most` stands for what a machine can count, here and on one of 32 bits. */
static void test_fit(void)
{
    const uint64_t of_32 = UINT32_MAX;
    size_t size = 77;
    check(bs_bytes_fit(bs_bytes_of(of_32), of_32, &size) && size == of_32,
          "a size that a machine of 32 bits can count is one");
    size = 77;
    check(!bs_bytes_fit(bs_bytes_of(of_32 + 1), of_32, &size) && size == 77,
          "one byte more is refused, and cuts nothing");
    check(!bs_bytes_fit(bs_bytes_of(BS_BYTES_TOO_MANY), UINT64_MAX, &size) && size == 77,
          "too many is no size, whatever the limit");
    check(bs_bytes_fit(bs_bytes_of(((uint64_t)1 << 32) + 64), UINT64_MAX, &size) == (SIZE_MAX > UINT32_MAX),
          "a larger one where this machine can count it");
    bs_arena arena;
    bs_arena_init(&arena, "some", plan_memory, 4096);
    check(!bs_take(&arena, bs_bytes_of(((uint64_t)1 << 32) + 64)) && !bs_take(&arena, bs_bytes_of(UINT64_MAX)) &&
              arena.used == 0 && bs_take(&arena, bs_bytes_of(4096)) && !bs_take(&arena, bs_bytes_of(1)),
          "an arena gives what it has");
}

/* -------------------------------------------------------------------------------------------------------- plans
 * refused */

/* Patches whose lives sum up to more than 2^64, and a kernel that needs scratch beside them. */
static bs_graph *saturated(void)
{
    enum { ALIVE = 200 };
    bs_graph *g = new_graph();
    bs_value x = bs_input(g, "frame", BS_F32, BS_SHAPE3(1, 32, 32)), alive[ALIVE];
    x = bs_patches(g, x, &(bs_patches_desc){.size = 32});
    for (int32_t i = 0; i < 10; i++)
        x = bs_concat(g, (const bs_value[]){x, x, x, x, x, x, x, x}, 8, 0);
    for (int32_t i = 0; i < ALIVE; i++)
        alive[i] = bs_affine(g, x, 1.0f + (float)i, 0);
    for (int32_t i = 1; i < ALIVE; i++)
        alive[0] = bs_add(g, alive[0], alive[i]);
    x = bs_slice(g, alive[0], &(bs_slice_desc){.length = 1});
    x = bs_conv2d(
        g, x,
        &(bs_conv2d_desc){.name = "column", .out = 12, .kernel_h = 33, .kernel_w = 1, .dilation = 250, .no_bias = 1});
    x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "winograd", .out = 12, .no_bias = 1});
    bs_output(g, "y", bs_assemble(g, x));
    return g;
}

/* What a program would do that believes the plan. The arenas are on the heap: sanitizers see what lies beside them. */
static void run_as_planned(const bs_plan *p)
{
    static float column[12 * 33], winograd[12 * 12 * 9], in[32 * 32], out[12 * 32 * 32];
    const bs_tensor tensors[] = {{"column.weight", BS_F32, 4, {12, 1, 33, 1}, column},
                                 {"winograd.weight", BS_F32, 4, {12, 12, 3, 3}, winograd}};
    const bs_tensor_table table = {tensors, 2};
    bs_sizes sizes;
    bs_memory memory;
    bs_error error;
    bs_plan_sizes(p, &sizes);
    const uint64_t bytes[4] = {sizes.persistent, sizes.transient, sizes.staging, sizes.slots};
    bs_arena *arenas[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(arenas[i], "arena", bytes[i] < 1u << 30 ? aligned_alloc(64, (size_t)bytes[i] + 64) : NULL,
                      (size_t)bytes[i]);
    bs_session *s = bs_session_create(&memory, p, &(bs_session_desc){.weights = bs_weights_from_table(&table)}, &error);
    const bs_buffer from = {in, BS_F32, 3, {1, 32, 32, 0}, {0, 0, 0, 0}},
                    to = {out, BS_F32, 3, {12, 32, 32, 0}, {0, 0, 0, 0}};
    if (s && bs_bind(s, "frame", &from, &error) == BS_OK && bs_bind(s, "y", &to, &error) == BS_OK)
        bs_run(s, &error);
    bs_session_close(s);
    for (int32_t i = 0; i < 4; i++)
        free(arenas[i]->base);
}

static void test_saturated_plan(void)
{
    static const bs_tier tiers[] = {BS_TIER_SCALAR, BS_TIER_AUTO};
    for (int32_t k = 0; k < 12; k++) {
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        const bs_plan_desc desc = {.tier = (int32_t)tiers[k % 2],
                                   .order = (int32_t[]){BS_ORDER_AUTO, BS_ORDER_DEPTH, BS_ORDER_BREADTH}[k / 2 % 3],
                                   .threads = k < 6 ? 1 : 3};
        const bs_graph *g = saturated();
        check(bs_graph_check(g, &error) == BS_OK, "the graph is sound: %s", error.message);
        const bs_plan *p = plan_of(g, &desc, &error);
        check(!p && error.status == BS_ERROR_LIMIT,
              "lives of more than 2^64 bytes are refused: order %d, tier %d, %d threads: %s", desc.order, desc.tier,
              desc.threads, error.message);
        if (p)
            run_as_planned(p);
    }
}

/* ------------------------------------------------------------------------------------ more than 32 bits can count */

#define FOUR_GB ((uint64_t)1 << 32)

/* A session that needs more is refused with the whole figure, on machines of any width; none is begun in a part of
 * it. */
static void session_refused(const bs_graph *g, const char *what)
{
    static _Alignas(64) uint8_t memory[4][1 << 17];
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR, .no_fusion = 1}, &error);
    check(p != NULL, "%s can be planned anywhere: a workstation plans for a board: %s", what, error.message);
    if (!p)
        return;
    bs_sizes sizes;
    bs_memory m;
    bs_plan_sizes(p, &sizes);
    bs_arena *arenas[4] = {&m.persistent, &m.transient, &m.staging, &m.slots};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(arenas[i], "arena", memory[i], sizeof memory[i]);
    const uint64_t most = sizes.persistent > FOUR_GB ? sizes.persistent : sizes.transient;
    check(most > FOUR_GB && most % FOUR_GB < sizeof memory[0],
          "%s takes 4 GB and little: what a cut would leave of it fits", what);
    check(!bs_session_create(&m, p, NULL, &error) && error.status == BS_ERROR_ARENA && error.needed == most &&
              error.available == sizeof memory[0],
          "%s: %s", what, error.message);
    check(m.persistent.used == 0 && m.transient.used == 0, "and leaves its arenas alone");
}

static void test_sessions(void)
{
    bs_graph *g = new_graph();
    bs_value large = bs_state(g, "large", BS_F32, BS_SHAPE2(4, (1 << 28) + 4));
    bs_state_write(g, large, bs_affine(g, large, 1, 1));
    bs_output(g, "y", bs_affine(g, large, 2, 2));
    session_refused(g, "a state of 4 GB");
    g = new_graph();
    const bs_value x = bs_affine(g, bs_input(g, "x", BS_F32, BS_SHAPE2(4, (1 << 28) + 4)), 1, 1);
    bs_output(g, "y", bs_affine(g, bs_affine(g, x, 2, 2), 3, 3));
    session_refused(g, "an activation of 4 GB");
}

/* The figures in messages are whole. */
static void test_figures(void)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_graph *g = new_graph();
    bs_block_begin(g, "large");
    bs_value y = bs_linear(g, bs_input(g, "x", BS_F32, BS_SHAPE1(1 << 16)),
                           &(bs_linear_desc){.name = "l", .out = 1 << 16});
    bs_block_end(g);
    bs_output(g, "y", y);
    const bs_plan *p = plan_of(g, &(bs_plan_desc){.tier = BS_TIER_SCALAR, .slot_bytes = FOUR_GB + 64}, &error);
    check(!p && error.status == BS_ERROR_ARENA && error.available == FOUR_GB + 64 && error.needed > 4 * FOUR_GB &&
              strstr(error.message, "4294967360 are free"),
          "slots of more than 4 GB that are too small: %s", error.message);
    static const bs_trace_unit unit = {.read_bytes = FOUR_GB, .slot_bytes = 2 * FOUR_GB};
    static const bs_trace_phase phase = {0, 0, 1};
    static const int32_t zero = 0;
    const bs_trace trace = {
        .units = &unit, .n_units = 1, .phases = &phase, .n_phases = 1, .phase_units = &zero, .n_phase_units = 1};
    bs_replay_result result;
    bs_arena arena;
    bs_arena_init(&arena, "workspace", plan_memory, sizeof plan_memory);
    const bs_status status = bs_replay(&trace, &(bs_replay_desc){.slot_bytes = FOUR_GB + 64, .bytes_per_second = 1},
                                       &arena, &result, &error);
    check(status == BS_ERROR_ARENA && error.available == FOUR_GB + 64 && error.needed == 2 * FOUR_GB &&
              strstr(error.message, "4294967360 are free"),
          "and those of a replay: %s", error.message);
}

int main(void)
{
    test_operations();
    test_sticky();
    test_fit();
    test_saturated_plan();
    test_sessions();
    test_figures();
    return check_end();
}
