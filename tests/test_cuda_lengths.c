/* tags: asan */
/* test_cuda_lengths.c - one session at many lengths: the device's results are the CPU's at each, the launches are
 * captured once, and little is copied beside the caller's buffers.
 *
 * Rows in segments (a ragged batch), tensors with a length in the middle of their shape, frames in patches. Counting
 * needs the emulation; the rest runs on a GPU as well. */
#include "cuda_rig.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

#define LENGTHS   50
#define LONGEST   40
#define LARGE     320 /* lines that are left to cuBLAS */
#define SEQUENCES 4
#define WIDTH    24
#define MOST_BYTES 1024 /* copied beside the caller's buffers in a run */

static cuda_rig r;
static int32_t longest;       /* of the net at hand */
static uint64_t cublas_bytes; /* 0: without it */

/* A session and the buffers of its run; both sides read the same inputs. */
typedef struct side {
    bs_arena plans, opened;
    bs_memory memory;
    bs_plan *plan;
    bs_device *device;
    bs_session *session;
    void *out[RIG_BUFFERS];
    bs_error error;
} side;

static side cpu, gpu;
static uint8_t plan_memory[2][8 << 20], open_memory[4096], host_memory[2][16 << 20];

static bool side_open(side *s, bs_tier tier, bs_launch_mode mode, bs_order order)
{
    const int32_t which = tier == BS_TIER_CUDA;
    const bs_plan_desc desc = {.tier = tier, .launch_mode = mode, .order = order, .conv = BS_CONV_FORCE_REFERENCE};
    bs_sizes sizes;
    memset(s, 0, sizeof *s);
    bs_arena_init(&s->plans, "plan", plan_memory[which], sizeof plan_memory[which]);
    bs_arena_init(&s->opened, "opened", open_memory, sizeof open_memory);
    s->plan = bs_plan_create(&s->plans, NULL, r.graph, &desc, &s->error);
    if (!s->plan)
        return false;
    bs_plan_sizes(s->plan, &sizes);
    uint8_t *at = host_memory[which];
    bs_arena_init(&s->memory.persistent, "persistent", at, (size_t)sizes.persistent + 64);
    bs_arena_init(&s->memory.transient, "transient", at += sizes.persistent + 128, (size_t)sizes.transient + 64);
    bs_arena_init(&s->memory.staging, "staging", at += sizes.transient + 128, (size_t)sizes.staging + 64);
    bs_arena_init(&s->memory.slots, "slots", NULL, 0);
    bs_session_desc with;
    memset(&with, 0, sizeof with);
    with.weights = bs_weights_from_table(&r.table);
    if (which) {
        const bs_cuda_desc c = {.device_bytes = sizes.device + cublas_bytes + 512,
                                .pinned_bytes = sizes.pinned,
                                .cublas_bytes = cublas_bytes};
        s->device = bs_cuda_open(&s->opened, &c, &s->error);
        with.device = s->device;
    }
    s->session = which && !s->device ? NULL : bs_session_create(&s->memory, s->plan, &with, &s->error);
    return s->session != NULL;
}

static void side_close(side *s)
{
    bs_session_close(s->session);
    bs_cuda_close(s->device);
}

/* One run of a side with the rig's buffers as they are now. */
static bool side_run(side *s)
{
    for (int32_t i = 0; i < r.n_buffers; i++) {
        bs_buffer b = r.buffers[i].given;
        if (r.buffers[i].output)
            b.data = s->out[i];
        if (bs_bind(s->session, r.buffers[i].name, &b, &s->error) != BS_OK)
            return false;
    }
    return bs_run(s->session, &s->error) == BS_OK;
}

static int64_t bound_bytes(void)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < r.n_buffers; i++)
        bytes += rig_elements(&r.buffers[i].given) * (int64_t)bs_dtype_bytes(r.buffers[i].given.dtype);
    return bytes;
}

/* Rows of each sequence, `length` in all. */
static void share_out(int32_t length, int32_t *rows)
{
    memset(rows, 0, SEQUENCES * sizeof *rows);
    for (int32_t i = 0; i < length; i++)
        rows[check_below(SEQUENCES)]++;
}

static double furthest(void)
{
    double most = 0;
    for (int32_t i = 0; i < r.n_buffers; i++)
        if (r.buffers[i].output) {
            const double distance = rig_distance(&r.buffers[i].given, gpu.out[i], cpu.out[i]);
            most = distance > most ? distance : most;
        }
    return most;
}

/* Extents of this turn; all memory is that of the largest. */
static void set_extents(int32_t turn, int32_t *rows)
{
    const int32_t length = turn == 1 ? longest : 1 + check_below(longest);
    share_out(length, rows);
    for (int32_t i = 0; i < r.n_buffers; i++) {
        rig_buffer *b = &r.buffers[i];
        const bs_node *node = &r.graph->nodes[b->node];
        const bs_value_info *v =
            &r.graph->values[b->output ? bs_node_in(r.graph, node)[0] : node->first_out];
        static int64_t now[TEST_DIMS];
        for (int32_t d = 0; d < r.graph->n_dims; d++)
            now[d] = r.graph->dims[d].kind == BS_DIM_SYMBOL ? length : 0;
        for (int32_t d = 0; d < v->rank; d++)
            b->given.dim[d] = rig_dim(&r, v->dims[d], now);
        memset(b->given.stride, 0, sizeof b->given.stride);
        if (!b->output && v->dtype == BS_F32)
            rig_fill(&r, b->given.data, v->dtype, rig_elements(&b->given), 1.0f);
    }
}

static void sweep(const char *name, bs_launch_mode mode, bs_order order, int32_t *rows)
{
    double most = 0;
    int64_t graphs = 0, copied = 0, launches = 0;
    bool ran = true;
    rig_make_weights(&r);
    rig_make_buffers(&r);
    if (!check(side_open(&cpu, BS_TIER_SCALAR, BS_LAUNCH_AUTO, order) && side_open(&gpu, BS_TIER_CUDA, mode, order),
               "%s: %s%s", name, cpu.error.message, gpu.error.message))
        return;
    for (int32_t i = 0; i < r.n_buffers; i++) {
        const size_t bytes = (size_t)rig_elements(&r.buffers[i].given) * bs_dtype_bytes(r.buffers[i].given.dtype);
        cpu.out[i] = rig_take(bytes);
        gpu.out[i] = rig_take(bytes);
    }
    for (int32_t turn = 0; turn < LENGTHS && ran; turn++) {
        set_extents(turn, rows);
        ran = check(side_run(&cpu), "%s: the CPU: %s", name, cpu.error.message);
#ifdef BS_CUDA_CPU
        struct cuda_cpu_counts c;
        cuda_cpu_counts_reset();
#endif
        ran = ran && check(side_run(&gpu), "%s: the device: %s", name, gpu.error.message);
        const double distance = furthest();
        most = distance > most ? distance : most;
#ifdef BS_CUDA_CPU
        cuda_cpu_counts_get(&c);
        graphs += c.instantiations;
        launches += turn < 2 ? 0 : c.launches;
        if (turn > 0 && c.copied_bytes - bound_bytes() > copied)
            copied = c.copied_bytes - bound_bytes();
#endif
    }
    check(ran && most <= 1e-5, "%s, %s, order %d: %d lengths, distance %.2g", name, bs_launch_mode_name(mode), order,
          LENGTHS, most);
#ifdef BS_CUDA_CPU
    const bool graph = mode != BS_LAUNCH_STREAM;
    check(cublas_bytes > 0 || (graphs == graph && (!graph || launches == 0)),
          "captured once: %lld; launched beside: %lld", (long long)graphs, (long long)launches);
    check(cublas_bytes > 0 || copied <= MOST_BYTES, "at most %lld bytes a run beside the buffers", (long long)copied);
#else
    (void)graphs, (void)copied, (void)launches;
#endif
    side_close(&gpu);
    side_close(&cpu);
}

/* ------------------------------------------------------------------------------------------------------- nets */

static bs_value project(bs_graph *g, bs_value x, const char *name, int32_t out, bs_act act)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = act});
}

/* A layer of a transformer on rows in segments. */
static void ragged(int32_t *rows)
{
    bs_graph *g = rig_begin(&r, "ragged");
    const bs_value none = {0}, lengths = bs_input(g, "lengths", BS_I32, BS_SHAPE1(SEQUENCES));
    bs_value x = bs_segments(g, bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "T", LONGEST), WIDTH)), lengths);
    const bs_value mixed = bs_attention(g, project(g, x, "q", WIDTH, BS_ACT_NONE),
                                        project(g, x, "k", WIDTH, BS_ACT_NONE), project(g, x, "v", WIDTH, BS_ACT_NONE),
                                        none, none, none, &(bs_attention_desc){.heads = 3});
    x = bs_add(g, x, project(g, mixed, "o", WIDTH, BS_ACT_NONE));
    x = bs_layer_norm(g, x, &(bs_norm_desc){.name = "norm"});
    bs_output(g, "last", bs_segment_reduce(g, x, NULL));
    x = project(g, project(g, x, "up", 4 * WIDTH, BS_GELU), "down", WIDTH, BS_ACT_NONE);
    bs_output(g, "y", bs_collect(g, x));
    rig_give(&r, "lengths", rows);
}

/* Attention written with products of root tensors: the length is the first, the middle and the last dimension. */
static void rooted(int32_t *rows)
{
    (void)rows;
    bs_graph *g = rig_begin(&r, "root");
    const bs_dim length = bs_symbol(g, "T", LONGEST);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(length, WIDTH));
    bs_value heads[3];
    const char *const names[] = {"q", "k", "v"};
    for (int32_t i = 0; i < 3; i++)
        heads[i] = bs_transpose(g, bs_reshape(g, project(g, x, names[i], WIDTH, BS_ACT_NONE), BS_SHAPE3(length, 3, 8)),
                                &(bs_transpose_desc){.order = {1, 0, 2}});
    const bs_value scores = bs_matmul(g, heads[0], heads[1], &(bs_matmul_desc){.transpose_b = 1});
    const bs_value mixed = bs_transpose(g, bs_matmul(g, bs_softmax(g, scores), heads[2], NULL),
                                        &(bs_transpose_desc){.order = {1, 0, 2}});
    const bs_value y = project(g, bs_reshape(g, mixed, BS_SHAPE2(length, WIDTH)), "o", WIDTH, BS_GELU);
    const bs_value both[] = {x, y};
    const bs_value lines = bs_transpose(g, x, &(bs_transpose_desc){.order = {1, 0}});
    bs_output(g, "sums", bs_reduce(g, lines, &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = -1}));
    bs_output(g, "largest", bs_reduce(g, lines, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = -1}));
    bs_output(g, "where", bs_argmax(g, lines));
    bs_output(g, "soft", bs_softmax(g, lines));
    bs_output(g, "scores", scores);
    bs_output(g, "mean", bs_reduce(g, y, &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = 0}));
    bs_output(g, "y", bs_concat(g, both, 2, 1));
    bs_output(g, "twice", bs_concat(g, both, 2, 0));
}

/* A frame in patches of which a router drops some, beside the whole frame. */
static void framed(int32_t *rows)
{
    (void)rows;
    bs_graph *g = rig_begin(&r, "frame");
    const bs_dim side_of = bs_symbol(g, "S", LONGEST);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(2, side_of, side_of));
    const bs_value cells = bs_patches(g, x, &(bs_patches_desc){.size = 16});
    const bs_value pooled = bs_pool2d(g, cells, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .global = 1});
    const bs_router route = bs_route(g, project(g, pooled, "score", 2, BS_ACT_NONE), (bs_value){0},
                                     &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = 2});
    const bs_value out[] = {
        bs_conv2d(g, bs_scatter(g, route, 0, cells), &(bs_conv2d_desc){.name = "a", .out = 2, .act = BS_RELU}),
        bs_affine(g, bs_scatter(g, route, 1, cells), 0.5f, 0.25f)};
    const bs_value frame = bs_assemble(g, bs_gather(g, route, out, (bs_value){0}, NULL));
    bs_output(g, "y", bs_add(g, frame, bs_conv2d(g, x, &(bs_conv2d_desc){.name = "b", .out = 2})));
}

/* Buffers that take turns, as frames do: the graph is the one captured first. */
static void test_buffers_in_turn(void)
{
    static float x[3][8], y[2][8];
    int32_t wrong = 0;
    bs_graph *g = rig_begin(&r, "buffers in turn");
    bs_output(g, "y", bs_affine(g, bs_input(g, "x", BS_F32, BS_SHAPE1(8)), 2.0f, 0.0f));
    rig_make_weights(&r);
    if (!check(side_open(&gpu, BS_TIER_CUDA, BS_LAUNCH_GRAPH, BS_ORDER_AUTO), "a session: %s", gpu.error.message))
        return;
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts c;
    cuda_cpu_counts_reset();
#endif
    for (int32_t run = 0; run < 6; run++) {
        const bs_buffer from = {x[run % 3], BS_F32, 1, {8}, {0}}, to = {y[run % 2], BS_F32, 1, {8}, {0}};
        for (int32_t i = 0; i < 8; i++)
            x[run % 3][i] = (float)(8 * run + i);
        check(bs_bind(gpu.session, "x", &from, &gpu.error) == BS_OK &&
                  bs_bind(gpu.session, "y", &to, &gpu.error) == BS_OK && bs_run(gpu.session, &gpu.error) == BS_OK,
              "run %d: %s", run, gpu.error.message);
        for (int32_t i = 0; i < 8; i++)
            wrong += y[run % 2][i] != 2 * x[run % 3][i];
    }
    check(wrong == 0, "each run reads and writes the buffers bound for it: %d wrong", wrong);
#ifdef BS_CUDA_CPU
    cuda_cpu_counts_get(&c);
    check(c.instantiations == 1 && c.graph_launches == 6, "by one graph: %lld", (long long)c.instantiations);
#endif
    side_close(&gpu);
}

/* The host tells cuBLAS how many lines there are, so each length has a graph of its own. */
static void large(int32_t *rows)
{
    (void)rows;
    bs_graph *g = rig_begin(&r, "large");
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "T", LARGE), 128));
    bs_output(g, "y", project(g, x, "all", 128, BS_RELU));
}

int main(void)
{
    static const struct {
        const char *name;
        void (*build)(int32_t *rows);
    } nets[] = {{"rows in segments", ragged}, {"root tensors", rooted}, {"patches", framed}};
    static int32_t rows[SEQUENCES];
    longest = LONGEST;
    for (int32_t n = 0; n < 3; n++)
        for (int32_t mode = BS_LAUNCH_AUTO; mode < BS_LAUNCH_COUNT; mode++) {
            nets[n].build(rows);
            sweep(nets[n].name, (bs_launch_mode)mode, mode % 2 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH, rows);
        }
    test_buffers_in_turn();
    longest = LARGE;
    cublas_bytes = 1 << 20;
    large(rows);
    sweep("a large linear by cuBLAS", BS_LAUNCH_GRAPH, BS_ORDER_AUTO, rows);
    return check_end();
}
