// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Packets that the device cuts into segments (TSO), and tags that it puts in. What
// has to come out is written anew for each frame, checksums included (frames_fixture.hh).
#include <algorithm>

#include "eth_fixture.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_large_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

constexpr uint8_t tso = 0x0e;
constexpr uint8_t checksums = prm::eth::l3_csum | prm::eth::l4_csum;

// The Ethernet segment with the headers inline, then `segments`.
void put_large(const Rig& r, RawQueue& q, const Bytes& headers, uint16_t mss, const Bytes& segments,
               uint8_t cs_flags = checksums) {
  prm::EthSeg eth{};
  eth.cs_flags = cs_flags;
  eth.mss = be16{mss};
  eth.inline_hdr_sz = be16{static_cast<uint16_t>(headers.size())};
  if (!headers.empty())
    std::memcpy(eth.inline_hdr_start, headers.data(), std::min<std::size_t>(headers.size(), 2));
  const std::size_t spill = headers.size() > 2 ? headers.size() - 2 : 0;
  Bytes rest((spill + 15) / 16 * 16);
  if (spill > 0) std::memcpy(rest.data(), headers.data() + 2, spill);
  rest.insert(rest.end(), segments.begin(), segments.end());
  r.put(q, tso, eth, rest);
}

// Headers as a client writes them: lengths and checksums are nobody's.
Bytes headers_of(const FrameSpec& s) {
  Bytes b = make_frame(s);
  b.resize(payload_of(s));
  put16(b, l4_checksum_at(s), 0xdead);
  if (s.ipv6) {
    put16(b, l3_of(s) + 4, 0);
  } else {
    put16(b, l3_of(s) + 2, 0);
    put16(b, l3_of(s) + 10, 0xbeef);
  }
  return b;
}

// Frame `number` of a packet, with this payload.
Bytes segment_of(const FrameSpec& of, std::size_t number, std::span<const std::byte> payload,
                 std::size_t at, bool last) {
  FrameSpec s = of;
  s.payload = payload.size();
  s.seq += static_cast<uint32_t>(at);
  if (!last) s.tcp_flags &= 0xf6;  // neither FIN nor PSH
  if (at > 0) s.tcp_flags &= 0x7f;
  Bytes b = make_frame(s);
  std::copy(payload.begin(), payload.end(), b.begin() + static_cast<long>(payload_of(s)));
  if (!s.ipv6) {
    const std::size_t l3 = l3_of(s);
    put16(b, l3 + 4, (0xfffe + number) & 0xffff);
    put16(b, l3 + 10, 0);
    put16(b, l3 + 10, ~folded(sum16(b, l3, l3 + 20)) & 0xffffu);
  }
  put16(b, l4_checksum_at(s), 0);
  put16(b, l4_checksum_at(s), ~l4_check(b, s) & 0xffffu);
  return b;
}

std::span<const std::byte> fill_payload(const Rig& r, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    r.room(0)[i] = static_cast<std::byte>(i * 7 + i / 251 + 3);
  return {r.room(0), bytes};
}

void segments_have_their_headers_and_checksums() {
  struct Row {
    FrameSpec spec;
    std::size_t bytes, mss;
  };
  for (const Row& row :
       {Row{{.tcp_flags = 0x99}, 10000, 1448}, Row{{.ipv6 = true, .tcp_flags = 0x99}, 10000, 1428},
        Row{{.tags = 1}, 4000, 1000}, Row{{.ipv6 = true, .tags = 2}, 3001, 1500},
        Row{{}, 700, 1448}, Row{{}, 9, 1}, Row{{.seq = 0xfffffff0}, 30000, 8960},
        Row{{.tcp = false}, 3000, 1000}}) {
    Rig r;
    RawQueue q = r.queue(0);
    const auto payload = fill_payload(r, row.bytes);
    // Three pieces of which the first ends within a segment.
    Bytes segments = r.pointer(r.room(0), row.bytes / 3);
    const std::size_t more = row.bytes - row.bytes / 3 - 1;
    for (auto [at, n] :
         {std::pair{row.bytes / 3, more}, std::pair{row.bytes - 1, std::size_t{1}}}) {
      const Bytes d = r.pointer(r.room(0) + at, n);
      segments.insert(segments.end(), d.begin(), d.end());
    }
    FrameSpec spec = row.spec;
    Bytes headers = headers_of(spec);
    // The length of UDP is that of each frame, and the client's.
    if (!spec.tcp) put16(headers, l4_of(spec) + 4, row.mss + 8);
    put_large(r, q, headers, static_cast<uint16_t>(row.mss), segments);
    r.ring(q);
    r.run();
    std::size_t frames = 0;
    for (std::size_t at = 0; at < row.bytes; at += row.mss, frames++) {
      const std::size_t n = std::min(row.mss, row.bytes - at);
      EQUAL(r.arrived(), segment_of(spec, frames, payload.subspan(at, n), at, at + n == row.bytes));
    }
    CU_ASSERT(r.far->peek().empty());
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), ok_opcode);
    EQUAL(prm::cqe::wqe_opcode::get(c), tso);
    EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::invalid);
    EQUAL(eth_port_counters(r.hca->eth, 1).tx_packets, frames);
  }
}

// Two of the longest packets are more than the cable holds.
void a_full_wire_stops_between_two_segments() {
  Rig r;
  RawQueue q = r.queue(0);
  constexpr std::size_t bytes = 1u << 18, mss = 1400;
  const FrameSpec spec{};
  const auto payload = fill_payload(r, bytes);
  for (int i = 0; i < 3; i++) put_large(r, q, headers_of(spec), mss, r.pointer(r.room(0), bytes));
  r.ring(q);
  r.run();
  CU_ASSERT(eth_port_counters(r.hca->eth, 1).tx_waits > 0);
  std::size_t at = 0, packets = 0;
  for (int turn = 0; turn < 4000 && packets < 3; turn++) {
    for (int i = 0; i < 30 && !r.far->peek().empty(); i++) {
      const std::size_t n = std::min(mss, bytes - at);
      EQUAL_FATAL(r.arrived(),
                  segment_of(spec, at / mss, payload.subspan(at, n), at, at + n == bytes));
      at += n;
      if (at < bytes) continue;
      at = 0;
      packets++;
    }
    r.run();
    usleep(20);
  }
  EQUAL(packets, 3);
  CU_ASSERT(r.far->peek().empty());
}

void without_its_flags_no_checksum_is_computed() {
  Rig r;
  RawQueue q = r.queue(0);
  fill_payload(r, 100);
  const FrameSpec spec{};
  put_large(r, q, headers_of(spec), 60, r.pointer(r.room(0), 100), 0);
  r.ring(q);
  r.run();
  const Bytes b = r.arrived();
  EQUAL_FATAL(b.size(), payload_of(spec) + 60);
  EQUAL(get16(b, l3_of(spec) + 10), 0xbeef);
  EQUAL(get16(b, l4_checksum_at(spec)), 0xdead);
}

void what_cannot_be_segmented_is_refused() {
  const FrameSpec spec{};
  Bytes good = headers_of(spec), more = good, fewer = good, arp = good, none;
  Bytes part = headers_of({.tcp = false, .fragment = 0x2000});
  more.resize(more.size() + 1);
  fewer.resize(fewer.size() - 1);
  put16(arp, 12, 0x0806);
  struct Row {
    const char* profile;
    Bytes headers;
    uint16_t mss;
    std::size_t bytes;
    int syndrome;
  };
  for (const Row& row : {Row{"no-tx-offloads", good, 100, 300, 2}, Row{"cx6dx", good, 0, 300, 2},
                         Row{"cx6dx", more, 100, 300, 2}, Row{"cx6dx", fewer, 100, 300, 2},
                         Row{"cx6dx", arp, 100, 300, 2}, Row{"cx6dx", part, 100, 300, 2},
                         Row{"cx6dx", none, 100, 300, 2}, Row{"cx6dx", good, 9000, 9100, 1},
                         Row{"cx6dx", good, 1000, (1u << 18) + 1, 1}}) {
    Rig r(false, "", row.profile);
    RawQueue q = r.queue(0);
    put_large(r, q, row.headers, row.mss, r.pointer(r.room(0), row.bytes));
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), row.syndrome);
    CU_ASSERT(r.far->peek().empty());
  }
  Rig r;
  RawQueue q = r.queue(0);
  put_large(r, q, good, 100, {});
  r.ring(q);
  r.run();
  EQUAL(Rig::syndrome(Rig::poll(q)), 2);
}

void a_tag_is_put_in_and_checksums_are_those_of_the_packet() {
  for (const auto kind : {uint16_t{0x8000}, uint16_t{0x8001}}) {
    Rig r;
    RawQueue q = r.queue(0);
    const Bytes plain = make_frame({.tags = 0, .payload = 200});
    Bytes tagged = plain;
    const std::byte tag[4] = {std::byte{kind == 0x8000 ? uint8_t{0x81} : uint8_t{0x88}},
                              std::byte{kind == 0x8000 ? uint8_t{0x00} : uint8_t{0xa8}},
                              std::byte{0x6f}, std::byte{0x31}};
    tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));
    Bytes bad = plain;
    put16(bad, l4_checksum_at({}), 0x1111);
    prm::EthSeg eth{};
    eth.cs_flags = checksums;
    eth.inline_hdr_sz = be16{kind};
    eth.inline_hdr_start[0] = 0x6f;
    eth.inline_hdr_start[1] = 0x31;
    r.put(q, 0x0a, eth, r.pointer(r.load(0, bad), bad.size()));
    r.ring(q);
    r.run();
    EQUAL(r.arrived(), tagged);
    EQUAL(eth_port_counters(r.hca->eth, 1).tx_bytes, tagged.size());
  }
}

// The tag counts where a frame may have 9022 bytes, and not where it needs 14.
void tags_are_refused_where_they_are_not_offered_or_do_not_fit() {
  struct Row {
    const char* profile;
    uint8_t opcode;
    uint16_t kind;
    std::size_t bytes;
    int syndrome;
  };
  for (const Row& row :
       {Row{"no-tx-offloads", 0x0a, 0x8000, 60, 2}, Row{"cx6dx", 0x0a, 0x8002, 60, 2},
        Row{"cx6dx", 0x0a, 0xc000, 60, 2}, Row{"cx6dx", 0x29, 0x8000, 60, 2},
        Row{"cx6dx", 0x0a, 0x8000, 9019, 1}, Row{"cx6dx", 0x0a, 0x8000, 13, 1}}) {
    Rig r(false, "", row.profile);
    RawQueue q = r.queue(0);
    prm::EthSeg eth{};
    eth.inline_hdr_sz = be16{row.kind};
    r.put(q, row.opcode, eth, r.pointer(r.room(0), row.bytes));
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), row.syndrome);
    CU_ASSERT(r.far->peek().empty());
  }
}

// 18 bytes of each frame, or the whole of a shorter one; a WQE of many packets has no place for
// them.
void a_frame_without_its_beginning_in_the_wqe_is_refused_where_that_is_wanted() {
  struct Row {
    const char* profile;
    uint8_t opcode;
    uint16_t inlined;
    std::size_t behind;
    bool leaves;
  };
  for (const Row& row :
       {Row{"inline-l2", 0x0a, 18, 60, true}, Row{"inline-l2", 0x0a, 17, 60, false},
        Row{"inline-l2", 0x0a, 0, 60, false}, Row{"inline-ip", 0x0a, 18, 60, true},
        Row{"inline-ip", 0x0a, 17, 60, false}, Row{"inline-l2", 0x0a, 16, 0, true},
        Row{"inline-l2", 0x29, 0, 60, false}, Row{"cx6dx", 0x0a, 0, 60, true}}) {
    Rig r(false, "", row.profile);
    RawQueue q = r.queue(0);
    prm::EthSeg eth{};
    eth.inline_hdr_sz = be16{row.inlined};
    Bytes rest(row.inlined == 0 ? 0 : 16);
    const Bytes data = r.pointer(r.room(0), row.behind);
    if (row.behind != 0)
      for (const std::byte b : data) rest.push_back(b);
    r.put(q, row.opcode, eth, rest);
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), row.leaves ? ok_opcode : prm::CqeOpcode::req_err);
    EQUAL(r.far->peek().empty(), !row.leaves);
    if (row.leaves || row.opcode != 0x0a) continue;
    // A ConnectX-4 Lx was seen to refuse it so (Linux, netdev list: 60106801 0a001dbb 000f9fd2).
    const std::array<uint8_t, 5> said = {0x60, 0x10, 0x68, 0x01, 0x0a};
    EQUAL(std::memcmp(reinterpret_cast<const std::byte*>(&c) + 52, said.data(), said.size()), 0);
  }
}

constexpr Case large[] = {
    {"segments have their headers and checksums", segments_have_their_headers_and_checksums},
    {"a full wire stops between two segments", a_full_wire_stops_between_two_segments},
    {"without its flags no checksum is computed", without_its_flags_no_checksum_is_computed},
    {"what cannot be segmented is refused", what_cannot_be_segmented_is_refused},
    {"a tag is put in, and checksums are those of the packet",
     a_tag_is_put_in_and_checksums_are_those_of_the_packet},
    {"tags are refused where they are not offered or do not fit",
     tags_are_refused_where_they_are_not_offered_or_do_not_fit},
    {"a frame without its beginning in the WQE is refused where that is wanted",
     a_frame_without_its_beginning_in_the_wqe_is_refused_where_that_is_wanted},
};

}  // namespace
}  // namespace eth_large_ut

std::span<const kilim::test::Case> kilim::test::eth_large_cases() {
  return eth_large_ut::large;
}
