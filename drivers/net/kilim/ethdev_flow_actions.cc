// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's actions to a rule's: where frames go, how they are spread, marked and counted,
// and which of their headers change. On the caller's thread; pure functions, which never touch a
// device.
#include "net/kilim/ethdev_flow_actions.hh"

#include <algorithm>
#include <cerrno>

#include "net/kilim/ethdev.hh"
#include "net/kilim/mbuf_words.hh"

namespace kilim::net {
namespace {

using Fate = flow::Action::Fate;

// One side of what is not hashed is nothing (DPDK 22.11 drivers/net/mlx5/mlx5_flow.c,
// mlx5_validate_action_rss()).
bool sides_without_kinds(uint64_t types) noexcept {
  constexpr uint64_t l3 = RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY,
                     l4 = RTE_ETH_RSS_L4_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY,
                     ports = RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP;
  return ((types & l3) != 0 && (types & RTE_ETH_RSS_IP) == 0) ||
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

bool needs_conf(rte_flow_action_type type) noexcept {
  return type == RTE_FLOW_ACTION_TYPE_QUEUE || type == RTE_FLOW_ACTION_TYPE_RSS ||
         type == RTE_FLOW_ACTION_TYPE_MARK;
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

// The end of the frames. One action says it; only dropping may be said again.
struct Fates {
  uint32_t named = 0;
  bool drops = false;
};

FlowRefusal read_fate(const rte_flow_action& a, const flow::Rss& defaults, flow::Action& action,
                      Fates& fates) {
  const bool drop = a.type == RTE_FLOW_ACTION_TYPE_DROP;
  if (!drop || !fates.drops) fates.named++;
  fates.drops = fates.drops || drop;
  if (a.type == RTE_FLOW_ACTION_TYPE_RSS) return read_rss(a, defaults, action);
  action.fate = drop ? Fate::drop : Fate::queue;
  if (!drop) action.queue = static_cast<const rte_flow_action_queue*>(a.conf)->index;
  return {};
}

FlowRefusal read_action(const rte_flow_action& a, const ActionContext& c, flow::Action& action,
                        Fates& fates) {
  if (a.conf == nullptr && needs_conf(a.type)) return refuse_conf(a, EINVAL, "no configuration");
  switch (a.type) {
    case RTE_FLOW_ACTION_TYPE_VOID:
      return {};
    case RTE_FLOW_ACTION_TYPE_QUEUE:
    case RTE_FLOW_ACTION_TYPE_DROP:
    case RTE_FLOW_ACTION_TYPE_RSS:
      return read_fate(a, c.defaults, action, fates);
    case RTE_FLOW_ACTION_TYPE_COUNT:
      if (action.count) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &a, "a rule counts once"};
      action.count = true;
      return {};
    case RTE_FLOW_ACTION_TYPE_MARK:
    case RTE_FLOW_ACTION_TYPE_FLAG:
      return read_mark(a, action);
    default:
      break;
  }
  if (changes_headers(a.type)) return read_change(a, c.match, action);
  if (prepends_headers(a.type)) return read_prepend(a, action);
  return refuse_action(a,
                       "actions are queue, rss, drop, mark, flag, count, set_, inc_ and dec_ of "
                       "headers, of_set_vlan_vid, modify_field, and raw_, vxlan_ and nvgre_encap");
}

}  // namespace

FlowRefusal read_actions(const rte_flow_action* actions, const ActionContext& context,
                         flow::Action& action) {
  if (actions == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, nullptr, "no actions"};
  Fates fates;
  const rte_flow_action* const first = actions;
  if (context.egress) action.fate = Fate::send;
  for (; actions->type != RTE_FLOW_ACTION_TYPE_END; actions++)
    if (FlowRefusal r = read_action(*actions, context, action, fates); r.code != 0) return r;
  if (fates.named > 1 || (fates.named == 0 && !context.egress))
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, first, "a rule has one of queue, rss and drop"};
  return {};
}

}  // namespace kilim::net
