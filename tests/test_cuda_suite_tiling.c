/* tags: asan */
/* test_cuda_suite_tiling.c - test_tiling.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_tiling.c"
