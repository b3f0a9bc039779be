// SPDX-License-Identifier: BSD-3-Clause
// The cold part of relaxed regions: their engine's making and end, memory that no arena covers,
// regions of several entries, and the sentences.
#include "kilim/detail/relaxed/relaxed.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/base/units.hh"

namespace kilim::inline v1::relaxed {
namespace {

struct Row {
  Answer answer;
  int code;
  const char* sentence;
};

constexpr Row rows[] = {
    {Answer::done, 0, "registered"},
    {Answer::dry, EAGAIN, "no key is free; those that were deregistered are being invalidated"},
    {Answer::no_room, EAGAIN, "the send queue is full"},
    {Answer::bad_range, EINVAL, "the memory is empty or wraps"},
    {Answer::bad_access, EINVAL,
     "a relaxed region has the rights to local writing, remote writing, reading and, where UMRs "
     "can give it, atomics, and the first goes with the others that write"},
    {Answer::not_covered, ENOMEM, "the memory is under no key and cannot be registered"},
    {Answer::too_long, EINVAL, "the memory needs more entries than a key has"},
    {Answer::queue_failed, EIO, "the send queue had an error and has not been recovered"},
};

const Row& row_of(Answer a) noexcept {
  for (const Row& row : rows)
    if (row.answer == a) return row;
  return rows[0];
}

}  // namespace

int errno_of(Answer a) noexcept {
  return row_of(a).code;
}

const char* text(Answer a) noexcept {
  return row_of(a).sentence;
}

Result<std::unique_ptr<Relaxed>> Relaxed::create(mkey::MkeyBinder& binder, const Config& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const uint32_t page = config.page_bytes;
  if (config.keys == 0 || config.flush_share == 0)
    return Error{EINVAL, "relaxed regions need the number of their keys and a share of them"};
  if (page == 0 || (page & (page - 1)) != 0) return Error{EINVAL, "a page is a power of two"};
  std::unique_ptr<Relaxed> made{new Relaxed(binder, config)};
  made->grow(config.keys);
  return made;
}

Relaxed::Relaxed(mkey::MkeyBinder& binder, const Config& config)
    : binder_(binder),
      cover_(config.registrar),
      rights_(config.rights | mr::Access::relaxed_ordering),
      page_mask_(config.page_bytes - 1),
      flush_share_(config.flush_share) {}

// The ring has a place for every key, as all of them may wait for their invalidation at once.
void Relaxed::grow(uint32_t keys) {
  share_ = keys / flush_share_ + 1;
  uint32_t slots = 1;
  while (slots <= keys) slots *= 2;
  if (ended_ != nullptr && slots <= mask_ + 1) return;
  auto larger = std::make_unique<Ended[]>(slots);
  for (uint32_t i = tail_; i != head_; i++) larger[i & (slots - 1)] = std::move(ended_[i & mask_]);
  ended_ = std::move(larger);
  mask_ = slots - 1;
}

Relaxed::~Relaxed() {
  KILIM_ASSERT(live_ == 0);
}

Arena* Relaxed::cover_more(uint64_t address, uint64_t bytes, uint32_t access) noexcept {
  const uint64_t begin = address & ~page_mask_;
  auto* const first = reinterpret_cast<std::byte*>(begin);
  const Result<Arena*> made = cover_.make({first, address + bytes - begin}, access);
  if (made) return *made;
  refusal_ = made.error().code;
  return nullptr;
}

// A region of more than one entry (over 2 GiB), posted with a doorbell of its own.
Answer Relaxed::bind_long(Request r, Region& out) noexcept {
  umr::PieceList<umr::max_inline_klms> pieces;
  const mr::Region& under = out.arena_->region;
  if (!pieces.add(under.lkey, under.iova + (r.address - under.address), out.bytes_))
    return Answer::too_long;
  queue::WqeCursor c{binder_.sq()};
  const Answer a = answer(binder_.bind(c, out.key_, how(r), pieces.view()));
  binder_.commit(c);
  return a;
}

// Takes back a registration of which nothing was posted.
Answer Relaxed::undo(Region& out, Answer why) noexcept {
  out.key_.end();
  if (out.maker_) cover_.close(*out.arena_);
  return why;
}

// No key is free. Queues the invalidation of all marked regions, so that a later call finds keys.
Answer Relaxed::dry() noexcept {
  counters_.dry.add(1);
  if (head_ != dropped_) {
    destroy_marked();
    counters_.flushes.add(1);
  }
  return Answer::dry;
}

}  // namespace kilim::inline v1::relaxed
