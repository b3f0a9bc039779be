// SPDX-License-Identifier: BSD-3-Clause
// What a device reads in the WQEs of a send queue: packets, pieces, bytes, and what packets ask
// for, added up, so that sides can be held to the same work. Pure values but for the ring that a
// view reads; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/queue.hh"

namespace kilim::race {

struct Sent {
  uint64_t packets = 0, pieces = 0, bytes = 0;
  uint64_t with_sums = 0;             // that ask for IP and TCP checksums
  uint64_t with_tag = 0, tags = 0;    // and the sum of the tags
  uint64_t segmented = 0, sizes = 0;  // and the sum of their segments' sizes
  friend bool operator==(const Sent&, const Sent&) noexcept = default;
  Sent& operator+=(const Sent& s) noexcept;
  [[nodiscard]] std::string text() const;
};

// One WQE in a send ring, from a basic block on.
class WqeView {
 public:
  WqeView(const queue::SqGeometry& sq, uint32_t block) noexcept : sq_(sq), block_(block) {}
  [[nodiscard]] const prm::CtrlSeg& ctrl() const noexcept;
  [[nodiscard]] uint32_t octowords() const noexcept;
  [[nodiscard]] Sent read() const noexcept;

 private:
  [[nodiscard]] const std::byte* octoword(uint32_t i) const noexcept;

  const queue::SqGeometry& sq_;
  uint32_t block_;
};

}  // namespace kilim::race
