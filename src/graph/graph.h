/* graph/graph.h - the graph: dimensions, domains, values, nodes, blocks, routers.
 * Owns the data structures and the primitives that add to them. Relies on base/base.h. Must never know how a graph is
 * planned or run. Every entry refers to lower ids only, so one pass in order is always enough. */
#ifndef BS_GRAPH_H
#define BS_GRAPH_H

#include "base/debug.h"

/* A dimension is a constant, a symbol with a maximum, or floor((parent * mul + add) / div) of another.
 * Equal expressions are one entry, so two dimensions are equal in every run exactly when their ids are equal.
 * A symbol is given by the inputs of a run, or it comes from data: then it is known when the node that makes it has
 * run, and until then it stands at its maximum. Only what comes from data may be 0. */
typedef enum bs_dim_kind { BS_DIM_CONST, BS_DIM_SYMBOL, BS_DIM_DERIVED } bs_dim_kind;
typedef int32_t bs_dim_id;

typedef struct bs_dim_info {
    bs_dim_kind kind;
    bs_dim_id parent;
    int32_t mul, add, div; /* at most 2^30, like `maximum` */
    int32_t maximum;       /* the value of a constant */
    int32_t name;    /* offset in text; 0 none */
    int32_t symbols; /* number of symbols up to this entry, itself included */
    int32_t node;    /* a symbol from data, or what is derived of one: the node that makes it; else 0 */
    int32_t child[2];
} bs_dim_info;

/* Domain 0 is the root: one row. */
typedef enum bs_domain_kind {
    BS_DOMAIN_ROOT,
    BS_DOMAIN_ROWS, /* rows of a root tensor, `rows` of them; or cells of a frame, ceil(H/size) * ceil(W/size) */
    BS_DOMAIN_PATH  /* the rows that a router sent along one path */
} bs_domain_kind;

typedef struct bs_domain {
    bs_domain_kind kind;
    int32_t parent;
    int32_t router, path;     /* PATH */
    bs_dim_id rows;           /* ROWS that are not patches; else -1 */
    int32_t lengths;          /* ROWS in segments: value of an input i32 [segments], the rows of each; else 0 */
    bs_dim_id height, width;  /* ROWS that are patches: extents of the frame; else -1 */
    int32_t size;             /* patches: cell size in pixels of that frame; else 0 */
    int64_t max_rows;
    int32_t patches;          /* the domain of patches that it is or descends from; -1 none */
    int32_t depth;            /* how many domains it is in */
    int32_t top;              /* the domain without a router that it is or descends from */
    /* PATH: the outermost PATH domain that it is or descends from, if no loop is between it and the rows; else 0 */
    int32_t outermost;
    int32_t routed;           /* PATH: the outermost path of a router, not of a loop, that it is or is in; else 0 */
    int32_t loop;             /* the innermost loop in whose body it is (its router); 0 none */
    int32_t next;             /* PATH: another PATH domain of its router; 0 none */
    int32_t child[2];
} bs_domain;

static inline bool bs_domain_is_patches(const bs_domain *domain) { return domain->size > 0; }
static inline bool bs_domain_is_segments(const bs_domain *domain) { return domain->lengths != 0; }

/* A value. In a patch domain `dims` are the extents of the whole frame, as in the untiled network; the cell is
 * scale x domain size pixels of it. */
typedef struct bs_value_info {
    bs_dtype dtype;
    int16_t rank;
    bool image; /* [channels, height, width] (bs_value_set_rank) */
    bool reshaped; /* it has the elements of operand 0 of its node, in the same order */
    bs_dim_id dims[BS_MAX_AXES];
    int32_t domain;
    int32_t node; /* the node that makes it */
    /* how many values there are up to it, itself included, without those that only lifting made (ops/lift.c): the
     * number that a model file has for it */
    int32_t number;
    int32_t only; /* the path to which all that read it so far scatter it; 0: nothing does, -1: it is read elsewhere */
    /* extent of this value's frame = frame of the domain x scale_num / scale_den (patch domains, rank 3) */
    int32_t scale_num, scale_den;
} bs_value_info;

/* Gives a value its rank, and says whether it is an image: of three dimensions it is. Nothing else goes by that. */
static inline void bs_value_set_rank(bs_value_info *value, int32_t rank)
{
    value->rank = (int16_t)rank;
    value->image = rank == 3;
}

typedef struct bs_node {
    int32_t op; /* index into the op table */
    int32_t n_in, n_out;
    int32_t n_read; /* of n_in: the others only tell the domain */
    int32_t in; /* offset of n_in value ids in the operand pool */
    int32_t first_out; /* value id; outputs are consecutive */
    int32_t domain;    /* of the outputs; the node runs on its rows */
    int32_t block;
    int32_t router; /* route, scatter, gather: the router; else 0 */
    int32_t path;   /* scatter */
    int32_t writer; /* state: the node that writes it; carried value: what it is after a trip; 0 none */
    int32_t number; /* its place among the nodes that were built: for messages */
    int32_t same;   /* the first node that computes what it does, in the same domain; 0: itself */
    int32_t merged; /* in a graph as it is planned: how many nodes it stands for beside itself */
    int32_t built_in; /* the domain in which it was built; it may run in another one (ops/lift.c, plan/dataflow.c) */
    int32_t makes;  /* 1 + the symbol that is known when this has run; 0 none */
    int32_t child[2]; /* in the tree of names, for ops that are named; of others in that of equal work */
    int32_t tail, n_tail; /* in a graph as it is planned: steps that follow its kernel, in the table of tails */
    const void *params; /* the descriptor, name resolved into the graph's text */
} bs_node;

/* A node that has become part of the one whose result it changes: a step of that one's tail. */
typedef struct bs_tail {
    bs_node node;  /* its result is that of the whole, and so is operand `at`, which it changes in place */
    int32_t at;
    int32_t other; /* which operand of the whole the first of its others is, in their order; -1: it has none */
    int32_t own;   /* how many operands the whole has without its tail */
    bool keeps;    /* it leaves what it changes as it was: steps from this one on read that too, as an operand that is
                    * no other */
    bs_dtype from, to; /* what it changes, what its result is */
} bs_tail;

#define BS_MAX_TAIL 10      /* steps; */
#define BS_MAX_CHAIN 4      /* of a device */
#define BS_MAX_TAIL_OTHERS 2 /* operands of all of them together */

typedef struct bs_block {
    int32_t name; /* offset in text */
    int32_t parent;
    int32_t first_node, end_node;
} bs_block;

/* What is computed before a loop if it is the same in every trip: nothing; what can refuse no data, where a row may
 * make no trip; all, where each makes one for sure. Other routers: nothing. */
typedef enum bs_lifts { BS_LIFTS_NOTHING, BS_LIFTS_SOUND, BS_LIFTS_ALL } bs_lifts;

/* Of a router that is a loop: its one path is the body, decided again after each trip. */
typedef struct bs_loop_info {
    int32_t bound;      /* most trips; 0: the router is no loop */
    int32_t count;      /* value i32 [1]: trips of each row; 0 none */
    bs_dim_id trips;    /* the dimension that is the number of trips; -1 none */
    bool in_turn;       /* a row makes one trip, the one that its count is the number of, from 1 */
    bool grows;         /* a row makes one trip, and as many rows for the next one as its predicate says */
    bs_lifts lifts;
    int32_t again;      /* the node that decides after a trip, with which the body ends; 0: it has not ended yet */
    int32_t begun_before; /* the loop that was begun before it and had not ended; 0 none */
    int32_t n_carried;  /* carried values that nothing follows yet */
} bs_loop_info;

typedef struct bs_router_info {
    int32_t node; /* the route node */
    int32_t domain; /* domain of the scores: the parent of its paths' domains */
    int32_t score;  /* value id */
    int32_t knob;   /* value id or 0 */
    int32_t max_paths_per_cell;
    int32_t first_path; /* number of paths of all routers before it: where its own begin in tables of all paths */
    int32_t path_domains; /* the first of its PATH domains; 0 none */
    const bs_route_desc *desc;
    bs_loop_info loop;
} bs_router_info;

#define BS_MAX_LOOP_DEPTH 8 /* loops in loops */

/* Limit of every table: ids, and small multiples of counts, stay far below 2^31. */
#define BS_MAX_ENTRIES (1 << 24)
#define BS_MAX_TEXT (1 << 30)
#define BS_MAX_ALL_PATHS (1 << 28) /* paths of all routers of a graph together */

/* What is looked up while a graph is built (equal dimensions, equal domains, names) is kept in digital search trees:
 * the children of an entry, for a next hash bit of 0 and 1, are later entries of the same table. So a tree needs no
 * table of its own, and no file can make it deeper than a hash has bits, except by names of equal hashes. */
struct bs_graph {
    uint32_t mark;
    bs_status status;
    bs_error error;
    /* not counting entry 0 */
    int32_t max_nodes, max_values, max_text, max_operands, max_domains, max_dims, max_blocks, max_routers;
    int32_t n_nodes, n_values, n_text, n_operands, n_domains, n_dims, n_blocks, n_routers;
    int32_t n_cell_nodes; /* nodes that do not run on the root domain, or did not before they were lifted */
    int32_t n_paths;    /* of all routers */
    int32_t max_paths;  /* most paths of one router */
    int32_t first_name; /* root of the tree of names; 0 none */
    int32_t first_work; /* root of the tree of equal work; 0 none */
    int32_t n_same;     /* nodes that compute what an earlier one does */
    int32_t current_block;
    int32_t makes;      /* not 0: an extent comes from data, so a value may have no elements */
    int32_t open_loop;  /* the loop begun last of those that have not ended; 0 none */
    /* while a node is added: its op and name, with which messages begin; else NULL */
    const char *adding, *adding_name;
    bs_node *nodes;       /* [0] unused */
    bs_value_info *values; /* [0] unused */
    int32_t *operands;
    bs_domain *domains; /* [0]: the root; a node makes at most one */
    char *text; /* names and parameters; offset 0 is "" */
    bs_dim_info *dims;
    bs_block *blocks; /* [0]: "main", everything outside all blocks */
    bs_router_info *routers; /* [0] unused */
    const bs_tail *tails; /* in a graph as it is planned: of all nodes */
    int32_t n_tails;
};

/* Whether any extent is known only when a run begins. */
static inline bool bs_graph_varies(const bs_graph *graph) { return graph->dims[graph->n_dims - 1].symbols > 0; }

/* Records the first failure of building; later ones are ignored. While a node is being added the message begins with
 * its op and name. Returns false always. */
#define bs_graph_fail(graph, status, ...) bs_refused(bs_graph_set_failure(graph, status, __VA_ARGS__))
bs_status bs_graph_set_failure(bs_graph *graph, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
#if defined(BS_NO_MESSAGES)
bs_status bs_graph_set_failure_bare(bs_graph *graph, bs_status status);
#define bs_graph_set_failure(graph, status, ...) \
    BS_TOLD((bs_graph_set_failure)(graph, status, __VA_ARGS__), bs_graph_set_failure_bare(graph, status))
#endif
/* The recorded failure alone. Unlike bs_graph_check it accepts a block that has not ended yet. */
bs_status bs_graph_failure(const bs_graph *graph, bs_error *error);

/* Dimensions. All return -1 on failure (recorded). */
bs_dim_id bs_dim_const(bs_graph *graph, int64_t n);
bs_dim_id bs_dim_derive(bs_graph *graph, bs_dim_id parent, int64_t mul, int64_t add, int64_t div); /* div: 1 .. 2^30 */
int64_t bs_common_divisor(int64_t a, int64_t b); /* the greatest; its sign is not defined */
bs_dim_id bs_dim_resolve(bs_graph *graph, bs_dim dim); /* from a public handle */
/* A new symbol that the node to be added next makes; `name` lies in the graph's text. */
bs_dim_id bs_dim_from_data(bs_graph *graph, const char *name, int64_t maximum);
bool bs_dim_is_known(const bs_graph *graph, bs_dim dim); /* whether a handle is valid; records nothing */
static inline int64_t bs_dim_max(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].maximum; }
static inline bool bs_dim_is_const(const bs_graph *graph, bs_dim_id d) { return graph->dims[d].kind == BS_DIM_CONST; }
/* The node that says how many rows a domain has; 0: inputs do, or a router. */
static inline int32_t bs_domain_maker(const bs_graph *graph, int32_t domain)
{
    const bs_domain *d = &graph->domains[domain];
    return d->kind == BS_DOMAIN_ROWS && d->rows >= 0 ? graph->dims[d->rows].node : 0;
}
/* The product of its dimensions, each at its maximum; and the bytes of these elements. */
bs_bytes bs_value_elements(const bs_graph *graph, const bs_value_info *value);
static inline bs_bytes bs_value_bytes(const bs_graph *graph, const bs_value_info *value)
{
    return bs_bytes_product(bs_value_elements(graph, value), bs_bytes_of(bs_dtype_bytes(value->dtype)));
}
/* Text that is cut at the end of its buffer, while its full length is still counted. (graph/text.c) */
typedef struct bs_text {
    char *text;
    size_t bytes, used;
} bs_text;
void bs_text_add(bs_text *text, const char *format, ...) BS_PRINTF(2, 3);
/* "640", "H<=1080", "(H<=1080*2)": for messages. */
const char *bs_dim_text(const bs_graph *graph, bs_dim_id d, char *buffer, size_t bytes);
/* "[32, 64, W<=1920]" */
const char *bs_value_text(const bs_graph *graph, const bs_value_info *value, char *buffer, size_t bytes);
/* "the root", "rows [N<=40]", "patches of 16 [H<=64, W<=48]", "path 1 of \"route\"" */
const char *bs_domain_text(const bs_graph *graph, int32_t domain, char *buffer, size_t bytes);

/* Whether `router` is a loop; and whether the rows of a domain are those of its body. */
static inline bool bs_router_loops(const bs_graph *graph, int32_t router)
{
    return graph->routers[router].loop.bound > 0;
}
bool bs_domain_in_loop(const bs_graph *graph, int32_t domain, int32_t router);

static inline const bs_value_info *bs_value_get(const bs_graph *graph, int32_t id) { return &graph->values[id]; }
static inline const int32_t *bs_node_in(const bs_graph *graph, const bs_node *node)
{
    return graph->operands + node->in;
}
/* How many operands its own kernel has. */
static inline int32_t bs_node_own_in(const bs_graph *graph, const bs_node *node)
{
    return node->n_tail ? graph->tails[node->tail].own : node->n_in;
}
static inline const char *bs_node_name(const bs_node *node)
{
    return node->params ? *(const char *const *)node->params : "";
}

/* Names and parameters live in the graph's text. NULL on failure (recorded). */
const char *bs_graph_text(bs_graph *graph, const char *text);
const void *bs_graph_keep(bs_graph *graph, const void *bytes, size_t count); /* a copy, aligned for pointers */
int32_t bs_graph_domain(bs_graph *graph, const bs_domain *domain); /* an equal one, or this one added; -1 on failure */
/* The node of this name among ops that are named: a router, or (false) an input, a state or an output. 0: there is
 * none. */
int32_t bs_graph_named(const bs_graph *graph, const char *name, bool router);
static inline int32_t bs_graph_router_named(const bs_graph *graph, const char *name) /* 0: there is none */
{
    return name ? graph->nodes[bs_graph_named(graph, name, true)].router : 0;
}

/* The value of this number. One that does not exist: an id that does not. */
int32_t bs_graph_value_numbered(const bs_graph *graph, int32_t number);

/* Where the operands of the next node will be. A caller without a table of its own may write `count` of them there and
 * pass that address on. NULL: there is no room, and adding the node will report it. */
static inline int32_t *bs_graph_operands(bs_graph *graph, int32_t count)
{
    return count <= graph->max_operands - graph->n_operands ? graph->operands + graph->n_operands : NULL;
}

#endif
