// SPDX-License-Identifier: BSD-3-Clause
// Part of dynamic_ut. Packets put together by hand: of an earlier connection, of two initiators
// with one number, and messages of which half is missing.
#include <cstddef>
#include <vector>

#include "dynamic_fixture.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace dynamic_packets_ut {
namespace {

// A packet as an initiator of the left adapter would send it.
void send_frame(Pair& p, const Target& t, transport::roce::Op op, const transport::RocePacket& like,
                const Mac& from = left_mac) {
  transport::RocePath path{.src = from, .dst = right_mac};
  port_gid(from, 0, path.sgid);
  port_gid(right_mac, 0, path.dgid);
  transport::RocePacket q = like;
  q.service = transport::roce::Service::dc;
  q.op = op;
  q.flags =
      transport::roce::flags_of(q.service, *transport::roce::op_row(static_cast<uint8_t>(op)));
  q.dest_qpn = t.qpn.value();
  q.dc_key = good_key;
  if (q.src_qpn == 0) q.src_qpn = 0x99;
  std::vector<std::byte> frame(4096);
  frame.resize(transport::build_roce(path, q, 1024, frame));
  p.w.left.hca->config.wires[0]->send(frame);
  p.w.right.hca->run();
}

transport::RocePacket packet(uint64_t session, uint32_t base, uint32_t psn) {
  transport::RocePacket q;
  q.session = session;
  q.base_psn = base;
  q.psn = psn;
  return q;
}

void packets_of_an_earlier_connection_are_dropped() {
  Pair p;
  Target t(p.w.right);
  for (int i = 0; i < 4; i++) p.recv(t, 0, 4096);
  send_frame(p, t, transport::roce::Op::send_only, packet(0, 5, 5));
  CU_ASSERT(!t.queue.cq.poll().has_value());
  send_frame(p, t, transport::roce::Op::send_only, packet(20, 5, 5));
  send_frame(p, t, transport::roce::Op::send_only, packet(20, 5, 5));  // twice
  CU_ASSERT(t.queue.cq.poll().has_value() && !t.queue.cq.poll().has_value());
  send_frame(p, t, transport::roce::Op::send_only, packet(21, 6, 6));
  CU_ASSERT(t.queue.cq.poll().has_value());
  send_frame(p, t, transport::roce::Op::send_only, packet(20, 5, 5));
  send_frame(p, t, transport::roce::Op::send_only, packet(0, 7, 7));
  CU_ASSERT(!t.queue.cq.poll().has_value());
  // Who was silent for minutes has been started anew.
  std::vector<std::unique_ptr<wq::Qp>>& kept = p.w.right.hca->qps.at(t.qpn.value())->connections;
  for (const std::unique_ptr<wq::Qp>& c : kept) c->rc->heard_ns -= 120'000'000'000;
  send_frame(p, t, transport::roce::Op::send_only, packet(4, 5, 5));
  CU_ASSERT(t.queue.cq.poll().has_value());
}

// Numbers of connections are compared within one initiator.
void initiators_of_one_number_on_two_adapters_are_two() {
  Pair p;
  Target t(p.w.right);
  for (int i = 0; i < 3; i++) p.recv(t, 0, 4096);
  constexpr Mac third = {2, 0, 0, 0, 0, 3};
  send_frame(p, t, transport::roce::Op::send_only, packet(20, 5, 5));
  CU_ASSERT(t.queue.cq.poll().has_value());
  send_frame(p, t, transport::roce::Op::send_only, packet(10, 8, 8), third);
  CU_ASSERT(t.queue.cq.poll().has_value());
  send_frame(p, t, transport::roce::Op::send_only, packet(20, 5, 6));
  CU_ASSERT(t.queue.cq.poll().has_value());
}

void half_a_message_keeps_its_connection() {
  Pair p;
  Target t(p.w.right);
  p.recv(t, 0, 4096);
  send_frame(p, t, transport::roce::Op::send_first, packet(20, 5, 5));
  std::vector<std::unique_ptr<wq::Qp>>& kept = p.w.right.hca->qps.at(t.qpn.value())->connections;
  auto from = [](uint32_t qpn) {
    transport::RocePacket q = packet(30, 7, 7);
    q.src_qpn = qpn;
    return q;
  };
  for (uint32_t i = 0; i < 31; i++) {
    p.recv(t, 0, 4096);
    send_frame(p, t, transport::roce::Op::send_only, from(0x1000 + i));
    CU_ASSERT(t.queue.cq.poll().has_value());
  }
  // All have been silent for long; the half one the longest.
  for (const std::unique_ptr<wq::Qp>& c : kept) c->rc->heard_ns -= 1'000'000'000;
  p.recv(t, 0, 4096);
  send_frame(p, t, transport::roce::Op::send_only, from(0x2000));
  std::optional<Completion> c = t.queue.cq.poll();
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_send && c->bytes == 1024);
  send_frame(p, t, transport::roce::Op::send_last, packet(20, 5, 6));
  c = t.queue.cq.poll();
  CU_ASSERT(c.has_value() && c->op == prm::CqeOpcode::resp_send && c->bytes == 2048);
}

void half_a_message_gives_its_receive_back() {
  Pair p;
  Target t(p.w.right);
  p.recv(t, 0, 4096);
  p.recv(t, 0, 4096);
  send_frame(p, t, transport::roce::Op::send_first, packet(20, 5, 5));
  // The initiator starts anew.
  send_frame(p, t, transport::roce::Op::send_first, packet(21, 90, 90));
  std::optional<Completion> c = t.queue.cq.poll();
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush && c->index == 0);
  EQUAL(hca::destroy_qp(*p.w.right.hca, t.qpn), 0);
  c = t.queue.cq.poll();
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush && c->index == 1);
  EQUAL(t.queue.destroy(), 0);
}

constexpr Case of_packets[] = {
    {"packets of an earlier connection are dropped", packets_of_an_earlier_connection_are_dropped},
    {"initiators of one number on two adapters are two",
     initiators_of_one_number_on_two_adapters_are_two},
    {"half a message keeps its connection", half_a_message_keeps_its_connection},
    {"half a message gives its receive back", half_a_message_gives_its_receive_back},
};

}  // namespace
}  // namespace dynamic_packets_ut

std::span<const kilim::test::Case> kilim::vhca::test::dynamic_packet_cases() {
  return dynamic_packets_ut::of_packets;
}
