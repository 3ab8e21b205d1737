/* refusals.h - calls that the builder, the planner or a session refuses, made on purpose.
 *
 * Relies on worlds.h. */
#ifndef BS_FROZEN_REFUSALS_H
#define BS_FROZEN_REFUSALS_H

#include "frozen/worlds.h"

/* One wrong call, on values that are there. */
static inline void fz_refuse(fz *z)
{
    bs_graph *g = z->g;
    const bs_value none = {0};
    fz_value *a = fz_pick(z, -1, fz_is_any), *b = fz_pick(z, -1, fz_is_f32), *image = fz_pick(z, -1, fz_is_image),
             *line = fz_pick(z, -1, fz_is_line);
    const bs_value x = a ? a->v : none, y = b ? b->v : none, i = image ? image->v : y, l = line ? line->v : y;
    const bs_router r = z->n_routers ? z->routers[check_below(z->n_routers)].r : (bs_router){fz_between(0, 3)};
    const int32_t what = check_below(44);
    fz_has(z, FZ_REFUSED_FEATURE);
    fz_say(z, "wrong call %d on v%d v%d v%d v%d", what, x.id, y.id, i.id, l.id);
    switch (what) {
    case 0:
        bs_add(g, x, (bs_value){99999});
        break;
    case 1:
        bs_mul(g, x, bs_constant(g, "wrong", BS_F32, BS_SHAPE2(991, 13)));
        break;
    case 2:
        bs_linear(g, y, &(bs_linear_desc){.name = "wrong", .out = -fz_between(0, 3)});
        break;
    case 3:
        bs_conv2d(g, i, &(bs_conv2d_desc){.name = "wrong", .out = 7, .groups = 5});
        break;
    case 4:
        bs_conv2d(g, i, &(bs_conv2d_desc){.name = "wrong", .out = 4, .kernel = 999, .padding = BS_PAD_VALID});
        break;
    case 5:
        bs_conv2d(g, i, &(bs_conv2d_desc){.name = "wrong", .out = 4, .pad = 2});
        break;
    case 6:
        bs_conv2d(g, l, &(bs_conv2d_desc){.name = "wrong", .out = 4, .act = 77});
        break;
    case 7:
        bs_pixel_shuffle(g, i, 7);
        break;
    case 8:
        bs_clip(g, y, 2, -2);
        break;
    case 9:
        bs_activation(g, y, BS_PRELU, 0);
        break;
    case 10:
        bs_reduce(g, y, &(bs_reduce_desc){.axis = fz_between(4, 9)});
        break;
    case 11:
        bs_topk(g, l, 5000, NULL);
        break;
    case 12:
        bs_slice(g, y, &(bs_slice_desc){.axis = 0, .start = 900, .length = 300});
        break;
    case 13:
        bs_reshape(g, y, BS_SHAPE2(fz_between(5000, 7000), 3));
        break;
    case 14:
        bs_transpose(g, y, &(bs_transpose_desc){.order = {0, 0, 0}});
        break;
    case 15:
        bs_matmul(g, l, l, NULL);
        break;
    case 16:
        bs_gather_rows(g, y, y);
        break;
    case 17:
        bs_assemble(g, l);
        break;
    case 18:
        bs_collect(g, bs_input(g, "wrong", BS_F32, BS_SHAPE2(3, 4)));
        break;
    case 19:
        bs_rows(g, a && a->domain ? x : none, none);
        break;
    case 20:
        bs_patches(g, l, &(bs_patches_desc){.size = 9999});
        break;
    case 21:
        bs_route(g, l, none, &(bs_route_desc){.name = "wrong", .paths = 40000});
        break;
    case 22:
        bs_route(g, l, none, &(bs_route_desc){.name = "wrong", .paths = 977});
        break;
    case 23:
        bs_scatter(g, r, 500, x);
        break;
    case 24:
        bs_scatter(g, (bs_router){4000}, 0, x);
        break;
    case 25:
        bs_gather(g, r, (const bs_value[FZ_PATHS]){{0}}, none, NULL);
        break;
    case 26:
        bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "wrong", .bound = 0});
        break;
    case 27:
        bs_loop_begin(g, x, y, &(bs_loop_desc){.name = "wrong", .bound = 3});
        break;
    case 28:
        bs_loop_end(g, r, none);
        break;
    case 29:
        bs_output(g, "wrong", a && a->domain ? x : none);
        break;
    case 30:
        bs_input(g, z->n_inputs ? z->inputs[0].name : "", BS_F32, BS_SHAPE1(3));
        break;
    case 31:
        bs_input(g, "wrong", BS_F32, bs_shape_of(fz_between(5, 9), 1, 2, 3, 4));
        break;
    case 32:
        bs_state_write(g, x, y);
        break;
    case 33:
        bs_attention(g, l, l, l, none, none, none, NULL);
        break;
    case 34:
        bs_segment_reduce(g, l, NULL);
        break;
    case 35:
        bs_resize(g, i, &(bs_resize_desc){.factor = 700});
        break;
    case 36:
        bs_pool2d(g, i, &(bs_pool2d_desc){.padding = BS_PAD_EXPLICIT, .pad = 40});
        break;
    case 37:
        bs_deconv2d(g, i, &(bs_deconv2d_desc){.name = "wrong", .out = 3, .stride = 2, .output_pad = 2});
        break;
    case 38:
        bs_lstm(g, l, l, l, &(bs_recurrent_desc){.name = "wrong", .projected = 1}, NULL);
        break;
    case 39:
        bs_concat(g, (const bs_value[2]){x, i}, 2, 3);
        break;
    case 40:
        bs_where(g, y, y, y);
        break;
    case 41:
        bs_nms(g, y, l, &(bs_nms_desc){.iou_threshold = 1.5f});
        break;
    case 42:
        bs_block_begin(g, "open");
        break;
    default:
        bs_rope(g, l, l, NULL);
        break;
    }
}

/* What the planner refuses, or a session. */
static inline void fz_spoil(fz *z)
{
    const int32_t what = check_below(7);
    fz_tensor *t = z->n_tensors ? &z->tensors[check_below(z->n_tensors)] : NULL;
    fz_has(z, FZ_REFUSED_FEATURE);
    fz_say(z, "spoilt: %d, %s", what, t ? t->name : "");
    switch (what) {
    case 0:
        z->plan.n_forces = 1, z->plan.forces[0] = (bs_force){"nobody", 0};
        break;
    case 1:
        z->plan.patch_size = -3;
        break;
    case 2:
        z->plan.conv = 9;
        break;
    case 3:
        if (t)
            t->name = t->t.name = "lost";
        break;
    case 4:
        if (t)
            t->t.dim[0]++;
        break;
    case 5:
        if (t)
            t->t.dtype = t->t.dtype == BS_I32 ? BS_F32 : BS_I8;
        break;
    default:
        if (z->n_inputs)
            z->inputs[0].dim[0]++;
        break;
    }
}

#endif
