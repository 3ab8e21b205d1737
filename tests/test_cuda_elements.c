/* tags: order asan */
/* test_cuda_elements.c - unary, binary, compare and where, and operands of several shapes: the device against the plain
 * reference, as test_cuda_ops.c has it. */
#include "cuda_op_rig.h"

BUILD(unary_neg, bs_unary(g, x[0], BS_UNARY_NEG))
BUILD(unary_ceil, bs_unary(g, x[0], BS_UNARY_CEIL))
BUILD(unary_sqrt, bs_unary(g, bs_unary(g, x[0], BS_UNARY_ABS), BS_UNARY_SQRT))
BUILD(unary_exp, bs_unary(g, x[0], BS_UNARY_EXP))
BUILD(unary_erf, bs_unary(g, x[0], BS_UNARY_ERF))
BUILD(unary_sin, bs_unary(g, x[0], BS_UNARY_SIN))
BUILD(unary_cos, bs_unary(g, x[0], BS_UNARY_COS))
BUILD(unary_tan, bs_unary(g, x[0], BS_UNARY_TAN))
BUILD(unary_asin, bs_unary(g, x[0], BS_UNARY_ASIN))
BUILD(unary_acos, bs_unary(g, x[0], BS_UNARY_ACOS))
BUILD(unary_atan, bs_unary(g, x[0], BS_UNARY_ATAN))
BUILD(unary_abs, bs_unary(g, x[0], BS_UNARY_ABS))
BUILD(unary_sign, bs_unary(g, x[0], BS_UNARY_SIGN))
BUILD(unary_floor, bs_unary(g, bs_affine(g, x[0], 3.7f, 0), BS_UNARY_FLOOR))
BUILD(unary_round, bs_unary(g, bs_affine(g, x[0], 3.7f, 0), BS_UNARY_ROUND))
BUILD(unary_log, bs_unary(g, bs_affine(g, bs_unary(g, x[0], BS_UNARY_ABS), 1, 0.01f), BS_UNARY_LOG))
BUILD(unary_rsqrt, bs_unary(g, bs_affine(g, bs_unary(g, x[0], BS_UNARY_ABS), 1, 0.01f), BS_UNARY_RSQRT))
BUILD(unary_reciprocal, bs_unary(g, bs_affine(g, bs_unary(g, x[0], BS_UNARY_ABS), 1, 0.1f), BS_UNARY_RECIPROCAL))
BUILD(unary_not,
      bs_unary(g, bs_convert(g, bs_affine(g, x[0], 2, 0), &(bs_convert_desc){.dtype = BS_I32}), BS_UNARY_NOT))
BUILD(sub_from_first, bs_sub(g, bs_slice(g, x[1], &(bs_slice_desc){.axis = 0, .length = 1}), x[0]))
BUILD(add_mean_first,
      bs_add(g, bs_reduce(g, x[1], &(bs_reduce_desc){.kind = BS_REDUCE_MEAN, .axis = 0, .keep = 1}), x[0]))
BUILD(add_lines, bs_add(g, bs_reduce(g, x[1], &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .axis = 0}), x[0]))
BUILD(binary_div, bs_binary(g, x[0], bs_affine(g, bs_unary(g, x[1], BS_UNARY_ABS), 1, 0.25f), BS_BINARY_DIV))
BUILD(binary_min, bs_binary(g, x[0], x[1], BS_BINARY_MIN))
BUILD(binary_max, bs_binary(g, x[0], x[1], BS_BINARY_MAX))
BUILD(binary_pow, bs_binary(g, bs_affine(g, bs_unary(g, x[0], BS_UNARY_ABS), 1, 0.25f), x[1], BS_BINARY_POW))
BUILD(compare_less, bs_compare(g, x[0], x[1], BS_COMPARE_LESS))
BUILD(compare_equal, bs_compare(g, x[0], x[0], BS_COMPARE_EQUAL))
BUILD(compare_logic,
      bs_compare(g, bs_compare(g, x[0], x[1], BS_COMPARE_GREATER_EQUAL),
                 bs_compare(g, bs_slice(g, x[1], &(bs_slice_desc){.axis = 0, .length = 1}), x[0], BS_COMPARE_NOT_EQUAL),
                 BS_COMPARE_XOR))
BUILD(where, bs_where(g, bs_compare(g, x[0], x[1], BS_COMPARE_LESS), x[0], x[1]))
BUILD(where_plane, bs_where(g, bs_compare(g, x[0], x[1], BS_COMPARE_GREATER),
                            bs_slice(g, x[1], &(bs_slice_desc){.axis = 0, .length = 1}), x[0]))

static const op_case cases[] = {
    {"unary abs", unary_abs, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"unary neg", unary_neg, ROOT | CELLS | INTEGERS, 0},
    {"unary sign", unary_sign, ROOT | ROWS | INTEGERS, -1},
    {"unary floor", unary_floor, ROOT | CELLS, -1},
    {"unary ceil", unary_ceil, ROWS, -1},
    {"unary round", unary_round, ROWS | CELLS, -1},
    {"unary sqrt", unary_sqrt, ROOT | ROWS, 0},
    {"unary rsqrt", unary_rsqrt, CELLS, 0.1},
    {"unary reciprocal", unary_reciprocal, ROWS, 0.05},
    {"unary exp", unary_exp, ROOT | CELLS, 0},
    {"unary log", unary_log, ROOT | ROWS, 0.1},
    {"unary erf", unary_erf, ROWS | CELLS, 0},
    {"unary sin", unary_sin, ROWS | CELLS, 0},
    {"unary cos", unary_cos, ROOT, 0},
    {"unary tan", unary_tan, ROWS, 0},
    {"unary asin", unary_asin, ROWS, -1},
    {"unary acos", unary_acos, ROWS, -1},
    {"unary atan", unary_atan, ROOT, 0},
    {"unary not", unary_not, ROOT | ROWS | CELLS, -1},
    {"sub from a plane", sub_from_first, ROOT | ROWS | CELLS, 0},
    {"add to a mean", add_mean_first, ROOT | ROWS | CELLS, 0},
    {"add to lines", add_lines, ROOT | ROWS, 0},
    {"binary div", binary_div, ROOT | ROWS | CELLS, 2e-2},
    {"binary min", binary_min, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"binary max", binary_max, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"binary pow", binary_pow, ROOT | ROWS | CELLS, 2e-2},
    {"compare less", compare_less, ROOT | ROWS | CELLS | INTEGERS, -1},
    {"compare equal", compare_equal, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"compare logic", compare_logic, ROOT | ROWS | CELLS | INTEGERS, -1},
    {"where", where, ROOT | ROWS | CELLS | INTEGERS, 0},
    {"where of a plane", where_plane, ROOT | ROWS | CELLS | INTEGERS, -1},
};

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_case(&cases[i], false);
    return check_end();
}
