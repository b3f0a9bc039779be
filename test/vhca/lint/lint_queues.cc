// SPDX-License-Identifier: BSD-3-Clause
// Part of lint_ut. What more than one queue or key has to do with: a UMR is complete for others
// only behind its completion; keys below a key; queues that are too full.
#include "lint_fixture.hh"

namespace lint_queues_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::lint::Rule;

// The tag of before is nobody's who waits for the UMR.
void who_uses_the_old_tag_waits_for_nobody() {
  Bench old(lint::LintMode::warn);
  old.finish((old.a.put(old.umr()), old.a));
  UmrShape shape;
  shape.len = 128;
  shape.tag = static_cast<uint8_t>(old.key + 1);
  prm::Klm entry = klm(old.memory.at(0), 128, old.lkey());
  old.a.put(umr_wqe(old.key, shape, {&entry, 1}));
  old.b.put(old.write());
  old.a.ring(old.uar);
  old.b.ring(old.uar);
  old.run();
  EQUAL(old.count(Rule::early_key), 0);
}

void another_queue_waits_for_the_completion() {
  Bench b(lint::LintMode::warn);
  b.a.put(b.umr());
  b.b.put(b.write());
  b.a.ring(b.uar);
  b.b.ring(b.uar);
  b.run();
  EQUAL(b.count(Rule::early_key), 1);
  EQUAL(b.findings(), 1);
  who_uses_the_old_tag_waits_for_nobody();
  // With the UMR's completion written it is fine; without a completion it never is.
  Bench c(lint::LintMode::warn);
  c.finish((c.a.put(c.umr()), c.a));
  c.finish((c.b.put(c.write()), c.b));
  EQUAL(c.findings(), 0);
  Bench d(lint::LintMode::warn);
  d.finish((d.a.put(d.umr().quiet()), d.a));
  d.finish((d.b.put(d.write()), d.b));
  EQUAL(d.count(Rule::early_key), 1);
}

void a_key_in_use_elsewhere_is_not_changed() {
  Bench b(lint::LintMode::warn);
  b.finish((b.a.put(b.umr()), b.a));
  b.b.put(b.write());
  b.a.put(b.umr());
  b.b.ring(b.uar);
  b.a.ring(b.uar);
  b.run();
  EQUAL(b.count(Rule::key_in_flight) + b.count(Rule::early_key), 1);
  EQUAL(b.findings(), 1);
}

// Who reads as a peer and still has the key gets what it showed, or is refused.
void an_invalidation_is_waited_for_by_nobody() {
  for (const bool read_first : {false, true}) {
    Bench b(lint::LintMode::warn);
    b.finish((b.a.put(b.umr()), b.a));
    UmrShape gone;
    gone.mask = prm::umr::mask_free;
    gone.free = prm::mkey::free;
    Wqe read(Opcode::rdma_read);
    read.raddr(0, b.key).data(b.memory.at(32768), 64, b.lkey());
    b.b.put(b.plain());
    b.b.put(read);
    b.a.put(umr_wqe(b.key, gone, {}));
    b.b.ring(b.uar);
    if (read_first) b.hca->run(1);  // the READ has been seen and not executed
    b.a.ring(b.uar);
    b.run();
    EQUAL(b.findings(), 0);
  }
}

void a_key_of_keys_is_looked_into() {
  Bench b(lint::LintMode::warn);
  uint32_t outer = b.make_key(4);
  UmrShape shape;
  shape.len = 64;
  prm::Klm entry = klm(0, 64, b.key);
  b.finish((b.a.put(umr_wqe(outer, shape, {&entry, 1})), b.a));
  b.a.put(b.umr());
  Wqe w(Opcode::rdma_write);
  b.a.put(w.raddr(b.memory.at(32768), b.rkey()).data(0, 64, outer));
  b.go(b.a);
  EQUAL(b.count(Rule::unfenced_key), 1);
}

void queues_that_are_too_full_are_named() {
  RigShape small_ring = linted(lint::LintMode::warn);
  small_ring.a.sq_wqebbs = 4;
  Bench b(small_ring);
  for (int i = 0; i < 4; i++) b.a.put(Wqe(Opcode::nop).quiet());
  b.go(b.a);
  EQUAL(b.findings(), 0);
  b.a.put(Wqe(Opcode::nop));  // over the first, of which nobody knows that it is complete
  b.go(b.a);
  EQUAL(b.count(Rule::sq_overrun), 1);

  RigShape small_cq = linted(lint::LintMode::warn);
  small_cq.cq_entries = 4;
  Bench c(small_cq);
  for (int i = 0; i < 3; i++) c.a.put(Wqe(Opcode::nop));
  c.go(c.a);
  c.a.put(Wqe(Opcode::nop));
  c.go(c.a);
  EQUAL(c.findings(), 0);
  c.a.put(Wqe(Opcode::nop));
  c.a.ring(c.uar);
  c.run();
  EQUAL(c.count(Rule::cq_overrun), 1);
}

constexpr Case among_queues[] = {
    {"another queue waits for the UMR's completion", another_queue_waits_for_the_completion},
    {"a key in use on another queue is not changed", a_key_in_use_elsewhere_is_not_changed},
    {"a peer may have a key that another queue invalidates",
     an_invalidation_is_waited_for_by_nobody},
    {"a key of keys is looked into", a_key_of_keys_is_looked_into},
    {"queues that are too full are named", queues_that_are_too_full_are_named},
};

}  // namespace
}  // namespace lint_queues_ut

std::span<const kilim::test::Case> kilim::vhca::test::lint_queue_cases() {
  return lint_queues_ut::among_queues;
}
