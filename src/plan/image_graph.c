/* plan/image_graph.c - a hash of everything in a graph that a plan depends on: the same on every machine.
 * Relies on plan/image.h. Must never read an address, or the bytes between fields. */
#include "plan/image.h"

#include "ops/structure.h"

/* Continues a checksum with fields from `first` to `last`, of four bytes each, that follow each other. */
#define IMAGE_MIX(crc, of, first, last) \
    bs_crc32(crc, &(of)->first, (size_t)((const uint8_t *)(&(of)->last + 1) - (const uint8_t *)&(of)->first))

/* An enum: some compilers give it a byte. */
static uint32_t mix_enum(uint32_t crc, int32_t number) { return bs_crc32(crc, &number, sizeof number); }

static uint32_t mix_text(uint32_t crc, const char *text)
{
    return bs_crc32(crc, text, strlen(text) + 1);
}

/* The op goes in by name: another library may number ops differently. Every descriptor is a name, then fields of four
 * bytes. */
static uint32_t mix_work(uint32_t crc, const bs_graph *g, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    crc = IMAGE_MIX(mix_text(crc, op->name), node, n_in, n_out);
    crc = bs_crc32(crc, bs_node_in(g, node), (size_t)node->n_in * sizeof(int32_t));
    return node->params ? bs_crc32(crc, (const char *)node->params + sizeof(char *), (size_t)op->n_fields * 4) : crc;
}

/* Domains and routers follow from nodes, as the builder makes them. */
static uint32_t mix_node(uint32_t crc, const bs_graph *g, const bs_node *node)
{
    crc = IMAGE_MIX(mix_text(mix_work(crc, g, node), bs_node_name(node)), node, first_out, writer);
    for (int32_t i = 0; i < node->n_tail; i++) {
        const bs_tail *t = &g->tails[node->tail + i];
        crc = mix_enum(mix_enum(IMAGE_MIX(mix_work(crc, g, &t->node), t, at, own), (int32_t)t->from), (int32_t)t->to);
    }
    return crc;
}

uint32_t bs_image_graph(const bs_graph *g)
{
    uint32_t crc = IMAGE_MIX(0, g, n_nodes, n_values);
    crc = IMAGE_MIX(crc, g, n_domains, n_routers); /* and dims and blocks; paths follow from routers */
    for (int32_t n = 1; n < g->n_nodes; n++)
        crc = mix_node(crc, g, &g->nodes[n]);
    for (const bs_value_info *v = g->values + 1; v < g->values + g->n_values; v++) {
        crc = mix_enum(mix_enum(IMAGE_MIX(crc, v, domain, domain), (int32_t)v->dtype), v->rank);
        crc = bs_crc32(crc, v->dims, (size_t)v->rank * sizeof *v->dims);
    }
    for (const bs_dim_info *d = g->dims; d < g->dims + g->n_dims; d++)
        crc = IMAGE_MIX(mix_enum(crc, (int32_t)d->kind), d, parent, maximum);
    for (const bs_block *b = g->blocks + 1; b < g->blocks + g->n_blocks; b++)
        crc = IMAGE_MIX(mix_text(crc, g->text + b->name), b, parent, end_node);
    return crc;
}
