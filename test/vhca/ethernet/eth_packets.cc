// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Enhanced multi-packet send WQEs: a frame a data segment, one completion for all.
#include "eth_fixture.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_packets_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

constexpr uint8_t many = 0x29;

// A frame as inline data of a data segment: its length with bit 31, then the bytes, padded to 16.
Bytes inlined(const Bytes& frame) {
  const be32 head{0x80000000u | static_cast<uint32_t>(frame.size())};
  Bytes b((4 + frame.size() + 15) / 16 * 16);
  std::memcpy(b.data(), &head, 4);
  std::memcpy(b.data() + 4, frame.data(), frame.size());
  return b;
}

void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void each_data_segment_is_a_frame_and_the_wqe_has_one_completion() {
  Rig r;
  RawQueue q = r.queue(0);
  for (int lap = 0; lap < 40; lap++) {  // the WQE lies over the end of the ring too
    std::vector<Bytes> frames;
    Bytes segments;
    for (std::size_t i = 0; i < 7; i++) {
      frames.push_back(make_frame({.payload = 6 + i * 11}));
      const bool by_pointer = i % 2 == 0;
      append(segments,
             by_pointer ? r.pointer(r.load(i, frames[i]), frames[i].size()) : inlined(frames[i]));
    }
    const uint16_t first = q.sq_pi;
    r.put(q, many, {}, segments);
    r.ring(q);
    r.run();
    for (const Bytes& f : frames) EQUAL(r.arrived(), f);
    CU_ASSERT(r.far->peek().empty());
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), ok_opcode);
    EQUAL(c.wqe_counter.host(), first);
    EQUAL(prm::cqe::wqe_opcode::get(c), many);
    EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::invalid);
  }
  EQUAL(eth_port_counters(r.hca->eth, 1).tx_packets, 7 * 40);
}

void checksums_are_computed_in_each_packet() {
  Rig r;
  RawQueue q = r.queue(0);
  prm::EthSeg eth{};
  eth.cs_flags = prm::eth::l3_csum | prm::eth::l4_csum;
  std::vector<Bytes> good;
  Bytes segments;
  for (std::size_t i = 0; i < 4; i++) {
    const FrameSpec s{.ipv6 = i % 2 == 1, .tcp = i < 2, .payload = 100 + i};
    good.push_back(make_frame(s));
    Bytes bad = good.back();
    put16(bad, l4_checksum_at(s), 0x1234);
    append(segments, i == 3 ? inlined(bad) : r.pointer(r.load(i, bad), bad.size()));
  }
  r.put(q, many, eth, segments);
  r.ring(q);
  r.run();
  for (const Bytes& f : good) EQUAL(r.arrived(), f);
}

// Two turns of long WQEs fill the cable, which has room again for a few frames at a time.
void a_full_wire_in_the_middle_loses_and_repeats_nothing() {
  Rig r;
  RawQueue q = r.queue(0);
  constexpr std::size_t in_one = 20, wqes = 5;
  std::vector<Bytes> frames;
  for (std::size_t i = 0; i < in_one; i++) {
    frames.push_back(make_frame({.payload = 8000 + i}));
    r.load(i, frames.back());
  }
  for (std::size_t w = 0; w < wqes; w++) {
    Bytes segments;
    for (std::size_t i = 0; i < in_one; i++)
      append(segments, r.pointer(r.room(i), frames[i].size()));
    r.put(q, many, {}, segments);
  }
  r.ring(q);
  r.run();
  CU_ASSERT(eth_port_counters(r.hca->eth, 1).tx_waits > 0);
  std::size_t got = 0;
  for (int turn = 0; turn < 2000 && got < in_one * wqes; ++turn) {
    for (int i = 0; i < 3 && !r.far->peek().empty(); i++) {
      EQUAL(r.arrived(), frames[got % in_one]);
      got++;
    }
    r.run();
    usleep(20);
  }
  EQUAL(got, in_one * wqes);
  CU_ASSERT(r.far->peek().empty());
  std::size_t completed = 0;
  while (opcode(Rig::poll(q)) == ok_opcode) completed++;
  EQUAL(completed, wqes);
  EQUAL(eth_port_counters(r.hca->eth, 1).tx_packets, in_one * wqes);
}

// Where the queue was stopped in one WQE says nothing of the next one.
void a_queue_that_was_reset_begins_with_the_first_packet() {
  Rig r;
  RawQueue q = r.queue(0);
  const Bytes frame = make_frame({.payload = 8900});
  r.load(0, frame);
  Bytes segments;
  for (int i = 0; i < 61; i++) append(segments, r.pointer(r.room(0), frame.size()));
  r.put(q, many, {}, segments);
  r.ring(q);
  r.run();
  CU_ASSERT(eth_port_counters(r.hca->eth, 1).tx_waits > 0);
  QpAttr a;
  a.port = 1;
  for (QpState state : {QpState::reset, QpState::init, QpState::rtr, QpState::rts}) {
    a.state = state;
    const uint32_t mask = qp_mask::state | (state == QpState::init ? qp_mask::port : 0);
    EQUAL(modify_qp(*r.hca, q.qpn, a, mask), 0);
  }
  while (!r.far->peek().empty()) r.far->drop();
  q.sq_pi = 0;
  const Bytes next = make_frame({.payload = 77});
  Bytes two = r.pointer(r.load(1, next), next.size());
  append(two, inlined(next));
  r.put(q, many, {}, two);
  r.ring(q);
  r.run();
  EQUAL(r.arrived(), next);
  EQUAL(r.arrived(), next);
  CU_ASSERT(r.arrived().empty());
}

void what_cannot_be_read_is_refused_whole() {
  const Bytes frame = make_frame({.payload = 20});
  Bytes cut = inlined(frame);
  cut.resize(cut.size() - 16);
  struct Row {
    const char* profile;
    uint16_t inline_header;
    Bytes segments;
    bool none;  // no segments at all
  };
  for (const Row& row :
       {Row{"no-mpw", 0, {}, false}, Row{"cx6dx", 2, {}, false}, Row{"cx6dx", 0x8000, {}, false},
        Row{"cx6dx", 0, cut, false}, Row{"cx6dx", 0, {}, true}}) {
    Rig r(false, "", row.profile);
    RawQueue q = r.queue(0);
    prm::EthSeg eth{};
    eth.inline_hdr_sz = be16{row.inline_header};
    Bytes segments = r.pointer(r.load(0, frame), frame.size());
    append(segments, row.segments);
    if (row.none) segments.clear();
    r.put(q, many, eth, segments);
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), 0x02);
    CU_ASSERT(r.far->peek().empty());
  }
}

// Packets are taken up in order: those in front of one that is refused have left.
void a_refused_packet_ends_the_wqe_behind_those_before_it() {
  const Bytes frame = make_frame({.payload = 20});
  struct Row {
    std::size_t bytes;
    uint32_t key_change;
    int syndrome;
  };
  for (Row row : {Row{13, 0, 0x01}, Row{9023, 0, 0x01}, Row{0, 0, 0x01}, Row{100, 1, 0x04}}) {
    Rig r;
    RawQueue q = r.queue(0);
    Bytes segments = inlined(frame);
    append(segments, r.pointer(r.load(0, frame), frame.size()));
    r.key = Lkey{r.key.value() ^ row.key_change};
    append(segments, r.pointer(r.room(0), row.bytes));
    r.key = Lkey{r.key.value() ^ row.key_change};
    append(segments, r.pointer(r.room(0), frame.size()));
    r.put(q, many, {}, segments);
    r.ring(q);
    r.run();
    const prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), row.syndrome);
    EQUAL(r.arrived(), frame);
    EQUAL(r.arrived(), frame);
    CU_ASSERT(r.arrived().empty());
    EQUAL(query_qp(*r.hca, q.qpn)->state, QpState::sqe);
  }
}

constexpr Case packets[] = {
    {"each data segment is a frame, and the WQE has one completion",
     each_data_segment_is_a_frame_and_the_wqe_has_one_completion},
    {"checksums are computed in each packet", checksums_are_computed_in_each_packet},
    {"a full wire in the middle loses and repeats nothing",
     a_full_wire_in_the_middle_loses_and_repeats_nothing},
    {"a queue that was reset begins with the first packet",
     a_queue_that_was_reset_begins_with_the_first_packet},
    {"what cannot be read is refused whole", what_cannot_be_read_is_refused_whole},
    {"a refused packet ends the WQE behind those before it",
     a_refused_packet_ends_the_wqe_behind_those_before_it},
};

}  // namespace
}  // namespace eth_packets_ut

std::span<const kilim::test::Case> kilim::test::eth_packets_cases() {
  return eth_packets_ut::packets;
}
