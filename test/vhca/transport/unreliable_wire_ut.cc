// SPDX-License-Identifier: BSD-3-Clause
// Unreliable connections and datagrams between two adapters: what arrives is whole and right, what
// is lost is lost without a word, and nobody waits.
#include <algorithm>
#include <random>

#include "kilim/prm/av_seg.hh"
#include "ut.hh"
#include "vhca/hca/ports.hh"
#include "vhca/wq/qp_error.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace {

constexpr std::size_t area = 1 << 20;

struct Sides {
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
  explicit Sides(WireRig& w)
      : near_key(w.left.reg(near, rw_access)), far_key(w.right.reg(far, rw_access)) {
    for (std::size_t i = 0; i < area; i++)
      near.data()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  [[nodiscard]] bool same(std::size_t near_at, std::size_t far_at, std::size_t n) const {
    return std::memcmp(near.data() + near_at, far.data() + far_at, n) == 0;
  }
  [[nodiscard]] Wqe with(Wqe w, std::size_t at, uint32_t n) const {
    return n == 0 ? w : w.data(near.at(at), n, near_key.lkey.value());
  }
  [[nodiscard]] Wqe write(Opcode op, std::size_t at, uint32_t n) const {
    return with(Wqe(op, 5).raddr(far.at(at), far_key.rkey.value()), at, n);
  }
};

bool good(const std::optional<Completion>& c) {
  return c.has_value() && c->op == prm::CqeOpcode::req;
}

LinkShape connection(uint8_t mtu = 1, const std::string& wire = {}) {
  LinkShape s{.left_wire = wire, .mtu = mtu};
  s.queue = {.sq_wqebbs = 256, .rq_wqes = 256, .type = QpType::uc};
  return s;
}

constexpr uint32_t lengths[] = {0, 1, 255, 256, 1024, 1025, 4096, 70000};

void messages_of_every_length_and_mtu_arrive() {
  for (uint8_t mtu = 1; mtu <= 5; mtu++) {
    WireRig w(connection(mtu));
    Sides s(w);
    std::size_t at = 1;
    for (uint32_t n : lengths) {
      CU_ASSERT(good(w.post(s.write(Opcode::rdma_write, at, n))));
      w.settle();
      CU_ASSERT(s.same(at, at, n) && (n == 0 || !s.same(at, at, n + 1)));
      at += n + 1;
      w.right.a.recv(s.far.at(at), 100'000, s.far_key.lkey.value());
      CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send_imm, 77), at, n).solicited())));
      std::optional<Completion> c = w.wait(w.right.cq_a);
      CU_ASSERT_FATAL(c.has_value());
      CU_ASSERT(c->op == prm::CqeOpcode::resp_send_imm && c->bytes == n && c->imm == 77);
      CU_ASSERT(c->solicited && s.same(at, at, n));
      at += n + 1;
    }
    EQUAL(w.right.state(w.right.a), QpState::rts);
  }
}

// Each message says in its first word which one it is; its bytes follow from that.
void on_a_bad_wire_what_arrives_is_whole() {
  WireRig w(connection(1, "+fault:drop:0.05:dup:0.05:reorder:0.05:corrupt:0.02:seed:3"));
  Sides s(w);
  constexpr uint32_t bytes = 1500, count = 200;
  for (uint32_t i = 0; i < count; i++) {
    auto* at = s.near.data() + i * bytes;
    std::fill_n(at, bytes, static_cast<std::byte>(i + 1));
    w.right.a.recv(s.far.at(i * bytes), bytes, s.far_key.lkey.value());
    w.left.a.put(s.with(Wqe(Opcode::send), i * bytes, bytes));
  }
  w.left.a.ring(w.left.uar);
  for (uint32_t i = 0; i < count; i++) CU_ASSERT_FATAL(good(w.wait(w.left.cq_a)));
  w.settle();
  uint32_t arrived = 0;
  int before = 0;
  while (std::optional<Completion> c = w.right.cq_a.poll()) {
    CU_ASSERT(c->op == prm::CqeOpcode::resp_send && c->bytes == bytes);
    const std::byte* got = s.far.data() + arrived * bytes;
    auto message = static_cast<int>(*got);
    CU_ASSERT(std::all_of(got, got + bytes, [got](std::byte b) { return b == *got; }));
    CU_ASSERT(message > before);
    before = message;
    arrived++;
  }
  // Six packets a message: about half of them have met no mishap.
  CU_ASSERT(arrived > 10 && arrived < count);
  CU_ASSERT(w.right.state(w.right.a) == QpState::rts && w.left.state(w.left.a) == QpState::rts);
}

void without_a_receive_nothing_waits() {
  WireRig w(connection());
  Sides s(w);
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 0, 1000))));
  w.settle();
  w.right.a.recv(s.far.at(0), 1000, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 5, 1000))));
  CU_ASSERT(w.wait(w.right.cq_a).has_value() && s.same(5, 0, 1000));
  CU_ASSERT(!w.right.cq_a.poll().has_value());
}

void what_is_not_allowed_is_dropped_or_fails_the_receive() {
  WireRig w(connection());
  Sides s(w);
  Wqe bad_key =
      s.with(Wqe(Opcode::rdma_write).raddr(s.far.at(0), s.far_key.rkey.value() + 1), 0, 9);
  CU_ASSERT(good(w.post(bad_key)));
  w.settle();
  EQUAL(s.far.data()[1], std::byte{0});
  EQUAL(w.right.state(w.right.a), QpState::rts);
  EQUAL(w.right.events.of(event::qp_access_err), 0);
  w.right.a.recv(s.far.at(0), 99, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(s.with(Wqe(Opcode::send), 0, 100))));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void what_needs_an_answer_is_refused_here() {
  for (Opcode op : {Opcode::rdma_read, Opcode::atomic_fa, Opcode::send_inval}) {
    WireRig w(connection());
    Sides s(w);
    std::optional<Completion> c = w.post(s.write(op, 0, 8));
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_qp_op);
  }
}

void a_peer_that_is_gone_stops_nobody() {
  WireRig w(connection());
  Sides s(w);
  w.right.to_state(w.right.a, QpState::reset);
  for (int i = 0; i < 20; i++) CU_ASSERT(good(w.post(s.write(Opcode::rdma_write, 0, 5000))));
  EQUAL(w.left.state(w.left.a), QpState::rts);
}

void draining_sends_the_message_under_way_to_its_end() {
  WireRig w(connection());
  Sides s(w);
  w.left.a.put(s.write(Opcode::rdma_write, 0, 70'000));
  w.left.a.put(s.write(Opcode::rdma_write, 100'000, 100));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(1);
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.en_sqd_async_notify = 1;
  EQUAL(modify_qp(*w.left.hca, w.left.a.qpn, attr, qp_mask::state | qp_mask::en_sqd_async), 0);
  EQUAL(w.left.events.count, 0);
  CU_ASSERT(good(w.wait(w.left.cq_a)));
  w.settle();
  CU_ASSERT(s.same(0, 0, 70'000) && w.left.events.count == 1);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
  w.left.to_state(w.left.a, QpState::rts);
  CU_ASSERT(good(w.wait(w.left.cq_a)));
  w.settle();
  CU_ASSERT(s.same(100'000, 100'000, 100));
}

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
Wqe datagram(const Sides& s, const prm::AvSeg& a, std::size_t at, uint32_t n) {
  return s.with(Wqe(Opcode::send_imm, 42).raw(&a, sizeof(a)), at, n);
}

void a_datagram_comes_with_the_header_of_its_packet() {
  WireRig w(datagrams());
  Sides s(w);
  Gid from, to;
  port_gid(left_mac, 0, from);
  port_gid(right_mac, 0, to);
  for (uint32_t n : {0u, 1u, 333u, 4096u}) {
    w.right.a.recv(s.far.at(0), 5000, s.far_key.lkey.value());
    CU_ASSERT(good(w.post(datagram(s, to_right(w), 3, n).solicited())));
    std::optional<Completion> c = w.wait(w.right.cq_a);
    CU_ASSERT_FATAL(c.has_value());
    CU_ASSERT(c->op == prm::CqeOpcode::resp_send_imm && c->imm == 42 && c->solicited);
    EQUAL(c->bytes, n + header);
    EQUAL(c->rqpn & 0xffffff, w.left.a.qpn.value());
    CU_ASSERT(s.same(3, header, n));
    prm::GrhSeg h;
    std::memcpy(&h, s.far.data(), sizeof(h));
    EQUAL(h.version_class_label.host(), 0x62154321);
    CU_ASSERT(h.hop_limit == 7 && h.next_header == 17);
    EQUAL(h.payload_bytes.host(), 8 + 12 + 8 + 4 + (n + 3) / 4 * 4 + 4);
    EQUAL(std::memcmp(h.sgid, from.data(), 16), 0);
    EQUAL(std::memcmp(h.dgid, to.data(), 16), 0);
  }
}

void datagrams_that_nobody_takes_are_lost_without_a_word() {
  WireRig w(datagrams());
  Sides s(w);
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
  Sides s(w);
  w.right.a.recv(s.far.at(0), header + 9, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(datagram(s, to_right(w), 0, 10))));
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_length);
}

void a_group_hears_on_both_ends() {
  WireRig w(datagrams());
  Sides s(w);
  Mac mac = {0x33, 0x33, group[12], group[13], group[14], group[15]};
  prm::AvSeg all = address(group, mac, 0xffffff);
  w.right.a.recv(s.far.at(0), 500, s.far_key.lkey.value());
  CU_ASSERT(good(w.post(datagram(s, all, 0, 100))));
  w.settle();
  CU_ASSERT(!w.right.cq_a.poll().has_value());  // not a member yet
  EQUAL(join_group(*w.right.hca, w.right.a.qpn, group), 0);
  EQUAL(join_group(*w.left.hca, w.left.a.qpn, group), 0);
  w.left.a.recv(s.near.at(500'000), 500, s.near_key.lkey.value());
  w.left.a.put(datagram(s, all, 0, 100));
  w.left.a.ring(w.left.uar);
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->bytes == 140 && s.same(0, header, 100));
  EQUAL(std::memcmp(s.far.data() + 24, group.data(), 16), 0);
  unsigned sent = 0, received = 0;
  for (int i = 0; i < 2; i++) {
    c = w.wait(w.left.cq_a);
    sent += good(c);
    received += c.has_value() && c->op == prm::CqeOpcode::resp_send_imm && c->bytes == 140;
  }
  CU_ASSERT(sent == 1 && received == 1);
  leave_groups(*w.right.hca, w.right.a.qpn);
  leave_groups(*w.left.hca, w.left.a.qpn);
}

// A message from one side to the other, of either service.
Wqe message(const WireRig& w, const Sides& s, bool from_left, uint32_t bytes) {
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
    Sides s(w);
    for (int i = 0; i < 2; i++) w.left.a.recv(s.near.at(9000), 2000, s.near_key.lkey.value());
    w.right.a.recv(s.far.at(9000), 2000, s.far_key.lkey.value());
    const Sides gone(w);
    EQUAL(dereg_mr(*w.left.hca, index_of(gone.near_key.lkey)), 0);
    w.left.a.put(message(w, gone, true, 500));
    w.left.a.put(message(w, s, true, 500));
    w.left.a.ring(w.left.uar);
    std::optional<Completion> c = w.wait(w.left.cq_a);
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_prot && c->index == 0);
    c = w.wait(w.left.cq_a);
    CU_ASSERT(c.has_value() && c->syndrome == Syndrome::wr_flush);
    CU_ASSERT(w.left.state(w.left.a) == QpState::sqe && w.left.events.count == 0);
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

// Its sequence numbers are used up: the peer drops what it has of it.
void a_message_that_fails_half_way_is_left_behind() {
  WireRig w(connection());
  Sides s(w), more(w);
  w.left.a.put(s.write(Opcode::rdma_write, 0, 70'000));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(1);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
  EQUAL(dereg_mr(*w.left.hca, index_of(s.near_key.lkey)), 0);
  std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::local_prot);
  EQUAL(w.left.state(w.left.a), QpState::sqe);
  EQUAL(w.left.to_state(w.left.a, QpState::rts), 0);
  for (std::size_t at : {1000u, 5000u}) {
    CU_ASSERT(good(w.post(more.write(Opcode::rdma_write, at, 3000))));
    w.settle();
    CU_ASSERT(more.same(at, at, 3000));
  }
  EQUAL(w.right.state(w.right.a), QpState::rts);
}

constexpr Case cases[] = {
    {"messages of every length and MTU arrive", messages_of_every_length_and_mtu_arrive},
    {"on a bad wire what arrives is whole", on_a_bad_wire_what_arrives_is_whole},
    {"without a receive nothing waits", without_a_receive_nothing_waits},
    {"what is not allowed is dropped or fails the receive",
     what_is_not_allowed_is_dropped_or_fails_the_receive},
    {"what needs an answer is refused here", what_needs_an_answer_is_refused_here},
    {"a peer that is gone stops nobody", a_peer_that_is_gone_stops_nobody},
    {"draining sends the message under way to its end",
     draining_sends_the_message_under_way_to_its_end},
    {"a datagram comes with the header of its packet",
     a_datagram_comes_with_the_header_of_its_packet},
    {"datagrams that nobody takes are lost without a word",
     datagrams_that_nobody_takes_are_lost_without_a_word},
    {"a datagram longer than its receive fails it", a_datagram_longer_than_its_receive_fails_it},
    {"a group hears on both ends", a_group_hears_on_both_ends},
    {"a failed send ends the send queue alone", a_failed_send_ends_the_send_queue_alone},
    {"a message that fails half way is left behind", a_message_that_fails_half_way_is_left_behind},
};

}  // namespace

KILIM_UT_MAIN("vhca/transport unreliable services on a wire", cases)
