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

/* The op by its name: another library may number ops in another way. Every descriptor is a name, then fields of four
 * bytes. */
static uint64_t image_mix_node(uint64_t hash, const bs_graph *g, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    const int32_t facts[] = {node->n_in, node->n_out, node->first_out, node->domain, node->block, node->router,
                             node->path, node->writer};
    hash = image_mix_text(image_mix_text(hash, op->name), bs_node_name(node));
    hash = image_mix_all(hash, facts, sizeof facts / sizeof *facts);
    hash = image_mix_all(hash, bs_node_in(g, node), (size_t)node->n_in);
    for (int32_t i = 0; node->params && i < op->n_fields; i++) {
        int32_t field;
        memcpy(&field, (const char *)node->params + sizeof(char *) + (size_t)i * sizeof field, sizeof field);
        hash = image_mix(hash, field);
    }
    return hash;
}

static uint64_t image_mix_value(uint64_t hash, const bs_value_info *v)
{
    const int32_t facts[] = {(int32_t)v->dtype, v->rank, v->domain, v->node, v->output_index, v->scale_num,
                             v->scale_den};
    hash = image_mix_all(hash, facts, sizeof facts / sizeof *facts);
    return image_mix_all(hash, v->dims, (size_t)v->rank);
}

static uint64_t image_mix_domain(uint64_t hash, const bs_domain *d)
{
    const int32_t facts[] = {(int32_t)d->kind, d->parent, d->router, d->path, d->rows, d->lengths, d->height, d->width,
                             d->size, d->patches, d->top, d->outermost, d->next};
    return image_mix(image_mix_all(hash, facts, sizeof facts / sizeof *facts), d->max_rows);
}

static uint64_t image_mix_dim(uint64_t hash, const bs_dim_info *d)
{
    const int32_t facts[] = {(int32_t)d->kind, d->parent, d->mul, d->add, d->div, d->maximum};
    return image_mix_all(hash, facts, sizeof facts / sizeof *facts);
}

static uint64_t image_mix_router(uint64_t hash, const bs_router_info *r)
{
    const int32_t facts[] = {r->node, r->domain, r->score, r->knob, r->max_paths_per_cell, r->first_path,
                             r->path_domains};
    return image_mix_all(hash, facts, sizeof facts / sizeof *facts);
}

uint64_t bs_image_graph(const bs_graph *g)
{
    const int32_t counts[] = {g->n_nodes, g->n_values, g->n_domains, g->n_dims, g->n_blocks, g->n_routers, g->n_paths,
                              g->max_paths};
    uint64_t hash = image_mix_all(0, counts, sizeof counts / sizeof *counts);
    for (int32_t n = 1; n < g->n_nodes; n++)
        hash = image_mix_node(hash, g, &g->nodes[n]);
    for (int32_t v = 1; v < g->n_values; v++)
        hash = image_mix_value(hash, &g->values[v]);
    for (int32_t d = 0; d < g->n_domains; d++)
        hash = image_mix_domain(hash, &g->domains[d]);
    for (int32_t d = 0; d < g->n_dims; d++)
        hash = image_mix_dim(hash, &g->dims[d]);
    for (int32_t r = 1; r < g->n_routers; r++)
        hash = image_mix_router(hash, &g->routers[r]);
    for (int32_t b = 1; b < g->n_blocks; b++) {
        const int32_t facts[] = {g->blocks[b].parent, g->blocks[b].first_node, g->blocks[b].end_node};
        hash = image_mix_all(image_mix_text(hash, g->text + g->blocks[b].name), facts, sizeof facts / sizeof *facts);
    }
    return hash;
}
