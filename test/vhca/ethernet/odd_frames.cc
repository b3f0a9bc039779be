// SPDX-License-Identifier: BSD-3-Clause
// Part of steering_ut. Odd frames pass rules that say the same by verbs specs and by match buffers,
// and each does what the frame's headers show. Buffers are laid out by hand, after Linux
// include/linux/mlx5/mlx5_ifc.h (fte_match_set_lyr_2_4), and rules are said as Linux
// drivers/infiniband/hw/mlx5/fs.c, parse_flow_attr() says them.
#include "odd_frames_fixture.hh"
#include "steering_fixture.hh"
#include "vhca/ethernet/flow_memo.hh"
#include "vhca/ethernet/match_param.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace odd_frames_ut {
namespace {

using test::Bytes;

// Places in a buffer.
constexpr std::size_t type_at = 6, first_tag = 14, protocol_at = 16, traffic_at = 17, bits_at = 18,
                      tcp_ports = 20, udp_ports = 28, source_at = 32;
constexpr uint8_t cvlan = 0x80, svlan = 0x40, frag = 0x20, four = 4 << 1, six = 6 << 1,
                  version = 0x1e;

// A rule, in both kinds. Without specs that can say it, it is by buffer alone.
struct Pair {
  const char* name;
  bool (*expected)(const Shown&);  // null: what both say counts
  FlowSpec specs, buffer;
  bool by_specs = true;

  Pair(const char* n, bool (*e)(const Shown&)) : name(n), expected(e) { buffer.by_buffer = true; }
  Pair& put(std::size_t at, uint8_t value, uint8_t mask) {
    buffer.buffer[at] |= value;
    buffer.buffer_mask[at] |= mask;
    return *this;
  }
  Pair& put16(std::size_t at, unsigned value, unsigned mask) {
    put(at, static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(mask >> 8));
    return put(at + 1, static_cast<uint8_t>(value), static_cast<uint8_t>(mask));
  }
  Pair& type(uint16_t t) {
    specs.has_eth = true;
    specs.ether_type = t;
    specs.ether_type_mask = 0xffff;
    return put16(type_at, t, 0xffff);
  }
  Pair& tag(uint16_t value, uint16_t mask) {
    specs.has_eth = true;
    specs.vlan_tag = value;
    specs.vlan_tag_mask = mask;
    return put(bits_at, cvlan, cvlan).put16(first_tag, value, mask);
  }
  Pair& ip(uint8_t v) {
    specs.ip_version = v;
    return put(bits_at, v == 4 ? four : six, version);
  }
  Pair& carries(uint8_t protocol) {
    specs.ip.protocol = protocol;
    specs.ip_mask.protocol = 0xff;
    return put(protocol_at, protocol, 0xff);
  }
  Pair& ports(uint8_t protocol, FlowPorts value, FlowPorts mask) {
    specs.l4_protocol = protocol;
    specs.ports = value;
    specs.ports_mask = mask;
    put(protocol_at, protocol, 0xff);
    const std::size_t at = protocol == 6 ? tcp_ports : udp_ports;
    return put16(at, value.src, mask.src).put16(at + 2, value.dst, mask.dst);
  }
  // What no spec of verbs asks for.
  Pair& bits(uint8_t value, uint8_t mask) {
    by_specs = false;
    return put(bits_at, value, mask);
  }
};

bool carries_udp(const Shown& s) {
  return s.protocol == 17 && s.version != 0;
}

std::vector<Pair> kinds_of_rules() {
  using S = const Shown&;
  std::vector<Pair> all;
  const auto add = [&all](const char* name, bool (*expected)(S)) -> Pair& {
    return all.emplace_back(name, expected);
  };
  all.reserve(32);
  add("everything", [](S) { return true; }).specs.has_eth = true;
  add("type 0800", [](S s) { return s.type == 0x0800; }).type(0x0800);
  add("type 86dd", [](S s) { return s.type == 0x86dd; }).type(0x86dd);
  add("type 8100", [](S s) { return s.type == 0x8100; }).type(0x8100);
  add("first tag 100", [](S s) { return s.tag == 'c'; }).tag(100, 0x0fff);
  add("first tag 101", [](S) { return false; }).tag(101, 0x0fff);
  add("priority 1", [](S s) { return s.tag == 'c'; }).tag(0x2000, 0xe000);
  add("a service's tag", [](S s) { return s.tag == 's'; }).bits(svlan, svlan);
  add("no tag", [](S s) { return s.tag == 0; }).bits(0, cvlan | svlan);
  add("IPv4", [](S s) { return s.version == 4; }).ip(4);
  add("IPv6", [](S s) { return s.version == 6; }).ip(6);
  add("IPv4 of type 0800", [](S s) { return s.version == 4; }).type(0x0800).ip(4);
  add("IPv4 in tag 100", [](S s) { return s.version == 4 && s.tag == 'c'; }).tag(100, 0xfff).ip(4);
  add("fragments", [](S s) { return s.fragment; }).bits(frag, frag);
  add("whole packets", [](S s) { return !s.fragment; }).bits(0, frag);
  add("protocol 17", carries_udp).carries(17);
  add("protocol 6 on IPv6", [](S s) { return s.version == 6 && s.protocol == 6; }).ip(6).carries(6);
  add("protocol 47", [](S s) { return s.protocol == 47; }).carries(47);
  // A layer of TCP or UDP without ports is a protocol: fragments have it, and packets cut off.
  add("UDP", carries_udp).ports(17, {}, {});
  add("TCP on IPv4", [](S s) { return s.version == 4 && s.protocol == 6; }).ip(4).ports(6, {}, {});
  add("UDP to port 80", [](S s) {
    return s.protocol == 17 && s.ports;
  }).ports(17, {0, 80}, {0, 0xffff});
  add("TCP from port 5001", [](S s) { return s.protocol == 6 && s.ports; })
      .ip(4)
      .ports(6, {5001, 0}, {0xffff, 0});
  all.back().expected = [](S s) { return s.version == 4 && s.protocol == 6 && s.ports; };
  add("UDP of the port's low bits", nullptr).ports(17, {0, 0}, {0, 0x000f});
  Pair& address = add("an address of IPv4", nullptr).ip(4);
  address.specs.ip.src = {0x4e, 0x51};
  address.specs.ip_mask.src = {0xff, 0xff};
  address.put16(source_at + 12, 0x4e51, 0xffff);
  Pair& traffic = add("a class of IPv6", nullptr).ip(6);
  traffic.specs.ip_mask.traffic = 0x0f;
  traffic.put(traffic_at, 0, 0x0f);
  return all;
}

bool takes(const FlowSpec& rule, const Bytes& frame) {
  Steering s;
  CU_ASSERT(s.add(&a, rule).ok());
  return !s.match(frame).empty();
}

void say(const OddFrame& f, const Pair& p, const char* what) {
  std::printf("%s (%zu bytes): %s: %s\n", f.name.c_str(), f.frame.size(), p.name, what);
}

void rules_of_both_kinds_take_the_same_odd_frames() {
  const std::vector<Pair> rules = kinds_of_rules();
  std::size_t taken = 0;
  for (const OddFrame& f : odd_frames())
    for (const Pair& p : rules) {
      const bool by_buffer = takes(p.buffer, f.frame);
      const bool by_specs = p.by_specs ? takes(p.specs, f.frame) : by_buffer;
      const bool expected = p.expected != nullptr ? p.expected(f.shown) : by_buffer;
      if (by_buffer != expected) say(f, p, "the buffer is wrong");
      if (by_specs != expected) say(f, p, "the specs are wrong");
      EQUAL(by_buffer, expected);
      EQUAL(by_specs, expected);
      taken += expected;
    }
  CU_ASSERT(taken > 1000);
}

// Rules that say the same in both kinds are one entry: of its two queues both get a frame, and one
// that does something else is refused.
void rules_of_both_kinds_that_say_the_same_are_one_entry() {
  for (const Pair& p : kinds_of_rules()) {
    if (!p.by_specs) continue;
    Steering s;
    CU_ASSERT(s.add(&a, p.specs).ok());
    CU_ASSERT(s.add(&b, p.buffer).ok());
    FlowSpec drops = p.buffer;
    drops.drops = true;
    EQUAL(s.add(nullptr, drops).ok(), false);
    for (const OddFrame& f : odd_frames()) {
      const std::size_t queues = s.match(f.frame).size();
      CU_ASSERT(queues == 0 || queues == 2);
    }
  }
}

// What a port remembers of a frame (flow_memo.hh) says as much as rules of that reach ask: frames
// that begin alike and are of one kind go the same way.
void frames_of_one_kind_are_alike_to_rules_that_look_so_far() {
  const std::vector<OddFrame> frames = odd_frames();
  std::size_t alike = 0;
  for (const Pair& p : kinds_of_rules()) {
    Steering s;
    CU_ASSERT(s.add(&a, p.buffer).ok());
    if (s.reach() == ethernet::Reach::all) continue;
    for (const OddFrame& f : frames)
      for (const OddFrame& g : frames) {
        const uint32_t kind = ethernet::frame_kind(f.frame);
        const bool same = std::equal(f.frame.begin(), f.frame.begin() + 14, g.frame.begin());
        if (!same || kind == 0 || kind != ethernet::frame_kind(g.frame)) continue;
        const bool first = !s.match(f.frame).empty(), second = !s.match(g.frame).empty();
        if (first != second) say(f, p, g.name.c_str());
        EQUAL(first, second);
        alike++;
      }
  }
  CU_ASSERT(alike > 10'000);
}

// As far as possible rules are of a reach that can be remembered.
void rules_look_no_further_than_their_masks() {
  const auto reach = [](const FlowSpec& rule) {
    Steering s;
    CU_ASSERT(s.add(&a, rule).ok());
    return s.reach();
  };
  for (const Pair& p : kinds_of_rules()) {
    if (p.by_specs) EQUAL(reach(p.specs), reach(p.buffer));
  }
  EQUAL(reach(Pair("", nullptr).type(0x0800).tag(1, 0xfff).buffer), ethernet::Reach::link);
  EQUAL(reach(Pair("", nullptr).ip(4).ports(17, {}, {}).buffer), ethernet::Reach::kind);
  EQUAL(reach(Pair("", nullptr).ip(4).ports(17, {}, {0, 1}).buffer), ethernet::Reach::all);
  FlowSpec counts = Pair("", nullptr).type(0x0800).buffer;
  FlowCount count;
  counts.count = &count;
  EQUAL(reach(counts), ethernet::Reach::all);
}

constexpr Case of_odd_frames[] = {
    {"rules of both kinds take the same odd frames", rules_of_both_kinds_take_the_same_odd_frames},
    {"rules of both kinds that say the same are one entry",
     rules_of_both_kinds_that_say_the_same_are_one_entry},
    {"frames of one kind are alike to rules that look so far",
     frames_of_one_kind_are_alike_to_rules_that_look_so_far},
    {"rules look no further than their masks", rules_look_no_further_than_their_masks},
};

}  // namespace
}  // namespace odd_frames_ut

std::span<const kilim::test::Case> kilim::test::odd_frame_cases() {
  return odd_frames_ut::of_odd_frames;
}
