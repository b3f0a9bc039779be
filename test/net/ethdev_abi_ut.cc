// SPDX-License-Identifier: BSD-3-Clause
// Our description of DPDK's driver interface (net/kilim/ethdev_abi.hh, dpdk_releases.hh), held
// against the librte_ethdev that runs: each operation's place by calling it through the public
// function, each member's by setting one side and reading the other.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "eal.hh"
#include "net/kilim/dpdk_check.hh"
#include "net/kilim/ethdev_abi.hh"
#include "ut.hh"

namespace ethdev_abi_ut {
namespace {

std::string called;         // the operation that ran last
std::set<std::string> ran;  // all that ran

void run(const char* name) {
  ran.insert(called = name);
}

#define KILIM_OP(name) \
  [](auto...) -> int { \
    run(#name);        \
    return 0;          \
  }
#define KILIM_VOID_OP(name) [](auto...) -> void { run(#name); }

void fill_port_ops(eth_dev_ops& o) {
  o.dev_configure = KILIM_OP(dev_configure);
  o.dev_start = KILIM_OP(dev_start);
  o.dev_stop = KILIM_OP(dev_stop);
  o.dev_set_link_up = KILIM_OP(dev_set_link_up);
  o.dev_set_link_down = KILIM_OP(dev_set_link_down);
  o.dev_close = KILIM_OP(dev_close);
  o.dev_reset = KILIM_OP(dev_reset);
  o.link_update = KILIM_OP(link_update);
  o.is_removed = KILIM_OP(is_removed);
  o.promiscuous_enable = KILIM_OP(promiscuous_enable);
  o.promiscuous_disable = KILIM_OP(promiscuous_disable);
  o.allmulticast_enable = KILIM_OP(allmulticast_enable);
  o.allmulticast_disable = KILIM_OP(allmulticast_disable);
  o.mac_addr_remove = KILIM_VOID_OP(mac_addr_remove);
  o.mac_addr_add = KILIM_OP(mac_addr_add);
  o.mac_addr_set = KILIM_OP(mac_addr_set);
  o.set_mc_addr_list = KILIM_OP(set_mc_addr_list);
  o.mtu_set = KILIM_OP(mtu_set);
  o.stats_get = KILIM_OP(stats_get);
  o.stats_reset = KILIM_OP(stats_reset);
  o.xstats_get = KILIM_OP(xstats_get);
  o.xstats_reset = KILIM_OP(xstats_reset);
  o.xstats_get_names = KILIM_OP(xstats_get_names);
  o.dev_infos_get = [](rte_eth_dev*, rte_eth_dev_info* info) -> int {
    run("dev_infos_get");
    info->max_rx_queues = info->max_tx_queues = 4;
    info->max_mac_addrs = 4;
    info->min_mtu = 68;
    info->max_mtu = 9000;
    info->max_rx_pktlen = 9018;
    info->min_rx_bufsize = 64;
    info->reta_size = 128;
    info->rx_desc_lim = info->tx_desc_lim = {8192, 64, 1, 16, 16};
    info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_VLAN_FILTER | RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    return 0;
  };
}

void fill_queue_ops(eth_dev_ops& o) {
  o.rxq_info_get = KILIM_VOID_OP(rxq_info_get);
  o.txq_info_get = KILIM_VOID_OP(txq_info_get);
  o.rx_burst_mode_get = KILIM_OP(rx_burst_mode_get);
  o.tx_burst_mode_get = KILIM_OP(tx_burst_mode_get);
  o.fw_version_get = KILIM_OP(fw_version_get);
  o.dev_supported_ptypes_get = [](auto...) -> const uint32_t* {
    run("dev_supported_ptypes_get");
    return nullptr;
  };
  o.vlan_filter_set = KILIM_OP(vlan_filter_set);
  o.vlan_strip_queue_set = KILIM_VOID_OP(vlan_strip_queue_set);
  o.vlan_offload_set = KILIM_OP(vlan_offload_set);
  o.rx_queue_start = KILIM_OP(rx_queue_start);
  o.rx_queue_stop = KILIM_OP(rx_queue_stop);
  o.tx_queue_start = KILIM_OP(tx_queue_start);
  o.tx_queue_stop = KILIM_OP(tx_queue_stop);
  o.rx_queue_setup = KILIM_OP(rx_queue_setup);
  o.rx_queue_release = KILIM_VOID_OP(rx_queue_release);
  o.rx_queue_intr_enable = KILIM_OP(rx_queue_intr_enable);
  o.rx_queue_intr_disable = KILIM_OP(rx_queue_intr_disable);
  o.tx_queue_setup = KILIM_OP(tx_queue_setup);
  o.tx_queue_release = KILIM_VOID_OP(tx_queue_release);
  o.tx_done_cleanup = [](void*, uint32_t) -> int {
    run("tx_done_cleanup");
    return 0;
  };
  o.rss_hash_update = KILIM_OP(rss_hash_update);
  o.rss_hash_conf_get = KILIM_OP(rss_hash_conf_get);
  o.reta_update = KILIM_OP(reta_update);
  o.reta_query = KILIM_OP(reta_query);
  o.flow_ops_get = [](rte_eth_dev*, const rte_flow_ops** ops) -> int {
    run("flow_ops_get");
    *ops = nullptr;  // no rules: the library goes no further
    return 0;
  };
  o.read_clock = KILIM_OP(read_clock);
  o.xstats_get_by_id = KILIM_OP(xstats_get_by_id);
  o.xstats_get_names_by_id = KILIM_OP(xstats_get_names_by_id);
  o.eth_dev_priv_dump = [](rte_eth_dev*, FILE*) -> int {
    run("eth_dev_priv_dump");
    return 0;
  };
}

eth_dev_ops probe_ops() {
  eth_dev_ops o{};
  fill_port_ops(o);
  fill_queue_ops(o);
  return o;
}

const eth_dev_ops ops = probe_ops();
rte_eth_dev* dev = nullptr;
uint16_t port = 0;

rte_eth_dev* make(const char* name) {
  rte_eth_dev* const d = rte_eth_dev_allocate(name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  d->data->mac_addrs =
      static_cast<rte_ether_addr*>(rte_zmalloc("m", 4 * sizeof(rte_ether_addr), 0));
  d->data->dev_private = rte_zmalloc("p", 64, 0);
  d->dev_ops = &ops;
  static rte_driver driver{{}, "abi_probe", nullptr};
  static rte_device device{};
  device.name = "abi";
  device.driver = &driver;
  d->device = &device;
  rte_eth_dev_probing_finish(d);
  return d;
}

void begin() {
  if (dev != nullptr) return;
  CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
  dev = make("abi_probe0");
  port = dev->data->port_id;
}

void structures_are_as_long_as_the_librarys() {
  begin();
  rte_eth_dev* const next = make("abi_probe1");
  EQUAL(next - dev, ptrdiff_t{1});
  EQUAL(reinterpret_cast<std::byte*>(next) - reinterpret_cast<std::byte*>(dev),
        static_cast<ptrdiff_t>(sizeof(rte_eth_dev)));
  EQUAL(reinterpret_cast<std::byte*>(next->data) - reinterpret_cast<std::byte*>(dev->data),
        static_cast<ptrdiff_t>(sizeof(rte_eth_dev_data)));
  EQUAL(dev, &rte_eth_devices[port]);
  EQUAL(next->data->port_id, static_cast<uint16_t>(port + 1));
  EQUAL(next->data->backer_port_id, static_cast<uint16_t>(RTE_MAX_ETHPORTS));
  EQUAL(std::string(next->data->name), std::string("abi_probe1"));
  EQUAL(next->data->mtu, static_cast<uint16_t>(RTE_ETHER_MTU));
  EQUAL(rte_eth_dev_release_port(next), 0);
  EQUAL(next->data == nullptr || next->data->name[0] == '\0', true);  // null since 23.11
}

// Sets a member and asks the library, or has the library set it.
void members_lie_where_the_library_looks() {
  begin();
  rte_eth_dev_data& data = *dev->data;
  data.numa_node = 0;
  EQUAL(rte_eth_dev_socket_id(port), 0);
  data.promiscuous = 1;
  EQUAL(rte_eth_promiscuous_get(port), 1);
  data.promiscuous = 0;
  EQUAL(rte_eth_promiscuous_get(port), 0);
  data.all_multicast = 1;
  EQUAL(rte_eth_allmulticast_get(port), 1);
  data.all_multicast = 0;
  data.mtu = 1234;
  uint16_t mtu = 0;
  EQUAL(rte_eth_dev_get_mtu(port, &mtu), 0);
  EQUAL(mtu, uint16_t{1234});
  data.mtu = 1500;
  data.mac_addrs[0].addr_bytes[5] = 7;
  rte_ether_addr mac{};
  EQUAL(rte_eth_macaddr_get(port, &mac), 0);
  EQUAL(mac.addr_bytes[5], uint8_t{7});
  data.dev_link.link_speed = 4321;
  data.dev_link.link_status = 1;
  data.dev_conf.intr_conf.lsc = 1;  // then the link is read from the data, when it is started
  data.dev_started = 1;
  rte_eth_link link{};
  EQUAL(rte_eth_link_get_nowait(port, &link), 0);
  EQUAL(link.link_speed, uint32_t{4321});
  data.dev_conf.intr_conf.lsc = 0;
  data.dev_started = 0;
  data.dev_flags = RTE_ETH_DEV_INTR_LSC;
  rte_eth_dev_info info{};
  EQUAL(rte_eth_dev_info_get(port, &info), 0);
  EQUAL(*info.dev_flags, uint32_t{RTE_ETH_DEV_INTR_LSC});
  EQUAL(info.device, const_cast<const rte_device*>(dev->device));
  EQUAL(std::string(info.driver_name), std::string("abi_probe"));
  data.rx_mbuf_alloc_failed = 99;
  rte_eth_stats stats{};
  EQUAL(rte_eth_stats_get(port, &stats), 0);
  EQUAL(stats.rx_nombuf, uint64_t{99});
  data.dev_flags = 0;
  rte_eth_dev_owner owner{};
  uint64_t id = 0;
  EQUAL(rte_eth_dev_owner_new(&id), 0);
  owner.id = id;
  std::strcpy(owner.name, "abi");
  EQUAL(rte_eth_dev_owner_set(port, &owner), 0);
  EQUAL(data.owner.id, id);
  EQUAL(std::string(data.owner.name), std::string("abi"));
  EQUAL(rte_eth_dev_owner_unset(port, id), 0);
  dev->state = RTE_ETH_DEV_UNUSED;
  EQUAL(rte_eth_dev_is_valid_port(port), 0);
  dev->state = RTE_ETH_DEV_ATTACHED;
  EQUAL(rte_eth_dev_is_valid_port(port), 1);
}

// The numbers of rows: an operation that stands elsewhere is not called, or another one is.
#define KILIM_CALLS(name, ...)         \
  do {                                 \
    called = "";                       \
    (void)(__VA_ARGS__);               \
    EQUAL(called, std::string(#name)); \
  } while (false)

void operations_of_the_beginning() {
  begin();
  rte_eth_dev_data& data = *dev->data;
  rte_eth_conf conf{};
  KILIM_CALLS(dev_configure, rte_eth_dev_configure(port, 2, 3, &conf));
  EQUAL(data.nb_rx_queues, uint16_t{2});
  EQUAL(data.nb_tx_queues, uint16_t{3});
  EQUAL(data.dev_configured, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data.rx_queues);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data.tx_queues);
  data.rx_queues[0] = data.rx_queues[1] = data.tx_queues[0] = &data;
  data.rx_queue_state[0] = data.rx_queue_state[1] = RTE_ETH_QUEUE_STATE_STARTED;
  KILIM_CALLS(link_update, rte_eth_dev_start(port));  // the last one of a start
  EQUAL(data.dev_started, 1);
  KILIM_CALLS(rx_queue_stop, rte_eth_dev_rx_queue_stop(port, 0));
  data.rx_queue_state[0] = RTE_ETH_QUEUE_STATE_STOPPED;
  KILIM_CALLS(rx_queue_start, rte_eth_dev_rx_queue_start(port, 0));
  data.tx_queue_state[0] = RTE_ETH_QUEUE_STATE_STARTED;
  KILIM_CALLS(tx_queue_stop, rte_eth_dev_tx_queue_stop(port, 0));
  data.tx_queue_state[0] = RTE_ETH_QUEUE_STATE_STOPPED;
  KILIM_CALLS(tx_queue_start, rte_eth_dev_tx_queue_start(port, 0));
}

void operations_of_the_port() {
  rte_eth_dev_data& data = *dev->data;
  KILIM_CALLS(dev_set_link_up, rte_eth_dev_set_link_up(port));
  KILIM_CALLS(dev_set_link_down, rte_eth_dev_set_link_down(port));
  KILIM_CALLS(promiscuous_enable, rte_eth_promiscuous_enable(port));
  EQUAL(data.promiscuous, 1);
  KILIM_CALLS(promiscuous_disable, rte_eth_promiscuous_disable(port));
  KILIM_CALLS(allmulticast_enable, rte_eth_allmulticast_enable(port));
  EQUAL(data.all_multicast, 1);
  KILIM_CALLS(allmulticast_disable, rte_eth_allmulticast_disable(port));
  rte_ether_addr mac{{2, 0, 0, 0, 0, 9}};
  KILIM_CALLS(mac_addr_add, rte_eth_dev_mac_addr_add(port, &mac, 0));
  EQUAL(data.mac_pool_sel[1], uint64_t{1});
  KILIM_CALLS(mac_addr_remove, rte_eth_dev_mac_addr_remove(port, &mac));
  KILIM_CALLS(mac_addr_set, rte_eth_dev_default_mac_addr_set(port, &mac));
  KILIM_CALLS(set_mc_addr_list, rte_eth_dev_set_mc_addr_list(port, &mac, 1));
  KILIM_CALLS(mtu_set, rte_eth_dev_set_mtu(port, 1600));
  EQUAL(data.mtu, uint16_t{1600});
  rte_eth_stats stats{};
  KILIM_CALLS(stats_get, rte_eth_stats_get(port, &stats));
  KILIM_CALLS(stats_reset, rte_eth_stats_reset(port));
  KILIM_CALLS(xstats_reset, rte_eth_xstats_reset(port));
  KILIM_CALLS(xstats_get_names, rte_eth_xstats_get_names(port, nullptr, 0));
  KILIM_CALLS(xstats_get, rte_eth_xstats_get(port, nullptr, 0));
  uint64_t of_driver = 1 << 20;  // behind all that ethdev counts by itself
  uint64_t value = 0;
  rte_eth_xstat_name name{};
  KILIM_CALLS(xstats_get_by_id, rte_eth_xstats_get_by_id(port, &of_driver, &value, 1));
  KILIM_CALLS(xstats_get_names_by_id, rte_eth_xstats_get_names_by_id(port, &name, 1, &of_driver));
}

void operations_of_queues() {
  rte_eth_dev_data& data = *dev->data;
  rte_eth_rxq_info rxq{};
  rte_eth_txq_info txq{};
  rte_eth_burst_mode mode{};
  KILIM_CALLS(rxq_info_get, rte_eth_rx_queue_info_get(port, 0, &rxq));
  KILIM_CALLS(txq_info_get, rte_eth_tx_queue_info_get(port, 0, &txq));
  KILIM_CALLS(rx_burst_mode_get, rte_eth_rx_burst_mode_get(port, 0, &mode));
  KILIM_CALLS(tx_burst_mode_get, rte_eth_tx_burst_mode_get(port, 0, &mode));
  char text[64];
  KILIM_CALLS(fw_version_get, rte_eth_dev_fw_version_get(port, text, sizeof text));
  KILIM_CALLS(dev_supported_ptypes_get,
              rte_eth_dev_get_supported_ptypes(port, RTE_PTYPE_ALL_MASK, nullptr, 0));
  data.dev_conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
  KILIM_CALLS(vlan_filter_set, rte_eth_dev_vlan_filter(port, 70, 1));
  EQUAL(data.vlan_filter_conf.ids[1], uint64_t{1} << 6);
  KILIM_CALLS(vlan_strip_queue_set, rte_eth_dev_set_vlan_strip_on_queue(port, 0, 1));
  KILIM_CALLS(vlan_offload_set, rte_eth_dev_set_vlan_offload(port, RTE_ETH_VLAN_STRIP_OFFLOAD));
  KILIM_CALLS(rx_queue_intr_enable, rte_eth_dev_rx_intr_enable(port, 0));
  KILIM_CALLS(rx_queue_intr_disable, rte_eth_dev_rx_intr_disable(port, 0));
  KILIM_CALLS(tx_done_cleanup, rte_eth_tx_done_cleanup(port, 0, 0));
  data.dev_conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  rte_eth_rss_conf rss{};
  KILIM_CALLS(rss_hash_update, rte_eth_dev_rss_hash_update(port, &rss));
  KILIM_CALLS(rss_hash_conf_get, rte_eth_dev_rss_hash_conf_get(port, &rss));
  rte_eth_rss_reta_entry64 reta[2]{};
  reta[0].mask = 1;
  KILIM_CALLS(reta_update, rte_eth_dev_rss_reta_update(port, reta, 128));
  KILIM_CALLS(reta_query, rte_eth_dev_rss_reta_query(port, reta, 128));
  uint64_t ticks = 0;
  KILIM_CALLS(read_clock, rte_eth_read_clock(port, &ticks));
  KILIM_CALLS(eth_dev_priv_dump, rte_eth_dev_priv_dump(port, stderr));
  KILIM_CALLS(is_removed, rte_eth_dev_is_removed(port));
  rte_flow_error error{};
  KILIM_CALLS(flow_ops_get, rte_flow_isolate(port, 1, &error));
}

void operations_of_the_end() {
  rte_eth_dev_data& data = *dev->data;
  KILIM_CALLS(dev_stop, rte_eth_dev_stop(port));
  data.dev_started = 0;
  KILIM_CALLS(dev_reset, rte_eth_dev_reset(port));
  rte_mempool* const pool = rte_pktmbuf_pool_create("abi", 63, 0, 0, 2048, SOCKET_ID_ANY);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  rte_eth_rxconf rxconf{};
  data.rx_queues[0] = &data;  // released first
  KILIM_CALLS(rx_queue_setup, rte_eth_rx_queue_setup(port, 0, 64, 0, &rxconf, pool));
  rte_mempool_free(pool);
  rte_eth_txconf txconf{};
  KILIM_CALLS(tx_queue_setup, rte_eth_tx_queue_setup(port, 0, 64, 0, &txconf));
  data.tx_queues[0] = data.rx_queues[0] = data.rx_queues[1] = &data;
  KILIM_CALLS(dev_close, rte_eth_dev_close(port));
  dev = nullptr;
}

void operations_lie_where_the_library_calls_them() {
  operations_of_the_beginning();
  operations_of_the_port();
  operations_of_queues();
  operations_of_the_end();
}

// A member that nothing above calls could lie anywhere.
void every_operation_was_called() {
  std::array<eth_dev_ops::NoOp, sizeof ops / sizeof(eth_dev_ops::NoOp)> places{};
  static_assert(sizeof places == sizeof ops);
  std::memcpy(places.data(), &ops, sizeof ops);
  const auto ours =
      std::count_if(places.begin(), places.end(), [](auto op) { return op != nullptr; });
  EQUAL(static_cast<std::size_t>(ours), ran.size());
}

// A refusal names both versions; ports of another length are refused too.
void another_dpdk_is_refused() {
  using kilim::net::built_for, kilim::net::why_not_on;
  constexpr std::size_t bytes = sizeof(rte_eth_dev) * RTE_MAX_ETHPORTS;
  const auto dpdk = [](unsigned year, unsigned month) {
    return "DPDK " + std::to_string(year) + "." + std::to_string(month) + ".3";
  };
  const std::string own = dpdk(built_for.year, built_for.month);
  EQUAL(kilim::net::why_not_here(), std::string());
  EQUAL(why_not_on(own.c_str(), bytes), std::string());
  EQUAL(why_not_on(own.c_str(), 0), std::string());
  for (const auto& release : kilim::net::dpdk_releases) {
    if (release.year == built_for.year) continue;
    const std::string other = dpdk(release.year, release.month);
    const std::string why = why_not_on(other.c_str(), bytes);
    CU_ASSERT_TRUE(why.find(other) != std::string::npos);
    CU_ASSERT_TRUE(why.find(own.substr(0, 10)) != std::string::npos);
  }
  for (const std::string& other : {dpdk(built_for.year, 7), dpdk(26, 3), std::string("DPDK")})
    CU_ASSERT_FALSE(why_not_on(other.c_str(), bytes).empty());
  CU_ASSERT_FALSE(why_not_on(own.c_str(), bytes + 64).empty());
}

const kilim::test::Case cases[] = {
    {"structures are as long as the library's", structures_are_as_long_as_the_librarys},
    {"members lie where the library looks", members_lie_where_the_library_looks},
    {"operations lie where the library calls them", operations_lie_where_the_library_calls_them},
    {"every operation was called", every_operation_was_called},
    {"another DPDK is refused", another_dpdk_is_refused},
};

}  // namespace
}  // namespace ethdev_abi_ut

KILIM_TEST_SUITE(ethdev_abi, ethdev_abi_ut::cases)
