// SPDX-License-Identifier: BSD-3-Clause
// Requests for a device's queues, and the handles and geometry that it returns.
// Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/device/caps.hh"
#include "kilim/detail/device/inline_arbiter.hh"
#include "kilim/detail/queue/geometry.hh"

namespace kilim::inline v1::device {

// Handles of the device's objects; a destroyed object's handle is never used again.
using CqHandle = Ident<struct CqHandleTag, uint32_t>;
using QpHandle = Ident<struct QpHandleTag, uint32_t>;
using SrqHandle = Ident<struct SrqHandleTag, uint32_t>;  // 0: none
using FlowHandle = Ident<struct FlowHandleTag, uint32_t>;

// Completions of frames that are alike share entries, and each of them still says its length and
// this; everything else is said once for all (mlx5dv_create_cq(3), cqe_comp_res_format).
enum class Compression : uint8_t { none, hash, checksum };

struct CqRequest {
  uint32_t entries = 0;                         // the device may round up
  uint32_t cqe_bytes = 64;                      // 64, or 128 with room for 64 bytes of a message
  bool channel = false;                         // it has a completion channel: queue::Cq::arm()
  Compression compression = Compression::none;  // for bursts that read it only
  bool real_time = false;  // stamps are the time of day instead of ticks of the device's clock
};

// The channel on which the events of a completion queue arrive: a descriptor to poll(2) and the way
// to read them. Any thread, one at a time, as long as the queue lives.
struct CqEvents {
  int fd = -1;  // readable when there is an event; -1: the queue has no channel
  uint32_t (*read_all)(void* channel) noexcept = nullptr;
  void* channel = nullptr;

  // Reads the events that wait; never blocks. How many there were.
  uint32_t read() const noexcept { return read_all(channel); }
};

// A completion queue as the device made it; QpInfo and SrqInfo likewise.
struct CqInfo {
  CqHandle handle;
  queue::CqGeometry geometry;
  CqEvents events{};
};

struct QpInfo {
  QpHandle handle;
  Qpn qpn;
  queue::SqGeometry sq;
  queue::RqGeometry rq;    // wqe_count 0: it has no receive queue of its own
  InlineDecision inlined;  // whether short messages arrive in CQEs
};

// A shared receive queue, for connections of the same device.
struct SrqRequest {
  uint32_t recv_wrs = 0;      // receives, at least 1
  uint32_t max_recv_sge = 1;  // pieces of one receive
};

struct SrqInfo {
  SrqHandle handle;
  queue::SrqGeometry geometry;
};

// The numbers are minima: the device rounds up.
struct QpRequest {
  CqHandle send_cq;
  CqHandle recv_cq;
  uint32_t send_wqebbs = 0;  // 64-byte blocks
  uint32_t recv_wrs = 0;
  uint32_t max_recv_sge = 1;  // pieces of one receive
  SrqHandle srq;              // not 0: it uses this shared receive queue
  InlineReceive inline_receive = InlineReceive::by_default;
  RecvMemory recv_memory = RecvMemory::addressed;
};

// A reliable connection.
struct RcRequest {
  QpRequest queues;
  bool umr = false;         // keys are bound and invalidated on it
  uint32_t access = 0;      // mr::Access bits that the queue pair grants to the peer
  int gid_index = -1;       // of the port's GID table; -1: its first RoCE v2 entry
  bool signal_all = false;  // the caller promises that every request asks for a completion
};

// An unreliable connection: SENDs and WRITEs, also with immediate; the peer may get the right to
// write.
struct UcRequest {
  QpRequest queues;
  uint32_t access = 0;
};

// Everything that a peer needs to connect to a queue pair.
struct Endpoint {
  Qpn qpn;
  uint32_t psn = 0;               // the first packet sequence number that it sends, 24 bits
  std::array<uint8_t, 16> gid{};  // of the port
  uint16_t lid = 0;               // of the port; InfiniBand only
  uint8_t port = 1;
  uint32_t mtu_bytes = 0;  // the smaller one of both sides is used; 0: unknown
};

// A connection as a connection manager agreed on it with the peer's, of one side (IBTA vol. 1,
// chapter 12.6; rdma_init_qp_attr(3)). Times and counts are coded as ibv_modify_qp(3) does.
struct Route {
  Endpoint peer;           // psn: the first one that the peer sends
  uint32_t psn = 0;        // the first one that this side sends
  uint8_t port = 1;        // own
  uint8_t gid_index = 0;   // own
  uint8_t hop_limit = 64;  // of packets to the peer, as the next three
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
  uint8_t timeout = 16;  // 4.096 us * 2^16
  uint8_t retries = 7;
  uint8_t rnr_retries = 7;  // 7: no limit
  uint8_t rnr_timer = 12;   // 640 us
  uint8_t reads_out = 16;   // READs and atomics in flight that this side sends
  uint8_t reads_in = 16;    // and that it answers
};

// Which frames are steered to a raw packet queue pair.
struct FlowRule {
  enum class Kind : uint8_t { all, unicast, multicast, broadcast };
  Kind kind = Kind::all;
  MacAddress mac{};  // for unicast frames
};

}  // namespace kilim::inline v1::device
