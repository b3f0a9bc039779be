// SPDX-License-Identifier: BSD-3-Clause
// The producer's side of one send queue: where the next WQE goes, how much room is left, what
// completed. WQEs are appended through a WqeCursor (queue/wqe_cursor.hh).
// Owner: the worker that made it; no other thread may touch it. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/base/assert.hh"
#include "kilim/base/be.hh"
#include "kilim/base/mmio.hh"
#include "kilim/base/owner.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/queue/geometry.hh"
#include "kilim/queue/watch.hh"

namespace kilim::queue {

class Sq {
 public:
  // `wr_ids` holds the caller's number of each WQE at its first basic block; one entry per block,
  // and it outlives the queue.
  Sq(const SqGeometry& geometry, std::span<uint64_t> wr_ids) noexcept
      : geometry_(geometry),
        at_(geometry.buf),
        end_(geometry.buf + std::size_t{geometry.wqebb_count} * wqebb_bytes),
        wr_id_(wr_ids.data()),
        qpn_(be32{geometry.qpn.value() << 8}),
        limit_(geometry.wqebb_count),
        plain_bytes_(geometry.max_message < prm::max_segment_bytes ? geometry.max_message
                                                                   : prm::max_segment_bytes - 1),
        wr_ids_(wr_ids.data()),
        mask_(geometry.wqebb_count - 1) {
    KILIM_ASSERT(is_power_of_two(geometry.wqebb_count) && geometry.wqebb_count <= max_ring_entries);
    KILIM_ASSERT(wr_ids.size() >= geometry.wqebb_count);
  }
  Sq(Sq&&) = default;
  Sq& operator=(Sq&&) = default;
  Sq(const Sq&) = delete;
  Sq& operator=(const Sq&) = delete;

  [[nodiscard]] const SqGeometry& geometry() const noexcept { return geometry_; }
  // Free basic blocks.
  [[nodiscard]] Wqebbs credits() const noexcept { return Wqebbs{limit_ - pi_}; }
  // Nothing is posted that has not been retired.
  [[nodiscard]] bool idle() const noexcept { return pi_ == retired(); }

  // The wr id of the WQE that starts at block `counter`, by subscript, with the queue's state in
  // registers.
  class WrIds {
   public:
    uint64_t operator[](uint16_t counter) const noexcept { return ids_[counter & mask_]; }

   private:
    friend class Sq;
    WrIds(const uint64_t* ids, uint32_t mask) noexcept : ids_(ids), mask_(mask) {}
    const uint64_t* ids_;
    uint32_t mask_;
  };
  [[nodiscard]] WrIds wr_ids() const noexcept { return {wr_ids_, mask_}; }

  // Positions: blocks posted, and blocks whose WQE is known to be complete. They run freely.
  [[nodiscard]] uint32_t posted() const noexcept { return pi_; }
  [[nodiscard]] uint32_t retired() const noexcept { return limit_ - geometry_.wqebb_count; }

  // The WQE that starts at block `counter` (from a CQE) and all before it are complete: their
  // blocks may be used again. Returns its wr id.
  uint64_t retire(uint16_t counter) noexcept {
    owner_.check();
    const uint32_t slot = counter & mask_;
    const std::byte* wqe = geometry_.buf + std::size_t{slot} * wqebb_bytes;
    const auto* ctrl = reinterpret_cast<const prm::CtrlSeg*>(wqe);
    const uint32_t ahead = static_cast<uint16_t>(counter - retired());
    limit_ += ahead + wqebbs_for(Octowords{prm::ctrl::ds::get(*ctrl)}).value();
    KILIM_ASSERT(credits().value() <= geometry_.wqebb_count);
    watch_.ended(retired());
    return wr_ids_[slot];
  }

  // No completion will come any more (the device is dead): hands each WQE that has not been retired
  // to `lost`, as its wr id and whether it asked for a completion, and retires it.
  template <typename Lost>
  void give_up(Lost lost) noexcept {
    owner_.check();
    while (!idle()) {
      const uint32_t slot = retired() & mask_;
      const std::byte* wqe = geometry_.buf + std::size_t{slot} * wqebb_bytes;
      const auto* ctrl = reinterpret_cast<const prm::CtrlSeg*>(wqe);
      limit_ += wqebbs_for(Octowords{prm::ctrl::ds::get(*ctrl)}).value();
      lost(wr_ids_[slot], prm::ctrl::completes(ctrl->fm_ce_se));
    }
    watch_.ended(retired());
  }

  // After the queue pair went through RESET: both counters start over.
  void reset() noexcept {
    owner_.check();
    watch_.ended(pi_);
    at_ = geometry_.buf;
    wr_id_ = wr_ids_;
    fence_ = be64{0};
    pi_ = 0;
    limit_ = geometry_.wqebb_count;
    record_store(geometry_.record, be32{0});
  }
  // Who is told of each doorbell from now on; null: nobody. False: this build tells nobody
  // (queue/watch.hh).
  bool watch(Watch* w) noexcept { return watch_.set(w); }
  // Hands the queue to another worker, which must not overlap with this one.
  void release_owner() noexcept { owner_.release(); }

 private:
  friend class WqeCursor;
  SqGeometry geometry_;
  // As a cursor takes it over.
  std::byte* at_;         // next block to write
  const std::byte* end_;  // of the ring
  uint64_t* wr_id_;       // of that block
  be64 fence_{0};         // that the next WQE must carry, as it lies in a control segment
  be32 qpn_;              // as it lies in a control segment
  uint32_t pi_ = 0;       // number of the next block; the low 16 bits go to the device
  uint32_t limit_;        // the number that pi_ may not pass
  uint32_t plain_bytes_;  // of a piece whose length is written as it is
  uint64_t* wr_ids_;
  uint32_t mask_;
  [[no_unique_address]] std::conditional_t<watched, WatchSlot, NoWatchSlot> watch_;
  [[no_unique_address]] Owner owner_;
};

}  // namespace kilim::queue
