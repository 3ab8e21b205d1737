/* branches.c: what a branch costs when there are many, and what the branch that is not taken costs.
 *
 *     branches [ROUNDS [MOST]]
 *
 * From 2 to MOST [1024] branches, each a convolution 3x3 of 8 to 8 channels and a ReLU on four rows of [8, 32, 32] of
 * its own (row r goes to branch r / 4), beside that convolution without a router, run for four rows after the other of
 * the same buffers, which are as cold then. Then networks of several milliseconds: A or B as a label says, beside A and
 * B alone. Figures are medians of the ratios within a turn, of processor time of one thread.
 * Owns: these networks. Relies on: brainstorm.h alone. Must never: compare results that differ. */
#include "arenas.h"
#include "brainstorm.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, CHANNELS = 8, SIDE = 32, ROW = CHANNELS * SIDE * SIDE, MOST_BRANCHES = 1024, MOST_ROUNDS = 101 };
enum { WIDE = 32, LARGE = 56, LAYERS = 6 };
#define KERNEL_FLOATS (WIDE * WIDE * 9)

typedef struct program {
    arenas arenas;
    bs_arena graph_memory, plan_memory;
    bs_memory memory;
    bs_graph *graph;
    bs_session *session;
} program;

static bs_tensor tensors[2 * MOST_BRANCHES + 4 * LAYERS];
static char names[2 * MOST_BRANCHES + 4 * LAYERS][24];
static bs_tensor_table table = {tensors, 0};
static float kernels[2][KERNEL_FLOATS], bias[WIDE];

static void add_conv(const char *name, int32_t number, int32_t channels, const float *kernel)
{
    bs_tensor *t = &tensors[table.count];
    snprintf(names[table.count], sizeof names[0], "%s%d.weight", name, number);
    t[0] = (bs_tensor){names[table.count++], BS_F32, 4, {channels, channels, 3, 3}, kernel};
    snprintf(names[table.count], sizeof names[0], "%s%d.bias", name, number);
    t[1] = (bs_tensor){names[table.count++], BS_F32, 1, {channels}, bias};
}

static bool failed(const bs_error *error)
{
    fprintf(stderr, "branches: %s\n", error->message);
    return false;
}

static bs_graph *begin(program *p, int32_t branches)
{
    const bs_graph_desc room = {.max_nodes = 64 + 4 * branches, .max_values = 64 + 4 * branches,
                                .max_text_bytes = 65536 + 256 * branches, .max_operands = 256 + 8 * branches,
                                .max_domains = 16 + branches, .max_blocks = 16 + branches};
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!arenas_lend(&p->arenas, &p->graph_memory, "graph", bs_graph_bytes(&room), &error))
        failed(&error);
    return p->graph = bs_graph_create(&p->graph_memory, &room);
}

static bool finish(program *p)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_session_desc with = {.weights = bs_weights_from_table(&table)};
    bs_sizes sizes;
    if (bs_graph_check(p->graph, &error) != BS_OK ||
        !arenas_lend(&p->arenas, &p->plan_memory, "plan", bs_plan_bytes(p->graph, NULL), &error))
        return failed(&error);
    const bs_plan *plan = bs_plan_create(&p->plan_memory, NULL, p->graph, NULL, &error);
    if (!plan)
        return failed(&error);
    bs_plan_sizes(plan, &sizes);
    p->session = arenas_lend_session(&p->arenas, &p->memory, &sizes, &error)
                     ? bs_session_create(&p->memory, plan, &with, &error) : NULL;
    return p->session || failed(&error);
}

static bool bind_rows(program *p, const char *name, float *data, int32_t rows, int32_t channels, int32_t side)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_buffer buffer = {data, BS_F32, 4, {rows, channels, side, side},
                              {channels * side * side, 1, channels * side, channels}};
    return bs_bind(p->session, name, &buffer, &error) == BS_OK || failed(&error);
}

static bool bind_labels(program *p, int32_t *labels, int32_t rows)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_buffer buffer = {labels, BS_I32, 2, {rows, 1}, {0}};
    return bs_bind(p->session, "label", &buffer, &error) == BS_OK || failed(&error);
}

static bool run(program *p)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    return bs_run(p->session, &error) == BS_OK || failed(&error);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return list[n / 2];
}

/* ------------------------------------------------------------------------------------------------ many branches */

static const char *name_of(char *text, const char *stem, int32_t number)
{
    snprintf(text, 24, "%s%d", stem, number);
    return text;
}

static bool make_branches(program *p, int32_t branches)
{
    static bs_value out[MOST_BRANCHES];
    bs_graph *g = begin(p, branches);
    char name[24];
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(ROWS * branches, CHANNELS, SIDE, SIDE)), BS_NONE);
    const bs_value label = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(ROWS * branches, 1)), x);
    const bs_router by = bs_route(g, label, BS_NONE,
                                  &(bs_route_desc){.name = "by", .protocol = BS_ROUTE_LABEL, .paths = branches});
    for (int32_t b = 0; b < branches; b++) {
        bs_block_begin(g, name_of(name, "branch", b));
        out[b] = bs_conv2d(g, bs_scatter(g, by, b, x), &(bs_conv2d_desc){.name = name_of(name, "b", b),
                           .out = CHANNELS, .act = BS_RELU});
        bs_block_end(g);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, by, out, BS_NONE, NULL)));
    return finish(p);
}

static bool make_alone(program *p)
{
    bs_graph *g = begin(p, 1);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(ROWS, CHANNELS, SIDE, SIDE)), BS_NONE);
    bs_output(g, "y", bs_collect(g, bs_conv2d(g, x, &(bs_conv2d_desc){.name = "b0", .out = CHANNELS, .act = BS_RELU})));
    return finish(p);
}

static bool run_alone(program *p, int32_t branches, float *x, float *y)
{
    bool good = true;
    for (int32_t b = 0; b < branches && good; b++)
        good = bind_rows(p, "x", x + (size_t)b * ROWS * ROW, ROWS, CHANNELS, SIDE) &&
               bind_rows(p, "y", y + (size_t)b * ROWS * ROW, ROWS, CHANNELS, SIDE) && run(p);
    return good;
}

static bool compare(program *many, program *alone, int32_t branches, int rounds, float *x, float *y, float *z)
{
    double ratios[MOST_ROUNDS], each[MOST_ROUNDS];
    const int32_t again = 1 + 256 / branches;
    bool good = bind_rows(many, "x", x, ROWS * branches, CHANNELS, SIDE) &&
                bind_rows(many, "y", y, ROWS * branches, CHANNELS, SIDE);
    good = good && run(many) && run_alone(alone, branches, x, z);
    if (good && memcmp(y, z, sizeof *y * (size_t)branches * ROWS * ROW) != 0) {
        fprintf(stderr, "branches: %d branches give other bytes than one alone\n", branches);
        return false;
    }
    for (int r = 0; r < rounds && good; r++) {
        const double start = peak_cpu_seconds();
        for (int32_t k = 0; k < again && good; k++)
            good = run(many);
        const double middle = peak_cpu_seconds();
        for (int32_t k = 0; k < again && good; k++)
            good = run_alone(alone, branches, x, z);
        each[r] = (middle - start) / branches / again;
        ratios[r] = (middle - start) / (peak_cpu_seconds() - middle);
    }
    printf("%5d branches: %7.2f us each, %.3f of one alone\n", branches, 1e6 * median(each, rounds),
           median(ratios, rounds));
    return good;
}

static bool many_branches(int rounds, int32_t most)
{
    const size_t floats = (size_t)most * ROWS * ROW;
    float *x = malloc(sizeof *x * floats), *y = malloc(sizeof *y * floats), *z = malloc(sizeof *z * floats);
    int32_t *labels = malloc(sizeof *labels * ROWS * (size_t)most);
    bool good = x && y && z && labels;
    for (size_t i = 0; good && i < floats; i++)
        x[i] = (float)(i * 2654435761u % 2001) / 1000.0f - 1.0f;
    for (int32_t i = 0; good && i < ROWS * most; i++)
        labels[i] = i / ROWS;
    for (int32_t branches = 2; branches <= most && good; branches *= 2) {
        program many = {.graph = NULL}, alone = {.graph = NULL};
        good = make_branches(&many, branches) && make_alone(&alone) &&
               bind_labels(&many, labels, ROWS * branches) && compare(&many, &alone, branches, rounds, x, y, z);
        bs_session_close(many.session);
        bs_session_close(alone.session);
        arenas_free(&many.arenas);
        arenas_free(&alone.arenas);
    }
    free(x), free(y), free(z), free(labels);
    return good;
}

/* ------------------------------------------------------------------------------------------------------- A or B */

static bs_value layers(bs_graph *g, bs_value x, const char *stem)
{
    char name[24];
    for (int32_t i = 0; i < LAYERS; i++)
        x = bs_conv2d(g, x, &(bs_conv2d_desc){.name = name_of(name, stem, i), .out = WIDE, .act = BS_RELU});
    return x;
}

static bool make_choice(program *p, const char *only)
{
    bs_graph *g = begin(p, 16);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE4(1, WIDE, LARGE, LARGE)), BS_NONE);
    if (only) {
        bs_output(g, "y", bs_collect(g, layers(g, x, only)));
        return finish(p);
    }
    const bs_value label = bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(1, 1)), x);
    const bs_router by = bs_route(g, label, BS_NONE,
                                  &(bs_route_desc){.name = "by", .protocol = BS_ROUTE_LABEL, .paths = 2});
    const bs_value out[] = {layers(g, bs_scatter(g, by, 0, x), "A"), layers(g, bs_scatter(g, by, 1, x), "B")};
    bs_output(g, "y", bs_collect(g, bs_gather(g, by, out, BS_NONE, NULL)));
    return finish(p);
}

static bool a_or_b(int rounds)
{
    static float x[WIDE * LARGE * LARGE], y[2][WIDE * LARGE * LARGE];
    int32_t label = 0;
    program choice = {.graph = NULL}, alone[2] = {{.graph = NULL}, {.graph = NULL}};
    bool good = make_choice(&choice, NULL) && make_choice(&alone[0], "A") && make_choice(&alone[1], "B") &&
                bind_labels(&choice, &label, 1) && bind_rows(&choice, "x", x, 1, WIDE, LARGE) &&
                bind_rows(&choice, "y", y[0], 1, WIDE, LARGE);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i * 2654435761u % 2001) / 1000.0f - 1.0f;
    for (label = 0; label < 2 && good; label++) {
        double ratios[MOST_ROUNDS], each[MOST_ROUNDS];
        program *only = &alone[label];
        good = bind_rows(only, "x", x, 1, WIDE, LARGE) && bind_rows(only, "y", y[1], 1, WIDE, LARGE) && run(only) &&
               run(&choice) && memcmp(y[0], y[1], sizeof y[0]) == 0;
        for (int r = 0; r < rounds && good; r++) {
            const double start = peak_cpu_seconds();
            for (int k = 0; k < 20 && good; k++)
                good = run(&choice);
            const double middle = peak_cpu_seconds();
            for (int k = 0; k < 20 && good; k++)
                good = run(only);
            each[r] = (middle - start) / 20;
            ratios[r] = (middle - start) / (peak_cpu_seconds() - middle);
        }
        printf("A or B, %c taken: %.2f ms, %.3f of %c alone\n", "AB"[label], 1e3 * median(each, rounds),
               median(ratios, rounds), "AB"[label]);
    }
    bs_session_close(choice.session);
    arenas_free(&choice.arenas);
    for (int i = 0; i < 2; i++) {
        bs_session_close(alone[i].session);
        arenas_free(&alone[i].arenas);
    }
    return good || (fprintf(stderr, "branches: A or B failed\n"), false);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 9;
    const int32_t most = argc > 2 ? atoi(argv[2]) : MOST_BRANCHES;
    if (argc > 3 || rounds < 1 || rounds > MOST_ROUNDS || most < 2 || most > MOST_BRANCHES) {
        fprintf(stderr, "usage: branches [ROUNDS, 1 to %d [MOST, 2 to %d]]\n", MOST_ROUNDS, MOST_BRANCHES);
        return 2;
    }
    for (int i = 0; i < KERNEL_FLOATS; i++)
        for (int k = 0; k < 2; k++)
            kernels[k][i] = (float)((uint32_t)(i + 77 * k) * 2654435761u % 2001) / 16000.0f - 0.0625f;
    for (int32_t b = 0; b < most; b++)
        add_conv("b", b, CHANNELS, kernels[0]);
    for (int32_t i = 0; i < LAYERS; i++) {
        add_conv("A", i, WIDE, kernels[0]);
        add_conv("B", i, WIDE, kernels[1]);
    }
    return many_branches(rounds, most) && a_or_b(rounds) ? 0 : 1;
}
