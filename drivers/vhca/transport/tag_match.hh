// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". What becomes of a message to a queue pair whose shared receive queue matches
// tags, whether it comes by a call or packet by packet, and what a TAG_MATCHING WQE does to the
// list. Adapter's lock held. Never allocates; messages and WQEs are untrusted.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

// Enough of a message's beginning to tell what it is.
inline constexpr std::size_t tag_headers_bytes = sizeof(prm::Tmh) + sizeof(prm::Rvh);

struct TagMessage {
  std::span<const std::byte> start;  // its first bytes, at most its first packet
  uint64_t bytes = 0;                // of its first packet
  bool whole = false;                // there are no other packets
};

enum class TagRoute : uint8_t {
  receive,  // into a receive WQE, as without tags; TagWork::news says which
  buffer,   // into the buffer of the entry that it matched, TagWork::held
  taken,    // nothing of it is to be stored: its data will be fetched
};
// Decides it. Not done: it was refused, or is to come again.
Verdict route_message(wq::EngineContext&, wq::Qp&, const TagMessage&, TagRoute&) noexcept;
// The first packet of a message that goes into a receive WQE is there.
void note_received(wq::Qp&) noexcept;

// The part of the held buffer for `bytes` bytes of the message from `offset` on, and how many of
// them are not for it.
struct TagPart {
  tpt::Segment to{};
  uint64_t skip = 0;
};
// Refused: the buffer is too short.
Verdict tag_part(wq::EngineContext&, wq::Qp&, uint64_t offset, uint64_t bytes, TagPart&) noexcept;
// The buffer's keys or memory refuse.
Verdict fail_tag(wq::EngineContext&, wq::Qp&, Verdict to_requester) noexcept;

// How a message ends.
struct TagEnd {
  prm::CqeOpcode op = prm::CqeOpcode::resp_send;
  uint64_t bytes = 0;  // all of its bytes
  uint32_t imm_raw = 0;
  bool solicited = false;
};
Verdict finish_tag(wq::EngineContext&, wq::Qp&, const TagEnd&) noexcept;

// A WQE that appends or removes an entry, or says how many unexpected messages were handled.
Verdict exec_tag_operation(wq::EngineContext&, wq::Qp&, const wq::SendWqe&) noexcept;

}  // namespace kilim::vhca::transport
