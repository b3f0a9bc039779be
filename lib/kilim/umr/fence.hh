// SPDX-License-Identifier: BSD-3-Clause
// The fence planner: which WQEs around a UMR must wait. What a UMR carries itself the device says
// with its capability umr_fence, as in Linux wr.c (mlx5_get_umr_fence, REG_MR in
// mlx5_ib_post_send). The WQE behind a UMR always waits for it, by a small fence that the cursor
// remembers. A UMR on a key that posted WQEs still use waits for all of them by a strong fence,
// whatever the device says: a small one lets a READ's answer come later, and a WRITE go out again.
// One such fence holds for the burst. FencePlanner: pure values, any thread. FenceTrack: the
// queue's worker.
#pragma once

#include <cstdint>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/queue/wqe_cursor.hh"

namespace kilim::umr {

// Who may still use a key when it is changed.
enum class KeyUse : uint8_t {
  quiet,      // nobody: all work with it has completed
  in_flight,  // WQEs posted before on the same queue
};

class FencePlanner {
 public:
  // Without the capability: the strongest.
  constexpr explicit FencePlanner(prm::UmrFence cap = prm::UmrFence::strong) noexcept
      : own_(cap == prm::UmrFence::none    ? uint8_t{0}
             : cap == prm::UmrFence::small ? prm::ctrl::small_fence
                                           : prm::ctrl::strong_fence) {}
  // Fence bits of the WQE behind a UMR, whoever uses the key.
  [[nodiscard]] static constexpr uint8_t after_umr() noexcept { return prm::ctrl::small_fence; }
  // Fence bits of the UMR itself, beside what the queue has pending.
  [[nodiscard]] constexpr uint8_t before_umr(KeyUse use) const noexcept {
    return use == KeyUse::in_flight ? prm::ctrl::strong_fence : own_;
  }

 private:
  uint8_t own_;
};

// How far position `a` lies behind `b`; positions run freely and wrap.
constexpr int32_t distance(uint32_t a, uint32_t b) noexcept {
  return static_cast<int32_t>(a - b);
}

// What a key's next change has to wait for.
struct KeyPast {
  uint32_t changed_until = 0;  // position behind the last WQE that changes it
  uint32_t used_at = 0;        // position of the last WQE of this queue that uses it
  bool used = false;
};

// Follows the UMRs of one send queue, so that a burst waits once for the WQEs before it.
class FenceTrack {
 public:
  constexpr explicit FenceTrack(FencePlanner planner) noexcept : planner_(planner) {}

  // To be called before a UMR is appended at `c`: gives the fence bits of its own, and takes away
  // the pending fence where neither UMR nor device need it: UMRs of different keys do not wait for
  // each other (SPDK accel_mlx5.c: only the first request behind them has the fence).
  // `reads_keys`: pieces of its list lie under keys that are woven on this queue.
  [[nodiscard]] uint8_t before(queue::WqeCursor& c, const KeyPast& key, uint32_t retired,
                               bool reads_keys) noexcept {
    const uint32_t here = c.position();
    if (!c.has_pending_fence()) burst_ = here;  // whoever came behind the last burst has waited
    uint8_t own = planner_.before_umr(KeyUse::quiet);
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
  // Whether a UMR at `here` that changes a key, which the WQE at `used_at` uses, has to wait for
  // that one: it has not completed, and no UMR since then has waited for it.
  [[nodiscard]] bool must_wait(uint32_t here, uint32_t used_at, uint32_t retired) noexcept {
    // What is not retired lies within a ring: further away it was long ago, however far.
    if (here - fenced_ > queue::max_ring_entries || distance(fenced_, retired) < 0)
      has_fenced_ = false;
    const bool waited = has_fenced_ && distance(used_at, fenced_) < 0;
    if (waited || distance(used_at, retired) < 0) return false;
    fenced_ = here;
    has_fenced_ = true;
    return true;
  }
  // The WQE at `used_at` uses a key that lies over other woven keys, nobody remembers which.
  void used_nested(uint32_t used_at) noexcept {
    nested_at_ = used_at;
    has_nested_ = true;
  }

  // The UMR that before() was called for has not been appended: nothing has waited there, nor
  // perhaps for anything that is not retired.
  void forget(uint32_t retired) noexcept {
    has_fenced_ = false;
    burst_ = retired;
  }
  // The queue went through RESET.
  void restart() noexcept { has_fenced_ = has_nested_ = false; }

 private:
  [[nodiscard]] uint8_t strong() const noexcept { return planner_.before_umr(KeyUse::in_flight); }
  // Of any key, as it may be one of those below.
  [[nodiscard]] uint8_t before_nested(uint8_t own, uint32_t here, uint32_t retired) noexcept {
    if (must_wait(here, nested_at_, retired)) return strong();
    has_nested_ = distance(nested_at_, retired) >= 0;
    return own;
  }

  FencePlanner planner_;
  bool has_fenced_ = false;
  bool has_nested_ = false;
  uint32_t fenced_ = 0;     // position of the last UMR that waited for all before it
  uint32_t burst_ = 0;      // where the UMRs begin for which nobody has waited yet
  uint32_t nested_at_ = 0;  // position of the last WQE that uses a key over keys
};

}  // namespace kilim::umr
