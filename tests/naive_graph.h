/* naive_graph.h - what the oracle (naive.h) keeps of a graph: values, rows, extents. */
#ifndef BS_TEST_NAIVE_GRAPH_H
#define BS_TEST_NAIVE_GRAPH_H

#include "check.h"
#include "ops/act.h"
#include "ops/maths.h"
#include "ops/table.h"
#include "plan/plan.h"
#include "ops/structure.h"

#if !defined(NAIVE_VALUES) /* a test of large graphs says more, before */
#define NAIVE_VALUES  1024
#define NAIVE_DOMAINS 512
#define NAIVE_PATHS   64
#endif
#define NAIVE_ROUTERS 64
#define NAIVE_DIMS    512
#define NAIVE_POOL   ((size_t)24 << 20) /* doubles */
static double naive_pool[NAIVE_POOL];

typedef struct naive_choice {
    int32_t n, path[NAIVE_PATHS];
    float gate[NAIVE_PATHS];
} naive_choice;

/* What the caller gives for an input, and what is kept for a state. */
typedef struct naive_source {
    const char *name;
    const double *data; /* dense */
    int64_t dim[BS_MAX_RANK];
} naive_source;

typedef struct naive {
    const bs_graph *g;
    const bs_tensor_table *weights;
    const bs_plan_desc *desc; /* forces, patch_size */
    const naive_source *sources;
    int32_t n_sources;
    /* decides for BS_ROUTE_CALLBACK: the path of a cell from its scores */
    int32_t (*callback)(const double *scores, int32_t width, int32_t paths);
    size_t used;
    int64_t dims[NAIVE_DIMS];
    int32_t rows[NAIVE_DOMAINS];      /* of the top-level domain above */
    bool *present[NAIVE_DOMAINS];     /* [rows] */
    const double **cell[NAIVE_VALUES]; /* [rows] the tensor of each cell; NULL where it is not present */
    naive_choice *choice[NAIVE_ROUTERS];
    int64_t dropped[NAIVE_ROUTERS];
    int32_t counts[NAIVE_ROUTERS][NAIVE_PATHS];
    double price[NAIVE_ROUTERS];
    int64_t made; /* the extent that the last node with one from data has */
    int32_t trip[NAIVE_ROUTERS]; /* of a loop: the trip that is being evaluated */
    int32_t *made_by[NAIVE_ROUTERS]; /* of a loop that grows: [rows] the row that made each, -1 none */
    /* the least difference, but 0, of two numbers of which the larger one decided: what differs by less in f32 may
     * decide otherwise */
    double closest;
    bool tied; /* two rows had the same score of a path with a capacity: in f32 rounding decides */
    bs_status status;
} naive;

/* Asked of every node in every trip: names differ in their first letter, as a rule. */
static inline bool naive_named(const char *name, const char *other)
{
    return *name == *other && strcmp(name, other) == 0;
}

static inline void *naive_take(naive *n, size_t bytes)
{
    const size_t at = n->used;
    n->used += (bytes + sizeof(double) - 1) / sizeof(double);
    if (n->used > NAIVE_POOL) {
        printf("FAIL the oracle's pool is full\n");
        exit(1);
    }
    memset(naive_pool + at, 0, bytes);
    return naive_pool + at;
}

/* a or b decides, whichever is larger. */
static inline void naive_decides(naive *n, double a, double b)
{
    if (a != b && !(fabs(a - b) >= n->closest))
        n->closest = fabs(a - b);
}

/* Each number of a line may decide against each other one. */
static inline void naive_all_decide(naive *n, const double *line, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++)
            naive_decides(n, line[i], line[k]);
}

/* --------------------------------------------------------------------------------------------------- geometry */

static inline int64_t naive_dim(const naive *n, int32_t value, int32_t axis)
{
    return n->dims[n->g->values[value].dims[axis]];
}

static inline int64_t naive_elements(const naive *n, int32_t value)
{
    int64_t count = 1;
    for (int32_t i = 0; i < n->g->values[value].rank; i++)
        count *= naive_dim(n, value, i);
    return count;
}

static inline const bs_domain *naive_patches(const naive *n, int32_t domain)
{
    const int32_t patches = n->g->domains[domain].patches;
    return patches < 0 ? NULL : &n->g->domains[patches];
}

static inline int64_t naive_patch_size(const naive *n, const bs_domain *patches)
{
    return n->desc->patch_size ? n->desc->patch_size : patches->size;
}

typedef struct naive_box {
    int64_t y, x, h, w;
} naive_box;

/* The core of a cell of this value within its frame. */
static inline naive_box naive_core(const naive *n, int32_t value, int32_t row)
{
    const bs_value_info *v = &n->g->values[value];
    const bs_domain *patches = naive_patches(n, v->domain);
    naive_box box = {0, 0, naive_dim(n, value, 1), naive_dim(n, value, 2)};
    if (!patches)
        return box;
    const int64_t size = naive_patch_size(n, patches), cell = size * v->scale_num / v->scale_den;
    const int64_t across = (n->dims[patches->width] + size - 1) / size;
    box.y = row / across * cell;
    box.x = row % across * cell;
    box.h = box.y + cell < box.h ? cell : box.h - box.y;
    box.w = box.x + cell < box.w ? cell : box.w - box.x;
    return box;
}

static inline void naive_set_dims(naive *n)
{
    const bs_graph *g = n->g;
    for (int32_t d = 0; d < g->n_dims; d++)
        n->dims[d] = g->dims[d].maximum;
    for (int32_t k = 1; k < g->n_nodes; k++)
        for (int32_t s = 0; bs_node_is(&g->nodes[k], &bs_op_input) && s < n->n_sources; s++)
            for (int32_t i = 0; strcmp(n->sources[s].name, bs_node_name(&g->nodes[k])) == 0 &&
                                i < g->values[g->nodes[k].first_out].rank;
                 i++)
                n->dims[g->values[g->nodes[k].first_out].dims[i]] = n->sources[s].dim[i];
    for (int32_t d = 0; d < g->n_dims; d++)
        if (g->dims[d].kind == BS_DIM_DERIVED)
            n->dims[d] = bs_floor_div(n->dims[g->dims[d].parent] * g->dims[d].mul + g->dims[d].add, g->dims[d].div);
}

/* The symbol that node k made, what is derived of it, and the rows of domains: all that is there, from the first on. A
 * run that cannot be is BS_ERROR_DATA. */
static inline void naive_made(naive *n, int32_t k, int64_t extent)
{
    const bs_graph *g = n->g;
    for (int32_t d = 0; d < g->n_dims; d++) {
        const bs_dim_info *dim = &g->dims[d];
        if (dim->node != k)
            continue;
        n->dims[d] = dim->kind == BS_DIM_SYMBOL
                         ? extent
                         : bs_floor_div(n->dims[dim->parent] * dim->mul + dim->add, dim->div);
        if (n->dims[d] < 0 || n->dims[d] > dim->maximum)
            n->status = BS_ERROR_DATA;
    }
    for (int32_t d = 1; d < g->n_domains && n->status == BS_OK; d++) {
        const bs_domain *domain = &g->domains[d];
        if (domain->kind == BS_DOMAIN_ROWS && domain->rows >= 0 && g->dims[domain->rows].node == k)
            n->rows[d] = (int32_t)n->dims[domain->rows];
        else if (domain->kind == BS_DOMAIN_PATH)
            n->rows[d] = n->rows[domain->parent];
    }
}

static inline void naive_set_rows(naive *n)
{
    for (int32_t d = 0; d < n->g->n_domains; d++) {
        const bs_domain *domain = &n->g->domains[d];
        const int64_t size = bs_domain_is_patches(domain) ? naive_patch_size(n, domain) : 1;
        n->rows[d] = 1;
        if (domain->kind == BS_DOMAIN_ROWS && !bs_domain_is_patches(domain))
            n->rows[d] = (int32_t)n->dims[domain->rows];
        if (bs_domain_is_patches(domain))
            n->rows[d] =
                (int32_t)(((n->dims[domain->height] + size - 1) / size) * ((n->dims[domain->width] + size - 1) / size));
        if (domain->kind == BS_DOMAIN_PATH)
            n->rows[d] = n->rows[domain->parent];
        n->present[d] = naive_take(n, (size_t)n->rows[d]);
        memset(n->present[d], domain->kind != BS_DOMAIN_PATH, (size_t)n->rows[d]);
    }
}

#endif
