// SPDX-License-Identifier: BSD-3-Clause
// PerLane: a value for each lane of a program, on cache lines of its own, so that lanes count or
// learn without a lock. Owner: the program, in its context; each lane touches its own value, and
// the main lcore all of them before the first burst and in finish().
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/port/queues.hh"

namespace kilim::inline v1::app {

inline constexpr uint32_t max_lanes = port::max_txq;  // a lane has a transmit queue of each port

template <typename T>
class PerLane {
 public:
  T& operator[](uint32_t lane) noexcept { return of_[lane].value; }
  const T& operator[](uint32_t lane) const noexcept { return of_[lane].value; }

 private:
  struct alignas(cacheline_bytes) Slot {
    T value{};
  };
  std::array<Slot, max_lanes> of_{};
};

}  // namespace kilim::inline v1::app
