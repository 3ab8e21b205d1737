/* test_cuda_session.c - sessions on a device: what is planned, bound, queued and waited for. */
#include "cuda_rig.h"

static void test_smallest(void)
{
    cuda_rig r;
    bs_graph *g = rig_begin(&r, "activation of a root tensor");
    bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(5, 7));
    bs_output(g, "y", bs_activation(g, x, BS_TANH, 0));
    rig_agree(&r, NULL);
}

int main(void)
{
    test_smallest();
    return check_end();
}
