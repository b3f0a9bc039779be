// SPDX-License-Identifier: BSD-3-Clause
// What mlx5_ib remembers of an object that a firmware command made: its number, and the command
// that ends it. Adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/uverbs/objects.hh"

namespace kilim::vhca::uverbs {

// A word of 32 bits; 0 beyond the end.
uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) noexcept;

// `in` is a command that was carried out, of those that make objects, and `out` its answer.
void remember_made(DevxObject&, std::span<const std::byte> in, std::span<const std::byte> out);

// The command that makes what this one asks or changes; 0: it does neither.
uint16_t creator_for(uint16_t opcode);

}  // namespace kilim::vhca::uverbs
