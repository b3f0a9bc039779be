// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy in line, for moves of a fixed shape on the way of every request: no call. Each
// move notes where it begins and ends and where it goes on after a fault in a table that the signal
// handler reads (dma_guard.cc). For .cc files of hca/ whose functions are not inline.
// Any thread that blocks neither SIGSEGV nor SIGBUS, after install(). The caller has checked that
// the addresses lie where client memory can lie (in_client_range). False: an address is not there;
// bytes before it may have been moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include <emmintrin.h>

// 661 and 662: begin and end of a guarded move, which the table's entry names.
// Opens with a nop: no jump may end at an instruction that touches memory (dma_x86.S).
#define KILIM_DMA_OPEN "661: nop\n\t"
// After a fault goes on at `where`. What a site does then stands in a section of its own: in the
// compiler's
// (.text.unlikely) it would lie in the middle of a cold function, which would run into it.
#define KILIM_DMA_CLOSE(where)                         \
  "662:\n\t"                                           \
  ".pushsection kilim_dma_sites, \"a\", @progbits\n\t" \
  ".balign 4\n\t"                                      \
  ".long 661b - ., 662b - ., " where                   \
  " - .\n\t"                                           \
  ".popsection\n\t"

namespace kilim::vhca::memory::dma {

// One entry of the table: distances from each field to what it names.
struct Site {
  int32_t begin, end, go_on;
};

// What matters of a WQE of three octowords (control, remote address, data), as it lies there, each
// word read once. First its control segment; where an address is not there `head` is 0, and the
// rest means nothing.
struct CtrlWords {
  uint64_t head;
  uint32_t flags;  // signature, stream, fm_ce_se
};
[[gnu::always_inline]] inline CtrlWords read_ctrl(uint64_t from) noexcept {
  // Variables, not members: the compiler keeps an asm's members in memory.
  uint64_t head;
  uint32_t flags;
  // After a fault (663) head becomes 0 and the program goes on behind the loads (664).
  asm volatile(KILIM_DMA_OPEN
               "movq (%[from]), %[head]\n\t"
               "movl 8(%[from]), %[flags]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: xorl %k[head], %k[head]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [head] "=&r"(head), [flags] "=&r"(flags)
               : [from] "r"(from)
               : "cc", "memory");
  return {head, flags};
}

// Then the two behind it. Where an address is not there `length_and_key` is 0: no bytes.
struct PlainWords {
  uint64_t remote, length_and_key, local;
  uint32_t remote_key;
};
[[gnu::always_inline]] inline PlainWords read_plain(uint64_t from) noexcept {
  uint64_t remote, length_and_key, local;
  uint32_t remote_key;
  asm volatile(KILIM_DMA_OPEN
               "movq 16(%[from]), %[remote]\n\t"
               "movl 24(%[from]), %[remote_key]\n\t"
               "movq 32(%[from]), %[length_and_key]\n\t"
               "movq 40(%[from]), %[local]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: xorl %k[length_and_key], %k[length_and_key]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [length_and_key] "=&r"(length_and_key), [local] "=&r"(local),
                 [remote] "=&r"(remote), [remote_key] "=&r"(remote_key)
               : [from] "r"(from)
               : "cc", "memory");
  return {remote, length_and_key, local, remote_key};
}

// Client to client, 32 to 64 bytes; the halves may overlap.
[[gnu::always_inline]] inline bool move_32_to_64(uint64_t to, uint64_t from,
                                                 std::size_t bytes) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu (%[from]), %%xmm0\n\t"
           "movdqu 16(%[from]), %%xmm1\n\t"
           "movdqu -32(%[from],%[n]), %%xmm2\n\t"
           "movdqu -16(%[from],%[n]), %%xmm3\n\t"
           "movdqu %%xmm0, (%[to])\n\t"
           "movdqu %%xmm1, 16(%[to])\n\t"
           "movdqu %%xmm2, -32(%[to],%[n])\n\t"
           "movdqu %%xmm3, -16(%[to],%[n])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [from] "r"(from), [n] "r"(bytes)
           : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
           : gone);
  return true;
gone:
  return false;
}

// Client to adapter: the 64 bytes of a basic block, 16 at a time.
[[gnu::always_inline]] inline bool load_64(void* to, uint64_t from) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu (%[from]), %%xmm0\n\t"
           "movdqu 16(%[from]), %%xmm1\n\t"
           "movdqu 32(%[from]), %%xmm2\n\t"
           "movdqu 48(%[from]), %%xmm3\n\t"
           "movdqu %%xmm0, (%[to])\n\t"
           "movdqu %%xmm1, 16(%[to])\n\t"
           "movdqu %%xmm2, 32(%[to])\n\t"
           "movdqu %%xmm3, 48(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [from] "r"(from)
           : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
           : gone);
  return true;
gone:
  return false;
}

// Client to adapter: an octoword.
[[gnu::always_inline]] inline bool load_16(void* to, uint64_t from) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu (%[from]), %%xmm0\n\t"
           "movdqu %%xmm0, (%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [from] "r"(from)
           : "xmm0", "memory"
           : gone);
  return true;
gone:
  return false;
}

// A data segment as it lies there. Where its address is not there both are 0: no bytes.
struct SegmentWords {
  uint64_t length_and_key, address;
};
[[gnu::always_inline]] inline SegmentWords read_segment(uint64_t from) noexcept {
  uint64_t length_and_key, address;
  asm volatile(KILIM_DMA_OPEN
               "movq (%[from]), %[length_and_key]\n\t"
               "movq 8(%[from]), %[address]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: xorl %k[length_and_key], %k[length_and_key]\n\t"
               "xorl %k[address], %k[address]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [length_and_key] "=&r"(length_and_key), [address] "=&r"(address)
               : [from] "r"(from)
               : "cc", "memory");
  return {length_and_key, address};
}

// What matters of a SEND on a raw packet queue (control, Ethernet and data segment), as it lies
// there, each word read once. Where an address is not there `head` is 0, and the rest means
// nothing.
struct FrameWqeWords {
  uint64_t head, length_and_key, local;
  uint32_t flags, inlined;  // signature, stream, fm_ce_se; inline_hdr_sz
  uint64_t ethernet;        // the first eight bytes of that segment
};
[[gnu::always_inline]] inline FrameWqeWords read_frame_wqe(uint64_t from) noexcept {
  uint64_t head, length_and_key, local, ethernet;
  uint32_t flags, inlined;
  asm volatile(KILIM_DMA_OPEN
               "movq (%[from]), %[head]\n\t"
               "movl 8(%[from]), %[flags]\n\t"
               "movq 16(%[from]), %[ethernet]\n\t"
               "movzwl 28(%[from]), %[inlined]\n\t"
               "movq 32(%[from]), %[length_and_key]\n\t"
               "movq 40(%[from]), %[local]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: xorl %k[head], %k[head]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [head] "=&r"(head), [flags] "=&r"(flags), [ethernet] "=&r"(ethernet),
                 [inlined] "=&r"(inlined), [length_and_key] "=&r"(length_and_key),
                 [local] "=&r"(local)
               : [from] "r"(from)
               : "cc", "memory");
  return {head, length_and_key, local, flags, inlined, ethernet};
}

// Adapter to client: an entry of 64 bytes, its first 56 from memory, `last` with one store after
// all others (as give_64()).
[[gnu::always_inline]] inline bool store_entry(uint64_t to, const void* from,
                                               uint64_t last) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu (%[from]), %%xmm0\n\t"
           "movdqu 16(%[from]), %%xmm1\n\t"
           "movdqu 32(%[from]), %%xmm2\n\t"
           "movq 48(%[from]), %%xmm3\n\t"
           "movdqu %%xmm0, (%[to])\n\t"
           "movdqu %%xmm1, 16(%[to])\n\t"
           "movdqu %%xmm2, 32(%[to])\n\t"
           "movq %%xmm3, 48(%[to])\n\t"
           "movq %[last], 56(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [from] "r"(from), [last] "r"(last)
           : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
           : gone);
  return true;
gone:
  return false;
}

// Adapter to client: an entry of 64 bytes, its last eight with one store after all others.
[[gnu::always_inline]] inline bool store_64(uint64_t to, const void* from) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu (%[from]), %%xmm0\n\t"
           "movdqu 16(%[from]), %%xmm1\n\t"
           "movdqu 32(%[from]), %%xmm2\n\t"
           "movq 48(%[from]), %%xmm3\n\t"
           "movq 56(%[from]), %%xmm4\n\t"
           "movdqu %%xmm0, (%[to])\n\t"
           "movdqu %%xmm1, 16(%[to])\n\t"
           "movdqu %%xmm2, 32(%[to])\n\t"
           "movq %%xmm3, 48(%[to])\n\t"
           "movq %%xmm4, 56(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [from] "r"(from)
           : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "memory"
           : gone);
  return true;
gone:
  return false;
}

// Adapter to client, 64 bytes: 32 zeros, `second`, `stamp`, and `last` with one store after all
// others.
[[gnu::always_inline]] inline bool give_64(uint64_t to, __m128i second, uint64_t stamp,
                                           uint64_t last) noexcept {
  // A CQE: its owner bit is in the last word, and x86 keeps the order of stores (Intel SDM, "Memory
  // Ordering"), so a client that sees the bit sees the rest.
  asm goto(KILIM_DMA_OPEN
           "movdqu %[zeros], (%[to])\n\t"
           "movdqu %[zeros], 16(%[to])\n\t"
           "movdqu %[second], 32(%[to])\n\t"
           "movq %[stamp], 48(%[to])\n\t"
           "movq %[last], 56(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [zeros] "x"(_mm_setzero_si128()), [second] "x"(second),
             [stamp] "r"(stamp), [last] "r"(last)
           : "memory"
           : gone);
  return true;
gone:
  return false;
}

}  // namespace kilim::vhca::memory::dma
