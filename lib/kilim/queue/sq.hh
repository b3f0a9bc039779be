// SPDX-License-Identifier: BSD-3-Clause
// The producer's side of one send queue: where the next WQE goes, how much room is left, what
// completed. WQEs are appended through a WqeCursor (queue/wqe_cursor.hh).
// Owner: the worker that made it; no other thread may touch it. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/base/assert.hh"
#include "kilim/base/mmio.hh"
#include "kilim/base/owner.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/queue/geometry.hh"

namespace kilim::queue {

class Sq {
 public:
  // `wr_ids` holds the caller's number of each WQE at its first basic block; one entry per block,
  // and it outlives the queue.
  Sq(const SqGeometry& geometry, std::span<uint64_t> wr_ids) noexcept
      : geometry_(geometry), wr_ids_(wr_ids.data()), mask_(geometry.wqebb_count - 1) {
    KILIM_ASSERT(is_power_of_two(geometry.wqebb_count) && geometry.wqebb_count <= max_ring_entries);
    KILIM_ASSERT(wr_ids.size() >= geometry.wqebb_count);
  }
  Sq(Sq&&) = default;
  Sq& operator=(Sq&&) = default;
  Sq(const Sq&) = delete;
  Sq& operator=(const Sq&) = delete;

  [[nodiscard]] const SqGeometry& geometry() const noexcept { return geometry_; }
  // Free basic blocks.
  [[nodiscard]] Wqebbs credits() const noexcept {
    return Wqebbs{geometry_.wqebb_count - (pi_ - ci_)};
  }
  // Nothing is posted that has not been retired.
  [[nodiscard]] bool idle() const noexcept { return pi_ == ci_; }

  // Positions: blocks posted, and blocks whose WQE is known to be complete. They run freely.
  [[nodiscard]] uint32_t posted() const noexcept { return pi_; }
  [[nodiscard]] uint32_t retired() const noexcept { return ci_; }

  // The WQE that starts at block `counter` (from a CQE) and all before it are complete: their
  // blocks may be used again. Returns its wr id.
  uint64_t retire(uint16_t counter) noexcept {
    owner_.check();
    const uint32_t slot = counter & mask_;
    const std::byte* wqe = geometry_.buf + std::size_t{slot} * wqebb_bytes;
    const auto* ctrl = reinterpret_cast<const prm::CtrlSeg*>(wqe);
    const uint32_t ahead = static_cast<uint16_t>(counter - ci_);
    ci_ += ahead + wqebbs_for(Octowords{prm::ctrl::ds::get(*ctrl)}).value();
    KILIM_ASSERT(pi_ - ci_ <= geometry_.wqebb_count);
    return wr_ids_[slot];
  }

  // No completion will come any more (the device is dead): hands each WQE that has not been retired
  // to `lost`, as its wr id and whether it asked for a completion, and retires it.
  template <typename Lost>
  void give_up(Lost lost) noexcept {
    owner_.check();
    while (ci_ != pi_) {
      const uint32_t slot = ci_ & mask_;
      const std::byte* wqe = geometry_.buf + std::size_t{slot} * wqebb_bytes;
      const auto* ctrl = reinterpret_cast<const prm::CtrlSeg*>(wqe);
      ci_ += wqebbs_for(Octowords{prm::ctrl::ds::get(*ctrl)}).value();
      lost(wr_ids_[slot], (ctrl->fm_ce_se & prm::ctrl::cq_update) != 0);
    }
  }

  // After the queue pair went through RESET: both counters start over.
  void reset() noexcept {
    owner_.check();
    pi_ = ci_ = 0;
    fence_ = 0;
    record_store(geometry_.record, be32{0});
  }
  // Hands the queue to another worker, which must not overlap with this one.
  void release_owner() noexcept { owner_.release(); }

 private:
  friend class WqeCursor;
  SqGeometry geometry_;
  uint64_t* wr_ids_;
  uint32_t mask_;
  uint32_t pi_ = 0;    // next block to write; runs freely, the low 16 bits go to the device
  uint32_t ci_ = 0;    // first block whose WQE is not known to be complete
  uint8_t fence_ = 0;  // fence mode that the next WQE must carry
  [[no_unique_address]] Owner owner_;
};

}  // namespace kilim::queue
