// SPDX-License-Identifier: BSD-3-Clause
// What every form of UMR says about its key, whatever the layout: tag, access, start address,
// checks of the key's state. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/base/ident.hh"
#include "kilim/mr/region.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/queue/wqe_cursor.hh"

namespace kilim::umr {

// A key's access bits as the mkey context has them; local reading was granted when it was made.
constexpr uint8_t mkey_access(uint32_t access) noexcept {
  return static_cast<uint8_t>(
      ((access & mr::Access::local_write) != 0 ? prm::mkey::local_write : 0) |
      ((access & mr::Access::remote_write) != 0 ? prm::mkey::remote_write : 0) |
      ((access & mr::Access::remote_read) != 0 ? prm::mkey::remote_read : 0) |
      ((access & mr::Access::remote_atomic) != 0 ? prm::mkey::atomic : 0));
}

// What a key shall be. Without a start address its first byte is at 0.
struct ListRequest {
  Lkey key;                  // as it is now
  uint32_t max_entries = 0;  // of the key
  uint8_t new_tag = 0;       // the key's low byte from now on; tag_of(key) leaves it
  uint8_t access = 0;        // mkey_access()
  uint8_t checks = 0;        // prm::umr::check_*: the WQE fails where the key's state is another
  bool has_start = false;
  bool unsign = false;       // the key's blocks are no longer signed
  bool keep_atomic = false;  // the right to atomics stays (UmrLimits::change_atomic is false)
  uint8_t log_entity = 0;    // of a key with entries of fixed size, as it is now
  uint64_t start = 0;

  // The key after the UMR.
  [[nodiscard]] constexpr Lkey new_key() const noexcept {
    return Lkey{(key.value() & ~0xffu) | new_tag};
  }
  // The fields that change, as the UMR control segment names them.
  [[nodiscard]] constexpr uint64_t mask() const noexcept {
    constexpr uint64_t always =
        prm::umr::mask_free | prm::umr::mask_mkey | prm::umr::mask_access | prm::umr::mask_len;
    return (always | (has_start ? prm::umr::mask_start_addr : 0) |
            (unsign ? prm::umr::mask_bsf_enable : 0)) &
           ~(keep_atomic ? prm::umr::mask_atomic : 0);
  }
};

struct UmrWr {
  uint64_t id = 0;
  uint8_t flags = queue::WrFlags::none;  // a FencePlanner's bits included
};

}  // namespace kilim::umr
