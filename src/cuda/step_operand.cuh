/* step_operand.cuh - where the operands of an instruction are on the device, for the largest extents: kernels are
 * chosen for those, and each run puts its own extents and buffers in place (extents.cuh).
 * The host's side of run/operands.c: everything but the decision is resolved here. Relies on plan/device.h. Must never
 * touch what the addresses point to. */
#ifndef BS_CUDA_STEP_OPERAND
#define BS_CUDA_STEP_OPERAND

#include "cuda/extents.cuh"

/* Where the buffer that is bound to a node lies on the device. */
struct bs_cu_bound {
    uint64_t address; /* 0: nothing is bound */
    int64_t stride[BS_MAX_RANK];
    bool staged; /* a dense copy of the caller's buffer */
    int32_t entry; /* of the table of what is bound, 0: none */
};

/* The tables of a run while they are written, and what they are written from. */
struct bs_cu_tables {
    const bs_device_client *client;
    const bs_graph *graph;
    const bs_plan *plan;
    const bs_device_layout *layout;
    const bs_cu_bound *bound;  /* [nodes] */
    uint64_t memory;           /* the session's on the device */
    uint64_t weights;          /* prepared, resident */
    bs_device_step *steps;
    bs_device_operand *operands;
    uint32_t *given;
    int32_t n_steps, n_operands, n_given;
    int32_t blocks; /* that keep the device busy; 1 for the steps of a tile */
    bool cublas;   /* large linears go to it */
    bool overflow; /* a stride, an extent or a number of blocks beyond 31 bits, or a table that is full */
    int32_t too_many; /* the node of a step that writes more elements of a row than 31 bits count; 0: none */
};

static int32_t bs_cu_narrow(bs_cu_tables *l, int64_t n)
{
    l->overflow = l->overflow || n > INT32_MAX || n < INT32_MIN;
    return (int32_t)n;
}

/* What is an image on the device: here alone it is decided. */
static bool bs_cu_is_image(const bs_cu_tables *l, int32_t value)
{
    return l->graph->values[value].image && !l->plan->values[value].planar;
}

/* Extents of a row, wherever it is: the largest, and what they are taken from. */
static void bs_cu_extent(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    int64_t h, w;
    memset(o, 0, sizeof *o);
    o->dtype = (uint8_t)v->dtype;
    o->rank = (uint8_t)v->rank;
    o->image = bs_cu_is_image(l, value);
    o->domain = o->stored = v->domain;
    for (int32_t i = 0; i < BS_MAX_AXES; i++) {
        o->from[i] = i < v->rank ? v->dims[i] : -1;
        o->dim[i] = i < v->rank ? (int32_t)bs_dim_max(l->graph, v->dims[i]) : 0;
    }
    if (!o->image)
        return;
    bs_plan_core(l->plan, v, &h, &w);
    o->max_h = bs_cu_narrow(l, h);
    o->max_w = bs_cu_narrow(l, w);
    o->margin = l->plan->values[value].margin;
    const int32_t patches = l->graph->domains[v->domain].patches;
    if (patches < 0)
        return;
    o->width = l->graph->domains[patches].width;
    o->size = l->plan->domains[patches].size;
    o->cell = (int32_t)bs_ceil_div((int64_t)o->size * v->scale_num, v->scale_den);
    o->across = bs_cu_cells((int32_t)bs_dim_max(l->graph, o->width), o->size);
}

static void bs_cu_dense(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    int64_t stride = 1;
    for (int32_t i = v->rank - 1; i >= 0; i--) {
        o->stride[i] = bs_cu_narrow(l, stride);
        stride *= bs_dim_max(l->graph, v->dims[i]);
    }
}

/* Rows of the plan's own: images channels last with margins, all else dense; strides from the maxima. */
static void bs_cu_stored(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const bs_value_info *v = &l->graph->values[value];
    const bs_value_plan *p = &l->plan->values[value];
    const bs_dtype dtype = bs_plan_stored(l->plan, value);
    int64_t h, w;
    o->dtype = (uint8_t)dtype;
    o->stored = v->domain;
    o->row_bytes = (int64_t)bs_bytes_figure(p->row_bytes);
    o->place = (uint8_t)(p->storage == BS_STORAGE_SCRATCH ? BS_AT_TILE : BS_AT_ROWS);
    o->base = bs_bytes_figure(p->offset) + (p->storage == BS_STORAGE_SCRATCH ? 0 : l->memory + l->layout->transient);
    if (!bs_cu_is_image(l, value)) {
        bs_cu_dense(l, value, o);
        return;
    }
    bs_plan_core(l->plan, v, &h, &w);
    const int64_t channels = bs_dim_max(l->graph, v->dims[0]), line = channels * (w + 2 * (int64_t)p->margin);
    o->stride[0] = 1;
    o->stride[1] = bs_cu_narrow(l, line);
    o->stride[2] = bs_cu_narrow(l, channels);
    o->base += (uint64_t)(p->margin * (line + channels)) * bs_dtype_bytes(dtype);
}

static void bs_cu_at_bound(bs_cu_tables *l, int32_t node, bs_device_operand *o)
{
    const bs_cu_bound *b = &l->bound[node];
    o->place = BS_AT_ROOT;
    o->bound = b->entry;
    o->base = b->address;
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = bs_cu_narrow(l, b->stride[i]);
    if (bs_client_bound(l->client, node)->cache_lengths) { /* the copy that was checked */
        o->bound = 0;
        o->base = l->memory + l->layout->tables + l->layout->segments_at + bs_device_cache_lengths_place(l->plan, node);
        o->stride[0] = 1;
    }
}

/* A value of the root domain, wherever it is. */
static void bs_cu_root(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const bs_value_plan *p = &l->plan->values[value];
    bs_cu_extent(l, value, o);
    if (p->storage == BS_STORAGE_INPUT || p->storage == BS_STORAGE_OUTPUT || p->storage == BS_STORAGE_STATE) {
        bs_cu_at_bound(l, p->source, o);
    } else if (p->storage == BS_STORAGE_WEIGHT) {
        bs_cu_dense(l, value, o);
        o->base = l->weights + bs_bytes_figure(l->plan->nodes[p->source].prepared_offset);
    } else {
        bs_cu_stored(l, value, o);
    }
    o->place = BS_AT_ROOT;
}

/* Rows that are found in a root value by their place in it: cells, lines, or all of it. */
static void bs_cu_seen(const bs_device_operand *root, bs_place place, bs_device_operand *o)
{
    const int32_t first = place == BS_AT_LINE;
    o->dtype = root->dtype;
    o->bound = root->bound;
    o->skip = (uint8_t)first;
    o->base = root->base;
    o->place = (uint8_t)place;
    o->row_bytes = (int64_t)root->stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)root->dtype);
    for (int32_t i = 0; i < o->rank && i + first < BS_MAX_RANK; i++)
        o->stride[i] = root->stride[i + first];
}

/* The operand that `value` is a view of, seen with the view's extents (which o has). */
static void bs_cu_view_of(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    for (;;) {
        const bs_node *node = &l->graph->nodes[l->graph->values[value].node];
        const int32_t from = bs_view_of(l->graph, node);
        const bool cells = node->router == 0;
        if (cells || l->graph->values[from].domain == 0) { /* the latter: seen from a path of the root */
            bs_device_operand root;
            bs_cu_root(l, from, &root);
            bs_cu_seen(&root, !cells ? BS_AT_ROOT : o->rank == root.rank ? BS_AT_CELL : BS_AT_LINE, o);
            return;
        }
        value = from;
        if (l->plan->values[value].storage != BS_STORAGE_VIEW) {
            bs_cu_stored(l, value, o);
            return;
        }
    }
}

/* A value as its readers and its maker find it. */
static void bs_cu_operand(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    if (l->graph->values[value].domain == 0) {
        bs_cu_root(l, value, o);
        return;
    }
    bs_cu_extent(l, value, o);
    if (l->plan->values[value].storage == BS_STORAGE_VIEW)
        bs_cu_view_of(l, value, o);
    else
        bs_cu_stored(l, value, o);
}

/* The place that a trip of a loop has in a row: o has its extents, `row` is the row as the loop's body finds it. */
static void bs_cu_trip_of(int32_t loop, const bs_device_operand *row, bs_device_operand *o)
{
    o->dtype = row->dtype;
    o->bound = row->bound;
    o->skip = (uint8_t)(row->skip + 1);
    o->base = row->base;
    o->place = row->place;
    o->row_bytes = row->row_bytes;
    o->stored = row->stored;
    o->loop = loop;
    o->trip_bytes = (int64_t)row->stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)row->dtype);
    for (int32_t i = 0; i < o->rank && i + 1 < BS_MAX_AXES; i++)
        o->stride[i] = row->stride[i + 1];
}

/* What a load copies from: the value itself has rows of its own. */
static void bs_cu_source(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    const int32_t node = l->graph->values[value].node;
    const bs_node *n = &l->graph->nodes[node];
    bs_cu_extent(l, value, o);
    if (bs_view_slices(l->graph, n)) {
        bs_device_operand row;
        bs_cu_operand(l, bs_view_of(l->graph, n), &row);
        row.domain = o->domain;
        bs_cu_trip_of(n->router, &row, o);
    } else if (n->n_in > 0) {
        bs_cu_view_of(l, value, o);
    } else if (bs_op_get(n->op)->bound) {
        bs_cu_at_bound(l, node, o);
    } else { /* a constant */
        bs_cu_dense(l, value, o);
        o->base = l->weights + bs_bytes_figure(l->plan->nodes[node].prepared_offset);
        o->place = BS_AT_ROOT;
    }
}

/* Where an instruction stores rows of `value` in its target. */
static void bs_cu_target(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    bs_device_operand whole;
    if (i->map == BS_MAP_TRIP) {
        bs_cu_operand(l, i->target, &whole);
        bs_cu_extent(l, value, o);
        bs_cu_trip_of(l->graph->nodes[i->node].router, &whole, o);
        o->margin = 0; /* that of the value is around its own rows; zeros around all trips are there before the first */
    } else if (i->map != BS_MAP_CELL) { /* the row of the parent */
        bs_cu_operand(l, i->target, o);
    } else {
        bs_cu_root(l, i->target, &whole);
        bs_cu_extent(l, value, o);
        bs_cu_seen(&whole, o->rank == whole.rank ? BS_AT_CELL : BS_AT_LINE, o);
        o->margin = l->plan->values[i->target].margin;
    }
    o->domain = i->domain;
}

/* Where an output or a state is stored; base 0: nothing is bound to it. */
static void bs_cu_ending(bs_cu_tables *l, const bs_instr *i, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    bs_cu_extent(l, i->value, o);
    o->margin = 0;
    bs_cu_at_bound(l, state < 0 ? i->node : l->graph->values[bs_node_in(l->graph, node)[state]].node, o);
}

/* The cache that rows are appended to. Beside the strides of a cell, which has two dimensions at most: row_bytes from
 * segment to segment, max_w elements from position to position, and the positions as the last dimension. */
static void bs_cu_ring(bs_cu_tables *l, const bs_instr *i, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = l->graph->values[bs_node_in(l->graph, node)[bs_node_operand(node, BS_ROLE_STATE)]].node;
    const bs_value_info *v = &l->graph->values[l->graph->nodes[state].first_out];
    const bs_cu_bound *b = &l->bound[state];
    bs_cu_extent(l, i->value, o);
    o->place = BS_AT_RING;
    o->base = b->address;
    o->bound = b->entry;
    o->skip = 2;
    o->from[BS_MAX_RANK - 1] = v->dims[1];
    o->margin = 0;
}

#endif
