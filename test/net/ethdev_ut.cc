// SPDX-License-Identifier: BSD-3-Clause
// Each capability that the ethdev tells, tried by data: every bit of receive and transmit offloads,
// for the port and for a queue, and every kind of RSS hash. What is not told is refused.
#include <set>

#include <rte_log.h>

#include "ethdev_cases.hh"

namespace ethdev_ut {
namespace {

using namespace kilim::test;

EthPair& pair() {
  static auto* const p = new EthPair;      // a cleaned up EAL takes it away
  rte_log_set_global_level(RTE_LOG_CRIT);  // of refusals there are hundreds
  return *p;
}

rte_eth_dev_info info_of(EthPair& p) {
  rte_eth_dev_info info{};
  EQUAL(rte_eth_dev_info_get(p.near.id, &info), 0);
  return info;
}

PortAsk asking_for(bool rx, bool queue, uint64_t bit) {
  PortAsk ask;
  (rx ? queue ? ask.rx_queue : ask.rx : queue ? ask.tx_queue : ask.tx) |= bit;
  if (rx && bit == RTE_ETH_RX_OFFLOAD_SCATTER) ask.mtu = 9000;
  if (rx && bit == RTE_ETH_RX_OFFLOAD_RSS_HASH) ask.rss = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
  return ask;
}

// One bit at one place: it works, or it is refused.
void try_bit(bool rx, bool queue, uint64_t bit, uint64_t told) {
  EthPair& p = pair();
  const Tries& table = rx ? receive_tries() : send_tries();
  const PortAsk ask = asking_for(rx, queue, bit);
  if ((told & bit) == 0) {
    const bool refused = p.start(ask) < 0;
    if (!refused) std::printf("bit %#lx, not told, is taken\n", bit);
    CU_ASSERT_TRUE(refused);
    return;
  }
  const auto row = table.find(bit);
  if (row == table.end()) std::printf("bit %#lx is told and not tried\n", bit);
  CU_ASSERT_TRUE_FATAL(row != table.end());
  const int started = p.start(ask);
  if (started != 0) std::printf("bit %#lx, told, is refused\n", bit);
  EQUAL_FATAL(started, 0);
  row->second(p);
}

void each_receive_offload_works_or_is_refused() {
  const rte_eth_dev_info info = info_of(pair());
  uint64_t all = 0;
  for (const auto& [bit, how] : receive_tries()) all |= bit;
  EQUAL(info.rx_offload_capa, all);  // this device has all that a driver of ours can tell
  for (uint64_t bit = 1; bit != 0; bit <<= 1) {
    try_bit(true, false, bit, info.rx_offload_capa);
    try_bit(true, true, bit, info.rx_queue_offload_capa);
  }
}

void each_transmit_offload_works_or_is_refused() {
  const rte_eth_dev_info info = info_of(pair());
  uint64_t all = 0;
  for (const auto& [bit, how] : send_tries()) all |= bit;
  EQUAL(info.tx_offload_capa, all);
  for (uint64_t bit = 1; bit != 0; bit <<= 1) {
    try_bit(false, false, bit, info.tx_offload_capa);
    try_bit(false, true, bit, info.tx_queue_offload_capa);
  }
}

// Without the bit nothing is done to frames, nor said of them.
void what_is_not_asked_for_is_not_done() {
  EthPair& p = pair();
  EQUAL_FATAL(p.start({}), 0);
  FrameSpec tagged = udp4;
  tagged.tags = 1;
  arrives(p, make_frame(tagged), RTE_MBUF_F_RX_VLAN_STRIPPED, 0);
  FrameSpec jumbo = udp4;
  jumbo.payload = 5000;
  p.far.send(make_frame(jumbo));
  arrives(p, make_frame(udp4), 0, 0);
  p.receive_none(p.near);
}

// Frames of one kind: addresses and ports differ.
Bytes flow_of(uint64_t kind, uint32_t n) {
  const uint64_t ex = RTE_ETH_RSS_IPV6_EX | RTE_ETH_RSS_IPV6_TCP_EX | RTE_ETH_RSS_IPV6_UDP_EX;
  const uint64_t v6 = RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_OTHER |
                      RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_NONFRAG_IPV6_UDP | ex;
  const uint64_t udp = RTE_ETH_RSS_UDP;
  const uint64_t l4 = udp | RTE_ETH_RSS_TCP;
  FrameSpec s{.ipv6 = (kind & v6) != 0, .tcp = (kind & udp) == 0};
  if (kind == RTE_ETH_RSS_FRAG_IPV4) s.fragment = 0x2000;
  Bytes b = make_frame(s);
  const bool other =
      (kind & (RTE_ETH_RSS_NONFRAG_IPV4_OTHER | RTE_ETH_RSS_NONFRAG_IPV6_OTHER)) != 0;
  if (other) b[l3_of(s) + (s.ipv6 ? 6 : 9)] = std::byte{47};
  const bool fragment = kind == RTE_ETH_RSS_FRAG_IPV6;
  if (fragment ||
      (kind & ex) != 0) {  // a header in front of TCP or UDP: padding, unless a fragment's
    std::byte header[8] = {b[l3_of(s) + 6], {}, std::byte{1}, std::byte{4}, {}, {}, {}, {}};
    if (fragment) header[2] = {}, header[3] = std::byte{1}, header[7] = std::byte{9};
    b[l3_of(s) + 6] = std::byte{fragment ? uint8_t{44} : uint8_t{60}};
    b.insert(b.begin() + static_cast<long>(l4_of(s)), std::begin(header), std::end(header));
    put16(b, l3_of(s) + 4, b.size() - l4_of(s));
  }
  // Of TCP and UDP the ports, else the addresses' last bytes.
  const std::size_t ports = l4_of(s) + ((kind & ex) != 0 ? 8 : 0);
  put16(b, (kind & l4) != 0 ? ports : l4_of(s) - 2, 4000 + 7 * n);
  return b;
}

void spreads(uint64_t kind) {
  EthPair& p = pair();
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_RSS_HASH, .queues = 4, .rss = kind}), 0);
  std::set<uint16_t> queues;
  std::set<uint32_t> values;
  p.queue_of.clear();
  for (uint32_t n = 0; n < 32; n++) p.far.send(flow_of(kind, n));
  const std::vector<rte_mbuf*> got = p.receive(p.near, 32, 4);
  EQUAL_FATAL(got.size(), 32);
  for (std::size_t i = 0; i < got.size(); i++) {
    EQUAL(got[i]->ol_flags & RTE_MBUF_F_RX_RSS_HASH, RTE_MBUF_F_RX_RSS_HASH);
    queues.insert(p.queue_of[i]);
    values.insert(got[i]->hash.rss);
    rte_pktmbuf_free(got[i]);
  }
  if (queues.size() != 4 || values.size() < 30)
    std::printf("RSS %#lx: %zu queues, %zu hashes\n", kind, queues.size(), values.size());
  EQUAL(queues.size(), 4);
  CU_ASSERT_TRUE(values.size() >= 30);
}

void each_kind_of_hash_spreads_or_is_refused() {
  const uint64_t told = info_of(pair()).flow_type_rss_offloads;
  CU_ASSERT_TRUE(told != 0);
  for (uint64_t bit = 1; bit != 0; bit <<= 1) {
    const uint64_t sides = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY |
                           RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY;
    if ((bit & (RTE_ETH_RSS_LEVEL_MASK | sides)) != 0) continue;  // ethdev_keys.cc
    if ((told & bit) != 0) {
      spreads(bit);
      continue;
    }
    // What says how to hash, and not what, is rounded off by ethdev itself.
    if ((bit & rte_eth_rss_hf_refine(bit)) != bit || bit >= RTE_ETH_RSS_LEVEL_INNERMOST >> 1)
      continue;
    (void)rte_eth_dev_stop(pair().near.id);
    const int refused = pair().near.configure({.rx = RTE_ETH_RX_OFFLOAD_RSS_HASH, .rss = bit});
    if (refused >= 0) std::printf("RSS %#lx, not told, is taken\n", bit);
    CU_ASSERT_TRUE(refused < 0);
  }
}

// Frames of a kind that was not asked for are not spread.
void other_kinds_are_not_spread() {
  EthPair& p = pair();
  EQUAL_FATAL(
      p.start(
          {.rx = RTE_ETH_RX_OFFLOAD_RSS_HASH, .queues = 4, .rss = RTE_ETH_RSS_NONFRAG_IPV4_TCP}),
      0);
  p.queue_of.clear();
  for (uint32_t n = 0; n < 32; n++) p.far.send(flow_of(RTE_ETH_RSS_NONFRAG_IPV4_UDP, n));
  const std::vector<rte_mbuf*> got = p.receive(p.near, 32, 4);
  EQUAL_FATAL(got.size(), 32);
  EQUAL(std::set<uint16_t>(p.queue_of.begin(), p.queue_of.end()).size(), 1);
  for (rte_mbuf* m : got) rte_pktmbuf_free(m);
}

const Case cases[] = {
    {"each receive offload that is told works, others are refused",
     each_receive_offload_works_or_is_refused},
    {"each transmit offload that is told works, others are refused",
     each_transmit_offload_works_or_is_refused},
    {"what is not asked for is not done", what_is_not_asked_for_is_not_done},
    {"each kind of RSS hash that is told spreads, others are refused",
     each_kind_of_hash_spreads_or_is_refused},
    {"kinds of frames that RSS was not asked for go to one queue", other_kinds_are_not_spread},
};

}  // namespace
}  // namespace ethdev_ut

KILIM_TEST_MAIN(ethdev) {
  if (argc == 3 && std::strcmp(argv[1], "--order") == 0)
    return kilim::test::clean_up_after(argv[2]);
  std::vector<kilim::test::Case> all(std::begin(ethdev_ut::cases), std::end(ethdev_ut::cases));
  for (const std::span<const kilim::test::Case>& more :
       {kilim::test::ethdev_runs, kilim::test::ethdev_filters, kilim::test::ethdev_joined,
        kilim::test::ethdev_keys, kilim::test::ethdev_limits, kilim::test::ethdev_refusals,
        kilim::test::ethdev_removals, kilim::test::ethdev_rules, kilim::test::ethdev_matches,
        kilim::test::ethdev_rewrites, kilim::test::ethdev_egress, kilim::test::ethdev_tellers,
        kilim::test::ethdev_natives})
    all.insert(all.end(), more.begin(), more.end());
  const int code = kilim::test::run_cases("ethdev", all, argc, argv);
  return code != 0 || argc > 1 ? code : kilim::test::tell_uncalled() != 0;
}
