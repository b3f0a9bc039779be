// SPDX-License-Identifier: BSD-3-Clause
// The raw packet path of an adapter: work requests to frames, frames to completions.
#include "case_tables.hh"
#include "eth_fixture.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

void inline_header_inline_data_and_pointers_make_one_frame() {
  Rig r;
  RawQueue q = r.queue(0);
  Bytes frame = make_frame({.payload = 400});
  r.load(0, frame);
  prm::EthSeg eth{};
  eth.inline_hdr_sz = be16{20};  // two bytes in the segment, eighteen behind it
  std::memcpy(eth.inline_hdr_start, frame.data(), 2);
  Bytes rest(32 + 16);
  std::memcpy(rest.data(), frame.data() + 2, 18);
  be32 inline_head{prm::inline_flag | 7};
  std::memcpy(rest.data() + 32, &inline_head, 4);
  std::memcpy(rest.data() + 36, frame.data() + 20, 7);
  for (auto [at, n] : {std::pair{27u, 100u}, std::pair{127u, 327u}}) {
    Bytes d = r.pointer(r.room(0) + at, n);
    rest.insert(rest.end(), d.begin(), d.end());
  }
  r.put(q, 0x0a, eth, rest);
  r.ring(q);
  r.run();
  EQUAL(r.arrived(), frame);
  prm::Cqe c = Rig::poll(q);
  EQUAL(opcode(c), ok_opcode);
  EQUAL(c.wqe_counter.host(), 0);
  EQUAL(prm::cqe::wqe_opcode::get(c), 0x0a);
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  EQUAL(n.tx_packets, 1);
  EQUAL(n.tx_bytes, frame.size());
  EQUAL(n.tx_drops, 0);
}

void checksums_are_computed_where_asked_for() {
  Rig r;
  RawQueue q = r.queue(0);
  for (bool v6 : {false, true}) {
    for (bool tcp : {false, true}) {
      for (int tags : {0, 1, 2}) {
        FrameSpec s{.ipv6 = v6, .tcp = tcp, .tags = tags, .payload = 333};
        Bytes good = make_frame(s), bad = good;
        put16(bad, l4_checksum_at(s), 0x1234);
        if (!v6) put16(bad, l3_of(s) + 10, 0x4321);
        r.send(q, r.load(0, bad), bad.size(), prm::eth::l3_csum | prm::eth::l4_csum);
        r.send(q, r.room(0), bad.size());
        r.ring(q);
        r.run();
        EQUAL(r.arrived(), good);
        EQUAL(r.arrived(), bad);
        Rig::poll(q);
        Rig::poll(q);
      }
    }
  }
}

void frames_too_short_or_too_long_are_local_length_errors() {
  for (std::size_t bytes : {13u, 9023u, 16000u}) {
    Rig r;
    RawQueue q = r.queue(0);
    r.send(q, r.room(0), bytes);
    r.send(q, r.room(0), 60);
    r.ring(q);
    r.run();
    prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), 0x01);
    EQUAL(Rig::syndrome(Rig::poll(q)), 0x05);
    CU_ASSERT(r.arrived().empty());
    EQUAL(query_qp(*r.hca, q.qpn)->state, QpState::sqe);
  }
  Rig r;
  RawQueue q = r.queue(0);
  r.send(q, r.room(0), 14);
  r.send(q, r.room(0), 9022);
  r.ring(q);
  r.run();
  CU_ASSERT(r.arrived().size() == 14 && r.arrived().size() == 9022);
}

void a_refused_frame_leaves_the_receive_queue_alone() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.receive(q, r.room(1), 2000);
  r.send(q, r.room(0), 13);
  r.ring(q);
  r.run();
  EQUAL(Rig::syndrome(Rig::poll(q)), 0x01);
  r.far->send(make_frame({.payload = 200}));
  r.run();
  EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::resp_send);
  QpAttr a;
  a.state = QpState::rts;
  EQUAL(modify_qp(*r.hca, q.qpn, a, qp_mask::state), 0);
  r.send(q, r.room(0), 60);
  r.ring(q);
  r.run();
  EQUAL(opcode(Rig::poll(q)), ok_opcode);
  EQUAL(r.arrived().size(), 60);
}

void other_opcodes_and_bad_segments_are_refused() {
  struct Row {
    uint8_t opcode;
    uint16_t inline_bytes;
    uint32_t key_change;
    int syndrome;
  };
  for (Row row : {Row{0x25, 0, 0, 0x02}, Row{0x28, 0, 0, 0x02}, Row{0x08, 0, 0, 0x02},
                  Row{0x0a, 0x4000, 0, 0x02}, Row{0x0a, 100, 0, 0x02}, Row{0x0a, 0, 1, 0x04},
                  Row{0x0a, 0, 1u << 20, 0x04}}) {
    Rig r;
    RawQueue q = r.queue(0);
    prm::EthSeg eth{};
    eth.inline_hdr_sz = be16{row.inline_bytes};
    r.key = Lkey{r.key.value() ^ row.key_change};
    r.put(q, row.opcode, eth, r.pointer(r.room(0), 100));
    r.ring(q);
    r.run();
    prm::Cqe c = Rig::poll(q);
    EQUAL(opcode(c), prm::CqeOpcode::req_err);
    EQUAL(Rig::syndrome(c), row.syndrome);
    CU_ASSERT(r.far->peek().empty());
  }
}

void a_full_wire_makes_the_send_queue_wait() {
  Rig r;
  RawQueue q = r.queue(0);
  Bytes frame = make_frame({.payload = 8000});
  r.load(0, frame);
  int completed = 0;
  int sent = 0;
  for (; sent < 5 * 24; sent += 24) {
    for (int i = 0; i < 24; ++i) r.send(q, r.room(0), frame.size());
    r.ring(q);
    r.run();
    while (opcode(Rig::poll(q)) == ok_opcode) ++completed;
    if (sent >= 48 && completed < sent + 24) break;
  }
  CU_ASSERT(eth_port_counters(r.hca->eth, 1).tx_waits > 0);
  CU_ASSERT(completed < sent + 24);
  int got = 0;
  for (int turn = 0; turn < 2000 && got < sent + 24; ++turn) {
    while (!r.far->peek().empty()) got += r.arrived() == frame;
    r.run();
    while (opcode(Rig::poll(q)) == ok_opcode) ++completed;
    usleep(50);
  }
  EQUAL(got, sent + 24);
  EQUAL(completed, sent + 24);
}

constexpr Case cases[] = {
    {"inline header, inline data and pointers make one frame",
     inline_header_inline_data_and_pointers_make_one_frame},
    {"checksums are computed where asked for", checksums_are_computed_where_asked_for},
    {"frames too short or too long are local length errors",
     frames_too_short_or_too_long_are_local_length_errors},
    {"a refused frame leaves the receive queue alone",
     a_refused_frame_leaves_the_receive_queue_alone},
    {"other opcodes and bad segments are refused", other_opcodes_and_bad_segments_are_refused},
    {"a full wire makes the send queue wait", a_full_wire_makes_the_send_queue_wait},
};

// On a cable frames take the straight way; here every case again without it.
void the_general_way_does_the_same() {
  Rig::straight = false;
  for (const std::span<const Case> table :
       {std::span<const Case>(cases), eth_receive_cases(), eth_packets_cases(), eth_large_cases(),
        eth_tunnel_cases()})
    for (const Case& c : table) c.run();
  Rig::straight = true;
}

constexpr Case general[] = {{"the general way does the same", the_general_way_does_the_same}};

}  // namespace
}  // namespace eth_ut

KILIM_TEST_MAIN(eth) {
  if (!memory::dma::install()) return 2;
  return kilim::test::run_tables(
      "vhca/ethernet/eth",
      {eth_ut::cases, eth_admits_cases(), eth_receive_cases(), eth_packets_cases(),
       eth_large_cases(), eth_ways_cases(), eth_fours_cases(), eth_odd_frame_cases(),
       eth_tunnel_cases(), eth_tunnel_rule_cases(), eth_large_receive_cases(), eth_spread_cases(),
       receive_queue_cases(), compression_cases(), eth_ut::general},
      argc, argv);
}
