// SPDX-License-Identifier: BSD-3-Clause
// Part of spread_ut. Headers of frames that a device made of several TCP segments:
// behind tags and with options, compared with those of a frame made anew; and headers that are cut
// off, are others, or are anything.
#include <random>
#include <vector>

#include "../vhca/wire/frames_fixture.hh"
#include "kilim/detail/burst/joined.hh"
#include "spread_fixture.hh"
#include "ut.hh"

namespace spread_headers_ut {
namespace {

using namespace kilim;
using burst::JoinedFrame;
using burst::mend_joined;
using test::Bytes;
using test::FrameSpec;

constexpr std::size_t option_bytes = 12;

// What a completion says of a frame of four segments, and the same in a frame's headers.
struct Change {
  uint8_t ttl = 17;
  uint32_t ack = 0x01020304;
  uint16_t window = 0x0506;
  bool push = true;
  bool acks = true;

  [[nodiscard]] prm::Cqe cqe(uint16_t payload_sum) const {
    prm::Cqe e{};
    e.srqn_uidx = be32{4u << 24};
    e.lro_min_ttl = ttl;
    e.lro_ack_seq_num = be32{ack};
    e.lro_tcp_win = be16{window};
    e.lro_tcppsh_abort_dupack = push ? 0x40 : 0xbf;
    e.l4_hdr_type_etc = static_cast<uint8_t>((acks ? 4 : 1) << 4);
    e.checksum = be16{payload_sum};
    return e;
  }
  void put(Bytes& b, const FrameSpec& s) const {
    b[l3_of(s) + (s.ipv6 ? 7 : 8)] = std::byte{ttl};
    if (acks) {
      test::put16(b, l4_of(s) + 8, ack >> 16);
      test::put16(b, l4_of(s) + 10, ack & 0xffff);
      test::put16(b, l4_of(s) + 14, window);
      b[l4_of(s) + 13] |= std::byte{0x10};
    }
    if (push) b[l4_of(s) + 13] |= std::byte{0x08};
  }
};

Bytes with_options(const FrameSpec& s) {
  Bytes b = test::make_frame(s);
  b.insert(b.begin() + static_cast<long>(payload_of(s)), option_bytes, std::byte{1});
  b[l4_of(s) + 12] = std::byte{0x80};
  return b;
}

// Lengths and checksums of a frame with these headers.
void finish(Bytes& b, const FrameSpec& s) {
  const std::size_t l3 = l3_of(s), l4 = l4_of(s);
  test::put16(b, l3 + (s.ipv6 ? 4 : 2), b.size() - (s.ipv6 ? l4 : l3));
  if (!s.ipv6) {
    test::put16(b, l3 + 10, 0);
    test::put16(b, l3 + 10, ~test::folded(test::sum16(b, l3, l4)) & 0xffffu);
  }
  test::put16(b, l4_checksum_at(s), 0);
  test::put16(b, l4_checksum_at(s), ~l4_check(b, s) & 0xffffu);
}

void check_mended(const FrameSpec& s, bool options, const Change& change, std::size_t head) {
  Bytes frame = options ? with_options(s) : test::make_frame(s);
  const std::size_t headers = payload_of(s) + (options ? option_bytes : 0);
  Bytes expected = frame;
  change.put(expected, s);
  finish(expected, s);
  // As the first segment had them.
  test::put16(frame, l3_of(s) + (s.ipv6 ? 4 : 2), 0x1234);
  if (!s.ipv6) test::put16(frame, l3_of(s) + 10, 0x4321);
  test::put16(frame, l4_checksum_at(s), 0x1111);
  const prm::Cqe e = change.cqe(test::folded(test::sum16(frame, headers, frame.size())));
  const JoinedFrame f = mend_joined(std::span(frame).first(head == 0 ? headers : head),
                                    static_cast<uint32_t>(frame.size()), e);
  CU_ASSERT_TRUE(frame == expected);
  EQUAL(f.headers, headers);
  EQUAL(f.mss, (s.payload + 3) / 4);
}

void headers_become_the_frames_own() {
  for (const bool ipv6 : {false, true})
    for (const bool options : {false, true})
      for (int tags = 0; tags < 3; tags++)
        for (const std::size_t payload : {4u, 1001u, 20000u})
          for (const Change& c : {Change{}, Change{.push = false}, Change{.acks = false},
                                  Change{.ttl = 255, .push = false, .acks = false}}) {
            const FrameSpec s{.ipv6 = ipv6, .tags = tags, .payload = payload, .tcp_flags = 0x02};
            check_mended(s, options, c, 0);
            check_mended(s, options, c, payload_of(s) + (options ? option_bytes : 0) + 4);
          }
}

void expect_as_it_is(const Bytes& frame, std::size_t head, uint32_t length) {
  Bytes b = frame;
  const JoinedFrame f = mend_joined(std::span(b).first(head), length, Change{}.cqe(7));
  EQUAL(f.mss, 0);
  EQUAL(f.headers, 0);
  EQUAL(b, frame);
}

void what_is_cut_off_stays() {
  for (const bool ipv6 : {false, true})
    for (int tags = 0; tags < 3; tags++) {
      const FrameSpec s{.ipv6 = ipv6, .tags = tags};
      const Bytes b = with_options(s);
      for (std::size_t head = 0; head < payload_of(s) + option_bytes; head++)
        expect_as_it_is(b, head, static_cast<uint32_t>(b.size()));
      expect_as_it_is(b, b.size(), static_cast<uint32_t>(b.size()) - 1);
      expect_as_it_is(b, b.size(), 65535 + 15 + 4 * static_cast<uint32_t>(tags));
    }
}

void other_headers_stay() {
  const auto whole = [](const Bytes& b) { return static_cast<uint32_t>(b.size()); };
  for (const bool ipv6 : {false, true}) {
    const FrameSpec udp{.ipv6 = ipv6, .tcp = false}, tcp{.ipv6 = ipv6}, three{.tags = 3};
    for (const FrameSpec& s : {udp, three}) {
      const Bytes b = test::make_frame(s);
      expect_as_it_is(b, b.size(), whole(b));
    }
    Bytes b = test::make_frame(tcp);
    b[l4_of(tcp) + 12] = std::byte{0x40};  // shorter than TCP's header is
    expect_as_it_is(b, b.size(), whole(b));
    b = test::make_frame(tcp);
    test::put16(b, 12, 0x0806);
    expect_as_it_is(b, b.size(), whole(b));
  }
  Bytes b = test::make_frame({});
  b[14] = std::byte{0x44};  // shorter than IPv4's header is
  expect_as_it_is(b, b.size(), whole(b));
}

// In memory of their own, whose end is watched by the sanitizer.
void anything_is_survived() {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; i++) {
    const FrameSpec s{.ipv6 = random() % 2 == 0, .tags = static_cast<int>(random() % 3)};
    Bytes b = test::make_frame(s);
    b.resize(random() % b.size());
    for (auto changes = random() % 4; changes > 0 && !b.empty(); changes--)
      b[random() % b.size()] = static_cast<std::byte>(random());
    prm::Cqe e = Change{}.cqe(static_cast<uint16_t>(random()));
    e.srqn_uidx = be32{static_cast<uint32_t>(2 + random() % 254) << 24};
    const auto length = static_cast<uint32_t>(b.size() + random() % 70'000);
    const JoinedFrame f = mend_joined(b, length, e);
    CU_ASSERT_TRUE(f.headers <= b.size());
    EQUAL((f.mss == 0), (f.headers == 0 || f.headers == length));
  }
}

constexpr kilim::test::Case of_joined[] = {
    {"headers of joined segments become the frame's own", headers_become_the_frames_own},
    {"headers that are cut off stay as they are", what_is_cut_off_stays},
    {"headers of other frames stay as they are", other_headers_stay},
    {"any bytes are survived as headers of joined segments", anything_is_survived},
};

}  // namespace
}  // namespace spread_headers_ut

std::span<const kilim::test::Case> kilim::test::joined_cases() {
  return spread_headers_ut::of_joined;
}
