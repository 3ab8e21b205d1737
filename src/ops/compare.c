/* ops/compare.c - compare: truth values of two operands; where: a choice of two by truth values.
 * Truth values are i32: 0 is false, all else true, and what is made is 0 or 1. Relies on broadcast.h for shapes and the
 * walk. Must never look at neighbours: exact in patch domains. One code for every tier. */
#include "ops/broadcast.h"
#include "ops/maths.h"

typedef struct bs_compare_desc {
    const char *name;
    int32_t kind;
} bs_compare_desc;

static const bs_field compare_fields[] = {BS_FIELD_OF("kind", COMPARE)};

static bool compare_infer(bs_infer *infer)
{
    const bs_compare_desc *desc = infer->params;
    const bool logic = desc->kind >= BS_COMPARE_AND;
    const bool sound = logic ? bs_infer_dtype(infer, 0, BS_I32) : bs_infer_number(infer, 0);
    if (!sound || !bs_infer_dtype(infer, 1, infer->in[0]->dtype) || !bs_infer_broadcast(infer))
        return false;
    infer->out[0].dtype = BS_I32;
    return true;
}

enum { REPEATED = 128 }; /* times that one number is written out beside a line of others */

/* Loops that compilers make vectors of, of the kinds that are not others with their operands exchanged. */
#define COMPARE_LOOP(kind, of)                \
    case kind:                                \
        for (int64_t i = 0; i < n; i++)       \
            out[i] = of(kind, a[i], b[i]);    \
        break;
#define COMPARE_INNER(name, type, of, repeats)                                                                       \
    static void name##_dense(bs_compare_kind kind, int64_t n, const type *a, const type *b, int32_t *out)            \
    {                                                                                                                \
        if (kind == BS_COMPARE_GREATER || kind == BS_COMPARE_GREATER_EQUAL) {                                        \
            const type *const c = a;                                                                                 \
            a = b;                                                                                                   \
            b = c;                                                                                                   \
            kind = kind == BS_COMPARE_GREATER ? BS_COMPARE_LESS : BS_COMPARE_LESS_EQUAL;                             \
        }                                                                                                            \
        switch (kind) {                                                                                              \
            COMPARE_LOOP(BS_COMPARE_EQUAL, of)                                                                       \
            COMPARE_LOOP(BS_COMPARE_LESS, of)                                                                        \
            COMPARE_LOOP(BS_COMPARE_LESS_EQUAL, of)                                                                  \
        default:                                                                                                     \
            for (int64_t i = 0; i < n; i++)                                                                          \
                out[i] = of(kind, a[i], b[i]);                                                                       \
        }                                                                                                            \
    }                                                                                                                \
    static void name##_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)                 \
    {                                                                                                                \
        const bs_compare_kind kind = (bs_compare_kind)((const bs_compare_desc *)context)->kind;                      \
        int32_t *out = (int32_t *)(void *)at[0];                                                                     \
        const type *a = (const type *)(const void *)at[1], *b = (const type *)(const void *)at[2];                   \
        if (bs_span_dense_f32(step, 3)) {                                                                            \
            name##_dense(kind, n, a, b, out);                                                                        \
            return;                                                                                                  \
        }                                                                                                            \
        if (repeats && BS_DENSE_PAYS && step[0] == 4 && step[1] == 0 && step[2] == 4) {                              \
            type same[REPEATED];                                                                                     \
            for (int32_t i = 0; i < REPEATED; i++)                                                                   \
                same[i] = *a;                                                                                        \
            for (int64_t i = 0; i < n; i += REPEATED)                                                                \
                name##_dense(kind, bs_min_i64(REPEATED, n - i), same, b + i, out + i);                               \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                              \
            out[i * (step[0] / 4)] = of(kind, a[i * (step[1] / 4)], b[i * (step[2] / 4)]);                           \
    }
COMPARE_INNER(compare_f32, float, bs_compare_apply, false)
COMPARE_INNER(compare_i32, int32_t, bs_compare_apply_i32, true) /* numbers that become one of many */
#undef COMPARE_INNER
#undef COMPARE_LOOP

static bs_status compare_run(const bs_call *call)
{
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    bs_broadcast_add(&span, call, 0);
    bs_broadcast_add(&span, call, 1);
    bs_span_run(&span, call->in[0].dtype == BS_F32 ? compare_f32_inner : compare_i32_inner, call->params);
    return BS_OK;
}

extern const bs_op bs_op_compare;
const bs_op bs_op_compare = {BS_BY_ELEMENTS(compare),
                             .min_in = 2,
                             .rows = {.captures = true},
                             .layout = {.images = true},
                             BS_PARAMS(bs_compare_desc, compare_fields),
                             .infer = compare_infer,
                             .run = compare_run};

bs_value bs_compare(bs_graph *graph, bs_value a, bs_value b, bs_compare_kind kind)
{
    const bs_compare_desc desc = {NULL, (int32_t)kind};
    return bs_op_build_two(graph, a, b, &desc, &bs_op_compare);
}

/* --------------------------------------------------------------------------------------------------- where */

static bool where_infer(bs_infer *infer)
{
    const bs_dtype dtype = infer->out[0].dtype = infer->in[1]->dtype;
    return bs_infer_dtype(infer, 0, BS_I32) && bs_infer_number(infer, 1) && bs_infer_dtype(infer, 2, dtype) &&
           bs_infer_broadcast(infer);
}

/* Floats as their bits. */
static void where_inner(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    (void)context;
    uint32_t *out = (uint32_t *)(void *)at[0];
    const uint32_t *c = (const uint32_t *)(const void *)at[1], *a = (const uint32_t *)(const void *)at[2],
                   *b = (const uint32_t *)(const void *)at[3];
    if (bs_span_dense_f32(step, 4)) {
        BS_EACH_BY_ITSELF
        for (int64_t i = 0; i < n; i++)
            out[i] = c[i] ? a[i] : b[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i * (step[0] / 4)] = c[i * (step[1] / 4)] ? a[i * (step[2] / 4)] : b[i * (step[3] / 4)];
}

static bs_status where_run(const bs_call *call)
{
    bs_span span;
    bs_span_open(&span, &call->out[0], call->rows);
    for (int32_t i = 0; i < 3; i++)
        bs_broadcast_add(&span, call, i);
    bs_span_run(&span, where_inner, NULL);
    return BS_OK;
}

extern const bs_op bs_op_where;
const bs_op bs_op_where = {BS_BY_ELEMENTS(where),
                           .min_in = 3,
                           .rows = {.captures = true},
                           .layout = {.images = true},
                           .infer = where_infer,
                           .run = where_run};

bs_value bs_where(bs_graph *graph, bs_value condition, bs_value a, bs_value b)
{
    const int32_t in[3] = {condition.id, a.id, b.id};
    return bs_op_build(graph, &bs_op_where, in, 3, NULL);
}
