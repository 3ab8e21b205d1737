/* tags: asan */
/* test_cuda_suite_attention.c - test_attention.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_attention.c"
