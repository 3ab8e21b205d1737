/* model_build.c - from the stored nodes to a graph, through the primitive that every builder function ends in.
 * Relies on model.h, graph.h, op.h. Must never accept what a builder call would refuse: all verification of ops,
 * shapes and domains is the graph's own. */
#include "model.h"
#include "structure.h"

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
}

static bs_status walk_fail(const bs_model_walk *walk, const char *what, bs_error *error)
{
    const bs_cursor *const all[] = {&walk->op, &walk->name, &walk->in_count, &walk->in, &walk->param_count, &walk->param, &walk->block};
    const bs_status status = bs_cursor_blame(all, sizeof all / sizeof *all);
    return bs_fail(error, status, "node %d: %s %s", walk->index, what, status == BS_ERROR_IO ? "not to be read" : "malformed");
}

static bool walk_list(bs_cursor *counts, bs_cursor *list, int32_t most, int32_t *count, int32_t *target)
{
    *count = bs_cursor_i32(counts);
    if (counts->status != BS_OK || *count < 0 || *count > most)
        return false;
    return bs_cursor_take(list, target, (uint64_t)*count * sizeof *target);
}

static bs_status walk_op(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    char op[BS_MAX_NAME];
    if (!bs_cursor_text(&walk->op, op, sizeof op))
        return walk_fail(walk, "the op's name is", error);
    if (!bs_cursor_text(&walk->name, node->name, sizeof node->name))
        return walk_fail(walk, "its name is", error);
    node->op = bs_op_index(op);
    if (node->op < 0)
        return bs_fail(error, BS_ERROR_UNSUPPORTED, "node %d: there is no op \"%s\"", walk->index, op);
    return BS_OK;
}

bs_status bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error)
{
    walk->index++;
    const bs_status status = walk_op(walk, node, error);
    if (status != BS_OK)
        return status;
    if (!walk_list(&walk->in_count, &walk->in, BS_MAX_PATHS + 1, &node->n_in, node->in))
        return walk_fail(walk, "its inputs are", error);
    /* fewer parameters than the op has: the file is older, and zero means default */
    const int32_t fields = bs_min_i32(bs_op_get(node->op)->n_fields, BS_MODEL_MAX_PARAMS);
    if (!walk_list(&walk->param_count, &walk->param, fields, &node->n_params, node->params))
        return walk_fail(walk, "its parameters are", error);
    node->block = bs_cursor_i32(&walk->block);
    if (walk->block.status != BS_OK)
        return walk_fail(walk, "its block is", error);
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------ symbols */

/* The maxima that the symbols will get: the file's, or what the caller's inputs ask for. */
typedef struct model_maxima {
    int64_t maximum[BS_MODEL_MAX_SYMBOLS];
    bool set[BS_MODEL_MAX_SYMBOLS];
} model_maxima;

/* One dimension of an input, as structure.h encodes it: a constant, or symbol number + 65536 (factor - 1), negated. */
static bs_status maxima_dim(const bs_model *model, model_maxima *m, const bs_model_input *input, int32_t index,
                            int32_t code, bs_error *error)
{
    const int64_t wanted = input->dim[index], negated = -(int64_t)code;
    const int64_t symbol = (negated & 0xffff) - 1, factor = (negated >> 16) + 1;
    if (wanted == 0)
        return BS_OK;
    if (code >= 0)
        return wanted == code ? BS_OK : bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d is %d, not %lld",
                                                input->name, index, code, (long long)wanted);
    if (symbol < 0 || symbol >= model->n_symbols)
        return bs_fail(error, BS_ERROR_FORMAT, "input \"%.64s\": dimension %d has no symbol", input->name, index);
    if (wanted < 1 || wanted % factor != 0)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d must be a multiple of %lld, not %lld",
                       input->name, index, (long long)factor, (long long)wanted);
    if (m->set[symbol] && m->maximum[symbol] != wanted / factor)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\": dimension %d contradicts another input", input->name, index);
    m->maximum[symbol] = wanted / factor;
    m->set[symbol] = true;
    return BS_OK;
}

static bs_status maxima_input(const bs_model *model, model_maxima *m, const bs_model_input *input,
                              const bs_model_node *node, bs_error *error)
{
    if (node->n_params < 2 || node->params[1] != input->rank || input->rank < 1 || input->rank > BS_MAX_RANK ||
        node->n_params < 2 + input->rank)
        return bs_fail(error, BS_ERROR_SHAPE, "input \"%.64s\" has another rank than %d", input->name, input->rank);
    bs_status status = BS_OK;
    for (int32_t i = 0; status == BS_OK && i < input->rank; i++)
        status = maxima_dim(model, m, input, i, node->params[2 + i], error);
    return status;
}

/* Looks for one input among the nodes. */
static bs_status maxima_find(const bs_model *model, model_maxima *m, const bs_model_input *input, bs_error *error)
{
    bs_model_walk walk;
    bs_model_node node;
    if (!input->name)
        return bs_fail(error, BS_ERROR_ARGUMENT, "an input without a name");
    bs_model_walk_begin(model, &walk);
    for (int32_t i = 0; i < model->n_nodes; i++) {
        const bs_status status = bs_model_walk_next(&walk, &node, error);
        if (status != BS_OK)
            return status;
        if (bs_op_get(node.op) == &bs_op_input && strcmp(node.name, input->name) == 0)
            return maxima_input(model, m, input, &node, error);
    }
    return bs_fail(error, BS_ERROR_ARGUMENT, "the model has no input \"%.64s\"", input->name);
}

static bs_status maxima_decide(const bs_model *model, const bs_model_build_desc *desc, model_maxima *m, bs_error *error)
{
    bs_status status = BS_OK;
    memset(m, 0, sizeof *m);
    for (int32_t i = 0; i < model->n_symbols; i++)
        m->maximum[i] = model->symbols[i].maximum;
    for (int32_t i = 0; status == BS_OK && desc && i < desc->n_inputs; i++)
        status = maxima_find(model, m, &desc->inputs[i], error);
    return status;
}

/* Symbols are numbered in the order they are made: all of them, before any node. */
static bs_status build_symbols(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    model_maxima maxima;
    const bs_status status = maxima_decide(model, desc, &maxima, error);
    if (status != BS_OK)
        return status;
    for (int32_t i = 0; i < model->n_symbols; i++) {
        bs_cursor cursor;
        char name[BS_MAX_NAME];
        bs_cursor_init(&cursor, &model->gguf.source, model->symbols[i].name_at, model->gguf.source.size);
        if (!bs_cursor_text(&cursor, name, sizeof name))
            return bs_fail(error, cursor.status, "symbol %d could not be read again", i);
        bs_symbol(graph, name, maxima.maximum[i]);
    }
    return bs_graph_check(graph, error);
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* A descriptor as the builders pass it: the name's pointer, then 4-byte fields. */
typedef union model_params {
    const char *name;
    uint8_t bytes[sizeof(const char *) + BS_MODEL_MAX_PARAMS * 4 + 8];
} model_params;

static bs_status build_node(bs_graph *graph, const bs_model_node *node, int32_t index, bs_error *error)
{
    const bs_op *op = bs_op_get(node->op);
    model_params params;
    memset(&params, 0, sizeof params);
    params.name = node->name;
    const size_t fields = (size_t)node->n_params * 4;
    if (op->params_bytes > sizeof params || sizeof params.name + fields > sizeof params)
        return bs_fail(error, BS_ERROR_LIMIT, "node %d: op \"%s\" has too many parameters", index, op->name);
    memcpy(params.bytes + sizeof params.name, node->params, fields);
    bs_graph_add(graph, node->op, node->in, node->n_in, op->params_bytes ? &params : NULL);
    return graph->status;
}

/* A net for 8-bit codes on deeper ones: u8 becomes u16, and what turns codes into numbers and back, enlarges or measures
 * them is told how many bits they have. Numbers inside the net stay the same. */
static void widen_convert(const bs_graph *graph, bs_model_node *node, int32_t bits)
{
    const bool known = node->n_in == 1 && node->in[0] > 0 && node->in[0] < graph->n_values;
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
    const bool convert = strcmp(op->name, "convert") == 0;
    for (int32_t i = node->n_params; i < op->n_fields && i < BS_MODEL_MAX_PARAMS; i++)
        node->params[i] = 0; /* an older file left them out */
    node->n_params = bs_min_i32(op->n_fields, BS_MODEL_MAX_PARAMS);
    for (int32_t i = 0; i < node->n_params; i++)
        if (strcmp(op->fields[i].name, "code_bits") == 0)
            node->params[i] = bits;
    if (convert)
        widen_convert(graph, node, bits);
    if ((convert || op == &bs_op_input || op == &bs_op_state) && node->params[0] == BS_U8)
        node->params[0] = BS_U16;
}

/* The state of replaying: which block comes next. */
typedef struct model_replay {
    const bs_model *model;
    bs_graph *graph;
    bs_error *error;
    int32_t next_block;
    int32_t code_bits;
} model_replay;

static bs_status replay_open_block(model_replay *r)
{
    const bs_model_block *block = &r->model->blocks[r->next_block];
    bs_cursor cursor;
    char name[BS_MAX_NAME];
    if (block->end_node > r->model->blocks[r->graph->current_block].end_node)
        return bs_fail(r->error, BS_ERROR_FORMAT, "block %d ends after the block it lies in", r->next_block);
    bs_cursor_init(&cursor, &r->model->gguf.source, block->name_at, r->model->gguf.source.size);
    if (!bs_cursor_text(&cursor, name, sizeof name))
        return bs_fail(r->error, cursor.status, "block %d could not be read again", r->next_block);
    bs_block_begin(r->graph, name);
    r->next_block++;
    return bs_graph_check(r->graph, r->error);
}

/* Ends what ends before node `index`, begins what begins there. Blocks are never empty and properly nested. */
static bs_status replay_blocks(model_replay *r, int32_t index)
{
    const bs_model *m = r->model;
    bs_status status = BS_OK;
    while (r->graph->current_block != 0 && m->blocks[r->graph->current_block].end_node == index)
        bs_block_end(r->graph);
    while (status == BS_OK && r->next_block < m->n_blocks && m->blocks[r->next_block].first_node == index)
        status = replay_open_block(r);
    return status;
}

static bs_status replay_node(model_replay *r, bs_model_node *node, int32_t index)
{
    const bs_status status = replay_blocks(r, index);
    if (status != BS_OK)
        return status;
    if (node->block != r->graph->current_block)
        return bs_fail(r->error, BS_ERROR_FORMAT, "node %d is said to be of block %d, but lies in block %d", index, node->block,
                       r->graph->current_block);
    if (r->code_bits > 8)
        widen_codes(r->graph, node, r->code_bits);
    if (build_node(r->graph, node, index, r->error) == BS_OK)
        return BS_OK;
    return r->graph->status != BS_OK ? bs_graph_check(r->graph, r->error) : BS_ERROR_LIMIT;
}

static bs_status replay_end(model_replay *r)
{
    const bs_status status = replay_blocks(r, r->model->n_nodes);
    if (status != BS_OK)
        return status;
    if (r->next_block != r->model->n_blocks || r->graph->current_block != 0)
        return bs_fail(r->error, BS_ERROR_FORMAT, "block %d is not in the order of nodes", r->next_block);
    if (r->graph->n_values - 1 != r->model->n_values)
        return bs_fail(r->error, BS_ERROR_FORMAT, "the graph has %d values, the file says %d", r->graph->n_values - 1,
                       r->model->n_values);
    return BS_OK;
}

bs_status bs_model_build(const bs_model *model, bs_graph *graph, const bs_model_build_desc *desc, bs_error *error)
{
    if (!model || !graph || graph->n_nodes != 1 || graph->n_dims != 0 || graph->n_blocks != 1)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build takes a model and an empty graph");
    if (desc && (desc->code_bits < 0 || desc->code_bits > 15))
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_model_build: %d bits a code, expected 8 .. 15", desc->code_bits);
    model_replay stored = {model, graph, error, 1, desc ? desc->code_bits : 0};
    bs_model_walk walk;
    bs_model_node node;
    bs_status status = bs_graph_check(graph, error);
    if (status == BS_OK)
        status = build_symbols(model, graph, desc, error);
    bs_model_walk_begin(model, &walk);
    for (int32_t i = 0; status == BS_OK && i < model->n_nodes; i++) {
        status = bs_model_walk_next(&walk, &node, error);
        if (status == BS_OK)
            status = replay_node(&stored, &node, i);
    }
    return status == BS_OK ? replay_end(&stored) : status;
}
