/* tags: asan */
/* Promises: a model file whose nodes stand in the body of a loop gives the graph that builders make, lifted, in the
 * room that the file says; one whose nodes stand around the loop already, or whose loop lifts nothing, gives what was
 * written; operands that a file numbers are those that its builder had, and ones that do not exist are refused. */
#include "check.h"
#include "gguf_forge.h"

#include "model/model.h"
#include "ops/structure.h"
#include "plan/image.h"

static BS_ALIGNED uint8_t built_memory[1 << 20], read_memory[1 << 20], model_memory[1 << 18];
static forge file;
static bs_error error;
static bs_graph_desc room; /* what the file read last said of it */
static const bs_value none;

enum { ROWS = 9, WIDTH = 6, MOST = 96 };

/* ------------------------------------------------------------------------------------------------- the graph */

/* A loop in a loop, with a block in the inner body: chains of one result and of two, of one loop and of both. */
static void build(bs_graph *g, int32_t no_lift)
{
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), none);
    const bs_router outer = bs_loop_begin(g, x, none, &(bs_loop_desc){.name = "a", .bound = 3, .no_lift = no_lift});
    const bs_value h = bs_loop_carry(g, outer, x), own = bs_affine(g, bs_scatter(g, outer, 0, x), 2, 0);
    const bs_router inner = bs_loop_begin(g, h, none, &(bs_loop_desc){.name = "b", .bound = 2, .no_lift = no_lift});
    const bs_value c = bs_loop_carry(g, inner, h);
    bs_block_begin(g, "step");
    const bs_value in = bs_scatter(g, inner, 0, own), of_outer = bs_scatter(g, inner, 0, h);
    const bs_value one = bs_linear(g, in, &(bs_linear_desc){.name = "w", .out = WIDTH});
    bs_value at = none;
    const bs_value best = bs_topk(g, bs_add(g, one, in), WIDTH, &at);
    const bs_value sum = bs_add(g, best, bs_convert(g, at, &(bs_convert_desc){.dtype = BS_F32}));
    bs_block_end(g);
    const bs_value all = bs_add(g, bs_add(g, sum, bs_activation(g, of_outer, BS_TANH, 0)), c);
    const bs_value end = bs_loop_next(g, inner, c, all);
    bs_loop_end(g, inner, none);
    const bs_value last = bs_loop_next(g, outer, h, end);
    bs_loop_end(g, outer, none);
    bs_output(g, "y", bs_collect(g, last));
}

static bs_graph *new_graph(uint8_t *memory, const bs_graph_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", memory, sizeof built_memory);
    return bs_graph_create(&arena, desc);
}

static bs_graph *built(int32_t no_lift)
{
    bs_graph *g = new_graph(built_memory, NULL);
    build(g, no_lift);
    check(bs_graph_check(g, &error) == BS_OK, "the graph is built: %s", g->error.message);
    return g;
}

/* --------------------------------------------------------------------------------------------------- the file */

static struct {
    const char *op[MOST], *name[MOST];
    int32_t n_in[MOST], in[4 * MOST], n_params[MOST], params[32 * MOST], block[MOST], n, all_in, all_params;
} nodes;

/* Every node as it stands; the last field of loops may be another one. */
static void list_nodes(const bs_graph *g, int32_t no_lift)
{
    memset(&nodes, 0, sizeof nodes);
    for (int32_t k = 1; k < g->n_nodes; k++) {
        const bs_node *node = &g->nodes[k];
        const bs_op *op = bs_node_op(node);
        const int32_t i = nodes.n++;
        nodes.op[i] = op->name;
        nodes.name[i] = bs_node_name(node);
        nodes.n_in[i] = node->n_in;
        nodes.n_params[i] = op->n_fields;
        nodes.block[i] = node->block;
        memcpy(nodes.in + nodes.all_in, bs_node_in(g, node), (size_t)node->n_in * 4);
        if (op->n_fields)
            memcpy(nodes.params + nodes.all_params, (const char *)node->params + sizeof(char *),
                   (size_t)op->n_fields * 4);
        nodes.all_in += node->n_in;
        nodes.all_params += op->n_fields;
        if (strcmp(op->name, "loop") == 0)
            nodes.params[nodes.all_params - 1] = no_lift;
    }
}

/* Without weights: a graph needs none to be built. */
static void write_file(const bs_graph *g, uint32_t values)
{
    const char *names[2] = {"main", g->text + g->blocks[1].name};
    const int32_t first[2] = {0, g->blocks[1].first_node - 1}, end[2] = {nodes.n, g->blocks[1].end_node - 1},
                  tensor[2] = {-1, -1};
    const int64_t zero[2] = {0, 0};
    forge_begin(&file);
    forge_key_string(&file, "general.architecture", "brainstorm");
    forge_key_u32(&file, "general.alignment", 64);
    forge_key_u32(&file, "brainstorm.version", 1);
    forge_key_u32(&file, "brainstorm.opset", 4);
    forge_key_string(&file, "brainstorm.model.name", "lift");
    forge_key_u32(&file, "brainstorm.model.scale", 1);
    forge_key_u32(&file, "brainstorm.value.count", values);
    forge_strings(&file, "brainstorm.symbol.name", names, 0);
    forge_i64s(&file, "brainstorm.symbol.maximum", T_I64, zero, 0);
    forge_strings(&file, "brainstorm.node.op", nodes.op, (size_t)nodes.n);
    forge_strings(&file, "brainstorm.node.name", nodes.name, (size_t)nodes.n);
    forge_i32s(&file, "brainstorm.node.inputs.count", nodes.n_in, (size_t)nodes.n);
    forge_i32s(&file, "brainstorm.node.inputs", nodes.in, (size_t)nodes.all_in);
    forge_i32s(&file, "brainstorm.node.params.count", nodes.n_params, (size_t)nodes.n);
    forge_i32s(&file, "brainstorm.node.params", nodes.params, (size_t)nodes.all_params);
    forge_i32s(&file, "brainstorm.node.block", nodes.block, (size_t)nodes.n);
    forge_strings(&file, "brainstorm.block.name", names, 2);
    forge_i32s(&file, "brainstorm.block.first_node", first, 2);
    forge_i32s(&file, "brainstorm.block.end_node", end, 2);
    forge_i32s(&file, "brainstorm.block.tensor", tensor, 2);
    forge_i64s(&file, "brainstorm.block.bytes", T_U64, zero, 2);
    forge_i32s(&file, "brainstorm.block.crc32", tensor, 0); /* replaced */
    file.n -= 4 + 8;
    forge_u32(&file, T_U32);
    forge_u64(&file, 2);
    forge_put(&file, zero, 8);
    forge_strings(&file, "brainstorm.weight.name", names, 0);
    forge_i32s(&file, "brainstorm.weight.block", tensor, 0);
    forge_i32s(&file, "brainstorm.weight.dtype", tensor, 0);
    forge_i32s(&file, "brainstorm.weight.rank", tensor, 0);
    forge_i64s(&file, "brainstorm.weight.dims", T_I64, zero, 0);
    forge_i64s(&file, "brainstorm.weight.offset", T_U64, zero, 0);
    forge_pad(&file, 64);
    forge_end(&file);
}

static const bs_graph *read_file(bool with_room)
{
    bs_arena arena;
    memset(&error, 0, sizeof error);
    bs_arena_init(&arena, "model", model_memory, sizeof model_memory);
    const bs_model *model = bs_model_open_memory(&arena, file.bytes, file.n, &error);
    if (!model)
        return NULL;
    bs_graph_desc desc = room = bs_model_graph_desc(model);
    if (!with_room)
        desc.max_nodes = nodes.n;
    bs_graph *g = new_graph(read_memory, &desc);
    return bs_model_build(model, g, NULL, &error) == BS_OK ? g : NULL;
}

/* -------------------------------------------------------------------------------------------------------- tests */

static bool same(const bs_graph *a, const bs_graph *b)
{
    return a && b && a->n_nodes == b->n_nodes && a->n_values == b->n_values && bs_image_graph(a) == bs_image_graph(b);
}

static void test_round_trips(void)
{
    for (int32_t no_lift = 0; no_lift < 2; no_lift++) {
        const bs_graph *g = built(no_lift);
        list_nodes(g, no_lift);
        write_file(g, (uint32_t)g->n_values - 1);
        const bs_graph *again = read_file(true);
        check(same(g, again), "a graph that is written as it is, no_lift %d, is read as it was: %s", no_lift,
              error.message);
    }
}

/* As another program writes it, which knows of no lifting. */
static void test_files_of_bodies(void)
{
    const bs_graph *in_bodies = built(1);
    const int32_t count = in_bodies->n_nodes;
    list_nodes(in_bodies, 0);
    write_file(in_bodies, (uint32_t)in_bodies->n_values - 1);
    const bs_graph *lifted = built(0), *g = read_file(true);
    check(lifted->n_nodes > count + 8, "lifting makes %d nodes of %d", lifted->n_nodes, count);
    check(same(lifted, g), "nodes of bodies are lifted as builders lift them: %s", error.message);
    bool in_order = g != NULL;
    for (int32_t v = 1; g && v < g->n_values; v++)
        in_order = in_order && (bs_graph_value_numbered(g, g->values[v].number) == v ||
                                g->values[v].number == g->values[v - 1].number);
    check(in_order, "each value of the file has one in the graph");
    check(!read_file(false) && error.status == BS_ERROR_LIMIT, "in room for the file's nodes alone it is not: %s",
          error.message);
    check(g && g->n_nodes - 1 <= room.max_nodes && room.max_nodes <= 3 * count, "room for %d nodes of %d in the file",
          room.max_nodes, count - 1);
}

static void test_references(void)
{
    const bs_graph *in_bodies = built(1);
    const int32_t values = in_bodies->n_values - 1;
    list_nodes(in_bodies, 0);
    const int32_t last = nodes.all_in - 1, was = nodes.in[last];
    static const int32_t wrong[] = {0, -1, INT32_MIN, 1 << 20, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong + 1; i++) {
        nodes.in[last] = i ? wrong[i - 1] : was + 1; /* of the output: its own number, if it had a result */
        write_file(in_bodies, (uint32_t)values);
        check(!read_file(true) && strstr(error.message, "which does not exist"), "value %d is none: %s", nodes.in[last],
              error.message);
    }
    nodes.in[last] = was;
    write_file(in_bodies, (uint32_t)values + 1);
    check(!read_file(true) && strstr(error.message, "brainstorm.value.count"), "values are counted as in the file: %s",
          error.message);
}

int main(void)
{
    test_round_trips();
    test_files_of_bodies();
    test_references();
    return check_end();
}
