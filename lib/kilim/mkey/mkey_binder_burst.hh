// SPDX-License-Identifier: BSD-3-Clause
// The inline functions of MkeyBinder that a worker calls in a burst.
// Owner: the worker of the binder's queue. Never allocates, blocks or logs.
#pragma once

#include "kilim/mkey/mkey_binder.hh"
#include "kilim/umr/umr_wqe.hh"

namespace kilim::mkey {

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

// ---- keys

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

// ---- WQEs

// Appends a WQE that changes the key by build(fence bits) and records it. The fence makes it wait
// for the WQEs of this queue that use the key, as lkey_behind() noted them.
template <typename Build>
[[gnu::always_inline]] inline Outcome MkeyBinder::append(queue::WqeCursor& c, Mkey& key,
                                                         bool reads_keys, MkeyState to,
                                                         Build build) noexcept {
  KILIM_ASSERT(c.writes(sq_) && head_ - tail_ <= mask_);
  const uint8_t pending = c.pending_fence();
  const umr::MkeyHistory past{key.end, key.used, key.has(Mkey::used_here)};
  const Outcome o = build(fences_.before(c, past, sq_.retired(), reads_keys));
  if (!o.ok()) [[unlikely]] {
    c.fence_next(pending);
    fences_.forget(sq_.retired());
    return o;
  }
  key.end = c.position();
  key.become(to);
  key.clear(Mkey::to_invalidate | Mkey::used_here);
  changes_[head_++ & mask_] = {&key, key.end, 0};
  return o;
}

// Regions' keys rarely have indices within the pool's range, so the cheap check settles most views.
inline uint32_t MkeyBinder::levels_over(const umr::View& view) const noexcept {
  bool any = false;
  for (uint32_t i = 0; i < view.count; i++) any |= pool_.may_hold(view.pieces[i].key);
  return any ? deepest_of(view) + 1 : 1;
}

template <typename Build>
[[gnu::always_inline]] inline Outcome MkeyBinder::bind_at(queue::WqeCursor& c, Binding& b,
                                                          const Bind& how, uint32_t levels,
                                                          Build build) noexcept {
  owner_.check();
  if (failed_) [[unlikely]]
    return {Refusal::queue_failed, 0, 0};
  if (how.reads_keys && levels < 2) levels = 2;  // using the key uses the keys below it
  if (too_deep(levels)) [[unlikely]]
    return {Refusal::too_deep, levels, config_.max_indirection};
  Mkey* key = b.key_;
  const bool replaced = !how.owner_only && tags_used_up(*key);
  if (replaced) [[unlikely]] {
    key = claim_key();
    if (key == nullptr) return {Refusal::no_key, 1, 0};
  }
  const auto tag = static_cast<uint8_t>(tag_of(key->lkey) + 1);
  const Outcome o = append(c, *key, how.reads_keys, MkeyState::posted, [&](uint8_t fence) noexcept {
    return build(c, *key, tag, umr::UmrWr{how.wr_id, fence});
  });
  if (!o.ok()) [[unlikely]] {
    if (replaced) return_to_cache(*key);
    return o;
  }
  key->lkey = Lkey{(key->lkey.value() & ~0xffu) | tag};
  key->binds++;
  key->set_levels(levels);
  if (!how.owner_only) key->tags_now++;
  if (replaced) replace(b, *key);
  return o;
}

template <typename Build>
[[gnu::always_inline]] inline Outcome MkeyBinder::bind_with(queue::WqeCursor& c, Binding& b,
                                                            const Bind& how, Build build) noexcept {
  return bind_at(c, b, how, how.levels == 0 ? 1 : how.levels, build);
}

inline Outcome MkeyBinder::bind(queue::WqeCursor& c, Binding& b, const Bind& how,
                                const umr::View& view) noexcept {
  const auto build = [&](queue::WqeCursor& at, const Mkey& key, uint8_t tag,
                         const umr::UmrWr& wr) noexcept {
    return umr::umr_list(at, request(key, tag, how), view, wr);
  };
  uint32_t levels = how.levels;
  if (levels != 1) {
    const uint32_t seen = levels_over(view);
    levels = seen > levels ? seen : levels;
  }
  return bind_at(c, b, how, levels, build);
}

template <typename Build>
[[gnu::always_inline]] inline Outcome MkeyBinder::change_with(queue::WqeCursor& c, Binding& b,
                                                              const Bind& how,
                                                              Build build) noexcept {
  owner_.check();
  if (failed_) [[unlikely]]
    return {Refusal::queue_failed, 0, 0};
  Mkey& key = *b.key_;
  KILIM_ASSERT(key.state == MkeyState::posted || key.state == MkeyState::valid);
  const uint32_t levels = how.reads_keys && how.levels < 2 ? 2 : how.levels;
  if (levels > key.levels()) {
    if (too_deep(levels)) return {Refusal::too_deep, levels, config_.max_indirection};
    key.set_levels(levels);
  }
  return append(c, key, how.reads_keys, MkeyState::posted, [&](uint8_t fence) noexcept {
    return build(c, key, umr::UmrWr{how.wr_id, fence});
  });
}

[[gnu::always_inline]] inline void MkeyBinder::commit(queue::WqeCursor& c) noexcept {
  owner_.check();
  const bool anything = c.position() != sq_.posted();
  if (anything) c.signal_last();
  if (due_first_ != Mkey::none && !failed_ && c.fits(2) && next_due() != nullptr) [[unlikely]] {
    c.leave();
    commit_invalidations();
    c.reload();
  } else {
    c.commit();
  }
}

inline bool MkeyBinder::flush() noexcept {
  if (failed_ || due_first_ == Mkey::none) return false;
  queue::WqeCursor c{sq_};
  const uint32_t from = sq_.posted();
  commit(c);
  return sq_.posted() != from;
}

// ---- completions

inline void MkeyBinder::complete_until(uint32_t position) noexcept {
  uint32_t bound = 0;
  uint32_t tail = tail_;
  for (; tail != head_; tail++) {
    const Change change = changes_[tail & mask_];
    if (umr::distance(change.end, position) > 0) break;
    Mkey& key = *change.key;
    if (key.end != change.end) continue;  // changed again since
    if (key.state == MkeyState::posted) [[likely]] {
      key.clear(Mkey::swapping);
      key.become(MkeyState::valid);
      bound++;
    } else if (key.state == MkeyState::invalidating) {
      handle_invalidated(key);
    }
  }
  tail_ = tail;
  counters_.bound.add(bound);
}

inline uint64_t MkeyBinder::handle_completion(const queue::Completion& c) noexcept {
  owner_.check();
  if (c.ok()) [[likely]] {
    const uint64_t id = sq_.retire(c.wqe_counter);
    complete_retired();
    return id;
  }
  if (!c.of_requester()) return c.wr_id;  // sig_err: about a key, not about a request
  const uint32_t ahead = static_cast<uint16_t>(c.wqe_counter - sq_.retired());
  const uint32_t start = sq_.retired() + ahead;
  const uint64_t id = sq_.retire(c.wqe_counter);
  if (!failed_) fail(start);
  return id;
}

}  // namespace kilim::mkey
