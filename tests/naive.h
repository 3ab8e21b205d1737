/* naive.h - the oracle: evaluates a graph node by node as its definition reads, in double precision.
 * A cell of a frame is evaluated as if the whole frame had taken its decisions; its core is cut out at the end. No
 * plan, no tiles, no packed rows. With small integers everywhere (tests/random_graph.h) its numbers are those of f32,
 * exactly. Knows the ops that random graphs use, and no others. */
#ifndef BS_TEST_NAIVE_H
#define BS_TEST_NAIVE_H

#include "naive_segments.h"
#include "naive_loops.h"

/* -------------------------------------------------------------------------------------------------- structure */

static inline void naive_gather(naive *n, const bs_node *node, int32_t row, double *y)
{
    const bs_gather_params *p = node->params;
    const int32_t *in = bs_node_in(n->g, node), paths = n->g->routers[node->router].desc->paths;
    const naive_choice *c = &n->choice[node->router][row];
    const bool sums = p->mode == BS_GATHER_ADD || p->mode == BS_GATHER_WEIGHTED;
    const double *residual = in[paths] ? n->cell[in[paths]][row] : NULL;
    const int64_t count = naive_elements(n, node->first_out);
    int32_t best = -1;
    for (int32_t path = 0; path < paths; path++)
        for (int32_t k = 0; k < c->n; k++) {
            if (c->path[k] != path)
                continue;
            if (best < 0 || c->gate[k] > c->gate[best])
                best = k;
            for (int64_t i = 0; sums && in[path] != 0 && i < count; i++)
                y[i] += (p->mode == BS_GATHER_WEIGHTED ? (double)c->gate[k] : 1.0) * n->cell[in[path]][row][i];
        }
    if (best >= 0 && in[c->path[best]] == 0)
        best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (sums)
            y[i] += residual ? residual[i] : 0;
        else
            y[i] = best >= 0 ? n->cell[in[c->path[best]]][row][i] : residual ? residual[i] : 0;
    }
}

static inline void naive_assemble(naive *n, int32_t from, double *y)
{
    const int64_t c = naive_dim(n, from, 0), h = naive_dim(n, from, 1), w = naive_dim(n, from, 2);
    for (int32_t r = 0; r < n->rows[n->g->values[from].domain]; r++) {
        const naive_box core = naive_core(n, from, r);
        for (int64_t i = 0; i < c * core.h * core.w; i++) {
            const int64_t at = (i / core.w / core.h * h + core.y + i / core.w % core.h) * w + core.x + i % core.w;
            y[at] = n->cell[from][r][at];
        }
    }
}

static inline const double *naive_source_data(naive *n, const bs_node *node)
{
    for (int32_t s = 0; s < n->n_sources; s++)
        if (naive_named(n->sources[s].name, bs_node_name(node)))
            return n->sources[s].data;
    return naive_take(n, (size_t)naive_elements(n, node->first_out) * sizeof(double)); /* a state that was never set */
}

/* The tensor of one cell, where it is another value's; NULL where the node computes. */
static inline const double *naive_view(naive *n, const bs_node *node, int32_t row)
{
    const int32_t in = node->n_in ? bs_node_in(n->g, node)[0] : 0;
    if (bs_node_is(node, &bs_op_input) || bs_node_is(node, &bs_op_state))
        return naive_source_data(n, node);
    if (bs_node_is(node, &bs_op_patches))
        return n->cell[in][0];
    if (bs_node_is(node, &bs_op_rows) || bs_node_is(node, &bs_op_segments))
        return n->cell[in][0] + row * naive_elements(n, node->first_out);
    return bs_node_is(node, &bs_op_scatter) ? n->cell[in][row] : NULL;
}

/* Cells whose operands are the same tensors have the same result: no need to work it out again. */
static inline bool naive_same_operands(const naive *n, const bs_node *node, int32_t a, int32_t b)
{
    if (bs_op_get(node->op)->rows.of == BS_ROWS_SEGMENT)
        return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t in = bs_node_in(n->g, node)[i];
        if (n->g->values[in].domain != 0 && n->cell[in][a] != n->cell[in][b])
            return false;
    }
    return true;
}

/* Whether an op is to compute: not without elements to make, and only some ops make any of none. */
static inline bool naive_has_elements(naive *n, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    bool makes = false, takes = true;
    for (int32_t i = 0; i < node->n_out; i++)
        makes = makes || naive_elements(n, node->first_out + i) > 0;
    for (int32_t i = 0; i < node->n_in; i++)
        takes = takes && naive_elements(n, bs_node_in(n->g, node)[i]) > 0;
    const int32_t kind = strcmp(op->name, "reduce") == 0 ? ((const bs_reduce_desc *)node->params)->kind : 0;
    const bool refuses = !op->layout.empty || (kind >= BS_REDUCE_MEAN && kind <= BS_REDUCE_MIN);
    if (makes && !takes && refuses)
        n->status = BS_ERROR_DATA;
    return makes && n->status == BS_OK;
}

static inline void naive_cell(naive *n, const bs_node *node, int32_t row, int32_t before)
{
    double *out[BS_MAX_OUTPUTS] = {NULL};
    const double *in[BS_MAX_OPERANDS];
    const bool global = naive_is(node, "pool2d") && ((const bs_pool2d_desc *)node->params)->global;
    const double *view = naive_view(n, node, row);
    const bool kernel = !bs_op_is_structural(bs_op_get(node->op));
    for (int32_t i = 0; i < node->n_out; i++) {
        if (kernel && !global && before >= 0 && naive_same_operands(n, node, row, before))
            n->cell[node->first_out + i][row] = n->cell[node->first_out + i][before];
        else if (view)
            n->cell[node->first_out + i][row] = view;
        else
            n->cell[node->first_out + i][row] = out[i] =
                naive_take(n, (size_t)naive_elements(n, node->first_out + i) * sizeof(double));
    }
    for (int32_t i = 0; kernel && i < node->n_in; i++) {
        const int32_t id = bs_node_in(n->g, node)[i];
        in[i] = n->cell[id][n->g->values[id].domain == 0 ? 0 : row];
    }
    if (!out[0])
        return;
    n->made = 0;
    if (kernel && !naive_has_elements(n, node))
        return;
    if (kernel)
        naive_op(n, node, row, in, out);
    else if (bs_node_is(node, &bs_op_gather))
        naive_gather(n, node, row, out[0]);
    else if (naive_is(node, "loop_slice"))
        naive_loop_slice(n, node, row, out[0]);
    else if (naive_is(node, "loop_rows"))
        naive_loop_rows(n, node, row, out[0]);
    else if (bs_node_is(node, &bs_op_assemble))
        naive_assemble(n, bs_node_in(n->g, node)[0], out[0]);
    else if (bs_node_is(node, &bs_op_route_price))
        out[0][0] = n->price[node->router];
    else if (naive_is(node, "loop_parent"))
        out[0][0] = naive_parent(n, node, row);
    else if (naive_is(node, "loop_trip"))
        out[0][0] = n->trip[node->router] + (((const bs_gather_params *)node->params)->mode == 1);
    else if (bs_node_is(node, &bs_op_route_score)) {
        const bs_router_info *router = &n->g->routers[node->router];
        const naive_choice *c = &n->choice[node->router][row];
        const bool budget = router->desc->protocol == BS_ROUTE_BUDGET && naive_forced(n, node->router) < 0;
        const int64_t width = naive_elements(n, router->score), at = width == 1 || c->n == 0 ? 0 : c->path[0];
        out[0][0] = c->n == 0 ? 0 : budget ? (double)c->gate[0] : at < width ? n->cell[router->score][row][at] : 0;
    } else if (bs_node_is(node, &bs_op_collect)) {
        const int32_t from = bs_node_in(n->g, node)[0];
        const int64_t each = naive_elements(n, from);
        for (int32_t r = 0; r < n->rows[n->g->values[from].domain]; r++)
            memcpy(out[0] + r * each, n->cell[from][r], (size_t)each * sizeof(double));
    }
}

static inline void naive_node(naive *n, int32_t k)
{
    const bs_node *node = &n->g->nodes[k];
    int32_t before = -1;
    if (bs_node_is(node, &bs_op_route))
        naive_route(n, node->router);
    if (bs_node_is(node, &bs_op_loop_carry) || naive_is_result(n, k, node->router))
        return;
    for (int32_t i = 0; i < node->n_out; i++)
        n->cell[node->first_out + i] = naive_take(n, (size_t)n->rows[node->domain] * sizeof(double *));
    for (int32_t r = 0; node->n_out > 0 && r < n->rows[node->domain]; r++) {
        if (!n->present[node->domain][r])
            continue;
        naive_cell(n, node, r, before);
        before = r;
    }
    if (node->makes && n->status == BS_OK)
        naive_made(n, k, n->made);
}

/* Every value of the graph. BS_ERROR_DATA when a router meets what it must refuse. */
static inline bs_status naive_run(naive *n)
{
    n->used = 0;
    n->status = BS_OK;
    n->closest = INFINITY;
    n->tied = false;
    memset(naive_found, 0, sizeof naive_found);
    naive_last = 0;
    memset(n->dropped, 0, sizeof n->dropped);
    memset(n->counts, 0, sizeof n->counts);
    naive_set_dims(n);
    naive_set_rows(n);
    memset(n->choice, 0, sizeof n->choice);
    for (int32_t k = 1; k < n->g->n_nodes && n->status == BS_OK; k++) {
        const bs_node *node = &n->g->nodes[k];
        if (naive_is(node, "loop_again") && n->g->domains[n->g->routers[node->router].domain].loop == 0)
            naive_loop_run(n, node->router);
        else if (!naive_is(node, "loop_again") && n->g->domains[node->domain].loop == 0)
            naive_node(n, k);
    }
    return n->status;
}

#endif
