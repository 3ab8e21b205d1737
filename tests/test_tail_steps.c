/* tags: small asan tsan */
/* Promises: a step of a tail may be a softmax of lines, a choice, or a change of type, also one that changes how many
 * bytes an element has, behind any kernel that makes whole rows (plan/tails.c), and a pixel shuffle behind a
 * convolution of whole images: at the root, on rows and in tiles, in bands of three threads, in every tier. The bytes
 * are those of one kernel after the other, also of a plan that was saved and opened again; scratch is what the plan
 * says, and an image that says less is refused. */
#include "net.h"
#include "plan_image.h"
#include "tail_nets.h"

enum { CHANNELS = 8, HEIGHT = 70, WIDTH = 13, ELEMENTS = CHANNELS * HEIGHT * WIDTH, ROWS = 3 };
enum { WIDE_HEIGHT = 22, WIDE_WIDTH = 600 }; /* four lines do not stay near */
enum { RESULT = ELEMENTS * 48 * 4 };
static BS_ALIGNED uint8_t persistent[8 << 20], transient[4 << 20], staging[1 << 20];
static bs_memory memory;
static bs_error error;
static net_table weights;
static float x[ROWS * ELEMENTS], wide[CHANNELS * WIDE_HEIGHT * WIDE_WIDTH], *given = x;
static uint8_t y[2][RESULT];

/* Where the input's rows are: an image, three of them, cells of one, lines of the last dimension. */
typedef enum step_cells { ROOT, IN_ROWS, TILES, LINES, STEP_CELLS } step_cells;
static const char *const cells_name[] = {"the root", "rows", "tiles", "lines"};

typedef struct step_net {
    const char *what;
    bs_value (*build)(bs_graph *g, bs_value x);
    int32_t steps;
    uint32_t cells; /* bits */
} step_net;
#define IN(cells) (1u << (cells))
#define IMAGES    (IN(ROOT) | IN(IN_ROWS) | IN(TILES))

static bs_value conv(bs_graph *g, bs_value in)
{
    return bs_conv2d(g, in, &(bs_conv2d_desc){.name = "conv", .out = CHANNELS, .kernel = 3});
}

static bs_value to(bs_graph *g, bs_value in, bs_dtype dtype, float scale)
{
    return bs_convert(g, in, &(bs_convert_desc){.dtype = (int32_t)dtype, .scale = scale});
}

static bs_value most(bs_graph *g, bs_value in)
{
    return bs_reduce(g, in, &(bs_reduce_desc){.kind = BS_REDUCE_MAX, .keep = 1});
}

static bs_value step_softmax(bs_graph *g, bs_value in) { return bs_mul(g, bs_softmax(g, conv(g, in)), in); }
static bs_value step_line_softmax(bs_graph *g, bs_value in)
{
    return bs_softmax(g, bs_add(g, bs_linear(g, in, &(bs_linear_desc){.name = "linear", .out = WIDTH}), in));
}
static bs_value step_behind_norm(bs_graph *g, bs_value in)
{
    return bs_add(g, bs_layer_norm(g, in, &(bs_norm_desc){.name = "norm"}), in);
}
static bs_value step_reduced(bs_graph *g, bs_value in)
{
    return bs_mul(g, in, bs_affine(g, bs_unary(g, most(g, in), BS_UNARY_ABS), 2, 1));
}
static bs_value step_choice(bs_graph *g, bs_value in)
{
    const bs_value part = bs_pool2d(g, in, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 3, .stride = 1,
                                                             .padding = BS_PAD_EXPLICIT, .pad = 1});
    return bs_where(g, bs_compare(g, in, bs_affine(g, in, -1, 0), BS_COMPARE_LESS), part, in);
}
static bs_value step_counts(bs_graph *g, bs_value in)
{
    return to(g, bs_compare(g, conv(g, in), in, BS_COMPARE_LESS), BS_F32, 0.5f);
}
static bs_value step_bits(bs_graph *g, bs_value in)
{
    return to(g, bs_compare(g, in, most(g, in), BS_COMPARE_LESS), BS_F32, 0.5f);
}
static bs_value step_codes(bs_graph *g, bs_value in) { return to(g, bs_add(g, conv(g, in), in), BS_U8, 100); }
static bs_value step_halves(bs_graph *g, bs_value in)
{
    return to(g, bs_activation(g, conv(g, in), BS_GELU, 0), BS_F16, 0);
}
static bs_value step_back(bs_graph *g, bs_value in) /* a second change of bytes stays apart */
{
    return bs_affine(g, to(g, to(g, conv(g, in), BS_U16, 1000), BS_F32, 0.001f), 2, 1);
}
static bs_value step_widens(bs_graph *g, bs_value in) /* the input's codes, with a border */
{
    const bs_value codes = to(g, in, BS_U8, 50), more = bs_resize(g, codes, &(bs_resize_desc){.factor = 2});
    return bs_affine(g, to(g, more, BS_F32, 0.02f), 2, 1);
}
static bs_value step_line_codes(bs_graph *g, bs_value in)
{
    return to(g, bs_linear(g, in, &(bs_linear_desc){.name = "linear", .out = WIDTH}), BS_I8, 100);
}
static bs_value step_resized(bs_graph *g, bs_value in)
{
    const bs_value small = bs_pool2d(g, in, &(bs_pool2d_desc){.kind = BS_POOL_AVERAGE, .kernel = 3, .stride = 1,
                                                              .padding = BS_PAD_EXPLICIT, .pad = 1});
    return bs_add(g, bs_clip(g, bs_resize(g, small, &(bs_resize_desc){.factor = 2}), -1, 1),
                  bs_resize(g, in, &(bs_resize_desc){.factor = 2}));
}
static bs_value step_shuffled(bs_graph *g, bs_value in)
{
    const bs_value many = bs_conv2d(g, in, &(bs_conv2d_desc){.name = "more", .out = 36, .kernel = 1});
    const bs_value large = bs_resize(g, bs_slice(g, in, &(bs_slice_desc){.length = 1}), &(bs_resize_desc){.factor = 6});
    return to(g, bs_add(g, large, bs_pixel_shuffle(g, many, 6)), BS_U8, 100);
}
static bs_value step_shuffled_by_two(bs_graph *g, bs_value in)
{
    const bs_value few = bs_slice(g, in, &(bs_slice_desc){.length = 4}),
                   one = bs_slice(g, in, &(bs_slice_desc){.length = 1}),
                   large = bs_resize(g, one, &(bs_resize_desc){.factor = 2});
    return to(g, bs_add(g, bs_pixel_shuffle(g, few, 2), large), BS_U8, 100);
}
/* A convolution whose result is r times as large, of some channels, behind an activation of its own. */
static bs_value larger(bs_graph *g, bs_value in, const char *name, int32_t r, int32_t channels, int32_t act)
{
    const bs_conv2d_desc desc = {.name = name, .out = channels * r * r, .kernel = 3, .act = act};
    return bs_pixel_shuffle(g, bs_conv2d(g, in, &desc), r);
}
static bs_value step_larger(bs_graph *g, bs_value in) { return larger(g, in, "by_two", 2, CHANNELS, BS_RELU); }
static bs_value step_much_larger(bs_graph *g, bs_value in) { return larger(g, in, "by_four", 4, CHANNELS, 0); }
static bs_value step_larger_sum(bs_graph *g, bs_value in)
{
    const bs_value sum = bs_add(g, larger(g, in, "by_two", 2, CHANNELS, 0),
                                bs_resize(g, in, &(bs_resize_desc){.factor = 2}));
    return bs_conv2d(g, bs_activation(g, sum, BS_GELU, 0), &(bs_conv2d_desc){.name = "conv", .out = CHANNELS});
}
static bs_value step_larger_apart(bs_graph *g, bs_value in) { return larger(g, in, "by_two", 2, CHANNELS, BS_GELU); }
static bs_value step_larger_last(bs_graph *g, bs_value in) /* a sum stands between, so it stays apart */
{
    const bs_value some = bs_conv2d(g, in, &(bs_conv2d_desc){.name = "by_two", .out = 4 * CHANNELS}),
                   more = bs_conv2d(g, in, &(bs_conv2d_desc){.name = "by_two_more", .out = 4 * CHANNELS, .kernel = 1});
    return bs_clip(g, bs_pixel_shuffle(g, bs_add(g, some, more), 2), -0.5f, 0.5f);
}
static bs_value step_larger_halves(bs_graph *g, bs_value in) { return to(g, step_larger(g, in), BS_F16, 0); }
static bs_value step_larger_norm(bs_graph *g, bs_value in)
{
    const bs_conv2d_desc desc = {.name = "normed", .out = 4 * CHANNELS, .batch_norm = 1};
    return bs_pixel_shuffle(g, bs_conv2d(g, in, &desc), 2);
}
static bs_value step_larger_of_many(bs_graph *g, bs_value in) /* whole blocks of the widest tiers */
{
    const bs_value both[] = {in, bs_affine(g, in, 0.5f, 1)}, many = bs_concat(g, both, 2, 0);
    return bs_add(g, larger(g, many, "many_by_two", 2, 32, 0), larger(g, many, "many_by_two", 2, 32, BS_RELU));
}
static bs_value step_larger_shared(bs_graph *g, bs_value in) /* the same weights in the kernel's order and in theirs */
{
    const bs_conv2d_desc desc = {.name = "by_two", .out = 4 * CHANNELS};
    const bs_value all = bs_conv2d(g, bs_affine(g, in, 2, 1), &desc);
    const bs_value few = bs_slice(g, all, &(bs_slice_desc){.start = 3, .length = CHANNELS});
    return bs_add(g, larger(g, in, "by_two", 2, CHANNELS, 0), bs_resize(g, few, &(bs_resize_desc){.factor = 2}));
}
/* Few pixels of many channels: by the direct kernel, though they become more. */
static bs_value step_larger_small(bs_graph *g, bs_value in)
{
    const bs_value small = bs_pool2d(g, in, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 4, .stride = 4});
    return larger(g, bs_conv2d(g, small, &(bs_conv2d_desc){.name = "wide", .out = 72, .kernel = 1}), "wide_by_two", 2,
                  32, 0);
}
static bs_value step_by_three(bs_graph *g, bs_value in) { return larger(g, in, "by_three", 3, CHANNELS, 0); }
static bs_value step_of_few(bs_graph *g, bs_value in) { return larger(g, in, "few_by_two", 2, 3, 0); }

/* in clip(in / 6 + 1 / 2): what the kernel gave is read by two steps. */
static bs_value gate(bs_graph *g, bs_value in)
{
    return bs_mul(g, in, bs_clip(g, bs_affine(g, in, 1.0f / 6, 0.5f), 0, 1));
}
static bs_value step_gate(bs_graph *g, bs_value in) { return gate(g, conv(g, in)); }
/* Nine steps, five of which read what the kernel gave. */
static bs_value step_line_gelu(bs_graph *g, bs_value in)
{
    const bs_value made = bs_linear(g, in, &(bs_linear_desc){.name = "linear", .out = WIDTH});
    const bs_value cubed = bs_mul(g, made, bs_mul(g, made, bs_affine(g, made, 0.044715f, 0)));
    const bs_value t = bs_activation(g, bs_affine(g, bs_add(g, made, cubed), 0.797885f, 0), BS_TANH, 0);
    return bs_mul(g, made, bs_affine(g, bs_affine(g, t, 1, 1), 0.5f, 0));
}
static bs_value step_gate_of_a_sum(bs_graph *g, bs_value in) /* the sum is a step that keeps nothing */
{
    return bs_add(g, gate(g, bs_add(g, conv(g, in), in)), in);
}
static bs_value step_sum_that_keeps(bs_graph *g, bs_value in)
{
    const bs_value made = conv(g, in);
    return bs_mul(g, bs_add(g, made, in), made);
}
static bs_value step_gate_of_a_gate(bs_graph *g, bs_value in) { return gate(g, step_gate(g, in)); }
static bs_value step_gate_in_codes(bs_graph *g, bs_value in) { return to(g, step_gate(g, in), BS_U8, 100); }
static bs_value step_codes_in_a_gate(bs_graph *g, bs_value in)
{
    return gate(g, to(g, to(g, conv(g, in), BS_U8, 100), BS_F32, 0.01f));
}
static bs_value step_gate_apart(bs_graph *g, bs_value in) /* something else reads it, too */
{
    const bs_value made = conv(g, in);
    return bs_add(g, most(g, made), gate(g, made));
}
static bs_value step_square(bs_graph *g, bs_value in)
{
    const bs_value made = bs_affine(g, conv(g, in), 2, -1);
    return bs_mul(g, made, made);
}
static bs_value step_crossed(bs_graph *g, bs_value in) /* the sum is a step of the one, and of the other no more */
{
    const bs_value made = conv(g, in), more = conv(g, bs_affine(g, in, 0.5f, 0));
    const bs_value some = bs_affine(g, made, 2, 1), others = bs_affine(g, more, 3, 1);
    return bs_mul(g, bs_mul(g, bs_add(g, some, others), made), more);
}
/* The first of eleven steps keeps what the kernel gave for the last, which has no room: so it keeps nothing. */
static bs_value step_kept_too_long(bs_graph *g, bs_value in)
{
    const bs_value made = conv(g, in);
    bs_value line = made;
    for (int32_t i = 0; i < 10; i++)
        line = bs_affine(g, line, 0.75f, 0.125f);
    return bs_sub(g, line, made);
}

static const step_net nets[] = {
    {"a gate", step_gate, 3, IN(ROOT) | IN(TILES)},
    {"a gate of rows", step_gate, 2, IN(IN_ROWS)},
    {"a polynomial gate of lines", step_line_gelu, 9, IN(LINES)},
    {"a gate of a sum", step_gate_of_a_sum, 5, IN(ROOT) | IN(TILES)},
    {"a sum that keeps", step_sum_that_keeps, 2, IN(ROOT) | IN(TILES)},
    {"a gate of a gate", step_gate_of_a_gate, 5, IN(ROOT) | IN(TILES)},
    {"a gate, then codes", step_gate_in_codes, 3, IN(ROOT) | IN(TILES)},
    {"codes, then a gate", step_codes_in_a_gate, 4, IN(ROOT) | IN(TILES)},
    {"a gate of what others read", step_gate_apart, 3, IMAGES},
    {"a square", step_square, 2, IN(ROOT) | IN(TILES)},
    {"two that want one step", step_crossed, 4, IN(ROOT) | IN(TILES)},
    {"kept for too long", step_kept_too_long, 10, IN(ROOT) | IN(TILES)},
    {"softmax behind a convolution", step_softmax, 2, IN(ROOT) | IN(IN_ROWS)},
    {"softmax behind a sum", step_line_softmax, 2, IN(LINES)},
    {"a sum behind a norm", step_behind_norm, 1, IN(ROOT) | IN(IN_ROWS) | IN(LINES)},
    {"what follows a reduction", step_reduced, 2, IMAGES | IN(LINES)},
    {"a choice", step_choice, 2, IMAGES},
    {"comparisons as numbers", step_counts, 2, IMAGES},
    {"comparisons first", step_bits, 1, IMAGES},
    {"codes", step_codes, 2, IMAGES},
    {"halves", step_halves, 2, IMAGES},
    {"codes and back", step_back, 2, IMAGES},
    {"codes as numbers", step_widens, 2, IMAGES},
    {"codes of lines", step_line_codes, 1, IN(LINES)},
    {"what follows a larger image", step_resized, 2, IN(ROOT) | IN(IN_ROWS)},
    {"codes of a shuffle", step_shuffled, 2, IMAGES},
    {"codes of a shuffle by two", step_shuffled_by_two, 2, IMAGES},
    {"a larger image", step_larger, 1, IN(ROOT) | IN(IN_ROWS)},
    {"a much larger image", step_much_larger, 1, IN(ROOT) | IN(IN_ROWS)},
    {"a larger image, a sum and an activation", step_larger_sum, 3, IN(ROOT) | IN(IN_ROWS)},
    {"a larger image behind an activation", step_larger_apart, 1, IN(ROOT) | IN(IN_ROWS)},
    {"a larger image behind a sum", step_larger_last, 2, IN(ROOT) | IN(IN_ROWS)},
    {"halves of a larger image, apart", step_larger_halves, 1, IN(ROOT) | IN(IN_ROWS)},
    {"a larger image with a norm", step_larger_norm, 1, IN(ROOT) | IN(IN_ROWS)},
    {"two larger images of many channels", step_larger_of_many, 3, IN(ROOT)},
    {"a larger image with another's weights", step_larger_shared, 2, IN(ROOT) | IN(IN_ROWS)},
    {"a larger image of few pixels", step_larger_small, 1, IN(ROOT)},
    {"larger patches", step_larger, 0, IN(TILES)},
    {"three times as large", step_by_three, 0, IMAGES},
    {"a larger image of few channels", step_of_few, 0, IMAGES},
};
#define NETS ((int32_t)(sizeof nets / sizeof *nets))

static void weigh(void)
{
    const int64_t one[1] = {WIDTH}, square[2] = {WIDTH, WIDTH};
    net_conv(&weights, "conv.weight", "conv.bias", CHANNELS, CHANNELS, 3);
    static const char *const norm[] = {"normed.bn.weight", "normed.bn.bias", "normed.bn.mean"};
    const int64_t normed[1] = {4 * CHANNELS};
    net_conv(&weights, "more.weight", "more.bias", 36, CHANNELS, 1);
    net_conv(&weights, "by_two.weight", "by_two.bias", 4 * CHANNELS, CHANNELS, 3);
    net_conv(&weights, "by_two_more.weight", "by_two_more.bias", 4 * CHANNELS, CHANNELS, 1);
    net_conv(&weights, "by_four.weight", "by_four.bias", 16 * CHANNELS, CHANNELS, 3);
    net_conv(&weights, "by_three.weight", "by_three.bias", 9 * CHANNELS, CHANNELS, 3);
    net_conv(&weights, "few_by_two.weight", "few_by_two.bias", 12, CHANNELS, 3);
    net_conv(&weights, "many_by_two.weight", "many_by_two.bias", 128, 2 * CHANNELS, 3);
    net_conv(&weights, "wide.weight", "wide.bias", 72, CHANNELS, 1);
    net_conv(&weights, "wide_by_two.weight", "wide_by_two.bias", 128, 72, 3);
    net_conv(&weights, "normed.weight", "normed.bias", 4 * CHANNELS, CHANNELS, 3);
    for (int32_t i = 0; i < 3; i++)
        net_add(&weights, norm[i], 1, normed, 1);
    net_add(&weights, "normed.bn.var", 1, normed, 1);
    for (float *w = weights.next - 4 * CHANNELS; w < weights.next; w++)
        *w = *w * *w + 0.5f;
    net_add(&weights, "linear.weight", 2, square, 0.3f);
    net_add(&weights, "linear.bias", 1, one, 0.3f);
    net_add(&weights, "norm.weight", 1, one, 1);
    net_add(&weights, "norm.bias", 1, one, 0.1f);
}

static bs_graph *graph_of(const step_net *of, step_cells cells)
{
    static const bs_value none = {0};
    memset(&error, 0, sizeof error);
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    const bs_value in = bs_input(g, "x", BS_F32, cells == IN_ROWS ? BS_SHAPE4(ROWS, CHANNELS, HEIGHT, WIDTH)
                                                : cells == LINES ? BS_SHAPE2(CHANNELS * HEIGHT, WIDTH)
                                                                 : BS_SHAPE3(CHANNELS, HEIGHT, WIDTH));
    const bs_value from = cells == IN_ROWS || cells == LINES ? bs_rows(g, in, none)
                          : cells == TILES ? bs_patches(g, in, &(bs_patches_desc){.size = 16}) : in;
    const bs_value made = of->build(g, from);
    bs_output(g, "y", cells == TILES ? bs_assemble(g, made) : cells == ROOT ? made : bs_collect(g, made));
    return g;
}

/* Runs a plan; nothing behind the scratch that it asked for is touched. */
static bool run(const bs_graph *g, const bs_plan *plan, uint8_t *result)
{
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    const bs_value_info *out = &g->values[bs_node_in(g, &g->nodes[bs_graph_named(g, "y", false)])[0]],
                        *in = &g->values[g->nodes[bs_graph_named(g, "x", false)].first_out];
    bs_buffer from = {given, BS_F32, in->rank, {0}, {0}}, to_bytes = {result, out->dtype, out->rank, {0}, {0}};
    bs_sizes sizes;
    for (int32_t d = 0; d < in->rank; d++)
        from.dim[d] = bs_dim_max(g, in->dims[d]);
    for (int32_t d = 0; d < out->rank; d++)
        to_bytes.dim[d] = bs_dim_max(g, out->dims[d]);
    if (!plan)
        return false;
    bs_plan_sizes(plan, &sizes);
    memset(transient, 0xFF, sizeof transient); /* NaN */
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    memset(result, 0x55, RESULT);
    bs_session *s = bs_session_create(&memory, plan, &with, &error);
    const bool ran = s && bs_bind(s, "x", &from, &error) == BS_OK && bs_bind(s, "y", &to_bytes, &error) == BS_OK &&
                     bs_run(s, &error) == BS_OK;
    bs_session_close(s);
    const uint8_t *behind = transient + sizes.transient + BS_ALIGNMENT, *end = transient + sizeof transient;
    return ran && *behind == 0xFF && memcmp(behind, behind + 1, (size_t)(end - behind) - 1) == 0;
}

static void test_net(const step_net *of, step_cells cells, bs_plan_desc desc)
{
    static plan_image image;
    bs_graph *g = graph_of(of, cells);
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    const int32_t steps = plan ? tail_steps(plan) : -1;
    char what[128];
    snprintf(what, sizeof what, "%s, %s, order %d, tier %d, %d threads", of->what, cells_name[cells], desc.order,
             desc.tier, desc.threads);
    check(steps == of->steps && run(g, plan, y[0]), "%s: %d steps: %s", what, steps, error.message);
    const bs_plan *again = plan && plan_image_save(&image, plan) ? plan_image_open(&image, g) : NULL;
    check(again && run(g, again, y[1]) && memcmp(y[0], y[1], RESULT) == 0, "%s: the same bytes of its image: %s%s",
          what, error.message, image.error.message);
    plan_image_free(&image);
    g = graph_of(of, cells);
    desc.no_fusion = 1;
    plan = bs_plan_create(&memory.persistent, NULL, g, &desc, &error);
    check(plan && tail_steps(plan) == 0 && run(g, plan, y[1]) && memcmp(y[0], y[1], RESULT) == 0,
          "%s: the same bytes without tails: %s", what, error.message);
}

/* What the planner leaves apart: large rows of no image, and images that the first kernel makes without bands. */
static void test_apart(void)
{
    for (int32_t k = 0; k < 2; k++) {
        bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
        bs_graph *g = bs_graph_create(&memory.persistent, NULL);
        const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE2(2000, WIDTH));
        bs_output(g, "y", k ? bs_affine(g, bs_reshape(g, in, BS_SHAPE3(20, 100, WIDTH)), 2, 1)
                            : to(g, bs_affine(g, in, 2, 1), BS_I8, 1));
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
        check(plan && tail_steps(plan) == 0, k ? "an image made at once" : "a large matrix: what changes its bytes");
    }
}

/* Rows of which a task has more than is taken at a time. */
static void test_many_rows(void)
{
    static const bs_value none = {0};
    bool ran = true;
    int32_t steps = -1;
    given = wide;
    for (int32_t k = 0; k < 2; k++) {
        bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
        bs_graph *g = bs_graph_create(&memory.persistent, NULL);
        const bs_value in = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(40, 2000)), none);
        bs_output(g, "y", bs_collect(g, to(g, bs_affine(g, in, 2, 1), BS_I8, 100)));
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &(bs_plan_desc){.no_fusion = k}, &error);
        ran = ran && run(g, plan, y[k]);
        steps = plan && k == 0 ? tail_steps(plan) : steps;
    }
    given = x;
    check(ran && steps == 1 && memcmp(y[0], y[1], RESULT) == 0, "many rows: the same bytes: %s", error.message);
}

/* Lines of which those of a tile of the Winograd algorithm are more than is taken at a time: they are not cut. */
static void test_wide(int32_t choice)
{
    int32_t steps[2] = {-1, -1};
    bool ran = true;
    given = wide;
    for (int32_t k = 0; k < 2; k++) {
        bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
        bs_graph *g = bs_graph_create(&memory.persistent, NULL);
        const bs_value in = bs_input(g, "x", BS_F32, BS_SHAPE3(CHANNELS, WIDE_HEIGHT, WIDE_WIDTH));
        bs_output(g, "y", to(g, conv(g, in), BS_F16, 0));
        const bs_plan_desc d = {.conv = choice, .no_fusion = k};
        const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &d, &error);
        ran = ran && run(g, plan, y[k]);
        steps[k] = plan ? tail_steps(plan) : -1;
    }
    given = x;
    check(ran && steps[0] == 1 && steps[1] == 0 && memcmp(y[0], y[1], RESULT) == 0,
          "wide lines, algorithm %d: %d steps, the same bytes: %s", choice, steps[0], error.message);
}

/* A plan does not grow by what a thread keeps of a line; an image that says that it keeps less is refused. */
static void test_bytes(void)
{
    static plan_image image;
    const step_net codes = {"codes", step_codes, 2, IMAGES};
    bs_sizes with, without;
    bs_graph *g = graph_of(&codes, ROOT);
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, &(bs_plan_desc){.threads = 1}, &error);
    bs_plan_sizes(plan, &with);
    const bool saved = plan && plan_image_save(&image, plan);
    int32_t refused = 0, places = 0;
    uint64_t scratch = 0;
    for (int32_t n = 1; plan && n < plan->graph->n_nodes; n++)
        scratch = bs_max_u64(scratch, bs_bytes_figure(plan->nodes[n].scratch_bytes));
    for (size_t i = 0; saved && i + 8 <= image.size; i += 4) {
        uint64_t here, less = scratch - BS_ALIGNMENT;
        memcpy(&here, image.bytes + i, 8);
        if (here != scratch || i < 16)
            continue;
        memcpy(image.bytes + i, &less, 8);
        plan_image_mend(&image);
        places++;
        refused += plan_image_open(&image, g) == NULL;
        memcpy(image.bytes + i, &here, 8);
    }
    check(scratch > 0 && places > 0 && refused == places, "an image with less scratch is refused: %d of %d", refused,
          places);
    plan_image_free(&image);
    g = graph_of(&codes, ROOT);
    plan = bs_plan_create(&memory.persistent, NULL, g, &(bs_plan_desc){.threads = 1, .no_fusion = 1}, &error);
    bs_plan_sizes(plan, &without);
    check(with.transient <= without.transient, "%llu bytes of activations and scratch, %llu without tails",
          (unsigned long long)with.transient, (unsigned long long)without.transient);
}

int main(void)
{
    check_seed(7);
    weigh();
    for (int32_t i = 0; i < ROWS * ELEMENTS; i++)
        x[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t i = 0; i < NETS; i++)
        for (int32_t cells = 0; cells < STEP_CELLS; cells++) {
            if (!(nets[i].cells & IN(cells)))
                continue;
            for (int32_t threads = 1; threads <= 3; threads += 2)
                for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++)
                    test_net(&nets[i], (step_cells)cells, (bs_plan_desc){.threads = threads, .order = order});
            test_net(&nets[i], (step_cells)cells, (bs_plan_desc){.tier = BS_TIER_SCALAR});
        }
    for (int32_t i = 0; i < CHANNELS * WIDE_HEIGHT * WIDE_WIDTH; i++)
        wide[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (int32_t choice = 0; choice <= BS_CONV_FORCE_REFERENCE; choice++)
        test_wide(choice);
    test_apart();
    test_many_rows();
    test_bytes();
    return check_end();
}
