// SPDX-License-Identifier: BSD-3-Clause
// What a port has lost, by cause, where programs read it: counters that processes share, each with
// its text (shared_counter.hh). What the kernel lost in front of a wire has to be asked for, so the
// engine looks a millisecond after it worked, and ten times a second else. Owner: the adapter's
// port; adapter's lock held. Never allocates.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vhca/core/port_counters.hh"
#include "vhca/ethernet/shared_counter.hh"

namespace kilim::vhca::ethernet {

class ShownLosses {
 public:
  // Of a row of port_losses. Both outlive this.
  void use(std::size_t which, std::atomic<uint64_t>& sum, char* text) noexcept {
    files_[which].use(sum, text);
    used_ = true;
  }
  [[nodiscard]] bool used() const noexcept { return used_; }
  // Adds what is new since the last call.
  void show(const PortCounters& now) noexcept;

 private:
  std::array<SharedCounter, port_losses.size()> files_;
  std::array<uint64_t, port_losses.size()> shown_{};
  bool used_ = false;
};

}  // namespace kilim::vhca::ethernet
