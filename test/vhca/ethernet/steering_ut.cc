// SPDX-License-Identifier: BSD-3-Clause
// Steering rules: which queues get which frame.
#include <cerrno>

#include "case_tables.hh"
#include "steering_fixture.hh"
#include "vhca/ethernet/steering.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace steering_ut {
namespace {

using test::Bytes;

constexpr Mac mine = {2, 0, 0, 0, 0, 1}, other = {2, 0, 0, 0, 0, 2}, group = {1, 0, 0x5e, 0, 0, 9},
              broadcast = {255, 255, 255, 255, 255, 255}, all_ones = broadcast;
using Type = FlowSpec::Type;

FlowSpec to(const Mac& dst, uint16_t priority = 0) {
  FlowSpec f;
  f.has_eth = true;
  f.dst = dst;
  f.dst_mask = all_ones;
  f.priority = priority;
  return f;
}
FlowSpec of_type(Type t) {
  FlowSpec f;
  f.type = t;
  return f;
}
FlowSpec any(uint16_t priority = 0) {
  FlowSpec f;
  f.has_eth = true;
  f.priority = priority;
  return f;
}

Bytes frame(const Mac& dst, std::size_t type = 0x0800, int tag = -1) {
  Bytes f(64, std::byte{0});
  std::memcpy(f.data(), dst.data(), 6);
  f[6] = std::byte{0x0a};
  if (tag >= 0) {
    put16(f, 12, 0x8100);
    put16(f, 14, static_cast<std::size_t>(tag));
    put16(f, 16, type);
  } else {
    put16(f, 12, type);
  }
  return f;
}

void without_a_rule_nothing_is_wanted() {
  Steering s;
  CU_ASSERT(goes_to(s, frame(mine), {}));
  CU_ASSERT(s.add(&a, to(mine)).ok());
  CU_ASSERT(goes_to(s, frame(other), {}));
  CU_ASSERT(goes_to(s, Bytes(13), {}));
  CU_ASSERT(goes_to(s, {}, {}));
}

void a_station_address_is_compared_under_its_mask() {
  Steering s;
  FlowSpec low = to(mine);
  low.dst_mask = {255, 255, 255, 255, 255, 0};
  CU_ASSERT(s.add(&a, to(mine)).ok());
  CU_ASSERT(s.add(&b, to(other)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&a}));
  CU_ASSERT(goes_to(s, frame(other), {&b}));
  Steering masked;
  CU_ASSERT(masked.add(&c, low).ok());
  CU_ASSERT(goes_to(masked, frame(other), {&c}));
  CU_ASSERT(goes_to(masked, frame(group), {}));
  // Of a byte too, some bits may count.
  Steering bits;
  FlowSpec odd = to(mine);
  odd.dst_mask = {1, 0, 0, 0, 0, 1};
  CU_ASSERT(bits.add(&c, odd).ok());
  CU_ASSERT(goes_to(bits, frame({4, 0, 0, 0, 0, 7}), {&c}));
  CU_ASSERT(goes_to(bits, frame(other), {}));
}

void the_first_priority_wins_then_age() {
  Steering s;
  CU_ASSERT(s.add(&a, any(2)).ok());
  CU_ASSERT(s.add(&b, to(mine, 1)).ok());
  CU_ASSERT(s.add(&c, any(1)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&b}));
  CU_ASSERT(goes_to(s, frame(other), {&c}));
}

void two_queues_with_the_same_rule_get_a_copy_each() {
  Steering s;
  CU_ASSERT(s.add(&a, to(mine)).ok() && s.add(&b, to(mine)).ok() && s.add(&a, to(mine)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&a, &b}));
}

void rules_for_groups_come_behind_all_priorities() {
  Steering s;
  CU_ASSERT(s.add(&a, to(group, 9)).ok());
  CU_ASSERT(s.add(&b, to(group)).ok());
  CU_ASSERT(s.add(&c, to(broadcast)).ok());
  CU_ASSERT(goes_to(s, frame(group), {&a, &b}));
  CU_ASSERT(goes_to(s, frame(broadcast), {&c}));
  CU_ASSERT(goes_to(s, frame(mine), {}));
  // Whoever takes everything takes groups too, however low its priority.
  Result<uint32_t> all = s.add(&c, any(15));
  CU_ASSERT_FATAL(all.ok());
  CU_ASSERT(goes_to(s, frame(group), {&c}) && goes_to(s, frame(mine), {&c}));
  EQUAL(s.remove(*all), 0);
  // Of several for groups the first that matches, and its equals.
  FlowSpec groups = to(group);
  groups.dst_mask = {1, 0, 0, 0, 0, 0};
  CU_ASSERT(s.add(&c, groups).ok());
  CU_ASSERT(goes_to(s, frame(group), {&a, &b}));
  CU_ASSERT(goes_to(s, frame({0x33, 0x33, 0, 0, 0, 1}), {&c}));
}

void default_rules_see_what_no_other_took() {
  Steering s;
  CU_ASSERT(s.add(&a, of_type(Type::all_default)).ok());
  CU_ASSERT(s.add(&b, of_type(Type::mc_default)).ok());
  CU_ASSERT(s.add(&c, to(mine, 15)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&c}));
  CU_ASSERT(goes_to(s, frame(other), {&a}));
  CU_ASSERT(goes_to(s, frame(group), {&a, &b}));
  CU_ASSERT(s.add(&c, to(group)).ok());
  CU_ASSERT(goes_to(s, frame(group), {&c}));
}

void a_sniffer_sees_everything_and_takes_nothing_away() {
  Steering s;
  CU_ASSERT(s.add(&a, of_type(Type::sniffer)).ok());
  CU_ASSERT(s.add(&b, to(mine)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&a, &b}));
  CU_ASSERT(goes_to(s, frame(other), {&a}));
}

void types_tags_and_sources_are_compared() {
  Steering s;
  FlowSpec ip = any(), tagged = any(1), source = any(2);
  ip.ether_type = 0x0800;
  ip.ether_type_mask = 0xffff;
  tagged.vlan_tag = 100;
  tagged.vlan_tag_mask = 0x0fff;
  source.src[0] = 0x0a;
  source.src_mask[0] = 0xff;
  CU_ASSERT(s.add(&a, ip).ok());
  CU_ASSERT(s.add(&b, tagged).ok());
  CU_ASSERT(s.add(&c, source).ok());
  CU_ASSERT(goes_to(s, frame(mine, 0x0800), {&a}) && goes_to(s, frame(mine, 0x0800, 5), {&a}));
  CU_ASSERT(goes_to(s, frame(mine, 0x86dd, 0x2064), {&b}));
  CU_ASSERT(goes_to(s, frame(mine, 0x86dd, 101), {&c}) && goes_to(s, frame(mine, 0x86dd), {&c}));
  Bytes foreign = frame(mine, 0x86dd);
  foreign[6] = std::byte{0x0b};
  CU_ASSERT(goes_to(s, foreign, {}));
}

void a_tag_of_zero_is_a_tag() {
  Steering s;
  FlowSpec zero = any();
  zero.vlan_tag_mask = 0x0fff;
  CU_ASSERT(s.add(&a, zero).ok());
  CU_ASSERT(goes_to(s, frame(mine, 0x0800, 0x2000), {&a}));
  CU_ASSERT(goes_to(s, frame(mine), {}));
}

void rules_that_the_kernel_refuses_are_refused() {
  Steering s;
  FlowSpec far = any(), port = any(), type = any();
  far.priority = 16;
  port.port = 2;
  type.type = static_cast<Type>(7);
  EQUAL(s.add(&a, far).error().code, ENOSPC);
  EQUAL(s.add(&a, port).error().code, EINVAL);
  EQUAL(s.add(&a, type).error().code, EINVAL);
  EQUAL(s.count(), 0);
  std::size_t made = 0;
  while (made < 100'000 && s.add(&a, any()).ok()) made++;
  EQUAL(made, Steering::max_rules);
  EQUAL(s.add(&a, any()).error().code, ENOMEM);
}

void a_removed_rule_is_gone() {
  Steering s;
  uint32_t first = *s.add(&a, to(mine)), second = *s.add(&b, to(mine));
  CU_ASSERT(first != second);
  CU_ASSERT(s.uses(&a));
  CU_ASSERT(s.uses(&b));
  CU_ASSERT(!s.uses(&c));
  EQUAL(s.remove(first), 0);
  CU_ASSERT(!s.uses(&a));
  CU_ASSERT(goes_to(s, frame(mine), {&b}));
  EQUAL(s.remove(first), -ENOENT);
}

constexpr Case cases[] = {
    {"without a rule nothing is wanted", without_a_rule_nothing_is_wanted},
    {"a station address is compared under its mask", a_station_address_is_compared_under_its_mask},
    {"the first priority wins, then age", the_first_priority_wins_then_age},
    {"two queues with the same rule get a copy each",
     two_queues_with_the_same_rule_get_a_copy_each},
    {"rules for groups come behind all priorities", rules_for_groups_come_behind_all_priorities},
    {"default rules see what no other took", default_rules_see_what_no_other_took},
    {"a sniffer sees everything and takes nothing away",
     a_sniffer_sees_everything_and_takes_nothing_away},
    {"types, tags and sources are compared", types_tags_and_sources_are_compared},
    {"a tag of zero is a tag", a_tag_of_zero_is_a_tag},
    {"rules that the kernel refuses are refused", rules_that_the_kernel_refuses_are_refused},
    {"a removed rule is gone", a_removed_rule_is_gone},
};

}  // namespace
}  // namespace steering_ut

KILIM_TEST_MAIN(steering) {
  return kilim::test::run_tables(
      "vhca/flow steering",
      {steering_ut::cases, kilim::test::steering_header_cases(), kilim::test::odd_frame_cases(),
       kilim::test::soft_steering_cases(), kilim::test::kernel_rule_cases(),
       kilim::test::steering_limit_cases()},
      argc, argv);
}
