/* products.c: runs products, convolutions and what stands between them, one graph at a time, as a driver asks, so that
 * bench/peers/products.py can run it in turns with its peers.
 *
 *     products                                  commands on standard input, replies on standard output
 *
 *     open KIND COUNT TIER ARGUMENT...          COUNT ops of that kind (see `kinds`), each with an input of its own, x0
 *                                               ..., and one output each, y0 ...: all share their weights      "ok"
 *     tensor NAME DIM...                        a weight, then its f32 bytes                                   "ok"
 *     input I                                   then the f32 bytes of input I                                  "ok"
 *     ready                                     plans it, prepares its weights                      "ARENA-BYTES"
 *     run TIMES                                 runs it so often                "CPU-SECONDS ALLOCATIONS" of it all
 *     result I                                  output I                                               its f32 bytes
 *     close                                                                                                    "ok"
 *     peak TIER                                 multiply-add peak                                           "GFLOP/s"
 *     copy BYTES, read BYTES                    of memory, again and again                                     "GB/s"
 *     bare TIER INPUTS UNITS ROWS STEPS TIMES   steps of an LSTM by its kernel alone           "CPU-SECONDS" of it all
 *     tier                                      the best tier here                                          its name
 *
 * Owns: the protocol, and the table of kinds. Relies on: brainstorm.h, peak.h. Must never: time anything but bs_run.
 */
#include "allocations.h"
#include "bare_step.h"
#include "figures.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNT = 64, MAX_ARGS = 12, MAX_WEIGHTS = 8, LINE = 512, ARENAS = 3 };

/* ------------------------------------------------------------------------------------------------- kinds */

typedef struct kind {
    const char *name;
    const char *arguments; /* their names, as a reader wants them */
    int count;             /* of arguments */
    bs_shape (*input)(const int32_t *a);
    bs_value (*build)(bs_graph *g, bs_value x, const int32_t *a);
    bool channels_last; /* its inputs, and its outputs: images as they lie inside a network */
    bool sequence;      /* its first argument is a number of steps, its sixth of those in a run; from zeros on */
} kind;

static bs_shape shape_rows(const int32_t *a) { return BS_SHAPE2(a[0], a[1]); }
static bs_shape shape_matrices(const int32_t *a) { return BS_SHAPE3(a[0], a[1], a[2]); }

static bs_value build_linear(bs_graph *g, bs_value x, const int32_t *a)
{
    return bs_linear(g, x, &(bs_linear_desc){.name = "op", .out = a[2], .act = a[3]});
}

static bs_value build_activation(bs_graph *g, bs_value x, const int32_t *a)
{
    return bs_activation(g, x, (bs_act)a[2], 0);
}

static bs_value build_softmax(bs_graph *g, bs_value x, const int32_t *a)
{
    return (void)a, bs_softmax(g, x);
}

static bs_value build_layer_norm(bs_graph *g, bs_value x, const int32_t *a)
{
    return (void)a, bs_layer_norm(g, x, &(bs_norm_desc){.name = "op"});
}

/* Matrices by a constant of as many: its second factor is `op.weight`. */
static bs_value build_matmul(bs_graph *g, bs_value x, const int32_t *a)
{
    const bs_value b = bs_constant(g, "op.weight", BS_F32,
                                   a[4] ? BS_SHAPE3(a[0], a[3], a[2]) : BS_SHAPE3(a[0], a[2], a[3]));
    return bs_matmul(g, x, b, &(bs_matmul_desc){.transpose_b = a[4]});
}

/* [rows, heads * width] -> [heads, rows, width] */
static bs_value build_heads(bs_graph *g, bs_value x, const int32_t *a)
{
    const bs_value split = bs_reshape(g, x, BS_SHAPE3(a[0], a[2], a[1] / a[2]));
    return bs_transpose(g, split, &(bs_transpose_desc){.order = {1, 0, 2}});
}

static bs_shape shape_image(const int32_t *a) { return BS_SHAPE3(a[0], a[1], a[1]); }

static bs_value build_conv(bs_graph *g, bs_value x, const int32_t *a)
{
    return bs_conv2d(g, x,
                     &(bs_conv2d_desc){.name = "op",
                                       .out = a[2],
                                       .kernel = a[3],
                                       .stride = a[4],
                                       .groups = a[5],
                                       .padding = BS_PAD_EXPLICIT,
                                       .pad = a[3] / 2,
                                       .act = a[6]});
}

/* A run takes one step, or a chunk of them. */
static bs_shape shape_steps(const int32_t *a)
{
    return a[5] == 1 ? BS_SHAPE2(a[1], a[2]) : BS_SHAPE3(a[5], a[1], a[2]);
}

/* op0.weight_ih and so on; a chunk's op0.weight_ih and op0.bias_ih are op0i.weight and op0i.bias, of one product. */
static const char *numbered(char *text, size_t bytes, const char *name, int32_t layer, const char *what)
{
    snprintf(text, bytes, "%s%u%s", name, (unsigned)layer % 10, what);
    return text;
}

/* A layer of a whole chunk: one product for all its inputs, then a loop over its steps. */
static bs_value chunk_of(bs_graph *g, bs_value x, bs_value *h, bs_value *c, const int32_t *a, int32_t layer)
{
    char name[16], step[16];
    const bs_recurrent_desc desc = {.name = numbered(step, sizeof step, "op", layer, ""), .projected = 1};
    const bs_value projected = bs_linear(
        g, x, &(bs_linear_desc){.name = numbered(name, sizeof name, "op", layer, "i"), .out = 4 * a[3]});
    const bs_router steps = bs_loop_begin(g, *h, BS_NONE, &(bs_loop_desc){.name = desc.name, .over = projected});
    const bs_value h_was = bs_loop_carry(g, steps, *h), c_was = bs_loop_carry(g, steps, *c);
    bs_value c_is;
    const bs_value h_is = bs_lstm(g, bs_loop_slice(g, steps, projected), h_was, c_was, &desc, &c_is);
    *h = bs_loop_next(g, steps, h_was, h_is);
    *c = bs_loop_next(g, steps, c_was, c_is);
    const bs_value all = bs_loop_collect(g, steps, h_is);
    bs_loop_end(g, steps, BS_NONE);
    return all;
}

/* All layers: "op0", "op1" ... */
static bs_value build_lstm(bs_graph *g, bs_value x, const int32_t *a)
{
    for (int32_t layer = 0; layer < a[4]; layer++) {
        char name[8];
        const bs_value h = bs_state(g, numbered(name, sizeof name, "h", layer, ""), BS_F32, BS_SHAPE2(a[1], a[3])),
                       c = bs_state(g, numbered(name, sizeof name, "c", layer, ""), BS_F32, BS_SHAPE2(a[1], a[3]));
        bs_value h_out = h, c_out = c;
        if (a[5] == 1) {
            numbered(name, sizeof name, "op", layer, "");
            x = h_out = bs_lstm(g, x, h, c, &(bs_recurrent_desc){.name = name}, &c_out);
        } else {
            x = chunk_of(g, x, &h_out, &c_out, a, layer);
        }
        bs_state_write(g, h, h_out);
        bs_state_write(g, c, c_out);
    }
    return x;
}

static const kind kinds[] = {
    {"linear", "rows inputs outputs activation", 4, shape_rows, build_linear, false, false},
    {"activation", "rows width activation", 3, shape_rows, build_activation, false, false},
    {"softmax", "rows width", 2, shape_rows, build_softmax, false, false},
    {"layer_norm", "rows width", 2, shape_rows, build_layer_norm, false, false},
    {"heads", "rows width heads", 3, shape_rows, build_heads, false, false},
    {"matmul", "matrices rows inner columns transposed", 5, shape_matrices, build_matmul, false, false},
    {"conv", "channels side outputs kernel stride groups activation", 7, shape_image, build_conv, true, false},
    {"lstm", "steps rows inputs units layers chunk", 6, shape_steps, build_lstm, false, true},
};

/* ------------------------------------------------------------------------------------------------ one graph */

typedef struct bench {
    const kind *kind;
    int32_t argument[MAX_ARGS];
    int count;
    bs_tier tier;
    int steps;              /* runs of one use */
    size_t inputs, outputs; /* elements of one, of all steps */
    float *in[MAX_COUNT], *out[MAX_COUNT];
    bs_tensor weights[MAX_WEIGHTS];
    char names[MAX_WEIGHTS][64];
    bs_tensor_table table;
    void *graph_memory, *plan_memory, *arenas[ARENAS];
    bs_memory memory;
    bs_graph *graph;
    bs_session *session;
    bs_error error;
} bench;

enum { GRAPH_BYTES = 4 << 20 };

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "products: %s: %s\n", what, why);
    return false;
}

static void *wanted(size_t bytes)
{
    void *memory = aligned_alloc(BS_ALIGNMENT, (bytes + BS_ALIGNMENT) / BS_ALIGNMENT * BS_ALIGNMENT);
    if (!memory) {
        complain("memory", "there is not enough");
        exit(1);
    }
    return memory;
}

static bs_tier tier_named(const char *name)
{
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (strcmp(bs_tier_name((bs_tier)t), name) == 0)
            return (bs_tier)t;
    return BS_TIER_AUTO;
}

/* x0 .. x63 */
static void name_of(char *name, char letter, int index)
{
    snprintf(name, 8, "%c%u", letter, (unsigned)index % MAX_COUNT);
}

static void bench_close(bench *b)
{
    bs_session_close(b->session);
    for (int i = 0; i < b->count; i++) {
        free(b->in[i]);
        free(b->out[i]);
    }
    for (int i = 0; i < b->table.count; i++)
        free((void *)(uintptr_t)b->weights[i].data);
    for (int i = 0; i < ARENAS; i++)
        free(b->arenas[i]);
    free(b->plan_memory);
    free(b->graph_memory);
    memset(b, 0, sizeof *b);
}

static size_t elements_of(int32_t rank, const int64_t *dim)
{
    size_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    return n;
}

static size_t shape_elements(const bs_shape *shape)
{
    int64_t dim[BS_MAX_RANK];
    for (int32_t i = 0; i < shape->rank; i++)
        dim[i] = shape->dim[i];
    return elements_of(shape->rank, dim);
}

static bool bench_open(bench *b, const char *name, int count, const char *tier, const char *arguments)
{
    bench_close(b);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            b->kind = &kinds[i];
    if (!b->kind || count < 1 || count > MAX_COUNT)
        return complain(name, "no such kind, or not 1 .. 64 of it");
    for (int i = 0; i < b->kind->count; i++) {
        char *end;
        b->argument[i] = (int32_t)strtol(arguments, &end, 10);
        if (end == arguments)
            return complain(b->kind->name, b->kind->arguments);
        arguments = end;
    }
    b->tier = tier_named(tier);
    b->graph_memory = wanted(GRAPH_BYTES);
    bs_arena arena;
    bs_arena_init(&arena, "graph", b->graph_memory, GRAPH_BYTES);
    b->graph = bs_graph_create(&arena, NULL);
    const bs_shape shape = b->kind->input(b->argument);
    if (b->kind->sequence && (b->argument[5] < 1 || b->argument[5] > b->argument[0]))
        return complain(name, "a chunk has as many steps as there are, or fewer");
    b->steps = b->kind->sequence ? b->argument[0] / b->argument[5] : 1;
    b->inputs = shape_elements(&shape) * (size_t)b->steps;
    b->count = count;
    for (int i = 0; i < count; i++) {
        char x[8], y[8];
        name_of(x, 'x', i);
        name_of(y, 'y', i);
        b->in[i] = wanted(b->inputs * sizeof(float));
        bs_output(b->graph, y, b->kind->build(b->graph, bs_input(b->graph, x, BS_F32, shape), b->argument));
    }
    return bs_graph_check(b->graph, &b->error) == BS_OK || complain(name, b->error.message);
}

static bool read_floats(float *to, size_t count) { return fread(to, sizeof *to, count, stdin) == count; }

static bool bench_tensor(bench *b, const char *name, const char *dims)
{
    if (b->table.count == MAX_WEIGHTS)
        return complain(name, "too many weights");
    bs_tensor *w = &b->weights[b->table.count];
    snprintf(b->names[b->table.count], sizeof b->names[0], "%s", name);
    *w = (bs_tensor){.name = b->names[b->table.count], .dtype = BS_F32};
    for (char *end; w->rank < BS_MAX_RANK; dims = end) {
        const int64_t dim = strtol(dims, &end, 10);
        if (end == dims)
            break;
        w->dim[w->rank++] = dim;
    }
    const size_t count = elements_of(w->rank, w->dim);
    float *data = wanted(count * sizeof(float));
    w->data = data;
    b->table.count++;
    b->table.tensors = b->weights;
    return read_floats(data, count);
}

/* ------------------------------------------------------------------------------------------------- a session */

/* Images lie channels last, as inside a network. */
static bs_buffer buffer_of(const bench *b, float *data, int32_t rank, const int64_t *dim)
{
    bs_buffer buffer = {.data = data, .dtype = BS_F32, .rank = rank};
    memcpy(buffer.dim, dim, sizeof buffer.dim);
    if (b->kind->channels_last) {
        buffer.stride[0] = 1;
        buffer.stride[1] = dim[0] * dim[2];
        buffer.stride[2] = dim[0];
    }
    return buffer;
}

/* Inputs and outputs, of a sequence those of a step. */
static bool bench_bind(bench *b, int step)
{
    for (int i = 0; i < 2 * b->count; i++) {
        const bool output = i >= b->count;
        bs_port_facts port;
        char name[8];
        name_of(name, output ? 'y' : 'x', i % b->count);
        if (bs_graph_port_get(b->graph, name, &port) != BS_OK)
            return complain(name, "there is no such port");
        if (output && !b->out[i % b->count]) {
            b->outputs = elements_of(port.rank, port.dim) * (size_t)b->steps;
            b->out[i % b->count] = wanted(b->outputs * sizeof(float));
        }
        float *const data = output ? b->out[i % b->count] : b->in[i % b->count];
        const size_t each = (output ? b->outputs : b->inputs) / (size_t)b->steps;
        const bs_buffer buffer = buffer_of(b, data + each * (size_t)step, port.rank, port.dim);
        if (bs_bind(b->session, name, &buffer, &b->error) != BS_OK)
            return complain(name, b->error.message);
    }
    return true;
}

/* Arenas of just the size that the plan says, which is the reply. */
static bool bench_ready(bench *b)
{
    const bs_plan_desc desc = {.tier = (int32_t)b->tier, .threads = 1};
    const bs_session_desc session = {.weights = bs_weights_from_table(&b->table)};
    bs_arena *const arenas[ARENAS] = {&b->memory.persistent, &b->memory.transient, &b->memory.staging};
    bs_sizes sizes;
    bs_arena arena;
    b->plan_memory = wanted(bs_plan_bytes(b->graph, &desc));
    bs_arena_init(&arena, "plan", b->plan_memory, bs_plan_bytes(b->graph, &desc));
    const bs_plan *plan = bs_plan_create(&arena, NULL, b->graph, &desc, &b->error);
    if (!plan)
        return complain("plan", b->error.message);
    bs_plan_sizes(plan, &sizes);
    const uint64_t bytes[ARENAS] = {sizes.persistent, sizes.transient, sizes.staging};
    for (int i = 0; i < ARENAS; i++) {
        b->arenas[i] = wanted((size_t)bytes[i] + BS_ALIGNMENT);
        bs_arena_init(arenas[i], "an arena", b->arenas[i], (size_t)bytes[i] + BS_ALIGNMENT);
    }
    b->session = bs_session_create(&b->memory, plan, &session, &b->error);
    if (!b->session)
        return complain("session", b->error.message);
    return bench_bind(b, 0) && printf("%llu\n", (unsigned long long)(bytes[0] + bytes[1] + bytes[2])) > 0;
}

static bool bench_run(bench *b, int times)
{
    const long before = bench_allocations();
    const double since = peak_cpu_seconds();
    for (int i = 0; i < times * b->steps; i++) {
        if (b->session && b->kind->sequence && i % b->steps == 0)
            bs_reset_state(b->session);
        if (!b->session || (b->steps > 1 && !bench_bind(b, i % b->steps)) || bs_run(b->session, &b->error) != BS_OK)
            return complain("run", b->session ? b->error.message : "nothing is ready");
    }
    const double seconds = peak_cpu_seconds() - since;
    return printf("%.9f %ld\n", seconds, before > 0 ? bench_allocations() - before : -1) > 0;
}

/* ------------------------------------------------------------------------------------------------- protocol */

static bool obey_bare(const char *rest)
{
    char tier[16] = "";
    int inputs, units, rows, steps, times;
    if (sscanf(rest, "%15s %d %d %d %d %d", tier, &inputs, &units, &rows, &steps, &times) != 6 || inputs < 1 ||
        units < 1 || rows < 1 || steps < 1)
        return complain(rest, "expected a tier and five numbers");
    const double seconds = bench_bare_steps(tier_named(tier), inputs, units, rows, steps, times);
    return seconds < 0 ? complain(rest, "there is no such kernel, or no memory") : printf("%.9f\n", seconds) > 0;
}

static bool obey(bench *b, const char *verb, const char *rest)
{
    char name[64] = "", tier[16] = "";
    int count = 0, at = 0;
    if (strcmp(verb, "open") == 0)
        return sscanf(rest, "%63s %d %15s %n", name, &count, tier, &at) == 3 &&
               bench_open(b, name, count, tier, rest + at) && puts("ok") >= 0;
    if (strcmp(verb, "tensor") == 0)
        return sscanf(rest, "%63s %n", name, &at) == 1 && bench_tensor(b, name, rest + at) && puts("ok") >= 0;
    if (strcmp(verb, "ready") == 0)
        return bench_ready(b);
    if (strcmp(verb, "close") == 0) {
        bench_close(b);
        return puts("ok") >= 0;
    }
    if (strcmp(verb, "peak") == 0)
        return sscanf(rest, "%15s", tier) == 1 && printf("%.1f\n", peak_gflops(tier_named(tier))) > 0;
    if (strcmp(verb, "tier") == 0)
        return puts(bs_tier_name(bs_tier_best())) >= 0;
    if (strcmp(verb, "bare") == 0)
        return obey_bare(rest);
    const int number = atoi(rest);
    if (strcmp(verb, "copy") == 0 || strcmp(verb, "read") == 0)
        return number > 0 &&
               printf("%.2f\n", (verb[0] == 'c' ? peak_copy_gbs : peak_read_gbs)((size_t)number)) > 0;
    if (strcmp(verb, "run") == 0)
        return bench_run(b, number);
    if (number < 0 || number >= b->count)
        return complain(rest, "no such number");
    if (strcmp(verb, "input") == 0)
        return read_floats(b->in[number], b->inputs) && puts("ok") >= 0;
    if (strcmp(verb, "result") == 0)
        return fwrite(b->out[number], sizeof(float), b->outputs, stdout) == b->outputs;
    return complain(verb, "no such command");
}

static bool serve(void)
{
    static bench b;
    char line[LINE], verb[16];
    bool ok = true;
    while (ok && fgets(line, sizeof line, stdin)) {
        int at = 0;
        ok = sscanf(line, "%15s %n", verb, &at) < 1 || obey(&b, verb, line + at);
        fflush(stdout);
    }
    bench_close(&b);
    return ok;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "products");
    if (argc > 1) {
        fprintf(stderr, "products: takes commands on standard input: see %s, or run bench/peers/products.py\n",
                argv[0]);
        return 2;
    }
    const bool ok = figures_open(&out, NULL) && serve();
    return figures_end(&out) && ok ? 0 : 1;
}
