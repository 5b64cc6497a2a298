/* The switch for aarch64, AAPCS64 calling convention. */
#include "fiber/switch.h"

#if defined(__aarch64__) && !defined(FIBER_UCONTEXT)

/* The saved frame is x19 to x30 and d8 to d15, 160 bytes. On a fiber's stack the return address is
   marked undefined, so that unwinding ends there; x29 is cleared for tools that follow frame
   pointers. hint #34 is "bti c", a no-op on CPUs without it. */
#define SAVE                                                                                       \
    "    sub sp, sp, #160\n    .cfi_adjust_cfa_offset 160\n"                                       \
    "    stp x19, x20, [sp, #0]\n"                                                                 \
    "    stp x21, x22, [sp, #16]\n"                                                                \
    "    stp x23, x24, [sp, #32]\n"                                                                \
    "    stp x25, x26, [sp, #48]\n"                                                                \
    "    stp x27, x28, [sp, #64]\n"                                                                \
    "    stp x29, x30, [sp, #80]\n    .cfi_rel_offset x29, 80\n    .cfi_rel_offset x30, 88\n"      \
    "    stp d8, d9, [sp, #96]\n"                                                                  \
    "    stp d10, d11, [sp, #112]\n"                                                               \
    "    stp d12, d13, [sp, #128]\n"                                                               \
    "    stp d14, d15, [sp, #144]\n"                                                               \
    "    mov x9, sp\n"                                                                             \
    "    str x9, [x0]\n"

#define RESTORE                                                                                    \
    "    ldp x19, x20, [sp, #0]\n"                                                                 \
    "    ldp x21, x22, [sp, #16]\n"                                                                \
    "    ldp x23, x24, [sp, #32]\n"                                                                \
    "    ldp x25, x26, [sp, #48]\n"                                                                \
    "    ldp x27, x28, [sp, #64]\n"                                                                \
    "    ldp x29, x30, [sp, #80]\n    .cfi_restore x29\n    .cfi_restore x30\n"                    \
    "    ldp d8, d9, [sp, #96]\n"                                                                  \
    "    ldp d10, d11, [sp, #112]\n"                                                               \
    "    ldp d12, d13, [sp, #128]\n"                                                               \
    "    ldp d14, d15, [sp, #144]\n"                                                               \
    "    add sp, sp, #160\n    .cfi_adjust_cfa_offset -160\n"                                      \
    "    ret\n"

#define FUNCTION(name)                                                                             \
    ".p2align 4\n"                                                                                 \
    ".globl " name "\n"                                                                            \
    ".hidden " name "\n"                                                                           \
    ".type " name ", %function\n" name ":\n"                                                       \
    "    .cfi_startproc\n"                                                                         \
    "    hint #34\n"

#define END(name)                                                                                  \
    "    .cfi_endproc\n"                                                                           \
    ".size " name ", . - " name "\n"

__asm__(
    ".text\n"
    /* x0 save, x1 top, x2 run, x3 arg */
    FUNCTION("fiber_switch_start") SAVE "    .cfi_remember_state\n"
                                        "    mov sp, x1\n"
                                        "    .cfi_def_cfa sp, 0\n"
                                        "    .cfi_undefined x30\n"
                                        "    mov x29, xzr\n"
                                        "    mov x30, xzr\n"
                                        "    mov x0, x3\n"
                                        "    blr x2\n"
                                        "    bl fiber_finish\n"
                                        "    mov sp, x0\n"
                                        "    .cfi_restore_state\n"
                                        "    mov w0, #1\n" RESTORE END("fiber_switch_start")

    /* x0 save, x1 target */
    FUNCTION("fiber_switch_to") SAVE "    mov sp, x1\n"
                                     "    mov w0, #0\n" RESTORE END("fiber_switch_to")

    /* x0 target, x1 fn, x2 arg */
    FUNCTION(
        "fiber_switch_call") "    stp x29, x30, [sp, #-16]!\n"
                             "    .cfi_def_cfa_offset 16\n    .cfi_offset x29, -16\n    .cfi_offset x30, -8\n"
                             "    mov x29, sp\n    .cfi_def_cfa_register x29\n"
                             "    mov sp, x0\n"
                             "    mov x0, x2\n"
                             "    blr x1\n"
                             "    mov sp, x29\n    .cfi_def_cfa_register sp\n"
                             "    ldp x29, x30, [sp], #16\n"
                             "    .cfi_def_cfa_offset 0\n    .cfi_restore x29\n    .cfi_restore x30\n"
                             "    ret\n" END("fiber_switch_call"));

#endif
