/* ops/binary.c - add, sub, mul, and binary: a function of two operands, each of which may be broadcast.
 * Relies on broadcast.h for shapes and the walk. Must never look at neighbours: exact in patch domains. One code for
 * every tier. */
#include "ops/broadcast.h"
#include "ops/maths.h"

typedef struct bs_binary_desc {
    const char *name;
    int32_t kind;
} bs_binary_desc;

static const bs_field binary_fields[] = {BS_FIELD_OF("kind", BINARY)};

static bool binary_infer(bs_infer *infer)
{
    return bs_infer_number(infer, 0) && bs_infer_dtype(infer, 1, infer->in[0]->dtype) && bs_infer_broadcast(infer);
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
        BS_EACH_BY_ITSELF                                                                                       \
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
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_broadcast_add(&span, call, 0);
    bs_broadcast_add(&span, call, 1);
    bs_span_run(&span, call->out[0].dtype == BS_F32 ? f32 : i32, call->params);
    return BS_OK;
}

static bs_status add_run(const bs_call *call) { return binary_run(call, add_inner_f32, add_inner_i32); }
static bs_status sub_run(const bs_call *call) { return binary_run(call, sub_inner_f32, sub_inner_i32); }
static bs_status mul_run(const bs_call *call) { return binary_run(call, mul_inner_f32, mul_inner_i32); }

/* A macro so that each is a plain constant table. */
#define BINARY_OP(op, is_sum)                                         \
    extern const bs_op bs_op_##op;                                    \
    const bs_op bs_op_##op = {BS_BY_ELEMENTS(op),                     \
                              .min_in = 2,                            \
                              .max_in = 2,                            \
                              .infer = binary_infer,                  \
                              .rows = {.captures = true},             \
                              .layout = {.images = true},             \
                              .memory.sums = is_sum,                  \
                              .run = op##_run};                       \
    bs_value bs_##op(bs_graph *graph, bs_value a, bs_value b)         \
    {                                                                 \
        return bs_op_build_two(graph, a, b, NULL, &bs_op_##op);       \
    }
BINARY_OP(add, true)
BINARY_OP(sub, false)
BINARY_OP(mul, false)
#undef BINARY_OP

/* ------------------------------------------------------------------------------------------------ binary */

static bool binary_kind_infer(bs_infer *infer)
{
    const bs_binary_desc *desc = infer->params;
    const bool whole = desc->kind == BS_BINARY_MIN || desc->kind == BS_BINARY_MAX;
    return (whole || bs_infer_dtype(infer, 0, BS_F32)) && binary_infer(infer);
}

/* Loops that compilers make vectors of. */
#define BINARY_LOOP(kind)                                  \
    case kind:                                             \
        BS_EACH_BY_ITSELF                                  \
        for (int64_t i = 0; i < n; i++)                    \
            out[i] = bs_binary_apply(kind, a[i], b[i]);    \
        break;
static void binary_dense(bs_binary_kind kind, int64_t n, const float *a, const float *b, float *out)
{
    switch (kind) {
        BINARY_LOOP(BS_BINARY_DIV)
        BINARY_LOOP(BS_BINARY_MIN)
        BINARY_LOOP(BS_BINARY_MAX)
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = bs_binary_apply(kind, a[i], b[i]);
    }
}
#undef BINARY_LOOP

static void binary_inner_f32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_binary_kind kind = (bs_binary_kind)((const bs_binary_desc *)context)->kind;
    float *out = (float *)(void *)at[0];
    const float *a = (const float *)(const void *)at[1], *b = (const float *)(const void *)at[2];
    if (bs_span_dense_f32(step, 3))
        binary_dense(kind, n, a, b, out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * (step[0] / 4)] = bs_binary_apply(kind, a[i * (step[1] / 4)], b[i * (step[2] / 4)]);
}

static void binary_inner_i32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_binary_kind kind = (bs_binary_kind)((const bs_binary_desc *)context)->kind;
    int32_t *out = (int32_t *)(void *)at[0];
    const int32_t *a = (const int32_t *)(const void *)at[1], *b = (const int32_t *)(const void *)at[2];
    for (int64_t i = 0; i < n; i++)
        out[i * (step[0] / 4)] = bs_binary_apply_i32(kind, a[i * (step[1] / 4)], b[i * (step[2] / 4)]);
}

static bs_status binary_kind_run(const bs_call *call) { return binary_run(call, binary_inner_f32, binary_inner_i32); }

extern const bs_op bs_op_binary;
const bs_op bs_op_binary = {BS_BY_ELEMENTS(binary),
                            .min_in = 2,
                            .rows = {.captures = true},
                            .layout = {.images = true},
                            BS_PARAMS(bs_binary_desc, binary_fields),
                            .infer = binary_kind_infer,
                            .run = binary_kind_run};

bs_value bs_binary(bs_graph *graph, bs_value a, bs_value b, bs_binary_kind kind)
{
    const bs_binary_desc desc = {NULL, (int32_t)kind};
    return bs_op_build_two(graph, a, b, &desc, &bs_op_binary);
}
