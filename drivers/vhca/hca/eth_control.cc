// SPDX-License-Identifier: BSD-3-Clause
// The raw packet path's control side: ports, flow rules, what to wait for.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>

#include "vhca/hca/eth_state.hh"
#include "vhca/hca/state.hh"

namespace kilim::vhca {

namespace {
constexpr uint64_t pause_look_ns =
    50'000;  // a receive WQE rings no bell: look again this much later
constexpr uint32_t unplugged_mtu = 9000;
}  // namespace

void EthStateDeleter::operator()(EthState* eth) const noexcept {
  delete eth;
}

EthPort& eth_port(EthState& eth, uint32_t port) noexcept {
  return eth.ports[port >= 1 && port <= eth.ports.size() ? port - 1 : 0];
}

int eth_open(HcaState& hca) {
  hca.eth.reset(new EthState);
  EthState& eth = *hca.eth;
  eth.ports.resize(std::max<std::size_t>(hca.config.wires.size(), 1));
  std::size_t longest = max_frame(unplugged_mtu);
  for (std::size_t i = 0; i < hca.config.wires.size(); ++i) {
    eth.ports[i].wire = hca.config.wires[i].get();
    if (eth.ports[i].wire != nullptr) {
      longest = std::max(longest, max_frame(eth.ports[i].wire->mtu()));
    }
  }
  eth.frame.resize(longest);
  eth.shaped.resize(longest + ether_fcs_bytes);
  return 0;
}

Result<uint32_t> eth_create_flow(HcaState& hca, Qp& qp, const FlowSpec& spec) {
  if (qp.type != QpType::raw_packet) {
    return Error{EINVAL, "a flow rule leads to a raw packet queue only"};
  }
  return eth_port(*hca.eth, 1).steering.add(&qp, spec);
}

int eth_destroy_flow(HcaState& hca, uint32_t rule) {
  return eth_port(*hca.eth, 1).steering.remove(rule);
}

int eth_detach_qp(HcaState& hca, Qp& qp) {
  for (const EthPort& port : hca.eth->ports) {
    if (port.steering.uses(&qp)) return -EBUSY;
  }
  return 0;
}

void eth_wait_set(const HcaState& hca, std::vector<int>& fds, uint64_t& deadline_ns) {
  for (const EthPort& port : hca.eth->ports) {
    if (port.wire == nullptr) continue;
    if (port.paused) {
      deadline_ns = std::min(deadline_ns, hca.works.now_ns + pause_look_ns);
    } else if (int fd = port.wire->fd(); fd >= 0) {
      fds.push_back(fd);
    }
  }
}

PortCounters eth_port_counters(HcaState& hca, uint32_t number) noexcept {
  if (number < 1 || number > hca.eth->ports.size()) return {};
  EthPort& port = hca.eth->ports[number - 1];
  PortCounters c = port.counters;
  if (port.wire != nullptr) {
    const WireCounters& w = port.wire->counters();
    c.wire_rx_drops = w.rx_kernel_drops + w.rx_malformed;
    c.rx_oversize = w.rx_too_long;
    c.tx_drops += w.tx_lost;
  }
  return c;
}

}  // namespace kilim::vhca
