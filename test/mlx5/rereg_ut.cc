// SPDX-License-Identifier: BSD-3-Clause
// Re-registration through drivers/mlx5: each change alone and all together, the five outcomes of
// rdma-core, regions that are imported. Forked children are kept from registered memory here
// (ibv_fork_init), since two outcomes come of that alone.
#include <cerrno>
#include <optional>

#include <infiniband/verbs.h>

#include "case_tables.hh"
#include "faults_fixture.hh"
#include "kilim/detail/mr/allocated.hh"
#include "region_fixture.hh"
#include "rereg_fixture.hh"

namespace rereg_ut {
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

void translation_alone() {
  Peer peer{*shared().device};
  Pages memory(6);
  CU_ASSERT_FATAL(peer.ok());
  auto m = Mr::create(registrar(), memory.span(0, 2), Access::all, page);
  CU_ASSERT_FATAL(m.ok());
  const uint64_t old = m->region().iova;
  CU_ASSERT(m->reregister(to_memory(memory.span(3, 3))).ok());
  const Region& r = m->region();
  EQUAL(r.iova, old + 3 * page);
  EQUAL(r.length, 3 * page);
  EQUAL(r.entries, 3);
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
  CU_ASSERT(peer.read(r.iova, r.rkey));
  CU_ASSERT(!peer.write(r.iova, r.rkey));
  CU_ASSERT(m->reregister(to_access(Access::local_write | Access::remote_write)).ok());
  CU_ASSERT(!peer.read(r.iova, r.rkey));
  CU_ASSERT(peer.write(r.iova, r.rkey));
  EQUAL(r.access, Access::local_write | Access::remote_write);
  const Rereg paged = m->reregister(to_access(Access::all | Access::on_demand));
  EQUAL(paged.outcome, ReregOutcome::refused);
  EQUAL(paged.standing(), Standing::old_region);
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
  EQUAL(r.length, 3 * page);
  EQUAL(r.access, Access::all);
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
  EQUAL(r.kind, mr::Kind::on_demand);
  EQUAL(r.entries, 2);
  CU_ASSERT(peer.write(r.iova + page, r.rkey));
  CU_ASSERT(!peer.write(r.iova - page, r.rkey));
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
  EQUAL(odp.outcome, ReregOutcome::refused);
  CU_ASSERT(m.has_value());
  CU_ASSERT(!out.has_value());
  CU_ASSERT(
      mr::AllocatedRegion::replace_memory(m, {.bytes = 2 * page, .access = Access::all}, out).ok());
  CU_ASSERT_FATAL(out.has_value());
  CU_ASSERT_FATAL(!m.has_value());
  const Region r = out->region();
  EQUAL(r.kind, mr::Kind::allocated);
  EQUAL(r.length, 2 * page);
  peer.own.data()[0] = std::byte{5};
  CU_ASSERT(peer.write(r.iova, r.rkey));
  EQUAL(out->memory()[0], std::byte{5});
}

void refused_of_an_import(Region& imported, uint32_t number, std::span<std::byte> other) {
  EQUAL(registrar().import_region(number).error().code, EEXIST);
  EQUAL(registrar().import_region(0xdead).error().code, ENOENT);
  for (const Change& c : {to_access(Access::all), to_domain(mr::Domain{0})})
    EQUAL(registrar().reregister(imported, c).outcome, ReregOutcome::refused);
  EQUAL(registrar().reregister(imported, to_memory(other)).error.code, EINVAL);
}

void imported_with_new_memory_is_no_longer_shared() {
  Peer peer{*shared().device};
  Pages memory(1), other(2);
  auto exported = Mr::create(registrar(), memory.span(), Access::all, page);
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(exported.ok());
  auto number = registrar().export_region(exported->region());
  CU_ASSERT_FATAL(number.ok());
  auto imported = registrar().import_region(*number);
  CU_ASSERT_FATAL(imported.ok());
  EQUAL(imported->kind, mr::Kind::imported);
  EQUAL(imported->length, page);
  EQUAL(imported->rkey, exported->region().rkey);
  refused_of_an_import(*imported, *number, other.span());
  Change c = to_memory(other.span());
  c.access = true;
  c.new_access = Access::all;
  CU_ASSERT(registrar().reregister(*imported, c).ok());
  EQUAL(imported->kind, mr::Kind::pinned);
  EQUAL(imported->length, 2 * page);
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
}  // namespace rereg_ut

KILIM_TEST_MAIN(rereg) {
  if (ibv_fork_init() != 0 || !rereg_ut::shared().device || !kilim::test::place_faults()) return 2;
  return kilim::test::run_tables("mlx5/rereg",
                                 {rereg_ut::cases, kilim::test::rereg_failure_cases()}, argc, argv);
}
