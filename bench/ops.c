/* ops.c: what each op costs at the shapes of super-resolution cells and of mixtures of experts, tier by tier.
 *
 * Owns:      the table of cases; graphs of one op through the public API.
 * Relies on: brainstorm.h, peak.h, figures.h.
 * Must never: time zeros, or an op together with the moving of its input: each case is two graphs, with 1 and with 1 +
 *            MORE copies of the op on one buffer, run in turns; the op's time is the median of differences, divided by
 *            MORE.
 * Run:       ops [--tier NAME] [--json FILE] [text that the case's name must contain]
 *
 * Ops that multiply are set against the multiply-add peak, the others, by bytes read and written, against memcpy of as
 * many bytes, both measured beside them. Inputs are warm, results are new. One thread, processor time.
 */
#include "figures.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MORE = 12, TURNS = 15, MAX_WEIGHTS = 4, TABLE_ROWS = 1024, PERSISTENT_BYTES = 48 << 20 };

/* ------------------------------------------------------------------------------------------------- cases */

typedef struct weight {
    const char *suffix;
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
} weight;

typedef struct bench_case {
    const char *name;
    bs_value (*build)(bs_graph *g, bs_value x);
    bs_dtype dtype; /* of the input */
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
    bs_dtype result;
    int32_t result_rank;
    double flops, bytes; /* one of them is 0 */
    weight weights[MAX_WEIGHTS];
} bench_case;

#define BUILD(name, expression) \
    static bs_value name(bs_graph *g, bs_value x) { return expression; }
#define OP(op, ...) bs_##op(g, x, &(bs_##op##_desc){.name = "op", __VA_ARGS__})

BUILD(conv_32, OP(conv2d, .out = 32, .act = BS_PRELU))
BUILD(conv_12, OP(conv2d, .out = 12, .act = BS_PRELU))
BUILD(conv_4, OP(conv2d, .out = 4))
BUILD(conv_1x1, OP(conv2d, .out = 64, .kernel = 1))
BUILD(conv_depthwise, OP(conv2d, .out = 32, .groups = BS_DEPTHWISE))
BUILD(conv_stride, OP(conv2d, .out = 64, .stride = 2))
BUILD(deconv_2, OP(deconv2d, .out = 16, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(linear_1024, OP(linear, .out = 1024, .act = BS_RELU))
BUILD(linear_256, OP(linear, .out = 256))
BUILD(linear_16, OP(linear, .out = 16))
BUILD(matmul_self, bs_matmul(g, x, x, &(bs_matmul_desc){.transpose_b = 1, .scale = 0.125f}))
BUILD(add_self, bs_add(g, x, x))
BUILD(relu, bs_activation(g, x, BS_RELU, 0))
BUILD(gelu, bs_activation(g, x, BS_GELU, 0))
BUILD(prelu, bs_prelu(g, x, "op"))
BUILD(affine, bs_affine(g, x, 0.5f, 0.25f))
BUILD(to_f32, OP(convert, .dtype = BS_F32, .scale = 1 / 255.0f))
BUILD(to_u8, OP(convert, .dtype = BS_U8, .scale = 255))
BUILD(bicubic, OP(resize, .kind = BS_RESIZE_BICUBIC))
BUILD(bilinear, OP(resize, .kind = BS_RESIZE_BILINEAR))
BUILD(shuffle, bs_pixel_shuffle(g, x, 2))
BUILD(unshuffle, bs_pixel_unshuffle(g, x, 2))
BUILD(transpose, OP(transpose, .order = {1, 2, 0}))
BUILD(pad, OP(pad, .top = 2, .bottom = 2, .left = 2, .right = 2, .edge = 1))
BUILD(pool_max, OP(pool2d, .kind = BS_POOL_MAX))
BUILD(norm_batch, bs_batch_norm(g, x, &(bs_norm_desc){.name = "op"}))
BUILD(norm_layer, bs_layer_norm(g, x, &(bs_norm_desc){.name = "op"}))
BUILD(softmax, bs_softmax(g, x))
BUILD(reduce_mean, OP(reduce, .kind = BS_REDUCE_MEAN, .axis = -1, .keep = 1))
BUILD(topk_2, bs_topk(g, x, 2, NULL))
BUILD(rows_of_table, bs_gather_rows(g, bs_constant(g, "op.table", BS_F32, BS_SHAPE2(TABLE_ROWS, 256)), x))

#define CELL 68 /* 64 pixels and what two layers need around them */
#define CELL2 ((double)CELL * CELL)
#define IMAGE(c) BS_F32, 3, {c, CELL, CELL}, BS_F32, 3
#define CODES BS_U8, 3, {1, CELL, CELL}
#define ROWS(m, k) BS_F32, 2, {m, k}, BS_F32, 2
#define CONV(out, in, k) {{"weight", 4, {out, in, k, k}}, {"bias", 1, {out}}, {"prelu", 1, {out}}}
#define LINEAR(out, in) {{"weight", 2, {out, in}}, {"bias", 1, {out}}}
#define MOVED(type_in, in, type_out, out) 0, ((double)(type_in) * (in) + (double)(type_out) * (out))

static const bench_case cases[] = {
    {"conv 3x3 1->32 prelu", conv_32, IMAGE(1), 18 * 32 * CELL2, 0, CONV(32, 1, 3)},
    {"conv 3x3 32->32 prelu", conv_32, IMAGE(32), 18 * 1024 * CELL2, 0, CONV(32, 32, 3)},
    {"conv 3x3 32->4", conv_4, IMAGE(32), 18 * 128 * CELL2, 0, CONV(4, 32, 3)},
    {"conv 3x3 1->12 prelu", conv_12, IMAGE(1), 18 * 12 * CELL2, 0, CONV(12, 1, 3)},
    {"conv 3x3 12->12 prelu", conv_12, IMAGE(12), 18 * 144 * CELL2, 0, CONV(12, 12, 3)},
    {"conv 3x3 12->4", conv_4, IMAGE(12), 18 * 48 * CELL2, 0, CONV(4, 12, 3)},
    {"conv 1x1 64->64", conv_1x1, IMAGE(64), 2 * 4096 * CELL2, 0, CONV(64, 64, 1)},
    {"conv 3x3 depthwise 32", conv_depthwise, IMAGE(32), 18 * 32 * CELL2, 0, CONV(32, 1, 3)},
    {"conv 3x3 stride 2 32->64", conv_stride, IMAGE(32), 18 * 2048 * CELL2 / 4, 0, CONV(64, 32, 3)},
    {"deconv 4x4 x2 32->16",
     deconv_2,
     IMAGE(32),
     32 * 512 * CELL2,
     0,
     {{"weight", 4, {32, 16, 4, 4}}, {"bias", 1, {16}}}},
    {"linear 1x256->1024 relu", linear_1024, ROWS(1, 256), 2.0 * 256 * 1024, 0, LINEAR(1024, 256)},
    {"linear 32x256->1024 relu", linear_1024, ROWS(32, 256), 64.0 * 256 * 1024, 0, LINEAR(1024, 256)},
    {"linear 256x256->1024 relu", linear_1024, ROWS(256, 256), 512.0 * 256 * 1024, 0, LINEAR(1024, 256)},
    {"linear 256x1024->256", linear_256, ROWS(256, 1024), 512.0 * 256 * 1024, 0, LINEAR(256, 1024)},
    {"linear 256x256->16 (gate)", linear_16, ROWS(256, 256), 512.0 * 256 * 16, 0, LINEAR(16, 256)},
    {"matmul 8x64x64 by its own transpose",
     matmul_self,
     BS_F32,
     3,
     {8, 64, 64},
     BS_F32,
     3,
     2.0 * 8 * 64 * 64 * 64,
     0,
     {{0}}},
    {"add 32x68x68", add_self, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{0}}},
    {"relu 32x68x68", relu, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{0}}},
    {"prelu 32x68x68", prelu, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{"prelu", 1, {32}}}},
    {"gelu 32x68x68", gelu, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{0}}},
    {"affine 32x68x68", affine, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{0}}},
    {"batch_norm 32x68x68",
     norm_batch,
     IMAGE(32),
     MOVED(4, 32 * CELL2, 4, 32 * CELL2),
     {{"weight", 1, {32}}, {"bias", 1, {32}}, {"mean", 1, {32}}, {"var", 1, {32}}}},
    {"convert u8->f32 68x68", to_f32, CODES, BS_F32, 3, MOVED(1, CELL2, 4, CELL2), {{0}}},
    {"convert f32->u8 136x136",
     to_u8,
     BS_F32,
     3,
     {1, 2 * CELL, 2 * CELL},
     BS_U8,
     3,
     MOVED(4, 4 * CELL2, 1, 4 * CELL2),
     {{0}}},
    {"bicubic x2 u8 68x68", bicubic, CODES, BS_U8, 3, MOVED(1, CELL2, 1, 4 * CELL2), {{0}}},
    {"bicubic x2 f32 68x68", bicubic, IMAGE(1), MOVED(4, CELL2, 4, 4 * CELL2), {{0}}},
    {"bilinear x2 f32 68x68", bilinear, IMAGE(1), MOVED(4, CELL2, 4, 4 * CELL2), {{0}}},
    {"pixel_shuffle x2 4x68x68", shuffle, IMAGE(4), MOVED(4, 4 * CELL2, 4, 4 * CELL2), {{0}}},
    {"pixel_unshuffle x2 1x68x68", unshuffle, IMAGE(1), MOVED(4, CELL2, 4, CELL2), {{0}}},
    {"transpose 32x68x68 to channels last", transpose, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * CELL2), {{0}}},
    {"pad 32x68x68 by 2", pad, IMAGE(32), MOVED(4, 32 * CELL2, 4, 32 * (CELL + 4.0) * (CELL + 4)), {{0}}},
    {"pool2d max 32x68x68", pool_max, IMAGE(32), MOVED(4, 32 * CELL2, 4, 8 * CELL2), {{0}}},
    {"layer_norm 256x256",
     norm_layer,
     ROWS(256, 256),
     MOVED(4, 65536, 4, 65536),
     {{"weight", 1, {256}}, {"bias", 1, {256}}}},
    {"softmax 256x256", softmax, ROWS(256, 256), MOVED(4, 65536, 4, 65536), {{0}}},
    {"reduce mean 256x256", reduce_mean, ROWS(256, 256), MOVED(4, 65536, 4, 256), {{0}}},
    {"topk 2 of 256x64", topk_2, ROWS(256, 64), MOVED(4, 256 * 64, 4, 256 * 4), {{0}}},
    {"gather_rows 256 of 1024x256",
     rows_of_table,
     BS_I32,
     1,
     {256},
     BS_F32,
     2,
     MOVED(4, 65536, 4, 65536),
     {{"table", 2, {TABLE_ROWS, 256}}}},
};

/* ------------------------------------------------------------------------------------------- numbers, weights */

static uint32_t noise_state = 1;

static uint32_t noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return noise_state >> 8;
}

/* f32 in 0.05 .. 0.3, so that variances are positive; indices below TABLE_ROWS. */
static void fill(bs_dtype dtype, void *data, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dtype == BS_F32)
            ((float *)data)[i] = 0.05f + 0.25f * (float)noise() / (float)(1 << 24);
        else if (dtype == BS_I32)
            ((int32_t *)data)[i] = (int32_t)(noise() % TABLE_ROWS);
        else
            ((uint8_t *)data)[i] = (uint8_t)(noise() >> 16);
}

static bs_status weight_find(const void *user, const char *name, bs_weight_info *info)
{
    const bench_case *c = user;
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < MAX_WEIGHTS && c->weights[i].suffix; i++) {
        const weight *w = &c->weights[i];
        if (strcmp(w->suffix, dot + 1) != 0)
            continue;
        *info = (bs_weight_info){.dtype = BS_F32, .rank = w->rank, .bytes = 4};
        for (int32_t d = 0; d < w->rank; d++) {
            info->dim[d] = w->dim[d];
            info->bytes *= (uint64_t)w->dim[d];
        }
        return BS_OK;
    }
    return BS_ERROR_WEIGHTS;
}

static bs_status weight_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset;
    fill(BS_F32, buffer, bytes / 4);
    return BS_OK;
}

static const void *weight_map(const void *user, const bs_weight_info *info)
{
    (void)user, (void)info;
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ one graph */

typedef struct network {
    bs_memory memory;
    void *persistent, *transient, *staging, *input;
    bs_session *session;
    uint64_t corner[MORE + 1]; /* one element of every copy's result, so that none is left out of the plan */
    bs_error error;
} network;

/* The first element. Its lines are cut first: that moves least. */
static bs_value corner_of(bs_graph *g, bs_value y, int32_t rank)
{
    for (int32_t i = 0; i < rank; i++)
        y = bs_slice(g, y, &(bs_slice_desc){.axis = (i + (rank == 3)) % rank, .length = 1});
    return y;
}

static bs_graph *graph_build(network *n, const bench_case *c, int copies)
{
    bs_graph *g = bs_graph_create(&n->memory.persistent, NULL);
    bs_shape shape = {.rank = c->rank};
    memcpy(shape.dim, c->dim, sizeof shape.dim);
    for (int i = 0; i < copies; i++) { /* an input each: of one, equal ops are computed once */
        const char in[] = {'x', (char)('a' + i), 0}, out[] = {'y', (char)('a' + i), 0};
        bs_output(g, out, corner_of(g, c->build(g, bs_input(g, in, c->dtype, shape)), c->result_rank));
    }
    return bs_graph_check(g, &n->error) == BS_OK ? g : NULL;
}

static bool bind_all(network *n, const bench_case *c, int copies)
{
    size_t count = 1;
    bs_buffer x = {.dtype = c->dtype, .rank = c->rank};
    for (int32_t d = 0; d < c->rank; d++) {
        x.dim[d] = c->dim[d];
        count *= (size_t)c->dim[d];
    }
    if (c->rank == 3 && c->dim[1] >= CELL) { /* an image: channels last, as inside a network */
        x.stride[0] = 1;
        x.stride[1] = c->dim[0] * c->dim[2];
        x.stride[2] = c->dim[0];
    }
    n->input = x.data = malloc(count * bs_dtype_bytes(c->dtype));
    if (!n->input)
        return false;
    fill(c->dtype, n->input, count);
    bool ok = true;
    for (int i = 0; ok && i < copies; i++) {
        const char in[] = {'x', (char)('a' + i), 0}, out[] = {'y', (char)('a' + i), 0};
        const bs_buffer y = {.data = &n->corner[i], .dtype = c->result, .rank = c->result_rank, .dim = {1, 1, 1, 1}};
        ok = bs_bind(n->session, in, &x, &n->error) == BS_OK && bs_bind(n->session, out, &y, &n->error) == BS_OK;
    }
    return ok;
}

static void network_close(network *n)
{
    bs_session_close(n->session);
    free(n->persistent);
    free(n->transient);
    free(n->staging);
    free(n->input);
}

static bool network_open(network *n, const bench_case *c, bs_tier tier, int copies)
{
    memset(n, 0, sizeof *n);
    n->persistent = malloc(PERSISTENT_BYTES);
    if (!n->persistent)
        return false;
    bs_arena_init(&n->memory.persistent, "persistent", n->persistent, PERSISTENT_BYTES);
    const bs_graph *g = graph_build(n, c, copies);
    const bs_plan_desc desc = {.tier = (int32_t)tier};
    const bs_plan *plan = g ? bs_plan_create(&n->memory.persistent, NULL, g, &desc, &n->error) : NULL;
    bs_sizes sizes;
    if (!plan)
        return false;
    bs_plan_sizes(plan, &sizes);
    n->transient = malloc((size_t)sizes.transient + BS_ALIGNMENT);
    n->staging = malloc((size_t)sizes.staging + BS_ALIGNMENT);
    if (!n->transient || !n->staging)
        return false;
    bs_arena_init(&n->memory.transient, "transient", n->transient, (size_t)sizes.transient + BS_ALIGNMENT);
    bs_arena_init(&n->memory.staging, "staging", n->staging, (size_t)sizes.staging + BS_ALIGNMENT);
    const bs_session_desc session = {
        .weights = {.user = c, .find = weight_find, .read = weight_read, .map = weight_map}};
    n->session = bs_session_create(&n->memory, plan, &session, &n->error);
    return n->session && bind_all(n, c, copies);
}

/* ------------------------------------------------------------------------------------------------- measuring */

/* Seconds a run, over enough runs that the clock is fine enough. */
static double time_runs(network *n, int runs)
{
    const double since = peak_cpu_seconds();
    for (int i = 0; i < runs; i++)
        if (bs_run(n->session, &n->error) != BS_OK)
            return -1;
    return (peak_cpu_seconds() - since) / runs;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one op; 0 when it could not be run, and then error says why. */
static double measure(const bench_case *c, bs_tier tier, bs_error *error)
{
    static network one, many;
    double taken[TURNS], seconds = 0;
    memset(error, 0, sizeof *error);
    if (network_open(&one, c, tier, 1) && network_open(&many, c, tier, 1 + MORE) && time_runs(&one, 1) >= 0) {
        const double once = time_runs(&many, 1);
        const int runs = 1 + (int)(2e-3 / (once > 1e-7 ? once : 1e-7)); /* a turn takes some 2 ms, or one run */
        const int turns = once > 0.05 ? TURNS / 5 : TURNS;
        for (int i = 0; i < turns; i++) {
            const double base = time_runs(&one, runs);
            taken[i] = (time_runs(&many, runs) - base) / MORE;
        }
        qsort(taken, (size_t)turns, sizeof taken[0], by_size);
        seconds = taken[turns / 2];
    }
    *error = many.error.status ? many.error : one.error;
    network_close(&one);
    network_close(&many);
    memset(&one, 0, sizeof one);
    memset(&many, 0, sizeof many);
    return seconds;
}

static void measure_tier(bs_tier tier, const char *text, FILE *json)
{
    static bool follows;
    const double peak = peak_gflops(tier);
    const double copy = peak_copy_gbs((size_t)(32 * CELL2 * 4));
    printf("tier %s, 1 thread; multiply-add peak %.0f GFLOP/s, memcpy of a cell %.0f GB/s\n", bs_tier_name(tier), peak,
           copy);
    printf("  %-36s %10s %10s %10s\n", "op", "us", "rate", "of peak");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bench_case *c = &cases[i];
        bs_error error;
        if (!strstr(c->name, text))
            continue;
        const double seconds = measure(c, tier, &error);
        if (seconds <= 0) {
            printf("  %-36s %s\n", c->name, error.status ? error.message : "too short to be measured");
            continue;
        }
        const double rate = (c->flops > 0 ? c->flops : c->bytes) / seconds * 1e-9;
        const double best = c->flops > 0 ? peak : peak_copy_gbs((size_t)(c->bytes / 2) + 64);
        printf("  %-36s %10.2f %6.1f %s %8.1f %%\n", c->name, seconds * 1e6, rate, c->flops > 0 ? "GF/s" : "GB/s",
               100 * rate / best);
        fflush(stdout);
        if (json)
            fprintf(json, "%s\n  {\"tier\": \"%s\", \"op\": \"%s\", \"us\": %.4g, \"%s\": %.4g, \"of_peak\": %.4g}",
                    follows ? "," : "", bs_tier_name(tier), c->name, seconds * 1e6,
                    c->flops > 0 ? "gflops" : "gbytes_s", rate, rate / best);
        follows = follows || json;
    }
}

static void measure_all(const char *only, const char *text, FILE *json)
{
    if (json)
        fprintf(json, "[");
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (bs_tier_available((bs_tier)t) && strstr(bs_tier_name((bs_tier)t), only))
            measure_tier((bs_tier)t, text, json);
    if (json)
        fprintf(json, "\n]\n");
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "ops");
    const char *only = "", *path = NULL, *text = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tier") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            path = argv[++i];
        else
            text = argv[i];
    }
    const bool ok = figures_open(&out, path) && (!path || figures_file(&out));
    if (ok)
        measure_all(only, text, out.stream);
    return !figures_end(&out) || !ok;
}
