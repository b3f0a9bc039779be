// SPDX-License-Identifier: BSD-3-Clause
// Handles and mbufs without a copy. ExternalMbufs: a packet of our pool, received or made, becomes
// mbufs that point to its buffers and give them back when they are freed. MbufPool: a mempool of
// mbufs is the arena and the pool, so its mbufs are sent, or received into, as handles. Each is
// made at set-up; its functions are called by workers, a burst at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/pool/pool.hh"

struct rte_mbuf;
struct rte_mempool;

namespace kilim::inline v1::pool {

// How much of what was given was taken, from the front.
struct Converted {
  uint32_t handles = 0;
  uint32_t mbufs = 0;  // packets: segments behind the first are not counted
  friend constexpr bool operator==(Converted, Converted) noexcept = default;
};

inline constexpr uint32_t max_segments = 64;  // of one packet that is converted

// Shows buffers of one pool as external buffers (rte_pktmbuf_attach_extbuf). Any lcore may free the
// mbufs, clone and chain them. Nobody shares the buffers by Arena::share() while mbufs show them.
class ExternalMbufs {
 public:
  // The mbufs come from `mbufs`, of rte_pktmbuf_pool_create(), which needs no data room. EINVAL: it
  // is no such pool, or `pool` is one of mbufs itself; ENOMEM. Pool and mempool outlive the object;
  // no mbuf of its making does.
  static Result<std::unique_ptr<ExternalMbufs>> create(Pool& pool, rte_mempool& mbufs);
  ~ExternalMbufs();
  ExternalMbufs(const ExternalMbufs&) = delete;
  ExternalMbufs& operator=(const ExternalMbufs&) = delete;

  // On an lcore, before its first packet: buffers of mbufs that are freed on it go to `cache`,
  // which is its own. From other threads they go to the pool, one at a time. leave() ends it.
  void serve(BufferCache& cache) noexcept;
  void leave() noexcept;

  // Takes whole packets from the front of `in`; each becomes an mbuf with as many segments as it
  // has handles, which the caller holds instead. Packet type, flags, hash and VLAN tag come from
  // the side record, if the handle has one. It stops at a packet that ends behind `in`, has more
  // than max_segments pieces or a buffer with several holders, and where mbufs run out.
  Converted to_mbufs(std::span<const Handle> in, std::span<rte_mbuf*> out) noexcept;

  // Buffers that mbufs hold. Counts them: not for a burst.
  [[nodiscard]] uint32_t held() const noexcept;

 private:
  struct Record;  // of a buffer
  static void give_back(void* buffer, void* record) noexcept;
  ExternalMbufs(Pool& pool, rte_mempool& mbufs) noexcept;
  Status set_up();
  bool may_show(std::span<const Handle> packet) const noexcept;
  rte_mbuf* show(std::span<const Handle> packet, std::span<rte_mbuf*> segments) noexcept;

  Pool& pool_;
  rte_mempool& mbufs_;
  std::unique_ptr<Record[]> records_;
  std::unique_ptr<BufferCache*[]> caches_;  // by lcore; each is written and read by that one
};

// A mempool of mbufs as pool and arena. Register arena().memory(), or all of EAL's memory, with the
// device. A BufferCache over pool() passes everything to and from the mempool, which has caches of
// its own. There are no side records, and no watching: rte_mempool has that
// (RTE_LIBRTE_MEMPOOL_DEBUG).
class MbufPool {
 public:
  // `fulfilled`: which requests of mbufs (RTE_MBUF_F_TX_*) the transmit queues fulfil for every
  // packet. EINVAL: the mempool is none of rte_pktmbuf_pool_create(), its mbufs have no data room,
  // or its memory is in several places; EBUSY: another MbufPool has it. It outlives the object.
  static Result<MbufPool> over(rte_mempool& mempool, uint64_t fulfilled = 0);

  [[nodiscard]] const Arena& arena() const noexcept { return pool_.arena(); }
  // For the caches of ports, which do not outlive this object.
  [[nodiscard]] Pool& pool() noexcept { return pool_; }

  // Takes packets from the front of `in` as handles, which the caller holds instead; freed, or sent
  // and completed, the mbufs go back to the mempool. It stops at a packet that is not whole in this
  // mempool's memory, that asks for what is not fulfilled, that has an empty segment, more than
  // max_segments or more than `out` has room for.
  Converted to_handles(std::span<rte_mbuf* const> in, std::span<Handle> out) const noexcept;
  // The other way, for received packets and those that were not sent.
  Converted to_mbufs(std::span<const Handle> in, std::span<rte_mbuf*> out) const noexcept;

 private:
  MbufPool(Pool pool, rte_mempool& mempool, uint64_t fulfilled) noexcept;
  bool may_send(const rte_mbuf& packet, std::size_t room) const noexcept;

  Pool pool_;
  rte_mempool* mempool_;
  uint64_t fulfilled_;
};

}  // namespace kilim::inline v1::pool
