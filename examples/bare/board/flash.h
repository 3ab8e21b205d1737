/* flash.h: a bank of flash, read as if through a serial bus: one transfer at a time, that takes its time.
 * Owns: the bus. Relies on: scheduler.h. Must never: hold the processor while a transfer is under way. */
#ifndef FLASH_H
#define FLASH_H

#include "brainstorm.h"

#define FLASH_BYTES_PER_SECOND 80000000u /* four bits wide, at 160 MHz */
#define FLASH_LATENCY_NS 20000u

typedef struct flash {
    const uint8_t *base;
    uint64_t size;
    uint64_t free_ns; /* the bus: when the last transfer ends */
    uint64_t reads, bytes;
} flash;

/* flash must outlive what reads it. */
bs_reader flash_reader(flash *bank);

#endif
