/* flash.c: see flash.h. */
#include "flash.h"
#include "scheduler.h"

#include <string.h>

static uint64_t transfer_ns(size_t bytes)
{
    return FLASH_LATENCY_NS + (uint64_t)bytes * 1000000000u / FLASH_BYTES_PER_SECOND;
}

/* The bytes are there when the transfer is over, as if a DMA engine had brought them; until then others run. */
static int64_t flash_read(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    flash *bank = user;
    if (offset > bank->size)
        return -1;
    const size_t there = bytes < bank->size - offset ? bytes : (size_t)(bank->size - offset);
    const uint64_t now = scheduler_now_ns();
    const uint64_t end = (now > bank->free_ns ? now : bank->free_ns) + transfer_ns(there);
    bank->free_ns = end;
    while (scheduler_now_ns() < end)
        scheduler_yield();
    memcpy(buffer, bank->base + offset, there);
    bank->reads++;
    bank->bytes += there;
    return (int64_t)there;
}

bs_reader flash_reader(flash *bank)
{
    return (bs_reader){.user = bank, .read = flash_read, .size = bank->size, .concurrent = 1};
}
