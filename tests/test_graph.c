/* Promises: what cannot be built is refused when it is built, by a message that names the op, the node and the dimension;
 * the first failure stays and stops everything after it; limits are errors; equal expressions of symbols are one. */
#include "check.h"
#include "graph.h"
#include "op.h"
#include "structure.h"

static _Alignas(64) uint8_t graph_memory[4 << 20];

static bs_graph *new_graph(const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, desc);
}

/* Something of everything to build wrongly upon. */
typedef struct fixture {
    bs_graph *g;
    bs_dim n, h, w;
    bs_value frame, codes, image, line, numbers, table, knob, state; /* root */
    bs_value cells, score, inside;                                   /* patches, their scores, those of path 0 */
    bs_value tokens, weights_of;                                     /* rows: f32 [4] and i32 [1] */
    bs_router router;
} fixture;

static fixture fixture_new(void)
{
    fixture f;
    f.g = new_graph(NULL);
    f.n = bs_symbol(f.g, "N", 40);
    f.h = bs_symbol(f.g, "H", 64);
    f.w = bs_symbol(f.g, "W", 48);
    f.frame = bs_input(f.g, "frame", BS_F32, BS_SHAPE3(2, f.h, f.w));
    f.codes = bs_input(f.g, "codes", BS_U8, BS_SHAPE3(1, f.h, f.w));
    f.image = bs_input(f.g, "image", BS_F32, BS_SHAPE3(3, 8, 10));
    f.line = bs_input(f.g, "line", BS_F32, BS_SHAPE1(4));
    f.numbers = bs_input(f.g, "numbers", BS_I32, BS_SHAPE1(4));
    f.table = bs_input(f.g, "table", BS_F32, BS_SHAPE2(f.n, 4));
    f.knob = bs_input(f.g, "knob", BS_F32, BS_SHAPE1(1));
    f.state = bs_state(f.g, "state", BS_F32, BS_SHAPE3(2, f.h, f.w));
    f.cells = bs_patches(f.g, f.frame, &(bs_patches_desc){.size = 16});
    f.tokens = bs_rows(f.g, f.table, (bs_value){0});
    f.weights_of = bs_rows(f.g, bs_input(f.g, "labels", BS_I32, BS_SHAPE2(f.n, 1)), (bs_value){0});
    f.score = bs_pool2d(f.g, f.cells, &(bs_pool2d_desc){.global = 1});
    f.router = bs_route(f.g, f.score, (bs_value){0}, &(bs_route_desc){.name = "first", .paths = 2});
    f.inside = bs_scatter(f.g, f.router, 0, f.cells);
    return f;
}

/* ------------------------------------------------------------------------------------------------------ wrong builds */

static const bs_value none = {0};

#define WRONG(name, expression)        \
    static void name(const fixture *f) \
    {                                  \
        bs_graph *g = f->g;            \
        (void)g;                       \
        expression;                    \
    }

WRONG(conv_of_line, bs_conv2d(g, f->line, &(bs_conv2d_desc){.name = "c", .out = 4}))
WRONG(conv_of_codes, bs_conv2d(g, f->codes, &(bs_conv2d_desc){.name = "c", .out = 4}))
WRONG(conv_without_out, bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c"}))
WRONG(conv_without_desc, bs_conv2d(g, f->frame, NULL))
WRONG(conv_groups, bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .groups = 2}))
WRONG(conv_too_large,
      bs_conv2d(g, f->image, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 9, .pad = BS_PAD_VALID}))
WRONG(conv_moves_cells, bs_conv2d(g, f->cells, &(bs_conv2d_desc){.name = "c", .out = 4, .pad = BS_PAD_VALID}))
WRONG(conv_pads_cells, bs_conv2d(g, f->cells, &(bs_conv2d_desc){.name = "c", .out = 4, .kernel = 3, .pad = 2}))
WRONG(conv_act, bs_conv2d(g, f->frame, &(bs_conv2d_desc){.name = "c", .out = 4, .act = BS_ACT_COUNT}))
WRONG(deconv_pad, bs_deconv2d(g, f->image, &(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 2, .output_pad = 2}))
WRONG(linear_of_patches, bs_linear(g, f->cells, &(bs_linear_desc){.name = "l", .out = 4}))
WRONG(linear_of_codes, bs_linear(g, f->numbers, &(bs_linear_desc){.name = "l", .out = 4}))
WRONG(linear_of_symbol, bs_linear(g, f->frame, &(bs_linear_desc){.name = "l", .out = 4}))
WRONG(linear_without_out, bs_linear(g, f->line, &(bs_linear_desc){.name = "l"}))
WRONG(matmul_inner, bs_matmul(g, f->image, f->image, &(bs_matmul_desc){.name = "m"}))
WRONG(shuffle_channels, bs_pixel_shuffle(g, f->image, 2))
WRONG(unshuffle_extent, bs_pixel_unshuffle(g, f->image, 3))
WRONG(add_extents, bs_add(g, f->image, f->frame))
WRONG(add_types, bs_add(g, f->line, f->numbers))
WRONG(add_domains, bs_add(g, f->tokens, f->score))
WRONG(add_path, bs_add(g, f->cells, f->inside))
WRONG(add_whole_image, bs_add(g, f->cells, f->frame))
WRONG(activation_prelu, bs_activation(g, f->line, BS_PRELU, 0))
WRONG(clip_order, bs_clip(g, f->line, 2, 1))
WRONG(convert_type, bs_convert(g, f->line, &(bs_convert_desc){.name = "v", .dtype = 99}))
WRONG(convert_bits, bs_convert(g, f->line, &(bs_convert_desc){.name = "v", .dtype = BS_U16, .code_bits = 17}))
WRONG(concat_extents, bs_concat(g, (bs_value[]){f->image, f->frame}, 2, 0))
WRONG(concat_axis, bs_concat(g, (bs_value[]){f->image, f->image}, 2, 3))
WRONG(concat_symbols,
      bs_concat(g, (bs_value[]){f->frame, bs_reshape(f->g, f->frame, BS_SHAPE3(2, f->h, f->w)), f->image}, 3, 1))
WRONG(concat_many,
      bs_concat(g, (bs_value[]){f->line, f->line, f->line, f->line, f->line, f->line, f->line, f->line, f->line}, 9, 0))
WRONG(slice_beyond, bs_slice(g, f->image, &(bs_slice_desc){.name = "s", .axis = 1, .start = 5, .length = 4}))
WRONG(slice_patch, bs_slice(g, f->cells, &(bs_slice_desc){.name = "s", .axis = 1, .start = 0, .length = 4}))
WRONG(reshape_count, bs_reshape(g, f->image, BS_SHAPE2(7, 7)))
WRONG(reshape_rest, bs_reshape(g, f->image, BS_SHAPE3(-1, -1, 2)))
WRONG(transpose_order, bs_transpose(g, f->image, &(bs_transpose_desc){.name = "t", .order = {0, 1, 1}}))
WRONG(pad_codes, bs_pad(g, f->line, &(bs_pad_desc){.name = "p", .top = 1}))
WRONG(softmax_codes, bs_softmax(g, f->numbers))
WRONG(norm_codes, bs_layer_norm(g, f->numbers, &(bs_norm_desc){.name = "n"}))
WRONG(batch_norm_symbol, bs_batch_norm(g, f->table, &(bs_norm_desc){.name = "n"}))
WRONG(pool_line, bs_pool2d(g, f->line, &(bs_pool2d_desc){.name = "q"}))
WRONG(pool_kind, bs_pool2d(g, f->image, &(bs_pool2d_desc){.name = "q", .kind = 7}))
WRONG(resize_factor, bs_resize(g, f->image, &(bs_resize_desc){.name = "z", .factor = 17}))
WRONG(reduce_axis, bs_reduce(g, f->image, &(bs_reduce_desc){.name = "u", .axis = 3}))
WRONG(argmax_codes, bs_argmax(g, f->codes))
WRONG(topk_many, bs_topk(g, f->line, 5, NULL))
WRONG(gather_rows_floats, bs_gather_rows(g, f->table, f->line))
WRONG(features_of_floats, bs_patch_features(g, f->cells, none, &(bs_patch_features_desc){.name = "e"}))
WRONG(constant_codes, bs_constant(g, "k", BS_U8, BS_SHAPE1(4)))

WRONG(input_without_name, bs_input(g, "", BS_F32, BS_SHAPE1(4)))
WRONG(input_null_name, bs_input(g, NULL, BS_F32, BS_SHAPE1(4)))
WRONG(input_twice, bs_input(g, "line", BS_F32, BS_SHAPE1(4)))
WRONG(state_like_input, bs_state(g, "line", BS_F32, BS_SHAPE1(4)))
WRONG(input_type, bs_input(g, "i", BS_DTYPE_COUNT, BS_SHAPE1(4)))
WRONG(input_rank_0, bs_input(g, "i", BS_F32, bs_shape_of(0, 1, 0, 0, 0)))
WRONG(input_rank_5, bs_input(g, "i", BS_F32, bs_shape_of(5, 1, 1, 1, 1)))
WRONG(input_zero, bs_input(g, "i", BS_F32, BS_SHAPE2(4, 0)))
WRONG(input_negative, bs_input(g, "i", BS_F32, BS_SHAPE2(4, -3)))
WRONG(input_huge, bs_input(g, "i", BS_F32, BS_SHAPE1(((int64_t)1 << 30) + 1)))
WRONG(input_product, bs_input(g, "i", BS_F32, BS_SHAPE2(1 << 30, 1 << 30)))
WRONG(input_derived, bs_input(g, "i", BS_F32, BS_SHAPE1(bs_times(f->g, f->h, 2000))))
WRONG(symbol_zero, bs_symbol(g, "S", 0))
WRONG(symbol_huge, bs_symbol(g, "S", (int64_t)1 << 31))
WRONG(times_zero, bs_times(g, f->h, 0))
WRONG(times_huge, bs_times(g, f->h, 1 << 26))
WRONG(name_long, bs_linear(g, f->line,
                           &(bs_linear_desc){.name = "a123456789b123456789c123456789d123456789e123456789f123456789g123",
                                             .out = 4}))
WRONG(unknown_value, bs_activation(g, (bs_value){9999}, BS_RELU, 0))
WRONG(no_value, bs_activation(g, none, BS_RELU, 0))
WRONG(output_of_cells, bs_output(g, "o", f->cells))
WRONG(output_without_name, bs_output(g, NULL, f->line))
WRONG(output_like_input, bs_output(g, "line", f->line))
WRONG(write_input, bs_state_write(g, f->frame, f->frame))
WRONG(write_shape, bs_state_write(g, f->state, f->image))
WRONG(write_type, bs_state_write(g, f->state, bs_convert(f->g, f->frame, &(bs_convert_desc){.dtype = BS_U8})))
WRONG(write_more, bs_state_write(g, bs_state(f->g, "few", BS_F32, BS_SHAPE1(3)), f->line))
WRONG(write_cells, bs_state_write(g, f->state, f->cells))
WRONG(write_twice, (bs_state_write(g, f->state, f->frame), bs_state_write(g, f->state, f->frame)))
WRONG(block_end, bs_block_end(g))

WRONG(patches_line, bs_patches(g, f->line, &(bs_patches_desc){.name = "k"}))
WRONG(patches_size, bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .size = 8193}))
WRONG(patches_of_cells, bs_patches(g, f->cells, &(bs_patches_desc){.name = "k"}))
WRONG(patches_like_rows, bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->tokens.id}))
WRONG(patches_like_path, bs_patches(g, f->frame, &(bs_patches_desc){.name = "k", .like = f->inside.id}))
WRONG(patches_like_ratio, bs_patches(g, f->image, &(bs_patches_desc){.name = "k", .like = f->cells.id}))
WRONG(assemble_root, bs_assemble(g, f->frame))
WRONG(assemble_path, bs_assemble(g, f->inside))
WRONG(assemble_score, bs_assemble(g, f->score))
WRONG(collect_path, bs_collect(g, f->inside))
WRONG(collect_images, bs_collect(g, f->cells))
WRONG(rows_of_cells, bs_rows(g, f->tokens, none))
WRONG(rows_like_root, bs_rows(g, f->table, f->line))
WRONG(rows_too_few, bs_rows(g, bs_input(f->g, "few", BS_F32, BS_SHAPE2(11, 4)), f->cells))
WRONG(halve_odd_cells, bs_pool2d(g, bs_patches(f->g, f->frame, &(bs_patches_desc){.size = 15}),
                                 &(bs_pool2d_desc){.name = "half", .kind = BS_POOL_MAX}))

#define ROUTE(...) bs_route(g, f->score, none, &(bs_route_desc){__VA_ARGS__})
WRONG(route_without_desc, bs_route(g, f->score, none, NULL))
WRONG(route_without_name, ROUTE(.paths = 2))
WRONG(route_twice, ROUTE(.name = "first", .paths = 2))
WRONG(route_protocol, ROUTE(.name = "r", .paths = 2, .protocol = BS_PROTOCOL_COUNT))
WRONG(route_no_paths, ROUTE(.name = "r"))
WRONG(route_many_paths, ROUTE(.name = "r", .paths = 65))
WRONG(route_binary, ROUTE(.name = "r", .paths = 3, .protocol = BS_ROUTE_BINARY))
WRONG(route_k, ROUTE(.name = "r", .paths = 2, .k = 3, .protocol = BS_ROUTE_TOPK))
WRONG(route_fallback, ROUTE(.name = "r", .paths = 2, .fallback = 3, .protocol = BS_ROUTE_THRESHOLD))
WRONG(route_capacity, ROUTE(.name = "r", .paths = 2, .protocol = BS_ROUTE_CAPACITY))
WRONG(route_width, ROUTE(.name = "r", .paths = 3))
WRONG(route_type, ROUTE(.name = "r", .paths = 2, .protocol = BS_ROUTE_BUDGET))
WRONG(route_root, bs_route(g, f->line, none, &(bs_route_desc){.name = "r", .paths = 4}))
WRONG(route_image, bs_route(g, f->cells, none, &(bs_route_desc){.name = "r", .paths = 2}))
WRONG(route_knob, bs_route(g, f->score, f->line, &(bs_route_desc){.name = "r", .paths = 2}))
WRONG(route_knob_cells, bs_route(g, f->score, f->score, &(bs_route_desc){.name = "r", .paths = 2}))
WRONG(scatter_unknown, bs_scatter(g, (bs_router){7}, 0, f->cells))
WRONG(scatter_path, bs_scatter(g, f->router, 2, f->cells))
WRONG(scatter_domain, bs_scatter(g, f->router, 0, f->tokens))
WRONG(scatter_again, bs_scatter(g, f->router, 0, f->inside))
WRONG(gather_unknown, bs_gather(g, (bs_router){7}, (bs_value[]){f->inside, none}, none, NULL))
WRONG(gather_nothing, bs_gather(g, f->router, (bs_value[]){none, none}, none, NULL))
WRONG(gather_path, bs_gather(g, f->router, (bs_value[]){none, f->inside}, none, NULL))
WRONG(gather_shapes,
      bs_gather(g, f->router, (bs_value[]){f->inside, bs_scatter(f->g, f->router, 1, f->score)}, none, NULL))
WRONG(gather_channels,
      bs_gather(g, f->router,
                (bs_value[]){f->inside, bs_slice(f->g, bs_scatter(f->g, f->router, 1, f->cells), &(bs_slice_desc){.length = 1})},
                none, NULL))
WRONG(gather_scales,
      bs_gather(g, f->router, (bs_value[]){bs_resize(f->g, f->inside, NULL), bs_scatter(f->g, f->router, 1, f->cells)},
                none, NULL))
WRONG(gather_residual, bs_gather(g, f->router, (bs_value[]){f->inside, none}, f->score, NULL))
WRONG(gather_mode, bs_gather(g, f->router, (bs_value[]){f->inside, none}, none, &(bs_gather_desc){.mode = 4}))
WRONG(price_of_top1, bs_route_price(g, f->router))
WRONG(price_unknown, bs_route_price(g, (bs_router){7}))
WRONG(score_unknown, bs_route_score(g, (bs_router){7}))

static void gather_place_many(const fixture *f)
{
    const bs_router r =
        bs_route(f->g, f->score, none, &(bs_route_desc){.name = "many", .paths = 2, .k = 2, .protocol = BS_ROUTE_TOPK});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->cells), none}, none, NULL);
}

static void gather_sums_of_codes(const fixture *f)
{
    const bs_router r =
        bs_route(f->g, f->weights_of, none, &(bs_route_desc){.name = "labels", .paths = 2, .protocol = BS_ROUTE_LABEL});
    bs_gather(f->g, r, (bs_value[]){bs_scatter(f->g, r, 0, f->weights_of), none}, none,
              &(bs_gather_desc){.mode = BS_GATHER_ADD});
}

/* As a model file could have it: the symbol of a dimension that the operand has not. */
static void reshape_source(const fixture *f)
{
    const struct {
        const char *name;
        int32_t rank, dim[BS_MAX_RANK];
    } p = {"v", 1, {-2, 0, 0, 0}};
    bs_graph_add(f->g, bs_op_index("reshape"), &f->line.id, 1, &p);
}

typedef struct wrong {
    void (*build)(const fixture *);
    const char *what;
    bs_status status;
    const char *words[3]; /* that the message must have: the op, the node, the dimension */
} wrong;

#define CASE(build, status, ...)               \
    {                                          \
        build, #build, status, { __VA_ARGS__ } \
    }

static const wrong wrongs[] = {
    CASE(conv_of_line, BS_ERROR_SHAPE, "conv2d", "\"c\"", "[4]"),
    CASE(conv_of_codes, BS_ERROR_SHAPE, "conv2d", "\"c\"", "u8"),
    CASE(conv_without_out, BS_ERROR_ARGUMENT, "conv2d", "\"c\"", "out is 0"),
    CASE(conv_without_desc, BS_ERROR_ARGUMENT, "conv2d", "out is 0"),
    CASE(conv_groups, BS_ERROR_SHAPE, "conv2d", "\"c\"", "dimension 0: 3 channels"),
    CASE(conv_too_large, BS_ERROR_SHAPE, "conv2d", "\"c\"", "dimension 1 is 8"),
    CASE(conv_moves_cells, BS_ERROR_SHAPE, "conv2d", "\"c\"", "dimension 1"),
    CASE(conv_pads_cells, BS_ERROR_SHAPE, "conv2d", "\"c\"", "dimension 1"),
    CASE(conv_act, BS_ERROR_ARGUMENT, "conv2d", "\"c\"", "act"),
    CASE(deconv_pad, BS_ERROR_ARGUMENT, "deconv2d", "\"d\"", "output_pad"),
    CASE(linear_of_patches, BS_ERROR_DOMAIN, "linear", "\"l\"", "patches"),
    CASE(linear_of_codes, BS_ERROR_SHAPE, "linear", "\"l\"", "i32"),
    CASE(linear_of_symbol, BS_ERROR_SHAPE, "linear", "\"l\"", "dimension 2 of operand 0"),
    CASE(linear_without_out, BS_ERROR_ARGUMENT, "linear", "\"l\"", "out is 0"),
    CASE(matmul_inner, BS_ERROR_SHAPE, "matmul", "\"m\"",
         "dimension 2 of operand 0 is 10, dimension 1 of operand 1 is 8"),
    CASE(shuffle_channels, BS_ERROR_SHAPE, "pixel_shuffle", "dimension 0 is 3"),
    CASE(unshuffle_extent, BS_ERROR_SHAPE, "pixel_unshuffle", "dimension 1 is 8"),
    CASE(add_extents, BS_ERROR_SHAPE, "add", "dimension 0 is 3", "2 in operand 1"),
    CASE(add_types, BS_ERROR_SHAPE, "add", "i32"),
    CASE(add_domains, BS_ERROR_DOMAIN, "add", "operand 1 belongs to domain"),
    CASE(add_path, BS_ERROR_DOMAIN, "add", "scatter or gather it first"),
    CASE(add_whole_image, BS_ERROR_DOMAIN, "add", "bs_patches"),
    CASE(activation_prelu, BS_ERROR_ARGUMENT, "activation", "bs_prelu"),
    CASE(clip_order, BS_ERROR_ARGUMENT, "clip", "low 2", "high 1"),
    CASE(convert_type, BS_ERROR_ARGUMENT, "convert", "\"v\"", "99"),
    CASE(convert_bits, BS_ERROR_ARGUMENT, "convert", "\"v\"", "code_bits is 17"),
    CASE(concat_extents, BS_ERROR_SHAPE, "concat", "dimension 1 is 8 in operand 0", "H<=64"),
    CASE(concat_axis, BS_ERROR_SHAPE, "concat", "axis 3"),
    CASE(concat_symbols, BS_ERROR_SHAPE, "concat", "dimension 0 is 2", "operand 2"),
    CASE(concat_many, BS_ERROR_GRAPH, "concat", "not 9"),
    CASE(slice_beyond, BS_ERROR_SHAPE, "slice", "\"s\"", "dimension 1 is 8"),
    CASE(slice_patch, BS_ERROR_DOMAIN, "slice", "\"s\"", "axis 1"),
    CASE(reshape_count, BS_ERROR_SHAPE, "reshape", "[3, 8, 10]", "49 elements"),
    CASE(reshape_rest, BS_ERROR_SHAPE, "reshape", "dimensions 0 and 1"),
    CASE(reshape_source, BS_ERROR_SHAPE, "reshape", "\"v\"", "dimension 0 is not a constant"),
    CASE(transpose_order, BS_ERROR_ARGUMENT, "transpose", "\"t\"", "order[2]"),
    CASE(pad_codes, BS_ERROR_SHAPE, "pad", "\"p\"", "[4]"),
    CASE(softmax_codes, BS_ERROR_SHAPE, "softmax", "i32"),
    CASE(norm_codes, BS_ERROR_SHAPE, "layer_norm", "\"n\"", "i32"),
    CASE(batch_norm_symbol, BS_ERROR_SHAPE, "batch_norm", "\"n\"", "dimension 0"),
    CASE(pool_line, BS_ERROR_SHAPE, "pool2d", "\"q\"", "[4]"),
    CASE(pool_kind, BS_ERROR_ARGUMENT, "pool2d", "\"q\"", "kind is 7"),
    CASE(resize_factor, BS_ERROR_ARGUMENT, "resize", "\"z\"", "factor is 17"),
    CASE(reduce_axis, BS_ERROR_SHAPE, "reduce", "\"u\"", "axis 3"),
    CASE(argmax_codes, BS_ERROR_SHAPE, "argmax", "u8"),
    CASE(topk_many, BS_ERROR_SHAPE, "topk", "dimension 0 is 4", "k is 5"),
    CASE(gather_rows_floats, BS_ERROR_SHAPE, "gather_rows", "f32", "i32"),
    CASE(features_of_floats, BS_ERROR_SHAPE, "patch_features", "\"e\"", "f32"),
    CASE(constant_codes, BS_ERROR_ARGUMENT, "constant", "\"k\"", "u8"),

    CASE(input_without_name, BS_ERROR_ARGUMENT, "input needs a name"),
    CASE(input_null_name, BS_ERROR_ARGUMENT, "input needs a name"),
    CASE(input_twice, BS_ERROR_GRAPH, "\"line\""),
    CASE(state_like_input, BS_ERROR_GRAPH, "\"line\""),
    CASE(input_type, BS_ERROR_ARGUMENT, "input", "\"i\"", "dtype 7"),
    CASE(input_rank_0, BS_ERROR_ARGUMENT, "input", "\"i\"", "rank 0"),
    CASE(input_rank_5, BS_ERROR_ARGUMENT, "input", "\"i\"", "rank 5"),
    CASE(input_zero, BS_ERROR_SHAPE, "input", "\"i\"", "dimension 1 is 0"),
    CASE(input_negative, BS_ERROR_SHAPE, "input", "\"i\"", "dimension 1 is -3"),
    CASE(input_huge, BS_ERROR_SHAPE, "input", "\"i\"", "dimension 0 is 1073741825"),
    CASE(input_product, BS_ERROR_SHAPE, "input", "\"i\"", "too large"),
    CASE(input_derived, BS_ERROR_SHAPE, "input", "\"i\"", "dimension 0"),
    CASE(symbol_zero, BS_ERROR_SHAPE, "symbol is 0"),
    CASE(symbol_huge, BS_ERROR_SHAPE, "symbol is 2147483648"),
    CASE(times_zero, BS_ERROR_SHAPE, "x0"),
    CASE(times_huge, BS_ERROR_SHAPE, "derived dimension is 4294967296"),
    CASE(name_long, BS_ERROR_LIMIT, "a123456789b123456789", "63 bytes"),
    CASE(unknown_value, BS_ERROR_GRAPH, "activation", "value 9999"),
    CASE(no_value, BS_ERROR_GRAPH, "activation", "value 0"),
    CASE(output_of_cells, BS_ERROR_DOMAIN, "output", "\"o\"", "root"),
    CASE(output_without_name, BS_ERROR_ARGUMENT, "output needs a name"),
    CASE(output_like_input, BS_ERROR_GRAPH, "\"line\""),
    CASE(write_input, BS_ERROR_GRAPH, "state_write", "not a state"),
    CASE(write_shape, BS_ERROR_SHAPE, "state_write", "\"state\"", "[3, 8, 10]"),
    CASE(write_type, BS_ERROR_SHAPE, "state_write", "\"state\"", "u8"),
    CASE(write_more, BS_ERROR_SHAPE, "state_write", "\"few\"", "f32 [4]"),
    CASE(write_cells, BS_ERROR_DOMAIN, "state_write", "root"),
    CASE(write_twice, BS_ERROR_GRAPH, "state_write", "\"state\"", "twice"),
    CASE(block_end, BS_ERROR_GRAPH, "bs_block_begin"),

    CASE(patches_line, BS_ERROR_SHAPE, "patches", "\"k\"", "rank 1"),
    CASE(patches_size, BS_ERROR_SHAPE, "patches", "\"k\"", "size 8193"),
    CASE(patches_of_cells, BS_ERROR_DOMAIN, "patches", "\"k\"", "root"),
    CASE(patches_like_rows, BS_ERROR_DOMAIN, "patches", "\"k\"", "like"),
    CASE(patches_like_path, BS_ERROR_DOMAIN, "patches", "\"k\"", "like"),
    CASE(patches_like_ratio, BS_ERROR_SHAPE, "patches", "\"k\"", "dimensions 1 and 2"),
    CASE(assemble_root, BS_ERROR_DOMAIN, "assemble"),
    CASE(assemble_path, BS_ERROR_DOMAIN, "assemble", "gather"),
    CASE(assemble_score, BS_ERROR_DOMAIN, "assemble", "[C,h,w]"),
    CASE(collect_path, BS_ERROR_DOMAIN, "collect", "gather"),
    CASE(collect_images, BS_ERROR_SHAPE, "collect", "assemble"),
    CASE(rows_of_cells, BS_ERROR_DOMAIN, "rows", "root"),
    CASE(rows_like_root, BS_ERROR_DOMAIN, "rows", "like"),
    CASE(rows_too_few, BS_ERROR_SHAPE, "rows", "dimension 0 holds 11", "12"),
    CASE(halve_odd_cells, BS_ERROR_SHAPE, "pool2d", "\"half\"", "15 pixels (dimensions 1 and 2)"),

    CASE(route_without_desc, BS_ERROR_ARGUMENT, "router needs a name"),
    CASE(route_without_name, BS_ERROR_ARGUMENT, "router needs a name"),
    CASE(route_twice, BS_ERROR_GRAPH, "two routers", "\"first\""),
    CASE(route_protocol, BS_ERROR_ARGUMENT, "route", "\"r\"", "protocol"),
    CASE(route_no_paths, BS_ERROR_ARGUMENT, "route", "\"r\"", "0 paths"),
    CASE(route_many_paths, BS_ERROR_ARGUMENT, "route", "\"r\"", "65 paths"),
    CASE(route_binary, BS_ERROR_ARGUMENT, "route", "\"r\"", "binary takes 2"),
    CASE(route_k, BS_ERROR_ARGUMENT, "route", "\"r\"", "k 3"),
    CASE(route_fallback, BS_ERROR_ARGUMENT, "route", "\"r\"", "fallback 3"),
    CASE(route_capacity, BS_ERROR_ARGUMENT, "route", "\"r\"", "capacity 0"),
    CASE(route_width, BS_ERROR_SHAPE, "route", "\"r\"", "dimension 0 is 2"),
    CASE(route_type, BS_ERROR_SHAPE, "route", "\"r\"", "f32"),
    CASE(route_root, BS_ERROR_DOMAIN, "route", "\"r\"", "root"),
    CASE(route_image, BS_ERROR_SHAPE, "route", "\"r\"", "rank 3"),
    CASE(route_knob, BS_ERROR_SHAPE, "route", "\"r\"", "knob"),
    CASE(route_knob_cells, BS_ERROR_SHAPE, "route", "\"r\"", "knob"),
    CASE(scatter_unknown, BS_ERROR_GRAPH, "scatter", "router 7"),
    CASE(scatter_path, BS_ERROR_ARGUMENT, "scatter", "\"first\"", "path 2"),
    CASE(scatter_domain, BS_ERROR_DOMAIN, "scatter", "\"first\"", "domain"),
    CASE(scatter_again, BS_ERROR_DOMAIN, "scatter", "\"first\"", "domain"),
    CASE(gather_unknown, BS_ERROR_GRAPH, "gather", "router 7"),
    CASE(gather_nothing, BS_ERROR_GRAPH, "gather", "\"first\"", "nothing"),
    CASE(gather_path, BS_ERROR_DOMAIN, "gather", "\"first\"", "path 1"),
    CASE(gather_shapes, BS_ERROR_SHAPE, "gather", "\"first\"", "[2, H<=64, W<=48]"),
    CASE(gather_channels, BS_ERROR_SHAPE, "gather", "\"first\"", "[1, H<=64, W<=48]"),
    CASE(gather_scales, BS_ERROR_SHAPE, "gather", "\"first\"", "2H<=128"),
    CASE(gather_residual, BS_ERROR_SHAPE, "gather", "\"first\"", "residual"),
    CASE(gather_mode, BS_ERROR_ARGUMENT, "gather", "mode 4"),
    CASE(gather_place_many, BS_ERROR_ARGUMENT, "gather", "\"many\"", "up to 2"),
    CASE(gather_sums_of_codes, BS_ERROR_SHAPE, "gather", "i32"),
    CASE(price_of_top1, BS_ERROR_ARGUMENT, "route_price", "\"first\""),
    CASE(price_unknown, BS_ERROR_GRAPH, "route_price", "router 7"),
    CASE(score_unknown, BS_ERROR_GRAPH, "route_score", "0"),
};

/* Nothing is built any more, and the message stays. */
static bool is_stuck(const fixture *f)
{
    bs_graph *g = f->g;
    const bs_error first = g->error;
    const int32_t nodes = g->n_nodes, values = g->n_values, routers = g->n_routers, dims = g->n_dims, text = g->n_text;
    const bs_value out[2] = {f->inside, none};
    const bool nothing = bs_input(g, "later", BS_F32, BS_SHAPE1(4)).id == 0 &&
                         bs_activation(g, f->line, BS_RELU, 0).id == 0 &&
                         bs_conv2d(g, f->frame, &(bs_conv2d_desc){.out = 1}).id == 0 && bs_symbol(g, "Q", 4) == 0 &&
                         bs_times(g, f->h, 2) == 0 && bs_gather(g, f->router, out, none, NULL).id == 0 &&
                         bs_scatter(g, f->router, 0, f->cells).id == 0 &&
                         bs_route(g, f->score, none, &(bs_route_desc){.name = "late", .paths = 2}).id == 0 &&
                         bs_assemble(g, f->cells).id == 0 && bs_route_score(g, f->router).id == 0;
    bs_output(g, "late", f->line);
    bs_state_write(g, f->state, f->frame);
    bs_block_begin(g, "late");
    bs_block_end(g);
    return nothing && g->n_nodes == nodes && g->n_values == values && g->n_routers == routers && g->n_dims == dims &&
           g->n_text == text && g->status == first.status && strcmp(g->error.message, first.message) == 0;
}

static void test_wrong_builds(void)
{
    int32_t stuck = 0, planned = 0;
    const int32_t count = (int32_t)(sizeof wrongs / sizeof *wrongs);
    static _Alignas(64) uint8_t plan_memory[1 << 20];
    for (int32_t i = 0; i < count; i++) {
        const fixture f = fixture_new();
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        bool ok = bs_graph_check(f.g, &error) == BS_OK;
        wrongs[i].build(&f);
        ok = ok && bs_graph_check(f.g, &error) == wrongs[i].status && error.status == wrongs[i].status;
        for (int32_t w = 0; w < 3 && wrongs[i].words[w]; w++)
            ok = ok && strstr(error.message, wrongs[i].words[w]);
        check(ok, "%s: %s: %s", wrongs[i].what, bs_status_name(error.status), error.message);
        stuck += is_stuck(&f);
        bs_arena arena;
        bs_error again;
        bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
        planned += bs_plan_create(&arena, f.g, NULL, &again) != NULL || strcmp(again.message, error.message) != 0 ||
                   bs_plan_bytes(f.g, NULL) != 0;
    }
    check(stuck == count, "after a failure nothing is built and the first message stays (%d of %d)", stuck, count);
    check(planned == 0, "and there is no plan: it gives the same message");
}

/* ------------------------------------------------------------------------------------------------------------ limits */

static bool failed_with(const bs_graph *g, bs_status status, const char *word)
{
    bs_error error;
    return bs_graph_check(g, &error) == status && strstr(error.message, word);
}

static void test_storage(void)
{
    bs_arena arena;
    const size_t bytes = bs_graph_bytes(NULL);
    bs_arena_init(&arena, "graph", graph_memory, bytes);
    check(bs_graph_create(&arena, NULL) && arena.used == arena.size, "a graph takes what bs_graph_bytes says");
    bs_arena_init(&arena, "graph", graph_memory, bytes - BS_ALIGNMENT);
    check(!bs_graph_create(&arena, NULL) && arena.used == 0, "and is not made in less");
    bs_error error;
    check(bs_graph_check(NULL, &error) == BS_ERROR_ARGUMENT && error.message[0], "no graph: %s", error.message);
    static const bs_graph_desc beyond[] = {
        {-1, 0, 0}, {0, -1, 0},           {0, 0, -1}, {(1 << 20) + 1, 0, 0}, {0, (1 << 20) + 1, 0},
        {0, 0, 63}, {0, 0, (1 << 28) + 1}};
    int32_t refused = 0;
    for (int32_t i = 0; i < 7; i++)
        refused += bs_graph_bytes(&beyond[i]) == 0 && !bs_graph_create(&arena, &beyond[i]);
    check(refused == 7, "capacities out of range are refused");
}

static void test_capacities(void)
{
    bs_graph *g = new_graph(&(bs_graph_desc){.max_nodes = 10});
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 1; i < 10; i++)
        x = bs_activation(g, x, BS_RELU, 0);
    check(x.id && g->status == BS_OK, "10 nodes in a graph of 10");
    x = bs_activation(g, x, BS_RELU, 0);
    check(x.id == 0 && failed_with(g, BS_ERROR_LIMIT, "max_nodes"), "the 11th is refused: %s", g->error.message);

    g = new_graph(&(bs_graph_desc){.max_values = 5});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_value indices;
    bs_topk(g, x, 2, &indices);
    x = bs_topk(g, x, 2, &indices);
    check(x.id && indices.id && g->status == BS_OK, "5 values in a graph of 5");
    bs_activation(g, x, BS_RELU, 0);
    check(failed_with(g, BS_ERROR_LIMIT, "max_values"), "the 6th is refused: %s", g->error.message);

    g = new_graph(&(bs_graph_desc){.max_text_bytes = 256});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 20 && x.id; i++)
        x = bs_affine(g, x, 1, 1);
    check(failed_with(g, BS_ERROR_LIMIT, "max_text_bytes") && g->n_text <= 256, "text is bounded: %s",
          g->error.message);

    g = new_graph(&(bs_graph_desc){.max_nodes = 20});
    x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    for (int32_t i = 0; i < 12 && x.id; i++) /* 4 operands a node are there on average */
        x = bs_slice(g, bs_concat(g, (bs_value[]){x, x, x, x, x, x, x, x}, 8, 0), &(bs_slice_desc){.length = 4});
    check(failed_with(g, BS_ERROR_LIMIT, "full") && g->n_operands <= 80, "operands are bounded: %s", g->error.message);
}

static void test_fixed_limits(void)
{
    static const bs_graph_desc large = {4000, 4000, 1 << 20};
    bs_graph *g = new_graph(&large);
    int32_t made = 0;
    for (; g->status == BS_OK && made < 2000; made++)
        bs_symbol(g, "S", 4);
    check(made - 1 == BS_MAX_DIMS && failed_with(g, BS_ERROR_LIMIT, "512"), "%d symbols: %s", made - 1,
          g->error.message);

    g = new_graph(&large);
    for (made = 0; g->status == BS_OK && made < 2000; made++)
        bs_block_begin(g, "block");
    check(made == BS_MAX_BLOCKS && failed_with(g, BS_ERROR_LIMIT, "128"), "%d blocks with the outermost: %s", made,
          g->error.message);

    g = new_graph(&large);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none);
    for (made = 0; g->status == BS_OK && made < 2000; made++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", made);
        bs_route(g, x, none, &(bs_route_desc){.name = name, .paths = 64});
    }
    check(made == BS_MAX_ROUTERS && failed_with(g, BS_ERROR_LIMIT, "63"), "%d routers: %s", made - 1, g->error.message);

    g = new_graph(&large);
    const bs_value y = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(9, 64)), none);
    int32_t domains = 2;
    for (made = 0; g->status == BS_OK && made < 60; made++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", made);
        const bs_router r = bs_route(g, y, none, &(bs_route_desc){.name = name, .paths = 64});
        for (int32_t p = 0; p < 64; p++)
            domains += bs_scatter(g, r, p, y).id != 0;
    }
    check(domains == BS_MAX_DOMAINS && failed_with(g, BS_ERROR_LIMIT, "512"), "%d domains: %s", domains,
          g->error.message);

    char name[BS_MAX_NAME + 1];
    memset(name, 'n', sizeof name);
    name[BS_MAX_NAME - 1] = 0;
    g = new_graph(NULL);
    check(bs_input(g, name, BS_F32, BS_SHAPE1(4)).id != 0, "a name of %d bytes", BS_MAX_NAME - 1);
}

/* ----------------------------------------------------------------------------------------------- symbols that are equal */

static bool same_dims(const bs_graph *g, bs_value a, bs_value b)
{
    return g->status == BS_OK && a.id && b.id && bs_same_shape(bs_value_get(g, a.id), bs_value_get(g, b.id));
}

static void test_symbols(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim h = bs_symbol(g, "H", 64), w = bs_symbol(g, "W", 48), h2 = bs_times(g, h, 2), w2 = bs_times(g, w, 2);
    const bs_value one = bs_input(g, "one", BS_F32, BS_SHAPE3(1, h, w)),
                   four = bs_input(g, "four", BS_F32, BS_SHAPE3(4, h, w));
    const bs_value twice = bs_input(g, "twice", BS_F32, BS_SHAPE3(1, h2, w2)),
                   state = bs_state(g, "state", BS_F32, BS_SHAPE3(1, h2, w2));
    const bs_value shuffled = bs_pixel_shuffle(g, four, 2);
    check(same_dims(g, shuffled, twice), "a shuffled [4,H,W] has the shape of [1,2H,2W]");
    check(same_dims(g, bs_resize(g, one, NULL), twice), "so has a resized [1,H,W]");
    check(same_dims(g, bs_deconv2d(g, one, &(bs_deconv2d_desc){.out = 1, .kernel = 4, .stride = 2, .pad = 1}), twice),
          "and a transposed convolution's");
    check(same_dims(g, bs_add(g, shuffled, twice), state), "and they can be added");
    bs_state_write(g, state, shuffled);
    check(g->status == BS_OK, "and be written to a state of [1,2H,2W]");
    check(same_dims(g, bs_pixel_unshuffle(g, shuffled, 2), four), "an unshuffle takes a shuffle back");
    check(same_dims(g, bs_resize(g, bs_resize(g, one, NULL), &(bs_resize_desc){.factor = 3}),
                    bs_resize(g, one, &(bs_resize_desc){.factor = 6})),
          "2 times 3 is 6");
    check(bs_times(g, bs_times(g, h, 2), 3) == bs_times(g, h, 6) && bs_times(g, h, 1) == h, "of handles as well");
    check(same_dims(
              g, bs_conv2d(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 4}), &(bs_conv2d_desc){.out = 1, .kernel = 5}),
              one),
          "convolutions that pad keep H and W");
    const bs_value padded = bs_pad(g, one, &(bs_pad_desc){.top = 1, .bottom = 1, .left = 1, .right = 1});
    check(same_dims(g, bs_conv2d(g, padded, &(bs_conv2d_desc){.out = 1, .pad = BS_PAD_VALID}), one), "H + 2 - 2 is H");
    check(same_dims(g, bs_resize(g, padded, NULL),
                    bs_pad(g, bs_resize(g, one, NULL), &(bs_pad_desc){.top = 2, .bottom = 2, .left = 2, .right = 2})),
          "2 (H + 2) is 2 H + 4");
    const bs_value half = bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .stride = 2}),
                   pooled = bs_pool2d(g, one, &(bs_pool2d_desc){.kind = BS_POOL_MAX});
    check(same_dims(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .kernel = 5, .stride = 2}), half),
          "(H + 1) / 2 by either kernel");
    check(g->status == BS_OK && !same_dims(g, half, pooled), "but H / 2 rounded down is another");
    check(same_dims(g, bs_pool2d(g, bs_resize(g, one, NULL), &(bs_pool2d_desc){.kind = BS_POOL_MAX}), one),
          "2 H / 2 is H");
    check(!same_dims(g, bs_resize(g, pooled, NULL), one) && g->status == BS_OK, "2 (H / 2) is not: H may be odd");
    check(same_dims(g,
                    bs_slice(g, bs_concat(g, (bs_value[]){one, four}, 2, 0), &(bs_slice_desc){.start = 1, .length = 4}),
                    four),
          "channels joined and parted");
    check(!same_dims(g, one, bs_input(g, "other", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 64), w))),
          "symbols of one name are not one symbol");
    check(
        !same_dims(g, bs_input(g, "p", BS_F32, BS_SHAPE1(BS_UPTO(9))), bs_input(g, "q", BS_F32, BS_SHAPE1(BS_UPTO(9)))),
        "nor are two BS_UPTO");
    check(same_dims(g, bs_input(g, "c", BS_F32, BS_SHAPE1(9)), bs_input(g, "d", BS_F32, BS_SHAPE1(9))),
          "constants are equal by value");
    const bs_value cells = bs_patches(g, one, &(bs_patches_desc){.size = 15});
    check(g->domains[bs_value_get(g, cells.id)->domain].max_rows == 5 * 4, "64 x 48 pixels are up to 5 x 4 cells of 15");
    check(bs_shape_of(2, 3, 4, 0, 0).dim[1] == 4 && bs_times(g, 5, 3) == bs_times(g, 15, 1),
          "a constant times a factor is a constant");
}

/* In a buffer of any size, even none: cut and ended there, and the length is that of all of it. */
static void test_descriptions(void)
{
    const fixture f = fixture_new();
    int32_t bad = 0;
    for (int32_t n = 1; n < f.g->n_nodes; n++) {
        char whole[256], line[256];
        const size_t length = bs_graph_describe(f.g, n, whole, sizeof whole);
        bad += length == 0 || length >= sizeof whole || strlen(whole) != length;
        for (size_t bytes = 0; bytes <= length + 1 && !bad; bytes++) {
            memset(line, '#', sizeof line);
            bad += bs_graph_describe(f.g, n, line, bytes) != length || line[bytes] != '#' ||
                     (bytes > 0 && (strlen(line) != bytes - 1 || memcmp(line, whole, bytes - 1) != 0));
        }
    }
    check(bad == 0, "a description is cut where its buffer ends");
}

static void test_blocks(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_block_begin(g, "outer");
    const bs_value y = bs_activation(g, x, BS_RELU, 0);
    bs_block_begin(g, "inner");
    const bs_value z = bs_activation(g, y, BS_RELU, 0);
    bs_block_end(g);
    bs_block_end(g);
    const bs_value end = bs_activation(g, z, BS_RELU, 0);
    const bs_value values[4] = {x, y, z, end};
    const int32_t blocks[4] = {0, 1, 2, 0};
    bool ok = g->status == BS_OK && g->n_blocks == 3 && g->blocks[2].parent == 1 && g->blocks[1].parent == 0;
    for (int32_t i = 0; i < 4; i++)
        ok = ok && g->nodes[g->values[values[i].id].node].block == blocks[i];
    check(ok, "nodes belong to the block that is open when they are built");
}

int main(void)
{
    test_wrong_builds();
    test_storage();
    test_capacities();
    test_fixed_limits();
    test_symbols();
    test_blocks();
    test_descriptions();
    return check_end();
}
