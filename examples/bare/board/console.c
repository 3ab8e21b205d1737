/* console.c: characters to the board's UART, and what is said when the processor traps. See machine.h. */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 320

static volatile uint32_t *const uart = (volatile uint32_t *)0x09000000; /* a PL011, which QEMU needs no setting up of */

void console_put(char c)
{
    enum { data = 0x00 / 4, flags = 0x18 / 4, full = 1 << 5 };
    while (uart[flags] & full)
        ;
    uart[data] = (uint8_t)c;
}

void console_print(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (const char *c = line; *c; c++)
        console_put(*c);
}

/* Called by start.S. */
void machine_trap(uint64_t syndrome, uint64_t at, uint64_t address);
void machine_trap(uint64_t syndrome, uint64_t at, uint64_t address)
{
    console_print("trap %llx at %llx, address %llx\n", (unsigned long long)syndrome, (unsigned long long)at,
                  (unsigned long long)address);
    machine_exit(1);
}
