/* linear_cublas.cuh - a large linear, as a product that cuBLAS computes and an epilogue of our own.
 * Relies on linear_job.cuh; op_linear.cuh describes the step. Must never be given a linear whose number of rows only
 * the device knows. */
#ifndef BS_CUDA_LINEAR_CUBLAS
#define BS_CUDA_LINEAR_CUBLAS

#include "cuda/linear_job.cuh"

#ifndef BS_NO_CUBLAS
#include <cublas_v2.h>
#endif

/* What cuBLAS does not do: bias and activation, in place. */
static __global__ void __launch_bounds__(256)
    bs_cu_linear_epilogue(uint8_t *y, int32_t dtype, int64_t line, int64_t lines, int32_t out, const float *bias,
                          const float *slopes, int32_t act, float param)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < lines * out; i += step) {
        const int32_t column = (int32_t)(i % out);
        const int64_t at = i / out * line + column;
        const float slope = act == BS_PRELU ? slopes[column] : 0.0f;
        bs_cu_put(y, dtype, at, bs_act_apply((bs_act)act, param, slope, bs_cu_get(y, dtype, at) + bias[column]));
    }
}

#ifndef BS_NO_CUBLAS

/* Elements from line to line, where lines are contiguous and all the same distance apart; else 0. */
static int64_t bs_cu_linear_dense(const bs_cu_node *n, const bs_device_operand *o)
{
    const int32_t last = o->rank - 1;
    const bool rows = o->domain != 0;
    if (n->graph->domains[o->domain].kind == BS_DOMAIN_PATH || o->stored != o->domain ||
        (o->place != BS_AT_ROOT && o->place != BS_AT_ROWS && o->place != BS_AT_LINE) ||
        (o->dim[last] > 1 && o->stride[last] != 1) || (rows && o->rank > 1) || o->margin > 0)
        return 0;
    for (int32_t d = 0; d + 2 < o->rank; d++) /* strides are those of the largest extents */
        if (!bs_dim_is_const(n->graph, o->from[d + 1]) ||
            (o->dim[d] > 1 && o->stride[d] != (int64_t)o->dim[d + 1] * o->stride[d + 1]))
            return 0;
    return rows          ? o->row_bytes / (int64_t)bs_dtype_bytes((bs_dtype)o->dtype)
           : o->rank > 1 ? o->stride[last - 1]
                         : o->dim[last];
}

/* Whether nodes make an extent of what a node computes: then the host cannot tell cuBLAS how much there is. */
static bool bs_cu_is_from_data(const bs_cu_node *n)
{
    const bs_value_info *y = &n->graph->values[n->node->first_out];
    bool any = bs_domain_maker(n->graph, y->domain) != 0;
    for (int32_t i = 0; i < y->rank; i++)
        any = any || n->graph->dims[y->dims[i]].node != 0;
    return any;
}

/* Whether bs_cu_linear_cublas may take a linear: the host knows where its rows are and how many, and it may be large
 * enough. cuBLAS chooses the order of its sums. */
static bool bs_cu_linear_is_large(const bs_cu_node *n)
{
    const bs_dtype type = n->np->half ? BS_F16 : BS_F32;
    const int64_t k = n->in[0].dim[n->in[0].rank - 1], out = n->out[0].dim[n->out[0].rank - 1];
    const int64_t lines = bs_cu_linear_most_lines(n, n->out[0].domain);
    return n->in[0].dtype == type && n->out[0].dtype == type && k % 8 == 0 && k >= 128 && out >= 128 &&
           lines >= 256 && bs_cu_linear_dense(n, &n->in[0]) >= k && bs_cu_linear_dense(n, &n->out[0]) >= out &&
           !bs_cu_is_from_data(n);
}

/* Computes all `rows` rows of such a linear on `stream`, which the handle is set to. prepared: its weights on the
 * device. */
static bool bs_cu_linear_cublas(cublasHandle_t handle, cudaStream_t stream, const bs_cu_node *n,
                                const bs_device_step *s, const uint8_t *prepared, int32_t rows)
{
    const bs_device_operand *x = &n->in[0], *y = &n->out[0];
    const bool half = n->np->half != 0;
    const int32_t k = x->dim[x->rank - 1], out = s->p[BS_CU_LINEAR_OUT].i, bytes = half ? 2 : 4,
                  padded = (int32_t)(bs_linear_line_bytes(k, bytes) / bytes);
    const int64_t lines = (int64_t)rows * bs_cu_linear_lines(y), from = bs_cu_linear_dense(n, x),
                  to = bs_cu_linear_dense(n, y);
    const bs_epilogue_layout layout = bs_linear_layout(static_cast<const bs_linear_desc *>(n->params), n->np, k);
    const cudaDataType_t type = half ? CUDA_R_16F : CUDA_R_32F;
    const float one = 1.0f, zero = 0.0f;
#if CUBLAS_VER_MAJOR >= 11
    const cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
#else
    const cudaDataType_t compute = CUDA_R_32F;
#endif
    if (lines == 0)
        return true;
    if (lines > INT32_MAX || from > INT32_MAX || to > INT32_MAX ||
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, out, (int)lines, k, &one, prepared, type, padded,
                     bs_cu_at<const void>(x->base), type, (int)from, &zero,
                     bs_cu_at<void>(y->base), type, (int)to, compute,
                     CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
        return false;
    BS_LAUNCH(bs_cu_linear_epilogue, (unsigned)bs_min_i64(bs_ceil_div(lines * out, 1024), 4096), 256, 0, stream,
              bs_cu_at<uint8_t>(y->base), (int32_t)y->dtype, to, lines, out,
              reinterpret_cast<const float *>(prepared + bs_bytes_figure(layout.bias)),
              reinterpret_cast<const float *>(prepared + bs_bytes_figure(layout.slopes)), s->p[BS_CU_LINEAR_ACT].i,
              s->p[BS_CU_LINEAR_PARAM].f);
    return true;
}

#endif

#endif
