// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's actions to a rule's: where frames go, how they are spread, marked and counted,
// and which of their headers change. On the caller's thread; pure functions, which never touch a
// device.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "net/kilim/ethdev.hh"
#include "net/kilim/ethdev_flow.hh"
#include "net/kilim/mbuf_words.hh"

namespace kilim::net {
namespace {

using Header = flow::Rewrite::Header;

FlowRefusal refuse_action(const rte_flow_action& a, const char* what) {
  return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &a, what};
}
FlowRefusal refuse_conf(const rte_flow_action& a, int code, const char* what) {
  return {code, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &a, what};
}

// One side of what is not hashed is nothing (DPDK 22.11 drivers/net/mlx5/mlx5_flow.c,
// mlx5_validate_action_rss()).
bool sides_without_kinds(uint64_t types) noexcept {
  constexpr uint64_t l3 = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY,
                     l4 = RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY,
                     ports = RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP;
  return ((types & l3) != 0 && (types & all_rss_kinds) == 0) ||
         ((types & l4) != 0 && (types & ports) == 0);
}

FlowRefusal check_rss(const rte_flow_action& a) {
  const auto& conf = *static_cast<const rte_flow_action_rss*>(a.conf);
  if (conf.func != RTE_ETH_HASH_FUNCTION_DEFAULT && conf.func != RTE_ETH_HASH_FUNCTION_TOEPLITZ)
    return refuse_conf(a, ENOTSUP, "the hash is Toeplitz's");
  if (conf.level > rss_innermost)
    return refuse_conf(a, ENOTSUP, "frames are spread by their outermost or innermost headers");
  if (conf.key_len != 0 && conf.key_len != flow::hash_key_bytes)
    return refuse_conf(a, ENOTSUP, "an RSS key has 40 bytes");
  if ((conf.types & ~all_rss_hf) != 0)
    return refuse_conf(a, ENOTSUP, "a kind of hash that flow_type_rss_offloads has not");
  if (sides_without_kinds(conf.types))
    return refuse_conf(a, EINVAL, "one side of addresses or ports needs a kind of hash with them");
  if (conf.queue_num == 0 || conf.queue == nullptr)
    return refuse_conf(a, EINVAL, "rss needs queues");
  return {};
}

FlowRefusal read_rss(const rte_flow_action& a, const flow::Rss& defaults, flow::Action& action) {
  if (FlowRefusal r = check_rss(a); r.code != 0) return r;
  const auto& conf = *static_cast<const rte_flow_action_rss*>(a.conf);
  action.fate = flow::Action::Fate::rss;
  action.rss = defaults;
  action.rss.inner = conf.level == rss_innermost;
  if (conf.types != 0) {
    action.rss.types = hash_types_of(conf.types);
    action.rss.sides = hash_sides_of(conf.types);
  }
  if (conf.key_len != 0 && conf.key != nullptr)
    std::copy_n(conf.key, flow::hash_key_bytes, action.rss.key.begin());
  // A device's table has a power of two of entries: as many as spread any number evenly enough.
  const bool power = (conf.queue_num & (conf.queue_num - 1)) == 0;
  action.rss.table.resize(power ? conf.queue_num : reta_entries);
  for (std::size_t i = 0; i < action.rss.table.size(); i++)
    action.rss.table[i] = conf.queue[i % conf.queue_num];
  return {};
}

// Actions that change a header; their configuration begins with the bytes that it has then.
struct Change {
  rte_flow_action_type type;
  Header header;
  std::size_t bytes;  // 0: the action has no configuration
};
constexpr Change changes[] = {
    {RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, Header::eth_src, sizeof(rte_flow_action_set_mac)},
    {RTE_FLOW_ACTION_TYPE_SET_MAC_DST, Header::eth_dst, sizeof(rte_flow_action_set_mac)},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC, Header::ipv4_src, sizeof(rte_flow_action_set_ipv4)},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_DST, Header::ipv4_dst, sizeof(rte_flow_action_set_ipv4)},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC, Header::ipv6_src, sizeof(rte_flow_action_set_ipv6)},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_DST, Header::ipv6_dst, sizeof(rte_flow_action_set_ipv6)},
    {RTE_FLOW_ACTION_TYPE_SET_TP_SRC, Header::port_src, sizeof(rte_flow_action_set_tp)},
    {RTE_FLOW_ACTION_TYPE_SET_TP_DST, Header::port_dst, sizeof(rte_flow_action_set_tp)},
    {RTE_FLOW_ACTION_TYPE_SET_TTL, Header::ttl, sizeof(rte_flow_action_set_ttl)},
    {RTE_FLOW_ACTION_TYPE_DEC_TTL, Header::ttl, 0},
};

const Change* change_of(rte_flow_action_type type) noexcept {
  const Change* const at = std::find_if(std::begin(changes), std::end(changes),
                                        [type](const Change& c) { return c.type == type; });
  return at != std::end(changes) ? at : nullptr;
}

void read_change(const Change& c, const rte_flow_action& a, flow::Action& action) {
  constexpr uint8_t one_less = 0xff;
  flow::Rewrite& r = action.rewrite.emplace_back();
  r.header = c.header;
  r.adds = c.bytes == 0;
  if (r.adds)
    r.value[0] = one_less;
  else
    std::memcpy(r.value.data(), a.conf, c.bytes);
}

bool needs_conf(rte_flow_action_type type) noexcept {
  const Change* const change = change_of(type);
  return type == RTE_FLOW_ACTION_TYPE_QUEUE || type == RTE_FLOW_ACTION_TYPE_RSS ||
         type == RTE_FLOW_ACTION_TYPE_MARK || (change != nullptr && change->bytes != 0);
}

FlowRefusal read_mark(const rte_flow_action& a, flow::Action& action) {
  if (action.mark) return refuse_action(a, "a rule has one of mark and flag");
  if (a.type == RTE_FLOW_ACTION_TYPE_FLAG) {
    action.mark = flag_mark;
    return {};
  }
  const uint32_t id = static_cast<const rte_flow_action_mark*>(a.conf)->id;
  if (id >= flag_mark - 1) return refuse_conf(a, ENOTSUP, "a mark is below 16777214");
  action.mark = id + 1;
  return {};
}

FlowRefusal read_action(const rte_flow_action& a, const flow::Rss& defaults, flow::Action& action,
                        uint32_t& fates) {
  if (a.conf == nullptr && needs_conf(a.type)) return refuse_conf(a, EINVAL, "no configuration");
  switch (a.type) {
    case RTE_FLOW_ACTION_TYPE_VOID:
      return {};
    case RTE_FLOW_ACTION_TYPE_QUEUE:
      fates++;
      action.queue = static_cast<const rte_flow_action_queue*>(a.conf)->index;
      return {};
    case RTE_FLOW_ACTION_TYPE_DROP:
      fates++;
      action.fate = flow::Action::Fate::drop;
      return {};
    case RTE_FLOW_ACTION_TYPE_RSS:
      fates++;
      return read_rss(a, defaults, action);
    case RTE_FLOW_ACTION_TYPE_COUNT:
      action.count = true;
      return {};
    case RTE_FLOW_ACTION_TYPE_MARK:
    case RTE_FLOW_ACTION_TYPE_FLAG:
      return read_mark(a, action);
    default:
      break;
  }
  const Change* const change = change_of(a.type);
  if (change == nullptr)
    return refuse_action(a,
                         "actions are queue, rss, drop, mark, flag, count, dec_ttl, and set_ of "
                         "mac, ipv4 and ipv6 addresses, tp ports and ttl");
  read_change(*change, a, action);
  return {};
}

}  // namespace

FlowRefusal read_actions(const rte_flow_action* actions, const flow::Rss& defaults,
                         flow::Action& action) {
  if (actions == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, nullptr, "no actions"};
  uint32_t fates = 0;
  const rte_flow_action* const first = actions;
  for (; actions->type != RTE_FLOW_ACTION_TYPE_END; actions++)
    if (FlowRefusal r = read_action(*actions, defaults, action, fates); r.code != 0) return r;
  if (fates != 1)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, first, "a rule has one of queue, rss and drop"};
  return {};
}

}  // namespace kilim::net
