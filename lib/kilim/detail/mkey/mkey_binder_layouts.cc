// SPDX-License-Identifier: BSD-3-Clause
// Binding layouts of any form, and swapping several keys. A swap runs first at a cursor that is
// never committed (dry run), so that every refusal comes before a key changes. Owner: the binder's
// worker. Never allocates, blocks or logs.
#include <algorithm>
#include <cstring>

#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::mkey {
namespace {

// An mkey has entries of one kind, KLM or fixed size, for its whole life.
bool suits(const Mkey& key, const umr::Layout& layout) noexcept {
  return (key.log_entity != 0) == std::holds_alternative<umr::FixedView>(layout);
}

// Records the entry size that the key has once this layout is bound.
void adopt_entity_size(Mkey& key, const umr::Layout& layout) noexcept {
  const auto* v = std::get_if<umr::FixedView>(&layout);
  if (v == nullptr || v->log_entity == key.log_entity) return;
  key.log_entity = v->log_entity;
  key.set(Mkey::resized);
}

const umr::View* plain_inline(const umr::UmrContext& context, const umr::Layout& layout) noexcept {
  const auto* v = std::get_if<umr::View>(&layout);
  const bool is = v != nullptr && umr::goes_inline(context, umr::klm_octowords(v->count));
  return is ? v : nullptr;
}

// The outcome of an inline bind, without writing the WQE.
Outcome dry_run_inline(queue::WqeCursor& c, const umr::UmrContext& context,
                       const umr::ListRequest& r, const umr::View& v) noexcept {
  const uint32_t wqebbs = 2 + umr::klm_octowords(v.count) / umr::klms_per_line;
  if (const Outcome o = umr::check_nesting(context); !o.ok()) return o;
  if (const Outcome o = umr::check_itself(r.key, v.pieces, v.count); !o.ok()) return o;
  if (const Outcome o = umr::check_inline(c, r, v.count, wqebbs); !o.ok()) return o;
  c.advance(wqebbs, 0);
  return {};
}

// The key's levels after the swap that is being checked.
uint32_t levels_after_swap(const Mkey& key) noexcept {
  const uint32_t both = __atomic_load_n(&key.depth, __ATOMIC_RELAXED);
  return both >> 4 != 0 ? both >> 4 : both;
}

// The most levels of the pool's keys among the entries, counted as after the swap being checked.
template <typename Entry>
uint32_t deepest(MkeyPool& pool, const Entry* entries, uint32_t count) noexcept {
  uint32_t levels = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!pool.may_hold(entries[i].key)) continue;
    const uint32_t number = pool.number_of(entries[i].key);
    if (number != Mkey::none) levels = std::max(levels, levels_after_swap(pool.at(number)));
  }
  return levels;
}

}  // namespace

uint32_t MkeyBinder::deepest_of(const umr::View& view) const noexcept {
  return deepest(pool_, view.pieces, view.count);
}

// The caller's number, but at least what the pool knows of the entries' keys.
uint32_t MkeyBinder::levels_of(const Bind& how, const umr::Layout& layout) const noexcept {
  uint32_t under = 0;
  if (const auto* v = std::get_if<umr::View>(&layout)) under = deepest(pool_, v->pieces, v->count);
  if (const auto* v = std::get_if<umr::StridedView>(&layout))
    under = deepest(pool_, v->entries, v->count);
  if (const auto* v = std::get_if<umr::FixedView>(&layout))
    under = deepest(pool_, v->pieces, v->count);
  return std::max(under + 1, uint32_t{how.levels});
}

Outcome MkeyBinder::bind(queue::WqeCursor& c, Binding& b, const Bind& how,
                         const umr::UmrContext& context, const umr::Layout& layout) noexcept {
  if (!suits(*b.key_, layout)) return {Refusal::wrong_kind, 0, 0};
  const auto build = [&](queue::WqeCursor& at, const Mkey& key, uint8_t tag,
                         const umr::UmrWr& wr) noexcept {
    return umr::umr_layout(at, context, request(key, tag, how), layout, wr);
  };
  const Outcome o = bind_at(c, b, how, std::max(levels_of(how, layout), context.levels), build);
  if (o.ok()) adopt_entity_size(*b.key_, layout);
  return o;
}

// Claims a spare key for each item whose tags are used up. This comes before the dry run, as a
// spare may have another entry size.
Outcome MkeyBinder::claim_spares(std::span<const SwapItem> items) noexcept {
  uint32_t count = 0;
  for (const SwapItem& item : items) count += tags_used_up(*item.binding->key_) ? 1 : 0;
  for (uint32_t i = 0; i < count; i++) {
    Mkey* key = cache_.pop();
    if (key == nullptr) return {Refusal::no_key, count, i};
    key->next = spare_;
    spare_ = pool_.number_of(*key);
  }
  return {};
}

Outcome MkeyBinder::dry_run(std::span<const SwapItem> items,
                            const umr::UmrContext& context) noexcept {
  queue::WqeCursor c{sq_};
  uint32_t spare = spare_;
  for (const SwapItem& item : items) {
    Mkey* key = item.binding->key_;
    if (tags_used_up(*key)) {
      key = &pool_.at(spare);
      spare = key->next;
    }
    if (!suits(*key, item.view)) return {Refusal::wrong_kind, 0, 0};
    const uint32_t levels = levels_of(item.how, item.view);
    if (too_deep(levels)) return {Refusal::too_deep, levels, config_.max_indirection};
    Mkey& now = *item.binding->key_;
    now.set_levels(now.levels(), levels);
    const umr::ListRequest r = request(*key, 0, item.how);
    const umr::View* v = plain_inline(context, item.view);
    const Outcome o = v != nullptr ? dry_run_inline(c, context, r, *v)
                                   : umr::umr_layout(c, context, r, item.view, {});
    if (!o.ok()) return o;
  }
  return {};
}

Outcome MkeyBinder::swap(std::span<const SwapItem> items, uint64_t wr_id) noexcept {
  const umr::UmrContext context{.limits = {.max_indirection = 1}, .form = umr::Form::inline_list};
  return swap(items, context, wr_id);
}

Outcome MkeyBinder::swap(std::span<const SwapItem> items, const umr::UmrContext& context,
                         uint64_t wr_id) noexcept {
  owner_.check();
  if (failed_) return {Refusal::queue_failed, 0, 0};
  const uint64_t taken = context.memory == nullptr ? 0 : context.memory->allocated();
  Outcome o = claim_spares(items);
  if (o.ok()) o = dry_run(items, context);
  for (const SwapItem& item : items) item.binding->key_->set_levels(item.binding->key_->levels());
  if (context.memory != nullptr) context.memory->rewind(taken);
  if (o.ok()) o = post_swap(items, context, wr_id);
  while (spare_ != Mkey::none) return_to_cache(*claim_key());
  return o;
}

Outcome MkeyBinder::post_swap(std::span<const SwapItem> items, const umr::UmrContext& context,
                              uint64_t wr_id) noexcept {
  queue::WqeCursor c{sq_};
  umr::UmrContext each = context;
  each.levels = 1;  // the dry run has checked the depths
  const uint32_t begin = c.position();
  for (std::size_t i = 0; i < items.size(); i++) {
    Binding& b = *items[i].binding;
    Mkey& named = *b.key_;  // later items may name it by this handle
    const Lkey before = named.lkey;
    const uint32_t from = c.position();
    Bind how = items[i].how;
    how.owner_only = false;
    how.wr_id = wr_id;
    const Outcome o = bind(c, b, how, each, items[i].view);
    KILIM_ASSERT(o.ok());
    if (!o.ok()) return o;  // no doorbell was rung
    named.set_levels(b.key_->levels());
    b.key_->swapped_from = before.value();
    b.key_->set(Mkey::swapping);
    changes_[(head_ - 1) & mask_].swap = c.position() - begin;
    if (how.reads_keys) renew_entries(from, c.position(), items.first(i), context);
  }
  counters_.swaps.add(1);
  commit(c);
  return {};
}

// In the UMRs between two positions, gives entries that name a key of the swap its new handle. KLM,
// KSM and repeat-block entries all have the key at byte 4.
void MkeyBinder::renew_entries(uint32_t from, uint32_t to, std::span<const SwapItem> before,
                               const umr::UmrContext& context) noexcept {
  const queue::SqGeometry& sq = sq_.geometry();
  const auto block = [&sq](uint32_t position) noexcept {
    return sq.buf + std::size_t{position & (sq.wqebb_count - 1)} * wqebb_bytes;
  };
  const auto renew = [before](std::byte* entry) noexcept {
    constexpr std::size_t key_at = 4;
    be32 key;
    std::memcpy(&key, entry + key_at, sizeof(key));
    if (key == be32{prm::repeat_block_op}) return;  // the header of a strided list, not an entry
    for (const SwapItem& s : before)
      if (key == be32{s.binding->key_->swapped_from})
        queue::store_word(entry + key_at, be32{s.binding->key_->lkey.value()});
  };
  constexpr uint32_t a_line = umr::klms_per_line;
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
      std::byte* const entries = context.memory->memory_at(list.addr.host());
      for (uint32_t i = 0; i < count; i++) renew(entries + std::size_t{i} * octoword_bytes);
    }
    at += wqebbs_for(Octowords{prm::ctrl::ds::get(ctrl)}).value();
  }
}

}  // namespace kilim::inline v1::mkey
