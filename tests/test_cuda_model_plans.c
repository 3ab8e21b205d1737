/* tags: minutes emulated */
/* test_cuda_model_plans.c - test_model_plans.c, on the device: in f32 and f16, launched in every way. */
#define BS_TEST_ON_DEVICE
#include "test_model_plans.c"
