/* tags: asan */
/* Promises: a node, an op, a dimension, a shape and a domain are told in one line each, as people read them; text is
 * cut where the buffer ends and says how long it would be. */
#include "check.h"
#include "ops/table.h"
#include "ops/structure.h"

static _Alignas(64) uint8_t graph_memory[2 << 20];
static const bs_value none = {0};

static bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static void node_is(const bs_graph *g, int32_t node, const char *line)
{
    char text[256];
    const size_t n = bs_graph_describe(g, node, text, sizeof text);
    if (!check(strcmp(text, line) == 0 && n == strlen(line), "%s", line))
        printf("  | %s\n", text);
}

static void line_is(const bs_graph *g, bs_value value, const char *line)
{
    node_is(g, g->values[value.id].node, line);
}

static void test_nodes(void)
{
    bs_graph *g = new_graph();
    const bs_value frame = bs_input(g, "frame", BS_F32, BS_SHAPE3(2, bs_symbol(g, "H", 64), bs_symbol(g, NULL, 48)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.name = "cells", .size = 16});
    const bs_value conv = bs_conv2d(g, cells,
                                    &(bs_conv2d_desc){.name = "c", .out = 4, .act = BS_LEAKY_RELU, .act_param = .25f});
    const bs_value score = bs_slice(g, bs_pool2d(g, conv, &(bs_pool2d_desc){.global = 1}),
                                    &(bs_slice_desc){.length = 2});
    const bs_router outer = bs_route(g, score, none, &(bs_route_desc){.name = "outer", .paths = 2});
    const bs_value inside = bs_scatter(g, outer, 1, cells);
    const bs_router inner = bs_route(g, bs_scatter(g, outer, 1, score), none,
                                     &(bs_route_desc){.name = "inner", .paths = 2, .threshold = .5f});
    const bs_value deep = bs_scatter(g, inner, 0, inside);
    const bs_value table = bs_input(g, "table", BS_F32, BS_SHAPE2(BS_UPTO(40), 4));
    const bs_value rows = bs_rows(g, table, none),
                   words = bs_segments(g, table, bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)));
    bs_value indices;
    bs_topk(g, bs_softmax(g, rows), 3, &indices);
    line_is(g, frame, "   1  input          frame                            -> 1 f32 [2, H<=64, n<=48]");
    line_is(g, cells,
            "   2  patches        cells                  1         -> 2 f32 [2, H<=64, n<=48] cells 16  {size 16}");
    line_is(
        g, conv,
        "   3  conv2d         c                      2         -> 3 f32 [4, H<=64, n<=48] cells 16  {out 4, act "
        "leaky_relu, act_param "
        "0.25}");
    line_is(
        g, deep,
        "  10  scatter                               6         -> 8 f32 [2, H<=64, n<=48] inner:0 outer:1 cells 16  "
        "{router 2}");
    line_is(g, rows, "  12  rows                                  9         -> 10 f32 [4] rows<=40");
    line_is(g, words, "  14  segments                              9,11      -> 12 f32 [4] segments<=40");
    line_is(g, indices,
            "  16  topk                                  13        -> 14 f32 [3], 15 i32 [3] rows<=40  {k 3}");
    line_is(g, bs_add(g, rows, rows), "  17  add                                   10,10     -> 16 f32 [4] rows<=40");
    line_is(g, bs_convert(g, rows, &(bs_convert_desc){.dtype = BS_U16}),
            "  18  convert                               10        -> 17 u16 [4] rows<=40  {dtype u16}");
    line_is(g, bs_convert(g, rows, NULL),
            "  19  convert                               10        -> 18 f32 [4] rows<=40  {dtype f32}");
    line_is(g, bs_resize(g, frame, NULL),
            "  20  resize                                1         -> 19 f32 [2, 2H<=128, 2n<=96]  {kind nearest}");
    node_is(
        g, g->routers[inner.id].node,
        "   9  route          inner                  7         -> outer:1 cells 16  {protocol top1, paths 2, "
        "threshold 0.5}");
    check(g->status == BS_OK, "all of it is a graph: %s", g->error.message);
}

static void test_cuts(void)
{
    bs_graph *g = new_graph();
    bs_input(g, "frame", BS_F32, BS_SHAPE3(2, 64, 48));
    char whole[128], piece[128];
    const size_t n = bs_graph_describe(g, 1, whole, sizeof whole);
    bool ok = strlen(whole) == n;
    for (size_t bytes = 0; bytes < n; bytes++) {
        memset(piece, 'x', sizeof piece);
        ok = ok && bs_graph_describe(g, 1, piece, bytes) == n && piece[bytes] == 'x';
        ok = ok && (bytes == 0 || (strlen(piece) == bytes - 1 && memcmp(piece, whole, bytes - 1) == 0));
    }
    check(ok, "a line is cut where the buffer ends, and its length told");
    piece[0] = 'x';
    check(bs_graph_describe(NULL, 1, piece, 10) == 0 && piece[0] == 0, "no graph, no line");
    check(bs_graph_describe(g, 0, piece, 10) == 0 && bs_graph_describe(g, 2, piece, 10) == 0 &&
              bs_graph_describe(g, -1, NULL, 0) == 0,
          "no node, no line");
}

static void test_ops(void)
{
    char text[256];
    int32_t told = 0;
    for (int32_t i = 0; i < bs_op_count(); i++)
        told += bs_op_describe(i, text, sizeof text) == strlen(text) &&
                strncmp(text, bs_op_get(i)->name, strlen(bs_op_get(i)->name)) == 0;
    check(told == bs_op_count(), "%d ops in a line each", told);
    bs_op_describe(bs_op_index("clip"), text, sizeof text);
    check(strcmp(text, "clip 1 1 low~ high~") == 0, "%s", text);
    bs_op_describe(bs_op_index("concat"), text, sizeof text);
    check(strcmp(text, "concat 1 8 axis") == 0, "%s", text);
    check(bs_op_describe(-1, text, sizeof text) == 0 && text[0] == 0 && bs_op_describe(bs_op_count(), NULL, 0) == 0 &&
              bs_op_index(NULL) == -1 && bs_op_index("none") == -1,
          "no op, no line");
}

static void text_is(const char *text, const char *expected)
{
    check(strcmp(text, expected) == 0, "%s: %s", expected, text);
}

static void test_dimensions(void)
{
    bs_graph *g = new_graph();
    char text[128], small[12];
    const bs_dim h = bs_symbol(g, "H", 64);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, h, BS_UPTO(9)));
    const bs_value half = bs_conv2d(g, x, &(bs_conv2d_desc){.name = "c", .out = 1, .stride = 2});
    const bs_value padded = bs_pad(g, x, &(bs_pad_desc){.top = 1}),
                   pooled = bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 3});
    text_is(bs_value_text(g, bs_value_get(g, half.id), text, sizeof text), "[1, (H+1)/2<=32, (n+1)/2<=5]");
    text_is(bs_value_text(g, bs_value_get(g, padded.id), text, sizeof text), "[1, H+1<=65, n<=9]");
    text_is(bs_value_text(g, bs_value_get(g, pooled.id), text, sizeof text), "[1, (H+0)/3<=21, (n+0)/3<=3]");
    text_is(bs_value_text(g, bs_value_get(g, bs_resize(g, half, NULL).id), text, sizeof text), "[1, 2n<=64, 2n<=10]");
    text_is(bs_value_text(g, bs_value_get(g, bs_rows(g, bs_input(g, "r", BS_F32, BS_SHAPE1(3)), none).id), text,
                          sizeof text),
            "[]");
    text_is(bs_value_text(g, bs_value_get(g, half.id), small, sizeof small), "[1, (H+1)/2");
    for (size_t bytes = 1; bytes <= sizeof small; bytes++)
        check(strlen(bs_value_text(g, bs_value_get(g, x.id), small, bytes)) < bytes, "a shape in %d bytes: %s",
              (int)bytes, small);
    const bs_value cells = bs_patches(g, x, NULL);
    text_is(bs_domain_text(g, 0, text, sizeof text), "the root");
    text_is(bs_domain_text(g, g->values[cells.id].domain, text, sizeof text), "patches of 64 [H<=64, n<=9]");
    text_is(bs_domain_text(g, g->values[bs_rows(g, bs_input(g, "s", BS_F32, BS_SHAPE1(h)), none).id].domain, text,
                           sizeof text),
            "rows [H<=64]");
    check(g->status == BS_OK, "all of it is a graph: %s", g->error.message);
}

/* Fields of these names have one of a list, which has a name. */
static void test_lists(void)
{
    static const char *const listed[] = {"dtype", "protocol", "kind", "act", "edge", "padding", "centres", "update"};
    int32_t numbers = 0, names = 0;
    for (int32_t op = 1; op < bs_op_count(); op++)
        for (int32_t f = 0; f < bs_op_get(op)->n_fields; f++)
            for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
                const bs_field *field = &bs_op_get(op)->fields[f];
                const bool is = strcmp(field->name, listed[i]) == 0;
                names += is && field->holds > BS_FIELD_FLOAT;
                numbers += is && field->holds <= BS_FIELD_FLOAT;
            }
    check(names > 20 && numbers == 0, "%d fields have names for their numbers, %d do not", names, numbers);
    bs_graph *g = new_graph();
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(2, 4, 4));
    bs_pad(g, bs_unary(g, x, BS_UNARY_ATAN), &(bs_pad_desc){.left = 1, .edge = BS_EDGE_REFLECT});
    char text[200];
    bs_graph_describe(g, 2, text, sizeof text);
    check(strstr(text, "{kind atan}") != NULL, "%s", text);
    bs_graph_describe(g, 3, text, sizeof text);
    check(strstr(text, "edge reflect}") != NULL, "%s", text);
}

int main(void)
{
    test_nodes();
    test_cuts();
    test_ops();
    test_lists();
    test_dimensions();
    return check_end();
}
