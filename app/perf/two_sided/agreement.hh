// SPDX-License-Identifier: BSD-3-Clause
// The parameters that both sides of a test share: the work, sizes, queues, and the division of the
// memory into slots. Plain values, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kilim/detail/base/units.hh"

namespace kilim::perf {

enum class Work : uint8_t { write = 1, read, send, atomic, umr };

inline constexpr uint32_t most_queues = 64;
inline constexpr uint32_t most_bytes = 1u << 23;
inline constexpr uint32_t most_depth = 4096;
inline constexpr uint32_t atomic_bytes = 8;
inline constexpr uint64_t most_memory = uint64_t{256} << 20;  // of all slots

struct Agreement {
  Work work = Work::write;
  bool check = false;  // every byte that arrives is checked
  uint16_t queues = 1;
  uint32_t depth = 1;  // messages under way in a queue
  uint32_t low = 1;    // bytes of a message, doubled from round to round
  uint32_t high = 1;

  bool operator==(const Agreement&) const = default;
};

// Message n of a queue lies in its slot n modulo `count`. Without a check all messages use one
// slot, which stays in the processor's cache.
struct Slots {
  uint32_t stride = 0;
  uint32_t count = 1;
  uint64_t per_queue = 0;  // bytes

  [[nodiscard]] constexpr uint64_t at(uint32_t queue, uint64_t message) const noexcept {
    return queue * per_queue + message % count * stride;
  }
};

constexpr Slots slots_of(const Agreement& a) noexcept {
  constexpr uint32_t some_memory = 1u << 26;
  Slots s{.stride = round_up(a.high, 64)};
  if (!a.check) return s;
  s.count = std::clamp(some_memory / a.queues / s.stride, 1u, a.depth);
  s.per_queue = uint64_t{s.count} * s.stride;
  return s;
}
constexpr uint64_t bytes_of(const Agreement& a) noexcept {
  const Slots s = slots_of(a);
  return s.per_queue == 0 ? s.stride : s.per_queue * a.queues;
}

// A sentence that says what is wrong; null: the agreement is valid.
constexpr const char* why_not(const Agreement& a) noexcept {
  if (a.work < Work::write || a.work > Work::umr) return "there is no such test";
  if (a.queues == 0 || a.queues > most_queues) return "a test has 1 to 64 queues";
  if (a.depth == 0 || a.depth > most_depth) return "1 to 4096 messages may be under way";
  if (a.low == 0 || a.low > a.high || a.high > most_bytes)
    return "a message has 1 to 8388608 bytes";
  if (a.work == Work::atomic && (a.low != atomic_bytes || a.high != atomic_bytes))
    return "an atomic has 8 bytes";
  if (bytes_of(a) > most_memory) return "with --check so many queues need more than 256 MiB";
  return nullptr;
}

}  // namespace kilim::perf
