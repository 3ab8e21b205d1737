/* tags: asan */
/* test_cuda_suite_forms.c - test_attention_forms.c, on the device. */
#define BS_TEST_ON_DEVICE
#include "test_attention_forms.c"
