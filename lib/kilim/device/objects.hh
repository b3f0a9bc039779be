// SPDX-License-Identifier: BSD-3-Clause
// What is asked of a device when queues are made, and what it answers: handles and geometry, plain
// values. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/base/ident.hh"
#include "kilim/device/caps.hh"
#include "kilim/queue/geometry.hh"

namespace kilim::device {

// Numbers of the device's objects, never used again after the object is destroyed.
using CqHandle = Ident<struct CqHandleTag, uint32_t>;
using QpHandle = Ident<struct QpHandleTag, uint32_t>;
using FlowHandle = Ident<struct FlowHandleTag, uint32_t>;

struct CqInfo {
  CqHandle handle;
  queue::CqGeometry geometry;
};

struct QpInfo {
  QpHandle handle;
  Qpn qpn;
  queue::SqGeometry sq;
  queue::RqGeometry rq;  // no WQEs where none were asked for
};

// The numbers are lower bounds: the device rounds up to what it can make.
struct QpRequest {
  CqHandle send_cq;
  CqHandle recv_cq;
  uint32_t send_wqebbs = 0;  // 64-byte blocks
  uint32_t recv_wrs = 0;
  uint32_t max_recv_sge = 1;  // pieces of one receive
};

struct RcRequest {
  QpRequest queues;
  bool umr = false;     // keys are woven and invalidated on it
  uint32_t access = 0;  // mr::Access bits that a peer may use on it
  int gid_index = -1;   // of the address to connect by; -1: the first one of RoCE v2
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
