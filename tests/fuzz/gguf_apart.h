/* gguf_apart.h - a model file taken apart, and put together again: keys, tensors, data; and nodes out of the keys that
 * hold them.
 *
 * Owns: the parts, and memory for new ones. Relies on: the byte layout of GGUF 3; ops/table.h for how many values an op
 * makes. Must never: read beyond its input, whatever that is. */
#ifndef GGUF_APART_H
#define GGUF_APART_H

#include "fuzz.h"
#include "ops/table.h"

enum { GM_KEYS = 96, GM_TENSORS = 48, GM_NODES = 400, GM_BLOCKS = 40, GM_OPERANDS = 65, GM_HEAP = 1 << 17 };
enum { GM_U32 = 4, GM_I32 = 5, GM_STRING = 8, GM_ARRAY = 9, GM_U64 = 10, GM_I64 = 11 };

typedef struct gm_span {
    const uint8_t *at;
    size_t n;
} gm_span;

typedef struct gm_key {
    gm_span name, value; /* value: an array's elements, or the bytes of what is none */
    uint32_t type, element;
    uint64_t count;
} gm_key;

typedef struct gm_tensor {
    gm_span name;
    uint32_t rank, type;
    uint64_t dim[4], offset;
} gm_tensor;

typedef struct gm_node {
    gm_span op, name;
    int32_t n_in, n_params, block;
    int32_t in[GM_OPERANDS], params[32];
} gm_node;

typedef struct gm_file {
    gm_key keys[GM_KEYS];
    gm_tensor tensors[GM_TENSORS];
    gm_node nodes[GM_NODES];
    int32_t n_keys, n_tensors, n_nodes;
    int64_t more_keys, more_tensors; /* by how much the header lies */
    gm_span data;
    uint8_t heap[GM_HEAP];
    size_t used;
    fuzz_dice dice;
} gm_file;

/* --- taking apart ---------------------------------------------------------------------------------------- */

static inline bool gm_take(gm_span *from, void *to, size_t n)
{
    if (from->n < n)
        return false;
    memcpy(to, from->at, n);
    from->at += n;
    from->n -= n;
    return true;
}

static inline bool gm_skip(gm_span *from, uint64_t n, gm_span *skipped)
{
    if (from->n < n)
        return false;
    *skipped = (gm_span){from->at, (size_t)n};
    from->at += n;
    from->n -= (size_t)n;
    return true;
}

static inline bool gm_text(gm_span *from, gm_span *text)
{
    uint64_t n;
    return gm_take(from, &n, 8) && gm_skip(from, n, text);
}

static inline size_t gm_width(uint32_t type)
{
    static const uint8_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof widths ? widths[type] : 0;
}

/* Bytes of `count` values. */
static inline bool gm_values(gm_span *from, uint32_t type, uint64_t count, gm_span *value)
{
    gm_span text;
    const uint8_t *const first = from->at;
    if (type != GM_STRING)
        return gm_width(type) > 0 && count < from->n && gm_skip(from, count * gm_width(type), value);
    for (uint64_t i = 0; i < count; i++)
        if (!gm_text(from, &text))
            return false;
    *value = (gm_span){first, (size_t)(from->at - first)};
    return true;
}

static inline bool gm_read_key(gm_span *from, gm_key *key)
{
    memset(key, 0, sizeof *key);
    key->count = 1;
    if (!gm_text(from, &key->name) || !gm_take(from, &key->type, 4))
        return false;
    key->element = key->type;
    if (key->type == GM_ARRAY && (!gm_take(from, &key->element, 4) || !gm_take(from, &key->count, 8)))
        return false;
    return key->element != GM_ARRAY && gm_values(from, key->element, key->count, &key->value);
}

static inline bool gm_read_tensor(gm_span *from, gm_tensor *t)
{
    memset(t, 0, sizeof *t);
    if (!gm_text(from, &t->name) || !gm_take(from, &t->rank, 4) || t->rank > 4)
        return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!gm_take(from, &t->dim[i], 8))
            return false;
    return gm_take(from, &t->type, 4) && gm_take(from, &t->offset, 8);
}

static inline gm_key *gm_find(gm_file *f, const char *name)
{
    for (int32_t k = 0; k < f->n_keys; k++)
        if (f->keys[k].name.n == strlen(name) && memcmp(f->keys[k].name.at, name, strlen(name)) == 0)
            return &f->keys[k];
    return NULL;
}

static inline size_t gm_alignment(gm_file *f)
{
    const gm_key *key = gm_find(f, "general.alignment");
    uint32_t n = 32;
    if (key && key->type == GM_U32)
        memcpy(&n, key->value.at, 4);
    return n >= 8 && n <= 65536 && (n & (n - 1)) == 0 ? n : 32;
}

static inline bool gm_open(gm_file *f, const uint8_t *data, size_t n)
{
    gm_span from = {data, n};
    uint32_t magic[2];
    uint64_t counts[2];
    f->n_keys = f->n_tensors = f->n_nodes = 0;
    f->more_keys = f->more_tensors = 0;
    f->used = 0;
    if (!gm_take(&from, magic, 8) || memcmp(magic, "GGUF", 4) != 0 || !gm_take(&from, counts, 16) ||
        counts[0] > GM_TENSORS || counts[1] > GM_KEYS - 8)
        return false;
    while (f->n_keys < (int32_t)counts[1])
        if (!gm_read_key(&from, &f->keys[f->n_keys++]))
            return false;
    while (f->n_tensors < (int32_t)counts[0])
        if (!gm_read_tensor(&from, &f->tensors[f->n_tensors++]))
            return false;
    const size_t at = (size_t)(from.at - data), alignment = gm_alignment(f),
                 begin = (at + alignment - 1) / alignment * alignment;
    f->data = begin < n ? (gm_span){data + begin, n - begin} : (gm_span){data, 0};
    return true;
}

/* --- putting together ------------------------------------------------------------------------------------- */

typedef struct gm_out {
    uint8_t *data;
    size_t n, most;
    bool full;
} gm_out;

static inline void gm_put(gm_out *o, const void *data, size_t n)
{
    if (o->most - o->n < n)
        o->full = true;
    if (o->full || n == 0)
        return;
    memcpy(o->data + o->n, data, n);
    o->n += n;
}

static inline void gm_put_u32(gm_out *o, uint32_t n) { gm_put(o, &n, 4); }
static inline void gm_put_u64(gm_out *o, uint64_t n) { gm_put(o, &n, 8); }
static inline void gm_put_text(gm_out *o, gm_span text)
{
    gm_put_u64(o, text.n);
    gm_put(o, text.at, text.n);
}

static inline void gm_put_key(gm_out *o, const gm_key *key)
{
    gm_put_text(o, key->name);
    gm_put_u32(o, key->type);
    if (key->type == GM_ARRAY) {
        gm_put_u32(o, key->element);
        gm_put_u64(o, key->count);
    }
    gm_put(o, key->value.at, key->value.n);
}

static inline void gm_put_tensor(gm_out *o, const gm_tensor *t)
{
    gm_put_text(o, t->name);
    gm_put_u32(o, t->rank);
    for (uint32_t i = 0; i < t->rank && i < 4; i++)
        gm_put_u64(o, t->dim[i]);
    gm_put_u32(o, t->type);
    gm_put_u64(o, t->offset);
}

/* Bytes written; 0 when they do not fit. */
CHECK_WRAPS static inline size_t gm_write(gm_file *f, uint8_t *data, size_t most)
{
    gm_out o = {data, 0, most, false};
    const uint8_t zero = 0;
    gm_put(&o, "GGUF\3\0\0\0", 8);
    gm_put_u64(&o, (uint64_t)f->n_tensors + (uint64_t)f->more_tensors);
    gm_put_u64(&o, (uint64_t)f->n_keys + (uint64_t)f->more_keys);
    for (int32_t k = 0; k < f->n_keys; k++)
        gm_put_key(&o, &f->keys[k]);
    for (int32_t t = 0; t < f->n_tensors; t++)
        gm_put_tensor(&o, &f->tensors[t]);
    while (!o.full && o.n % gm_alignment(f) != 0)
        gm_put(&o, &zero, 1);
    gm_put(&o, f->data.at, f->data.n);
    return o.full ? 0 : o.n;
}

/* --- memory for what is new -------------------------------------------------------------------------------- */

static inline uint8_t *gm_room(gm_file *f, size_t n)
{
    if (GM_HEAP - f->used < n)
        return NULL;
    f->used += n;
    return f->heap + f->used - n;
}

static inline gm_span gm_keep(gm_file *f, const void *data, size_t n)
{
    uint8_t *room = gm_room(f, n);
    if (room && n)
        memcpy(room, data, n);
    return (gm_span){room ? room : f->heap, room ? n : 0};
}

static inline gm_span gm_keep_text(gm_file *f, const char *text) { return gm_keep(f, text, strlen(text)); }

/* The value of a key, where it may be written. NULL: there is none of that type. */
static inline uint8_t *gm_own(gm_file *f, const char *name, uint32_t element, int32_t *count)
{
    gm_key *key = gm_find(f, name);
    *count = 0;
    if (!key || key->type != GM_ARRAY || key->element != element)
        return NULL;
    key->value = gm_keep(f, key->value.at, key->value.n);
    *count = (int32_t)(key->value.n / gm_width(element));
    return (uint8_t *)(uintptr_t)key->value.at;
}

static inline void gm_set(gm_file *f, const char *name, uint32_t element, uint64_t count, gm_span value)
{
    gm_key *key = gm_find(f, name);
    if (!key && f->n_keys == GM_KEYS)
        return;
    if (!key) {
        key = &f->keys[f->n_keys++];
        key->name = gm_keep_text(f, name);
    }
    key->type = GM_ARRAY;
    key->element = element;
    key->count = count;
    key->value = value;
    if (count == 0) /* is left out */
        *key = f->keys[--f->n_keys];
}

/* --- nodes ------------------------------------------------------------------------------------------------- */

static inline gm_span gm_elements(gm_file *f, const char *name, uint32_t element)
{
    const gm_key *key = gm_find(f, name);
    return key && key->type == GM_ARRAY && key->element == element ? key->value : (gm_span){f->heap, 0};
}

static inline bool gm_read_list(gm_span *counts, gm_span *list, int32_t most, int32_t *n, int32_t *to)
{
    return gm_take(counts, n, 4) && *n >= 0 && *n <= most && gm_take(list, to, 4 * (size_t)*n);
}

static inline bool gm_read_nodes(gm_file *f)
{
    gm_span op = gm_elements(f, "brainstorm.node.op", GM_STRING),
            name = gm_elements(f, "brainstorm.node.name", GM_STRING),
            n_in = gm_elements(f, "brainstorm.node.inputs.count", GM_I32),
            in = gm_elements(f, "brainstorm.node.inputs", GM_I32),
            n_params = gm_elements(f, "brainstorm.node.params.count", GM_I32),
            params = gm_elements(f, "brainstorm.node.params", GM_I32),
            block = gm_elements(f, "brainstorm.node.block", GM_I32);
    f->n_nodes = 0;
    while (op.n > 0 && f->n_nodes < GM_NODES) {
        gm_node *node = &f->nodes[f->n_nodes++];
        if (!gm_text(&op, &node->op) || !gm_text(&name, &node->name) ||
            !gm_read_list(&n_in, &in, GM_OPERANDS, &node->n_in, node->in) ||
            !gm_read_list(&n_params, &params, 32, &node->n_params, node->params) || !gm_take(&block, &node->block, 4))
            return false;
    }
    return f->n_nodes > 0 && op.n == 0;
}

static inline const bs_op *gm_op(const gm_node *node)
{
    char name[64] = "";
    memcpy(name, node->op.at, node->op.n < 63 ? node->op.n : 63);
    return bs_op_get(bs_op_index(name));
}

static inline int32_t gm_outputs(const gm_node *node)
{
    static const char *const none[] = {"output", "state_write", "state_append", "route", "look_ahead"};
    const bs_op *op = gm_op(node);
    for (size_t i = 0; op && i < sizeof none / sizeof *none; i++)
        if (strcmp(op->name, none[i]) == 0)
            return 0;
    if (op && strcmp(op->name, "unique") == 0)
        return 4;
    return op && (strcmp(op->name, "topk") == 0 || strcmp(op->name, "lstm") == 0) ? 2 : 1;
}

/* The number of the first value that node `index` makes. */
static inline int32_t gm_first_value(const gm_file *f, int32_t index)
{
    int32_t value = 1;
    for (int32_t n = 0; n < index; n++)
        value += gm_outputs(&f->nodes[n]);
    return value;
}

typedef void (*gm_put_field)(gm_out *o, const gm_node *node);
static inline void gm_field_op(gm_out *o, const gm_node *n) { gm_put_text(o, n->op); }
static inline void gm_field_name(gm_out *o, const gm_node *n) { gm_put_text(o, n->name); }
static inline void gm_field_n_in(gm_out *o, const gm_node *n) { gm_put_u32(o, (uint32_t)n->n_in); }
static inline void gm_field_in(gm_out *o, const gm_node *n) { gm_put(o, n->in, 4 * (size_t)n->n_in); }
static inline void gm_field_n_params(gm_out *o, const gm_node *n) { gm_put_u32(o, (uint32_t)n->n_params); }
static inline void gm_field_params(gm_out *o, const gm_node *n) { gm_put(o, n->params, 4 * (size_t)n->n_params); }
static inline void gm_field_block(gm_out *o, const gm_node *n) { gm_put_u32(o, (uint32_t)n->block); }

static inline void gm_write_field(gm_file *f, const char *name, uint32_t element, gm_put_field put)
{
    gm_out o = {f->heap + f->used, 0, GM_HEAP - f->used, false};
    for (int32_t n = 0; n < f->n_nodes; n++)
        put(&o, &f->nodes[n]);
    f->used += o.n;
    gm_set(f, name, element,
           element == GM_STRING || put == gm_field_n_in || put == gm_field_n_params || put == gm_field_block
               ? (uint64_t)f->n_nodes
               : o.n / 4,
           (gm_span){o.data, o.n});
}

static inline void gm_write_nodes(gm_file *f)
{
    gm_write_field(f, "brainstorm.node.op", GM_STRING, gm_field_op);
    gm_write_field(f, "brainstorm.node.name", GM_STRING, gm_field_name);
    gm_write_field(f, "brainstorm.node.inputs.count", GM_I32, gm_field_n_in);
    gm_write_field(f, "brainstorm.node.inputs", GM_I32, gm_field_in);
    gm_write_field(f, "brainstorm.node.params.count", GM_I32, gm_field_n_params);
    gm_write_field(f, "brainstorm.node.params", GM_I32, gm_field_params);
    gm_write_field(f, "brainstorm.node.block", GM_I32, gm_field_block);
    gm_key *count = gm_find(f, "brainstorm.value.count");
    const uint32_t values = (uint32_t)gm_first_value(f, f->n_nodes) - 1;
    if (count && count->type == GM_U32)
        count->value = gm_keep(f, &values, 4);
}

#endif
