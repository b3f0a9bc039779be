// SPDX-License-Identifier: BSD-3-Clause
// The raw packet path's control side: ports, flow rules, what to wait for.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>

#include "vhca/core/core_clock.hh"
#include "vhca/ethernet/kernel_rule.hh"
#include "vhca/ethernet/lro.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/wire/kernel_rules.hh"
#include "vhca/wire/port_netdev.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca::ethernet {

namespace {
constexpr uint64_t pause_look_ns =
    50'000;  // a receive WQE rings no bell: look again this much later
constexpr uint32_t unplugged_mtu = 9000;
constexpr uint32_t egress_rule = 1u << 31;  // of the numbers of rules

wire::KernelRules* kernel_of(const EthPort& port) noexcept {
  return port.wire != nullptr ? port.wire->kernel_rules() : nullptr;
}

// The wire's kernel does not see what the rule takes, if the wire was asked for that. A sniffer
// takes nothing; what a flow table further on takes is not known here.
void tell_kernel(EthPort& port, const wq::Qp* qp, const FlowSpec& spec, uint32_t rule) {
  wire::KernelRules* kernel = kernel_of(port);
  if (kernel == nullptr || spec.type == FlowSpec::Type::sniffer) return;
  if (qp != nullptr && qp->table != nullptr)
    return kernel->cannot_say("it leads to a flow table beyond the port's own");
  const KernelRule said = kernel_rule_of(spec);
  if (said.why != nullptr) return kernel->cannot_say(said.why);
  const auto is_known = [kernel](uint32_t other) { return kernel->has(other); };
  kernel->add(rule, port.steering.in_front_of(rule, is_known), said.matches, spec.misses);
}

uint64_t completions_of(const PortCounters& c) noexcept {
  return c.rx_packets + c.rx_copies + c.rx_too_long;
}

// Queues of a program begin to get frames of a recording.
void mark_recording(EthPort& port) noexcept {
  if (port.unread.marked || port.wire == nullptr || !port.wire->is_recording()) return;
  port.wire->mark();
  port.unread = {true, completions_of(port.counters), 0};
}

}  // namespace

EthPort& eth_port(EthState& eth, uint32_t port) noexcept {
  return eth.ports[port >= 1 && port <= eth.ports.size() ? port - 1 : 0];
}

void eth_open(EthState& eth, std::span<wire::Wire* const> wires) {
  eth.ports.resize(std::max<std::size_t>(wires.size(), 1));
  std::size_t longest = wire::max_frame(unplugged_mtu);
  for (std::size_t i = 0; i < wires.size(); ++i) {
    eth.ports[i].wire = wires[i];
    if (wires[i] != nullptr) longest = std::max(longest, wire::max_frame(wires[i]->mtu()));
  }
  eth.frame.resize(longest);
  eth.shaped.resize(longest + ether_fcs_bytes);
}

namespace {

void make_room(EthState& eth) {
  eth.wrapped.resize(2 * (eth.frame.size() + Prepend::most));
}

}  // namespace

Result<uint32_t> eth_create_flow(EthState& eth, wq::Qp* qp, const FlowSpec& spec) {
  if (qp != nullptr && qp->type != QpType::raw_packet) {
    return Error{EINVAL, "a flow rule leads to a raw packet queue only"};
  }
  EthPort& port = eth_port(eth, 1);
  if (spec.egress) {
    make_room(eth);
    const bool goes_on = qp != nullptr && qp->table != nullptr;
    Result<uint32_t> rule = port.egress.add(goes_on ? qp : nullptr, spec);
    if (!rule) return rule;
    eth.egress_rules++;
    return *rule | egress_rule;
  }
  if (spec.rewrite != nullptr) make_room(eth);
  port.rules_ns = clock_ns();
  if (port.steering.count() == 0) mark_recording(port);
  Result<uint32_t> rule = port.steering.add(spec.drops || spec.misses ? nullptr : qp, spec);
  if (rule) tell_kernel(port, qp, spec, *rule);
  return rule;
}

int eth_destroy_flow(EthState& eth, uint32_t rule) {
  if (RdmaRules::has_number(rule) && eth.soft && eth.soft->rdma.remove(rule) == 0) return 0;
  EthPort& port = eth_port(eth, 1);
  if ((rule & egress_rule) != 0) {
    const int rc = port.egress.remove(rule & ~egress_rule);
    if (rc == 0) eth.egress_rules--;
    return rc;
  }
  port.rules_ns = clock_ns();
  if (wire::KernelRules* kernel = kernel_of(port)) kernel->remove(rule);
  return port.steering.remove(rule);
}

void eth_set_mtu(EthState& eth, uint32_t port, uint32_t mtu) noexcept {
  eth_port(eth, port).longest_in = mtu == 0 ? SIZE_MAX : wire::max_frame(mtu);
}

void eth_use_soft(EthState& eth) {
  eth.soft->use(eth.frame.size() + Prepend::most);
}

int eth_detach_qp(EthState& eth, wq::Qp& qp) {
  for (const EthPort& port : eth.ports) {
    if (port.steering.uses(&qp) || port.egress.uses(&qp)) return -EBUSY;
  }
  return eth.soft && eth.soft->rdma.uses(qp) ? -EBUSY : 0;
}

// Nothing is taken back from a client: it has read no entry of this queue, and will read none.
void eth_give_back(EthState& eth, const wq::Qp& qp) noexcept {
  EthPort& port = eth_port(eth, 1);
  Unread& u = port.unread;
  if (!u.marked || qp.recv_cq == nullptr || qp.rq.wqes == 0) return;
  if (qp.recv_cq->users != (qp.send_cq == qp.recv_cq ? 2u : 1u)) return;
  wq::Cq& cq = *qp.recv_cq;
  if (cq.producer + cq.held == 0) return;
  const uint64_t given = completions_of(port.counters) - u.base;
  u.marked = !wq::client_has_read(cq);
  u.returned += cq.producer + cq.held;
  if (!u.marked || u.returned != given || !port.wire->rewind()) return;
  port.counters.rx_returned += given;
  u.base += given;
  u.returned = 0;
  eth_show_losses(eth);
}

void eth_wait_set(const EthState& eth, std::vector<int>& fds, uint64_t& deadline_ns) {
  if (eth.large)
    for (const LargeReceive& l : eth.large->open)
      if (l.to != nullptr) deadline_ns = std::min(deadline_ns, l.due_ns);
  for (const EthPort& port : eth.ports) {
    if (port.wire == nullptr) continue;
    if (port.netdev) port.netdev->add_fds(fds);
    if (port.paused) {
      deadline_ns = std::min(deadline_ns, eth.context->now_ns + pause_look_ns);
    } else if (int fd = port.wire->fd(); fd >= 0) {
      fds.push_back(fd);
    }
  }
}

PortCounters eth_port_counters(EthState& eth, uint32_t number) noexcept {
  if (number < 1 || number > eth.ports.size()) return {};
  EthPort& port = eth.ports[number - 1];
  PortCounters c = port.counters;
  if (port.wire != nullptr) {
    const wire::WireCounters& w = port.wire->counters();
    c.wire_rx_drops = w.rx_kernel_drops;
    c.wire_rx_malformed = w.rx_malformed;
    c.wire_rx_too_short = w.rx_too_short;
    c.wire_rx_cut = w.rx_cut;
    c.rx_oversize += w.rx_too_long;
    c.tx_drops += w.tx_lost;
  }
  return c;
}

}  // namespace kilim::vhca::ethernet
