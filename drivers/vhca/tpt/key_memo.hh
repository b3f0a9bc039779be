// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". A direct key of pinned memory as one user found it
// last time, so that the next request need not look it up: its range, and what it allows. Owner: a
// queue pair; adapter's lock held. Never allocates, never touches client memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vhca/tpt/translate.hh"

namespace kilim::vhca {

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

// False: this key is another kind, or not `user`'s; whose rights are not looked at.
bool remember_key(const KeyTable&, uint32_t key, Access user, KeyMemo&) noexcept;

}  // namespace kilim::vhca
