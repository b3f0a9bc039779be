// SPDX-License-Identifier: BSD-3-Clause
// Part of steering_ut. How much steering entries may make of one frame: each limit is reached, and
// then asked for one more. What lies behind a limit is memory that is not the frame's, so a check
// that is missing shows as a frame that goes on.
#include <string_view>

#include "../wire/frames_fixture.hh"
#include "soft_steering_fixture.hh"
#include "tunnel_fixture.hh"
#include "vhca/ethernet/ste_action.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace steering_limits_ut {
namespace {

using test::Bytes;

constexpr std::size_t longest = 2048;  // what Bench makes room for
constexpr std::string_view much = ethernet::ste_end::too_many,
                           little = ethernet::ste_end::too_short;

// A table whose entries put headers in front of what leaves, one after the other.
struct Front : Bench {
  std::size_t next = 0;

  Front() : Bench(true) { put(0, entry_of(sends).hit(allow, 1)); }
  void headers(uint32_t bytes, unsigned action = prm::ste::action_encap) {
    uint32_t number = 0;
    Prepend* p = soft->reformats.create(number);
    p->count = bytes;
    p->bytes.fill(std::byte{0xa5});
    add(action, number);
  }
  void tag() { add(prm::ste::action_push_vlan, 0x81002064); }
  // The last one leads to the wire.
  void add(unsigned action, uint32_t data) {
    put(next, entry_of(sends).set(0x66, 3, action).set(0x80, 32, data).hit(at(next + 1), 1));
    put(++next, entry_of(sends).hit(allow, 1));
  }
  // How long the frame leaves; 0: it does not, for that reason.
  std::size_t leaves(const Bytes& f, std::string_view why = "") {
    const auto got = walk(f);
    if (!got.empty()) return got.size() == 1 ? got[0].frame.size() : 1;
    CU_ASSERT(soft->lost() != nullptr && soft->lost() == why);
    return 0;
  }
};

// 256 bytes (SteActions::headroom), by headers and by tags.
void no_header_lies_in_front_of_a_copy() {
  const Bytes f = make_frame({});
  Front large, mixed, tags;
  for (std::size_t i = 1; i <= 2; i++) {
    large.headers(128);
    EQUAL(large.leaves(f), f.size() + i * 128);
  }
  large.headers(1);
  EQUAL(large.leaves(f, much), 0);
  mixed.headers(128);
  mixed.headers(124);
  mixed.tag();
  EQUAL(mixed.leaves(f), f.size() + 256);
  mixed.tag();
  EQUAL(mixed.leaves(f, much), 0);
  for (std::size_t i = 1; i <= 61; i++) tags.tag();
  EQUAL(tags.leaves(f), f.size() + 61 * 4);
}

// What is taken off in front gives room for as much.
void headers_take_the_place_of_others() {
  const Bytes f = make_frame({});
  Front bench;
  for (int i = 0; i < 2; i++) bench.headers(128);
  bench.headers(14, prm::ste::action_encap_l3);
  EQUAL(bench.leaves(f), f.size() + 256);
  bench.headers(15, prm::ste::action_encap_l3);
  EQUAL(bench.leaves(f, much), 0);
}

// The copies of a frame lie one behind the other.
void a_copy_ends_where_the_next_begins() {
  Front bench;
  bench.headers(128);
  bench.headers(128);
  const uint32_t fits = bench.table;
  bench.headers(128);
  FlowTable* both = bench.make(true, false);
  both->has_entry = true;
  both->entry.to = {{true, fits}, {true, fits}, {true, fits}};
  const Bytes f = make_frame({.payload = longest - 54});
  CU_ASSERT(bench.walk(f).empty());
  EQUAL(bench.soft->lost(), much);
  bench.put(2, entry_of(sends).hit(allow, 1));
  const auto got = bench.walk(f);
  EQUAL_FATAL(got.size(), 3);
  for (const Arrival& a : got) CU_ASSERT(same(a.frame.subspan(256), f));
}

void a_copy_holds_the_longest_frame() {
  Front bench;
  bench.tag();
  for (const std::size_t bytes : {longest - 1, longest})
    EQUAL(bench.leaves(make_frame({.payload = bytes - 54})), bytes + 4);
  EQUAL(bench.leaves(make_frame({.payload = longest - 53}), much), 0);
}

// A firmware's table whose entry leads so many times to that place.
FlowTable* many(Bench& b, std::size_t times, ethernet::FlowEntry::To to) {
  FlowTable* t = b.make(false, false);
  t->has_entry = true;
  t->entry.to.assign(times, to);
  return t;
}

void a_frame_has_eight_copies() {
  const Bytes plain = make_frame({}), tagged = with_tag(plain);
  for (const std::size_t times : {8u, 9u, 32u}) {
    Bench bench;
    bench.put(0, entry_of(receives).set(0xa1, 3, 4).hit(bench.to_tir(), 1));
    many(bench, times, {true, bench.table});
    const auto got = bench.walk(tagged);
    EQUAL(got.size(), 8);
    for (const Arrival& a : got) CU_ASSERT(same(a.frame, plain));
    CU_ASSERT(times == 8 ? bench.soft->lost() == nullptr : bench.soft->lost() == much);
  }
}

void a_frame_arrives_sixty_four_times() {
  for (const std::size_t tables : {2u, 3u}) {
    Bench bench;
    const FlowTable* ends = many(bench, 32, {false, bench.tirn});
    many(bench, tables, {true, ends->number});
    EQUAL(bench.walk(make_frame({})).size(), 64);
    CU_ASSERT(tables == 2 ? bench.soft->lost() == nullptr : bench.soft->lost() == much);
  }
}

// All but one of the tables that an entry names wait while that one's are gone through.
void forty_ways_of_a_frame_wait() {
  for (const std::size_t tables : {9u, 10u}) {
    Bench bench;
    FlowTable* drops = many(bench, 0, {});
    drops->entry.drops = true;
    const FlowTable* inner = many(bench, 32, {true, drops->number});
    many(bench, tables, {true, inner->number});
    CU_ASSERT(bench.walk(make_frame({})).empty());
    CU_ASSERT(tables == 9 ? bench.soft->lost() == nullptr : bench.soft->lost() == much);
  }
}

void sixty_four_hits_of_a_frame_are_counted() {
  Bench bench;
  FlowTable* t = many(bench, 1, {false, bench.tirn});
  for (const uint32_t hits : {63u, 64u, 65u}) {
    bench.count->packets = 0;
    t->entry.counters.assign(hits, bench.counter);
    EQUAL(bench.walk(make_frame({})).size(), 1);
    EQUAL(bench.count->packets, std::min(hits, 64u));
  }
}

// No entry reads what lies behind a frame whose last entry put shorter headers in the place of
// longer ones.
void an_ethernet_header_stays() {
  for (const uint32_t bytes : {1u, 13u, 14u}) {
    Front bench;
    bench.headers(bytes, prm::ste::action_encap_l3);
    EQUAL(bench.leaves(Bytes(14), little), bytes < 14 ? 0 : bytes);
    EQUAL(bench.leaves(Bytes(27), little), 13 + bytes);
  }
  Bench pops;
  pops.put(0, entry_of(receives).set(0xa1, 3, 4).hit(pops.to_tir(), 1));
  const Bytes tagged = make_frame({.tags = 1});
  for (std::size_t bytes = 14; bytes <= 20; bytes++) {
    const Bytes f(tagged.begin(), tagged.begin() + static_cast<std::ptrdiff_t>(bytes));
    const auto got = pops.walk(f);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(got[0].frame.size(), bytes < 18 ? bytes : bytes - 4);
  }
}

// An inner frame ends behind its Ethernet header, or it is none.
void a_tunnel_without_a_frame_in_it_stays() {
  Bench bench;
  bench.put(0, entry_of(receives).set(0xa1, 3, 2).hit(bench.to_tir(), 1));
  for (const Carrier carrier : {Carrier::vxlan, Carrier::gre}) {
    const TunnelSpec spec{.carrier = carrier};
    CU_ASSERT(bench.comes(wrap(spec, Bytes(14)), Bytes(14)));
    CU_ASSERT(bench.walk(wrap(spec, Bytes(13))).empty());
    CU_ASSERT(bench.soft->lost() == std::string_view(ethernet::ste_end::no_tunnel));
  }
}

constexpr Case of_limits[] = {
    {"no header lies in front of a copy", no_header_lies_in_front_of_a_copy},
    {"headers take the place of others", headers_take_the_place_of_others},
    {"a copy ends where the next begins", a_copy_ends_where_the_next_begins},
    {"a copy holds the longest frame", a_copy_holds_the_longest_frame},
    {"a frame has eight copies", a_frame_has_eight_copies},
    {"a frame arrives sixty-four times", a_frame_arrives_sixty_four_times},
    {"forty ways of a frame wait", forty_ways_of_a_frame_wait},
    {"sixty-four hits of a frame are counted", sixty_four_hits_of_a_frame_are_counted},
    {"an Ethernet header stays", an_ethernet_header_stays},
    {"a tunnel without a frame in it stays", a_tunnel_without_a_frame_in_it_stays},
};

}  // namespace
}  // namespace steering_limits_ut

std::span<const kilim::test::Case> kilim::test::steering_limit_cases() {
  return steering_limits_ut::of_limits;
}
