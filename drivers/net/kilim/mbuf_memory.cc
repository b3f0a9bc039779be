// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/mbuf_memory.hh"

#include <cerrno>
#include <utility>

#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>

#include "kilim/detail/mem/range.hh"
#include "kilim/detail/mr/runs.hh"

namespace kilim::net {
namespace {

constexpr const char* memory_callback = "kilim_ethdev";  // told apart by their argument

void on_memory_event(rte_mem_event event, const void* address, size_t bytes, void* memory) {
  if (event == RTE_MEM_EVENT_FREE)
    static_cast<MbufMemory*>(memory)->vanishing(reinterpret_cast<uint64_t>(address), bytes);
}

KeySpan span_of(const mr::Mr& region) noexcept {
  const mr::Region& r = region.region();
  return {r.address, r.length, r.lkey};
}

struct Reach {
  uint64_t first = UINT64_MAX, last = 0;
};

void stretch(rte_mempool*, void* arg, rte_mempool_memhdr* piece, unsigned) {
  auto& r = *static_cast<Reach*>(arg);
  const auto at = reinterpret_cast<uint64_t>(piece->addr);
  r.first = at < r.first ? at : r.first;
  r.last = at + piece->len > r.last ? at + piece->len : r.last;
}

struct Missing {
  const std::list<mr::Mr>* regions;
  bool any;
};

void look_for_gap(rte_mempool*, void* arg, rte_mempool_memhdr* piece, unsigned) {
  auto& m = *static_cast<Missing*>(arg);
  const auto at = reinterpret_cast<uint64_t>(piece->addr);
  for (const mr::Mr& r : *m.regions)
    if (span_of(r).covers(at, piece->len)) return;
  m.any = true;
}

bool pinned_elsewhere(rte_mempool& pool) noexcept {
  return (rte_pktmbuf_priv_flags(&pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0;
}

}  // namespace

// Without hugepages EAL frees no memory and has no events.
MbufMemory::MbufMemory(mr::Registrar& registrar, uint32_t rights) noexcept
    : registrar_(registrar), rights_(rights) {
  follows_ = rte_mem_event_callback_register(memory_callback, on_memory_event, this) == 0;
}

MbufMemory::~MbufMemory() {
  if (follows_) (void)rte_mem_event_callback_unregister(memory_callback, this);
}

KeySpan MbufMemory::look(uint64_t address, uint64_t length) const noexcept {
  for (const mr::Mr& r : regions_)
    if (span_of(r).covers(address, length)) return span_of(r);
  return {};
}

Status MbufMemory::keep(Result<std::vector<mr::Mr>> regions) {
  if (!regions) return regions.error();
  for (mr::Mr& r : *regions) regions_.push_front(std::move(r));
  return Done{};
}

Status MbufMemory::add_pool(rte_mempool& pool) {
  const std::lock_guard guard(lock_);
  Missing missing{&regions_, pool.nb_mem_chunks == 0 || pinned_elsewhere(pool)};
  rte_mempool_mem_iter(&pool, look_for_gap, &missing);
  if (!missing.any) return Done{};
  return keep(mr::register_mempool(registrar_, &pool, rights_));
}

KeySpan MbufMemory::whole(rte_mempool& pool) noexcept {
  if (pinned_elsewhere(pool)) return {};
  Reach reach;
  rte_mempool_mem_iter(&pool, stretch, &reach);
  const std::lock_guard guard(lock_);
  return reach.last == 0 ? KeySpan{} : look(reach.first, reach.last - reach.first);
}

Status MbufMemory::add_range(std::span<std::byte> memory) {
  const std::lock_guard guard(lock_);
  return keep(mr::register_range(registrar_, memory, rights_));
}

Status MbufMemory::remove_range(std::span<std::byte> memory) {
  const auto first = reinterpret_cast<uint64_t>(memory.data());
  const std::lock_guard guard(lock_);
  const std::size_t gone = regions_.remove_if([&](const mr::Mr& r) {
    const KeySpan s = span_of(r);
    return s.first >= first && s.first + s.bytes <= first + memory.size();
  });
  if (gone == 0) return Error{ENOENT, "this memory was not mapped for the device"};
  generation_.fetch_add(1, std::memory_order_acq_rel);
  return Done{};
}

void MbufMemory::vanishing(uint64_t address, uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  const std::size_t gone = regions_.remove_if([&](const mr::Mr& r) {
    const KeySpan s = span_of(r);
    return s.first < address + bytes && address < s.first + s.bytes;
  });
  if (gone != 0) generation_.fetch_add(1, std::memory_order_acq_rel);
}

// A clone's data lie in the mempool of the mbuf that it was made of. A buffer that somebody else
// attached may lie anywhere: it has a key where EAL knows the memory (rte_extmem_register() counts)
// or add_range() brought it.
void MbufMemory::learn(const rte_mbuf& mbuf, uint64_t address) noexcept {
  const rte_mbuf* home = &mbuf;
  if (RTE_MBUF_CLONED(&mbuf)) home = rte_mbuf_from_indirect(const_cast<rte_mbuf*>(&mbuf));
  if (home->pool != nullptr && (!RTE_MBUF_HAS_EXTBUF(home) || pinned_elsewhere(*home->pool))) {
    (void)add_pool(*home->pool);
    return;
  }
  for (const mem::Range& run : mem::eal_runs()) {
    const auto first = reinterpret_cast<uint64_t>(run.base);
    if (address - first < run.bytes) (void)keep(mr::register_runs(registrar_, run.span(), rights_));
  }
}

KeySpan MbufMemory::find(const rte_mbuf& mbuf, uint64_t address, uint32_t length) noexcept {
  const std::lock_guard guard(lock_);
  if (const KeySpan known = look(address, length); known.bytes != 0) return known;
  learn(mbuf, address);
  return look(address, length);
}

}  // namespace kilim::net
