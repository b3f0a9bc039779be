// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy: the only way to client memory. Every call returns false where an address is not
// there or not allowed, instead of dying; bytes before the bad one may have been moved.
// Any thread that blocks neither SIGSEGV nor SIGBUS, after install(). Never allocates, never locks.
// Addresses are the client's word: any value, any length, wrapping ones too, is answered.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca::memory::dma {

namespace detail {
// Routines of dma_x86.S. False: a fault.
extern "C" {
bool kilim_dma_load1(void* out, uint64_t va) noexcept;
bool kilim_dma_load2(void* out, uint64_t va) noexcept;
bool kilim_dma_load4(void* out, uint64_t va) noexcept;
bool kilim_dma_load8(void* out, uint64_t va) noexcept;
bool kilim_dma_store1(uint64_t va, uint8_t value) noexcept;
bool kilim_dma_store2(uint64_t va, uint16_t value) noexcept;
bool kilim_dma_store4(uint64_t va, uint32_t value) noexcept;
bool kilim_dma_store8(uint64_t va, uint64_t value) noexcept;
bool kilim_dma_exchange8(uint64_t va, uint64_t value, void* old) noexcept;
bool kilim_dma_fetch_add8(uint64_t va, uint64_t value, void* old) noexcept;
bool kilim_dma_compare_exchange8(uint64_t va, uint64_t expected, uint64_t desired,
                                 void* old) noexcept;
bool kilim_dma_copy(uint64_t to, uint64_t from, std::size_t bytes) noexcept;
bool kilim_dma_copy_wide(uint64_t to, uint64_t from, std::size_t bytes) noexcept;
bool kilim_dma_copy_string(uint64_t to, uint64_t from, std::size_t bytes) noexcept;
}
// From how many bytes on the wide and the string routine are the fastest, measured; and whether
// this processor has them.
inline constexpr std::size_t wide_move_from = 256, string_move_from = 2048;
[[gnu::visibility("hidden")]] extern const bool wide_moves, fast_string_moves;
// The highest address a process of any paging depth can own: 5 levels give user space 2^56 bytes
// (the kernel's "5-level paging"). Behind it accesses raise a general protection fault, whose
// signal names no address.
inline constexpr uint64_t address_limit = uint64_t{1} << 56;
}  // namespace detail

// Whether [va, va + bytes) does not wrap and lies where client memory can lie at all.
constexpr bool in_client_range(Va va, uint64_t bytes) noexcept {
  return va.value() <= detail::address_limit && bytes <= detail::address_limit - va.value();
}

// One value as it lies in memory (no byte order applied). Aligned ones are atomic; a load is an
// acquire, a store a release.
template <std::unsigned_integral T>
[[nodiscard]] inline bool load(Va va, T& out) noexcept {
  if (!in_client_range(va, sizeof(T))) return false;
  if constexpr (sizeof(T) == 1) return detail::kilim_dma_load1(&out, va.value());
  if constexpr (sizeof(T) == 2) return detail::kilim_dma_load2(&out, va.value());
  if constexpr (sizeof(T) == 4) return detail::kilim_dma_load4(&out, va.value());
  if constexpr (sizeof(T) == 8) return detail::kilim_dma_load8(&out, va.value());
}
template <std::unsigned_integral T>
[[nodiscard]] inline bool store(Va va, T value) noexcept {
  if (!in_client_range(va, sizeof(T))) return false;
  if constexpr (sizeof(T) == 1) return detail::kilim_dma_store1(va.value(), value);
  if constexpr (sizeof(T) == 2) return detail::kilim_dma_store2(va.value(), value);
  if constexpr (sizeof(T) == 4) return detail::kilim_dma_store4(va.value(), value);
  if constexpr (sizeof(T) == 8) return detail::kilim_dma_store8(va.value(), value);
}

// Atomic to the client's own atomics. `va` is a multiple of 8, else false. `old`: what was there.
[[nodiscard]] bool exchange(Va va, uint64_t value, uint64_t& old) noexcept;
[[nodiscard]] bool fetch_add(Va va, uint64_t value, uint64_t& old) noexcept;
// Stores `desired` where `old` turns out to be `expected`.
[[nodiscard]] bool compare_exchange(Va va, uint64_t expected, uint64_t desired,
                                    uint64_t& old) noexcept;

// Client to device, device to client, client to client (not overlapping). No byte: true.
[[nodiscard]] bool copy_in(void* to, Va from, std::size_t bytes) noexcept;
[[nodiscard]] bool copy_out(Va to, const void* from, std::size_t bytes) noexcept;
[[nodiscard]] bool copy(Va to, Va from, std::size_t bytes) noexcept;
// Copies in line, for many pieces. Both ranges are known to lie where client memory can lie.
[[nodiscard]] inline bool copy_within(Va to, Va from, std::size_t bytes) noexcept {
  using namespace detail;
  if (bytes >= string_move_from && fast_string_moves)
    return kilim_dma_copy_string(to.value(), from.value(), bytes);
  if (bytes >= wide_move_from && wide_moves)
    return kilim_dma_copy_wide(to.value(), from.value(), bytes);
  return kilim_dma_copy(to.value(), from.value(), bytes);
}
// `equal` says whether the bytes are the same; false: a fault.
[[nodiscard]] bool compare(Va a, const void* b, std::size_t bytes, bool& equal) noexcept;

}  // namespace kilim::vhca::memory::dma
