/* describe.cuh - the host's side of an op on a device: how its file fills in the step of a node with resolved operands.
 * Relies on portable.cuh. Must never touch the device. */
#ifndef BS_CUDA_DESCRIBE
#define BS_CUDA_DESCRIBE

#include "cuda/kernels.cuh"
#include "cuda/portable.cuh"

#ifndef BS_CU_THREADS
#define BS_CU_THREADS 256 /* threads of a block: a multiple of 32, 64 .. 256 */
#endif
#define BS_CU_WORKSPACE BS_DEVICE_WORKSPACE /* shared memory that a kernel may use beside the rows of a tile */

/* What a describe function is given about a node. */
struct bs_cu_node {
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_node *node;
    const bs_node_plan *np;
    const void *params;
    const bs_device_operand *in, *out; /* extents are the largest */
    const bs_instr *instr;
    int64_t rows;     /* of the step's domain, at most */
    int32_t blocks;   /* that keep the device busy; 1: a tile has one */
    bool near;        /* rows of tiles lie in shared memory */
    bool cublas;      /* large products go to cuBLAS */
};

/* Fills p; batch and parts where they are not 1; the kernel where an op has several, and the one that follows it. All
 * other fields are set already. */
typedef void (*bs_cu_describe)(const bs_cu_node *n, bs_device_step *step);

/* The batch of a step that one block does alone. */
enum { BS_CU_ONE_BLOCK = INT32_MAX };

/* How a step is made: its default kernel and its describe function. */
struct bs_cu_description {
    int32_t kernel;
    bs_cu_describe describe;
};
#define BS_CU_DESCRIPTION(name) {BS_CU_##name, bs_cu_##name##_describe}

/* Whether a launch, or a step, runs a kernel of the lists; one of those whose blocks see all rows of a step. */
static inline bool bs_cu_is_kernel(int32_t kernel) { return kernel <= BS_CU_LAST_WHOLE; }
static inline bool bs_cu_is_region(int32_t kernel) { return kernel == BS_CU_region; }
__host__ __device__ static inline bool bs_cu_sees_all_rows(int32_t kernel)
{
    return kernel > BS_CU_LAST_HEAVY && kernel <= BS_CU_LAST_WHOLE;
}

/* Pixels of the largest rectangle of a row of an image, margins included. */
static inline int64_t bs_cu_pixels(const bs_device_operand *o)
{
    const int64_t h = o->cell > 0 ? o->cell : o->dim[1], w = o->cell > 0 ? o->cell : o->dim[2];
    return (h + 2 * (int64_t)o->margin) * (w + 2 * (int64_t)o->margin);
}

/* The product of the first n dimensions. */
__host__ __device__ static inline int64_t bs_cu_product(const int32_t *dim, int32_t n)
{
    int64_t product = 1;
    for (int32_t i = 0; i < n; i++)
        product *= dim[i];
    return product;
}

static inline int64_t bs_cu_elements(const bs_device_operand *o)
{
    return o->image ? bs_cu_pixels(o) * o->dim[0] : bs_cu_product(o->dim, o->rank);
}

/* Work items of `each` elements for `count` of them: at least 1, at most 65536. */
static inline int32_t bs_cu_work_items(int64_t count, int64_t each)
{
    const int64_t items = bs_ceil_div(count, each);
    return (int32_t)(items < 1 ? 1 : items > 65536 ? 65536 : items);
}

/* How much of all rows a work item gets, each with `amount`: `most`, or down to a quarter of it where the device would
 * have less to do than it has blocks. */
static inline int64_t bs_cu_item(const bs_cu_node *n, int64_t amount, int64_t most)
{
    return bs_max_i64(bs_min_i64(bs_ceil_div(n->rows * amount, n->blocks), most), most / 4);
}

#endif
