// SPDX-License-Identifier: BSD-3-Clause
// Mode noisy: a neighbour that uses memory: packets may wait in a row before they go, and each one
// costs reads and writes at random places of a piece of memory (--noisy-...).
#include <rte_cycles.h>
#include <rte_random.h>

#include "forward.hh"

namespace kilim::testpmd {
namespace {

constexpr std::size_t line = 64;

void use_memory(Stream& s, uint32_t packets) noexcept {
  const ModeOptions& m = *s.modes;
  if (s.noise.empty()) return;
  const std::size_t lines = s.noise.size() / line;
  auto place = [&]() -> volatile uint8_t& {
    return s.noise[rte_rand() % lines * line];
  };
  uint8_t sum = 0;
  for (uint32_t i = 0; i < packets; i++) {
    for (uint32_t n = 0; n < m.noisy_writes + m.noisy_both; n++) place() = 1;
    for (uint32_t n = 0; n < m.noisy_reads + m.noisy_both; n++)
      sum = static_cast<uint8_t>(sum + place());
  }
}

// Sends from the front of the row.
void send_front(Stream& s, std::size_t n) noexcept {
  send_or_drop(s, std::span<const pool::Handle>(s.fifo).first(n));
  s.fifo.erase(s.fifo.begin(), s.fifo.begin() + static_cast<std::ptrdiff_t>(n));
}

bool flush_is_due(Stream& s) noexcept {
  if (s.draining) return true;
  if (s.modes->noisy_flush_ms == 0) return false;
  const uint64_t now = rte_get_timer_cycles();
  if (now - s.fifo_since < rte_get_timer_hz() / 1000 * s.modes->noisy_flush_ms) return false;
  s.fifo_since = now;
  return true;
}

uint32_t flush(Stream& s) noexcept {
  if (s.fifo.empty() || !flush_is_due(s)) return 0;
  const std::size_t n = std::min<std::size_t>(s.fifo.size(), std::min(tx_room(s), s.burst));
  if (n == 0) {
    reclaim(s);
    return 1;
  }
  send_front(s, n);
  return static_cast<uint32_t>(n);
}

// Works like testpmd's: the queue holds its size, and what comes pushes as many out of it at the
// front. The row was made with room for a burst more: a burst allocates nothing.
uint32_t run_noisy(Stream& s) noexcept {
  const uint32_t buffer = s.modes == nullptr || s.pieces > 1 ? 0 : s.modes->noisy_buffer;
  if (buffer == 0)
    return forward(s, [&s](std::span<std::byte>) noexcept {
      if (s.modes != nullptr) use_memory(s, 1);
    });
  const uint32_t limit = s.draining ? 0 : sendable(s);
  const uint32_t n = limit == 0 ? 0 : receive(s, std::span(s.packets).first(limit));
  if (n == 0) {
    reclaim(s);
    return flush(s);
  }
  use_memory(s, n);
  s.fifo.insert(s.fifo.end(), s.packets.begin(), s.packets.begin() + n);
  if (s.fifo.size() > buffer) send_front(s, s.fifo.size() - buffer);
  return n;
}

}  // namespace

const Engine noisy_engine{"noisy", "packets wait, and memory is read and written meanwhile",
                          true,    true,
                          false,   run_noisy};

}  // namespace kilim::testpmd
