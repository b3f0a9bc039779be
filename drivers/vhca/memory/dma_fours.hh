// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy in line (dma_inline.hh), four requests that are alike at a time: what must be
// equal is compared where it is read, and each word is read once.
// Any thread that blocks neither SIGSEGV nor SIGBUS, after install(). The caller has checked that
// the addresses lie where client memory can lie (in_client_range).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <emmintrin.h>

#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::memory::dma {

// Data segments as they lie there. `differs` is 0 where all have the length and key of the first,
// and every address was there; else nothing else means anything.
struct FourSegments {
  uint64_t length_and_key, differs;
  std::array<uint64_t, 4> address;
};
// Reads four segments that lie one behind the other.
[[gnu::always_inline]] inline FourSegments read_four_segments(uint64_t from) noexcept {
  // Variables, not members: the compiler keeps an asm's members in memory.
  uint64_t first, differs, other, a, b, c, d;
  asm volatile(KILIM_DMA_OPEN
               "movq (%[from]), %[first]\n\t"
               "movq 8(%[from]), %[a]\n\t"
               "movq 16(%[from]), %[differs]\n\t"
               "movq 24(%[from]), %[b]\n\t"
               "movq 32(%[from]), %[other]\n\t"
               "movq 40(%[from]), %[c]\n\t"
               "xorq %[first], %[differs]\n\t"
               "xorq %[first], %[other]\n\t"
               "orq %[other], %[differs]\n\t"
               "movq 48(%[from]), %[other]\n\t"
               "movq 56(%[from]), %[d]\n\t"
               "xorq %[first], %[other]\n\t"
               "orq %[other], %[differs]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: movl $1, %k[differs]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [first] "=&r"(first), [differs] "=&r"(differs), [other] "=&r"(other),
                 [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
               : [from] "r"(from)
               : "cc", "memory");
  return {first, differs, {a, b, c, d}};
}

// Four SENDs of a raw packet queue (control, Ethernet and data segment) in four basic blocks.
struct FourFrameWqes {
  __m128i first_three;  // bits in which a control segment of these is not `heads`
  __m128i last;         // of the fourth
  __m128i ethernet;     // bits that are set in any Ethernet segment
  uint32_t last_flags;  // signature, stream, fm_ce_se of the fourth
  FourSegments data;
};
// `heads`: the control segment of the first, and then of the one behind the four; `next`: what that
// of the next one has more.
[[gnu::always_inline]] inline FourFrameWqes read_four_frame_wqes(uint64_t from, __m128i& heads,
                                                                 __m128i next) noexcept {
  __m128i first_three, last, ethernet, word;
  uint64_t first, differs, other, a, b, c, d;
  asm volatile(KILIM_DMA_OPEN
               "movdqu (%[from]), %[first_three]\n\t"
               "pxor %[heads], %[first_three]\n\t"
               "paddd %[next], %[heads]\n\t"
               "movdqu 64(%[from]), %[word]\n\t"
               "pxor %[heads], %[word]\n\t"
               "paddd %[next], %[heads]\n\t"
               "por %[word], %[first_three]\n\t"
               "movdqu 128(%[from]), %[word]\n\t"
               "pxor %[heads], %[word]\n\t"
               "paddd %[next], %[heads]\n\t"
               "por %[word], %[first_three]\n\t"
               "movdqu 192(%[from]), %[last]\n\t"
               "movdqu 16(%[from]), %[ethernet]\n\t"
               "movdqu 80(%[from]), %[word]\n\t"
               "por %[word], %[ethernet]\n\t"
               "movdqu 144(%[from]), %[word]\n\t"
               "por %[word], %[ethernet]\n\t"
               "movdqu 208(%[from]), %[word]\n\t"
               "por %[word], %[ethernet]\n\t"
               "movq 32(%[from]), %[first]\n\t"
               "movq 40(%[from]), %[a]\n\t"
               "movq 96(%[from]), %[differs]\n\t"
               "movq 104(%[from]), %[b]\n\t"
               "movq 160(%[from]), %[other]\n\t"
               "movq 168(%[from]), %[c]\n\t"
               "xorq %[first], %[differs]\n\t"
               "xorq %[first], %[other]\n\t"
               "orq %[other], %[differs]\n\t"
               "movq 224(%[from]), %[other]\n\t"
               "movq 232(%[from]), %[d]\n\t"
               "xorq %[first], %[other]\n\t"
               "orq %[other], %[differs]\n\t" KILIM_DMA_CLOSE("663f")
               "664:\n\t"
               ".pushsection .text.kilim_dma_fixup, \"ax\", @progbits\n\t"
               "663: movl $1, %k[differs]\n\t"
               "jmp 664b\n\t"
               ".popsection\n\t"
               : [heads] "+&x"(heads), [first_three] "=&x"(first_three), [last] "=&x"(last),
                 [ethernet] "=&x"(ethernet), [word] "=&x"(word), [first] "=&r"(first),
                 [differs] "=&r"(differs), [other] "=&r"(other), [a] "=&r"(a), [b] "=&r"(b),
                 [c] "=&r"(c), [d] "=&r"(d)
               : [from] "r"(from), [next] "x"(next)
               : "cc", "memory");
  const auto flags = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_srli_si128(last, 8)));
  last = _mm_xor_si128(last, heads);
  heads = _mm_add_epi32(heads, next);
  return {first_three, last, ethernet, flags, {first, differs, {a, b, c, d}}};
}

// Adapter to client: an entry of 64 bytes that lies in registers, `last` with one store after all
// others (as give_64()). False: an address is not there.
struct Entry {
  __m128i first, second, third;
  uint64_t seventh;
};
[[gnu::always_inline]] inline bool give_entry(uint64_t to, const Entry& e, uint64_t last) noexcept {
  asm goto(KILIM_DMA_OPEN
           "movdqu %[first], (%[to])\n\t"
           "movdqu %[second], 16(%[to])\n\t"
           "movdqu %[third], 32(%[to])\n\t"
           "movq %[seventh], 48(%[to])\n\t"
           "movq %[last], 56(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
           :
           : [to] "r"(to), [first] "x"(e.first), [second] "x"(e.second), [third] "x"(e.third),
             [seventh] "r"(e.seventh), [last] "r"(last)
           : "memory"
           : gone);
  return true;
gone:
  return false;
}

// The entry of a frame that was hashed: `second` and `third` lie in bytes 16 to 47, the hash behind
// twelve zeros in front of them.
struct HashedEntry {
  __m128i second, third;
  uint64_t seventh;
  uint32_t hash;  // as it lies there
};
[[gnu::always_inline]] inline bool give_hashed_entry(uint64_t to, const HashedEntry& e,
                                                     uint64_t last) noexcept {
  asm goto(
      KILIM_DMA_OPEN
      "movdqu %[zeros], (%[to])\n\t"
      "movl %[hash], 12(%[to])\n\t"
      "movdqu %[second], 16(%[to])\n\t"
      "movdqu %[third], 32(%[to])\n\t"
      "movq %[seventh], 48(%[to])\n\t"
      "movq %[last], 56(%[to])\n\t" KILIM_DMA_CLOSE("%l[gone]")
      :
      : [to] "r"(to), [zeros] "x"(_mm_setzero_si128()), [hash] "r"(e.hash), [second] "x"(e.second),
        [third] "x"(e.third), [seventh] "r"(e.seventh), [last] "r"(last)
      : "memory"
      : gone);
  return true;
gone:
  return false;
}

}  // namespace kilim::vhca::memory::dma
