// SPDX-License-Identifier: BSD-3-Clause
// The part of a loom that takes layouts of every form: binds by any of them, and swaps of several
// keys. A swap is rehearsed at a cursor that is never committed, so that what could be refused is
// refused before anything of a key changes. Owner: as the loom. Never allocates, blocks or logs.
#include <algorithm>
#include <cstring>

#include "kilim/prm/data_seg.hh"
#include "kilim/umr/loom_burst.hh"

namespace kilim::umr {
namespace {

// A key shows entries of one kind for its whole life.
bool suits(const IndirectKey& key, const Layout& layout) noexcept {
  return (key.log_entity != 0) == std::holds_alternative<FixedView>(layout);
}

// The size of fixed entries that the key has with this layout.
void take_entity(IndirectKey& key, const Layout& layout) noexcept {
  const auto* v = std::get_if<FixedView>(&layout);
  if (v == nullptr || v->log_entity == key.log_entity) return;
  key.log_entity = v->log_entity;
  key.set(IndirectKey::resized);
}

const View* plain_inline(const Means& means, const Layout& layout) noexcept {
  const auto* v = std::get_if<View>(&layout);
  const bool is = v != nullptr && detail::goes_inline(means, klm_octowords(v->count));
  return is ? v : nullptr;
}

// What weave() would answer, without writing the WQE.
Outcome rehearse_inline(queue::WqeCursor& c, const Means& means, const ListRequest& r,
                        const View& v) noexcept {
  const uint32_t wqebbs = 2 + klm_octowords(v.count) / klms_per_line;
  if (const Outcome o = detail::check_nesting(means); !o.ok()) return o;
  if (const Outcome o = detail::check_itself(r.key, v.pieces, v.count); !o.ok()) return o;
  if (const Outcome o = detail::check_inline(c, r, v.count, wqebbs); !o.ok()) return o;
  c.advance(wqebbs, 0);
  return {};
}

// While a swap is looked at: as it will be.
uint32_t levels_soon(const IndirectKey& key) noexcept {
  const uint32_t both = __atomic_load_n(&key.depth, __ATOMIC_RELAXED);
  return both >> 4 != 0 ? both >> 4 : both;
}

// Of keys of the pool among the entries, as they will be when the swap is posted, the most levels.
template <typename Entry>
uint32_t deepest(KeyPool& pool, const Entry* entries, uint32_t count) noexcept {
  uint32_t levels = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!pool.may_hold(entries[i].key)) continue;
    const uint32_t number = pool.number_of(entries[i].key);
    if (number != IndirectKey::none) levels = std::max(levels, levels_soon(pool.at(number)));
  }
  return levels;
}

}  // namespace

uint32_t Loom::deepest_of(const View& view) const noexcept {
  return deepest(pool_, view.pieces, view.count);
}

// What the caller says, and not less than what the pool knows.
uint32_t Loom::levels_of(const Bind& how, const Layout& layout) const noexcept {
  uint32_t under = 0;
  if (const auto* v = std::get_if<View>(&layout)) under = deepest(pool_, v->pieces, v->count);
  if (const auto* v = std::get_if<StridedView>(&layout))
    under = deepest(pool_, v->entries, v->count);
  if (const auto* v = std::get_if<FixedView>(&layout)) under = deepest(pool_, v->pieces, v->count);
  return std::max(under + 1, uint32_t{how.levels});
}

Outcome Loom::bind(queue::WqeCursor& c, Binding& b, const Bind& how, const Means& means,
                   const Layout& layout) noexcept {
  if (!suits(*b.key_, layout)) return {Refusal::wrong_kind, 0, 0};
  const auto build = [&](queue::WqeCursor& at, const IndirectKey& key, uint8_t tag,
                         const UmrWr& wr) noexcept {
    return weave_any(at, means, request(key, tag, how), layout, wr);
  };
  const Outcome o = bind_at(c, b, how, std::max(levels_of(how, layout), means.levels), build);
  if (o.ok()) take_entity(*b.key_, layout);
  return o;
}

// A key for each one whose tags are used up, before anything is looked at: it may have another size
// of entries. What is not needed goes back.
Outcome Loom::take_spares(std::span<const SwapItem> items) noexcept {
  uint32_t count = 0;
  for (const SwapItem& item : items) count += tags_used_up(*item.binding->key_) ? 1 : 0;
  for (uint32_t i = 0; i < count; i++) {
    IndirectKey* key = stash_.take();
    if (key == nullptr) return {Refusal::no_key, count, i};
    key->next = spare_;
    spare_ = pool_.number_of(*key);
  }
  return {};
}

Outcome Loom::rehearse(std::span<const SwapItem> items, const Means& means) noexcept {
  queue::WqeCursor c{sq_};
  uint32_t spare = spare_;
  for (const SwapItem& item : items) {
    IndirectKey* key = item.binding->key_;
    if (tags_used_up(*key)) {
      key = &pool_.at(spare);
      spare = key->next;
    }
    if (!suits(*key, item.view)) return {Refusal::wrong_kind, 0, 0};
    const uint32_t levels = levels_of(item.how, item.view);
    if (too_deep(levels)) return {Refusal::too_deep, levels, config_.max_indirection};
    IndirectKey& now = *item.binding->key_;
    now.set_levels(now.levels(), levels);
    const ListRequest r = request(*key, 0, item.how);
    const View* v = plain_inline(means, item.view);
    const Outcome o =
        v != nullptr ? rehearse_inline(c, means, r, *v) : weave_any(c, means, r, item.view, {});
    if (!o.ok()) return o;
  }
  return {};
}

Outcome Loom::swap(std::span<const SwapItem> items, uint64_t wr_id) noexcept {
  const Means means{.limits = {.max_indirection = 1}, .form = Form::inline_list};
  return swap(items, means, wr_id);
}

Outcome Loom::swap(std::span<const SwapItem> items, const Means& means, uint64_t wr_id) noexcept {
  owner_.check();
  if (failed_) return {Refusal::queue_failed, 0, 0};
  const uint64_t taken = means.memory == nullptr ? 0 : means.memory->taken();
  Outcome o = take_spares(items);
  if (o.ok()) o = rehearse(items, means);
  for (const SwapItem& item : items) item.binding->key_->set_levels(item.binding->key_->levels());
  if (means.memory != nullptr) means.memory->rewind(taken);
  if (o.ok()) o = post_swap(items, means, wr_id);
  while (spare_ != IndirectKey::none) give(*take_key());
  return o;
}

Outcome Loom::post_swap(std::span<const SwapItem> items, const Means& means,
                        uint64_t wr_id) noexcept {
  queue::WqeCursor c{sq_};
  Means each = means;  // its levels are those of the deepest item, and have been looked at
  each.levels = 1;
  const uint32_t begin = c.position();
  for (std::size_t i = 0; i < items.size(); i++) {
    Binding& b = *items[i].binding;
    IndirectKey& named = *b.key_;  // by its handle in the items behind
    const Lkey before = named.lkey;
    const uint32_t from = c.position();
    Bind how = items[i].how;
    how.owner_only = false;
    how.wr_id = wr_id;
    const Outcome o = bind(c, b, how, each, items[i].view);
    KILIM_ASSERT(o.ok());
    if (!o.ok()) return o;  // nothing has been announced
    named.set_levels(b.key_->levels());
    b.key_->used = before.value();
    b.key_->set(IndirectKey::swapping);
    changes_[(head_ - 1) & mask_].swap = c.position() - begin;
    if (how.reads_keys) renew_entries(from, c.position(), items.first(i), means);
  }
  counters_.swaps.add(1);
  commit(c);
  return {};
}

// Of the UMRs between two positions: entries that name a key of the swap get its new handle. In
// every form an entry has its key at the same place.
void Loom::renew_entries(uint32_t from, uint32_t to, std::span<const SwapItem> before,
                         const Means& means) noexcept {
  const queue::SqGeometry& sq = sq_.geometry();
  const auto block = [&sq](uint32_t position) noexcept {
    return sq.buf + std::size_t{position & (sq.wqebb_count - 1)} * wqebb_bytes;
  };
  const auto renew = [before](std::byte* entry) noexcept {
    constexpr std::size_t key_at = 4;
    be32 key;
    std::memcpy(&key, entry + key_at, sizeof(key));
    if (key == be32{prm::repeat_block_op}) return;  // the head of a strided list
    for (const SwapItem& s : before)
      if (key == be32{s.binding->key_->used})
        queue::store_word(entry + key_at, be32{s.binding->key_->lkey.value()});
  };
  constexpr uint32_t a_line = klms_per_line;
  for (uint32_t at = from; at != to;) {
    prm::CtrlSeg ctrl;
    prm::UmrCtrlSeg umr;
    std::memcpy(&ctrl, block(at), sizeof(ctrl));
    std::memcpy(&umr, block(at) + sizeof(ctrl), sizeof(umr));
    const uint32_t count = umr.klm_octowords.host();
    if ((umr.flags & prm::umr::inline_list) != 0) {
      for (uint32_t i = 0; i < count; i++)
        renew(block(at + 2 + i / a_line) + std::size_t{i % a_line} * octoword_bytes);
    } else {
      prm::DataSeg list;
      std::memcpy(&list, block(at + 2), sizeof(list));
      std::byte* const entries = means.memory->memory_at(list.addr.host());
      for (uint32_t i = 0; i < count; i++) renew(entries + std::size_t{i} * octoword_bytes);
    }
    at += wqebbs_for(Octowords{prm::ctrl::ds::get(ctrl)}).value();
  }
}

}  // namespace kilim::umr
