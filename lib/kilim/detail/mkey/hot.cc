// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the undefined symbols of this object can
// be checked: no heap, lock, log, throw, virtual or system call. Never run.
#include "kilim/detail/mkey/binding.hh"
#include "kilim/detail/mkey/defer_queue.hh"
#include "kilim/detail/mkey/epoch.hh"
#include "kilim/detail/mkey/mkey.hh"
#include "kilim/detail/mkey/mkey_binder.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mkey/mkey_binder_keys.hh"
#include "kilim/detail/mkey/mkey_cache.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/detail/umr/patch.hh"

namespace kilim::inline v1::mkey::hot {

Outcome bind_and_use(MkeyBinder& binder, Binding& b, const umr::View& v,
                     queue::Sge& next) noexcept {
  queue::WqeCursor c{binder.sq()};
  const Outcome o = binder.bind(c, b, {.access = umr::mkey_access(mr::Access::all)}, v);
  if (o.ok()) next.key = b.lkey_behind(c);
  binder.commit(c);
  return o;
}

Outcome bind_unseen(MkeyBinder& binder, Binding& b, std::span<const umr::Piece> pieces) noexcept {
  queue::WqeCursor c{binder.sq()};
  const Outcome o = binder.bind(c, b, {}, pieces);
  binder.commit(c);
  return o;
}

Outcome bind_by_builder(MkeyBinder& binder, Binding& b, const umr::View& v) noexcept {
  queue::WqeCursor c{binder.sq()};
  const auto build = [&](queue::WqeCursor& at, const Mkey& key, uint8_t tag,
                         const umr::UmrWr& wr) noexcept {
    return umr::umr_list(at, binder.request(key, tag, {}), v, wr);
  };
  const Outcome o = binder.bind_with(c, b, {}, build);
  binder.commit(c);
  return o;
}

uint32_t cache(MkeyCache& s) noexcept {
  Mkey* key = s.pop();
  if (key == nullptr) return 0;
  const uint32_t rkey = key->rkey().value() + umr::mkey_access(mr::Access::all);
  s.push(key);
  s.flush();
  s.release_owner();
  return rkey + s.count();
}

Outcome change_bound(MkeyBinder& binder, Binding& b, const prm::UmrLimits& limits,
                     const umr::View& v) noexcept {
  queue::WqeCursor c{binder.sq()};
  const auto build = [&](queue::WqeCursor& at, const Mkey& key, const umr::UmrWr& wr) noexcept {
    return umr::patch(at, limits, {.key = key.lkey, .max_entries = key.max_entries}, v, wr);
  };
  const Outcome o = binder.change_with(c, b, {}, build);
  binder.commit(c);
  return o;
}

uint64_t round(MkeyBinder& binder, const queue::Completion& done) noexcept {
  const uint64_t id = binder.handle_completion(done);
  binder.complete_retired();
  binder.poll();
  return id + (binder.flush() ? 1 : 0) + binder.invalidations_due() + binder.deferred();
}

bool hold(MkeyBinder& binder, Binding& b) noexcept {
  Binding fresh = binder.claim();
  if (!fresh) return false;
  binder.invalidate(b);
  b.end();
  b = std::move(fresh);
  return b.state() == MkeyState::free && b.key().state == MkeyState::free;
}

uint32_t handles(const Binding& b) noexcept {
  return b.valid() ? b.lkey().value() + b.rkey().value() : 0;
}

uint64_t state(MkeyBinder& binder) noexcept {
  binder.release_owner();
  return binder.counters().bound.read() + (binder.failed() ? 1 : 0) + (binder.idle() ? 2 : 0);
}

uint64_t clock(QueueClock& clock, const queue::Sq& sq) noexcept {
  clock.publish(sq);
  clock.recover(sq);
  return clock.posted() + clock.done();
}

Lkey ended(DeferQueue& deferred, Epochs& epochs) noexcept {
  deferred.release_all();
  Mkey* key = deferred.pop();
  deferred.request_epoch();
  return key == nullptr ? Lkey{deferred.epoch() + epochs.max_queues()} : key->lkey;
}

uint32_t left(const MkeyPool& pool) noexcept {
  return pool.available() + pool.size() + pool.limit();
}

}  // namespace kilim::inline v1::mkey::hot
