/* fiber.cpp - stacks for CUDA threads, and a hand-written switch (a system call a switch, as swapcontext makes, would
 * be ten times slower). Relies on the calling conventions of x86-64 and AArch64. Must never call an intercepted
 * function between saving one stack and being on the other. */
#include "fiber.h"
#include "engine.h"

#include <atomic>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(low, high) 0
#endif

#if defined(__x86_64__)
__asm__(".text\n.globl cuda_cpu_switch\n.type cuda_cpu_switch,@function\ncuda_cpu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size cuda_cpu_switch,.-cuda_cpu_switch\n");
enum { FRAME_WORDS = 8, FRAME_RETURN = 6 };
#elif defined(__aarch64__)
__asm__(".text\n.globl cuda_cpu_switch\n.type cuda_cpu_switch,%function\ncuda_cpu_switch:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x2,sp\nstr x2,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n"
        ".size cuda_cpu_switch,.-cuda_cpu_switch\n");
enum { FRAME_WORDS = 20, FRAME_RETURN = 11 };
#else
#error "cuda_cpu: write a stack switch for this processor"
#endif
__asm__(".section .note.GNU-stack,\"\",%progbits\n.text\n");

namespace cuda_cpu {

static size_t stack_bytes()
{
    static const size_t bytes = static_cast<size_t>(environment("CUDA_CPU_STACK_KIB", address_sanitizer ? 256 : 64))
                                * 1024;
    return bytes;
}

/* Tops at one offset in their page would all compete for the same sets of the cache. */
static size_t stack_colour()
{
    static std::atomic<unsigned> colour{0};
    return colour.fetch_add(1, std::memory_order_relaxed) * 576u % 16384u / 64u * 64u;
}

Stack *stack_make()
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = stack_bytes();
    char *at = static_cast<char *>(mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (at == MAP_FAILED)
        die("no memory for another thread's stack");
    mprotect(at, page, PROT_NONE);
    /* At its own top, and not from the allocator: any thread may be made to give up its turn to a new one. */
    Stack *stack = reinterpret_cast<Stack *>(at + page + bytes - (sizeof(Stack) + 63) / 64 * 64);
    stack->low = at + page;
    stack->mapped = bytes + page;
    stack->size = static_cast<size_t>(reinterpret_cast<char *>(stack) - stack->low) - stack_colour();
    stack->next = nullptr;
    (void)VALGRIND_STACK_REGISTER(stack->low, stack->low + bytes);
    return stack;
}

void stack_destroy(Stack *stack)
{
    munmap(stack->low - (stack->mapped - stack_bytes()), stack->mapped);
}

void stack_prime(Stack *stack, void (*entry)())
{
    void **frame = reinterpret_cast<void **>(stack->low + stack->size) - FRAME_WORDS;
    for (int i = 0; i < FRAME_WORDS; i++)
        frame[i] = nullptr;
    frame[FRAME_RETURN] = reinterpret_cast<void *>(entry);
    stack->top = frame;
}

} // namespace cuda_cpu
