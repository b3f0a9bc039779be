// SPDX-License-Identifier: BSD-3-Clause
// Part of unreliable_wire_ut. Datagrams and multicast groups, and what a failed send leaves behind.
#include <cerrno>

#include "kilim/prm/av_seg.hh"
#include "unreliable_fixture.hh"
#include "vhca/hca/ports.hh"
#include "vhca/transport/groups.hh"
#include "vhca/wq/qp_error.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace datagram_wire_ut {
namespace {

// Datagrams.

constexpr Gid group = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
constexpr uint32_t header = sizeof(prm::GrhSeg);

LinkShape datagrams() {
  LinkShape s;
  s.queue.type = QpType::ud;
  return s;
}

prm::AvSeg address(const Gid& gid, const Mac& mac, uint32_t qpn,
                   uint32_t key = WireRig::datagram_key) {
  prm::AvSeg a{};
  a.qkey = be32{key};
  a.dqp = be32{prm::av::extended::at(1u) | prm::av::qpn::at(qpn)};
  std::copy(gid.begin(), gid.end(), a.rgid);
  std::copy(mac.begin(), mac.end(), a.rmac);
  a.grh_gid_fl = be32{1u << 30 | prm::av::flow_label::at(0x54321u)};
  a.tclass = 0x21;
  a.hop_limit = 7;
  return a;
}

prm::AvSeg to_right(const WireRig& w, uint32_t key = WireRig::datagram_key) {
  Gid gid;
  port_gid(right_mac, 0, gid);
  return address(gid, right_mac, w.right.a.qpn.value(), key);
}

Wqe datagram(const UnreliableSides& s, const prm::AvSeg& a, std::size_t at, uint32_t n) {
  return s.with(Wqe(Opcode::send_imm, 42).raw(&a, sizeof(a)), at, n);
}

void a_datagram_comes_with_the_header_of_its_packet() {
  WireRig w(datagrams());
  UnreliableSides s(w);
  Gid from, to;
  port_gid(left_mac, 0, from);
  port_gid(right_mac, 0, to);
  for (uint32_t n : {0u, 1u, 333u, 4096u}) {
    w.right.a.recv(s.far.at(0), 5000, s.far_key.lkey.value());
    CU_ASSERT(good(w.post(datagram(s, to_right(w), 3, n).solicited())));
    std::optional<Completion> c = w.wait(w.right.cq_a);
    CU_ASSERT_FATAL(c.has_value());
    EQUAL(c->op, prm::CqeOpcode::resp_send_imm);
    EQUAL(c->imm, 42);
    CU_ASSERT(c->solicited);
    EQUAL(c->bytes, n + header);
    EQUAL(c->rqpn & 0xffffff, w.left.a.qpn.value());
    CU_ASSERT(s.same(3, header, n));
    prm::GrhSeg h;
    std::memcpy(&h, s.far.data(), sizeof(h));
    EQUAL(h.version_class_label.host(), 0x62154321);
    EQUAL(h.hop_limit, 7);
    EQUAL(h.next_header, 17);
    EQUAL(h.payload_bytes.host(), 8 + 12 + 8 + 4 + (n + 3) / 4 * 4 + 4);
    EQUAL(std::memcmp(h.sgid, from.data(), 16), 0);
    EQUAL(std::memcmp(h.dgid, to.data(), 16), 0);
  }
}

void datagrams_that_nobody_takes_are_lost_without_a_word() {
  WireRig w(datagrams());
  UnreliableSides s(w);
  prm::AvSeg nobody = to_right(w);
  nobody.dqp = be32{prm::av::extended::at(1u) | prm::av::qpn::at(0x999u)};
  CU_ASSERT(good(w.post(datagram(s, nobody, 0, 10))));
  CU_ASSERT(good(w.post(datagram(s, to_right(w), 0, 10))));  // no receive WQE
  w.settle();
  w.right.a.recv(s.far.at(0), 5000, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(datagram(s, to_right(w, 1), 0, 10))));  // another key
  w.settle();
  CU_ASSERT(!w.right.cq_a.poll().has_value());
  CU_ASSERT(good(w.post(datagram(s, to_right(w), 0, 10))));
  CU_ASSERT(w.wait(w.right.cq_a).has_value());
  std::optional<Completion> c = w.post(datagram(s, to_right(w), 0, 4097));
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void a_datagram_longer_than_its_receive_fails_it() {
  WireRig w(datagrams());
  UnreliableSides s(w);
  w.right.a.recv(s.far.at(0), header + 9, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(datagram(s, to_right(w), 0, 10))));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void a_group_hears_on_both_ends() {
  WireRig w(datagrams());
  UnreliableSides s(w);
  Mac mac = {0x33, 0x33, group[12], group[13], group[14], group[15]};
  prm::AvSeg all = address(group, mac, 0xffffff);
  w.right.a.recv(s.far.at(0), 500, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(datagram(s, all, 0, 100))));
  w.settle();
  CU_ASSERT(!w.right.cq_a.poll().has_value());  // not a member yet
  EQUAL(hca::join_group(*w.right.hca, w.right.a.qpn, group), 0);
  EQUAL(hca::join_group(*w.left.hca, w.left.a.qpn, group), 0);
  w.left.a.recv(s.near.at(500'000), 500, s.near_key.lkey.value());
  w.left.a.put(datagram(s, all, 0, 100));
  w.left.a.ring(w.left.uar);
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->bytes == 140);
  CU_ASSERT(s.same(0, header, 100));
  EQUAL(std::memcmp(s.far.data() + 24, group.data(), 16), 0);
  unsigned sent = 0, received = 0;
  for (int i = 0; i < 2; i++) {
    c = w.wait(w.left.cq_a);
    sent += good(c);
    received += c.has_value() && c->op == prm::CqeOpcode::resp_send_imm && c->bytes == 140;
  }
  EQUAL(sent, 1);
  EQUAL(received, 1);
  hca::leave_groups(*w.right.hca, w.right.a.qpn);
  hca::leave_groups(*w.left.hca, w.left.a.qpn);
}

// Each group has its own members (ibv_device_attr, max_mcast_qp_attach), whatever others have.
void a_group_that_is_full_leaves_room_in_others() {
  transport::Groups groups;
  wq::Qp queues[3];
  for (wq::Qp& qp : queues) qp.type = QpType::ud;
  Gid other = group;
  other[15] ^= 1;
  constexpr transport::GroupLimits most{.groups = 4, .members = 2};
  for (const Gid& gid : {group, other}) {
    EQUAL(transport::join_group(groups, most, queues[0], gid), 0);
    EQUAL(transport::join_group(groups, most, queues[1], gid), 0);
    EQUAL(transport::join_group(groups, most, queues[1], gid), 0);  // is in it already
    EQUAL(transport::join_group(groups, most, queues[2], gid), -ENOMEM);
  }
  EQUAL(transport::leave_group(groups, queues[0], other), 0);
  EQUAL(transport::join_group(groups, most, queues[2], other), 0);
  EQUAL(transport::leave_group(groups, queues[1], group), 0);
  EQUAL(transport::join_group(groups, {.groups = 3, .members = 2}, queues[2], group), -ENOMEM);
}

// A message from one side to the other, of either service.
Wqe message(const WireRig& w, const UnreliableSides& s, bool from_left, uint32_t bytes) {
  Wqe wqe(Opcode::send);
  if (w.left.a.shape.type == QpType::ud) {
    Gid gid;
    const Mac& mac = from_left ? right_mac : left_mac;
    port_gid(mac, 0, gid);
    const prm::AvSeg a = address(gid, mac, (from_left ? w.right : w.left).a.qpn.value());
    wqe.raw(&a, sizeof(a));
  }
  return from_left ? wqe.data(s.near.at(0), bytes, s.near_key.lkey.value())
                   : wqe.data(s.far.at(0), bytes, s.far_key.lkey.value());
}

bool received(const std::optional<Completion>& c) {
  return c.has_value() && c->op == prm::CqeOpcode::resp_send;
}

void a_failed_send_ends_the_send_queue_alone() {
  for (const LinkShape& shape : {connection(), datagrams()}) {
    WireRig w(shape);
    UnreliableSides s(w);
    for (int i = 0; i < 2; i++) w.left.a.recv(s.near.at(9000), 2000, s.near_key.lkey.value());
    w.right.a.recv(s.far.at(9000), 2000, s.far_key.lkey.value());
    const UnreliableSides gone(w);
    EQUAL(hca::dereg_mr(*w.left.hca, index_of(gone.near_key.lkey)), 0);
    w.left.a.put(message(w, gone, true, 500));
    w.left.a.put(message(w, s, true, 500));
    w.left.a.ring(w.left.uar);
    std::optional<Completion> c = w.wait(w.left.cq_a);
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_prot && c->index == 0);
    c = w.wait(w.left.cq_a);
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush);
    EQUAL(w.left.state(w.left.a), QpState::sqe);
    EQUAL(w.left.events.count, 0);
    c = w.post(message(w, s, true, 500));
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush);
    w.right.a.put(message(w, s, false, 600));
    w.right.a.ring(w.right.uar);
    CU_ASSERT(received(w.wait(w.left.cq_a)) && good(w.wait(w.right.cq_a)));
    EQUAL(w.left.to_state(w.left.a, QpState::rts), 0);
    CU_ASSERT(good(w.post(message(w, s, true, 500))) && received(w.wait(w.right.cq_a)));
    CU_ASSERT(!w.left.cq_a.poll().has_value() && !w.right.cq_a.poll().has_value());
  }
}

constexpr Case of_datagrams[] = {
    {"a datagram comes with the header of its packet",
     a_datagram_comes_with_the_header_of_its_packet},
    {"datagrams that nobody takes are lost without a word",
     datagrams_that_nobody_takes_are_lost_without_a_word},
    {"a datagram longer than its receive fails it", a_datagram_longer_than_its_receive_fails_it},
    {"a group hears on both ends", a_group_hears_on_both_ends},
    {"a group that is full leaves room in others", a_group_that_is_full_leaves_room_in_others},
    {"a failed send ends the send queue alone", a_failed_send_ends_the_send_queue_alone},
};

}  // namespace
}  // namespace datagram_wire_ut

std::span<const kilim::test::Case> kilim::vhca::test::datagram_cases() {
  return datagram_wire_ut::of_datagrams;
}
