// SPDX-License-Identifier: BSD-3-Clause
// Wire `pcap:IN[:OUT]`: frames come from one capture file and go to another (classic pcap, either
// byte order, micro- or nanoseconds read, nanoseconds written). IN may be empty. A file is
// untrusted: what is not a whole frame is counted and skipped, a record that makes no sense ends
// the file.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kilim/base/fd.hh"
#include "kilim/base/result.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

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
  [[nodiscard]] bool ended() const noexcept override { return ended_; }

  static constexpr uint32_t pcap_mtu = 9000;  // bytes; a file knows of none

 private:
  PcapWire() = default;
  Status open_in(std::string_view path);
  Status open_out(std::string_view path);
  bool fill(std::size_t bytes) noexcept;
  void skip(std::size_t bytes) noexcept;
  // The 32-bit number at this place behind begin_, in our byte order.
  [[nodiscard]] uint32_t number(std::size_t at) const noexcept;

  Fd in_, out_;
  int64_t out_at_ = 0;    // where the next record goes
  bool swapped_ = false;  // IN was written on a machine of the other byte order
  bool ended_ = true;
  std::vector<std::byte> buffer_;    // of IN
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer is read and not consumed
  std::size_t frame_bytes_ = 0;      // the frame that peek() shows, behind its record header
  WireCounters counters_;
};

}  // namespace kilim::vhca
