/* cuda_op_rig.h - one op on rows, on whole images and on cells: the device against the plain reference.
 * Relies on cuda_rig.h. */
#ifndef BS_TEST_CUDA_OP_RIG_H
#define BS_TEST_CUDA_OP_RIG_H

#include "cuda_rig.h"

typedef bs_value (*builder)(bs_graph *g, const bs_value *x);

#define BUILD(function, expression)                                    \
    static bs_value function(bs_graph *g, const bs_value *x)           \
    {                                                                  \
        return expression;                                             \
    }

enum {
    ROOT = 1,
    ROWS = 2,
    CELLS = 4,
    CODES = 8, /* u8 and u16 too */
    INTEGERS = 16, /* i32 too */
    ONLY_CODES = 32,
    EVEN = 64, /* extents */
    FOURS = 128 /* of channels */
};

typedef struct op_case {
    const char *name;
    builder build;
    int32_t where;
    double half; /* tolerance when values are stored in f16; 0: as usual; < 0: what it gives may be quite different */
} op_case;

static const bs_dtype code_types[] = {BS_F32, BS_U8, BS_U16, BS_I32};

static inline bool takes(const op_case *c, bs_dtype dtype)
{
    return dtype == BS_F32   ? !(c->where & ONLY_CODES)
           : dtype == BS_I32 ? (c->where & INTEGERS) != 0
                             : (c->where & CODES) != 0;
}

/* Breadth first and in tiles, f32 and f16; each time another buffer ends where memory does. */
static inline void agree(cuda_rig *r, const op_case *c, int32_t patch_size)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
        for (int32_t half = 0; half <= (c->half >= 0); half++)
            rig_agree(r, &(rig_how){.order = order,
                                    .half = half,
                                    .patch_size = patch_size,
                                    .tolerance = half ? c->half : 0,
                                    .at_end = 1 + 2 * (order - BS_ORDER_BREADTH) + half});
}

/* A value that the plan stores itself, so that it may be f16. */
static inline bs_value stored(bs_graph *g, bs_value x, bs_dtype dtype)
{
    return dtype == BS_F32 ? bs_affine(g, x, 0.9f, 0.01f) : x;
}

static inline void test_root(const op_case *c, bs_dtype dtype, bs_shape shape)
{
    cuda_rig r;
    char name[100];
    snprintf(name, sizeof name, "%s of a root %s", c->name, bs_dtype_name(dtype));
    bs_graph *g = rig_begin(&r, name);
    const bs_value x[2] = {stored(g, bs_input(g, "x", dtype, shape), dtype), bs_input(g, "y", dtype, shape)};
    bs_output(g, "z", c->build(g, x));
    agree(&r, c, 0);
}

/* `rows` rows of a shape. */
static inline void test_rows(const op_case *c, bs_dtype dtype, int32_t rows, bs_shape shape)
{
    cuda_rig r;
    char name[100];
    bs_shape all = {shape.rank + 1, {rows}};
    for (int32_t d = 0; d < shape.rank; d++)
        all.dim[d + 1] = shape.dim[d];
    snprintf(name, sizeof name, "%s of %d rows %s", c->name, rows, bs_dtype_name(dtype));
    bs_graph *g = rig_begin(&r, name);
    const bs_value seen = bs_rows(g, bs_input(g, "x", dtype, all), (bs_value){0});
    const bs_value x[2] = {stored(g, seen, dtype), bs_rows(g, bs_input(g, "y", dtype, all), seen)};
    bs_output(g, "z", bs_collect(g, c->build(g, x)));
    agree(&r, c, 0);
}

/* Cells of a frame of 21 x 19 (or even extents), and whatever the op gives smoothed: it is wanted with a margin. */
static inline void test_cells(const op_case *c, bs_dtype dtype, int32_t channels, bool even)
{
    cuda_rig r;
    char name[100];
    snprintf(name, sizeof name, "%s of cells [%d] %s", c->name, channels, bs_dtype_name(dtype));
    bs_graph *g = rig_begin(&r, name);
    const bs_shape shape = BS_SHAPE3(channels, even ? 22 : 21, even ? 18 : 19);
    const bs_value seen = bs_patches(g, bs_input(g, "x", dtype, shape), &(bs_patches_desc){.size = 8});
    const bs_value x[2] = {stored(g, seen, dtype), bs_patches(g, bs_input(g, "y", dtype, shape),
                                                              &(bs_patches_desc){.size = 8, .like = seen})};
    const bs_value z = c->build(g, x);
    const bs_value_info *v = bs_value_get(g, z.id);
    if (z.id && v->rank != 3) {
        bs_output(g, "z", bs_collect(g, z));
    } else {
        bs_output(g, "z", bs_assemble(g, z));
        if (z.id && v->dtype == BS_F32)
            bs_output(g, "smooth",
                      bs_assemble(g, bs_pool2d(g, z,
                                               &(bs_pool2d_desc){
                                                   .kernel = 3, .stride = 1, .padding = BS_PAD_EXPLICIT, .pad = 1})));
    }
    agree(&r, c, 0);
}

static inline void test_case(const op_case *c, bool image)
{
    for (size_t k = 0; k < sizeof code_types / sizeof *code_types; k++) {
        const bs_dtype dtype = code_types[k];
        if (!takes(c, dtype))
            continue;
        if (c->where & ROOT && !image) {
            test_root(c, dtype, BS_SHAPE2(6, 7));
            test_root(c, dtype, BS_SHAPE2(12, 64));
        }
        if (c->where & ROOT) {
            test_root(c, dtype, BS_SHAPE3(8, 10, 12));
            test_root(c, dtype, BS_SHAPE3(12, 18, 14));
        }
        if (c->where & ROWS) {
            test_rows(c, dtype, 5, BS_SHAPE1(8));
            test_rows(c, dtype, 37, BS_SHAPE1(70));
            test_rows(c, dtype, 3, BS_SHAPE2(4, 36));
            test_rows(c, dtype, 2, BS_SHAPE3(4, 6, 8));
        }
        if (c->where & CELLS) {
            test_cells(c, dtype, 4, (c->where & EVEN) != 0);
            test_cells(c, dtype, 16, true);
            if (!(c->where & FOURS))
                test_cells(c, dtype, 5, (c->where & EVEN) != 0);
        }
    }
}

#endif
