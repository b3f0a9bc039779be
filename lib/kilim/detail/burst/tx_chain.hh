// SPDX-License-Identifier: BSD-3-Clause
// Transmit of packets of several buffers each, two pieces at a time: the same WQEs as piece by
// piece (burst/tx_packet.hh). Owner: the queue's worker. For processors with SSE4.1; others take
// each piece by itself.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>
#include <span>

#include <smmintrin.h>

#include "kilim/detail/burst/tx_packet.hh"
#include "kilim/detail/burst/tx_queue.hh"
#include "kilim/detail/burst/tx_row.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_row.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::burst::detail {

// Data segments one behind the other.
class PieceRow {
 public:
  explicit PieceRow(std::byte* at) noexcept : at_(at) {}
  void put(__m128i data) noexcept {
    _mm_store_si128(reinterpret_cast<__m128i*>(at_), data);
    at_ += octoword_bytes;
  }

 private:
  std::byte* at_;
};

// Handles at the front of `in` of the first packet, if it is plain; 0: it is not, or does not end.
template <TxConfig C>
[[gnu::always_inline]] inline uint32_t plain_chain(std::span<const pool::Handle> in) noexcept {
  if (C.offloads && in[0].has(pool::Handle::offload)) return 0;
  if (C.gathered && in[0].has(pool::Handle::key)) return 0;
  return chain_length(in);
}

// Appends WQEs of the packets at the front of `in`, as long as they are plain and have room in a
// row, in the send queue's ring and in that of what was sent, and copies the handles there. Returns
// the handles it took, whole packets; 0 also where a piece is empty: then nothing has been
// appended.
template <TxConfig C>
[[gnu::always_inline]] inline uint32_t append_chains(TxQueue& q, queue::WqeCursor& c,
                                                     std::span<const pool::Handle> in,
                                                     uint64_t& bytes, uint32_t& packets) noexcept {
  if (C.offloads && q.offer.min_inline != 0) return 0;
  const queue::WqeCursor before = c.aside();
  const std::span<pool::Handle> sent = q.sent.row();
  const Segments segments(q.arena, q.key);
  const __m128i eth = queue::EthRow::eth_segment(q.offload);
  Lengths lengths;
  uint32_t taken = 0, n = 0;
  for (; taken < in.size(); n++) {
    const uint32_t pieces = plain_chain<C>(in.subspan(taken));
    const Octowords ds{2 + pieces};
    const uint32_t blocks = wqebbs_for(ds).value();
    if (pieces == 0 || ds.value() > prm::max_ds || blocks > c.row() || taken + pieces > sent.size())
      break;
    PieceRow row(c.line() + 2 * octoword_bytes);
    put_pairs(row, segments, in.subspan(taken, pieces), sent.data() + taken, lengths);
    _mm_store_si128(reinterpret_cast<__m128i*>(c.line() + octoword_bytes), eth);
    c.control(prm::Opcode::send, ds, unsignalled.flags, 0);
    c.advance(blocks, 0);
    taken += pieces;
  }
  if (lengths.any_empty()) [[unlikely]] {
    c.resume(before);
    return 0;
  }
  q.sent.pushed(taken);
  bytes += lengths.bytes();
  packets += n;
  return taken;
}

}  // namespace kilim::inline v1::burst::detail

#endif
