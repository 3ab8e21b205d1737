/* tags: asan */
/* test_select.c - channels, or rows, by a list of indices: the same elements whether a list interleaves runs, which are
 * copied as such, or is any other, wherever elements lie. Usage: test_select [seed] */
#include "op_harness.h"

/* Channels by indices that interleave runs, as a shuffle of channels has them, and by nearly such ones. */
static void test_shuffles(void)
{
    for (int32_t i = 0; i < 300; i++) {
        pool_used = 0;
        const int32_t groups = 1 + check_below(9), length = 1 + check_below(20), n = groups * length;
        const int32_t first = check_below(3), apart = check_below(2) ? length : check_below(length + 2), h = 3, w = 5;
        const int32_t channels = first + (groups - 1) * apart + length, axis = check_below(5) ? 0 : 1;
        const int32_t layout = check_below(LAYOUTS);
        bs_graph *g = new_graph();
        bs_select(g, axis ? bs_input(g, "x", BS_F32, BS_SHAPE3(h, channels, w))
                          : bs_input(g, "x", BS_F32, BS_SHAPE3(channels, h, w)),
                  bs_input(g, "i", BS_I32, BS_SHAPE1(n)), axis);
        op_case c = op_case_new(g, check_below(2) ? bs_tier_best() : BS_TIER_SCALAR, layout);
        tensor t = tensor_new(BS_I32, 1, 1, (int32_t[]){n});
        int32_t *index = (int32_t *)(void *)t.data;
        for (int32_t k = 0; k < n; k++)
            index[k] = first + k % groups * apart + k / groups;
        if (check_below(3) == 0)
            index[check_below(n)] = check_below(channels);
        storage_fill(&c.in[1], &t, 0, 0);
        bool same = op_case_run(&c) == BS_OK;
        for (walk at = walk_box(&c.out[0].operand, c.out[0].operand.rect); at.more; walk_next(&at)) {
            int32_t from[BS_MAX_RANK] = {at.at[0], at.at[1], at.at[2]};
            from[axis] = index[from[axis]];
            same = same && memcmp(storage_at(&c.out[0], 0, at.at), storage_at(&c.in[0], 0, from), 4) == 0;
        }
        if (!same) {
            check(false, "%d groups of %d from %d, %d apart, axis %d, layout %d", groups, length, first, apart, axis,
                  layout);
            return;
        }
    }
    check(true, "channels are selected by interleaved runs");
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    test_shuffles();
    return check_end();
}
