// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/ethdev.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include <rte_errno.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>

namespace kilim::net {
namespace {

rte_eth_link link_of(const device::PortInfo& info) noexcept {
  rte_eth_link link{};
  link.link_speed = info.speed_mbps;
  link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
  link.link_autoneg = RTE_ETH_LINK_AUTONEG;
  link.link_status = info.active ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return link;
}

// True: it differs from what was there.
bool publish(rte_eth_link& to, const rte_eth_link& link) noexcept {
  static_assert(sizeof(rte_eth_link) == sizeof(uint64_t));
  uint64_t next;
  std::memcpy(&next, &link, sizeof next);
  using Word [[gnu::may_alias]] = uint64_t;
  return __atomic_exchange_n(reinterpret_cast<Word*>(&to), next, __ATOMIC_SEQ_CST) != next;
}

}  // namespace

Ethdev::~Ethdev() {
  leave();
}

int Ethdev::refuse(const Error& e) const noexcept {
  rte_log(RTE_LOG_ERR, log_type(), "%s: %s\n", port_.name().c_str(), e.what);
  return -(e.code == 0 ? EIO : e.code);
}

Status Ethdev::enter(rte_vdev_device& vdev) {
  rte_eth_dev* dev = rte_eth_dev_allocate(vdev.device.name);
  if (dev == nullptr) return Error{EEXIST, "ethdev has a port of this name or no place for it"};
  auto* shared = static_cast<SharedPort*>(
      rte_zmalloc("kilim_ethdev", sizeof(SharedPort), RTE_CACHE_LINE_SIZE));
  auto* macs = static_cast<rte_ether_addr*>(rte_zmalloc(
      "kilim_macs", sizeof(rte_ether_addr) * flow::max_filter_macs, RTE_CACHE_LINE_SIZE));
  if (shared == nullptr || macs == nullptr) {
    rte_free(shared);
    rte_free(macs);
    (void)rte_eth_dev_release_port(dev);
    return Error{ENOMEM, "no memory for an ethdev"};
  }
  shared_ = new (shared) SharedPort{};
  shared_->owner = this;
  first_mac_ = port_.info().mac;
  std::memcpy(macs[0].addr_bytes, first_mac_.data(), RTE_ETHER_ADDR_LEN);
  dev->data->dev_private = shared;
  dev->data->mac_addrs = macs;
  dev->data->numa_node = port_.device().numa_node();
  dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC | RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
  dev->dev_ops = &ethdev_ops;
  dev->device = &vdev.device;
  dev_ = dev;
  forget_bursts();
  (void)update_link(false);
  (void)fill_info(shared_->info);
  rte_eth_dev_probing_finish(dev);
  return Done{};
}

void Ethdev::leave() noexcept {
  if (dev_ == nullptr) return;
  rte_eth_dev* const dev = dev_;
  (void)close();
  (void)rte_eth_dev_release_port(dev);
}

int Ethdev::configure() noexcept {
  const std::lock_guard guard(lock_);
  if (port_.started())
    return refuse({EBUSY, "the port is in use by Kilim's own interface (rte_pmd_kilim.h)"});
  if (!port_.device().caps().spread.usable())
    return refuse({ENOTSUP, "an ethdev needs a device with receive work queues and RSS"});
  const rte_eth_conf& conf = dev_->data->dev_conf;
  if (conf.dcb_capability_en != 0) return refuse({ENOTSUP, "a Kilim port has no DCB"});
  if (conf.intr_conf.rxq != 0 && polled())
    return refuse(
        {ENOTSUP, "receive interrupts need a device that runs by itself: progress=thread"});
  if (conf.rxmode.mq_mode != RTE_ETH_MQ_RX_NONE && conf.rxmode.mq_mode != RTE_ETH_MQ_RX_RSS)
    return refuse({ENOTSUP, "receive queues are spread by RSS or not at all"});
  if (conf.txmode.mq_mode != RTE_ETH_MQ_TX_NONE)
    return refuse({ENOTSUP, "transmit queues have no modes"});
  if (args_.strided != 0)
    if (const int e = check_strides(); e != 0) return e;
  rx_.resize(dev_->data->nb_rx_queues);
  tx_.resize(dev_->data->nb_tx_queues);
  rss_ = {};
  wanted_.filters_vlans = (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0;
  if (conf.rxmode.mq_mode == RTE_ETH_MQ_RX_RSS) return set_rss_hash(conf.rx_adv_conf.rss_conf);
  rss_asked_ = 0;
  rss_.table = {0};
  return 0;
}

int Ethdev::start() noexcept {
  const std::lock_guard guard(lock_);
  if (port_.started())
    return refuse({EBUSY, "the port is in use by Kilim's own interface (rte_pmd_kilim.h)"});
  stamp_offset_ = -1;
  const bool stamps = std::any_of(rx_.begin(), rx_.end(), [](const EthdevRx& rx) {
    return (rx.conf.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0;
  });
  if (stamps && rte_mbuf_dyn_rx_timestamp_register(&stamp_offset_, &stamp_flag_) != 0)
    return refuse({rte_errno, "no place in the mbuf for times of arrival"});
  // The default is also what librte_ethdev makes of no wish: then longer frames come in too.
  const uint16_t mtu = dev_->data->mtu;
  limit_port(mtu_asked_ || mtu != RTE_ETHER_MTU ? mtu : 0);
  int error = make_queues();
  if (error == 0 && dev_->data->dev_conf.intr_conf.rxq != 0) error = start_interrupts();
  if (error != 0) {
    stop_interrupts();
    drop_queues();
    limit_port(0);
    return error;
  }
  heeded_ = port_.device().events();
  queues_run_ = true;
  choose_bursts();
  if (dev_->data->dev_conf.intr_conf.lsc != 0) (void)update_link(false);
  watch_device(true);
  return 0;
}

// A polled device takes in what has arrived before the port's rules go, as a card would have.
void Ethdev::settle() noexcept {
  if (!polled()) return;
  constexpr uint32_t budget = 64;
  const worker::Poller& device = port_.poller();
  for (int turn = 0; turn < 1000 && device.fn(device.context, budget) != 0; turn++) {
  }
}

int Ethdev::stop() noexcept {
  watch_device(false);
  const std::lock_guard guard(lock_);
  heed_events();
  forget_bursts();
  settle();
  update_port_counts();
  flush_flows();
  port_.stop();
  stop_interrupts();
  drop_queues();
  limit_port(0);
  dev_->data->dev_started = 0;
  return 0;
}

int Ethdev::close() noexcept {
  if (dev_ == nullptr) return 0;
  if (dev_->data->dev_started != 0) (void)stop();
  const std::lock_guard guard(lock_);
  release_queues();
  mtu_asked_ = false;
  rx_.clear();
  tx_.clear();
  shared_ = nullptr;  // librte_ethdev frees it
  dev_ = nullptr;
  return 0;
}

void Ethdev::release_queues() noexcept {
  for (uint16_t q = 0, n = static_cast<uint16_t>(rx_.size()); q < n; q++) release_rx(q);
  for (uint16_t q = 0, n = static_cast<uint16_t>(tx_.size()); q < n; q++) release_tx(q);
}

// The numbers of queues stay: librte_ethdev looks at them in the next rte_eth_dev_configure(). So
// do the promiscuous modes, which are its own: it asks for them again in rte_eth_dev_start() (DPDK
// lib/ethdev/rte_ethdev.c, eth_dev_config_restore()).
int Ethdev::reset() noexcept {
  const std::lock_guard guard(lock_);
  release_queues();
  rte_eth_dev_data& data = *dev_->data;
  wanted_ = {};
  wanted_.promiscuous = data.promiscuous != 0;
  wanted_.all_multicast = data.all_multicast != 0;
  rss_ = {};
  rss_asked_ = 0;
  marks_ = tunnels_ = false;
  data.dev_configured = 0;
  data.vlan_filter_conf = {};
  data.mtu = RTE_ETHER_MTU;
  mtu_asked_ = false;
  std::fill_n(data.mac_addrs, flow::max_filter_macs, rte_ether_addr{});
  std::fill(std::begin(data.mac_pool_sel), std::end(data.mac_pool_sel), uint64_t{0});
  std::memcpy(data.mac_addrs[0].addr_bytes, first_mac_.data(), RTE_ETHER_ADDR_LEN);
  if (port_.device().lost()) return refuse({EIO, "the device is lost"});
  if (Status s = port_.set_address(first_mac_); !s) return refuse(s.error());
  return 0;
}

int Ethdev::update_link(bool tell) noexcept {
  const std::lock_guard guard(lock_);
  if (dev_ == nullptr) return -ENODEV;
  heed_events();
  rte_eth_link link{};
  if (auto info = port_.device().port(port_.number())) link = link_of(*info);
  if (!publish(dev_->data->dev_link, link)) return -1;
  if (tell) rte_eth_dev_callback_process(dev_, RTE_ETH_EVENT_INTR_LSC, nullptr);
  return 0;
}

}  // namespace kilim::net
