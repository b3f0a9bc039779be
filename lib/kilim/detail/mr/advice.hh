// SPDX-License-Identifier: BSD-3-Clause
// Prefetch advice for on-demand memory, as ibv_advise_mr(3) takes it. Pure values, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"

namespace kilim::inline v1::mr {

// In the values of ibv_advise_mr_advice.
enum class Advice : uint8_t {
  prefetch = 0,           // maps pages for reading
  prefetch_write = 1,     // maps pages for writing
  prefetch_no_fault = 2,  // maps only pages that are in memory now
};

// A part of one on-demand region.
struct AdviceRange {
  uint64_t address = 0;  // as the key counts (Region::iova)
  uint32_t bytes = 0;
  Lkey lkey;
};

// One call of Registrar::advise(), which lists the errors.
struct AdviceRequest {
  Advice advice = Advice::prefetch;
  bool flush = true;  // the call waits until the pages are mapped; else its result is not reported
  std::span<const AdviceRange> ranges;
};

}  // namespace kilim::inline v1::mr
