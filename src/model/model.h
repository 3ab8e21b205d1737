/* model/model.h - a model file: the graph and the weights that a GGUF file carries.
 * Owns the meaning of the "brainstorm.*" keys and of records. Relies on model/gguf.h for bytes, on graph/graph.h and
 * graph/op.h to rebuild the graph.
 * Must never trust the file, nor know how a graph is planned or run. The format is described in docs/format.md. */
#ifndef BS_MODEL_H
#define BS_MODEL_H

#include "model/gguf.h"
#include "ops/table.h"

#if !defined(BS_NO_MODEL)

/* Limits of a file are those of a graph. The bytes of a file limit its content long before, and nothing takes time
 * that grows with the square of it. */
#define BS_MODEL_MAX_NODES BS_MAX_ENTRIES
#define BS_MODEL_MAX_OPERANDS (4 * BS_MAX_ENTRIES)
#define BS_MODEL_MAX_WEIGHTS BS_MAX_ENTRIES
#define BS_MODEL_MAX_BLOCKS BS_MAX_ENTRIES
#define BS_MODEL_MAX_SYMBOLS 65535 /* highest symbol number in a dimension */
#define BS_MODEL_MAX_PARAMS 32

/* Head of a record, from version 2 on: identifies the record, so that a streamed read of anything else is noticed. */
#define BS_MODEL_HEAD_BYTES 256
#define BS_MODEL_HEAD_MAGIC 0x43525342u /* "BSRC" */
#define BS_MODEL_HEAD_VERSION 1u
#define BS_MODEL_PAGE 4096 /* records of files that can be streamed start at multiples of it */

/* A range of nodes and its record. Nodes count from 0 here, as in the file. */
typedef struct bs_model_block {
    bs_bytes name_at; /* where its name lies, the string's length included */
    bs_bytes offset, bytes; /* the head included */
    int32_t first_node, end_node;
    int32_t first_weight, end_weight;
    uint32_t crc32; /* of what follows the head */
} bs_model_block;

typedef struct bs_model_weight {
    uint64_t hash;
    bs_bytes name_at;
    bs_bytes offset, bytes; /* absolute in the file */
    int64_t dim[BS_MAX_RANK];
    int32_t dtype, rank, block;
    int32_t by_hash; /* entry k: index of the weight with the k-th smallest hash */
} bs_model_weight;

typedef struct bs_model_symbol {
    bs_bytes name_at;
    int64_t maximum;
} bs_model_symbol;

struct bs_model {
    bs_gguf gguf;
    const bs_platform *platform; /* of a file that bs_model_close must close; NULL for other sources */
    int64_t file;
    int64_t stream_file; /* a second handle, for streaming; -1: the first one serves */
    uint32_t stream_alignment; /* alignment of reads from stream_file; 1: buffered */
    bool buffered; /* stream_file is not used */
    char where[48]; /* prefix of messages: the end of the file's path, "memory", "reader" */
    char name[BS_MAX_NAME];
    uint64_t file_id;
    uint32_t version, opset, scale, n_values;
    int32_t n_nodes, n_operands, n_blocks, n_weights, n_symbols;
    int32_t n_routers, n_domains; /* most of them in the graph */
    int32_t n_lifted; /* most scatters that lifting adds */
    bs_bytes text_bytes; /* bytes that names and parameters will take in the graph */
    bs_model_block *blocks;
    bs_model_weight *weights;
    bs_model_symbol *symbols;
};

/* One stored node, decoded; parameters that it lacks are 0. */
typedef struct bs_model_node {
    int32_t op, block, n_in, n_params;
    const int32_t *in; /* where the walk puts operands; NULL: there is no room */
    int32_t params[BS_MODEL_MAX_PARAMS];
    char name[BS_MAX_NAME];
} bs_model_node;

/* Refuses an array of which something is left when all entries have been read. */
bool bs_model_used_up(const bs_cursor *cursor, const char *key, uint64_t each, bs_error *error);

/* Seven cursors that walk the arrays of nodes side by side. */
typedef struct bs_model_walk {
    bs_cursor op, name, in_count, in, param_count, param, block;
    int32_t index; /* of the node read last; -1 before the first */
    int32_t *operands; /* room for the operands of one node; NULL: they are skipped */
    int32_t room;
} bs_model_walk;

/* NULL: the handle is of no weight of this file. */
static inline const bs_model_weight *bs_model_weight_of(const bs_model *model, const bs_weight_info *info)
{
    return info->handle < (uint64_t)model->n_weights ? &model->weights[info->handle] : NULL;
}

/* Bytes of the head that each record of this file has. */
static inline uint32_t bs_model_head_bytes(const bs_model *model)
{
    return model->version >= 2 ? BS_MODEL_HEAD_BYTES : 0;
}

/* Most bytes that bs_model_index takes of an arena on top of GGUF's own. False: the header cannot be read. */
bool bs_model_need(const bs_source *source, bs_bytes *bytes, bs_error *error);
/* Reads and checks all keys; model->gguf is open. The index goes to `arena`. */
bool bs_model_index(bs_model *model, bs_arena *arena, bs_error *error);

/* Prefixes a message, if there is one, with the file. Returns `sound`. */
bool bs_model_at_file(const bs_model *model, bool sound, bs_error *error);

/* Fills in the streaming functions of a source, if the file can be streamed. */
void bs_model_stream_source(const bs_model *model, bs_weights *weights);
/* What offset, size and buffer of a fetch must be multiples of; 0 when the file cannot be streamed. */
uint32_t bs_model_fetch_alignment(const bs_model *model);

void bs_model_walk_begin(const bs_model *model, bs_model_walk *walk);
bool bs_model_walk_next(bs_model_walk *walk, bs_model_node *node, bs_error *error);
#endif

#endif
