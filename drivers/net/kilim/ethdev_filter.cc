// SPDX-License-Identifier: BSD-3-Clause
// Which frames an ethdev receives: station and multicast addresses, VLANs, promiscuous mode, MTU,
// rules of rte_flow. Kept while the port is stopped.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

flow::MacAddress address_of(const rte_ether_addr& mac) noexcept {
  flow::MacAddress a;
  std::copy_n(mac.addr_bytes, a.size(), a.begin());
  return a;
}

bool same(const flow::Filter& a, const flow::Filter& b) {
  return a.promiscuous == b.promiscuous && a.all_multicast == b.all_multicast && a.macs == b.macs &&
         a.vlans == b.vlans;
}

}  // namespace

flow::Filter Ethdev::filter_of() const {
  flow::Filter f;
  f.promiscuous = wanted_.promiscuous;
  f.all_multicast = wanted_.all_multicast;
  f.macs = wanted_.multicast;
  for (const auto& [index, mac] : wanted_.further) f.macs.push_back(mac);
  if (wanted_.filters_vlans) f.vlans = wanted_.vlans;
  return f;
}

int Ethdev::apply_filter() noexcept {
  if (!port_.started()) return 0;
  const flow::Filter filter = filter_of();
  if (same(filter, port_.filter())) return 0;
  if (Status s = port_.set_filter(filter); !s) return refuse(s.error());
  return 0;
}

// Changes what is wanted, and takes the change back if the device does not take it.
template <typename Change>
int Ethdev::change_filter(Change change) noexcept {
  const std::lock_guard guard(lock_);
  const Wanted before = wanted_;
  change(wanted_);
  const int error = apply_filter();
  if (error != 0) wanted_ = before;
  return error;
}

int Ethdev::set_promiscuous(bool on) noexcept {
  return change_filter([on](Wanted& w) { w.promiscuous = on; });
}

int Ethdev::set_all_multicast(bool on) noexcept {
  return change_filter([on](Wanted& w) { w.all_multicast = on; });
}

int Ethdev::set_address(const rte_ether_addr& mac) noexcept {
  const std::lock_guard guard(lock_);
  const flow::MacAddress a = address_of(mac);
  if (a == port_.info().mac) return 0;
  if (Status s = port_.set_address(a); !s) return refuse(s.error());
  return 0;
}

int Ethdev::set_further(uint32_t index, const rte_ether_addr* mac) noexcept {
  return change_filter([index, mac](Wanted& w) {
    if (mac == nullptr)
      w.further.erase(index);
    else if (index != 0)
      w.further[index] = address_of(*mac);
  });
}

int Ethdev::set_multicast(std::span<const rte_ether_addr> macs) noexcept {
  if (macs.size() > flow::max_filter_macs) return -ENOSPC;
  return change_filter([macs](Wanted& w) {
    w.multicast.clear();
    for (const rte_ether_addr& m : macs) w.multicast.push_back(address_of(m));
  });
}

int Ethdev::set_vlan(uint16_t vlan, bool on) noexcept {
  return change_filter([vlan, on](Wanted& w) {
    std::erase(w.vlans, vlan);
    if (on) w.vlans.push_back(vlan);
  });
}

int Ethdev::strip_vlan(uint16_t queue, bool on) noexcept {
  const std::lock_guard guard(lock_);
  if (on && !port_.device().caps().spread.strip_vlan)
    return refuse({ENOTSUP, "the device does not strip VLAN tags"});
  EthdevRx& rx = rx_[queue];
  if (rx.rwq) {
    if (Status s = port_.device().strip_vlan(rx.rwq->handle, on); !s) return refuse(s.error());
  }
  if (on)
    rx.conf.offloads |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
  else
    rx.conf.offloads &= ~RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
  choose_bursts();
  return 0;
}

int Ethdev::set_vlan_offload(int mask) noexcept {
  const uint64_t offloads = dev_->data->dev_conf.rxmode.offloads;
  if ((mask & RTE_ETH_VLAN_STRIP_MASK) != 0) {
    const bool on = (offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
    for (uint16_t q = 0, n = static_cast<uint16_t>(rx_.size()); q < n; q++)
      if (const int e = strip_vlan(q, on); e != 0) return e;
  }
  if ((mask & RTE_ETH_VLAN_FILTER_MASK) == 0) return 0;
  const bool on = (offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0;
  return change_filter([on](Wanted& w) { w.filters_vlans = on; });
}

int Ethdev::set_mtu(uint16_t mtu) noexcept {
  const std::lock_guard guard(lock_);
  for (const EthdevRx& rx : rx_) {
    if (rx.queue == nullptr) continue;
    const uint64_t offloads = rx.conf.offloads;
    const uint32_t segments = segments_for(*rx.pool, offloads, longest_of(offloads, mtu));
    if (segments == 0)
      return refuse({EINVAL, "frames of this MTU do not fit into the mbufs of a receive queue"});
    const bool more =
        strides() ? segments_for(*rx.pool, offloads, mtu + around_mtu) > 1 : segments > rx.segments;
    if (rx.rwq && more)
      return refuse({EBUSY, "receives of this MTU take more mbufs: stop the port before"});
  }
  mtu_asked_ = true;
  if (queues_run_) limit_port(mtu);
  // An interface that is the wire may have another MTU since the port started.
  for (const EthdevTx& tx : tx_)
    if (tx.qp) set_longest_frame(*tx.queue, longest_sent());
  return 0;
}

// From start() to stop() the port of a virtual device drops what is longer, as a card's does whose
// interface has this MTU (DPDK 22.11, drivers/net/mlx5/mlx5_ethdev.c, mlx5_dev_set_mtu()). A card's
// interface is other programs' too: it stays as it is.
void Ethdev::limit_port(uint16_t mtu) noexcept {
  (void)attach::set_mtu(args_.hca.name, port_.number(), mtu);
}

rte_flow* Ethdev::add_flow(const flow::Rule& rule, flow::RuleError& why) noexcept {
  const std::lock_guard guard(lock_);
  if (rule.match.tunnel && !rule.egress && !tunnels_) {
    tunnels_ = true;
    choose_bursts();
  }
  auto id = port_.add_rule(rule, &why);
  if (!id) {
    if (why.code == 0) why = {id.error().code, flow::Field::none, id.error().what};
    return nullptr;
  }
  flows_.push_back(std::make_unique<rte_flow>(rte_flow{*id, rule.action.count, {}}));
  if (rule.action.mark) marks_ = true;
  choose_bursts();
  return flows_.back().get();
}

int Ethdev::remove_flow(rte_flow* flow) noexcept {
  const std::lock_guard guard(lock_);
  const auto at =
      std::find_if(flows_.begin(), flows_.end(), [flow](const auto& f) { return f.get() == flow; });
  if (at == flows_.end()) return -EINVAL;
  (void)port_.remove_rule((*at)->id);
  flows_.erase(at);
  return 0;
}

void Ethdev::flush_flows() noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& f : flows_) (void)port_.remove_rule(f->id);
  flows_.clear();
}

int Ethdev::dump_flows(const rte_flow* one, std::FILE& to) noexcept {
  const std::lock_guard guard(lock_);
  bool found = one == nullptr;
  for (const auto& f : flows_) {
    if (one != nullptr && f.get() != one) continue;
    found = true;
    std::fprintf(&to, "rule %u", f->id.value());
    if (f->counts)
      if (const auto seen = port_.query_rule(f->id))
        std::fprintf(&to, ": %" PRIu64 " packets, %" PRIu64 " bytes", seen->packets, seen->bytes);
    std::fprintf(&to, "\n");
  }
  return found ? 0 : -EINVAL;
}

}  // namespace kilim::net
