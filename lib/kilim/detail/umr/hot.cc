// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/umr/crypto.hh"
#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/fixed.hh"
#include "kilim/detail/umr/hole.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/patch.hh"
#include "kilim/detail/umr/pointer_wqe.hh"
#include "kilim/detail/umr/shape.hh"
#include "kilim/detail/umr/signature.hh"
#include "kilim/detail/umr/strided.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/detail/umr/window.hh"
#include "kilim/detail/umr/window_state.hh"

namespace kilim::inline v1::umr::hot {

Piece hole_of(Lkey null_key, uint32_t bytes) noexcept {
  return hole(null_key, bytes);
}

View collect(PieceList<max_inline_klms>& list, Lkey key, uint64_t address,
             uint64_t length) noexcept {
  list.clear();
  while (list.add(key, address, length) && list.count() < 4) address += length;
  return list.view();
}

View view(std::span<const Piece> pieces) noexcept {
  return View::of(pieces);
}

Outcome bind(queue::Sq& sq, const ListRequest& r, const View& v, const UmrWr& wr) noexcept {
  queue::WqeCursor c{sq};
  const Outcome o = umr_list(c, r, v, wr);
  if (o.ok()) c.commit();
  return o;
}

Outcome unseen(queue::WqeCursor& c, const ListShape& s, std::span<const Piece> pieces,
               const UmrWr& wr) noexcept {
  if (!s.ok()) return {};
  const Outcome o = umr_shape(c, s, {.key = pieces[0].key}, pieces, wr);
  return o.ok() ? umr_shape_chosen(c, s, {.key = pieces[0].key}, pieces, wr) : o;
}

// By each writer of the table.
uint64_t written(std::byte* to, std::span<const Piece> pieces) noexcept {
  uint64_t length = write_list_base(to, pieces.data(), 1);
  for (const ListVariant& v : list_variants)
    length += write_list_by(select_list_writer(v.needs), to, pieces.data(), 8);
  return length + write_long_list(nullptr, to, pieces);
}

Outcome shaped(queue::WqeCursor& c, const ListShape& s, const View& v, const UmrWr& wr) noexcept {
  return s.ok() ? umr_shape(c, s, {.key = v.pieces->key}, v, wr) : Outcome{Refusal::empty, 0, 0};
}

Outcome shaped_of(queue::WqeCursor& c, const ListShape& s, const Piece& first,
                  const UmrWr& wr) noexcept {
  return umr_shape_of(
      c, s, {.key = first.key}, [&first](uint32_t) noexcept { return first; }, wr);
}

Outcome change(queue::WqeCursor& c, const MkeyChange& k, const UmrWr& wr) noexcept {
  const Outcome o = change_key(c, k, wr);
  return o.ok() ? local_invalidate(c, k.key, wr) : o;
}

// What every form is given.
struct Job {
  const UmrContext& context;
  const ListRequest& request;
  const Patch& patched;
  const UmrWr& wr;
};

Outcome lists(queue::WqeCursor& c, const Job& j, const View& v) noexcept {
  const Outcome o = umr_view(c, j.context, j.request, v, j.wr);
  return o.ok() ? patch(c, j.context.limits, j.patched, v, j.wr) : o;
}

Outcome unseen_lists(queue::WqeCursor& c, const Job& j, std::span<const Piece> pieces) noexcept {
  const Outcome o = umr_view(c, j.context, j.request, pieces, j.wr);
  return o.ok() ? patch(c, j.context.limits, j.patched, pieces, j.wr) : o;
}

Outcome strided(queue::WqeCursor& c, const Job& j, const StridedView& v) noexcept {
  return umr_strided_view(c, j.context, j.request, v, j.wr);
}

Outcome fixed(queue::WqeCursor& c, const Job& j, std::span<const Piece> pieces) noexcept {
  FixedView v;
  Outcome o = fixed_view(pieces, 12, v);
  if (o.ok()) o = umr_fixed_view(c, j.context, j.request, v, j.wr);
  return o.ok() ? patch_fixed(c, j.context.limits, j.patched, v, j.wr) : o;
}

Outcome stored(queue::WqeCursor& c, const Job& j, ListMemory& memory) noexcept {
  const StoredList list = memory.allocate(128);
  const Outcome o = patch_by_pointer(c, j.context.limits, j.patched, list, j.wr);
  memory.release(memory.allocated());
  return o;
}

Outcome any(queue::WqeCursor& c, const Job& j, const Layout& layout, ListMemory& memory) noexcept {
  const uint64_t before = memory.allocated();
  const std::byte* list = memory.memory_at(memory.allocate(4).address);
  if (list != nullptr) memory.rewind(before);
  return umr_layout(c, j.context, j.request, layout, j.wr);
}

uint32_t next(const ListRequest& r) noexcept {
  return r.new_key().value();
}

// A window through all of its states; what is refused or fails ends it.
template <WindowType T>
uint32_t window(queue::WqeCursor& c, FreeWindow<T>& w, const WindowBind& b,
                const queue::Completion& seen) noexcept {
  BindingWindow<T> binding;
  if (!bind(c, std::move(w), b, {}, binding).ok()) return 0;
  if (!seen.ok()) return abandon(std::move(binding)) ? 1 : 0;
  BoundWindow<T> bound = confirm(std::move(binding), seen);
  const uint32_t key = bound.rkey().value() + bound.rkey_behind(c).value();
  if constexpr (T == WindowType::type2)
    if (shut_by_peer(bound, seen, w)) return key;
  InvalidatingWindow<T> closing;
  if (invalidate(c, std::move(bound), {}, closing).ok()) w = confirm(std::move(closing), seen);
  return key;
}
template uint32_t window(queue::WqeCursor&, FreeWindow<WindowType::type1>&, const WindowBind&,
                         const queue::Completion&) noexcept;
template uint32_t window(queue::WqeCursor&, FreeWindow<WindowType::type2>&, const WindowBind&,
                         const queue::Completion&) noexcept;

FreeWindow<WindowType::type2> own(WindowOwner owner) noexcept {
  return FreeWindow<WindowType::type2>{std::move(owner)};
}

Outcome sign(queue::WqeCursor& c, const ListRequest& r, const View& v, SignedKey& key,
             const prm::Cqe& seen) noexcept {
  const SignRule rule{.memory = {.kind = SignKind::crc32c}};
  if (sign_error(seen, rule).key == key.memory_psv) key.note_error();
  return umr_signed(c, r, v, {rule, key}, {});
}

Outcome encrypt(queue::WqeCursor& c, const ListRequest& r, const View& v,
                const CryptoRule& rule) noexcept {
  return crypto_bsf_of(rule, false).dek.host() != 0 ? umr_crypto(c, r, v, rule, {}) : Outcome{};
}

Outcome sign_and_encrypt(queue::WqeCursor& c, const ListRequest& r, const View& v, const Signing& s,
                         const CryptoRule& rule) noexcept {
  return umr_signed_crypto(c, r, v, s, rule, {});
}

uint8_t track(FenceTrack& track, queue::WqeCursor& c, const MkeyHistory& key) noexcept {
  const uint8_t fence = track.before(c, key, c.retired(), false);
  track.used_nested(key.used_at);
  track.forget(c.retired());
  track.recover();
  return fence;
}

uint8_t fences(const FencePlanner& fences, MkeyUse use) noexcept {
  return static_cast<uint8_t>(fences.after_umr() | fences.before_umr(use));
}

}  // namespace kilim::inline v1::umr::hot
