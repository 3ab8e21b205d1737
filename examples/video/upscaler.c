/* upscaler.c: see upscaler.h. */
#include "upscaler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const exit_routers[UPSCALER_EXITS] = {"exit0", "exit1"};

static bool fail(upscaler *u, bs_status status, const char *message)
{
    u->error.status = status;
    snprintf(u->error.message, sizeof u->error.message, "%s", message);
    return false;
}

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
        d->forces[d->n_forces++] = (bs_force){exit_routers[i], leaves ? 0 : 1};
    }
}

/* Losses of the model's tables are 1/256 of a squared code value of 8 bits, and they are against the original. The
 * difference to what the large net makes of a tile is larger, because that net errs too: five times as much, as
 * models/README.md found on photographs. */
static int32_t floor_loss(double db)
{
    return db > 0 ? (int32_t)(255.0 * 255.0 * 256.0 / 5.0 * pow(10, -db / 10)) : db < 0 ? 0 : -1;
}

static bool scale_fits(upscaler *u)
{
    char text[96];
    bs_model_facts facts;
    bs_model_facts_get(u->model, &facts);
    if (facts.scale == 2)
        return true;
    if (facts.scale == 0)
        return fail(
            u, BS_ERROR_UNSUPPORTED,
            "it does not say that it enlarges (brainstorm.model.scale is missing); video_sr takes models that double");
    snprintf(text, sizeof text, "it enlarges %d times; video_sr takes models that double", (int)facts.scale);
    return fail(u, BS_ERROR_UNSUPPORTED, text);
}

typedef struct wanted_port {
    const char *name;
    bool output;
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[3];
} wanted_port;

static bool port_fits(upscaler *u, const wanted_port *w)
{
    char shape[64], text[200];
    bs_port_facts is;
    if (w->rank == 1)
        snprintf(shape, sizeof shape, "%s [1]", bs_dtype_name(w->dtype));
    else
        snprintf(shape, sizeof shape, "%s [1, %lld, %lld]", bs_dtype_name(w->dtype), (long long)w->dim[1],
                 (long long)w->dim[2]);
    const char *kind = w->output ? "output" : "input";
    if (bs_graph_port_get(u->graph, w->name, &is) != BS_OK || is.output != w->output) {
        snprintf(text, sizeof text, "it has no %s \"%s\", %s (see examples/video/README.md)", kind, w->name, shape);
        return fail(u, BS_ERROR_UNSUPPORTED, text);
    }
    bool fits = is.dtype == w->dtype && is.rank == w->rank;
    for (int32_t i = 0; fits && i < w->rank; i++)
        fits = is.dim[i] == w->dim[i];
    snprintf(text, sizeof text, "its %s \"%s\" is no %s (see examples/video/README.md)", kind, w->name, shape);
    return fits || fail(u, BS_ERROR_UNSUPPORTED, text);
}

/* What this program binds and asks for: examples/video/README.md tells it. */
static bool model_fits(upscaler *u)
{
    const bs_dtype code = u->bits > 8 ? BS_U16 : BS_U8;
    const int64_t h = u->height, w = u->width;
    const wanted_port ports[] = {{"frame", false, code, 3, {1, h, w}},
                                 {"budget", false, BS_F32, 1, {1, 0, 0}},
                                 {"frame_2x", true, code, 3, {1, 2 * h, 2 * w}}};
    bs_router_facts router;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++)
        if (!port_fits(u, &ports[i]))
            return false;
    if (bs_graph_router_get(u->graph, "route", &router) != BS_OK || router.paths != UPSCALER_ROUTES ||
        router.patch_size == 0)
        return fail(u, BS_ERROR_UNSUPPORTED,
                    "it has no router \"route\" that sends patches four ways (see examples/video/README.md)");
    u->tile = u->tile ? u->tile : router.patch_size;
    return true;
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
    return u->model && scale_fits(u);
}

static bool graph_build(upscaler *u, const video_options *o)
{
    const bs_graph_desc room = bs_model_graph_desc(u->model);
    const bs_model_input frame = {"frame", 3, {1, u->height, u->width, 0}};
    const bs_model_build_desc desc = {&frame, 1, u->bits, floor_loss(o->floor)};
    if (!arenas_lend(&u->arenas, &u->graph_memory, "graph", bs_graph_bytes(&room), &u->error))
        return false;
    u->graph = bs_graph_create(&u->graph_memory, &room);
    if (!u->graph)
        return fail(u, BS_ERROR_ARENA, "the model's graph is too large");
    return bs_model_build(u->model, u->graph, &desc, &u->error) == BS_OK && model_fits(u);
}

static bool plan_make(upscaler *u, const video_options *o, bs_plan_desc *desc)
{
    if (!stream_options_plan(&o->stream, u->graph, desc, &u->error) ||
        !arenas_lend(&u->arenas, &u->plan_memory, "plan", bs_plan_bytes(u->graph, desc), &u->error))
        return false;
    u->plan = bs_plan_create(&u->plan_memory, u->graph, desc, &u->error);
    if (u->plan)
        bs_plan_sizes(u->plan, &u->planned);
    return u->plan != NULL;
}

static bool session_make(upscaler *u, const video_options *o, const stream_tools *tools)
{
    if (!device_open(&u->gpu, &u->arenas, &u->planned, &u->error))
        return false;
    u->fixed_bytes = u->index_memory.used + u->graph_memory.used + u->plan_memory.used + u->gpu.memory.used;
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
    for (int e = 0; e < UPSCALER_EXITS && bs_decision_get(u->session, exit_routers[e], &d) == BS_OK; e++) {
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
    if (bs_wait(u->session, &u->error) != BS_OK)
        return false;
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
    map->across = (u->width + u->tile - 1) / u->tile;
    map->down = (u->height + u->tile - 1) / u->tile;
    if (u->routed && bs_decision_get(u->session, "route", &d) == BS_OK)
        map->route = d.chosen;
    for (int e = 0; u->routed && e < UPSCALER_EXITS; e++)
        if (bs_decision_get(u->session, exit_routers[e], &d) == BS_OK)
            map->exit[e] = d.chosen;
}

uint64_t upscaler_touched(const upscaler *u)
{
    return arenas_touched(&u->arenas);
}
