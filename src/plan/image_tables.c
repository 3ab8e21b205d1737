/* plan/image_tables.c - every field of a plan: where it is, and what it may be. One list serves to write an image, to
 * tell whether this machine lays tables out alike, and to look at what an image says before anything uses it.
 * Relies on plan/image.h. Must never follow a number that it has not looked at. */
#include "plan/image.h"

#include "ops/structure.h"

/* ------------------------------------------------------------------------------------------------ bounds */

/* What a number may be: name, lowest, highest. Of g, the graph, and p, the numbers of the plan before it. */
#define IMAGE_RANGES(X)                                                       \
    X(ANY, INT64_MIN, INT64_MAX)                                              \
    X(FLAG, 0, 1)                                                             \
    X(COUNT, 0, INT32_MAX)                                                    \
    X(BYTES, 0, (int64_t)BS_MAX_PLAN_BYTES)                                   \
    X(ROWS, 0, BS_MAX_ROWS)                                                   \
    X(TIER, BS_TIER_SCALAR, BS_TIER_CUDA)                                       \
    X(THREADS, 1, p->tier == BS_TIER_CUDA ? 1 : 64)                           \
    X(LANES, 0, BS_MAX_LANES)                                                 \
    X(MARGIN, 0, BS_MAX_MARGIN)                                               \
    X(ORDER, BS_ORDER_BREADTH, BS_ORDER_DEPTH)                                \
    X(TILE, 1, BS_TILE_ROWS)                                                  \
    X(CELL, 0, 8192)                                                          \
    X(PLACE, BS_PLACE_NONE, BS_PLACE_FRAME)                                   \
    X(KIND, BS_INSTR_CALL, BS_INSTR_RUN)                                      \
    X(MAP, BS_MAP_VIEW, BS_MAP_BEYOND)                                        \
    X(COMBINE, BS_COMBINE_COPY, BS_COMBINE_SELECT)                            \
    X(FUSION, 0, bs_fusion_count())                                           \
    X(NODE, 0, g->n_nodes - 1)                                                \
    X(VALUE, 0, g->n_values - 1)                                              \
    X(SOURCE, 0, g->n_nodes > g->n_values ? g->n_nodes - 1 : g->n_values - 1) \
    X(DOMAIN, 0, g->n_domains - 1)                                            \
    X(ROUTER, 0, g->n_routers - 1)                                            \
    X(FORCED, 0, g->max_paths)                                                \
    X(PATH, -1, g->max_paths - 1)                                             \
    X(BLOCK, 0, g->n_blocks - 1)                                              \
    /* how many there are, and which */                                       \
    X(INSTRS, 0, bs_plan_most_instrs(g))                                      \
    X(TOPS, 0, p->n_instrs)                                                   \
    X(PARTS, 0, bs_plan_most_parts(g))                                        \
    X(REGIONS, 0, p->n_parts)                                                 \
    X(UNITS, 1, g->n_blocks + g->n_domains + 1)                               \
    X(STAGES, 0, g->n_nodes)                                                  \
    X(STAGE_UNITS, 0, 2 * (int64_t)g->n_nodes + p->n_parts)                   \
    X(TOP_INSTR, -1, p->n_top - 1)                                            \
    X(INSTR, -1, p->n_instrs - 1)                                             \
    X(SOME_INSTRS, 0, p->n_instrs)                                            \
    X(PART, 0, p->n_parts - 1)                                                \
    X(PART_OR_TOP, BS_TOP, p->n_parts - 1)                                    \
    X(SOME_PARTS, 0, p->n_parts)                                              \
    X(REGION, 0, bs_max_i32(p->n_regions, 1) - 1)                             \
    X(UNIT, 0, p->n_units - 1)                                                \
    X(STREAMED, 0, p->n_units - 2) /* as the stream counts */                 \
    X(STAGE, -1, p->n_stages - 1)                                             \
    X(SOME_UNITS, 0, p->n_stage_units)

typedef enum image_range {
#define IMAGE_RANGE_ENUM(name, low, high) IN_##name,
    IMAGE_RANGES(IMAGE_RANGE_ENUM)
#undef IMAGE_RANGE_ENUM
        IN_ALL
} image_range;

typedef struct image_bounds {
    int64_t low[IN_ALL], high[IN_ALL];
} image_bounds;

static void bounds_make(const bs_plan *p, image_bounds *b)
{
    const bs_graph *g = p->graph;
#define IMAGE_RANGE_SET(name, lowest, highest) b->low[IN_##name] = lowest, b->high[IN_##name] = highest;
    IMAGE_RANGES(IMAGE_RANGE_SET)
#undef IMAGE_RANGE_SET
}

/* ------------------------------------------------------------------------------------------------ fields */

/* A field that has become of another size does not compile. */
#define IMAGE_SIZE(type) (BS_IMAGE_##type == BS_IMAGE_LONG ? 8 : BS_IMAGE_##type == BS_IMAGE_WORD ? 4 : 1)
#define IMAGE_OFFSET(type, of, field)                                                                                 \
    (offsetof(of, field) * sizeof(char[sizeof(((of *)0)->field) == IMAGE_SIZE(type) ? 1 : -1]))
#define IMAGE_FIELD(type, of, field, range) {#field, BS_IMAGE_##type, IN_##range, IMAGE_OFFSET(type, of, field)}

static const bs_image_field image_numbers[] = {
#define IMAGE_NUMBER(type, field, range) IMAGE_FIELD(type, bs_plan, field, range)
    IMAGE_NUMBER(WORD, tier, TIER),
    IMAGE_NUMBER(WORD, threads, THREADS),
    IMAGE_NUMBER(WORD, n_instrs, INSTRS),
    IMAGE_NUMBER(WORD, n_top, TOPS),
    IMAGE_NUMBER(WORD, n_parts, PARTS),
    IMAGE_NUMBER(WORD, n_regions, REGIONS),
    IMAGE_NUMBER(WORD, n_units, UNITS),
    IMAGE_NUMBER(WORD, n_stages, STAGES),
    IMAGE_NUMBER(WORD, n_stage_units, STAGE_UNITS),
    IMAGE_NUMBER(WORD, most_parts, SOME_PARTS),
    IMAGE_NUMBER(WORD, most_stage_units, SOME_UNITS),
    IMAGE_NUMBER(WORD, last_route, TOP_INSTR),
    IMAGE_NUMBER(WORD, lanes, LANES),
    IMAGE_NUMBER(LONG, transient_bytes, BYTES),
    IMAGE_NUMBER(LONG, scratch_bytes, BYTES),
    IMAGE_NUMBER(LONG, weight_bytes, BYTES),
    IMAGE_NUMBER(LONG, staging_bytes, BYTES),
    IMAGE_NUMBER(LONG, kernel_scratch_bytes, BYTES),
    IMAGE_NUMBER(LONG, kernel_scratch_offset, BYTES),
    IMAGE_NUMBER(LONG, shared_bytes, BYTES),
    IMAGE_NUMBER(LONG, slot_bytes, BYTES),
    IMAGE_NUMBER(LONG, all_unit_bytes, BYTES),
    IMAGE_NUMBER(LONG, largest_unit_bytes, BYTES),
    IMAGE_NUMBER(LONG, chunk_bytes, BYTES),
    IMAGE_NUMBER(LONG, lane_bytes, BYTES),
    IMAGE_NUMBER(WORD, desc.threads, ANY), /* the planner's own bounds are looked at in any case */
    IMAGE_NUMBER(WORD, desc.tier, ANY),
    IMAGE_NUMBER(WORD, desc.order, ANY),
    IMAGE_NUMBER(WORD, desc.conv, ANY),
    IMAGE_NUMBER(WORD, desc.patch_size, ANY),
    IMAGE_NUMBER(LONG, desc.slot_bytes, ANY),
    IMAGE_NUMBER(WORD, desc.lanes, ANY),
    IMAGE_NUMBER(WORD, desc.chunk_bytes, ANY),
    IMAGE_NUMBER(WORD, desc.half, ANY),
    IMAGE_NUMBER(WORD, desc.in_place, ANY),
    IMAGE_NUMBER(WORD, desc.lowering, ANY),
    IMAGE_NUMBER(WORD, desc.shared_bytes, ANY),
#undef IMAGE_NUMBER
};
#define IMAGE_NUMBERS ((int32_t)(sizeof image_numbers / sizeof *image_numbers))

static const bs_image_field image_live_fields[] = {{"", BS_IMAGE_FLAG, IN_FLAG, 0}};
static const bs_image_field image_part_number[] = {{"", BS_IMAGE_WORD, IN_PART, 0}};
static const bs_image_field image_unit_number[] = {{"", BS_IMAGE_WORD, IN_STREAMED, 0}};

static const bs_image_field image_node_fields[] = {
    IMAGE_FIELD(WORD, bs_node_plan, tier, COUNT),
    IMAGE_FIELD(WORD, bs_node_plan, algorithm, ANY),
    IMAGE_FIELD(FLAG, bs_node_plan, half, FLAG),
    IMAGE_FIELD(WORD, bs_node_plan, ahead_of, ROUTER),
    IMAGE_FIELD(BYTE, bs_node_plan, fusion, FUSION),
    IMAGE_FIELD(WORD, bs_node_plan, fused_in[0], VALUE),
    IMAGE_FIELD(WORD, bs_node_plan, fused_in[1], VALUE),
    IMAGE_FIELD(WORD, bs_node_plan, unit, UNIT),
    IMAGE_FIELD(WORD, bs_node_plan, twin, NODE),
    IMAGE_FIELD(WORD, bs_node_plan, owner, NODE),
    IMAGE_FIELD(WORD, bs_node_plan, newest_owner, NODE),
    IMAGE_FIELD(LONG, bs_node_plan, prepared_bytes, BYTES),
    IMAGE_FIELD(LONG, bs_node_plan, prepared_offset, BYTES),
    IMAGE_FIELD(LONG, bs_node_plan, scratch_bytes, BYTES),
    IMAGE_FIELD(WORD, bs_node_plan, pieces, COUNT),
};

static const bs_image_field image_value_fields[] = {
    IMAGE_FIELD(WORD, bs_value_plan, place, PLACE),
    IMAGE_FIELD(WORD, bs_value_plan, source, SOURCE),
    IMAGE_FIELD(WORD, bs_value_plan, margin, MARGIN),
    IMAGE_FIELD(WORD, bs_value_plan, slab, VALUE),
    IMAGE_FIELD(WORD, bs_value_plan, first, ANY),
    IMAGE_FIELD(WORD, bs_value_plan, last, ANY),
    IMAGE_FIELD(WORD, bs_value_plan, scope, PART_OR_TOP),
    IMAGE_FIELD(FLAG, bs_value_plan, narrow, FLAG),
    IMAGE_FIELD(FLAG, bs_value_plan, is_past, FLAG),
    IMAGE_FIELD(LONG, bs_value_plan, offset, BYTES),
    IMAGE_FIELD(LONG, bs_value_plan, row_bytes, BYTES),
    IMAGE_FIELD(LONG, bs_value_plan, rows, ROWS),
};

static const bs_image_field image_instr_fields[] = {
    IMAGE_FIELD(BYTE, bs_instr, kind, KIND),
    IMAGE_FIELD(BYTE, bs_instr, map, MAP),
    IMAGE_FIELD(BYTE, bs_instr, combine, COMBINE),
    IMAGE_FIELD(WORD, bs_instr, node, NODE),
    IMAGE_FIELD(WORD, bs_instr, value, VALUE),
    IMAGE_FIELD(WORD, bs_instr, target, VALUE),
    IMAGE_FIELD(WORD, bs_instr, domain, DOMAIN),
    IMAGE_FIELD(WORD, bs_instr, region, REGION),
    IMAGE_FIELD(WORD, bs_instr, part, PART_OR_TOP),
    IMAGE_FIELD(WORD, bs_instr, time, ANY),
    IMAGE_FIELD(WORD, bs_instr, stage, STAGE),
};

static const bs_image_field image_part_fields[] = {
    IMAGE_FIELD(WORD, bs_part, region, REGION),
    IMAGE_FIELD(WORD, bs_part, domain, DOMAIN),
    IMAGE_FIELD(WORD, bs_part, router, ROUTER),
    IMAGE_FIELD(WORD, bs_part, path, PATH),
    IMAGE_FIELD(WORD, bs_part, first, SOME_INSTRS),
    IMAGE_FIELD(WORD, bs_part, count, SOME_INSTRS),
    IMAGE_FIELD(WORD, bs_part, unit, UNIT),
    IMAGE_FIELD(WORD, bs_part, place, PART),
    IMAGE_FIELD(LONG, bs_part, scratch_bytes, BYTES),
    IMAGE_FIELD(LONG, bs_part, flops, ANY),
};

static const bs_image_field image_region_fields[] = {
    IMAGE_FIELD(WORD, bs_region, domain, DOMAIN),
    IMAGE_FIELD(WORD, bs_region, first, SOME_PARTS),
    IMAGE_FIELD(WORD, bs_region, count, SOME_PARTS),
    IMAGE_FIELD(WORD, bs_region, instr, TOP_INSTR),
};

static const bs_image_field image_domain_fields[] = {
    IMAGE_FIELD(WORD, bs_domain_plan, order, ORDER),
    IMAGE_FIELD(WORD, bs_domain_plan, tile_rows, TILE),
    IMAGE_FIELD(WORD, bs_domain_plan, size, CELL),
    IMAGE_FIELD(LONG, bs_domain_plan, max_rows, ROWS),
    IMAGE_FIELD(FLAG, bs_domain_plan, live, FLAG),
    IMAGE_FIELD(FLAG, bs_domain_plan, images, FLAG),
    IMAGE_FIELD(FLAG, bs_domain_plan, streams, FLAG),
    IMAGE_FIELD(FLAG, bs_domain_plan, whole, FLAG),
    IMAGE_FIELD(FLAG, bs_domain_plan, mixed, FLAG),
};

static const bs_image_field image_router_fields[] = {
    IMAGE_FIELD(WORD, bs_router_plan, forced, FORCED),
    IMAGE_FIELD(FLAG, bs_router_plan, live, FLAG),
    IMAGE_FIELD(FLAG, bs_router_plan, in_tile, FLAG),
    IMAGE_FIELD(WORD, bs_router_plan, instr, INSTR),
    IMAGE_FIELD(LONG, bs_router_plan, rows, ROWS),
};

static const bs_image_field image_unit_fields[] = {
    IMAGE_FIELD(WORD, bs_plan_unit, block, BLOCK),
    IMAGE_FIELD(WORD, bs_plan_unit, domain, DOMAIN),
    IMAGE_FIELD(WORD, bs_plan_unit, node, NODE),
    IMAGE_FIELD(LONG, bs_plan_unit, prepared_bytes, BYTES),
};

static const bs_image_field image_stage_fields[] = {
    IMAGE_FIELD(WORD, bs_trace_stage, router, ROUTER),
    IMAGE_FIELD(WORD, bs_trace_stage, first_unit, SOME_UNITS),
    IMAGE_FIELD(WORD, bs_trace_stage, n_units, SOME_UNITS),
};

#define IMAGE_TABLE(pointer, row, fields)                                                                       \
    {                                                                                                           \
#pointer, (uint8_t)(sizeof(fields) / sizeof *(fields)), sizeof(row), offsetof(bs_plan, pointer), fields \
    }
const bs_image_table bs_image_tables[BS_IMAGE_TABLES] = {
    IMAGE_TABLE(node_live, bool, image_live_fields),
    IMAGE_TABLE(nodes, bs_node_plan, image_node_fields),
    IMAGE_TABLE(values, bs_value_plan, image_value_fields),
    IMAGE_TABLE(domains, bs_domain_plan, image_domain_fields),
    IMAGE_TABLE(routers, bs_router_plan, image_router_fields),
    IMAGE_TABLE(instrs, bs_instr, image_instr_fields),
    IMAGE_TABLE(parts, bs_part, image_part_fields),
    IMAGE_TABLE(region_parts, int32_t, image_part_number),
    IMAGE_TABLE(regions, bs_region, image_region_fields),
    IMAGE_TABLE(units, bs_plan_unit, image_unit_fields),
    IMAGE_TABLE(stages, bs_trace_stage, image_stage_fields),
    IMAGE_TABLE(stage_units, int32_t, image_unit_number),
};

int32_t bs_image_rows(const bs_plan *p, int32_t table)
{
    const bs_graph *g = p->graph;
    const int32_t rows[BS_IMAGE_TABLES] = {
        g->n_nodes,   g->n_nodes, g->n_values,  g->n_domains,
        g->n_routers, p->n_instrs, p->n_parts,  p->n_parts,
        p->n_regions, bs_plan_streams(p) ? p->n_units : 0, p->n_stages, p->n_stage_units};
    return rows[table];
}

const bs_image_field *bs_image_numbers(int32_t *count)
{
    *count = IMAGE_NUMBERS;
    return image_numbers;
}

/* ---------------------------------------------------------------------------------------------- one field */

int64_t bs_image_get(const bs_image_field *field, const void *row)
{
    const uint8_t *at = (const uint8_t *)row + field->offset;
    int64_t number = 0;
    int32_t word = 0;
    switch ((bs_image_type)field->type) {
    case BS_IMAGE_FLAG: /* as a byte: a bool that is neither may not be read */
    case BS_IMAGE_BYTE: return *at;
    case BS_IMAGE_WORD: memcpy(&word, at, sizeof word); return word;
    case BS_IMAGE_LONG: memcpy(&number, at, sizeof number); break;
    }
    return number;
}

void bs_image_set(const bs_image_field *field, void *row, int64_t number)
{
    uint8_t *at = (uint8_t *)row + field->offset;
    const int32_t word = (int32_t)number;
    switch ((bs_image_type)field->type) {
    case BS_IMAGE_FLAG:
    case BS_IMAGE_BYTE: *at = (uint8_t)number; break;
    case BS_IMAGE_WORD: memcpy(at, &word, sizeof word); break;
    case BS_IMAGE_LONG: memcpy(at, &number, sizeof number); break;
    }
}

BS_WRAPS static uint32_t layout_mix(uint32_t hash, uint32_t number)
{
    hash = (hash ^ number) * 0x9E3779B1u;
    return hash ^ (hash >> 15);
}

uint32_t bs_image_layout(void)
{
    uint32_t hash = layout_mix(sizeof(bs_image_head), IMAGE_NUMBERS);
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++) {
        hash = layout_mix(hash, bs_image_tables[t].row_bytes);
        for (int32_t f = 0; f < bs_image_tables[t].n_fields; f++)
            hash = layout_mix(layout_mix(hash, bs_image_tables[t].fields[f].offset), bs_image_tables[t].fields[f].type);
    }
    return hash;
}

/* ------------------------------------------------------------------------------------------------- looking */

static bool is_within(const image_bounds *b, const bs_image_field *field, int64_t number)
{
    return number >= b->low[field->range] && number <= b->high[field->range];
}

bool bs_image_take_numbers(bs_plan *p, const uint8_t *image, bs_error *error)
{
    image_bounds b;
    for (int32_t i = 0; i < IMAGE_NUMBERS; i++) {
        int64_t number;
        memcpy(&number, image + (size_t)i * sizeof number, sizeof number);
        bounds_make(p, &b);
        const bool word = image_numbers[i].type != BS_IMAGE_WORD || (number >= INT32_MIN && number <= INT32_MAX);
        if (!word || !is_within(&b, &image_numbers[i], number))
            return bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: its %s is %lld, expected %lld .. %lld",
                             image_numbers[i].name, (long long)number, (long long)b.low[image_numbers[i].range],
                             (long long)b.high[image_numbers[i].range]);
        bs_image_set(&image_numbers[i], p, number);
    }
    return true;
}

bool bs_image_rows_sound(const bs_plan *p, bs_error *error)
{
    image_bounds b;
    bounds_make(p, &b);
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++) {
        const bs_image_table *table = &bs_image_tables[t];
        const uint8_t *row;
        memcpy(&row, (const uint8_t *)p + table->pointer, sizeof row);
        for (int32_t r = 0; r < bs_image_rows(p, t); r++, row += table->row_bytes)
            for (int32_t f = 0; f < table->n_fields; f++) {
                const bs_image_field *field = &table->fields[f];
                const int64_t number = bs_image_get(field, row);
                if (!is_within(&b, field, number))
                    return bs_refuse(error, BS_ERROR_FORMAT,
                                     "bs_plan_open: %s[%d]%s%s is %lld, expected %lld .. %lld", table->name, r,
                                     *field->name ? "." : "", field->name, (long long)number,
                                     (long long)b.low[field->range], (long long)b.high[field->range]);
            }
    }
    return true;
}
