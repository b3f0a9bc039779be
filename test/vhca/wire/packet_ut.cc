// SPDX-License-Identifier: BSD-3-Clause
// Headers, checksums and segmentation against frames and sums made in another way.
#include <algorithm>
#include <random>

#include "../ethernet/tunnel_fixture.hh"
#include "case_tables.hh"
#include "frames_fixture.hh"
#include "resolution_cases.hh"
#include "ut.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/segment.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace packet_ut {
namespace {

template <typename F>
void on_each_kind(F check) {
  for (bool v6 : {false, true}) {
    for (bool tcp : {false, true}) {
      for (int tags : {0, 1, 2}) {
        for (std::size_t payload : {std::size_t{0}, std::size_t{1}, std::size_t{999}}) {
          check(FrameSpec{.ipv6 = v6, .tcp = tcp, .tags = tags, .payload = payload});
        }
      }
    }
  }
}

void headers_are_found_behind_tags() {
  on_each_kind([](const FrameSpec& s) {
    Bytes f = make_frame(s);
    wire::PacketView v = wire::parse_packet(f);
    EQUAL(v.l3, (s.ipv6 ? wire::L3::ipv6 : wire::L3::ipv4));
    EQUAL(v.l4, (s.tcp ? wire::L4::tcp : wire::L4::udp));
    EQUAL(v.tags, s.tags);
    EQUAL(v.l3_at, l3_of(s));
    EQUAL(v.l4_at, l4_of(s));
    EQUAL(v.l3_end, f.size());
    EQUAL(v.l4_at + v.l4_header, payload_of(s));
    CU_ASSERT(!v.fragment);
    CU_ASSERT(!v.ip_options);
  });
}

void right_checksums_are_good_and_any_changed_byte_is_not() {
  on_each_kind([](const FrameSpec& s) {
    Bytes f = make_frame(s);
    wire::PacketView v = wire::parse_packet(f);
    CU_ASSERT(wire::l3_checksum_good(f, v));
    CU_ASSERT(wire::l4_checksum_good(f, v));
    for (std::size_t i = l4_of(s); i < f.size(); i += 13) {
      if (!s.tcp && i >= l4_of(s) + 4 && i < l4_of(s) + 6)
        continue;  // the length decides what is summed
      f[i] ^= std::byte{0x20};
      CU_ASSERT(!wire::l4_checksum_good(f, v));
      f[i] ^= std::byte{0x20};
    }
  });
}

void written_checksums_are_those_of_the_other_way() {
  on_each_kind([](const FrameSpec& s) {
    Bytes good = make_frame(s), f = good;
    put16(f, l4_checksum_at(s), 0xabcd);
    if (!s.ipv6) put16(f, l3_of(s) + 10, 0xabcd);
    wire::PacketView v = wire::parse_packet(f);
    wire::write_l3_checksum(f, v);
    wire::write_l4_checksum(f, v);
    EQUAL(f, good);
  });
}

void padding_behind_the_packet_is_not_summed() {
  on_each_kind([](const FrameSpec& s) {
    Bytes f = make_frame(s);
    f.resize(f.size() + 7, std::byte{0xff});
    wire::PacketView v = wire::parse_packet(f);
    CU_ASSERT(v.l3_end + 7 == f.size() && wire::l4_checksum_good(f, v));
  });
}

void udp_without_a_checksum_is_good_on_ipv4_only() {
  for (bool v6 : {false, true}) {
    FrameSpec s{.ipv6 = v6, .tcp = false};
    Bytes f = make_frame(s);
    put16(f, l4_checksum_at(s), 0);
    EQUAL(wire::l4_checksum_good(f, wire::parse_packet(f)), !v6);
  }
}

void extension_headers_are_passed_and_fragments_told() {
  FrameSpec s{.ipv6 = true, .tcp = false};
  Bytes f = make_frame(s);
  Bytes options(8, std::byte{0});
  options[0] = f[l3_of(s) + 6];
  f[l3_of(s) + 6] = std::byte{60};
  f.insert(f.begin() + static_cast<long>(l4_of(s)), options.begin(), options.end());
  put16(f, l3_of(s) + 4, f.size() - l4_of(s));
  wire::PacketView v = wire::parse_packet(f);
  CU_ASSERT(v.ip_options);
  EQUAL(v.l4, wire::L4::udp);
  EQUAL(v.l4_at, l4_of(s) + 8);
  CU_ASSERT(wire::l4_checksum_good(f, v));
  f[l3_of(s) + 6] = std::byte{44};
  v = wire::parse_packet(f);
  CU_ASSERT(v.fragment);
  EQUAL(v.l4, wire::L4::none);
  EQUAL(v.l3, wire::L3::ipv6);
}

// Any bytes, any length: offsets stay inside (a sanitizer sees reads that do not).
void damaged_frames_never_lead_outside() {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    FrameSpec s{.ipv6 = random() % 2 == 0,
                .tcp = random() % 2 == 0,
                .tags = static_cast<int>(random() % 3),
                .payload = random() % 64};
    Bytes f = make_frame(s);
    for (unsigned n = random() % 4; n > 0; --n)
      f[random() % f.size()] = static_cast<std::byte>(random());
    f.resize(random() % (f.size() + 1));
    f.shrink_to_fit();
    wire::PacketView v = wire::parse_packet(f);
    bool inside = v.l3 == wire::L3::none ||
                  (v.l3_at <= v.l4_at && v.l4_at <= v.l3_end && v.l3_end <= f.size());
    inside = inside && (v.l4 == wire::L4::none || v.l4_at + v.l4_header <= v.l3_end);
    // What rules look at lies in the frame whatever lengths say.
    inside = inside && (v.ip_version == 0 || v.l3_at + (v.ip_version == 4 ? 20u : 40u) <= f.size());
    inside = inside && v.ports_at + (v.ports_at != 0 ? 4u : 0u) <= f.size();
    inside = inside && (v.ports_at == 0 || v.ip_version != 0) &&
             (v.l3 == wire::L3::none || v.ip_version != 0);
    if (!inside) CU_FAIL("an offset lies outside");
    (void)(wire::l3_checksum_good(f, v) && wire::l4_checksum_good(f, v));
    wire::write_l3_checksum(f, v);
    wire::write_l4_checksum(f, v);
    wire::Segmenter seg;
    std::byte out[256];
    if (seg.open(f, {.payload_bytes = static_cast<uint32_t>(1 + random() % 20)})) {
      for (int k = 0; k < 100 && seg.next(out) > 0; ++k) continue;
    }
  }
}

// The i-th segment, behind `done` bytes.
void check_segment(const FrameSpec& s, const Bytes& f, std::size_t i, std::size_t done) {
  const std::size_t n = f.size();
  EQUAL(l4_check(f, s), 0xffff);
  if (s.ipv6) {
    EQUAL(get16(f, l3_of(s) + 4), n - l4_of(s));
  } else {
    EQUAL(l3_check(f, s), 0xffff);
    EQUAL(get16(f, l3_of(s) + 2), n - l3_of(s));
    EQUAL(get16(f, l3_of(s) + 4), (0xfffe + i) & 0xffff);
  }
  if (s.tcp) {
    uint32_t seq = get16(f, l4_of(s) + 4) << 16 | get16(f, l4_of(s) + 6);
    EQUAL(seq, static_cast<uint32_t>(0xfffffc00 + done));
    // CWR on the first only, FIN and PSH on the last only.
    unsigned want = 0x10u | (i == 0 ? 0x80u : 0u) | (i == 2 ? 0x09u : 0u);
    EQUAL(std::to_integer<unsigned>(f[l4_of(s) + 13]), want);
  } else {
    EQUAL(get16(f, l4_of(s) + 4), n - l4_of(s));
  }
}

void segments_are_right(bool v6, bool tcp) {
  FrameSpec s{
      .ipv6 = v6, .tcp = tcp, .tags = 1, .payload = 4001, .tcp_flags = 0x99, .seq = 0xfffffc00};
  Bytes whole = make_frame(s);
  wire::Segmenter seg;
  CU_ASSERT(seg.open(whole, {.payload_bytes = 1448}));
  EQUAL(seg.longest(), payload_of(s) + 1448);
  std::size_t done = 0;
  Bytes out(2000), payload;
  for (std::size_t n, i = 0; (n = seg.next(out)) > 0; ++i) {
    Bytes f(out.begin(), out.begin() + static_cast<long>(n));
    EQUAL(n, payload_of(s) + std::min<std::size_t>(1448, 4001 - done));
    check_segment(s, f, i, done);
    payload.insert(payload.end(), f.begin() + static_cast<long>(payload_of(s)), f.end());
    done = payload.size();
  }
  CU_ASSERT(std::equal(payload.begin(), payload.end(),
                       whole.begin() + static_cast<long>(payload_of(s)), whole.end()));
}

void segments_put_together_are_the_packet_and_each_is_right() {
  for (bool v6 : {false, true}) {
    for (bool tcp : {false, true}) {
      segments_are_right(v6, tcp);
    }
  }
}

// The pieces of a packet in a tunnel are those of the packet, each in a tunnel of its own.
void segments_in_a_tunnel_are_wrapped_segments(const TunnelSpec& s) {
  const Bytes inner = make_frame(s.inner), whole = wrap(s, inner);
  wire::Segmenter alone, inside;
  const auto l4_at = static_cast<uint32_t>(inner_at(s) + l4_of(s.inner));
  const wire::L4 l4 = s.inner.tcp ? wire::L4::tcp : wire::L4::udp;
  CU_ASSERT_TRUE_FATAL(alone.open(inner, {.payload_bytes = 1400}));
  CU_ASSERT_TRUE_FATAL(inside.open(whole, {1400, l4, l4_at}));
  EQUAL(inside.longest(), alone.longest() + whole.size() - inner.size());
  Bytes a(2000), b(2000);
  std::size_t count = 0;
  for (std::size_t n; (n = alone.next(a)) > 0; count++) {
    const Bytes piece(a.begin(), a.begin() + static_cast<long>(n));
    const std::size_t m = inside.next(b);
    const Bytes got(b.begin(), b.begin() + static_cast<long>(m));
    CU_ASSERT_TRUE(got == wrap(s, piece, static_cast<uint16_t>(0x7000 + count)));
  }
  EQUAL(count, 3u);
  EQUAL(inside.next(b), 0u);
  CU_ASSERT_FALSE(
      inside.open(whole, {1400, l4 == wire::L4::tcp ? wire::L4::udp : wire::L4::tcp, l4_at}));
  CU_ASSERT_FALSE(inside.open(whole, {1400, l4, l4_at + 2}));
}

void segments_in_tunnels() {
  for (const bool tcp : {true, false})
    for (const bool outer6 : {false, true})
      for (const bool inner6 : {false, true}) {
        const FrameSpec in{.ipv6 = inner6, .tcp = tcp, .payload = 4001, .tcp_flags = 0x99};
        for (const bool sum : {false, true})
          segments_in_a_tunnel_are_wrapped_segments(
              {.carrier = Carrier::vxlan, .outer6 = outer6, .inner = in, .udp_sum = sum});
        segments_in_a_tunnel_are_wrapped_segments({Carrier::gre, outer6, in});
        segments_in_a_tunnel_are_wrapped_segments(
            {.carrier = Carrier::gre_ip, .outer6 = outer6, .inner = in, .key = false});
        // Nobody knows what is in front of the inner packet, or it has a sum of its own.
        const TunnelSpec other{Carrier::other, outer6, in}, gre{Carrier::gre, outer6, in};
        const auto at = [&](const TunnelSpec& s) {
          return static_cast<uint32_t>(inner_at(s) + l4_of(in));
        };
        wire::Segmenter seg;
        CU_ASSERT_FALSE(seg.open(make_tunnel(other), {1400, wire::L4::none, at(other)}));
        Bytes sequenced = make_tunnel(gre);
        put16(sequenced, outer_l4(gre), 0x1000);  // in the place of the key
        CU_ASSERT_FALSE(seg.open(sequenced, {1400, wire::L4::none, at(gre)}));
      }
}

void what_cannot_be_cut_is_refused() {
  wire::Segmenter seg;
  std::byte out[2000];
  CU_ASSERT(!seg.open(make_frame({.payload = 0}), {.payload_bytes = 1000}));
  EQUAL(seg.next(out), 0);
  CU_ASSERT(!seg.open(make_frame({}), {}));
  EQUAL(seg.next(out), 0);
  CU_ASSERT(!seg.open(make_frame({.fragment = 0x2000}), {.payload_bytes = 10}));
  EQUAL(seg.next(out), 0);
  CU_ASSERT(!seg.open(Bytes(14), {.payload_bytes = 10}));
  CU_ASSERT(!seg.open({}, {.payload_bytes = 10}));
}

constexpr Case cases[] = {
    {"headers are found behind tags", headers_are_found_behind_tags},
    {"right checksums are good and any changed byte is not",
     right_checksums_are_good_and_any_changed_byte_is_not},
    {"written checksums are those of the other way", written_checksums_are_those_of_the_other_way},
    {"padding behind the packet is not summed", padding_behind_the_packet_is_not_summed},
    {"UDP without a checksum is good on IPv4 only", udp_without_a_checksum_is_good_on_ipv4_only},
    {"extension headers are passed and fragments told",
     extension_headers_are_passed_and_fragments_told},
    {"damaged frames never lead outside", damaged_frames_never_lead_outside},
    {"segments put together are the packet and each is right",
     segments_put_together_are_the_packet_and_each_is_right},
    {"segments of a packet in a tunnel have its headers each", segments_in_tunnels},
    {"what cannot be cut is refused", what_cannot_be_cut_is_refused},
};

}  // namespace
}  // namespace packet_ut

KILIM_TEST_MAIN(packet) {
  return run_tables("vhca/wire packet", {packet_ut::cases, vhca::test::resolution_cases()}, argc,
                    argv);
}
