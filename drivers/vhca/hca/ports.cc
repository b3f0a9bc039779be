// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Frames are untrusted, and so is what clients ask for.
#include "vhca/hca/ports.hh"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "vhca/core/journal.hh"
#include "vhca/core/refusal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/lro.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/netdevs.hh"
#include "vhca/hca/rdma_flows.hh"
#include "vhca/transport/groups.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::hca {

namespace {

// One frame; false: none there, or it waits.
bool handle_frame(Hca& h, wire::Wire& wire, uint32_t number) noexcept {
  std::span<const std::byte> frame = wire.peek();
  if (frame.empty()) return false;
  if (h.context.dead) {
    h.context.journal->frame_drop(number, static_cast<uint32_t>(frame.size()),
                                  "the adapter is dead");
    wire.drop();
    return true;
  }
  if (h.eth.soft && !rdma_receives(h, number, frame)) [[unlikely]] {
    wire.drop();
    return true;
  }
  if (!transport::roce_handle_frame(h.roce, number, frame))
    return ethernet::eth_handle_frame(h.eth, number, frame);
  wire.drop();
  return true;
}

// The wire of a port; null: no such port, or it has none.
wire::Wire* wire_of(const Hca& h, uint32_t port) noexcept {
  const std::vector<std::unique_ptr<wire::Wire>>& wires = h.config.wires;
  return port == 0 || port > wires.size() ? nullptr : wires[port - 1].get();
}

// The kernel's interface beside a port; null: there is none.
const wire::PortNetdev* netdev_of(const Hca& h, uint32_t port) noexcept {
  return port == 0 || port > h.eth.ports.size() ? nullptr : h.eth.ports[port - 1].netdev.get();
}

}  // namespace

std::size_t poll_ports(Hca& h, std::size_t budget) noexcept {
  std::size_t taken = 0;
  uint32_t number = 0;
  for (ethernet::EthPort& port : h.eth.ports) {
    ++number;
    if (port.wire == nullptr) continue;
    if (port.netdev) [[unlikely]] {
      taken += serve_netdev(h, number, budget - taken);
      if (!port.netdev->up()) continue;
    }
    if (port.wire->is_recording() && port.steering.count() == 0) continue;
    while (taken < budget) {
      const std::size_t plain =
          h.context.dead ? 0 : ethernet::eth_receive_plain(h.eth, number, budget - taken);
      taken += plain;
      if (plain != 0) continue;
      if (!handle_frame(h, *port.wire, number)) break;
      ++taken;
    }
  }
  if (h.eth.large && h.eth.large->count != 0 && !h.context.dead) [[unlikely]]
    ethernet::eth_deliver_due(h.eth);
  return taken;
}

bool has_port(const Hca& h, uint32_t port) noexcept {
  return port != 0 && port <= port_count(h);
}

uint32_t port_count(const Hca& h) noexcept {
  return static_cast<uint32_t>(std::max<std::size_t>(1, h.config.wires.size()));
}

Result<PortAttr> query_port(const Hca& h, uint32_t port) {
  if (!has_port(h, port)) return Error{EINVAL, "no such port"};
  PortAttr attr;
  attr.log_max_msg = h.config.profile.log_max_msg;
  if (const wire::Wire* wire = wire_of(h, port)) {
    attr.mtu = transport::roce_mtu(wire->mtu());
    attr.interface = wire->interface();
  }
  if (const wire::PortNetdev* netdev = netdev_of(h, port)) {
    attr.active = netdev->up();
    attr.mtu = std::min(attr.mtu, transport::roce_mtu(netdev->mtu()));
    attr.interface = netdev->interface();
  }
  attr.gid_count = h.config.profile.gid_table_len;
  attr.mac = h.config.mac;
  attr.lid = h.config.profile.lid;
  attr.node = h.config.node == Mac{} ? attr.mac : h.config.node;
  return attr;
}

Result<Gid> query_gid(const Hca& h, uint32_t port, uint32_t index) {
  if (!has_port(h, port)) return Error{EINVAL, "no such port"};
  if (index >= h.config.profile.gid_table_len) return Error{EINVAL, "no such GID index"};
  Gid gid;
  if (!port_gid(h.addresses, index, gid)) return Error{ENODATA, "an empty GID entry"};
  return gid;
}

std::optional<Mac> find_neighbour(Hca& h, uint32_t port, const Gid& gid) {
  wire::Wire* wire = wire_of(h, port);
  return wire != nullptr ? wire->find(gid) : std::nullopt;
}

void show_out_of_buffer(Hca& h, std::atomic<uint64_t>& sum, char* text) noexcept {
  ethernet::eth_port(h.eth, 1).out_of_buffer.use(sum, text);
}

void count_casts(Hca& h) noexcept {
  ethernet::eth_port(h.eth, 1).counts_casts = true;
}

InterfaceCounters interface_counters(Hca& h) noexcept {
  const ethernet::EthPort& port = ethernet::eth_port(h.eth, 1);
  InterfaceCounters c{port.rx_casts, port.tx_casts, ethernet::eth_port_counters(h.eth, 1), {}};
  if (wire::Wire* wire = wire_of(h, 1)) c.wire = wire->counters();
  return c;
}

void show_losses(Hca& h, std::size_t cause, std::atomic<uint64_t>& sum, char* text) noexcept {
  ethernet::eth_port(h.eth, 1).losses.use(cause, sum, text);
  h.eth.losses_due_ns = 0;
}

void show_transport(Hca& h, std::size_t count, std::atomic<uint64_t>& sum, char* text) noexcept {
  ethernet::eth_port(h.eth, 1).transport.use(count, sum, text);
  h.eth.losses_due_ns = 0;
}

void tell_losses(Hca& h, bool worked) noexcept {
  constexpr uint64_t soon_ns = 1'000'000;
  if (h.context.now_ns >= h.eth.losses_due_ns) [[unlikely]]
    ethernet::eth_show_losses(h.eth);
  if (!worked || h.eth.losses_news || h.eth.losses_due_ns == UINT64_MAX) return;
  h.eth.losses_news = true;
  h.eth.losses_due_ns = std::min(h.eth.losses_due_ns, h.context.now_ns + soon_ns);
}

void set_mtu(Hca& h, uint32_t port, uint32_t mtu) noexcept {
  ethernet::eth_set_mtu(h.eth, port, mtu);
}

int join_group(Hca& h, Qpn qpn, const Gid& gid) {
  wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr) return refusal::absent("qp_num", qpn.value());
  const Profile& p = h.config.profile;
  return transport::join_group(h.roce.groups, {p.max_groups, p.max_group_members}, *qp, gid);
}

int leave_group(Hca& h, Qpn qpn, const Gid& gid) {
  wq::Qp* qp = h.qps.at(qpn.value());
  return qp == nullptr ? refusal::absent("qp_num", qpn.value())
                       : transport::leave_group(h.roce.groups, *qp, gid);
}

void leave_groups(Hca& h, Qpn qpn) {
  if (wq::Qp* qp = h.qps.at(qpn.value())) transport::leave_groups(h.roce.groups, *qp);
}

bool in_group(const Hca& h, Qpn qpn) {
  const wq::Qp* qp = h.qps.at(qpn.value());
  return qp != nullptr && qp->groups != 0;
}

Result<uint32_t> create_flow(Hca& h, Qpn qpn, const FlowSpec& spec) {
  wq::Qp* qp = h.qps.at(qpn.value());
  if (qp == nullptr || qp->type != QpType::raw_packet)
    return Error{EINVAL, "flows lead to raw packet queues"};
  return ethernet::eth_create_flow(h.eth, qp, spec);
}

Result<uint32_t> create_flow_to_tir(Hca& h, uint32_t tirn, const FlowSpec& spec) {
  ethernet::Tir* tir = h.tirs.at(tirn);
  if (tir == nullptr) return Error{EINVAL, "no such TIR"};
  return ethernet::eth_create_flow(h.eth, &tir->end, spec);
}

Result<uint32_t> create_flow_to_table(Hca& h, uint32_t number, const FlowSpec& spec) {
  ethernet::FlowTable* table = h.eth.soft ? h.eth.soft->tables.at(number) : nullptr;
  if (table == nullptr ||
      table->type != (spec.egress ? ethernet::TableType::nic_tx : ethernet::TableType::nic_rx))
    return Error{EINVAL, "no such flow table of that kind"};
  return ethernet::eth_create_flow(h.eth, &table->end, spec);
}

Result<uint32_t> create_ending_flow(Hca& h, const FlowSpec& spec) {
  return ethernet::eth_create_flow(h.eth, nullptr, spec);
}

int destroy_flow(Hca& h, uint32_t rule) {
  return ethernet::eth_destroy_flow(h.eth, rule);
}

}  // namespace kilim::vhca::hca
