/* tags: unsigned tsan aarch64 32-bit */
/* Promises: a weight is prepared once for each layout, however many nodes use it, resident, in slots or on a GPU; what
 * is shared gives the bytes of what is copied; a name stands for one tensor; a session can read another's prepared
 * weights.
 *
 * Relies on: against.h (exact arenas, the oracle), flat_source.h (weights that stream), plan/plan.h from inside. */
#define _POSIX_C_SOURCE 200809L
#include "against.h"
#include "flat_source.h"

#include <pthread.h>

#ifdef BS_TEST_ON_DEVICE
#define ON_HOST(what)
#else
#define ON_HOST(what) what
#endif

static bs_error error;
static _Alignas(64) uint8_t graph_memory[2][4 << 20];

static bs_graph *graph_in(int32_t which)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory[which], sizeof graph_memory[which]);
    return bs_graph_create(&arena, NULL);
}

static const char *name_of(bool shared, const char *stem, int32_t i)
{
    static char names[64][24];
    static int32_t next;
    char *name = names[next++ % 64];
    snprintf(name, sizeof names[0], shared ? "%s" : "%s%d", stem, i);
    return name;
}

/* ------------------------------------------------------------------------------------------- networks, two ways */

enum { USES = 8, WIDTH = 24, ROWS = 40 };

/* the last one: in paths that have own weights too */
typedef enum shape { IN_A_ROW, IN_PATHS, IN_A_BLOCK, IN_BLOCKS, SHAPES, BESIDE_OWN } shape;
static const char *const shape_names[SHAPES] = {"one after the other", "in eight paths", "in one block",
                                                "in eight blocks"};

static bs_value use(bs_graph *g, bs_value x, bool shared, int32_t i)
{
    return bs_linear(
        g, x, &(bs_linear_desc){.name = name_of(shared, "same", i), .out = WIDTH, .act = BS_CLIP, .act_param = 4});
}

/* The same network with one weight for eight layers, or with eight that are equal. */
static const bs_graph *build(shape s, bool shared)
{
    bs_graph *g = graph_in(shared);
    const bs_dim n = bs_symbol(g, "N", ROWS);
    const bs_value cells = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(n, WIDTH)), (bs_value){0});
    const bs_value scores = bs_rows(g, bs_input(g, "scores", BS_F32, BS_SHAPE2(n, USES)), cells);
    const bs_router route = bs_route(g, scores, (bs_value){0},
                                     &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOP1, .paths = USES});
    bs_value x = cells, out[USES];
    if (s == IN_A_BLOCK)
        bs_block_begin(g, "block");
    for (int32_t i = 0; i < USES; i++) {
        if (s == IN_PATHS || s == IN_BLOCKS || s == BESIDE_OWN)
            bs_block_begin(g, name_of(false, "block", i));
        if (s == IN_PATHS || s == BESIDE_OWN)
            out[i] = use(g, bs_scatter(g, route, i, cells), shared, i);
        else
            x = use(g, x, shared, i);
        if (s == BESIDE_OWN)
            out[i] = use(g, out[i], false, USES + i);
        if (s == IN_PATHS || s == IN_BLOCKS || s == BESIDE_OWN)
            bs_block_end(g);
    }
    if (s == IN_A_BLOCK)
        bs_block_end(g);
    if (s == IN_PATHS || s == BESIDE_OWN)
        x = bs_gather(g, route, out, (bs_value){0}, NULL);
    bs_output(g, "out", bs_collect(g, x));
    return bs_graph_check(g, &error) == BS_OK ? g : NULL;
}

/* Weights of every name there is: all have the values of one. */
static net_table *weights_of_one(void)
{
    static net_table table;
    const int64_t dim[2] = {WIDTH, WIDTH};
    if (table.table.count > 0)
        return &table;
    net_add_whole(&table, "same.weight", 2, dim);
    net_add_whole(&table, "same.bias", 1, dim);
    for (int32_t i = 0; i < 4 * USES; i++) {
        bs_tensor *t = &table.tensors[table.table.count++];
        *t = table.tensors[i % 2];
        t->name = strcat(strcpy((char *)malloc(32), name_of(false, "same", i / 2)), i % 2 ? ".bias" : ".weight");
    }
    return &table;
}

/* What one run gives, as bytes; the rows are the same every time. Returns a checksum, 0 after a failure. */
static uint32_t run_once(bs_session *session)
{
    static float in[ROWS][WIDTH], scores[ROWS][USES], out[ROWS][WIDTH];
    for (int32_t i = 0; i < ROWS * WIDTH; i++)
        in[i / WIDTH][i % WIDTH] = (float)(i * 7 % 13 - 6) / 2;
    for (int32_t i = 0; i < ROWS * USES; i++)
        scores[i / USES][i % USES] = (float)(i * 5 % 31);
    memset(out, 0, sizeof out);
    const bs_buffer buffers[] = {{in, BS_F32, 2, {ROWS, WIDTH}, {0}},
                                 {scores, BS_F32, 2, {ROWS, USES}, {0}},
                                 {out, BS_F32, 2, {ROWS, WIDTH}, {0}}};
    const bool ok = bs_bind(session, "in", &buffers[0], &error) == BS_OK &&
                    bs_bind(session, "out", &buffers[2], &error) == BS_OK;
    bs_bind(session, "scores", &buffers[1], NULL); /* where nothing is routed they are not needed */
    return ok && bs_run(session, &error) == BS_OK ? bs_crc32(0, out, sizeof out) : 0;
}

/* ------------------------------------------------------------------------------------------------------ one copy */

typedef struct sized {
    uint64_t resident, unit, units; /* prepared bytes */
    uint32_t result;
} sized;

static sized sizes_of(const rig *r, uint32_t result)
{
    bs_stream_plan stream;
    bs_plan_stream_get(r->plan, &stream);
    return (sized){r->sizes.weights, stream.least_bytes, stream.all_bytes, result};
}

/* forced: a path that all rows take, -1 for none. Path 1 leaves out a part of the record that holds what all share,
 * which then has no checksum. */
static sized run_forced(shape s, bool shared, uint64_t slot_bytes, int32_t forced)
{
    static flat_source source;
    rig r;
    const bs_graph *g = build(s, shared);
    sized is = {0, 0, 0, 0};
    if (!g ||
        !rig_plan(&r, g,
                  &(bs_plan_desc){
                      .slot_bytes = slot_bytes, .threads = 2, .forces = {{"route", forced}}, .n_forces = forced >= 0}))
        return is;
    flat_init(&source, g, &weights_of_one()->table, BS_F32);
    const bs_weights streamed = flat_weights(&source, 1);
    const bool ok = slot_bytes ? rig_streamed(&r, &streamed, &(bs_stream_desc){.check_records = forced < 1}, 0x5A)
                               : rig_session(&r, &weights_of_one()->table, NULL, 0x5A);
    if (!ok)
        printf("  %s\n", r.error.message);
    is = sizes_of(&r, ok ? run_once(r.session) : 0);
    bs_session_close(r.session);
    return rig_intact(&r) ? is : (sized){0, 0, 0, 0};
}

static sized run_shape(shape s, bool shared, uint64_t slot_bytes) { return run_forced(s, shared, slot_bytes, -1); }

/* The record of the first block holds what all share: the others read theirs without it. */
static void test_beside_own(uint64_t one)
{
    for (int32_t forced = -1; forced < 2; forced++) {
        const sized copies = run_forced(BESIDE_OWN, false, 0, forced),
                    shared = run_forced(BESIDE_OWN, true, UINT64_MAX, forced);
        const uint64_t units = forced < 0 ? USES * one : shared.resident ? one : 2 * one;
        check(shared.result != 0 && shared.result == copies.result && shared.resident <= one && shared.units == units,
              "beside own weights, path %d: %llu bytes in slots, %llu resident, and the result is the same", forced,
              (unsigned long long)shared.units, (unsigned long long)shared.resident);
    }
}

static void test_one_copy(void)
{
    const sized one_each = run_shape(IN_A_ROW, false, 0);
    const uint64_t one = one_each.resident / USES;
    for (shape s = 0; s < SHAPES; s++) {
        const sized copies = run_shape(s, false, 0), shared = run_shape(s, true, 0);
        check(shared.result != 0 && shared.result == copies.result && shared.resident == one &&
                  copies.resident == USES * one,
              "%s, resident: eight uses take %llu bytes, eight weights %llu, and the result is the same",
              shape_names[s], (unsigned long long)shared.resident, (unsigned long long)copies.resident);
    }
    for (shape s = IN_PATHS; s < SHAPES; s++) {
        const sized copies = run_shape(s, false, UINT64_MAX), shared = run_shape(s, true, UINT64_MAX);
        const bool in_one_unit = s == IN_A_BLOCK;
        check(
            shared.result != 0 && shared.result == copies.result && copies.units == USES * one &&
                copies.resident == 0 && shared.units == (in_one_unit ? one : 0) &&
                shared.resident == (in_one_unit ? 0 : one),
            "%s, streamed: eight uses take %llu bytes in slots and %llu resident, eight weights %llu in slots, and "
            "the result is the same",
            shape_names[s], (unsigned long long)shared.units, (unsigned long long)shared.resident,
            (unsigned long long)copies.units);
    }
    test_beside_own(one);
}

/* --------------------------------------------------------------------------------------------------------- layouts */

static uint64_t bytes_of(void (*build_net)(bs_graph *g))
{
    rig r;
    bs_graph *g = graph_in(0);
    build_net(g);
    if (bs_graph_check(g, &error) != BS_OK || !rig_plan(&r, g, NULL)) {
        error = bs_graph_check(g, &error) != BS_OK ? error : r.error;
        return 0;
    }
    bs_plan_sizes(r.plan, &r.sizes);
    return r.sizes.weights;
}

/* An input of its own for each: of two nodes that compute the same the planner keeps one. */
static bs_value image(bs_graph *g, int32_t i)
{
    return bs_input(g, name_of(false, "in", i), BS_F32, BS_SHAPE3(16, 24, 24));
}

static void conv(bs_graph *g, int32_t i, bs_conv2d_desc desc)
{
    desc.out = 16;
    desc.kernel = 3;
    bs_output(g, name_of(false, "o", i), bs_conv2d(g, image(g, i), &desc));
}

static void one_conv(bs_graph *g) { conv(g, 0, (bs_conv2d_desc){.name = "c"}); }
static void one_of_two(bs_graph *g) { conv(g, 0, (bs_conv2d_desc){.name = "c", .stride = 2}); }
static void one_of_three(bs_graph *g) { conv(g, 0, (bs_conv2d_desc){.name = "c", .stride = 3}); }
static void alternating(bs_graph *g)
{
    for (int32_t i = 0; i < 6; i++)
        conv(g, i, (bs_conv2d_desc){.name = "c", .stride = 1 + i % 3});
}

static void one_norm(bs_graph *g) { bs_output(g, "o", bs_batch_norm(g, image(g, 0), &(bs_norm_desc){.name = "n"})); }
static void norms(bs_graph *g)
{
    for (int32_t i = 0; i < 4; i++) /* the constant that is added is folded into the prepared weights */
        bs_output(g, name_of(false, "o", i),
                  bs_batch_norm(g, image(g, i), &(bs_norm_desc){.name = "n", .epsilon = i % 2 ? 0.5f : 0.25f}));
}

static void unlike_biases(bs_graph *g)
{
    for (int32_t i = 0; i < 6; i++)
        conv(g, i, (bs_conv2d_desc){.name = "c", .no_bias = i < 3});
}

static void one_without(bs_graph *g) { conv(g, 0, (bs_conv2d_desc){.name = "c", .no_bias = 1}); }

static void test_layouts(void)
{
    check(bytes_of(alternating) > 0 &&
              bytes_of(alternating) == bytes_of(one_conv) + bytes_of(one_of_two) + bytes_of(one_of_three),
          "six convolutions of one name and three strides: three copies");
    check(bytes_of(norms) > 0 && bytes_of(norms) == 2 * bytes_of(one_norm),
          "four batch norms of one name and two epsilons: two copies");
    check(bytes_of(unlike_biases) > 0 && bytes_of(unlike_biases) == bytes_of(one_conv) + bytes_of(one_without),
          "six convolutions of one name, half of them without bias: two copies");
}

/* ------------------------------------------------------------------------------------------- one name, one tensor */

static void two_shapes(bs_graph *g)
{
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8));
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = "l", .out = 6});
    bs_output(g, "out", bs_linear(g, y, &(bs_linear_desc){.name = "l", .out = 6}));
}

static void two_ops(bs_graph *g)
{
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8));
    bs_output(g, "a", bs_linear(g, x, &(bs_linear_desc){.name = "l", .out = 8}));
    bs_output(g, "b", bs_constant(g, "l.bias", BS_I32, BS_SHAPE1(8)));
}

static void same_tensor(bs_graph *g)
{
    const bs_value x = bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8));
    bs_output(g, "a", bs_linear(g, x, &(bs_linear_desc){.name = "l", .out = 8}));
    bs_output(g, "b", bs_constant(g, "l.bias", BS_F32, BS_SHAPE1(8)));
}

static void test_one_tensor(void)
{
    check(bytes_of(two_shapes) == 0 && error.status == BS_ERROR_SHAPE &&
              strcmp(error.message,
                     "weight \"l.weight\" is f32 [6, 8] to linear \"l\", but f32 [6, 6] to linear \"l\"") == 0,
          "one name with two shapes is an error: %s", error.message);
    check(bytes_of(two_ops) == 0 && error.status == BS_ERROR_SHAPE &&
              strcmp(error.message,
                     "weight \"l.bias\" is f32 [8] to linear \"l\", but i32 [8] to constant \"l.bias\"") == 0,
          "one name with two types is an error: %s", error.message);
    check(bytes_of(same_tensor) > 0, "two ops may use one tensor");
}

/* -------------------------------------------------------------------------------------------------- two sessions */

typedef struct job {
    bs_session *session;
    uint32_t result;
} job;

static void *run_job(void *user)
{
    job *j = user;
    static _Thread_local float in[ROWS][WIDTH], scores[ROWS][USES], out[ROWS][WIDTH];
    const bs_buffer buffers[] = {{in, BS_F32, 2, {ROWS, WIDTH}, {0}},
                                 {scores, BS_F32, 2, {ROWS, USES}, {0}},
                                 {out, BS_F32, 2, {ROWS, WIDTH}, {0}}};
    for (int32_t i = 0; i < ROWS * WIDTH; i++)
        in[i / WIDTH][i % WIDTH] = (float)(i * 7 % 13 - 6) / 2;
    for (int32_t i = 0; i < ROWS * USES; i++)
        scores[i / USES][i % USES] = (float)(i * 5 % 31);
    bool ok = bs_bind(j->session, "in", &buffers[0], NULL) == BS_OK &&
              bs_bind(j->session, "scores", &buffers[1], NULL) == BS_OK &&
              bs_bind(j->session, "out", &buffers[2], NULL) == BS_OK;
    for (int32_t i = 0; ok && i < 20; i++)
        ok = bs_run(j->session, NULL) == BS_OK;
    j->result = ok ? bs_crc32(0, out, sizeof out) : 0;
    return NULL;
}

/* Weights of a session of another plan of the same graph. */
static void refuse_another_plan(const rig *r, bs_memory *m, const bs_session_desc *desc)
{
    static _Alignas(64) uint8_t plan_memory[1 << 20];
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    const bs_plan *other = bs_plan_create(&arena, NULL, r->session->graph, &r->plan->desc, NULL);
    m->persistent.used = m->transient.used = m->staging.used = 0;
    check(other && !bs_session_create(m, other, desc, &error) && error.status == BS_ERROR_ARGUMENT &&
              strcmp(error.message, "bs_session_desc.weights_of: a session of another plan") == 0 &&
              m->persistent.used == 0,
          "weights of another plan's session are refused");
}

static void test_two_sessions(void)
{
    static _Alignas(64) uint8_t memory[4 << 20];
    rig r;
    job jobs[2] = {{NULL, 0}, {NULL, 0}};
    bs_memory m;
#ifdef BS_TEST_ON_DEVICE
    ag_sessions = 2;
#endif
    if (!check(rig_plan(&r, build(IN_PATHS, false), &(bs_plan_desc){.threads = 2}) &&
                   rig_session(&r, &weights_of_one()->table, NULL, 0x5A),
               "a session with weights of its own"))
        return;
    jobs[0].session = r.session;
    bs_session_desc desc = {.weights_of = r.session};
#ifdef BS_TEST_ON_DEVICE
    desc.device = r.device;
    const size_t device_before = desc.device->memory.used;
#endif
    bs_arena_init(&m.persistent, "persistent", memory, (size_t)(r.sizes.persistent ON_HOST(-r.sizes.weights)));
    bs_arena_init(&m.transient, "transient", memory + (1 << 20), 2 << 20);
    bs_arena_init(&m.staging, "staging", NULL, 0); /* nothing is read */
    bs_arena_init(&m.slots, "slots", NULL, 0);
    jobs[1].session = bs_session_create(&m, r.plan, &desc, &error);
    check(jobs[1].session && r.sizes.weights > 0,
          "another that reads them is given no weights, and takes %llu bytes less: %s",
          (unsigned long long)r.sizes.weights, jobs[1].session ? "" : error.message);
#ifdef BS_TEST_ON_DEVICE
    check(desc.device->memory.used - device_before == r.sizes.device - r.sizes.weights, "of the GPU's memory, too");
#endif
    pthread_t threads[2];
    bool ok = jobs[1].session != NULL;
    for (int32_t i = 0; ok && i < 2; i++)
        ok = pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0;
    for (int32_t i = 0; ok && i < 2; i++)
        pthread_join(threads[i], NULL);
    check(jobs[0].result != 0 && jobs[0].result == jobs[1].result, "they run at once and give the same");
    bs_session_close(jobs[1].session);
    run_job(&jobs[0]);
    check(jobs[0].result != 0 && jobs[0].result == jobs[1].result, "the first goes on when the other is closed");
    refuse_another_plan(&r, &m, &desc);
    bs_session_close(r.session);
}

int main(void)
{
    test_one_copy();
    test_layouts();
    test_one_tensor();
    test_two_sessions();
    return check_end();
}
