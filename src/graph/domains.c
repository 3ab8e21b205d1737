/* graph/domains.c - domains: sets of cells; equal ones are one entry. Relies on graph/graph.h and graph/tree.h. Must
 * never know what decides about them. */
#include "graph/graph.h"
#include "graph/tree.h"

/* Domains with equal keys are one domain. */
typedef struct domain_key {
    int32_t of[9];
} domain_key;

static domain_key domain_key_of(const bs_domain *d)
{
    const domain_key key = {
        {(int32_t)d->kind, d->parent, d->router, d->path, d->rows, d->height, d->width, d->size, d->lengths}};
    return key;
}

static bool domains_equal(const bs_domain *a, const bs_domain *b)
{
    const domain_key left = domain_key_of(a), right = domain_key_of(b);
    return memcmp(&left, &right, sizeof left) == 0;
}

static uint64_t domain_hash(const bs_domain *d)
{
    const domain_key key = domain_key_of(d);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof key.of / sizeof *key.of; i++)
        hash = bs_tree_mix(hash, key.of[i]);
    return hash;
}

/* A loop within a loop is one of a domain further in, so this takes as many steps as loops are nested. */
bool bs_domain_in_loop(const bs_graph *graph, int32_t domain, int32_t router)
{
    int32_t loop = graph->domains[domain].loop;
    while (loop != 0 && loop != router)
        loop = graph->domains[graph->routers[loop].domain].loop;
    return loop == router;
}

int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain)
{
    uint64_t hash = domain_hash(domain);
    int32_t *link = bs_tree_step(graph->domains[0].child, &hash); /* no node makes the root */
    for (; *link; link = bs_tree_step(graph->domains[*link].child, &hash))
        if (domains_equal(&graph->domains[*link], domain))
            return *link;
    if (graph->n_domains > graph->max_domains) {
        bs_graph_fail(graph, BS_ERROR_LIMIT, "the graph is full: %" PRId32 " domains (bs_graph_desc.max_domains)",
                      graph->max_domains);
        return -1;
    }
    const int32_t id = *link = graph->n_domains++;
    bs_domain *d = &graph->domains[id];
    *d = *domain;
    const bs_domain *parent = &graph->domains[d->parent];
    d->patches = bs_domain_is_patches(d) ? id : parent->patches;
    d->depth = parent->depth + 1;
    d->top = d->kind == BS_DOMAIN_PATH ? parent->top : id;
    const bool path = d->kind == BS_DOMAIN_PATH;
    d->loop = !path ? 0 : bs_router_loops(graph, d->router) ? d->router : parent->loop;
    d->outermost = !path ? 0 : parent->outermost || d->loop ? parent->outermost : id;
    d->routed = !path ? 0 : parent->routed || bs_router_loops(graph, d->router) ? parent->routed : id;
    d->next = 0;
    if (d->kind == BS_DOMAIN_PATH) {
        d->next = graph->routers[d->router].path_domains;
        graph->routers[d->router].path_domains = id;
    }
    return id;
}
