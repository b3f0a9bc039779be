// SPDX-License-Identifier: BSD-3-Clause
// Advice about memory with on-demand paging: which of it the adapter will soon need.
// Pure values, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/base/ident.hh"

namespace kilim::mr {

// In the values of ibv_advise_mr_advice.
enum class Advice : uint8_t {
  prefetch = 0,           // for reading
  prefetch_write = 1,     // for writing too
  prefetch_no_fault = 2,  // only what the process has in memory
};

struct AdviceRange {
  uint64_t address = 0;  // as the key knows it
  uint32_t bytes = 0;
  Lkey lkey;
};

struct AdviceRequest {
  Advice advice = Advice::prefetch;
  bool flush = true;  // done when the call returns; else later, and nobody hears how it went
  std::span<const AdviceRange> ranges;
};

}  // namespace kilim::mr
