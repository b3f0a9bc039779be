// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". Adapter's lock held. Never allocates, never touches
// client memory.
#include "vhca/tpt/key_memo.hh"

#include "vhca/memory/dma.hh"
#include "vhca/tpt/list.hh"

namespace kilim::vhca::tpt {

namespace {

// `m` lets its user in, whose rights are not looked at. False: it is another kind.
bool remember(const Mkey& m, KeyMemo& memo) noexcept {
  if (m.mode != KeyMode::direct || m.length64 || m.paged != nullptr) return false;
  if (!memory::dma::in_client_range(Va{m.va}, m.len)) return false;
  memo = {m.key, m.rights, m.start, m.len, m.va};
  return true;
}

// Another key below a list than the one remembered.
[[gnu::noinline]] bool learn_inner(const KeyTable& keys, uint32_t key, const Access& need,
                                   KeyMemo& memo) noexcept {
  const Mkey* m = keys.at(key >> 8);
  return check_key(m, key, need).ok() && remember(*m, memo);
}

// A list's entry: how many bytes it shows. False: nothing that the straight way knows (2 GiB).
bool entry_bytes(const prm::Klm& e, uint64_t& bytes) noexcept {
  bytes = e.byte_count.host();
  return bytes != 0 || e.mkey.host() == 0;
}

// The entry in which `offset` lies, most often the one where the last range ended, or one of the
// first. Far from both it is searched for, in the list as the general way has it. False: there is
// none, or the general way knows more.
bool find_entry(Mkey& m, uint64_t offset, ListPoint& p) noexcept {
  constexpr uint32_t near = 64;
  const bool ahead = m.resume_at <= offset;
  p.entry = ahead ? m.resume_entry : 0;
  p.begin = ahead ? m.resume_at : 0;
  const uint32_t end = std::min(m.used, p.entry + near);
  for (uint64_t bytes = 0; p.entry < end; p.entry++, p.begin += bytes) {
    if (!entry_bytes(m.list[p.entry], bytes)) return false;
    if (offset - p.begin < bytes) {
      p.at = offset - p.begin;
      return true;
    }
  }
  if (!m.compiled) compile_list(m);
  if (!m.list_valid || m.strided || !m.dense) return false;
  p.entry = find_span(m, offset);
  if (p.entry == m.span_count) return false;
  p.begin = p.entry == 0 ? 0 : m.spans[p.entry - 1].end;
  p.at = offset - p.begin;
  return true;
}

// A list that is read: whose, with which rights, and the key below it that was met last.
struct ListReader {
  const KeyTable& keys;
  const Mkey& m;
  const Access& need;
  KeyMemo& memo;
};

// Up to `most` pieces from `p` on, which moves behind them. The list is read as it lies there: most
// are used once before they change. False: some key does not allow it, or the list ends.
bool take_pieces(const ListReader& from, ListPoint& p, PinnedPieces& out) noexcept {
  KeyMemo& memo = from.memo;
  PinnedPieces::Piece* piece = out.pieces.data();
  PinnedPieces::Piece* const last = piece + out.pieces.size();
  ListPoint q = p;  // a copy: what is written below may be anywhere
  KeyMemo known = memo;
  const prm::Klm* const list = from.m.list.get();
  while (q.left != 0 && piece != last) {
    if (q.entry == from.m.used) return false;
    const prm::Klm& e = list[q.entry];
    const uint64_t bytes = e.byte_count.host();
    const uint32_t key = e.mkey.host();
    if (bytes == 0) [[unlikely]] {
      if (key != 0) return false;  // 2 GiB
      q.entry++;
      continue;
    }
    if (key != known.key) [[unlikely]] {
      if (!learn_inner(from.keys, key, from.need, memo)) return false;
      known = memo;
    }
    const uint64_t n = std::min(bytes - q.at, q.left);
    const uint64_t offset = e.address.host() + q.at - known.start;
    if (!known.holds(offset, n)) return false;
    *piece++ = {known.va + offset, n};
    q.left -= n;
    q.at += n;
    if (q.at != bytes) continue;
    q.entry++;
    q.begin += bytes;
    q.at = 0;
  }
  p = q;
  out.count = static_cast<uint32_t>(piece - out.pieces.data());
  return true;
}

// The pieces of a range that is in the bounds of its key, whose list is nothing but KLMs. The first
// ones are kept; the others are checked, and found again when it is their turn.
bool find_listed(const KeyTable& keys, Mkey& m, const KeyRange& r, KeyMemo& memo,
                 PinnedRange& out) noexcept {
  const Access need{r.need.pd, r.need.qpn, inner_rights(r.need.rights)};
  if ((memo.rights & need.rights) != need.rights) memo = {};
  ListPoint p;
  p.left = r.bytes;
  if (!find_entry(m, r.address - m.start, p)) return false;
  if (!take_pieces({keys, m, need, memo}, p, out.now)) return false;
  out.count = out.now.count;
  out.list = nullptr;
  if (p.left != 0) [[unlikely]] {
    out.list = &m;
    out.next = p;
    out.need = need;
    out.inner = memo;
    PinnedPieces rest;
    while (p.left != 0) {
      if (!take_pieces({keys, m, need, memo}, p, rest)) return false;
      out.count += rest.count;
    }
  }
  m.resume_entry = p.entry;
  m.resume_at = p.begin;
  return true;
}

bool find_direct(const KeyMemo& memo, const KeyRange& r, PinnedRange& out) noexcept {
  const uint64_t offset = r.address - memo.start;
  out.count = out.now.count = 1;
  out.list = nullptr;
  out.now.pieces[0] = {memo.va + offset, r.bytes};
  return (memo.rights & r.need.rights) == r.need.rights && memo.holds(offset, r.bytes);
}

}  // namespace

bool find_pinned(const Translator& t, const KeyRange& r, EndMemos memos,
                 PinnedRange& out) noexcept {
  if (r.key == memos.named.key) return find_direct(memos.named, r, out);
  Mkey* m = t.keys->at(r.key >> 8);
  if (!check_key(m, r.key, r.need).ok()) return false;
  if (remember(*m, memos.named)) return find_direct(memos.named, r, out);
  if (m->mode != KeyMode::klm || !m->only_klms || m->converts()) return false;
  if (t.max_indirection == 0) return false;
  const uint64_t at = r.address - m->start;
  if (!m->length64 && (at > m->len || r.bytes > m->len - at)) return false;
  return find_listed(*t.keys, *m, r, memos.inner, out);
}

bool next_pinned(const KeyTable& keys, PinnedRange& r) noexcept {
  if (r.list == nullptr || r.next.left == 0) return false;
  return take_pieces({keys, *r.list, r.need, r.inner}, r.next, r.now);
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

}  // namespace kilim::vhca::tpt
