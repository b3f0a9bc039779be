// SPDX-License-Identifier: BSD-3-Clause
// What a queue takes of a row of frames (plain_rx.cc): WQEs, key and completions as far as they are
// the same for all, looked at once. Owner: one row; adapter's lock held. Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/tpt/key_memo.hh"
#include "vhca/wq/compression.hh"

namespace kilim::vhca {

// What one queue may take in a row, and where it stands: the queue itself is behind by `taken`
// until settle(). Trivial: made when a frame comes for it.
struct alignas(64) Taking {
  Qp* qp;
  uint16_t ci;     // the next WQE
  uint16_t end;    // none is left there: no WQE, or no entry up to the end of their ring
  uint16_t mask;   // of the ring of WQEs
  bool holds;      // the completion queue compresses
  bool hashed;     // the entry before had a hash
  uint64_t wqes;   // client address of that ring
  uint64_t slot;   // of the next entry
  uint64_t known;  // of the one that the completion queue has for the next
  uint64_t last;   // of an entry, its last eight bytes, but for the number of the WQE
  uint64_t key;    // of the receive WQEs before, where it lies; no_key: none is known
  uint64_t start, len, va;
  // A receive WQE that took a frame of `bytes` bytes by that key: so does one with the same words
  // whose address is no further than `last_offset` into the key. 0 bytes: none is known.
  struct Alike {
    uint64_t length_and_key, bytes, last_offset;
  } alike;
  alignas(16) prm::Cqe entry;  // the next one, but for what its frame says
  static constexpr uint64_t no_key = ~uint64_t{0};
};

// Of one port. Queues have their place by number; one that another is in is made anew.
struct Row {
  static constexpr std::size_t places = 8;                 // a power of two
  explicit Row(EngineContext& c) noexcept : context(c) {}  // leaves `takings` as they are
  EngineContext& context;
  std::array<Qp*, places> queues{};
  std::array<Taking, places> takings;  // of those queues
};

// The queue and its completion queue learn what was taken.
inline void settle(Taking& t) noexcept {
  Cq& cq = *t.qp->recv_cq;
  t.qp->rq.ci = t.ci;
  const auto written = static_cast<uint32_t>((t.slot - t.known) / sizeof(prm::Cqe));
  cq.producer = (cq.producer + written) & prm::arm::index_mask;
  t.known = t.slot;
}
inline void settle(Row& row) noexcept {
  for (std::size_t i = 0; i < Row::places; i++)
    if (row.queues[i] != nullptr) settle(row.takings[i]);
}

// What all entries of a row have, and where they go.
inline void begin_entries(const EngineContext& context, Taking& t, const Qp& qp) noexcept {
  const Cq& cq = *qp.recv_cq;
  t.entry = {};
  t.entry.srqn_uidx = be32{qp.spec.uidx};
  t.entry.timestamp = be64{context.now_ns};
  t.entry.sop_drop_qpn = be32{qp.alone ? 0 : qp.qpn.value()};
  t.entry.op_own =
      prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (cq.producer & cq.spec.cqe_count) != 0);
  std::memcpy(&t.last, &t.entry.sop_drop_qpn, sizeof t.last);
  const uint32_t slot = cq.producer & (cq.spec.cqe_count - 1);
  t.slot = t.known = cq.spec.buf.value() + uint64_t{slot} * sizeof(prm::Cqe);
  t.holds = cq.block != nullptr;
  t.hashed = false;
}

// The key that the receive WQEs before had, as the queue remembers it.
inline void recall_key(Taking& t, const KeyMemo& m) noexcept {
  const bool writes = m.len != 0 && (m.rights & prm::mkey::local_write) != 0;
  t.key = writes && m.key != prm::list_end_lkey ? m.key : Taking::no_key;
  t.start = m.start;
  t.len = m.len;
  t.va = m.va;
  t.alike = {};
}

}  // namespace kilim::vhca
