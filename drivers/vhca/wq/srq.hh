// SPDX-License-Identifier: BSD-3-Clause
// One shared receive queue of the adapter: a ring whose WQEs the client links to a list. Owner: the
// adapter's table; its lock held. A plain record: wq/recv.hh reads the ring.
#pragma once

#include <cstdint>
#include <memory>

#include "vhca/core/spec.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/tag_list.hh"

namespace kilim::vhca::wq {

struct Srq {
  uint32_t srqn = 0;
  SrqSpec spec;
  EventSink* sink = nullptr;
  Cq* cq = nullptr;               // where receives complete; null: where their queue pair's do
  uint16_t ci = 0;                // WQEs taken, 16-bit counter
  uint32_t head = 0;              // place of the next WQE
  uint32_t next = 0;              // place behind it, as its link said when it was looked at
  uint32_t limit = 0;             // an event is due when fewer WQEs wait; 0: none wanted
  uint32_t users = 0;             // queue pairs
  std::unique_ptr<TagList> tags;  // null: it matches none
};

}  // namespace kilim::vhca::wq
