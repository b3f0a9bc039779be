// SPDX-License-Identifier: BSD-3-Clause
// One counter a cause.
#include "vhca/ethernet/port_losses.hh"

#include "vhca/ethernet/state.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint64_t idle_look_ns = 100'000'000;

}  // namespace

void ShownLosses::show(const PortCounters& now) noexcept {
  for (std::size_t i = 0; i < port_losses.size(); i++) {
    const uint64_t value = now.*port_losses[i].value;
    if (value == shown_[i]) continue;
    files_[i].add(value - shown_[i]);
    shown_[i] = value;
  }
}

void eth_show_losses(EthState& eth) noexcept {
  bool any = false;
  for (uint32_t number = 1; number <= eth.ports.size(); number++) {
    EthPort& port = eth.ports[number - 1];
    if (!port.losses.used()) continue;
    port.losses.show(eth_port_counters(eth, number));
    any = true;
  }
  eth.losses_due_ns = any ? eth.context->now_ns + idle_look_ns : UINT64_MAX;
  eth.losses_news = false;
}

}  // namespace kilim::vhca::ethernet
