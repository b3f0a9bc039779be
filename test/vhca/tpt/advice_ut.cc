// SPDX-License-Identifier: BSD-3-Clause
// Advice about memory with on-demand paging (ibv_advise_mr): which pages it brings in, of each
// element of a list; what it is refused for; that it pins nothing.
#include <fstream>
#include <string>
#include <vector>

#include "paging_fixture.hh"

namespace kilim::vhca::test {
namespace advice_ut {
namespace {

using enum tpt::Paging::Advice;

int advise(Bench& t, tpt::Paging::Advice advice, bool flush,
           const std::vector<hca::Advice::Range>& list) {
  return hca::advise_mr(*t.rig.hca, {t.rig.pd, static_cast<uint32_t>(advice), flush, list});
}

void advice_brings_pages_in() {
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.advise(prefetch_write, true, m.at(), 4 * page, key), 0);
  EQUAL(t.stat(num_prefetch_pages), 4);
  EQUAL(t.stat(num_prefetches_handled), 1);
  EQUAL(t.write(m.at(), key, 4 * page), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 0);
  // For reading alone: the first write faults.
  EQUAL(t.advise(prefetch, true, m.at(4 * page), page, key), 0);
  EQUAL(t.read(m.at(4 * page), key, 16), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 0);
  EQUAL(t.write(m.at(4 * page), key, 16), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 1);
  EQUAL(t.rig.journal.count(Kind::page_prefetch), 2);
}

void advice_without_faults_takes_what_is_in_memory() {
  Bench t;
  Mapping m(4 * page);
  uint32_t key = t.reg(m).rkey.value();
  m.bytes()[page] = 1;
  EQUAL(t.advise(prefetch_no_fault, true, m.at(), 4 * page, key), 0);
  EQUAL(t.stat(num_prefetch_pages), 1);
  EQUAL(t.stat(num_odp_mr_pages), 1);
  EQUAL(t.read(m.at(page), key, 16), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 0);
  EQUAL(t.read(m.at(2 * page), key, 16), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 1);
}

void advice_not_flushed_comes_later() {
  Bench t;
  Mapping m(4 * page);
  MrKeys k = t.reg(m);
  EQUAL(t.advise(prefetch_write, false, m.at(), 4 * page, k.lkey.value()), 0);
  EQUAL(t.stat(num_prefetch_pages), 0);
  t.rig.run();
  EQUAL(t.stat(num_prefetch_pages), 4);
  EQUAL(t.stat(num_prefetches_handled), 1);
  // What is out of bounds is nobody's error. The region goes before its turn has come: what names
  // it is done by then.
  EQUAL(t.advise(prefetch, false, m.at(), 5 * page, k.lkey.value()), 0);
  EQUAL(t.advise(prefetch, false, m.at(), page, k.lkey.value()), 0);
  EQUAL(hca::dereg_mr(*t.rig.hca, MkeyIndex{k.lkey.value() >> 8}), 0);
  EQUAL(t.stat(num_prefetch_pages), 5);
  EQUAL(t.stat(num_prefetches_handled), 2);
  t.rig.run();
  EQUAL(t.stat(num_mrs_not_found), 0);
  EQUAL(t.stat(num_prefetches_handled), 2);
}

// Another region's advice waits on behind it.
void a_region_that_changes_waits_for_its_advice() {
  Bench t;
  Mapping m(2 * page), n(2 * page);
  const MrKeys k = t.reg(m), other = t.reg(n);
  EQUAL(t.advise(prefetch_write, false, m.at(), page, k.lkey.value()), 0);
  EQUAL(t.advise(prefetch_write, false, n.at(), 2 * page, other.lkey.value()), 0);
  MrSpec spec{t.rig.pd, Va{n.at()}, page, Iova{n.at()}, odp_access};
  EQUAL(hca::rereg_mr(*t.rig.hca, MkeyIndex{k.lkey.value() >> 8}, spec), 0);
  EQUAL(t.stat(num_prefetch_pages), 1);
  EQUAL(t.stat(num_odp_mr_pages), 0);
  t.rig.run();
  EQUAL(t.stat(num_prefetch_pages), 3);
  EQUAL(t.stat(num_mrs_not_found), 0);
}

void advice_is_refused_as_the_kernel_refuses() {
  Bench t;
  Mapping m(4 * page), gone(page);
  uint32_t key = t.reg(m).lkey.value();
  uint32_t reader = t.reg(m, read_only).lkey.value();
  uint32_t missing = t.reg(gone).lkey.value();
  EQUAL(t.advise(prefetch, true, m.at(), page, key + 1), -ENOENT);
  EQUAL(t.stat(num_mrs_not_found), 1);
  EQUAL(t.advise(prefetch, true, t.own.at(0), page, t.ko.lkey.value()), -ENOENT);
  EQUAL(t.advise(prefetch, true, m.at(), page, t.rig.make_key(4)), -EINVAL);
  EQUAL(t.advise(prefetch_write, true, m.at(), page, reader), -EPERM);
  EQUAL(t.advise(prefetch, true, m.at(page), 4 * page, key), -EFAULT);
  EQUAL(t.advise(prefetch, true, m.at() - 1, 1, key), -EFAULT);
  uint64_t at = gone.at();
  gone.unmap();
  EQUAL(t.advise(prefetch, true, at, page, missing), -EFAULT);
  ::mprotect(m.pointer(), page, PROT_READ);
  EQUAL(t.advise(prefetch_write, true, m.at(), page, key), -EPERM);
  hca::Advice::Range range{m.at(), page, key};
  EQUAL(hca::advise_mr(*t.rig.hca, {t.rig.pd, 3, true, {&range, 1}}), -EOPNOTSUPP);
  Result<Pdn> other = hca::alloc_pd(*t.rig.hca);
  EQUAL(hca::advise_mr(*t.rig.hca, {*other, 0, true, {&range, 1}}), -EPERM);
  EQUAL(t.stat(num_prefetches_handled), 0);
}

// Ends at an odd byte of its last page: the adapter's table has whole pages.
void advice_reaches_to_the_end_of_the_last_page() {
  Bench t;
  Mapping m(3 * page);
  MrSpec spec{t.rig.pd, Va{m.at(8)}, page + 92, Iova{m.at(8)}, odp_access};
  const uint32_t key = hca::reg_mr(*t.rig.hca, spec)->lkey.value();
  EQUAL(t.advise(prefetch_write, true, m.at(8), 2 * page - 8, key), 0);
  EQUAL(t.stat(num_prefetch_pages), 2);
  EQUAL(t.stat(num_odp_mr_pages), 2);
  EQUAL(t.advise(prefetch_write, true, m.at(8), 2 * page - 7, key), -EFAULT);
  EQUAL(t.advise(prefetch_write, true, m.at(7), page, key), -EFAULT);
  EQUAL(t.advise(prefetch_write, true, m.at(2 * page - 1), 0, key), 0);
  EQUAL(t.advise(prefetch_write, true, m.at(2 * page), 0, key), -EFAULT);
  // The key itself ends where it was registered to.
  EQUAL(t.write(m.at(page), key, 101), Syndrome::remote_access);
  MrSpec all{t.rig.pd, Va{0}, UINT64_MAX, Iova{0}, odp_access};
  const uint32_t everything = hca::reg_mr(*t.rig.hca, all)->lkey.value();
  EQUAL(t.advise(prefetch, true, m.at(), page, everything), 0);
  EQUAL(t.advise(prefetch, true, uint64_t{1} << 47, page, everything), -EFAULT);
  EQUAL(t.advise(prefetch, true, ~uint64_t{0}, page, everything), -EFAULT);
}

void every_element_of_a_list_is_served() {
  for (const bool flush : {true, false}) {
    for (const tpt::Paging::Advice advice : {prefetch, prefetch_write}) {
      Bench t;
      Mapping m(8 * page), n(2 * page);
      const uint32_t key = t.reg(m).lkey.value(), other = t.reg(n).lkey.value();
      EQUAL(
          advise(t, advice, flush,
                 {{m.at(), page, key}, {n.at(page), page, other}, {m.at(4 * page), 3 * page, key}}),
          0);
      t.rig.run();
      EQUAL(t.stat(num_prefetch_pages), 5);
      EQUAL(t.stat(num_odp_mr_pages), 5);
      EQUAL(t.stat(num_prefetches_handled), 1);
      EQUAL(t.rig.journal.count(Kind::page_prefetch), 3);
      EQUAL(t.read(m.at(), key, page), Syndrome::none);
      EQUAL(t.read(n.at(page), other, page), Syndrome::none);
      EQUAL(t.read(m.at(4 * page), key, 3 * page), Syndrome::none);
      EQUAL(t.stat(num_page_faults), 0);
    }
  }
}

// An element with a fault, in each place of a list of three.
void every_element_of_a_list_is_checked() {
  Bench t;
  Mapping m(4 * page);
  const uint32_t key = t.reg(m).lkey.value(), reader = t.reg(m, read_only).lkey.value();
  const uint32_t list = t.rig.make_key(4);
  MrSpec elsewhere{*hca::alloc_pd(*t.rig.hca), Va{m.at()}, page, Iova{m.at()}, odp_access};
  const uint32_t foreign = hca::reg_mr(*t.rig.hca, elsewhere)->lkey.value();
  const struct {
    hca::Advice::Range element;
    int answer;
  } faults[] = {
      {{m.at(), page, key + 1}, -ENOENT}, {{t.own.at(0), page, t.ko.lkey.value()}, -ENOENT},
      {{m.at(), page, list}, -EINVAL},    {{m.at(), page, foreign}, -EPERM},
      {{m.at(), page, reader}, -EPERM},   {{m.at(page), 4 * page, key}, -EFAULT},
  };
  for (const auto& fault : faults) {
    for (std::size_t place = 0; place < 3; place++) {
      std::vector<hca::Advice::Range> three(3, {m.at(), page, key});
      three[place] = fault.element;
      const uint64_t before = t.stat(num_prefetch_pages);
      EQUAL(advise(t, prefetch_write, true, three), fault.answer);
      // What stands before it has been brought in by then.
      EQUAL(t.stat(num_prefetch_pages) - before, place);
      // Later, bounds are nobody's error any more.
      EQUAL(advise(t, prefetch_write, false, three), fault.answer == -EFAULT ? 0 : fault.answer);
      t.rig.run();
    }
  }
  EQUAL(t.stat(num_prefetches_handled), 0);
}

void advice_that_comes_later_goes_on_behind_a_fault() {
  Bench t;
  Mapping m(4 * page);
  const uint32_t key = t.reg(m).lkey.value();
  EQUAL(advise(t, prefetch_write, false,
               {{m.at(page), 4 * page, key}, {m.at(2 * page), 2 * page, key}}),
        0);
  t.rig.run();
  EQUAL(t.stat(num_prefetch_pages), 2);
  EQUAL(t.stat(num_prefetches_handled), 0);
  EQUAL(t.write(m.at(2 * page), key, 2 * page), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 0);
}

// A line of /proc/self/status in KiB.
long kib_of(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stol(line.substr(name.size() + 1));
  return -1;
}

std::size_t in_memory(const Mapping& m) {
  std::vector<unsigned char> pages(m.size() / page);
  EQUAL(::mincore(m.pointer(), m.size(), pages.data()), 0);
  std::size_t n = 0;
  for (const unsigned char p : pages) n += p & 1u;
  return n;
}

// Paged in, not pinned; mapped; the adapter knows it; and it may go again.
void what_advice_brought_in_is_not_pinned_and_may_go() {
  for (const tpt::Paging::Advice advice : {prefetch, prefetch_write}) {
    Bench t;
    Mapping m(4 * page);
    const uint32_t key = t.reg(m).lkey.value();
    const long locked = kib_of("VmLck"), pinned = kib_of("VmPin");
    CU_ASSERT(locked >= 0);
    CU_ASSERT(pinned >= 0);
    EQUAL(in_memory(m), 0);
    EQUAL(t.advise(advice, true, m.at(), 4 * page, key), 0);
    EQUAL(in_memory(m), 4);
    EQUAL(t.read(m.at(), key, 4 * page), Syndrome::none);
    EQUAL(t.stat(num_page_faults), 0);
    EQUAL(kib_of("VmLck"), locked);
    EQUAL(kib_of("VmPin"), pinned);
    EQUAL(::madvise(m.bytes() + page, 2 * page, MADV_DONTNEED), 0);
    EQUAL(in_memory(m), 2);
    EQUAL(t.stat(num_odp_mr_pages), 2);
    EQUAL(t.stat(num_invalidation_pages), 2);
    EQUAL(t.read(m.at(page), key, 2 * page), Syndrome::none);
    EQUAL(t.stat(num_page_faults), 1);
    EQUAL(t.stat(num_page_fault_pages), 2);
  }
}

const kilim::test::Case cases[] = {
    {"advice brings pages in", advice_brings_pages_in},
    {"advice without faults takes what is in memory",
     advice_without_faults_takes_what_is_in_memory},
    {"advice not flushed comes later", advice_not_flushed_comes_later},
    {"a region that changes waits for the advice that names it",
     a_region_that_changes_waits_for_its_advice},
    {"advice is refused as the kernel refuses", advice_is_refused_as_the_kernel_refuses},
    {"advice reaches to the end of the last page", advice_reaches_to_the_end_of_the_last_page},
    {"every element of an advice is served", every_element_of_a_list_is_served},
    {"every element of an advice is checked", every_element_of_a_list_is_checked},
    {"advice that comes later goes on behind a piece that fails",
     advice_that_comes_later_goes_on_behind_a_fault},
    {"what advice brought in is not pinned, and may go again",
     what_advice_brought_in_is_not_pinned_and_may_go},
};

}  // namespace
}  // namespace advice_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(advice, kilim::vhca::test::advice_ut::cases)
