/* fuzz_limits.c - graphs that live at the limits: dimensions near their maxima, channels joined until they are 2^30, a
 * hundred values alive at once, halos of thousands of pixels, weights of gigabytes. Most cannot be run. What the
 * planner accepts holds all the same: every place lies within its arena, counted here in floating point, which does not
 * wrap; what is small enough is run in arenas of exactly the planned bytes.
 *
 * Relies on: fuzz_run.h, fuzz_weights.h, plan/plan.h. Must never: count with the library's own arithmetic. */
#define _POSIX_C_SOURCE 200809L
#include "../random_graph.h"

#include "../against.h"
#include "fuzz_weights.h"

#include "plan/plan.h"

enum { CALLS = 40, ALIVE = 100 };

static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20], graph_before[1 << 20];
static bs_graph *g;
static fuzz_bytes in;
static bs_value x; /* what the next call works on */
static int32_t n_names;
static char names[4 * CALLS][8];

/* --- building --------------------------------------------------------------------------------------------- */

static const char *name(void)
{
    char *text = names[n_names];
    snprintf(text, sizeof names[0], "n%d", n_names);
    n_names += n_names < 4 * CALLS - 1;
    return text;
}

static int32_t one_of(const int32_t *list, int32_t count) { return list[fuzz_below(&in, count)]; }
#define ONE_OF(...) \
    one_of((const int32_t[]){__VA_ARGS__}, (int32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

/* Small ones, so that something can be run; and those at the limits. */
static int32_t extent(void)
{
    return ONE_OF(1, 2, 5, 8, 16, 24, 32, 40, 1000, 4096, 8192, 32767, 32768, 65536, 1 << 20, (1 << 30) - 1, 1 << 30);
}

static bs_dim dim(void)
{
    const int32_t n = extent();
    return fuzz_flip(&in, 60) ? BS_UPTO(n) : n;
}

static bs_value fan_of(bs_graph *graph, bs_value from, int32_t count)
{
    bs_value alive[ALIVE];
    for (int32_t i = 0; i < count; i++)
        alive[i] = bs_affine(graph, from, 1.0f + (float)i / 8, 0);
    for (int32_t i = 1; i < count; i++)
        alive[0] = bs_add(graph, alive[0], alive[i]);
    return alive[0];
}

static bs_value in_branch(bs_graph *graph, bs_value from, void *user)
{
    const uint8_t n = *(const uint8_t *)user;
    return n & 1 ? fan_of(graph, from, 1 + n / 32) : n & 2 ? bs_affine(graph, from, 2, 1) : from;
}

static bs_value source_value(void)
{
    const bs_dtype type = fuzz_flip(&in, 200) ? BS_F32 : BS_U8;
    const uint8_t kind = fuzz_u8(&in) % 4;
    if (kind < 2) {
        const int32_t channels = ONE_OF(1, 1, 3, 12, 1000, 1 << 20);
        const bs_dim h = dim(), w = dim();
        const bs_value frame = bs_input(g, name(), type, BS_SHAPE3(channels, h, w));
        return kind ? frame : bs_patches(g, frame, &(bs_patches_desc){.size = ONE_OF(1, 4, 8, 16, 32, 512, 8192)});
    }
    const bs_dim rows = dim(), each = dim();
    const bs_value table = bs_input(g, name(), type, BS_SHAPE2(rows, each));
    return kind == 2 ? table : bs_rows(g, table, (bs_value){0});
}

static bs_value routed(void)
{
    uint8_t user[4] = {fuzz_u8(&in), fuzz_u8(&in), fuzz_u8(&in), fuzz_u8(&in)};
    const int32_t paths = 2 + fuzz_below(&in, 3);
    const bs_value features = g->values[x.id].rank == 3 ? bs_patch_features(g, x, (bs_value){0}, NULL) : x;
    const bs_value scores = bs_slice(g, features, &(bs_slice_desc){.length = g->values[x.id].rank == 3 ? 1 : paths});
    const int32_t protocol = g->values[x.id].rank == 3 ? BS_ROUTE_TABLE : ONE_OF(BS_ROUTE_TOP1, BS_ROUTE_TOPK);
    const bs_router r = bs_route(
        g, scores, (bs_value){0},
        &(bs_route_desc){
            .name = name(), .protocol = protocol, .paths = paths, .k = 1 + fuzz_below(&in, 2), .capacity = 64});
    bs_value out[4];
    for (int32_t p = 0; p < paths; p++)
        out[p] = bs_branch(g, r, p, name(), x, in_branch, &user[p]);
    return bs_gather(g, r, out, (bs_value){0}, NULL);
}

static bs_value image_call(uint8_t which)
{
    /* one after the other: a seed means the same with any compiler */
    const int32_t out = ONE_OF(1, 12, 1 << 20), high = ONE_OF(1, 3, 33, 255), wide = ONE_OF(1, 1, 3, 255),
                  apart = ONE_OF(1, 1, 16, 250, 255);
    const bs_conv2d_desc far = {
        .name = name(), .out = out, .kernel_h = high, .kernel_w = wide, .dilation = apart, .no_bias = 1};
    switch (which) {
    case 0: return bs_conv2d(g, x, &far);
    case 1:
        return bs_conv2d(
            g, x, &(bs_conv2d_desc){.name = name(), .out = ONE_OF(12, 16, 64), .batch_norm = 1, .act = BS_PRELU});
    case 2:
        return bs_deconv2d(g, x,
                           &(bs_deconv2d_desc){.name = name(),
                                               .out = ONE_OF(1, 16, 1 << 20),
                                               .kernel = ONE_OF(2, 4, 16, 255),
                                               .stride = ONE_OF(2, 4, 16)});
    case 3: return bs_pixel_shuffle(g, x, ONE_OF(2, 3, 64));
    case 4: return bs_pixel_unshuffle(g, x, ONE_OF(2, 3, 64));
    default: return bs_resize(g, x, &(bs_resize_desc){.name = name(), .factor = ONE_OF(2, 4, 8)});
    }
}

static bs_value line_call(uint8_t which)
{
    const int32_t count = 2 + fuzz_below(&in, 7);
    const bs_value list[8] = {x, x, x, x, x, x, x, x};
    bs_value state;
    switch (which) {
    case 0: return bs_linear(g, x, &(bs_linear_desc){.name = name(), .out = ONE_OF(1, 16, 4096, 1 << 20)});
    case 1:
    case 2:
    case 3: return bs_concat(g, list, count, 0);
    case 4: return fan_of(g, x, 1 + fuzz_below(&in, ALIVE));
    case 5: return bs_slice(g, x, &(bs_slice_desc){.length = ONE_OF(1, 2, 12, 1000)});
    case 6: return bs_batch_norm(g, x, &(bs_norm_desc){name(), 0});
    case 7: return bs_convert(g, x, &(bs_convert_desc){.dtype = ONE_OF(BS_F32, BS_F16, BS_U8)});
    case 8: return bs_softmax(g, x);
    case 9:
        state = bs_state(g, name(), BS_F32, BS_SHAPE2(extent(), extent()));
        bs_state_write(g, state, bs_affine(g, state, 1, 1));
        bs_output(g, name(), bs_affine(g, state, 2, 2));
        return x;
    default: return bs_reduce(g, x, &(bs_reduce_desc){.name = name()});
    }
}

static void call(void)
{
    const uint8_t kind = fuzz_u8(&in) % 16;
    if (kind < 10)
        x = line_call(fuzz_u8(&in) % 11);
    else if (kind < 14)
        x = image_call(fuzz_u8(&in) % 6);
    else
        x = routed();
}

static void finish(void)
{
    const bs_domain_kind kind = g->domains[g->values[x.id].domain].kind;
    const bool image = g->values[x.id].rank == 3;
    bs_output(g, "out", kind == BS_DOMAIN_ROOT ? x : image ? bs_assemble(g, x) : bs_collect(g, x));
}

/* A step of building; one that is refused is taken back. */
static bool step(void (*build)(void), size_t bytes)
{
    const bs_value before = x;
    memcpy(graph_before, graph_memory, bytes);
    build();
    if (g->status == BS_OK)
        return true;
    fuzz_failure(g->status, &g->error, "a builder call");
    memcpy(graph_memory, graph_before, bytes);
    x = before;
    return false;
}

static void begin(void) { x = source_value(); }

static bool build(void)
{
    const bs_graph_desc room = {.max_nodes = 600, .max_values = 600, .max_text_bytes = 60000};
    const size_t bytes = bs_graph_bytes(&room);
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    g = bs_graph_create(&arena, &room);
    n_names = 0;
    if (!step(begin, bytes))
        return false;
    for (int32_t i = 0; i < CALLS && in.at < in.n; i++)
        step(call, bytes);
    return step(finish, bytes);
}

/* --- what a plan that was accepted promises ---------------------------------------------------------------- */

static double bytes_of(bs_bytes b) { return (double)bs_bytes_figure(b); }

/* Bytes of one row at least: its core and margins, as its shape says. */
static double least_row(const bs_plan *p, int32_t v)
{
    const bs_graph *planned = p->graph;
    const bs_value_info *info = &planned->values[v];
    double elements = 1;
    for (int32_t i = 0; i < info->rank; i++)
        elements *= (double)bs_dim_max(planned, info->dims[i]);
    if (info->rank == 3) {
        int64_t h, w;
        bs_plan_core(p, info, &h, &w);
        elements = (double)bs_dim_max(planned, info->dims[0]) * ((double)h + 2.0 * p->values[v].margin) *
                   ((double)w + 2.0 * p->values[v].margin);
    }
    return elements * (double)bs_dtype_bytes(bs_plan_stored(p, v));
}

static void values_lie_within(const bs_plan *p)
{
    for (int32_t v = 1; v < p->graph->n_values; v++) {
        const bs_value_plan *value = &p->values[v];
        const bool shared = value->storage == BS_STORAGE_TRANSIENT;
        if (!shared && value->storage != BS_STORAGE_SCRATCH)
            continue;
        const double end = bytes_of(value->offset) + bytes_of(value->row_bytes) * (double)value->rows;
        const double room = bytes_of(shared ? p->transient_bytes : p->kernel_scratch_offset);
        FUZZ_PROMISE(bytes_of(value->row_bytes) >= least_row(p, v), "value %d: a row of %g bytes needs %g", v,
                     bytes_of(value->row_bytes), least_row(p, v));
        FUZZ_PROMISE(end <= room, "value %d ends at %g of %g", v, end, room);
        FUZZ_PROMISE(shared || end <= bytes_of(p->parts[value->scope].scratch_bytes), "value %d leaves its tile", v);
    }
}

static void nodes_lie_within(const bs_plan *p)
{
    for (int32_t n = 1; n < p->graph->n_nodes; n++) {
        const bs_node_plan *node = &p->nodes[n];
        const double room = bytes_of(node->unit ? p->units[node->unit].prepared_bytes : p->weight_bytes);
        if (!p->node_live[n])
            continue;
        FUZZ_PROMISE(bytes_of(node->prepared_offset) + bytes_of(node->prepared_bytes) <= room,
                     "weights of node %d leave their %g bytes", n, room);
        FUZZ_PROMISE(bytes_of(p->kernel_scratch_offset) + bytes_of(node->scratch_bytes) <= bytes_of(p->scratch_bytes),
                     "scratch of node %d", n);
    }
}

static void sizes_hold(const bs_plan *p)
{
    bs_sizes s;
    bs_plan_sizes(p, &s);
    const double most = (double)BS_MAX_PLAN_BYTES * 256; /* threads, lanes, tiles of a device */
    FUZZ_PROMISE((double)s.transient <= most && (double)s.staging <= most && (double)s.slots <= most, "arenas of %g",
                 (double)s.transient);
    FUZZ_PROMISE(bs_plan_on_device(p) ||
                     (double)s.transient >= bytes_of(p->transient_bytes) + bytes_of(p->scratch_bytes) * p->threads,
                 "%g transient bytes", (double)s.transient);
    FUZZ_PROMISE(bs_plan_on_device(p) || (double)s.persistent >= bytes_of(p->weight_bytes), "%g persistent bytes",
                 (double)s.persistent);
    FUZZ_PROMISE(!bs_plan_on_device(p) || (double)s.device >= bytes_of(p->transient_bytes) + bytes_of(p->weight_bytes),
                 "%g bytes on a device", (double)s.device);
}

static void plans_hold(fuzz_bytes how)
{
    bs_arena arena = {0};
    bs_plan_desc d = fuzz_plan_desc(&how, g);
    for (int32_t streams = 0; streams < 2; streams++) {
        d.slot_bytes = streams ? UINT64_MAX : 0;
        const bs_plan *p = fuzz_plan_once(&arena, g, &d);
        if (!p)
            break;
        values_lie_within(p);
        nodes_lie_within(p);
        sizes_hold(p);
    }
    free(arena.base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t options = size < 40 ? size / 2 : 20;
    fuzz_bytes how = {data + size - options, options, 0};
    in = (fuzz_bytes){data, size - options, 0};
    if (!build())
        return 0;
    plans_hold(how);
    bs_weights from = {0};
    if (fuzz_make_weights(&source, g, &how))
        from = flat_weights(&source, 1);
    fuzz_graph_run(g, &from, &how);
    return 0;
}
