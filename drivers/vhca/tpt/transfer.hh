// SPDX-License-Identifier: BSD-3-Clause
// Moves bytes between lists of segments (key, address, length): gather, scatter, both at once. A
// whole list is checked before its first byte is touched, so a refused transfer changes nothing;
// move_packets() does so packet by packet.
// Adapter's lock held. Never allocates; touches client memory only through the guarded copy.
#pragma once

#include <cstdint>
#include <span>

#include "vhca/tpt/translate.hh"

namespace kilim::vhca::tpt {

class Paging;

// One data segment in host order. `immediate`: addr is the adapter's own memory (inline data).
// Trivial: arrays of it are made for each WQE and filled as far as needed.
struct Segment {
  uint64_t addr;
  uint64_t bytes;
  uint32_t key;
  bool immediate;
};

struct SegmentList {
  std::span<const Segment> segments;
  Access need;
};

struct Transfer {
  Verdict source;
  Verdict target;
  uint32_t pieces = 0;  // pieces of keys walked, for the journal
  uint32_t bad_key = 0;
  uint64_t fault_va = 0;  // of the piece whose memory is gone
  [[nodiscard]] bool ok() const noexcept { return source.ok() && target.ok(); }
};

// Copies between pieces of at least so many bytes each; false: `result` says which end is gone.
bool copy_piece(const Piece& to, const Piece& from, uint64_t bytes, Transfer& result) noexcept;

// How keys are walked: the table, and the profile's limit.
struct Translator {
  const KeyTable* keys = nullptr;
  uint8_t max_indirection = 4;
  Paging* paging = nullptr;
};

// Whether each segment is allowed as a whole. `bytes` cuts the list: what lies behind is not looked
// at.
Verdict check_list(const Translator&, const SegmentList&, uint64_t bytes,
                   uint32_t& bad_key) noexcept;

// Brings in what is not there of the first `bytes` bytes of a list that is allowed.
// protection::page: something was brought in, or may come: the request is to be tried again.
Verdict page_in(const Translator&, const SegmentList&, uint64_t bytes) noexcept;

// Copies the first `bytes` bytes of `from` over the first of `to`. Both are as long at least.
Transfer move_bytes(const Translator&, const SegmentList& from, const SegmentList& to,
                    uint64_t bytes) noexcept;
// A message that goes in packets of `mtu` bytes: where a list is refused, the packets in front of
// the first one that meets the refusal are moved all the same, and the result names that one's end.
Transfer move_packets(const Translator&, const SegmentList& from, const SegmentList& to,
                      uint64_t bytes, uint32_t mtu) noexcept;
// How many of the first `bytes` bytes lie in whole packets, or in all of them, that no check
// refuses.
uint64_t allowed_bytes(const Translator&, const SegmentList&, uint64_t bytes,
                       uint32_t mtu) noexcept;
// Gather into, and scatter from, the adapter's own memory.
Transfer gather_bytes(const Translator&, const SegmentList& from, std::byte* to,
                      uint64_t bytes) noexcept;
Transfer scatter_bytes(const Translator&, const std::byte* from, uint64_t bytes,
                       const SegmentList& to) noexcept;

}  // namespace kilim::vhca::tpt
