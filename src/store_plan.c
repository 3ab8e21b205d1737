/* store_plan.c - what is read for each unit: its weights found in storage and cut into pieces.
 *
 * A piece is what one chunk reads: the weights of neighbouring nodes of one record, as many as a chunk and a lane's staging
 * hold, so that each can be prepared by itself. The first piece of a record begins with its head.
 * Relies on store.h. Must never trust where a source says that weights are. */
#include "store_load.h"

/* ---------------------------------------------------------------------------------------------- finding them */

typedef struct store_planner {
    bs_store *s;
    bs_error *error;
    int32_t n_nodes, n_tensors, n_pieces;
    uint64_t chunk; /* bytes of the pieces of this unit */
} store_planner;

static bs_status find_tensor(store_planner *p, const bs_node *node, const bs_weight_spec *spec, int32_t *block, bs_store_tensor *tensor)
{
    const bs_weights *w = &p->s->weights;
    char name[2 * BS_MAX_NAME];
    bs_weight_info info;
    bs_weight_name(name, sizeof name, node, spec->suffix);
    bs_status status = bs_weight_find(w, name, spec, &info, p->error);
    if (status != BS_OK)
        return status;
    status = w->locate(w->user, &info, block, &tensor->offset);
    if (status != BS_OK || bs_add_u64(tensor->offset, info.bytes) == UINT64_MAX)
        return bs_fail(p->error, status != BS_OK ? status : BS_ERROR_FORMAT, "weight \"%s\": the source does not tell its place in storage", name);
    tensor->bytes = info.bytes;
    tensor->dtype = info.dtype;
    return BS_OK;
}

/* All weights of a node lie in one record. */
static bs_status find_node(store_planner *p, int32_t n, bs_store_node *found)
{
    const bs_graph *g = p->s->plan->graph;
    const bs_node *node = &g->nodes[n];
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    found->node = n;
    found->first_tensor = p->n_tensors;
    found->n_tensors = bs_op_get(node->op)->weights(g, node, specs);
    found->begin = UINT64_MAX;
    found->end = 0;
    for (int32_t i = 0; i < found->n_tensors; i++) {
        bs_store_tensor *tensor = &p->s->tensors[p->n_tensors++];
        int32_t block = 0;
        const bs_status status = find_tensor(p, node, &specs[i], &block, tensor);
        if (status != BS_OK)
            return status;
        if (i > 0 && block != found->block)
            return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "%s \"%s\": its weights lie in two records and cannot be streamed",
                           bs_op_get(node->op)->name, bs_node_name(node));
        found->block = block;
        found->begin = tensor->offset < found->begin ? tensor->offset : found->begin;
        found->end = tensor->offset + tensor->bytes > found->end ? tensor->offset + tensor->bytes : found->end;
    }
    return BS_OK;
}

/* ------------------------------------------------------------------------------------------------- cutting */

/* Staging that a range takes: as read, with pages begun, and what narrow weights grow by when they are widened. */
static uint64_t staging_of(const bs_store *s, const bs_store_node *nodes, int32_t count, uint64_t begin, uint64_t end)
{
    uint64_t bytes = bs_add_u64(end - begin, 2 * BS_PAGE_BYTES);
    for (int32_t i = 0; i < count; i++)
        for (int32_t t = nodes[i].first_tensor; t < nodes[i].first_tensor + nodes[i].n_tensors; t++) {
            const uint64_t size = bs_dtype_bytes(s->tensors[t].dtype);
            const bool copied = size == 2 || s->tensors[t].offset % size != 0;
            bytes = bs_add_u64(bytes, copied ? s->tensors[t].bytes + 2 * BS_ALIGNMENT : 0);
        }
    return bytes;
}

static bs_store_piece *piece_add(store_planner *p, int32_t block, uint64_t begin, uint64_t end, int32_t first_node)
{
    bs_store_piece *piece = &p->s->pieces[p->n_pieces++];
    memset(piece, 0, sizeof *piece);
    piece->block = block;
    piece->begin = begin;
    piece->end = end;
    piece->first_node = first_node;
    return piece;
}

/* Whether the way from `begin` to the node is better not read. Gaps between weights are, where staging has room: a record
 * can then be checked as it is read. */
static bool is_far(const store_planner *p, int32_t index, uint64_t begin)
{
    const bs_store_node *node = &p->s->nodes[index];
    return node->end - begin > p->chunk &&
           (node->begin - begin > BS_PAGE_BYTES || staging_of(p->s, node, 1, begin, node->end) > p->s->plan->lane_bytes);
}

/* The next node goes into the piece that is open, or begins one; the first of a record takes the head along. */
static bs_status add_node(store_planner *p, bs_store_unit *unit, const bs_store_node *node, int32_t index)
{
    bs_store *s = p->s;
    const int32_t block = node->block;
    bs_record record = {0, 0, 0, 0};
    bs_store_piece *open = p->n_pieces > unit->first_piece ? &s->pieces[p->n_pieces - 1] : NULL;
    if (s->weights.record(s->weights.user, block, &record) != BS_OK || node->begin < record.offset ||
        node->end > bs_add_u64(record.offset, record.bytes))
        return bs_fail(p->error, BS_ERROR_FORMAT, "%s \"%s\": its weights do not lie in the record of block %d",
                       bs_op_get(s->plan->graph->nodes[node->node].op)->name, bs_node_name(&s->plan->graph->nodes[node->node]), block);
    if (open && open->block == block && node->begin >= open->end && node->end - open->begin <= p->chunk &&
        staging_of(s, s->nodes + open->first_node, index + 1 - open->first_node, open->begin, node->end) <= s->plan->lane_bytes) {
        open->end = node->end;
        open->n_nodes++;
    } else {
        const bool first = !open || open->block != block;
        uint64_t begin = first ? record.offset : node->begin >= open->end ? open->end : node->begin;
        if (first && is_far(p, index, begin) && record.head_bytes > 0) { /* too far: the head by itself */
            piece_add(p, block, begin, begin + record.head_bytes, index)->head = true;
            begin = node->begin;
        } else if (is_far(p, index, begin)) {
            begin = node->begin;
        }
        bs_store_piece *piece = piece_add(p, block, begin, node->end, index);
        piece->head = begin == record.offset && record.head_bytes > 0;
        piece->n_nodes = 1;
    }
    bs_store_piece *last = &s->pieces[p->n_pieces - 1];
    last->tail = last->end == record.offset + record.bytes;
    if (staging_of(s, s->nodes + last->first_node, last->n_nodes, last->begin, last->end) > s->plan->lane_bytes)
        return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "%s \"%s\": its weights lie too far apart to be streamed",
                       bs_op_get(s->plan->graph->nodes[node->node].op)->name, bs_node_name(&s->plan->graph->nodes[node->node]));
    return BS_OK;
}

/* A CRC-32 needs every byte of a record, in order. */
static bs_status check_cover(store_planner *p, const bs_store_unit *unit)
{
    const bs_store *s = p->s;
    uint64_t at = 0;
    for (int32_t i = unit->first_piece; i < unit->first_piece + unit->n_pieces; i++) {
        const bs_store_piece *piece = &s->pieces[i];
        const bool last = i + 1 == unit->first_piece + unit->n_pieces || s->pieces[i + 1].block != piece->block;
        const bool whole = piece->head ? true : piece->begin == at;
        if (!whole || piece->tail != last)
            return bs_fail(p->error, BS_ERROR_UNSUPPORTED, "check_records: the record of block %d cannot be checked as it is read, this plan leaves out "
                           "some of its weights", piece->block);
        at = piece->end;
    }
    return BS_OK;
}

/* Finds the weights of all nodes of the unit; returns their bytes in *bytes. */
static bs_status find_unit(store_planner *p, int32_t u, uint64_t *bytes)
{
    bs_store *s = p->s;
    bs_store_unit *unit = &s->units[u];
    unit->first_node = p->n_nodes;
    for (int32_t n = 1; n < s->plan->graph->n_nodes; n++) {
        if (s->plan->nodes[n].unit != u + 1 || s->plan->nodes[n].owner != n)
            continue;
        bs_store_node *node = &s->nodes[p->n_nodes];
        const bs_status status = find_node(p, n, node);
        if (status != BS_OK)
            return status;
        *bytes = bs_add_u64(*bytes, node->end - node->begin);
        p->n_nodes++;
    }
    unit->n_nodes = p->n_nodes - unit->first_node;
    return BS_OK;
}

static bs_status plan_unit(store_planner *p, int32_t u)
{
    bs_store *s = p->s;
    bs_store_unit *unit = &s->units[u];
    bs_stream_unit *facts = &s->facts[u];
    uint64_t bytes = 0;
    bs_status status = find_unit(p, u, &bytes);
    p->chunk = bs_stream_chunk_limit(bytes, s->plan->chunk_bytes, s->plan->lanes);
    unit->first_piece = p->n_pieces;
    for (int32_t k = unit->first_node; k < unit->first_node + unit->n_nodes && status == BS_OK; k++)
        status = add_node(p, unit, &s->nodes[k], k);
    if (status != BS_OK)
        return status;
    unit->n_pieces = p->n_pieces - unit->first_piece;
    facts->slot_bytes = bs_align_u64(s->plan->units[u + 1].prepared_bytes);
    facts->n_chunks = unit->n_pieces;
    for (int32_t i = unit->first_piece; i < p->n_pieces; i++)
        facts->read_bytes += s->pieces[i].end - s->pieces[i].begin;
    return s->check_records ? check_cover(p, unit) : BS_OK;
}

bs_status bs_store_plan(bs_store *s, bs_error *error)
{
    store_planner p = {s, error, 0, 0, 0, 0};
    bs_status status = BS_OK;
    for (int32_t u = 0; u < s->plan->n_units - 1 && status == BS_OK; u++)
        status = plan_unit(&p, u);
    return status;
}
