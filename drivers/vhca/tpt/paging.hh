// SPDX-License-Identifier: BSD-3-Clause
// PRM: "On Demand Paging". An adapter's page faults, invalidations and prefetches: an access to a
// page that the adapter's own table lacks is a fault; it is resolved by touching the page through
// the operating system, and whoever met it tries again later. Owner: the adapter; its lock held.
// Only a fault allocates, room for the table. Client memory through the guarded copy only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "vhca/tpt/odp_stats.hh"
#include "vhca/tpt/paged_region.hh"
#include "vhca/tpt/translate.hh"

namespace kilim::vhca {
class Journal;
}  // namespace kilim::vhca

namespace kilim::vhca::tpt {

struct Segment;

class Paging {
 public:
  explicit Paging(const KeyTable& keys) noexcept : keys_(keys) {}
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;

  // Before anything else.
  void use_journal(Journal& journal) noexcept { journal_ = &journal; }
  OdpStats& stats() noexcept { return stats_; }
  // Whether any key has such memory; if none, nothing needs to be looked at.
  [[nodiscard]] bool any() const noexcept { return regions_ != 0; }

  // Whether all of a piece of a paged region is there for this access. ok: it was;
  // protection::page: it is now, or may be soon: try again; protection::gone: it cannot be, or the
  // access may not fault (`may_fault`).
  Verdict bring_in(const Piece&, bool write, bool may_fault) noexcept;

  // ibv_advise_mr as mlx5_ib answers it: 0 or a negative errno. Without `flush` what is asked for
  // is done by serve(), later; errors of ranges are nobody's then.
  enum class Advice : uint32_t { prefetch = 0, prefetch_write = 1, prefetch_no_fault = 2 };
  struct Request {
    Pdn pd;
    Advice advice = Advice::prefetch;
    bool flush = false;
    std::span<const Segment> list;
  };
  int advise(const Request&);

  // The engine's turn: notes what was invalidated in the journal, does prefetches; how many.
  std::size_t serve() noexcept {
    note_invalidations();
    return deferred_.empty() ? 0 : serve_deferred();
  }
  // Before this region goes: what waits for its turn and names it is done now, as mlx5_ib waits for
  // it (mr.c, mlx5_ib_dereg_mr(), by mlx5r_deref_wait_odp_mkey()).
  void finish(uint32_t index) noexcept;
  void note_invalidations() noexcept {
    if (news_.load(std::memory_order_acquire)) drain_invalidations();
  }
  [[nodiscard]] bool waiting() const noexcept { return !deferred_.empty(); }

  // From PagedRegion, page lock held.
  void note_invalidation(const PageRange&, uint64_t pages) noexcept;

 private:
  enum class How : uint8_t { read, write, snapshot };
  struct Range {
    uint32_t key;
    uint64_t address, bytes;
  };
  struct Deferred {
    Pdn pd;
    Advice advice;
    std::vector<Range> list;
  };
  struct Invalidation {
    PageRange range;
    uint64_t pages;
  };

  std::size_t serve_deferred() noexcept;
  int bring(PagedRegion&, const PageRange&, How, uint64_t& pages) noexcept;
  uint64_t fault_in(PagedRegion&, const PageRange&, How) noexcept;
  int find_advised(Pdn, Advice, uint32_t key, Mkey*&) noexcept;
  int prefetch(Pdn, Advice, const Range&) noexcept;
  void drain_invalidations() noexcept;

  friend struct PagedRegion;
  const KeyTable& keys_;
  uint32_t regions_ = 0;
  Journal* journal_ = nullptr;
  OdpStats stats_;
  std::deque<Deferred> deferred_;
  // Written by whoever invalidates, under the page lock; read by the engine's turn.
  std::array<Invalidation, 64> invalidations_{};
  std::size_t invalidation_count_ = 0;  // what exceeds the room is added to the last
  std::atomic<bool> news_{false};
};

}  // namespace kilim::vhca::tpt
