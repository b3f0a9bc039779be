// SPDX-License-Identifier: BSD-3-Clause
// The corpus of odd frames, a kind a function.
#include "odd_frames_fixture.hh"

namespace kilim::test {
namespace {

constexpr FrameSpec udp4{.tcp = false}, tcp4{}, udp6{.ipv6 = true, .tcp = false},
    tcp6{.ipv6 = true};
constexpr Shown no_ip{}, shows_udp4{4, 17, true}, shows_tcp4{4, 6, true},
    shows_udp6{6, 17, true, false, 0x86dd}, shows_tcp6{6, 6, true, false, 0x86dd};

Shown tagged(Shown s, char tag) {
  s.tag = tag;
  return s;
}
// Ports are not there.
Shown without_ports(Shown s) {
  s.ports = false;
  return s;
}
Shown as_fragment(Shown s) {
  s.ports = false;
  s.fragment = true;
  return s;
}
Shown with_protocol(Shown s, uint8_t protocol) {
  s.ports = false;
  s.protocol = protocol;
  return s;
}
Shown of_type(uint16_t type, char tag = 0) {
  return {.type = type, .tag = tag};
}

void add_plain(std::vector<OddFrame>& all) {
  all.push_back({"UDP on IPv4", make_frame(udp4), shows_udp4});
  all.push_back({"TCP on IPv4", make_frame(tcp4), shows_tcp4});
  all.push_back({"UDP on IPv6", make_frame(udp6), shows_udp6});
  all.push_back({"TCP on IPv6", make_frame(tcp6), shows_tcp6});
}

void add_tags(std::vector<OddFrame>& all) {
  constexpr uint16_t c = 0x8100, s = 0x88a8;
  for (const auto& [spec, shows] :
       {std::pair{udp4, shows_udp4}, {tcp4, shows_tcp4}, {udp6, shows_udp6}, {tcp6, shows_tcp6}}) {
    const Bytes f = make_frame(spec);
    all.push_back({"8100", with_tags(f, {c}), tagged(shows, 'c')});
    all.push_back({"88a8", with_tags(f, {s}), tagged(shows, 's')});
    all.push_back({"88a8 8100", with_tags(f, {s, c}), tagged(shows, 's')});
    all.push_back({"8100 8100", with_tags(f, {c, c}), tagged(shows, 'c')});
    all.push_back({"88a8 88a8", with_tags(f, {s, s}), tagged(shows, 's')});
    all.push_back({"8100 88a8", with_tags(f, {c, s}), tagged(shows, 'c')});
    all.push_back({"three tags", with_tags(f, {s, c, c}), of_type(c, 's')});
    all.push_back({"9100", with_tags(f, {0x9100}), of_type(0x9100)});
  }
  all.push_back({"half a tag", cut_to(with_tags(make_frame(udp4), {c}), 17), of_type(c)});
  all.push_back({"a tag and half of another", cut_to(with_tags(make_frame(udp4), {s, c}), 21),
                 of_type(c, 's')});
}

void add_fragments(std::vector<OddFrame>& all) {
  for (const auto& [spec, shows] : {std::pair{udp4, shows_udp4}, {tcp4, shows_tcp4}}) {
    FrameSpec f = spec;
    for (const auto& [name, bits] : {std::pair{"first of IPv4", uint16_t{0x2000}},
                                     {"one of IPv4", uint16_t{0x2010}},
                                     {"last of IPv4", uint16_t{0x0010}}}) {
      f.fragment = bits;
      all.push_back({name, make_frame(f), as_fragment(shows)});
      all.push_back(
          {name, with_tags(make_frame(f), {0x88a8, 0x8100}), tagged(as_fragment(shows), 's')});
    }
    f.fragment = 0x4000;
    all.push_back({"not to be cut", make_frame(f), shows});
    f.fragment = 0x8000;
    all.push_back({"the reserved bit", make_frame(f), shows});
  }
  for (const auto& [spec, shows] : {std::pair{udp6, shows_udp6}, {tcp6, shows_tcp6}}) {
    for (const std::size_t bits : {0u, 1u, 0x81u, 0x80u})
      all.push_back(
          {"of IPv6", with16(with_extensions(spec, {{44, 8}}), 56, bits), as_fragment(shows)});
    all.push_back({"of IPv6, behind options",
                   with16(with_extensions(spec, {{0, 8}, {44, 8}}), 64, 1), as_fragment(shows)});
  }
}

void add_ip_headers(std::vector<OddFrame>& all) {
  for (const auto& [spec, shows] : {std::pair{udp6, shows_udp6}, {tcp6, shows_tcp6}}) {
    all.push_back({"hop by hop", with_extensions(spec, {{0, 8}}), shows});
    all.push_back({"to the destination", with_extensions(spec, {{60, 24}}), shows});
    all.push_back({"routing", with_extensions(spec, {{43, 40}}), shows});
    all.push_back({"three of them", with_extensions(spec, {{0, 8}, {43, 8}, {60, 16}}), shows});
    all.push_back({"authentication", with_extensions(spec, {{51, 24}}), with_protocol(shows, 51)});
    const Bytes longer = with_extensions(spec, {{0, 8}});
    all.push_back(
        {"an extension that is cut off", cut_to(longer, 54 + 7), with_protocol(shows, 0)});
    all.push_back({"an extension longer than the frame",
                   with16(longer, 54, longer[54] == std::byte{6} ? 0x06ff : 0x11ff),
                   with_protocol(shows, 0)});
  }
  for (const bool tcp : {false, true}) {
    const Shown shows = tcp ? shows_tcp4 : shows_udp4;
    all.push_back({"options", with_options(tcp, 6, 4), shows});
    all.push_back({"forty bytes of options", with_options(tcp, 15, 40), shows});
    all.push_back(
        {"options that are cut off", cut_to(with_options(tcp, 15, 40), 60), without_ports(shows)});
    all.push_back({"a header too short", with_options(tcp, 4, 0), no_ip});
    all.push_back(
        {"version 6 in a frame of IPv4", with16(make_frame({.tcp = tcp}), 14, 0x6500), no_ip});
    all.push_back({"version 4 in a frame of IPv6",
                   with16(make_frame({.ipv6 = true, .tcp = tcp}), 14, 0x4500), of_type(0x86dd)});
  }
}

void add_runts(std::vector<OddFrame>& all) {
  all.push_back({"an Ethernet header", cut_to(make_frame(udp4), 14), no_ip});
  for (const auto& [spec, shows] :
       {std::pair{udp4, shows_udp4}, {tcp4, shows_tcp4}, {udp6, shows_udp6}, {tcp6, shows_tcp6}}) {
    const Bytes f = make_frame(spec);
    const std::size_t l4 = l4_of(spec);
    all.push_back({"a byte less than IP's header", cut_to(f, l4 - 1), of_type(shows.type)});
    all.push_back({"IP's header", cut_to(f, l4), without_ports(shows)});
    all.push_back({"a byte less than ports", cut_to(f, l4 + 3), without_ports(shows)});
    all.push_back({"ports", cut_to(f, l4 + 4), shows});
    all.push_back({"a byte less than layer 4's header", cut_to(f, payload_of(spec) - 1), shows});
    all.push_back({"no payload", cut_to(f, payload_of(spec)), shows});
  }
}

void add_lies(std::vector<OddFrame>& all) {
  for (const auto& [spec, shows] : {std::pair{udp4, shows_udp4}, {tcp4, shows_tcp4}})
    for (const std::size_t length : {0u, 19u, 20u, 23u, 0xffffu})
      all.push_back({"length of IPv4", with16(make_frame(spec), 16, length), shows});
  for (const auto& [spec, shows] : {std::pair{udp6, shows_udp6}, {tcp6, shows_tcp6}})
    for (const std::size_t length : {0u, 3u, 0xffffu})
      all.push_back({"length of IPv6", with16(make_frame(spec), 18, length), shows});
  for (const std::size_t length : {0u, 7u, 0xffffu})
    all.push_back({"length of UDP", with16(make_frame(udp4), 38, length), shows_udp4});
  for (const std::size_t offset : {0x0010u, 0x4010u, 0xf010u})
    all.push_back(
        {"data offset of TCP", with16(cut_to(make_frame(tcp4), 60), 46, offset), shows_tcp4});
}

void add_others(std::vector<OddFrame>& all) {
  for (const int type : {0x0806, 0x88cc, 0x8847, 0x8864, 0x05dc, 0x0000, 0xffff})
    all.push_back({"another type", with16(make_frame(udp4), 12, static_cast<uint16_t>(type)),
                   of_type(static_cast<uint16_t>(type))});
  for (const int protocol : {1, 2, 4, 41, 50, 58, 132, 0, 43, 44, 60, 255}) {
    Bytes f = make_frame(udp4);
    f[23] = static_cast<std::byte>(protocol);
    all.push_back(
        {"another protocol", f, with_protocol(shows_udp4, static_cast<uint8_t>(protocol))});
  }
}

// Outside ports are 0xc001 and the tunnel's, so they are not those of the corpus.
void add_tunnels(std::vector<OddFrame>& all) {
  for (const bool six : {false, true}) {
    const Shown udp = without_ports(six ? shows_udp6 : shows_udp4), gre = with_protocol(udp, 47);
    for (const FrameSpec& inner : {udp4, tcp4, udp6, tcp6}) {
      const TunnelSpec vxlan{.outer6 = six, .inner = inner};
      const TunnelSpec keyed{.carrier = Carrier::gre, .outer6 = six, .inner = inner};
      const TunnelSpec bare{.carrier = Carrier::gre, .outer6 = six, .inner = inner, .key = false};
      const TunnelSpec ip{.carrier = Carrier::gre_ip, .outer6 = six, .inner = inner};
      const std::size_t at = outer_l4(keyed);
      all.push_back({"VXLAN", make_tunnel(vxlan), udp});
      all.push_back({"VXLAN that is cut off", cut_to(make_tunnel(vxlan), at + 40), udp});
      all.push_back(
          {"VXLAN, tagged", with_tags(make_tunnel(vxlan), {0x88a8, 0x8100}), tagged(udp, 's')});
      all.push_back({"GRE with a key", make_tunnel(keyed), gre});
      all.push_back({"GRE without a key", make_tunnel(bare), gre});
      all.push_back({"GRE around IP", make_tunnel(ip), gre});
      all.push_back({"GRE of version 1", with16(make_tunnel(keyed), at, 0x2001), gre});
      all.push_back({"GRE of version 2", with16(make_tunnel(keyed), at, 0x2002), gre});
      all.push_back({"GRE with routing", with16(make_tunnel(keyed), at, 0x6000), gre});
      all.push_back({"GRE with all words", with16(make_tunnel(keyed), at, 0xb001), gre});
      all.push_back({"GRE that is cut off", cut_to(make_tunnel(keyed), at + 5), gre});
    }
  }
}

}  // namespace

std::vector<OddFrame> odd_frames() {
  std::vector<OddFrame> all;
  add_plain(all);
  add_tags(all);
  add_fragments(all);
  add_ip_headers(all);
  add_runts(all);
  add_lies(all);
  add_others(all);
  add_tunnels(all);
  return all;
}

}  // namespace kilim::test
