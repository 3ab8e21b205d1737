/* ops/binary.c - add, sub, mul, with broadcasting of the second operand.
 * Relies on span.h for the walk. Must never look at neighbours: exact in patch domains. One code for every tier. */
#include "ops/common.h"
#include "ops/span.h"

/* Mask of the dimensions in which b is 1 and a is not. Extents are those of the graph: a clipped cell may be 1 high
 * too. */
static uint32_t binary_broadcast(const bs_value_info *a, const bs_value_info *b)
{
    uint32_t mask = 0;
    for (int32_t d = 0; d < a->rank; d++)
        if (d >= b->rank || a->dims[d] != b->dims[d])
            mask |= 1u << d;
    return mask;
}

static bool binary_dims_fit(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    for (int32_t d = 0; d < b->rank; d++) {
        const bool one = bs_dim_is_const(infer->graph, b->dims[d]) && bs_dim_max(infer->graph, b->dims[d]) == 1;
        if (a->dims[d] != b->dims[d] && !one)
            return bs_infer_dim_differs(infer, 1, d);
    }
    return true;
}

/* A root image beside a patch would have to be cut into patches as well, so only what is the same for every pixel may
 * be captured. */
static bool binary_frames_fit(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    if (!bs_value_in_patches(infer->graph, a) || b->rank != 3)
        return true;
    const bool constant = (binary_broadcast(a, b) & 6u) == 6u;
    if (b->domain != a->domain && !constant)
        return bs_infer_fail(infer, BS_ERROR_DOMAIN,
                             "operand 1 is a whole image beside patches; cut it with bs_patches (like)");
    if (b->domain == a->domain && (a->scale_num != b->scale_num || a->scale_den != b->scale_den))
        return bs_infer_fail(infer, BS_ERROR_SHAPE, "dimensions 1 and 2: operands have frames of different scale");
    return true;
}

static bool binary_infer(bs_infer *infer)
{
    const bs_value_info *a = infer->in[0], *b = infer->in[1];
    if (!bs_infer_number(infer) || !bs_infer_dtype(infer, 1, a->dtype))
        return false;
    /* b of rank 1 beside an image: one value a channel */
    if (b->rank != a->rank && !(a->rank == 3 && b->rank == 1))
        return bs_infer_same_rank(infer, 1);
    return binary_dims_fit(infer) && binary_frames_fit(infer);
}

/* The three loops differ in one operator. i32 wraps: unsigned, because signed overflow is undefined. */
#define BINARY_LOOP(type, expression)                                      \
    for (int64_t i = 0; i < n; i++) {                                      \
        const type a = *(const type *)(const void *)(at[1] + i * step[1]); \
        const type b = *(const type *)(const void *)(at[2] + i * step[2]); \
        *(type *)(void *)(at[0] + i * step[0]) = expression;               \
    }
#define BINARY_INNER(op, operator)                                                                              \
    static void op##_inner_f32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)          \
    {                                                                                                           \
        (void)context;                                                                                          \
        if (!bs_span_dense_f32(step, 3)) {                                                                      \
            BINARY_LOOP(float, a operator b)                                                                    \
            return;                                                                                             \
        }                                                                                                       \
        float *out = (float *)(void *)at[0];                                                                    \
        const float *a = (const float *)(const void *)at[1], *b = (const float *)(const void *)at[2];           \
        for (int64_t i = 0; i < n; i++)                                                                         \
            out[i] = a[i] operator b[i];                                                                        \
    }                                                                                                           \
    BS_WRAPS static void op##_inner_i32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step) \
    {                                                                                                           \
        (void)context;                                                                                          \
        BINARY_LOOP(uint32_t, a operator b)                                                                     \
    }
BINARY_INNER(add, +)
BINARY_INNER(sub, -)
BINARY_INNER(mul, *)
#undef BINARY_INNER
#undef BINARY_LOOP

static bs_status binary_run(const bs_call *call, bs_span_inner f32, bs_span_inner i32)
{
    const int32_t *in = bs_node_in(call->graph, call->node);
    const bs_value_info *a = bs_value_get(call->graph, in[0]), *b = bs_value_get(call->graph, in[1]);
    bs_span span;
    bs_span_call(&span, call);
    bs_span_add(&span, &call->in[1], NULL, binary_broadcast(a, b));
    bs_span_run(&span, call->out[0].dtype == BS_F32 ? f32 : i32, NULL);
    return BS_OK;
}

static bs_status add_run(const bs_call *call) { return binary_run(call, add_inner_f32, add_inner_i32); }
static bs_status sub_run(const bs_call *call) { return binary_run(call, sub_inner_f32, sub_inner_i32); }
static bs_status mul_run(const bs_call *call) { return binary_run(call, mul_inner_f32, mul_inner_i32); }

/* A macro so that each is a plain constant table. */
#define BINARY_OP(op)                                                 \
    extern const bs_op bs_op_##op;                                    \
    const bs_op bs_op_##op = {.name = #op,                            \
                              .min_in = 2,                            \
                              .max_in = 2,                            \
                              .infer = binary_infer,                  \
                              .flags = BS_OP_SPATIAL | BS_OP_CAPTURE, \
                              .run = op##_run};                       \
    bs_value bs_##op(bs_graph *graph, bs_value a, bs_value b)         \
    {                                                                 \
        const int32_t in[2] = {a.id, b.id};                           \
        return bs_op_build(graph, &bs_op_##op, in, 2, NULL);          \
    }
BINARY_OP(add)
BINARY_OP(sub)
BINARY_OP(mul)
#undef BINARY_OP
