// SPDX-License-Identifier: BSD-3-Clause
// The raw packet path of an adapter: work requests to frames, frames to completions.
#include "eth_fixture.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

constexpr auto ok_opcode = prm::CqeOpcode::req;
constexpr auto recv_opcode = prm::CqeOpcode::resp_send;

prm::CqeOpcode opcode(const prm::Cqe& c) {
  return prm::cqe::opcode_of(c.op_own);
}

FlowSpec everything() {
  FlowSpec f;
  f.has_eth = true;
  return f;
}

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
  CU_ASSERT(opcode(c) == ok_opcode && c.wqe_counter.host() == 0);
  EQUAL(prm::cqe::wqe_opcode::get(c), 0x0a);
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(n.tx_packets == 1 && n.tx_bytes == frame.size() && n.tx_drops == 0);
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
    CU_ASSERT(opcode(c) == prm::CqeOpcode::req_err && Rig::syndrome(c) == 0x01);
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
  CU_ASSERT(opcode(Rig::poll(q)) == ok_opcode && r.arrived().size() == 60);
}

void other_opcodes_and_bad_segments_are_refused() {
  struct Row {
    uint8_t opcode;
    uint16_t inline_bytes;
    uint32_t key_change;
    int syndrome;
  };
  for (Row row : {Row{0x25, 0, 0, 0x02}, Row{0x0e, 0, 0, 0x02}, Row{0x29, 0, 0, 0x02},
                  Row{0x08, 0, 0, 0x02}, Row{0x0a, 0x8000, 0, 0x02}, Row{0x0a, 100, 0, 0x02},
                  Row{0x0a, 0, 1, 0x04}, Row{0x0a, 0, 1u << 20, 0x04}}) {
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
  CU_ASSERT(eth_port_counters(r.hca->eth, 1).tx_waits > 0 && completed < sent + 24);
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

// What the completion of a received frame says in its two header bytes.
struct Seen {
  Bytes data;
  uint8_t checks = 0, types = 0;
};
Seen deliver(Rig& r, RawQueue& q, const Bytes& frame) {
  r.receive(q, r.room(1), 2048);
  r.far->send(frame);
  r.run();
  prm::Cqe c = Rig::poll(q);
  if (opcode(c) != recv_opcode || c.srqn_uidx.host() != 0x700) return {};
  return {Bytes(r.room(1), r.room(1) + c.byte_cnt.host()), c.hds_ip_ext, c.l4_hdr_type_etc};
}

void completions_say_what_a_frame_is_and_which_checksums_are_right() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  struct Row {
    FrameSpec spec;
    std::size_t spoil;  // a byte of the frame to change, 0: none
    int checks, types;
  };
  FrameSpec tcp4{}, udp4{.tcp = false}, tcp6{.ipv6 = true}, tagged{.tcp = false, .tags = 1};
  for (const Row& row :
       {Row{tcp4, 0, 7, 0x48}, Row{{.payload = 0, .tcp_flags = 0x10}, 0, 7, 0x38},
        Row{{.tcp_flags = 0x02}, 0, 7, 0x18}, Row{udp4, 0, 7, 0x28}, Row{tcp6, 0, 7, 0x44},
        Row{{.ipv6 = true, .tcp = false}, 0, 7, 0x24}, Row{tagged, 0, 7, 0x28},
        Row{tcp4, 100, 3, 0x48}, Row{udp4, 100, 3, 0x28}, Row{tcp4, l3_of(tcp4) + 8, 5, 0x48},
        Row{{.fragment = 0x2000}, 0, 3, 0x88}, Row{{.tcp = false, .fragment = 5}, 0, 3, 0x88}}) {
    Bytes frame = make_frame(row.spec);
    if (row.spoil > 0) frame[row.spoil] ^= std::byte{0x40};
    Seen s = deliver(r, q, frame);
    EQUAL(s.data, frame);
    EQUAL(s.checks, row.checks);
    EQUAL(s.types, row.types);
  }
  Bytes arp(60, std::byte{1});
  put16(arp, 12, 0x0806);
  Seen s = deliver(r, q, arp);
  CU_ASSERT(s.data == arp && s.checks == 1 && s.types == 0);
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 13);
}

void a_frame_waits_on_the_wire_for_a_receive_request() {
  Rig r(true);
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  Bytes frame = make_frame({});
  for (int i = 0; i < 3; ++i) r.far->send(frame);
  r.run();
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_pauses == 1 && c.rx_packets == 0 && c.rx_out_of_buffer == 0);
  std::vector<int> fds;
  uint64_t deadline = ~uint64_t{0};
  r.hca->wait_set(fds, deadline);
  CU_ASSERT(deadline != ~uint64_t{0} && fds.empty());
  for (std::size_t i = 0; i < 3; ++i) r.receive(q, r.room(i), 2048);
  r.run();
  for (int i = 0; i < 3; ++i) EQUAL(opcode(Rig::poll(q)), recv_opcode);
  c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_packets == 3 && c.rx_pauses == 1);
  r.hca->wait_set(fds, deadline);
  EQUAL(fds.size(), 1);
}

void without_flow_control_such_a_frame_is_dropped_and_counted() {
  Rig r(false);
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  for (int i = 0; i < 3; ++i) r.far->send(make_frame({}));
  r.run();
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_out_of_buffer == 3 && c.rx_pauses == 0 && c.rx_packets == 0);
}

// As on a card: the sender's queue goes on however long nobody takes what it sends.
void who_does_not_receive_stops_no_sender() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  constexpr uint64_t many = 20'000;
  const Bytes frame = make_frame({.payload = 1000});
  uint64_t sent = 0;
  while (sent < many && r.far->send(frame) == Wire::Sent::taken)
    if (++sent % 100 == 0) r.run();
  r.run();
  EQUAL(sent, many);
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_out_of_buffer == many && c.rx_packets == 0);
  r.receive(q, r.room(0), 2048);
  r.far->send(frame);
  r.run();
  EQUAL(opcode(Rig::poll(q)), recv_opcode);
}

void a_recording_waits_for_receive_requests() {
  const std::string file = "/proc/self/fd/" + std::to_string(memfd_create("recording", 0));
  {
    auto recorder = *make_wire("pcap::" + file);
    for (uint8_t i = 0; i < 3; i++) recorder->send(make_frame({.payload = i}));
  }
  Rig r(false, "pcap:" + file);
  RawQueue q = r.queue(0);
  r.run();  // nobody asks for frames yet: none is read
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.run();
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_out_of_buffer == 0 && c.rx_pauses == 1);
  for (std::size_t i = 0; i < 3; ++i) r.receive(q, r.room(i), 2048);
  r.run();
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 3);
}

void a_dead_adapter_takes_no_frame() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.receive(q, r.room(0), 2048);
  die(*r.hca);
  r.far->send(make_frame({.payload = 200}));
  r.run();
  const PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_packets == 0 && c.rx_out_of_buffer == 0 && c.rx_queue_down == 0);
}

void a_frame_longer_than_its_receive_request_is_dropped_alone() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.receive(q, r.room(1), 100);
  r.receive(q, r.room(2), 2048);
  r.far->send(make_frame({.payload = 200}));
  Bytes next = make_frame({.payload = 300});
  r.far->send(next);
  r.run();
  prm::Cqe c = Rig::poll(q);
  CU_ASSERT(opcode(c) == prm::CqeOpcode::resp_err && Rig::syndrome(c) == 0x01);
  EQUAL(r.room(1)[0], std::byte{0});
  EQUAL(query_qp(*r.hca, q.qpn)->state, QpState::rts);
  EQUAL(opcode(Rig::poll(q)), recv_opcode);
  EQUAL(std::memcmp(r.room(2), next.data(), next.size()), 0);
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(n.rx_too_long == 1 && n.rx_packets == 1 && n.rx_queue_down == 0);
  CU_ASSERT(r.sink.events.empty());
}

void a_frame_that_no_rule_wants_is_dropped_and_counted() {
  Rig r;
  RawQueue q = r.queue(0);
  r.receive(q, r.room(1), 2048);
  r.far->send(make_frame({}));
  r.run();
  EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::invalid);
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_no_rule, 1);
}

void a_multicast_frame_is_copied_to_every_queue_that_asks() {
  Rig r;
  RawQueue a = r.queue(0), b = r.queue(1);
  FlowSpec f = everything();
  f.dst[0] = f.dst_mask[0] = 1;
  CU_ASSERT(create_flow(*r.hca, a.qpn, f).ok());
  CU_ASSERT(create_flow(*r.hca, b.qpn, f).ok());
  r.receive(a, r.room(1), 2048);
  r.receive(b, r.room(2), 2048);
  Bytes frame = make_frame({.dst_first = 0x33});
  r.far->send(frame);
  r.run();
  CU_ASSERT(opcode(Rig::poll(a)) == recv_opcode && opcode(Rig::poll(b)) == recv_opcode);
  EQUAL(std::memcmp(r.room(1), frame.data(), frame.size()), 0);
  EQUAL(std::memcmp(r.room(2), frame.data(), frame.size()), 0);
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  CU_ASSERT(c.rx_packets == 1 && c.rx_copies == 1);
}

void a_queue_with_rules_cannot_be_destroyed() {
  Rig r;
  RawQueue q = r.queue(0);
  uint32_t rule = *create_flow(*r.hca, q.qpn, everything());
  EQUAL(destroy_qp(*r.hca, q.qpn), -EBUSY);
  EQUAL(destroy_flow(*r.hca, rule), 0);
  EQUAL(destroy_flow(*r.hca, rule), -ENOENT);
  EQUAL(destroy_qp(*r.hca, q.qpn), 0);
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
    {"completions say what a frame is and which checksums are right",
     completions_say_what_a_frame_is_and_which_checksums_are_right},
    {"a frame waits on the wire for a receive request",
     a_frame_waits_on_the_wire_for_a_receive_request},
    {"without flow control such a frame is dropped and counted",
     without_flow_control_such_a_frame_is_dropped_and_counted},
    {"a frame longer than its receive request is dropped alone",
     a_frame_longer_than_its_receive_request_is_dropped_alone},
    {"who does not receive stops no sender", who_does_not_receive_stops_no_sender},
    {"a dead adapter takes no frame", a_dead_adapter_takes_no_frame},
    {"a recording waits for receive requests", a_recording_waits_for_receive_requests},
    {"a frame that no rule wants is dropped and counted",
     a_frame_that_no_rule_wants_is_dropped_and_counted},
    {"a multicast frame is copied to every queue that asks",
     a_multicast_frame_is_copied_to_every_queue_that_asks},
    {"a queue with rules cannot be destroyed", a_queue_with_rules_cannot_be_destroyed},
};

}  // namespace

int main(int argc, char** argv) {
  if (!dma::install()) return 2;
  return run_cases("vhca/ethernet/eth", cases, argc, argv);
}
