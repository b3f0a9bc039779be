// SPDX-License-Identifier: BSD-3-Clause
// One counter a cause.
#include "vhca/ethernet/port_losses.hh"

#include "vhca/ethernet/state.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint64_t idle_look_ns = 100'000'000;

void show(ShownLosses& shown, const PortCounters& now) noexcept {
  for (std::size_t i = 0; i < port_losses.size(); i++) shown.show(i, now.*port_losses[i].value);
}

// Receives that connected queues missed count as the port's, as on a card.
void show(EthPort& port, const TransportCounts& now) noexcept {
  if (port.transport.shows(now.of) && port.rnr_naks_shown == now.rnr_naks) [[likely]]
    return;
  for (std::size_t i = 0; i < transport_counts; i++) port.transport.show(i, now.of[i]);
  port.out_of_buffer.add(now.rnr_naks - port.rnr_naks_shown);
  port.rnr_naks_shown = now.rnr_naks;
}

}  // namespace

void eth_show_losses(EthState& eth) noexcept {
  bool any = false;
  for (uint32_t number = 1; number <= eth.ports.size(); number++) {
    EthPort& port = eth.ports[number - 1];
    if (!port.losses.used() && !port.transport.used()) continue;
    show(port.losses, eth_port_counters(eth, number));
    if (port.transport.used()) show(port, eth.context->counts);
    any = true;
  }
  eth.losses_due_ns = any ? eth.context->now_ns + idle_look_ns : UINT64_MAX;
  eth.losses_news = false;
}

}  // namespace kilim::vhca::ethernet
