// SPDX-License-Identifier: BSD-3-Clause
// Burst: what a packet function gets in one call: the packets that one receive queue had, and the
// ways on for them. Each packet is sent or dropped once; until then the function holds it. Valid
// during the call, on its lcore. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/app/lane.hh"

namespace kilim::inline v1::app {

class Burst {
 public:
  Burst(Lane& lane, uint32_t port, std::span<pool::Handle> packets, uint32_t queue = 0) noexcept
      : lane_(lane), port_(port), queue_(queue), packets_(packets) {}

  [[nodiscard]] std::span<pool::Handle> packets() const noexcept { return packets_; }
  // The port that the packets came by, in the order of EAL's --vdev, from 0; and how many there
  // are.
  [[nodiscard]] uint32_t port() const noexcept { return port_; }
  [[nodiscard]] uint32_t ports() const noexcept {
    return static_cast<uint32_t>(lane_.outputs.size());
  }
  // The receive queue of that port.
  [[nodiscard]] uint32_t queue() const noexcept { return queue_; }
  [[nodiscard]] const device::MacAddress& mac(uint32_t port) const noexcept {
    return lane_.outputs[port].port->info().mac;
  }
  // The lane that runs the function, from 0 to lanes - 1: for what a program keeps by lcore
  // (app/per_lane.hh).
  [[nodiscard]] uint32_t lane() const noexcept { return lane_.number; }

  [[nodiscard]] std::span<std::byte> bytes(pool::Handle packet) const noexcept {
    return lane_.cache->arena().bytes(packet);
  }
  // What the device found in the packet; with Program::side_records, marks or tunnels only.
  [[nodiscard]] const pool::SideRecord& side(pool::Handle packet) const noexcept {
    return lane_.cache->arena().side(packet);
  }

  // What the device is to do to a packet that is sent; what may be asked is Program::tx_words. Not
  // for a program without.
  void ask(pool::Handle& packet, pool::TxWord word) const noexcept {
    lane_.cache->arena().side(packet).tx = word;
    packet.meta |= pool::Handle::offload;
  }

  // Sends a packet by a port, below ports(). Packets of a call leave together behind it; those for
  // which the transmit queue has no room are dropped and counted.
  void send(uint32_t port, pool::Handle packet) noexcept {
    Output& o = lane_.outputs[port];
    if (o.count == o.row.size()) lane_.flush(o);
    o.row[o.count++] = packet;
  }
  void send(uint32_t port, std::span<const pool::Handle> packets) noexcept {
    Output& o = lane_.outputs[port];
    lane_.flush(o);
    lane_.transmit(o, packets);
  }
  // Sends and drops of this packet from now on are 1 + more, and nobody writes to it any more; with
  // Program::shared_packets only.
  void share(pool::Handle packet, uint16_t more) noexcept {
    if (more != 0) lane_.cache->arena().share(packet.index, more);
  }
  void drop(pool::Handle packet) noexcept {
    lane_.cache->free_one(packet);
    lane_.dropped.add(1);
  }

 private:
  Lane& lane_;
  uint32_t port_;
  uint32_t queue_;
  std::span<pool::Handle> packets_;
};

}  // namespace kilim::inline v1::app
