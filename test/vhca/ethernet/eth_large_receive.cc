// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Segments of TCP that are received as one (LRO), and rules of what leaves: headers
// that they put in front, frames that they drop.
#include <algorithm>

#include "eth_fixture.hh"
#include "tunnel_fixture.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_large_receive_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

// A receive queue behind a TIR that joins segments.
struct Joining {
  explicit Joining(uint32_t bytes = 16384, uint32_t timeout_us = 1'000'000) : q(r.queue(0)) {
    std::memset(q.rq(), 0, 1024);
    TirSpec t;
    t.rqt = *create_rqt(*r.hca, {{ready_rq(r, q)}});
    t.lro_versions = lro::ipv4 | lro::ipv6;
    t.lro_bytes = bytes;
    t.lro_timeout_us = timeout_us;
    tirn = *create_tir(*r.hca, t, &r.sink);
    rule = *create_flow_to_tir(*r.hca, tirn, everything());
  }
  void post(std::size_t bytes = 16384) {
    const Bytes d = r.pointer(r.room(posted % 16), bytes);
    std::memcpy(q.rq() + posted % ring_wqes * 16, d.data(), 16);
    record_store(q.record() + 8, be32{++posted});
  }
  void send(const Bytes& frame) const {
    CU_ASSERT(r.far->send(frame) == wire::Wire::Sent::taken);
    r.run();
  }
  // The bytes of the next completion.
  [[nodiscard]] Bytes data(const prm::Cqe& c) const {
    const std::byte* at = r.room(c.wqe_counter.host() % 16);
    return {at, at + c.byte_cnt.host()};
  }
  Rig r;
  RawQueue q;
  uint32_t tirn = 0, rule = 0, posted = 0;
};

// A segment of a stream: data, no PSH unless it is said; its own acknowledgement and window.
Bytes segment(bool six, uint32_t seq, std::size_t bytes, uint8_t flags = 0x10, uint8_t ttl = 64) {
  const FrameSpec s{.ipv6 = six, .payload = bytes, .tcp_flags = flags, .seq = seq};
  Bytes b = make_frame(s);
  b[l3_of(s) + (six ? 7 : 8)] = std::byte{ttl};
  put32(b, l4_of(s) + 8, seq * 3);
  put16(b, l4_of(s) + 14, seq & 0x7fff);
  if (!six) {
    put16(b, l3_of(s) + 10, 0);
    put16(b, l3_of(s) + 10, ~folded(sum16(b, l3_of(s), l4_of(s))) & 0xffffu);
  }
  put16(b, l4_checksum_at(s), 0);
  put16(b, l4_checksum_at(s), ~l4_check(b, s) & 0xffffu);
  return b;
}
std::size_t payload_of(bool six) {
  return kilim::test::payload_of(FrameSpec{.ipv6 = six});
}

void segments_that_follow_are_received_as_one() {
  for (bool six : {false, true}) {
    Joining j;
    for (int i = 0; i < 4; i++) j.post();
    Bytes whole = segment(six, 1000, 501, 0x10, 60);
    for (auto [seq, bytes, flags, ttl] :
         {std::tuple{1000u, 501u, 0x10, 60}, std::tuple{1501u, 300u, 0x10, 50},
          std::tuple{1801u, 7u, 0x18, 61}}) {
      CU_ASSERT(opcode(Rig::poll(j.q)) != recv_opcode);
      Bytes s = segment(six, seq, bytes, static_cast<uint8_t>(flags), static_cast<uint8_t>(ttl));
      if (seq != 1000)
        whole.insert(whole.end(), s.begin() + static_cast<long>(payload_of(six)), s.end());
      if (s.size() < 60) s.resize(64);  // padding is not received
      j.send(s);
    }
    const prm::Cqe c = Rig::poll(j.q);
    EQUAL(opcode(c), recv_opcode);
    EQUAL(j.data(c), whole);
    EQUAL(prm::cqe::lro_num_seg::get(c), 3);
    EQUAL(c.lro_min_ttl, 50);
    EQUAL(c.lro_tcppsh_abort_dupack, prm::cqe::lro_push);
    EQUAL(c.lro_ack_seq_num.host(), 1801 * 3);
    EQUAL(c.lro_tcp_win.host(), 1801 & 0x7fff);
    EQUAL(c.hds_ip_ext, 7);
    // DPDK adds pseudo header and TCP's header to the sum of the payload (mlx5_lro_update_tcp_hdr).
    EQUAL(c.checksum.host(), folded(sum16(whole, payload_of(six), whole.size())));
    const PortCounters p = eth_port_counters(j.r.hca->eth, 1);
    EQUAL(p.rx_packets, 3);
    CU_ASSERT(opcode(Rig::poll(j.q)) != recv_opcode);
  }
}

// What ends a stream's frame: each row a second segment, and how many completions there are then.
void what_does_not_follow_is_received_by_itself() {
  struct Row {
    Bytes second;
    std::size_t frames;  // completed when it has come
  };
  const Bytes first = segment(false, 1000, 100);
  Bytes wrong = segment(false, 1100, 100);
  wrong[60] ^= std::byte{1};
  Bytes other = segment(false, 1100, 100);
  put16(other, 34, 5002);
  const FrameSpec spec{};
  put16(other, l4_checksum_at(spec), 0);
  FrameSpec as_sent{.payload = 100};
  put16(other, l4_checksum_at(spec), ~l4_check(other, as_sent) & 0xffffu);
  for (const Row& row :
       {Row{segment(false, 1100, 100), 0}, Row{segment(false, 1101, 100), 1},
        Row{segment(false, 1000, 100), 1}, Row{segment(false, 1100, 100, 0x11), 2},
        Row{segment(false, 1100, 0), 2}, Row{wrong, 2}, Row{other, 0},
        Row{make_frame({.tcp = false}), 1}, Row{segment(false, 1100, 100, 0x18), 1}}) {
    Joining j;
    for (int i = 0; i < 4; i++) j.post();
    j.send(first);
    j.send(row.second);
    std::size_t frames = 0;
    while (opcode(Rig::poll(j.q)) == recv_opcode) frames++;
    EQUAL(frames, row.frames);
    // What is kept is delivered before the TIR goes.
    EQUAL(destroy_flow(*j.r.hca, j.rule), 0);
    EQUAL(destroy_tir(*j.r.hca, j.tirn), 0);
    while (opcode(Rig::poll(j.q)) == recv_opcode) frames++;
    const PortCounters p = eth_port_counters(j.r.hca->eth, 1);
    EQUAL(p.rx_packets, 2);
    EQUAL(p.rx_bytes, first.size() + row.second.size());
  }
}

// A rule that marks, in the place of the one for everything: addresses of the link are no part of a
// stream.
uint32_t marked(Joining& j, uint8_t last_of_dst, uint32_t tag) {
  FlowSpec f = everything();
  f.dst[5] = last_of_dst;
  f.dst_mask[5] = 0xff;
  f.tags = true;
  f.tag = tag;
  return *create_flow_to_tir(*j.r.hca, j.tirn, f);
}

// A completion has one mark, so segments that rules mark otherwise are not joined: each frame has
// its own.
void segments_of_other_marks_are_not_joined() {
  Joining j;
  EQUAL(destroy_flow(*j.r.hca, j.rule), 0);
  const Bytes first = segment(false, 1000, 100);
  const auto last_of_dst = std::to_integer<uint8_t>(first[5]);
  (void)marked(j, last_of_dst, 0x111);
  (void)marked(j, last_of_dst ^ 1, 0x222);
  for (int i = 0; i < 4; i++) j.post();
  Bytes second = segment(false, 1100, 100), third = segment(false, 1200, 100, 0x18);
  second[5] ^= std::byte{1};
  third[5] ^= std::byte{1};
  for (const Bytes& s : {first, second, third}) j.send(s);
  const prm::Cqe one = Rig::poll(j.q), two = Rig::poll(j.q);
  EQUAL(opcode(one), recv_opcode);
  EQUAL(prm::cqe::qpn::get(one), 0x111);
  EQUAL(j.data(one), first);
  EQUAL(opcode(two), recv_opcode);
  EQUAL(prm::cqe::qpn::get(two), 0x222);
  EQUAL(prm::cqe::lro_num_seg::get(two), 2);
}

void size_and_time_end_it() {
  Joining j(512, 3000);
  for (int i = 0; i < 4; i++) j.post();
  j.send(segment(false, 1000, 300));
  j.send(segment(false, 1300, 300));  // 654 bytes would be too long
  prm::Cqe c = Rig::poll(j.q);
  EQUAL(c.byte_cnt.host(), 354);
  EQUAL(prm::cqe::lro_num_seg::get(c), 1);
  CU_ASSERT(opcode(Rig::poll(j.q)) != recv_opcode);
  std::vector<int> fds;
  uint64_t deadline = ~uint64_t{0};
  j.r.hca->wait_set(fds, deadline);
  CU_ASSERT(deadline != ~uint64_t{0});
  usleep(3500);
  j.r.run();
  c = Rig::poll(j.q);
  EQUAL(opcode(c), recv_opcode);
  EQUAL(c.byte_cnt.host(), 354);
}

// As long as the receive WQE has room; without one every segment is counted where it was lost.
void a_frame_is_no_longer_than_its_receive_request() {
  Joining j;
  j.post(500);
  for (uint32_t i = 0; i < 4; i++) j.send(segment(false, 1000 + 200 * i, 200));
  const prm::Cqe c = Rig::poll(j.q);
  EQUAL(opcode(c), recv_opcode);
  EQUAL(prm::cqe::lro_num_seg::get(c), 2);
  EQUAL(c.byte_cnt.host(), 454);
  EQUAL(destroy_flow(*j.r.hca, j.rule), 0);
  EQUAL(destroy_tir(*j.r.hca, j.tirn), 0);
  EQUAL(eth_port_counters(j.r.hca->eth, 1).rx_out_of_buffer, 2);
}

FlowSpec leaving() {
  FlowSpec rule;
  rule.by_buffer = rule.egress = true;
  return rule;
}

// The rules of the port's sending table: headers in front with their lengths, drops, counts.
void rules_of_what_leaves() {
  Rig r;
  RawQueue q = r.queue(0);
  for (bool six : {false, true}) {
    const TunnelSpec s{.outer6 = six, .inner = {.payload = 200}};
    const Bytes inner = make_frame(s.inner), whole = make_tunnel(s);
    Prepend p;
    p.count = static_cast<uint32_t>(whole.size() - inner.size());
    Bytes head(whole.begin(), whole.begin() + p.count);
    put16(head, outer_l3 + (six ? 4 : 2), 0);
    if (!six) put16(head, outer_l3 + 10, 0);
    put16(head, outer_l4(s) + 4, 0);
    std::copy(head.begin(), head.end(), p.bytes.begin());
    FlowCount count;
    FlowSpec rule = leaving();
    rule.prepend = &p;
    rule.count = &count;
    rule.buffer[8 + 5] = rule.buffer_mask[8 + 5] = 0x15;  // the last byte of the destination
    const uint32_t number = *create_ending_flow(*r.hca, rule);
    FlowSpec drop = leaving();
    drop.priority = 1;
    drop.drops = true;
    const uint32_t dropping = *create_ending_flow(*r.hca, drop);
    const PortCounters before = eth_port_counters(r.hca->eth, 1);
    r.send(q, r.load(0, inner), inner.size());
    Bytes other = inner;
    other[5] = std::byte{0x42};
    r.send(q, r.load(1, other), other.size());
    r.ring(q);
    r.run();
    EQUAL(r.arrived(), whole);
    CU_ASSERT(r.far->peek().empty());
    EQUAL(count.packets, 1);
    EQUAL(count.bytes, whole.size());
    const PortCounters after = eth_port_counters(r.hca->eth, 1);
    EQUAL(after.tx_packets - before.tx_packets, 1);
    EQUAL(after.tx_bytes - before.tx_bytes, whole.size());
    EQUAL(after.tx_filtered - before.tx_filtered, 1);
    for (int i = 0; i < 2; i++) EQUAL(opcode(Rig::poll(q)), ok_opcode);
    EQUAL(destroy_flow(*r.hca, number), 0);
    EQUAL(destroy_flow(*r.hca, dropping), 0);
    r.send(q, r.load(1, other), other.size());
    r.ring(q);
    r.run();
    EQUAL(r.arrived(), other);
    EQUAL(opcode(Rig::poll(q)), ok_opcode);
  }
}

// rdma-core tests/test_mlx5_dr.py, test_root_tbl_drop_action(): what a client sends another's rule
// drops and counts.
void a_rule_drops_what_another_client_sends() {
  Rig r;
  RawQueue q = r.queue(0);
  r.hca->eth.clients = 2;
  FlowCount count;
  FlowSpec rule = everything();
  rule.drops = true;
  rule.count = &count;
  CU_ASSERT(create_ending_flow(*r.hca, rule).ok());
  const Bytes frame = make_frame({});
  r.send(q, r.load(0, frame), frame.size());
  r.ring(q);
  r.run();
  EQUAL(count.packets, 1);
  EQUAL(eth_port_counters(r.hca->eth, 1).rx_filtered, 1);
  EQUAL(opcode(Rig::poll(q)), ok_opcode);
  r.hca->eth.clients = 0;
}

constexpr Case of_large_receives[] = {
    {"a rule drops what another client sends", a_rule_drops_what_another_client_sends},
    {"segments that follow are received as one", segments_that_follow_are_received_as_one},
    {"what does not follow is received by itself", what_does_not_follow_is_received_by_itself},
    {"segments of other marks are not joined", segments_of_other_marks_are_not_joined},
    {"size and time end it", size_and_time_end_it},
    {"a frame is no longer than its receive request",
     a_frame_is_no_longer_than_its_receive_request},
    {"rules of what leaves", rules_of_what_leaves},
};

}  // namespace
}  // namespace eth_large_receive_ut

std::span<const Case> kilim::test::eth_large_receive_cases() {
  return eth_large_receive_ut::of_large_receives;
}
