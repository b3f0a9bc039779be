// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/umr/fence.hh"
#include "kilim/umr/key.hh"
#include "kilim/umr/key_pool.hh"
#include "kilim/umr/klm_list.hh"
#include "kilim/umr/refusal.hh"
#include "kilim/umr/umr_wqe.hh"
#include "kilim/umr/view.hh"

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

Outcome drop(queue::Sq& sq, IndirectKey& key, const FencePlanner& fences) noexcept {
  queue::WqeCursor c{sq};
  const UmrWr wr{.flags = fences.before_umr(KeyUse::in_flight)};
  const Outcome o = local_invalidate(c, key.lkey, wr);
  if (o.ok()) key.become(KeyState::invalidating);
  c.commit();
  return o;
}

uint32_t stash(KeyStash& s) noexcept {
  IndirectKey* key = s.take();
  if (key == nullptr) return 0;
  const uint32_t rkey = key->rkey().value() + mkey_access(mr::Access::all);
  s.give(key);
  s.flush();
  return rkey + s.count();
}

uint32_t next(const ListRequest& r) noexcept {
  return r.new_key().value();
}

uint32_t left(const KeyPool& pool) noexcept {
  return pool.available() + pool.size();
}

const char* say(const Outcome& o) noexcept {
  return text(o.why);
}

}  // namespace kilim::umr::hot
