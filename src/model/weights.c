/* model/weights.c - the weights of a model file as a source for sessions, and queries about a file.
 * Relies on model/model.h. Must never keep state between calls: several threads may read weights of one model when the
 * reader underneath allows it. */
#include "model/model.h"

#if !defined(BS_NO_MODEL)

/* ----------------------------------------------------------------------------------------- weights source */

static void model_weight_info(const bs_model_weight *w, int32_t index, bs_weight_info *info)
{
    memset(info, 0, sizeof *info);
    info->dtype = (bs_dtype)w->dtype;
    info->rank = w->rank;
    info->bytes = bs_bytes_figure(w->bytes);
    info->handle = (uint64_t)index;
    memcpy(info->dim, w->dim, sizeof info->dim);
}

static bs_status model_weight_find(const void *user, const char *name, bs_weight_info *info)
{
    const bs_model *model = user;
    const uint64_t hash = bs_name_hash(name, strlen(name));
    char text[BS_MAX_WEIGHT_NAME];
    int32_t low = 0, high = model->n_weights;
    while (low < high) { /* binary search: all hashes differ */
        const int32_t middle = low + (high - low) / 2;
        if (model->weights[model->weights[middle].by_hash].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    const int32_t found = low < model->n_weights ? model->weights[low].by_hash : -1;
    if (found < 0 || model->weights[found].hash != hash)
        return BS_ERROR_WEIGHTS;
    if (!bs_gguf_text(&model->gguf, model->weights[found].name_at, text, sizeof text, NULL))
        return BS_ERROR_IO;
    if (strcmp(text, name) != 0)
        return BS_ERROR_WEIGHTS;
    model_weight_info(&model->weights[found], found, info);
    return BS_OK;
}

static bs_status model_weight_load(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                   size_t bytes)
{
    const bs_model *model = user;
    const bs_model_weight *w = bs_model_weight_of(model, info);
    const bs_bytes at = bs_bytes_of(offset), size = bs_bytes_of(bytes);
    if (!w || bs_bytes_less(w->bytes, bs_bytes_add(at, size)))
        return BS_ERROR_ARGUMENT;
    return bs_source_read(&model->gguf.source, bs_bytes_add(w->offset, at), buffer, size);
}

static const void *model_weight_map(const void *user, const bs_weight_info *info)
{
    const bs_model *model = user;
    const bs_model_weight *w = bs_model_weight_of(model, info);
    if (!w || !model->gguf.source.memory)
        return NULL;
    const uint8_t *data = bs_bytes_read_at(model->gguf.source.memory, w->offset);
    return (uintptr_t)data % bs_dtype_bytes((bs_dtype)w->dtype) == 0 ? data : NULL;
}

bs_weights bs_model_weights(const bs_model *model)
{
    const bs_weights none = {.user = NULL};
    if (!model)
        return none;
    bs_weights weights = {.user = model, .find = model_weight_find, .read = model_weight_load, .map = model_weight_map};
    bs_model_stream_source(model, &weights);
    return weights;
}

/* ---------------------------------------------------------------------------------------------- questions */

void bs_model_facts_get(const bs_model *model, bs_model_facts *facts)
{
    bs_bytes weights = bs_bytes_of(0);
    if (!facts)
        return;
    memset(facts, 0, sizeof *facts);
    if (!model)
        return;
    memcpy(facts->name, model->name, sizeof facts->name);
    facts->version = (int32_t)model->version;
    facts->opset = (int32_t)model->opset;
    facts->scale = (int32_t)model->scale;
    facts->nodes = model->n_nodes;
    facts->values = (int32_t)model->n_values;
    facts->blocks = model->n_blocks;
    facts->weights = model->n_weights;
    facts->symbols = model->n_symbols;
    facts->file_bytes = bs_bytes_figure(model->gguf.source.size);
    facts->alignment = model->gguf.alignment;
    facts->fetch_alignment = bs_model_fetch_alignment(model);
    facts->direct = facts->fetch_alignment > 1;
    for (int32_t i = 0; i < model->n_weights; i++)
        weights = bs_bytes_add(weights, model->weights[i].bytes);
    facts->weight_bytes = bs_bytes_figure(weights);
}

bs_graph_desc bs_model_graph_desc(const bs_model *model)
{
    const bs_graph_desc none = {.max_nodes = 0};
    if (!model)
        return none;
    /* The file does not say how many extents nodes make: most make none that is new. */
    const int32_t dims = bs_max_i32(bs_min_i32(8 * bs_min_i32(model->n_nodes, BS_MAX_ENTRIES / 8), 512),
                                    model->n_nodes / 4);
    const int32_t lifted = model->n_lifted;
    const bs_bytes text = bs_bytes_min(bs_bytes_add(model->text_bytes, bs_bytes_of(64)), bs_bytes_of(BS_MAX_TEXT));
    const bs_graph_desc desc = {.max_nodes = model->n_nodes + lifted,
                                .max_values = bs_max_i32((int32_t)model->n_values + lifted, 1),
                                .max_text_bytes = (int32_t)bs_bytes_figure(text),
                                .max_operands = bs_max_i32(model->n_operands + lifted, 1),
                                .max_dims = dims + model->n_symbols,
                                .max_domains = bs_max_i32(model->n_domains, 1),
                                .max_blocks = bs_max_i32(model->n_blocks - 1, 1),
                                .max_routers = bs_max_i32(model->n_routers, 1)};
    return desc;
}

bs_status bs_model_block_get(const bs_model *model, int32_t index, bs_model_block_facts *facts)
{
    if (!model || !facts)
        return BS_ERROR_ARGUMENT;
    memset(facts, 0, sizeof *facts);
    if (!bs_in_range(index, 0, model->n_blocks))
        return BS_ERROR_ARGUMENT;
    const bs_model_block *block = &model->blocks[index];
    facts->first_node = block->first_node;
    facts->end_node = block->end_node;
    facts->weights = block->end_weight - block->first_weight;
    facts->offset = bs_bytes_figure(block->offset);
    facts->bytes = bs_bytes_figure(block->bytes);
    facts->crc32 = block->crc32;
    return bs_gguf_text(&model->gguf, block->name_at, facts->name, sizeof facts->name, NULL) ? BS_OK : BS_ERROR_IO;
}

bs_status bs_model_weight_get(const bs_model *model, int32_t index, char *name, int32_t *block, bs_weight_info *info)
{
    if (!model || !bs_in_range(index, 0, model->n_weights))
        return BS_ERROR_ARGUMENT;
    const bs_model_weight *w = &model->weights[index];
    if (info)
        model_weight_info(w, index, info);
    if (block)
        *block = w->block;
    if (name && !bs_gguf_text(&model->gguf, w->name_at, name, BS_MAX_WEIGHT_NAME, NULL))
        return BS_ERROR_IO;
    return BS_OK;
}
#endif
