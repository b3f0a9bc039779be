// SPDX-License-Identifier: BSD-3-Clause
// A RoCEv2 packet as a value: out of an Ethernet frame, and into one. Frames
// are untrusted: whatever is not a whole packet with a right ICRC is none. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/core/spec.hh"
#include "vhca/transport/roce.hh"

namespace kilim::vhca::transport {

struct RocePacket {
  roce::Service service = roce::Service::rc;
  roce::Op op = roce::Op::acknowledge;
  uint16_t flags = 0;  // roce::flag, of the opcode
  bool solicited = false;
  bool ack_request = false;
  uint32_t dest_qpn = 0;
  uint32_t psn = 0;
  uint64_t va = 0;  // RETH, AtomicETH
  uint32_t rkey = 0;
  uint32_t length = 0;
  uint64_t swap_add = 0, compare = 0;
  uint8_t ack_kind = 0, ack_value = 0;  // AETH
  uint32_t msn = 0;
  uint64_t original = 0;             // AtomicAckETH
  uint32_t imm_raw = 0;              // ImmDt as it lies on the wire, IETH in the same order
  uint32_t qkey = 0, src_qpn = 0;    // DETH
  uint32_t srqn = 0;                 // XRCETH
  uint64_t dc_key = 0, session = 0;  // DCETH; its source is in src_qpn
  uint32_t base_psn = 0;
  Mac smac{};                     // of the Ethernet header
  Gid sgid{}, dgid{};             // of the IP header; addresses of version 4 are mapped
  std::span<const std::byte> ip;  // that header, whole
  std::span<const std::byte> payload;
};

// Whether it has one of these, of roce::flag.
constexpr bool has(const RocePacket& p, uint16_t flags) noexcept {
  return (p.flags & flags) != 0;
}

enum class RoceParse : uint8_t {
  ok,
  not_roce,  // some other frame
  bad,       // RoCE, but cut off, of an unknown opcode or with a wrong ICRC
};
RoceParse parse_roce(std::span<const std::byte> frame, RocePacket&) noexcept;

// Where a frame goes and comes from.
struct RocePath {
  Mac src{}, dst{};
  Gid sgid{}, dgid{};
  uint8_t traffic_class = 0, hop_limit = 64;
  uint32_t flow_label = 0;
  uint16_t src_port = 0xc000;
};

// The longest frame without its payload: all headers, padding and ICRC.
inline constexpr std::size_t roce_overhead =
    14 + 40 + 8 + sizeof(roce::Bth) + sizeof(roce::DcEth) + sizeof(roce::AtomicEth) + 4 + 3 + 4;
// What stands around a whole MTU of payload at most, behind the Ethernet header.
inline constexpr std::size_t roce_data_overhead =
    40 + 8 + sizeof(roce::Bth) + sizeof(roce::DcEth) + sizeof(roce::Reth) + 4 + 4;

// Where the payload of such a packet begins in its frame.
std::size_t roce_payload_at(uint16_t flags) noexcept;
// Writes all but the payload, which lies in place already and has `payload_bytes`; a GID that maps
// an IPv4 address makes an IPv4 header, which is shorter, so the payload moves. The frame's length.
// `out` has room for payload and roce_overhead.
std::size_t build_roce(const RocePath&, const RocePacket&, std::size_t payload_bytes,
                       std::span<std::byte> out) noexcept;

// The address in a link-local GID of the modified EUI-64 kind; false: it holds none.
bool mac_of_gid(const Gid&, Mac&) noexcept;

}  // namespace kilim::vhca::transport
