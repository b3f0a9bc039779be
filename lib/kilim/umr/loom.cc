// SPDX-License-Identifier: BSD-3-Clause
// The cold part of a loom: its making, its end, and what happens after an error.
#include "kilim/umr/loom.hh"

#include <algorithm>
#include <cerrno>

#include "kilim/umr/loom_burst.hh"

namespace kilim::umr {

Result<std::unique_ptr<Loom>> Loom::create(queue::Sq& sq, KeyPool& pool, Epochs& epochs,
                                           const LoomConfig& config) {
  std::unique_ptr<Loom> loom{new Loom(sq, pool, epochs, config)};
  loom->clock_ = epochs.add_queue();
  if (loom->clock_ == nullptr)
    return Error{ENOSPC, "the epochs were made for fewer send queues than there are"};
  return loom;
}

// A WQE that changes a key has at least two blocks: so many can be under way.
Loom::Loom(queue::Sq& sq, KeyPool& pool, Epochs& epochs, const LoomConfig& config)
    : sq_(sq),
      pool_(pool),
      config_(config),
      stash_(pool),
      limbo_(epochs, pool),
      fences_(config.fences),
      epochs_(epochs),
      changes_(new Change[sq.geometry().wqebb_count]),
      mask_(sq.geometry().wqebb_count - 1) {
  config_.max_indirection = std::min(config.max_indirection, IndirectKey::most_levels);
}

Loom::~Loom() {
  if (clock_ != nullptr) epochs_.remove_queue(clock_);
  KILIM_ASSERT(bound_ == 0);
  auto back = [this](IndirectKey& key) {
    key.state = KeyState::free;  // the pool destroys it: what it shows no longer matters
    give(key);
  };
  for (; tail_ != head_; tail_++) {
    const Change& change = changes_[tail_ & mask_];
    IndirectKey& key = *change.key;
    const bool elsewhere = key.has(IndirectKey::listed | IndirectKey::waiting);
    if (!elsewhere && key.end == change.end) back(key);
  }
  while (ending_first_ != IndirectKey::none) {
    IndirectKey& key = pool_.at(ending_first_);
    ending_first_ = key.next;
    back(key);
  }
  limbo_.open_gates();
  while (IndirectKey* key = limbo_.pop()) back(*key);
}

Outcome Loom::append_invalidate(queue::WqeCursor& c, IndirectKey& key) noexcept {
  const bool unknown = key.state == KeyState::poisoned;
  const auto tag = static_cast<uint8_t>(tag_of(key.lkey) + 1);
  return append(c, key, false, KeyState::invalidating, [&](uint8_t fence) noexcept {
    if (!unknown) return local_invalidate(c, key.lkey, {.flags = fence});
    // Whatever it shows, under whatever tag: only the new one is known.
    constexpr uint64_t fields = prm::umr::mask_free | prm::umr::mask_mkey;
    const KeyChange change{.key = key.lkey, .fields = fields, .new_tag = tag, .free = true};
    const Outcome o = change_key(c, change, {.flags = fence});
    if (!o.ok()) return o;
    key.lkey = Lkey{(key.lkey.value() & ~0xffu) | tag};
    if (key.tags_now != UINT8_MAX) key.tags_now++;
    return o;
  });
}

// At least one fits.
void Loom::commit_ending() noexcept {
  queue::WqeCursor c{sq_};
  while (IndirectKey* key = next_ending())
    if (!append_invalidate(c, *key).ok()) break;  // the rest with the next doorbell
  c.signal_last();
  c.commit();
}

// Its invalidation is complete.
void Loom::freed(IndirectKey& key) noexcept {
  key.become(KeyState::free);
  key.invalidations++;
  counters_.invalidated.add(1);
  if (!key.has(IndirectKey::bound | IndirectKey::listed)) route(key);
}

// Where the swap begins to which the WQE at `position` belongs; `position`: to none.
uint32_t Loom::first_torn(uint32_t position) const noexcept {
  for (uint32_t i = tail_; i != head_; i++) {
    const Change& change = changes_[i & mask_];
    if (distance(change.end, position) <= 0) continue;
    const uint32_t begin = change.end - change.swap;
    return change.swap != 0 && distance(position, begin) >= 0 ? begin : position;
  }
  return position;
}

// The WQE at `position` failed and has been retired: those before it are complete, those behind it
// will be flushed. Of a swap everything counts as failed.
void Loom::fail(uint32_t position) noexcept {
  failed_ = true;
  settle_until(first_torn(position));
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
}

void Loom::poison(const Change& change) noexcept {
  IndirectKey& key = *change.key;
  if (key.state != KeyState::posted && key.state != KeyState::invalidating) return;
  key.clear(IndirectKey::swapping);
  key.become(KeyState::poisoned);
  if (key.has(IndirectKey::resized)) key.log_entity = IndirectKey::unknown_entity;
  key.faults++;
  counters_.poisoned.add(1);
  if (!key.has(IndirectKey::waiting)) to_end(key);
}

void Loom::restart() noexcept {
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
  clock_->restart(sq_);
  fences_.restart();
  failed_ = false;
}

}  // namespace kilim::umr
