/* tags: asan */
/* test_cuda_suite_axes.c - test_axes.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_axes.c"
