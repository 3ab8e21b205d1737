/* random_features.h - what a network that grew at random (random_networks.h) has, read off its graph and its plan, and
 * how often each two of these met.
 * Owns: the counts. Must never: ask the generator what it meant to make. */
#ifndef BS_TEST_RANDOM_FEATURES_H
#define BS_TEST_RANDOM_FEATURES_H

#include "random_networks.h"

#define RF_LIST(X)                                                                                                     \
    X(HEAVY_ROWS, "layers heavier than their rows")                                                                    \
    X(HEAVY_CELLS, "heavy layers of patches")                                                                          \
    X(HEAVY_ROOT, "heavy layers of the root")                                                                          \
    X(HEAVY_BODY, "heavy layers in loops")                                                                             \
    X(HEAVY_PATH, "heavy layers on paths")                                                                             \
    X(CONV, "3x3 of 16..64 channels")                                                                                  \
    X(LINEAR, "linear of 64..512")                                                                                     \
    X(MIXED, "heavy layers between tiles")                                                                             \
    X(ROWS_BEFORE, "rows before a root loop")                                                                          \
    X(IMAGES_BEFORE, "rows of images before a root loop")                                                              \
    X(CELLS_BEFORE, "patches before a root loop")                                                                      \
    X(ROWS_BEHIND, "rows behind a root loop")                                                                          \
    X(IMAGES_BEHIND, "rows of images behind a root loop")                                                              \
    X(CHANNELS, "rows collected as channels")                                                                          \
    X(POOLED_LOOP, "pooled images that feed a loop")                                                                   \
    X(RESIZED, "gathers of resized paths")                                                                             \
    X(NESTED_LOOP, "loops in loops")                                                                                   \
    X(EXIT, "routers in loops")                                                                                        \
    X(PREDICATE, "loops that end early")                                                                               \
    X(COUNTED, "loops with counts")                                                                                    \
    X(OVER, "loops over a series")                                                                                     \
    X(ROWS_LOOP, "loops of rows")                                                                                      \
    X(PATH_LOOP, "loops on paths")                                                                                     \
    X(CARRIED_IMAGE, "images carried")                                                                                 \
    X(UPDATED, "lines changed in their place")                                                                         \
    X(COLLECTED, "trips collected")                                                                                    \
    X(TOPK, "routers by top-k")                                                                                        \
    X(CAPACITY, "routers by capacity")                                                                                 \
    X(OTHER, "routers by other rules")                                                                                 \
    X(NESTED, "routers on paths")                                                                                      \
    X(RECURRENT, "gru")                                                                                                \
    X(PHASES, "four phases or more")

#define RF_ENUM(name, text) RF_##name,
enum { RF_LIST(RF_ENUM) RF_FEATURES };
#define RF_TEXT(name, text) text,
static const char *const rf_texts[RF_FEATURES] = {RF_LIST(RF_TEXT)};

/* What a value was made of. */
enum { RF_OF_ROWS = 1, RF_OF_IMAGES = 2, RF_OF_CELLS = 4, RF_OF_LOOP = 8, RF_OF_POOL = 16 };

typedef struct features {
    const bs_plan *plan;
    const bs_graph *g;
    uint64_t bits;
    uint8_t of[NAIVE_VALUES], loop_of[TEST_ROUTERS]; /* of values; of what the body of a loop reads */
    int32_t graphs, single[RF_FEATURES], pair[RF_FEATURES][RF_FEATURES];
} features;

static inline void rf_has(features *f, int32_t feature, bool there) { f->bits |= (uint64_t)there << feature; }

/* The path of a router that a domain is, or is in; 0: none. */
static inline bool rf_is_routed(const bs_graph *g, int32_t domain) { return g->domains[domain].routed != 0; }

static inline const bs_domain *rf_top(const bs_graph *g, int32_t domain)
{
    return &g->domains[g->domains[domain].kind == BS_DOMAIN_PATH ? g->domains[domain].top : domain];
}

/* What node n's results are made of, and what that makes of the loops that the node is in. */
static inline void rf_follow(features *f, int32_t n)
{
    const bs_graph *g = f->g;
    const bs_node *node = &g->nodes[n];
    const bs_value_info *out = &g->values[node->first_out];
    const bs_domain *top = rf_top(g, node->domain);
    uint8_t of = 0;
    for (int32_t i = 0; i < node->n_in; i++)
        of |= f->of[bs_node_in(g, node)[i]];
    for (int32_t l = g->domains[node->domain].loop; l; l = g->domains[g->routers[l].domain].loop)
        f->loop_of[l] |= of;
    if (node->n_out == 0)
        return;
    const bool cells = bs_domain_is_patches(top),
               result = naive_is(node, "loop_next") || naive_is(node, "loop_collect");
    if (top->kind == BS_DOMAIN_ROWS)
        of |= (uint8_t)(cells ? RF_OF_CELLS : RF_OF_ROWS | (out->rank == 3 ? RF_OF_IMAGES : 0));
    if (naive_is(node, "pool2d"))
        of |= RF_OF_POOL;
    if (result)
        of |= f->loop_of[node->router];
    if (result && node->domain == 0)
        of |= RF_OF_LOOP;
    for (int32_t i = 0; i < node->n_out; i++)
        f->of[node->first_out + i] = of;
}

static inline void rf_layer(features *f, const bs_node *node)
{
    const bs_graph *g = f->g;
    const bs_domain *d = &g->domains[node->domain], *top = rf_top(g, node->domain);
    const int32_t in = bs_node_in(g, node)[0], out = node->first_out;
    const bool conv = naive_is(node, "conv2d");
    if (!conv && !naive_is(node, "linear"))
        return;
    const int64_t c = bs_dim_max(g, g->values[in].dims[conv ? 0 : g->values[in].rank - 1]),
                  o = bs_dim_max(g, g->values[out].dims[conv ? 0 : g->values[out].rank - 1]);
    const int32_t k = conv ? bs_or_default(((const bs_conv2d_desc *)node->params)->kernel, 3) : 1;
    const double row = (double)bs_bytes_figure(bs_value_elements(g, &g->values[in])) +
                       (double)bs_bytes_figure(bs_value_elements(g, &g->values[out]));
    const bool heavy = c * o * k * k > 8192 && (double)(c * o * k * k) > row;
    rf_has(f, RF_CONV, conv && k == 3 && c >= 16 && o >= 16);
    rf_has(f, RF_LINEAR, !conv && (c >= 64 || o >= 64));
    rf_has(f, RF_HEAVY_ROWS, heavy && top->kind == BS_DOMAIN_ROWS && !bs_domain_is_patches(top));
    rf_has(f, RF_HEAVY_CELLS, bs_domain_is_patches(top) && c * o * k * k > 2048);
    rf_has(f, RF_HEAVY_ROOT, heavy && node->domain == 0);
    rf_has(f, RF_HEAVY_BODY, heavy && d->loop);
    rf_has(f, RF_HEAVY_PATH, heavy && rf_is_routed(g, node->domain));
}

/* Whether a gather's rows are of another height than what its router's scatters take. */
static inline bool rf_is_resized(const bs_graph *g, const bs_node *gather)
{
    const bs_value_info *out = &g->values[gather->first_out];
    for (int32_t n = 1; n < g->n_nodes && out->rank == 3; n++)
        if (bs_node_is(&g->nodes[n], &bs_op_scatter) && g->nodes[n].router == gather->router) {
            const bs_value_info *in = &g->values[g->nodes[n].first_out];
            if (in->rank == 3 && in->dims[1] != out->dims[1])
                return true;
        }
    return false;
}

static inline void rf_structure(features *f, const bs_node *node)
{
    const bs_graph *g = f->g;
    const bs_value_info *out = &g->values[node->first_out];
    const int32_t in = node->n_in ? bs_node_in(g, node)[0] : 0;
    if (node->n_out == 0)
        return;
    if (out->rank == 3 && out->domain > 0 && rf_top(g, out->domain)->kind == BS_DOMAIN_ROWS &&
        !bs_domain_is_patches(rf_top(g, out->domain)))
        rf_has(f, RF_IMAGES_BEHIND, f->of[node->first_out] & RF_OF_LOOP);
    if (rf_top(g, out->domain)->kind == BS_DOMAIN_ROWS)
        rf_has(f, RF_ROWS_BEHIND, f->of[node->first_out] & RF_OF_LOOP);
    rf_has(f, RF_CHANNELS, bs_node_is(node, &bs_op_collect) && g->values[in].rank == 2);
    rf_has(f, RF_CHANNELS, naive_is(node, "reshape") && out->domain == 0 && out->rank == 3 && g->values[in].rank == 4);
    rf_has(f, RF_RESIZED, bs_node_is(node, &bs_op_gather) && rf_is_resized(g, node));
    rf_has(f, RF_CARRIED_IMAGE, naive_is(node, "loop_carry") && out->rank == 3);
    rf_has(f, RF_UPDATED, naive_is(node, "scatter_elements"));
    rf_has(f, RF_COLLECTED, naive_is(node, "loop_collect"));
    rf_has(f, RF_RECURRENT, naive_is(node, "gru"));
}

static inline void rf_router(features *f, int32_t r)
{
    const bs_graph *g = f->g;
    const bs_router_info *router = &g->routers[r];
    const bs_domain *d = &g->domains[router->domain];
    const bool loops = bs_router_loops(g, r), root = loops && router->domain == 0;
    const int32_t protocol = loops ? -1 : router->desc->protocol;
    rf_has(f, RF_ROWS_BEFORE, root && f->loop_of[r] & RF_OF_ROWS);
    rf_has(f, RF_IMAGES_BEFORE, root && f->loop_of[r] & RF_OF_IMAGES);
    rf_has(f, RF_CELLS_BEFORE, root && f->loop_of[r] & RF_OF_CELLS);
    rf_has(f, RF_POOLED_LOOP, loops && f->loop_of[r] & RF_OF_POOL);
    rf_has(f, RF_NESTED_LOOP, loops && d->loop);
    rf_has(f, RF_EXIT, !loops && d->loop);
    rf_has(f, RF_COUNTED, loops && router->loop.count);
    rf_has(f, RF_PREDICATE,
           loops && g->nodes[router->loop.again].n_in && bs_node_in(g, &g->nodes[router->loop.again])[0]);
    rf_has(f, RF_OVER, loops && router->loop.trips >= 0);
    rf_has(f, RF_ROWS_LOOP, loops && rf_top(g, router->domain)->kind == BS_DOMAIN_ROWS);
    rf_has(f, RF_PATH_LOOP, loops && d->routed);
    rf_has(f, RF_TOPK, protocol == BS_ROUTE_TOPK);
    rf_has(f, RF_CAPACITY, protocol == BS_ROUTE_CAPACITY);
    rf_has(f, RF_OTHER, !loops && protocol != BS_ROUTE_TOPK && protocol != BS_ROUTE_CAPACITY);
    rf_has(f, RF_NESTED, !loops && d->routed);
}

/* What a graph has of what a plan of it needs. */
static inline void rf_look(features *f, const bs_plan *plan)
{
    const bs_graph *g = f->g = plan->graph;
    f->plan = plan;
    f->bits = 0;
    memset(f->of, 0, sizeof f->of);
    memset(f->loop_of, 0, sizeof f->loop_of);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        if (!plan->node_live[n])
            continue;
        rf_follow(f, n);
        rf_layer(f, &g->nodes[n]);
        rf_structure(f, &g->nodes[n]);
    }
    for (int32_t r = 1; r < g->n_routers; r++)
        if (plan->routers[r].live)
            rf_router(f, r);
    for (int32_t d = 1; d < g->n_domains; d++)
        rf_has(f, RF_MIXED, plan->domains[d].live && plan->domains[d].mixed);
}

static inline void rf_count(features *f)
{
    f->graphs++;
    for (int32_t a = 0; a < RF_FEATURES; a++)
        for (int32_t b = 0; b < a && f->bits >> a & 1; b++)
            f->pair[a][b] += (int32_t)(f->bits >> b & 1);
    for (int32_t a = 0; a < RF_FEATURES; a++)
        f->single[a] += (int32_t)(f->bits >> a & 1);
}

/* Prints how often each was there, and the pairs that met least often. Returns how often those met. */
static inline int32_t rf_print(const features *f, int32_t lines)
{
    int32_t least = -1, floor = -1;
    for (int32_t a = 0; a < RF_FEATURES; a++)
        printf("  %5d %-36s%s", f->single[a], rf_texts[a], a % 2 || a == RF_FEATURES - 1 ? "\n" : "");
    printf("  pairs that met least often:\n");
    for (int32_t shown = 0; shown < lines;) {
        int32_t next = INT32_MAX;
        for (int32_t a = 0; a < RF_FEATURES; a++)
            for (int32_t b = 0; b < a; b++)
                if (f->pair[a][b] > floor && f->pair[a][b] < next)
                    next = f->pair[a][b];
        for (int32_t a = 0; a < RF_FEATURES; a++)
            for (int32_t b = 0; b < a; b++)
                if (f->pair[a][b] == next && shown++ < lines)
                    printf("  %5d %s, %s\n", next, rf_texts[b], rf_texts[a]);
        if (next == INT32_MAX)
            break;
        least = least < 0 ? next : least;
        floor = next;
    }
    return least;
}

#endif
