/* tags: asan */
/* test_cuda_suite_collects.c - test_loop_collects.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_loop_collects.c"
