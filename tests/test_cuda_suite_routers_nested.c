/* tags: asan */
/* test_cuda_suite_routers_nested.c - test_routers_nested.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_routers_nested.c"
