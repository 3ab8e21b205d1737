/* networks.c: runs whole networks, one model file at a time, as a driver asks, so that bench/peers/products.py can run
 * them in turns with its peers.
 *
 *     networks                    commands on standard input, replies on standard output
 *
 *     open FILE TIER [ORDER]      plans it for one thread, prepares its weights    "ARENA-BYTES BYTES-BESIDE-THEM"
 *                                 (ORDER: breadth or depth; left out, the planner's choice)
 *     input NAME DIM...           then its bytes                                   "ok"
 *     output NAME DIM...          as this run will make it                         "ok"
 *     output NAME                 as large as this run can make it, after inputs   "ok"
 *     run TIMES                   runs it so often             "CPU-SECONDS ALLOCATIONS" of it all (-1: not counted)
 *     result NAME                 an output's                                      bytes
 *     extents NAME                an output's, where data say them                 "DIM... of DIM..." (as it was bound)
 *     close                                                                        "ok"
 *
 * ARENA-BYTES are those of the session; beside them are index of the file, graph and plan.
 * Owns: the protocol. Relies on: brainstorm.h, examples/arenas.h. Must never: time anything but bs_run.
 */
#include "allocations.h"
#include "arenas.h"
#include "figures.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 8, LINE = 1024 };

typedef struct port {
    char name[BS_MAX_NAME];
    uint8_t *data; /* as large as it can become */
    size_t bytes;  /* of the run at hand */
    int64_t dim[BS_MAX_RANK];
} port;

typedef struct network {
    arenas arenas;
    bs_memory memory;
    bs_model *model;
    bs_graph *graph;
    bs_session *session;
    port ports[MAX_PORTS];
    int n_ports;
    bs_error error;
} network;

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "networks: %s: %s\n", what, why);
    return false;
}

static bs_tier tier_named(const char *name)
{
    for (int t = BS_TIER_SCALAR; t <= BS_TIER_NEON; t++)
        if (strcmp(bs_tier_name((bs_tier)t), name) == 0)
            return (bs_tier)t;
    return BS_TIER_AUTO;
}

static void network_close(network *n)
{
    bs_session_close(n->session);
    bs_model_close(n->model);
    for (int i = 0; i < n->n_ports; i++)
        free(n->ports[i].data);
    arenas_free(&n->arenas);
    memset(n, 0, sizeof *n);
}

/* Graph and index of the file. */
static bool read_model(network *n, const char *path)
{
    bs_arena index, graph;
    const size_t bytes = bs_model_file_bytes(NULL, path, &n->error);
    if (bytes == 0 || !arenas_lend(&n->arenas, &index, "index", bytes, &n->error))
        return false;
    n->model = bs_model_open_file(&index, NULL, path, &n->error);
    if (!n->model)
        return false;
    const bs_graph_desc room = bs_model_graph_desc(n->model);
    if (!arenas_lend(&n->arenas, &graph, "graph", bs_graph_bytes(&room), &n->error))
        return false;
    n->graph = bs_graph_create(&graph, &room);
    return bs_model_build(n->model, n->graph, NULL, &n->error) == BS_OK;
}

static bs_order order_named(const char *name)
{
    if (strcmp(name, "breadth") == 0)
        return BS_ORDER_BREADTH;
    return strcmp(name, "depth") == 0 ? BS_ORDER_DEPTH : BS_ORDER_AUTO;
}

static bool make_session(network *n, bs_tier tier, bs_order order, uint64_t *beside)
{
    const bs_plan_desc desc = {.tier = (int32_t)tier, .threads = 1, .order = (int32_t)order};
    const bs_session_desc with = {.weights = bs_model_weights(n->model)};
    bs_arena arena;
    bs_sizes sizes;
    if (!arenas_lend(&n->arenas, &arena, "plan", bs_plan_bytes(n->graph, &desc), &n->error))
        return false;
    const bs_plan *plan = bs_plan_create(&arena, NULL, n->graph, &desc, &n->error);
    if (!plan)
        return false;
    *beside = n->arenas.bytes;
    bs_plan_sizes(plan, &sizes);
    if (!arenas_lend_session(&n->arenas, &n->memory, &sizes, &n->error))
        return false;
    n->session = bs_session_create(&n->memory, plan, &with, &n->error);
    return n->session != NULL;
}

static bool network_open(network *n, const char *path, const char *tier, const char *order)
{
    uint64_t beside = 0;
    network_close(n);
    if (!read_model(n, path) || !make_session(n, tier_named(tier), order_named(order), &beside))
        return complain(path, n->error.message);
    return printf("%llu %llu\n", (unsigned long long)(n->arenas.bytes - beside), (unsigned long long)beside) > 0;
}

/* The port of that name, made when it is first asked for. NULL: there is none. */
static port *port_named(network *n, const char *name, bs_port_facts *facts)
{
    if (bs_graph_port_get(n->graph, name, facts) != BS_OK)
        return NULL;
    for (int i = 0; i < n->n_ports; i++)
        if (strcmp(n->ports[i].name, name) == 0)
            return &n->ports[i];
    if (n->n_ports == MAX_PORTS)
        return NULL;
    port *p = &n->ports[n->n_ports++];
    size_t most = bs_dtype_bytes(facts->dtype);
    for (int32_t i = 0; i < facts->rank; i++)
        most *= (size_t)facts->dim[i];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->data = calloc(most, 1);
    return p->data ? p : NULL;
}

static bool network_bind(network *n, const char *name, const char *dims, bool output)
{
    bs_port_facts facts;
    port *p = port_named(n, name, &facts);
    if (!p || facts.output != output)
        return complain(name, "there is no such port");
    bs_buffer buffer = {.data = p->data, .dtype = facts.dtype, .rank = facts.rank};
    if (output && !*dims && bs_bound_extents(n->session, name, buffer.dim, &n->error) != BS_OK)
        return complain(name, n->error.message);
    p->bytes = bs_dtype_bytes(facts.dtype);
    const bool given = !output || *dims;
    for (int32_t i = 0; i < facts.rank; i++) {
        if (given) {
            char *end;
            buffer.dim[i] = strtol(dims, &end, 10);
            if (end == dims || buffer.dim[i] < 0 || buffer.dim[i] > facts.dim[i])
                return complain(name, "an extent is missing, or beyond the maximum");
            dims = end;
        }
        p->bytes *= (size_t)(p->dim[i] = buffer.dim[i]);
    }
    if (!output && fread(p->data, 1, p->bytes, stdin) != p->bytes)
        return complain(name, "its bytes are missing");
    if (bs_bind(n->session, name, &buffer, &n->error) != BS_OK)
        return complain(name, n->error.message);
    return puts("ok") >= 0;
}

static bool network_run(network *n, int times)
{
    const long before = bench_allocations();
    const double since = peak_cpu_seconds();
    for (int i = 0; i < times; i++)
        if (bs_run(n->session, &n->error) != BS_OK)
            return complain("run", n->error.message);
    const double seconds = peak_cpu_seconds() - since;
    const long after = bench_allocations();
    return printf("%.9f %ld\n", seconds, before > 0 ? after - before : -1) > 0;
}

static bool network_result(network *n, const char *name)
{
    bs_port_facts facts;
    const port *p = port_named(n, name, &facts);
    return p ? fwrite(p->data, 1, p->bytes, stdout) == p->bytes : complain(name, "there is no such port");
}

static bool network_extents(network *n, const char *name)
{
    bs_port_facts facts;
    int64_t dim[BS_MAX_RANK];
    const port *p = port_named(n, name, &facts);
    if (!p || bs_output_extents(n->session, name, dim) != BS_OK)
        return complain(name, "there is no such output");
    for (int32_t i = 0; i < facts.rank; i++)
        printf("%lld ", (long long)dim[i]);
    printf("of");
    for (int32_t i = 0; i < facts.rank; i++)
        printf(" %lld", (long long)p->dim[i]);
    return puts("") >= 0;
}

static bool obey(network *n, const char *verb, const char *rest)
{
    char name[512] = "", tier[16] = "", order[16] = "";
    int at = 0;
    if (strcmp(verb, "open") == 0)
        return sscanf(rest, "%511s %15s %15s", name, tier, order) >= 2 && network_open(n, name, tier, order);
    if (strcmp(verb, "close") == 0) {
        network_close(n);
        return puts("ok") >= 0;
    }
    if (!n->session)
        return complain(verb, "nothing is open, or no such command");
    if (strcmp(verb, "run") == 0)
        return network_run(n, atoi(rest));
    if (sscanf(rest, "%511s %n", name, &at) != 1)
        return complain(verb, "of what?");
    if (strcmp(verb, "input") == 0 || strcmp(verb, "output") == 0)
        return network_bind(n, name, rest + at, verb[0] == 'o');
    if (strcmp(verb, "result") == 0)
        return network_result(n, name);
    if (strcmp(verb, "extents") == 0)
        return network_extents(n, name);
    return complain(verb, "no such command");
}

static bool serve(void)
{
    static network n;
    char line[LINE], verb[16];
    bool ok = true;
    while (ok && fgets(line, sizeof line, stdin)) {
        int at = 0;
        ok = sscanf(line, "%15s %n", verb, &at) < 1 || obey(&n, verb, line + at);
        fflush(stdout);
    }
    network_close(&n);
    return ok;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "networks");
    if (argc > 1) {
        fprintf(stderr, "%s takes commands on standard input: see bench/networks.c, or run make bench-products\n",
                argv[0]);
        return 2;
    }
    const bool ok = figures_open(&out, NULL) && serve();
    return figures_end(&out) && ok ? 0 : 1;
}
