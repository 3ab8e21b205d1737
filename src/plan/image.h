/* plan/image.h - what the files of a plan's image share: plan/image_tables.c (every field of every table, as bytes),
 * plan/image_values.c (whether rows keep a run in its memory), plan/image.c (which graph it is for; opening).
 *
 * An image is a head, then numbers of the plan in eight bytes each, then its tables one behind the other, each aligned.
 * Relies on plan/plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_IMAGE_H
#define BS_PLAN_IMAGE_H

#include "plan/dataflow.h"
#include "plan/plan.h"

#define BS_IMAGE_MAGIC 8
#define BS_IMAGE_ALIGNMENT 8 /* of the address at which it is opened: the largest that any field needs */

typedef struct bs_image_head {
    char magic[12];   /* the same in BS_IMAGE_MAGIC bytes, then the format */
    uint32_t crc;     /* of everything behind this field */
    uint64_t bytes;   /* of the image */
    uint32_t library; /* BS_VERSION */
    uint32_t layout;  /* bs_image_layout of the library that wrote it */
    uint32_t graph;   /* bs_image_graph of the graph as it is planned */
    int32_t dataflow; /* bits of bs_dataflow: how that was made of the caller's */
} bs_image_head;

#define BS_IMAGE_CRC_FROM (offsetof(bs_image_head, crc) + sizeof(uint32_t))
/* The head of an image of `bytes` bytes for this graph, as it is planned, its CRC still missing. */
bs_image_head bs_image_head_of(const bs_graph *graph, int32_t dataflow, size_t bytes);
/* A hash of how this compiler lays out all tables; and of everything in a graph that a plan depends on. */
uint32_t bs_image_layout(void);
uint32_t bs_image_graph(const bs_graph *graph);

/* The tables: the plan's pointer to each, the type of a row, and the number of rows for a plan p of graph g. */
#define BS_IMAGE_EACH_TABLE(X)                                                                                         \
    X(node_live, bool, g->n_nodes) X(nodes, bs_node_plan, g->n_nodes) X(values, bs_value_plan, g->n_values)            \
    X(domains, bs_domain_plan, g->n_domains) X(routers, bs_router_plan, g->n_routers)                                  \
    X(instrs, bs_instr, p->n_instrs) X(parts, bs_part, p->n_parts) X(region_parts, int32_t, p->n_parts)                \
    X(regions, bs_region, p->n_regions) X(units, bs_plan_unit, bs_plan_streams(p) ? p->n_units : 0)                    \
    X(phases, bs_trace_phase, p->n_phases) X(phase_units, int32_t, p->n_phase_units)

#define BS_IMAGE_NAME(table, row, rows) BS_IMAGE_##table,
typedef enum bs_image_table {
    BS_IMAGE_plan, /* the plan's own numbers, as the only row of a table; each takes eight bytes */
    BS_IMAGE_EACH_TABLE(BS_IMAGE_NAME) BS_IMAGE_TABLES
} bs_image_table;

typedef struct bs_image_field {
    uint8_t table, range;
    uint16_t bytes, offset; /* bytes: 1, 4 or 8; offset: in a row */
} bs_image_field;

/* All fields of all tables, the plan's numbers first; an entry of no bytes ends the list. */
extern const bs_image_field bs_image_fields[];
/* Rows of a table, and bytes of each. */
int32_t bs_image_rows(const bs_plan *plan, int32_t table);
size_t bs_image_row_bytes(int32_t table);
int64_t bs_image_get(const bs_image_field *field, const void *row);
void bs_image_set(const bs_image_field *field, void *row, int64_t number);
/* Whether two rows of a table are equal in all fields that an image keeps. */
bool bs_image_same(int32_t table, const void *a, const void *b);
/* Where each table begins behind the head, and where the last one ends. */
typedef struct bs_image_places {
    bs_bytes table[BS_IMAGE_TABLES], bytes;
} bs_image_places;
void bs_image_place(const bs_plan *plan, bs_image_places *places);

/* Makes an image of so many bytes the plan of its graph: its numbers, then its tables where they are. Whether all
 * fields are within bounds that follow from the graph and the numbers before them. */
bool bs_image_take(bs_plan *plan, const uint8_t *image, uint64_t bytes);
/* Then: whether no row leads a run out of its memory, as far as its instructions are sound (bs_plan_walk). */
bool bs_image_values_sound(const bs_plan *plan);
#endif
