// SPDX-License-Identifier: BSD-3-Clause
// Headers of RoCEv2 packets behind UDP and their opcodes, as the InfiniBand Architecture
// Specification prints them ("Packet Formats", annex A17). Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::vhca::transport::roce {

inline constexpr uint16_t udp_port = 4791;
inline constexpr uint32_t psn_mask = 0xffffff;

// Base transport header.
struct Bth {
  be32 opcode_flags_pkey;
  be32 fecn_dest_qpn;
  be32 ack_psn;
};
static_assert(sizeof(Bth) == 12);

namespace bth {
using opcode = Field<&Bth::opcode_flags_pkey, 31, 24>;
using solicited = Field<&Bth::opcode_flags_pkey, 23, 23>;
using migrated = Field<&Bth::opcode_flags_pkey, 22, 22>;
using pad = Field<&Bth::opcode_flags_pkey, 21, 20>;
using version = Field<&Bth::opcode_flags_pkey, 19, 16>;
using pkey = Field<&Bth::opcode_flags_pkey, 15, 0>;
using dest_qpn = Field<&Bth::fecn_dest_qpn, 23, 0>;
using ack_request = Field<&Bth::ack_psn, 31, 31>;
using psn = Field<&Bth::ack_psn, 23, 0>;
}  // namespace bth

// RDMA extended transport header. Two words for the address: it need not lie aligned.
struct Reth {
  be32 va_high, va_low;
  be32 rkey;
  be32 length;
};
static_assert(sizeof(Reth) == 16);

// Of atomics.
struct AtomicEth {
  be32 va_high, va_low;
  be32 rkey;
  be32 swap_high, swap_low;
  be32 compare_high, compare_low;
};
static_assert(sizeof(AtomicEth) == 28);

// Acknowledge.
struct Aeth {
  be32 syndrome_msn;
};
static_assert(sizeof(Aeth) == 4);

namespace aeth {
using kind = Field<&Aeth::syndrome_msn, 30, 29>;
using value = Field<&Aeth::syndrome_msn, 28, 24>;
using msn = Field<&Aeth::syndrome_msn, 23, 0>;
inline constexpr uint8_t ack = 0, rnr = 1, nak = 3;
inline constexpr uint8_t no_credit_count = 31;  // the responder counts no receive credits
enum class Nak : uint8_t { sequence = 0, invalid_request = 1, remote_access = 2, remote_op = 3 };
}  // namespace aeth

struct AtomicAckEth {
  be32 original_high, original_low;
};
static_assert(sizeof(AtomicAckEth) == 8);

struct ImmDt {  // as it lies in a WQE and a CQE: never turned
  be32 data;
};
struct Ieth {
  be32 rkey;
};

// Datagram.
struct Deth {
  be32 qkey;
  be32 src_qpn_word;
};
static_assert(sizeof(Deth) == 8);

namespace deth {
using src_qpn = Field<&Deth::src_qpn_word, 23, 0>;
}

// XRC: of every request, right behind the base header. The shared queue that it is for.
struct XrcEth {
  be32 srqn_word;
};
static_assert(sizeof(XrcEth) == 4);

namespace xrceth {
using srqn = Field<&XrcEth::srqn_word, 23, 0>;
}

// Dynamic connections, of every request, right behind the base header: who asks, on which of his
// connections, and with which key. Everything that a target needs to begin with is in each packet,
// so none waits for a handshake. No specification prints a format; this one is the adapter's own.
struct DcEth {
  be32 key_high, key_low;
  be32 session_src_qpn;   // 31:24 bits 47:40 of the connection's number, 23:0 initiator
  be32 session_base_psn;  // 31:24 bits 39:32, 23:0 the oldest sequence number not acknowledged
  be32 session_low;
};
static_assert(sizeof(DcEth) == 20);

namespace dceth {
using session_47_40 = Field<&DcEth::session_src_qpn, 31, 24>;
using src_qpn = Field<&DcEth::session_src_qpn, 23, 0>;
using session_39_32 = Field<&DcEth::session_base_psn, 31, 24>;
using base_psn = Field<&DcEth::session_base_psn, 23, 0>;
inline constexpr uint64_t session_mask = (uint64_t{1} << 48) - 1;
}  // namespace dceth

// dc: one of the two that the specification leaves to manufacturers.
enum class Service : uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, xrc = 5, dc = 6 };

// The low five bits of an opcode; the high three are the service.
enum class Op : uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_imm = 0x03,
  send_only = 0x04,
  send_only_imm = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_imm = 0x09,
  write_only = 0x0a,
  write_only_imm = 0x0b,
  read_request = 0x0c,
  read_first = 0x0d,
  read_middle = 0x0e,
  read_last = 0x0f,
  read_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_inval = 0x16,
  send_only_inval = 0x17,
};

namespace flag {
inline constexpr uint16_t reth = 1, aeth = 2, atomic = 4, atomic_ack = 8, imm = 0x10, ieth = 0x20;
inline constexpr uint16_t first = 0x40, last = 0x80;  // of its message; both: the only one
inline constexpr uint16_t payload = 0x100;            // may carry bytes
inline constexpr uint16_t response = 0x200;           // from responder to requester
inline constexpr uint16_t send = 0x400, write = 0x800;
inline constexpr uint16_t deth = 0x1000, xrceth = 0x2000, dceth = 0x4000;  // by the service
}  // namespace flag

struct OpRow {
  Op op;
  const char* name;
  uint16_t flags;
};

// clang-format off
inline constexpr OpRow op_rows[] = {
    {Op::send_first,         "SEND_FIRST",         flag::send | flag::first | flag::payload},
    {Op::send_middle,        "SEND_MIDDLE",        flag::send | flag::payload},
    {Op::send_last,          "SEND_LAST",          flag::send | flag::last | flag::payload},
    {Op::send_last_imm,      "SEND_LAST_IMM",      flag::send | flag::last | flag::payload | flag::imm},
    {Op::send_only,          "SEND_ONLY",          flag::send | flag::first | flag::last | flag::payload},
    {Op::send_only_imm,      "SEND_ONLY_IMM",      flag::send | flag::first | flag::last | flag::payload | flag::imm},
    {Op::write_first,        "WRITE_FIRST",        flag::write | flag::first | flag::payload | flag::reth},
    {Op::write_middle,       "WRITE_MIDDLE",       flag::write | flag::payload},
    {Op::write_last,         "WRITE_LAST",         flag::write | flag::last | flag::payload},
    {Op::write_last_imm,     "WRITE_LAST_IMM",     flag::write | flag::last | flag::payload | flag::imm},
    {Op::write_only,         "WRITE_ONLY",         flag::write | flag::first | flag::last | flag::payload | flag::reth},
    {Op::write_only_imm,     "WRITE_ONLY_IMM",     flag::write | flag::first | flag::last | flag::payload | flag::reth | flag::imm},
    {Op::read_request,       "READ_REQUEST",       flag::first | flag::last | flag::reth},
    {Op::read_first,         "READ_RESPONSE_FIRST",  flag::response | flag::first | flag::payload | flag::aeth},
    {Op::read_middle,        "READ_RESPONSE_MIDDLE", flag::response | flag::payload},
    {Op::read_last,          "READ_RESPONSE_LAST",   flag::response | flag::last | flag::payload | flag::aeth},
    {Op::read_only,          "READ_RESPONSE_ONLY",   flag::response | flag::first | flag::last | flag::payload | flag::aeth},
    {Op::acknowledge,        "ACKNOWLEDGE",        flag::response | flag::first | flag::last | flag::aeth},
    {Op::atomic_acknowledge, "ATOMIC_ACKNOWLEDGE", flag::response | flag::first | flag::last | flag::aeth | flag::atomic_ack},
    {Op::compare_swap,       "COMPARE_SWAP",       flag::first | flag::last | flag::atomic},
    {Op::fetch_add,          "FETCH_ADD",          flag::first | flag::last | flag::atomic},
    {Op::send_last_inval,    "SEND_LAST_INVAL",    flag::send | flag::last | flag::payload | flag::ieth},
    {Op::send_only_inval,    "SEND_ONLY_INVAL",    flag::send | flag::first | flag::last | flag::payload | flag::ieth},
};
// clang-format on

// The row of an opcode byte of a connected service; null: the specification defines none.
constexpr const OpRow* op_row(uint8_t opcode) noexcept {
  for (const OpRow& row : op_rows) {
    if (static_cast<uint8_t>(row.op) == (opcode & 0x1f)) return &row;
  }
  return nullptr;
}

// All flags of a packet of that service; 0: the service has no such packet.
constexpr uint16_t flags_of(Service s, const OpRow& row) noexcept {
  bool response = (row.flags & flag::response) != 0;
  bool one_way = (row.flags & (flag::send | flag::write)) != 0 && (row.flags & flag::ieth) == 0;
  switch (s) {
    case Service::rc:
      return row.flags;
    case Service::xrc:
      return response ? row.flags : row.flags | flag::xrceth;
    case Service::dc:
      return response ? row.flags : row.flags | flag::dceth;
    case Service::uc:
      return one_way ? row.flags : uint16_t{0};
    case Service::ud:
      return row.op == Op::send_only || row.op == Op::send_only_imm ? row.flags | flag::deth
                                                                    : uint16_t{0};
    case Service::rd:
      break;
  }
  return 0;
}

constexpr uint8_t opcode_of(Service s, Op op) noexcept {
  return static_cast<uint8_t>(static_cast<unsigned>(s) << 5 | static_cast<unsigned>(op));
}

// Sequence numbers have 24 bits and go in circles.
constexpr uint32_t psn_add(uint32_t psn, uint32_t n) noexcept {
  return (psn + n) & psn_mask;
}
// From `from` on to `to`. Where the order is known, for as much as 2^24 - 1.
constexpr uint32_t psn_distance(uint32_t from, uint32_t to) noexcept {
  return (to - from) & psn_mask;
}
// The most that may be under way: a responder takes what lies further behind for news.
inline constexpr uint32_t most_packets = 1u << 23;
// How far `a` lies behind `b`: negative where it lies before.
constexpr int32_t psn_diff(uint32_t a, uint32_t b) noexcept {
  return static_cast<int32_t>((a - b) << 8) >> 8;
}

}  // namespace kilim::vhca::transport::roce
