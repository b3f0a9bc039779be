// SPDX-License-Identifier: BSD-3-Clause
// The kernel's network interface beside a port, as a card has one: a TAP whose other end the device
// holds. It takes frames that no steering rule in front of it took, and its kernel's frames leave
// by the port's wire. What it wants is read from the kernel: flags, address, groups, MTU. One
// process is at its other end. Owner: the port; adapter's lock held. Frames are untrusted. Nothing
// here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/core/spec.hh"
#include "vhca/wire/tap.hh"

namespace kilim::vhca::wire {

class PortNetdev {
 public:
  // Opens the TAP of this name, or makes it, gives it the port's address and sets it up. `mtu`: of
  // the port's wire. As TapWire::create(): EBUSY: another process is at its other end; EPERM: a new
  // one needs CAP_NET_ADMIN. `why`: a sentence.
  static Result<std::unique_ptr<PortNetdev>> create(std::string_view name, const Mac& mac,
                                                    uint32_t mtu, std::string* why);

  // Whether the interface takes the frame, as mlx5e's own tables would: its address, broadcast, the
  // groups that it joined, everything while it is promiscuous; nothing while it is down.
  [[nodiscard]] bool wants(std::span<const std::byte> frame) noexcept;
  // The kernel gets the frame, or it is lost and counted, as where its queue is full.
  void give(std::span<const std::byte> frame) noexcept;
  // The next frame that the kernel sends, left where it is until drop(); empty: none now.
  std::span<const std::byte> peek() noexcept { return tap_->peek(); }
  void drop() noexcept { tap_->drop(); }

  // Once a turn: reads what has changed at the interface. Whether link or MTU did.
  bool look(uint64_t now_ns) noexcept;
  [[nodiscard]] bool up() const noexcept { return state_.up; }
  [[nodiscard]] uint32_t mtu() const noexcept { return state_.mtu; }
  [[nodiscard]] uint32_t interface() const noexcept { return tap_->interface(); }
  // Readable when the kernel sends, or something changes.
  void add_fds(std::vector<int>& fds) const;
  // Frames that the interface took, and those of its kernel that left.
  [[nodiscard]] uint64_t taken() const noexcept { return taken_; }

 private:
  struct State {
    bool up = false, promiscuous = false, all_groups = false;
    uint32_t mtu = 0;
    Mac mac{};
  };
  PortNetdev(std::string_view name, std::unique_ptr<Wire> tap, Fd control, Fd news);
  void read_state() noexcept;
  void read_groups() noexcept;
  // Empties the socket of notices; whether there were some.
  bool read_news() noexcept;

  std::string name_;
  std::unique_ptr<Wire> tap_;
  OwnFd control_, news_;
  State state_;
  std::vector<Mac> groups_;
  std::vector<char> text_;  // of the kernel's list of groups
  uint64_t now_ns_ = 0, looked_ns_ = 0, groups_ns_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace kilim::vhca::wire
