// SPDX-License-Identifier: BSD-3-Clause
// Which WQEs around the UMRs of one queue carry which fence.
#include <vector>

#include "kilim/detail/queue/rc_wqe.hh"
#include "mkey_fixture.hh"
#include "ut.hh"

namespace fence_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

// The fences of all posted WQEs.
std::vector<uint8_t> fences(const BinderFixture& r) {
  std::vector<uint8_t> f;
  for (const uint32_t at : r.posted()) f.push_back(r.fence_of(at));
  return f;
}

using prm::ctrl::small_fence;
using prm::ctrl::strong_fence;

using prm::ctrl::answer_fence;
constexpr uint8_t both = prm::ctrl::fence;

// What the capability says, and what a UMR then carries itself.
struct Cap {
  prm::UmrFence cap;
  uint8_t own;
};
constexpr Cap caps[] = {{prm::UmrFence::none, 0},
                        {prm::UmrFence::small, small_fence},
                        {prm::UmrFence::strong, strong_fence}};

void capability_of_the_umr_alone() {
  for (const Cap& row : caps) {
    const FencePlanner planner{row.cap};
    EQUAL(planner.before_umr(MkeyUse::quiet), row.own);
    EQUAL(planner.before_umr(MkeyUse::in_flight), strong_fence);
    EQUAL(FencePlanner::after_umr(), small_fence);
    BinderFixture r{8, {.fences = planner, .max_indirection = 4}};
    std::vector<Binding> held;
    queue::WqeCursor c{r.sq};
    for (int i = 0; i < 4; i++) {
      held.push_back(r.binder->claim());
      (void)r.binder->bind(c, held.back(), {}, view());
    }
    (void)queue::send(c, Piece{0, 10, held[0].lkey_behind(c)}, {});
    (void)queue::send(c, Piece{0, 10, held[1].lkey_behind(c)}, {});
    r.binder->commit(c);
    EQUAL(fences(r), (std::vector<uint8_t>{row.own, row.own, row.own, row.own, small_fence, 0}));
    r.complete();
  }
  EQUAL(FencePlanner{}.before_umr(MkeyUse::quiet), strong_fence);  // nobody has asked
}

void dependent_umrs_wait() {
  for (const Cap& row : caps) {
    BinderFixture r{8, {.fences = FencePlanner{row.cap}, .max_indirection = 4}};
    Binding a = r.binder->claim();
    Binding b = r.binder->claim();
    queue::WqeCursor c{r.sq};
    (void)r.binder->bind(c, a, {}, view());
    (void)r.binder->bind(c, b, {.reads_keys = true}, view());  // a list over the key before
    (void)r.binder->bind(c, a, {}, view());                    // behind the fence of the one before
    (void)r.binder->bind(c, a, {}, view());                    // the same key again
    r.binder->commit(c);
    const uint8_t waits = row.own == 0 ? small_fence : row.own;
    EQUAL(fences(r), (std::vector<uint8_t>{row.own, waits, row.own, waits}));
    r.complete();
    CU_ASSERT_TRUE(a.valid());
    CU_ASSERT_TRUE(b.valid());
  }
}

using Use = bool (*)(queue::WqeCursor&, Lkey);
constexpr Use uses[] = {
    [](queue::WqeCursor& c, Lkey k) -> bool {
      return queue::send(c, {0, 10, k}, {});
    },
    [](queue::WqeCursor& c, Lkey k) -> bool {
      return queue::rdma_write(c, {}, {0, 10, k}, {});
    },
    [](queue::WqeCursor& c, Lkey k) -> bool {
      return queue::rdma_read(c, {}, {0, 10, k}, {});
    },
    [](queue::WqeCursor& c, Lkey k) -> bool {
      return queue::fetch_and_add(c, {.result_key = k}, {});
    },
};
// What changes a key, by one WQE.
using Change = void (*)(BinderFixture&, Binding&);
constexpr Change changes[] = {
    [](BinderFixture& r, Binding& b) {
      queue::WqeCursor c{r.sq};
      CU_ASSERT_TRUE(r.binder->bind(c, b, {}, view()).ok());
      r.binder->commit(c);
    },
    [](BinderFixture& r, Binding& b) {
      queue::WqeCursor c{r.sq};
      const auto build = [](queue::WqeCursor& at, const Mkey& k, const UmrWr& wr) noexcept {
        return change_key(at, {.key = k.lkey, .fields = prm::umr::mask_len, .length = 5}, wr);
      };
      CU_ASSERT_TRUE(r.binder->change_with(c, b, {}, build).ok());
      r.binder->commit(c);
    },
    [](BinderFixture& r, Binding& b) {
      const SwapItem item{&b, view(), {}};
      CU_ASSERT_TRUE(r.binder->swap({&item, 1}, 1).ok());
    },
    [](BinderFixture& r, Binding& b) {
      r.binder->invalidate(b);
      CU_ASSERT_TRUE(r.binder->flush());
    },
    [](BinderFixture& r, Binding& b) {
      b.end();
      CU_ASSERT_TRUE(r.binder->flush());
    },
};

void change_in_flight(const Cap& row, Use use, Change change, bool complete) {
  BinderFixture r{8, {.fences = FencePlanner{row.cap}, .max_indirection = 4}};
  Binding a = bound(r);
  {
    queue::WqeCursor c{r.sq};
    (void)queue::send(c, Piece{0, 10, Lkey{1}}, {});  // takes the fence of the bind
    CU_ASSERT_TRUE_FATAL(use(c, a.lkey_behind(c)));
    r.binder->commit(c);
  }
  const std::size_t before = complete ? 0 : 2;
  if (complete) r.complete();
  change(r, a);
  {
    queue::WqeCursor c{r.sq};
    (void)queue::send(c, Piece{0, 10, Lkey{1}}, {});
    r.binder->commit(c);
  }
  const std::vector<uint8_t> f = fences(r);
  EQUAL_FATAL(f.size(), before + 2);
  EQUAL(f[before], complete ? row.own : strong_fence);
  EQUAL(f[before + 1], small_fence);
  r.complete();
}

// Whatever uses the key, whatever changes it, whatever the device says of its UMRs.
void keys_in_flight() {
  for (const Cap& row : caps) {
    for (const Use use : uses) {
      for (const Change change : changes) {
        change_in_flight(row, use, change, false);
        change_in_flight(row, use, change, true);
      }
    }
  }
}

void one_strong_fence_a_burst() {
  BinderFixture r{8, {.fences = FencePlanner{prm::UmrFence::none}, .max_indirection = 4}};
  Binding a = bound(r);
  Binding b = bound(r);
  Binding quiet = bound(r);
  queue::WqeCursor c{r.sq};
  (void)queue::send(c, Piece{0, 10, a.lkey_behind(c)}, {});
  (void)queue::rdma_read(c, {}, queue::Sge{0, 10, b.lkey_behind(c)}, {});
  (void)r.binder->bind(c, quiet, {}, view());
  (void)r.binder->bind(c, a, {}, view());
  (void)r.binder->bind(c, b, {}, view());  // a's fence holds for it
  (void)queue::send(c, Piece{0, 10, a.lkey_behind(c)}, {.flags = queue::WrFlags::fence});
  (void)r.binder->bind(c, a, {}, view());  // used again since
  r.binder->commit(c);
  EQUAL(fences(r), (std::vector<uint8_t>{small_fence, 0, 0, strong_fence, 0, both, strong_fence}));
  r.complete();
}

// The list that was refused stands between two of one key.
void a_refusal_forgets_no_change() {
  BinderFixture r{8, {.fences = FencePlanner{prm::UmrFence::none}, .max_indirection = 4}};
  Binding a = r.binder->claim();
  Binding b = r.binder->claim();
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(r.binder->bind(c, a, {}, view()).ok());
  CU_ASSERT_FALSE(r.binder->bind(c, b, {.reads_keys = true}, View{}).ok());
  CU_ASSERT_TRUE(r.binder->bind(c, a, {}, view()).ok());
  r.binder->commit(c);
  EQUAL(fences(r), (std::vector<uint8_t>{0, small_fence}));
  r.complete();
}

void read_through(BinderFixture& r, Binding& b) {
  queue::WqeCursor c{r.sq};
  (void)queue::rdma_read(c, {}, queue::Sge{0, 10, b.lkey_behind(c)}, {});
  r.binder->commit(c);
}

uint8_t fence_of_a_change(BinderFixture& r, Binding& b) {
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE_FATAL(r.binder->bind(c, b, {}, view()).ok());
  r.binder->commit(c);
  return fences(r).back();
}

// Who uses a key over keys uses these: none of them is changed before it is done.
void keys_below_are_in_flight_too() {
  BinderFixture r{8, {.fences = FencePlanner{prm::UmrFence::small}, .max_indirection = 4}};
  Binding inner = bound(r);
  Binding outer = r.binder->claim();
  {
    queue::WqeCursor c{r.sq};
    CU_ASSERT_TRUE_FATAL(r.binder->bind(c, outer, {.reads_keys = true}, view()).ok());
    r.binder->commit(c);
    r.complete();
  }
  const auto use = [&r](Binding& b) { read_through(r, b); };
  const auto change = [&r](Binding& b) { return fence_of_a_change(r, b); };
  use(outer);
  {  // a refusal has waited for nobody
    queue::WqeCursor c{r.sq};
    CU_ASSERT_FALSE(r.binder->bind(c, inner, {}, View{}).ok());
  }
  EQUAL(change(inner), strong_fence);
  EQUAL(change(inner), small_fence);  // that one has waited
  use(outer);
  r.complete();
  EQUAL(change(inner), small_fence);
  use(outer);
  EQUAL(change(outer), strong_fence);  // and lies over no key any more
  r.complete();
  use(outer);
  EQUAL(change(inner), small_fence);
  r.complete();
}

// Half a turn of the counter later what fenced long ago seems to lie ahead.
void long_ago() {
  FenceTrack track{FencePlanner{prm::UmrFence::small}};
  CU_ASSERT_TRUE(track.must_wait(100, 99, 90));
  CU_ASSERT_FALSE(track.must_wait(101, 99, 90));  // one holds for both
  for (const uint32_t later : {1u << 30, (1u << 31) + 50, 3u << 30}) {
    FenceTrack t = track;
    CU_ASSERT_TRUE(t.must_wait(100 + later, 99 + later, 90 + later));
  }
}

// By what each mode waits for.
void modes_are_merged() {
  constexpr uint8_t modes[] = {0, small_fence, answer_fence, strong_fence, both};
  for (const uint8_t a : modes) {
    for (const uint8_t b : modes) {
      const uint8_t m = prm::ctrl::merged_fence(a, b);
      using namespace prm::ctrl;
      EQUAL(waits_for_local(m), waits_for_local(a) || waits_for_local(b));
      EQUAL(waits_for_answers(m), waits_for_answers(a) || waits_for_answers(b));
      EQUAL(waits_for_all(m), waits_for_all(a) || waits_for_all(b));
    }
  }
  EQUAL(prm::ctrl::merged_fence(small_fence, answer_fence), both);
  CU_ASSERT_FALSE(prm::ctrl::waits_for_local(answer_fence));
  CU_ASSERT_FALSE(prm::ctrl::waits_for_answers(small_fence));
  CU_ASSERT_FALSE(prm::ctrl::waits_for_all(both));
  constexpr uint8_t other = prm::ctrl::cq_update | prm::ctrl::solicited;
  EQUAL(prm::ctrl::with_fence(other | small_fence, answer_fence), other | both);
}

const kilim::test::Case cases[] = {
    {"a UMR carries what the device asks, who comes behind it a small fence",
     capability_of_the_umr_alone},
    {"a UMR that depends on another waits for it", dependent_umrs_wait},
    {"a key in flight is changed behind a strong fence, whatever uses and changes it",
     keys_in_flight},
    {"one strong fence holds for a burst", one_strong_fence_a_burst},
    {"a refused UMR forgets no change of another key", a_refusal_forgets_no_change},
    {"keys below one in flight are in flight", keys_below_are_in_flight_too},
    {"a fence of half a counter's turn ago holds for nobody", long_ago},
    {"two fences make one that waits for what either does", modes_are_merged},
};

}  // namespace
}  // namespace fence_ut

KILIM_TEST_SUITE(fence, fence_ut::cases)
