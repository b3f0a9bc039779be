// SPDX-License-Identifier: BSD-3-Clause
// Appends the UMR that suits a layout: an inline list where it fits into a WQE, a list by pointer
// where it does not, a plain list where a strided layout exceeds the 16-bit fields. The caller may
// force the form.
// Owner: the queue's worker. Never allocates, blocks or logs; list memory comes from set-up.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/umr/fixed.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/pointer_wqe.hh"
#include "kilim/detail/umr/strided.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/umr_limits.hh"

namespace kilim::inline v1::umr {

// The place of a UMR's list. by_size: inline if it fits into a WQE.
enum class Form : uint8_t { by_size, inline_list, by_pointer };

// What a worker's UMRs are built with.
struct UmrContext {
  prm::UmrLimits limits;
  ListMemory* memory = nullptr;  // null: inline lists only
  Form form = Form::by_size;
  uint32_t levels = 1;          // indirect keys on the way to memory, the bound key included
  ListWriter writer = nullptr;  // select_list_writer(), for pieces that have not been summed up
};

// Whether the device follows so many indirect keys.
inline Outcome check_nesting(const UmrContext& context) noexcept {
  if (context.levels > context.limits.max_indirection)
    return {Refusal::too_deep, context.levels, context.limits.max_indirection};
  return {};
}
// A key cannot have an entry under itself: its translation would never reach memory.
inline Outcome check_itself(Lkey key, const Piece* pieces, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; i++) {
    if (index_of(pieces[i].key) == index_of(key)) return {Refusal::itself, i, 0};
  }
  return {};
}
// Whether a list of so many octowords lies in the WQE.
inline bool goes_inline(const UmrContext& context, uint32_t octowords) noexcept {
  if (context.form != Form::by_size) return context.form == Form::inline_list;
  return octowords <= max_inline_klms;
}

namespace detail {
// Allocates memory for a list of `entries`, after checking everything else that could refuse the
// WQE.
inline Outcome allocate_list(const queue::WqeCursor& c, const UmrContext& context,
                             const ListRequest& r, uint32_t entries, StoredList& out) noexcept {
  const uint32_t octowords = klm_octowords(entries);
  if (entries > r.max_entries) return {Refusal::over_key, entries, r.max_entries};
  if (const Outcome o = check_reach(c, context.limits, r, octowords); !o.ok()) return o;
  const uint64_t most = context.memory == nullptr ? 0 : context.memory->capacity_octowords();
  if (context.memory != nullptr) out = context.memory->allocate(octowords);
  if (out.memory == nullptr)
    return {Refusal::no_list_memory, octowords, static_cast<uint32_t>(most < ~0u ? most : ~0u)};
  return {};
}
}  // namespace detail

// Appends a UMR with the view as a list. A list by pointer lies in context.memory; the caller
// releases it when the UMR has completed.
inline Outcome umr_view(queue::WqeCursor& c, const UmrContext& context, const ListRequest& r,
                        const View& view, const UmrWr& wr) noexcept {
  if (const Outcome o = check_nesting(context); !o.ok()) return o;
  if (const Outcome o = check_itself(r.key, view.pieces, view.count); !o.ok()) return o;
  if (view.count == 0 || goes_inline(context, klm_octowords(view.count)))
    return umr_list(c, r, view, wr);
  StoredList list;
  if (const Outcome o = detail::allocate_list(c, context, r, view.count, list); !o.ok()) return o;
  encode_klm_list(list.memory, view);
  list.length = view.length;
  return umr_by_pointer(c, context.limits, r, list, wr);
}

// Takes pieces that have not been checked: they are written, summed up and checked in one pass.
inline Outcome umr_view(queue::WqeCursor& c, const UmrContext& context, const ListRequest& r,
                        std::span<const Piece> pieces, const UmrWr& wr) noexcept {
  const auto count = static_cast<uint32_t>(pieces.size());
  if (const Outcome o = check_nesting(context); !o.ok()) return o;
  if (const Outcome o = check_itself(r.key, pieces.data(), count); !o.ok()) return o;
  if (count == 0 || goes_inline(context, klm_octowords(count)))
    return umr_list(c, r, pieces, wr, context.writer);
  const uint64_t before = context.memory == nullptr ? 0 : context.memory->allocated();
  StoredList list;
  if (const Outcome o = detail::allocate_list(c, context, r, count, list); !o.ok()) return o;
  list.length = write_long_list(context.writer, list.memory, pieces);
  if (list.length == 0) {
    context.memory->rewind(before);
    return why_bad(pieces, r.max_entries);
  }
  return umr_by_pointer(c, context.limits, r, list, wr);
}

// Appends the UMR of a KSM key, whose entries have one size.
inline Outcome umr_fixed_view(queue::WqeCursor& c, const UmrContext& context, const ListRequest& r,
                              const FixedView& v, const UmrWr& wr) noexcept {
  if (const Outcome o = check_nesting(context); !o.ok()) return o;
  if (const Outcome o = check_itself(r.key, v.pieces, v.count); !o.ok()) return o;
  if (v.count == 0 || goes_inline(context, klm_octowords(v.count)))
    return umr_fixed(c, context.limits, r, v, wr);
  if (detail::resizes(r, v)) return {Refusal::keeps_entity, 0, 0};
  StoredList list;
  if (const Outcome o = detail::allocate_list(c, context, r, v.count, list); !o.ok()) return o;
  encode_ksm_list(list.memory, v);
  list.length = v.length;
  return umr_by_pointer(c, context.limits, r, list, wr);
}

namespace detail {
inline Outcome unrolled_inline(queue::WqeCursor& c, const ListRequest& r, const StridedView& v,
                               const UmrWr& wr) noexcept {
  PieceList<max_inline_klms> pieces;
  for_each_piece(v, [&pieces](Lkey key, uint64_t at, uint32_t bytes) noexcept {
    return pieces.add(key, at, bytes);
  });
  return umr_list(c, r, pieces.view(), wr);
}

inline Outcome umr_unrolled(queue::WqeCursor& c, const UmrContext& context, const ListRequest& r,
                            const StridedView& v, const UmrWr& wr) noexcept {
  const uint64_t pieces = pieces_of(v);
  const auto asked = static_cast<uint32_t>(pieces < ~0u ? pieces : ~0u);
  if (pieces > r.max_entries) return {Refusal::over_key, asked, r.max_entries};
  if (context.form == Form::inline_list && pieces > max_inline_klms)
    return {Refusal::too_many_inline, asked, max_inline_klms};
  if (goes_inline(context, klm_octowords(asked))) return unrolled_inline(c, r, v, wr);
  StoredList list;
  if (const Outcome o = allocate_list(c, context, r, asked, list); !o.ok()) return o;
  std::byte* to = list.memory;
  for_each_piece(v, [&to](Lkey key, uint64_t at, uint32_t bytes) noexcept {
    queue::store_pointer(to, at, bytes, key);
    to += octoword_bytes;
    return true;
  });
  for (uint32_t i = asked; i < klm_octowords(asked); i++, to += octoword_bytes)
    queue::store_zero(to);
  list.length = v.length();
  return umr_by_pointer(c, context.limits, r, list, wr);
}
}  // namespace detail

// Appends the UMR of a strided layout. If the device or the 16-bit fields cannot hold it, its
// blocks become a plain list; if the key has too few entries for that, the first reason is
// returned.
inline Outcome umr_strided_view(queue::WqeCursor& c, const UmrContext& context,
                                const ListRequest& r, const StridedView& v,
                                const UmrWr& wr) noexcept {
  if (const Outcome o = check_nesting(context); !o.ok()) return o;
  for (uint32_t i = 0; i < v.count; i++) {
    if (index_of(v.entries[i].key) == index_of(r.key)) return {Refusal::itself, i, 0};
    if (v.entries[i].bytes == 0) return {Refusal::empty, i, 0};
  }
  const Outcome whole = check_strided(context.limits, v);
  if (whole.why == Refusal::empty) return whole;
  if (!whole.ok()) {
    const Outcome o = detail::umr_unrolled(c, context, r, v, wr);
    const bool too_long = o.why == Refusal::over_key || o.why == Refusal::no_pointer;
    return too_long ? whole : o;
  }
  if (goes_inline(context, v.octowords())) return umr_strided(c, context.limits, r, v, wr);
  StoredList list;
  if (const Outcome o = detail::allocate_list(c, context, r, v.count + 1, list); !o.ok()) return o;
  encode_strided_list(list.memory, v);
  list.length = v.length();
  return umr_by_pointer(c, context.limits, r, list, wr);
}

// A layout of any form.
using Layout = std::variant<View, StridedView, FixedView>;

// Appends the UMR for it, by umr_view(), umr_strided_view() or umr_fixed_view().
inline Outcome umr_layout(queue::WqeCursor& c, const UmrContext& context, const ListRequest& r,
                          const Layout& layout, const UmrWr& wr) noexcept {
  if (const auto* v = std::get_if<View>(&layout)) return umr_view(c, context, r, *v, wr);
  if (const auto* v = std::get_if<StridedView>(&layout))
    return umr_strided_view(c, context, r, *v, wr);
  return umr_fixed_view(c, context, r, *std::get_if<FixedView>(&layout), wr);
}

}  // namespace kilim::inline v1::umr
