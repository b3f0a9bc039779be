// SPDX-License-Identifier: BSD-3-Clause
// Decides which WQEs around a UMR carry a fence (doc/decisions/0014). Rule 1: the UMR itself
// carries what the capability umr_fence says (Linux wr.c, mlx5_get_umr_fence() and REG_MR in
// mlx5_ib_post_send()). Rule 2: the WQE behind a UMR carries a small fence, which the cursor keeps
// pending. Rule 3: a UMR on a key that posted WQEs still use carries a strong fence, whatever the
// device says: behind a small one a READ's response may come later and a WRITE may be sent again.
// One strong fence covers the rest of the burst.
// FencePlanner: a value, any thread. FenceTrack: the queue's worker.
#pragma once

#include <cstdint>

#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::umr {

// Whether WQEs may still use a key when it is changed.
enum class MkeyUse : uint8_t {
  quiet,      // no: all work with it has completed
  in_flight,  // yes: WQEs posted earlier on the same queue
};

// Knows the fence bits for UMRs of one device, without looking at a queue.
class FencePlanner {
 public:
  // `cap` is the device's capability umr_fence; unknown: the strongest.
  constexpr explicit FencePlanner(prm::UmrFence cap = prm::UmrFence::strong) noexcept
      : own_(cap == prm::UmrFence::none    ? uint8_t{0}
             : cap == prm::UmrFence::small ? prm::ctrl::small_fence
                                           : prm::ctrl::strong_fence) {}
  // Fence bits of the WQE behind a UMR.
  [[nodiscard]] static constexpr uint8_t after_umr() noexcept { return prm::ctrl::small_fence; }
  // Fence bits of the UMR itself, in addition to the cursor's pending fence.
  [[nodiscard]] constexpr uint8_t before_umr(MkeyUse use) const noexcept {
    return use == MkeyUse::in_flight ? prm::ctrl::strong_fence : own_;
  }

 private:
  uint8_t own_;
};

// Blocks from position `b` to position `a`; negative: `a` is the earlier one. Positions wrap at
// 2^32.
constexpr int32_t distance(uint32_t a, uint32_t b) noexcept {
  return static_cast<int32_t>(a - b);
}

// The WQEs of one send queue that the next change of a key has to wait for.
struct MkeyHistory {
  uint32_t changed_until = 0;  // position behind the last WQE that changes the key
  uint32_t used_at = 0;        // where `used`: position of the last WQE that uses the key
  bool used = false;
};

// Tracks the UMRs of one send queue, so that one fence serves a whole burst.
class FenceTrack {
 public:
  constexpr explicit FenceTrack(FencePlanner planner) noexcept : planner_(planner) {}

  // Called before a UMR is appended at `c`; returns the UMR's fence bits. Clears the cursor's
  // pending fence where neither key nor device needs it: UMRs of different keys do not wait for
  // each other (SPDK accel_mlx5.c puts the fence on the first request behind them only). `retired`:
  // Sq::retired(). `reads_keys`: pieces lie under keys that are bound on this queue.
  [[nodiscard]] uint8_t before(queue::WqeCursor& c, const MkeyHistory& key, uint32_t retired,
                               bool reads_keys) noexcept {
    const uint32_t here = c.position();
    if (!c.has_pending_fence()) burst_ = here;  // a WQE behind the last burst has waited for it
    uint8_t own = planner_.before_umr(MkeyUse::quiet);
    bool waits = reads_keys;
    if (key.used && must_wait(here, key.used_at, retired)) own = strong();
    if (has_nested_) [[unlikely]]
      own = before_nested(own, here, retired);
    if (distance(key.changed_until, burst_) > 0) [[unlikely]]
      waits |= distance(key.changed_until, retired) > 0;  // the same key again
    if (own != 0 || waits) [[unlikely]]
      burst_ = here;
    else
      c.fence_next(0);
    return own;
  }
  // Whether a UMR at `here` has to wait for the WQE at `used_at`, which uses the key: it has not
  // completed, and no UMR since then has carried a strong fence.
  [[nodiscard]] bool must_wait(uint32_t here, uint32_t used_at, uint32_t retired) noexcept {
    // WQEs that have not completed lie within one ring, so a fence further away no longer matters.
    if (here - fenced_ > queue::max_ring_entries || distance(fenced_, retired) < 0)
      has_fenced_ = false;
    const bool waited = has_fenced_ && distance(used_at, fenced_) < 0;
    if (waited || distance(used_at, retired) < 0) return false;
    fenced_ = here;
    has_fenced_ = true;
    return true;
  }
  // The WQE at `used_at` uses a key whose entries lie under further bound keys. Which ones is not
  // recorded, so until it completes every changed key counts as used by it.
  void used_nested(uint32_t used_at) noexcept {
    nested_at_ = used_at;
    has_nested_ = true;
  }

  // Undoes before(): the UMR was refused, so no fence is where before() put it.
  void forget(uint32_t retired) noexcept {
    has_fenced_ = false;
    burst_ = retired;
  }
  // Called when the queue went through RESET.
  void recover() noexcept { has_fenced_ = has_nested_ = false; }

 private:
  [[nodiscard]] uint8_t strong() const noexcept { return planner_.before_umr(MkeyUse::in_flight); }
  // The fence that a nested use requires of every key, as the key may be one of those below.
  [[nodiscard]] uint8_t before_nested(uint8_t own, uint32_t here, uint32_t retired) noexcept {
    if (must_wait(here, nested_at_, retired)) return strong();
    has_nested_ = distance(nested_at_, retired) >= 0;
    return own;
  }

  FencePlanner planner_;
  bool has_fenced_ = false;
  bool has_nested_ = false;
  uint32_t fenced_ = 0;     // position of the last UMR with a strong fence
  uint32_t burst_ = 0;      // position of the first UMR that no later WQE has waited for
  uint32_t nested_at_ = 0;  // position of the last WQE that uses a key over other keys
};

}  // namespace kilim::inline v1::umr
