/* tags: asan tsan */
/* test_unique_nms.c - promises: unique tells the elements that differ, where, which and how often, with NaN as one
 * element and -0 as 0; nms keeps what its definition keeps, in its order; both hold in larger graphs, from nothing to
 * the maximum, whatever the strides; beyond it nothing is written, and the run says so. */
#define _POSIX_C_SOURCE 200809L
#include "extents_rig.h"

#define BOXES 12
#define MOST  20 /* of 24 that can be kept */

/* Boxes that are kept, their way through a router, and the classes there are. */
static bs_graph *kept_net(int32_t centre)
{
    bs_graph *g = new_graph();
    const bs_value boxes = bs_input(g, "boxes", BS_F32, BS_SHAPE3(1, BOXES, 4)),
                   scores = bs_input(g, "scores", BS_F32, BS_SHAPE3(1, 2, BOXES));
    const bs_value kept = bs_nms(g, boxes, scores, &(bs_nms_desc){"K", MOST, 0, 0.5f, 0.5f, centre});
    const bs_value i = bs_slice(g, kept, &(bs_slice_desc){.axis = 1, .start = 2, .length = 1}),
                   of = bs_slice(g, kept, &(bs_slice_desc){.axis = 1, .start = 1, .length = 1});
    const bs_value table = bs_reshape(g, boxes, BS_SHAPE2(BOXES, 4));
    bs_value classes[4];
    bs_output(g, "kept", kept);
    bs_output(g, "y", routed(g, bs_gather_rows(g, table, bs_reshape(g, i, BS_SHAPE1(-1)))));
    bs_output(g, "classes", bs_unique(g, of, &(bs_extent_desc){"C", 2}, classes));
    bs_output(g, "first", classes[1]);
    bs_output(g, "which", classes[2]);
    bs_output(g, "often", bs_affine(g, bs_convert(g, classes[3], &(bs_convert_desc){.dtype = BS_F32}), 2, 1));
    return g;
}

/* `count` scores are high enough, anywhere; boxes overlap, or none does. */
static bool run_kept(const bs_graph *g, const bs_plan_desc *d, int32_t count, bool apart, bool centre)
{
    static const int64_t extent[3] = {1, 1, 1};
    int32_t left = count;
    against_inputs(&a, g, &weights.table, d, extent);
    double *scores = data_of("scores"), *boxes = data_of("boxes");
    for (int32_t i = 0; i < 2 * BOXES; i++) {
        const bool high = check_below(2 * BOXES - i) < left;
        scores[i] = high ? 0.625 + 0.125 * check_below(3) : 0.125 * check_below(5);
        left -= high;
    }
    for (int32_t i = 0; i < BOXES; i++)
        for (int32_t axis = 0; axis < 2; axis++) {
            const double low = apart ? 8 * i : check_below(4), side = 1 + check_below(4);
            const bool turned = check_below(2);
            boxes[4 * i + axis] = centre ? low + side / 2 : turned ? low + side : low;
            boxes[4 * i + axis + 2] = centre ? side : turned ? low : low + side;
        }
    a.refusals = true;
    a.strided = check_below(2);
    return against_run(&a, r.session);
}

static void test_graphs(void)
{
    static const int32_t counts[] = {7, 0, MOST, 1, MOST + 1, 0, 12, 2 * BOXES, MOST, 0, 24, 24};
    int32_t wrong = 0;
    for (int32_t way = 0; way < 8; way++) {
        const bs_plan_desc d = {.order = way % 2 ? BS_ORDER_DEPTH : BS_ORDER_BREADTH, .threads = 1 + way / 4};
        const bool centre = way / 2 % 2;
        bs_graph *g = kept_net(centre);
        memset(&a, 0, sizeof a);
        if (!rig_plan(&r, g, &d) || !rig_session(&r, &weights.table, NULL, 0xFF)) {
            check(false, "%s %s", g->error.message, r.error.message);
            continue;
        }
        for (size_t k = 0; k < 3 * sizeof counts / sizeof *counts; k++)
            if (!run_kept(g, &d, counts[k / 3], k % 3 == 0, centre) || !rig_intact(&r)) {
                printf("  way %d, %d scores: %s\n", way, counts[k / 3], a.why);
                wrong++;
                break;
            }
        bs_session_close(r.session);
    }
    check(wrong == 0, "boxes that are kept go through a router, from none to the maximum, as their definition says");
}

/* ------------------------------------------------------------------------------------------------------- unique */

static void outputs_of(bs_graph *g, bs_value x, const bs_extent_desc *desc)
{
    static const char *const names[4] = {"values", "first", "inverse", "counts"};
    bs_value of[4];
    bs_unique(g, x, desc, of);
    for (int32_t i = 0; i < 4; i++)
        bs_output(g, names[i], of[i]);
}

static void test_floats(void)
{
    static float x[10] = {NAN, 2, -0.0f, 0, -NAN, INFINITY, -1, 2, -INFINITY, 0}, y[11];
    static const float sorted[6] = {-INFINITY, -1, -0.0f, 2, INFINITY, NAN};
    static const int32_t first[6] = {8, 6, 2, 1, 5, 0}, inverse[10] = {5, 3, 2, 2, 5, 4, 1, 3, 0, 2},
                         counts[6] = {1, 1, 3, 2, 1, 2};
    int32_t at[11], which[11], often[11];
    int64_t dims[BS_MAX_RANK];
    bs_graph *g = new_graph();
    outputs_of(g, bs_input(g, "x", BS_F32, BS_SHAPE2(2, 5)), &(bs_extent_desc){.name = "U"});
    start(g);
    bind("x", x, BS_F32, 2, 2, 5);
    bind("values", y, BS_F32, 1, 10, 0);
    bind("first", at, BS_I32, 1, 10, 0);
    bind("inverse", which, BS_I32, 2, 2, 5);
    bind("counts", often, BS_I32, 1, 10, 0);
    ends(BS_OK, NULL);
    bs_output_extents(r.session, "values", dims);
    check(dims[0] == 6, "six elements differ: %d", (int)dims[0]);
    check(memcmp(y, sorted, 5 * sizeof *y) == 0 && isnan(y[5]), "they rise, NaN last, the sign of 0 that of the first");
    check(memcmp(at, first, sizeof first) == 0 && memcmp(which, inverse, sizeof inverse) == 0 &&
              memcmp(often, counts, sizeof counts) == 0,
          "each has its first place, its number wherever it stands, and its count");
}

/* What there is beyond the maximum is counted, and not written; and nothing of nothing is nothing. */
static void test_beyond(void)
{
    static int32_t x[6] = {5, 3, 5, 2, 1, 3}, out[4][6];
    static const char *const names[4] = {"values", "first", "inverse", "counts"};
    bs_graph *g = new_graph();
    outputs_of(g, bs_input(g, "x", BS_I32, BS_SHAPE1(6)), &(bs_extent_desc){"U", 3});
    start(g);
    memset(out, 0x55, sizeof out);
    bind("x", x, BS_I32, 1, 6, 0);
    for (int32_t i = 0; i < 4; i++)
        bind(names[i], out[i], BS_I32, 1, i == 2 ? 6 : 3, 0);
    ends(BS_ERROR_DATA, "unique \"U\" (node 2): dimension U<=3 would be 4");
    for (int32_t i = 0; i < 4; i++)
        check(i == 2 || out[i][3] == 0x55555555, "%s: nothing is written beyond the maximum", names[i]);
    x[4] = 2;
    ends(BS_OK, NULL);
    check(out[0][2] == 5 && out[1][2] == 0 && out[2][5] == 1 && out[3][0] == 2, "as many as the maximum are well");
}

/* ---------------------------------------------------------------------------------------------------------- nms */

static float corners[2][6][4] = {{{0, 0, 1, 1}, {0, 0.1f, 1, 1.1f}, {0, -0.1f, 1, 0.9f}, {0, 10, 1, 11},
                                  {0, 10.1f, 1, 11.1f}, {0, 100, 1, 101}}};
static float given[2][6] = {{0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f}};

/* Keeps boxes [batches, n, 4] of scores [batches, classes, n] and compares with rows; count -1: refused. */
static void keeps(const bs_nms_desc *desc, int64_t batches, int64_t classes, int64_t n, int32_t count,
                  const int32_t (*rows)[3], const char *what)
{
    static int32_t y[64][3];
    int64_t dims[BS_MAX_RANK];
    bs_graph *g = new_graph();
    bs_output(g, "y", bs_nms(g, bs_input(g, "boxes", BS_F32, BS_SHAPE3(batches, n, 4)),
                             bs_input(g, "scores", BS_F32, BS_SHAPE3(batches, classes, n)), desc));
    start(g);
    const bs_buffer boxes = dense(corners, BS_F32, 3, batches, n, 4),
                    scores = dense(given, BS_F32, 3, batches, classes, n);
    bs_bind(r.session, "boxes", &boxes, &r.error);
    bs_bind(r.session, "scores", &scores, &r.error);
    memset(y, 0x55, sizeof y);
    bind("y", y, BS_I32, 2, bs_dim_max(g, g->values[g->n_values - 1].dims[0]), 3);
    if (count < 0) {
        ends(BS_ERROR_DATA, what);
        check(!desc->maximum || y[desc->maximum][0] == 0x55555555, "nothing is written beyond the maximum");
        return;
    }
    ends(BS_OK, NULL);
    bs_output_extents(r.session, "y", dims);
    check(dims[0] == count, "%s: %d rows", what, (int)dims[0]);
    check(memcmp(y, rows, (size_t)count * sizeof *rows) == 0, "%s: the rows of the definition", what);
}

static void test_boxes(void)
{
    static const int32_t best[3][3] = {{0, 0, 3}, {0, 0, 0}, {0, 0, 5}}, two[4][3] = {{0, 0, 3}, {0, 0, 0},
                                                                                   {0, 1, 3}, {0, 1, 0}};
    static const int32_t equal[6][3] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {0, 0, 4}, {0, 0, 5}};
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f}, 1, 1, 6, 3, best, "boxes apart");
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .score_above = 0.4f}, 1, 1, 6, 2, best, "scores above");
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .score_above = 0.3f}, 1, 1, 6, 2, best, "a score that is not above");
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .max_each = 2}, 1, 1, 6, 2, best, "two a class");
    keeps(&(bs_nms_desc){.name = "K", .iou_threshold = 0.5f, .maximum = 2}, 1, 1, 6, -1, NULL,
          "nms \"K\" (node 3): dimension K<=2 would be 3");
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .maximum = 3}, 1, 1, 6, 3, best, "as many as the maximum");
    memcpy(given[1], given[0], sizeof given[0]);
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .max_each = 2}, 1, 2, 6, 4, two, "two classes");
    for (int32_t i = 0; i < 6; i++)
        memcpy(corners[1][i], corners[0][5 - i], sizeof corners[0][0]);
    keeps(&(bs_nms_desc){.iou_threshold = 0.5f, .max_each = 2}, 2, 1, 6, 4,
          (const int32_t[4][3]){{0, 0, 3}, {0, 0, 0}, {1, 0, 3}, {1, 0, 0}}, "two batches");
    for (int32_t i = 0; i < 6; i++)
        given[0][i] = 1;
    keeps(&(bs_nms_desc){.iou_threshold = 1}, 1, 1, 6, 6, equal, "of equal scores the lower index first");
    for (int32_t i = 0; i < 6; i++)
        given[0][i] = i % 2 ? -0.0f : 0;
    keeps(&(bs_nms_desc){.iou_threshold = 1, .score_above = -INFINITY}, 1, 1, 6, 6, equal, "any score but -infinity");
    keeps(&(bs_nms_desc){.iou_threshold = 1}, 1, 1, 6, 0, equal, "none above 0");
    given[0][4] = NAN;
    keeps(&(bs_nms_desc){.name = "K", .score_above = 9}, 1, 1, 6, -1, NULL,
          "nms \"K\" (node 3): score [0, 0, 4] is NaN");
}

/* A share of exactly the threshold is not too much, and boxes without an area share nothing. */
static void test_shares(void)
{
    static const float exact[4][4] = {{0, 0, 2, 2}, {2, 1, 0, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}};
    static const int32_t all[4][3] = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 3}}, less[3][3] = {{0, 0, 0}, {0, 0, 2},
                                                                                               {0, 0, 3}};
    memcpy(corners, exact, sizeof exact);
    for (int32_t i = 0; i < 4; i++)
        given[0][i] = (float)(4 - i);
    keeps(&(bs_nms_desc){.iou_threshold = 1.0f / 3}, 1, 1, 4, 4, all, "a share of the threshold");
    keeps(&(bs_nms_desc){.iou_threshold = 0.333f}, 1, 1, 4, 3, less, "a share above the threshold");
    keeps(NULL, 1, 1, 4, 3, less, "by default nothing is shared");
}

int main(void)
{
    check_seed(1);
    test_graphs();
    test_floats();
    test_beyond();
    test_boxes();
    test_shares();
    return check_end();
}
