/* tags: asan */
/* test_cuda_suite_routers.c - test_routers.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_routers.c"
