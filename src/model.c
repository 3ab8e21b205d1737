/* model.c - the index of a model file: what it says of itself, its symbols, blocks, weights and nodes, each checked once.
 * Relies on model.h. Must never trust a number of the file, nor read weights. */
#include "model.h"

/* What the opening functions share. */
typedef struct model_open {
    bs_model *model;
    bs_arena *arena;
    bs_error *error;
} model_open;

/* ------------------------------------------------------------------------------------------ single values */

static bs_status model_fail_key(const model_open *o, const char *key, const char *why)
{
    return bs_fail(o->error, BS_ERROR_FORMAT, "key \"%s\" %s", key, why);
}

/* What was read through the cursor is wrong, or could not be read. */
static bs_status model_fail_value(const model_open *o, const char *key, const bs_cursor *cursor, const char *why)
{
    if (bs_cursor_blame(&cursor, 1) == BS_ERROR_IO)
        return bs_fail(o->error, BS_ERROR_IO, "key \"%s\" could not be read", key);
    return model_fail_key(o, key, why);
}

static bs_status model_text(const model_open *o, const char *key, bool required, char *text, size_t bytes)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    text[0] = 0;
    if (!found)
        return required ? model_fail_key(o, key, "is missing") : BS_OK;
    if (found->is_array || found->type != BS_GGUF_STRING)
        return model_fail_key(o, key, "is not a string");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    return bs_cursor_text(&cursor, text, bytes) ? BS_OK : model_fail_value(o, key, &cursor, "is too long, or not plain ASCII");
}

/* Absent: *number is left as it is. */
static bs_status model_u32(const model_open *o, const char *key, uint32_t most, int32_t *number)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    if (!found)
        return BS_OK;
    if (found->is_array || found->type != BS_GGUF_U32)
        return model_fail_key(o, key, "is not a u32");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    const uint32_t n = bs_cursor_u32(&cursor);
    if (cursor.status != BS_OK || n > most)
        return model_fail_value(o, key, &cursor, "is out of range");
    *number = (int32_t)n;
    return BS_OK;
}

/* What every record's head repeats. */
static bs_status model_file_id(const model_open *o)
{
    const char *const key = "brainstorm.file.id";
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    if (o->model->version < 2)
        return BS_OK;
    if (!found)
        return model_fail_key(o, key, "is missing");
    if (found->is_array || found->type != BS_GGUF_U64)
        return model_fail_key(o, key, "is not a u64");
    bs_cursor cursor;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    o->model->file_id = bs_cursor_u64(&cursor);
    return cursor.status == BS_OK ? BS_OK : model_fail_value(o, key, &cursor, "is malformed");
}

static bs_status model_identity(const model_open *o)
{
    char architecture[16];
    bs_model *m = o->model;
    bs_status status = model_text(o, "general.architecture", true, architecture, sizeof architecture);
    if (status == BS_OK && strcmp(architecture, "brainstorm") != 0)
        return bs_fail(o->error, BS_ERROR_FORMAT, "a GGUF file of architecture \"%s\", not a brainstorm model", architecture);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.version", INT32_MAX, &m->version);
    if (status == BS_OK && (m->version < 1 || m->version > BS_MODEL_VERSION))
        return bs_fail(o->error, BS_ERROR_VERSION, "model file version %d, expected 1..%d", m->version, BS_MODEL_VERSION);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.opset", INT32_MAX, &m->opset);
    if (status == BS_OK && (m->opset < 1 || m->opset > BS_MODEL_OPSET))
        return bs_fail(o->error, BS_ERROR_VERSION, "the file needs op set %d, this library knows 1..%d", m->opset,
                       BS_MODEL_OPSET);
    return status == BS_OK ? model_file_id(o) : status;
}

static bs_status model_labels(const model_open *o)
{
    bs_status status = model_text(o, "brainstorm.model.name", false, o->model->name, sizeof o->model->name);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.model.scale", 64, &o->model->scale);
    if (status == BS_OK)
        status = model_u32(o, "brainstorm.value.count", BS_MODEL_MAX_NODES * BS_MAX_OUTPUTS, &o->model->n_values);
    return status;
}

/* ------------------------------------------------------------------------------------------------- arrays */

/* How many elements an array has; an array without elements is not written at all. */
static bs_status model_count(const model_open *o, const char *key, int32_t most, int32_t *count)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    *count = 0;
    if (!found)
        return BS_OK;
    if (!found->is_array)
        return model_fail_key(o, key, "is not an array");
    if (found->count > (uint64_t)most)
        return bs_fail(o->error, BS_ERROR_LIMIT, "key \"%s\" has %llu elements, at most %d are supported", key,
                       (unsigned long long)found->count, most);
    *count = (int32_t)found->count;
    return BS_OK;
}

/* A cursor over an array of `count` elements of `type`. */
static bs_status model_array(const model_open *o, const char *key, bs_gguf_type type, int64_t count, bs_cursor *cursor)
{
    const bs_gguf_key *found = bs_gguf_find(&o->model->gguf, key);
    bs_gguf_cursor(&o->model->gguf, found, cursor);
    if (!found && count == 0)
        return BS_OK;
    if (!found)
        return model_fail_key(o, key, "is missing");
    if (!found->is_array || found->type != (uint32_t)type)
        return model_fail_key(o, key, "is not an array of the expected type");
    if (found->count != (uint64_t)count)
        return bs_fail(o->error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements, expected %lld", key,
                       (unsigned long long)found->count, (long long)count);
    return BS_OK;
}

static bs_status model_fail_entry(const model_open *o, const char *what, int32_t index, const char *why)
{
    return bs_fail(o->error, BS_ERROR_FORMAT, "%s %d %s", what, index, why);
}

/* The same, when it may be that one of the cursors could not be read. */
static bs_status model_fail_read(const model_open *o, const char *what, int32_t index, const bs_cursor *const *cursors, size_t count, const char *why)
{
    if (bs_cursor_blame(cursors, count) == BS_ERROR_IO)
        return bs_fail(o->error, BS_ERROR_IO, "%s %d could not be read", what, index);
    return model_fail_entry(o, what, index, why);
}

static void *model_take(const model_open *o, int32_t count, size_t each, bs_status *status)
{
    const uint64_t bytes = bs_mul_u64((uint64_t)(count > 0 ? count : 1), each); /* capped counts */
    void *memory = bs_arena_take(o->arena, (size_t)bytes);
    if (!memory)
        *status = bs_fail_arena(o->error, o->arena, bytes, "the index of a model file");
    else
        memset(memory, 0, (size_t)bytes);
    return memory;
}

/* ------------------------------------------------------------------------------------------------ symbols */

static bs_status model_symbols(const model_open *o)
{
    bs_model *m = o->model;
    bs_cursor name, maximum;
    const bs_cursor *const both[] = {&name, &maximum};
    char text[BS_MAX_NAME];
    bs_status status = model_count(o, "brainstorm.symbol.name", BS_MODEL_MAX_SYMBOLS, &m->n_symbols);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.symbol.name", BS_GGUF_STRING, m->n_symbols, &name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.symbol.maximum", BS_GGUF_I64, m->n_symbols, &maximum);
    for (int32_t i = 0; status == BS_OK && i < m->n_symbols; i++) {
        m->symbols[i].name_at = name.at;
        m->symbols[i].maximum = bs_cursor_i64(&maximum);
        if (!bs_cursor_text(&name, text, sizeof text))
            return model_fail_read(o, "symbol", i, both, 2, "has a bad name");
        if (maximum.status != BS_OK || m->symbols[i].maximum < 1)
            return model_fail_read(o, "symbol", i, both, 2, "has a bad maximum");
        m->text_bytes += strlen(text) + 1;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------- blocks */

typedef struct model_block_cursors {
    bs_cursor name, first, end, tensor, bytes, crc32;
} model_block_cursors;

static bs_status model_block_arrays(const model_open *o, model_block_cursors *c)
{
    const int32_t n = o->model->n_blocks;
    bs_status status = model_array(o, "brainstorm.block.name", BS_GGUF_STRING, n, &c->name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.first_node", BS_GGUF_I32, n, &c->first);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.end_node", BS_GGUF_I32, n, &c->end);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.tensor", BS_GGUF_I32, n, &c->tensor);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.bytes", BS_GGUF_U64, n, &c->bytes);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.block.crc32", BS_GGUF_U32, n, &c->crc32);
    return status;
}

/* The record of a block is a whole tensor of bytes; blocks take tensors in order, so none is taken twice. */
static bs_status model_block_record(const model_open *o, int32_t index, int32_t number, int32_t *last)
{
    const bs_gguf *gguf = &o->model->gguf;
    bs_model_block *block = &o->model->blocks[index];
    if (number == -1)
        return block->bytes == 0 ? BS_OK : model_fail_entry(o, "block", index, "has bytes but no tensor");
    if (number <= *last || (uint32_t)number >= gguf->n_tensors)
        return model_fail_entry(o, "block", index, "names a tensor that does not exist or is taken");
    const bs_gguf_tensor *tensor = &gguf->tensors[number];
    if (tensor->type != BS_GGUF_TENSOR_I8 || tensor->rank != 1 || tensor->bytes != block->bytes)
        return model_fail_entry(o, "block", index, "does not have the bytes of its tensor");
    if (block->bytes < bs_model_head_bytes(o->model))
        return model_fail_entry(o, "block", index, "has a record without room for its head");
    block->offset = tensor->offset;
    *last = number;
    return BS_OK;
}

static bs_status model_fail_block(const model_open *o, const model_block_cursors *c, int32_t index, const char *why)
{
    const bs_cursor *const all[] = {&c->name, &c->first, &c->end, &c->tensor, &c->bytes, &c->crc32};
    return model_fail_read(o, "block", index, all, sizeof all / sizeof *all, why);
}

static bs_status model_block_read(const model_open *o, model_block_cursors *c, int32_t index, int32_t *last)
{
    bs_model_block *block = &o->model->blocks[index];
    char text[BS_MAX_NAME];
    block->name_at = c->name.at;
    if (!bs_cursor_text(&c->name, text, sizeof text) || !text[0])
        return model_fail_block(o, c, index, "has a bad name");
    o->model->text_bytes += strlen(text) + 1;
    block->first_node = bs_cursor_i32(&c->first);
    block->end_node = bs_cursor_i32(&c->end);
    block->bytes = bs_cursor_u64(&c->bytes);
    block->crc32 = bs_cursor_u32(&c->crc32);
    const int32_t tensor = bs_cursor_i32(&c->tensor);
    if (c->first.status || c->end.status || c->bytes.status || c->crc32.status || c->tensor.status)
        return model_fail_block(o, c, index, "is malformed");
    const bool whole = block->first_node == 0 && block->end_node == o->model->n_nodes;
    const bool range = 0 <= block->first_node && block->first_node < block->end_node && block->end_node <= o->model->n_nodes;
    if (index == 0 ? !whole : !range)
        return model_fail_entry(o, "block", index, "has a bad range of nodes");
    return model_block_record(o, index, tensor, last);
}

static bs_status model_blocks(const model_open *o)
{
    bs_model *m = o->model;
    model_block_cursors cursors;
    int32_t last = -1;
    bs_status status = model_count(o, "brainstorm.block.name", BS_MAX_BLOCKS, &m->n_blocks);
    if (status == BS_OK && m->n_blocks == 0)
        return model_fail_key(o, "brainstorm.block.name", "is missing");
    if (status == BS_OK)
        status = model_block_arrays(o, &cursors);
    if (status == BS_OK)
        m->blocks = model_take(o, m->n_blocks, sizeof *m->blocks, &status);
    for (int32_t i = 0; status == BS_OK && i < m->n_blocks; i++)
        status = model_block_read(o, &cursors, i, &last);
    return status;
}

/* ------------------------------------------------------------------------------------------------ weights */

typedef struct model_weight_cursors {
    bs_cursor name, block, dtype, rank, dims, offset;
} model_weight_cursors;

static bs_status model_weight_arrays(const model_open *o, model_weight_cursors *c)
{
    const int32_t n = o->model->n_weights;
    int32_t dims = 0;
    bs_status status = model_count(o, "brainstorm.weight.dims", BS_MODEL_MAX_WEIGHTS * BS_MAX_RANK, &dims);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.name", BS_GGUF_STRING, n, &c->name);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.block", BS_GGUF_I32, n, &c->block);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.dtype", BS_GGUF_I32, n, &c->dtype);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.rank", BS_GGUF_I32, n, &c->rank);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.dims", BS_GGUF_I64, dims, &c->dims);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.weight.offset", BS_GGUF_U64, n, &c->offset);
    return status;
}

static bs_status model_fail_weight(const model_open *o, const model_weight_cursors *c, int32_t index, const char *why)
{
    const bs_cursor *const all[] = {&c->name, &c->block, &c->dtype, &c->rank, &c->dims, &c->offset};
    return model_fail_read(o, "weight", index, all, sizeof all / sizeof *all, why);
}

static bs_status model_weight_shape(const model_open *o, model_weight_cursors *c, int32_t index)
{
    bs_model_weight *w = &o->model->weights[index];
    w->dtype = bs_cursor_i32(&c->dtype);
    w->rank = bs_cursor_i32(&c->rank);
    if (c->dtype.status || w->dtype < 0 || w->dtype >= BS_DTYPE_COUNT)
        return model_fail_weight(o, c, index, "has a type that does not exist");
    if (c->rank.status || w->rank < 1 || w->rank > BS_MAX_RANK)
        return model_fail_weight(o, c, index, "has a rank outside 1..4");
    w->bytes = bs_dtype_bytes((bs_dtype)w->dtype);
    for (int32_t i = 0; i < w->rank; i++) {
        w->dim[i] = bs_cursor_i64(&c->dims);
        if (c->dims.status || w->dim[i] < 1)
            return model_fail_weight(o, c, index, "has a dimension below 1, or none");
        w->bytes = bs_mul_u64(w->bytes, (uint64_t)w->dim[i]);
    }
    return BS_OK;
}

/* Weights are listed block by block in the order of their bytes: ranges are contiguous, nothing overlaps. */
static bs_status model_weight_place(const model_open *o, model_weight_cursors *c, int32_t index)
{
    bs_model *m = o->model;
    bs_model_weight *w = &m->weights[index];
    w->block = bs_cursor_i32(&c->block);
    const uint64_t offset = bs_cursor_u64(&c->offset);
    const int32_t before = index ? w[-1].block : 0;
    if (c->block.status || w->block < before || w->block >= m->n_blocks)
        return model_fail_weight(o, c, index, "is not in the order of blocks");
    bs_model_block *block = &m->blocks[w->block];
    const bool first = index == 0 || w->block != before;
    const uint64_t used = first ? bs_model_head_bytes(m) : w[-1].offset + w[-1].bytes - block->offset;
    if (c->offset.status || offset % 256 != 0 || offset < used || bs_add_u64(offset, w->bytes) > block->bytes)
        return model_fail_weight(o, c, index, "does not lie in its block's record");
    if (first)
        block->first_weight = index;
    block->end_weight = index + 1;
    w->offset = block->offset + offset;
    return BS_OK;
}

static bs_status model_weight_read(const model_open *o, model_weight_cursors *c, int32_t index)
{
    char text[BS_MAX_WEIGHT_NAME];
    bs_model_weight *w = &o->model->weights[index];
    w->name_at = c->name.at;
    if (!bs_cursor_text(&c->name, text, sizeof text) || !text[0])
        return model_fail_weight(o, c, index, "has a bad name");
    w->hash = bs_name_hash(text, strlen(text));
    const bs_status status = model_weight_shape(o, c, index);
    return status == BS_OK ? model_weight_place(o, c, index) : status;
}

static bs_status model_weights_unique(const model_open *o)
{
    const size_t mark = o->arena->used;
    bs_status status = BS_OK;
    uint64_t *hashes = model_take(o, o->model->n_weights, sizeof *hashes, &status);
    if (!hashes)
        return status;
    for (int32_t i = 0; i < o->model->n_weights; i++)
        hashes[i] = o->model->weights[i].hash;
    if (!bs_hashes_unique(hashes, (size_t)o->model->n_weights))
        status = bs_fail(o->error, BS_ERROR_FORMAT, "a weight's name occurs twice");
    o->arena->used = mark;
    return status;
}

static bs_status model_weights(const model_open *o)
{
    bs_model *m = o->model;
    model_weight_cursors cursors;
    bs_status status = model_count(o, "brainstorm.weight.name", BS_MODEL_MAX_WEIGHTS, &m->n_weights);
    if (status == BS_OK)
        status = model_weight_arrays(o, &cursors);
    if (status == BS_OK)
        m->weights = model_take(o, m->n_weights, sizeof *m->weights, &status);
    for (int32_t i = 0; status == BS_OK && i < m->n_weights; i++)
        status = model_weight_read(o, &cursors, i);
    if (status == BS_OK && bs_cursor_left(&cursors.dims) != 0)
        return model_fail_key(o, "brainstorm.weight.dims", "has more dimensions than its weights");
    return status == BS_OK ? model_weights_unique(o) : status;
}

/* -------------------------------------------------------------------------------------------------- nodes */

static bs_status model_node_arrays(const model_open *o)
{
    static const struct { const char *key; bs_gguf_type type; } arrays[] = {
        {"brainstorm.node.op", BS_GGUF_STRING},       {"brainstorm.node.name", BS_GGUF_STRING},
        {"brainstorm.node.inputs.count", BS_GGUF_I32}, {"brainstorm.node.params.count", BS_GGUF_I32},
        {"brainstorm.node.block", BS_GGUF_I32},
    };
    bs_cursor cursor;
    bs_status status = model_count(o, "brainstorm.node.op", BS_MODEL_MAX_NODES, &o->model->n_nodes);
    if (status == BS_OK && o->model->n_nodes == 0)
        return model_fail_key(o, "brainstorm.node.op", "is missing");
    for (size_t i = 0; status == BS_OK && i < sizeof arrays / sizeof *arrays; i++)
        status = model_array(o, arrays[i].key, arrays[i].type, o->model->n_nodes, &cursor);
    return status;
}

static bs_status model_node_lists(const model_open *o, int32_t *n_params)
{
    bs_cursor cursor;
    bs_status status = model_count(o, "brainstorm.node.inputs", BS_MODEL_MAX_OPERANDS, &o->model->n_operands);
    if (status == BS_OK)
        status = model_count(o, "brainstorm.node.params", BS_MODEL_MAX_NODES * BS_MODEL_MAX_PARAMS, n_params);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.node.inputs", BS_GGUF_I32, o->model->n_operands, &cursor);
    if (status == BS_OK)
        status = model_array(o, "brainstorm.node.params", BS_GGUF_I32, *n_params, &cursor);
    return status;
}

/* One walk over all nodes: each can be decoded, the flat lists are used up, and the text of the graph is counted. */
static bs_status model_nodes(const model_open *o)
{
    bs_model *m = o->model;
    bs_model_walk walk;
    bs_model_node node;
    int32_t n_params = 0;
    bs_status status = model_node_lists(o, &n_params);
    if (status != BS_OK)
        return status;
    bs_model_walk_begin(m, &walk);
    for (int32_t i = 0; i < m->n_nodes; i++) {
        status = bs_model_walk_next(&walk, &node, o->error);
        if (status != BS_OK)
            return status;
        m->text_bytes += bs_op_get(node.op)->params_bytes + sizeof(void *) + strlen(node.name) + 1;
    }
    if (bs_cursor_left(&walk.in) || bs_cursor_left(&walk.param))
        return bs_fail(o->error, BS_ERROR_FORMAT, "there are more inputs or parameters than nodes account for");
    return BS_OK;
}

/* ---------------------------------------------------------------------------------------------- all of it */

bs_status bs_model_index(bs_model *model, bs_arena *arena, bs_error *error)
{
    bs_status (*const parts[])(const model_open *) = {model_identity, model_labels, model_symbols, model_node_arrays,
                                                      model_blocks, model_weights, model_nodes};
    const model_open open = {model, arena, error};
    bs_status status = BS_OK;
    for (size_t i = 0; status == BS_OK && i < sizeof parts / sizeof *parts; i++)
        status = parts[i](&open);
    return status;
}
