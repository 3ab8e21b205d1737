/* tags: asan */
/* test_cuda_suite_views.c - test_views.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_views.c"
