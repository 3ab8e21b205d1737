/* grid.cpp - a launch: what a device would refuse, and its blocks in the order asked for, on one OS thread or on
 * several. Relies on block.cpp and stream.cpp. Must never order blocks of one launch among each other. */
#include "block.h"

#include <pthread.h>
#include <string.h>

namespace cuda_cpu {

Worker::~Worker() { delete block; }

/* "k, grid, ..." or "(k<16, 4>), grid, ...": up to the first comma outside brackets. */
int kernel_name_length(const char *text)
{
    int depth = 0, length = 0;
    for (; text[length] && !(text[length] == ',' && !depth); length++)
        depth += (text[length] == '(') - (text[length] == ')');
    return length;
}

/* A walk over all blocks: i * step + first modulo their number, with a step that shares no factor with it. */
struct Walk {
    uint64_t blocks, first, step;
    uint64_t at(uint64_t i) const { return static_cast<uint64_t>((static_cast<wide>(i) * step + first) % blocks); }
    __extension__ typedef unsigned __int128 wide;
};

static uint64_t common_factor(uint64_t a, uint64_t b) { return b ? common_factor(b, a % b) : a; }

static Walk walk_of(const Grid &grid)
{
    Walk walk = {static_cast<uint64_t>(grid.grid.x) * grid.grid.y * grid.grid.z, 0, 1};
    if (grid.order == REVERSE) {
        walk.first = walk.blocks - 1;
        walk.step = walk.blocks > 1 ? walk.blocks - 1 : 1;
    } else if (grid.order == RANDOM) {
        uint64_t random = grid.seed;
        walk.first = next_random(&random) % walk.blocks;
        do
            walk.step = next_random(&random) % walk.blocks + 1;
        while (common_factor(walk.step, walk.blocks) != 1);
    }
    return walk;
}

struct Share {
    const Grid *grid;
    Walk walk;
    std::atomic<uint64_t> next;
};

static void blocks_run(Block *block, Share *share)
{
    const dim3 size = share->grid->grid;
    block->prepare(share->grid);
    for (uint64_t i; (i = share->next.fetch_add(1, std::memory_order_relaxed)) < share->walk.blocks;) {
        const uint64_t number = share->walk.at(i);
        uint3 index;
        index.x = static_cast<unsigned>(number % size.x);
        index.y = static_cast<unsigned>(number / size.x % size.y);
        index.z = static_cast<unsigned>(number / size.x / size.y);
        block->run(index);
    }
    block->finish();
}

/* A helper lives for one launch. pthread_create and pthread_join order it with the stream, as they should. */
static void *helper_main(void *argument)
{
    Block *block = new Block();
    blocks_run(block, static_cast<Share *>(argument));
    delete block;
    return nullptr;
}

static void grid_run(Worker &worker, const Grid &grid)
{
    static const long threads = environment("CUDA_CPU_BLOCK_THREADS", 1);
    Share share = {&grid, walk_of(grid), {0}};
    if (!worker.block)
        worker.block = new Block();
    std::vector<pthread_t> helpers;
    for (long i = 1; i < threads && static_cast<uint64_t>(i) < share.walk.blocks; i++) {
        pthread_t helper;
        if (pthread_create(&helper, nullptr, helper_main, &share) == 0)
            helpers.push_back(helper);
    }
    blocks_run(worker.block, &share);
    for (pthread_t helper : helpers)
        pthread_join(helper, nullptr);
}

/* Frees the arguments with the work, whoever lets go of that last. */
class Launched : public Work {
public:
    Launched(const cuda_cpu_kernel &what, dim3 grid_size, dim3 block_size, size_t dynamic_bytes, size_t limit)
        : kernel(what)
    {
        grid.kernel = &kernel;
        grid.grid = grid_size;
        grid.block = block_size;
        grid.dynamic_bytes = dynamic_bytes;
        grid.shared_limit = limit;
    }
    ~Launched() override { kernel.drop(kernel.closure); }
    void run(Worker &worker) override
    {
        Grid now = grid;
        now.order = order_now(&now.seed);
        count(KERNELS);
        grid_run(worker, now);
    }

private:
    cuda_cpu_kernel kernel;
    Grid grid;
};

static cudaError_t refusal(dim3 grid, dim3 block, size_t shared_bytes, const void *function)
{
    const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
    if (!threads || threads > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu ||
        grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    return shared_bytes > dynamic_shared_limit(function) ? cudaErrorInvalidValue : cudaSuccess;
}

} // namespace cuda_cpu

using namespace cuda_cpu;

extern "C" void cuda_cpu_launch(const struct cuda_cpu_kernel *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                cudaStream_t stream)
{
    cudaError_t error = begin();
    if (error == cudaSuccess)
        error = fail(refusal(grid, block, shared_bytes, kernel->function));
    if (error != cudaSuccess) {
        kernel->drop(kernel->closure);
        return;
    }
    CUstream_st *to = stream_find(stream);
    const bool captured = to && stream_capture(to);
    error = stream_enqueue(stream,
                           new Launched(*kernel, grid, block, shared_bytes, device_now().shared_optin_bytes));
    if (error == cudaSuccess && !captured)
        count(LAUNCHES);
}
