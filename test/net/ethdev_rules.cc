// SPDX-License-Identifier: BSD-3-Clause
// rte_flow on an ethdev: what is refused, with type and cause of the error, and what rules that are
// taken do to frames.
#include <rte_flow.h>

#include "ethdev_cases.hh"

namespace ethdev_rules_ut {
namespace {

using namespace kilim::test;

constexpr rte_flow_item end_item{RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr};
constexpr rte_flow_action end_action{RTE_FLOW_ACTION_TYPE_END, nullptr};

rte_flow_item item(rte_flow_item_type type, const void* spec = nullptr, const void* mask = nullptr,
                   const void* last = nullptr) {
  return {type, spec, last, mask};
}

const rte_flow_item eth = item(RTE_FLOW_ITEM_TYPE_ETH), vlan = item(RTE_FLOW_ITEM_TYPE_VLAN),
                    ipv4 = item(RTE_FLOW_ITEM_TYPE_IPV4), ipv6 = item(RTE_FLOW_ITEM_TYPE_IPV6),
                    tcp = item(RTE_FLOW_ITEM_TYPE_TCP), udp = item(RTE_FLOW_ITEM_TYPE_UDP),
                    icmp = item(RTE_FLOW_ITEM_TYPE_ICMP), icmp6 = item(RTE_FLOW_ITEM_TYPE_ICMP6),
                    vxlan = item(RTE_FLOW_ITEM_TYPE_VXLAN), nothing = item(RTE_FLOW_ITEM_TYPE_VOID);

const rte_flow_action_queue to_0{0}, to_1{1}, to_9{9};
const rte_flow_action queue_0{RTE_FLOW_ACTION_TYPE_QUEUE, &to_0},
    queue_1{RTE_FLOW_ACTION_TYPE_QUEUE, &to_1}, queue_9{RTE_FLOW_ACTION_TYPE_QUEUE, &to_9},
    drop{RTE_FLOW_ACTION_TYPE_DROP, nullptr}, count{RTE_FLOW_ACTION_TYPE_COUNT, nullptr},
    pass{RTE_FLOW_ACTION_TYPE_VOID, nullptr};

// A rule as an application writes it.
struct Words {
  std::vector<rte_flow_item> items;
  std::vector<rte_flow_action> actions;
  rte_flow_attr attr = [] {
    rte_flow_attr a{};
    a.ingress = 1;
    return a;
  }();
  void end() {
    items.push_back(end_item);
    actions.push_back(end_action);
  }
};

// Validates, and creates too: both say the same, and a refused rule is none.
void refused(EthPair& p, const char* what, Words words, int code, rte_flow_error_type type,
             const void* cause_at) {
  words.end();
  // `cause_at`: a member of `words` by its place, as it was moved here.
  rte_flow_error error{};
  const int said =
      rte_flow_validate(p.near.id, &words.attr, words.items.data(), words.actions.data(), &error);
  const void* cause =
      cause_at == nullptr ? nullptr
      : type >= RTE_FLOW_ERROR_TYPE_ACTION_NUM
          ? static_cast<const void*>(&words.actions[reinterpret_cast<std::size_t>(cause_at) - 1])
      : type >= RTE_FLOW_ERROR_TYPE_ITEM_NUM
          ? static_cast<const void*>(&words.items[reinterpret_cast<std::size_t>(cause_at) - 1])
          : &words.attr;
  if (said != -code || error.type != type || error.cause != cause || error.message == nullptr)
    std::printf("%s: %d, type %d, %s, cause %s\n", what, said, static_cast<int>(error.type),
                error.message, error.cause == cause ? "right" : "wrong");
  EQUAL(said, -code);
  EQUAL(error.type, type);
  CU_ASSERT_TRUE(error.cause == cause);
  CU_ASSERT_PTR_NOT_NULL(error.message);
  rte_flow_error again{};
  CU_ASSERT_PTR_NULL(
      rte_flow_create(p.near.id, &words.attr, words.items.data(), words.actions.data(), &again));
  EQUAL(rte_errno, code);
  EQUAL(again.type, error.type);
}

// Place `n` of items or actions, from 0.
const void* place(std::size_t n) {
  return reinterpret_cast<const void*>(n + 1);
}
const void* const in_attr = place(0);

template <typename Set>
Words attributed(Set set) {
  Words w{{eth}, {queue_0}};
  set(w.attr);
  return w;
}

void attributes_are_refused(EthPair& p) {
  refused(p, "group", attributed([](auto& a) { a.group = 1; }), ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ATTR_GROUP, in_attr);
  refused(p, "priority", attributed([](auto& a) { a.priority = 3; }), ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, in_attr);
  refused(p, "both ways", attributed([](auto& a) { a.egress = 1; }), EINVAL,
          RTE_FLOW_ERROR_TYPE_ATTR, in_attr);
  refused(p, "no way", attributed([](auto& a) { a.ingress = 0; }), EINVAL, RTE_FLOW_ERROR_TYPE_ATTR,
          in_attr);
  refused(p, "egress to a queue", attributed([](auto& a) { a.egress = 1, a.ingress = 0; }), EINVAL,
          RTE_FLOW_ERROR_TYPE_ATTR_EGRESS, in_attr);
  refused(p, "transfer", attributed([](auto& a) { a.transfer = 1, a.ingress = 0; }), ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, in_attr);
}

void patterns_are_refused(EthPair& p) {
  constexpr auto of_item = RTE_FLOW_ERROR_TYPE_ITEM;
  refused(p, "unknown item", {{eth, item(RTE_FLOW_ITEM_TYPE_GENEVE)}, {drop}}, ENOTSUP, of_item,
          place(1));
  for (const auto& pair : {std::pair{vlan, vlan},
                           {ipv4, ipv4},
                           {ipv4, ipv6},
                           {ipv4, eth},
                           {udp, ipv4},
                           {tcp, udp},
                           {udp, vlan}})
    refused(p, "order", {{pair.first, nothing, pair.second}, {drop}}, ENOTSUP, of_item, place(2));
  refused(p, "two tunnels", {{eth, ipv4, udp, vxlan, eth, ipv4, udp, vxlan}, {drop}}, ENOTSUP,
          of_item, place(7));
  refused(p, "a key of VXLAN", {{eth, ipv4, udp, vxlan, item(RTE_FLOW_ITEM_TYPE_GRE_KEY)}, {drop}},
          ENOTSUP, of_item, place(4));
  rte_flow_item_gre version{};
  version.c_rsvd0_ver = 0x0700;  // in network order
  refused(p, "version of GRE",
          {{eth, ipv4, item(RTE_FLOW_ITEM_TYPE_GRE, &version, &version)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_MASK, place(2));
  refused(p, "no IP", {{eth, udp}, {drop}}, EINVAL, of_item, place(1));
  refused(p, "ICMP of no IP", {{eth, icmp}, {drop}}, EINVAL, of_item, place(1));
  refused(p, "ICMP of IPv6", {{eth, ipv6, icmp}, {drop}}, EINVAL, of_item, place(2));
  refused(p, "ICMPv6 of IPv4", {{eth, ipv4, icmp6}, {drop}}, EINVAL, of_item, place(2));
  refused(p, "ICMP and UDP", {{eth, ipv4, icmp, udp}, {drop}}, ENOTSUP, of_item, place(3));
  rte_flow_item_icmp sum{};
  sum.hdr.icmp_cksum = 0xffff;
  refused(p, "sum of ICMP", {{eth, ipv4, item(icmp.type, &sum, &sum)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_MASK, place(2));
}

void fields_are_refused(EthPair& p) {
  constexpr auto of_item = RTE_FLOW_ERROR_TYPE_ITEM;
  rte_flow_item_ipv4 ip{}, id{}, protocol{}, last{}, first{};
  id.hdr.packet_id = 0xffff;
  refused(p, "number of IP", {{eth, item(ipv4.type, &ip, &id)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_MASK, place(1));
  last.hdr.dst_addr = 7;
  refused(p, "range", {{eth, item(ipv4.type, &ip, nullptr, &last)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_LAST, place(1));
  refused(p, "mask alone", {{eth, item(ipv4.type, nullptr, &id)}, {drop}}, EINVAL, of_item,
          place(1));
  first.hdr.fragment_offset = 0x0020;  // "more fragments", in network order
  const rte_flow_item_ipv4 place_mask = [] {
    rte_flow_item_ipv4 m{};
    m.hdr.fragment_offset = 0xff3f;
    return m;
  }();
  refused(p, "first fragments", {{eth, item(ipv4.type, &first, &place_mask)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_SPEC, place(1));
  refused(p, "half a place", {{eth, item(ipv4.type, &first, &first)}, {drop}}, ENOTSUP,
          RTE_FLOW_ERROR_TYPE_ITEM_MASK, place(1));
  ip.hdr.next_proto_id = 6;
  protocol.hdr.next_proto_id = 0xff;
  refused(p, "ICMP in TCP", {{eth, item(ipv4.type, &ip, &protocol), icmp}, {drop}}, EINVAL, of_item,
          place(2));
  refused(p, "UDP in TCP", {{eth, item(ipv4.type, &ip, &protocol), udp}, {drop}}, EINVAL, of_item,
          place(2));
  rte_flow_item_eth untagged{}, tag{};
  tag.has_vlan = 1;
  refused(p, "no tag and one", {{item(eth.type, &untagged, &tag), vlan}, {drop}}, EINVAL, of_item,
          place(1));
  refused(p, "no tag inside", {{eth, ipv4, udp, vxlan, item(eth.type, &untagged, &tag)}, {drop}},
          ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, place(4));
}

void actions_are_refused(EthPair& p) {
  constexpr auto of_action = RTE_FLOW_ERROR_TYPE_ACTION, of_conf = RTE_FLOW_ERROR_TYPE_ACTION_CONF;
  refused(p, "no fate", {{eth}, {count}}, EINVAL, of_action, place(0));
  refused(p, "two fates", {{eth}, {drop, queue_0}}, EINVAL, of_action, place(0));
  refused(p, "unknown action", {{eth}, {queue_0, {RTE_FLOW_ACTION_TYPE_JUMP, nullptr}}}, ENOTSUP,
          of_action, place(1));
  const rte_flow_action flag{RTE_FLOW_ACTION_TYPE_FLAG, nullptr};
  refused(p, "flag twice", {{eth}, {flag, flag, queue_0}}, ENOTSUP, of_action, place(1));
  const rte_flow_action_set_ttl ttl{9};
  const rte_flow_action set_ttl{RTE_FLOW_ACTION_TYPE_SET_TTL, &ttl};
  refused(p, "ttl of no IP", {{eth}, {set_ttl, queue_0}}, EINVAL, of_action, place(0));
  refused(p, "ttl of what is dropped", {{eth, ipv4}, {set_ttl, drop}}, EINVAL, of_action, place(0));
  refused(
      p, "a ninth change",
      {{eth, ipv4},
       {set_ttl, set_ttl, set_ttl, set_ttl, set_ttl, set_ttl, set_ttl, set_ttl, set_ttl, queue_0}},
      EINVAL, of_action, place(0));
  refused(p, "no such queue", {{eth}, {pass, queue_9}}, EINVAL, of_conf, place(1));
  for (const auto type :
       {RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_RSS, RTE_FLOW_ACTION_TYPE_MARK,
        RTE_FLOW_ACTION_TYPE_SET_MAC_DST, RTE_FLOW_ACTION_TYPE_SET_TTL})
    refused(p, "no configuration", {{eth}, {{type, nullptr}}}, EINVAL, of_conf, place(0));
  const rte_flow_action_mark large{0xfffffe};  // what `flag` is
  refused(p, "mark", {{eth}, {queue_0, {RTE_FLOW_ACTION_TYPE_MARK, &large}}}, ENOTSUP, of_conf,
          place(1));
  const uint16_t queues[] = {0, 9};
  const auto rss_with = [&](auto set) {
    rte_flow_action_rss conf{};
    conf.queue = queues;
    conf.queue_num = 1;
    set(conf);
    return conf;
  };
  const struct {
    const char* what;
    int code;
    rte_flow_action_rss conf;
  } rows[] = {
      {"rss function", ENOTSUP,
       rss_with([](auto& c) { c.func = RTE_ETH_HASH_FUNCTION_SIMPLE_XOR; })},
      {"rss level", ENOTSUP, rss_with([](auto& c) { c.level = 3; })},
      {"rss level without a tunnel", EINVAL, rss_with([](auto& c) { c.level = 2; })},
      {"rss key", ENOTSUP, rss_with([](auto& c) { c.key_len = 52; })},
      {"rss types", ENOTSUP, rss_with([](auto& c) { c.types = RTE_ETH_RSS_ESP; })},
      {"rss of none", EINVAL, rss_with([](auto& c) { c.queue_num = 0; })},
      {"rss without queues", EINVAL, rss_with([](auto& c) { c.queue = nullptr; })},
      {"rss to no such queue", EINVAL, rss_with([](auto& c) { c.queue_num = 2; })},
  };
  for (const auto& row : rows)
    refused(p, row.what, {{eth}, {{RTE_FLOW_ACTION_TYPE_RSS, &row.conf}}}, row.code, of_conf,
            place(0));
}

void what_is_missing_is_refused(EthPair& p) {
  Words w{{eth}, {drop}};
  w.end();
  rte_flow_error error{};
  EQUAL(rte_flow_validate(p.near.id, nullptr, w.items.data(), w.actions.data(), &error), -EINVAL);
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ATTR);
  EQUAL(rte_flow_validate(p.near.id, &w.attr, nullptr, w.actions.data(), &error), -EINVAL);
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ITEM_NUM);
  EQUAL(rte_flow_validate(p.near.id, &w.attr, w.items.data(), nullptr, &error), -EINVAL);
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ACTION_NUM);
}

void rules_are_refused_with_type_and_cause() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  attributes_are_refused(p);
  patterns_are_refused(p);
  fields_are_refused(p);
  actions_are_refused(p);
  what_is_missing_is_refused(p);
  // None of them was made: frames go to the first queue as before.
  arrives(p, make_frame(udp4), 0, 0);
}

rte_flow* make(EthPair& p, Words words) {
  words.end();
  rte_flow_error error{};
  EQUAL(rte_flow_validate(p.near.id, &words.attr, words.items.data(), words.actions.data(), &error),
        0);
  rte_flow* const made =
      rte_flow_create(p.near.id, &words.attr, words.items.data(), words.actions.data(), &error);
  if (made == nullptr) std::printf("%s\n", error.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(made);
  return made;
}

// Sends a frame of each kind; which queues they arrive at, in the order of their ports.
std::vector<uint16_t> queues_of(EthPair& p, const std::vector<Bytes>& frames, std::size_t arrive) {
  p.queue_of.clear();
  for (const Bytes& f : frames) p.far.send(f);
  const std::vector<rte_mbuf*> got = p.receive(p.near, arrive, 2);
  EQUAL_FATAL(got.size(), arrive);
  for (rte_mbuf* m : got) rte_pktmbuf_free(m);
  p.receive_none(p.near);
  return p.queue_of;
}

uint64_t hits_of(EthPair& p, rte_flow* flow, bool reset = false) {
  rte_flow_query_count asked{};
  asked.reset = reset;
  const rte_flow_action what[] = {count, end_action};
  rte_flow_error error{};
  EQUAL(rte_flow_query(p.near.id, flow, what, &asked, &error), 0);
  EQUAL(asked.hits_set, 1);
  EQUAL(asked.bytes_set, 1);
  return asked.hits;
}

void rules_lead_drop_and_count_frames() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  const std::vector<Bytes> both{make_frame(udp4), make_frame(tcp4)};
  rte_flow* const to_other = make(p, {{eth, ipv4, udp}, {queue_1, count}});
  rte_flow_error error{};
  EQUAL(std::vector<uint16_t>(queues_of(p, both, 2)).size(), 2);
  EQUAL(std::count(p.queue_of.begin(), p.queue_of.end(), 1), 1);
  EQUAL(hits_of(p, to_other), 1);
  rte_flow* const none = make(p, {{eth, ipv4, tcp}, {drop}});
  (void)queues_of(p, both, 1);
  EQUAL(p.queue_of[0], 1);
  EQUAL(hits_of(p, to_other), 2);
  // Of what a rule has not, and of a rule that is none.
  rte_flow_query_count asked{};
  const rte_flow_action what[] = {count, end_action}, other[] = {drop, end_action};
  EQUAL(rte_flow_query(p.near.id, none, what, &asked, &error), -ENOTSUP);
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_ACTION);
  EQUAL(rte_flow_query(p.near.id, to_other, other, &asked, &error), -ENOTSUP);
  EQUAL(rte_flow_isolate(p.near.id, 1, &error), -EBUSY);  // it runs
  EQUAL(rte_flow_destroy(p.near.id, to_other, &error), 0);
  EQUAL(rte_flow_destroy(p.near.id, to_other, &error), -EINVAL);
  EQUAL(error.type, RTE_FLOW_ERROR_TYPE_HANDLE);
  (void)queues_of(p, both, 1);
  EQUAL(p.queue_of[0], 0);
  EQUAL(rte_flow_flush(p.near.id, &error), 0);
  (void)queues_of(p, both, 2);
  (void)make(p, {{eth, ipv4}, {drop}});
  EQUAL(rte_eth_dev_stop(p.near.id), 0);  // rules end with it
  Words stopped{{eth}, {drop}};
  stopped.end();
  CU_ASSERT_PTR_NULL(rte_flow_create(p.near.id, &stopped.attr, stopped.items.data(),
                                     stopped.actions.data(), &error));
  EQUAL(rte_eth_dev_start(p.near.id), 0);
  (void)queues_of(p, both, 2);
}

void icmp_is_a_protocol() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  constexpr std::size_t protocol = 14 + 9;
  Bytes ping = make_frame(udp4);
  ping[protocol] = std::byte{1};
  rte_flow* const pings = make(p, {{eth, ipv4, icmp}, {queue_1, count}});
  (void)queues_of(p, {make_frame(udp4), ping, make_frame(tcp4)}, 3);
  EQUAL(hits_of(p, pings), 1);
  rte_flow* const of_ipv6 = make(p, {{eth, ipv6, icmp6}, {drop, count}});
  (void)queues_of(p, {ping, make_frame(tcp6)}, 2);
  EQUAL(hits_of(p, pings), 2);
  EQUAL(hits_of(p, of_ipv6), 0);
}

void counts_are_reset() {
  EthPair p;
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  rte_flow* const rule = make(p, {{eth, ipv4}, {queue_1, count}});
  (void)queues_of(p, {make_frame(udp4), make_frame(tcp4)}, 2);
  EQUAL(hits_of(p, rule, true), 2);
  EQUAL(hits_of(p, rule), 0);
  (void)queues_of(p, {make_frame(udp4)}, 1);
  EQUAL(hits_of(p, rule), 1);
}

const Case of_rules[] = {
    {"rules are refused with type and cause", rules_are_refused_with_type_and_cause},
    {"ICMP is a protocol's number", icmp_is_a_protocol},
    {"rules lead, drop and count frames", rules_lead_drop_and_count_frames},
    {"a rule's count is reset", counts_are_reset},
};

}  // namespace
}  // namespace ethdev_rules_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_rules = ethdev_rules_ut::of_rules;
