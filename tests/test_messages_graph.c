/* Promises: every message of the builder and of the structural ops names the op, its node, the value or router at fault
 * and what was expected, word for word; limits are named with the field that raises them; what says no other than by
 * such a message is not there. */
#include "ops/table.h"
#include "ops/structure.h"
#include "wrong_builds.h"

typedef bs_source_params source_params;
typedef bs_gather_params gather_params;
typedef bs_router_params router_params;
static const bs_router none_router = {0};

static bs_value scattered(bs_graph *g, const fixture *f, const char *name)
{
    return bs_scatter(g, bs_route(g, f->score, none, &(bs_route_desc){.name = name, .paths = 2}), 0, f->cells);
}

static void gather_place_many(const fixture *f)
{
    const bs_router r = bs_route(f->g, f->score, none,
                                 &(bs_route_desc){.name = "many", .paths = 2, .k = 2, .protocol = BS_ROUTE_TOPK});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->cells), none}, none, NULL);
}

static void gather_sums_of_codes(const fixture *f)
{
    const bs_router r = bs_route(f->g, f->labels, none,
                                 &(bs_route_desc){.name = "labels", .paths = 2, .protocol = BS_ROUTE_LABEL});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->labels), none}, none,
              &(bs_gather_desc){.mode = BS_GATHER_ADD});
}

/* As nobody should: the number of a dimension that no function gave, (H times + add) / div. */
static bs_dim handle_of(const fixture *f, int32_t times, int32_t add, int32_t div)
{
    const bs_dim_id h = f->g->values[f->frame.id].dims[1], half = div > 1 ? bs_dim_derive(f->g, h, 1, 0, div) : h;
    return 2 * BS_UPTO(0) + bs_dim_derive(f->g, half, times, add, times > 1 && div == 1 ? 3 : 1);
}

/* Two paths that give the same extents in frames of other scales: half of one pixel is one pixel. */
static void gather_of_scales(bs_graph *g)
{
    const bs_value cells = bs_patches(g, bs_input(g, "pixel", BS_F32, BS_SHAPE3(2, 1, 1)),
                                      &(bs_patches_desc){.size = 2});
    const bs_router r = bs_route(g, bs_pool2d(g, cells, &(bs_pool2d_desc){.global = 1}), none,
                                 &(bs_route_desc){.name = "tiny", .paths = 2});
    const bs_value whole = bs_scatter(g, r, 0, cells),
                   half = bs_conv2d(g, bs_scatter(g, r, 1, cells),
                                    &(bs_conv2d_desc){.name = "c", .out = 2, .stride = 2});
    bs_gather(g, r, (bs_value[]){whole, half}, none, NULL);
}

static void rows_of_graph(void)
{
    WRONG(BS_ERROR_GRAPH, "output \"o\": operand 0 is value 0, which does not exist", bs_output(g, "o", none));
    WRONG(BS_ERROR_DOMAIN,
          "add: operand 1 is of patches of 16 [H<=64, W<=48], operand 0 of rows [N<=40]: scatter or gather it first",
          bs_add(g, f->tokens, f->score));
    WRONG(BS_ERROR_DOMAIN,
          "add: operand 1 is of path 0 of \"first\", operand 0 of patches of 16 [H<=64, W<=48]: scatter or gather it "
          "first",
          bs_add(g, f->cells, f->inside));
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
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is 0, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, 0)));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 1 is -3, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE2(4, -3)));
    WRONG(BS_ERROR_SHAPE, "input \"i\": dimension 0 is 1073741825, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_input(g, "i", BS_F32, BS_SHAPE1(((int64_t)1 << 30) + 1)));
    WRONG(BS_ERROR_SHAPE, "input \"i\": the result [1073741824, 1073741824] has more than 2^40 elements",
          bs_input(g, "i", BS_F32, BS_SHAPE2(1 << 30, 1 << 30)));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(bs_times(g, f->h, 2000))));
    WRONG(BS_ERROR_SHAPE, "symbol \"S\": its maximum is 0, expected 1 .. 2^30", bs_symbol(g, "S", 0));
    WRONG(BS_ERROR_SHAPE, "symbol \"S\": its maximum is 2147483648, expected 1 .. 2^30",
          bs_symbol(g, "S", (int64_t)1 << 31));
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is 0, expected 1 .. 2^30", bs_times(g, f->h, 0));
    /* the first mistake is told */
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is -1, expected 1 .. 2^30", bs_times(g, BS_UPTO(0), -1));
    WRONG(
        BS_ERROR_SHAPE,
        "bs_times: a dimension would be (H<=64 * 67108864 +0) / 1, expected numbers of 2^30 at most, and 1 at least as "
        "the result",
        bs_times(g, f->h, 1 << 26));
    WRONG(BS_ERROR_LIMIT,
          "linear \"a123456789b123456789c123456789d123456789e123456789f123456789g12\": the name "
          "\"a123456789b123456789c123456789d1...\" is longer than 63 bytes",
          bs_linear(
              g, f->line,
              &(bs_linear_desc){.name = "a123456789b123456789c123456789d123456789e123456789f123456789g123", .out = 4}));
    WRONG(BS_ERROR_GRAPH, "activation: operand 0 is value 9999, which does not exist",
          bs_activation(g, (bs_value){9999}, BS_RELU, 0));
    WRONG(BS_ERROR_GRAPH, "activation: operand 0 is value 0, which does not exist", bs_activation(g, none, BS_RELU, 0));
    WRONG(BS_ERROR_DOMAIN, "output \"o\": operand 0 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_output(g, "o", f->cells));
    WRONG(BS_ERROR_ARGUMENT, "output: a name is needed", bs_output(g, NULL, f->line));
    WRONG(BS_ERROR_GRAPH, "output \"line\": its name is taken by an earlier input", bs_output(g, "line", f->line));
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
    WRONG(BS_ERROR_GRAPH, "bs_block_end without bs_block_begin", bs_block_end(g));
    WRONG(BS_ERROR_GRAPH, "op 49 does not exist", bs_op_build_numbered(g, bs_op_count(), NULL, 0, NULL));
    WRONG(BS_ERROR_SHAPE, "symbol \"\": its maximum is -1, expected 1 .. 2^30", bs_symbol(g, NULL, -1));
    WRONG(BS_ERROR_SHAPE, "bs_times: 1099511627776 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, BS_UPTO(0), 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: 2199023259649 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, f->h + 4096, 2));
    WRONG(BS_ERROR_SHAPE,
          "bs_times: a dimension would be (1073741824 * 2 +0) / 1, expected numbers of 2^30 at most, and 1 at least as "
          "the result",
          bs_times(g, 1 << 30, 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: the factor is -2147483648, expected 1 .. 2^30", bs_times(g, f->h, INT32_MIN));
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
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": dtype is -1, expected 0 .. 6", bs_input(g, "i", (bs_dtype)-1, BS_SHAPE1(4)));
    WRONG(BS_ERROR_ARGUMENT, "input \"i\": rank is -2147483648, expected 1 .. 4",
          bs_input(g, "i", BS_F32, bs_shape_of(INT32_MIN, 1, 1, 1, 1)));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {-9}}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {INT32_MIN}}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_op_build_numbered(g, bs_op_index("input"), NULL, 0, &(source_params){"i", BS_F32, 1, {0}}));
    WRONG(
        BS_ERROR_SHAPE,
        "pixel_shuffle: a dimension would be (n<=33554432 * 64 -2147483584) / 1, expected numbers of 2^30 at most, and "
        "1 at least as the result",
        bs_slice(g,
                 bs_pixel_shuffle(g,
                                  bs_slice(g, bs_input(g, "i", BS_U8, BS_SHAPE3(4096, BS_UPTO(1 << 25), 1)),
                                           &(bs_slice_desc){.axis = 1, .start = (1 << 25) - 1}),
                                  64),
                 &(bs_slice_desc){.axis = 1, .start = 1}));
    WRONG(BS_ERROR_GRAPH, "state_write: operand 0 is made by input \"image\", expected a state",
          bs_state_write(g, f->image, f->image));
    WRONG(BS_ERROR_GRAPH, "state_write: state \"cache\" is written twice",
          (bs_state_append(g, f->cache, f->words, f->past), bs_state_write(g, f->cache, f->cache)));
    WRONG(BS_ERROR_SHAPE,
          "bs_times: 9223372036854775807 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, INT64_MAX, 2));
    WRONG(BS_ERROR_SHAPE, "bs_times: 0 is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol",
          bs_times(g, 0, 2));
    WRONG(BS_ERROR_GRAPH, "add: 1 operands, expected 2 .. 2",
          bs_op_build_numbered(g, bs_op_index("add"), &f->line.id, 1, NULL));
    WRONG(BS_ERROR_GRAPH, "scatter \"s\": 0 operands, expected 1 .. 1",
          bs_op_build_numbered(g, bs_op_index("scatter"), NULL, 0, &(router_params){"s", 1, 0}));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 2, 0, 1))));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 1, 1, 1))));
    WRONG(BS_ERROR_SHAPE,
          "input \"i\": dimension 0 is not a constant or up to 1024 times one of the first 65535 symbols",
          bs_input(g, "i", BS_F32, BS_SHAPE1(handle_of(f, 2, 0, 2))));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [] is written to state \"state\" of f32 [2, H<=64, W<=48]",
          bs_state_write(g, f->state, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0))));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [N<=40, 6, 4] is written to state \"cache\" of f32 [5, 6, 4]",
          bs_state_write(g, f->cache, bs_input(g, "i", BS_F32, BS_SHAPE3(f->n, 6, 4))));
    WRONG(BS_ERROR_SHAPE, "state_write: f32 [6, 6, 4] is written to state \"cache\" of f32 [5, 6, 4]",
          bs_state_write(g, f->cache, bs_input(g, "i", BS_F32, BS_SHAPE3(6, 6, 4))));
    WRONG(BS_ERROR_DOMAIN, "concat: operand 1 is of the root, operand 0 of rows [N<=40]: scatter or gather it first",
          bs_concat(g, (bs_value[]){f->tokens, f->line}, 2, 0));
    WRONG(
        BS_ERROR_SHAPE,
        "concat: a dimension would be (N<=40 * 1 +2147483648) / 1, expected numbers of 2^30 at most, and 1 at least as "
        "the result",
        bs_concat(g,
                  (bs_value[]){bs_input(g, "n", BS_U8, BS_SHAPE1(f->n)), bs_input(g, "i", BS_U8, BS_SHAPE1(1 << 30)),
                               bs_input(g, "j", BS_U8, BS_SHAPE1(1 << 30))},
                  3, 0));
}

static void rows_of_cells(void)
{
    WRONG(BS_ERROR_SHAPE, "patches \"k\": operand 0 is [4], expected rank 3 [C, H, W]",
          bs_patches(g, f->line, &(bs_patches_desc){.name = "k"}));
    WRONG(BS_ERROR_ARGUMENT, "patches \"k\": size is 8193, expected 1 .. 8192",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .size = 8193}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": operand 0 is of patches of 16 [H<=64, W<=48], expected a root value",
          bs_patches(g, f->cells, &(bs_patches_desc){.name = "k"}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of rows [N<=40], expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->tokens.id}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of path 0 of \"first\", expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->inside.id}));
    WRONG(BS_ERROR_SHAPE,
          "patches \"k\": dimensions 1 and 2 of [3, 8, 10] are not the same multiple of those of `like`, patches of 16 "
          "[H<=64, W<=48]",
          bs_patches(g, f->image, &(bs_patches_desc){.name = "k", .like = f->cells.id}));
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
    WRONG(BS_ERROR_DOMAIN, "rows: `like` is a root value, expected cells", bs_rows(g, f->table, f->line));
    WRONG(BS_ERROR_SHAPE, "rows: dimension 0 holds 11 rows, the domain of `like` up to 12",
          bs_rows(g, bs_input(g, "few", BS_F32, BS_SHAPE2(11, 4)), f->cells));
    WRONG(BS_ERROR_ARGUMENT, "patches \"k\": size is -1, expected 1 .. 8192",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .size = -1}));
    WRONG(BS_ERROR_GRAPH, "patches \"k\": operand 1 is value -1, which does not exist",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = -1}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, H<=64, 2W<=96] are not the same multiple of those of `like`, patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, f->h, bs_times(g, f->w, 2))),
                   &(bs_patches_desc){.name = "k", .like = f->cells.id}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 64, 48] are not the same multiple of those of `like`, patches of 16 "
        "[H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, 64, 48)),
                   &(bs_patches_desc){.name = "k", .like = f->cells.id}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of the root, expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->line.id}));
    WRONG(BS_ERROR_DOMAIN, "patches \"k\": `like` is of segments [N<=40], expected cells of a frame",
          bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->words.id}));
    WRONG(BS_ERROR_SHAPE, "rows: operand 0 is [], expected rank 1 to 4",
          bs_rows(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), none));
    WRONG(BS_ERROR_DOMAIN,
          "collect: operand 0 is of the root, expected rows, segments or patches: gather what a router scattered first",
          bs_collect(g, f->line));
    WRONG(BS_ERROR_SHAPE, "collect: cells [1, 1, 2, 2] cannot be stacked (images of patches: use assemble)",
          bs_collect(g, bs_reshape(g, f->tokens, BS_SHAPE4(1, 1, 2, 2))));
    WRONG(BS_ERROR_SHAPE, "collect: a dimension would be 4294967296, expected 1 .. 2^30",
          bs_collect(g,
                     bs_pool2d(g,
                               bs_patches(g, bs_input(g, "i", BS_F32, BS_SHAPE3(1, BS_UPTO(1 << 16), BS_UPTO(1 << 16))),
                                          &(bs_patches_desc){.size = 1}),
                               &(bs_pool2d_desc){.global = 1})));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [2, H<=64, W<=48] are not the same multiple of those of `like`, patches "
        "of 64 [8, 10]",
        bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = bs_patches(g, f->image, NULL).id}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 12, 20] are not the same multiple of those of `like`, patches of 64 "
        "[8, 10]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, 12, 20)),
                   &(bs_patches_desc){.name = "k", .like = bs_patches(g, f->image, NULL).id}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [2, H+1<=65, W<=48] are not the same multiple of those of `like`, "
        "patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_pad(g, f->frame, &(bs_pad_desc){.top = 1}),
                   &(bs_patches_desc){.name = "k", .like = f->cells.id}));
    WRONG(BS_ERROR_SHAPE,
          "patches \"k\": dimensions 1 and 2 of [2, (H+0)/2<=32, (W+0)/2<=24] are not the same multiple of those of "
          "`like`, patches of 16 [H<=64, W<=48]",
          bs_patches(g, bs_pool2d(g, f->frame, NULL), &(bs_patches_desc){.name = "k", .like = f->cells.id}));
    WRONG(
        BS_ERROR_SHAPE,
        "patches \"k\": dimensions 1 and 2 of [1, 2W<=96, W<=48] are not the same multiple of those of `like`, patches "
        "of 16 [H<=64, W<=48]",
        bs_patches(g, bs_input(g, "f", BS_F32, BS_SHAPE3(1, bs_times(g, f->w, 2), f->w)),
                   &(bs_patches_desc){.name = "k", .like = f->cells.id}));
}

static void rows_of_route(void)
{
    WRONG(BS_ERROR_ARGUMENT, "route: a name is needed", bs_route(g, f->score, none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "route: a name is needed", bs_route(g, f->score, none, &(bs_route_desc){.paths = 2}));
    WRONG(BS_ERROR_GRAPH, "route \"first\": its name is taken by an earlier router",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "first", .paths = 2}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": protocol is 10, expected 0 .. 9",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_PROTOCOL_COUNT}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 0, expected 1 .. 32767",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r"}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 32768, expected 1 .. 32767",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 32768}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 3, expected 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 3, .protocol = BS_ROUTE_BINARY}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": k is 3, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .k = 3, .protocol = BS_ROUTE_TOPK}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": fallback is 3, expected 0 .. 2",
          bs_route(g, f->score, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .fallback = 3, .protocol = BS_ROUTE_THRESHOLD}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": capacity is 0, expected 1 .. 2147483647",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], top1 takes f32 or i32 [3]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 3}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], budget takes i32 [2]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET}));
    WRONG(BS_ERROR_DOMAIN, "route \"r\": scores are a root value: make cells first (bs_rows, bs_patches)",
          bs_route(g, f->line, none, &(bs_route_desc){.name = "r", .paths = 4}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2, H<=64, W<=48], top1 takes f32 or i32 [2]",
          bs_route(g, f->cells, none, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is f32 [4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->line, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE,
          "route \"r\": the knob is f32 [2] of patches of 16 [H<=64, W<=48], expected a root value f32 [1]",
          bs_route(g, f->score, f->score, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_GRAPH, "scatter: router 7 does not exist", bs_scatter(g, (bs_router){7}, 0, f->cells));
    WRONG(BS_ERROR_ARGUMENT, "scatter: path 2 of router \"first\", which has 2", bs_scatter(g, f->router, 2, f->cells));
    WRONG(BS_ERROR_DOMAIN,
          "scatter: operand 0 is of rows [N<=40], router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_scatter(g, f->router, 0, f->tokens));
    WRONG(BS_ERROR_DOMAIN,
          "scatter: operand 0 is of path 0 of \"first\", router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_scatter(g, f->router, 0, f->inside));
    WRONG(BS_ERROR_GRAPH, "gather: router 7 does not exist",
          bs_gather(g, (bs_router){7}, (bs_value[]){f->inside, none}, none, NULL));
    WRONG(BS_ERROR_GRAPH, "gather: no path of \"first\" gives anything, and there is no residual",
          bs_gather(g, f->router, (bs_value[]){none, none}, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 1 is of path 0 of \"first\", expected path 1 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){none, f->inside}, none, NULL));
    WRONG(BS_ERROR_SHAPE,
          "gather: path 1 of \"first\" gives f32 [2] (scale 1/1), another path f32 [2, H<=64, W<=48] (scale 1/1)",
          bs_gather(g, f->router, (bs_value[]){f->inside, bs_scatter(g, f->router, 1, f->score)}, none, NULL));
    WRONG(BS_ERROR_SHAPE,
          "gather: path 1 of \"first\" gives f32 [2, H<=64, W<=48] (scale 1/1), another path f32 [2, 2H<=128, 2W<=96] "
          "(scale 2/1)",
          bs_gather(g, f->router, (bs_value[]){bs_resize(g, f->inside, NULL), bs_scatter(g, f->router, 1, f->cells)},
                    none, NULL));
    WRONG(BS_ERROR_SHAPE, "gather: the residual is f32 [2], paths of \"first\" give f32 [2, H<=64, W<=48]",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, f->score, NULL));
    WRONG(BS_ERROR_ARGUMENT, "gather: mode is 4, expected 0 .. 3",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, none, &(bs_gather_desc){.mode = 4}));
    WRONG(BS_ERROR_ARGUMENT, "route_price: router \"first\" is of protocol top1, expected budget",
          bs_route_price(g, f->router));
    WRONG(BS_ERROR_GRAPH, "route_price: router 7 does not exist", bs_route_price(g, (bs_router){7}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 7 does not exist", bs_route_score(g, (bs_router){7}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": protocol is -1, expected 0 .. 9",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": paths is 1, expected 2",
          bs_route(g, f->score, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_RESIDUAL_THRESHOLD}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": k is -1, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .k = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": fallback is -1, expected 0 .. 2",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .fallback = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": capacity is -1, expected 0 .. 2147483647",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .capacity = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": capacity is 32768, expected 0 .. 32767",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .capacity = 32768}));
    WRONG(
        BS_ERROR_ARGUMENT, "route \"r\": fallback is 2, expected 0 .. 1",
        bs_route(g, f->labels, none,
                 &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .capacity = 1, .fallback = 2}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is -1, expected 0 .. 16777216",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_BUDGET, .floor = -1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is 16777217, expected 0 .. 16777216",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 1, .protocol = BS_ROUTE_BUDGET, .floor = (1 << 24) + 1}));
    WRONG(BS_ERROR_ARGUMENT, "route \"r\": floor is 1, expected 0",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .floor = 1}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are i32 [1], budget takes i32 [3]",
          bs_route(g, f->labels, none,
                   &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET, .capacity = 3}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2], label takes i32 [1]",
          bs_route(g, f->score, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_LABEL}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are i32 [1], binary takes f32 [1]",
          bs_route(g, f->labels, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_BINARY}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are u8 [2], top1 takes f32 or i32 [2]",
          bs_route(g, bs_convert(g, f->score, &(bs_convert_desc){.dtype = BS_U8}), none,
                   &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [2, H<=64, W<=48], callback takes f32 or i32 [n]",
          bs_route(g, f->cells, none, &(bs_route_desc){.name = "r", .paths = 2, .protocol = BS_ROUTE_CALLBACK}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": scores are f32 [N<=40], top1 takes f32 or i32 [40]",
          bs_route(g, bs_rows(g, bs_input(g, "i", BS_F32, BS_SHAPE2(4, f->n)), none), none,
                   &(bs_route_desc){.name = "r", .paths = 40}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is i32 [4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->numbers, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_SHAPE, "route \"r\": the knob is f32 [N<=40, 4] of the root, expected a root value f32 [1]",
          bs_route(g, f->score, f->table, &(bs_route_desc){.name = "r", .paths = 2}));
    WRONG(BS_ERROR_ARGUMENT, "scatter: path -1 of router \"first\", which has 2",
          bs_scatter(g, f->router, -1, f->cells));
    WRONG(BS_ERROR_GRAPH, "scatter: router 0 does not exist", bs_scatter(g, (bs_router){0}, 0, f->cells));
    WRONG(BS_ERROR_GRAPH, "gather: router -1 does not exist", bs_gather(g, (bs_router){-1}, NULL, none, NULL));
    WRONG(BS_ERROR_GRAPH, "gather: no path of \"first\" gives anything, and there is no residual",
          bs_gather(g, f->router, NULL, none, NULL));
    WRONG(BS_ERROR_GRAPH, "gather \"a\": 2 operands, expected one for each of 2 paths of \"first\" and a residual",
          bs_op_build_numbered(g, bs_op_index("gather"), (int32_t[]){f->inside.id, 0}, 2, &(gather_params){"a", 1, 0}));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 0 is of patches of 16 [H<=64, W<=48], expected path 0 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){f->cells, none}, none, NULL));
    WRONG(BS_ERROR_DOMAIN, "gather: operand 0 is of path 0 of \"other\", expected path 0 of \"first\"",
          bs_gather(g, f->router, (bs_value[]){scattered(g, f, "other"), none}, none, NULL));
    WRONG(BS_ERROR_ARGUMENT, "gather \"a\": mode is -1, expected 0 .. 3",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, none, &(bs_gather_desc){.name = "a", .mode = -1}));
    WRONG(
        BS_ERROR_SHAPE,
        "gather: path 1 of \"first\" gives u8 [2, H<=64, W<=48] (scale 1/1), another path f32 [2, H<=64, W<=48] (scale "
        "1/1)",
        bs_gather(g, f->router,
                  (bs_value[]){f->inside, bs_convert(g, bs_scatter(g, f->router, 1, f->cells),
                                                     &(bs_convert_desc){.dtype = BS_U8})},
                  none, NULL));
    WRONG(
        BS_ERROR_SHAPE,
        "gather: path 1 of \"first\" gives f32 [1, H<=64, W<=48] (scale 1/1), another path f32 [2, H<=64, W<=48] "
        "(scale "
        "1/1)",
        bs_gather(
            g, f->router,
            (bs_value[]){f->inside, bs_slice(g, bs_scatter(g, f->router, 1, f->cells), &(bs_slice_desc){.length = 1})},
            none, NULL));
    WRONG(BS_ERROR_DOMAIN,
          "gather: the residual is of the root, router \"first\" decides for patches of 16 [H<=64, W<=48]",
          bs_gather(g, f->router, (bs_value[]){f->inside, none}, f->frame, NULL));
    WRONG(BS_ERROR_GRAPH, "route_score: operand 0 is value 12, expected the scores of router \"first\", value 17",
          bs_op_build_numbered(g, bs_op_index("route_score"), &f->cells.id, 1, &(router_params){"", 1, 0}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 2 does not exist",
          bs_op_build_numbered(g, bs_op_index("route_score"), &f->cells.id, 1, &(router_params){"", 2, 0}));
    WRONG(BS_ERROR_GRAPH, "route_score: router 0 does not exist", bs_route_score(g, none_router));
    WRONG(BS_ERROR_ARGUMENT, "look_ahead: the name of a router is needed", bs_look_ahead(g, f->score, NULL));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is f32 [2, H<=64, W<=48], expected f32 or i32 [paths]",
          bs_look_ahead(g, f->cells, "first"));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is u8 [2], expected f32 or i32 [paths]",
          bs_look_ahead(g, bs_convert(g, f->score, &(bs_convert_desc){.dtype = BS_U8}), "first"));
    WRONG(BS_ERROR_SHAPE, "look_ahead \"first\": operand 0 is f32 [N<=40], expected f32 or i32 [paths]",
          bs_look_ahead(g, bs_rows(g, bs_input(g, "i", BS_F32, BS_SHAPE2(4, f->n)), none), "first"));
    WRONG(BS_ERROR_ARGUMENT, "gather: place takes at most one path a cell, router \"many\" gives up to 2",
          gather_place_many(f));
    WRONG(BS_ERROR_SHAPE, "gather: sums are of f32, the paths of \"labels\" give i32", gather_sums_of_codes(f));
    WRONG(BS_ERROR_SHAPE,
          "gather: path 1 of \"tiny\" gives f32 [2, 1, 1] (scale 1/2), another path f32 [2, 1, 1] (scale 1/1)",
          gather_of_scales(g));
}

static void rows_of_segments(void)
{
    WRONG(BS_ERROR_DOMAIN, "segments: operand 0 is of rows [N<=40], expected a root value",
          bs_segments(g, f->tokens, f->lengths));
    WRONG(BS_ERROR_SHAPE, "segments: operand 0 is [], expected rank 1 to 4",
          bs_segments(g, bs_constant(g, "one", BS_F32, bs_shape_of(0, 0, 0, 0, 0)), f->lengths));
    WRONG(BS_ERROR_SHAPE, "segments: operand 1 (lengths) is f32 [4], expected i32 [segments]",
          bs_segments(g, f->table, f->line));
    WRONG(BS_ERROR_SHAPE, "segments: operand 1 (lengths) is i32 [5, 1], expected i32 [segments]",
          bs_segments(g, f->table, bs_input(g, "i", BS_I32, BS_SHAPE2(5, 1))));
    WRONG(BS_ERROR_GRAPH, "segments: operand 1 (lengths) is made by constant, expected an input",
          bs_segments(g, f->table, bs_constant(g, "k", BS_I32, BS_SHAPE1(5))));
    WRONG(BS_ERROR_GRAPH, "segments: operand 1 (lengths) is made by state, expected an input",
          bs_segments(g, f->table, f->cache));
    WRONG(BS_ERROR_GRAPH, "state_append: operand 0 is made by input \"table\", expected a state",
          bs_state_append(g, f->table, f->words, f->past));
    WRONG(BS_ERROR_DOMAIN,
          "state_append: operand 1 is of rows [N<=40], expected segments (bs_segments; gather what a router scattered "
          "first)",
          bs_state_append(g, f->cache, f->tokens, f->past));
    WRONG(BS_ERROR_SHAPE, "state_append: operand 2 (past) is [4], expected one for each of 5 segments",
          bs_state_append(g, f->cache, f->words, f->numbers));
    WRONG(
        BS_ERROR_SHAPE,
        "state_append: cells f32 [4] do not fit a state of f32 [2, H<=64, W<=48], expected [segments, window, ...cell]",
        bs_state_append(g, f->state, f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of i32 [5, 6, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_I32, BS_SHAPE3(5, 6, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [4, 6, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(4, 6, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, N<=40, 4], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(5, f->n, 4)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, 6, 5], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE3(5, 6, 5)), f->words, f->past));
    WRONG(BS_ERROR_SHAPE,
          "state_append: cells f32 [4] do not fit a state of f32 [5, 6], expected [segments, window, ...cell]",
          bs_state_append(g, bs_state(g, "t", BS_F32, BS_SHAPE2(5, 6)), f->words, f->past));
    WRONG(BS_ERROR_GRAPH, "state_append: state \"cache\" is written twice",
          (bs_state_append(g, f->cache, f->words, f->past), bs_state_append(g, f->cache, f->words, f->past)));
}
/* ------------------------------------------------------------------------------------------------------------
 * limits */

static bool stops_with(const bs_graph *g, const char *text)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_graph_check(g, &error);
    return message_is(&error, BS_ERROR_LIMIT, text);
}

static void test_capacities(void)
{
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 10});
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 1; i < 10; i++)
        x = bs_activation(g, x, BS_RELU, 0);
    check(x.id && g->status == BS_OK, "10 nodes in a graph of 10");
    x = bs_activation(g, x, BS_RELU, 0);
    check(x.id == 0, "the 11th is refused");
    stops_with(g, "activation: the graph is full: 10 nodes, 40 operands (bs_graph_desc.max_nodes, max_operands)");

    g = new_graph(&(bs_graph_desc){.max_values = 5});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_value indices;
    bs_topk(g, x, 2, &indices);
    x = bs_topk(g, x, 2, &indices);
    check(x.id && indices.id && g->status == BS_OK, "5 values in a graph of 5");
    x = bs_activation(g, x, BS_RELU, 0);
    check(x.id == 0, "the 6th is refused");
    stops_with(g, "activation: the graph is full: 5 values (bs_graph_desc.max_values)");

    g = new_graph(&(bs_graph_desc){.max_text_bytes = 256});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 20 && x.id; i++)
        x = bs_affine(g, x, 1, 1);
    check(g->n_text <= 256, "text is bounded");
    stops_with(g, "affine: the graph's text is full: 256 bytes (bs_graph_desc.max_text_bytes)");

    g = new_graph(&(bs_graph_desc){.max_text_bytes = 64});
    /* its parameters fit, its name does not */
    x = bs_constant(g, "0123456789012345678901234567", BS_F32, BS_SHAPE1(4));
    check(x.id == 0 && g->n_text == 40, "a name may be what does not fit");
    stops_with(
        g,
        "constant \"0123456789012345678901234567\": the graph's text is full: 64 bytes (bs_graph_desc.max_text_bytes)");

    g = new_graph(&(bs_graph_desc){.max_nodes = 20});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 12 && x.id; i++) /* 4 operands a node are there on average */
        x = bs_slice(g, bs_concat(g, (bs_value[]){x, x, x, x, x, x, x, x}, 8, 0), &(bs_slice_desc){.length = 4});
    check(g->n_operands <= 80, "operands are bounded");
    stops_with(g, "slice: the graph is full: 20 nodes, 80 operands (bs_graph_desc.max_nodes, max_operands)");
}

/* A gather has as many operands as its router has paths: where there is no room for them, what lies behind stays. */
static void test_operands_of_a_gather(void)
{
    enum { PATHS = 64, BEHIND = 4096 };
    static uint8_t behind[BEHIND];
    static bs_value ways[PATHS];
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 20, .max_operands = 66});
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, PATHS)), none);
    const bs_route_desc d = {.name = "r", .protocol = BS_ROUTE_TOP1, .paths = PATHS};
    const bs_router r = bs_route(g, x, none, &d);
    for (int32_t i = 0; i < 10; i++)
        bs_activation(g, x, BS_RELU, 0);
    for (int32_t i = 0; i < PATHS; i++)
        ways[i] = (bs_value){0x5A5A5A5A};
    memcpy(behind, g->operands + g->max_operands, BEHIND);
    check(g->status == BS_OK && bs_gather(g, r, ways, none, NULL).id == 0, "65 operands behind 12 in a graph of 66");
    check(memcmp(behind, g->operands + g->max_operands, BEHIND) == 0, "none of them was written");
    stops_with(g, "gather: the graph is full: 20 nodes, 66 operands (bs_graph_desc.max_nodes, max_operands)");
}

static bs_value tokens_of_64(bs_graph *g) { return bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none); }

static bs_router route_numbered(bs_graph *g, bs_value score, int32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "r%d", number);
    return bs_route(g, score, none, &(bs_route_desc){.name = name, .paths = 64});
}

static void test_table_limits(void)
{
    static const bs_graph_desc large = {.max_nodes = 4000,
                                        .max_values = 4000,
                                        .max_text_bytes = 1 << 20,
                                        .max_dims = 512,
                                        .max_domains = 511,
                                        .max_blocks = 127,
                                        .max_routers = 63};
    bs_graph *g = new_graph(&large);
    int32_t made = 0;
    for (; g->status == BS_OK && made < 2000; made++)
        bs_symbol(g, "S", 4);
    check(made - 1 == 512, "%d symbols", made - 1);
    stops_with(g, "the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");

    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_input(g, "x", BS_F32, BS_SHAPE1(BS_UPTO(4))).id ? bs_symbol(g, "S", 4) : 0;
    check(made == 2 && g->status == BS_ERROR_GRAPH, "a name twice comes before that");

    g = new_graph(&large);
    for (made = 0; made < 512; made++)
        bs_symbol(g, "S", 4);
    check(bs_input(g, "x", BS_F32, BS_SHAPE1(BS_UPTO(4))).id == 0, "no dimension is left");
    stops_with(g, "input \"x\": the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");

    g = new_graph(&large);
    bs_value y = bs_input(g, "y", BS_F32, BS_SHAPE1(4));
    for (made = 0; made < 511; made++)
        bs_symbol(g, "S", 4);
    check(y.id && bs_linear(g, y, &(bs_linear_desc){.name = "l", .out = 5}).id == 0, "nor for a result");
    stops_with(g, "linear \"l\": the graph is full: 512 different dimensions (bs_graph_desc.max_dims)");

    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_block_begin(g, "block");
    check(made == 128, "%d blocks with the outermost", made);
    stops_with(g, "block \"block\": the graph is full: 127 blocks (bs_graph_desc.max_blocks)");
    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_block_begin(g, NULL);
    stops_with(g, "block \"\": the graph is full: 127 blocks (bs_graph_desc.max_blocks)");

    g = new_graph(&large);
    bs_value x = tokens_of_64(g);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        route_numbered(g, x, made);
    check(made == 64, "%d routers", made - 1);
    stops_with(g, "route \"r63\": the graph is full: 63 routers (bs_graph_desc.max_routers)");

    static const bs_graph_desc routers = {.max_nodes = 9000, .max_text_bytes = 1 << 21, .max_routers = 9000};
    g = new_graph(&routers);
    const bs_value label = bs_rows(g, bs_input(g, "x", BS_I32, BS_SHAPE2(9, 1)), none);
    for (made = 0; g->status == BS_OK && made < 9000; made++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", made);
        bs_route(g, label, none, &(bs_route_desc){.name = name, .protocol = BS_ROUTE_LABEL, .paths = BS_MAX_PATHS});
    }
    stops_with(g, "route \"r8192\": all routers together have more than 268435456 paths");

    g = new_graph(&large);
    x = tokens_of_64(g);
    int32_t domains = 2;
    for (made = 0; g->status == BS_OK && made < 60; made++) {
        const bs_router r = route_numbered(g, x, made);
        for (int32_t p = 0; p < 64; p++)
            domains += bs_scatter(g, r, p, x).id != 0;
    }
    check(domains == 512, "%d domains", domains);
    stops_with(g, "scatter: the graph is full: 511 domains (bs_graph_desc.max_domains)");

    bs_error error;
    bs_graph_check(NULL, &error);
    message_is(&error, BS_ERROR_ARGUMENT,
               "the graph is NULL (did bs_graph_create fit its arena, and its bs_graph_desc the limits?)");

    char name[BS_MAX_NAME + 1];
    memset(name, 'n', sizeof name);
    name[BS_MAX_NAME - 1] = 0;
    g = new_graph(NULL);
    check(bs_input(g, name, BS_F32, BS_SHAPE1(4)).id != 0, "a name of %d bytes", BS_MAX_NAME - 1);
}

/* A block that is not ended is told by its name, and is no plan; ended, the graph is sound. */
static void test_open_block(void)
{
    bs_error error;
    bs_arena room;
    static _Alignas(64) uint8_t plan_memory[1 << 18];
    bs_arena_init(&room, "plan", plan_memory, sizeof plan_memory);
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_block_begin(g, "outer");
    bs_block_begin(g, "inner");
    bs_block_end(g);
    bs_output(g, "y", bs_activation(g, x, BS_RELU, 0));
    bs_graph_check(g, &error);
    message_is(&error, BS_ERROR_GRAPH, "block \"outer\" is begun and never ended (bs_block_end)");
    memset(&error, 0, sizeof error);
    check(bs_plan_bytes(g, NULL) == 0 && !bs_plan_create(&room, g, NULL, &error) && room.used == 0,
          "nothing is planned of it");
    message_is(&error, BS_ERROR_GRAPH, "block \"outer\" is begun and never ended (bs_block_end)");
    bs_block_end(g);
    check(bs_graph_check(g, NULL) == BS_OK && bs_plan_bytes(g, NULL) > 0 && bs_plan_create(&room, g, NULL, NULL),
          "and when it is ended, it is");
}

int main(void)
{
    test_open_block();
    rows_of_graph();
    rows_of_cells();
    rows_of_route();
    rows_of_segments();
    test_capacities();
    test_operands_of_a_gather();
    test_table_limits();
    wrong_builds_end();
    static const char *const files[] = {"src/graph/graph.c",   "src/graph/dims.c",  "src/ops/table.c",
                                        "src/ops/structure.c", "src/ops/routers.c", "src/ops/segments.c"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
