// SPDX-License-Identifier: BSD-3-Clause
// From a key, an address and a length to the pieces of client memory behind them, with every check
// that a card makes: key, tag, state, protection domain, queue, rights, bounds, depth of
// indirection. Adapter's lock held. Never allocates, never touches client memory.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "vhca/tpt/key_table.hh"
#include "vhca/tpt/protection.hh"

namespace kilim::vhca::tpt {

struct Access {
  Pdn pd;
  uint32_t qpn = prm::mkey::any_qpn;
  uint8_t rights = 0;  // prm::mkey::local_read ...; all of them are needed
  // Of a reliable connection: a page that is not there is brought in (protection::page), and a key
  // may be signed or encrypted; to others it is refused.
  bool may_fault = false;
};

// Trivial: arrays of it are made for each transfer and filled as far as needed.
struct Piece {
  uint64_t va;
  uint64_t bytes;
  PagedRegion* paged;  // whose pages have to be there first; null: pinned
};

// What a key below an indirect one has to allow: its owner grants remote rights on the upper key.
uint8_t inner_rights(uint8_t rights) noexcept;
// Whether this key, found or not, lets `need` in at all.
Verdict check_key(const Mkey*, uint32_t key, const Access& need) noexcept;
// The one piece behind a range of a direct key. False: refused, or a list: a Walk says which.
bool find_direct(const KeyTable& keys, uint32_t key, uint64_t address, uint64_t bytes,
                 const Access& need, Piece&) noexcept;

inline constexpr std::size_t walk_depth = 9;  // hard limit of max_indirection + 1

class Walk {
 public:
  // A few entries that repeat could keep the adapter at one request for minutes. Far beyond what
  // works: a gigabyte in pieces of 256 bytes.
  static constexpr uint32_t most_steps = 1u << 22;

  // Checks the key itself; `max_indirection` as the profile has it. Zero bytes: nothing is checked.
  Verdict open(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
               uint64_t bytes, const Access& need) noexcept;
  // The memory of a signed or encrypted key itself, its rights already checked.
  void open_memory(const KeyTable& keys, uint8_t max_indirection, Mkey&, Signature::Range,
                   const Access& need) noexcept;
  // The next piece, never empty; false: at the end, or denied().
  bool next(Piece& piece) noexcept;
  [[nodiscard]] Verdict denied() const noexcept { return denied_; }
  // The pieces are memory of which the wire has something else: signatures are added or taken away,
  // or it is encrypted.
  [[nodiscard]] bool is_signed() const noexcept { return signed_; }
  // The index of the direct key, or the null key, behind the piece that next() gave last. A direct
  // key's frame was left with its one piece, the null key's stays as long as more of them follow.
  [[nodiscard]] uint32_t piece_index() const noexcept {
    const bool null = depth_ > 0 && frames_[depth_ - 1u].key->mode == KeyMode::null;
    return frames_[null ? depth_ - 1u : depth_].key->index();
  }

 private:
  struct Frame {
    Mkey* key;
    uint64_t at;    // offset from the key's start
    uint64_t left;  // bytes still wanted here
  };
  Verdict enter(uint32_t key, uint64_t address, uint64_t bytes, const Access& need) noexcept;
  Verdict enter_null(uint32_t key, uint64_t bytes, const Access& need, Verdict other) noexcept;
  Verdict enter_converted(Mkey&, uint64_t offset, uint64_t bytes) noexcept;

  const KeyTable* keys_ = nullptr;
  Access inner_{};  // what the keys below the first one have to allow
  uint8_t limit_ = 0;
  uint8_t depth_ = 0;  // frames in use
  bool signed_ = false;
  uint32_t steps_ = 0;  // entries gone through, of all ranges since construction
  Verdict denied_;
  std::array<Frame, walk_depth> frames_;
};

// Walks the whole range without copying: whether all of it is allowed.
Verdict check_range(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
                    uint64_t bytes, const Access& need) noexcept;

}  // namespace kilim::vhca::tpt
