// start.S: from reset to main; coroutines, timer and the way out, which C has no words for. QEMU's `virt`, at EL1.

    .section .start, "ax"
    .global _start
_start:
    // Floating point and SIMD for EL1; traps go to `vectors`.
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0
    ldr     x0, =vectors
    msr     vbar_el1, x0
    // With the MMU off all memory is device memory, where what is not aligned traps: a flat map, with caches.
    ldr     x0, =0x04ff             // attributes: 0 = normal, write back; 1 = device
    msr     mair_el1, x0
    ldr     x0, =(32 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23) // 4 GB below TTBR0, pages of 4 KB, cached walks
    msr     tcr_el1, x0
    ldr     x0, =gigabytes
    msr     ttbr0_el1, x0
    tlbi    vmalle1
    dsb     sy
    isb
    mrs     x0, sctlr_el1
    orr     x0, x0, #(1 << 0)       // MMU
    orr     x0, x0, #(1 << 2)       // data cache
    orr     x0, x0, #(1 << 12)      // instruction cache
    msr     sctlr_el1, x0
    isb
    // Variables: those with a value come from flash, the others begin as zeros, the stack among them.
    ldr     x0, =data_start
    ldr     x1, =data_end
    ldr     x2, =data_in_flash
1:  cmp     x0, x1
    b.hs    2f
    ldr     x3, [x2], #8
    str     x3, [x0], #8
    b       1b
2:  ldr     x1, =zeros_end
3:  cmp     x0, x1
    b.hs    4f
    stp     xzr, xzr, [x0], #16
    b       3b
4:  ldr     x0, =main_stack_end
    mov     sp, x0
    ldr     x0, =thread_local_base  // <math.h> sets errno, which is a variable of a thread
    msr     tpidr_el0, x0
    bl      main
    b       machine_exit

// void machine_switch(void **from, void *to): what a call must keep lies on the stack that is left.
    .text
    .global machine_switch
machine_switch:
    sub     sp, sp, #160
    stp     x19, x20, [sp, #0]
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mov     x2, sp
    str     x2, [x0]
    mov     sp, x1
    ldp     x19, x20, [sp, #0]
    ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    ldp     d8, d9, [sp, #96]
    ldp     d10, d11, [sp, #112]
    ldp     d12, d13, [sp, #128]
    ldp     d14, d15, [sp, #144]
    add     sp, sp, #160
    ret

// A coroutine's first switch leads here: entry in x19, argument in x20.
    .global machine_enter
machine_enter:
    mov     x0, x20
    blr     x19
    b       coroutine_end

    .global machine_ticks
machine_ticks:
    isb
    mrs     x0, cntvct_el0
    ret

    .global machine_frequency
machine_frequency:
    mrs     x0, cntfrq_el0
    ret

// Semihosting: SYS_EXIT with ADP_Stopped_ApplicationExit and the status.
    .global machine_exit
machine_exit:
    sub     sp, sp, #16
    mov     x1, #0x26
    movk    x1, #2, lsl #16
    stp     x1, x0, [sp]
    mov     x1, sp
    mov     x0, #0x18
    hlt     #0xf000
    b       .

// Whatever is raised ends the program: nothing here is meant to trap, and no interrupt is enabled.
    .balign 2048
vectors:
    .rept   16
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    b       machine_trap
    .balign 128
    .endr

// What the workstation planned, opened where it lies.
    .section .rodata
    .global plan_image, plan_image_bytes
    .balign 64
plan_image:
    .incbin "plan.image"
    .balign 8
plan_image_bytes:
    .quad   . - plan_image

// The map: entries of a gigabyte, the first one cut into 2 MB: 128 MB of flash that cannot be written, then devices.
    .balign 4096
megabytes:
    .set    at, 0
    .rept   512
    .if     at < 0x08000000
    .quad   at | 0x781              // normal, read only
    .else
    .quad   at | 0x405 | 3 << 53    // device, never executed
    .endif
    .set    at, at + 0x200000
    .endr
    .balign 4096
gigabytes:
    .quad   megabytes + 3           // a table
    .quad   0x40000000 | 0x701 | 3 << 53 // RAM, never executed
    .quad   0, 0
