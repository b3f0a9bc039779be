// SPDX-License-Identifier: BSD-3-Clause
// Capabilities of a device and the state of its ports, read once at set-up (ibv_query_device_ex(3),
// ibv_query_port(3), QUERY_HCA_CAP). Pure values, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/mr/odp_caps.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/umr_limits.hh"

namespace kilim::inline v1::device {

// How a device spreads frames over receive work queues (ibv_device_attr_ex::rss_caps).
struct SpreadCaps {
  uint32_t queues = 0;         // receive work queues; 0: it has none
  uint32_t tables = 0;         // indirection tables
  uint32_t longest_table = 0;  // entries of one
  bool toeplitz = false;
  bool strip_vlan = false;
  uint32_t min_stride_log_bytes = 0, max_stride_log_bytes = 0;  // 0: no receives of many packets
  uint32_t min_strides_log = 0, max_strides_log = 0;

  [[nodiscard]] constexpr bool usable() const noexcept {
    return queues != 0 && tables != 0 && longest_table != 0 && toeplitz;
  }
};

// How a device joins the segments of a TCP stream into large receives (LRO; QUERY_HCA_CAP's
// Ethernet group). Other segments than it can join are received as they are.
struct LroCaps {
  bool supported = false;
  bool from_l4 = false;  // its limit counts from TCP's header on; else from the frame's start
  uint32_t min_mss = 0;  // bytes of the shortest segment that it joins
  std::array<uint32_t, 4> periods_us{};  // that it can wait for a further segment, rising

  static constexpr uint32_t unit_bytes = 256,
                            max_units = 255;  // of lro_max_msg_sz (PRM "TIR Context")
  // Headers that may stand before TCP's: Ethernet, a VLAN tag, IPv6.
  static constexpr uint32_t before_l4 = 14 + 4 + 40;
  // The device's limit for frames of up to `bytes` bytes; 0: too few.
  [[nodiscard]] constexpr uint32_t units(uint32_t bytes) const noexcept {
    const uint32_t counted = !from_l4 ? bytes : bytes > before_l4 ? bytes - before_l4 : 0;
    return std::min(counted / unit_bytes, max_units);
  }
  // The longest period that is no longer than `us`, or the shortest (DPDK's devarg
  // lro_timeout_usec).
  [[nodiscard]] constexpr uint32_t period_us(uint32_t us) const noexcept {
    uint32_t best = periods_us[0];
    for (const uint32_t p : periods_us)
      if (p <= us && p > best) best = p;
    return best;
  }
};

// What a device does to packets that raw packet queues send (ibv_device_attr_ex, QUERY_HCA_CAP's
// Ethernet group).
struct TxCaps {
  bool checksums = false;       // of IP, TCP, UDP
  bool tunnels = false;         // those of the headers in VXLAN and GRE too, and their TSO
  bool vlan_insertion = false;  // by the WQE; elsewhere a tag goes with an inlined header
  bool pacing = false;          // rates of queues
  uint32_t max_tso = 0;         // bytes of payload of one packet that is segmented; 0: none
  uint32_t min_inline = 0;      // bytes of a frame's start that a WQE must have
};

struct Caps {
  bool umr = false;            // UMR is supported: indirect mkeys can be made and bound
  bool raw_packet = false;     // queue pairs of raw Ethernet frames
  bool multi_packet = false;   // enhanced multi-packet send WQEs on those
  bool atomics = false;        // compare and swap, fetch and add
  bool inline_receive = true;  // short data may arrive in the CQE; true also if not reported
  prm::UmrFence umr_fence = prm::UmrFence::strong;  // strong also if not reported
  uint32_t max_indirection = 0;                     // longest chain of indirect keys
  uint32_t max_key_entries = 0;                     // entries of one indirect key
  uint32_t max_inline_klms = 0;                     // entries of an inline list in one WQE
  uint32_t max_send_wqe = 1024;                     // bytes of one; 1024 also if not reported
  bool umr_pointer_list = false;                    // lists by pointer
  bool repeated_block = false;                      // strided lists
  bool umr_entity_size = false;                     // a UMR may change the size of fixed entries
  bool umr_atomic = false;                          // a UMR may change the right to atomics
  bool umr_extended_offset = false;                 // translation offsets beyond 16 bits
  bool encryption = false;                          // mkeys whose bytes are encrypted
  bool big_endian_tweak = false;                    // umr::CryptoRule::big_endian_tweak
  bool signatures = false;                          // mkeys whose blocks carry signatures
  bool signature_crc32c = false;                    // CRC-32C signatures
  bool signature_crc64 = false;                     // CRC-64 XP10 signatures
  bool signature_4048 = false;                      // blocks of 4048 bytes
  uint32_t max_qp_wr = 0;                           // work requests of one queue
  uint32_t max_cqe = 0;                             // entries of one completion queue
  bool compressed_hash = false;                     // completion queues may be compressed so
  bool compressed_checksum = false;                 // (device::Compression)
  uint32_t max_compressed = 0;                      // completions of one block of these
  bool real_time = false;                           // completions may carry the time of day
  uint32_t max_sge = 0;                             // pieces of one request
  uint32_t max_message = prm::max_segment_bytes;    // bytes of one message
  mr::OdpCaps odp;
  uint64_t max_device_memory = 0;    // bytes of device memory; 0: none
  bool memory_window_type1 = false;  // virtual functions have neither type
  bool memory_window_type2b = false;
  SpreadCaps spread;
  LroCaps lro;
  TxCaps tx;

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

using MacAddress = flow::MacAddress;

struct PortInfo {
  MacAddress mac{};
  uint32_t mtu_bytes = 0;  // of RDMA messages
  uint32_t frame_mtu = 0;  // of Ethernet frames, without their header; 0: not known
  uint32_t speed_mbps = 0;
  bool active = false;
  bool ethernet = false;
};

}  // namespace kilim::inline v1::device
