// SPDX-License-Identifier: BSD-3-Clause
// Re-registration through drivers/mlx5: each change alone and all together, the five outcomes of
// rdma-core, regions that are imported. Forked children are kept from registered memory here
// (ibv_fork_init), since two outcomes come of that alone.
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "faults_fixture.hh"
#include "kilim/mr/allocated.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using mr::Access;
using mr::Change;
using mr::Mr;
using mr::Region;
using mr::Rereg;
using mr::ReregOutcome;
using mr::Standing;
using test::page;
using test::Pages;
using test::Peer;
using test::VirtualDevice;

VirtualDevice& shared() {
  static VirtualDevice* v = new VirtualDevice(test::config("rereg0"));
  return *v;
}
mr::Registrar& registrar() {
  return shared().device->registrar();
}

Change to_memory(std::span<std::byte> memory) {
  Change c;
  c.translation = true;
  c.memory = memory;
  c.page_bytes = page;
  return c;
}
Change to_access(uint32_t access) {
  Change c;
  c.access = true;
  c.new_access = access;
  return c;
}
Change to_domain(mr::Domain domain) {
  Change c;
  c.domain = true;
  c.new_domain = domain;
  return c;
}

void translation_alone() {
  Peer peer{*shared().device};
  Pages memory(6);
  CU_ASSERT_FATAL(peer.ok());
  auto m = Mr::create(registrar(), memory.span(0, 2), Access::all, page);
  CU_ASSERT_FATAL(m.ok());
  const uint64_t old = m->region().iova;
  CU_ASSERT(m->reregister(to_memory(memory.span(3, 3))).ok());
  const Region& r = m->region();
  CU_ASSERT(r.iova == old + 3 * page && r.length == 3 * page && r.entries == 3);
  EQUAL(r.access, Access::all);
  peer.own.data()[0] = std::byte{9};
  CU_ASSERT(peer.write(r.iova + 2 * page, r.rkey));
  EQUAL(memory.data()[5 * page], std::byte{9});
  CU_ASSERT_FALSE(peer.write(old, r.rkey));
}

void access_alone() {
  Peer peer{*shared().device};
  Pages memory(1);
  CU_ASSERT_FATAL(peer.ok());
  auto m = Mr::create(registrar(), memory.span(), Access::local_write | Access::remote_read, page);
  CU_ASSERT_FATAL(m.ok());
  const Region& r = m->region();
  CU_ASSERT(peer.read(r.iova, r.rkey) && !peer.write(r.iova, r.rkey));
  CU_ASSERT(m->reregister(to_access(Access::local_write | Access::remote_write)).ok());
  CU_ASSERT(!peer.read(r.iova, r.rkey) && peer.write(r.iova, r.rkey));
  EQUAL(r.access, Access::local_write | Access::remote_write);
  const Rereg paged = m->reregister(to_access(Access::all | Access::on_demand));
  CU_ASSERT(paged.outcome == ReregOutcome::refused && paged.standing() == Standing::old_region);
  CU_ASSERT(peer.write(r.iova, r.rkey));
}

void domain_alone() {
  Peer peer{*shared().device};
  Pages memory(1);
  CU_ASSERT_FATAL(peer.ok());
  auto domain = registrar().create_domain();
  CU_ASSERT_FATAL(domain.ok());
  {
    auto m = Mr::create(registrar(), memory.span(), Access::all, page);
    CU_ASSERT_FATAL(m.ok());
    const Region& r = m->region();
    CU_ASSERT(m->reregister(to_domain(*domain)).ok());
    CU_ASSERT_FALSE(peer.write(r.iova, r.rkey));
    EQUAL(registrar().destroy_domain(*domain).error().code, EBUSY);
    CU_ASSERT(m->reregister(to_domain(mr::Domain{0})).ok());
    CU_ASSERT(peer.write(r.iova, r.rkey));
    EQUAL(m->reregister(to_domain(mr::Domain{77})).error.code, EINVAL);
    CU_ASSERT(m->reregister(to_domain(*domain)).ok());
  }
  CU_ASSERT(registrar().destroy_domain(*domain).ok());
  EQUAL(registrar().destroy_domain(*domain).error().code, EINVAL);
}

void all_together() {
  Peer peer{*shared().device};
  Pages memory(4);
  CU_ASSERT_FATAL(peer.ok());
  auto domain = registrar().create_domain();
  CU_ASSERT_FATAL(domain.ok());
  auto m = Mr::create(registrar(), memory.span(0, 1), Access::local_write, page);
  CU_ASSERT_FATAL(m.ok());
  CU_ASSERT(m->reregister(to_domain(*domain)).ok());
  Change c = to_memory(memory.span(1, 3));
  c.domain = true;
  c.access = true;
  c.new_access = Access::all;
  CU_ASSERT(m->reregister(c).ok());
  const Region& r = m->region();
  CU_ASSERT(peer.write(r.iova + 2 * page, r.rkey) && peer.read(r.iova, r.rkey));
  CU_ASSERT(r.length == 3 * page && r.access == Access::all);
  CU_ASSERT(registrar().destroy_domain(*domain).ok());
}

void paged_region_moves_too() {
  Peer peer{*shared().device};
  Pages memory(4);
  CU_ASSERT_FATAL(peer.ok());
  auto m = Mr::create_on_demand(registrar(), memory.span(0, 1), Access::all);
  CU_ASSERT_FATAL(m.ok());
  CU_ASSERT(peer.write(m->region().iova, m->region().rkey));
  CU_ASSERT(m->reregister(to_memory(memory.span(2, 2))).ok());
  const Region& r = m->region();
  CU_ASSERT(r.kind == mr::Kind::on_demand && r.entries == 2);
  CU_ASSERT(peer.write(r.iova + page, r.rkey) && !peer.write(r.iova - page, r.rkey));
}

void library_memory_replaces() {
  Peer peer{*shared().device};
  Pages memory(1);
  CU_ASSERT_FATAL(peer.ok());
  auto made = Mr::create(registrar(), memory.span(), Access::local_write, page);
  CU_ASSERT_FATAL(made.ok());
  std::optional<Mr> m{*std::move(made)};
  std::optional<mr::AllocatedRegion> out;
  const Rereg odp = mr::AllocatedRegion::replace_memory(
      m, {.bytes = page, .access = Access::all | Access::on_demand}, out);
  CU_ASSERT(odp.outcome == ReregOutcome::refused && m.has_value() && !out.has_value());
  CU_ASSERT(
      mr::AllocatedRegion::replace_memory(m, {.bytes = 2 * page, .access = Access::all}, out).ok());
  CU_ASSERT_FATAL(out.has_value() && !m.has_value());
  const Region r = out->region();
  CU_ASSERT(r.kind == mr::Kind::allocated && r.length == 2 * page);
  peer.own.data()[0] = std::byte{5};
  CU_ASSERT(peer.write(r.iova, r.rkey));
  EQUAL(out->memory()[0], std::byte{5});
}

// An undefined region takes nothing any more but its end.
void expect_undefined(Mr& m, std::span<std::byte> memory) {
  const Region r = m.region();
  CU_ASSERT(r.undefined);
  for (const Change& c : {to_memory(memory), to_access(Access::all), to_domain(mr::Domain{0})}) {
    const Rereg again = m.reregister(c);
    CU_ASSERT(again.outcome == ReregOutcome::refused && again.error.code == EINVAL);
  }
  EQUAL(registrar().export_region(r).error().code, EINVAL);
  CU_ASSERT(registrar().deregister(r).ok());
  EQUAL(registrar().deregister(r).error().code, EINVAL);
}

void input_keeps_the_old() {
  Peer peer{*shared().device};
  Pages memory(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok() && m.ok());
  const Rereg r = m->reregister(to_memory({}));
  CU_ASSERT(r.outcome == ReregOutcome::input && r.standing() == Standing::old_region);
  CU_ASSERT(r.error.code == EINVAL && !m->region().undefined);
  CU_ASSERT(peer.write(m->region().iova, m->region().rkey));
  EQUAL(m->reregister(Change{}).outcome, ReregOutcome::refused);
}

void dont_fork_new_keeps_the_old() {
  Peer peer{*shared().device};
  Pages memory(1), gone(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok() && m.ok());
  const auto unmapped = gone.span();
  gone.unmap();
  const Rereg r = m->reregister(to_memory(unmapped));
  CU_ASSERT(r.outcome == ReregOutcome::dont_fork_new && r.standing() == Standing::old_region);
  CU_ASSERT(peer.write(m->region().iova, m->region().rkey));
}

void command_leaves_undefined() {
  Pages memory(1), other(1);
  auto m = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(m.ok());
  const Rereg r = m->reregister(to_access(Access::remote_write));
  CU_ASSERT(r.outcome == ReregOutcome::command && r.standing() == Standing::undefined);
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
  CU_ASSERT_FATAL(base != MAP_FAILED && next + stride < slab);
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
    CU_ASSERT(!m.region().undefined && peer.write(m.region().iova, m.region().rkey));
    CU_ASSERT_FALSE(peer.write(m.region().iova - 4 * page, m.region().rkey));
  }));
}

void command_and_do_fork_new_leaves_undefined() {
  CU_ASSERT(reached(ReregOutcome::command_and_do_fork_new, Access::remote_write, [](Mr& m) {
    Pages other(1);
    expect_undefined(m, other.span());
  }));
}

void imported_with_new_memory_is_no_longer_shared() {
  Peer peer{*shared().device};
  Pages memory(1), other(2);
  auto exported = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok() && exported.ok());
  auto number = registrar().export_region(exported->region());
  CU_ASSERT_FATAL(number.ok());
  auto imported = registrar().import_region(*number);
  CU_ASSERT_FATAL(imported.ok());
  CU_ASSERT(imported->kind == mr::Kind::imported && imported->length == page);
  EQUAL(imported->rkey, exported->region().rkey);
  EQUAL(registrar().import_region(*number).error().code, EEXIST);
  EQUAL(registrar().import_region(0xdead).error().code, ENOENT);
  for (const Change& c : {to_access(Access::all), to_domain(mr::Domain{0})})
    EQUAL(registrar().reregister(*imported, c).outcome, ReregOutcome::refused);
  EQUAL(registrar().reregister(*imported, to_memory(other.span())).error.code, EINVAL);
  Change c = to_memory(other.span());
  c.access = true;
  c.new_access = Access::all;
  CU_ASSERT(registrar().reregister(*imported, c).ok());
  CU_ASSERT(imported->kind == mr::Kind::pinned && imported->length == 2 * page);
  CU_ASSERT(imported->rkey != exported->region().rkey);
  CU_ASSERT(peer.write(imported->iova + page, imported->rkey));
  CU_ASSERT(peer.write(exported->region().iova, exported->region().rkey));
  CU_ASSERT(registrar().deregister(*imported).ok());
  auto again = registrar().import_region(*number);
  CU_ASSERT_FATAL(again.ok());
  CU_ASSERT(registrar().deregister(*again).ok());  // its owner keeps it
  CU_ASSERT(peer.write(exported->region().iova, exported->region().rkey));
}

const kilim::test::Case cases[] = {
    // First: libibverbs forgets to let go of memory when an on-demand region is re-registered.
    {"outcome INPUT: the old region stands", input_keeps_the_old},
    {"outcome DONT_FORK_NEW: the old region stands", dont_fork_new_keeps_the_old},
    {"outcome DO_FORK_OLD: the new region stands", do_fork_old_has_the_new},
    {"outcome CMD: the region is undefined and may only be destroyed", command_leaves_undefined},
    {"outcome CMD_AND_DO_FORK_NEW: the region is undefined and may only be destroyed",
     command_and_do_fork_new_leaves_undefined},
    {"a region is re-registered over other memory", translation_alone},
    {"a region is re-registered with other rights", access_alone},
    {"a region is re-registered in another protection domain", domain_alone},
    {"memory, domain and rights of a region change together", all_together},
    {"an on-demand region is re-registered over other addresses", paged_region_moves_too},
    {"a region is re-registered over memory that the library allocates", library_memory_replaces},
    {"a shared region with a new translation is no longer shared",
     imported_with_new_memory_is_no_longer_shared},
};

}  // namespace

int main(int argc, char** argv) {
  if (ibv_fork_init() != 0 || !shared().device || !test::place_faults()) return 2;
  return kilim::test::run_cases("mlx5/rereg", cases, argc, argv);
}
