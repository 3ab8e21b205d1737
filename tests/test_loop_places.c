/* tags: asan tsan */
/* Promises: what a loop carries may be changed where it lies, if nothing else reads what it was; whole images go round,
 * with convolutions. (All else of loops: test_loops.c; on a device: test_cuda_random.c.) */
#include "net.h"

#include "plan/plan.h"

#include <math.h>

static net n;
static const bs_value none;

/* f32 [rows, wide] of the root, or of three rows. */
static void bind(bool of_rows, const char *name, void *data, int64_t rows, int64_t wide)
{
    const bs_buffer whole = {data, BS_F32, 2, {rows, wide}, {0}}, each = {data, BS_F32, 3, {3, rows, wide}, {0}};
    bs_bind(n.session, name, of_rows ? &each : &whole, &n.error);
}

/* ------------------------------------------------------------------------------------------- changed in place */

/* A table of which each trip writes a row, and reads all: the sum of it after the trip and, if `old`, before. It stays
 * where it is unless that is read, too. */
static void test_in_place(int32_t order, bool rows, bool old)
{
    enum { ROWS_OF = 3, TRIPS = 4, WIDE = 5 };
    static float x[ROWS_OF][TRIPS][WIDE], table[ROWS_OF][TRIPS][WIDE], y[ROWS_OF][TRIPS], last[ROWS_OF][TRIPS][WIDE];
    int32_t count[ROWS_OF] = {4, 1, 3}, wrong = 0, in_place = 0;
    const int64_t many = rows ? ROWS_OF : 1;
    bs_graph *g = net_begin(&n);
    const bs_shape shape = rows ? BS_SHAPE3(many, TRIPS, WIDE) : BS_SHAPE2(TRIPS, WIDE);
    bs_value in = bs_input(g, "x", BS_F32, shape), start = bs_input(g, "table", BS_F32, shape), most = none;
    if (rows) {
        in = bs_rows(g, in, none), start = bs_rows(g, start, in);
        most = bs_rows(g, bs_input(g, "count", BS_I32, BS_SHAPE2(many, 1)), in);
    }
    const bs_router loop = bs_loop_begin(g, in, most, &(bs_loop_desc){.name = "write", .bound = TRIPS});
    const bs_value was = bs_loop_carry(g, loop, start),
                   row = bs_reshape(g, bs_loop_slice(g, loop, in), BS_SHAPE2(1, WIDE)),
                   is = bs_scatter_rows(g, was, bs_loop_trip(g, loop), row, NULL);
    const bs_reduce_desc all = {.kind = BS_REDUCE_SUM, .axis = 0, .axes = 2};
    bs_value sum = bs_reduce(g, is, &all);
    sum = old ? bs_add(g, sum, bs_reduce(g, was, &all)) : sum;
    const bs_value end = bs_loop_next(g, loop, was, is), each = bs_loop_collect(g, loop, sum);
    bs_loop_end(g, loop, none);
    bs_output(g, "last", rows ? bs_collect(g, end) : end);
    bs_output(g, "y", rows ? bs_collect(g, each) : each);
    const bool open = net_start(&n, &(bs_plan_desc){.order = order, .threads = 2}, NULL);
    in_place = open && n.plan->values[is.id].storage == BS_STORAGE_VIEW;
    check(open && in_place == (!old && (!rows || order == BS_ORDER_BREADTH)), "order %d, %s, %s: in place %d: %s",
          order, rows ? "rows" : "the root", old ? "read before" : "read after", in_place, n.error.message);
    for (int32_t i = 0; i < ROWS_OF * TRIPS * WIDE; i++) {
        x[i / WIDE / TRIPS][i / WIDE % TRIPS][i % WIDE] = (float)(i * 7 % 19);
        table[i / WIDE / TRIPS][i / WIDE % TRIPS][i % WIDE] = (float)(i * 5 % 11);
    }
    bind(rows, "x", x, TRIPS, WIDE);
    bind(rows, "table", table, TRIPS, WIDE);
    bind(rows, "last", last, TRIPS, WIDE);
    bind(rows, "y", y, TRIPS, 1);
    if (rows)
        bs_bind(n.session, "count", &(bs_buffer){count, BS_I32, 2, {many, 1}, {0}}, &n.error);
    check(bs_run(n.session, &n.error) == BS_OK, "tables are written: %s", n.error.message);
    for (int32_t r = 0; r < many; r++) {
        float now[TRIPS][WIDE];
        memcpy(now, table[r], sizeof now);
        for (int32_t t = 0; t < TRIPS; t++) {
            const bool goes = !rows || t < count[r];
            float before = 0, after = 0;
            for (int32_t i = 0; i < TRIPS * WIDE; i++)
                before += now[i / WIDE][i % WIDE];
            for (int32_t i = 0; i < WIDE && goes; i++)
                now[t][i] = x[r][t][i];
            for (int32_t i = 0; i < TRIPS * WIDE; i++)
                after += now[i / WIDE][i % WIDE];
            wrong += y[r][t] != (goes ? after + (old ? before : 0) : 0);
        }
        wrong += memcmp(now, last[r], sizeof now) != 0;
    }
    check(wrong == 0, "each trip sees what was written: %d wrong", wrong);
    bs_session_close(n.session);
}

/* -------------------------------------------------------------------------------------------------- images */

enum { SIDE = 9 };

/* How far y is from x after so many convolutions. */
static double blurred_off(float (*x)[SIDE], float (*y)[SIDE], const float *weight, int32_t trips)
{
    static double image[2][SIDE + 2][SIDE + 2]; /* within zeros */
    double worst = 0;
    for (int32_t i = 0; i < SIDE * SIDE; i++)
        image[0][i / SIDE + 1][i % SIDE + 1] = (double)x[i / SIDE][i % SIDE];
    for (int32_t t = 0; t < trips; t++)
        for (int32_t i = 0; i < SIDE * SIDE; i++) {
            double sum = 0.25;
            for (int32_t k = 0; k < 9; k++)
                sum += (double)weight[k] * image[t % 2][i / SIDE + k / 3][i % SIDE + k % 3];
            image[1 - t % 2][i / SIDE + 1][i % SIDE + 1] = sum;
        }
    for (int32_t i = 0; i < SIDE * SIDE; i++)
        worst = fmax(worst, fabs(image[trips % 2][i / SIDE + 1][i % SIDE + 1] - (double)y[i / SIDE][i % SIDE]));
    return worst;
}

/* A whole image, or several beside each other, goes through a convolution in each trip. */
static void test_whole_image(int32_t order, bool rows)
{
    enum { TRIPS = 4, IMAGES = 2 };
    static float x[IMAGES][SIDE][SIDE], y[IMAGES][SIDE][SIDE], weight[9];
    static const float bias[1] = {0.25f};
    const bs_tensor tensors[] = {{"c.weight", BS_F32, 4, {1, 1, 3, 3}, weight}, {"c.bias", BS_F32, 1, {1}, bias}};
    const bs_tensor_table table = {tensors, 2};
    const bs_weights weights = bs_weights_from_table(&table);
    const bs_conv2d_desc conv = {.name = "c", .out = 1, .kernel = 3};
    for (int32_t i = 0; i < 9; i++)
        weight[i] = 0.05f * (float)(i + 1);
    bs_graph *g = net_begin(&n);
    const bs_value in = bs_input(g, "x", BS_F32, rows ? BS_SHAPE4(IMAGES, 1, SIDE, SIDE) : BS_SHAPE3(1, SIDE, SIDE)),
                   image = rows ? bs_rows(g, in, none) : in;
    const bs_router loop = bs_loop_begin(g, image, none, &(bs_loop_desc){.name = "blur", .bound = TRIPS});
    const bs_value v = bs_loop_carry(g, loop, image), end = bs_loop_next(g, loop, v, bs_conv2d(g, v, &conv));
    bs_loop_end(g, loop, none);
    bs_output(g, "y", rows ? bs_collect(g, end) : end);
    net_start(&n, &(bs_plan_desc){.order = order}, &weights);
    double worst = 0;
    for (int32_t i = 0; i < IMAGES * SIDE * SIDE; i++)
        x[i / SIDE / SIDE][i / SIDE % SIDE][i % SIDE] = (float)(i * i % 13) - 6;
    const bs_buffer from = {x, BS_F32, 3 + rows, {rows ? IMAGES : 1, rows ? 1 : SIDE, SIDE, SIDE}, {0}};
    bs_buffer to = from;
    to.data = y;
    bs_bind(n.session, "x", &from, &n.error);
    bs_bind(n.session, "y", &to, &n.error);
    check(bs_run(n.session, &n.error) == BS_OK, "a loop carries whole images: %s", n.error.message);
    for (int32_t i = 0; i < (rows ? IMAGES : 1); i++)
        worst = fmax(worst, blurred_off(x[i], y[i], weight, TRIPS));
    check(worst < 1e-4, "order %d, %s: as many convolutions as trips, off by %g", order, rows ? "rows" : "the root",
          worst);
    bs_session_close(n.session);
}

int main(void)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        test_whole_image(order, false);
        test_whole_image(order, true);
        for (int32_t i = 0; i < 4; i++)
            test_in_place(order, i % 2, i / 2);
    }
    return check_end();
}
