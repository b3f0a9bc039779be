// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". Adapter's lock held. Never allocates, never touches
// client memory.
#include "vhca/tpt/key_memo.hh"

#include "vhca/memory/dma.hh"

namespace kilim::vhca {

namespace {

// `m` lets its user in, whose rights are not looked at. False: it is another kind.
bool remember(const Mkey& m, KeyMemo& memo) noexcept {
  if (m.mode != KeyMode::direct || m.length64 || m.paged != nullptr) return false;
  if (!dma::in_client_range(Va{m.va}, m.len)) return false;
  memo = {m.key, m.rights, m.start, m.len, m.va};
  return true;
}

// Another key below a list than the one remembered.
[[gnu::noinline]] bool learn_inner(const KeyTable& keys, uint32_t key, const Access& need,
                                   KeyMemo& memo) noexcept {
  const Mkey* m = keys.at(key >> 8);
  return check_key(m, key, need).ok() && remember(*m, memo);
}

// The pieces of a range that is in the bounds of its key, whose list is nothing but KLMs. It is
// read as it lies there: most lists are used once before they change.
bool find_listed(const KeyTable& keys, const Mkey& m, const KeyRange& r, KeyMemo& memo,
                 PinnedPieces& out) noexcept {
  const Access need{r.need.pd, r.need.qpn, inner_rights(r.need.rights)};
  if ((memo.rights & need.rights) != need.rights) memo = {};
  KeyMemo inner = memo;  // a copy: what is written below may be anywhere
  PinnedPieces::Piece* piece = out.pieces.data();
  const prm::Klm* e = m.list.get();
  const prm::Klm* const end = e + std::min<std::size_t>(m.used, out.pieces.size());
  uint64_t at = r.address - m.start;  // from the next entry on
  for (uint64_t left = r.bytes; left != 0; e++) {
    if (e == end) return false;
    uint64_t bytes = e->byte_count.host();
    const uint32_t key = e->mkey.host();
    if (bytes <= at) [[unlikely]] {
      if (bytes == 0 && key != 0) return false;  // 2 GiB
      at -= bytes;
      continue;
    }
    if (key != inner.key) [[unlikely]] {
      if (!learn_inner(keys, key, need, memo)) return false;
      inner = memo;
    }
    bytes = std::min(bytes - at, left);
    const uint64_t offset = e->address.host() + at - inner.start;
    if (!inner.holds(offset, bytes)) return false;
    *piece++ = {inner.va + offset, bytes};
    left -= bytes;
    at = 0;
  }
  out.count = static_cast<uint32_t>(piece - out.pieces.data());
  return true;
}

bool find_direct(const KeyMemo& memo, const KeyRange& r, PinnedPieces& out) noexcept {
  const uint64_t offset = r.address - memo.start;
  out.count = 1;
  out.pieces[0] = {memo.va + offset, r.bytes};
  return (memo.rights & r.need.rights) == r.need.rights && memo.holds(offset, r.bytes);
}

}  // namespace

bool find_pinned(const Translator& t, const KeyRange& r, EndMemos memos,
                 PinnedPieces& out) noexcept {
  if (r.key == memos.named.key) return find_direct(memos.named, r, out);
  const Mkey* m = t.keys->at(r.key >> 8);
  if (!check_key(m, r.key, r.need).ok()) return false;
  if (remember(*m, memos.named)) return find_direct(memos.named, r, out);
  if (m->mode != KeyMode::klm || !m->only_klms || m->is_signed()) return false;
  if (t.max_indirection == 0) return false;
  const uint64_t at = r.address - m->start;
  if (!m->length64 && (at > m->len || r.bytes > m->len - at)) return false;
  return find_listed(*t.keys, *m, r, memos.inner, out);
}

uint64_t find_direct(const Translator& t, const KeyRange& r, KeyMemo& memo) noexcept {
  if (r.key != memo.key || memo.len == 0) {
    const Mkey* m = t.keys->at(r.key >> 8);
    if (!check_key(m, r.key, r.need).ok() || !remember(*m, memo)) return 0;
  }
  const uint64_t offset = r.address - memo.start;
  const bool fits = (memo.rights & r.need.rights) == r.need.rights && memo.holds(offset, r.bytes);
  return fits ? memo.va + offset : 0;
}

}  // namespace kilim::vhca
