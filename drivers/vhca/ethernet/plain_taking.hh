// SPDX-License-Identifier: BSD-3-Clause
// What a queue takes of a row of frames (plain_rx.cc): WQEs, key and completions as far as they are
// the same for all, looked at once. Owner: one row; adapter's lock held. Never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <emmintrin.h>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/ethernet/state.hh"
#include "vhca/tpt/key_memo.hh"

namespace kilim::vhca::ethernet {

// What one queue may take in a row, and where it stands: the queue itself is behind by what was
// taken until settle(). WQEs are taken run by run: in one piece of their ring, and so that their
// numbers differ in the last byte alone. Trivial: made when a frame comes for it.
struct alignas(64) Taking {
  static constexpr uint64_t wqe_bytes = 16;
  uint64_t wqe;       // client address of the next WQE
  uint64_t wqes_end;  // none of this run is left there
  uint64_t last;      // of the next entry, its last eight bytes
  // A receive WQE that took a frame of Row::alike_bytes bytes by that key: so does one with the
  // same words whose address lies less than `limit` from `start`. 0: none is known.
  struct Alike {
    uint64_t length_and_key, limit;
  } alike;
  uint64_t start, va;   // of the key
  uint64_t slot;        // of the next entry
  uint64_t stamp;       // of entries
  __m128i third;        // bytes 32 to 47 of an entry of a frame of so many bytes
  uint64_t key;         // of the receive WQEs before, where it lies; no_key: none is known
  uint64_t len;         // of the key
  uint16_t ci;          // the WQE behind the run
  uint16_t end;         // none is left there: no WQE, or no entry up to the end of their ring
  uint16_t mask;        // of the ring of WQEs
  bool holds;           // the completion queue compresses
  bool hashed;          // the entry before had a hash
  uint64_t wqes;        // client address of that ring
  uint64_t known;       // slot of the entry that the completion queue has for the next
  uint64_t first_last;  // `last` but for the number of the WQE
  wq::Qp* qp;           // null: it is in no row any more
  alignas(16) prm::Cqe entry;  // the next one, but for what its frame says
  static constexpr uint64_t no_key = ~uint64_t{0};

  // The number of the next WQE.
  [[nodiscard]] uint16_t index() const noexcept {
    return static_cast<uint16_t>(ci - (wqes_end - wqe) / wqe_bytes);
  }
  [[nodiscard]] uint64_t left_of_run() const noexcept { return (wqes_end - wqe) / wqe_bytes; }
  // A WQE was used.
  void step() noexcept {
    wqe += wqe_bytes;
    last += next_last;
  }

  static constexpr unsigned counter_at =
      8 * (offsetof(prm::Cqe, wqe_counter) - offsetof(prm::Cqe, sop_drop_qpn));
  // What the next entry of a run has more in its last eight bytes; without a carry.
  static constexpr uint64_t next_last = uint64_t{be16{1}.raw()} << counter_at;
};

// Of one port, for one row of frames: the queues that take of it. When they are too many, the one
// that has been there longest makes room.
struct Row {
  static constexpr std::size_t places = 8;                     // a power of two
  explicit Row(wq::EngineContext& c) noexcept : context(c) {}  // leaves `takings` as they are
  wq::EngineContext& context;
  std::size_t joined = 0;    // so many times a queue has
  uint64_t alike_bytes = 0;  // of the frames that Taking::Alike is about
  std::array<Taking, places> takings;

  [[nodiscard]] std::span<Taking> taken() noexcept {
    return std::span(takings).first(joined < places ? joined : places);
  }
};

// The next run of WQEs. False: none is left.
inline bool next_run(Taking& t) noexcept {
  constexpr uint32_t numbers = 0x100;  // those that differ in the last byte alone
  const uint32_t left = static_cast<uint16_t>(t.end - t.ci);
  const uint32_t place = uint32_t{t.ci} & t.mask;
  const uint32_t run =
      std::min({left, uint32_t{t.mask} + 1 - place, numbers - (t.ci & (numbers - 1))});
  t.wqe = t.wqes + place * Taking::wqe_bytes;
  t.wqes_end = t.wqe + run * Taking::wqe_bytes;
  t.last = t.first_last | uint64_t{be16{t.ci}.raw()} << Taking::counter_at;
  t.ci = static_cast<uint16_t>(t.ci + run);
  return run != 0;
}
// Whether a WQE is left.
[[gnu::always_inline]] inline bool has_wqe(Taking& t) noexcept {
  return t.wqe != t.wqes_end || next_run(t);
}

// The queue and its completion queue learn what was taken.
inline void settle(Taking& t) noexcept {
  if (t.qp == nullptr) return;
  wq::Cq& cq = *t.qp->recv_cq;
  t.qp->taking = nullptr;
  t.qp->rq.ci = t.index();
  const auto written = static_cast<uint32_t>((t.slot - t.known) / sizeof(prm::Cqe));
  cq.producer = (cq.producer + written) & prm::arm::index_mask;
  t.qp = nullptr;
}
inline void settle(Row& row) noexcept {
  for (Taking& t : row.taken()) settle(t);
}

// The key that the receive WQEs before had, as the queue remembers it.
inline void recall_key(Taking& t, const tpt::KeyMemo& m) noexcept {
  const bool writes = m.len != 0 && (m.rights & prm::mkey::local_write) != 0;
  t.key = writes && m.key != prm::list_end_lkey ? m.key : Taking::no_key;
  t.start = m.start;
  t.len = m.len;
  t.va = m.va;
  t.alike.limit = 0;
}

// The queue takes part in the row. Null: it does not take plainly.
Taking* join_row(Row&, wq::Qp&) noexcept;

[[gnu::always_inline]] inline Taking* taking_of(Row& row, wq::Qp& qp) noexcept {
  Taking* t = qp.taking;
  if (t == nullptr) [[unlikely]]
    t = join_row(row, qp);
  return t;
}

}  // namespace kilim::vhca::ethernet
