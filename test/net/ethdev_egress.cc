// SPDX-License-Identifier: BSD-3-Clause
// What rules of rte_flow do to frames that a port sends: they drop them, change them, or put
// headers in front. Test only, on its own thread.
#include "ethdev_matches_fixture.hh"

namespace ethdev_egress_ut {
namespace {

using namespace kilim::test;

rte_flow* make_egress(EthPair& p, Items items, Actions actions, rte_flow_error& error) {
  items.push_back(bare(RTE_FLOW_ITEM_TYPE_END));
  actions.push_back({RTE_FLOW_ACTION_TYPE_END, nullptr});
  rte_flow_attr attr{};
  attr.egress = 1;
  const int valid = rte_flow_validate(p.near.id, &attr, items.data(), actions.data(), &error);
  rte_flow* const made = rte_flow_create(p.near.id, &attr, items.data(), actions.data(), &error);
  EQUAL(valid == 0, made != nullptr);
  return made;
}

rte_flow* must_make(EthPair& p, Items items, Actions actions) {
  rte_flow_error error{};
  rte_flow* const made = make_egress(p, std::move(items), std::move(actions), error);
  if (made == nullptr) std::printf("%s\n", error.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return made;
}

void end(EthPair& p, rte_flow* rule) {
  rte_flow_error error{};
  EQUAL(rte_flow_destroy(p.near.id, rule, &error), 0);
}

// What the neighbour gets of a frame that `near` sends.
Bytes sent(EthPair& p, const Bytes& frame) {
  p.near.send(frame);
  rte_mbuf* const got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  const Bytes bytes = bytes_of(got);
  rte_pktmbuf_free(got);
  return bytes;
}

void drops_and_counts() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  const rte_flow_action drop{RTE_FLOW_ACTION_TYPE_DROP, nullptr};
  rte_flow* const rule = must_make(p, {eth, ipv4, udp_to(53)}, {drop, count});
  p.near.send(udp_frame(53));
  EQUAL(sent(p, udp_frame(54)), udp_frame(54));
  rte_flow_query_count asked{};
  const rte_flow_action what[] = {count, {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  rte_flow_error error{};
  EQUAL(rte_flow_query(p.near.id, rule, what, &asked, &error), 0);
  EQUAL(asked.hits, 1);
  EQUAL(asked.bytes, udp_frame(53).size());
  end(p, rule);
  EQUAL(sent(p, udp_frame(53)), udp_frame(53));
}

void changes_headers() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  static const rte_flow_action_set_mac mac{{2, 9, 9, 9, 9, 9}};
  rte_flow* const rule =
      must_make(p, {eth, ipv4}, {{RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac}, count});
  Bytes want = make_frame(udp4);
  std::copy_n(reinterpret_cast<const std::byte*>(mac.mac_addr), 6, want.begin() + 6);
  EQUAL(sent(p, make_frame(udp4)), want);
  EQUAL(sent(p, make_frame(udp6)), make_frame(udp6));
  end(p, rule);
  end(p, must_make(p, {eth}, {}));  // sends on what it takes, and does nothing else
}

// The device writes lengths and IPv4's sum; what an item leaves 0 says what follows.
void puts_a_tunnel_in_front() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  rte_flow_item_eth to{};
  to.hdr.dst_addr.addr_bytes[0] = 2;
  rte_flow_item_ipv4 ip{};
  ip.hdr.src_addr = rte_cpu_to_be_32(0x0a000001);
  ip.hdr.dst_addr = rte_cpu_to_be_32(0x0a000002);
  rte_flow_item_udp port{};
  port.hdr.src_port = net16(4000);
  rte_flow_item_vxlan tunnel{};
  tunnel.vni[2] = 9;
  rte_flow_item items[] = {{RTE_FLOW_ITEM_TYPE_ETH, &to, nullptr, nullptr},
                           {RTE_FLOW_ITEM_TYPE_VOID, nullptr, nullptr, nullptr},
                           {RTE_FLOW_ITEM_TYPE_IPV4, &ip, nullptr, nullptr},
                           {RTE_FLOW_ITEM_TYPE_UDP, &port, nullptr, nullptr},
                           {RTE_FLOW_ITEM_TYPE_VXLAN, &tunnel, nullptr, nullptr},
                           bare(RTE_FLOW_ITEM_TYPE_END)};
  const rte_flow_action_vxlan_encap encap{items};
  rte_flow* const rule = must_make(p, {eth, ipv4}, {{RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &encap}});
  const Bytes inner = make_frame(udp4), got = sent(p, inner);
  constexpr std::size_t front = 14 + 20 + 8 + 8;
  EQUAL_FATAL(got.size(), front + inner.size());
  EQUAL(Bytes(got.begin() + front, got.end()), inner);
  EQUAL(get16(got, 12), 0x0800);
  EQUAL(get16(got, 14 + 2), got.size() - 14);
  EQUAL(std::to_integer<unsigned>(got[14 + 9]), 17u);
  EQUAL(l3_check(got, udp4), 0xffff);
  EQUAL(get16(got, 34 + 2), 4789);
  EQUAL(get16(got, 34 + 4), got.size() - 34);
  EQUAL(std::to_integer<unsigned>(got[42]), 8u);
  EQUAL(std::to_integer<unsigned>(got[42 + 6]), 9u);
  // A tunnel of another order than a frame's is none.
  std::swap(items[2], items[3]);
  rte_flow_error error{};
  CU_ASSERT_PTR_NULL(make_egress(p, {eth}, {{RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &encap}}, error));
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ACTION_CONF);
  end(p, rule);
}

void refuses_queues_and_marks() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  static const rte_flow_action_mark mark{5};
  rte_flow_error error{};
  CU_ASSERT_PTR_NULL(make_egress(p, {eth}, {queue_1}, error));
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ATTR_EGRESS);
  CU_ASSERT_PTR_NULL(make_egress(p, {eth}, {{RTE_FLOW_ACTION_TYPE_MARK, &mark}}, error));
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ACTION_CONF);
}

// What a rule says where it is asked to be dumped, and that a number that is no queue's is refused.
void words_of_the_prompt_are_answered() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  rte_flow_error error{};
  rte_flow* const rule = make(p, "count", {eth}, {{RTE_FLOW_ACTION_TYPE_DROP, nullptr}, count});
  char* text = nullptr;
  std::size_t bytes = 0;
  FILE* const file = open_memstream(&text, &bytes);
  EQUAL(rte_flow_dev_dump(p.near.id, rule, file, &error), 0);
  EQUAL(rte_flow_dev_dump(p.near.id, nullptr, file, &error), 0);
  std::fclose(file);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(text, ": 0 packets, 0 bytes\nrule "));
  std::free(text);
  EQUAL(rte_flow_get_aged_flows(p.near.id, nullptr, 0, &error), 0);
  EQUAL(rte_flow_push(p.near.id, 0, &error), -ENOTSUP);
  EQUAL(rte_flow_pull(p.near.id, 0, nullptr, 0, &error), -ENOTSUP);
  EQUAL(rte_eth_rx_descriptor_status(p.near.id, 9, 0), -EINVAL);
  EQUAL(rte_eth_tx_descriptor_status(p.near.id, 9, 0), -EINVAL);
}

const Case of_egress[] = {
    {"egress rules drop and count", drops_and_counts},
    {"egress rules change headers", changes_headers},
    {"egress rules put a tunnel in front", puts_a_tunnel_in_front},
    {"egress rules lead to no queue", refuses_queues_and_marks},
    {"rules are dumped, none ages", words_of_the_prompt_are_answered},
};

}  // namespace
}  // namespace ethdev_egress_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_egress = ethdev_egress_ut::of_egress;
