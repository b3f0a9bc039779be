// SPDX-License-Identifier: BSD-3-Clause
// The part of DPDK's ABI between librte_ethdev and its drivers, for systems without DPDK's driver
// SDK (doc/decisions/0007, 0041, 0111): the structures of a port, the table of its operations and
// of its flow rules, and the functions that librte_ethdev and librte_eal export under the version
// INTERNAL. Names, order and types are DPDK's ABI; operations that no Kilim port has are places
// without a name. What differs between releases comes from net/kilim/dpdk_releases.hh.
// test/net/ethdev_abi_ut.cc asks the running library about each.
#pragma once

#include "net/kilim/dpdk_abi.hh"
#include "net/kilim/dpdk_releases.hh"

#ifdef KILIM_DPDK_DRIVER_SDK

#include <ethdev_driver.h>
#include <rte_flow_driver.h>

#else

#include <cstdio>
#include <type_traits>

#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>

namespace kilim::net {

// `count` functions in a row of which Kilim has none; without any it takes no room. `Where` keeps
// rows of one structure different types, so that two empty ones may lie at one offset.
template <unsigned count, int where>
struct Places {
  void (*at[count])();
};
template <int where>
struct Places<0, where> {};

}  // namespace kilim::net

// The counts of each queue, which 25.11 took out of rte_eth_stats (DPDK ethdev_driver.h).
struct eth_queue_stats {
  static constexpr unsigned queues = 16;  // RTE_ETHDEV_QUEUE_STAT_CNTRS
  uint64_t q_ipackets[queues], q_opackets[queues], q_ibytes[queues], q_obytes[queues];
  uint64_t q_errors[queues];
};

extern "C" {

// A function that a user of the port has set behind its bursts.
struct rte_eth_rxtx_callback;

// What processes share of a port (DPDK ethdev_driver.h, struct rte_eth_dev_data).
struct rte_eth_dev_data {
  char name[RTE_ETH_NAME_MAX_LEN];
  void** rx_queues;  // the driver's, by number
  void** tx_queues;
  uint16_t nb_rx_queues;
  uint16_t nb_tx_queues;
  rte_eth_dev_sriov sriov;
  void* dev_private;  // of rte_malloc(): librte_ethdev frees it
  rte_eth_link dev_link;
  rte_eth_conf dev_conf;
  uint16_t mtu;
  uint32_t min_rx_buf_size;
  uint64_t rx_mbuf_alloc_failed;
  rte_ether_addr* mac_addrs;  // of rte_malloc() too; the first is the port's own
  uint64_t mac_pool_sel[RTE_ETH_NUM_RECEIVE_MAC_ADDR];
  rte_ether_addr* hash_mac_addrs;
  uint16_t port_id;
  uint8_t promiscuous : 1, scattered_rx : 1, all_multicast : 1, dev_started : 1, lro : 1,
      dev_configured : 1, flow_configured : 1;
  uint8_t rx_queue_state[RTE_MAX_QUEUES_PER_PORT];
  uint8_t tx_queue_state[RTE_MAX_QUEUES_PER_PORT];
  uint32_t dev_flags;
  int numa_node;
  rte_vlan_filter_conf vlan_filter_conf;
  rte_eth_dev_owner owner;
  uint16_t representor_id;
  uint16_t backer_port_id;
  pthread_mutex_t flow_ops_mutex;
} __rte_cache_aligned;

struct eth_dev_ops;

// A port in one process (struct rte_eth_dev).
struct rte_eth_dev {
  eth_rx_burst_t rx_pkt_burst;
  eth_tx_burst_t tx_pkt_burst;
  eth_tx_prep_t tx_pkt_prepare;
  eth_rx_queue_count_t rx_queue_count;
  eth_rx_descriptor_status_t rx_descriptor_status;
  [[no_unique_address]] kilim::net::Places<kilim::net::built_for.tx_counts, 0> tx_counts;
  eth_tx_descriptor_status_t tx_descriptor_status;
  [[no_unique_address]] kilim::net::Places<kilim::net::built_for.recycling, 1> recycling;
  rte_eth_dev_data* data;
  void* process_private;
  const eth_dev_ops* dev_ops;
  [[no_unique_address]] kilim::net::Places<kilim::net::built_for.flow_fast_path, 2> flow_fast_path;
  rte_device* device;
  rte_intr_handle* intr_handle;
  rte_eth_dev_cb_list link_intr_cbs;
  rte_eth_rxtx_callback* post_rx_burst_cbs[RTE_MAX_QUEUES_PER_PORT];
  rte_eth_rxtx_callback* pre_tx_burst_cbs[RTE_MAX_QUEUES_PER_PORT];
  rte_eth_dev_state state;
  void* security_ctx;
} __rte_cache_aligned;
static_assert(sizeof(void*) != 8 || sizeof(rte_eth_dev) == kilim::net::built_for.port_bytes);

struct rte_flow_ops;

// The operations of a port (struct eth_dev_ops). They return 0 or a negative errno.
struct eth_dev_ops {
  using Op = int (*)(rte_eth_dev* dev);
  using OpOfQueue = int (*)(rte_eth_dev* dev, uint16_t queue);
  using NoOp = void (*)();
  using Stats = int (*)(rte_eth_dev* dev, rte_eth_stats* stats);
  using StatsApart = int (*)(rte_eth_dev* dev, rte_eth_stats* stats, eth_queue_stats* queues);
  using Types = const uint32_t* (*)(rte_eth_dev* dev);
  using CountedTypes = const uint32_t* (*)(rte_eth_dev* dev, size_t* count);
  // Places that not every release has.
  static constexpr const kilim::net::DpdkRelease& has = kilim::net::built_for;

  Op dev_configure, dev_start, dev_stop, dev_set_link_up, dev_set_link_down, dev_close, dev_reset;
  int (*link_update)(rte_eth_dev* dev, int wait);
  [[no_unique_address]] kilim::net::Places<has.speed_lanes, 0> speed_lanes;
  Op is_removed;

  Op promiscuous_enable, promiscuous_disable, allmulticast_enable, allmulticast_disable;
  void (*mac_addr_remove)(rte_eth_dev* dev, uint32_t index);
  int (*mac_addr_add)(rte_eth_dev* dev, rte_ether_addr* mac, uint32_t index, uint32_t vmdq);
  int (*mac_addr_set)(rte_eth_dev* dev, rte_ether_addr* mac);
  int (*set_mc_addr_list)(rte_eth_dev* dev, rte_ether_addr* macs, uint32_t count);
  int (*mtu_set)(rte_eth_dev* dev, uint16_t mtu);

  std::conditional_t<has.queues_apart, StatsApart, Stats> stats_get;
  Op stats_reset;
  int (*xstats_get)(rte_eth_dev* dev, rte_eth_xstat* stats, unsigned count);
  Op xstats_reset;
  int (*xstats_get_names)(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count);
  NoOp queue_stats_mapping_set;

  int (*dev_infos_get)(rte_eth_dev* dev, rte_eth_dev_info* info);
  void (*rxq_info_get)(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info);
  void (*txq_info_get)(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info);
  [[no_unique_address]] kilim::net::Places<has.recycled_rxq, 1> recycled_rxq;
  int (*rx_burst_mode_get)(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode);
  int (*tx_burst_mode_get)(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode);
  int (*fw_version_get)(rte_eth_dev* dev, char* text, size_t bytes);
  std::conditional_t<has.counts_types, CountedTypes, Types> dev_supported_ptypes_get;
  NoOp dev_ptypes_set;

  int (*vlan_filter_set)(rte_eth_dev* dev, uint16_t vlan, int on);
  NoOp vlan_tpid_set;
  void (*vlan_strip_queue_set)(rte_eth_dev* dev, uint16_t queue, int on);
  int (*vlan_offload_set)(rte_eth_dev* dev, int mask);
  NoOp vlan_pvid_set;

  OpOfQueue rx_queue_start, rx_queue_stop, tx_queue_start, tx_queue_stop;
  int (*rx_queue_setup)(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket,
                        const rte_eth_rxconf* conf, rte_mempool* pool);
  void (*rx_queue_release)(rte_eth_dev* dev, uint16_t queue);
  OpOfQueue rx_queue_intr_enable, rx_queue_intr_disable;
  int (*tx_queue_setup)(rte_eth_dev* dev, uint16_t queue, uint16_t descriptors, unsigned socket,
                        const rte_eth_txconf* conf);
  void (*tx_queue_release)(rte_eth_dev* dev, uint16_t queue);
  int (*tx_done_cleanup)(void* queue, uint32_t count);

  NoOp led[2], flow_control[5], hash_filters[2], udp_tunnels[2], set_queue_rate_limit;

  int (*rss_hash_update)(rte_eth_dev* dev, rte_eth_rss_conf* conf);
  int (*rss_hash_conf_get)(rte_eth_dev* dev, rte_eth_rss_conf* conf);
  int (*reta_update)(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries);
  int (*reta_query)(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t entries);

  NoOp registers_and_eeprom[6];
  int (*flow_ops_get)(rte_eth_dev* dev, const rte_flow_ops** ops);
  NoOp get_dcb_info;
  kilim::net::Places<has.timesync, 2> timesync;
  int (*read_clock)(rte_eth_dev* dev, uint64_t* ticks);
  int (*xstats_get_by_id)(rte_eth_dev* dev, const uint64_t* ids, uint64_t* values, unsigned count);
  int (*xstats_get_names_by_id)(rte_eth_dev* dev, const uint64_t* ids, rte_eth_xstat_name* names,
                                unsigned count);
  [[no_unique_address]] kilim::net::Places<has.xstats_counters, 3> xstats_counters;
  NoOp managers[2], pool_ops_supported, hairpin[3], fec[3], hairpin_peers[6], get_monitor_addr,
      representor_info_get, rx_metadata_negotiate, ip_reassembly[3], buffer_split;
  int (*eth_dev_priv_dump)(rte_eth_dev* dev, FILE* file);
  NoOp thresholds[2], descriptor_dumps[2], congestion[4];
  [[no_unique_address]] kilim::net::Places<has.aggregated_ports, 4> aggregated_ports;
  [[no_unique_address]] kilim::net::Places<has.restore_flags, 5> restore_flags;
};
static_assert(sizeof(eth_dev_ops) == kilim::net::built_for.ops * sizeof(eth_dev_ops::NoOp));

// The operations of flow rules (DPDK rte_flow_driver.h, struct rte_flow_ops).
struct rte_flow_ops {
  int (*validate)(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item items[],
                  const rte_flow_action actions[], rte_flow_error* error);
  rte_flow* (*create)(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item items[],
                      const rte_flow_action actions[], rte_flow_error* error);
  int (*destroy)(rte_eth_dev* dev, rte_flow* flow, rte_flow_error* error);
  int (*flush)(rte_eth_dev* dev, rte_flow_error* error);
  int (*query)(rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* action, void* data,
               rte_flow_error* error);
  int (*isolate)(rte_eth_dev* dev, int on, rte_flow_error* error);
  int (*dev_dump)(rte_eth_dev* dev, rte_flow* flow, FILE* file, rte_flow_error* error);
  int (*get_aged_flows)(rte_eth_dev* dev, void** contexts, uint32_t count, rte_flow_error* error);
  eth_dev_ops::NoOp handles_and_templates[23];
  int (*push)(rte_eth_dev* dev, uint32_t queue, rte_flow_error* error);
  int (*pull)(rte_eth_dev* dev, uint32_t queue, rte_flow_op_result results[], uint16_t count,
              rte_flow_error* error);
  eth_dev_ops::NoOp others[40];  // more than there are: all null
};

rte_eth_dev* rte_eth_dev_allocate(const char* name);
rte_eth_dev* rte_eth_dev_allocated(const char* name);
rte_eth_dev* rte_eth_dev_attach_secondary(const char* name);
int rte_eth_dev_release_port(rte_eth_dev* dev);
void rte_eth_dev_probing_finish(rte_eth_dev* dev);
int rte_eth_dev_callback_process(rte_eth_dev* dev, rte_eth_event_type event, void* parameter);
extern rte_eth_dev rte_eth_devices[];

}  // extern "C"

#endif
