// SPDX-License-Identifier: BSD-3-Clause
// Makes a key show a layout by the form that suits it: inline where the list fits into a WQE, by
// pointer where it does not, a strided layout as a list where its fields are too short. The caller
// may force the form.
// Owner: the queue's worker. Never allocates, blocks or logs; list memory comes from set-up.
#pragma once

#include <cstdint>
#include <variant>

#include "kilim/base/ident.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "kilim/umr/fixed.hh"
#include "kilim/umr/klm_list.hh"
#include "kilim/umr/list_memory.hh"
#include "kilim/umr/pointer_wqe.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/strided.hh"
#include "kilim/umr/umr_wqe.hh"
#include "kilim/umr/view.hh"

namespace kilim::umr {

enum class Form : uint8_t { by_size, inline_list, by_pointer };

// What a worker weaves with.
struct Means {
  prm::UmrLimits limits;
  ListMemory* memory = nullptr;  // none: inline only
  Form form = Form::by_size;
  uint32_t levels = 1;  // of keys on the way to memory, the woven key included
};

namespace detail {
inline Outcome check_nesting(const Means& means) noexcept {
  if (means.levels > means.limits.max_indirection)
    return {Refusal::too_deep, means.levels, means.limits.max_indirection};
  return {};
}
// A key whose list names the key itself leads nowhere.
inline Outcome check_itself(Lkey key, const Piece* pieces, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; i++) {
    if (index_of(pieces[i].key) == index_of(key)) return {Refusal::itself, i, 0};
  }
  return {};
}
inline bool goes_inline(const Means& means, uint32_t octowords) noexcept {
  if (means.form != Form::by_size) return means.form == Form::inline_list;
  return octowords <= max_inline_klms;
}

// Room for a list of the key. Everything that could refuse the WQE is looked at first.
inline Outcome take_list(const queue::WqeCursor& c, const Means& means, const ListRequest& r,
                         uint32_t entries, StoredList& out) noexcept {
  const uint32_t octowords = klm_octowords(entries);
  if (entries > r.max_entries) return {Refusal::over_key, entries, r.max_entries};
  if (const Outcome o = check_reach(c, means.limits, r, octowords); !o.ok()) return o;
  const uint64_t most = means.memory == nullptr ? 0 : means.memory->capacity_octowords();
  if (means.memory != nullptr) out = means.memory->take(octowords);
  if (out.memory == nullptr)
    return {Refusal::no_list_memory, octowords, static_cast<uint32_t>(most < ~0u ? most : ~0u)};
  return {};
}
}  // namespace detail

// A list. By pointer it takes list memory, which is released when the UMR has completed.
inline Outcome weave(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                     const View& view, const UmrWr& wr) noexcept {
  if (const Outcome o = detail::check_nesting(means); !o.ok()) return o;
  if (const Outcome o = detail::check_itself(r.key, view.pieces, view.count); !o.ok()) return o;
  if (view.count == 0 || detail::goes_inline(means, klm_octowords(view.count)))
    return umr_list(c, r, view, wr);
  StoredList list;
  if (const Outcome o = detail::take_list(c, means, r, view.count, list); !o.ok()) return o;
  encode_klm_list(list.memory, view);
  list.length = view.length;
  return umr_by_pointer(c, means.limits, r, list, wr);
}

// Entries of one size, on a key that was made for such.
inline Outcome weave_fixed(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                           const FixedView& v, const UmrWr& wr) noexcept {
  if (const Outcome o = detail::check_nesting(means); !o.ok()) return o;
  if (const Outcome o = detail::check_itself(r.key, v.pieces, v.count); !o.ok()) return o;
  if (v.count == 0 || detail::goes_inline(means, klm_octowords(v.count)))
    return umr_fixed(c, means.limits, r, v, wr);
  if (detail::resizes(r, v)) return {Refusal::keeps_entity, 0, 0};
  StoredList list;
  if (const Outcome o = detail::take_list(c, means, r, v.count, list); !o.ok()) return o;
  encode_ksm_list(list.memory, v);
  list.length = v.length;
  return umr_by_pointer(c, means.limits, r, list, wr);
}

namespace detail {
inline Outcome weave_unrolled_inline(queue::WqeCursor& c, const ListRequest& r,
                                     const StridedView& v, const UmrWr& wr) noexcept {
  PieceList<max_inline_klms> pieces;
  for_each_piece(v, [&pieces](Lkey key, uint64_t at, uint32_t bytes) noexcept {
    return pieces.add(key, at, bytes);
  });
  return umr_list(c, r, pieces.view(), wr);
}

inline Outcome weave_unrolled(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                              const StridedView& v, const UmrWr& wr) noexcept {
  const uint64_t pieces = pieces_of(v);
  const auto asked = static_cast<uint32_t>(pieces < ~0u ? pieces : ~0u);
  if (pieces > r.max_entries) return {Refusal::over_key, asked, r.max_entries};
  if (means.form == Form::inline_list && pieces > max_inline_klms)
    return {Refusal::too_many_inline, asked, max_inline_klms};
  if (goes_inline(means, klm_octowords(asked))) return weave_unrolled_inline(c, r, v, wr);
  StoredList list;
  if (const Outcome o = take_list(c, means, r, asked, list); !o.ok()) return o;
  std::byte* to = list.memory;
  for_each_piece(v, [&to](Lkey key, uint64_t at, uint32_t bytes) noexcept {
    queue::store_pointer(to, at, bytes, key);
    to += octoword_bytes;
    return true;
  });
  for (uint32_t i = asked; i < klm_octowords(asked); i++, to += octoword_bytes)
    queue::store_zero(to);
  list.length = v.length();
  return umr_by_pointer(c, means.limits, r, list, wr);
}
}  // namespace detail

// A strided layout; as a list of its blocks where the device or 16 bits cannot hold it and the key
// has entries enough, otherwise refused for the first reason.
inline Outcome weave_strided(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                             const StridedView& v, const UmrWr& wr) noexcept {
  if (const Outcome o = detail::check_nesting(means); !o.ok()) return o;
  for (uint32_t i = 0; i < v.count; i++) {
    if (index_of(v.entries[i].key) == index_of(r.key)) return {Refusal::itself, i, 0};
    if (v.entries[i].bytes == 0) return {Refusal::empty, i, 0};
  }
  const Outcome whole = check_strided(means.limits, v);
  if (whole.why == Refusal::empty) return whole;
  if (!whole.ok()) {
    const Outcome o = detail::weave_unrolled(c, means, r, v, wr);
    const bool too_long = o.why == Refusal::over_key || o.why == Refusal::no_pointer;
    return too_long ? whole : o;
  }
  if (detail::goes_inline(means, v.octowords())) return umr_strided(c, means.limits, r, v, wr);
  StoredList list;
  if (const Outcome o = detail::take_list(c, means, r, v.count + 1, list); !o.ok()) return o;
  encode_strided_list(list.memory, v);
  list.length = v.length();
  return umr_by_pointer(c, means.limits, r, list, wr);
}

// A layout of any form, for who takes them all.
using Layout = std::variant<View, StridedView, FixedView>;

inline Outcome weave_any(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                         const Layout& layout, const UmrWr& wr) noexcept {
  if (const auto* v = std::get_if<View>(&layout)) return weave(c, means, r, *v, wr);
  if (const auto* v = std::get_if<StridedView>(&layout)) return weave_strided(c, means, r, *v, wr);
  return weave_fixed(c, means, r, *std::get_if<FixedView>(&layout), wr);
}

}  // namespace kilim::umr
