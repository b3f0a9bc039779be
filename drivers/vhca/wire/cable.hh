// SPDX-License-Identifier: BSD-3-Clause
// Wire `cable:NAME`: joins two ports of one process. Each direction is a bounded ring of bytes
// between two threads at most (the two adapters' lock holders). A full ring is back-pressure; a
// frame for an end that nobody holds is lost, as on a cable with nobody at the other end.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "kilim/base/fd.hh"
#include "kilim/base/result.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

// One direction. One thread puts, one takes.
class FrameRing {
 public:
  FrameRing();
  // False: no room.
  bool put(std::span<const std::byte> frame) noexcept;
  std::span<const std::byte> front() noexcept;
  void pop() noexcept;
  void clear() noexcept;  // the taker's
  // The taker is about to sleep: the next put, or one that was not seen, makes fd() readable.
  int arm() noexcept;
  void disarm() noexcept;

  static constexpr std::size_t bytes = 1u << 19;

 private:
  std::unique_ptr<std::byte[]> mem_;
  Fd event_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // the putter's
  alignas(64) std::atomic<uint64_t> head_{0};  // the taker's
  std::atomic<bool> asleep_{false};
};

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
  [[nodiscard]] int fd() const noexcept override;
  [[nodiscard]] uint32_t mtu() const noexcept override { return cable_mtu; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }

  static constexpr uint32_t cable_mtu = 9000;

 private:
  struct Line;
  struct Lines;
  Cable(std::shared_ptr<Line> line, unsigned end) noexcept;
  FrameRing& in() const noexcept;

  std::shared_ptr<Line> line_;
  unsigned end_;
  mutable bool armed_ = false;
  WireCounters counters_;
};

}  // namespace kilim::vhca
