// SPDX-License-Identifier: BSD-3-Clause
// Appends WQEs to a send queue and announces them with one doorbell. A cursor keeps the queue's
// state in registers; nothing of it is seen by the device or the queue before commit(), and a
// cursor that goes away without commit() has posted nothing.
// Owner: the queue's worker; one cursor at a time. Never allocates, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/base/barrier.hh"
#include "kilim/base/be.hh"
#include "kilim/base/mmio.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/queue/sq.hh"

namespace kilim::queue {

// Bits of a WQE's fm_ce_se byte that a caller chooses.
struct WrFlags {
  static constexpr uint8_t none = 0;
  static constexpr uint8_t signalled = prm::ctrl::cq_update;
  static constexpr uint8_t solicited = prm::ctrl::solicited;
  static constexpr uint8_t fence = prm::ctrl::fence;  // waits for outstanding reads and atomics
};

class WqeCursor {
 public:
  explicit WqeCursor(Sq& sq) noexcept
      : sq_(sq),
        buf_(sq.geometry_.buf),
        wr_ids_(sq.wr_ids_),
        mask_(sq.mask_),
        pi_(sq.pi_),
        limit_(sq.ci_ + sq.geometry_.wqebb_count),
        last_(sq.pi_),
        qpn_(sq.geometry_.qpn.value() << 8),
        fence_(sq.fence_) {
    sq.owner_.check();
  }
  WqeCursor(const WqeCursor&) = delete;
  WqeCursor& operator=(const WqeCursor&) = delete;

  [[nodiscard]] Wqebbs room() const noexcept { return Wqebbs{limit_ - pi_}; }
  [[nodiscard]] bool fits(uint32_t wqebbs) const noexcept { return limit_ - pi_ >= wqebbs; }
  [[nodiscard]] bool fits(Octowords ds) const noexcept { return fits(wqebbs_for(ds).value()); }

  // Where the WQE being written begins, as Sq counts.
  [[nodiscard]] uint32_t position() const noexcept { return pi_; }

  [[nodiscard]] bool writes(const Sq& sq) const noexcept { return &sq_ == &sq; }

  // The i-th basic block of the WQE being written; wraps by itself.
  [[nodiscard]] std::byte* line(uint32_t i) const noexcept {
    return buf_ + std::size_t{(pi_ + i) & mask_} * wqebb_bytes;
  }
  // The i-th 16-byte segment of the WQE being written.
  [[nodiscard]] std::byte* segment(uint32_t i) const noexcept {
    return line(i / 4) + std::size_t{i % 4} * octoword_bytes;
  }

  // Writes the control segment of a WQE of `ds` octowords. The pending fence goes into it unless
  // `flags` asks for a stronger one.
  void control(prm::Opcode op, Octowords ds, uint8_t flags, uint32_t imm) noexcept {
    KILIM_ASSERT(ds.value() != 0 && ds.value() <= prm::max_ds && fits(ds));
    const uint32_t first = (pi_ & 0xffff) << 8 | static_cast<uint32_t>(op);
    const uint32_t fm = flags | ((flags & prm::ctrl::fence_mask) != 0 ? 0u : fence_);
    const be64 words[2] = {be64{uint64_t{first} << 32 | qpn_ | ds.value()},
                           be64{uint64_t{fm} << 32 | imm}};
    std::memcpy(line(0), words, sizeof words);
    fence_ = 0;
  }
  // The WQE is written: remembers its wr id and goes on behind it.
  void advance(uint32_t wqebbs, uint64_t wr_id) noexcept {
    wr_ids_[pi_ & mask_] = wr_id;
    last_ = pi_;
    pi_ += wqebbs;
  }
  // The WQE after this one waits for what this one changes (a key).
  void fence_next(uint8_t mode) noexcept { fence_ = mode; }
  [[nodiscard]] uint8_t pending_fence() const noexcept { return fence_; }

  // Asks for a completion of the last appended WQE. Only between an append and commit().
  void signal_last() noexcept {
    KILIM_ASSERT(pi_ != sq_.pi_);
    auto* ctrl = reinterpret_cast<prm::CtrlSeg*>(at(last_));
    ctrl->fm_ce_se = static_cast<uint8_t>(ctrl->fm_ce_se | prm::ctrl::cq_update);
  }

  // Hands everything appended since the last commit to the device: record, then doorbell.
  void commit() noexcept {
    if (pi_ == sq_.pi_) return;
    sq_.pi_ = pi_;
    sq_.fence_ = fence_;
    before_doorbell_record();
    record_store(sq_.geometry_.record, be32{pi_ & 0xffff});
    before_doorbell();
    uint64_t head;
    std::memcpy(&head, at(last_), sizeof head);
    mmio_store64(sq_.geometry_.doorbell, head);
    flush_write_combining();
  }

 private:
  [[nodiscard]] std::byte* at(uint32_t pi) const noexcept {
    return buf_ + std::size_t{pi & mask_} * wqebb_bytes;
  }

  Sq& sq_;
  std::byte* buf_;
  uint64_t* wr_ids_;
  uint32_t mask_;
  uint32_t pi_;
  uint32_t limit_;  // pi_ may not pass it
  uint32_t last_;   // first block of the WQE appended last
  uint32_t qpn_;    // already shifted to its place
  uint8_t fence_;
};

}  // namespace kilim::queue
