/* weights.h - the weights of a frozen graph: parts of the pools, by name; and the same as a storage that weights are
 * streamed from, a record for each block.
 *
 * Relies on graph.h. Must never write while a session runs: reader threads fetch. */
#ifndef BS_FROZEN_WEIGHTS_H
#define BS_FROZEN_WEIGHTS_H

#include "frozen/graph.h"

/* ------------------------------------------------------------------------------------------------------ blocks */

static inline void fz_block_begin(fz *z, const char *stem)
{
    const char *name = fz_name(z, stem);
    z->around[z->n_around++] = z->block;
    z->block = ++z->n_blocks;
    bs_block_begin(z->g, name);
    fz_say(z, "block %s", name);
}

static inline void fz_block_end(fz *z)
{
    z->block = z->around[--z->n_around];
    bs_block_end(z->g);
    fz_say(z, "end of block");
}

/* Now and then a layer is a block of its own: weights that can come and go. */
static inline bool fz_own_block(fz *z)
{
    const bool own = z->n_around < 20 && z->n_blocks < FZ_BLOCKS - 4 && fz_chance(25);
    if (own)
        fz_block_begin(z, "b");
    return own;
}

static inline void fz_own_block_end(fz *z, bool own)
{
    if (own)
        fz_block_end(z);
}

/* ----------------------------------------------------------------------------------------------------- tensors */

/* How large weights are whose sums have so many products. */
static inline int32_t fz_shift_of(int64_t products)
{
    int32_t shift = 0;
    for (; products > 4 && shift < FZ_SHIFTS - 1; products /= 4)
        shift++;
    return shift;
}

static inline fz_tensor *fz_tensor_add(fz *z, const char *name, const char *suffix, bs_dtype dtype, int32_t rank,
                                       const int64_t *dim)
{
    char text[40];
    snprintf(text, sizeof text, "%s%s%s", name, *suffix ? "." : "", suffix);
    for (int32_t i = 0; i < z->n_tensors; i++)
        if (strcmp(z->tensors[i].name, text) == 0)
            return &z->tensors[i];
    if (z->n_tensors >= FZ_TENSORS)
        fz_stop(__func__);
    int32_t block = z->block; /* all weights of a layer lie in one record */
    for (int32_t i = 0; i < z->n_tensors && *suffix; i++)
        if (strncmp(z->tensors[i].name, text, strlen(name) + 1) == 0)
            block = z->tensors[i].block;
    fz_tensor *t = &z->tensors[z->n_tensors++];
    char *kept = z->names[z->n_names++ % FZ_NAMES];
    memcpy(kept, text, sizeof text);
    *t = (fz_tensor){kept, {kept, dtype, rank, {0}, NULL}, block, 0};
    memcpy(t->t.dim, dim, (size_t)rank * sizeof *dim);
    return t;
}

static inline int64_t fz_tensor_elements(const bs_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

/* A small tensor with an infinity or a NaN in it, of graphs whose numbers have some. */
static inline const float *fz_special(fz *z, const float *from, int64_t n)
{
    enum { MOST = 512 };
    static float kept[4][MOST];
    if (n > MOST || z->n_special >= 4 || (z->flavour != FZ_INFINITE && z->flavour != FZ_NAN) || !fz_chance(8))
        return from;
    float *to = kept[z->n_special++];
    memcpy(to, from, (size_t)n * sizeof *to);
    to[check_below((int32_t)n)] = fz_from_bits(z->flavour == FZ_NAN ? 0x7FC00000u : 0xFF800000u);
    return to;
}

/* A tensor of floats, sometimes of sixteen bits each. shift: how small. */
static inline void fz_weight_tensor(fz *z, const char *name, const char *suffix, int32_t rank, const int64_t *dim,
                                    int32_t shift)
{
    const int32_t before = z->n_tensors;
    fz_tensor *t = fz_tensor_add(z, name, suffix, BS_F32, rank, dim);
    const uint32_t place = fz_mix_text(17, t->name) % FZ_PLACES;
    if (z->n_tensors == before)
        return; /* another layer has it */
    const int64_t n = fz_tensor_elements(&t->t);
    if (n > FZ_POOL)
        fz_stop(__func__);
    if (fz_chance(6)) {
        t->t.dtype = fz_chance(50) ? BS_F16 : BS_BF16;
        t->t.data = (t->t.dtype == BS_F16 ? fz_pool_f16(shift) : fz_pool_bf16(shift)) + place;
        fz_has(z, FZ_HALF_FEATURE);
    } else {
        t->t.data = fz_special(z, fz_pool(shift) + place, n);
    }
}

static inline void fz_line_tensor(fz *z, const char *name, const char *suffix, int64_t n, int32_t shift)
{
    fz_weight_tensor(z, name, suffix, 1, &n, shift);
}

static inline void fz_positive_tensor(fz *z, const char *name, const char *suffix, int64_t n)
{
    fz_tensor *t = fz_tensor_add(z, name, suffix, BS_F32, 1, &n);
    t->t.data = fz_pool_positive() + fz_mix_text(17, t->name) % FZ_PLACES;
}

/* Whole numbers, each below `below`. */
static inline void fz_int_tensor(fz *z, const char *name, const char *suffix, int32_t n, int32_t below)
{
    const int64_t dim = n;
    fz_tensor *t = fz_tensor_add(z, name, suffix, BS_I32, 1, &dim);
    if (z->n_ints + n > FZ_INTS)
        fz_stop(__func__);
    t->t.data = z->ints + z->n_ints;
    for (int32_t i = 0; i < n; i++)
        z->ints[z->n_ints++] = check_below(below);
}

/* A root value out of the weights, f32 of these extents, or i32 [n] below a number. */
static inline fz_value *fz_constant(fz *z, int32_t rank, const int32_t *dim)
{
    const char *name = fz_name(z, "k");
    int64_t dims[4] = {0};
    bs_shape shape = {rank, {0}};
    fz_value x = {.dtype = BS_F32, .rank = rank, .num = 1, .den = 1, .scale = 2};
    for (int32_t i = 0; i < rank; i++) {
        shape.dim[i] = dims[i] = dim[i];
        x.d[i] = fz_const(dim[i]);
    }
    fz_weight_tensor(z, name, "", rank, dims, 0);
    fz_value *made = fz_add(z, bs_constant(z->g, name, BS_F32, shape), &x);
    fz_say(z, "%s = constant %s", fz_text(made), name);
    return made;
}

static inline fz_value *fz_indices(fz *z, int32_t n, int32_t below)
{
    const char *name = fz_name(z, "i");
    const fz_value x = {.dtype = BS_I32, .rank = 1, .num = 1, .den = 1, .scale = 10, .d = {{n, 0}}};
    fz_int_tensor(z, name, "", n, below);
    fz_value *made = fz_add(z, bs_constant(z->g, name, BS_I32, BS_SHAPE1(n)), &x);
    made->idle = true;
    fz_say(z, "%s = constant %s, below %d", fz_text(made), name, below);
    return made;
}

/* A name for a layer with a weight [out, in, ...] of this rank: a new one, or that of another layer of these
 * extents. */
static inline const char *fz_layer(fz *z, const char *stem, int32_t rank, const int64_t *dim, int64_t products)
{
    const size_t letters = strlen(stem);
    for (int32_t i = z->n_tensors - 1; i >= 0 && fz_chance(20); i--) {
        const fz_tensor *t = &z->tensors[i];
        const char *end = strstr(t->name, ".weight");
        if (!end || strncmp(t->name, stem, letters) != 0 || t->t.rank != rank || end[7] || t->name[letters] > '9' ||
            memcmp(t->t.dim, dim, (size_t)rank * sizeof *dim) != 0)
            continue;
        char *name = z->names[z->n_names++];
        snprintf(name, sizeof z->names[0], "%.*s", (int)(end - t->name), t->name);
        fz_has(z, FZ_SHARED_FEATURE);
        return name;
    }
    const char *name = fz_name(z, stem);
    fz_weight_tensor(z, name, "weight", rank, dim, fz_shift_of(products));
    return name;
}

/* --------------------------------------------------------------------------------------------------- as a source */

/* Records lie behind each other, on multiples of 4096, each with the weights of one block. */
static inline void fz_lay_out(fz *z, bs_record *records)
{
    uint64_t at = 0;
    for (int32_t b = 0; b <= z->n_blocks; b++) {
        const uint64_t begin = at;
        for (int32_t i = 0; i < z->n_tensors; i++)
            if (z->tensors[i].block == b) {
                z->tensors[i].offset = at;
                at += (uint64_t)fz_tensor_elements(&z->tensors[i].t) * bs_dtype_bytes(z->tensors[i].t.dtype);
                at = (at + 3) & ~(uint64_t)3;
            }
        records[b] = (bs_record){begin, at - begin, 0, 0};
        at = (at + 4095) & ~(uint64_t)4095;
    }
}

static bs_record fz_records[FZ_BLOCKS];

static inline bs_status fz_find(const void *user, const char *name, bs_weight_info *info)
{
    const fz *z = user;
    for (int32_t i = 0; i < z->n_tensors; i++) {
        const bs_tensor *t = &z->tensors[i].t;
        if (strcmp(t->name, name) != 0)
            continue;
        *info = (bs_weight_info){t->dtype, t->rank, {0}, 0, (uint64_t)i};
        memcpy(info->dim, t->dim, sizeof info->dim);
        info->bytes = (uint64_t)fz_tensor_elements(t) * bs_dtype_bytes(t->dtype);
        return BS_OK;
    }
    return BS_ERROR_WEIGHTS;
}

static inline bs_status fz_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer,
                                size_t bytes)
{
    const fz *z = user;
    memcpy(buffer, (const uint8_t *)z->tensors[info->handle].t.data + offset, bytes);
    return BS_OK;
}

static inline const void *fz_map(const void *user, const bs_weight_info *info)
{
    return ((const fz *)user)->tensors[info->handle].t.data;
}

static inline bs_status fz_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    const fz *z = user;
    *block = z->tensors[info->handle].block;
    *offset = z->tensors[info->handle].offset;
    return BS_OK;
}

static inline bs_status fz_record(const void *user, int32_t block, bs_record *record)
{
    if (block < 0 || block > ((const fz *)user)->n_blocks)
        return BS_ERROR_ARGUMENT;
    *record = fz_records[block];
    return BS_OK;
}

/* Bytes of the storage, put together from the tensors that lie there. */
static inline bs_status fz_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const fz *z = user;
    memset(buffer, 0xEE, bytes);
    for (int32_t i = 0; i < z->n_tensors; i++) {
        const bs_tensor *t = &z->tensors[i].t;
        const uint64_t begin = z->tensors[i].offset,
                       end = begin + (uint64_t)fz_tensor_elements(t) * bs_dtype_bytes(t->dtype),
                       low = offset > begin ? offset : begin, high = offset + bytes < end ? offset + bytes : end;
        if (low < high)
            memcpy((uint8_t *)buffer + (low - offset), (const uint8_t *)t->data + (low - begin), (size_t)(high - low));
    }
    return BS_OK;
}

static inline bs_weights fz_weights(const fz *z, bool streams)
{
    bs_weights w = {.user = z, .find = fz_find, .read = fz_read, .map = streams ? NULL : fz_map};
    if (streams)
        w.locate = fz_locate, w.record = fz_record, w.fetch = fz_fetch, w.fetch_alignment = 1;
    return w;
}

#endif
