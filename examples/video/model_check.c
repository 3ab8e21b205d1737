/* model_check.c: see model_check.h. */
#include "model_check.h"

#include "upscaler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const model_exits[UPSCALER_EXITS] = {"exit0", "exit1"};

static bool lacks(bs_error *error, const char *what)
{
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_UNSUPPORTED;
    snprintf(error->message, sizeof error->message, "%s (see examples/video/README.md)", what);
    return false;
}

/* ------------------------------------------------------------------------------------------------------- ports */

typedef struct wanted_port {
    const char *name;
    bool output;
    bs_dtype dtype;
    int32_t rank;
    int64_t dim[3];
} wanted_port;

static bool port_fits(const bs_graph *graph, const wanted_port *w, bs_error *error)
{
    char shape[64], text[200];
    bs_port_facts is;
    if (w->rank == 1)
        snprintf(shape, sizeof shape, "%s [1]", bs_dtype_name(w->dtype));
    else
        snprintf(shape, sizeof shape, "%s [1, %lld, %lld]", bs_dtype_name(w->dtype), (long long)w->dim[1],
                 (long long)w->dim[2]);
    const char *kind = w->output ? "output" : "input";
    if (bs_graph_port_get(graph, w->name, &is) != BS_OK || is.output != w->output) {
        snprintf(text, sizeof text, "it has no %s \"%s\", %s", kind, w->name, shape);
        return lacks(error, text);
    }
    bool fits = is.dtype == w->dtype && is.rank == w->rank;
    for (int32_t i = 0; fits && i < w->rank; i++)
        fits = is.dim[i] == w->dim[i];
    snprintf(text, sizeof text, "its %s \"%s\" is no %s", kind, w->name, shape);
    return fits || lacks(error, text);
}

static bool ports_fit(const bs_graph *graph, int bits, int64_t h, int64_t w, bs_error *error)
{
    const bs_dtype code = bits > 8 ? BS_U16 : BS_U8;
    const wanted_port ports[] = {{"frame", false, code, 3, {1, h, w}},
                                 {"budget", false, BS_F32, 1, {1, 0, 0}},
                                 {"frame_2x", true, code, 3, {1, 2 * h, 2 * w}}};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++)
        if (!port_fits(graph, &ports[i], error))
            return false;
    return true;
}

/* ----------------------------------------------------------------------------------------------------- routers */

/* A router as the graph has it. Routers and loops share their numbers, which count from 1 in the order of building. */
typedef struct router_place {
    int32_t id;    /* 0: there is none of that name */
    bool decides;  /* it is a router, no loop */
    bool on_tiles; /* of patches */
    int32_t inside, path; /* of which router's path, 0: outside all */
} router_place;

static router_place find_router(const bs_graph *graph, const char *name)
{
    bs_node_facts node;
    int32_t id = 0;
    for (int32_t i = 1; bs_graph_node_get(graph, i, &node) == BS_OK; i++) {
        const bool route = strcmp(node.op, "route") == 0;
        id += route || strcmp(node.op, "loop") == 0;
        if ((route || strcmp(node.op, "loop") == 0) && strcmp(node.name, name) == 0)
            return (router_place){id, route, node.kind == BS_ROWS_PATCHES, node.router.id, node.path};
    }
    return (router_place){0, false, false, 0, 0};
}

/* Each exit goes on to the next one: what leaves there has come so far, and is counted once. */
static bool exits_fit(const bs_graph *graph, int32_t inside, int32_t path, bs_error *error)
{
    char text[160];
    for (int e = 0; e < UPSCALER_EXITS; e++) {
        const router_place exit = find_router(graph, model_exits[e]);
        bs_router_facts facts;
        snprintf(text, sizeof text, "its \"%s\" is no router that sends the patches of path %d of \"%s\" two ways",
                 model_exits[e], (int)path, e ? model_exits[e - 1] : "route");
        if (bs_graph_router_get(graph, model_exits[e], &facts) == BS_OK &&
            (!exit.decides || !exit.on_tiles || facts.paths != 2 || inside == 0 || exit.inside != inside ||
             exit.path != path))
            return lacks(error, text);
        inside = exit.id;
        path = 1;
    }
    return true;
}

/* Parameters are told to people only. */
int model_floor(const bs_graph *graph)
{
    char line[512];
    bs_node_facts node;
    for (int32_t i = 1; bs_graph_node_get(graph, i, &node) == BS_OK; i++)
        if (strcmp(node.op, "route") == 0 && strcmp(node.name, "route") == 0) {
            bs_graph_describe(graph, i, line, sizeof line);
            const char *const floor = strstr(line, " floor ");
            return strstr(line, "{protocol budget") ? floor ? (int)strtol(floor + strlen(" floor "), NULL, 10) : 0 : -1;
        }
    return -1;
}

bool model_check_graph(const bs_graph *graph, int bits, int height, int width, int *patch_size, bs_error *error)
{
    bs_router_facts facts;
    if (!ports_fit(graph, bits, height, width, error))
        return false;
    const router_place route = find_router(graph, "route");
    if (bs_graph_router_get(graph, "route", &facts) != BS_OK || facts.paths != UPSCALER_ROUTES || !route.decides ||
        !route.on_tiles || route.inside != 0)
        return lacks(error, "it has no router \"route\" that sends patches four ways");
    if (patch_size)
        *patch_size = facts.patch_size;
    return exits_fit(graph, route.id, UPSCALER_ROUTES - 1, error);
}

bool model_check_cells(const bs_session *session, int tiles, bs_error *error)
{
    char text[160];
    bs_decision route;
    if (bs_decision_get(session, "route", &route) == BS_OK && route.cells == tiles)
        return true;
    snprintf(text, sizeof text, "its router \"route\" decides on %d patches, and \"frame\" has %d: they are of another "
                                "image", (int)route.cells, tiles);
    return lacks(error, text);
}
