// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Ports whose device or kernel has less than the usual one: eight priorities of
// flow rules, no joining of short segments; and memory whose order a device keeps.
#include <cerrno>
#include <utility>

#include "offloads_model.hh"
#include "spread_fixture.hh"

namespace spread_limits_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr FrameKind arp{.layer3 = Layer3::arp, .protocol = 0};

flow::Match udp_to(uint16_t port) {
  flow::Match m;
  m.ipv4 = flow::Ipv4{};
  m.udp = flow::Ports{.src = {}, .dst = flow::exactly(port)};
  return m;
}
flow::Match like(const Frame& udp) {
  const auto at = [&udp](std::size_t i) { return std::to_integer<unsigned>(udp[i]); };
  return udp_to(static_cast<uint16_t>(at(36) << 8 | at(37)));
}

flow::Rule to_queue(uint16_t queue, const flow::Match& match, uint8_t priority = 0) {
  flow::Rule r;
  r.match = match;
  r.action.queue = queue;
  r.priority = priority;
  return r;
}

// A device may write packets in another order than they came, unless it is told not to.
void packet_memory_is_relaxed() {
  SpreadBench b(1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(b.far().region());
  EQUAL(b.far().region()->access, mr::Access::local_write | mr::Access::relaxed_ordering);
  port::PortParts parts;
  auto device = attach::resolve({.name = fresh("vhca")});
  CU_ASSERT_TRUE_FATAL(device.ok());
  parts.name = "strict";
  parts.device = std::move(device->device);
  parts.poller = device->poller;
  parts.relaxed_ordering = false;
  auto strict = port::Port::create(std::move(parts));
  CU_ASSERT_TRUE_FATAL(strict.ok());
  CU_ASSERT_TRUE_FATAL((*strict)->configure({.rxd = 64, .txd = 64}, b.t.memory).ok());
  EQUAL((*strict)->region()->access, mr::Access::local_write);
}

// A kernel with 8 places for rules: the port has its own there, and rules of one priority.
void few_priorities() {
  SpreadBench b(4, 4096, 128, usual_setup, "few-priorities");
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {0}}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame f = make_frame(udp4_kind, 1, 1), other = make_frame(udp4_kind, 2, 1);
  EQUAL(b.where(f), 0);
  EQUAL(b.where(make_frame(arp, 1, 1)), 0);
  auto by_port = b.far().add_rule(to_queue(2, like(f), 0));
  CU_ASSERT_TRUE_FATAL(by_port.ok());
  // Both sets of the port's own rules stay behind it.
  for (const uint16_t queue : {uint16_t{1}, uint16_t{3}}) {
    CU_ASSERT_TRUE_FATAL(b.far().set_rss({.table = {queue}}).ok());
    EQUAL(b.where(f), 2);
    EQUAL(b.where(other), queue);
    EQUAL(b.where(make_frame(arp, 1, 1)), queue);
  }
  for (const uint8_t priority : {uint8_t{1}, uint8_t{2}}) {
    flow::RuleError why;
    EQUAL(b.far().add_rule(to_queue(1, udp_to(1), priority), &why).error().code, EOPNOTSUPP);
    EQUAL(why.field, flow::Field::priority);
  }
  flow::Rss inner;
  inner.inner = true;
  EQUAL(b.far().set_rss(inner).ok(), false);
  EQUAL(b.where(other), 3);
}

// What an isolated port was given before it could know is in the way of its own rules.
void few_priorities_of_an_isolated_port() {
  SpreadBench b(2, 4096, 128, usual_setup, "few-priorities");
  CU_ASSERT_TRUE_FATAL(b.far().set_isolated(true).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const Frame f = make_frame(udp4_kind, 1, 1);
  auto rule = b.far().add_rule(to_queue(1, like(f), 1));
  CU_ASSERT_TRUE_FATAL(rule.ok());
  EQUAL(b.where(f), 1);
  EQUAL(b.far().set_isolated(false).error().code, EBUSY);
  EQUAL(b.where(f), 1);
  CU_ASSERT_TRUE(b.far().remove_rule(*rule).ok());
  CU_ASSERT_TRUE(b.far().set_isolated(false).ok());
  CU_ASSERT_TRUE(b.where(f) >= 0);
}

// A device that joins segments from a length on leaves shorter ones alone.
void shorter_segments_stay() {
  SpreadBench b(1, 4096, 256,
                {.config = {.side = true, .lro = true}, .buffers = 8, .lro_timeout_us = 1024},
                "long-lro");
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  EQUAL(b.far().device().caps().lro.min_mss, 1348u);
  for (const std::size_t bytes : {std::size_t{1347}, std::size_t{1348}}) {
    FrameSpec s{.tcp_flags = 0x10, .seq = 7};
    s.payload = bytes;
    b.got.clear();
    for (int i = 0; i < 3; i++, s.seq += static_cast<uint32_t>(bytes)) {
      s.tcp_flags = i == 2 ? 0x18 : 0x10;  // PSH ends the train
      b.send(kilim::test::make_frame(s));
    }
    for (std::size_t seen = 1; seen != b.got.size(); b.receive_all()) seen = b.got.size();
    EQUAL(b.got.size(), bytes < 1348 ? 3u : 1u);
  }
}

constexpr kilim::test::Case of_limits[] = {
    {"packet memory has relaxed ordering by default", packet_memory_is_relaxed},
    {"eight priorities suffice", few_priorities},
    {"eight priorities of an isolated port", few_priorities_of_an_isolated_port},
    {"TCP segments below the shortest stay as they are", shorter_segments_stay},
};

}  // namespace
}  // namespace spread_limits_ut

std::span<const kilim::test::Case> kilim::test::limit_cases() {
  return spread_limits_ut::of_limits;
}
