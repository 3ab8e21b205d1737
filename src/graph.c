/* graph.c - building a graph: storage, sticky errors, names, dimensions, domains, nodes.
 * Relies on graph.h and the op table. Must never plan or touch data. */
#include "graph.h"
#include "op.h"

/* ------------------------------------------------------------------------------------------------ storage */

typedef struct bs_graph_layout {
    int32_t nodes, values, text, operands, domains;
    uint64_t at_nodes, at_values, at_operands, at_domains, at_text, bytes;
} bs_graph_layout;

static bool graph_layout(const bs_graph_desc *desc, bs_graph_layout *l)
{
    const bs_graph_desc none = {0, 0, 0};
    if (!desc)
        desc = &none;
    l->nodes = bs_or_default(desc->max_nodes, 512);
    l->values = bs_or_default(desc->max_values, 768);
    l->text = bs_or_default(desc->max_text_bytes, 32768);
    if (l->nodes < 1 || l->values < 1 || l->text < 64 || l->nodes > 1 << 20 || l->values > 1 << 20 || l->text > 1 << 28)
        return false;
    l->operands = l->nodes * 4;
    l->domains = bs_min_i32(l->nodes + 1, BS_MAX_DOMAINS);
    l->at_nodes = bs_align_u64(sizeof(bs_graph));
    l->at_values = l->at_nodes + bs_align_u64((uint64_t)(l->nodes + 1) * sizeof(bs_node));
    l->at_operands = l->at_values + bs_align_u64((uint64_t)(l->values + 1) * sizeof(bs_value_info));
    l->at_domains = l->at_operands + bs_align_u64((uint64_t)l->operands * sizeof(int32_t));
    l->at_text = l->at_domains + bs_align_u64((uint64_t)l->domains * sizeof(bs_domain));
    l->bytes = l->at_text + bs_align_u64((uint64_t)l->text);
    return true;
}

size_t bs_graph_bytes(const bs_graph_desc *desc)
{
    bs_graph_layout l;
    return graph_layout(desc, &l) ? (size_t)l.bytes + BS_ALIGNMENT : 0;
}

bs_graph *bs_graph_create(bs_arena *arena, const bs_graph_desc *desc)
{
    bs_graph_layout l;
    if (!arena || !graph_layout(desc, &l))
        return NULL;
    uint8_t *memory = bs_arena_take(arena, (size_t)l.bytes);
    if (!memory)
        return NULL;
    memset(memory, 0, (size_t)l.bytes);
    bs_graph *g = (bs_graph *)(void *)memory;
    g->mark = BS_MARK_GRAPH;
    g->nodes = (bs_node *)(void *)(memory + l.at_nodes);
    g->values = (bs_value_info *)(void *)(memory + l.at_values);
    g->operands = (int32_t *)(void *)(memory + l.at_operands);
    g->domains = (bs_domain *)(void *)(memory + l.at_domains);
    g->text = (char *)(memory + l.at_text);
    g->max_nodes = l.nodes;
    g->max_values = l.values;
    g->max_text = l.text;
    g->max_operands = l.operands;
    g->max_domains = l.domains;
    g->n_nodes = g->n_values = g->n_text = g->n_routers = g->n_blocks = g->n_domains = 1; /* entry 0: none, root, main */
    g->domains[0].max_rows = 1;
    g->domains[0].patches = -1;
    g->blocks[0].parent = -1;
    return g;
}

/* ------------------------------------------------------------------------------------------------- errors */

bool bs_graph_fail_as(bs_graph *graph, bs_status status, const char *format, va_list arguments)
{
    bs_error *error = &graph->error;
    int used = 0;
    if (graph->status != BS_OK)
        return false;
    memset(error, 0, sizeof *error);
    graph->status = error->status = status;
    if (graph->adding) {
        const char *name = graph->adding_name, *quote = *name ? "\"" : "";
        used = snprintf(error->message, sizeof error->message, "%s%s%s%.63s%s: ", graph->adding, *name ? " " : "", quote, name, quote);
    }
    vsnprintf(error->message + used, sizeof error->message - (size_t)used, format, arguments);
    return false;
}

bool bs_graph_fail(bs_graph *graph, bs_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bs_graph_fail_as(graph, status, format, arguments);
    va_end(arguments);
    return false;
}

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
        return bs_fail(error, BS_ERROR_ARGUMENT, "the graph is NULL (did bs_graph_create fit its arena?)");
    if (graph->status == BS_OK && graph->current_block != 0)
        return bs_fail(error, BS_ERROR_GRAPH, "block \"%.63s\" is begun and never ended (bs_block_end)",
                       graph->text + graph->blocks[graph->current_block].name);
    return bs_graph_failure(graph, error);
}

/* --------------------------------------------------------------------------------------------------- text */

static void *graph_take(bs_graph *g, size_t bytes, size_t alignment)
{
    const size_t at = ((size_t)g->n_text + alignment - 1) / alignment * alignment;
    if (at + bytes > (size_t)g->max_text) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "the graph's text is full: %d bytes (bs_graph_desc.max_text_bytes)", g->max_text);
        return NULL;
    }
    g->n_text = (int32_t)(at + bytes);
    return g->text + at;
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

/* --------------------------------------------------------------------------------------------- dimensions */

static bs_dim_id dim_intern(bs_graph *g, const bs_dim_info *dim)
{
    for (int32_t i = 0; i < g->n_dims && dim->kind != BS_DIM_SYMBOL; i++) {
        const bs_dim_info *d = &g->dims[i];
        if (d->kind == dim->kind && d->parent == dim->parent && d->mul == dim->mul && d->add == dim->add &&
            d->div == dim->div && d->maximum == dim->maximum)
            return i;
    }
    if (g->n_dims == BS_MAX_DIMS) {
        bs_graph_fail(g, BS_ERROR_LIMIT, "more than %d different dimensions", BS_MAX_DIMS);
        return -1;
    }
    g->dims[g->n_dims] = *dim;
    return g->n_dims++;
}

/* Extents and their products must stay far from 2^63; one dimension of 2^30 is beyond any board. */
#define BS_DIM_LIMIT ((int64_t)1 << 30)

static bool dim_in_range(int64_t n) { return n >= 1 && n <= BS_DIM_LIMIT; }

bs_dim_id bs_dim_const(bs_graph *graph, int64_t n)
{
    const bs_dim_info dim = {BS_DIM_CONST, -1, 0, 0, 0, n, 0};
    if (dim_in_range(n))
        return dim_intern(graph, &dim);
    bs_graph_fail(graph, BS_ERROR_SHAPE, "a dimension would be %lld, expected 1 .. 2^30", (long long)n);
    return -1;
}

static bs_dim_id dim_fail(bs_graph *g, bs_dim_id parent, int64_t mul, int64_t add, int64_t div)
{
    char text[96];
    bs_graph_fail(g, BS_ERROR_SHAPE,
                  "a dimension would be (%s * %lld %+lld) / %lld, expected numbers of 2^30 at most, and 1 at least as the result",
                  bs_dim_text(g, parent, text, sizeof text), (long long)mul, (long long)add, (long long)div);
    return -1;
}

static int64_t dim_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* Expressions are brought to one form, so that what is always equal has one id: (d*2)*3 is d*6, (d+2)-2 is d, and
 * floor((d*2 + 4) / 2) is d+2. */
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div)
{
    const bs_dim_info *p;
    for (;; parent = p->parent) { /* the parent of such a one is none, so twice at most */
        if (!dim_in_range(mul) || add > BS_DIM_LIMIT || add < -BS_DIM_LIMIT)
            return dim_fail(graph, parent, mul, add, div);
        p = &graph->dims[parent];
        if (p->kind != BS_DIM_DERIVED || p->div != 1)
            break;
        add += p->add * mul;
        mul *= p->mul;
    }
    const int64_t common = dim_divisor(dim_divisor(mul, add), div);
    mul /= common;
    add /= common;
    div /= common;
    if (mul == 1 && add == 0 && div == 1)
        return parent;
    const int64_t maximum = bs_floor_div(p->maximum * mul + add, div);
    if (!dim_in_range(maximum))
        return dim_fail(graph, parent, mul, add, div);
    if (p->kind == BS_DIM_CONST)
        return bs_dim_const(graph, maximum);
    const bs_dim_info dim = {BS_DIM_DERIVED, parent, mul, add, div, maximum, 0};
    return dim_intern(graph, &dim);
}

/* Public handles: constants as they are, BS_UPTO in bit 40, dimensions of the table in bit 41. */
#define BS_DIM_UPTO ((bs_dim)1 << 40)
#define BS_DIM_TABLE ((bs_dim)1 << 41)

bs_dim bs_symbol(bs_graph *graph, const char *name, int64_t maximum)
{
    if (!graph || graph->status != BS_OK)
        return 0;
    if (!dim_in_range(maximum)) {
        bs_graph_fail(graph, BS_ERROR_SHAPE, "symbol \"%.63s\": its maximum is %lld, expected 1 .. 2^30", name ? name : "",
                      (long long)maximum);
        return 0;
    }
    const char *text = bs_graph_text(graph, name);
    const bs_dim_info dim = {BS_DIM_SYMBOL, -1, 0, 0, 0, maximum, (int32_t)(text - graph->text)};
    const bs_dim_id id = dim_intern(graph, &dim);
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

bool bs_dim_is_known(const bs_graph *graph, bs_dim dim)
{
    return dim >= BS_DIM_TABLE ? dim - BS_DIM_TABLE < graph->n_dims : dim_in_range(dim >= BS_DIM_UPTO ? dim - BS_DIM_UPTO : dim);
}

bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim)
{
    if (dim >= BS_DIM_TABLE)
        return (bs_dim_id)(dim - BS_DIM_TABLE);
    if (dim >= BS_DIM_UPTO) {
        const bs_dim symbol = bs_symbol(graph, "", dim - BS_DIM_UPTO);
        return symbol ? (bs_dim_id)(symbol - BS_DIM_TABLE) : -1;
    }
    return bs_dim_const(graph, dim);
}

bs_dim bs_times(bs_graph *graph, bs_dim symbol, int32_t factor)
{
    if (!graph || graph->status != BS_OK)
        return 0;
    graph->adding = "bs_times";
    graph->adding_name = "";
    if (factor < 1)
        bs_graph_fail(graph, BS_ERROR_SHAPE, "the factor is %d, expected 1 .. 2^30", factor);
    if (!bs_dim_is_known(graph, symbol))
        bs_graph_fail(graph, BS_ERROR_SHAPE, "%lld is no dimension, expected 1 .. 2^30, BS_UPTO of that, or a symbol", (long long)symbol);
    const bs_dim_id parent = graph->status == BS_OK ? bs_dim_resolve(graph, symbol) : -1;
    const bs_dim_id id = parent < 0 ? -1 : bs_dim_derive(graph, parent, factor, 0, 1);
    graph->adding = NULL;
    return id < 0 ? 0 : BS_DIM_TABLE + id;
}

bs_shape bs_shape_of(int32_t rank, bs_dim d0, bs_dim d1, bs_dim d2, bs_dim d3)
{
    bs_shape shape = {rank, {d0, d1, d2, d3}};
    return shape;
}

/* ------------------------------------------------------------------------------------------------ domains */

int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain)
{
    for (int32_t i = 1; i < graph->n_domains; i++) {
        const bs_domain *d = &graph->domains[i];
        if (d->kind == domain->kind && d->parent == domain->parent && d->router == domain->router &&
            d->path == domain->path && d->rows == domain->rows && d->height == domain->height &&
            d->width == domain->width && d->size == domain->size && d->lengths == domain->lengths)
            return i;
    }
    if (graph->n_domains == graph->max_domains) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "more than %d domains", graph->max_domains);
        return -1;
    }
    bs_domain *d = &graph->domains[graph->n_domains];
    *d = *domain;
    d->patches = d->kind == BS_DOMAIN_PATCHES ? graph->n_domains : graph->domains[d->parent].patches;
    return graph->n_domains++;
}

/* -------------------------------------------------------------------------------------------------- nodes */

static bool operands_known(bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in)
{
    if (n_in < op->min_in || n_in > op->max_in)
        return bs_graph_fail(g, BS_ERROR_GRAPH, "%d operands, expected %d .. %d", n_in, op->min_in, op->max_in);
    if (g->n_operands + n_in > g->max_operands || g->n_nodes > g->max_nodes)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %d nodes, %d operands (bs_graph_desc.max_nodes)", g->max_nodes,
                             g->max_operands);
    for (int32_t i = 0; i < n_in; i++) {
        const bool none = in[i] == 0 && op->flags & BS_OP_VARIADIC && op->flags & BS_OP_STRUCTURAL;
        if (!none && (in[i] < 1 || in[i] >= g->n_values))
            return bs_graph_fail(g, BS_ERROR_GRAPH, "operand %d is value %d, which does not exist", i, in[i]);
    }
    return true;
}

/* Ops combine rows of one domain; a captured operand may be a root value. */
static bool operands_agree(bs_graph *g, const bs_infer *infer)
{
    if (infer->op->flags & (BS_OP_STRUCTURAL | BS_OP_ACROSS))
        return true;
    for (int32_t i = 1; i < infer->n_in; i++) {
        const int32_t d = infer->in[i]->domain, first = infer->in[0]->domain;
        char a[112], b[112];
        if (d != first && !(d == 0 && infer->op->flags & BS_OP_CAPTURE))
            return bs_graph_fail(g, BS_ERROR_DOMAIN, "operand %d is of %s, operand 0 of %s: scatter or gather it first", i,
                                 bs_domain_text(g, d, a, sizeof a), bs_domain_text(g, first, b, sizeof b));
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

static void infer_begin(bs_infer *infer, bs_graph *g, const bs_op *op, const int32_t *in, int32_t n_in, const void *params)
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

static bool outputs_sound(bs_graph *g, const bs_infer *infer)
{
    if (g->n_values + infer->n_out > g->max_values + 1)
        return bs_graph_fail(g, BS_ERROR_LIMIT, "the graph is full: %d values (bs_graph_desc.max_values)", g->max_values);
    for (int32_t i = 0; i < infer->n_out; i++) {
        const bs_value_info *out = &infer->out[i];
        uint64_t elements = 1;
        char shape[128];
        for (int32_t d = 0; d < out->rank; d++)
            elements = bs_mul_u64(elements, (uint64_t)bs_dim_max(g, out->dims[d]));
        if (elements > (uint64_t)1 << 40)
            return bs_graph_fail(g, BS_ERROR_SHAPE, "the result %s has more than 2^40 elements",
                                 bs_value_text(g, out, shape, sizeof shape));
    }
    return true;
}

bs_node *bs_graph_add(bs_graph *graph, int32_t op_index, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_op *op = bs_op_get(op_index);
    BS_DEBUG_CHECK(!graph || graph->mark == BS_MARK_GRAPH);
    if (!graph || graph->status != BS_OK)
        return NULL;
    if (!op) {
        bs_graph_fail(graph, BS_ERROR_GRAPH, "op %d does not exist", op_index);
        return NULL;
    }
    const char *name = params ? *(const char *const *)params : NULL;
    graph->adding = op->name;
    graph->adding_name = name ? name : "";
    if (!operands_known(graph, op, in, n_in))
        return NULL;
    const void *copy = copy_params(graph, op, params);
    bs_infer infer;
    infer_begin(&infer, graph, op, in, n_in, copy);
    if (graph->status != BS_OK || !operands_agree(graph, &infer))
        return NULL;
    if (!op->infer(&infer) || graph->status != BS_OK || !outputs_sound(graph, &infer))
        return NULL;
    graph->adding = NULL;

    bs_node *node = &graph->nodes[graph->n_nodes];
    memset(node, 0, sizeof *node);
    node->op = op_index;
    node->n_in = n_in;
    node->n_out = infer.n_out;
    node->in = graph->n_operands;
    node->first_out = graph->n_values;
    node->block = graph->current_block;
    node->params = copy;
    node->router = infer.router;
    node->path = infer.path;
    node->domain = infer.n_out > 0 ? infer.out[0].domain : graph->values[in[0]].domain;
    for (int32_t i = 0; i < n_in; i++)
        graph->operands[graph->n_operands++] = in[i];
    for (int32_t i = 0; i < infer.n_out; i++) {
        bs_value_info *value = &graph->values[graph->n_values++];
        *value = infer.out[i];
        value->node = graph->n_nodes;
        value->output_index = i;
    }
    graph->n_nodes++;
    return node;
}

bs_value bs_graph_value(bs_graph *graph, int32_t op, const int32_t *in, int32_t n_in, const void *params)
{
    const bs_node *node = bs_graph_add(graph, op, in, n_in, params);
    const bs_value value = {node ? node->first_out : 0};
    return value;
}

/* ------------------------------------------------------------------------------------------------- blocks */

void bs_block_begin(bs_graph *graph, const char *name)
{
    if (!graph || graph->status != BS_OK)
        return;
    if (graph->n_blocks == BS_MAX_BLOCKS) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "block \"%.63s\": more than %d blocks", name ? name : "", BS_MAX_BLOCKS - 1);
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
