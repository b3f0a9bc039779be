// SPDX-License-Identifier: BSD-3-Clause
// Sq: the producer's side of one send queue: the place of the next WQE, the free blocks, the
// completed ones. WQEs are appended through a WqeCursor (queue/wqe_cursor.hh). Owner: one worker.
// Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/watch.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::queue {

class Sq {
 public:
  // `wr_ids` keeps the caller's number of each WQE at the index of its first block: one entry per
  // block; it outlives the queue.
  Sq(const SqGeometry& geometry, std::span<uint64_t> wr_ids) noexcept
      : geometry_(geometry),
        at_(geometry.buf),
        end_(geometry.buf + std::size_t{geometry.wqebb_count} * wqebb_bytes),
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
  // Free 64-byte blocks. They become free by retire().
  [[nodiscard]] Wqebbs credits() const noexcept { return Wqebbs{limit_ - pi_}; }
  // True: everything posted has been retired.
  [[nodiscard]] bool idle() const noexcept { return pi_ == retired(); }

  // The wr id of the WQE at block `counter`, by subscript. A copy of two members, which stay in
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

  // Positions: blocks posted, and blocks of WQEs known to be complete. They wrap at 2^32.
  [[nodiscard]] uint32_t posted() const noexcept { return pi_; }
  [[nodiscard]] uint32_t retired() const noexcept { return limit_ - geometry_.wqebb_count; }

  // Frees the blocks of the WQE at block `counter` (from a CQE) and of all before it. Returns its
  // wr id.
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

  // Retires everything up to a position where a WQE ended that is known to be complete.
  void retire_to(uint32_t position) noexcept {
    owner_.check();
    limit_ = position + geometry_.wqebb_count;
    KILIM_ASSERT(credits().value() <= geometry_.wqebb_count);
    watch_.ended(position);
  }

  // For a dead device, from which no completion comes: retires every WQE and calls lost(wr_id,
  // whether it asked for a completion).
  template <typename Lost>
  void abandon(Lost lost) noexcept {
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

  // Called when the queue pair went through RESET: positions start at 0.
  void reset() noexcept {
    owner_.check();
    watch_.ended(pi_);
    at_ = geometry_.buf;
    fence_ = be64{0};
    pi_ = 0;
    limit_ = geometry_.wqebb_count;
    record_store(geometry_.record, be32{0});
  }
  // Sets the observer of doorbells (queue/watch.hh); null: none. False: this build has no
  // observers.
  bool watch(Watch* w) noexcept { return watch_.set(w); }
  // Lets another worker use the queue from now on; the two never use it at the same time.
  void release_owner() noexcept { owner_.release(); }

 private:
  friend class WqeCursor;
  SqGeometry geometry_;
  // What a cursor copies.
  std::byte* at_;         // next block to write
  const std::byte* end_;  // of the ring
  be64 fence_{0};         // that the next WQE must carry, as it lies in a control segment
  be32 qpn_;              // as it lies in a control segment
  uint32_t pi_ = 0;       // number of the next block; the low 16 bits go to the device
  uint32_t limit_;        // the number that pi_ may not pass
  uint32_t plain_bytes_;  // of a piece whose length is written as it is
  uint64_t* wr_ids_;
  uint32_t mask_;
  WatchSlot watch_;
  Owner owner_;
};

}  // namespace kilim::inline v1::queue
