/* tags: emulated */
/* test_cuda_random_networks.c - test_random_networks.c, on the device: against the definition alone. */
#define BS_TEST_ON_DEVICE
#include "test_random_networks.c"
