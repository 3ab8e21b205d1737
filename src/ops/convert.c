/* ops/convert.c - conversion between element types, with a scale.
 * Relies on span.h, the storage conversions of base/dtype.c and kernels/elementwise.h. Must never let codes depend on
 * the tier. Integers converted to integers at scale 1 stay integers, so that large i32 are exact. */
#include "kernels/elementwise.h"
#include "ops/common.h"
#include "ops/forms.h"
#include "ops/span.h"

static const bs_field convert_fields[] = {BS_FIELD_OF("dtype", DTYPE), BS_FLOAT("scale"),
                                          BS_INT_OF("code_bits", 0, 16)};

static bool convert_infer(bs_infer *infer)
{
    const bs_convert_desc *desc = infer->params;
    infer->out[0].dtype = (bs_dtype)desc->dtype;
    return true;
}

typedef struct convert_job {
    bs_dtype from, to;
    bs_tier tier;
    float scale;
    int32_t low, high; /* bounds of the codes */
} convert_job;

bool bs_convert_is_integer(bs_dtype dtype)
{
    return dtype == BS_U8 || dtype == BS_I8 || dtype == BS_I32 || dtype == BS_U16;
}

void bs_convert_range(bs_dtype to, int32_t code_bits, int32_t *low, int32_t *high)
{
    *low = to == BS_I8 ? -128 : to == BS_I32 ? INT32_MIN : 0;
    *high = to == BS_I8 ? 127 : to == BS_U8 ? 255 : to == BS_I32 ? INT32_MAX : 0;
    if (to == BS_U16)
        *high = (1 << bs_or_default(code_bits, 16)) - 1;
}

static void convert_store_code(void *at, bs_dtype to, int32_t code)
{
    switch (to) {
    case BS_U8:
        *(uint8_t *)at = (uint8_t)code;
        break;
    case BS_I8:
        *(int8_t *)at = (int8_t)code;
        break;
    case BS_I32:
        *(int32_t *)at = code;
        break;
    case BS_U16:
        *(uint16_t *)at = (uint16_t)code;
        break;
    case BS_F32:
    case BS_F16:
    case BS_BF16:
    case BS_DTYPE_COUNT:
        break;
    }
}

static void convert_store(const convert_job *job, void *at, float x)
{
    if (job->to == BS_F32)
        *(float *)at = x;
    else if (job->to == BS_F16)
        *(uint16_t *)at = bs_f32_to_f16(x);
    else if (job->to == BS_BF16)
        *(uint16_t *)at = bs_f32_to_bf16(x);
    else
        convert_store_code(at, job->to, bs_f32_to_code(x, job->low, job->high));
}

static int32_t convert_load_code(const void *at, bs_dtype from)
{
    return from == BS_I32 ? *(const int32_t *)at : (int32_t)bs_load_f32(at, from, 0);
}

/* ------------------------------------------------------------------------------------------------ inner loops */

static void convert_codes(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    for (int64_t i = 0; i < n; i++)
        convert_store_code(at[0] + i * step[0], job->to,
                           bs_clamp_i32(convert_load_code(at[1] + i * step[1], job->from), job->low, job->high));
}

static void convert_any(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    for (int64_t i = 0; i < n; i++)
        convert_store(job, at[0] + i * step[0], bs_load_f32(at[1] + i * step[1], job->from, 0) * job->scale);
}

static void convert_numbers(const int32_t *in, float *out, int32_t n, float scale)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = (float)in[i] * scale;
}

/* Codes to f32 and back, a contiguous line at a time. */
static bool convert_line(const convert_job *job, int32_t n, void *out, const void *in)
{
    if (job->from == BS_U8 && job->to == BS_F32)
        bs_row_u8_to_f32(job->tier, in, out, n, job->scale);
    else if (job->from == BS_U16 && job->to == BS_F32)
        bs_row_u16_to_f32(job->tier, in, out, n, job->scale);
    else if (job->from == BS_F32 && job->to == BS_U8)
        bs_row_f32_to_u8(job->tier, in, out, n, job->scale);
    else if (job->from == BS_F32 && job->to == BS_U16)
        bs_row_f32_to_u16(job->tier, in, out, n, job->scale, (uint16_t)job->high);
    else if (BS_DENSE_PAYS && job->from == BS_I32 && job->to == BS_F32)
        convert_numbers(in, out, n, job->scale);
    else
        return false;
    return true;
}

static void convert_fast(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const convert_job *job = context;
    const bool dense = step[0] == (ptrdiff_t)bs_dtype_bytes(job->to) && step[1] == (ptrdiff_t)bs_dtype_bytes(job->from);
    if (!dense || n > INT32_MAX || !convert_line(job, (int32_t)n, at[0], at[1]))
        convert_any(context, n, at, step);
}

static bs_status convert_run(const bs_call *call)
{
    const bs_convert_desc *desc = call->params;
    convert_job job = {
        call->in[0].dtype, call->out[0].dtype, call->plan->tier, desc->scale == 0.0f ? 1.0f : desc->scale, 0, 0};
    bs_convert_range(job.to, desc->code_bits, &job.low, &job.high);
    const bool codes = bs_convert_is_integer(job.from) && bs_convert_is_integer(job.to) && desc->scale == 0.0f;
    bs_span span;
    bs_span_call(&span, call);
    bs_span_run(&span, codes ? convert_codes : job.tier == BS_TIER_SCALAR ? convert_any : convert_fast, &job);
    return BS_OK;
}

const bs_op bs_op_convert = {BS_BY_ELEMENTS(convert),
                             .min_in = 1,
                             .layout = {.images = true},
                             BS_PARAMS(bs_convert_desc, convert_fields),
                             .infer = convert_infer,
                             .run = convert_run};

bs_value bs_convert(bs_graph *graph, bs_value x, const bs_convert_desc *desc)
{
    return bs_op_build_one(graph, x, desc, &bs_op_convert);
}
