/* plan_image.h - a plan saved and opened again, in memory of exactly its bytes: what the tests of images share. */
#ifndef BS_TEST_PLAN_IMAGE_H
#define BS_TEST_PLAN_IMAGE_H

#include "base/base.h"
#include "check.h"

#include <stdlib.h>

typedef struct plan_image {
    uint8_t *bytes; /* at the end of its memory, so that a byte too many is noticed */
    void *memory;
    size_t size;
    BS_ALIGNED uint8_t handle[1 << 18];
    bs_error error;
} plan_image;

static inline void plan_image_free(plan_image *i)
{
    free(i->memory);
    i->memory = NULL;
}

static inline bool plan_image_save(plan_image *i, const bs_plan *plan)
{
    plan_image_free(i);
    i->size = bs_plan_image_bytes(plan);
    i->memory = malloc(i->size); /* aligned as malloc aligns */
    i->bytes = i->memory;
    return i->memory && bs_plan_save(plan, i->bytes, i->size, &i->error) == BS_OK;
}

static inline const bs_plan *plan_image_open(plan_image *i, const bs_graph *graph)
{
    bs_arena arena;
    bs_arena_init(&arena, "handle", i->handle, bs_plan_open_bytes(graph));
    return bs_plan_open(&arena, NULL, graph, i->bytes, i->size, &i->error);
}

/* What is behind the CRC is as if it had always been so: only the looking can notice. */
static inline void plan_image_mend(plan_image *i)
{
    const uint32_t crc = bs_crc32(0, i->bytes + 16, i->size - 16);
    memcpy(i->bytes + 12, &crc, sizeof crc);
}

#endif
