// SPDX-License-Identifier: BSD-3-Clause
// What mlx5e and mlx5_ib make of the interface's state: Linux
// drivers/infiniband/hw/mlx5/main.c, mlx5_netdev_event() and mlx5_query_port_roce();
// drivers/net/ethernet/mellanox/mlx5/core/en_main.c, mlx5e_change_mtu().
#include "vhca/hca/netdevs.hh"

#include <utility>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/hca/ports.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::hca {

namespace {

void follow(Hca& h, uint32_t number, bool was_up) noexcept {
  const wire::PortNetdev& netdev = *ethernet::eth_port(h.eth, number).netdev;
  set_mtu(h, number, netdev.mtu());
  if (netdev.up() == was_up) return;
  const uint32_t type = netdev.up() ? wq::event::port_active : wq::event::port_err;
  h.context.journal->async(type, 0);
  for (EventSink* sink : h.sinks) sink->async(type, nullptr);
}

}  // namespace

void use_netdev(Hca& h, uint32_t number, std::shared_ptr<wire::PortNetdev> netdev) {
  ethernet::EthPort& port = ethernet::eth_port(h.eth, number);
  port.netdev = std::move(netdev);
  port.steering.use_netdev(port.netdev.get());
  set_mtu(h, number, port.netdev->mtu());
}

std::size_t serve_netdev(Hca& h, uint32_t number, std::size_t budget) noexcept {
  ethernet::EthPort& port = ethernet::eth_port(h.eth, number);
  wire::PortNetdev& netdev = *port.netdev;
  const bool was_up = netdev.up();
  if (netdev.look(h.context.now_ns)) follow(h, number, was_up);
  // A card's link is down with the interface (en_main.c, mlx5e_close()): nothing comes in.
  for (std::size_t i = 0; !netdev.up() && i < budget && !port.wire->peek().empty(); i++) {
    h.context.journal->frame_drop(number, static_cast<uint32_t>(port.wire->peek().size()),
                                  "the interface beside the port is down");
    port.counters.rx_queue_down++;
    port.wire->drop();
  }
  std::size_t left = 0;
  while (left < budget) {
    const std::span<const std::byte> frame = netdev.peek();
    if (frame.empty()) break;
    if (port.wire->send(frame) == wire::Wire::Sent::busy) break;
    netdev.drop();
    left++;
  }
  return left;
}

}  // namespace kilim::vhca::hca
