/* plan/image.c - a plan opened from an image, in place: of its graph, which a hash tells, the same on every machine.
 * Relies on plan/image.h. Must never change an image, use any part of it before that part was checked, or let an
 * address, or bytes between fields, into the hash. */
#include "plan/image.h"

#include "ops/structure.h"

/* ----------------------------------------------------------------------------------------- which graph it is */

/* Continues a checksum with fields from `first` to `last`, of four bytes each, that follow each other. */
#define IMAGE_MIX(crc, of, first, last) \
    bs_crc32(crc, &(of)->first, (size_t)((const uint8_t *)(&(of)->last + 1) - (const uint8_t *)&(of)->first))

/* An enum: some compilers give it a byte. */
static uint32_t mix_enum(uint32_t crc, int32_t number) { return bs_crc32(crc, &number, sizeof number); }
static uint32_t mix_text(uint32_t crc, const char *text) { return bs_crc32(crc, text, strlen(text) + 1); }

/* The op goes in by name: another library may number ops differently. Every descriptor is a name, then fields of four
 * bytes. */
static uint32_t mix_work(uint32_t crc, const bs_graph *g, const bs_node *node)
{
    const bs_op *op = bs_op_get(node->op);
    crc = IMAGE_MIX(mix_text(crc, op->name), node, n_in, n_out);
    crc = bs_crc32(crc, bs_node_in(g, node), (size_t)node->n_in * sizeof(int32_t));
    return node->params ? bs_crc32(crc, (const char *)node->params + sizeof(char *), (size_t)op->n_fields * 4) : crc;
}

/* Domains and routers follow from nodes, as the builder makes them. */
static uint32_t mix_node(uint32_t crc, const bs_graph *g, const bs_node *node)
{
    crc = IMAGE_MIX(mix_text(mix_work(crc, g, node), bs_node_name(node)), node, first_out, writer);
    for (int32_t i = 0; i < node->n_tail; i++) {
        const bs_tail *t = &g->tails[node->tail + i];
        crc = mix_enum(mix_enum(IMAGE_MIX(mix_work(crc, g, &t->node), t, at, own), (int32_t)t->from), (int32_t)t->to);
    }
    return crc;
}

uint32_t bs_image_graph(const bs_graph *g)
{
    uint32_t crc = IMAGE_MIX(0, g, n_nodes, n_values);
    crc = IMAGE_MIX(crc, g, n_domains, n_routers); /* and dims and blocks; paths follow from routers */
    for (int32_t n = 1; n < g->n_nodes; n++)
        crc = mix_node(crc, g, &g->nodes[n]);
    for (const bs_value_info *v = g->values + 1; v < g->values + g->n_values; v++) {
        crc = mix_enum(mix_enum(IMAGE_MIX(crc, v, domain, domain), (int32_t)v->dtype), v->rank);
        crc = bs_crc32(crc, v->dims, (size_t)v->rank * sizeof *v->dims);
    }
    for (const bs_dim_info *d = g->dims; d < g->dims + g->n_dims; d++)
        crc = IMAGE_MIX(mix_enum(crc, (int32_t)d->kind), d, parent, maximum);
    for (const bs_block *b = g->blocks + 1; b < g->blocks + g->n_blocks; b++)
        crc = IMAGE_MIX(mix_text(crc, g->text + b->name), b, parent, end_node);
    return crc;
}

/* -------------------------------------------------------------------------------------------------- the head */

static const char image_magic[sizeof((bs_image_head *)0)->magic] = {'b', 's', ' ', 'p', 'l', 'a', 'n', '\n'};

bs_image_head bs_image_head_of(const bs_graph *g, int32_t dataflow, size_t bytes)
{
    bs_image_head head = {.format = BS_IMAGE_FORMAT, .bytes = bytes, .library = BS_VERSION,
                          .layout = bs_image_layout(), .graph = bs_image_graph(g), .dataflow = dataflow};
    memcpy(head.magic, image_magic, sizeof head.magic);
    return head;
}

/* ------------------------------------------------------------------------------------------------- opening */

static bool is_image(const void *image, size_t bytes, bs_image_head *head, bs_error *error)
{
    if (bytes < sizeof *head || memcmp(image, image_magic, sizeof image_magic) != 0)
        return bs_refuse(error, BS_ERROR_FORMAT, "these %llu bytes are no image of a plan", (unsigned long long)bytes);
    memcpy(head, image, sizeof *head);
    if (head->format != BS_IMAGE_FORMAT)
        return bs_refuse(error, BS_ERROR_VERSION, "the image is of format %u, this library reads %d",
                         (unsigned)head->format, BS_IMAGE_FORMAT);
    if (head->library != BS_VERSION)
        return bs_refuse(error, BS_ERROR_VERSION,
                         "the image was made by version %u.%u.%u of the library, this is %d.%d.%d",
                         (unsigned)head->library / 10000, (unsigned)head->library / 100 % 100,
                         (unsigned)head->library % 100, BS_VERSION_MAJOR, BS_VERSION_MINOR, BS_VERSION_PATCH);
    if (head->layout != bs_image_layout())
        return bs_refuse(error, BS_ERROR_VERSION, "the image is of another kind of processor");
    return true;
}

static bool is_whole(const void *image, size_t bytes, const bs_image_head *head, bs_error *error)
{
    if (head->bytes > bytes || head->bytes < sizeof *head)
        return bs_refuse(error, BS_ERROR_FORMAT, "%llu bytes given, the image says that it has %llu",
                         (unsigned long long)bytes, (unsigned long long)head->bytes);
    const uint32_t crc = bs_crc32(0, (const uint8_t *)image + BS_IMAGE_CRC_FROM,
                                  (size_t)head->bytes - BS_IMAGE_CRC_FROM);
    return crc == head->crc ||
           bs_refuse(error, BS_ERROR_FORMAT, "the image is damaged: its CRC-32 is %08x, expected %08x", (unsigned)crc,
                     (unsigned)head->crc);
}

bool bs_image_no_plan(bs_error *error)
{
    return bs_refuse(error, BS_ERROR_FORMAT, "the image is no plan that this library makes");
}

/* Whether it is a plan of its graph; with workspace that is given back. What follows from rows is computed again. */
static bool is_plan(bs_plan *p, bs_arena *lender, bs_error *error)
{
    const bs_bytes bytes = bs_plan_walk_workspace(p->graph->n_nodes, p->graph->n_operands);
    void *workspace = bs_lend(lender, bytes);
    if (!workspace)
        return bs_fail_arena(error, lender, bytes, "what walks the plan"), false;
    if (!bs_image_values_sound(p) || bs_plan_walk(p, true, workspace) != BS_WALK_SOUND ||
        bs_plan_domain_beyond_shared(p))
        return bs_image_no_plan(error);
    bs_plan_sum(p);
    bs_plan_size_slots(p);
    return !bs_bytes_less(p->slot_bytes, p->largest_unit_bytes) || bs_image_no_plan(error);
}

static bool open_image(bs_plan *p, bs_arena *lender, const uint8_t *image, const bs_image_head *head, bs_error *error)
{
    if (!bs_image_take(p, image, head->bytes, error))
        return false;
    p->desc.tier = (int32_t)p->tier;
    p->desc.no_dataflow = !(head->dataflow & BS_DATAFLOW_MOVES);
    p->desc.no_fusion = !(head->dataflow & BS_DATAFLOW_FUSES);
    if (!bs_plan_desc_sound(&p->desc, error))
        return false;
    bs_plan_begin(p);
    return (bs_dataflow_of(&p->desc) == head->dataflow || bs_image_no_plan(error)) && bs_plan_rows_fit(p, error) &&
           is_plan(p, lender, error) && bs_plan_bytes_fit(p, error);
}

size_t bs_plan_open_bytes(const bs_graph *graph)
{
    size_t bytes = 0;
    if (bs_graph_check(graph, NULL) != BS_OK)
        return 0;
    const bs_dataflow_room flow = bs_dataflow_takes(graph, BS_DATAFLOW_ALL, false);
    const bs_bytes walk = bs_plan_walk_workspace(graph->n_nodes + flow.nodes, graph->n_operands + flow.operands);
    const bs_bytes opened = bs_bytes_add(walk, bs_bytes_of(sizeof(bs_plan) + 2 * BS_ALIGNMENT));
    const bs_bytes work = bs_bytes_add(bs_bytes_max(flow.work, opened), bs_bytes_of(BS_ALIGNMENT));
    return bs_bytes_fit(bs_bytes_add(flow.graph, work), SIZE_MAX, &bytes) ? bytes : 0;
}

/* The graph that the image is about, made of the caller's. NULL: it is of another one, or there is no room. */
static const bs_graph *graph_of(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const bs_image_head *head,
                                bs_error *error)
{
    const bool known = bs_in_range(head->dataflow, 0, BS_DATAFLOW_END) || bs_image_no_plan(error);
    const bs_graph *planned = known ? bs_dataflow_make(arena, scratch, graph, head->dataflow, error) : NULL;
    if (!planned || head->graph == bs_image_graph(planned))
        return planned;
    bs_fail(error, BS_ERROR_GRAPH, "the image is of another graph: a node, a name, a parameter or an extent differs");
    return NULL;
}

const bs_plan *bs_plan_open(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const void *image, size_t bytes,
                            bs_error *error)
{
    const bs_bytes own = bs_bytes_align(bs_bytes_of(sizeof(bs_plan)));
    bs_image_head head = {.bytes = 0};
    if (bs_graph_check(graph, error) != BS_OK)
        return NULL;
    if (!arena || !image || bs_to_aligned(image, BS_IMAGE_ALIGNMENT) != 0 ||
        (scratch && !bs_arenas_apart(arena, scratch))) {
        bs_fail(error, BS_ERROR_ARGUMENT,
                "bs_plan_open: the arena or the image is NULL, or not at a multiple of %d, or scratch is part of "
                "the arena",
                BS_IMAGE_ALIGNMENT);
        return NULL;
    }
    const size_t mark = arena->used;
    const bool sound = is_image(image, bytes, &head, error) && is_whole(image, bytes, &head, error);
    const bs_graph *planned = sound ? graph_of(arena, scratch, graph, &head, error) : NULL;
    bs_plan *p = planned ? bs_take_zeros(arena, own) : NULL;
    if (planned && !p)
        bs_fail_arena(error, arena, own, "the plan");
    if (p) {
        p->mark = BS_MARK_PLAN;
        p->graph = planned;
        p->own_bytes = bs_bytes_of(arena->used - mark + BS_ALIGNMENT);
        if (open_image(p, scratch ? scratch : arena, image, &head, error))
            return p;
    }
    arena->used = mark;
    bs_error_prefix(error, "bs_plan_open: ");
    return NULL;
}
