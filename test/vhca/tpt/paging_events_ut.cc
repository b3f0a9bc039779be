// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging: every way that memory goes or moves invalidates.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paging_fixture.hh"

namespace {

int disturbances = 0;  // how often pages are to go again as soon as they have been brought

}  // namespace

// The C library's, for the adapter too. What a client's thread may do between, happens here each
// time it is asked for.
extern "C" int madvise(void* at, std::size_t bytes, int advice) noexcept {
  const auto call = [&](int what) {
    return static_cast<int>(::syscall(SYS_madvise, at, bytes, what));
  };
  const int result = call(advice);
  const bool brings = advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE;
  if (result == 0 && brings && disturbances > 0) {
    disturbances--;
    call(MADV_DONTNEED);
  }
  return result;
}

namespace kilim::vhca::test {
namespace {

// Each of the ways below takes a page out of the table; the next access brings it in again.
void expect_fresh_fault(Bench& t, uint64_t at, uint32_t key, uint64_t pages_gone) {
  CU_ASSERT_FATAL(at != 0);
  EQUAL(t.stat(num_invalidations), 1);
  EQUAL(t.stat(num_invalidation_pages), pages_gone);
  uint64_t before = t.stat(num_page_faults);
  EQUAL(t.write(at, key, 64), Syndrome::none);
  EQUAL(t.stat(num_page_faults), before + 1);
  EQUAL(std::memcmp(reinterpret_cast<void*>(at), t.own.data(), 64), 0);
  t.rig.run();
  EQUAL(t.rig.journal.count(Kind::page_invalidation), 1);
}

void dontneed_invalidates() {
  Bench t;
  Mapping m(4 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 4 * page), Syndrome::none);
  ::madvise(m.bytes() + page, 2 * page, MADV_DONTNEED);
  EQUAL(t.stat(num_odp_mr_pages), 2);
  expect_fresh_fault(t, m.at(page), key, 2);
}

void unmapping_invalidates_and_what_is_mapped_there_next_is_reached() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 16), Syndrome::none);
  ::munmap(m.pointer(), 2 * page);
  EQUAL(t.stat(num_invalidations), 1);
  EQUAL(t.stat(num_odp_mr_pages), 0);
  void* again = ::mmap(m.pointer(), 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EQUAL_FATAL(again, m.pointer());
  expect_fresh_fault(t, m.at(), key, 1);
}

void mapping_over_it_invalidates() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 2 * page), Syndrome::none);
  void* over = ::mmap(m.pointer(), page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EQUAL_FATAL(over, m.pointer());
  expect_fresh_fault(t, m.at(), key, 1);
}

void moving_invalidates() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 16), Syndrome::none);
  void* const elsewhere = kilim::test::far_from_all(2 * page);
  void* moved = ::mremap(m.pointer(), 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
  EQUAL_FATAL(moved, elsewhere);
  EQUAL(t.stat(num_invalidations), 1);
  EQUAL(t.write(m.at(), key, 16), Syndrome::remote_access);
  ::munmap(moved, 2 * page);
}

void shared_memory_invalidates_too() {
  Bench t;
  Mapping m(4 * page, MAP_SHARED | MAP_ANONYMOUS);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 4 * page), Syndrome::none);
  ::madvise(m.pointer(), page, MADV_DONTNEED);
  expect_fresh_fault(t, m.at(), key, 1);
}

void fork_invalidates_everything() {
  Bench t;
  Mapping m(3 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 3 * page), Syndrome::none);
  t.rig.hca->lock.lock();  // as entry/ does around fork
  tpt::page_events::before_fork();
  t.rig.hca->lock.unlock();
  expect_fresh_fault(t, m.at(), key, 3);
}

// A file's mapping is nothing that userfaultfd watches.
void a_files_mapping_is_told_by_calls() {
  char name[] = "/var/tmp/kilim-paging-XXXXXX";
  int fd = ::mkstemp(name);
  CU_ASSERT_FATAL(fd >= 0);
  EQUAL_FATAL(::ftruncate(fd, 2 * page), 0);
  {
    Bench t;
    Mapping m(2 * page, MAP_SHARED, fd);
    uint32_t key = t.reg(m).rkey.value();
    EQUAL(t.write(m.at(), key, 16), Syndrome::none);
    ::madvise(m.pointer(), page, MADV_DONTNEED);
    tpt::page_events::invalidate(tpt::PageRange::of(m.at(), page));
    expect_fresh_fault(t, m.at(), key, 1);
  }
  ::close(fd);
  ::unlink(name);
}

// The pages go as soon as the fault has brought them, as often as is set here.
void an_invalidation_during_a_fault_starts_it_over() {
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 16), Syndrome::none);
  disturbances = 3;
  EQUAL(t.advise(tpt::Paging::Advice::prefetch_write, true, m.at(), 8 * page, key), 0);
  EQUAL(disturbances, 0);
  EQUAL(t.stat(invalidations_faults_contentions), 3);
  EQUAL(t.stat(num_odp_mr_pages), 8);
  // A fault that starts over too often is dropped; the requester asks again.
  ::madvise(m.pointer(), m.size(), MADV_DONTNEED);
  t.rig.hca->qps.at(t.rig.a.qpn.value())->attr.rnr_retry = 7;
  disturbances = 20;
  const uint64_t before = t.stat(num_page_faults);
  EQUAL(t.write(m.at(), key, 8 * page), Syndrome::none);
  EQUAL(disturbances, 0);
  EQUAL(t.stat(invalidations_faults_contentions), 23);
  CU_ASSERT(t.stat(num_page_faults) > before + 1);
  EQUAL(std::memcmp(m.bytes(), t.own.data(), 8 * page), 0);
}

// What a daemon does, which then opens files of its own. The last case: nothing is watched anew.
void a_client_may_close_numbers_that_are_not_its_own() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 2 * page), Syndrome::none);
  ::close_range(3, ~0u, 0);
  for (int n = 0; n < 64; n++) {
    int ends[2];
    EQUAL_FATAL(::pipe(ends), 0);
    EQUAL_FATAL(::write(ends[1], "a client's", 10), 10);
  }
  ::madvise(m.bytes() + page, page, MADV_DONTNEED);
  EQUAL(t.stat(num_invalidations), 1);
  EQUAL(t.stat(num_odp_mr_pages), 1);
  EQUAL(t.write(m.at(page), key, 64), Syndrome::none);
  const pid_t child = ::fork();
  if (child == 0) {
    tpt::page_events::after_fork_in_child();
    int open = 0;
    for (int n = 0; n < 128; n++) open += ::fcntl(3 + n, F_GETFD) >= 0 ? 1 : 0;
    ::_exit(open == 128 ? 0 : 1);
  }
  int status = -1;
  CU_ASSERT(::waitpid(child, &status, 0) == child && status == 0);
  char text[10];
  for (int n = 0; n < 64; n++) {
    EQUAL(::read(3 + 2 * n, text, sizeof text), 10);
    EQUAL(std::memcmp(text, "a client's", 10), 0);
  }
  ::close_range(3, ~0u, 0);
}

const kilim::test::Case cases[] = {
    {"madvise(DONTNEED) invalidates", dontneed_invalidates},
    {"munmap invalidates, and what is mapped there next is reached",
     unmapping_invalidates_and_what_is_mapped_there_next_is_reached},
    {"mapping over it invalidates", mapping_over_it_invalidates},
    {"mremap invalidates", moving_invalidates},
    {"shared memory invalidates too", shared_memory_invalidates_too},
    {"fork invalidates everything", fork_invalidates_everything},
    {"a file's mapping is told by calls", a_files_mapping_is_told_by_calls},
    {"an invalidation during a fault starts it over",
     an_invalidation_during_a_fault_starts_it_over},
    {"a client may close numbers that are not its own",
     a_client_may_close_numbers_that_are_not_its_own},
};

}  // namespace
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(paging_events, kilim::vhca::test::cases)
