/* tags: asan */
/* test_symbols.c - any dimension of any op may be a symbol: one graph gives at each extent the bytes of the graph whose
 * dimensions are these extents, and refuses the runs of which no such graph can be built. Where weights hang on a
 * dimension it must be a constant, and a builder says so. Every op that has a kernel is here.
 * Of ops that a GPU computes: test_cuda_suite_symbols.c. */
#include "every_op.h"
#include "net.h"
#include "ops/structure.h"

typedef bs_value (*builder)(bs_graph *g, const bs_value *x);

#define BUILD(function, expression) \
    static bs_value function(bs_graph *g, const bs_value *x) { return expression; }
BUILD(conv, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "w", .out = 3}))
BUILD(conv_1x1, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "w", .out = 5, .kernel = 1, .stride = 2}))
BUILD(conv_wide, bs_conv2d(g, x[0], &(bs_conv2d_desc){.name = "w", .out = 4, .kernel = 5, .padding = BS_PAD_VALID}))
BUILD(deconv, bs_deconv2d(g, x[0], &(bs_deconv2d_desc){.name = "w", .out = 3}))
BUILD(linear, bs_linear(g, x[0], &(bs_linear_desc){.name = "w", .out = 9}))
BUILD(matmul, bs_matmul(g, x[0], x[1], NULL))
BUILD(matmul_turned, bs_matmul(g, x[0], x[1], &(bs_matmul_desc){.transpose_b = 1}))
BUILD(shuffle, bs_pixel_shuffle(g, x[0], 2))
BUILD(unshuffle, bs_pixel_unshuffle(g, x[0], 2))
BUILD(add, bs_add(g, x[0], x[1]))
BUILD(sub, bs_sub(g, x[0], x[1]))
BUILD(mul, bs_mul(g, x[0], x[1]))
BUILD(act, bs_activation(g, x[0], BS_GELU, 0))
BUILD(prelu, bs_prelu(g, x[0], "w"))
BUILD(clip, bs_clip(g, x[0], -0.5f, 0.5f))
BUILD(affine, bs_affine(g, x[0], 2, 1))
BUILD(to_u8, bs_convert(g, x[0], &(bs_convert_desc){.dtype = BS_U8, .scale = 255}))
BUILD(concat, bs_concat(g, x, 2, 1))
static bs_value slice(bs_graph *g, bs_value x, int32_t axis, int32_t start, int32_t length)
{
    return bs_slice(g, x, &(bs_slice_desc){.axis = axis, .start = start, .length = length});
}
BUILD(concat_tail, bs_concat(g, (bs_value[]){x[0], slice(g, x[0], 1, 1, 0), x[0]}, 3, 1))
BUILD(slice_some, slice(g, x[0], 1, 2, 3))
BUILD(slice_tail, slice(g, x[0], -1, 2, 0))
BUILD(flat, bs_reshape(g, x[0], BS_SHAPE2(-1, 4)))
/* The handle of a dimension. */
static bs_dim dim_of(const bs_graph *g, bs_value x, int32_t d) { return ((bs_dim)1 << 41) + g->values[x.id].dims[d]; }
BUILD(heads, bs_reshape(g, x[0], BS_SHAPE4(dim_of(g, x[0], 0), 2, -1, dim_of(g, x[0], 1))))
BUILD(turn, bs_transpose(g, x[0], &(bs_transpose_desc){.order = {2, 0, 3, 1}}))
BUILD(turn_last, bs_transpose(g, x[0], NULL))
BUILD(pad, bs_pad(g, x[0], &(bs_pad_desc){.top = 1, .right = 2, .value = 3}))
BUILD(pad_reflect, bs_pad(g, x[0], &(bs_pad_desc){.bottom = 3, .left = 2, .edge = BS_EDGE_REFLECT}))
BUILD(softmax, bs_softmax(g, x[0]))
BUILD(layer_norm, bs_layer_norm(g, x[0], &(bs_norm_desc){.name = "w"}))
BUILD(rms_norm, bs_rms_norm(g, x[0], &(bs_norm_desc){.name = "w"}))
BUILD(batch_norm, bs_batch_norm(g, x[0], &(bs_norm_desc){.name = "w"}))
BUILD(lrn, bs_lrn(g, x[0], NULL))
#define POOL(...) bs_pool2d(g, x[0], &(bs_pool2d_desc){__VA_ARGS__})
BUILD(pool, POOL(.kernel = 3, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1))
BUILD(pool_max, POOL(.kind = BS_POOL_MAX, .kernel = 4))
BUILD(pool_global, POOL(.global = 1))
#define RESIZE(...) bs_resize(g, x[0], &(bs_resize_desc){__VA_ARGS__})
BUILD(nearest, RESIZE(.factor = 3))
BUILD(bilinear, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 3, .den = 4))
BUILD(corners, RESIZE(.kind = BS_RESIZE_BICUBIC, .factor = 2, .centres = BS_RESIZE_ALIGN_CORNERS))
BUILD(to_size, RESIZE(.kind = BS_RESIZE_AREA, .height = 3, .width = 5))
BUILD(smooth, RESIZE(.kind = BS_RESIZE_BILINEAR, .factor = 1, .den = 2, .antialias = 1))
#define REDUCE(...) bs_reduce(g, x[0], &(bs_reduce_desc){__VA_ARGS__})
BUILD(sum, REDUCE(.axis = 1))
BUILD(mean, REDUCE(.kind = BS_REDUCE_MEAN, .axis = 0, .axes = 2, .keep = 1))
BUILD(log_sum, REDUCE(.kind = BS_REDUCE_LOG_SUM_EXP, .axis = -1))
BUILD(argmax, bs_argmax(g, x[0]))
BUILD(argmin, bs_argmin(g, x[0]))
BUILD(topk, bs_topk(g, x[0], 3, NULL))
BUILD(cumsum, bs_cumsum(g, x[0], &(bs_cumsum_desc){.axis = 1, .reverse = 1}))
BUILD(gather_rows, bs_gather_rows(g, x[1], x[0]))
BUILD(select, bs_select(g, x[0], x[1], 1))
BUILD(gather_elements, bs_gather_elements(g, x[0], x[1], 1))
BUILD(scatter_elements, bs_scatter_elements(g, x[0], x[1], x[2], &(bs_update_desc){.axis = 1, .update = BS_UPDATE_ADD}))
BUILD(scatter_rows, bs_scatter_rows(g, x[0], x[1], x[2], NULL))
BUILD(roll, bs_roll(g, x[0], &(bs_roll_desc){.axis = 1, .shift = 3}))
BUILD(unary, bs_unary(g, x[0], BS_UNARY_EXP))
BUILD(binary, bs_binary(g, x[0], x[1], BS_BINARY_DIV))
BUILD(compare, bs_compare(g, x[0], x[1], BS_COMPARE_LESS))
BUILD(where, bs_where(g, x[0], x[1], x[2]))
BUILD(nonzero, bs_nonzero(g, x[0], NULL))
BUILD(arange, bs_arange(g, x[0], x[1], x[2], &(bs_extent_desc){"n", 9}))
BUILD(unique, bs_unique(g, x[0], NULL, NULL))
static bs_value unique_counts(bs_graph *g, const bs_value *x)
{
    bs_value of[4];
    bs_unique(g, x[0], NULL, of);
    return of[3];
}
static bs_value unique_inverse(bs_graph *g, const bs_value *x)
{
    bs_value of[4];
    bs_unique(g, x[0], NULL, of);
    return of[2];
}
BUILD(nms, bs_nms(g, x[0], x[1], &(bs_nms_desc){.iou_threshold = 0.25f, .score_above = -0.5f}))
BUILD(features, bs_patch_features(g, x[0], (bs_value){0}, NULL))
BUILD(gru, bs_gru(g, x[0], x[1], &(bs_recurrent_desc){.name = "w"}))
static bs_value lstm(bs_graph *g, const bs_value *x)
{
    bs_value c;
    return bs_add(g, bs_lstm(g, x[0], x[1], x[2], &(bs_recurrent_desc){.name = "w"}, &c), c);
}
static bs_value rope(bs_graph *g, const bs_value *x)
{
    const bs_value rows = bs_rows(g, x[0], (bs_value){0});
    return bs_rope(g, rows, bs_rows(g, x[1], rows), NULL);
}
BUILD(attend, bs_attention(g, x[0], x[0], x[0], (bs_value){0}, (bs_value){0}, (bs_value){0}, NULL))
static bs_value attention(bs_graph *g, const bs_value *x)
{
    return attend(g, &(bs_value){bs_segments(g, x[0], x[1]).id});
}
BUILD(segment_spread, bs_segment_spread(g, x[2], bs_segments(g, x[0], x[1])))
BUILD(segment_reduce,
      bs_segment_reduce(g, bs_segments(g, x[0], x[1]), &(bs_segment_reduce_desc){.mode = BS_SEGMENT_SUM}))
BUILD(segment_index, bs_segment_index(g, bs_segments(g, x[0], x[1]), (bs_value){0}))
static bs_value cells(bs_graph *g, const bs_value *x)
{
    const bs_value y = bs_patches(g, x[0], &(bs_patches_desc){.size = 4});
    return conv(g, &(bs_value){pool_max(g, &(bs_value){conv(g, &y).id}).id});
}

/* shapes: operands, each a type (f32, i32, u8; l: lengths of segments of A rows) and dimensions: letters, or constants.
 * fixed: letters that must be constants; '+': not all others can be symbols at once. why: what the refusal says. */
typedef struct symbol_case {
    const char *name;
    builder build;
    const char *shapes, *fixed, *why;
} symbol_case;

static const char constant[] = "expected a constant";
static const symbol_case cases[] = {
    {"conv2d", conv, "fCAB", "C", constant},
    {"conv2d 1x1", conv_1x1, "fCAB", "C", constant},
    {"conv2d valid", conv_wide, "fCAB", "C", constant},
    {"deconv2d", deconv, "fCAB", "C", constant},
    {"linear", linear, "fABC", "C", constant},
    {"matmul", matmul, "fABC fACD", "", NULL},
    {"matmul, b transposed", matmul_turned, "fABC fADC", "", NULL},
    {"pixel_shuffle", shuffle, "fEAB", "E", constant},
    {"pixel_unshuffle", unshuffle, "fCAB", "C", constant},
    {"add", add, "fAB fAB", "", NULL},
    {"add of a line", add, "fABC fA", "", NULL},
    {"sub of a column", sub, "fAB fA1", "", NULL},
    {"mul of images", mul, "fCAB f1AB", "", NULL},
    {"activation", act, "fABC", "", NULL},
    {"prelu", prelu, "fCAB", "C", constant},
    {"clip", clip, "fABC", "", NULL},
    {"affine", affine, "fABCD", "", NULL},
    {"convert", to_u8, "fABC", "", NULL},
    {"concat", concat, "fAB fAC", "+", "a sum of different symbols"},
    {"concat with what follows", concat_tail, "fAB", "", NULL},
    {"slice", slice_some, "fAB", "", NULL},
    {"slice to the end", slice_tail, "fAB", "", NULL},
    {"reshape", flat, "fAB4", "+", "a product of symbols"},
    {"reshape to heads", heads, "fAB8", "", NULL},
    {"transpose", turn, "fABCD", "", NULL},
    {"transpose of the last", turn_last, "fABC", "", NULL},
    {"pad", pad, "fCAB", "", NULL},
    {"pad by reflection", pad_reflect, "fCAB", "", NULL},
    {"softmax", softmax, "fAB", "", NULL},
    {"layer_norm", layer_norm, "fABC", "C", constant},
    {"rms_norm", rms_norm, "fABC", "C", constant},
    {"batch_norm", batch_norm, "fCAB", "C", constant},
    {"lrn", lrn, "fCAB", "C", constant},
    {"pool2d", pool, "fCAB", "", NULL},
    {"pool2d, maximum", pool_max, "fCAB", "", NULL},
    {"pool2d, global", pool_global, "fCAB", "", NULL},
    {"resize, nearest", nearest, "fCAB", "", NULL},
    {"resize, bilinear", bilinear, "fCAB", "", NULL},
    {"resize, corners", corners, "fCAB", "", NULL},
    {"resize to a size", to_size, "fCAB", "", NULL},
    {"resize, antialias", smooth, "fCAB", "", NULL},
    {"reduce", sum, "fABC", "", NULL},
    {"reduce of two", mean, "fABC", "", NULL},
    {"reduce, log sum exp", log_sum, "fABC", "", NULL},
    {"argmax", argmax, "fAB", "", NULL},
    {"argmin", argmin, "fAB", "", NULL},
    {"topk", topk, "fAB", "", NULL},
    {"cumsum", cumsum, "fABC", "", NULL},
    {"gather_rows", gather_rows, "iA fBC", "", NULL},
    {"select", select, "fABC iD", "", NULL},
    {"gather_elements", gather_elements, "fAB iAC", "", NULL},
    {"scatter_elements", scatter_elements, "fAB iAC fAC", "", NULL},
    {"scatter_rows", scatter_rows, "fAB iC fCB", "", NULL},
    {"roll", roll, "fAB", "", NULL},
    {"unary", unary, "fABC", "", NULL},
    {"binary", binary, "fAB f1B", "", NULL},
    {"compare", compare, "fAB fAB", "", NULL},
    {"where", where, "iAB fAB fB", "", NULL},
    {"nonzero", nonzero, "iABC", "", NULL},
    {"arange", arange, "i1 i1 i1", "", NULL},
    {"unique", unique, "iABC", "", NULL},
    {"unique, how often", unique_counts, "iABC", "", NULL},
    {"unique, which one", unique_inverse, "iABC", "", NULL},
    {"nms", nms, "fAB4 fACB", "", NULL},
    {"patch_features", features, "u1AB", "", NULL},
    {"gru", gru, "fAB fAC", "BC", constant},
    {"lstm", lstm, "fAB fAC fAC", "BC", constant},
    {"rope", rope, "fAC iA", "C", constant},
    {"attention", attention, "fAC lD", "C", constant},
    {"segment_spread", segment_spread, "fAC lD fDB", "", NULL},
    {"segment_reduce", segment_reduce, "fAB lD", "", NULL},
    {"segment_index", segment_index, "fAB lD", "", NULL},
    {"patches", cells, "f3AB", "", NULL},
};

#define LETTERS  5
#define OPERANDS 3
#define MOST     (1 << 16) /* elements */
static const int32_t maxima[LETTERS] = {12, 8, 6, 10, 4};

#ifdef BS_TEST_ON_DEVICE
#define SINGLE 1 /* extents of one symbol alone */
#else
#define SINGLE 3
#endif
static bool in_rows;   /* operands are cells of three rows, each of that shape */
static float given[OPERANDS][MOST], answers[8][MOST], answer[MOST];

/* ------------------------------------------------------------------------------------------------------ graphs */

static const char *next_operand(const char *shape) { return shape && (shape = strchr(shape, ' ')) ? shape + 1 : NULL; }

/* Extent of a letter, or a constant. */
static int64_t extent_of(char c, const int32_t *extents) { return c >= 'A' ? extents[c - 'A'] : c - '0'; }

static bs_dtype type_of(char c) { return c == 'f' ? BS_F32 : c == 'u' ? BS_U8 : BS_I32; }

/* Letters in the mask are symbols; others constants of these extents. */
static bs_graph *build(net *n, const symbol_case *c, uint32_t symbols, const int32_t *extents)
{
    bs_graph *g = net_begin(n);
    static const char *const names[OPERANDS] = {"x0", "x1", "x2"}, *const letters[LETTERS] = {"A", "B", "C", "D", "E"};
    bs_dim dims[LETTERS];
    bs_value x[OPERANDS] = {{0}, {0}, {0}};
    int32_t i = 0;
    for (int32_t l = 0; l < LETTERS; l++)
        dims[l] = symbols >> l & 1u ? bs_symbol(g, letters[l], maxima[l]) : extents[l];
    for (const char *shape = c->shapes; shape; shape = next_operand(shape)) {
        bs_shape s = {in_rows, {3}};
        for (const char *d = shape + 1; *d > ' '; d++)
            s.dim[s.rank++] = *d >= 'A' ? dims[*d - 'A'] : *d - '0';
        const bs_value input = bs_input(g, names[i], type_of(*shape), s);
        x[i] = in_rows ? bs_rows(g, input, x[0]) : input;
        i++;
    }
    const bs_value y = c->build(g, x);
    const bs_value_info *v = bs_value_get(g, y.id);
    const bool frame = y.id && v->domain && v->rank == 3 && bs_domain_is_patches(&g->domains[v->domain]);
    bs_output(g, "y", !y.id || !v->domain ? y : frame ? bs_assemble(g, y) : bs_collect(g, y));
    ops_are_met(g);
    return g;
}

static void make_weights(net_table *t, const bs_graph *g)
{
    static char names[32][96];
    t->table.count = 0;
    t->next = NULL;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        bs_weight_spec specs[BS_MAX_WEIGHTS];
        const int32_t count = bs_node_weights(g, &g->nodes[n], specs);
        for (int32_t k = 0; k < count; k++) {
            char *name = names[t->table.count];
            snprintf(name, sizeof names[0], "%s%s%s", bs_node_name(&g->nodes[n]), *specs[k].suffix ? "." : "",
                     specs[k].suffix);
            net_add(t, name, specs[k].rank, specs[k].dim, 0.5f);
            for (float *w = (float *)(uintptr_t)t->tensors[t->table.count - 1].data; w < t->next; w++)
                *w += strstr(name, "var") ? 1.0f : 0.0f;
        }
    }
}

static bool start(net *n, const bs_graph *g)
{
    static net_table table;
    make_weights(&table, g);
    const bs_weights weights = bs_weights_from_table(&table.table);
    return net_start(n, &(bs_plan_desc){.threads = 1}, &weights);
}

/* -------------------------------------------------------------------------------------------------------- runs */

static void fill(int32_t operand, char type, int64_t elements, const int32_t *extents)
{
    uint64_t state = 977 + (uint64_t)operand;
    for (int64_t i = 0; i < elements; i++) {
        state = check_mixed(state ^ state >> 29);
        if (type == 'f')
            given[operand][i] = (float)(int32_t)(state >> 40) / 8388608.0f - 1.0f;
        else if (type == 'u')
            ((uint8_t *)given[operand])[i] = (uint8_t)(state >> 40);
        else if (type == 'l')
            ((int32_t *)given[operand])[i] = extents[0] / (int32_t)elements + (i < extents[0] % elements);
        else
            ((int32_t *)given[operand])[i] = (int32_t)(state >> 40) % 3;
    }
}

static bs_status run(net *n, const symbol_case *c, const int32_t *extents, float *to)
{
    int32_t i = 0;
    static const char *const names[OPERANDS] = {"x0", "x1", "x2"};
    for (const char *shape = c->shapes; shape; shape = next_operand(shape), i++) {
        bs_buffer b = {given[i], type_of(*shape), in_rows, {3}, {0}};
        int64_t elements = in_rows ? 3 : 1;
        for (const char *d = shape + 1; *d > ' '; d++)
            elements *= b.dim[b.rank++] = extent_of(*d, extents);
        fill(i, *shape, elements, extents);
        if (bs_bind(n->session, names[i], &b, &n->error) != BS_OK)
            return BS_ERROR_ARGUMENT;
    }
    const bs_graph *g = n->graph;
    int64_t dims[TEST_DIMS];
    for (int32_t d = 0; d < g->n_dims; d++) {
        const bs_dim_info *dim = &g->dims[d];
        dims[d] = dim->kind == BS_DIM_CONST    ? dim->maximum
                  : dim->node                  ? dim->maximum
                  : dim->kind == BS_DIM_SYMBOL ? extents[g->text[dim->name] - 'A']
                                               : bs_floor_div(dims[dim->parent] * dim->mul + dim->add, dim->div);
    }
    const int32_t last = bs_graph_named(g, "y", false);
    const bs_value_info *v = bs_value_get(g, bs_node_in(g, &g->nodes[last])[0]);
    bs_buffer b = {to, v->dtype, v->rank, {0}, {0}};
    for (int32_t k = 0; k < v->rank; k++)
        b.dim[k] = dims[v->dims[k]] > 0 ? dims[v->dims[k]] : 1;
    memset(to, 0x55, MOST * sizeof *to);
    if (bs_bind(n->session, "y", &b, &n->error) != BS_OK)
        return BS_ERROR_ARGUMENT;
    return bs_run(n->session, &n->error);
}

/* One graph whose letters in the mask are symbols, and for each of these extents one with constants. */
static bool agrees(const symbol_case *c, uint32_t symbols, int32_t (*extents)[LETTERS], int32_t count, char *why)
{
    static char report[16384];
    net n;
    bs_status status[8] = {BS_OK};
    *why = '\0';
    if (!start(&n, build(&n, c, symbols, extents[0]))) {
        snprintf(why, 300, "%s", n.error.message);
        return false;
    }
    for (int32_t k = 0; k < count; k++)
        status[k] = run(&n, c, extents[k], answers[k]);
    bs_session_report(n.session, report, sizeof report);
    bs_session_close(n.session);
    if (status[count - 1] == BS_OK && !strstr(report, "; last run ")) {
        snprintf(why, 300, "nothing of the last run in: %.200s", report);
        return false;
    }
    for (int32_t k = 0; k < count; k++) {
        const bool sound = bs_graph_check(build(&n, c, 0, extents[k]), &n.error) == BS_OK && start(&n, n.graph);
        const bs_status alone = sound ? run(&n, c, extents[k], answer) : n.error.status;
        bs_session_close(sound ? n.session : NULL);
        if ((status[k] == BS_OK) == (alone == BS_OK) &&
            (alone != BS_OK || memcmp(answer, answers[k], sizeof answer) == 0))
            continue;
        snprintf(why, 300, "at %d %d %d %d %d: %s with symbols, %s alone, %s", extents[k][0], extents[k][1],
                 extents[k][2], extents[k][3], extents[k][4], bs_status_name(status[k]), bs_status_name(alone),
                 n.error.message);
        return false;
    }
    return true;
}

static void test_case(const symbol_case *c)
{
    char why[300] = "";
    uint32_t all = 0;
    net n;
    for (int32_t l = 0; l < LETTERS; l++) {
        int32_t extents[3][LETTERS];
        for (int32_t k = 0; k < 3; k++)
            memcpy(extents[k], maxima, sizeof maxima);
        if (!strchr(c->shapes, 'A' + l))
            continue;
        extents[0][l] = maxima[l] / 2;
        extents[1][l] = maxima[l] - 1;
        extents[2][l] = 1;
        if (!strchr(c->fixed, 'A' + l)) {
            all |= 1u << l;
            check(agrees(c, 1u << l, extents, SINGLE, why), "%s of %s with %c a symbol %s", c->name, c->shapes, 'A' + l,
                  why);
            continue;
        }
        const bs_status status = bs_graph_check(build(&n, c, 1u << l, maxima), &n.error);
        check(status != BS_OK && strstr(n.error.message, c->why), "%s of %s: %c must be a constant: %s", c->name,
              c->shapes, 'A' + l, n.error.message);
    }
    int32_t extents[4][LETTERS];
    for (int32_t l = 0; l < LETTERS; l++) {
        const bool fixed = !(all >> l & 1u);
        extents[0][l] = maxima[l];
        extents[1][l] = fixed ? maxima[l] : maxima[l] / 2;
        extents[2][l] = fixed ? maxima[l] : l % 2 ? maxima[l] / 2 + 1 : maxima[l] - 1;
        extents[3][l] = fixed ? maxima[l] : 1;
    }
    if (!strchr(c->fixed, '+')) {
        check(agrees(c, all, extents, 4, why), "%s of %s with all symbols %s", c->name, c->shapes, why);
        in_rows = !strchr(c->shapes, 'l') && !strstr(c->shapes, "ABCD") &&
                  c->build != rope && c->build != cells && c->build != heads && c->build != nonzero &&
                  c->build != arange && c->build != unique && c->build != unique_counts &&
                  c->build != unique_inverse && c->build != nms;
        if (in_rows)
            check(agrees(c, all, extents, 4, why), "%s of rows %s with all symbols %s", c->name, c->shapes, why);
        in_rows = false;
        return;
    }
    const bs_status status = bs_graph_check(build(&n, c, all, maxima), &n.error);
    check(status == BS_ERROR_UNSUPPORTED && strstr(n.error.message, c->why), "%s of %s with all symbols: %s", c->name,
          c->shapes, n.error.message);
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_case(&cases[i]);
    static const op_exception but[] = {{"route_score", "test_routers.c"}, {"look_ahead", "makes nothing"},
                                       {"loop_rows", "test_trees.c"},     {"children", "test_trees.c"},
                                       {"levels", "test_trees.c"},        {NULL, NULL}};
    every_op_is_met(op_computes, "the cases of test_symbols.c", but);
    return check_end();
}
