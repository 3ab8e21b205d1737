/* model.h - a model file: the graph and the weights that a GGUF file carries.
 * Owns the meaning of the "brainstorm.*" keys. Relies on gguf.h for bytes, on graph.h and op.h to rebuild the graph.
 * Must never trust the file, nor know how a graph is planned or run. The format is described in docs/format.md. */
#ifndef BS_MODEL_H
#define BS_MODEL_H

#include "gguf.h"
#include "op.h"

/* Caps of a file: beyond any network for a board, and small enough that what is quadratic in them does not matter. */
#define BS_MODEL_MAX_NODES 8192
#define BS_MODEL_MAX_OPERANDS 65536
#define BS_MODEL_MAX_WEIGHTS 8192
#define BS_MODEL_MAX_SYMBOLS 64
#define BS_MODEL_MAX_PARAMS 32

/* A range of nodes and its record. Nodes count from 0 here, as in the file. */
typedef struct bs_model_block {
    uint64_t name_at; /* of the string, its length included */
    uint64_t offset, bytes;
    int32_t first_node, end_node;
    int32_t first_weight, end_weight;
    uint32_t crc32;
} bs_model_block;

typedef struct bs_model_weight {
    uint64_t hash, name_at;
    uint64_t offset, bytes; /* absolute */
    int64_t dim[BS_MAX_RANK];
    int32_t dtype, rank, block;
} bs_model_weight;

typedef struct bs_model_symbol {
    uint64_t name_at;
    int64_t maximum;
} bs_model_symbol;

struct bs_model {
    bs_gguf gguf;
    const bs_platform *platform; /* of a file that bs_model_close closes; NULL for other sources */
    int64_t file;
    char name[BS_MAX_NAME];
    int32_t opset, scale;
    int32_t n_nodes, n_values, n_operands, n_blocks, n_weights, n_symbols;
    uint64_t text_bytes; /* that names and parameters will take in the graph */
    bs_model_block *blocks;
    bs_model_weight *weights;
    bs_model_symbol symbols[BS_MODEL_MAX_SYMBOLS];
};

/* One stored node, decoded. */
typedef struct bs_model_node {
    int32_t op, block, n_in, n_params;
    int32_t in[BS_MAX_PATHS + 1];
    int32_t params[BS_MODEL_MAX_PARAMS];
    char name[BS_MAX_NAME];
} bs_model_node;

/* Seven cursors that walk the arrays of nodes abreast. */
typedef struct bs_model_walk {
    bs_cursor op, name, in_count, in, param_count, param, block;
    int32_t index; /* of the node read last; -1 before the first */
} bs_model_walk;

void bs_model_walk_begin(const bs_model *model, bs_model_walk *walk);
bs_status bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error);

#endif
