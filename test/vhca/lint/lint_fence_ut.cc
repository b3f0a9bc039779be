// SPDX-License-Identifier: BSD-3-Clause
// Lint mode of the adapter: the fences behind a UMR, and before one of a key that is in use.
#include "lint_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"

namespace lint_fence_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using prm::Opcode;
using prm::lint::Rule;

constexpr uint8_t small = prm::ctrl::small_fence;
constexpr uint8_t strong = prm::ctrl::strong_fence;

// Whatever the profile says of the UMR itself: {fence of the WQE behind the UMR, findings}
void who_comes_behind_a_umr_waits_for_it() {
  struct Row {
    uint8_t fence;
    uint64_t findings;
  };
  constexpr Row rows[] = {
      {0, 1}, {small, 0}, {prm::ctrl::answer_fence, 1}, {strong, 0}, {prm::ctrl::fence, 0}};
  for (uint8_t capability = 0; capability < 3; capability++) {
    for (const Row& row : rows) {
      Bench b(lint::LintMode::warn, capability);
      b.a.put(b.umr());
      b.a.put(b.write(row.fence));
      b.go(b.a);
      EQUAL(b.count(Rule::unfenced_key), row.findings);
      EQUAL(b.findings(), row.findings);
      // A request that does not name the key may tell of it.
      Bench other(lint::LintMode::warn, capability);
      other.a.put(other.umr());
      other.a.put(Wqe(Opcode::nop).quiet());  // waits for nobody, tells nothing
      Wqe w = other.plain();
      w.flags = static_cast<uint8_t>(w.flags | row.fence);
      other.a.put(w);
      other.a.put(other.plain());  // said once
      other.go(other.a);
      EQUAL(other.count(Rule::unfenced_umr), row.findings);
      EQUAL(other.findings(), row.findings);
    }
  }
}

void a_umr_that_is_complete_is_waited_for_by_nobody() {
  Bench b(lint::LintMode::warn);
  b.finish((b.a.put(b.umr()), b.a));
  b.a.put(b.plain());
  b.go(b.a);
  EQUAL(b.findings(), 0);
  // Of a key that shows nothing there is nothing to tell.
  UmrShape gone;
  gone.mask = prm::umr::mask_free;
  gone.free = prm::mkey::free;
  b.a.put(umr_wqe(b.key, gone, {}).quiet());
  b.a.put(b.plain());
  b.go(b.a);
  EQUAL(b.findings(), 0);
}

void a_fence_before_the_user_will_do() {
  Bench b(lint::LintMode::warn);
  b.a.put(b.umr());
  Wqe between = b.plain();
  between.flags = static_cast<uint8_t>(between.flags | small);
  b.a.put(between);
  b.a.put(b.write());
  b.go(b.a);
  EQUAL(b.findings(), 0);
}

// What a WQE has waited for says nothing of who waits for it.
void a_fence_of_the_wqe_before_is_none() {
  Bench b(lint::LintMode::warn);
  Wqe umr = b.umr();
  umr.flags = static_cast<uint8_t>(umr.flags | strong);
  b.a.put(umr);
  b.a.put(b.write());
  b.go(b.a);
  EQUAL(b.count(Rule::unfenced_key), 1);
  Bench c(lint::LintMode::warn);
  c.finish((c.a.put(c.umr()), c.a));
  c.a.put(c.write(strong));
  c.a.put(c.umr());
  c.go(c.a);
  EQUAL(c.count(Rule::key_in_flight), 1);
}

// A READ may still be writing through the key, a WRITE may have to go out again: the small fence
// waits for neither.
void a_key_in_use_is_changed_behind_a_fence() {
  for (const Opcode op : {Opcode::rdma_read, Opcode::rdma_write, Opcode::send}) {
    for (const uint8_t fence :
         {uint8_t{0}, small, prm::ctrl::answer_fence, strong, uint8_t{prm::ctrl::fence}}) {
      Bench b(lint::LintMode::warn);
      b.finish((b.a.put(b.umr()), b.a));
      b.b.recv(b.memory.at(16384), 64, b.lkey());
      Wqe use(op);
      if (op != Opcode::send) use.raddr(b.memory.at(32768), b.rkey());
      b.a.put(use.data(0, 64, b.key));
      Wqe umr = b.umr();
      umr.flags = static_cast<uint8_t>(umr.flags | fence);
      b.a.put(umr);
      b.go(b.a);
      const bool good = op == Opcode::rdma_read ? prm::ctrl::waits_for_answers(fence)
                                                : prm::ctrl::waits_for_all(fence);
      EQUAL(b.count(Rule::key_in_flight), good ? 0 : 1);
      EQUAL(b.findings(), good ? 0 : 1);
    }
  }
}

const Case cases[] = {
    {"who comes behind a UMR waits for it, whatever the profile says",
     who_comes_behind_a_umr_waits_for_it},
    {"a UMR that is complete is waited for by nobody",
     a_umr_that_is_complete_is_waited_for_by_nobody},
    {"a fence on a WQE before the user will do", a_fence_before_the_user_will_do},
    {"a fence of the WQE before is none", a_fence_of_the_wqe_before_is_none},
    {"a key in use is changed behind a fence that waits for its users",
     a_key_in_use_is_changed_behind_a_fence},
};

}  // namespace
}  // namespace lint_fence_ut

KILIM_TEST_SUITE(lint_fence, lint_fence_ut::cases)
