/* stream/store_plan.c - what is read for each unit: its weights found in storage and cut into chunks.
 *
 * A chunk is what one read brings: the weights of neighbouring nodes of one record, as many as the chunk size and a
 * lane's staging hold, so that each can be prepared by itself. The first chunk of a record begins with its head.
 * Relies on stream/store.h. Must never trust where a source says that weights are. */
#include "stream/store_load.h"

#if !defined(BS_NO_STREAM)

/* ---------------------------------------------------------------------------------------------- finding them */

typedef struct store_planner {
    bs_store *s;
    bs_error *error;
    int32_t n_tensors, n_chunks;
    bs_bytes chunk_bytes; /* bytes of the chunks of this unit */
} store_planner;

static bs_bytes tensor_end(const bs_store_tensor *tensor) { return bs_bytes_add(tensor->offset, tensor->bytes); }

/* Says what is wrong with the weights of a node. */
static bool weights_refused(const store_planner *p, bs_status status, int32_t node, const char *what)
{
    const bs_node *n = &p->s->plan->graph->nodes[node];
    return bs_refuse(p->error, status, "%s \"%s\": its weights %s", bs_op_get(n->op)->name, bs_node_name(n), what);
}

static bool find_tensor(store_planner *p, const bs_node *node, const bs_weight_spec *spec, int32_t *block,
                        bs_store_tensor *tensor)
{
    const bs_weights *w = &p->s->weights;
    char name[2 * BS_MAX_NAME];
    bs_weight_info info;
    bs_weight_name(name, sizeof name, node, spec->suffix);
    if (bs_weight_find(w, name, spec, &info, p->error) != BS_OK)
        return false;
    uint64_t offset = 0;
    const bs_status status = w->locate(w->user, &info, block, &offset);
    tensor->offset = bs_bytes_of(offset);
    tensor->bytes = bs_bytes_of(info.bytes);
    if (status != BS_OK || !bs_bytes_known(tensor_end(tensor)))
        return bs_refuse(p->error, status != BS_OK ? status : BS_ERROR_FORMAT,
                         "weight \"%s\": the source does not tell its place in storage", name);
    tensor->dtype = info.dtype;
    return true;
}

static void sort_tensors(bs_store_tensor *tensors, int32_t count)
{
    for (int32_t i = 1; i < count; i++)
        for (int32_t k = i; k > 0 && bs_bytes_less(tensors[k].offset, tensors[k - 1].offset); k--) {
            const bs_store_tensor later = tensors[k - 1];
            tensors[k - 1] = tensors[k];
            tensors[k] = later;
        }
}

/* Marks the tensors that the op cannot read where they are read to: those to be widened, those that are not aligned,
 * and those behind which one of these lies, as it may be widened over them. */
static void mark_copied(bs_store_tensor *tensors, int32_t count, const bs_weight_spec *specs)
{
    bool behind = false;
    for (int32_t i = count - 1; i >= 0; i--) {
        bs_store_tensor *t = &tensors[i];
        t->copied = behind || t->dtype != specs[t->spec].dtype ||
                    bs_bytes_figure(t->offset) % bs_dtype_bytes(t->dtype) != 0;
        behind = t->copied;
    }
}

/* Finds the weights of a node. All must lie in one record, apart from each other. */
static bool find_node(store_planner *p, bs_store_node *found)
{
    const bs_graph *g = p->s->plan->graph;
    const bs_node *node = &g->nodes[found->node];
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    found->first_tensor = p->n_tensors;
    found->n_tensors = bs_node_weights(g, node, specs);
    found->begin = bs_bytes_of(BS_BYTES_TOO_MANY);
    found->end = bs_bytes_of(0);
    for (int32_t i = 0; i < found->n_tensors; i++) {
        bs_store_tensor *tensor = &p->s->tensors[p->n_tensors++];
        int32_t block = 0;
        if (!find_tensor(p, node, &specs[i], &block, tensor))
            return false;
        tensor->spec = (int16_t)i;
        if (i > 0 && block != found->block)
            return weights_refused(p, BS_ERROR_UNSUPPORTED, found->node, "lie in two records and cannot be streamed");
        found->block = block;
        found->begin = bs_bytes_min(found->begin, tensor->offset);
        found->end = bs_bytes_max(found->end, tensor_end(tensor));
    }
    bs_store_tensor *tensors = &p->s->tensors[found->first_tensor];
    sort_tensors(tensors, found->n_tensors);
    mark_copied(tensors, found->n_tensors, specs);
    for (int32_t i = 0; i + 1 < found->n_tensors; i++)
        if (bs_bytes_less(tensors[i + 1].offset, tensor_end(&tensors[i])))
            return weights_refused(p, BS_ERROR_FORMAT, found->node, "lie over each other in storage");
    return true;
}

/* ------------------------------------------------------------------------------------------------- cutting */

/* Staging that a range takes: its bytes, two pages for alignment at both ends, and what narrow weights grow by when
 * they are widened. So a copy ends where its source ended, or before. */
static bs_bytes staging_of(const bs_store *s, const bs_store_node *nodes, int32_t count, bs_bytes begin, bs_bytes end)
{
    bs_bytes bytes = bs_bytes_add(bs_bytes_sub(end, begin), bs_bytes_of(2 * BS_PAGE_BYTES));
    for (int32_t i = 0; i < count; i++)
        for (int32_t t = nodes[i].first_tensor; t < nodes[i].first_tensor + nodes[i].n_tensors; t++) {
            const bs_store_tensor *tensor = &s->tensors[t];
            const bool grows = bs_dtype_bytes(tensor->dtype) == 2;
            if (tensor->copied)
                bytes = bs_bytes_add(
                    bytes, bs_bytes_add(grows ? tensor->bytes : bs_bytes_of(0), bs_bytes_of(2 * BS_ALIGNMENT)));
        }
    return bytes;
}

static bool has_staging(const store_planner *p, const bs_store_node *nodes, int32_t count, bs_bytes begin, bs_bytes end)
{
    return !bs_bytes_less(p->s->plan->lane_bytes, staging_of(p->s, nodes, count, begin, end));
}

static bs_store_chunk *chunk_add(store_planner *p, int32_t block, bs_bytes begin, bs_bytes end, int32_t first_node)
{
    bs_store_chunk *chunk = &p->s->chunks[p->n_chunks++];
    memset(chunk, 0, sizeof *chunk);
    chunk->block = block;
    chunk->begin = begin;
    chunk->end = end;
    chunk->first_node = first_node;
    return chunk;
}

/* Whether the bytes between `begin` and the node are better not read. Gaps between weights are read where staging has
 * room: only so can a record be checked as it is read. */
static bool is_far(const store_planner *p, int32_t index, bs_bytes begin)
{
    const bs_store_node *node = &p->s->nodes[index];
    return bs_bytes_less(p->chunk_bytes, bs_bytes_sub(node->end, begin)) &&
           (bs_bytes_less(bs_bytes_of(BS_PAGE_BYTES), bs_bytes_sub(node->begin, begin)) ||
            !has_staging(p, node, 1, begin, node->end));
}

/* Puts the next node into the open chunk, or begins a new one; the first chunk of a record takes the head along. */
static bool add_node(store_planner *p, bs_store_unit *unit, const bs_store_node *node, int32_t index)
{
    bs_store *s = p->s;
    const int32_t block = node->block;
    bs_record record = {0, 0, 0, 0};
    bs_store_chunk *open = p->n_chunks > unit->first_chunk ? &s->chunks[p->n_chunks - 1] : NULL;
    const bool found = s->weights.record(s->weights.user, block, &record) == BS_OK;
    const bs_bytes record_begin = bs_bytes_of(record.offset), head = bs_bytes_of(record.head_bytes);
    const bs_bytes record_end = bs_bytes_add(record_begin, bs_bytes_of(record.bytes));
    if (!found || bs_bytes_less(node->begin, record_begin) || bs_bytes_less(record_end, node->end))
        return bs_refuse(p->error, BS_ERROR_FORMAT, "%s \"%s\": its weights do not lie in the record of block %" PRId32,
                         bs_op_get(s->plan->graph->nodes[node->node].op)->name,
                         bs_node_name(&s->plan->graph->nodes[node->node]), block);
    if (open && open->block == block && !bs_bytes_less(node->begin, open->end) &&
        !bs_bytes_less(p->chunk_bytes, bs_bytes_sub(node->end, open->begin)) &&
        has_staging(p, s->nodes + open->first_node, index + 1 - open->first_node, open->begin, node->end)) {
        open->end = node->end;
        open->n_nodes++;
    } else {
        const bool first = !open || open->block != block;
        bs_bytes begin = first ? record_begin : bs_bytes_min(open->end, node->begin);
        if (first && is_far(p, index, begin) && bs_bytes_any(head)) { /* the first node is far: the head alone */
            chunk_add(p, block, begin, bs_bytes_add(begin, head), index)->head = true;
            begin = node->begin;
        } else if (is_far(p, index, begin)) {
            begin = node->begin;
        }
        bs_store_chunk *chunk = chunk_add(p, block, begin, node->end, index);
        chunk->head = bs_bytes_same(begin, record_begin) && bs_bytes_any(head);
        chunk->n_nodes = 1;
    }
    bs_store_chunk *last = &s->chunks[p->n_chunks - 1];
    last->tail = bs_bytes_same(last->end, record_end);
    if (!has_staging(p, s->nodes + last->first_node, last->n_nodes, last->begin, last->end))
        return weights_refused(p, BS_ERROR_UNSUPPORTED, node->node, "lie too far apart to be streamed");
    return true;
}

/* A CRC-32 needs every byte of a record, in order. */
static bool check_cover(store_planner *p, const bs_store_unit *unit)
{
    const bs_store *s = p->s;
    bs_bytes at = bs_bytes_of(0);
    for (int32_t i = unit->first_chunk; i < unit->first_chunk + unit->n_chunks; i++) {
        const bs_store_chunk *chunk = &s->chunks[i];
        const bool last = i + 1 == unit->first_chunk + unit->n_chunks || s->chunks[i + 1].block != chunk->block;
        const bool whole = chunk->head || bs_bytes_same(chunk->begin, at);
        if (!whole || chunk->tail != last)
            return bs_refuse(p->error, BS_ERROR_UNSUPPORTED,
                             "check_records: the record of block %" PRId32
                             " cannot be checked as it is read, this plan leaves out "
                             "some of its weights",
                             chunk->block);
        at = chunk->end;
    }
    return true;
}

/* Gives each unit its nodes, in their order; counts them first. */
static void deal_nodes(bs_store *s)
{
    const bs_plan *plan = s->plan;
    int32_t first = 0;
    for (int32_t u = 0; u < plan->n_units - 1; u++)
        s->units[u].n_nodes = 0;
    for (int32_t n = 1; n < plan->graph->n_nodes; n++)
        if (bs_store_loads(plan, n))
            s->units[plan->nodes[n].unit - 1].n_nodes++;
    for (int32_t u = 0; u < plan->n_units - 1; u++) {
        s->units[u].first_node = first;
        first += s->units[u].n_nodes;
        s->units[u].n_nodes = 0;
    }
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        if (!bs_store_loads(plan, n))
            continue;
        bs_store_unit *unit = &s->units[plan->nodes[n].unit - 1];
        s->nodes[unit->first_node + unit->n_nodes++].node = n;
    }
}

/* Finds the weights of all nodes of the unit; returns their bytes in *bytes. */
static bool find_unit(store_planner *p, int32_t u, bs_bytes *bytes)
{
    const bs_store_unit *unit = &p->s->units[u];
    for (int32_t k = unit->first_node; k < unit->first_node + unit->n_nodes; k++) {
        bs_store_node *node = &p->s->nodes[k];
        if (!find_node(p, node))
            return false;
        *bytes = bs_bytes_add(*bytes, bs_bytes_sub(node->end, node->begin));
    }
    return true;
}

static bool plan_unit(store_planner *p, int32_t u)
{
    bs_store *s = p->s;
    bs_store_unit *unit = &s->units[u];
    bs_stream_unit *facts = &s->facts[u];
    bs_bytes bytes = bs_bytes_of(0);
    if (!find_unit(p, u, &bytes))
        return false;
    p->chunk_bytes = bs_stream_chunk_limit(bytes, s->plan->chunk_bytes, s->plan->lanes);
    unit->first_chunk = p->n_chunks;
    for (int32_t k = unit->first_node; k < unit->first_node + unit->n_nodes; k++)
        if (!add_node(p, unit, &s->nodes[k], k))
            return false;
    unit->n_chunks = p->n_chunks - unit->first_chunk;
    facts->slot_bytes = bs_bytes_align(s->plan->units[u + 1].prepared_bytes);
    facts->n_chunks = unit->n_chunks;
    for (int32_t i = unit->first_chunk; i < p->n_chunks; i++)
        facts->read_bytes = bs_bytes_add(facts->read_bytes, bs_bytes_sub(s->chunks[i].end, s->chunks[i].begin));
    return !s->check_records || check_cover(p, unit);
}

bool bs_store_plan(bs_store *s, bs_error *error)
{
    store_planner p = {s, error, 0, 0, {0}};
    bool planned = true;
    deal_nodes(s);
    for (int32_t u = 0; u < s->plan->n_units - 1 && planned; u++)
        planned = plan_unit(&p, u);
    return planned;
}
#endif
