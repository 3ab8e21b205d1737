/* random_values.h - a graph that grows at random (random_graph.h): what it is, and how values are chosen. */
#ifndef BS_TEST_RANDOM_VALUES_H
#define BS_TEST_RANDOM_VALUES_H

#include "naive.h"
#define NET_TENSORS 256
#include "net.h"

#define RG_NAMES   400
#define RG_OUTPUTS 6
#define RG_MOST    1000.0 /* larger values are clipped: sums and products stay below 2^24 */

static bool rg_segments; /* rows come in segments: set before rg_begin */
static bool rg_shares;   /* layers may have the weights of others: likewise */
static bool rg_loops;    /* rows go round in loops: likewise */
static bool rg_trees;    /* with rg_loops: rows are vertices, too, and read what others carry: likewise */
#define RG_SEGMENTS 5
#define RG_UNITS    9 /* of an lstm: more than a line has, so that what is not whole is in no other op's reach */

/* A weight that other layers of its shape may have, too. */
typedef struct rg_weight {
    const char *stem;
    int32_t number;
    int64_t dim[4];
} rg_weight;

typedef struct random_graph {
    bs_graph *g;
    net_table *weights;
    double bound[NAIVE_VALUES]; /* |value| at most */
    char names[RG_NAMES][16];
    int32_t ints[64][16];
    int32_t n_names, n_ints, n_outputs, n_made;
    rg_weight made[64];
    bool rows, frames; /* what it works on */
    bool whole;        /* blocks are grown as a user writes them; else a node here, a node there */
    bs_value state[3], cells, knob, captured, lengths; /* states: rows, frame, the frame before that */
    bs_value reused;                          /* a frame that has become the state already */
    bs_value children, level, roots;          /* of vertices: i32 [2], [1], [1] */
} random_graph;

static inline bool rg_flip(int32_t percent) { return check_below(100) < percent; }

/* "c12", "c12.weight": weight 12's node, and one of its tensors. */
static inline const char *rg_name(random_graph *rg, const char *stem, int32_t number, const char *suffix)
{
    char *name = rg->names[rg->n_names++ % RG_NAMES];
    snprintf(name, sizeof rg->names[0], "%s%d%s%s", stem, number, *suffix ? "." : "", suffix);
    return name;
}

/* ---------------------------------------------------------------------------------------------------- choosing */

typedef bool (*rg_want)(const random_graph *rg, const bs_value_info *v);

static inline const bs_value_info *rg_info(const random_graph *rg, bs_value v) { return &rg->g->values[v.id]; }
static inline int64_t rg_extent(const random_graph *rg, const bs_value_info *v, int32_t axis)
{
    return bs_dim_max(rg->g, v->dims[axis]);
}

static inline bool rg_is_line(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 1 && v->dtype == BS_F32 && rg_extent(rg, v, 0) <= 8 &&
           v != &rg->g->values[rg->knob.id]; /* not whole */
}

static inline bool rg_is_image(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 3 && v->dtype == BS_F32 && rg_extent(rg, v, 0) <= 4;
}

/* Of what routers send: a line, or a single number. */
static inline bool rg_is_any_line(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 0 ? v->dtype == BS_F32 : rg_is_line(rg, v);
}

static inline bool rg_is_any_image(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 3 && rg_extent(rg, v, 0) <= 4;
}

static inline bool rg_is_top_cells(const random_graph *rg, const bs_value_info *v)
{
    const bs_domain *d = &rg->g->domains[v->domain];
    const bool stacks = v->rank < 3 || bs_domain_is_patches(d);
    return d->kind == BS_DOMAIN_ROWS && stacks;
}

static inline bool rg_is_frame(const random_graph *rg, const bs_value_info *v)
{
    return v->domain == 0 && v->rank == 3 && rg_extent(rg, v, 0) <= 4;
}

static inline bool rg_is_table(const random_graph *rg, const bs_value_info *v)
{
    return v->domain == 0 && v->dtype == BS_F32 && (v->rank == 1 || (v->rank == 2 && rg_extent(rg, v, 1) <= 8));
}

static inline bool rg_is_cell(const random_graph *rg, const bs_value_info *v)
{
    (void)rg;
    return v->domain > 0;
}

static inline bool rg_is_const(const random_graph *rg, bs_value v)
{
    return bs_dim_is_const(rg->g, rg_info(rg, v)->dims[0]);
}

static inline bool rg_is_routable(const random_graph *rg, const bs_value_info *v)
{
    int32_t depth = 0;
    for (int32_t d = v->domain; d > 0 && rg->g->domains[d].kind == BS_DOMAIN_PATH; d = rg->g->domains[d].parent)
        depth++;
    return v->domain > 0 && depth < 3 && rg_is_line(rg, v);
}

/* What stands in an lstm, and may be no whole number. */
static inline bool rg_is_wide(const random_graph *rg, const bs_value_info *v)
{
    return v->rank == 1 && rg_extent(rg, v, 0) == RG_UNITS;
}

/* Neither a result too large for sums to be whole in f32, which is clipped first, nor one that no builder hands out. */
static inline bool rg_is_small(const random_graph *rg, int32_t id)
{
    const bs_value_info *v = rg->g->values + id;
    return v->number > v[-1].number && (v->dtype != BS_F32 || rg->bound[id] <= RG_MOST);
}

/* A value that is wanted, often a young one; id 0 when there is none. domain -1: any. */
static inline bs_value rg_pick(const random_graph *rg, int32_t domain, rg_want want)
{
    const int32_t n = rg->g->n_values - 1;
    for (int32_t tries = 0; tries < 60; tries++) {
        const int32_t id = rg_flip(50) ? 1 + check_below(n) : n - check_below(n < 12 ? n : 12);
        const bs_value_info *v = &rg->g->values[id];
        if ((domain < 0 || v->domain == domain) && want(rg, v) && !rg_is_wide(rg, v) && rg_is_small(rg, id) &&
            naive_is_there(rg->g, id))
            return (bs_value){id};
    }
    return (bs_value){0};
}

/* Another value of the domain with the same shape; itself when there is none. */
static inline bs_value rg_twin(const random_graph *rg, bs_value x, int32_t domain)
{
    const bs_value_info *a = rg_info(rg, x);
    const int32_t n = rg->g->n_values - 1, start = rg_flip(60) ? n - 1 : check_below(n); /* the youngest, or any */
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = 1 + (start - i + n) % n;
        const bs_value_info *b = &rg->g->values[id];
        if (b->domain == domain && bs_same_shape(a, b) && a->scale_num == b->scale_num &&
            a->scale_den == b->scale_den && id != x.id && rg_is_small(rg, id) && naive_is_there(rg->g, id))
            return (bs_value){id};
    }
    return (bs_value){0};
}

/* Records the bound of a new value, and clips it when it could grow too large. */
static inline bs_value rg_made(random_graph *rg, bs_value v, double bound)
{
    if (v.id == 0)
        return v;
    rg->bound[v.id] = bound;
    if (bound <= RG_MOST || rg_info(rg, v)->dtype != BS_F32)
        return v;
    const bs_value clipped = bs_clip(rg->g, v, -8, 8);
    rg->bound[clipped.id] = 8;
    return clipped;
}

#endif
