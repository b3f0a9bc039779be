// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions on a virtual device: what their keys reach, to the byte, and until when.
#include <cstring>
#include <string>

#include <sys/mman.h>

#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/relaxed/relaxed.hh"
#include "mlx5_fixture.hh"
#include "relaxed_cases.hh"
#include "ut.hh"

namespace relaxed_ut {
namespace {

using namespace kilim;
using relaxed::Answer;
using relaxed::Region;
using relaxed::Relaxed;
using test::config;
using test::VirtualDevice;

// An arena of 64 pages under one key, a place to read into, and an engine of 16 keys.
struct Rig {
  static constexpr uint64_t page = 4096, pages = 64;
  VirtualDevice v;
  std::vector<std::byte> memory;
  std::vector<std::byte> into;
  std::optional<mr::Mr> arena, target;
  std::unique_ptr<port::MkeyQueue> queue;
  std::unique_ptr<Relaxed> engine;

  explicit Rig(const char* name, bool with_arena = true)
      : v(config(name)), memory((pages + 1) * page), into(16 * page) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
    for (std::size_t i = 0; i < memory.size(); i++)
      memory[i] = static_cast<std::byte>(i * 7 + i / page);
    auto a = mr::Mr::create(v.device->registrar(), memory, mr::Access::all, page);
    auto t = mr::Mr::create(v.device->registrar(), into, mr::Access::all, page);
    auto q = port::MkeyQueue::create(*v.device, {.keys = 16, .access = mr::Access::all});
    CU_ASSERT_TRUE_FATAL(a.ok());
    CU_ASSERT_TRUE_FATAL(t.ok());
    CU_ASSERT_TRUE_FATAL(q.ok());
    arena.emplace(*std::move(a));
    target.emplace(*std::move(t));
    queue = *std::move(q);
    engine = *std::move(Relaxed::create(
        queue->binder(), {.keys = 16, .registrar = &v.device->registrar(), .flush_share = 1}));
    if (with_arena) CU_ASSERT_TRUE(engine->cover().add(arena->region()).ok());
  }
  [[nodiscard]] std::byte* at(uint64_t n) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uint64_t>(memory.data()) + page - 1) &
                                        ~(page - 1)) +
           n * page;
  }
  static uint64_t address(const std::byte* p) { return reinterpret_cast<uint64_t>(p); }

  Region make(const std::byte* p, uint64_t bytes, uint32_t access = mr::Access::all) {
    Region r;
    queue::WqeCursor c{queue->sq()};
    EQUAL_FATAL(engine->register_memory(c, {address(p), bytes, access}, r), Answer::done);
    engine->commit(c);
    CU_ASSERT_TRUE_FATAL(queue->wait());
    CU_ASSERT_TRUE_FATAL(r.valid());
    return r;
  }
  void completed(const queue::Completion& c) noexcept {
    (void)queue->binder().handle_completion(c);
  }
  void lost(uint64_t, bool) noexcept {}
  // Whether a peer with this key reads these bytes; an error is recovered from.
  bool reads(Rkey key, const std::byte* from, uint32_t bytes) {
    std::memset(into.data(), 0, into.size());
    queue::WqeCursor c{queue->sq()};
    const queue::Sge to{target->region().iova, bytes, target->region().lkey};
    CU_ASSERT_TRUE_FATAL(queue::rdma_read(c, {address(from), key}, to, {}));
    engine->commit(c);
    return finish() && std::memcmp(into.data(), from, bytes) == 0;
  }
  bool writes(Rkey key, std::byte* to, uint32_t bytes) {
    queue::WqeCursor c{queue->sq()};
    const queue::Sge from{target->region().iova, bytes, target->region().lkey};
    CU_ASSERT_TRUE_FATAL(queue::rdma_write(c, {address(to), key}, from, {}));
    engine->commit(c);
    return finish();
  }
  bool finish() {
    if (queue->wait()) return true;
    CU_ASSERT_TRUE_FATAL(queue->recover(*this).ok());
    return false;
  }
  void settle() {
    for (int i = 0; i < 50 && !engine->flush(); i++) (void)queue->wait();
    engine->poll();
    EQUAL(engine->waiting(), 0);
  }
  void end(Region& r) {
    engine->deregister(std::move(r));
    settle();
  }
};

void to_the_byte() {
  Rig r{"relaxed0"};
  std::byte* const start = r.at(3) + 100;
  Region region = r.make(start, 5000);  // ends within page 4
  const Rkey key = region.rkey();
  EQUAL(region.rkey().value(), region.lkey().value());
  CU_ASSERT_TRUE(r.reads(key, start, 5000));
  CU_ASSERT_TRUE(r.reads(key, start, 2 * 4096 - 100));
  CU_ASSERT_TRUE(r.reads(key, r.at(5) - 1, 1));
  CU_ASSERT_FALSE(r.reads(key, r.at(5) - 1, 2));
  CU_ASSERT_FALSE(r.reads(key, r.at(5), 1));
  CU_ASSERT_FALSE(r.reads(key, start - 1, 2));
  CU_ASSERT_FALSE(r.reads(key, r.at(3), 1));
  CU_ASSERT_TRUE(r.writes(key, r.at(4), 64));
  r.end(region);
}

void rights() {
  Rig r{"relaxed1"};
  Region readable = r.make(r.at(0), 4096, mr::Access::remote_read);
  CU_ASSERT_TRUE(r.reads(readable.rkey(), r.at(0), 64));
  CU_ASSERT_FALSE(r.writes(readable.rkey(), r.at(0), 64));
  Region local = r.make(r.at(1), 4096, mr::Access::local_write);
  CU_ASSERT_FALSE(r.reads(local.rkey(), r.at(1), 64));
  r.end(readable);
  r.end(local);
}

void until_the_flush() {
  Rig r{"relaxed2"};
  Region region = r.make(r.at(7), 4096);
  const Rkey key = region.rkey();
  CU_ASSERT_TRUE(r.reads(key, r.at(7), 64));
  r.engine->deregister(std::move(region));
  EQUAL(r.engine->waiting(), 1);
  CU_ASSERT_TRUE(r.reads(key, r.at(7), 64));  // marked: no more
  r.settle();
  CU_ASSERT_FALSE(r.reads(key, r.at(7), 64));
  // No later region brings the key back under its old tag.
  for (int i = 0; i < 100; i++) {
    Region next = r.make(r.at(7), 4096);
    CU_ASSERT_NOT_EQUAL(next.rkey().value(), key.value());
    r.end(next);
  }
  CU_ASSERT_FALSE(r.reads(key, r.at(7), 64));
}

void behind_at_once() {
  Rig r{"relaxed3"};
  Region region;
  {
    queue::WqeCursor c{r.queue->sq()};
    EQUAL_FATAL(
        r.engine->register_memory(c, {Rig::address(r.at(9)), 100, mr::Access::local_write}, region),
        Answer::done);
    const queue::Sge from{Rig::address(r.at(9)), 100, region.lkey_behind(c)};
    const mr::Region& to = r.target->region();
    CU_ASSERT_TRUE(queue::rdma_write(c, {to.iova, to.rkey}, from, {}));
    r.engine->commit(c);
  }
  CU_ASSERT_TRUE(r.finish());
  EQUAL(std::memcmp(r.into.data(), r.at(9), 100), 0);
  r.end(region);
}

void many_in_a_batch() {
  Rig r{"relaxed4"};
  for (int round = 0; round < 20; round++) {
    std::array<Region, 16> regions;
    queue::WqeCursor c{r.queue->sq()};
    for (uint64_t i = 0; i < regions.size(); i++)
      EQUAL_FATAL(
          r.engine->register_memory(c, {Rig::address(r.at(i)), 4096, mr::Access::all}, regions[i]),
          Answer::done);
    Region none;
    EQUAL(r.engine->register_memory(c, {Rig::address(r.at(0)), 4096, mr::Access::all}, none),
          Answer::dry);
    r.engine->commit(c);
    CU_ASSERT_TRUE_FATAL(r.finish());
    for (uint64_t i = 0; i < regions.size(); i++)
      CU_ASSERT_TRUE(r.reads(regions[i].rkey(), r.at(i), 4096));
    for (Region& region : regions) r.engine->deregister(std::move(region));
    r.settle();
    for (int i = 0; i < 4; i++) r.engine->poll();
  }
  EQUAL(r.v.journal().count(vhca::Journal::Kind::error), 0);
  EQUAL(r.engine->cover().made(), 0);
}

void registered_once() {
  Rig r{"relaxed5", false};
  Region whole = r.make(r.at(0), 32 * 4096);
  Region part = r.make(r.at(5), 4096);
  EQUAL(r.engine->cover().made(), 1);
  CU_ASSERT_TRUE(r.reads(part.rkey(), r.at(5), 4096));
  const mr::OdpUse unreliable{mr::OdpTransport::uc, mr::OdpOperation::write};
  CU_ASSERT_TRUE(part.usable(r.v.device->caps().odp, {&unreliable, 1}).ok());
  Region none;
  {
    queue::WqeCursor c{r.queue->sq()};
    EQUAL(r.engine->register_memory(c, {4096, 4096, mr::Access::all}, none), Answer::not_covered);
  }
  r.end(part);
  r.end(whole);
  EQUAL(r.engine->cover().size(), 0);
}

// Memory that is mapped after the engine was made, and comes and goes under one address.
void on_demand() {
  Rig r{"relaxed6", false};
  const mr::OdpUse uses[] = {{mr::OdpTransport::rc, mr::OdpOperation::read}};
  CU_ASSERT_TRUE_FATAL(r.engine->cover().add_implicit(uses).ok());
  const device::Caps& caps = r.v.device->caps();
  const mr::OdpUse unreliable{mr::OdpTransport::uc, mr::OdpOperation::write};
  void* const hint = ::mmap(nullptr, 4 * Rig::page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int turn = 1; turn <= 3; turn++) {
    auto* p = static_cast<std::byte*>(::mmap(hint, 4 * Rig::page, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    std::memset(p, turn, 4 * Rig::page);
    Region region = r.make(p, 3 * Rig::page);
    CU_ASSERT_TRUE(r.reads(region.rkey(), p, 3 * Rig::page));
    CU_ASSERT_TRUE(region.usable(caps.odp, uses).ok());
    const Status refused = region.usable(caps.odp, {&unreliable, 1});
    CU_ASSERT_TRUE(!refused && std::strstr(refused.error().what, "UC WRITE") != nullptr);
    CU_ASSERT_FALSE(r.reads(region.rkey(), p + 3 * Rig::page, 1));
    r.end(region);
  }
  EQUAL(r.engine->cover().made(), 2);
  CU_ASSERT_TRUE(r.v.journal().count(vhca::Journal::Kind::page_fault) >= 3);
  ::munmap(hint, 4 * Rig::page);
}

// The device pages in for writing what its key may write; a program's constants it may not.
void read_only_on_demand() {
  Rig r{"relaxed8", false};
  CU_ASSERT_TRUE_FATAL(r.engine->cover().add_implicit({}).ok());
  auto* p = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * Rig::page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(p, 7, 2 * Rig::page);
  EQUAL_FATAL(::mprotect(p, Rig::page, PROT_READ), 0);
  Region writable = r.make(p + Rig::page, Rig::page);  // whose arena would be found first
  CU_ASSERT_TRUE(r.reads(writable.rkey(), p + Rig::page, 64));
  Region constant = r.make(p, Rig::page, mr::Access::remote_read);
  CU_ASSERT_TRUE(r.reads(constant.rkey(), p, Rig::page));
  Region again = r.make(p + Rig::page, Rig::page);
  CU_ASSERT_TRUE(r.writes(again.rkey(), p + Rig::page, 64));
  for (Region* region : {&writable, &constant, &again}) r.end(*region);
  EQUAL(r.engine->cover().made(), 2);
  ::munmap(p, 2 * Rig::page);
}

const kilim::test::Case cases[] = {
    {"a relaxed region is reached from its first byte to its last page's boundary", to_the_byte},
    {"a relaxed region gives the rights that were asked for", rights},
    {"a deregistered region may be reached until the flush, and never after it", until_the_flush},
    {"a relaxed region is used by the next work request of the queue", behind_at_once},
    {"as many regions as there are keys, one doorbell for all", many_in_a_batch},
    {"memory under no key is registered once for all relaxed regions in it", registered_once},
    {"relaxed regions over the whole address space follow what is mapped there", on_demand},
    {"relaxed regions on demand over memory that can only be read", read_only_on_demand},
    {"use after deregistration never reads another owner's data", test::relaxed_soak},
};

}  // namespace
}  // namespace relaxed_ut

KILIM_TEST_SUITE(relaxed, relaxed_ut::cases)
