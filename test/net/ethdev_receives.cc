// SPDX-License-Identifier: BSD-3-Clause
// Each receive offload of an ethdev by data.
#include <rte_thash.h>

#include "ethdev_cases.hh"

namespace ethdev_receives_ut {
namespace {

using namespace kilim::test;

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
  CU_ASSERT_TRUE_FATAL(offset >= 0);
  CU_ASSERT_TRUE_FATAL(bit >= 0);
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

const Tries receives = {
    {RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, says_ip_checksum},
    {RTE_ETH_RX_OFFLOAD_TCP_CKSUM, [](EthPair& p) { says_l4_checksum(p, tcp4, tcp6); }},
    {RTE_ETH_RX_OFFLOAD_UDP_CKSUM, [](EthPair& p) { says_l4_checksum(p, udp4, udp6); }},
    {RTE_ETH_RX_OFFLOAD_VLAN_STRIP, strips_vlan},
    {RTE_ETH_RX_OFFLOAD_VLAN_FILTER, filters_vlans},
    {RTE_ETH_RX_OFFLOAD_SCATTER, scatters},
    {RTE_ETH_RX_OFFLOAD_RSS_HASH, hashes},
    {RTE_ETH_RX_OFFLOAD_TIMESTAMP, stamps},
    {RTE_ETH_RX_OFFLOAD_TCP_LRO, joins_segments},
};
}  // namespace
}  // namespace ethdev_receives_ut

const kilim::test::Tries& kilim::test::receive_tries() {
  return ethdev_receives_ut::receives;
}
