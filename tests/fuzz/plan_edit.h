/* plan_edit.h - lies in the image of a plan, told so that only the looking can notice: the CRC is mended.
 * Owns: edits of single fields, rows and bytes. Relies on: fuzz.h, plan/image.h. Must never write beyond the image. */
#ifndef FUZZ_PLAN_EDIT_H
#define FUZZ_PLAN_EDIT_H

#include "fuzz.h"

#include "plan/image.h"

static inline void plan_edit_mend(uint8_t *image, size_t size)
{
    const uint32_t crc = bs_crc32(0, image + BS_IMAGE_CRC_FROM, size - BS_IMAGE_CRC_FROM);
    memcpy(image + offsetof(bs_image_head, crc), &crc, sizeof crc);
}

/* A number near those that mean something: 0, -1, its neighbours, that of another row, any small one, any one. */
static inline int64_t plan_edit_number(fuzz_bytes *o, int64_t before, int64_t other)
{
    switch (fuzz_u8(o) & 7) {
    case 0: return 0;
    case 1: return -1;
    case 2: return before + 1;
    case 3: return before - 1;
    case 4: return other;
    case 5: return fuzz_u8(o);
    case 6: return before + 64 * (1 + fuzz_u8(o));
    default: return (int64_t)((uint64_t)fuzz_u32(o) << (fuzz_u8(o) & 31));
    }
}

/* A field of a table's row, or of the numbers, becomes another; `plan` tells where tables begin. */
static inline void plan_edit_field(fuzz_bytes *o, const bs_plan *plan, uint8_t *image)
{
    bs_image_places places;
    int32_t fields = 0;
    while (bs_image_fields[fields].bytes)
        fields++;
    const bs_image_field *field = &bs_image_fields[fuzz_u8(o) % fields];
    const int32_t rows = bs_image_rows(plan, field->table), row = fuzz_u16(o), other = fuzz_u16(o);
    const size_t bytes = bs_image_row_bytes(field->table);
    bs_image_place(plan, &places);
    if (field->table == BS_IMAGE_plan) {
        uint8_t *at = bs_bytes_at(image, places.table[BS_IMAGE_plan]) + 8 * (row % ((int32_t)bytes / 8));
        int64_t number;
        memcpy(&number, at, sizeof number);
        number = plan_edit_number(o, number, 1);
        memcpy(at, &number, sizeof number);
        return;
    }
    if (rows == 0)
        return;
    uint8_t *const first = bs_bytes_at(image, places.table[field->table]);
    uint8_t *const at = first + (size_t)(row % rows) * bytes;
    const uint8_t *const from = first + (size_t)(other % rows) * bytes;
    if (fuzz_flip(o, 40))
        memcpy(at, from, bytes);
    else
        bs_image_set(field, at, plan_edit_number(o, bs_image_get(field, at), bs_image_get(field, from)));
}

/* size: of the image, which may become shorter. */
static inline void plan_edit(fuzz_bytes *o, const bs_plan *plan, uint8_t *image, size_t *size)
{
    const int32_t edits = 1 + fuzz_u8(o) % 6;
    for (int32_t i = 0; i < edits; i++) {
        const uint8_t kind = fuzz_u8(o);
        if (kind < 200)
            plan_edit_field(o, plan, image);
        else if (kind < 250)
            image[fuzz_u32(o) % *size] ^= (uint8_t)(1u << (fuzz_u8(o) & 7));
        else
            *size -= fuzz_u16(o) % *size;
    }
    if (*size >= sizeof(bs_image_head) && fuzz_flip(o, 250))
        plan_edit_mend(image, *size);
}

#endif
