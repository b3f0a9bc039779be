// SPDX-License-Identifier: BSD-3-Clause
// Who has an IP address on an Ethernet that no kernel looks after: ARP (RFC 826) and neighbour
// discovery (RFC 4861), answered and asked for the addresses of one port. Sends nothing itself.
// Owner: the port; adapter's lock held. Never allocates. Frames are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "vhca/core/spec.hh"

namespace kilim::vhca::wire {

class AddressResolution {
 public:
  static constexpr std::size_t frame_bytes = 86;  // of the longest frame, a solicitation
  using Frame = std::array<std::byte, frame_bytes>;

  // The port's GIDs, those that stand for IPv4 addresses among them.
  void publish(const Mac& mac, std::span<const Gid> gids) noexcept;

  // A frame that came: learns what it tells, and writes the answer that it wants. The answer's
  // length; 0: it wants none. A station is learned when it asks for an address of ours, or when it
  // was asked for: nobody else can make it known (net/ipv4/arp.c, arp_process(), with arp_accept
  // off; net/ipv6/ndisc.c, ndisc_recv_na()).
  std::size_t handle(std::span<const std::byte> frame, Frame& answer) noexcept;

  [[nodiscard]] std::optional<Mac> find(const Gid&) const noexcept;
  // The question for an address, and its length; 0: it was asked less than a second ago
  // (RETRANS_TIMER of RFC 4861; RETRANS_TIME of net/ipv4/arp.c), or the port has no address of its
  // kind.
  std::size_t ask(const Gid&, uint64_t now_ns, Frame& question) noexcept;

 private:
  struct Entry {
    Gid gid{};
    Mac mac{};
    bool used = false, known = false;
    uint64_t asked_ns = 0;
  };
  static constexpr std::size_t most = 64;       // stations that are remembered; the oldest goes
  static constexpr std::size_t most_gids = 16;  // of the port

  // Who sends to queue pair 1 of the port is where his datagrams come from, as the answers to them
  // take it, if he is not known: his connection's queue pair needs the address too.
  void learn_manager(std::span<const std::byte> frame) noexcept;
  std::size_t handle_arp(std::span<const std::byte> frame, Frame& answer) noexcept;
  std::size_t handle_icmp6(std::span<const std::byte> frame, Frame& answer) noexcept;
  [[nodiscard]] bool is_own(const Gid&) const noexcept;
  // A source for a question: the address that has most in common with the other one.
  [[nodiscard]] const Gid* source_for(const Gid&) const noexcept;
  Entry* entry_of(const Gid&) noexcept;
  Entry& place_for(const Gid&) noexcept;
  void learn(const Gid&, const Mac&, bool new_too) noexcept;

  Mac mac_{};
  std::array<Gid, most_gids> gids_{};
  std::size_t gid_count_ = 0, next_ = 0;
  std::array<Entry, most> entries_{};
};

}  // namespace kilim::vhca::wire
