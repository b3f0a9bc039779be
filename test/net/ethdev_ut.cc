// SPDX-License-Identifier: BSD-3-Clause
// Each capability that the ethdev tells, tried by data: every bit of receive and transmit offloads,
// for the port and for a queue, and every kind of RSS hash. What is not told is refused.
#include <functional>
#include <map>
#include <set>

#include <rte_log.h>
#include <rte_thash.h>

#include "ethdev_cases.hh"
#include "ethdev_fixture.hh"

namespace {

using namespace kilim::test;

using Try = std::function<void(EthPair&)>;

const FrameSpec tcp4{}, udp4{.tcp = false}, tcp6{.ipv6 = true}, udp6{.ipv6 = true, .tcp = false};

Bytes with(Bytes frame, std::size_t at, uint8_t flip) {
  frame[at] ^= std::byte{flip};
  return frame;
}

// `near` receives the frame as it is, and says these flags of `mask`.
void arrives(EthPair& p, const Bytes& frame, uint64_t mask, uint64_t flags) {
  p.far.send(frame);
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(m->ol_flags & mask, flags);
  EQUAL(bytes_of(m), frame);
  rte_pktmbuf_free(m);
}

void says_ip_checksum(EthPair& p) {
  const Bytes good = make_frame(udp4);
  arrives(p, good, RTE_MBUF_F_RX_IP_CKSUM_MASK, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
  p.far.send(with(good, l3_of(udp4) + 8, 1));
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_TRUE((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) != RTE_MBUF_F_RX_IP_CKSUM_GOOD);
  rte_pktmbuf_free(m);
}

void says_l4_checksum(EthPair& p, const FrameSpec& v4, const FrameSpec& v6) {
  for (const FrameSpec& s : {v4, v6}) {
    const Bytes good = make_frame(s);
    arrives(p, good, RTE_MBUF_F_RX_L4_CKSUM_MASK, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    p.far.send(with(good, payload_of(s), 1));
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    CU_ASSERT_TRUE((m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) != RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    rte_pktmbuf_free(m);
  }
}

void strips_vlan(EthPair& p) {
  FrameSpec tagged = udp4;
  tagged.tags = 1;
  const Bytes frame = make_frame(tagged);
  p.far.send(frame);
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(m->ol_flags & (RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED),
        RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
  EQUAL(m->vlan_tci, 0x2064);
  Bytes untagged = frame;
  untagged.erase(untagged.begin() + 12, untagged.begin() + 16);
  EQUAL(bytes_of(m), untagged);
  rte_pktmbuf_free(m);
  arrives(p, make_frame(udp4), RTE_MBUF_F_RX_VLAN_STRIPPED, 0);
}

// Frames of a VLAN that was not asked for, and those without one, do not arrive. Behind them one
// arrives that does.
void filters_vlans(EthPair& p) {
  EQUAL(rte_eth_promiscuous_disable(p.near.id), 0);
  rte_ether_addr group{{0x03, 0x11, 0x12, 0x13, 0x14, 0x15}};
  EQUAL(rte_eth_dev_set_mc_addr_list(p.near.id, &group, 1), 0);
  EQUAL(rte_eth_dev_vlan_filter(p.near.id, 0x64, 1), 0);
  FrameSpec tagged{.tcp = false, .tags = 1, .dst_first = 0x03};
  const Bytes mine = make_frame(tagged), other = with(mine, 15, 1);
  p.far.send(other);
  tagged.tags = 0;
  p.far.send(make_frame(tagged));
  arrives(p, mine, 0, 0);
  EQUAL(rte_eth_dev_vlan_filter(p.near.id, 0x64, 0), 0);
  EQUAL(rte_eth_dev_vlan_filter(p.near.id, 0x65, 1), 0);
  p.far.send(mine);
  arrives(p, other, 0, 0);
  p.receive_none(p.near);
  EQUAL(rte_eth_dev_set_mc_addr_list(p.near.id, nullptr, 0), 0);
}

void scatters(EthPair& p) {
  for (const std::size_t payload : {100u, 2048u - 42u, 2048u - 41u, 5000u, 8900u}) {
    FrameSpec s = udp4;
    s.payload = payload;
    const Bytes frame = make_frame(s);
    p.far.send(frame);
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL(m->nb_segs, (frame.size() + 2047) / 2048);
    EQUAL(m->pkt_len, frame.size());
    EQUAL(bytes_of(m), frame);
    rte_pktmbuf_free(m);
  }
}

void hashes(EthPair& p) {
  const Bytes frame = make_frame(tcp4);
  p.far.send(frame);
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  EQUAL(m->ol_flags & RTE_MBUF_F_RX_RSS_HASH, RTE_MBUF_F_RX_RSS_HASH);
  uint8_t key[40];
  rte_eth_rss_conf conf{.rss_key = key, .rss_key_len = sizeof key, .rss_hf = 0};
  EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), 0);
  uint32_t tuple[3];
  std::memcpy(tuple, frame.data() + l3_of(tcp4) + 12, sizeof tuple);
  for (uint32_t& w : tuple) w = __builtin_bswap32(w);
  EQUAL(m->hash.rss, rte_softrss(tuple, 3, key));
  rte_pktmbuf_free(m);
}

// Stamps of the device's clock: they grow, and a reading before and behind encloses them.
void stamps(EthPair& p) {
  const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
  const int bit = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, nullptr);
  CU_ASSERT_TRUE_FATAL(offset >= 0 && bit >= 0);
  uint64_t last = 0;
  EQUAL(rte_eth_read_clock(p.near.id, &last), 0);
  for (int i = 0; i < 5; i++) {
    p.far.send(make_frame(udp4));
    rte_mbuf* const m = p.receive_one(p.near);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    EQUAL(m->ol_flags >> bit & 1, 1);
    const uint64_t at = *RTE_MBUF_DYNFIELD(m, offset, uint64_t*);
    CU_ASSERT_TRUE(at > last);
    EQUAL(rte_eth_read_clock(p.near.id, &last), 0);
    CU_ASSERT_TRUE(last >= at);
    rte_pktmbuf_free(m);
  }
}

// What `near` sends arrives as `frame`.
void leaves(EthPair& p, rte_mbuf* m, const Bytes& frame) {
  EQUAL(rte_eth_tx_prepare(p.near.id, 0, &m, 1), 1);
  p.near.send(m);
  rte_mbuf* const got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  EQUAL(bytes_of(got), frame);
  rte_pktmbuf_free(got);
}

rte_mbuf* asking(EthPair& p, const Bytes& frame, const FrameSpec& s, uint64_t flags) {
  rte_mbuf* const m = p.near.load(frame);
  m->tx_offload =
      rte_mbuf_tx_offload(l3_of(s), l4_of(s) - l3_of(s), payload_of(s) - l4_of(s), 0, 0, 0, 0);
  m->ol_flags |= flags | (s.ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
  return m;
}

void writes_ip_checksum(EthPair& p) {
  const Bytes good = make_frame(tcp4);
  const Bytes bad = with(with(good, l3_of(tcp4) + 10, 0x5a), l3_of(tcp4) + 11, 0xa5);
  leaves(p, asking(p, bad, tcp4, RTE_MBUF_F_TX_IP_CKSUM), good);
  leaves(p, p.near.load(bad), bad);
}

void writes_l4_checksum(EthPair& p, const FrameSpec& v4, const FrameSpec& v6, uint64_t flag) {
  for (const FrameSpec& s : {v4, v6}) {
    const Bytes good = make_frame(s);
    const Bytes bad = with(with(good, l4_checksum_at(s), 0x5a), l4_checksum_at(s) + 1, 0xa5);
    leaves(p, asking(p, bad, s, flag), good);
    leaves(p, p.near.load(bad), bad);
  }
}

void inserts_vlan(EthPair& p) {
  const Bytes frame = make_frame(udp4);
  rte_mbuf* const m = p.near.load(frame);
  m->vlan_tci = 0x2064;
  m->ol_flags |= RTE_MBUF_F_TX_VLAN;
  Bytes tagged = frame;
  const std::byte tag[] = {std::byte{0x81}, std::byte{0}, std::byte{0x20}, std::byte{0x64}};
  tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));
  leaves(p, m, tagged);
}

void segments(EthPair& p) {
  constexpr uint32_t mss = 500, payload = 1400;
  FrameSpec s = tcp4;
  s.payload = payload;
  const Bytes frame = make_frame(s);
  rte_mbuf* m = asking(p, frame, s, RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IP_CKSUM);
  m->tso_segsz = mss;
  EQUAL(rte_eth_tx_prepare(p.near.id, 0, &m, 1), 1);
  p.near.send(m);
  const std::vector<rte_mbuf*> got = p.receive(p.far, 3);
  EQUAL_FATAL(got.size(), 3);
  Bytes joined;
  for (std::size_t i = 0; i < got.size(); i++) {
    const Bytes b = bytes_of(got[i]);
    EQUAL(b.size(), payload_of(s) + (i < 2 ? mss : payload - 2 * mss));
    EQUAL(l3_check(b, s), 0xffff);
    EQUAL(l4_check(b, s), 0xffff);
    EQUAL(get16(b, l4_of(s) + 6), s.seq + i * mss);
    joined.insert(joined.end(), b.begin() + static_cast<long>(payload_of(s)), b.end());
  }
  EQUAL(joined, Bytes(frame.begin() + static_cast<long>(payload_of(s)), frame.end()));
  rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(got.data()), 3);
}

void gathers(EthPair& p) {
  FrameSpec s = udp4;
  s.payload = 1300;
  const Bytes frame = make_frame(s);
  for (const std::size_t piece : {50u, 200u, 700u}) leaves(p, p.near.load(frame, piece), frame);
}

// Frees go to the mempool, as many as were sent.
void frees_fast(EthPair& p) {
  const uint32_t before = rte_mempool_in_use_count(p.pool);
  for (int i = 0; i < 300; i++) {
    FrameSpec s = udp4;
    s.payload = static_cast<std::size_t>(50 + i);
    leaves(p, p.near.load(make_frame(s)), make_frame(s));
  }
  for (int turn = 0; turn < 50 && rte_mempool_in_use_count(p.pool) > before; turn++)
    (void)rte_eth_tx_done_cleanup(p.near.id, 0, 0);
  CU_ASSERT_TRUE(rte_mempool_in_use_count(p.pool) <= before);
}

const std::map<uint64_t, Try> receives = {
    {RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, says_ip_checksum},
    {RTE_ETH_RX_OFFLOAD_TCP_CKSUM, [](EthPair& p) { says_l4_checksum(p, tcp4, tcp6); }},
    {RTE_ETH_RX_OFFLOAD_UDP_CKSUM, [](EthPair& p) { says_l4_checksum(p, udp4, udp6); }},
    {RTE_ETH_RX_OFFLOAD_VLAN_STRIP, strips_vlan},
    {RTE_ETH_RX_OFFLOAD_VLAN_FILTER, filters_vlans},
    {RTE_ETH_RX_OFFLOAD_SCATTER, scatters},
    {RTE_ETH_RX_OFFLOAD_RSS_HASH, hashes},
    {RTE_ETH_RX_OFFLOAD_TIMESTAMP, stamps},
};
const std::map<uint64_t, Try> sends = {
    {RTE_ETH_TX_OFFLOAD_VLAN_INSERT, inserts_vlan},
    {RTE_ETH_TX_OFFLOAD_IPV4_CKSUM, writes_ip_checksum},
    {RTE_ETH_TX_OFFLOAD_TCP_CKSUM,
     [](EthPair& p) { writes_l4_checksum(p, tcp4, tcp6, RTE_MBUF_F_TX_TCP_CKSUM); }},
    {RTE_ETH_TX_OFFLOAD_UDP_CKSUM,
     [](EthPair& p) { writes_l4_checksum(p, udp4, udp6, RTE_MBUF_F_TX_UDP_CKSUM); }},
    {RTE_ETH_TX_OFFLOAD_TCP_TSO, segments},
    {RTE_ETH_TX_OFFLOAD_MULTI_SEGS, gathers},
    {RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, frees_fast},
};

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
  const std::map<uint64_t, Try>& table = rx ? receives : sends;
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
  for (const auto& [bit, how] : receives) all |= bit;
  EQUAL(info.rx_offload_capa, all);  // this device has all that a driver of ours can tell
  for (uint64_t bit = 1; bit != 0; bit <<= 1) {
    try_bit(true, false, bit, info.rx_offload_capa);
    try_bit(true, true, bit, info.rx_queue_offload_capa);
  }
}

void each_transmit_offload_works_or_is_refused() {
  const rte_eth_dev_info info = info_of(pair());
  uint64_t all = 0;
  for (const auto& [bit, how] : sends) all |= bit;
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
  const uint64_t v6 = RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_OTHER |
                      RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
  const uint64_t udp = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
  const uint64_t l4 = udp | RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
  FrameSpec s{.ipv6 = (kind & v6) != 0, .tcp = (kind & udp) == 0};
  if (kind == RTE_ETH_RSS_FRAG_IPV4) s.fragment = 0x2000;
  Bytes b = make_frame(s);
  const bool other =
      (kind & (RTE_ETH_RSS_NONFRAG_IPV4_OTHER | RTE_ETH_RSS_NONFRAG_IPV6_OTHER)) != 0;
  if (other) b[l3_of(s) + (s.ipv6 ? 6 : 9)] = std::byte{47};
  if (kind == RTE_ETH_RSS_FRAG_IPV6) {  // a fragment header in front of TCP
    const std::byte header[8] = {std::byte{6}, {}, {}, std::byte{1}, {}, {}, {}, std::byte{9}};
    b[l3_of(s) + 6] = std::byte{44};
    b.insert(b.begin() + static_cast<long>(l4_of(s)), std::begin(header), std::end(header));
    put16(b, l3_of(s) + 4, b.size() - l4_of(s));
  }
  // Of TCP and UDP the ports, else the addresses' last bytes.
  put16(b, (kind & l4) != 0 ? l4_of(s) : l4_of(s) - 2, 4000 + 7 * n);
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

int main(int argc, char** argv) {
  std::vector<Case> all(std::begin(cases), std::end(cases));
  all.insert(all.end(), ethdev_runs.begin(), ethdev_runs.end());
  return kilim::test::run_cases("ethdev", all, argc, argv);
}
