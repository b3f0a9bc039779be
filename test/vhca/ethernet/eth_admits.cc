// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. What queues, rules, keys and WQEs allow: with each thing changed that the
// straight way asks for, it leaves what the general way leaves: frames, memory, completions and
// counters.
#include <cstdio>

#include "eth_ways_fixture.hh"
#include "vhca/hca/hca.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_admits_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

// An adapter whose one queue has requests of both kinds, and frames on their way to it.
struct Stage {
  Rig& r;
  RawQueue& q;
  uint32_t rule;
  [[nodiscard]] wq::Qp& qp() const { return *r.hca->qps.at(q.qpn.value()); }
  [[nodiscard]] ethernet::EthPort& port() const { return r.hca->eth.ports[0]; }
  // Another rule in the place of the one for everything.
  void lead(const FlowSpec& f) const {
    EQUAL(destroy_flow(*r.hca, rule), 0);
    CU_ASSERT(create_flow(*r.hca, q.qpn, f).ok());
  }
  // The words of the third receive and of the third send, which are in the middle of those that
  // are alike.
  [[nodiscard]] std::byte* receive_wqe() const { return q.rq() + 2 * 16; }
  [[nodiscard]] std::byte* send_wqe() const { return q.sq() + 2 * 64; }
};

void flip(std::byte* at, uint8_t bits) {
  *at ^= std::byte{bits};
}

void word(std::byte* at, uint32_t value) {
  const be32 v{value};
  std::memcpy(at, &v, sizeof v);
}
void address(std::byte* at, uint64_t value) {
  const be64 v{value};
  std::memcpy(at, &v, sizeof v);
}

constexpr std::size_t frames_in = 9, sends = 9, frame_payload = 60;

Trace leave(void (*spoil)(const Stage&), bool straight) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  RawQueue q = r.queue(0);
  const Stage s{r, q, *create_flow(*r.hca, q.qpn, everything())};
  for (std::size_t i = 0; i < frames_in; i++) r.receive(q, r.room(i), 2048);
  for (std::size_t i = 0; i < sends; i++) {
    const Bytes f = make_frame({.tcp = false, .payload = frame_payload});
    r.send(q, r.load(16 + i, f), f.size());
  }
  spoil(s);
  Trace t;
  for (int round = 0; round < 2; round++) {
    for (std::size_t i = 0; i < frames_in / 2; i++)
      r.far->send(make_frame({.tcp = false, .payload = frame_payload}));
    r.ring(q);
    r.run();
    for (Bytes b = r.arrived(); !b.empty(); b = r.arrived()) t.frames.push_back(b);
    note_entries(q, t);
  }
  for (std::size_t i = 0; i < frames_in; i++) t.received.emplace_back(r.room(i), r.room(i) + 2048);
  note_counts(r, t);
  t.counts.push_back(static_cast<uint64_t>(s.qp().state));
  t.counts.push_back(r.sink.events.size());
  return t;
}

struct Row {
  const char* name;
  bool matters;  // it leaves something else than the stage as it is
  void (*spoil)(const Stage&);
};

const Row rows[] = {
    {"the stage as it is", false, [](const Stage&) {}},
    {"a queue in the error state", true, [](const Stage& s) { s.qp().state = QpState::err; }},
    {"a queue that only receives", true, [](const Stage& s) { s.qp().state = QpState::rtr; }},
    {"a queue that was reset", true, [](const Stage& s) { s.qp().state = QpState::reset; }},
    {"a queue that wants the check sequence", true,
     [](const Stage& s) { s.qp().spec.scatter_fcs = true; }},
    {"a queue that looks into tunnels", false, [](const Stage& s) { s.qp().spec.tunnels = true; }},
    {"a completion queue in error", true, [](const Stage& s) { s.qp().recv_cq->error = true; }},
    {"an armed completion queue", false, [](const Stage& s) { s.qp().recv_cq->armed = true; }},
    {"a port of a short MTU", true, [](const Stage& s) { s.port().longest_in = 80; }},
    {"a rule that marks", true,
     [](const Stage& s) {
       FlowSpec f = everything();
       f.tags = true;
       f.tag = 7;
       s.lead(f);
     }},
    {"a rule for other addresses", true,
     [](const Stage& s) {
       FlowSpec f = everything();
       f.dst[0] = 0x77;
       f.dst_mask[0] = 0xff;
       s.lead(f);
     }},
    {"no rule", true, [](const Stage& s) { EQUAL(destroy_flow(*s.r.hca, s.rule), 0); }},
    {"a receive without room", true, [](const Stage& s) { word(s.receive_wqe() + 0, 90); }},
    {"a receive with room to the byte", false,
     [](const Stage& s) { word(s.receive_wqe() + 0, 42 + frame_payload); }},
    {"a receive one byte too short", true,
     [](const Stage& s) { word(s.receive_wqe() + 0, 41 + frame_payload); }},
    {"a receive in line", true, [](const Stage& s) { flip(s.receive_wqe(), 0x80); }},
    {"a receive by no key", true, [](const Stage& s) { flip(s.receive_wqe() + 5, 1); }},
    {"a receive by the end of a list", true,
     [](const Stage& s) { word(s.receive_wqe() + 4, 0x100); }},
    {"a receive beyond the key", true,
     [](const Stage& s) {
       address(s.receive_wqe() + 8, va(s.r.memory).value() + memory_bytes - 41 - frame_payload);
     }},
    {"a receive at the key's end", true,
     [](const Stage& s) {
       address(s.receive_wqe() + 8, va(s.r.memory).value() + memory_bytes - 42 - frame_payload);
     }},
    {"a receive in front of the key", true,
     [](const Stage& s) { address(s.receive_wqe() + 8, va(s.r.memory).value() - 1); }},
    {"a send by no key", true, [](const Stage& s) { flip(s.send_wqe() + 32 + 5, 1); }},
    {"a send beyond the key", true,
     [](const Stage& s) {
       address(s.send_wqe() + 32 + 8, va(s.r.memory).value() + memory_bytes - 41 - frame_payload);
     }},
    {"a send in front of the key", true,
     [](const Stage& s) { address(s.send_wqe() + 32 + 8, va(s.r.memory).value() - 1); }},
    {"a send of a header alone", true, [](const Stage& s) { word(s.send_wqe() + 32, 14); }},
    {"a send shorter than a header", true, [](const Stage& s) { word(s.send_wqe() + 32, 13); }},
    {"a send longer than a frame", true, [](const Stage& s) { word(s.send_wqe() + 32, 9300); }},
    {"a send with another index", true, [](const Stage& s) { flip(s.send_wqe() + 2, 4); }},
    {"a send of another queue", true, [](const Stage& s) { flip(s.send_wqe() + 5, 4); }},
    {"a send of another opcode", true, [](const Stage& s) { flip(s.send_wqe() + 3, 0x40); }},
    {"a send of one segment less", true, [](const Stage& s) { flip(s.send_wqe() + 7, 1); }},
    {"a send without a completion", true, [](const Stage& s) { s.send_wqe()[11] = std::byte{0}; }},
    {"a send with bits that are reserved", true,
     [](const Stage& s) { flip(s.send_wqe() + 11, 1); }},
    {"a send that asks for sums", false, [](const Stage& s) { flip(s.send_wqe() + 16 + 4, 0xc0); }},
    {"a send with headers in line", true, [](const Stage& s) { flip(s.send_wqe() + 16 + 13, 2); }},
};

void each_condition_leaves_the_same() {
  const Trace plain = leave(rows[0].spoil, true);
  EQUAL(plain.entries.size(), sends + frames_in - 1);
  for (const Row& row : rows) {
    const Trace a = leave(row.spoil, true), b = leave(row.spoil, false);
    if (!(a == b)) std::printf("%s: the ways differ\n", row.name);
    EQUAL(a.counts, b.counts);
    EQUAL(a.frames.size(), b.frames.size());
    EQUAL(a.frames, b.frames);
    EQUAL(a.entries, b.entries);
    EQUAL(a.received, b.received);
    if ((a == plain) == row.matters) std::printf("%s: it matters %d\n", row.name, !row.matters);
    EQUAL(!(a == plain), row.matters);
  }
}

const Case of_admits[] = {
    {"each thing that the straight way asks for leaves the same", each_condition_leaves_the_same},
};

}  // namespace
}  // namespace eth_admits_ut

std::span<const kilim::test::Case> kilim::test::eth_admits_cases() {
  return eth_admits_ut::of_admits;
}
