// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of mlx5's own kind: a matcher has the mask and the priority, a flow the value and
// where the frame goes. Linux drivers/infiniband/hw/mlx5/fs.c (flow_matcher_create, create_flow).
// Of the headers the outer ones are matched, of actions queues, drop and mark are there.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <memory>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t longest_match = 512;  // bytes of fte_match_param
constexpr uint8_t outer_headers_bit = 1, known_criteria = 0x7f;
constexpr uint16_t last_priority = 15;  // flow.cc
constexpr uint32_t longest_tag = 1u << 24;

using Match = std::array<uint8_t, longest_match>;

int read_match(const InBuffer& in, Match& match) {
  match = {};
  return in.read(match.data(), std::min<std::size_t>(in.bytes(), match.size()));
}

bool any_beyond_outer(const Match& m) {
  return std::any_of(m.begin() + sizeof(MatchParam), m.end(), [](uint8_t b) { return b != 0; });
}

int create_matcher(Context& context, Bundle& b) {
  if (!context.hca.config.profile.raw_packet) return -EOPNOTSUPP;
  // Rules of what leaves, and of other tables than the receiving one, are not there.
  const bool names_table = b.has(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE);
  if (names_table && b.has(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS)) return -EINVAL;
  if (b.value(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE) != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX ||
      b.value(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS) != 0)
    return -EOPNOTSUPP;
  auto made = std::make_unique<MatcherObject>();
  MatcherObject& matcher = *made;
  const uint8_t type = b.element(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);
  if (type > static_cast<uint8_t>(FlowSpec::Type::sniffer)) return -EINVAL;
  // mlx5_ib_flow_type numbers sniffers before the defaults.
  constexpr FlowSpec::Type types[] = {FlowSpec::Type::normal, FlowSpec::Type::sniffer,
                                      FlowSpec::Type::all_default, FlowSpec::Type::mc_default};
  matcher.type = types[type];
  if (matcher.type == FlowSpec::Type::normal)
    matcher.priority = static_cast<uint16_t>(b.value(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE));
  matcher.criteria = static_cast<uint8_t>(b.value(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA));
  Match mask;
  if (int err = read_match(b.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK), mask); err != 0) return err;
  if ((matcher.criteria & ~known_criteria) != 0) return -EINVAL;
  std::copy_n(mask.begin(), matcher.mask.size(), matcher.mask.begin());
  matcher.beyond_outer = any_beyond_outer(mask);
  context.add(std::move(made), {});
  return context.keep_unless(b.give(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, matcher.handle),
                             matcher);
}

int destroy_matcher(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE);
}

// Mask and value make an entry of the table; what the firmware's group would not take is refused.
int fill_match(const MatcherObject& m, const InBuffer& in, FlowSpec& spec) {
  Match value;
  if (int err = read_match(in, value); err != 0) return err;
  const bool has_mask =
      std::any_of(m.mask.begin(), m.mask.end(), [](uint8_t byte) { return byte != 0; });
  if (m.beyond_outer || any_beyond_outer(value)) return -EINVAL;
  if (has_mask && (m.criteria & outer_headers_bit) == 0) return -EINVAL;
  spec.by_buffer = true;
  spec.type = m.type;
  spec.priority = m.priority;
  spec.buffer_mask = m.mask;
  std::copy_n(value.begin(), spec.buffer.size(), spec.buffer.begin());
  // fs_core.c, check_valid_spec().
  for (std::size_t i = 0; i < spec.buffer.size(); i++) {
    if ((spec.buffer[i] & ~m.mask[i]) != 0) return -EINVAL;
  }
  return m.priority > last_priority ? -ENOSPC : 0;
}

// Where frames go: a queue pair, or a TIR that a firmware command made.
struct Destination {
  QpObject* qp = nullptr;
  DevxObject* tir = nullptr;
  [[nodiscard]] bool any() const { return qp != nullptr || tir != nullptr; }
};

// A destination, or a flag that says why there is none.
int fill_action(Bundle& b, const Destination& to, FlowSpec& spec) {
  constexpr uint64_t miss = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS,
                     drop = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;
  const uint64_t flags = b.value(MLX5_IB_ATTR_CREATE_FLOW_FLAGS);
  if ((flags & ~(miss | drop)) != 0 || flags == (miss | drop)) return -EINVAL;
  if (to.any() == (flags != 0) || (to.qp != nullptr && to.tir != nullptr)) return -EINVAL;
  if (to.qp != nullptr && to.qp->type != QpType::raw_packet) return -EINVAL;
  // Other tables, the kind that mlx5_ib takes too, are not there.
  if (to.tir != nullptr && to.tir->created_by != prm::cmd::create_tir) return -EINVAL;
  spec.drops = flags == drop;
  spec.misses = flags == miss;
  spec.tags = b.has(MLX5_IB_ATTR_CREATE_FLOW_TAG);
  spec.tag = static_cast<uint32_t>(b.value(MLX5_IB_ATTR_CREATE_FLOW_TAG));
  return spec.tag >= longest_tag ? -EINVAL : 0;
}

// One counter, named as in a list. Its place in a bulk is 0: there are no bulks.
int find_counter(const Context& context, const Bundle& b, DevxObject*& counter) {
  if (!b.has(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX)) return 0;
  counter = context.find<DevxObject>(b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX));
  if (counter == nullptr || counter->created_by != prm::cmd::alloc_flow_counter) return -EINVAL;
  return b.value(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET) != 0 ? -EINVAL : 0;
}

Result<uint32_t> make_rule(Hca& hca, const Destination& to, const FlowSpec& spec) {
  if (to.tir != nullptr) return create_flow_to_tir(hca, to.tir->number, spec);
  if (to.qp == nullptr) return create_ending_flow(hca, spec);
  return to.qp->hashes ? create_flow_to_tir(hca, to.qp->tirn, spec)
                       : create_flow(hca, to.qp->qpn, spec);
}

int create_flow_method(Context& context, Bundle& b) {
  auto* matcher = b.object<MatcherObject>(context, MLX5_IB_ATTR_CREATE_FLOW_MATCHER);
  DevxObject* counter = nullptr;
  if (int err = find_counter(context, b, counter); err != 0) return err;
  const Destination to{b.object<QpObject>(context, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP),
                       b.object<DevxObject>(context, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX)};
  FlowSpec spec;
  if (int err = fill_action(b, to, spec); err != 0) return err;
  if (int err = fill_match(*matcher, b.in(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE), spec); err != 0)
    return err;
  if (counter != nullptr) spec.count = context.hca.flow_counters.at(counter->number);
  Result<uint32_t> rule = make_rule(context.hca, to, spec);
  if (!rule) return -rule.error().code;
  auto made = std::make_unique<FlowObject>();
  made->rule = *rule;
  FlowObject& flow = *made;
  context.add(std::move(made), {to.qp, to.tir, matcher, counter});
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
    {MLX5_IB_ATTR_CREATE_FLOW_TAG, AttrKind::in, false, 4, 4},
    {MLX5_IB_ATTR_CREATE_FLOW_FLAGS, AttrKind::in, false, 4, 8},
    {MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX, AttrKind::in, false, 4, 4},
    {MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET, AttrKind::in, false, 4, 4},
};
constexpr AttrRule destroy_flow_rules[] = {
    {MLX5_IB_ATTR_DESTROY_FLOW_HANDLE, AttrKind::object, true, 0, 0, Kind::flow},
};
constexpr Method methods[] = {
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
  return methods;
}

}  // namespace kilim::vhca
