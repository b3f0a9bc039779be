// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a rule's action: where frames go, what changes in them, marks. Pure functions,
// any thread; never asks a device.
#include "kilim/detail/flow/check_action.hh"

#include <cerrno>

#include "kilim/detail/flow/expand.hh"

namespace kilim::inline v1::flow {
namespace {

using Header = Rewrite::Header;
using Fate = Action::Fate;

constexpr RuleError fits{};

RuleError misfit(Field field, const char* what) noexcept {
  return {EINVAL, field, what};
}

// Which layer a change needs, so that every frame of the rule has the header.
bool has_header(const Match& m, Header header) noexcept {
  switch (header) {
    case Header::eth_src:
    case Header::eth_dst:
    case Header::eth_type:
      return true;
    case Header::vlan_id:
      return m.vlan.has_value();
    case Header::ipv4_src:
    case Header::ipv4_dst:
      return m.ipv4.has_value();
    case Header::ipv6_src:
    case Header::ipv6_dst:
      return m.ipv6.has_value();
    case Header::port_src:
    case Header::port_dst:
      return m.tcp || m.udp;
    case Header::ttl:
    case Header::dscp:
      return m.ipv4 || m.ipv6;
    case Header::tcp_seq:
    case Header::tcp_ack:
    case Header::tcp_flags:
      return m.tcp.has_value();
  }
  return false;
}

RuleError check_change(const Rewrite& r, const Match& match) noexcept {
  constexpr unsigned longest_sum = 32;  // bits that a device adds to at once
  if (r.adds && width_of(r.header) > longest_sum)
    return misfit(Field::rewrite, "something is added to headers of at most 32 bits");
  if (r.skipped + r.bits > width_of(r.header) || (r.bits == 0 && r.skipped != 0))
    return misfit(Field::rewrite, "the header has fewer bits than are to change");
  if (!has_header(match, r.header))
    return misfit(Field::rewrite, "the rule names no layer with the header that is changed");
  return fits;
}

RuleError check_rewrite(const Rule& rule) noexcept {
  const Action& a = rule.action;
  if (a.rewrite.empty()) return fits;
  if (a.fate == Fate::drop)
    return misfit(Field::rewrite, "headers of a dropped frame are not changed");
  if (a.rewrite.size() > longest_rewrite)
    return misfit(Field::rewrite, "a rule changes at most 8 headers");
  for (const Rewrite& r : a.rewrite)
    if (RuleError e = check_change(r, rule.match); e.code != 0) return e;
  return fits;
}

RuleError check_prepend(const Rule& rule) noexcept {
  constexpr std::size_t ether_bytes = 14;
  const std::size_t bytes = rule.action.prepend.size();
  if (bytes == 0) return fits;
  if (!rule.egress || rule.action.fate != Fate::send)
    return misfit(Field::prepend, "headers are put in front of frames that are sent");
  if (bytes < ether_bytes || bytes > longest_prepend)
    return misfit(Field::prepend, "headers in front of a frame are 14 to 128 bytes");
  return fits;
}

RuleError check_egress(const Rule& rule) noexcept {
  const Action& a = rule.action;
  if (!rule.egress)
    return a.fate == Fate::send
               ? misfit(Field::egress, "only a rule for frames that leave sends them on")
               : fits;
  if (a.fate != Fate::send && a.fate != Fate::drop)
    return misfit(Field::egress, "frames that leave are dropped or sent, and go to no queue");
  if (a.mark) return misfit(Field::mark, "a frame that leaves carries no mark");
  return fits;
}

RuleError check_fate(const Rule& rule, const RuleLimits& limits) noexcept {
  const Action& a = rule.action;
  if (a.fate == Fate::queue && a.queue >= limits.queues)
    return misfit(Field::queue, "the port has no such receive queue");
  if (a.fate != Fate::rss) return fits;
  if (RuleError e = check(a.rss, limits); e.code != 0) return e;
  if (a.rss.inner && !rule.match.tunnel)
    return misfit(Field::rss_types, "inner headers are hashed where the rule names a tunnel");
  if (for_groups_alone(rule.match))
    return {EOPNOTSUPP, Field::eth_dst, "frames for group addresses are not spread by a rule"};
  return fits;
}

RuleError check_mark(const Action& a) noexcept {
  if (!a.mark) return fits;
  if (a.fate == Fate::drop) return misfit(Field::mark, "a dropped frame carries no mark");
  if (*a.mark == 0) return misfit(Field::mark, "0 is what a packet without a mark has");
  if (*a.mark >> 24 != 0) return misfit(Field::mark, "a mark has 24 bits");
  return fits;
}

}  // namespace

RuleError check_action(const Rule& rule, const RuleLimits& limits) noexcept {
  if (RuleError e = check_egress(rule); e.code != 0) return e;
  if (RuleError e = check_fate(rule, limits); e.code != 0) return e;
  if (RuleError e = check_rewrite(rule); e.code != 0) return e;
  if (RuleError e = check_prepend(rule); e.code != 0) return e;
  return check_mark(rule.action);
}

}  // namespace kilim::inline v1::flow
