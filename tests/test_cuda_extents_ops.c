/* tags: asan */
/* test_cuda_extents_ops.c - what a device finds in data is the CPU's to the byte: the different elements of a value
 * (unique) and the boxes that stay (nms), whatever the elements, from none to the maximum and beyond it, in one
 * captured graph.
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
    const bool graph = mode != BS_LAUNCH_STREAM;
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

/* ---------------------------------------------------------------------------------------------------------- nms */

#define BATCHES 2
#define CLASSES 3
#define BOXES   700 /* more than a block has threads, twice */
#define STAY    900 /* rows that are allowed */

static float corners[BATCHES * BOXES * 4], scores[BATCHES * CLASSES * BOXES];
static int32_t centre;

/* Boxes that stay, their way through rows, and what else is found in them; of all classes together, no more than 3 of
 * each; of boxes that data choose. */
static void nms_net(void)
{
    bs_graph *g = rig_begin(&r, "nms");
    const bs_dim batches = bs_symbol(g, "B", BATCHES), boxes = bs_symbol(g, "N", BOXES);
    const bs_value x = bs_input(g, "boxes", BS_F32, BS_SHAPE3(batches, boxes, 4)),
                   s = bs_input(g, "scores", BS_F32, BS_SHAPE3(batches, bs_symbol(g, "C", CLASSES), boxes));
    const bs_value kept = bs_nms(g, x, s, &(bs_nms_desc){"K", STAY, 0, 0.5f, 0, centre}),
                   few = bs_nms(g, x, s, &(bs_nms_desc){"few", 0, 3, 1.0f / 3, -INFINITY, centre});
    const bs_value real_rows = bs_convert(g, kept, &(bs_convert_desc){.dtype = BS_F32});
    const bs_value m = bs_input(g, "mask", BS_F32, BS_SHAPE1(ROWS)),
                   i = bs_reshape(g, bs_nonzero(g, m, NULL), BS_SHAPE1(-1)),
                   some = bs_gather_rows(g, bs_input(g, "one", BS_F32, BS_SHAPE2(ROWS, 4)), i),
                   marks = bs_gather_rows(g, m, i);
    bs_output(g, "kept", kept);
    bs_output(g, "few", few);
    bs_output(g, "classes", bs_unique(g, bs_slice(g, kept, &(bs_slice_desc){.axis = 1, .start = 1, .length = 1}),
                                      &(bs_extent_desc){"D", CLASSES}, NULL));
    bs_output(g, "twice", bs_collect(g, bs_affine(g, bs_rows(g, real_rows, none), 2, 0)));
    bs_output(g, "all", bs_reduce(g, real_rows, &(bs_reduce_desc){.axis = 0}));
    bs_output(g, "some", bs_nms(g, bs_reshape(g, some, BS_SHAPE3(1, -1, 4)),
                                bs_reshape(g, marks, BS_SHAPE3(1, 1, -1)),
                                &(bs_nms_desc){.name = "some", .iou_threshold = 0.25f, .centre = centre}));
    rig_give(&r, "boxes", corners);
    rig_give(&r, "scores", scores);
    rig_give(&r, "mask", mask);
    rig_give(&r, "one", corners);
}

static float any_float(void) { return (float)check_below(1 << 20) / 4096; }

/* Boxes of a coarse grid, whose shares often are the limit; far apart; of any size; with what is no number. */
static float corner_of(int32_t kind, int32_t box, int32_t of)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, FLT_MAX, -FLT_MAX, 1e-45f, 1, 2};
    switch (kind) {
    case 0: return (float)check_below(4);
    case 1: return of < 2 && !centre ? 8 * (float)box : centre && of >= 2 ? 1 : 8 * (float)box + 1;
    case 2: return any_float();
    default: return check_below(8) ? 1 + (float)check_below(3) : odd[check_below((int32_t)(sizeof odd / sizeof *odd))];
    }
}

/* Scores of a few levels, of any size, all alike, or with infinities and both zeros. */
static float score_of(int32_t kind)
{
    static const float odd[] = {INFINITY, -INFINITY, 0, -0.0f, 0, -0.0f, 1e-45f, -1e-45f, 1, FLT_MAX};
    return kind == 0   ? (float)check_below(5) - 1
           : kind == 1 ? any_float() - 128
           : kind == 2 ? 0.5f
                       : odd[check_below((int32_t)(sizeof odd / sizeof *odd))];
}

static void prepare_nms(int32_t turn)
{
    static const int32_t boxes[TURNS] = {12, 1, BOXES, 256, 257, 700, 33, 300, BOXES, 600, 2, 90, 512, 5},
                         chosen[TURNS] = {3, 0, ROWS, 1, 0, 7, 270, 30, 5, 0, 2, 9, 100, 0};
    const int64_t batches = 1 + turn / 2 % 2, classes = 1 + turn % 3;
    int32_t left = chosen[turn];
    for (int32_t i = 0; i < BATCHES * BOXES * 4; i++)
        corners[i] = corner_of(turn % 4, i / 4, i % 4);
    for (int32_t i = 0; i < BATCHES * CLASSES * BOXES; i++)
        scores[i] = score_of(turn / 3 % 4);
    for (int32_t i = 0; i < ROWS; i++) {
        mask[i] = check_below(ROWS - i) < left ? 0.5f * (float)(1 + check_below(3)) : 0;
        left -= mask[i] != 0;
    }
    if (turn == 6)
        scores[20] = NAN;
    set_extent("boxes", 0, batches);
    set_extent("boxes", 1, boxes[turn]);
    set_extent("scores", 0, batches);
    set_extent("scores", 1, classes);
    set_extent("scores", 2, boxes[turn]);
}

static void test_nms(void)
{
    for (int32_t mode = BS_LAUNCH_AUTO; mode < 2 * BS_LAUNCH_COUNT; mode++) {
        centre = mode >= BS_LAUNCH_COUNT;
        nms_net();
        opened((bs_launch_mode)(mode % BS_LAUNCH_COUNT));
        turns((bs_launch_mode)(mode % BS_LAUNCH_COUNT), prepare_nms, 2, centre ? "nms of centres" : "nms");
    }
}

/* ------------------------------------------------------------------------------------------------------- limits */

/* Runs of which every other one finds more than its maximum. Nothing is written beyond it, where the tables of the
 * session lie: such a run is refused as that, and the next one is well. */
static void refuse_in_turn(float *data, int32_t n, const char *what)
{
    opened(BS_LAUNCH_STREAM);
    bool same = gpu.session && cpu.session;
    for (int32_t turn = 0; turn < 4 && same; turn++) {
        for (int32_t i = 0; i < n; i++)
            data[i] = turn % 2 ? 0 : (float)(1 + i);
        same = agree() && gpu.status == (turn % 2 ? BS_OK : BS_ERROR_DATA);
    }
    check(same, "%s", what);
    end();
    exact = false;
}

static void test_beyond(void)
{
    static float column[64], row[64], ones[2000];
    bs_graph *g = rig_begin(&r, "beyond");
    const bs_value steps = bs_affine(g, bs_input(g, "column", BS_F32, BS_SHAPE2(64, 1)), 128, 0);
    bs_output(g, "y", bs_unique(g, bs_add(g, steps, bs_input(g, "row", BS_F32, BS_SHAPE2(1, 64))),
                                &(bs_extent_desc){"U", 64}, NULL));
    for (int32_t i = 0; i < 64; i++)
        row[i] = (float)i;
    rig_give(&r, "column", column);
    rig_give(&r, "row", row);
    refuse_in_turn(column, 64, "of 4096 elements 64 may differ");

    g = rig_begin(&r, "beyond"); /* constants lie elsewhere: little but the tables follows the rows */
    const bs_value boxes = bs_constant(g, "boxes", BS_F32, BS_SHAPE3(1, 2000, 4)),
                   marks = bs_constant(g, "marks", BS_F32, BS_SHAPE3(1, 1, 2000));
    const bs_value scores_of = bs_mul(g, marks, bs_input(g, "column", BS_F32, BS_SHAPE3(1, 1, 1)));
    bs_output(g, "y", bs_nms(g, boxes, scores_of, &(bs_nms_desc){.name = "K", .maximum = 62, .iou_threshold = 1}));
    for (int32_t i = 0; i < 2000; i++)
        ones[i] = 1;
    rig_weight(&r, "marks", BS_F32, 3, (const int64_t[3]){1, 1, 2000}, ones);
    rig_give(&r, "column", column);
    refuse_in_turn(column, 1, "of 2000 boxes 62 may stay");
}

/* What tells elements apart, and which box is the better, is not rounded to f16; the elements themselves may be. */
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
    const bs_value boxes = bs_affine(g, bs_input(g, "boxes", BS_F32, BS_SHAPE3(1, ROWS / 4, 4)), 1, 0.25f),
                   marks = bs_affine(g, bs_input(g, "marks", BS_F32, BS_SHAPE3(1, 1, ROWS / 4)), 1, 0.5f);
    bs_output(g, "kept", bs_nms(g, boxes, marks, &(bs_nms_desc){.name = "K", .iou_threshold = 0.125f}));
    for (int32_t i = 0; i < ROWS; i++) {
        fine[i] = 1 + 0.0001f * (float)check_below(ROWS);
        whole[i] = (float)check_below(100) - 50;
    }
    rig_give(&r, "fine", fine);
    rig_give(&r, "boxes", fine);
    rig_give(&r, "marks", fine);
    rig_give(&r, "whole", whole);
    half = true;
    opened(BS_LAUNCH_STREAM);
    half = false;
    check(gpu.session && agree(), "a plan for half tells the same elements and boxes apart");
    end();
    exact = false;
}

int main(void)
{
    check_seed(1);
    test_unique();
    test_nms();
    test_beyond();
    test_half();
    return check_end();
}
