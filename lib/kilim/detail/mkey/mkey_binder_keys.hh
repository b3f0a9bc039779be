// SPDX-License-Identifier: BSD-3-Clause
// The inline functions of MkeyBinder that move keys: from the pool to a binding, and from a binding
// that ends to its invalidation, to the DeferQueue and back to the pool. Included by
// mkey_binder_burst.hh, which has the functions that append WQEs.
// Owner: the worker of the binder's queue. Never allocates, blocks or logs.
#pragma once

#include "kilim/detail/mkey/mkey_binder.hh"

namespace kilim::inline v1::mkey {

inline Lkey Binding::lkey_behind(const queue::WqeCursor& c) noexcept {
  KILIM_ASSERT(c.writes(binder_->sq_) && !key_->has(Mkey::swapping));
  KILIM_ASSERT(key_->state == MkeyState::posted || key_->state == MkeyState::valid);
  key_->used = c.position();
  key_->uses++;
  key_->set(Mkey::used_here);
  if (key_->levels() > 1) [[unlikely]]
    binder_->fences_.used_nested(c.position());
  return key_->lkey;
}

inline void Binding::end() noexcept {
  if (key_ != nullptr) binder_->end(*key_);
  key_ = nullptr;
}

// A free key of the binder's own: first those set aside for a swap, then the cache's. nullptr:
// none.
inline Mkey* MkeyBinder::claim_key() noexcept {
  if (spare_ == Mkey::none) return cache_.pop();
  Mkey& key = pool_.at(spare_);
  spare_ = key.next;
  key.next = Mkey::none;
  return &key;
}

inline Binding MkeyBinder::claim() noexcept {
  owner_.check();
  Mkey* key = claim_key();
  if (key == nullptr) return {};
  key->set(Mkey::bound);
  key->lcore = config_.lcore;
  key->window = deferred_.epoch();
  bound_++;
  return Binding{*this, *key};
}

// True: the next tag may equal that of a handle that somebody still holds. A handle withdrawn in
// epoch n cannot be used from epoch n + 2 on, so the tags of two windows are counted.
inline bool MkeyBinder::tags_used_up(Mkey& key) noexcept {
  const uint32_t passed = deferred_.epoch() - key.window;
  if (passed >= 2) {
    key.tags_before = passed >= 4 ? uint8_t{0} : key.tags_now;
    key.tags_now = 0;
    key.window = deferred_.epoch();
  }
  const uint32_t known = uint32_t{key.tags_before} + key.tags_now;
  if (known >= Mkey::tags / 2) deferred_.request_epoch();
  return known >= Mkey::tags - 1;
}

// Replaces the binding's key by a fresh one; the old key is invalidated.
inline void MkeyBinder::replace(Binding& b, Mkey& fresh) noexcept {
  fresh.set(Mkey::bound);
  fresh.lcore = config_.lcore;
  fresh.window = deferred_.epoch();
  bound_++;
  end(*b.key_);
  b.key_ = &fresh;
  counters_.parked.add(1);
}

// Puts the key at the end of the list of invalidations; a key that is in it already stays there.
inline void MkeyBinder::queue_invalidation(Mkey& key) noexcept {
  key.set(Mkey::to_invalidate);
  if (key.has(Mkey::listed)) return;
  key.set(Mkey::listed);
  const uint32_t number = pool_.number_of(key);
  key.next = Mkey::none;
  if (due_first_ == Mkey::none)
    due_first_ = number;
  else
    pool_.at(due_last_).next = number;
  due_last_ = number;
  due_count_++;
}

// The oldest key to invalidate, which stays in the list; nullptr: there is none.
inline Mkey* MkeyBinder::next_due() noexcept {
  while (due_first_ != Mkey::none) {
    Mkey& key = pool_.at(due_first_);
    if (key.has(Mkey::to_invalidate)) return &key;
    due_first_ = key.next;  // its invalidation is posted, or it was bound again
    due_count_--;
    key.next = Mkey::none;
    key.clear(Mkey::listed);
    if (!key.has(Mkey::bound) && key.state != MkeyState::invalidating) route(key);
  }
  return nullptr;
}

inline void MkeyBinder::invalidate(Binding& b) noexcept {
  owner_.check();
  const MkeyState s = b.key_->state;
  if (s == MkeyState::posted || s == MkeyState::valid) queue_invalidation(*b.key_);
}

// The key's binding has ended.
inline void MkeyBinder::end(Mkey& key) noexcept {
  owner_.check();
  bound_--;
  key.clear(Mkey::bound);
  if (key.has(Mkey::listed) && config_.invalidate == InvalidatePolicy::at_once)
    key.set(Mkey::to_invalidate);
  // Otherwise next_due() or handle_invalidated() continues with it.
  if (!key.has(Mkey::listed) && key.state != MkeyState::invalidating) route(key);
}

// Sends a key that no binding holds to its next station: invalidation, the DeferQueue or the cache.
inline void MkeyBinder::route(Mkey& key) noexcept {
  const bool passed = key.has(Mkey::passed);
  const bool free = key.state == MkeyState::free;
  if (!free && (passed || config_.invalidate == InvalidatePolicy::at_once))
    return queue_invalidation(key);
  if (passed) return return_to_cache(key);
  key.set(Mkey::deferred);
  deferred_.defer(key);
}

inline void MkeyBinder::return_to_cache(Mkey& key) noexcept {
  key.clear(Mkey::of_a_bind);
  key.next = Mkey::none;
  cache_.push(&key);
}

inline void MkeyBinder::poll() noexcept {
  owner_.check();
  clock_->publish(sq_);
  if (!deferred_.poll()) return;
  while (Mkey* key = deferred_.pop()) {
    key->clear(Mkey::deferred);
    key->set(Mkey::passed);
    route(*key);
  }
}

}  // namespace kilim::inline v1::mkey
