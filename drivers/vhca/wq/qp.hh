// SPDX-License-Identifier: BSD-3-Clause
// One queue pair of the adapter: type, state, attributes, both rings and where the engine stands in
// them. Owner: the adapter's table; its lock held. A plain record: hca/modify_qp.cc changes states,
// wq/sq_decode.hh and wq/recv.hh read the rings.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "vhca/core/spec.hh"
#include "vhca/tpt/key_memo.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/rc_wire.hh"
#include "vhca/wq/srq.hh"
#include "vhca/wq/tag_work.hh"
#include "vhca/wq/weak_order.hh"

namespace kilim::vhca::ethernet {
struct FlowTable;
struct Taking;  // ethernet/plain_taking.hh
struct Tir;     // ethernet/tir.hh
}  // namespace kilim::vhca::ethernet

namespace kilim::vhca::wq {

// What a send queue waits for before its oldest WQE is tried again.
enum class SqWait : uint8_t { none, rnr, timeout, page };

struct SendRing {
  uint64_t base = 0;         // client address
  uint32_t wqebbs = 0;       // a power of two; 0: no queue
  uint16_t ci = 0;           // basic block of the next WQE, 16-bit counter
  uint16_t pi = 0;           // as last taken from the doorbell record
  uint32_t packets_out = 0;  // of a WQE of many packets that is tried again: those on the wire
};

struct RecvRing {
  uint64_t base = 0;
  uint32_t wqes = 0;  // a power of two; 0: no queue
  uint32_t shift = 0;
  uint16_t ci = 0;  // the next WQE to take, 16-bit counter
  // Of a striding queue, whose WQEs open with a link that nobody reads: a WQE has so many strides
  // of so many bytes.
  uint8_t log_strides = 0;
  uint8_t log_stride = 0;  // 0: a WQE takes one message
  bool two_bytes = false;  // a frame begins two bytes behind its first stride
  uint32_t used = 0;       // strides of the next WQE
  [[nodiscard]] bool striding() const noexcept { return log_stride != 0; }
  [[nodiscard]] uint32_t strides() const noexcept { return 1u << log_strides; }
};

// Streams of a DC initiator that have failed, until the client resets each.
struct FailedStreams {
  static constexpr uint32_t most = 64;  // a profile may not offer more
  std::array<uint16_t, most> id{};
  uint32_t count = 0;
  [[nodiscard]] bool has(uint16_t stream) const noexcept {
    for (uint32_t i = 0; i < count; i++) {
      if (id[i] == stream) return true;
    }
    return false;
  }
  void add(uint16_t stream) noexcept {
    if (count < most && !has(stream)) id[count++] = stream;
  }
  // False: it has not failed.
  bool remove(uint16_t stream) noexcept {
    for (uint32_t i = 0; i < count; i++) {
      if (id[i] != stream) continue;
      id[i] = id[--count];
      return true;
    }
    return false;
  }
};

// PRM: "Q counter": of the queues that name it.
struct QCounter {
  const EventSink* open = nullptr;  // whose it is
  uint64_t out_of_buffer = 0;       // frames without a receive request
  uint32_t users = 0;
};

struct Qp;
struct Watched;  // wq/observer.hh

// A handle on a shared queue pair: where its events go, and with what.
struct QpHandle {
  EventSink* sink = nullptr;
  void* owner = nullptr;
};

// A queue pair's place on one list.
struct QpLink {
  Qp* next = nullptr;
  Qp* prev = nullptr;
  bool listed = false;
};

struct Qp {
  Qpn qpn;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  QpSpec spec;
  QpAttr attr;  // as last set by modify
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;  // of an XRC target: the one that the request under way names
  EventSink* sink = nullptr;
  std::vector<QpHandle> others;  // further handles on an XRC target (ibv_open_qp)
  SendRing sq;
  RecvRing rq;
  uint8_t paged = 0;  // the profile's paged_op of its transport

  bool loopback = false;              // the path's GID is one of this adapter's
  bool established = false;           // the event COMM_EST was raised
  uint32_t groups = 0;                // multicast groups it has joined
  bool sq_drained = false;            // SQ_DRAINED was raised since SQD was entered
  bool drains_on_sign_error = false;  // stops (SQD) behind a request that found a wrong signature
  bool draining = false;              // one was found: the queue is stopping
  bool send_error_told = false;       // an error entry was written since RTS was entered
  bool ended_by_client = false;       // its client moved it to ERR, not behind an error
  bool broken = false;                // a ring or a CQ is gone: nothing runs until RESET
  SqWait wait = SqWait::none;
  bool retrying = false;     // the oldest send WQE has been tried and is tried again
  uint8_t timeouts = 0;      // of the oldest send WQE, in a row
  uint8_t rnr_left = 0;      // tries left: attribute rnr_retry, 7 is for ever
  uint8_t retry_left = 0;    // tries left: attribute retry_cnt
  uint16_t stalls = 0;       // of the oldest send WQE, for pages of its own memory
  uint64_t retry_at_ns = 0;  // CLOCK_MONOTONIC; of `wait`
  tpt::KeyMemos memos;       // of the straight way, exec/plain.hh

  Watched* watched = nullptr;  // what the observer keeps of it; null: it is not watched

  std::unique_ptr<WeakOrder> weak;  // null: its order is that of its ring

  std::unique_ptr<TagWork> tags;  // of a shared queue that matches tags; null: it does not

  // A receive queue without a queue pair (ibv_wq): its number is its own kind's, its state `rts` is
  // "ready".
  bool alone = false;
  uint32_t places = 0;  // of such a queue in tables
  const ethernet::Tir* tir =
      nullptr;  // it stands for this TIR: frames go on to a queue of its table
  const ethernet::FlowTable* table = nullptr;  // or for this flow table

  QCounter* counter = nullptr;  // of such a queue; null: none

  ethernet::Taking* taking =
      nullptr;  // where it stands in the row of frames that goes on; null: in none

  uint32_t page_place = 0;  // among the queues of its UAR page

  // The engine's lists (wq/qp_list.hh): queues with work, queues in ERR or SQE.
  QpLink ready;
  QpLink in_error;

  // DC: an initiator's streams; what a target keeps for each initiator that it hears on the wire.
  FailedStreams failed;
  std::vector<std::unique_ptr<Qp>> connections;

  // A reliable queue whose peer is on the wire, and its places on the protocol's lists.
  std::unique_ptr<RcWire> rc;
  QpLink timed;
  QpLink answering;
  QpLink blocked;
};

// Whether memory of this operation (paged_op) may come on demand; else a page that is not there is
// refused.
inline bool may_fault(const Qp& qp, uint8_t operation) noexcept {
  return (qp.paged & operation) != 0;
}

}  // namespace kilim::vhca::wq
