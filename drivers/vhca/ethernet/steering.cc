// SPDX-License-Identifier: BSD-3-Clause
// Steering rules: a short list in order of precedence, walked for each frame.
#include "vhca/ethernet/steering.hh"

#include <algorithm>
#include <cerrno>

#include "vhca/ethernet/match_param.hh"
#include "vhca/wire/port_netdev.hh"

namespace kilim::vhca::ethernet {

namespace {

// Index of Steering::of_reach_. `s` is by buffer.
std::size_t reach_of(const FlowSpec& s) noexcept {
  Reach reach = Reach::all;
  if (s.count == nullptr && s.rewrite == nullptr && !s.deep) {
    if (asks_kind_alone(s.buffer_mask)) reach = Reach::kind;
    if (asks_link_alone(s.buffer_mask)) reach = Reach::link;
  }
  return static_cast<std::size_t>(reach);
}

// What rules look at.
struct Headers {
  bool multicast;
  const MatchParam* outer;
  const DeepMatch* deeper;  // where rules look at it
};

bool matches(const FlowSpec& r, const Headers& h) noexcept {
  if (r.type == FlowSpec::Type::mc_default) return h.multicast;
  if (r.type != FlowSpec::Type::normal) return true;
  return equal_under_mask(r.buffer, *h.outer, r.buffer_mask) &&
         (!r.deep || equal_under_mask(r.deeper, *h.deeper, r.deeper_mask));
}

// Rules for groups alone have a table of their own behind those of all priorities, so a rule that
// takes both kinds of frames takes the groups' too (Linux drivers/infiniband/hw/mlx5/fs.c,
// flow_is_multicast_only(), raw_fs_is_multicast()). A rule of specs still has them.
bool for_groups_alone(const FlowSpec& s) noexcept {
  constexpr uint8_t group = 1, class_d = 0xe0, class_bits = 0xf0;
  constexpr std::size_t buffer_dst_at = 8, ipv4_dst_at = 60;  // in a buffer
  if (s.type != FlowSpec::Type::normal) return false;
  if (s.has_eth) return (s.dst[0] & s.dst_mask[0] & group) != 0;
  if (s.ip_version != 0) return s.ip_version == 4 && (s.ip.dst[0] & class_bits) == class_d;
  return (s.buffer[buffer_dst_at] & s.buffer_mask[buffer_dst_at] & group) != 0 ||
         ((s.buffer[ipv4_dst_at] & class_bits) == class_d &&
          (s.buffer_mask[ipv4_dst_at] & class_bits) == class_d);
}

// Where a rule stands in the walk.
int rank(const FlowSpec& s) noexcept {
  switch (s.type) {
    case FlowSpec::Type::sniffer:
      return 0;
    case FlowSpec::Type::normal:
      return for_groups_alone(s) ? 2 : 1;
    case FlowSpec::Type::mc_default:
    case FlowSpec::Type::all_default:
      break;
  }
  return 3;
}

bool before(const FlowSpec& a, const FlowSpec& b) noexcept {
  int x = rank(a), y = rank(b);
  if (x != y) return x < y;
  return x == 1 && a.priority < b.priority;
}

// Rules that match the same frames at the same place: one entry of the table with two destinations.
// Whoever asks has seen that both match the frame at hand, so masks decide.
bool same_entry(const FlowSpec& a, const FlowSpec& b) noexcept {
  if (before(a, b) || before(b, a)) return false;
  // The default rule of all frames has an entry for groups and one for the rest.
  if (a.type != FlowSpec::Type::normal) return true;
  return a.buffer_mask == b.buffer_mask && a.deeper_mask == b.deeper_mask;
}

// Whether the values are the same too: one entry whatever the frame.
bool says_the_same(const FlowSpec& a, const FlowSpec& b) noexcept {
  return same_entry(a, b) && equal_under_mask(a.buffer, b.buffer, a.buffer_mask) &&
         equal_under_mask(a.deeper, b.deeper, a.deeper_mask);
}

bool special(const FlowSpec& s) noexcept {
  return s.drops || s.tags || s.prepend != nullptr || s.rewrite != nullptr;
}

// One entry cannot do both: Linux drivers/net/ethernet/mellanox/mlx5/core/fs_core.c,
// check_conflicting_ftes().
bool conflicts(const FlowSpec& a, const FlowSpec& b) noexcept {
  const bool differ = a.drops != b.drops || a.prepend != b.prepend || a.rewrite != b.rewrite ||
                      (a.tags && a.tag != b.tag);
  return differ && says_the_same(a, b);
}

}  // namespace

Result<uint32_t> Steering::add(wq::Qp* qp, const FlowSpec& asked) {
  // On a card rules of both kinds are entries that compare buffers (fs.c, parse_flow_attr()).
  FlowSpec spec = asked;
  use_buffer(spec);
  if (spec.type > FlowSpec::Type::sniffer) return Error{EINVAL, "unknown type of flow rule"};
  if (spec.priority > last_priority) return Error{ENOSPC, "the priority is beyond the last one"};
  if (spec.port > 1) return Error{EINVAL, "a flow rule names a port that is not there"};
  const bool plain = !special(spec) && specials_ == 0;  // most clients' rules: nothing can conflict
  if (!plain && std::any_of(rules_.begin(), rules_.end(),
                            [&spec](const Rule& r) { return conflicts(spec, r.spec); }))
    return Error{EEXIST, "the same rule does something else"};
  if (rules_.size() >= max_rules) return Error{ENOMEM, "no more flow rules"};
  auto at = std::upper_bound(rules_.begin(), rules_.end(), spec,
                             [](const FlowSpec& a, const Rule& b) { return before(a, b.spec); });
  uint32_t number = next_number_++;
  rules_.insert(at, Rule{number, qp, spec});
  deeps_ += spec.deep;
  specials_ += special(spec);
  taken_.reserve(rules_.size());
  hits_.reserve(rules_.size());
  of_reach_[reach_of(spec)]++;
  version_++;
  return number;
}

int Steering::remove(uint32_t rule) {
  auto gone = std::find_if(rules_.begin(), rules_.end(),
                           [rule](const Rule& r) { return r.number == rule; });
  if (gone == rules_.end()) return -ENOENT;
  deeps_ -= gone->spec.deep;
  specials_ -= special(gone->spec);
  of_reach_[reach_of(gone->spec)]--;
  version_++;
  rules_.erase(gone);
  return 0;
}

bool Steering::uses(const wq::Qp* qp) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [qp](const Rule& r) { return r.qp == qp; });
}

void Steering::take(const Rule& rule) noexcept {
  if (rule.spec.count != nullptr) hits_.push_back(rule.spec.count);
  if (rule.spec.prepend != nullptr) prepend_ = rule.spec.prepend;
  if (rule.spec.rewrite != nullptr) rewrite_ = rule.spec.rewrite;
  if (rule.qp == nullptr) return;
  auto same = [&rule](const FlowTarget& t) { return t.qp == rule.qp; };
  if (std::none_of(taken_.begin(), taken_.end(), same))
    taken_.push_back({rule.qp, rule.spec.tags ? rule.spec.tag : 0});
}

void Steering::count_hits(uint64_t bytes) noexcept {
  for (FlowCount* count : hits_) {
    count->packets++;
    count->bytes += bytes;
  }
}

bool Steering::ask_netdev(std::span<const std::byte> frame) noexcept {
  if (netdev_ == nullptr || asked_netdev_) return netdev_takes_;
  asked_netdev_ = true;
  netdev_takes_ = netdev_->wants(frame);
  return netdev_takes_;
}

std::span<const FlowTarget> Steering::match(std::span<const std::byte> frame) noexcept {
  taken_.clear();
  hits_.clear();
  dropped_ = false;
  prepend_ = nullptr;
  rewrite_ = nullptr;
  asked_netdev_ = netdev_takes_ = false;
  if (frame.size() < 14) return {};
  const wire::PacketView view = wire::parse_packet(frame);
  const MatchParam outer = outer_headers(frame, view);
  if (deeps_ != 0) deeper_ = deep_headers(frame, view);
  const Headers h{(frame[0] & std::byte{1}) != std::byte{0}, &outer, &deeper_};
  const Rule* first = nullptr;
  for (const Rule& r : rules_) {
    if (!matches(r.spec, h)) continue;
    if (r.spec.type == FlowSpec::Type::sniffer) {
      take(r);
      continue;
    }
    if (first == nullptr && r.spec.type != FlowSpec::Type::normal && ask_netdev(frame)) break;
    if (first == nullptr) first = &r;
    if (before(first->spec, r.spec)) break;
    if (!same_entry(r.spec, first->spec)) continue;
    take(r);
    if (r.spec.drops || r.spec.misses) {
      dropped_ = r.spec.drops;
      if (r.spec.misses) (void)ask_netdev(frame);
      break;
    }
  }
  if (first == nullptr) (void)ask_netdev(frame);
  return taken_;
}

}  // namespace kilim::vhca::ethernet
