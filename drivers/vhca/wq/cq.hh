// SPDX-License-Identifier: BSD-3-Clause
// One completion queue of the adapter. Owner: the adapter's table; its lock held. A plain record:
// wq/cqe_writer.hh writes entries and events.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "kilim/detail/base/ident.hh"
#include "kilim/prm/cqe.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::wq {

struct Cq;

// Completions that are about to become one compressed block (wq/compression.hh).
struct CqeBlock {
  prm::Cqe title{};
  std::array<prm::MiniCqe, most_compressed> minis{};
  uint16_t next_counter = 0;  // wqe_counter of a completion that may follow
  Cq* next_open = nullptr;    // in EngineContext::open_blocks
};

struct Cq {
  Cqn cqn;
  CqSpec spec;
  EventSink* sink = nullptr;
  uint32_t producer = 0;    // 24-bit index of the next entry
  uint32_t consumer = 0;    // where the client was when its record was last read
  uint32_t record = 0;      // what was read then
  uint32_t passed = 0;      // last entries of older rings that the client has passed since
  uint32_t users = 0;       // queues that complete here
  uint32_t arm_word = ~0u;  // as last read from the record
  // The record could not be given another value than a first request for events may write: until
  // one has come, any doorbell for events of its page may be this queue's.
  bool unmarked = false;
  uint32_t armed_at = 0;        // consumer index of the request
  uint32_t last_solicited = 0;  // index behind the last solicited entry
  bool has_solicited = false;
  bool armed = false;
  bool armed_solicited = false;
  // Moderation: an event waits for so many entries, or for this long since the last one; 0: not.
  uint32_t moderation_count = 0;
  uint64_t moderation_ns = 0;
  uint32_t event_at = 0;  // producer index at the last event
  uint64_t event_ns = 0;  // its time
  bool error = false;     // overrun, or its memory is gone: nothing is written any more
  bool overran = false;   // which of the two, once there is an error
  // Entries are of 64 bytes, one behind the other, and stamped with the engine's time: as the
  // straight ways write them.
  bool plain_entries = false;
  uint32_t page_place = 0;          // among the queues of its UAR page
  uint32_t held = 0;                // completions in its block, which are not written yet
  std::unique_ptr<CqeBlock> block;  // null: entries are never compressed
};

}  // namespace kilim::vhca::wq
