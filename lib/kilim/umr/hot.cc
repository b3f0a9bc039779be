// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/umr/binding.hh"
#include "kilim/umr/epoch.hh"
#include "kilim/umr/fence.hh"
#include "kilim/umr/fixed.hh"
#include "kilim/umr/key.hh"
#include "kilim/umr/key_pool.hh"
#include "kilim/umr/klm_list.hh"
#include "kilim/umr/list_memory.hh"
#include "kilim/umr/loom.hh"
#include "kilim/umr/loom_burst.hh"
#include "kilim/umr/patch.hh"
#include "kilim/umr/plan.hh"
#include "kilim/umr/pointer_wqe.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/shape.hh"
#include "kilim/umr/signature.hh"
#include "kilim/umr/strided.hh"
#include "kilim/umr/umr_wqe.hh"
#include "kilim/umr/view.hh"
#include "kilim/umr/weave.hh"
#include "kilim/umr/window.hh"

namespace kilim::umr::hot {

View collect(PieceList<max_inline_klms>& list, Lkey key, uint64_t address,
             uint64_t length) noexcept {
  list.clear();
  while (list.add(key, address, length) && list.count() < 4) address += length;
  return list.view();
}

View view(std::span<const Piece> pieces) noexcept {
  return View::of(pieces);
}

Outcome weave(queue::Sq& sq, const ListRequest& r, const View& v, const UmrWr& wr) noexcept {
  queue::WqeCursor c{sq};
  const Outcome o = umr_list(c, r, v, wr);
  if (o.ok()) c.commit();
  return o;
}

Outcome weave_and_use(Loom& loom, Binding& b, const View& v, queue::Sge& next) noexcept {
  queue::WqeCursor c{loom.sq()};
  const Outcome o = loom.bind(c, b, {.access = mkey_access(mr::Access::all)}, v);
  if (o.ok()) next.key = b.lkey_behind(c);
  loom.commit(c);
  return o;
}

Outcome weave_by(Loom& loom, Binding& b, const View& v) noexcept {
  queue::WqeCursor c{loom.sq()};
  const auto build = [&](queue::WqeCursor& at, const IndirectKey& key, uint8_t tag,
                         const UmrWr& wr) noexcept {
    return umr_list(at, loom.request(key, tag, {}), v, wr);
  };
  const Outcome o = loom.bind_with(c, b, {}, build);
  loom.commit(c);
  return o;
}

Outcome shaped(queue::WqeCursor& c, const ListShape& s, const View& v, const UmrWr& wr) noexcept {
  return s.ok() ? umr_shape(c, s, {.key = v.pieces->key}, v, wr) : Outcome{Refusal::empty, 0, 0};
}

Outcome shaped_of(queue::WqeCursor& c, const ListShape& s, const Piece& first,
                  const UmrWr& wr) noexcept {
  return umr_shape_of(
      c, s, {.key = first.key}, [&first](uint32_t) noexcept { return first; }, wr);
}

Outcome change(queue::WqeCursor& c, const KeyChange& k, const UmrWr& wr) noexcept {
  const Outcome o = change_key(c, k, wr);
  return o.ok() ? local_invalidate(c, k.key, wr) : o;
}

// What every form is given.
struct Job {
  const Means& means;
  const ListRequest& request;
  const Patch& patched;
  const UmrWr& wr;
};

Outcome lists(queue::WqeCursor& c, const Job& j, const View& v) noexcept {
  const Outcome o = weave(c, j.means, j.request, v, j.wr);
  return o.ok() ? patch(c, j.means.limits, j.patched, v, j.wr) : o;
}

Outcome strided(queue::WqeCursor& c, const Job& j, const StridedView& v) noexcept {
  return weave_strided(c, j.means, j.request, v, j.wr);
}

Outcome fixed(queue::WqeCursor& c, const Job& j, std::span<const Piece> pieces) noexcept {
  FixedView v;
  Outcome o = fixed_view(pieces, 12, v);
  if (o.ok()) o = weave_fixed(c, j.means, j.request, v, j.wr);
  return o.ok() ? patch_fixed(c, j.means.limits, j.patched, v, j.wr) : o;
}

Outcome stored(queue::WqeCursor& c, const Job& j, ListMemory& memory) noexcept {
  const StoredList list = memory.take(128);
  const Outcome o = patch_by_pointer(c, j.means.limits, j.patched, list, j.wr);
  memory.release(memory.taken());
  return o;
}

Outcome any(queue::WqeCursor& c, const Job& j, const Layout& layout, ListMemory& memory) noexcept {
  const uint64_t before = memory.taken();
  const std::byte* list = memory.memory_at(memory.take(4).address);
  if (list != nullptr) memory.rewind(before);
  return weave_any(c, j.means, j.request, layout, j.wr);
}

uint32_t stash(KeyStash& s) noexcept {
  IndirectKey* key = s.take();
  if (key == nullptr) return 0;
  const uint32_t rkey = key->rkey().value() + mkey_access(mr::Access::all);
  s.give(key);
  s.flush();
  s.release_owner();
  return rkey + s.count();
}

Outcome change_bound(Loom& loom, Binding& b, const Job& j, const View& v) noexcept {
  queue::WqeCursor c{loom.sq()};
  const auto build = [&](queue::WqeCursor& at, const IndirectKey& key, const UmrWr& wr) noexcept {
    return patch(at, j.means.limits, {.key = key.lkey, .max_entries = key.max_entries}, v, wr);
  };
  const Outcome o = loom.change_with(c, b, {}, build);
  loom.commit(c);
  return o;
}

uint64_t round(Loom& loom, const queue::Completion& done) noexcept {
  const uint64_t id = loom.completed(done);
  loom.settle();
  loom.turn();
  return id + (loom.flush() ? 1 : 0) + loom.ending() + loom.parked();
}

bool hold(Loom& loom, Binding& b) noexcept {
  Binding fresh = loom.take();
  if (!fresh) return false;
  loom.drop(b);
  b.end();
  b = std::move(fresh);
  return b.state() == KeyState::free && b.key().state == KeyState::free;
}

uint32_t handles(const Binding& b) noexcept {
  return b.valid() ? b.lkey().value() + b.rkey().value() : 0;
}

uint64_t state(Loom& loom) noexcept {
  loom.release_owner();
  return loom.counters().woven.read() + (loom.failed() ? 1 : 0) + (loom.idle() ? 2 : 0);
}

uint64_t clock(QueueClock& clock, const queue::Sq& sq) noexcept {
  clock.publish(sq);
  clock.restart(sq);
  return clock.posted() + clock.done();
}

Lkey ended(Limbo& limbo, Epochs& epochs) noexcept {
  limbo.open_gates();
  IndirectKey* key = limbo.pop();
  limbo.want_epoch();
  return key == nullptr ? Lkey{limbo.epoch() + epochs.max_queues()} : key->lkey;
}

uint32_t next(const ListRequest& r) noexcept {
  return r.new_key().value();
}

uint32_t left(const KeyPool& pool) noexcept {
  return pool.available() + pool.size() + pool.limit();
}

Way way_of(Plan& plan, const Scatter& l) noexcept {
  const Way best = plan.choose(l);
  if (plan.cost(best, l) > 0) plan.force(best);
  plan.set_cost(best, plan.costs()[0]);
  return plan.limits().list_pieces != 0 ? plan.choose(l) : best;
}

// A window through all of its states; what is refused or fails ends it.
template <WindowType T>
uint32_t window(queue::WqeCursor& c, FreeWindow<T>& w, const WindowBind& b,
                const queue::Completion& seen) noexcept {
  BindingWindow<T> binding;
  if (!bind(c, std::move(w), b, {}, binding).ok()) return 0;
  if (!seen.ok()) return give_up(std::move(binding)) ? 1 : 0;
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

uint8_t fences(const FencePlanner& fences, KeyUse use) noexcept {
  return static_cast<uint8_t>(fences.after_umr() | fences.before_umr(use));
}

}  // namespace kilim::umr::hot
