// SPDX-License-Identifier: BSD-3-Clause
// Which WQEs around the UMRs of one queue carry a fence.
#include <vector>

#include "kilim/queue/rc_wqe.hh"
#include "loom_rig.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::umr;
using test::bound;
using test::LoomRig;
using test::view;

// The fences of all posted WQEs.
std::vector<uint8_t> fences(const LoomRig& r) {
  std::vector<uint8_t> f;
  for (const uint32_t at : r.posted()) f.push_back(r.fence_of(at));
  return f;
}

using prm::ctrl::small_fence;
using prm::ctrl::strong_fence;

void one_fence_a_burst() {
  LoomRig r{8};
  std::vector<Binding> held;
  queue::WqeCursor c{r.sq};
  for (int i = 0; i < 4; i++) {
    held.push_back(r.loom->take());
    (void)r.loom->bind(c, held.back(), {}, view());
  }
  (void)queue::send(c, Piece{0, 10, held[0].lkey_behind(c)}, {});
  (void)queue::send(c, Piece{0, 10, held[1].lkey_behind(c)}, {});
  r.loom->commit(c);
  CU_ASSERT_TRUE((fences(r) == std::vector<uint8_t>{0, 0, 0, 0, strong_fence, 0}));
  r.complete();
}

void dependent_umrs_wait() {
  LoomRig r{8};
  Binding a = r.loom->take();
  Binding b = r.loom->take();
  queue::WqeCursor c{r.sq};
  (void)r.loom->bind(c, a, {}, view());
  (void)r.loom->bind(c, b, {.reads_keys = true}, view());  // a list over the key before
  (void)r.loom->bind(c, a, {}, view());                    // behind the fence of the one before
  (void)r.loom->bind(c, a, {}, view());                    // the same key again
  r.loom->commit(c);
  CU_ASSERT_TRUE((fences(r) == std::vector<uint8_t>{0, strong_fence, 0, strong_fence}));
  r.complete();
  CU_ASSERT_TRUE(a.valid() && b.valid());
}

void keys_in_flight() {
  struct Row {
    prm::UmrFence cap;
    uint8_t before;
  };
  for (const Row row : {Row{prm::UmrFence::none, 0}, Row{prm::UmrFence::small, small_fence},
                        Row{prm::UmrFence::strong, strong_fence}}) {
    LoomRig r{8, {.fences = FencePlanner{row.cap}}};
    Binding a = bound(r);
    Binding b = bound(r);
    Binding quiet = bound(r);
    {
      queue::WqeCursor c{r.sq};
      (void)queue::send(c, Piece{0, 10, a.lkey_behind(c)}, {});
      (void)queue::send(c, Piece{0, 10, b.lkey_behind(c)}, {});
      (void)r.loom->bind(c, quiet, {}, view());
      (void)r.loom->bind(c, a, {}, view());
      (void)r.loom->bind(c, b, {}, view());  // a's fence holds for it
      r.loom->commit(c);
    }
    // The fence of the first SEND is for the UMRs before it.
    const uint8_t first = row.before;
    CU_ASSERT_TRUE((fences(r) == std::vector<uint8_t>{first, 0, 0, row.before, 0}));
    r.complete();
    queue::WqeCursor c{r.sq};
    (void)r.loom->bind(c, a, {}, view());  // its use has completed
    r.loom->commit(c);
    CU_ASSERT_EQUAL(fences(r)[0], 0);
    r.complete();
  }
}

// Half a turn of the counter later what fenced long ago seems to lie ahead.
void long_ago() {
  FenceTrack track{FencePlanner{prm::UmrFence::small}};
  CU_ASSERT_EQUAL(track.before_use(100, 99, 90), small_fence);
  CU_ASSERT_EQUAL(track.before_use(101, 99, 90), 0);  // one holds for both
  for (const uint32_t later : {1u << 30, (1u << 31) + 50, 3u << 30}) {
    FenceTrack t = track;
    CU_ASSERT_EQUAL(t.before_use(100 + later, 99 + later, 90 + later), small_fence);
  }
}

const kilim::test::Case cases[] = {
    {"a burst of UMRs has one fence, behind it", one_fence_a_burst},
    {"a UMR that depends on another waits for it", dependent_umrs_wait},
    {"a key in flight waits as the device asks, once a burst", keys_in_flight},
    {"a fence of half a counter's turn ago holds for nobody", long_ago},
};

}  // namespace

KILIM_UT_MAIN("umr/fence", cases)
