/* describe.c - a node of a graph in one line, for people and for `inspect`.
 * Relies on graph.h and op.h. Must never print, nor be parsed by anything. */
#include "op.h"

/* Text that is cut where the buffer ends, while its true length goes on being counted. */
typedef struct describe_text {
    char *text;
    size_t bytes, used;
} describe_text;

static void describe_put(describe_text *t, const char *format, ...) BS_PRINTF(2, 3);
static void describe_put(describe_text *t, const char *format, ...)
{
    const size_t room = t->used < t->bytes ? t->bytes - t->used : 0;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(room ? t->text + t->used : NULL, room, format, arguments);
    va_end(arguments);
    t->used += n > 0 ? (size_t)n : 0;
}

/* "cells of 64x64", "rows", "cells of 64x64 / route.2"; nothing for the root. From the inside out, as domains are
 * chained: each one's parent has a lower index. */
static void describe_domain(const bs_graph *g, int32_t domain, describe_text *t)
{
    const bs_domain *d = &g->domains[domain];
    for (; d->kind == BS_DOMAIN_PATH; d = &g->domains[d->parent])
        describe_put(t, " %s:%d", g->routers[d->router].desc->name, d->path);
    if (d->kind == BS_DOMAIN_PATCHES)
        describe_put(t, " cells %d", d->size);
    else if (d->kind == BS_DOMAIN_ROWS)
        describe_put(t, " rows<=%lld", (long long)d->max_rows);
}

static void describe_inputs(const bs_graph *g, const bs_node *node, describe_text *t)
{
    const size_t start = t->used;
    for (int32_t i = 0; i < node->n_in; i++)
        describe_put(t, "%s%d", i ? "," : "", bs_node_in(g, node)[i]);
    while (t->used < start + 10)
        describe_put(t, " ");
}

static void describe_outputs(const bs_graph *g, const bs_node *node, describe_text *t)
{
    char shape[128];
    for (int32_t i = 0; i < node->n_out; i++) {
        const bs_value_info *value = bs_value_get(g, node->first_out + i);
        describe_put(t, "%s%d %s %s", i ? ", " : "-> ", node->first_out + i, bs_dtype_name(value->dtype),
                     bs_value_text(g, value, shape, sizeof shape));
    }
    if (node->n_out == 0)
        describe_put(t, "->");
    describe_domain(g, node->domain, t);
}

/* Fields that are not at their default. Descriptors are a pointer and then 4-byte fields. */
static void describe_params(const bs_node *node, const bs_op *op, describe_text *t)
{
    const uint8_t *fields = (const uint8_t *)node->params + sizeof(const char *);
    const char *before = "  {";
    for (int32_t i = 0; node->params && i < op->n_fields; i++) {
        int32_t n;
        float f;
        memcpy(&n, fields + 4 * i, sizeof n);
        memcpy(&f, fields + 4 * i, sizeof f);
        if (n == 0)
            continue;
        if (op->fields[i].kind == 'f')
            describe_put(t, "%s%s %g", before, op->fields[i].name, (double)f);
        else
            describe_put(t, "%s%s %d", before, op->fields[i].name, n);
        before = ", ";
    }
    if (before[0] == ',')
        describe_put(t, "}");
}

size_t bs_graph_describe(const bs_graph *graph, int32_t index, char *text, size_t bytes)
{
    describe_text t = {text, bytes, 0};
    if (bytes > 0)
        text[0] = 0;
    if (!graph || index < 1 || index >= graph->n_nodes)
        return 0;
    const bs_node *node = &graph->nodes[index];
    const bs_op *op = bs_op_get(node->op);
    describe_put(&t, "%4d  %-14s %-22s ", index, op->name, bs_node_name(node));
    describe_inputs(graph, node, &t);
    describe_outputs(graph, node, &t);
    if (!(op->n_fields > 1 && strcmp(op->fields[0].name, "dtype") == 0 && node->n_in == 0)) /* a source: all in its shape */
        describe_params(node, op, &t);
    return t.used;
}
