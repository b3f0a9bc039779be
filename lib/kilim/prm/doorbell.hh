// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Doorbell Record", "UAR Page Format", "CQ Doorbell".
// Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kilim::prm {

// Words of a queue pair's doorbell record: 16-bit counters of basic blocks (send) and WQEs
// (receive).
inline constexpr std::size_t record_receive = 0;
inline constexpr std::size_t record_send = 1;
// Words of a completion queue's doorbell record.
inline constexpr std::size_t record_consumer_index = 0;  // 24 bits
inline constexpr std::size_t record_arm = 1;             // sn << 28 | command | consumer index

namespace uar {
inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t cq_doorbell = 0x20;     // 8 bytes: arm word, CQN
inline constexpr std::size_t blueflame = 0x800;      // two registers of two halves, used in turn
inline constexpr std::size_t blueflame_bytes = 256;  // of a half
}  // namespace uar

namespace arm {
inline constexpr uint32_t solicited_only = 1u << 24;
inline constexpr uint32_t any = 0;
inline constexpr uint32_t index_mask = 0xffffff;
inline constexpr unsigned sn_shift = 28;
}  // namespace arm

}  // namespace kilim::prm
