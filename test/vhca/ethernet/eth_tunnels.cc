// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Packets in VXLAN and GRE: sums that are written and judged, segments, and
// headers whose place the WQE says. Frames are built by hand
// (tunnel_fixture.hh).
#include <algorithm>

#include "eth_fixture.hh"
#include "tunnel_fixture.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_tunnels_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number
namespace flag = prm::eth;

constexpr uint8_t send = 0x0a, tso_opcode = 0x0e;
constexpr uint8_t all_sums = flag::l3_csum | flag::l3_inner_csum | flag::l4_inner_csum;

std::vector<TunnelSpec> all_tunnels() {
  std::vector<TunnelSpec> all;
  for (Carrier c : {Carrier::vxlan, Carrier::gre, Carrier::gre_ip})
    for (bool outer6 : {false, true})
      for (bool inner6 : {false, true})
        for (bool tcp : {false, true})
          all.push_back({c, outer6, {.ipv6 = inner6, .tcp = tcp, .payload = 77}});
  return all;
}

void allow(const Rig& r, const RawQueue& q, bool tunnels, bool parser) {
  QpSpec& spec = r.hca->qps.at(q.qpn.value())->spec;
  spec.tunnels = tunnels;
  spec.software_parser = parser;
}

// Where the sums of a tunnel's frame lie, and which flag writes each.
struct Sum {
  std::size_t at;
  uint8_t flag;
};
std::vector<Sum> sums_of(const TunnelSpec& s) {
  std::vector<Sum> sums{{inner_at(s) + l4_checksum_at(s.inner), flag::l4_inner_csum}};
  if (!s.inner.ipv6) sums.push_back({inner_at(s) + l3_of(s.inner) + 10, flag::l3_inner_csum});
  if (!s.outer6) sums.push_back({outer_l3 + 10, flag::l3_csum});
  return sums;
}

// Each sum that is asked for is right, and the others are as they were.
void sums_are_written_inside_and_outside() {
  Rig r;
  RawQueue q = r.queue(0);
  for (const TunnelSpec& s : all_tunnels())
    for (unsigned asked : {0u, 0x10u, 0x20u, 0x40u, 0x30u, 0x70u}) {
      Bytes good = make_tunnel(s), given = good;
      for (const Sum& sum : sums_of(s)) {
        put16(given, sum.at, 0xdead);
        if ((asked & sum.flag) == 0) put16(good, sum.at, 0xdead);
      }
      r.send(q, r.load(0, given), given.size(), static_cast<uint8_t>(asked));
      r.ring(q);
      r.run();
      EQUAL(r.arrived(), good);
      EQUAL(opcode(Rig::poll(q)), ok_opcode);
    }
}

// The outer sum of UDP covers the inner one, so it is written behind it.
void the_outer_sum_of_udp_covers_the_inner_ones() {
  Rig r;
  RawQueue q = r.queue(0);
  for (bool six : {false, true}) {
    const TunnelSpec s{.outer6 = six, .udp_sum = true};
    Bytes given = make_tunnel(s);
    put16(given, inner_at(s) + l4_checksum_at(s.inner), 0xdead);
    put16(given, outer_udp_sum_at(s), 0xbeef);
    r.send(q, r.load(0, given), given.size(), flag::l4_csum | flag::l4_inner_csum);
    r.ring(q);
    r.run();
    EQUAL(r.arrived(), make_tunnel(s));
  }
}

prm::EthSeg places(const TunnelSpec& s, std::size_t tag, uint8_t cs_flags) {
  prm::EthSeg eth{};
  eth.cs_flags = cs_flags;
  const auto word = [tag](std::size_t at) { return static_cast<uint8_t>((at + tag) / 2); };
  eth.swp_outer_l3 = word(outer_l3);
  eth.swp_outer_l4 = word(outer_l4(s));
  eth.swp_inner_l3 = word(inner_at(s) + l3_of(s.inner));
  eth.swp_inner_l4 = word(inner_at(s) + l4_of(s.inner));
  eth.swp_flags = static_cast<uint8_t>((s.outer6 ? flag::swp_outer_ipv6 : 0) | flag::swp_outer_udp |
                                       (s.inner.ipv6 ? flag::swp_inner_ipv6 : 0) |
                                       (s.inner.tcp ? 0 : flag::swp_inner_udp));
  return eth;
}

// A tunnel that no parser knows: by the places alone, where the queue may say them.
void a_queue_may_say_where_headers_lie() {
  Rig r;
  RawQueue q = r.queue(0);
  for (bool allowed : {true, false})
    for (bool inner6 : {false, true})
      for (bool tcp : {false, true}) {
        allow(r, q, false, allowed);
        const TunnelSpec s{Carrier::other, !inner6, {.ipv6 = inner6, .tcp = tcp, .payload = 78}};
        Bytes good = make_tunnel(s), given = good;
        for (const Sum& sum : sums_of(s)) put16(given, sum.at, 0xdead);
        if (!allowed)
          for (const Sum& sum : sums_of(s))
            if (sum.flag != flag::l3_csum) put16(good, sum.at, 0xdead);
        r.put(q, send, places(s, 0, all_sums), r.pointer(r.load(0, given), given.size()));
        r.ring(q);
        r.run();
        EQUAL(r.arrived(), good);
      }
}

// Places that are no headers, and all flags: the frame leaves as it is, or nothing but it changes.
void places_that_lie_do_no_harm() {
  Rig r;
  RawQueue q = r.queue(0);
  allow(r, q, false, true);
  const TunnelSpec s{Carrier::other};
  const Bytes frame = make_tunnel(s);
  for (unsigned at = 0; at < 256; at += 3)
    for (unsigned flags = 0; flags < 64; flags += 5) {
      prm::EthSeg eth{};
      eth.cs_flags = 0xf0;
      eth.swp_inner_l3 = static_cast<uint8_t>(at);
      eth.swp_inner_l4 = static_cast<uint8_t>(at * 7);
      eth.swp_outer_l3 = static_cast<uint8_t>(at * 3);
      eth.swp_flags = static_cast<uint8_t>(flags);
      r.put(q, send, eth, r.pointer(r.load(0, frame), frame.size()));
      r.ring(q);
      r.run();
      EQUAL(r.arrived().size(), frame.size());
      EQUAL(opcode(Rig::poll(q)), ok_opcode);
    }
}

void a_tag_goes_in_with_them() {
  Rig r;
  RawQueue q = r.queue(0);
  allow(r, q, false, true);
  for (Carrier c : {Carrier::vxlan, Carrier::other}) {
    const TunnelSpec s{.carrier = c};
    Bytes good = make_tunnel(s), given = good;
    for (const Sum& sum : sums_of(s)) put16(given, sum.at, 0xdead);
    const std::byte tag[] = {std::byte{0x81}, {}, std::byte{0x20}, std::byte{0x64}};
    good.insert(good.begin() + 12, tag, tag + 4);
    // Places count from the frame as it leaves.
    prm::EthSeg eth = places(s, 4, all_sums);
    eth.inline_hdr_sz = be16{flag::insert_vlan};
    eth.inline_hdr_start[0] = 0x20;
    eth.inline_hdr_start[1] = 0x64;
    r.put(q, send, eth, r.pointer(r.load(0, given), given.size()));
    r.ring(q);
    r.run();
    EQUAL(r.arrived(), good);
  }
}

// Frame `number` of a packet whose payload is cut.
Bytes segment_of(const TunnelSpec& of, std::size_t number, std::span<const std::byte> payload,
                 std::size_t at, bool last) {
  TunnelSpec s = of;
  s.inner.payload = payload.size();
  s.inner.seq += static_cast<uint32_t>(at);
  if (!last) s.inner.tcp_flags &= 0xf6;
  Bytes b = make_frame(s.inner);
  std::copy(payload.begin(), payload.end(), b.begin() + static_cast<long>(payload_of(s.inner)));
  if (!s.inner.ipv6) {
    const std::size_t l3 = l3_of(s.inner);
    put16(b, l3 + 4, (0xfffe + number) & 0xffff);
    put16(b, l3 + 10, 0);
    put16(b, l3 + 10, ~folded(sum16(b, l3, l3 + 20)) & 0xffffu);
  }
  put16(b, l4_checksum_at(s.inner), 0);
  put16(b, l4_checksum_at(s.inner), ~l4_check(b, s.inner) & 0xffffu);
  return wrap(s, b, static_cast<uint16_t>(0x7000 + number));
}

// Headers as a client writes them: lengths and sums are nobody's.
Bytes headers_of(const TunnelSpec& s) {
  Bytes b = make_tunnel(s);
  const std::size_t in = inner_at(s);
  b.resize(in + payload_of(s.inner));
  for (const Sum& sum : sums_of(s)) put16(b, sum.at, 0xdead);
  put16(b, outer_l3 + (s.outer6 ? 4 : 2), 0xffff);
  if (has_udp(s)) put16(b, outer_l4(s) + 4, 0);
  put16(b, in + l3_of(s.inner) + (s.inner.ipv6 ? 4 : 2), 0xfff0);
  return b;
}

void put_large(const Rig& r, RawQueue& q, prm::EthSeg eth, const Bytes& headers,
               const Bytes& segments) {
  eth.mss = be16{1000};
  eth.inline_hdr_sz = be16{static_cast<uint16_t>(headers.size())};
  std::memcpy(eth.inline_hdr_start, headers.data(), 2);
  Bytes rest((headers.size() - 2 + 15) / 16 * 16);
  std::memcpy(rest.data(), headers.data() + 2, headers.size() - 2);
  rest.insert(rest.end(), segments.begin(), segments.end());
  r.put(q, tso_opcode, eth, rest);
}

void segments_have_both_headers_and_their_sums() {
  std::vector<TunnelSpec> all = all_tunnels();
  for (bool six : {false, true}) all.push_back({Carrier::other, !six, {.ipv6 = six}});
  for (TunnelSpec s : all) {
    if (!s.inner.tcp) continue;
    Rig r;
    RawQueue q = r.queue(0);
    allow(r, q, false, true);
    s.inner.payload = 0;
    for (std::size_t i = 0; i < 2500; i++) r.room(0)[i] = static_cast<std::byte>(i * 7 + 3);
    prm::EthSeg eth{};
    if (s.carrier == Carrier::other) eth = places(s, 0, 0);
    eth.cs_flags = all_sums;
    put_large(r, q, eth, headers_of(s), r.pointer(r.room(0), 2500));
    r.ring(q);
    r.run();
    for (std::size_t at = 0; at < 2500; at += 1000) {
      const std::size_t n = std::min<std::size_t>(1000, 2500 - at);
      EQUAL(r.arrived(), segment_of(s, at / 1000, {r.room(0) + at, n}, at, at + n == 2500));
    }
    CU_ASSERT(r.far->peek().empty());
    EQUAL(opcode(Rig::poll(q)), ok_opcode);
  }
}

void without_tunnels_they_are_refused() {
  Rig r(false, "", "no-tunnels");
  const TunnelSpec s{};
  const Bytes frame = make_tunnel(s);
  for (uint8_t asked : {flag::l3_inner_csum, flag::l4_inner_csum}) {
    RawQueue q = r.queue(asked == flag::l3_inner_csum ? 0 : 1);
    r.send(q, r.load(0, frame), frame.size(), asked);
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), static_cast<uint8_t>(prm::Syndrome::local_qp_op));
  }
  RawQueue q = r.queue(2);
  put_large(r, q, {}, headers_of(s), r.pointer(r.room(0), 2500));
  r.ring(q);
  r.run();
  EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::req_err);
  CU_ASSERT(r.far->peek().empty());
}

struct SeenEntry {
  uint8_t tunnel = 0, checks = 0, types = 0;
  bool operator==(const SeenEntry&) const = default;
};
SeenEntry deliver_entry(const Rig& r, RawQueue& q, const Bytes& frame) {
  r.receive(q, r.room(1), 2048);
  r.far->send(frame);
  r.run();
  const prm::Cqe c = Rig::poll(q);
  if (opcode(c) != recv_opcode) return {0xff};
  EQUAL(Bytes(r.room(1), r.room(1) + c.byte_cnt.host()), frame);
  return {c.outer_l3_tunneled, c.hds_ip_ext, c.l4_hdr_type_etc};
}

// The types of the inner headers and both headers' sums; for other queues the outer ones'.
void completions_tell_of_the_inner_headers() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  for (const TunnelSpec& s : all_tunnels()) {
    const auto l3 = static_cast<uint8_t>(s.inner.ipv6 ? 0x04 : 0x08),
               l4 = static_cast<uint8_t>(s.inner.tcp ? 0x40 : 0x20);
    const auto tunnel = static_cast<uint8_t>(s.outer6 ? 3 : 1);
    const Bytes good = make_tunnel(s);
    allow(r, q, true, false);
    EQUAL(deliver_entry(r, q, good), (SeenEntry{tunnel, 7, static_cast<uint8_t>(l3 | l4)}));
    for (const Sum& sum : sums_of(s)) {
      Bytes bad = good;
      bad[sum.at] ^= std::byte{1};
      const auto checks = static_cast<uint8_t>(sum.flag == flag::l4_inner_csum ? 3 : 5);
      // A wrong address in IP is one in the sum of TCP too, but not its own sum.
      EQUAL(deliver_entry(r, q, bad), (SeenEntry{tunnel, checks, static_cast<uint8_t>(l3 | l4)}));
    }
    allow(r, q, false, false);
    const auto outer = static_cast<uint8_t>((s.outer6 ? 0x04 : 0x08) | (has_udp(s) ? 0x20 : 0));
    const bool sum = has_udp(s) && !s.outer6;  // 0 is none for IPv4
    EQUAL(deliver_entry(r, q, good), (SeenEntry{0, static_cast<uint8_t>(sum ? 7 : 3), outer}));
  }
}

void an_outer_sum_that_is_there_counts_too() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  allow(r, q, true, false);
  Bytes frame = make_tunnel({.udp_sum = true});
  EQUAL(deliver_entry(r, q, frame), (SeenEntry{1, 7, 0x48}));
  frame[outer_udp_sum_at({})] ^= std::byte{1};
  EQUAL(deliver_entry(r, q, frame), (SeenEntry{1, 3, 0x48}));
  // What is no tunnel: a frame by itself, one whose VXLAN header is cut off, a fragment.
  EQUAL(deliver_entry(r, q, make_frame({})), (SeenEntry{0, 7, 0x48}));
  Bytes odd = make_tunnel({.carrier = Carrier::gre});
  odd[outer_l4({})] |= std::byte{0x40};  // routing
  EQUAL(deliver_entry(r, q, odd), (SeenEntry{0, 3, 0x08}));
}

constexpr Case of_tunnels[] = {
    {"sums are written inside and outside", sums_are_written_inside_and_outside},
    {"the outer sum of udp covers the inner ones", the_outer_sum_of_udp_covers_the_inner_ones},
    {"a queue may say where headers lie", a_queue_may_say_where_headers_lie},
    {"places that lie do no harm", places_that_lie_do_no_harm},
    {"a tag goes in with them", a_tag_goes_in_with_them},
    {"segments have both headers and their sums", segments_have_both_headers_and_their_sums},
    {"without tunnels they are refused", without_tunnels_they_are_refused},
    {"completions tell of the inner headers", completions_tell_of_the_inner_headers},
    {"an outer sum that is there counts too", an_outer_sum_that_is_there_counts_too},
};

}  // namespace
}  // namespace eth_tunnels_ut

std::span<const Case> kilim::test::eth_tunnel_cases() {
  return eth_tunnels_ut::of_tunnels;
}
