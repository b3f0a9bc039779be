// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of mlx5's own kind: a matcher has the mask and the priority, a flow the value and
// where the frame goes. Linux drivers/infiniband/hw/mlx5/fs.c (flow_matcher_create, create_flow).
// Of the headers the outer ones, those of tunnels, the inner ones and ICMP's are matched; of
// actions queues, drop, mark, further tables, changes of headers and, for what leaves, headers in
// front of others are there. Frames of RDMA queues have rules too, which drop them or let them go.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "kilim/prm/flow_table.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/core/refusal.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/rdma_flows.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint16_t longest_match = 512;  // bytes of fte_match_param
constexpr uint8_t outer_headers_bit = 1, misc_bit = 2, inner_headers_bit = 4, misc3_bit = 16,
                  known_criteria = 0x7f;
constexpr uint32_t longest_tag = 1u << 24;

using Match = std::array<uint8_t, longest_match>;

int read_match(const InBuffer& in, Match& match) {
  match = {};
  return in.read(match.data(), std::min<std::size_t>(in.bytes(), match.size()));
}

// Outer headers, what is of no layer, inner headers: one behind the other. Between those and ICMP's
// lies a set that is not matched ("FTE_MATCH_SET_MISC2").
constexpr std::size_t misc_at = sizeof(MatchParam), inner_at = 2 * sizeof(MatchParam),
                      behind_inner = 3 * sizeof(MatchParam), misc3_at = 4 * sizeof(MatchParam),
                      behind_misc3 = 5 * sizeof(MatchParam);

// Anything that is not matched, where the first `known` bytes are.
bool any_beyond(const Match& m, std::size_t known) {
  const auto any = [&m](std::size_t from, std::size_t to) {
    return std::any_of(m.begin() + static_cast<long>(from), m.begin() + static_cast<long>(to),
                       [](uint8_t b) { return b != 0; });
  };
  return any(known, misc3_at) || any(behind_misc3, m.size());
}

bool any(const MatchParam& m) {
  return std::any_of(m.begin(), m.end(), [](uint8_t b) { return b != 0; });
}

MatchParam part(const Match& m, std::size_t at) {
  MatchParam p;
  std::copy_n(m.begin() + static_cast<long>(at), p.size(), p.begin());
  return p;
}

// Of value or mask, whose sets beside the outer headers have nothing but what is known.
DeepMatch deep_part(const Match& m) {
  DeepMatch d{part(m, misc_at), part(m, inner_at)};
  ethernet::keep_misc3(part(m, misc3_at), d);
  return d;
}

// Each part of a mask has a bit that says it is looked at.
bool unlooked(const Match& mask, uint8_t criteria) {
  const std::pair<std::size_t, uint8_t> parts[] = {{0, outer_headers_bit},
                                                   {misc_at, misc_bit},
                                                   {inner_at, inner_headers_bit},
                                                   {misc3_at, misc3_bit}};
  return std::any_of(std::begin(parts), std::end(parts), [&](const auto& p) {
    return any(part(mask, p.first)) && (criteria & p.second) == 0;
  });
}

// fs.c, mlx5_ib_matcher_ns(): by the table's kind, or by a flag.
int find_table(const Context& context, const Bundle& b, ethernet::TableType& table) {
  constexpr uint64_t flag_egress = 1u << 2;  // IB_FLOW_ATTR_FLAGS_EGRESS
  const Profile& profile = context.hca.config.profile;
  const uint64_t type = b.value(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE),
                 flags = b.value(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS);
  if (flags != 0 && flags != flag_egress)
    return refusal::bits("flags", flags, flag_egress, EOPNOTSUPP);
  switch (type) {
    case MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX:
      table = flags != 0 ? ethernet::TableType::nic_tx : ethernet::TableType::nic_rx;
      break;
    case MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX:
      table = ethernet::TableType::nic_tx;
      break;
    case MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX:
      table = ethernet::TableType::rdma_rx;
      break;
    case MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX:
      table = ethernet::TableType::rdma_tx;
      break;
    default:
      return refusal::most("ft_type", type, MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX, EOPNOTSUPP);
  }
  if (ethernet::sees_rdma(table))
    return ethernet::has_rdma_tables(profile) ? 0 : refusal::lacks("a matcher of RDMA frames");
  return table == ethernet::TableType::nic_rx || profile.egress_rules
             ? 0
             : refusal::lacks("a matcher of what leaves");
}

int create_matcher(Context& context, Bundle& b) {
  if (!context.hca.config.profile.raw_packet)
    return refusal::lacks("a queue or rule of raw packets");
  const bool names_table = b.has(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE);
  if (names_table && b.has(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS))
    return refusal::clash("ft_type", b.value(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE),
                          b.value(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS));
  auto made = std::make_unique<MatcherObject>();
  MatcherObject& matcher = *made;
  if (int err = find_table(context, b, matcher.table); err != 0) return err;
  const uint8_t type = b.element(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);
  constexpr auto last_type = static_cast<uint8_t>(FlowSpec::Type::sniffer);
  if (type > last_type) return refusal::most("type", type, last_type);
  // mlx5_ib_flow_type numbers sniffers before the defaults.
  constexpr FlowSpec::Type types[] = {FlowSpec::Type::normal, FlowSpec::Type::sniffer,
                                      FlowSpec::Type::all_default, FlowSpec::Type::mc_default};
  matcher.type = types[type];
  if (matcher.type == FlowSpec::Type::normal)
    matcher.priority = static_cast<uint16_t>(b.value(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE));
  matcher.criteria = static_cast<uint8_t>(b.value(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA));
  Match mask;
  if (int err = read_match(b.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK), mask); err != 0) return err;
  if ((matcher.criteria & ~known_criteria) != 0)
    return refusal::bits("match_criteria_enable", matcher.criteria, known_criteria);
  std::copy_n(mask.begin(), matcher.mask.size(), matcher.mask.begin());
  matcher.deeper = deep_part(mask);
  const std::size_t known = context.hca.config.profile.tunnels ? behind_inner : misc_at;
  matcher.beyond = any_beyond(mask, known) || !ethernet::is_known(part(mask, misc_at)) ||
                   !ethernet::is_known_misc3(part(mask, misc3_at));
  matcher.unlooked = unlooked(mask, matcher.criteria);
  context.add(std::move(made), {});
  return context.keep_unless(b.give(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, matcher.handle),
                             matcher);
}

int destroy_matcher(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE);
}

// Mask and value make an entry of the table; what the firmware's group would not take is refused.
bool within(const MatchParam& value, const MatchParam& mask) {
  for (std::size_t i = 0; i < value.size(); i++)
    if ((value[i] & ~mask[i]) != 0) return false;
  return true;
}

int fill_match(const MatcherObject& m, const InBuffer& in, FlowSpec& spec) {
  constexpr const char* of_match = "a field of fte_match_param that is not matched here";
  Match value;
  if (int err = read_match(in, value); err != 0) return err;
  if (m.unlooked)
    return refusal::clash("match_criteria_enable leaves out a part that the mask has: it",
                          m.criteria, known_criteria);
  if (m.beyond || any_beyond(value, behind_inner)) return refusal::lacks(of_match, EINVAL);
  // fs_core.c, check_valid_spec().
  if (!ethernet::is_known(part(value, misc_at)) || !ethernet::is_known_misc3(part(value, misc3_at)))
    return refusal::lacks(of_match, EINVAL);
  spec.by_buffer = true;
  spec.type = m.type;
  spec.priority = m.priority;
  spec.buffer_mask = m.mask;
  std::copy_n(value.begin(), spec.buffer.size(), spec.buffer.begin());
  spec.deep = any(m.deeper.misc) || any(m.deeper.inner);
  spec.deeper = deep_part(value);
  spec.deeper_mask = m.deeper;
  if (!within(spec.buffer, m.mask) || !within(spec.deeper.misc, m.deeper.misc) ||
      !within(spec.deeper.inner, m.deeper.inner))
    return refusal::text(EINVAL, "match_value has bits where the matcher's mask has none");
  ethernet::complete_tag_masks(spec.buffer_mask, spec.deeper_mask);
  return 0;
}

// Where frames go: a queue pair, or a TIR or a flow table that a firmware command made.
struct Destination {
  QpObject* qp = nullptr;
  DevxObject* tir = nullptr;
  [[nodiscard]] bool any() const { return qp != nullptr || tir != nullptr; }
  [[nodiscard]] bool is_table() const {
    return qp == nullptr && tir != nullptr && tir->created_by == prm::cmd::create_flow_table;
  }
};

// A rule has one destination, or one flag that says why it has none, as its table allows.
int wrong_end(const Destination& to, uint64_t flags) {
  return refusal::clash("the rule's flags and destinations: flags", flags,
                        (to.qp != nullptr ? 1u : 0u) + (to.tir != nullptr ? 1u : 0u));
}

// Frames of RDMA queues go to a table, or are dropped where they leave (fs.c, get_dests()). What a
// rule misses, only tables of what raw packet queues receive can send on (fs_core.c,
// fwd_next_prio_supported()); TIRs, and the tags that they tell, are not for these frames
// (mlx5_ifc.h, nic_rx_rdma_fwd_tir).
int fill_rdma_action(const Bundle& b, const MatcherObject& m, const Destination& to, uint64_t flags,
                     FlowSpec& spec) {
  if (m.type != FlowSpec::Type::normal)  // fs.c, raw_fs_rule_add()
    return refusal::equal("type of the matcher", static_cast<uint64_t>(m.type), 0, EOPNOTSUPP);
  if (flags == MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS)
    return refusal::bits("flags", flags, MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP, EOPNOTSUPP);
  if (b.has(MLX5_IB_ATTR_CREATE_FLOW_TAG))
    return refusal::clash("MLX5DV_FLOW_ACTION_TAG", b.value(MLX5_IB_ATTR_CREATE_FLOW_TAG), flags);
  spec.drops = flags == MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;
  const bool leaves = m.table == ethernet::TableType::rdma_tx;
  const bool fits = to.any() ? to.is_table() && !spec.drops : leaves && spec.drops;
  return fits ? 0 : wrong_end(to, flags);
}

// A destination, or a flag that says why there is none.
int fill_action(const Bundle& b, const MatcherObject& m, const Destination& to, FlowSpec& spec) {
  constexpr uint64_t miss = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS,
                     drop = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;
  const uint64_t flags = b.value(MLX5_IB_ATTR_CREATE_FLOW_FLAGS);
  if ((flags & ~(miss | drop)) != 0 || flags == (miss | drop))
    return refusal::bits("flags (one of two)", flags, miss | drop);
  if (ethernet::sees_rdma(m.table)) return fill_rdma_action(b, m, to, flags, spec);
  const bool egress = m.table == ethernet::TableType::nic_tx;
  // What leaves goes to the wire (fs.c, raw_fs_rule_add(): MLX5_FLOW_DESTINATION_TYPE_PORT), and
  // what it has no destination for is no tag either.
  spec.egress = egress;
  const bool table = to.is_table();
  if (egress) {
    spec.drops = flags == drop;
    return to.any() != table || flags == miss || (table && flags != 0) ||
                   b.has(MLX5_IB_ATTR_CREATE_FLOW_TAG)
               ? wrong_end(to, flags)
               : 0;
  }
  if (to.any() == (flags != 0) || (to.qp != nullptr && to.tir != nullptr))
    return wrong_end(to, flags);
  if (to.qp != nullptr && to.qp->type != QpType::raw_packet)
    return refusal::absent("the destination is no raw packet queue: it", to.qp->qpn.value());
  if (to.tir != nullptr && !table && to.tir->created_by != prm::cmd::create_tir)
    return refusal::absent("the destination is neither a TIR nor a flow table: it", to.tir->number);
  spec.drops = flags == drop;
  spec.misses = flags == miss;
  spec.tags = b.has(MLX5_IB_ATTR_CREATE_FLOW_TAG);
  spec.tag = static_cast<uint32_t>(b.value(MLX5_IB_ATTR_CREATE_FLOW_TAG));
  return spec.tag >= longest_tag ? refusal::most("tag_value", spec.tag, longest_tag - 1) : 0;
}

// One counter, named as in a list, and its place in the bulk that it was made in (Linux fs.c,
// get_dests(); mlx5_ib_devx_is_flow_counter()).
int find_counter(const Context& context, const Bundle& b, DevxObject*& counter) {
  if (!b.has(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX)) return 0;
  counter = context.find<DevxObject>(b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX));
  if (counter == nullptr || counter->created_by != prm::cmd::alloc_flow_counter)
    return refusal::absent("the flow counter", b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX));
  const uint64_t offset = b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET);
  return offset < counter->count
             ? 0
             : refusal::most("offset in the bulk of counters", offset, counter->count - 1);
}

// One action, named as in a list: headers that go in front, or what is done to those that are.
int find_action(const Context& context, const Bundle& b, FlowActionObject*& action) {
  if (!b.has(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS)) return 0;
  action = context.find<FlowActionObject>(b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS));
  return action != nullptr ? 0
                           : refusal::absent("the flow action",
                                             b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS));
}

int fill_changes(const FlowActionObject& action, ethernet::TableType table, FlowSpec& spec) {
  if (table != (action.egress ? ethernet::TableType::nic_tx : ethernet::TableType::nic_rx) ||
      spec.drops)
    return refusal::clash("the action's table (1: of what leaves)", action.egress,
                          static_cast<uint64_t>(table));
  if (action.rewrite.actions.empty()) {
    spec.prepend = &action.prepend;
  } else {
    spec.rewrite = &action.rewrite;
  }
  return 0;
}

Result<uint32_t> make_rule(hca::Hca& hca, ethernet::TableType table, const Destination& to,
                           const FlowSpec& spec) {
  if (ethernet::sees_rdma(table))
    return hca::create_rdma_flow(hca, table,
                                 to.any() ? std::optional(to.tir->number) : std::nullopt, spec);
  if (to.is_table()) return hca::create_flow_to_table(hca, to.tir->number, spec);
  if (to.tir != nullptr) return hca::create_flow_to_tir(hca, to.tir->number, spec);
  if (to.qp == nullptr) return hca::create_ending_flow(hca, spec);
  return to.qp->hashes ? hca::create_flow_to_tir(hca, to.qp->tirn, spec)
                       : hca::create_flow(hca, to.qp->qpn, spec);
}

int create_flow_method(Context& context, Bundle& b) {
  auto* matcher = b.object<MatcherObject>(context, MLX5_IB_ATTR_CREATE_FLOW_MATCHER);
  DevxObject* counter = nullptr;
  if (int err = find_counter(context, b, counter); err != 0) return err;
  const Destination to{b.object<QpObject>(context, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP),
                       b.object<DevxObject>(context, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX)};
  FlowSpec spec;
  if (int err = fill_action(b, *matcher, to, spec); err != 0) return err;
  if (int err = fill_match(*matcher, b.in(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE), spec); err != 0)
    return err;
  // The limit is that of flow.cc.
  const uint32_t last_priority = context.hca.config.profile.flow_priorities - 1u;
  if (spec.priority > last_priority)
    return refusal::most("priority", spec.priority, last_priority, ENOSPC);
  FlowActionObject* action = nullptr;
  if (int err = find_action(context, b, action); err != 0) return err;
  if (int err = action != nullptr ? fill_changes(*action, matcher->table, spec) : 0; err != 0)
    return err;
  if (counter != nullptr) {
    const uint64_t place = b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET);
    spec.count = context.hca.flow_counters.at(counter->number + static_cast<uint32_t>(place));
  }
  Result<uint32_t> rule = make_rule(context.hca, matcher->table, to, spec);
  if (!rule) return refusal::of(rule.error());
  auto made = std::make_unique<FlowObject>();
  made->rule = *rule;
  FlowObject& flow = *made;
  context.add(std::move(made), {to.qp, to.tir, matcher, counter, action});
  return context.keep_unless(b.give(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, flow.handle), flow);
}

int destroy_flow_method(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_DESTROY_FLOW_HANDLE);
}

constexpr AttrRule create_matcher_rules[] = {
    {MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, AttrKind::in, true, 1, longest_match},
    {MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, AttrKind::element, true, 0, 2},
    {MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, AttrKind::in, true, 1, 1},
    {MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS, AttrKind::in, false, 4, 8},
    {MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, AttrKind::in, false, 1, 8},
};
constexpr AttrRule destroy_matcher_rules[] = {
    {MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, AttrKind::object, true, 0, 0, Kind::matcher},
};
constexpr AttrRule create_flow_rules[] = {
    {MLX5_IB_ATTR_CREATE_FLOW_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, AttrKind::in, true, 1, longest_match},
    {MLX5_IB_ATTR_CREATE_FLOW_MATCHER, AttrKind::object, true, 0, 0, Kind::matcher},
    {MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, AttrKind::object, false, 0, 0, Kind::qp},
    {MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX, AttrKind::object, false, 0, 0, Kind::devx_obj},
    {MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS, AttrKind::in, false, 4, 4},
    {MLX5_IB_ATTR_CREATE_FLOW_TAG, AttrKind::in, false, 4, 4},
    {MLX5_IB_ATTR_CREATE_FLOW_FLAGS, AttrKind::in, false, 4, 8},
    {MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX, AttrKind::in, false, 4, 4},
    {MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET, AttrKind::in, false, 4, 4},
};
constexpr AttrRule destroy_flow_rules[] = {
    {MLX5_IB_ATTR_DESTROY_FLOW_HANDLE, AttrKind::object, true, 0, 0, Kind::flow},
};
constexpr Method matcher_table[] = {
    {MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, WhenDead::runs,
     create_matcher, create_matcher_rules},  // no command (fs.c)
    {MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY, WhenDead::runs,
     destroy_matcher, destroy_matcher_rules},
    {UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, WhenDead::refused, create_flow_method,
     create_flow_rules},  // SET_FLOW_TABLE_ENTRY
    {UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, WhenDead::runs, destroy_flow_method,
     destroy_flow_rules},
};

}  // namespace

std::span<const Method> matcher_methods() {
  return matcher_table;
}

}  // namespace kilim::vhca::uverbs
