// SPDX-License-Identifier: BSD-3-Clause
// Each transmit offload of an ethdev by data.
#include "ethdev_cases.hh"

namespace ethdev_sends_ut {
namespace {

using namespace kilim::test;

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

const Tries sends = {
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

}  // namespace
}  // namespace ethdev_sends_ut

const kilim::test::Tries& kilim::test::send_tries() {
  return ethdev_sends_ut::sends;
}
