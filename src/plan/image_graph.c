/* plan/image_graph.c - a number of all of a graph that a plan depends on: the same on every machine.
 * Relies on plan/image.h. Must never look at an address, or at bytes between fields. */
#include "plan/image.h"

#include "ops/structure.h"

BS_WRAPS static uint64_t image_mix(uint64_t hash, int64_t number)
{
    uint64_t x = (hash ^ (hash >> 29)) * 0x9E3779B97F4A7C15u + (uint64_t)number;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 27);
}

static uint64_t image_mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = image_mix(hash, (uint8_t)*text);
    return image_mix(hash, -1);
}

static uint64_t image_mix_all(uint64_t hash, const int32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = image_mix(hash, numbers[i]);
    return hash;
}

/* Mixes numbers, each an int32_t. */
#define IMAGE_MIX(hash, ...) \
    image_mix_all(hash, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* The op by its name: another library may number ops in another way. Every descriptor is a name, then fields of four
 * bytes. Domains and routers follow from nodes, as the builder makes them. */
static uint64_t image_mix_node(uint64_t hash, const bs_graph *g, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    hash = image_mix_text(image_mix_text(hash, op->name), bs_node_name(node));
    hash = IMAGE_MIX(hash, node->n_in, node->n_out, node->first_out, node->domain, node->block, node->router,
                     node->path, node->writer);
    hash = image_mix_all(hash, bs_node_in(g, node), (size_t)node->n_in);
    for (int32_t i = 0; node->params && i < op->n_fields; i++) {
        int32_t field;
        memcpy(&field, (const char *)node->params + sizeof(char *) + (size_t)i * sizeof field, sizeof field);
        hash = image_mix(hash, field);
    }
    return hash;
}

uint64_t bs_image_graph(const bs_graph *g)
{
    uint64_t hash = IMAGE_MIX(0, g->n_nodes, g->n_values, g->n_domains, g->n_dims, g->n_blocks, g->n_routers,
                              g->n_paths, g->max_paths);
    for (int32_t n = 1; n < g->n_nodes; n++)
        hash = image_mix_node(hash, g, &g->nodes[n]);
    for (int32_t v = 1; v < g->n_values; v++) {
        const bs_value_info *value = &g->values[v];
        hash = IMAGE_MIX(hash, (int32_t)value->dtype, value->rank, value->domain);
        hash = image_mix_all(hash, value->dims, (size_t)value->rank);
    }
    for (const bs_dim_info *d = g->dims; d < g->dims + g->n_dims; d++)
        hash = IMAGE_MIX(hash, (int32_t)d->kind, d->parent, d->mul, d->add, d->div, d->maximum);
    for (const bs_block *b = g->blocks + 1; b < g->blocks + g->n_blocks; b++)
        hash = IMAGE_MIX(image_mix_text(hash, g->text + b->name), b->parent, b->first_node, b->end_node);
    return hash;
}
