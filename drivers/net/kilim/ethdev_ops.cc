// SPDX-License-Identifier: BSD-3-Clause
// The table of operations that librte_ethdev calls. Threads: as ethdev's own functions.
#include <cerrno>
#include <cstdio>

#include "net/kilim/ethdev_ops_abi.hh"

namespace kilim::net {
namespace {

int configure(rte_eth_dev* dev) {
  return ethdev_of(dev).configure();
}
int start(rte_eth_dev* dev) {
  return ethdev_of(dev).start();
}
int stop(rte_eth_dev* dev) {
  return ethdev_of(dev).stop();
}
int close(rte_eth_dev* dev) {
  return ethdev_of(dev).close();
}
int reset(rte_eth_dev* dev) {
  return ethdev_of(dev).reset();
}
int update_link(rte_eth_dev* dev, int) {
  return ethdev_of(dev).update_link(false);
}
int is_removed(rte_eth_dev* dev) {
  return ethdev_of(dev).is_lost() ? 1 : 0;
}
int enable_promiscuous(rte_eth_dev* dev) {
  return ethdev_of(dev).set_promiscuous(true);
}
int disable_promiscuous(rte_eth_dev* dev) {
  return ethdev_of(dev).set_promiscuous(false);
}
int enable_all_multicast(rte_eth_dev* dev) {
  return ethdev_of(dev).set_all_multicast(true);
}
int disable_all_multicast(rte_eth_dev* dev) {
  return ethdev_of(dev).set_all_multicast(false);
}
void remove_mac(rte_eth_dev* dev, uint32_t index) {
  (void)ethdev_of(dev).set_further(index, nullptr);
}
int add_mac(rte_eth_dev* dev, rte_ether_addr* mac, uint32_t index, uint32_t) {
  return ethdev_of(dev).set_further(index, mac);
}
int set_mac(rte_eth_dev* dev, rte_ether_addr* mac) {
  return ethdev_of(dev).set_address(*mac);
}
int set_multicast_list(rte_eth_dev* dev, rte_ether_addr* macs, uint32_t count) {
  return ethdev_of(dev).set_multicast({macs, count});
}
int set_mtu(rte_eth_dev* dev, uint16_t mtu) {
  return ethdev_of(dev).set_mtu(mtu);
}

int tell_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  return ethdev_of(dev).fill_info(*info);
}
// Fills in the information for a secondary process. The primary's pointers in it would mean nothing
// here, so those stay as ethdev filled them in.
int tell_kept_info(rte_eth_dev* dev, rte_eth_dev_info* info) {
  const rte_eth_dev_info from_ethdev = *info;
  *info = shared_of(dev).info;
  info->device = from_ethdev.device;
  info->switch_info = from_ethdev.switch_info;
  info->driver_name = from_ethdev.driver_name;
  info->dev_flags = from_ethdev.dev_flags;
  return 0;
}

int tell_firmware(rte_eth_dev* dev, char* text, size_t bytes) {
  const int n = std::snprintf(text, bytes, "%s", ethdev_of(dev).port().device().name());
  return static_cast<size_t>(n) < bytes ? 0 : n + 1;
}

int set_vlan(rte_eth_dev* dev, uint16_t vlan, int on) {
  return ethdev_of(dev).set_vlan(vlan, on != 0);
}
void strip_queue(rte_eth_dev* dev, uint16_t queue, int on) {
  (void)ethdev_of(dev).strip_vlan(queue, on != 0);
}
int set_vlan_offload(rte_eth_dev* dev, int mask) {
  return ethdev_of(dev).set_vlan_offload(mask);
}

int start_rx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).start_rx(queue);
}
int stop_rx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).stop_rx(queue);
}
int start_tx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).start_tx(queue);
}
int stop_tx(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).stop_tx(queue);
}
// NOLINTNEXTLINE(readability-function-size): the parameters of eth_rx_queue_setup_t
int set_up_rx(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned,
              const rte_eth_rxconf* conf, rte_mempool* pool) {
  if (pool == nullptr) return -ENOTSUP;  // buffer split and several mempools a queue
  return ethdev_of(dev).set_up_rx(queue, descriptors, *conf, *pool);
}
int set_up_tx(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned,
              const rte_eth_txconf* conf) {
  return ethdev_of(dev).set_up_tx(queue, descriptors, *conf);
}
void release_rx(rte_eth_dev* dev, uint16_t queue) {
  ethdev_of(dev).release_rx(queue);
}
void release_tx(rte_eth_dev* dev, uint16_t queue) {
  ethdev_of(dev).release_tx(queue);
}
int enable_interrupt(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).enable_interrupt(queue, true);
}
int disable_interrupt(rte_eth_dev* dev, uint16_t queue) {
  return ethdev_of(dev).enable_interrupt(queue, false);
}
// The count to stop at is in packets: more may go, as a completion is for a whole burst.
int clean_tx(void* queue, uint32_t) {
  auto& q = *static_cast<MbufTx*>(queue);
  const TxVisit visit{q};
  if (q.down) return 0;
  if (q.poller.fn != nullptr) q.poller.fn(q.poller.context, q.mask + 1);
  return static_cast<int>(reclaim_mbuf_tx(q));
}

void tell_rxq(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info) {
  ethdev_of(dev).tell_rxq(queue, *info);
}
void tell_txq(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info) {
  ethdev_of(dev).tell_txq(queue, *info);
}
int tell_flow_ops(rte_eth_dev*, const rte_flow_ops** ops) {
  *ops = &ethdev_flow_ops;
  return 0;
}

int read_clock(rte_eth_dev* dev, uint64_t* ticks) {
  const auto now = ethdev_of(dev).port().device().ticks();
  if (!now) return -now.error().code;
  *ticks = *now;
  return 0;
}

constexpr eth_dev_ops make_ops() noexcept {
  eth_dev_ops o{};
  o.dev_configure = configure;
  o.dev_start = start;
  o.dev_stop = stop;
  o.dev_close = close;
  o.dev_reset = reset;
  o.link_update = update_link;
  o.is_removed = is_removed;
  o.promiscuous_enable = enable_promiscuous;
  o.promiscuous_disable = disable_promiscuous;
  o.allmulticast_enable = enable_all_multicast;
  o.allmulticast_disable = disable_all_multicast;
  o.mac_addr_remove = remove_mac;
  o.mac_addr_add = add_mac;
  o.mac_addr_set = set_mac;
  o.set_mc_addr_list = set_multicast_list;
  o.mtu_set = set_mtu;
  o.stats_get = read_stats;
  o.stats_reset = o.xstats_reset = reset_stats;
  o.xstats_get = read_xstats;
  o.xstats_get_names = read_xstat_names;
  o.dev_infos_get = tell_info;
  o.rxq_info_get = tell_rxq;
  o.txq_info_get = tell_txq;
  o.rx_burst_mode_get = tell_rx_mode;
  o.tx_burst_mode_get = tell_tx_mode;
  o.fw_version_get = tell_firmware;
  o.dev_supported_ptypes_get = tell_types;
  o.vlan_filter_set = set_vlan;
  o.vlan_strip_queue_set = strip_queue;
  o.vlan_offload_set = set_vlan_offload;
  o.rx_queue_start = start_rx;
  o.rx_queue_stop = stop_rx;
  o.tx_queue_start = start_tx;
  o.tx_queue_stop = stop_tx;
  o.rx_queue_setup = set_up_rx;
  o.rx_queue_release = release_rx;
  o.rx_queue_intr_enable = enable_interrupt;
  o.rx_queue_intr_disable = disable_interrupt;
  o.tx_queue_setup = set_up_tx;
  o.tx_queue_release = release_tx;
  o.tx_done_cleanup = clean_tx;
  o.rss_hash_update = update_rss;
  o.rss_hash_conf_get = tell_rss;
  o.reta_update = update_reta;
  o.reta_query = tell_reta;
  o.flow_ops_get = tell_flow_ops;
  o.read_clock = read_clock;
  return o;
}

int close_secondary(rte_eth_dev*) {
  return 0;
}

constexpr eth_dev_ops make_secondary_ops() noexcept {
  eth_dev_ops o{};
  o.dev_close = close_secondary;
  o.stats_get = read_stats;
  o.xstats_get = read_xstats;
  o.xstats_get_names = read_xstat_names;
  o.dev_infos_get = tell_kept_info;
  o.dev_supported_ptypes_get = tell_types;
  return o;
}

}  // namespace

const eth_dev_ops ethdev_ops = make_ops();
const eth_dev_ops secondary_ops = make_secondary_ops();

}  // namespace kilim::net
