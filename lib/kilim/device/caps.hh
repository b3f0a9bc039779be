// SPDX-License-Identifier: BSD-3-Clause
// What a device can do and how its port stands, as plain values read once at set-up.
// Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/mr/odp_caps.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/umr_limits.hh"

namespace kilim::device {

struct Caps {
  bool umr = false;  // indirect keys can be made and woven
  bool raw_packet = false;
  bool atomics = false;
  bool inline_receive = true;  // short data may come in its CQE; true where it is not said
  prm::UmrFence umr_fence = prm::UmrFence::strong;  // strong where the device does not say
  uint32_t max_indirection = 0;                     // how deep keys may refer to keys
  uint32_t max_key_entries = 0;                     // of one indirect key
  uint32_t max_inline_klms = 0;                     // in one WQE
  bool umr_pointer_list = false;                    // a list may lie in registered memory
  bool repeated_block = false;                      // strided lists
  bool umr_entity_size = false;                     // a UMR may change the size of fixed entries
  bool umr_atomic = false;                          // a UMR may change the right to atomics
  bool umr_extended_offset = false;                 // translation offsets beyond 16 bits
  bool signatures = false;                          // keys whose blocks are signed
  bool signature_crc32c = false;                    // in this format too
  bool signature_crc64 = false;                     // and XP10's
  bool signature_4048 = false;                      // blocks of this size
  uint32_t max_qp_wr = 0;
  uint32_t max_cqe = 0;
  uint32_t max_sge = 0;
  uint32_t max_message = prm::max_segment_bytes;  // bytes of one message
  mr::OdpCaps odp;                                // on-demand paging
  uint64_t max_device_memory = 0;                 // bytes of its own; 0: it has none
  bool memory_window_type1 = false;               // a virtual function has neither kind
  bool memory_window_type2b = false;

  [[nodiscard]] constexpr prm::UmrLimits umr_limits() const noexcept {
    return {.indirect_keys = umr,
            .pointer_lists = umr_pointer_list,
            .repeated_block = repeated_block,
            .change_entity = umr_entity_size,
            .change_atomic = umr_atomic,
            .extended_offset = umr_extended_offset,
            .fence = umr_fence,
            .max_indirection = max_indirection,
            .max_key_entries = max_key_entries,
            .max_inline_klms = max_inline_klms};
  }
};

using MacAddress = std::array<uint8_t, 6>;

struct PortInfo {
  MacAddress mac{};
  uint32_t mtu_bytes = 0;  // of RDMA messages
  uint32_t speed_mbps = 0;
  bool active = false;
  bool ethernet = false;
};

}  // namespace kilim::device
