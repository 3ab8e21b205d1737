/* device_launches.c: see device_launches.h. */
#include "device_launches.h"

#include "json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(bs_error *error, bs_status status, const char *message)
{
    memset(error, 0, sizeof *error);
    error->status = status;
    snprintf(error->message, sizeof error->message, "%s", message);
    return false;
}

#ifdef BS_CUDA

typedef struct totals {
    int64_t launches, idle, moves; /* idle: in which nothing had anything to do */
    int64_t items, empty;
    uint64_t bytes, identity_bytes, least_bytes;
} totals;

static totals add_up(const bs_cuda_launch *all, int32_t count)
{
    totals t = {0};
    for (int32_t i = 0; i < count; i++) {
        t.launches += all[i].times;
        t.idle += all[i].items == 0 ? all[i].times : 0;
        t.moves += all[i].identity_bytes > 0 ? all[i].times : 0;
        t.items += all[i].items;
        t.empty += all[i].empty;
        t.bytes += all[i].bytes;
        t.identity_bytes += all[i].identity_bytes;
        t.least_bytes += all[i].least_bytes;
    }
    return t;
}

/* "12.3 MiB", in one of a few buffers that take turns. */
static const char *size(uint64_t bytes)
{
    static char buffers[4][24];
    static unsigned next;
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char *text = buffers[next++ % 4];
    double n = (double)bytes;
    int unit = 0;
    for (; n >= 10000 && unit < 4; unit++)
        n /= 1024;
    snprintf(text, sizeof buffers[0], unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
    return text;
}

static double percent(uint64_t n, uint64_t of) { return of ? 100.0 * (double)n / (double)of : 0; }

static void print_table(const bs_cuda_launch *all, int32_t count, const bs_graph *graph, FILE *file)
{
    fprintf(file, "%4s  %-16s %-28s %5s %6s %7s %9s %9s %12s %12s\n", "", "kernel", "first step", "steps", "times",
            "blocks", "items", "empty", "bytes", "identity");
    for (int32_t i = 0; i < count; i++) {
        const bs_cuda_launch *l = &all[i];
        char step[96] = "";
        bs_node_facts node;
        if (l->node > 0 && bs_graph_node_get(graph, l->node, &node) == BS_OK)
            snprintf(step, sizeof step, "%" PRId32 " %s %s", l->node, node.op, node.name);
        fprintf(file, "%4" PRId32 "  %-16s %-28.28s %5" PRId32 " %6" PRId32 " %7" PRId32 " %9lld %9lld %12s %12s\n", i,
                l->kernel, step, l->steps, l->times, l->blocks, (long long)l->items, (long long)l->empty,
                size(l->bytes), l->identity_bytes ? size(l->identity_bytes) : "-");
    }
}

static void print_totals(const bs_cuda_launch *all, int32_t count, FILE *file)
{
    const totals t = add_up(all, count);
    fprintf(file, "launches  %lld in a run; %lld of them found nothing to do, %lld are identity moves\n",
            (long long)t.launches, (long long)t.idle, (long long)t.moves);
    fprintf(file, "items     %lld with something to do, %lld empty (%.1f %%)\n", (long long)t.items,
            (long long)t.empty, percent((uint64_t)t.empty, (uint64_t)(t.items + t.empty)));
    fprintf(file, "bytes     %s read and written, %s of them (%.1f %%) by identity moves\n", size(t.bytes),
            size(t.identity_bytes), percent(t.identity_bytes, t.bytes));
    fprintf(file, "least     %s: inputs, weights and outputs once (%.1f %% of what is moved)\n", size(t.least_bytes),
            percent(t.least_bytes, t.bytes));
}

static void print_json(const bs_cuda_launch *all, int32_t count, const bs_graph *graph, FILE *file)
{
    const totals t = add_up(all, count);
    fprintf(file, "{\"launches\": [");
    for (int32_t i = 0; i < count; i++) {
        const bs_cuda_launch *l = &all[i];
        bs_node_facts node;
        const bool named = l->node > 0 && bs_graph_node_get(graph, l->node, &node) == BS_OK;
        fprintf(file, "%s\n {\"kernel\": ", i ? "," : "");
        json_text(file, l->kernel);
        fprintf(file, ", \"node\": %" PRId32 ", \"op\": ", l->node);
        json_text(file, named ? node.op : "");
        fprintf(file, ", \"name\": ");
        json_text(file, named ? node.name : "");
        fprintf(file,
                ", \"steps\": %" PRId32 ", \"times\": %" PRId32 ", \"blocks\": %" PRId32
                ", \"items\": %lld, \"empty\": %lld, \"bytes\": %llu, \"identity_bytes\": %llu, \"least_bytes\": %llu}",
                l->steps, l->times, l->blocks, (long long)l->items, (long long)l->empty, (unsigned long long)l->bytes,
                (unsigned long long)l->identity_bytes, (unsigned long long)l->least_bytes);
    }
    fprintf(file,
            "],\n \"total\": {\"launches\": %lld, \"idle\": %lld, \"moves\": %lld, \"items\": %lld, \"empty\": %lld, "
            "\"bytes\": %llu, \"identity_bytes\": %llu, \"least_bytes\": %llu}}\n",
            (long long)t.launches, (long long)t.idle, (long long)t.moves, (long long)t.items, (long long)t.empty,
            (unsigned long long)t.bytes, (unsigned long long)t.identity_bytes, (unsigned long long)t.least_bytes);
}

/* Runs, again where there are more launches than room was made for. Returns their number; -1: it failed. */
static int32_t record(bs_device *device, bs_session *session, bs_cuda_launch **all, bs_error *error)
{
    int32_t room = 0, count = 256;
    while (count > room) {
        free(*all);
        room = count;
        *all = calloc((size_t)room, sizeof **all);
        if (!*all)
            return refuse(error, BS_ERROR_ARENA, "no memory for the list of launches") - 1;
        bs_reset_state(session);
        bs_cuda_launches(device, *all, room);
        const bs_status status = bs_run(session, error);
        count = bs_cuda_launches(device, NULL, 0);
        if (status != BS_OK)
            return -1;
    }
    return count;
}

bool device_launches(bs_device *device, bs_session *session, const bs_graph *graph, bool json, FILE *file,
                     bs_error *error)
{
    bs_cuda_launch *all = NULL;
    if (!device)
        return refuse(error, BS_ERROR_UNSUPPORTED, "launches are a GPU's: there is none");
    const int32_t count = record(device, session, &all, error);
    if (count >= 0 && json)
        print_json(all, count, graph, file);
    if (count >= 0 && !json) {
        print_table(all, count, graph, file);
        print_totals(all, count, file);
    }
    free(all);
    return count >= 0;
}

#else

bool device_launches(bs_device *device, bs_session *session, const bs_graph *graph, bool json, FILE *file,
                     bs_error *error)
{
    (void)device, (void)session, (void)graph, (void)json, (void)file;
    return refuse(error, BS_ERROR_UNSUPPORTED, "this build has no CUDA backend: make CUDA=1");
}

#endif
