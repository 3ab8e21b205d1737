/* ops/describe.c - nodes and ops in one line each, for people and for `inspect`.
 * Relies on ops/structure.h. Must never print. */
#include "ops/structure.h"

#if !defined(BS_NO_REPORT)

/* "cells of 64x64", "rows", "cells of 64x64 / route.2"; nothing for the root. Domains are chained from the inside out;
 * a parent has a lower index. */
static void describe_domain(const bs_graph *g, int32_t domain, bs_text *t)
{
    const bs_domain *d = &g->domains[domain];
    for (; d->kind == BS_DOMAIN_PATH; d = &g->domains[d->parent])
        bs_text_add(t, " %s:%" PRId32, g->routers[d->router].desc->name, d->path);
    if (bs_domain_is_patches(d))
        bs_text_add(t, " cells %" PRId32, d->size);
    else if (d->kind == BS_DOMAIN_ROWS)
        bs_text_add(t, " %s<=%lld", bs_domain_is_segments(d) ? "segments" : "rows", (long long)d->max_rows);
}

static void describe_inputs(const bs_graph *g, const bs_node *node, bs_text *t)
{
    const size_t start = t->used;
    for (int32_t i = 0; i < node->n_in; i++)
        bs_text_add(t, "%s%" PRId32, i ? "," : "", bs_node_in(g, node)[i]);
    while (t->used < start + 10)
        bs_text_add(t, " ");
}

static void describe_outputs(const bs_graph *g, const bs_node *node, bs_text *t)
{
    char shape[128];
    for (int32_t i = 0; i < node->n_out; i++) {
        const bs_value_info *value = bs_value_get(g, node->first_out + i);
        bs_text_add(t, "%s%" PRId32 " %s %s", i ? ", " : "-> ", node->first_out + i, bs_dtype_name(value->dtype),
                    bs_value_text(g, value, shape, sizeof shape));
    }
    if (node->n_out == 0)
        bs_text_add(t, "->");
    describe_domain(g, node->domain, t);
}

/* All lists' names, one behind the other, and how many each has. */
#define DESCRIBE_NAME(name, text) text "\0"
#define DESCRIBE_NAMES(list) BS_##list##_LIST(DESCRIBE_NAME)
#define DESCRIBE_COUNT(list) [BS_FIELD_##list] = BS_##list##_COUNT,

/* The name of a field's number; NULL: it is only a number. */
static const char *describe_name(const bs_field *field, int32_t n)
{
    if (field->holds == BS_FIELD_DTYPE)
        return bs_dtype_name((bs_dtype)n);
    if (field->holds == BS_FIELD_PROTOCOL)
        return bs_protocol_name((bs_protocol)n);
    static const uint8_t counts[BS_FIELD_KINDS] = {BS_FIELD_LISTS(DESCRIBE_COUNT)};
    int32_t before = 0;
    for (int32_t kind = 0; kind < field->holds; kind++)
        before += counts[kind];
    const int32_t count = counts[field->holds];
    return n >= 0 && n < count ? bs_name_of(BS_FIELD_LISTS(DESCRIBE_NAMES), before + n, before + count) : NULL;
}

static void describe_field(const bs_field *field, const uint8_t *word, bs_text *t)
{
    int32_t n;
    float f;
    memcpy(&n, word, sizeof n);
    memcpy(&f, word, sizeof f);
    const char *name = describe_name(field, n);
    if (name)
        bs_text_add(t, "%s %s", field->name, name);
    else if (field->holds == BS_FIELD_FLOAT)
        bs_text_add(t, "%s %g", field->name, (double)f);
    else
        bs_text_add(t, "%s %" PRId32, field->name, n);
}

/* Whether a field says what an op is, so that it is printed even when it is the default. */
static bool describe_always(const char *field)
{
    for (int32_t i = 0; i < 4; i++)
        if (strcmp(field, bs_name_of("protocol\0dtype\0mode\0kind", i, 4)) == 0)
            return true;
    return false;
}

/* Fields that are not at their default. Descriptors are a pointer and then 4-byte fields. */
static void describe_params(const bs_node *node, const bs_op *op, bs_text *t)
{
    static const uint8_t zero[4] = {0};
    const char *before = "  {";
    if (!node->params)
        return;
    const uint8_t *fields = (const uint8_t *)node->params + sizeof(const char *);
    for (int32_t i = 0; i < op->n_fields; i++) {
        if (!describe_always(op->fields[i].name) && memcmp(fields + 4 * i, zero, sizeof zero) == 0)
            continue;
        bs_text_add(t, "%s", before);
        describe_field(&op->fields[i], fields + 4 * i, t);
        before = ", ";
    }
    if (before[0] == ',')
        bs_text_add(t, "}");
}

size_t bs_graph_describe(const bs_graph *graph, int32_t index, char *text, size_t bytes)
{
    bs_text t = {text, text ? bytes : 0, 0};
    if (t.bytes > 0)
        text[0] = 0;
    if (!graph || index < 1 || index >= graph->n_nodes)
        return 0;
    const bs_node *node = &graph->nodes[index];
    const bs_op *op = bs_op_get(node->op);
    bs_text_add(&t, "%4" PRId32 "  %-14s %-22s ", index, op->name, bs_node_name(node));
    describe_inputs(graph, node, &t);
    describe_outputs(graph, node, &t);
    if (node->n_in > 0) /* inputs, states and constants are described by their shape */
        describe_params(node, op, &t);
    return t.used;
}

size_t bs_op_describe(int32_t index, char *text, size_t bytes)
{
    bs_text t = {text, text ? bytes : 0, 0};
    const bs_op *op = bs_op_get(index);
    if (t.bytes > 0)
        text[0] = 0;
    if (!op)
        return 0;
    bs_text_add(&t, "%s %d %" PRId32, op->name, op->min_in, bs_op_max_in(op));
    for (int32_t i = 0; i < op->n_fields; i++)
        bs_text_add(&t, " %s%s", op->fields[i].name, op->fields[i].holds == BS_FIELD_FLOAT ? "~" : "");
    return t.used;
}
#endif
