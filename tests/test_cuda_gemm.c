/* tags: order asan tsan */
/* test_cuda_gemm.c - linear, matmul, attention and segments on a device: the CPU's results, whatever the shapes; and
 * the same bytes for a row however many others there are, and for a sequence in one run or token by token. */
#include "cuda_rig.h"

static const bs_value none = {0};

/* ------------------------------------------------------------------------------------------------------ linear */

static void linear_case(int32_t lines, int32_t k, int32_t out, const bs_linear_desc *desc, bs_shape shape, int32_t half)
{
    char name[96];
    cuda_rig r;
    bs_linear_desc d = desc ? *desc : (bs_linear_desc){0};
    snprintf(name, sizeof name, "linear %d x %d -> %d, rank %d, act %d", lines, k, out, shape.rank, d.act);
    bs_graph *g = rig_begin(&r, name);
    d.name = "l";
    d.out = out;
    bs_output(g, "y", bs_linear(g, bs_input(g, "x", BS_F32, shape), &d));
    rig_agree(&r, &(rig_how){.half = half});
}

static void test_linear_shapes(void)
{
    static const int32_t lines[] = {1, 2, 7, 8, 9, 31, 33, 64, 65, 130}, k[] = {1, 3, 4, 15, 16, 17, 64, 67, 128, 200};
    static const int32_t out[] = {1, 5, 15, 16, 17, 63, 64, 65, 130, 3};
    for (int32_t half = 0; half < 2; half++)
        for (int32_t i = 0; i < 10; i++)
            for (int32_t j = 0; j < 10; j += 3)
                linear_case(lines[i], k[(i + j) % 10], out[(3 * i + j) % 10], NULL,
                            BS_SHAPE2(lines[i], k[(i + j) % 10]), half);
    for (int32_t half = 0; half < 2; half++) {
        linear_case(1, 33, 18, NULL, BS_SHAPE1(33), half);
        linear_case(15, 12, 9, NULL, BS_SHAPE3(3, 5, 12), half);
        linear_case(84, 20, 7, NULL, BS_SHAPE3(12, 7, 20), half);
        linear_case(36, 8, 66, NULL, BS_SHAPE4(3, 2, 6, 8), half);
    }
}

static void test_linear_activations(void)
{
    static const struct {
        int32_t act;
        float param;
    } acts[] = {{BS_RELU, 0}, {BS_LEAKY_RELU, 0.2f}, {BS_PRELU, 0}, {BS_SIGMOID, 0},
                {BS_TANH, 0}, {BS_GELU, 0},          {BS_SILU, 0},  {BS_CLIP, 0.7f}};
    for (int32_t i = 0; i < (int32_t)(sizeof acts / sizeof *acts); i++)
        for (int32_t half = 0; half < 2; half++) {
            linear_case(5, 24, 20, &(bs_linear_desc){.act = acts[i].act, .act_param = acts[i].param, .no_bias = i & 1},
                        BS_SHAPE2(5, 24), half);
            linear_case(40, 24, 20, &(bs_linear_desc){.act = acts[i].act, .act_param = acts[i].param, .no_bias = half},
                        BS_SHAPE2(40, 24), half);
        }
}

/* Rows of a domain, and tiles of them. */
static void test_linear_rows(void)
{
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++)
        for (int32_t half = 0; half < 2; half++) {
            cuda_rig r;
            bs_graph *g = rig_begin(&r, "linear of rows");
            const bs_dim n = bs_symbol(g, "N", 150);
            bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, 36)), none);
            x = bs_linear(g, x, &(bs_linear_desc){.name = "a", .out = 70, .act = BS_GELU});
            x = bs_linear(g, x, &(bs_linear_desc){.name = "b", .out = 19});
            bs_output(g, "y", bs_collect(g, x));
            rig_extent(&r, "x", order == BS_ORDER_BREADTH ? 150 : 77, 36, 0, 0);
            rig_agree(&r, &(rig_how){.half = half, .order = order});
        }
}

/* ----------------------------------------------------------------------------------------------------- experts */

#define TOKENS 58
#define FEATURES 40
static float tokens[TOKENS][FEATURES];
static int32_t labels[TOKENS];

static bs_value expert(bs_graph *g, bs_value x, void *user)
{
    const int32_t wide = *(const int32_t *)user;
    x = bs_linear(g, x, &(bs_linear_desc){.name = "up", .out = wide, .act = BS_SILU});
    return bs_linear(g, x, &(bs_linear_desc){.name = "down", .out = FEATURES});
}

/* Experts with 0, 1, 8, 9 and 40 rows, which lie scattered. */
static bs_graph *expert_net(cuda_rig *r, int32_t rows, int32_t wide)
{
    static const char *const names[5] = {"e0", "e1", "e2", "e3", "e4"};
    static const int32_t ends[5] = {0, 1, 9, 18, 58};
    bs_value out[5];
    bs_graph *g = rig_begin(r, "experts");
    const bs_dim n = bs_symbol(g, "N", TOKENS);
    for (int32_t i = 0; i < TOKENS; i++) {
        const int32_t at = i * 17 % TOKENS;
        for (labels[i] = 0; at >= ends[labels[i]];)
            labels[i]++;
        for (int32_t k = 0; k < FEATURES; k++)
            tokens[i][k] = rig_uniform(r);
    }
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(n, FEATURES)), none);
    const bs_value label = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(n, 1)), x);
    const bs_router router = bs_route(g, label, none,
                                      &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_LABEL, .paths = 5});
    for (int32_t e = 0; e < 5; e++)
        out[e] = bs_branch(g, router, e, names[e], x, expert, &wide);
    bs_output(g, "y", bs_collect(g, bs_gather(g, router, out, none, NULL)));
    rig_extent(r, "x", rows, FEATURES, 0, 0);
    rig_extent(r, "label", rows, 1, 0, 0);
    rig_give(r, "x", tokens);
    rig_give(r, "label", labels);
    return g;
}

static float *device_output(cuda_rig *r, const char *name, int32_t half, int32_t order)
{
    static rig_result result;
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .half = half, .order = order};
    const rig_how how = {0};
    rig_make_weights(r);
    rig_make_buffers(r);
    rig_once(r, &d, &how, &result);
    check(result.status == BS_OK, "experts run: %s", result.error.message);
    for (int32_t i = 0; i < r->n_buffers; i++)
        if (strcmp(r->buffers[i].name, name) == 0)
            return result.out[i];
    return NULL;
}

static void test_experts(void)
{
    for (int32_t half = 0; half < 2; half++)
        for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++) {
            cuda_rig r;
            expert_net(&r, TOKENS, order == BS_ORDER_DEPTH ? 72 : 131);
            rig_agree(&r, &(rig_how){.half = half, .order = order});
        }
}

/* Rows give the same bytes alone and among others, in tiles and layer by layer: few lines and tiles of many add up
 * alike. */
static void test_experts_by_number(void)
{
    static float all[TOKENS][FEATURES];
    cuda_rig r;
    for (int32_t half = 0; half < 2; half++) {
        expert_net(&r, TOKENS, 72);
        memcpy(all, device_output(&r, "y", half, BS_ORDER_BREADTH), sizeof all);
        for (int32_t rows = 1; rows <= TOKENS; rows += rows < 4 ? 1 : 11) {
            expert_net(&r, rows, 72);
            const float *few = device_output(&r, "y", half, rows % 2 ? BS_ORDER_DEPTH : BS_ORDER_BREADTH);
            check(memcmp(all, few, (size_t)rows * sizeof *all) == 0,
                  "%d rows of experts give the bytes that they give among %d, half %d", rows, TOKENS, half);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------ matmul */

static void matmul_case(bs_shape a, bs_shape b, const bs_matmul_desc *desc, int32_t half)
{
    char name[96];
    cuda_rig r;
    snprintf(name, sizeof name, "matmul, rank %d, transpose_b %d", a.rank, desc->transpose_b);
    bs_graph *g = rig_begin(&r, name);
    const bs_value x = bs_input(g, "a", BS_F32, a), y = bs_input(g, "b", BS_F32, b);
    bs_value product = bs_matmul(g, x, y, desc);
    if (half) /* f16 operands and result: rows of the plan's own */
        product = bs_matmul(g, bs_activation(g, x, BS_TANH, 0), bs_activation(g, y, BS_TANH, 0), desc);
    bs_output(g, "y", bs_activation(g, product, BS_CLIP, 100.0f));
    rig_agree(&r, &(rig_how){.half = half});
}

static void test_matmul(void)
{
    for (int32_t half = 0; half < 2; half++) {
        matmul_case(BS_SHAPE2(1, 1), BS_SHAPE2(1, 1), &(bs_matmul_desc){.scale = 3.0f}, half);
        matmul_case(BS_SHAPE2(5, 33), BS_SHAPE2(33, 70), &(bs_matmul_desc){.scale = 0.25f}, half);
        matmul_case(BS_SHAPE2(70, 16), BS_SHAPE2(66, 16), &(bs_matmul_desc){.transpose_b = 1}, half);
        matmul_case(BS_SHAPE3(3, 20, 31), BS_SHAPE3(3, 31, 17), &(bs_matmul_desc){.scale = -1.0f}, half);
        matmul_case(BS_SHAPE3(2, 65, 9), BS_SHAPE3(2, 40, 9), &(bs_matmul_desc){.transpose_b = 1}, half);
        matmul_case(BS_SHAPE4(2, 3, 7, 18), BS_SHAPE4(2, 3, 18, 11), &(bs_matmul_desc){.scale = 1.0f}, half);
    }
    cuda_rig r; /* of rows, with a root value; and in tiles */
    for (int32_t order = BS_ORDER_AUTO; order <= BS_ORDER_DEPTH; order++) {
        bs_graph *g = rig_begin(&r, "matmul of rows with a root value");
        const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE3(9, 4, 12)), none),
                       table = bs_input(g, "t", BS_F32, BS_SHAPE2(12, 10));
        const bs_value y = bs_matmul(g, bs_activation(g, x, BS_RELU, 0), table, &(bs_matmul_desc){.scale = 1.0f});
        bs_output(g, "y", bs_collect(g, bs_matmul(g, y, y, &(bs_matmul_desc){.transpose_b = 1})));
        rig_agree(&r, &(rig_how){.order = order});
    }
}

/* --------------------------------------------------------------------------------------------------- attention */

#define SEQUENCES 4
#define MOST 80

typedef struct attend {
    int32_t d, heads, alibi, window; /* window 0: no cache */
} attend;

static bs_graph *attention_net(cuda_rig *r, const attend *a)
{
    static const char *const names[3] = {"q", "k", "v"};
    bs_graph *g = rig_begin(r, "attention");
    const bs_dim n = bs_symbol(g, "N", MOST);
    const bs_value lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQUENCES));
    const bs_value past = a->window ? bs_input(g, "past", BS_I32, BS_SHAPE1(SEQUENCES)) : none;
    bs_value in[3], state[2] = {none, none};
    for (int32_t i = 0; i < 3; i++)
        in[i] = bs_segments(g, bs_input(g, names[i], BS_F32, BS_SHAPE2(n, a->d)), lengths);
    /* rows of the plan's own beside views */
    in[1] = bs_linear(g, in[1], &(bs_linear_desc){.name = "key", .out = a->d});
    for (int32_t i = 0; i < 2 && a->window; i++)
        state[i] = bs_state(g, i ? "cache_v" : "cache_k", BS_F32, BS_SHAPE3(SEQUENCES, a->window, a->d));
    const bs_attention_desc desc = {.name = "attend", .heads = a->heads, .alibi = a->alibi};
    const bs_value at = bs_segment_index(g, in[2], past);
    for (int32_t i = 0; i < 2 && a->alibi; i++)
        in[i] = bs_rope(g, in[i], at, &(bs_rope_desc){.heads = a->heads, .dims = a->d / a->heads / 4 * 2,
                                                      .interleaved = i});
    bs_output(g, "y", bs_collect(g, bs_attention(g, in[0], in[1], in[2], state[0], state[1], past, &desc)));
    for (int32_t i = 0; i < 2 && a->window; i++)
        bs_state_append(g, state[i], in[1 + i], past);
    return g;
}

static void test_attention(void)
{
    static const attend cases[] = {{12, 1, 0, 0}, {24, 3, 1, 0},   {64, 4, 1, 7},
                                   {6, 2, 0, 33}, {160, 1, 0, 40}, {8, 1, 1, 64}};
    static const int32_t lengths[4][SEQUENCES] = {{5, 0, 40, 3}, {0, 1, 0, 0}, {70, 0, 0, 10}, {1, 1, 1, 1}},
                         past[SEQUENCES] = {0, 3, 37, 100};
    for (int32_t i = 0; i < (int32_t)(sizeof cases / sizeof *cases); i++)
        for (int32_t k = 0; k < 4; k++) {
            cuda_rig r;
            const int32_t *l = lengths[k];
            attention_net(&r, &cases[i]);
            rig_give(&r, "lengths", l);
            if (cases[i].window)
                rig_give(&r, "past", past);
            for (int32_t b = 0; b < 3; b++)
                rig_extent(&r, b == 0 ? "q" : b == 1 ? "k" : "v", l[0] + l[1] + l[2] + l[3], cases[i].d, 0, 0);
            rig_agree(&r, &(rig_how){.runs = cases[i].window ? 3 : 1, .half = k == 0 && i % 2});
        }
}

/* A session on the device that is run step by step. */
static bs_session *step_session;
static bs_device *step_device;

static bool step_open(cuda_rig *r)
{
    static uint8_t plan_memory[8 << 20], host[16 << 20], open_memory[4096];
    bs_arena plans, opened;
    bs_memory memory;
    bs_sizes sizes;
    bs_error error;
    bs_arena_init(&plans, "plan", plan_memory, sizeof plan_memory);
    bs_arena_init(&opened, "opened", open_memory, sizeof open_memory);
    rig_make_weights(r);
    bs_plan *plan = bs_plan_create(&plans, NULL, r->graph, &(bs_plan_desc){.tier = BS_TIER_CUDA}, &error);
    if (!plan)
        return false;
    bs_plan_sizes(plan, &sizes);
    bs_arena_init(&memory.persistent, "persistent", host, 4 << 20);
    bs_arena_init(&memory.transient, "transient", host + (4 << 20), 4 << 20);
    bs_arena_init(&memory.staging, "staging", host + (8 << 20), 4 << 20);
    bs_arena_init(&memory.slots, "slots", host + (12 << 20), 4 << 20);
    step_device = bs_cuda_open(&opened, &(bs_cuda_desc){.device_bytes = sizes.device, .pinned_bytes = sizes.pinned},
                               &error);
    bs_session_desc with = {.weights = bs_weights_from_table(&r->table), .device = step_device};
    step_session = step_device ? bs_session_create(&memory, plan, &with, &error) : NULL;
    if (!step_session)
        printf("%s\n", error.message);
    return step_session != NULL;
}

static void step_bind(const char *name, void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, 0, 0}, {0, 0, 0, 0}};
    bs_error error;
    if (bs_bind(step_session, name, &b, &error) != BS_OK)
        check(0, "%s", error.message);
}

static float step_in[3][MOST][64], step_all[3][MOST][64], step_out[MOST][64];

/* Tokens past .. past + count of each sequence of `total` tokens, into y where they are in step_all's order. */
static void step_run(const attend *a, int32_t total, int32_t first, int32_t count, float (*y)[64])
{
    int32_t lengths[SEQUENCES], past[SEQUENCES];
    bs_error error;
    float *in[3] = {step_in[0][0], step_in[1][0], step_in[2][0]};
    for (int32_t s = 0, row = 0; s < SEQUENCES; s++) {
        lengths[s] = count;
        past[s] = first;
        for (int32_t i = 0; i < count; i++, row++)
            for (int32_t b = 0; b < 3; b++)
                memcpy(in[b] + row * a->d, step_all[b][s * total + first + i], (size_t)a->d * sizeof(float));
    }
    step_bind("lengths", lengths, BS_I32, 1, SEQUENCES, 0);
    step_bind("past", past, BS_I32, 1, SEQUENCES, 0);
    step_bind("q", in[0], BS_F32, 2, SEQUENCES * count, a->d);
    step_bind("k", in[1], BS_F32, 2, SEQUENCES * count, a->d);
    step_bind("v", in[2], BS_F32, 2, SEQUENCES * count, a->d);
    step_bind("y", step_out, BS_F32, 2, SEQUENCES * count, a->d);
    if (bs_run(step_session, &error) != BS_OK)
        check(0, "%s", error.message);
    for (int32_t s = 0, row = 0; s < SEQUENCES; s++)
        for (int32_t i = 0; i < count; i++, row++)
            memcpy(y[s * total + first + i], (float *)step_out + row * a->d, (size_t)a->d * sizeof(float));
}

static void test_prompt_is_token_by_token(void)
{
    static const attend cases[] = {{24, 3, 1, 30}, {18, 2, 0, 64}, {8, 1, 1, 5}};
    static float at_once[MOST][64], one_by_one[MOST][64], in_parts[MOST][64];
    const int32_t total = MOST / SEQUENCES;
    for (int32_t i = 0; i < 3; i++) {
        cuda_rig r;
        for (int32_t way = 0; way < 3; way++) {
            attention_net(&r, &cases[i]);
            for (int32_t b = 0; b < 3; b++)
                rig_fill(&r, step_all[b], BS_F32, MOST * 64, 1.0f);
            r.seed = 88172645463325252u;
            if (!check(step_open(&r), "a session for sequences"))
                return;
            if (way == 0)
                step_run(&cases[i], total, 0, total, at_once);
            for (int32_t first = 0; way == 1 && first < total; first++)
                step_run(&cases[i], total, first, 1, one_by_one);
            for (int32_t first = 0; way == 2 && first < total; first += 7)
                step_run(&cases[i], total, first, first + 7 <= total ? 7 : total - first, in_parts);
            bs_session_close(step_session);
            bs_cuda_close(step_device);
        }
        check(memcmp(at_once, one_by_one, sizeof at_once) == 0,
              "prompts at once and token by token give the same bytes, window %d", cases[i].window);
        check(memcmp(at_once, in_parts, sizeof at_once) == 0,
              "prompts at once and in parts give the same bytes, window %d", cases[i].window);
    }
}

/* ---------------------------------------------------------------------------------------------------- segments */

static void test_segments(void)
{
    static const int32_t lengths[2][SEQUENCES] = {{7, 0, 1, 30}, {0, 0, 0, 5}};
    for (int32_t mode = BS_SEGMENT_LAST; mode <= BS_SEGMENT_MAX; mode++)
        for (int32_t k = 0; k < 4; k++) {
            cuda_rig r;
            const int32_t *l = lengths[k % 2];
            const bs_shape cell = k < 2 ? BS_SHAPE2(0, 5) : BS_SHAPE3(0, 5, 3);
            bs_graph *g = rig_begin(&r, "segments");
            bs_shape shape = cell;
            shape.dim[0] = bs_symbol(g, "N", 60);
            const bs_value count = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQUENCES));
            const bs_value x = bs_segments(g, bs_input(g, "x", BS_F32, shape), count);
            const bs_value reduced = bs_segment_reduce(g, bs_activation(g, x, BS_TANH, 0),
                                                       &(bs_segment_reduce_desc){.name = "reduce", .mode = mode});
            bs_output(g, "reduced", reduced);
            bs_output(g, "spread", bs_collect(g, bs_add(g, bs_segment_spread(g, reduced, x), x)));
            rig_give(&r, "lengths", l);
            rig_extent(&r, "x", l[0] + l[1] + l[2] + l[3], 5, 3, 0);
            rig_agree(&r, &(rig_how){.half = k == 0});
        }
}

int main(void)
{
    test_linear_shapes();
    test_linear_activations();
    test_linear_rows();
    test_experts();
    test_experts_by_number();
    test_matmul();
    test_attention();
    test_prompt_is_token_by_token();
    test_segments();
    return check_end();
}
