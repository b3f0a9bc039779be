// SPDX-License-Identifier: BSD-3-Clause
// What is asked of a device when queues are made, and what it answers: handles and geometry, plain
// values. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/base/ident.hh"
#include "kilim/device/caps.hh"
#include "kilim/device/inline_arbiter.hh"
#include "kilim/queue/geometry.hh"

namespace kilim::device {

// Numbers of the device's objects, never used again after the object is destroyed.
using CqHandle = Ident<struct CqHandleTag, uint32_t>;
using QpHandle = Ident<struct QpHandleTag, uint32_t>;
using SrqHandle = Ident<struct SrqHandleTag, uint32_t>;  // 0: none
using FlowHandle = Ident<struct FlowHandleTag, uint32_t>;

struct CqRequest {
  uint32_t entries = 0;     // at least
  uint32_t cqe_bytes = 64;  // or 128: room for 64 bytes of a message
};

struct CqInfo {
  CqHandle handle;
  queue::CqGeometry geometry;
};

struct QpInfo {
  QpHandle handle;
  Qpn qpn;
  queue::SqGeometry sq;
  queue::RqGeometry rq;  // no WQEs where none were asked for
  InlineDecision inlined;
};

// A shared receive queue, for connections of the same device.
struct SrqRequest {
  uint32_t recv_wrs = 0;
  uint32_t max_recv_sge = 1;
};

struct SrqInfo {
  SrqHandle handle;
  queue::SrqGeometry geometry;
};

// The numbers are lower bounds: the device rounds up to what it can make.
struct QpRequest {
  CqHandle send_cq;
  CqHandle recv_cq;
  uint32_t send_wqebbs = 0;  // 64-byte blocks
  uint32_t recv_wrs = 0;
  uint32_t max_recv_sge = 1;  // pieces of one receive
  SrqHandle srq;              // where it receives from instead of a queue of its own
  InlineReceive inline_receive = InlineReceive::by_default;
  RecvMemory recv_memory = RecvMemory::addressed;
};

struct RcRequest {
  QpRequest queues;
  bool umr = false;         // keys are woven and invalidated on it
  uint32_t access = 0;      // mr::Access bits that a peer may use on it
  int gid_index = -1;       // of the address to connect by; -1: the first one of RoCE v2
  bool signal_all = false;  // a promise: every request asks for a completion
};

// An unreliable connection: sends, writes, immediates; the peer may be let write.
struct UcRequest {
  QpRequest queues;
  uint32_t access = 0;
};

// All that a peer must know to connect to a queue pair.
struct Endpoint {
  Qpn qpn;
  uint32_t psn = 0;
  std::array<uint8_t, 16> gid{};
  uint16_t lid = 0;
  uint8_t port = 1;
  uint32_t mtu_bytes = 0;  // the lesser of both sides' counts; 0: not known
};

// Which frames come to a raw packet queue pair.
struct FlowRule {
  enum class Kind : uint8_t { all, unicast, multicast, broadcast };
  Kind kind = Kind::all;
  MacAddress mac{};  // of unicast
};

}  // namespace kilim::device
