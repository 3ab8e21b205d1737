/* tags: unsigned shipped aarch64 32-bit */
/* Promises: the limits of graphs, values and plans that the header tells are those of the code: at the number, and one
 * beyond. Of ops: test_limits_of_ops.c. */
#include "limit_told.h"

static _Alignas(64) uint8_t plan_memory[1 << 20];

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
    return bs_plan_create(&arena, NULL, g, desc, &error) ? "" : error.message;
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
    g->n_operands = 1 << 30; /* as if it had so many: planning counts them before it looks at any */
    const size_t large = bs_plan_bytes(g, NULL);
    check(small > 0 && (wide ? large / 4 > UINT32_MAX / 4 : large == 0), "a plan that %s", told);
    bs_error error = {0};
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    check(!bs_plan_create(&arena, NULL, g, NULL, &error) && arena.used == 0, "... and is not made in less");
    check(wide ? error.status == BS_ERROR_ARENA && error.needed / 4 > UINT32_MAX / 4 : error.status != BS_OK,
          "... because of all its bytes: %s", error.message);
}

int main(void)
{
    test_limits_told();
    test_limits_of_values();
    test_limits_of_plans();
    test_limit_of_all_paths();
    test_limit_of_symbols();
    test_limits_of_tables();
    return check_end();
}
