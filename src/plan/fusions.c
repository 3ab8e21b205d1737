/* plan/fusions.c - the chains of nodes that one kernel runs in a single pass, so that an epilogue need not go through
 * memory.
 *
 * A fusion is a pattern and a kernel that gives the same bits as the chain. Adding one is an entry in the table.
 * Relies on plan/fusions.h. Must never change a result. */
#include "plan/fusions.h"

#include "ops/forms.h"
#include "ops/list.h"
#include "ops/structure.h"
#include "kernels/elementwise.h"

#define LINKS 3

typedef struct bs_fusion {
    const char *name;
    const char *chain[LINKS]; /* ops, the first one first */
    bool (*match)(const bs_fusion_search *f, const struct bs_fusion *fusion, int32_t node, bs_fusion_match *match);
    bs_status (*run)(const bs_call *call);
    int32_t operands;
    bool images; /* it wants images with their channels side by side */
} bs_fusion;

/* Whether a node, or a step of a tail, is link k of a fusion's chain. */
static bool is_link(const bs_node *node, const bs_fusion *fusion, int32_t k)
{
    return strcmp(bs_node_op(node)->name, fusion->chain[k]) == 0;
}

/* The node that is link k and makes `value` by itself, when a live node is the only reader of that value; else 0. */
static int32_t only_use(const bs_fusion_search *f, int32_t value, const bs_fusion *fusion, int32_t k)
{
    const bs_graph *g = f->plan->graph;
    const int32_t n = g->values[value].node;
    const bool is = is_link(&g->nodes[n], fusion, k) && f->plan->nodes[n].fusion == 0 && g->nodes[n].n_tail == 0;
    return is && (!f->readers || f->readers[value] == 1) ? n : 0;
}

/* ------------------------------------------------------- pixel_shuffle 2 of [4,h,w] + base -> codes [1,2h,2w] */

/* On a CPU the sum and the conversion are the shuffle's tail. */
static bool sr_store_match_tail(const bs_fusion_search *f, const bs_fusion *fusion, int32_t n, bs_fusion_match *m)
{
    const bs_plan *p = f->plan;
    const bs_graph *g = p->graph;
    const bs_node *shuffle = &g->nodes[n];
    const bs_tail *tail = &g->tails[shuffle->tail];
    const int32_t *in = bs_node_in(g, shuffle);
    bs_value_info sum = g->values[shuffle->first_out];
    sum.dtype = BS_F32;
    if (shuffle->n_tail != 2 || !is_link(shuffle, fusion, 0) || !is_link(&tail[0].node, fusion, 1) ||
        !is_link(&tail[1].node, fusion, 2) || tail[0].from != BS_F32 || (tail[1].to != BS_U8 && tail[1].to != BS_U16) ||
        p->values[shuffle->first_out].margin != 0 ||
        !bs_same_shape(&g->values[in[1]], &sum) ||
        g->values[in[1]].domain != shuffle->domain || bs_dim_max(g, g->values[shuffle->first_out].dims[0]) != 1 ||
        bs_dim_max(g, g->values[in[0]].dims[0]) != 4)
        return false;
    *m = (bs_fusion_match){{0, 0}, 0, {in[0], in[1]}};
    return !f->wanted || (f->wanted[0] == in[0] && f->wanted[1] == in[1]);
}

static bool sr_store_match(const bs_fusion_search *f, const bs_fusion *fusion, int32_t n, bs_fusion_match *m)
{
    if (f->plan->graph->nodes[n].n_tail)
        return sr_store_match_tail(f, fusion, n, m);
    const bs_plan *p = f->plan;
    const bs_graph *g = p->graph;
    const bs_node *convert = &g->nodes[n];
    const bs_convert_desc *desc = convert->params;
    if (!is_link(convert, fusion, 2) || (desc->dtype != BS_U8 && desc->dtype != BS_U16) ||
        !g->values[convert->first_out].image || p->values[convert->first_out].margin != 0)
        return false;
    const int32_t add = only_use(f, bs_node_in(g, convert)[0], fusion, 1);
    if (!add)
        return false;
    for (int32_t side = 0; side < 2; side++) {
        const int32_t *in = bs_node_in(g, &g->nodes[add]);
        const int32_t shuffle = only_use(f, in[side], fusion, 0), base = in[1 - side];
        if (!shuffle || !bs_same_shape(&g->values[in[0]], &g->values[in[1]]) ||
            g->values[base].domain != convert->domain)
            continue;
        const int32_t tail = bs_node_in(g, &g->nodes[shuffle])[0];
        if (g->values[tail].dtype != BS_F32 || bs_dim_max(g, g->values[in[side]].dims[0]) != 1 ||
            bs_dim_max(g, g->values[tail].dims[0]) != 4)
            continue;
        if (f->wanted && (f->wanted[0] != tail || f->wanted[1] != base))
            continue;
        *m = (bs_fusion_match){{add, shuffle}, 2, {tail, base}};
        return true;
    }
    return false;
}

static bs_status sr_store_run(const bs_call *call)
{
    const bs_operand *tail = &call->in[0], *base = &call->in[1], *out = &call->out[0];
    const bs_convert_desc *desc =
        call->node->n_tail ? call->graph->tails[call->node->tail + 1].node.params : call->params;
    const bs_rect r = out->rect; /* even: a cell of the doubled frame, or a band of it */
    const size_t bytes = bs_dtype_bytes(out->dtype);
    bs_sr_store s;
    memset(&s, 0, sizeof s);
    s.tail = bs_f32_at(tail, r.y0 / 2 * tail->stride[1] + r.x0 / 2 * tail->stride[2]);
    s.tail_row = tail->stride[1];
    s.tail_pixel = (int32_t)tail->stride[2];
    s.base = bs_f32_at(base, r.y0 * base->stride[1] + r.x0 * base->stride[2]);
    s.base_row = base->stride[1];
    s.out = (uint8_t *)out->data + (r.y0 * out->stride[1] + r.x0 * out->stride[2]) * (ptrdiff_t)bytes;
    s.out_row = out->stride[1];
    s.h = (r.y1 - r.y0) / 2;
    s.w = (r.x1 - r.x0) / 2;
    s.scale = desc->scale != 0 ? desc->scale : 1;
    s.high = (uint16_t)((1u << bs_or_default(desc->code_bits, 16)) - 1);
    if (out->dtype == BS_U8)
        bs_sr_store_u8(call->plan->tier, &s);
    else
        bs_sr_store_u16(call->plan->tier, &s);
    return BS_OK;
}

/* ------------------------------------------------------------------- reshape, then transpose; and the other way */

static bool pair_match(const bs_fusion_search *f, const bs_fusion *fusion, int32_t n, bs_fusion_match *m)
{
    const bs_graph *g = f->plan->graph;
    if (!is_link(&g->nodes[n], fusion, 1) || g->nodes[n].n_tail)
        return false;
    const int32_t inner = only_use(f, bs_node_in(g, &g->nodes[n])[0], fusion, 0);
    if (!inner)
        return false;
    const int32_t x = bs_node_in(g, &g->nodes[inner])[0];
    if (f->wanted && f->wanted[0] != x)
        return false;
    *m = (bs_fusion_match){{inner, 0}, 1, {x, 0}};
    return true;
}

/* -------------------------------------------------------------------------------------------------- table */

/* In a build without the ops of a chain. */
#if defined(BS_ONLY_OPS)
static bool never_match(const bs_fusion_search *f, const bs_fusion *fusion, int32_t n, bs_fusion_match *m)
{
    return (void)f, (void)fusion, (void)n, (void)m, false;
}
#endif
#define OF_SHUFFLE(yes, no) BS_OP_IF(pixel_shuffle, yes, no)
#define OF_TRANSPOSE(yes, no) BS_OP_IF(transpose, yes, no)

static const bs_fusion fusions[] = {
    {"sr_store", {"pixel_shuffle", "add", "convert"}, OF_SHUFFLE(sr_store_match, never_match),
     OF_SHUFFLE(sr_store_run, NULL), 2, true},
    {"reshape_transpose", {"reshape", "transpose"}, OF_TRANSPOSE(pair_match, never_match),
     OF_TRANSPOSE(bs_reshape_transpose_run, NULL), 1, false},
    {"transpose_reshape", {"transpose", "reshape"}, OF_TRANSPOSE(pair_match, never_match),
     OF_TRANSPOSE(bs_transpose_reshape_run, NULL), 1, false}};
#define FUSIONS ((int32_t)(sizeof fusions / sizeof *fusions))

bool bs_fusion_find(const bs_fusion_search *search, int32_t node, int32_t fusion, bs_fusion_match *match)
{
    return fusions[fusion - 1].match(search, &fusions[fusion - 1], node, match);
}

const int32_t *bs_plan_in(const bs_plan *plan, int32_t node, int32_t *count)
{
    const bs_node_plan *p = &plan->nodes[node];
    const bs_node *n = &plan->graph->nodes[node];
    *count = p->fusion ? fusions[p->fusion - 1].operands : n->n_read;
    return p->fusion ? p->fused_in : bs_node_in(plan->graph, n);
}

bs_status bs_fusion_run(const bs_call *call)
{
    return fusions[call->plan->fusion - 1].run(call);
}

int32_t bs_fusion_count(void) { return FUSIONS; }

bool bs_fusion_is_of_images(int32_t fusion) { return fusion != 0 && fusions[fusion - 1].images; }

const char *bs_fusion_name(int32_t fusion)
{
    return fusion ? fusions[fusion - 1].name : "";
}
