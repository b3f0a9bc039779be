// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging through the engine: faults, their counters, what is refused, invalidations by
// every way memory goes or moves, prefetches.
#include <atomic>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.hh"
#include "ut.hh"
#include "vhca/hca/state.hh"
#include "vhca/tpt/page_events.hh"

namespace kilim::vhca::test {
namespace {

using prm::Opcode;
using prm::Syndrome;
using Kind = Journal::Kind;

constexpr std::size_t page = 4096;
constexpr uint32_t odp_access = rw_access | access::on_demand;
constexpr uint32_t read_only = access::remote_read | access::on_demand;

class Mapping {
 public:
  explicit Mapping(std::size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1,
                   int prot = PROT_READ | PROT_WRITE)
      : bytes_(bytes) {
    void* p = ::mmap(nullptr, bytes, prot, flags, fd, 0);
    at_ = p == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(p);
  }
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void unmap() {
    if (at_ != 0) ::munmap(pointer(), bytes_);
    at_ = 0;
  }
  [[nodiscard]] bool ok() const { return at_ != 0; }
  [[nodiscard]] uint64_t at(std::size_t offset = 0) const { return at_ + offset; }
  [[nodiscard]] uint8_t* bytes() const { return static_cast<uint8_t*>(pointer()); }
  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(at_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  uint64_t at_ = 0;
  std::size_t bytes_;
};

// A pinned buffer to write from and read to, and whatever a case registers.
struct Bench {
  explicit Bench(const RigShape& shape = {}) : rig(shape) {
    for (std::size_t i = 0; i < own.size(); i++) own.data()[i] = static_cast<std::byte>(i * 5 + 1);
    ko = rig.reg(own, rw_access);
  }
  // The caller of munmap() goes on when its event is read, under the lock: applied it is behind it.
  [[nodiscard]] uint64_t stat(OdpCounter c) {
    const PageLock lock;
    return rig.hca->state().paging.stats().read(c);
  }
  Syndrome write(uint64_t to, uint32_t rkey, uint32_t n, std::size_t from = 0) {
    Wqe w(Opcode::rdma_write);
    w.raddr(to, rkey).data(own.at(from), n, ko.lkey.value());
    return rig.run_one(rig.a, w).syndrome;
  }
  Syndrome read(uint64_t from, uint32_t rkey, uint32_t n) {
    Wqe w(Opcode::rdma_read);
    w.raddr(from, rkey).data(own.at(32768), n, ko.lkey.value());
    return rig.run_one(rig.a, w).syndrome;
  }
  MrKeys reg(const Mapping& m, uint32_t access = odp_access) {
    return rig.reg(Va{m.at()}, m.size(), access);
  }
  int advise(Paging::Advice advice, bool flush, uint64_t at, uint32_t n, uint32_t key) {
    Advice::Range range{at, n, key};
    return rig.hca->advise_mr({rig.pd, static_cast<uint32_t>(advice), flush, {&range, 1}});
  }
  Rig rig;
  Pages own{65536};
  MrKeys ko{};
};

using enum OdpCounter;

void a_first_access_faults_and_completes() {
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.stat(num_odp_mrs) == 1 && t.stat(num_page_faults) == 0);
  CU_ASSERT(t.write(m.at(100), key, 2 * page) == Syndrome::none);
  CU_ASSERT(std::memcmp(m.bytes() + 100, t.own.data(), 2 * page) == 0);
  CU_ASSERT(t.stat(num_page_faults) == 1 && t.stat(num_page_fault_pages) == 3);
  CU_ASSERT(t.stat(num_odp_mr_pages) == 3 && t.rig.journal.count(Kind::page_fault) == 1);
  CU_ASSERT(t.write(m.at(200), key, page) == Syndrome::none);
  CU_ASSERT(t.stat(num_page_faults) == 1);
}

void the_requesters_own_memory_faults_too() {
  Bench t;
  Mapping m(4 * page);
  MrKeys k = t.reg(m);
  m.bytes()[0] = 7;
  Wqe w(Opcode::rdma_write);
  w.raddr(t.own.at(0), t.ko.rkey.value()).data(m.at(), page, k.lkey.value());
  CU_ASSERT(t.rig.run_one(t.rig.a, w).syndrome == Syndrome::none);
  CU_ASSERT(t.own.data()[0] == std::byte{7} && t.stat(num_page_faults) == 1);
  Wqe r(Opcode::rdma_read);
  r.raddr(t.own.at(0), t.ko.rkey.value()).data(m.at(2 * page), page, k.lkey.value());
  CU_ASSERT(t.rig.run_one(t.rig.a, r).syndrome == Syndrome::none);
  CU_ASSERT(m.bytes()[2 * page] == 7 && t.stat(num_page_faults) == 2);
}

void a_receive_buffer_faults() {
  Bench t;
  Mapping m(2 * page);
  MrKeys k = t.reg(m);
  t.rig.b.recv(m.at(), page, k.lkey.value());
  Wqe w(Opcode::send);
  w.data(t.own.at(0), page, t.ko.lkey.value());
  CU_ASSERT(t.rig.run_one(t.rig.a, w).syndrome == Syndrome::none);
  auto c = t.rig.wait(t.rig.cq_b);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::none && c->bytes == page);
  CU_ASSERT(t.stat(num_page_faults) == 1 && std::memcmp(m.bytes(), t.own.data(), page) == 0);
}

void an_atomic_faults_on_both_sides() {
  Bench t;
  Mapping far(page), near(page);
  uint32_t rkey = t.reg(far).rkey.value();
  uint32_t lkey = t.reg(near).lkey.value();
  uint64_t start = 40, old = 0;
  std::memcpy(far.bytes() + 8, &start, 8);
  Wqe w(Opcode::atomic_fa);
  w.raddr(far.at(8), rkey).atomic(2, 0).data(near.at(16), 8, lkey);
  CU_ASSERT(t.rig.run_one(t.rig.a, w).syndrome == Syndrome::none);
  std::memcpy(&start, far.bytes() + 8, 8);
  std::memcpy(&old, near.bytes() + 16, 8);
  // The answer is in the host's order: requests of one word are not swapped.
  CU_ASSERT(start == 42 && (old == 40 || old == __builtin_bswap64(40)));
  CU_ASSERT(t.stat(num_page_faults) == 2);
}

void an_implicit_region_is_the_whole_address_space() {
  Bench t;
  MrSpec spec{t.rig.pd, Va{0}, UINT64_MAX, Iova{0}, odp_access};
  Result<MrKeys> k = t.rig.hca->reg_mr(spec);
  CU_ASSERT_FATAL(k.ok());
  Mapping m(3 * page);
  CU_ASSERT(t.write(m.at(page), k->rkey.value(), page) == Syndrome::none);
  CU_ASSERT(std::memcmp(m.bytes() + page, t.own.data(), page) == 0);
  CU_ASSERT(t.stat(num_page_faults) == 1 && t.stat(num_odp_mr_pages) == 1);
  CU_ASSERT(t.rig.hca->dereg_mr(MkeyIndex{k->lkey.value() >> 8}) == 0);
  CU_ASSERT(t.stat(num_odp_mr_pages) == 0 && t.stat(num_odp_mrs) == 0);
}

void memory_that_is_not_there_is_a_protection_error() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  uint64_t at = m.at();
  m.unmap();
  CU_ASSERT(t.write(at, key, 8) == Syndrome::remote_access);
  CU_ASSERT(t.stat(num_failed_resolutions) == 1 && t.stat(num_page_fault_pages) == 0);
}

void the_requesters_missing_memory_is_its_own_protection_error() {
  Bench t;
  Mapping m(2 * page);
  MrKeys k = t.reg(m);
  uint64_t at = m.at();
  m.unmap();
  Wqe w(Opcode::rdma_write);
  w.raddr(t.own.at(0), t.ko.rkey.value()).data(at, 8, k.lkey.value());
  CU_ASSERT(t.rig.run_one(t.rig.a, w).syndrome == Syndrome::local_prot);
}

void a_region_without_right_to_write_is_read_only() {
  Bench t;
  Mapping m(2 * page, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ);
  uint32_t key = t.reg(m, read_only).rkey.value();
  CU_ASSERT(t.read(m.at(), key, 16) == Syndrome::none && t.stat(num_page_faults) == 1);
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::remote_access);
}

void a_writable_region_of_read_only_memory_cannot_be_resolved() {
  Bench t;
  Mapping m(2 * page, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::remote_access);
  CU_ASSERT(t.stat(num_failed_resolutions) == 1);
}

void protection_taken_away_is_noticed_by_the_copy() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::none);
  ::mprotect(m.pointer(), page, PROT_NONE);
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::remote_access);
  CU_ASSERT(t.stat(num_invalidations) == 1);
}

// Each of the ways below takes a page out of the table; the next access brings it in again.
void expect_fresh_fault(Bench& t, uint64_t at, uint32_t key, uint64_t pages_gone) {
  CU_ASSERT(t.stat(num_invalidations) == 1 && t.stat(num_invalidation_pages) == pages_gone);
  uint64_t before = t.stat(num_page_faults);
  CU_ASSERT(t.write(at, key, 64) == Syndrome::none);
  CU_ASSERT(t.stat(num_page_faults) == before + 1);
  CU_ASSERT(std::memcmp(reinterpret_cast<void*>(at), t.own.data(), 64) == 0);
  t.rig.run();
  CU_ASSERT(t.rig.journal.count(Kind::page_invalidation) == 1);
}

void dontneed_invalidates() {
  Bench t;
  Mapping m(4 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 4 * page) == Syndrome::none);
  ::madvise(m.bytes() + page, 2 * page, MADV_DONTNEED);
  CU_ASSERT(t.stat(num_odp_mr_pages) == 2);
  expect_fresh_fault(t, m.at(page), key, 2);
}

void unmapping_invalidates_and_what_is_mapped_there_next_is_reached() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::none);
  ::munmap(m.pointer(), 2 * page);
  CU_ASSERT(t.stat(num_invalidations) == 1 && t.stat(num_odp_mr_pages) == 0);
  void* again = ::mmap(m.pointer(), 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CU_ASSERT_FATAL(again == m.pointer());
  expect_fresh_fault(t, m.at(), key, 1);
}

void mapping_over_it_invalidates() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 2 * page) == Syndrome::none);
  void* over = ::mmap(m.pointer(), page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CU_ASSERT_FATAL(over == m.pointer());
  expect_fresh_fault(t, m.at(), key, 1);
}

void moving_invalidates() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::none);
  void* moved = ::mremap(m.pointer(), 2 * page, 64 * page, MREMAP_MAYMOVE);
  CU_ASSERT_FATAL(moved != MAP_FAILED);
  if (moved != m.pointer()) {
    CU_ASSERT(t.stat(num_invalidations) == 1);
    CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::remote_access);
  }
  ::munmap(moved, 64 * page);
}

void shared_memory_invalidates_too() {
  Bench t;
  Mapping m(4 * page, MAP_SHARED | MAP_ANONYMOUS);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 4 * page) == Syndrome::none);
  ::madvise(m.pointer(), page, MADV_DONTNEED);
  expect_fresh_fault(t, m.at(), key, 1);
}

void fork_invalidates_everything() {
  Bench t;
  Mapping m(3 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 3 * page) == Syndrome::none);
  t.rig.hca->lock().lock();  // as entry/ does around fork
  page_events::before_fork();
  t.rig.hca->lock().unlock();
  expect_fresh_fault(t, m.at(), key, 3);
}

// A file's mapping is nothing that userfaultfd watches.
void a_files_mapping_is_told_by_calls() {
  char name[] = "/var/tmp/kilim-paging-XXXXXX";
  int fd = ::mkstemp(name);
  CU_ASSERT_FATAL(fd >= 0 && ::ftruncate(fd, 2 * page) == 0);
  {
    Bench t;
    Mapping m(2 * page, MAP_SHARED, fd);
    uint32_t key = t.reg(m).rkey.value();
    CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::none);
    ::madvise(m.pointer(), page, MADV_DONTNEED);
    page_events::invalidate(PageRange::of(m.at(), page));
    expect_fresh_fault(t, m.at(), key, 1);
  }
  ::close(fd);
  ::unlink(name);
}

struct Disturber {
  uint8_t* memory;
  std::size_t bytes;
  std::atomic<bool> stop{false};
  static void* run(void* self) {
    auto* d = static_cast<Disturber*>(self);
    while (!d->stop.load()) ::madvise(d->memory, d->bytes, MADV_DONTNEED);
    return nullptr;
  }
};

void an_invalidation_during_a_fault_starts_it_over() {
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.write(m.at(), key, 16) == Syndrome::none);
  Disturber d{m.bytes(), m.size()};
  pthread_t thread;
  CU_ASSERT_FATAL(pthread_create(&thread, nullptr, Disturber::run, &d) == 0);
  // Until it has happened; a reader of zeroes meanwhile is as good as one of data.
  int tries = 0;
  uint32_t failed = 0;
  while (t.stat(invalidations_faults_contentions) == 0 && tries++ < 100'000) {
    if (t.advise(Paging::Advice::prefetch_write, true, m.at(), 8 * page, key) != 0) failed++;
  }
  d.stop.store(true);
  pthread_join(thread, nullptr);
  CU_ASSERT(t.stat(invalidations_faults_contentions) > 0);
  CU_ASSERT(t.write(m.at(), key, 8 * page) == Syndrome::none);
  CU_ASSERT(std::memcmp(m.bytes(), t.own.data(), 8 * page) == 0);
  (void)failed;
}

void advice_brings_pages_in() {
  using enum Paging::Advice;
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  CU_ASSERT(t.advise(prefetch_write, true, m.at(), 4 * page, key) == 0);
  CU_ASSERT(t.stat(num_prefetch_pages) == 4 && t.stat(num_prefetches_handled) == 1);
  CU_ASSERT(t.write(m.at(), key, 4 * page) == Syndrome::none && t.stat(num_page_faults) == 0);
  // For reading alone: the first write faults.
  CU_ASSERT(t.advise(prefetch, true, m.at(4 * page), page, key) == 0);
  CU_ASSERT(t.read(m.at(4 * page), key, 16) == Syndrome::none && t.stat(num_page_faults) == 0);
  CU_ASSERT(t.write(m.at(4 * page), key, 16) == Syndrome::none && t.stat(num_page_faults) == 1);
  CU_ASSERT(t.rig.journal.count(Kind::page_prefetch) == 2);
}

void advice_without_faults_takes_what_is_in_memory() {
  using enum Paging::Advice;
  Bench t;
  Mapping m(4 * page);
  uint32_t key = t.reg(m).rkey.value();
  m.bytes()[page] = 1;
  CU_ASSERT(t.advise(prefetch_no_fault, true, m.at(), 4 * page, key) == 0);
  CU_ASSERT(t.stat(num_prefetch_pages) == 1 && t.stat(num_odp_mr_pages) == 1);
  CU_ASSERT(t.read(m.at(page), key, 16) == Syndrome::none && t.stat(num_page_faults) == 0);
  CU_ASSERT(t.read(m.at(2 * page), key, 16) == Syndrome::none && t.stat(num_page_faults) == 1);
}

void advice_not_flushed_comes_later() {
  using enum Paging::Advice;
  Bench t;
  Mapping m(4 * page);
  MrKeys k = t.reg(m);
  CU_ASSERT(t.advise(prefetch_write, false, m.at(), 4 * page, k.lkey.value()) == 0);
  CU_ASSERT(t.stat(num_prefetch_pages) == 0);
  t.rig.run();
  CU_ASSERT(t.stat(num_prefetch_pages) == 4 && t.stat(num_prefetches_handled) == 1);
  // The region goes before its turn comes; what is out of bounds is nobody's error.
  CU_ASSERT(t.advise(prefetch, false, m.at(), 5 * page, k.lkey.value()) == 0);
  CU_ASSERT(t.advise(prefetch, false, m.at(), page, k.lkey.value()) == 0);
  CU_ASSERT(t.rig.hca->dereg_mr(MkeyIndex{k.lkey.value() >> 8}) == 0);
  t.rig.run();
  CU_ASSERT(t.stat(num_mrs_not_found) == 2 && t.stat(num_prefetches_handled) == 1);
}

void advice_is_refused_as_the_kernel_refuses() {
  using enum Paging::Advice;
  Bench t;
  Mapping m(4 * page), gone(page);
  uint32_t key = t.reg(m).lkey.value();
  uint32_t reader = t.reg(m, read_only).lkey.value();
  uint32_t missing = t.reg(gone).lkey.value();
  CU_ASSERT(t.advise(prefetch, true, m.at(), page, key + 1) == -ENOENT);
  CU_ASSERT(t.stat(num_mrs_not_found) == 1);
  CU_ASSERT(t.advise(prefetch, true, t.own.at(0), page, t.ko.lkey.value()) == -ENOENT);
  CU_ASSERT(t.advise(prefetch, true, m.at(), page, t.rig.make_key(4)) == -EINVAL);
  CU_ASSERT(t.advise(prefetch_write, true, m.at(), page, reader) == -EPERM);
  CU_ASSERT(t.advise(prefetch, true, m.at(page), 4 * page, key) == -EFAULT);
  CU_ASSERT(t.advise(prefetch, true, m.at() - 1, 1, key) == -EFAULT);
  uint64_t at = gone.at();
  gone.unmap();
  CU_ASSERT(t.advise(prefetch, true, at, page, missing) == -EFAULT);
  ::mprotect(m.pointer(), page, PROT_READ);
  CU_ASSERT(t.advise(prefetch_write, true, m.at(), page, key) == -EPERM);
  Advice::Range range{m.at(), page, key};
  CU_ASSERT(t.rig.hca->advise_mr({t.rig.pd, 3, true, {&range, 1}}) == -EOPNOTSUPP);
  Result<Pdn> other = t.rig.hca->alloc_pd();
  CU_ASSERT(t.rig.hca->advise_mr({*other, 0, true, {&range, 1}}) == -EPERM);
  CU_ASSERT(t.stat(num_prefetches_handled) == 0);
}

void an_adapter_without_paging_refuses() {
  RigShape shape;
  shape.profile = *find_profile("no-odp");
  Bench t(shape);
  Mapping m(page);
  MrSpec spec{t.rig.pd, Va{m.at()}, page, Iova{m.at()}, odp_access};
  CU_ASSERT(!t.rig.hca->reg_mr(spec).ok());
  CU_ASSERT(t.advise(Paging::Advice::prefetch, true, m.at(), page, t.ko.lkey.value()) ==
            -EOPNOTSUPP);
}

void a_list_of_pieces_reaches_paged_memory() {
  Bench t;
  Mapping m(4 * page);
  uint32_t inner = t.reg(m).lkey.value();
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 2> list = {klm(m.at(3 * page), 100, inner), klm(m.at(), 100, inner)};
  UmrShape shape;
  shape.len = 200;
  CU_ASSERT(t.rig.run_one(t.rig.a, umr_wqe(key, shape, list)).syndrome == Syndrome::none);
  CU_ASSERT(t.write(0, key, 200) == Syndrome::none);
  CU_ASSERT(std::memcmp(m.bytes() + 3 * page, t.own.data(), 100) == 0);
  CU_ASSERT(std::memcmp(m.bytes(), t.own.data() + 100, 100) == 0);
  CU_ASSERT(t.stat(num_page_faults) == 2);
}

void an_unreliable_connection_does_not_fault() {
  RigShape shape;
  shape.a.type = shape.b.type = QpType::uc;
  shape.connect = false;
  Bench t(shape);
  // Without a pair of such queues here: the piece is asked for as they ask.
  Mapping m(page);
  uint32_t key = t.reg(m).lkey.value();
  Segment s{m.at(), 8, key, false};
  std::byte to[8];
  const Translator& tr = t.rig.hca->state().works.translator;
  Access need{t.rig.pd, prm::mkey::any_qpn, prm::mkey::local_read};
  CU_ASSERT(gather_bytes(tr, {{&s, 1}, need}, to, 8).source == Deny::fault);
  CU_ASSERT(t.advise(Paging::Advice::prefetch, true, m.at(), 8, key) == 0);
  CU_ASSERT(gather_bytes(tr, {{&s, 1}, need}, to, 8).ok());
}

void a_region_registered_anew_has_an_empty_table() {
  Bench t;
  Mapping m(2 * page), n(2 * page);
  MrKeys k = t.reg(m);
  CU_ASSERT(t.write(m.at(), k.rkey.value(), 2 * page) == Syndrome::none);
  MrSpec spec{t.rig.pd, Va{n.at()}, 2 * page, Iova{n.at()}, odp_access};
  CU_ASSERT(t.rig.hca->rereg_mr(MkeyIndex{k.lkey.value() >> 8}, spec) == 0);
  CU_ASSERT(t.stat(num_odp_mrs) == 1 && t.stat(num_odp_mr_pages) == 0);
  CU_ASSERT(t.write(n.at(), k.rkey.value(), page) == Syndrome::none);
  CU_ASSERT(t.stat(num_page_faults) == 2 && n.bytes()[0] == 1);
}

const kilim::test::Case cases[] = {
    {"a first access faults and completes", a_first_access_faults_and_completes},
    {"the requester's own memory faults too", the_requesters_own_memory_faults_too},
    {"a receive buffer faults", a_receive_buffer_faults},
    {"an atomic faults on both sides", an_atomic_faults_on_both_sides},
    {"an implicit region is the whole address space",
     an_implicit_region_is_the_whole_address_space},
    {"memory that is not there is a protection error",
     memory_that_is_not_there_is_a_protection_error},
    {"the requester's missing memory is its own protection error",
     the_requesters_missing_memory_is_its_own_protection_error},
    {"a region without right to write is read-only", a_region_without_right_to_write_is_read_only},
    {"a writable region of read-only memory cannot be resolved",
     a_writable_region_of_read_only_memory_cannot_be_resolved},
    {"protection taken away is noticed by the copy", protection_taken_away_is_noticed_by_the_copy},
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
    {"advice brings pages in", advice_brings_pages_in},
    {"advice without faults takes what is in memory",
     advice_without_faults_takes_what_is_in_memory},
    {"advice not flushed comes later", advice_not_flushed_comes_later},
    {"advice is refused as the kernel refuses", advice_is_refused_as_the_kernel_refuses},
    {"an adapter without paging refuses", an_adapter_without_paging_refuses},
    {"a list of pieces reaches paged memory", a_list_of_pieces_reaches_paged_memory},
    {"an unreliable connection does not fault", an_unreliable_connection_does_not_fault},
    {"a region registered anew has an empty table", a_region_registered_anew_has_an_empty_table},
};

}  // namespace
}  // namespace kilim::vhca::test

KILIM_UT_MAIN("paging", kilim::vhca::test::cases)
