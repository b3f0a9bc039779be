// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates, never touches client memory but through Paging.
#include "vhca/tpt/fault_walk.hh"

#include <algorithm>

#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::tpt {

namespace {

// Entries that take some ten milliseconds. The kernel has no limit; a client could keep it busy.
constexpr uint32_t most_entries = 1u << 24;

// The first word of any entry, whatever the key's kind: of entries with a fixed size it is reserved
// for the adapter, of a strided list it is a repetition's length, then stride and length.
uint64_t handler_bytes(const Mkey& m, uint32_t i) noexcept {
  return m.list[i].byte_count.host();
}

}  // namespace

FaultWalk::FaultWalk(const Translator& t, bool write) noexcept
    : keys_(*t.keys),
      paging_(*t.paging),
      write_(write),
      limit_(static_cast<uint8_t>(std::min<std::size_t>(t.max_indirection, walk_depth))) {}

Verdict FaultWalk::serve(uint32_t key, uint64_t address, uint64_t bytes) noexcept {
  depth_ = 0;
  ended_ = false;
  Verdict d = enter(key, address, bytes, 0);
  while (d.ok() && !ended_ && depth_ > 0) {
    Frame& f = frames_[depth_ - 1u];
    const Mkey& m = *f.key;
    const uint32_t i = f.at;
    const bool first = i == f.first;
    const uint64_t skip = first ? f.skip : 0;
    const uint64_t n = f.last != 0 ? f.last : handler_bytes(m, i) - skip;
    const auto level = static_cast<uint8_t>(f.level + 1);
    f.last = 0;
    f.at--;
    if (first) depth_--;
    if (n != 0) d = enter(m.list[i].mkey.host(), m.list[i].address.host() + skip, n, level);
  }
  return d;
}

// find_odp_mkey(): it knows regions on demand, windows and keys made by command, nothing else. What
// it does not know it takes for pinned, and with it all that waits still: an entry that stands in
// front of a pinned one in its list is never looked at.
Verdict FaultWalk::enter(uint32_t key, uint64_t address, uint64_t bytes, uint8_t level) noexcept {
  const Mkey* m = keys_.at(key >> 8);
  if (m == nullptr || (m->mode == KeyMode::direct && m->paged == nullptr)) {
    mapped_ += bytes;
    ended_ = true;
    return {};
  }
  if (m->mode == KeyMode::direct) return bring_in(*m, key, address, bytes);
  return enter_list(*m, address, bytes, level);
}

Verdict FaultWalk::enter_list(const Mkey& m, uint64_t address, uint64_t bytes,
                              uint8_t level) noexcept {
  if (level >= limit_) return protection::depth;
  uint64_t offset = address - m.start;
  uint64_t left = bytes;
  Frame f{&m, level, 0, 0, 0, 0};
  bool any = false;
  for (uint32_t i = 0; left != 0 && i < m.used; i++) {
    if (++entries_ > most_entries) return protection::steps;
    const uint64_t held = handler_bytes(m, i);
    if (offset >= held) {
      offset -= held;
      continue;
    }
    const uint64_t n = std::min(left, held - offset);
    if (!any) {
      f.first = i;
      f.skip = offset;
    }
    any = true;
    f.at = i;
    f.last = n;
    left -= n;
    offset = 0;
  }
  if (any) frames_[depth_++] = f;
  return {};
}

Verdict FaultWalk::bring_in(const Mkey& m, uint32_t key, uint64_t address,
                            uint64_t bytes) noexcept {
  const Piece piece{m.va + (address - m.start), bytes, m.paged.get()};
  if (m.key != key || address < m.start || PageRange::of(piece.va, bytes).empty())
    return protection::gone;
  if (paging_.bring_in(piece, write_, true).failed()) return protection::gone;
  mapped_ += bytes;
  return {};
}

}  // namespace kilim::vhca::tpt
