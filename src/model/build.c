/* model/build.c - from the stored nodes to a graph, through the function that every builder function ends in.
 * Relies on model/model.h, graph/graph.h, graph/op.h. Must never accept what a builder call would refuse: all
 * verification of ops, shapes and domains is the graph's own. */
#include "model/model.h"
#include "ops/structure.h"

#if !defined(BS_NO_MODEL)

/* --------------------------------------------------------------------------------------------------- walk */

static void walk_cursor(const bs_model *model, const char *key, bs_cursor *cursor)
{
    bs_gguf_cursor(&model->gguf, bs_gguf_find(&model->gguf, key), cursor);
}

void bs_model_walk_begin(const bs_model *model, bs_model_walk *walk)
{
    walk_cursor(model, "brainstorm.node.op", &walk->op);
    walk_cursor(model, "brainstorm.node.name", &walk->name);
    walk_cursor(model, "brainstorm.node.inputs.count", &walk->in_count);
    walk_cursor(model, "brainstorm.node.inputs", &walk->in);
    walk_cursor(model, "brainstorm.node.params.count", &walk->param_count);
    walk_cursor(model, "brainstorm.node.params", &walk->param);
    walk_cursor(model, "brainstorm.node.block", &walk->block);
    walk->index = -1;
    walk->operands = NULL;
    walk->room = 0;
}

/* Reads how many entries of a list belong to one node. */
static bool walk_count(bs_cursor *counts, const char *what, int32_t most, int32_t *count, bs_error *error)
{
    *count = bs_cursor_i32(counts);
    return bs_cursor_sound(counts, error, what) &&
           ((*count >= 0 && *count <= most) ||
            bs_refuse(error, BS_ERROR_FORMAT, "it has %" PRId32 " %s, expected 0 .. %" PRId32, *count, what, most));
}

/* target: NULL to skip the entries. */
static bool walk_list(bs_cursor *list, const char *what, int32_t count, int32_t *target, bs_error *error)
{
    const bs_bytes bytes = bs_bytes_array(count, sizeof *target);
    return (target ? bs_cursor_take(list, target, bytes) : bs_cursor_skip(list, bytes)) ||
           bs_cursor_sound(list, error, what);
}

static bool walk_op(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    char op[BS_MAX_NAME];
    if (!bs_cursor_text(&walk->name, node->name, sizeof node->name))
        return bs_cursor_sound(&walk->name, error, "its name");
    if (!bs_cursor_text(&walk->op, op, sizeof op))
        return bs_cursor_sound(&walk->op, error, "its op");
    node->op = bs_op_index(op);
    if (node->op < 0)
        return bs_refuse(error, BS_ERROR_UNSUPPORTED, "its op is \"%s\", which this library does not have", op);
    return true;
}

/* Operands that do not fit into the room are skipped: adding the node will report it. */
static bool walk_operands(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    if (!walk_count(&walk->in_count, "inputs", BS_MAX_PATHS + 1, &node->n_in, error))
        return false;
    int32_t *const target = node->n_in <= walk->room ? walk->operands : NULL;
    node->in = target;
    return walk_list(&walk->in, "inputs", node->n_in, target, error);
}

/* Reads a node. It may have fewer parameters than its op: the file is older, and zero means default. */
static bool walk_node(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    node->block = bs_cursor_i32(&walk->block);
    return walk_op(walk, node, error) && walk_operands(walk, node, error) &&
           walk_count(&walk->param_count, "parameters", bs_op_get(node->op)->n_fields, &node->n_params, error) &&
           walk_list(&walk->param, "parameters", node->n_params, node->params, error) &&
           bs_cursor_sound(&walk->block, error, "its block");
}

bool bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    memset(node, 0, sizeof *node);
    walk->index++;
    const bool sound = walk_node(walk, node, error);
    if (!sound)
        bs_error_prefix(error, "node %" PRId32 " \"%s\": ", walk->index, node->name);
    return sound;
}

/* ------------------------------------------------------------------------------------------------ symbols */

/* The maxima that the symbols will get: the file's, or those of the caller's inputs. */
typedef struct model_maximum {
    int64_t maximum;
    bool set; /* an input gave it */
} model_maximum;

typedef char model_maximum_fits[sizeof(model_maximum) <= sizeof(bs_dim_info) ? 1 : -1];

/* Until the symbols are made, the graph's still empty table of dimensions holds their maxima, the bytes of one in each
 * entry. */
static model_maximum maximum_of(const bs_graph *graph, int64_t symbol)
{
    model_maximum m;
    memcpy(&m, &graph->dims[symbol], sizeof m);
    return m;
}

static void maximum_keep(bs_graph *graph, int64_t symbol, int64_t maximum, bool set)
{
    const model_maximum m = {maximum, set};
    memcpy(&graph->dims[symbol], &m, sizeof m);
}

/* Takes the maximum from one dimension of an input, encoded as in ops/structure.h: a constant, or symbol number +
 * 65536 (factor - 1), negated. */
static bool maxima_dim(const bs_model *model, bs_graph *graph, const bs_model_input *input, int32_t index, int32_t code,
                       bs_error *error)
{
    const int64_t wanted = input->dim[index], negated = -(int64_t)code;
    const int64_t symbol = (negated & 0xffff) - 1, factor = (negated >> 16) + 1;
    if (wanted == 0)
        return true;
    if (code >= 0 && wanted != code)
        return bs_refuse(error, BS_ERROR_SHAPE, "dimension %" PRId32 " is %lld, expected %" PRId32, index,
                         (long long)wanted, code);
    if (code >= 0)
        return true;
    if (symbol < 0 || symbol >= model->n_symbols)
        return bs_refuse(error, BS_ERROR_FORMAT, "dimension %" PRId32 " is symbol %d of %" PRId32, index,
                         (int)symbol + 1, model->n_symbols);
    if (wanted < 1 || wanted % factor != 0)
        return bs_refuse(error, BS_ERROR_SHAPE, "dimension %" PRId32 " is %lld, expected a positive multiple of %d",
                         index, (long long)wanted, (int)factor);
    const model_maximum m = maximum_of(graph, symbol);
    if (m.set && m.maximum != wanted / factor)
        return bs_refuse(error, BS_ERROR_SHAPE,
                         "dimension %" PRId32 " is %lld, expected %lld: it is another input's too", index,
                         (long long)wanted, (long long)(m.maximum * factor));
    maximum_keep(graph, symbol, wanted / factor, true);
    return true;
}

static bool maxima_input(const bs_model *model, bs_graph *graph, const bs_model_input *input, const bs_model_node *node,
                         bs_error *error)
{
    if (node->params[1] != input->rank || input->rank < 1 || input->rank > BS_MAX_RANK)
        return bs_refuse(error, BS_ERROR_SHAPE, "its rank is %" PRId32 ", expected %" PRId32, input->rank,
                         node->params[1]);
    bool sound = true;
    for (int32_t i = 0; sound && i < input->rank; i++)
        sound = maxima_dim(model, graph, input, i, node->params[2 + i], error);
    return sound;
}

/* Looks for one input of the caller's among the nodes. */
static bool maxima_find(const bs_model *model, bs_graph *graph, const bs_model_input *input, bs_error *error)
{
    bs_model_walk walk;
    bs_model_node node;
    if (!input->name)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "bs_model_build_desc.inputs: an input without a name");
    bs_model_walk_begin(model, &walk);
    for (int32_t i = 0; i < model->n_nodes; i++) {
        if (!bs_model_walk_next(&walk, &node, error))
            return false;
        if (bs_op_get(node.op)->bound != BS_BOUND_READ || strcmp(node.name, input->name) != 0)
            continue;
        const bool fits = maxima_input(model, graph, input, &node, error);
        if (!fits)
            bs_error_prefix(error, "input \"%s\": ", node.name);
        return fits;
    }
    return bs_refuse(error, BS_ERROR_ARGUMENT, "the model has no input \"%.64s\"", input->name);
}

static bool maxima_decide(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    bool sound = true;
    if (model->n_symbols > graph->max_dims)
        return bs_refuse(error, BS_ERROR_LIMIT,
                         "%" PRId32 " symbols, the graph has room for %" PRId32 " dimensions (bs_graph_desc.max_dims)",
                         model->n_symbols, graph->max_dims);
    for (int32_t i = 0; i < model->n_symbols; i++)
        maximum_keep(graph, i, model->symbols[i].maximum, false);
    for (int32_t i = 0; sound && desc && i < desc->n_inputs; i++)
        sound = maxima_find(model, graph, &desc->inputs[i], error);
    return sound;
}

/* Symbols are numbered in the order in which they are made, so all are made before any node. */
static bool build_symbols(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    if (!maxima_decide(model, graph, desc, error))
        return false;
    for (int32_t i = 0; i < model->n_symbols; i++) {
        char name[BS_MAX_NAME];
        if (!bs_gguf_text(&model->gguf, model->symbols[i].name_at, name, sizeof name, error))
            return false;
        bs_symbol(graph, name, maximum_of(graph, i).maximum);
    }
    return bs_graph_check(graph, error) == BS_OK;
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* A descriptor as the builders pass it: the name's pointer, then 4-byte fields. Every op's descriptor fits
 * (test_model_calls.c). */
typedef union model_params {
    const char *name;
    uint8_t bytes[sizeof(const char *) + BS_MODEL_MAX_PARAMS * 4 + 8];
} model_params;

static bool build_node(bs_graph *graph, const bs_model_node *node)
{
    model_params params;
    memset(&params, 0, sizeof params);
    params.name = node->name;
    memcpy(params.bytes + sizeof params.name, node->params, sizeof node->params);
    bs_op_build_numbered(graph, node->op, node->in, node->n_in, &params);
    return graph->status == BS_OK;
}

/* Adapts a network for 8-bit codes to deeper ones: u8 becomes u16, and ops that convert, enlarge or measure codes get
 * their number of bits. Numbers inside the network stay the same. */
static void widen_convert(const bs_graph *graph, bs_model_node *node, int32_t bits)
{
    const bool known = node->n_in == 1 && node->in && node->in[0] > 0 && node->in[0] < graph->n_values;
    const bool from_codes = known && graph->values[node->in[0]].dtype == BS_U16, to_codes = node->params[0] == BS_U8;
    const float factor = (float)(1 << (bits - 8));
    float scale;
    memcpy(&scale, &node->params[1], sizeof scale);
    scale = scale != 0 ? scale : 1;
    scale = from_codes && !to_codes ? scale / factor : to_codes && !from_codes ? scale * factor : scale;
    memcpy(&node->params[1], &scale, sizeof scale);
}

static void widen_codes(const bs_graph *graph, bs_model_node *node, int32_t bits)
{
    const bs_op *op = bs_op_get(node->op);
    const bool converts = op->min_in > 0 && op->n_fields > 0 && op->fields[0].holds == BS_FIELD_DTYPE;
    for (int32_t i = 0; i < op->n_fields; i++)
        if (strcmp(op->fields[i].name, "code_bits") == 0)
            node->params[i] = bits;
    if (converts)
        widen_convert(graph, node, bits);
    if ((converts || op->bound & BS_BOUND_READ) && node->params[0] == BS_U8)
        node->params[0] = BS_U16;
}

/* Replaces the floor of a BUDGET router by the caller's. */
static void replace_floor(bs_model_node *node, int32_t floor)
{
    const bs_op *op = bs_op_get(node->op);
    for (int32_t i = 0; op->work == BS_WORK_ROUTE && node->params[0] == BS_ROUTE_BUDGET && i < op->n_fields; i++)
        if (strcmp(op->fields[i].name, "floor") == 0)
            node->params[i] = bs_max_i32(floor, 0);
}

/* The state of replaying: which block comes next. */
typedef struct model_replay {
    const bs_model *model;
    bs_graph *graph;
    bs_error *error;
    int32_t next_block;
    int32_t code_bits, floor;
} model_replay;

static bool replay_open_block(model_replay *r)
{
    const bs_model_block *block = &r->model->blocks[r->next_block];
    const int32_t outer = r->graph->current_block, end = r->model->blocks[outer].end_node;
    char name[BS_MAX_NAME];
    if (block->end_node > end)
        return bs_refuse(r->error, BS_ERROR_FORMAT,
                         "block %" PRId32 " ends before node %" PRId32 ", block %" PRId32
                         " that it lies in before node %" PRId32,
                         r->next_block, block->end_node, outer, end);
    if (!bs_gguf_text(&r->model->gguf, block->name_at, name, sizeof name, r->error))
        return false;
    bs_block_begin(r->graph, name);
    r->next_block++;
    return bs_graph_failure(r->graph, r->error) == BS_OK;
}

/* Ends the blocks that end before node `index`, and begins those that begin there. Blocks are never empty and properly
 * nested. */
static bool replay_blocks(model_replay *r, int32_t index)
{
    const bs_model *m = r->model;
    bool sound = true;
    while (r->graph->current_block != 0 && m->blocks[r->graph->current_block].end_node == index)
        bs_block_end(r->graph);
    while (sound && r->next_block < m->n_blocks && m->blocks[r->next_block].first_node == index)
        sound = replay_open_block(r);
    return sound;
}

/* A file numbers values as builders hand them out; in the graph there are others between, which lifting makes. */
static void replay_operands(const bs_graph *graph, int32_t *in, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        in[i] = bs_graph_value_numbered(graph, in[i]);
}

static bool replay_node(model_replay *r, bs_model_node *node, int32_t index)
{
    if (!replay_blocks(r, index))
        return false;
    if (node->block != r->graph->current_block)
        return bs_refuse(r->error, BS_ERROR_FORMAT,
                         "node %" PRId32 " is said to be of block %" PRId32 ", but lies in block %" PRId32, index,
                         node->block, r->graph->current_block);
    const bs_op_rules *rules = bs_op_get(node->op)->rules;
    if (rules && rules->upgrade)
        rules->upgrade(node->params, (int32_t)r->model->opset);
    if (r->code_bits > 8)
        widen_codes(r->graph, node, r->code_bits);
    if (r->floor != 0)
        replace_floor(node, r->floor);
    if (build_node(r->graph, node))
        return true;
    bs_graph_failure(r->graph, r->error);
    bs_error_prefix(r->error, "node %" PRId32 ": ", index);
    return false;
}

static bool replay_end(model_replay *r)
{
    replay_blocks(r, r->model->n_nodes); /* only ends blocks: none begins behind the last node */
    if (r->next_block != r->model->n_blocks)
        return bs_refuse(r->error, BS_ERROR_FORMAT,
                         "block %" PRId32 " begins at node %" PRId32 ", expected the order of nodes", r->next_block,
                         r->model->blocks[r->next_block].first_node);
    const uint32_t values = (uint32_t)r->graph->values[r->graph->n_values - 1].number;
    if (values != r->model->n_values)
        return bs_refuse(r->error, BS_ERROR_FORMAT,
                         "key \"brainstorm.value.count\" is %" PRIu32 ", the graph has %" PRIu32 " values",
                         r->model->n_values, values);
    return true;
}

static bool build_nodes(model_replay *r)
{
    bs_model_walk walk;
    bs_model_node node;
    bs_model_walk_begin(r->model, &walk);
    for (int32_t i = 0; i < r->model->n_nodes; i++) {
        walk.operands = r->graph->operands + r->graph->n_operands; /* where the graph's next operands belong */
        walk.room = r->graph->max_operands - r->graph->n_operands;
        if (!bs_model_walk_next(&walk, &node, r->error))
            return false;
        if (node.in)
            replay_operands(r->graph, walk.operands, node.n_in);
        if (!replay_node(r, &node, i))
            return false;
    }
    return replay_end(r);
}

bs_status bs_model_build(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    if (!model || !graph || graph->n_nodes != 1 || graph->n_dims != 0 || graph->n_blocks != 1)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build takes a model and an empty graph");
    const int32_t bits = desc ? desc->code_bits : 0, floor = desc ? desc->floor : 0;
    if (bits != 0 && (bits < 8 || bits > 15))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build: %" PRId32 " bits a code, expected 0 or 8 .. 15",
                       bits);
    if (floor < -1 || floor > 1 << 24)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build: a floor of %" PRId32 ", expected -1 .. %d", floor,
                       1 << 24);
    bs_error here = {.status = BS_OK};
    model_replay stored = {model, graph, &here, 1, bits, floor};
    bs_model_at_file(model,
                     bs_graph_check(graph, &here) == BS_OK && build_symbols(model, graph, desc, &here) &&
                         build_nodes(&stored),
                     &here);
    return bs_tell(&here, error);
}
#endif
