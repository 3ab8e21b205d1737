/* run/extents.c - the extents of a run: symbols from the bound inputs and from what has run, the dimensions derived
 * from them, rows of domains. Relies on run/session.h. Must never let a run begin, or go on, whose extents or buffers
 * do not fit the plan. */
#include "run/session.h"

#include "ops/structure.h"

/* The name of the input that gave this symbol its extent. */
static const char *symbol_input(const bs_session *s, bs_dim_id symbol)
{
    for (int32_t n = 1;; n++) {
        const bool input = s->plan->node_live[n] && bs_node_is_input(&s->graph->nodes[n]);
        const bs_value_info *v = input ? bs_bound_info(s, n) : NULL;
        for (int32_t i = 0; v && i < v->rank; i++)
            if (v->dims[i] == symbol || s->graph->dims[v->dims[i]].parent == symbol)
                return bs_node_name(&s->graph->nodes[n]);
    }
}

/* Extents that an input's buffer gives; two inputs that share a symbol must agree. A multiple of a symbol gives it as
 * well; check_extents finds whether it is one. */
static bool take_symbols(bs_session *s, int32_t n, bs_error *error)
{
    const bs_value_info *v = bs_bound_info(s, n);
    for (int32_t i = 0; i < v->rank; i++) {
        const bs_dim_info *dim = &s->graph->dims[v->dims[i]];
        const bool symbol = dim->kind == BS_DIM_SYMBOL;
        int64_t *now = &s->dims[symbol ? v->dims[i] : dim->parent];
        const int64_t extent = bs_bound_of(s, n)->buffer.dim[i];
        char text[64];
        if (dim->kind == BS_DIM_CONST)
            continue;
        if (symbol && *now != 0 && *now != extent && s->plan->node_live[n])
            return bs_refuse(error, BS_ERROR_SHAPE,
                             "input \"%s\": dimension %" PRId32 " (%s) is %lld, by \"%s\" it is %lld",
                             bs_node_name(&s->graph->nodes[n]), i, bs_dim_text(s->graph, v->dims[i], text, sizeof text),
                             (long long)extent, symbol_input(s, v->dims[i]), (long long)*now);
        *now = *now ? *now : extent / bs_or_default(dim->mul, 1);
    }
    return true;
}

/* Inputs that this plan reads come first. Inputs that it does not read give the remaining symbols, when they are
 * bound. */
static bool set_symbols(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t d = 0; d < g->n_dims; d++)
        s->dims[d] = g->dims[d].kind == BS_DIM_CONST ? g->dims[d].maximum : 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t k = 0; k < s->n_watched; k++) {
            const int32_t n = s->watched[k];
            if (!bs_node_is_input(&g->nodes[n]) || s->plan->node_live[n] == (pass == 1))
                continue;
            const bool bound = bs_bound_of(s, n)->buffer.data;
            if (!bound && pass == 0)
                return bs_refuse(error, BS_ERROR_UNBOUND, "input \"%s\" is not bound", bs_node_name(&g->nodes[n]));
            if (bound && !take_symbols(s, n, error))
                return false;
        }
    return true;
}

static bool derive_extents(bs_session *s, bs_error *error)
{
    char text[64];
    for (int32_t d = 0; d < s->graph->n_dims; d++) {
        const bs_dim_info *dim = &s->graph->dims[d];
        if (dim->kind == BS_DIM_SYMBOL && s->dims[d] == 0)
            s->dims[d] = dim->maximum; /* no input has it: states keep their maximum; or it comes from data */
        if (dim->kind == BS_DIM_DERIVED)
            s->dims[d] = bs_floor_div(s->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (s->dims[d] < 1)
            return bs_refuse(error, BS_ERROR_SHAPE,
                             "dimension %s is %lld in this run: an input is smaller than the network needs",
                             bs_dim_text(s->graph, d, text, sizeof text), (long long)s->dims[d]);
    }
    return true;
}

static bool check_extents(const bs_session *s, int32_t n, bs_error *error)
{
    char text[64];
    const bs_value_info *v = bs_bound_info(s, n);
    const bs_buffer *b = &bs_bound_of(s, n)->buffer;
    for (int32_t i = 0; i < v->rank; i++)
        if (b->dim[i] != s->dims[v->dims[i]])
            return bs_refuse(error, BS_ERROR_SHAPE,
                             "\"%s\": dimension %" PRId32 " of its buffer (%s) is %lld, this run needs %lld",
                             bs_node_name(&s->graph->nodes[n]), i, bs_dim_text(s->graph, v->dims[i], text, sizeof text),
                             (long long)b->dim[i], (long long)s->dims[v->dims[i]]);
    return true;
}

/* An output is optional when it only copies a state, which has memory of its own. */
static bool output_is_optional(const bs_session *s, int32_t n)
{
    const int32_t value = bs_node_in(s->graph, &s->graph->nodes[n])[0];
    return s->plan->values[value].storage == BS_STORAGE_STATE;
}

static bool check_bound(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t k = 0; k < s->n_watched; k++) {
        const int32_t n = s->watched[k];
        const bool input = bs_node_is_input(&g->nodes[n]) && s->plan->node_live[n];
        const bool output = bs_node_is_output(&g->nodes[n]),
                   state = bs_session_is_state(s->plan, n) && !bs_session_owns_state(s, n);
        if (!input && !output && !state)
            continue;
        const bool bound = bs_bound_of(s, n)->buffer.data;
        if (!bound && output_is_optional(s, n))
            continue;
        if (!bound)
            return bs_refuse(error, BS_ERROR_UNBOUND, "output \"%s\" is not bound", bs_node_name(&g->nodes[n]));
        if (!check_extents(s, n, error))
            return false;
    }
    return true;
}

/* Whether what a node makes is known after instruction `at`, or from the start. */
static bool is_known(const bs_session *s, int32_t maker, int32_t at)
{
    return maker == 0 || s->plan->nodes[maker].instr <= at;
}

/* A tensor that joins the cells of another value must have a row for each cell of this run, too: as soon as both
 * numbers are known, and before anything reads these rows. */
static bool check_rows(const bs_session *s, int32_t at, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t k = 0; k < s->n_watched; k++) {
        const int32_t n = s->watched[k];
        const bs_node *node = &g->nodes[n];
        if (!s->plan->node_live[n] || !bs_node_is_view(node) || node->router != 0)
            continue;
        const bs_value_info *x = &g->values[bs_node_in(g, node)[0]];
        if (!is_known(s, g->dims[x->dims[0]].node, at) || !is_known(s, bs_domain_maker(g, node->domain), at))
            continue;
        const int64_t rows = s->dims[x->dims[0]];
        const int32_t cells = s->root.domains[node->domain].count;
        char text[64], domain[96];
        if (x->rank > g->values[node->first_out].rank && rows < cells)
            return bs_refuse(
                error, BS_ERROR_SHAPE,
                "rows (node %" PRId32 "): dimension 0 (%s) of \"%s\" is %lld, this run has %" PRId32 " cells of %s",
                node->number, bs_dim_text(g, x->dims[0], text, sizeof text), bs_node_name(&g->nodes[x->node]),
                (long long)rows, cells, bs_domain_text(g, node->domain, domain, sizeof domain));
    }
    return true;
}

static bool count_rows(bs_session *s, bs_error *error)
{
    const bs_graph *g = s->graph;
    for (int32_t d = 1; d < g->n_domains; d++) {
        const bs_domain *domain = &g->domains[d];
        bs_rows_state *rows = &s->root.domains[d];
        memset(rows, 0, sizeof *rows);
        if (bs_domain_is_patches(domain)) {
            const int64_t size = s->plan->domains[d].size;
            rows->count = (int32_t)(bs_ceil_div(s->dims[domain->height], size) *
                                    bs_ceil_div(s->dims[domain->width], size));
        } else if (domain->kind == BS_DOMAIN_ROWS) {
            rows->count = (int32_t)s->dims[domain->rows];
        }
    }
    return check_rows(s, -1, error);
}

bool bs_session_check_run(bs_session *s, bs_error *error)
{
    s->any_empty = false;
    const bool fitted = s->fits;
    s->epoch[BS_EPOCH_BOUND] += !fitted;
    s->fits = fitted || (set_symbols(s, error) && derive_extents(s, error) && check_bound(s, error));
    if (s->fits && !fitted)
        bs_forms_bind(s);
    if (!s->fits || s->graph->n_domains == 1) /* the root alone has no rows, nor segments */
        return s->fits;
    return count_rows(s, error) && bs_segments_begin(s, error);
}

static bool bound_extents(bs_session *s, const char *name, int64_t *dims, bs_error *error)
{
    const int32_t n = s && name && dims ? bs_graph_named(s->graph, name, false) : 0;
    if (n == 0 || bs_node_is_input(&s->graph->nodes[n]))
        return bs_refuse(error, BS_ERROR_ARGUMENT, "there is no output or state of that name, or an argument is NULL");
    if (s->pending)
        return bs_refuse(error, BS_ERROR_ARGUMENT, "a run is queued: bs_wait comes first");
    if (!s->fits && !(set_symbols(s, error) && derive_extents(s, error)))
        return false;
    const bs_value_info *v = bs_bound_info(s, n);
    for (int32_t i = 0; i < BS_MAX_RANK; i++)
        dims[i] = i < v->rank ? s->dims[v->dims[i]] : 0;
    return true;
}

bs_status bs_bound_extents(bs_session *session, const char *name, int64_t *dims, bs_error *error)
{
    bs_error here = {.status = BS_OK};
    bs_session_enter(session);
    if (!bound_extents(session, name, dims, &here))
        bs_error_prefix(&here, "bs_bound_extents \"%s\": ", name ? name : "");
    bs_session_leave(session);
    return bs_tell(&here, error);
}

/* ------------------------------------------------------------------------------------------- extents from data */

/* The symbol that a node made, and what is derived of it. */
static bool set_made(bs_session *s, int32_t n, int64_t extent, bs_error *error)
{
    char text[64];
    for (int32_t d = s->graph->nodes[n].makes - 1; d < s->graph->n_dims; d++) {
        const bs_dim_info *dim = &s->graph->dims[d];
        if (dim->node != n)
            continue;
        if (dim->kind == BS_DIM_DERIVED)
            extent = bs_floor_div(s->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (extent < 0 || extent > dim->maximum)
            return bs_refuse(error, BS_ERROR_DATA, "dimension %s would be %lld",
                             bs_dim_text(s->graph, d, text, sizeof text), (long long)extent);
        s->dims[d] = extent;
        s->any_empty = s->any_empty || extent == 0;
    }
    return true;
}

void bs_extents_count(bs_session *s)
{
    s->fits = false;
    bs_forms_bind(s);
    for (int32_t d = 1; d < s->graph->n_domains; d++)
        if (bs_domain_maker(s->graph, d))
            s->root.domains[d].count = (int32_t)s->dims[s->graph->domains[d].rows];
}

bs_status bs_extents_made(bs_session *s, const bs_instr *i, int64_t extent, char *fault)
{
    bs_error error = {.status = BS_OK};
    bool fits = set_made(s, i->node, extent, &error);
    bs_extents_count(s);
    fits = fits && check_rows(s, (int32_t)(i - s->plan->instrs), &error);
    memcpy(fault, error.message, BS_FAULT_BYTES - 1); /* its last byte stays 0 */
    return fits ? BS_OK : BS_ERROR_DATA;
}
