/* ops/reshape.c - reshape and transpose, and both in one: elements keep their values, but not their positions.
 * Elements of any type.
 * Relies on span.h. Must never be used on images of a patch domain: a cell holds only part of the elements. */
#include "ops/forms.h"
#include "ops/span.h"

/* dim: > 0 a constant; 0 - a: dimension a - 1 of the operand (so -1 is dimension 0), a symbol once; BS_RESHAPE_REST,
 * once: what is left. Dimensions are named by position, so that files need no symbols here. */
typedef struct bs_reshape_desc {
    const char *name;
    int32_t rank, dim[BS_MAX_AXES];
} bs_reshape_desc;
#define BS_RESHAPE_REST INT32_MIN

static const bs_field reshape_fields[] = {BS_INT_OF("rank", 1, BS_MAX_AXES), BS_INT("dim0"), BS_INT("dim1"),
                                          BS_INT("dim2"), BS_INT("dim3"), BS_INT("dim4"), BS_INT("dim5")};
static const bs_field transpose_fields[] = {BS_INT("order0"), BS_INT("order1"), BS_INT("order2"),
                                            BS_INT("order3"), BS_INT("order4"), BS_INT("order5")};

/* -------------------------------------------------------------------------------------------------- shape rule */

/* Elements on both sides as constant x symbols; a symbol on both sides cancels out. */
typedef struct reshape_count {
    int64_t in, out;             /* products of constants */
    bs_dim_id left[BS_MAX_AXES]; /* symbols of the operand that the result has not copied yet; -1 none */
    int32_t symbols, rest;       /* how many are left; axis of BS_RESHAPE_REST or -1 */
} reshape_count;

static void reshape_count_operand(const bs_infer *infer, reshape_count *count)
{
    const bs_value_info *x = infer->in[0];
    memset(count, 0, sizeof *count);
    count->in = count->out = 1;
    count->rest = -1;
    for (int32_t d = 0; d < x->rank; d++) {
        const bool constant = bs_dim_is_const(infer->graph, x->dims[d]);
        count->left[d] = constant ? -1 : x->dims[d];
        count->symbols += !constant;
        count->in *= constant ? bs_dim_max(infer->graph, x->dims[d]) : 1;
    }
}

/* One dimension of the result. */
static bool reshape_take(bs_infer *infer, reshape_count *count, int32_t axis, int32_t code)
{
    const int32_t source = -1 - code; /* BS_RESHAPE_REST has no opposite */
    if (source >= 0 && source < infer->in[0]->rank && bs_dim_is_const(infer->graph, infer->in[0]->dims[source]))
        code = (int32_t)bs_dim_max(infer->graph, infer->in[0]->dims[source]);
    if (code == BS_RESHAPE_REST) {
        if (count->rest >= 0)
            return bs_infer_fail(infer, BS_ERROR_SHAPE,
                                 "dimensions %" PRId32 " and %" PRId32 " are both to be worked out", count->rest, axis);
        count->rest = axis;
        return true;
    }
    if (code > 0) {
        count->out = count->out > ((int64_t)1 << 40) / code ? (int64_t)1 << 40 : count->out * code;
        infer->out[0].dims[axis] = bs_dim_const(infer->graph, code);
        return infer->out[0].dims[axis] >= 0;
    }
    if (code == 0 || source >= infer->in[0]->rank || count->left[source] < 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " is not a constant, -1, or a symbol of operand 0, which is %s", axis,
                             bs_say_value(infer, infer->in[0]));
    infer->out[0].dims[axis] = count->left[source];
    count->left[source] = -1;
    count->symbols--;
    return true;
}

/* in/out x the symbol that is left, if any. Element counts are below 2^40 (outputs_sound), so products fit. */
static bool reshape_rest(bs_infer *infer, reshape_count *count)
{
    bs_dim_id symbol = -1;
    for (int32_t d = 0; d < infer->in[0]->rank; d++)
        symbol = count->left[d] >= 0 ? count->left[d] : symbol;
    const bs_dim_info *dim = symbol >= 0 ? &infer->graph->dims[symbol] : NULL;
    if (dim && dim->kind == BS_DIM_DERIVED && dim->add == 0 && dim->div == 1) { /* a multiple: its factor divides */
        count->in *= dim->mul;
        symbol = dim->parent;
    }
    if (count->symbols > 1)
        return bs_infer_fail(infer, BS_ERROR_UNSUPPORTED, "dimension %" PRId32 " would be a product of symbols",
                             count->rest);
    if (count->in % count->out != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimension %" PRId32 ": %lld elements do not divide by %lld",
                             count->rest, (long long)count->in, (long long)count->out);
    const int64_t factor = count->in / count->out;
    infer->out[0].dims[count->rest] =
        symbol < 0 ? bs_dim_const(infer->graph, factor) : bs_dim_derive(infer->graph, symbol, factor, 0, 1);
    return infer->out[0].dims[count->rest] >= 0;
}

static bool reshape_infer(bs_infer *infer)
{
    const bs_reshape_desc *desc = infer->params;
    reshape_count count;
    if (!bs_infer_whole(infer, 0))
        return false;
    reshape_count_operand(infer, &count);
    bs_value_set_rank(&infer->out[0], desc->rank);
    infer->reshapes = true;
    for (int32_t d = 0; d < desc->rank; d++)
        if (!reshape_take(infer, &count, d, desc->dim[d]))
            return false;
    if (count.rest >= 0)
        return reshape_rest(infer, &count) && bs_infer_no_new_image(infer);
    if (count.in != count.out || count.symbols != 0)
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "operand 0 is %s, which does not have %lld elements",
                             bs_say_value(infer, infer->in[0]), (long long)count.out);
    return bs_infer_no_new_image(infer);
}

/* ----------------------------------------------------------------------------------------------------- reshape */

static int64_t row_elements(const bs_operand *o)
{
    int64_t elements = 1;
    for (int32_t d = 0; d < o->rank; d++)
        elements *= o->dim[d];
    return elements;
}

/* A row-major counter over the elements of one operand. */
typedef struct reshape_place {
    int32_t index[BS_MAX_AXES];
    ptrdiff_t offset;
} reshape_place;

static void place_next(reshape_place *place, const bs_operand *o)
{
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        place->offset += o->stride[d];
        if (++place->index[d] < o->dim[d])
            return;
        place->offset -= o->stride[d] * o->dim[d];
        place->index[d] = 0;
    }
}

/* Axes of more than one element. */
static int32_t real_axes(const bs_operand *o, int32_t *axes)
{
    int32_t n = 0;
    for (int32_t d = 0; d < o->rank; d++)
        if (o->dim[d] != 1)
            axes[n++] = d;
    return n;
}

/* `o` with as many elements in other dimensions, those of `like`: false where no strides say that. Axes fall into the
 * smallest groups with as many elements on both sides; in a group, those of `o` must lie one in the other. */
static bool reshape_view(const bs_operand *o, const bs_operand *like, bs_operand *view)
{
    int32_t axes[BS_MAX_AXES], from = 0, to = 0;
    const int32_t n = real_axes(o, axes);
    *view = *o;
    view->rank = like->rank;
    view->image = like->image;
    for (int32_t d = 0; d < like->rank; d++) {
        view->dim[d] = like->dim[d];
        view->stride[d] = 0;
    }
    for (; from < n && to < view->rank; from++) {
        int64_t have = o->dim[axes[from]], want = view->dim[to];
        int32_t end = to + 1;
        while (have != want && (have < want ? from + 1 < n : end < view->rank)) {
            if (have > want) {
                want *= view->dim[end++];
                continue;
            }
            from++;
            have *= o->dim[axes[from]];
            if (o->stride[axes[from - 1]] != o->dim[axes[from]] * o->stride[axes[from]])
                return false;
        }
        ptrdiff_t stride = o->stride[axes[from]];
        for (int32_t d = end - 1; d >= to; d--) {
            view->stride[d] = stride;
            stride *= view->dim[d];
        }
        to = end;
    }
    return true;
}

static void reshape_row(const bs_operand *in, const bs_operand *out, int32_t row)
{
    const int64_t elements = row_elements(out);
    const size_t bytes = bs_dtype_bytes(out->dtype);
    char *to = bs_operand_at(out, row * out->row_stride);
    const char *from = bs_operand_at(in, row * in->row_stride);
    reshape_place source = {{0}, 0}, target = {{0}, 0};
    for (int64_t i = 0; i < elements; i++) {
        bs_copy(to + target.offset * (ptrdiff_t)bytes, from + source.offset * (ptrdiff_t)bytes, bytes);
        place_next(&source, in);
        place_next(&target, out);
    }
}

/* Element number i of `in`, row-major, becomes that of `out`: both are whole. */
static bs_status reshape_copy(const bs_call *call, const bs_operand *in, const bs_operand *out)
{
    bs_operand from, to;
    if (row_elements(in) != row_elements(out))
        return BS_ERROR_SHAPE;
    if (reshape_view(in, out, &from)) {
        to = *out;
    } else if (reshape_view(out, in, &to)) {
        from = *in;
    } else {
        for (int32_t row = 0; row < call->rows; row++)
            reshape_row(in, out, row);
        return BS_OK;
    }
    to.rect = (bs_rect){.y1 = to.dim[1], .x1 = to.dim[2]};
    bs_span span;
    bs_span_box(&span, &to, call->rows);
    bs_span_copy(&span, call, &to, &from, NULL);
    return BS_OK;
}

static bs_status reshape_run(const bs_call *call)
{
    return reshape_copy(call, &call->in[0], &call->out[0]);
}

const bs_op bs_op_reshape = {.name = "reshape",
                             .min_in = 1,
                             .layout = {.axes = true},
                             BS_PARAMS(bs_reshape_desc, reshape_fields),
                             .infer = reshape_infer,
                             .run = reshape_run};

/* A public dimension as a code of bs_reshape_desc; 0 if there is none. */
static int32_t reshape_code(bs_graph *graph, const bs_value_info *x, bs_dim dim)
{
    if (dim == -1)
        return BS_RESHAPE_REST;
    if (!bs_dim_is_known(graph, dim) || (dim >= BS_UPTO(0) && dim < 2 * BS_UPTO(0)))
        return 0; /* a new anonymous symbol cannot equal any of the operand's */
    const bs_dim_id id = bs_dim_resolve(graph, dim);
    if (id >= 0 && bs_dim_is_const(graph, id))
        return (int32_t)bs_dim_max(graph, id);
    for (int32_t d = 0; id >= 0 && d < x->rank; d++)
        if (x->dims[d] == id)
            return -d - 1;
    return 0;
}

/* What is known of an operand; NULL when there is none. */
static const bs_value_info *reshape_operand(const bs_graph *graph, bs_value x)
{
    const bool sound = graph && graph->status == BS_OK && x.id > 0 && x.id < graph->n_values;
    return sound ? bs_value_get(graph, x.id) : NULL;
}

bs_value bs_reshape(bs_graph *graph, bs_value x, bs_shape shape)
{
    bs_reshape_desc desc = {NULL, shape.rank, {0}};
    const bs_value_info *operand = reshape_operand(graph, x);
    for (int32_t d = 0; d < shape.rank && d < BS_MAX_AXES && operand; d++)
        desc.dim[d] = reshape_code(graph, operand, shape.dim[d]);
    return bs_op_build_one(graph, x, &desc, &bs_op_reshape);
}

bool bs_reshape_line(bs_graph *graph, bs_value *x)
{
    const bs_reshape_desc image = {NULL, 3, {-1, 1, -2}};
    const bs_value_info *operand = reshape_operand(graph, *x);
    if (!operand || operand->rank != 2)
        return false;
    *x = bs_op_build_one(graph, *x, &image, &bs_op_reshape);
    return true;
}

bs_value bs_reshape_to_line(bs_graph *graph, bs_value x)
{
    const bs_reshape_desc line = {NULL, 2, {-1, -3}};
    return bs_op_build_one(graph, x, &line, &bs_op_reshape);
}

/* --------------------------------------------------------------------------------------------------- transpose */

static bool transpose_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    int32_t order[BS_MAX_AXES];
    uint32_t seen = 0;
    if (!bs_infer_rank(infer, 0, 1, BS_MAX_AXES) || !bs_infer_whole(infer, 0))
        return false;
    bs_transpose_order(infer->params, x->rank, order);
    for (int32_t d = 0; d < x->rank; d++) {
        if (order[d] < 0 || order[d] >= x->rank || seen >> order[d] & 1u)
            return bs_infer_fail(infer, BS_ERROR_ARGUMENT,
                                 "order[%" PRId32 "] = %" PRId32 " is out of range or there twice", d, order[d]);
        seen |= 1u << order[d];
        infer->out[0].dims[d] = x->dims[order[d]];
    }
    return true;
}

/* `o` as the operand of a transpose sees its result, or, back, as the result sees that. */
static bs_operand transpose_turn(const bs_operand *o, const bs_transpose_desc *desc, bool back)
{
    bs_operand turned = *o;
    int32_t order[BS_MAX_AXES];
    bs_transpose_order(desc, o->rank, order);
    for (int32_t d = 0; d < o->rank; d++) {
        const int32_t to = back ? order[d] : d, from = back ? d : order[d];
        turned.dim[to] = o->dim[from];
        turned.stride[to] = o->stride[from];
    }
    return turned;
}

static bs_status transpose_run(const bs_call *call)
{
    const bs_operand turned = transpose_turn(&call->in[0], call->params, false);
    return reshape_copy(call, &turned, &call->out[0]);
}

bs_status bs_reshape_transpose_run(const bs_call *call)
{
    const bs_operand turned = transpose_turn(&call->out[0], call->params, true);
    return reshape_copy(call, &call->in[0], &turned);
}

bs_status bs_transpose_reshape_run(const bs_call *call)
{
    const bs_operand turned = transpose_turn(&call->in[0], bs_transpose_before(call->graph, call->node), false);
    return reshape_copy(call, &turned, &call->out[0]);
}

const bs_op bs_op_transpose = {.name = "transpose",
                               .min_in = 1,
                               .layout = {.axes = true},
                               BS_PARAMS(bs_transpose_desc, transpose_fields),
                               .infer = transpose_infer,
                               .run = transpose_run};

bs_value bs_transpose(bs_graph *graph, bs_value x, const bs_transpose_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_transpose);
}
#undef BS_RESHAPE_REST
