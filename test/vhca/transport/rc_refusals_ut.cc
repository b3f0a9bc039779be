// SPDX-License-Identifier: BSD-3-Clause
// What an RC queue refuses: each row is one violation with the requester's syndrome, the
// responder's completion, both queues' states and the event; no byte of either side's memory may
// change.
#include <optional>
#include <vector>

#include "ut.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace rc_refusals_ut {
namespace {

constexpr uint32_t no_event = 99, qp_req_err = 2, qp_access_err = 3;

// Keys of all kinds of trouble over the same memory.
struct Bench {
  Bench();
  Rig rig;
  Pages src{8192}, dst{8192};
  MrKeys good_src{}, good{}, read_only{}, write_only{}, other_pd{};
  uint32_t freed = 0, stale = 0, invalid = 0;
};

Bench::Bench() {
  for (const Pages* p : {&src, &dst}) std::memset(p->data(), p == &src ? 0x11 : 0x22, p->size());
  good_src = rig.reg(src, rw_access);
  good = rig.reg(dst, rw_access);
  read_only = rig.reg(dst, access::remote_read);
  write_only = rig.reg(dst, access::local_write | access::remote_write);
  MrSpec foreign{*hca::alloc_pd(*rig.hca), dst.va(), dst.size(), Iova{dst.at(0)}, rw_access};
  other_pd = *hca::reg_mr(*rig.hca, foreign);
  freed = rig.reg(dst, rw_access).rkey.value();
  EQUAL(hca::dereg_mr(*rig.hca, MkeyIndex{freed >> 8}), 0);
  stale = (good.rkey.value() & ~0xffu) | ((good.rkey.value() + 1) & 0xff);
  invalid = rig.make_key(4);
}

Wqe write(Bench& t, uint64_t addr, uint32_t n, uint32_t rkey) {
  Wqe w(Opcode::rdma_write);
  w.raddr(addr, rkey).data(t.src.at(0), n, t.good_src.lkey.value());
  return w;
}
Wqe read(Bench& t, uint64_t addr, uint32_t n, uint32_t rkey, uint32_t lkey) {
  Wqe w(Opcode::rdma_read);
  w.raddr(addr, rkey).data(t.src.at(0), n, lkey);
  return w;
}
Wqe add(Bench& t, uint64_t addr, uint32_t rkey) {
  Wqe w(Opcode::atomic_fa);
  w.raddr(addr, rkey).atomic(1, 0).data(t.src.at(0), 8, t.good_src.lkey.value());
  return w;
}
// The key of a list whose first piece ends within a word.
uint32_t torn_word(Bench& t) {
  const uint32_t key = t.rig.make_key(4);
  const std::array<prm::Klm, 2> list = {klm(t.dst.at(0), 12, t.good.lkey.value()),
                                        klm(t.dst.at(64), 12, t.good.lkey.value())};
  UmrShape shape;
  shape.mask |= prm::umr::mask_atomic;
  shape.access |= prm::mkey::atomic;
  shape.len = 24;
  EQUAL(t.rig.run_one(t.rig.b, umr_wqe(key, shape, list)).syndrome, Syndrome::none);
  return key;
}
Wqe send_from(uint64_t addr, uint32_t n, uint32_t lkey) {
  Wqe w(Opcode::send);
  w.data(addr, n, lkey);
  return w;
}
Wqe send_into(Bench& t, uint64_t addr, uint32_t n, uint32_t lkey) {
  t.rig.b.recv(addr, n, lkey);
  return send_from(t.src.at(0), 64, t.good_src.lkey.value());
}
Wqe empty_wqe_of(uint8_t opcode) {
  Wqe w(Opcode::nop);
  w.bytes[3] = std::byte{opcode};
  return w;
}
// Modifies B's permissions, which RTS allows.
void permit(Bench& t, uint32_t access) {
  QpAttr attr;
  attr.access = access;
  EQUAL(hca::modify_qp(*t.rig.hca, t.rig.b.qpn, attr, qp_mask::access), 0);
}

struct Row {
  const char* name;
  Wqe (*make)(Bench&);
  Syndrome requester;
  Syndrome responder;  // of its receive completion; none: it has none
  bool responder_dies;
  uint32_t event;
  uint8_t vendor;  // beside the requester's syndrome, as cards were seen to write
};

// clang-format off
const Row rows[] = {
    {"write: unknown key", [](Bench& t) { return write(t, t.dst.at(0), 64, 0x77777700); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: stale tag", [](Bench& t) { return write(t, t.dst.at(0), 64, t.stale); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: deregistered", [](Bench& t) { return write(t, t.dst.at(0), 64, t.freed); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: free key", [](Bench& t) { return write(t, 0, 64, t.invalid); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: other domain", [](Bench& t) { return write(t, t.dst.at(0), 64, t.other_pd.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: right missing", [](Bench& t) { return write(t, t.dst.at(0), 64, t.read_only.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: a byte behind", [](Bench& t) { return write(t, t.dst.at(8129), 64, t.good.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: a byte before", [](Bench& t) { return write(t, t.dst.at(0) - 1, 64, t.good.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: address wraps", [](Bench& t) { return write(t, ~0ull - 8, 64, t.good.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"write: queue forbids", [](Bench& t) { permit(t, access::remote_read); return write(t, t.dst.at(0), 64, t.good.rkey.value()); }, Syndrome::remote_inval_req, Syndrome::none, true, qp_req_err, 0x8a},
    {"write: local key bad", [](Bench& t) { Wqe w(Opcode::rdma_write); w.raddr(t.dst.at(0), t.good.rkey.value()).data(t.src.at(0), 64, t.stale); return w; }, Syndrome::local_prot, Syndrome::none, false, no_event, 0x52},
    {"read: right missing", [](Bench& t) { return read(t, t.dst.at(0), 64, t.write_only.rkey.value(), t.good_src.lkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"read: more than 512 bytes", [](Bench& t) { Wqe w(Opcode::rdma_read); w.raddr(t.dst.at(0), t.good.rkey.value()); for (int i = 0; i < 31; i++) w.data(t.src.at(0), 1, t.good_src.lkey.value()); return w; }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"read: out of bounds", [](Bench& t) { return read(t, t.dst.at(8190), 64, t.good.rkey.value(), t.good_src.lkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"read: queue forbids", [](Bench& t) { permit(t, access::remote_write); return read(t, t.dst.at(0), 64, t.good.rkey.value(), t.good_src.lkey.value()); }, Syndrome::remote_inval_req, Syndrome::none, true, qp_req_err, 0x8a},
    {"read: into read-only memory", [](Bench& t) { Wqe w(Opcode::rdma_read); w.raddr(t.dst.at(0), t.good.rkey.value()).data(t.dst.at(64), 8, t.read_only.lkey.value()); return w; }, Syndrome::local_prot, Syndrome::none, false, no_event, 0x33},
    {"atomic: unaligned", [](Bench& t) { return add(t, t.dst.at(4), t.good.rkey.value()); }, Syndrome::remote_inval_req, Syndrome::none, true, qp_req_err, 0x8a},
    {"atomic: right missing", [](Bench& t) { return add(t, t.dst.at(8), t.write_only.rkey.value()); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"atomic: no place for the answer", [](Bench& t) { Wqe w(Opcode::atomic_fa); w.raddr(t.dst.at(8), t.good.rkey.value()).atomic(1, 0).data(t.src.at(0), 8, t.freed); return w; }, Syndrome::local_prot, Syndrome::none, false, no_event, 0x32},
    {"atomic: word over two pieces", [](Bench& t) { return add(t, 8, torn_word(t)); }, Syndrome::remote_access, Syndrome::none, true, qp_access_err, 0x88},
    {"atomic: queue forbids", [](Bench& t) { permit(t, access::remote_write); return add(t, t.dst.at(8), t.good.rkey.value()); }, Syndrome::remote_inval_req, Syndrome::none, true, qp_req_err, 0x8a},
    {"atomic: answer too long for its place", [](Bench& t) { Wqe w(Opcode::atomic_fa); w.raddr(t.dst.at(8), t.good.rkey.value()).atomic(1, 0).data(t.src.at(0), 4, t.good_src.lkey.value()); return w; }, Syndrome::local_length, Syndrome::none, false, no_event, 0},
    {"send: local key unknown", [](Bench& t) { t.rig.b.recv(t.dst.at(0), 64, t.good.lkey.value()); return send_from(t.src.at(0), 8, 0x123400); }, Syndrome::local_prot, Syndrome::wr_flush, false, no_event, 0x52},
    {"send: into a receive with the bit of inline data", [](Bench& t) { return send_into(t, t.dst.at(0), 0x80000040, t.good.lkey.value()); }, Syndrome::remote_op, Syndrome::local_qp_op, true, no_event, 0x89},
    {"send: into a receive that says nothing but that bit", [](Bench& t) { return send_into(t, t.dst.at(0), 0x80000000, t.good.lkey.value()); }, Syndrome::remote_op, Syndrome::local_qp_op, true, no_event, 0x89},
    {"send: local out of bounds", [](Bench& t) { return send_from(t.src.at(8190), 8, t.good_src.lkey.value()); }, Syndrome::local_prot, Syndrome::none, false, no_event, 0x53},
    {"send: longer than its receive WQE", [](Bench& t) { return send_into(t, t.dst.at(0), 63, t.good.lkey.value()); }, Syndrome::remote_inval_req, Syndrome::local_length, true, no_event, 0x8a},
    {"send: into memory not writable", [](Bench& t) { return send_into(t, t.dst.at(0), 64, t.read_only.lkey.value()); }, Syndrome::remote_op, Syndrome::local_prot, true, no_event, 0x89},
    {"send: into a key of another domain", [](Bench& t) { return send_into(t, t.dst.at(0), 64, t.other_pd.lkey.value()); }, Syndrome::remote_op, Syndrome::local_prot, true, no_event, 0x89},
    {"send: longer than 2 GiB", [](Bench& t) { return send_from(t.src.at(0), 0, t.good_src.lkey.value()).data(t.src.at(0), 1, t.good_src.lkey.value()); }, Syndrome::local_length, Syndrome::none, false, no_event, 0},
    {"opcode unknown", [](Bench&) { return empty_wqe_of(0x3e); }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"opcode of other queues", [](Bench&) { return empty_wqe_of(0x0e); }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"write: no address", [](Bench&) { return empty_wqe_of(0x08); }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"inline data longer than its WQE", [](Bench&) { Wqe w(Opcode::send); uint32_t n = be32{0x80000100}.raw(); std::array<uint32_t, 4> seg = {n, 0, 0, 0}; w.raw(seg.data(), 16); return w; }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"inline data of a read", [](Bench& t) { Wqe w(Opcode::rdma_read); std::array<std::byte, 8> x{}; w.raddr(t.dst.at(0), t.good.rkey.value()).inlined(x); return w; }, Syndrome::local_qp_op, Syndrome::none, false, no_event, 0x68},
    {"UMR: no such key", [](Bench&) { return umr_wqe(0x123400, {}, {}); }, Syndrome::mw_bind, Syndrome::none, false, no_event, 0x78},
    {"UMR: of a pinned region", [](Bench& t) { return umr_wqe(t.good.lkey.value(), {}, {}); }, Syndrome::mw_bind, Syndrome::none, false, no_event, 0x78},
    {"local invalidate: free already", [](Bench& t) { return Wqe(Opcode::local_inval, t.invalid); }, Syndrome::mw_bind, Syndrome::none, false, no_event, 0x78},
};
// clang-format on

bool untouched(const Bench& t) {
  for (std::size_t i = 0; i < t.dst.size(); i++) {
    if (t.dst.data()[i] != std::byte{0x22} || t.src.data()[i] != std::byte{0x11}) return false;
  }
  return true;
}

void check(const Row& row, bool ok, const char* what) {
  if (!ok) std::printf("\n    %s: %s\n", row.name, what);
  CU_ASSERT(ok);
}

// Of the completion that was taken last.
bool has_vendor(const TestCq& cq, uint8_t vendor) {
  prm::ErrCqe e;
  const std::size_t slot = (cq.ci - 1) & (cq.entries - 1);
  std::memcpy(&e, cq.memory.data() + slot * cq.entry_bytes, sizeof(e));
  return e.vendor_err_synd == vendor;
}

void check_requester(const Row& row, Bench& t) {
  std::optional<Completion> c = t.rig.wait(t.rig.cq_a);
  check(row, c && c->op == prm::CqeOpcode::req_err && c->index == 0, "error completion");
  check(row, c && c->syndrome == row.requester, "syndrome");
  check(row, has_vendor(t.rig.cq_a, row.vendor), "vendor's syndrome");
  c = t.rig.cq_a.poll();
  check(row, c && c->syndrome == Syndrome::wr_flush && c->index != 0, "the rest is flushed");
  check(row, has_vendor(t.rig.cq_a, 0xf9), "vendor's syndrome of a flush");
  check(row, !t.rig.cq_a.poll(), "nothing else");
  check(row, t.rig.state(t.rig.a) == QpState::err, "requester in ERR");
}

void each_violation_has_its_syndrome() {
  for (const Row& row : rows) {
    Bench t;
    Wqe w = row.make(t);
    t.rig.a.put(w.quiet());  // errors complete even where nothing was asked for
    t.rig.a.put(Wqe(Opcode::nop).quiet());
    t.rig.a.ring(t.rig.uar);
    check_requester(row, t);
    QpState b = row.responder_dies ? QpState::err : QpState::rts;
    check(row, t.rig.state(t.rig.b) == b, "responder's state");
    if (row.responder == Syndrome::wr_flush) {
      EQUAL(t.rig.to_state(t.rig.b, QpState::err), 0);
      t.rig.run();
    }
    const std::optional<Completion> c = t.rig.cq_b.poll();
    check(row, (row.responder == Syndrome::none) == !c, "responder's completion");
    check(row, !c || (c->syndrome == row.responder && c->op == prm::CqeOpcode::resp_err),
          "responder's syndrome");
    check(row, t.rig.events.count == (row.event == no_event ? 0u : 1u), "number of events");
    check(row, row.event == no_event || t.rig.events.of(row.event) == 1, "event");
    check(row, untouched(t), "memory intact");
  }
}

void nothing_is_checked_of_no_bytes() {
  Bench t;
  Wqe w(Opcode::rdma_write);
  w.raddr(1, 0x123400);
  EQUAL(t.rig.run_one(t.rig.a, w).op, prm::CqeOpcode::req);
  EQUAL(t.rig.state(t.rig.a), QpState::rts);
  EQUAL(t.rig.state(t.rig.b), QpState::rts);
}

void a_malformed_control_segment_stops_the_queue() {
  for (int what = 0; what < 4; what++) {
    Bench t;
    t.rig.a.put(Wqe(Opcode::nop));
    t.rig.a.publish();
    std::byte* w = t.rig.a.sq.data();
    if (what == 0) w[7] = std::byte{0};      // ds 0
    if (what == 1) w[7] = std::byte{63};     // longer than what is posted
    if (what == 2) w[5] ^= std::byte{0xff};  // another queue's number
    if (what == 3) w[2] ^= std::byte{1};     // another index
    t.rig.a.ring(t.rig.uar);
    std::optional<Completion> c = t.rig.wait(t.rig.cq_a);
    CU_ASSERT(c && c->syndrome == Syndrome::local_qp_op && c->index == 0);
    EQUAL(t.rig.state(t.rig.a), QpState::err);
  }
}

void a_queue_without_receive_wqe_is_tried_again() {
  Bench t;
  t.rig.a.put(send_from(t.src.at(0), 64, t.good_src.lkey.value()));
  t.rig.a.ring(t.rig.uar);
  t.rig.hca->run();
  CU_ASSERT(!t.rig.cq_a.poll());
  std::vector<int> fds;
  uint64_t deadline = 0;
  t.rig.hca->wait_set(fds, deadline);
  CU_ASSERT(deadline != ~uint64_t{0});
  t.rig.b.recv(t.dst.at(0), 64, t.good.lkey.value());
  std::optional<Completion> c = t.rig.wait(t.rig.cq_a);
  CU_ASSERT(c && c->syndrome == Syndrome::none);
  CU_ASSERT(t.rig.cq_b.poll().has_value());
  EQUAL(t.dst.data()[63], std::byte{0x11});
}

void patience_ends_after_rnr_retry() {
  Bench t;
  Completion c = t.rig.run_one(t.rig.a, send_from(t.src.at(0), 64, t.good_src.lkey.value()));
  EQUAL(c.syndrome, Syndrome::rnr_retry_exc);
  EQUAL(t.rig.state(t.rig.a), QpState::err);
  EQUAL(t.rig.state(t.rig.b), QpState::rts);
}

void a_peer_that_is_not_there_times_out() {
  for (int what = 0; what < 4; what++) {
    Bench t;
    if (what == 0) EQUAL(t.rig.to_state(t.rig.b, QpState::err), 0);
    if (what == 1) EQUAL(hca::destroy_qp(*t.rig.hca, t.rig.b.qpn), 0);
    if (what == 2) {
      QpAttr attr;
      attr.path.is_global = true;
      attr.path.dgid = {0xfe, 0x80, 9};
      EQUAL(t.rig.to_state(t.rig.a, QpState::sqd), 0);
      EQUAL(hca::modify_qp(*t.rig.hca, t.rig.a.qpn, attr, qp_mask::path), 0);
      EQUAL(t.rig.to_state(t.rig.a, QpState::rts), 0);
    }
    if (what == 3) {  // it talks to another queue
      EQUAL(t.rig.to_state(t.rig.b, QpState::reset), 0);
      t.rig.to_rts(t.rig.b, t.rig.b.qpn);
    }
    Completion c = t.rig.run_one(t.rig.a, write(t, t.dst.at(0), 8, t.good.rkey.value()));
    EQUAL(c.syndrome, Syndrome::transport_retry_exc);
    CU_ASSERT(untouched(t));
    EQUAL(t.rig.state(t.rig.a), QpState::err);
  }
}

const kilim::test::Case cases[] = {
    {"each violation has its syndrome", each_violation_has_its_syndrome},
    {"nothing is checked of no bytes", nothing_is_checked_of_no_bytes},
    {"a malformed control segment stops the queue", a_malformed_control_segment_stops_the_queue},
    {"a queue without receive WQE is tried again", a_queue_without_receive_wqe_is_tried_again},
    {"patience ends after rnr_retry", patience_ends_after_rnr_retry},
    {"a peer that is not there times out", a_peer_that_is_not_there_times_out},
};

}  // namespace
}  // namespace rc_refusals_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(rc_refusals, kilim::vhca::test::rc_refusals_ut::cases)
