/* tags: asan tsan */
/* Promises: what does not depend on each other gets one time, on a device or with several threads, as long as it takes
 * little memory; results are the same bytes with any number of threads, and where nothing joins; which of two failures
 * a run reports does not depend on threads; an image in which one reads what another of its time makes is refused, and
 * bs_plan_verify tells of one in which it touches what that writes. (Random graphs: test_planner.c, test_plan_image.c,
 * test_cuda_random.c.) */
#include "net.h"
#include "plan_image.h"

#include "ops/structure.h"
#include "plan/image.h"
#include "run/exec.h"

enum { BRANCHES = 6, ROWS = 128, WIDTH = 64, EXPERTS = 8, RUNS = 3 }; /* so many that workers are woken: SIDE_WORK */

static BS_ALIGNED uint8_t persistent[16 << 20], transient[48 << 20], staging[1 << 20];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static net_table weights;
static plan_image image;
static float x[ROWS][WIDTH], y[2][ROWS][WIDTH];
static const char names[3][EXPERTS][4] = {{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"},
                                          {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"}};

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static void add_weights(void)
{
    const int64_t w[2] = {WIDTH, WIDTH}, s[2] = {EXPERTS, WIDTH};
    static char parameter[2 * EXPERTS + 1][16];
    int32_t n = 0;
    for (int32_t k = 0; k < 2; k++)
        for (int32_t i = 0; i < EXPERTS; i++, n++) {
            snprintf(parameter[n], sizeof parameter[n], "%s.weight", names[k][i]);
            net_add(&weights, parameter[n], 2, w, 0.2f);
        }
    net_add(&weights, "score.weight", 2, s, 1);
}

static bs_value linear(bs_graph *g, bs_value v, const char *name, int32_t out)
{
    return bs_linear(g, v, &(bs_linear_desc){.name = name, .out = out, .no_bias = 1});
}

/* ------------------------------------------------------------------------------------------------- networks */

/* Branches of three layers each, one after the other, then their sum. */
static bs_value branches(bs_graph *g, bs_value in)
{
    bs_value sum = none;
    for (int32_t k = 0; k < BRANCHES; k++) {
        const bs_value hidden = bs_activation(g, linear(g, in, names[0][k], WIDTH), BS_TANH, 0);
        const bs_value out = linear(g, hidden, names[1][k], WIDTH);
        sum = k ? bs_add(g, sum, out) : out;
    }
    return sum;
}

/* Experts with a row or two each. In each of them two layers do not depend on each other. */
static bs_value experts(bs_graph *g, bs_value in)
{
    const bs_value rows = bs_rows(g, in, none);
    const bs_router r = bs_route(g, linear(g, rows, "score", EXPERTS), none,
                                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_TOP1, .paths = EXPERTS});
    bs_value out[EXPERTS];
    for (int32_t k = 0; k < EXPERTS; k++) {
        const bs_value row = bs_scatter(g, r, k, rows);
        const bs_value a = bs_activation(g, linear(g, row, names[0][k], WIDTH), BS_TANH, 0);
        out[k] = bs_add(g, a, linear(g, row, names[1][k], WIDTH));
    }
    return bs_collect(g, bs_gather(g, r, out, none, NULL));
}

typedef bs_value network(bs_graph *g, bs_value in);

static const bs_plan *plan_of(network *of, const bs_plan_desc *desc)
{
    bs_graph *g = new_graph();
    bs_output(g, "y", of(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH))));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    if (!plan)
        check(false, "a plan: %s", error.message);
    return plan;
}

/* The most instructions of this op at one time. */
static int32_t most_beside(const bs_plan *p, const char *op)
{
    int32_t most = 0;
    for (int32_t k = 0; p && k < p->n_top; k++) {
        int32_t count = 0;
        for (int32_t j = k; j < p->n_top; j++)
            count += p->instrs[j].time == p->instrs[k].time && p->instrs[j].kind == BS_INSTR_CALL &&
                     p->instrs[k].kind == BS_INSTR_CALL &&
                     strcmp(bs_op_get(p->graph->nodes[p->instrs[j].node].op)->name, op) == 0;
        most = bs_max_i32(most, count);
    }
    return most;
}

static void test_times(void)
{
    const bs_plan_desc one = {.no_fusion = 1, .threads = 1}, two = {.no_fusion = 1, .threads = 2},
                       gpu = {.no_fusion = 1, .tier = BS_TIER_CUDA},
                       still = {.no_fusion = 1, .threads = 2, .no_dataflow = 1},
                       slots = {.no_fusion = 1, .threads = 2, .slot_bytes = 1 << 20};
    check(most_beside(plan_of(branches, &two), "linear") == BRANCHES &&
              most_beside(plan_of(branches, &two), "activation") == BRANCHES,
          "branches: with two threads layers of all have one time");
    check(most_beside(plan_of(branches, &gpu), "linear") == BRANCHES, "on a device too");
    check(most_beside(plan_of(branches, &one), "linear") == 1, "not with one thread");
    check(most_beside(plan_of(branches, &still), "linear") == 1, "nor without dataflow");
    check(most_beside(plan_of(branches, &slots), "linear") <= BRANCHES, "weights that come and go can be planned");
    check(most_beside(plan_of(experts, &two), "linear") == 2 * EXPERTS, "experts: both layers of all have one time");
    check(most_beside(plan_of(experts, &one), "linear") == EXPERTS, "else one layer of all");
    char text[1 << 15];
    bs_plan_report(plan_of(branches, &two), text, sizeof text);
    check(strstr(text, "23 instructions at top level in 8 steps, a loop one trip") != NULL,
          "the report counts them: %.60s", strstr(text, "at top level") ? strstr(text, "at top level") : "nothing");
}

/* --------------------------------------------------------------------------------------------------- memory */

/* Branches, each with so many rows, which end in something small. */
static bs_bytes memory_of(int32_t rows, bool joins, int32_t *beside)
{
    bs_graph *g = new_graph();
    const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(rows, WIDTH));
    bs_value sum = none;
    for (int32_t k = 0; k < 40; k++) {
        const bs_value more = bs_affine(g, in, 1, (float)k);
        const bs_value least = bs_reduce(g, more, &(bs_reduce_desc){.kind = BS_REDUCE_SUM, .axis = 1});
        sum = k ? bs_add(g, sum, least) : least;
    }
    bs_output(g, "y", sum);
    const bs_plan_desc desc = {.threads = 2, .no_dataflow = !joins};
    const bs_plan *p = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    *beside = most_beside(p, "affine");
    return p ? p->transient_bytes : bs_bytes_of(0);
}

static void test_memory(void)
{
    for (int32_t rows = 16; rows <= 1 << 14; rows *= 4) {
        int32_t beside, alone;
        const uint64_t with = bs_bytes_figure(memory_of(rows, true, &beside)),
                       without = bs_bytes_figure(memory_of(rows, false, &alone));
        check(with > 0 && with <= without + (2 << 20), "%d rows: %llu bytes, else %llu", rows,
              (unsigned long long)with, (unsigned long long)without);
        check(alone == 1 && (rows > 1 << 12 ? beside == 1 : beside > 1), "%d run side by side", beside);
    }
}

/* --------------------------------------------------------------------------------------------------- results */

static bool run(const bs_plan *plan, float *result, int32_t runs)
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    memset(transient, 0xFF, sizeof transient); /* NaN */
    memset(result, 0x55, sizeof y[0]);
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    bool ran = s && bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {ROWS, WIDTH}, {0}}, &error) == BS_OK &&
               bs_bind(s, "y", &(bs_buffer){result, BS_F32, 2, {ROWS, WIDTH}, {0}}, &error) == BS_OK;
    for (int32_t k = 0; k < runs && ran; k++)
        ran = bs_run(s, &error) == BS_OK;
    bs_session_close(s);
    return ran;
}

static void test_results(network *of, const char *what)
{
    bool same = run(plan_of(of, &(bs_plan_desc){.threads = 1}), y[0][0], 1);
    for (int32_t threads = 1; threads <= 4 && same; threads++)
        for (int32_t still = 0; still < 2 && same; still++)
            same = run(plan_of(of, &(bs_plan_desc){.threads = threads, .no_dataflow = still}), y[1][0], 1 + RUNS * 9) &&
                   memcmp(y[0], y[1], sizeof y[0]) == 0;
    check(same, "%s: the same bytes with 1 to 4 threads, and where nothing joins %s", what, error.message);
}

/* Two paths in step, both of which refuse what they are given. */
static bs_value refusals(bs_graph *g, bs_value in)
{
    const bs_value rows = bs_rows(g, in, none), table = bs_input(g, "table", BS_F32, BS_SHAPE2(2, WIDTH));
    const bs_router r = bs_route(g, linear(g, rows, "score", EXPERTS), none,
                                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_TOP1, .paths = EXPERTS});
    bs_value out[EXPERTS];
    for (int32_t k = 0; k < EXPERTS; k++) {
        const bs_value index = bs_affine(g, bs_slice(g, bs_scatter(g, r, k, rows), &(bs_slice_desc){.length = 1}), 0,
                                         (float)(7 + k));
        const bs_value whole = bs_convert(g, index, &(bs_convert_desc){.dtype = BS_I32});
        out[k] = bs_reshape(g, bs_gather_rows(g, table, whole), BS_SHAPE1(WIDTH));
    }
    return bs_collect(g, bs_gather(g, r, out, none, NULL));
}

/* How many calls run beside others of their time: of those that may refuse their data, or of all others. */
static int32_t calls_beside(const bs_session *s, bool refusing)
{
    int32_t count = 0;
    for (int32_t k = 0; s && k < s->plan->n_top; k++) {
        const bs_instr *i = &s->plan->instrs[k];
        count += i->kind == BS_INSTR_CALL && bs_exec_runs_beside(s, i) &&
                 bs_op_may_refuse(bs_node_op(&s->graph->nodes[i->node])) == refusing;
    }
    return count;
}

static void test_failures(void)
{
    static float table[2][WIDTH];
    char first[sizeof error.message] = "";
    int32_t other = 0, refusing = 0, others = 0;
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    for (int32_t k = 0; k < 40; k++) {
        const bs_plan *plan = plan_of(refusals, &(bs_plan_desc){.threads = k ? 4 : 1});
        bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
        bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {ROWS, WIDTH}, {0}}, NULL);
        bs_bind(s, "table", &(bs_buffer){table, BS_F32, 2, {2, WIDTH}, {0}}, NULL);
        bs_bind(s, "y", &(bs_buffer){y[0], BS_F32, 2, {ROWS, WIDTH}, {0}}, NULL);
        other += !s || bs_run(s, &error) != BS_ERROR_DATA || (k > 0 && strcmp(first, error.message) != 0);
        if (k == 0)
            memcpy(first, error.message, sizeof first);
        refusing += calls_beside(s, true);
        others += calls_beside(s, false);
        bs_session_close(s);
    }
    check(refusing == 0 && others > 0, "what may refuse its data has nothing beside it");
    check(other == 0 && strstr(first, "index"), "with any threads the first failure is told: %s", first);
}

/* ---------------------------------------------------------------------------------------------------- images */

static uint8_t *row_of(const bs_plan *p, int32_t table, int32_t row)
{
    bs_image_places places;
    bs_image_place(p, &places);
    return image.bytes + bs_bytes_figure(places.table[table]) + (size_t)row * bs_image_row_bytes(table);
}

static const bs_value_plan *value_at(const bs_plan *p, int32_t value)
{
    return (const bs_value_plan *)row_of(p, BS_IMAGE_values, value);
}

/* The nth call of an op at top level, from 0; and what it makes. */
static int32_t call_of(const bs_plan *p, const char *op, int32_t nth)
{
    for (int32_t k = 0; k < p->n_top; k++)
        if (p->instrs[k].kind == BS_INSTR_CALL &&
            strcmp(bs_op_get(p->graph->nodes[p->instrs[k].node].op)->name, op) == 0 && nth-- == 0)
            return k;
    return -1;
}

static int32_t made_by(const bs_plan *p, const char *op, int32_t nth)
{
    return p->graph->nodes[p->instrs[call_of(p, op, nth)].node].first_out;
}

/* The activation of a branch in the time of the layer that it reads. */
static void reads_too_early(const bs_plan *p)
{
    const int32_t k = call_of(p, "activation", 0);
    memcpy(row_of(p, BS_IMAGE_instrs, k) + offsetof(bs_instr, time), &p->instrs[k - 1].time, sizeof(int32_t));
}

static void lies_at(const bs_plan *p, int32_t value, const bs_value_plan *other)
{
    memcpy(row_of(p, BS_IMAGE_values, value) + offsetof(bs_value_plan, offset), &other->offset, sizeof other->offset);
}

/* Two layers of one time write the same bytes. */
static void writes_the_same(const bs_plan *p)
{
    lies_at(p, made_by(p, "linear", 1), value_at(p, made_by(p, "linear", 0)));
}

/* What the second activation writes is what the first one reads. */
static void writes_what_is_read(const bs_plan *p)
{
    lies_at(p, made_by(p, "activation", 1), value_at(p, made_by(p, "linear", 0)));
}

/* What the first activation writes is what the second one reads. */
static void writes_what_is_read_later(const bs_plan *p)
{
    lies_at(p, made_by(p, "activation", 0), value_at(p, made_by(p, "linear", 1)));
}

/* The same with the two layers of one expert, which are alike but for their path. */
static void path_writes_twice(const bs_plan *p)
{
    int32_t k = 1;
    while (p->instrs[call_of(p, "linear", k)].domain != p->instrs[call_of(p, "linear", 1)].domain || k == 1)
        k++;
    lies_at(p, made_by(p, "linear", k), value_at(p, made_by(p, "linear", 1)));
}

/* A plan that lies about its order is refused; of one that lies about its bytes bs_plan_verify tells. */
static void test_image(network *of, const char *what, const bs_plan_desc *desc, void (*tells)(const bs_plan *p))
{
    static BS_ALIGNED uint8_t workspace[1 << 20];
    bs_arena arena;
    const bs_plan *p = plan_of(of, desc);
    const bool saved = p && plan_image_save(&image, p);
    check(saved && plan_image_open(&image, p->graph), "an image is opened: %s", image.error.message);
    if (!saved)
        return;
    tells(p);
    plan_image_mend(&image);
    memset(&image.error, 0, sizeof image.error);
    bs_arena_init(&arena, "verifying", workspace, sizeof workspace);
    const bs_plan *opened = plan_image_open(&image, p->graph);
    const bs_status status = opened ? bs_plan_verify(opened, &arena, &image.error) : image.error.status;
    check(status == (opened ? BS_ERROR_INTERNAL : BS_ERROR_FORMAT) && (!opened) == (tells == reads_too_early), "%s: %s",
          what, image.error.message);
}

int main(void)
{
    check_seed(16);
    add_weights();
    for (int32_t k = 0; k < ROWS * WIDTH; k++)
        x[k / WIDTH][k % WIDTH] = (float)check_below(2000) / 1000 - 1;
    test_times();
    test_memory();
    test_results(branches, "branches");
    test_results(experts, "experts");
    test_failures();
    const bs_plan_desc two = {.no_fusion = 1, .threads = 2}, gpu = {.no_fusion = 1, .tier = BS_TIER_CUDA};
    test_image(branches, "read while it is written", &two, reads_too_early);
    test_image(branches, "read while it is written, on a device", &gpu, reads_too_early);
    test_image(branches, "written twice", &two, writes_the_same);
    test_image(branches, "written while it is read", &two, writes_what_is_read);
    test_image(branches, "written before it is read", &two, writes_what_is_read_later);
    test_image(experts, "one path writes twice", &two, path_writes_twice);
    plan_image_free(&image);
    return check_end();
}
