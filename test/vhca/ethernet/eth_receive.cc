// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Frames to completions: what is said of each, and which are dropped and counted.
#include "eth_fixture.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_receive_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

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
  EQUAL(s.data, arp);
  EQUAL(s.checks, 1);
  EQUAL(s.types, 0);
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
  EQUAL(c.rx_pauses, 1);
  EQUAL(c.rx_packets, 0);
  EQUAL(c.rx_out_of_buffer, 0);
  std::vector<int> fds;
  uint64_t deadline = ~uint64_t{0};
  r.hca->wait_set(fds, deadline);
  CU_ASSERT(deadline != ~uint64_t{0});
  CU_ASSERT(fds.empty());
  for (std::size_t i = 0; i < 3; ++i) r.receive(q, r.room(i), 2048);
  r.run();
  for (int i = 0; i < 3; ++i) EQUAL(opcode(Rig::poll(q)), recv_opcode);
  c = eth_port_counters(r.hca->eth, 1);
  EQUAL(c.rx_packets, 3);
  EQUAL(c.rx_pauses, 1);
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
  EQUAL(c.rx_out_of_buffer, 3);
  EQUAL(c.rx_pauses, 0);
  EQUAL(c.rx_packets, 0);
}

// As on a card: the sender's queue goes on however long nobody takes what it sends.
void who_does_not_receive_stops_no_sender() {
  Rig r;
  RawQueue q = r.queue(0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  constexpr uint64_t frames = 20'000;
  const Bytes frame = make_frame({.payload = 1000});
  uint64_t sent = 0;
  while (sent < frames && r.far->send(frame) == wire::Wire::Sent::taken)
    if (++sent % 100 == 0) r.run();
  r.run();
  EQUAL(sent, frames);
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  EQUAL(c.rx_out_of_buffer, frames);
  EQUAL(c.rx_packets, 0);
  r.receive(q, r.room(0), 2048);
  r.far->send(frame);
  r.run();
  EQUAL(opcode(Rig::poll(q)), recv_opcode);
}

void a_recording_waits_for_receive_requests() {
  const std::string file = "/proc/self/fd/" + std::to_string(memfd_create("recording", 0));
  {
    auto recorder = *wire::make_wire("pcap::" + file);
    for (uint8_t i = 0; i < 3; i++) recorder->send(make_frame({.payload = i}));
  }
  Rig r(false, "pcap:" + file);
  RawQueue q = r.queue(0);
  r.run();  // nobody asks for frames yet: none is read
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.run();
  PortCounters c = eth_port_counters(r.hca->eth, 1);
  EQUAL(c.rx_out_of_buffer, 0);
  EQUAL(c.rx_pauses, 1);
  for (std::size_t i = 0; i < 3; ++i) r.receive(q, r.room(i), 2048);
  r.run();
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 3);
}

void a_recording_waits_until_the_ports_rules_stand() {
  const std::string file = "/proc/self/fd/" + std::to_string(memfd_create("recording", 0));
  (*wire::make_wire("pcap::" + file))->send(make_frame({}));
  Rig r(false, "pcap:" + file);
  RawQueue q = r.queue(0);
  r.receive(q, r.room(0), 2048);
  // What a driver tries at its start, and a rule of others: the frame ends in neither.
  FlowSpec probe = everything();
  probe.drops = true;
  const auto tried = create_ending_flow(*r.hca, probe);
  CU_ASSERT_FATAL(tried.ok());
  r.run();
  EQUAL(destroy_flow(*r.hca, *tried), 0);
  FlowSpec broadcast = everything();
  broadcast.has_eth = true;
  broadcast.dst = broadcast.dst_mask = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  CU_ASSERT(create_flow(*r.hca, q.qpn, broadcast).ok());
  r.run();
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 0);
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_no_rule, 0);
  CU_ASSERT(create_flow(*r.hca, q.qpn, everything()).ok());
  r.run();
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_packets, 1);
}

// Queues come and go before anybody reads them: a driver that is set up twice, a port that is
// stopped and started. Where a client has read a frame the recording goes on behind them.
void a_recording_goes_back_where_nobody_has_read_it() {
  const std::string file = "/proc/self/fd/" + std::to_string(memfd_create("recording", 0));
  {
    auto recorder = *wire::make_wire("pcap::" + file);
    for (uint8_t i = 0; i < 5; i++) recorder->send(make_frame({.payload = i}));
  }
  Rig r(false, "pcap:" + file);
  std::size_t place = 0;
  // Gets frames, reads some and goes; the bytes of what it read.
  auto one_life = [&](std::size_t room, std::size_t reads) {
    RawQueue q = r.queue(place++);
    const auto rule = create_flow(*r.hca, q.qpn, everything());
    CU_ASSERT_FATAL(rule.ok());
    for (std::size_t i = 0; i < room; i++) r.receive(q, r.room(i), 2048);
    r.run();
    std::vector<std::size_t> read;
    for (std::size_t i = 0; i < reads; i++) read.push_back(Rig::poll(q).byte_cnt.host());
    EQUAL(destroy_flow(*r.hca, *rule), 0);
    EQUAL(destroy_qp(*r.hca, q.qpn), 0);
    return read;
  };
  const std::size_t shortest = make_frame({.payload = 0}).size();
  one_life(4, 0);
  one_life(2, 0);
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_returned, 6);
  CU_ASSERT(one_life(3, 1) == std::vector{shortest});
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_returned, 6);
  one_life(2, 0);
  CU_ASSERT(one_life(2, 2) == (std::vector{shortest + 3, shortest + 4}));
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_returned, 8);
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
  EQUAL(c.rx_packets, 0);
  EQUAL(c.rx_out_of_buffer, 0);
  EQUAL(c.rx_queue_down, 0);
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
  EQUAL(opcode(c), prm::CqeOpcode::resp_err);
  EQUAL(Rig::syndrome(c), 0x01);
  EQUAL(r.room(1)[0], std::byte{0});
  EQUAL(query_qp(*r.hca, q.qpn)->state, QpState::rts);
  EQUAL(opcode(Rig::poll(q)), recv_opcode);
  EQUAL(std::memcmp(r.room(2), next.data(), next.size()), 0);
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  EQUAL(n.rx_too_long, 1);
  EQUAL(n.rx_packets, 1);
  EQUAL(n.rx_queue_down, 0);
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
  EQUAL(c.rx_packets, 1);
  EQUAL(c.rx_copies, 1);
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

constexpr Case receiving[] = {
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
    {"a recording goes back where nobody has read it",
     a_recording_goes_back_where_nobody_has_read_it},
    {"a recording waits until the port's rules stand",
     a_recording_waits_until_the_ports_rules_stand},
    {"a frame that no rule wants is dropped and counted",
     a_frame_that_no_rule_wants_is_dropped_and_counted},
    {"a multicast frame is copied to every queue that asks",
     a_multicast_frame_is_copied_to_every_queue_that_asks},
    {"a queue with rules cannot be destroyed", a_queue_with_rules_cannot_be_destroyed},
};

}  // namespace
}  // namespace eth_receive_ut

std::span<const kilim::test::Case> kilim::test::eth_receive_cases() {
  return eth_receive_ut::receiving;
}
