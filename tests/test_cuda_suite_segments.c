/* tags: asan */
/* test_cuda_suite_segments.c - test_segments.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_segments.c"
