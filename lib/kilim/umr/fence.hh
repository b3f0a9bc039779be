// SPDX-License-Identifier: BSD-3-Clause
// The fence planner: which WQEs around a UMR must wait. The WQE behind a UMR always carries a small
// fence (the cursor remembers it). The UMR itself waits for the WQEs before it only where these may
// still use the key that it changes; how, the device says with its capability umr_fence.
// Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/hca_cap.hh"

namespace kilim::umr {

// Who may still use a key when it is changed.
enum class KeyUse : uint8_t {
  quiet,      // nobody: all work with it has completed
  in_flight,  // WQEs posted before on the same queue
};

// Carried by the WQE that follows a UMR or an invalidation.
inline constexpr uint8_t fence_after_umr = prm::ctrl::small_fence;

class FencePlanner {
 public:
  // Without the capability: the strongest.
  constexpr explicit FencePlanner(prm::UmrFence cap = prm::UmrFence::strong) noexcept
      : in_flight_(cap == prm::UmrFence::none    ? uint8_t{0}
                   : cap == prm::UmrFence::small ? prm::ctrl::small_fence
                                                 : prm::ctrl::strong_fence) {}
  // Fence bits of the UMR itself; 0 adds nothing to what the queue has pending.
  [[nodiscard]] constexpr uint8_t before_umr(KeyUse use) const noexcept {
    return use == KeyUse::in_flight ? in_flight_ : uint8_t{0};
  }

 private:
  uint8_t in_flight_;
};

}  // namespace kilim::umr
