// SPDX-License-Identifier: BSD-3-Clause
// Who is told of requests that fail, before their error entries are written, and of keys that
// requests change, if anybody is: the explainer. It answers nothing and changes nothing. Owner: the
// adapter; its lock held in every call. Never allocates.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::wq {

enum class KeyChange : uint8_t { filled, invalidated, invalidated_by_peer };

class FailureObserver {
 public:
  virtual ~FailureObserver() = default;
  virtual void send_fails(const Qp&, const SendWqe&, const Verdict&) noexcept = 0;
  // It has left its ring, whose bytes are still what they were.
  virtual void receive_fails(const Qp&, uint16_t wqe_index, const Verdict&) noexcept = 0;
  // How long the message, or what has come of it, is for which the next receive WQE of this queue
  // has no room.
  virtual void message_too_long(const Qp&, uint64_t bytes) noexcept = 0;
  // What a peer asks of this queue is refused. `asked`: the memory that it names; empty: it is
  // refused for something else.
  virtual void request_refused(const Qp&, const tpt::SegmentList& asked,
                               const Verdict&) noexcept = 0;
  virtual void is_flushed(const Qp&, bool send, uint16_t wqe_index) noexcept = 0;
  // `key` as it is called behind the change; the index of the WQE that changed it, of the receive
  // WQE where a peer did.
  virtual void key_changes(const Qp&, uint16_t wqe_index, uint32_t key, KeyChange) noexcept = 0;
  // A ring or a CQ is gone: nothing of the queue completes any more.
  virtual void queue_breaks(const Qp&, const char* why) noexcept = 0;
};

inline void note_key_change(const EngineContext& context, const Qp& qp, uint16_t wqe_index,
                            uint32_t key, KeyChange change) noexcept {
  if (context.failures != nullptr) [[unlikely]]
    context.failures->key_changes(qp, wqe_index, key, change);
}

inline void note_too_long(const EngineContext& context, const Qp& qp, uint64_t bytes) noexcept {
  if (context.failures != nullptr) context.failures->message_too_long(qp, bytes);
}

}  // namespace kilim::vhca::wq
