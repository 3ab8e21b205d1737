/* cli_time.c: see cli_time.h.
 *
 * The limit beside an op is the time that its arithmetic takes at the peak of the multiply-adders, or that its bytes
 * take from where so many lie, whichever is longer; both are measured when they are printed. */
#include "cli_time.h"

#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING_BYTES = 1 << 22, ARENA_BYTES = 4096, NEAR_BYTES = 1 << 18, FAR_BYTES = 1 << 26 };
static const size_t most_bytes = (size_t)1 << 30; /* of events; those behind it are lost, which is told */

struct cli_time {
    bs_profile *profile;
    uint8_t *events; /* the profile's file */
    size_t bytes, room;
    void *ring;
    uint64_t dropped;
    _Alignas(BS_ALIGNMENT) uint8_t memory[ARENA_BYTES];
};

/* What became of a node, or of the nodes of a block. */
typedef struct spent {
    int32_t node; /* from 1; of a block the first */
    uint64_t calls, ns;
    double flops, bytes, limit_ns;
} spent;

typedef struct totals {
    spent *nodes; /* [nodes] */
    uint64_t runs, run_ns, least_ns, most_ns, ops_ns;
} totals;

/* --------------------------------------------------------------------------------------------------- recording */

static int keep(void *user, const void *data, size_t bytes)
{
    cli_time *t = user;
    size_t room = t->room ? t->room : 1 << 16;
    while (room < t->bytes + bytes && room < most_bytes)
        room *= 2;
    uint8_t *events = room < t->bytes + bytes ? NULL : room > t->room ? realloc(t->events, room) : t->events;
    if (!events)
        return -1;
    memcpy(events + t->bytes, data, bytes);
    t->events = events;
    t->room = room;
    t->bytes += bytes;
    return 0;
}

cli_time *cli_time_begin(bs_error *error)
{
    bs_arena arena;
    cli_time *t = aligned_alloc(BS_ALIGNMENT, (sizeof *t + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT);
    void *ring = malloc(RING_BYTES);
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_ARENA;
    if (t && ring) {
        memset(t, 0, sizeof *t);
        t->ring = ring;
        const bs_profile_desc desc = {.write = keep, .user = t, .memory = ring, .bytes = RING_BYTES, .ops = 1};
        bs_arena_init(&arena, "profile", t->memory, sizeof t->memory);
        t->profile = bs_profile_create(&arena, &desc, error);
        if (t->profile)
            return t;
    }
    free(ring);
    free(t);
    return NULL;
}

bs_profile *cli_time_profile(cli_time *time) { return time->profile; }

void cli_time_end(cli_time *time)
{
    if (!time)
        return;
    bs_profile_close(time->profile, NULL);
    free(time->events);
    free(time->ring);
    free(time);
}

/* ---------------------------------------------------------------------------------------------------- counting */

static int64_t read_events(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const cli_time *t = user;
    const size_t left = offset < t->bytes ? t->bytes - (size_t)offset : 0;
    const size_t n = bytes < left ? bytes : left;
    memcpy(buffer, t->events + offset, n);
    return (int64_t)n;
}

typedef struct machine {
    double flops, near, far; /* a nanosecond, of one thread */
    int32_t threads;
} machine;

static void count_op(totals *all, const bs_profile_reader *reader, const machine *m, const bs_event *e)
{
    bs_profile_node_facts node;
    spent *s = &all->nodes[e->subject - 1];
    bs_profile_node_get(reader, e->subject, &node);
    const double rows = (double)e->value, flops = rows * node.flops;
    const double bytes = rows * node.bytes + (e->index ? 0 : node.weight_bytes); /* tiles find weights near */
    const double share = e->index ? 1 : m->threads;
    const double compute = flops / (m->flops * share), move = bytes / (bytes <= NEAR_BYTES ? m->near * share : m->far);
    s->calls++;
    s->ns += e->end_ns - e->start_ns;
    s->flops += flops;
    s->bytes += bytes;
    s->limit_ns += compute > move ? compute : move;
    all->ops_ns += e->end_ns - e->start_ns;
}

static void count_run(totals *all, int32_t nodes, int32_t warm, uint64_t run, const bs_event *e)
{
    const uint64_t ns = e->end_ns - e->start_ns;
    if (run <= (uint64_t)warm) {
        memset(all->nodes, 0, (size_t)nodes * sizeof *all->nodes);
        all->ops_ns = 0;
        return;
    }
    all->runs++;
    all->run_ns += ns;
    all->least_ns = all->runs == 1 || ns < all->least_ns ? ns : all->least_ns;
    all->most_ns = ns > all->most_ns ? ns : all->most_ns;
}

/* ---------------------------------------------------------------------------------------------------- printing */

static int more_expensive(const void *a, const void *b)
{
    const spent *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : (x->node > y->node) - (x->node < y->node);
}

static void print_line(const totals *all, const spent *s, double whole, const char *what, const char *name)
{
    printf("  %-16s %-22.22s %8.1f %9.3f %6.1f %%  %8.2f %8.2f   %5.1f %%\n", what, name,
           (double)s->calls / (double)all->runs, 1e-6 * (double)s->ns / (double)all->runs,
           100 * (double)s->ns / whole, s->ns ? s->flops / (double)s->ns : 0, s->ns ? s->bytes / (double)s->ns : 0,
           s->ns ? 100 * s->limit_ns / (double)s->ns : 0);
}

static void print_nodes(const totals *all, const bs_profile_reader *reader, int32_t nodes, int32_t most, double whole)
{
    qsort(all->nodes, (size_t)nodes, sizeof *all->nodes, more_expensive);
    for (int32_t i = 0; i < nodes && i < most && all->nodes[i].ns > 0; i++) {
        bs_profile_node_facts node;
        char name[BS_MAX_NAME + 12];
        bs_profile_node_get(reader, all->nodes[i].node, &node);
        snprintf(name, sizeof name, "%d %s", all->nodes[i].node, node.name);
        print_line(all, &all->nodes[i], whole, node.op, name);
    }
}

/* Nodes of one block lie together, or are named alike: their times are added under the block's name. */
static void print_blocks(const totals *all, const bs_profile_reader *reader, int32_t nodes, int32_t most, double whole)
{
    spent *blocks = calloc((size_t)nodes, sizeof *blocks);
    int32_t n = 0;
    for (int32_t i = 0; blocks && i < nodes; i++) {
        bs_profile_node_facts node, other;
        const spent *s = &all->nodes[i];
        int32_t at = 0;
        bs_profile_node_get(reader, s->node, &node);
        while (at < n && bs_profile_node_get(reader, blocks[at].node, &other) == BS_OK &&
               strcmp(node.block, other.block) != 0)
            at++;
        if (s->ns == 0)
            continue;
        blocks[at] = (spent){at < n ? blocks[at].node : s->node, blocks[at].calls + s->calls, blocks[at].ns + s->ns,
                             blocks[at].flops + s->flops, blocks[at].bytes + s->bytes,
                             blocks[at].limit_ns + s->limit_ns};
        n += at == n;
    }
    if (n > 1) {
        qsort(blocks, (size_t)n, sizeof *blocks, more_expensive);
        printf("\n  block\n");
        for (int32_t i = 0; i < n && i < most; i++) {
            bs_profile_node_facts node;
            bs_profile_node_get(reader, blocks[i].node, &node);
            print_line(all, &blocks[i], whole, "", node.block);
        }
    }
    free(blocks);
}

static void print_tables(const totals *all, const bs_profile_reader *reader, const cli_time_facts *facts,
                         const machine *m, int32_t nodes)
{
    const double whole = facts->threads > 1 ? (double)all->ops_ns : (double)all->run_ns;
    printf("time      %.3f ms a run, %.3f .. %.3f in %llu runs", 1e-6 * (double)all->run_ns / (double)all->runs,
           1e-6 * (double)all->least_ns, 1e-6 * (double)all->most_ns, (unsigned long long)all->runs);
    printf("; ops take %.1f %% of it%s\n", 100 * (double)all->ops_ns / (double)all->run_ns,
           facts->threads > 1 ? ", of all threads together" : "");
    printf("machine   %s, one thread: %.1f GFLOP/s, %.1f GB/s near, %.1f GB/s from memory, measured now\n\n",
           bs_tier_name(facts->tier), m->flops, m->near, m->far);
    printf("  %-16s %-22s %8s %9s %8s  %8s %8s   %s\n", "op", "node", "calls", "ms a run", "share", "GFLOP/s", "GB/s",
           "limit reached");
    print_nodes(all, reader, nodes, facts->most, whole);
    print_blocks(all, reader, nodes, facts->most, whole);
}

static bool count_events(totals *all, bs_profile_reader *reader, const cli_time_facts *facts, const machine *m,
                         int32_t nodes, bs_error *error)
{
    bs_event event;
    uint64_t runs = 0;
    while (bs_profile_next(reader, &event, error)) {
        if (event.kind == BS_EVENT_OP)
            count_op(all, reader, m, &event);
        if (event.kind == BS_EVENT_RUN)
            count_run(all, nodes, facts->warm, ++runs, &event);
    }
    for (int32_t i = 0; i < nodes; i++)
        all->nodes[i].node = i + 1;
    return error->status == BS_OK;
}

static bool print_all(cli_time *time, bs_arena *arena, const cli_time_facts *facts, bs_error *error)
{
    const bs_reader source = {.user = time, .read = read_events, .size = time->bytes};
    const machine m = {peak_gflops(facts->tier), peak_read_gbs(NEAR_BYTES), peak_read_gbs(FAR_BYTES), facts->threads};
    bs_profile_facts file;
    bs_profile_reader *reader = bs_profile_open(arena, &source, error);
    if (!reader)
        return false;
    bs_profile_facts_get(reader, &file);
    totals all = {.nodes = calloc((size_t)file.nodes + 1, sizeof *all.nodes)};
    const bool good = all.nodes && count_events(&all, reader, facts, &m, file.nodes, error);
    if (good && all.runs > 0)
        print_tables(&all, reader, facts, &m, file.nodes);
    if (good && time->dropped)
        printf("  %llu events found no room and are not counted\n", (unsigned long long)time->dropped);
    if (!all.nodes)
        error->status = BS_ERROR_ARENA;
    free(all.nodes);
    return good;
}

bool cli_time_print(cli_time *time, const cli_time_facts *facts, bs_error *error)
{
    bs_arena arena;
    memset(error, 0, sizeof *error);
    error->status = bs_profile_close(time->profile, &time->dropped);
    time->profile = NULL;
    if (error->status != BS_OK && time->bytes == 0)
        return false;
    const size_t room = 2 * time->bytes + 16384; /* tables take no more than they do in the file, but for alignment */
    void *memory = malloc(room);
    bs_arena_init(&arena, "profile", memory, memory ? room : 0);
    const bool good = print_all(time, &arena, facts, error);
    free(memory);
    return good;
}
