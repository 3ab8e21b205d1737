/* plan/image_graph.c - a hash of everything in a graph that a plan depends on: the same on every machine.
 * Relies on plan/image.h. Must never read an address, or the bytes between fields. */
#include "plan/image.h"

#include "ops/structure.h"

/* Continues a checksum with numbers, each an int32_t. */
#define IMAGE_MIX(crc, ...) bs_crc32(crc, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}))

static uint32_t mix_text(uint32_t crc, const char *text)
{
    return bs_crc32(crc, text, strlen(text) + 1);
}

static uint32_t mix_tail(uint32_t crc, const bs_graph *g, const bs_tail *tail)
{
    const bs_op *op = bs_op_get(tail->node.op);
    crc = IMAGE_MIX(mix_text(crc, op->name), tail->node.n_in, tail->at, tail->other, tail->own,
                    (int32_t)tail->from, (int32_t)tail->to);
    crc = bs_crc32(crc, bs_node_in(g, &tail->node), (size_t)tail->node.n_in * sizeof(int32_t));
    const char *fields = op->n_fields ? (const char *)tail->node.params + sizeof(char *) : "";
    return bs_crc32(crc, fields, (size_t)op->n_fields * 4);
}

/* The op goes in by name: another library may number ops differently. Every descriptor is a name, then fields of four
 * bytes. Domains and routers follow from nodes, as the builder makes them. */
static uint32_t mix_node(uint32_t crc, const bs_graph *g, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    crc = mix_text(mix_text(crc, op->name), bs_node_name(node));
    crc = IMAGE_MIX(crc, node->n_in, node->n_out, node->first_out, node->domain, node->block, node->router,
                    node->path, node->writer);
    crc = bs_crc32(crc, bs_node_in(g, node), (size_t)node->n_in * sizeof(int32_t));
    for (int32_t i = 0; i < node->n_tail; i++)
        crc = mix_tail(crc, g, &g->tails[node->tail + i]);
    return node->params ? bs_crc32(crc, (const char *)node->params + sizeof(char *), (size_t)op->n_fields * 4) : crc;
}

uint32_t bs_image_graph(const bs_graph *g)
{
    uint32_t crc = IMAGE_MIX(0, g->n_nodes, g->n_values, g->n_domains, g->n_dims, g->n_blocks, g->n_routers,
                             g->n_paths, g->max_paths);
    for (int32_t n = 1; n < g->n_nodes; n++)
        crc = mix_node(crc, g, &g->nodes[n]);
    for (const bs_value_info *v = g->values + 1; v < g->values + g->n_values; v++)
        crc = bs_crc32(IMAGE_MIX(crc, (int32_t)v->dtype, v->rank, v->domain), v->dims,
                       (size_t)v->rank * sizeof *v->dims);
    for (const bs_dim_info *d = g->dims; d < g->dims + g->n_dims; d++)
        crc = IMAGE_MIX(crc, (int32_t)d->kind, d->parent, d->mul, d->add, d->div, d->maximum);
    for (const bs_block *b = g->blocks + 1; b < g->blocks + g->n_blocks; b++)
        crc = IMAGE_MIX(mix_text(crc, g->text + b->name), b->parent, b->first_node, b->end_node);
    return crc;
}
