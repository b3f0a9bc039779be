// SPDX-License-Identifier: BSD-3-Clause
// Part of mlx5_device: receive work queues, tables of them, hash queue pairs and flow rules of a
// device, and what each refuses. Frames go through them in test/net/spread_ut.
#include "rwq_cases.hh"

#include <cerrno>
#include <optional>
#include <set>
#include <vector>

#include <time.h>

#include "mlx5_fixture.hh"

namespace rwq_cases_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using device::RwqState;

struct Bench {
  VirtualDevice v;
  device::Device& d;
  device::OwnedCq cq;
  explicit Bench(const char* name, const char* profile = "cx6dx")
      : v(config(name, profile)), d(*v.device) {
    auto made = device::create_cq(d, 64);
    CU_ASSERT_TRUE_FATAL(made.ok());
    cq = *std::move(made);
  }
  device::OwnedRwq rwq(uint32_t depth = 64) {
    auto made = device::create_rwq(d, {.cq = cq->handle, .recv_wrs = depth, .strides = {}});
    CU_ASSERT_TRUE_FATAL(made.ok());
    return *std::move(made);
  }
};

void says_what_it_spreads() {
  Bench b("rwq0");
  const device::SpreadCaps& s = b.d.caps().spread;
  CU_ASSERT_TRUE(s.usable());
  CU_ASSERT_TRUE(s.strip_vlan);
  CU_ASSERT_TRUE(s.queues >= 64);
  CU_ASSERT_TRUE(s.longest_table >= 512);
}

void work_queues() {
  Bench b("rwq1");
  {
    device::OwnedRwq q = b.rwq(100), other = b.rwq();
    EQUAL(q->rq.wqe_count, 128);
    EQUAL(q->rq.stride, 16);
    CU_ASSERT_TRUE(q->rq.buf != nullptr);
    CU_ASSERT_TRUE(q->number != other->number);
    CU_ASSERT_TRUE(q->rq.buf != other->rq.buf);
    for (const RwqState s : {RwqState::ready, RwqState::error, RwqState::reset, RwqState::ready})
      CU_ASSERT_TRUE(b.d.set_rwq_state(q->handle, s).ok());
    CU_ASSERT_TRUE(b.d.set_rwq_state(q->handle, RwqState::error).ok());
    EQUAL(b.d.set_rwq_state(q->handle, RwqState::ready).error().code, EINVAL);
    CU_ASSERT_TRUE(b.d.strip_vlan(other->handle, true).ok());
    EQUAL(b.d.destroy_cq(b.cq->handle).error().code, EBUSY);
  }
  const device::RwqHandle none{999};
  EQUAL(b.d.set_rwq_state(none, RwqState::ready).error().code, EINVAL);
  EQUAL(b.d.strip_vlan(none, true).error().code, EINVAL);
  EQUAL(b.d.destroy_rwq(none).error().code, EINVAL);
  EQUAL(b.d.create_rwq({.cq = b.cq->handle, .strides = {}}).error().code, EINVAL);
  EQUAL(b.d.create_rwq({.recv_wrs = 64, .strides = {}}).error().code, EINVAL);
  EQUAL(b.d.create_rwq({.cq = b.cq->handle, .recv_wrs = 1u << 20, .strides = {}}).error().code,
        EINVAL);
}

void tables_and_hashes() {
  Bench b("rwq2");
  device::OwnedRwq q = b.rwq(), other = b.rwq();
  const std::vector<device::RwqHandle> four{q->handle, other->handle, q->handle, q->handle};
  EQUAL(b.d.create_rwq_table({four.data(), 3}).error().code, EINVAL);
  EQUAL(b.d.create_rwq_table({}).error().code, EINVAL);
  const std::vector<device::RwqHandle> unknown{device::RwqHandle{999}};
  EQUAL(b.d.create_rwq_table(unknown).error().code, EINVAL);
  auto table = device::create_rwq_table(b.d, four);
  CU_ASSERT_TRUE_FATAL(table.ok());
  EQUAL(b.d.destroy_rwq(q->handle).error().code, EBUSY);
  // Without fields a table has one entry.
  EQUAL(b.d.create_hash_qp({.table = (*table)->handle}, 1).error().code, EINVAL);
  std::set<uint32_t> handles;
  for (uint8_t k = 1; k < flow::hash_kinds; k++) {
    auto qp =
        b.d.create_hash_qp({.table = (*table)->handle, .kind = static_cast<flow::HashKind>(k)}, 1);
    CU_ASSERT_TRUE_FATAL(qp.ok());
    handles.insert(qp->handle.value());
    EQUAL(b.d.destroy_rwq_table((*table)->handle).error().code, EBUSY);
    CU_ASSERT_FALSE(b.d.endpoint(qp->handle).ok());
    CU_ASSERT_TRUE(b.d.destroy_qp(qp->handle).ok());
  }
  EQUAL(handles.size(), flow::hash_kinds - 1);
  EQUAL(b.d.create_hash_qp({.table = device::RwqTableHandle{999}}, 1).error().code, EINVAL);
  EQUAL(b.d.destroy_rwq_table(device::RwqTableHandle{999}).error().code, EINVAL);
}

// A rule that leads to `target` by several headers, marks and counts; what is refused.
void check_rules(device::Device& d, device::QpHandle target) {
  device::FlowRequest r{.qp = target, .match = {}, .priority = 15};
  r.match.ipv6 = flow::Ipv6{.label = {0x12345, 0xfffff}};
  r.match.tcp = flow::Ports{.src = flow::exactly(uint16_t{1}), .dst = {}};
  r.mark = 0xffffff;
  r.count = true;
  auto rule = d.add_rule(r);
  CU_ASSERT_TRUE_FATAL(rule.ok());
  auto count = d.query_flow(*rule);
  CU_ASSERT_TRUE(count.ok() && count->packets == 0 && count->bytes == 0);
  EQUAL(d.destroy_qp(target).error().code, EBUSY);
  CU_ASSERT_TRUE(d.remove_flow(*rule).ok());
  EQUAL(d.query_flow(*rule).error().code, EINVAL);
  r.count = false;
  auto silent = d.add_rule(r);
  CU_ASSERT_TRUE_FATAL(silent.ok());
  EQUAL(d.query_flow(*silent).error().code, EINVAL);
  CU_ASSERT_TRUE(d.remove_flow(*silent).ok());
  r.priority = 16;
  EQUAL(d.add_rule(r).error().code, ENOSPC);
  r.priority = 0;
  r.mark = 1u << 24;
  EQUAL(d.add_rule(r).error().code, EINVAL);
  r.mark.reset();
  r.match.tcp.reset();
  r.match.tunnel = flow::Tunnel{.kind = flow::Tunnel::Kind::gre, .id = {}};
  const auto tunnel = d.add_rule(r);
  CU_ASSERT_TRUE_FATAL(tunnel.ok());
  CU_ASSERT_TRUE(d.remove_flow(*tunnel).ok());
}

// Of a queue pair of verbs, and of a target that joins TCP segments.
void check_rules_of(const char* name, std::optional<device::Lro> lro) {
  Bench b(name);
  device::OwnedRwq q = b.rwq();
  auto table = device::create_rwq_table(b.d, {&q->handle, 1});
  CU_ASSERT_TRUE_FATAL(table.ok());
  auto target = device::create_hash_qp(b.d, {.table = (*table)->handle, .lro = lro}, 1);
  CU_ASSERT_TRUE_FATAL(target.ok());
  check_rules(b.d, (*target)->handle);
  EQUAL(b.d.add_rule({.qp = device::QpHandle{999}, .match = {}}).error().code, EINVAL);
}
void rules() {
  check_rules_of("rwq3", std::nullopt);
}
void rules_to_joining_targets() {
  check_rules_of("rwq9", device::Lro{.max_bytes = 2048});
}

// Targets that join TCP segments are the firmware's, and otherwise as those of verbs.
void joining_targets() {
  Bench b("rwq7");
  const device::LroCaps& lro = b.d.caps().lro;
  CU_ASSERT_TRUE(lro.supported);
  CU_ASSERT_TRUE(lro.periods_us[0] != 0);
  CU_ASSERT_TRUE(lro.periods_us[3] > lro.periods_us[0]);
  device::OwnedRwq q = b.rwq();
  const std::vector<device::RwqHandle> two{q->handle, q->handle};
  auto table = device::create_rwq_table(b.d, two),
       single = device::create_rwq_table(b.d, {&two[0], 1});
  CU_ASSERT_TRUE_FATAL(table.ok());
  CU_ASSERT_TRUE_FATAL(single.ok());
  device::HashQpRequest r{.table = (*table)->handle,
                          .kind = flow::HashKind::tcp6,
                          .lro = device::Lro{.max_bytes = 256, .timeout_us = 0}};
  std::set<uint32_t> handles;
  for (uint8_t k = 1; k < flow::hash_kinds; k++) {
    r.kind = static_cast<flow::HashKind>(k);
    auto qp = b.d.create_hash_qp(r, 1);
    CU_ASSERT_TRUE_FATAL(qp.ok());
    handles.insert(qp->handle.value());
    EQUAL(b.d.destroy_rwq_table((*table)->handle).error().code, EBUSY);
    for (const Status& s : {b.d.reset(qp->handle), b.d.fail(qp->handle)})
      CU_ASSERT_TRUE(!s.ok() && s.error().code == EINVAL);
    CU_ASSERT_FALSE(b.d.endpoint(qp->handle).ok());
    CU_ASSERT_TRUE(b.d.destroy_qp(qp->handle).ok());
    EQUAL(b.d.destroy_qp(qp->handle).error().code, EINVAL);
  }
  EQUAL(handles.size(), flow::hash_kinds - 1);
  r.kind = flow::HashKind::none;  // of a table of one entry only
  CU_ASSERT_FALSE(b.d.create_hash_qp(r, 1).ok());
  r.table = (*single)->handle;
  auto target = device::create_hash_qp(b.d, r, 1);
  CU_ASSERT_TRUE_FATAL(target.ok());
  EQUAL(b.d.create_hash_qp(r, 2).error().code, EOPNOTSUPP);
  r.lro->max_bytes = 255;
  EQUAL(b.d.create_hash_qp(r, 1).error().code, EINVAL);
  r.lro->max_bytes = 1u << 20;
  CU_ASSERT_TRUE(device::create_hash_qp(b.d, r, 1).ok());
  r = {.table = (*table)->handle,
       .kind = flow::HashKind::udp4,
       .tunnels = true,
       .inner = true,
       .lro = r.lro};
  CU_ASSERT_TRUE(device::create_hash_qp(b.d, r, 1).ok());
  r.kind = flow::HashKind::none;
  Bench without("rwq8", "no-lro");
  CU_ASSERT_FALSE(without.d.caps().lro.supported);
  device::OwnedRwq other = without.rwq();
  auto its = device::create_rwq_table(without.d, {&other->handle, 1});
  CU_ASSERT_TRUE_FATAL(its.ok());
  r.table = (*its)->handle;
  EQUAL(without.d.create_hash_qp(r, 1).error().code, EOPNOTSUPP);
}

// By hand.
void limits_of_joining() {
  device::LroCaps c{.supported = true, .from_l4 = false, .periods_us = {32, 64, 256, 1024}};
  EQUAL(c.units(255), 0u);
  EQUAL(c.units(256), 1u);
  EQUAL(c.units(65'279), 254u);
  EQUAL(c.units(1u << 20), 255u);
  for (const auto& [us, period] : {std::pair{0u, 32u},
                                   {31u, 32u},
                                   {32u, 32u},
                                   {63u, 32u},
                                   {64u, 64u},
                                   {255u, 64u},
                                   {1023u, 256u},
                                   {5000u, 1024u}})
    EQUAL(c.period_us(us), period);
  c.from_l4 = true;
  EQUAL(c.units(57), 0u);
  EQUAL(c.units(256 + 57), 0u);
  EQUAL(c.units(256 + 58), 1u);
}

uint64_t now(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// The virtual device's ticks are those of CLOCK_MONOTONIC.
void clocks() {
  Bench b("rwq4");
  auto clock = b.d.clock();
  CU_ASSERT_TRUE_FATAL(clock.ok());
  // Stamps have 41 bits: half of that is 18 minutes.
  constexpr uint64_t slack = 1'000'000, hour = 3600ull * 1'000'000'000;
  for (const int64_t shift : {int64_t{0}, int64_t(hour / 4), -int64_t(hour / 4)}) {
    const uint64_t utc = now(CLOCK_REALTIME) + static_cast<uint64_t>(shift);
    const uint64_t ns = clock->ns(now(CLOCK_MONOTONIC) + static_cast<uint64_t>(shift));
    CU_ASSERT_TRUE(ns + slack >= utc);
    CU_ASSERT_TRUE(ns <= utc + slack);
  }
  // By hand: a tick is one nanosecond and a half.
  const queue::DeviceClock slow(
      {.ticks = 10, .ns = 1000, .fraction = 1, .mult = 3, .shift = 1, .mask = 0xff});
  EQUAL(slow.ns(12), 1003u);
  EQUAL(slow.ns(13), 1005u);
  EQUAL(slow.ns(7), 996u);
  EQUAL(slow.ns(0x100 + 12), 1003u);
  EQUAL(slow.ns(0x100 - 2), 983u);
  // Linux's figures of a clock of 1 GHz: a tick is a nanosecond, however long ago the sample was.
  constexpr uint64_t second = 1'000'000'000, range = uint64_t{1} << 41;
  const queue::DeviceClock fast({.ticks = 5,
                                 .ns = hour,
                                 .fraction = 0,
                                 .mult = uint32_t{1} << 31,
                                 .shift = 31,
                                 .mask = range - 1});
  for (const uint64_t s : {uint64_t{1}, uint64_t{9}, uint64_t{40}, uint64_t{1000}}) {
    EQUAL(fast.ns(5 + s * second), hour + s * second);
    EQUAL(fast.ns((range + 5 - s * second) & (range - 1)), hour - s * second);
  }
  EQUAL(fast.good_for_ns(), range / 2 - 1);
  EQUAL(queue::DeviceClock().good_for_ns(), ~uint64_t{0});
  EQUAL(queue::DeviceClock().ns(uint64_t{7} << 32 | 9), 7'000'000'009u);
}

void compression_and_real_time() {
  Bench b("rwq5"), timed("rwq6", "real-time");
  CU_ASSERT_TRUE(b.d.caps().compressed_hash);
  CU_ASSERT_TRUE(b.d.caps().compressed_checksum);
  for (const device::Compression c : {device::Compression::hash, device::Compression::checksum})
    CU_ASSERT_TRUE(device::create_cq(b.d, {.entries = 64, .compression = c}).ok());
  const auto refused = b.d.create_cq({.entries = 64, .real_time = true});
  CU_ASSERT_TRUE(!refused.ok() && refused.error().code == EOPNOTSUPP);
  CU_ASSERT_TRUE(device::create_cq(timed.d, {.entries = 64, .real_time = true}).ok());
}

constexpr Case of_rwqs[] = {
    {"stamps of a device's clock become times", clocks},
    {"completion queues are compressed and stamped as asked", compression_and_real_time},
    {"a device says how it spreads frames", says_what_it_spreads},
    {"receive work queues have states and refuse what is wrong", work_queues},
    {"tables and hash queue pairs stand on work queues", tables_and_hashes},
    {"rules match by every header, mark and count", rules},
    {"hash targets that join TCP segments stand on tables", joining_targets},
    {"rules lead to targets that join, mark and count", rules_to_joining_targets},
    {"limits of joining are in the device's units", limits_of_joining},
};

}  // namespace
}  // namespace rwq_cases_ut

std::span<const kilim::test::Case> kilim::test::rwq_cases() {
  return rwq_cases_ut::of_rwqs;
}
