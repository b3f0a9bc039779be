// SPDX-License-Identifier: BSD-3-Clause
// The cold part of a binder: construction, destruction, invalidations, errors.
#include "kilim/detail/mkey/mkey_binder.hh"

#include <algorithm>
#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mkey/mkey_lists.hh"

namespace kilim::inline v1::mkey {

namespace {

constinit Roster<const MkeyBinder> all_binders;

}  // namespace

void walk_binders(Visit<const MkeyBinder> see) {
  all_binders.walk(see);
}

Result<std::unique_ptr<MkeyBinder>> MkeyBinder::create(queue::Sq& sq, MkeyPool& pool,
                                                       Epochs& epochs,
                                                       const MkeyBinderConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  std::unique_ptr<MkeyBinder> binder{new MkeyBinder(sq, pool, epochs, config)};
  binder->clock_ = epochs.add_queue();
  if (binder->clock_ == nullptr)
    return Error{ENOSPC, "the epochs were made for fewer send queues than there are"};
  all_binders.enter(*binder);
  return binder;
}

// A WQE that changes a key has at least two blocks, so a ring with an entry for each block is
// enough.
MkeyBinder::MkeyBinder(queue::Sq& sq, MkeyPool& pool, Epochs& epochs,
                       const MkeyBinderConfig& config)
    : sq_(sq),
      pool_(pool),
      config_(config),
      cache_(pool),
      deferred_(epochs, pool),
      fences_(config.fences),
      epochs_(epochs),
      changes_(new Change[sq.geometry().wqebb_count]),
      mask_(sq.geometry().wqebb_count - 1) {
  config_.max_indirection = std::min(config.max_indirection, Mkey::max_levels);
}

MkeyBinder::~MkeyBinder() {
  all_binders.leave(*this);
  if (clock_ != nullptr) epochs_.remove_queue(clock_);
  KILIM_ASSERT(bound_ == 0);
  auto back = [this](Mkey& key) {
    key.state = MkeyState::free;  // the pool destroys it: what it shows no longer matters
    return_to_cache(key);
  };
  for (; tail_ != head_; tail_++) {
    const Change& change = changes_[tail_ & mask_];
    Mkey& key = *change.key;
    const bool elsewhere = key.has(Mkey::listed | Mkey::deferred);
    if (!elsewhere && key.end == change.end) back(key);
  }
  while (due_first_ != Mkey::none) {
    Mkey& key = pool_.at(due_first_);
    due_first_ = key.next;
    back(key);
  }
  deferred_.release_all();
  while (Mkey* key = deferred_.pop()) back(*key);
}

Outcome MkeyBinder::append_invalidate(queue::WqeCursor& c, Mkey& key) noexcept {
  const bool unknown = key.state == MkeyState::poisoned;
  const auto tag = static_cast<uint8_t>(tag_of(key.lkey) + 1);
  return append(c, key, false, MkeyState::invalidating, [&](uint8_t fence) noexcept {
    if (!unknown) return umr::local_invalidate(c, key.lkey, {.flags = fence});
    // The failed WQE may or may not have changed the tag, so this one sets it.
    constexpr uint64_t fields = prm::umr::mask_free | prm::umr::mask_mkey;
    const umr::MkeyChange change{.key = key.lkey, .fields = fields, .new_tag = tag, .free = true};
    const Outcome o = umr::change_key(c, change, {.flags = fence});
    if (!o.ok()) return o;
    key.lkey = Lkey{(key.lkey.value() & ~0xffu) | tag};
    if (key.tags_now != UINT8_MAX) key.tags_now++;
    return o;
  });
}

// The caller has checked that there is room for at least one.
void MkeyBinder::commit_invalidations() noexcept {
  queue::WqeCursor c{sq_};
  while (Mkey* key = next_due())
    if (!append_invalidate(c, *key).ok()) break;  // the rest with the next doorbell
  c.signal_last();
  c.commit();
}

// The invalidation of the key has completed.
void MkeyBinder::handle_invalidated(Mkey& key) noexcept {
  key.become(MkeyState::free);
  key.invalidations++;
  counters_.invalidated.add(1);
  if (!key.has(Mkey::bound | Mkey::listed)) route(key);
}

// The position of the first WQE of the swap that the WQE at `position` belongs to, or `position`.
uint32_t MkeyBinder::first_failed(uint32_t position) const noexcept {
  for (uint32_t i = tail_; i != head_; i++) {
    const Change& change = changes_[i & mask_];
    if (umr::distance(change.end, position) <= 0) continue;
    const uint32_t begin = change.end - change.swap;
    return change.swap != 0 && umr::distance(position, begin) >= 0 ? begin : position;
  }
  return position;
}

// The WQE at `position` failed: WQEs before it are complete, those behind it will be flushed. If it
// belongs to a swap, the whole swap has failed.
void MkeyBinder::fail(uint32_t position) noexcept {
  failed_ = true;
  complete_until(first_failed(position));
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
}

void MkeyBinder::poison(const Change& change) noexcept {
  Mkey& key = *change.key;
  if (key.state != MkeyState::posted && key.state != MkeyState::invalidating) return;
  key.clear(Mkey::swapping);
  key.become(MkeyState::poisoned);
  if (key.has(Mkey::resized)) key.log_entity = Mkey::unknown_entity;
  key.faults++;
  counters_.poisoned.add(1);
  if (!key.has(Mkey::deferred)) queue_invalidation(key);
}

void MkeyBinder::recover() noexcept {
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
  clock_->recover(sq_);
  fences_.recover();
  failed_ = false;
}

}  // namespace kilim::inline v1::mkey
