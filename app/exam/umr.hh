// SPDX-License-Identifier: BSD-3-Clause
// Indirect keys and the UMR WQEs that change them, field by field, as questions want them: wrong
// ones too. Formats are kilim/prm's. Lives as long as the child process.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/prm/umr_seg.hh"
#include "rig.hh"

namespace kilim::exam {

inline constexpr uint64_t usual_mask = prm::umr::mask_len | prm::umr::mask_start_addr |
                                       prm::umr::mask_access | prm::umr::mask_free |
                                       prm::umr::mask_mkey | prm::umr::mask_qpn;

struct UmrWish {
  uint32_t key = 0;  // lkey of the key that changes, its tag included
  uint64_t mask = usual_mask;
  uint64_t start = 0, len = 0;
  uint8_t flags = prm::umr::inline_list;
  uint8_t access = 0x7c;  // local and remote reads, writes, atomics
  bool free = false;
  uint8_t new_tag = 0;
  uint32_t qpn = prm::mkey::any_qpn;
  uint8_t log_entity = 0;
  int64_t patch_at = -1;  // octowords from the list's start; -1: the whole list
  std::vector<prm::Klm> list;
};

// A key of at most `entries` entries; ends the child where the device makes none.
mlx5dv_mkey* make_key(const Device& device, uint16_t entries);
Wqe umr(const UmrWish& wish);
// The list's length is the key's, which begins at address 0. Changes what binding changes, as far
// as the device lets UMRs.
UmrWish covering(const Device& device, const mlx5dv_mkey* key, std::vector<prm::Klm> list);
prm::Klm klm(const void* at, uint32_t bytes, uint32_t lkey);

}  // namespace kilim::exam
