/* plan/image.h - what the files of a plan's image share: plan/image.c (the bytes), plan/image_tables.c (every field of
 * every table), plan/image_graph.c (which graph it is for).
 *
 * An image is a head, then numbers of the plan in eight bytes each, then its tables one behind the other, each aligned.
 * Relies on plan/plan.h. Must never be included by anything else. */
#ifndef BS_PLAN_IMAGE_H
#define BS_PLAN_IMAGE_H

#include "plan/plan.h"

#define BS_IMAGE_FORMAT 1
#define BS_IMAGE_ALIGNMENT 8 /* of the address it is opened at: the largest of any field */

typedef struct bs_image_head {
    char magic[8];
    uint32_t format;
    uint32_t crc;     /* of all behind this field */
    uint64_t bytes;   /* of the image */
    uint32_t library; /* BS_VERSION */
    uint32_t layout;  /* bs_image_layout of who wrote it */
    uint64_t graph;   /* bs_image_graph */
    int32_t nodes, values, domains, routers; /* of the graph: what a message can tell */
} bs_image_head;

#define BS_IMAGE_CRC_FROM (offsetof(bs_image_head, crc) + sizeof(uint32_t))
/* The head of an image of this graph that is of so many bytes, but for its CRC. */
bs_image_head bs_image_head_of(const bs_graph *graph, size_t bytes);

/* ------------------------------------------------------------------------------------------------ fields */

typedef enum bs_image_type { BS_IMAGE_FLAG, BS_IMAGE_BYTE, BS_IMAGE_WORD, BS_IMAGE_LONG } bs_image_type;

typedef struct bs_image_field {
    char name[22]; /* no pointer: it would have to be relocated */
    uint8_t type, range;
    uint16_t offset;
} bs_image_field;

typedef struct bs_image_table {
    char name[13];
    uint8_t n_fields;
    uint16_t row_bytes;
    uint16_t pointer; /* its offset in bs_plan */
    const bs_image_field *fields;
} bs_image_table;

#define BS_IMAGE_TABLES 12
extern const bs_image_table bs_image_tables[BS_IMAGE_TABLES];

/* The numbers of a plan: fields of bs_plan. */
const bs_image_field *bs_image_numbers(int32_t *count);
int32_t bs_image_rows(const bs_plan *plan, int32_t table);
int64_t bs_image_get(const bs_image_field *field, const void *row);
void bs_image_set(const bs_image_field *field, void *row, int64_t number);
/* Where the head, the numbers and each table begin, and where all of it ends. */
typedef struct bs_image_places {
    bs_bytes numbers, table[BS_IMAGE_TABLES], bytes;
} bs_image_places;
void bs_image_place(const bs_plan *plan, bs_image_places *places);

/* A number of this compiler's layout of all tables: images are read where it is the same. */
uint32_t bs_image_layout(void);
/* And one of all of a graph that a plan depends on. */
uint64_t bs_image_graph(const bs_graph *graph);

/* Sets the numbers of the plan, which knows its graph, each within bounds that the graph and the numbers before it
 * give. */
bool bs_image_take_numbers(bs_plan *plan, const uint8_t *numbers, bs_error *error);
/* What follows from others does: by the planner's own rules for domains, nodes and values; for instructions; for
 * weights that come and go. Each relies on those before it, and on bounds. */
bool bs_image_values_sound(const bs_plan *plan, bs_error *error);
bool bs_image_instrs_sound(const bs_plan *plan, bs_error *error);
bool bs_image_stages_sound(const bs_plan *plan, bs_error *error);
/* Whether the rows of `domain` are rows of a tile of `above`. */
bool bs_image_is_within(const bs_graph *graph, int32_t domain, int32_t above);
/* What is wrong with row `index` of a table. */
#define bs_image_refuse(error, table, index, what)                                                                    \
    bs_refuse(error, BS_ERROR_FORMAT, "bs_plan_open: " table "[%d]: " what, (int)(index))
/* Every field of every row is within its bounds: numbers of things are of things that there are. */
bool bs_image_rows_sound(const bs_plan *plan, bs_error *error);

#endif
