// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Doorbell Record", "UAR Page Format", "CQ Doorbell". Places and bits of the words by which
// software tells the device how far a queue is. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kilim::inline v1::prm {

// Words of a queue pair's doorbell record, each a big-endian 32-bit word whose low 16 bits count
// what was posted: WQEs (receive) and basic blocks (send).
inline constexpr std::size_t record_receive = 0;
inline constexpr std::size_t record_send = 1;
// Words of a completion queue's doorbell record.
inline constexpr std::size_t record_consumer_index = 0;  // CQEs consumed, 24 bits
inline constexpr std::size_t record_arm = 1;  // sequence number << 28 | command | consumer index

// Byte offsets in a UAR page, the device's registers that a process maps.
namespace uar {
inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t cq_doorbell = 0x20;     // 8 bytes: arm word, CQN
inline constexpr std::size_t blueflame = 0x800;      // send doorbells: registers of two halves
inline constexpr std::size_t blueflame_bytes = 256;  // of a half; libmlx5 uses the halves in turn
}  // namespace uar

// The word that asks for an event with the next CQE.
namespace arm {
inline constexpr uint32_t solicited_only = 1u << 24;
inline constexpr uint32_t any = 0;
inline constexpr uint32_t index_mask = 0xffffff;
inline constexpr unsigned sn_shift = 28;  // of the sequence number, which changes with each event
}  // namespace arm

}  // namespace kilim::inline v1::prm
