/* rounds.cuh - loops at top level: their launches again and again, up to the bound or until the host has asked whether
 * there is another trip; or the body of a WHILE node, captured once.
 * (A loop in a tile is gone round by the tile's block: launch.cuh. Where weights are streamed the interpreter goes
 * round: run/exec.c.) Relies on capture.cuh. Must never launch a body more often than its loop's bound. */
#ifndef BS_CUDA_ROUNDS
#define BS_CUDA_ROUNDS

#include "cuda/capture.cuh"

/* A loop at top level that is being launched or captured. */
struct bs_cu_round {
    int32_t begin, again; /* the launches of its decisions */
    int32_t trips;        /* so far; captured so far of a WHILE node's */
    bool around_others;   /* loops stand in it */
    bs_cu_handle handle;  /* of its WHILE node, */
    cudaGraphNode_t node; /* which is this, */
    cudaGraph_t around;   /* and stands in this graph */
};

struct bs_cu_rounds {
    bs_cu_round list[BS_MAX_LOOP_DEPTH];
    int32_t count;
};

enum {
    BS_CU_TRIPS_FIRST = 8,   /* in mode STREAM the host asks after 8 trips, 16, 32, then every 64 */
    BS_CU_TRIPS = 64,
    BS_CU_TRIPS_A_ROUND = 4, /* of a WHILE node without loops in it: a round takes as long as two launches or three */
    BS_CU_UNROLLED = 1 << 12 /* launches of a graph without WHILE nodes, at most */
};

static const bs_loop_info *bs_cu_loop_of(const bs_device_session *s, int32_t begin)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    return &s->client->graph->routers[steps[s->launches.list[begin].first].router].loop;
}

#if BS_CU_CONDITIONAL
/* From here on what is queued is captured into the body of a WHILE node. */
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    cudaGraph_t body = NULL;
    bs_status status = bs_cu_check(cudaGraphConditionalHandleCreate(&r->handle, s->graph, 0, 0), "making a condition",
                                   error);
    r->around = s->graph;
    if (status == BS_OK)
        status = bs_cu_queue_any_rows(s, r->again, 1, r->handle, true, error);
    if (status != BS_OK)
        return status; /* still capturing: bs_cu_graph_give_up ends it */
    status = bs_cu_capture_close(s, error);
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_add_conditional(s, cudaGraphCondTypeWhile, r->handle, &body, error);
    if (status != BS_OK)
        return status;
    r->node = s->last;
    s->graph = body;
    s->last = NULL;
    status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}

static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    bs_status status = bs_cu_queue_any_rows(s, r->again, 1, r->handle, true, error);
    if (status != BS_OK)
        return status;
    status = bs_cu_capture_close(s, error);
    s->graph = r->around;
    s->last = r->node;
    s->capturing = false;
    if (status == BS_OK)
        status = bs_cu_capture_open(s, error);
    s->capturing = status == BS_OK;
    return status;
}
#else
static bs_status bs_cu_open_while(bs_device_session *s, bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes"); /* unreachable: graph.cuh */
}
static bs_status bs_cu_close_while(bs_device_session *s, const bs_cu_round *r, bs_error *error)
{
    return (void)s, (void)r, bs_fail(error, BS_ERROR_UNSUPPORTED, "no WHILE nodes");
}
#endif

/* Behind launch k, the first decision of a loop. */
static bs_status bs_cu_enter_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t k, bs_error *error)
{
    for (int32_t i = 0; i < rounds->count; i++)
        rounds->list[i].around_others = true;
    bs_cu_round *r = &rounds->list[rounds->count++]; /* the builder bounds how deep loops nest */
    memset(r, 0, sizeof *r);
    r->begin = k;
    r->again = k + s->launches.list[k].round;
    return bs_cu_has_nodes(s) && s->capturing ? bs_cu_open_while(s, r, error) : BS_OK;
}

/* Trips that the host launches of a loop, at most: where an extent that it knows says how many, those. A graph serves
 * all extents. */
static int32_t bs_cu_most_trips(const bs_device_session *s, const bs_loop_info *loop)
{
    const bs_graph *g = s->client->graph;
    const bool known = loop->trips >= 0 && !s->capturing && g->dims[loop->trips].node == 0;
    return known ? (int32_t)s->client->dims[loop->trips] : loop->bound;
}

/* Whether the host asks after so many trips if there is another: only where rows end at different times. One that
 * records asks after each. */
static bool bs_cu_asks_after(const bs_device_session *s, const bs_loop_info *loop, int32_t trips)
{
    const bool ends = bs_cu_ends_apart(s->client->graph, loop),
               now_and_then = s->device->launches || trips % BS_CU_TRIPS == 0 ||
                              (trips >= BS_CU_TRIPS_FIRST && (trips & (trips - 1)) == 0);
    return ends && !s->capturing && now_and_then;
}

/* Behind launch *k, the second decision of the innermost loop: goes back to the first one, or on. */
static bs_status bs_cu_leave_loop(bs_device_session *s, bs_cu_rounds *rounds, int32_t *k, bs_error *error)
{
    bs_cu_round *r = &rounds->list[rounds->count - 1];
    const bs_loop_info *loop = bs_cu_loop_of(s, r->begin);
    bs_status status = BS_OK;
    bool more = ++r->trips < bs_cu_most_trips(s, loop);
    if (bs_cu_has_nodes(s) && s->capturing) {
        more = more && !r->around_others && r->trips < BS_CU_TRIPS_A_ROUND;
        *k = more ? r->begin : *k;
        rounds->count -= !more;
        return more ? BS_OK : bs_cu_close_while(s, r, error);
    }
    if (more && bs_cu_asks_after(s, loop, r->trips))
        status = bs_cu_ask_host(s, *k, &more, error);
    *k = more ? r->begin : *k;
    rounds->count -= !more;
    return status;
}

/* Launches with all trips that there may be, cut at BS_CU_UNROLLED. */
static int32_t bs_cu_unrolled(const bs_device_session *s)
{
    int64_t launches = 0, times[BS_MAX_LOOP_DEPTH + 1] = {1};
    int32_t depth = 0;
    for (int32_t k = 0; k < s->launches.count && launches < BS_CU_UNROLLED; k++) {
        const bs_device_launch *l = &s->launches.list[k];
        launches += times[depth];
        if (l->round > 0) {
            times[depth + 1] = bs_min_i64(times[depth] * bs_cu_loop_of(s, k)->bound, BS_CU_UNROLLED);
            depth++;
        }
        depth -= l->round < 0;
    }
    return (int32_t)bs_min_i64(launches, BS_CU_UNROLLED);
}

#endif
