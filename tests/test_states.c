/* tags: asan tsan */
/* Promises: a tensor of cells that becomes a state is made in it, whatever the graph, when everything that reads the
 * old content has run before; else it is copied when all else is done. Either way the next run reads what this one
 * wrote. */
#include "against.h"

static net_table weights;
static against a;
static _Alignas(64) uint8_t graph_memory[1 << 20];

typedef enum state_net {
    LINES,      /* rows read their state, and write it */
    BLURRED,    /* patches read a state with their neighbours', and write it */
    UNREAD,     /* patches write a state that is read as a whole beside them */
    READ_LATER, /* rows write a state that is read once more, after them */
    NETS
} state_net;

static bs_value mixed(bs_graph *g, bs_value x, bs_value h)
{
    const bs_value both[2] = {x, h};
    return bs_linear(g, bs_concat(g, both, 2, 0),
                     &(bs_linear_desc){.name = "mix", .out = 4, .act = BS_CLIP, .act_param = 8});
}

static bs_graph *lines_net(state_net kind)
{
    static const int64_t mix[2] = {4, 8}, four[1] = {4};
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    weights.table.count = 0;
    weights.next = NULL;
    net_add_whole(&weights, "mix.weight", 2, mix);
    net_add_whole(&weights, "mix.bias", 1, four);
    const bs_dim n = bs_symbol(g, "N", 26);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE2(n, 4)), h = bs_state(g, "h", BS_F32, BS_SHAPE2(n, 4));
    const bs_value rows = bs_rows(g, x, (bs_value){0}), old = bs_rows(g, h, rows);
    const bs_value made = mixed(g, rows, old), next = bs_collect(g, made);
    bs_state_write(g, h, next);
    bs_output(g, "next", next);
    if (kind == READ_LATER)
        bs_output(g, "sum", bs_collect(g, bs_add(g, made, old)));
    return g;
}

static bs_graph *patches_net(state_net kind)
{
    static const int64_t conv[4] = {1, 1, 3, 3}, one[1] = {1};
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    weights.table.count = 0;
    weights.next = NULL;
    net_add_whole(&weights, "conv.weight", 4, conv);
    net_add_whole(&weights, "conv.bias", 1, one);
    const bs_shape shape = BS_SHAPE3(1, bs_symbol(g, "H", 26), bs_symbol(g, "W", 21));
    const bs_value frame = bs_input(g, "frame", BS_F32, shape), before = bs_state(g, "before", BS_F32, shape);
    const bs_value cells = bs_patches(g, frame, &(bs_patches_desc){.size = 8}),
                   old = bs_patches(g, before, &(bs_patches_desc){.like = cells});
    const bs_conv2d_desc d = {.name = "conv", .out = 1, .act = BS_CLIP, .act_param = 8};
    const bs_value made = kind == BLURRED ? bs_add(g, bs_conv2d(g, old, &d), cells) : bs_conv2d(g, cells, &d);
    const bs_value next = bs_assemble(g, made);
    bs_state_write(g, before, next);
    bs_output(g, "next", next);
    if (kind == UNREAD)
        bs_output(g, "most", bs_pool2d(g, before, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .global = 1}));
    return g;
}

/* In place, or not: breadth first rows are stored when all of them are made, so what they read has been read; tiles
 * store while others read. What is read later by anything else forbids it in either order. */
static void test_net(state_net kind, const char *name, bool breadth, bool depth)
{
    for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
        const bs_plan_desc d = {.conv = BS_CONV_FORCE_DIRECT, .order = order, .threads = 2, .no_fusion = 1};
        const int64_t extent[3] = {19, 26, 21};
        const bool patches = kind == BLURRED || kind == UNREAD;
        const bs_graph *g = patches ? patches_net(kind) : lines_net(kind);
        rig r;
        memset(&a, 0, sizeof a);
        memset(ag_data, 0, sizeof ag_data);
        if (!check(rig_plan(&r, g, &d) && rig_session(&r, &weights.table, NULL, 0xFF), "%s: a session (%s)", name,
                   r.error.message))
            continue;
        int32_t next = 0;
        for (int32_t n = 1; n < g->n_nodes; n++)
            next = bs_node_joins_cells(&g->nodes[n]) && next == 0 ? g->nodes[n].first_out : next;
        const bool in_place = r.plan->values[next].storage == BS_STORAGE_STATE;
        check(in_place == (order == BS_ORDER_BREADTH ? breadth : depth), "%s: order %d, %s", name, order,
              in_place ? "made in the state" : "copied at the end");
        bool ok = true;
        for (int32_t run = 0; ok && run < 4; run++) {
            against_inputs(&a, g, &weights.table, &d, extent);
            memset(r.transient, 0x7F, (size_t)r.sizes.transient); /* nothing is kept there */
            ok = against_run(&a, r.session);
        }
        check(ok && rig_intact(&r), "%s: order %d, four runs are their definition %s", name, order, ok ? "" : a.why);
        bs_session_close(r.session);
    }
}

int main(void)
{
    test_net(LINES, "rows that read their state", true, false);
    test_net(BLURRED, "patches that read around their place in it", true, false);
    test_net(UNREAD, "a state that is read as a whole beside them", false, false);
    test_net(READ_LATER, "a state that is read again later", false, false);
    return check_end();
}
