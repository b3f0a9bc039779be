// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy: range checks in front of the routines of dma_x86.S.
// Any thread. Never plain memcpy on client memory: a sanitizer's lies outside the guarded routines.
#include "vhca/memory/dma.hh"

#include <cstring>

#include <cpuid.h>

namespace kilim::vhca::memory::dma {

namespace {

// CPUID leaf 7: "enhanced REP MOVSB/STOSB" is bit 9 of EBX (Intel SDM, "CPUID").
bool has_fast_string_moves() noexcept {
  constexpr unsigned erms = 1u << 9;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & erms) != 0;
}

// IBTA: the address of an atomic is a multiple of 8. One that crosses a cache line would also lock
// the bus of the whole machine.
bool atomic_possible(Va va) noexcept {
  return va.value() % 8 == 0 && in_client_range(va, 8);
}

}  // namespace

namespace detail {
const bool wide_moves = __builtin_cpu_supports("avx") != 0;
const bool fast_string_moves = has_fast_string_moves();
}  // namespace detail

bool exchange(Va va, uint64_t value, uint64_t& old) noexcept {
  return atomic_possible(va) && detail::kilim_dma_exchange8(va.value(), value, &old);
}

bool fetch_add(Va va, uint64_t value, uint64_t& old) noexcept {
  return atomic_possible(va) && detail::kilim_dma_fetch_add8(va.value(), value, &old);
}

bool compare_exchange(Va va, uint64_t expected, uint64_t desired, uint64_t& old) noexcept {
  return atomic_possible(va) &&
         detail::kilim_dma_compare_exchange8(va.value(), expected, desired, &old);
}

// Only the client's side is checked: ours is known to be good.
bool copy_in(void* to, Va from, std::size_t bytes) noexcept {
  return in_client_range(from, bytes) &&
         copy_within(Va{reinterpret_cast<uint64_t>(to)}, from, bytes);
}

bool copy_out(Va to, const void* from, std::size_t bytes) noexcept {
  return in_client_range(to, bytes) && copy_within(to, Va{reinterpret_cast<uint64_t>(from)}, bytes);
}

bool copy(Va to, Va from, std::size_t bytes) noexcept {
  return in_client_range(to, bytes) && in_client_range(from, bytes) && copy_within(to, from, bytes);
}

bool compare(Va a, const void* b, std::size_t bytes, bool& equal) noexcept {
  const auto* mine = static_cast<const std::byte*>(b);
  equal = true;
  std::byte piece[256];  // memcmp() may not touch client memory: a copy is compared
  for (std::size_t done = 0; done < bytes;) {
    std::size_t n = bytes - done < sizeof(piece) ? bytes - done : sizeof(piece);
    if (!copy_in(piece, Va{a.value() + done}, n)) return false;
    equal = equal && std::memcmp(piece, mine + done, n) == 0;
    done += n;
  }
  return true;
}

}  // namespace kilim::vhca::memory::dma
