/* machine.h: what the processor and the board do that C cannot say (start.S), and the console.
 * Owns: UART, timer, the way out. Relies on: QEMU's `virt` board, semihosting. Must never: be called by the library
 * but through its platform table. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

/* Saves registers and the stack pointer, and goes on where `to` was saved. The registers that a call may change are not
 * among them: a compiler saves those. */
void machine_switch(void **from, void *to);
/* Where a coroutine begins: calls the function in x19 with x20, then coroutine_end. */
void machine_enter(void);

uint64_t machine_ticks(void);     /* of the generic timer */
uint64_t machine_frequency(void); /* ticks a second */
_Noreturn void machine_exit(int status);

void console_put(char c);
__attribute__((format(printf, 1, 2))) void console_print(const char *format, ...);

#endif
