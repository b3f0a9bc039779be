// SPDX-License-Identifier: BSD-3-Clause
// The fence planner: which WQEs around a UMR must wait. The first WQE behind a burst of UMRs
// carries one small fence (the cursor remembers it), whoever uses the keys; the UMRs of a burst do
// not wait for each other. A UMR waits for the WQEs before it only where these may still use the
// key that it changes; how, the device says with its capability umr_fence; one such fence holds for
// the burst. FencePlanner: pure values, any thread. FenceTrack: the queue's worker.
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
      : in_flight_(cap == prm::UmrFence::none    ? uint8_t{0}
                   : cap == prm::UmrFence::small ? prm::ctrl::small_fence
                                                 : prm::ctrl::strong_fence) {}
  // Fence bits of the WQE behind a UMR, whoever uses the key.
  [[nodiscard]] constexpr uint8_t after_umr() const noexcept { return in_flight_; }
  // Fence bits of the UMR itself; 0 adds nothing to what the queue has pending.
  [[nodiscard]] constexpr uint8_t before_umr(KeyUse use) const noexcept {
    return use == KeyUse::in_flight ? in_flight_ : uint8_t{0};
  }

 private:
  uint8_t in_flight_;
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

// Follows the UMRs of one send queue, so that a burst has one fence and no more.
class FenceTrack {
 public:
  constexpr explicit FenceTrack(FencePlanner planner) noexcept : planner_(planner) {}

  // To be called before a UMR is appended at `c`: gives the fence bits of its own, and takes away
  // the pending fence where the UMR need not wait. `reads_keys`: pieces of its list lie under keys
  // that are woven on this queue.
  [[nodiscard]] uint8_t before(queue::WqeCursor& c, const KeyPast& key, uint32_t retired,
                               bool reads_keys) noexcept {
    const uint32_t here = c.position();
    if (!c.has_pending_fence()) burst_ = here;  // whoever came behind the last burst has waited
    uint8_t own = 0;
    bool waits = reads_keys;
    if (key.used) own = before_use(here, key.used_at, retired);
    if (distance(key.changed_until, burst_) > 0) [[unlikely]]
      waits |= distance(key.changed_until, retired) > 0;  // the same key again
    if (own != 0 || waits) [[unlikely]]
      burst_ = here;
    else
      c.fence_next(0);
    return own;
  }
  // The fence bits of a UMR at `here` that changes a key which the WQE at `used_at` uses.
  [[nodiscard]] uint8_t before_use(uint32_t here, uint32_t used_at, uint32_t retired) noexcept {
    // What is not retired lies within a ring: further away it was long ago, however far.
    if (here - fenced_ > queue::max_ring_entries || distance(fenced_, retired) < 0)
      has_fenced_ = false;
    const bool waited = has_fenced_ && distance(used_at, fenced_) < 0;
    if (waited || distance(used_at, retired) < 0) return 0;
    fenced_ = here;
    has_fenced_ = true;
    return planner_.before_umr(KeyUse::in_flight);
  }

  // The queue went through RESET.
  void restart() noexcept { has_fenced_ = false; }

 private:
  FencePlanner planner_;
  bool has_fenced_ = false;
  uint32_t fenced_ = 0;  // position of the last UMR that waited for all before it
  uint32_t burst_ = 0;   // where the UMRs begin for which nobody has waited yet
};

}  // namespace kilim::umr
