/* graph.h - a frozen graph while it grows: what is known of its values, domains, weights and inputs, which the
 * generator follows by itself, and the lines that say how it was built.
 *
 * Owns: fz, the one description. Relies on brainstorm.h and numbers.h. Must never look into a graph of the library. */
#ifndef BS_FROZEN_GRAPH_H
#define BS_FROZEN_GRAPH_H

#include "brainstorm.h"
#include "frozen/numbers.h"

enum {
    FZ_VALUES = 800,
    FZ_DOMAINS = 200,
    FZ_TENSORS = 500,
    FZ_ROUTERS = 48,
    FZ_INPUTS = 24,
    FZ_OUTPUTS = 4,
    FZ_NAMES = 1400,
    FZ_INTS = 1 << 14,
    FZ_SYMBOLS = 8,
    FZ_RUNS = 3,
    FZ_AXES = 6,
    FZ_PATHS = 12,
    FZ_BLOCKS = 160
};

/* A dimension. key 0: a constant; else what it was derived from: equal keys are equal in every run. */
typedef struct fz_dim {
    int32_t most;
    uint32_t key;
} fz_dim;

/* Of images of patches d[1] and d[2] are the frame's. */
typedef struct fz_value {
    bs_value v;
    int32_t domain, dtype, rank, num, den; /* num/den: pixels for each of the frame that was cut */
    int32_t scale;                         /* numbers are below 2^scale, more or less */
    fz_dim d[FZ_AXES];
    bool read, idle; /* idle: nothing is picked that has it as an operand */
} fz_value;

typedef enum fz_kind { FZ_ROOT, FZ_ROWS, FZ_PATCHES, FZ_SEGMENTS, FZ_PATH, FZ_BODY } fz_kind;

typedef struct fz_domain {
    fz_kind kind;
    int32_t parent, router, path, size, depth; /* size: of patches; depth: routers and loops around it */
    int32_t most;                              /* rows */
    uint32_t rows;                             /* key of their number */
    bool patches, segments, loops;             /* it, or what it is a part of */
    fz_dim height, width, segment;
    bs_value lengths;
} fz_domain;

typedef struct fz_router {
    bs_router r;
    bs_route_desc desc;
    const char *name;
    int32_t domain, most;    /* most: paths of a cell */
    int32_t paths[FZ_PATHS]; /* domains */
    bool loop;
} fz_router;

typedef enum fz_fill {
    FZ_FILL_NUMBERS,
    FZ_FILL_CODES,
    FZ_FILL_BELOW,
    FZ_FILL_LENGTHS,
    FZ_FILL_CHILDREN,
    FZ_FILL_CACHED,
    FZ_FILL_KNOB,
    FZ_FILL_ROOTS
} fz_fill;

typedef struct fz_input {
    const char *name;
    bs_dtype dtype;
    int32_t rank, symbol[4], dim[4]; /* symbol -1: dim is a constant, else its multiple */
    fz_fill fill;
    int32_t below; /* of indices and counts */
    int32_t rows;  /* lengths: symbol of the rows that they add up to */
} fz_input;

typedef struct fz_tensor {
    const char *name;
    bs_tensor t;
    int32_t block;
    uint64_t offset; /* in the storage that is streamed from */
} fz_tensor;

/* What a graph has, for the count of what is covered. */
#define FZ_FEATURES(X)                                                                                                 \
    X(ROOT_LOOP)                                                                                                       \
    X(ROWS_LOOP)                                                                                                       \
    X(PATCH_LOOP)                                                                                                      \
    X(SEGMENT_LOOP) X(PATH_LOOP) X(LOOP_IN_LOOP) X(ROUTER_IN_LOOP) X(ROUTER_IN_ROUTER) X(IMAGE_BEFORE_LOOP)            \
        X(ROWS_BEFORE_LOOP) X(ROWS_BEHIND_LOOP) X(ROUTER) X(TOP1) X(TOPK) X(THRESHOLD) X(RESIDUAL) X(BINARY) X(LABEL)  \
            X(TABLE) X(CAPACITY) X(SPILL) X(BUDGET) X(CALLBACK) X(PLACE) X(ADD) X(WEIGHTED) X(SELECT) X(KNOB) X(FLOOR) \
                X(PATCHES) X(ROWS) X(IMAGE_ROWS) X(SEGMENTS) X(CACHE) X(MASK) X(CROSS) X(TREE) X(GROWS) X(DATA_EXTENT) \
                    X(STATE) X(REUSE) X(SYMBOLS) X(RUNS) X(STREAMS) X(PHASES) X(SHARED) X(HALF) X(FORCED) X(RESIZED)   \
                        X(LOOK_AHEAD) X(LARGE) X(HEAVY) X(WINOGRAD) X(TINY) X(HUGE) X(INFINITE) X(NAN) X(STEPS)        \
                            X(REFUSED) X(FAILS) X(FAILS_TWICE) X(OVER) X(COUNTED) X(PREDICATE) X(NO_LIFT)

typedef enum fz_feature {
#define FZ_FEATURE(name) FZ_##name##_FEATURE,
    FZ_FEATURES(FZ_FEATURE)
#undef FZ_FEATURE
        FZ_FEATURE_COUNT
} fz_feature;

typedef struct fz {
    bs_graph *g;
    int32_t seed;
    fz_flavour flavour;
    bool verbose, failed;
    int64_t cost, budget; /* multiplications of a run, about */
    fz_value values[FZ_VALUES];
    fz_domain domains[FZ_DOMAINS];
    fz_router routers[FZ_ROUTERS];
    fz_tensor tensors[FZ_TENSORS];
    fz_input inputs[FZ_INPUTS];
    const char *outputs[FZ_OUTPUTS];
    int32_t symbol_most[FZ_SYMBOLS], symbol_least[FZ_SYMBOLS];
    bs_dim symbols[FZ_SYMBOLS];
    int32_t n_values, n_domains, n_routers, n_tensors, n_inputs, n_outputs, n_symbols, n_names, n_ints, n_blocks;
    int32_t loops, routers_often; /* percent of what a domain gets */
    int32_t block;                /* the innermost that is open */
    int32_t around[24], n_around; /* those around it */
    int32_t n_special;            /* tensors with infinities or NaN */
    char names[FZ_NAMES][40];
    int32_t ints[FZ_INTS];
    int32_t states[4], n_states; /* values */
    uint8_t has[FZ_FEATURE_COUNT];
    bs_plan_desc plan; /* what changes results, and is the same in every variant */
    int32_t runs;
    int32_t faults; /* inputs that are out of range in the second run */
} fz;

static inline void fz_has(fz *z, fz_feature feature) { z->has[feature] = 1; }

/* A line of the graph in short form. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline void
fz_say(const fz *z, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (z->verbose) {
        printf("  ");
        vprintf(format, arguments);
        printf("\n");
    }
    va_end(arguments);
}

static inline const char *fz_name(fz *z, const char *stem)
{
    char *name = z->names[z->n_names % FZ_NAMES];
    if (z->n_names >= FZ_NAMES)
        fz_stop(__func__);
    snprintf(name, sizeof z->names[0], "%s%d", stem, z->n_names++);
    return name;
}

/* ------------------------------------------------------------------------------------------------ values */

static inline fz_dim fz_const(int64_t n) { return (fz_dim){(int32_t)n, 0}; }

/* floor((d mul + add) / div) */
static inline fz_dim fz_derive(fz_dim d, int32_t mul, int32_t add, int32_t div)
{
    const int32_t most = d.most * mul + add >= 0 ? (d.most * mul + add) / div : -1;
    if (mul == 1 && add == 0 && div == 1)
        return d;
    return (fz_dim){most, d.key == 0 ? 0 : fz_mix(fz_mix(fz_mix(d.key, (uint32_t)mul), (uint32_t)add), (uint32_t)div)};
}

static inline bool fz_same_dim(fz_dim a, fz_dim b) { return a.key == b.key && a.most == b.most; }

/* The value that v is, like another one, whose shape is changed afterwards. */
static inline fz_value *fz_add(fz *z, bs_value v, const fz_value *like)
{
    if (z->n_values >= FZ_VALUES)
        fz_stop(__func__);
    fz_value *made = &z->values[z->n_values];
    const fz_value copy = *like;
    *made = copy;
    made->v = v;
    made->read = made->idle = false;
    z->failed = z->failed || v.id == 0;
    z->n_values += v.id != 0;
    return made;
}

static inline int64_t fz_rows(const fz *z, const fz_value *x)
{
    const fz_domain *d = &z->domains[x->domain];
    return x->domain == 0 || (d->patches && x->rank == 3) ? 1 : d->most;
}

static inline int64_t fz_cell(const fz_value *x)
{
    int64_t n = 1;
    for (int32_t i = 0; i < x->rank; i++)
        n *= x->d[i].most;
    return n;
}

static inline int64_t fz_elements(const fz *z, const fz_value *x) { return fz_cell(x) * fz_rows(z, x); }

/* Whether so much more work is within what a graph may cost; then it counts. */
static inline bool fz_affords(fz *z, int64_t cost)
{
    if (z->failed || z->cost + cost > z->budget || z->n_values > FZ_VALUES - 60 || z->n_tensors > FZ_TENSORS - 30 ||
        z->n_names > FZ_NAMES - 60)
        return false;
    z->cost += cost;
    return true;
}

static inline bool fz_image_of_patches(const fz *z, const fz_value *x)
{
    return z->domains[x->domain].patches && x->rank == 3;
}
static inline bool fz_is_const(const fz_value *x, int32_t axis) { return x->d[axis].key == 0; }
static inline int32_t fz_last(const fz_value *x) { return x->rank ? x->d[x->rank - 1].most : 1; }
static inline bool fz_all_const(const fz_value *x)
{
    for (int32_t i = 0; i < x->rank; i++)
        if (!fz_is_const(x, i))
            return false;
    return true;
}

static inline bool fz_same_shape(const fz_value *a, const fz_value *b)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype && a->num == b->num && a->den == b->den;
    for (int32_t i = 0; same && i < a->rank; i++)
        same = fz_same_dim(a->d[i], b->d[i]);
    return same;
}

/* What may be picked: f32 lines are [..., C] with a constant C, images [C,H,W]. */
typedef bool (*fz_want)(const fz *z, const fz_value *x);

static inline bool fz_is_any(const fz *z, const fz_value *x) { return (void)z, (void)x, true; }
static inline bool fz_is_f32(const fz *z, const fz_value *x) { return (void)z, x->dtype == BS_F32; }
static inline bool fz_is_line(const fz *z, const fz_value *x)
{
    return x->dtype == BS_F32 && x->rank >= 1 && x->rank <= 4 && fz_is_const(x, x->rank - 1) && fz_last(x) <= 1024 &&
           !fz_image_of_patches(z, x);
}
static inline bool fz_is_vector(const fz *z, const fz_value *x) { return fz_is_line(z, x) && x->rank == 1; }
static inline bool fz_is_image(const fz *z, const fz_value *x)
{
    return (void)z, x->dtype == BS_F32 && x->rank == 3 && fz_is_const(x, 0);
}

/* A value of a domain, often a young one that nobody has read; NULL when there is none. domain -1: any. */
static inline fz_value *fz_pick(fz *z, int32_t domain, fz_want want)
{
    for (int32_t tries = 0; tries < 40 && z->n_values > 0; tries++) {
        const int32_t n = z->n_values, young = n < 10 ? n : 10;
        fz_value *x = &z->values[fz_chance(35) ? check_below(n) : n - 1 - check_below(young)];
        if ((domain < 0 || x->domain == domain) && !x->idle && want(z, x) && (!x->read || fz_chance(40)))
            return x;
    }
    for (int32_t i = z->n_values - 1; i >= 0; i--)
        if ((domain < 0 || z->values[i].domain == domain) && !z->values[i].idle && want(z, &z->values[i]))
            return &z->values[i];
    return NULL;
}

/* Another value of the same domain and shape, or NULL. */
static inline fz_value *fz_twin(fz *z, const fz_value *x)
{
    const int32_t n = z->n_values, start = check_below(n);
    for (int32_t i = 0; i < n; i++) {
        fz_value *t = &z->values[fz_chance(70) ? n - 1 - i : (start + i) % n];
        if (t != x && !t->idle && t->domain == x->domain && fz_same_shape(t, x))
            return t;
    }
    return NULL;
}

/* "f32 [8, 20, 20] of domain 2" of a value, for what is said. */
static inline const char *fz_text(const fz_value *x)
{
    static char texts[4][120];
    static int32_t next;
    char *text = texts[next++ & 3];
    int at = snprintf(text, sizeof texts[0], "v%d %s [", x->v.id, bs_dtype_name((bs_dtype)x->dtype));
    for (int32_t i = 0; i < x->rank; i++)
        at += snprintf(text + at, sizeof texts[0] - (size_t)at, "%s%s%d", i ? "," : "", x->d[i].key ? "<=" : "",
                       x->d[i].most);
    snprintf(text + at, sizeof texts[0] - (size_t)at, "] of domain %d", x->domain);
    return text;
}

#endif
