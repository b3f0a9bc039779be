// SPDX-License-Identifier: BSD-3-Clause
// Receive work queues (RWQs), tables that spread frames over them by hash, and rules that lead
// frames to them: requests, and what the device returns (ibv_create_wq(3),
// ibv_create_rwq_ind_table(3), ibv_create_flow(3)). Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/device/objects.hh"
#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rewrite.hh"
#include "kilim/detail/flow/rss.hh"
#include "kilim/detail/queue/geometry.hh"

namespace kilim::inline v1::device {

using RwqHandle = Ident<struct RwqHandleTag, uint32_t>;
using RwqTableHandle = Ident<struct RwqTableHandleTag, uint32_t>;

// Several packets in one receive, a stride or more each.
struct Strides {
  uint32_t log_bytes = 0;  // of a stride
  uint32_t log_count = 0;  // of a receive
};

struct RwqRequest {
  CqHandle cq;  // of its own
  uint32_t recv_wrs = 0;
  uint32_t max_recv_sge = 1;       // pieces of one receive
  bool strip_vlan = false;         // the tag goes to the CQE
  std::optional<Strides> strides;  // each receive begins with a segment of 16 bytes then
};

// In state RESET; nothing arrives before it is READY.
struct RwqInfo {
  RwqHandle handle;
  uint32_t number = 0;
  queue::RqGeometry rq;
};

// RESET empties the queue, and its ring begins anew; ERROR flushes what is posted.
enum class RwqState : uint8_t { reset, ready, error };

struct RwqTableInfo {
  RwqTableHandle handle;
};

// Segments of a TCP stream that follow each other are received as one frame with the first one's
// headers (LRO), whose completion says what changed in them (burst/joined.hh).
struct Lro {
  uint32_t max_bytes = 0;   // of such a frame: what a receive of each of the queues has room for
  uint32_t timeout_us = 0;  // it waits no longer for a segment, as far as the device can tell times
};

// A raw packet queue pair without queues of its own: it takes a frame to the table's RWQ of the
// frame's hash. Rules may only bring frames of this kind to it; destroyed by destroy_qp().
struct HashQpRequest {
  RwqTableHandle table;  // of one entry for HashKind::none
  flow::HashKind kind = flow::HashKind::none;
  flow::HashKey key = flow::default_key;
  bool tunnels = false;                   // CQEs tell of the headers inside VXLAN and GRE
  bool inner = false;                     // and those are hashed; needs `tunnels`
  std::optional<Lro> lro = std::nullopt;  // where Caps::lro says so
  flow::HashSides sides{};
};

struct FlowRequest {
  QpHandle qp;  // where matching frames go; with `drop` any queue pair of the port
  flow::Match match;
  uint16_t priority = 0;  // in the device's order: 0 is asked first
  bool drop = false;
  std::optional<uint32_t> mark;              // 24 bits, in the CQE
  bool count = false;                        // query_flow() answers
  std::span<const flow::Rewrite> rewrite{};  // not with `drop`
  bool egress = false;                       // of frames that leave; `qp` does not count then
  std::span<const std::byte> prepend{};      // of those
};

}  // namespace kilim::inline v1::device
