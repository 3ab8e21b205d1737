/* ops/common.h - what the shape, halo and cost rules of several ops share.
 * Owns the wording of refusals, and what holds in a patch domain. Relies on graph/op.h. Must never touch data. */
#ifndef BS_OPS_COMMON_H
#define BS_OPS_COMMON_H

#include "ops/list.h"
#include "ops/table.h"

/* Entries of an op's table of fields: of a float; of integers within low .. high, or of any value. */
#define BS_FLOAT(field) {field, BS_FIELD_FLOAT, 0, 0}
#define BS_INT(field) {field, BS_FIELD_INT, 0, 0}
#define BS_INT_OF(field, low, high) {field, BS_FIELD_INT, low, high}
/* One of BS_<list>_LIST; and one that a rule of its own checks. */
#define BS_FIELD_OF(field, list) {field, BS_FIELD_##list, 0, BS_##list##_COUNT - 1}
#define BS_NAMED(field, list) {field, BS_FIELD_##list, 0, 0}
#define BS_PARAMS(type, array) \
    .params_bytes = sizeof(type), .fields = array, .n_fields = (uint8_t)(sizeof(array) / sizeof *(array))

/* The name of an op that goes by elements or by lines, and that it does; whether chains of a device have its function
 * its line in ops/list.h says. */
#define BS_BY_ELEMENTS(op) \
    .name = #op, .memory.elements = true, .memory.chained = BS_OP_DEVICE_##op == BS_DEVICE_CHAIN
#define BS_BY_LINES(op) .name = #op, .memory.lines = BS_OP_DEVICE_##op == BS_DEVICE_LINES

/* Every refusal reads: op "node": text (bs_graph_fail). Returns false always. */
#define bs_infer_fail(infer, status, ...) bs_graph_fail((infer)->graph, status, __VA_ARGS__)

/* Records what is wrong with the data of a run. Returns BS_ERROR_DATA always. */
bs_status bs_call_fail(const bs_call *call, const char *format, ...) BS_PRINTF(2, 3);

bool bs_infer_dtype(bs_infer *infer, int32_t index, bs_dtype dtype);
/* The type is one of these, bits 1 << bs_dtype; `expected` names them in the refusal. */
bool bs_infer_dtypes(bs_infer *infer, int32_t index, uint32_t dtypes, const char *expected);
/* It is f32 or i32. */
bool bs_infer_number(bs_infer *infer, int32_t index);
/* Refuses operand `index`, whose dimension d is not what operand 0 has. */
bool bs_infer_dim_differs(bs_infer *infer, int32_t index, int32_t d);
/* Dimension d of operand `index` must be `expected`. */
bool bs_infer_dim_is(bs_infer *infer, int32_t index, int32_t d, bs_dim_id expected);
/* out[0] gets this rank, if a value can have it. */
bool bs_infer_rank_out(bs_infer *infer, int32_t rank);
bool bs_infer_rank(bs_infer *infer, int32_t index, int32_t low, int32_t high);
/* f32 of that rank; and lines of f32, of which a kernel sees the whole. */
bool bs_infer_f32(bs_infer *infer, int32_t index, int32_t low, int32_t high);
bool bs_infer_lines(bs_infer *infer, int32_t index);
/* Operand `index` must have as many dimensions as operand 0. */
bool bs_infer_same_rank(bs_infer *infer, int32_t index);
/* Operand `index` has type, rank and dimensions of operand 0; dimension `but` may differ. */
bool bs_infer_like(bs_infer *infer, int32_t index, int32_t but);
/* An f32 image [C,H,W] with a constant number of channels. */
bool bs_infer_image(bs_infer *infer, int32_t index, int32_t *channels);
/* Dimension `axis` of the operand as a constant; `what` names it in the refusal. */
bool bs_infer_const(bs_infer *infer, int32_t index, int32_t axis, const char *what, int32_t *n);
/* Turns an axis that counts from the end (negative) into a positive one. */
bool bs_infer_axis(bs_infer *infer, int32_t axis, int32_t *positive);
/* The same for kernels, whose axes are already checked. */
static inline int32_t bs_axis_of(int32_t axis, int32_t rank) { return axis < 0 ? axis + rank : axis; }
/* `padding` must be a bs_padding; `pad` 0 .. most with BS_PAD_EXPLICIT, else 0, as `sides`, all of them in one word. */
bool bs_infer_padding(bs_infer *infer, int32_t padding, int32_t pad, int32_t sides, int32_t most);
/* Before op set 3 there was only `pad`. */
void bs_upgrade_padding(int32_t opset, int32_t pad, int32_t *padding);
/* Operand `index` has one element, whatever its rank. */
bool bs_infer_single(bs_infer *infer, int32_t index);
/* The operand is a root value. */
bool bs_infer_root(bs_infer *infer, int32_t index);
/* out[0] has the shape of operand 0 behind a dimension of rows, and is a root value. */
bool bs_infer_stacked(bs_infer *infer, bs_dim_id rows);
/* out[0].dims[axis] = floor((d mul + add) / div) of dimension `axis` of operand 0. */
bool bs_infer_extent(bs_infer *infer, int32_t axis, int64_t mul, int64_t add, int64_t div);
/* The same of dimensions 1 and 2. */
bool bs_infer_frame(bs_infer *infer, int64_t mul, int64_t add_h, int64_t add_w, int64_t div);

/* A new dimension, named as the node, whose extent the op says when it has run (bs_call.extent): 0 .. maximum. One for
 * each node. All operands must be root values. */
bs_dim_id bs_infer_data_dim(bs_infer *infer, int64_t maximum);
/* The same of an op that finds `most` at the most, whose descriptor may give a smaller maximum (0: none). */
bs_dim_id bs_infer_found_dim(bs_infer *infer, int32_t given, int64_t most);
/* Refuses a dimension of operand `index` that comes from data, where it must be known before a run. */
bool bs_infer_bound_dim(bs_infer *infer, int32_t index, int32_t d);
/* A dimension, whose maximum allows it, is `least` or more in every run: other runs are refused before they begin, or
 * end when it is known. */
bool bs_infer_least(bs_infer *infer, bs_dim_id d, int64_t least);

/* Whether a value is an image of a patch domain: its dims are those of the frame, a kernel sees one cell and its
 * halo. */
bool bs_value_in_patches(const bs_graph *graph, const bs_value_info *value);
/* Refuses operands that are images of a patch domain, when a kernel would have to see all pixels at once. */
bool bs_infer_whole(bs_infer *infer, int32_t index);
/* Refuses to make an image out of something else in a patch domain: it would have no place in the frame. */
bool bs_infer_no_new_image(bs_infer *infer);
/* The frame of out[0] is num/den of operand 0's; a cell must stay a whole number of pixels. */
bool bs_infer_scale(bs_infer *infer, int32_t num, int32_t den);
/* Refuses images of patches that are of frames of different scale. */
bool bs_infer_same_scale(bs_infer *infer, const bs_value_info *a, const bs_value_info *b);
/* Windows of `kernel` (dilated) over both axes, down and across, of a frame that begins `before` ahead of its first
 * sample and ends `after` behind its last one. Sets extents and scale. In a patch domain padding must keep output cells
 * where their input cells are: floor(H/stride) <= H' <= ceil(H/stride); and one scale is for both axes. */
typedef struct bs_window_axis {
    int32_t kernel, stride, dilation, before, after;
} bs_window_axis;
typedef struct bs_window {
    bs_window_axis axis[2];
} bs_window;
/* Samples between the first tap of a window and its last; of fields that nobody has checked any number. */
BS_WRAPS static inline int32_t bs_window_reach(const bs_window_axis *a)
{
    return (int32_t)((uint32_t)a->dilation * ((uint32_t)a->kernel - 1u));
}
/* The windows that a descriptor ends with, from its stride_h on. `stride` 0: as large as the kernel. */
bs_window bs_window_of(const void *fields, int32_t kernel_h, int32_t kernel_w, int32_t stride, int32_t dilation,
                       int32_t pad);
#define BS_WINDOW_OF(desc, type, ...) bs_window_of((const char *)(desc) + offsetof(type, stride_h), __VA_ARGS__)
/* What conv2d and pool2d have at the end of their descriptors: their tables of fields, and the sides in one word. */
#define BS_WINDOW_MOST (1 << 15)
#define BS_WINDOW_FIELDS                                                                                   \
    BS_INT_OF("stride_h", 0, BS_WINDOW_MOST), BS_INT_OF("stride_w", 0, BS_WINDOW_MOST),                    \
        BS_INT_OF("dilation_h", 0, BS_WINDOW_MOST), BS_INT_OF("dilation_w", 0, BS_WINDOW_MOST),            \
        BS_INT_OF("pad_top", 0, BS_WINDOW_MOST), BS_INT_OF("pad_left", 0, BS_WINDOW_MOST),                 \
        BS_INT_OF("pad_bottom", 0, BS_WINDOW_MOST), BS_INT_OF("pad_right", 0, BS_WINDOW_MOST)
#define BS_WINDOW_SIDES(desc) ((desc)->pad_top | (desc)->pad_left | (desc)->pad_bottom | (desc)->pad_right)
bool bs_infer_window(bs_infer *infer, const bs_window *window);
int32_t bs_window_halo(const bs_window *window, int32_t out_margin);

/* Elements of one row at maximum extents (a cell, in a patch domain); and the same for the pixels of an image. */
double bs_value_work(const bs_graph *graph, int32_t value);
double bs_value_pixels(const bs_graph *graph, int32_t value);

/* A weight of an op, for its table of specs. */
bs_weight_spec bs_weight_of(const char *suffix, int32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
bs_weight_spec bs_weight_vector(const char *suffix, int64_t length);

#if defined(BS_NO_MESSAGES)
#define bs_call_fail(call, ...) BS_TOLD((bs_call_fail)(call, __VA_ARGS__), BS_ERROR_DATA)
#define bs_infer_dtypes(infer, index, dtypes, expected) (bs_infer_dtypes)(infer, index, dtypes, BS_TEXT(expected))
#define bs_infer_const(infer, index, axis, what, n) (bs_infer_const)(infer, index, axis, BS_TEXT(what), n)
#endif

#endif
