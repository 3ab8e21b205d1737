/* tags: asan */
/* test_cuda_suite_conv1d.c - test_conv1d.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_conv1d.c"
