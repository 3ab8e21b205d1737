/* run/segments.c - segments in a run: offsets and cache lengths from the inputs, checked before anything runs, and
 * where appended rows go. Owns the offsets of segments and the copies of `cache_lengths`: the run reads these copies,
 * so a buffer that changes meanwhile does no harm. Relies on run/session.h. Must never let a number that was not
 * checked reach an address. */
#include "run/session.h"
#include "ops/structure.h"

#define MAX_CACHE_LENGTH ((int32_t)1 << 30) /* plus the rows of a run, positions stay below 2^31 */

/* -------------------------------------------------------------------------------------------------- room */

int64_t bs_segment_room(const bs_plan *plan, int32_t domain)
{
    if (!bs_domain_is_segments(&plan->graph->domains[domain]) || !plan->domains[domain].live)
        return 0;
    return bs_dim_max(plan->graph, bs_segment_dim(plan->graph, domain)) + 1;
}

int64_t bs_cache_lengths_room(const bs_plan *plan, int32_t node)
{
    const int32_t value = plan->graph->nodes[node].first_out;
    if (!plan->node_live[node] || !bs_node_is_input(&plan->graph->nodes[node]) || !plan->values[value].is_cache_length)
        return 0;
    return bs_dim_max(plan->graph, plan->graph->values[value].dims[0]);
}

/* -------------------------------------------------------------------------------------------------- begin */

static int32_t bound_i32(const bs_session *s, int32_t node, int64_t index)
{
    const bs_buffer *b = &bs_bound_of(s, node)->buffer;
    return ((const int32_t *)b->data)[index * b->stride[0]];
}

static bool begin_offsets(bs_session *s, int32_t domain, bs_error *error)
{
    const int32_t node = s->graph->values[s->graph->domains[domain].lengths].node, rows = s->root.domains[domain].count;
    const int64_t segments = s->dims[bs_segment_dim(s->graph, domain)];
    const char *name = bs_node_name(&s->graph->nodes[node]);
    char text[64];
    int32_t *offsets = s->offsets[domain];
    offsets[0] = 0;
    for (int64_t g = 0; g < segments; g++) {
        const int32_t length = bound_i32(s, node, g);
        if (length < 0 || length > rows - offsets[g])
            return bs_refuse(error, BS_ERROR_DATA,
                             "input \"%s\": segment %lld has %" PRId32 " rows, expected 0 .. %" PRId32
                             ", what is left of %" PRId32 " (%s)",
                             name, (long long)g, length, rows - offsets[g], rows,
                             bs_dim_text(s->graph, s->graph->domains[domain].rows, text, sizeof text));
        offsets[g + 1] = offsets[g] + length;
    }
    if (offsets[segments] != rows)
        return bs_refuse(error, BS_ERROR_DATA,
                         "input \"%s\": the segments have %" PRId32 " rows together, this run has %" PRId32 " (%s)",
                         name, offsets[segments], rows,
                         bs_dim_text(s->graph, s->graph->domains[domain].rows, text, sizeof text));
    return true;
}

static bool begin_cache_lengths(bs_session *s, int32_t node, bs_error *error)
{
    const int64_t segments = s->dims[s->graph->values[s->graph->nodes[node].first_out].dims[0]];
    int32_t *const lengths = bs_bound_of(s, node)->cache_lengths;
    for (int64_t g = 0; g < segments; g++) {
        lengths[g] = bound_i32(s, node, g);
        if (lengths[g] < 0 || lengths[g] > MAX_CACHE_LENGTH)
            return bs_refuse(error, BS_ERROR_DATA,
                             "input \"%s\": segment %lld has %" PRId32 " tokens already, expected 0 .. %" PRId32,
                             bs_node_name(&s->graph->nodes[node]), (long long)g, lengths[g],
                             MAX_CACHE_LENGTH);
    }
    return true;
}

/* Every position of an attention, and of its keys, must be within its bias: of a path, if all rows took it. */
static bool begin_bias(const bs_session *s, const bs_node *node, bs_error *error)
{
    const bs_graph *g = s->graph;
    const int32_t *in = bs_node_in(g, node), length = bs_node_operand(node, BS_ROLE_CACHE_LENGTH);
    const bs_value_info *bias = &g->values[in[node->n_in - 1]];
    const int32_t q = bs_segmented(g, g->values[in[0]].domain), k = bs_segmented(g, g->values[in[1]].domain);
    const int64_t most = s->dims[bias->dims[1]], most_keys = s->dims[bias->dims[2]];
    for (int64_t i = 0; i < s->dims[bs_segment_dim(g, q)]; i++) {
        const int32_t cached = length < 0 ? 0 : bs_bound_of(s, g->values[in[length]].node)->cache_lengths[i];
        const int64_t rows = s->offsets[q][i + 1] - s->offsets[q][i] + (q == k ? cached : 0),
                      keys = (int64_t)cached + s->offsets[k][i + 1] - s->offsets[k][i];
        if (rows > most || keys > most_keys)
            return bs_refuse(
                error, BS_ERROR_DATA,
                "attention \"%s\": segment %lld has %lld positions and %lld of keys, its bias [%lld, %lld]",
                bs_node_name(node), (long long)i, (long long)rows, (long long)keys, (long long)most,
                (long long)most_keys);
    }
    return true;
}

/* Attention across two segment domains: as many segments in both. */
static bool begin_attention(const bs_session *s, const bs_node *node, bs_error *error)
{
    const bs_graph *g = s->graph;
    const int32_t *in = bs_node_in(g, node);
    const int64_t ours = s->dims[bs_segment_dim(g, g->values[in[0]].domain)],
                  theirs = s->dims[bs_segment_dim(g, g->values[in[1]].domain)];
    if (ours != theirs)
        return bs_refuse(error, BS_ERROR_DATA, "attention \"%s\": operand 0 has %lld segments, operand 1 has %lld",
                         bs_node_name(node), (long long)ours, (long long)theirs);
    return node->n_in % 3 == 0 || g->values[in[node->n_in - 1]].rank != 3 || begin_bias(s, node, error);
}

bool bs_segments_begin(bs_session *session, bs_error *error)
{
    for (int32_t d = 1; d < session->graph->n_domains; d++)
        if (session->offsets[d] && !begin_offsets(session, d, error))
            return false;
    for (int32_t k = 0; k < session->n_watched; k++) {
        const int32_t n = session->watched[k];
        if (bs_bound_of(session, n)->cache_lengths && !begin_cache_lengths(session, n, error))
            return false;
    }
    for (int32_t k = 0; k < session->n_watched; k++) {
        const bs_node *node = &session->graph->nodes[session->watched[k]];
        if (session->plan->node_live[session->watched[k]] && bs_node_operand(node, BS_ROLE_KEYS) >= 0 &&
            !begin_attention(session, node, error))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------- run */

static bs_segment_rows segments_of(const bs_context *c, int32_t domain)
{
    const bs_session *s = c->session;
    const int32_t top = bs_segmented(s->graph, domain);
    const bs_segment_rows segments = {s->graph, c->domains, domain, s->offsets[top],
                                  top ? (int32_t)s->dims[bs_segment_dim(s->graph, domain)] : 0};
    return segments;
}

void bs_segment_call(const bs_context *c, int32_t row, bs_call *call)
{
    const bs_graph *g = c->session->graph;
    const int32_t *in = bs_node_in(g, call->node);
    const bool makes_rows = bs_segmented(g, call->node->domain) != 0;
    call->row = row;
    call->work_item = 0;
    call->segments = segments_of(c, makes_rows ? call->node->domain : g->values[in[0]].domain);
    if (call->node->n_in > 1)
        call->of_keys = segments_of(c, g->values[in[1]].domain);
}

void bs_segment_append(const bs_context *c, const bs_instr *i, int32_t row, bs_operand *operand)
{
    const bs_session *s = c->session;
    const bs_graph *g = s->graph;
    const bs_node *node = &g->nodes[i->node];
    const int32_t *in = bs_node_in(g, node), *offsets = s->offsets[i->domain];
    const int32_t length = in[bs_node_operand(node, BS_ROLE_CACHE_LENGTH)];
    const bs_buffer *state = &bs_bound_of(s, g->values[in[bs_node_operand(node, BS_ROLE_STATE)]].node)->buffer;
    const int32_t segment = bs_segment_of(offsets, (int32_t)s->dims[bs_segment_dim(g, i->domain)], row);
    const int32_t window = (int32_t)state->dim[1],
                  position = bs_bound_of(s, g->values[length].node)->cache_lengths[segment] + (row - offsets[segment]);
    operand->data = NULL;
    if (offsets[segment + 1] - row > window)
        return;
    const ptrdiff_t at = (ptrdiff_t)(segment * state->stride[0] + position % window * state->stride[1]);
    operand->data = (uint8_t *)state->data + at * (ptrdiff_t)bs_dtype_bytes(operand->dtype);
    for (int32_t k = 0; k < operand->rank; k++)
        operand->stride[k] = (ptrdiff_t)state->stride[k + 2];
}
