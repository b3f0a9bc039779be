// SPDX-License-Identifier: BSD-3-Clause
// The life of keys on a virtual device, under profiles with each kind of fence: bound and used
// behind, swapped, refused; errors at every place of a burst and a device that dies.
#include <cerrno>
#include <string>

#include "key_fixture.hh"
#include "ut.hh"

namespace life_ut {
namespace {

using namespace kilim;
using namespace kilim::mkey;
using namespace kilim::umr;
using test::config;
using test::KeyRig;
using test::VirtualDevice;

void post_round(KeyRig& r, std::span<Binding> held, std::span<KeyRig::Layout> layouts) {
  queue::WqeCursor c{*r.loop.sq};
  for (uint32_t i = 0; i < 16; i++) {
    Binding& b = held[r.random() % held.size()];
    if (!b) b = r.binder->claim();
    layouts[i] = r.layout();
    CU_ASSERT_TRUE_FATAL(r.binder->bind(c, b, KeyRig::all, layouts[i].view()).ok());
    const auto bytes = static_cast<uint32_t>(layouts[i].bytes.size());
    const queue::Sge from{0, bytes, b.lkey_behind(c)};
    CU_ASSERT_TRUE_FATAL(queue::rdma_write(c, r.target(i), from, {}));
  }
  held[r.random() % held.size()].end();
  r.binder->commit(c);
}

// Keys are bound and used by the next WQE, bound again behind their use, and ended; all data right.
void churn(const char* name, const char* profile) {
  VirtualDevice v{config(name, profile)};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  KeyRig r{*v.device};
  CU_ASSERT_TRUE_FATAL(r.ok());
  std::array<Binding, 8> held;
  for (int round = 0; round < 300; round++) {
    std::array<KeyRig::Layout, 16> layouts;
    post_round(r, held, layouts);
    CU_ASSERT_TRUE_FATAL(r.settle());
    for (uint32_t i = 0; i < 16; i++) CU_ASSERT_TRUE_FATAL(r.arrived(i, layouts[i]));
  }
  EQUAL(v.journal().count(vhca::Journal::Kind::error), 0);
  EQUAL(v.journal().count(vhca::Journal::Kind::umr), 300 * 16);
  CU_ASSERT_TRUE(r.binder->counters().invalidated.read() > 100);
  for (Binding& b : held) b.end();
}

void no_fence() {
  churn("life0", "no-fence");
}
void small_fence() {
  churn("life1", "cx6dx");
}
void strong_fence() {
  churn("life2", "strong-fence");
}

// Binds a key to a layout and waits.
void show(KeyRig& r, Binding& b, const KeyRig::Layout& l) {
  if (!b) b = r.binder->claim();
  queue::WqeCursor c{*r.loop.sq};
  CU_ASSERT_TRUE_FATAL(r.binder->bind(c, b, KeyRig::all, l.view()).ok());
  r.binder->commit(c);
  CU_ASSERT_TRUE_FATAL(r.settle());
}

// Reads what a handle shows as a remote peer would; false: it faults.
bool peer_reads(KeyRig& r, Rkey handle, const KeyRig::Layout& expected) {
  queue::WqeCursor c{*r.loop.sq};
  const auto bytes = static_cast<uint32_t>(expected.bytes.size());
  const queue::Sge into{r.target(0).address, bytes, r.mr().lkey};
  CU_ASSERT_TRUE_FATAL(
      queue::rdma_read(c, {0, handle}, into, {.flags = queue::WrFlags::signalled}));
  c.commit();
  if (r.settle()) return r.arrived(0, expected);
  CU_ASSERT_TRUE_FATAL(r.recover().ok());
  return false;
}

void swap_on_the_device() {
  VirtualDevice v{config("life3")};
  KeyRig r{*v.device};
  CU_ASSERT_TRUE_FATAL(r.ok());
  for (int round = 0; round < 50; round++) {
    std::array<Binding, 3> keys;
    std::array<KeyRig::Layout, 3> before{r.layout(), r.layout(), r.layout()};
    std::array<KeyRig::Layout, 3> after{r.layout(), r.layout(), r.layout()};
    for (int i = 0; i < 3; i++) show(r, keys[i], before[i]);
    const std::array<Rkey, 3> old{keys[0].rkey(), keys[1].rkey(), keys[2].rkey()};
    const SwapItem items[] = {{&keys[0], after[0].view(), KeyRig::all},
                              {&keys[1], after[1].view(), KeyRig::all},
                              {&keys[2], after[2].view(), KeyRig::all}};
    CU_ASSERT_TRUE_FATAL(r.binder->swap(items, 1).ok());
    CU_ASSERT_TRUE_FATAL(r.settle());
    for (int i = 0; i < 3; i++) CU_ASSERT_TRUE_FATAL(peer_reads(r, keys[i].rkey(), after[i]));
    const int which = round % 3;
    CU_ASSERT_FALSE(peer_reads(r, old[which], before[which]));  // faults
    CU_ASSERT_FALSE(r.arrived(0, before[which]));
  }
}

// The second of three lists has an entry that no device takes.
void refused_swap_on_the_device() {
  VirtualDevice v{config("life4")};
  KeyRig r{*v.device};
  CU_ASSERT_TRUE_FATAL(r.ok());
  std::array<Binding, 3> keys;
  std::array<KeyRig::Layout, 3> before{r.layout(), r.layout(), r.layout()};
  for (int i = 0; i < 3; i++) show(r, keys[i], before[i]);
  const std::array<Rkey, 3> old{keys[0].rkey(), keys[1].rkey(), keys[2].rkey()};
  const Piece too_long{r.mr().iova, 0x8000'0001, r.mr().lkey};
  const KeyRig::Layout fine = r.layout();
  const SwapItem items[] = {{&keys[0], fine.view(), KeyRig::all},
                            {&keys[1], View{&too_long, 1, too_long.length}, KeyRig::all},
                            {&keys[2], fine.view(), KeyRig::all}};
  CU_ASSERT_TRUE_FATAL(r.binder->swap(items, 1).ok());
  CU_ASSERT_FALSE(r.settle());
  CU_ASSERT_TRUE_FATAL(r.recover().ok());
  for (const Binding& b : keys) EQUAL(b.state(), MkeyState::poisoned);
  // Nothing was rolled back: the first shows new data under a tag that nobody has, the others old.
  CU_ASSERT_FALSE(peer_reads(r, old[0], before[0]));
  CU_ASSERT_TRUE(peer_reads(r, old[1], before[1]));
  CU_ASSERT_TRUE(r.binder->flush());
  CU_ASSERT_TRUE_FATAL(r.settle());
  for (int i = 0; i < 3; i++) {
    EQUAL(keys[i].state(), MkeyState::free);
    CU_ASSERT_FALSE(peer_reads(r, old[i], before[i]));
    show(r, keys[i], fine);
    CU_ASSERT_TRUE(peer_reads(r, keys[i].rkey(), fine));
  }
}

// A burst of 32 requests, every third without a completion, binds and writes in turn. The k-th
// fails: a write to a wrong address, a bind to a list that no device takes.
struct Burst {
  std::array<Binding, 16> keys;
  std::array<KeyRig::Layout, 16> layouts;
  std::array<bool, 33> signalled{};

  void post(KeyRig& r, uint32_t failing) {
    const Piece too_long{r.mr().iova, 0x8000'0001, r.mr().lkey};
    queue::WqeCursor c{*r.loop.sq};
    for (uint32_t n = 1; n <= 32; n++) {
      const uint32_t i = (n - 1) / 2;
      signalled[n] = n % 3 != 0;
      const auto flags = signalled[n] ? queue::WrFlags::signalled : queue::WrFlags::none;
      if (n % 2 != 0) {
        if (!keys[i]) keys[i] = r.binder->claim();
        layouts[i] = r.layout();
        Bind how = KeyRig::all;
        how.wr_id = n;
        const View bad{&too_long, 1, too_long.length};
        const View view = n == failing ? bad : layouts[i].view();
        CU_ASSERT_TRUE_FATAL(r.binder->bind(c, keys[i], how, view).ok());
        if (signalled[n]) c.signal_last();
      } else {
        queue::Remote to = r.target(i);
        if (n == failing) to.address = 16;
        const auto bytes = static_cast<uint32_t>(layouts[i].bytes.size());
        const queue::Sge from{0, bytes, keys[i].lkey_behind(c)};
        CU_ASSERT_TRUE_FATAL(queue::rdma_write(c, to, from, {.id = n, .flags = flags}));
      }
    }
    c.commit();
  }
};

// The k-th fails, what stood before it has been done, what stands behind it is flushed.
void check_endings(KeyRig& r, const Burst& b, uint32_t k) {
  for (uint32_t n = 1; n <= 32; n++) {
    const KeyRig::Ending e = r.endings[n];
    if (n < k) {
      EQUAL(e.good, (b.signalled[n] ? 1u : 0u));
      EQUAL(e.all(), e.good);
    }
    if (n == k) {
      EQUAL(e.failed, 1);
      EQUAL(e.all(), 1);
    }
    if (n > k) {
      EQUAL(e.flushed, 1);
      EQUAL(e.all(), 1);
    }
  }
}

void errors_everywhere() {
  VirtualDevice v{config("life5")};
  KeyRig r{*v.device};
  CU_ASSERT_TRUE_FATAL(r.ok());
  Burst b;
  for (uint32_t k = 1; k <= 32; k++) {
    r.endings.clear();
    const uint64_t poisoned = r.binder->counters().poisoned.read();
    b.post(r, k);
    CU_ASSERT_FALSE(r.settle());
    CU_ASSERT_TRUE_FATAL(r.recover().ok());
    check_endings(r, b, k);
    // Keys whose bind was not done, by the error or behind it.
    const uint32_t bad = (32 - k) / 2 + (k % 2 != 0 ? 1 : 0);
    EQUAL(r.binder->counters().poisoned.read() - poisoned, bad);
    EQUAL(r.binder->invalidations_due(), bad);
    r.endings.clear();
    if (k % 2 != 0) (void)r.binder->flush();  // else the rebuild goes with the bind
    CU_ASSERT_TRUE_FATAL(r.settle());
    b.post(r, 0);
    (void)r.binder->flush();
    queue::WqeCursor c{*r.loop.sq};
    CU_ASSERT_TRUE(queue::rdma_write(c, r.target(20), queue::Sge{r.mr().iova, 1, r.mr().lkey},
                                     {.id = 33, .flags = queue::WrFlags::signalled}));
    c.commit();
    CU_ASSERT_TRUE_FATAL(r.settle());
    for (uint32_t i = 0; i < 16; i++) CU_ASSERT_TRUE(r.arrived(i, b.layouts[i]));
  }
}

// The adapter dies with the n-th request of a burst, or when all is done: it does not take the
// queue pair back to work, and this is known in time.
void device_dies() {
  for (const uint32_t n : {1u, 2u, 9u, 16u, 31u, 32u}) {
    const std::string name = "dying" + std::to_string(n);
    DeviceSpec dying = config(name);
    dying.fatal_at = n;
    dying.order = "strict";  // the n-th that stands in the queue
    VirtualDevice v{dying};
    CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
    KeyRig r{*v.device};
    CU_ASSERT_TRUE_FATAL(r.ok());
    Burst b;
    b.post(r, 0);
    (void)r.settle(100);
    const bool recovered = r.recover(std::chrono::milliseconds{300}).ok();
    CU_ASSERT_FALSE(recovered);
    for (uint32_t i = 1; i <= 32; i++) CU_ASSERT_TRUE(!b.signalled[i] || r.endings[i].all() == 1);
    EQUAL(r.loop.sq->retired(), 0);
    CU_ASSERT_TRUE(r.binder->idle());
    EQUAL(r.binder->counters().poisoned.read() > 0,
          n <= 30);  // the last bind is the 31st
  }
}

// A queue pair whose flush never comes, as the adapter is not run: bounded, each request once.
void device_is_silent() {
  VirtualDevice v{config("life7")};
  auto silent = mlx5::open("life7");
  CU_ASSERT_TRUE_FATAL(silent.ok());
  KeyRig r{**silent};
  CU_ASSERT_TRUE_FATAL(r.ok());
  Burst b;
  b.post(r, 0);
  CU_ASSERT_TRUE(r.recover(std::chrono::milliseconds{50}).ok());
  for (uint32_t n = 1; n <= 32; n++) {
    const KeyRig::Ending e = r.endings[n];
    EQUAL(e.all(), b.signalled[n] ? 1u : 0u);
    EQUAL(e.lost, e.all());
  }
  EQUAL(r.binder->counters().poisoned.read(), 16);
}

// One key over the other, as deep as the adapter follows; one more is refused, and nothing breaks.
void nested_to_the_limit() {
  for (const char* profile : {"cx6dx", "plain-lists"}) {
    VirtualDevice v{config(profile, profile)};
    CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
    KeyRig r{*v.device};
    CU_ASSERT_TRUE_FATAL(r.ok());
    const uint32_t deepest = v.device->caps().max_indirection;
    const KeyRig::Layout shown = r.layout();
    std::vector<Binding> keys(deepest + 1);
    Outcome o;
    queue::WqeCursor c{*r.loop.sq};
    Piece piece{0, static_cast<uint32_t>(shown.bytes.size()), Lkey{}};
    for (uint32_t i = 0; i <= deepest; i++) {
      keys[i] = r.binder->claim();
      mkey::Bind how = KeyRig::all;
      how.reads_keys = i != 0;
      o = r.binder->bind(c, keys[i], how, i == 0 ? shown.view() : View{&piece, 1, piece.length});
      if (o.ok()) piece.key = keys[i].key().lkey;
    }
    EQUAL(o.why, Refusal::too_deep);
    EQUAL(o.asked, deepest + 1);
    EQUAL(o.limit, deepest);
    const queue::Sge from{0, piece.length, keys[deepest - 1].lkey_behind(c)};
    CU_ASSERT_TRUE_FATAL(queue::rdma_write(c, r.target(0), from, {}));
    r.binder->commit(c);
    CU_ASSERT_TRUE_FATAL(r.settle());
    CU_ASSERT_TRUE(r.arrived(0, shown));
    EQUAL(v.journal().count(vhca::Journal::Kind::error), 0);
  }
}

const kilim::test::Case cases[] = {
    {"keys are used behind their UMR, no fence needed", no_fence},
    {"keys are used behind their UMR, small fence", small_fence},
    {"keys are used behind their UMR, strong fence", strong_fence},
    {"a swap shows new data by new handles and old handles fault", swap_on_the_device},
    {"a swap that the device refuses poisons its keys, which are rebuilt",
     refused_swap_on_the_device},
    {"an error at any place of a burst: each completion once, and the queue works again",
     errors_everywhere},
    {"a device that dies: each completion once, and no wait without end", device_dies},
    {"a device that is silent: the queue is given up in time", device_is_silent},
    {"keys lie over keys as deep as the adapter follows, and one more is refused",
     nested_to_the_limit},
};

}  // namespace
}  // namespace life_ut

KILIM_TEST_SUITE(life, life_ut::cases)
