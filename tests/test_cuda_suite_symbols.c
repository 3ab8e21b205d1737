/* tags: asan */
/* test_cuda_suite_symbols.c - test_symbols.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_symbols.c"
