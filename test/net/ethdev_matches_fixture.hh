// SPDX-License-Identifier: BSD-3-Clause
// What ethdev_matches.cc and ethdev_rewrites.cc share: items of rte_flow that own their words,
// frames that differ in one field, and rules that lead to the second queue. Test only, on its own
// thread.
#pragma once

#include <initializer_list>
#include <memory>

#include <rte_flow.h>

#include "ethdev_cases.hh"

namespace kilim::test {

using Items = std::vector<rte_flow_item>;
using Actions = std::vector<rte_flow_action>;

// An item that owns its words: spec, mask and where it is asked for last.
template <typename T>
struct Owned {
  T spec{}, mask{}, last{};
  bool ranges = false;
  rte_flow_item as(rte_flow_item_type type) const {
    return {type, &spec, ranges ? &last : nullptr, &mask};
  }
};
template <typename T, typename Set>
const Owned<T>& words(Set set) {
  static std::vector<std::unique_ptr<Owned<T>>> all;  // until the program ends
  all.push_back(std::make_unique<Owned<T>>());
  set(*all.back());
  return *all.back();
}

constexpr rte_flow_item bare(rte_flow_item_type type) {
  return {type, nullptr, nullptr, nullptr};
}
inline const rte_flow_item eth = bare(RTE_FLOW_ITEM_TYPE_ETH), vlan = bare(RTE_FLOW_ITEM_TYPE_VLAN),
                           ipv4 = bare(RTE_FLOW_ITEM_TYPE_IPV4),
                           ipv6 = bare(RTE_FLOW_ITEM_TYPE_IPV6), tcp = bare(RTE_FLOW_ITEM_TYPE_TCP),
                           udp = bare(RTE_FLOW_ITEM_TYPE_UDP),
                           vxlan = bare(RTE_FLOW_ITEM_TYPE_VXLAN),
                           gre = bare(RTE_FLOW_ITEM_TYPE_GRE);

inline rte_be16_t net16(unsigned n) {
  return rte_cpu_to_be_16(static_cast<uint16_t>(n));
}

template <typename Set>
rte_flow_item an_eth(Set set) {
  return words<rte_flow_item_eth>(set).as(RTE_FLOW_ITEM_TYPE_ETH);
}
template <typename Set>
rte_flow_item a_vlan(Set set) {
  return words<rte_flow_item_vlan>(set).as(RTE_FLOW_ITEM_TYPE_VLAN);
}
template <typename Set>
rte_flow_item an_ipv4(Set set) {
  return words<rte_flow_item_ipv4>(set).as(RTE_FLOW_ITEM_TYPE_IPV4);
}
template <typename Set>
rte_flow_item an_ipv6(Set set) {
  return words<rte_flow_item_ipv6>(set).as(RTE_FLOW_ITEM_TYPE_IPV6);
}
template <typename Set>
rte_flow_item an_icmp(Set set) {
  return words<rte_flow_item_icmp>(set).as(RTE_FLOW_ITEM_TYPE_ICMP);
}
template <typename Set>
rte_flow_item a_gre(Set set) {
  return words<rte_flow_item_gre>(set).as(RTE_FLOW_ITEM_TYPE_GRE);
}
inline rte_flow_item udp_to(unsigned port) {
  return words<rte_flow_item_udp>([port](auto& w) {
           w.spec.hdr.dst_port = net16(port);
           w.mask.hdr.dst_port = net16(0xffff);
         })
      .as(RTE_FLOW_ITEM_TYPE_UDP);
}

// Frames.
inline Bytes tagged(int tags, bool service = false) {
  Bytes b = make_frame({.tcp = false, .tags = tags});
  if (service) put16(b, 12, 0x88a8);
  return b;
}
inline Bytes changed(const FrameSpec& s, std::size_t at, unsigned value) {
  Bytes b = make_frame(s);
  b[at] = static_cast<std::byte>(value);
  return b;
}
inline constexpr std::size_t ttl_at = 14 + 8, hop_at = 14 + 7, protocol_at = 14 + 9,
                             next_at = 14 + 6;
// A packet of this protocol whose payload begins with these bytes.
inline Bytes carrying(const FrameSpec& s, unsigned protocol,
                      std::initializer_list<unsigned> payload) {
  Bytes b = changed(s, s.ipv6 ? next_at : protocol_at, protocol);
  std::size_t at = l4_of(s);
  for (const unsigned byte : payload) b[at++] = static_cast<std::byte>(byte);
  return b;
}
inline Bytes udp_frame(unsigned port) {
  Bytes b = make_frame(udp4);
  put16(b, l4_of(udp4) + 2, port);
  return b;
}
// The packet of a frame, or the whole frame, behind IPv4 and GRE; with a key where it is not 0.
inline Bytes in_gre(const Bytes& inner, uint32_t key, bool whole = false) {
  constexpr std::size_t ip_at = 14, gre_at = 34;
  const std::size_t from = whole ? 0 : 14, header = key != 0 ? 8 : 4;
  const Bytes outer = make_frame(udp4);
  Bytes b(outer.begin(), outer.begin() + gre_at);
  b.resize(gre_at + header);
  b[protocol_at] = std::byte{47};
  put16(b, gre_at, key != 0 ? 0x2000 : 0);
  put16(b, gre_at + 2, whole ? 0x6558 : get16(inner, 12));
  if (key != 0) put16(b, gre_at + 4, key >> 16), put16(b, gre_at + 6, key & 0xffff);
  b.insert(b.end(), inner.begin() + static_cast<long>(from), inner.end());
  put16(b, ip_at + 2, b.size() - ip_at);
  return b;
}

struct Row {
  const char* what;
  Items items;
  std::vector<Bytes> takes, leaves;
};

// The queue that a frame comes to.
inline uint16_t queue_of(EthPair& p, const Bytes& frame) {
  p.queue_of.clear();
  p.far.send(frame);
  const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 2);
  EQUAL_FATAL(got.size(), 1);
  rte_pktmbuf_free(got[0]);
  return p.queue_of[0];
}

inline rte_flow* make(EthPair& p, const char* what, Items items, Actions actions) {
  items.push_back(bare(RTE_FLOW_ITEM_TYPE_END));
  actions.push_back({RTE_FLOW_ACTION_TYPE_END, nullptr});
  rte_flow_attr attr{};
  attr.ingress = 1;
  rte_flow_error error{};
  EQUAL(rte_flow_validate(p.near.id, &attr, items.data(), actions.data(), &error), 0);
  rte_flow* const made = rte_flow_create(p.near.id, &attr, items.data(), actions.data(), &error);
  if (made == nullptr) std::printf("%s: %s\n", what, error.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return made;
}

inline const rte_flow_action_queue to_1{1};
inline const rte_flow_action queue_1{RTE_FLOW_ACTION_TYPE_QUEUE, &to_1},
    count{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};

// Each rule alone: what it takes goes to the second queue and is counted, the rest to the first.
inline void take(const std::vector<Row>& rows) {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  for (const Row& row : rows) {
    rte_flow* const rule = make(p, row.what, row.items, {queue_1, count});
    const auto expect = [&](const std::vector<Bytes>& frames, uint16_t queue) {
      for (std::size_t i = 0; i < frames.size(); i++) {
        const uint16_t got = queue_of(p, frames[i]);
        if (got != queue) std::printf("%s: frame %zu for queue %u\n", row.what, i, queue);
        EQUAL(got, queue);
      }
    };
    expect(row.takes, 1);
    expect(row.leaves, 0);
    rte_flow_query_count asked{};
    const rte_flow_action what[] = {count, {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    rte_flow_error error{};
    EQUAL(rte_flow_query(p.near.id, rule, what, &asked, &error), 0);
    EQUAL(asked.hits, row.takes.size());
    EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
  }
}

}  // namespace kilim::test
