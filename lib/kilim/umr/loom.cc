// SPDX-License-Identifier: BSD-3-Clause
// The cold part of a loom: its making, its end, and what happens after an error.
#include "kilim/umr/loom.hh"

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
      mask_(sq.geometry().wqebb_count - 1) {}

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
  counters_.invalidated.add(1);
  if (!key.has(IndirectKey::bound | IndirectKey::listed)) route(key);
}

// The WQE at `position` failed and has been retired: those before it are complete, those behind it
// will be flushed. Of a swap everything counts as failed.
void Loom::fail(uint32_t position) noexcept {
  failed_ = true;
  uint32_t torn = 0;
  uint32_t torn_from = position;
  for (uint32_t i = tail_; i != head_; i++) {
    const Change& change = changes_[i & mask_];
    if (change.end == sq_.retired()) torn = change.swap;
  }
  for (uint32_t i = tail_; torn != 0 && i != head_; i++) {
    const Change& change = changes_[i & mask_];
    if (change.swap != torn) continue;
    torn_from = change.end - 1;  // inside the swap's first WQE
    break;
  }
  settle_until(torn_from);
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
}

void Loom::poison(const Change& change) noexcept {
  IndirectKey& key = *change.key;
  if (key.state != KeyState::posted && key.state != KeyState::invalidating) return;
  key.clear(IndirectKey::swapping);
  key.become(KeyState::poisoned);
  counters_.poisoned.add(1);
  if (!key.has(IndirectKey::waiting)) to_end(key);
}

void Loom::restart() noexcept {
  for (; tail_ != head_; tail_++) poison(changes_[tail_ & mask_]);
  clock_->restart(sq_);
  fences_.restart();
  failed_ = false;
}

Outcome Loom::take_spares(uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; i++) {
    IndirectKey* key = stash_.take();
    if (key == nullptr) {
      while (spare_ != IndirectKey::none) give(*take_key());
      return {Refusal::no_key, count, i};
    }
    key->next = spare_;
    spare_ = pool_.number_of(*key);
  }
  return {};
}

// Everything that could be refused is looked at before the first WQE is written.
Outcome Loom::check_swap(std::span<const SwapItem> items, const queue::WqeCursor& c) noexcept {
  if (failed_) return {Refusal::queue_failed, 0, 0};
  uint32_t blocks = 0;
  uint32_t spares = 0;
  for (const SwapItem& item : items) {
    IndirectKey& key = *item.binding->key_;
    const uint32_t count = item.view.count;
    if (count == 0) return {Refusal::empty, 0, max_inline_klms};
    if (count > max_inline_klms) return {Refusal::too_many_inline, count, max_inline_klms};
    if (count > key.max_entries) return {Refusal::over_key, count, key.max_entries};
    blocks += 2 + klm_octowords(count) / klms_per_line;
    if (tags_used_up(key)) spares++;
  }
  if (!c.fits(blocks)) return {Refusal::no_room, blocks, c.room().value()};
  return take_spares(spares);
}

Outcome Loom::swap(std::span<const SwapItem> items, uint64_t wr_id) noexcept {
  owner_.check();
  queue::WqeCursor c{sq_};
  if (const Outcome o = check_swap(items, c); !o.ok()) return o;
  if (++swaps_ == 0) swaps_ = 1;
  swap_ = swaps_;
  for (const SwapItem& item : items) {
    Bind how = item.how;
    how.owner_only = false;
    how.wr_id = wr_id;
    [[maybe_unused]] const Outcome o = bind(c, *item.binding, how, item.view);
    KILIM_ASSERT(o.ok());
    item.binding->key_->set(IndirectKey::swapping);
  }
  swap_ = 0;
  counters_.swaps.add(1);
  commit(c);
  return {};
}

}  // namespace kilim::umr
