// SPDX-License-Identifier: BSD-3-Clause
// The linter in the library's own queues, where asserts are compiled in: it is told of doorbells
// and completions, and seeded mistakes with keys between two queues are named. Without asserts
// there is none.
#include <cerrno>
#include <cstring>

#include "kilim/detail/diag/audit.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace mkey_queue_ut {
namespace {

using namespace kilim;
using test::VirtualDevice;

constexpr mkey::Bind all{.access = umr::mkey_access(mr::Access::all)};

// Two queues that know of each other, memory, a key of the first.
struct Bench {
  VirtualDevice v;
  std::vector<std::byte> memory = std::vector<std::byte>(8192);
  std::optional<mr::Mr> region;
  diag::MkeyTraffic traffic;
  std::unique_ptr<port::MkeyQueue> a, b;
  mkey::Binding key;

  explicit Bench(const char* name, const char* profile = "cx6dx") : v(test::config(name, profile)) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
    auto mr = mr::Mr::create(v.device->registrar(), memory, mr::Access::all, 4096);
    const port::MkeyQueueConfig config{
        .keys = 4, .access = mr::Access::all, .lcore = 1, .traffic = &traffic, .lint_stops = false};
    auto one = port::MkeyQueue::create(*v.device, config);
    auto two = port::MkeyQueue::create(*v.device, config);
    CU_ASSERT_TRUE_FATAL(mr.ok());
    CU_ASSERT_TRUE_FATAL(one.ok());
    CU_ASSERT_TRUE_FATAL(two.ok());
    region.emplace(*std::move(mr));
    a = *std::move(one);
    b = *std::move(two);
    key = a->binder().claim();
  }
  ~Bench() { key.end(); }
  void bind(queue::WqeCursor& c) {
    const umr::Piece piece{region->region().iova, 64, region->region().lkey};
    CU_ASSERT_TRUE_FATAL(a->binder().bind(c, key, all, umr::View{&piece, 1, 64}).ok());
  }
  void bind() {
    queue::WqeCursor c{a->sq()};
    bind(c);
    a->binder().commit(c);
  }
  void write(queue::WqeCursor& c, Lkey from) {
    const queue::Remote to{region->region().iova + 4096, region->region().rkey};
    CU_ASSERT_TRUE_FATAL(
        queue::rdma_write(c, to, queue::Sge{0, 64, from}, {.flags = queue::WrFlags::signalled}));
  }
  void write_by(port::MkeyQueue& q, Lkey from) {
    queue::WqeCursor c{q.sq()};
    write(c, from);
    c.commit();
  }
  [[nodiscard]] uint64_t findings() const { return a->lint()->findings() + b->lint()->findings(); }
};

[[maybe_unused]] void a_key_is_used_elsewhere_too_early() {
  Bench x{"lint0"};
  x.bind();
  x.write_by(*x.b, x.key.key().lkey);  // the binding itself would not give it yet
  EQUAL(x.findings(), 1);
  EQUAL(x.b->lint()->findings(), 1);
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  CU_ASSERT_TRUE_FATAL(x.b->wait());
  x.write_by(*x.b, x.key.lkey());
  EQUAL(x.findings(), 1);
}

[[maybe_unused]] void a_key_changes_while_it_is_used_elsewhere() {
  Bench x{"lint1"};
  x.bind();
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.write_by(*x.b, x.key.lkey());
  CU_ASSERT_TRUE_FATAL(x.b->wait());
  x.bind();
  EQUAL(x.findings(), 0);
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.write_by(*x.b, x.key.lkey());
  x.bind();
  EQUAL(x.findings(), 1);
  EQUAL(x.a->lint()->findings(), 1);
}

[[maybe_unused]] void a_use_behind_the_umr_lost_its_fence() {
  Bench x{"lint2"};
  {
    queue::WqeCursor c{x.a->sq()};
    x.bind(c);
    c.fence_next(0);
    x.write(c, x.key.lkey_behind(c));
    x.a->binder().commit(c);
  }
  EQUAL(x.findings(), 1);
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.write_by(*x.a, x.key.lkey());  // complete: needs none
  EQUAL(x.findings(), 1);
}

// lkey() does not tell the binder of the use.
[[maybe_unused]] void a_use_that_the_binder_does_not_know_of() {
  Bench x{"lint3"};
  x.bind();
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.write_by(*x.a, x.key.lkey());
  x.bind();
  EQUAL(x.findings(), 1);
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.write_by(*x.a, x.key.lkey());
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  x.bind();
  EQUAL(x.findings(), 1);
}

[[maybe_unused]] void bits_that_the_manual_reserves() {
  Bench x{"lint4"};
  queue::WqeCursor c{x.a->sq()};
  x.bind(c);
  x.a->sq().geometry().buf[16 + 1] = std::byte{1};
  x.a->binder().commit(c);
  EQUAL(x.findings(), 1);
}

// An error and a reset end what was under way.
[[maybe_unused]] void a_recovered_queue_starts_anew() {
  Bench x{"lint5"};
  struct Sink {
    mkey::MkeyBinder& binder;
    void completed(const queue::Completion& c) noexcept { (void)binder.handle_completion(c); }
    void lost(uint64_t, bool) noexcept {}
  } sink{x.a->binder()};
  for (int round = 0; round < 3; round++) {
    {
      queue::WqeCursor c{x.a->sq()};
      CU_ASSERT_TRUE_FATAL(queue::rdma_write(
          c, {0, Rkey{0}}, queue::Sge{x.region->region().iova, 1, x.region->region().lkey}, {}));
      x.bind(c);
      x.a->binder().commit(c);
    }
    CU_ASSERT_FALSE(x.a->wait());
    CU_ASSERT_TRUE_FATAL(x.a->recover(sink).ok());
    x.bind();
    CU_ASSERT_TRUE_FATAL(x.a->wait());
    x.write_by(*x.b, x.key.lkey());
    CU_ASSERT_TRUE_FATAL(x.b->wait());
  }
  EQUAL(x.findings(), 0);
}

[[maybe_unused]] void sound_work_is_not_blamed() {
  for (const char* profile : {"cx6dx", "no-fence", "strong-fence"}) {
    Bench x{profile, profile};
    for (int round = 0; round < 600; round++) {  // the ring and the numbers of WQEs come round
      queue::WqeCursor c{x.a->sq()};
      x.bind(c);
      x.write(c, x.key.lkey_behind(c));
      x.bind(c);
      x.a->binder().commit(c);
      CU_ASSERT_TRUE_FATAL(x.a->wait());
      x.write_by(*x.b, x.key.lkey());
      CU_ASSERT_TRUE_FATAL(x.b->wait());
      if (round % 7 != 0) continue;
      x.key = x.a->binder().claim();
      CU_ASSERT_TRUE_FATAL(x.a->binder().flush());
      CU_ASSERT_TRUE_FATAL(x.a->wait());
    }
    EQUAL(x.findings(), 0);
  }
}

// Another key, whose UMR is flushed behind an error.
void a_flushed_bind_is_a_fault(Bench& x) {
  mkey::Binding old = std::move(x.key);
  x.key = x.a->binder().claim();
  {
    queue::WqeCursor c{x.a->sq()};
    const queue::Sge one{x.region->region().iova, 1, x.region->region().lkey};
    CU_ASSERT_TRUE_FATAL(queue::rdma_write(c, {0, Rkey{0}}, one, {}));
    x.bind(c);
    x.a->binder().commit(c);
  }
  CU_ASSERT_FALSE(x.a->wait());
  const std::vector<diag::MkeyAudit> sums = diag::audit_by_lcore(x.a->pool());
  EQUAL_FATAL(sums.size(), 1);
  EQUAL(sums[0].keys, 2);
  EQUAL(sums[0].binds, 4);
  EQUAL(sums[0].faults, 1);
  std::array<char, 200> buffer;
  prm::Text text{buffer};
  diag::put_audit(text, sums[0]);
  EQUAL(text.view(), "lcore 1: 2 keys, 4 binds, 4 uses, 1 invalidations, 1 faults");
}

// Two lcores have had keys of their pools: every bind, use, invalidation and fault is in the sums.
void keys_are_audited() {
  Bench x{"audit0"};
  for (int i = 0; i < 3; i++) {
    queue::WqeCursor c{x.a->sq()};
    x.bind(c);
    x.write(c, x.key.lkey_behind(c));
    x.a->binder().commit(c);
    CU_ASSERT_TRUE_FATAL(x.a->wait());
  }
  x.write_by(*x.b, x.key.lkey());
  CU_ASSERT_TRUE_FATAL(x.b->wait());
  x.a->binder().invalidate(x.key);
  CU_ASSERT_TRUE_FATAL(x.a->binder().flush());
  CU_ASSERT_TRUE_FATAL(x.a->wait());
  const Lkey key = x.key.key().lkey;
  std::vector<diag::MkeyAudit> keys = diag::audit(x.a->pool());
  EQUAL_FATAL(keys.size(), 1);
  EQUAL(keys[0].key, key);
  EQUAL(keys[0].binds, 3);
  EQUAL(keys[0].uses, 4);
  EQUAL(keys[0].invalidations, 1);
  EQUAL(keys[0].faults, 0);
  EQUAL(keys[0].lcore, 1);
  a_flushed_bind_is_a_fault(x);
  CU_ASSERT_TRUE(diag::audit_by_lcore(x.b->pool()).empty());
}

// 1 << 20 is a region's (relaxed ordering), 1 << 4 too (binding of windows).
void rights_of_a_queue() {
  VirtualDevice v(test::config("rights0"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  for (const uint32_t access :
       {mr::Access::relaxed_ordering, mr::Access::mw_bind, mr::Access::on_demand, 1u << 31}) {
    auto q = port::MkeyQueue::create(*v.device, {.keys = 1, .access = mr::Access::all | access});
    CU_ASSERT_TRUE(!q && q.error().code == EINVAL);
    CU_ASSERT_PTR_NOT_NULL(std::strstr(q.error().what, "read, write and do atomics"));
  }
}

[[maybe_unused]] void no_linter() {
  Bench x{"lint0"};
  CU_ASSERT_PTR_NULL(x.a->lint());
}

#ifndef NDEBUG
const kilim::test::Case cases[] = {
    {"a key that is used on another queue before its UMR is complete is named",
     a_key_is_used_elsewhere_too_early},
    {"a key that is changed while another queue uses it is named",
     a_key_changes_while_it_is_used_elsewhere},
    {"a use behind a UMR that lost its fence is named", a_use_behind_the_umr_lost_its_fence},
    {"a change behind a use that the binder does not know of is named",
     a_use_that_the_binder_does_not_know_of},
    {"a reserved bit is named", bits_that_the_manual_reserves},
    {"a queue that was recovered starts anew", a_recovered_queue_starts_anew},
    {"sound work is not blamed", sound_work_is_not_blamed},
    {"binds, uses, invalidations and faults of keys are counted", keys_are_audited},
    {"rights that no queue pair gives are refused", rights_of_a_queue},
};
#else
const kilim::test::Case cases[] = {
    {"a build without asserts has no linter in its queues", no_linter},
    {"binds, uses, invalidations and faults of keys are counted", keys_are_audited},
    {"rights that no queue pair gives are refused", rights_of_a_queue},
};
#endif

}  // namespace
}  // namespace mkey_queue_ut

KILIM_TEST_SUITE(mkey_queue, mkey_queue_ut::cases)
