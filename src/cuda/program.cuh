/* program.cuh - what a block of threads sees of a session: its steps, and where the rows of an operand are.
 *
 * The device's side of run/operands.c: rows are found through the plan's places and the decisions; views cost nothing
 * but the lookup. All threads of a block compute the same here.
 * Relies on plan/device.h and elements.cuh. Must never write anything but the status and margins. */
#ifndef BS_CUDA_PROGRAM
#define BS_CUDA_PROGRAM

#include "cuda/elements.cuh"

extern "C" {
#include "ops/act.h"
}

/* The argument of every kernel. */
struct bs_cu_program {
    const bs_device_step *steps;
    bs_device_operand *operands;
    bs_device_domain *domains;
    const bs_device_decision *decision;
    const bs_device_part *parts;
    const uint32_t *given; /* bits of gathers: which paths give a value */
    const uint64_t *units; /* addresses of prepared weights; [0] the resident ones */
    uint8_t *decisions;    /* what was decided for all rows */
    uint8_t *contexts;     /* what is decided in tiles: context_bytes a tile */
    uint64_t context_bytes;
    uint8_t *scratch; /* rows of tiles, scratch_bytes each, when they do not fit in shared memory */
    uint64_t scratch_bytes;
    uint8_t *kernel_scratch; /* of a step that stands alone (step.cuh), for all of its blocks */
    float *guesses;        /* [paths of a router] of the last look_ahead, and room for its lists */
    int32_t *status;       /* [BS_DEVICE_STATUS] */
    const int32_t *dims;   /* [dimensions] of the run, as it begins */
    const bs_device_bound *bound;
    int32_t *extents; /* [n_dims] as they are known so far; NULL: no step makes any */
    const bs_device_dim *derived;
    const bs_device_join *joins;
    int32_t n_operands, n_domains, n_dims, n_joins;
};

/* A step, its first operands and its router's decision, copied to shared memory before it runs: all that is asked of
 * them afterwards is near, and one read away from where they were found. */
enum { BS_CU_RECORD_OUT = 4, BS_CU_RECORD_IN = 6, BS_CU_RECORD_WORDS = 16 /* of 16 bytes, at most, of each */ };
struct bs_cu_record {
    bs_device_operand out[BS_CU_RECORD_OUT], in[BS_CU_RECORD_IN];
    bs_device_step step;
    bs_device_decision decision;
    bs_cu_program program; /* for the steps of a tile: functions that are called do not see the kernel's argument */
};
static_assert(sizeof(bs_cu_record) <= BS_DEVICE_RECORD && BS_DEVICE_SHARED % BS_ALIGNMENT == 0,
              "a record has its place between the workspace and the rows of a tile");
static_assert(sizeof(bs_device_operand) % 16 == 0 && sizeof(bs_device_operand) <= 16 * BS_CU_RECORD_WORDS &&
                  sizeof(bs_device_step) % 16 == 0 && sizeof(bs_device_step) <= 16 * BS_CU_RECORD_WORDS &&
                  sizeof(bs_device_decision) % 16 == 0 && sizeof(bs_device_decision) <= 16 * BS_CU_RECORD_WORDS,
              "records are copied by words of 16 bytes");

/* What a block works on: all rows (domain -1), or a tile of the rows of a part. */
struct bs_cu_tile {
    const bs_cu_program *program;
    const bs_cu_record *record; /* of the step that runs */
    uint8_t *context;  /* decisions made in this tile */
    uint8_t *scratch;  /* rows of this tile, in shared memory as a rule */
    uint8_t *workspace; /* the kernel's own, in shared memory, 16-byte aligned */
    int32_t domain, first, rows;
};

/* A work item of a step: share `part` of `parts` of the elements of rows row .. end - 1. */
struct bs_cu_work {
    int32_t row, end, part, parts;
};

/* The arrays of a decision. */
struct bs_cu_decision {
    int32_t paths, per_row;
    int32_t *chosen, *counts, *offsets, *ids, *inverse, *work;
    float *gates, *price;
};

struct bs_cu_rect {
    int32_t y0, y1, x0, x1;
};

/* One row of an operand. data: the element [0,0,0] of its core. An image is [C,H,W] by the strides; its rectangle is
 * what is present (of an output: to be computed), in core coordinates, as in bs_operand. All else is whole. */
struct bs_cu_view : bs_cu_rect {
    uint8_t *data;
    int32_t dim[BS_MAX_AXES];
    int32_t stride[BS_MAX_AXES]; /* in elements */
    int32_t dtype, rank;
    bool image;
    int32_t frame_y, frame_x, frame_h, frame_w;
    int32_t margin, max_h, max_w;
};

__device__ __forceinline__ int32_t bs_cu_index_at(const bs_cu_view &which, int64_t at)
{
    return bs_read_once(reinterpret_cast<const int32_t *>(which.data) + at);
}

/* Whether this run has failed, as this thread sees it. */
__device__ __forceinline__ bool bs_cu_has_failed(const bs_cu_program &program)
{
    return BS_CU_PEEK(&program.status[BS_DEVICE_FAILED]) != 0;
}

/* Whether this run has failed: its decisions must not be followed then. Another block may fail at this moment, so the
 * threads of a block agree on one answer. */
__device__ __forceinline__ bool bs_cu_failed(const bs_cu_program &program)
{
    return __syncthreads_or(bs_cu_has_failed(program)) != 0;
}

__device__ __forceinline__ void bs_cu_fail(const bs_cu_tile &t, const bs_device_step *s, bs_status status)
{
    if (atomicCAS(&t.program->status[BS_DEVICE_FAILED], 0, (int)status) == 0)
        t.program->status[BS_DEVICE_NODE] = s->node;
}

/* Whether a block works on all rows. A launch of steps says so by a constant, so nothing is left of the question. */
__device__ __forceinline__ bool bs_cu_is_at_top(const bs_cu_tile &t) { return t.domain < 0; }

/* Operand i of a step that may have many: further ones than the record has. */
__device__ __forceinline__ const bs_device_operand *bs_cu_in_of_many(const bs_cu_tile &t, const bs_device_step *s,
                                                                     int32_t i)
{
    return t.program->operands + s->operands + i;
}

/* The same where i is a constant. */
__device__ __forceinline__ const bs_device_operand *bs_cu_in(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return i < BS_CU_RECORD_IN ? &t.record->in[i] : bs_cu_in_of_many(t, s, i);
}

__device__ __forceinline__ const bs_device_operand *bs_cu_out(const bs_cu_tile &t, const bs_device_step *s, int32_t i)
{
    return i < BS_CU_RECORD_OUT ? &t.record->out[i] : bs_cu_in_of_many(t, s, s->n_in + i);
}

/* The prepared weights of a step, as its op packed them. */
__device__ __forceinline__ const uint8_t *bs_cu_prepared(const bs_cu_tile &t, const bs_device_step *s)
{
    return bs_cu_at<const uint8_t>(t.program->units[s->unit] + s->prepared);
}

/* ---------------------------------------------------------------------------------------------- decisions */

/* Whether rows of a domain are those of a tile, which has its own numbers for them. */
__device__ __forceinline__ bool bs_cu_is_of_tile(const bs_cu_tile &t, int32_t domain)
{
    return !bs_cu_is_at_top(t) && domain == t.domain;
}

/* What is added to a row of such a domain to count from the first of all tiles. */
__device__ __forceinline__ int32_t bs_cu_before(const bs_cu_tile &t, int32_t domain)
{
    return bs_cu_is_of_tile(t, domain) ? t.first : 0;
}

/* Where the decisions begin: those of the tile, or of all rows. No step at top level reads a tile's. */
__device__ __forceinline__ uint8_t *bs_cu_decided(const bs_cu_tile &t, int32_t in_tile)
{
    return !bs_cu_is_at_top(t) && in_tile ? t.context : t.program->decisions;
}

/* Word number `word` of decisions, and those after it. */
__device__ __forceinline__ int32_t *bs_cu_words(const bs_cu_tile &t, uint32_t word, int32_t in_tile)
{
    return reinterpret_cast<int32_t *>(bs_cu_decided(t, in_tile)) + word;
}

/* The decision of the step's router. */
__device__ inline bs_cu_decision bs_cu_decision_of(const bs_cu_tile &t)
{
    const bs_device_decision &d = t.record->decision;
    uint8_t *at = bs_cu_decided(t, d.in_tile);
    bs_cu_decision r;
    r.paths = d.paths;
    r.per_row = d.per_row;
    r.chosen = reinterpret_cast<int32_t *>(at + d.chosen);
    r.gates = reinterpret_cast<float *>(at + d.gates);
    r.counts = reinterpret_cast<int32_t *>(at + d.counts);
    r.offsets = reinterpret_cast<int32_t *>(at + d.offsets);
    r.ids = reinterpret_cast<int32_t *>(at + d.ids);
    r.inverse = reinterpret_cast<int32_t *>(at + d.inverse);
    r.work = reinterpret_cast<int32_t *>(at + d.work);
    r.price = reinterpret_cast<float *>(at + d.price);
    return r;
}

/* Rows of a domain as this block numbers them. */
__device__ __forceinline__ int32_t bs_cu_count(const bs_cu_tile &t, int32_t domain, const bs_device_count &count)
{
    if (bs_cu_is_of_tile(t, domain))
        return t.rows;
    return *reinterpret_cast<const int32_t *>(bs_cu_decided(t, count.in_tile) + count.at);
}

__device__ __forceinline__ int32_t bs_cu_count(const bs_cu_tile &t, const bs_device_step *s)
{
    return bs_cu_count(t, s->domain, s->rows);
}

__device__ inline int32_t bs_cu_count(const bs_cu_tile &t, int32_t domain)
{
    return bs_cu_count(t, domain, t.program->domains[domain].counted);
}

/* The row that a row of a path came from. */
__device__ __forceinline__ int32_t bs_cu_follow(const bs_cu_tile &t, const bs_device_link &link, int32_t row)
{
    const int32_t first = *bs_cu_words(t, link.offset, link.in_tile);
    return bs_cu_words(t, link.ids, link.in_tile)[first + bs_cu_before(t, link.domain) + row];
}

/* The row of the parent domain that a row of a path came from. */
__device__ inline int32_t bs_cu_parent_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    return bs_cu_follow(t, t.program->domains[domain].link, row);
}

/* Row of the outermost domain, counted from its first row even in a tile. */
__device__ inline int32_t bs_cu_top_row(const bs_cu_tile &t, int32_t domain, int32_t row)
{
    while (t.program->domains[domain].kind == BS_DOMAIN_PATH) {
        row = bs_cu_parent_row(t, domain, row);
        domain = t.program->domains[domain].parent;
    }
    return bs_cu_before(t, domain) + row;
}

/* ------------------------------------------------------------------------------------------- finding rows */

/* Dimension or stride d of a view, where d is known at run time only: indexing would put the view in memory. */
__device__ __forceinline__ int32_t bs_cu_pick(const int32_t *a, int32_t d)
{
    return d == 0 ? a[0] : d == 1 ? a[1] : d == 2 ? a[2] : a[3];
}

/* Where pixel (y, x) of channel c is in a view, in elements. */
__device__ __forceinline__ int64_t bs_cu_pixel_at(const bs_cu_view &v, int32_t c, int32_t y, int32_t x)
{
    return (int64_t)c * v.stride[0] + (int64_t)y * v.stride[1] + (int64_t)x * v.stride[2];
}

/* The number of the trip that a loop makes, from 0; where its rows go in turn, how many do and how many have begun. */
__device__ inline int32_t *bs_cu_trip(const bs_cu_tile &t, int32_t loop)
{
    const bs_device_decision &d = t.program->decision[loop];
    return reinterpret_cast<int32_t *>(bs_cu_decided(t, d.in_tile) + d.trip);
}

/* The row of a domain `levels` further out than an operand's that one of its rows came from. link: the operand's. */
__device__ __forceinline__ int32_t bs_cu_row_above(const bs_cu_tile &t, const bs_device_link *link, int32_t levels,
                                                   int32_t row)
{
    int32_t k = 0;
#pragma unroll 1
    for (; k < levels && k < BS_DEVICE_LINKS; k++)
        row = bs_cu_follow(t, link[k], row);
    if (k < levels) {
        int32_t domain = link[BS_DEVICE_LINKS - 1].domain;
#pragma unroll 1
        for (; k < levels; k++) {
            domain = t.program->domains[domain].parent;
            row = bs_cu_parent_row(t, domain, row);
        }
    }
    return row;
}

__device__ __forceinline__ uint8_t *bs_cu_row_by(const bs_cu_tile &t, const bs_device_operand *o,
                                                 const bs_device_link *link, int32_t row)
{
    if (o->place == BS_AT_ROOT)
        return bs_cu_at<uint8_t>(o->base);
    row = bs_cu_row_above(t, link, o->levels, row);
    if (o->place == BS_AT_TILE)
        return t.scratch + o->base + row * o->row_bytes;
    row += bs_cu_before(t, o->stored);
    if (o->first)
        row += *bs_cu_words(t, o->first, false);
    return bs_cu_at<uint8_t>(o->base) + row * o->row_bytes;
}

/* The address of a row, for kernels that need nothing else; not for views of images. */
__device__ inline uint8_t *bs_cu_row(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    return bs_cu_row_by(t, o, o->link, row);
}

/* Extents and rectangle of a row of patches: the cell's place in its frame, its core clipped to the frame. */
__device__ __forceinline__ void bs_cu_clip(const bs_cu_tile &t, const bs_device_operand *o, const bs_device_link *link,
                                           int32_t row, bs_cu_view *v)
{
    const int32_t top = bs_cu_before(t, o->top) + bs_cu_row_above(t, link, o->depth, row), margin = o->margin;
    v->frame_y = top / o->across * o->cell;
    v->frame_x = top % o->across * o->cell;
    v->dim[1] = min(o->cell, v->frame_h - v->frame_y);
    v->dim[2] = min(o->cell, v->frame_w - v->frame_x);
    v->y0 = max(-margin, -v->frame_y);
    v->y1 = min(o->cell + margin, v->frame_h - v->frame_y);
    v->x0 = max(-margin, -v->frame_x);
    v->x1 = min(o->cell + margin, v->frame_w - v->frame_x);
}

/* A row of an operand whose links may lie elsewhere. */
__device__ __forceinline__ bs_cu_view bs_cu_open_by(const bs_cu_tile &t, const bs_device_operand *o,
                                                    const bs_device_link *link, int32_t row)
{
    bs_cu_view v;
    for (int32_t i = 0; i < BS_MAX_AXES; i++) {
        v.dim[i] = o->dim[i];
        v.stride[i] = o->stride[i];
    }
    v.dtype = o->dtype;
    v.rank = o->rank;
    v.image = o->image;
    v.margin = o->margin;
    v.max_h = o->max_h;
    v.max_w = o->max_w;
    v.frame_y = v.frame_x = v.y0 = v.x0 = 0;
    v.frame_h = v.y1 = o->dim[1];
    v.frame_w = v.x1 = o->dim[2];
    if (o->cell > 0)
        bs_cu_clip(t, o, link, row, &v);
    if (o->place == BS_AT_CELL)
        v.data = bs_cu_at<uint8_t>(o->base) +
                 ((int64_t)v.frame_y * v.stride[1] + (int64_t)v.frame_x * v.stride[2]) * bs_cu_bytes(v.dtype);
    else
        v.data = bs_cu_row_by(t, o, link, row);
    if (o->trip)
        v.data += *bs_cu_words(t, o->trip, o->trip_in_tile) * o->trip_bytes;
    return v;
}

__device__ inline bs_cu_view bs_cu_open(const bs_cu_tile &t, const bs_device_operand *o, int32_t row)
{
    return bs_cu_open_by(t, o, o->link, row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_in(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                    int32_t row)
{
    return bs_cu_open(t, bs_cu_in(t, s, i), row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_out(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                     int32_t row)
{
    return bs_cu_open(t, bs_cu_out(t, s, i), row);
}

__device__ __forceinline__ bs_cu_view bs_cu_open_of_many(const bs_cu_tile &t, const bs_device_step *s, int32_t i,
                                                         int32_t row)
{
    const bs_device_operand *there = bs_cu_in_of_many(t, s, i), o = bs_cu_read_whole(there);
    return bs_cu_open_by(t, &o, there->link, row); /* a copy in registers has no link number k */
}

/* ------------------------------------------------------------------------------------------------ margins */

/* Zeroes a rectangle of all channels, with all threads of a block. Stored images only: channels last. */
__device__ inline void bs_cu_zero(const bs_cu_view &v, int32_t y0, int32_t y1, int32_t x0, int32_t x1)
{
    const int32_t bytes = bs_cu_bytes(v.dtype), pixel = v.stride[2] * bytes, width = (x1 - x0) * pixel;
    const bool wide = ((reinterpret_cast<uintptr_t>(v.data) | (uintptr_t)pixel | (uintptr_t)(v.stride[1] * bytes)) &
                       15) == 0;
    const int32_t unit = wide ? 16 : 2;
    for (int32_t y = y0; y < y1 && width > 0; y++)
        for (int32_t i = threadIdx.x * unit; i < width; i += blockDim.x * unit) {
            uint8_t *at = v.data + (int64_t)y * v.stride[1] * bytes + (int64_t)x0 * pixel + i;
            if (wide) {
                *reinterpret_cast<uint4 *>(at) = make_uint4(0, 0, 0, 0);
                continue;
            }
            at[0] = 0; /* an odd number of bytes: codes */
            if (i + 1 < width)
                at[1] = 0;
        }
}

/* As bs_zero_margin: zeroes around the rectangle as far as readers' windows reach; part 0 of a row does it. Called by
 * all threads of a block. */
__device__ inline void bs_cu_zero_margin(const bs_cu_work &w, const bs_cu_view &v)
{
    const int32_t low = -v.margin, bottom = min(v.y1 + v.margin, v.max_h + v.margin),
                  right = min(v.x1 + v.margin, v.max_w + v.margin);
    if (w.part > 0 || v.margin == 0)
        return;
    /* above, below, left, right: a loop, because this code is in every kernel */
#pragma unroll 1
    for (int32_t k = 0; k < 4; k++)
        bs_cu_zero(v,
                   k == 0   ? low
                   : k == 1 ? v.y1
                            : v.y0,
                   k == 0   ? v.y0
                   : k == 1 ? bottom
                            : v.y1,
                   k == 3 ? v.x1 : low, k == 2 ? v.x0 : right);
}

/* The same around a row that is opened for this only. */
__device__ __forceinline__ void bs_cu_zero_margin_of(const bs_cu_tile &t, const bs_cu_work &w,
                                                     const bs_device_operand *o, int32_t row)
{
    if (w.part == 0 && o->margin > 0)
        bs_cu_zero_margin(w, bs_cu_open(t, o, row));
}

#endif
