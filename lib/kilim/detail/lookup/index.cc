// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/lookup/index.hh"

#include <cerrno>
#include <new>

#include <rte_rcu_qsbr.h>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::lookup {
namespace {

// A block with more keys than this that cover only a part of it gets a table of pages.
constexpr std::ptrdiff_t longest_list = 4;

Candidate candidate_of(const mr::Region& r) noexcept {
  return {.first = r.address,
          .last = r.address + (r.length - 1),
          .key = r.lkey,
          .rights = Rights{r.access}};
}

bool is_wide(const Candidate& c) noexcept {
  return c.width() >= Index::widest || c.first >= Index::reach;
}

void insert_sorted(std::vector<Candidate>& list, const Candidate& c) {
  const auto at = std::upper_bound(
      list.begin(), list.end(), c,
      [](const Candidate& a, const Candidate& b) { return a.width() < b.width(); });
  list.insert(at, c);
}

void erase_key(std::vector<Candidate>& list, Lkey key) {
  std::erase_if(list, [key](const Candidate& c) { return c.key == key; });
}

}  // namespace

Result<std::unique_ptr<Index>> Index::create(const IndexConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  uint64_t blocks = 0;
  if (config.arena_bytes != 0) {
    const uint64_t last = config.arena + (config.arena_bytes - 1);
    if (last < config.arena || last >= reach)
      return Error{EINVAL, "the arena's range wraps or is no memory of a process"};
    blocks = (last >> index_block_shift) - (config.arena >> index_block_shift) + 1;
  }
  Result<IndexMemory> memory = IndexMemory::create(blocks, config.socket);
  if (!memory) return memory.error();
  std::unique_ptr<Index> index{new Index{config, *std::move(memory)}};
  index->arena_base_ = config.arena & ~(index_block_bytes - 1);
  index->arena_bytes_ = blocks << index_block_shift;
  return index;
}

Index::Index(const IndexConfig& config, IndexMemory memory) noexcept
    : arena_base_(0),
      arena_bytes_(0),
      arena_(memory.arena()),
      directory_(memory.directory()),
      memory_(std::move(memory)),
      readers_(config.readers) {}

Index::~Index() {
  while (!regions_.empty()) {
    const Candidate c = regions_.begin()->second;
    regions_.erase(regions_.begin());
    change(c, false);
  }
  for (const Retired& r : retired_)
    if (r.list != nullptr) delete_list(r.list);
}

Status Index::check(const mr::Region& region) {
  if (region.length == 0 || region.address + (region.length - 1) < region.address)
    return Error{EINVAL, "the region is empty or wraps"};
  if (region.lkey == Lkey{0}) return Error{EINVAL, "the region has no key"};
  if (region.undefined) return Error{EINVAL, "the region may only be destroyed"};
  if (region.iova != region.address)
    return Error{EINVAL, "the device knows the region by another address than the process"};
  const Candidate c = candidate_of(region);
  if (!is_wide(c) && c.last >= reach)
    return Error{EINVAL, "the region crosses the border of a process's addresses"};
  if (leaving_.count(region.lkey.value()) != 0)
    return Error{EBUSY, "a region left under this key and a reader may still hold it"};
  return Done{};
}

Status Index::add(const mr::Region& region) {
  reclaim();
  if (const Status ok = check(region); !ok) return ok;
  const Candidate c = candidate_of(region);
  const auto [at, is_new] = regions_.try_emplace(region.lkey.value(), c);
  if (!is_new) return Error{EEXIST, "the key is in the index already"};
  if (!make_tables(c)) {
    regions_.erase(at);
    return Error{ENOMEM, "the machine has no memory left for the index's tables"};
  }
  change(c, true);
  finish_change();
  return Done{};
}

Status Index::remove(Lkey key) {
  reclaim();
  const auto at = regions_.find(key.value());
  if (at == regions_.end()) return Error{ENOENT, "the key is not in the index"};
  const Candidate c = at->second;
  regions_.erase(at);
  change(c, false);
  if (readers_ != nullptr) {
    leaving_.insert(key.value());
    retire(nullptr, nullptr, key);
  }
  finish_change();
  return Done{};
}

bool Index::gone(Lkey key) {
  reclaim();
  return regions_.count(key.value()) == 0 && leaving_.count(key.value()) == 0;
}

// Makes a table for each GiB outside the arena that the region touches. Before anything else is
// changed, so that a lack of memory changes nothing. False: there is no memory.
bool Index::make_tables(const Candidate& c) noexcept {
  if (is_wide(c)) return true;
  for (uint64_t gib = c.first >> index_table_shift; gib <= c.last >> index_table_shift; gib++) {
    const uint64_t first = std::max(c.first, gib << index_table_shift);
    const uint64_t last =
        std::min(c.last, (gib << index_table_shift) + ((1u << index_table_shift) - 1));
    if (first - arena_base_ < arena_bytes_ && last - arena_base_ < arena_bytes_) continue;
    Directory& entry = memory_.directory()[gib];
    if (entry.load(std::memory_order_relaxed) != nullptr) continue;
    IndexTable* table = memory_.allocate();
    if (table == nullptr) return false;
    entry.store(table, std::memory_order_release);
  }
  return true;
}

Slot* Index::slot_at(uint64_t address) noexcept {
  if (const uint64_t offset = address - arena_base_; offset < arena_bytes_)
    return &memory_.arena()[offset >> index_block_shift];
  IndexTable* table =
      memory_.directory()[address >> index_table_shift].load(std::memory_order_relaxed);
  return &table->slots[address >> index_block_shift & (words_per_table - 1)];
}

void Index::change(const Candidate& c, bool adding) {
  if (is_wide(c)) return change_wide(c, adding);
  for (uint64_t block = c.first >> index_block_shift; block <= c.last >> index_block_shift;
       block++) {
    const Place place{slot_at(block << index_block_shift), block << index_block_shift,
                      index_block_bytes};
    const Word word = place.slot->load();
    if (IndexTable* pages = word.pages()) {
      change_pages(*pages, place, c, adding);
      if (!adding) fold_pages(place, *pages);
    } else {
      change_place(place, c, adding);
    }
  }
}

void Index::change_pages(IndexTable& pages, const Place& block, const Candidate& c, bool adding) {
  const uint64_t first = std::max(c.first, block.first), last = std::min(c.last, block.last());
  for (uint64_t page = first >> index_page_shift; page <= last >> index_page_shift; page++)
    change_place(
        {&pages.slots[page & (words_per_table - 1)], page << index_page_shift, index_page_bytes}, c,
        adding);
}

// Replaces the table of a block whose pages all have the same word by that word.
void Index::fold_pages(const Place& block, IndexTable& pages) {
  const Word word = pages.slots.front().load();
  if (!word.empty() && !word.is_whole()) return;
  for (const Slot& s : pages.slots)
    if (s.load() != word) return;
  block.slot->store(word);
  retire(nullptr, &pages, Lkey{0});
}

// Writes the candidates that the place will have after the change to scratch_.
void Index::collect(const Place& place, const Candidate& c, bool adding) {
  const Word word = place.slot->load();
  scratch_.clear();
  if (const CandidateList* list = word.list()) scratch_.assign(list->begin(), list->end());
  if (word.is_whole()) {
    // The region that is being removed is not in the map any more.
    const auto at = regions_.find(word.key().value());
    if (at != regions_.end()) scratch_.push_back(at->second);
  }
  if (adding)
    insert_sorted(scratch_, c);
  else
    erase_key(scratch_, c.key);
}

void Index::change_place(const Place& place, const Candidate& c, bool adding) {
  const Word before = place.slot->load();
  const bool covered = c.covers(place.first, place.last());
  if (adding && before.empty() && covered) {
    place.slot->store(Word::whole(c.key, c.rights));
    return;
  }
  if (!adding && before.is_whole() && before.key() == c.key) {
    place.slot->store({});
    return;
  }
  collect(place, c, adding);
  publish(place);
  if (const CandidateList* list = before.list()) retire(list, nullptr, Lkey{0});
}

// Makes the place's word say what scratch_ holds: nothing, one key, a table of pages, or a list.
void Index::publish(const Place& place) {
  if (scratch_.empty()) {
    place.slot->store({});
    return;
  }
  const Candidate& only = scratch_.front();
  if (scratch_.size() == 1 && only.covers(place.first, place.last())) {
    place.slot->store(Word::whole(only.key, only.rights));
    return;
  }
  if (place.bytes == index_block_bytes && split(place)) return;
  place.slot->store(Word::list(new_list()));
}

// Gives a block a table of pages. False: a list is enough, or there is no memory for a table.
bool Index::split(const Place& place) {
  const auto partial = std::count_if(scratch_.begin(), scratch_.end(), [&](const Candidate& c) {
    return !c.covers(place.first, place.last());
  });
  if (partial <= longest_list) return false;
  IndexTable* pages = memory_.allocate();
  if (pages == nullptr) return false;
  const std::vector<Candidate> all = scratch_;
  for (const Candidate& c : all) change_pages(*pages, place, c, true);
  place.slot->store(Word::pages(pages));
  return true;
}

void Index::change_wide(const Candidate& c, bool adding) {
  const CandidateList* before = wide_.load(std::memory_order_relaxed);
  scratch_.clear();
  if (before != nullptr) scratch_.assign(before->begin(), before->end());
  if (adding)
    insert_sorted(scratch_, c);
  else
    erase_key(scratch_, c.key);
  wide_.store(scratch_.empty() ? nullptr : new_list(), std::memory_order_release);
  if (before != nullptr) retire(before, nullptr, Lkey{0});
}

CandidateList* Index::new_list() const {
  const std::size_t bytes = sizeof(uint64_t) + scratch_.size() * sizeof(Candidate);
  void* at = ::operator new (std::max(bytes, sizeof(CandidateList)),
                             std::align_val_t{alignof(CandidateList)});
  auto* list = new (at) CandidateList{.count = scratch_.size()};
  std::uninitialized_copy(scratch_.begin(), scratch_.end(), const_cast<Candidate*>(list->begin()));
  return list;
}

void Index::delete_list(const CandidateList* list) noexcept {
  ::operator delete (const_cast<CandidateList*>(list), std::align_val_t{alignof(CandidateList)});
}

void Index::retire(const CandidateList* list, IndexTable* table, Lkey key) {
  retired_.push_back({0, list, table, key});
  retired_now_++;
}

// Ends a change: new lookups see it. What was replaced is freed when every reader has reported.
void Index::finish_change() {
  generation_.store(generation_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (retired_now_ == 0) return;
  const uint64_t token = readers_ == nullptr ? 0 : rte_rcu_qsbr_start(readers_);
  for (std::size_t i = retired_.size() - retired_now_; i < retired_.size(); i++)
    retired_[i].token = token;
  retired_now_ = 0;
  if (readers_ == nullptr) reclaim();
}

void Index::reclaim() {
  while (!retired_.empty()) {
    const Retired& r = retired_.front();
    if (readers_ != nullptr && rte_rcu_qsbr_check(readers_, r.token, false) != 1) return;
    after_grace_period();
    if (r.list != nullptr) delete_list(r.list);
    if (r.table != nullptr) memory_.free(r.table);
    if (r.key != Lkey{0}) leaving_.erase(r.key.value());
    retired_.pop_front();
  }
}

}  // namespace kilim::inline v1::lookup
