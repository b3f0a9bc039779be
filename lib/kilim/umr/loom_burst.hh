// SPDX-License-Identifier: BSD-3-Clause
// The inline part of a loom (umr/loom.hh): what its worker calls in a burst.
// Owner: the worker of the loom's queue. Never allocates, blocks or logs.
#pragma once

#include "kilim/umr/loom.hh"
#include "kilim/umr/umr_wqe.hh"

namespace kilim::umr {

inline Lkey Binding::lkey_behind(const queue::WqeCursor& c) noexcept {
  KILIM_ASSERT(c.writes(loom_->sq_) && !key_->has(IndirectKey::swapping));
  KILIM_ASSERT(key_->state == KeyState::posted || key_->state == KeyState::valid);
  key_->used = c.position();
  key_->uses++;
  key_->set(IndirectKey::used_here);
  if (key_->levels() > 1) [[unlikely]]
    loom_->fences_.used_nested(c.position());
  return key_->lkey;
}

inline void Binding::end() noexcept {
  if (key_ != nullptr) loom_->end(*key_);
  key_ = nullptr;
}

// ---- keys

inline IndirectKey* Loom::take_key() noexcept {
  if (spare_ == IndirectKey::none) return stash_.take();
  IndirectKey& key = pool_.at(spare_);
  spare_ = key.next;
  key.next = IndirectKey::none;
  return &key;
}

inline Binding Loom::take() noexcept {
  owner_.check();
  IndirectKey* key = take_key();
  if (key == nullptr) return {};
  key->set(IndirectKey::bound);
  key->lcore = config_.lcore;
  key->window = limbo_.epoch();
  bound_++;
  return Binding{*this, *key};
}

// Whether the next tag may be one that somebody still knows: handles taken back at epoch n are
// nobody's at epoch n + 2.
inline bool Loom::tags_used_up(IndirectKey& key) noexcept {
  const uint32_t passed = limbo_.epoch() - key.window;
  if (passed >= 2) {
    key.tags_before = passed >= 4 ? uint8_t{0} : key.tags_now;
    key.tags_now = 0;
    key.window = limbo_.epoch();
  }
  const uint32_t known = uint32_t{key.tags_before} + key.tags_now;
  if (known >= IndirectKey::tags / 2) limbo_.want_epoch();
  return known >= IndirectKey::tags - 1;
}

// The binding goes on with another key; the old one ends.
inline void Loom::replace(Binding& b, IndirectKey& fresh) noexcept {
  fresh.set(IndirectKey::bound);
  fresh.lcore = config_.lcore;
  fresh.window = limbo_.epoch();
  bound_++;
  end(*b.key_);
  b.key_ = &fresh;
  counters_.parked.add(1);
}

inline void Loom::to_end(IndirectKey& key) noexcept {
  key.set(IndirectKey::ending);
  if (key.has(IndirectKey::listed)) return;
  key.set(IndirectKey::listed);
  const uint32_t number = pool_.number_of(key);
  key.next = IndirectKey::none;
  if (ending_first_ == IndirectKey::none)
    ending_first_ = number;
  else
    pool_.at(ending_last_).next = number;
  ending_last_ = number;
  ending_count_++;
}

// The oldest key that shall be invalidated, still in the list; nullptr: none.
inline IndirectKey* Loom::next_ending() noexcept {
  while (ending_first_ != IndirectKey::none) {
    IndirectKey& key = pool_.at(ending_first_);
    if (key.has(IndirectKey::ending)) return &key;
    ending_first_ = key.next;  // invalidated now, or it shows something new since
    ending_count_--;
    key.next = IndirectKey::none;
    key.clear(IndirectKey::listed);
    if (!key.has(IndirectKey::bound) && key.state != KeyState::invalidating) route(key);
  }
  return nullptr;
}

inline void Loom::drop(Binding& b) noexcept {
  owner_.check();
  const KeyState s = b.key_->state;
  if (s == KeyState::posted || s == KeyState::valid) to_end(*b.key_);
}

inline void Loom::end(IndirectKey& key) noexcept {
  owner_.check();
  bound_--;
  key.clear(IndirectKey::bound);
  if (key.has(IndirectKey::listed) && config_.ending == Ending::at_once)
    key.set(IndirectKey::ending);
  // What is under way goes on from there.
  if (!key.has(IndirectKey::listed) && key.state != KeyState::invalidating) route(key);
}

// The next step of a key that no binding holds.
inline void Loom::route(IndirectKey& key) noexcept {
  const bool passed = key.has(IndirectKey::passed);
  const bool free = key.state == KeyState::free;
  if (!free && (passed || config_.ending == Ending::at_once)) return to_end(key);
  if (passed) return give(key);
  key.set(IndirectKey::waiting);
  limbo_.park(key);
}

inline void Loom::give(IndirectKey& key) noexcept {
  key.clear(IndirectKey::of_a_bind);
  key.next = IndirectKey::none;
  stash_.give(&key);
}

inline void Loom::turn() noexcept {
  owner_.check();
  clock_->publish(sq_);
  if (!limbo_.turn()) return;
  while (IndirectKey* key = limbo_.pop()) {
    key->clear(IndirectKey::waiting);
    key->set(IndirectKey::passed);
    route(*key);
  }
}

// ---- WQEs

// Follows a WQE of `build` (fence bits -> Outcome) that changes the key. It waits for the WQEs of
// this queue that use the key, as lkey_behind() noted them.
template <typename Build>
[[gnu::always_inline]] inline Outcome Loom::append(queue::WqeCursor& c, IndirectKey& key,
                                                   bool reads_keys, KeyState to,
                                                   Build build) noexcept {
  KILIM_ASSERT(c.writes(sq_) && head_ - tail_ <= mask_);
  const uint8_t pending = c.pending_fence();
  const KeyPast past{key.end, key.used, key.has(IndirectKey::used_here)};
  const Outcome o = build(fences_.before(c, past, sq_.retired(), reads_keys));
  if (!o.ok()) [[unlikely]] {
    c.fence_next(pending);
    fences_.forget(sq_.retired());
    return o;
  }
  key.end = c.position();
  key.become(to);
  key.clear(IndirectKey::ending | IndirectKey::used_here);
  changes_[head_++ & mask_] = {&key, key.end, 0};
  return o;
}

// Few pieces of memory have keys among the pool's indices: a look at each is all that most cost.
inline uint32_t Loom::levels_over(const View& view) const noexcept {
  bool any = false;
  for (uint32_t i = 0; i < view.count; i++) any |= pool_.may_hold(view.pieces[i].key);
  return any ? deepest_of(view) + 1 : 1;
}

template <typename Build>
[[gnu::always_inline]] inline Outcome Loom::bind_at(queue::WqeCursor& c, Binding& b,
                                                    const Bind& how, uint32_t levels,
                                                    Build build) noexcept {
  owner_.check();
  if (failed_) [[unlikely]]
    return {Refusal::queue_failed, 0, 0};
  if (how.reads_keys && levels < 2) levels = 2;  // uses of the key are uses of keys below it
  if (too_deep(levels)) [[unlikely]]
    return {Refusal::too_deep, levels, config_.max_indirection};
  IndirectKey* key = b.key_;
  const bool replaced = !how.owner_only && tags_used_up(*key);
  if (replaced) [[unlikely]] {
    key = take_key();
    if (key == nullptr) return {Refusal::no_key, 1, 0};
  }
  const auto tag = static_cast<uint8_t>(tag_of(key->lkey) + 1);
  const Outcome o = append(c, *key, how.reads_keys, KeyState::posted, [&](uint8_t fence) noexcept {
    return build(c, *key, tag, UmrWr{how.wr_id, fence});
  });
  if (!o.ok()) [[unlikely]] {
    if (replaced) give(*key);
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
[[gnu::always_inline]] inline Outcome Loom::bind_with(queue::WqeCursor& c, Binding& b,
                                                      const Bind& how, Build build) noexcept {
  return bind_at(c, b, how, how.levels == 0 ? 1 : how.levels, build);
}

inline Outcome Loom::bind(queue::WqeCursor& c, Binding& b, const Bind& how,
                          const View& view) noexcept {
  const auto build = [&](queue::WqeCursor& at, const IndirectKey& key, uint8_t tag,
                         const UmrWr& wr) noexcept {
    return umr_list(at, request(key, tag, how), view, wr);
  };
  uint32_t levels = how.levels;
  if (levels != 1) {
    const uint32_t seen = levels_over(view);
    levels = seen > levels ? seen : levels;
  }
  return bind_at(c, b, how, levels, build);
}

template <typename Build>
[[gnu::always_inline]] inline Outcome Loom::change_with(queue::WqeCursor& c, Binding& b,
                                                        const Bind& how, Build build) noexcept {
  owner_.check();
  if (failed_) [[unlikely]]
    return {Refusal::queue_failed, 0, 0};
  IndirectKey& key = *b.key_;
  KILIM_ASSERT(key.state == KeyState::posted || key.state == KeyState::valid);
  const uint32_t levels = how.reads_keys && how.levels < 2 ? 2 : how.levels;
  if (levels > key.levels()) {
    if (too_deep(levels)) return {Refusal::too_deep, levels, config_.max_indirection};
    key.set_levels(levels);
  }
  return append(c, key, how.reads_keys, KeyState::posted, [&](uint8_t fence) noexcept {
    return build(c, key, UmrWr{how.wr_id, fence});
  });
}

[[gnu::always_inline]] inline void Loom::commit(queue::WqeCursor& c) noexcept {
  owner_.check();
  const bool anything = c.position() != sq_.posted();
  if (anything) c.signal_last();
  if (ending_first_ != IndirectKey::none && !failed_ && c.fits(2) && next_ending() != nullptr)
      [[unlikely]] {
    c.leave();
    commit_ending();
    c.reload();
  } else {
    c.commit();
  }
}

inline bool Loom::flush() noexcept {
  if (failed_ || ending_first_ == IndirectKey::none) return false;
  queue::WqeCursor c{sq_};
  const uint32_t from = sq_.posted();
  commit(c);
  return sq_.posted() != from;
}

// ---- completions

inline void Loom::settle_until(uint32_t position) noexcept {
  uint32_t woven = 0;
  uint32_t tail = tail_;
  for (; tail != head_; tail++) {
    const Change change = changes_[tail & mask_];
    if (distance(change.end, position) > 0) break;
    IndirectKey& key = *change.key;
    if (key.end != change.end) continue;  // changed again since
    if (key.state == KeyState::posted) [[likely]] {
      key.clear(IndirectKey::swapping);
      key.become(KeyState::valid);
      woven++;
    } else if (key.state == KeyState::invalidating) {
      freed(key);
    }
  }
  tail_ = tail;
  counters_.woven.add(woven);
}

inline uint64_t Loom::completed(const queue::Completion& c) noexcept {
  owner_.check();
  if (c.ok()) [[likely]] {
    const uint64_t id = sq_.retire(c.wqe_counter);
    settle();
    return id;
  }
  if (!c.of_requester()) return c.wr_id;  // a wrong signature: of a key, and of no request
  const uint32_t ahead = static_cast<uint16_t>(c.wqe_counter - sq_.retired());
  const uint32_t start = sq_.retired() + ahead;
  const uint64_t id = sq_.retire(c.wqe_counter);
  if (!failed_) fail(start);
  return id;
}

}  // namespace kilim::umr
