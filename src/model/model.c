/* model/model.c - the index of a model file: its general facts, symbols, blocks, weights and nodes, each checked once.
 * Relies on model/model.h. Must never trust a number of the file, nor read weights. */
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

static bool model_text(const model_open *o, const char *key, bool required, char *text, size_t bytes)
{
    const bs_gguf_key *found;
    bs_cursor cursor;
    if (!bs_gguf_get(&o->model->gguf, key, BS_GGUF_STRING, false, required, &found, o->error))
        return false;
    if (!found)
        return true;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    bs_cursor_text(&cursor, text, bytes);
    return bs_cursor_sound(&cursor, o->error, key);
}

/* Checks a version, of the format or of the ops: its status differs from that of a number out of range. */
static bool model_version(const model_open *o, const char *key, uint32_t most, uint32_t *number)
{
    return bs_gguf_u32(&o->model->gguf, key, true, 0, UINT32_MAX, number, o->error) &&
           ((*number >= 1 && *number <= most) ||
            bs_refuse(o->error, BS_ERROR_VERSION, "key \"%s\" is %" PRIu32 ", this library knows 1 .. %" PRIu32, key,
                      *number, most));
}

/* The identifier that the head of every record repeats. */
static bool model_file_id(const model_open *o)
{
    const char *const key = "brainstorm.file.id";
    const bs_gguf_key *found;
    bs_cursor cursor;
    if (o->model->version < 2)
        return true;
    if (!bs_gguf_get(&o->model->gguf, key, BS_GGUF_U64, false, true, &found, o->error))
        return false;
    bs_gguf_cursor(&o->model->gguf, found, &cursor);
    o->model->file_id = bs_cursor_u64(&cursor);
    return bs_cursor_sound(&cursor, o->error, key);
}

static bool model_identity(model_open *o)
{
    char architecture[32];
    bs_model *m = o->model;
    if (!model_text(o, "general.architecture", true, architecture, sizeof architecture))
        return false;
    if (strcmp(architecture, "brainstorm") != 0)
        return bs_refuse(o->error, BS_ERROR_FORMAT, "key \"general.architecture\" is \"%s\", expected \"brainstorm\"",
                         architecture);
    return model_version(o, "brainstorm.version", BS_MODEL_VERSION, &m->version) &&
           model_version(o, "brainstorm.opset", BS_MODEL_OPSET, &m->opset) && model_file_id(o);
}

static bool model_labels(model_open *o)
{
    bs_model *m = o->model;
    return model_text(o, "brainstorm.model.name", false, m->name, sizeof m->name) &&
           bs_gguf_u32(&m->gguf, "brainstorm.model.scale", false, 0, 64, &m->scale, o->error);
}

/* ------------------------------------------------------------------------------------------------- arrays */

/* How many elements an array has; an array without elements is not written at all. */
static bool model_count(const model_open *o, const char *key, bs_gguf_type type, int32_t least, int32_t most,
                        int32_t *count)
{
    const bs_gguf_key *found;
    if (!bs_gguf_get(&o->model->gguf, key, type, true, least > 0, &found, o->error))
        return false;
    const uint64_t n = found ? found->count : 0;
    if (n < (uint64_t)least || n > (uint64_t)most)
        return bs_refuse(o->error, n ? BS_ERROR_LIMIT : BS_ERROR_FORMAT,
                         "key \"%s\" has %llu elements, expected %" PRId32 " .. %" PRId32, key, (unsigned long long)n,
                         least, most);
    *count = (int32_t)n;
    return true;
}

/* Makes the next cursor run over an array of `count` elements. */
static bool model_array(model_open *o, const model_list *list, int32_t count, bs_cursor *cursor)
{
    const bs_gguf_key *found;
    if (!bs_gguf_get(&o->model->gguf, list->key, list->type, true, count != 0, &found, o->error))
        return false;
    bs_gguf_cursor(&o->model->gguf, found, cursor);
    if (!found || found->count == (uint64_t)count)
        return true;
    return bs_refuse(o->error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements, expected %" PRId32, list->key,
                     (unsigned long long)found->count, count);
}

static bool model_arrays(model_open *o, const model_list *lists, int32_t n_lists, int32_t count)
{
    bool sound = true;
    memset(o->cursor, 0, sizeof o->cursor);
    o->lists = lists;
    for (int32_t i = 0; sound && i < n_lists; i++)
        sound = model_array(o, &lists[i], count, &o->cursor[i]);
    return sound;
}

/* Whether everything that an entry read was there. */
static bool model_was_read(const model_open *o)
{
    for (int32_t i = 0; i < MODEL_CURSORS; i++)
        if (o->cursor[i].status != BS_OK)
            return bs_cursor_sound(&o->cursor[i], o->error, o->lists[i].key);
    return true;
}

bool bs_model_used_up(const bs_cursor *cursor, const char *key, uint64_t each, bs_error *error)
{
    const uint64_t left = bs_bytes_figure(bs_bytes_share(bs_cursor_left(cursor), each));
    return left == 0 || bs_refuse(error, BS_ERROR_FORMAT, "key \"%s\" has %llu elements that belong to nothing", key,
                                  (unsigned long long)left);
}

/* Reads the name of an entry from the first of the cursors. */
static bool model_name(model_open *o, size_t bytes, bool required, bs_bytes *at)
{
    *at = o->cursor[0].at;
    bs_cursor_text(&o->cursor[0], o->name, bytes);
    return bs_cursor_sound(&o->cursor[0], o->error, "its name") &&
           (o->name[0] || !required || bs_refuse(o->error, BS_ERROR_FORMAT, "its name is empty"));
}

/* Reads `count` entries; an error names the first that fails. */
static bool model_entries(model_open *o, const char *what, int32_t count, bool (*read)(model_open *, int32_t))
{
    for (int32_t i = 0; i < count; i++)
        if (!read(o, i)) {
            bs_error_prefix(o->error, "%s %" PRId32 " \"%s\": ", what, i, o->name);
            return false;
        }
    return true;
}

/* For arrays that are read side by side: an empty table with as many entries as the first array has elements; or
 * NULL. */
static void *model_table(model_open *o, const model_list *lists, int32_t n_lists, int32_t least, int32_t most,
                         size_t each, int32_t *count)
{
    if (!model_count(o, lists->key, lists->type, least, most, count) || !model_arrays(o, lists, n_lists, *count))
        return NULL;
    void *table = bs_take_table(o->arena, (uint64_t)*count, each, "the index of a model file", o->error);
    return table ? memset(table, 0, (size_t)*count * each) : NULL;
}

/* ------------------------------------------------------------------------------------------------ symbols */

static bool model_symbol(model_open *o, int32_t index)
{
    bs_model_symbol *symbol = &o->model->symbols[index];
    if (!model_name(o, BS_MAX_NAME, false, &symbol->name_at))
        return false;
    symbol->maximum = bs_cursor_i64(&o->cursor[1]);
    o->model->text_bytes = bs_bytes_add(o->model->text_bytes, bs_bytes_of(strlen(o->name) + 1));
    return model_was_read(o) &&
           (symbol->maximum >= 1 || bs_refuse(o->error, BS_ERROR_FORMAT, "its maximum is %lld, expected 1 or more",
                                              (long long)symbol->maximum));
}

static bool model_symbols(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.symbol.name", BS_GGUF_STRING},
                                       {"brainstorm.symbol.maximum", BS_GGUF_I64}};
    bs_model *m = o->model;
    m->symbols = model_table(o, lists, 2, 0, BS_MODEL_MAX_SYMBOLS, sizeof *m->symbols, &m->n_symbols);
    return m->symbols && model_entries(o, "symbol", m->n_symbols, model_symbol);
}

/* ------------------------------------------------------------------------------------------------- blocks */

/* The record of a block is a whole tensor of bytes. Blocks take tensors in order, so none is taken twice. */
static bool model_block_record(model_open *o, bs_model_block *block, int32_t number)
{
    const bs_gguf *gguf = &o->model->gguf;
    const uint32_t head = bs_model_head_bytes(o->model);
    const unsigned long long bytes = bs_bytes_figure(block->bytes);
    if (number == -1)
        return bytes == 0 || bs_refuse(o->error, BS_ERROR_FORMAT, "it has %llu bytes, but no tensor", bytes);
    if (number <= o->last_tensor || (uint32_t)number >= gguf->n_tensors)
        return bs_refuse(o->error, BS_ERROR_FORMAT,
                         "its tensor is %" PRId32 ", expected -1 or one of %" PRId32 " .. %" PRId32, number,
                         o->last_tensor + 1, (int32_t)gguf->n_tensors - 1);
    const bs_gguf_tensor *tensor = &gguf->tensors[number];
    if (tensor->type != BS_GGUF_TENSOR_I8 || tensor->rank != 1 || bs_bytes_figure(tensor->bytes) != bytes)
        return bs_refuse(o->error, BS_ERROR_FORMAT,
                         "its tensor %" PRId32 " is of type %" PRIu32 ", rank %" PRIu32
                         " and %llu bytes, expected %u, 1 and %llu",
                         number, tensor->type, tensor->rank, bs_bytes_figure(tensor->bytes), BS_GGUF_TENSOR_I8, bytes);
    if (bytes < head)
        return bs_refuse(o->error, BS_ERROR_FORMAT, "its record has %llu bytes, its head alone %" PRIu32, bytes, head);
    block->offset = tensor->offset;
    o->last_tensor = number;
    return true;
}

static bool model_block(model_open *o, int32_t index)
{
    bs_model_block *block = &o->model->blocks[index];
    const int32_t n = o->model->n_nodes;
    if (!model_name(o, BS_MAX_NAME, true, &block->name_at))
        return false;
    o->model->text_bytes = bs_bytes_add(o->model->text_bytes, bs_bytes_of(strlen(o->name) + 1));
    block->first_node = bs_cursor_i32(&o->cursor[1]);
    block->end_node = bs_cursor_i32(&o->cursor[2]);
    const int32_t tensor = bs_cursor_i32(&o->cursor[3]);
    block->bytes = bs_bytes_of(bs_cursor_u64(&o->cursor[4]));
    block->crc32 = bs_cursor_u32(&o->cursor[5]);
    if (!model_was_read(o))
        return false;
    const bool whole = block->first_node == 0 && block->end_node == n;
    const bool range = 0 <= block->first_node && block->first_node < block->end_node && block->end_node <= n;
    if (index == 0 ? !whole : !range)
        return bs_refuse(o->error, BS_ERROR_FORMAT,
                         "its nodes are %" PRId32 " up to %" PRId32 ", expected %s 0 up to %" PRId32, block->first_node,
                         block->end_node, index ? "some of" : "all:", n);
    return model_block_record(o, block, tensor);
}

static bool model_blocks(model_open *o)
{
    static const model_list lists[] = {
        {"brainstorm.block.name", BS_GGUF_STRING},  {"brainstorm.block.first_node", BS_GGUF_I32},
        {"brainstorm.block.end_node", BS_GGUF_I32}, {"brainstorm.block.tensor", BS_GGUF_I32},
        {"brainstorm.block.bytes", BS_GGUF_U64},    {"brainstorm.block.crc32", BS_GGUF_U32}};
    bs_model *m = o->model;
    o->last_tensor = -1;
    m->blocks = model_table(o, lists, 6, 1, BS_MODEL_MAX_BLOCKS, sizeof *m->blocks, &m->n_blocks);
    return m->blocks && model_entries(o, "block", m->n_blocks, model_block);
}

/* ------------------------------------------------------------------------------------------------ weights */

/* Read by the last cursor: the dimensions of all weights. */
static const model_list model_dims = {"brainstorm.weight.dims", BS_GGUF_I64};

static bool model_weight_shape(model_open *o, bs_model_weight *w)
{
    bs_cursor *const dims = &o->cursor[5];
    if (w->dtype < 0 || w->dtype >= BS_DTYPE_COUNT)
        return bs_refuse(o->error, BS_ERROR_FORMAT, "its type is %" PRId32 ", expected 0 .. %d", w->dtype,
                         BS_DTYPE_COUNT - 1);
    if (w->rank < 1 || w->rank > BS_MAX_RANK)
        return bs_refuse(o->error, BS_ERROR_FORMAT, "its rank is %" PRId32 ", expected 1 .. %d", w->rank, BS_MAX_RANK);
    w->bytes = bs_bytes_of(bs_dtype_bytes((bs_dtype)w->dtype));
    for (int32_t i = 0; i < w->rank; i++) {
        w->dim[i] = bs_cursor_i64(dims);
        if (!bs_cursor_sound(dims, o->error, model_dims.key))
            return false;
        if (w->dim[i] < 1)
            return bs_refuse(o->error, BS_ERROR_FORMAT, "its dimension %" PRId32 " is %lld, expected 1 or more", i,
                             (long long)w->dim[i]);
        w->bytes = bs_bytes_times(w->bytes, w->dim[i]);
    }
    return true;
}

/* Weights are listed block by block in the order of their bytes, so ranges are contiguous and nothing overlaps. */
static bool model_weight_place(model_open *o, bs_model_weight *w, int32_t index, bs_bytes offset)
{
    bs_model *m = o->model;
    const int32_t before = index ? w[-1].block : 0;
    if (w->block < before || w->block >= m->n_blocks)
        return bs_refuse(o->error, BS_ERROR_FORMAT, "its block is %" PRId32 ", expected %" PRId32 " .. %" PRId32,
                         w->block, before, m->n_blocks - 1);
    bs_model_block *block = &m->blocks[w->block];
    const bool first = index == 0 || w->block != before;
    const bs_bytes used = first ? bs_bytes_of(bs_model_head_bytes(m))
                                : bs_bytes_sub(bs_bytes_add(w[-1].offset, w[-1].bytes), block->offset);
    if (!bs_bytes_aligned_to(offset, 256) || bs_bytes_less(offset, used))
        return bs_refuse(o->error, BS_ERROR_FORMAT, "its offset is %llu, expected a multiple of 256 from %llu on",
                         bs_bytes_figure(offset), bs_bytes_figure(used));
    if (bs_bytes_less(block->bytes, bs_bytes_add(offset, w->bytes)))
        return bs_refuse(o->error, BS_ERROR_FORMAT, "%llu bytes at offset %llu do not lie in a record of %llu",
                         bs_bytes_figure(w->bytes), bs_bytes_figure(offset), bs_bytes_figure(block->bytes));
    if (first)
        block->first_weight = index;
    block->end_weight = index + 1;
    w->offset = bs_bytes_add(block->offset, offset);
    return true;
}

static bool model_weight(model_open *o, int32_t index)
{
    bs_model_weight *w = &o->model->weights[index];
    if (!model_name(o, BS_MAX_WEIGHT_NAME, true, &w->name_at))
        return false;
    w->hash = bs_name_hash(o->name, strlen(o->name));
    w->block = bs_cursor_i32(&o->cursor[1]);
    w->dtype = bs_cursor_i32(&o->cursor[2]);
    w->rank = bs_cursor_i32(&o->cursor[3]);
    const bs_bytes offset = bs_bytes_of(bs_cursor_u64(&o->cursor[4]));
    return model_was_read(o) && model_weight_shape(o, w) && model_weight_place(o, w, index, offset);
}

/* Restores the heap, whose root is the largest. */
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

/* Heap sort: no recursion, and no input makes it slow. */
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

static bool model_weights_unique(model_open *o)
{
    const bs_model *m = o->model;
    sort_weights(m->weights, m->n_weights);
    int32_t k = 1;
    while (k < m->n_weights && m->weights[m->weights[k].by_hash].hash != m->weights[m->weights[k - 1].by_hash].hash)
        k++;
    if (k >= m->n_weights)
        return true;
    const bs_model_weight *w = &m->weights[m->weights[k].by_hash];
    return bs_gguf_text(&m->gguf, w->name_at, o->name, sizeof o->name, o->error) &&
           bs_refuse(o->error, BS_ERROR_FORMAT, "two weights are called \"%s\"", o->name);
}

static bool model_weights(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.weight.name", BS_GGUF_STRING},
                                       {"brainstorm.weight.block", BS_GGUF_I32},
                                       {"brainstorm.weight.dtype", BS_GGUF_I32},
                                       {"brainstorm.weight.rank", BS_GGUF_I32},
                                       {"brainstorm.weight.offset", BS_GGUF_U64}};
    bs_model *m = o->model;
    int32_t n_dims = 0;
    m->weights = model_table(o, lists, 5, 0, BS_MODEL_MAX_WEIGHTS, sizeof *m->weights, &m->n_weights);
    return m->weights &&
           model_count(o, model_dims.key, model_dims.type, 0, BS_MODEL_MAX_WEIGHTS * BS_MAX_RANK, &n_dims) &&
           model_array(o, &model_dims, n_dims, &o->cursor[5]) &&
           model_entries(o, "weight", m->n_weights, model_weight) &&
           bs_model_used_up(&o->cursor[5], model_dims.key, sizeof(int64_t), o->error) && model_weights_unique(o);
}

/* -------------------------------------------------------------------------------------------------- nodes */

/* Checks the arrays of nodes once; walks find them again by name. */
static bool model_node_arrays(model_open *o)
{
    static const model_list lists[] = {{"brainstorm.node.op", BS_GGUF_STRING},
                                       {"brainstorm.node.name", BS_GGUF_STRING},
                                       {"brainstorm.node.inputs.count", BS_GGUF_I32},
                                       {"brainstorm.node.params.count", BS_GGUF_I32},
                                       {"brainstorm.node.block", BS_GGUF_I32}};
    bs_model *m = o->model;
    int32_t n_params;
    return model_count(o, lists[0].key, lists[0].type, 1, BS_MODEL_MAX_NODES, &m->n_nodes) &&
           model_arrays(o, lists, 5, m->n_nodes) &&
           model_count(o, "brainstorm.node.inputs", BS_GGUF_I32, 0, BS_MODEL_MAX_OPERANDS, &m->n_operands) &&
           model_count(o, "brainstorm.node.params", BS_GGUF_I32, 0, BS_MODEL_MAX_NODES * BS_MODEL_MAX_PARAMS,
                       &n_params) &&
           bs_gguf_u32(&m->gguf, "brainstorm.value.count", true, 0, (uint32_t)m->n_nodes * BS_MAX_OUTPUTS, &m->n_values,
                       o->error);
}

/* How many loops are open behind a node, of those that there may be, where so many were before it. Routers with
 * operands that may be none are the two decisions of loops, of which the first has a name of its own. */
static int32_t model_depth(const bs_op *op, int32_t depth)
{
    if (op->work != BS_WORK_ROUTE || !op->variadic)
        return depth;
    return bs_clamp_i32(depth + (op->named ? 1 : -1), 0, BS_MAX_LOOP_DEPTH);
}

/* One walk over all nodes: each can be decoded, the flat lists are used up, and the graph's text is counted. */
static bool model_nodes(model_open *o)
{
    bs_model *m = o->model;
    bs_model_walk walk;
    bs_model_node node;
    int32_t depth = 0;
    bs_model_walk_begin(m, &walk);
    for (int32_t i = 0; i < m->n_nodes; i++) {
        if (!bs_model_walk_next(&walk, &node, o->error))
            return false;
        const bs_op *op = bs_op_get(node.op);
        depth = model_depth(op, depth);
        const int32_t lifted = bs_op_is_structural(op) ? 0 : depth * (1 + op->more_out);
        m->n_lifted += lifted;
        const size_t text = op->params_bytes + sizeof(void *) + strlen(node.name) + 1;
        m->text_bytes = bs_bytes_add(m->text_bytes,
                                     bs_bytes_of(text + (size_t)lifted * sizeof(bs_router_params)));
        m->n_routers += op->work == BS_WORK_ROUTE;
        m->n_domains += op->work == BS_WORK_VIEW;
    }
    return bs_model_used_up(&walk.in, "brainstorm.node.inputs", sizeof(int32_t), o->error) &&
           bs_model_used_up(&walk.param, "brainstorm.node.params", sizeof(int32_t), o->error);
}

/* ---------------------------------------------------------------------------------------------- all of it */

bool bs_model_need(const bs_source *source, bs_bytes *bytes, bs_error *error)
{
    static const char *const names[] = {"brainstorm.symbol.name", "brainstorm.block.name", "brainstorm.weight.name"};
    static const size_t each[] = {sizeof(bs_model_symbol), sizeof(bs_model_block), sizeof(bs_model_weight)};
    uint64_t counts[3];
    bs_gguf_need gguf;
    bs_bytes index = bs_bytes_of(0);
    const bool sound = bs_gguf_measure(source, names, counts, 3, &gguf, error);
    for (int32_t i = 0; i < 3; i++)
        index = bs_bytes_add(index, bs_table_bytes(counts[i], each[i]));
    *bytes = bs_bytes_add(bs_bytes_align(bs_bytes_of(sizeof(bs_model))),
                          bs_bytes_add(gguf.bytes, bs_bytes_max(index, gguf.passing_bytes)));
    return sound;
}

bool bs_model_index(bs_model *model, bs_arena *arena, bs_error *error)
{
    static bool (*const parts[])(model_open *) = {model_identity, model_labels,  model_symbols, model_node_arrays,
                                                  model_blocks,   model_weights, model_nodes};
    model_open open = {.model = model, .arena = arena, .error = error};
    bool sound = true;
    for (size_t i = 0; sound && i < sizeof parts / sizeof *parts; i++)
        sound = parts[i](&open);
    return sound;
}
#endif
