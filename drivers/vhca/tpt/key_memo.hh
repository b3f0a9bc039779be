// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". The straight way from a key to its pinned memory: a
// direct key as one user found it last time, so that the next request need not look it up, and the
// pieces behind a list of such keys. Owner: a queue pair; adapter's lock held. Never allocates,
// never touches client memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

struct KeyMemo {
  uint32_t key = 0;
  uint8_t rights = 0;
  uint64_t start = 0;  // first address that users of the key name
  uint64_t len = 0;    // 0: nothing is remembered
  uint64_t va = 0;     // client address of `start`

  // Whether these bytes, not 0 of them, lie in the key's range; `offset` from its start.
  [[nodiscard]] bool holds(uint64_t offset, uint64_t bytes) const noexcept {
    return offset <= len && bytes <= len - offset;
  }
};

// What requests of a queue named last at their two ends. Good for the peer named in it, while the
// key table is of that generation.
struct KeyMemos {
  uint64_t generation = 0;
  Pdn peer_pd;
  uint32_t peer_qpn = 0;
  KeyMemo local, remote;
  KeyMemo local_inner, remote_inner;  // below keys that are lists
  // For requests of the kind at hand: the longest one, 0: the keys do not allow it; and up to which
  // offsets such a one fits.
  uint64_t longest = 0, local_offset = 0, remote_offset = 0;

  void prepare(uint8_t local_rights, uint8_t remote_rights, uint64_t most) noexcept {
    const bool allowed = (local.rights & local_rights) != 0 && (remote.rights & remote_rights) != 0;
    longest = allowed ? std::min({local.len, remote.len, most}) : 0;
    local_offset = local.len - longest;
    remote_offset = remote.len - longest;
  }
};

// A range of a key, not empty, as somebody wants to use it.
struct KeyRange {
  uint32_t key;
  uint64_t address;
  uint64_t bytes;
  Access need;
};

// What is remembered of one end.
struct EndMemos {
  KeyMemo& named;
  KeyMemo& inner;
};

// Pieces of client memory that is there for good, in order. Trivial: filled as far as needed.
struct PinnedPieces {
  struct Piece {
    uint64_t va;
    uint64_t bytes;
  };
  uint32_t count;
  std::array<Piece, 64> pieces;
};

// How far a range of a list was gone through.
struct ListPoint {
  uint32_t entry = 0;
  uint64_t begin = 0;  // offset of the entry's first byte in the key
  uint64_t at = 0;     // of the next byte of the range in the entry
  uint64_t left = 0;   // bytes of the range from there on
};

// What lies behind a range of a key: the first pieces, and where the next ones begin. All are
// checked already. Trivial: filled as far as needed.
struct PinnedRange {
  PinnedPieces now;
  uint32_t count;    // of all pieces
  const Mkey* list;  // null: `now` are all of them
  ListPoint next;
  Access need;
  KeyMemo inner;
};

// What lies behind a range of a direct key of pinned memory, or of a list (KLM) of such keys.
// False: the key is another kind, or does not allow it; the general way (translate.hh) knows more.
bool find_pinned(const Translator&, const KeyRange&, EndMemos, PinnedRange&) noexcept;
// The next pieces; false: there are none.
bool next_pinned(const KeyTable&, PinnedRange&) noexcept;
// The client address of a range of a direct key; 0: the general way knows more.
uint64_t find_direct(const Translator&, const KeyRange&, KeyMemo&) noexcept;

}  // namespace kilim::vhca::tpt
