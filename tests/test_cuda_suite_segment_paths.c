/* tags: asan */
/* test_cuda_suite_segment_paths.c - test_segment_paths.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_segment_paths.c"
