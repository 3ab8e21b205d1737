/* plan/image_tables.c - a plan as bytes: every field that an image keeps, where it is, and what it may be. One list
 * serves to write an image, to tell whether this machine lays tables out alike, and to take one in place, each number
 * within bounds before anything uses it. Fields that no run reads are not kept: they are zero in a plan that is opened.
 * Relies on plan/image.h. Must never use a number of an image that was not checked, or write a byte that could differ
 * for the same plan. */
#include "plan/image.h"

/* Ranges of numbers: name, lowest, highest. They may use g, the graph, and p, the plan's numbers so far. ANY: checked
 * as a whole (plan/image_values.c, plan/walk.c), or not at all. */
#define IMAGE_RANGES(X)                                                                                                \
    X(ANY, INT64_MIN, INT64_MAX) X(INT, INT32_MIN, INT32_MAX) X(FLAG, 0, 1) X(COUNT, 0, INT32_MAX)                     \
    X(BYTES, 0, (int64_t)BS_MAX_PLAN_BYTES) X(ROWS, 0, BS_MAX_ROWS) X(MARGIN, 0, BS_MAX_MARGIN)                        \
    X(TIER, BS_TIER_SCALAR, BS_TIER_CUDA) X(ORDER, BS_ORDER_BREADTH, BS_ORDER_DEPTH)                                   \
    X(STORAGE, BS_STORAGE_NONE, BS_STORAGE_FRAME) X(KIND, BS_INSTR_CALL, BS_INSTR_RUN)                                 \
    X(FUSION, 0, bs_fusion_count()) X(NODE, 0, g->n_nodes - 1) X(VALUE, 0, g->n_values - 1)                            \
    X(SOURCE, 0, bs_max_i32(g->n_nodes, g->n_values) - 1) X(DOMAIN, 0, g->n_domains - 1)                               \
    X(ROUTER, 0, g->n_routers - 1) X(BLOCK, 0, g->n_blocks - 1)                                                        \
    /* counts of things, then indices of them */                                                                       \
    X(INSTRS, 0, bs_plan_most_instrs(g)) X(TOPS, 0, p->n_instrs) X(PARTS, 0, bs_plan_most_parts(g))                    \
    X(REGIONS, p->n_parts > 0, p->n_parts) X(UNITS, 1, IMAGE_UNITS) X(PHASES, 0, p->n_units > 1 ? g->n_nodes : 0)      \
    X(PHASE_UNITS, 0, p->n_phases > 0 ? 2 * (int64_t)g->n_nodes + p->n_parts : 0)                                      \
    X(TOP_INSTR, -1, p->n_top - 1) X(INSTR, -1, p->n_instrs - 1) X(SOME_INSTRS, 0, p->n_instrs)                        \
    X(PART, 0, p->n_parts - 1) X(PART_OR_TOP, BS_TOP, p->n_parts - 1) X(SOME_PARTS, 0, p->n_parts)                     \
    X(REGION, 0, bs_max_i32(p->n_regions, 1) - 1) X(UNIT, 0, p->n_units - 1) X(PHASE, -1, p->n_phases - 1)             \
    X(STREAMED, 0, p->n_units - 2) /* numbered from 0, as in the stream */ X(SOME_UNITS, 0, p->n_phase_units)

#if defined(BS_NO_STREAM)
#define IMAGE_UNITS 1
#else
#define IMAGE_UNITS g->n_blocks + g->n_domains + 1
#endif

/* The plan's own numbers. bs_plan_desc_sound checks the description's. */
#define IMAGE_NUMBERS(X)                                                                                               \
    X(plan, tier, TIER) X(plan, n_instrs, INSTRS) X(plan, n_top, TOPS) X(plan, n_parts, PARTS)                         \
    X(plan, n_regions, REGIONS) X(plan, n_units, UNITS) X(plan, n_phases, PHASES) X(plan, n_phase_units, PHASE_UNITS)  \
    X(plan, desc.threads, INT) X(plan, desc.order, INT) X(plan, desc.conv, INT) X(plan, desc.patch_size, INT)          \
    X(plan, desc.slot_bytes, ANY) X(plan, desc.lanes, INT) X(plan, desc.chunk_bytes, INT) X(plan, desc.half, INT)      \
    X(plan, desc.in_place, INT) X(plan, desc.launch_mode, INT) X(plan, desc.shared_bytes, INT)

/* X: a field of a row. Y: rows that are numbers themselves. */
#define IMAGE_FIELDS(X, Y)                                                                                             \
    Y(node_live, FLAG) Y(region_parts, PART) Y(phase_units, STREAMED)                                                  \
    X(nodes, tier, ANY) X(nodes, algorithm, ANY) X(nodes, half, FLAG) X(nodes, ahead_of, ROUTER)                       \
    X(nodes, fusion, FUSION) X(nodes, adds, FLAG) X(nodes, phases, ANY) X(nodes, grain, ANY) X(nodes, images, ANY)     \
    X(nodes, fused_in[0], VALUE) X(nodes, fused_in[1], VALUE) X(nodes, unit, UNIT) X(nodes, owner, NODE)               \
    X(nodes, prepared_bytes, BYTES) X(nodes, prepared_offset, BYTES) X(nodes, scratch_bytes, BYTES)                    \
    X(nodes, work_items, COUNT) X(nodes, instr, INSTR)                                                                 \
    X(values, storage, STORAGE) X(values, source, SOURCE) X(values, margin, MARGIN) X(values, scope, PART_OR_TOP)      \
    X(values, planar, FLAG) X(values, narrow, FLAG) X(values, is_cache_length, FLAG) X(values, offset, BYTES)          \
    X(values, row_bytes, BYTES) X(values, rows, ROWS)                                                                  \
    X(domains, order, ORDER) X(domains, tile_rows, ANY) X(domains, size, ANY) X(domains, max_rows, ROWS)               \
    X(domains, live, FLAG) X(domains, images, FLAG) X(domains, streams, FLAG) X(domains, nested, FLAG)                 \
    X(routers, forced, COUNT) X(routers, live, FLAG) X(routers, in_tile, FLAG) X(routers, instr, INSTR)                \
    X(routers, again, INSTR) X(routers, rows, ANY)                                                                     \
    X(instrs, kind, KIND) X(instrs, map, ANY) X(instrs, combine, ANY) X(instrs, extent, ANY) X(instrs, node, NODE)     \
    X(instrs, value, VALUE) X(instrs, target, VALUE) X(instrs, domain, DOMAIN) X(instrs, region, REGION)               \
    X(instrs, part, PART_OR_TOP) X(instrs, time, ANY) X(instrs, phase, PHASE) X(instrs, reach.before, MARGIN)          \
    X(instrs, reach.after, MARGIN) X(instrs, done.before, MARGIN) X(instrs, done.after, MARGIN)                        \
    X(parts, region, REGION) X(parts, domain, DOMAIN) X(parts, router, ANY) X(parts, path, ANY)                        \
    X(parts, first, SOME_INSTRS) X(parts, count, SOME_INSTRS) X(parts, unit, UNIT) X(parts, index, PART)               \
    X(parts, scratch_bytes, BYTES) X(parts, flops, ANY)                                                                \
    X(regions, domain, DOMAIN) X(regions, first, SOME_PARTS) X(regions, count, SOME_PARTS) X(regions, instr, TOP_INSTR)\
    X(units, block, BLOCK) X(units, domain, DOMAIN) X(units, node, NODE) X(units, prepared_bytes, BYTES)               \
    X(phases, router, ROUTER) X(phases, first_unit, SOME_UNITS) X(phases, n_units, SOME_UNITS)

#define IMAGE_RANGE_NAME(name, low, high) IN_##name,
enum { IMAGE_RANGES(IMAGE_RANGE_NAME) };
#define IMAGE_ROW(table, row, rows) typedef row image_##table;
BS_IMAGE_EACH_TABLE(IMAGE_ROW)
typedef bs_plan image_plan;

#define IMAGE_FIELD(table, field, range) \
    {BS_IMAGE_##table, IN_##range, sizeof(((image_##table *)0)->field), offsetof(image_##table, field)},
#define IMAGE_WHOLE(table, range) {BS_IMAGE_##table, IN_##range, sizeof(image_##table), 0},
const bs_image_field bs_image_fields[] = {
    IMAGE_NUMBERS(IMAGE_FIELD) IMAGE_FIELDS(IMAGE_FIELD, IMAGE_WHOLE){0, 0, 0, 0}};
#define IMAGE_ONE(table, field, range) +1
enum { N_NUMBERS = IMAGE_NUMBERS(IMAGE_ONE) };

/* ------------------------------------------------------------------------------------------------ tables */

static const struct image_table {
    uint16_t row_bytes, pointer; /* pointer: offset in bs_plan of the pointer to the rows */
} image_tables[] = {
#define IMAGE_TABLE(table, row, rows) {sizeof(row), offsetof(bs_plan, table)},
    {N_NUMBERS * sizeof(int64_t), 0}, BS_IMAGE_EACH_TABLE(IMAGE_TABLE)};

size_t bs_image_row_bytes(int32_t table) { return image_tables[table].row_bytes; }

int32_t bs_image_rows(const bs_plan *p, int32_t table)
{
    const bs_graph *g = p->graph;
#define IMAGE_ROWS(table, row, rows) rows,
    const int32_t rows[] = {1, BS_IMAGE_EACH_TABLE(IMAGE_ROWS)};
    return rows[table];
}

void bs_image_place(const bs_plan *plan, bs_image_places *places)
{
    places->bytes = bs_bytes_align(bs_bytes_of(sizeof(bs_image_head)));
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++)
        places->table[t] = bs_bytes_place(&places->bytes, bs_image_rows(plan, t), bs_image_row_bytes(t));
}

/* Of the plan's numbers only the count matters: their offsets in bs_plan may differ between machines. */
uint32_t bs_image_layout(void)
{
    uint32_t crc = sizeof(bs_image_head);
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++)
        crc = bs_crc32(crc, &image_tables[t].row_bytes, sizeof image_tables[t].row_bytes);
    return bs_crc32(crc, bs_image_fields + N_NUMBERS, sizeof bs_image_fields - N_NUMBERS * sizeof *bs_image_fields);
}

/* A field is read as bytes: a bool that is neither 0 nor 1 must not be read as one. */
int64_t bs_image_get(const bs_image_field *field, const void *row)
{
    uint64_t number = 0; /* hosts are little-endian */
    memcpy(&number, (const uint8_t *)row + field->offset, field->bytes);
    return field->bytes == sizeof(int32_t) ? (int32_t)number : (int64_t)number;
}

void bs_image_set(const bs_image_field *field, void *row, int64_t number)
{
    memcpy((uint8_t *)row + field->offset, &number, field->bytes);
}

bool bs_image_same(int32_t table, const void *a, const void *b)
{
    bool same = true;
    for (const bs_image_field *f = bs_image_fields; f->bytes && same; f++)
        same = f->table != table || bs_image_get(f, a) == bs_image_get(f, b);
    return same;
}

/* ------------------------------------------------------------------------------------------------ taking */

/* Whether a field of rows is within its range. in: where it is in a row. */
static bool is_within(const bs_plan *p, const bs_image_field *f, const bs_image_field *in, const uint8_t *row)
{
    const bs_graph *g = p->graph;
#define IMAGE_LOW(name, low, high) low,
#define IMAGE_HIGH(name, low, high) high,
    const int64_t lows[] = {IMAGE_RANGES(IMAGE_LOW)}, highs[] = {IMAGE_RANGES(IMAGE_HIGH)};
    bool within = true;
    for (int32_t r = 0; within && r < bs_image_rows(p, f->table); r++, row += bs_image_row_bytes(f->table)) {
        const int64_t number = bs_image_get(in, row);
        within = number >= lows[f->range] && number <= highs[f->range];
    }
    return within;
}

/* The numbers come first: they tell where the tables are. The tables stay in the image, which nothing writes to: a
 * session's plan is const. */
bool bs_image_take(bs_plan *p, const uint8_t *image, uint64_t bytes)
{
    static const bs_image_field whole = {.bytes = sizeof(int64_t)};
    bs_image_places places;
    bs_image_place(p, &places); /* the place of the numbers depends on nothing */
    const uint8_t *at = bs_bytes_read_at(image, places.table[BS_IMAGE_plan]);
    const bs_image_field *f = bs_image_fields;
    bool within = bytes >= bs_bytes_figure(places.bytes);
    for (; within && f < bs_image_fields + N_NUMBERS; f++, at += sizeof(int64_t)) {
        within = is_within(p, f, &whole, at);
        bs_image_set(f, p, within ? bs_image_get(&whole, at) : 0);
    }
    bs_image_place(p, &places);
    within = within && bytes == bs_bytes_figure(places.bytes);
    for (int32_t t = BS_IMAGE_plan + 1; within && t < BS_IMAGE_TABLES; t++) {
        at = bs_bytes_read_at(image, places.table[t]);
        memcpy((uint8_t *)p + image_tables[t].pointer, &at, sizeof at);
    }
    for (; within && f->bytes; f++)
        within = is_within(p, f, f, bs_bytes_read_at(image, places.table[f->table]));
    return within;
}

/* ----------------------------------------------------------------------------------------------- writing */

#if !defined(BS_NO_PLANNER)

static const uint8_t *rows_of(const bs_plan *p, int32_t table)
{
    const uint8_t *rows = (const uint8_t *)p;
    if (table != BS_IMAGE_plan)
        memcpy(&rows, rows + image_tables[table].pointer, sizeof rows);
    return rows;
}

size_t bs_plan_image_bytes(const bs_plan *plan)
{
    bs_image_places places;
    size_t bytes = 0;
    if (!plan)
        return 0;
    bs_image_place(plan, &places);
    return bs_bytes_fit(places.bytes, SIZE_MAX, &bytes) ? bytes : 0;
}

/* Field by field: bytes between fields, and fields that no run reads, stay zero. No number of the plan is negative. */
static void save_fields(const bs_plan *plan, const bs_image_places *places, uint8_t *image)
{
    for (const bs_image_field *f = bs_image_fields; f->bytes; f++) {
        const size_t step = bs_image_row_bytes(f->table), number = (size_t)(f - bs_image_fields) * sizeof(int64_t);
        const uint8_t *row = rows_of(plan, f->table) + f->offset;
        uint8_t *at = bs_bytes_at(image, places->table[f->table]) + (f->table == BS_IMAGE_plan ? number : f->offset);
        for (int32_t r = 0; r < bs_image_rows(plan, f->table); r++, row += step, at += step)
            memcpy(at, row, f->bytes);
    }
}

bs_status bs_plan_save(const bs_plan *plan, void *image, size_t bytes, bs_error *error)
{
    const size_t needed = bs_plan_image_bytes(plan);
    bs_image_places places;
    if (!plan || !image)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_save: the plan or the memory for its image is NULL");
    if (bytes < needed)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_save: %llu bytes given, the image has %llu",
                       (unsigned long long)bytes, (unsigned long long)needed);
    bs_image_head head = bs_image_head_of(plan->graph, bs_dataflow_of(&plan->desc), needed);
    memset(image, 0, needed);
    bs_image_place(plan, &places);
    save_fields(plan, &places, image);
    memcpy(image, &head, sizeof head);
    head.crc = bs_crc32(0, (const uint8_t *)image + BS_IMAGE_CRC_FROM, needed - BS_IMAGE_CRC_FROM);
    memcpy(image, &head, sizeof head);
    return BS_OK;
}

#endif
