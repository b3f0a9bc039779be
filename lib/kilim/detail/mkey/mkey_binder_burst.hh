// SPDX-License-Identifier: BSD-3-Clause
// The inline functions of MkeyBinder that append WQEs and take completions; with
// mkey_binder_keys.hh, all that a worker calls in a burst.
// Owner: the worker of the binder's queue. Never allocates, blocks or logs.
#pragma once

#include "kilim/detail/mkey/mkey_binder.hh"
#include "kilim/detail/mkey/mkey_binder_keys.hh"
#include "kilim/detail/umr/umr_wqe.hh"

namespace kilim::inline v1::mkey {

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
// `levels`: what the caller said (Bind::levels); 1 is believed.
inline uint32_t MkeyBinder::levels_over(const umr::View& view, uint32_t levels) const noexcept {
  if (levels == 1) return 1;
  bool any = false;
  for (uint32_t i = 0; i < view.count; i++) any |= pool_.may_hold(view.pieces[i].key);
  const uint32_t seen = any ? deepest_of(view) + 1 : 1;
  return seen > levels ? seen : levels;
}

// Binds the key, or another one if all its tags may be in use. The binding changes only after the
// UMR has been appended, so a refusal leaves it as it was.
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
  return bind_at(c, b, how, levels_over(view, how.levels), build);
}

inline Outcome MkeyBinder::bind(queue::WqeCursor& c, Binding& b, const Bind& how,
                                std::span<const umr::Piece> pieces) noexcept {
  const auto build = [&](queue::WqeCursor& at, const Mkey& key, uint8_t tag,
                         const umr::UmrWr& wr) noexcept {
    return umr::umr_list(at, request(key, tag, how), pieces, wr, config_.writer);
  };
  const umr::View unsummed{pieces.data(), static_cast<uint32_t>(pieces.size()), 0};
  return bind_at(c, b, how, levels_over(unsummed, how.levels), build);
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

// Updates the keys whose last change lies before `position`, in the order of posting.
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

}  // namespace kilim::inline v1::mkey
