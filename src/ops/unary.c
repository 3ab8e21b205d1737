/* ops/unary.c - unary: a function of one operand, element by element.
 * Relies on span.h for the walk, kernels/functions.h for exp, log and erf, maths.h for the others. Must never look at
 * neighbours: exact in patch domains. All but exp, log and erf is one code for every tier, with the same results. */
#include "kernels/functions.h"
#include "ops/common.h"
#include "ops/maths.h"
#include "ops/span.h"

typedef struct bs_unary_desc {
    const char *name;
    int32_t kind;
} bs_unary_desc;

static const bs_field unary_fields[] = {BS_FIELD_OF("kind", UNARY)};

static bool unary_op_infer(bs_infer *infer)
{
    const bs_unary_desc *desc = infer->params;
    if (desc->kind == BS_UNARY_NOT)
        return bs_infer_dtype(infer, 0, BS_I32);
    return bs_unary_takes_i32((bs_unary_kind)desc->kind) ? bs_infer_number(infer, 0) : bs_infer_dtype(infer, 0, BS_F32);
}

/* Loops over what processors have an instruction for: compilers make vectors of these. */
#define UNARY_LOOP(kind)                                  \
    case kind:                                            \
        BS_EACH_BY_ITSELF                                 \
        for (int64_t i = 0; i < n; i++)                   \
            out[i] = bs_unary_apply(kind, x[i]);          \
        break;
static void unary_dense(bs_unary_kind kind, int64_t n, const float *x, float *out)
{
    switch (kind) {
        UNARY_LOOP(BS_UNARY_ABS)
        UNARY_LOOP(BS_UNARY_NEG)
        UNARY_LOOP(BS_UNARY_SQRT)
        UNARY_LOOP(BS_UNARY_RSQRT)
        UNARY_LOOP(BS_UNARY_RECIPROCAL)
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = bs_unary_apply(kind, x[i]);
    }
}
#undef UNARY_LOOP

static void unary_inner_f32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_call *call = context;
    const bs_unary_kind kind = (bs_unary_kind)((const bs_unary_desc *)call->params)->kind;
    float *out = (float *)(void *)at[0];
    const float *x = (const float *)(const void *)at[1];
    const ptrdiff_t o = step[0] / 4, s = step[1] / 4;
    if (bs_is_row_unary(kind))
        bs_row_unary((bs_tier)call->plan->tier, kind, x, s, out, o, n);
    else if (bs_span_dense_f32(step, 2))
        unary_dense(kind, n, x, out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * o] = bs_unary_apply(kind, x[i * s]);
}

static void unary_inner_i32(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const bs_call *call = context;
    const bs_unary_kind kind = (bs_unary_kind)((const bs_unary_desc *)call->params)->kind;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t x = *(const uint32_t *)(const void *)(at[1] + i * step[1]);
        *(uint32_t *)(void *)(at[0] + i * step[0]) = bs_unary_apply_i32(kind, x);
    }
}

static bs_status unary_op_run(const bs_call *call)
{
    bs_span span;
    bs_span_call(&span, call);
    bs_span_run(&span, call->out[0].dtype == BS_F32 ? unary_inner_f32 : unary_inner_i32, call);
    return BS_OK;
}

extern const bs_op bs_op_unary;
const bs_op bs_op_unary = {BS_BY_ELEMENTS(unary),
                           .min_in = 1,
                           .layout = {.images = true},
                           BS_PARAMS(bs_unary_desc, unary_fields),
                           .infer = unary_op_infer,
                           .run = unary_op_run};

bs_value bs_unary(bs_graph *graph, bs_value x, bs_unary_kind kind)
{
    const bs_unary_desc desc = {NULL, (int32_t)kind};
    return bs_op_build_one(graph, x, &desc, &bs_op_unary);
}
