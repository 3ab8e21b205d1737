/* extents_rig.h - for tests of extents from data: rows through a router, and a session that runs or says why not. */
#ifndef BS_TEST_EXTENTS_RIG_H
#define BS_TEST_EXTENTS_RIG_H

#include "session_rig.h"

static const bs_value none = {0};
static rig r;

static inline bs_value linear(bs_graph *g, bs_value x, const char *name, int32_t out)
{
    static char names[16][32];
    static int32_t next;
    const int64_t dim[2] = {out, bs_dim_max(g, g->values[x.id].dims[0])};
    for (int32_t i = 0; i < 2; i++, next = (next + 1) % 16) {
        snprintf(names[next], sizeof names[0], "%s.%s", name, i ? "bias" : "weight");
        net_add_whole(&weights, names[next], 2 - i, dim);
    }
    return bs_linear(g, x, &(bs_linear_desc){.name = name, .out = out, .act = BS_CLIP, .act_param = 8});
}

/* Rows of a table, by a router through one of two layers. */
static inline bs_value routed(bs_graph *g, bs_value table)
{
    static const char *const names[2] = {"first", "second"};
    const bs_value cells = bs_rows(g, table, none);
    const bs_router route = bs_route(g, linear(g, cells, "score", 2), none, &(bs_route_desc){.name = "r", .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, names[p]);
        out[p] = linear(g, bs_scatter(g, route, p, cells), names[p], 4);
        bs_block_end(g);
    }
    return bs_collect(g, bs_gather(g, route, out, none, NULL));
}

static inline double *data_of(const char *name)
{
    for (int32_t s = 0; s < a.n_inputs; s++)
        if (strcmp(a.sources[s].name, name) == 0)
            return ag_data[s];
    return NULL;
}

static inline void start(const bs_graph *g)
{
    const bs_plan_desc d = {.threads = 1};
    if (!rig_plan(&r, g, &d) || !rig_session(&r, &weights.table, NULL, 0xFF))
        check(false, "it is planned: %s %s", g->error.message, r.error.message);
}

static inline void bind(const char *name, void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1)
{
    const bs_buffer b = dense(data, dtype, rank, d0, d1, 0);
    if (bs_bind(r.session, name, &b, &r.error) != BS_OK)
        check(false, "%s", r.error.message);
}

/* Ends with this status and these words (NULL: any). */
static inline void ends(bs_status status, const char *words)
{
    bs_error error = {.status = BS_OK};
    const bs_status got = bs_run(r.session, &error);
    check(got == status && (!words || strcmp(error.message, words) == 0), "%s: %s, %s", words ? words : "it runs",
          bs_status_name(got), error.message);
}

#endif
