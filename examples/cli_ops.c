/* cli_ops.c: see cli_ops.h. */
#include "cli_ops.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What became of a node, or of the nodes of a block. */
typedef struct spent {
    int32_t node; /* from 1; of a block the first */
    uint64_t calls, ns;
    double flops, bytes, limit_ns;
} spent;

typedef struct totals {
    spent *nodes; /* [nodes] */
    uint64_t runs, run_ns, least_ns, most_ns, ops_ns; /* of runs whose ops were recorded */
} totals;

/* ---------------------------------------------------------------------------------------------------- counting */

static void count_op(totals *all, const bs_profile_reader *reader, const cli_machine *m, const bs_event *e)
{
    bs_profile_node_facts node;
    spent *s = &all->nodes[e->subject - 1];
    bs_profile_node_get(reader, e->subject, &node);
    const double rows = (double)e->value, flops = rows * node.flops;
    const double bytes = rows * node.bytes + (e->index ? 0 : node.weight_bytes); /* tiles find weights near */
    const double share = e->index ? 1 : m->threads;
    const double compute = m->flops > 0 ? flops / (m->flops * share) : 0;
    const double move = m->flops <= 0 ? 0 : bytes / (bytes <= CLI_NEAR_BYTES ? m->near * share : m->far);
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
    const double ns = (double)s->ns, runs = (double)all->runs;
    printf("  %-16s %-22.22s %8.1f %9.3f %6.1f %%  %8.2f %8.2f", what, name, (double)s->calls / runs, 1e-6 * ns / runs,
           100 * ns / whole, s->flops / ns, s->bytes / ns);
    if (s->limit_ns > 0)
        printf("   %5.1f %%", 100 * s->limit_ns / ns);
    printf("\n");
}

static void print_nodes(const totals *all, const bs_profile_reader *reader, int32_t nodes, int32_t most, double whole)
{
    qsort(all->nodes, (size_t)nodes, sizeof *all->nodes, more_expensive);
    for (int32_t i = 0; i < nodes && i < most && all->nodes[i].ns > 0; i++) {
        bs_profile_node_facts node;
        char name[BS_MAX_NAME + 12];
        bs_profile_node_get(reader, all->nodes[i].node, &node);
        snprintf(name, sizeof name, "%" PRId32 " %s", all->nodes[i].node, node.name);
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
            print_line(all, &blocks[i], whole, "", node.block[0] ? node.block : "main");
        }
    }
    free(blocks);
}

static void print_tables(const totals *all, const bs_profile_reader *reader, const cli_machine *m, int32_t nodes,
                         int32_t most)
{
    const double runs = (double)all->runs, run_ns = (double)all->run_ns, ops_ns = (double)all->ops_ns;
    const bool together = m->threads != 1; /* more threads, or it is not known how many */
    printf("time      %.3f ms a run, %.3f .. %.3f in %llu runs; ops take %.1f %% of it%s\n", 1e-6 * run_ns / runs,
           1e-6 * (double)all->least_ns, 1e-6 * (double)all->most_ns, (unsigned long long)all->runs,
           100 * ops_ns / run_ns, together ? ", of all threads together" : "");
    if (m->flops > 0)
        printf("machine   one thread: %.1f GFLOP/s, %.1f GB/s near, %.1f GB/s from memory, measured now\n", m->flops,
               m->near, m->far);
    printf("\n  %-16s %-22s %8s %9s %8s  %8s %8s%s\n", "op", "node", "calls", "ms a run", "share", "GFLOP/s", "GB/s",
           m->flops > 0 ? "   of the limit" : "");
    print_nodes(all, reader, nodes, most, together ? ops_ns : run_ns);
    print_blocks(all, reader, nodes, most, together ? ops_ns : run_ns);
}

static bool count_events(totals *all, bs_profile_reader *reader, const cli_machine *m, int32_t nodes, int32_t warm,
                         bs_error *error)
{
    bs_event event;
    uint64_t runs = 0;
    bool has_ops = false;
    bs_profile_rewind(reader);
    while (bs_profile_next(reader, &event, error)) {
        if (event.kind == BS_EVENT_OP)
            count_op(all, reader, m, &event);
        has_ops = has_ops || event.kind == BS_EVENT_OP;
        if (event.kind == BS_EVENT_RUN && has_ops) /* not all are: bs_profile_desc.ops */
            count_run(all, nodes, warm, ++runs, &event);
        has_ops = has_ops && event.kind != BS_EVENT_RUN;
    }
    for (int32_t i = 0; i < nodes; i++)
        all->nodes[i].node = i + 1;
    return error->status == BS_OK;
}

bool cli_ops_print(bs_profile_reader *reader, const cli_machine *machine, int32_t warm, int32_t most, bs_error *error)
{
    bs_profile_facts file;
    bs_profile_facts_get(reader, &file);
    totals all = {.nodes = calloc((size_t)file.nodes + 1, sizeof *all.nodes)};
    if (!all.nodes)
        return cli_say(error, BS_ERROR_ARENA, "no memory for its ops", "the profile");
    const bool good = file.nodes == 0 || count_events(&all, reader, machine, file.nodes, warm, error);
    if (good && all.runs > 0 && all.ops_ns > 0 && all.run_ns > 0)
        print_tables(&all, reader, machine, file.nodes, most);
    free(all.nodes);
    return good;
}
