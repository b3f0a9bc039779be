// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging through the library: each of the eleven statistics counts its event, each errno
// of advice is got from the device, the asynchronous form goes through a real device.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include <sched.h>

#include "faults_fixture.hh"
#include "kilim/detail/mr/advice_queue.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace odp_ut {
namespace {

using namespace kilim;
using device::OdpCounter;
using mr::Access;
using mr::Advice;
using mr::Mr;
using mr::Region;
using test::page;
using test::Pages;
using test::Peer;
using test::VirtualDevice;

VirtualDevice& shared() {
  static VirtualDevice* v = new VirtualDevice(test::config("odp0"));
  return *v;
}
mr::Registrar& registrar() {
  return shared().device->registrar();
}
uint64_t now(OdpCounter c) {
  return shared().device->odp_statistics().of(c).value_or(UINT64_MAX);
}

Status fetch(const Region& r, uint64_t offset, uint32_t bytes, Advice advice, bool flush = true) {
  const mr::AdviceRange range{r.iova + offset, bytes, r.lkey};
  return registrar().advise({advice, flush, {&range, 1}});
}

// What `happen` adds to a counter. An invalidation is counted a moment after its call returns.
template <typename F>
void counts(OdpCounter c, uint64_t by, F happen) {
  const uint64_t before = now(c);
  CU_ASSERT_NOT_EQUAL(before, UINT64_MAX);
  happen();
  uint64_t after = now(c);
  for (int i = 0; i < 20'000 && after - before != by; i++) {
    ::sched_yield();
    after = now(c);
  }
  if (after - before != by)
    std::printf("%s: %llu\n", device::odp_counter_names[static_cast<std::size_t>(c)],
                static_cast<unsigned long long>(after - before));
  EQUAL(after - before, by);
}

struct Paged {
  Pages memory{4};
  std::optional<Mr> mr;

  explicit Paged(uint32_t access = Access::all) {
    auto made = Mr::create_on_demand(registrar(), memory.span(), access);
    if (made) mr = *std::move(made);
  }
  [[nodiscard]] const Region& region() const { return mr->region(); }
  void drop(std::size_t first, std::size_t n) {
    ::madvise(memory.data() + first * page, n * page, MADV_DONTNEED);
  }
};

void page_faults() {
  Peer peer{*shared().device};
  Paged p;
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(p.mr.has_value());
  counts(OdpCounter::num_page_faults, 1, [&] { peer.write(p.region().iova, p.region().rkey); });
}

void page_fault_pages() {
  Peer peer{*shared().device};
  Paged p;
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(p.mr.has_value());
  counts(OdpCounter::num_page_fault_pages, 2,
         [&] { peer.write(p.region().iova, p.region().rkey, 2 * page); });
}

void invalidations() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  CU_ASSERT(fetch(p.region(), 0, 4 * page, Advice::prefetch_write).ok());
  counts(OdpCounter::num_invalidations, 1, [&] { p.drop(0, 1); });
}

void invalidation_pages() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  CU_ASSERT(fetch(p.region(), 0, 4 * page, Advice::prefetch_write).ok());
  counts(OdpCounter::num_invalidation_pages, 3, [&] { p.drop(1, 3); });
}

void prefetches() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  counts(OdpCounter::num_prefetches_handled, 1,
         [&] { (void)fetch(p.region(), 0, page, Advice::prefetch); });
  counts(OdpCounter::num_prefetch_pages, 3,
         [&] { (void)fetch(p.region(), page, 3 * page, Advice::prefetch_write); });
  // Later, by the device's own turn.
  counts(OdpCounter::num_prefetches_handled, 1, [&] {
    CU_ASSERT(fetch(p.region(), 0, page, Advice::prefetch, false).ok());
    for (int i = 0; i < 10; i++) shared().device->progress();
  });
}

// Over and over, until a prefetch has met an invalidation.
void contentions() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  const uint64_t before = now(OdpCounter::invalidations_faults_contentions);
  std::atomic<bool> stop{false};
  std::thread disturber([&] {
    while (!stop) p.drop(0, 4);
  });
  uint64_t after = before;
  for (int i = 0; i < 200'000 && after == before; i++) {
    (void)fetch(p.region(), 0, 4 * page, Advice::prefetch_write);
    after = now(OdpCounter::invalidations_faults_contentions);
  }
  stop = true;
  disturber.join();
  CU_ASSERT(after > before);
}

void failed_resolutions() {
  Peer peer{*shared().device};
  Paged p;
  CU_ASSERT_FATAL(peer.ok());
  CU_ASSERT_FATAL(p.mr.has_value());
  ::mmap(p.memory.data(), 4 * page, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  counts(OdpCounter::num_failed_resolutions, 1,
         [&] { CU_ASSERT_FALSE(peer.write(p.region().iova, p.region().rkey)); });
}

void regions_not_found() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  Region other = p.region();
  other.lkey = Lkey{other.lkey.value() ^ 0x100000};
  counts(OdpCounter::num_mrs_not_found, 1,
         [&] { EQUAL(fetch(other, 0, 8, Advice::prefetch).error().code, ENOENT); });
}

void live_regions_and_pages() {
  std::optional<Paged> p;
  counts(OdpCounter::num_odp_mrs, 1, [&] { p.emplace(); });
  CU_ASSERT_FATAL(p->mr.has_value());
  counts(OdpCounter::num_odp_mr_pages, 2,
         [&] { (void)fetch(p->region(), 0, 2 * page, Advice::prefetch_write); });
  counts(OdpCounter::num_odp_mr_pages, ~uint64_t{0}, [&] { p->drop(0, 1); });
  counts(OdpCounter::num_odp_mrs, ~uint64_t{0}, [&] { p.reset(); });
  EQUAL(now(OdpCounter::num_odp_mr_pages), 0);
}

void not_reported() {
  auto d = mlx5::open("odp0", {}, "/nowhere");
  CU_ASSERT_FATAL(d.ok());
  for (const auto& v : (*d)->odp_statistics().values) CU_ASSERT_FALSE(v.has_value());
  for (const auto& v : shared().device->odp_statistics().values) CU_ASSERT(v.has_value());
}

void no_advice_for_a_key_of_a_list(Region list) {
  std::array<mr::IndirectMkey, 1> key;
  CU_ASSERT_FATAL(shared().device->keys().create_mkeys(4, key).ok());
  list.lkey = key[0].lkey;
  EQUAL(fetch(list, 0, 8, Advice::prefetch).error().code, EINVAL);
  shared().device->keys().destroy_mkeys(key);
}

void advice_and_its_errors() {
  Paged p, reader(0);
  Pages plain(1);
  auto pinned = Mr::create(registrar(), plain.span(), Access::all, page);
  auto domain = registrar().create_domain();
  CU_ASSERT_FATAL(p.mr.has_value());
  CU_ASSERT_FATAL(reader.mr.has_value());
  CU_ASSERT_FATAL(pinned.ok());
  CU_ASSERT_FATAL(domain.ok());
  for (const Advice a : {Advice::prefetch, Advice::prefetch_write, Advice::prefetch_no_fault}) {
    for (const bool flush : {true, false}) CU_ASSERT(fetch(p.region(), 0, page, a, flush).ok());
  }
  EQUAL(fetch(pinned->region(), 0, 8, Advice::prefetch).error().code, ENOENT);
  EQUAL(fetch(reader.region(), 0, 8, Advice::prefetch_write).error().code, EPERM);
  EQUAL(fetch(p.region(), page, 4 * page, Advice::prefetch).error().code, EFAULT);
  EQUAL(registrar().advise({}).error().code, EINVAL);
  EQUAL(fetch(p.region(), 0, page, static_cast<Advice>(3)).error().code, EOPNOTSUPP);
  no_advice_for_a_key_of_a_list(p.region());
  mr::Change away;
  away.domain = true;
  away.new_domain = *domain;
  CU_ASSERT(p.mr->reregister(away).ok());
  EQUAL(fetch(p.region(), 0, 8, Advice::prefetch).error().code, EPERM);
  p.mr.reset();
  CU_ASSERT(registrar().destroy_domain(*domain).ok());
  const Region gone = reader.region();
  ::mmap(reader.memory.data(), page, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EQUAL(fetch(gone, 0, page, Advice::prefetch).error().code, EFAULT);
}

void every_range_of_an_advice() {
  Paged p, q;
  CU_ASSERT_FATAL(p.mr.has_value());
  CU_ASSERT_FATAL(q.mr.has_value());
  const Region &a = p.region(), &b = q.region();
  std::array ranges{mr::AdviceRange{a.iova, page, a.lkey},
                    mr::AdviceRange{b.iova + page, 2 * page, b.lkey},
                    mr::AdviceRange{a.iova + 3 * page, page, a.lkey}};
  counts(OdpCounter::num_prefetch_pages, 4, [&] {
    CU_ASSERT(registrar().advise({Advice::prefetch_write, true, ranges}).ok());
  });
  ranges[2].lkey = Lkey{a.lkey.value() ^ 0x100000};
  const Status last = registrar().advise({Advice::prefetch, true, ranges});
  CU_ASSERT(!last && last.error().code == ENOENT);
  CU_ASSERT(registrar().advise({Advice::prefetch, true, std::span{ranges}.first(2)}).ok());
}

void asynchronous_advice() {
  Paged p;
  CU_ASSERT_FATAL(p.mr.has_value());
  auto q = mr::AdviceQueue::create(registrar(), {.tries = 3, .pause_ns = 10});
  CU_ASSERT_FATAL(q.ok());
  const Region& r = p.region();
  const mr::AdviceJob job{.address = r.iova, .bytes = 4 * page, .lkey = r.lkey};
  test::Faults busy;
  busy.fail_ioctl = 1;
  busy.ioctl_error = EAGAIN;
  test::arm(busy);
  counts(OdpCounter::num_prefetch_pages, 4, [&] {
    CU_ASSERT((*q)->submit(job) && (*q)->poll(0) == 1);
    CU_ASSERT(!(*q)->idle());
    EQUAL((*q)->poll(10), 1);
    CU_ASSERT((*q)->idle());
  });
  test::arm({});
  EQUAL((*q)->counts().done, 1);
  EQUAL((*q)->counts().retried, 1);
}

const kilim::test::Case cases[] = {
    {"num_page_faults counts a page fault", page_faults},
    {"num_page_fault_pages counts the pages of a fault", page_fault_pages},
    {"num_invalidations counts an invalidation", invalidations},
    {"num_invalidation_pages counts the pages of an invalidation", invalidation_pages},
    {"num_prefetches_handled and num_prefetch_pages count a prefetch", prefetches},
    {"invalidations_faults_contentions counts a restarted prefetch", contentions},
    {"num_failed_resolutions counts a fault that could not be resolved", failed_resolutions},
    {"num_mrs_not_found counts an unknown key", regions_not_found},
    {"num_odp_mrs and num_odp_mr_pages count what lives", live_regions_and_pages},
    {"what the running kernel lacks is not reported", not_reported},
    {"advice prefetches, and each refusal has mlx5_ib's errno", advice_and_its_errors},
    {"every range of an advice is passed on", every_range_of_an_advice},
    {"asynchronous advice is tried again after EAGAIN", asynchronous_advice},
};

}  // namespace
}  // namespace odp_ut

KILIM_TEST_MAIN(odp) {
  if (!odp_ut::shared().device || !kilim::test::place_faults()) return 2;
  return kilim::test::run_cases("mlx5/odp", odp_ut::cases, argc, argv);
}
