// SPDX-License-Identifier: BSD-3-Clause
// The instructions that touch client memory (dma.hh). Between kilim_dma_begin and kilim_dma_end no
// routine moves the stack pointer or a preserved register, so a fault may go on at kilim_dma_fault,
// which returns false. rdi, rsi, rdx are the arguments; eax is 1 where all bytes were moved.
// No jump ends at an instruction that touches memory: valgrind's saved instruction pointer is one
// jump late there. Hence the nops.

        .text
        .p2align 6

// A nop opens each routine: a call ends there, see above.
        .macro routine name
        .p2align 5
        .globl \name
        .hidden \name
        .type \name, @function
\name:
        nop
        .endm

// All bytes were moved.
        .macro done name
        mov     $1, %eax
        ret
        .size \name, . - \name
        .endm

        .globl kilim_dma_begin
        .hidden kilim_dma_begin
kilim_dma_begin:

// kilim_dma_loadN(void* out, address)
        routine kilim_dma_load1
        mov     (%rsi), %al
        mov     %al, (%rdi)
        done kilim_dma_load1

        routine kilim_dma_load2
        mov     (%rsi), %ax
        mov     %ax, (%rdi)
        done kilim_dma_load2

        routine kilim_dma_load4
        mov     (%rsi), %eax
        mov     %eax, (%rdi)
        done kilim_dma_load4

        routine kilim_dma_load8
        mov     (%rsi), %rax
        mov     %rax, (%rdi)
        done kilim_dma_load8

// kilim_dma_storeN(address, value)
        routine kilim_dma_store1
        mov     %sil, (%rdi)
        done kilim_dma_store1

        routine kilim_dma_store2
        mov     %si, (%rdi)
        done kilim_dma_store2

        routine kilim_dma_store4
        mov     %esi, (%rdi)
        done kilim_dma_store4

        routine kilim_dma_store8
        mov     %rsi, (%rdi)
        done kilim_dma_store8

// kilim_dma_X(address, operand, void* old): old receives what was there before.
        routine kilim_dma_exchange8
        xchg    %rsi, (%rdi)
        mov     %rsi, (%rdx)
        done kilim_dma_exchange8

        routine kilim_dma_fetch_add8
        lock xadd %rsi, (%rdi)
        mov     %rsi, (%rdx)
        done kilim_dma_fetch_add8

// kilim_dma_compare_exchange8(address, expected, desired, void* old)
        routine kilim_dma_compare_exchange8
        mov     %rsi, %rax
        lock cmpxchg %rdx, (%rdi)
        mov     %rax, (%rcx)
        done kilim_dma_compare_exchange8

// kilim_dma_copy(to, from, bytes): head and tail may overlap, so every length takes few moves.
        routine kilim_dma_copy
        cmp     $16, %rdx
        jb      2f
        cmp     $32, %rdx
        ja      3f
        movdqu  (%rsi), %xmm0
        movdqu  -16(%rsi,%rdx), %xmm1
        movdqu  %xmm0, (%rdi)
        movdqu  %xmm1, -16(%rdi,%rdx)
        mov     $1, %eax
        ret
2:      cmp     $8, %edx
        jae     6f
        cmp     $4, %edx
        jae     7f
        cmp     $1, %edx
        jb      9f
        je      8f
        movzwl  (%rsi), %eax
        movzwl  -2(%rsi,%rdx), %ecx
        mov     %ax, (%rdi)
        mov     %cx, -2(%rdi,%rdx)
        mov     $1, %eax
        ret
6:      nop
        mov     (%rsi), %rax
        mov     -8(%rsi,%rdx), %rcx
        mov     %rax, (%rdi)
        mov     %rcx, -8(%rdi,%rdx)
        mov     $1, %eax
        ret
7:      nop
        mov     (%rsi), %eax
        mov     -4(%rsi,%rdx), %ecx
        mov     %eax, (%rdi)
        mov     %ecx, -4(%rdi,%rdx)
        mov     $1, %eax
        ret
8:      nop
        movzbl  (%rsi), %eax
        mov     %al, (%rdi)
9:      mov     $1, %eax
        ret
3:      cmp     $64, %rdx
        ja      4f
        movdqu  (%rsi), %xmm0
        movdqu  16(%rsi), %xmm1
        movdqu  -32(%rsi,%rdx), %xmm2
        movdqu  -16(%rsi,%rdx), %xmm3
        movdqu  %xmm0, (%rdi)
        movdqu  %xmm1, 16(%rdi)
        movdqu  %xmm2, -32(%rdi,%rdx)
        movdqu  %xmm3, -16(%rdi,%rdx)
        mov     $1, %eax
        ret
4:      nop
        movdqu  -64(%rsi,%rdx), %xmm4
        movdqu  -48(%rsi,%rdx), %xmm5
        movdqu  -32(%rsi,%rdx), %xmm6
        movdqu  -16(%rsi,%rdx), %xmm7
        lea     -64(%rdi,%rdx), %r8     // the last 64 bytes, which are in registers already
5:      nop
        movdqu  (%rsi), %xmm0
        movdqu  16(%rsi), %xmm1
        movdqu  32(%rsi), %xmm2
        movdqu  48(%rsi), %xmm3
        movdqu  %xmm0, (%rdi)
        movdqu  %xmm1, 16(%rdi)
        movdqu  %xmm2, 32(%rdi)
        movdqu  %xmm3, 48(%rdi)
        add     $64, %rsi
        add     $64, %rdi
        cmp     %r8, %rdi
        jb      5b
        movdqu  %xmm4, (%r8)
        movdqu  %xmm5, 16(%r8)
        movdqu  %xmm6, 32(%r8)
        movdqu  %xmm7, 48(%r8)
        done kilim_dma_copy

// kilim_dma_copy_wide(to, from, bytes): 128 bytes and more, on processors with AVX.
        routine kilim_dma_copy_wide
        vmovdqu -128(%rsi,%rdx), %ymm4
        vmovdqu -96(%rsi,%rdx), %ymm5
        vmovdqu -64(%rsi,%rdx), %ymm6
        vmovdqu -32(%rsi,%rdx), %ymm7
        lea     -128(%rdi,%rdx), %r8    // the last 128 bytes, which are in registers already
1:      nop
        vmovdqu (%rsi), %ymm0
        vmovdqu 32(%rsi), %ymm1
        vmovdqu 64(%rsi), %ymm2
        vmovdqu 96(%rsi), %ymm3
        vmovdqu %ymm0, (%rdi)
        vmovdqu %ymm1, 32(%rdi)
        vmovdqu %ymm2, 64(%rdi)
        vmovdqu %ymm3, 96(%rdi)
        add     $128, %rsi
        add     $128, %rdi
        cmp     %r8, %rdi
        jb      1b
        vmovdqu %ymm4, (%r8)
        vmovdqu %ymm5, 32(%r8)
        vmovdqu %ymm6, 64(%r8)
        vmovdqu %ymm7, 96(%r8)
        vzeroupper                      // else SSE instructions of the caller become slow
        done kilim_dma_copy_wide

// kilim_dma_copy_string(to, from, bytes): for long copies on processors with fast string moves.
        routine kilim_dma_copy_string
        movdqu  (%rsi), %xmm0
        movdqu  16(%rsi), %xmm1
        movdqu  32(%rsi), %xmm2
        movdqu  48(%rsi), %xmm3
        movdqu  %xmm0, (%rdi)
        movdqu  %xmm1, 16(%rdi)
        movdqu  %xmm2, 32(%rdi)
        movdqu  %xmm3, 48(%rdi)
        // The string move begins at the next cache line of the target, where it is fastest; what
        // lies before has been moved.
        mov     %rdi, %rcx
        neg     %rcx
        and     $63, %rcx
        add     %rcx, %rdi
        add     %rcx, %rsi
        sub     %rcx, %rdx
        mov     %rdx, %rcx
        rep movsb
        done kilim_dma_copy_string

        .globl kilim_dma_end
        .hidden kilim_dma_end
kilim_dma_end:

        routine kilim_dma_fault
        xor     %eax, %eax
        ret
        .size kilim_dma_fault, . - kilim_dma_fault

// Where the kernel returns from a signal handler: these very bytes are what debuggers and unwinders
// know.
        .p2align 4
        nop
        routine kilim_dma_restorer
        mov     $15, %rax               // rt_sigreturn
        syscall
        .size kilim_dma_restorer, . - kilim_dma_restorer

        .section .note.GNU-stack, "", @progbits
