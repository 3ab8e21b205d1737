/* tags: asan */
/* test_cuda_index.c - gather_rows, select, gather_elements, scatter_elements, scatter_rows: the device against the
 * plain reference, and what both do with indices that are out of range. */
#include "cuda_rig.h"

static void test_gather_rows(int32_t bad)
{
    static const int32_t good[] = {3, 0, 10, 10, 1, 7, 2}, wrong[] = {3, 0, 11, 10, 1, 7, 2},
                         below[] = {3, 0, 1, 10, 1, 7, -1};
    const rig_how fails = {.fails = bad ? BS_ERROR_DATA : BS_OK};
    for (int32_t features = 6; features <= 40; features += 34) {
        cuda_rig r;
        bs_graph *g = rig_begin(&r, "gather_rows of a root table");
        bs_value table = bs_affine(g, bs_input(g, "t", BS_F32, BS_SHAPE2(11, features)), 0.9f, 0.0f),
                 indices = bs_input(g, "i", BS_I32, BS_SHAPE1(7));
        rig_give(&r, "i", bad == 0 ? good : bad == 1 ? wrong : below);
        bs_output(g, "y", bs_gather_rows(g, table, indices));
        rig_agree(&r, &fails);
        if (!bad)
            rig_agree(&r, &(rig_how){.half = 1});
        g = rig_begin(&r, "gather_rows by rows");
        table = bs_input(g, "t", BS_F32, BS_SHAPE3(11, 3, features));
        indices = bs_rows(g, bs_input(g, "i", BS_I32, BS_SHAPE2(7, 1)), (bs_value){0});
        rig_give(&r, "i", bad == 0 ? good : bad == 1 ? wrong : below);
        bs_output(g, "y", bs_collect(g, bs_reshape(g, bs_gather_rows(g, table, indices), BS_SHAPE1(3 * features))));
        rig_agree(&r, &fails);
    }
}

/* Elements by index, of root values and of rows, with indices that are root values, rows, or both. bad: the i-th index
 * is out of range. */
static void test_indexed(int32_t rows, bool half, int32_t bad)
{
    static int32_t few[4] = {2, 0, 2, 3}, many[9 * 4 * 3];
    const rig_how how = {.half = half, .fails = bad >= 0 ? BS_ERROR_DATA : BS_OK};
    cuda_rig r;
    bs_graph *g = rig_begin(&r, "elements by index");
    for (int32_t i = 0; i < 9 * 4 * 3; i++)
        many[i] = i * i % 6;
    if (bad >= 0)
        many[bad] = bad % 2 ? 6 : -1;
    const bs_value seen = bs_input(g, "x", BS_F32, BS_SHAPE4(rows, 6, 5, 7));
    const bs_value x = rows > 1 ? bs_rows(g, bs_affine(g, seen, 1.1f, 0.1f), (bs_value){0})
                                : bs_reshape(g, bs_affine(g, seen, 1.1f, 0.1f), BS_SHAPE3(6, 5, 7));
    const bs_value pair = bs_input(g, "f", BS_I32, BS_SHAPE2(2, 2)),
                   root = bs_input(g, "t", BS_F32, BS_SHAPE3(6, 5, 7));
    const bs_value stacked = bs_input(g, "m", BS_I32, BS_SHAPE4(rows, 4, 3, 1));
    const bs_value i = rows > 1 ? bs_rows(g, stacked, x) : bs_reshape(g, stacked, BS_SHAPE3(4, 3, 1));
    rig_give(&r, "f", few);
    rig_give(&r, "m", many);
    const bs_value line = bs_reshape(g, i, BS_SHAPE1(12)),
                   u = bs_slice(g, bs_slice(g, x, &(bs_slice_desc){.length = 4}),
                                &(bs_slice_desc){.axis = 1, .length = 3});
    const bs_value one = bs_slice(g, u, &(bs_slice_desc){.axis = 2, .length = 1});
    const bs_update_desc add = {.update = BS_UPDATE_ADD}, along = {.axis = 1, .update = BS_UPDATE_ADD};
    const bs_value made[] = {
        bs_select(g, bs_reshape(g, x, BS_SHAPE2(6, 35)), pair, 0),
        bs_select(g, root, line, 0),
        bs_select(g, x,
                  bs_convert(g, bs_reshape(g, bs_slice(g, line, &(bs_slice_desc){.length = 1}), BS_SHAPE1(1)),
                             &(bs_convert_desc){.dtype = BS_I32}),
                  0),
        bs_gather_elements(g, x, i, 0),
        bs_scatter_elements(g, root, i, one, &add),
        bs_scatter_elements(g, x, i, one, NULL),
        bs_scatter_rows(g, x, bs_reshape(g, pair, BS_SHAPE1(4)),
                        bs_slice(g, x, &(bs_slice_desc){.axis = 1, .length = 4}), &along),
        bs_scatter_rows(g, bs_convert(g, root, &(bs_convert_desc){.dtype = BS_I32, .scale = 9}), line,
                        bs_convert(g, bs_select(g, x, line, 0), &(bs_convert_desc){.dtype = BS_I32, .scale = 9}),
                        &add)};
    static const char *const names[] = {"a", "b", "c", "d", "e", "h", "j", "k"};
    for (size_t k = 0; k < sizeof made / sizeof *made - half; k++) /* codes of halves are others */
        bs_output(g, names[k], rows > 1 ? bs_collect(g, made[k]) : made[k]);
    rig_agree(&r, &how);
}

int main(void)
{
    for (int32_t bad = 0; bad < 3; bad++)
        test_gather_rows(bad);
    for (int32_t rows = 1; rows <= 9; rows += 8) {
        test_indexed(rows, false, -1);
        test_indexed(rows, true, -1);
        test_indexed(rows, false, 4);
        test_indexed(rows, false, 11);
    }
    return check_end();
}
