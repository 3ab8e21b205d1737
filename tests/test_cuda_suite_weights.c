/* tags: asan */
/* test_cuda_suite_weights.c - test_shared_weights.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_shared_weights.c"
