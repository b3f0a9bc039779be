// SPDX-License-Identifier: BSD-3-Clause
// A counter in memory that several processes add to, and its text of fixed width: whoever wrote the
// text looks again whether its value still stands, so the last one to write has written the last
// value. Any thread adds. Owner: the adapter, which counts nowhere before use().
#pragma once

#include <atomic>
#include <cstdint>

#include "vhca/tpt/odp_stats.hh"

namespace kilim::vhca::ethernet {

class SharedCounter {
 public:
  void use(std::atomic<uint64_t>& sum, char* text) noexcept {
    sum_ = &sum;
    text_ = text;
  }
  void add(uint64_t n) noexcept {
    if (sum_ == nullptr || n == 0) return;
    uint64_t shown = sum_->fetch_add(n, std::memory_order_seq_cst) + n;
    for (;;) {
      tpt::OdpStats::write_text(text_, shown);
      uint64_t now = sum_->load(std::memory_order_seq_cst);
      if (now == shown) return;
      shown = now;
    }
  }

 private:
  std::atomic<uint64_t>* sum_ = nullptr;
  char* text_ = nullptr;
};

}  // namespace kilim::vhca::ethernet
