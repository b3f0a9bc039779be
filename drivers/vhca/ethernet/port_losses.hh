// SPDX-License-Identifier: BSD-3-Clause
// What a port has lost, by cause, and what queues have asked and refused, where programs read it:
// counters that processes share, each with its text (shared_counter.hh). What the kernel lost in
// front of a wire has to be asked for, so the engine looks a millisecond after it worked, and ten
// times a second else. Owner: the adapter's port; adapter's lock held. Never allocates.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vhca/core/port_counters.hh"
#include "vhca/core/transport_counts.hh"
#include "vhca/ethernet/shared_counter.hh"

namespace kilim::vhca::ethernet {

// A row of counters, by their number.
template <std::size_t count>
class ShownCounts {
 public:
  // Both outlive this.
  void use(std::size_t which, std::atomic<uint64_t>& sum, char* text) noexcept {
    files_[which].use(sum, text);
    used_ = true;
  }
  [[nodiscard]] bool used() const noexcept { return used_; }
  // Whether none has moved: the engine asks a thousand times a second.
  [[nodiscard]] bool shows(const std::array<uint64_t, count>& now) const noexcept {
    return shown_ == now;
  }
  // Adds what is new since the last call.
  void show(std::size_t which, uint64_t now) noexcept {
    if (now == shown_[which]) return;
    files_[which].add(now - shown_[which]);
    shown_[which] = now;
  }

 private:
  std::array<SharedCounter, count> files_;
  std::array<uint64_t, count> shown_{};
  bool used_ = false;
};

using ShownLosses = ShownCounts<port_losses.size()>;
using ShownTransport = ShownCounts<transport_counts>;

}  // namespace kilim::vhca::ethernet
