// SPDX-License-Identifier: BSD-3-Clause
// The numbers of rte_eth_dev_info: each works up to its limit, by data, and is refused beyond it.
#include <sys/mman.h>

#include "ethdev_cases.hh"
#include "kilim/detail/burst/tx_packet.hh"

namespace ethdev_limits_ut {
namespace {

using namespace kilim::test;

rte_eth_dev_info told_by(EthPair& p) {
  rte_eth_dev_info info{};
  EQUAL(rte_eth_dev_info_get(p.near.id, &info), 0);
  return info;
}

// For 64 queues, or one of 8,192 descriptors.
rte_mempool* pool_of_limits() {
  static rte_mempool* const pool = mbuf_pool("limits", 9215);
  return pool;
}

// The last queue of each kind receives and sends.
void as_many_queues_as_told_work() {
  EthPair p("", pool_of_limits());
  const rte_eth_dev_info info = told_by(p);
  const uint16_t queues = info.max_rx_queues;
  EQUAL(info.max_tx_queues, queues);
  CU_ASSERT_TRUE(p.near.configure({.queues = static_cast<uint16_t>(queues + 1)}) < 0);
  PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_RSS_HASH, .queues = queues, .rss = RTE_ETH_RSS_IPV4};
  EQUAL_FATAL(p.start(ask), 0);
  EQUAL(info.reta_size, 128);
  rte_eth_rss_reta_entry64 reta[4]{};
  for (rte_eth_rss_reta_entry64& group : reta) group.mask = ~uint64_t{0};
  for (uint16_t i = 0; i < 256; i++) reta[i / 64].reta[i % 64] = static_cast<uint16_t>(queues - 1);
  CU_ASSERT_TRUE(rte_eth_dev_rss_reta_update(p.near.id, reta, 256) < 0);
  EQUAL(rte_eth_dev_rss_reta_update(p.near.id, reta, 128), 0);
  const Bytes frame = make_frame(udp4);
  p.far.send(frame);
  p.queue_of.clear();
  const std::vector<rte_mbuf*> got = p.receive(p.near, 1, queues);
  EQUAL_FATAL(got.size(), 1);
  EQUAL(p.queue_of[0], queues - 1);
  rte_pktmbuf_free(got[0]);
  rte_mbuf* m = p.near.load(frame);
  EQUAL_FATAL(rte_eth_tx_burst(p.near.id, static_cast<uint16_t>(queues - 1), &m, 1), 1);
  m = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  rte_pktmbuf_free(m);
}

// More frames than a ring has places go round, both ways.
void round_the_ring(EthPair& p, uint32_t frames) {
  uint32_t there = 0, back = 0;
  for (uint32_t n = 0; n < frames; n++) {
    p.far.send(frame_of(100, n));
    for (rte_mbuf* m : p.receive(p.near, 1)) {
      there++;
      p.near.send(m);
    }
    for (rte_mbuf* m : p.receive(p.far, 1)) {
      back += bytes_of(m) == frame_of(100, n);
      rte_pktmbuf_free(m);
    }
  }
  EQUAL(there, frames);
  EQUAL(back, frames);
}

void descriptors_as_told_work() {
  EthPair p("", pool_of_limits());
  const rte_eth_dev_info info = told_by(p);
  for (const rte_eth_desc_lim& lim : {info.rx_desc_lim, info.tx_desc_lim}) {
    EQUAL(lim.nb_min, 64);
    EQUAL(lim.nb_max, 8192);
    EQUAL(lim.nb_align, 1);
  }
  const uint16_t least = info.rx_desc_lim.nb_min, most = info.rx_desc_lim.nb_max;
  for (const uint16_t n : {least, static_cast<uint16_t>(least + 1), most}) {
    PortAsk ask;
    ask.descriptors = n;
    EQUAL_FATAL(p.start(ask), 0);
    round_the_ring(p, n == most ? 100 : 300);
    EQUAL(rte_eth_rx_descriptor_status(p.near.id, 0, static_cast<uint16_t>(n - 1)) >= 0, true);
  }
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  for (const int beyond : {least - 1, most + 1}) {
    EQUAL(p.near.set_up_rx(0, 0, static_cast<uint16_t>(beyond)), -EINVAL);
    EQUAL(p.near.set_up_tx(0, 0, static_cast<uint16_t>(beyond)), -EINVAL);
  }
  // None asked for: the driver's own number, which it tells.
  EQUAL(p.near.set_up_rx(0, 0, 0), 0);
  EQUAL(p.near.set_up_tx(0, 0, 0), 0);
  rte_eth_rxq_info queue{};
  EQUAL(rte_eth_rx_queue_info_get(p.near.id, 0, &queue), 0);
  EQUAL(queue.nb_desc, info.default_rxportconf.ring_size);
  EQUAL(rte_eth_dev_start(p.near.id), 0);
  round_the_ring(p, 10);
}

// A packet of as many mbufs as are told arrives; one of more is dropped and counted.
void packets_of_as_many_mbufs_as_told_leave() {
  EthPair p;
  const rte_eth_dev_info info = told_by(p);
  EQUAL(info.tx_desc_lim.nb_seg_max, kilim::burst::max_pieces);
  EQUAL_FATAL(p.start({.tx = RTE_ETH_TX_OFFLOAD_MULTI_SEGS}), 0);
  const uint32_t most = info.tx_desc_lim.nb_seg_max;
  const Bytes frame = frame_of(std::size_t{most} * 20, 0);
  p.near.send(p.near.load(frame, 20));
  rte_mbuf* const m = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(bytes_of(m), frame);
  rte_pktmbuf_free(m);
  p.near.send(p.near.load(frame_of((std::size_t{most} + 40) * 20, 0), 20));
  p.near.send(make_frame(udp4));
  rte_mbuf* const next = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(next);
  EQUAL(bytes_of(next), make_frame(udp4));
  rte_pktmbuf_free(next);
  EQUAL(xstat(p.near, "tx_q0_dropped"), 1);
}

// Receives of as many mbufs as are told, and mbufs as short as are told.
void the_shortest_mbufs_and_longest_frames_work() {
  static rte_mempool* const of_304 = mbuf_pool("of_304", 4095, RTE_PKTMBUF_HEADROOM + 304);
  static rte_mempool* const least = mbuf_pool("least", 1023, RTE_PKTMBUF_HEADROOM + 64);
  static rte_mempool* const shorter = mbuf_pool("shorter", 1023, RTE_PKTMBUF_HEADROOM + 63);
  PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_SCATTER};
  {
    EthPair p("", of_304);
    EQUAL(told_by(p).rx_desc_lim.nb_seg_max, 30);  // of the device
    ask.mtu = 9000;
    EQUAL_FATAL(p.start(ask), 0);
    const Bytes frame = frame_of(9014, 0);
    p.far.send(frame);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL(m->nb_segs, 30);
    EQUAL(bytes_of(m), frame);
    rte_pktmbuf_free(m);
    ask.mtu = 9400;
    EQUAL(p.start(ask), -EINVAL);  // 31 of them
  }
  EthPair p("", least);
  const rte_eth_dev_info info = told_by(p);
  EQUAL(info.min_rx_bufsize, 64);
  EQUAL(info.min_mtu, 68);
  ask.mtu = info.min_mtu;
  EQUAL_FATAL(p.start(ask), 0);
  for (const std::size_t bytes : {60, 64, 65, 82}) {
    const Bytes frame = frame_of(bytes, 0);
    p.far.send(frame);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL(m->nb_segs, bytes > 64 ? 2 : 1);
    EQUAL(bytes_of(m), frame);
    rte_pktmbuf_free(m);
  }
  ask.mtu = static_cast<uint16_t>(info.min_mtu - 1);
  CU_ASSERT_TRUE(p.near.start(ask) < 0);
  EthPair none("", shorter);
  ask.mtu = info.min_mtu;
  CU_ASSERT_TRUE(none.start(ask) < 0);
}

// The driver takes an MTU of 9,978; a virtual device's wires carry 9,000.
void the_largest_mtu_is_taken() {
  EthPair p;
  const rte_eth_dev_info info = told_by(p);
  EQUAL(info.max_mtu, 9978);
  EQUAL(info.max_rx_pktlen, info.max_mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN);
  PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_SCATTER};
  ask.mtu = static_cast<uint16_t>(info.max_mtu + 1);
  CU_ASSERT_TRUE(p.near.configure(ask) < 0);
  ask.mtu = info.max_mtu;
  EQUAL_FATAL(p.start(ask), 0);
  arrives(p, frame_of(9014, 0), 0, 0);
}

// Every address that is told to fit is received, and one more is refused.
void as_many_addresses_as_told_are_received() {
  EthPair p;
  const rte_eth_dev_info info = told_by(p);
  EQUAL(info.max_mac_addrs, 128);
  EQUAL_FATAL(p.start({}), 0);
  EQUAL(rte_eth_promiscuous_disable(p.near.id), 0);
  rte_ether_addr mac{{2, 0, 0, 7, 0, 0}};
  for (uint32_t i = 1; i < info.max_mac_addrs; i++) {
    mac.addr_bytes[5] = static_cast<uint8_t>(i);
    EQUAL(rte_eth_dev_mac_addr_add(p.near.id, &mac, 0), 0);
  }
  for (uint32_t i = 1; i < info.max_mac_addrs; i++) {
    Bytes frame = frame_of(100, i);
    mac.addr_bytes[5] = static_cast<uint8_t>(i);
    std::memcpy(frame.data(), mac.addr_bytes, RTE_ETHER_ADDR_LEN);
    arrives(p, frame, 0, 0);
  }
  mac.addr_bytes[5] = 0;
  EQUAL(rte_eth_dev_mac_addr_add(p.near.id, &mac, 0), -ENOSPC);
}

// None of dev_capa: queues are not set up under way, and rules end with a stop (ethdev_rules.cc).
void what_capabilities_leave_out_is_refused() {
  EthPair p;
  const rte_eth_dev_info info = told_by(p);
  EQUAL(info.dev_capa, 0);
  EQUAL(info.hash_key_size, 40);
  rte_eth_link link{};
  EQUAL(rte_eth_link_get_nowait(p.near.id, &link), 0);
  EQUAL(info.speed_capa, rte_eth_speed_bitflag(link.link_speed, 0));
  CU_ASSERT_TRUE(info.speed_capa != 0);
  EQUAL_FATAL(p.start({}), 0);
  EQUAL(p.near.set_up_rx(0, 0), -EBUSY);
  EQUAL(p.near.set_up_tx(0, 0), -EBUSY);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  rte_eth_rxconf shared{};
  shared.share_group = 1;
  CU_ASSERT_TRUE(rte_eth_rx_queue_setup(p.near.id, 0, 128, SOCKET_ID_ANY, &shared, p.pool) < 0);
  for (const auto set : {+[](rte_eth_conf& c) { c.dcb_capability_en = 1; },
                         +[](rte_eth_conf& c) { c.rxmode.mq_mode = RTE_ETH_MQ_RX_VMDQ_ONLY; },
                         +[](rte_eth_conf& c) { c.txmode.mq_mode = RTE_ETH_MQ_TX_DCB; },
                         +[](rte_eth_conf& c) { c.intr_conf.rmv = 1; }}) {
    rte_eth_conf conf{};
    set(conf);
    CU_ASSERT_TRUE(rte_eth_dev_configure(p.near.id, 1, 1, &conf) < 0);
  }
}

// A tester that asks for loopback, as dpdk-test's pmd_perf does, is told no error (DPDK's mlx5
// driver takes the field too): frames come back where the wire gives them back.
void loopback_mode_is_taken() {
  EthPair p;
  rte_eth_conf conf{};
  conf.lpbk_mode = 1;
  EQUAL(rte_eth_dev_configure(p.near.id, 1, 1, &conf), 0);
  EQUAL(p.near.set_up_rx(0, 0), 0);
  EQUAL(p.near.set_up_tx(0, 0), 0);
  EQUAL(rte_eth_dev_start(p.near.id), 0);
}

// Memory of the application for the mbufs of one half of a mempool each, with a gap between them.
struct TwoHalves {
  static constexpr uint32_t mbufs = 256, each = RTE_MBUF_DEFAULT_BUF_SIZE;
  static constexpr std::size_t bytes = std::size_t{mbufs} * each, gap = 1 << 20, page = 4096;
  TwoHalves() {
    CU_ASSERT_TRUE_FATAL(start_eal());
    base = static_cast<std::byte*>(::mmap(nullptr, 2 * bytes + gap, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CU_ASSERT_FATAL(base != MAP_FAILED);
    EQUAL(::munmap(base + bytes, gap), 0);
    for (std::size_t n : {0, 1})
      EQUAL_FATAL(rte_extmem_register(half(n), bytes, nullptr, bytes / page, page), 0);
    const rte_pktmbuf_extmem memory[] = {{half(0), 0, bytes, each}, {half(1), 0, bytes, each}};
    pool =
        rte_pktmbuf_pool_create_extbuf("halves", 2 * mbufs, 0, 0, each, SOCKET_ID_ANY, memory, 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  }
  ~TwoHalves() {
    rte_mempool_free(pool);
    (void)rte_extmem_unregister(half(0), bytes);
    (void)::munmap(half(0), bytes);  // where the gap and half 1 were, others' memory may be
  }
  [[nodiscard]] std::byte* half(std::size_t n) const { return base + n * (bytes + gap); }
  std::byte* base;
  rte_mempool* pool;
};

// Half of the mempool's memory goes under way (rte_dev_dma_unmap(), munmap(2)), so that it can have
// no key any more. Its mbufs are not given to the device, and none of them is lost; those of the
// other half go on.
void mbufs_without_a_key_stay_in_their_pool() {
  TwoHalves memory;
  {
    EthPair p("", memory.pool);
    rte_device* const device = told_by(p).device;
    for (std::size_t n : {0, 1})
      EQUAL_FATAL(rte_dev_dma_map(device, memory.half(n), 0, TwoHalves::bytes), 0);
    EQUAL_FATAL(p.start({}), 0);
    EQUAL_FATAL(rte_dev_dma_unmap(device, memory.half(1), 0, TwoHalves::bytes), 0);
    EQUAL_FATAL(rte_extmem_unregister(memory.half(1), TwoHalves::bytes), 0);
    EQUAL_FATAL(::munmap(memory.half(1), TwoHalves::bytes), 0);
    std::vector<rte_mbuf*> held;
    for (uint32_t n = 0; n < TwoHalves::mbufs; n++) {
      p.far.send(make_frame(udp4));
      for (rte_mbuf* m : p.receive(p.near, 1)) held.push_back(m);
    }
    EQUAL(held.size(), TwoHalves::mbufs);
    p.receive_none(p.near);
    EQUAL(rte_mempool_in_use_count(memory.pool), TwoHalves::mbufs);
    rte_eth_stats stats{};
    EQUAL(rte_eth_stats_get(p.near.id, &stats), 0);
    CU_ASSERT(stats.rx_nombuf > 0);
    for (rte_mbuf* m : held) rte_pktmbuf_free(m);
    p.receive_none(p.near);  // round the pool to the half that has a key
    p.far.send(make_frame(udp4));
    rte_mbuf* const again = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(again);
    rte_pktmbuf_free(again);
    EQUAL(rte_eth_dev_stop(p.near.id), 0);
  }
  EQUAL(rte_mempool_in_use_count(memory.pool), 0);
}

const Case of_limits[] = {
    {"mbufs whose memory has no key stay in their pool", mbufs_without_a_key_stay_in_their_pool},
    {"as many queues as told work", as_many_queues_as_told_work},
    {"as many descriptors as told work", descriptors_as_told_work},
    {"packets of as many mbufs as told leave", packets_of_as_many_mbufs_as_told_leave},
    {"the shortest mbufs and the longest frames work", the_shortest_mbufs_and_longest_frames_work},
    {"the largest MTU is taken", the_largest_mtu_is_taken},
    {"as many addresses as told are received", as_many_addresses_as_told_are_received},
    {"what capabilities leave out is refused", what_capabilities_leave_out_is_refused},
    {"a loopback mode is taken", loopback_mode_is_taken},
};

}  // namespace
}  // namespace ethdev_limits_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_limits = ethdev_limits_ut::of_limits;
