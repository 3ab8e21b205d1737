/* graph/graph.c - building a graph: storage, sticky errors, names, domains, nodes, blocks.
 * Relies on graph/graph.h and graph/op.h. Must never plan or touch data. */
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tree.h"

/* ------------------------------------------------------------------------------------------------ storage */

/* Replaces zeros by what is enough for most graphs with that many nodes, and at least for any small graph. */
static bs_graph_desc graph_room(const bs_graph_desc *desc)
{
    bs_graph_desc n = {0};
    if (desc)
        n = *desc;
    n.max_nodes = bs_or_default(n.max_nodes, 512);
    n.max_values = bs_or_default(n.max_values, 768);
    n.max_text_bytes = bs_or_default(n.max_text_bytes, 32768);
    const int32_t nodes = bs_clamp_i32(n.max_nodes, 1, BS_MAX_ENTRIES);
    n.max_operands = bs_or_default(n.max_operands, nodes * 4);
    n.max_dims = bs_or_default(n.max_dims, bs_min_i32(8 * nodes, bs_max_i32(512, nodes / 4)));
    n.max_domains = bs_or_default(n.max_domains, bs_min_i32(nodes, bs_max_i32(511, (nodes - 1024) / 2)));
    n.max_blocks = bs_or_default(n.max_blocks, bs_max_i32(127, (nodes - 1024) / 2));
    n.max_routers = bs_or_default(n.max_routers, bs_max_i32(63, nodes / 32));
    return n;
}

static bool room_is_sound(const bs_graph_desc *n)
{
    const int32_t counts[] = {n->max_nodes, n->max_values, n->max_dims, n->max_domains, n->max_blocks, n->max_routers};
    bool sound = n->max_text_bytes >= 64 && n->max_text_bytes <= BS_MAX_TEXT && n->max_operands >= 1 &&
                 n->max_operands <= 4 * BS_MAX_ENTRIES;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        sound = sound && counts[i] >= 1 && counts[i] <= BS_MAX_ENTRIES;
    return sound;
}

/* One walk counts and hands out. */
static void carve_graph(bs_carver *c, bs_graph *g, const bs_graph_desc *n)
{
    BS_CARVE(c, g->nodes, (uint64_t)n->max_nodes + 1);
    BS_CARVE(c, g->values, (uint64_t)n->max_values + 1);
    BS_CARVE(c, g->operands, n->max_operands);
    BS_CARVE(c, g->domains, (uint64_t)n->max_domains + 1);
    BS_CARVE(c, g->dims, n->max_dims);
    BS_CARVE(c, g->blocks, (uint64_t)n->max_blocks + 1);
    BS_CARVE(c, g->routers, (uint64_t)n->max_routers + 1);
    BS_CARVE(c, g->text, n->max_text_bytes);
}

/* Bytes of a graph with this much room; 0 when the description is not sound. */
static bs_bytes graph_bytes(const bs_graph_desc *n)
{
    bs_graph counted;
    bs_carver c = {NULL, {0}};
    if (!room_is_sound(n))
        return c.used;
    bs_carve(&c, 1, sizeof(bs_graph));
    carve_graph(&c, &counted, n);
    return c.used;
}

size_t bs_graph_bytes(const bs_graph_desc *desc)
{
    const bs_graph_desc n = graph_room(desc);
    const bs_bytes bytes = graph_bytes(&n);
    size_t size = 0;
    return bs_bytes_any(bytes) && bs_bytes_fit(bs_bytes_add(bytes, bs_bytes_of(BS_ALIGNMENT)), SIZE_MAX, &size) ? size
                                                                                                              : 0;
}

bs_graph *bs_graph_create(bs_arena *arena, const bs_graph_desc *desc)
{
    const bs_graph_desc n = graph_room(desc);
    const bs_bytes bytes = graph_bytes(&n);
    bs_carver c = {arena && bs_bytes_any(bytes) ? bs_take_zeros(arena, bytes) : NULL, {0}};
    if (!c.base)
        return NULL;
    bs_graph *g = bs_carve(&c, 1, sizeof(bs_graph));
    carve_graph(&c, g, &n);
    g->mark = BS_MARK_GRAPH;
    g->max_nodes = n.max_nodes;
    g->max_values = n.max_values;
    g->max_text = n.max_text_bytes;
    g->max_operands = n.max_operands;
    g->max_domains = n.max_domains;
    g->max_dims = n.max_dims;
    g->max_blocks = n.max_blocks;
    g->max_routers = n.max_routers;
    /* entry 0: none, root, main */
    g->n_nodes = g->n_values = g->n_text = g->n_routers = g->n_blocks = g->n_domains = 1;
    g->domains[0].max_rows = 1;
    g->domains[0].patches = -1;
    g->blocks[0].parent = -1;
    return g;
}

/* ------------------------------------------------------------------------------------------------- errors */

bs_status (bs_graph_set_failure)(bs_graph *graph, bs_status status, const char *format, ...)
{
    bs_error *error = &graph->error;
    va_list arguments;
    int used = 0;
    if (graph->status != BS_OK)
        return graph->status;
    memset(error, 0, sizeof *error);
    graph->status = error->status = status;
    if (graph->adding) {
        const char *name = graph->adding_name, *quote = *name ? "\"" : "";
        used = snprintf(error->message, sizeof error->message, "%s%s%s%.63s%s: ", graph->adding, *name ? " " : "",
                        quote, name, quote);
    }
    va_start(arguments, format);
    vsnprintf(error->message + used, sizeof error->message - (size_t)used, format, arguments);
    va_end(arguments);
    return status;
}

#if defined(BS_NO_MESSAGES)
bs_status bs_graph_set_failure_bare(bs_graph *graph, bs_status status)
{
    return (bs_graph_set_failure)(graph, status, "%s", bs_status_text(status));
}
#endif

bs_status bs_graph_failure(const bs_graph *graph, bs_error *error)
{
    if (graph->status != BS_OK && error)
        *error = graph->error;
    return graph->status;
}

bs_status bs_graph_check(const bs_graph *graph, bs_error *error)
{
    BS_DEBUG_CHECK(!graph || graph->mark == BS_MARK_GRAPH);
    if (!graph)
        return bs_fail(error, BS_ERROR_ARGUMENT,
                       "the graph is NULL (did bs_graph_create fit its arena, and its bs_graph_desc the limits?)");
    if (graph->status == BS_OK && graph->current_block != 0)
        return bs_fail(error, BS_ERROR_GRAPH, "block \"%.63s\" is begun and never ended (bs_block_end)",
                       graph->text + graph->blocks[graph->current_block].name);
    if (graph->status == BS_OK && graph->open_loop != 0)
        return bs_fail(error, BS_ERROR_GRAPH, "loop \"%.63s\" is begun and never ended (bs_loop_end)",
                       graph->routers[graph->open_loop].desc->name);
    return bs_graph_failure(graph, error);
}

/* --------------------------------------------------------------------------------------------------- text */

static void *graph_take(bs_graph *g, size_t bytes, size_t alignment)
{
    const bs_bytes at = bs_bytes_align_to(bs_bytes_array(g->n_text, 1), alignment);
    size_t end = 0;
    if (!bs_bytes_fit(bs_bytes_add(at, bs_bytes_of(bytes)), (uint64_t)g->max_text, &end)) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "the graph's text is full: %" PRId32 " bytes (bs_graph_desc.max_text_bytes)",
                      g->max_text);
        return NULL;
    }
    g->n_text = (int32_t)end;
    return bs_bytes_at((uint8_t *)g->text, at);
}

const char *bs_graph_text(bs_graph *graph, const char *text)
{
    if (!text || !*text)
        return graph->text;
    const size_t length = strlen(text);
    if (length >= BS_MAX_NAME) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "the name \"%.32s...\" is longer than %d bytes", text, BS_MAX_NAME - 1);
        return graph->text;
    }
    char *copy = graph_take(graph, length + 1, 1);
    if (!copy)
        return graph->text;
    memcpy(copy, text, length + 1);
    return copy;
}

const void *bs_graph_keep(bs_graph *graph, const void *bytes, size_t count)
{
    void *copy = graph_take(graph, count, sizeof(void *));
    return copy ? memcpy(copy, bytes, count) : NULL;
}

/* -------------------------------------------------------------------------------------------------- names */

/* Routers have a name space of their own. */
BS_WRAPS static uint64_t named_hash(const char *name, bool router)
{
    uint64_t hash = router;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 1099511628211u;
    return bs_tree_mix(hash, 0);
}

static bool is_router(const bs_node *node) { return node->router != 0; }

/* The link in the tree where the node of this name is, or where a new one is added. */
static int32_t *named_link(bs_graph *g, const char *name, bool router)
{
    uint64_t hash = named_hash(name, router);
    int32_t *link = &g->first_name;
    while (*link && (is_router(&g->nodes[*link]) != router || strcmp(bs_node_name(&g->nodes[*link]), name) != 0))
        link = bs_tree_step(g->nodes[*link].child, &hash);
    return link;
}

int32_t bs_graph_named(const bs_graph *graph, const char *name, bool router)
{
    return *named_link((bs_graph *)(uintptr_t)graph, name, router);
}

/* -------------------------------------------------------------------------------------------------- nodes */

static bool operands_known(bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in)
{
    if (n_in < op->min_in || n_in > bs_op_max_in(op))
        return bs_graph_fail(g, BS_ERROR_GRAPH, "%" PRId32 " operands, expected %d .. %" PRId32, n_in, op->min_in,
                             bs_op_max_in(op));
    if (g->n_operands + n_in > g->max_operands || g->n_nodes > g->max_nodes)
        return bs_graph_fail(g, BS_ERROR_LIMIT,
                             "the graph is full: %" PRId32 " nodes, %" PRId32
                             " operands (bs_graph_desc.max_nodes, max_operands)",
                             g->max_nodes, g->max_operands);
    for (int32_t i = 0; i < n_in; i++) {
        const bool none = in[i] == 0 && op->variadic && bs_op_is_structural(op);
        if (!none && (in[i] < 1 || in[i] >= g->n_values))
            return bs_graph_fail(g, BS_ERROR_GRAPH, "operand %" PRId32 " is value %" PRId32 ", which does not exist", i,
                                 in[i]);
        if (!none && g->values[in[i]].rank > BS_MAX_RANK && !op->layout.axes)
            return bs_graph_fail(g, BS_ERROR_SHAPE, "operand %" PRId32 " has rank %d, expected %d at most", i,
                                 g->values[in[i]].rank, BS_MAX_RANK);
    }
    return true;
}

/* Ops combine rows of one domain; a captured operand may be a root value. */
static bool operands_agree(bs_graph *g, bs_infer *infer)
{
    if (!bs_op_is_by_row(infer->op))
        return true;
    int32_t of = 0; /* the operand whose domain others must have */
    for (int32_t i = 1; i < infer->n_in; i++) {
        if (infer->in[of]->domain == 0 && infer->op->rows.captures_first)
            of = i;
        const int32_t d = infer->in[i]->domain, first = infer->in[of]->domain;
        if (d != first && !(d == 0 && infer->op->rows.captures))
            return bs_graph_fail(g, BS_ERROR_DOMAIN,
                                 "operand %" PRId32 " is of %s, operand %" PRId32 " of %s: scatter or gather it first",
                                 i, bs_say_domain(infer, d), of, bs_say_domain(infer, first));
    }
    return true;
}

/* Before the node that is being added, which may be the end itself. */
static bool has_ended(const bs_graph *g, int32_t loop)
{
    return loop && g->routers[loop].loop.again && g->routers[loop].loop.again < g->n_nodes;
}

/* Rows of a body are there while its loop is being built, and what a loop gives once it has ended. */
static bool loops_agree(bs_graph *g, const bs_infer *infer)
{
    for (int32_t i = 0; i < infer->n_in; i++) {
        const bs_value_info *v = &g->values[infer->ids[i]];
        const int32_t body = g->domains[v->domain].loop, of = g->nodes[v->node].router;
        if (has_ended(g, body))
            return bs_graph_fail(g, BS_ERROR_DOMAIN,
                                 "operand %" PRId32 " is of the body of loop \"%s\", which has ended", i,
                                 g->routers[body].desc->name);
        if (bs_router_loops(g, of) && !has_ended(g, of) && v->domain == g->routers[of].domain)
            return bs_graph_fail(g, BS_ERROR_DOMAIN,
                                 "operand %" PRId32 " is a result of loop \"%s\", which has not ended", i,
                                 g->routers[of].desc->name);
    }
    const int32_t body = infer->n_out > 0 ? g->domains[infer->out[0].domain].loop : 0;
    return !has_ended(g, body) ||
           bs_graph_fail(g, BS_ERROR_DOMAIN, "loop \"%s\" has ended", g->routers[body].desc->name);
}

bool (bs_infer_field)(bs_infer *infer, const char *field, int64_t n, int64_t low, int64_t high)
{
    if (n >= low && n <= high)
        return true;
    if (low == high)
        return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s is %lld, expected %lld", field, (long long)n,
                             (long long)low);
    return bs_graph_fail(infer->graph, BS_ERROR_ARGUMENT, "%s is %lld, expected %lld .. %lld", field, (long long)n,
                         (long long)low, (long long)high);
}

static bool fields_sound(bs_infer *infer)
{
    for (int32_t i = 0; i < infer->op->n_fields; i++) {
        const bs_field *field = &infer->op->fields[i];
        int32_t n;
        memcpy(&n, (const uint8_t *)infer->params + sizeof(const char *) + 4 * (size_t)i, sizeof n);
        if (field->low != field->high && !bs_infer_field(infer, field->name, n, field->low, field->high))
            return false;
    }
    return true;
}

static const void *copy_params(bs_graph *g, const bs_op *op, const void *params)
{
    if (op->params_bytes == 0)
        return NULL;
    char *copy = graph_take(g, op->params_bytes, sizeof(void *));
    if (!copy)
        return NULL;
    memset(copy, 0, op->params_bytes);
    if (params) {
        memcpy(copy, params, op->params_bytes);
        const char *name = bs_graph_text(g, *(const char *const *)params);
        memcpy(copy, &name, sizeof name);
    } else {
        const char *none = g->text;
        memcpy(copy, &none, sizeof none);
    }
    return copy;
}

static void infer_begin(bs_infer *infer, bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in,
                        const void *params)
{
    memset(infer, 0, sizeof *infer);
    infer->graph = g;
    infer->op = op;
    infer->params = params;
    infer->name = params ? *(const char *const *)params : "";
    infer->n_in = n_in;
    infer->ids = in;
    infer->n_out = 1;
    infer->path = -1;
    for (int32_t i = 0; i < n_in && i < BS_MAX_OPERANDS; i++)
        infer->in[i] = &g->values[in[i]];
    for (int32_t i = 0; i < BS_MAX_OUTPUTS; i++) {
        if (n_in > 0)
            infer->out[i] = g->values[in[0]];
        else
            infer->out[i].scale_num = infer->out[i].scale_den = 1;
    }
}

bs_bytes bs_value_elements(const bs_graph *g, const bs_value_info *value)
{
    bs_bytes elements = bs_bytes_of(1);
    for (int32_t i = 0; i < value->rank; i++)
        elements = bs_bytes_times(elements, bs_dim_max(g, value->dims[i]));
    return elements;
}

static bool outputs_sound(bs_graph *g, const bs_infer *infer)
{
    if (g->n_values + infer->n_out > g->max_values + 1)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %" PRId32 " values (bs_graph_desc.max_values)",
                             g->max_values);
    for (int32_t i = 0; i < infer->n_out; i++) {
        const bs_value_info *out = &infer->out[i];
        char shape[128];
        if (bs_bytes_less(bs_bytes_of((uint64_t)1 << 40), bs_value_elements(g, out)))
            return bs_graph_fail(g, BS_ERROR_SHAPE, "the result %s has more than 2^40 elements",
                                 bs_value_text(g, out, shape, sizeof shape));
    }
    return loops_agree(g, infer);
}

int32_t bs_graph_value_numbered(const bs_graph *graph, int32_t number)
{
    int32_t low = number, high = graph->n_values; /* values have their number or lower ones */
    while (low > 0 && low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (graph->values[middle].number >= number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Those before the one that only tells the domain. (Operands beyond the roles are read.) */
static int32_t operands_read(const bs_op *op, int32_t n_in)
{
    int32_t n = 0;
    while (n < n_in && (n >= BS_MAX_OPERANDS || op->roles[n] != BS_ROLE_LIKE))
        n++;
    return n;
}

static void take_outputs(bs_graph *g, const bs_infer *infer)
{
    for (int32_t i = 0; i < infer->n_out; i++) {
        bs_value_info *value = &g->values[g->n_values++];
        *value = infer->out[i];
        value->node = g->n_nodes;
        value->number = value[-1].number + 1;
        value->only = 0;
        value->reshaped = infer->reshapes;
    }
}

/* path: what reads them scatters them to it; -1: it does something else. */
static void take_operands(bs_graph *g, const int32_t *in, int32_t n_in, int32_t path)
{
    for (int32_t i = 0; i < n_in; i++) {
        bs_value_info *read = &g->values[in[i]];
        read->only = read->only == 0 || read->only == path ? path : -1;
        g->operands[g->n_operands++] = in[i];
    }
}

/* Whether the op is in the table. */
static bool has_number(bs_graph *graph, int32_t number)
{
#ifdef BS_ONLY_OPS
    return number >= 0 || bs_graph_fail(graph, BS_ERROR_UNSUPPORTED, /* unreachable: where all ops are built in */
                                        "this build is without it (BS_ONLY_OPS)");
#else
    return number >= 0 || bs_graph_fail(graph, BS_ERROR_UNSUPPORTED, /* unreachable: tools/ops.py finds it first */
                                        "it stands in no list of ops/list.h");
#endif
}

bs_node *bs_graph_add(bs_graph *graph, const bs_op *op, int32_t number, const int32_t *in, int32_t n_in,
                      const void *params)
{
    BS_DEBUG_CHECK(!graph || graph->mark == BS_MARK_GRAPH);
    if (!graph || graph->status != BS_OK)
        return NULL;
    const char *name = params ? *(const char *const *)params : NULL;
    graph->adding = op->name;
    graph->adding_name = name ? name : "";
    if (!has_number(graph, number) || !operands_known(graph, op, in, n_in))
        return NULL;
    const void *copy = copy_params(graph, op, params);
    bs_infer infer;
    infer_begin(&infer, graph, op, in, n_in, copy);
    if (graph->status != BS_OK || !operands_agree(graph, &infer))
        return NULL;
    if (!fields_sound(&infer) || !op->infer(&infer) || graph->status != BS_OK || !outputs_sound(graph, &infer))
        return NULL;
    graph->adding = NULL;

    bs_node *node = &graph->nodes[graph->n_nodes];
    *node = (bs_node){.op = number, .n_in = n_in, .n_out = infer.n_out, .in = graph->n_operands};
    node->n_read = operands_read(op, n_in);
    node->first_out = graph->n_values;
    node->block = graph->current_block;
    node->params = copy;
    node->router = infer.router;
    node->path = infer.path;
    node->makes = infer.makes;
    graph->makes |= infer.makes;
    node->domain = infer.n_out > 0 ? infer.out[0].domain : infer.domain ? infer.domain : graph->values[in[0]].domain;
    node->built_in = node->domain;
    node->number = graph->n_nodes;
    const bool scatters = infer.path >= 0 && !bs_router_loops(graph, infer.router);
    take_operands(graph, in, n_in, scatters ? node->domain : -1);
    take_outputs(graph, &infer);
    const bool calls = op->work == BS_WORK_CALL && node->n_out > 0 && !node->makes;
    if (scatters || (calls && op->rows.of != BS_ROWS_AROUND))
        bs_graph_find_same(graph, op, graph->n_nodes);
    if (op->named)
        *named_link(graph, bs_node_name(node), is_router(node)) = graph->n_nodes;
    graph->n_cell_nodes += node->domain != 0;
    graph->n_nodes++;
    return node;
}

/* ------------------------------------------------------------------------------------------------- blocks */

void bs_block_begin(bs_graph *graph, const char *name)
{
    if (!graph || graph->status != BS_OK)
        return;
    if (graph->n_blocks > graph->max_blocks) {
        bs_graph_fail(graph, BS_ERROR_LIMIT,
                      "block \"%.63s\": the graph is full: %" PRId32 " blocks (bs_graph_desc.max_blocks)",
                      name ? name : "", graph->max_blocks);
        return;
    }
    bs_block *block = &graph->blocks[graph->n_blocks];
    block->name = (int32_t)(bs_graph_text(graph, name) - graph->text);
    block->parent = graph->current_block;
    block->first_node = block->end_node = graph->n_nodes;
    graph->current_block = graph->n_blocks++;
}

void bs_block_end(bs_graph *graph)
{
    if (!graph || graph->status != BS_OK)
        return;
    if (graph->current_block == 0) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "bs_block_end without bs_block_begin");
        return;
    }
    bs_block *block = &graph->blocks[graph->current_block];
    block->end_node = graph->n_nodes;
    graph->current_block = block->parent;
}
