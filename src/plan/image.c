/* plan/image.c - a plan opened from an image, in place.
 * Relies on plan/image.h. Must never change an image, or use any part of it before that part was checked. */
#include "plan/image.h"

static const char image_magic[sizeof((bs_image_head *)0)->magic] = {'b', 's', ' ', 'p', 'l', 'a', 'n', '\n'};

void bs_image_place(const bs_plan *plan, bs_image_places *places)
{
    places->bytes = bs_bytes_align(bs_bytes_of(sizeof(bs_image_head)));
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++)
        places->table[t] = bs_bytes_place(&places->bytes, bs_image_rows(plan, t), bs_image_row_bytes(t));
}

bs_image_head bs_image_head_of(const bs_graph *g, int32_t dataflow, size_t bytes)
{
    bs_image_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, image_magic, sizeof head.magic);
    head.format = BS_IMAGE_FORMAT;
    head.bytes = bytes;
    head.library = BS_VERSION;
    head.layout = bs_image_layout();
    head.graph = bs_image_graph(g);
    head.dataflow = dataflow;
    return head;
}

/* ------------------------------------------------------------------------------------------------- opening */

static bool is_image(const void *image, size_t bytes, bs_image_head *head, bs_error *error)
{
    if (bytes < sizeof *head || memcmp(image, image_magic, sizeof image_magic) != 0)
        return bs_refuse(error, BS_ERROR_FORMAT, "these %llu bytes are no image of a plan",
                         (unsigned long long)bytes);
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
    return crc == head->crc || bs_refuse(error, BS_ERROR_FORMAT,
                                         "the image is damaged: its CRC-32 is %08x, expected %08x",
                                         (unsigned)crc, (unsigned)head->crc);
}

static bool no_plan(bs_error *error)
{
    return bs_refuse(error, BS_ERROR_FORMAT, "the image is no plan that this library makes");
}

/* The numbers come first: they tell where the tables are. The tables stay in the image, which nothing writes to: a
 * session's plan is const. */
static bool take_image(bs_plan *p, const uint8_t *image, const bs_image_head *head, bs_error *error)
{
    bs_image_places places;
    bs_image_place(p, &places); /* the place of the numbers depends on nothing */
    bool fits = head->bytes >= bs_bytes_figure(places.bytes);
    if (fits && !bs_image_take_numbers(p, bs_bytes_read_at(image, places.table[BS_IMAGE_plan]), error))
        return false;
    bs_image_place(p, &places);
    fits = fits && head->bytes == bs_bytes_figure(places.bytes);
    for (int32_t t = BS_IMAGE_plan + 1; t < BS_IMAGE_TABLES && fits; t++)
        bs_image_set_table(p, t, bs_bytes_read_at(image, places.table[t]));
    p->desc.tier = (int32_t)p->tier;
    return fits || no_plan(error);
}

/* Whether it is a plan of its graph; with workspace that is given back. */
static bool is_plan(bs_plan *p, bs_arena *lender, int32_t dataflow, bs_error *error)
{
    const bs_bytes bytes = bs_plan_walk_workspace(p->graph->n_nodes, p->graph->n_operands);
    void *workspace = bs_lend(lender, bytes);
    if (!workspace)
        return bs_fail_arena(error, lender, bytes, "what walks the plan"), false;
    return (bs_dataflow_of(&p->desc) == dataflow && bs_image_values_sound(p) &&
            bs_plan_walk(p, true, workspace) == BS_WALK_SOUND && !bs_plan_domain_beyond_shared(p) &&
            bs_plan_each(p, 0, p->n_top, bs_image_side_sound) && bs_image_sums_sound(p) && bs_image_phases_sound(p)) ||
           no_plan(error);
}

static bool open_image(bs_plan *p, bs_arena *lender, const uint8_t *image, const bs_image_head *head,
                       bs_error *error)
{
    if (!take_image(p, image, head, error) || !bs_plan_desc_sound(&p->desc, error))
        return false;
    p->desc.no_dataflow = !(head->dataflow & BS_DATAFLOW_MOVES);
    p->desc.no_fusion = !(head->dataflow & BS_DATAFLOW_FUSES);
    bs_plan_begin(p);
    return bs_image_rows_sound(p, error) && bs_plan_rows_fit(p, error) && is_plan(p, lender, head->dataflow, error) &&
           bs_plan_bytes_fit(p, error);
}

size_t bs_plan_open_bytes(const bs_graph *graph)
{
    size_t bytes = 0;
    if (bs_graph_check(graph, NULL) != BS_OK)
        return 0;
    const bs_dataflow_room flow = bs_dataflow_takes(graph, BS_DATAFLOW_ALL, false);
    const bs_bytes walk = bs_plan_walk_workspace(graph->n_nodes + flow.nodes, graph->n_operands + flow.operands);
    const bs_bytes opened = bs_bytes_add(walk, bs_bytes_of(sizeof(bs_plan) + 2 * BS_ALIGNMENT));
    const bs_bytes needed = bs_bytes_add(bs_bytes_add(flow.graph, bs_bytes_max(flow.work, opened)),
                                         bs_bytes_of(BS_ALIGNMENT));
    return bs_bytes_fit(needed, SIZE_MAX, &bytes) ? bytes : 0;
}

/* The graph that the image is about, made of the caller's. NULL: it is of another one, or there is no room. */
static const bs_graph *graph_of(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const bs_image_head *head,
                                bs_error *error)
{
    if (!bs_in_range(head->dataflow, 0, BS_DATAFLOW_END)) {
        no_plan(error);
        return NULL;
    }
    const bs_graph *planned = bs_dataflow_make(arena, scratch, graph, head->dataflow, error);
    if (!planned || head->graph == bs_image_graph(planned))
        return planned;
    bs_fail(error, BS_ERROR_GRAPH, "the image is of another graph: a node, a name, a parameter or an extent differs");
    return NULL;
}

const bs_plan *bs_plan_open(bs_arena *arena, bs_arena *scratch, const bs_graph *graph, const void *image, size_t bytes,
                            bs_error *error)
{
    const bs_bytes own = bs_bytes_align(bs_bytes_of(sizeof(bs_plan)));
    bs_image_head head;
    memset(&head, 0, sizeof head);
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
