// SPDX-License-Identifier: BSD-3-Clause
// What the raw packet path of an adapter keeps: ports with their wires, rules and counters, and one
// place where a frame is put together. Owner: the adapter; its lock held.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kilim/prm/cqe.hh"
#include "vhca/core/cast_counters.hh"
#include "vhca/core/port_counters.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/flow_memo.hh"
#include "vhca/ethernet/port_losses.hh"
#include "vhca/ethernet/shared_counter.hh"
#include "vhca/ethernet/steering.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::ethernet {

// Frames of a recording that queues have got and whose client has read none of them: when those
// queues go, the frames go back to the recording.
struct Unread {
  bool marked = false;    // the recording goes back to where `base` was counted
  uint64_t base = 0;      // completions of frames, as the port's counters say
  uint64_t returned = 0;  // of queues that have gone since
};

struct EthPort {
  wire::Wire* wire = nullptr;                // null: nothing is plugged in
  std::shared_ptr<wire::PortNetdev> netdev;  // the kernel's interface beside it; null: none
  // Bytes of a frame that raw packet queues get; eth_set_mtu().
  std::size_t longest_in = SIZE_MAX;
  Steering steering;
  Steering egress;  // of frames that raw packet queues send
  FlowMemos flows;
  PortCounters counters;
  SharedCounter out_of_buffer;  // of all processes that use the device
  ShownLosses losses;           // likewise
  ShownTransport transport;     // likewise, of the whole adapter: port 1 shows them
  uint64_t rnr_naks_shown = 0;  // in out_of_buffer
  uint64_t rules_ns = 0;        // CLOCK_MONOTONIC: when a rule was last made or removed
  bool paused = false;          // the next frame waits for a receive WQE
  bool counts_casts = false;    // an interface tells of the next two
  CastCounters rx_casts;        // frames of the wire that are not RoCE's, delivered or not
  CastCounters tx_casts;        // of raw packet queues
  Unread unread;
};

struct LargeReceives;  // ethernet/lro.hh
class SoftSteering;    // ethernet/soft_steering.hh

struct EthState {
  wq::EngineContext* context = nullptr;
  std::vector<EthPort> ports;
  std::vector<std::byte> frame;   // of the send WQE under execution: the longest that a port takes
  std::vector<std::byte> shaped;  // a received frame that is not delivered as it came
  wq::RecvWqe recv;               // the receive WQE in hand
  // Where rules change frames: in the first half those that leave, with what is put in front, and
  // in the second half those that are received, which may be the same frame on its way back.
  std::vector<std::byte> wrapped;
  uint32_t egress_rules = 0;             // of all ports
  uint32_t own_queues = 0;               // that take frames of their own client
  std::size_t clients = 0;               // that have announced themselves
  uint64_t losses_due_ns = 0;            // CLOCK_MONOTONIC: when eth_show_losses() is called
  bool losses_news = false;              // the engine has worked since it was
  std::shared_ptr<LargeReceives> large;  // null: no TIR joins segments
  std::shared_ptr<SoftSteering> soft;    // null: the profile has no steering by software
};

inline constexpr std::size_t ether_fcs_bytes = 4;

// A received frame as a queue wants it: without its tag, with its check sequence. Valid until the
// next call.
struct ShapedFrame {
  std::span<const std::byte> bytes;
  bool stripped = false;
  uint16_t tag_raw = 0;  // as it came
};
ShapedFrame shape_frame(EthState&, const QpSpec&, std::span<const std::byte> frame) noexcept;

// What a completion says about the headers of a received frame: the outer ones, or those in a
// tunnel where there is one and the queue wants to hear of it. Sums are right then where the outer
// ones are too (Linux en_rx.c, mlx5e_handle_csum(): csum_level 1 of such a packet vouches for both;
// an outer sum of UDP that is 0 is none, for IPv6 by RFC 6935).
void describe_frame(std::span<const std::byte> frame, bool tunnels, prm::Cqe&) noexcept;

// The sum that a completion carries: of the IP packet, without tags and padding; 0 of other frames
// (Linux drivers/net/ethernet/mellanox/mlx5/core/en_rx.c, mlx5e_handle_csum() and
// mlx5e_skb_csum_fixup(), who add those).
be16 packet_checksum(std::span<const std::byte> frame) noexcept;

// The port of a queue; its number comes from the client.
EthPort& eth_port(EthState&, uint32_t port) noexcept;

}  // namespace kilim::vhca::ethernet
