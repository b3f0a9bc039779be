// SPDX-License-Identifier: BSD-3-Clause
// What must never be lost, doubled or touched again where things end in the middle: completions
// across errors and resets, keys and queues that go away under a message, doorbell pages that are
// unmapped with a doorbell in them.
#include <cerrno>
#include <map>
#include <random>

#include <sys/mman.h>

#include "ut.hh"
#include "wire_fixture.hh"

namespace recovery_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  unsigned operator()() { return static_cast<unsigned>(engine_()); }

 private:
  std::mt19937 engine_;
};

struct Posted {
  bool signaled = false;
  int completed = 0;
};

// Takes the completions of A's sends; false: one that is not owed.
bool take(Rig& rig, std::map<uint16_t, Posted>& owed, bool& failed) {
  while (std::optional<Completion> c = rig.cq_a.poll()) {
    if (c->op == prm::CqeOpcode::resp_err) continue;
    auto found = owed.find(c->index);
    if (found == owed.end() || ++found->second.completed > 1) return false;
    bool error = c->syndrome != Syndrome::none;
    // In order: behind an error everything is flushed, signalled or not.
    if (failed && c->syndrome != Syndrome::wr_flush) return false;
    if (!error && !found->second.signaled) return false;
    failed = failed || error;
  }
  return true;
}

// Requests of which one may be bad, the queue stopped at any moment, then reset and used again.
void every_request_completes_once_across_resets() {
  Dice random(7);
  Rig rig;
  Pages memory(4096);
  MrKeys keys = rig.reg(memory, rw_access);
  for (int life = 0; life < 300; life++) {
    std::map<uint16_t, Posted> owed;
    unsigned count = 1 + random() % 20, bad = random() % 40;
    bool failed = false;
    for (unsigned i = 0; i < count; i++) {
      Wqe w(Opcode::rdma_write);
      w.raddr(memory.at(2048), i == bad ? 0xdead : keys.rkey.value());
      w.data(memory.at(0), 64, keys.lkey.value());
      bool signaled = random() % 3 != 0;
      if (!signaled) w.quiet();
      owed[rig.a.pi] = {signaled, 0};
      rig.a.put(w);
      if (random() % 4 == 0) rig.a.ring(rig.uar);
      if (random() % 4 == 0) rig.hca->run(1 + random() % 5);
    }
    rig.a.ring(rig.uar);
    rig.hca->run(random() % 8);
    CU_ASSERT_FATAL(take(rig, owed, failed));
    rig.to_state(rig.a, QpState::err);
    rig.run();
    CU_ASSERT_FATAL(take(rig, owed, failed));
    for (const auto& [index, p] : owed) CU_ASSERT(p.completed == 1 || !p.signaled);
    // Nothing of this life comes in the next one.
    for (TestQp* qp : {&rig.a, &rig.b}) {
      EQUAL_FATAL(rig.to_state(*qp, QpState::reset), 0);
      std::memset(qp->record.data(), 0, 8);
      qp->pi = qp->head = 0;
    }
    rig.run();
    CU_ASSERT_FATAL(!rig.cq_a.poll().has_value());
    rig.to_rts(rig.a, rig.b.qpn);
    rig.to_rts(rig.b, rig.a.qpn);
  }
}

// The same on a wire that loses frames: requests are on their way when the queue is stopped.
void every_request_completes_once_on_a_bad_wire() {
  Dice random(11);
  LinkShape link;
  link.left_wire = "+fault:drop:0.2:reorder:0.1:seed:3";
  link.timeout = 1;
  Pages memory(16384);
  for (int life = 0; life < 20; life++) {
    WireRig w(link);
    MrKeys local = w.left.reg(memory, rw_access), remote = w.right.reg(memory, rw_access);
    std::map<uint16_t, Posted> owed;
    bool failed = false;
    for (unsigned i = 0; i < 12; i++) {
      Wqe wqe(i % 3 == 2 ? Opcode::rdma_read : Opcode::rdma_write);
      wqe.raddr(memory.at(8192), remote.rkey.value()).data(memory.at(0), 3000, local.lkey.value());
      owed[w.left.a.pi] = {true, 0};
      w.left.a.put(wqe);
    }
    w.left.a.ring(w.left.uar);
    for (unsigned turns = random() % 40; turns > 0; turns--) {
      w.left.hca->run(1 + random() % 8);
      w.right.hca->run(1 + random() % 8);
    }
    CU_ASSERT_FATAL(take(w.left, owed, failed));
    w.left.to_state(w.left.a, QpState::err);
    w.left.run();
    w.right.run();
    w.left.run();
    CU_ASSERT_FATAL(take(w.left, owed, failed));
    for (const auto& [index, p] : owed) EQUAL(p.completed, 1);
  }
}

// The target's key goes between two packets of one message.
void a_far_key_goes_under_a_write() {
  WireRig w;
  Pages memory(65536);
  MrKeys local = w.left.reg(memory, rw_access), remote = w.right.reg(memory, rw_access);
  w.left.a.put(Wqe(Opcode::rdma_write)
                   .raddr(memory.at(32768), remote.rkey.value())
                   .data(memory.at(0), 30000, local.lkey.value()));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(4);
  w.right.hca->run(2);
  EQUAL(hca::dereg_mr(*w.right.hca, MkeyIndex{remote.rkey.value() >> 8}), 0);
  std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->syndrome, Syndrome::remote_access);
}

// The key of a READ's own memory goes while the answer is on its way.
void an_own_key_goes_under_a_read() {
  WireRig w;
  Pages memory(65536);
  MrKeys local = w.left.reg(memory, rw_access), remote = w.right.reg(memory, rw_access);
  w.left.a.put(Wqe(Opcode::rdma_read)
                   .raddr(memory.at(32768), remote.rkey.value())
                   .data(memory.at(0), 30000, local.lkey.value()));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(4);
  w.right.hca->run();
  w.left.hca->run(3);
  EQUAL(hca::dereg_mr(*w.left.hca, MkeyIndex{local.lkey.value() >> 8}), 0);
  std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->syndrome, Syndrome::local_prot);
}

// The requester's own memory goes while the wire repeats what was lost.
void local_memory_goes_under_a_message_on_the_wire() {
  LinkShape link;
  link.left_wire = "+fault:drop:0.5:seed:5";
  WireRig w(link);
  Pages memory(65536), far(65536);
  MrKeys local = w.left.reg(memory, rw_access), remote = w.right.reg(far, rw_access);
  w.left.a.put(Wqe(Opcode::rdma_write)
                   .raddr(far.at(0), remote.rkey.value())
                   .data(memory.at(0), 40000, local.lkey.value()));
  w.left.a.ring(w.left.uar);
  w.left.hca->run(4);
  EQUAL(hca::dereg_mr(*w.left.hca, MkeyIndex{local.lkey.value() >> 8}), 0);
  memory.unmap();
  std::optional<Completion> c = w.wait(w.left.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->syndrome, Syndrome::local_prot);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
}

// The client's mapping goes, the engine's stays and executes what was rung when the queue ends; the
// next owner of the page finds it empty.
void a_doorbell_page_is_unmapped_with_a_doorbell_in_it() {
  Rig rig;
  Pages memory(4096);
  MrKeys keys = rig.reg(memory, rw_access);
  rig.a.put(Wqe(Opcode::rdma_write)
                .raddr(memory.at(2048), keys.rkey.value())
                .data(memory.at(0), 64, keys.lkey.value()));
  rig.a.ring(rig.uar);
  ::munmap(rig.uar, 4096);
  EQUAL(rig.hca->uars.free(rig.uar_page), -EBUSY);
  CU_ASSERT(rig.hca->uars.pending());
  for (TestQp* qp : {&rig.a, &rig.b}) EQUAL(hca::destroy_qp(*rig.hca, qp->qpn), 0);
  for (TestCq* cq : {&rig.cq_a, &rig.cq_b}) EQUAL(hca::destroy_cq(*rig.hca, cq->cqn), 0);
  EQUAL(rig.hca->uars.free(rig.uar_page), 0);
  CU_ASSERT(!rig.hca->uars.pending());
  rig.run();
  Result<hca::Uar*> again = rig.hca->uars.alloc();
  CU_ASSERT_FATAL(again.ok());
  EQUAL((*again)->index, rig.uar_page);
  CU_ASSERT(!rig.hca->uars.pending());
  EQUAL(rig.journal.count(Journal::Kind::wqe), 1);
  rig.uar = nullptr;
}

// An initiator waits for receives of a target that goes away, its shared queue and domain too.
struct XrcTarget {
  explicit XrcTarget(Rig& r) : rig(r), ring(4096), record(64) {
    xrcd = *hca::open_xrcd(*r.hca, {});
    SrqSpec s;
    s.pd = r.pd;
    s.buf = ring.va();
    s.record = record.va();
    s.wqes = 16;
    s.wqe_shift = 5;
    s.xrc = true;
    s.xrcd = xrcd;
    s.cq = r.cq_b.cqn;
    srqn = *hca::create_srq(*r.hca, s, &r.events);
    QpSpec q;
    q.type = QpType::xrc_tgt;
    q.pd = r.pd;
    q.xrcd = xrcd;
    qp.qpn = *hca::create_qp(*r.hca, q, &r.events);
  }
  Rig& rig;
  Pages ring, record;
  uint32_t xrcd = 0, srqn = 0;
  TestQp qp{{0, 0, 0, false, QpType::xrc_tgt}};
};

void a_target_and_its_queue_go_while_a_send_waits() {
  RigShape shape;
  shape.connect = false;
  shape.a.type = QpType::xrc_ini;
  shape.a.rq_wqes = 0;
  Rig rig(shape);
  XrcTarget target(rig);
  rig.to_rts(rig.a, target.qp.qpn);
  EQUAL_FATAL(rig.to_init(target.qp), 0);
  EQUAL_FATAL(rig.to_rtr(target.qp, rig.a.qpn), 0);
  Pages memory(4096);
  MrKeys keys = rig.reg(memory, rw_access);
  be32 xrc[4] = {be32{target.srqn}, be32{0}, be32{0}, be32{0}};
  rig.a.put(Wqe(Opcode::send).raw(xrc, sizeof(xrc)).data(memory.at(0), 64, keys.lkey.value()));
  rig.a.ring(rig.uar);
  rig.hca->run();
  CU_ASSERT(!rig.cq_a.poll().has_value());  // it waits
  EQUAL(hca::destroy_qp(*rig.hca, target.qp.qpn), 0);
  EQUAL(hca::destroy_srq(*rig.hca, target.srqn), 0);
  EQUAL(hca::close_xrcd(*rig.hca, target.xrcd), 0);
  std::optional<Completion> c = rig.wait(rig.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->syndrome, Syndrome::transport_retry_exc);
}

const kilim::test::Case cases[] = {
    {"every request completes once across resets", every_request_completes_once_across_resets},
    {"every request completes once on a bad wire", every_request_completes_once_on_a_bad_wire},
    {"a far key goes under a write", a_far_key_goes_under_a_write},
    {"an own key goes under a read", an_own_key_goes_under_a_read},
    {"local memory goes under a message on the wire",
     local_memory_goes_under_a_message_on_the_wire},
    {"a doorbell page is unmapped with a doorbell in it",
     a_doorbell_page_is_unmapped_with_a_doorbell_in_it},
    {"a target and its queue go while a send waits", a_target_and_its_queue_go_while_a_send_waits},
};

}  // namespace
}  // namespace recovery_ut

KILIM_TEST_SUITE(recovery, recovery_ut::cases)
