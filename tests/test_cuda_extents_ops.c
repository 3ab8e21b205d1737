/* test_cuda_extents_ops.c - what a device finds in data is the CPU's to the byte: the different elements of a value
 * (unique), whatever the elements, from none to the maximum and beyond it, in one captured graph.
 * Counting needs the emulation; the rest runs on a GPU as well. */
#define _POSIX_C_SOURCE 200809L
#include "cuda_sides.h"

#include <float.h>

#define TURNS 14

static const bs_value none = {0};

/* The extent of dimension d of a buffer in the next runs. */
static void set_extent(const char *name, int32_t d, int64_t extent) { rig_buffer_of(&r, name)->given.dim[d] = extent; }

static void opened(bs_launch_mode mode)
{
    begin(mode, mode % 2 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH, 0, NULL);
    exact = true;
}

/* Runs that `prepare` makes: all agree, and copy no more than 1 KB beside the buffers; a graph is captured once. */
static void turns(bs_launch_mode mode, void (*prepare)(int32_t turn), int32_t least_refused, const char *what)
{
    int64_t graphs = 0, copied = 0;
    int32_t refused = 0;
    bool same = gpu.session && cpu.session;
    for (int32_t turn = 0; turn < TURNS && same; turn++) {
        prepare(turn);
#ifdef BS_CUDA_CPU
        struct cuda_cpu_counts c;
        cuda_cpu_counts_reset();
#endif
        same = agree() && (gpu.status == BS_OK || gpu.status == BS_ERROR_DATA);
        refused += gpu.status == BS_ERROR_DATA;
        if (!same)
            printf("  turn %d\n", turn);
#ifdef BS_CUDA_CPU
        cuda_cpu_counts_get(&c);
        graphs += c.instantiations;
        if (turn > 0 && c.copied_bytes - bound_bytes() > copied)
            copied = c.copied_bytes - bound_bytes();
#endif
    }
    check(same, "%s, %s: the CPU's bytes", what, bs_launch_mode_name(mode));
    check(refused >= least_refused && refused < TURNS, "%d runs are refused", refused);
#ifdef BS_CUDA_CPU
    const bool graph = mode != BS_LAUNCH_STREAM && mode != BS_LAUNCH_HOST;
    check(graphs == graph, "captured once: %lld", (long long)graphs);
    check(copied <= MOST_BYTES, "at most %lld bytes a run beside the buffers", (long long)copied);
#else
    (void)graphs, (void)copied;
#endif
    end();
    exact = false;
}

/* ------------------------------------------------------------------------------------------------------- unique */

#define PLANES 12           /* of x, at most */
#define PLANE  (5 * 90)     /* elements of each: all of them are several stages of a sort (cuda/sort.cuh) */
#define ROWS   300          /* of the table, any of which may be chosen */
#define FOUND  280          /* different elements of those that are allowed */

static uint32_t words[PLANES * PLANE], table[ROWS];
static float mask[ROWS];

static uint32_t word_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

/* Elements of one kind: all alike, all different, any bits, few values among which floats that differ in their bits
 * alone. */
static void fill_words(uint32_t *to, int32_t n, int32_t kind, bool real)
{
    static const uint32_t odd[] = {0, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u,
                                   1, 0x80000001u, 0x7f7fffffu, 0xff7fffffu, 0x3f800000u, 0xbf800000u};
    for (int32_t i = 0; i < n; i++) {
        const int32_t number = (int32_t)((uint32_t)i * 7919u % (uint32_t)n) - n / 2;
        const uint32_t few = odd[check_below((int32_t)(sizeof odd / sizeof *odd))],
                       any = (uint32_t)check_below(1 << 16) << 16 | (uint32_t)check_below(1 << 16);
        to[i] = kind == 0   ? odd[11]
                : kind == 1 ? (real ? word_of(0.5f * (float)number) : (uint32_t)number)
                : kind == 2 ? few
                            : any;
    }
}

static void unique_of(bs_graph *g, bs_value x, const bs_extent_desc *desc, const char *const *names, bs_value *of)
{
    bs_unique(g, x, desc, of);
    for (int32_t i = 0; i < 4; i++)
        bs_output(g, names[i], of[i]);
}

/* The different elements of an image, of rows of a table that a mask chooses, and of what was found in these; what is
 * made of them, at the root and in rows. */
static void unique_net(bs_dtype dtype)
{
    static const char *const of_x[4] = {"x values", "x first", "x inverse", "x counts"},
                             *const of_table[4] = {"values", "first", "inverse", "counts"};
    bs_value a[4], b[4], c[4], d[4];
    bs_graph *g = rig_begin(&r, "unique");
    const bs_value x = bs_input(g, "x", dtype, BS_SHAPE3(bs_symbol(g, "A", PLANES), 5, 90));
    const bs_value m = bs_input(g, "mask", BS_F32, BS_SHAPE1(ROWS)), t = bs_input(g, "table", dtype, BS_SHAPE1(ROWS));
    const bs_value chosen = bs_gather_rows(g, t, bs_reshape(g, bs_nonzero(g, m, NULL), BS_SHAPE1(-1)));
    unique_of(g, x, NULL, of_x, a);
    unique_of(g, chosen, &(bs_extent_desc){"U", FOUND}, of_table, b);
    bs_output(g, "all of it", bs_unique(g, t, &(bs_extent_desc){.name = "T"}, d));
    bs_output(g, "where", d[1]);
    bs_unique(g, b[3], &(bs_extent_desc){"often", 0}, c);
    bs_output(g, "often", c[0]);
    bs_output(g, "of each", bs_gather_rows(g, b[3], c[1]));
    const bs_value counts = bs_convert(g, b[3], &(bs_convert_desc){.dtype = BS_F32});
    bs_output(g, "all", bs_reduce(g, counts, &(bs_reduce_desc){.axis = 0}));
    bs_output(g, "again", bs_gather_rows(g, b[0], b[2]));
    bs_output(g, "twice", bs_collect(g, bs_affine(g, bs_rows(g, counts, none), 2, 0)));
    rig_give(&r, "x", words);
    rig_give(&r, "table", table);
    rig_give(&r, "mask", mask);
}

static bool real;

static void prepare_unique(int32_t turn)
{
    static const int32_t counts[TURNS] = {7, 0, FOUND, 1, ROWS, 32, FOUND + 1, ROWS, 33, 0, 257, ROWS, 100, FOUND},
                         planes[TURNS] = {3, 1, PLANES, 1, 4, PLANES, 2, 9, 5, PLANES, 1, 7, 11, 2};
    int32_t left = counts[turn];
    const int64_t extent = planes[turn];
    fill_words(words, PLANES * PLANE, turn % 4, real);
    fill_words(table, ROWS, counts[turn] == FOUND || turn == 4 || turn == 6 ? 1 : turn % 4, real);
    for (int32_t i = 0; i < ROWS; i++) {
        mask[i] = check_below(ROWS - i) < left ? 1 : 0;
        left -= mask[i] != 0;
    }
    set_extent("x", 0, extent);
    set_extent("x inverse", 0, extent);
}

static void test_unique(void)
{
    for (int32_t mode = BS_LAUNCH_AUTO; mode < 2 * BS_LAUNCH_COUNT; mode++) {
        real = mode < BS_LAUNCH_COUNT;
        unique_net(real ? BS_F32 : BS_I32);
        opened((bs_launch_mode)(mode % BS_LAUNCH_COUNT));
        turns((bs_launch_mode)(mode % BS_LAUNCH_COUNT), prepare_unique, 2, real ? "unique" : "unique of i32");
    }
}

/* What tells elements apart is not rounded to f16, also where the elements themselves are kept so. */
static void test_half(void)
{
    static float fine[ROWS], whole[ROWS];
    static const char *const names[4] = {"", "first", "inverse", "counts"};
    bs_value of[4], y[4];
    bs_graph *g = rig_begin(&r, "half");
    bs_unique(g, bs_affine(g, bs_input(g, "fine", BS_F32, BS_SHAPE1(ROWS)), 1, 0.25f), NULL, of);
    for (int32_t i = 1; i < 4; i++)
        bs_output(g, names[i], of[i]);
    bs_unique(g, bs_input(g, "whole", BS_F32, BS_SHAPE1(ROWS)), &(bs_extent_desc){.name = "w"}, y);
    bs_output(g, "y", bs_affine(g, bs_affine(g, y[0], 2, 0), 2, 0));
    for (int32_t i = 0; i < ROWS; i++) {
        fine[i] = 1 + 0.0001f * (float)check_below(ROWS);
        whole[i] = (float)check_below(100) - 50;
    }
    rig_give(&r, "fine", fine);
    rig_give(&r, "whole", whole);
    half = true;
    opened(BS_LAUNCH_STREAM);
    half = false;
    check(gpu.session && agree(), "a plan for half tells the same elements apart");
    end();
    exact = false;
}

/* Nothing is written beyond a maximum, where the tables of the session lie: a run that is refused is refused as that,
 * and the next one is well. */
static void test_beyond(void)
{
    static float column[64], row[64];
    bs_graph *g = rig_begin(&r, "beyond");
    const bs_value a = bs_input(g, "column", BS_F32, BS_SHAPE2(64, 1)),
                   b = bs_input(g, "row", BS_F32, BS_SHAPE2(1, 64));
    bs_output(g, "y", bs_unique(g, bs_add(g, a, b), &(bs_extent_desc){"U", 2}, NULL));
    rig_give(&r, "column", column);
    rig_give(&r, "row", row);
    opened(BS_LAUNCH_STREAM);
    bool same = gpu.session && cpu.session;
    for (int32_t turn = 0; turn < 4 && same; turn++) {
        for (int32_t i = 0; i < 64; i++) {
            column[i] = turn % 2 ? 1 : 100 + 64 * (float)i;
            row[i] = turn % 2 ? (float)(i / 50) : (float)i;
        }
        same = agree() && gpu.status == (turn % 2 ? BS_OK : BS_ERROR_DATA);
    }
    check(same, "4096 elements, of which 2 may differ");
    end();
    exact = false;
}

int main(void)
{
    check_seed(1);
    test_unique();
    test_beyond();
    test_half();
    return check_end();
}
