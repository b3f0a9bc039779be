// SPDX-License-Identifier: BSD-3-Clause
// The rows of ethdev_counted_fixture.hh, by which librte_ethdev calls are counted and passed on.
#include <cstdio>
#include <cstring>

#include "ethdev_counted_fixture.hh"
#include "net/kilim/ethdev.hh"

namespace ethdev_counted_ut {
namespace {

const eth_dev_ops& drivers = kilim::net::ethdev_ops;

template <auto Op>
struct Counted;
template <typename R, typename... A, R (*eth_dev_ops::*Op)(A...)>
struct Counted<Op> {
  static inline unsigned calls = 0;
  static R call(A... a) {
    calls++;
    return (drivers.*Op)(a...);
  }
  static void put(eth_dev_ops& to) { to.*Op = call; }
  static unsigned count() { return calls; }
};

struct OpRow {
  const char* name;
  void (*put)(eth_dev_ops&);
  unsigned (*count)();
};
template <auto Op>
constexpr OpRow counted(const char* name) {
  return {name, Counted<Op>::put, Counted<Op>::count};
}

constexpr OpRow op_rows[] = {
    counted<&eth_dev_ops::dev_configure>("dev_configure"),
    counted<&eth_dev_ops::dev_start>("dev_start"),
    counted<&eth_dev_ops::dev_stop>("dev_stop"),
    counted<&eth_dev_ops::dev_close>("dev_close"),
    counted<&eth_dev_ops::dev_reset>("dev_reset"),
    counted<&eth_dev_ops::link_update>("link_update"),
    counted<&eth_dev_ops::is_removed>("is_removed"),
    counted<&eth_dev_ops::promiscuous_enable>("promiscuous_enable"),
    counted<&eth_dev_ops::promiscuous_disable>("promiscuous_disable"),
    counted<&eth_dev_ops::allmulticast_enable>("allmulticast_enable"),
    counted<&eth_dev_ops::allmulticast_disable>("allmulticast_disable"),
    counted<&eth_dev_ops::mac_addr_remove>("mac_addr_remove"),
    counted<&eth_dev_ops::mac_addr_add>("mac_addr_add"),
    counted<&eth_dev_ops::mac_addr_set>("mac_addr_set"),
    counted<&eth_dev_ops::set_mc_addr_list>("set_mc_addr_list"),
    counted<&eth_dev_ops::mtu_set>("mtu_set"),
    counted<&eth_dev_ops::stats_get>("stats_get"),
    counted<&eth_dev_ops::stats_reset>("stats_reset"),
    counted<&eth_dev_ops::xstats_reset>("xstats_reset"),
    counted<&eth_dev_ops::xstats_get>("xstats_get"),
    counted<&eth_dev_ops::xstats_get_names>("xstats_get_names"),
    counted<&eth_dev_ops::dev_infos_get>("dev_infos_get"),
    counted<&eth_dev_ops::rxq_info_get>("rxq_info_get"),
    counted<&eth_dev_ops::txq_info_get>("txq_info_get"),
    counted<&eth_dev_ops::rx_burst_mode_get>("rx_burst_mode_get"),
    counted<&eth_dev_ops::tx_burst_mode_get>("tx_burst_mode_get"),
    counted<&eth_dev_ops::fw_version_get>("fw_version_get"),
    counted<&eth_dev_ops::dev_supported_ptypes_get>("dev_supported_ptypes_get"),
    counted<&eth_dev_ops::vlan_filter_set>("vlan_filter_set"),
    counted<&eth_dev_ops::vlan_strip_queue_set>("vlan_strip_queue_set"),
    counted<&eth_dev_ops::vlan_offload_set>("vlan_offload_set"),
    counted<&eth_dev_ops::rx_queue_start>("rx_queue_start"),
    counted<&eth_dev_ops::rx_queue_stop>("rx_queue_stop"),
    counted<&eth_dev_ops::tx_queue_start>("tx_queue_start"),
    counted<&eth_dev_ops::tx_queue_stop>("tx_queue_stop"),
    counted<&eth_dev_ops::rx_queue_setup>("rx_queue_setup"),
    counted<&eth_dev_ops::rx_queue_release>("rx_queue_release"),
    counted<&eth_dev_ops::rx_queue_intr_enable>("rx_queue_intr_enable"),
    counted<&eth_dev_ops::rx_queue_intr_disable>("rx_queue_intr_disable"),
    counted<&eth_dev_ops::tx_queue_setup>("tx_queue_setup"),
    counted<&eth_dev_ops::tx_queue_release>("tx_queue_release"),
    counted<&eth_dev_ops::tx_done_cleanup>("tx_done_cleanup"),
    counted<&eth_dev_ops::rss_hash_update>("rss_hash_update"),
    counted<&eth_dev_ops::rss_hash_conf_get>("rss_hash_conf_get"),
    counted<&eth_dev_ops::reta_update>("reta_update"),
    counted<&eth_dev_ops::reta_query>("reta_query"),
    counted<&eth_dev_ops::flow_ops_get>("flow_ops_get"),
    counted<&eth_dev_ops::read_clock>("read_clock"),
};

const eth_dev_ops counting = [] {
  eth_dev_ops o = drivers;
  for (const OpRow& row : op_rows) row.put(o);
  return o;
}();

}  // namespace
}  // namespace ethdev_counted_ut

void kilim::test::count_operations(uint16_t port_id) {
  if (rte_eth_devices[port_id].dev_ops == &ethdev_counted_ut::drivers)
    rte_eth_devices[port_id].dev_ops = &ethdev_counted_ut::counting;
}

int kilim::test::tell_uncalled() {
  int bad = 0;
  for (const ethdev_counted_ut::OpRow& row : ethdev_counted_ut::op_rows) {
    if (row.count() != 0) continue;
    std::printf("no case calls %s\n", row.name);
    bad++;
  }
  // An operation without a row stands in both tables.
  using NoOp = void (*)();
  NoOp own[sizeof(eth_dev_ops) / sizeof(NoOp)], other[std::size(own)];
  std::memcpy(own, &ethdev_counted_ut::drivers, sizeof own);
  std::memcpy(other, &ethdev_counted_ut::counting, sizeof other);
  for (std::size_t i = 0; i < std::size(own); i++) {
    if (own[i] == nullptr || own[i] != other[i]) continue;
    std::printf("operation %zu of the driver's table has no row here\n", i);
    bad++;
  }
  return bad;
}
