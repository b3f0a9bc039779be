// SPDX-License-Identifier: BSD-3-Clause
// Wire `pcap:IN[:OUT]`: frames come from one capture file (capture_source.hh) and go to another
// (classic pcap with nanoseconds). IN may be empty. Owner: the port; adapter's lock held.
#pragma once

#include <memory>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/wire/capture_source.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class PcapWire final : public Wire {
 public:
  // Empty: none. OUT is created or cut to nothing; it is not IN.
  static Result<std::unique_ptr<Wire>> create(std::string_view in, std::string_view out);

  Sent send(std::span<const std::byte> frame) noexcept override;
  std::span<const std::byte> peek() noexcept override;
  void drop() noexcept override;
  [[nodiscard]] int fd() const noexcept override { return -1; }
  [[nodiscard]] uint32_t mtu() const noexcept override { return pcap_mtu; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }
  [[nodiscard]] bool is_recording() const noexcept override { return true; }
  [[nodiscard]] bool ended() const noexcept override { return source_.ended(); }
  void mark() noexcept override { source_.mark(); }
  bool rewind() noexcept override { return source_.rewind(); }

  static constexpr uint32_t pcap_mtu = 9000;  // bytes; a file knows of none

 private:
  PcapWire() = default;
  Status open_out(std::string_view path);

  CaptureSource source_;
  OwnFd out_;
  int64_t out_at_ = 0;  // where the next record goes
  WireCounters counters_;
};

}  // namespace kilim::vhca::wire
