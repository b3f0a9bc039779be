// SPDX-License-Identifier: BSD-3-Clause
// What every form of UMR sets in the mkey besides the list: tag, access, start address, and the
// checks of the mkey's state. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// mr::Access bits as the mkey context has them (PRM: "Memory Key Context Segment"). Local reading
// was granted when the key was made.
constexpr uint8_t mkey_access(uint32_t access) noexcept {
  return static_cast<uint8_t>(
      ((access & mr::Access::local_write) != 0 ? prm::mkey::local_write : 0) |
      ((access & mr::Access::remote_write) != 0 ? prm::mkey::remote_write : 0) |
      ((access & mr::Access::remote_read) != 0 ? prm::mkey::remote_read : 0) |
      ((access & mr::Access::remote_atomic) != 0 ? prm::mkey::atomic : 0));
}

// How the key is to be after the UMR.
struct ListRequest {
  Lkey key;                  // with its present tag
  uint32_t max_entries = 0;  // of the key
  uint8_t new_tag = 0;       // low byte of the key afterwards; tag_of(key) keeps it
  uint8_t access = 0;        // mkey_access()
  uint8_t checks = 0;        // prm::umr::check_*: the WQE fails if the key's state differs
  bool has_start = false;    // the first byte has address `start`, else 0
  bool unsign = false;       // blocks are no longer signed
  bool keep_atomic = false;  // the device cannot change the atomic right: UmrLimits::change_atomic
  uint8_t log_entity = 0;    // of a KSM key: its present entry size, log2 of bytes
  uint64_t start = 0;

  // The handle after the UMR.
  [[nodiscard]] constexpr Lkey new_key() const noexcept {
    return Lkey{(key.value() & ~0xffu) | new_tag};
  }
  // The mkey_mask of the UMR control segment: which fields change.
  [[nodiscard]] constexpr uint64_t mask() const noexcept {
    constexpr uint64_t always =
        prm::umr::mask_free | prm::umr::mask_mkey | prm::umr::mask_access | prm::umr::mask_len;
    return (always | (has_start ? prm::umr::mask_start_addr : 0) |
            (unsign ? prm::umr::mask_bsf_enable : 0)) &
           ~(keep_atomic ? prm::umr::mask_atomic : 0);
  }
};

// What a UMR has besides the key: the caller's number and the flags of its control segment.
struct UmrWr {
  uint64_t id = 0;
  uint8_t flags = queue::WrFlags::none;  // with the fence bits of a FencePlanner
};

}  // namespace kilim::inline v1::umr
