/* model/model.c - the index of a model file: what it says of itself, its symbols, blocks, weights and nodes, each
 * checked once. Relies on model/model.h. Must never trust a number of the file, nor read weights. */
#include "model/model.h"
#include "ops/structure.h"

#if !defined(BS_NO_MODEL)

/* Arrays with one entry a symbol, block, weight or node are read side by side. */
enum { MODEL_CURSORS = 6 };
typedef struct model_list { const char *key; bs_gguf_type type; } model_list;

/* What the opening functions share. */
typedef struct model_open {
    bs_model *model;
    bs_arena *arena;
    bs_error *error;
    const model_list *lists; /* of the cursors */
    bs_cursor cursor[MODEL_CURSORS];
    char name[BS_MAX_WEIGHT_NAME]; /* of the entry read last */
    int32_t last_tensor;
} model_open;

/* ------------------------------------------------------------------------------------------ single values */

static bs_status model_text(const model_open *o, const char *key, bool required, char *text, size_t bytes)
{
    const bs_gguf_key *found;
    bs_cursor cursor;
    const bs_status status = bs_gguf_get(&o->model->gguf, key, BS_GGUF_STRING, false, required, &found, o->error);
    if (status != BS_OK || !found)
        return status;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    return bs_cursor_text(&cursor, text, bytes) ? BS_OK : bs_cursor_fail(&cursor, o->error, key);
}

/* Of the format, or of the ops: another status than a number out of range. */
static bs_status model_version(const model_open *o, const char *key, uint32_t most, uint32_t *number)
{
    const bs_status status = bs_gguf_u32(&o->model->gguf, key, true, 0, UINT32_MAX, number, o->error);
    if (status != BS_OK || (*number >= 1 && *number <= most))
        return status;
    return bs_fail(o->error, BS_ERROR_VERSION, "key \"%s\" is %u, this library knows 1 .. %u", key, (unsigned)*number,
                   (unsigned)most);
}

/* What every record's head repeats. */
static bs_status model_file_id(const model_open *o)
{
    const char *const key = "brainstorm.file.id";
    const bs_gguf_key *found;
    bs_cursor cursor;
    if (o->model->version < 2)
        return BS_OK;
    const bs_status status = bs_gguf_get(&o->model->gguf, key, BS_GGUF_U64, false, true, &found, o->error);
    if (status != BS_OK)
        return status;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    o->model->file_id = bs_cursor_u64(&cursor);
    return cursor.status == BS_OK ? BS_OK : bs_cursor_fail(&cursor, o->error, key);
}

static bs_status model_identity(model_open *o)
{
    char architecture[32];
    bs_model *m = o->model;
    bs_status status = model_text(o, "general.architecture", true, architecture, sizeof architecture);
    if (status == BS_OK && strcmp(architecture, "brainstorm") != 0)
        return bs_fail(o->error, BS_ERROR_FORMAT, "key \"general.architecture\" is \"%s\", expected \"brainstorm\"",
                       architecture);
    if (status == BS_OK)
        status = model_version(o, "brainstorm.version", BS_MODEL_VERSION, &m->version);
    if (status == BS_OK)
        status = model_version(o, "brainstorm.opset", BS_MODEL_OPSET, &m->opset);
    return status == BS_OK ? model_file_id(o) : status;
}

static bs_status model_labels(model_open *o)
{
    bs_model *m = o->model;
    bs_status status = model_text(o, "brainstorm.model.name", false, m->name, sizeof m->name);
    if (status == BS_OK)
        status = bs_gguf_u32(&m->gguf, "brainstorm.model.scale", false, 0, 64, &m->scale, o->error);
    return status;
}

/* ------------------------------------------------------------------------------------------------- arrays */

/* How many elements an array has; an array without elements is not written at all. */
static bs_status model_count(const model_open *o, const char *key, bs_gguf_type type, int32_t least, int32_t most,
                             int32_t *count)
{
    const bs_gguf_key *found;
    const bs_status status = bs_gguf_get(&o->model->gguf, key, type, true, least > 0, &found, o->error);
    const uint64_t n = found ? found->count : 0;
    if (status != BS_OK)
        return status;
    if (n < (uint64_t)least || n > (uint64_t)most)
        return bs_fail(o->error, n ? BS_ERROR_LIMIT : BS_ERROR_FORMAT,
                       "key \"%s\" has %llu elements, expected %d .. %d", key, (unsigned long long)n, least, most);
    *count = (int32_t)n;
    return BS_OK;
}

/* The next cursor runs over an array of `count` elements. */
static bs_status model_array(model_open *o, const model_list *list, int32_t count, bs_cursor *cursor)
{
    const bs_gguf_key *found;
    const bs_status status = bs_gguf_get(&o->model->gguf, list->key, list->type, true, count != 0, &found, o->error);
    bs_gguf_cursor(&o->model->gguf, found, cursor);
    if (status != BS_OK || !found || found->count == (uint64_t)count)
        return status;
    return bs_fail(o->error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements, expected %d", list->key,
                   (unsigned long long)found->count, count);
}

static bs_status model_arrays(model_open *o, const model_list *lists, int32_t n_lists, int32_t count)
{
    bs_status status = BS_OK;
    memset(o->cursor, 0, sizeof o->cursor);
    o->lists = lists;
    for (int32_t i = 0; status == BS_OK && i < n_lists; i++)
        status = model_array(o, &lists[i], count, &o->cursor[i]);
    return status;
}

/* Whether all that an entry read is there. */
static bs_status model_was_read(const model_open *o)
{
    for (int32_t i = 0; i < MODEL_CURSORS; i++)
        if (o->cursor[i].status != BS_OK)
            return bs_cursor_fail(&o->cursor[i], o->error, o->lists[i].key);
    return BS_OK;
}

bs_status bs_model_used_up(const bs_cursor *cursor, const char *key, uint64_t each, bs_error *error)
{
    const uint64_t left = bs_bytes_figure(bs_bytes_share(bs_cursor_left(cursor), each));
    return left == 0 ? BS_OK
                     : bs_fail(error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements that belong to nothing", key,
                               (unsigned long long)left);
}

/* The name of an entry, from the first of the cursors. */
static bs_status model_name(model_open *o, size_t bytes, bool required, bs_bytes *at)
{
    *at = o->cursor[0].at;
    if (!bs_cursor_text(&o->cursor[0], o->name, bytes))
        return bs_cursor_fail(&o->cursor[0], o->error, "its name");
    return o->name[0] || !required ? BS_OK : bs_fail(o->error, BS_ERROR_FORMAT, "its name is empty");
}

/* Reads `count` entries; the first that fails is named. */
static bs_status model_entries(model_open *o, const char *what, int32_t count, bs_status (*read)(model_open *, int32_t))
{
    for (int32_t i = 0; i < count; i++) {
        const bs_status status = read(o, i);
        if (status != BS_OK) {
            bs_error_prefix(o->error, "%s %d \"%s\": ", what, i, o->name);
            return status;
        }
    }
    return BS_OK;
}

static void *model_take(const model_open *o, int32_t count, size_t each, bs_status *status)
{
    const bs_bytes bytes = bs_bytes_array(count > 0 ? count : 1, each);
    void *memory = bs_take_zeros(o->arena, bytes);
    if (!memory)
        *status = bs_fail_arena(o->error, o->arena, bytes, "the index of a model file");
    return memory;
}

/* ------------------------------------------------------------------------------------------------ symbols */

static bs_status model_symbol(model_open *o, int32_t index)
{
    bs_model_symbol *symbol = &o->model->symbols[index];
    bs_status status = model_name(o, BS_MAX_NAME, false, &symbol->name_at);
    symbol->maximum = bs_cursor_i64(&o->cursor[1]);
    o->model->text_bytes = bs_bytes_add(o->model->text_bytes, bs_bytes_of(strlen(o->name) + 1));
    if (status == BS_OK)
        status = model_was_read(o);
    if (status == BS_OK && symbol->maximum < 1)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its maximum is %lld, expected 1 or more",
                       (long long)symbol->maximum);
    return status;
}

static bs_status model_symbols(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.symbol.name", BS_GGUF_STRING},
                                       {"brainstorm.symbol.maximum", BS_GGUF_I64}};
    bs_status status = model_count(o, lists[0].key, lists[0].type, 0, BS_MODEL_MAX_SYMBOLS, &o->model->n_symbols);
    if (status == BS_OK)
        status = model_arrays(o, lists, 2, o->model->n_symbols);
    if (status == BS_OK)
        o->model->symbols = model_take(o, o->model->n_symbols, sizeof *o->model->symbols, &status);
    return status == BS_OK ? model_entries(o, "symbol", o->model->n_symbols, model_symbol) : status;
}

/* ------------------------------------------------------------------------------------------------- blocks */

/* The record of a block is a whole tensor of bytes; blocks take tensors in order, so none is taken twice. */
static bs_status model_block_record(model_open *o, bs_model_block *block, int32_t number)
{
    const bs_gguf *gguf = &o->model->gguf;
    const uint32_t head = bs_model_head_bytes(o->model);
    const unsigned long long bytes = bs_bytes_figure(block->bytes);
    if (number == -1)
        return bytes == 0 ? BS_OK : bs_fail(o->error, BS_ERROR_FORMAT, "it has %llu bytes, but no tensor", bytes);
    if (number <= o->last_tensor || (uint32_t)number >= gguf->n_tensors)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its tensor is %d, expected -1 or one of %d .. %d", number,
                       o->last_tensor + 1, (int32_t)gguf->n_tensors - 1);
    const bs_gguf_tensor *tensor = &gguf->tensors[number];
    if (tensor->type != BS_GGUF_TENSOR_I8 || tensor->rank != 1 || bs_bytes_figure(tensor->bytes) != bytes)
        return bs_fail(o->error, BS_ERROR_FORMAT,
                       "its tensor %d is of type %u, rank %u and %llu bytes, expected %u, 1 and %llu", number,
                       (unsigned)tensor->type, (unsigned)tensor->rank,
                       (unsigned long long)bs_bytes_figure(tensor->bytes), BS_GGUF_TENSOR_I8, bytes);
    if (bytes < head)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its record has %llu bytes, its head alone %u", bytes,
                       (unsigned)head);
    block->offset = tensor->offset;
    o->last_tensor = number;
    return BS_OK;
}

static bs_status model_block(model_open *o, int32_t index)
{
    bs_model_block *block = &o->model->blocks[index];
    const int32_t n = o->model->n_nodes;
    bs_status status = model_name(o, BS_MAX_NAME, true, &block->name_at);
    o->model->text_bytes = bs_bytes_add(o->model->text_bytes, bs_bytes_of(strlen(o->name) + 1));
    block->first_node = bs_cursor_i32(&o->cursor[1]);
    block->end_node = bs_cursor_i32(&o->cursor[2]);
    const int32_t tensor = bs_cursor_i32(&o->cursor[3]);
    block->bytes = bs_bytes_of(bs_cursor_u64(&o->cursor[4]));
    block->crc32 = bs_cursor_u32(&o->cursor[5]);
    if (status == BS_OK)
        status = model_was_read(o);
    if (status != BS_OK)
        return status;
    const bool whole = block->first_node == 0 && block->end_node == n;
    const bool range = 0 <= block->first_node && block->first_node < block->end_node && block->end_node <= n;
    if (index == 0 ? !whole : !range)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its nodes are %d up to %d, expected %s 0 up to %d",
                       block->first_node, block->end_node, index ? "some of" : "all:", n);
    return model_block_record(o, block, tensor);
}

static bs_status model_blocks(model_open *o)
{
    static const model_list lists[] = {
        {"brainstorm.block.name", BS_GGUF_STRING},  {"brainstorm.block.first_node", BS_GGUF_I32},
        {"brainstorm.block.end_node", BS_GGUF_I32}, {"brainstorm.block.tensor", BS_GGUF_I32},
        {"brainstorm.block.bytes", BS_GGUF_U64},    {"brainstorm.block.crc32", BS_GGUF_U32}};
    bs_model *m = o->model;
    o->last_tensor = -1;
    bs_status status = model_count(o, lists[0].key, lists[0].type, 1, BS_MODEL_MAX_BLOCKS, &m->n_blocks);
    if (status == BS_OK)
        status = model_arrays(o, lists, 6, m->n_blocks);
    if (status == BS_OK)
        m->blocks = model_take(o, m->n_blocks, sizeof *m->blocks, &status);
    return status == BS_OK ? model_entries(o, "block", m->n_blocks, model_block) : status;
}

/* ------------------------------------------------------------------------------------------------ weights */

/* The last of its cursors, over the dimensions of all weights. */
static const model_list model_dims = {"brainstorm.weight.dims", BS_GGUF_I64};

static bs_status model_weight_shape(model_open *o, bs_model_weight *w)
{
    bs_cursor *const dims = &o->cursor[5];
    if (w->dtype < 0 || w->dtype >= BS_DTYPE_COUNT)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its type is %d, expected 0 .. %d", w->dtype, BS_DTYPE_COUNT - 1);
    if (w->rank < 1 || w->rank > BS_MAX_RANK)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its rank is %d, expected 1 .. %d", w->rank, BS_MAX_RANK);
    w->bytes = bs_bytes_of(bs_dtype_bytes((bs_dtype)w->dtype));
    for (int32_t i = 0; i < w->rank; i++) {
        w->dim[i] = bs_cursor_i64(dims);
        if (dims->status != BS_OK)
            return bs_cursor_fail(dims, o->error, model_dims.key);
        if (w->dim[i] < 1)
            return bs_fail(o->error, BS_ERROR_FORMAT, "its dimension %d is %lld, expected 1 or more", i,
                           (long long)w->dim[i]);
        w->bytes = bs_bytes_times(w->bytes, w->dim[i]);
    }
    return BS_OK;
}

/* Weights are listed block by block in the order of their bytes: ranges are contiguous, nothing overlaps. */
static bs_status model_weight_place(model_open *o, bs_model_weight *w, int32_t index, bs_bytes offset)
{
    bs_model *m = o->model;
    const int32_t before = index ? w[-1].block : 0;
    if (w->block < before || w->block >= m->n_blocks)
        return bs_fail(o->error, BS_ERROR_FORMAT, "its block is %d, expected %d .. %d", w->block, before,
                       m->n_blocks - 1);
    bs_model_block *block = &m->blocks[w->block];
    const bool first = index == 0 || w->block != before;
    const bs_bytes used = first ? bs_bytes_of(bs_model_head_bytes(m))
                                : bs_bytes_sub(bs_bytes_add(w[-1].offset, w[-1].bytes), block->offset);
    if (!bs_bytes_aligned_to(offset, 256) || bs_bytes_less(offset, used))
        return bs_fail(o->error, BS_ERROR_FORMAT, "its offset is %llu, expected a multiple of 256 from %llu on",
                       (unsigned long long)bs_bytes_figure(offset), (unsigned long long)bs_bytes_figure(used));
    if (bs_bytes_less(block->bytes, bs_bytes_add(offset, w->bytes)))
        return bs_fail(o->error, BS_ERROR_FORMAT, "%llu bytes at offset %llu do not lie in a record of %llu",
                       (unsigned long long)bs_bytes_figure(w->bytes), (unsigned long long)bs_bytes_figure(offset),
                       (unsigned long long)bs_bytes_figure(block->bytes));
    if (first)
        block->first_weight = index;
    block->end_weight = index + 1;
    w->offset = bs_bytes_add(block->offset, offset);
    return BS_OK;
}

static bs_status model_weight(model_open *o, int32_t index)
{
    bs_model_weight *w = &o->model->weights[index];
    bs_status status = model_name(o, BS_MAX_WEIGHT_NAME, true, &w->name_at);
    w->hash = bs_name_hash(o->name, strlen(o->name));
    w->block = bs_cursor_i32(&o->cursor[1]);
    w->dtype = bs_cursor_i32(&o->cursor[2]);
    w->rank = bs_cursor_i32(&o->cursor[3]);
    const bs_bytes offset = bs_bytes_of(bs_cursor_u64(&o->cursor[4]));
    if (status == BS_OK)
        status = model_was_read(o);
    if (status == BS_OK)
        status = model_weight_shape(o, w);
    return status == BS_OK ? model_weight_place(o, w, index, offset) : status;
}

/* The heap's root is the largest. */
static void sift_weight(bs_model_weight *w, int32_t root, int32_t count)
{
    const int32_t moved = w[root].by_hash;
    for (int32_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && w[w[child + 1].by_hash].hash > w[w[child].by_hash].hash)
            child++;
        if (w[moved].hash >= w[w[child].by_hash].hash)
            break;
        w[root].by_hash = w[child].by_hash;
    }
    w[root].by_hash = moved;
}

/* Heap sort: no recursion, no bad inputs. */
static void sort_weights(bs_model_weight *w, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        w[i].by_hash = i;
    for (int32_t i = count / 2; i-- > 0;)
        sift_weight(w, i, count);
    for (int32_t n = count - 1; n > 0; n--) {
        const int32_t largest = w[0].by_hash;
        w[0].by_hash = w[n].by_hash;
        w[n].by_hash = largest;
        sift_weight(w, 0, n);
    }
}

static bs_status model_weights_unique(model_open *o)
{
    const bs_model *m = o->model;
    sort_weights(m->weights, m->n_weights);
    int32_t k = 1;
    while (k < m->n_weights && m->weights[m->weights[k].by_hash].hash != m->weights[m->weights[k - 1].by_hash].hash)
        k++;
    if (k >= m->n_weights)
        return BS_OK;
    const bs_model_weight *w = &m->weights[m->weights[k].by_hash];
    const bs_status status = bs_gguf_text(&m->gguf, w->name_at, o->name, sizeof o->name, o->error);
    return status == BS_OK ? bs_fail(o->error, BS_ERROR_FORMAT, "two weights are called \"%s\"", o->name) : status;
}

static bs_status model_weights(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.weight.name", BS_GGUF_STRING},
                                       {"brainstorm.weight.block", BS_GGUF_I32},
                                       {"brainstorm.weight.dtype", BS_GGUF_I32},
                                       {"brainstorm.weight.rank", BS_GGUF_I32},
                                       {"brainstorm.weight.offset", BS_GGUF_U64}};
    bs_model *m = o->model;
    int32_t n_dims = 0;
    bs_status status = model_count(o, lists[0].key, lists[0].type, 0, BS_MODEL_MAX_WEIGHTS, &m->n_weights);
    if (status == BS_OK)
        status = model_count(o, model_dims.key, model_dims.type, 0, BS_MODEL_MAX_WEIGHTS * BS_MAX_RANK, &n_dims);
    if (status == BS_OK)
        status = model_arrays(o, lists, 5, m->n_weights);
    if (status == BS_OK)
        status = model_array(o, &model_dims, n_dims, &o->cursor[5]);
    if (status == BS_OK)
        m->weights = model_take(o, m->n_weights, sizeof *m->weights, &status);
    if (status == BS_OK)
        status = model_entries(o, "weight", m->n_weights, model_weight);
    if (status == BS_OK)
        status = bs_model_used_up(&o->cursor[5], model_dims.key, sizeof(int64_t), o->error);
    return status == BS_OK ? model_weights_unique(o) : status;
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* The arrays are what they should be; walks find them again by their names. */
static bs_status model_node_arrays(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.node.op", BS_GGUF_STRING},
                                       {"brainstorm.node.name", BS_GGUF_STRING},
                                       {"brainstorm.node.inputs.count", BS_GGUF_I32},
                                       {"brainstorm.node.params.count", BS_GGUF_I32},
                                       {"brainstorm.node.block", BS_GGUF_I32}};
    bs_model *m = o->model;
    int32_t n_params;
    bs_status status = model_count(o, lists[0].key, lists[0].type, 1, BS_MODEL_MAX_NODES, &m->n_nodes);
    if (status == BS_OK)
        status = model_arrays(o, lists, 5, m->n_nodes);
    if (status == BS_OK)
        status = model_count(o, "brainstorm.node.inputs", BS_GGUF_I32, 0, BS_MODEL_MAX_OPERANDS, &m->n_operands);
    if (status == BS_OK)
        status = model_count(o, "brainstorm.node.params", BS_GGUF_I32, 0, BS_MODEL_MAX_NODES * BS_MODEL_MAX_PARAMS,
                             &n_params);
    if (status == BS_OK)
        status = bs_gguf_u32(&m->gguf, "brainstorm.value.count", true, 0, (uint32_t)m->n_nodes * BS_MAX_OUTPUTS,
                             &m->n_values, o->error);
    return status;
}

/* One walk over all nodes: each can be decoded, the flat lists are used up, and the text of the graph is counted. */
static bs_status model_nodes(model_open *o)
{
    bs_model *m = o->model;
    bs_model_walk walk;
    bs_model_node node;
    bs_model_walk_begin(m, &walk);
    for (int32_t i = 0; i < m->n_nodes; i++) {
        const bs_status status = bs_model_walk_next(&walk, &node, o->error);
        if (status != BS_OK)
            return status;
        const bs_op *op = bs_op_get(node.op);
        m->text_bytes = bs_bytes_add(m->text_bytes,
                                     bs_bytes_of(op->params_bytes + sizeof(void *) + strlen(node.name) + 1));
        m->n_routers += op->work == BS_WORK_ROUTE;
        m->n_domains += op->work == BS_WORK_VIEW;
    }
    const bs_status status = bs_model_used_up(&walk.in, "brainstorm.node.inputs", sizeof(int32_t), o->error);
    return status == BS_OK ? bs_model_used_up(&walk.param, "brainstorm.node.params", sizeof(int32_t), o->error)
                           : status;
}

/* ---------------------------------------------------------------------------------------------- all of it */

static bs_bytes model_table(uint64_t count, size_t each)
{
    return bs_bytes_align(bs_bytes_product(bs_bytes_of(count > 0 ? count : 1), bs_bytes_of(each))); /* as model_take */
}

bs_status bs_model_need(const bs_source *source, bs_bytes *bytes, bs_error *error)
{
    static const char *const names[] = {"brainstorm.symbol.name", "brainstorm.block.name", "brainstorm.weight.name"};
    static const size_t each[] = {sizeof(bs_model_symbol), sizeof(bs_model_block), sizeof(bs_model_weight)};
    uint64_t counts[3];
    bs_gguf_need gguf;
    bs_bytes index = bs_bytes_of(0);
    const bs_status status = bs_gguf_measure(source, names, counts, 3, &gguf, error);
    for (int32_t i = 0; i < 3; i++)
        index = bs_bytes_add(index, model_table(counts[i], each[i]));
    *bytes = bs_bytes_add(bs_bytes_align(bs_bytes_of(sizeof(bs_model))),
                          bs_bytes_add(gguf.bytes, bs_bytes_max(index, gguf.passing_bytes)));
    return status;
}

bs_status bs_model_index(bs_model *model, bs_arena *arena, bs_error *error)
{
    static bs_status (*const parts[])(model_open *) = {model_identity, model_labels, model_symbols, model_node_arrays,
                                                       model_blocks, model_weights, model_nodes};
    model_open open = {.model = model, .arena = arena, .error = error};
    bs_status status = BS_OK;
    for (size_t i = 0; status == BS_OK && i < sizeof parts / sizeof *parts; i++)
        status = parts[i](&open);
    return status;
}
#endif
