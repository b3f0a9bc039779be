// SPDX-License-Identifier: BSD-3-Clause
// Wire `cable:NAME`: joins two ports of one process. Each direction is a bounded ring of bytes
// between two threads at most (the two adapters' lock holders). A full ring is back-pressure; a
// frame for an end that nobody holds is lost, as on a cable with nobody at the other end.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/frame_ring.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class Cable final : public Wire {
 public:
  // The first of a name makes the cable, the second takes its other end. EBUSY: both are taken.
  static Result<std::unique_ptr<Wire>> create(std::string_view name);
  ~Cable() override;
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  Sent send(std::span<const std::byte> frame) noexcept override;
  std::span<const std::byte> peek() noexcept override;
  void drop() noexcept override;
  RingEnd out_ring() noexcept override;
  RingEnd in_ring() noexcept override;
  [[nodiscard]] int fd() const noexcept override;
  [[nodiscard]] uint32_t mtu() const noexcept override { return cable_mtu; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }

  static constexpr uint32_t cable_mtu = 9000;

 private:
  struct Line;   // both directions
  struct Lines;  // all cables of the process
  Cable(std::shared_ptr<Line> line, unsigned end) noexcept;
  FrameRing& in() const noexcept;

  std::shared_ptr<Line> line_;
  unsigned end_;  // 0 or 1
  mutable bool armed_ = false;
  WireCounters counters_;
  const RingAccount account_{&counters_, nullptr};
};

}  // namespace kilim::vhca::wire
