// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions: memory registered by a work request instead of a system call. A region is an
// indirect mkey over a part of a registered arena (cover.hh); its access reaches to the end of its
// last page. Deregistering only marks it; flush() invalidates marked regions, and the engine does
// so itself when a share of its keys is marked. A key is used again, under a new tag, when it is
// invalid and nobody can hold its handle (mkey/epoch.hh). Owner: the worker of the binder's queue;
// made by the control thread. Within an arena nothing allocates, blocks, logs or calls the system.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/relaxed/answer.hh"
#include "kilim/detail/relaxed/cover.hh"

namespace kilim::inline v1::relaxed {

struct Config {
  uint32_t keys = 0;                   // keys of the binder's pool
  mr::Registrar* registrar = nullptr;  // registers memory outside the arenas; null: not_covered
  uint32_t rights = mr::Access::all;   // rights that a UMR can set (UmrLimits::change_atomic)
  uint32_t page_bytes = 4096;          // regions are extended to a multiple of it; a power of two
  uint32_t flush_share = 4;            // flushes when 1/flush_share of the keys is deregistered
};

// Counts since create(). The worker adds, any thread reads.
struct Counters {
  Counter registered;
  Counter deregistered;
  Counter invalidated;
  Counter dry;      // registrations refused with EAGAIN
  Counter flushes;  // flushes that the engine began itself
};

// A relaxed region, move-only; Relaxed::deregister() takes it before it is destroyed.
class [[nodiscard]] Region {
 public:
  Region() = default;
  Region(Region&&) = default;
  Region& operator=(Region&&) = default;
  ~Region() { KILIM_ASSERT(!key_); }

  explicit operator bool() const noexcept { return static_cast<bool>(key_); }
  // The registration has completed: any queue and any peer may use the keys.
  [[nodiscard]] bool valid() const noexcept { return key_.valid(); }
  // The device refused the registration, or the queue failed: the region can only be deregistered.
  [[nodiscard]] bool failed() const noexcept {
    return key_.state() != mkey::MkeyState::valid && key_.state() != mkey::MkeyState::posted;
  }
  [[nodiscard]] Lkey lkey() const noexcept { return key_.lkey(); }
  [[nodiscard]] Rkey rkey() const noexcept { return key_.rkey(); }
  // The key for the WQE that is appended next at `c`, a cursor of the same queue.
  [[nodiscard]] Lkey lkey_behind(const queue::WqeCursor& c) noexcept { return key_.lkey_behind(c); }
  [[nodiscard]] uint64_t address() const noexcept { return address_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }  // rounded up to whole pages
  // Asked before a queue uses the region for the first time. Any queue may use pinned memory;
  // on-demand memory needs a device that pages for these operations, else an unreliable queue loses
  // data silently. EOPNOTSUPP: the sentence names the missing capability.
  [[nodiscard]] Status usable(const mr::OdpCaps& caps, std::span<const mr::OdpUse> uses) const {
    return arena_->region.paged() ? mr::odp_refusal(caps, true, uses) : Status{Done{}};
  }

 private:
  friend class Relaxed;
  mkey::Binding key_;
  Arena* arena_ = nullptr;
  uint64_t address_ = 0;
  uint64_t bytes_ = 0;
  bool maker_ = false;
};

// The engine of one binder's relaxed regions.
class Relaxed {
 public:
  // Control thread. The binder outlives the engine and has InvalidatePolicy::at_once. EINVAL,
  // ENOMEM.
  static Result<std::unique_ptr<Relaxed>> create(mkey::MkeyBinder& binder, const Config& config);
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;
  // All regions are deregistered, and the binder's queue is gone.
  ~Relaxed();

  [[nodiscard]] Cover& cover() noexcept { return cover_; }
  // Called by the control thread, while the worker is away: the binder's pool has `keys` keys now.
  void grow(uint32_t keys);
  struct Request {
    uint64_t address = 0;  // of this process; the region's keys count from it
    uint64_t bytes = 0;
    uint32_t access = 0;  // mr::Access bits
    uint64_t wr_id = 0;   // of the UMR
  };
  // Appends the registration and fills `out`, which is empty. `access`: mr::Access bits. The next
  // WQE of this queue may use the region, others once out.valid().
  Answer register_memory(queue::WqeCursor& c, const Request& r, Region& out) noexcept;
  // Marks the region for invalidation. Until a flush holders of its keys can access the memory.
  void deregister(Region&& region) noexcept;
  // Rings the doorbell for what was appended and for queued invalidations.
  void commit(queue::WqeCursor& c) noexcept { binder_.commit(c); }
  // Invalidates everything that was deregistered, as far as the queue has room. True: all of it is
  // invalid; false: call again when the binder has handled completions.
  bool flush() noexcept;
  // Called once a round, after the completions: keys that nobody can use return to the pool.
  void poll() noexcept;

  // Regions that are deregistered but not known to be invalid.
  [[nodiscard]] uint32_t waiting() const noexcept { return head_ - tail_; }
  [[nodiscard]] uint32_t live() const noexcept { return live_; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] mkey::MkeyBinder& binder() noexcept { return binder_; }
  // The errno of the registration that failed for the last Answer::not_covered.
  [[nodiscard]] int refusal() const noexcept { return refusal_; }

 private:
  struct Ended {
    mkey::Binding key;
    Arena* arena = nullptr;
  };
  Relaxed(mkey::MkeyBinder& binder, const Config& config);
  [[nodiscard]] bool access_ok(uint32_t access) const noexcept;
  // Cold. They get copies, so that the caller's values stay in registers.
  [[gnu::noinline]] Arena* cover_more(uint64_t address, uint64_t bytes, uint32_t access) noexcept;
  [[gnu::noinline]] Answer bind_long(Request r, Region& out) noexcept;
  [[gnu::noinline]] Answer undo(Region& out, Answer why) noexcept;
  [[nodiscard]] mkey::Bind how(const Request& r) const noexcept {
    return {.access = umr::mkey_access(r.access),
            .has_start = true,
            .start = r.address,
            .reads_keys = false,
            .owner_only = false,
            .wr_id = r.wr_id,
            .levels = 1};
  }
  static Answer answer(const Outcome& o) noexcept;
  [[gnu::noinline]] Answer dry() noexcept;
  void destroy_marked() noexcept;
  void reap() noexcept;

  mkey::MkeyBinder& binder_;
  Cover cover_;
  uint32_t rights_;
  uint64_t page_mask_;
  uint32_t flush_share_;
  uint32_t share_ = 0;
  uint32_t live_ = 0;
  // A ring of deregistered regions: [tail_, dropped_) are being invalidated, [dropped_, head_)
  // marked.
  std::unique_ptr<Ended[]> ended_;
  uint32_t mask_ = 0;
  uint32_t head_ = 0, dropped_ = 0, tail_ = 0;
  bool closed_arena_ = false;  // an arena is closed, so poll() tries to release it
  int refusal_ = 0;
  Counters counters_;
};

// Remote writing requires local writing, as in ibv_reg_mr().
inline bool Relaxed::access_ok(uint32_t access) const noexcept {
  constexpr uint32_t writes = mr::Access::remote_write | mr::Access::remote_atomic;
  return (access & ~rights_) == 0 &&
         ((access & writes) == 0 || (access & mr::Access::local_write) != 0);
}

inline Answer Relaxed::answer(const Outcome& o) noexcept {
  switch (o.why) {
    case Refusal::none:
      return Answer::done;
    case Refusal::no_room:
      return Answer::no_room;
    case Refusal::queue_failed:
      return Answer::queue_failed;
    case Refusal::no_key:
      return Answer::dry;
    default:
      return Answer::too_long;
  }
}

[[gnu::always_inline]] inline Answer Relaxed::register_memory(queue::WqeCursor& c, const Request& r,
                                                              Region& out) noexcept {
  KILIM_ASSERT(!out);
  const uint64_t end = (r.address + r.bytes + page_mask_) & ~page_mask_;
  if (r.bytes == 0 || r.address + r.bytes < r.address || end <= r.address) [[unlikely]]
    return Answer::bad_range;
  if (!access_ok(r.access)) [[unlikely]]
    return Answer::bad_access;
  mkey::Binding key = binder_.claim();
  if (!key) [[unlikely]]
    return dry();
  const uint64_t bytes = end - r.address;
  const uint32_t rights = r.access & mr::Access::all;
  Arena* arena = cover_.find(r.address, bytes, rights);
  const bool covered = arena != nullptr;
  if (!covered) [[unlikely]] {
    arena = cover_more(r.address, bytes, rights);
    if (arena == nullptr) return Answer::not_covered;
  }
  out.key_.start(std::move(key));
  out.arena_ = arena;
  out.address_ = r.address;
  out.bytes_ = bytes;
  out.maker_ = !covered && arena->keeper == Keeper::maker;
  Answer a = Answer::done;
  if (bytes > prm::umr::max_piece_bytes) [[unlikely]] {
    binder_.commit(c);
    a = bind_long(r, out);
    c.reload();
  } else {
    const uint64_t iova = arena->region.iova + (r.address - arena->region.address);
    const umr::Piece piece{iova, static_cast<uint32_t>(bytes), arena->region.lkey};
    a = answer(binder_.bind(c, out.key_, how(r), umr::View{&piece, 1, bytes}));
  }
  if (a != Answer::done) [[unlikely]]
    return undo(out, a);
  arena->users++;
  live_++;
  counters_.registered.add(1);
  return Answer::done;
}

inline void Relaxed::deregister(Region&& region) noexcept {
  KILIM_ASSERT(region && head_ - tail_ <= mask_);
  if (region.maker_) [[unlikely]]
    region.arena_->open = false;
  ended_[head_++ & mask_] = {std::move(region.key_), region.arena_};
  live_--;
  counters_.deregistered.add(1);
  if (head_ - dropped_ >= share_) [[unlikely]] {
    destroy_marked();
    counters_.flushes.add(1);
  }
}

// Queues their invalidations for the next doorbell.
inline void Relaxed::destroy_marked() noexcept {
  for (; dropped_ != head_; dropped_++) binder_.invalidate(ended_[dropped_ & mask_].key);
}

// Completes invalidations in the order of posting; the binder repeats one that failed.
inline void Relaxed::reap() noexcept {
  const uint32_t from = tail_;
  for (; tail_ != dropped_; tail_++) {
    Ended& e = ended_[tail_ & mask_];
    if (e.key.state() != mkey::MkeyState::free) break;
    e.key.end();
    e.arena->users--;
    if (!e.arena->open) closed_arena_ = true;
  }
  counters_.invalidated.add(tail_ - from);
}

inline bool Relaxed::flush() noexcept {
  destroy_marked();
  (void)binder_.flush();
  reap();
  return tail_ == dropped_;
}

inline void Relaxed::poll() noexcept {
  if (binder_.invalidations_due() != 0) (void)binder_.flush();
  reap();
  binder_.poll();
  cover_.follow_eal();
  if (closed_arena_) [[unlikely]] {
    cover_.release_unused();
    closed_arena_ = false;
  }
}

}  // namespace kilim::inline v1::relaxed
