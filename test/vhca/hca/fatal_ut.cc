// SPDX-License-Identifier: BSD-3-Clause
// An adapter that dies under its client: everything posted completes once, everybody hears of it,
// and things can be ended. What is refused then is in uverbs/dead_ut.cc.
#include <cerrno>
#include <map>

#include "kilim/prm/cmd.hh"
#include "ut.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/ports.hh"
#include "wire_fixture.hh"

namespace fatal_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;

constexpr uint32_t device_fatal = 8;

Wqe write_of(Rig& rig, Pages& memory, uint32_t bytes = 64) {
  static MrKeys keys;
  keys = rig.reg(memory, rw_access);
  return Wqe(Opcode::rdma_write)
      .raddr(memory.at(2048), keys.rkey.value())
      .data(memory.at(0), bytes, keys.lkey.value());
}

// Syndromes by the index of the request; a request that completes twice counts twice.
std::map<uint16_t, std::vector<Syndrome>> drain(TestCq& cq, bool responder) {
  std::map<uint16_t, std::vector<Syndrome>> all;
  while (std::optional<Completion> c = cq.poll()) {
    bool of_receive = c->op == prm::CqeOpcode::resp_err;
    if (of_receive == responder) all[c->index].push_back(c->syndrome);
  }
  return all;
}

void it_dies_with_the_request_that_was_named() {
  RigShape shape;
  shape.fatal_at = 3;
  shape.order = {};  // what is taken up is done
  Rig rig(shape);
  Pages memory(4096);
  Wqe w = write_of(rig, memory);
  for (int i = 0; i < 6; i++) rig.a.put(w);
  rig.a.ring(rig.uar);
  rig.run();
  auto sends = drain(rig.cq_a, false);
  EQUAL(sends.size(), 6);
  for (const auto& [index, found] : sends) {
    EQUAL(found.size(), 1);
    EQUAL(found[0], index < 3 ? Syndrome::none : Syndrome::wr_flush);
  }
  EQUAL(rig.events.of(device_fatal), 1);
  EQUAL(rig.journal.count(Journal::Kind::wqe), 3);
  CU_ASSERT(rig.hca->context.dead);
  hca::die(*rig.hca);
  EQUAL(rig.events.of(device_fatal), 1);
}

// The syndromes of `count` writes that are posted at once.
std::vector<Syndrome> syndromes_of(Rig& rig, const Wqe& w, unsigned count) {
  for (unsigned i = 0; i < count; i++) rig.a.put(w);
  rig.a.ring(rig.uar);
  rig.run();
  std::vector<Syndrome> all;
  while (const std::optional<Completion> c = rig.cq_a.poll()) all.push_back(c->syndrome);
  return all;
}

void begin_again(Rig& rig) {
  (void)rig.to_state(rig.a, QpState::reset);
  rig.a.pi = rig.a.head = 0;
  std::memset(rig.a.record.data(), 0, 8);
  rig.to_rts(rig.a, rig.b.qpn);
}

constexpr Syndrome done = Syndrome::none, struck = Syndrome::local_qp_op,
                   flush = Syndrome::wr_flush;
using Syndromes = std::vector<Syndrome>;

// Its queue ends as by any error, and works again.
void a_request_that_was_named_fails() {
  for (const char* order : {"strict", "late-read"}) {
    RigShape shape;
    shape.order = order_of(order);
    Rig rig(shape);
    Pages memory(4096);
    const Wqe w = write_of(rig, memory);
    rig.hca->context.failing = {3, 0};
    CU_ASSERT(syndromes_of(rig, w, 5) == Syndromes({done, done, struck, flush, flush}));
    EQUAL(rig.state(rig.a), QpState::err);
    begin_again(rig);
    CU_ASSERT(syndromes_of(rig, w, 40) == Syndromes(40, done));
    EQUAL(rig.events.of(device_fatal), 0);
  }
}

// The next is counted from the one that failed.
void so_does_each_further_one() {
  RigShape shape;
  shape.order = {};
  Rig rig(shape);
  Pages memory(4096);
  const Wqe w = write_of(rig, memory);
  rig.hca->context.failing = {2, 3};
  CU_ASSERT(syndromes_of(rig, w, 3) == Syndromes({done, struck, flush}));
  for (int i = 0; i < 3; i++) {
    begin_again(rig);
    CU_ASSERT(syndromes_of(rig, w, 4) == Syndromes({done, done, struck, flush}));
  }
}

// Those before it are waited for.
void on_a_wire_it_fails_in_its_place() {
  for (const char* order : {"strict", "resend"}) {
    LinkShape link;
    link.order = order_of(order);
    WireRig w(link);
    Pages memory(8192);
    const MrKeys there = w.right.reg(memory, rw_access);
    const MrKeys here = w.left.reg(memory, rw_access);
    const Wqe write = Wqe(Opcode::rdma_write)
                          .raddr(memory.at(2048), there.rkey.value())
                          .data(memory.at(0), 64, here.lkey.value());
    w.left.hca->context.failing = {4, 0};
    for (int i = 0; i < 6; i++) w.left.a.put(write);
    w.left.a.ring(w.left.uar);
    for (int i = 0; i < 6; i++) {
      const std::optional<Completion> c = w.wait(w.left.cq_a);
      CU_ASSERT_FATAL(c.has_value());
      EQUAL(c->index, i);
      EQUAL(c->syndrome, i < 3 ? done : i == 3 ? struck : flush);
    }
  }
}

void faults_of_requests_have_words() {
  const auto both = find_request_faults("wqe@7+100");
  CU_ASSERT(both.ok() && both->next == 7 && both->every == 100);
  const auto one = find_request_faults("wqe@18446744073709551615");
  CU_ASSERT(one.ok() && one->next == ~uint64_t{0} && one->every == 0);
  for (const char* bad : {"", "wqe", "wqe@", "wqe@0", "wqe@-1", "wqe@1+", "wqe@1+0", "wqe@1+x",
                          "wqe@1 ", "wqe@1+2+3", "fatal@1", "wqe@18446744073709551616"})
    CU_ASSERT(!find_request_faults(bad).ok());
}

// The journal says so on stderr, which is not looked at here.
void it_dies_when_its_journal_has_a_gap() {
  auto journal = Journal::open("/dev/full", Journal::Format::text, "vhca0");
  CU_ASSERT_FATAL(journal.ok());
  RigShape shape;
  shape.journal = journal->get();
  Rig rig(shape);
  Pages memory(4096);
  rig.a.put(write_of(rig, memory));
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(shape.journal->failed());
  CU_ASSERT(rig.hca->context.dead);
  EQUAL(rig.events.of(device_fatal), 1);
}

void what_is_posted_to_the_dead_is_flushed() {
  Rig rig;
  Pages memory(4096);
  Wqe w = write_of(rig, memory);
  rig.a.recv(memory.at(0), 64, 1);
  hca::die(*rig.hca);
  rig.a.recv(memory.at(0), 64, 1);
  rig.cq_a.arm(rig.uar, false);
  rig.a.put(w);
  rig.a.put(w);
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(rig.events.completions > 0);
  std::map<bool, int> flushed;
  while (std::optional<Completion> c = rig.cq_a.poll()) {
    EQUAL(c->syndrome, Syndrome::wr_flush);
    flushed[c->op == prm::CqeOpcode::resp_err]++;
  }
  EQUAL(flushed[false], 2);
  EQUAL(flushed[true], 2);
}

// On a wire: requests that nobody acknowledged are flushed here, and over there time runs out.
void neither_end_of_a_wire_waits_for_ever() {
  LinkShape link;
  link.retry_cnt = 1;
  WireRig w(link);
  Pages memory(8192);
  Wqe here = write_of(w.left, memory, 64);
  for (int i = 0; i < 4; i++) w.left.a.put(here);
  w.left.a.ring(w.left.uar);
  w.left.hca->run();
  hca::die(*w.left.hca);
  w.left.run();
  auto sends = drain(w.left.cq_a, false);
  EQUAL(sends.size(), 4);
  for (const auto& [index, found] : sends)
    CU_ASSERT(found.size() == 1 && found[0] == Syndrome::wr_flush);
  w.right.a.put(write_of(w.right, memory, 64));
  w.right.a.ring(w.right.uar);
  std::optional<Completion> c = w.wait(w.right.cq_a);
  CU_ASSERT_FATAL(c.has_value());
  EQUAL(c->syndrome, Syndrome::transport_retry_exc);
}

void ending_things_succeeds() {
  Rig rig;
  Pages memory(4096);
  MrKeys mr = rig.reg(memory, rw_access);
  hca::die(*rig.hca);
  hca::Hca& hca = *rig.hca;
  EQUAL(rig.to_state(rig.a, QpState::err), 0);
  EQUAL(rig.to_state(rig.b, QpState::reset), 0);
  EQUAL(hca::destroy_qp(hca, rig.a.qpn), 0);
  EQUAL(hca::destroy_qp(hca, rig.b.qpn), 0);
  EQUAL(hca::destroy_cq(hca, rig.cq_a.cqn), 0);
  EQUAL(hca::destroy_cq(hca, rig.cq_b.cqn), 0);
  EQUAL(hca::dereg_mr(hca, MkeyIndex{mr.lkey.value() >> 8}), 0);
  EQUAL(hca::dealloc_pd(hca, rig.pd), 0);
  EQUAL(hca.uars.free(rig.uar_page), 0);
}

const kilim::test::Case cases[] = {
    {"it dies with the request that was named", it_dies_with_the_request_that_was_named},
    {"a request that was named fails", a_request_that_was_named_fails},
    {"so does each further one", so_does_each_further_one},
    {"on a wire it fails in its place", on_a_wire_it_fails_in_its_place},
    {"faults of requests have words", faults_of_requests_have_words},
    {"it dies when its journal has a gap", it_dies_when_its_journal_has_a_gap},
    {"what is posted to the dead is flushed", what_is_posted_to_the_dead_is_flushed},
    {"neither end of a wire waits for ever", neither_end_of_a_wire_waits_for_ever},
    {"ending things succeeds", ending_things_succeeds},
};

}  // namespace
}  // namespace fatal_ut

KILIM_TEST_SUITE(fatal, fatal_ut::cases)
