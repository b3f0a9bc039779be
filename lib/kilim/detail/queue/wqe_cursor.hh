// SPDX-License-Identifier: BSD-3-Clause
// WqeCursor: appends WQEs to a send queue and rings one doorbell for them. It keeps the queue's
// state in registers. Neither device nor queue changes before commit(); a cursor destroyed without
// commit() has posted nothing. Owner: the queue's worker; one cursor at a time. Never allocates,
// blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::queue {

// Bits of a WQE's fm_ce_se byte that a caller chooses.
struct WrFlags {
  static constexpr uint8_t none = 0;
  // One of these three, or none: then there is a CQE only if the WQE fails or is flushed.
  static constexpr uint8_t signalled = prm::ctrl::cq_update;
  static constexpr uint8_t signalled_with_event = prm::ctrl::cq_update_and_event;
  static constexpr uint8_t only_first_error = prm::ctrl::only_first_error;
  static constexpr uint8_t solicited = prm::ctrl::solicited;
  static constexpr uint8_t fence = prm::ctrl::fence;  // waits for earlier READs and atomics
};

class WqeCursor {
 public:
  // Begins at the queue's next free block. `sq` outlives the cursor.
  explicit WqeCursor(Sq& sq) noexcept
      : sq_(sq),
        at_(sq.at_),
        end_(sq.end_),
        wr_id_(&sq.wr_ids_[sq.pi_ & sq.mask_]),
        fence_(sq.fence_),
        qpn_(sq.qpn_),
        pi_(sq.pi_),
        limit_(sq.limit_) {
    sq.owner_.check();
  }
  WqeCursor(const WqeCursor&) = delete;
  WqeCursor& operator=(const WqeCursor&) = delete;

  // Free blocks, and whether a WQE of so many blocks or octowords fits into them.
  [[nodiscard]] Wqebbs room() const noexcept { return Wqebbs{limit_ - pi_}; }
  [[nodiscard]] bool fits(uint32_t wqebbs) const noexcept { return limit_ - pi_ >= wqebbs; }
  [[nodiscard]] bool fits(Octowords ds) const noexcept { return fits(wqebbs_for(ds).value()); }

  // The position (Sq::posted()) of the WQE being written, and Sq::retired().
  [[nodiscard]] uint32_t position() const noexcept { return pi_; }
  [[nodiscard]] uint32_t retired() const noexcept { return limit_ - sq_.geometry_.wqebb_count; }

  [[nodiscard]] Qpn qpn() const noexcept { return Qpn{qpn_.host() >> 8}; }
  // True: the cursor appends to `sq`.
  [[nodiscard]] bool writes(const Sq& sq) const noexcept { return &sq_ == &sq; }

  // A single piece of 1 to plain_bytes() bytes needs no further check.
  [[nodiscard]] uint32_t plain_bytes() const noexcept { return sq_.plain_bytes_; }
  // The longest message that the device sends.
  [[nodiscard]] uint32_t max_message() const noexcept { return sq_.geometry_.max_message; }

  // The first 64-byte block of the WQE being written.
  [[nodiscard]] std::byte* line() const noexcept { return at_; }
  // Its i-th block, wrapped at the ring's end.
  [[nodiscard]] std::byte* line(uint32_t i) const noexcept {
    std::byte* p = at_ + std::size_t{i} * wqebb_bytes;
    if (p >= end_) [[unlikely]]
      p -= ring_bytes();
    return p;
  }
  // True: so many blocks from line() on are contiguous.
  [[nodiscard]] bool straight(uint32_t wqebbs) const noexcept {
    return at_ + std::size_t{wqebbs} * wqebb_bytes <= end_;
  }
  // The i-th 16-byte segment of the WQE being written.
  [[nodiscard]] std::byte* segment(uint32_t i) const noexcept {
    return line(i / 4) + std::size_t{i % 4} * octoword_bytes;
  }

  // Writes the control segment of a WQE of `ds` octowords. It gets the pending fence combined with
  // the fence in `flags` (Linux wr.c, mlx5_ib_post_send).
  void control(prm::Opcode op, Octowords ds, uint8_t flags, uint32_t imm) noexcept {
    KILIM_ASSERT(ds.value() != 0 && ds.value() <= prm::max_ds && fits(ds));
    last_ = at_;
    const be32 first = first_word(op);
    if (prm::ctrl::fence_of(flags) != 0 && has_pending_fence()) [[unlikely]] {
      flags = prm::ctrl::with_fence(flags, pending_fence());
      fence_ = be64{0};
    }
    const be64 rest{uint64_t{flags} << 32 | imm};
    store_word(at_, first);
    store_word(at_ + 4, qpn_ | be32{ds.value()});
    store_word(at_ + 8, rest | fence_);
    fence_ = be64{0};
  }
  // Writes the control segment of a cursor without a pending fence shortly before commit(), which
  // reads the first eight bytes at once: they are one store here, since two would make that load
  // wait for all stores before them.
  void control_before_commit(prm::Opcode op, Octowords ds, uint8_t flags) noexcept {
    KILIM_ASSERT(ds.value() != 0 && ds.value() <= prm::max_ds && fits(ds) && !has_pending_fence());
    last_ = at_;
    store_word(at_, eight_of(first_word(op), qpn_ | be32{ds.value()}));
    store_word(at_ + 8, be64{uint64_t{flags} << 32});
  }
  // Ends the WQE: stores its wr id and moves behind it.
  void advance(uint32_t wqebbs, uint64_t wr_id) noexcept {
    *wr_id_ = wr_id;
    advance(wqebbs);
  }
  // Ends a WQE whose wr id is never read.
  void advance(uint32_t wqebbs) noexcept {
    wr_id_ += wqebbs;
    at_ += std::size_t{wqebbs} * wqebb_bytes;
    pi_ += wqebbs;
    if (at_ >= end_) [[unlikely]] {
      at_ -= ring_bytes();
      wr_id_ -= sq_.geometry_.wqebb_count;
    }
  }
  // Ends `count` WQEs of one block each that lie one behind the other and whose wr ids are never
  // read.
  void advance_row(uint32_t count) noexcept {
    KILIM_ASSERT(count != 0 && straight(count) && fits(count) && !has_pending_fence());
    last_ = at_ + std::size_t{count - 1} * wqebb_bytes;
    at_ = last_ + wqebb_bytes;
    wr_id_ += count;
    pi_ += count;
    if (at_ == end_) {
      at_ -= ring_bytes();
      wr_id_ -= sq_.geometry_.wqebb_count;
    }
  }
  // Blocks from line() on that can be written in a row.
  [[nodiscard]] uint32_t row() const noexcept {
    const auto to_end = static_cast<uint32_t>(static_cast<std::size_t>(end_ - at_) / wqebb_bytes);
    return to_end < limit_ - pi_ ? to_end : limit_ - pi_;
  }
  // Sets the pending fence, which the next WQE carries, for what this one changes.
  void fence_next(uint8_t mode) noexcept { fence_ = be64{uint64_t{mode} << 32}; }
  // The pending fence behind a UMR; every builder of a UMR ends with it. Always small, whatever the
  // capability umr_fence says about the UMR itself: Linux wr.c, mlx5_ib_post_send (next_fence);
  // libmlx5 qp.c (fm_cache).
  void fence_next_user() noexcept { fence_next(prm::ctrl::small_fence); }
  [[nodiscard]] bool has_pending_fence() const noexcept { return fence_ != be64{0}; }
  [[nodiscard]] uint8_t pending_fence() const noexcept {
    return static_cast<uint8_t>(fence_.host() >> 32);
  }

  // Asks for a completion of the last WQE. Called between an append and commit().
  void signal_last() noexcept {
    KILIM_ASSERT(pi_ != sq_.pi_);
    auto* ctrl = reinterpret_cast<prm::CtrlSeg*>(last_);
    ctrl->fm_ce_se = prm::ctrl::with_mode(ctrl->fm_ce_se, prm::ctrl::cq_update);
  }

  // leave() writes the cursor's state back to the queue so that another cursor can append and
  // commit; reload() continues behind that. The cold part of a burst uses its own cursor, so that
  // this one never has its address taken and stays in registers.
  void leave() noexcept {
    sq_.watch_.ring(sq_.geometry_, sq_.pi_, pi_);
    sq_.at_ = at_;
    sq_.fence_ = fence_;
    sq_.pi_ = pi_;
  }
  void reload() noexcept {
    at_ = sq_.at_;
    fence_ = sq_.fence_;
    pi_ = sq_.pi_;
    wr_id_ = &sq_.wr_ids_[pi_ & sq_.mask_];
  }

  // aside() makes a second cursor at this one's place, for a function that is called with its
  // address; resume() moves this one to where that one stands. Neither touches the queue, and this
  // cursor stays in registers.
  [[nodiscard, gnu::always_inline]] WqeCursor aside() const noexcept {
    return WqeCursor{*this, Aside{}};
  }
  [[gnu::always_inline]] void resume(const WqeCursor& aside) noexcept {
    at_ = aside.at_;
    last_ = aside.last_;
    fence_ = aside.fence_;
    pi_ = aside.pi_;
    wr_id_ = &sq_.wr_ids_[pi_ & sq_.mask_];
  }

  // Hands everything appended since the last commit to the device: doorbell record, then doorbell
  // (PRM: "Doorbell Record"; libmlx5 qp.c, post_send_db()). Nothing was appended: does nothing.
  void commit() noexcept {
    if (pi_ == sq_.pi_) return;
    leave();
    before_doorbell_record();
    record_store(sq_.geometry_.record, be32{pi_ & 0xffff});
    before_doorbell();
    const auto* ctrl = reinterpret_cast<const prm::CtrlSeg*>(last_);  // what the doorbell takes
    mmio_store(sq_.geometry_.doorbell, eight_of(ctrl->opmod_idx_opcode, ctrl->qpn_ds));
    flush_write_combining();
  }

 private:
  struct Aside {};
  WqeCursor(const WqeCursor& c, Aside) noexcept
      : sq_(c.sq_),
        at_(c.at_),
        end_(c.end_),
        last_(c.last_),
        wr_id_(&c.sq_.wr_ids_[c.pi_ & c.sq_.mask_]),
        fence_(c.fence_),
        qpn_(c.qpn_),
        pi_(c.pi_),
        limit_(c.limit_) {}
  // The low 16 bits of pi_ between a byte of zero and the opcode, in the fewest instructions.
  [[nodiscard]] be32 first_word(prm::Opcode op) const noexcept {
    const uint32_t index = be32{static_cast<uint16_t>(pi_)}.raw() >> 8;
    return be32::from_raw(index | uint32_t{static_cast<uint8_t>(op)} << 24);
  }
  [[nodiscard]] std::size_t ring_bytes() const noexcept {
    return std::size_t{sq_.geometry_.wqebb_count} * wqebb_bytes;
  }

  Sq& sq_;
  std::byte* at_;          // the WQE being written
  const std::byte* end_;   // of the ring
  std::byte* last_ = at_;  // the WQE appended last
  uint64_t* wr_id_;        // of the WQE being written
  be64 fence_;             // as it lies in a control segment
  be32 qpn_;               // as it lies in a control segment
  uint32_t pi_;            // number of the WQE being written
  uint32_t limit_;         // pi_ may not pass it
};

}  // namespace kilim::inline v1::queue
