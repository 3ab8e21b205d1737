/* plan/dataflow.c - which rows need what.
 *
 * Sinking: a node runs on the rows of the innermost path around all that read it, if it is computed row by row; chains
 * sink link by link, the last first. It can only sink below decisions that it does not serve, since what decides reads
 * where it stands. Merging: a node that computes what an earlier one does is left out (bs_node.same).
 * Tails: a chain of nodes becomes part of the node whose result it changes (plan/tails.c).
 * Domains nest, so what is common to two readers is found by going up. Relies on plan/dataflow.h and graph/copy.h. Must
 * never move what may refuse data, or what rows of other cells influence. */
#include "plan/dataflow.h"

#include "graph/copy.h"
#include "ops/structure.h"
#include "plan/tails.h"

#define MOST_LEVELS 64 /* that are looked at, so that this takes linear time whatever a file nests */
#define LEFT_OUT -1    /* in place of a domain */
#define NOTHING -1     /* reads it */

typedef struct dataflow_pass {
    const bs_graph *graph;
    int32_t what;
    bs_graph_copy copy;
    int32_t *place;     /* [nodes] the domain on whose rows it runs, or LEFT_OUT */
    int32_t *needed;    /* [values] the innermost domain around all that read it, or NOTHING */
    int32_t *source;    /* [values] the value that stands for it */
    int32_t *seen_in;   /* [values] the last path for which a view of it was added, */
    int32_t *seen_as;   /* and that view, in the copy */
    int32_t *depth;     /* [domains] */
    int32_t *scatter;   /* [domains] a node that scatters to it */
    int32_t *first, *last; /* [routers] nodes that wait until it has decided, */
    int32_t *next;         /* [nodes] in their order */
    bs_tails tails;
    int32_t n_changes; /* nodes that are moved, merged, or part of others */
} dataflow_pass;

/* -------------------------------------------------------------------------------------------------- asking */

/* Weights that stream are loaded with what is built beside them. */
static bool may_sink(const bs_graph *g, const bs_node *node, int32_t what)
{
    return what & BS_DATAFLOW_MOVES && bs_node_work(node) == BS_WORK_CALL && node->n_out > 0 && node->domain != 0 &&
           bs_op_is_pure(bs_node_op(node)) && !node->makes && !g->makes &&
           !(what & BS_DATAFLOW_STAYS && node->block != 0 && bs_op_weights_of(bs_node_op(node)));
}

static bool is_scatter(const bs_graph *g, const bs_node *node)
{
    return node->path >= 0 && !bs_router_loops(g, node->router);
}

/* A value that is built in one domain and read on one path of it alone. */
static bool begins_to_sink(const bs_graph *g, int32_t value, int32_t what)
{
    return g->values[value].only > 0 && may_sink(g, &g->nodes[g->values[value].node], what);
}

static bool has_work(const bs_graph *g, int32_t what)
{
    const bool moves = (what & BS_DATAFLOW_MOVES) != 0;
    bool any = (moves && g->n_same > 0) || (what & BS_DATAFLOW_FUSES && bs_tails_most(g) > 0);
    for (int32_t v = 1; v < g->n_values && !any && moves; v++)
        any = begins_to_sink(g, v, what);
    return any;
}

/* ------------------------------------------------------------------------------------------------- finding */

/* The innermost domain around two; the root, where it is too far up. */
static int32_t around(const dataflow_pass *f, int32_t a, int32_t b)
{
    if (a == NOTHING || b == NOTHING)
        return a == NOTHING ? b : a;
    for (int32_t i = 0; i < MOST_LEVELS && a != b; i++) {
        int32_t *inner = f->depth[a] < f->depth[b] ? &b : &a;
        *inner = f->graph->domains[*inner].parent;
    }
    return a == b ? a : 0;
}

static bool lies_within(const dataflow_pass *f, int32_t domain, int32_t outer)
{
    return around(f, domain, outer) == outer;
}

static void needs_in(dataflow_pass *f, const bs_node *node, int32_t domain)
{
    const bs_graph *g = f->graph;
    const int32_t *in = bs_node_in(g, node);
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t of = g->values[in[i]].domain;
        f->needed[in[i]] = around(f, f->needed[in[i]], domain >= 0 ? domain : of);
    }
}

static int32_t needed_by_all(const dataflow_pass *f, const bs_node *node)
{
    int32_t domain = NOTHING;
    for (int32_t i = 0; i < node->n_out; i++)
        domain = around(f, domain, f->needed[node->first_out + i]);
    return domain;
}

/* What reads a node is known when all nodes after it were looked at. */
static void find_places(dataflow_pass *f)
{
    const bs_graph *g = f->graph;
    for (int32_t n = g->n_nodes - 1; n >= 1; n--) {
        const bs_node *node = &g->nodes[n];
        const int32_t domain = needed_by_all(f, node);
        f->place[n] = node->domain;
        if (node->same && f->what & BS_DATAFLOW_MOVES) {
            for (int32_t i = 0; i < node->n_out; i++) {
                int32_t *of = &f->needed[g->nodes[node->same].first_out + i];
                *of = around(f, *of, f->needed[node->first_out + i]);
            }
            f->place[n] = LEFT_OUT;
        } else if (is_scatter(g, node)) {
            if (domain != NOTHING)
                needs_in(f, node, domain);
        } else if (may_sink(g, node, f->what) && domain != NOTHING && lies_within(f, domain, node->domain)) {
            f->place[n] = domain;
            needs_in(f, node, domain);
        } else {
            needs_in(f, node, -1);
        }
        f->n_changes += f->place[n] != node->domain;
    }
}

/* A scatter to where its value already is, or to a path around that, is left out. */
static void find_sources(dataflow_pass *f)
{
    const bs_graph *g = f->graph;
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const bool same = f->place[n] == LEFT_OUT;
        for (int32_t i = 0; i < node->n_out; i++)
            f->source[node->first_out + i] = same ? f->source[g->nodes[node->same].first_out + i]
                                                  : node->first_out + i;
        if (same || !is_scatter(g, node))
            continue;
        const int32_t in = bs_node_in(g, node)[0], source = f->source[in];
        f->scatter[node->domain] = n;
        if (f->place[g->values[source].node] != g->values[in].domain) {
            f->source[node->first_out] = source;
            f->place[n] = LEFT_OUT;
        }
    }
}

/* ------------------------------------------------------------------------------------------------- writing */

/* Value `v` of the graph as rows of `domain` see it, which is where it is or a path of that. Returns its number in the
 * copy. */
static int32_t seen(dataflow_pass *f, int32_t v, int32_t domain, int32_t block)
{
    const bs_graph *g = f->graph;
    int32_t path[MOST_LEVELS], n = 0;
    const int32_t source = f->source[v], at = f->place[g->values[source].node];
    int32_t value = f->copy.value_at[source];
    if (at == 0 || at == domain)
        return value;
    if (f->seen_in[source] == domain)
        return f->seen_as[source];
    for (int32_t d = domain; d != at && n < MOST_LEVELS; d = g->domains[d].parent)
        path[n++] = d;
    while (n > 0)
        value = bs_graph_copy_add_view(&f->copy, &g->nodes[f->scatter[path[--n]]], block, value, source);
    f->seen_in[source] = domain;
    f->seen_as[source] = value;
    return value;
}

/* Adds a node where it is to run. */
static void write_whole(dataflow_pass *f, int32_t n)
{
    const bs_graph *g = f->graph;
    const bs_node *node = &g->nodes[n];
    const bool moved = f->place[n] != node->domain;
    int32_t in[BS_MAX_OPERANDS];
    for (int32_t i = 0; moved && i < node->n_in; i++)
        in[i] = seen(f, bs_node_in(g, node)[i], f->place[n], node->block);
    bs_graph_copy_add(&f->copy, n, f->place[n], moved ? in : NULL);
}

/* Adds a node, or the chain that ends with it. What the chain reads through views is looked up first: views are nodes,
 * too. */
static void write_node(dataflow_pass *f, int32_t n)
{
    const bs_graph *g = f->graph;
    int32_t chain[BS_MAX_TAIL], head = n;
    bs_graph_step steps[BS_MAX_TAIL];
    const int32_t count = f->tails.before ? bs_tails_chain(&f->tails, n, chain, &head) : 0;
    if (f->tails.after && f->tails.after[n])
        return;
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = bs_tails_operand(&f->tails, chain[i]);
        const bs_node *step = &g->nodes[chain[i]];
        steps[i] = (bs_graph_step){.n = chain[i], .at = at,
                                   .keeps = f->tails.reads[f->source[bs_node_in(g, step)[at]]] > 1};
        for (int32_t k = 0; k < step->n_in; k++)
            if (bs_tails_has_made(&f->tails, chain[i], k))
                steps[i].made |= 1u << k;
            else
                steps[i].others[steps[i].n_others++] = seen(f, bs_node_in(g, step)[k], f->place[n], step->block);
    }
    write_whole(f, head);
    bs_graph_copy_add_tail(&f->copy, steps, count);
}

/* Nodes in their order, but one that sinks comes when the router of its path has decided, if it is not behind that. */
static void write_nodes(dataflow_pass *f, bool filling)
{
    const bs_graph *g = f->graph;
    bs_graph_copy_begin(&f->copy, filling);
    memset(f->seen_in, 0, (size_t)g->n_values * sizeof *f->seen_in);
    memset(f->first, 0, (size_t)g->n_routers * sizeof *f->first);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const bs_node *node = &g->nodes[n];
        const int32_t place = f->place[n], router = place > 0 && place != node->domain ? g->domains[place].router : 0;
        if (router && n < g->routers[router].node) {
            *(f->first[router] ? &f->next[f->last[router]] : &f->first[router]) = n;
            f->last[router] = n;
            f->next[n] = 0;
        } else if (place != LEFT_OUT) {
            write_node(f, n);
        }
        const bool decides = node->router && g->routers[node->router].node == n;
        for (int32_t k = decides ? f->first[node->router] : 0; k != 0; k = f->next[k])
            write_node(f, k);
    }
    bs_graph_copy_end(&f->copy);
}

/* Tells the nodes that stay for how many others they do. */
static void count_merged(const dataflow_pass *f)
{
    const bs_graph *g = f->graph;
    for (int32_t n = 1; n < g->n_nodes; n++)
        if (f->place[n] == LEFT_OUT && g->nodes[n].same && bs_node_work(&g->nodes[n]) == BS_WORK_CALL)
            f->copy.to->nodes[f->copy.node_at[n]].merged++;
}

/* -------------------------------------------------------------------------------------------------- making */

static bs_bytes carve_pass(bs_carver *c, dataflow_pass *f, const bs_graph *g)
{
    enum { NODES, VALUES, DOMAINS, ROUTERS };
    static const bs_carved arrays[] = {
        BS_CARVED(dataflow_pass, place, NODES),         BS_CARVED(dataflow_pass, needed, VALUES),
        BS_CARVED(dataflow_pass, source, VALUES),       BS_CARVED(dataflow_pass, seen_in, VALUES),
        BS_CARVED(dataflow_pass, seen_as, VALUES),      BS_CARVED(dataflow_pass, depth, DOMAINS),
        BS_CARVED(dataflow_pass, scatter, DOMAINS),     BS_CARVED(dataflow_pass, first, ROUTERS),
        BS_CARVED(dataflow_pass, last, ROUTERS),        BS_CARVED(dataflow_pass, next, NODES),
        BS_CARVED(dataflow_pass, copy.node_at, NODES), BS_CARVED(dataflow_pass, copy.value_at, VALUES),
        BS_CARVED(dataflow_pass, tails.before, NODES), BS_CARVED(dataflow_pass, tails.after, NODES),
        BS_CARVED(dataflow_pass, tails.reads, VALUES),
    };
    const int64_t counts[] = {g->n_nodes, g->n_values, g->n_domains, g->n_routers};
    BS_CARVE_ARRAYS(c, f, arrays, counts);
    return c->used;
}

static void find(dataflow_pass *f)
{
    const bs_graph *g = f->graph;
    memset(f->place, 0, (size_t)g->n_nodes * sizeof *f->place);
    memset(f->source, 0, (size_t)g->n_values * sizeof *f->source);
    memset(f->depth, 0, (size_t)g->n_domains * sizeof *f->depth);
    for (int32_t v = 0; v < g->n_values; v++)
        f->needed[v] = NOTHING;
    for (int32_t d = 1; d < g->n_domains; d++)
        f->depth[d] = f->depth[g->domains[d].parent] + 1;
    find_places(f);
    find_sources(f);
    const bs_tails tails = {g, f->place, f->source, (f->what & BS_DATAFLOW_CHAINS) != 0, f->tails.reads,
                            f->tails.before, f->tails.after};
    f->tails = tails;
    if (f->what & BS_DATAFLOW_FUSES)
        f->n_changes += bs_tails_find(&f->tails);
    else
        f->tails.before = f->tails.after = NULL;
}

static int32_t deepest_domain(const bs_graph *g)
{
    int32_t most = 0;
    for (int32_t d = 1; d < g->n_domains; d++)
        most = bs_max_i32(most, g->domains[d].depth);
    return most;
}

bs_dataflow_room bs_dataflow_takes(const bs_graph *graph, int32_t what, bool apart)
{
    dataflow_pass counted;
    bs_carver c = {NULL, {0}};
    bs_dataflow_room room = {{0}, {0}, 0, 0};
    if (graph->n_tails > 0 || (!apart && !has_work(graph, what)))
        return room;
    const int32_t deepest = deepest_domain(graph);
    for (int32_t n = 1; n < graph->n_nodes; n++) {
        const bs_node *node = &graph->nodes[n];
        if (may_sink(graph, node, what)) /* each operand may need a view on each level */
            room.nodes += (int64_t)node->n_in * (deepest - graph->domains[node->domain].depth);
        if (what & BS_DATAFLOW_FUSES) /* a step has its operands twice */
            room.operands += node->n_in;
    }
    room.operands += room.nodes;
    const bs_graph_room copy = {graph->n_nodes + room.nodes, graph->n_values + room.nodes,
                                graph->n_operands + room.operands,
                                what & BS_DATAFLOW_FUSES ? bs_tails_most(graph) : 0, apart};
    room.graph = bs_graph_copy_bytes(graph, &copy);
    room.work = carve_pass(&c, &counted, graph);
    return room;
}

const bs_graph *bs_dataflow_make(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, int32_t what,
                                 bs_error *error)
{
    dataflow_pass f = {.graph = graph, .what = what, .copy.texts = scratch != NULL};
    bs_arena *const lender = scratch ? scratch : arena;
    bs_carver count = {NULL, {0}};
    bs_graph made = *graph;
    if (graph->n_tails > 0 || (!scratch && !has_work(graph, what))) /* tails: it was made here */
        return graph;
    bs_carver work = {bs_lend(lender, carve_pass(&count, &f, graph)), {0}};
    if (!work.base) {
        bs_fail_arena(error, lender, count.used, "the graph as it is planned");
        return NULL;
    }
    carve_pass(&work, &f, graph);
    f.copy.from = graph;
    f.copy.to = &made;
    f.copy.source = f.source;
    find(&f);
    if (f.n_changes == 0 && !scratch)
        return graph;
    write_nodes(&f, false);
    const bs_graph_room room = bs_graph_copy_room(&f.copy);
    const bs_bytes bytes = bs_graph_copy_bytes(graph, &room);
    bs_carver copy = {scratch ? bs_take(arena, bytes) : bs_take_before(arena, bytes, work.base), {0}};
    if (!copy.base) {
        bs_fail_arena(error, arena, scratch ? bytes : bs_bytes_add(bytes, count.used), "the graph as it is planned");
        return NULL;
    }
    bs_graph *to = bs_carve(&copy, 1, sizeof *to);
    bs_graph_copy_carve(&copy, &f.copy);
    write_nodes(&f, true);
    count_merged(&f);
    *to = made;
    return to;
}
