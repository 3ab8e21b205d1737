/* wild_calls.h - any builder call with any operands and any numbers, as the bytes of a fuzzer's input say. A builder
 * function that only makes a node of its op needs no case here: numbered_call() makes any.
 *
 * Owns: the graph that is built and the bytes that are left. Relies on: fuzz.h.
 * Must never: know what a call will be refused for. */
#ifndef FUZZ_WILD_CALLS_H
#define FUZZ_WILD_CALLS_H

#include "fuzz.h"

#include <math.h>

enum { WILD_CALLS = 70, WILD_SYMBOLS = 8 };

typedef struct wild {
    bs_graph *g;
    fuzz_bytes in;
    bs_dim symbols[WILD_SYMBOLS];
    int32_t n_symbols, n_names, n_blocks;
    char names[WILD_CALLS * 4][16];
} wild;

static wild w;

static inline int32_t number(void)
{
    static const int32_t odd[32] = {-1,      -2,      INT32_MAX, INT32_MIN, 8,    9,      16,         17,
                                    31,      32,      33,        63,        64,   65,     127,        128,
                                    255,     256,     1000,      4096,      8192, 16384,  65535,      65536,
                                    1 << 20, 1 << 24, 1 << 30,   -3,        -64,  -65536, 0x7fc00000, 0x3f800000};
    const uint8_t n = fuzz_u8(&w.in);
    return n < 160 ? n % 5 : n < 224 ? n - 160 : odd[n - 224];
}

static inline int32_t positive(void)
{
    const int32_t n = number();
    return n == INT32_MAX ? n : n + 1;
}

static inline float real(void)
{
    static const float odd[8] = {NAN, INFINITY, -INFINITY, 1e38f, -1e-38f, 0.5f, 1e9f, -1e9f};
    const uint8_t n = fuzz_u8(&w.in);
    return n < 8 ? odd[n] : (float)((int)n - 100) / 16.0f;
}

/* A value: a young one, any, or none that there is. */
static inline bs_value value(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    const int32_t last = w.g->n_values - 1;
    if (n >= 250 || last < 1)
        return (bs_value){n == 255 ? INT32_MIN : n == 254 ? last + 1 : n == 253 ? INT32_MAX : n == 252 ? -1 : 0};
    return (bs_value){n < 180 ? last - n % (last < 6 ? last : 6) : 1 + n % last};
}

static inline bs_router router(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    return (bs_router){n >= 248 ? (n - 250) * 17 : w.g->n_routers > 1 ? 1 + n % (w.g->n_routers - 1) : 1};
}

static const char *name(void)
{
    static const char *const odd[] = {NULL,    "",
                                      "a",     "a.weight",
                                      "frame", "0123456789012345678901234567890123456789012345678901234567890123456789",
                                      "%s%n",  "\xff"};
    const uint8_t n = fuzz_u8(&w.in);
    if (n >= 248)
        return odd[n - 248];
    if (n >= 220 && w.n_names)
        return w.names[n % w.n_names];
    if (w.n_names == WILD_CALLS * 4)
        return "last";
    char *text = w.names[w.n_names++];
    snprintf(text, sizeof w.names[0], "n%d", w.n_names);
    return text;
}

static inline bs_dim dim(void)
{
    static const bs_dim odd[8] = {-1,        0,         (bs_dim)1 << 30, ((bs_dim)1 << 30) + 1,
                                  INT64_MAX, INT64_MIN, BS_UPTO(0),      BS_UPTO((int64_t)1 << 40)};
    const uint8_t n = fuzz_u8(&w.in);
    if (n >= 248)
        return odd[n - 248];
    if (n >= 200)
        return BS_UPTO(n - 199);
    if (n >= 120 && w.n_symbols)
        return n >= 180 ? bs_times(w.g, w.symbols[n % w.n_symbols], number()) : w.symbols[n % w.n_symbols];
    return 1 + n % 24;
}

static inline bs_shape shape(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    bs_shape s = {n >= 250 ? n - 249 : 1 + n % 4, {0}};
    for (int32_t i = 0; i < BS_MAX_AXES && i < s.rank; i++)
        s.dim[i] = dim();
    return s;
}

static inline bs_value in_branch(bs_graph *g, bs_value x, void *user)
{
    const uint8_t n = *(const uint8_t *)user;
    return n & 1 ? bs_activation(g, x, (bs_act)(n >> 1 & 15), 0.5f) : n & 2 ? bs_affine(g, x, 2, 1) : x;
}

static inline bs_dtype dtype(void)
{
    const uint8_t n = fuzz_u8(&w.in);
    return n < 100 ? BS_F32 : (bs_dtype)(n >= 250 ? n - 252 : n % BS_DTYPE_COUNT);
}

static inline void source_call(void)
{
    const uint8_t kind = fuzz_u8(&w.in);
    const char *called = name();
    if (kind < 128) {
        const bs_dtype type = dtype();
        bs_input(w.g, called, type, shape());
    } else if (kind < 160) {
        const bs_dtype type = dtype();
        bs_state(w.g, called, type, shape());
    } else if (kind < 190) {
        const bs_dtype type = dtype();
        bs_constant(w.g, called, type, shape());
    } else if (w.n_symbols < WILD_SYMBOLS) {
        w.symbols[w.n_symbols++] = bs_symbol(w.g, called, kind >= 250 ? (int64_t)fuzz_u32(&w.in) << 20 : 1 + kind % 40);
    }
}

/* What an input's bytes said before there was a field for it; now and then a pad that is not read, or a padding that is
 * none. */
static inline int32_t padding(int32_t *pad)
{
    if (*pad % 16 == 15)
        return *pad / 16;
    if (*pad != -1)
        return *pad == 0 ? BS_PAD_DEFAULT : BS_PAD_EXPLICIT;
    *pad = 0;
    return BS_PAD_VALID;
}

static inline bs_value image_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: {
        bs_conv2d_desc d = {name(),   number(), number(), number(), number(), number(), number(),
                            number(), number(), number(), number(), number(), real(),   0,        positive(), 0,
                            positive(), 0,        number(), number(), number(), number()};
        d.padding = padding(&d.pad);
        return bs_conv2d(w.g, x, &d);
    }
    case 1: return bs_conv2d(w.g, x, &(bs_conv2d_desc){.name = name(), .out = positive(), .act = number()});
    case 2: {
        bs_deconv2d_desc d = {name(), number(), number(), number(), number(), number(), number(), number(), real(), 0};
        d.padding = padding(&d.pad);
        return bs_deconv2d(w.g, x, &d);
    }
    case 3: return bs_pixel_shuffle(w.g, x, number());
    case 4: return bs_pixel_unshuffle(w.g, x, number());
    case 5: {
        bs_pool2d_desc d = {name(), number(), number(), number(), number(), number(), number(),   0, number(),
                            0,      number(), 0,        number(), 0,        number(), positive(), 0, number()};
        d.padding = padding(&d.pad);
        return bs_pool2d(w.g, x, &d);
    }
    case 6: return bs_resize(w.g, x, &(bs_resize_desc){name(), number(), number(), real(), number(), 0, 0, 0, 0, 0});
    case 7: return bs_pad(w.g, x, &(bs_pad_desc){name(), number(), number(), number(), number(), real(), number()});
    case 8: return bs_batch_norm(w.g, x, &(bs_norm_desc){name(), real()});
    case 9: {
        bs_conv2d_desc d = {.name = name(), .out = positive(), .kernel = number(), .dilation_w = number(),
                            .pad_left = number()};
        d.padding = padding(&d.pad);
        return bs_conv1d(w.g, x, &d);
    }
    case 10: {
        bs_pool2d_desc d = {.name = name(), .kernel = number(), .stride_w = number(), .pad_right = number()};
        d.padding = padding(&d.pad);
        return bs_pool1d(w.g, x, &d);
    }
    default: return bs_patch_features(w.g, x, value(), &(bs_patch_features_desc){name(), number(), number()});
    }
}

static inline bs_value line_call(uint8_t which)
{
    const bs_value x = value();
    bs_value list[BS_MAX_OPERANDS + 2] = {x}, top;
    const int32_t count = 1 + fuzz_below(&w.in, 10);
    switch (which) {
    case 0: return bs_linear(w.g, x, &(bs_linear_desc){name(), number(), number(), number(), real()});
    case 1: return bs_matmul(w.g, x, value(), &(bs_matmul_desc){name(), number(), real()});
    case 2: return bs_add(w.g, x, value());
    case 3: return bs_sub(w.g, x, value());
    case 4: return bs_mul(w.g, x, value());
    case 5: return bs_activation(w.g, x, (bs_act)number(), real());
    case 6: return bs_prelu(w.g, x, name());
    case 7: return bs_clip(w.g, x, real(), real());
    case 8: return bs_affine(w.g, x, real(), real());
    case 9: return bs_convert(w.g, x, &(bs_convert_desc){name(), number(), real(), number()});
    case 10:
        for (int32_t i = 1; i < count; i++)
            list[i] = value();
        return bs_concat(w.g, list, count, number());
    case 11: return bs_slice(w.g, x, &(bs_slice_desc){name(), number(), number(), number()});
    case 12: return bs_reshape(w.g, x, shape());
    case 13: {
        const bs_transpose_desc desc = {name(), {number(), number(), number(), number(), number(), number()}};
        return bs_transpose(w.g, x, &desc);
    }
    case 14: return bs_softmax(w.g, x);
    case 15: return bs_layer_norm(w.g, x, &(bs_norm_desc){name(), real()});
    case 16: return bs_reduce(w.g, x, &(bs_reduce_desc){name(), number(), number(), number(), 0});
    case 17: return bs_argmax(w.g, x);
    case 18: return bs_topk(w.g, x, number(), &top);
    default: return bs_gather_rows(w.g, x, value());
    }
}

/* Of op set 4. */
static inline bs_value new_line_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: return bs_reduce(w.g, x, &(bs_reduce_desc){name(), number(), number(), number(), number()});
    case 1: return bs_argmin(w.g, x);
    case 3: return bs_segment_index(w.g, x, value());
    case 4: return bs_segment_index(w.g, x, (bs_value){0});
    case 5: return bs_rope(w.g, x, value(), &(bs_rope_desc){name(), number(), number(), real(), number()});
    case 6: return bs_rope(w.g, x, bs_segment_index(w.g, x, (bs_value){0}), NULL);
    case 7: return bs_lrn(w.g, x, &(bs_lrn_desc){name(), number(), real(), real(), real()});
    case 2: return bs_cumsum(w.g, x, &(bs_cumsum_desc){name(), number(), number(), number()});
    case 8:
        return bs_resize(w.g, x, &(bs_resize_desc){name(), number(), number(), real(), number(), number(), number(),
                                                   number(), number(), number()});
    case 9: return bs_select(w.g, x, value(), number());
    case 10: return bs_gather_elements(w.g, x, value(), number());
    case 11: return bs_scatter_elements(w.g, x, value(), value(), &(bs_update_desc){name(), number(), number()});
    case 12: return bs_scatter_rows(w.g, x, value(), value(), &(bs_update_desc){name(), number(), number()});
    case 13: return bs_roll(w.g, x, &(bs_roll_desc){name(), number(), number()});
    case 14: return bs_unary(w.g, x, (bs_unary_kind)number());
    case 15: return bs_binary(w.g, x, value(), (bs_binary_kind)number());
    case 16: return bs_compare(w.g, x, value(), (bs_compare_kind)number());
    case 17: return bs_where(w.g, x, value(), value());
    case 19: return bs_arange(w.g, x, value(), value(), &(bs_extent_desc){name(), number()});
    case 20: return bs_nonzero(w.g, x, &(bs_extent_desc){name(), number()});
    case 21: return bs_unique(w.g, x, &(bs_extent_desc){name(), number()}, NULL);
    case 22: return bs_nms(w.g, x, value(), &(bs_nms_desc){name(), number(), number(), real(), real(), number()});
    case 23: return bs_nms(w.g, x, value(), &(bs_nms_desc){.name = name(), .max_each = number()});
    default: return bs_rms_norm(w.g, x, &(bs_norm_desc){name(), real()});
    }
}

static inline bs_value cell_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: return bs_rows(w.g, x, value());
    case 1: return bs_rows(w.g, x, (bs_value){0});
    case 2: return bs_collect(w.g, x);
    case 3: return bs_segments(w.g, x, value());
    case 4: return bs_segment_spread(w.g, x, value());
    case 5: return bs_segment_reduce(w.g, x, &(bs_segment_reduce_desc){name(), number(), number()});
    case 6:
        return bs_attention(w.g, x, value(), value(), value(), value(), value(),
                            &(bs_attention_desc){.name = name(), .heads = number(), .alibi = number()});
    case 7:
        return bs_attention(w.g, x, x, value(), (bs_value){0}, (bs_value){0}, (bs_value){0},
                            &(bs_attention_desc){.name = name(), .heads = number(), .alibi = number()});
    case 8: return bs_patches(w.g, x, &(bs_patches_desc){name(), number(), BS_NONE});
    case 9: return bs_patches(w.g, x, &(bs_patches_desc){name(), number(), value()});
    case 10: return bs_assemble(w.g, x);
    case 11:
        return bs_attention_masked(w.g, x, value(), value(), value(), value(), value(), value(),
                                   &(bs_attention_desc){name(), number(), number(), number(), number(), real()});
    default:
        return bs_attention_masked(w.g, x, x, x, (bs_value){0}, (bs_value){0}, (bs_value){0}, value(),
                                   &(bs_attention_desc){name(), number(), number(), number(), 1, real()});

    }
}

static inline void route_call(uint8_t which)
{
    const bs_value x = value();
    static bs_value list[BS_MAX_PATHS]; /* none beyond the first ones */
    uint8_t user;
    switch (which) {
    case 0:
        bs_route(w.g, x, value(),
                 &(bs_route_desc){name(), number(), number(), number(), real(), {number()}, {number()}, number(),
                                  number(), number()});
        break;
    case 1:
        bs_route(w.g, x, (bs_value){0},
                 &(bs_route_desc){.name = name(), .protocol = number(), .paths = positive(), .k = 1});
        break;
    case 2:
    case 3: bs_scatter(w.g, router(), number(), x); break;
    case 4: bs_route_price(w.g, router()); break;
    case 5: bs_route_score(w.g, router()); break;
    case 6: bs_look_ahead(w.g, x, name()); break;
    case 7:
        user = fuzz_u8(&w.in);
        bs_branch(w.g, router(), number(), name(), x, in_branch, &user);
        break;
    default: {
        const bs_router r = router();
        for (int32_t p = 0; p < 4; p++)
            list[p] = value();
        bs_gather(w.g, r, list, fuzz_flip(&w.in, 100) ? value() : (bs_value){0}, &(bs_gather_desc){name(), number()});
    }
    }
}

static inline void recurrent_call(bs_value x)
{
    const bs_recurrent_desc desc = {name(), number(), number()};
    bs_value c;
    if (fuzz_flip(&w.in, 100))
        bs_gru(w.g, x, value(), &desc);
    else
        bs_lstm(w.g, x, value(), value(), &desc, &c);
}

static inline void end_call(uint8_t which)
{
    const bs_value x = value();
    switch (which) {
    case 0: bs_state_write(w.g, x, value()); break;
    case 1: bs_state_append(w.g, x, value(), value()); break;
    case 2: bs_block_begin(w.g, name()); break;
    case 3: bs_block_end(w.g); break;
    case 5: recurrent_call(x); break;
    default: bs_output(w.g, name(), x);
    }
}

/* Any op of the table, as a model file has it: what has no case above is called here. */
static inline void numbered_call(void)
{
    const int32_t which = fuzz_below(&w.in, bs_op_count());
    const bs_op *op = bs_op_get(which);
    const int32_t more = bs_min_i32(bs_op_max_in(op), BS_MAX_OPERANDS) - op->min_in,
                  n_in = op->min_in + (more ? fuzz_below(&w.in, more + 1) : 0);
    int32_t in[BS_MAX_OPERANDS];
    struct { const char *name; int32_t field[32]; } params = {name(), {0}};
    for (int32_t i = 0; i < n_in; i++)
        in[i] = value().id;
    for (int32_t i = 0; i < op->n_fields; i++)
        if (op->fields[i].holds == BS_FIELD_FLOAT)
            memcpy(&params.field[i], &(float){real()}, sizeof(float));
        else
            params.field[i] = number();
    bs_op_build_numbered(w.g, which, in, n_in, op->params_bytes ? &params : NULL);
}

static inline void wild_call(void)
{
    const uint8_t kind = fuzz_u8(&w.in) % 16;
    if (kind < 3 || w.g->n_values == 1)
        source_call();
    else if (kind < 6)
        image_call(fuzz_u8(&w.in) % 12);
    else if (kind < 9) {
        const uint8_t which = fuzz_u8(&w.in); /* inputs that were kept mean what they meant */
        if (which < 240)
            line_call(which % 20);
        else
            new_line_call(fuzz_u8(&w.in) % 24);
    } else if (kind < 12) {
        const uint8_t which = fuzz_u8(&w.in);
        if (which < 253)
            cell_call(which < 240 ? which % 11 : 11 + which % 2);
        else
            numbered_call();
    } else if (kind < 14)
        route_call(fuzz_u8(&w.in) % 10);
    else
        end_call(fuzz_u8(&w.in) % 6);
}

#endif
