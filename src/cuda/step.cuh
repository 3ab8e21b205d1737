/* step.cuh - from the plan's instructions to steps, and from steps to launches.
 *
 * Instructions of one time are independent of each other (bs_plan_side_by_side): those with the same kernel become one
 * launch, however many branches there are. A region is one launch too.
 * Relies on step_operand.cuh and the describe functions of the op files. Must never touch the device. */
#ifndef BS_CUDA_STEP
#define BS_CUDA_STEP

#include "cuda/step_operand.cuh"
#include "cuda/ops.cuh"

struct bs_cu_launches {
    bs_device_launch *list;
    int32_t count, room, instr;
    bool fixed; /* a library is told the extents and buffers of the run */
};

/* -------------------------------------------------------------------------------------------------- steps */

static bs_device_operand *bs_cu_add_operand(bs_cu_tables *l)
{
    bs_device_operand *o = &l->operands[l->n_operands < l->layout->n_operands ? l->n_operands : 0];
    l->overflow = l->overflow || l->n_operands >= l->layout->n_operands;
    l->n_operands++;
    memset(o, 0, sizeof *o);
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        o->from[i] = -1;
    return o;
}

static void bs_cu_add_in(bs_cu_tables *l, bs_device_step *s, int32_t value)
{
    bs_device_operand *o = bs_cu_add_operand(l);
    if (value)
        bs_cu_operand(l, value, o);
    s->n_in++;
}

/* Copies the descriptor's fields, which follow its name and have four bytes each. */
static void bs_cu_copy_fields(const bs_node *node, bs_device_step *s)
{
    const bs_op *op = bs_op_get(node->op);
    for (int32_t i = 0; node->params && i < op->n_fields && i < BS_DEVICE_PARAMS; i++)
        memcpy(&s->p[i], static_cast<const char *>(node->params) + sizeof(char *) + 4 * i, 4);
}

static void bs_cu_step_call(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    int32_t n_in;
    const int32_t *in = bs_plan_in(l->plan, i->node, &n_in);
    const bool around = bs_op_get(node->op)->rows.of == BS_ROWS_AROUND;
    for (int32_t k = 0; k < n_in; k++) {
        const bs_node *carry = &l->graph->nodes[l->graph->values[in[k]].node];
        bs_cu_add_in(l, s, around && k == 0 ? bs_view_of(l->graph, carry) : in[k]);
    }
    bs_cu_copy_fields(node, s);
    for (int32_t k = 0; k < node->n_out; k++, s->n_out++)
        bs_cu_operand(l, node->first_out + k, bs_cu_add_operand(l));
}

/* Writes the bits that say which paths of a gather give a value; returns their first word. */
static int32_t bs_cu_add_given(bs_cu_tables *l, const bs_instr *i)
{
    const bs_node *gather = &l->graph->nodes[i->node];
    /* bs_device_given_words counted them too: there is room */
    const int32_t *in = bs_node_in(l->graph, gather), words = bs_device_given_words(l->plan, i), at = l->n_given;
    memset(l->given + at, 0, (size_t)words * sizeof *l->given);
    for (int32_t p = 0; p < l->graph->routers[gather->router].desc->paths; p++)
        if (in[p] != 0 && bs_plan_reads(l->plan, gather, p))
            l->given[at + (p >> 5)] |= 1u << (p & 31);
    l->n_given += words;
    return at;
}

/* Where an instruction stores rows, with the extents of value `of`. */
typedef void (*bs_cu_place)(bs_cu_tables *l, const bs_instr *i, int32_t of, bs_device_operand *o);

/* Stores rows, or zeros: to rows of the parent, the places of a trip in them, cells of a root tensor, or what is bound.
 */
static void bs_cu_step_store(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    if (i->value)
        bs_cu_add_in(l, s, i->value);
    to(l, i, i->value ? i->value : i->target, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_append(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    bs_cu_add_in(l, s, i->value);
    bs_cu_add_in(l, s, bs_node_in(l->graph, node)[bs_node_operand(node, BS_ROLE_CACHE_LENGTH)]);
    to(l, i, i->value, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_residual(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    if (i->value)
        bs_cu_add_in(l, s, i->value);
    to(l, i, l->graph->nodes[i->node].first_out, bs_cu_add_operand(l));
    s->n_out = 1;
    s->p[BS_CU_FILL_GIVEN].i = bs_cu_add_given(l, i);
}

static void bs_cu_step_beyond(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_out = 1;
}

static void bs_cu_step_paths(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const int32_t paths = l->graph->routers[node->router].desc->paths, *in = bs_node_in(l->graph, node);
    bs_cu_add_in(l, s, i->value);
    for (int32_t p = 0; p < paths; p++)
        bs_cu_add_in(l, s, bs_plan_reads(l->plan, node, p) ? in[p] : 0);
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_out = 1;
    s->p[BS_CU_GATHER_GIVEN].i = bs_cu_add_given(l, i);
}

static void bs_cu_step_load(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s)
{
    bs_cu_source(l, i->value, bs_cu_add_operand(l));
    to(l, i, i->target, bs_cu_add_operand(l));
    s->n_in = s->n_out = 1;
}

/* A move: what adds its operands, where it stores, and how its step is described. By its row map; residuals have their
 * own kernel. */
struct bs_cu_move {
    void (*operands)(bs_cu_tables *l, const bs_instr *i, bs_cu_place to, bs_device_step *s);
    bs_cu_place to;
    bs_cu_description description;
};

#define BS_CU_MOVE(name, text) name,

static bs_cu_move bs_cu_move_of(const bs_instr *i)
{
    const bs_cu_move NONE = {NULL, NULL, BS_CU_DESCRIPTION(store)},
                     VIEW = {bs_cu_step_load, bs_cu_to_own, BS_CU_DESCRIPTION(store)},
                     ROW = {bs_cu_step_store, bs_cu_to_row, BS_CU_DESCRIPTION(store)}, PARENT = ROW,
                     CELL = {bs_cu_step_store, bs_cu_to_cell, BS_CU_DESCRIPTION(store)},
                     BOUND = {bs_cu_step_store, bs_cu_to_bound, BS_CU_DESCRIPTION(store)},
                     APPEND = {bs_cu_step_append, bs_cu_to_ring, BS_CU_DESCRIPTION(append)},
                     PATHS = {bs_cu_step_paths, bs_cu_to_own, BS_CU_DESCRIPTION(paths)},
                     BEYOND = {bs_cu_step_beyond, bs_cu_to_own, BS_CU_DESCRIPTION(beyond)},
                     TRIP = {bs_cu_step_store, bs_cu_to_trip, BS_CU_DESCRIPTION(store)};
    const bs_cu_move moves[] = {NONE, BS_ROW_MAP_LIST(BS_CU_MOVE)};
    const bs_cu_move fill = {bs_cu_step_residual, moves[i->map].to, BS_CU_DESCRIPTION(fill)};
    return i->combine == BS_COMBINE_RESIDUAL ? fill : moves[i->map];
}

static void bs_cu_step_route(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    const bs_router_info *r = &l->graph->routers[node->router];
    if (l->plan->routers[s->router].forced)
        return;
    if (bs_router_loops(l->graph, node->router)) { /* a predicate, a count */
        if (r->loop.again == i->node && bs_node_in(l->graph, node)[0])
            bs_cu_add_in(l, s, bs_node_in(l->graph, node)[0]);
        if (r->loop.count)
            bs_cu_add_in(l, s, r->loop.count);
        return;
    }
    bs_cu_add_in(l, s, r->score);
    if (r->knob)
        bs_cu_add_in(l, s, r->knob);
}

/* Whether kernels can count the elements that a step writes of a row: they number them with 31 bits. */
static bool bs_cu_countable(const bs_device_operand *o)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < o->rank && elements <= INT32_MAX; i++) {
        const bool side = o->image && i > 0;
        elements *= (side && o->cell > 0 ? o->cell : o->dim[i]) + (side ? 2 * (int64_t)o->margin : 0);
    }
    return elements <= INT32_MAX;
}

/* Rows that a domain can have. */
static int64_t bs_cu_most_rows(const bs_plan *p, int32_t domain)
{
    int64_t per_row = 1;
    for (; p->graph->domains[domain].kind == BS_DOMAIN_PATH; domain = p->graph->domains[domain].parent)
        per_row *= p->graph->routers[p->graph->domains[domain].router].max_paths_per_cell;
    return per_row * p->domains[domain].max_rows;
}

/* What describe functions are given about the node of a step that has its operands. */
static bs_cu_node bs_cu_node_of(const bs_device_client *c, const bs_device_step *s, const bs_device_operand *all,
                                const bs_instr *i, int32_t blocks, bool near, bool cublas)
{
    const bs_node *node = &c->graph->nodes[s->node];
    const bs_device_operand *in = all + s->operands;
    const bs_cu_node n = {c->graph, c->plan,   node, &c->plan->nodes[s->node],         node->params,
                          in,       in + s->n_in, i, bs_cu_most_rows(c->plan, s->domain), blocks, near, cublas};
    return n;
}

/* An op with a tail: the kernel that runs chains, with the op itself as the first one; of lines, theirs. */
static void bs_cu_step_chain(bs_cu_tables *l, const bs_cu_node *n, bs_device_step *s)
{
    const bs_graph *g = l->graph;
    if (n->node->n_tail == 0)
        return;
    const bool two = bs_node_own_in(g, n->node) > 1;
    const int32_t how = two ? bs_cu_how_beside(bs_value_get(g, n->node->first_out),
                                               bs_value_get(g, bs_node_in(g, n->node)[0]))
                            : 0;
    bs_cu_chain_op(g, n->node, s->kernel, 0, two ? 1 : -1, &s->tail[s->n_tail++]);
    for (int32_t i = 0; i < n->node->n_tail; i++) {
        const bs_tail *tail = &g->tails[n->node->tail + i];
        bs_cu_chain_op(g, &tail->node, bs_cu_ops[tail->node.op].kernel, tail->at, tail->other, &s->tail[s->n_tail++]);
    }
    const bool elements = bs_op_get(n->node->op)->memory.chained;
    s->kernel = elements ? BS_CU_chain : BS_CU_line_chain;
    if (elements)
        s->p[BS_CU_CHAIN_HOW].i = how;
    s->rounded = l->plan->desc.half;
}

/* Writes the step of an instruction. */
static void bs_cu_step(bs_cu_tables *l, const bs_instr *i, bs_device_step *s)
{
    const bs_node *node = &l->graph->nodes[i->node];
    memset(s, 0, sizeof *s);
    s->node = i->node;
    s->domain = i->domain;
    s->router = node->router;
    s->operands = l->n_operands;
    s->batch = 1;
    s->unit = l->plan->nodes[i->node].unit;
    s->prepared = bs_bytes_figure(l->plan->nodes[i->node].prepared_offset);
    s->makes = i->kind == BS_INSTR_CALL ? node->makes : 0;
    s->empty = i->kind != BS_INSTR_CALL || bs_op_get(node->op)->layout.empty;
    switch (static_cast<bs_instr_kind>(i->kind)) {
    case BS_INSTR_CALL: bs_cu_step_call(l, i, s); break;
    case BS_INSTR_MOVE: bs_cu_move_of(i).operands(l, i, bs_cu_move_of(i).to, s); break;
    case BS_INSTR_ROUTE: bs_cu_step_route(l, i, s); break;
    case BS_INSTR_RUN: return;
    }
    bs_device_operand *operands = l->operands + s->operands;
    for (int32_t k = 0; k < s->n_in + s->n_out && !l->overflow; k++)
        bs_cu_link_operand(l, &operands[k]);
    for (int32_t k = s->n_in; k < s->n_in + s->n_out && !l->overflow; k++)
        l->too_many = bs_cu_countable(&operands[k]) ? l->too_many : i->node;
    if (l->overflow || l->too_many)
        return; /* nothing is launched, and describe functions could overflow */
    const bs_cu_node n = bs_cu_node_of(l->client, s, l->operands, i, l->blocks, l->layout->scratch_bytes == 0,
                                       l->cublas);
    const bool moves = i->kind == BS_INSTR_MOVE;
    if (!moves || n.out->base != 0 || n.out->place == BS_AT_TILE) { /* else an output that is not bound */
        const bs_cu_description d = moves ? bs_cu_move_of(i).description : bs_cu_ops[node->op];
        s->parts = 1;
        s->kernel = d.kernel;
        d.describe(&n, s);
        if (!moves)
            bs_cu_step_chain(l, &n, s);
    }
    s->rows = l->domains[s->domain].counted;
}

/* ----------------------------------------------------------------------------------------------- launches */

/* Work items of steps that run together, at most: paths of one router share its rows, as often as one of them has
 * several steps. */
static int64_t bs_cu_most_work_items(const bs_cu_tables *l, int32_t first, int32_t count)
{
    const bs_graph *g = l->graph;
    int64_t apart = 0, together = 0, rows = 0;
    int32_t batch = INT32_MAX, parts = 1, router = 0, most = 0;
    uint16_t steps[BS_SIDE_BY_SIDE] = {0}; /* of a path, and of those as many further on */
    bool one = true;
    for (int32_t k = first; k < first + count; k++) {
        const bs_device_step *s = &l->steps[k];
        const bs_domain *d = &g->domains[s->domain];
        apart += bs_ceil_div(bs_cu_most_rows(l->plan, s->domain), s->batch) * s->parts;
        rows = bs_cu_most_rows(l->plan, s->domain);
        batch = bs_min_i32(batch, s->batch);
        parts = bs_max_i32(parts, s->parts);
        one = one && d->kind == BS_DOMAIN_PATH && (k == first || d->router == router);
        router = d->router;
        most = bs_max_i32(most, ++steps[bs_max_i32(d->path, 0) % BS_SIDE_BY_SIDE]);
    }
    /* a batch has a row at least */
    together = bs_min_i64(rows, bs_ceil_div(rows, batch) + (batch == 1 ? 0 : count)) * parts * most;
    return one && together < apart ? together : apart;
}

static void bs_cu_add_launch(bs_cu_tables *l, bs_cu_launches *to, int32_t kernel, int32_t first, int32_t count,
                             int64_t items, int32_t callback = 0, int32_t round = 0)
{
    const bs_device_launch launch = {kernel, first, count, to->instr, callback,
                                     (int32_t)bs_min_i64(items, INT32_MAX), round};
    l->overflow = l->overflow || to->count >= to->room || items > INT32_MAX;
    to->list[to->count < to->room ? to->count : 0] = launch;
    to->count++;
}

/* Launches `count` steps of one kernel, then what follows it. One that sees all rows is launched even where there can
 * be none, to write that there are none; a decision may have a callback, which is called before it. */
static void bs_cu_launch_kernels(bs_cu_tables *l, bs_cu_launches *to, int32_t first, int32_t count)
{
    const bs_device_step *s = &l->steps[first];
    const bool all = bs_cu_sees_all_rows(s->kernel), asks = all && s->router && bs_cu_asks_caller(l->plan, s->router);
    const int64_t items = bs_max_i64(bs_cu_most_work_items(l, first, count), all);
    to->fixed = to->fixed || !bs_cu_is_kernel(s->kernel);
    bs_cu_add_launch(l, to, s->kernel, first, count, items, asks ? s->router : 0, s->round);
    if (s->then)
        bs_cu_add_launch(l, to, s->then, first, count, items);
}

/* Launches the steps [first, end), which are of one time: those of one kernel together. */
static void bs_cu_launch_steps(bs_cu_tables *l, bs_cu_launches *to, int32_t first, int32_t end)
{
    for (int32_t k = first + 1; k < end; k++) { /* by kernel, stable */
        const bs_device_step s = l->steps[k];
        int32_t at = k;
        for (; at > first && l->steps[at - 1].kernel > s.kernel; at--)
            l->steps[at] = l->steps[at - 1];
        l->steps[at] = s;
    }
    for (int32_t k = first; k < end;) {
        const int32_t kernel = l->steps[k].kernel;
        int32_t count = 1;
        while (!bs_cu_sees_all_rows(kernel) && k + count < end && l->steps[k + count].kernel == kernel)
            count++;
        if (l->steps[k].parts > 0)
            bs_cu_launch_kernels(l, to, k, count);
        k += count;
    }
    for (int32_t k = first; k < end; k++)
        if (l->steps[k].makes) {
            bs_cu_add_launch(l, to, BS_CU_extend, first, end - first, 1);
            return;
        }
}

/* The parts of a region, in the plan's order: the most expensive first. */
static void bs_cu_launch_region(bs_cu_tables *l, bs_cu_launches *to, const bs_region *region, bs_device_part *parts)
{
    const bs_plan *p = l->plan;
    const int32_t blocks = l->blocks;
    int64_t tiles = 0;
    l->blocks = 1;
    for (int32_t k = region->first; k < region->first + region->count; k++) {
        const bs_part *part = &p->parts[p->region_parts[k]];
        bs_device_part *d = &parts[k];
        d->domain = part->domain;
        d->rows = l->domains[part->domain].counted;
        d->tile_rows = p->domains[part->domain].tile_rows;
        d->first = l->n_steps;
        d->count = part->count;
        for (int32_t i = 0; i < part->count; i++)
            bs_cu_step(l, &p->instrs[part->first + i], &l->steps[l->n_steps++]);
        const int64_t most = bs_ceil_div(bs_cu_most_rows(l->plan, part->domain), d->tile_rows);
        tiles = part->router ? (d->tile_rows == 1 && tiles > most ? tiles : most + (k - region->first) + 1) : most;
    }
    l->blocks = blocks;
    bs_cu_add_launch(l, to, BS_CU_region, region->first, region->count, tiles);
}

/* Whether a step makes an extent, or has scratch, which others share. */
static bool bs_cu_stands_alone(const bs_cu_tables *l, const bs_device_step *s)
{
    return s->makes || bs_bytes_figure(l->plan->nodes[s->node].scratch_bytes) > 0;
}

/* Tells both decisions of each loop where the other one is: how many launches lie between them is known now. */
static void bs_cu_write_loops(const bs_cu_tables *l, bs_cu_launches *launches)
{
    bs_device_launch *list = launches->list;
    for (int32_t k = 0; k < launches->count; k++) {
        const int32_t router = l->steps[list[k].first].router;
        int32_t at = k;
        if (list[k].round >= 0)
            continue;
        while (list[at].round <= 0 || l->steps[list[at].first].router != router)
            at--; /* the planner puts one before the other */
        list[at].round = k - at;
        list[k].round = at - k;
    }
}

/* All tables of a run. */
static bs_status bs_cu_write_tables(bs_cu_tables *l, bs_cu_launches *to, bs_device_part *parts, bs_error *error)
{
    const bs_plan *p = l->plan;
    to->count = 0;
    to->fixed = false;
    for (int32_t at = 0; at < p->n_top;) {
        to->instr = at;
        if (p->instrs[at].kind == BS_INSTR_RUN) {
            bs_cu_launch_region(l, to, &p->regions[p->instrs[at].region], parts);
            at++;
            continue;
        }
        const int32_t first = l->n_steps, end = bs_plan_side_by_side(p, at);
        for (; at < end && (l->n_steps == first || !bs_cu_stands_alone(l, &l->steps[l->n_steps - 1])); at++)
            bs_cu_step(l, &p->instrs[at], &l->steps[l->n_steps++]);
        bs_cu_launch_steps(l, to, first, l->n_steps);
    }
    if (l->too_many)
        return bs_fail(error, BS_ERROR_LIMIT,
                       "%s \"%s\" can give 2^31 elements or more, a GPU's kernels count to 2^31 - 1",
                       bs_op_get(l->graph->nodes[l->too_many].op)->name, bs_node_name(&l->graph->nodes[l->too_many]));
    if (l->overflow)
        return bs_fail(
            error, BS_ERROR_LIMIT,
            "a buffer can be larger than a GPU's kernels address (2^31 elements), or the plan has too many steps");
    bs_cu_write_loops(l, to);
    return BS_OK;
}

#endif
