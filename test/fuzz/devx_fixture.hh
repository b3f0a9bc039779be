// SPDX-License-Identifier: BSD-3-Clause
// What the harness of firmware commands and its seeds share: the steps of an input, and words of a
// command that stand for something made before. Test code only; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "input_fixture.hh"

namespace kilim::fuzz {

// The low byte of a token is a place: of keys from 1 on, 0 is the protection domain.
inline constexpr uint32_t token = 0xfade0000, umem_token = 0xfade0100, number_token = 0xfade0200,
                          page_token = 0xfade0300;

enum class Ask : uint8_t {
  other,
  create,
  destroy,
  direct,
  walk,
  enter,  // memory as a umem
  leave,
  change,
  query,
  ring,
  unmap,
};
inline constexpr uint8_t asks = 11;
inline constexpr uint8_t by_other = 0x80;  // with Ask: the other client's step

// A step with a command.
inline Script& command(Script& s, Ask ask, std::span<const std::byte> bytes) {
  s.put(static_cast<uint8_t>(ask), static_cast<uint16_t>(bytes.size()));
  return s.bytes(bytes);
}

// Queues of every kind in memory, changed, rung and ended; `unmapped`: the memory goes before.
Script queues_seed(bool unmapped);
// One client names what the other made.
Script others_seed();
// What was made is asked.
Script questions_seed();

}  // namespace kilim::fuzz
