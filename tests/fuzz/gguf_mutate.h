/* gguf_mutate.h - changes a model file as somebody would who knows the format: a node more, another operand, a count
 * that lies. What a lie does not concern is put right again, so that most of what comes out gets far.
 *
 * Relies on: gguf_apart.h; ops/table.h for the names of ops and how many parameters they have. */
#ifndef GGUF_MUTATE_H
#define GGUF_MUTATE_H

#include "gguf_apart.h"

/* --- nodes ------------------------------------------------------------------------------------------------- */

/* Ranges of blocks, and operands, when a node comes or goes at `index`. */
static inline void gm_shift(gm_file *f, int32_t index, int32_t by, int32_t value, int32_t values)
{
    static const char *const ends[] = {"brainstorm.block.first_node", "brainstorm.block.end_node"};
    for (int32_t e = 0; e < 2; e++) {
        int32_t n;
        uint8_t *at = gm_own(f, ends[e], GM_I32, &n);
        for (int32_t i = 0; at && i < n; i++) {
            int32_t node;
            memcpy(&node, at + 4 * i, 4);
            if (node > index && node < INT32_MAX)
                node += by;
            memcpy(at + 4 * i, &node, 4);
        }
    }
    for (int32_t n = index; n < f->n_nodes; n++)
        for (int32_t i = 0; i < f->nodes[n].n_in; i++)
            if (f->nodes[n].in[i] >= value && f->nodes[n].in[i] < INT32_MAX - 2)
                f->nodes[n].in[i] += values;
}

static inline void gm_remove_node(gm_file *f, int32_t index)
{
    const int32_t value = gm_first_value(f, index), values = gm_outputs(&f->nodes[index]);
    memmove(&f->nodes[index], &f->nodes[index + 1], (size_t)(f->n_nodes - index - 1) * sizeof *f->nodes);
    f->n_nodes--;
    gm_shift(f, index, -1, value, -values);
}

static inline void gm_name_node(gm_file *f, gm_node *node)
{
    char name[16];
    snprintf(name, sizeof name, "f%u", (unsigned)fuzz_pick(&f->dice, 1000));
    node->name = gm_keep_text(f, name);
}

/* Parameters that an op often takes, or anything. */
static inline void gm_new_params(gm_file *f, gm_node *node, const bs_op *op)
{
    node->n_params = op->n_fields < 32 ? op->n_fields : 32;
    for (int32_t i = 0; i < node->n_params; i++)
        node->params[i] = fuzz_chance(&f->dice, 35) ? fuzz_odd_i32(&f->dice)
                          : i == 0                  ? (int32_t)fuzz_pick(&f->dice, 4)
                                                    : 0;
}

/* A new node on late values; later ones take what it makes, so that it is not dead. */
static inline void gm_insert_node(gm_file *f, int32_t index)
{
    const int32_t value = gm_first_value(f, index);
    if (f->n_nodes == GM_NODES || value < 2)
        return;
    memmove(&f->nodes[index + 1], &f->nodes[index], (size_t)(f->n_nodes - index) * sizeof *f->nodes);
    f->n_nodes++;
    gm_node *node = &f->nodes[index];
    const bs_op *op = bs_op_get((int32_t)fuzz_pick(&f->dice, (size_t)bs_op_count()));
    const int32_t block = index + 1 < f->n_nodes ? f->nodes[index + 1].block : 0,
                  most = bs_min_i32(bs_op_max_in(op), 8);
    memset(node, 0, sizeof *node);
    node->block = block;
    node->op = gm_keep_text(f, op->name);
    gm_name_node(f, node);
    node->n_in = op->min_in + (int32_t)fuzz_pick(&f->dice, (size_t)(most > op->min_in ? most - op->min_in + 1 : 1));
    for (int32_t i = 0; i < node->n_in; i++)
        node->in[i] = value - 1 - (int32_t)fuzz_pick(&f->dice, (size_t)(value - 1 < 12 ? value - 1 : 12));
    gm_new_params(f, node, op);
    gm_shift(f, index, 1, value, gm_outputs(node));
    for (int32_t n = index + 1; n < f->n_nodes && node->n_in && gm_outputs(node); n++)
        for (int32_t i = 0; i < f->nodes[n].n_in; i++)
            if (f->nodes[n].in[i] == node->in[0] && fuzz_chance(&f->dice, 60))
                f->nodes[n].in[i] = value;
}

static inline void gm_repeat_node(gm_file *f, int32_t index)
{
    if (f->n_nodes == GM_NODES)
        return;
    const gm_node copy = f->nodes[index];
    const int32_t value = gm_first_value(f, index);
    memmove(&f->nodes[index + 1], &f->nodes[index], (size_t)(f->n_nodes - index) * sizeof *f->nodes);
    f->n_nodes++;
    gm_shift(f, index + 1, 1, value, gm_outputs(&copy));
    if (fuzz_chance(&f->dice, 70))
        gm_name_node(f, &f->nodes[index]);
}

static inline void gm_edit_node(gm_file *f)
{
    const int32_t index = (int32_t)fuzz_pick(&f->dice, (size_t)f->n_nodes), value = gm_first_value(f, index);
    gm_node *node = &f->nodes[index];
    const bs_op *op;
    switch (fuzz_pick(&f->dice, 12)) {
    case 0: gm_remove_node(f, index); break;
    case 1:
    case 2: gm_insert_node(f, index); break;
    case 3: gm_repeat_node(f, index); break;
    case 4:
        op = bs_op_get((int32_t)fuzz_pick(&f->dice, (size_t)bs_op_count()));
        node->op = gm_keep_text(f, op->name);
        if (fuzz_chance(&f->dice, 80))
            gm_new_params(f, node, op);
        break;
    case 5: node->block = (int32_t)fuzz_pick(&f->dice, 5) - 1; break;
    case 6:
        node->name = fuzz_chance(&f->dice, 50) ? f->nodes[fuzz_pick(&f->dice, (size_t)f->n_nodes)].name : node->name;
        break;
    case 7:
    case 8:
        if (node->n_in)
            node->in[fuzz_pick(&f->dice, (size_t)node->n_in)] =
                fuzz_chance(&f->dice, 90) ? (int32_t)fuzz_pick(&f->dice, (size_t)value) : fuzz_odd_i32(&f->dice);
        if (fuzz_chance(&f->dice, 10))
            node->n_in = (int32_t)fuzz_pick(&f->dice, 9);
        break;
    default:
        if (node->n_params)
            node->params[fuzz_pick(&f->dice, (size_t)node->n_params)] = fuzz_odd_i32(&f->dice);
        if (fuzz_chance(&f->dice, 5))
            node->n_params = (int32_t)fuzz_pick(&f->dice, 17);
    }
}

/* --- keys, tensors, data ------------------------------------------------------------------------------------ */

static inline void gm_edit_bytes(gm_file *f, gm_span *value, size_t width)
{
    *value = gm_keep(f, value->at, value->n);
    const size_t n = width ? value->n / width : 0;
    const uint64_t odd = fuzz_chance(&f->dice, 50) ? (uint64_t)(int64_t)fuzz_odd_i32(&f->dice) : fuzz_odd_u64(&f->dice);
    if (n > 0)
        memcpy((uint8_t *)(uintptr_t)value->at + fuzz_pick(&f->dice, n) * width, &odd, width);
}

/* Strings in an array: a byte or a length. */
static inline void gm_edit_text(gm_file *f, gm_span *value)
{
    *value = gm_keep(f, value->at, value->n);
    if (value->n > 0)
        ((uint8_t *)(uintptr_t)value->at)[fuzz_pick(&f->dice, value->n)] = (uint8_t)fuzz_roll(&f->dice);
}

CHECK_WRAPS static inline void gm_edit_key(gm_file *f)
{
    const int32_t index = (int32_t)fuzz_pick(&f->dice, (size_t)f->n_keys);
    gm_key *key = &f->keys[index];
    switch (fuzz_pick(&f->dice, 10)) {
    case 0:
        if (f->n_keys < GM_KEYS)
            f->keys[f->n_keys++] = *key;
        break;
    case 1: f->keys[index] = f->keys[--f->n_keys]; break;
    case 2: key->type = (uint32_t)fuzz_pick(&f->dice, 14); break;
    case 3:
        key->count = fuzz_chance(&f->dice, 50) ? key->count + fuzz_pick(&f->dice, 5) - 2 : fuzz_odd_u64(&f->dice);
        break;
    case 4: /* shorter, and consistent */
        if (key->type == GM_ARRAY && key->element != GM_STRING && key->count > 1) {
            key->count--;
            key->value.n -= gm_width(key->element);
        }
        break;
    case 5: key->element = (uint32_t)fuzz_pick(&f->dice, 14); break;
    case 6: gm_edit_text(f, &key->name); break;
    default:
        if (key->element == GM_STRING)
            gm_edit_text(f, &key->value);
        else
            gm_edit_bytes(f, &key->value, gm_width(key->element));
    }
}

static inline void gm_edit_tensor(gm_file *f)
{
    gm_tensor *t = &f->tensors[fuzz_pick(&f->dice, (size_t)f->n_tensors)];
    switch (fuzz_pick(&f->dice, 7)) {
    case 0: t->dim[fuzz_pick(&f->dice, 4)] = fuzz_odd_u64(&f->dice); break;
    case 1:
        t->offset = fuzz_chance(&f->dice, 50) ? fuzz_odd_u64(&f->dice)
                                              : t->offset + gm_alignment(f) * (fuzz_pick(&f->dice, 3) - 1u);
        break;
    case 2: t->type = (uint32_t)fuzz_pick(&f->dice, 40); break;
    case 3: t->rank = (uint32_t)fuzz_pick(&f->dice, 6); break;
    case 4: gm_edit_text(f, &t->name); break;
    case 5:
        if (f->n_tensors < GM_TENSORS)
            f->tensors[f->n_tensors++] = *t;
        break;
    default: *t = f->tensors[--f->n_tensors];
    }
}

/* Changes the file in one way, sometimes in several; false when it is none that it can read. */
static inline bool gm_mutate(gm_file *f, const uint8_t *data, size_t n, uint32_t seed)
{
    if (!gm_open(f, data, n))
        return false;
    f->dice = fuzz_dice_of(seed);
    const uint32_t kind = fuzz_pick(&f->dice, 100), edits = 1 + fuzz_pick(&f->dice, fuzz_chance(&f->dice, 30) ? 5 : 1);
    if (kind < 60 && gm_read_nodes(f)) {
        for (uint32_t i = 0; i < edits && f->n_nodes > 0; i++)
            gm_edit_node(f);
        gm_write_nodes(f);
        return true;
    }
    for (uint32_t i = 0; i < edits; i++) {
        if (kind < 85 && f->n_keys)
            gm_edit_key(f);
        else if (kind < 93 && f->n_tensors)
            gm_edit_tensor(f);
        else if (kind < 96)
            gm_edit_bytes(f, &f->data, 4);
        else if (kind < 98)
            f->more_keys = fuzz_chance(&f->dice, 50) ? (int64_t)fuzz_odd_u64(&f->dice)
                                                     : (int64_t)fuzz_pick(&f->dice, 5) - 2;
        else
            f->more_tensors = fuzz_chance(&f->dice, 50) ? (int64_t)fuzz_odd_u64(&f->dice)
                                                        : (int64_t)fuzz_pick(&f->dice, 5) - 2;
    }
    return true;
}

#endif
