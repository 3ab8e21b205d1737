/* upscaler.c: see upscaler.h. */
#include "upscaler.h"

#include "model_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PLAIN_TILE = 64 }; /* in which pictures of routes show a model that has none */

static bool fail(upscaler *u, bs_status status, const char *message)
{
    u->error.status = status;
    snprintf(u->error.message, sizeof u->error.message, "%s", message);
    return false;
}

/* Tiles of the frame. */
static int across(const upscaler *u) { return (u->width + u->tile - 1) / u->tile; }
static int down(const upscaler *u) { return (u->height + u->tile - 1) / u->tile; }

/* ------------------------------------------------------------------------------------------------ opening */

static void plan_describe(bs_plan_desc *d, const video_options *o, int width)
{
    memset(d, 0, sizeof *d);
    d->threads = o->threads;
    d->tier = (int32_t)o->tier;
    d->conv = (int32_t)o->conv;
    d->order = (int32_t)o->order;
    d->patch_size = o->tile;
    if (o->route == ROUTE_AUTO)
        return;
    /* One route for all: tiles only cut the work, so larger ones compute less halo twice. */
    if (!o->tile)
        d->patch_size = width > 128 ? 128 : 64;
    const bool large = o->route >= ROUTE_LARGE;
    d->forces[d->n_forces++] = (bs_force){"route", large ? 3 : (int32_t)o->route};
    for (int i = 0; large && i < UPSCALER_EXITS; i++) {
        const bool leaves = o->route == (video_route)(ROUTE_EXIT1 + i);
        d->forces[d->n_forces++] = (bs_force){model_exits[i], leaves ? 0 : 1};
    }
}

/* Losses of the model's tables are 1/256 of a squared code value of 8 bits, and they are against the original. The
 * difference to what the large net makes of a tile is larger, because that net errs too: five times as much, as
 * models/README.md found on photographs. */
static int32_t floor_loss(double db)
{
    return db > 0 ? (int32_t)(255.0 * 255.0 * 256.0 / 5.0 * pow(10, -db / 10)) : db < 0 ? 0 : -1;
}

/* The other way round: of a floor that is whole decibels, those. */
static double floor_db(int32_t loss)
{
    for (int db = 30; db <= 65; db++)
        if (floor_loss(db) == loss)
            return db;
    return loss > 0 ? 10 * log10(255.0 * 255.0 * 256.0 / 5.0 / loss) : 0;
}

static double floor_in_force(const upscaler *u, const video_options *o)
{
    const int loss = u->routed ? model_floor(u->graph) : -1;
    return loss < 0 ? NAN : o->floor > 0 ? o->floor : floor_db(loss);
}

static bool scale_fits(upscaler *u)
{
    char text[96];
    bs_model_facts facts;
    bs_model_facts_get(u->model, &facts);
    if (facts.scale == 2 || (facts.scale == 0 && u->plain)) /* its output is looked at */
        return true;
    if (facts.scale == 0)
        return fail(
            u, BS_ERROR_UNSUPPORTED,
            "it does not say that it enlarges (brainstorm.model.scale is missing); video_sr takes models that double");
    snprintf(text, sizeof text, "it enlarges %d times; video_sr takes models that double", (int)facts.scale);
    return fail(u, BS_ERROR_UNSUPPORTED, text);
}

/* Opened once, by name: what is planned and run is what was looked at, whatever happens to the file meanwhile. */
static bool model_open(upscaler *u, const video_options *o, const bs_platform *platform)
{
    const size_t bytes = bs_model_file_bytes(platform, o->model, &u->error);
    if (bytes == 0 || !arenas_lend(&u->arenas, &u->index_memory, "index", bytes, &u->error))
        return false;
    u->model = bs_model_open_file(&u->index_memory, platform, o->model, &u->error);
    if (u->model && o->stream.buffered)
        bs_model_use_buffered(u->model);
    return u->model != NULL;
}

/* ----------------------------------------------------------------------- a model of one input and one output */

/* Whether the network is one: any names, nothing to decide. */
static void find_plain(upscaler *u)
{
    bs_port_facts in, out;
    bs_router_facts router;
    u->planes.in = bs_graph_port_name(u->graph, 0);
    u->planes.out = bs_graph_port_name(u->graph, 1);
    u->plain = u->planes.in && u->planes.out && !bs_graph_port_name(u->graph, 2) &&
               bs_graph_port_get(u->graph, u->planes.in, &in) == BS_OK && !in.output &&
               bs_graph_port_get(u->graph, u->planes.out, &out) == BS_OK && out.output &&
               bs_graph_router_get(u->graph, "route", &router) != BS_OK;
    u->planes.rank = u->plain ? in.rank : 0;
}

static bs_model_input plain_input(const upscaler *u, int64_t height, int64_t width)
{
    bs_model_input input = {u->planes.in, u->planes.rank, {1, 1, 1, 1}};
    if (input.rank >= 2) {
        input.dim[input.rank - 2] = height;
        input.dim[input.rank - 1] = width;
    }
    return input;
}

static bool plane_is(const bs_port_facts *port, const upscaler *u, int64_t height, int64_t width)
{
    bool is = port->rank == u->planes.rank && port->rank >= 2 && port->dim[port->rank - 2] == height &&
              port->dim[port->rank - 1] == width;
    for (int32_t i = 0; i < port->rank - 2; i++)
        is = is && port->dim[i] == 1;
    return is;
}

/* One luma plane in, twice its size out, of one type: codes, or f32 of 0 to 1. */
static bool plain_fits(upscaler *u)
{
    bs_port_facts in, out;
    char text[200];
    const bs_dtype code = u->bits > 8 ? BS_U16 : BS_U8;
    bs_graph_port_get(u->graph, u->planes.in, &in);
    bs_graph_port_get(u->graph, u->planes.out, &out);
    u->planes.dtype = in.dtype;
    if (u->route != ROUTE_AUTO)
        return fail(u, BS_ERROR_UNSUPPORTED, "it has no routes, so none can be forced (see examples/video/README.md)");
    snprintf(text, sizeof text,
             "without a router \"route\" it must take a plane %s or f32 [1, %d, %d] and give [1, %d, %d] of the same "
             "type (see examples/video/README.md)",
             bs_dtype_name(code), u->height, u->width, 2 * u->height, 2 * u->width);
    if (!plane_is(&in, u, u->height, u->width) || !plane_is(&out, u, 2 * u->height, 2 * u->width) ||
        in.dtype != out.dtype || (in.dtype != code && in.dtype != BS_F32))
        return fail(u, BS_ERROR_UNSUPPORTED, text);
    u->route = ROUTE_LARGE; /* all of it is one way */
    u->routed = false;
    u->tile = u->tile ? u->tile : PLAIN_TILE;
    return true;
}

static bool plain_room(upscaler *u)
{
    const uint64_t bytes = (uint64_t)u->width * (uint64_t)u->height * sizeof(float);
    if (!u->plain || u->planes.dtype != BS_F32)
        return true;
    if (!arenas_lend(&u->arenas, &u->from_memory, "plane", bytes, &u->error) ||
        !arenas_lend(&u->arenas, &u->to_memory, "result", 4 * bytes, &u->error))
        return false;
    u->planes.from = bs_arena_take(&u->from_memory, (size_t)bytes);
    u->planes.to = bs_arena_take(&u->to_memory, (size_t)(4 * bytes));
    return u->planes.from && u->planes.to;
}

static float code_at(const upscaler *u, const void *plane, ptrdiff_t at)
{
    return u->bits > 8 ? ((const uint16_t *)plane)[at] : ((const uint8_t *)plane)[at];
}

static void plain_begin(upscaler *u, const void *in, ptrdiff_t stride)
{
    const float scale = 1.0f / (float)((1 << u->bits) - 1);
    for (ptrdiff_t y = 0; y < u->height; y++)
        for (ptrdiff_t x = 0; x < u->width; x++)
            u->planes.from[y * u->width + x] = code_at(u, in, y * stride + x) * scale;
}

static void plain_end(const upscaler *u)
{
    const float most = (float)((1 << u->bits) - 1);
    const ptrdiff_t width = 2 * u->width;
    for (ptrdiff_t y = 0; y < 2 * u->height; y++)
        for (ptrdiff_t x = 0; x < width; x++) {
            const float n = u->planes.to[y * width + x] * most + 0.5f;
            const int code = n >= most ? (int)most : n > 0 ? (int)n : 0; /* NaN: 0 */
            if (u->bits > 8)
                ((uint16_t *)u->planes.result)[y * u->planes.stride + x] = (uint16_t)code;
            else
                ((uint8_t *)u->planes.result)[y * u->planes.stride + x] = (uint8_t)code;
        }
}

static bs_buffer plain_buffer(const upscaler *u, void *data, int64_t height, int64_t width, ptrdiff_t stride)
{
    bs_buffer b = {data, u->planes.dtype, u->planes.rank, {1, 1, 1, 1}, {0}};
    const int32_t y = b.rank > 2 ? b.rank - 2 : 0; /* two dimensions at least: plain_fits */
    for (int32_t i = 0; i < y; i++)
        b.stride[i] = height * stride;
    b.dim[y] = height;
    b.dim[y + 1] = width;
    b.stride[y] = stride;
    b.stride[y + 1] = 1;
    return b;
}

static bool plain_submit(upscaler *u, const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride)
{
    const int64_t h = u->height, w = u->width;
    bs_buffer from = plain_buffer(u, (void *)(uintptr_t)in, h, w, in_stride);
    bs_buffer to = plain_buffer(u, out, 2 * h, 2 * w, out_stride);
    u->planes.result = out;
    u->planes.stride = out_stride;
    if (u->planes.from) {
        plain_begin(u, in, in_stride);
        from = plain_buffer(u, u->planes.from, h, w, w);
        to = plain_buffer(u, u->planes.to, 2 * h, 2 * w, 2 * w);
    }
    return bs_bind(u->session, u->planes.in, &from, &u->error) == BS_OK &&
           bs_bind(u->session, u->planes.out, &to, &u->error) == BS_OK && bs_submit(u->session, &u->error) == BS_OK;
}

/* ---------------------------------------------------------------------------------------- from graph to session */

static bool build_for(upscaler *u, const video_options *o, const bs_model_input *frame)
{
    const bs_graph_desc room = bs_model_graph_desc(u->model);
    const bs_model_build_desc desc = {frame, frame ? 1 : 0, u->bits, floor_loss(o->floor)};
    u->graph_memory.used = 0;
    u->graph = bs_graph_create(&u->graph_memory, &room);
    if (!u->graph)
        return fail(u, BS_ERROR_ARENA, "the model's graph is too large");
    return bs_model_build(u->model, u->graph, &desc, &u->error) == BS_OK;
}

/* A model of other names: built as the file has it, to see whether it is a plain one, then for this frame. */
static bool plain_build(upscaler *u, const video_options *o)
{
    const bs_error before = u->error; /* what stands if it is none */
    char name[BS_MAX_NAME];
    if (build_for(u, o, NULL))
        find_plain(u);
    if (!u->plain) {
        u->error = before;
        return false;
    }
    bs_model_input frame = plain_input(u, u->height, u->width);
    snprintf(name, sizeof name, "%s", frame.name); /* its graph goes */
    frame.name = name;
    return build_for(u, o, &frame);
}

static bool routed_fits(upscaler *u, const video_options *o)
{
    int patch_size;
    if (!model_check_graph(u->graph, u->bits, u->height, u->width, &patch_size, &u->error))
        return false;
    u->tile = u->tile ? u->tile : patch_size;
    u->floor = floor_in_force(u, o);
    return true;
}

static bool graph_build(upscaler *u, const video_options *o)
{
    const bs_graph_desc room = bs_model_graph_desc(u->model);
    const bs_model_input frame = {"frame", 3, {1, u->height, u->width, 0}};
    if (!arenas_lend(&u->arenas, &u->graph_memory, "graph", bs_graph_bytes(&room), &u->error))
        return false;
    if (!build_for(u, o, &frame) && !plain_build(u, o))
        return false;
    find_plain(u);
    if (!scale_fits(u))
        return false;
    return u->plain ? plain_fits(u) && plain_room(u) : routed_fits(u, o);
}

static bool plan_make(upscaler *u, const video_options *o, bs_plan_desc *desc)
{
    if (!stream_options_plan(&o->stream, u->graph, desc, &u->error) ||
        !arenas_lend(&u->arenas, &u->plan_memory, "plan", bs_plan_bytes(u->graph, desc), &u->error))
        return false;
    u->plan = bs_plan_create(&u->plan_memory, NULL, u->graph, desc, &u->error);
    if (u->plan)
        bs_plan_sizes(u->plan, &u->planned);
    return u->plan != NULL;
}

static bool session_make(upscaler *u, const video_options *o, const stream_tools *tools)
{
    if (!device_open(&u->gpu, &u->arenas, &u->planned, &u->error))
        return false;
    u->fixed_bytes = u->index_memory.used + u->graph_memory.used + u->plan_memory.used + u->gpu.memory.used;
    arenas_paint_rest(&u->arenas, &u->graph_memory);
    arenas_paint_rest(&u->arenas, &u->plan_memory);
    if (!arenas_lend_session(&u->arenas, &u->memory, &u->planned, &u->error))
        return false;
    bs_session_desc desc = {.weights = bs_model_weights(u->model), .device = u->gpu.device};
    stream_options_session(&o->stream, tools, &desc);
    u->session = bs_session_create(&u->memory, u->plan, &desc, &u->error);
    return u->session != NULL;
}

bool upscaler_open(upscaler *u, const video_options *o, int width, int height, int bits)
{
    return upscaler_open_with(u, o, NULL, width, height, bits);
}

bool upscaler_open_with(upscaler *u, const video_options *o, const stream_tools *tools, int width, int height, int bits)
{
    bs_plan_desc desc;
    memset(u, 0, sizeof *u);
    u->arenas.painted = true;
    u->width = width;
    u->height = height;
    u->bits = bits;
    u->route = o->route;
    u->routed = o->route == ROUTE_AUTO;
    u->budget = (float)(1.0 - o->quality / 100.0);
    u->floor = NAN;
    if (!device_find(&u->gpu, &o->device, &u->error))
        return false;
    plan_describe(&desc, o, width);
    device_plan(&u->gpu, &desc);
    u->tile = desc.patch_size; /* 0: the model's */
    return model_open(u, o, tools ? tools->platform : NULL) && graph_build(u, o) && plan_make(u, o, &desc) &&
           session_make(u, o, tools);
}

void upscaler_stop(upscaler *u)
{
    bs_session_close(u->session);
    u->session = NULL;
}

void upscaler_close(upscaler *u)
{
    upscaler_stop(u);
    device_close(&u->gpu);
    bs_model_close(u->model);
    u->model = NULL;
    arenas_free(&u->arenas);
}

/* --------------------------------------------------------------------------------------------------- run */

/* One route for every cell: nothing is decided, and all time is spent there. */
static void tally_forced(upscaler *u, uint64_t total_ns)
{
    upscaler_tallies *t = &u->tallies;
    upscaler_map map;
    upscaler_last(u, &map);
    const int route = u->route < ROUTE_LARGE ? (int)u->route : UPSCALER_ROUTES - 1;
    const uint64_t cells = (uint64_t)map.across * (uint64_t)map.down;
    t->cells[route] += cells;
    t->route_ns[route] += total_ns;
    if (u->route >= ROUTE_LARGE)
        t->exits[u->route == ROUTE_LARGE ? UPSCALER_EXITS : (int)(u->route - ROUTE_EXIT1)] += cells;
}

static void tally(upscaler *u)
{
    upscaler_tallies *t = &u->tallies;
    bs_decision d;
    bs_run_stats stats;
    bs_session_stats(u->session, &stats);
    t->frames++;
    t->routing_ns += stats.routing_ns;
    t->total_ns += stats.total_ns;
    if (!u->routed) {
        tally_forced(u, stats.total_ns);
        return;
    }
    if (bs_decision_get(u->session, "route", &d) != BS_OK)
        return;
    uint64_t inside = (uint64_t)d.counts[3];
    for (int p = 0; p < UPSCALER_ROUTES; p++) {
        t->cells[p] += (uint64_t)d.counts[p];
        t->route_ns[p] += d.ns[p];
    }
    for (int e = 0; e < UPSCALER_EXITS && bs_decision_get(u->session, model_exits[e], &d) == BS_OK; e++) {
        t->exits[e] += (uint64_t)d.counts[0];
        t->exit_ns[e][0] += d.ns[0];
        t->exit_ns[e][1] += d.ns[1];
        inside -= (uint64_t)d.counts[0];
    }
    t->exits[UPSCALER_EXITS] += inside;
}

bool upscaler_submit(upscaler *u, const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride, bool reuse)
{
    const bs_dtype dtype = u->bits > 8 ? BS_U16 : BS_U8;
    const int64_t h = u->height, w = u->width;
    if (u->plain)
        return plain_submit(u, in, in_stride, out, out_stride);
    const bs_buffer from = {(void *)(uintptr_t)in, dtype, 3, {1, h, w, 0}, {h * in_stride, in_stride, 1, 0}};
    const bs_buffer to = {out, dtype, 3, {1, 2 * h, 2 * w, 0}, {2 * h * out_stride, out_stride, 1, 0}};
    const bs_buffer budget = {&u->budget, BS_F32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
    if (!reuse && u->routed)
        bs_reset_state(u->session);
    return bs_bind(u->session, "frame", &from, &u->error) == BS_OK &&
           bs_bind(u->session, "frame_2x", &to, &u->error) == BS_OK &&
           bs_bind(u->session, "budget", &budget, &u->error) == BS_OK && bs_submit(u->session, &u->error) == BS_OK;
}

bool upscaler_wait(upscaler *u)
{
    const uint64_t frame = (uint64_t)u->width * (uint64_t)u->height * bs_dtype_bytes(u->bits > 8 ? BS_U16 : BS_U8);
    if (bs_wait(u->session, &u->error) != BS_OK ||
        (u->routed && u->tallies.frames == 0 &&
         !model_check_cells(u->session, across(u) * down(u), &u->error)))
        return false;
    if (u->planes.to)
        plain_end(u);
    device_count(&u->gpu, frame + sizeof u->budget, 4 * frame);
    tally(u);
    return true;
}

bool upscaler_run(upscaler *u, const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride, bool reuse)
{
    return upscaler_submit(u, in, in_stride, out, out_stride, reuse) && upscaler_wait(u);
}

void upscaler_last(const upscaler *u, upscaler_map *map)
{
    bs_decision d;
    memset(map, 0, sizeof *map);
    map->size = u->tile;
    map->one_route = u->route;
    map->across = across(u);
    map->down = down(u);
    if (u->routed && bs_decision_get(u->session, "route", &d) == BS_OK)
        map->route = d.chosen;
    for (int e = 0; u->routed && e < UPSCALER_EXITS; e++)
        if (bs_decision_get(u->session, model_exits[e], &d) == BS_OK)
            map->exit[e] = d.chosen;
}

uint64_t upscaler_touched(const upscaler *u)
{
    return arenas_touched(&u->arenas);
}
