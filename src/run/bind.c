/* run/bind.c - what the caller gives a session: buffers by name, callbacks of routers.
 * Relies on run/session.h. Must never take a buffer that does not fit, or whose elements overlap where it is
 * written. */
#include "run/session.h"

#include "ops/structure.h"

/* No two elements overlap when each stride, taken in order of size, is larger than the reach of all smaller ones. This
 * also refuses a few layouts whose elements interleave without overlapping; nobody uses those. */
static bool strides_fit(const bs_buffer *b, bool written, bs_error *error)
{
    int32_t order[BS_MAX_RANK], n = 0;
    uint64_t step[BS_MAX_RANK], reach = 0;
    for (int32_t i = 0; i < b->rank; i++) {
        step[i] = b->stride[i] < 0 ? (uint64_t)-(b->stride[i] + 1) + 1 : (uint64_t)b->stride[i]; /* of INT64_MIN too */
        int32_t at = n++;
        for (; at > 0 && step[order[at - 1]] > step[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int32_t k = 0; k < n; k++) {
        const int32_t i = order[k];
        if (b->dim[i] == 1)
            continue;
        if (written && step[i] <= reach)
            return bs_refuse(error, BS_ERROR_ARGUMENT,
                             "its elements overlap: the stride of dimension %" PRId32
                             " is %lld, expected %llu or more, "
                             "either way",
                             i, (long long)b->stride[i], (unsigned long long)bs_add_u64(reach, 1));
        reach = bs_add_u64(reach, bs_mul_u64(step[i], (uint64_t)b->dim[i] - 1));
    }
    if (bs_mul_u64(bs_add_u64(reach, 1), bs_dtype_bytes(b->dtype)) > PTRDIFF_MAX)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "its strides reach beyond all memory");
    return true;
}

#if defined(BS_DEBUG)
/* The lowest byte that the strides reach, and the bytes from there to the end of the highest element. */
static const uint8_t *buffer_extent(const bs_buffer *b, uint64_t *bytes)
{
    int64_t low = 0, high = 1;
    for (int32_t i = 0; i < b->rank; i++) {
        const int64_t reach = b->stride[i] * (b->dim[i] - 1);
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    const int64_t each = (int64_t)bs_dtype_bytes(b->dtype);
    *bytes = (uint64_t)((high - low) * each);
    return (const uint8_t *)b->data + low * each;
}

static bool buffer_is_outside(const bs_session *session, const bs_buffer *b)
{
    uint64_t bytes;
    const uint8_t *first = buffer_extent(b, &bytes);
    return bs_disjoint(first, bytes, session->transient, bs_bytes_figure(session->plan->transient_bytes));
}
#endif

static bool session_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    if (!session || !name || !buffer || !buffer->data)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "the session, the name, the buffer or its data is NULL");
    const int32_t n = bs_graph_named(session->graph, name, false);
    if (!n)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "there is no input, output or state of that name");
    const bs_value_info *v = bs_bound_info(session, n);
    if (buffer->dtype != v->dtype || buffer->rank != v->rank)
        return bs_refuse(error, BS_ERROR_SHAPE, "%s of rank %" PRId32 " given, %s of rank %d expected",
                         bs_dtype_name(buffer->dtype), buffer->rank, bs_dtype_name(v->dtype), v->rank);
    bs_buffer b = *buffer;
    bool dense = true;
    for (int32_t i = 0; i < b.rank; i++) {
        char text[64];
        const int64_t maximum = bs_dim_max(session->graph, v->dims[i]);
        const bool fixed = bs_dim_is_const(session->graph, v->dims[i]);
        if (b.dim[i] < 1 || b.dim[i] > maximum || (fixed && b.dim[i] != maximum))
            return bs_refuse(error, BS_ERROR_SHAPE, "dimension %" PRId32 " is %lld, expected %s%s", i,
                             (long long)b.dim[i],
                             fixed ? "" : "1<=", bs_dim_text(session->graph, v->dims[i], text, sizeof text));
        dense = dense && b.stride[i] == 0;
    }
    for (int32_t i = b.rank - 1; dense && i >= 0; i--)
        b.stride[i] = i == b.rank - 1 ? 1 : b.stride[i + 1] * b.dim[i + 1];
    if (!strides_fit(&b, !bs_node_is_input(&session->graph->nodes[n]), error))
        return false;
    BS_DEBUG_CHECK(buffer_is_outside(session, &b));
    bs_buffer *const bound = &bs_bound_of(session, n)->buffer;
    session->fits = BS_DENSE_PAYS && session->fits && bs_same_buffer(bound, &b); /* a small library checks anew */
    *bound = b;
    return true;
}

bs_status bs_bind(bs_session *session, const char *name, const bs_buffer *buffer, bs_error *error)
{
    bs_error here = {.status = BS_OK};
    bs_session_enter(session);
    if (!session_bind(session, name, buffer, &here))
        bs_error_prefix(&here, "bs_bind \"%s\": ", name ? name : "");
    bs_session_leave(session);
    return bs_tell(&here, error);
}

bs_status bs_set_route(bs_session *session, const char *router, bs_route_function function, void *user, bs_error *error)
{
    const int32_t found = session ? bs_graph_router_named(session->graph, router) : 0;
    if (found == 0)
        return bs_fail(error, BS_ERROR_ARGUMENT,
                       "bs_set_route \"%s\": the session is NULL or has no router of that name", router ? router : "");
    session->callbacks[found].function = function;
    session->callbacks[found].user = user;
    return BS_OK;
}
