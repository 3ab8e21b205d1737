/* graph/copy.c - see graph/copy.h. Relies on graph/copy.h. Must never change the graph that is copied. */
#include "graph/copy.h"

static bs_tail *carve(bs_carver *c, bs_graph *g, const bs_graph *from, const bs_graph_room *room)
{
    BS_CARVE(c, g->nodes, room->nodes);
    BS_CARVE(c, g->values, room->values);
    BS_CARVE(c, g->operands, room->operands);
    BS_CARVE(c, g->domains, from->n_domains);
    BS_CARVE(c, g->dims, from->n_dims);
    BS_CARVE(c, g->blocks, from->n_blocks);
    BS_CARVE(c, g->routers, from->n_routers);
    if (room->texts)
        BS_CARVE(c, g->text, from->n_text);
    return bs_carve(c, (uint64_t)room->tails, sizeof(bs_tail));
}

void bs_graph_copy_carve(bs_carver *carver, bs_graph_copy *copy)
{
    bs_graph *g = copy->to;
    const bs_graph_room room = bs_graph_copy_room(copy);
    copy->tails = carve(carver, g, copy->from, &room);
    g->tails = copy->tails;
}

bs_graph_room bs_graph_copy_room(const bs_graph_copy *copy)
{
    const bs_graph *g = copy->to;
    return (bs_graph_room){g->n_nodes, g->n_values, g->n_operands, g->n_tails, copy->texts};
}

bs_bytes bs_graph_copy_bytes(const bs_graph *graph, const bs_graph_room *room)
{
    bs_graph counted;
    bs_carver c = {NULL, {0}};
    bs_carve(&c, 1, sizeof(bs_graph));
    carve(&c, &counted, graph, room);
    return c.used;
}

void bs_graph_copy_begin(bs_graph_copy *copy, bool filling)
{
    bs_graph *to = copy->to;
    to->n_nodes = to->n_values = 1;
    to->n_operands = to->n_cell_nodes = to->n_same = to->first_work = to->n_tails = 0;
    copy->filling = filling;
    memset(copy->node_at, 0, (size_t)copy->from->n_nodes * sizeof *copy->node_at);
    copy->value_at[0] = 0;
    if (!filling)
        return;
    memset(&to->nodes[0], 0, sizeof to->nodes[0]);
    to->values[0] = copy->from->values[0];
}

/* Adds a node with operands `in`; its outputs are like those of `from` at `like`. */
static void add(bs_graph_copy *copy, const bs_node *node, const int32_t *in, int32_t like)
{
    bs_graph *to = copy->to;
    for (int32_t i = 0; copy->filling && i < node->n_in; i++)
        to->operands[to->n_operands + i] = in[i];
    for (int32_t i = 0; copy->filling && i < node->n_out; i++) {
        bs_value_info *value = &to->values[to->n_values + i];
        *value = copy->from->values[like + i];
        value->domain = node->domain;
        value->node = to->n_nodes;
        value->only = 0;
    }
    if (copy->filling) {
        bs_node *added = &to->nodes[to->n_nodes];
        *added = *node;
        added->in = to->n_operands;
        added->first_out = to->n_values;
        added->same = 0;
    }
    to->n_cell_nodes += node->domain != 0;
    to->n_operands += node->n_in;
    to->n_values += node->n_out;
    to->n_nodes++;
}

void bs_graph_copy_add(bs_graph_copy *copy, int32_t n, int32_t domain, const int32_t *in)
{
    const bs_graph *from = copy->from;
    bs_node node = from->nodes[n];
    const int32_t *old = bs_node_in(from, &node);
    int32_t *own = copy->filling ? copy->to->operands + copy->to->n_operands : NULL;
    for (int32_t i = 0; own && !in && i < node.n_in; i++)
        own[i] = copy->value_at[copy->source[old[i]]];
    for (int32_t i = 0; i < node.n_out; i++)
        copy->value_at[node.first_out + i] = copy->to->n_values + i;
    copy->node_at[n] = copy->to->n_nodes;
    node.domain = domain;
    add(copy, &node, in ? in : own, node.first_out);
}

/* A step as a node by itself, whose operands stand behind those of all nodes so far. */
static bs_node step_of(const bs_graph_copy *copy, const bs_graph_step *step)
{
    const bs_graph *to = copy->to;
    bs_node node = copy->from->nodes[step->n];
    node.in = to->n_operands;
    node.first_out = to->n_values - 1;
    node.domain = to->nodes[to->n_nodes - 1].domain;
    int32_t others = 0;
    for (int32_t i = 0; i < node.n_in; i++)
        to->operands[node.in + i] = (step->made >> i & 1) ? node.first_out : step->others[others++];
    return node;
}

void bs_graph_copy_add_tail(bs_graph_copy *copy, const bs_graph_step *steps, int32_t count)
{
    bs_graph *to = copy->to;
    bs_node *whole = copy->filling ? &to->nodes[to->n_nodes - 1] : NULL;
    const int32_t own = whole ? whole->n_in : 0;
    int32_t others[BS_MAX_TAIL];
    for (int32_t i = 0; i < count; i++) {
        copy->node_at[steps[i].n] = to->n_nodes - 1;
        copy->value_at[copy->from->nodes[steps[i].n].first_out] = to->n_values - 1;
        others[i] = -1;
        if (whole && steps[i].n_others) {
            others[i] = whole->n_in;
            whole->n_in += steps[i].n_others;
            whole->n_read += steps[i].n_others;
            memcpy(to->operands + to->n_operands, steps[i].others, (size_t)steps[i].n_others * sizeof(int32_t));
        }
        to->n_operands += steps[i].n_others;
    }
    for (int32_t i = 0; i < count; i++) {
        if (whole) {
            bs_value_info *result = &to->values[to->n_values - 1];
            const bs_dtype from = result->dtype;
            const bs_value_info *made = &copy->from->values[copy->from->nodes[steps[i].n].first_out];
            result->dtype = made->dtype;
            memcpy(result->dims, made->dims, sizeof made->dims);
            result->scale_num = made->scale_num;
            result->scale_den = made->scale_den;
            const bs_tail tail = {step_of(copy, &steps[i]), steps[i].at, others[i], own, steps[i].keeps, from,
                                  result->dtype};
            copy->tails[to->n_tails] = tail;
        }
        to->n_operands += copy->from->nodes[steps[i].n].n_in;
        to->n_tails++;
    }
    if (whole) {
        whole->tail = to->n_tails - count;
        whole->n_tail = count;
    }
}

int32_t bs_graph_copy_add_view(bs_graph_copy *copy, const bs_node *view, int32_t block, int32_t value, int32_t like)
{
    bs_node node = *view;
    node.block = block;
    add(copy, &node, &value, like);
    if (copy->filling)
        copy->to->values[copy->to->n_values - 1].reshaped = false;
    return copy->to->n_values - 1;
}

static int32_t value_in(const bs_graph_copy *copy, int32_t value) { return copy->value_at[copy->source[value]]; }

/* Nodes that were left out are what stands for their results. */
static void find_left_out(bs_graph_copy *copy)
{
    const bs_graph *from = copy->from;
    for (int32_t n = 1; n < from->n_nodes; n++)
        if (copy->node_at[n] == 0)
            copy->node_at[n] = copy->node_at[from->values[copy->source[from->nodes[n].first_out]].node];
}

static void move_nodes(bs_graph_copy *copy)
{
    bs_graph *to = copy->to;
    to->first_name = copy->node_at[to->first_name];
    for (bs_node *node = to->nodes + 1; node < to->nodes + to->n_nodes; node++) {
        node->writer = copy->node_at[node->writer];
        node->child[0] = copy->node_at[node->child[0]];
        node->child[1] = copy->node_at[node->child[1]];
    }
}

static void move_routers(bs_graph_copy *copy)
{
    bs_graph *to = copy->to;
    memcpy(to->routers, copy->from->routers, (size_t)to->n_routers * sizeof *to->routers);
    for (bs_router_info *router = to->routers + 1; router < to->routers + to->n_routers; router++) {
        router->node = copy->node_at[router->node];
        router->loop.again = copy->node_at[router->loop.again];
        router->score = value_in(copy, router->score);
        router->knob = value_in(copy, router->knob);
        router->loop.count = value_in(copy, router->loop.count);
    }
}

/* What lies in the texts of the graph, in those of the copy. */
static const void *text_in(const bs_graph_copy *copy, const void *at)
{
    const uintptr_t offset = (uintptr_t)at - (uintptr_t)copy->from->text;
    return offset < (uintptr_t)copy->from->n_text ? copy->to->text + offset : at;
}

/* Parameters begin with a name. */
static const void *params_in(const bs_graph_copy *copy, const void *params)
{
    const void *own = text_in(copy, params), *name;
    if (own == params)
        return params;
    memcpy(&name, own, sizeof name);
    name = text_in(copy, name);
    memcpy(copy->to->text + ((const char *)own - copy->to->text), &name, sizeof name);
    return own;
}

static void copy_texts(bs_graph_copy *copy)
{
    bs_graph *to = copy->to;
    memcpy(to->text, copy->from->text, (size_t)to->n_text);
    to->max_text = to->n_text;
    for (int32_t n = 1; n < to->n_nodes; n++)
        to->nodes[n].params = params_in(copy, to->nodes[n].params);
    for (int32_t t = 0; t < to->n_tails; t++)
        copy->tails[t].node.params = params_in(copy, copy->tails[t].node.params);
    for (int32_t r = 1; r < to->n_routers; r++)
        to->routers[r].desc = params_in(copy, to->routers[r].desc);
}

void bs_graph_copy_end(bs_graph_copy *copy)
{
    const bs_graph *from = copy->from;
    bs_graph *to = copy->to;
    if (!copy->filling)
        return;
    find_left_out(copy);
    move_nodes(copy);
    move_routers(copy);
    memcpy(to->domains, from->domains, (size_t)to->n_domains * sizeof *to->domains);
    memcpy(to->dims, from->dims, (size_t)to->n_dims * sizeof *to->dims);
    memcpy(to->blocks, from->blocks, (size_t)to->n_blocks * sizeof *to->blocks);
    for (bs_domain *domain = to->domains; domain < to->domains + to->n_domains; domain++)
        domain->lengths = value_in(copy, domain->lengths);
    for (bs_dim_info *dim = to->dims; dim < to->dims + to->n_dims; dim++)
        dim->node = copy->node_at[dim->node];
    for (bs_block *block = to->blocks; block < to->blocks + to->n_blocks; block++) {
        block->first_node = block->first_node < from->n_nodes ? copy->node_at[block->first_node] : to->n_nodes;
        block->end_node = block->end_node < from->n_nodes ? copy->node_at[block->end_node] : to->n_nodes;
    }
    if (copy->texts)
        copy_texts(copy);
}
