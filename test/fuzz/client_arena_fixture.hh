// SPDX-License-Identifier: BSD-3-Clause
// Client memory whose addresses an input may name: one range at a fixed place. Every other address
// in an input is led to where no memory can be, so that a request never reaches the harness's own.
// Owner: the process, made on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kilim::fuzz {

inline constexpr uint64_t arena_at = 0x20000000, arena_bytes = 0x40000;
inline constexpr uint64_t arena_rings = arena_at + 0x10000;  // requests lie before

// Zeroed, and mapped again where the input had unmapped it.
void reset_arena();
// Takes pages of the rings away, until the next input; the bits name pages.
void unmap_rings(uint8_t pages);
// Into the rings, as far as they are there.
void write_rings(std::size_t at, std::span<const std::byte> bytes);
// A value that a request carries: itself, unless it could be an address of something else here.
uint64_t fenced(uint64_t value) noexcept;
void fence(std::span<std::byte> bytes) noexcept;
// Puts bytes into the arena; null: no more room.
std::byte* place(std::span<const std::byte> bytes) noexcept;
// Room for `bytes`, zero.
std::byte* place(std::size_t bytes) noexcept;

}  // namespace kilim::fuzz
