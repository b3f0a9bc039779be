// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RQ Context", "RQT Context", "TIR Context". What is asked of the adapter for receive queues
// of their own, tables of them, and the hash that picks one. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca {

// Numbered as in verbs (enum ib_wq_state).
enum class RqState : uint8_t { reset, ready, err };

struct RqSpec {
  Pdn pd;
  Cqn cq;
  Va buf;
  Va record;               // doorbell record: receive
  uint32_t wqes = 0;       // a power of two
  uint32_t wqe_shift = 0;  // log2 of a receive WQE's bytes
  uint32_t uidx = 0;
  bool signature = false;  // a 16-byte signature segment opens each receive WQE
  bool strip_vlan = false;
  bool scatter_fcs = false;
  // PRM "Striding RQ": log2 of a stride's bytes and of the strides of a WQE; 0: a WQE takes one
  // frame.
  uint8_t log_stride_bytes = 0;
  uint8_t log_strides = 0;
  bool two_byte_shift = false;
  void* owner = nullptr;  // handed back with every event
};

// Bounds of a striding queue, as mlx5_ib tells them (MLX5_MIN_SINGLE_STRIDE_LOG_NUM_BYTES ...).
namespace stride {
inline constexpr uint32_t least_log_bytes = 6, most_log_bytes = 13;
inline constexpr uint32_t least_log_count = 3, most_log_count = 16;
}  // namespace stride

// PRM: "MODIFY_RQ".
struct RqChange {
  RqState from = RqState::reset;  // where the client takes the queue to be
  RqState to = RqState::reset;
  bool sets_strip_vlan = false;
  bool strip_vlan = false;
};

// PRM: "RX_HASH_FIELD_SELECT", its bits.
namespace hash_field {
inline constexpr uint8_t src_ip = 1, dst_ip = 2, src_port = 4, dst_port = 8;
}  // namespace hash_field

inline constexpr std::size_t toeplitz_key_bytes = 40;

// PRM: "TIR Context", lro_enable_mask (DPDK mlx5_prm.h, MLX5_TIRC_LRO_ENABLE_MASK_*).
namespace lro {
inline constexpr uint8_t ipv4 = 1, ipv6 = 2;
inline constexpr uint32_t periods_us[] = {32, 64, 256, 1024};  // lro_timer_supported_periods
inline constexpr uint32_t unit_bytes = 256;                    // of lro_max_msg_sz
}  // namespace lro

struct TirSpec {
  uint32_t rqt = 0;         // the table
  uint8_t ip_version = 0;   // 4, 6; 0: addresses are not hashed
  uint8_t l4_protocol = 0;  // 6 TCP, 17 UDP; 0: ports are not hashed
  uint8_t fields = 0;       // of hash_field; 0: everything goes to the first place
  std::array<uint8_t, toeplitz_key_bytes> key{};
  bool tunnels = false;  // completions tell of the headers in a tunnel
  bool inner = false;    // those are hashed
  // Large receives (LRO): of these IP versions, lro::ipv4 | lro::ipv6; 0: none.
  uint8_t lro_versions = 0;
  uint32_t lro_bytes = 0;       // of one, as the profile counts them
  uint32_t lro_timeout_us = 0;  // it waits no longer
  uint16_t lro_min_mss = 1;     // bytes of a segment; shorter ones are not joined
  // Frames of the same client come back.
  bool own_unicast = false;
  bool own_multicast = false;
};

}  // namespace kilim::vhca
