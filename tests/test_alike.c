/* tags: asan tsan */
/* Promises: of rows whose operands hold the same bytes one is computed and the others are copies, in a tail too; rows
 * that differ in a bit, in a sign of 0 or in what a NaN holds are not taken for such; loops that begin with one value
 * for all rows give each row the bytes that it has alone, whatever products their weights make of zeros, with any
 * number of threads. */
#include "check.h"
#include "trees.h"

#include "run/exec.h"

#include <math.h>

enum { UNITS = 24, ROWS = 37, TRIPS = 3 }; /* rows of several calls */

static BS_ALIGNED uint8_t persistent[4 << 20], transient[8 << 20], staging[1 << 16];
static bs_memory memory;
static bs_error error;
static const bs_value none;

static float w[4 * UNITS * UNITS], bias[4 * UNITS], start[UNITS];
static const bs_tensor tensors[] = {{"w.weight", BS_F32, 2, {UNITS, UNITS}, w},
                                    {"r.weight_ih", BS_F32, 2, {4 * UNITS, UNITS}, w},
                                    {"r.weight_hh", BS_F32, 2, {4 * UNITS, UNITS}, w},
                                    {"r.bias_ih", BS_F32, 1, {4 * UNITS}, bias},
                                    {"r.bias_hh", BS_F32, 1, {4 * UNITS}, bias},
                                    {"g.weight_ih", BS_F32, 2, {3 * UNITS, UNITS}, w},
                                    {"g.weight_hh", BS_F32, 2, {3 * UNITS, UNITS}, w},
                                    {"g.bias_ih", BS_F32, 1, {3 * UNITS}, bias},
                                    {"g.bias_hh", BS_F32, 1, {3 * UNITS}, bias},
                                    {"matrix", BS_F32, 2, {UNITS, UNITS}, w},
                                    {"start", BS_F32, 1, {UNITS}, start}};
static const bs_tensor_table weights = {tensors, sizeof tensors / sizeof *tensors};

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float next_float(void) { return (float)(check_random() % 2001) / 1000 - 1; }

/* What all rows begin with, and what weights are among fractions. */
typedef enum begins { ZEROS, MINUS_ZEROS, FRACTIONS, BEGINS } begins;
typedef enum weighs { FINITE, INFINITE, NANS, WEIGHS } weighs;

/* An infinity, or a NaN, of which there are several kinds, among infinities. */
static float no_fraction(weighs weigh, int32_t i)
{
    if (weigh == INFINITE || i % 3 == 0)
        return i % 2 ? INFINITY : -INFINITY;
    return of_bits((i % 5 == 0 ? 0xFFC01234u : 0x7FC01234u) + (uint32_t)i % 4);
}

static void set_numbers(begins begin, weighs weigh)
{
    check_seed(7);
    for (int32_t i = 0; i < UNITS; i++)
        start[i] = begin == ZEROS ? 0.0f : begin == MINUS_ZEROS ? -0.0f : next_float();
    for (int32_t i = 0; i < 4 * UNITS * UNITS; i++)
        w[i] = next_float() / 4;
    for (int32_t i = 0; i < 4 * UNITS; i++)
        bias[i] = weigh == FINITE && i % 3 == 0 ? -0.0f : next_float();
    for (int32_t i = 5; i < 4 * UNITS * UNITS && weigh != FINITE; i += weigh == INFINITE ? 7 * UNITS + 1 : 11)
        w[i] = no_fraction(weigh, i);
}

static bs_graph *new_graph(void)
{
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    return bs_graph_create(&memory.persistent, NULL);
}

static bs_session *open_session(const bs_graph *g, const bs_plan_desc *desc)
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights)};
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, desc, &error);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    return plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
}

static void bind(bs_session *s, const char *name, void *data, bs_dtype dtype, int64_t rows, int64_t width)
{
    const bs_buffer b = {data, dtype, 2, {rows, width}, {0}};
    check(bs_bind(s, name, &b, &error) == BS_OK, "%s is bound: %s", name, error.message);
}

/* ------------------------------------------------------------------------------------------------- one call */

enum { FEW = 4 }; /* rows of a call that is looked at */

static float x[ROWS][UNITS], y[2][ROWS][TRIPS][UNITS];

static bs_value linear(bs_graph *g, bs_value v)
{
    return bs_linear(g, v, &(bs_linear_desc){.name = "w", .out = UNITS, .no_bias = 1});
}

static bs_value product(bs_graph *g, bs_value v)
{
    const bs_value matrix = bs_constant(g, "matrix", BS_F32, BS_SHAPE2(UNITS, UNITS));
    const bs_value line = bs_reshape(g, v, BS_SHAPE2(1, UNITS));
    return bs_reshape(g, bs_matmul(g, line, matrix, NULL), BS_SHAPE1(UNITS));
}

/* A network of one op on rows, which has run: its call of FEW rows. */
static bs_session *one_call(bs_value (*of)(bs_graph *g, bs_value v), const char *op, bool tail, bs_call_room *room,
                            const bs_instr **instr)
{
    bs_graph *g = new_graph();
    const bs_value v = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(FEW, UNITS)), none), made = of(g, v);
    bs_output(g, "y", bs_collect(g, tail ? bs_add(g, made, v) : made));
    bs_session *s = open_session(g, &(bs_plan_desc){.conv = BS_CONV_FORCE_REFERENCE, .order = BS_ORDER_BREADTH});
    check(s != NULL, "a call of %s: %s", op, error.message);
    bind(s, "x", x, BS_F32, FEW, UNITS);
    bind(s, "y", y, BS_F32, FEW, UNITS);
    check(bs_run(s, &error) == BS_OK, "it runs: %s", error.message);
    const bs_instr *i = s->plan->instrs;
    while (i->kind != BS_INSTR_CALL || strcmp(bs_node_op(&s->graph->nodes[i->node])->name, op) != 0)
        i++;
    room->call.in = room->in;
    room->call.out = room->out;
    bs_exec_prepare(&s->root, i->node, 0, FEW, &room->call);
    room->in[0].data = x; /* where rows lie that are compared */
    room->in[0].row_stride = UNITS;
    *instr = i;
    return s;
}

static bs_value tanh_of(bs_graph *g, bs_value v) { return bs_activation(g, v, BS_TANH, 0); }

static void fill(float value)
{
    for (int32_t i = 0; i < ROWS * UNITS; i++)
        x[i / UNITS][i % UNITS] = value;
}

static void test_bytes(void)
{
    static const struct {
        float all, one;
        int32_t row, rows; /* the one in that row, and how many are computed */
        const char *what;
    } cases[] = {{0.5f, 0.5f, 1, 1, "the same"},
                 {0.5f, 0.50000006f, FEW - 1, FEW, "one bit of the last row"},
                 {0.5f, 0.50000006f, 0, FEW, "one bit of the first row"},
                 {0.0f, -0.0f, 2, FEW, "a sign of 0"},
                 {INFINITY, INFINITY, 1, 1, "infinities"},
                 {INFINITY, -INFINITY, 1, FEW, "a sign of infinity"}};
    bs_call_room room;
    const bs_instr *i;
    bs_session *s = one_call(linear, "linear", false, &room, &i);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fill(cases[k].all);
        x[cases[k].row][UNITS - 1] = cases[k].one;
        const int32_t rows = bs_alike_rows(&room.call);
        check(rows == cases[k].rows, "%s: %d rows are computed", cases[k].what, rows);
    }
    fill(of_bits(0x7FC01234u));
    check(bs_alike_rows(&room.call) == 1, "the same NaN");
    x[1][3] = of_bits(0x7FC01235u);
    check(bs_alike_rows(&room.call) == FEW, "a NaN that holds something else");
    bs_session_close(s);
}

/* Rows in another place, or not in one. */
static void test_layouts(void)
{
    bs_call_room room;
    const bs_instr *i;
    bs_session *s = one_call(linear, "linear", false, &room, &i);
    bs_operand *const in = &room.in[0], *const out = &room.out[0];
    fill(0.25f);
    in->row_stride = UNITS + 3;
    float *const all = x[0];
    for (int32_t row = 0; row < FEW; row++)
        all[row * (UNITS + 3) + UNITS] = (float)row;
    check(bs_alike_rows(&room.call) == 1, "what lies between rows is none of theirs");
    fill(0.25f);
    in->stride[0] = FEW;
    check(bs_alike_rows(&room.call) == FEW, "elements of a row that lie apart are not compared");
    in->stride[0] = 1;
    in->image = true;
    check(bs_alike_rows(&room.call) == FEW, "nor are images, of which each may be another cell");
    in->image = false;
    out->image = true;
    check(bs_alike_rows(&room.call) == FEW, "nor are they made");
    out->image = false;
    out->stride[0] = FEW;
    check(bs_alike_rows(&room.call) == FEW, "a result that lies apart is not copied");
    bs_session_close(s);
}

static void test_operands(void)
{
    bs_call_room room;
    const bs_instr *i;
    bs_session *s = one_call(product, "matmul", false, &room, &i);
    fill(0.5f);
    check(bs_alike_rows(&room.call) == 1, "a matrix of the root is one for all");
    room.in[1] = room.in[0]; /* each row's own */
    check(bs_alike_rows(&room.call) == 1, "two operands");
    room.in[1].data = x[FEW];
    x[FEW + 1][0] = 1;
    check(bs_alike_rows(&room.call) == FEW, "of which the second differs");
    bs_session_close(s);
    s = one_call(linear, "linear", false, &room, &i);
    fill(0.5f);
    bs_node other = *room.call.node;
    for (int32_t k = 0; bs_op_get(k); k++)
        other.op = strcmp(bs_op_get(k)->name, "attention") == 0 ? k : other.op;
    check(bs_alike_rows(&room.call) == 1, "a product");
    room.call.node = &other;
    check(bs_alike_rows(&room.call) == FEW, "an op whose rows see each other");
    bs_session_close(s);
    s = one_call(tanh_of, "activation", false, &room, &i);
    fill(0.5f);
    check(bs_alike_rows(&room.call) == FEW, "what costs next to nothing is computed");
    bs_session_close(s);
}

/* The result of a row lies where the next one is read: computed row by row, each would be that of a result. */
static void test_copied(bool tail)
{
    static float room_for[FEW + 1][UNITS], right[UNITS];
    bs_call_room room;
    const bs_instr *i;
    set_numbers(FRACTIONS, FINITE);
    bs_session *s = one_call(linear, "linear", tail, &room, &i);
    for (int32_t k = 0; k < (FEW + 1) * UNITS; k++)
        room_for[k / UNITS][k % UNITS] = start[k % UNITS];
    for (int32_t o = 0; o < UNITS; o++) {
        right[o] = 0.0f;
        for (int32_t k = 0; k < UNITS; k++)
            right[o] += start[k] * w[o * UNITS + k];
    }
    fill(0.0f);
    for (int32_t row = 0; row < FEW && tail; row++)
        x[row][0] = (float)row; /* of the tail, row by row */
    room.in[0].data = room_for;
    room.out[0].data = room_for[1];
    room.in[0].row_stride = room.out[0].row_stride = UNITS;
    room.out[0].stride[0] = 1;
    check(bs_exec_run(bs_step_of(s, i), &room.call) == BS_OK, "a call");
    bool same = bs_step_of(s, i)->tail == tail;
    for (int32_t row = 0; row < FEW; row++)
        for (int32_t o = 0; o < UNITS; o++)
            same = same && fabsf(room_for[row + 1][o] - right[o] - (tail && o == 0 ? (float)row : 0)) < 1e-5f;
    check(same, "%s: one row is computed, the others are copies", tail ? "with a tail" : "alone");
    bs_session_close(s);
}

/* ---------------------------------------------------------------------------------------------------- loops */

typedef bs_value (*body)(bs_graph *g, bs_value h, bs_value own);

static bs_value of_linear(bs_graph *g, bs_value h, bs_value own)
{
    return bs_activation(g, bs_add(g, linear(g, h), own), BS_TANH, 0);
}

static bs_value of_matmul(bs_graph *g, bs_value h, bs_value own) { return bs_add(g, product(g, h), own); }

static bs_value of_lstm(bs_graph *g, bs_value h, bs_value own)
{
    bs_value c;
    const bs_value out = bs_lstm(g, h, h, h, &(bs_recurrent_desc){.name = "r"}, &c);
    return bs_add(g, bs_mul(g, out, c), own);
}

static bs_value of_gru(bs_graph *g, bs_value h, bs_value own)
{
    return bs_add(g, bs_gru(g, h, h, &(bs_recurrent_desc){.name = "g"}), own);
}

static bs_value of_softmax(bs_graph *g, bs_value h, bs_value own) { return bs_add(g, bs_softmax(g, h), own); }

/* The inner one begins anew in each trip of the outer one. */
static bs_value of_loop(bs_graph *g, bs_value h, bs_value own)
{
    const bs_value zeros = bs_constant(g, "start", BS_F32, BS_SHAPE1(UNITS));
    const bs_router loop = bs_loop_begin(g, h, none, &(bs_loop_desc){.name = "inner", .bound = 2});
    const bs_value v = bs_loop_carry(g, loop, zeros), inside = bs_scatter(g, loop, 0, bs_mul(g, h, own));
    const bs_value end = bs_loop_next(g, loop, v, of_linear(g, v, inside));
    bs_loop_end(g, loop, none);
    return end;
}

static const struct {
    const char *name;
    body of;
} bodies[] = {{"linear", of_linear}, {"matmul", of_matmul}, {"lstm", of_lstm},
              {"gru", of_gru},       {"softmax", of_softmax}, {"a loop", of_loop}};

/* Results of all trips of rows first .. first + rows. */
static void run_loop(body of, const bs_plan_desc *desc, int32_t first, int32_t rows, float (*result)[TRIPS][UNITS])
{
    bs_graph *g = new_graph();
    const bs_value zeros = bs_constant(g, "start", BS_F32, BS_SHAPE1(UNITS));
    const bs_value v = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(rows, UNITS)), none);
    const bs_router loop = bs_loop_begin(g, v, none, &(bs_loop_desc){.name = "loop", .bound = TRIPS});
    const bs_value h = bs_loop_carry(g, loop, zeros), next = of(g, h, bs_scatter(g, loop, 0, v));
    bs_loop_next(g, loop, h, next);
    const bs_value all = bs_loop_collect(g, loop, next);
    bs_loop_end(g, loop, none);
    bs_output(g, "y", bs_collect(g, bs_reshape(g, all, BS_SHAPE1(TRIPS * UNITS))));
    bs_session *s = open_session(g, desc);
    if (!check(s != NULL, "a loop opens: %s", error.message))
        return;
    bind(s, "x", x[first], BS_F32, rows, UNITS);
    bind(s, "y", result[first], BS_F32, rows, TRIPS * UNITS);
    for (int32_t run = 0; run < 2; run++) /* what is kept for the next run, too */
        check(bs_run(s, &error) == BS_OK, "and runs: %s", error.message);
    bs_session_close(s);
}

static void test_loop(body of, const char *name, begins begin, weighs weigh)
{
    set_numbers(begin, weigh);
    for (int32_t i = 0; i < ROWS * UNITS; i++)
        x[i / UNITS][i % UNITS] = i / UNITS % 5 == 4 ? x[i / UNITS - 1][i % UNITS] : next_float();
    for (int32_t row = 0; row < ROWS; row++)
        run_loop(of, &(bs_plan_desc){.threads = 1}, row, 1, y[0]);
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            memset(y[1], 0xFF, sizeof y[1]);
            run_loop(of, &(bs_plan_desc){.threads = threads, .order = order}, 0, ROWS, y[1]);
            check(memcmp(y[0], y[1], sizeof y[0]) == 0, "%s from %d by %d, order %d, %d threads: each row as alone",
                  name, begin, weigh, order, threads);
        }
}

/* ---------------------------------------------------------------------------------------------------- trees */

/* Vertices in turns: h = tanh(w times the sum of h below + x) + the sum of w times h below, by lines. */
static void run_tree(const trees *t, int32_t *turn, int32_t threads, float (*h_out)[UNITS])
{
    bs_graph *g = new_graph();
    const bs_value zeros = bs_constant(g, "start", BS_F32, BS_SHAPE1(UNITS));
    const bs_value v = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(t->rows, UNITS)), none);
    const bs_value of = bs_rows(g, bs_input(g, "children", BS_I32, BS_SHAPE2(t->rows, t->slots)), v);
    const bs_value n = bs_rows(g, bs_input(g, "turn", BS_I32, BS_SHAPE2(t->rows, 1)), v);
    const bs_router loop =
        bs_loop_begin(g, v, n, &(bs_loop_desc){.name = "tree", .bound = t->rows, .in_turn = 1});
    const bs_value h = bs_loop_carry(g, loop, zeros), own = bs_scatter(g, loop, 0, v);
    const bs_value below = bs_loop_rows(g, loop, h, bs_scatter(g, loop, 0, of));
    const bs_reduce_desc sum = {.kind = BS_REDUCE_SUM, .axis = 0};
    const bs_value lines = bs_reduce(g, bs_mul(g, linear(g, below), below), &sum);
    const bs_value end =
        bs_loop_next(g, loop, h, bs_add(g, of_linear(g, bs_reduce(g, below, &sum), own), lines));
    bs_loop_end(g, loop, none);
    bs_output(g, "h", bs_collect(g, end));
    bs_session *s = open_session(g, &(bs_plan_desc){.threads = threads});
    if (!check(s != NULL, "a tree opens: %s", error.message))
        return;
    bind(s, "x", x, BS_F32, t->rows, UNITS);
    bind(s, "children", (void *)(uintptr_t)t->children, BS_I32, t->rows, t->slots);
    bind(s, "turn", turn, BS_I32, t->rows, 1);
    bind(s, "h", h_out, BS_F32, t->rows, UNITS);
    check(bs_run(s, &error) == BS_OK, "and runs: %s", error.message);
    bs_session_close(s);
}

/* Level by level, and each vertex by itself. */
static void test_tree(begins begin, weighs weigh)
{
    static trees t;
    static float h[2][ROWS][UNITS];
    static int32_t alone[ROWS];
    set_numbers(begin, weigh);
    trees_make(&t, ROWS, TREES_SLOTS, 1, 3);
    for (int32_t i = 0; i < ROWS; i++) {
        alone[t.order[i]] = i + 1;
        for (int32_t k = 0; k < UNITS; k++)
            x[i][k] = next_float();
    }
    run_tree(&t, alone, 1, h[0]);
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        run_tree(&t, t.level, threads, h[1]);
        check(memcmp(h[0], h[1], sizeof h[0]) == 0, "a tree from %d by %d, %d threads: level by level", begin, weigh,
              threads);
    }
}

int main(void)
{
    set_numbers(FRACTIONS, FINITE);
    test_bytes();
    test_layouts();
    test_operands();
    test_copied(false);
    test_copied(true);
    for (int32_t begin = 0; begin < BEGINS; begin++)
        for (int32_t weigh = 0; weigh < WEIGHS; weigh++) {
            for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++)
                test_loop(bodies[k].of, bodies[k].name, (begins)begin, (weighs)weigh);
            test_tree((begins)begin, (weighs)weigh);
        }
    return check_end();
}
