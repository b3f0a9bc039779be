// SPDX-License-Identifier: BSD-3-Clause
// Two Kilim ports as ethdevs at the two ends of a cable, configured anew for each case: `near` is
// asked for what is tried, `far` sends and receives bytes as they are. All by DPDK's public
// functions, on the test's own thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <unistd.h>

#include "../vhca/wire/frames_fixture.hh"
#include "eal.hh"
#include "equal.hh"
#include "ethdev_counted_fixture.hh"
#include "ut.hh"

namespace kilim::test {

// What is asked of a port, for the whole of it and for each queue.
struct PortAsk {
  uint64_t rx = 0, rx_queue = 0, tx = 0, tx_queue = 0;
  uint16_t queues = 1;
  uint64_t rss = 0;
  uint16_t mtu = RTE_ETHER_MTU;
  bool interrupts = false;
  uint16_t descriptors = 128;
  const uint8_t* key = nullptr;  // of RSS, 40 bytes
  bool link_events = false;
  uint32_t max_lro = 0;  // max_lro_pkt_size
};

inline rte_mempool* mbuf_pool(const char* name, uint32_t count = 2047,
                              uint16_t room = RTE_MBUF_DEFAULT_BUF_SIZE) {
  rte_mempool* const pool = rte_pktmbuf_pool_create(name, count, 64, 0, room, SOCKET_ID_ANY);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  return pool;
}

class EthPort {
 public:
  // A port; `args` behind the name of the wire. Without a name of its own it is a fresh one.
  EthPort(const std::string& wire, const std::string& args, rte_mempool& pool,
          const std::string& name = "")
      : name_(name), pool_(pool) {
    static int number = 40;
    if (name_.empty()) name_ = "net_kilim" + std::to_string(number++);
    const std::string all = "wire=" + wire + args;
    EQUAL_FATAL(rte_eal_hotplug_add("vdev", name_.c_str(), all.c_str()), 0);
    EQUAL_FATAL(rte_eth_dev_get_port_by_name(name_.c_str(), &id), 0);
    count_operations(id);
  }
  EthPort(const EthPort&) = delete;
  EthPort& operator=(const EthPort&) = delete;
  ~EthPort() {
    if (!gone_) EQUAL(rte_eal_hotplug_remove("vdev", name_.c_str()), 0);
  }
  // As an application unplugs the device of a port, whatever the port's state.
  int unplug() {
    rte_eth_dev_info info{};
    EQUAL_FATAL(rte_eth_dev_info_get(id, &info), 0);
    gone_ = true;
    return rte_dev_remove(info.device);
  }

  // From any state to a started port: 0, or the errno of the step that was refused.
  int start(const PortAsk& ask) {
    (void)rte_eth_dev_stop(id);
    if (const int e = configure(ask); e != 0) return e;
    for (uint16_t q = 0; q < ask.queues; q++) {
      if (const int e = set_up_rx(q, ask.rx_queue, ask.descriptors); e != 0) return e;
      if (const int e = set_up_tx(q, ask.tx_queue, ask.descriptors); e != 0) return e;
    }
    if (const int e = rte_eth_dev_start(id); e != 0) return e;
    return rte_eth_promiscuous_enable(id);
  }
  int configure(const PortAsk& ask) {
    rte_eth_conf conf{};
    conf.rxmode.offloads = ask.rx;
    conf.rxmode.mtu = ask.mtu;
    conf.rxmode.max_lro_pkt_size = ask.max_lro;
    conf.txmode.offloads = ask.tx;
    conf.intr_conf.rxq = ask.interrupts;
    conf.intr_conf.lsc = ask.link_events;
    if (ask.rss != 0) conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = ask.rss;
    if (ask.key != nullptr) {
      conf.rx_adv_conf.rss_conf.rss_key = const_cast<uint8_t*>(ask.key);
      conf.rx_adv_conf.rss_conf.rss_key_len = 40;
    }
    return rte_eth_dev_configure(id, ask.queues, ask.queues, &conf);
  }
  int set_up_rx(uint16_t queue, uint64_t offloads, uint16_t descriptors = 128) {
    rte_eth_rxconf conf{};
    conf.offloads = offloads;
    return rte_eth_rx_queue_setup(id, queue, descriptors, SOCKET_ID_ANY, &conf, &pool_);
  }
  int set_up_tx(uint16_t queue, uint64_t offloads, uint16_t descriptors = 128) {
    rte_eth_txconf conf{};
    conf.offloads = offloads;
    return rte_eth_tx_queue_setup(id, queue, descriptors, SOCKET_ID_ANY, &conf);
  }

  // An mbuf with these bytes; more than one for a frame that is longer than `piece`.
  [[nodiscard]] rte_mbuf* load(const Bytes& frame, std::size_t piece = SIZE_MAX) {
    rte_mbuf* head = nullptr;
    for (std::size_t at = 0; at < frame.size();) {
      rte_mbuf* const m = rte_pktmbuf_alloc(&pool_);
      CU_ASSERT_PTR_NOT_NULL_FATAL(m);
      const std::size_t room = rte_pktmbuf_tailroom(m);
      const auto n = static_cast<uint16_t>(std::min({frame.size() - at, piece, room}));
      std::memcpy(rte_pktmbuf_append(m, n), frame.data() + at, n);
      at += n;
      if (head == nullptr)
        head = m;
      else
        EQUAL(rte_pktmbuf_chain(head, m), 0);
    }
    return head;
  }
  void send(rte_mbuf* m) { EQUAL(rte_eth_tx_burst(id, 0, &m, 1), 1); }
  void send(const Bytes& frame) { send(load(frame)); }

  uint16_t id = 0;

 private:
  std::string name_;
  rte_mempool& pool_;
  bool gone_ = false;
};

inline Bytes bytes_of(const rte_mbuf* m) {
  Bytes b;
  for (; m != nullptr; m = m->next) {
    const auto* at = rte_pktmbuf_mtod(m, const std::byte*);
    b.insert(b.end(), at, at + m->data_len);
  }
  return b;
}

struct EthPair {
  explicit EthPair(const std::string& near_args = "", rte_mempool* near_pool = nullptr)
      : pool(shared_pool()),
        wire(fresh_wire()),
        near(wire, near_args, near_pool == nullptr ? *pool : *near_pool),
        far(wire, "", *pool) {}

  static std::string fresh_wire() {
    static int number = 0;
    return "cable:e" + std::to_string(getpid()) + "_" + std::to_string(number++);
  }

  static rte_mempool* shared_pool() {
    CU_ASSERT_TRUE_FATAL(start_eal());
    static rte_mempool* const shared = mbuf_pool("ethdev_ut", 4095);
    return shared;
  }
  // Starts both; `near` as asked, `far` able to send and receive jumbo frames in pieces.
  int start(const PortAsk& ask) {
    PortAsk plain{.rx = RTE_ETH_RX_OFFLOAD_SCATTER, .tx = RTE_ETH_TX_OFFLOAD_MULTI_SEGS};
    plain.mtu = 9000;
    EQUAL(far.start(plain), 0);
    return near.start(ask);
  }
  // What arrives at a port, up to `want` frames; the devices of both run. The caller frees.
  std::vector<rte_mbuf*> receive(EthPort& port, std::size_t want, uint16_t queues = 1) {
    std::vector<rte_mbuf*> all;
    EthPort& other = &port == &near ? far : near;
    for (int turn = 0; turn < 3000 && all.size() < want; turn++) {
      (void)rte_eth_tx_burst(other.id, 0, nullptr, 0);
      for (uint16_t q = 0; q < queues; q++) {
        rte_mbuf* got[32];
        const uint16_t n = rte_eth_rx_burst(port.id, q, got, 32);
        all.insert(all.end(), got, got + n);
        for (uint16_t i = 0; i < n; i++) queue_of.push_back(q);
      }
    }
    return all;
  }
  // The one frame that arrives; nullptr: none did.
  rte_mbuf* receive_one(EthPort& port) {
    const std::vector<rte_mbuf*> got = receive(port, 1);
    return got.size() == 1 ? got[0] : nullptr;
  }
  // Nothing arrives at a port.
  void receive_none(EthPort& port) {
    for (int turn = 0; turn < 50; turn++) {
      rte_mbuf* got[1];
      EQUAL_FATAL(rte_eth_rx_burst(port.id, 0, got, 1), 0);
    }
  }

  rte_mempool* pool;
  std::string wire;
  EthPort near, far;
  std::vector<uint16_t> queue_of;  // of the mbufs that receive() returned, in their order
};

}  // namespace kilim::test
