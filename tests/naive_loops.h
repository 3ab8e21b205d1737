/* naive_loops.h - loops as their definition reads: a part of the oracle (naive.h). A body is evaluated anew for each
 * trip, for all rows that make it; every value of a trip is a new one. */
#ifndef BS_TEST_NAIVE_LOOPS_H
#define BS_TEST_NAIVE_LOOPS_H

#include "naive_routes.h"

static inline void naive_node(naive *n, int32_t k);

/* Whether a node that is added now may read the value: it is not of a body that has ended, and no result of
 * a loop that has not. */
static inline bool naive_is_there(const bs_graph *g, int32_t id)
{
    const int32_t body = g->domains[g->values[id].domain].loop, of = g->nodes[g->values[id].node].router;
    return (body == 0 || g->routers[body].loop.again == 0) &&
           (!bs_router_loops(g, of) || g->routers[of].loop.again != 0 || g->values[id].domain != g->routers[of].domain);
}

static inline bool naive_is(const bs_node *node, const char *op) { return naive_named(bs_op_get(node->op)->name, op); }

/* What the body gives: next and collect nodes of loop r, one after the other. */
static inline bool naive_is_result(const naive *n, int32_t k, int32_t r)
{
    const bs_node *node = &n->g->nodes[k];
    return node->router == r && (naive_is(node, "loop_next") || naive_is(node, "loop_collect"));
}

static inline void naive_loop_slice(const naive *n, const bs_node *node, int32_t row, double *y)
{
    const int64_t each = naive_elements(n, node->first_out);
    memcpy(y, n->cell[bs_node_in(n->g, node)[0]][row] + n->trip[node->router] * each, (size_t)each * sizeof *y);
}

/* What others carry, as it was before the trip. */
static inline void naive_loop_rows(naive *n, const bs_node *node, int32_t row, double *y)
{
    const int32_t *in = bs_node_in(n->g, node);
    const int32_t carried = n->g->nodes[n->g->nodes[n->g->values[in[0]].node].writer].first_out;
    const int64_t each = naive_elements(n, in[0]), count = naive_elements(n, in[1]);
    for (int64_t k = 0; k < count; k++) {
        const int32_t named = (int32_t)n->cell[in[1]][row][k];
        if (named < -1 || named >= n->rows[n->g->values[carried].domain])
            n->status = BS_ERROR_DATA;
        else if (named >= 0)
            memcpy(y + k * each, n->cell[carried][named], (size_t)each * sizeof *y);
    }
}

static inline const double **naive_rows_of(naive *n, int32_t value)
{
    return n->cell[value] = naive_take(n, (size_t)n->rows[n->g->values[value].domain] * sizeof(double *));
}

static inline void naive_loop_begin(naive *n, int32_t r)
{
    const bs_router_info *loop = &n->g->routers[r];
    for (int32_t k = loop->node; k < loop->loop.again; k++) {
        const bs_node *node = &n->g->nodes[k];
        if (node->router == r && naive_is(node, "loop_carry"))
            naive_rows_of(n, node->first_out);
        if (!naive_is_result(n, k, r))
            continue;
        const int32_t initial = bs_node_in(n->g, node)[1];
        naive_rows_of(n, node->first_out);
        for (int32_t row = 0; row < n->rows[loop->domain]; row++)
            if (n->present[loop->domain][row])
                n->cell[node->first_out][row] =
                    initial ? n->cell[initial][n->g->values[initial].domain ? row : 0]
                            : naive_take(n, (size_t)naive_elements(n, node->first_out) * sizeof(double));
    }
}

/* Most trips of a row; a count beyond the bound, or what the dimension has, is refused. */
static inline double naive_trips(naive *n, const bs_router_info *loop, int32_t row)
{
    const double most = loop->loop.trips >= 0 ? (double)n->dims[loop->loop.trips] : loop->loop.bound;
    if (!loop->loop.count)
        return most;
    const double count = n->cell[loop->loop.count][row][0];
    if (count > fmin(most, loop->loop.bound))
        n->status = BS_ERROR_DATA;
    return count;
}

static inline void naive_loop_run(naive *n, int32_t r);

static inline void naive_trip(naive *n, int32_t r, int32_t trip, const bool *active)
{
    const bs_graph *g = n->g;
    const bs_router_info *loop = &g->routers[r];
    const int32_t rows = n->rows[loop->domain];
    for (int32_t d = 1; d < g->n_domains; d++)
        if (bs_domain_in_loop(g, d, r))
            memset(n->present[d], 0, (size_t)n->rows[d]);
    memcpy(n->present[loop->path_domains], active, (size_t)rows);
    n->trip[r] = trip;
    for (int32_t row = 0; row < rows; row++)
        n->counts[r][0] += active[row];
    for (int32_t k = loop->node + 1; k < loop->loop.again; k++) {
        const bs_node *node = &g->nodes[k];
        if (node->router == r && naive_is(node, "loop_carry"))
            for (int32_t row = 0; row < rows; row++)
                n->cell[node->first_out][row] = n->cell[g->nodes[node->writer].first_out][row];
    }
    for (int32_t k = loop->node + 1; k < loop->loop.again && n->status == BS_OK; k++) {
        const bs_node *node = &g->nodes[k];
        const bool ends = naive_is(node, "loop_again");
        if (ends && g->domains[g->routers[node->router].domain].loop == r)
            naive_loop_run(n, node->router);
        else if (!ends && g->domains[node->domain].loop == r)
            naive_node(n, k);
    }
}

static inline void naive_loop_store(naive *n, int32_t r, int32_t trip, const bool *active)
{
    const bs_router_info *loop = &n->g->routers[r];
    for (int32_t k = loop->node + 1; k < loop->loop.again; k++) {
        const bs_node *node = &n->g->nodes[k];
        const int32_t value = naive_is_result(n, k, r) ? bs_node_in(n->g, node)[0] : 0, out = node->first_out;
        const int64_t each = value ? naive_elements(n, value) : 0;
        for (int32_t row = 0; value && row < n->rows[loop->domain]; row++)
            if (active[row] && naive_is(node, "loop_next"))
                n->cell[out][row] = n->cell[value][row];
            else if (active[row])
                memcpy((double *)(uintptr_t)n->cell[out][row] + trip * each, n->cell[value][row],
                       (size_t)each * sizeof(double));
    }
}

/* Whose turn trip `trip` is. Returns whether there is one, or a later one. */
static inline bool naive_take_turn(naive *n, int32_t r, int32_t trip, bool *active)
{
    const bs_router_info *loop = &n->g->routers[r];
    bool any = false;
    for (int32_t row = 0; row < n->rows[loop->domain]; row++) {
        const double turn = n->present[loop->domain][row] ? naive_trips(n, loop, row) : 0;
        active[row] = turn == trip + 1;
        any = any || turn > trip;
    }
    return any;
}

/* The rows that those of trip `trip` make become those of the next; `due`: how many rows there are. Returns whether any
 * is made. */
static inline bool naive_grow(naive *n, int32_t r, int32_t trip, bool *active, int32_t *due)
{
    const bs_router_info *loop = &n->g->routers[r];
    const int32_t rows = n->rows[loop->domain], asked = bs_node_in(n->g, &n->g->nodes[loop->loop.again])[0],
                  first = *due;
    for (int32_t row = 0; row < rows; row++)
        for (int32_t i = 0; active[row] && i < (int32_t)n->cell[asked][row][0]; i++) {
            if (trip + 1 == loop->loop.bound || *due == rows) {
                n->status = BS_ERROR_DATA;
                return false;
            }
            n->made_by[r][(*due)++] = row;
        }
    for (int32_t row = 0; row < rows; row++)
        active[row] = row >= first && row < *due;
    return *due > first;
}

static inline double naive_parent(const naive *n, const bs_node *node, int32_t row)
{
    const int32_t *made_by = n->made_by[node->router];
    int32_t before = 0;
    while (made_by[row] >= 0 && before < row && made_by[row - before - 1] == made_by[row])
        before++;
    return ((const bs_gather_params *)node->params)->mode == BS_PARENT_ROW ? made_by[row] : before;
}

/* All trips of loop r, when everything that its body reads from outside is known. */
static inline void naive_loop_run(naive *n, int32_t r)
{
    const bs_router_info *loop = &n->g->routers[r];
    const int32_t rows = n->rows[loop->domain], predicate = bs_node_in(n->g, &n->g->nodes[loop->loop.again])[0];
    bool *active = naive_take(n, (size_t)rows), any = false;
    int32_t due = 0;
    naive_choice *old = n->choice[r];
    n->choice[r] = naive_take(n, (size_t)rows * sizeof(naive_choice));
    naive_loop_begin(n, r);
    n->made_by[r] = naive_take(n, (size_t)rows * sizeof(int32_t));
    memset(n->made_by[r], 0xFF, (size_t)rows * sizeof(int32_t));
    for (int32_t row = 0; row < rows; row++) {
        active[row] = n->present[loop->domain][row] && naive_trips(n, loop, row) > 0;
        any = any || active[row];
        due = active[row] ? row + 1 : due;
        if (active[row])
            naive_choose(&n->choice[r][row], 0, 1);
        else if (old && !n->present[loop->domain][row])
            n->choice[r][row] = old[row];
    }
    for (int32_t trip = 0; any && n->status == BS_OK; trip++) {
        if (loop->loop.in_turn && !naive_take_turn(n, r, trip, active))
            return;
        naive_trip(n, r, trip, active);
        if (n->status != BS_OK)
            return;
        naive_loop_store(n, r, trip, active);
        if (loop->loop.in_turn)
            continue;
        any = loop->loop.grows && naive_grow(n, r, trip, active, &due);
        if (loop->loop.grows)
            continue;
        for (int32_t row = 0; row < rows; row++) {
            const bool wants = active[row] && (!predicate || n->cell[predicate][row][0] > 0);
            if (active[row] && predicate)
                naive_decides(n, n->cell[predicate][row][0], 0);
            if (wants && predicate && !loop->loop.count && loop->loop.trips < 0 && trip + 1 == loop->loop.bound)
                n->status = BS_ERROR_DATA;
            active[row] = wants && trip + 1 < naive_trips(n, loop, row);
            any = any || active[row];
        }
    }
}

#endif
