/* step_operand.cuh - where the operands of an instruction are on the device, for the largest extents: kernels are
 * chosen for those, and each run puts its own extents and buffers in place (extents.cuh).
 * plan/locate.h says where; here that becomes addresses, and where the decisions are that a row's place depends on.
 * Relies on plan/device.h. Must never touch what the addresses point to. */
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
    const bs_device_domain *domains;
    const bs_device_decision *decisions;
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

/* What the plan stores, or prepared weights. */
static void bs_cu_at_own(bs_cu_tables *l, int32_t value, const bs_locator *at, bs_device_operand *o)
{
    int64_t stride[BS_MAX_AXES];
    bs_strides_stored(l->plan, value, stride);
    o->dtype = (uint8_t)bs_plan_stored(l->plan, value);
    o->place = at->place;
    o->stored = at->domain;
    o->row_bytes = (int64_t)bs_bytes_figure(at->row_bytes);
    o->base = bs_bytes_figure(at->base) +
              (at->in_tile ? 0 : at->memory == BS_OF_WEIGHTS ? l->weights : l->memory + l->layout->transient);
    for (int32_t i = 0; i < o->rank; i++)
        o->stride[i] = bs_cu_narrow(l, stride[i]);
}

static void bs_cu_operand(bs_cu_tables *l, int32_t value, bs_device_operand *o);

/* Rows that are found in a root value by their place in it, as cells or as lines. o has their extents. */
static void bs_cu_in_root(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_device_operand root;
    bs_cu_operand(l, value, &root); /* which is no view */
    const int32_t first = o->rank != root.rank;
    o->dtype = root.dtype;
    o->bound = root.bound;
    o->skip = (uint8_t)first;
    o->base = root.base;
    o->place = first ? BS_AT_LINE : BS_AT_CELL;
    o->row_bytes = (int64_t)root.stride[0] * (int64_t)bs_dtype_bytes((bs_dtype)root.dtype);
    for (int32_t i = 0; i < o->rank && i + first < BS_MAX_RANK; i++)
        o->stride[i] = root.stride[i + first];
}

/* Finds a value from view to view; o has the extents that it is seen with. */
static void bs_cu_find(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_locator at;
    bs_locate(l->plan, value, &at);
    while (at.place == BS_AT_ABOVE) {
        value = at.source;
        bs_locate(l->plan, value, &at);
    }
    if (at.place == BS_AT_CELL || at.place == BS_AT_LINE)
        bs_cu_in_root(l, at.source, o);
    else if (at.memory == BS_OF_CALLER)
        bs_cu_at_bound(l, at.bound, o);
    else
        bs_cu_at_own(l, value, &at, o);
}

/* A value as its readers and its maker find it. */
static void bs_cu_operand(bs_cu_tables *l, int32_t value, bs_device_operand *o)
{
    bs_cu_extent(l, value, o);
    bs_cu_find(l, value, o);
}

/* A constant, as it was prepared. */
static void bs_cu_constant(bs_cu_tables *l, int32_t node, bs_device_operand *o)
{
    int64_t stride = 1;
    o->place = BS_AT_ROOT;
    o->base = l->weights + bs_bytes_figure(l->plan->nodes[node].prepared_offset);
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        o->stride[i] = bs_cu_narrow(l, stride);
        stride *= o->dim[i];
    }
}

/* The place that a trip of a loop has in a row: o has its extents, `row` is the row as the loop's body finds it. */
static void bs_cu_trip_of(const bs_cu_tables *l, int32_t loop, const bs_device_operand *row, bs_device_operand *o)
{
    o->dtype = row->dtype;
    o->bound = row->bound;
    o->skip = (uint8_t)(row->skip + 1);
    o->base = row->base;
    o->place = row->place;
    o->row_bytes = row->row_bytes;
    o->stored = row->stored;
    o->trip = (uint32_t)(l->decisions[loop].trip / 4);
    o->trip_in_tile = l->decisions[loop].in_tile;
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
        bs_cu_trip_of(l, n->router, &row, o);
    } else if (n->n_in > 0 && n->router == 0) {
        bs_cu_in_root(l, bs_view_of(l->graph, n), o);
    } else if (n->n_in > 0) {
        bs_cu_find(l, bs_view_of(l->graph, n), o);
    } else if (bs_op_get(n->op)->bound) {
        bs_cu_at_bound(l, node, o);
    } else {
        bs_cu_constant(l, node, o);
    }
}

/* Where an instruction stores rows, with the extents of `value`: in its target, */
static void bs_cu_to_own(bs_cu_tables *l, const bs_instr *i, int32_t, bs_device_operand *o)
{
    bs_cu_operand(l, i->target, o);
}

/* in the same row of it, or in that which its own came from, */
static void bs_cu_to_row(bs_cu_tables *l, const bs_instr *i, int32_t, bs_device_operand *o)
{
    bs_cu_operand(l, i->target, o);
    o->domain = i->domain;
}

/* in the place that the trip has there, */
static void bs_cu_to_trip(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    bs_device_operand row;
    bs_cu_operand(l, i->target, &row);
    bs_cu_extent(l, value, o);
    bs_cu_trip_of(l, l->graph->nodes[i->node].router, &row, o);
    o->margin = 0; /* that of the value is around its own rows; zeros around all trips are there before the first */
    o->domain = i->domain;
}

/* in the row's place in a root tensor, */
static void bs_cu_to_cell(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    bs_cu_extent(l, value, o);
    bs_cu_in_root(l, i->target, o);
    o->margin = l->plan->values[i->target].margin;
    o->domain = i->domain;
}

/* in what is bound to an output or a state (base 0: nothing is), */
static void bs_cu_to_bound(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = bs_node_operand(node, BS_ROLE_STATE);
    bs_cu_extent(l, value, o);
    o->margin = 0;
    bs_cu_at_bound(l, state < 0 ? i->node : l->graph->values[bs_node_in(l->graph, node)[state]].node, o);
}

/* or in a cache. Beside the strides of a cell, which has two dimensions at most: row_bytes from segment to segment,
 * max_w elements from position to position, and the positions as the last dimension. */
static void bs_cu_to_ring(bs_cu_tables *l, const bs_instr *i, int32_t value, bs_device_operand *o)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t state = l->graph->values[bs_node_in(l->graph, node)[bs_node_operand(node, BS_ROLE_STATE)]].node;
    const bs_value_info *v = &l->graph->values[l->graph->nodes[state].first_out];
    const bs_cu_bound *b = &l->bound[state];
    bs_cu_extent(l, value, o);
    o->place = BS_AT_RING;
    o->base = b->address;
    o->bound = b->entry;
    o->skip = 2;
    o->from[BS_MAX_RANK - 1] = v->dims[1];
    o->margin = 0;
}

/* ------------------------------------------------------------------------------------------------- decisions */

/* Which words of the decisions tell where a row of the operand lies: it has all else by now. */
static void bs_cu_link_operand(const bs_cu_tables *l, bs_device_operand *o)
{
    const bool outermost = o->place == BS_AT_LINE || o->place == BS_AT_CELL;
    int32_t domain = o->domain;
    for (; l->domains[domain].kind == BS_DOMAIN_PATH; domain = l->domains[domain].parent) {
        const bs_device_link *link = &l->domains[domain].link;
        if (o->depth < BS_DEVICE_LINKS)
            o->link[o->depth] = *link;
        if (domain == o->stored && o->place == BS_AT_ROWS) {
            o->levels = o->depth;
            o->first = link->in_tile ? 0 : link->offset;
        } else if (domain == o->stored) {
            o->levels = o->depth;
        }
        o->depth++;
    }
    o->top = domain;
    o->stored = outermost ? domain : o->stored;
    o->levels = o->stored == domain ? o->depth : o->levels;
}

#endif
