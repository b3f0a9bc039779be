// SPDX-License-Identifier: BSD-3-Clause
// Packets that would end a transmit queue: rte_eth_tx_prepare() stops at them, the burst drops and
// counts them, and the other packets of the burst leave.
#include <rte_errno.h>

#include "ethdev_cases.hh"

namespace ethdev_refusals_ut {
namespace {

using namespace kilim::test;

constexpr uint16_t one_burst = 32;
constexpr uint32_t wire_mtu = 9000, longest = wire_mtu + 14 + 2 * 4;
constexpr uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_VLAN_INSERT |
                              RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                              RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_TSO;

using Make = rte_mbuf* (*)(EthPair&);
struct Packet {
  const char* name;
  Make make;
};

// Of mbufs that hold a frame of any length.
rte_mempool* large_pool() {
  static rte_mempool* const pool = mbuf_pool("refusals", 255, RTE_PKTMBUF_HEADROOM + 10240);
  return pool;
}

rte_mbuf* in_one(const Bytes& frame) {
  rte_mbuf* const m = rte_pktmbuf_alloc(large_pool());
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  char* const to = rte_pktmbuf_append(m, static_cast<uint16_t>(frame.size()));
  if (!frame.empty()) std::memcpy(to, frame.data(), frame.size());
  return m;
}

rte_mbuf* with_tag(rte_mbuf* m) {
  m->ol_flags |= RTE_MBUF_F_TX_VLAN;
  m->vlan_tci = 100;
  return m;
}

// TSO of this frame; `more` bytes are told of TCP's header beyond those that there are.
rte_mbuf* segmented(rte_mbuf* m, const FrameSpec& s, uint16_t mss, int more = 0) {
  m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IP_CKSUM |
                 (s.ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
  m->l2_len = l3_of(s) & 0x7f;
  m->l3_len = (l4_of(s) - l3_of(s)) & 0x1ff;
  m->l4_len = (payload_of(s) - l4_of(s) + static_cast<std::size_t>(more)) & 0xff;
  m->tso_segsz = mss;
  return m;
}

FrameSpec tcp_of(std::size_t payload, bool ipv6 = false, int tags = 0) {
  FrameSpec s = tcp4;
  s.ipv6 = ipv6;
  s.tags = tags;
  s.payload = payload;
  return s;
}

rte_mbuf* tso(EthPair& p, const FrameSpec& s, uint16_t mss, int more = 0) {
  return segmented(p.near.load(make_frame(s)), s, mss, more);
}

// TSO of a frame, of which a byte is another one.
template <std::size_t from_l3, uint8_t value>
rte_mbuf* tso_with(EthPair& p) {
  const FrameSpec s = tcp_of(1000);
  Bytes b = make_frame(s);
  b[l3_of(s) + from_l3] = std::byte{value};
  return segmented(p.near.load(b), s, 500);
}

const Packet bad[] = {
    {"one byte less than a header", [](EthPair&) { return in_one(Bytes(13)); }},
    {"the same in two mbufs", [](EthPair& p) { return p.near.load(Bytes(13), 7); }},
    {"the same with a tag to put in", [](EthPair&) { return with_tag(in_one(Bytes(13))); }},
    {"one byte", [](EthPair&) { return in_one(Bytes(1)); }},
    {"nothing", [](EthPair&) { return in_one({}); }},
    {"one byte more than the wire takes",
     [](EthPair&) { return in_one(frame_of(longest + 1, 0)); }},
    {"the same in pieces", [](EthPair& p) { return p.near.load(frame_of(longest + 1, 0), 1800); }},
    {"too long with its tag", [](EthPair&) { return with_tag(in_one(frame_of(longest - 3, 0))); }},
    {"segments too long", [](EthPair& p) { return tso(p, tcp_of(9100), longest - 53); }},
    {"segments too long with their tag",
     [](EthPair& p) { return with_tag(tso(p, tcp_of(9100), longest - 57)); }},
    {"no segment size", [](EthPair& p) { return tso(p, tcp_of(1000), 0); }},
    {"headers told too long", [](EthPair& p) { return tso(p, tcp_of(1000), 500, 4); }},
    {"headers told too short", [](EthPair& p) { return tso(p, tcp_of(1000), 500, -4); }},
    {"headers without payload", [](EthPair& p) { return tso(p, tcp_of(0), 500); }},
    {"segments of UDP", [](EthPair& p) { return tso(p, udp4, 50); }},
    {"segments of another protocol", tso_with<9, 47>},
    {"segments of a fragment", tso_with<6, 0x20>},
    {"segments of IP of another version", tso_with<0, 0x55>},
    {"IP's header shorter than told", tso_with<0, 0x44>},
    {"IP's header longer than told", tso_with<0, 0x46>},
    {"TCP's header shorter than told", tso_with<32, 0x40>},
    {"TCP's header longer than told", tso_with<32, 0x60>},
    {"segments of ARP",
     [](EthPair& p) {
       Bytes b = make_frame(tcp_of(1000));
       put16(b, 12, 0x0806);
       return segmented(p.near.load(b), tcp_of(1000), 500);
     }},
    {"more bytes told than there are",
     [](EthPair& p) {
       rte_mbuf* const m = p.near.load(frame_of(200, 0), 100);
       m->pkt_len += 50;
       return m;
     }},
    {"more mbufs than a WQE has pieces",
     [](EthPair& p) { return p.near.load(frame_of(2000, 0), 20); }},
};

// A bad packet at this place of a burst of good ones.
void passes_the_others(EthPair& p, const Packet& what, uint16_t place) {
  rte_mbuf* in[one_burst];
  for (uint16_t i = 0; i < one_burst; i++)
    in[i] = i == place ? what.make(p) : p.near.load(frame_of(100 + 3u * i, i));
  const uint64_t dropped = xstat(p.near, "tx_q0_dropped");
  rte_errno = 0;
  const uint16_t prepared = rte_eth_tx_prepare(p.near.id, 0, in, one_burst);
  const int why = rte_errno;
  EQUAL(rte_eth_tx_burst(p.near.id, 0, in, one_burst), one_burst);
  const std::vector<rte_mbuf*> got = p.receive(p.far, one_burst - 1);
  uint32_t right = 0;
  for (uint16_t i = 0; i < got.size(); i++) {
    const uint32_t number = i < place ? i : i + 1u;
    right += bytes_of(got[i]) == frame_of(100 + 3 * number, number);
    rte_pktmbuf_free(got[i]);
  }
  const bool good = right == one_burst - 1 && prepared == place && why == EINVAL &&
                    xstat(p.near, "tx_q0_dropped") == dropped + 1;
  if (!good)
    std::printf("%s at %u: %u of %u others, prepare %u (errno %d), dropped %lu\n", what.name,
                unsigned{place}, right, one_burst - 1u, unsigned{prepared}, why,
                xstat(p.near, "tx_q0_dropped") - dropped);
  CU_ASSERT_TRUE(good);
}

// In WQEs of many, of one, with the frame's start and with all of it in them.
void the_others_of_a_burst_leave() {
  for (const char* devargs :
       {"", ",txq_mpw_en=0", ",txq_inline_min=18", ",txq_inline_max=200,txq_mpw_en=0"}) {
    EthPair p(devargs);
    EQUAL_FATAL(p.start({.tx = offloads}), 0);
    for (const Packet& what : bad)
      for (const int place : {0, 15, one_burst - 1})
        passes_the_others(p, what, static_cast<uint16_t>(place));
    EQUAL(xstat(p.near, "tx_q0_recoveries"), 0);
    EQUAL(xstat(p.near, "tx_q0_lost"), 0);
  }
}

// A hop-by-hop header of eight bytes in front of TCP.
rte_mbuf* with_extension(EthPair& p, uint16_t mss) {
  const FrameSpec s = tcp_of(2000, true);
  Bytes b = make_frame(s);
  b[l3_of(s) + 6] = std::byte{0};
  const std::byte header[8] = {std::byte{6}, {}, std::byte{1}, std::byte{4}, {}, {}, {}, {}};
  b.insert(b.begin() + static_cast<long>(l4_of(s)), std::begin(header), std::end(header));
  rte_mbuf* const m = segmented(p.near.load(b), s, mss);
  m->l3_len = 48;
  return m;
}

struct Good {
  const char* name;
  Make make;
  std::size_t frames, first;  // how many leave, and the length of the first
};
const Good good[] = {
    {"a header alone", [](EthPair&) { return in_one(Bytes(14)); }, 1, 14},
    {"a header in two mbufs", [](EthPair& p) { return p.near.load(Bytes(14), 7); }, 1, 14},
    {"as long as the wire takes", [](EthPair&) { return in_one(frame_of(longest, 0)); }, 1,
     longest},
    {"the same in pieces", [](EthPair& p) { return p.near.load(frame_of(longest, 0), 1800); }, 1,
     longest},
    {"as long with its tag", [](EthPair&) { return with_tag(in_one(frame_of(longest - 4, 0))); }, 1,
     longest},
    {"segments as long", [](EthPair& p) { return tso(p, tcp_of(9100), longest - 54); }, 2, longest},
    {"a packet shorter than its segments", [](EthPair& p) { return tso(p, tcp_of(700), 10000); }, 1,
     754},
    {"segments of IPv6 with an extension", [](EthPair& p) { return with_extension(p, 1500); }, 2,
     1582},
    {"segments of a packet with tags",
     [](EthPair& p) { return tso(p, tcp_of(2000, false, 2), 1500); }, 2, 1562},
};

void what_a_wire_takes_is_not_refused() {
  EthPair p;
  EQUAL_FATAL(p.start({.tx = offloads}), 0);
  for (const Good& what : good) {
    rte_mbuf* m = what.make(p);
    const uint16_t prepared = rte_eth_tx_prepare(p.near.id, 0, &m, 1);
    EQUAL(rte_eth_tx_burst(p.near.id, 0, &m, 1), 1);
    const std::vector<rte_mbuf*> got = p.receive(p.far, what.frames);
    const std::size_t bytes = got.empty() ? 0 : got[0]->pkt_len;
    for (rte_mbuf* r : got) rte_pktmbuf_free(r);
    if (prepared != 1 || got.size() != what.frames || bytes != what.first)
      std::printf("%s: prepare %u, %zu frames, the first of %zu bytes\n", what.name,
                  unsigned{prepared}, got.size(), bytes);
    EQUAL(prepared, 1);
    EQUAL(got.size(), what.frames);
    EQUAL(bytes, what.first);
  }
  EQUAL(xstat(p.near, "tx_q0_dropped"), 0);
}

const Case of_refusals[] = {
    {"a packet that would end the queue is dropped, the others of its burst leave",
     the_others_of_a_burst_leave},
    {"what a wire takes is not refused", what_a_wire_takes_is_not_refused},
};

}  // namespace
}  // namespace ethdev_refusals_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_refusals =
    ethdev_refusals_ut::of_refusals;
