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

/* Values, domains and routers follow from nodes, as the builder makes them. */
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
    for (const bs_dim_info *d = g->dims; d < g->dims + g->n_dims; d++)
        crc = IMAGE_MIX(mix_enum(crc, (int32_t)d->kind), d, parent, maximum);
    for (const bs_block *b = g->blocks + 1; b < g->blocks + g->n_blocks; b++)
        crc = IMAGE_MIX(mix_text(crc, g->text + b->name), b, parent, end_node);
    return crc;
}

/* -------------------------------------------------------------------------------------------------- the head */

static const char image_magic[sizeof((bs_image_head *)0)->magic] = "bs plan\n5";

bs_image_head bs_image_head_of(const bs_graph *g, int32_t dataflow, size_t bytes)
{
    bs_image_head head = {.bytes = bytes, .library = BS_VERSION, .layout = bs_image_layout(),
                          .graph = bs_image_graph(g), .dataflow = dataflow};
    memcpy(head.magic, image_magic, sizeof head.magic);
    return head;
}

/* Whether all of an image is there, as this library writes it. */
static bool is_sealed(const void *image, size_t bytes, bs_image_head *head, bs_error *error)
{
    if (bytes < sizeof *head || memcmp(image, image_magic, BS_IMAGE_MAGIC) != 0)
        return bs_refuse(error, BS_ERROR_FORMAT, "these %llu bytes are no image of a plan", (unsigned long long)bytes);
    memcpy(head, image, sizeof *head);
    if (memcmp(head->magic, image_magic, sizeof image_magic) != 0)
        return bs_refuse(error, BS_ERROR_VERSION, "the image is of another format than this library reads");
    if (head->library != BS_VERSION)
        return bs_refuse(error, BS_ERROR_VERSION,
                         "the image was made by version %u.%u.%u of the library, this is %d.%d.%d",
                         (unsigned)head->library / 10000, (unsigned)head->library / 100 % 100,
                         (unsigned)head->library % 100, BS_VERSION_MAJOR, BS_VERSION_MINOR, BS_VERSION_PATCH);
    if (head->layout != bs_image_layout())
        return bs_refuse(error, BS_ERROR_VERSION, "the image is of another kind of processor");
    if (head->bytes > bytes || head->bytes < sizeof *head)
        return bs_refuse(error, BS_ERROR_FORMAT, "%llu bytes given, the image says that it has %llu",
                         (unsigned long long)bytes, (unsigned long long)head->bytes);
    const uint32_t crc = bs_crc32(0, (const uint8_t *)image + BS_IMAGE_CRC_FROM,
                                  (size_t)head->bytes - BS_IMAGE_CRC_FROM);
    return crc == head->crc ||
           bs_refuse(error, BS_ERROR_FORMAT, "the image is damaged: its CRC-32 is %08x, expected %08x", (unsigned)crc,
                     (unsigned)head->crc);
}

/* ------------------------------------------------------------------------------------------------- opening */

/* Whether it is a plan of its graph. What follows from rows is computed again. */
static bool is_plan(bs_plan *p, const void *image, const bs_image_head *head, void *workspace)
{
    if (!bs_image_take(p, image, head->bytes))
        return false;
    p->desc.tier = (int32_t)p->tier;
    p->desc.no_dataflow = !(head->dataflow & BS_DATAFLOW_MOVES);
    p->desc.no_fusion = !(head->dataflow & BS_DATAFLOW_FUSES);
    if (!bs_plan_desc_sound(&p->desc, NULL) || bs_dataflow_of(&p->desc) != head->dataflow)
        return false;
    bs_plan_begin(p);
    if (!bs_plan_rows_fit(p, NULL) || !bs_image_values_sound(p) || bs_plan_walk(p, true, workspace) != BS_WALK_SOUND ||
        bs_plan_domain_beyond_shared(p))
        return false;
    bs_plan_sum(p);
    bs_plan_size_slots(p);
    return !bs_bytes_less(p->slot_bytes, p->largest_unit_bytes) && bs_plan_bytes_fit(p, NULL);
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

/* A plan of the graph that the image is about, which is made of the caller's. */
static const bs_plan *open_image(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const void *image,
                                 const bs_image_head *head, bs_error *error)
{
    const bs_bytes own = bs_bytes_align(bs_bytes_of(sizeof(bs_plan)));
    const size_t mark = arena->used;
    const bool known = bs_in_range(head->dataflow, 0, BS_DATAFLOW_END);
    const bs_graph *planned = bs_dataflow_make(arena, scratch, graph, known ? head->dataflow : 0, error);
    if (!planned)
        return NULL;
    if (!known || head->graph != bs_image_graph(planned))
        return bs_fail(error, BS_ERROR_GRAPH, "the image is of another graph: a node, a name, a parameter or an extent "
                       "differs"), NULL;
    const bs_bytes work = bs_plan_walk_workspace(planned->n_nodes, planned->n_operands);
    bs_plan *p = bs_take_zeros(arena, own);
    void *workspace = p ? bs_lend(scratch ? scratch : arena, work) : NULL;
    if (!workspace)
        return bs_fail_arena(error, p && scratch ? scratch : arena, p ? work : own, "the plan"), NULL;
    p->mark = BS_MARK_PLAN;
    p->graph = planned;
    p->own_bytes = bs_bytes_of(arena->used - mark + BS_ALIGNMENT);
    if (is_plan(p, image, head, workspace))
        return p;
    return bs_fail(error, BS_ERROR_FORMAT, "the image is no plan that this library makes"), NULL;
}

const bs_plan *bs_plan_open(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const void *image, size_t bytes,
                            bs_error *error)
{
    bs_image_head head;
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
    const bool sealed = is_sealed(image, bytes, &head, error);
    const bs_plan *p = sealed ? open_image(arena, scratch, graph, image, &head, error) : NULL;
    if (p)
        return p;
    arena->used = mark;
    bs_error_prefix(error, "bs_plan_open: ");
    return NULL;
}
