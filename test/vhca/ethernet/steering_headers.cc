// SPDX-License-Identifier: BSD-3-Clause
// Part of steering_ut. Rules that look into IP and its ports: masks, flow labels, extension
// headers.
#include "steering_fixture.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace steering_headers_ut {
namespace {

using test::Bytes;

FlowSpec of_ports(uint8_t protocol, uint16_t src, uint16_t dst) {
  FlowSpec f;
  f.l4_protocol = protocol;
  f.ports = {src, dst};
  f.ports_mask = {0xffff, 0xffff};
  return f;
}

// Its addresses but for the last byte, its protocol and its traffic class.
FlowSpec rule_for(const Bytes& f, std::size_t src, std::size_t bytes, bool six) {
  FlowSpec r;
  r.ip_version = six ? 6 : 4;
  std::memcpy(r.ip.src.data(), f.data() + src, bytes);
  std::memcpy(r.ip.dst.data(), f.data() + src + bytes, bytes);
  std::fill_n(r.ip_mask.src.begin(), bytes, uint8_t{0xff});
  std::fill_n(r.ip_mask.dst.begin(), bytes - 1, uint8_t{0xff});
  r.ip.protocol = 6;
  r.ip_mask.protocol = 0xff;
  r.ip_mask.traffic = 0xff;
  return r;
}

void ip_headers_are_compared_under_their_masks() {
  for (bool six : {false, true}) {
    for (int tags : {0, 1}) {
      FrameSpec spec{.ipv6 = six, .tags = tags};
      Bytes f = make_frame(spec);
      std::size_t src = l3_of(spec) + (six ? 8u : 12u), bytes = six ? 16 : 4;
      const FlowSpec r = rule_for(f, src, bytes, six);
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
  CU_ASSERT(by_ip.add(&a, ip).ok());
  CU_ASSERT(by_ip.add(&b, masked).ok());
  CU_ASSERT(by_ip.add(&c, ip).ok());
  CU_ASSERT(goes_to(by_ip, f, {&a, &c}));
  FlowSpec ports = of_ports(6, 5001, 80), half = ports;
  half.ports_mask.src = 0;
  Steering by_ports;
  CU_ASSERT(by_ports.add(&a, ports).ok());
  CU_ASSERT(by_ports.add(&b, half).ok());
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
  CU_ASSERT(s.add(&a, of_ports(6, 5001, 80)).ok());
  CU_ASSERT(s.add(&b, half).ok());
  for (bool six : {false, true}) {
    FrameSpec tcp{.ipv6 = six}, udp{.ipv6 = six, .tcp = false};
    CU_ASSERT(goes_to(s, make_frame(tcp), {&a}));
    CU_ASSERT(goes_to(s, make_frame(udp), {&b}));
    Bytes f = make_frame(tcp), g = make_frame(udp);
    put16(f, l4_of(tcp), 5002);
    put16(g, l4_of(udp), 5002);
    CU_ASSERT(goes_to(s, f, {}));
    CU_ASSERT(goes_to(s, g, {&b}));
    put16(g, l4_of(udp) + 2, 81);
    CU_ASSERT(goes_to(s, g, {}));
  }
  // Lengths of headers are not looked at, headers are.
  Bytes odd = make_frame({.ipv6 = true});
  put16(odd, l3_of({}) + 4, 0xffff);
  CU_ASSERT(goes_to(s, odd, {&a}));
  // A fragment has no ports, and neither has a frame that ends before them: rules that ask for some
  // do not take it, as a card compares with zeros.
  CU_ASSERT(goes_to(s, make_frame({.fragment = 0x2000}), {}));
  Bytes cut = make_frame({});
  cut.resize(l4_of({}) + 3);
  CU_ASSERT(goes_to(s, cut, {}));
}

constexpr Case of_headers[] = {
    {"IP headers are compared under their masks", ip_headers_are_compared_under_their_masks},
    {"rules with other masks are others", rules_with_other_masks_are_others},
    {"a flow label is compared under its mask", a_flow_label_is_compared_under_its_mask},
    {"ports are found behind extension headers", ports_are_found_behind_extension_headers},
    {"ports are compared under their masks", ports_are_compared_under_their_masks},
};

}  // namespace
}  // namespace steering_headers_ut

std::span<const kilim::test::Case> kilim::test::steering_header_cases() {
  return steering_headers_ut::of_headers;
}
