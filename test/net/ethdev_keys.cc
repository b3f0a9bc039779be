// SPDX-License-Identifier: BSD-3-Clause
// RSS by keys of the application: hashes against Toeplitz's function written out, against the
// published ones and DPDK's own.
#include <array>
#include <set>

#include <rte_flow.h>
#include <rte_thash.h>

#include "ethdev_cases.hh"

namespace ethdev_keys_ut {
namespace {

using namespace kilim::test;

using Key = std::array<uint8_t, 40>;

// The key and the results of Microsoft's "Verifying the RSS Hash Calculation".
constexpr Key published_key{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                            0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                            0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                            0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

Key other_key() {
  Key key;
  for (std::size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i * 37 + 11);
  return key;
}

// The exclusive or of the key's 32 bits from each place on where the input has a 1.
uint32_t toeplitz(const Key& key, const Bytes& input) {
  const auto bit_of = [](uint32_t byte, std::size_t bit) { return byte >> (7 - bit % 8) & 1; };
  uint32_t hash = 0;
  for (std::size_t at = 0; at < input.size() * 8; at++) {
    if (bit_of(std::to_integer<uint32_t>(input[at / 8]), at) == 0) continue;
    for (std::size_t i = 0; i < 32; i++) hash ^= bit_of(key[(at + i) / 8], at + i) << (31 - i);
  }
  return hash;
}

// What a frame is hashed by: its addresses, and ports if `ports`.
Bytes input_of(const Bytes& frame, const FrameSpec& s, bool ports) {
  const auto from = static_cast<long>(l3_of(s) + (s.ipv6 ? 8 : 12));
  const auto to = static_cast<long>(l4_of(s) + (ports ? 4 : 0));
  return {frame.begin() + from, frame.begin() + to};
}

uint32_t softrss(const Key& key, const Bytes& input) {
  uint32_t words[10] = {};
  std::memcpy(words, input.data(), input.size());
  for (uint32_t& w : words) w = __builtin_bswap32(w);
  return rte_softrss(words, static_cast<uint32_t>(input.size() / 4), key.data());
}

// The hash of a frame that arrives, at the queue that the table has for it.
uint32_t hash_of(EthPair& p, const Bytes& frame) {
  p.queue_of.clear();
  p.far.send(frame);
  const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 4);
  EQUAL_FATAL(got.size(), 1);
  EQUAL(got[0]->ol_flags & RTE_MBUF_F_RX_RSS_HASH, RTE_MBUF_F_RX_RSS_HASH);
  const uint32_t hash = got[0]->hash.rss;
  EQUAL(p.queue_of[0], hash % 128 % 4);
  rte_pktmbuf_free(got[0]);
  return hash;
}

void expect_key(EthPair& p, const Key& key) {
  Key told{};
  rte_eth_rss_conf conf{.rss_key = told.data(), .rss_key_len = 40, .rss_hf = 0};
  EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), 0);
  EQUAL(conf.rss_key_len, 40);
  CU_ASSERT_TRUE(told == key);
}

void expect_hashes(EthPair& p, const Key& key) {
  expect_key(p, key);
  for (uint32_t n = 0; n < 8; n++) {
    for (const FrameSpec& s : {tcp4, udp4, tcp6, udp6}) {
      Bytes frame = make_frame(s);
      put16(frame, l4_of(s), 1000 + 77 * n);
      put16(frame, l4_of(s) - 3, 0xa5a5 ^ n << 5);
      const Bytes input = input_of(frame, s, true);
      const uint32_t hash = hash_of(p, frame);
      EQUAL(hash, toeplitz(key, input));
      EQUAL(hash, softrss(key, input));
    }
  }
}

constexpr uint64_t all_kinds = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP |
                               RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_IPV6 |
                               RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;

PortAsk with_key(const Key& key) {
  return {.rx = RTE_ETH_RX_OFFLOAD_RSS_HASH, .queues = 4, .rss = all_kinds, .key = key.data()};
}

// A TCP segment of the published table.
struct Published {
  std::array<uint8_t, 8> addresses;
  uint16_t source, destination;
  uint32_t of_addresses, of_ports;
};
constexpr Published published[] = {
    {{66, 9, 149, 187, 161, 142, 100, 80}, 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {{199, 92, 111, 2, 65, 69, 140, 83}, 14230, 4739, 0xd718262a, 0xc626b0ea},
};

void keys_hash_as_published() {
  EthPair p;
  for (const bool ports : {true, false}) {
    PortAsk ask = with_key(published_key);
    if (!ports) ask.rss = RTE_ETH_RSS_IPV4;
    EQUAL_FATAL(p.start(ask), 0);
    for (const Published& row : published) {
      Bytes frame = make_frame(tcp4);
      std::memcpy(frame.data() + l3_of(tcp4) + 12, row.addresses.data(), row.addresses.size());
      put16(frame, l4_of(tcp4), row.source);
      put16(frame, l4_of(tcp4) + 2, row.destination);
      EQUAL(hash_of(p, frame), ports ? row.of_ports : row.of_addresses);
    }
  }
}

void keys_are_set_changed_and_told() {
  EthPair p;
  EQUAL_FATAL(p.start(with_key(published_key)), 0);
  expect_hashes(p, published_key);
  Key key = other_key();
  rte_eth_rss_conf conf{.rss_key = key.data(), .rss_key_len = 40, .rss_hf = all_kinds};
  EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);  // under way
  expect_hashes(p, other_key());
  // Neither a key of another length nor one of none replaces it. DPDK 24.11's ethdev refuses one of
  // length 0, which 22.11's hands on.
  conf.rss_key = const_cast<uint8_t*>(published_key.data());
  conf.rss_key_len = 39;
  EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), -EINVAL);
  conf.rss_key_len = 0;
  const int none = rte_eth_dev_rss_hash_update(p.near.id, &conf);
  CU_ASSERT_TRUE(none == 0 || none == -EINVAL);
  conf.rss_key = nullptr;
  EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
  expect_hashes(p, other_key());
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(rte_eth_dev_start(p.near.id), 0);
  expect_hashes(p, other_key());
  uint8_t short_room[39];
  conf = {.rss_key = short_room, .rss_key_len = sizeof short_room, .rss_hf = 0};
  EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), -EINVAL);
}

// A table of one's own leads each hash to its entry's queue.
void tables_lead_hashes_to_queues() {
  EthPair p;
  EQUAL_FATAL(p.start(with_key(published_key)), 0);
  rte_eth_rss_reta_entry64 reta[2], told[2];
  for (rte_eth_rss_reta_entry64& group : reta) group.mask = ~uint64_t{0};
  for (uint16_t i = 0; i < 128; i++) reta[i / 64].reta[i % 64] = static_cast<uint16_t>(i * 7 % 4);
  EQUAL(rte_eth_dev_rss_reta_update(p.near.id, reta, 128), 0);
  for (rte_eth_rss_reta_entry64& group : told) group.mask = ~uint64_t{0};
  EQUAL(rte_eth_dev_rss_reta_query(p.near.id, told, 128), 0);
  for (uint16_t i = 0; i < 128; i++) EQUAL(told[i / 64].reta[i % 64], i * 7 % 4);
  for (uint32_t n = 0; n < 64; n++) {
    p.queue_of.clear();
    Bytes frame = make_frame(udp4);
    put16(frame, l4_of(udp4), 1000 + n);
    p.far.send(frame);
    const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 4);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(p.queue_of[0], got[0]->hash.rss % 128 * 7 % 4);
    rte_pktmbuf_free(got[0]);
  }
  // An entry that the mask leaves out stays; a queue that is not there is refused.
  reta[0].mask = 2;
  reta[0].reta[0] = reta[0].reta[1] = 0;
  EQUAL(rte_eth_dev_rss_reta_update(p.near.id, reta, 128), 0);
  reta[0].reta[1] = 4;
  CU_ASSERT_TRUE(rte_eth_dev_rss_reta_update(p.near.id, reta, 128) < 0);
  EQUAL(rte_eth_dev_rss_reta_query(p.near.id, told, 128), 0);
  EQUAL(told[0].reta[1], 0);
  EQUAL(told[0].reta[2], 2);
}

// Frames with the same outer headers, by the headers inside: hash, queue, type and mark of each;
// their queues.
std::set<uint16_t> expect_inner_hashes(EthPair& p, const Key& key, uint32_t mark) {
  constexpr uint64_t marked = RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
  std::set<uint16_t> queues;
  for (uint32_t n = 0; n < 16; n++) {
    for (const FrameSpec& s : {tcp4, udp4, tcp6, udp6}) {
      Bytes inner = make_frame(s);
      put16(inner, l4_of(s), 1000 + 77 * n);
      p.queue_of.clear();
      p.far.send(in_vxlan(inner));
      const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 4);
      EQUAL_FATAL(got.size(), 1);
      const uint32_t hash = toeplitz(key, input_of(inner, s, true));
      EQUAL(got[0]->hash.rss, hash);
      EQUAL(p.queue_of[0], hash % 128 % 4);
      EQUAL(got[0]->packet_type & RTE_PTYPE_INNER_L4_MASK,
            s.tcp ? RTE_PTYPE_INNER_L4_TCP : RTE_PTYPE_INNER_L4_UDP);
      EQUAL(got[0]->ol_flags & marked, mark == 0 ? 0 : marked);
      if (mark != 0) EQUAL(got[0]->hash.fdir.hi, mark);
      queues.insert(p.queue_of[0]);
      rte_pktmbuf_free(got[0]);
    }
  }
  return queues;
}

void expect_one_flow(EthPair& p, const Key& key) {
  for (uint32_t n = 0; n < 8; n++) {
    Bytes inner = make_frame(tcp4);
    put16(inner, l4_of(tcp4), 1000 + 77 * n);
    const Bytes frame = in_vxlan(inner);
    EQUAL(hash_of(p, frame), toeplitz(key, input_of(frame, udp4, true)));
  }
}

// RTE_ETH_RSS_LEVEL_*: of the whole port, changed under way.
void levels_choose_the_headers() {
  EthPair p;
  Key key = other_key();
  PortAsk ask = with_key(key);
  ask.rss |= RTE_ETH_RSS_LEVEL_INNERMOST;
  EQUAL_FATAL(p.start(ask), 0);
  EQUAL(expect_inner_hashes(p, key, 0).size(), 4u);
  expect_hashes(p, key);  // in no tunnel
  rte_eth_rss_conf conf{};
  EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), 0);
  EQUAL(conf.rss_hf, ask.rss);
  for (const uint64_t level : {RTE_ETH_RSS_LEVEL_OUTERMOST, RTE_ETH_RSS_LEVEL_PMD_DEFAULT}) {
    conf = {.rss_key = nullptr, .rss_key_len = 0, .rss_hf = all_kinds | level};
    EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
    expect_one_flow(p, key);
    conf.rss_hf = all_kinds | RTE_ETH_RSS_LEVEL_INNERMOST;
    EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
    EQUAL(expect_inner_hashes(p, key, 0).size(), 4u);
  }
  // All that is offered, as "rss default" of testpmd asks: no level.
  conf.rss_hf = all_kinds | RTE_ETH_RSS_LEVEL_MASK;
  EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
  expect_one_flow(p, key);
  EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), 0);
  EQUAL(conf.rss_hf, all_kinds);
  // A level without a kind of frames spreads nothing.
  conf.rss_hf = RTE_ETH_RSS_LEVEL_INNERMOST;
  EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
  p.queue_of.clear();
  p.far.send(in_vxlan(make_frame(tcp4)));
  const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 4);
  EQUAL_FATAL(got.size(), 1);
  EQUAL(p.queue_of[0], 0);
  rte_pktmbuf_free(got[0]);
}

// rte_flow_action_rss::level, in a rule that marks; the port itself spreads by outer headers.
void rules_spread_by_inner_headers() {
  EthPair p;
  Key key = other_key();
  EQUAL_FATAL(p.start(with_key(key)), 0);
  expect_one_flow(p, key);
  const uint16_t queues[] = {0, 1, 2, 3};
  rte_flow_action_rss rss{};
  rss.level = 2;
  rss.types = all_kinds;
  rss.queue = queues;
  rss.queue_num = 4;
  const rte_flow_action_mark mark{0x1234};
  rte_flow_attr attr{};
  attr.ingress = 1;
  const rte_flow_item items[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_IPV4, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_UDP, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_VXLAN, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
  const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_MARK, &mark},
                                     {RTE_FLOW_ACTION_TYPE_RSS, &rss},
                                     {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  rte_flow_error error{};
  rte_flow* const rule = rte_flow_create(p.near.id, &attr, items, actions, &error);
  if (rule == nullptr) std::printf("%s\n", error.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(rule);
  EQUAL(expect_inner_hashes(p, key, 0x1234).size(), 4u);
  expect_hashes(p, key);  // other UDP frames are none of the rule's
  EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
  expect_one_flow(p, key);
}

// Of addresses and ports what sides leave, in the order of the wire.
Bytes sides_of(const Bytes& frame, const FrameSpec& s, uint64_t rss_hf) {
  const std::size_t address = s.ipv6 ? 16 : 4, from = l3_of(s) + (s.ipv6 ? 8 : 12);
  Bytes input;
  const auto add = [&](std::size_t at, std::size_t bytes, uint64_t other_side) {
    if ((rss_hf & other_side) != 0) return;
    input.insert(input.end(), frame.begin() + static_cast<long>(at),
                 frame.begin() + static_cast<long>(at + bytes));
  };
  add(from, address, RTE_ETH_RSS_L3_DST_ONLY);
  add(from + address, address, RTE_ETH_RSS_L3_SRC_ONLY);
  add(l4_of(s), 2, RTE_ETH_RSS_L4_DST_ONLY);
  add(l4_of(s) + 2, 2, RTE_ETH_RSS_L4_SRC_ONLY);
  return input;
}

// The sets that DPDK's programs ask for unmasked, and one side of them.
void sets_and_sides_are_taken() {
  EthPair p;
  const Key key = other_key();
  constexpr uint64_t sets[] = {RTE_ETH_RSS_IP, RTE_ETH_RSS_UDP, RTE_ETH_RSS_TCP,
                               RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP};
  for (const uint64_t set : sets) {
    PortAsk ask = with_key(key);
    ask.rss = set;
    EQUAL_FATAL(p.start(ask), 0);
    rte_eth_rss_conf conf{};
    EQUAL(rte_eth_dev_rss_hash_conf_get(p.near.id, &conf), 0);
    EQUAL(conf.rss_hf, set);
  }
  for (const uint64_t l3 : {uint64_t{0}, RTE_ETH_RSS_L3_SRC_ONLY, RTE_ETH_RSS_L3_DST_ONLY}) {
    for (const uint64_t l4 : {uint64_t{0}, RTE_ETH_RSS_L4_SRC_ONLY, RTE_ETH_RSS_L4_DST_ONLY}) {
      rte_eth_rss_conf conf{.rss_key = nullptr, .rss_key_len = 0, .rss_hf = all_kinds | l3 | l4};
      EQUAL(rte_eth_dev_rss_hash_update(p.near.id, &conf), 0);
      for (const FrameSpec& s : {tcp4, udp4, tcp6, udp6}) {
        const Bytes frame = make_frame(s);
        EQUAL(hash_of(p, frame), toeplitz(key, sides_of(frame, s, l3 | l4)));
      }
    }
  }
}

rte_flow* spread(EthPair& p, uint64_t types, rte_flow_error& error) {
  const uint16_t queues[] = {0, 1};
  rte_flow_action_rss rss{};
  rss.types = types;
  rss.queue = queues;
  rss.queue_num = 2;
  rte_flow_attr attr{};
  attr.ingress = 1;
  const rte_flow_item items[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_IPV4, nullptr, nullptr, nullptr},
                                 {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
  const rte_flow_action actions[] = {{RTE_FLOW_ACTION_TYPE_RSS, &rss},
                                     {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  return rte_flow_create(p.near.id, &attr, items, actions, &error);
}

// rte_flow_action_rss::types: testpmd's own are RTE_ETH_RSS_IP.
void rules_take_sets_and_sides() {
  EthPair p;
  const Key key = other_key();
  EQUAL_FATAL(p.start(with_key(key)), 0);
  constexpr uint64_t ips = RTE_ETH_RSS_IP;
  for (const uint64_t types :
       {uint64_t{0}, ips, ips | RTE_ETH_RSS_UDP, uint64_t{RTE_ETH_RSS_TCP},
        ips | RTE_ETH_RSS_L3_SRC_ONLY, ips | RTE_ETH_RSS_UDP | RTE_ETH_RSS_L4_DST_ONLY}) {
    rte_flow_error error{};
    rte_flow* const rule = spread(p, types, error);
    if (rule == nullptr) std::printf("types %#lx: %s\n", types, error.message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rule);
    const bool ports = types == 0 || (types & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
    const bool addresses = types != RTE_ETH_RSS_TCP;
    const Bytes frame = make_frame(udp4);
    Bytes input = sides_of(frame, udp4, types);
    if (!ports) input.resize(input.size() - 4);
    p.far.send(frame);
    const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 4);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(got[0]->hash.rss, addresses ? toeplitz(key, input) : 0u);
    rte_pktmbuf_free(got[0]);
    EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
  }
  // One side of ports that are not hashed, of addresses without a kind of their own, and of nothing
  // at all (mlx5_validate_action_rss()).
  for (const uint64_t types : {ips | RTE_ETH_RSS_L4_SRC_ONLY, uint64_t{RTE_ETH_RSS_L3_DST_ONLY},
                               RTE_ETH_RSS_UDP | RTE_ETH_RSS_L3_SRC_ONLY}) {
    rte_flow_error error{};
    CU_ASSERT_PTR_NULL(spread(p, types, error));
    EQUAL(rte_errno, EINVAL);
    EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ACTION_CONF);
  }
}

const Case of_keys[] = {
    {"RSS keys hash as published", keys_hash_as_published},
    {"RSS keys are set, changed under way and told", keys_are_set_changed_and_told},
    {"RSS tables lead hashes to queues", tables_lead_hashes_to_queues},
    {"RSS levels choose outer or inner headers", levels_choose_the_headers},
    {"rules spread by inner headers, marked", rules_spread_by_inner_headers},
    {"RSS takes DPDK's sets, and one side of addresses and ports", sets_and_sides_are_taken},
    {"rules spread by DPDK's sets and one side of them", rules_take_sets_and_sides},
};

}  // namespace
}  // namespace ethdev_keys_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_keys = ethdev_keys_ut::of_keys;
