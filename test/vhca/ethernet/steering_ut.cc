// SPDX-License-Identifier: BSD-3-Clause
// Steering rules: which queues get which frame.
#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "../wire/frames_fixture.hh"
#include "ut.hh"
#include "vhca/ethernet/steering.hh"
#include "vhca/wq/qp.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace {

Qp a, b, c;
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

// Whether exactly these queues get the frame.
bool goes_to(Steering& s, const Bytes& f, std::initializer_list<Qp*> want) {
  std::span<Qp* const> got = s.match(f);
  return got.size() == want.size() && std::is_permutation(got.begin(), got.end(), want.begin());
}

void without_a_rule_nothing_is_wanted() {
  Steering s;
  CU_ASSERT(goes_to(s, frame(mine), {}));
  CU_ASSERT(s.add(&a, to(mine)).ok());
  CU_ASSERT(goes_to(s, frame(other), {}));
  CU_ASSERT(goes_to(s, Bytes(13), {}) && goes_to(s, {}, {}));
}

void a_station_address_is_compared_under_its_mask() {
  Steering s;
  FlowSpec low = to(mine);
  low.dst_mask = {255, 255, 255, 255, 255, 0};
  CU_ASSERT(s.add(&a, to(mine)).ok() && s.add(&b, to(other)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&a}) && goes_to(s, frame(other), {&b}));
  Steering masked;
  CU_ASSERT(masked.add(&c, low).ok());
  CU_ASSERT(goes_to(masked, frame(other), {&c}) && goes_to(masked, frame(group), {}));
  // Of a byte too, some bits may count.
  Steering bits;
  FlowSpec odd = to(mine);
  odd.dst_mask = {1, 0, 0, 0, 0, 1};
  CU_ASSERT(bits.add(&c, odd).ok());
  CU_ASSERT(goes_to(bits, frame({4, 0, 0, 0, 0, 7}), {&c}) && goes_to(bits, frame(other), {}));
}

void the_first_priority_wins_then_age() {
  Steering s;
  CU_ASSERT(s.add(&a, any(2)).ok() && s.add(&b, to(mine, 1)).ok() && s.add(&c, any(1)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&b}));
  CU_ASSERT(goes_to(s, frame(other), {&c}));
}

void two_queues_with_the_same_rule_get_a_copy_each() {
  Steering s;
  CU_ASSERT(s.add(&a, to(mine)).ok() && s.add(&b, to(mine)).ok() && s.add(&a, to(mine)).ok());
  CU_ASSERT(goes_to(s, frame(mine), {&a, &b}));
}

void multicast_goes_to_all_that_match() {
  Steering s;
  CU_ASSERT(s.add(&a, to(group)).ok() && s.add(&b, any(3)).ok() && s.add(&c, to(broadcast)).ok());
  CU_ASSERT(goes_to(s, frame(group), {&a, &b}));
  CU_ASSERT(goes_to(s, frame(broadcast), {&b, &c}));
  CU_ASSERT(goes_to(s, frame(mine), {&b}));
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
  CU_ASSERT(s.add(&a, of_type(Type::sniffer)).ok() && s.add(&b, to(mine)).ok());
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
  CU_ASSERT(s.add(&a, ip).ok() && s.add(&b, tagged).ok() && s.add(&c, source).ok());
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
  CU_ASSERT(goes_to(s, frame(mine, 0x0800, 0x2000), {&a}) && goes_to(s, frame(mine), {}));
}

FlowSpec of_ports(uint8_t protocol, uint16_t src, uint16_t dst) {
  FlowSpec f;
  f.l4_protocol = protocol;
  f.ports = {src, dst};
  f.ports_mask = {0xffff, 0xffff};
  return f;
}

void ip_headers_are_compared_under_their_masks() {
  for (bool six : {false, true}) {
    for (int tags : {0, 1}) {
      FrameSpec spec{.ipv6 = six, .tags = tags};
      Bytes f = make_frame(spec);
      std::size_t src = l3_of(spec) + (six ? 8u : 12u), bytes = six ? 16 : 4;
      FlowSpec r;
      r.ip_version = six ? 6 : 4;
      std::memcpy(r.ip.src.data(), f.data() + src, bytes);
      std::memcpy(r.ip.dst.data(), f.data() + src + bytes, bytes);
      std::fill_n(r.ip_mask.src.begin(), bytes, uint8_t{0xff});
      std::fill_n(r.ip_mask.dst.begin(), bytes - 1, uint8_t{0xff});
      r.ip.protocol = 6;
      r.ip_mask.protocol = 0xff;
      r.ip_mask.traffic = 0xff;
      Steering s;
      CU_ASSERT(s.add(&a, r).ok());
      CU_ASSERT(goes_to(s, f, {&a}));
      f[src + 2 * bytes - 1] ^= std::byte{1};  // where the mask has no ones
      CU_ASSERT(goes_to(s, f, {&a}));
      for (std::size_t at : {src, src + bytes - 1, src + bytes}) {
        f[at] ^= std::byte{1};
        CU_ASSERT(goes_to(s, f, {}));
        f[at] ^= std::byte{1};
      }
      f[l3_of(spec) + 1] ^= std::byte{0x10};  // type of service, traffic class
      CU_ASSERT(goes_to(s, f, {}));
      CU_ASSERT(goes_to(s, make_frame({.ipv6 = six, .tcp = false, .tags = tags}), {}));
      CU_ASSERT(goes_to(s, make_frame({.ipv6 = !six, .tags = tags}), {}));
    }
  }
}

// Of rules that both match a frame, but are not the same, the first one gets it.
void rules_with_other_masks_are_others() {
  Bytes f = make_frame({});
  FlowSpec ip;
  ip.ip_version = 4;
  FlowSpec masked = ip;
  masked.ip.protocol = 6;
  masked.ip_mask.protocol = 0xff;
  Steering by_ip;
  CU_ASSERT(by_ip.add(&a, ip).ok() && by_ip.add(&b, masked).ok() && by_ip.add(&c, ip).ok());
  CU_ASSERT(goes_to(by_ip, f, {&a, &c}));
  FlowSpec ports = of_ports(6, 5001, 80), half = ports;
  half.ports_mask.src = 0;
  Steering by_ports;
  CU_ASSERT(by_ports.add(&a, ports).ok() && by_ports.add(&b, half).ok());
  CU_ASSERT(by_ports.add(&c, ports).ok() && goes_to(by_ports, f, {&a, &c}));
}

void a_flow_label_is_compared_under_its_mask() {
  Steering s;
  FlowSpec r;
  r.ip_version = 6;
  r.ip.label = 0x12345;
  r.ip_mask.label = 0xfff0f;
  CU_ASSERT(s.add(&a, r).ok());
  FrameSpec spec{.ipv6 = true};
  Bytes f = make_frame(spec);
  put16(f, l3_of(spec), 0x6001);
  put16(f, l3_of(spec) + 2, 0x2375);
  CU_ASSERT(goes_to(s, f, {&a}));
  put16(f, l3_of(spec) + 2, 0x2346);
  CU_ASSERT(goes_to(s, f, {}));
}

void ports_are_found_behind_extension_headers() {
  Steering s;
  CU_ASSERT(s.add(&a, of_ports(6, 5001, 80)).ok());
  FrameSpec spec{.ipv6 = true};
  for (std::size_t header : {8u, 24u}) {
    // Options for hops, then for the destination.
    Bytes f = make_frame(spec), more(8 + header, std::byte{0});
    more[0] = std::byte{60};
    more[8] = f[l3_of(spec) + 6];
    more[9] = static_cast<std::byte>(header / 8 - 1);
    f[l3_of(spec) + 6] = std::byte{0};
    f.insert(f.begin() + static_cast<long>(l4_of(spec)), more.begin(), more.end());
    CU_ASSERT(goes_to(s, f, {&a}));
    put16(f, l4_of(spec) + more.size() + 2, 81);
    CU_ASSERT(goes_to(s, f, {}));
  }
}

void ports_are_compared_under_their_masks() {
  Steering s;
  FlowSpec half = of_ports(17, 0, 80);
  half.ports_mask.src = 0;
  CU_ASSERT(s.add(&a, of_ports(6, 5001, 80)).ok() && s.add(&b, half).ok());
  for (bool six : {false, true}) {
    FrameSpec tcp{.ipv6 = six}, udp{.ipv6 = six, .tcp = false};
    CU_ASSERT(goes_to(s, make_frame(tcp), {&a}) && goes_to(s, make_frame(udp), {&b}));
    Bytes f = make_frame(tcp), g = make_frame(udp);
    put16(f, l4_of(tcp), 5002);
    put16(g, l4_of(udp), 5002);
    CU_ASSERT(goes_to(s, f, {}) && goes_to(s, g, {&b}));
    put16(g, l4_of(udp) + 2, 81);
    CU_ASSERT(goes_to(s, g, {}));
  }
  // Lengths of headers are not looked at, headers are.
  Bytes odd = make_frame({.ipv6 = true});
  put16(odd, l3_of({}) + 4, 0xffff);
  CU_ASSERT(goes_to(s, odd, {&a}));
  // A fragment has no ports, and neither has a frame that ends before them.
  CU_ASSERT(goes_to(s, make_frame({.fragment = 0x2000}), {}));
  Bytes cut = make_frame({});
  cut.resize(l4_of({}) + 3);
  CU_ASSERT(goes_to(s, cut, {}));
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
  CU_ASSERT(first != second && s.uses(&a) && s.uses(&b) && !s.uses(&c));
  EQUAL(s.remove(first), 0);
  CU_ASSERT(!s.uses(&a) && goes_to(s, frame(mine), {&b}));
  EQUAL(s.remove(first), -ENOENT);
}

constexpr Case cases[] = {
    {"without a rule nothing is wanted", without_a_rule_nothing_is_wanted},
    {"a station address is compared under its mask", a_station_address_is_compared_under_its_mask},
    {"the first priority wins, then age", the_first_priority_wins_then_age},
    {"two queues with the same rule get a copy each",
     two_queues_with_the_same_rule_get_a_copy_each},
    {"multicast goes to all that match", multicast_goes_to_all_that_match},
    {"default rules see what no other took", default_rules_see_what_no_other_took},
    {"a sniffer sees everything and takes nothing away",
     a_sniffer_sees_everything_and_takes_nothing_away},
    {"types, tags and sources are compared", types_tags_and_sources_are_compared},
    {"IP headers are compared under their masks", ip_headers_are_compared_under_their_masks},
    {"a tag of zero is a tag", a_tag_of_zero_is_a_tag},
    {"rules with other masks are others", rules_with_other_masks_are_others},
    {"a flow label is compared under its mask", a_flow_label_is_compared_under_its_mask},
    {"ports are found behind extension headers", ports_are_found_behind_extension_headers},
    {"ports are compared under their masks", ports_are_compared_under_their_masks},
    {"rules that the kernel refuses are refused", rules_that_the_kernel_refuses_are_refused},
    {"a removed rule is gone", a_removed_rule_is_gone},
};

}  // namespace

KILIM_UT_MAIN("vhca/flow steering", cases)
