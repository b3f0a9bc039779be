// SPDX-License-Identifier: BSD-3-Clause
// A port's flow rules, its own filter and how it spreads frames. Changes under traffic lose and
// double no frame: a second set of rules stands beside the first one before that goes.
// Control lcore.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {
namespace {

Error refused(const flow::RuleError& e, flow::RuleError* why) noexcept {
  if (why != nullptr) *why = e;
  return {e.code, e.what};
}

// What the device says of a rule concerns one field where only one can be meant.
flow::Field field_of(const Error& e, const flow::Rule& rule) noexcept {
  if (e.code != EOPNOTSUPP) return flow::Field::none;
  if (rule.match.tunnel) return flow::Field::tunnel;
  if (rule.action.count) return flow::Field::count;
  return rule.action.mark ? flow::Field::mark : flow::Field::none;
}

Error refused(const Error& e, flow::Field field, flow::RuleError* why) noexcept {
  if (why != nullptr) *why = {e.code, field, e.what};
  return e;
}

constexpr flow::RuleError sees_no_tunnels{
    EINVAL, flow::Field::rss_types,
    "inner headers are hashed where the receive queues have config.tunnel"};

}  // namespace

flow::RuleError Port::check_rss(const flow::Rss& rss) noexcept {
  if (rss.inner && !reads_tunnels_ && !destinations().tunnels) return sees_no_tunnels;
  return flow::check(rss, rule_limits());
}

flow::RuleLimits Port::rule_limits() const noexcept {
  return {
      .queues = sizes_.rxq,
      .longest_table = std::min(flow::longest_table, parts_.device->caps().spread.longest_table),
      .few_places = few_places_};
}

Destinations Port::destinations() noexcept {
  return {.device = device(),
          .port = parts_.number,
          .queues = rx_targets_,
          .pair = with_rwqs() ? device::QpHandle{} : tx_[0].qp->handle,
          .tunnels = std::any_of(rx_.begin(), rx_.end(),
                                 [](const RxSlot& rx) { return rx.setup.config.tunnel; }),
          .lro = lro_};
}

// For one queue and for many the same kinds of rules, all of them NORMAL ones: Linux asks those
// before the interface's own rules, and default rules (IBV_FLOW_ATTR_ALL_DEFAULT) behind them,
// where no frame is left that the interface wants (drivers/infiniband/hw/mlx5/fs.c,
// get_flow_table(); drivers/net/ethernet/mellanox/mlx5/core/fs_core.c, root_fs; as DPDK's
// mlx5_traffic_enable()).
Result<RuleSet> Port::try_own_rules(const flow::Filter& filter, const flow::Rss& rss,
                                    uint16_t set) {
  auto target = HashTarget::create(destinations(), flow::table_of(rss, sizes_.rxq), rss);
  if (!target) return target.error();
  RuleSet rules(*std::move(target), device());
  if (isolated_) return rules;
  const uint32_t types = with_rwqs() ? rss.types : 0;
  flow::Action inside;
  inside.rss.inner = true;
  for (const flow::Match& m : flow::matches_of(filter, info_.mac)) {
    if (rss.inner && types != 0)
      for (const flow::Match& t : flow::in_tunnels(m))
        if (Status s = rules.add(t, types, flow::place_of_own(set, true), inside); !s)
          return s.error();
    if (Status s = rules.add(m, types, flow::place_of_own(set, false, few_places_), {}); !s)
      return s.error();
  }
  return rules;
}

// The own rules stand behind all others, so the last of them says whether the kernel has 16 places
// (ENOSPC: Linux drivers/infiniband/hw/mlx5/fs.c, get_flow_table()).
Result<RuleSet> Port::lay_own_rules(const flow::Filter& filter, const flow::Rss& rss,
                                    uint16_t set) {
  auto rules = try_own_rules(filter, rss, set);
  if (rules || few_places_ || (rules.error().code != ENOSPC && rules.error().code != EINVAL))
    return rules;
  flow::Rss outer = rss;
  outer.inner = false;
  few_places_ = true;
  auto fewer = try_own_rules(filter, outer, set);
  few_places_ = fewer.ok();
  if (!fewer) return rules;
  if (const flow::RuleError e = check_rss(rss); e.code != 0) return Error{e.code, e.what};
  if (last_priority_ != 0)
    return Error{EBUSY,
                 "this kernel has 8 priorities of flow rules: take away the rules of priority 1 "
                 "and 2 first"};
  return fewer;
}

Status Port::change_own_rules(const flow::Filter& filter, const flow::Rss& rss) {
  const auto other = static_cast<uint16_t>((own_set_ + 1) % flow::own_sets);
  auto rules = lay_own_rules(filter, rss, other);
  if (!rules) return rules.error();
  own_rules_.reset();
  own_rules_.emplace(*std::move(rules));
  own_set_ = other;
  return Done{};
}

Status Port::set_isolated(bool on) {
  const std::lock_guard lock{shape_};
  const bool before = std::exchange(isolated_, on);
  if (!started_ || before == on) return Done{};
  Status s = change_own_rules(filter_, rss_);
  if (!s) isolated_ = before;
  return s;
}

Status Port::set_rss(const flow::Rss& rss, flow::RuleError* why) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{shape_};
  // What the queues can is known when the port starts.
  const flow::RuleError e = started_ ? check_rss(rss) : flow::check(rss, rule_limits());
  if (e.code != 0) return refused(e, why);
  if (started_ && with_rwqs())
    if (Status s = change_own_rules(filter_, rss); !s)
      return refused(s.error(), flow::Field::none, why);
  rss_ = rss;
  rss_asked_ = true;
  return Done{};
}

Status Port::set_filter(const flow::Filter& filter, flow::RuleError* why) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{shape_};
  if (const flow::RuleError e = flow::check(filter); e.code != 0) return refused(e, why);
  if (started_)
    if (Status s = change_own_rules(filter, rss_); !s)
      return refused(s.error(), flow::Field::none, why);
  filter_ = filter;
  return Done{};
}

Status Port::set_address(const device::MacAddress& mac) {
  const device::MacAddress before = std::exchange(info_.mac, mac);
  if (!started_) return Done{};
  Status s = change_own_rules(filter_, rss_);
  if (!s) info_.mac = before;
  return s;
}

Status Port::start_for(std::span<const RxTarget> queues, const flow::Filter& filter,
                       const flow::Rss& rss, bool reads_tunnels) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (started_) return Error{EBUSY, "the port is started already"};
  if (queues.empty()) return Error{EINVAL, "there are no receive queues to lead frames to"};
  unconfigure();
  sizes_.rxq = static_cast<uint32_t>(queues.size());
  reads_tunnels_ = reads_tunnels;
  if (const flow::RuleError e = flow::check(filter); e.code != 0) return Error{e.code, e.what};
  if (const flow::RuleError e = check_rss(rss); e.code != 0) return Error{e.code, e.what};
  auto lro = lro_of_all(queues);
  if (!lro) return lro.error();
  lro_ = *lro;
  rx_targets_.assign(queues.begin(), queues.end());
  filter_ = filter;
  rss_ = rss;
  own_set_ = 0;
  auto rules = lay_own_rules(filter_, rss_, own_set_);
  if (!rules) {
    rx_targets_.clear();
    return rules.error();
  }
  own_rules_.emplace(*std::move(rules));
  started_ = true;
  return Done{};
}

Result<RuleId> Port::add_rule(const flow::Rule& rule, flow::RuleError* why) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{shape_};
  if (!started_)
    return refused({EINVAL, flow::Field::none, "rules are added to a started port"}, why);
  if (const flow::RuleError e = flow::check(rule, rule_limits()); e.code != 0)
    return refused(e, why);
  auto added = rule.egress ? add_egress_rule(rule, why) : add_ingress_rule(rule, why);
  if (added && !rule.egress) last_priority_ = std::max(last_priority_, rule.priority);
  return added;
}

Result<RuleId> Port::add_egress_rule(const flow::Rule& rule, flow::RuleError* why) {
  RuleSet rules(device());
  const uint16_t place = flow::place_of_priority(rule.priority);
  if (Status s = rules.add_egress(rule.match, place, rule.action); !s)
    return refused(s.error(), flow::Field::none, why);
  return keep_rule(std::move(rules));
}

Result<RuleId> Port::add_ingress_rule(const flow::Rule& rule, flow::RuleError* why) {
  const flow::Action& a = rule.action;
  const bool spreads = a.fate == flow::Action::Fate::rss;
  Destinations to = destinations();
  if (spreads && a.rss.inner && !reads_tunnels_ && !to.tunnels)
    return refused(sees_no_tunnels, why);
  to.tunnels = to.tunnels || (reads_tunnels_ && rule.match.tunnel);
  const uint16_t queue = a.fate == flow::Action::Fate::queue ? a.queue : uint16_t{0};
  const std::vector<uint16_t> table =
      spreads ? flow::table_of(a.rss, sizes_.rxq) : std::vector<uint16_t>{queue};
  auto target = HashTarget::create(to, table, a.rss);
  if (!target) return refused(target.error(), flow::Field::none, why);
  RuleSet rules(*std::move(target), device());
  const uint32_t types = spreads && with_rwqs() ? a.rss.types : 0;
  if (Status s = rules.add(rule.match, types, flow::place_of_priority(rule.priority), a); !s)
    return refused(s.error(), field_of(s.error(), rule), why);
  return keep_rule(std::move(rules));
}

RuleId Port::keep_rule(RuleSet rules) {
  const RuleId id{next_rule_++};
  rules_.emplace(id.value(), std::move(rules));
  return id;
}

Status Port::remove_rule(RuleId rule) {
  const std::lock_guard lock{shape_};
  if (rules_.erase(rule.value()) == 0) return Error{EINVAL, "no such flow rule"};
  if (rules_.empty()) last_priority_ = 0;
  return Done{};
}

Result<flow::Count> Port::query_rule(RuleId rule) const {
  const auto at = rules_.find(rule.value());
  if (at == rules_.end()) return Error{EINVAL, "no such flow rule"};
  return at->second.query();
}

}  // namespace kilim::inline v1::port
