/* tags: asan */
/* Promises: every message of inputs, outputs, states and the ops that make cells of a value names the op, its node and
 * what was expected, word for word; what says no other than by such a message is not there. */
#include "ops/table.h"
#include "ops/structure.h"
#include "wrong_builds.h"

typedef bs_source_params source_params;

/* As nobody should: the number of a dimension that no function gave, (H times + add) / div. */
static bs_dim handle_of(const fixture *f, int32_t times, int32_t add, int32_t div)
{
    const bs_dim_id h = f->g->values[f->frame.id].dims[1], half = div > 1 ? bs_dim_derive(f->g, h, 1, 0, div) : h;
    return 2 * BS_UPTO(0) + bs_dim_derive(f->g, half, times, add, times > 1 && div == 1 ? 3 : 1);
}

static void rows_of_dimensions(void)
{
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is 0, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, 0)));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is -3, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, -3)));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 0 is 1073741825, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE1(((int64_t)1 << 30) + 1)));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(bs_times(g, f->h, 2000))));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is 1099511627776, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, BS_UPTO(0))));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is 1100585369601, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, BS_UPTO(((int64_t)1 << 30) + 1))));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 1 is 9223372036854775807, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, INT64_MAX)));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 1 is -9223372036854775808, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, INT64_MIN)));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {-9}}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {INT32_MIN}}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {0}}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 2, 0, 1))));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 1, 1, 1))));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 2, 0, 2))));
}

static void rows_of_ports(void)
{
    WRONG(BS_ERROR_GRAPH, "output \"o\": operand 0 is value 0, which does not exist", bs_output(g, "o", none));
    WRONG(BS_ERROR_ARGUMENT, "input: a name is needed", bs_input(g, "", BS_F32, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "input: a name is needed", bs_input(g, NULL, BS_F32, BS_SHAPE1(4)));
    WRONG(BS_ERROR_GRAPH, "input \"line\": its name is taken by an earlier input",
          bs_input(g, "line", BS_F32, BS_SHAPE1(4)));
    WRONG(BS_ERROR_GRAPH, "state \"line\": its name is taken by an earlier input",
          bs_state(g, "line", BS_F32, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": dtype is 7, expected 0 .. 6",
          bs_input(g, "i", BS_DTYPE_COUNT, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": rank is 0, expected 1 .. 4",
          bs_input(g, "i", BS_F32, bs_shape_of(0, 1, 0, 0, 0)));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": rank is 5, expected 1 .. 4",
          bs_input(g, "i", BS_F32, bs_shape_of(5, 1, 1, 1, 1)));
    WRONG(BS_ERROR_DOMAIN, "output \"o\": operand 0 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_output(g, "o", f->cells));
    WRONG(BS_ERROR_ARGUMENT, "output: a name is needed", bs_output(g, NULL, f->line));
    WRONG(BS_ERROR_GRAPH, "output \"line\": its name is taken by an earlier input", bs_output(g, "line", f->line));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": dtype is -1, expected 0 .. 6", bs_input(g, "i", (bs_dtype)-1, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": rank is -2147483648, expected 1 .. 4",
          bs_input(g, "i", BS_F32, bs_shape_of(INT32_MIN, 1, 1, 1, 1)));
}

static void rows_of_states(void)
{
    WRONG(BS_ERROR_GRAPH, "state_write: operand 0 is made by input \"frame\", expected a state",
          bs_state_write(g, f->frame, f->frame));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [3, 8, 10] is written to state \"state\" of f32 [2, H<=64, W<=48]",
          bs_state_write(g, f->state, f->image));
    WRONG(BS_ERROR_SHAPE, "state_write: u8 [2, H<=64, W<=48] is written to state \"state\" of f32 [2, H<=64, W<=48]",
          bs_state_write(g, f->state, bs_convert(g, f->frame, &(bs_convert_desc){.dtype = BS_U8})));
    WRONG(BS_ERROR_DOMAIN, "state_write: operand 1 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_state_write(g, f->state, f->cells));
    WRONG(BS_ERROR_GRAPH, "state_write: state \"state\" is written twice",
          (bs_state_write(g, f->state, f->frame), bs_state_write(g, f->state, f->frame)));
    WRONG(BS_ERROR_GRAPH, "state_write: operand 0 is made by input \"image\", expected a state",
          bs_state_write(g, f->image, f->image));
    WRONG(BS_ERROR_GRAPH, "state_write: state \"cache\" is written twice",
          (bs_state_append(g, f->cache, f->words, f->past), bs_state_write(g, f->cache, f->cache)));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [] is written to state \"state\" of f32 [2, H<=64, W<=48]",
          bs_state_write(g, f->state, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0))));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [N<=40, 6, 4] is written to state \"cache\" of f32 [5, 6, 4]",
          bs_state_write(g, f->cache, bs_input(g, "i", BS_F32, BS_SHAPE3(f->n, 6, 4))));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [6, 6, 4] is written to state \"cache\" of f32 [5, 6, 4]",
          bs_state_write(g, f->cache, bs_input(g, "i", BS_F32, BS_SHAPE3(6, 6, 4))));
}

static void rows_of_multiples(void)
{
    WRONG(BS_ERROR_SHAPE,
          "patches \"k\": dimensions 1 and 2 of [3, 8, 10] are not the same multiple of those of `like`, patches of 16 "
          "[H<=64, W<=48]",
          bs_patches(g, f->image, &(bs_patches_desc){.name = "k", .like = f->cells}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, H<=64, 2W<=96] are not the same multiple of those of `like`, patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, f->h, bs_times(g, f->w, 2))),
                   &(bs_patches_desc){.name = "k", .like = f->cells}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 64, 48] are not the same multiple of those of `like`, patches of 16 "
        "[H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, 64, 48)),
                   &(bs_patches_desc){.name = "k", .like = f->cells}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [2, H<=64, W<=48] are not the same multiple of those of `like`, patches "
        "of 64 [8, 10]",
        bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = bs_patches(g, f->image, NULL)}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 12, 20] are not the same multiple of those of `like`, patches of 64 "
        "[8, 10]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, 12, 20)),
                   &(bs_patches_desc){.name = "k", .like = bs_patches(g, f->image, NULL)}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [2, H+1<=65, W<=48] are not the same multiple of those of `like`, "
        "patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_pad(g, f->frame, &(bs_pad_desc){.top = 1}),
                   &(bs_patches_desc){.name = "k", .like = f->cells}));
    WRONG(BS_ERROR_SHAPE,
          "patches \"k\": dimensions 1 and 2 of [2, (H+0)/2<=32, (W+0)/2<=24] are not the same multiple of those of "
          "`like`, patches of 16 [H<=64, W<=48]",
          bs_patches(g, bs_pool2d(g, f->frame, NULL), &(bs_patches_desc){.name = "k", .like = f->cells}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 2W<=96, W<=48] are not the same multiple of those of `like`, patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, bs_times(g, f->w, 2), f->w)),
                   &(bs_patches_desc){.name = "k", .like = f->cells}));
}

static void rows_of_like(void)
{
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of rows [N<=40], expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->tokens}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of path 0 of \"first\", expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->inside}));
    WRONG(BS_ERROR_DOMAIN, "rows: `like` is a root value, expected cells", bs_rows(g, f->table, f->line));
    WRONG(BS_ERROR_SHAPE, "rows: dimension 0 holds 11 rows, the domain of `like` up to 12",
          bs_rows(g, bs_input(g, "few", BS_F32, BS_SHAPE2(11, 4)), f->cells));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of the root, expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->line}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of segments [N<=40], expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->words}));
}

static void rows_of_cells(void)
{
    WRONG(BS_ERROR_SHAPE, "patches \"k\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_patches(g, f->line, &(bs_patches_desc){.name = "k"}));
    WRONG(BS_ERROR_ARGUMENT, "patches \"k\": size is 8193, expected 1 .. 8192",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .size = 8193}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": operand 0 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_patches(g, f->cells, &(bs_patches_desc){.name = "k"}));
    WRONG(BS_ERROR_DOMAIN,
          "assemble: operand 0 is [2, H<=64, W<=48] of the root, expected images of patches: gather what a router "
          "scattered first",
          bs_assemble(g, f->frame));
    WRONG(BS_ERROR_DOMAIN,
          "assemble: operand 0 is [2, H<=64, W<=48] of path 0 of \"first\", expected images of patches: gather what a "
          "router scattered first",
          bs_assemble(g, f->inside));
    WRONG(
        BS_ERROR_DOMAIN,
        "assemble: operand 0 is [2] of patches of 16 [H<=64, W<=48], expected images of patches: gather what a router "
        "scattered first",
        bs_assemble(g, f->score));
    WRONG(BS_ERROR_DOMAIN,
          "collect: operand 0 is of path 0 of \"first\", expected rows, segments or patches: gather what a router "
          "scattered first",
          bs_collect(g, f->inside));
    WRONG(BS_ERROR_SHAPE, "collect: cells [2, H<=64, W<=48] cannot be stacked (images of patches: use assemble)",
          bs_collect(g, f->cells));
    WRONG(BS_ERROR_DOMAIN, "rows: operand 0 is of rows [N<=40], expected a root value", bs_rows(g, f->tokens, none));
    WRONG(BS_ERROR_ARGUMENT, "patches \"k\": size is -1, expected 1 .. 8192",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .size = -1}));
    WRONG(BS_ERROR_GRAPH, "patches \"k\": operand 1 is value -1, which does not exist",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = {-1}}));
    WRONG(BS_ERROR_SHAPE, "rows: operand 0 is [], expected rank 1 to 4",
          bs_rows(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), none));
    WRONG(BS_ERROR_DOMAIN,
          "collect: operand 0 is of the root, expected rows, segments or patches: gather what a router scattered first",
          bs_collect(g, f->line));
    WRONG(BS_ERROR_SHAPE, "collect: cells [1, 1, 2, 2] cannot be stacked (images of patches: use assemble)",
          bs_collect(g, bs_reshape(g, f->tokens, BS_SHAPE4(1, 1, 2, 2))));
}

int main(void)
{
    rows_of_dimensions();
    rows_of_ports();
    rows_of_states();
    rows_of_multiples();
    rows_of_like();
    rows_of_cells();
    wrong_builds_end();
    messages_of("src/ops/structure.c");
    return check_end();
}
