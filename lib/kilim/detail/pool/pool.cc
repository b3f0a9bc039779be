// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/pool.hh"

#include <cerrno>

#include <rte_errno.h>
#include <rte_memory.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/pool/ledger.hh"
#include "kilim/detail/pool/mbuf_row.hh"
#include "kilim/detail/pool/parts.hh"

namespace kilim::inline v1::pool {

namespace {

uint32_t count_of(const void* ring) noexcept {
  return rte_ring_count(static_cast<const rte_ring*>(ring));
}

}  // namespace

Result<Pool> Pool::create(const Arena& arena, const PoolConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (config.count == 0 || config.first >= arena.count() ||
      config.count > arena.count() - config.first)
    return Error{EINVAL, "the pool's buffers do not lie within the arena"};
  int node = config.numa_node < 0 ? SOCKET_ID_ANY : config.numa_node;
  Pool p;
  p.arena_ = arena;
  p.first_ = config.first;
  p.count_ = config.count;
  p.ring_.reset(
      rte_ring_create_elem(config.name, sizeof(uint32_t), config.count, node, RING_F_EXACT_SZ));
  if (p.ring_ == nullptr)
    return Error{rte_errno, rte_errno == EEXIST ? "a pool of that name exists"
                                                : "no memory for a pool's ring"};
  const std::byte* first = arena.buffer(config.first);
  const std::span buffers{first, std::size_t{config.count} * arena.stride()};
  if (!parts::claim({p.ring_.get(), config.name, buffers, config.count, count_of}))
    return Error{EBUSY, "another pool has some of these buffers of the arena already"};
  for (uint32_t i = 0; i < config.count; i++) {
    uint32_t index = config.first + i;
    p.push({&index, 1});
  }
  if (config.debug.on) {
    p.ledger_.reset(Ledger::open(arena, config).release());
    if (p.ledger_ == nullptr) return Error{ENOMEM, "no memory to watch the pool's buffers"};
  }
  return p;
}

Result<Pool> Pool::of_mbufs(const Arena& arena, rte_mempool& mempool) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  Pool p;
  p.arena_ = arena;
  p.count_ = mbuf_row::size(mempool);
  // How many are free EAL's own /mempool/info tells.
  if (!parts::claim({&mempool, mbuf_row::name(mempool), arena.memory(), p.count_, nullptr}))
    return Error{EBUSY, "another pool has this mempool's buffers already"};
  p.mbufs_.reset(&mempool);
  return p;
}

uint32_t Pool::lend(std::span<uint32_t> out, Who who) noexcept {
  if (mbufs_ != nullptr) return mbuf_row::get(*mbufs_, arena_, out);
  const uint32_t n = rte_ring_dequeue_burst_elem(ring_.get(), out.data(), sizeof(uint32_t),
                                                 static_cast<unsigned>(out.size()), nullptr);
  ledger_->take(out.first(n), who);
  return n;
}

void Pool::take_back(std::span<const uint32_t> indices, Who who) noexcept {
  if (mbufs_ != nullptr) return mbuf_row::put(*mbufs_, arena_, indices);
  for (const uint32_t index : indices) {
    if (!ledger_->expect_held(index, who)) continue;
    if (arena_.has_holders() && !arena_.drop(index)) continue;
    if (!ledger_->release(index, who)) continue;
    (void)rte_ring_enqueue_elem(ring_.get(), const_cast<uint32_t*>(&index), sizeof(uint32_t));
  }
}

uint32_t Pool::generation(uint32_t index) const noexcept {
  return ledger_ == nullptr ? 0 : ledger_->generation(index);
}
uint64_t Pool::faults() const noexcept {
  return ledger_ == nullptr ? 0 : ledger_->faults();
}
uint32_t Pool::report_held() noexcept {
  return ledger_ == nullptr ? 0 : ledger_->report_held();
}
uint32_t Pool::available_mbufs() const noexcept {
  return mbuf_row::available(*mbufs_);
}

void Pool::FreeRing::operator()(rte_ring* ring) const noexcept {
  parts::release(ring);
  if (!outlived_eal(ring, "a pool of packet buffers")) rte_ring_free(ring);
}

void Pool::CloseLedger::operator()(Ledger* ledger) const noexcept {
  (void)ledger->report_held();
  delete ledger;
}

void Pool::ReleaseMbufs::operator()(rte_mempool* mempool) const noexcept {
  parts::release(mempool);
}

}  // namespace kilim::inline v1::pool
