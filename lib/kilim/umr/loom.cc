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
    IndirectKey& key = pool_.at(change.key);
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

// The WQE at `position` failed and has been retired: those before it are complete, those behind it
// will be flushed. Of a swap everything counts as failed.
void Loom::fail(uint32_t position) noexcept {
  failed_ = true;
  uint32_t torn = 0;
  for (uint32_t i = tail_; i != head_; i++) {
    const Change& change = changes_[i & mask_];
    if (change.end == sq_.retired()) torn = change.swap;
  }
  for (; tail_ != head_; tail_++) {
    const Change& change = changes_[tail_ & mask_];
    const bool good = distance(change.end, position) <= 0;
    if (good && (torn == 0 || change.swap != torn))
      finish(change);
    else
      poison(change);
  }
}

void Loom::poison(const Change& change) noexcept {
  IndirectKey& key = pool_.at(change.key);
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
    if (key.state == KeyState::poisoned) blocks += 2;
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
    const Outcome o = bind(c, *item.binding, how, item.view);
    KILIM_ASSERT(o.ok());
    item.binding->key_->set(IndirectKey::swapping);
  }
  swap_ = 0;
  counters_.swaps.add(1);
  commit(c);
  return {};
}

}  // namespace kilim::umr
