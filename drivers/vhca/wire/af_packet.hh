// SPDX-License-Identifier: BSD-3-Clause
// Wire `af_packet:IFACE`: a Linux interface of the process's network namespace. The kernel hands
// over frames as its own stacks make them: checksums half done, segments of 64 KiB, VLAN tags
// beside the frame. This wire finishes them, so that the adapter sees what a cable would carry.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/wire/neighbours.hh"
#include "vhca/wire/segment.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class AfPacket final : public Wire {
 public:
  // ENODEV: no such interface here; EPERM: needs CAP_NET_RAW.
  static Result<std::unique_ptr<Wire>> create(std::string_view interface);

  Sent send(std::span<const std::byte> frame) noexcept override;
  std::span<const std::byte> peek() noexcept override;
  void drop() noexcept override;
  // A socket whose number leads elsewhere by now, since the program closed it and opened a file of
  // its own, is a cable that is pulled: looked for once a turn.
  void cork(bool on) noexcept override {
    if (on) pulled_ = !socket_.ours();
  }
  [[nodiscard]] int fd() const noexcept override { return pulled_ ? -1 : socket_.get(); }
  [[nodiscard]] uint32_t mtu() const noexcept override { return mtu_; }
  [[nodiscard]] uint32_t interface() const noexcept override {
    return static_cast<uint32_t>(index_);
  }
  [[nodiscard]] const WireCounters& counters() noexcept override;
  std::optional<Mac> find(const Gid& gid) noexcept override { return find_in_kernel(index_, gid); }
  [[nodiscard]] std::optional<Mac> station() const noexcept override {
    return mac_of_interface(index_);
  }

 private:
  // One packet as the kernel gave it; the frame begins `headroom` bytes into its place.
  struct Arrival {
    std::size_t at = 0;
    std::size_t bytes = 0;
    Cut cut;  // no bytes of payload: whole as it is
  };
  static constexpr std::size_t batch = 16;     // packets of one recvmmsg()
  static constexpr std::size_t headroom = 64;  // a VLAN tag is put back there
  // Bytes of a packet's memory: segments of 64 KiB, and their headers.
  static constexpr std::size_t place = headroom + (1u << 16) + 256;

  AfPacket() = default;
  Status open(std::string_view interface);
  Status set_options();
  void refresh_mtu() noexcept;
  bool receive() noexcept;
  // `message`: a msghdr; its header is not for ours.
  void take(std::size_t slot, std::size_t bytes, void* message) noexcept;
  bool present_next() noexcept;

  OwnFd socket_;
  bool pulled_ = false;
  int index_ = 0;
  uint32_t mtu_ = 1500;
  std::vector<std::byte> memory_;  // `batch` places, one more for a segment
  std::array<Arrival, batch> arrivals_;
  std::size_t arrived_ = 0, next_ = 0;  // arrivals there are, and those used up
  Segmenter segmenter_;
  bool segmenting_ = false;           // the segmenter has more of the last arrival
  std::span<const std::byte> shown_;  // what peek() shows; empty: nothing
  WireCounters counters_;
};

}  // namespace kilim::vhca::wire
