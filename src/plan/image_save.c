/* plan/image_save.c - a plan as bytes, in builds that have a planner.
 * Relies on plan/image.h. Must never write a byte that could differ for the same plan. */
#include "plan/image.h"

#if !defined(BS_NO_PLANNER)

size_t bs_plan_image_bytes(const bs_plan *plan)
{
    bs_image_places places;
    size_t bytes = 0;
    if (!plan)
        return 0;
    bs_image_place(plan, &places);
    return bs_bytes_fit(places.bytes, SIZE_MAX, &bytes) ? bytes : 0;
}

/* Field by field: bytes between fields, and fields that no run reads, stay zero. */
static void save_fields(const bs_plan *plan, const bs_image_places *places, uint8_t *image)
{
    uint8_t *at = bs_bytes_at(image, places->table[BS_IMAGE_plan]);
    const bs_image_field *f = bs_image_fields;
    for (; f->table == BS_IMAGE_plan; f++, at += sizeof(int64_t))
        memcpy(at, &(int64_t){bs_image_get(f, plan)}, sizeof(int64_t));
    for (; f->bytes; f++) {
        at = bs_bytes_at(image, places->table[f->table]) + f->offset;
        for (int32_t r = 0; r < bs_image_rows(plan, f->table); r++, at += bs_image_row_bytes(f->table))
            memcpy(at, bs_image_row(plan, f->table, r) + f->offset, f->bytes);
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
