// SPDX-License-Identifier: BSD-3-Clause
// Part of wqe_ut. The bytes of packets with a tag, an inlined header, segmentation, written out
// from the manual's layout; headers over the ring's end; what no WQE can have.
#include <vector>

#include "kilim/detail/queue/eth_packet.hh"
#include "ring_fixture.hh"
#include "ut.hh"

using namespace kilim;
using namespace kilim::queue;
using kilim::test::SqRing;

namespace wqe_packets_ut {
namespace {

const Sge piece{0x99aabbccddeeff00, 0x1234, Lkey{0x01020304}};
const Sge second{0x0f0e0d0c0b0a0908, 0x21, Lkey{0x05060708}};
const std::array<Sge, 3> pieces{piece, {1, 0, Lkey{2}}, second};
constexpr Wr wr{.id = 42, .flags = WrFlags::signalled};
using Octets = std::vector<uint8_t>;

// Frame bytes 1, 2, 3 ...
struct Header {
  std::array<std::byte, 1024> bytes;
  Header() {
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i + 1);
  }
  std::span<const std::byte> first(std::size_t n) const { return std::span(bytes).first(n); }
};
const Header header;

// What a WQE at block `at` is to be: control, Ethernet segment, what is inlined (padded to whole
// octowords behind its first two bytes), the two segments of `pieces`.
Octets expected(uint32_t at, uint8_t opcode, std::initializer_list<uint8_t> eth, Octets inlined) {
  Octets w{0, 0, static_cast<uint8_t>(at), opcode, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 8, 0, 0, 0, 0};
  w.insert(w.end(), eth);
  for (std::size_t i = 0; i < 2; i++) w.push_back(i < inlined.size() ? inlined[i] : uint8_t{0});
  if (inlined.size() > 2) w.insert(w.end(), inlined.begin() + 2, inlined.end());
  w.resize((w.size() + 15) / 16 * 16);
  const uint8_t data[] = {0,    0,    0x12, 0x34, 1,   2,   3,   4,   0x99, 0xaa, 0xbb,
                          0xcc, 0xdd, 0xee, 0xff, 0,   0,   0,   0,   0x21, 5,    6,
                          7,    8,    0xf,  0xe,  0xd, 0xc, 0xb, 0xa, 9,    8};
  w.insert(w.end(), std::begin(data), std::end(data));
  w[7] = static_cast<uint8_t>(w.size() / 16);
  return w;
}

// Posts the packet at each block of a ring of eight in turn, so that it wraps at each place.
void compare(const EthHead& head, uint8_t opcode, std::initializer_list<uint8_t> eth,
             const Octets& inlined) {
  for (uint32_t at = 0; at < 8; at++) {
    SqRing<8> ring;
    Sq sq{ring.geometry(), ring.wr_ids};
    for (uint32_t i = 0; i < at; i++) {
      WqeCursor c{sq};
      CU_ASSERT_TRUE(eth_send(c, piece, 0, wr));
      c.commit();
      (void)sq.retire(static_cast<uint16_t>(i));
    }
    ring.memory.fill(std::byte{0xee});
    WqeCursor c{sq};
    CU_ASSERT_TRUE(eth_packet(c, head, pieces, wr));
    c.commit();
    const Octets want = expected(at, opcode, eth, inlined);
    const auto* bytes = ring.block(0);
    for (std::size_t i = 0; i < want.size(); i++)
      EQUAL_FATAL(unsigned{bytes[(at * 64 + i) % 512]}, unsigned{want[i]});
    const uint32_t blocks = static_cast<uint32_t>(want.size() + 63) / 64;
    EQUAL(sq.posted(), at + blocks);
    EQUAL(ring.record.host(), at + blocks);
    EQUAL(ring.wr_ids[at], wr.id);
  }
}

Octets numbers(unsigned from, unsigned to) {
  Octets all;
  for (unsigned n = from; n <= to; n++) all.push_back(static_cast<uint8_t>(n));
  return all;
}
Octets joined(std::initializer_list<Octets> parts) {
  Octets all;
  for (const Octets& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}

void tags_are_put_in_by_the_device() {
  compare({.checksums = 0xf0, .tag = customer_tag(0x6f31)}, 0x0a,
          {0, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0}, {0x6f, 0x31});
  compare({.tag = service_tag(0x0001)}, 0x0a, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1},
          {0, 1});
  compare({}, 0x0a, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {});
}

void headers_lie_in_the_wqe() {
  compare({.checksums = EthOffload::l3, .bytes = header.first(18)}, 0x0a,
          {0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 18}, numbers(1, 18));
  compare({.bytes = header.first(14)}, 0x0a, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14},
          numbers(1, 14));
  compare({.bytes = header.first(58)}, 0x0a, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 58},
          numbers(1, 58));
  for (const unsigned n : {14u, 15u, 54u})
    compare({.tag = service_tag(0x4005), .bytes = header.first(n)}, 0x0a,
            {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(n + 4)},
            joined({numbers(1, 12), {0x88, 0xa8, 0x40, 5}, numbers(13, n)}));
}

void segmented_packets_have_their_headers() {
  compare({.checksums = 0xc0, .mss = 0x05a8, .bytes = header.first(54)}, 0x0e,
          {0, 0, 0, 0, 0xc0, 0, 5, 0xa8, 0, 0, 0, 0, 0, 54}, numbers(1, 54));
  compare({.mss = 1, .tag = customer_tag(7), .bytes = header.first(66)}, 0x0e,
          {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 70},
          joined({numbers(1, 12), {0x81, 0, 0, 7}, numbers(13, 66)}));
}

bool is(const Outcome& a, Refusal why, uint32_t asked, uint32_t limit) {
  return !a && a.why == why && a.asked == asked && a.limit == limit && *text(a.why) != 0;
}

void what_no_wqe_can_have_is_refused() {
  SqRing<16> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  WqeCursor c{sq};
  const std::span<const Sge> two{pieces}, none{};
  const auto bad = Refusal::bad_header;
  static_assert(max_inlined == 978);
  CU_ASSERT_TRUE(is(eth_packet(c, {.bytes = header.first(13)}, two, wr), bad, 13, 978));
  CU_ASSERT_TRUE(is(eth_packet(c, {.bytes = header.first(979)}, two, wr), bad, 979, 978));
  const EthHead tagged{.tag = customer_tag(1), .bytes = header.first(975)};
  CU_ASSERT_TRUE(is(eth_packet(c, tagged, two, wr), bad, 979, 978));
  CU_ASSERT_TRUE(is(eth_packet(c, {.mss = 100}, two, wr), bad, 0, 978));
  CU_ASSERT_TRUE(is(eth_packet(c, {.mss = 9, .bytes = header.first(54)}, none, wr), bad, 54, 0));
  CU_ASSERT_TRUE(
      is(eth_packet(c, {}, none, wr), Refusal::empty_piece, 0, prm::max_segment_bytes - 1));
  std::array<Sge, 62> many;
  many.fill(second);
  const std::span<const Sge> all{many};
  CU_ASSERT_TRUE(is(eth_packet(c, {}, all, wr), Refusal::many_pieces, 62, 61));
  const EthHead long_one{.bytes = header.first(978)};
  CU_ASSERT_TRUE(is(eth_packet(c, long_one, all.first(1), wr), Refusal::many_pieces, 1, 0));
  const Sge huge[2] = {{1, 1u << 31, Lkey{1}}, {1, 1, Lkey{1}}};
  CU_ASSERT_TRUE(is(eth_packet(c, {}, std::span{huge}, wr), Refusal::long_message, (1u << 31) + 1,
                    prm::max_segment_bytes - 1));
  EQUAL(c.room().value(), 16);
  // A whole frame in the WQE, and as many pieces as go behind nothing.
  CU_ASSERT_TRUE(eth_packet(c, long_one, none, wr));
  EQUAL(c.room().value(), 0);
  CU_ASSERT_TRUE(is(eth_packet(c, {}, all.first(61), wr), Refusal::no_room, 16, 0));
}

constexpr kilim::test::Case cases[] = {
    {"tags are put in by the device", tags_are_put_in_by_the_device},
    {"headers lie in the WQE, wherever it wraps, a tag among them", headers_lie_in_the_wqe},
    {"packets to be segmented have their headers", segmented_packets_have_their_headers},
    {"what no WQE of a packet can have is refused", what_no_wqe_can_have_is_refused},
};

}  // namespace
}  // namespace wqe_packets_ut

namespace kilim::test {
std::span<const Case> wqe_packet_cases();
std::span<const Case> wqe_packet_cases() {
  return wqe_packets_ut::cases;
}
}  // namespace kilim::test
