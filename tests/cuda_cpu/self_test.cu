/* self_test.cu - the emulator checked against what CUDA promises, and deliberate bugs for the tools to catch.
 * self_test: checks everything; prints failures and a last line "N passed, N failed". self_test BUG: does one thing
 * wrong (self_bugs.cu). Built and judged by self_test.sh, of all the parts self_*.cu. */
#include "self_test.h"

#include <string.h>

static int passed, failed;

void check(bool holds, const char *what, const char *file, int line)
{
    if (holds) {
        passed++;
        return;
    }
    failed++;
    const char *folder = strrchr(file, '/');
    printf("FAIL %s:%d: %s\n", folder ? folder + 1 : file, line, what);
}

static void check_all(int order, unsigned seed)
{
    cuda_cpu_order(order, seed);
    cudaStream_t s = stream_make();
    check_kernels(s);
    check_warps(s);
    check_atomics(s);
    check_tensor(s);
    check_streams(s);
    check_capture(s);
    check_conditionals(s);
    check_control(s);
    OK(cudaStreamDestroy(s));
    if (cuda_cpu_trouble())
        printf("FAIL trouble: %s\n", cuda_cpu_trouble());
    struct cuda_cpu_counts counts;
    cuda_cpu_counts_get(&counts);
    CHECK(!cuda_cpu_trouble());
    CHECK(counts.live_allocations == 0 && counts.live_streams == 0 && counts.live_events == 0);
    CHECK(counts.live_graphs == 0);
}

/* Like a machine without a device: every call says so, none crashes. */
static int check_without_device()
{
    int count = 1;
    void *memory = nullptr;
    cudaStream_t stream = nullptr;
    cublasHandle_t handle = nullptr;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
    CHECK(cudaMalloc(&memory, 1) == cudaErrorNoDevice && !memory);
    CHECK(cudaStreamCreate(&stream) == cudaErrorNoDevice && !stream);
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_NOT_INITIALIZED && !handle);
    BS_LAUNCH(bug_same_word, 1, 1, 0, stream, nullptr);
    CHECK(cudaGetLastError() == cudaErrorNoDevice);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    if (getenv("CUDA_CPU_EXPECT_NONE"))
        return check_without_device();
    if (argc > 1)
        return bug(argv[1]);
    for (int order = 0; order < 3; order++)
        check_all(order, 1);
    check_all(2, 7);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
