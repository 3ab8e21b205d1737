/* Promises: a graph takes the bytes it says; equal expressions of symbols are one; nodes belong to the block that is
 * open. What cannot be built, and limits: test_messages_graph.c, test_messages_ops.c. */
#include "check.h"
#include "graph/graph.h"
#include "ops/table.h"
#include "model/gguf.h"
#include "model/model.h"
#include "plan/plan.h"
#include "base/platform.h"
#include "ops/structure.h"

static _Alignas(64) uint8_t graph_memory[4 << 20], plan_memory[1 << 20];

static bs_graph *new_graph(const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, desc);
}

static void test_storage(void)
{
    bs_arena arena;
    const size_t bytes = bs_graph_bytes(NULL);
    bs_arena_init(&arena, "graph", graph_memory, bytes);
    check(bs_graph_create(&arena, NULL) && arena.used + BS_ALIGNMENT == arena.size,
          "a graph takes what bs_graph_bytes says, less what aligns it");
    bs_arena_init(&arena, "graph", graph_memory, bytes - BS_ALIGNMENT - 1);
    check(!bs_graph_create(&arena, NULL) && arena.used == 0, "and is not made in less");
    int32_t made = 0;
    for (size_t skip = 0; skip < BS_ALIGNMENT; skip++) {
        bs_arena_init(&arena, "graph", graph_memory + skip, bytes);
        bs_graph *g = bs_graph_create(&arena, NULL);
        made += g && (uint8_t *)g + bytes <= graph_memory + skip + bytes + BS_ALIGNMENT;
    }
    check(made == BS_ALIGNMENT, "memory of any alignment will do, malloc's among it");
    static const bs_graph_desc beyond[] = {
        {.max_nodes = -1},
        {.max_values = -1},
        {.max_text_bytes = -1},
        {.max_operands = -1},
        {.max_dims = -1},
        {.max_domains = -1},
        {.max_blocks = -1},
        {.max_routers = -1},
        {.max_text_bytes = 63},
        {.max_nodes = (1 << 24) + 1},
        {.max_values = (1 << 24) + 1},
        {.max_text_bytes = (1 << 30) + 1},
        {.max_operands = (1 << 26) + 1},
        {.max_dims = (1 << 24) + 1},
        {.max_domains = (1 << 24) + 1},
        {.max_blocks = (1 << 24) + 1},
        {.max_routers = (1 << 24) + 1},
    };
    const int32_t count = (int32_t)(sizeof beyond / sizeof *beyond);
    int32_t refused = 0;
    for (int32_t i = 0; i < count; i++)
        refused += bs_graph_bytes(&beyond[i]) == 0 && !bs_graph_create(&arena, &beyond[i]);
    check(refused == count, "capacities out of range are refused");
}

/* ----------------------------------------------------------------------------------------------- symbols that are
 * equal */

static bool same_dims(const bs_graph *g, bs_value a, bs_value b)
{
    return g->status == BS_OK && a.id && b.id && bs_same_shape(bs_value_get(g, a.id), bs_value_get(g, b.id));
}

static void test_symbols(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim h = bs_symbol(g, "H", 64), w = bs_symbol(g, "W", 48), h2 = bs_times(g, h, 2), w2 = bs_times(g, w, 2);
    const bs_value one = bs_input(g, "one", BS_F32, BS_SHAPE3(1, h, w)),
                   four = bs_input(g, "four", BS_F32, BS_SHAPE3(4, h, w));
    const bs_value twice = bs_input(g, "twice", BS_F32, BS_SHAPE3(1, h2, w2)),
                   state = bs_state(g, "state", BS_F32, BS_SHAPE3(1, h2, w2));
    const bs_value shuffled = bs_pixel_shuffle(g, four, 2);
    check(same_dims(g, shuffled, twice), "a shuffled [4,H,W] has the shape of [1,2H,2W]");
    check(same_dims(g, bs_resize(g, one, NULL), twice), "so has a resized [1,H,W]");
    check(same_dims(g,
                    bs_deconv2d(
                        g, one,
                        &(bs_deconv2d_desc){.out = 1, .kernel = 4, .stride = 2, .padding = BS_PAD_EXPLICIT, .pad = 1}),
                    twice),
          "and a transposed convolution's");
    check(same_dims(g, bs_add(g, shuffled, twice), state), "and they can be added");
    bs_state_write(g, state, shuffled);
    check(g->status == BS_OK, "and be written to a state of [1,2H,2W]");
    check(same_dims(g, bs_pixel_unshuffle(g, shuffled, 2), four), "an unshuffle takes a shuffle back");
    check(same_dims(g, bs_resize(g, bs_resize(g, one, NULL), &(bs_resize_desc){.factor = 3}),
                    bs_resize(g, one, &(bs_resize_desc){.factor = 6})),
          "2 times 3 is 6");
    check(bs_times(g, bs_times(g, h, 2), 3) == bs_times(g, h, 6) && bs_times(g, h, 1) == h, "of handles as well");
    check(same_dims(
              g, bs_conv2d(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 4}), &(bs_conv2d_desc){.out = 1, .kernel = 5}),
              one),
          "convolutions that pad keep H and W");
    const bs_value padded = bs_pad(g, one, &(bs_pad_desc){.top = 1, .bottom = 1, .left = 1, .right = 1});
    check(same_dims(g, bs_conv2d(g, padded, &(bs_conv2d_desc){.out = 1, .padding = BS_PAD_VALID}), one),
          "H + 2 - 2 is H");
    check(same_dims(g, bs_resize(g, padded, NULL),
                    bs_pad(g, bs_resize(g, one, NULL), &(bs_pad_desc){.top = 2, .bottom = 2, .left = 2, .right = 2})),
          "2 (H + 2) is 2 H + 4");
    const bs_value half = bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .stride = 2}),
                   pooled = bs_pool2d(g, one, &(bs_pool2d_desc){.kind = BS_POOL_MAX});
    check(same_dims(g, bs_conv2d(g, one, &(bs_conv2d_desc){.out = 1, .kernel = 5, .stride = 2}), half),
          "(H + 1) / 2 by either kernel");
    check(g->status == BS_OK && !same_dims(g, half, pooled), "but H / 2 rounded down is another");
    check(same_dims(g, bs_pool2d(g, bs_resize(g, one, NULL), &(bs_pool2d_desc){.kind = BS_POOL_MAX}), one),
          "2 H / 2 is H");
    check(!same_dims(g, bs_resize(g, pooled, NULL), one) && g->status == BS_OK, "2 (H / 2) is not: H may be odd");
    check(same_dims(g,
                    bs_slice(g, bs_concat(g, (bs_value[]){one, four}, 2, 0), &(bs_slice_desc){.start = 1, .length = 4}),
                    four),
          "channels joined and parted");
    check(!same_dims(g, one, bs_input(g, "other", BS_F32, BS_SHAPE3(1, bs_symbol(g, "H", 64), w))),
          "symbols of one name are not one symbol");
    check(
        !same_dims(g, bs_input(g, "p", BS_F32, BS_SHAPE1(BS_UPTO(9))), bs_input(g, "q", BS_F32, BS_SHAPE1(BS_UPTO(9)))),
        "nor are two BS_UPTO");
    check(same_dims(g, bs_input(g, "c", BS_F32, BS_SHAPE1(9)), bs_input(g, "d", BS_F32, BS_SHAPE1(9))),
          "constants are equal by value");
    const bs_value cells = bs_patches(g, one, &(bs_patches_desc){.size = 15});
    check(g->domains[bs_value_get(g, cells.id)->domain].max_rows == 5 * 4,
          "64 x 48 pixels are up to 5 x 4 cells of 15");
    check(bs_shape_of(2, 3, 4, 0, 0).dim[1] == 4 && bs_times(g, 5, 3) == bs_times(g, 15, 1),
          "a constant times a factor is a constant");
}

/* Where bs_graph_create had no room there is no graph: building does nothing, and bs_graph_check tells. */
static void test_no_graph(void)
{
    const bs_value none = {0}, some = {1};
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, 64);
    bs_graph *g = bs_graph_create(&arena, NULL);
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    check(!g && !bs_graph_create(NULL, NULL), "no graph without room, or an arena");
    bs_block_begin(g, "block");
    bs_block_end(g);
    bs_output(g, "y", some);
    bs_state_write(g, some, some);
    bs_state_append(g, some, some, some);
    bs_look_ahead(g, some, "r");
    const bs_router r = bs_route(g, some, none, &(bs_route_desc){.name = "r", .paths = 2});
    const int32_t made = bs_input(g, "x", BS_F32, BS_SHAPE1(4)).id + bs_state(g, "x", BS_F32, BS_SHAPE1(4)).id +
                         bs_add(g, some, some).id + bs_reshape(g, some, BS_SHAPE1(4)).id +
                         bs_gather(g, r, &some, none, NULL).id + bs_scatter(g, r, 0, some).id +
                         bs_route_score(g, r).id + bs_route_price(g, r).id + bs_topk(g, some, 1, NULL).id +
                         bs_patches(g, some, NULL).id + bs_branch(g, r, 0, "block", some, NULL, NULL).id +
                         bs_concat(g, &some, 1, 0).id + r.id;
    check(made == 0 && bs_symbol(g, "S", 4) == 0 && bs_times(g, 4, 2) == 0, "nothing is built upon nothing");
    check(bs_graph_check(g, NULL) == BS_ERROR_ARGUMENT && bs_graph_check(g, &error) == BS_ERROR_ARGUMENT &&
              bs_graph_bytes(NULL) > 0,
          "%s", error.message);
    g = new_graph(NULL);
    bs_symbol(g, "S", 0);
    check(bs_graph_check(g, NULL) == BS_ERROR_SHAPE, "a status without an error to fill");
}

/* What only looks alike: frames, domains and dimensions that differ in one thing. */
static void test_domains(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_dim h = bs_symbol(g, "H", 64), w = bs_symbol(g, "W", 48);
    const bs_value frames[4] = {
        bs_input(g, "hw", BS_F32, BS_SHAPE3(1, h, w)), bs_input(g, "hh", BS_F32, BS_SHAPE3(1, h, h)),
        bs_input(g, "ww", BS_F32, BS_SHAPE3(1, w, w)), bs_input(g, "hw2", BS_F32, BS_SHAPE3(2, h, w))};
    int32_t domains[5];
    for (int32_t i = 0; i < 5; i++)
        domains[i] = g->values[bs_patches(g, frames[i % 4], &(bs_patches_desc){.size = i < 4 ? 16 : 8}).id].domain;
    bool apart = domains[0] == domains[3];
    for (int32_t i = 0; i < 5; i++)
        for (int32_t k = 0; k < i; k++)
            apart = apart && (domains[i] != domains[k] || (i == 3 && k == 0));
    check(apart, "patches of equal extents and size are one domain, others are not");
    const bs_value thirds = bs_pool2d(g, frames[0], &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 3}),
                   halves = bs_pool2d(g, frames[0], &(bs_pool2d_desc){.kind = BS_POOL_MAX});
    check(!same_dims(g, thirds, halves) && g->status == BS_OK, "H / 3 is not H / 2");
    const bs_value table = bs_input(g, "table", BS_F32, BS_SHAPE2(h, 4)),
                   twice = bs_concat(g, (bs_value[]){table, table}, 2, 0);
    check(same_dims(g, twice, bs_input(g, "twice", BS_F32, BS_SHAPE2(bs_times(g, h, 2), 4))), "H joined to H is 2 H");
    const bs_value more = bs_concat(g, (bs_value[]){table, bs_input(g, "five", BS_F32, BS_SHAPE2(5, 4))}, 2, 0),
                   half = bs_pool2d(g, bs_input(g, "lines", BS_F32, BS_SHAPE3(1, h, 2)), NULL);
    check(same_dims(g, bs_reshape(g, more, BS_SHAPE1(-1)), bs_reshape(g, more, BS_SHAPE1(-1))) &&
              bs_reshape(g, half, BS_SHAPE1(-1)).id != 0,
          "4 (H + 5) is 4 H + 20");
    const bs_value cells = bs_patches(g, frames[0], NULL), gain = bs_input(g, "gain", BS_F32, BS_SHAPE3(1, 1, 1));
    check(bs_mul(g, cells, gain).id != 0 && bs_state(g, "row", BS_F32, BS_SHAPE1(1)).id != 0,
          "what is the same for every pixel can be captured beside patches");
    const bs_value bytes = bs_state(g, "bytes", BS_F32, BS_SHAPE2(40, 4));
    bs_state_write(g, bytes, bs_input(g, "fewer", BS_F32, BS_SHAPE2(30, 4)));
    const bs_value scores = bs_rows(g, bs_input(g, "scores", BS_I32, BS_SHAPE2(9, 2)), (bs_value){0});
    bs_look_ahead(g, scores, "later");
    const bs_router r = bs_route(g, scores, (bs_value){0}, &(bs_route_desc){.name = "later", .paths = 2});
    check(bs_branch(g, r, 0, "as it is", scores, NULL, NULL).id != 0 && g->status == BS_OK,
          "a branch without a function gives its rows: %s", g->error.message);
    const bs_value losses = bs_rows(g, bs_input(g, "losses", BS_I32, BS_SHAPE2(9, 3)), (bs_value){0});
    check(bs_route(
              g, losses, (bs_value){0},
              &(bs_route_desc){.name = "budget", .paths = 2, .protocol = BS_ROUTE_BUDGET, .capacity = 3, .fallback = 3})
                  .id != 0,
          "the baseline of a budget is a variant: there may be more of them than paths");
    check(strcmp(bs_protocol_name(BS_ROUTE_TOP1), "top1") == 0 &&
              strcmp(bs_protocol_name((bs_protocol)-1), "unknown") == 0 &&
              strcmp(bs_protocol_name(BS_PROTOCOL_COUNT), "unknown") == 0,
          "protocols have names");
}

static void test_blocks(void)
{
    bs_graph *g = new_graph(NULL);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE1(4));
    bs_block_begin(g, "outer");
    const bs_value y = bs_activation(g, x, BS_RELU, 0);
    bs_block_begin(g, "inner");
    const bs_value z = bs_activation(g, y, BS_RELU, 0);
    bs_block_end(g);
    bs_block_end(g);
    const bs_value end = bs_activation(g, z, BS_RELU, 0);
    const bs_value values[4] = {x, y, z, end};
    const int32_t blocks[4] = {0, 1, 2, 0};
    bool ok = g->status == BS_OK && g->n_blocks == 3 && g->blocks[2].parent == 1 && g->blocks[1].parent == 0;
    for (int32_t i = 0; i < 4; i++)
        ok = ok && g->nodes[g->values[values[i].id].node].block == blocks[i];
    check(ok, "nodes belong to the block that is open when they are built");
}

/* ---------------------------------------------------------------------------------------------------- limits */

/* The number that stands behind `what` in a row of the header's table of limits; 0 when there is none. */
static uint64_t limit_told(const char *row, const char *what)
{
    static char text[1 << 18];
    char head[40], item[40];
    unsigned long long n = 0;
    unsigned power = 1;
    FILE *file = *text ? NULL : fopen("brainstorm.h", "rb");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    snprintf(head, sizeof head, "\n *     %s ", row);
    snprintf(item, sizeof item, " %s", what);
    const char *at = strstr(text, "LIMITS");
    at = at ? strstr(at, head) : NULL;
    at = at ? strstr(at, item) : NULL;
    at = at ? at + strlen(item) : "";
    if (sscanf(at + strspn(at, " \n*"), "%llu^%u", &n, &power) < 1) /* perhaps in the next line */
        return 0;
    return power > 1 ? (uint64_t)n << (power - 1) : n; /* powers of two */
}

/* The header's table of limits says what the code goes by. */
static void test_limits_told(void)
{
    static const struct {
        const char *row, *what;
        uint64_t is;
    } limits[] = {
        {"a value", "rank", BS_MAX_RANK},
        {"an op", "operands", BS_MAX_OPERANDS},
        {"a graph", "entries", BS_MAX_ENTRIES},
        {"a graph", "text", BS_MAX_TEXT},
        {"a graph", "paths", BS_MAX_PATHS},
        {"a graph", "router and", BS_MAX_ALL_PATHS},
        {"a graph", "names", BS_MAX_NAME - 1},
        {"a plan", "weights together", BS_MAX_PLAN_BYTES},
        {"a plan", "threads", BS_MAX_THREADS},
        {"a plan", "lanes", BS_MAX_LANES},
        {"a plan", "forces", BS_MAX_FORCES},
        {"a model file", "entries", BS_GGUF_MAX_KEYS},
        {"a model file", "entries", BS_GGUF_MAX_TENSORS},
        {"a model file", "entries", BS_MODEL_MAX_NODES},
        {"a model file", "entries", BS_MODEL_MAX_WEIGHTS},
        {"a model file", "weight names", BS_MAX_WEIGHT_NAME - 1},
        {"a model file", "tensor names", BS_GGUF_MAX_NAME_BYTES},
        {"a model file", "keys", BS_GGUF_MAX_KEY_BYTES},
        {"a model file", "alignment", BS_GGUF_MAX_ALIGNMENT},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const uint64_t told = limit_told(limits[i].row, limits[i].what);
        check(told == limits[i].is, "the header says %llu for %s of %s, it is %llu", (unsigned long long)told,
              limits[i].what, limits[i].row, (unsigned long long)limits[i].is);
    }
}

/* Whether a graph takes an input of that shape. */
static bool takes_input(bs_shape shape)
{
    bs_graph *g = new_graph(NULL);
    bs_input(g, "x", BS_F32, shape);
    return g->status == BS_OK;
}

static void test_limits_of_values(void)
{
    const bs_dim dim = (bs_dim)limit_told("a value", "a dimension"),
                 elements = (bs_dim)limit_told("a value", "elements");
    if (!check(dim > 1 && elements > dim, "dimensions and elements have limits"))
        return;
    check(takes_input(BS_SHAPE1(dim)) && !takes_input(BS_SHAPE1(dim + 1)),
          "a dimension may be as long as the header says, and no longer");
    check(takes_input(BS_SHAPE1(BS_UPTO(dim))) && !takes_input(BS_SHAPE1(BS_UPTO(dim + 1))), "nor one that varies");
    check((bs_dim)18 * 2731 * 22366891 == elements + 2 && takes_input(BS_SHAPE2(dim, elements / dim)) &&
              !takes_input(BS_SHAPE3(18, 2731, 22366891)),
          "a value may have as many elements; not two more, the next number that is a product of such dimensions");
}

/* "" when that has a plan, else what is wrong with it. */
static const char *not_planned(const bs_graph *g, const bs_plan_desc *desc)
{
    static bs_error error;
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    return bs_plan_create(&arena, g, desc, &error) ? "" : error.message;
}

static const char *desc_not_planned(const bs_plan_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    bs_output(g, "y", bs_activation(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), BS_RELU, 0));
    return not_planned(g, desc);
}

static const char *cells_not_planned(int64_t height, int64_t width)
{
    bs_graph *g = new_graph(NULL);
    const bs_value cells = bs_patches(g, bs_input(g, "frame", BS_U8, BS_SHAPE3(1, height, width)),
                                      &(bs_patches_desc){.size = 1});
    bs_output(g, "same", bs_assemble(g, cells));
    return not_planned(g, NULL);
}

static const char *choices_not_planned(int64_t rows, int32_t k)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(rows, 5)), none);
    const bs_router r = bs_route(g, x, none,
                                 &(bs_route_desc){.name = "route", .protocol = BS_ROUTE_TOPK, .paths = 5, .k = k});
    const bs_value out[5] = {bs_scatter(g, r, 0, x)};
    bs_output(g, "y", bs_collect(g, bs_gather(g, r, out, none, &(bs_gather_desc){.mode = BS_GATHER_ADD})));
    return not_planned(g, NULL);
}

/* Columns of convolutions that together read `margin` pixels around a cell. */
static const char *margin_not_planned(int32_t margin)
{
    bs_graph *g = new_graph(NULL);
    bs_value x = bs_patches(g, bs_input(g, "frame", BS_F32, BS_SHAPE3(1, 1024, 16)), &(bs_patches_desc){.size = 16});
    for (int32_t i = 0; margin > 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        const int32_t taps = margin < 127 ? margin : 127, apart = margin / taps < 255 ? margin / taps : 255;
        x = bs_conv2d(
            g, x,
            &(bs_conv2d_desc){.name = name, .out = 1, .kernel_h = 2 * taps + 1, .kernel_w = 1, .dilation = apart});
        margin -= taps * apart;
    }
    bs_output(g, "y", bs_assemble(g, x));
    return not_planned(g, NULL);
}

static void test_limits_of_plans(void)
{
    /* "as are the cells of a domain and what a router chooses" */
    const int64_t rows = (int64_t)limit_told("a value", "a dimension");
    const int32_t margin = (int32_t)limit_told("an op", "margin around a cell");
    const char *beyond = cells_not_planned(13325, 80581);
    check((int64_t)13325 * 80581 == rows + 1 && strstr(beyond, "expected 2^30 at most"),
          "one cell too many is refused: %s", beyond);
    const char *most = cells_not_planned(rows >> 15, 1 << 15);
    check(!*most, "the most cells are planned%s", most);
    beyond = choices_not_planned((rows + 1) / 5, 5);
    check((rows + 1) % 5 == 0 && strstr(beyond, "expected 2^30 choices at most"), "one choice too many is refused: %s",
          beyond);
    most = choices_not_planned(rows / 4, 4);
    check(!*most, "the most choices are planned%s", most);
    beyond = margin_not_planned(margin + 1);
    check(strstr(beyond, "pixels around a cell") != NULL, "one pixel too many around a cell is refused: %s", beyond);
    most = margin_not_planned(margin);
    check(margin > 0 && !*most, "the largest margin is planned%s", most);
    const int32_t patch = (int32_t)limit_told("a plan", "patch_size"),
                  chunk = (int32_t)limit_told("a plan", "chunk_bytes");
    most = desc_not_planned(&(bs_plan_desc){.patch_size = patch, .chunk_bytes = chunk});
    check(patch > 0 && chunk > 0 && !*most, "the largest patches and reads are planned%s", most);
    beyond = desc_not_planned(&(bs_plan_desc){.patch_size = patch + 1});
    check(strstr(beyond, "bs_plan_desc.patch_size is") != NULL, "larger patches are refused: %s", beyond);
    beyond = desc_not_planned(&(bs_plan_desc){.chunk_bytes = chunk + 1});
    check(strstr(beyond, "bs_plan_desc.chunk_bytes is") != NULL, "larger reads too: %s", beyond);
}

/* Why the value was not built, "" when it was. The functions that follow build one node with the field they are named
 * after at n. */
static const char *built(const bs_graph *g, bs_value value)
{
    return value.id && g->status == BS_OK ? "" : g->error.message;
}

static const char *conv_built(bs_shape shape, const bs_conv2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_conv2d(g, bs_input(g, "x", BS_F32, shape), desc));
}

static const char *conv_kernel(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel = n});
}
static const char *conv_height(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel_h = n});
}
static const char *conv_width(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .kernel_w = n});
}
static const char *conv_stride(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .stride = n});
}
static const char *conv_dilation(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 300, 300), &(bs_conv2d_desc){.name = "c", .out = 1, .dilation = n});
}
static const char *conv_out(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 8, 8), &(bs_conv2d_desc){.name = "c", .out = n});
}

static const char *conv_groups(int32_t n)
{
    return conv_built(BS_SHAPE3(n, 8, 8),
                      &(bs_conv2d_desc){.name = "c", .out = n < 1 << 20 ? n : 1 << 20, .groups = n});
}

static const char *conv_pad(int32_t n)
{
    return conv_built(BS_SHAPE3(1, 8, 8),
                      &(bs_conv2d_desc){.name = "c", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = n});
}

static const char *deconv_built(const bs_deconv2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_deconv2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 600, 600)), desc));
}

static const char *deconv_kernel(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .kernel = n});
}
static const char *deconv_out(int32_t n) { return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = n}); }
static const char *deconv_stride(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .stride = n});
}
static const char *deconv_pad(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .padding = BS_PAD_EXPLICIT, .pad = n});
}

static const char *deconv_output_pad(int32_t n)
{
    return deconv_built(&(bs_deconv2d_desc){.name = "d", .out = 1, .stride = 16, .output_pad = n});
}

static const char *pool_built(const bs_pool2d_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pool2d(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 300, 300)), desc));
}

static const char *pool_kernel(int32_t n) { return pool_built(&(bs_pool2d_desc){.kernel = n}); }
static const char *pool_stride(int32_t n) { return pool_built(&(bs_pool2d_desc){.stride = n}); }

static const char *linear_out(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_linear(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), &(bs_linear_desc){.name = "l", .out = n}));
}

static const char *shuffle_r(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pixel_shuffle(g, bs_input(g, "x", BS_F32, BS_SHAPE3(n * n, 4, 4)), n));
}

static const char *unshuffle_r(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pixel_unshuffle(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, n, n)), n));
}

static const char *resize_built(const bs_resize_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_resize(g, bs_input(g, "x", BS_U16, BS_SHAPE3(1, 4, 4)), desc));
}

static const char *resize_factor(int32_t n) { return resize_built(&(bs_resize_desc){.factor = n}); }
static const char *resize_bits(int32_t n) { return resize_built(&(bs_resize_desc){.code_bits = n}); }

static const char *convert_bits(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(
        g, bs_convert(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), &(bs_convert_desc){.dtype = BS_U16, .code_bits = n}));
}

static const char *pad_built(const bs_pad_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_pad(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 4, 4)), desc));
}

static const char *pad_top(int32_t n) { return pad_built(&(bs_pad_desc){.top = n}); }
static const char *pad_bottom(int32_t n) { return pad_built(&(bs_pad_desc){.bottom = n}); }
static const char *pad_left(int32_t n) { return pad_built(&(bs_pad_desc){.left = n}); }
static const char *pad_right(int32_t n) { return pad_built(&(bs_pad_desc){.right = n}); }

static const char *patch_size(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_patches(g, bs_input(g, "x", BS_U8, BS_SHAPE3(1, 64, 64)), &(bs_patches_desc){.size = n}));
}

static const char *features_built(const bs_patch_features_desc *desc)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, cells = bs_patches(g, bs_input(g, "x", BS_U16, BS_SHAPE3(1, 64, 64)), NULL);
    return built(g, bs_patch_features(g, cells, none, desc));
}

static const char *feature_buckets(int32_t n) { return features_built(&(bs_patch_features_desc){.buckets = n}); }
static const char *feature_bits(int32_t n) { return features_built(&(bs_patch_features_desc){.code_bits = n}); }

static const char *heads_times_rows(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    const int32_t heads = n % 2 ? 5 : 4; /* 2^30 + 1 is a multiple of 5 */
    const bs_value none = {0}, x = bs_input(g, "x", BS_F32, BS_SHAPE2(bs_symbol(g, "tokens", n / heads), 20));
    const bs_value rows = bs_segments(g, x, bs_input(g, "lengths", BS_I32, BS_SHAPE1(3)));
    return built(g, bs_attention(g, rows, rows, rows, none, none, none, &(bs_attention_desc){.heads = heads}));
}

static const char *route_floor(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    const bs_value none = {0}, losses = bs_rows(g, bs_input(g, "x", BS_I32, BS_SHAPE2(9, 2)), none);
    const bs_router r = bs_route(g, losses, none,
                                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_BUDGET, .paths = 2, .floor = n});
    return built(g, (bs_value){r.id});
}

static const char *symbol_times(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    return built(g, bs_input(g, "x", BS_F32, BS_SHAPE1(bs_times(g, bs_symbol(g, "s", 4), n))));
}

/* Twice the frame's size so often that its scale is n, a power of two. */
static const char *frame_scale(int32_t n)
{
    bs_graph *g = new_graph(NULL);
    bs_value x = bs_patches(g, bs_input(g, "x", BS_F32, BS_SHAPE3(1, 4, 4)), &(bs_patches_desc){.size = 4});
    for (int32_t scale = 1; scale < n; scale *= 2)
        x = bs_resize(g, x, &(bs_resize_desc){.kind = BS_RESIZE_NEAREST});
    return built(g, x);
}

static void test_limits_of_ops(void)
{
    static const struct {
        const char *row, *what;
        const char *(*build)(int32_t n);
        const char *field;
    } limits[] = {
        {"conv2d", "kernel, stride and dilation", conv_kernel, "kernel"},
        {"conv2d", "kernel, stride and dilation", conv_height, "kernel_h"},
        {"conv2d", "kernel, stride and dilation", conv_width, "kernel_w"},
        {"conv2d", "kernel, stride and dilation", conv_stride, "stride"},
        {"conv2d", "kernel, stride and dilation", conv_dilation, "dilation"},
        {"conv2d", "out and groups", conv_out, "out"},
        {"conv2d", "out and groups", conv_groups, "groups"},
        {"conv2d", "pad", conv_pad, "pad"},
        {"deconv2d", "kernel and pad", deconv_kernel, "kernel"},
        {"deconv2d", "kernel and pad", deconv_pad, "pad"},
        {"deconv2d", "out", deconv_out, "out"},
        {"deconv2d", "stride", deconv_stride, "stride"},
        {"deconv2d", "output_pad", deconv_output_pad, "output_pad"},
        {"pool2d", "kernel and stride", pool_kernel, "kernel"},
        {"pool2d", "kernel and stride", pool_stride, "stride"},
        {"other ops", "linear's out", linear_out, "out"},
        {"other ops", "pixel_shuffle's r", shuffle_r, "r"},
        {"other ops", "pixel_shuffle's r", unshuffle_r, "r"},
        {"other ops", "resize's factor", resize_factor, "factor"},
        {"other ops", "each side of a pad", pad_top, "top"},
        {"other ops", "each side of a pad", pad_bottom, "bottom"},
        {"other ops", "each side of a pad", pad_left, "left"},
        {"other ops", "each side of a pad", pad_right, "right"},
        {"other ops", "size of patches", patch_size, "size"},
        {"other ops", "buckets", feature_buckets, "buckets"},
        {"other ops", "code_bits", feature_bits, "code_bits"},
        {"other ops", "code_bits", resize_bits, "code_bits"},
        {"other ops", "code_bits", convert_bits, "code_bits"},
        {"other ops", "heads times rows", heads_times_rows, "more than 2^30 tasks"},
        {"other ops", "a router's floor", route_floor, "floor"},
        {"a graph", "input or state", symbol_times, "up to 1024 times"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const int32_t most = (int32_t)limit_told(limits[i].row, limits[i].what);
        const char *why = limits[i].build(most);
        check(most > 1 && !*why, "%s: %s may be %d, as the header says%s", limits[i].row, limits[i].field, most, why);
        why = limits[i].build(most + 1);
        check(strstr(why, limits[i].field) != NULL, "%s: %s may not be %d: %s", limits[i].row, limits[i].field,
              most + 1, why);
    }
    const int32_t scale = (int32_t)limit_told("an op", "scale");
    const char *most = frame_scale(scale), *beyond = frame_scale(2 * scale);
    check(scale > 1 && !*most && strstr(beyond, "numbers of 2^15 at most"),
          "a frame may be %d times as large, not twice that: %s%s", scale, most, beyond);
    const int32_t pad = 255 / 2;
    most = pool_built(&(bs_pool2d_desc){.kernel = 255, .padding = BS_PAD_EXPLICIT, .pad = pad});
    check(!*most, "half a kernel may lie around a pool%s", most);
    beyond = pool_built(&(bs_pool2d_desc){.kernel = 255, .padding = BS_PAD_EXPLICIT, .pad = pad + 1});
    check(strstr(beyond, "pad is 128, expected 0 .. 127") != NULL, "not more: %s", beyond);
}

/* A graph in memory of its own: free(*memory). */
static bs_graph *large_graph(const bs_graph_desc *desc, void **memory)
{
    const size_t bytes = bs_graph_bytes(desc);
    bs_arena arena;
    *memory = malloc(bytes);
    bs_arena_init(&arena, "graph", *memory, *memory ? bytes : 0);
    return bs_graph_create(&arena, desc);
}

static void test_limit_of_all_paths(void)
{
    const int32_t all = (int32_t)limit_told("a graph", "router and"), each = (int32_t)limit_told("a graph", "paths");
    void *memory;
    bs_graph *g = large_graph(&(bs_graph_desc){.max_nodes = 9000, .max_routers = 9000, .max_text_bytes = 4 << 20},
                              &memory);
    const bs_value none = {0}, label = g ? bs_rows(g, bs_input(g, "label", BS_I32, BS_SHAPE2(4, 1)), none) : none;
    char name[16];
    for (int32_t left = all; g && each > 0 && left >= 0 && g->status == BS_OK; left -= each) {
        snprintf(name, sizeof name, "r%d", left);
        bs_route(g, label, none,
                 &(bs_route_desc){.name = name, .protocol = BS_ROUTE_LABEL, .paths = left < each ? left : each});
    }
    check(g && g->status == BS_OK && g->n_paths == all, "all routers have as many paths as the header says: %s",
          g ? g->error.message : "");
    if (g)
        bs_route(g, label, none, &(bs_route_desc){.name = "one more", .protocol = BS_ROUTE_LABEL, .paths = 1});
    check(g && g->status == BS_ERROR_LIMIT, "and no more: %s", g ? g->error.message : "");
    free(memory);
}

static void test_limit_of_symbols(void)
{
    const int32_t most = (int32_t)limit_told("a graph", "symbols");
    void *memory;
    bs_graph *g = large_graph(&(bs_graph_desc){.max_dims = most + 2}, &memory);
    bs_dim last = 0;
    for (int32_t i = 0; g && i < most; i++)
        last = bs_symbol(g, "", 4);
    if (g)
        bs_input(g, "last", BS_F32, BS_SHAPE1(last));
    check(g && most > 0 && g->status == BS_OK, "an input may have the last symbol that the header counts");
    if (g)
        bs_input(g, "beyond", BS_F32, BS_SHAPE1(bs_symbol(g, "", 4)));
    check(g && g->status == BS_ERROR_SHAPE, "not one more: %s", g ? g->error.message : "");
    free(memory);
}

/* Each table of a graph takes as many entries as the header says, and one more is refused. */
static void test_limits_of_tables(void)
{
    static const size_t fields[] = {offsetof(bs_graph_desc, max_nodes),    offsetof(bs_graph_desc, max_values),
                                    offsetof(bs_graph_desc, max_dims),     offsetof(bs_graph_desc, max_domains),
                                    offsetof(bs_graph_desc, max_blocks),   offsetof(bs_graph_desc, max_routers),
                                    offsetof(bs_graph_desc, max_operands), offsetof(bs_graph_desc, max_text_bytes)};
    const int32_t entries = (int32_t)limit_told("a graph", "entries"), text = (int32_t)limit_told("a graph", "text");
    const bs_graph_desc least = {.max_nodes = 1,
                                 .max_values = 1,
                                 .max_operands = 1,
                                 .max_dims = 1,
                                 .max_domains = 1,
                                 .max_blocks = 1,
                                 .max_routers = 1,
                                 .max_text_bytes = 64};
    bs_graph_desc all = least;
    int32_t right = 0;
    for (size_t i = 0; i < 8; i++) {
        const int32_t most = i == 7 ? text : i == 6 ? 4 * entries : entries, beyond = most + 1;
        bs_graph_desc one = least;
        memcpy((uint8_t *)&one + fields[i], &most, sizeof most);
        memcpy((uint8_t *)&all + fields[i], &most, sizeof most);
        right += bs_graph_bytes(&one) > (size_t)most;
        memcpy((uint8_t *)&one + fields[i], &beyond, sizeof beyond);
        right += bs_graph_bytes(&one) == 0;
    }
    check(right == 16, "each table may be as long as the header says, and no longer");
    /* All of them together are more than 32 bits count: never the low half of it. */
    const size_t bytes = bs_graph_bytes(&all);
    const bool wide = SIZE_MAX > UINT32_MAX;
    const char *told = wide ? "64 bits count has its bytes (on 32 it has none)" : "32 bits cannot count has none";
    check(wide ? bytes / 4 > UINT32_MAX / 4 : bytes == 0, "a graph that %s", told);
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    check(!bs_graph_create(&arena, &all) && arena.used == 0, "... and is not made in less");
    bs_graph *g = new_graph(NULL);
    bs_output(g, "y", bs_activation(g, bs_input(g, "x", BS_F32, BS_SHAPE1(4)), BS_RELU, 0));
    const size_t small = bs_plan_bytes(g, NULL);
    g->n_operands = 1 << 28; /* as if it had so many: planning counts them before it looks at any */
    const size_t large = bs_plan_bytes(g, NULL);
    check(small > 0 && (wide ? large / 4 > UINT32_MAX / 4 : large == 0), "a plan that %s", told);
    bs_error error = {0};
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    check(!bs_plan_create(&arena, g, NULL, &error) && arena.used == 0, "... and is not made in less");
    check(wide ? error.status == BS_ERROR_ARENA && error.needed / 4 > UINT32_MAX / 4 : error.status != BS_OK,
          "... because of all its bytes: %s", error.message);
}

static void test_ports(void)
{
    bs_graph *g = new_graph(NULL);
    bs_port_facts port = {.rank = 9};
    bs_router_facts router = {9, 9};
    const bs_value none = {0},
                   frame = bs_input(g, "frame", BS_U8, BS_SHAPE3(1, bs_symbol(g, "H", 96), bs_symbol(g, "W", 144)));
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 48});
    const bs_value spread = bs_convert(g, bs_patch_features(g, cells, none, NULL), &(bs_convert_desc){.dtype = BS_F32});
    const bs_value tokens = bs_rows(g, bs_input(g, "tokens", BS_F32, BS_SHAPE2(bs_symbol(g, "N", 7), 2)), none);
    const bs_router by_patch =
        bs_route(g, spread, none, &(bs_route_desc){.name = "by_patch", .protocol = BS_ROUTE_TOP1, .paths = 2});
    const bs_router by_row =
        bs_route(g, tokens, none, &(bs_route_desc){.name = "by_row", .protocol = BS_ROUTE_TOP1, .paths = 2});
    const bs_value path[2] = {bs_scatter(g, by_patch, 0, cells), bs_scatter(g, by_patch, 1, cells)};
    (void)by_row;
    bs_output(g, "same", bs_assemble(g, bs_gather(g, by_patch, path, none, NULL)));
    if (!check(g->status == BS_OK, "a graph with two routers: %s", g->error.message))
        return;
    check(bs_graph_port_get(g, "frame", &port) == BS_OK && !port.output && port.dtype == BS_U8 && port.rank == 3 &&
              port.dim[0] == 1 && port.dim[1] == 96 && port.dim[2] == 144 && port.dim[3] == 0,
          "an input is known by its name: type, rank and largest extents");
    check(bs_graph_port_get(g, "same", &port) == BS_OK && port.output && port.dtype == BS_U8 && port.dim[2] == 144,
          "so is an output");
    check(bs_graph_port_get(g, "by_patch", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(g, "", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(NULL, "frame", &port) == BS_ERROR_ARGUMENT &&
              bs_graph_port_get(g, NULL, &port) == BS_ERROR_ARGUMENT,
          "what is neither is not");
    check(bs_graph_router_get(g, "by_patch", &router) == BS_OK && router.paths == 2 && router.patch_size == 48,
          "a router tells its patches' size");
    check(bs_graph_router_get(g, "by_row", &router) == BS_OK && router.paths == 2 && router.patch_size == 0,
          "one that has none says 0");
    check(bs_graph_router_get(g, "frame", &router) == BS_ERROR_ARGUMENT &&
              bs_graph_router_get(NULL, "by_row", &router) == BS_ERROR_ARGUMENT,
          "what is no router is none");
}

int main(void)
{
    test_limits_told();
    test_limits_of_values();
    test_limits_of_plans();
    test_limits_of_ops();
    test_limit_of_all_paths();
    test_limit_of_symbols();
    test_limits_of_tables();
    test_storage();
    test_symbols();
    test_no_graph();
    test_domains();
    test_blocks();
    test_ports();
    return check_end();
}
