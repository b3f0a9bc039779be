// SPDX-License-Identifier: BSD-3-Clause
// SentRing: the handles of packets under way in a send queue, in the order sent, grouped by bursts
// of one completion each. Over the caller's memory; never allocates. Owner: the send queue's
// worker.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/pool/handle.hh"

namespace kilim::inline v1::burst {

class SentRing {
 public:
  // How many handles and packets were sent up to the end of a burst, and Sq::posted() there; they
  // wrap at 2^32.
  struct Burst {
    uint32_t handles = 0;
    uint32_t packets = 0;
    uint32_t posted = 0;
  };

  SentRing() = default;
  // Both sizes are powers of two; there are as many bursts as the completion queue has entries.
  SentRing(std::span<pool::Handle> handles, std::span<Burst> bursts) noexcept
      : handles_(handles.data()),
        bursts_(bursts.data()),
        mask_(static_cast<uint32_t>(handles.size() - 1)),
        burst_mask_(static_cast<uint32_t>(bursts.size() - 1)) {
    KILIM_ASSERT((handles.size() & mask_) == 0 && (bursts.size() & burst_mask_) == 0);
  }

  // Handles that can be pushed into a new burst.
  [[nodiscard]] uint32_t room() const noexcept {
    if (burst_head_ - burst_tail_ > burst_mask_) return 0;
    return mask_ + 1 - (head_ - tail_);
  }
  // Handles in the ring, those of the open burst included.
  [[nodiscard]] uint32_t held() const noexcept { return head_ - tail_; }

  // Adds a handle to the open burst.
  void push(pool::Handle h) noexcept { handles_[head_++ & mask_] = h; }
  // Room for handles in a row, at most room(); what is written there is added by pushed(). The
  // caller knows that there is room for a burst: each has a block of the send queue at least.
  [[nodiscard]] std::span<pool::Handle> row() noexcept {
    KILIM_ASSERT(burst_head_ - burst_tail_ <= burst_mask_);
    const uint32_t at = head_ & mask_;
    const uint32_t free = tail_ - head_ + mask_ + 1, to_end = mask_ + 1 - at;
    return {handles_ + at, free < to_end ? free : to_end};
  }
  void pushed(uint32_t handles) noexcept { head_ += handles; }
  // Closes the open burst, whose last block in the send queue is the one before `posted`.
  void end_burst(uint32_t packets, uint32_t posted) noexcept {
    KILIM_ASSERT(burst_head_ - burst_tail_ <= burst_mask_);
    sent_packets_ += packets;
    bursts_[burst_head_++ & burst_mask_] = {head_, sent_packets_, posted};
  }

  // How many bursts, the oldest first, ended at `position` of the send queue or before it.
  [[nodiscard]] uint32_t ended_at(uint32_t position) const noexcept {
    uint32_t n = 0;
    while (burst_tail_ + n != burst_head_ &&
           static_cast<int32_t>(bursts_[(burst_tail_ + n) & burst_mask_].posted - position) <= 0)
      n++;
    return n;
  }

  // Handles that leave the ring, in the order sent: `first`, then `second`.
  struct Done {
    std::span<const pool::Handle> first;
    std::span<const pool::Handle> second;  // after the ring's end
    uint32_t packets = 0;
    uint32_t posted = 0;  // as end_burst() was told last
  };
  // Removes the oldest `count` bursts, at least one, and returns their handles, valid until the
  // next push().
  [[nodiscard]] Done pop_bursts(uint32_t count) noexcept {
    KILIM_ASSERT(count != 0 && burst_head_ - burst_tail_ >= count);
    burst_tail_ += count;
    return pop_to(bursts_[(burst_tail_ - 1) & burst_mask_]);
  }
  // Removes everything, the open burst included, when the queue is destroyed or reset.
  [[nodiscard]] Done pop_all() noexcept {
    burst_tail_ = burst_head_;
    return pop_to({head_, sent_packets_, 0});
  }

 private:
  Done pop_to(Burst end) noexcept {
    const uint32_t handles = end.handles - tail_, packets = end.packets - done_packets_;
    const uint32_t at = tail_ & mask_;
    const uint32_t to_end = mask_ + 1 - at;
    const uint32_t first = handles < to_end ? handles : to_end;
    tail_ = end.handles;
    done_packets_ = end.packets;
    return {{handles_ + at, first}, {handles_, handles - first}, packets, end.posted};
  }

  pool::Handle* handles_ = nullptr;
  Burst* bursts_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t burst_mask_ = 0;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t burst_head_ = 0;
  uint32_t burst_tail_ = 0;
  uint32_t sent_packets_ = 0;
  uint32_t done_packets_ = 0;
};

}  // namespace kilim::inline v1::burst
