/* fiber.h - stacks and the switch between them. See fiber.cpp. */
#ifndef CUDA_CPU_FIBER_H
#define CUDA_CPU_FIBER_H

#include <stddef.h>

namespace cuda_cpu {

struct Stack {
    void *top;  /* where it was left */
    char *low;  /* the lowest usable byte; a page that faults lies below */
    size_t size, mapped;
    Stack *next;
};

Stack *stack_make();
void stack_destroy(Stack *stack);
/* The next switch to it enters `entry`, which must not return. */
void stack_prime(Stack *stack, void (*entry)());

} // namespace cuda_cpu

extern "C" void cuda_cpu_switch(void **save, void *to);

#endif
