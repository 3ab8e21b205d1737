/* run.h - runs a frozen graph in one variant, and the hashes of what comes out.
 *
 * Owns: the arenas. Relies on inputs.h and weights.h. */
#ifndef BS_FROZEN_RUN_H
#define BS_FROZEN_RUN_H

#include "frozen/inputs.h"
#include "frozen/weights.h"

/* What must not change any result. */
typedef struct fz_variant {
    const char *name;
    int32_t order, threads, lanes, chunk, no_dataflow, no_fusion, paint;
    bool slots, strided, image, shared;
} fz_variant;

/* Hashes: of statuses and messages, of decisions, of each output over all runs. */
typedef struct fz_hash {
    uint32_t status, decisions, out[FZ_OUTPUTS];
    uint32_t codes; /* of statuses without messages */
    int32_t n_out;
    bs_status first; /* failure, of all statuses */
    int32_t phases, units;
    char message[300];
} fz_hash;

static _Alignas(64) uint8_t fz_graph_bytes[4 << 20], fz_plan_bytes[3][12 << 20], fz_persistent[2][32 << 20],
    fz_transient[2][48 << 20], fz_staging[2][12 << 20], fz_slots[16 << 20];
static _Alignas(64) uint8_t fz_image_bytes[4 << 20];

static inline void fz_arena(bs_arena *arena, const char *name, uint8_t *memory, size_t room, uint64_t bytes,
                            int32_t paint)
{
    if (bytes > room) {
        printf("the memory of the test is too small for %llu bytes of %s\n", (unsigned long long)bytes, name);
        exit(2);
    }
    memset(memory, paint, (size_t)bytes);
    bs_arena_init(arena, name, bytes ? memory : NULL, (size_t)bytes);
}

/* A message without numbers of nodes: what the library itself adds to a graph moves them. */
static inline uint32_t fz_mix_message(uint32_t h, const char *text)
{
    for (; *text; text++) {
        h = fz_mix(h, (uint32_t)(unsigned char)*text);
        if (strncmp(text, "(node ", 6) == 0)
            text += strspn(text + 6, "0123456789") + 5;
    }
    return h;
}

static bool fz_dumps; /* prints every failure and every element */

/* How something ended. Numbers of bytes are not held: of an arena that is too small only that it is. */
static inline void fz_ended(fz_hash *h, bs_status status, const bs_error *e)
{
    h->status = fz_mix(h->status, (uint32_t)status);
    h->codes = fz_mix(h->codes, (uint32_t)status);
    if (status == BS_OK)
        return;
    if (fz_dumps)
        printf("%s: %s\n", bs_status_name(status), e->message);
    if (status != BS_ERROR_ARENA)
        h->status = fz_mix_message(h->status, e->message);
    if (h->first == BS_OK) {
        h->first = status;
        snprintf(h->message, sizeof h->message, "%s: %s", bs_status_name(status), e->message);
    }
}

/* ------------------------------------------------------------------------------------------------------- results */

static inline uint32_t fz_mix_element(uint32_t h, const uint8_t *at, bs_dtype dtype)
{
    uint32_t bits = 0;
    memcpy(&bits, at, bs_dtype_bytes(dtype));
    if (dtype == BS_F32 && (bits & 0x7FFFFFFFu) > 0x7F800000u)
        bits = 0x7FC00000u; /* any NaN */
    return fz_mix(h, bits);
}

static inline void fz_dump(const char *name, const bs_buffer *b, const int64_t *dims, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        uint32_t bits = 0;
        float f;
        memcpy(&bits, fz_element(b, k, dims), bs_dtype_bytes(b->dtype));
        memcpy(&f, &bits, 4);
        if (b->dtype == BS_F32)
            printf("%s[%lld] %08x %.9g\n", name, (long long)k, bits, (double)f);
        else
            printf("%s[%lld] %08x\n", name, (long long)k, bits);
    }
}

static inline void fz_hash_output(fz_hash *h, const bs_session *s, const char *name, int32_t i, const bs_buffer *b)
{
    int64_t dims[BS_MAX_RANK] = {0}, n = 1;
    if (bs_output_extents(s, name, dims) != BS_OK) {
        h->out[i] = fz_mix(h->out[i], 77);
        return;
    }
    for (int32_t d = 0; d < b->rank; d++) {
        h->out[i] = fz_mix(h->out[i], (uint32_t)dims[d]);
        n *= dims[d];
    }
    if (fz_dumps)
        fz_dump(name, b, dims, n);
    for (int64_t k = 0; k < n; k++)
        h->out[i] = fz_mix_element(h->out[i], fz_element(b, k, dims), b->dtype);
}

static inline void fz_hash_decisions(fz_hash *h, const fz *z, const bs_session *s)
{
    for (int32_t r = 0; r < z->n_routers; r++) {
        bs_decision d;
        const bs_status status = bs_decision_get(s, z->routers[r].name, &d);
        h->decisions = fz_mix(h->decisions, (uint32_t)status);
        if (status != BS_OK)
            continue;
        h->decisions = fz_mix(fz_mix(h->decisions, (uint32_t)d.paths), (uint32_t)d.dropped);
        for (int32_t p = 0; p < d.paths; p++)
            h->decisions = fz_mix(h->decisions, (uint32_t)d.counts[p]);
        for (int32_t c = 0; c < d.cells; c++)
            h->decisions = fz_mix(h->decisions, (uint32_t)(uint16_t)d.chosen[c]);
    }
}

/* What callbacks decide: by how many scores are above a quarter, and the sign of the first. */
static inline bs_status fz_callback(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path)
{
    const int32_t paths = *(const int32_t *)user;
    for (int32_t r = 0; r < rows; r++) {
        int32_t n = 0;
        for (int32_t i = 0; i < scores->width; i++) {
            float f = 0;
            int32_t k = 0;
            const uint8_t *at = (const uint8_t *)scores->data + (r * scores->row_stride + i * scores->stride) *
                                                                    (ptrdiff_t)bs_dtype_bytes(scores->dtype);
            memcpy(scores->dtype == BS_F32 ? (void *)&f : (void *)&k, at, 4);
            n += scores->dtype == BS_F32 ? f > 0.25f : k > 0;
        }
        path[r] = n % (paths + 1) - 1;
    }
    return BS_OK;
}

static inline void fz_set_callbacks(fz *z, bs_session *s)
{
    for (int32_t r = 0; r < z->n_routers; r++)
        if (!z->routers[r].loop && z->routers[r].desc.protocol == BS_ROUTE_CALLBACK)
            bs_set_route(s, z->routers[r].name, fz_callback, &z->routers[r].desc.paths, NULL);
}

/* -------------------------------------------------------------------------------------------------------- a run */

static inline bs_status fz_bind_all(const fz *z, bs_session *s, const fz_variant *v, int32_t run, bs_buffer *outs,
                                    bs_error *e)
{
    int32_t symbols[FZ_SYMBOLS];
    fz_extents(z, run, symbols);
    for (int32_t i = 0; i < z->n_inputs; i++) {
        const bs_buffer b = fz_input_buffer(z, i, run, symbols, v->strided);
        const bs_status status = bs_bind(s, z->inputs[i].name, &b, e);
        if (status != BS_OK)
            return status;
    }
    for (int32_t i = 0; i < z->n_outputs; i++) {
        int64_t dims[BS_MAX_RANK] = {0};
        bs_port_facts facts;
        bs_status status = bs_bound_extents(s, z->outputs[i], dims, e);
        if (status == BS_OK)
            status = bs_graph_port_get(z->g, z->outputs[i], &facts);
        if (status != BS_OK)
            return status;
        outs[i] = fz_buffer(fz_out_bytes[i], facts.dtype, facts.rank, dims, v->strided, (i & 1) == 0);
        status = bs_bind(s, z->outputs[i], &outs[i], e);
        if (status != BS_OK)
            return status;
    }
    return BS_OK;
}

static inline void fz_one_run(fz *z, bs_session *s, const fz_variant *v, int32_t run, fz_hash *h)
{
    bs_buffer outs[FZ_OUTPUTS];
    bs_error e = {.status = BS_OK};
    bs_status status = fz_bind_all(z, s, v, run, outs, &e);
    if (status == BS_OK)
        status = bs_run(s, &e);
    fz_ended(h, status, &e);
    if (status != BS_OK) {
        bs_reset_state(s);
        return;
    }
    fz_hash_decisions(h, z, s);
    for (int32_t i = 0; i < z->n_outputs; i++)
        fz_hash_output(h, s, z->outputs[i], i, &outs[i]);
}

/* The plan of a variant, with as few slots as it can do with. */
static inline const bs_plan *fz_plan(const fz *z, const fz_variant *v, bs_tier tier, fz_hash *h, bs_error *e)
{
    bs_plan_desc d = z->plan;
    bs_arena arena;
    d.tier = (int32_t)tier, d.order = v->order, d.threads = v->threads, d.no_dataflow = v->no_dataflow;
    d.no_fusion = v->no_fusion, d.lanes = v->lanes, d.chunk_bytes = v->chunk;
    bs_stream_plan all = {0};
    if (v->slots) {
        d.slot_bytes = UINT64_MAX;
        bs_arena_init(&arena, "plan", fz_plan_bytes[0], sizeof fz_plan_bytes[0]);
        const bs_plan *ask = bs_plan_create(&arena, NULL, z->g, &d, e);
        if (!ask)
            return NULL;
        bs_plan_stream_get(ask, &all);
        d.slot_bytes = all.units > 0 ? all.least_bytes : 0;
    }
    h->units = all.units, h->phases = all.phases;
    bs_arena_init(&arena, "plan", fz_plan_bytes[1], sizeof fz_plan_bytes[1]);
    const bs_plan *plan = bs_plan_create(&arena, NULL, z->g, &d, e);
    if (!plan || !v->image)
        return plan;
    const size_t bytes = bs_plan_image_bytes(plan);
    if (bytes > sizeof fz_image_bytes || bs_plan_save(plan, fz_image_bytes, bytes, e) != BS_OK)
        return NULL;
    bs_arena_init(&arena, "plan", fz_plan_bytes[2], sizeof fz_plan_bytes[2]);
    return bs_plan_open(&arena, NULL, z->g, fz_image_bytes, bytes, e);
}

static inline bs_session *fz_session(const fz *z, const bs_plan *plan, const fz_variant *v, int32_t which,
                                     const bs_session *first, bs_error *e)
{
    static bs_memory memories[2];
    bs_memory *m = &memories[which];
    bs_sizes sizes;
    bs_stream_plan streamed;
    bs_plan_sizes(plan, &sizes);
    bs_plan_stream_get(plan, &streamed);
    memset(m, 0, sizeof *m);
    fz_arena(&m->persistent, "persistent", fz_persistent[which], sizeof fz_persistent[0], sizes.persistent, v->paint);
    fz_arena(&m->transient, "transient", fz_transient[which], sizeof fz_transient[0], sizes.transient, v->paint);
    fz_arena(&m->staging, "staging", fz_staging[which], sizeof fz_staging[0], sizes.staging, v->paint);
    fz_arena(&m->slots, "slots", fz_slots, sizeof fz_slots, sizes.slots, v->paint);
    const bs_session_desc desc = {.weights = fz_weights(z, streamed.units > 0 && streamed.slot_bytes > 0),
                                  .weights_of = first};
    return bs_session_create(m, plan, &desc, e);
}

/* All runs of the graph in one variant. */
static inline void fz_run(fz *z, const fz_variant *v, bs_tier tier, fz_hash *h)
{
    bs_error e = {.status = BS_OK};
    memset(h, 0, sizeof *h);
    h->status = h->decisions = 1;
    for (int32_t i = 0; i < FZ_OUTPUTS; i++)
        h->out[i] = 2;
    h->n_out = z->n_outputs;
    const bs_status built = bs_graph_check(z->g, &e);
    fz_ended(h, built, &e);
    if (built != BS_OK)
        return;
    const bs_plan *plan = fz_plan(z, v, tier, h, &e);
    bs_session *first = plan && v->shared ? fz_session(z, plan, v, 1, NULL, &e) : NULL;
    bs_session *s = plan && (first || !v->shared) ? fz_session(z, plan, v, 0, first, &e) : NULL;
    if (s) {
        fz_set_callbacks(z, s);
        for (int32_t run = 0; run < z->runs; run++)
            fz_one_run(z, s, v, run, h);
    } else {
        fz_ended(h, e.status, &e);
    }
    bs_session_close(s);
    bs_session_close(first);
}

#endif
