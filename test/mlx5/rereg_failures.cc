// SPDX-License-Identifier: BSD-3-Clause
// Part of rereg_ut. The failures of a re-registration: each of rdma-core's outcomes
// (ibv_rereg_mr(3)), and what is left of the region.
#include <cerrno>
#include <vector>

#include "faults_fixture.hh"
#include "rereg_fixture.hh"

namespace rereg_failures_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using mr::Access;
using mr::Change;
using mr::Mr;
using mr::Region;
using mr::Rereg;
using mr::ReregOutcome;
using mr::Standing;

// An undefined region takes nothing any more but its end.
void expect_undefined(Mr& m, std::span<std::byte> memory) {
  const Region r = m.region();
  CU_ASSERT(r.undefined);
  for (const Change& c : {to_memory(memory), to_access(Access::all), to_domain(mr::Domain{0})}) {
    const Rereg again = m.reregister(c);
    EQUAL(again.outcome, ReregOutcome::refused);
    EQUAL(again.error.code, EINVAL);
  }
  EQUAL(registrar().export_region(r).error().code, EINVAL);
  CU_ASSERT(registrar().deregister(r).ok());
  EQUAL(registrar().deregister(r).error().code, EINVAL);
}

void input_keeps_the_old() {
  Peer peer{*shared().device};
  Pages memory(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(m.ok());
  const Rereg r = m->reregister(to_memory({}));
  EQUAL(r.outcome, ReregOutcome::input);
  EQUAL(r.standing(), Standing::old_region);
  EQUAL(r.error.code, EINVAL);
  CU_ASSERT(!m->region().undefined);
  CU_ASSERT(peer.write(m->region().iova, m->region().rkey));
  EQUAL(m->reregister(Change{}).outcome, ReregOutcome::refused);
}

void dont_fork_new_keeps_the_old() {
  Peer peer{*shared().device};
  Pages memory(1), gone(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(m.ok());
  const auto unmapped = gone.span();
  gone.unmap();
  const Rereg r = m->reregister(to_memory(unmapped));
  EQUAL(r.outcome, ReregOutcome::dont_fork_new);
  EQUAL(r.standing(), Standing::old_region);
  CU_ASSERT(peer.write(m->region().iova, m->region().rkey));
}

void command_leaves_undefined() {
  Pages memory(1), other(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(m.ok());
  const Rereg r = m->reregister(to_access(Access::remote_write));
  EQUAL(r.outcome, ReregOutcome::command);
  EQUAL(r.standing(), Standing::undefined);
  EQUAL(r.error.code, EINVAL);
  expect_undefined(*m, other.span());
}

// Eight pages where nothing has been registered yet: libibverbs' book of ranges is not the same as
// before when one of its allocations has failed.
std::span<std::byte> fresh_pages() {
  constexpr std::size_t slab = std::size_t{256} << 20, stride = 64 * page;
  static void* base =
      ::mmap(nullptr, slab, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  static std::size_t next = 0;
  next += stride;
  CU_ASSERT_FATAL(base != MAP_FAILED);
  CU_ASSERT_FATAL(next + stride < slab);
  auto* at = static_cast<std::byte*>(base) + next;
  EQUAL_FATAL(::mprotect(at, 8 * page, PROT_READ | PROT_WRITE), 0);
  return {at, 8 * page};
}

// Registers the middle page of three that are registered one by one, and moves it between two that
// are registered too: libibverbs has to take ranges apart and puts them together again, which needs
// memory. The k-th of its allocations fails.
Rereg move_with_failing_allocation(uint64_t k, uint32_t access, Mr*& moved) {
  const std::span<std::byte> memory = fresh_pages();
  std::vector<Mr> all;
  for (std::size_t i : {0u, 1u, 2u, 4u, 6u}) {
    auto m = Mr::create(registrar(), memory.subspan(i * page, page), Access::all, page);
    CU_ASSERT_FATAL(m.ok());
    all.push_back(*std::move(m));
  }
  Change c = to_memory(memory.subspan(5 * page, page));
  c.access = true;
  c.new_access = access;
  test::Faults f;
  f.fail_allocation = k;
  test::arm(f);
  const Rereg r = all[1].reregister(c);
  test::arm({});
  moved = new Mr(std::move(all[1]));
  return r;
}

// Whether some allocation, when it fails, gives this outcome; then `judge` has looked at it.
bool reached(ReregOutcome wanted, uint32_t access, void (*judge)(Mr&)) {
  bool seen = false;
  for (uint64_t k = 1; k < 30; k++) {
    Mr* moved = nullptr;
    const Rereg r = move_with_failing_allocation(k, access, moved);
    if (r.outcome == wanted) judge(*moved);
    seen = seen || r.outcome == wanted;
    delete moved;
  }
  return seen;
}

void do_fork_old_has_the_new() {
  CU_ASSERT(reached(ReregOutcome::do_fork_old, Access::all, [](Mr& m) {
    Peer peer{*shared().device};
    CU_ASSERT_FATAL(peer.ok());
    CU_ASSERT(!m.region().undefined);
    CU_ASSERT(peer.write(m.region().iova, m.region().rkey));
    CU_ASSERT_FALSE(peer.write(m.region().iova - 4 * page, m.region().rkey));
  }));
}

void command_and_do_fork_new_leaves_undefined() {
  CU_ASSERT(reached(ReregOutcome::command_and_do_fork_new, Access::remote_write, [](Mr& m) {
    Pages other(1);
    expect_undefined(m, other.span());
  }));
}

constexpr kilim::test::Case of_failures[] = {
    {"outcome INPUT: the old region stands", input_keeps_the_old},
    {"outcome DONT_FORK_NEW: the old region stands", dont_fork_new_keeps_the_old},
    {"outcome DO_FORK_OLD: the new region stands", do_fork_old_has_the_new},
    {"outcome CMD: the region is undefined and may only be destroyed", command_leaves_undefined},
    {"outcome CMD_AND_DO_FORK_NEW: the region is undefined and may only be destroyed",
     command_and_do_fork_new_leaves_undefined},
};

}  // namespace
}  // namespace rereg_failures_ut

std::span<const kilim::test::Case> kilim::test::rereg_failure_cases() {
  return rereg_failures_ut::of_failures;
}
