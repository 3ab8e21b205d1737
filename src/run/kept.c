/* run/kept.c - calls and moves that are prepared once and done many times. In the body of a loop one trip prepares
 * them, and the next trips do them as they are, as long as nothing has moved that they read or write. Outside all paths
 * a run prepares its calls for the runs after it. What belongs to a trip (its part of a sequence, the place of what it
 * gives to a collection) moves by the same number of bytes from each trip to the next.
 * Owns: which instructions are kept, and until when. Relies on run/exec.h. Must never keep an address that has changed.
 * So an epoch begins for what is outside all paths with a run before which something was bound; for the bodies of loops
 * with a decision that may move rows, and with the first one of each loop, when all extents in its body are known. */
#include "run/exec.h"

#include "ops/structure.h"

#ifdef BS_SMALL /* for few bytes nothing is kept */
int32_t bs_kept_count(const bs_plan *plan, int32_t *operands)
{
    (void)plan;
    return *operands = 0;
}
void bs_kept_place(bs_session *s, bs_operand *operands) { (void)s, (void)operands; }
bool bs_exec_kept(bs_session *s, const bs_instr *i) { return (void)s, (void)i, false; }
bool bs_exec_ready(bs_session *s, const bs_step *step) { return (void)s, (void)step, false; }
#else

/* A small network has few instructions, and of a large one they take longer than what is saved. */
enum { KEPT_MOST = 64, KEPT_BYTES = 8192, KEPT_WEIGHTS = 65536 };

static bool is_short(const bs_plan *p, int32_t value)
{
    return !p->graph->values[value].image && bs_bytes_figure(p->values[value].row_bytes) <= KEPT_BYTES;
}

/* One kernel without margins around what it writes. */
static bool is_plain_call(const bs_plan *p, const bs_instr *i)
{
    const bs_node *node = &p->graph->nodes[i->node];
    bool plain = node->n_out > 0 && p->nodes[i->node].work_items == 0 &&
                 bs_op_get(node->op)->rows.of != BS_ROWS_DECIDED;
    for (int32_t k = 0; k < node->n_out; k++)
        plain = plain && is_short(p, node->first_out + k);
    return plain;
}

static bool is_plain_move(const bs_plan *p, const bs_instr *i)
{
    return (bs_instr_loads(i) || bs_instr_to_parent(i)) && i->combine == BS_COMBINE_COPY && i->value != 0 &&
           i->target != 0 && is_short(p, i->value);
}

static bool is_in_body(const bs_graph *g, int32_t domain)
{
    const int32_t loop = g->domains[domain].loop;
    return loop != 0 && g->routers[loop].path_domains == domain;
}

/* A call of which neither decisions nor runs change anything but what the operands hold: outside all paths. */
static bool is_steady(const bs_plan *p, const bs_instr *i)
{
    return i->kind == BS_INSTR_CALL && p->graph->domains[i->domain].kind != BS_DOMAIN_PATH &&
           bs_bytes_figure(p->nodes[i->node].prepared_bytes) <= KEPT_WEIGHTS;
}

/* Operands to be kept of an instruction at top level; 0: it is not kept. */
static int32_t kept_operands(const bs_plan *p, const bs_instr *i)
{
    int32_t n_in = 0;
    if (bs_instr_streams(i) || !(is_steady(p, i) || is_in_body(p->graph, i->domain)))
        return 0;
    if (i->kind == BS_INSTR_CALL && is_plain_call(p, i)) {
        bs_plan_in(p, i->node, &n_in);
        return n_in + p->graph->nodes[i->node].n_out;
    }
    return i->kind == BS_INSTR_MOVE && is_plain_move(p, i) ? 2 : 0;
}

int32_t bs_kept_count(const bs_plan *plan, int32_t *operands)
{
    int32_t count = 0;
    *operands = 0;
    for (int32_t k = 0; k < plan->n_top && count < KEPT_MOST && !bs_plan_on_device(plan); k++) {
        const int32_t more = kept_operands(plan, &plan->instrs[k]);
        count += more > 0;
        *operands += more;
    }
    return count;
}

void bs_kept_place(bs_session *s, bs_operand *operands)
{
    const bs_plan *p = s->plan;
    int32_t count = 0;
    for (int32_t k = 0; k < p->n_top && count < s->n_kept; k++) {
        const bs_instr *i = &p->instrs[k];
        const int32_t more = kept_operands(p, i);
        if (more == 0)
            continue;
        bs_kept *kept = &s->kept[count++];
        kept->call.in = operands;
        kept->call.out = operands + more - (i->kind == BS_INSTR_CALL ? p->graph->nodes[i->node].n_out : 1);
        kept->epoch = is_in_body(p->graph, i->domain) ? BS_EPOCH_DECIDED : BS_EPOCH_BOUND;
        operands += more;
        s->steps[k].kept = (uint8_t)count;
    }
}

/* ---------------------------------------------------------------------------------------------------- trips */

/* Whether a value is a trip's own part of something, or a view of one. */
static bool is_of_trip(const bs_plan *p, int32_t value)
{
    const bs_graph *g = p->graph;
    for (;;) {
        const bs_node *node = &g->nodes[g->values[value].node];
        if (bs_node_is_view(node)) {
            if (node->router == 0)
                return false;
            if (bs_view_slices(g, node))
                return true;
            value = bs_view_of(g, node);
        } else if (p->values[value].storage == BS_STORAGE_VIEW) { /* made in the place of what it changes */
            value = bs_node_in(g, node)[0];
        } else {
            return false;
        }
    }
}

static void prepare_call(bs_session *s, const bs_instr *i, bs_kept *kept)
{
    const int32_t rows = s->root.domains[i->domain].count;
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, i->node, &n_in);
    kept->does = rows == 1 || (rows > 1 && rows <= bs_exec_batch(s, i) && !bs_step_of(s, i)->scattered);
    if (!kept->does)
        return;
    bs_exec_prepare(&s->root, i->node, 0, rows, &kept->call);
    for (int32_t k = 0; k < n_in; k++)
        kept->trips |= (uint32_t)is_of_trip(s->plan, in[k]) << k;
    kept->ready = kept->trips || kept->call.node->makes ? 0 : kept->since;
}

/* A view that is seen where it is needs no move: its operands stay empty. */
static void prepare_move(bs_session *s, const bs_instr *i, bs_kept *kept)
{
    kept->does = s->root.domains[i->domain].count == 1;
    if (!kept->does || (bs_instr_loads(i) && bs_operand_is_seen(&s->root, i->target)))
        return;
    bs_move_operands(&s->root, i, 0, kept->call.out, kept->call.in);
    kept->trips = (uint32_t)is_of_trip(s->plan, i->value) | (uint32_t)bs_instr_to_trip(i) << 1;
    kept->ready = kept->trips ? 0 : kept->since;
}

/* Finds by what the plan says the operands that belong to a trip. */
static void find_parts(bs_session *s, const bs_instr *i, bs_kept *kept)
{
    int32_t n_in;
    const int32_t *in = bs_plan_in(s->plan, i->node, &n_in);
    if (i->kind == BS_INSTR_MOVE)
        bs_move_operands(&s->root, i, 0, kept->call.out, kept->call.in);
    for (int32_t k = 0; k < n_in && i->kind == BS_INSTR_CALL; k++)
        if (kept->trips >> k & 1)
            bs_operand_make(&s->root, in[k], 0, &kept->call.in[k]);
}

/* In one epoch nothing but the trip changes, by one: so parts lie as far from each other as the first two. */
static void next_parts(bs_session *s, const bs_instr *i, bs_kept *kept)
{
    bs_operand *const in = kept->call.in; /* of a move in[1] is out[0] */
    const uint32_t trips = kept->trips;
    ptrdiff_t was[BS_MAX_OPERANDS];
    for (int32_t k = 0; k < BS_MAX_OPERANDS && trips >> k; k++) {
        was[k] = (ptrdiff_t)(uintptr_t)in[k].data;
        if (kept->stepped && trips >> k & 1)
            in[k].data = (uint8_t *)in[k].data + kept->step[k];
    }
    if (kept->stepped)
        return;
    find_parts(s, i, kept);
    for (int32_t k = 0; k < BS_MAX_OPERANDS && trips >> k; k++)
        kept->step[k] = (ptrdiff_t)(uintptr_t)in[k].data - was[k];
    kept->stepped = true;
}

bool bs_exec_kept(bs_session *s, const bs_instr *i)
{
    const int32_t number = bs_step_of(s, i)->kept;
    if (number == 0)
        return false;
    bs_kept *const kept = &s->kept[number - 1];
    if (kept->since != s->epoch[kept->epoch]) {
        kept->since = s->epoch[kept->epoch];
        kept->trips = 0;
        kept->ready = 0;
        kept->stepped = false;
        kept->call.in->data = kept->call.out->data = NULL;
        (i->kind == BS_INSTR_CALL ? prepare_call : prepare_move)(s, i, kept);
    } else if (kept->trips) {
        next_parts(s, i, kept);
    }
    if (kept->does && i->kind == BS_INSTR_CALL)
        bs_exec_kernel(s, i, &kept->call);
    else if (kept->does)
        bs_move_row(kept->call.out, kept->call.in);
    kept->call.fault = s->root.fault;
    return kept->does;
}

bool bs_exec_ready(bs_session *s, const bs_step *step)
{
    if (step->kept == 0 || s->any_empty || s->times_ops)
        return false;
    const bs_kept *kept = &s->kept[step->kept - 1];
    if (kept->ready != s->epoch[kept->epoch])
        return false;
    if (step->moves) {
        bs_move_row(kept->call.out, kept->call.in);
        return true;
    }
    const bs_status status = bs_exec_run(step, &kept->call);
    if (status != BS_OK)
        bs_exec_end_call(s, status, step->node, s->root.fault);
    return true;
}
#endif
