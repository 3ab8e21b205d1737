/* plan/image_save.c - a plan as bytes: for whoever has a planner.
 * Relies on plan/image.h. Must never write a byte that is not the same for the same plan. */
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

/* Field by field: what lies between fields stays zero. */
static void save_table(const bs_plan *plan, int32_t t, uint8_t *at)
{
    const bs_image_table *table = &bs_image_tables[t];
    const uint8_t *row;
    memcpy(&row, (const uint8_t *)plan + table->pointer, sizeof row);
    for (int32_t r = 0; r < bs_image_rows(plan, t); r++, row += table->row_bytes, at += table->row_bytes)
        for (int32_t f = 0; f < table->n_fields; f++)
            bs_image_set(&table->fields[f], at, bs_image_get(&table->fields[f], row));
}

bs_status bs_plan_save(const bs_plan *plan, void *image, size_t bytes, bs_error *error)
{
    const size_t needed = bs_plan_image_bytes(plan);
    bs_image_places places;
    int32_t count;
    if (!plan || !image)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_save: the plan or the memory for its image is NULL");
    if (bytes < needed)
        return bs_fail(error, BS_ERROR_ARGUMENT, "bs_plan_save: %llu bytes given, the image has %llu",
                       (unsigned long long)bytes, (unsigned long long)needed);
    const bs_image_field *numbers = bs_image_numbers(&count);
    bs_image_head head = bs_image_head_of(plan->graph, needed);
    memset(image, 0, needed);
    bs_image_place(plan, &places);
    for (int32_t i = 0; i < count; i++) {
        const int64_t number = bs_image_get(&numbers[i], plan);
        memcpy(bs_bytes_at(image, places.numbers) + (size_t)i * sizeof number, &number, sizeof number);
    }
    for (int32_t t = 0; t < BS_IMAGE_TABLES; t++)
        save_table(plan, t, bs_bytes_at(image, places.table[t]));
    memcpy(image, &head, sizeof head);
    head.crc = bs_crc32(0, (const uint8_t *)image + BS_IMAGE_CRC_FROM, needed - BS_IMAGE_CRC_FROM);
    memcpy(image, &head, sizeof head);
    return BS_OK;
}

#endif
